/* annb_pack from end to end: what a reader finds in the store; outputs, cancelling and refusals, which leave nothing behind. */
#include "pack_temp.h"
#include "suite.h"

#include <fcntl.h>

static const struct timespec long_ago[2] = {{1000000, 0}, {1000000, 0}};

/* ---- matrices ---- */

enum { ROWS = 700, COLS = 90 };

typedef struct sparse {
  int64_t indptr[ROWS + 1];
  int32_t indices[ROWS * COLS];
  float values[ROWS * COLS];
  size_t n;
} sparse;

static float value_at(uint64_t i, uint64_t j) {
  uint64_t x = (i * 1000003 + j * 7919) * UINT64_C(0x9E3779B97F4A7C15);
  return i % 13 == 5 || x >> 62 ? 0 : (float)(x >> 40 & 1023) / 8 + 0.125f;
}

/* By rows, or by columns. */
static sparse *make_sparse(bool by_column) {
  sparse *m = calloc(1, sizeof *m);
  size_t major = by_column ? COLS : ROWS, minor = by_column ? ROWS : COLS;
  for (size_t a = 0; a < major; a++) {
    for (size_t b = 0; b < minor; b++) {
      float x = by_column ? value_at(b, a) : value_at(a, b);
      if (x == 0) continue;
      m->indices[m->n] = (int32_t)b;
      m->values[m->n++] = x;
    }
    m->indptr[a + 1] = (int64_t)m->n;
  }
  return m;
}

static void make_input(annb_form form) {
  if (form == ANNB_DENSE) {
    const hsize_t dims[] = {ROWS, COLS}, chunk[] = {ROWS, 1};
    float *x = calloc(ROWS * COLS, sizeof *x);
    for (size_t i = 0; i < ROWS * COLS; i++) x[i] = value_at(i / COLS, i % COLS);
    hid_t file = h5_make_file(input);
    H5Gclose(h5_make_frame(file, "obs", ROWS, 0, NULL));
    H5Gclose(h5_make_frame(file, "var", COLS, 0, NULL));
    h5_make_array(file, "X", H5T_IEEE_F32LE, 2, dims, H5T_NATIVE_FLOAT, x, chunk, 1);
    H5Fclose(file);
    free(x);
    return;
  }
  sparse *m = make_sparse(form == ANNB_CSC);
  h5_make_h5ad(input, form == ANNB_CSC ? "csc_matrix" : "csr_matrix", ROWS, COLS, m->indptr, m->indices, m->values, m->n);
  free(m);
}

static void check_x(annb_form form) {
  annb_store *store;
  annb_context *context;
  annb_matrix_info info;
  uint32_t x;
  uint64_t rows[ROWS];
  sparse *want = make_sparse(false);
  int64_t indptr[ROWS + 1];
  int32_t *indices = calloc(want->n, sizeof *indices);
  float *values = calloc(want->n, sizeof *values);
  for (uint64_t i = 0; i < ROWS; i++) rows[i] = i;
  OK(annb_store_open(output, NULL, &store, &err));
  OK(annb_context_open(&context, &err));
  OK(annb_store_find_matrix(store, "X", &x, &err));
  OK(annb_store_matrix(store, x, &info, &err));
  ck_assert(info.n_rows == ROWS && info.n_cols == COLS && info.nnz == want->n && info.form == form && info.dtype == ANNB_F32);
  const annb_fetch_options as = {.dtype = ANNB_F32, .sort_indices = true}; /* as this source has them */
  OK(annb_fetch_csr(store, context, x, rows, ROWS, &as, indptr, indices, values, want->n, &err));
  ck_assert_mem_eq(indptr, want->indptr, sizeof indptr);
  ck_assert_mem_eq(indices, want->indices, want->n * sizeof *indices);
  ck_assert_mem_eq(values, want->values, want->n * sizeof *values);
  annb_context_close(context);
  annb_store_close(store);
  free(want);
  free(indices);
  free(values);
}

START_TEST(test_forms) {
  const annb_form forms[] = {ANNB_CSR, ANNB_CSC, ANNB_DENSE};
  for (int i = 0; i < 3; i++) {
    annb_pack_result result;
    make_input(forms[i]);
    OK(annb_pack(input, output, NULL, &result, &err));
    ck_assert(result.n_obs == ROWS && result.n_vars == COLS && result.generation == 1);
    check_x(forms[i]);
    temp_remove(output);
  }
}
END_TEST

