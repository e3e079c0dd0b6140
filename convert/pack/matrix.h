/* Packing one matrix of a source: its rows to segments, its gene order and source order to flat arrays. */
#ifndef ANNB_CONVERT_PACK_MATRIX_H
#define ANNB_CONVERT_PACK_MATRIX_H

#include "../rows/shuffle.h"
#include "../source/source.h"

#include <annblock/convert.h>

/* A matrix of one part. Zero-initialise but for the source's handles: annb_pack_matrix_open does. */
typedef struct annb_pack_matrix {
  char *name;               /* in the store: "X", "layers/counts" */
  annb_source_matrix from;  /* what it is in the source; after packing only the description, its datasets are closed */
  annb_axes axes;
  annb_matrix_writer *writer; /* after packing: every row is written, it waits to be attached to its part */
  bool keep_indices;        /* after packing: the store cannot give the order of the source's `indices` */
} annb_pack_matrix;

/* Find the matrix `name` in the source and check everything but its elements: errors of annb_source_matrix_open. Writes nothing. Its
 * datasets are open and may be closed until it is written. */
annb_status annb_pack_matrix_open(annb_pack_matrix *m, const annb_source *source, const char *name, annb_error *err);

/* Write its rows, opened anew. `columns` is the object of the part's columns, which segments name; options->memory and n_threads are
 * set. `shuffle`: the order of the rows, or NULL. */
annb_status annb_pack_matrix_write(annb_pack_matrix *m, const annb_source *source, annb_txn *txn, uint32_t columns,
                                   const annb_pack_options *options, const annb_shuffle *shuffle, annb_error *err);

/* Enter it in the manifest as the row `matrix` of the part `part`. `nnz` may be NULL. */
annb_status annb_pack_matrix_attach(annb_pack_matrix *m, uint32_t part, uint32_t matrix, uint64_t *nnz, annb_error *err);

/* Before the end of the transaction. A zeroed one, or one that failed to open, is allowed. */
void annb_pack_matrix_close(annb_pack_matrix *m);

#endif
