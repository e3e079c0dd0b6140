#include "../sidecar/files.h"
#include "fill.h"
#include "parallel.h"
#include "sink.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

#define UNIT (UINT64_C(1) << 19)       /* elements of a unit, about */
#define MOST_UNIT (UINT64_C(1) << 23)  /* of chunks that go together */
#define WINDOW_ROWS (UINT64_C(1) << 16)
#define SLOT_BYTES (UINT64_C(32) << 20) /* of memory, as a rule */

/* Some elements of the matrix, from whole rows. */
typedef struct unit {
  uint64_t first, n;         /* elements to write */
  uint64_t row, n_rows;      /* rows that hold them, */
  uint64_t skip, total;      /* which start with `skip` more, and have `total` */
  uint64_t rows_room, elements_room;
  uint64_t *rows;
  int64_t *indptr;
  int32_t *indices;
  uint8_t *values, *numbers; /* numbers: indices as the file has them */
  uint8_t *encoded[2];       /* chunks of data and of indices */
  size_t *sizes[2];
} unit;

typedef struct direct {
  annb_filling *f;
  annb_sink sinks[2]; /* data, indices */
  uint64_t unit, slot_chunks[2];
  uint64_t row, row_at, done; /* the next row and its first element; elements given out */
  uint32_t *window;           /* elements of rows from window_first on */
  uint64_t window_first, window_n;
  uint32_t n_threads, n_slots;
  unit *units;
  annb_context **contexts;
  void **deflaters; /* two for each thread: of data and indices */
  uint8_t **work;   /* one for each thread */
} direct;

/* ---- rows ---- */

/* Where row `row` of the output is stored. */
static uint64_t stored_row(const annb_filling *f, uint64_t row) {
  const annb_selection *selected = f->fill->rows;
  return annb_row_orders_stored(f->fill->orders, selected && selected->items ? selected->items[row] : row);
}

static annb_status count_window(const annb_filling *f, uint64_t first, uint64_t n, uint64_t *rows, uint32_t *nnz, annb_error *err) {
  uint64_t total;
  for (uint64_t i = 0; i < n; i++) rows[i] = stored_row(f, first + i);
  return annb_fetch_nnz(f->fill->store, f->matrix, rows, n, nnz, &total, err);
}

/* All row pointers; *most: elements of the longest row. */
static annb_status write_pointers(annb_filling *f, uint64_t *most, annb_error *err) {
  uint64_t *pointers = malloc((WINDOW_ROWS + 1) * sizeof *pointers), *rows = malloc(WINDOW_ROWS * sizeof *rows), at = 0;
  uint32_t *nnz = malloc(WINDOW_ROWS * sizeof *nnz);
  annb_status s = pointers && rows && nnz ? ANNB_OK : annb_fail_memory(err);
  *most = 0;
  for (uint64_t row = 0, n; !s && row < f->info.n_rows; row += n) {
    n = f->info.n_rows - row < WINDOW_ROWS ? f->info.n_rows - row : WINDOW_ROWS;
    s = count_window(f, row, n, rows, nnz, err);
    for (uint64_t i = 0; !s && i < n; i++) {
      pointers[i] = at;
      at += nnz[i];
      if (nnz[i] > *most) *most = nnz[i];
    }
    pointers[n] = at;
    if (!s) s = annb_target_write(f, &f->indptr, row, n + (row + n == f->info.n_rows), pointers, err);
  }
  if (!s && at != f->info.nnz)
    s = annb_fail(err, ANNB_ECORRUPT, annb_store_path(f->fill->store), "%s has %s elements than stated", f->info.name,
                  at > f->info.nnz ? "more" : "fewer");
  free(pointers);
  free(rows);
  free(nnz);
  return s;
}

/* Elements of the row `d->row`. */
static annb_status row_elements(direct *d, uint64_t row, uint64_t *scratch, uint32_t *n, annb_error *err) {
  annb_status s = ANNB_OK;
  if (row >= d->window_first + d->window_n || row < d->window_first) {
    uint64_t left = d->f->info.n_rows - row;
    d->window_first = row;
    d->window_n = left < WINDOW_ROWS ? left : WINDOW_ROWS;
    s = count_window(d->f, row, d->window_n, scratch, d->window, err);
  }
  if (!s) *n = d->window[row - d->window_first];
  return s;
}

static annb_status add_row(unit *u, uint64_t row, uint32_t n, annb_error *err) {
  if (u->n_rows == u->rows_room) {
    uint64_t room = u->rows_room ? 2 * u->rows_room : 4096;
    uint64_t *rows = realloc(u->rows, room * sizeof *rows);
    if (rows) u->rows = rows;
    int64_t *indptr = realloc(u->indptr, (room + 1) * sizeof *indptr);
    if (indptr) u->indptr = indptr;
    if (!rows || !indptr) return annb_fail_memory(err);
    u->rows_room = room;
  }
  u->rows[u->n_rows++] = row;
  u->total += n;
  return ANNB_OK;
}

