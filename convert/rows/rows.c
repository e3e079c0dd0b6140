#include "rows_internal.h"

#include "../../store/codec/encode_loops.h"
#include "../../store/error.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_CHUNK (UINT64_C(1) << 20)
#define MOST_CHUNK (UINT64_C(32) << 20)

void annb_rows_piece_free(annb_rows_piece *piece) {
  free(piece->indptr);
  free(piece->indices);
  free(piece->values);
  annb_leaf_free(&piece->leaf);
  annb_leaf_room_free(&piece->leaf_room);
  *piece = (annb_rows_piece){0};
}

void annb_rows_piece_trim(annb_rows_piece *piece, uint64_t bytes) {
  if (piece->bytes > bytes) annb_rows_piece_free(piece);
}

static annb_status too_large(const annb_rows *r, uint64_t row, uint64_t n, annb_error *err) {
  const uint64_t each = r->index_size + r->value_size;
  return annb_fail_row(err, ANNB_ENOMEM, r->m->file, (int64_t)row,
                       "%s: row %llu has %llu elements, which take %llu MiB: too much for the memory cap, raise it", r->m->path,
                       (unsigned long long)row, (unsigned long long)n, (unsigned long long)(n / 1024 * each / 1024));
}

annb_status annb_rows_reserve(const annb_rows *r, annb_rows_piece *piece, uint64_t n, uint64_t row, annb_error *err) {
  if (n <= piece->room) return ANNB_OK;
  if (n > r->wanted && n > r->options.memory / 2 / (r->index_size + r->value_size)) return too_large(r, row, n, err);
  if (n < r->wanted) n = r->wanted;
  free(piece->indices);
  free(piece->values);
  piece->indices = malloc(n * r->index_size);
  piece->values = malloc(n * r->value_size);
  piece->room = piece->indices && piece->values ? n : 0;
  return piece->room ? ANNB_OK : annb_fail_memory(err);
}

annb_status annb_rows_reserve_rows(annb_rows_piece *piece, uint64_t n, annb_error *err) {
  if (n < piece->indptr_room) return ANNB_OK;
  free(piece->indptr);
  piece->indptr = malloc((n + n / 2 + 1) * sizeof *piece->indptr);
  piece->indptr_room = piece->indptr ? n + n / 2 + 1 : 0;
  return piece->indptr ? ANNB_OK : annb_fail_memory(err);
}

annb_status annb_rows_progress(const annb_rows *r, const char *stage, uint64_t done, uint64_t total, annb_error *err) {
  if (!r->options.progress || r->options.progress(r->options.user, stage, done, total)) return ANNB_OK;
  return annb_fail(err, ANNB_ECANCELED, r->m->file, "packing was cancelled");
}

static annb_status start_transpose(annb_rows *r, annb_error *err) {
  if (r->m->n_rows > UINT32_MAX)
    return annb_h5_fail(err, ANNB_EUNSUPPORTED, r->m->file, r->m->path,
                        "has more than 2^32 rows and is not stored by rows: convert it to CSR first");
  uint64_t expected;
  annb_status s = annb_rows_expected(r->m, &expected, err);
  if (s) return s;
  return annb_transpose_open((uint32_t)r->value_size, r->m->n_rows, expected, r->options.memory / 2, r->options.spool_dir, &r->transpose,
                             err);
}

/* ---- pointers ---- */

static annb_status open_pointers(annb_pointers *pointers, const annb_values *v, uint64_t limit, annb_error *err) {
  *pointers = (annb_pointers){.v = v, .n = v->n - 1, .next = 1, .limit = limit, .p = malloc((ANNB_ROWS_MAX + 1) * sizeof(uint64_t))};
  if (!pointers->p) return annb_fail_memory(err);
  annb_status s = annb_values_read_pointers(v, 0, 1, pointers->p, err);
  if (!s && pointers->p[0] != 0)
    s = annb_h5_fail(err, ANNB_EINPUT, v->file, v->object, "starts at %llu, not at 0", (unsigned long long)pointers->p[0]);
  return s;
}

