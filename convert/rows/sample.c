#include "sample.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 65536, WINDOWS = 64, MOST_COLUMNS = 4096 };
#define MOST_ELEMENTS (UINT64_C(1) << 21)
#define MOST_DENSE (UINT64_C(1) << 22)   /* values looked at in a dense matrix */
#define DENSE_ROOM (UINT64_C(1) << 18)   /* of them at once */
#define DENSE_CHUNKS (UINT64_C(1) << 26) /* values in the chunks that they lie in */

void annb_sample_free(annb_sample *sample) {
  free(sample->indices);
  free(sample->starts);
  *sample = (annb_sample){NULL, NULL, 0};
}

static annb_status begin(annb_sample *sample, uint64_t nnz, annb_error *err) {
  uint64_t room = nnz < MOST_ELEMENTS ? nnz : MOST_ELEMENTS;
  *sample = (annb_sample){.indices = malloc((room + 1) * sizeof *sample->indices), .starts = calloc(room / 64 + 1, sizeof *sample->starts)};
  return sample->indices && sample->starts ? ANNB_OK : annb_fail_memory(err);
}

/* Elements [first, first + n) of one row: n is no more than the room left. `buffer` has room for PIECE. */
static annb_status add_elements(const annb_source_matrix *m, annb_sample *sample, uint64_t first, uint64_t n, int64_t *buffer,
                                annb_error *err) {
  const uint64_t limit = m->form == ANNB_CSR ? m->n_cols : m->n_rows;
  annb_status s = ANNB_OK;
  bool start = true;
  for (uint64_t i = 0, piece; i < n && !s; i += piece) {
    piece = n - i < PIECE ? n - i : PIECE;
    s = annb_values_read_i64(&m->indices, first + i, piece, buffer, err);
    for (uint64_t k = 0; k < piece && !s; k++) {
      bool good = buffer[k] >= 0 && (uint64_t)buffer[k] < limit && buffer[k] <= UINT32_MAX;
      if (good && start) sample->starts[sample->n / 64] |= UINT64_C(1) << sample->n % 64;
      if (good) sample->indices[sample->n++] = (uint32_t)buffer[k];
      start = !good;
    }
  }
  return s;
}

/* ---- neighbouring rows of CSR, or columns of CSC: "rows" here ---- */

/* Marks of rows are set for elements [from, from + n), which are in the sample from `at` on. */
static void mark_rows(annb_sample *sample, uint64_t at, const uint64_t *p, uint64_t rows, uint64_t n) {
  for (uint64_t r = 1; r < rows; r++) {
    uint64_t i = p[r] - p[0];
    if (i < n) sample->starts[(at + i) / 64] |= UINT64_C(1) << (at + i) % 64;
  }
}

/* The elements of rows [first, first + n), as many as `most`. Elements out of range would shift the marks of rows: they end the window. */
static annb_status add_rows(const annb_source_matrix *m, annb_sample *sample, uint64_t first, uint64_t n, uint64_t most, uint64_t *p,
                            int64_t *buffer, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint64_t done = 0, rows; done < n && most && !s; done += rows) {
    rows = n - done < PIECE ? n - done : PIECE;
    s = annb_values_read_pointers(&m->indptr, first + done, rows + 1, p, err);
    for (uint64_t i = 0; i <= rows && !s; i++)
      if (p[i] > m->nnz || (i && p[i] < p[i - 1])) return ANNB_OK;
    if (s) return s;
    uint64_t at = sample->n, elements = p[rows] - p[0] < most ? p[rows] - p[0] : most;
    s = add_elements(m, sample, p[0], elements, buffer, err);
    if (sample->n - at < elements) return s;
    mark_rows(sample, at, p, rows, elements);
    most -= elements;
  }
  return s;
}

static uint64_t window_row(uint64_t rows, uint64_t windows, uint64_t w) { return rows / windows * w + rows % windows * w / windows; }

/* Chunks that all windows lie in are decompressed together, where they are kept. Pointers that are wrong fetch others. */
static annb_status prefetch_windows(const annb_source_matrix *m, uint64_t rows, uint64_t windows, annb_error *err) {
  uint64_t firsts[WINDOWS];
  annb_status s = ANNB_OK;
  for (uint64_t w = 0; w < windows && !s; w++) {
    s = annb_values_read_pointers(&m->indptr, window_row(rows, windows, w), 1, &firsts[w], err);
    if (!s && (firsts[w] > m->nnz || (w && firsts[w] < firsts[w - 1]))) return ANNB_OK;
  }
  return s ? s : annb_values_prefetch(&m->indices, (uint32_t)windows, firsts, MOST_ELEMENTS / windows, err);
}

/* Windows of rows, all rows when the elements are few. */
static annb_status add_windows(const annb_source_matrix *m, annb_sample *out, annb_error *err) {
  annb_status s = ANNB_OK;
  uint64_t *p = malloc((PIECE + 1) * sizeof *p);
  int64_t *buffer = malloc(PIECE * sizeof *buffer);
  if (!s && (!p || !buffer)) s = annb_fail_memory(err);
  uint64_t rows = m->indptr.n - 1, windows = m->nnz <= MOST_ELEMENTS ? 1 : rows < WINDOWS ? rows : WINDOWS;
  if (!s && windows) s = prefetch_windows(m, rows, windows, err);
  for (uint64_t w = 0; w < windows && !s; w++) {
    uint64_t first = window_row(rows, windows, w), end = window_row(rows, windows, w + 1);
    s = add_rows(m, out, first, end - first, MOST_ELEMENTS / windows, p, buffer, err);
  }
  free(p);
  free(buffer);
  return s;
}

