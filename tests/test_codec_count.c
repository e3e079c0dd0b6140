/* Codec count: the specified bytes, an independent decoder, exactness of every dtype, hostile records. */
#include "../store/codec/codec_kinds.h"
#include "../store/kernels/kernels.h"
#include "../store/objects/whole.h"
#include "codec_row.h"
#include "suite.h"

#include <annblock/annblock.h>
#include <check.h>
#include <math.h>
#include <string.h>

static uint64_t state;
static uint64_t below(uint64_t n) { return help_random(&state) % n; }

static void set(row *r, uint32_t i, int64_t x) { ck_assert(annb_whole_put(r->shape.dtype, x, r->values + i * vw(r))); }

static bool encode(row *r) {
  r->length = annb_count_encode(&r->shape, r->ids, r->values, r->record, r->room, &r->scratch);
  return r->length > 0;
}

/* Every kernel and the decoder of the specification give the row back. */
static void assert_exact(row *r) {
  ck_assert(encode(r));
  row_assert_decoded(r, annb_count_decode);
  for (uint32_t i = 0; i < r->shape.nnz; i++) {
    int64_t x;
    ck_assert(annb_whole_get(r->shape.dtype, r->values + i * vw(r), &x));
    ck_assert_int_eq(r->plain.base + (int64_t)r->plain.codes[i], x);
  }
}

START_TEST(has_the_specified_bytes) {
  static const uint8_t expected[] = {0x03, 0x00, 0x01, 0x00, 0x00, 0x01, 0x0A, 0x67, 0x0E};
  static const uint32_t ids[] = {0, 2, 3, 9};
  static const float values[] = {1, 3, 1, 1};
  row r = row_new(ANNB_F32, 10, 4);
  memcpy(r.ids, ids, sizeof ids);
  memcpy(r.values, values, sizeof values);
  assert_exact(&r);
  ck_assert_uint_eq(r.length, sizeof expected);
  ck_assert_mem_eq(r.record, expected, sizeof expected);
  row_free(&r);
}
END_TEST

/* Ascending ids whose gaps widen towards the end, as in gene order by detection. */
static void ids_by_detection(row *r, bool repeat) {
  double place = 0, widest = 2.0 * (double)r->shape.n_cols / r->shape.nnz / r->shape.nnz;
  for (uint32_t i = 0; i < r->shape.nnz; i++) {
    r->ids[i] = (uint32_t)place < r->shape.n_cols ? (uint32_t)place : (uint32_t)r->shape.n_cols - 1;
    double gap = widest * i * (double)below(1000) / 1000;
    place += repeat ? gap : 1 + gap;
    double last = (double)(r->shape.n_cols - (r->shape.nnz - i - 1));
    if (!repeat && place > last) place = last;
  }
}

static int64_t value_like(int kind, uint32_t i, uint32_t n) {
  switch (kind) {
    case 0: return 1;
    case 1: return below(100) < 70 ? 1 : (int64_t)(1 + below(1 + 2000 / (i + 1)));
    case 2: return below(50) ? (int64_t)below(4) : (int64_t)below(1 << 20);
    case 3: return (int64_t)below(1000) - 500;
    case 4: return i + 1 == n ? 3000000000 : 7;
    default: return (int64_t)(below(UINT32_MAX) + (UINT64_C(1) << 40));
  }
}

START_TEST(rows_come_back_exactly) {
  static const uint64_t columns[] = {3000, 30000, 65534, 65535, 65536, 1000000, ANNB_MAX_COLS};
  static const uint32_t sizes[] = {1, 5, 127, 128, 129, 260, 1000, 2999};
  state = (uint64_t)_i;
  for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int repeat = 0; repeat < 2; repeat++) {
        row r = row_new(_i < 4 ? ANNB_F32 : ANNB_I64, columns[c], sizes[s]);
        if (_i == 2) r.shape.dtype = ANNB_I32;
        ids_by_detection(&r, repeat);
        for (uint32_t i = 0; i < r.shape.nnz; i++) set(&r, i, value_like(_i, i, r.shape.nnz));
        assert_exact(&r);
        row_free(&r);
      }
}
END_TEST

