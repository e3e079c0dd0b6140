/* What a source is: its axes, its X, other kinds of files, and every kind of damage by its message. */
#include "source_reader.h"
#include "suite.h"

/* ---- the small matrix of most tests ---- */

static void replace(const char *name, hid_t type, size_t n, hid_t memory, const void *data) {
  hid_t file = edit();
  ck_assert_int_ge(H5Ldelete(file, name, H5P_DEFAULT), 0);
  h5_make_vector(file, name, type, n, memory, data);
  H5Fclose(file);
}

START_TEST(test_csr) {
  make_small();
  expect_small(MEMORY);
  expect_small(0);
}
END_TEST

START_TEST(test_legacy_attributes) {
  make_small();
  const uint64_t shape[] = {3, 4};
  hid_t file = edit(), x = H5Gopen2(file, "X", H5P_DEFAULT);
  H5Adelete(x, "encoding-type");
  H5Adelete(x, "shape");
  h5_make_text(x, "h5sparse_format", "csr");
  h5_make_numbers(x, "h5sparse_shape", 2, shape);
  H5Gclose(x);
  H5Fclose(file);
  expect_small(MEMORY);
}
END_TEST

START_TEST(test_index_types) {
  const hid_t types[] = {H5T_STD_I8LE,  H5T_STD_U8LE,  H5T_STD_I16BE, H5T_STD_U16LE, H5T_STD_I32BE,
                         H5T_STD_U32LE, H5T_STD_I64LE, H5T_STD_I64BE, H5T_STD_U64LE};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    make_small();
    replace("X/indices", types[i], 5, H5T_NATIVE_INT32, small_indices);
    replace("X/indptr", types[i], 4, H5T_NATIVE_INT64, small_indptr);
    expect_small(MEMORY);
  }
  make_small();
  replace("X/indptr", H5T_IEEE_F64LE, 4, H5T_NATIVE_INT64, small_indptr);
  expect_small(MEMORY);
  replace("X/indptr", H5T_IEEE_F32BE, 4, H5T_NATIVE_INT64, small_indptr);
  expect_small(MEMORY);
}
END_TEST

START_TEST(test_bad_pointers) {
  static const struct {
    int64_t p[4];
    const char *text;
  } cases[] = {{{1, 2, 2, 5}, "starts at 1"},    {{0, 3, 2, 5}, "decreases at entry 2"}, {{0, 2, 2, 6}, "ends at element 6"},
               {{0, -2, 2, 5}, "negative"},      {{0, 9, 9, 5}, "past its last entry"},  {{0, 2, 2, INT64_MIN}, "negative"},
               {{0, 2, 2, INT64_MAX}, "ends at"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    make_small();
    replace("X/indptr", H5T_STD_I64LE, 4, H5T_NATIVE_INT64, cases[i].p);
    expect_failure(ANNB_EINPUT, cases[i].text);
    ck_assert_ptr_nonnull(strstr(err.message, "/X/indptr"));
  }
  const double fractional[] = {0, 2, 2.5, 5}, nan[] = {0, 2, 0.0 / 0.0, 5}, huge[] = {0, 2, 2, 1e300};
  replace("X/indptr", H5T_IEEE_F64LE, 4, H5T_NATIVE_DOUBLE, fractional);
  expect_failure(ANNB_EINPUT, "2.5");
  replace("X/indptr", H5T_IEEE_F64LE, 4, H5T_NATIVE_DOUBLE, nan);
  expect_failure(ANNB_EINPUT, "no row pointer");
  replace("X/indptr", H5T_IEEE_F64LE, 4, H5T_NATIVE_DOUBLE, huge);
  expect_failure(ANNB_EINPUT, "no row pointer");
  const uint64_t wrapped[] = {0, 2, 2, UINT64_MAX};
  replace("X/indptr", H5T_STD_U64LE, 4, H5T_NATIVE_UINT64, wrapped);
  expect_failure(ANNB_EINPUT, "ends at element");
}
END_TEST

START_TEST(test_bad_indices) {
  const int32_t negative[] = {0, 3, -1, 2, 3}, large[] = {0, 3, 1, 4, 3};
  const int64_t wide[] = {0, 3, 1, INT64_C(0x100000001), 3};
  const uint64_t huge[] = {0, UINT64_MAX, 1, 2, 3};
  const int8_t byte[] = {0, 3, 1, 2, -128};
  make_small();
  replace("X/indices", H5T_STD_I32LE, 5, H5T_NATIVE_INT32, negative);
  expect_failure(ANNB_EINPUT, "element 2 is -1");
  replace("X/indices", H5T_STD_I32LE, 5, H5T_NATIVE_INT32, large);
  expect_failure(ANNB_EINPUT, "element 3 is 4");
  replace("X/indices", H5T_STD_I64LE, 5, H5T_NATIVE_INT64, wide);
  expect_failure(ANNB_EINPUT, "element 3 is 4294967297");
  replace("X/indices", H5T_STD_U64LE, 5, H5T_NATIVE_UINT64, huge);
  expect_failure(ANNB_EINPUT, "element 1 is 18446744073709551615");
  replace("X/indices", H5T_STD_I8LE, 5, H5T_NATIVE_INT8, byte);
  expect_failure(ANNB_EINPUT, "element 4 is -128");
  replace("X/indices", H5T_IEEE_F32LE, 5, H5T_NATIVE_INT32, small_indices);
  expect_failure(ANNB_EINPUT, "integer");
}
END_TEST

START_TEST(test_lengths) {
  make_small();
  replace("X/indptr", H5T_STD_I64LE, 3, H5T_NATIVE_INT64, small_indptr);
  expect_failure(ANNB_EINPUT, "has 3 entries; a matrix of 3 rows needs 4");
  make_small();
  replace("X/data", H5T_IEEE_F32LE, 4, H5T_NATIVE_FLOAT, small_values);
  expect_failure(ANNB_EINPUT, "4 values in data but 5 in indices");
  make_small();
  hid_t file = edit();
  H5Ldelete(file, "obs", H5P_DEFAULT);
  H5Gclose(h5_make_frame(file, "obs", 7, 0, NULL));
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "shape 3 × 4, but obs has 7 rows and var 4");
}
END_TEST

