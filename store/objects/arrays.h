/* Flat-arrays files (SPEC.md, section 4), reading; and the same in memory. The writer of files is public: annblock/store.h. */
#ifndef ANNB_STORE_ARRAYS_H
#define ANNB_STORE_ARRAYS_H

#include "envelope.h"
#include "../io.h"

#include <annblock/store.h>
#include <stdatomic.h>

typedef struct annb_arrays {
  char *path;
  annb_map map;
  bool borrowed; /* the map is the caller's memory */
  annb_envelope envelope;
  uint64_t data_offset, data_length, n_chunks, n_arrays, n_columns, names_length;
  const uint8_t *array_table, *column_table, *checks; /* into the map, unaligned */
  const char *names;
  _Atomic uint64_t *checked; /* bit per chunk that was found good */
} annb_arrays;

/* Map; check envelope, tables (every offset, length, reference, dtype, kind) and the hashes of all sections but the arrays. */
annb_status annb_arrays_open(const char *path, annb_arrays **out, annb_error *err);
void annb_arrays_close(annb_arrays *arrays);

/* A file in memory: the writer of annblock/store.h but for open and close. What it made is described by `object`; `bytes` are the caller's,
 * to be freed. The writer is freed in any case. `name` is for messages; the bytes must outlive what is opened. */
annb_status annb_arrays_writer_open_memory(annb_arrays_writer **out, annb_error *err);
annb_status annb_arrays_writer_close_memory(annb_arrays_writer *writer, annb_fmt_object *object, uint8_t **bytes, annb_error *err);
annb_status annb_arrays_open_memory(const char *name, const uint8_t *bytes, uint64_t size, annb_arrays **out, annb_error *err);

/* The tables of a file, as on disk (unaligned): what writer and reader check alike. */
typedef struct annb_arrays_tables {
  const uint8_t *arrays, *columns;
  uint64_t n_arrays, n_columns;
} annb_arrays_tables;

/* What is wrong with a column, or NULL: kind, flags, and that the arrays and categories it names are there and have its shape and type. */
const char *annb_arrays_column_fault(const annb_arrays_tables *tables, const annb_fmt_column *column);
/* What is wrong with the columns of an axis together, or NULL: one length, at most one index. */
const char *annb_arrays_axis_fault(const annb_arrays_tables *tables, annb_axis axis);

annb_fmt_array annb_arrays_array(const annb_arrays *arrays, uint32_t i);    /* i < n_arrays */
annb_fmt_column annb_arrays_column(const annb_arrays *arrays, uint32_t i);  /* i < n_columns */

/* The free array called `name`: ANNB_ENOTFOUND. */
annb_status annb_arrays_find(const annb_arrays *arrays, const char *name, uint32_t *array, annb_error *err);

/* Rows first … first + n_rows − 1 of an array, in place, verified on first touch. ANNB_ERANGE, ANNB_ECORRUPT. */
annb_status annb_arrays_view(annb_arrays *arrays, uint32_t array, uint64_t first, uint64_t n_rows, const void **out, annb_error *err);

/* Chunk < n_chunks of the arrays section: ANNB_ECORRUPT. Remembered when good. */
annb_status annb_arrays_check_chunk(annb_arrays *arrays, uint64_t chunk, annb_error *err);

/* Check every chunk, gap, code and string offset. Findings as in annb_segment_verify. */
void annb_arrays_verify(annb_arrays *arrays, bool (*report)(void *user, const annb_error *finding), void *user);

#endif
