/* Dealing batches to ranks and workers, and resuming, over random parameters: all batches once, but for those that do not go round. */
#include "store_maker.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

static annb_error err;

static annb_sampler *open_over(uint64_t n_rows, const annb_sampler_options *o) {
  annb_sampler_source source = {.store_id = {1, 2, 3}, .generation = 4, .n_rows = n_rows};
  annb_sampler *sampler;
  OK(annb_sampler_open(&source, 1, o, &sampler, &err));
  return sampler;
}

static annb_sampler *random_sampler(uint64_t *state, annb_sampler_info *info) {
  annb_sampler_options o = {.seed = maker_next(state),
                            .block_size = 1 + maker_next(state) % 8,
                            .batch_size = 1 + (uint32_t)(maker_next(state) % 4),
                            .fetch_factor = 1 + (uint32_t)(maker_next(state) % 6)};
  annb_sampler *sampler = open_over(1 + maker_next(state) % 400, &o);
  annb_sampler_get_info(sampler, info);
  return sampler;
}

static annb_plan *open_plan(const annb_sampler *sampler, annb_topology t) {
  annb_plan *plan;
  OK(annb_plan_open(sampler, &t, &plan, &err));
  return plan;
}

/* Batches of a rank by step, filled in by its workers, from `bytes` on if there are any. NULL-terminated by *n. */
static uint64_t *rank_batches(const annb_sampler *sampler, annb_topology t, uint64_t epoch, const void *bytes, size_t size, uint64_t *n) {
  uint64_t *batches = NULL, total = 0, first, end;
  for (t.worker = 0; t.worker < t.n_workers; t.worker++) {
    annb_plan *plan = open_plan(sampler, t);
    OK(annb_plan_set_epoch(plan, epoch, &err));
    if (bytes) OK(annb_plan_restore(plan, bytes, size, &err));
    if (!batches) {
      *n = annb_plan_rank_steps(plan);
      batches = malloc((*n + 1) * 8);
      memset(batches, 0xff, (*n + 1) * 8);
    }
    ck_assert_uint_eq(annb_plan_rank_steps(plan), *n);
    for (uint64_t s = 0; s < annb_plan_steps(plan); s++) {
      uint64_t step = annb_plan_rank_step(plan, s), batch = annb_plan_batch(plan, s, &first, &end), first2, end2;
      ck_assert_uint_lt(step, *n);
      ck_assert_uint_eq(batches[step], UINT64_MAX);
      ck_assert(first <= s && s < end && end <= annb_plan_steps(plan));
      annb_plan_batch(plan, end - 1, &first2, &end2);
      ck_assert(first == first2 && end == end2);
      batches[step] = batch;
    }
    total += annb_plan_steps(plan);
    annb_plan_close(plan);
  }
  ck_assert_uint_eq(total, *n);
  return batches;
}

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* How often each batch came, against what may be left out or repeated. */
static void check_counts(const uint32_t *counts, uint64_t batches, annb_uneven uneven, uint32_t world) {
  uint64_t missing = 0, extra = 0;
  for (uint64_t i = 0; i < batches; i++) {
    missing += counts[i] == 0;
    extra += counts[i] ? counts[i] - 1 : 0;
  }
  if (uneven == ANNB_PAD) ck_assert_uint_eq(missing, 0);
  else ck_assert_uint_eq(extra, 0);
  ck_assert_uint_lt(missing + extra, world);
}

static annb_topology random_topology(uint64_t *state, uint64_t batches) {
  annb_topology t = {.world = 1 + (uint32_t)(maker_next(state) % 7), .n_workers = 1 + (uint32_t)(maker_next(state) % 4)};
  if (batches >= t.world) t.uneven = (annb_uneven)(maker_next(state) % 2);
  return t;
}