annb_status annb_sample_rows(const annb_source_matrix *m, annb_sample *out, annb_error *err) {
  annb_status s = begin(out, m->nnz, err);
  return s ? s : add_windows(m, out, err);
}

/* ---- columns of CSC ---- */

annb_status annb_sample_columns(const annb_source_matrix *m, const uint32_t *by_count, annb_sample *out, annb_error *err) {
  annb_status s = begin(out, m->nnz, err);
  if (s || m->nnz <= MOST_ELEMENTS) return s ? s : add_windows(m, out, err);
  int64_t *buffer = malloc(PIECE * sizeof *buffer);
  if (!buffer) return annb_fail_memory(err);
  for (uint64_t i = 0; i < m->n_cols && i < MOST_COLUMNS && !s; i++) {
    uint64_t p[2], left = MOST_ELEMENTS - out->n;
    s = annb_values_read_pointers(&m->indptr, by_count[i], 2, p, err);
    if (s || left == 0 || p[1] <= p[0] || p[1] > m->nnz) break;
    s = add_elements(m, out, p[0], p[1] - p[0] < left ? p[1] - p[0] : left, buffer, err);
  }
  free(buffer);
  return s;
}

/* ---- counts ---- */

static annb_status count_pointers(const annb_source_matrix *m, uint32_t *counts, annb_error *err) {
  uint64_t *p = malloc((PIECE + 1) * sizeof *p);
  annb_status s = p ? ANNB_OK : annb_fail_memory(err);
  for (uint64_t column = 0, n; column < m->n_cols && !s; column += n) {
    n = m->n_cols - column < PIECE ? m->n_cols - column : PIECE;
    s = annb_values_read_pointers(&m->indptr, column, n + 1, p, err);
    for (uint64_t i = 0; i < n && !s; i++) {
      uint64_t count = p[i + 1] > p[i] ? p[i + 1] - p[i] : 0;
      counts[column + i] = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
    }
  }
  free(p);
  return s;
}

static bool is_zero(const uint8_t *value, size_t size) {
  uint64_t x = 0;
  memcpy(&x, value, size);
  return x == 0;
}

/* Rows [first, first + n), in boxes of up to DENSE_ROOM values. */
static annb_status count_dense_rows(const annb_source_matrix *m, uint64_t first, uint64_t n, uint8_t *buffer, uint32_t *counts,
                                    annb_error *err) {
  const uint64_t size = H5Tget_size(m->memory_type), width = m->n_cols < DENSE_ROOM ? m->n_cols : DENSE_ROOM, height = DENSE_ROOM / width;
  annb_status s = ANNB_OK;
  for (uint64_t row = 0; row < n && !s; row += height)
    for (uint64_t col = 0; col < m->n_cols && !s; col += width) {
      uint64_t rows = n - row < height ? n - row : height, cols = m->n_cols - col < width ? m->n_cols - col : width;
      s = annb_values_read_box(&m->data, m->memory_type, first + row, rows, col, cols, buffer, err);
      for (uint64_t i = 0; i < rows * cols && !s; i++) counts[col + i % cols] += !is_zero(buffer + i * size, size);
    }
  return s;
}

/* Fewer where chunks are tall, for each is decompressed whole. */
static uint64_t dense_windows(const annb_source_matrix *m) {
  uint64_t height, width, windows = WINDOWS;
  annb_values_chunk(&m->data, &height, &width);
  if (height == 0) return WINDOWS;
  while (windows > WINDOWS / 8 && windows * height > DENSE_CHUNKS / m->n_cols) windows /= 2;
  uint64_t bands = m->n_rows / height + 1;
  return bands < windows ? bands : windows;
}

static annb_status count_dense(const annb_source_matrix *m, uint32_t *counts, annb_error *err) {
  uint64_t most = MOST_DENSE / m->n_cols, windows = dense_windows(m);
  if (most < windows) most = windows;
  if (m->n_rows <= most) windows = 1;
  uint64_t rows = m->n_rows < most ? m->n_rows : most / windows;
  uint8_t *buffer = malloc(DENSE_ROOM * H5Tget_size(m->memory_type));
  annb_status s = buffer ? ANNB_OK : annb_fail_memory(err);
  for (uint64_t w = 0; w < windows && !s; w++) {
    uint64_t first = m->n_rows / windows * w + m->n_rows % windows * w / windows;
    s = count_dense_rows(m, first, rows < m->n_rows - first ? rows : m->n_rows - first, buffer, counts, err);
  }
  free(buffer);
  return s;
}

annb_status annb_count_columns(const annb_source_matrix *m, const annb_sample *sample, uint32_t *counts, annb_error *err) {
  memset(counts, 0, m->n_cols * sizeof *counts);
  if (m->n_cols == 0 || m->n_rows == 0) return ANNB_OK;
  if (m->form == ANNB_CSC) return count_pointers(m, counts, err);
  if (m->form == ANNB_DENSE) return count_dense(m, counts, err);
  for (uint64_t i = 0; i < sample->n; i++) counts[sample->indices[i]]++;
  return ANNB_OK;
}
