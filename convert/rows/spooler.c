#include "spooler.h"

#include "../../store/error.h"
#include "../../store/io.h"
#include "../../store/thread.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
  uint8_t *block;
  size_t bytes;
} job;

struct annb_spooler {
  char *dir;
  int fd;
  uint64_t end; /* of the file once all is written */
  pthread_t thread;
  bool threaded, tried;

  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* under the lock */
  uint8_t *spares[ANNB_SPOOLER_SPARES];
  size_t n_spares;
  job jobs[ANNB_SPOOLER_SPARES]; /* a ring */
  size_t first, n_jobs;          /* the job being written counts until it is done */
  bool stop;
  annb_status status;
  annb_error error;
};

annb_status annb_spooler_open(const char *dir, annb_spooler **out, annb_error *err) {
  annb_spooler *s = calloc(1, sizeof *s);
  *out = NULL;
  if (!s) return annb_fail_memory(err);
  s->fd = -1;
  s->dir = strdup(dir);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  if (s->dir) *out = s;
  else annb_spooler_close(s);
  return *out ? ANNB_OK : annb_fail_memory(err);
}

void annb_spooler_close(annb_spooler *s) {
  if (!s) return;
  pthread_mutex_lock(&s->lock);
  s->stop = true;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
  if (s->threaded) pthread_join(s->thread, NULL);
  pthread_cond_destroy(&s->changed);
  pthread_mutex_destroy(&s->lock);
  if (s->fd >= 0) annb_io_close(s->fd, s->dir, NULL);
  free(s->dir);
  free(s);
}

void annb_spooler_set_spares(annb_spooler *s, uint8_t *const *spares, size_t n) {
  pthread_mutex_lock(&s->lock);
  s->n_spares = n < ANNB_SPOOLER_SPARES ? n : ANNB_SPOOLER_SPARES;
  memcpy(s->spares, spares, s->n_spares * sizeof *spares);
  pthread_mutex_unlock(&s->lock);
}

/* ---- the writing thread ---- */

static void *run(void *argument) {
  annb_spooler *s = argument;
  pthread_mutex_lock(&s->lock);
  for (;;) {
    while (!s->n_jobs && !s->stop) pthread_cond_wait(&s->changed, &s->lock);
    if (s->stop) break;
    const job j = s->jobs[s->first];
    const bool failed = s->status != ANNB_OK; /* then the rest is not written any more */
    pthread_mutex_unlock(&s->lock);
    annb_error error = {0};
    annb_status status = failed ? ANNB_OK : annb_io_write(s->fd, s->dir, j.block, j.bytes, &error);
    pthread_mutex_lock(&s->lock);
    if (status) {
      s->status = status;
      s->error = error;
    }
    s->spares[s->n_spares++] = j.block;
    s->first = (s->first + 1) % ANNB_SPOOLER_SPARES;
    s->n_jobs--;
    pthread_cond_broadcast(&s->changed);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

/* ---- the caller ---- */

static annb_status result(const annb_spooler *s, annb_error *err) {
  if (s->status && err) *err = s->error;
  return s->status;
}

static annb_status begin(annb_spooler *s, annb_error *err) {
  annb_status status = s->fd < 0 ? annb_io_anonymous(s->dir, &s->fd, err) : ANNB_OK;
  if (!status && !s->tried) s->threaded = annb_thread_start(&s->thread, run, s);
  s->tried = true;
  return status;
}

annb_status annb_spooler_write(annb_spooler *s, uint8_t **block, size_t bytes, uint64_t *offset, annb_error *err) {
  annb_status status = begin(s, err);
  if (status) return status;
  *offset = s->end;
  s->end += bytes;
  pthread_mutex_lock(&s->lock);
  if (s->threaded && s->n_spares + s->n_jobs) {
    while (!s->n_spares) pthread_cond_wait(&s->changed, &s->lock);
    s->jobs[(s->first + s->n_jobs++) % ANNB_SPOOLER_SPARES] = (job){*block, bytes};
    *block = s->spares[--s->n_spares];
    status = result(s, err);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return status;
  }
  pthread_mutex_unlock(&s->lock);
  return annb_io_write(s->fd, s->dir, *block, bytes, err);
}

annb_status annb_spooler_wait(annb_spooler *s, annb_error *err) {
  pthread_mutex_lock(&s->lock);
  while (s->n_jobs) pthread_cond_wait(&s->changed, &s->lock);
  annb_status status = result(s, err);
  pthread_mutex_unlock(&s->lock);
  return status;
}

annb_status annb_spooler_read(const annb_spooler *s, void *out, size_t bytes, uint64_t offset, annb_error *err) {
  return annb_io_pread(s->fd, s->dir, out, bytes, offset, err);
}
