#include "parallel.h"

#include "../../store/error.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct run {
  const annb_parallel *p;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t begun, taken; /* units */
  bool ended, stopped;   /* no more units; nobody wants them */
  bool *done;            /* by slot */
  annb_status *status;
  annb_error *errors;
} run;

typedef struct worker {
  run *run;
  uint32_t number;
  pthread_t thread;
} worker;

/* The slot of a new unit, when there is one. With the lock held. */
static bool begin(run *r, uint32_t *slot) {
  while (!r->stopped && !r->ended && r->begun - r->taken >= r->p->n_slots) pthread_cond_wait(&r->changed, &r->lock);
  if (r->stopped || r->ended) return false;
  bool more = false;
  *slot = (uint32_t)(r->begun % r->p->n_slots);
  annb_status s = r->p->next(r->p->user, *slot, &more, &r->errors[*slot]);
  if (s || !more) r->ended = true;
  if (s) { /* a unit that has failed */
    r->status[*slot] = s;
    r->done[*slot] = true;
    r->begun++;
  }
  if (!s && more) r->begun++;
  else pthread_cond_broadcast(&r->changed);
  return !s && more;
}

static void *work(void *user) {
  worker *w = user;
  run *r = w->run;
  uint32_t slot;
  pthread_mutex_lock(&r->lock);
  while (begin(r, &slot)) {
    pthread_mutex_unlock(&r->lock);
    annb_status s = r->p->work(r->p->user, w->number, slot, &r->errors[slot]);
    pthread_mutex_lock(&r->lock);
    r->status[slot] = s;
    r->done[slot] = true;
    pthread_cond_broadcast(&r->changed);
  }
  pthread_mutex_unlock(&r->lock);
  return NULL;
}

static annb_status take_all(run *r, annb_error *err) {
  annb_status s = ANNB_OK;
  pthread_mutex_lock(&r->lock);
  for (;;) {
    const uint32_t slot = (uint32_t)(r->taken % r->p->n_slots);
    while (!(r->taken < r->begun && r->done[slot]) && !(r->ended && r->taken == r->begun)) pthread_cond_wait(&r->changed, &r->lock);
    if (r->taken == r->begun) break;
    pthread_mutex_unlock(&r->lock);
    s = r->status[slot];
    if (s && err) *err = r->errors[slot];
    if (!s) s = r->p->take(r->p->user, slot, err);
    pthread_mutex_lock(&r->lock);
    r->done[slot] = false;
    r->taken++;
    if (s) r->stopped = true;
    pthread_cond_broadcast(&r->changed);
    if (s) break;
  }
  pthread_mutex_unlock(&r->lock);
  return s;
}

/* Signals are for the threads of the program. */
static uint32_t start(run *r, worker *workers) {
  sigset_t all, old;
  uint32_t n = 0;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &old);
  for (; n < r->p->n_threads; n++) {
    workers[n] = (worker){.run = r, .number = n};
    if (pthread_create(&workers[n].thread, NULL, work, &workers[n])) break;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return n;
}

annb_status annb_parallel_run(const annb_parallel *p, annb_error *err) {
  run r = {.p = p};
  r.done = calloc(p->n_slots, sizeof *r.done);
  r.status = calloc(p->n_slots, sizeof *r.status);
  r.errors = calloc(p->n_slots, sizeof *r.errors);
  worker *workers = calloc(p->n_threads, sizeof *workers);
  annb_status s = r.done && r.status && r.errors && workers ? ANNB_OK : annb_fail_memory(err);
  if (!s) {
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.changed, NULL);
    uint32_t n = start(&r, workers);
    s = n ? take_all(&r, err) : annb_fail(err, ANNB_ENOMEM, NULL, "no thread can be started");
    for (uint32_t i = 0; i < n; i++) pthread_join(workers[i].thread, NULL);
    pthread_cond_destroy(&r.changed);
    pthread_mutex_destroy(&r.lock);
  }
  free(r.done);
  free(r.status);
  free(r.errors);
  free(workers);
  return s;
}

uint32_t annb_parallel_threads(uint32_t n) {
  long processors = n ? (long)n : sysconf(_SC_NPROCESSORS_ONLN);
  return processors < 1 ? 1 : processors > 1024 ? 1024 : (uint32_t)processors;
}