START_TEST(every_dtype_at_its_limits) {
  static const struct {
    annb_dtype dtype;
    int64_t low, high;
  } limits[] = {{ANNB_BOOL, 0, 255},
                {ANNB_I8, -128, 127},
                {ANNB_I16, -32768, 32767},
                {ANNB_I32, INT32_MIN, INT32_MAX},
                {ANNB_I64, -(INT64_C(1) << 62) + 1, 0},
                {ANNB_U8, 0, 255},
                {ANNB_U16, 0, 65535},
                {ANNB_U32, 0, UINT32_MAX},
                {ANNB_U64, 0, (INT64_C(1) << 62) - 1},
                {ANNB_F16, -65504, 65504},
                {ANNB_F32, -16777216, 1 << 30},
                {ANNB_F64, -(INT64_C(1) << 53), INT64_C(1) << 53}};
  for (size_t d = 0; d < sizeof limits / sizeof *limits; d++) {
    row r = row_new(limits[d].dtype, 500, 300);
    bool wide = limits[d].high - limits[d].low > UINT32_MAX;
    for (uint32_t i = 0; i < 300; i++) r.ids[i] = i + 100;
    for (uint32_t i = 0; i < 300; i++) set(&r, i, limits[d].low);
    set(&r, 150, wide ? limits[d].low : limits[d].high);
    assert_exact(&r);
    for (uint32_t i = 0; i < 300; i++) set(&r, i, limits[d].high);
    assert_exact(&r);
    if (wide) { /* 2^32 and more apart: for another codec */
      set(&r, 7, limits[d].low);
      ck_assert(!encode(&r));
    }
    row_free(&r);
  }
}
END_TEST

START_TEST(what_is_not_whole_is_left_alone) {
  static const float odd[] = {-0.0f, 0.5f, NAN, INFINITY, -INFINITY, 1e-40f, 0x1p62f, 0x1p100f};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    row r = row_new(ANNB_F32, 100, 3);
    float values[3] = {1, 2, odd[i]};
    double wide[3] = {1, 2, (double)odd[i]};
    for (uint32_t j = 0; j < 3; j++) r.ids[j] = j;
    memcpy(r.values, values, sizeof values);
    ck_assert(!encode(&r));
    r.shape.dtype = ANNB_F64;
    memcpy(r.values, wide, sizeof wide);
    ck_assert(!encode(&r));
    row_free(&r);
  }
  static const uint16_t halves[] = {0x8000, 0x3800, 0x7C00, 0xFC00, 0x7E01, 0x0001};
  for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
    row r = row_new(ANNB_F16, 100, 1);
    memcpy(r.values, &halves[i], 2);
    ck_assert(!encode(&r));
    row_free(&r);
  }
}
END_TEST

START_TEST(every_whole_half_comes_back) {
  uint32_t whole = 0;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    uint16_t half = (uint16_t)bits, back;
    int64_t x;
    if (!annb_whole_get(ANNB_F16, (const uint8_t *)&half, &x)) continue;
    whole++;
    ck_assert(annb_whole_put(ANNB_F16, x, (uint8_t *)&back));
    ck_assert_uint_eq(back, half);
  }
  ck_assert_uint_eq(whole, 1 + 2 * (1023 + 6 * 1024)); /* 0; below and above 1024, of both signs */
}
END_TEST

START_TEST(descending_ids_are_left_alone) {
  row r = row_new(ANNB_U8, 100, 2);
  r.ids[0] = 5;
  r.ids[1] = 4;
  ck_assert(!encode(&r));
  row_free(&r);
}
END_TEST

