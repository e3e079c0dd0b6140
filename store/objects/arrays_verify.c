/* Checking all that a flat-arrays file holds: more than opening and viewing it does. */
#include "arrays.h"
#include "../cursor.h"
#include "../error.h"

#include <annblock/annblock.h>
#include <string.h>

enum { SLICE = 8192 }; /* rows looked at together, so that one damaged chunk hides few */

typedef struct scan {
  annb_arrays *a;
  bool (*report)(void *user, const annb_error *finding);
  void *user;
  bool stopped;
  annb_error finding;
} scan;

#define ULL(x) ((unsigned long long)(x))
#define FINDING(row, ...) (annb_fail_row(&v->finding, ANNB_ECORRUPT, v->a->path, row, __VA_ARGS__), tell(v))

static void tell(scan *v) { v->stopped = !v->report(v->user, &v->finding); }

static void verify_chunks(scan *v) {
  for (uint64_t i = 0; !v->stopped && i < v->a->n_chunks; i++) {
    if (annb_arrays_check_chunk(v->a, i, &v->finding)) tell(v);
  }
}

/* Bytes from `at` to `end`, which belong to no array. */
static void verify_gap(scan *v, uint64_t at, uint64_t end) {
  if (!annb_all_zero(v->a->map.data + at, (size_t)(end - at))) FINDING(ANNB_NO_ROW, "padding before byte %llu is not zero", ULL(end));
}

static void verify_gaps(scan *v) {
  uint64_t at = v->a->data_offset;
  for (uint32_t i = 0; !v->stopped && i < v->a->n_arrays; i++) {
    annb_fmt_array row = annb_arrays_array(v->a, i);
    verify_gap(v, at, row.offset);
    at = row.offset + row.n_rows * row.n_cols * annb_dtype_size((annb_dtype)row.dtype);
  }
  if (!v->stopped) verify_gap(v, at, v->a->data_offset + v->a->data_length);
}

/* A slice of an array, or NULL when it is damaged, which verify_chunks has told. */
static const uint8_t *slice(scan *v, uint32_t array, uint64_t first, uint64_t n_rows) {
  const void *data;
  return annb_arrays_view(v->a, array, first, n_rows, &data, NULL) ? NULL : data;
}

/* Arrays are aligned, the file is mapped. */
static int64_t code_at(const void *codes, uint64_t i, annb_dtype dtype) {
  if (dtype == ANNB_I8) return ((const int8_t *)codes)[i];
  if (dtype == ANNB_I16) return ((const int16_t *)codes)[i];
  return ((const int32_t *)codes)[i];
}

static uint64_t offset_at(const uint8_t *offsets, uint64_t i) {
  uint64_t x;
  memcpy(&x, offsets + i * sizeof x, sizeof x);
  return x;
}

/* Each of these looks at rows first … first + n − 1 of column i and tells the first that is wrong: one finding a column is enough. */

static bool codes_right(scan *v, uint32_t i, const annb_fmt_column *c, uint64_t first, uint64_t n) {
  const uint8_t *codes = slice(v, c->values, first, n);
  annb_dtype dtype = (annb_dtype)annb_arrays_array(v->a, c->values).dtype;
  uint64_t n_categories = annb_arrays_column(v->a, c->categories).length;
  for (uint64_t k = 0; codes && k < n; k++) {
    int64_t code = code_at(codes, k, dtype);
    if (code >= -1 && code < (int64_t)n_categories) continue;
    FINDING((int64_t)(first + k), "column %u: row %llu has code %lld of %llu categories", i, ULL(first + k), (long long)code,
            ULL(n_categories));
    return false;
  }
  return true;
}

static bool offsets_right(scan *v, uint32_t i, const annb_fmt_column *c, uint64_t first, uint64_t n) {
  uint64_t n_bytes = annb_arrays_array(v->a, c->bytes).n_rows;
  const uint8_t *offsets = slice(v, c->values, first, n + 1);
  if (!offsets) return true;
  for (uint64_t k = 0; k < n; k++) {
    uint64_t from = offset_at(offsets, k), to = offset_at(offsets, k + 1);
    if (from <= to && to <= n_bytes) continue;
    FINDING((int64_t)(first + k), "column %u: the string of row %llu is said to be bytes %llu to %llu of %llu", i, ULL(first + k),
            ULL(from), ULL(to), ULL(n_bytes));
    return false;
  }
  if (first == 0 && offset_at(offsets, 0) != 0) return FINDING(ANNB_NO_ROW, "column %u: its string offsets do not start at 0", i), false;
  if (first + n == c->length && offset_at(offsets, n) != n_bytes)
    return FINDING(ANNB_NO_ROW, "column %u: its strings end at byte %llu of %llu", i, ULL(offset_at(offsets, n)), ULL(n_bytes)), false;
  return true;
}

static bool mask_right(scan *v, uint32_t i, const annb_fmt_column *c, uint64_t first, uint64_t n) {
  const uint8_t *mask = slice(v, c->mask, first, n);
  for (uint64_t k = 0; mask && k < n; k++) {
    if (mask[k] <= 1) continue;
    FINDING((int64_t)(first + k), "column %u: the mask of row %llu is %u, not 0 or 1", i, ULL(first + k), mask[k]);
    return false;
  }
  return true;
}

typedef bool (*rows_right)(scan *v, uint32_t i, const annb_fmt_column *c, uint64_t first, uint64_t n);

static void verify_rows(scan *v, uint32_t i, const annb_fmt_column *c, rows_right right) {
  uint64_t first = 0;
  do { /* once for no rows too: strings have an offset then */
    uint64_t n = c->length - first < SLICE ? c->length - first : SLICE;
    if (!right(v, i, c, first, n)) return;
    first += n;
  } while (first < c->length);
}

void annb_arrays_verify(annb_arrays *arrays, bool (*report)(void *user, const annb_error *finding), void *user) {
  scan v = {.a = arrays, .report = report, .user = user};
  verify_chunks(&v);
  if (!v.stopped) verify_gaps(&v);
  for (uint32_t i = 0; !v.stopped && i < arrays->n_columns; i++) {
    annb_fmt_column c = annb_arrays_column(arrays, i);
    if (c.kind == ANNB_COLUMN_CATEGORICAL) verify_rows(&v, i, &c, codes_right);
    if (c.kind == ANNB_COLUMN_STRING) verify_rows(&v, i, &c, offsets_right);
    if (!v.stopped && c.mask != ANNB_NONE) verify_rows(&v, i, &c, mask_right);
  }
}
