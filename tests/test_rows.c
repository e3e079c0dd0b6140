/* X as rows, whatever its form and however little memory there is. */
#include "source_reader.h"
#include "suite.h"

/* ---- larger matrices: every form, against the same rows ---- */

typedef struct random_matrix {
  uint64_t n_rows, n_cols, n;
  float *dense; /* row by row */
  int64_t *row_ptr, *col_ptr;
  int32_t *col_of, *row_of; /* of CSR, of CSC */
  float *by_row, *by_col;
} random_matrix;

static uint32_t random32(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 33);
}

static random_matrix make_random(uint64_t n_rows, uint64_t n_cols, unsigned one_in) {
  random_matrix m = {n_rows,
                     n_cols,
                     0,
                     calloc(n_rows * n_cols, sizeof(float)),
                     calloc(n_rows + 1, sizeof(int64_t)),
                     calloc(n_cols + 1, sizeof(int64_t)),
                     calloc(n_rows * n_cols, sizeof(int32_t)),
                     calloc(n_rows * n_cols, sizeof(int32_t)),
                     calloc(n_rows * n_cols, sizeof(float)),
                     calloc(n_rows * n_cols, sizeof(float))};
  uint64_t state = 7;
  for (uint64_t i = 0; i < n_rows; i++) {
    for (uint64_t j = 0; j < n_cols; j++) {
      if (i % 17 == 3 || random32(&state) % one_in) continue;
      float x = (float)(random32(&state) % 1000) - 500.5f;
      m.dense[i * n_cols + j] = x;
      m.col_of[m.n] = (int32_t)j;
      m.by_row[m.n++] = x;
    }
    m.row_ptr[i + 1] = (int64_t)m.n;
  }
  uint64_t k = 0;
  for (uint64_t j = 0; j < n_cols; j++) {
    for (uint64_t i = 0; i < n_rows; i++)
      if (m.dense[i * n_cols + j] != 0) {
        m.row_of[k] = (int32_t)i;
        m.by_col[k++] = m.dense[i * n_cols + j];
      }
    m.col_ptr[j + 1] = (int64_t)k;
  }
  return m;
}

static void free_random(random_matrix *m) {
  free(m->dense), free(m->row_ptr), free(m->col_ptr), free(m->col_of), free(m->row_of), free(m->by_row), free(m->by_col);
}

static void expect_random(const random_matrix *want, annb_form form, uint64_t memory, unsigned least_chunks) {
  matrix m;
  expect_ok(memory, &m);
  ck_assert_int_eq(m.form, form);
  ck_assert_uint_eq(m.n_rows, want->n_rows);
  ck_assert_uint_eq(m.n, want->n);
  ck_assert_uint_ge(m.n_chunks, least_chunks);
  ck_assert(!m.unordered);
  ck_assert_mem_eq(m.indptr, want->row_ptr, (want->n_rows + 1) * sizeof *m.indptr);
  ck_assert_mem_eq(m.indices, want->col_of, want->n * sizeof *m.indices);
  ck_assert_mem_eq(m.values, want->by_row, want->n * sizeof(float));
  free_matrix(&m);
}

static void make_dense(const random_matrix *m, const hsize_t *chunk, int gzip) {
  const hsize_t dims[] = {m->n_rows, m->n_cols};
  hid_t file = h5_make_file(path);
  H5Gclose(h5_make_frame(file, "obs", m->n_rows, 0, NULL));
  H5Gclose(h5_make_frame(file, "var", m->n_cols, 0, NULL));
  h5_make_array(file, "X", H5T_IEEE_F32LE, 2, dims, H5T_NATIVE_FLOAT, m->dense, chunk, gzip);
  H5Fclose(file);
}

