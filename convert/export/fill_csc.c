#include "fill.h"
#include "stream.h"
#include "../rows/transpose.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

#define BATCH (UINT64_C(1) << 19) /* elements */

/* Whole columns that wait to be written. */
typedef struct pending {
  uint32_t *rows;
  uint8_t *values;
  uint64_t n, room, at; /* elements: waiting, room for, written before */
  uint64_t *ends;       /* pointers of the waiting columns: their ends in the matrix */
  uint64_t n_ends, ends_room, first_column;
  uint64_t *keys; /* for putting a column into the source's order */
  uint8_t *moved;
  hid_t kept; /* the source's indices, or −1 */
} pending;

static annb_status reserve(pending *p, uint64_t n, uint32_t size, annb_error *err) {
  if (n <= p->room) return ANNB_OK;
  free(p->rows);
  free(p->values);
  p->rows = malloc(n * sizeof *p->rows);
  p->values = malloc(n * size);
  p->room = n;
  if (p->kept >= 0) {
    free(p->keys);
    free(p->moved);
    p->keys = malloc(n * sizeof *p->keys);
    p->moved = malloc(n * size);
    if (!p->keys || !p->moved) return annb_fail_memory(err);
  }
  return p->rows && p->values ? ANNB_OK : annb_fail_memory(err);
}

