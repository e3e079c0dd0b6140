/* Rows past HDF5: each thread fetches some and writes them itself, or compresses their chunks. */
#include "../sidecar/files.h"
#include "fill.h"
#include "sink.h"
#include "units.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <annblock/annblock.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PIECE (UINT64_C(1) << 18)      /* elements of a unit that is written by place, about: they stay in the cache */
#define CHUNKS (UINT64_C(1) << 19)     /* of one of chunks, about */
#define MOST_CHUNKS (UINT64_C(1) << 23) /* of chunks that go together */
#define MOST_ROWS (UINT64_C(1) << 16)   /* of a unit that is written by place */
#define REPORT (UINT64_C(1) << 20)     /* elements between two reports */

/* Some elements of the matrix, from whole rows. By place these are all that the rows have. */
typedef struct unit {
  uint64_t first, n;    /* elements to write */
  uint64_t row, n_rows; /* rows that hold them, */
  uint64_t skip, total; /* which start with `skip` more, and have `total` */
  uint8_t *encoded[2];  /* chunks of data and of indices */
  size_t *sizes[2];
} unit;

typedef struct thread {
  annb_fill_batch batch;
  uint8_t *numbers; /* indices as the file has them */
  uint64_t numbers_room;
  void *deflaters[2]; /* of data and indices */
  uint8_t *work;
} thread;

typedef struct direct {
  annb_filling *f;
  annb_sink sinks[2]; /* data, indices */
  bool chunks;        /* of one of them at least */
  uint64_t unit, most; /* elements: of a unit; of the longest row */
  uint64_t most_rows;  /* that share a unit of chunks */
  annb_row_plan plan;
  uint64_t row, skip, begun, checked; /* the next row; its elements given out, all of them; those written when that was looked at */
  uint32_t n_threads, n_slots;
  unit *units;
  thread *threads;
  pthread_mutex_t turn; /* to write: the kernel lets one thread at a time into a file, and the others had to wait busily */
} direct;

/* ---- units ---- */

/* All row pointers, and what units need. */
static annb_status write_pointers(direct *d, annb_error *err) {
  const annb_filling *f = d->f;
  uint64_t *pointers = malloc(PIECE * sizeof *pointers), at = 0, n = 0, from = 0;
  annb_status s = pointers ? ANNB_OK : annb_fail_memory(err);
  for (uint64_t row = 0; !s && row <= f->info.n_rows; row++) {
    uint32_t elements = 0;
    pointers[n++] = at;
    if (row < f->info.n_rows) s = annb_row_plan_count(&d->plan, row, &elements, err);
    if ((at + elements) / d->unit != at / d->unit) from = row;
    at += elements;
    if (row + 1 - from > d->most_rows) d->most_rows = row + 1 - from;
    if (elements > d->most) d->most = elements;
    if (s || (n < PIECE && row < f->info.n_rows)) continue;
    s = annb_target_write(f, &d->f->indptr, row + 1 - n, n, pointers, err);
    n = 0;
  }
  if (!s && at != f->info.nnz)
    s = annb_fail(err, ANNB_ECORRUPT, annb_store_path(f->fill->store), "%s has %s elements than stated", f->info.name,
                  at > f->info.nnz ? "more" : "fewer");
  free(pointers);
  return s;
}

/* The next rows: up to the end of a chunk of both datasets, which may be inside the last row; by place up to the end of a row. */
static annb_status next(void *user, uint32_t slot, bool *more, annb_error *err) {
  direct *d = user;
  unit *u = &d->units[slot];
  const uint64_t left = d->f->info.nnz - d->begun, wanted = left < d->unit ? left : d->unit;
  uint32_t n = 0;
  annb_status s = ANNB_OK;
  *more = left > 0;
  u->first = d->begun;
  u->row = d->row;
  u->skip = d->skip;
  u->n_rows = u->total = 0;
  while (!s && left && u->total < u->skip + wanted && (d->chunks || u->n_rows < MOST_ROWS)) {
    if (u->row + u->n_rows >= d->f->info.n_rows)
      return annb_fail(err, ANNB_ECORRUPT, annb_store_path(d->f->fill->store), "%s has fewer elements than stated", d->f->info.name);
    s = annb_row_plan_count(&d->plan, u->row + u->n_rows++, &n, err);
    u->total += n;
  }
  if (s || !left) return s;
  u->n = u->total - u->skip;
  if (d->chunks && u->n > wanted) u->n = wanted;
  const uint64_t rest = u->total - u->skip - u->n; /* of the last row */
  d->row = u->row + u->n_rows - (rest > 0);
  d->skip = rest ? n - rest : 0;
  d->begun += u->n;
  return ANNB_OK;
}

/* ---- work ---- */

