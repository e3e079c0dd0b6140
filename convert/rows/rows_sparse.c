#include "rows_internal.h"

#include "../../store/error.h"
#include "../../store/pipeline.h"
#include "../../store/codec/row_sort.h"

#include <stdlib.h>

enum { PIECE_ROWS = 4096, ELEMENTS = 1 << 18, ELEMENT_SLOTS = 8 };

/* ---- CSR: rows as they stand ---- */

/* The next rows that the window of pointers holds, of no more than `wanted` elements (at least one row), and no more than `most`. */
static annb_status choose_rows(annb_rows *r, annb_rows_piece *piece, uint64_t most, const uint64_t **pointers, annb_error *err) {
  annb_pointers *w = &r->pointers;
  annb_status s = annb_pointers_fill(w, err);
  if (s) return s;
  const uint64_t *p = w->p + w->at;
  uint64_t rows = 0, left = w->have - w->at;
  if (left > most) left = most;
  while (rows < left && p[rows + 1] - p[0] <= r->wanted) rows++;
  if (rows == 0 && left > 0) rows = 1;
  if (rows && p[1] - p[0] > ANNB_MAX_ROW_NNZ)
    return annb_fail_row(err, ANNB_EUNSUPPORTED, r->m->file, (int64_t)r->row, "%s: row %llu has more than 2^31 - 1 elements", r->m->path,
                         (unsigned long long)r->row);
  *pointers = p;
  piece->n_rows = rows;
  piece->first_row = r->row;
  piece->first = p[0];
  w->at += rows;
  r->row += rows;
  return annb_rows_reserve(r, piece, p[rows] - p[0], piece->first_row, err);
}

annb_status annb_rows_next_csr(annb_rows *r, annb_rows_chunk *chunk, annb_error *err) {
  annb_rows_piece *own = &r->own;
  const uint64_t *p;
  annb_status s = choose_rows(r, own, ANNB_ROWS_MAX, &p, err);
  if (!s) s = annb_rows_read_elements(r, own->first, p[own->n_rows] - p[0], r->m->n_cols, err);
  if (!s) *chunk = (annb_rows_chunk){own->n_rows, p, own->indices, own->values};
  return s;
}

annb_status annb_rows_take_csr(annb_rows *r, annb_rows_piece *piece, annb_error *err) {
  const uint64_t *p;
  annb_status s = choose_rows(r, piece, PIECE_ROWS, &p, err);
  if (!s) s = annb_rows_reserve_rows(piece, piece->n_rows, err);
  if (s) return s;
  const uint64_t n = p[piece->n_rows] - p[0];
  for (uint64_t i = 0; i <= piece->n_rows; i++) piece->indptr[i] = p[i] - p[0];
  piece->checked = false;
  piece->bytes = piece->room * (r->index_size + r->value_size);
  s = annb_stream_prepare(r->index_stream, piece->first, n, piece->indices, &piece->indices_ready, err);
  return s ? s : annb_stream_prepare(r->value_stream, piece->first, n, piece->values, &piece->values_ready, err);
}

/* ---- CSC: every element goes through the transposer ---- */

/* A piece of neighbouring elements. */
typedef struct element_slot {
  annb_rows_piece piece;
  uint64_t n;
  annb_status status;
  annb_error error;
} element_slot;

typedef struct element_feed {
  annb_rows *r;
  element_slot slots[ELEMENT_SLOTS];
  uint64_t next;
  uint32_t before;      /* rank of the last element pushed */
  const uint32_t *keys; /* new numbers of rows, or NULL */
  bool failed; /* taking did: nothing follows */
  annb_status status, watch_status;
  annb_error error, watch_error;
} element_feed;

static annb_status prepare_elements(element_feed *f, element_slot *slot, uint64_t n) {
  annb_rows *r = f->r;
  annb_rows_piece *piece = &slot->piece;
  annb_error *err = &slot->error;
  slot->n = n;
  piece->first = f->next;
  annb_status s = annb_rows_reserve(r, piece, n, 0, err);
  if (!s) s = annb_stream_prepare(r->index_stream, piece->first, n, piece->indices, &piece->indices_ready, err);
  return s ? s : annb_stream_prepare(r->value_stream, piece->first, n, piece->values, &piece->values_ready, err);
}

static annb_take take_elements(void *user, uint32_t number) {
  element_feed *f = user;
  element_slot *slot = &f->slots[number];
  const uint64_t left = f->r->m->nnz - f->next;
  if (f->failed || !left) return ANNB_END;
  annb_h5_quiet quiet = annb_h5_quiet_begin(); /* HDF5 may keep that for each thread */
  slot->status = prepare_elements(f, slot, left < f->r->wanted ? left : f->r->wanted);
  annb_h5_quiet_end(quiet);
  f->failed = slot->status != ANNB_OK;
  f->next += slot->n;
  return ANNB_TAKEN;
}

