/* The rules of SPEC.md 4.3 and 4.4 for the tables of flat arrays, for reader and writer. */
#include "arrays.h"
#include "../cursor.h"

#include <annblock/annblock.h>
#include <string.h>

static annb_fmt_array array_at(const annb_arrays_tables *t, uint32_t i) {
  annb_fmt_array a;
  memcpy(&a, t->arrays + (size_t)i * sizeof a, sizeof a);
  return a;
}

static annb_fmt_column column_at(const annb_arrays_tables *t, uint64_t i) {
  annb_fmt_column c;
  memcpy(&c, t->columns + (size_t)i * sizeof c, sizeof c);
  return c;
}

/* A vector of `n_rows` values that belongs to a column. */
static bool is_vector(const annb_arrays_tables *t, uint32_t array, uint64_t n_rows) {
  if (array >= t->n_arrays) return false;
  annb_fmt_array a = array_at(t, array);
  return a.n_cols == 1 && a.n_rows == n_rows;
}

static annb_dtype dtype_of(const annb_arrays_tables *t, uint32_t array) { return (annb_dtype)array_at(t, array).dtype; }

static const char *string_fault(const annb_arrays_tables *t, const annb_fmt_column *c) {
  if (!is_vector(t, c->values, c->length + 1) || dtype_of(t, c->values) != ANNB_U64)
    return "its string offsets are not an array of u64, one more than it has rows";
  if (c->bytes >= t->n_arrays || dtype_of(t, c->bytes) != ANNB_U8 || array_at(t, c->bytes).n_cols != 1)
    return "its string bytes are not an array of u8";
  return NULL;
}

static const char *categorical_fault(const annb_arrays_tables *t, const annb_fmt_column *c) {
  if (!is_vector(t, c->values, c->length)) return "its codes are not an array of as many rows";
  annb_dtype dtype = dtype_of(t, c->values);
  if (dtype != ANNB_I8 && dtype != ANNB_I16 && dtype != ANNB_I32) return "its codes are not i8, i16 or i32";
  if (c->categories >= t->n_columns) return "its categories do not exist";
  annb_fmt_column categories = column_at(t, c->categories);
  if (categories.axis != ANNB_AXIS_NONE || categories.kind == ANNB_COLUMN_CATEGORICAL)
    return "its categories are not a plain column without an axis";
  return NULL;
}

const char *annb_arrays_column_fault(const annb_arrays_tables *tables, const annb_fmt_column *c) {
  bool categorical = c->kind == ANNB_COLUMN_CATEGORICAL, string = c->kind == ANNB_COLUMN_STRING;
  const char *fault = NULL;
  if (c->length > ANNB_MAX_ROWS) return "it has more rows than the format allows";
  if (c->axis > ANNB_AXIS_VAR) return "its axis is unknown";
  if (c->kind < ANNB_COLUMN_FIXED || c->kind > ANNB_COLUMN_CATEGORICAL) return "its kind is unknown";
  if (c->flags & ~(ANNB_COLUMN_INDEX | ANNB_COLUMN_ORDERED)) return "it has unknown flags";
  if ((c->flags & ANNB_COLUMN_INDEX) && c->axis == ANNB_AXIS_NONE) return "it is the index of no axis";
  if ((c->flags & ANNB_COLUMN_ORDERED) && !categorical) return "it is ordered but not categorical";
  if (c->axis == ANNB_AXIS_NONE && categorical) return "categories cannot have categories";
  if ((!string && c->bytes != ANNB_NONE) || (!categorical && c->categories != ANNB_NONE))
    return "it names an array or categories that its kind has not";
  if (string) fault = string_fault(tables, c);
  else if (categorical) fault = categorical_fault(tables, c);
  else if (!is_vector(tables, c->values, c->length)) fault = "its values are not an array of as many rows";
  if (fault) return fault;
  if (c->mask != ANNB_NONE && (!is_vector(tables, c->mask, c->length) || dtype_of(tables, c->mask) != ANNB_BOOL))
    return "its mask is not an array of bool of as many rows";
  return NULL;
}

const char *annb_arrays_axis_fault(const annb_arrays_tables *tables, annb_axis axis) {
  bool any = false, index = false;
  uint64_t length = 0;
  for (uint64_t i = 0; i < tables->n_columns; i++) {
    annb_fmt_column c = column_at(tables, i);
    if (c.axis != axis) continue;
    if (any && c.length != length) return "its columns differ in length";
    if (index && (c.flags & ANNB_COLUMN_INDEX)) return "it has two index columns";
    any = true;
    length = c.length;
    index = index || (c.flags & ANNB_COLUMN_INDEX);
  }
  return NULL;
}
