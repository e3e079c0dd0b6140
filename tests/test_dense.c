/* Fetching dense rows, and matrices that some parts do not have. */
#include "store_fixture.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_dense(const maker_csr *x, const uint64_t *rows, size_t n, const void *dense, annb_dtype dtype, uint64_t stride) {
  double *expected = room(x->n_cols * 8);
  uint64_t wrong = 0; /* one assertion in the end: each costs more than a comparison */
  for (size_t i = 0; i < n; i++) {
    memset(expected, 0, x->n_cols * 8);
    for (uint64_t k = x->indptr[rows[i]]; k < x->indptr[rows[i] + 1]; k++) {
      double value = maker_number(x->values, x->dtype, k), *sum = &expected[x->indices[k]];
      *sum = dtype == ANNB_BOOL ? (double)(*sum != 0 || value != 0) : *sum + value;
    }
    for (uint64_t c = 0; c < x->n_cols; c++) wrong += maker_number(dense, dtype, i * stride + c) != expected[c];
    for (uint64_t c = x->n_cols; c < stride && i + 1 < n; c++) wrong += maker_number(dense, dtype, i * stride + c) != 0;
  }
  ck_assert_uint_eq(wrong, 0);
  free(expected);
}

START_TEST(dense_rows) {
  annb_dtype from = (annb_dtype)_i;
  uint64_t rows[50 * 4];
  for (int order = MAKER_SORTED; order <= MAKER_REPEATS; order++) {
    maker_csr x = maker_random((uint64_t)_i, 50, 33, 12, from, order);
    annb_store *store = open_new(&x, 11, 2);
    size_t n = maker_awkward_rows(50, rows);
    uint8_t *dense = room(n * 40 * 8);
    for (int to = ANNB_I8; to <= ANNB_F64; to++) {
      annb_fetch_options o = {.dtype = (annb_dtype)to};
      size_t size = annb_dtype_size(o.dtype);
      memset(dense, 0xFF, n * 40 * 8);
      OK(annb_fetch_dense(store, context, 0, rows, n, &o, dense, 0, n * 33 * size, &err));
      check_dense(&x, rows, n, dense, o.dtype, 33);
      ck_assert_uint_eq(dense[n * 33 * size], 0xFF);
      OK(annb_fetch_dense(store, context, 0, rows, n, &o, dense, 40, ((n - 1) * 40 + 33) * size, &err));
      check_dense(&x, rows, n, dense, o.dtype, 40);
    }
    OK(annb_fetch_dense(store, context, 0, rows, n, NULL, dense, 0, n * 40 * 8, &err));
    check_dense(&x, rows, n, dense, from, 33);
    size_t used = n * 33 * annb_dtype_size(from);
    ck_assert(maker_all(dense + used, n * 40 * 8 - used, 0));
    free(dense);
    annb_store_close(store);
    maker_free(&x);
  }
}
END_TEST

