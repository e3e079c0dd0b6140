/* Codec dict: exact bits of every dtype, an independent decoder, hostile records. */
#include "../store/codec/codec_kinds.h"
#include "../store/kernels/kernels.h"
#include "codec_row.h"
#include "suite.h"

#include <annblock/annblock.h>
#include <check.h>
#include <math.h>
#include <string.h>

static uint64_t state;

/* Ascending ids over all columns; values of zero. */
static row spread_row(annb_dtype dtype, uint64_t n_cols, uint32_t n) {
  row r = row_new(dtype, n_cols, n);
  for (uint32_t i = 0; i < n; i++) r.ids[i] = (uint32_t)(i * n_cols / n);
  return r;
}

static bool encode(row *r) {
  r->length = annb_dict_encode(&r->shape, r->ids, r->values, r->record, r->room, &r->scratch);
  return r->length > 0;
}

/* Every kernel and the decoder of the specification give the row back. */
static void assert_exact(row *r) {
  ck_assert(encode(r));
  row_assert_decoded(r, annb_dict_decode);
  for (uint32_t i = 0; i < r->shape.nnz; i++) {
    ck_assert_uint_lt(r->plain.codes[i], r->plain.n_entries);
    ck_assert_mem_eq(r->plain.entries + r->plain.codes[i] * vw(r), r->values + i * vw(r), vw(r));
  }
}

/* −0.0 and two NaNs, worked out by hand: the codes 1 0 1 1 2 are ranks of the bits. */
START_TEST(has_the_specified_bytes) {
  static const uint16_t values[] = {0x8000, 0x7E01, 0x8000, 0x8000, 0xFE00};
  static const uint8_t expected[] = {4, 0, 2, 0x01, 0x7E, 0x00, 0x80, 0x00, 0xFE, 1, 0, 0, 0, 0xDF, 0x4A};
  row r = spread_row(ANNB_F16, 5, 5);
  memcpy(r.values, values, sizeof values);
  assert_exact(&r);
  ck_assert_uint_eq(r.length, sizeof expected);
  ck_assert_mem_eq(r.record, expected, sizeof expected);
  row_free(&r);
}
END_TEST

START_TEST(log_normalised_rows_come_back_exactly) {
  state = 3;
  for (int round = 0; round < 100; round++) {
    row r = spread_row(round % 2 ? ANNB_F32 : ANNB_F64, round % 3 ? 30000 : 100000, 1800);
    float total = (float)(1000 + help_random(&state) % 20000);
    for (uint32_t i = 0; i < r.shape.nnz; i++) {
      uint64_t count = help_random(&state) % 10 < 7 ? 1 : 1 + help_random(&state) % (1 + 2000 / (i + 1));
      double wide = log1p((double)count / (double)total * 1e4);
      float x = (float)wide;
      if (vw(&r) == 4) memcpy(r.values + 4 * i, &x, 4);
      else memcpy(r.values + 8 * i, &wide, 8);
    }
    assert_exact(&r);
    ck_assert_uint_lt(r.length * 8, 20u * r.shape.nnz);
    row_free(&r);
  }
}
END_TEST

START_TEST(any_bits_come_back) {
  static const annb_dtype dtypes[] = {ANNB_BOOL, ANNB_I8, ANNB_U16, ANNB_F16, ANNB_U32, ANNB_F32, ANNB_I64, ANNB_F64};
  state = 4;
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
    for (uint32_t different = 1; different <= 600; different += different < 10 ? 3 : 147) {
      row r = spread_row(dtypes[d], 70000, 1300);
      for (uint32_t i = 0; i < r.shape.nnz; i++) {
        uint64_t seed = help_random(&state) % different * 77 + different, bits = help_random(&seed);
        memcpy(r.values + i * vw(&r), &bits, vw(&r));
      }
      assert_exact(&r);
      row_free(&r);
    }
}
END_TEST

START_TEST(too_many_values_are_left_alone) {
  row r = spread_row(ANNB_F32, 30000, 200);
  for (uint32_t i = 0; i < 200; i++) memcpy(r.values + 4 * i, &i, 4);
  ck_assert(!encode(&r));
  r.ids[1] = 0;
  memset(r.values, 1, 800);
  ck_assert(encode(&r)); /* repeated ids are fine, descending ones are not */
  r.ids[2] = 0;
  r.ids[1] = 1;
  ck_assert(!encode(&r));
  row_free(&r);
}
END_TEST

static void refuse(row *r, size_t length) {
  size_t n_kernels;
  const annb_kernel *const *kernels = help_kernels(&n_kernels);
  for (size_t k = 0; k < n_kernels; k++) {
    if (!kernels[k]->usable()) continue;
    r->scratch.kernel = kernels[k];
    ck_assert(!annb_dict_decode(&r->shape, r->record, length, r->out_ids, r->out_values, &r->scratch));
  }
  r->scratch.kernel = NULL;
}

START_TEST(wrong_fields_are_refused) {
  static const uint32_t values[] = {5, 9, 5, 7, 5};
  row r = spread_row(ANNB_U32, 20, 5);
  memcpy(r.values, values, sizeof values);
  assert_exact(&r);
  size_t length = r.length;
  r.record[1] = 4; /* a base is for counts */
  refuse(&r, length);
  r.record[1] = 0;
  r.record[3] = 7; /* equal entries */
  refuse(&r, length);
  r.record[3] = 8; /* descending */
  refuse(&r, length);
  r.record[3] = 5;
  for (size_t cut = 0; cut < length; cut++) refuse(&r, cut);
  memmove(r.record + 11, r.record + 15, length - 15); /* one entry less: a code has none */
  r.record[2] = 1;
  refuse(&r, length - 4);
  row_free(&r);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("codec dict");
  TCase *cases = tcase_create("dict");
  tcase_set_timeout(cases, 60);
  tcase_add_test(cases, has_the_specified_bytes);
  tcase_add_test(cases, log_normalised_rows_come_back_exactly);
  tcase_add_test(cases, any_bits_come_back);
  tcase_add_test(cases, too_many_values_are_left_alone);
  tcase_add_test(cases, wrong_fields_are_refused);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