/* Indices in the file's width: they are not negative. */
static annb_status to_numbers(const direct *d, thread *t, const unit *u, const uint8_t **numbers, annb_error *err) {
  const int32_t *from = t->batch.indices + u->skip;
  const uint32_t size = d->sinks[1].size;
  *numbers = (const uint8_t *)from;
  if (size == sizeof *from || !size) return ANNB_OK;
  if (u->n > t->numbers_room) {
    free(t->numbers);
    t->numbers = malloc(u->n * size);
    t->numbers_room = t->numbers ? u->n : 0;
    if (!t->numbers) return annb_fail_memory(err);
  }
  for (uint64_t i = 0; i < u->n; i++) {
    uint64_t number = (uint32_t)from[i];
    memcpy(t->numbers + i * size, &number, size);
  }
  *numbers = t->numbers;
  return ANNB_OK;
}

static annb_status encode(const direct *d, const thread *t, unit *u, int which, const uint8_t *elements, annb_error *err) {
  const annb_sink *sink = &d->sinks[which];
  const uint64_t chunks = (u->n + sink->chunk - 1) / sink->chunk, room = annb_sink_room(sink);
  const size_t bytes = (size_t)sink->chunk * sink->size;
  annb_status s = ANNB_OK;
  for (uint64_t i = 0; !s && i < chunks; i++) {
    const uint8_t *from = elements + i * bytes;
    uint64_t have = u->n - i * sink->chunk;
    uint8_t *padded = NULL;
    if (have < sink->chunk) { /* the last chunk of the dataset: zeros behind */
      padded = calloc(1, bytes);
      if (!padded) return annb_fail_memory(err);
      memcpy(padded, from, (size_t)have * sink->size);
      from = padded;
    }
    s = annb_sink_encode(sink, t->deflaters[which], from, t->work, u->encoded[which] + i * room, &u->sizes[which][i], err);
    free(padded);
  }
  return s;
}

/* Both arrays at one turn. */
static annb_status write_places(direct *d, const unit *u, const uint8_t *const elements[2], annb_error *err) {
  annb_status s = ANNB_OK;
  if (d->sinks[0].kind != ANNB_SINK_PLACE && d->sinks[1].kind != ANNB_SINK_PLACE) return ANNB_OK;
  pthread_mutex_lock(&d->turn);
  for (int which = 0; !s && which < 2; which++)
    if (d->sinks[which].kind == ANNB_SINK_PLACE) s = annb_sink_write(&d->sinks[which], u->first, u->n, elements[which], err);
  pthread_mutex_unlock(&d->turn);
  return s;
}

static annb_status work(void *user, uint32_t number, uint32_t slot, annb_error *err) {
  direct *d = user;
  unit *u = &d->units[slot];
  thread *t = &d->threads[number];
  const uint8_t *elements[2] = {0};
  annb_status s = annb_batch_fetch(d->f, &t->batch, u->row, u->n_rows, u->total, err);
  if (!s && t->batch.n != u->total)
    s = annb_fail(err, ANNB_ECORRUPT, annb_store_path(d->f->fill->store), "%s has other elements than its index states", d->f->info.name);
  if (s) return s;
  elements[0] = t->batch.values + u->skip * d->f->value_size;
  s = to_numbers(d, t, u, &elements[1], err);
  if (!s) s = write_places(d, u, elements, err);
  for (int which = 0; !s && which < 2; which++)
    if (d->sinks[which].kind == ANNB_SINK_CHUNKS) s = encode(d, t, u, which, elements[which], err);
  return s;
}

static annb_status take(void *user, uint32_t slot, uint64_t *done, annb_error *err) {
  direct *d = user;
  unit *u = &d->units[slot];
  const uint64_t end = u->first + u->n;
  annb_status s = ANNB_OK;
  for (int which = 0; which < 2; which++) {
    const annb_sink *sink = &d->sinks[which];
    if (sink->kind != ANNB_SINK_CHUNKS) continue;
    for (uint64_t i = 0; !s && i * sink->chunk < u->n; i++)
      s = annb_sink_put(sink, u->first / sink->chunk + i, u->encoded[which] + i * annb_sink_room(sink), u->sizes[which][i], err);
  }
  if (s || (end - d->checked < REPORT && end < d->f->info.nnz)) return s;
  *done = d->checked = end;
  return annb_file_check(d->f->fill->out, d->f->fill->out_name, err);
}

static annb_status report(void *user, uint64_t done, annb_error *err) {
  const annb_filling *f = ((const direct *)user)->f;
  return annb_fill_report(f, (uint64_t)((double)done / (double)f->info.nnz * (double)f->info.n_rows), err);
}

/* ---- setting up ---- */

/* The least number of elements that are whole chunks of both; 0 when they are too many. */
static uint64_t common_chunk(const direct *d) {
  uint64_t a = d->sinks[0].kind == ANNB_SINK_CHUNKS ? d->sinks[0].chunk : 1;
  uint64_t b = d->sinks[1].kind == ANNB_SINK_CHUNKS ? d->sinks[1].chunk : 1;
  uint64_t x = a, y = b, common;
  while (y) {
    uint64_t rest = x % y;
    x = y;
    y = rest;
  }
  return annb_mul(a / x, b, &common) && common <= MOST_CHUNKS ? common : 0;
}

