/* Flat arrays: written, read back, damaged, and with every rule of the tables broken in turn. */
#include "../store/objects/arrays.h"
#include "../store/cursor.h"
#include "../store/error.h"
#include "../store/commit/txn.h"
#include "reseal.h"
#include "suite.h"
#include "temp.h"

#include <annblock/annblock.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

static char *dir, *store, *file;
static annb_txn *txn;
static annb_error err;

#define OK(call) ck_assert_msg((call) == ANNB_OK, "%s: %s", #call, err.message)

static void setup(void) {
  dir = temp_make();
  store = annb_io_join(dir, "s");
  file = annb_io_join(dir, "copy");
  memset(&err, 0, sizeof err);
  signal(SIGXFSZ, SIG_IGN);
  OK(annb_txn_begin(store, ANNB_TXN_CREATE, &txn, &err));
}

static void teardown(void) {
  annb_txn_abort(txn);
  ck_assert(!temp_exists(store)); /* whatever a test did */
  free(store);
  free(file);
  temp_remove(dir);
  free(dir);
}

/* ---- a file to work with ---- */

typedef struct written {
  uint32_t codes, mask, offsets, bytes, pca, order, category_column, cell_type, name, empty_column;
} written;

static const char *const cell_names[] = {"AAACCTG-1", "", "g\xC3\xA9n", "AAACCTG-4"};
static const uint8_t mask_of_strings[] = {0, 1, 0, 0};
static const int8_t codes_of_cells[] = {1, -1, 0, 1};

static uint32_t add_array(annb_arrays_writer *w, const char *name, annb_dtype dtype, uint64_t n_cols, const void *rows, uint64_t n_rows) {
  uint32_t array;
  OK(annb_arrays_begin(w, name, dtype, n_cols, &array, &err));
  OK(annb_arrays_append(w, rows, n_rows, &err));
  OK(annb_arrays_end(w, &err));
  return array;
}

static void add_strings(annb_arrays_writer *w, const char *const *values, size_t n, uint32_t *offsets, uint32_t *bytes) {
  annb_string_writer *s;
  OK(annb_strings_begin(w, &s, &err));
  for (size_t i = 0; i < n; i++) OK(annb_strings_append(s, values[i], strlen(values[i]), &err));
  OK(annb_strings_end(s, offsets, bytes, &err));
}

static annb_column_spec column(const char *name, uint64_t length, annb_axis axis, annb_column_kind kind) {
  annb_column_spec c = {.name = name, .length = length, .axis = axis, .kind = kind};
  c.values = c.bytes = c.mask = c.categories = ANNB_NONE;
  return c;
}

static written write_small(annb_arrays_writer *w) {
  static const char *const categories[] = {"B cell", "T cell"};
  static const double pca[] = {0.5, -0.0, 1e300, 3, 4, 5, 6, 7};
  static const uint64_t order[] = {3, 0, 2, 1};
  written out;
  uint32_t offsets, bytes;
  add_strings(w, categories, 2, &offsets, &bytes);
  annb_column_spec c = column("cell_type", 2, ANNB_AXIS_NONE, ANNB_COLUMN_STRING);
  c.values = offsets;
  c.bytes = bytes;
  OK(annb_arrays_add_column(w, &c, &out.category_column, &err));
  add_strings(w, cell_names, 4, &out.offsets, &out.bytes);
  out.mask = add_array(w, "", ANNB_BOOL, 1, mask_of_strings, 4);
  c = column("_index", 4, ANNB_AXIS_OBS, ANNB_COLUMN_STRING);
  c.values = out.offsets;
  c.bytes = out.bytes;
  c.mask = out.mask;
  c.flags = ANNB_COLUMN_INDEX;
  OK(annb_arrays_add_column(w, &c, &out.name, &err));
  out.codes = add_array(w, "", ANNB_I8, 1, codes_of_cells, 4);
  c = column("cell_type", 4, ANNB_AXIS_OBS, ANNB_COLUMN_CATEGORICAL);
  c.values = out.codes;
  c.categories = out.category_column;
  c.flags = ANNB_COLUMN_ORDERED;
  OK(annb_arrays_add_column(w, &c, &out.cell_type, &err));
  out.pca = add_array(w, "pca", ANNB_F64, 2, pca, 4);
  out.order = add_array(w, "row_order", ANNB_U64, 1, order, 4);
  add_strings(w, NULL, 0, &offsets, &bytes);
  c = column("", 0, ANNB_AXIS_VAR, ANNB_COLUMN_STRING);
  c.values = offsets;
  c.bytes = bytes;
  OK(annb_arrays_add_column(w, &c, &out.empty_column, &err));
  return out;
}

static annb_arrays_writer *open_writer(void) {
  annb_arrays_writer *w;
  OK(annb_arrays_writer_open(txn, &w, &err));
  return w;
}

/* Close, and copy the object's bytes to `file`. */
static void close_writer(annb_arrays_writer *w) {
  uint32_t object;
  uint8_t sha[ANNB_SHA256_SIZE];
  size_t size;
  OK(annb_arrays_writer_close(w, &object, &err));
  annb_manifest *m = annb_txn_manifest(txn);
  OK(annb_txn_object_sha256(txn, object, sha, &err));
  char **names;
  size_t n;
  OK(annb_io_list(annb_txn_tmp_dir(txn), &names, &n, &err));
  for (size_t i = 0; i < n; i++) {
    char *path = annb_io_join(annb_txn_tmp_dir(txn), names[i]);
    uint8_t *data = temp_read(path, &size), digest[ANNB_SHA256_SIZE];
    annb_sha256 state;
    annb_sha256_init(&state);
    annb_sha256_update(&state, data, size);
    annb_sha256_final(&state, digest);
    if (!memcmp(digest, sha, sizeof sha)) {
      ck_assert_uint_eq(m->objects[object].size, size);
      ck_assert_uint_eq(m->objects[object].kind, ANNB_OBJECT_ARRAYS);
      annb_fmt_trailer t = reseal_trailer(data, size);
      ck_assert_int_eq(memcmp(t.footer_hash, m->objects[object].footer_hash, 16), 0);
      temp_write(file, data, size);
    }
    free(data);
    free(path);
  }
  annb_io_free_names(names, n);
  ck_assert(temp_exists(file));
}

