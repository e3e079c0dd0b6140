#include "keys.h"

#include "../../store/error.h"
#include "../../store/hash.h"

#include <annblock/annblock.h>
#include <stdlib.h>

#define ULL(x) ((unsigned long long)(x))

/* ---- a column ---- */

uint32_t annb_keys_find(const annb_arrays *arrays, annb_axis axis, const char *name) {
  size_t length = name ? strlen(name) : 0;
  for (uint32_t i = 0; i < arrays->n_columns; i++) {
    annb_fmt_column c = annb_arrays_column(arrays, i);
    bool is_index = c.flags & ANNB_COLUMN_INDEX;
    if (c.axis != axis || is_index != !name) continue;
    if (!name || (c.name_length == length && !memcmp(arrays->names + c.name_offset, name, length))) return i;
  }
  return ANNB_NONE;
}

static annb_status check_offsets(const annb_arrays *arrays, const uint64_t *offsets, uint64_t n, uint64_t n_bytes, annb_error *err) {
  for (uint64_t i = 0; i < n; i++)
    if (offsets[i] > offsets[i + 1] || offsets[i + 1] > n_bytes)
      return annb_fail_row(err, ANNB_ECORRUPT, arrays->path, (int64_t)i, "the string of row %llu leaves its array", ULL(i));
  return ANNB_OK;
}

static annb_status open_strings(annb_arrays *arrays, const annb_fmt_column *column, const uint64_t **offsets, const uint8_t **bytes,
                                uint64_t *n_bytes, annb_error *err) {
  const void *view, *text;
  *n_bytes = annb_arrays_array(arrays, column->bytes).n_rows;
  annb_status s = annb_arrays_view(arrays, column->values, 0, column->length + 1, &view, err);
  if (!s) s = annb_arrays_view(arrays, column->bytes, 0, *n_bytes, &text, err);
  if (!s) s = check_offsets(arrays, view, column->length, *n_bytes, err);
  if (s) return s;
  *offsets = view;
  *bytes = text;
  return ANNB_OK;
}

static int64_t code_at(const annb_keys *k, uint64_t i) {
  if (k->dtype == ANNB_I8) return ((const int8_t *)k->values)[i];
  if (k->dtype == ANNB_I16) return ((const int16_t *)k->values)[i];
  return ((const int32_t *)k->values)[i];
}

static annb_status open_categories(annb_keys *k, annb_error *err) {
  annb_fmt_column c = annb_arrays_column(k->arrays, k->column.categories);
  const uint64_t *offsets;
  if (c.kind != ANNB_COLUMN_STRING || c.mask != ANNB_NONE)
    return annb_fail(err, ANNB_EUNSUPPORTED, k->arrays->path, "column '%.*s' has categories that are not strings",
                     (int)k->column.name_length, k->arrays->names + k->column.name_offset);
  annb_status s = open_strings(k->arrays, &c, &offsets, &k->bytes, &k->n_bytes, err);
  if (s) return s;
  k->n_categories = c.length;
  k->category_ends = malloc(((size_t)c.length + 1) * sizeof *k->category_ends);
  if (!k->category_ends) return annb_fail_memory(err);
  memcpy(k->category_ends, offsets, ((size_t)c.length + 1) * sizeof *offsets);
  for (uint64_t i = 0; i < k->n; i++) {
    int64_t code = code_at(k, i);
    if (code < -1 || code >= (int64_t)c.length)
      return annb_fail_row(err, ANNB_ECORRUPT, k->arrays->path, (int64_t)i, "row %llu has code %lld of %llu categories", ULL(i),
                           (long long)code, ULL(c.length));
  }
  return ANNB_OK;
}

annb_status annb_keys_open(annb_arrays *arrays, uint32_t row, annb_keys *out, annb_error *err) {
  *out = (annb_keys){.arrays = arrays, .column = annb_arrays_column(arrays, row)};
  const annb_fmt_column *c = &out->column;
  const void *view = NULL;
  annb_status s = ANNB_OK;
  out->n = c->length;
  if (c->kind == ANNB_COLUMN_STRING) {
    const uint64_t *offsets = NULL;
    s = open_strings(arrays, c, &offsets, &out->bytes, &out->n_bytes, err);
    out->values = offsets;
  } else {
    out->dtype = (annb_dtype)annb_arrays_array(arrays, c->values).dtype;
    s = annb_arrays_view(arrays, c->values, 0, c->length, &out->values, err);
    if (!s && c->kind == ANNB_COLUMN_CATEGORICAL) s = open_categories(out, err);
  }
  if (!s && c->mask != ANNB_NONE) s = annb_arrays_view(arrays, c->mask, 0, c->length, &view, err);
  out->mask = view;
  if (s) annb_keys_close(out);
  return s;
}

