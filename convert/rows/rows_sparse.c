#include "rows_internal.h"

#include "../../store/error.h"

#include <stdlib.h>

enum { PIECE_ROWS = 4096 };

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
  s = annb_stream_prepare(r->index_stream, piece->first, n, piece->indices, &piece->indices_ready, err);
  return s ? s : annb_stream_prepare(r->value_stream, piece->first, n, piece->values, &piece->values_ready, err);
}

/* ---- CSC: every element goes through the transposer ---- */

/* Column numbers of the elements [first, first + n) that were read last, and whether each column's rows ascend. `before` is the
 * rank of the element before `first` in its column. */
static annb_status number_columns(annb_rows *r, uint64_t first, uint64_t n, uint32_t *columns, uint32_t *before, annb_error *err) {
  annb_pointers *w = &r->pointers;
  const uint32_t *rows = r->own.indices, *rank = r->options.row_rank;
  for (uint64_t i = 0; i < n;) {
    annb_status s = annb_pointers_fill(w, err);
    if (!s && w->at == w->have) s = annb_h5_fail(err, ANNB_EINPUT, r->m->file, r->m->indptr.object, "changed while it was read");
    if (s) return s;
    uint64_t begin = w->p[w->at], end = w->p[w->at + 1];
    uint32_t column = (uint32_t)(w->next - 1 - (w->have - w->at));
    if (first + i == begin) *before = 0;
    for (; i < n && first + i < end; i++) {
      uint32_t here = rank ? rank[rows[i]] : rows[i];
      if (here < *before) r->unordered = true;
      *before = here;
      columns[i] = column;
    }
    if (first + i == end) w->at++;
  }
  return ANNB_OK;
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

/* The rows of the elements that were read last, by their new numbers. */
static void number_rows(annb_rows *r, const uint32_t *keys, uint64_t n) {
  uint32_t *rows = r->own.indices;
  if (!r->options.shuffle) return;
  for (uint64_t i = 0; i < n; i++) rows[i] = keys ? keys[rows[i]] : annb_rows_key(r, rows[i]);
}

annb_status annb_rows_spool_csc(annb_rows *r, annb_error *err) {
  const annb_source_matrix *m = r->m;
  uint32_t *columns = malloc(r->wanted * sizeof *columns), *keys = list_keys(r), before = 0;
  annb_status s = columns ? annb_rows_reserve(r, &r->own, r->wanted, 0, err) : annb_fail_memory(err);
  for (uint64_t i = 0, n; i < m->nnz && !s; i += n) {
    n = r->wanted < m->nnz - i ? r->wanted : m->nnz - i;
    s = annb_rows_read_elements(r, i, n, m->n_rows, err);
    if (!s) s = number_columns(r, i, n, columns, &before, err);
    if (!s) number_rows(r, keys, n);
    if (!s) s = annb_transpose_push(r->transpose, n, r->own.indices, columns, r->own.values, err);
    if (!s) s = annb_rows_progress(r, "reading columns", i + n, m->nnz, err);
  }
  free(columns);
  free(keys);
  return s ? s : check_rest(&r->pointers, err);
}