static written make_small(void) {
  annb_arrays_writer *w = open_writer();
  written out = write_small(w);
  close_writer(w);
  return out;
}

static bool count_finding(void *user, const annb_error *finding) {
  if (finding->status != ANNB_ECORRUPT || strncmp(finding->message, file, strlen(file))) ck_abort_msg("%s", finding->message);
  ++*(int *)user;
  return true;
}

static int verify(annb_arrays *a) {
  int n = 0;
  annb_arrays_verify(a, count_finding, &n);
  return n;
}

static annb_arrays *open_file(void) {
  annb_arrays *a;
  OK(annb_arrays_open(file, &a, &err));
  return a;
}

static const void *view(annb_arrays *a, uint32_t array, uint64_t first, uint64_t n) {
  const void *data;
  OK(annb_arrays_view(a, array, first, n, &data, &err));
  return data;
}

START_TEST(round_trip) {
  written w = make_small();
  annb_arrays *a = open_file();
  uint32_t array;
  ck_assert_uint_eq(a->n_columns, 4);
  ck_assert_uint_eq(a->n_arrays, 10);
  ck_assert_int_eq(verify(a), 0);
  annb_fmt_column c = annb_arrays_column(a, w.cell_type);
  ck_assert_int_eq(memcmp(a->names + c.name_offset, "cell_type", c.name_length), 0);
  ck_assert(c.axis == ANNB_AXIS_OBS && c.kind == ANNB_COLUMN_CATEGORICAL && c.flags == ANNB_COLUMN_ORDERED && c.length == 4);
  ck_assert(c.categories == w.category_column && c.bytes == ANNB_NONE && c.mask == ANNB_NONE);
  ck_assert_int_eq(memcmp(view(a, c.values, 0, 4), codes_of_cells, 4), 0);
  ck_assert_int_eq(memcmp(view(a, c.values, 2, 2), codes_of_cells + 2, 2), 0);
  c = annb_arrays_column(a, w.name);
  ck_assert_int_eq(memcmp(view(a, c.mask, 0, 4), mask_of_strings, 4), 0);
  const uint64_t *offsets = view(a, c.values, 0, 5);
  const char *bytes = view(a, c.bytes, 0, annb_arrays_array(a, c.bytes).n_rows);
  for (size_t i = 0; i < 4; i++) {
    ck_assert_uint_eq(offsets[i + 1] - offsets[i], strlen(cell_names[i]));
    ck_assert_int_eq(memcmp(bytes + offsets[i], cell_names[i], strlen(cell_names[i])), 0);
  }
  OK(annb_arrays_find(a, "pca", &array, &err));
  ck_assert_uint_eq(array, w.pca);
  ck_assert_uint_eq(annb_arrays_array(a, array).n_cols, 2);
  const double *pca = view(a, array, 1, 2);
  ck_assert((uintptr_t)pca % sizeof *pca == 0 && pca[0] == 1e300 && pca[3] == 5);
  ck_assert_int_eq(annb_arrays_find(a, "pc", &array, &err), ANNB_ENOTFOUND);
  ck_assert_int_eq(annb_arrays_find(a, "", &array, &err), ANNB_ENOTFOUND);
  annb_arrays_close(a);
  annb_arrays_close(NULL);
}
END_TEST

START_TEST(zero_rows) {
  written w = make_small();
  annb_arrays *a = open_file();
  annb_fmt_column c = annb_arrays_column(a, w.empty_column);
  ck_assert_uint_eq(c.length, 0);
  ck_assert_uint_eq(c.name_length, 0);
  ck_assert_uint_eq(*(const uint64_t *)view(a, c.values, 0, 1), 0);
  ck_assert_ptr_nonnull(view(a, c.bytes, 0, 0));
  annb_arrays_close(a);
}
END_TEST

START_TEST(nothing_at_all) {
  annb_arrays_writer *w = open_writer();
  const void *data;
  close_writer(w);
  annb_arrays *a = open_file();
  ck_assert(a->n_arrays == 0 && a->n_columns == 0 && a->n_chunks == 0 && a->names_length == 0);
  ck_assert_int_eq(verify(a), 0);
  ck_assert_int_eq(annb_arrays_view(a, 0, 0, 0, &data, &err), ANNB_ERANGE);
  annb_arrays_close(a);
}
END_TEST

START_TEST(arrays_without_columns) {
  annb_arrays_writer *w = open_writer();
  uint32_t none = add_array(w, "none", ANNB_F32, 0, "", 5), some = add_array(w, "some", ANNB_U8, 1, "abc", 3);
  close_writer(w);
  annb_arrays *a = open_file();
  ck_assert_uint_eq(annb_arrays_array(a, none).n_rows, 5);
  ck_assert_ptr_nonnull(view(a, none, 0, 5));
  ck_assert_int_eq(memcmp(view(a, some, 0, 3), "abc", 3), 0);
  ck_assert_int_eq(verify(a), 0);
  annb_arrays_close(a);
}
END_TEST

