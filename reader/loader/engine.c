/* Threads: one plans units (fetches) ahead, some decode batches into a ring, the consumer takes them in order. */
#include "loader_internal.h"

#include "../../store/error.h"
#include "../../store/thread.h"

#include <stdlib.h>
#include <time.h>

typedef struct ring_place {
  annb_slot *slot; /* ready when not NULL */
  uint64_t bytes;  /* of its records */
} ring_place;

struct annb_engine {
  annb_loader *loader;
  pthread_mutex_t lock;
  pthread_cond_t planner_wake, decoder_wake, consumer_wake;
  bool stop;
  annb_unit units[ANNB_LOADER_UNITS];
  uint64_t planned; /* steps before it are in units that are ready, or done */
  uint64_t taken;   /* the next step to decode */
  uint64_t given;   /* the next step for the consumer */
  uint64_t first;   /* its first */
  uint64_t n_steps, n_ring;
  ring_place *ring;
  annb_window window;
  annb_unit *before; /* the planner's: not finished */
  uint64_t failed; /* the first step that failed, or UINT64_MAX */
  annb_error failure;
  uint64_t bytes_read, bytes_decoded;
  uint32_t n_idle; /* decoders that wait */
  bool waiting;    /* the consumer, which was not woken yet */
  bool enters;     /* the planner fills the page table: decoders leave it a processor */
  annb_planner planner;
  pthread_t planning, *decoding;
  uint32_t n_decoding;
  bool has_planner;
};

/* With the lock. */
static void fail_at(annb_engine *e, uint64_t step, const annb_error *err) {
  if (step >= e->failed) return;
  e->failed = step;
  e->failure = *err;
  pthread_cond_signal(&e->consumer_wake);
}

/* ---- planning ---- */

/* Steps from `step` on that are planned together. The very first batch goes alone, so that it need not wait for its whole fetch. */
static uint64_t unit_end(const annb_engine *e, uint64_t step, bool first) {
  uint64_t end;
  annb_plan_batch(e->loader->plan, step, NULL, &end);
  if (first) return step + 1;
  return end - step > e->window.n_steps ? step + e->window.n_steps : end;
}

/* With the lock: whether as many units have records as may. */
static bool full(const annb_engine *e) {
  uint32_t n = 0;
  for (int i = 0; i < ANNB_LOADER_UNITS; i++) n += e->units[i].state >= ANNB_UNIT_WAITING;
  return n >= e->window.n_units;
}

static void wait_for_room(annb_engine *e) {
  while (!e->stop && full(e)) pthread_cond_wait(&e->planner_wake, &e->lock);
}

/* With the lock: make the unit before ready, if there is one. */
static void finish_before(annb_engine *e) {
  annb_unit *unit = e->before;
  e->before = NULL;
  if (!unit) return;
  if (unit->state == ANNB_UNIT_ROWS) wait_for_room(e);
  if (e->stop) return;
  pthread_mutex_unlock(&e->lock);
  annb_unit_finish(&e->planner, unit);
  pthread_mutex_lock(&e->lock);
  unit->state = ANNB_UNIT_READY;
  e->planned = unit->end;
  e->bytes_read = e->planner.bytes_read;
  pthread_cond_broadcast(&e->decoder_wake);
  if (!e->enters) return;
  pthread_mutex_unlock(&e->lock);
  annb_unit_enter(&e->planner, unit);
  pthread_mutex_lock(&e->lock);
}

/* With the lock: the first that no unit uses; there is one, for there are as many as units may have records. */
static annb_slot_buffer *free_arena(annb_engine *e) {
  for (int i = 0; i < ANNB_LOADER_ARENAS; i++) {
    bool used = false;
    for (int k = 0; k < ANNB_LOADER_UNITS; k++)
      used = used || (e->units[k].state >= ANNB_UNIT_WAITING && e->units[k].arenas == e->planner.arenas[i]);
    if (!used) return e->planner.arenas[i];
  }
  return NULL;
}

/* With the lock: PREAD begins to read the records now, behind those of the unit before; MMAP asks for them when the index pages had the
 * time to come. */
