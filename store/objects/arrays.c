#include "arrays.h"

#include "../cursor.h"
#include "../error.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

#define CORRUPT(...) annb_fail(err, ANNB_ECORRUPT, a->path, __VA_ARGS__)
#define ULL(x) ((unsigned long long)(x))

annb_fmt_array annb_arrays_array(const annb_arrays *arrays, uint32_t i) {
  annb_fmt_array row;
  memcpy(&row, arrays->array_table + (size_t)i * sizeof row, sizeof row);
  return row;
}

annb_fmt_column annb_arrays_column(const annb_arrays *arrays, uint32_t i) {
  annb_fmt_column row;
  memcpy(&row, arrays->column_table + (size_t)i * sizeof row, sizeof row);
  return row;
}

/* ---- open ---- */

/* The section's start, its hash checked. `n` receives its rows, or its bytes when it has none. */
static const uint8_t *section_of(const annb_arrays *a, uint32_t kind, uint64_t row_size, uint64_t *n, annb_status *s, annb_error *err) {
  const annb_fmt_section *section;
  if (!*s) *s = annb_envelope_section(&a->envelope, kind, row_size, a->path, &section, err);
  if (!*s) *s = annb_envelope_check_hash(a->map.data, section, a->path, err);
  if (!*s && !row_size && section->count) *s = CORRUPT("section %u states rows but has none", kind);
  if (*s) return NULL;
  *n = row_size ? section->count : section->length;
  return a->map.data + section->offset;
}

static annb_status find_sections(annb_arrays *a, annb_error *err) {
  const annb_fmt_section *data;
  annb_status s = annb_envelope_section(&a->envelope, ANNB_SEC_ARRAYS, 0, a->path, &data, err);
  if (s) return s;
  if (data->offset != sizeof(annb_fmt_header) || data->count || !annb_all_zero(data->hash, sizeof data->hash))
    return CORRUPT("the section of arrays does not start at 128 or states rows or a hash");
  a->data_offset = data->offset;
  a->data_length = data->length;
  a->checks = section_of(a, ANNB_SEC_CHECKS, sizeof(uint64_t), &a->n_chunks, &s, err);
  a->array_table = section_of(a, ANNB_SEC_ARRAY_TABLE, sizeof(annb_fmt_array), &a->n_arrays, &s, err);
  a->column_table = section_of(a, ANNB_SEC_COLUMN_TABLE, sizeof(annb_fmt_column), &a->n_columns, &s, err);
  a->names = (const char *)section_of(a, ANNB_SEC_NAMES, 0, &a->names_length, &s, err);
  if (s) return s;
  if (a->n_chunks != a->data_length / ANNB_CHUNK + (a->data_length % ANNB_CHUNK != 0))
    return CORRUPT("has %llu chunk checks for %llu bytes of arrays", ULL(a->n_chunks), ULL(a->data_length));
  if (a->n_arrays >= ANNB_NONE || a->n_columns >= ANNB_NONE)
    return CORRUPT("states %llu arrays and %llu columns", ULL(a->n_arrays), ULL(a->n_columns));
  return ANNB_OK;
}

static bool name_fits(const annb_arrays *a, uint32_t offset, uint32_t length) {
  if (offset > a->names_length || length > a->names_length - offset || length > ANNB_MAX_NAME) return false;
  return length == 0 || !memchr(a->names + offset, 0, length);
}

/* Array i, which must start at or after *at, the end of the one before. */
static annb_status check_array(const annb_arrays *a, uint32_t i, uint64_t *at, annb_error *err) {
  annb_fmt_array row = annb_arrays_array(a, i);
  uint64_t end = a->data_offset + a->data_length, size;
  uint32_t dtype_size = annb_dtype_size((annb_dtype)row.dtype);
  if (!name_fits(a, row.name_offset, row.name_length)) return CORRUPT("array %u: its name is outside the names or not valid", i);
  if (!annb_all_zero(row.zero0, sizeof row.zero0)) return CORRUPT("array %u has a field that must be zero", i);
  if (!dtype_size) return CORRUPT("array %u has the unknown dtype %u", i, row.dtype);
  if (row.n_rows > ANNB_MAX_ROWS + 1 || row.n_cols > ANNB_MAX_COLS)
    return CORRUPT("array %u states %llu rows of %llu values, more than the format allows", i, ULL(row.n_rows), ULL(row.n_cols));
  if (row.offset % ANNB_ARRAY_ALIGN || row.offset < *at || row.offset > end)
    return CORRUPT("array %u starts at %llu, which is not its place", i, ULL(row.offset));
  if (!annb_mul(row.n_rows, row.n_cols, &size) || !annb_mul(size, dtype_size, &size) || size > end - row.offset)
    return CORRUPT("array %u states %llu rows of %llu values, which leave the file", i, ULL(row.n_rows), ULL(row.n_cols));
  *at = row.offset + size;
  return ANNB_OK;
}

static annb_status check_columns(const annb_arrays *a, annb_error *err) {
  annb_arrays_tables tables = {a->array_table, a->column_table, a->n_arrays, a->n_columns};
  const char *fault;
  for (uint32_t i = 0; i < a->n_columns; i++) {
    annb_fmt_column row = annb_arrays_column(a, i);
    if (!name_fits(a, row.name_offset, row.name_length)) return CORRUPT("column %u: its name is outside the names or not valid", i);
    if (row.zero0 || !annb_all_zero(row.zero1, sizeof row.zero1)) return CORRUPT("column %u has a field that must be zero", i);
    fault = annb_arrays_column_fault(&tables, &row);
    if (fault) return CORRUPT("column %u: %s", i, fault);
  }
  for (int axis = ANNB_AXIS_OBS; axis <= ANNB_AXIS_VAR; axis++) {
    fault = annb_arrays_axis_fault(&tables, (annb_axis)axis);
    if (fault) return CORRUPT("axis %d: %s", axis, fault);
  }
  return ANNB_OK;
}

