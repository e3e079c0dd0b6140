/* Columns of every kind and layout, packed and read back; damaged ones are refused. */
#include "pack_temp.h"
#include "suite.h"

static void make_group(hid_t parent, const char *name, const char *encoding, hid_t *group) {
  *group = h5_make_group(parent, name);
  h5_make_text(*group, "encoding-type", encoding);
}

static hid_t bool_type(void) {
  hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
  const int8_t no = 0, yes = 1;
  H5Tenum_insert(type, "FALSE", &no);
  H5Tenum_insert(type, "TRUE", &yes);
  return type;
}

static void make_small_x(hid_t file, uint64_t n_rows, uint64_t n_cols) {
  const int64_t zeros[16] = {0};
  h5_make_sparse(file, "X", "csr_matrix", n_rows, n_cols, zeros, n_rows + 1, NULL, NULL, 0);
}

static const char *const labels[] = {"b", "", "a\xc3\xa9"};

/* Four cells with a column of every kind. */
static void make_columns(void) {
  static const char *const order[] = {"cat",  "int",  "gone", "int",   "flag",  "text", "null",
                                      "nstr", "wide", "half", "fixed", "level", "date"};
  const int8_t codes[] = {2, -1, 0, 2}, flags[] = {1, 0, 0, 1}, mask[] = {0, 1, 0, 0};
  const int64_t ints[] = {INT64_MIN, -1, 0, INT64_MAX};
  const uint16_t halves[] = {0x7e01, 0x8000, 1, 0x3c00}; /* NaN with payload, -0, subnormal, 1 */
  const float pairs[8] = {0};
  const hsize_t wide[] = {4, 2};
  const uint8_t level[] = {0, 1, 2, 1};
  const char *const text[] = {"x", NULL, "", "long string"};
  hid_t file = h5_make_file(input), obs = h5_make_frame(file, "obs", 4, 13, order), type = bool_type(), group;
  make_small_x(file, 4, 3);
  H5Gclose(h5_make_frame(file, "var", 3, 0, NULL));
  make_group(obs, "cat", "categorical", &group);
  h5_make_vector(group, "codes", H5T_STD_I8LE, 4, H5T_NATIVE_INT8, codes);
  h5_make_strings(group, "categories", 3, labels);
  hid_t space = H5Screate(H5S_SCALAR), attr = H5Acreate2(group, "ordered", type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attr, type, flags);
  H5Aclose(attr);
  H5Gclose(group);
  h5_make_vector(obs, "int", H5T_STD_I64BE, 4, H5T_NATIVE_INT64, ints);
  h5_make_vector(obs, "flag", type, 4, type, flags);
  h5_make_strings(obs, "text", 4, text);
  make_group(obs, "null", "nullable-integer", &group);
  h5_make_vector(group, "values", H5T_STD_I64LE, 4, H5T_NATIVE_INT64, ints);
  h5_make_vector(group, "mask", type, 4, type, mask);
  H5Gclose(group);
  make_group(obs, "nstr", "nullable-string-array", &group);
  h5_make_strings(group, "values", 4, text);
  h5_make_vector(group, "mask", type, 4, type, mask);
  H5Gclose(group);
  h5_make_array(obs, "wide", H5T_IEEE_F32LE, 2, wide, H5T_NATIVE_FLOAT, pairs, NULL, 0);
  hid_t half = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(half, 15, 10, 5, 0, 10);
  H5Tset_size(half, 2);
  H5Tset_ebias(half, 15);
  h5_make_vector(obs, "half", half, 4, half, halves);
  hid_t bytes = H5Tcopy(H5T_C_S1);
  H5Tset_size(bytes, 5);
  H5Tset_strpad(bytes, H5T_STR_SPACEPAD);
  h5_make_vector(obs, "fixed", bytes, 4, bytes, "ab   abcde     c d  ");
  hid_t logical = H5Tenum_create(H5T_NATIVE_UINT8);
  for (uint8_t i = 0; i < 3; i++) H5Tenum_insert(logical, (const char *const[]){"FALSE", "TRUE", "NA"}[i], &i);
  h5_make_vector(obs, "level", logical, 4, logical, level);
  H5Gclose(h5_make_group(obs, "date"));
  H5Tclose(logical), H5Tclose(bytes), H5Tclose(half), H5Tclose(type), H5Sclose(space), H5Gclose(obs), H5Fclose(file);
}

