/* Orders of samplers: each row once, reached in any order, uniform over seeds, weights exact. */
#include "store_maker.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static annb_error err;

static annb_sampler *open_over(uint64_t n_rows, const annb_sampler_options *o) {
  annb_sampler_source source = {.generation = 1, .n_rows = n_rows};
  annb_sampler *sampler;
  OK(annb_sampler_open(&source, 1, o, &sampler, &err));
  return sampler;
}

static annb_row_set *random_subset(uint64_t n, uint64_t *state) {
  uint64_t *bits = calloc(n / 64 + 1, 8), keep = maker_next(state) % 101;
  annb_row_set *set;
  for (uint64_t i = 0; i < n; i++)
    if (maker_next(state) % 100 < keep) bits[i / 64] |= UINT64_C(1) << i % 64;
  OK(annb_row_set_of_bits(bits, n, &set, &err));
  free(bits);
  return set;
}

/* ---- any parameters ---- */

/* Rows of all batches, one after the other; their number. */
static uint64_t whole_epoch(const annb_sampler *sampler, uint64_t epoch, uint64_t *rows) {
  annb_sampler_info info;
  annb_picker *picker;
  uint64_t n = 0;
  uint32_t got;
  annb_sampler_get_info(sampler, &info);
  OK(annb_picker_open(sampler, &picker, &err));
  for (uint64_t t = 0; t < info.batches; t++) {
    OK(annb_picker_batch(picker, epoch, t, rows + n, &got, &err));
    ck_assert_uint_le(got, info.batch_size);
    ck_assert(t + 1 == info.batches || got == info.batch_size || info.strategy == ANNB_SAMPLE_OWN);
    n += got;
  }
  FAILS(annb_picker_batch(picker, epoch, info.batches, rows + n, &got, &err), ANNB_ERANGE);
  annb_picker_close(picker);
  return n;
}

/* Batches and epochs in any order give what they gave in order. */
static void check_at_once(const annb_sampler *sampler, uint64_t epoch, const uint64_t *rows, uint64_t *state) {
  annb_sampler_info info;
  annb_picker *picker;
  annb_sampler_get_info(sampler, &info);
  uint64_t *batch = malloc((info.batch_size + 1) * 8);
  OK(annb_picker_open(sampler, &picker, &err));
  for (int i = 0; info.batches && i < 20; i++) {
    uint64_t t = maker_next(state) % info.batches;
    uint32_t got;
    if (i % 3 == 0) OK(annb_picker_batch(picker, epoch + 1 + i, t, batch, &got, &err));
    OK(annb_picker_batch(picker, epoch, t, batch, &got, &err));
    ck_assert_mem_eq(batch, rows + t * info.batch_size, got * 8);
  }
  annb_picker_close(picker);
  free(batch);
}

static void check_once(const annb_sampler *sampler, const annb_row_set *set, const uint64_t *rows, uint64_t n, uint64_t left_out) {
  annb_sampler_info info;
  annb_sampler_get_info(sampler, &info);
  uint8_t *seen = calloc(info.n_rows + 1, 1);
  for (uint64_t i = 0; i < n; i++) {
    ck_assert_uint_lt(rows[i], info.n_rows);
    ck_assert(!set || annb_row_set_contain(set, rows[i]));
    ck_assert_uint_eq(seen[rows[i]]++, 0);
  }
  ck_assert_uint_eq(n + left_out, info.positions);
  free(seen);
}

/* A fetch of the block shuffle holds whole runs, but for two at its ends and the short one. */
static void check_runs(const annb_sampler *sampler, const annb_row_set *set, const uint64_t *rows, uint64_t n) {
  annb_sampler_info info;
  annb_sampler_get_info(sampler, &info);
  uint64_t b = info.block_size, size = (uint64_t)info.batch_size * info.fetch_factor, n_runs = info.members / b + 1;
  uint32_t *in_run = calloc(n_runs, sizeof *in_run);
  for (uint64_t first = 0; first < n; first += size) {
    uint64_t end = first + size < n ? first + size : n, partial = 0;
    memset(in_run, 0, n_runs * sizeof *in_run);
    for (uint64_t i = first; i < end; i++) in_run[(set ? annb_row_set_rank(set, rows[i]) : rows[i]) / b]++;
    for (uint64_t r = 0; r < n_runs; r++)
      partial += in_run[r] && in_run[r] < b && !(r == info.members / b && in_run[r] == info.members % b);
    ck_assert_uint_le(partial, 2);
  }
  free(in_run);
}