/* Both directories hold files of the same names and bytes. */
static void same_files(const char *a, const char *b) {
  char **names, **others;
  size_t n, m;
  ck_assert_int_eq(annb_io_list(a, &names, &n, NULL), ANNB_OK);
  ck_assert_int_eq(annb_io_list(b, &others, &m, NULL), ANNB_OK);
  ck_assert_uint_eq(n, m);
  for (size_t i = 0; i < n; i++) {
    ck_assert_str_eq(names[i], others[i]);
    char *x = annb_io_join(a, names[i]), *y = annb_io_join(b, names[i]);
    size_t size, other;
    uint8_t *p = temp_read(x, &size), *q = temp_read(y, &other);
    ck_assert_uint_eq(size, other);
    ck_assert_mem_eq(p, q, size);
    free(p), free(q), free(x), free(y);
  }
  annb_io_free_names(names, n);
  annb_io_free_names(others, m);
}

START_TEST(test_same_bytes) {
  /* whatever the threads, the memory, the time and the name of the input */
  const annb_form forms[] = {ANNB_CSR, ANNB_CSC, ANNB_DENSE};
  char *again = annb_io_join(dir, "again.annblock"), *renamed = annb_io_join(dir, "renamed.h5ad");
  for (int i = 0; i < 3; i++) {
    annb_pack_options one = {.n_threads = 1, .memory = 32 << 20, .segment_rows = 300}, many = {.n_threads = 7, .segment_rows = 300};
    make_input(forms[i]);
    OK(annb_pack(input, output, &one, NULL, &err));
    ck_assert_int_eq(rename(input, renamed), 0);
    ck_assert_int_eq(utimensat(AT_FDCWD, renamed, long_ago, 0), 0);
    OK(annb_pack(renamed, again, &many, NULL, &err));
    const char *const parts[] = {"objects", "manifests"};
    for (int k = 0; k < 2; k++) {
      char *a = annb_io_join(output, parts[k]), *b = annb_io_join(again, parts[k]);
      same_files(a, b);
      free(a), free(b);
    }
    temp_remove(output);
    temp_remove(again);
  }
  free(again);
  free(renamed);
}
END_TEST

/* ---- outputs ---- */

