/* Which matrices a source has. */
#ifndef ANNB_CONVERT_MATRICES_H
#define ANNB_CONVERT_MATRICES_H

#include "names.h"
#include "source.h"

/* Is there a matrix X? A link without an object counts, a null dataset does not. */
bool annb_source_has_x(hid_t file);

/* The names of what can be packed by its looks, in this order: X (whatever it is), the numeric arrays of two dimensions and CSR or CSC
 * groups among layers/…, raw/X, and those among obsm/…, keys in name order. "raw/X" stands for the root's "raw.X" of older
 * files too. */
annb_status annb_source_matrices(const annb_source *source, annb_names *out, annb_error *err);

/* Where the matrix `name` is, in fresh memory: "/raw.X" or "/" and the name. NULL when there is no memory. */
char *annb_source_matrix_path(hid_t file, const char *name);

/* How many columns the matrix `name` must have; UINT64_MAX: any number. *axis is what has them: "var", "raw/var". */
uint64_t annb_source_matrix_columns(const annb_source *source, const char *name, const char **axis);

#endif
