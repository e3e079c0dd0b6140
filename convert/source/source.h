/* A source `.h5ad`: what it is, its axes, its matrices. All layouts since anndata 0.5, and what R, Rust and C++ write. */
#ifndef ANNB_CONVERT_SOURCE_H
#define ANNB_CONVERT_SOURCE_H

#include "values.h"

typedef struct annb_source_axis {
  const char *name; /* "obs" or "var" */
  hid_t object;     /* a group, or a compound dataset; -1: the file has no such axis, which has no names and columns then */
  bool compound;
  char *index; /* the child or field that holds the names */
  uint64_t length;
  uint64_t stored; /* bytes that the names take in the file */
} annb_source_axis;

typedef struct annb_source {
  char *path;
  hid_t file;
  uint64_t memory; /* cap given to annb_values_open */
  annb_source_axis obs, var;
} annb_source;

/* Open `path` and find obs and var. ANNB_EINPUT says what the file is when it is no AnnData (10x, MuData, loom), or what is missing.
 * Without an X one axis may be missing, which then has no members; without both the shape of an X that is marked as AnnData's tells how
 * many there are. */
annb_status annb_source_open(annb_source *source, const char *path, uint64_t memory, annb_error *err);
void annb_source_close(annb_source *source);
/* Genes of raw, or UINT64_MAX when the file does not tell. */
uint64_t annb_source_raw_vars(const annb_source *source);

typedef struct annb_source_matrix {
  const char *file; /* for messages; the source's */
  char *path;       /* absolute, without soft links at its end */
  annb_form form;
  annb_dtype dtype;
  hid_t memory_type; /* to read the values with: their bits, little-endian */
  uint64_t n_rows, n_cols;
  uint64_t want_cols; /* what `axis` has; UINT64_MAX: any number of columns will do */
  const char *axis;
  uint64_t nnz; /* the last row or column pointer; 0 for dense */
  bool float_pointers;
  annb_values data, indices, indptr; /* dense: data alone */
} annb_source_matrix;
#define ANNB_SOURCE_MATRIX_NONE {.memory_type = -1, .data = ANNB_VALUES_NONE, .indices = ANNB_VALUES_NONE, .indptr = ANNB_VALUES_NONE}

/* Open the matrix `name` as annb_source_matrices calls it. ANNB_EUNSUPPORTED when it is missing or of a kind that is not packed,
 * ANNB_EINPUT when its parts do not fit together or its shape not obs (and var, for X and layers; raw/var). Elements are not looked at
 * yet. */
annb_status annb_source_matrix_open(annb_source_matrix *m, const annb_source *source, const char *name, annb_error *err);
/* The datasets alone: the description stays. */
void annb_source_matrix_close_values(annb_source_matrix *m);
void annb_source_matrix_close(annb_source_matrix *m);

#endif