START_TEST(test_outputs) {
  annb_pack_options force = {.force = true}, little = {.memory = 1 << 20};
  annb_pack_result result;
  make_input(ANNB_CSR);
  ck_assert_int_eq(annb_pack(NULL, output, NULL, NULL, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_pack(input, "", NULL, NULL, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_pack(input, output, &little, NULL, &err), ANNB_EINVAL);
  size_t size, after;
  uint8_t *before = temp_read(input, &size);
  force.force = true;
  ck_assert_int_eq(annb_pack(input, input, &force, NULL, &err), ANNB_EINVAL);
  char *inside = annb_io_join(input, "store"), *roundabout = malloc(strlen(dir) + 20);
  ck_assert_int_eq(annb_pack(input, inside, NULL, NULL, &err), ANNB_EINVAL);
  ck_assert_ptr_nonnull(strstr(err.message, "inside"));
  sprintf(roundabout, "%s/./in.h5ad", dir);
  ck_assert_int_eq(annb_pack(input, roundabout, NULL, NULL, &err), ANNB_EINVAL);
  uint8_t *now = temp_read(input, &after);
  ck_assert(size == after && !memcmp(before, now, size));
  OK(annb_pack(input, output, NULL, NULL, &err));
  ck_assert_int_eq(annb_pack(input, output, NULL, NULL, &err), ANNB_EEXIST);
  OK(annb_pack(input, output, &force, &result, &err));
  ck_assert_uint_eq(result.generation, 2);
  check_x(ANNB_CSR);
  free(inside), free(roundabout), free(before), free(now);
}
END_TEST

typedef struct watcher {
  uint64_t calls, stop_at;
  bool touch;
} watcher;

static bool watch(void *user, const char *stage, uint64_t done, uint64_t total) {
  watcher *w = user;
  ck_assert(total == 0 || done <= total);
  if (w->touch && !strcmp(stage, "packing X")) utimensat(AT_FDCWD, input, long_ago, 0);
  return ++w->calls != w->stop_at;
}

START_TEST(test_cancel) {
  const annb_form forms[] = {ANNB_CSR, ANNB_CSC};
  for (int i = 0; i < 2; i++) {
    make_input(forms[i]);
    watcher w = {0};
    annb_pack_options options = {.progress = watch, .user = &w};
    for (uint64_t stop_at = 1;; stop_at++) {
      w = (watcher){.stop_at = stop_at};
      annb_status s = annb_pack(input, output, &options, NULL, &err);
      if (!s) break;
      ck_assert_int_eq(s, ANNB_ECANCELED);
      ck_assert_uint_eq(w.calls, stop_at); /* not asked again */
      ck_assert(!temp_exists(output));
    }
    ck_assert_uint_gt(w.calls, 3);
    check_x(forms[i]);
    temp_remove(output);
  }
}
END_TEST

START_TEST(test_changed) {
  watcher w = {.touch = true};
  annb_pack_options options = {.progress = watch, .user = &w};
  make_input(ANNB_CSR);
  ck_assert_int_eq(annb_pack(input, output, &options, NULL, &err), ANNB_EINPUT);
  ck_assert_ptr_nonnull(strstr(err.message, "changed while it was read"));
  ck_assert(!temp_exists(output));
}
END_TEST

/* ---- more matrices, or none ---- */

static void add_slots(void) {
  const hsize_t dims[] = {ROWS, 2};
  sparse *by_row = make_sparse(false), *by_column = make_sparse(true);
  double *pca = calloc(ROWS * 2, sizeof *pca);
  for (size_t i = 0; i < ROWS * 2; i++) pca[i] = (double)i / 7 - 50;
  hid_t file = H5Fopen(input, H5F_ACC_RDWR, H5P_DEFAULT);
  H5Gclose(h5_make_group(file, "layers"));
  H5Gclose(h5_make_group(file, "obsm"));
  h5_make_sparse(file, "layers/rows", "csr_matrix", ROWS, COLS, by_row->indptr, ROWS + 1, by_row->indices, by_row->values, by_row->n);
  h5_make_sparse(file, "layers/columns", "csc_matrix", ROWS, COLS, by_column->indptr, COLS + 1, by_column->indices, by_column->values,
                 by_column->n);
  h5_make_array(file, "obsm/pca", H5T_IEEE_F64LE, 2, dims, H5T_NATIVE_DOUBLE, pca, NULL, 0);
  H5Fclose(file);
  free(by_row);
  free(by_column);
  free(pca);
}

/* Exactly these, in this order. */
static void expect_matrices(size_t n, const char *const *names) {
  annb_store *store;
  annb_store_info info;
  annb_matrix_info m;
  OK(annb_store_open(output, NULL, &store, &err));
  annb_store_get_info(store, &info);
  ck_assert_uint_eq(info.n_matrices, n);
  ck_assert(info.n_obs == ROWS && info.n_vars == COLS);
  for (uint32_t i = 0; i < n; i++) {
    OK(annb_store_matrix(store, i, &m, &err));
    ck_assert_str_eq(m.name, names[i]);
    ck_assert_uint_eq(m.n_rows, ROWS);
    bool free_columns = !strcmp(names[i], "obsm/pca");
    ck_assert_uint_eq(m.n_cols, free_columns ? 2 : COLS);
    ck_assert_int_eq(m.axes, free_columns ? ANNB_OBS_FREE : ANNB_OBS_VAR);
    ck_assert_int_eq(m.dtype, free_columns ? ANNB_F64 : ANNB_F32);
  }
  annb_store_close(store);
}

START_TEST(test_matrices) {
  static const char *const all[] = {"X", "layers/columns", "layers/rows", "obsm/pca"};
  static const char *const every[] = {"all"}, *const some[] = {"obsm/pca", "X", "obsm/pca"}, *const sorted[] = {"X", "obsm/pca"};
  static const char *const wrong[] = {"X", "layers/none"};
  annb_pack_options options = {.matrices = every, .n_matrices = 1};
  annb_pack_result result;
  make_input(ANNB_CSR);
  add_slots();
  OK(annb_pack(input, output, &options, &result, &err));
  expect_matrices(4, all);
  check_x(ANNB_CSR);
  sparse *x = make_sparse(false);
  ck_assert_uint_eq(result.nnz, 3 * x->n + 2 * ROWS - 1); /* one of pca is zero */
  free(x);
  ck_assert(result.n_matrices == 4 && result.n_left == 0);
  temp_remove(output);
  options = (annb_pack_options){.matrices = some, .n_matrices = 3};
  OK(annb_pack(input, output, &options, &result, &err));
  expect_matrices(2, sorted);
  temp_remove(output);
  options = (annb_pack_options){.matrices = some, .n_matrices = 1};
  OK(annb_pack(input, output, &options, &result, &err));
  expect_matrices(1, some);
  temp_remove(output);
  options = (annb_pack_options){.matrices = wrong, .n_matrices = 2};
  ck_assert_int_eq(annb_pack(input, output, &options, &result, &err), ANNB_ENOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.message, "'layers/none'"));
  ck_assert_ptr_nonnull(strstr(err.message, "X, layers/columns, layers/rows, obsm/pca"));
  ck_assert(!temp_exists(output));
}
END_TEST

START_TEST(test_without_x) {
  annb_pack_result result;
  make_input(ANNB_CSR);
  hid_t file = H5Fopen(input, H5F_ACC_RDWR, H5P_DEFAULT);
  H5Ldelete(file, "X", H5P_DEFAULT);
  H5Fclose(file);
  OK(annb_pack(input, output, NULL, &result, &err));
  ck_assert(result.n_obs == ROWS && result.n_vars == COLS && result.nnz == 0 && result.n_matrices == 0);
  expect_matrices(0, NULL);
  temp_remove(output);
  static const char *const x[] = {"X"};
  const annb_pack_options options = {.matrices = x, .n_matrices = 1};
  ck_assert_int_eq(annb_pack(input, output, &options, NULL, &err), ANNB_ENOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.message, "what can be packed: nothing"));
}
END_TEST