static annb_status make_unit(direct *d, unit *u, annb_error *err) {
  for (int which = 0; which < 2; which++) {
    const annb_sink *sink = &d->sinks[which];
    if (sink->kind != ANNB_SINK_CHUNKS) continue;
    uint64_t chunks = (d->unit + sink->chunk - 1) / sink->chunk;
    u->encoded[which] = malloc(chunks * annb_sink_room(sink));
    u->sizes[which] = malloc(chunks * sizeof *u->sizes[which]);
    if (!u->encoded[which] || !u->sizes[which]) return annb_fail_memory(err);
  }
  return ANNB_OK;
}

static annb_status make_thread(direct *d, thread *t, annb_error *err) {
  size_t most = 1;
  annb_status s = annb_context_open(&t->batch.context, err);
  for (int which = 0; !s && which < 2; which++) {
    const annb_sink *sink = &d->sinks[which];
    if (sink->kind != ANNB_SINK_CHUNKS) continue;
    if (sink->chunk * sink->size > most) most = (size_t)sink->chunk * sink->size;
    if (sink->level && !(t->deflaters[which] = annb_deflater_open(sink->level))) s = annb_fail_memory(err);
  }
  if (!s && d->chunks && !(t->work = malloc(most))) s = annb_fail_memory(err);
  return s;
}

/* How many threads the memory allows, with the longest row in each; none: the rows are too long. */
static uint32_t fitting_threads(const direct *d) {
  const annb_filling *f = d->f;
  const uint64_t longest = annb_batch_bytes(f, d->most);
  uint64_t bytes = longest + d->unit * (sizeof(int32_t) + f->value_size + 8);
  if (d->chunks) bytes += d->unit * (16 + 2 * f->value_size) + d->most_rows * 16;
  const uint64_t fit = f->fill->memory / 4 * 3 / bytes;
  const uint32_t n = annb_units_threads(f->fill->n_threads);
  return fit > n ? n : (uint32_t)(d->chunks && fit ? fit - 1 : fit); /* chunks: a slot is more than a thread */
}

static annb_status make_all(direct *d, annb_error *err) {
  d->n_slots = d->n_threads + 1;
  d->units = calloc(d->n_slots, sizeof *d->units);
  d->threads = calloc(d->n_threads, sizeof *d->threads);
  annb_status s = d->units && d->threads ? ANNB_OK : annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < d->n_slots; i++) s = make_unit(d, &d->units[i], err);
  for (uint32_t i = 0; !s && i < d->n_threads; i++) s = make_thread(d, &d->threads[i], err);
  return s;
}

static void free_thread(thread *t) {
  annb_batch_free(&t->batch);
  annb_context_close(t->batch.context);
  for (int which = 0; which < 2; which++) annb_deflater_close(t->deflaters[which]);
  free(t->numbers);
  free(t->work);
}

static void free_all(direct *d) {
  for (uint32_t i = 0; d->units && i < d->n_slots; i++)
    for (int which = 0; which < 2; which++) {
      free(d->units[i].encoded[which]);
      free(d->units[i].sizes[which]);
    }
  for (uint32_t i = 0; d->threads && i < d->n_threads; i++) free_thread(&d->threads[i]);
  free(d->units);
  free(d->threads);
}

static annb_status run(direct *d, annb_error *err) {
  annb_status s = make_all(d, err);
  const annb_units units = {d->n_threads, d->n_slots, d, next, work, take, report};
  pthread_mutex_init(&d->turn, NULL);
  if (!s) s = annb_units_run(&units, err);
  pthread_mutex_destroy(&d->turn);
  free_all(d);
  return s;
}

annb_status annb_fill_direct(annb_filling *f, bool *done, annb_error *err) {
  direct d = {.f = f};
  *done = false;
  if (f->genes || f->bound || f->info.form != ANNB_CSR || !f->info.nnz) return ANNB_OK;
  if (!annb_sink_open(&d.sinks[0], &f->data, f->fill->out, f->fill->out_name, 0)) return ANNB_OK;
  if (!annb_sink_open(&d.sinks[1], &f->indices, f->fill->out, f->fill->out_name, sizeof(int32_t))) return ANNB_OK;
  const uint64_t common = common_chunk(&d);
  if (!common) return ANNB_OK;
  d.chunks = d.sinks[0].kind == ANNB_SINK_CHUNKS || d.sinks[1].kind == ANNB_SINK_CHUNKS;
  d.unit = d.chunks ? (CHUNKS + common - 1) / common * common : PIECE;
  annb_status s = annb_row_plan_open(&d.plan, f, d.unit, f->fill->memory, err);
  if (!s) s = write_pointers(&d, err);
  d.n_threads = s ? 0 : fitting_threads(&d);
  /* a row that is cut by chunks is fetched again for each piece */
  *done = s || (d.n_threads && !(d.chunks && d.most > d.unit));
  if (!s && *done) s = run(&d, err);
  annb_row_plan_close(&d.plan);
  return s;
}