START_TEST(ranges) {
  written w = make_small();
  annb_arrays *a = open_file();
  const void *data;
  const uint64_t bad[][2] = {{0, 5}, {4, 1}, {5, 0}, {UINT64_MAX, 1}, {UINT64_MAX, UINT64_MAX}, {1, UINT64_MAX}, {3, 2}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ck_assert_int_eq(annb_arrays_view(a, w.codes, bad[i][0], bad[i][1], &data, &err), ANNB_ERANGE);
    ck_assert_int_eq(annb_arrays_view(a, w.pca, bad[i][0], bad[i][1], &data, &err), ANNB_ERANGE);
  }
  ck_assert_int_eq(annb_arrays_view(a, 10, 0, 0, &data, &err), ANNB_ERANGE);
  ck_assert_int_eq(annb_arrays_view(a, ANNB_NONE, 0, 0, &data, &err), ANNB_ERANGE);
  OK(annb_arrays_view(a, w.codes, 4, 0, &data, &err));
  annb_arrays_close(a);
}
END_TEST

/* ---- large ---- */

enum { N_LARGE = 36000 };

/* 160 kB of numbers in calls of `step` rows, and as many strings as need a temporary file for their offsets. */
static void write_large(annb_arrays_writer *w, uint64_t step) {
  uint32_t *values = malloc(N_LARGE * sizeof *values), array, offsets, bytes, row;
  annb_string_writer *s;
  char text[32];
  for (uint32_t i = 0; i < N_LARGE; i++) values[i] = i * 2654435761u;
  OK(annb_arrays_begin(w, "numbers", ANNB_U32, 1, &array, &err));
  for (uint64_t at = 0; at < N_LARGE; at += step) OK(annb_arrays_append(w, values + at, step < N_LARGE - at ? step : N_LARGE - at, &err));
  OK(annb_arrays_end(w, &err));
  OK(annb_strings_begin(w, &s, &err));
  for (uint32_t i = 0; i < N_LARGE; i++) {
    snprintf(text, sizeof text, "%u", i % 1000 == 999 ? 0 : values[i]);
    OK(annb_strings_append(s, text, i % 1000 == 999 ? 0 : strlen(text), &err));
  }
  OK(annb_strings_end(s, &offsets, &bytes, &err));
  annb_column_spec c = column("names", N_LARGE, ANNB_AXIS_OBS, ANNB_COLUMN_STRING);
  c.values = offsets;
  c.bytes = bytes;
  OK(annb_arrays_add_column(w, &c, &row, &err));
  free(values);
}

START_TEST(large_and_independent_of_call_sizes) {
  size_t first_size = 0, size;
  uint8_t *first = NULL;
  const uint64_t steps[] = {N_LARGE, 1, 16385};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    annb_arrays_writer *w = open_writer();
    write_large(w, steps[i]);
    close_writer(w);
    uint8_t *data = temp_read(file, &size);
    if (!first) {
      first = data;
      first_size = size;
      continue;
    }
    ck_assert(size == first_size && !memcmp(first, data, size));
    free(data);
  }
  free(first);
  annb_arrays *a = open_file();
  ck_assert_int_eq(verify(a), 0);
  const uint32_t *values = view(a, 0, 0, N_LARGE);
  annb_fmt_column c = annb_arrays_column(a, 0);
  const uint64_t *offsets = view(a, c.values, 0, N_LARGE + 1);
  const char *bytes = view(a, c.bytes, 0, offsets[N_LARGE]);
  char text[32];
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < N_LARGE; i++) {
    snprintf(text, sizeof text, "%u", values[i]);
    uint64_t length = i % 1000 == 999 ? 0 : strlen(text);
    wrong += values[i] != i * 2654435761u || offsets[i + 1] - offsets[i] != length || memcmp(bytes + offsets[i], text, length);
  }
  ck_assert_uint_eq(wrong, 0);
  annb_arrays_close(a);
}
END_TEST

START_TEST(damage_stays_in_its_chunk) {
  annb_arrays_writer *w = open_writer();
  const void *data;
  write_large(w, N_LARGE);
  close_writer(w);
  temp_writable(file);
  int fd = open(file, O_RDWR);
  uint8_t byte;
  off_t at = 128 + (off_t)ANNB_CHUNK + 4; /* chunk 1: rows 16384 to 32767 of the first array */
  ck_assert(fd >= 0 && pread(fd, &byte, 1, at) == 1);
  byte ^= 0x10;
  ck_assert(pwrite(fd, &byte, 1, at) == 1);
  annb_arrays *a = open_file();
  ck_assert_uint_eq(*(const uint32_t *)view(a, 0, 0, 16384), 0);
  ck_assert_uint_eq(*(const uint32_t *)view(a, 0, 32768, 1), 32768 * 2654435761u);
  ck_assert_int_eq(annb_arrays_view(a, 0, 0, 16385, &data, &err), ANNB_ECORRUPT);
  ck_assert_int_eq(annb_arrays_view(a, 0, 32767, 1, &data, &err), ANNB_ECORRUPT);
  ck_assert_int_eq(annb_arrays_view(a, 0, 0, N_LARGE, &data, &err), ANNB_ECORRUPT);
  ck_assert_ptr_nonnull(strstr(err.message, "chunk 1 "));
  ck_assert_ptr_eq(strstr(err.message, file), err.message);
  ck_assert_int_eq(verify(a), 1);
  annb_arrays_close(a);
  close(fd);
}
END_TEST