/* The next unit: elements up to the end of a chunk of both datasets. */
static annb_status next(void *user, uint32_t slot, bool *more, annb_error *err) {
  direct *d = user;
  unit *u = &d->units[slot];
  uint64_t left = d->f->info.nnz - d->done, *scratch = NULL;
  *more = left > 0;
  if (!left) return ANNB_OK;
  u->first = d->done;
  u->n = left < d->unit ? left : d->unit;
  u->n_rows = u->total = 0;
  u->skip = d->done - d->row_at;
  annb_status s = (scratch = malloc(WINDOW_ROWS * sizeof *scratch)) ? ANNB_OK : annb_fail_memory(err);
  while (!s && u->total < u->skip + u->n) {
    uint32_t n = 0;
    uint64_t row = d->row + u->n_rows;
    if (row >= d->f->info.n_rows)
      s = annb_fail(err, ANNB_ECORRUPT, annb_store_path(d->f->fill->store), "%s has fewer elements than stated", d->f->info.name);
    if (!s) s = row_elements(d, row, scratch, &n, err);
    if (!s) s = add_row(u, stored_row(d->f, row), n, err);
    if (!s && u->total > u->skip + u->n) { /* the next unit starts with this row */
      d->row = row;
      d->row_at += u->total - n;
      free(scratch);
      d->done += u->n;
      return ANNB_OK;
    }
  }
  free(scratch);
  d->row += u->n_rows;
  d->row_at += u->total;
  d->done += u->n;
  return s;
}

/* ---- work ---- */

static annb_status reserve(direct *d, unit *u, annb_error *err) {
  if (u->total <= u->elements_room) return ANNB_OK;
  free(u->indices);
  free(u->values);
  free(u->numbers);
  u->elements_room = u->total + u->total / 8;
  u->indices = malloc(u->elements_room * sizeof *u->indices);
  u->values = malloc(u->elements_room * d->f->value_size);
  u->numbers = d->sinks[1].size == sizeof *u->indices ? NULL : malloc(u->elements_room * 8);
  return u->indices && u->values && (u->numbers || d->sinks[1].size == sizeof *u->indices) ? ANNB_OK : annb_fail_memory(err);
}

/* Indices in the file's width: they are not negative. */
static const uint8_t *to_numbers(const direct *d, unit *u) {
  const int32_t *from = u->indices + u->skip;
  const uint32_t size = d->sinks[1].size;
  if (size == sizeof *from || !size) return (const uint8_t *)from;
  for (uint64_t i = 0; i < u->n; i++) {
    uint64_t number = (uint32_t)from[i];
    memcpy(u->numbers + i * size, &number, size);
  }
  return u->numbers;
}

static annb_status encode(direct *d, uint32_t thread, unit *u, int which, const uint8_t *elements, annb_error *err) {
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
    s = annb_sink_encode(sink, d->deflaters[2 * thread + (uint32_t)which], from, d->work[thread], u->encoded[which] + i * room,
                         &u->sizes[which][i], err);
    free(padded);
  }
  return s;
}

static annb_status deliver(direct *d, uint32_t thread, unit *u, int which, const uint8_t *elements, annb_error *err) {
  if (d->sinks[which].kind == ANNB_SINK_PLACE) return annb_sink_write(&d->sinks[which], u->first, u->n, elements, err);
  return d->sinks[which].kind == ANNB_SINK_CHUNKS ? encode(d, thread, u, which, elements, err) : ANNB_OK;
}

static annb_status work(void *user, uint32_t thread, uint32_t slot, annb_error *err) {
  direct *d = user;
  unit *u = &d->units[slot];
  annb_status s = reserve(d, u, err);
  if (!s)
    s = annb_source_rows_fetch(d->f->source, d->contexts[thread], u->rows, u->n_rows, u->indptr, u->indices, u->values,
                               u->elements_room, err);
  if (!s && (uint64_t)u->indptr[u->n_rows] != u->total)
    s = annb_fail(err, ANNB_ECORRUPT, annb_store_path(d->f->fill->store), "%s has other elements than its index states", d->f->info.name);
  if (!s) s = deliver(d, thread, u, 0, u->values + u->skip * d->f->value_size, err);
  return s ? s : deliver(d, thread, u, 1, to_numbers(d, u), err);
}

