/* Several threads for one call, and batches in memory of the context: the same values, the same failures, whatever is closed or forked. */
#include "store_fixture.h"
#include "suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 300, COLS = 400, PER_ROW = 90, ASKED = 3 * ROWS + 5, HELD_ROWS = 64 };

typedef struct result {
  annb_status status;
  int64_t indptr[ASKED + 1];
  int32_t *indices;
  float *values;
  uint64_t total;
} result;

static result *fetch(const annb_store *store, const uint64_t *rows, size_t n, annb_fetch_options o) {
  result *r = room(sizeof *r);
  OK(annb_fetch_nnz(store, 0, rows, n, NULL, &r->total, &err));
  r->indices = (int32_t *)(void *)maker_guarded((size_t)r->total * sizeof *r->indices);
  r->values = (float *)(void *)maker_guarded((size_t)r->total * sizeof *r->values);
  r->status = annb_fetch_csr(store, context, 0, rows, n, &o, r->indptr, r->indices, r->values, r->total, &err);
  return r;
}

static void same(const result *a, const int64_t *indptr, const void *indices, const void *values, size_t n) {
  ck_assert(!memcmp(a->indptr, indptr, (n + 1) * sizeof *indptr));
  ck_assert(!memcmp(a->indices, indices, (size_t)a->total * sizeof *a->indices));
  ck_assert(!memcmp(a->values, values, (size_t)a->total * sizeof *a->values));
}

static annb_batch batch_of(const annb_store *store, const uint64_t *rows, size_t n, annb_fetch_options o, bool dense) {
  annb_batch b;
  OK(annb_fetch_batch(store, context, 0, rows, n, &o, dense, &b, &err));
  ck_assert_uint_eq(b.n_rows, n);
  ck_assert_uint_eq(b.matrices->n_cols, COLS);
  return b;
}

START_TEST(same_for_any_number) {
  static const uint32_t threads[] = {2, 3, 64, 1000};
  uint64_t rows[ASKED];
  maker_csr x = maker_random((uint64_t)_i, ROWS, COLS, PER_ROW, ANNB_F32, _i % 3);
  annb_store *store = open_new(&x, 37, 16);
  size_t n = maker_awkward_rows(ROWS, rows), size = n * COLS * sizeof(float);
  annb_fetch_options o = {.sort_indices = _i / 3};
  result *one = fetch(store, rows, n, o);
  uint8_t *dense = maker_guarded(size), *again = maker_guarded(size);
  OK(annb_fetch_dense(store, context, 0, rows, n, &o, dense, 0, size, &err));
  for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
    o.n_threads = threads[i];
    result *many = fetch(store, rows, n, o);
    ck_assert_int_eq(many->status, ANNB_OK);
    same(one, many->indptr, many->indices, many->values, n);
    free(many);
    memset(again, 0x5A, size);
    OK(annb_fetch_dense(store, context, 0, rows, n, &o, again, 0, size, &err));
    ck_assert(!memcmp(dense, again, size));
    annb_batch b = batch_of(store, rows, n, o, false), d = batch_of(store, rows, n, o, true);
    ck_assert_uint_eq(b.matrices->nnz, one->total);
    ck_assert(!b.matrices->dense && !b.matrices->index64 && d.matrices->dense && !d.matrices->indices);
    same(one, b.matrices->indptr, b.matrices->indices, b.matrices->values, n);
    ck_assert(!memcmp(dense, d.matrices->values, size));
    annb_batch_release(&b);
    annb_batch_release(&d);
  }
  free(one);
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

