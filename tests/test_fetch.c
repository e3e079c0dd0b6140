/* Fetching rows: every value compared with the matrix that was written, whatever the options, and awkward requests. */
#include "store_fixture.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is expected, written plainly ---- */

static int64_t index_at(const void *indices, bool wide, uint64_t i) {
  return wide ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
}

typedef struct batch {
  int64_t *indptr;
  void *indices, *values;
} batch;

static batch fetch(const annb_store *store, uint32_t matrix, const uint64_t *rows, size_t n, const annb_fetch_options *o, uint64_t slack) {
  uint64_t total;
  OK(annb_fetch_nnz(store, matrix, rows, n, NULL, &total, &err));
  batch b = {room((n + 1) * 8), room((total + slack) * 8), room((total + slack) * 8)};
  OK(annb_fetch_csr(store, context, matrix, rows, n, o, b.indptr, b.indices, b.values, total + slack, &err));
  ck_assert_int_eq(b.indptr[0], 0);
  ck_assert_uint_eq((uint64_t)b.indptr[n], total);
  return b;
}

static void free_batch(batch *b) {
  free(b->indptr);
  free(b->indices);
  free(b->values);
}

/* The order in which a row's elements are expected: as stored, or by a plain stable insertion sort. */
static void expected_order(const maker_csr *x, uint64_t row, bool sort, uint64_t *order) {
  uint64_t first = x->indptr[row], n = x->indptr[row + 1] - first;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t k = i;
    while (sort && k > 0 && x->indices[order[k - 1]] > x->indices[first + i]) {
      order[k] = order[k - 1];
      k--;
    }
    order[k] = first + i;
  }
}

static void check_batch(const batch *b, const maker_csr *x, const uint64_t *rows, size_t n, const annb_fetch_options *o) {
  uint64_t *order = room(x->n_cols * 8);
  annb_dtype dtype = o && o->dtype ? o->dtype : x->dtype;
  uint64_t wrong = 0; /* one assertion in the end: each costs more than a comparison */
  for (size_t i = 0; i < n; i++) {
    uint64_t nnz = x->indptr[rows[i] + 1] - x->indptr[rows[i]], at = (uint64_t)b->indptr[i];
    ck_assert_uint_eq((uint64_t)b->indptr[i + 1] - at, nnz);
    expected_order(x, rows[i], o && o->sort_indices, order);
    for (uint64_t k = 0; k < nnz; k++) {
      wrong += index_at(b->indices, o && o->index64, at + k) != x->indices[order[k]];
      wrong += maker_number(b->values, dtype, at + k) != maker_number(x->values, x->dtype, order[k]);
    }
  }
  ck_assert_uint_eq(wrong, 0);
  free(order);
}

static void fetch_and_check(const annb_store *store, const maker_csr *x, const uint64_t *rows, size_t n, const annb_fetch_options *o) {
  static const uint64_t slacks[] = {0, 127, 128, 4096};
  for (size_t i = 0; i < sizeof slacks / sizeof *slacks; i++) {
    batch b = fetch(store, 0, rows, n, o, slacks[i]);
    check_batch(&b, x, rows, n, o);
    free_batch(&b);
  }
}

/* ---- CSR ---- */

START_TEST(every_dtype) {
  annb_dtype dtype = (annb_dtype)_i;
  uint64_t rows[120 * 4];
  for (int order = MAKER_SORTED; order <= MAKER_REPEATS; order++) {
    maker_csr x = maker_random((uint64_t)_i, 120, 60, 12, dtype, order);
    annb_store *store = open_new(&x, 37, 16);
    size_t n = maker_awkward_rows(120, rows);
    fetch_and_check(store, &x, rows, n, NULL);
    fetch_and_check(store, &x, rows, n, &(annb_fetch_options){.sort_indices = true});
    fetch_and_check(store, &x, rows, n, &(annb_fetch_options){.index64 = true, .sort_indices = true});
    annb_store_close(store);
    maker_free(&x);
  }
}
END_TEST

