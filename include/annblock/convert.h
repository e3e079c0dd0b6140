/* Converting `.h5ad` files: pack, export, compare. This is the only part that needs HDF5.
 *
 * HDF5 is not thread-safe in general: calls of this header must not run at the same time in one process. */
#ifndef ANNBLOCK_CONVERT_H
#define ANNBLOCK_CONVERT_H

#include <annblock/status.h>
#include <annblock/store.h>
#include <stdbool.h>

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

/* How files with other genes come into one store. */
typedef enum annb_gene_join {
  ANNB_JOIN_NONE = 0,  /* they must have the same genes in the same order */
  ANNB_JOIN_INNER = 1, /* a new store: the genes that all files have, in the first one's order; appending: the store's */
  ANNB_JOIN_OUTER = 2  /* the genes of all files, in order of first appearance */
} annb_gene_join;

/* One sentence about what is in the store now and may surprise: genes left out, columns that do not fit together, names that repeat. */
typedef void (*annb_convert_note_fn)(void *user, const char *note);

typedef struct annb_pack_options {
  bool force;             /* an existing store gains a next generation */
  uint32_t n_threads;     /* 0 = number of processors */
  uint64_t memory;        /* cap in bytes on buffers, 0 = 512 MiB; at least 32 MiB */
  uint64_t segment_rows;  /* 0 = split near 2 GiB */
  uint64_t codecs;        /* as in annb_matrix_writer_options; for tests */
  annb_convert_progress_fn progress; /* may be NULL */
  void *user;
  annb_gene_order_choice gene_order; /* of the records; readers and export give the source's */
  annb_gene_join join;  /* several files */
  const char *join_key; /* column of var (strings or categories) that genes are matched by, NULL: their names */
  bool allow_duplicate_genes; /* when matching: the first of equal genes with the first, the second with the second …; else they are refused */
  annb_convert_note_fn note; /* may be NULL */
} annb_pack_options;

typedef struct annb_pack_result {
  uint64_t n_obs, n_vars, nnz, generation; /* of what was packed; n_vars of the store */
  uint32_t n_parts;                        /* of the store */
} annb_pack_result;

/* Pack `input` (.h5ad) into the store `output`. NULL options = defaults; `result` may be NULL. ANNB_EINPUT for what is wrong with the
 * input, ANNB_EUNSUPPORTED for what is right but not handled (filters, types), ANNB_EEXIST, ANNB_EIO. On failure nothing is left behind.
 * Damage that HDF5 itself does not notice is not noticed here: a gzip chunk that inflates to fewer bytes than a chunk has is read as if the
 * rest were there. */
annb_status annb_pack(const char *input, const char *output, const annb_pack_options *options, annb_pack_result *result, annb_error *err);

/* The same for several files, each a part of its own, in the order given. Their genes must be the same unless options->join says how they are
 * joined; columns of obs are unified as SPEC.md 5.8 says. What is to be refused is refused before anything large is written. */
annb_status annb_pack_many(const char *const *inputs, size_t n_inputs, const char *output, const annb_pack_options *options,
                           annb_pack_result *result, annb_error *err);

/* Add files as new parts to the store `output`: one new generation; no file that exists is touched, and readers of older generations go on.
 * When another writer publishes meanwhile, the parts are added to its generation. ANNB_ENOTSTORE. options->force means nothing here. */
annb_status annb_append(const char *const *inputs, size_t n_inputs, const char *output, const annb_pack_options *options,
                        annb_pack_result *result, annb_error *err);

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