START_TEST(test_tail) {
  const int32_t indices[] = {0, 3, 1, 2, 3, 999, -5}; /* past the last pointer: not looked at */
  const float values[] = {1, 2, 3, -0.0f, 5, 6, 7};
  h5_make_h5ad(path, "csr_matrix", 3, 4, small_indptr, indices, values, 7);
  expect_small(MEMORY);
}
END_TEST

START_TEST(test_missing_parts) {
  static const struct {
    const char *name, *text;
    annb_status status;
  } cases[] = {{"X", "X is missing", ANNB_EUNSUPPORTED},
               {"obs", "obs is missing", ANNB_EINPUT},
               {"var", "var is missing", ANNB_EINPUT},
               {"X/data", "/X/data: is missing", ANNB_EINPUT},
               {"X/indptr", "/X/indptr: is missing", ANNB_EINPUT},
               {"obs/_index", "obs/_index: is missing", ANNB_EINPUT}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    make_small();
    remove_object(cases[i].name);
    expect_failure(cases[i].status, cases[i].text);
  }
  make_small();
  remove_object("X");
  hid_t file = edit(), space = H5Screate(H5S_NULL);
  H5Dclose(H5Dcreate2(file, "X", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Sclose(space);
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "/X: is a dataset without values");
}
END_TEST

START_TEST(test_kinds_of_x) {
  make_small();
  hid_t file = edit(), x = H5Gopen2(file, "X", H5P_DEFAULT);
  H5Adelete(x, "encoding-type");
  H5Gclose(x);
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "encoding-type");
  file = edit();
  x = H5Gopen2(file, "X", H5P_DEFAULT);
  h5_make_text(x, "encoding-type", "awkward-array");
  H5Gclose(x);
  H5Fclose(file);
  expect_failure(ANNB_EUNSUPPORTED, "awkward-array");
  make_small();
  const char *const words[] = {"a", "b", "c", "d", "e"};
  file = edit();
  H5Ldelete(file, "X/data", H5P_DEFAULT);
  h5_make_strings(file, "X/data", 5, words);
  H5Fclose(file);
  expect_failure(ANNB_EUNSUPPORTED, "string");
  remove_object("X");
  file = edit();
  h5_make_vector(file, "X", H5T_IEEE_F32LE, 3, H5T_NATIVE_FLOAT, small_values);
  H5Fclose(file);
  expect_failure(ANNB_EUNSUPPORTED, "1 dimension");
}
END_TEST

START_TEST(test_links) {
  make_small();
  hid_t file = edit();
  H5Gclose(h5_make_group(file, "layers"));
  H5Lmove(file, "X", file, "layers/counts", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("layers/counts", file, "X", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  expect_small(MEMORY);
  annb_source source;
  annb_source_matrix x;
  ck_assert_int_eq(annb_source_open(&source, path, MEMORY, NULL), ANNB_OK);
  ck_assert_int_eq(annb_source_matrix_open(&x, &source, "X", NULL), ANNB_OK);
  ck_assert_str_eq(x.path, "/layers/counts");
  annb_source_matrix_close(&x);
  annb_source_close(&source);

  char other[128];
  snprintf(other, sizeof other, "%s/other.h5", dir);
  ck_assert_int_eq(rename(path, other), 0);
  make_small();
  remove_object("X");
  file = edit();
  H5Lcreate_external(other, "/layers/counts", file, "X", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  expect_failure(ANNB_EUNSUPPORTED, "another file");
  unlink(other);
  expect_failure(ANNB_EINPUT, "which cannot be read");
  remove_object("X");
  file = edit();
  H5Lcreate_soft("/X", file, "X", H5P_DEFAULT, H5P_DEFAULT); /* to itself */
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "/X: is a link that leads nowhere");
}
END_TEST

START_TEST(test_other_files) {
  hid_t file = h5_make_file(path);
  H5Gclose(h5_make_group(file, "mod/rna"));
  H5Gclose(h5_make_frame(file, "obs", 3, 0, NULL));
  H5Gclose(h5_make_frame(file, "var", 3, 0, NULL));
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "MuData");
  file = h5_make_file(path);
  H5Gclose(h5_make_group(file, "matrix/barcodes"));
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "10x");
  file = h5_make_file(path);
  H5Gclose(h5_make_group(file, "GRCh38/barcodes"));
  H5Gclose(h5_make_group(file, "GRCh38/indptr"));
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "10x");
  file = h5_make_file(path);
  H5Gclose(h5_make_group(file, "matrix"));
  H5Gclose(h5_make_group(file, "row_attrs"));
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "loom");
  H5Fclose(h5_make_file(path));
  expect_failure(ANNB_EINPUT, "no X, no obs and no var");
  FILE *text = fopen(path, "w");
  fputs("version https://example.org\n", text);
  fclose(text);
  expect_failure(ANNB_EINPUT, "not an HDF5 file");
  unlink(path);
  expect_failure(ANNB_EIO, "");
}
END_TEST

