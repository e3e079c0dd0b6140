#include "store_internal.h"

#include "../store/cursor.h"
#include "../store/error.h"
#include "convert_values.h"
#include "team.h"

#include <annblock/annblock.h>

#include <string.h>

static bool strictly_ascends(const uint32_t *indices, uint32_t n) {
  for (uint32_t i = 1; i < n; i++)
    if (indices[i] <= indices[i - 1]) return false;
  return true;
}

/* Each column at most once: plain stores, which keep the bits of −0.0 and NaN. */
static void scatter(const uint32_t *indices, const uint8_t *values, uint32_t n, uint32_t size, uint8_t *out) {
  for (uint32_t i = 0; i < n; i++) {
    uint8_t *to = out + (size_t)indices[i] * size;
    switch (size) {
    case 1: *to = values[i]; break;
    case 2: memcpy(to, values + (size_t)i * 2, 2); break;
    case 4: memcpy(to, values + (size_t)i * 4, 4); break;
    default: memcpy(to, values + (size_t)i * 8, 8); break;
    }
  }
}

/* In any order, with repeats: the first of a column is stored, the others are added. `seen` has a zero bit for each column. */
static void scatter_sums(const uint32_t *indices, const uint8_t *values, uint32_t n, annb_dtype dtype, uint64_t *seen, uint8_t *out) {
  uint32_t size = annb_dtype_size(dtype);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t column = indices[i];
    uint64_t bit = UINT64_C(1) << column % 64;
    uint8_t *to = out + (size_t)column * size;
    if (seen[column / 64] & bit) annb_add_value(dtype, to, values + (size_t)i * size);
    else memcpy(to, values + (size_t)i * size, size);
    seen[column / 64] |= bit;
  }
}

/* Columns of a row as it is decoded: the store's, and behind them those of genes that it has not. */
static size_t decoded_columns(const annb_located *row) { return row->genes ? row->genes->n_out : (size_t)row->segment->header.n_cols; }

/* Decode by the general way and put the elements into `out`, which is zero. The record was checked. */
static annb_status put_elements(annb_context *context, annb_located *row, const annb_fetch_options *options, uint8_t *out,
                                annb_error *err) {
  uint32_t n = row->record.nnz, size = annb_dtype_size(options->dtype);
  uint32_t *indices = NULL;
  uint8_t *values = NULL;
  annb_status s = annb_row_decode(context, row, &indices, &values, err);
  if (s || !n) return s;
  bool distinct = strictly_ascends(indices, n); /* told by stored ids, which rows are mostly sorted by */
  annb_row_map(row->genes, indices, n);
  row->record.nnz = n = annb_row_keep(row->genes, false, indices, values, annb_dtype_size((annb_dtype)row->segment->header.dtype), n);
  if (row->segment->header.dtype != options->dtype) {
    uint8_t *converted = annb_scratch_get(&context->scratch, ANNB_SLOT_COPY, (size_t)n * size);
    if (!converted) return annb_fail_memory(err);
    s = annb_row_convert(row, indices, values, options->dtype, options->allow_lossy, converted, err);
    if (s) return s;
    values = converted;
  }
  if (distinct) {
    scatter(indices, values, n, size, out);
    return ANNB_OK;
  }
  size_t words = decoded_columns(row) / 64 + 1;
  uint64_t *seen = annb_scratch_get(&context->scratch, ANNB_SLOT_KEYS, words * sizeof *seen);
  if (!seen) return annb_fail_memory(err);
  memset(seen, 0, words * sizeof *seen);
  scatter_sums(indices, values, n, options->dtype, seen, out);
  return ANNB_OK;
}

/* The fast way, where there is one. Rows with genes that the store has not are decoded whole, beside `out`. */
static annb_status deliver(annb_context *context, const annb_located *row, uint8_t *out, bool *done, annb_error *err) {
  const annb_gene_table *genes = row->genes;
  bool cut = genes && genes->n_kept < genes->n_out;
  float *whole = (float *)(void *)out;
  if (cut) {
    whole = annb_scratch_get(&context->scratch, ANNB_SLOT_DENSE, (size_t)genes->n_out * sizeof *whole);
    if (!whole) return annb_fail_memory(err);
  }
  annb_status s =
      annb_segment_deliver(row->segment, row->segment_row, &row->record, genes, ANNB_ROW_DENSE, NULL, whole, &context->codec, done, err);
  if (s) return annb_name_row(row, s, err);
  if (*done && cut) memcpy(out, whole, (size_t)genes->n_kept * sizeof *whole);
  return ANNB_OK;
}

