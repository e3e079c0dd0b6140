/* Delivery straight from records, by every kernel, against the plain way: decode, look up, sort. */
#include "../store/codec/codec_kinds.h"
#include "../store/codec/deliver.h"
#include "../store/kernels/kernels.h"
#include "codec_help.h"
#include "suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_N = 3000, ROOM = MAX_N + ANNB_DECODE_SLACK };

static uint64_t state;
static uint64_t below(uint64_t n) { return help_random(&state) % n; }

/* A row, its record, and what should come out. */
typedef struct row {
  annb_row_shape shape;
  uint32_t n_out, *table_ids, ids[MAX_N];
  float values[MAX_N], *dense;
  uint8_t record[16 * MAX_N];
  size_t length;
  annb_gene_table table;
  annb_scratch scratch;
} row;

/* Kinds of values: counts, counts with large ones, negative and fractional numbers, huge numbers. */
static float value_like(int kind) {
  if (kind == 0) return (float)(1 + (below(10) < 7 ? 0 : below(20)));
  if (kind == 1) return (float)(1 + (below(30) ? below(3) : below(100000)));
  if (kind == 2) return (float)below(40) / 4 - 5;
  return (float)(below(300) << 15);
}

static row *row_new(uint32_t n_cols, uint32_t n_out, uint32_t n, int kind) {
  row *r = calloc(1, sizeof *r);
  r->shape = (annb_row_shape){n_cols, n, ANNB_F32};
  r->n_out = n_out;
  r->table_ids = malloc(4 * (size_t)n_cols);
  for (uint32_t i = 0; i < n_cols; i++) r->table_ids[i] = n_out - n_cols + i;
  for (uint32_t i = n_cols; i > 1; i--) {
    uint32_t j = (uint32_t)below(i), x = r->table_ids[i - 1];
    r->table_ids[i - 1] = r->table_ids[j];
    r->table_ids[j] = x;
  }
  for (uint32_t i = 0, id = 0; i < n; i++, id++) {
    uint32_t spare = n_cols - id - (n - i), most = 2 * spare / (n - i); /* columns that may be skipped: all, and here */
    id += (uint32_t)below(1 + (most < spare ? most : spare));
    r->ids[i] = id;
    r->values[i] = value_like(kind);
  }
  ck_assert(annb_gene_table_init(&r->table, r->table_ids, n_cols, n_out));
  r->dense = malloc(4 * (size_t)n_out);
  return r;
}

static void row_free(row *r) {
  annb_gene_table_free(&r->table);
  annb_scratch_free(&r->scratch);
  free(r->table_ids);
  free(r->dense);
  free(r);
}

static void check_csr(row *r) {
  static uint32_t ids[ROOM];
  static float values[ROOM];
  uint32_t n = r->shape.nnz;
  ck_assert_int_eq(annb_deliver_csr(&r->shape, r->record, r->length, NULL, ids, values, &r->scratch), ANNB_DELIVERY_DONE);
  ck_assert_mem_eq(ids, r->ids, 4 * n);
  ck_assert_mem_eq(values, r->values, 4 * n);
  ck_assert_int_eq(annb_deliver_csr(&r->shape, r->record, r->length, &r->table, ids, values, &r->scratch), ANNB_DELIVERY_DONE);
  for (uint32_t i = 0; i < n; i++) ck_assert_uint_eq(ids[i], r->table_ids[r->ids[i]]);
  ck_assert_mem_eq(values, r->values, 4 * n);
}

static void check_dense_and_sorted(row *r, bool narrow) {
  static uint32_t ids[ROOM];
  static float values[ROOM];
  float *expected = calloc(r->n_out, sizeof *expected);
  for (uint32_t i = 0; i < r->shape.nnz; i++) expected[r->table_ids[r->ids[i]]] = r->values[i];
  for (int again = 0; again < 2; again++) { /* the marks are clean after each call */
    memset(r->dense, 0xEE, 4 * (size_t)r->n_out);
    ck_assert_int_eq(annb_deliver_dense(&r->shape, r->record, r->length, &r->table, r->dense, &r->scratch), ANNB_DELIVERY_DONE);
    ck_assert_mem_eq(r->dense, expected, 4 * (size_t)r->n_out);
    annb_delivery d = annb_deliver_sorted(&r->shape, r->record, r->length, &r->table, ids, values, &r->scratch);
    if (narrow) ck_assert_int_eq(d, ANNB_DELIVERY_DONE);
    if (d != ANNB_DELIVERY_DONE) continue;
    for (uint32_t i = 0; i < r->shape.nnz; i++) {
      if (i) ck_assert_uint_lt(ids[i - 1], ids[i]);
      ck_assert_mem_eq(&values[i], &expected[ids[i]], 4);
    }
  }
  free(expected);
}