/* ---- filters ---- */

static size_t copy_filter(unsigned flags, size_t n, const unsigned *values, size_t bytes, size_t *size, void **buffer) {
  (void)flags, (void)n, (void)values, (void)size, (void)buffer;
  return bytes;
}

START_TEST(test_missing_filter) {
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, 300, 1, 1, "squeeze", NULL, NULL, copy_filter};
  const hsize_t dims[] = {5}, chunk[] = {5};
  make_small();
  remove_object("X/data");
  H5Zregister(&filter);
  hid_t file = edit(), creation = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, dims, NULL);
  H5Pset_chunk(creation, 1, chunk);
  H5Pset_filter(creation, 300, 0, 0, NULL);
  hid_t data = H5Dcreate2(file, "X/data", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  ck_assert_int_ge(H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, small_values), 0);
  H5Dclose(data);
  H5Sclose(space);
  H5Pclose(creation);
  H5Fclose(file);
  expect_small(MEMORY);
  H5Zunregister(300);
  expect_failure(ANNB_EUNSUPPORTED, "squeeze");
  ck_assert_ptr_nonnull(strstr(err.message, "300"));
  ck_assert_ptr_nonnull(strstr(err.message, "/X/data"));
  ck_assert_ptr_nonnull(strstr(err.message, "HDF5_PLUGIN_PATH"));
}
END_TEST

START_TEST(test_large_chunk) {
  const hsize_t dims[] = {3, 4}, chunk[] = {65536, 1024}; /* 256 MiB of one chunk */
  const float x[12] = {1};
  hid_t file = h5_make_file(path), creation = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t unlimited[] = {H5S_UNLIMITED, H5S_UNLIMITED};
  H5Gclose(h5_make_frame(file, "obs", 3, 0, NULL));
  H5Gclose(h5_make_frame(file, "var", 4, 0, NULL));
  H5Pset_chunk(creation, 2, chunk);
  H5Pset_deflate(creation, 1);
  hid_t space = H5Screate_simple(2, dims, unlimited),
        data = H5Dcreate2(file, "X", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  (void)x;
  H5Dclose(data);
  H5Sclose(space);
  H5Pclose(creation);
  H5Fclose(file);
  expect_failure(ANNB_ENOMEM, "MiB of memory");
}
END_TEST

START_TEST(test_virtual) {
  /* HDF5 would deliver fill values for sources that are missing */
  const hsize_t dims[] = {5};
  const char *const sources[] = {".", "elsewhere.h5"};
  for (int i = 0; i < 2; i++) {
    make_small();
    hid_t file = edit(), space = H5Screate_simple(1, dims, NULL), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Lmove(file, "X/data", file, "values", H5P_DEFAULT, H5P_DEFAULT);
    ck_assert_int_ge(H5Pset_virtual(creation, space, sources[i], "values", space), 0);
    H5Dclose(H5Dcreate2(file, "X/data", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    H5Pclose(creation), H5Sclose(space), H5Fclose(file);
    if (i == 0) expect_small(MEMORY);
    remove_object("values");
    expect_failure(ANNB_EINPUT, i ? "its source values in elsewhere.h5 is missing" : "its source values in this file is missing");
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("source");
  TCase *tc = tcase_create("source");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 120);
  tcase_add_test(tc, test_csr);
  tcase_add_test(tc, test_legacy_attributes);
  tcase_add_test(tc, test_index_types);
  tcase_add_test(tc, test_bad_pointers);
  tcase_add_test(tc, test_bad_indices);
  tcase_add_test(tc, test_lengths);
  tcase_add_test(tc, test_tail);
  tcase_add_test(tc, test_missing_parts);
  tcase_add_test(tc, test_kinds_of_x);
  tcase_add_test(tc, test_links);
  tcase_add_test(tc, test_other_files);
  tcase_add_test(tc, test_missing_filter);
  tcase_add_test(tc, test_large_chunk);
  tcase_add_test(tc, test_virtual);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
