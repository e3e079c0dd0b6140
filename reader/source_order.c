#include "source_order.h"

#include "store_internal.h"

#include "../store/error.h"
#include "../store/objects/order.h"

#include <annblock/annblock.h>

#include <stdlib.h>
#include <string.h>

struct annb_source_rows {
  const annb_store *store;
  uint32_t matrix;
  uint64_t first, end; /* store rows of the part */
  uint32_t value_size;
  annb_arrays *arrays; /* the order object, or NULL */
  annb_source_order order;
  annb_gene_table ranks; /* stored id → position in order.columns; empty without them */
};

/* ---- opening ---- */

/* Sorting by rank is delivering sorted, with a table that leads from stored ids to ranks. */
static annb_status make_ranks(annb_source_rows *r, const annb_fmt_part_matrix *pm, annb_error *err) {
  const annb_gene_table *genes;
  annb_status s = annb_get_gene_order(r->store, pm, &genes, err);
  if (s || !r->order.columns) return s;
  uint32_t n = (uint32_t)pm->n_cols;
  uint32_t *rank = malloc(((size_t)n + 1) * sizeof *rank), *composed = malloc(((size_t)n + 1) * sizeof *composed);
  if (rank && composed) {
    for (uint32_t i = 0; i < n; i++) rank[r->order.columns[i]] = i;
    for (uint32_t i = 0; i < n; i++) composed[i] = rank[genes ? genes->wide[i] : i];
  }
  bool made = rank && composed && annb_gene_table_init(&r->ranks, composed, n, n);
  free(rank);
  free(composed);
  return made ? ANNB_OK : annb_fail_memory(err);
}

static annb_status open_order(annb_source_rows *r, const annb_fmt_part_matrix *pm, annb_error *err) {
  if (pm->source_order == ANNB_NONE) return ANNB_OK;
  annb_status s = annb_open_arrays(r->store, pm->source_order, &r->arrays, err);
  if (!s) s = annb_source_order_read(r->arrays, (annb_form)pm->form, r->end - r->first, pm->n_cols, &r->order, err);
  return s ? s : make_ranks(r, pm, err);
}

annb_status annb_source_rows_open(const annb_store *store, uint32_t part, uint32_t matrix, annb_source_rows **out, annb_error *err) {
  const annb_fmt_part_matrix *pm = NULL;
  if (part < store->manifest.n_parts && matrix < store->manifest.n_matrices) pm = annb_find_part_matrix(store, part, matrix);
  if (!pm) return annb_fail(err, ANNB_ENOTFOUND, store->path, "part %u has no matrix %u", part, matrix);
  annb_source_rows *r = calloc(1, sizeof *r);
  if (!r) return annb_fail_memory(err);
  r->store = store;
  r->matrix = matrix;
  r->first = store->part_first[part];
  r->end = store->part_first[part + 1];
  r->value_size = annb_dtype_size((annb_dtype)pm->dtype);
  annb_status s = open_order(r, pm, err);
  if (s) annb_source_rows_close(r);
  else *out = r;
  return s;
}

void annb_source_rows_close(annb_source_rows *source) {
  if (!source) return;
  annb_gene_table_free(&source->ranks);
  annb_arrays_close(source->arrays);
  free(source);
}

const uint64_t *annb_source_rows_order(const annb_source_rows *source) { return source->order.rows; }

/* ---- rows ---- */

static void copy(uint32_t n, uint32_t size, const uint32_t *indices, const uint8_t *values, int32_t *out_indices, uint8_t *out_values) {
  if (!n) return; /* there may be no room at all */
  memcpy(out_indices, indices, (size_t)n * sizeof *indices);
  memcpy(out_values, values, (size_t)n * size);
}

