/* A source matrix as chunks of CSR rows, in bounded memory whatever its form. */
#ifndef ANNB_CONVERT_ROWS_H
#define ANNB_CONVERT_ROWS_H

#include "../source/source.h"
#include "shuffle.h"
#include "transpose.h"

#include <annblock/convert.h>

typedef struct annb_rows annb_rows;

typedef struct annb_rows_options {
  uint64_t memory;                   /* cap on all buffers, HDF5's chunk caches aside */
  const char *spool_dir;             /* for the temporary files of a transposition */
  annb_convert_progress_fn progress; /* may be NULL */
  void *user;
  const uint32_t *row_rank; /* CSC: where each row stands in the order that columns are expected to have; NULL: by number */
  uint32_t n_threads;       /* to decompress with; 0 = 1 */
  const annb_shuffle *shuffle; /* give the rows in this order; NULL: in the source's */
} annb_rows_options;

/* `m` must stay open. Nothing is read yet but the first row pointer. */
annb_status annb_rows_open(const annb_source_matrix *m, const annb_rows_options *options, annb_rows **out, annb_error *err);
void annb_rows_close(annb_rows *rows); /* NULL is allowed */

/* ---- row after row: Row i has the elements indptr[i] - indptr[0] … indptr[i+1] - indptr[0] ---- */

typedef struct annb_rows_chunk {
  uint64_t n_rows;
  const uint64_t *indptr;
  const uint32_t *indices;
  const void *values;
} annb_rows_chunk;

/* The next rows, valid until the next call; n_rows = 0 after the last. Every pointer and index is checked: ANNB_EINPUT. */
annb_status annb_rows_next(annb_rows *rows, annb_rows_chunk *chunk, annb_error *err);

/* ---- the same by many threads, in pieces ---- */

/* Rows that wait to be read, or are. Zero-initialise; the memory serves the next ones too. */
typedef struct annb_rows_piece {
  uint64_t first_row, n_rows;
  uint64_t *indptr; /* n_rows + 1, from 0 */
  void *indices, *values;
  uint64_t indptr_room, room;
  uint64_t bytes;                   /* what its elements take */
  uint64_t first;                   /* CSR: its first element in the source */
  bool indices_ready, values_ready; /* no stream has to be read */
  bool checked;                     /* indices are u32 and below the number of columns */
  bool later;                       /* no rows yet: some that were taken have to be filled first */
  annb_leaf leaf;                   /* rows that wait in a transposition, whose memory is `room` */
  annb_leaf_room leaf_room;
} annb_rows_piece;
void annb_rows_piece_free(annb_rows_piece *piece);
void annb_rows_piece_trim(annb_rows_piece *piece, uint64_t bytes); /* give memory of more than that back */

/* Everything that comes before the first row: what is not stored by rows, or is wanted in another order, is read here. */
annb_status annb_rows_prepare(annb_rows *rows, annb_error *err);
/* After that, one call at a time: the next rows, of about `elements` elements; n_rows = 0 after the last, and when it is `later`. Uses
 * HDF5. */
annb_status annb_rows_take(annb_rows *rows, uint64_t elements, annb_rows_piece *piece, annb_error *err);
/* Then, on any thread (`worker`: 0 … n_threads − 1): read and check its elements. They are valid until the worker's next call, as long as
 * the piece is not taken again. */
annb_status annb_rows_fill(annb_rows *rows, uint32_t worker, annb_rows_piece *piece, annb_rows_chunk *chunk, annb_error *err);

/* After the last row of a CSC source: some column's rows did not ascend as expected, so that its order cannot be had from the rows. */
bool annb_rows_unordered(const annb_rows *rows);

/* Elements to expect: known for sparse forms; for dense scaled up from the first rows, the same whatever the memory. */
annb_status annb_rows_expected(const annb_source_matrix *m, uint64_t *nnz, annb_error *err);

#endif