START_TEST(any_topology) {
  uint64_t state = (uint64_t)_i * 31 + 2;
  for (int round = 0; round < 150; round++) {
    annb_sampler_info info;
    annb_sampler *sampler = random_sampler(&state, &info);
    annb_topology t = random_topology(&state, info.batches);
    uint64_t epoch = maker_next(&state) % 5, steps = 0, n;
    uint32_t *counts = calloc(info.batches, sizeof *counts);
    for (t.rank = 0; t.rank < t.world; t.rank++) {
      annb_topology alone = t;
      alone.n_workers = 1;
      uint64_t *batches = rank_batches(sampler, t, epoch, NULL, 0, &n), *one = rank_batches(sampler, alone, epoch, NULL, 0, &n);
      if (t.rank == 0) steps = n;
      ck_assert_uint_eq(n, steps); /* every rank as many */
      for (uint64_t i = 0; i < n; i++) counts[batches[i]]++;
      qsort(batches, n, 8, by_value);
      qsort(one, n, 8, by_value);
      ck_assert_mem_eq(batches, one, n * 8); /* workers change the order alone */
      free(batches);
      free(one);
    }
    ck_assert_uint_eq(steps, info.batches / t.world + (info.batches % t.world && t.uneven == ANNB_PAD));
    check_counts(counts, info.batches, t.uneven, t.world);
    free(counts);
    annb_sampler_close(sampler);
  }
}
END_TEST

/* Steps of a rank are what comes when its workers are asked in turn. */
START_TEST(workers_in_turn) {
  uint64_t state = 8;
  for (int round = 0; round < 100; round++) {
    annb_sampler_info info;
    annb_sampler *sampler = random_sampler(&state, &info);
    annb_topology t = random_topology(&state, info.batches);
    annb_plan *plans[4];
    uint64_t next[4] = {0}, step = 0;
    for (t.worker = 0; t.worker < t.n_workers; t.worker++) plans[t.worker] = open_plan(sampler, t);
    for (bool any = true; any;) {
      any = false;
      for (uint32_t w = 0; w < t.n_workers; w++) {
        if (next[w] == annb_plan_steps(plans[w])) continue;
        ck_assert_uint_eq(annb_plan_rank_step(plans[w], next[w]++), step++);
        any = true;
      }
    }
    ck_assert_uint_eq(step, annb_plan_rank_steps(plans[0]));
    for (uint32_t w = 0; w < t.n_workers; w++) annb_plan_close(plans[w]);
    annb_sampler_close(sampler);
  }
}
END_TEST

static size_t state_of(const annb_plan *plan, uint64_t steps, uint8_t bytes[4096]) {
  size_t size = 4096;
  OK(annb_plan_state(plan, steps, bytes, &size, &err));
  return size;
}

/* From every step of an epoch the same goes on, and says the same of itself. */
START_TEST(resume_everywhere) {
  uint64_t state = (uint64_t)_i + 40;
  for (int round = 0; round < 12; round++) {
    annb_sampler_info info;
    annb_sampler *sampler = random_sampler(&state, &info);
    annb_topology t = random_topology(&state, info.batches);
    t.rank = (uint32_t)(maker_next(&state) % t.world);
    uint64_t n, left;
    uint64_t *batches = rank_batches(sampler, t, 2, NULL, 0, &n);
    annb_plan *plan = open_plan(sampler, t);
    OK(annb_plan_set_epoch(plan, 2, &err));
    for (uint64_t s = 0; s <= n; s++) {
      uint8_t bytes[4096], again[4096];
      size_t size = state_of(plan, s, bytes);
      uint64_t *rest = rank_batches(sampler, t, 0, bytes, size, &left);
      ck_assert_uint_eq(left, n - s);
      ck_assert_mem_eq(rest, batches + s, left * 8);
      free(rest);
      annb_plan *resumed = open_plan(sampler, t);
      OK(annb_plan_restore(resumed, bytes, size, &err));
      ck_assert_uint_eq(annb_plan_taken(resumed), s);
      ck_assert_uint_eq(annb_plan_epoch(resumed), 2);
      ck_assert_uint_eq(state_of(resumed, 0, again), size);
      ck_assert_mem_eq(bytes, again, size);
      if (s < n) { /* a step in two ways */
        size = state_of(plan, s + 1, bytes);
        ck_assert_uint_eq(state_of(resumed, 1, again), size);
        ck_assert_mem_eq(bytes, again, size);
      }
      annb_plan_close(resumed);
    }
    annb_plan_close(plan);
    free(batches);
    annb_sampler_close(sampler);
  }
}
END_TEST

