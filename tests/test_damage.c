/* Damaged files: an error or exactly the right values, never anything else. */
#include "store_fixture.h"
#include "suite.h"

#include "../store/manifest/manifest.h"
#include "../store/objects/segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

START_TEST(damaged_record) {
  static const uint64_t part_rows[] = {40, 40};
  maker_csr x[2];
  const maker_csr *parts[2];
  for (int i = 0; i < 2; i++) {
    x[i] = maker_random((uint64_t)i + 5, 40, 30, 29, ANNB_F32, MAKER_SORTED);
    parts[i] = &x[i];
  }
  maker_matrix m = {.name = "X", .dtype = ANNB_F32, .n_cols = 30, .segment_rows = 20, .parts = parts};
  maker_store(&(maker_spec){.path = store_path, .n_vars = 30, .n_parts = 2, .part_rows = part_rows, .matrices = &m, .n_matrices = 1});
  annb_segment *segment = NULL;
  char *file = NULL;
  for (size_t i = 0; i < 4; i++) { /* the last part's second segment */
    free(file);
    annb_segment_close(segment);
    file = maker_object(store_path, ".anns", i);
    OK(annb_segment_open(file, &segment, &err));
    if (segment->header.row_base == 20 && segment->header.tag[0] == 2) break;
  }
  uint64_t row = 3; /* of the segment, the first that has elements */
  while (x[1].indptr[20 + row] == x[1].indptr[21 + row]) row++;
  annb_record_ref record;
  OK(annb_segment_locate(segment, row, &record, &err));
  maker_write_at(file, (size_t)(record.data - segment->map.data) + record.length - 1, "\x41", 1);
  annb_segment_close(segment);
  annb_store *store = open_store();
  char text[64];
  snprintf(text, sizeof text, "store row %llu (segment row %llu)", (unsigned long long)(60 + row), (unsigned long long)row);
  for (uint64_t i = 0; i < 80; i++) {
    bool equal = false;
    annb_status s = maker_read_row(store, context, &x[i / 40], i, i % 40, &equal, &err);
    if (i != 60 + row) {
      ck_assert(s == ANNB_OK && equal);
      continue;
    }
    uint8_t dense[30 * 4];
    ck_assert_int_eq(s, ANNB_ECORRUPT);
    ck_assert_int_eq(err.row, (int64_t)i);
    ck_assert_str_eq(err.path, file);
    ck_assert_ptr_nonnull(strstr(err.message, file));
    ck_assert_ptr_nonnull(strstr(err.message, text));
    FAILS(annb_fetch_dense(store, context, 0, &i, 1, NULL, dense, 0, sizeof dense, &err), ANNB_ECORRUPT);
    ck_assert_int_eq(err.row, (int64_t)i);
  }
  annb_store_close(store);
  /* who asks for no checks gets what is there */
  bool equal = true;
  OK(annb_store_open(store_path, &(annb_open_options){.skip_checks = true}, &store, &err));
  OK(maker_read_row(store, context, &x[1], 60 + row, 20 + row, &equal, &err));
  ck_assert(!equal);
  annb_store_close(store);
  free(file);
  for (int i = 0; i < 2; i++) maker_free(&x[i]);
}
END_TEST

static uint32_t two_columns(annb_txn *txn, uint32_t part, void *user) {
  annb_arrays_writer *w;
  annb_string_writer *strings;
  uint32_t object, offsets, bytes, values, column;
  (void)part;
  (void)user;
  OK(annb_arrays_writer_open(txn, &w, &err));
  OK(annb_strings_begin(w, &strings, &err));
  for (char i = 0; i < 12; i++) OK(annb_strings_append(strings, (char[]){'a', (char)('a' + i)}, 2, &err));
  OK(annb_strings_end(strings, &offsets, &bytes, &err));
  annb_column_spec spec = {"name", 12, ANNB_AXIS_OBS, ANNB_COLUMN_STRING, ANNB_COLUMN_INDEX, offsets, bytes, ANNB_NONE, ANNB_NONE};
  OK(annb_arrays_add_column(w, &spec, &column, &err));
  OK(annb_arrays_begin(w, "", ANNB_U8, 1, &values, &err));
  OK(annb_arrays_append(w, "twelve bytes", 12, &err));
  OK(annb_arrays_end(w, &err));
  spec = (annb_column_spec){"u8", 12, ANNB_AXIS_OBS, ANNB_COLUMN_FIXED, 0, values, ANNB_NONE, ANNB_NONE, ANNB_NONE};
  OK(annb_arrays_add_column(w, &spec, &column, &err));
  OK(annb_arrays_writer_close(w, &object, &err));
  return object;
}