START_TEST(any_parameters) {
  uint64_t state = (uint64_t)_i * 77 + 5;
  for (int round = 0; round < 150; round++) {
    uint64_t n_rows = maker_next(&state) % (round % 10 ? 900 : 90000), epoch = maker_next(&state) % 1000;
    annb_row_set *set = maker_next(&state) % 2 ? random_subset(n_rows, &state) : NULL;
    uint64_t members = set ? annb_row_set_count(set) : n_rows;
    annb_sampler_options o = {.strategy = (annb_strategy)(maker_next(&state) % 3),
                              .seed = maker_next(&state),
                              .block_size = 1 + maker_next(&state) % 40,
                              .batch_size = 1 + (uint32_t)(maker_next(&state) % 30),
                              .fetch_factor = 1 + (uint32_t)(maker_next(&state) % 30),
                              .drop_last = maker_next(&state) % 2,
                              .rows = set};
    if (members && maker_next(&state) % 3 == 0) o.num_samples = 1 + maker_next(&state) % members;
    annb_sampler *sampler = open_over(n_rows, &o);
    uint64_t *rows = malloc((members + o.batch_size) * 8), n = whole_epoch(sampler, epoch, rows);
    uint64_t positions = o.num_samples ? o.num_samples : members;
    check_once(sampler, set, rows, n, o.drop_last ? positions % o.batch_size : 0);
    check_at_once(sampler, epoch, rows, &state);
    if (o.strategy == ANNB_SAMPLE_BLOCK && !o.drop_last && !o.num_samples) check_runs(sampler, set, rows, n);
    for (uint64_t i = 0; o.strategy == ANNB_SAMPLE_SEQUENTIAL && i < n; i++)
      ck_assert_uint_eq(rows[i], set ? annb_row_set_member(set, i) : i);
    free(rows);
    annb_sampler_close(sampler);
    annb_row_set_close(set);
  }
}
END_TEST

/* ---- uniform over seeds ---- */

/* Chi-square of counts against one expectation, as standard deviations from its mean. */
static double deviation(const uint32_t *counts, uint64_t n, double expected) {
  double sum = 0;
  for (uint64_t i = 0; i < n; i++) sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  return (sum - (double)(n - 1)) / sqrt(2 * (double)(n - 1));
}

/* Small: every row at every position, and every pair side by side, alike often over consecutive seeds and epochs. */
START_TEST(uniform_small) {
  enum { N = 23, TRIALS = 20000 };
  static uint32_t at[N * N], beside[N * N], wide[N * N];
  uint64_t rows[N + 8];
  memset(at, 0, sizeof at);
  memset(beside, 0, sizeof beside);
  memset(wide, 0, sizeof wide);
  annb_sampler_options o = {.block_size = 1, .batch_size = 4, .fetch_factor = (uint32_t[]){1, 3, 16}[_i]};
  for (uint64_t trial = 0; trial < TRIALS; trial++) {
    o.seed = trial / 2;
    annb_sampler *sampler = open_over(N, &o);
    ck_assert_uint_eq(whole_epoch(sampler, trial % 2, rows), N);
    for (int i = 0; i < N; i++) at[i * N + (int)rows[i]]++;
    for (int i = 0; i + 1 < N; i++) beside[rows[i] * N + rows[i + 1]]++;
    for (int i = 0; i + 7 < N; i++) wide[rows[i] * N + rows[i + 7]]++;
    annb_sampler_close(sampler);
  }
  /* the diagonal of pairs is empty: take it out */
  uint32_t pairs[N * (N - 1)], wides[N * (N - 1)];
  int k = 0;
  for (int i = 0; i < N * N; i++)
    if (i / N != i % N) {
      pairs[k] = beside[i];
      wides[k++] = wide[i];
    }
  double d = deviation(at, N * N, (double)TRIALS / N);
  ck_assert_msg(fabs(d) < 5, "positions: %g", d);
  d = deviation(pairs, N * (N - 1), (double)TRIALS * (N - 1) / (N * (N - 1)));
  ck_assert_msg(fabs(d) < 5, "neighbours: %g", d);
  d = deviation(wides, N * (N - 1), (double)TRIALS * (N - 7) / (N * (N - 1)));
  ck_assert_msg(fabs(d) < 5, "pairs seven apart: %g", d);
}
END_TEST