annb_status annb_pointers_fill(annb_pointers *pointers, annb_error *err) {
  uint64_t left = pointers->n + 1 - pointers->next, n = left < ANNB_ROWS_MAX ? left : ANNB_ROWS_MAX, *p = pointers->p;
  if (pointers->at < pointers->have || n == 0) return ANNB_OK;
  p[0] = p[pointers->have];
  annb_status s = annb_values_read_pointers(pointers->v, pointers->next, n, p + 1, err);
  for (uint64_t i = 1; i <= n && !s; i++) {
    const unsigned long long at = pointers->next + i - 1, here = p[i], before = p[i - 1];
    if (p[i] < p[i - 1])
      s = annb_h5_fail(err, ANNB_EINPUT, pointers->v->file, pointers->v->object, "decreases at entry %llu: %llu after %llu", at, here,
                       before);
    else if (p[i] > pointers->limit)
      s = annb_h5_fail(err, ANNB_EINPUT, pointers->v->file, pointers->v->object, "entry %llu is %llu, past its last entry %llu", at, here,
                       (unsigned long long)pointers->limit);
  }
  pointers->next += n;
  pointers->at = 0;
  pointers->have = n;
  return s;
}

/* ---- elements ---- */

static uint64_t index_at(const void *indices, uint64_t i, size_t size, bool is_signed) {
  int8_t i8;
  int16_t i16;
  int32_t i32;
  uint64_t x = 0;
  memcpy(&x, (const char *)indices + i * size, size); /* little-endian */
  if (!is_signed || size == 8) return x;
  memcpy(&i8, &x, 1);
  memcpy(&i16, &x, 2);
  memcpy(&i32, &x, 4);
  return (uint64_t)(size == 1 ? i8 : size == 2 ? i16 : i32);
}

/* Narrow or widen in place to u32; the first index out of range, or n. Negative ones are huge as unsigned. */
static uint64_t to_u32(void *indices, uint64_t n, size_t size, bool is_signed, uint64_t limit) {
  uint32_t *out = indices;
  if (size == 4) {
    const uint64_t worst = annb_encode_loops_best()->highest(out, n);
    if (worst < limit && (!is_signed || worst <= INT32_MAX)) return n;
  }
  for (uint64_t i = 0; i < n; i++)
    if (index_at(indices, i, size, is_signed) >= limit) return i;
  if (size > 4)
    for (uint64_t i = 0; i < n; i++) out[i] = (uint32_t)index_at(indices, i, size, is_signed);
  else
    for (uint64_t i = n; i-- > 0;) out[i] = (uint32_t)index_at(indices, i, size, is_signed);
  return n;
}

annb_status annb_rows_narrow(const annb_rows *r, void *indices, uint64_t first, uint64_t n, uint64_t limit, annb_error *err) {
  const annb_source_matrix *m = r->m;
  const uint64_t bad = to_u32(indices, n, r->stored_size, r->signed_indices, limit);
  if (bad == n) return ANNB_OK;
  uint64_t x = index_at(indices, bad, r->stored_size, r->signed_indices);
  char number[32];
  if (r->signed_indices) snprintf(number, sizeof number, "%lld", (long long)(int64_t)x);
  else snprintf(number, sizeof number, "%llu", (unsigned long long)x);
  return annb_h5_say(err, ANNB_EINPUT, m->file, m->indices.object, "element %llu is %s, but the matrix has %llu %s",
                     (unsigned long long)(first + bad), number, (unsigned long long)limit, m->form == ANNB_CSR ? "columns" : "rows");
}

annb_status annb_rows_read_elements(annb_rows *r, uint64_t first, uint64_t n, uint64_t limit, annb_error *err) {
  const annb_source_matrix *m = r->m;
  annb_status s = annb_values_read(&m->indices, r->index_type, first, n, r->own.indices, err);
  if (!s) s = annb_values_read(&m->data, m->memory_type, first, n, r->own.values, err);
  return s ? s : annb_rows_narrow(r, r->own.indices, first, n, limit, err);
}

