/* Writing and verifying stores.
 *
 * A transaction collects finished objects (segments, flat arrays, sidecars) under the store's tmp/ and publishes them with one
 * new manifest (SPEC.md, section 7). Until annb_txn_commit returns ANNB_OK readers see the old generation or no store; after
 * annb_txn_abort nothing of the transaction is left, nor the directory when the transaction made it.
 *
 * Threads: a transaction and the writers opened from it belong to one thread at a time; matrix writers start their own
 * encoding threads inside one call. Distinct transactions, also on one store and in several processes, are independent.
 *
 * Ownership: every `open` or `begin` is matched by one `close`, `commit` or `abort`, which frees the handle whether it
 * succeeds or not. A writer that is still open when its transaction ends must be aborted before.
 *
 * Errors, besides those said below: ANNB_EINVAL names what is wrong with the arguments (a range, a name, an object of the transaction,
 * calls in the wrong order), ANNB_EIO the file that cannot be written, ANNB_ENOMEM. */
#ifndef ANNBLOCK_STORE_H
#define ANNBLOCK_STORE_H

#include <annblock/format.h>
#include <annblock/status.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct annb_txn annb_txn;
typedef struct annb_matrix_writer annb_matrix_writer;
typedef struct annb_arrays_writer annb_arrays_writer;
typedef struct annb_string_writer annb_string_writer;

typedef enum annb_txn_mode {
  ANNB_TXN_CREATE = 0,  /* a new store; ANNB_EEXIST when `path` is a store or anything but an (empty or unfinished) store directory */
  ANNB_TXN_REPLACE = 1, /* a new store, or the next generation of an existing one with a fresh part list */
  ANNB_TXN_APPEND = 2   /* the next generation of an existing store: its parts, then those of the transaction; else ANNB_ENOTSTORE */
} annb_txn_mode;

/* Start a transaction on the directory `path`, which is made when missing. ANNB_EEXIST as said above, ANNB_EIO. */
annb_status annb_txn_begin(const char *path, annb_txn_mode mode, annb_txn **out, annb_error *err);

/* Publish. Needs exactly the matrices and parts added so far. Frees the transaction. ANNB_EEXIST when another writer created
 * the store meanwhile (CREATE), ANNB_EIO. APPEND adds to the generation that is the newest then; matrices of one name and shape are one;
 * parts that need maps or a schema come from convert.h. `generation` (may be NULL) receives the number published. */
annb_status annb_txn_commit(annb_txn *txn, uint64_t *generation, annb_error *err);

/* Give up: remove what the transaction wrote. Frees the transaction; NULL is allowed. */
void annb_txn_abort(annb_txn *txn);

/* A fresh file name under the store's tmp/ for a file that another library writes (HDF5). Owned by the transaction, which removes
 * the file at its end. Valid until then. */
annb_status annb_txn_temp_path(annb_txn *txn, const char **path, annb_error *err);

/* Take the finished file at `temp_path` (from annb_txn_temp_path) as an object: hash and fsync it. `object` is its row. For
 * ANNB_OBJECT_SIDECAR and ANNB_OBJECT_RESTORE; segments and flat arrays come from their writers (ANNB_EINVAL). */
annb_status annb_txn_add_file(annb_txn *txn, const char *temp_path, annb_object_kind kind, uint32_t *object, annb_error *err);

/* SHA-256 of an object of this transaction. */
annb_status annb_txn_object_sha256(const annb_txn *txn, uint32_t object, uint8_t sha256[ANNB_SHA256_SIZE], annb_error *err);

/* Add a matrix to the store's table. The name is copied. `matrix` is its row. */
typedef struct annb_matrix_spec {
  const char *name;
  uint64_t n_cols;
  annb_axes axes;
  annb_dtype dtype;
  annb_absent absent;
} annb_matrix_spec;
annb_status annb_txn_add_matrix(annb_txn *txn, const annb_matrix_spec *spec, uint32_t *matrix, annb_error *err);

/* Add a part; its matrices follow by annb_matrix_writer_close. Objects not present are ANNB_NONE; `row_order` tells the order of
 * the rows when it is another than the source's (SPEC.md 5.5.1). */
typedef struct annb_part_spec {
  uint64_t n_rows, n_vars;
  uint32_t columns, sidecar, restore, row_order;
} annb_part_spec;
annb_status annb_txn_add_part(annb_txn *txn, const annb_part_spec *spec, uint32_t *part, annb_error *err);

/* ---- one matrix of one part, as a list of segments ---- */

typedef struct annb_matrix_writer_options {
  uint64_t n_cols;
  annb_dtype dtype;          /* of the values given */
  annb_form form;            /* of the source */
  uint64_t expected_rows;    /* 0 = unknown */
  uint64_t expected_nnz;     /* 0 = unknown; with expected_rows decides the block size */
  uint64_t segment_rows;     /* rows per segment; 0 = split near 2 GiB */
  uint32_t block_rows;       /* 0 = a power of two that makes a block of counts 180 to 360 KiB */
  uint32_t n_threads;        /* encoding threads, 0 = 1; the bytes written do not depend on it */
  uint64_t codecs;           /* bit i allows codec i; 0 = all; plain is always allowed */
  uint8_t tag[16];           /* SPEC.md 3.1 */
  bool sort;                 /* store each row sorted by stored id, stably: SPEC.md 3.6 */
  const uint32_t *gene_order; /* stored id → column, a permutation of n_cols; copied. NULL = none */
  uint32_t gene_order_object; /* with gene_order: the flat arrays of this transaction that hold it */
} annb_matrix_writer_options;