START_TEST(test_forms) {
  random_matrix m = make_random(1500, 600, 3); /* 300,000 elements, over the least chunk of 1 MiB */
  h5_make_h5ad(path, "csr_matrix", m.n_rows, m.n_cols, m.row_ptr, m.col_of, m.by_row, m.n);
  expect_random(&m, ANNB_CSR, MEMORY, 1);
  expect_random(&m, ANNB_CSR, 0, 2);
  h5_make_h5ad(path, "csc_matrix", m.n_rows, m.n_cols, m.col_ptr, m.row_of, m.by_col, m.n);
  expect_random(&m, ANNB_CSC, MEMORY, 1);
  expect_random(&m, ANNB_CSC, 1 << 20, 2); /* spooled */
  make_dense(&m, NULL, 0);
  expect_random(&m, ANNB_DENSE, MEMORY, 1);
  expect_random(&m, ANNB_DENSE, 1 << 20, 2);
  const hsize_t tiles[] = {100, 70}, columns[] = {1500, 1}, row[] = {1, 600};
  make_dense(&m, tiles, 3);
  expect_random(&m, ANNB_DENSE, MEMORY, 1);
  expect_random(&m, ANNB_DENSE, 1 << 18, 1); /* rows of one tile do not fit: by way of the transposer */
  make_dense(&m, columns, 3);
  expect_random(&m, ANNB_DENSE, MEMORY, 1);
  expect_random(&m, ANNB_DENSE, 1 << 20, 2);
  expect_random(&m, ANNB_DENSE, 1 << 14, 2); /* not even one chunk: boxes cut chunks */
  make_dense(&m, row, 0);
  expect_random(&m, ANNB_DENSE, 1 << 20, 2);
  free_random(&m);
}
END_TEST

START_TEST(test_csc_order) {
  /* column 1 descends; stable within rows; repeats ascend */
  const int64_t indptr[] = {0, 2, 4, 4, 6};
  const int32_t down[] = {0, 2, 2, 0, 1, 1}, up[] = {0, 2, 0, 2, 1, 1};
  const float values[] = {1, 2, 3, 4, 5, 6};
  matrix m;
  h5_make_h5ad(path, "csc_matrix", 3, 4, indptr, down, values, 6);
  expect_ok(MEMORY, &m);
  ck_assert(m.unordered);
  const uint32_t want[] = {0, 1, 3, 3, 0, 1};
  const float want_values[] = {1, 4, 5, 6, 2, 3};
  ck_assert_mem_eq(m.indices, want, sizeof want);
  ck_assert_mem_eq(m.values, want_values, sizeof want_values);
  free_matrix(&m);
  h5_make_h5ad(path, "csc_matrix", 3, 4, indptr, up, values, 6);
  expect_ok(MEMORY, &m);
  ck_assert(!m.unordered);
  free_matrix(&m);
  const int32_t outside[] = {0, 2, 0, 3, 1, 1};
  h5_make_h5ad(path, "csc_matrix", 3, 4, indptr, outside, values, 6);
  expect_failure(ANNB_EINPUT, "element 3 is 3, but the matrix has 3 rows");
  const int64_t bad[] = {0, 6, 4, 4, 6};
  h5_make_h5ad(path, "csc_matrix", 3, 4, bad, up, values, 6);
  expect_failure(ANNB_EINPUT, "decreases at entry 2");
  const int64_t late[] = {0, 6, 6, 5, 6}; /* behind the last element */
  h5_make_h5ad(path, "csc_matrix", 3, 4, late, up, values, 6);
  expect_failure(ANNB_EINPUT, "decreases at entry 3");
}
END_TEST

START_TEST(test_dense_bits) {
  /* only all-zero bits are absent */
  const uint64_t bits[] = {0, UINT64_C(0x8000000000000000), UINT64_C(0x7ff0000000000001), UINT64_C(1), 0, UINT64_C(0xfff8dead0000beef)};
  const hsize_t dims[] = {2, 3};
  hid_t file = h5_make_file(path);
  H5Gclose(h5_make_frame(file, "obs", 2, 0, NULL));
  H5Gclose(h5_make_frame(file, "var", 3, 0, NULL));
  h5_make_array(file, "X", H5T_IEEE_F64LE, 2, dims, H5T_NATIVE_DOUBLE, bits, NULL, 0);
  H5Fclose(file);
  matrix m;
  expect_ok(MEMORY, &m);
  const uint64_t want[] = {bits[1], bits[2], bits[3], bits[5]};
  const uint32_t columns[] = {1, 2, 0, 2};
  ck_assert_uint_eq(m.n, 4);
  ck_assert_mem_eq(m.values, want, sizeof want);
  ck_assert_mem_eq(m.indices, columns, sizeof columns);
  free_matrix(&m);
}
END_TEST