START_TEST(every_conversion) {
  annb_dtype from = (annb_dtype)_i;
  uint64_t rows[40 * 4];
  maker_csr x = maker_random((uint64_t)_i, 40, 50, 10, from, MAKER_REPEATS);
  for (uint64_t i = 0; i < x.indptr[40]; i++) /* 0 and 1 are exact everywhere */
    if (maker_number(x.values, from, i) > 1) memset(x.values + i * annb_dtype_size(from), 0, annb_dtype_size(from));
  annb_store *store = open_new(&x, 0, 0);
  size_t n = maker_awkward_rows(40, rows);
  for (int to = ANNB_BOOL; to <= ANNB_F64; to++) {
    fetch_and_check(store, &x, rows, n, &(annb_fetch_options){.dtype = (annb_dtype)to});
    fetch_and_check(store, &x, rows, n, &(annb_fetch_options){.dtype = (annb_dtype)to, .index64 = true, .sort_indices = true});
  }
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

/* Long rows, so that sorting passes over several bytes of the index and records are compressed. */
START_TEST(wide_rows) {
  uint64_t rows[] = {3, 0, 1, 2, 3, 3};
  for (int order = MAKER_SORTED; order <= MAKER_REPEATS; order++) {
    maker_csr x = maker_random(9, 4, 7000, 3000, ANNB_F32, order);
    for (uint64_t i = 0; order == MAKER_SHUFFLED && i < x.indptr[4]; i++) x.indices[i] = x.indices[i] * 2000 + 7;
    if (order == MAKER_SHUFFLED) x.n_cols *= 2000;
    annb_store *store = open_new(&x, 2, 0);
    batch b = fetch(store, 0, rows, 6, &(annb_fetch_options){.sort_indices = true}, 0);
    uint64_t wrong = 0;
    for (int i = 0; i < 6; i++)
      for (int64_t k = b.indptr[i] + 1; k < b.indptr[i + 1]; k++) wrong += ((int32_t *)b.indices)[k - 1] > ((int32_t *)b.indices)[k];
    ck_assert_uint_eq(wrong, 0);
    free_batch(&b);
    b = fetch(store, 0, rows, 6, NULL, 0);
    for (int i = 0; i < 6; i++) {
      size_t n = x.indptr[rows[i] + 1] - x.indptr[rows[i]];
      ck_assert(!memcmp((int32_t *)b.indices + b.indptr[i], x.indices + x.indptr[rows[i]], n * 4));
      ck_assert(!memcmp((float *)b.values + b.indptr[i], x.values + x.indptr[rows[i]] * 4, n * 4));
    }
    free_batch(&b);
    annb_store_close(store);
    maker_free(&x);
  }
}
END_TEST

START_TEST(bits_are_kept) {
  static const uint64_t indptr[] = {0, 4};
  static const uint32_t indices[] = {3, 1, 3, 0};
  uint32_t bits[] = {0x80000000, 0x7FC12345, 0x7F812345, 0}; /* -0.0, NaN, signalling NaN, explicit zero */
  maker_csr x = maker_from(1, 4, ANNB_F32, indptr, indices, bits);
  annb_store *store = open_new(&x, 0, 0);
  uint64_t row = 0;
  batch b = fetch(store, 0, &row, 1, NULL, 500);
  ck_assert_mem_eq(b.values, bits, sizeof bits);
  free_batch(&b);
  b = fetch(store, 0, &row, 1, &(annb_fetch_options){.sort_indices = true}, 0);
  static const uint32_t sorted[] = {0, 0x7FC12345, 0x80000000, 0x7F812345};
  ck_assert_mem_eq(b.values, sorted, sizeof sorted);
  free_batch(&b);
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

/* Rows are found across segments and parts of any size, empty ones among them, and stored in different dtypes. */
START_TEST(segments_and_parts) {
  static const uint64_t part_rows[] = {0, 5, 0, 0, 130, 1, 70, 0};
  static const annb_dtype dtypes[] = {ANNB_F32, ANNB_F32, ANNB_U8, ANNB_F32, ANNB_I64, ANNB_F64, ANNB_F32, ANNB_F32};
  maker_csr x[8];
  const maker_csr *parts[8];
  uint64_t first = 0;
  for (int i = 0; i < 8; i++) {
    x[i] = maker_random((uint64_t)i + 50, part_rows[i], 40, 9, dtypes[i], MAKER_SHUFFLED);
    parts[i] = &x[i];
  }
  maker_matrix m = {.name = "X", .dtype = ANNB_F32, .n_cols = 40, .segment_rows = 32, .block_rows = 4, .parts = parts};
  maker_store(&(maker_spec){
      .path = store_path, .n_vars = 40, .n_parts = 8, .part_rows = part_rows, .matrices = &m, .n_matrices = 1});
  annb_store *store = open_store();
  for (int p = 0; p < 8; p++) {
    uint64_t rows[130], local[130];
    annb_part_info info;
    OK(annb_store_part(store, (uint32_t)p, &info, &err));
    ck_assert_uint_eq(info.first_row, first);
    for (uint64_t i = 0; i < part_rows[p]; i++) {
      local[i] = part_rows[p] - 1 - i;
      rows[i] = first + local[i];
    }
    batch b = fetch(store, 0, rows, part_rows[p], NULL, 0);
    check_batch(&b, &x[p], local, part_rows[p], &(annb_fetch_options){.dtype = ANNB_F32});
    free_batch(&b);
    first += part_rows[p];
  }
  uint64_t mixed[] = {205, 0, 135, 4, 5, 205, 134};
  batch b = fetch(store, 0, mixed, 7, NULL, 0);
  check_batch(&(batch){b.indptr + 1, b.indices, b.values}, &x[1], mixed + 1, 1, &(annb_fetch_options){.dtype = ANNB_F32});
  check_batch(&(batch){b.indptr + 2, b.indices, b.values}, &x[5], (uint64_t[]){0}, 1, &(annb_fetch_options){.dtype = ANNB_F32});
  check_batch(&(batch){b.indptr + 6, b.indices, b.values}, &x[4], (uint64_t[]){129}, 1, &(annb_fetch_options){.dtype = ANNB_F32});
  free_batch(&b);
  annb_store_close(store);
  for (int i = 0; i < 8; i++) maker_free(&x[i]);
}
END_TEST

/* No rows at all, no columns, only empty rows, an empty list. */
START_TEST(nothing) {
  static const uint64_t empty[11];
  uint64_t rows[] = {0, 9, 9, 4}, total = 7;
  int64_t indptr[5];
  maker_csr no_rows = maker_from(0, 5, ANNB_I32, empty, NULL, NULL), no_cols = maker_from(10, 0, ANNB_I32, empty, NULL, NULL),
            no_values = maker_from(10, 5, ANNB_I32, empty, NULL, NULL);
  annb_store *store = open_new(&no_rows, 0, 0);
  OK(annb_fetch_nnz(store, 0, NULL, 0, NULL, &total, &err));
  ck_assert_uint_eq(total, 0);
  indptr[0] = 5;
  OK(annb_fetch_csr(store, context, 0, NULL, 0, NULL, indptr, NULL, NULL, 0, &err));
  ck_assert_int_eq(indptr[0], 0);
  OK(annb_fetch_dense(store, context, 0, NULL, 0, NULL, NULL, 0, 0, &err));
  FAILS(annb_fetch_nnz(store, 0, rows, 1, NULL, &total, &err), ANNB_ERANGE);
  ck_assert_int_eq(err.row, 0);
  annb_store_close(store);
  for (int k = 0; k < 2; k++) {
    store = open_new(k ? &no_cols : &no_values, 3, 0);
    memset(indptr, 1, sizeof indptr);
    OK(annb_fetch_csr(store, context, 0, rows, 4, NULL, indptr, NULL, NULL, 0, &err));
    for (int i = 0; i < 5; i++) ck_assert_int_eq(indptr[i], 0);
    int32_t dense[20];
    memset(dense, 1, sizeof dense);
    OK(annb_fetch_dense(store, context, 0, rows, 4, NULL, dense, 0, sizeof dense, &err));
    for (int i = 0; i < 20; i++) ck_assert_int_eq(dense[i], 0);
    if (k) OK(annb_fetch_dense(store, context, 0, rows, 4, NULL, NULL, 0, 0, &err));
    annb_store_close(store);
  }
  maker_free(&no_rows);
  maker_free(&no_cols);
  maker_free(&no_values);
}
END_TEST

START_TEST(row_out_of_range) {
  maker_csr x = maker_random(1, 10, 5, 3, ANNB_F32, MAKER_SORTED);
  annb_store *store = open_new(&x, 0, 0);
  uint64_t bad[] = {10, UINT64_MAX, UINT64_C(1) << 63}, total;
  for (int i = 0; i < 3; i++) {
    uint64_t rows[] = {3, bad[i], 2};
    int64_t indptr[4];
    float dense[15];
    char number[32];
    snprintf(number, sizeof number, "row %llu", (unsigned long long)bad[i]);
    FAILS(annb_fetch_nnz(store, 0, rows, 3, NULL, &total, &err), ANNB_ERANGE);
    ck_assert_ptr_nonnull(strstr(err.message, number));
    ck_assert(i > 0 || err.row == 10);
    FAILS(annb_fetch_csr(store, context, 0, rows, 3, NULL, indptr, NULL, NULL, 0, &err), ANNB_ERANGE);
    FAILS(annb_fetch_dense(store, context, 0, rows, 3, NULL, dense, 0, sizeof dense, &err), ANNB_ERANGE);
    FAILS(annb_fetch_dense(store, context, 0, rows, 3, NULL, dense, 0, sizeof dense, NULL), ANNB_ERANGE);
  }
  FAILS(annb_fetch_nnz(store, 1, NULL, 0, NULL, &total, &err), ANNB_ERANGE);
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

START_TEST(bad_arguments) {
  maker_csr x = maker_random(1, 10, 5, 3, ANNB_F32, MAKER_SORTED);
  annb_store *store = open_new(&x, 0, 0);
  uint64_t rows[] = {0, 1, 2, 3, 4}, total;
  int64_t indptr[6];
  int32_t indices[25];
  float values[25];
  annb_fetch_options o = {.dtype = (annb_dtype)13};
  FAILS(annb_fetch_csr(store, context, 0, rows, 5, &o, indptr, indices, values, 25, &err), ANNB_EINVAL);
  FAILS(annb_fetch_dense(store, context, 0, rows, 5, &o, values, 0, sizeof values, &err), ANNB_EINVAL);
  FAILS(annb_fetch_csr(store, context, 0, NULL, 5, NULL, indptr, indices, values, 25, &err), ANNB_EINVAL);
  FAILS(annb_fetch_csr(store, NULL, 0, rows, 5, NULL, indptr, indices, values, 25, &err), ANNB_EINVAL);
  FAILS(annb_fetch_csr(store, context, 0, rows, 5, NULL, NULL, indices, values, 25, &err), ANNB_EINVAL);
  FAILS(annb_fetch_csr(store, context, 0, rows, 5, NULL, indptr, NULL, values, 25, &err), ANNB_EINVAL);
  FAILS(annb_fetch_csr(store, context, 7, rows, 5, NULL, indptr, indices, values, 25, &err), ANNB_ERANGE);
  FAILS(annb_fetch_nnz(store, 0, NULL, 5, NULL, &total, &err), ANNB_EINVAL);
  FAILS(annb_fetch_dense(store, context, 0, rows, 5, NULL, values, 4, sizeof values, &err), ANNB_EINVAL);
  FAILS(annb_fetch_dense(store, context, 0, rows, 5, NULL, NULL, 0, sizeof values, &err), ANNB_EINVAL);
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

START_TEST(counts) {
  maker_csr x = maker_random(4, 600, 30, 9, ANNB_U16, MAKER_REPEATS);
  annb_store *store = open_new(&x, 256, 8);
  uint64_t rows[2400], total, sum = 0;
  uint32_t nnz[2400];
  size_t n = maker_awkward_rows(600, rows);
  OK(annb_fetch_nnz(store, 0, rows, n, nnz, &total, &err));
  for (size_t i = 0; i < n; i++) {
    ck_assert_uint_eq(nnz[i], x.indptr[rows[i] + 1] - x.indptr[rows[i]]);
    sum += nnz[i];
  }
  ck_assert_uint_eq(total, sum);
  OK(annb_fetch_nnz(store, 0, rows, n, NULL, NULL, &err));
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

/* ---- capacity ---- */

static void fetch_guarded(const annb_store *store, const maker_csr *x, const uint64_t *rows, size_t n, const annb_fetch_options *o,
                          uint64_t total, uint64_t extra) {
  size_t index_size = o->index64 ? 8 : 4, value_size = annb_dtype_size(o->dtype);
  uint64_t capacity = total + extra;
  batch b = {(int64_t *)(void *)maker_guarded((n + 1) * 8), maker_guarded(capacity * index_size), maker_guarded(capacity * value_size)};
  uint8_t *indices = b.indices, *values = b.values;
  FAILS(annb_fetch_csr(store, context, 0, rows, n, o, b.indptr, indices, values, total - 1, &err), ANNB_ECAPACITY);
  ck_assert(maker_all(indices, total * index_size, 0xA5));
  ck_assert(maker_all(values, total * value_size, 0xA5));
  OK(annb_fetch_csr(store, context, 0, rows, n, o, b.indptr, indices, values, capacity, &err));
  check_batch(&b, x, rows, n, o);
}

/* Room for just the elements, or for a part of what a decoder likes to have past them. */
START_TEST(capacity_is_exact) {
  static const uint64_t extras[] = {0, 1, 60, 127};
  static const annb_dtype dtypes[] = {ANNB_F32, ANNB_F64, ANNB_U8, ANNB_F16};
  maker_csr x = maker_random(5, 20, 500, 200, ANNB_F32, MAKER_SHUFFLED);
  annb_store *store = open_new(&x, 8, 4);
  uint64_t rows[80], total;
  size_t n = maker_awkward_rows(20, rows);
  OK(annb_fetch_nnz(store, 0, rows, n, NULL, &total, &err));
  for (int k = 0; k < 64; k++) {
    annb_fetch_options o = {.dtype = dtypes[k % 4], .index64 = k & 4, .sort_indices = k & 8};
    fetch_guarded(store, &x, rows, n, &o, total, extras[k / 16]);
  }
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

/* Arrays at odd addresses are filled as well. */
START_TEST(unaligned_arrays) {
  maker_csr x = maker_random(6, 20, 50, 20, ANNB_F64, MAKER_SHUFFLED);
  annb_store *store = open_new(&x, 0, 0);
  uint64_t rows[80], total;
  size_t n = maker_awkward_rows(20, rows);
  OK(annb_fetch_nnz(store, 0, rows, n, NULL, &total, &err));
  uint8_t *indices = room(total * 4 + 1000), *values = room(total * 8 + 2000);
  batch b = {room((n + 1) * 8), room(total * 4), room(total * 8)};
  OK(annb_fetch_csr(store, context, 0, rows, n, NULL, b.indptr, indices + 1, values + 3, total + 200, &err));
  memcpy(b.indices, indices + 1, total * 4);
  memcpy(b.values, values + 3, total * 8);
  check_batch(&b, &x, rows, n, NULL);
  free(indices);
  free(values);
  free_batch(&b);
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

/* More than 2^31 - 1 elements: known from the index alone, before any array is touched. */
START_TEST(batch_over_31_bits) {
  enum { COLS = 1 << 20, REPEATS = 2048 };
  uint64_t indptr[] = {0, COLS}, *rows = room(REPEATS * 8), total;
  uint32_t *indices = room((size_t)COLS * 4);
  for (uint32_t i = 0; i < COLS; i++) indices[i] = i;
  maker_csr x = maker_from(1, COLS, ANNB_U8, indptr, indices, indices);
  annb_store *store = open_new(&x, 0, 0);
  OK(annb_fetch_nnz(store, 0, rows, REPEATS, NULL, &total, &err));
  ck_assert_uint_eq(total, UINT64_C(1) << 31);
  int64_t *starts = room((REPEATS + 1) * 8);
  uint8_t byte;
  FAILS(annb_fetch_csr(store, context, 0, rows, REPEATS, NULL, starts, &byte, &byte, UINT64_MAX, &err), ANNB_ERANGE);
  annb_fetch_options o = {.index64 = true};
  FAILS(annb_fetch_csr(store, context, 0, rows, REPEATS, &o, starts, &byte, &byte, total - 1, &err), ANNB_ECAPACITY);
  FAILS(annb_fetch_csr(store, context, 0, rows, REPEATS - 1, NULL, starts, &byte, &byte, 1, &err), ANNB_ECAPACITY);
  free(rows);
  free(starts);
  free(indices);
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

/* ---- exactness ---- */

START_TEST(lossy_values) {
  static const uint64_t indptr[] = {0, 1, 3};
  static const uint32_t indices[] = {2, 7, 4};
  static const double values[] = {3, 1, 0.1};
  maker_csr x = maker_from(2, 9, ANNB_F64, indptr, indices, values);
  annb_store *store = open_new(&x, 1, 0);
  uint64_t rows[] = {0, 1};
  int64_t starts[3];
  int32_t columns[3];
  float out[18];
  annb_fetch_options o = {.dtype = ANNB_F32};
  FAILS(annb_fetch_csr(store, context, 0, rows, 2, &o, starts, columns, out, 3, &err), ANNB_ELOSSY);
  ck_assert_int_eq(err.row, 1);
  ck_assert_ptr_nonnull(strstr(err.message, "store row 1"));
  ck_assert_ptr_nonnull(strstr(err.message, "segment row 0"));
  ck_assert_ptr_nonnull(strstr(err.message, "column 4"));
  ck_assert_ptr_nonnull(strstr(err.message, ".anns"));
  ck_assert_ptr_nonnull(strstr(err.path, ".anns"));
  FAILS(annb_fetch_dense(store, context, 0, rows, 2, &o, out, 0, sizeof out, &err), ANNB_ELOSSY);
  ck_assert_int_eq(err.row, 1);
  OK(annb_fetch_csr(store, context, 0, rows, 1, &o, starts, columns, out, 3, &err));
  o.allow_lossy = true;
  OK(annb_fetch_csr(store, context, 0, rows, 2, &o, starts, columns, out, 3, &err));
  ck_assert(out[0] == 3.0F && out[1] == 1.0F && out[2] == 0.1F);
  int8_t bytes[3];
  o.dtype = ANNB_I8;
  OK(annb_fetch_csr(store, context, 0, rows, 2, &o, starts, columns, bytes, 3, &err));
  ck_assert(bytes[0] == 3 && bytes[1] == 1 && bytes[2] == 0);
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

/* A part whose values do not fit the dtype of the store's matrix is an error by default, not a silent change. */
START_TEST(part_with_wider_values) {
  static const uint64_t indptr[] = {0, 1};
  static const uint32_t indices[] = {1};
  static const double value = 1e300;
  static const uint64_t part_rows[] = {1, 1};
  maker_csr narrow = maker_from(1, 2, ANNB_F32, indptr, indices, &(float){2}), wide = maker_from(1, 2, ANNB_F64, indptr, indices, &value);
  const maker_csr *parts[] = {&narrow, &wide};
  maker_matrix m = {.name = "X", .dtype = ANNB_F32, .n_cols = 2, .parts = parts};
  maker_store(
      &(maker_spec){.path = store_path, .n_vars = 2, .n_parts = 2, .part_rows = part_rows, .matrices = &m, .n_matrices = 1});
  annb_store *store = open_store();
  uint64_t rows[] = {0, 1};
  int64_t starts[3];
  int32_t columns[2];
  double out[2];
  FAILS(annb_fetch_csr(store, context, 0, rows, 2, NULL, starts, columns, out, 2, &err), ANNB_ELOSSY);
  ck_assert_int_eq(err.row, 1);
  annb_fetch_options o = {.dtype = ANNB_F64};
  OK(annb_fetch_csr(store, context, 0, rows, 2, &o, starts, columns, out, 2, &err));
  ck_assert(out[0] == 2 && out[1] == value);
  annb_store_close(store);
  maker_free(&narrow);
  maker_free(&wide);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("fetch");
  TCase *tc = tcase_create("fetch");
  tcase_set_timeout(tc, 300);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_loop_test(tc, every_dtype, ANNB_BOOL, ANNB_F64 + 1);
  tcase_add_loop_test(tc, every_conversion, ANNB_BOOL, ANNB_F64 + 1);
  tcase_add_test(tc, wide_rows);
  tcase_add_test(tc, bits_are_kept);
  tcase_add_test(tc, segments_and_parts);
  tcase_add_test(tc, nothing);
  tcase_add_test(tc, row_out_of_range);
  tcase_add_test(tc, bad_arguments);
  tcase_add_test(tc, counts);
  tcase_add_test(tc, capacity_is_exact);
  tcase_add_test(tc, unaligned_arrays);
  tcase_add_test(tc, batch_over_31_bits);
  tcase_add_test(tc, lossy_values);
  tcase_add_test(tc, part_with_wider_values);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