static bool stop(void *user, const annb_error *finding) {
  (void)finding;
  return ++*(int *)user < 2;
}

START_TEST(verify_stops_when_told) {
  annb_arrays_writer *w = open_writer();
  write_large(w, N_LARGE);
  close_writer(w);
  size_t size;
  uint8_t *data = temp_read(file, &size);
  for (size_t i = 0; i < 5; i++) data[128 + i * ANNB_CHUNK] ^= 1;
  temp_write(file, data, size);
  free(data);
  annb_arrays *a = open_file();
  int n = 0;
  annb_arrays_verify(a, stop, &n);
  ck_assert_int_eq(n, 2);
  ck_assert_int_eq(verify(a), 5);
  annb_arrays_close(a);
}
END_TEST

/* ---- every bit, every length ---- */

static void patch(int fd, size_t at, uint8_t byte) { ck_assert(pwrite(fd, &byte, 1, (off_t)at) == 1); }

START_TEST(every_bit_counts) {
  size_t size;
  make_small();
  uint8_t *good = temp_read(file, &size);
  temp_writable(file);
  int fd = open(file, O_RDWR), opened = 0;
  for (size_t i = 0; i < size; i++) {
    for (int bit = 0; bit < 8; bit++) {
      annb_arrays *a;
      patch(fd, i, (uint8_t)(good[i] ^ 1 << bit));
      annb_status s = annb_arrays_open(file, &a, NULL);
      if (s) {
        if (s != (i < 8 ? ANNB_ENOTSTORE : ANNB_ECORRUPT)) ck_abort_msg("byte %zu bit %d: %s", i, bit, annb_status_name(s));
        continue;
      }
      opened++;
      if (verify(a) == 0) ck_abort_msg("byte %zu bit %d", i, bit);
      for (uint32_t k = 0; k < a->n_arrays; k++) { /* all of it is one chunk, which is damaged */
        const void *data;
        uint64_t n = annb_arrays_array(a, k).n_rows;
        if (n && annb_arrays_view(a, k, 0, n, &data, NULL) != ANNB_ECORRUPT) ck_abort_msg("byte %zu bit %d: array %u", i, bit, k);
      }
      annb_arrays_close(a);
    }
    patch(fd, i, good[i]);
  }
  close(fd);
  ck_assert_int_gt(opened, 0);
  annb_arrays *a = open_file();
  ck_assert_int_eq(verify(a), 0);
  annb_arrays_close(a);
  free(good);
}
END_TEST

START_TEST(every_length_counts) {
  size_t size;
  annb_arrays *a;
  make_small();
  uint8_t *good = temp_read(file, &size);
  temp_writable(file);
  for (size_t n = size; n-- > 0;) {
    ck_assert_int_eq(truncate(file, (off_t)n), 0);
    ck_assert_int_eq(annb_arrays_open(file, &a, &err), ANNB_ECORRUPT);
    ck_assert_ptr_null(a);
  }
  uint8_t *longer = calloc(1, size + 8);
  memcpy(longer, good, size);
  temp_write(file, longer, size + 8);
  ck_assert_int_eq(annb_arrays_open(file, &a, &err), ANNB_ECORRUPT);
  ck_assert_int_eq(unlink(file), 0);
  ck_assert_int_eq(annb_arrays_open(file, &a, &err), ANNB_EIO);
  free(longer);
  free(good);
}
END_TEST

/* ---- rules behind the checks: patched and sealed again ---- */

static void seal_chunks(uint8_t *data, size_t size) {
  annb_fmt_section arrays = reseal_section(data, size, ANNB_SEC_ARRAYS), checks = reseal_section(data, size, ANNB_SEC_CHECKS);
  for (uint64_t i = 0; i < checks.count; i++) {
    uint64_t left = arrays.length - i * ANNB_CHUNK;
    uint64_t check = annb_mix(annb_hash64(data + arrays.offset + i * ANNB_CHUNK, left < ANNB_CHUNK ? left : ANNB_CHUNK), 0, i);
    memcpy(data + checks.offset + i * sizeof check, &check, sizeof check);
  }
  reseal_hash(data, size, ANNB_SEC_CHECKS);
}

typedef struct tables {
  uint8_t *data;
  size_t size;
} tables;

static void with_array(tables *t, uint32_t i, void (*change)(annb_fmt_array *row)) {
  annb_fmt_section s = reseal_section(t->data, t->size, ANNB_SEC_ARRAY_TABLE);
  annb_fmt_array row;
  memcpy(&row, t->data + s.offset + i * sizeof row, sizeof row);
  change(&row);
  memcpy(t->data + s.offset + i * sizeof row, &row, sizeof row);
  reseal_hash(t->data, t->size, ANNB_SEC_ARRAY_TABLE);
}

static void with_column(tables *t, uint32_t i, void (*change)(annb_fmt_column *row)) {
  annb_fmt_section s = reseal_section(t->data, t->size, ANNB_SEC_COLUMN_TABLE);
  annb_fmt_column row;
  memcpy(&row, t->data + s.offset + i * sizeof row, sizeof row);
  change(&row);
  memcpy(t->data + s.offset + i * sizeof row, &row, sizeof row);
  reseal_hash(t->data, t->size, ANNB_SEC_COLUMN_TABLE);
}

#define ARRAY(name, statement) \
  static void name(annb_fmt_array *r) { statement; }
