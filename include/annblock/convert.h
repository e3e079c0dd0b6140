/* Converting `.h5ad` files: pack, export, compare. This is the only part that needs HDF5.
 *
 * HDF5 is not thread-safe in general: calls of this header must not run at the same time in one process.
 *
 * HDF5 may crash or hang on a damaged file. So these functions fork, and work in a child process: its crash, or 20 seconds of work without
 * a sign of life, is ANNB_EINPUT here, which names the object that HDF5 cannot read where that is found out, and nothing is left behind.
 * Callbacks are called in the caller's process, by the calling thread, the progress also in between with what it was told last. A child
 * dies with its parent. The caller may have other threads, but none that is in the same HDF5 library at that moment: the child would not
 * begin, which is ANNB_EIO after 20 seconds. Where the caller must not fork (some MPI libraries), options->in_process does without. */
#ifndef ANNBLOCK_CONVERT_H
#define ANNBLOCK_CONVERT_H

#include <annblock/reader.h>
#include <annblock/sampler.h>
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
  annb_gene_join join;  /* several files; appending, INNER keeps the store's genes */
  const char *join_key; /* column of var (strings or categories) that genes are matched by, NULL: their names */
  bool allow_duplicate_genes; /* when matching: the first of equal genes with the first, the second with the second …; else refused */
  annb_convert_note_fn note; /* may be NULL */
  /* Which matrices go to segments: "X", "layers/<key>", "raw/X", "obsm/<key>", or "all" for all of these that are numeric arrays of two
   * dimensions (dense, CSR, CSC). NULL: X where there is one; appending: those that all parts of the store have (but of raw), which each
   * file must have then. The order of the names does not matter. The rest stays in the sidecar. */
  const char *const *matrices;
  size_t n_matrices;
  /* Store the rows of each part in a random order, which depends on `seed` and the part's number of rows alone (SPEC.md 5.5.1). Readers see
   * that order; export restores the source's. At most 2^32 rows. */
  bool shuffle;
  uint64_t seed;
  bool in_process; /* no child process: what HDF5 does on a damaged file, crash or hang, it does to the caller */
} annb_pack_options;

typedef struct annb_pack_result {
  uint64_t n_obs, n_vars, generation; /* of what was packed; n_vars of the store */
  uint64_t nnz; /* of all matrices packed */
  uint32_t n_parts; /* of the store */
  uint32_t n_matrices;
  uint32_t n_left;  /* with "all": matrices that cannot be packed and stay in the sidecar */
  annb_error left;  /* why the first of them cannot */
} annb_pack_result;

/* Pack `input` (.h5ad) into the store `output`. NULL options = defaults; `result` may be NULL. ANNB_EINPUT for what is wrong with the
 * input, ANNB_EUNSUPPORTED for what is right but not handled (filters, types), ANNB_ENOTFOUND for a matrix that is not there (the message
 * lists those that are), ANNB_EEXIST, ANNB_EIO. On failure nothing is left behind.
 * A compressed chunk that gives fewer or more bytes than a chunk has is ANNB_EINPUT, with its dataset and rows; what goes to the sidecar
 * chunk by chunk is copied without a look inside. Filters that HDF5 lacks are looked for as HDF5 does, in HDF5_PLUGIN_PATH.
 * Reading, decompressing and encoding use threads of their own, which have ended when the call returns; progress is told on the caller's
 * thread. */
annb_status annb_pack(const char *input, const char *output, const annb_pack_options *options, annb_pack_result *result, annb_error *err);

/* The same for several files, each a part of its own, in the order given. Their genes must be the same unless options->join says how they
 * are joined; columns of obs are unified as SPEC.md 5.8 says. What is to be refused is refused before anything large is written. */
annb_status annb_pack_many(const char *const *inputs, size_t n_inputs, const char *output, const annb_pack_options *options,
                           annb_pack_result *result, annb_error *err);

/* Add files as new parts to the store `output`: one new generation; no file that exists is touched, and readers of older generations go on.
 * When another writer publishes meanwhile, the parts are added to its generation. ANNB_ENOTSTORE. options->force means nothing here.
 * Without names of matrices: those of the store; ANNB_ENOTFOUND when a file lacks one. */
annb_status annb_append(const char *const *inputs, size_t n_inputs, const char *output, const annb_pack_options *options,
                        annb_pack_result *result, annb_error *err);

typedef struct annb_annotate_options {
  uint64_t memory; /* as above */
  annb_convert_progress_fn progress;
  annb_convert_note_fn note;
  void *user;
  bool one_part; /* the file is of the cells of the part `part`, numbered from 0; needed when there are several */
  uint32_t part;
  bool in_process; /* as above */
} annb_annotate_options;

