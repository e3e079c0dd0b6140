/* Reading stores.
 *
 * An open store is immutable: any number of threads may use one annb_store at once, also after fork. Nothing is printed, no
 * environment is read, a store has no locks (helpers of a context share one). Files are mapped when first needed and verified when first
 * touched (index pages, chunks of flat arrays) or each time (records).
 *
 * Scratch memory is in an annb_context: one per thread, reusable for any number of calls on any store. Where a call asks for several
 * threads (`n_threads`), the context starts the helpers with the first such call, with all signals blocked, and closing it ends them. A
 * forked child may use the contexts that no other thread of its parent was using: it starts helpers of its own.
 *
 * What happens to awkward data:
 *   a row number past n_obs                 ANNB_ERANGE, names the row
 *   a part, matrix or column past the last  ANNB_ERANGE; a name that is not there: ANNB_ENOTFOUND
 *   repeated column indices in a row        CSR: delivered as stored; dense: summed in the delivered dtype (integers wrap as in C)
 *   unsorted rows                           delivered as stored, or ascending (stable) with `sort_indices`
 *   genes stored in another order           column numbers of the source, and dense columns in its order, unless
 *                                           `gene_order` asks for the stored numbers; rows come in stored order either way
 *   stored numbers of rows from parts with
 *   different gene orders, or of a part
 *   whose genes are mapped to the store's   ANNB_EINVAL, names the row
 *   a delivered dtype that cannot hold a
 *   value exactly                           ANNB_ELOSSY, names the row, unless `allow_lossy` (C conversion, clamped to range: finite
 *                                           values stay finite, NaN is 0 in integers). NaN is exact in every floating-point dtype,
 *                                           -0.0 is exact as 0; a bool is 1 when its byte is not 0
 *   a part without the matrix               no elements, or ANNB_ENOTFOUND, which names the row: as the matrix says
 *   genes that are not the store's (inner   left out: annb_fetch_nnz counts them (its numbers are bounds then), indptr of annb_fetch_csr
 *   join)                                   does not
 *   genes that a part lacks (outer join)    zero: no elements
 *   nnz of one batch over 2^31 - 1          ANNB_ERANGE with int32 output
 *   categorical code -1                     missing, never a class; other codes without a category: ANNB_ECORRUPT
 *   damaged bytes                           ANNB_ECORRUPT, names file, row and check; buffers' contents are then undefined
 *   a newer format, an unknown feature      ANNB_EVERSION, ANNB_EUNSUPPORTED when opening */
#ifndef ANNBLOCK_READER_H
#define ANNBLOCK_READER_H

#include <annblock/format.h>
#include <annblock/status.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct annb_store annb_store;
typedef struct annb_context annb_context;
typedef struct annb_column annb_column;
typedef struct annb_joint_column annb_joint_column;

/* ---- open ---- */

typedef struct annb_open_options {
  uint64_t generation;  /* 0 = the newest */
  bool skip_checks;     /* do not verify record checks (index pages and headers always are) */
  bool one_part;        /* open the part `part` alone (numbered from 0), as the store that it would be by itself, with its own genes */
  uint32_t part;
} annb_open_options;

/* Open the store directory `path`; `options` may be NULL. O(1) in the size of the data: reads manifests, trailers and headers.
 * ANNB_ENOTSTORE, ANNB_EVERSION, ANNB_EUNSUPPORTED, ANNB_ECORRUPT, ANNB_EIO, ANNB_ENOTFOUND (no such generation or part). */
annb_status annb_store_open(const char *path, const annb_open_options *options, annb_store **out, annb_error *err);
void annb_store_close(annb_store *store); /* NULL is allowed; no call may be running */

/* How lists of genes become one. */
typedef enum annb_gene_join {
  ANNB_JOIN_NONE = 0,  /* they must be the same genes in the same order */
  ANNB_JOIN_INNER = 1, /* the genes that all have, in the first one's order */
  ANNB_JOIN_OUTER = 2  /* the genes of all, in order of first appearance */
} annb_gene_join;

