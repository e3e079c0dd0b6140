/* What the tests need of the matrix writer beside annblock/store.h. */
#ifndef ANNB_STORE_MATRIX_WRITER_H
#define ANNB_STORE_MATRIX_WRITER_H

#include <annblock/store.h>

/* Rows in a block for a matrix of `nnz` elements in `rows` rows: the largest power of two, 1 … 65536, whose block is estimated at no more
 * than 360 KiB (at least half of it then); 256 when either is 0 (unknown). */
uint32_t annb_matrix_block_rows(uint64_t rows, uint64_t nnz);

/* Close segments at the first block boundary past `bytes` instead of 2 GiB. Before the first row. */
void annb_matrix_writer_set_segment_bytes(annb_matrix_writer *writer, uint64_t bytes);

#endif
