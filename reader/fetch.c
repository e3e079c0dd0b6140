#include "store_internal.h"

#include "../store/cursor.h"
#include "../store/error.h"

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

annb_status annb_fetch_csr(const annb_store *store, annb_context *context, uint32_t matrix, const uint64_t *rows, size_t n_rows,
                           const annb_fetch_options *options, int64_t *indptr, void *indices, void *values, uint64_t capacity,
                           annb_error *err) {
  if (!store || !context || !indptr || (!rows && n_rows))
    return annb_fail(err, ANNB_EINVAL, NULL, "fetching rows needs a store, a context, row numbers and room for row pointers");
  csr_target t = {.indices = indices, .values = values, .capacity = capacity};
  annb_walk walk;
  const annb_located *next;
  annb_status s = annb_fetch_resolve(store, matrix, options, &t.options, err);
  t.value_size = annb_dtype_size(t.options.dtype);
  if (!s) s = annb_walk_begin(&walk, store, matrix, &t.options, rows, n_rows, err);
  if (!s) s = annb_walk_count(&walk, indptr, err);
  if (!s) s = check_total(store, &t, (uint64_t)indptr[n_rows], err);
  int64_t bound = 0; /* indptr[i] as it was counted */
  for (size_t i = 0; !s && i < n_rows; i++) {
    uint64_t most = (uint64_t)(indptr[i + 1] - bound);
    bound = indptr[i + 1];
    s = annb_walk_next(&walk, &next, err);
    if (s) break;
    annb_located row = *next;
    s = put_row(store, context, &t, (uint64_t)indptr[i], most, &row, err);
    indptr[i + 1] = indptr[i] + row.record.nnz;
  }
  return s;
}

annb_status annb_put_csr_row(const annb_store *store, annb_context *context, const annb_fetch_options *resolved, void *indices,
                             void *values, uint64_t capacity, uint64_t at, annb_located *row, annb_error *err) {
  csr_target t = {.options = *resolved, .value_size = annb_dtype_size(resolved->dtype), .indices = indices, .values = values,
                  .capacity = capacity};
  return put_row(store, context, &t, at, row->record.nnz, row, err);
}