static void refuse(const row *r, const uint8_t *record, size_t length) {
  size_t n_kernels;
  const annb_kernel *const *kernels = help_kernels(&n_kernels);
  row copy = *r;
  copy.scratch = (annb_scratch){.kernel = NULL};
  for (size_t k = 0; k < n_kernels; k++) {
    if (!kernels[k]->usable()) continue;
    copy.scratch.kernel = kernels[k];
    ck_assert(!annb_count_decode(&r->shape, record, length, r->out_ids, r->out_values, &copy.scratch));
  }
  annb_scratch_free(&copy.scratch);
  ck_assert(!help_decode(&r->shape, record, length, &copy.plain));
}

/* The record of the specification with one field changed. */
START_TEST(wrong_fields_are_refused) {
  static const uint8_t good[] = {0x03, 0x00, 0x01, 0x00, 0x00, 0x01, 0x0A, 0x67, 0x0E};
  static const struct {
    unsigned at;
    uint8_t value;
  } changes[] = {{1, 8},    {2, 2},    {2, 0x80}, {3, 1},    {4, 1},    {4, 5},   {5, 0xF1},
                 {5, 0x02}, {7, 0x66}, {8, 0x0F}, {8, 0x06}, {8, 0x1E}, {6, 0x0F}};
  row r = row_new(ANNB_F32, 10, 4);
  uint8_t record[sizeof good + 1] = {0};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    memcpy(record, good, sizeof good);
    record[changes[i].at] = changes[i].value;
    refuse(&r, record, sizeof good);
  }
  memcpy(record, good, sizeof good);
  refuse(&r, record, sizeof good + 1);
  for (size_t cut = 2; cut < sizeof good; cut++) refuse(&r, record, cut);
  r.shape.n_cols = 9;
  refuse(&r, record, sizeof good);
  r.shape.n_cols = 10;
  r.shape.nnz = 3;
  refuse(&r, record, sizeof good);
  row_free(&r);
}
END_TEST

/* A quotient of 64, which no aligned zero word betrays. */
START_TEST(long_quotients_are_refused) {
  uint8_t record[64] = {3, 0, 1, 0, 0, 0};
  row r = row_new(ANNB_F32, 1000, 3);
  for (unsigned quotient = 60; quotient < 70; quotient++) {
    uint64_t at = 1 + quotient;
    memset(record + 6, 0, sizeof record - 6);
    record[6] |= 1;
    for (unsigned i = 0; i < 5; i++, at++) record[6 + at / 8] |= (uint8_t)(1u << at % 8);
    size_t length = 6 + (at + 7) / 8;
    if (quotient > 63) refuse(&r, record, length);
    else ck_assert(annb_count_decode(&r.shape, record, length, r.out_ids, r.out_values, &r.scratch));
    if (quotient <= 63) ck_assert_uint_eq(r.out_ids[1], 1 + quotient);
  }
  row_free(&r);
}
END_TEST

/* A base or code that the dtype cannot hold. */
START_TEST(values_beyond_the_dtype_are_refused) {
  row r = row_new(ANNB_I16, 10, 2);
  r.ids[1] = 4;
  set(&r, 0, 30000);
  set(&r, 1, 30100);
  assert_exact(&r);
  r.shape.dtype = ANNB_I8;
  ck_assert(!annb_count_decode(&r.shape, r.record, r.length, r.out_ids, r.out_values, &r.scratch));
  r.shape.dtype = ANNB_U16;
  ck_assert(annb_count_decode(&r.shape, r.record, r.length, r.out_ids, r.out_values, &r.scratch));
  row_free(&r);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("codec count");
  TCase *cases = tcase_create("count");
  tcase_set_timeout(cases, 60);
  tcase_add_test(cases, has_the_specified_bytes);
  tcase_add_loop_test(cases, rows_come_back_exactly, 0, 6);
  tcase_add_test(cases, every_dtype_at_its_limits);
  tcase_add_test(cases, what_is_not_whole_is_left_alone);
  tcase_add_test(cases, every_whole_half_comes_back);
  tcase_add_test(cases, descending_ids_are_left_alone);
  tcase_add_test(cases, wrong_fields_are_refused);
  tcase_add_test(cases, long_quotients_are_refused);
  tcase_add_test(cases, values_beyond_the_dtype_are_refused);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
