/* Filling the empty datasets of a merged file from a store. */
#ifndef ANNB_CONVERT_FILL_H
#define ANNB_CONVERT_FILL_H

#include "../sidecar/merge.h"
#include "selection.h"

#include "../../reader/row_orders.h"
#include "../../reader/source_order.h"

#include <annblock/convert.h>
#include <annblock/reader.h>

typedef struct annb_fill {
  const annb_store *store;
  annb_context *context;
  annb_merged *merged; /* of the store's one part; NULL: of several parts, for annb_fill_count and annb_fill_selected alone */
  hid_t out; /* the file that is written: merged->out, or one of a subset */
  const char *out_name;
  const annb_row_orders *orders;      /* NULL: rows are stored in the source's order */
  const annb_selection *rows, *genes; /* NULL: no subset; rows of the source */
  uint64_t memory; /* cap on all buffers */
  uint32_t n_threads; /* 0 = number of processors */
  const char *spool_dir;
  annb_convert_progress_fn progress;
  void *user;
} annb_fill;

/* Fill what is empty of the matrix `matrix` of the store; what is whole already is left alone. */
annb_status annb_fill_matrix(const annb_fill *fill, uint32_t matrix, annb_error *err);

typedef struct annb_target annb_target;
typedef struct annb_stream annb_stream;

/* For a subset: elements of the matrix that are selected; !*exact: at most so many. */
annb_status annb_fill_count(const annb_fill *fill, uint32_t matrix, uint64_t *n, bool *exact, annb_error *err);
/* Write what is selected to datasets made for it (dense: data alone, the others NULL). Of several parts: as CSR, rows ascending, as readers
 * see them; datasets may grow. */
annb_status annb_fill_selected(const annb_fill *fill, uint32_t matrix, const annb_target *data, const annb_target *indices,
                               const annb_target *indptr, annb_error *err);
/* Put elements in ascending order of their numbers, stably. */
annb_status annb_sort_elements(int64_t *numbers, uint8_t *values, uint64_t n, uint32_t value_size, annb_error *err);

/* ---- between fill.c and its other files ---- */

/* A dataset to be filled. */
struct annb_target {
  hid_t dataset, memory; /* memory: the type of our buffers */
  char *path;
  uint64_t length, tail; /* of the first dimension; elements at its end that are there */
  bool grows;            /* its length is what has been written */
  annb_stream *stream;   /* of compressed chunks, or NULL (stream.h) */
};
void annb_target_close(annb_target *target);

/* Some rows of the output; those of a CSC source in the order in which its columns have them. */
typedef struct annb_fill_batch {
  uint64_t first, n_rows, n; /* places in that order, and elements, of this batch */
  int64_t *indptr;           /* from 0 */
  int32_t *indices;
  uint8_t *values;
  uint64_t *rows; /* where they are stored */
  uint64_t room, rows_room; /* elements, rows */
  annb_context *context; /* of the thread that fetches */
} annb_fill_batch;

typedef struct annb_filling {
  const annb_fill *fill;
  uint32_t matrix;
  annb_matrix_info info;
  uint32_t value_size;
  char *path;                        /* of the matrix: "/X" */
  char *stage;                       /* for progress */
  annb_target data, indices, indptr; /* dense: data alone; dataset < 0: nothing to do */
  annb_source_rows *source; /* NULL: of several parts */
  uint32_t *genes; /* of a subset: new numbers; NULL: they stay */
  bool sort;       /* genes change order */
  bool bound;      /* info.nnz is a bound, since genes are left out */
} annb_filling;

/* ---- fill_batch.c ---- */

/* Fetch the `n_rows` rows from `first` on, which have `room` elements at most: any thread, each with a batch of its own that is zero but
 * for the context. Its arrays grow. */
annb_status annb_batch_fetch(const annb_filling *f, annb_fill_batch *batch, uint64_t first, uint64_t n_rows, uint64_t room,
                             annb_error *err);
void annb_batch_free(annb_fill_batch *batch); /* but for the context */

/* How rows one after the other are put together in batches. */
typedef struct annb_row_plan {
  const annb_filling *f;
  uint64_t room, most; /* elements of a batch, of a single row */
  uint64_t first, n;   /* the rows whose elements are known: */
  uint64_t *stored;
  uint32_t *nnz;
} annb_row_plan;

/* Batches of `room` elements that take `bytes` with what fetching them needs, or of fewer. */
annb_status annb_row_plan_open(annb_row_plan *plan, const annb_filling *f, uint64_t room, uint64_t bytes, annb_error *err);
void annb_row_plan_close(annb_row_plan *plan);
/* Elements of the row as its index states them: a bound where genes are left out. */
annb_status annb_row_plan_count(annb_row_plan *plan, uint64_t row, uint32_t *n, annb_error *err);
/* How many rows from `row` on, before `end`, are the next batch, and their elements. ANNB_ENOMEM names a row that is too large. */
annb_status annb_row_plan_next(annb_row_plan *plan, uint64_t row, uint64_t end, uint64_t *n_rows, uint64_t *n, annb_error *err);
/* Bytes that a batch of n elements needs, fetching included. */
uint64_t annb_batch_bytes(const annb_filling *f, uint64_t n);

/* ---- the forms ---- */

annb_status annb_fill_csr(annb_filling *f, annb_error *err);
/* The same past HDF5, each thread writing what it has fetched. *done is false when that cannot be: nothing is lost then. */
annb_status annb_fill_direct(annb_filling *f, bool *done, annb_error *err);
annb_status annb_fill_csc(annb_filling *f, annb_error *err);
annb_status annb_fill_dense(annb_filling *f, annb_error *err);
/* Rows that are done; what the driver met with while it wrote is an error. */
annb_status annb_fill_progress(const annb_filling *f, uint64_t done, annb_error *err);
/* The same without a look at the file, which other threads may be at. */
annb_status annb_fill_report(const annb_filling *f, uint64_t done, annb_error *err);
/* Write to a target; nothing when it is none. */
annb_status annb_target_write(const annb_filling *f, annb_target *target, uint64_t first, uint64_t n, const void *data,
                              annb_error *err);

#endif
