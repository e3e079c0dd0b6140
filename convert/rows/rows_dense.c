#include "rows_internal.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

enum { PUSH = 65536 };
#define BAND (UINT64_C(16) << 20)
#define SAMPLE (UINT64_C(4) << 20)

/* The elements of one row whose bits are not all zero: column numbers from `column` on, and values. Returns how many. Both outputs need
 * room for n elements: each is written, and kept when it counts, so that the loop has no branch. */
#define COMPACT(type)                                                                                                                      \
  do {                                                                                                                                     \
    for (uint64_t j = 0; j < n; j++) {                                                                                                     \
      type x;                                                                                                                              \
      memcpy(&x, row + j * sizeof x, sizeof x);                                                                                            \
      indices[k] = column + (uint32_t)j;                                                                                                   \
      memcpy((uint8_t *)values + k * sizeof x, &x, sizeof x);                                                                              \
      k += x != 0;                                                                                                                         \
    }                                                                                                                                      \
  } while (0)

static uint64_t compact(const uint8_t *row, uint64_t n, size_t value_size, uint32_t column, uint32_t *indices, void *values) {
  uint64_t k = 0;
  switch (value_size) {
    case 1: COMPACT(uint8_t); break;
    case 2: COMPACT(uint16_t); break;
    case 4: COMPACT(uint32_t); break;
    default: COMPACT(uint64_t);
  }
  return k;
}

/* ---- straight ---- */

bool annb_rows_dense_fits(const annb_rows *r, uint64_t *height) {
  uint64_t width, bytes, row = r->m->n_cols * r->value_size, most = r->options.memory / 4;
  annb_values_chunk(&r->m->data, height, &width);
  if (*height > r->m->n_rows) *height = r->m->n_rows;
  if (*height == 0) *height = 1;
  if (!annb_mul(*height, row, &bytes) || (bytes > most && *height > 1)) return false;
  uint64_t target = BAND < most ? BAND : most;
  if (bytes == 0) *height = r->m->n_rows;
  else if (target / bytes > 1) *height *= target / bytes; /* several bands at once, on whole chunks */
  return true;
}

static annb_status read_band(annb_rows *r, annb_error *err) {
  const annb_source_matrix *m = r->m;
  uint64_t height, row = m->n_cols * r->value_size;
  annb_rows_dense_fits(r, &height);
  if (height > m->n_rows - r->row) height = m->n_rows - r->row;
  if (!r->band) {
    if (row > r->options.memory / 4)
      return annb_h5_fail(err, ANNB_ENOMEM, m->file, m->path, "has rows of %llu bytes: too much for the memory cap, raise it",
                          (unsigned long long)row);
    r->band = malloc(height * row + 1);
    if (!r->band) return annb_fail_memory(err);
  }
  r->band_first = r->row;
  r->band_rows = height;
  return row ? annb_values_read(&m->data, m->memory_type, r->row, height, r->band, err) : ANNB_OK;
}

annb_status annb_rows_next_dense(annb_rows *r, annb_rows_chunk *chunk, annb_error *err) {
  const uint64_t n_cols = r->m->n_cols, row_bytes = n_cols * r->value_size;
  annb_rows_piece *own = &r->own;
  annb_status s = annb_rows_reserve(r, own, n_cols, r->row, err);
  if (!s) s = annb_rows_reserve_rows(own, ANNB_ROWS_MAX, err);
  if (!s && r->row < r->m->n_rows && r->row == r->band_first + r->band_rows) s = read_band(r, err);
  if (s) return s;
  uint64_t n = 0, rows = 0, end = r->band_first + r->band_rows;
  own->indptr[0] = 0;
  for (; r->row < end && rows < ANNB_ROWS_MAX && n + n_cols <= own->room; r->row++) {
    const uint8_t *row = r->band + (r->row - r->band_first) * row_bytes;
    n += compact(row, n_cols, r->value_size, 0, (uint32_t *)own->indices + n, (uint8_t *)own->values + n * r->value_size);
    own->indptr[++rows] = n;
  }
  *chunk = (annb_rows_chunk){rows, own->indptr, own->indices, own->values};
  return ANNB_OK;
}

/* ---- by way of the transposer: the rows that share chunks do not fit memory ---- */

typedef struct box {
  uint64_t rows, cols; /* of one read: whole chunks where they are decompressed whole */
  uint8_t *bytes;
  uint32_t *keys, *columns;
  uint8_t *values;
  uint64_t n; /* elements waiting */
} box;

static annb_status flush(annb_rows *r, box *b, annb_error *err) {
  annb_status s = annb_transpose_push(r->transpose, b->n, b->keys, b->columns, b->values, err);
  b->n = 0;
  return s;
}

