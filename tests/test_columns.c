/* Columns of obs and var: every kind and dtype, masks, views, strings, and files that do not fit. */
#include "column_maker.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[256];

static void setup(void) { maker_tmpdir(dir); }
static void teardown(void) { maker_remove(dir); }

/* ---- writing ---- */

static const char *const cells[] = {"AAACCTG-1", "", "zelle-\xC3\xA4", "d"};
static const char *const genes[] = {"ENSG1", "ENSG22", "ENSG333"};
static const char *const labels[] = {"B cell", "T cell"};
static const uint8_t mask[] = {0, 1, 0, 1};

static uint32_t good_columns(annb_txn *txn, uint32_t part, void *user) {
  annb_arrays_writer *w;
  uint32_t object;
  (void)user;
  (void)part;
  OK(annb_arrays_writer_open(txn, &w, &err));
  for (int d = ANNB_BOOL; d <= ANNB_F64; d++) {
    uint8_t bytes[32];
    char name[32];
    for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)(d == ANNB_BOOL ? i & 1 : d * 16 + i);
    snprintf(name, sizeof name, "as_%s", annb_dtype_name((annb_dtype)d));
    uint32_t values = vector(w, (annb_dtype)d, bytes, 4);
    uint32_t masked = d == ANNB_F32 ? vector(w, ANNB_BOOL, mask, 4) : ANNB_NONE;
    add(w, (annb_column_spec){name, 4, ANNB_AXIS_OBS, ANNB_COLUMN_FIXED, 0, values, ANNB_NONE, masked, ANNB_NONE});
  }
  /* the index stands last in the file and is delivered first */
  strings(w, "gene_ids", ANNB_AXIS_VAR, ANNB_COLUMN_INDEX, genes, 3, ANNB_NONE);
  uint32_t categories = strings(w, "", ANNB_AXIS_NONE, 0, labels, 2, ANNB_NONE);
  uint32_t numbers = vector(w, ANNB_I64, (int64_t[]){-5, 7, 9}, 3);
  uint32_t doses = add(w, (annb_column_spec){"", 3, ANNB_AXIS_NONE, ANNB_COLUMN_FIXED, 0, numbers, ANNB_NONE, ANNB_NONE, ANNB_NONE});
  uint32_t c8 = vector(w, ANNB_I8, (int8_t[]){1, -1, 0, 1}, 4), c16 = vector(w, ANNB_I16, (int16_t[]){2, -1, 0, 1}, 4),
           c32 = vector(w, ANNB_I32, (int32_t[]){0, 0, -1, 1}, 4);
  add(w, (annb_column_spec){"cell_type", 4, ANNB_AXIS_OBS, ANNB_COLUMN_CATEGORICAL, 0, c8, ANNB_NONE, ANNB_NONE, categories});
  add(w, (annb_column_spec){"dose", 4, ANNB_AXIS_OBS, ANNB_COLUMN_CATEGORICAL, ANNB_COLUMN_ORDERED, c16, ANNB_NONE, ANNB_NONE, doses});
  add(w, (annb_column_spec){"other", 4, ANNB_AXIS_OBS, ANNB_COLUMN_CATEGORICAL, 0, c32, ANNB_NONE, ANNB_NONE, categories});
  strings(w, "note", ANNB_AXIS_OBS, 0, cells, 4, vector(w, ANNB_BOOL, mask, 4));
  strings(w, "barcode", ANNB_AXIS_OBS, ANNB_COLUMN_INDEX, cells, 4, ANNB_NONE);
  OK(annb_arrays_writer_close(w, &object, &err));
  return object;
}

static annb_store *store_with(uint32_t (*columns)(annb_txn *, uint32_t, void *), void *user) {
  static const uint64_t rows = 4;
  annb_store *store;
  const char *path = maker_join(dir, "store");
  maker_store(&(maker_spec){.path = path, .n_vars = 3, .n_parts = 1, .part_rows = &rows, .columns = columns, .user = user});
  OK(annb_store_open(path, NULL, &store, &err));
  return store;
}