ARRAY(a_nothing, (void)r)
ARRAY(a_offset_odd, r->offset += 8)
ARRAY(a_offset_before, r->offset = 64)
ARRAY(a_offset_overlap, r->offset -= 64)
ARRAY(a_offset_far, r->offset = UINT64_C(1) << 40)
ARRAY(a_offset_wrap, r->offset = UINT64_MAX - 63)
ARRAY(a_rows_more, r->n_rows = 100000)
ARRAY(a_rows_limit, (r->n_rows = (UINT64_C(1) << 40) + 2, r->n_cols = 0))
ARRAY(a_rows_overflow, (r->n_rows = UINT64_C(1) << 40, r->n_cols = UINT64_C(1) << 30))
ARRAY(a_rows_huge, r->n_rows = UINT64_MAX)
ARRAY(a_cols_huge, r->n_cols = UINT64_C(1) << 31)
ARRAY(a_dtype_0, r->dtype = 0)
ARRAY(a_dtype_13, r->dtype = 13)
ARRAY(a_dtype_255, r->dtype = 255)
ARRAY(a_zero, r->zero0[30] = 1)
ARRAY(a_name_far, r->name_offset = 100000)
ARRAY(a_name_long, r->name_length = 60000)
ARRAY(a_name_wrap, (r->name_offset = UINT32_MAX, r->name_length = 2))

#define COLUMN(name, statement) \
  static void name(annb_fmt_column *r) { statement; }
COLUMN(c_nothing, (void)r)
COLUMN(c_length, r->length++)
COLUMN(c_length_less, r->length--)
COLUMN(c_length_huge, r->length = UINT64_MAX)
COLUMN(c_length_limit, r->length = ANNB_MAX_ROWS + 1)
COLUMN(c_axis, r->axis = 3)
COLUMN(c_axis_none, r->axis = 0)
COLUMN(c_axis_other, r->axis = ANNB_AXIS_VAR)
COLUMN(c_kind_0, r->kind = 0)
COLUMN(c_kind_4, r->kind = 4)
COLUMN(c_fixed, r->kind = ANNB_COLUMN_FIXED)
COLUMN(c_string, r->kind = ANNB_COLUMN_STRING)
COLUMN(c_categorical, r->kind = ANNB_COLUMN_CATEGORICAL)
COLUMN(c_flags, r->flags |= 4)
COLUMN(c_index, r->flags |= ANNB_COLUMN_INDEX)
COLUMN(c_ordered, r->flags |= ANNB_COLUMN_ORDERED)
COLUMN(c_zero0, r->zero0 = 1)
COLUMN(c_zero1, r->zero1[27] = 1)
COLUMN(c_values_range, r->values = 10)
COLUMN(c_values_none, r->values = ANNB_NONE)
COLUMN(c_values_shape, r->values = 6) /* pca: 4 x 2 */
COLUMN(c_values_dtype, r->values = 7) /* row_order: u64 */
COLUMN(c_bytes_range, r->bytes = 10)
COLUMN(c_bytes_none, r->bytes = ANNB_NONE)
COLUMN(c_bytes_dtype, r->bytes = 7)
COLUMN(c_mask_range, r->mask = 10)
COLUMN(c_mask_dtype, r->mask = 5)
COLUMN(c_categories_range, r->categories = 4)
COLUMN(c_categories_none, r->categories = ANNB_NONE)
COLUMN(c_categories_self, r->categories = 2)
COLUMN(c_categories_axis, r->categories = 1)
COLUMN(c_name_far, r->name_offset = 100000)
COLUMN(c_name_long, r->name_length = 60000)

typedef struct breakage {
  const char *what;
  void (*array)(annb_fmt_array *row);
  void (*column)(annb_fmt_column *row);
  uint32_t row;
  annb_status expected;
} breakage;

/* Arrays of the small file: 0, 1 categories (bytes, offsets); 2, 3 cell names; 4 mask; 5 codes; 6 pca; 7 row_order; 8, 9 of no rows.
 * Columns: 0 the categories, 1 the index of obs, 2 cell_type, 3 a string column of no rows in var. */
