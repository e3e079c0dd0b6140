#include "store_internal.h"

#include "../store/cursor.h"
#include "../store/error.h"
#include "loader/loader_internal.h"
#include "team.h"

#include <annblock/annblock.h>

#include <string.h>

annb_status annb_fetch_resolve(const annb_store *store, uint32_t matrix, const annb_fetch_options *options, annb_fetch_options *out,
                               annb_error *err) {
  *out = options ? *options : (annb_fetch_options){0};
  if (matrix >= store->manifest.n_matrices)
    return annb_fail(err, ANNB_ERANGE, store->path, "has %u matrices, there is no matrix %u", store->manifest.n_matrices, matrix);
  if (!out->dtype) out->dtype = (annb_dtype)store->manifest.matrices[matrix].dtype;
  if (!annb_dtype_size(out->dtype))
    return annb_fail(err, ANNB_EINVAL, store->path, "cannot deliver values of dtype %d: there is no such dtype", (int)out->dtype);
  if (out->gene_order != ANNB_GENES_ORIGINAL && out->gene_order != ANNB_GENES_STORED)
    return annb_fail(err, ANNB_EINVAL, store->path, "cannot deliver genes in order %d: it is original or stored", (int)out->gene_order);
  return ANNB_OK;
}

annb_status annb_fetch_nnz(const annb_store *store, uint32_t matrix, const uint64_t *rows, size_t n_rows, uint32_t *row_nnz,
                           uint64_t *total, annb_error *err) {
  if (!store || (!rows && n_rows)) return annb_fail(err, ANNB_EINVAL, NULL, "counting elements needs a store and row numbers");
  annb_locator locator;
  annb_status s = annb_locator_begin(&locator, store, matrix, NULL, err);
  uint64_t sum = 0;
  for (size_t i = 0; !s && i < n_rows; i++) {
    annb_located row;
    s = annb_locate(&locator, rows[i], &row, err);
    if (s) break;
    sum += row.record.nnz;
    if (sum > INT64_MAX) return annb_fail(err, ANNB_ERANGE, store->path, "the rows have more than 2^63 - 1 elements; ask for fewer rows");
    if (row_nnz) row_nnz[i] = row.record.nnz;
  }
  if (!s && total) *total = sum;
  return s;
}

/* ---- CSR ---- */

/* Where the batch goes. */
typedef struct csr_target {
  annb_fetch_options options;
  uint32_t value_size;
  uint8_t *indices, *values;
  uint64_t capacity;
} csr_target;

static void put_indices(const csr_target *t, uint64_t at, const uint32_t *indices, uint32_t n) {
  if (!t->options.index64) {
    memcpy(t->indices + at * sizeof(int32_t), indices, (size_t)n * sizeof *indices);
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    int64_t wide = indices[i];
    memcpy(t->indices + (at + i) * sizeof wide, &wide, sizeof wide);
  }
}

/* Decode into the caller's arrays where they have the decoder's types, alignment and slack, else by way of the scratch. `most`: elements
 * that the index said the row has. Its record.nnz becomes what is delivered. */
static annb_status put_row(const annb_store *store, annb_context *context, const csr_target *t, uint64_t at, uint64_t most,
                           annb_located *row, annb_error *err) {
  uint32_t n = row->record.nnz;
  /* the index may have been read twice: what the file says must not have changed under us, or rows would overrun their room */
  if (n != most)
    return annb_fail_row(err, ANNB_ECORRUPT, row->segment ? row->segment->path : store->path, (int64_t)row->store_row,
                         "store row %llu changed while it was read", (unsigned long long)row->store_row);
  if (!row->segment) return ANNB_OK;
  bool slack = at + n + ANNB_DECODE_SLACK <= t->capacity;
  bool direct_indices = slack && !t->options.index64 && (uintptr_t)t->indices % sizeof(uint32_t) == 0;
  bool direct_values = slack && row->segment->header.dtype == t->options.dtype && (uintptr_t)t->values % t->value_size == 0;
  uint32_t *indices = direct_indices ? (uint32_t *)(void *)(t->indices + at * sizeof(uint32_t)) : NULL;
  uint8_t *values = direct_values ? t->values + at * t->value_size : NULL;
  annb_status s = annb_row_deliver(store, context, row, row->genes, t->options.sort_indices, &indices, &values, err);
  if (s || !n) return s;
  n = annb_row_keep(row->genes, t->options.sort_indices, indices, values, annb_dtype_size((annb_dtype)row->segment->header.dtype), n);
  row->record.nnz = n;
  if (!direct_indices) put_indices(t, at, indices, n);
  if (!direct_values)
    s = annb_row_convert(row, indices, values, t->options.dtype, t->options.allow_lossy, t->values + at * t->value_size, err);
  return s;
}