/* One row into `length` bytes, which hold all its columns. They are zeroed just before they are filled, while they are in the cache. */
annb_status annb_put_dense_row(const annb_store *store, annb_context *context, annb_located *row, const annb_fetch_options *options,
                               uint8_t *out, size_t length, annb_error *err) {
  const annb_segment *g = row->segment;
  annb_status s = ANNB_OK;
  bool done = false;
  if (g) s = annb_row_check(store, row, err);
  if (s) return s;
  if (g && g->header.dtype == ANNB_F32 && options->dtype == ANNB_F32 && (uintptr_t)out % sizeof(float) == 0)
    s = deliver(context, row, out, &done, err);
  if (s) return s;
  size_t filled = done ? (row->genes ? row->genes->n_kept : (size_t)g->header.n_cols) * sizeof(float) : 0;
  if (length > filled) memset(out + filled, 0, length - filled);
  return done || !g ? ANNB_OK : put_elements(context, row, options, out, err);
}

/* Bytes from one row to the next; the last row may end with its last column. */
static annb_status check_room(const annb_store *store, uint64_t n_cols, size_t n_rows, uint64_t stride, uint32_t value_size, size_t size,
                              uint64_t *row_bytes, annb_error *err) {
  uint64_t need = 0;
  if (!stride) stride = n_cols;
  if (stride < n_cols)
    return annb_fail(err, ANNB_EINVAL, store->path, "rows of %llu columns do not fit a stride of %llu", (unsigned long long)n_cols,
                     (unsigned long long)stride);
  bool fits = annb_mul(stride, value_size, row_bytes);
  if (n_rows) fits = fits && annb_mul(n_rows - 1, *row_bytes, &need) && annb_add(need, n_cols * value_size, &need);
  if (fits && need <= size) return ANNB_OK;
  return annb_fail(err, ANNB_ECAPACITY, store->path, "%zu rows of %llu columns do not fit the %zu bytes given", n_rows,
                   (unsigned long long)n_cols, size);
}

/* A call. */
typedef struct dense_job {
  const annb_store *store;
  uint32_t matrix;
  const uint64_t *rows;
  annb_fetch_options options;
  uint8_t *out;
  uint64_t row_bytes;
  size_t size;
} dense_job;

/* Bytes of `out` that row i begins at. */
static size_t place_of(const dense_job *job, size_t i) {
  return job->row_bytes && i > job->size / job->row_bytes ? job->size : i * (size_t)job->row_bytes;
}

static annb_status put_chunk(void *user, annb_context *context, size_t first, size_t end, annb_error *err) {
  const dense_job *job = user;
  annb_walk walk;
  const annb_located *next;
  annb_status s = annb_walk_begin(&walk, job->store, job->matrix, &job->options, job->rows + first, end - first, err);
  for (size_t i = first; !s && i < end; i++) {
    s = annb_walk_next(&walk, &next, err);
    if (s) break;
    annb_located row = *next;
    size_t at = place_of(job, i), left = job->size - at;
    s = annb_put_dense_row(job->store, context, &row, &job->options, job->out ? job->out + at : NULL,
                           left < job->row_bytes ? left : (size_t)job->row_bytes, err);
  }
  return s;
}

annb_status annb_fetch_dense(const annb_store *store, annb_context *context, uint32_t matrix, const uint64_t *rows, size_t n_rows,
                             const annb_fetch_options *options, void *values, uint64_t stride, size_t size, annb_error *err) {
  if (!store || !context || (!rows && n_rows) || (!values && size))
    return annb_fail(err, ANNB_EINVAL, NULL, "fetching dense rows needs a store, a context, row numbers and room for values");
  dense_job job = {.store = store, .matrix = matrix, .rows = rows, .out = values, .size = size};
  annb_walk walk;
  annb_status s = annb_fetch_resolve(store, matrix, options, &job.options, err);
  if (s) return s;
  uint32_t value_size = annb_dtype_size(job.options.dtype), n_threads = job.options.n_threads;
  s = check_room(store, store->manifest.matrices[matrix].n_cols, n_rows, stride, value_size, size, &job.row_bytes, err);
  size_t chunk = annb_team_chunk(n_threads, n_rows);
  if (!s) s = annb_walk_begin(&walk, store, matrix, &job.options, rows, n_rows, err);
  if (!s && chunk < n_rows) s = annb_walk_places(&walk, err);
  if (!s) s = annb_team_run(context, n_threads, n_rows, chunk, put_chunk, &job, err);
  size_t filled = place_of(&job, n_rows);
  if (!s && filled < size) memset(job.out + filled, 0, size - filled);
  return s;
}