static const annb_column *obs(const annb_store *store, const char *name) {
  const annb_column *column;
  OK(annb_part_find_column(store, 0, ANNB_AXIS_OBS, name, &column, &err));
  return column;
}

/* ---- reading ---- */

START_TEST(order_and_info) {
  static const char *const names[] = {"barcode", "as_bool", "as_i8",  "as_i16", "as_i32", "as_i64",    "as_u8", "as_u16", "as_u32",
                                      "as_u64",  "as_f16",  "as_f32", "as_f64", "cell_type", "dose", "other",  "note"};
  annb_store *store = store_with(good_columns, NULL);
  annb_column_info info;
  const annb_column *column, *other;
  uint32_t n;
  OK(annb_part_n_columns(store, 0, ANNB_AXIS_OBS, &n, &err));
  ck_assert_uint_eq(n, sizeof names / sizeof *names);
  for (uint32_t i = 0; i < n; i++) {
    OK(annb_part_column(store, 0, ANNB_AXIS_OBS, i, &column, &err));
    annb_column_get_info(column, &info);
    ck_assert_str_eq(info.name, names[i]);
    ck_assert(info.length == 4 && info.axis == ANNB_AXIS_OBS && info.is_index == (i == 0));
    ck_assert(obs(store, names[i]) == column);
  }
  OK(annb_part_index_column(store, 0, ANNB_AXIS_OBS, &column, &err));
  ck_assert(column == obs(store, "barcode"));
  OK(annb_part_n_columns(store, 0, ANNB_AXIS_VAR, &n, &err));
  ck_assert_uint_eq(n, 1);
  OK(annb_part_column(store, 0, ANNB_AXIS_VAR, 0, &column, &err));
  OK(annb_part_index_column(store, 0, ANNB_AXIS_VAR, &other, &err));
  annb_column_get_info(column, &info);
  ck_assert(column == other && info.kind == ANNB_COLUMN_STRING && info.axis == ANNB_AXIS_VAR && info.length == 3 && !info.has_mask);
  annb_column_get_info(obs(store, "dose"), &info);
  ck_assert(info.kind == ANNB_COLUMN_CATEGORICAL && info.dtype == ANNB_I16 && info.ordered && info.n_categories == 3 && !info.has_mask);
  annb_column_get_info(obs(store, "cell_type"), &info);
  ck_assert(info.kind == ANNB_COLUMN_CATEGORICAL && info.dtype == ANNB_I8 && !info.ordered && info.n_categories == 2);
  annb_column_get_info(obs(store, "as_f32"), &info);
  ck_assert(info.kind == ANNB_COLUMN_FIXED && info.dtype == ANNB_F32 && info.has_mask && info.n_categories == 0);
  annb_store_close(store);
}
END_TEST

START_TEST(fixed_values) {
  annb_store *store = store_with(good_columns, NULL);
  for (int d = ANNB_BOOL; d <= ANNB_F64; d++) {
    uint8_t bytes[32];
    char name[32];
    uint32_t size = annb_dtype_size((annb_dtype)d);
    for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)(d == ANNB_BOOL ? i & 1 : d * 16 + i);
    snprintf(name, sizeof name, "as_%s", annb_dtype_name((annb_dtype)d));
    const annb_column *column = obs(store, name);
    for (uint64_t first = 0; first <= 4; first++) {
      for (uint64_t n = 0; first + n <= 4; n++) {
        const void *values = NULL;
        const uint8_t *missing = &mask[0];
        OK(annb_column_values(column, first, n, &values, &missing, &err));
        ck_assert_ptr_nonnull(values);
        if (n) ck_assert_mem_eq(values, bytes + first * size, n * size);
        ck_assert_uint_eq((uintptr_t)values % size, 0);
        ck_assert((missing != NULL) == (d == ANNB_F32));
        if (missing && n) ck_assert_mem_eq(missing, mask + first, n);
        OK(annb_column_values(column, first, n, &values, NULL, &err));
      }
    }
  }
  annb_store_close(store);
}
END_TEST