/* Large: a Feistel network shuffles the runs. Buckets of rows by buckets of positions, and how neighbours lie to each other. */
START_TEST(uniform_large) {
  enum { BUCKETS = 32, SEEDS = 60, M = 64 };
  static uint32_t at[BUCKETS * BUCKETS], beside[BUCKETS * BUCKETS], gap[BUCKETS];
  const uint64_t n = (uint64_t[]){65536, 65537, 100003, 131071}[_i];
  uint64_t rows[M];
  uint32_t got;
  uint64_t trials = 0, state = 9;
  memset(at, 0, sizeof at);
  memset(beside, 0, sizeof beside);
  memset(gap, 0, sizeof gap);
  annb_sampler_options o = {.block_size = 1, .batch_size = M, .fetch_factor = 1};
  for (o.seed = 0; o.seed < SEEDS; o.seed++) {
    annb_sampler *sampler = open_over(n, &o);
    annb_picker *picker;
    uint64_t start = maker_next(&state);
    OK(annb_picker_open(sampler, &picker, &err));
    for (int i = 0; i < 200; i++) {
      uint64_t t = (start + (uint64_t)i * 5) % (n / M); /* each batch once: a permutation repeats nothing */
      OK(annb_picker_batch(picker, 0, t, rows, &got, &err));
      trials++;
      at[t * BUCKETS / (n / M) * BUCKETS + rows[0] * BUCKETS / n]++;
      beside[rows[0] * BUCKETS / n * BUCKETS + rows[1] * BUCKETS / n]++;
      gap[(rows[2] - rows[3]) % BUCKETS]++;
    }
    annb_picker_close(picker);
    annb_sampler_close(sampler);
  }
  double d = deviation(at, BUCKETS * BUCKETS, (double)trials / (BUCKETS * BUCKETS));
  ck_assert_msg(fabs(d) < 5, "positions: %g", d);
  d = deviation(beside, BUCKETS * BUCKETS, (double)trials / (BUCKETS * BUCKETS));
  ck_assert_msg(fabs(d) < 5, "neighbours: %g", d);
  d = deviation(gap, BUCKETS, (double)trials / BUCKETS);
  ck_assert_msg(fabs(d) < 5, "differences: %g", d);
}
END_TEST

/* Runs around the change from tables to networks: each row once. */
START_TEST(once_large) {
  const uint64_t n = (uint64_t[]){65535, 65536, 70000, 200000}[_i];
  uint64_t *rows = malloc((n + 100) * 8);
  annb_sampler_options o = {.block_size = 1, .batch_size = 100, .fetch_factor = _i % 2 ? 700 : 7};
  annb_sampler *sampler = open_over(n, &o);
  check_once(sampler, NULL, rows, whole_epoch(sampler, 3, rows), 0);
  annb_sampler_close(sampler);
  o.block_size = 3; /* a short run where a network puts it */
  sampler = open_over(3 * n + 1, &o);
  rows = realloc(rows, (3 * n + 101) * 8);
  check_once(sampler, NULL, rows, whole_epoch(sampler, 3, rows), 0);
  annb_sampler_close(sampler);
  free(rows);
}
END_TEST

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* 10^8 rows and 2^40 rows: only what is asked for is computed. */
START_TEST(at_scale) {
  enum { TRIES = 300, M = 64 };
  const uint64_t n = _i ? UINT64_C(1) << 40 : 100000000;
  static uint64_t rows[TRIES * M];
  uint64_t state = 3, used = 0;
  annb_sampler_options o = {.seed = 1};
  annb_sampler *sampler = open_over(n, &o);
  annb_sampler_info info;
  annb_picker *picker;
  annb_sampler_get_info(sampler, &info);
  ck_assert_uint_eq(info.batches, (n + M - 1) / M);
  ck_assert_uint_lt(info.bytes, 4096);
  OK(annb_picker_open(sampler, &picker, &err));
  for (int i = 0; i < TRIES; i++) {
    uint32_t got;
    OK(annb_picker_batch(picker, 7, i < 4 ? info.batches - 4 + (uint64_t)i : maker_next(&state) % (info.batches / 2), rows + used, &got,
                         &err));
    used += got;
  }
  qsort(rows, used, sizeof *rows, by_value);
  for (uint64_t i = 1; i < used; i++) ck_assert(rows[i - 1] < rows[i] || n < 1000000000);
  ck_assert_uint_lt(rows[used - 1], n);
  annb_picker_close(picker);
  annb_sampler_close(sampler);
}
END_TEST

/* ---- weights ---- */