START_TEST(test_empty) {
  const int64_t zeros[8] = {0};
  const hsize_t dims[] = {5, 0};
  matrix m;
  for (int i = 0; i < 2; i++) {
    h5_make_h5ad(path, i ? "csc_matrix" : "csr_matrix", 5, 7, zeros, NULL, NULL, 0);
    expect_ok(MEMORY, &m);
    ck_assert(m.n_rows == 5 && m.n == 0);
    free_matrix(&m);
    h5_make_h5ad(path, i ? "csc_matrix" : "csr_matrix", 0, 0, zeros, NULL, NULL, 0);
    expect_ok(MEMORY, &m);
    ck_assert(m.n_rows == 0 && m.n == 0);
  }
  hid_t file = h5_make_file(path);
  H5Gclose(h5_make_frame(file, "obs", 5, 0, NULL));
  H5Gclose(h5_make_frame(file, "var", 0, 0, NULL));
  h5_make_array(file, "X", H5T_IEEE_F32LE, 2, dims, H5T_NATIVE_FLOAT, NULL, NULL, 0);
  H5Fclose(file);
  expect_ok(MEMORY, &m);
  ck_assert(m.n_rows == 5 && m.n == 0);
  free_matrix(&m);
}
END_TEST

START_TEST(test_giant_row) {
  enum { N = 400000 };
  int32_t *indices = calloc(N, sizeof *indices);
  float *values = calloc(N, sizeof *values);
  const int64_t indptr[] = {0, N - 1, N};
  for (int i = 0; i < N; i++) indices[i] = i % 4;
  h5_make_h5ad(path, "csr_matrix", 2, 4, indptr, indices, values, N);
  matrix m;
  expect_ok(16 << 20, &m); /* larger than a chunk, smaller than half the memory */
  ck_assert_uint_eq(m.n, N);
  free_matrix(&m);
  ck_assert_int_eq(read_all(1 << 20, &m), ANNB_ENOMEM);
  ck_assert_int_eq(err.row, 0);
  ck_assert_ptr_nonnull(strstr(err.message, "row 0 has 399999 elements"));
  free(indices);
  free(values);
}
END_TEST

/* Rows without anything stored. */
static void make_claim(hsize_t rows) {
  const hsize_t dims[] = {rows}, more[] = {rows + 1}, chunk[] = {1024};
  const uint64_t shape[] = {rows, 4};
  const char *const none[] = {NULL};
  hid_t file = h5_make_file(path), text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, H5T_VARIABLE);
  hid_t obs = h5_make_group(file, "obs");
  h5_make_text(obs, "_index", "_index");
  h5_make_names(obs, "column-order", 0, none);
  h5_make_array(obs, "_index", text, 1, dims, text, NULL, chunk, 0);
  H5Gclose(obs);
  H5Gclose(h5_make_frame(file, "var", 4, 0, NULL));
  hid_t x = h5_make_group(file, "X");
  h5_make_text(x, "encoding-type", "csr_matrix");
  h5_make_numbers(x, "shape", 2, shape);
  h5_make_array(x, "indptr", H5T_STD_I64LE, 1, more, H5T_NATIVE_INT64, NULL, chunk, 0);
  h5_make_vector(x, "indices", H5T_STD_I32LE, 0, H5T_NATIVE_INT32, NULL);
  h5_make_vector(x, "data", H5T_IEEE_F32LE, 0, H5T_NATIVE_FLOAT, NULL);
  H5Gclose(x);
  H5Tclose(text);
  H5Fclose(file);
}