START_TEST(every_way_gives_the_row) {
  static const uint32_t columns[] = {200, 3000, 30000, 65534, 65535, 100000}, sizes[] = {1, 30, 200, 2900};
  size_t n_kernels, n_codecs;
  const annb_kernel *const *kernels = help_kernels(&n_kernels);
  const annb_codec *codecs = annb_codecs(&n_codecs);
  state = (uint64_t)_i;
  for (size_t c = 0; c < 6; c++)
    for (size_t s = 0; s < 4; s++) {
      if (sizes[s] > columns[c]) continue;
      row *r = row_new(columns[c], columns[c] + (s % 2 ? 0 : 70), sizes[s], _i);
      for (size_t i = 0; i < n_codecs; i++) {
        r->length = codecs[i].encode(&r->shape, r->ids, (const uint8_t *)r->values, r->record, sizeof r->record, &r->scratch);
        if (r->length == 0 || codecs[i].id < ANNB_CODEC_COUNT) continue;
        for (size_t k = 0; k < n_kernels; k++) {
          if (!kernels[k]->usable()) continue;
          r->scratch.kernel = kernels[k];
          check_csr(r);
          check_dense_and_sorted(r, r->n_out <= 65534 && _i != 3);
        }
      }
      row_free(r);
    }
}
END_TEST

START_TEST(other_records_are_left_to_others) {
  row *r = row_new(100, 100, 10, 0);
  static uint32_t ids[ROOM];
  static float values[ROOM];
  r->length = annb_plain_encode(&r->shape, r->ids, (const uint8_t *)r->values, r->record, sizeof r->record, &r->scratch);
  ck_assert_int_eq(annb_deliver_csr(&r->shape, r->record, r->length, &r->table, ids, values, &r->scratch), ANNB_DELIVERY_OTHER);
  r->ids[1] = r->ids[0]; /* a repeat: CSR delivers it, the others do not */
  r->length = annb_count_encode(&r->shape, r->ids, (const uint8_t *)r->values, r->record, sizeof r->record, &r->scratch);
  ck_assert_uint_gt(r->length, 0);
  ck_assert_int_eq(annb_deliver_csr(&r->shape, r->record, r->length, &r->table, ids, values, &r->scratch), ANNB_DELIVERY_DONE);
  ck_assert_int_eq(annb_deliver_sorted(&r->shape, r->record, r->length, &r->table, ids, values, &r->scratch), ANNB_DELIVERY_OTHER);
  ck_assert_int_eq(annb_deliver_dense(&r->shape, r->record, r->length, &r->table, r->dense, &r->scratch), ANNB_DELIVERY_OTHER);
  r->shape.n_cols = 101; /* not the table's */
  ck_assert_int_eq(annb_deliver_csr(&r->shape, r->record, r->length, &r->table, ids, values, &r->scratch), ANNB_DELIVERY_OTHER);
  row_free(r);
}
END_TEST

START_TEST(damage_is_told) {
  row *r = row_new(3000, 3000, 500, 1);
  static uint32_t ids[ROOM];
  static float values[ROOM];
  r->length = annb_count_encode(&r->shape, r->ids, (const uint8_t *)r->values, r->record, sizeof r->record, &r->scratch);
  r->record[r->length - 1] ^= 0x80;
  ck_assert_int_eq(annb_deliver_csr(&r->shape, r->record, r->length - 1, &r->table, ids, values, &r->scratch), ANNB_DELIVERY_CORRUPT);
  ck_assert_int_eq(annb_deliver_sorted(&r->shape, r->record, r->length - 1, &r->table, ids, values, &r->scratch), ANNB_DELIVERY_CORRUPT);
  ck_assert_int_eq(annb_deliver_dense(&r->shape, r->record, r->length - 1, &r->table, r->dense, &r->scratch), ANNB_DELIVERY_CORRUPT);
  r->record[r->length - 1] ^= 0x80;
  check_csr(r);
  check_dense_and_sorted(r, true);
  row_free(r);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("deliver");
  TCase *cases = tcase_create("deliver");
  tcase_set_timeout(cases, 60);
  tcase_add_loop_test(cases, every_way_gives_the_row, 0, 4);
  tcase_add_test(cases, other_records_are_left_to_others);
  tcase_add_test(cases, damage_is_told);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
