/* The loops of encoding for this machine give what those for any machine give. */
#include "../store/codec/encode_loops.h"
#include "../store/kernels/kernels.h"

#include <check.h>
#include <string.h>

enum { N = 1000, COLS = 4096, GROUP = ANNB_RICE_GROUP };

static uint64_t state = 1;

static uint32_t below(uint64_t n) {
  uint64_t x = state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  return (uint32_t)((x ^ x >> 29) % n);
}

static const annb_encode_loops *plain, *best;

static void setup(void) {
  size_t n;
  plain = annb_encode_loops_all(&n)[0];
  best = annb_encode_loops_best();
}

START_TEST(test_groups) {
  for (int round = 0; round < 300; round++) {
    uint32_t group[GROUP] = {0}, n = 1 + below(GROUP), bits[2];
    const uint64_t most = UINT64_C(1) << below(20);
    for (uint32_t i = 0; i < n; i++) group[i] = below(5) ? below(most) : 0;
    ck_assert_uint_eq(plain->any(group), best->any(group));
    uint64_t some[2] = {3, 3}, excess[2] = {5, 5};
    plain->tail(group, 40, &some[0], &excess[0]);
    best->tail(group, 40, &some[1], &excess[1]);
    ck_assert(some[0] == some[1] && excess[0] == excess[1]);
    const unsigned step = 1 + below(2), lowest = below(4), nibble = plain->choose(group, n, step, lowest, 41, &bits[0]);
    ck_assert_uint_eq(nibble, best->choose(group, n, step, lowest, 41, &bits[1]));
    ck_assert_uint_eq(bits[0], bits[1]);
    for (unsigned k = 1; k <= 8; k++) {
      uint8_t one[256] = {0}, other[256] = {0};
      plain->put_low(one, group, n, k);
      best->put_low(other, group, n, k);
      ck_assert_mem_eq(one, other, (n * k + 7) / 8);
      for (uint32_t i = 0; i < n * k; i++) /* bit by bit */
        ck_assert_uint_eq(one[i / 8] >> i % 8 & 1, group[i / k] >> i % k & 1);
    }
  }
}
END_TEST

START_TEST(test_rows) {
  static uint32_t x[N], one[N], other[N];
  for (size_t n = 1; n <= N; n += 1 + n / 3)
    for (int kind = 0; kind < 3; kind++) { /* ascending, with repeats, any */
      for (size_t i = 0; i < n; i++) x[i] = kind == 2 ? below(COLS) : (i ? x[i - 1] : 0) + below(5) + (kind == 0);
      bool repeats[2], descents[2], ascending = true;
      uint32_t top = 0;
      for (size_t i = 0; i < n; i++) top = x[i] > top ? x[i] : top;
      for (size_t i = 1; i < n; i++) ascending &= x[i] >= x[i - 1];
      ck_assert(best->highest(x, n) == top && plain->highest(x, n) == top);
      ck_assert(best->ascends(x, n) == ascending && plain->ascends(x, n) == ascending);
      ck_assert_uint_eq(plain->gaps(x, n, one, &repeats[0], &descents[0]), best->gaps(x, n, other, &repeats[1], &descents[1]));
      ck_assert(repeats[0] == repeats[1] && descents[0] == descents[1] && descents[0] == !ascending);
      ck_assert_mem_eq(one, other, n * sizeof *one);
    }
}
END_TEST

static const float odd[] = {-0.0f, 0.5f, 16777216.0f, -16777216.0f, 1e30f, 1.0f / 0.0f, 0.0f / 0.0f, 16777215.5f};

START_TEST(test_codes) {
  static float values[N];
  static uint32_t one[N], other[N];
  for (size_t n = 1; n <= N; n += 1 + n / 3) {
    int32_t base[2], low = INT32_MAX;
    for (size_t i = 0; i < n; i++) {
      const int32_t v = (int32_t)below(1 << 24) * (below(2) ? 1 : -1);
      values[i] = (float)v;
      low = v < low ? v : low;
    }
    ck_assert(plain->codes_f32((const uint8_t *)values, n, one, &base[0]) && best->codes_f32((const uint8_t *)values, n, other, &base[1]));
    ck_assert(base[0] == low && base[1] == low);
    for (size_t i = 0; i < n; i++) ck_assert(one[i] == other[i] && one[i] == (uint32_t)((int32_t)values[i] - low));
    for (size_t k = 0; k < sizeof odd / sizeof *odd; k++) {
      const size_t at = below(n);
      const float before = values[at];
      values[at] = odd[k];
      ck_assert(!plain->codes_f32((const uint8_t *)values, n, one, &base[0]));
      ck_assert(!best->codes_f32((const uint8_t *)values, n, other, &base[1]));
      values[at] = before;
    }
  }
}
END_TEST