START_TEST(weighted_marginals) {
  enum { N = 61, EPOCHS = 600, SAMPLES = 640 };
  double weights[N], sum = 0, chi = 0, chi_at = 0;
  static uint32_t counts[N], at[4][N];
  uint64_t rows[SAMPLES + 64], state = 4;
  memset(counts, 0, sizeof counts);
  memset(at, 0, sizeof at);
  for (int i = 0; i < N; i++) {
    weights[i] = i % 7 == 3 ? 0 : i == 20 ? 40 : i < 16 ? 1 : (double)(maker_next(&state) % 1000) / 100 + 0.2;
    sum += weights[i];
  }
  annb_sampler_options o = {.strategy = ANNB_SAMPLE_WEIGHTED,
                            .block_size = (uint64_t[]){1, 5, 8, 64}[_i],
                            .batch_size = 64,
                            .fetch_factor = 4,
                            .num_samples = SAMPLES,
                            .weights = weights,
                            .n_weights = N,
                            .seed = 2};
  annb_sampler *sampler = open_over(N, &o);
  for (uint64_t e = 0; e < EPOCHS; e++) {
    ck_assert_uint_eq(whole_epoch(sampler, e, rows), SAMPLES);
    for (int i = 0; i < SAMPLES; i++) counts[rows[i]]++;
    for (int i = 0; i < 4; i++) at[i][rows[i * 131]]++;
  }
  for (int i = 0; i < N; i++) {
    double p = weights[i] / sum;
    if (p == 0) ck_assert_uint_eq(counts[i], 0);
    else chi += pow(counts[i] - p * EPOCHS * SAMPLES, 2) / (p * EPOCHS * SAMPLES);
    for (int j = 0; p > 0 && j < 4; j++) chi_at += pow(at[j][i] - p * EPOCHS, 2) / (p * EPOCHS);
  }
  /* draws of a run come k at a time, so counts scatter up to k times as much: the test is of their means */
  ck_assert_msg(chi < 70 * (double)(o.block_size < 16 ? o.block_size : 16), "marginals: %g", chi);
  ck_assert_msg(chi_at < 300, "marginals at single positions: %g", chi_at); /* 4 × 52 expected */
  annb_sampler_close(sampler);
}
END_TEST

/* Equal weights: k is the whole slot, so a batch comes from few runs. One heavy row: it does not fill batches in a row. */
START_TEST(weighted_locality) {
  enum { N = 4096, B = 16, M = 64 };
  static double weights[N];
  uint64_t rows[M];
  uint32_t got, runs = 0;
  uint8_t seen[N / B] = {0};
  for (int i = 0; i < N; i++) weights[i] = 1;
  annb_sampler_options o = {
      .strategy = ANNB_SAMPLE_WEIGHTED, .block_size = B, .batch_size = M, .fetch_factor = 1, .weights = weights, .n_weights = N};
  annb_sampler *sampler = open_over(N, &o);
  annb_picker *picker;
  OK(annb_picker_open(sampler, &picker, &err));
  OK(annb_picker_batch(picker, 0, 5, rows, &got, &err));
  for (uint32_t i = 0; i < got; i++) runs += !seen[rows[i] / B]++;
  ck_assert_uint_le(runs, M / B);
  annb_picker_close(picker);
  annb_sampler_close(sampler);
}
END_TEST

START_TEST(balanced_classes) {
  enum { N = 3000, K = 3, SAMPLES = 30000 };
  static int32_t codes[N];
  static uint64_t rows[SAMPLES + 64];
  uint32_t counts[K] = {0};
  for (int i = 0; i < N; i++) codes[i] = i < 2700 ? 0 : i < 2950 ? 1 : i < 2990 ? 2 : -1;
  annb_sampler_options o = {.strategy = ANNB_SAMPLE_BALANCED, .codes = codes, .n_codes = N, .num_samples = SAMPLES};
  annb_sampler *sampler = open_over(N, &o);
  ck_assert_uint_eq(whole_epoch(sampler, 0, rows), SAMPLES);
  for (int i = 0; i < SAMPLES; i++) {
    ck_assert_int_ge(codes[rows[i]], 0);
    counts[codes[rows[i]]]++;
  }
  for (int k = 0; k < K; k++) ck_assert_msg(counts[k] > 9000 && counts[k] < 11000, "class %d: %u", k, counts[k]);
  annb_sampler_close(sampler);
}
END_TEST

/* ---- the caller's order ---- */

static annb_status three_rows(void *user, uint64_t epoch, uint64_t batch, uint64_t *rows, uint32_t room, uint32_t *n, annb_error *error) {
  (void)error;
  ck_assert_uint_ge(room, 3);
  for (uint64_t i = 0; i < 3; i++) rows[i] = batch + i * epoch;
  *n = *(uint32_t *)user;
  return ANNB_OK;
}