static void check_string(const annb_column *column, uint64_t row, const char *text, bool expect_missing) {
  const char *bytes = NULL;
  uint64_t length = 99;
  bool missing = !expect_missing;
  OK(annb_column_string(column, row, &bytes, &length, &missing, &err));
  ck_assert_uint_eq(length, expect_missing ? 0 : strlen(text));
  if (length) ck_assert_mem_eq(bytes, text, length);
  ck_assert(missing == expect_missing && bytes != NULL);
  OK(annb_column_string(column, row, &bytes, &length, NULL, &err));
}

START_TEST(string_values) {
  annb_store *store = store_with(good_columns, NULL);
  const annb_column *column;
  for (uint64_t i = 0; i < 4; i++) {
    check_string(obs(store, "barcode"), i, cells[i], false);
    check_string(obs(store, "note"), i, cells[i], mask[i]);
  }
  OK(annb_part_index_column(store, 0, ANNB_AXIS_VAR, &column, &err));
  for (uint64_t i = 0; i < 3; i++) check_string(column, i, genes[i], false);
  annb_store_close(store);
}
END_TEST

START_TEST(categorical_values) {
  annb_store *store = store_with(good_columns, NULL);
  const annb_column *categories;
  const void *values;
  OK(annb_column_values(obs(store, "cell_type"), 0, 4, &values, NULL, &err));
  ck_assert_mem_eq(values, ((int8_t[]){1, -1, 0, 1}), 4);
  OK(annb_column_categories(obs(store, "cell_type"), &categories, &err));
  check_string(categories, 0, "B cell", false);
  check_string(categories, 1, "T cell", false);
  OK(annb_column_values(obs(store, "other"), 1, 3, &values, NULL, &err));
  ck_assert_mem_eq(values, ((int32_t[]){0, -1, 1}), 12);
  OK(annb_column_values(obs(store, "dose"), 0, 4, &values, NULL, &err));
  ck_assert_mem_eq(values, ((int16_t[]){2, -1, 0, 1}), 8);
  OK(annb_column_categories(obs(store, "dose"), &categories, &err));
  OK(annb_column_values(categories, 0, 3, &values, NULL, &err));
  ck_assert_mem_eq(values, ((int64_t[]){-5, 7, 9}), 24);
  annb_store_close(store);
}
END_TEST

START_TEST(bad_requests) {
  annb_store *store = store_with(good_columns, NULL);
  const annb_column *column;
  const void *values;
  const char *bytes;
  uint64_t length;
  uint32_t n;
  FAILS(annb_part_n_columns(store, 1, ANNB_AXIS_OBS, &n, &err), ANNB_ERANGE);
  FAILS(annb_part_n_columns(store, 0, ANNB_AXIS_NONE, &n, &err), ANNB_EINVAL);
  FAILS(annb_part_n_columns(store, 0, (annb_axis)3, &n, &err), ANNB_EINVAL);
  FAILS(annb_part_column(store, 0, ANNB_AXIS_OBS, 17, &column, &err), ANNB_ERANGE);
  FAILS(annb_part_column(store, 0, ANNB_AXIS_VAR, 1, &column, &err), ANNB_ERANGE);
  FAILS(annb_part_find_column(store, 0, ANNB_AXIS_OBS, "nope", &column, &err), ANNB_ENOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.message, "nope"));
  FAILS(annb_part_find_column(store, 0, ANNB_AXIS_VAR, "barcode", &column, &err), ANNB_ENOTFOUND);
  FAILS(annb_part_find_column(store, 0, ANNB_AXIS_OBS, "", &column, &err), ANNB_ENOTFOUND);
  FAILS(annb_part_find_column(store, 0, ANNB_AXIS_OBS, NULL, &column, &err), ANNB_ENOTFOUND);
  FAILS(annb_column_values(obs(store, "as_i32"), 0, 5, &values, NULL, &err), ANNB_ERANGE);
  FAILS(annb_column_values(obs(store, "as_i32"), 5, 0, &values, NULL, &err), ANNB_ERANGE);
  FAILS(annb_column_values(obs(store, "as_i32"), 1, UINT64_MAX, &values, NULL, &err), ANNB_ERANGE);
  FAILS(annb_column_values(obs(store, "note"), 0, 1, &values, NULL, &err), ANNB_EINVAL);
  FAILS(annb_column_string(obs(store, "as_i32"), 0, &bytes, &length, NULL, &err), ANNB_EINVAL);
  FAILS(annb_column_string(obs(store, "cell_type"), 0, &bytes, &length, NULL, &err), ANNB_EINVAL);
  FAILS(annb_column_string(obs(store, "note"), 4, &bytes, &length, NULL, &err), ANNB_ERANGE);
  FAILS(annb_column_string(obs(store, "note"), UINT64_MAX, &bytes, &length, NULL, NULL), ANNB_ERANGE);
  FAILS(annb_column_categories(obs(store, "note"), &column, &err), ANNB_EINVAL);
  annb_store_close(store);
}
END_TEST

