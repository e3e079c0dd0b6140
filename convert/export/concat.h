/* A store of several parts as one new `.h5ad` file, written from what readers see: not from the sidecars. */
#ifndef ANNB_CONVERT_CONCAT_H
#define ANNB_CONVERT_CONCAT_H

#include "../source/h5.h"
#include "selection.h"

typedef struct annb_concat {
  const annb_store *store;
  annb_context *context;
  const char *out_name;
  const annb_export_options *options; /* memory, compression and level set */
  const annb_selection *rows, *genes; /* of the store */
} annb_concat;

/* Create the file: obs (the columns of the store), var (the store's genes), and every matrix that all parts have: X and layers as CSR,
 * obsm as arrays; of the cells and genes selected. options->subset.skip may name columns ("obs/batch") and matrices, which are left out.
 * Encodings are those of anndata 0.8; strings with missing values are nullable-string-array, which anndata reads from 0.11 on. */
annb_status annb_concat_write(const annb_concat *concat, annb_error *err);

/* ---- between concat.c and its other files ---- */

/* The attributes encoding-type and encoding-version. */
annb_status annb_concat_encoding(const annb_concat *concat, hid_t object, const char *type, const char *version, annb_error *err);
/* A group of that encoding ("dict" 0.1.0, …), to be closed. */
annb_status annb_concat_group(const annb_concat *concat, hid_t parent, const char *name, const char *type, const char *version,
                              hid_t *group, annb_error *err);
/* The table `name` ("obs", "var") of an axis. */
annb_status annb_concat_table(const annb_concat *concat, hid_t file, annb_axis axis, annb_error *err);
/* Is the matrix one of the file's? Every part has it, with the store's genes or a width of its own, and it is not left out. */
annb_status annb_concat_has(const annb_concat *concat, uint32_t matrix, bool *has, annb_error *err);
/* Is this column? HDF5 takes a slash for a path. */
bool annb_concat_has_column(const annb_concat *concat, const annb_column_info *info);
/* ANNB_ENOTFOUND when there is nothing of the name that is to be left out: a slip would not be noticed. */
annb_status annb_concat_check_skip(const annb_concat *concat, annb_error *err);
/* A matrix of the store at its name. */
annb_status annb_concat_matrix(const annb_concat *concat, hid_t file, uint32_t matrix, annb_error *err);
/* The type of a value in the file and in memory: little-endian, bool as h5py's enum. To be closed. */
hid_t annb_concat_type(annb_dtype dtype);

/* A vector that grows. */
typedef struct annb_vector {
  hid_t dataset, type;
  uint64_t n;
  const char *name;
} annb_vector;
annb_status annb_vector_create(const annb_concat *concat, hid_t parent, const char *name, hid_t type, annb_vector *out, annb_error *err);
annb_status annb_vector_append(const annb_concat *concat, annb_vector *vector, const void *data, uint64_t n, annb_error *err);
void annb_vector_close(annb_vector *vector); /* its type too */

#endif