static annb_status check_total(const annb_store *store, const csr_target *t, uint64_t total, annb_error *err) {
  if (!t->options.index64 && total > INT32_MAX)
    return annb_fail(err, ANNB_ERANGE, store->path, "the rows have %llu elements, over 2^31 - 1; ask for fewer rows or int64 indices",
                     (unsigned long long)total);
  if (total > t->capacity)
    return annb_fail(err, ANNB_ECAPACITY, store->path, "the rows have %llu elements, the arrays given have room for %llu",
                     (unsigned long long)total, (unsigned long long)t->capacity);
  if (total && (!t->indices || !t->values))
    return annb_fail(err, ANNB_EINVAL, store->path, "the rows have elements, but no arrays were given for them");
  return ANNB_OK;
}

/* A call: the rows are counted, then decoded in chunks by one thread or several. */
typedef struct csr_job {
  const annb_store *store;
  uint32_t matrix;
  const uint64_t *rows;
  size_t n_rows;
  csr_target target;
  int64_t *indptr; /* as it was counted, then what is delivered; of a chunk from its own start in the arrays */
  int64_t *bounds; /* as it was counted */
  const annb_located *located; /* of several threads: all rows, when they are few enough to be kept; else NULL */
  size_t ahead; /* rows from one that a thread decodes to the one of its next chunk, as a rule */
} csr_job;

static annb_status count_rows(csr_job *job, annb_walk *walk, annb_error *err) {
  annb_status s = annb_walk_begin(walk, job->store, job->matrix, &job->target.options, job->rows, job->n_rows, err);
  return s ? s : annb_walk_count(walk, job->indptr, err);
}

/* The i-th row; with one that the thread decodes soon on its way into the cache. */
static annb_status next_row(const csr_job *job, annb_walk *walk, size_t i, const annb_located **row, annb_error *err) {
  if (!job->located) return annb_walk_next(walk, row, err);
  *row = &job->located[i];
  if (i + job->ahead < job->n_rows) annb_record_prefetch(&job->located[i + job->ahead].record);
  return ANNB_OK;
}

/* Rows first … end - 1 one behind the other from where the first was counted to be. The decoder's slack must not reach rows of others. */
static annb_status put_rows(csr_job *job, annb_context *context, annb_walk *walk, size_t first, size_t end, annb_error *err) {
  csr_target t = job->target;
  const annb_located *next;
  annb_status s = ANNB_OK;
  int64_t at = job->bounds[first];
  if (end < job->n_rows) t.capacity = (uint64_t)job->bounds[end];
  for (size_t i = first; !s && i < end; i++) {
    s = next_row(job, walk, i, &next, err);
    if (s) break;
    annb_located row = *next;
    s = put_row(job->store, context, &t, (uint64_t)at, (uint64_t)(job->bounds[i + 1] - job->bounds[i]), &row, err);
    job->indptr[i + 1] = at += row.record.nnz;
  }
  return s;
}

static annb_status put_chunk(void *user, annb_context *context, size_t first, size_t end, annb_error *err) {
  csr_job *job = user;
  annb_walk walk;
  if (job->located) {
    for (size_t i = first; i < end && first < job->ahead; i++) annb_record_prefetch(&job->located[i].record);
    return put_rows(job, context, NULL, first, end, err);
  }
  annb_status s = annb_walk_begin(&walk, job->store, job->matrix, &job->target.options, job->rows + first, end - first, err);
  return s ? s : put_rows(job, context, &walk, first, end, err);
}