START_TEST(part_without_columns) {
  annb_store *store = store_with(NULL, NULL);
  const annb_column *column;
  uint32_t n = 9;
  OK(annb_part_n_columns(store, 0, ANNB_AXIS_OBS, &n, &err));
  ck_assert_uint_eq(n, 0);
  FAILS(annb_part_index_column(store, 0, ANNB_AXIS_OBS, &column, &err), ANNB_ENOTFOUND);
  FAILS(annb_part_find_column(store, 0, ANNB_AXIS_VAR, "x", &column, &err), ANNB_ENOTFOUND);
  annb_store_close(store);
}
END_TEST

/* Columns longer than a chunk: views across chunks; damage in one chunk spares the others. */
enum { LONG = 40000 };
static uint32_t long_column(annb_txn *txn, uint32_t part, void *user) {
  annb_arrays_writer *w;
  uint32_t object;
  (void)part;
  OK(annb_arrays_writer_open(txn, &w, &err));
  uint32_t values = vector(w, ANNB_I64, user, LONG);
  add(w, (annb_column_spec){"n", LONG, ANNB_AXIS_OBS, ANNB_COLUMN_FIXED, 0, values, ANNB_NONE, ANNB_NONE, ANNB_NONE});
  OK(annb_arrays_writer_close(w, &object, &err));
  return object;
}

START_TEST(chunks) {
  static int64_t numbers[LONG];
  static const uint64_t rows = LONG;
  for (int i = 0; i < LONG; i++) numbers[i] = i * 7;
  char path[300];
  snprintf(path, sizeof path, "%s/long", dir);
  maker_store(&(maker_spec){.path = path, .n_vars = 3, .n_parts = 1, .part_rows = &rows, .columns = long_column, .user = numbers});
  annb_store *store;
  const void *values;
  OK(annb_store_open(path, NULL, &store, &err));
  OK(annb_column_values(obs(store, "n"), 0, LONG, &values, NULL, &err));
  ck_assert_mem_eq(values, numbers, sizeof numbers);
  OK(annb_column_values(obs(store, "n"), 8000, 9000, &values, NULL, &err));
  ck_assert_mem_eq(values, numbers + 8000, 9000 * 8);
  annb_store_close(store);
  char *object = maker_object(path, ".annc", 0);
  maker_write_at(object, 128 + 2 * 65536 + 8, "x", 1); /* row 2 * 8192 + 1 */
  OK(annb_store_open(path, NULL, &store, &err));
  OK(annb_column_values(obs(store, "n"), 0, 2 * 8192, &values, NULL, &err));
  FAILS(annb_column_values(obs(store, "n"), 0, 2 * 8192 + 1, &values, NULL, &err), ANNB_ECORRUPT);
  ck_assert_str_eq(err.path, object);
  FAILS(annb_column_values(obs(store, "n"), 3 * 8192 - 1, 1, &values, NULL, &err), ANNB_ECORRUPT);
  OK(annb_column_values(obs(store, "n"), 3 * 8192, LONG - 3 * 8192, &values, NULL, &err));
  ck_assert_mem_eq(values, numbers + 3 * 8192, (LONG - 3 * 8192) * 8);
  annb_store_close(store);
  free(object);
}
END_TEST

