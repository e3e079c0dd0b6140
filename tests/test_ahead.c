/* Rows read ahead by a thread: the same rows, progress on the caller's thread, and an end at any moment. */
#include "../convert/rows/ahead.h"
#include "source_reader.h"
#include "suite.h"

#include <pthread.h>

enum { N_ROWS = 20000, N_COLS = 50, EACH = 3 };

static annb_source source;
static annb_source_matrix x;
static pthread_t caller;

static void open_matrix(const char *encoding) {
  int64_t *indptr = calloc(N_ROWS + 1, sizeof *indptr);
  int32_t *indices = calloc(N_ROWS * EACH, sizeof *indices);
  float *values = calloc(N_ROWS * EACH, sizeof *values);
  bool csr = !strcmp(encoding, "csr_matrix");
  uint64_t major = csr ? N_ROWS : N_COLS, each = csr ? EACH : N_ROWS * EACH / N_COLS;
  for (uint64_t i = 0; i < major; i++)
    for (uint64_t j = 0; j < each; j++) {
      indptr[i + 1] = (int64_t)((i + 1) * each);
      indices[i * each + j] = (int32_t)(csr ? (i + j * 7) % N_COLS : j * (N_ROWS / each));
      values[i * each + j] = (float)(i * each + j);
    }
  h5_make_h5ad(path, encoding, N_ROWS, N_COLS, indptr, indices, values, N_ROWS * EACH);
  free(indptr);
  free(indices);
  free(values);
  ck_assert_int_eq(annb_source_open(&source, path, MEMORY, NULL), ANNB_OK);
  ck_assert_int_eq(annb_source_matrix_open(&x, &source, "X", NULL), ANNB_OK);
  caller = pthread_self();
}

static void close_matrix(void) {
  annb_source_matrix_close(&x);
  annb_source_close(&source);
}

static annb_status count_rows(void *user, const annb_rows_chunk *chunk, annb_error *error) {
  (void)error;
  ck_assert(!pthread_equal(pthread_self(), caller));
  *(uint64_t *)user += chunk->n_rows;
  return ANNB_OK;
}

static bool watch(void *user, const char *stage, uint64_t done, uint64_t total) {
  (void)stage, (void)done, (void)total;
  ck_assert(pthread_equal(pthread_self(), caller));
  ++*(int *)user;
  return true;
}

/* The least memory makes several chunks. */
static void check_rows(const char *encoding) {
  matrix plain, m = {.value_size = 4};
  uint64_t looked = 0;
  int calls = 0;
  annb_ahead *a;
  annb_rows_chunk chunk = {.n_rows = 1};
  annb_rows_options options = {.memory = 0, .spool_dir = dir, .n_threads = 2, .progress = watch, .user = &calls};
  open_matrix(encoding);
  ck_assert_int_eq(annb_ahead_open(&x, &options, count_rows, &looked, &a, &err), ANNB_OK);
  while (chunk.n_rows) {
    ck_assert_int_eq(annb_ahead_next(a, &chunk, &err), ANNB_OK);
    if (chunk.n_rows) append(&m, &chunk);
  }
  ck_assert(!annb_ahead_unordered(a));
  annb_ahead_close(a);
  close_matrix();
  ck_assert_int_eq(read_all(0, &plain), ANNB_OK);
  ck_assert_uint_eq(looked, N_ROWS);
  ck_assert(m.n_rows == N_ROWS && plain.n_rows == N_ROWS && m.n == plain.n && m.n_chunks == plain.n_chunks);
  ck_assert_mem_eq(m.indptr, plain.indptr, (N_ROWS + 1) * sizeof *m.indptr);
  ck_assert_mem_eq(m.indices, plain.indices, m.n * sizeof *m.indices);
  ck_assert_mem_eq(m.values, plain.values, m.n * m.value_size);
  ck_assert_int_eq(calls > 0, !strcmp(encoding, "csc_matrix"));
  free_matrix(&m);
  free_matrix(&plain);
}

START_TEST(test_same_rows) {
  check_rows("csr_matrix");
  unlink(path);
  check_rows("csc_matrix");
}
END_TEST

static annb_status refuse(void *user, const annb_rows_chunk *chunk, annb_error *error) {
  (void)user, (void)chunk;
  snprintf(error->message, sizeof error->message, "refused");
  return ANNB_EINVAL;
}

static bool stop(void *user, const char *stage, uint64_t done, uint64_t total) {
  (void)user, (void)stage, (void)done, (void)total;
  return false;
}

START_TEST(test_failures) {
  annb_ahead *a;
  annb_rows_chunk chunk;
  annb_rows_options options = {.memory = MEMORY, .spool_dir = dir, .progress = stop};
  open_matrix("csc_matrix");
  ck_assert_int_eq(annb_ahead_open(&x, &options, NULL, NULL, &a, &err), ANNB_OK);
  ck_assert_int_eq(annb_ahead_next(a, &chunk, &err), ANNB_ECANCELED);
  annb_ahead_close(a);
  options.progress = NULL;
  ck_assert_int_eq(annb_ahead_open(&x, &options, refuse, NULL, &a, &err), ANNB_OK);
  ck_assert_int_eq(annb_ahead_next(a, &chunk, &err), ANNB_EINVAL);
  ck_assert_str_eq(err.message, "refused");
  annb_ahead_close(a);
  close_matrix();
}
END_TEST

START_TEST(test_early_close) {
  annb_ahead *a;
  annb_rows_chunk chunk;
  annb_rows_options options = {.memory = 0, .spool_dir = dir};
  open_matrix("csr_matrix");
  annb_ahead_close(NULL);
  for (int reads = 0; reads < 3; reads++) {
    ck_assert_int_eq(annb_ahead_open(&x, &options, NULL, NULL, &a, &err), ANNB_OK);
    for (int i = 0; i < reads; i++) ck_assert_int_eq(annb_ahead_next(a, &chunk, &err), ANNB_OK);
    annb_ahead_close(a);
  }
  close_matrix();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("ahead");
  TCase *tc = tcase_create("ahead");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, test_same_rows);
  tcase_add_test(tc, test_failures);
  tcase_add_test(tc, test_early_close);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
