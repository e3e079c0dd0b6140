/* What the forms of rows.h share. */
#ifndef ANNB_CONVERT_ROWS_INTERNAL_H
#define ANNB_CONVERT_ROWS_INTERNAL_H

#include "../source/stream.h"
#include "rows.h"
#include "transpose.h"
#include "windows.h"

enum { ANNB_ROWS_MAX = 65536 }; /* rows of a chunk, and pointers read at once */

/* Row or column pointers, read in windows and checked: from 0, never decreasing, never past `limit`. */
typedef struct annb_pointers {
  const annb_values *v;
  uint64_t n, next, limit; /* n + 1 pointers; `next` are read */
  uint64_t *p;             /* p[at] … p[have] are the bounds of the window's rows at … have - 1 */
  uint64_t at, have;
} annb_pointers;

struct annb_rows {
  const annb_source_matrix *m;
  annb_rows_options options;
  size_t value_size, index_size; /* index_size: of an element of `indices` before it is narrowed */
  hid_t index_type;              /* sparse: to read indices with */
  size_t stored_size;            /* sparse: of an index in the file */
  bool signed_indices;
  annb_stream *index_stream, *value_stream; /* sparse, once elements are read by several threads */
  annb_leaf_raw *raws;                      /* one per thread */
  uint64_t row;                  /* the next to give out */
  uint64_t wanted;               /* elements of a piece */
  annb_rows_piece own;           /* what the rows of a chunk are read to */
  annb_pointers pointers;
  bool unordered;

  annb_windows *windows; /* or else, where rows do not come straight: */
  annb_transpose *transpose;
  bool spooled, held; /* held: the group of `row` was taken but did not fit the chunk */
  uint64_t held_n;
  const uint32_t *held_columns;
  const void *held_values;

  uint8_t *band; /* dense: rows [band_first, band_first + band_rows) */
  uint64_t band_first, band_rows;
};

/* Make room for n elements of row `row`: ANNB_ENOMEM past half the memory. */
annb_status annb_rows_reserve(const annb_rows *r, annb_rows_piece *piece, uint64_t n, uint64_t row, annb_error *err);
annb_status annb_rows_reserve_rows(annb_rows_piece *piece, uint64_t n, annb_error *err);
/* False when the caller wants to stop. */
annb_status annb_rows_progress(const annb_rows *r, const char *stage, uint64_t done, uint64_t total, annb_error *err);

/* Make the window hold a row, unless all are used up (at == have). */
annb_status annb_pointers_fill(annb_pointers *pointers, annb_error *err);
/* Elements [first, first + n) into `own`, its indices as u32, all below `limit`. */
annb_status annb_rows_read_elements(annb_rows *r, uint64_t first, uint64_t n, uint64_t limit, annb_error *err);
/* Indices as they are in the file, of the elements [first, first + n), to u32, all below `limit`. On any thread. */
annb_status annb_rows_narrow(const annb_rows *r, void *indices, uint64_t first, uint64_t n, uint64_t limit, annb_error *err);

/* The number that row `row` of the source gets. */
static inline uint32_t annb_rows_key(const annb_rows *r, uint64_t row) {
  return (uint32_t)(r->options.shuffle ? annb_shuffle_place(r->options.shuffle, row) : row);
}

annb_status annb_rows_open_streams(annb_rows *r, annb_error *err);
annb_status annb_rows_take_csr(annb_rows *r, annb_rows_piece *piece, annb_error *err);
annb_status annb_rows_next_csr(annb_rows *r, annb_rows_chunk *chunk, annb_error *err);
annb_status annb_rows_spool_csc(annb_rows *r, annb_error *err);
/* Dense rows come straight from the file when the rows of one chunk fit memory, else by way of the transposer. */
bool annb_rows_dense_fits(const annb_rows *r, uint64_t *height);
annb_status annb_rows_next_dense(annb_rows *r, annb_rows_chunk *chunk, annb_error *err);
annb_status annb_rows_spool_dense(annb_rows *r, annb_error *err);

#endif