/* ---- rows out of the transposer ---- */

static void append_group(annb_rows *r, uint64_t at) {
  if (r->held_n == 0) return;
  memcpy((uint32_t *)r->own.indices + at, r->held_columns, r->held_n * sizeof(uint32_t));
  memcpy((uint8_t *)r->own.values + at * r->value_size, r->held_values, r->held_n * r->value_size);
}

static annb_status next_transposed(annb_rows *r, annb_rows_chunk *chunk, annb_error *err) {
  uint64_t n = 0, rows = 0;
  annb_rows_piece *own = &r->own;
  annb_status s = annb_rows_reserve_rows(own, ANNB_ROWS_MAX, err);
  if (s) return s;
  own->indptr[0] = 0;
  for (; r->row < r->m->n_rows && rows < ANNB_ROWS_MAX; r->row++) {
    if (!r->held) s = annb_transpose_next(r->transpose, (uint32_t)r->row, &r->held_n, &r->held_columns, &r->held_values, err);
    if (s) return s;
    r->held = true;
    if (n + r->held_n > r->wanted && rows) break;
    s = annb_rows_reserve(r, own, n + r->held_n, r->row, err);
    if (s) return s;
    append_group(r, n);
    r->held = false;
    own->indptr[++rows] = n += r->held_n;
  }
  *chunk = (annb_rows_chunk){rows, own->indptr, own->indices, own->values};
  return ANNB_OK;
}

/* ---- another order: all rows go through the transposer ---- */

static annb_status next_straight(annb_rows *r, annb_rows_chunk *chunk, annb_error *err) {
  return r->m->form == ANNB_CSR ? annb_rows_next_csr(r, chunk, err) : annb_rows_next_dense(r, chunk, err);
}

/* `first`: the source's number of its first row. */
static annb_status push_chunk(annb_rows *r, const annb_rows_chunk *chunk, uint64_t first, uint32_t **keys, uint64_t *room,
                              annb_error *err) {
  const uint64_t n = chunk->indptr[chunk->n_rows] - chunk->indptr[0];
  if (n > *room) {
    free(*keys);
    *keys = malloc(n * sizeof **keys);
    *room = *keys ? n : 0;
    if (!*keys) return annb_fail_memory(err);
  }
  for (uint64_t i = 0, at = 0; i < chunk->n_rows; i++) {
    const uint32_t key = annb_rows_key(r, first + i);
    for (const uint64_t end = chunk->indptr[i + 1] - chunk->indptr[0]; at < end; at++) (*keys)[at] = key;
  }
  return n ? annb_transpose_push(r->transpose, n, *keys, chunk->indices, chunk->values, err) : ANNB_OK;
}

static annb_status spool_rows(annb_rows *r, annb_error *err) {
  annb_rows_chunk chunk = {.n_rows = 1};
  uint32_t *keys = NULL;
  uint64_t room = 0;
  annb_status s = ANNB_OK;
  while (!s && chunk.n_rows) {
    const uint64_t first = r->row;
    s = next_straight(r, &chunk, err);
    if (!s && chunk.n_rows) s = push_chunk(r, &chunk, first, &keys, &room, err);
    if (!s) s = annb_rows_progress(r, "shuffling rows", r->row, r->m->n_rows, err);
  }
  free(keys);
  free(r->band);
  r->band = NULL;
  r->row = 0;
  return s;
}

/* ---- the whole ---- */

static annb_status open_indices(annb_rows *r, annb_error *err) {
  const annb_source_matrix *m = r->m;
  r->index_type = annb_values_integer_type(m->indices.type);
  r->stored_size = H5Tget_size(m->indices.type);
  r->signed_indices = H5Tget_sign(m->indices.type) == H5T_SGN_2;
  return open_pointers(&r->pointers, &m->indptr, m->nnz, err);
}

