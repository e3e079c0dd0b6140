/* Two sets of buffers: the reader fills one, the caller has the other; they are traded when both are done. */
#include "ahead.h"

#include "../../store/error.h"
#include "rows_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct annb_ahead {
  annb_rows *rows;
  annb_rows_options options; /* the caller's */
  annb_ahead_fn look;
  void *user;
  pthread_t thread;
  bool threaded;

  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* under the lock */
  bool ready, taken, stop; /* ready: the slot below is the caller's; taken: and was given to it */
  bool told;               /* there is progress to report */
  const char *stage;
  uint64_t done, total;

  /* the slot; whose it is, `ready` says */
  annb_rows_buffers buffers;
  uint64_t *indptr, n_rows;
  annb_status status;
  annb_error error;
};

/* ---- the reading thread ---- */

static bool report(void *user, const char *stage, uint64_t done, uint64_t total) {
  annb_ahead *a = user;
  if (!a->threaded) return !a->options.progress || a->options.progress(a->options.user, stage, done, total);
  pthread_mutex_lock(&a->lock);
  a->stage = stage;
  a->done = done;
  a->total = total;
  a->told = true;
  bool go_on = !a->stop;
  pthread_cond_broadcast(&a->changed);
  pthread_mutex_unlock(&a->lock);
  return go_on;
}

static annb_status next(annb_ahead *a, annb_rows_chunk *chunk, annb_error *err) {
  annb_status s = annb_rows_next(a->rows, chunk, err);
  return s || !a->look || !chunk->n_rows ? s : a->look(a->user, chunk, err);
}

/* Wait until the slot is the reader's again; false when there is to be no more. */
static bool wait_for_slot(annb_ahead *a) {
  pthread_mutex_lock(&a->lock);
  while (a->ready && !a->stop) pthread_cond_wait(&a->changed, &a->lock);
  bool go_on = !a->stop;
  pthread_mutex_unlock(&a->lock);
  return go_on;
}

static void *run(void *argument) {
  annb_ahead *a = argument;
  annb_h5_quiet quiet = annb_h5_quiet_begin(); /* HDF5 may keep that for each thread */
  for (bool last = false; !last;) {
    annb_rows_chunk chunk = {0};
    annb_error error = {0};
    annb_status s = next(a, &chunk, &error);
    last = s || chunk.n_rows == 0;
    if (!wait_for_slot(a)) break;
    a->status = s;
    a->error = error;
    a->n_rows = s ? 0 : chunk.n_rows;
    if (a->n_rows) memcpy(a->indptr, chunk.indptr, (a->n_rows + 1) * sizeof *a->indptr);
    annb_rows_trade(a->rows, &a->buffers);
    pthread_mutex_lock(&a->lock);
    a->ready = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
  }
  annb_h5_quiet_end(quiet);
  return NULL;
}

/* ---- the caller ---- */

annb_status annb_ahead_open(const annb_source_matrix *m, const annb_rows_options *options, annb_ahead_fn look, void *user, annb_ahead **out,
                            annb_error *err) {
  annb_ahead *a = calloc(1, sizeof *a);
  *out = NULL;
  if (!a) return annb_fail_memory(err);
  a->options = *options;
  a->look = look;
  a->user = user;
  a->indptr = malloc((ANNB_ROWS_MAX + 1) * sizeof *a->indptr);
  pthread_mutex_init(&a->lock, NULL);
  pthread_cond_init(&a->changed, NULL);
  annb_rows_options own = *options;
  own.progress = report;
  own.user = a;
  annb_status s = a->indptr ? annb_rows_open(m, &own, &a->rows, err) : annb_fail_memory(err);
  if (!s) {
    a->threaded = true;
    if (pthread_create(&a->thread, NULL, run, a)) a->threaded = false; /* then the caller reads */
    *out = a;
  } else {
    annb_ahead_close(a);
  }
  return s;
}

static annb_status canceled(const annb_ahead *a, annb_error *err) {
  return annb_fail(err, ANNB_ECANCELED, a->rows->m->file, "packing was cancelled");
}

/* With the lock held: pass on what the reader reported, without it. */
static bool pass_on(annb_ahead *a) {
  const char *stage = a->stage;
  uint64_t done = a->done, total = a->total;
  a->told = false;
  pthread_mutex_unlock(&a->lock);
  bool go_on = !a->options.progress || a->options.progress(a->options.user, stage, done, total);
  pthread_mutex_lock(&a->lock);
  return go_on;
}

annb_status annb_ahead_next(annb_ahead *a, annb_rows_chunk *chunk, annb_error *err) {
  if (!a->threaded) return next(a, chunk, err);
  bool go_on = true;
  pthread_mutex_lock(&a->lock);
  if (a->taken) a->ready = false; /* the chunk before is done with */
  a->taken = false;
  pthread_cond_broadcast(&a->changed);
  while (go_on && (a->told || !a->ready)) { /* what was reported before a chunk comes before it, so that stopping is never late */
    if (a->told) go_on = pass_on(a);
    else pthread_cond_wait(&a->changed, &a->lock);
  }
  a->taken = a->ready;
  pthread_mutex_unlock(&a->lock);
  if (!go_on) return canceled(a, err);
  if (a->status && err) *err = a->error;
  *chunk = (annb_rows_chunk){a->n_rows, a->indptr, a->buffers.indices, a->buffers.values};
  return a->status;
}

bool annb_ahead_unordered(const annb_ahead *a) { return annb_rows_unordered(a->rows); }

void annb_ahead_close(annb_ahead *a) {
  if (!a) return;
  pthread_mutex_lock(&a->lock);
  a->stop = true;
  pthread_cond_broadcast(&a->changed);
  pthread_mutex_unlock(&a->lock);
  if (a->threaded) pthread_join(a->thread, NULL);
  pthread_cond_destroy(&a->changed);
  pthread_mutex_destroy(&a->lock);
  annb_rows_close(a->rows);
  free(a->buffers.indices);
  free(a->buffers.values);
  free(a->indptr);
  free(a);
}
