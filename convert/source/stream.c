#include "stream.h"

#include "../../store/error.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef enum chunk_state { WAITING, BUSY, READY } chunk_state;

typedef struct chunk {
  struct chunk *next; /* among the spare ones */
  uint64_t number;
  uint8_t *raw, *values; /* values: NULL when they went straight to their only piece */
  uint64_t raw_room, n;
  uint32_t skipped, users; /* users: pieces that will read it, and the stream itself when the next piece may */
  chunk_state state;
  annb_unfilter_result result;
} chunk;

struct annb_stream {
  const annb_values *v;
  hid_t memory_type;
  bool direct, contiguous;
  uint64_t height; /* values in a chunk */
  size_t size;
  annb_unfilter *unfilters; /* one per worker */
  uint32_t n_workers;

  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* under the lock */
  chunk **live; /* ascending; those before first_live are done with */
  size_t first_live, n_live, room;
  chunk *held; /* the stream's own */
  chunk *spare;
};

annb_status annb_stream_open(const annb_values *v, hid_t memory_type, uint32_t n_workers, annb_stream **out, annb_error *err) {
  annb_stream *s = calloc(1, sizeof *s);
  *out = NULL;
  if (!s) return annb_fail_memory(err);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  s->v = v;
  s->memory_type = memory_type;
  s->size = H5Tget_size(memory_type);
  s->direct = v->direct && H5Tequal(v->type, memory_type) > 0;
  s->contiguous = s->direct && annb_direct_is_contiguous(v->direct);
  s->height = s->direct ? annb_direct_chunk_rows(v->direct) : 0;
  s->n_workers = n_workers ? n_workers : 1;
  s->unfilters = calloc(s->n_workers, sizeof *s->unfilters);
  if (s->unfilters) *out = s;
  else annb_stream_close(s);
  return *out ? ANNB_OK : annb_fail_memory(err);
}

static void free_chunk(chunk *c) {
  free(c->raw);
  free(c->values);
  free(c);
}