static annb_status open_mapped(annb_arrays *a, annb_error *err) {
  uint64_t known = 0, at;
  for (uint32_t kind = ANNB_SEC_ARRAYS; kind <= ANNB_SEC_NAMES; kind++) known |= UINT64_C(1) << kind;
  annb_status s = annb_envelope_parse(a->map.data, a->map.size, ANNB_FILE_ARRAYS, known, a->path, &a->envelope, err);
  if (!s && !annb_all_zero(a->envelope.header.kind, sizeof a->envelope.header.kind)) s = CORRUPT("header has a field that must be zero");
  if (!s) s = annb_envelope_check_gaps(a->map.data, &a->envelope, a->path, err);
  if (!s) s = find_sections(a, err);
  at = a->data_offset;
  for (uint32_t i = 0; !s && i < a->n_arrays; i++) s = check_array(a, i, &at, err);
  if (!s) s = check_columns(a, err);
  if (s) return s;
  a->checked = calloc((size_t)(a->n_chunks / 64 + 1), sizeof *a->checked);
  return a->checked ? ANNB_OK : annb_fail_memory(err);
}

static annb_status open_arrays(const char *path, const annb_map *memory, annb_arrays **out, annb_error *err) {
  *out = NULL;
  annb_arrays *a = calloc(1, sizeof *a);
  if (!a || !(a->path = strdup(path))) {
    free(a);
    return annb_fail_memory(err);
  }
  a->borrowed = memory != NULL;
  if (memory) a->map = *memory;
  annb_status s = memory ? ANNB_OK : annb_io_map(path, &a->map, err);
  if (!s) s = open_mapped(a, err);
  if (s) annb_arrays_close(a);
  else *out = a;
  return s;
}

annb_status annb_arrays_open(const char *path, annb_arrays **out, annb_error *err) { return open_arrays(path, NULL, out, err); }

annb_status annb_arrays_open_memory(const char *name, const uint8_t *bytes, uint64_t size, annb_arrays **out, annb_error *err) {
  const annb_map memory = {bytes, size};
  return open_arrays(name, &memory, out, err);
}

void annb_arrays_close(annb_arrays *arrays) {
  if (!arrays) return;
  if (!arrays->borrowed) annb_io_unmap(&arrays->map);
  free((void *)arrays->checked);
  free(arrays->path);
  free(arrays);
}

annb_status annb_arrays_find(const annb_arrays *arrays, const char *name, uint32_t *array, annb_error *err) {
  size_t length = strlen(name);
  for (uint32_t i = 0; length && i < arrays->n_arrays; i++) {
    annb_fmt_array row = annb_arrays_array(arrays, i);
    if (row.name_length != length || memcmp(arrays->names + row.name_offset, name, length)) continue;
    *array = i;
    return ANNB_OK;
  }
  return annb_fail(err, ANNB_ENOTFOUND, arrays->path, "has no array '%.200s'", name);
}

/* ---- data ---- */

annb_status annb_arrays_check_chunk(annb_arrays *a, uint64_t chunk, annb_error *err) {
  uint64_t bit = UINT64_C(1) << (chunk % 64), check;
  if (atomic_load_explicit(&a->checked[chunk / 64], memory_order_relaxed) & bit) return ANNB_OK;
  uint64_t at = chunk * ANNB_CHUNK, left = a->data_length - at;
  memcpy(&check, a->checks + chunk * sizeof check, sizeof check);
  if (annb_mix(annb_hash64(a->map.data + a->data_offset + at, left < ANNB_CHUNK ? left : ANNB_CHUNK), 0, chunk) != check)
    return CORRUPT("chunk %llu of the arrays (from byte %llu) does not match its check: the file is damaged, restore it from a copy",
                   ULL(chunk), ULL(a->data_offset + at));
  atomic_fetch_or_explicit(&a->checked[chunk / 64], bit, memory_order_relaxed);
  return ANNB_OK;
}

annb_status annb_arrays_view(annb_arrays *a, uint32_t array, uint64_t first, uint64_t n_rows, const void **out, annb_error *err) {
  if (array >= a->n_arrays) return annb_fail(err, ANNB_ERANGE, a->path, "array %u of %llu was asked for", array, ULL(a->n_arrays));
  annb_fmt_array row = annb_arrays_array(a, array);
  if (first > row.n_rows || n_rows > row.n_rows - first)
    return annb_fail(err, ANNB_ERANGE, a->path, "rows %llu to %llu of array %u were asked for, it has %llu", ULL(first),
                     ULL(first) + ULL(n_rows), array, ULL(row.n_rows));
  uint64_t row_size = row.n_cols * annb_dtype_size((annb_dtype)row.dtype);
  uint64_t at = row.offset + first * row_size, size = n_rows * row_size;
  *out = a->map.data + at;
  if (size == 0) return ANNB_OK;
  uint64_t last = (at + size - 1 - a->data_offset) / ANNB_CHUNK;
  for (uint64_t chunk = (at - a->data_offset) / ANNB_CHUNK; chunk <= last; chunk++) {
    annb_status s = annb_arrays_check_chunk(a, chunk, err);
    if (s) return s;
  }
  return ANNB_OK;
}