/* Several stores as one, a *union*: a store in memory whose parts are the parts of all of them, in the order given, as if they had been
 * packed into one (SPEC.md, section 10). Every function that takes an open store takes it.
 *   genes       the stores' lists, joined by name; a name that repeats in one of them is an error unless all lists are equal. Stores
 *               without names of genes: with NONE only, when they have equally many.
 *   columns     of obs: those of the schema that the parts would have (SPEC.md 5.8): categories are one by name, so that one code is one
 *               label; a column that a store lacks is missing in its rows; what does not fit together is in the parts only.
 *   matrices    by name; one that a store lacks is as in the parts of one store (ANNB_ENOTFOUND when its rows are read, or zero where each
 *               store that has it says so). Matrices that do not fit are left out: of other axes, obsm of other widths, and raw/X that
 *               several stores have, for each has a list of genes of its own.
 * ANNB_EINVAL: genes that do not match (the message says which and what to do), a store twice (known by its id), a union among the stores.
 * What the stores are is fixed by their generations; they may be closed afterwards. Reads the lists of genes and categories of all parts:
 * memory grows with them and with the parts, not with rows. Record checks are left out when all stores are open without. */
annb_status annb_union_open(const annb_store *const *stores, uint32_t n_stores, annb_gene_join join, annb_store **out, annb_error *err);

/* ANNB_ENOMEM. Closing: NULL is allowed; no call may use it, and the helpers end. */
annb_status annb_context_open(annb_context **out, annb_error *err);
void annb_context_close(annb_context *context);

typedef struct annb_store_info {
  uint64_t n_obs, n_vars, generation; /* of a union generation 0 */
  uint64_t bytes; /* of the objects of this generation and its manifest */
  uint32_t n_parts, n_matrices;
  uint8_t store_id[16]; /* of a union: the first bytes of SHA-256 over its stores' ids and generations (u64), in order */
  uint32_t n_sources; /* stores that it is a union of; 1 otherwise */
} annb_store_info;
void annb_store_get_info(const annb_store *store, annb_store_info *info);
/* Its directory; of a union a description for people. */
const char *annb_store_path(const annb_store *store);

/* Store i of a union; of another store (i = 0) the store itself. ANNB_ERANGE. */
typedef struct annb_source_info {
  const char *path; /* valid until close */
  uint8_t store_id[16];
  uint64_t generation, first_row, n_rows;
  uint32_t first_part, n_parts;
} annb_source_info;
annb_status annb_store_source(const annb_store *store, uint32_t i, annb_source_info *info, annb_error *err);

typedef struct annb_part_info {
  uint64_t first_row, n_rows, n_vars;
  uint32_t n_matrices;
  bool shuffled; /* its rows stand in another order than the source's */
} annb_part_info;
annb_status annb_store_part(const annb_store *store, uint32_t part, annb_part_info *info, annb_error *err);

/* Path of a part's sidecar or restore file (ANNB_OBJECT_SIDECAR, ANNB_OBJECT_RESTORE): valid until close, NULL in *path when it has
 * none. The file's size is checked, not its SHA-256. */
annb_status annb_store_part_file(const annb_store *store, uint32_t part, annb_object_kind kind, const char **path, annb_error *err);

/* ---- matrices ---- */

typedef struct annb_matrix_info {
  const char *name; /* valid until close */
  uint64_t n_rows, n_cols, nnz; /* nnz: of what is stored, see annb_matrix_nnz_exact */
  uint64_t bytes; /* of its segments */
  annb_axes axes;
  annb_dtype dtype;
  annb_form form; /* of the source, in the first part that has it; CSR when none has */
  uint32_t n_segments;
} annb_matrix_info;

/* Number of the matrix called `name` ("X"): ANNB_ENOTFOUND. */
annb_status annb_store_find_matrix(const annb_store *store, const char *name, uint32_t *matrix, annb_error *err);
annb_status annb_store_matrix(const annb_store *store, uint32_t matrix, annb_matrix_info *info, annb_error *err);
/* Whether `nnz` of annb_matrix_info is what readers deliver. Where a part has genes that the store has not it is a bound: their elements
 * are stored and counted, and left out of every row. Reads the gene maps of the parts. ANNB_ERANGE, ANNB_ECORRUPT, ANNB_EIO. */
annb_status annb_matrix_nnz_exact(const annb_store *store, uint32_t matrix, bool *exact, annb_error *err);

/* Records may hold genes under other numbers than the source's columns (annb_matrix_gene_order), and in that order. */
typedef enum annb_genes {
  ANNB_GENES_ORIGINAL = 0, /* columns of the source, in whatever order the row has them, or ascending with `sort_indices` */
  ANNB_GENES_STORED = 1    /* the numbers in the records: the fastest. Dense: columns stand in this order */
} annb_genes;

