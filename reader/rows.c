#include "store_internal.h"

#include "../store/error.h"
#include "convert_values.h"

#include <annblock/annblock.h>

#include <string.h>

annb_status annb_row_check(const annb_store *store, const annb_located *row, annb_error *err) {
  if (store->skip_checks) return ANNB_OK;
  annb_status s = annb_segment_check(row->segment, row->segment_row, &row->record, err);
  return s ? annb_name_row(row, s, err) : ANNB_OK;
}

static annb_status take_room(annb_context *context, const annb_located *row, uint32_t **indices, uint8_t **values, annb_error *err) {
  size_t room = (size_t)row->record.nnz + ANNB_DECODE_SLACK, size = annb_dtype_size((annb_dtype)row->segment->header.dtype);
  if (!*indices) *indices = annb_scratch_get(&context->scratch, ANNB_SLOT_INDICES, room * sizeof **indices);
  if (!*values) *values = annb_scratch_get(&context->scratch, ANNB_SLOT_VALUES, room * size);
  return *indices && *values ? ANNB_OK : annb_fail_memory(err);
}

annb_status annb_row_decode(annb_context *context, const annb_located *row, uint32_t **indices, uint8_t **values, annb_error *err) {
  annb_status s = take_room(context, row, indices, values, err);
  if (s) return s;
  s = annb_segment_decode(row->segment, row->segment_row, &row->record, *indices, *values, &context->codec, err);
  return s ? annb_name_row(row, s, err) : ANNB_OK;
}

void annb_row_map(const annb_gene_table *genes, uint32_t *indices, uint32_t n) {
  if (!genes) return;
  for (uint32_t i = 0; i < n; i++) indices[i] = genes->wide[indices[i]];
}

/* Without a branch: every element is copied, and the place moves on behind those that stay. */
static uint32_t keep_words(uint32_t limit, uint32_t *indices, uint32_t *values, uint32_t n) {
  uint32_t k = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t index = indices[i];
    indices[k] = index;
    values[k] = values[i];
    k += index < limit;
  }
  return k;
}

static uint32_t keep_values(uint32_t limit, uint32_t *indices, uint8_t *values, uint32_t size, uint32_t n) {
  uint32_t k = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (indices[i] >= limit) continue;
    indices[k] = indices[i];
    memmove(values + (size_t)k * size, values + (size_t)i * size, size);
    k++;
  }
  return k;
}

uint32_t annb_row_keep(const annb_gene_table *genes, bool sorted, uint32_t *indices, uint8_t *values, uint32_t size, uint32_t n) {
  if (!genes || genes->n_kept == genes->n_out) return n;
  if (sorted) { /* they are the last */
    while (n && indices[n - 1] >= genes->n_kept) n--;
    return n;
  }
  bool words = size == sizeof(uint32_t) && (uintptr_t)values % sizeof(uint32_t) == 0;
  return words ? keep_words(genes->n_kept, indices, (uint32_t *)(void *)values, n) : keep_values(genes->n_kept, indices, values, size, n);
}

/* ---- sorting: index << 32 | position by the index's bytes, least first; such a sort is stable ---- */

static bool ascends(const uint32_t *indices, uint32_t n) {
  for (uint32_t i = 1; i < n; i++)
    if (indices[i] < indices[i - 1]) return false;
  return true;
}

/* One pass; false when all keys have the same byte, then nothing was moved. */
static bool sort_by_byte(const uint64_t *from, uint64_t *to, uint32_t n, unsigned shift) {
  uint32_t at[256] = {0}, sum = 0;
  for (uint32_t i = 0; i < n; i++) at[from[i] >> shift & 255]++;
  if (at[from[0] >> shift & 255] == n) return false;
  for (unsigned b = 0; b < 256; b++) {
    uint32_t count = at[b];
    at[b] = sum;
    sum += count;
  }
  for (uint32_t i = 0; i < n; i++) to[at[from[i] >> shift & 255]++] = from[i];
  return true;
}