/* Where rows had genes that the store has not, there are gaps between chunks. */
static void close_gaps(csr_job *job, size_t chunk) {
  size_t index_size = job->target.options.index64 ? sizeof(int64_t) : sizeof(int32_t), value_size = job->target.value_size;
  for (size_t first = chunk; first < job->n_rows; first += chunk) {
    size_t end = job->n_rows - first > chunk ? first + chunk : job->n_rows;
    uint64_t from = (uint64_t)job->bounds[first], to = (uint64_t)job->indptr[first], n = (uint64_t)job->indptr[end] - from;
    if (from == to) continue;
    memmove(job->target.indices + to * index_size, job->target.indices + from * index_size, (size_t)n * index_size);
    memmove(job->target.values + to * value_size, job->target.values + from * value_size, (size_t)n * value_size);
    for (size_t i = first; i < end; i++) job->indptr[i + 1] -= (int64_t)(from - to);
  }
}

/* After count_rows with the same walk. */
static annb_status decode_rows(csr_job *job, annb_context *context, annb_walk *walk, annb_error *err) {
  uint32_t n_threads = job->target.options.n_threads;
  size_t chunk = annb_team_chunk(n_threads, job->n_rows), size = (job->n_rows + 1) * sizeof *job->bounds;
  job->bounds = annb_scratch_get(&context->scratch, ANNB_SLOT_BOUNDS, size);
  if (!job->bounds) return annb_fail_memory(err);
  memcpy(job->bounds, job->indptr, size);
  if (chunk == job->n_rows) return put_rows(job, context, walk, 0, job->n_rows, err);
  job->located = job->n_rows <= ANNB_WALK_KEPT ? walk->kept : NULL;
  job->ahead = chunk * n_threads;
  annb_status s = annb_team_run(context, n_threads, job->n_rows, chunk, put_chunk, job, err);
  if (!s) close_gaps(job, chunk);
  return s;
}

annb_status annb_fetch_csr(const annb_store *store, annb_context *context, uint32_t matrix, const uint64_t *rows, size_t n_rows,
                           const annb_fetch_options *options, int64_t *indptr, void *indices, void *values, uint64_t capacity,
                           annb_error *err) {
  if (!store || !context || !indptr || (!rows && n_rows))
    return annb_fail(err, ANNB_EINVAL, NULL, "fetching rows needs a store, a context, row numbers and room for row pointers");
  csr_job job = {.store = store, .matrix = matrix, .rows = rows, .n_rows = n_rows, .indptr = indptr};
  job.target = (csr_target){.indices = indices, .values = values, .capacity = capacity};
  annb_walk walk;
  annb_status s = annb_fetch_resolve(store, matrix, options, &job.target.options, err);
  job.target.value_size = annb_dtype_size(job.target.options.dtype);
  if (!s) s = count_rows(&job, &walk, err);
  if (!s) s = check_total(store, &job.target, (uint64_t)indptr[n_rows], err);
  return s ? s : decode_rows(&job, context, &walk, err);
}

annb_status annb_put_csr_row(const annb_store *store, annb_context *context, const annb_fetch_options *resolved, void *indices,
                             void *values, uint64_t capacity, uint64_t at, annb_located *row, annb_error *err) {
  csr_target t = {.options = *resolved, .value_size = annb_dtype_size(resolved->dtype), .indices = indices, .values = values,
                  .capacity = capacity};
  return put_row(store, context, &t, at, row->record.nnz, row, err);
}

/* ---- into memory of the context ---- */

enum { KEPT_SLOTS = 3, KEPT_BYTES = 32 << 20 };