static void begin_unit(annb_engine *e, annb_unit *unit) {
  if (e->loader->access == ANNB_ACCESS_MMAP) return;
  if (full(e)) finish_before(e);
  wait_for_room(e);
  if (e->stop) return;
  unit->arenas = free_arena(e);
  unit->state = ANNB_UNIT_WAITING;
  pthread_mutex_unlock(&e->lock);
  annb_unit_begin(&e->planner, unit);
  pthread_mutex_lock(&e->lock);
}

/* With the lock: wait until a unit is free. */
static annb_unit *free_unit(annb_engine *e, uint64_t k) {
  annb_unit *unit = &e->units[k % ANNB_LOADER_UNITS];
  while (!e->stop && unit->state != ANNB_UNIT_FREE) pthread_cond_wait(&e->planner_wake, &e->lock);
  return unit;
}

static void *plan(void *user) {
  annb_engine *e = user;
  pthread_mutex_lock(&e->lock);
  uint64_t step = e->given, first = step;
  uint64_t k = 0;
  for (; !e->stop && step < e->n_steps; k++) {
    annb_unit *unit = free_unit(e, k);
    if (e->stop) break;
    uint64_t end = unit_end(e, step, step == first);
    unit->state = ANNB_UNIT_ROWS;
    pthread_mutex_unlock(&e->lock);
    annb_unit_rows(&e->planner, unit, step, end);
    pthread_mutex_lock(&e->lock);
    begin_unit(e, unit);
    finish_before(e);
    e->before = unit;
    if (step == first) finish_before(e);
    step = end;
  }
  finish_before(e);
  pthread_mutex_unlock(&e->lock);
  return NULL;
}

/* ---- decoding ---- */

static annb_unit *unit_of(annb_engine *e, uint64_t step) {
  for (uint32_t i = 0; i < ANNB_LOADER_UNITS; i++)
    if (e->units[i].state == ANNB_UNIT_READY && step >= e->units[i].first && step < e->units[i].end) return &e->units[i];
  return NULL; /* not reached: planned steps are in units */
}

enum { MANY_FAULTS = 8, ASK_AGAIN = 64, MANY_READY = 3, MANY_BYTES = 1 << 18 };

/* A decoding thread. */
typedef struct decoder {
  annb_context *context;
  uint64_t faults;
  uint32_t n_ask; /* so many batches are asked for again: of those before, pages had been dropped */
} decoder;

/* With little memory to spare pages that were asked for can be gone: waiting for each by itself is slower by far than for all. */
static void watch_faults(decoder *d) {
  uint64_t faults = annb_io_faults();
  if (faults - d->faults >= MANY_FAULTS) d->n_ask = ASK_AGAIN;
  d->faults = faults;
}

static annb_status decode(annb_engine *e, const annb_unit *unit, uint64_t step, decoder *d, annb_slot **slot, uint64_t *bytes,
                          annb_error *err) {
  if (step >= unit->failed) {
    *err = unit->failure;
    return err->status;
  }
  *slot = annb_pool_get(e->loader->pool);
  if (!*slot) return annb_fail_memory(err);
  if (d->n_ask) {
    d->n_ask--;
    annb_pages_ask_again(e->loader, unit, step);
  }
  annb_status s = annb_decode_batch(e->loader, unit, step, d->context, *slot, bytes, err);
  if (e->loader->access == ANNB_ACCESS_MMAP) watch_faults(d);
  return s;
}

/* With the lock: whether the consumer has something to wake for. */
static bool must_wake(const annb_engine *e) { return e->waiting && e->ring[e->given % e->n_ring].slot; }

/* With the lock. Waking takes as long as decoding some rows, so for small batches the consumer is woken when there are a few, but for the
 * first at once. A decoder that has nothing to do wakes it for what there is. */
static bool many_ready(const annb_engine *e) {
  uint64_t n = 0, bytes = 0;
  for (; n < MANY_READY && n < e->n_ring && e->ring[(e->given + n) % e->n_ring].slot; n++)
    bytes += e->ring[(e->given + n) % e->n_ring].bytes;
  return n == MANY_READY || bytes >= MANY_BYTES || e->given == e->first;
}

