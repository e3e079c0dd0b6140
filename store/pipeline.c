#include "pipeline.h"

#include "thread.h"

enum { MAX_THREADS = 256, MAX_SLOTS = 1024 };

typedef struct line {
  const annb_pipeline *p;
  uint32_t n_slots;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* under the lock: items are numbered, item i is in slot i % n_slots */
  uint64_t taken, started, given;
  bool done[MAX_SLOTS];
  bool taking, giving, later, ended, stop;
} line;

typedef struct seat {
  line *line;
  uint32_t worker;
  uint64_t told; /* what the caller's thread has seen given */
} seat;

/* ---- one step of each kind: with the lock held, which is let go meanwhile; false when there is nothing of the kind to do ---- */

static bool give(line *l) {
  if (l->giving || l->given == l->started || !l->done[l->given % l->n_slots]) return false;
  const uint32_t slot = (uint32_t)(l->given % l->n_slots);
  l->giving = true;
  pthread_mutex_unlock(&l->lock);
  const bool go_on = l->p->give(l->p->user, slot);
  pthread_mutex_lock(&l->lock);
  l->giving = l->later = l->done[slot] = false;
  l->given++;
  if (!go_on) l->stop = true;
  pthread_cond_broadcast(&l->changed);
  return true;
}

static bool take(line *l) {
  if (l->taking || l->later || l->ended || l->taken - l->given == l->n_slots) return false;
  const uint32_t slot = (uint32_t)(l->taken % l->n_slots);
  const uint64_t given = l->given;
  l->taking = true;
  pthread_mutex_unlock(&l->lock);
  const annb_take t = l->p->take(l->p->user, slot);
  pthread_mutex_lock(&l->lock);
  l->taking = false;
  if (t == ANNB_TAKEN) l->taken++;
  else if (t == ANNB_END) l->ended = true;
  else l->later = given == l->given; /* what was given meanwhile may be what it waits for */
  pthread_cond_broadcast(&l->changed);
  return true;
}

static bool work(line *l, uint32_t worker) {
  if (l->started == l->taken) return false;
  const uint32_t slot = (uint32_t)(l->started++ % l->n_slots);
  pthread_mutex_unlock(&l->lock);
  l->p->work(l->p->user, worker, slot);
  pthread_mutex_lock(&l->lock);
  l->done[slot] = true;
  pthread_cond_broadcast(&l->changed);
  return true;
}

static void watch(line *l, seat *me) {
  const uint64_t given = l->given;
  if (me->worker || !l->p->watch || me->told == given) return;
  me->told = given;
  pthread_mutex_unlock(&l->lock);
  const bool go_on = l->p->watch(l->p->user, given);
  pthread_mutex_lock(&l->lock);
  if (!go_on) l->stop = true;
}

/* ---- the threads ---- */

static void *run(void *argument) {
  seat *me = argument;
  line *l = me->line;
  pthread_mutex_lock(&l->lock);
  for (;;) {
    watch(l, me);
    if (l->stop || (l->ended && l->given == l->taken)) break;
    const bool low = l->taken - l->started < l->p->n_threads; /* before the others run out of work */
    if (!give(l) && !(low && take(l)) && !work(l, me->worker) && !take(l)) pthread_cond_wait(&l->changed, &l->lock);
  }
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

void annb_pipeline_run(const annb_pipeline *pipeline) {
  line l = {.p = pipeline, .n_slots = pipeline->n_slots < MAX_SLOTS ? pipeline->n_slots : MAX_SLOTS};
  pthread_t threads[MAX_THREADS];
  seat seats[MAX_THREADS];
  const uint32_t n = pipeline->n_threads < MAX_THREADS ? pipeline->n_threads : MAX_THREADS;
  uint32_t started = 0;
  pthread_mutex_init(&l.lock, NULL);
  pthread_cond_init(&l.changed, NULL);
  for (uint32_t i = 1; i < n; i++) {
    seats[i] = (seat){&l, i, 0};
    if (!annb_thread_start(&threads[i], run, &seats[i])) break;
    started = i;
  }
  seats[0] = (seat){&l, 0, 0};
  run(&seats[0]);
  for (uint32_t i = 1; i <= started; i++) pthread_join(threads[i], NULL);
  pthread_cond_destroy(&l.changed);
  pthread_mutex_destroy(&l.lock);
}
