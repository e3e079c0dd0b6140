/* The ordered pipeline: everything once, in order where it says so, never more than the slots hold. */
#include "../store/pipeline.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { N_ITEMS = 500, MOST_SLOTS = 16 };

typedef struct run {
  uint32_t n_threads, n_slots;
  uint64_t taken, given, end, later_until; /* end: items; later_until: says "later" once before each item below it */
  bool said_later;
  uint64_t slots[MOST_SLOTS];
  bool worked[N_ITEMS];
  atomic_int taking, giving;
  atomic_bool seats[64];
  uint64_t stop_give, stop_watch, watched; /* items; N_ITEMS: never */
  pthread_t caller;
} run;

static annb_take take(void *user, uint32_t slot) {
  run *r = user;
  ck_assert_int_eq(atomic_fetch_add(&r->taking, 1), 0);
  annb_take t = r->taken < r->end ? ANNB_TAKEN : ANNB_END;
  if (t == ANNB_TAKEN && r->taken && r->taken < r->later_until && !r->said_later) {
    r->said_later = true;
    t = ANNB_LATER;
  } else if (t == ANNB_TAKEN) {
    r->said_later = false;
    ck_assert_uint_lt(slot, r->n_slots);
    r->slots[slot] = r->taken++;
  }
  atomic_fetch_sub(&r->taking, 1);
  return t;
}

static void work(void *user, uint32_t worker, uint32_t slot) {
  run *r = user;
  ck_assert_uint_lt(worker, r->n_threads);
  ck_assert(!atomic_exchange(&r->seats[worker], true));
  if (r->slots[slot] % 7 == 0) nanosleep(&(struct timespec){0, 200000}, NULL); /* others overtake */
  ck_assert(!r->worked[r->slots[slot]]);
  r->worked[r->slots[slot]] = true;
  atomic_store(&r->seats[worker], false);
}

static bool give(void *user, uint32_t slot) {
  run *r = user;
  ck_assert_int_eq(atomic_fetch_add(&r->giving, 1), 0);
  ck_assert_uint_eq(r->slots[slot], r->given);
  ck_assert(r->worked[r->given]);
  r->given++;
  atomic_fetch_sub(&r->giving, 1);
  return r->given != r->stop_give;
}

static bool watch(void *user, uint64_t given) {
  run *r = user;
  ck_assert(pthread_equal(pthread_self(), r->caller));
  ck_assert_uint_gt(given, r->watched);
  r->watched = given;
  return given < r->stop_watch;
}

static const struct {
  uint32_t n_threads, n_slots;
  uint64_t later_until;
} cases[] = {{1, 1, 0}, {1, 5, 0}, {2, 1, 0}, {2, 2, 100}, {3, 16, 0}, {8, 10, 400}, {40, 16, 0}};
enum { N_CASES = sizeof cases / sizeof *cases };

static run run_of(int i, uint64_t end) {
  run r = {.n_threads = cases[i].n_threads, .n_slots = cases[i].n_slots, .later_until = cases[i].later_until, .end = end};
  r.stop_give = r.stop_watch = N_ITEMS + 1;
  r.caller = pthread_self();
  return r;
}

static void run_all(run *r) {
  const annb_pipeline p = {r->n_threads, r->n_slots, r, take, work, give, watch};
  annb_pipeline_run(&p);
  ck_assert_int_eq(r->taking, 0);
  ck_assert_int_eq(r->giving, 0);
}

START_TEST(every_item_once_and_in_order) {
  run r = run_of(_i, N_ITEMS);
  run_all(&r);
  ck_assert_uint_eq(r.given, N_ITEMS);
  r = run_of(_i, 0);
  run_all(&r);
  ck_assert_uint_eq(r.given, 0);
}
END_TEST

START_TEST(stopping_ends_it) {
  run r = run_of(_i, N_ITEMS);
  r.stop_give = 100;
  run_all(&r);
  ck_assert_uint_eq(r.given, 100);
  r = run_of(_i, N_ITEMS);
  r.stop_watch = 100;
  run_all(&r);
  ck_assert_uint_ge(r.given, 100);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("pipeline");
  TCase *tc = tcase_create("pipeline");
  tcase_add_loop_test(tc, every_item_once_and_in_order, 0, N_CASES);
  tcase_add_loop_test(tc, stopping_ends_it, 0, N_CASES);
  suite_add_tcase(suite, tc);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