static const breakage breakages[] = {
    {"nothing", a_nothing, NULL, 6, ANNB_OK},
    {"offset odd", a_offset_odd, NULL, 6, ANNB_ECORRUPT},
    {"offset before", a_offset_before, NULL, 0, ANNB_ECORRUPT},
    {"offset overlap", a_offset_overlap, NULL, 6, ANNB_ECORRUPT},
    {"offset far", a_offset_far, NULL, 6, ANNB_ECORRUPT},
    {"offset wrap", a_offset_wrap, NULL, 7, ANNB_ECORRUPT},
    {"rows more", a_rows_more, NULL, 6, ANNB_ECORRUPT},
    {"rows limit", a_rows_limit, NULL, 6, ANNB_ECORRUPT},
    {"rows overflow", a_rows_overflow, NULL, 6, ANNB_ECORRUPT},
    {"rows huge", a_rows_huge, NULL, 6, ANNB_ECORRUPT},
    {"cols huge", a_cols_huge, NULL, 6, ANNB_ECORRUPT},
    {"dtype 0", a_dtype_0, NULL, 6, ANNB_ECORRUPT},
    {"dtype 13", a_dtype_13, NULL, 6, ANNB_ECORRUPT},
    {"dtype 255", a_dtype_255, NULL, 6, ANNB_ECORRUPT},
    {"array zero", a_zero, NULL, 6, ANNB_ECORRUPT},
    {"array name far", a_name_far, NULL, 6, ANNB_ECORRUPT},
    {"array name long", a_name_long, NULL, 6, ANNB_ECORRUPT},
    {"array name wrap", a_name_wrap, NULL, 6, ANNB_ECORRUPT},
    {"nothing", NULL, c_nothing, 1, ANNB_OK},
    {"length", NULL, c_length, 2, ANNB_ECORRUPT},
    {"length of strings", NULL, c_length, 1, ANNB_ECORRUPT},
    {"length of none", NULL, c_length_less, 3, ANNB_ECORRUPT},
    {"length huge", NULL, c_length_huge, 1, ANNB_ECORRUPT},
    {"length limit", NULL, c_length_limit, 2, ANNB_ECORRUPT},
    {"axis", NULL, c_axis, 1, ANNB_ECORRUPT},
    {"index without axis", NULL, c_axis_none, 1, ANNB_ECORRUPT},
    {"categorical without axis", NULL, c_axis_none, 2, ANNB_ECORRUPT},
    {"lengths of var differ", NULL, c_axis_other, 2, ANNB_ECORRUPT},
    {"categories with an axis", NULL, c_axis_other, 0, ANNB_ECORRUPT},
    {"kind 0", NULL, c_kind_0, 1, ANNB_ECORRUPT},
    {"kind 4", NULL, c_kind_4, 1, ANNB_ECORRUPT},
    {"string as fixed", NULL, c_fixed, 1, ANNB_ECORRUPT},
    {"codes as fixed", NULL, c_fixed, 2, ANNB_ECORRUPT},
    {"codes as string", NULL, c_string, 2, ANNB_ECORRUPT},
    {"string as categorical", NULL, c_categorical, 1, ANNB_ECORRUPT},
    {"flags", NULL, c_flags, 1, ANNB_ECORRUPT},
    {"two indexes", NULL, c_index, 2, ANNB_ECORRUPT},
    {"ordered strings", NULL, c_ordered, 1, ANNB_ECORRUPT},
    {"column zero0", NULL, c_zero0, 1, ANNB_ECORRUPT},
    {"column zero1", NULL, c_zero1, 1, ANNB_ECORRUPT},
    {"values range", NULL, c_values_range, 2, ANNB_ECORRUPT},
    {"values none", NULL, c_values_none, 2, ANNB_ECORRUPT},
    {"values shape", NULL, c_values_shape, 2, ANNB_ECORRUPT},
    {"values dtype", NULL, c_values_dtype, 2, ANNB_ECORRUPT},
    {"offsets range", NULL, c_values_range, 1, ANNB_ECORRUPT},
    {"offsets shape", NULL, c_values_dtype, 1, ANNB_ECORRUPT},
    {"bytes range", NULL, c_bytes_range, 1, ANNB_ECORRUPT},
    {"bytes none", NULL, c_bytes_none, 1, ANNB_ECORRUPT},
    {"bytes dtype", NULL, c_bytes_dtype, 1, ANNB_ECORRUPT},
    {"bytes of codes", NULL, c_bytes_range, 2, ANNB_ECORRUPT},
    {"mask range", NULL, c_mask_range, 1, ANNB_ECORRUPT},
    {"mask dtype", NULL, c_mask_dtype, 1, ANNB_ECORRUPT},
    {"categories range", NULL, c_categories_range, 2, ANNB_ECORRUPT},
    {"categories none", NULL, c_categories_none, 2, ANNB_ECORRUPT},
    {"categories self", NULL, c_categories_self, 2, ANNB_ECORRUPT},
    {"categories axis", NULL, c_categories_axis, 2, ANNB_ECORRUPT},
    {"categories of strings", NULL, c_categories_axis, 1, ANNB_ECORRUPT},
    {"column name far", NULL, c_name_far, 1, ANNB_ECORRUPT},
    {"column name long", NULL, c_name_long, 1, ANNB_ECORRUPT},
};

START_TEST(every_rule) {
  tables t;
  make_small();
  uint8_t *good = temp_read(file, &t.size);
  t.data = malloc(t.size);
  for (const breakage *b = breakages; b < breakages + sizeof breakages / sizeof *breakages; b++) {
    annb_arrays *a;
    memcpy(t.data, good, t.size);
    if (b->array) with_array(&t, b->row, b->array);
    else with_column(&t, b->row, b->column);
    temp_write(file, t.data, t.size);
    annb_status s = annb_arrays_open(file, &a, &err);
    ck_assert_msg(s == b->expected, "%s: %s (%s)", b->what, annb_status_name(s), err.message);
    if (s == ANNB_OK) ck_assert_int_eq(verify(a), 0);
    annb_arrays_close(a);
  }
  free(t.data);
  free(good);
}
END_TEST

/* Put bytes into an array, seal again: the file opens, verify must tell. */
static int findings_with(uint32_t array, uint64_t at, const void *bytes, size_t n) {
  size_t size;
  uint8_t *data = temp_read(file, &size);
  annb_fmt_array row;
  annb_fmt_section s = reseal_section(data, size, ANNB_SEC_ARRAY_TABLE);
  memcpy(&row, data + s.offset + array * sizeof row, sizeof row);
  memcpy(data + row.offset + at, bytes, n);
  seal_chunks(data, size);
  char *keep = file;
  file = annb_io_join(dir, "patched");
  temp_write(file, data, size);
  annb_arrays *a = open_file();
  int found = verify(a);
  annb_arrays_close(a);
  ck_assert_int_eq(unlink(file), 0);
  free(file);
  file = keep;
  free(data);
  return found;
}