void annb_stream_close(annb_stream *s) {
  if (!s) return;
  for (size_t i = s->first_live; i < s->n_live; i++) free_chunk(s->live[i]);
  for (chunk *c = s->spare, *next; c; c = next) {
    next = c->next;
    free_chunk(c);
  }
  for (uint32_t i = 0; s->unfilters && i < s->n_workers; i++) annb_unfilter_free(&s->unfilters[i]);
  free(s->unfilters);
  free(s->live);
  pthread_cond_destroy(&s->changed);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

/* ---- with the lock held ---- */

static chunk *find(const annb_stream *s, uint64_t number) {
  size_t low = s->first_live, end = s->n_live;
  while (low < end) {
    const size_t middle = low + (end - low) / 2;
    if (s->live[middle]->number < number) low = middle + 1;
    else end = middle;
  }
  return low < s->n_live && s->live[low]->number == number ? s->live[low] : NULL;
}

/* One user less; chunks in front that have none are spare. */
static void leave(annb_stream *s, chunk *c) {
  c->users--;
  for (; s->first_live < s->n_live && !s->live[s->first_live]->users; s->first_live++) {
    chunk *done = s->live[s->first_live];
    done->next = s->spare;
    s->spare = done;
  }
  if (s->first_live == s->n_live) s->first_live = s->n_live = 0;
}

static bool append(annb_stream *s, chunk *c) {
  if (s->n_live == s->room && s->first_live > s->room / 2) {
    memmove(s->live, s->live + s->first_live, (s->n_live - s->first_live) * sizeof(chunk *));
    s->n_live -= s->first_live;
    s->first_live = 0;
  }
  if (s->n_live == s->room) {
    const size_t room = s->room ? 2 * s->room : 64;
    chunk **more = realloc(s->live, room * sizeof(chunk *));
    if (!more) return false;
    s->live = more;
    s->room = room;
  }
  s->live[s->n_live++] = c;
  return true;
}

/* Decompress a waiting chunk, to `out` or to memory of its own. The lock is let go meanwhile. */
static void decompress(annb_stream *s, uint32_t worker, chunk *c, uint8_t *out) {
  c->state = BUSY;
  pthread_mutex_unlock(&s->lock);
  if (!out && !c->values) c->values = malloc(annb_direct_chunk_bytes(s->v->direct));
  uint8_t *to = out ? out : c->values;
  c->result = to ? annb_direct_decompress(s->v->direct, &s->unfilters[worker], c->skipped, c->raw, c->n, to) : ANNB_UNFILTER_MEMORY;
  pthread_mutex_lock(&s->lock);
  c->state = READY;
  pthread_cond_broadcast(&s->changed);
}

/* Another thread is at it: decompress one that comes later meanwhile, if there is one. */
static void wait_for(annb_stream *s, uint32_t worker, const chunk *c) {
  while (c->state == BUSY) {
    chunk *other = NULL;
    for (size_t i = s->first_live; i < s->n_live && !other; i++)
      if (s->live[i]->users && s->live[i]->state == WAITING) other = s->live[i];
    if (other) decompress(s, worker, other, NULL);
    else pthread_cond_wait(&s->changed, &s->lock);
  }
}

/* ---- preparing ---- */

static annb_status take_chunk(annb_stream *s, uint64_t number, uint64_t n, chunk **out, annb_error *err) {
  pthread_mutex_lock(&s->lock);
  chunk *c = s->spare;
  if (c) s->spare = c->next;
  pthread_mutex_unlock(&s->lock);
  if (!c && !(c = calloc(1, sizeof *c))) return annb_fail_memory(err);
  c->number = number;
  c->n = n;
  c->users = 0;
  c->state = WAITING;
  c->result = ANNB_UNFILTER_OK;
  uint8_t *values = annb_direct_saved(s->v->direct, number * s->height);
  if (values) {
    free(c->values);
    c->values = values;
    c->state = READY;
  }
  *out = c;
  annb_status status = ANNB_OK;
  if (!values) status = annb_direct_take_stored(s->v->direct, number * s->height, n, &c->raw, &c->raw_room, &c->skipped, err);
  if (status) free_chunk(c);
  return status;
}

/* The chunk gets one user more. *missing: it was never written. */
static annb_status use(annb_stream *s, uint64_t number, bool *missing, annb_error *err) {
  pthread_mutex_lock(&s->lock);
  chunk *c = find(s, number);
  if (c) c->users++;
  pthread_mutex_unlock(&s->lock);
  if (c) return ANNB_OK;
  const uint64_t n = annb_direct_stored(s->v->direct, number * s->height, 0);
  *missing = n == 0;
  if (*missing) return ANNB_OK;
  annb_status status = take_chunk(s, number, n, &c, err);
  if (status) return status;
  pthread_mutex_lock(&s->lock);
  c->users = 1;
  const bool ok = append(s, c);
  pthread_mutex_unlock(&s->lock);
  if (!ok) free_chunk(c);
  return ok ? ANNB_OK : annb_fail_memory(err);
}

/* The chunk in which the piece ends stays for the next piece. */
static void hold_last(annb_stream *s, uint64_t last, uint64_t end) {
  pthread_mutex_lock(&s->lock);
  chunk *c = (last + 1) * s->height > end ? find(s, last) : NULL, *before = s->held;
  s->held = c;
  if (c) c->users++;
  if (before) leave(s, before);
  pthread_mutex_unlock(&s->lock);
}

static void unuse(annb_stream *s, uint64_t first, uint64_t end) {
  pthread_mutex_lock(&s->lock);
  for (uint64_t number = first; number < end; number++) leave(s, find(s, number));
  pthread_mutex_unlock(&s->lock);
}

annb_status annb_stream_prepare(annb_stream *s, uint64_t first, uint64_t n, void *out, bool *ready, annb_error *err) {
  *ready = n == 0;
  if (n == 0 || s->contiguous) return ANNB_OK;
  if (!s->direct) {
    *ready = true;
    return annb_values_read(s->v, s->memory_type, first, n, out, err);
  }
  const uint64_t begin = first / s->height, last = (first + n - 1) / s->height;
  bool missing = false;
  annb_status status = ANNB_OK;
  uint64_t number = begin;
  for (; number <= last && !status && !missing; number++) status = use(s, number, &missing, err);
  if (!status && !missing) hold_last(s, last, first + n);
  else unuse(s, begin, number - 1);
  if (!missing) return status;
  *ready = true; /* HDF5 fills in what was never written */
  return annb_values_read(s->v, s->memory_type, first, n, out, err);
}

/* ---- reading ---- */

/* The part of chunk `number` that lies in [first, first + n), which is `out`. */
static void copy_part(const annb_stream *s, uint64_t number, const uint8_t *values, uint64_t first, uint64_t n, uint8_t *out) {
  const uint64_t row = number * s->height, from = row > first ? row : first;
  const uint64_t end = row + s->height < first + n ? row + s->height : first + n;
  memcpy(out + (from - first) * s->size, values + (from - row) * s->size, (end - from) * s->size);
}

static annb_status read_chunk(annb_stream *s, uint32_t worker, uint64_t number, uint64_t first, uint64_t n, uint8_t *out, annb_error *err) {
  const uint64_t row = number * s->height;
  const bool whole = row >= first && row + s->height <= first + n;
  bool there = false;
  pthread_mutex_lock(&s->lock);
  chunk *c = find(s, number);
  if (c->state == WAITING) {
    there = whole && c->users == 1; /* nobody else can want it */
    decompress(s, worker, c, there ? out + (row - first) * s->size : NULL);
  }
  wait_for(s, worker, c);
  pthread_mutex_unlock(&s->lock);
  const annb_unfilter_result result = c->result;
  if (!result && !there) copy_part(s, number, c->values, first, n, out);
  pthread_mutex_lock(&s->lock);
  leave(s, c);
  pthread_mutex_unlock(&s->lock);
  return result ? annb_direct_damaged(s->v->direct, row, 0, result, err) : ANNB_OK;
}

annb_status annb_stream_read(annb_stream *s, uint32_t worker, uint64_t first, uint64_t n, void *out, annb_error *err) {
  if (s->contiguous) return annb_direct_read_at(s->v->direct, first, n, out, err);
  annb_status status = ANNB_OK;
  for (uint64_t number = first / s->height; number <= (first + n - 1) / s->height; number++) {
    annb_status one = read_chunk(s, worker, number, first, n, out, status ? NULL : err);
    if (!status) status = one;
  }
  return status;
}
