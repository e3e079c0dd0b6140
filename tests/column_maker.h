/* Columns of a flat-arrays object, one call each. */
#ifndef ANNB_TESTS_COLUMN_MAKER_H
#define ANNB_TESTS_COLUMN_MAKER_H

#include "store_maker.h"

#include <string.h>

static annb_error err; /* of the test program */

static inline uint32_t vector(annb_arrays_writer *w, annb_dtype dtype, const void *values, uint64_t n) {
  uint32_t array;
  OK(annb_arrays_begin(w, "", dtype, 1, &array, &err));
  if (n) OK(annb_arrays_append(w, values, n, &err));
  OK(annb_arrays_end(w, &err));
  return array;
}

static inline uint32_t add(annb_arrays_writer *w, annb_column_spec spec) {
  uint32_t column;
  OK(annb_arrays_add_column(w, &spec, &column, &err));
  return column;
}

static inline uint32_t strings(annb_arrays_writer *w, const char *name, annb_axis axis, uint8_t flags, const char *const *text, uint64_t n,
                               uint32_t missing) {
  annb_string_writer *s;
  uint32_t offsets, bytes;
  OK(annb_strings_begin(w, &s, &err));
  for (uint64_t i = 0; i < n; i++) OK(annb_strings_append(s, text[i], strlen(text[i]), &err));
  OK(annb_strings_end(s, &offsets, &bytes, &err));
  return add(w, (annb_column_spec){name, n, axis, ANNB_COLUMN_STRING, flags, offsets, bytes, missing, ANNB_NONE});
}

#endif