START_TEST(own_order) {
  const uint64_t offsets[] = {0, 2, 5, 6}, list[] = {9, 9, 1, 2, 3, 0}, far[] = {9, 9, 1, 2, 10, 0};
  uint32_t n = 3, got;
  uint64_t rows[8];
  annb_picker *picker;
  annb_sampler_options o = {.strategy = ANNB_SAMPLE_OWN, .batch_size = 3, .own = {.n_batches = 3, .offsets = offsets, .rows = list}};
  annb_sampler *sampler = open_over(10, &o);
  ck_assert_uint_eq(whole_epoch(sampler, 0, (uint64_t[8]){0}), 6);
  annb_sampler_close(sampler);
  annb_sampler_source source = {.n_rows = 10};
  o.own.rows = far;
  FAILS(annb_sampler_open(&source, 1, &o, &sampler, &err), ANNB_ERANGE);
  o.own.rows = list;
  o.batch_size = 2;
  FAILS(annb_sampler_open(&source, 1, &o, &sampler, &err), ANNB_EINVAL);
  o.batch_size = 3;
  o.own = (annb_own_order){.n_batches = 4, .batch = three_rows, .user = &n, .id = 5};
  OK(annb_sampler_open(&source, 1, &o, &sampler, &err));
  OK(annb_picker_open(sampler, &picker, &err));
  OK(annb_picker_batch(picker, 2, 3, rows, &got, &err));
  ck_assert(got == 3 && rows[0] == 3 && rows[1] == 5 && rows[2] == 7);
  FAILS(annb_picker_batch(picker, 4, 3, rows, &got, &err), ANNB_ERANGE); /* row 11 */
  n = 4;
  FAILS(annb_picker_batch(picker, 0, 0, rows, &got, &err), ANNB_EINVAL);
  annb_picker_close(picker);
  annb_sampler_close(sampler);
}
END_TEST

/* ---- what is refused ---- */

static void refuse(annb_sampler_options o, uint64_t n_rows, const char *why) {
  annb_sampler_source source = {.n_rows = n_rows};
  annb_sampler *sampler;
  FAILS(annb_sampler_open(&source, 1, &o, &sampler, &err), ANNB_EINVAL);
  ck_assert_msg(strstr(err.message, why) != NULL, "%s", err.message);
}

START_TEST(refused) {
  const double weights[] = {1, 0, 2, NAN}, none[] = {0, 0, 0};
  annb_row_set *set;
  OK(annb_row_set_of_list(NULL, 0, 7, &set, &err));
  refuse((annb_sampler_options){.strategy = (annb_strategy)9}, 5, "no sampling strategy 9");
  refuse((annb_sampler_options){.batch_size = 1u << 24, .fetch_factor = 1u << 20}, 5, "over 2^30");
  refuse((annb_sampler_options){.num_samples = 6}, 5, "only weighted sampling repeats rows");
  refuse((annb_sampler_options){.rows = set}, 5, "the row set is of 7 rows");
  refuse((annb_sampler_options){.strategy = ANNB_SAMPLE_WEIGHTED, .weights = weights, .n_weights = 4}, 4, "weight 3 is nan");
  refuse((annb_sampler_options){.strategy = ANNB_SAMPLE_WEIGHTED, .weights = weights, .n_weights = 3}, 4, "3 weights for 4 rows");
  refuse((annb_sampler_options){.strategy = ANNB_SAMPLE_WEIGHTED, .weights = none, .n_weights = 3}, 3, "all weights are 0");
  refuse((annb_sampler_options){.strategy = ANNB_SAMPLE_WEIGHTED, .weights = weights, .n_weights = 3, .without_replacement = true}, 3,
         "without replacement");
  annb_row_set_close(set);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sampler");
  TCase *tc = tcase_create("sampler");
  tcase_set_timeout(tc, 180);
  tcase_add_loop_test(tc, any_parameters, 0, 4);
  tcase_add_loop_test(tc, uniform_small, 0, 3);
  tcase_add_loop_test(tc, uniform_large, 0, 4);
  tcase_add_loop_test(tc, once_large, 0, 4);
  tcase_add_loop_test(tc, at_scale, 0, 2);
  tcase_add_loop_test(tc, weighted_marginals, 0, 4);
  tcase_add_test(tc, weighted_locality);
  tcase_add_test(tc, balanced_classes);
  tcase_add_test(tc, own_order);
  tcase_add_test(tc, refused);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