static const annb_column *column(annb_store *store, annb_axis axis, uint32_t i, const char *name, annb_column_info *info) {
  const annb_column *c;
  OK(annb_part_column(store, 0, axis, i, &c, &err));
  annb_column_get_info(c, info);
  ck_assert_str_eq(info->name, name);
  return c;
}

static const void *fixed(const annb_column *c, uint64_t n, const uint8_t **mask) {
  const void *values;
  OK(annb_column_values(c, 0, n, &values, mask, &err));
  return values;
}

static void check_string(const annb_column *c, uint64_t row, const char *want) {
  const char *bytes;
  uint64_t length;
  bool missing;
  OK(annb_column_string(c, row, &bytes, &length, &missing, &err));
  if (missing != !want || (want && (length != strlen(want) || memcmp(bytes, want, length))))
    ck_abort_msg("row %llu is not '%s'", (unsigned long long)row, want ? want : "missing");
}

START_TEST(test_columns) {
  annb_store *store;
  annb_column_info info;
  const uint8_t *mask;
  uint32_t n;
  make_columns();
  OK(annb_pack(input, output, NULL, NULL, &err));
  OK(annb_store_open(output, NULL, &store, &err));
  OK(annb_part_n_columns(store, 0, ANNB_AXIS_OBS, &n, &err));
  ck_assert_uint_eq(n, 10); /* the index and nine: 'wide' and 'date' are for the sidecar, 'gone' is not there, 'int' counts once */
  const annb_column *c = column(store, ANNB_AXIS_OBS, 0, "_index", &info), *categories;
  ck_assert(info.is_index && info.kind == ANNB_COLUMN_STRING);
  check_string(c, 3, "obs3");
  c = column(store, ANNB_AXIS_OBS, 1, "cat", &info);
  ck_assert(info.kind == ANNB_COLUMN_CATEGORICAL && info.dtype == ANNB_I8 && info.ordered && info.n_categories == 3);
  ck_assert_mem_eq(fixed(c, 4, &mask), ((int8_t[]){2, -1, 0, 2}), 4);
  OK(annb_column_categories(c, &categories, &err));
  for (uint64_t i = 0; i < 3; i++) check_string(categories, i, labels[i]);
  c = column(store, ANNB_AXIS_OBS, 2, "int", &info);
  ck_assert(info.dtype == ANNB_I64 && !info.has_mask);
  ck_assert_mem_eq(fixed(c, 4, &mask), ((int64_t[]){INT64_MIN, -1, 0, INT64_MAX}), 32);
  c = column(store, ANNB_AXIS_OBS, 3, "flag", &info);
  ck_assert_int_eq(info.dtype, ANNB_BOOL);
  ck_assert_mem_eq(fixed(c, 4, &mask), "\1\0\0\1", 4);
  c = column(store, ANNB_AXIS_OBS, 4, "text", &info);
  check_string(c, 1, "");
  check_string(c, 3, "long string");
  c = column(store, ANNB_AXIS_OBS, 5, "null", &info);
  ck_assert(info.has_mask && info.dtype == ANNB_I64);
  ck_assert_mem_eq(fixed(c, 4, &mask), ((int64_t[]){INT64_MIN, -1, 0, INT64_MAX}), 32);
  ck_assert_mem_eq(mask, "\0\1\0\0", 4);
  c = column(store, ANNB_AXIS_OBS, 6, "nstr", &info);
  check_string(c, 0, "x");
  check_string(c, 1, NULL);
  c = column(store, ANNB_AXIS_OBS, 7, "half", &info);
  ck_assert_int_eq(info.dtype, ANNB_F16);
  ck_assert_mem_eq(fixed(c, 4, &mask), ((uint16_t[]){0x7e01, 0x8000, 1, 0x3c00}), 8);
  c = column(store, ANNB_AXIS_OBS, 8, "fixed", &info);
  check_string(c, 0, "ab");
  check_string(c, 1, "abcde");
  check_string(c, 2, "");
  check_string(c, 3, "c d");
  c = column(store, ANNB_AXIS_OBS, 9, "level", &info);
  ck_assert_int_eq(info.dtype, ANNB_U8);
  ck_assert_mem_eq(fixed(c, 4, &mask), "\0\1\2\1", 4);
  annb_store_close(store);
}
END_TEST