/* Few rows, and none. */
START_TEST(any_number_of_rows) {
  uint64_t rows[ASKED];
  maker_csr x = maker_random(5, ROWS, COLS, PER_ROW, ANNB_F32, MAKER_SHUFFLED);
  annb_store *store = open_new(&x, 0, 0);
  maker_awkward_rows(ROWS, rows);
  for (size_t n = 0; n < 70; n++) {
    annb_fetch_options o = {.sort_indices = true};
    result *one = fetch(store, rows + ROWS, n, o);
    o.n_threads = 3;
    annb_batch b = batch_of(store, rows + ROWS, n, o, false), d = batch_of(store, rows, n, o, true);
    same(one, b.matrices->indptr, b.matrices->indices, b.matrices->values, n);
    free(one);
    annb_batch_release(&b);
    annb_batch_release(&d);
    ck_assert_ptr_null(b.owner);
    annb_batch_release(&b);
  }
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

START_TEST(the_first_failure_is_told) {
  uint64_t rows[ROWS];
  maker_csr x = maker_random(6, ROWS, COLS, PER_ROW, ANNB_F32, MAKER_SORTED);
  float *values = (float *)(void *)x.values;
  for (uint64_t i = 0; i < ROWS; i++) rows[i] = i;
  uint64_t bad = 41;
  while (x.indptr[bad + 1] == x.indptr[bad]) bad++;
  for (uint64_t i = bad; i < ROWS; i += 3)
    if (x.indptr[i + 1] > x.indptr[i]) values[x.indptr[i]] = 0.5F;
  annb_store *store = open_new(&x, 37, 16);
  annb_batch b;
  for (int i = 0; i < 200; i++) {
    annb_fetch_options o = {.dtype = ANNB_I32, .n_threads = 2 + (uint32_t)i % 5};
    FAILS(annb_fetch_batch(store, context, 0, rows, ROWS, &o, i % 2, &b, &err), ANNB_ELOSSY);
    ck_assert_int_eq(err.row, (int64_t)bad);
    ck_assert_ptr_null(b.owner);
    FAILS(annb_fetch_batch(store, context, 0, rows, ROWS, &o, i % 2, &b, NULL), ANNB_ELOSSY);
    rows[200] = ROWS + 7; /* before any row is decoded */
    FAILS(annb_fetch_batch(store, context, 0, rows, ROWS, &o, i % 2, &b, &err), ANNB_ERANGE);
    ck_assert_int_eq(err.row, ROWS + 7);
    rows[200] = 200;
    OK(annb_fetch_batch(store, context, 0, rows, 40, &o, i % 2, &b, &err));
    annb_batch_release(&b);
  }
  FAILS(annb_fetch_batch(store, context, 1, rows, 1, NULL, false, &b, &err), ANNB_ERANGE);
  FAILS(annb_fetch_batch(store, NULL, 0, rows, 1, NULL, false, &b, &err), ANNB_EINVAL);
  FAILS(annb_fetch_batch(store, context, 0, NULL, 1, NULL, false, &b, &err), ANNB_EINVAL);
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

static void *release(void *batch) {
  annb_batch_release(batch);
  return NULL;
}

START_TEST(batches_are_the_callers) {
  uint64_t rows[ASKED];
  maker_csr x = maker_random(7, ROWS, COLS, PER_ROW, ANNB_F32, MAKER_SHUFFLED);
  annb_store *store = open_new(&x, 37, 16);
  maker_awkward_rows(ROWS, rows);
  annb_fetch_options o = {.sort_indices = true, .n_threads = 3};
  result *want = fetch(store, rows + ROWS, HELD_ROWS, o);
  annb_batch held = batch_of(store, rows + ROWS, HELD_ROWS, o, false), other = batch_of(store, rows, HELD_ROWS, o, false);
  const void *memory = other.matrices->values;
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, release, &other), 0);
  pthread_join(thread, NULL);
  for (int i = 0; i < 50; i++) {
    other = batch_of(store, rows + i, HELD_ROWS - 4, o, false);
    ck_assert_ptr_eq(other.matrices->values, memory); /* what was given back serves again */
    ck_assert_ptr_ne(other.matrices->values, held.matrices->values);
    annb_batch_release(&other);
  }
  annb_batch many[8];
  for (int i = 0; i < 8; i++) many[i] = batch_of(store, rows + i, HELD_ROWS, o, false);
  for (int i = 0; i < 7; i++) annb_batch_release(&many[i]);
  annb_context_close(context);
  annb_store_close(store);
  same(want, held.matrices->indptr, held.matrices->indices, held.matrices->values, HELD_ROWS);
  annb_batch_release(&held);
  annb_batch_release(&many[7]);
  OK(annb_context_open(&context, &err));
  free(want);
  maker_free(&x);
}
END_TEST

