/* Rows through HDF5: threads fetch them and write them in order. */
#include "../sidecar/files.h"
#include "fill.h"
#include "stream.h"
#include "units.h"

#include "../../store/error.h"

#include <annblock/annblock.h>
#include <stdlib.h>

#define UNIT (UINT64_C(1) << 17) /* elements, about */
enum { MOST_THREADS = 16 };

typedef struct unit {
  uint64_t first, n_rows, room;
  annb_fill_batch batch;
} unit;

typedef struct ordered {
  annb_filling *f;
  annb_row_plan plan;
  uint64_t next_row, at; /* elements written */
  unit *units;
  uint64_t *pointers;
  uint64_t pointers_room;
  annb_context **contexts;
  uint32_t n_threads, n_slots;
} ordered;

static annb_status next(void *user, uint32_t slot, bool *more, annb_error *err) {
  ordered *o = user;
  unit *u = &o->units[slot];
  *more = o->next_row < o->f->info.n_rows;
  if (!*more) return ANNB_OK;
  u->first = o->next_row;
  annb_status s = annb_row_plan_next(&o->plan, u->first, o->f->info.n_rows, &u->n_rows, &u->room, err);
  o->next_row += u->n_rows;
  return s;
}

static annb_status work(void *user, uint32_t thread, uint32_t slot, annb_error *err) {
  ordered *o = user;
  unit *u = &o->units[slot];
  u->batch.context = o->contexts[thread];
  return annb_batch_fetch(o->f, &u->batch, u->first, u->n_rows, u->room, err);
}

/* Row pointers of the batch; the last one too after the last row. */
static annb_status write_pointers(ordered *o, const annb_fill_batch *b, annb_error *err) {
  const bool last = b->first + b->n_rows == o->f->info.n_rows;
  if (b->n_rows >= o->pointers_room) {
    free(o->pointers);
    o->pointers_room = b->n_rows + 1;
    o->pointers = malloc(o->pointers_room * sizeof *o->pointers);
    if (!o->pointers) return annb_fail_memory(err);
  }
  for (uint64_t i = 0; i <= b->n_rows; i++) o->pointers[i] = o->at + (uint64_t)b->indptr[i];
  return annb_target_write(o->f, &o->f->indptr, b->first, b->n_rows + last, o->pointers, err);
}

static annb_status take(void *user, uint32_t slot, uint64_t *done, annb_error *err) {
  ordered *o = user;
  annb_filling *f = o->f;
  const annb_fill_batch *b = &o->units[slot].batch;
  annb_status s = ANNB_OK;
  if (b->n > f->info.nnz - o->at)
    s = annb_fail(err, ANNB_ECORRUPT, annb_store_path(f->fill->store), "%s has more elements than stated", f->info.name);
  if (!s) s = annb_target_write(f, &f->data, o->at, b->n, b->values, err);
  if (!s) s = annb_target_write(f, &f->indices, o->at, b->n, b->indices, err);
  if (!s) s = write_pointers(o, b, err);
  o->at += b->n;
  *done = b->first + b->n_rows;
  return s ? s : annb_file_check(f->fill->out, f->fill->out_name, err);
}

static annb_status report(void *user, uint64_t done, annb_error *err) { return annb_fill_report(((const ordered *)user)->f, done, err); }

/* As many threads as there is memory for when all have the longest row. */
static annb_status choose_threads(ordered *o, annb_error *err) {
  const uint64_t budget = o->f->fill->memory / 4 * 3;
  uint64_t most = o->plan.room;
  annb_status s = ANNB_OK;
  for (uint64_t row = 0; !s && row < o->f->info.n_rows; row++) {
    uint32_t n = 0;
    s = annb_row_plan_count(&o->plan, row, &n, err);
    if (n > most) most = n;
  }
  const uint64_t fit = budget / annb_batch_bytes(o->f, most);
  o->n_threads = annb_units_threads(o->f->fill->n_threads);
  if (o->n_threads > MOST_THREADS) o->n_threads = MOST_THREADS;
  if (o->n_threads >= fit) o->n_threads = fit > 1 ? (uint32_t)fit - 1 : 1;
  o->n_slots = o->n_threads + (fit > 1);
  return s;
}

static annb_status prepare(ordered *o, annb_error *err) {
  annb_status s = annb_row_plan_open(&o->plan, o->f, UNIT, o->f->fill->memory, err);
  if (!s) s = choose_threads(o, err);
  if (s) return s;
  o->units = calloc(o->n_slots, sizeof *o->units);
  o->contexts = calloc(o->n_threads, sizeof *o->contexts);
  if (!o->units || !o->contexts) return annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < o->n_threads; i++) s = annb_context_open(&o->contexts[i], err);
  if (!s) s = annb_stream_begin(o->f->fill, &o->f->data, 0, err);
  return s ? s : annb_stream_begin(o->f->fill, &o->f->indices, sizeof(int32_t), err);
}

static void release(ordered *o) {
  for (uint32_t i = 0; o->units && i < o->n_slots; i++) annb_batch_free(&o->units[i].batch);
  for (uint32_t i = 0; o->contexts && i < o->n_threads; i++) annb_context_close(o->contexts[i]);
  annb_row_plan_close(&o->plan);
  free(o->units);
  free(o->contexts);
  free(o->pointers);
}

static annb_status fill_in_order(annb_filling *f, annb_error *err) {
  static const uint64_t zero = 0;
  ordered o = {.f = f};
  annb_status s = prepare(&o, err);
  const annb_units units = {o.n_threads, o.n_slots, &o, next, work, take, report};
  if (!s && !f->info.n_rows) s = annb_target_write(f, &f->indptr, 0, 1, &zero, err);
  if (!s) s = annb_units_run(&units, err);
  if (!s && o.at != f->info.nnz && !f->bound)
    s = annb_fail(err, ANNB_ECORRUPT, annb_store_path(f->fill->store), "%s has fewer elements than stated", f->info.name);
  if (!s) s = annb_stream_end(&f->data, err);
  if (!s) s = annb_stream_end(&f->indices, err);
  release(&o);
  return s;
}

annb_status annb_fill_csr(annb_filling *f, annb_error *err) {
  bool done;
  annb_status s = annb_fill_direct(f, &done, err);
  return s || done ? s : fill_in_order(f, err);
}