/* An epoch in legs of other worlds and workers: nothing skipped, nothing twice. */
START_TEST(change_of_world) {
  uint64_t state = (uint64_t)_i * 1001 + 7;
  for (int round = 0; round < 120; round++) {
    annb_sampler_info info;
    annb_sampler *sampler = random_sampler(&state, &info);
    annb_uneven uneven = (annb_uneven)(maker_next(&state) % 2);
    uint32_t *counts = calloc(info.batches, sizeof *counts), world = 1;
    uint8_t bytes[4096];
    size_t size = 0;
    uint64_t n_legs = 1 + maker_next(&state) % 6, n;
    for (uint64_t leg = 0; leg < n_legs; leg++) {
      annb_topology t = random_topology(&state, info.batches);
      t.uneven = uneven;
      if (info.batches < t.world) t.world = 1;
      uint64_t steps = 0;
      for (t.rank = 0; t.rank < t.world; t.rank++) {
        uint64_t *batches = rank_batches(sampler, t, 0, size ? bytes : NULL, size, &n);
        if (t.rank == 0) steps = leg + 1 == n_legs ? n : n ? maker_next(&state) % n : 0; /* a leg that ends the epoch would pad */
        for (uint64_t i = 0; i < steps; i++) counts[batches[i]]++;
        free(batches);
      }
      t.rank = 0;
      annb_plan *plan = open_plan(sampler, t);
      if (size) OK(annb_plan_restore(plan, bytes, size, &err));
      size = state_of(plan, steps, bytes);
      annb_plan_close(plan);
      world = t.world;
    }
    check_counts(counts, info.batches, uneven, world);
    free(counts);
    annb_sampler_close(sampler);
  }
}
END_TEST

/* What is left out in one epoch is not in the next. */
START_TEST(rotation) {
  annb_sampler_options o = {.strategy = ANNB_SAMPLE_SEQUENTIAL, .batch_size = 1, .fetch_factor = 4};
  const uint32_t world = 3;
  for (uint64_t n_rows = 3; n_rows < 60; n_rows++) {
    annb_sampler *sampler = open_over(n_rows, &o);
    uint32_t *last = calloc(n_rows, sizeof *last), *all = calloc(n_rows, sizeof *all);
    for (uint64_t epoch = 0; epoch < 6; epoch++) {
      uint32_t *counts = calloc(n_rows, sizeof *counts);
      for (uint32_t rank = 0; rank < world; rank++) {
        annb_topology t = {.rank = rank, .world = world, .n_workers = 1, .uneven = ANNB_DROP};
        uint64_t n, *batches = rank_batches(sampler, t, epoch, NULL, 0, &n);
        for (uint64_t i = 0; i < n; i++) counts[batches[i]]++;
        free(batches);
      }
      for (uint64_t i = 0; i < n_rows; i++) {
        all[i] += counts[i];
        ck_assert(epoch == 0 || n_rows < 4 || counts[i] || last[i] || n_rows % world * 2 > n_rows);
      }
      free(last);
      last = counts;
    }
    for (uint64_t i = 0; i < n_rows; i++) ck_assert_uint_gt(all[i], 0);
    free(last);
    free(all);
    annb_sampler_close(sampler);
  }
}
END_TEST

/* ---- states that do not fit ---- */

static void refuse(uint64_t n_rows, annb_sampler_source source, annb_sampler_options o, const uint8_t *bytes, size_t size,
                   const char *why) {
  annb_sampler *sampler;
  annb_topology t = {.world = 2, .rank = 1};
  source.n_rows = n_rows;
  OK(annb_sampler_open(&source, 1, &o, &sampler, &err));
  annb_plan *plan = open_plan(sampler, t);
  OK(annb_plan_set_epoch(plan, 9, &err));
  FAILS(annb_plan_restore(plan, bytes, size, &err), ANNB_EINVAL);
  ck_assert_msg(strstr(err.message, why) != NULL, "%s", err.message);
  ck_assert_uint_eq(annb_plan_epoch(plan), 9);
  annb_plan_close(plan);
  annb_sampler_close(sampler);
}

