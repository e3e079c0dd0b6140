/* Fetching from stores whose records hold permuted genes: every option against plain loops, threads, parts, and what is damaged. */
#include "order_maker.h"
#include "store_fixture.h"
#include "suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is expected ---- */

static void check_csr(const annb_store *store, const order_part *part, annb_context *with, const annb_fetch_options *o, uint64_t slack) {
  const maker_csr *x = part->x;
  uint64_t n_rows = x->n_rows, nnz = x->indptr[n_rows], wrong = 0;
  uint64_t *rows = room(n_rows * 8), *order = room((x->n_cols + 1) * 8);
  int64_t *indptr = room((n_rows + 1) * 8);
  uint8_t *indices = maker_guarded((nnz + slack) * (o->index64 ? 8 : 4)), *values = room((nnz + slack) * 8);
  uint32_t *stored = order_stored_ids(part);
  const uint32_t *ids = o->gene_order == ANNB_GENES_STORED ? stored : x->indices;
  annb_dtype dtype = o->dtype ? o->dtype : x->dtype;
  for (uint64_t i = 0; i < n_rows; i++) rows[i] = n_rows - 1 - i;
  OK(annb_fetch_csr(store, with, 0, rows, n_rows, o, indptr, indices, values, nnz + slack, &err));
  for (uint64_t i = 0; i < n_rows; i++) {
    uint64_t first = x->indptr[rows[i]], n = x->indptr[rows[i] + 1] - first, at = (uint64_t)indptr[i];
    wrong += (uint64_t)indptr[i + 1] - at != n;
    for (uint64_t k = 0; k < n; k++) order[k] = first + k;
    if (part->sort) order_sort(order, n, stored);
    if (o->sort_indices) order_sort(order, n, ids);
    for (uint64_t k = 0; k < n; k++) {
      int64_t id = 0;
      int32_t narrow;
      if (o->index64) memcpy(&id, indices + 8 * (at + k), 8);
      else memcpy(&narrow, indices + 4 * (at + k), 4), id = narrow;
      wrong += id != ids[order[k]];
      wrong += maker_number(values, dtype, at + k) != maker_number(x->values, x->dtype, order[k]);
    }
  }
  ck_assert_uint_eq(wrong, 0);
  free(rows);
  free(order);
  free(indptr);
  free(values);
  free(stored);
}

static void check_dense(const annb_store *store, const order_part *part, const annb_fetch_options *o, uint64_t stride) {
  const maker_csr *x = part->x;
  annb_dtype dtype = o->dtype ? o->dtype : x->dtype;
  uint64_t n = x->n_rows, wide = stride ? stride : x->n_cols, wrong = 0, size = annb_dtype_size(dtype);
  size_t bytes = n ? (size_t)((n - 1) * wide + x->n_cols) * size : 0;
  uint64_t *rows = room(n * 8);
  uint8_t *values = maker_guarded(bytes);
  double *sums = room(n * wide * sizeof *sums);
  uint32_t *stored = order_stored_ids(part);
  for (uint64_t i = 0; i < n; i++) {
    rows[i] = i;
    for (uint64_t k = x->indptr[i]; k < x->indptr[i + 1]; k++)
      sums[i * wide + (o->gene_order == ANNB_GENES_STORED ? stored[k] : x->indices[k])] += maker_number(x->values, x->dtype, k);
  }
  OK(annb_fetch_dense(store, context, 0, rows, n, o, values, stride, bytes, &err));
  for (uint64_t i = 0; i * size < bytes; i++) wrong += maker_number(values, dtype, i) != sums[i];
  ck_assert_uint_eq(wrong, 0);
  free(rows);
  free(sums);
  free(stored);
}

static void check_all(const order_part *part) {
  annb_store *store = open_store();
  for (int i = 0; i < 8; i++) {
    annb_fetch_options o = {.gene_order = i & 1 ? ANNB_GENES_STORED : ANNB_GENES_ORIGINAL, .sort_indices = i & 2, .index64 = i & 4};
    check_csr(store, part, context, &o, 0);
    check_csr(store, part, context, &o, 200);
    if (part->x->dtype != ANNB_BOOL) o.dtype = ANNB_F64;
    check_csr(store, part, context, &o, 200);
    check_dense(store, part, &o, 0);
    o.dtype = 0;
    check_dense(store, part, &o, 0);
    check_dense(store, part, &o, part->x->n_cols + 5);
  }
  annb_store_close(store);
}