annb_status annb_rows_open(const annb_source_matrix *m, const annb_rows_options *options, annb_rows **out, annb_error *err) {
  annb_rows *r = calloc(1, sizeof *r);
  *out = NULL;
  if (!r) return annb_fail_memory(err);
  r->m = m;
  r->options = *options;
  r->value_size = annb_dtype_size(m->dtype);
  r->index_size = sizeof(uint32_t);
  if (m->form != ANNB_DENSE && H5Tget_size(m->indices.type) > r->index_size) r->index_size = H5Tget_size(m->indices.type);
  uint64_t bytes = options->memory / 8;
  bytes = bytes < LEAST_CHUNK ? LEAST_CHUNK : bytes > MOST_CHUNK ? MOST_CHUNK : bytes;
  r->wanted = bytes / (r->index_size + r->value_size);
  if (m->form != ANNB_DENSE && r->wanted > m->nnz) r->wanted = m->nnz ? m->nnz : 1;
  annb_values_set_threads(&m->data, options->n_threads);
  annb_values_set_threads(&m->indices, options->n_threads);
  r->index_type = -1;
  if (!r->options.n_threads) r->options.n_threads = 1;
  r->raws = calloc(r->options.n_threads, sizeof *r->raws);
  annb_status s = !r->raws ? annb_fail_memory(err) : m->form == ANNB_DENSE ? ANNB_OK : open_indices(r, err);
  if (s) annb_rows_close(r);
  else *out = r;
  return s;
}

void annb_rows_close(annb_rows *r) {
  if (!r) return;
  annb_stream_close(r->index_stream);
  annb_stream_close(r->value_stream);
  annb_windows_close(r->windows);
  annb_transpose_close(r->transpose);
  for (uint32_t i = 0; r->raws && i < r->options.n_threads; i++) free(r->raws[i].bytes);
  free(r->raws);
  annb_rows_piece_free(&r->own);
  annb_h5_close(&r->index_type);
  free(r->pointers.p);
  free(r->band);
  free(r);
}

static bool is_straight(const annb_rows *r) {
  uint64_t height;
  return !r->options.shuffle && (r->m->form == ANNB_CSR || (r->m->form == ANNB_DENSE && annb_rows_dense_fits(r, &height)));
}

static annb_status spool_all(annb_rows *r, annb_error *err) {
  uint64_t height;
  annb_status s = start_transpose(r, err);
  if (s) return s;
  if (r->m->form == ANNB_CSC) return annb_rows_spool_csc(r, err);
  return r->m->form == ANNB_CSR || annb_rows_dense_fits(r, &height) ? spool_rows(r, err) : annb_rows_spool_dense(r, err);
}

/* Windows give the source's rows, and know of no other order of columns. */
static bool may_have_windows(const annb_rows *r) { return r->m->form == ANNB_CSC && !r->options.shuffle && !r->options.row_rank; }

annb_status annb_rows_prepare(annb_rows *r, annb_error *err) {
  if (r->spooled || r->windows || is_straight(r)) return ANNB_OK;
  annb_status s = may_have_windows(r) ? annb_windows_open(r, &r->windows, err) : ANNB_OK;
  if (s || r->windows) return s;
  s = spool_all(r, err);
  annb_rows_piece_free(&r->own);
  r->spooled = !s;
  return s;
}

static annb_status next_of_windows(annb_rows *r, annb_rows_chunk *chunk, annb_error *err) {
  annb_status s = annb_windows_take(r->windows, &r->own, err);
  *chunk = (annb_rows_chunk){0};
  return s || !r->own.n_rows ? s : annb_windows_fill(r->windows, 0, &r->own, chunk, err);
}

annb_status annb_rows_next(annb_rows *r, annb_rows_chunk *chunk, annb_error *err) {
  annb_status s = annb_rows_prepare(r, err);
  if (s) return s;
  if (r->windows) return next_of_windows(r, chunk, err);
  return r->spooled ? next_transposed(r, chunk, err) : next_straight(r, chunk, err);
}