/* ---- processes and threads ---- */

/* Rows at random on three threads: how many differ from the first row of the matrix that is expected there. */
static unsigned wrong_rows(const annb_store *store, annb_context *own, const maker_csr *x, uint64_t seed, int calls) {
  unsigned wrong = 0;
  annb_error failure;
  annb_fetch_options o = {.n_threads = 3};
  for (int i = 0; i < calls; i++) {
    uint64_t rows[HELD_ROWS];
    annb_batch b;
    for (int k = 0; k < HELD_ROWS; k++) rows[k] = maker_next(&seed) % ROWS;
    if (annb_fetch_batch(store, own, 0, rows, HELD_ROWS, &o, false, &b, &failure)) return ++wrong;
    for (int k = 0; k < HELD_ROWS; k++) {
      uint64_t from = x->indptr[rows[k]], n = x->indptr[rows[k] + 1] - from;
      const annb_batch_matrix *m = b.matrices;
      wrong += (uint64_t)(m->indptr[k + 1] - m->indptr[k]) != n ||
               memcmp((const int32_t *)m->indices + m->indptr[k], x->indices + from, n * sizeof(int32_t)) ||
               memcmp((const float *)m->values + m->indptr[k], x->values + from * sizeof(float), n * sizeof(float));
    }
    annb_batch_release(&b);
  }
  return wrong;
}

START_TEST(forked) {
  maker_csr x = maker_random(8, ROWS, COLS, PER_ROW, ANNB_F32, MAKER_SHUFFLED);
  annb_store *store = open_new(&x, 37, 16);
  ck_assert_uint_eq(wrong_rows(store, context, &x, 1, 5), 0); /* helpers and pool are there */
  for (int i = 0; i < 4; i++) {
    annb_batch held = batch_of(store, &(uint64_t){3}, 1, (annb_fetch_options){0}, false);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
      alarm(60); /* a deadlock ends the child */
      unsigned wrong = i % 2 ? 0 : wrong_rows(store, context, &x, 2, 20);
      annb_batch_release(&held);
      annb_context_close(context);
      annb_store_close(store);
      execlp(wrong ? "false" : "true", "result", (char *)NULL); /* an end that no leak checker looks at */
      _exit(2);
    }
    ck_assert_uint_eq(wrong_rows(store, context, &x, 3, 20), 0);
    annb_batch_release(&held);
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

typedef struct worker {
  pthread_t thread;
  const annb_store *store;
  const maker_csr *x;
  uint64_t seed;
  unsigned wrong;
} worker;

static void *open_fetch_close(void *user) {
  worker *w = user;
  for (int i = 0; i < 8; i++) {
    annb_context *own;
    if (annb_context_open(&own, NULL)) return NULL;
    w->wrong += wrong_rows(w->store, own, w->x, w->seed + (uint64_t)i, 1 + i % 3);
    annb_context_close(own);
  }
  return NULL;
}

START_TEST(contexts_come_and_go) {
  worker workers[4];
  maker_csr x = maker_random(9, ROWS, COLS, PER_ROW, ANNB_F32, MAKER_SHUFFLED);
  annb_store *store = open_new(&x, 10, 2);
  for (int i = 0; i < 4; i++) {
    workers[i] = (worker){.store = store, .x = &x, .seed = (uint64_t)i * 100};
    ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, open_fetch_close, &workers[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(workers[i].thread, NULL);
    ck_assert_uint_eq(workers[i].wrong, 0);
  }
  annb_store_close(store);
  maker_free(&x);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("fetch_threads");
  TCase *tc = tcase_create("fetch_threads");
  tcase_set_timeout(tc, 300);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_loop_test(tc, same_for_any_number, 0, 6);
  tcase_add_test(tc, any_number_of_rows);
  tcase_add_test(tc, the_first_failure_is_told);
  tcase_add_test(tc, batches_are_the_callers);
#if defined(__SANITIZE_THREAD__) /* it knows no threads after fork */
  (void)forked;
#else
  tcase_add_test(tc, forked);
#endif
  tcase_add_test(tc, contexts_come_and_go);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