/* ---- all options ---- */

START_TEST(every_dtype) {
  annb_dtype dtype = (annb_dtype)_i;
  char message[512];
  uint32_t *genes = order_permutation((uint64_t)_i, 90);
  for (int order = MAKER_SORTED; order <= MAKER_REPEATS; order++) {
    if (dtype == ANNB_BOOL && order == MAKER_REPEATS) continue; /* sums of bools are "or" */
    for (int how = 0; how < 4; how++) {
      maker_csr x = maker_random((uint64_t)_i, 70, 90, 25, dtype, order);
      order_part part = {.x = &x, .sort = how & 1, .segment_rows = 30, .genes = how & 2 ? genes : NULL};
      order_store(store_path, &part, 1, NULL);
      check_all(&part);
      ck_assert_msg(order_findings(store_path, message) == 0, "%s", message);
      maker_remove(store_path);
      maker_free(&x);
    }
  }
  free(genes);
}
END_TEST

/* Ids of 16 bits just hold, and just do not. */
START_TEST(many_genes) {
  static const uint32_t widths[] = {65535, 65536, 65537, 70000};
  uint32_t n_cols = widths[_i], *genes = order_permutation(7, n_cols);
  uint64_t indptr[4] = {0, 0, 300, 600}, seed = 3;
  uint32_t indices[600];
  float values[600];
  for (uint32_t i = 0; i < 600; i++) {
    uint32_t step = n_cols / 300;
    indices[i] = i % 300 * step + (uint32_t)(maker_next(&seed) % step);
    values[i] = (float)(i % 97 ? i % 3 + 1 : 70000 + i);
  }
  indices[599] = n_cols - 1;
  maker_csr x = maker_from(3, n_cols, ANNB_F32, indptr, indices, values);
  order_part part = {.x = &x, .sort = true, .genes = genes};
  order_store(store_path, &part, 1, NULL);
  check_all(&part);
  maker_free(&x);
  free(genes);
}
END_TEST

START_TEST(no_genes_or_no_rows) {
  uint64_t indptr[3] = {0, 0, 0};
  uint32_t none = 0;
  maker_csr no_genes = maker_from(2, 0, ANNB_F32, indptr, &none, &none), no_rows = maker_from(0, 5, ANNB_F32, indptr, &none, &none);
  uint32_t five[] = {4, 0, 3, 1, 2};
  order_part part = {.x = &no_genes, .sort = true, .genes = five};
  order_store(store_path, &part, 1, NULL);
  check_all(&part);
  maker_remove(store_path);
  part.x = &no_rows;
  order_store(store_path, &part, 1, NULL);
  check_all(&part);
  maker_free(&no_genes);
  maker_free(&no_rows);
}
END_TEST

/* ---- the table ---- */

START_TEST(table) {
  maker_csr x = maker_random(1, 20, 40, 9, ANNB_F32, MAKER_SHUFFLED);
  uint32_t *genes = order_permutation(5, 40);
  order_part parts[] = {{.x = &x, .sort = true, .genes = genes}, {.x = &x}};
  const uint32_t *ids = NULL, *again = NULL;
  order_store(store_path, parts, 2, NULL);
  annb_store *store = open_store();
  OK(annb_matrix_gene_order(store, 0, 0, &ids, &err));
  ck_assert_int_eq(memcmp(ids, genes, 40 * sizeof *genes), 0);
  OK(annb_matrix_gene_order(store, 0, 0, &again, &err));
  ck_assert_ptr_eq(ids, again);
  OK(annb_matrix_gene_order(store, 1, 0, &ids, &err));
  ck_assert_ptr_null(ids);
  FAILS(annb_matrix_gene_order(store, 2, 0, &ids, &err), ANNB_ERANGE);
  FAILS(annb_matrix_gene_order(store, 0, 1, &ids, &err), ANNB_ERANGE);
  FAILS(annb_matrix_gene_order(store, 0, 0, NULL, &err), ANNB_EINVAL);
  annb_store_close(store);
  maker_free(&x);
  free(genes);
}
END_TEST