static void gather(const uint32_t *places, uint32_t n, uint32_t size, const uint32_t *indices, const uint8_t *values, int32_t *out_indices,
                   uint8_t *out_values) {
  for (uint32_t i = 0; i < n; i++) {
    out_indices[i] = (int32_t)indices[places[i]];
    memcpy(out_values + (size_t)i * size, values + (size_t)places[i] * size, size);
  }
}

/* Step 3, for the entry k of the order object. */
static annb_status arrange(const annb_source_rows *r, annb_context *context, uint64_t k, uint32_t n, const uint32_t *indices,
                           const uint8_t *values, int32_t *out_indices, uint8_t *out_values, annb_error *err) {
  size_t words = annb_source_order_words(n);
  uint64_t *scratch = annb_scratch_get(&context->scratch, ANNB_SLOT_KEYS, words * sizeof *scratch + (size_t)n * sizeof(uint32_t));
  if (!scratch) return annb_fail_memory(err);
  uint32_t *places = (uint32_t *)(void *)(scratch + words);
  annb_status s = annb_source_order_places(&r->order, k, n, places, scratch, err);
  if (!s) gather(places, n, r->value_size, indices, values, out_indices, out_values);
  return s;
}

/* `room`: elements. Rows are decoded in place where the decoder's slack fits and the order object does not list them. */
static annb_status put_row(const annb_source_rows *r, annb_context *context, const annb_located *row, uint64_t room, int32_t *out_indices,
                           uint8_t *out_values, annb_error *err) {
  const uint32_t n = row->record.nnz;
  const bool sorted = row->segment->envelope.header.export_mask & ANNB_EXPORT_SORTED, by_rank = sorted && r->order.columns;
  const uint64_t part_row = row->store_row - r->first, k = sorted ? annb_source_order_seek(&r->order, part_row) : 0;
  const bool listed = sorted && k < r->order.n_entries && r->order.entry_rows[k] == part_row;
  const bool direct = !listed && room >= (uint64_t)n + ANNB_DECODE_SLACK && (uintptr_t)out_values % r->value_size == 0;
  uint32_t *indices = direct ? (uint32_t *)out_indices : NULL;
  uint8_t *values = direct ? out_values : NULL;
  annb_status s = annb_row_deliver(r->store, context, row, by_rank ? &r->ranks : row->genes, sorted, &indices, &values, err);
  for (uint32_t i = 0; !s && by_rank && i < n; i++) indices[i] = r->order.columns[indices[i]];
  if (s || direct) return s;
  if (listed) return arrange(r, context, k, n, indices, values, out_indices, out_values, err);
  copy(n, r->value_size, indices, values, out_indices, out_values);
  return ANNB_OK;
}

annb_status annb_source_rows_fetch(const annb_source_rows *source, annb_context *context, const uint64_t *rows, size_t n_rows,
                                   int64_t *indptr, int32_t *indices, void *values, uint64_t capacity, annb_error *err) {
  const annb_fetch_options options = {.gene_order = ANNB_GENES_ORIGINAL};
  annb_locator locator;
  annb_status s = annb_locator_begin(&locator, source->store, source->matrix, &options, err);
  locator.of_part = true;
  indptr[0] = 0;
  for (size_t i = 0; !s && i < n_rows; i++) {
    uint64_t at = (uint64_t)indptr[i];
    annb_located row;
    if (rows[i] < source->first || rows[i] >= source->end)
      return annb_fail(err, ANNB_ERANGE, source->store->path, "row %llu is not in the part", (unsigned long long)rows[i]);
    s = annb_locate(&locator, rows[i], &row, err);
    if (s) break;
    if (row.record.nnz > capacity - at)
      return annb_fail(err, ANNB_ECAPACITY, source->store->path, "the rows do not fit the room for %llu elements",
                       (unsigned long long)capacity);
    indptr[i + 1] = (int64_t)(at + row.record.nnz);
    s = put_row(source, context, &row, capacity - at, at ? indices + at : indices,
                at ? (uint8_t *)values + at * source->value_size : values, err);
  }
  return s;
}
