/* Axes that a source lacks, and which of its members are matrices. */
#include "source_reader.h"
#include "suite.h"

#include "../convert/source/matrices.h"

/* ---- axes that are not there ---- */

static void expect_axes(uint64_t n_obs, uint64_t n_vars, bool obs, bool var) {
  annb_source source;
  ck_assert_msg(annb_source_open(&source, path, MEMORY, &err) == ANNB_OK, "%s", err.message);
  ck_assert_uint_eq(source.obs.length, n_obs);
  ck_assert_uint_eq(source.var.length, n_vars);
  ck_assert_int_eq(source.obs.object >= 0, obs);
  ck_assert_int_eq(source.var.object >= 0, var);
  annb_source_close(&source);
}

START_TEST(test_absent_axes) {
  make_small();
  remove_object("obs");
  remove_object("var");
  expect_axes(3, 4, false, false); /* as X says */
  expect_small(MEMORY);
  hid_t file = edit(), x = H5Gopen2(file, "X", H5P_DEFAULT);
  H5Adelete(x, "encoding-type");
  H5Gclose(x);
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "/X is not marked as AnnData's");
  make_small();
  remove_object("X");
  expect_axes(3, 4, true, true);
  remove_object("var");
  expect_axes(3, 0, true, false);
  make_small();
  remove_object("X");
  remove_object("obs");
  expect_axes(0, 4, false, true);
}
END_TEST

/* A shape that only an attribute states is not believed. */
START_TEST(test_absent_axes_huge) {
  const uint64_t shape[] = {UINT64_C(1) << 39, 4};
  make_small();
  remove_object("obs");
  remove_object("var");
  hid_t file = edit(), x = H5Gopen2(file, "X", H5P_DEFAULT);
  H5Adelete(x, "shape");
  h5_make_numbers(x, "shape", 2, shape);
  H5Gclose(x);
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "most of them were never written");
}
END_TEST

/* ---- which matrices there are ---- */

static void expect_matrices(size_t n, const char *const *names) {
  annb_source source;
  annb_names found;
  ck_assert_msg(annb_source_open(&source, path, MEMORY, &err) == ANNB_OK, "%s", err.message);
  ck_assert_int_eq(annb_source_matrices(&source, &found, &err), ANNB_OK);
  ck_assert_uint_eq(found.n, n);
  for (size_t i = 0; i < n; i++) ck_assert_str_eq(found.name[i], names[i]);
  annb_names_free(&found);
  annb_source_close(&source);
}

static annb_status open_matrix(const char *name, uint64_t *n_cols, char **at) {
  annb_source source;
  annb_source_matrix m;
  ck_assert_msg(annb_source_open(&source, path, MEMORY, &err) == ANNB_OK, "%s", err.message);
  annb_status s = annb_source_matrix_open(&m, &source, name, &err);
  if (!s) {
    *n_cols = m.n_cols;
    *at = strdup(m.path);
    annb_source_matrix_close(&m);
  }
  annb_source_close(&source);
  return s;
}

static void expect_matrix(const char *name, uint64_t n_cols, const char *at) {
  uint64_t found = 0;
  char *where = NULL;
  annb_status s = open_matrix(name, &found, &where);
  ck_assert_msg(s == ANNB_OK, "%s", s ? err.message : "");
  ck_assert_uint_eq(found, n_cols);
  ck_assert_str_eq(where, at);
  free(where);
}

/* Slots with matrices and with what is none: vectors, strings, cubes, groups of other kinds, links that lead nowhere. */
static void make_slots(hid_t file) {
  const hsize_t dims[] = {3, 2}, cube[] = {3, 1, 2};
  const float dense[6] = {1, 2, 3, 4, 5, 6};
  const char *const words[] = {"a", "b", "c"};
  H5Gclose(h5_make_group(file, "layers"));
  H5Gclose(h5_make_group(file, "obsm"));
  h5_make_sparse(file, "layers/b", "csr_matrix", 3, 4, small_indptr, 4, small_indices, small_values, 5);
  h5_make_sparse(file, "layers/a", "csr_matrix", 3, 4, small_indptr, 4, small_indices, small_values, 5);
  h5_make_sparse(file, "layers/other", "coo_matrix", 3, 4, small_indptr, 4, small_indices, small_values, 5);
  H5Lcreate_soft("/nowhere", file, "layers/gone", H5P_DEFAULT, H5P_DEFAULT);
  h5_make_array(file, "obsm/pca", H5T_IEEE_F32LE, 2, dims, H5T_NATIVE_FLOAT, dense, NULL, 0);
  h5_make_array(file, "obsm/cube", H5T_IEEE_F32LE, 3, cube, H5T_NATIVE_FLOAT, dense, NULL, 0);
  h5_make_vector(file, "obsm/vector", H5T_IEEE_F32LE, 3, H5T_NATIVE_FLOAT, dense);
  h5_make_strings(file, "obsm/words", 3, words);
  H5Gclose(h5_make_group(file, "obsm/frame"));
}

START_TEST(test_matrices) {
  static const char *const names[] = {"X", "layers/a", "layers/b", "raw/X", "obsm/pca"};
  const int64_t pointers[] = {0, 1, 1, 2};
  const int32_t indices[] = {6, 0};
  make_small();
  expect_matrices(1, names);
  hid_t file = edit();
  make_slots(file);
  H5Gclose(h5_make_group(file, "raw"));
  h5_make_sparse(file, "raw/X", "csr_matrix", 3, 7, pointers, 4, indices, small_values, 2);
  H5Gclose(h5_make_frame(file, "raw/var", 7, 0, NULL));
  H5Fclose(file);
  expect_matrices(5, names);
  expect_matrix("layers/a", 4, "/layers/a");
  expect_matrix("raw/X", 7, "/raw/X");
  expect_matrix("obsm/pca", 2, "/obsm/pca");
  uint64_t n;
  char *at;
  ck_assert_int_eq(open_matrix("layers/gone", &n, &at), ANNB_EINPUT);
  ck_assert_int_eq(open_matrix("layers/none", &n, &at), ANNB_EUNSUPPORTED);
  file = edit(); /* names as old files have them */
  H5Lmove(file, "raw/X", file, "raw.X", H5P_DEFAULT, H5P_DEFAULT);
  H5Lmove(file, "raw/var", file, "raw.var", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  expect_matrices(5, names);
  expect_matrix("raw/X", 7, "/raw.X");
  remove_object("raw.var");
  file = edit();
  H5Gclose(h5_make_frame(file, "raw.var", 6, 0, NULL));
  H5Fclose(file);
  ck_assert_int_eq(open_matrix("raw/X", &n, &at), ANNB_EINPUT);
  ck_assert_ptr_nonnull(strstr(err.message, "3 × 7, but obs has 3 rows and raw/var 6"));
  remove_object("X");
  expect_matrices(4, names + 1);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("source_matrices");
  TCase *tc = tcase_create("source_matrices");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 120);
  tcase_add_test(tc, test_absent_axes);
  tcase_add_test(tc, test_absent_axes_huge);
  tcase_add_test(tc, test_matrices);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
