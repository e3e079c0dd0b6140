/* annb_transpose against a plain stable sort: in memory, with few runs, and with several merge levels. */
#include "../convert/rows/transpose.h"
#include "suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct element {
  uint32_t key, payload;
  uint64_t order;
} element;

static char dir[64];

static void setup(void) {
  strcpy(dir, "/tmp/annb_transpose_XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void) { ck_assert_int_eq(rmdir(dir), 0); /* fails when a spool file is left */ }

static uint32_t random32(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 33);
}

static int by_key(const void *a, const void *b) {
  const element *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->order < y->order ? -1 : x->order > y->order;
}

static void value_of(uint64_t order, uint8_t *out, uint32_t size) {
  for (uint32_t b = 0; b < size; b++) out[b] = (uint8_t)(order >> (8 * (b % 8)) ^ b);
}

static void push_all(annb_transpose *t, const element *e, uint64_t n, uint32_t value_size) {
  uint32_t keys[777], payloads[777];
  uint8_t values[777 * 8];
  for (uint64_t i = 0, k; i < n; i += k) {
    k = 1 + i % 777;
    if (k > n - i) k = n - i;
    for (uint64_t j = 0; j < k; j++) {
      keys[j] = e[i + j].key;
      payloads[j] = e[i + j].payload;
      value_of(e[i + j].order, values + j * value_size, value_size);
    }
    ck_assert_int_eq(annb_transpose_push(t, k, keys, payloads, values, NULL), ANNB_OK);
  }
}

static void check_all(annb_transpose *t, const element *sorted, uint64_t n, uint32_t n_keys, uint32_t value_size) {
  uint64_t at = 0;
  for (uint32_t key = 0; key < n_keys; key++) {
    uint64_t got;
    const uint32_t *payloads;
    const void *values;
    ck_assert_int_eq(annb_transpose_next(t, key, &got, &payloads, &values, NULL), ANNB_OK);
    for (uint64_t i = 0; i < got; i++, at++) {
      uint8_t want[8];
      value_of(sorted[at].order, want, value_size);
      if (at >= n || sorted[at].key != key || sorted[at].payload != payloads[i] ||
          memcmp(want, (const uint8_t *)values + i * value_size, value_size))
        ck_abort_msg("element %llu of key %lu is wrong", (unsigned long long)at, (unsigned long)key);
    }
    if (at < n && sorted[at].key <= key) ck_abort_msg("key %lu lacks elements", (unsigned long)key);
  }
  ck_assert_uint_eq(at, n);
}

static void round_trip(uint64_t n, uint32_t n_keys, uint32_t value_size, uint64_t memory) {
  annb_transpose *t;
  uint64_t state = n + n_keys + value_size;
  element *e = calloc(n + 1, sizeof *e);
  for (uint64_t i = 0; i < n; i++) e[i] = (element){random32(&state) % n_keys, random32(&state), i};
  ck_assert_int_eq(annb_transpose_open(value_size, n_keys, n, memory, dir, &t, NULL), ANNB_OK);
  push_all(t, e, n, value_size);
  qsort(e, n, sizeof *e, by_key);
  check_all(t, e, n, n_keys, value_size);
  annb_transpose_close(t);
  free(e);
}

START_TEST(test_in_memory) {
  round_trip(0, 5, 4, 1 << 20);
  round_trip(1, 1, 8, 1 << 20);
  round_trip(20000, 5000, 4, 8 << 20);
  round_trip(20000, 1, 1, 8 << 20);
}
END_TEST

START_TEST(test_spooled) {
  /* the least memory, 64 KiB: 2730 elements of 12 bytes in a run, at most 4 runs merged at once */
  round_trip(9000, 3000, 4, 0);
  round_trip(9000, 70, 8, 0);
}
END_TEST

START_TEST(test_merge_levels) {
  for (uint32_t value_size = 1; value_size <= 8; value_size *= 2) round_trip(100000, 30000, value_size, 0);
  round_trip(200000, 100, 2, 0);
  round_trip(50000, 30000, 3, 0); /* a size without a fast path */
}
END_TEST

START_TEST(test_large_keys) {
  uint32_t keys[] = {4000000, 3, 4000000, 2999999}, payloads[] = {1, 2, 3, 4};
  double values[] = {0.5, -0.0, 1.5, 2.5};
  annb_transpose *t;
  ck_assert_int_eq(annb_transpose_open(8, 4000001, 4, 1 << 20, dir, &t, NULL), ANNB_OK);
  ck_assert_int_eq(annb_transpose_push(t, 4, keys, payloads, values, NULL), ANNB_OK);
  uint64_t n = 0, total = 0;
  const uint32_t *p = NULL;
  const void *v = NULL;
  for (uint32_t key = 0; key <= 4000000; key++) {
    if (annb_transpose_next(t, key, &n, &p, &v, NULL)) ck_abort_msg("key %lu failed", (unsigned long)key);
    total += n;
    if (key == 3) ck_assert(n == 1 && p[0] == 2 && !memcmp(v, &values[1], 8));
  }
  ck_assert_uint_eq(n, 2);
  ck_assert(p[0] == 1 && p[1] == 3 && total == 4);
  annb_transpose_close(t);
}
END_TEST

START_TEST(test_group_too_large) {
  enum { N = 30000 }; /* of 12 bytes: over 2 × 64 KiB */
  annb_transpose *t;
  annb_error err;
  uint32_t key = 7, payload = 1;
  float value = 1;
  ck_assert_int_eq(annb_transpose_open(4, 100, N, 0, dir, &t, NULL), ANNB_OK);
  for (int i = 0; i < N; i++)
    if (annb_transpose_push(t, 1, &key, &payload, &value, NULL)) ck_abort_msg("push %d failed", i);
  uint64_t n;
  const uint32_t *p;
  const void *v;
  for (uint32_t k = 0; k < 7; k++) ck_assert_int_eq(annb_transpose_next(t, k, &n, &p, &v, NULL), ANNB_OK);
  ck_assert_int_eq(annb_transpose_next(t, 7, &n, &p, &v, &err), ANNB_ENOMEM);
  ck_assert_ptr_nonnull(strstr(err.message, "7"));
  annb_transpose_close(t);
}
END_TEST

START_TEST(test_misuse_and_failure) {
  annb_transpose *t;
  annb_error err;
  uint32_t key = 0, payload = 0;
  uint8_t value = 1;
  uint64_t n;
  const uint32_t *p;
  const void *v;
  annb_transpose_close(NULL);
  ck_assert_int_eq(annb_transpose_open(1, 1, 0, 0, dir, &t, NULL), ANNB_OK);
  ck_assert_int_eq(annb_transpose_next(t, 0, &n, &p, &v, NULL), ANNB_OK);
  ck_assert_uint_eq(n, 0);
  ck_assert_int_eq(annb_transpose_push(t, 1, &key, &payload, &value, &err), ANNB_EINVAL);
  annb_transpose_close(t);

  /* a missing directory is found out when the first run is written */
  annb_status s = ANNB_OK;
  ck_assert_int_eq(annb_transpose_open(1, 1, 0, 0, "/nonexistent/annb", &t, NULL), ANNB_OK);
  for (int i = 0; i < 100000 && !s; i++) s = annb_transpose_push(t, 1, &key, &payload, &value, &err);
  ck_assert_int_eq(s, ANNB_EIO);
  annb_transpose_close(t);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("transpose");
  TCase *tc = tcase_create("transpose");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 60);
  tcase_add_test(tc, test_in_memory);
  tcase_add_test(tc, test_spooled);
  tcase_add_test(tc, test_merge_levels);
  tcase_add_test(tc, test_large_keys);
  tcase_add_test(tc, test_group_too_large);
  tcase_add_test(tc, test_misuse_and_failure);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