START_TEST(verify_looks_at_contents) {
  written w = make_small();
  uint64_t offset = 9;
  ck_assert_int_eq(findings_with(w.codes, 0, "\1", 1), 0);
  ck_assert_int_eq(findings_with(w.codes, 0, "\2", 1), 1);    /* two categories: 0 and 1 */
  ck_assert_int_eq(findings_with(w.codes, 3, "\xFE", 1), 1);  /* -2 */
  ck_assert_int_eq(findings_with(w.mask, 2, "\2", 1), 1);
  ck_assert_int_eq(findings_with(w.offsets, 8, &offset, 8), 0);
  ck_assert_int_eq(findings_with(w.offsets, 0, &offset, 8), 1); /* does not start at 0 */
  offset = 8;
  ck_assert_int_eq(findings_with(w.offsets, 16, &offset, 8), 1); /* decreases */
  offset = UINT64_MAX;
  ck_assert_int_eq(findings_with(w.offsets, 16, &offset, 8), 1);
  offset = 21;
  ck_assert_int_eq(findings_with(w.offsets, 32, &offset, 8), 1); /* ends before the bytes do */
  ck_assert_int_eq(findings_with(w.codes, 4, "\1", 1), 1);       /* padding behind the array */
}
END_TEST

START_TEST(chunk_counts_must_fit) {
  size_t size;
  annb_arrays *a;
  make_small();
  uint8_t *data = temp_read(file, &size);
  annb_fmt_section s = reseal_section(data, size, ANNB_SEC_CHECKS);
  s.count = 0;
  s.length = 0;
  memcpy(data + reseal_row(data, size, ANNB_SEC_CHECKS), &s, sizeof s);
  memset(data + s.offset, 0, 8);
  reseal_hash(data, size, ANNB_SEC_CHECKS);
  temp_write(file, data, size);
  ck_assert_int_eq(annb_arrays_open(file, &a, &err), ANNB_ECORRUPT);
  ck_assert_ptr_nonnull(strstr(err.message, "chunk checks"));
  free(data);
}
END_TEST

/* ---- the writer refuses what makes no sense, and what it has stays usable ---- */