static void read_elements(void *user, uint32_t worker, uint32_t number) {
  element_feed *f = user;
  annb_rows *r = f->r;
  element_slot *slot = &f->slots[number];
  annb_rows_piece *piece = &slot->piece;
  annb_error *err = &slot->error;
  annb_status s = slot->status;
  if (!s && !piece->indices_ready) s = annb_stream_read(r->index_stream, worker, piece->first, slot->n, piece->indices, err);
  if (!s && !piece->values_ready) s = annb_stream_read(r->value_stream, worker, piece->first, slot->n, piece->values, err);
  if (!s) s = annb_rows_narrow(r, piece->indices, piece->first, slot->n, r->m->n_rows, err);
  slot->status = s;
}

/* Do the rows of a column go on as expected? */
static void check_order(element_feed *f, const uint32_t *rows, uint64_t n, bool first) {
  const uint32_t *rank = f->r->options.row_rank;
  if (first) f->before = 0;
  for (uint64_t i = 0; rank && i < n; i++) {
    const uint32_t here = rank[rows[i]];
    if (here < f->before) f->r->unordered = true;
    f->before = here;
  }
  if (rank) return;
  if (rows[0] < f->before || !annb_ascends(rows, n)) f->r->unordered = true;
  f->before = rows[n - 1];
}

/* Elements of one column. */
static annb_status push_column(element_feed *f, uint32_t column, bool first, uint32_t *rows, uint64_t n, const void *values) {
  annb_rows *r = f->r;
  check_order(f, rows, n, first);
  for (uint64_t i = 0; r->options.shuffle && i < n; i++) rows[i] = f->keys ? f->keys[rows[i]] : annb_rows_key(r, rows[i]);
  return annb_transpose_push_run(r->transpose, n, rows, column, values, &f->error);
}

static annb_status push_elements(element_feed *f, element_slot *slot) {
  annb_rows *r = f->r;
  annb_pointers *w = &r->pointers;
  uint32_t *rows = slot->piece.indices;
  const uint64_t from = slot->piece.first;
  annb_status s = ANNB_OK;
  for (uint64_t i = 0, n; i < slot->n && !s; i += n) {
    s = annb_pointers_fill(w, &f->error);
    if (!s && w->at == w->have) s = annb_h5_fail(&f->error, ANNB_EINPUT, r->m->file, r->m->indptr.object, "changed while it was read");
    if (s) return s;
    const uint64_t begin = w->p[w->at], end = w->p[w->at + 1], left = slot->n - i;
    const uint32_t column = (uint32_t)(w->next - 1 - (w->have - w->at));
    n = end - (from + i) < left ? end - (from + i) : left;
    if (n) s = push_column(f, column, from + i == begin, rows + i, n, (uint8_t *)slot->piece.values + i * r->value_size);
    if (from + i + n == end) w->at++;
  }
  return s;
}

static bool give_elements(void *user, uint32_t number) {
  element_feed *f = user;
  element_slot *slot = &f->slots[number];
  f->status = slot->status;
  if (slot->status) f->error = slot->error;
  if (!f->status) f->status = push_elements(f, slot);
  return !f->status;
}

/* The pointers behind the last element belong to empty columns; they too must be right. */
static annb_status check_rest(annb_pointers *w, annb_error *err) {
  annb_status s = ANNB_OK;
  do {
    w->at = w->have;
    s = annb_pointers_fill(w, err);
  } while (!s && w->at < w->have);
  return s;
}

/* New numbers of all rows: to look them up is faster than to work them out for each element. NULL: they stay, or are too many. */
static uint32_t *list_keys(const annb_rows *r) {
  const uint64_t n = r->m->n_rows;
  uint32_t *keys = r->options.shuffle && n <= r->options.memory / 16 / sizeof *keys ? malloc(n * sizeof *keys) : NULL;
  for (uint64_t i = 0; keys && i < n; i++) keys[i] = annb_rows_key(r, i);
  return keys;
}

static bool watch_elements(void *user, uint64_t given) {
  element_feed *f = user;
  const annb_rows *r = f->r;
  const uint64_t done = given * r->wanted < r->m->nnz ? given * r->wanted : r->m->nnz;
  f->watch_status = annb_rows_progress(r, "reading columns", done, r->m->nnz, &f->watch_error);
  return !f->watch_status;
}

annb_status annb_rows_spool_csc(annb_rows *r, annb_error *err) {
  uint32_t *keys = list_keys(r);
  element_feed *f = calloc(1, sizeof *f);
  annb_status s = f ? annb_rows_open_streams(r, err) : annb_fail_memory(err);
  if (!s) {
    *f = (element_feed){.r = r, .keys = keys};
    if (r->wanted > ELEMENTS) r->wanted = ELEMENTS;
    const annb_pipeline p = {r->options.n_threads, ELEMENT_SLOTS, f, take_elements, read_elements, give_elements, watch_elements};
    annb_pipeline_run(&p);
    s = f->status ? f->status : f->watch_status;
    if (s && err) *err = f->status ? f->error : f->watch_error;
    for (uint32_t i = 0; i < ELEMENT_SLOTS; i++) annb_rows_piece_free(&f->slots[i].piece);
  }
  free(f);
  free(keys);
  return s ? s : check_rest(&r->pointers, err);
}
