/* Row sets against arrays of flags. */
#include "store_maker.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

static annb_error err;

static void check_set(const annb_row_set *set, const uint8_t *in, uint64_t n) {
  uint64_t count = 0;
  for (uint64_t row = 0; row < n; row++) {
    ck_assert_uint_eq(annb_row_set_rank(set, row), count);
    ck_assert(annb_row_set_contain(set, row) == (in[row] != 0));
    if (in[row]) ck_assert_uint_eq(annb_row_set_member(set, count), row);
    count += in[row];
  }
  ck_assert_uint_eq(annb_row_set_count(set), count);
  ck_assert_uint_eq(annb_row_set_rank(set, n), count);
  ck_assert_uint_eq(annb_row_set_limit(set), n);
  ck_assert(!annb_row_set_contain(set, n));
}

/* The same set made in three ways: all answer alike, and have one hash. */
static void check_ways(const uint8_t *in, uint64_t n, uint64_t *state) {
  uint64_t *bits = calloc(n / 64 + 1, 8), *list = malloc((n + 1) * 8), n_list = 0, n_ranges = 0;
  annb_row_range *ranges = malloc((n + 1) * sizeof *ranges);
  annb_row_set *a, *b, *c;
  for (uint64_t i = 0; i < n; i++) {
    if (!in[i]) continue;
    bits[i / 64] |= UINT64_C(1) << i % 64;
    list[n_list++] = i;
    /* sometimes a range is cut in two that touch */
    if (n_ranges && ranges[n_ranges - 1].end == i && maker_next(state) % 8) ranges[n_ranges - 1].end++;
    else ranges[n_ranges++] = (annb_row_range){i, i + 1};
  }
  bits[n / 64] |= n % 64 ? ~((UINT64_C(1) << n % 64) - 1) : 0; /* past the end: ignored */
  for (uint64_t i = n_list; i > 1; i--) {
    uint64_t j = maker_next(state) % i, x = list[i - 1];
    list[i - 1] = list[j];
    list[j] = x;
  }
  for (uint64_t i = n_ranges; i > 1; i--) {
    uint64_t j = maker_next(state) % i;
    annb_row_range x = ranges[i - 1];
    ranges[i - 1] = ranges[j];
    ranges[j] = x;
  }
  OK(annb_row_set_of_bits(bits, n, &a, &err));
  OK(annb_row_set_of_list(list, n_list, n, &b, &err));
  OK(annb_row_set_of_ranges(ranges, n_ranges, n, &c, &err));
  check_set(a, in, n);
  check_set(b, in, n);
  check_set(c, in, n);
  ck_assert_uint_eq(annb_row_set_hash(a), annb_row_set_hash(b));
  ck_assert_uint_eq(annb_row_set_hash(a), annb_row_set_hash(c));
  ck_assert_uint_eq(annb_row_set_bytes(a), annb_row_set_bytes(b));
  annb_row_set_close(a);
  annb_row_set_close(b);
  annb_row_set_close(c);
  free(bits);
  free(list);
  free(ranges);
}

START_TEST(any_set) {
  uint64_t state = (uint64_t)_i + 1;
  for (int round = 0; round < 30; round++) {
    uint64_t n = maker_next(&state) % 2000, run = 1 + maker_next(&state) % 100, density = maker_next(&state) % 101;
    uint8_t *in = calloc(n + 1, 1), now = 0;
    for (uint64_t i = 0; i < n; i++) {
      if (maker_next(&state) % run == 0) now = maker_next(&state) % 100 < density;
      in[i] = now;
    }
    check_ways(in, n, &state);
    free(in);
  }
}
END_TEST

START_TEST(smaller_form) {
  uint64_t *bits = calloc(1 << 14, 8);
  annb_row_set *set;
  for (uint64_t i = 1000; i < 900000; i++) bits[i / 64] |= UINT64_C(1) << i % 64;
  OK(annb_row_set_of_bits(bits, UINT64_C(1) << 20, &set, &err));
  ck_assert_uint_lt(annb_row_set_bytes(set), 300); /* a range */
  annb_row_set_close(set);
  for (uint64_t i = 0; i < 1 << 14; i++) bits[i] = UINT64_C(0x5555555555555555);
  OK(annb_row_set_of_bits(bits, UINT64_C(1) << 20, &set, &err));
  ck_assert_uint_lt(annb_row_set_bytes(set), (UINT64_C(1) << 20) / 64 * 9 + 300);
  ck_assert_uint_eq(annb_row_set_count(set), UINT64_C(1) << 19);
  ck_assert_uint_eq(annb_row_set_member(set, 12345), 24690);
  annb_row_set_close(set);
  free(bits);
}
END_TEST

START_TEST(refused) {
  annb_row_set *set;
  const uint64_t twice[] = {5, 7, 5}, past[] = {1, 10};
  const annb_row_range overlap[] = {{4, 8}, {1, 5}}, backward[] = {{3, 2}}, over[] = {{3, 11}};
  FAILS(annb_row_set_of_list(twice, 3, 10, &set, &err), ANNB_EINVAL);
  ck_assert_msg(strstr(err.message, "row 5 is in the list twice") != NULL, "%s", err.message);
  FAILS(annb_row_set_of_list(past, 2, 10, &set, &err), ANNB_ERANGE);
  FAILS(annb_row_set_of_ranges(overlap, 2, 10, &set, &err), ANNB_EINVAL);
  FAILS(annb_row_set_of_ranges(backward, 1, 10, &set, &err), ANNB_EINVAL);
  FAILS(annb_row_set_of_ranges(over, 1, 10, &set, &err), ANNB_ERANGE);
  FAILS(annb_row_set_of_ranges(overlap, 1, UINT64_C(1) << 41, &set, &err), ANNB_ERANGE);
  FAILS(annb_row_set_of_list(NULL, 1, 10, &set, &err), ANNB_EINVAL);
  OK(annb_row_set_of_list(NULL, 0, 10, &set, &err));
  ck_assert_uint_eq(annb_row_set_count(set), 0);
  annb_row_set_close(set);
  annb_row_set_close(NULL);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("row_set");
  TCase *tc = tcase_create("row_set");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, any_set, 0, 4);
  tcase_add_test(tc, smaller_form);
  tcase_add_test(tc, refused);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