/* Change one object of the file of make_columns: `path` is deleted, then made anew when n > 0. */
static void spoil(const char *path, hid_t type, size_t n, hid_t memory, const void *data) {
  make_columns();
  hid_t file = H5Fopen(input, H5F_ACC_RDWR, H5P_DEFAULT);
  ck_assert_int_ge(H5Ldelete(file, path, H5P_DEFAULT), 0);
  if (n) h5_make_vector(file, path, type, n, memory, data);
  H5Fclose(file);
}

START_TEST(test_damaged_columns) {
  const int32_t three[] = {0, 1, 3, 0}, below[] = {0, -2, 1, 0};
  const uint8_t unsigned_missing[] = {0, 255, 1, 0};
  spoil("obs/cat/codes", H5T_STD_I32LE, 4, H5T_NATIVE_INT32, three);
  refused(ANNB_EINPUT, "obs/cat/codes: row 2 has the code 3, but there are 3 categories");
  spoil("obs/cat/codes", H5T_STD_I32LE, 4, H5T_NATIVE_INT32, below);
  refused(ANNB_EINPUT, "code -2");
  spoil("obs/cat/codes", H5T_STD_U8LE, 4, H5T_NATIVE_UINT8, unsigned_missing);
  refused(ANNB_EINPUT, "code 255");
  spoil("obs/cat/codes", H5T_STD_I32LE, 3, H5T_NATIVE_INT32, three);
  refused(ANNB_EINPUT, "has 3 values, but obs has 4 rows");
  spoil("obs/cat/codes", 0, 0, 0, NULL);
  refused(ANNB_EINPUT, "obs/cat/codes: is missing");
  spoil("obs/cat/categories", 0, 0, 0, NULL);
  refused(ANNB_EINPUT, "obs/cat/categories: is missing");
  spoil("obs/int", H5T_STD_I32LE, 2, H5T_NATIVE_INT32, three);
  refused(ANNB_EINPUT, "obs/int: has 2 values, but obs has 4 rows");
  spoil("obs/null/mask", H5T_STD_I32LE, 3, H5T_NATIVE_INT32, three);
  refused(ANNB_EINPUT, "obs/null/mask: has 3 values");
  spoil("obs/null/mask", 0, 0, 0, NULL);
  refused(ANNB_EINPUT, "obs/null/mask: is missing");
  spoil("obs/null/values", 0, 0, 0, NULL);
  refused(ANNB_EINPUT, "obs/null/values: is missing");
}
END_TEST