/* "all" leaves what it cannot pack where it is, and says so. */
START_TEST(test_left) {
  static const char *const every[] = {"all"}, *const left[] = {"X"};
  const annb_pack_options options = {.matrices = every, .n_matrices = 1};
  annb_pack_result result;
  make_input(ANNB_CSR);
  hid_t file = H5Fopen(input, H5F_ACC_RDWR, H5P_DEFAULT);
  H5Gclose(h5_make_group(file, "layers"));
  h5_make_sparse(file, "layers/linked", "csr_matrix", ROWS, COLS, NULL, 0, NULL, NULL, 0);
  H5Ldelete(file, "layers/linked/indices", H5P_DEFAULT);
  H5Lcreate_soft("/X/indices", file, "layers/linked/indices", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  OK(annb_pack(input, output, &options, &result, &err));
  ck_assert_uint_eq(result.n_left, 1);
  ck_assert_ptr_nonnull(strstr(result.left.message, "indices is reached by a link"));
  expect_matrices(1, left);
}
END_TEST

START_TEST(test_refusals) {
  const int64_t indptr[] = {0, 1, 2};
  const int32_t indices[] = {0, 5};
  const float values[] = {1, 2};
  h5_make_h5ad(input, "csr_matrix", 2, 3, indptr, indices, values, 2);
  refused(ANNB_EINPUT, "/X/indices: element 1 is 5, but the matrix has 3 columns"); /* found after the store was begun */
  temp_write(input, "hello", 5);
  refused(ANNB_EINPUT, "not an HDF5 file");
  unlink(input);
  refused(ANNB_EIO, "No such file");
}
END_TEST

/* ---- real files ---- */

static void each_file(const char *folder, void (*check)(const char *path)) {
  const char *base = getenv("H5AD_DIR");
  char **names;
  size_t n;
  if (!base || !*base) return;
  char *where = annb_io_join(base, folder);
  ck_assert_int_eq(annb_io_list(where, &names, &n, NULL), ANNB_OK);
  for (size_t i = 0; i < n; i++) {
    char *path = annb_io_join(where, names[i]);
    check(path);
    temp_remove(output);
    free(path);
  }
  annb_io_free_names(names, n);
  free(where);
}

static void must_fail(const char *path) {
  annb_status s = annb_pack(path, output, NULL, NULL, &err);
  if (s != ANNB_EINPUT && s != ANNB_EUNSUPPORTED) ck_abort_msg("%s: %s %s", path, annb_status_name(s), s ? err.message : "");
  ck_assert_msg(strstr(err.message, path) != NULL, "%s", err.message);
  ck_assert(!temp_exists(output));
}

/* Small ones here; all of them go through the command in test_roundtrip.py. */
static void must_pack(const char *path) {
  uint64_t size = 0;
  ck_assert_int_eq(annb_io_file_size(path, &size, NULL), ANNB_OK);
  if (size > 60000) return;
  annb_status s = annb_pack(path, output, NULL, NULL, &err);
  if (s && s != ANNB_EUNSUPPORTED && !strstr(path, "gen_layout_external") && !strstr(path, "gen_rust_only_names") && !strstr(path, "h5py2"))
    ck_abort_msg("%s: %s", path, err.message);
  ck_assert(s == ANNB_OK || !temp_exists(output));
}

START_TEST(test_real_files) {
  each_file("reject", must_fail);
  each_file("notad", must_fail);
  each_file("accept", must_pack);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("pack");
  TCase *tc = tcase_create("pack");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 300);
  tcase_add_test(tc, test_forms);
  tcase_add_test(tc, test_same_bytes);
  tcase_add_test(tc, test_outputs);
  tcase_add_test(tc, test_cancel);
  tcase_add_test(tc, test_changed);
  tcase_add_test(tc, test_matrices);
  tcase_add_test(tc, test_without_x);
  tcase_add_test(tc, test_left);
  tcase_add_test(tc, test_refusals);
  tcase_add_test(tc, test_real_files);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
