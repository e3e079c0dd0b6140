#include "deliver.h"

#include "rice.h"

#include <stdlib.h>

enum { SLOT_VALUES = 3, SLOT_PLACES = 5, PLACES = 65536, MAX_WORDS = PLACES / 64, TABLE_ROOM = 64 };

bool annb_gene_table_init(annb_gene_table *table, const uint32_t *ids, uint32_t n, uint32_t n_out) {
  *table = (annb_gene_table){.n = n, .n_out = n_out, .wide = malloc(((size_t)n + 1) * sizeof *table->wide)};
  if (n_out <= 65536) table->narrow = calloc((size_t)n + TABLE_ROOM, sizeof *table->narrow);
  if (!table->wide || (n_out <= 65536 && !table->narrow)) {
    annb_gene_table_free(table);
    return false;
  }
  memcpy(table->wide, ids, (size_t)n * sizeof *ids);
  for (uint32_t i = 0; table->narrow && i < n; i++) table->narrow[i] = (uint16_t)ids[i];
  return true;
}

void annb_gene_table_free(annb_gene_table *table) {
  free(table->wide);
  free(table->narrow);
  *table = (annb_gene_table){0};
}

/* The record as a row and its values; `row` has ids only when the codec is Rice-coded. */
static annb_delivery open_row(const annb_row_shape *shape, const annb_kernel *kernel, const uint8_t *record, size_t length, annb_rice_row *row,
                              float *values, annb_scratch *scratch) {
  int64_t base;
  const uint8_t *entries;
  uint32_t n_entries;
  bool ok;
  if (shape->dtype != ANNB_F32 || shape->nnz == 0 || length == 0) return ANNB_DELIVERY_OTHER;
  if (record[0] == ANNB_CODEC_COUNT)
    ok = annb_count_open(shape, record, length, row, &base, scratch) && annb_count_values(shape, kernel, row, base, (uint8_t *)values);
  else if (record[0] == ANNB_CODEC_DICT)
    ok = annb_dict_open(shape, record, length, row, &entries, &n_entries, scratch) &&
         annb_dict_values(row, entries, n_entries, sizeof *values, (uint8_t *)values);
  else return ANNB_DELIVERY_OTHER;
  return ok ? ANNB_DELIVERY_DONE : ANNB_DELIVERY_CORRUPT;
}

static const annb_kernel *kernel_of(const annb_scratch *scratch) { return scratch->kernel ? scratch->kernel : annb_kernel_best(); }

static void map_ids(const annb_kernel *kernel, const annb_rice_row *row, const annb_gene_table *table, uint32_t *indices) {
  if (!table) annb_rice_ids(kernel, row, indices);
  else if (row->ids16 && table->narrow) kernel->map(row->ids16, row->n, table->narrow, indices);
  else if (row->ids16)
    for (uint32_t i = 0; i < row->n; i++) indices[i] = table->wide[row->ids16[i]];
  else
    for (uint32_t i = 0; i < row->n; i++) indices[i] = table->wide[row->ids32[i]];
}

annb_delivery annb_deliver_csr(const annb_row_shape *shape, const uint8_t *record, size_t length, const annb_gene_table *table,
                               uint32_t *indices, float *values, annb_scratch *scratch) {
  const annb_kernel *kernel = kernel_of(scratch);
  annb_rice_row row;
  if (table && table->n != shape->n_cols) return ANNB_DELIVERY_OTHER;
  annb_delivery d = open_row(shape, kernel, record, length, &row, values, scratch);
  if (d == ANNB_DELIVERY_DONE) map_ids(kernel, &row, table, indices);
  return d;
}

/* Whether the record states that ids repeat. */
static bool repeats(const uint8_t *record, size_t length) { return length < 2 || (record[1] & ANNB_RICE_REPEATS); }

annb_delivery annb_deliver_sorted(const annb_row_shape *shape, const uint8_t *record, size_t length, const annb_gene_table *table,
                                  uint32_t *indices, float *values, annb_scratch *scratch) {
  const annb_kernel *kernel = kernel_of(scratch);
  annb_rice_row row;
  if (!table) return annb_deliver_csr(shape, record, length, NULL, indices, values, scratch);
  if (table->n != shape->n_cols || !table->narrow || shape->nnz > table->n || repeats(record, length)) return ANNB_DELIVERY_OTHER;
  float *unsorted = annb_scratch_get(scratch, SLOT_VALUES, (PLACES + ANNB_KERNEL_SLACK) * sizeof *unsorted);
  /* memory for the kernel, of one layout for all tables: a bit per delivered id, zero between calls, and its place in the row */
  const size_t size = MAX_WORDS * 8 + (PLACES + 2 * TABLE_ROOM) * sizeof(uint16_t);
  bool fresh = scratch->size[SLOT_PLACES] < size;
  uint64_t *bits = annb_scratch_get(scratch, SLOT_PLACES, size);
  if (!unsorted || !bits) return ANNB_DELIVERY_CORRUPT;
  if (fresh) memset(bits, 0, size);
  annb_delivery d = open_row(shape, kernel, record, length, &row, unsorted, scratch);
  if (d != ANNB_DELIVERY_DONE) return d;
  if (!row.ids16) return ANNB_DELIVERY_OTHER;
  kernel->sort(row.ids16, row.n, table->narrow, unsorted, bits, (uint16_t *)(bits + MAX_WORDS), (table->n_out + 63) / 64, indices, values);
  return d;
}

annb_delivery annb_deliver_dense(const annb_row_shape *shape, const uint8_t *record, size_t length, const annb_gene_table *table,
                                 float *out, annb_scratch *scratch) {
  const annb_kernel *kernel = kernel_of(scratch);
  annb_rice_row row;
  if ((table && table->n != shape->n_cols) || repeats(record, length)) return ANNB_DELIVERY_OTHER;
  float *values = annb_scratch_get(scratch, SLOT_VALUES, ((size_t)shape->nnz + ANNB_KERNEL_SLACK) * sizeof *values);
  if (!values) return ANNB_DELIVERY_CORRUPT;
  annb_delivery d = open_row(shape, kernel, record, length, &row, values, scratch);
  if (d != ANNB_DELIVERY_DONE) return d;
  memset(out, 0, (size_t)(table ? table->n_out : shape->n_cols) * sizeof *out);
  if (row.ids16 && table && table->narrow)
    for (uint32_t i = 0; i < row.n; i++) out[table->narrow[row.ids16[i]]] = values[i];
  else if (row.ids16)
    for (uint32_t i = 0; i < row.n; i++) out[table ? table->wide[row.ids16[i]] : row.ids16[i]] = values[i];
  else
    for (uint32_t i = 0; i < row.n; i++) out[table ? table->wide[row.ids32[i]] : row.ids32[i]] = values[i];
  return d;
}