static void gather(const uint64_t *keys, uint32_t n, uint32_t size, const uint8_t *from, uint8_t *to) {
  for (uint32_t i = 0; i < n; i++) {
    const uint8_t *value = from + (keys[i] & UINT32_MAX) * size;
    switch (size) {
    case 1: to[i] = *value; break;
    case 2: memcpy(to + (size_t)i * 2, value, 2); break;
    case 4: memcpy(to + (size_t)i * 4, value, 4); break;
    default: memcpy(to + (size_t)i * 8, value, 8); break;
    }
  }
}

static annb_status sort_row(annb_context *context, const annb_located *row, const annb_gene_table *genes, uint32_t *indices,
                            uint8_t *values, annb_error *err) {
  uint32_t n = row->record.nnz, size = annb_dtype_size((annb_dtype)row->segment->header.dtype);
  if (ascends(indices, n)) return ANNB_OK;
  uint64_t *keys = annb_scratch_get(&context->scratch, ANNB_SLOT_KEYS, 2 * (size_t)n * sizeof *keys);
  uint8_t *copy = annb_scratch_get(&context->scratch, ANNB_SLOT_COPY, (size_t)n * size);
  if (!keys || !copy) return annb_fail_memory(err);
  uint64_t *other = keys + n, n_ids = genes ? genes->n_out : row->segment->header.n_cols;
  for (uint32_t i = 0; i < n; i++) keys[i] = (uint64_t)indices[i] << 32 | i;
  for (unsigned shift = 32; shift < 64 && (n_ids - 1) >> (shift - 32); shift += 8) {
    if (!sort_by_byte(keys, other, n, shift)) continue;
    uint64_t *sorted = other;
    other = keys;
    keys = sorted;
  }
  memcpy(copy, values, (size_t)n * size);
  gather(keys, n, size, copy, values);
  for (uint32_t i = 0; i < n; i++) indices[i] = (uint32_t)(keys[i] >> 32);
  return ANNB_OK;
}

/* ---- all of it ---- */

annb_status annb_row_deliver(const annb_store *store, annb_context *context, const annb_located *row, const annb_gene_table *genes,
                             bool sort, uint32_t **indices, uint8_t **values, annb_error *err) {
  bool done = false;
  annb_status s = annb_row_check(store, row, err);
  if (!s) s = take_room(context, row, indices, values, err);
  if (s) return s;
  if (row->segment->header.dtype == ANNB_F32)
    s = annb_segment_deliver(row->segment, row->segment_row, &row->record, genes, sort ? ANNB_ROW_SORTED : ANNB_ROW_CSR, *indices,
                             (float *)(void *)*values, &context->codec, &done, err);
  if (s) return annb_name_row(row, s, err);
  if (done) return ANNB_OK;
  s = annb_row_decode(context, row, indices, values, err);
  if (s) return s;
  annb_row_map(genes, *indices, row->record.nnz);
  return sort ? sort_row(context, row, genes, *indices, *values, err) : ANNB_OK;
}

/* ---- values ---- */

annb_status annb_row_convert(const annb_located *row, const uint32_t *indices, const uint8_t *values, annb_dtype dtype, bool allow_lossy,
                             void *out, annb_error *err) {
  annb_dtype from = (annb_dtype)row->segment->header.dtype;
  size_t bad;
  if (annb_convert_values(from, dtype, allow_lossy, values, row->record.nnz, out, &bad)) return ANNB_OK;
  char text[32];
  annb_value_text(from, values + bad * annb_dtype_size(from), text);
  return annb_fail_row(err, ANNB_ELOSSY, row->segment->path, (int64_t)row->store_row,
                       "store row %llu (segment row %llu): the %s value %s in column %u is not exact in %s; "
                       "ask for another dtype or allow lossy values",
                       (unsigned long long)row->store_row, (unsigned long long)row->segment_row, annb_dtype_name(from), text, indices[bad],
                       annb_dtype_name(dtype));
}