annb_status annb_matrix_writer_open(annb_txn *txn, const annb_matrix_writer_options *options, annb_matrix_writer **out, annb_error *err);

/* Append `n_rows` rows. Row i has the elements indptr[i] - indptr[0] … indptr[i+1] - indptr[0] of `indices` (column numbers, any
 * order, repeats allowed) and `values` (of the writer's dtype, any alignment). ANNB_EINVAL when an index or indptr is out of range. */
annb_status annb_matrix_writer_append(annb_matrix_writer *writer, uint64_t n_rows, const uint64_t *indptr, const uint32_t *indices,
                                      const void *values, annb_error *err);

/* Name the flat arrays of this transaction that hold the order of the source's elements (SPEC.md 3.6). Before close. */
annb_status annb_matrix_writer_set_source_order(annb_matrix_writer *writer, uint32_t object, annb_error *err);

/* No more rows follow: free all buffers until close. Close does the same where this was not called. */
annb_status annb_matrix_writer_finish(annb_matrix_writer *writer, annb_error *err);

/* Finish and attach to `part` as `matrix`. Frees the writer in any case. `nnz` may be NULL. */
annb_status annb_matrix_writer_close(annb_matrix_writer *writer, uint32_t part, uint32_t matrix, uint64_t *nnz, annb_error *err);
void annb_matrix_writer_abort(annb_matrix_writer *writer);

/* ---- flat arrays ---- */

annb_status annb_arrays_writer_open(annb_txn *txn, annb_arrays_writer **out, annb_error *err);

/* Begin an array of n_cols values per row (name "" for a column's array), give its rows in any number of calls, end it.
 * One array is open at a time. `array` is its row, ANNB_NONE for none below. */
annb_status annb_arrays_begin(annb_arrays_writer *writer, const char *name, annb_dtype dtype, uint64_t n_cols, uint32_t *array,
                              annb_error *err);
annb_status annb_arrays_append(annb_arrays_writer *writer, const void *rows, uint64_t n_rows, annb_error *err);
annb_status annb_arrays_end(annb_arrays_writer *writer, annb_error *err);

/* Strings, streamed: bytes go to the file, offsets to an anonymous temporary file until the end. No other array may be open
 * meanwhile. Frees the string writer in `end` and when the arrays writer is aborted. */
annb_status annb_strings_begin(annb_arrays_writer *writer, annb_string_writer **out, annb_error *err);
annb_status annb_strings_append(annb_string_writer *strings, const char *bytes, uint64_t length, annb_error *err);
annb_status annb_strings_end(annb_string_writer *strings, uint32_t *offsets_array, uint32_t *bytes_array, annb_error *err);

typedef struct annb_column_spec {
  const char *name;
  uint64_t length;
  annb_axis axis;
  annb_column_kind kind;
  uint8_t flags;
  uint32_t values, bytes, mask; /* arrays; offsets of strings are `values` */
  uint32_t categories;          /* column, for ANNB_COLUMN_CATEGORICAL */
} annb_column_spec;
annb_status annb_arrays_add_column(annb_arrays_writer *writer, const annb_column_spec *spec, uint32_t *column, annb_error *err);

/* Finish: `object` is its row in the transaction. Frees the writer in any case. */
annb_status annb_arrays_writer_close(annb_arrays_writer *writer, uint32_t *object, annb_error *err);
void annb_arrays_writer_abort(annb_arrays_writer *writer);

/* ---- verify ---- */

typedef struct annb_finding {
  annb_status status;
  const char *path; /* file, relative to the store */
  int64_t row;      /* row of the segment, or of the column of flat arrays; or ANNB_NO_ROW */
  int64_t store_row; /* the store row that a segment row is, or ANNB_NO_ROW where that cannot be told */
  const char *message; /* without the path */
} annb_finding;

/* Called once per finding, on the calling thread. The strings are valid during the call. Return false to stop. */
typedef bool (*annb_finding_fn)(void *user, const annb_finding *finding);
/* Called now and then with bytes checked and bytes in all; may be NULL. Return false to cancel. */
typedef bool (*annb_progress_fn)(void *user, uint64_t done, uint64_t total);

/* Check every byte of the store (SPEC.md, section 8). Damage is reported to `finding` and is not a failure of the call:
 * ANNB_OK with *n_findings == 0 means the store is whole. Failures: ANNB_EIO when `path` cannot be read at all,
 * ANNB_ENOTSTORE when it is no store directory, ANNB_ECANCELED. */
annb_status annb_verify(const char *path, annb_finding_fn finding, annb_progress_fn progress, void *user, uint64_t *n_findings,
                        annb_error *err);

#ifdef __cplusplus
}
#endif
#endif