typedef struct annb_fetch_options {
  annb_dtype dtype;   /* of the values delivered; 0 = the matrix's */
  bool index64;       /* CSR: indices are int64_t, else int32_t */
  bool sort_indices;  /* CSR: ascending within the row, stable */
  bool allow_lossy;
  annb_genes gene_order; /* ANNB_GENES_STORED needs rows of parts with one gene order: else ANNB_EINVAL */
  uint32_t n_threads; /* that decode, the calling one among them; 0 = 1, at most 64. Few rows (under 16) are decoded by the calling one
                       * alone. What is delivered does not depend on it. Loaders have their own number and ignore this one */
} annb_fetch_options;

/* The gene order of a matrix in a part: *ids has one column number per stored number, and each column once; NULL when they are the same.
 * Valid until close, for all threads. ANNB_ENOTFOUND when the part has no such matrix, ANNB_ECORRUPT. */
annb_status annb_matrix_gene_order(const annb_store *store, uint32_t part, uint32_t matrix, const uint32_t **ids, annb_error *err);

/* The genes of a part: *map has one gene number of the store for each of the part's genes, ANNB_NONE where the store has none; NULL when
 * they are the same. Each number of the store stands there at most once. Valid until close, for all threads. */
annb_status annb_part_gene_map(const annb_store *store, uint32_t part, const uint32_t **map, annb_error *err);

/* Elements of each of the rows (row_nnz, may be NULL) and of all (total): the size query of annb_fetch_csr. Reads index pages only. Where a
 * part has genes that the store has not these are bounds: the records are not decoded here. */
annb_status annb_fetch_nnz(const annb_store *store, uint32_t matrix, const uint64_t *rows, size_t n_rows, uint32_t *row_nnz,
                           uint64_t *total, annb_error *err);

/* Rows (store row numbers, any order, repeats allowed) as CSR. indptr: n_rows + 1 values from 0, the exact numbers;
 * indices and values: room for `capacity` elements each, ANNB_ECAPACITY when the total that annb_fetch_nnz tells is larger. NULL options =
 * defaults. */
annb_status annb_fetch_csr(const annb_store *store, annb_context *context, uint32_t matrix, const uint64_t *rows, size_t n_rows,
                           const annb_fetch_options *options, int64_t *indptr, void *indices, void *values, uint64_t capacity,
                           annb_error *err);

/* Rows as a dense row-major matrix of n_rows × n_cols values of the delivered dtype; consecutive rows are `stride` values apart
 * (0 = n_cols). `size` is the room in bytes. The room is zeroed first (between strides too). */
annb_status annb_fetch_dense(const annb_store *store, annb_context *context, uint32_t matrix, const uint64_t *rows, size_t n_rows,
                             const annb_fetch_options *options, void *values, uint64_t stride, size_t size, annb_error *err);

/* ---- rows in memory of the library ---- */

/* What a batch has of a matrix. CSR: indptr (n_rows + 1, from 0), indices (int32_t, with index64 int64_t) and values (nnz of each);
 * dense: values. Pointers are 64-byte aligned. Arrays that a batch does not have are NULL. */
typedef struct annb_batch_matrix {
  bool dense, index64;
  annb_dtype dtype;
  uint64_t n_cols, nnz; /* nnz: 0 for dense */
  const int64_t *indptr;
  const void *indices, *values;
} annb_batch_matrix;

/* Of annb_fetch_batch, which sets n_rows and one matrix, or of a loader. */
typedef struct annb_batch {
  uint64_t n_rows; /* loader: 0 is the end of the epoch, and nothing else is set but `epoch` */
  uint64_t epoch;
  uint64_t step;  /* of this rank, from the start of the epoch (its legs' steps included): the first is 0 */
  uint64_t batch; /* number in the epoch; its fetch is batch / f */
  const uint64_t *rows; /* row numbers of all stores together: those of store i come after those of stores before it */
  const annb_batch_matrix *matrices; /* as many as in the options */
  const int32_t *const *labels;      /* per label: n_rows codes */
  void *owner; /* private */
} annb_batch;

/* annb_fetch_csr or annb_fetch_dense (`dense`) without a size query: into memory that is the caller's until annb_batch_release, and then
 * serves a later call, so that it need not be paged in anew. Index type: int64_t where `index64` asks for it, or where the rows have more
 * than about 2^31 elements. A context keeps at most three such pieces, of at most 32 MiB each, until it is closed; it may be closed while
 * batches are held. */
annb_status annb_fetch_batch(const annb_store *store, annb_context *context, uint32_t matrix, const uint64_t *rows, size_t n_rows,
                             const annb_fetch_options *options, bool dense, annb_batch *batch, annb_error *err);