START_TEST(refused) {
  annb_sampler_options o = {.seed = 1}, other = o;
  annb_sampler_source source = {.store_id = {1, 2, 3}, .generation = 4}, elsewhere = source;
  annb_sampler *sampler = open_over(5000, &o);
  annb_plan *plan = open_plan(sampler, (annb_topology){.world = 2});
  uint8_t bytes[4096];
  size_t size = state_of(plan, 17, bytes), small = 20;
  FAILS(annb_plan_state(plan, 17, bytes, &small, &err), ANNB_ECAPACITY);
  ck_assert_uint_eq(small, size);
  FAILS(annb_plan_state(plan, 100000, bytes, &small, &err), ANNB_ERANGE);
  size = state_of(plan, 17, bytes);
  elsewhere.store_id[15] = 1;
  refuse(5000, elsewhere, o, bytes, size, "another store");
  elsewhere = source;
  elsewhere.generation = 5;
  refuse(5000, elsewhere, o, bytes, size, "generation 4, here it is generation 5");
  other.batch_size = 32;
  refuse(5000, source, other, bytes, size, "batch size is 64, here it is 32");
  other = o;
  other.seed = 2;
  refuse(5000, source, other, bytes, size, "its seed is 1");
  other = o;
  other.strategy = ANNB_SAMPLE_BUFFER;
  refuse(5000, source, other, bytes, size, "strategy is 'block'");
  other = o;
  other.drop_last = true;
  refuse(5000, source, other, bytes, size, "drop_last");
  annb_row_set *set;
  OK(annb_row_set_of_ranges((annb_row_range[]){{0, 4999}}, 1, 5000, &set, &err));
  other = o;
  other.rows = set;
  refuse(5000, source, other, bytes, size, "4999");
  annb_row_set_close(set);
  /* every bit of the state matters */
  for (size_t i = 0; i < size * 8; i++) {
    bytes[i / 8] ^= (uint8_t)(1u << i % 8);
    annb_status s = annb_plan_restore(plan, bytes, size, &err);
    ck_assert(s == ANNB_ECORRUPT || s == ANNB_EVERSION);
    bytes[i / 8] ^= (uint8_t)(1u << i % 8);
  }
  for (size_t i = 0; i < size; i++) ck_assert_int_ne(annb_plan_restore(plan, bytes, i, &err), ANNB_OK);
  annb_plan_close(plan);
  FAILS(annb_plan_open(sampler, &(annb_topology){.rank = 2, .world = 2}, &plan, &err), ANNB_EINVAL);
  FAILS(annb_plan_open(sampler, &(annb_topology){.worker = 1, .world = 2}, &plan, &err), ANNB_EINVAL);
  FAILS(annb_plan_open(sampler, &(annb_topology){.world = 100, .uneven = ANNB_DROP}, &plan, &err), ANNB_EINVAL);
  annb_sampler_close(sampler);
}
END_TEST

/* No rows, or too few for a batch: no rank has any, and that is no error. */
START_TEST(no_batches) {
  const annb_sampler_options o = {.batch_size = 4, .drop_last = true};
  for (uint64_t n_rows = 0; n_rows < 4; n_rows++) {
    annb_sampler *sampler = open_over(n_rows, &o);
    for (int uneven = ANNB_PAD; uneven <= ANNB_DROP; uneven++)
      for (uint32_t rank = 0; rank < 3; rank++) {
        annb_plan *plan = open_plan(sampler, (annb_topology){.rank = rank, .world = 3, .uneven = (annb_uneven)uneven});
        OK(annb_plan_set_epoch(plan, 5, &err));
        ck_assert_uint_eq(annb_plan_rank_steps(plan), 0);
        ck_assert_uint_eq(annb_plan_steps(plan), 0);
        annb_plan_close(plan);
      }
    annb_sampler_close(sampler);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sampler_plan");
  TCase *tc = tcase_create("sampler_plan");
  tcase_set_timeout(tc, 180);
  tcase_add_loop_test(tc, any_topology, 0, 4);
  tcase_add_test(tc, workers_in_turn);
  tcase_add_test(tc, no_batches);
  tcase_add_loop_test(tc, resume_everywhere, 0, 4);
  tcase_add_loop_test(tc, change_of_world, 0, 4);
  tcase_add_test(tc, rotation);
  tcase_add_test(tc, refused);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