static annb_status read_columns(const annb_store *store, bool *equal, annb_error *e) {
  const annb_column *column;
  annb_column_info info;
  const char *bytes;
  const void *values;
  uint64_t length;
  annb_status s = annb_part_index_column(store, 0, ANNB_AXIS_OBS, &column, e);
  for (uint64_t i = 0; !s && i < 12; i++) {
    s = annb_column_string(column, i, &bytes, &length, NULL, e);
    if (!s) *equal &= length == 2 && bytes[0] == 'a' && bytes[1] == (char)('a' + i);
  }
  if (!s) s = annb_part_column(store, 0, ANNB_AXIS_OBS, 1, &column, e);
  if (s) return s;
  annb_column_get_info(column, &info);
  *equal &= info.length == 12 && info.dtype == ANNB_U8 && !strcmp(info.name, "u8");
  s = annb_column_values(column, 0, 12, &values, NULL, e);
  if (!s) *equal &= !memcmp(values, "twelve bytes", 12);
  return s;
}

/* Everything in the store; ANNB_OK only when all of it could be read. */
static annb_status read_everything(const maker_csr *x, bool skip_checks, bool *equal) {
  annb_store *store = NULL;
  annb_error e = {.status = ANNB_OK};
  annb_store_info info;
  annb_matrix_info matrix;
  *equal = true;
  annb_status s = annb_store_open(store_path, &(annb_open_options){.skip_checks = skip_checks}, &store, &e);
  if (!s) {
    annb_store_get_info(store, &info);
    *equal = info.n_obs == x->n_rows && info.generation == 1;
    s = annb_store_matrix(store, 0, &matrix, &e);
  }
  if (!s) *equal &= matrix.nnz == x->indptr[x->n_rows] && matrix.n_cols == x->n_cols;
  if (!s) *equal &= matrix.dtype == x->dtype && !strcmp(matrix.name, "X");
  for (uint64_t i = 0; !s && i < x->n_rows; i++) {
    bool same = true;
    s = maker_read_row(store, context, x, i, i, &same, &e);
    *equal &= same;
  }
  if (!s) s = read_columns(store, equal, &e);
  annb_store_close(store);
  if (s) ck_assert(e.status == s && e.message[0]);
  return s;
}

static void flip_file(const char *file, const maker_csr *x, size_t *found) {
  size_t size;
  uint8_t *bytes = maker_read_file(file, &size);
  int fd;
  bool equal;
  maker_writable(file);
  FILE *f = fopen(file, "r+b");
  ck_assert_ptr_nonnull(f);
  fd = fileno(f);
  for (size_t i = 0; i < size; i++) {
    uint8_t damaged = bytes[i] ^ (uint8_t)(i % 3 ? 1U << i % 8 : 0xFF);
    ck_assert_int_eq(pwrite(fd, &damaged, 1, (off_t)i), 1);
    annb_status s = read_everything(x, false, &equal);
    ck_assert_msg(s != ANNB_OK || equal, "%s: byte %zu: wrong values", file, i);
    if (s) {
      ++*found;
      read_everything(x, true, &equal); /* any result, but no crash */
    }
    ck_assert_int_eq(pwrite(fd, bytes + i, 1, (off_t)i), 1);
  }
  fclose(f);
  free(bytes);
}

START_TEST(every_byte_flipped) {
  static const uint64_t rows = 12;
  maker_csr x = maker_random(8, 12, 20, 9, ANNB_F32, MAKER_REPEATS);
  const maker_csr *parts[] = {&x};
  maker_matrix m = {.name = "X", .dtype = ANNB_F32, .n_cols = 20, .parts = parts};
  maker_store(&(maker_spec){
      .path = store_path, .n_vars = 20, .n_parts = 1, .part_rows = &rows, .matrices = &m, .n_matrices = 1, .columns = two_columns});
  bool equal;
  ck_assert_int_eq(read_everything(&x, false, &equal), ANNB_OK);
  ck_assert(equal);
  char *files[] = {annb_manifest_path(store_path, 1), maker_object(store_path, ".annc", 0), maker_object(store_path, ".anns", 0)};
  for (int i = 0; i < 3; i++) {
    size_t found = 0;
    flip_file(files[i], &x, &found);
    ck_assert_uint_gt(found, 500); /* all but padding */
    free(files[i]);
  }
  ck_assert_int_eq(read_everything(&x, false, &equal), ANNB_OK);
  ck_assert(equal);
  maker_free(&x);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("damage");
  TCase *tc = tcase_create("damage");
  tcase_set_timeout(tc, 300);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, damaged_record);
  tcase_add_test(tc, every_byte_flipped);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