START_TEST(dense_room) {
  maker_csr x = maker_random(2, 10, 12, 5, ANNB_I16, MAKER_SHUFFLED);
  annb_store *store = open_new(&x, 0, 0);
  uint64_t rows[] = {9, 3, 3};
  size_t need = 3 * 12 * 2;
  uint8_t *dense = maker_guarded(need);
  FAILS(annb_fetch_dense(store, context, 0, rows, 3, NULL, dense, 0, need - 1, &err), ANNB_ECAPACITY);
  ck_assert(maker_all(dense, need, 0xA5));
  OK(annb_fetch_dense(store, context, 0, rows, 3, NULL, dense, 0, need, &err));
  check_dense(&x, rows, 3, dense, ANNB_I16, 12);
  FAILS(annb_fetch_dense(store, context, 0, rows, 3, NULL, dense, UINT64_MAX, need, &err), ANNB_ECAPACITY);
  FAILS(annb_fetch_dense(store, context, 0, rows, 3, NULL, dense, UINT64_MAX / 4 + 1, need, &err), ANNB_ECAPACITY);
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

/* Sums of repeats in the delivered dtype; single values keep their bits. */
START_TEST(dense_repeats) {
  static const uint64_t indptr[] = {0, 6};
  static const uint32_t indices[] = {2, 0, 2, 1, 2, 3};
  static const int8_t values[] = {100, 5, 100, -7, 100, 0};
  maker_csr x = maker_from(1, 4, ANNB_I8, indptr, indices, values);
  annb_store *store = open_new(&x, 0, 0);
  uint64_t row = 0;
  int8_t small[4];
  int16_t large[4];
  OK(annb_fetch_dense(store, context, 0, &row, 1, NULL, small, 0, sizeof small, &err));
  ck_assert(small[0] == 5 && small[1] == -7 && small[2] == 44 && small[3] == 0); /* 300 - 256 */
  OK(annb_fetch_dense(store, context, 0, &row, 1, &(annb_fetch_options){.dtype = ANNB_I16}, large, 0, sizeof large, &err));
  ck_assert(large[2] == 300);
  annb_store_close(store);
  maker_free(&x);
  static const uint32_t bits[] = {0x80000000, 0x7FC12345, 0, 0x80000000, 0x3F800000, 0x7F812345};
  static const uint32_t columns[] = {3, 0, 1, 1, 1, 2};
  x = maker_from(1, 4, ANNB_F32, indptr, columns, bits);
  store = open_new(&x, 0, 0);
  uint32_t out[4];
  static const uint32_t expected[] = {0x7FC12345, 0x3F800000, 0x7F812345, 0x80000000};
  OK(annb_fetch_dense(store, context, 0, &row, 1, NULL, out, 0, sizeof out, &err));
  ck_assert_mem_eq(out, expected, sizeof expected);
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

/* ---- parts without the matrix ---- */

START_TEST(absent_matrices) {
  static const uint64_t part_rows[] = {3, 2, 4};
  maker_csr x[3], y[2];
  for (int i = 0; i < 3; i++) x[i] = maker_random((uint64_t)i, part_rows[i], 6, 4, ANNB_U8, MAKER_SORTED);
  y[0] = maker_random(7, 3, 6, 4, ANNB_U8, MAKER_SORTED);
  y[1] = maker_random(8, 4, 6, 4, ANNB_U8, MAKER_SORTED);
  const maker_csr *xs[] = {&x[0], &x[1], &x[2]}, *ys[] = {&y[0], NULL, &y[1]};
  maker_matrix m[] = {{.name = "X", .dtype = ANNB_U8, .n_cols = 6, .parts = xs},
                      {.name = "layers/zero", .dtype = ANNB_U8, .n_cols = 6, .absent = ANNB_ABSENT_ZERO, .form = ANNB_CSC, .parts = ys},
                      {.name = "layers/error", .dtype = ANNB_U8, .n_cols = 6, .absent = ANNB_ABSENT_ERROR, .parts = ys}};
  maker_store(&(maker_spec){
      .path = store_path, .n_vars = 6, .n_parts = 3, .part_rows = part_rows, .matrices = m, .n_matrices = 3});
  annb_store *store = open_store();
  uint64_t rows[] = {8, 4, 0, 3, 5}, total;
  uint32_t nnz[5], zero, error;
  OK(annb_store_find_matrix(store, "layers/zero", &zero, &err));
  OK(annb_store_find_matrix(store, "layers/error", &error, &err));
  OK(annb_fetch_nnz(store, zero, rows, 5, nnz, &total, &err));
  ck_assert(nnz[1] == 0 && nnz[3] == 0 && total == nnz[0] + nnz[2] + nnz[4]);
  uint8_t dense[30];
  memset(dense, 9, sizeof dense);
  OK(annb_fetch_dense(store, context, zero, rows, 5, NULL, dense, 0, sizeof dense, &err));
  check_dense(&y[1], (uint64_t[]){3}, 1, dense, ANNB_U8, 6);
  check_dense(&y[0], (uint64_t[]){0}, 1, dense + 12, ANNB_U8, 6);
  check_dense(&y[1], (uint64_t[]){0}, 1, dense + 24, ANNB_U8, 6);
  for (int c = 0; c < 6; c++) ck_assert(dense[6 + c] == 0 && dense[18 + c] == 0);
  int64_t indptr[6];
  int32_t indices[30];
  OK(annb_fetch_csr(store, context, zero, rows, 5, NULL, indptr, indices, dense, 30, &err));
  ck_assert(indptr[1] == indptr[2] && indptr[3] == indptr[4] && indptr[5] == (int64_t)total);
  FAILS(annb_fetch_nnz(store, error, rows, 5, nnz, &total, &err), ANNB_ENOTFOUND);
  ck_assert_int_eq(err.row, 4);
  ck_assert_ptr_nonnull(strstr(err.message, "layers/error"));
  FAILS(annb_fetch_dense(store, context, error, rows, 5, NULL, dense, 0, sizeof dense, &err), ANNB_ENOTFOUND);
  OK(annb_fetch_dense(store, context, error, rows, 1, NULL, dense, 0, sizeof dense, &err));
  annb_matrix_info info;
  OK(annb_store_matrix(store, zero, &info, &err));
  ck_assert_uint_eq(info.nnz, y[0].indptr[3] + y[1].indptr[4]);
  ck_assert(info.form == ANNB_CSC && info.n_segments == 2 && info.n_rows == 9 && info.n_cols == 6 && info.dtype == ANNB_U8);
  annb_store_close(store);
  for (int i = 0; i < 3; i++) maker_free(&x[i]);
  for (int i = 0; i < 2; i++) maker_free(&y[i]);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("dense");
  TCase *tc = tcase_create("dense");
  tcase_set_timeout(tc, 300);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_loop_test(tc, dense_rows, ANNB_BOOL, ANNB_F64 + 1);
  tcase_add_test(tc, dense_room);
  tcase_add_test(tc, dense_repeats);
  tcase_add_test(tc, absent_matrices);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