static int by_key(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* Elements of one column, ascending by row, go to where the source has that row: the k-th of a row to its k-th. `keys` has the
 * source's rows. */
static annb_status reorder(const annb_filling *f, pending *p, uint64_t column, uint64_t from, uint64_t n, annb_error *err) {
  uint64_t *keys = p->keys + from;
  const uint32_t size = f->value_size;
  for (uint64_t i = 0; i < n; i++) keys[i] = keys[i] << 32 | i;
  qsort(keys, n, sizeof *keys, by_key);
  for (uint64_t i = 0; i < n; i++) {
    if (keys[i] >> 32 != p->rows[from + i])
      return annb_h5_fail(err, ANNB_ECORRUPT, f->fill->merged->restore_name, f->indices.path,
                          "column %llu has other rows than the matrix in the store", (unsigned long long)column);
    memcpy(p->moved + (from + (keys[i] & UINT32_MAX)) * size, p->values + (from + i) * size, size);
  }
  return ANNB_OK;
}

static annb_status reorder_all(const annb_filling *f, pending *p, annb_error *err) {
  annb_status s = annb_h5_read_rows(p->kept, f->fill->out_name, f->indices.path, H5T_NATIVE_UINT64, p->at, p->n, p->keys, err);
  for (uint64_t i = 0; !s && i < p->n; i++)
    if (p->keys[i] >= f->info.n_rows)
      s = annb_h5_fail(err, ANNB_ECORRUPT, f->fill->merged->restore_name, f->indices.path, "holds a row that is not there");
  for (uint64_t i = 0, from = 0; !s && i < p->n_ends; i++) {
    uint64_t end = p->ends[i] - p->at;
    s = reorder(f, p, p->first_column + i, from, end - from, err);
    from = end;
  }
  return s;
}

static annb_status flush(annb_filling *f, pending *p, annb_error *err) {
  annb_status s = ANNB_OK;
  if (p->kept >= 0 && p->n) s = reorder_all(f, p, err);
  if (!s) s = annb_target_write(f, &f->data, p->at, p->n, p->kept >= 0 ? p->moved : p->values, err);
  if (!s) s = annb_target_write(f, &f->indices, p->at, p->n, p->rows, err);
  if (!s) s = annb_target_write(f, &f->indptr, p->first_column + 1, p->n_ends, p->ends, err);
  p->at += p->n;
  p->first_column += p->n_ends;
  p->n = p->n_ends = 0;
  return s;
}

static annb_status add_column(annb_filling *f, pending *p, uint64_t n, const uint32_t *rows, const void *values, annb_error *err) {
  annb_status s = ANNB_OK;
  if (n > f->info.nnz - p->at - p->n)
    return annb_fail(err, ANNB_ECORRUPT, annb_store_path(f->fill->store), "%s has more elements than stated", f->info.name);
  if (p->n + n > p->room || p->n_ends == p->ends_room) s = flush(f, p, err);
  if (!s) s = reserve(p, n, f->value_size, err);
  if (s) return s;
  if (n) {
    memcpy(p->rows + p->n, rows, n * sizeof *rows);
    memcpy(p->values + p->n * f->value_size, values, n * f->value_size);
  }
  p->n += n;
  p->ends[p->n_ends++] = p->at + p->n;
  return ANNB_OK;
}

/* For each element its row, as the output numbers rows. */
static annb_status number_rows(const annb_filling *f, const annb_fill_batch *b, uint32_t **payloads, uint64_t *room, annb_error *err) {
  const bool selected = f->fill->rows != NULL; /* new numbers of rows are their places */
  if (b->n > *room) {
    free(*payloads);
    *payloads = malloc(b->n * sizeof **payloads);
    *room = *payloads ? b->n : 0;
    if (!*payloads) return annb_fail_memory(err);
  }
  for (uint64_t r = 0; r < b->n_rows; r++) {
    const uint64_t number = selected ? b->first + r : annb_row_orders_source(f->fill->orders, b->rows[r]);
    for (int64_t i = b->indptr[r]; i < b->indptr[r + 1]; i++) (*payloads)[i] = (uint32_t)number;
  }
  return ANNB_OK;
}

/* All rows into the transposition: within a column they come out in the order they go in. */
static annb_status push_rows(annb_filling *f, annb_transpose *t, annb_error *err) {
  annb_fill_batch batch = {.context = f->fill->context};
  annb_row_plan plan;
  uint32_t *payloads = NULL;
  uint64_t room = 0;
  annb_status s = annb_row_plan_open(&plan, f, BATCH, f->fill->memory / 8 * 3, err);
  for (uint64_t row = 0, n_rows, n; !s && row < f->info.n_rows; row += n_rows) {
    s = annb_row_plan_next(&plan, row, f->info.n_rows, &n_rows, &n, err);
    if (!s) s = annb_batch_fetch(f, &batch, row, n_rows, n, err);
    if (!s) s = number_rows(f, &batch, &payloads, &room, err);
    if (!s) s = annb_transpose_push(t, batch.n, (const uint32_t *)batch.indices, payloads, batch.values, err);
    if (!s) s = annb_fill_progress(f, row + n_rows, err);
  }
  free(payloads);
  annb_row_plan_close(&plan);
  annb_batch_free(&batch);
  return s;
}

static annb_status pull_columns(annb_filling *f, annb_transpose *t, pending *p, annb_error *err) {
  static const uint64_t zero = 0;
  annb_status s = annb_target_write(f, &f->indptr, 0, 1, &zero, err);
  for (uint64_t column = 0; !s && column < f->info.n_cols; column++) {
    uint64_t n;
    const uint32_t *rows;
    const void *values;
    s = annb_transpose_next(t, (uint32_t)column, &n, &rows, &values, err);
    if (!s) s = add_column(f, p, n, rows, values, err);
    if (!s && column % 1024 == 0) s = annb_fill_progress(f, f->info.n_rows, err);
  }
  return s ? s : flush(f, p, err);
}

/* The source's indices are whole in the output: values follow them. */
static annb_status open_kept(const annb_filling *f, pending *p, annb_error *err) {
  hsize_t dims[32];
  if (f->indices.dataset >= 0 || f->data.dataset < 0) return ANNB_OK;
  p->kept = H5Dopen2(f->fill->out, f->indices.path, H5P_DEFAULT);
  if (p->kept >= 0 && annb_h5_extent(p->kept, dims, NULL) == 1 && dims[0] >= f->info.nnz) return ANNB_OK;
  return annb_h5_fail(err, ANNB_ECORRUPT, f->fill->merged->restore_name, f->indices.path, "the source's indices are missing or too short");
}

annb_status annb_fill_csc(annb_filling *f, annb_error *err) {
  pending p = {.kept = -1, .ends_room = UINT64_C(1) << 16};
  annb_transpose *t = NULL;
  annb_status s = ANNB_OK;
  if (f->info.n_rows > UINT32_MAX)
    s = annb_fail(err, ANNB_EUNSUPPORTED, annb_store_path(f->fill->store), "a CSC matrix of more than 2^32 rows is not exported");
  if (!s) s = open_kept(f, &p, err);
  uint64_t room = f->fill->memory / 8 / (24 + 2 * (uint64_t)f->value_size);
  if (!s) s = reserve(&p, room < f->info.nnz ? room : f->info.nnz ? f->info.nnz : 1, f->value_size, err);
  if (!s && !(p.ends = malloc(p.ends_room * sizeof *p.ends))) s = annb_fail_memory(err);
  if (!s) s = annb_transpose_open(f->value_size, f->info.n_cols, f->info.nnz, f->fill->memory / 2, f->fill->spool_dir, &t, err);
  if (!s) s = push_rows(f, t, err);
  if (!s) s = annb_stream_begin(f->fill, &f->data, 0, err);
  if (!s) s = annb_stream_begin(f->fill, &f->indices, sizeof(uint32_t), err);
  if (!s) s = pull_columns(f, t, &p, err);
  if (!s && p.at != f->info.nnz && !f->bound)
    s = annb_fail(err, ANNB_ECORRUPT, annb_store_path(f->fill->store), "%s has fewer elements than stated", f->info.name);
  if (!s) s = annb_stream_end(&f->data, err);
  if (!s) s = annb_stream_end(&f->indices, err);
  annb_transpose_close(t);
  annb_h5_close(&p.kept);
  free(p.rows);
  free(p.values);
  free(p.ends);
  free(p.keys);
  free(p.moved);
  return s;
}