/* ---- pieces ---- */

annb_status annb_rows_open_streams(annb_rows *r, annb_error *err) {
  const annb_source_matrix *m = r->m;
  const uint32_t n = r->options.n_threads;
  annb_status s = r->index_stream ? ANNB_OK : annb_stream_open(&m->indices, r->index_type, n, &r->index_stream, err);
  return s || r->value_stream ? s : annb_stream_open(&m->data, m->memory_type, n, &r->value_stream, err);
}

/* A chunk of its own rows, whose buffers are then traded for the piece's. */
static annb_status take_dense(annb_rows *r, annb_rows_piece *piece, annb_error *err) {
  annb_rows_chunk chunk;
  const uint64_t first = r->row;
  annb_status s = annb_rows_next_dense(r, &chunk, err);
  if (s) return s;
  const annb_rows_piece before = *piece;
  *piece = r->own;
  r->own = before;
  piece->first_row = first;
  piece->n_rows = chunk.n_rows;
  piece->bytes = piece->room * (r->index_size + r->value_size);
  piece->indices_ready = piece->values_ready = piece->checked = true;
  return ANNB_OK;
}

static annb_status take_leaf(annb_rows *r, annb_rows_piece *piece, annb_error *err) {
  annb_leaf_free(&piece->leaf);
  annb_status s = annb_transpose_take(r->transpose, &piece->leaf, err);
  piece->first_row = piece->leaf.first;
  piece->n_rows = r->m->n_rows ? piece->leaf.n_keys : 0; /* the transposer has one key at least */
  piece->bytes = piece->leaf.bytes + piece->leaf.n * (sizeof(uint32_t) + r->value_size) + piece->leaf.n_keys * sizeof(uint64_t);
  return s;
}

annb_status annb_rows_take(annb_rows *r, uint64_t elements, annb_rows_piece *piece, annb_error *err) {
  if (r->windows) return annb_windows_take(r->windows, piece, err);
  if (r->spooled) return take_leaf(r, piece, err);
  r->wanted = elements;
  if (r->m->form == ANNB_DENSE) return take_dense(r, piece, err);
  annb_status s = annb_rows_open_streams(r, err);
  return s ? s : annb_rows_take_csr(r, piece, err);
}

static annb_status fill_leaf(annb_rows *r, uint32_t worker, annb_rows_piece *piece, annb_rows_chunk *chunk, annb_error *err) {
  const annb_leaf_room *room = &piece->leaf_room;
  annb_status s = annb_transpose_load(r->transpose, &piece->leaf, &r->raws[worker], &piece->leaf_room, err);
  *chunk = (annb_rows_chunk){piece->n_rows, room->starts, room->payloads, room->values};
  return s == ANNB_ENOMEM && piece->n_rows == 1 ? too_large(r, piece->first_row, piece->leaf.n, err) : s;
}

annb_status annb_rows_fill(annb_rows *r, uint32_t worker, annb_rows_piece *piece, annb_rows_chunk *chunk, annb_error *err) {
  if (r->windows) return annb_windows_fill(r->windows, worker, piece, chunk, err);
  if (r->spooled) return fill_leaf(r, worker, piece, chunk, err);
  const uint64_t n = piece->indptr[piece->n_rows];
  annb_status s = ANNB_OK;
  if (!piece->indices_ready) s = annb_stream_read(r->index_stream, worker, piece->first, n, piece->indices, err);
  if (!s && !piece->values_ready) s = annb_stream_read(r->value_stream, worker, piece->first, n, piece->values, err);
  if (!s && !piece->checked) s = annb_rows_narrow(r, piece->indices, piece->first, n, r->m->n_cols, err);
  *chunk = (annb_rows_chunk){piece->n_rows, piece->indptr, piece->indices, piece->values};
  return s;
}

bool annb_rows_unordered(const annb_rows *r) { return r->unordered; }