/* A slot of the context's pool; a forked child makes a pool of its own. */
static annb_slot *take_slot(annb_context *context) {
  if (context->pool && context->pool_process != annb_io_process()) context->pool = NULL;
  if (!context->pool && (context->pool = annb_pool_open(1, 0, KEPT_SLOTS, false))) {
    annb_pool_limit(context->pool, KEPT_BYTES);
    context->pool_process = annb_io_process();
  }
  return context->pool ? annb_pool_get(context->pool) : NULL;
}

static annb_status fill_csr(csr_job *job, annb_context *context, annb_slot *slot, annb_error *err) {
  annb_walk walk;
  annb_slot_buffer *buffers = slot->buffers[0];
  csr_target *t = &job->target;
  uint64_t index_bytes, value_bytes, indptr_bytes;
  if (!annb_add(job->n_rows, 1, &indptr_bytes) || !annb_mul(indptr_bytes, sizeof *job->indptr, &indptr_bytes)) return annb_fail_memory(err);
  job->indptr = annb_slot_room(&buffers[0], (size_t)indptr_bytes);
  if (!job->indptr) return annb_fail_memory(err);
  annb_status s = count_rows(job, &walk, err);
  if (s) return s;
  t->capacity = (uint64_t)job->indptr[job->n_rows] + ANNB_DECODE_SLACK;
  t->options.index64 = t->options.index64 || t->capacity > INT32_MAX;
  if (!annb_mul(t->capacity, t->options.index64 ? 8 : 4, &index_bytes) || !annb_mul(t->capacity, t->value_size, &value_bytes))
    return annb_fail_memory(err);
  t->indices = annb_slot_room(&buffers[1], (size_t)index_bytes);
  t->values = annb_slot_room(&buffers[2], (size_t)value_bytes);
  if (!t->indices || !t->values) return annb_fail_memory(err);
  s = decode_rows(job, context, &walk, err);
  slot->matrices[0] = (annb_batch_matrix){.index64 = t->options.index64, .indptr = job->indptr, .indices = t->indices, .values = t->values};
  slot->matrices[0].nnz = (uint64_t)job->indptr[s ? 0 : job->n_rows];
  return s;
}

static annb_status fill_dense(csr_job *job, annb_context *context, annb_slot *slot, annb_error *err) {
  uint64_t n_cols = job->store->manifest.matrices[job->matrix].n_cols, size;
  bool fits = annb_mul(n_cols, job->target.value_size, &size) && annb_mul(size, job->n_rows, &size) && size < SIZE_MAX;
  void *values = fits ? annb_slot_room(&slot->buffers[0][2], (size_t)size + 1) : NULL;
  if (!values) return annb_fail_memory(err);
  slot->matrices[0] = (annb_batch_matrix){.dense = true, .values = values};
  return annb_fetch_dense(job->store, context, job->matrix, job->rows, job->n_rows, &job->target.options, values, 0, (size_t)size, err);
}

annb_status annb_fetch_batch(const annb_store *store, annb_context *context, uint32_t matrix, const uint64_t *rows, size_t n_rows,
                             const annb_fetch_options *options, bool dense, annb_batch *batch, annb_error *err) {
  if (!store || !context || !batch || (!rows && n_rows))
    return annb_fail(err, ANNB_EINVAL, NULL, "fetching rows needs a store, a context, row numbers and a place for the batch");
  *batch = (annb_batch){0};
  csr_job job = {.store = store, .matrix = matrix, .rows = rows, .n_rows = n_rows};
  annb_status s = annb_fetch_resolve(store, matrix, options, &job.target.options, err);
  if (s) return s;
  job.target.value_size = annb_dtype_size(job.target.options.dtype);
  annb_slot *slot = take_slot(context);
  if (!slot) return annb_fail_memory(err);
  s = dense ? fill_dense(&job, context, slot, err) : fill_csr(&job, context, slot, err);
  slot->matrices[0].dtype = job.target.options.dtype;
  slot->matrices[0].n_cols = store->manifest.matrices[matrix].n_cols;
  if (s) annb_slot_give_back(slot);
  else *batch = (annb_batch){.n_rows = n_rows, .matrices = slot->matrices, .owner = slot};
  return s;
}