START_TEST(unknown_option) {
  maker_csr x = maker_random(1, 20, 40, 9, ANNB_F32, MAKER_SORTED);
  order_part part = {.x = &x};
  annb_fetch_options o = {.gene_order = (annb_genes)2};
  int64_t indptr[1];
  float cell[1];
  order_store(store_path, &part, 1, NULL);
  annb_store *store = open_store();
  FAILS(annb_fetch_csr(store, context, 0, NULL, 0, &o, indptr, NULL, NULL, 0, &err), ANNB_EINVAL);
  FAILS(annb_fetch_dense(store, context, 0, NULL, 0, &o, cell, 0, sizeof cell, &err), ANNB_EINVAL);
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

/* ---- parts ---- */

static annb_status fetch_rows(const annb_store *store, annb_genes genes, bool dense, uint64_t first, uint64_t n) {
  uint64_t rows[64];
  int64_t indptr[65];
  static int32_t indices[4096];
  static float values[64 * 40];
  annb_fetch_options o = {.gene_order = genes};
  for (uint64_t i = 0; i < n; i++) rows[i] = first + i;
  if (dense) return annb_fetch_dense(store, context, 0, rows, n, &o, values, 0, sizeof values, &err);
  return annb_fetch_csr(store, context, 0, rows, n, &o, indptr, indices, values, 4096, &err);
}

/* Parts of 20 rows: permuted one way, the same way, not, another way. */
START_TEST(parts_with_different_orders) {
  maker_csr x = maker_random(1, 20, 40, 9, ANNB_F32, MAKER_SHUFFLED);
  uint32_t *one = order_permutation(5, 40), *other = order_permutation(6, 40);
  order_part parts[] = {{.x = &x, .sort = true, .genes = one}, {.x = &x, .sort = true, .genes = one}, {.x = &x}, {.x = &x, .genes = other}};
  order_store(store_path, parts, 4, NULL);
  annb_store *store = open_store();
  for (int dense = 0; dense < 2; dense++) {
    OK(fetch_rows(store, ANNB_GENES_ORIGINAL, dense, 10, 60));
    OK(fetch_rows(store, ANNB_GENES_STORED, dense, 0, 40));
    OK(fetch_rows(store, ANNB_GENES_STORED, dense, 40, 20));
    OK(fetch_rows(store, ANNB_GENES_STORED, dense, 60, 20));
    FAILS(fetch_rows(store, ANNB_GENES_STORED, dense, 39, 2), ANNB_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.message, "different gene orders"));
    ck_assert_int_eq(err.row, 40);
    FAILS(fetch_rows(store, ANNB_GENES_STORED, dense, 59, 2), ANNB_EINVAL);
  }
  for (uint64_t row = 0; row < 80; row++) {
    bool equal;
    order_part *p = &parts[row / 20];
    uint64_t order[40], n = order_stored_row(p, row % 20, order);
    int64_t indptr[2];
    int32_t indices[40];
    float values[40], *given = (float *)(void *)x.values;
    OK(annb_fetch_csr(store, context, 0, &row, 1, NULL, indptr, indices, values, 40, &err));
    equal = (uint64_t)indptr[1] == n;
    for (uint64_t k = 0; equal && k < n; k++) equal = indices[k] == (int32_t)x.indices[order[k]] && values[k] == given[order[k]];
    ck_assert(equal);
  }
  annb_store_close(store);
  maker_free(&x);
  free(one);
  free(other);
}
END_TEST

/* ---- threads ---- */

typedef struct job {
  const annb_store *store;
  const order_part *part;
  const uint32_t *ids;
  annb_status status;
  pthread_t thread;
} job;

static void *run(void *user) {
  job *j = user;
  annb_context *mine;
  annb_error e;
  uint64_t row = 3;
  int64_t indptr[2];
  int32_t indices[512];
  float values[512];
  j->status = annb_context_open(&mine, &e);
  if (!j->status) j->status = annb_fetch_csr(j->store, mine, 0, &row, 1, NULL, indptr, indices, values, 512, &e);
  if (!j->status) j->status = annb_matrix_gene_order(j->store, 0, 0, &j->ids, &e);
  annb_context_close(mine);
  return NULL;
}