/* With the lock, which the consumer does not have to wait for when it wakes. */
static void wake_consumer(annb_engine *e) {
  e->waiting = false;
  pthread_mutex_unlock(&e->lock);
  pthread_cond_signal(&e->consumer_wake);
  pthread_mutex_lock(&e->lock);
}

/* With the lock: decode the next step. */
static void decode_next(annb_engine *e, decoder *d) {
  uint64_t step = e->taken++, bytes = 0;
  annb_unit *unit = unit_of(e, step);
  annb_slot *slot = NULL;
  annb_error err;
  pthread_mutex_unlock(&e->lock);
  annb_status s = decode(e, unit, step, d, &slot, &bytes, &err);
  if (s && slot) annb_slot_give_back(slot);
  pthread_mutex_lock(&e->lock);
  if (s) fail_at(e, step, &err);
  else e->ring[step % e->n_ring] = (ring_place){slot, bytes};
  e->bytes_decoded += bytes;
  if (--unit->left == 0) {
    unit->state = ANNB_UNIT_FREE;
    pthread_cond_signal(&e->planner_wake);
  }
  if (must_wake(e) && many_ready(e)) wake_consumer(e);
}

static void *decode_all(void *user) {
  annb_engine *e = user;
  decoder d = {.faults = annb_io_faults()};
  annb_error err;
  annb_status s = annb_context_open(&d.context, &err);
  pthread_mutex_lock(&e->lock);
  if (s) fail_at(e, e->given, &err);
  while (!s && !e->stop) {
    bool ready = e->taken < e->planned && e->taken < e->given + e->n_ring && e->taken < e->failed;
    if (ready) {
      decode_next(e, &d);
      continue;
    }
    if (must_wake(e)) {
      wake_consumer(e);
      continue;
    }
    e->n_idle++;
    pthread_cond_wait(&e->decoder_wake, &e->lock);
    e->n_idle--;
  }
  pthread_mutex_unlock(&e->lock);
  annb_context_close(d.context);
  return NULL;
}

/* ---- start and stop ---- */

static void init_lock(annb_engine *e) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_mutex_init(&e->lock, NULL);
  pthread_cond_init(&e->planner_wake, NULL);
  pthread_cond_init(&e->decoder_wake, NULL);
  pthread_cond_init(&e->consumer_wake, &attr);
  pthread_condattr_destroy(&attr);
}

static annb_status no_thread(annb_error *err) {
  return annb_fail(err, ANNB_ENOMEM, NULL, "cannot start a thread: too many, or too little memory");
}

static annb_status start_threads(annb_engine *e, annb_error *err) {
  const annb_loader_options *o = &e->loader->options;
  annb_status s = ANNB_OK;
  if (e->loader->access == ANNB_ACCESS_PREAD) s = annb_reads_open(o->n_io_threads, &e->planner.reads, err);
  if (!s && !annb_thread_start(&e->planning, plan, e)) s = no_thread(err);
  e->has_planner = !s;
  while (!s && e->n_decoding < o->n_threads && annb_thread_start(&e->decoding[e->n_decoding], decode_all, e)) e->n_decoding++;
  return s || e->n_decoding ? s : no_thread(err);
}

annb_status annb_engine_start(annb_loader *loader, annb_error *err) {
  annb_engine *e = calloc(1, sizeof *e);
  if (!e) return annb_fail_memory(err);
  init_lock(e);
  e->loader = loader;
  e->n_ring = loader->options.n_ring;
  e->n_steps = loader->n_steps;
  e->planned = e->taken = e->given = e->first = loader->step;
  e->failed = UINT64_MAX;
  e->planner.loader = loader;
  e->enters = loader->access == ANNB_ACCESS_MMAP && annb_io_processors() > loader->options.n_threads;
  e->window = annb_window_for(loader, annb_io_memory_limit());
  e->ring = calloc((size_t)e->n_ring, sizeof *e->ring);
  e->decoding = calloc(loader->options.n_threads, sizeof *e->decoding);
  annb_status s = e->ring && e->decoding ? ANNB_OK : annb_fail_memory(err);
  if (!s) s = annb_picker_open(loader->sampler, &e->planner.picker, err);
  loader->engine = e;
  if (!s) s = start_threads(e, err);
  if (s) annb_engine_stop(loader);
  else loader->process = annb_io_process();
  return s;
}