/* Give the batch's memory back, from any thread. A batch without rows is allowed. Zeroes the structure. */
void annb_batch_release(annb_batch *batch);

/* ---- columns of obs and var ---- */

typedef struct annb_column_info {
  const char *name; /* valid until close */
  uint64_t length;
  annb_axis axis;
  annb_column_kind kind;
  annb_dtype dtype; /* of fixed values; of codes for categoricals */
  bool is_index, ordered, has_mask;
  uint64_t n_categories;
} annb_column_info;

/* Columns of one part, in order: obs columns and var columns each with their index first. */
annb_status annb_part_n_columns(const annb_store *store, uint32_t part, annb_axis axis, uint32_t *n, annb_error *err);
annb_status annb_part_column(const annb_store *store, uint32_t part, annb_axis axis, uint32_t i, const annb_column **column,
                             annb_error *err);
annb_status annb_part_find_column(const annb_store *store, uint32_t part, annb_axis axis, const char *name, const annb_column **column,
                                  annb_error *err);
annb_status annb_part_index_column(const annb_store *store, uint32_t part, annb_axis axis, const annb_column **column, annb_error *err);
void annb_column_get_info(const annb_column *column, annb_column_info *info);
/* The categories of a categorical column, itself a column. */
annb_status annb_column_categories(const annb_column *column, const annb_column **categories, annb_error *err);

/* Zero-copy views, verified on first touch, valid until close. `values`: fixed values or codes, `length` of them from row `first`.
 * `mask`: one byte per row, 1 = missing; NULL when the column has none. */
annb_status annb_column_values(const annb_column *column, uint64_t first, uint64_t length, const void **values, const uint8_t **mask,
                               annb_error *err);
/* One string (not terminated). A missing one has *missing = true and length 0; `missing` may be NULL. */
annb_status annb_column_string(const annb_column *column, uint64_t row, const char **bytes, uint64_t *length, bool *missing,
                               annb_error *err);

/* ---- columns of the whole store, over all parts (SPEC.md 5.8) ----
 *
 * In a store of one part these are the part's own columns. In one of several parts obs has the columns of the schema: those that a part
 * lacks are missing in its rows, and categories are unified by name, in order of first appearance. Columns that do not fit together are in
 * the parts only. Columns of var describe the store's genes. The first call for obs opens the columns of all parts. Handles are valid until
 * close. */

annb_status annb_store_n_columns(const annb_store *store, annb_axis axis, uint32_t *n, annb_error *err);
/* Column i, the index first; by name, the index too (a column of its name comes first); the index: ANNB_ENOTFOUND. */
annb_status annb_store_column(const annb_store *store, annb_axis axis, uint32_t i, const annb_joint_column **column, annb_error *err);
annb_status annb_store_find_column(const annb_store *store, annb_axis axis, const char *name, const annb_joint_column **column,
                                   annb_error *err);
annb_status annb_store_index_column(const annb_store *store, annb_axis axis, const annb_joint_column **column, annb_error *err);

/* `length` is n_obs or n_vars; `dtype` that of gathered values (ANNB_I32 for categoricals, 0 for strings); `has_mask`: rows may be missing,
 * of a categorical: codes may be -1. */
void annb_joint_column_get_info(const annb_joint_column *column, annb_column_info *info);
/* The categories of a categorical column, in the order of the gathered codes: ANNB_EINVAL for other kinds. */
annb_status annb_joint_column_categories(const annb_joint_column *column, const annb_column **categories, annb_error *err);

/* Rows in any order, with repeats; `rows` NULL means 0 … n_rows - 1. ANNB_ERANGE names a row past the end, ANNB_EINVAL for columns of
 * another kind. Safe from any number of threads. */

/* Categorical: the category of each row, -1 = missing. */
annb_status annb_store_column_codes(const annb_joint_column *column, const uint64_t *rows, size_t n_rows, int32_t *codes, annb_error *err);
/* Fixed: values of the column's dtype; mask: 1 = missing, may be NULL. A missing value is the source's, or zero where a part lacks the
 * column. */
annb_status annb_store_column_gather(const annb_joint_column *column, const uint64_t *rows, size_t n_rows, void *values, uint8_t *mask,
                                     annb_error *err);
/* String: one, as annb_column_string gives it. */
annb_status annb_store_column_string(const annb_joint_column *column, uint64_t row, const char **bytes, uint64_t *length, bool *missing,
                                     annb_error *err);

#ifdef __cplusplus
}
#endif
#endif
