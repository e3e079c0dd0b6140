/* The values of one dataset of a source file, or of one field of a compound one, read piece by piece. */
#ifndef ANNB_CONVERT_VALUES_H
#define ANNB_CONVERT_VALUES_H

#include "direct.h"
#include "h5.h"

/* What was looked at before HDF5 read it: the list of chunks, chunks of rows first … end − 1. */
typedef struct annb_looked {
  bool places;
  uint64_t first, end;
} annb_looked;

typedef struct annb_values {
  const char *file; /* for messages; the caller's */
  char *object;     /* for messages: "/obs/louvain" */
  char *field;      /* of a compound dataset, or NULL */
  hid_t dataset;
  hid_t type; /* of one value, in the file */
  int rank;
  hsize_t dims[32];
  uint64_t n; /* dims[0]; 1 for a scalar */
  annb_direct *direct; /* a shorter way to plain values, or NULL */
  annb_looked *looked; /* NULL without `direct`: all was looked at when it was opened */
} annb_values;

/* Open the dataset `name` under `parent`, or its field. Everything that reading needs is checked here: it is a dataset, not empty of
 * extent, its filters are there (ANNB_EUNSUPPORTED names the one missing), its filtered chunks fit a quarter of `memory` (ANNB_ENOMEM). */
annb_status annb_values_open(annb_values *v, const char *file, hid_t parent, const char *name, const char *field, const char *object,
                             uint64_t memory, annb_error *err);
/* The same for a dataset open already, which is taken over (also on failure). */
annb_status annb_values_adopt(annb_values *v, const char *file, hid_t dataset, const char *field, const char *object, uint64_t memory,
                              annb_error *err);
void annb_values_close(annb_values *v); /* an `annb_values` of ANNB_VALUES_NONE is allowed */
#define ANNB_VALUES_NONE {.dataset = -1, .type = -1}

/* Height and width of its chunks (width 1 unless of rank 2); 0 and 0 when it is not chunked. */
void annb_values_chunk(const annb_values *v, uint64_t *height, uint64_t *width);

/* Decompress what is read from now on by so many threads, where HDF5 need not do it. */
void annb_values_set_threads(const annb_values *v, uint32_t n);
/* Keep what is decompressed for an annb_stream over the same values, or no more: see annb_direct_save. */
void annb_values_save(const annb_values *v, bool save);
/* As annb_direct_prefetch. */
annb_status annb_values_prefetch(const annb_values *v, uint32_t n_ranges, const uint64_t *firsts, uint64_t n, annb_error *err);

/* Rows [first, first + n), converted to `memory_type`. */
annb_status annb_values_read(const annb_values *v, hid_t memory_type, uint64_t first, uint64_t n, void *out, annb_error *err);
/* Rows [first, first + n) × columns [first_col, first_col + n_cols) of a dataset of rank 2. */
annb_status annb_values_read_box(const annb_values *v, hid_t memory_type, uint64_t first, uint64_t n, uint64_t first_col, uint64_t n_cols,
                                 void *out, annb_error *err);
/* Integers of any width, widened. Unsigned values past INT64_MAX become INT64_MAX, which no range check lets pass. */
annb_status annb_values_read_i64(const annb_values *v, uint64_t first, uint64_t n, int64_t *out, annb_error *err);
/* The integer in `row` as it is, for messages. */
void annb_values_integer_text(const annb_values *v, uint64_t row, char text[32]);
/* Row pointers: integers, or floats that are whole. Negative or fractional: ANNB_EINPUT. */
annb_status annb_values_read_pointers(const annb_values *v, uint64_t first, uint64_t n, uint64_t *out, annb_error *err);

/* The type to read integers of `type` with: the same width and sign, little-endian. */
hid_t annb_values_integer_type(hid_t type);

/* Call `each` for every string in order: fixed or variable length, without padding; a NULL pointer is an empty string. */
typedef annb_status (*annb_string_fn)(void *user, const char *bytes, uint64_t length, annb_error *err);
annb_status annb_values_strings(const annb_values *v, uint64_t memory, annb_string_fn each, void *user, annb_error *err);

#endif
