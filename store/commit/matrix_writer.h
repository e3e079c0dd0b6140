/* What the converter and the tests need of the matrix writer beside annblock/store.h. */
#ifndef ANNB_STORE_MATRIX_WRITER_H
#define ANNB_STORE_MATRIX_WRITER_H

#include "../pipeline.h"

#include <annblock/store.h>

typedef struct annb_row_piece {
  uint64_t n_rows;
  const uint64_t *indptr;
  const uint32_t *indices;
  const void *values;
} annb_row_piece;

/* Rows in a block for a matrix of `nnz` elements in `rows` rows: the largest power of two, 1 … 65536, whose block is estimated at no more
 * than 360 KiB (at least half of it then); 256 when either is 0 (unknown). */
uint32_t annb_matrix_block_rows(uint64_t rows, uint64_t nnz);

/* Close segments at the first block boundary past `bytes` instead of 2 GiB. Before the first row. */
void annb_matrix_writer_set_segment_bytes(annb_matrix_writer *writer, uint64_t bytes);

/* Rows that come piece by piece, any number of them in each. Of failures the first in the order of rows is told. */
typedef struct annb_row_feed {
  void *user;
  uint32_t n_slots; /* pieces under way at most */
  /* One call at a time, in order: what the next piece is. */
  annb_status (*take)(void *user, uint32_t slot, annb_take *taken, annb_error *err);
  /* On any thread: its rows, as annb_matrix_writer_append takes them but with everything in range, valid until the slot is done. */
  annb_status (*fill)(void *user, uint32_t worker, uint32_t slot, annb_row_piece *rows, annb_error *err);
  /* One call at a time, in order: it is written. May be NULL. */
  annb_status (*done)(void *user, uint32_t slot, annb_error *err);
  /* On the caller's thread, now and then. May be NULL. */
  annb_status (*watch)(void *user, annb_error *err);
} annb_row_feed;

/* Append all of them, on the writer's threads. */
annb_status annb_matrix_writer_stream(annb_matrix_writer *writer, const annb_row_feed *feed, annb_error *err);

#endif