START_TEST(threads_share_one_table) {
  maker_csr x = maker_random(1, 20, 300, 9, ANNB_F32, MAKER_SHUFFLED);
  uint32_t *genes = order_permutation(5, 300);
  order_part part = {.x = &x, .sort = true, .genes = genes};
  order_store(store_path, &part, 1, NULL);
  for (int round = 0; round < 10; round++) {
    job jobs[6];
    annb_store *store = open_store();
    for (int i = 0; i < 6; i++) {
      jobs[i] = (job){.store = store, .part = &part};
      ck_assert_int_eq(pthread_create(&jobs[i].thread, NULL, run, &jobs[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
      pthread_join(jobs[i].thread, NULL);
      ck_assert_int_eq(jobs[i].status, ANNB_OK);
      ck_assert_ptr_eq(jobs[i].ids, jobs[0].ids);
    }
    check_csr(store, &part, context, &(annb_fetch_options){.sort_indices = true}, 0);
    annb_store_close(store);
  }
  maker_free(&x);
  free(genes);
}
END_TEST

/* ---- damage ---- */

enum { N = 8 };
static const uint32_t fine[N] = {3, 1, 0, 2, 7, 6, 5, 4}, twice[N] = {3, 1, 0, 2, 7, 6, 5, 5}, large[N] = {3, 1, 0, 2, 7, 6, 5, 8};
static const uint32_t huge[N] = {3, 1, 0, 2, 7, 6, 5, UINT32_MAX}, longer[N + 1] = {8, 3, 1, 0, 2, 7, 6, 5, 4};
static const uint64_t wide[N] = {3, 1, 0, 2, 7, 6, 5, 4};

static const struct {
  order_array array;
  const char *word;
} bad_orders[] = {
    {{"gene_order", ANNB_U32, N, 1, twice}, "occurs twice"},   {{"gene_order", ANNB_U32, N, 1, large}, "too large"},
    {{"gene_order", ANNB_U32, N, 1, huge}, "too large"},       {{"gene_order", ANNB_U32, N - 4, 1, fine}, "columns"},
    {{"gene_order", ANNB_U32, N + 1, 1, longer}, "columns"},   {{"gene_order", ANNB_U64, N, 1, wide}, "dtype"},
    {{"gene_order", ANNB_I32, N, 1, fine}, "dtype"},           {{"gene_order", ANNB_U32, N / 2, 2, fine}, "in a row"},
    {{"gene_orders", ANNB_U32, N, 1, fine}, "has no array"},   {{"gene_order", ANNB_U32, 0, 1, fine}, "columns"},
};

static maker_csr few_cells(void) {
  static const uint64_t indptr[] = {0, 3, 4, 8};
  static const uint32_t indices[] = {0, 5, 7, 2, 1, 3, 4, 6};
  static const float values[] = {1, 2, 3, 1, 1, 4, 1, 1};
  return maker_from(3, N, ANNB_F32, indptr, indices, values);
}

/* Stored ids need no table: they can still be had. */
START_TEST(permutations_that_are_none) {
  maker_csr x = few_cells();
  char message[512];
  const uint32_t *ids;
  order_part part = {.x = &x, .sort = true, .genes = fine, .stated = &bad_orders[_i].array, .n_stated = 1};
  order_store(store_path, &part, 1, NULL);
  annb_store *store = open_store();
  FAILS(fetch_rows(store, ANNB_GENES_ORIGINAL, false, 0, 3), ANNB_ECORRUPT);
  FAILS(fetch_rows(store, ANNB_GENES_ORIGINAL, true, 0, 3), ANNB_ECORRUPT);
  ck_assert_msg(strstr(err.message, bad_orders[_i].word) != NULL, "%s", err.message);
  FAILS(annb_matrix_gene_order(store, 0, 0, &ids, &err), ANNB_ECORRUPT);
  OK(fetch_rows(store, ANNB_GENES_STORED, false, 0, 3));
  annb_store_close(store);
  ck_assert_uint_eq(order_findings(store_path, message), 1);
  maker_free(&x);
}
END_TEST

START_TEST(damaged_bytes) {
  maker_csr x = few_cells();
  char message[512];
  order_part part = {.x = &x, .sort = true, .genes = fine};
  size_t size;
  order_store(store_path, &part, 1, NULL);
  char *file = maker_object(store_path, ".annc", 0);
  uint8_t *data = maker_read_file(file, &size);
  for (size_t at = 0; at < size; at++) {
    uint8_t flipped = data[at] ^ 4;
    maker_write_at(file, at, &flipped, 1);
    annb_store *store = open_store();
    annb_status s = fetch_rows(store, ANNB_GENES_ORIGINAL, false, 0, 3);
    bool padding = at >= 128 + sizeof fine && s == ANNB_OK; /* behind the array: verify sees it */
    ck_assert_msg(s == ANNB_ECORRUPT || s == ANNB_EVERSION || s == ANNB_ENOTSTORE || s == ANNB_EUNSUPPORTED || padding, "byte %zu: %d", at,
                  (int)s);
    if (padding) OK(fetch_rows(store, ANNB_GENES_ORIGINAL, true, 0, 3));
    annb_store_close(store);
    if (padding || at % 16 == 0) ck_assert_uint_ge(order_findings(store_path, message), 1);
    maker_write_at(file, at, &data[at], 1);
  }
  free(data);
  free(file);
  maker_free(&x);
}
END_TEST

static void swap_orders(annb_manifest *m) {
  uint32_t kept = m->part_matrices[0].gene_order;
  m->part_matrices[0].gene_order = m->part_matrices[1].gene_order;
  m->part_matrices[1].gene_order = kept;
}
static void no_order(annb_manifest *m) { m->part_matrices[0].gene_order = ANNB_NONE; }
static void order_for_all(annb_manifest *m) { m->part_matrices[2].gene_order = m->part_matrices[0].gene_order; }

/* A manifest and segments that disagree on the order, for the part that `spoil` is about. */
START_TEST(another_order_than_the_segments) {
  static void (*const spoils[])(annb_manifest *) = {swap_orders, no_order, order_for_all};
  static const uint64_t first[] = {0, 0, 6};
  maker_csr x = few_cells();
  char message[512];
  uint32_t *other = order_permutation(1, N);
  order_part parts[] = {{.x = &x, .sort = true, .genes = fine}, {.x = &x, .sort = true, .genes = other}, {.x = &x, .sort = true}};
  order_store(store_path, parts, 3, spoils[_i]);
  annb_store *store = open_store();
  FAILS(fetch_rows(store, ANNB_GENES_ORIGINAL, false, first[_i], 1), ANNB_ECORRUPT);
  ck_assert_msg(strstr(err.message, "another gene order") != NULL, "%s", err.message);
  FAILS(fetch_rows(store, ANNB_GENES_STORED, true, first[_i], 1), ANNB_ECORRUPT);
  annb_store_close(store);
  ck_assert_uint_ge(order_findings(store_path, message), 1);
  ck_assert_msg(strstr(message, "another gene order") != NULL, "%s", message);
  maker_free(&x);
  free(other);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("gene_order");
  TCase *options = tcase_create("options"), *parts = tcase_create("parts"), *damage = tcase_create("damage");
  tcase_add_checked_fixture(options, setup, teardown);
  tcase_add_checked_fixture(parts, setup, teardown);
  tcase_add_checked_fixture(damage, setup, teardown);
  tcase_set_timeout(options, 120);
  tcase_set_timeout(damage, 120);
  tcase_add_loop_test(options, every_dtype, ANNB_BOOL, ANNB_F64 + 1);
  tcase_add_loop_test(options, many_genes, 0, 4);
  tcase_add_test(options, no_genes_or_no_rows);
  tcase_add_test(options, table);
  tcase_add_test(options, unknown_option);
  tcase_add_test(parts, parts_with_different_orders);
  tcase_add_test(parts, threads_share_one_table);
  tcase_add_loop_test(damage, permutations_that_are_none, 0, sizeof bad_orders / sizeof *bad_orders);
  tcase_add_test(damage, damaged_bytes);
  tcase_add_loop_test(damage, another_order_than_the_segments, 0, 3);
  suite_add_tcase(suite, options);
  suite_add_tcase(suite, parts);
  suite_add_tcase(suite, damage);
  return suite_run(suite);
}