START_TEST(test_mark_and_rank) {
  static uint64_t seen[COLS / 64];
  static uint32_t before[COLS / 64], table[COLS], columns[N], ids[N], sorted[N], values[N], in[N];
  const annb_encode_loops *const both[] = {plain, best};
  for (uint32_t i = 0; i < COLS; i++) table[i] = (i * 1237 + 11) % COLS; /* 1237 is odd: a permutation */
  for (int b = 0; b < 2; b++)
    for (size_t n = 2; n <= N; n += 1 + n / 2) {
      for (size_t i = 0; i < n; i++) columns[i] = (uint32_t)(i * 3 + below(3)), in[i] = below(UINT32_MAX);
      for (int mapped = 0; mapped < 2; mapped++) {
        both[b]->mark(columns, n, mapped ? table : NULL, seen, ids);
        for (size_t i = 0; i < n; i++) ck_assert_uint_eq(ids[i], mapped ? table[columns[i]] : columns[i]);
        ck_assert(both[b]->rank(seen, COLS / 64, before, ids, (const uint8_t *)in, n, sorted, values));
        for (size_t k = 1; k < n; k++) ck_assert_uint_lt(sorted[k - 1], sorted[k]);
        for (size_t i = 0; i < n; i++) {
          size_t k = 0;
          while (k < n && sorted[k] != ids[i]) k++;
          ck_assert(k < n && values[k] == in[i]);
        }
        for (size_t i = 0; i < COLS / 64; i++) ck_assert_uint_eq(seen[i], 0);
      }
      columns[n - 1] = columns[0];
      both[b]->mark(columns, n, NULL, seen, ids);
      ck_assert(!both[b]->rank(seen, COLS / 64, before, ids, (const uint8_t *)in, n, sorted, values));
      for (size_t i = 0; i < COLS / 64; i++) ck_assert_uint_eq(seen[i], 0);
    }
}
END_TEST

START_TEST(test_quotients) {
  static uint8_t out[2][GROUP * 80 / 8 + 16];
  for (int round = 0; round < 2000; round++) {
    uint32_t group[GROUP], n = 1 + below(GROUP);
    const unsigned k = below(5), most = 1 + below(round % 2 ? 64 : 8);
    annb_unary u[2] = {{out[0], 0, 0}, {out[1], 0, 0}};
    for (uint32_t i = 0; i < n; i++) group[i] = (below(9) ? below(4) : below(most)) << k | below(UINT64_C(1) << k);
    for (uint32_t done = 0, some; done < n; done += some) { /* in two calls: a stream goes on inside a byte */
      some = done ? n - done : 1 + below(n);
      plain->put_quotients(&u[0], group + done, some, k);
      best->put_quotients(&u[1], group + done, some, k);
    }
    const size_t length = (size_t)(u[0].out - out[0]);
    ck_assert(u[1].out == out[1] + length && u[0].fill == u[1].fill && u[0].word == u[1].word && u[0].fill < 8);
    ck_assert_mem_eq(out[0], out[1], length + (u[0].fill > 0));
    size_t bit = 0;
    for (uint32_t i = 0; i < n; i++)
      for (uint32_t q = group[i] >> k, j = 0; j <= q; j++, bit++) ck_assert_uint_eq(out[0][bit / 8] >> bit % 8 & 1, j == q);
    ck_assert_uint_eq(bit, 8 * length + u[0].fill);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("encode_loops");
  TCase *tc = tcase_create("encode_loops");
  tcase_add_checked_fixture(tc, setup, NULL);
  tcase_set_timeout(tc, 60);
  tcase_add_test(tc, test_groups);
  tcase_add_test(tc, test_rows);
  tcase_add_test(tc, test_codes);
  tcase_add_test(tc, test_mark_and_rank);
  tcase_add_test(tc, test_quotients);
  suite_add_tcase(suite, tc);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
