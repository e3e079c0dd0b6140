#include "deliver.h"

#include "rice.h"
#include "../objects/whole.h"

#include <stdlib.h>

enum { SLOT_KEYS = 3, SLOT_VALUES = 3, SLOT_MARKS = 5, MAX_IDS = 65536, TABLE_ROOM = 64 };

bool annb_gene_table_init(annb_gene_table *table, const uint32_t *ids, uint32_t n, uint32_t n_out) {
  *table = (annb_gene_table){.n = n, .n_out = n_out, .n_kept = n_out, .wide = malloc(((size_t)n + 1) * sizeof *table->wide)};
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

/* A record opened: its row and what its codes mean. */
typedef struct opened {
  const annb_kernel *kernel;
  annb_rice_row row;
  bool dict;
  int64_t base;
  const uint8_t *entries;
  uint32_t n_entries;
} opened;

static annb_delivery open_record(const annb_row_shape *shape, const uint8_t *record, size_t length, const annb_gene_table *table,
                                 annb_rice_target to, opened *o, annb_scratch *scratch) {
  bool ok;
  if (shape->dtype != ANNB_F32 || shape->nnz == 0 || length == 0 || (table && table->n != shape->n_cols)) return ANNB_DELIVERY_OTHER;
  *o = (opened){.kernel = scratch->kernel ? scratch->kernel : annb_kernel_best(), .dict = record[0] == ANNB_CODEC_DICT};
  if (o->dict) ok = annb_dict_open(shape, record, length, to, &o->row, &o->entries, &o->n_entries, scratch);
  else if (record[0] == ANNB_CODEC_COUNT) ok = annb_count_open(shape, record, length, to, &o->row, &o->base, scratch);
  else return ANNB_DELIVERY_OTHER;
  return ok ? ANNB_DELIVERY_DONE : ANNB_DELIVERY_CORRUPT;
}

static bool put_values(const annb_row_shape *shape, opened *o, float *values, annb_scratch *scratch) {
  if (o->dict) return annb_dict_values(o->kernel, &o->row, o->entries, o->n_entries, sizeof *values, (uint8_t *)values, scratch);
  return annb_count_values(shape, o->kernel, &o->row, o->base, (uint8_t *)values, scratch);
}

/* The value of one code; false when it has none. */
static bool value_of(const opened *o, uint32_t code, void *value) {
  if (!o->dict) return annb_whole_put(ANNB_F32, o->base + code, value);
  if (code >= o->n_entries) return false;
  memcpy(value, o->entries + (size_t)code * 4, 4);
  return true;
}

/* The delivered ids where they are not yet what they are to become. */
static void map_ids(const opened *o, const annb_gene_table *table, uint32_t *indices) {
  const uint16_t *ids16 = o->row.ids16;
  const uint32_t *ids32 = o->row.ids32;
  if (ids16 && table->narrow) o->kernel->map(ids16, o->row.n, table->narrow, indices);
  else
    for (uint32_t i = 0; i < o->row.n; i++) indices[i] = table->wide[ids16 ? ids16[i] : ids32[i]];
}

annb_delivery annb_deliver_csr(const annb_row_shape *shape, const uint8_t *record, size_t length, const annb_gene_table *table,
                               uint32_t *indices, float *values, annb_scratch *scratch) {
  opened o;
  bool direct = !table || table->narrow;
  annb_rice_target to = {direct ? indices : NULL, table ? table->narrow : NULL};
  annb_delivery d = open_record(shape, record, length, table, to, &o, scratch);
  if (d != ANNB_DELIVERY_DONE) return d;
  if (table && !o.row.mapped) map_ids(&o, table, indices);
  return put_values(shape, &o, values, scratch) ? ANNB_DELIVERY_DONE : ANNB_DELIVERY_CORRUPT;
}

/* Marks of the row by delivered id, in memory that is zero before and after. NULL when memory is short. */
static uint8_t *mark(const opened *o, const annb_gene_table *table, uint32_t *highest, annb_scratch *scratch) {
  bool fresh = !scratch->data[SLOT_MARKS];
  uint8_t *by_id = annb_scratch_get(scratch, SLOT_MARKS, MAX_IDS + TABLE_ROOM);
  if (by_id && fresh) memset(by_id, 0, MAX_IDS + TABLE_ROOM);
  uint8_t *marks = annb_scratch_get(scratch, SLOT_VALUES, (size_t)o->row.n + ANNB_KERNEL_SLACK);
  if (!by_id || !marks) return NULL;
  *highest = o->kernel->narrow(o->row.codes16, o->row.n, marks);
  o->kernel->scatter(o->row.ids16, marks, o->row.n, table->narrow, by_id);
  return by_id;
}

static uint32_t find(const uint32_t *ids, uint32_t n, uint32_t id) {
  uint32_t low = 0;
  while (n > 1) {
    uint32_t half = n / 2;
    if (ids[low + half] <= id) low += half;
    n -= half;
  }
  return low;
}

/* The values of escapes: out[place of the id]. `ids`: sorted, or NULL when out is dense. */
static bool put_escapes(const opened *o, const annb_gene_table *table, const uint32_t *ids, float *out) {
  const annb_rice_row *row = &o->row;
  const uint8_t *at = row->escapes;
  uint32_t position = UINT32_MAX, code, id;
  bool ok = true;
  for (uint32_t i = 0; i < row->n_escapes; i++) {
    annb_rice_escape(&at, row->escapes_end, &position, &code);
    id = table->narrow[row->ids16[position]];
    ok &= value_of(o, code, &out[ids ? find(ids, row->n, id) : id]);
  }
  return ok;
}

/* Values that marks cannot tell, of a dense row. */
static bool put_large(const opened *o, const annb_gene_table *table, float *out) {
  const annb_rice_row *row = &o->row;
  bool ok = true;
  for (uint32_t i = 0; i < row->n; i++)
    if (row->codes16[i] >= 254) ok &= value_of(o, row->codes16[i], &out[table->narrow[row->ids16[i]]]);
  return ok;
}

/* Whether the record states that ids repeat. */
static bool repeats(const uint8_t *record, size_t length) { return length < 2 || (record[1] & ANNB_RICE_REPEATS); }

annb_delivery annb_deliver_sorted(const annb_row_shape *shape, const uint8_t *record, size_t length, const annb_gene_table *table,
                                  uint32_t *indices, float *values, annb_scratch *scratch) {
  opened o;
  if (!table) return annb_deliver_csr(shape, record, length, NULL, indices, values, scratch);
  if (!table->narrow || repeats(record, length)) return ANNB_DELIVERY_OTHER;
  annb_delivery d = open_record(shape, record, length, table, (annb_rice_target){indices, table->narrow}, &o, scratch);
  if (d != ANNB_DELIVERY_DONE) return d;
  if (!o.dict && !annb_rice_codes(&o.row, scratch)) return ANNB_DELIVERY_CORRUPT;
  if (!(o.row.mapped || o.row.ids16) || !o.row.codes16) return ANNB_DELIVERY_OTHER;
  uint32_t *keys = annb_scratch_get(scratch, SLOT_KEYS, ((size_t)o.row.n + ANNB_KERNEL_SLACK) * sizeof *keys);
  if (!keys) return ANNB_DELIVERY_CORRUPT;
  if (!o.row.mapped) map_ids(&o, table, indices);
  o.kernel->sort(indices, o.row.codes16, o.row.n, (table->n_out + 63) / 64, keys);
  opened sorted = o;
  sorted.row.n_escapes = 0; /* their positions are those of the record */
  return put_values(shape, &sorted, values, scratch) && put_escapes(&o, table, indices, values) ? ANNB_DELIVERY_DONE
                                                                                                : ANNB_DELIVERY_CORRUPT;
}

/* Any row, by way of its values. */
static annb_delivery dense_by_values(const annb_row_shape *shape, opened *o, const annb_gene_table *table, float *out,
                                     annb_scratch *scratch) {
  const uint16_t *ids16 = o->row.ids16;
  const uint32_t *ids32 = o->row.ids32;
  uint32_t n = o->row.n;
  float *values = annb_scratch_get(scratch, SLOT_VALUES, ((size_t)n + ANNB_KERNEL_SLACK) * sizeof *values);
  if (!values || !put_values(shape, o, values, scratch)) return ANNB_DELIVERY_CORRUPT;
  memset(out, 0, (size_t)(table ? table->n_out : shape->n_cols) * sizeof *out);
  if (ids16 && table && table->narrow)
    for (uint32_t i = 0; i < n; i++) out[table->narrow[ids16[i]]] = values[i];
  else
    for (uint32_t i = 0; i < n; i++) {
      uint32_t id = ids16 ? ids16[i] : ids32[i];
      out[table ? table->wide[id] : id] = values[i];
    }
  return ANNB_DELIVERY_DONE;
}

annb_delivery annb_deliver_dense(const annb_row_shape *shape, const uint8_t *record, size_t length, const annb_gene_table *table,
                                 float *out, annb_scratch *scratch) {
  opened o;
  uint32_t highest;
  if (repeats(record, length)) return ANNB_DELIVERY_OTHER;
  annb_delivery d = open_record(shape, record, length, table, (annb_rice_target){NULL, NULL}, &o, scratch);
  if (d != ANNB_DELIVERY_DONE) return d;
  if (!o.dict && !annb_rice_codes(&o.row, scratch)) return ANNB_DELIVERY_CORRUPT;
  /* marks are the values themselves when the codes count from 1 */
  if (o.dict || o.base != 1 || !table || !table->narrow || !o.row.ids16 || !o.row.codes16)
    return dense_by_values(shape, &o, table, out, scratch);
  uint8_t *by_id = mark(&o, table, &highest, scratch);
  if (!by_id) return ANNB_DELIVERY_CORRUPT;
  o.kernel->expand(by_id, table->n_out, out);
  bool ok = highest < 254 || put_large(&o, table, out);
  return ok && put_escapes(&o, table, NULL, out) ? ANNB_DELIVERY_DONE : ANNB_DELIVERY_CORRUPT;
}
