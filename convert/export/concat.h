/* A store of several parts as one new `.h5ad` file, written from what readers see: not from the sidecars. */
#ifndef ANNB_CONVERT_CONCAT_H
#define ANNB_CONVERT_CONCAT_H

#include "../source/h5.h"

#include "../../reader/row_orders.h"

#include <annblock/reader.h>

typedef struct annb_concat {
  const annb_store *store;
  annb_context *context;
  const annb_row_orders *orders; /* NULL: rows are stored as the sources have them */
  const char *out_name;
  uint64_t memory; /* cap on buffers */
  annb_convert_progress_fn progress;
  void *user;
} annb_concat;

/* Create the file, each part's rows in the order of its source: obs (the columns of the store), var (the store's genes), and every matrix that all parts have: X and layers as CSR,
 * obsm as arrays. Encodings are those of anndata 0.8; strings with missing values are nullable-string-array, which anndata reads from
 * 0.11 on. */
annb_status annb_concat_write(const annb_concat *concat, annb_error *err);

/* ---- between concat.c and its other files ---- */

/* The attributes encoding-type and encoding-version. */
annb_status annb_concat_encoding(const annb_concat *concat, hid_t object, const char *type, const char *version, annb_error *err);
/* A group of that encoding ("dict" 0.1.0, …), to be closed. */
annb_status annb_concat_group(const annb_concat *concat, hid_t parent, const char *name, const char *type, const char *version,
                              hid_t *group, annb_error *err);
/* The table `name` ("obs", "var") of an axis. */
annb_status annb_concat_table(const annb_concat *concat, hid_t file, annb_axis axis, annb_error *err);
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
