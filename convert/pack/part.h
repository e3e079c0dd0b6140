/* Packing one `.h5ad` file as one part of a transaction.
 *
 * annb_pack_part_open finds what there is and writes nothing; annb_pack_part_write writes every object of the part; the rows of the
 * manifest are the caller's: annb_txn_add_matrix for each matrix that the store lacks, annb_txn_add_part with `spec`, and at once
 * annb_pack_part_attach. Closing comes before the end of the transaction. */
#ifndef ANNB_CONVERT_PACK_PART_H
#define ANNB_CONVERT_PACK_PART_H

#include "../sidecar/sidecar.h"
#include "matrix.h"

#include <sys/stat.h>

typedef struct annb_pack_part {
  const char *input;
  const annb_pack_options *options; /* memory and n_threads are set */
  struct stat before;               /* of the input */
  annb_source source;
  annb_pack_matrix *matrices;
  size_t n_matrices;
  uint32_t n_left; /* with "all": matrices that cannot be packed */
  annb_error left; /* why the first cannot */
  annb_shuffle *shuffle; /* NULL: rows stay as they are */
  annb_part_spec spec; /* n_rows and n_vars once open, objects once written */
} annb_pack_part;

/* Open the source and check its axes and the matrices that the options name, which are then in the order of annb_source_matrices; their
 * datasets are closed again until they are written. `input` and `options` must outlive the part. Close in any case. */
annb_status annb_pack_part_open(annb_pack_part *part, const char *input, const annb_pack_options *options, annb_error *err);

/* Write columns (unless spec.columns is an object of `txn` already), row order, matrices, sidecar and restore file as objects of `txn`. */
annb_status annb_pack_part_write(annb_pack_part *part, annb_txn *txn, annb_error *err);

/* Attach every matrix to the part row `row`, which was added last: matrix i as row matrix_rows[i] of the matrix table. `nnz` (of all
 * together) may be NULL. */
annb_status annb_pack_part_attach(annb_pack_part *part, uint32_t row, const uint32_t *matrix_rows, uint64_t *nnz, annb_error *err);

/* ANNB_EINPUT when the file is not the one that was opened any more: before a commit. */
annb_status annb_pack_part_unchanged(const annb_pack_part *part, annb_error *err);

/* A zeroed one is allowed. */
void annb_pack_part_close(annb_pack_part *part);

/* ---- pieces of annb_pack_part_write ---- */

/* The names and columns of obs and var: spec.columns. */
annb_status annb_pack_part_write_columns(annb_pack_part *part, annb_txn *txn, annb_error *err);
/* Sidecar and restore file without the matrices `packed`: spec.sidecar, spec.restore. */
annb_status annb_pack_part_write_sidecar(annb_pack_part *part, annb_txn *txn, const annb_packed *packed, size_t n_packed, annb_error *err);

#endif