/* Give a part the metadata of the file `from`, which has the same cells and genes (names, in the same order): its columns of obs and var,
 * and all that is not packed; of a part that was shuffled, in the order of its source. The packed matrices stay as they are; what `from`
 * has in their places must have their shapes (X may be missing) and is ignored. One new generation; no file that exists is touched.
 * Export then gives `from` with the store's matrices. ANNB_EINPUT when cells or genes are others, ANNB_EUNSUPPORTED where metadata and
 * matrices are linked with each other. `generation` may be NULL. */
annb_status annb_annotate(const char *store, const char *from, const annb_annotate_options *options, uint64_t *generation, annb_error *err);

typedef enum annb_compression {
  ANNB_COMPRESSION_SOURCE = 0, /* the filters of the source, as far as they are here and exact; of several parts together: none */
  ANNB_COMPRESSION_NONE = 1,
  ANNB_COMPRESSION_GZIP = 2    /* shuffle and gzip */
} annb_compression;

/* Which cells and genes an export has. Nothing set: all, and the file is as the source was. Cells are those of `ranges` (an end of
 * UINT64_MAX is the last), one after the other, or of `rows_file` (row numbers from 0, one a line), in that order; or all. Of these, the
 * ones for which the predicate `where` holds (where.h). `genes_file` has a gene a line: a name of var, or the number of a column (from 0)
 * that is no name; in the order of the file. A cell or gene asked for twice, and a name that two genes have, are errors. Of a part that was
 * shuffled, rows are numbered as readers see them; all of them, or those of `where` alone, come in the order of the source. */
typedef struct annb_subset_options {
  const annb_row_range *ranges;
  size_t n_ranges;
  const char *rows_file, *where, *genes_file; /* NULL = none; ranges and rows_file not both */
  const char *const *skip;                    /* paths ("obsm/x", "obs/column") of whole objects to leave out */
  size_t n_skip;
} annb_subset_options;

typedef struct annb_export_result {
  uint64_t n_obs, n_vars; /* of the file */
} annb_export_result;

typedef struct annb_export_options {
  bool force;           /* replace an existing file once the new one is complete */
  uint64_t generation;  /* 0 = the newest */
  uint64_t memory;      /* as above */
  annb_convert_progress_fn progress;
  void *user;
  bool one_part; /* only the part `part`, numbered from 0, as its source was */
  uint32_t part;
  uint32_t n_threads;   /* 0 = number of processors; the file does not depend on it */
  annb_compression compression; /* of the packed matrices */
  int level;            /* of ANNB_COMPRESSION_GZIP, 1 to 9; 0 = 4 */
  annb_subset_options subset;
  annb_export_result *result; /* may be NULL; filled when the export succeeds */
  bool in_process; /* as above */
} annb_export_options;

/* Export the store (one part, or the one that the options name) to the `.h5ad` file `output`, as the source was: objects, types, values,
 * attributes and links.
 * Of several parts together: a new file of what readers see: obs with the columns of the store (reader.h), var with its genes, and the
 * matrices that all parts have, rows in the order of the sources (X and layers as CSR with ascending indices, obsm as arrays, in the
 * dtypes that readers deliver). What is in the sidecars alone (uns, what is not packed) is in no such file; raw is not either. A subset
 * has the cells (store row numbers) and genes (of the store) asked for: their rows of obs and var and of these matrices, in the order
 * asked for, elements ascending; `skip` may name columns ("obs/x", "var/x") and matrices ("X", "layers/x", "obsm/x"). Uncompressed unless
 * options->compression is ANNB_COMPRESSION_GZIP.
 * Of one part with a subset: what anndata's `read_h5ad(source)[cells, genes].write_h5ad(output)` keeps: obs, var, X, layers, obsm, varm,
 * obsp, varp by the cells and genes they belong to, raw by its cells, all else whole. Encodings, types, attributes stay; categories too, also those no longer used. Sparse rows keep the order of their
 * elements, unless genes change order: then they ascend; CSC columns ascend. What belongs to cells or genes and cannot be cut (ragged
 * arrays, links to objects of another kind, external links, objects of unknown encoding, or of a length that does not fit) is
 * ANNB_EUNSUPPORTED or ANNB_EINPUT, which names it: `skip` leaves it out. */
annb_status annb_export(const char *store, const char *output, const annb_export_options *options, annb_error *err);

/* Compare two HDF5 files object by object: links, types, shapes, values (bit by bit), attributes; not storage layout or filters. Each
 * difference is reported with its path; `different` counts them. Failures are failures to read. */
typedef bool (*annb_difference_fn)(void *user, const char *path, const char *what);
annb_status annb_compare(const char *a, const char *b, annb_difference_fn difference, void *user, uint64_t *different, annb_error *err);

#ifdef __cplusplus
}
#endif
#endif