/* Elements of a row of the box, which goes by `key`, in pieces that fit the waiting elements. */
static annb_status push_row(annb_rows *r, box *b, const uint8_t *row, uint64_t n, uint32_t key, uint64_t column, annb_error *err) {
  for (uint64_t j = 0; j < n;) {
    uint64_t piece = n - j < PUSH - b->n ? n - j : PUSH - b->n;
    uint64_t k =
        compact(row + j * r->value_size, piece, r->value_size, (uint32_t)(column + j), b->columns + b->n, b->values + b->n * r->value_size);
    for (uint64_t i = 0; i < k; i++) b->keys[b->n + i] = key;
    b->n += k;
    j += piece;
    annb_status s = b->n == PUSH ? flush(r, b, err) : ANNB_OK;
    if (s) return s;
  }
  return ANNB_OK;
}

static annb_status push_box(annb_rows *r, box *b, uint64_t row, uint64_t col, annb_error *err) {
  const annb_source_matrix *m = r->m;
  uint64_t rows = b->rows < m->n_rows - row ? b->rows : m->n_rows - row, cols = b->cols < m->n_cols - col ? b->cols : m->n_cols - col;
  annb_status s = annb_values_read_box(&m->data, m->memory_type, row, rows, col, cols, b->bytes, err);
  for (uint64_t i = 0; i < rows && !s; i++)
    s = push_row(r, b, b->bytes + i * cols * r->value_size, cols, annb_rows_key(r, row + i), col, err);
  return s;
}

/* As much as a quarter of memory holds: first a chunk's height, then as many chunks beside each other as fit. */
static void choose_box(const annb_rows *r, box *b) {
  uint64_t height, width, most = r->options.memory / 4 / r->value_size;
  annb_values_chunk(&r->m->data, &height, &width);
  if (height == 0 || height > r->m->n_rows) height = r->m->n_rows;
  if (width == 0 || width > r->m->n_cols) width = r->m->n_cols;
  b->rows = height < most ? height : most;
  b->cols = most / b->rows;
  if (b->cols > width) b->cols -= b->cols % width;
  if (b->cols > r->m->n_cols) b->cols = r->m->n_cols;
}

annb_status annb_rows_spool_dense(annb_rows *r, annb_error *err) {
  const annb_source_matrix *m = r->m;
  box b = {0};
  choose_box(r, &b);
  b.bytes = malloc(b.rows * b.cols * r->value_size);
  b.keys = malloc(PUSH * sizeof *b.keys);
  b.columns = malloc(PUSH * sizeof *b.columns);
  b.values = malloc(PUSH * r->value_size);
  annb_status s = b.bytes && b.keys && b.columns && b.values ? ANNB_OK : annb_fail_memory(err);
  for (uint64_t row = 0; row < m->n_rows && !s; row += b.rows)
    for (uint64_t col = 0; col < m->n_cols && !s; col += b.cols) {
      s = push_box(r, &b, row, col, err);
      if (!s) s = annb_rows_progress(r, "reading columns", row * m->n_cols + col, m->n_rows * m->n_cols, err);
    }
  if (!s) s = flush(r, &b, err);
  free(b.bytes);
  free(b.keys);
  free(b.columns);
  free(b.values);
  return s;
}

/* ---- how many elements ---- */

annb_status annb_rows_expected(const annb_source_matrix *m, uint64_t *nnz, annb_error *err) {
  *nnz = m->nnz;
  if (m->form != ANNB_DENSE || m->n_rows == 0 || m->n_cols == 0) return ANNB_OK;
  size_t size = H5Tget_size(m->memory_type);
  uint64_t cols = m->n_cols < SAMPLE / size ? m->n_cols : SAMPLE / size, rows = SAMPLE / size / cols, kept = 0;
  if (rows > m->n_rows) rows = m->n_rows;
  uint64_t n = rows * cols;
  uint8_t *bytes = malloc(n * size), *values = malloc(n * size);
  uint32_t *indices = malloc(n * sizeof *indices);
  annb_status s =
      bytes && values && indices ? annb_values_read_box(&m->data, m->memory_type, 0, rows, 0, cols, bytes, err) : annb_fail_memory(err);
  if (!s) kept = compact(bytes, n, size, 0, indices, values);
  free(bytes);
  free(values);
  free(indices);
  double scaled = (double)kept / (double)n * (double)m->n_rows * (double)m->n_cols;
  *nnz = scaled < 1 ? 1 : scaled > (double)ANNB_MAX_NNZ ? ANNB_MAX_NNZ : (uint64_t)scaled;
  return s;
}
