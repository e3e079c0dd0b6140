/* Converting `.h5ad` files: pack, export, compare. This is the only part that needs HDF5.
 *
 * HDF5 is not thread-safe in general: calls of this header must not run at the same time in one process. */
#ifndef ANNBLOCK_CONVERT_H
#define ANNBLOCK_CONVERT_H

#include <annblock/status.h>
#include <annblock/store.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is going on, for a person ("reading X"), with units done and in all (0 = unknown). Return false to cancel.
 * It must not call HDF5: it may be called from within. */
typedef bool (*annb_convert_progress_fn)(void *user, const char *stage, uint64_t done, uint64_t total);

typedef enum annb_gene_order_choice {
  ANNB_GENE_ORDER_DETECTED = 0, /* records list genes by how often a sample of the cells has them, which makes them small */
  ANNB_GENE_ORDER_SOURCE = 1
} annb_gene_order_choice;

typedef struct annb_pack_options {
  bool force;             /* an existing store gains a next generation */
  uint32_t n_threads;     /* 0 = number of processors */
  uint64_t memory;        /* cap in bytes on buffers, 0 = 512 MiB; at least 32 MiB */
  uint64_t segment_rows;  /* 0 = split near 2 GiB */
  uint64_t codecs;        /* as in annb_matrix_writer_options; for tests */
  annb_convert_progress_fn progress; /* may be NULL */
  void *user;
  annb_gene_order_choice gene_order; /* of the records; readers and export give the source's */
  /* Which matrices go to segments: "X", "layers/<key>", "raw/X", "obsm/<key>", or "all" for all of these that are numeric arrays of two
   * dimensions (dense, CSR, CSC). NULL: X where there is one. The order of the names does not matter. The rest stays in the sidecar. */
  const char *const *matrices;
  size_t n_matrices;
} annb_pack_options;

typedef struct annb_pack_result {
  uint64_t n_obs, n_vars, generation;
  uint64_t nnz; /* of all matrices */
  uint32_t n_matrices;
  uint32_t n_left;  /* with "all": matrices that cannot be packed and stay in the sidecar */
  annb_error left;  /* why the first of them cannot */
} annb_pack_result;

/* Pack `input` (.h5ad) into the store `output`. NULL options = defaults; `result` may be NULL. ANNB_EINPUT for what is wrong with the
 * input, ANNB_EUNSUPPORTED for what is right but not handled (filters, types), ANNB_ENOTFOUND for a matrix that is not there (the message lists
 * those that are), ANNB_EEXIST, ANNB_EIO. On failure nothing is left behind.
 * A compressed chunk that gives fewer or more bytes than a chunk has is ANNB_EINPUT, with its dataset and rows; what goes to the sidecar
 * chunk by chunk is copied without a look inside. Filters that HDF5 lacks are looked for as HDF5 does, in HDF5_PLUGIN_PATH.
 * Reading, decompressing and encoding use threads of their own, which have ended when the call returns; progress is told on the caller's
 * thread. */
annb_status annb_pack(const char *input, const char *output, const annb_pack_options *options, annb_pack_result *result, annb_error *err);

typedef struct annb_export_options {
  bool force;           /* replace an existing file once the new one is complete */
  uint64_t generation;  /* 0 = the newest */
  uint64_t memory;      /* as above */
  annb_convert_progress_fn progress;
  void *user;
} annb_export_options;

/* Export the store (one part) to the `.h5ad` file `output`, as the source was: objects, types, values, attributes and links. */
annb_status annb_export(const char *store, const char *output, const annb_export_options *options, annb_error *err);

/* Compare two HDF5 files object by object: links, types, shapes, values (bit by bit), attributes; not storage layout or filters. Each
 * difference is reported with its path; `different` counts them. Failures are failures to read. */
typedef bool (*annb_difference_fn)(void *user, const char *path, const char *what);
annb_status annb_compare(const char *a, const char *b, annb_difference_fn difference, void *user, uint64_t *different, annb_error *err);

#ifdef __cplusplus
}
#endif
#endif