void annb_keys_close(annb_keys *keys) {
  free(keys->category_ends);
  *keys = (annb_keys){.arrays = NULL};
}

annb_key annb_keys_at(const annb_keys *k, uint64_t i) {
  static const annb_key none = {NULL, 0};
  if (k->mask && k->mask[i]) return none;
  if (k->column.kind == ANNB_COLUMN_FIXED) {
    uint32_t size = annb_dtype_size(k->dtype);
    return (annb_key){(const uint8_t *)k->values + i * size, size};
  }
  const uint64_t *offsets = k->values;
  if (k->column.kind == ANNB_COLUMN_CATEGORICAL) {
    int64_t code = code_at(k, i);
    if (code < 0) return none;
    offsets = k->category_ends;
    i = (uint64_t)code;
  }
  return (annb_key){k->bytes + offsets[i], offsets[i + 1] - offsets[i]};
}

static bool same_key(annb_key a, annb_key b) {
  return !a.bytes == !b.bytes && a.length == b.length && (!a.length || !memcmp(a.bytes, b.bytes, (size_t)a.length));
}

/* Strings and categories that are strings are alike. */
bool annb_keys_equal(const annb_keys *a, const annb_keys *b) {
  bool fixed_a = a->column.kind == ANNB_COLUMN_FIXED, fixed_b = b->column.kind == ANNB_COLUMN_FIXED;
  if (a->n != b->n || fixed_a != fixed_b || (fixed_a && a->dtype != b->dtype)) return false;
  for (uint64_t i = 0; i < a->n; i++)
    if (!same_key(annb_keys_at(a, i), annb_keys_at(b, i))) return false;
  return true;
}

/* ---- tables ---- */

void annb_key_table_free(annb_key_table *table) {
  free(table->entries);
  free(table->slots);
  *table = (annb_key_table){NULL, NULL, 0, 0};
}

static uint64_t hash_of(annb_key key, uint32_t repeat) { return annb_mix(annb_hash64(key.bytes, (size_t)key.length), repeat, 0); }

/* The slot of the key, or the free one where it belongs. */
static uint32_t slot_of(const annb_key_table *t, annb_key key, uint32_t repeat, uint64_t hash) {
  uint32_t at = (uint32_t)hash & (t->n_slots - 1);
  for (; t->slots[at]; at = (at + 1) & (t->n_slots - 1)) {
    const annb_key_entry *e = &t->entries[t->slots[at] - 1];
    if (e->hash == hash && e->repeat == repeat && same_key(e->key, key)) break;
  }
  return at;
}

uint32_t annb_key_table_get(const annb_key_table *table, annb_key key, uint32_t repeat) {
  if (!table->n_slots) return ANNB_NONE;
  return table->slots[slot_of(table, key, repeat, hash_of(key, repeat))] - 1; /* 0 - 1 is ANNB_NONE */
}

/* Twice the room, at most half of the slots used. */
static bool grow(annb_key_table *t) {
  uint32_t n_slots = t->n_slots ? 2 * t->n_slots : 1024;
  if (t->n_slots > UINT32_C(1) << 30) return false;
  annb_key_entry *entries = realloc(t->entries, (size_t)n_slots / 2 * sizeof *entries);
  if (entries) t->entries = entries;
  uint32_t *slots = entries ? calloc(n_slots, sizeof *slots) : NULL;
  if (!slots) return false;
  free(t->slots);
  t->slots = slots;
  t->n_slots = n_slots;
  for (uint32_t i = 0; i < t->n; i++) {
    uint32_t at = (uint32_t)t->entries[i].hash & (n_slots - 1);
    while (slots[at]) at = (at + 1) & (n_slots - 1);
    slots[at] = i + 1;
  }
  return true;
}

uint32_t annb_key_table_put(annb_key_table *table, annb_key key, uint32_t repeat) {
  uint64_t hash = hash_of(key, repeat);
  if (table->n >= table->n_slots / 2 && !grow(table)) return ANNB_NONE;
  uint32_t at = slot_of(table, key, repeat, hash);
  if (table->slots[at]) return table->slots[at] - 1;
  table->entries[table->n] = (annb_key_entry){key, hash, repeat, 0};
  table->slots[at] = ++table->n;
  return table->n - 1;
}