void annb_engine_stop(annb_loader *loader) {
  annb_engine *e = loader->engine;
  if (!e) return;
  pthread_mutex_lock(&e->lock);
  e->stop = true;
  pthread_cond_broadcast(&e->planner_wake);
  pthread_cond_broadcast(&e->decoder_wake);
  pthread_mutex_unlock(&e->lock);
  annb_reads_cancel(e->planner.reads);
  if (e->has_planner) pthread_join(e->planning, NULL);
  for (uint32_t i = 0; i < e->n_decoding; i++) pthread_join(e->decoding[i], NULL);
  annb_reads_close(e->planner.reads);
  annb_pages_end(loader);
  annb_picker_close(e->planner.picker);
  for (uint64_t i = 0; e->ring && i < e->n_ring; i++)
    if (e->ring[i].slot) annb_slot_give_back(e->ring[i].slot);
  for (uint32_t i = 0; i < ANNB_LOADER_UNITS; i++) annb_unit_free(&e->units[i]);
  loader->bytes_read += e->planner.bytes_read;
  loader->bytes_decoded += e->bytes_decoded;
  pthread_mutex_destroy(&e->lock);
  pthread_cond_destroy(&e->planner_wake);
  pthread_cond_destroy(&e->decoder_wake);
  pthread_cond_destroy(&e->consumer_wake);
  free(e->planner.spans.data);
  free(e->planner.pages.data);
  free(e->planner.index.room.data);
  for (uint32_t i = 0; i < ANNB_LOADER_ARENAS; i++)
    for (uint32_t j = 0; j < loader->n_matrices; j++) free(e->planner.arenas[i][j].data);
  free(e->ring);
  free(e->decoding);
  free(e);
  loader->engine = NULL;
}

/* ---- the consumer ---- */

static struct timespec deadline_in(int64_t milliseconds) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_sec += (time_t)(milliseconds / 1000);
  t.tv_nsec += (long)(milliseconds % 1000) * 1000000;
  if (t.tv_nsec >= 1000000000) {
    t.tv_sec++;
    t.tv_nsec -= 1000000000;
  }
  return t;
}

bool annb_engine_wait(annb_engine *e, int64_t milliseconds) {
  struct timespec deadline = deadline_in(milliseconds < 0 ? 0 : milliseconds);
  int timed_out = 0;
  bool there;
  pthread_mutex_lock(&e->lock);
  while (there = e->ring[e->given % e->n_ring].slot || e->failed <= e->given, !there && !timed_out) {
    e->waiting = true;
    if (milliseconds < 0) pthread_cond_wait(&e->consumer_wake, &e->lock);
    else timed_out = pthread_cond_timedwait(&e->consumer_wake, &e->lock, &deadline);
  }
  e->waiting = false;
  pthread_mutex_unlock(&e->lock);
  return there;
}

annb_status annb_engine_take(annb_engine *e, annb_slot **slot, annb_error *err) {
  annb_status s = ANNB_OK;
  bool wake = false;
  pthread_mutex_lock(&e->lock);
  if (e->failed <= e->given) {
    s = e->failure.status;
    if (err) *err = e->failure;
  } else {
    *slot = e->ring[e->given % e->n_ring].slot;
    e->ring[e->given % e->n_ring].slot = NULL;
    e->given++;
    wake = e->n_idle > 0;
  }
  pthread_mutex_unlock(&e->lock);
  if (wake) pthread_cond_signal(&e->decoder_wake);
  return s;
}

void annb_engine_bytes(annb_engine *e, uint64_t *read, uint64_t *decoded) {
  pthread_mutex_lock(&e->lock);
  *read += e->bytes_read;
  *decoded += e->bytes_decoded;
  pthread_mutex_unlock(&e->lock);
}