/* ---- files that are whole but do not fit ---- */

enum { BAD_LENGTH, BAD_CODE, BAD_LOW_CODE, BAD_STRING };

static uint32_t bad_columns(annb_txn *txn, uint32_t part, void *user) {
  annb_arrays_writer *w;
  uint32_t object;
  int kind = *(const int *)user;
  uint64_t length = kind == BAD_LENGTH ? 3 : 4;
  (void)part;
  OK(annb_arrays_writer_open(txn, &w, &err));
  uint32_t categories = strings(w, "", ANNB_AXIS_NONE, 0, labels, 2, ANNB_NONE);
  int8_t codes[] = {0, 1, kind == BAD_CODE ? 2 : kind == BAD_LOW_CODE ? -2 : 1, -1};
  uint32_t values = vector(w, ANNB_I8, codes, length);
  add(w, (annb_column_spec){"c", length, ANNB_AXIS_OBS, ANNB_COLUMN_CATEGORICAL, 0, values, ANNB_NONE, ANNB_NONE, categories});
  if (kind == BAD_STRING) {
    uint32_t offsets = vector(w, ANNB_U64, (uint64_t[]){0, 3, 2, 9, 3}, 5), bytes = vector(w, ANNB_U8, "abc", 3);
    add(w, (annb_column_spec){"s", 4, ANNB_AXIS_OBS, ANNB_COLUMN_STRING, 0, offsets, bytes, ANNB_NONE, ANNB_NONE});
  }
  OK(annb_arrays_writer_close(w, &object, &err));
  return object;
}

START_TEST(columns_that_do_not_fit) {
  int kind = _i;
  annb_store *store = store_with(bad_columns, &kind);
  const annb_column *column;
  const void *values;
  const char *bytes;
  uint64_t length;
  uint32_t n;
  if (kind == BAD_LENGTH) {
    FAILS(annb_part_n_columns(store, 0, ANNB_AXIS_OBS, &n, &err), ANNB_ECORRUPT);
    FAILS(annb_part_find_column(store, 0, ANNB_AXIS_OBS, "c", &column, &err), ANNB_ECORRUPT);
  } else if (kind == BAD_STRING) {
    check_string(obs(store, "s"), 0, "abc", false);
    for (uint64_t row = 1; row < 4; row++) {
      FAILS(annb_column_string(obs(store, "s"), row, &bytes, &length, NULL, &err), ANNB_ECORRUPT);
      ck_assert_int_eq(err.row, (int64_t)row);
    }
  } else {
    OK(annb_column_values(obs(store, "c"), 0, 2, &values, NULL, &err));
    OK(annb_column_values(obs(store, "c"), 3, 1, &values, NULL, &err));
    FAILS(annb_column_values(obs(store, "c"), 1, 2, &values, NULL, &err), ANNB_ECORRUPT);
    ck_assert_int_eq(err.row, 2);
  }
  annb_store_close(store);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("columns");
  TCase *tc = tcase_create("columns");
  tcase_set_timeout(tc, 120);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, order_and_info);
  tcase_add_test(tc, fixed_values);
  tcase_add_test(tc, string_values);
  tcase_add_test(tc, categorical_values);
  tcase_add_test(tc, bad_requests);
  tcase_add_test(tc, part_without_columns);
  tcase_add_test(tc, chunks);
  tcase_add_loop_test(tc, columns_that_do_not_fit, BAD_LENGTH, BAD_STRING + 1);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