static annb_status take(void *user, uint32_t slot, annb_error *err) {
  direct *d = user;
  unit *u = &d->units[slot];
  annb_status s = ANNB_OK;
  for (int which = 0; which < 2; which++) {
    const annb_sink *sink = &d->sinks[which];
    if (sink->kind != ANNB_SINK_CHUNKS) continue;
    for (uint64_t i = 0; !s && i * sink->chunk < u->n; i++)
      s = annb_sink_put(sink, u->first / sink->chunk + i, u->encoded[which] + i * annb_sink_room(sink), u->sizes[which][i], err);
  }
  uint64_t rows = d->f->info.n_rows;
  return s ? s : annb_fill_progress(d->f, (uint64_t)((double)(u->first + u->n) / (double)d->f->info.nnz * (double)rows), err);
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
  return annb_mul(a / x, b, &common) && common <= MOST_UNIT ? common : 0;
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

static annb_status make_thread(direct *d, uint32_t thread, annb_error *err) {
  size_t most = 1;
  annb_status s = annb_context_open(&d->contexts[thread], err);
  for (uint32_t which = 0; !s && which < 2; which++) {
    const annb_sink *sink = &d->sinks[which];
    if (sink->kind != ANNB_SINK_CHUNKS) continue;
    if (sink->chunk * sink->size > most) most = (size_t)sink->chunk * sink->size;
    if (sink->level && !(d->deflaters[2 * thread + which] = annb_deflater_open(sink->level))) s = annb_fail_memory(err);
  }
  if (!s && !(d->work[thread] = malloc(most))) s = annb_fail_memory(err);
  return s;
}

static annb_status make_all(direct *d, annb_error *err) {
  const uint64_t slot_bytes = d->unit * (sizeof(int32_t) + 2 * d->f->value_size + 16) + SLOT_BYTES / 4;
  uint64_t most = d->f->fill->memory / 2 / slot_bytes;
  d->n_threads = annb_parallel_threads(d->f->fill->n_threads);
  if (most < 2) most = 2;
  if (d->n_threads + 1 > most) d->n_threads = (uint32_t)most - 1;
  d->n_slots = d->n_threads + 1;
  d->units = calloc(d->n_slots, sizeof *d->units);
  d->contexts = calloc(d->n_threads, sizeof *d->contexts);
  d->deflaters = calloc(2 * (size_t)d->n_threads, sizeof *d->deflaters);
  d->work = calloc(d->n_threads, sizeof *d->work);
  d->window = malloc(WINDOW_ROWS * sizeof *d->window);
  annb_status s = d->units && d->contexts && d->deflaters && d->work && d->window ? ANNB_OK : annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < d->n_slots; i++) s = make_unit(d, &d->units[i], err);
  for (uint32_t i = 0; !s && i < d->n_threads; i++) s = make_thread(d, i, err);
  return s;
}

static void free_unit(unit *u) {
  free(u->rows);
  free(u->indptr);
  free(u->indices);
  free(u->values);
  free(u->numbers);
  for (int which = 0; which < 2; which++) {
    free(u->encoded[which]);
    free(u->sizes[which]);
  }
}

static void free_all(direct *d) {
  for (uint32_t i = 0; d->units && i < d->n_slots; i++) free_unit(&d->units[i]);
  for (uint32_t i = 0; d->contexts && i < d->n_threads; i++) annb_context_close(d->contexts[i]);
  for (uint32_t i = 0; d->deflaters && i < 2 * d->n_threads; i++) annb_deflater_close(d->deflaters[i]);
  for (uint32_t i = 0; d->work && i < d->n_threads; i++) free(d->work[i]);
  free(d->units);
  free(d->contexts);
  free(d->deflaters);
  free(d->work);
  free(d->window);
}

annb_status annb_fill_direct(annb_filling *f, bool *done, annb_error *err) {
  direct d = {.f = f};
  uint64_t most;
  *done = false;
  if (f->genes || !f->source || f->info.form != ANNB_CSR || !f->info.nnz) return ANNB_OK;
  if (!annb_sink_open(&d.sinks[0], &f->data, f->fill->out, f->fill->out_name, 0)) return ANNB_OK;
  if (!annb_sink_open(&d.sinks[1], &f->indices, f->fill->out, f->fill->out_name, sizeof(int32_t))) return ANNB_OK;
  uint64_t common = common_chunk(&d);
  if (!common) return ANNB_OK;
  d.unit = (UNIT + common - 1) / common * common;
  annb_status s = write_pointers(f, &most, err);
  if (s || most > d.unit) return s;
  *done = true;
  s = make_all(&d, err);
  const annb_parallel parallel = {d.n_threads, d.n_slots, next, work, take, &d};
  if (!s) s = annb_parallel_run(&parallel, err);
  free_all(&d);
  return s;
}