START_TEST(wrong_calls) {
  annb_arrays_writer *w = open_writer();
  annb_string_writer *s, *s2;
  uint32_t row, a, b;
  ck_assert_int_eq(annb_arrays_append(w, "x", 1, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_arrays_end(w, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_arrays_begin(w, "a", (annb_dtype)0, 1, &row, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_arrays_begin(w, "a", ANNB_U8, UINT64_C(1) << 31, &row, &err), ANNB_EINVAL);
  OK(annb_arrays_begin(w, "a", ANNB_F64, 3, &row, &err));
  ck_assert_int_eq(annb_arrays_begin(w, "b", ANNB_U8, 1, &row, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_strings_begin(w, &s, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_arrays_append(w, "x", UINT64_MAX, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_arrays_append(w, "x", UINT64_C(1) << 62, &err), ANNB_EINVAL);
  annb_column_spec c = column("c", 0, ANNB_AXIS_OBS, ANNB_COLUMN_FIXED);
  c.values = 0;
  ck_assert_int_eq(annb_arrays_add_column(w, &c, &row, &err), ANNB_EINVAL);
  OK(annb_arrays_end(w, &err));
  ck_assert_int_eq(annb_arrays_begin(w, "a", ANNB_U8, 1, &row, &err), ANNB_EINVAL); /* twice */
  OK(annb_strings_begin(w, &s, &err));
  ck_assert_int_eq(annb_strings_begin(w, &s2, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_arrays_append(w, "x", 1, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_arrays_end(w, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_arrays_begin(w, "b", ANNB_U8, 1, &row, &err), ANNB_EINVAL);
  OK(annb_strings_append(s, "x", 1, &err));
  OK(annb_strings_end(s, &a, &b, &err));
  ck_assert_int_eq(annb_arrays_add_column(w, &c, &row, &err), ANNB_EINVAL); /* array 0 has 3 columns */
  c = column("c", 1, ANNB_AXIS_OBS, ANNB_COLUMN_STRING);
  c.values = b; /* swapped */
  c.bytes = a;
  ck_assert_int_eq(annb_arrays_add_column(w, &c, &row, &err), ANNB_EINVAL);
  ck_assert_ptr_nonnull(strstr(err.message, "'c'"));
  c.values = a;
  c.bytes = b;
  OK(annb_arrays_add_column(w, &c, &row, &err));
  c.kind = ANNB_COLUMN_CATEGORICAL;
  c.categories = 1; /* itself */
  ck_assert_int_eq(annb_arrays_add_column(w, &c, &row, &err), ANNB_EINVAL);
  close_writer(w);
  annb_arrays *got = open_file();
  ck_assert_uint_eq(got->n_columns, 1);
  ck_assert_int_eq(verify(got), 0);
  annb_arrays_close(got);
}
END_TEST

START_TEST(close_refuses_the_unfinished) {
  annb_string_writer *s;
  uint32_t row, object;
  annb_arrays_writer *w = open_writer();
  OK(annb_arrays_begin(w, "a", ANNB_U8, 1, &row, &err));
  ck_assert_int_eq(annb_arrays_writer_close(w, &object, &err), ANNB_EINVAL);
  w = open_writer();
  OK(annb_strings_begin(w, &s, &err));
  ck_assert_int_eq(annb_arrays_writer_close(w, &object, &err), ANNB_EINVAL); /* frees the strings */
  w = open_writer();
  for (int i = 0; i < 2; i++) { /* columns of obs with 1 and 2 rows */
    annb_column_spec c = column("c", (uint64_t)i + 1, ANNB_AXIS_OBS, ANNB_COLUMN_FIXED);
    c.values = add_array(w, "", ANNB_U8, 1, "ab", (uint64_t)i + 1);
    OK(annb_arrays_add_column(w, &c, &row, &err));
  }
  ck_assert_int_eq(annb_arrays_writer_close(w, &object, &err), ANNB_EINVAL);
  ck_assert_ptr_nonnull(strstr(err.message, "length"));
  annb_arrays_writer_abort(NULL);
  ck_assert_uint_eq(annb_txn_manifest(txn)->n_objects, 0);
  ck_assert_uint_eq(temp_count(annb_txn_tmp_dir(txn)), 1); /* the mark of the transaction */
}
END_TEST

START_TEST(abort_leaves_nothing) {
  annb_string_writer *s;
  annb_arrays_writer *w = open_writer();
  OK(annb_strings_begin(w, &s, &err));
  for (int i = 0; i < 20000; i++) OK(annb_strings_append(s, "x", 1, &err)); /* with a temporary file open */
  annb_arrays_writer_abort(w);
  ck_assert_uint_eq(temp_count(annb_txn_tmp_dir(txn)), 1);
}
END_TEST

static void limit_files(uint64_t bytes) {
  struct rlimit limit;
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = bytes ? (rlim_t)bytes : limit.rlim_max;
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

START_TEST(full_disk) {
  uint8_t *zeros = calloc(1, 1 << 20);
  uint32_t row, object;
  annb_arrays_writer *w = open_writer();
  OK(annb_arrays_begin(w, "a", ANNB_U8, 1, &row, &err));
  limit_files(100000);
  ck_assert_int_eq(annb_arrays_append(w, zeros, 1 << 20, &err), ANNB_EIO);
  ck_assert_int_eq(err.system_errno, EFBIG);
  limit_files(0);
  ck_assert_int_eq(annb_arrays_append(w, zeros, 1, &err), ANNB_EIO); /* it does not go on with a hole */
  ck_assert_int_eq(annb_arrays_end(w, &err), ANNB_EIO);
  ck_assert_int_eq(annb_arrays_writer_close(w, &object, &err), ANNB_EIO);
  ck_assert_uint_eq(temp_count(annb_txn_tmp_dir(txn)), 1);
  free(zeros);
}
END_TEST

START_TEST(full_disk_at_the_end) {
  uint32_t object;
  annb_arrays_writer *w = open_writer();
  write_small(w);
  limit_files(500);
  annb_status s = annb_arrays_writer_close(w, &object, &err);
  limit_files(0);
  ck_assert_int_eq(s, ANNB_EIO);
  ck_assert_uint_eq(temp_count(annb_txn_tmp_dir(txn)), 1);
  ck_assert_uint_eq(annb_txn_manifest(txn)->n_objects, 0);
}
END_TEST

START_TEST(full_disk_for_offsets) {
  annb_string_writer *strings;
  uint32_t a, b, object;
  annb_arrays_writer *w = open_writer();
  OK(annb_strings_begin(w, &strings, &err));
  limit_files(60000); /* empty strings: only their offsets, 64 KiB at a time, need room */
  annb_status s = ANNB_OK;
  for (int i = 0; !s && i < 20000; i++) s = annb_strings_append(strings, "", 0, &err);
  limit_files(0);
  ck_assert_int_eq(s, ANNB_EIO);
  ck_assert_int_eq(annb_strings_end(strings, &a, &b, &err), ANNB_EIO);
  ck_assert_int_eq(annb_arrays_writer_close(w, &object, &err), ANNB_EIO);
  ck_assert_uint_eq(temp_count(annb_txn_tmp_dir(txn)), 1);
}
END_TEST

START_TEST(published_with_a_store) {
  annb_arrays_writer *w = open_writer();
  uint32_t row, object;
  write_small(w);
  OK(annb_arrays_writer_close(w, &object, &err));
  annb_part_spec part = {4, 0, object, ANNB_NONE, ANNB_NONE, ANNB_NONE};
  OK(annb_txn_add_part(txn, &part, &row, &err));
  char *path = annb_object_path(store, &annb_txn_manifest(txn)->objects[object]);
  OK(annb_txn_commit(txn, NULL, &err));
  txn = NULL;
  free(file);
  file = path;
  annb_arrays *a = open_file();
  ck_assert_int_eq(verify(a), 0);
  annb_arrays_close(a);
  temp_remove(store);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("arrays");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, round_trip);
  tcase_add_test(tcase, zero_rows);
  tcase_add_test(tcase, nothing_at_all);
  tcase_add_test(tcase, arrays_without_columns);
  tcase_add_test(tcase, ranges);
  tcase_add_test(tcase, large_and_independent_of_call_sizes);
  tcase_add_test(tcase, damage_stays_in_its_chunk);
  tcase_add_test(tcase, verify_stops_when_told);
  tcase_add_test(tcase, every_bit_counts);
  tcase_add_test(tcase, every_length_counts);
  tcase_add_test(tcase, every_rule);
  tcase_add_test(tcase, verify_looks_at_contents);
  tcase_add_test(tcase, chunk_counts_must_fit);
  tcase_add_test(tcase, wrong_calls);
  tcase_add_test(tcase, close_refuses_the_unfinished);
  tcase_add_test(tcase, abort_leaves_nothing);
  tcase_add_test(tcase, full_disk);
  tcase_add_test(tcase, full_disk_at_the_end);
  tcase_add_test(tcase, full_disk_for_offsets);
  tcase_add_test(tcase, published_with_a_store);
  suite_add_tcase(suite, tcase);
  return suite_run(suite);
}