/* A few bytes that claim much: no allocation follows from the claim, and what cannot be true is refused. */
START_TEST(test_hostile_extent) {
  annb_source source;
  annb_source_matrix m;
  annb_rows *r;
  annb_rows_chunk c;
  annb_rows_options options = {.memory = MEMORY, .spool_dir = dir};
  make_claim((hsize_t)1 << 40);
  ck_assert_int_eq(annb_source_open(&source, path, MEMORY, &err), ANNB_EINPUT);
  ck_assert_ptr_nonnull(strstr(err.message, "/obs"));
  ck_assert_int_eq(unlink(path), 0);
  make_claim((hsize_t)1 << 20);
  ck_assert_int_eq(annb_source_open(&source, path, MEMORY, &err), ANNB_OK);
  ck_assert_int_eq(annb_source_matrix_open(&m, &source, "X", &err), ANNB_OK);
  ck_assert_int_eq(annb_rows_open(&m, &options, &r, &err), ANNB_OK);
  for (int i = 0; i < 3; i++) ck_assert_int_eq(annb_rows_next(r, &c, &err), ANNB_OK);
  ck_assert_uint_eq(c.n_rows, 65536);
  annb_rows_close(r);
  annb_source_matrix_close(&m);
  annb_source_close(&source);
}
END_TEST

static bool stop(void *user, const char *stage, uint64_t done, uint64_t total) {
  (void)stage, (void)done, (void)total;
  ++*(int *)user;
  return false;
}

START_TEST(test_cancel) {
  random_matrix m = make_random(50, 40, 2);
  annb_source source;
  annb_source_matrix x;
  annb_rows *rows;
  annb_rows_chunk chunk;
  int calls = 0;
  annb_rows_options options = {.memory = MEMORY, .spool_dir = dir, .progress = stop, .user = &calls};
  h5_make_h5ad(path, "csc_matrix", m.n_rows, m.n_cols, m.col_ptr, m.row_of, m.by_col, m.n);
  ck_assert_int_eq(annb_source_open(&source, path, MEMORY, NULL), ANNB_OK);
  ck_assert_int_eq(annb_source_matrix_open(&x, &source, "X", NULL), ANNB_OK);
  ck_assert_int_eq(annb_rows_open(&x, &options, &rows, NULL), ANNB_OK);
  ck_assert_int_eq(annb_rows_next(rows, &chunk, &err), ANNB_ECANCELED);
  ck_assert_int_eq(calls, 1);
  annb_rows_close(rows);
  annb_source_matrix_close(&x);
  annb_source_close(&source);
  free_random(&m);
}
END_TEST

START_TEST(test_expected) {
  random_matrix m = make_random(300, 200, 4);
  annb_source source;
  annb_source_matrix x;
  uint64_t nnz;
  make_dense(&m, NULL, 0);
  ck_assert_int_eq(annb_source_open(&source, path, MEMORY, NULL), ANNB_OK);
  ck_assert_int_eq(annb_source_matrix_open(&x, &source, "X", NULL), ANNB_OK);
  ck_assert_int_eq(annb_rows_expected(&x, &nnz, NULL), ANNB_OK);
  ck_assert(nnz >= m.n - 1 && nnz <= m.n + 1); /* all of it is in the sample */
  annb_source_matrix_close(&x);
  annb_source_close(&source);
  free_random(&m);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rows");
  TCase *tc = tcase_create("rows");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 120);
  tcase_add_test(tc, test_forms);
  tcase_add_test(tc, test_csc_order);
  tcase_add_test(tc, test_dense_bits);
  tcase_add_test(tc, test_empty);
  tcase_add_test(tc, test_giant_row);
  tcase_add_test(tc, test_hostile_extent);
  tcase_add_test(tc, test_cancel);
  tcase_add_test(tc, test_expected);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