START_TEST(test_layout_07) {
  /* codes with a reference to their categories; numbers with a namesake in __categories but without it */
  static const char *const order[] = {"cat", "number"};
  const int8_t codes[] = {1, -1};
  hid_t file = h5_make_file(input), obs = h5_make_frame(file, "obs", 2, 2, order);
  make_small_x(file, 2, 1);
  H5Gclose(h5_make_frame(file, "var", 1, 0, NULL));
  h5_make_vector(obs, "cat", H5T_STD_I8LE, 2, H5T_NATIVE_INT8, codes);
  h5_make_vector(obs, "number", H5T_STD_I8LE, 2, H5T_NATIVE_INT8, codes);
  H5Gclose(h5_make_group(obs, "__categories"));
  h5_make_strings(obs, "__categories/cat", 3, labels);
  h5_make_strings(obs, "__categories/number", 3, labels);
  hobj_ref_t reference;
  ck_assert_int_ge(H5Rcreate(&reference, obs, "__categories/cat", H5R_OBJECT, -1), 0);
  hid_t cat = H5Dopen2(obs, "cat", H5P_DEFAULT), space = H5Screate(H5S_SCALAR),
        attr = H5Acreate2(cat, "categories", H5T_STD_REF_OBJ, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attr, H5T_STD_REF_OBJ, &reference);
  H5Aclose(attr), H5Sclose(space), H5Dclose(cat), H5Gclose(obs), H5Fclose(file);
  annb_store *store;
  annb_column_info info;
  const annb_column *categories;
  OK(annb_pack(input, output, NULL, NULL, &err));
  OK(annb_store_open(output, NULL, &store, &err));
  OK(annb_column_categories(column(store, ANNB_AXIS_OBS, 1, "cat", &info), &categories, &err));
  check_string(categories, 2, labels[2]);
  column(store, ANNB_AXIS_OBS, 2, "number", &info);
  ck_assert_int_eq(info.kind, ANNB_COLUMN_FIXED);
  annb_store_close(store);
}
END_TEST

typedef struct record {
  char *index;
  int32_t louvain;
  double score;
} record;

START_TEST(test_layout_06) {
  /* tables, with categories in uns; var's codes do not fit those, which were obs's */
  record obs[] = {{(char *)"c0", 1, 0.5}, {(char *)"c1", 0, -0.0}}, var[] = {{(char *)"g0", 7, 1}};
  hid_t file = h5_make_file(input), text = H5Tcopy(H5T_C_S1), table = H5Tcreate(H5T_COMPOUND, sizeof(record));
  H5Tset_size(text, H5T_VARIABLE);
  H5Tinsert(table, "index", HOFFSET(record, index), text);
  H5Tinsert(table, "louvain", HOFFSET(record, louvain), H5T_NATIVE_INT32);
  H5Tinsert(table, "score", HOFFSET(record, score), H5T_NATIVE_DOUBLE);
  h5_make_vector(file, "obs", table, 2, table, obs);
  h5_make_vector(file, "var", table, 1, table, var);
  H5Gclose(h5_make_group(file, "uns"));
  h5_make_strings(file, "uns/louvain_categories", 2, labels);
  make_small_x(file, 2, 1);
  H5Tclose(table), H5Tclose(text), H5Fclose(file);
  annb_store *store;
  annb_column_info info;
  const annb_column *categories;
  const uint8_t *mask;
  OK(annb_pack(input, output, NULL, NULL, &err));
  OK(annb_store_open(output, NULL, &store, &err));
  check_string(column(store, ANNB_AXIS_OBS, 0, "index", &info), 1, "c1");
  const annb_column *c = column(store, ANNB_AXIS_OBS, 1, "louvain", &info);
  ck_assert_mem_eq(fixed(c, 2, &mask), "\1\0", 2);
  OK(annb_column_categories(c, &categories, &err));
  check_string(categories, 0, labels[0]);
  ck_assert_mem_eq(fixed(column(store, ANNB_AXIS_OBS, 2, "score", &info), 2, &mask), ((double[]){0.5, -0.0}), 16);
  c = column(store, ANNB_AXIS_VAR, 1, "louvain", &info);
  ck_assert_int_eq(info.kind, ANNB_COLUMN_FIXED);
  ck_assert_mem_eq(fixed(c, 1, &mask), ((int32_t[]){7}), 4);
  annb_store_close(store);
}
END_TEST

START_TEST(test_number_index_and_many_categories) {
  enum { N = 200 };
  static const char *const order[] = {"cat"};
  int64_t names[3] = {10, -20, 30}, categories[N];
  const int16_t codes[] = {199, 0, -1};
  for (int i = 0; i < N; i++) categories[i] = 1000 + i;
  hid_t file = h5_make_file(input), obs = h5_make_frame(file, "obs", 3, 1, order), group;
  make_small_x(file, 3, 1);
  H5Gclose(h5_make_frame(file, "var", 1, 0, NULL));
  H5Ldelete(obs, "_index", H5P_DEFAULT);
  h5_make_vector(obs, "_index", H5T_STD_I64LE, 3, H5T_NATIVE_INT64, names);
  make_group(obs, "cat", "categorical", &group);
  h5_make_vector(group, "codes", H5T_STD_I16LE, 3, H5T_NATIVE_INT16, codes);
  h5_make_vector(group, "categories", H5T_STD_I64LE, N, H5T_NATIVE_INT64, categories);
  H5Gclose(group), H5Gclose(obs), H5Fclose(file);
  annb_store *store;
  annb_column_info info;
  const annb_column *values;
  const uint8_t *mask;
  OK(annb_pack(input, output, NULL, NULL, &err));
  OK(annb_store_open(output, NULL, &store, &err));
  const annb_column *c = column(store, ANNB_AXIS_OBS, 0, "_index", &info);
  ck_assert(info.is_index && info.kind == ANNB_COLUMN_FIXED && info.dtype == ANNB_I64);
  ck_assert_mem_eq(fixed(c, 3, &mask), names, sizeof names);
  c = column(store, ANNB_AXIS_OBS, 1, "cat", &info);
  ck_assert_int_eq(info.dtype, ANNB_I16);
  ck_assert_mem_eq(fixed(c, 3, &mask), codes, sizeof codes);
  OK(annb_column_categories(c, &values, &err));
  ck_assert_mem_eq(fixed(values, N, &mask), categories, sizeof categories);
  annb_store_close(store);
}
END_TEST

START_TEST(test_long_strings) {
  /* more bytes than one piece of reading holds, and a string longer than a piece */
  enum { N = 40 };
  static const char *const order[] = {"text"};
  char *strings[N];
  for (size_t i = 0; i < N; i++) {
    size_t length = i == 20 ? (6 << 20) : 300000 + i;
    strings[i] = malloc(length + 1);
    memset(strings[i], (int)('a' + i % 26), length);
    strings[i][length] = 0;
  }
  hid_t file = h5_make_file(input), obs = h5_make_frame(file, "obs", N, 1, order);
  const int64_t zeros[N + 1] = {0};
  h5_make_sparse(file, "X", "csr_matrix", N, 1, zeros, N + 1, NULL, NULL, 0);
  H5Gclose(h5_make_frame(file, "var", 1, 0, NULL));
  h5_make_strings(obs, "text", N, (const char *const *)strings);
  H5Gclose(obs), H5Fclose(file);
  annb_store *store;
  annb_column_info info;
  OK(annb_pack(input, output, NULL, NULL, &err));
  OK(annb_store_open(output, NULL, &store, &err));
  const annb_column *c = column(store, ANNB_AXIS_OBS, 1, "text", &info);
  for (size_t i = 0; i < N; i++) {
    check_string(c, i, strings[i]);
    free(strings[i]);
  }
  annb_store_close(store);
  temp_remove(output);
  annb_pack_options little = {.memory = 32 << 20};
  ck_assert_int_eq(annb_pack(input, output, &little, NULL, &err), ANNB_ENOMEM);
  ck_assert_ptr_nonnull(strstr(err.message, "obs/text: the string in row 20"));
  ck_assert(!temp_exists(output));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("pack_columns");
  TCase *tc = tcase_create("pack_columns");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 300);
  tcase_add_test(tc, test_columns);
  tcase_add_test(tc, test_damaged_columns);
  tcase_add_test(tc, test_layout_07);
  tcase_add_test(tc, test_layout_06);
  tcase_add_test(tc, test_number_index_and_many_categories);
  tcase_add_test(tc, test_long_strings);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
