/* Minibatches for training: the batches of a sampler, decoded ahead of the consumer by threads.
 *
 * A fetch (f batches of m cells) brings in compressed records; each batch is decoded once, straight into the arrays that the
 * consumer gets. Reading ahead is two fetches deep, less when memory is small (below). The order of batches is that of sampler.h: it
 * depends on nothing here.
 *
 * Access:
 *   MMAP   Files are mapped; index pages, then records are asked for ahead (madvise WILLNEED by sorted run, near runs as one, none when a
 *          sample of the fetch is resident). Pages are the kernel's to keep or drop: nothing of it is this process's own memory. What was
 *          not asked for comes page by page while a loader has its threads: other readers of the same open store lose readahead then.
 *   PREAD  I/O threads read index pages and runs into memory of the loader: at most three fetches of compressed records. The records of a
 *          fetch are asked for before those of the fetch before it have come.
 *   AUTO   PREAD when a store is on NFS, Lustre, GPFS, BeeGFS, CIFS, Ceph, AFS, 9p or FUSE, else MMAP.
 *
 * Memory of its own: the ring (n_ring ready batches), row lists of four fetches (24 bytes per row and 56 for each matrix), PREAD: records
 * of three fetches and 4 MiB of index pages; the sampler's; scratch per thread. It does not grow with the store. Batches that the
 * consumer holds come on top.
 *
 * Small memory: when the threads start, the process's limit (the machine's memory, or less by its control groups) is looked up. Where
 * three fetches, with MMAP their pages, do not fit into two thirds of it (PREAD: half) beside the ring, fewer are read at once; where one
 * does not, it is read in pieces of so many steps that two fit, which reads a run again for each piece that has cells of it. What is
 * delivered is the same.
 *
 * Threads: `n_threads` decode, one plans; PREAD has `n_io_threads` more. They start with the first annb_loader_next or _poll; all
 * signals are blocked in them. A loader belongs to one thread at a time, but for annb_batch_release: any thread, any time, even after
 * close. Different loaders are independent.
 *
 * fork: a child may go on with a loader of its parent: it finds that it has no threads and starts its own, exactly where the parent was.
 * The parent's are not touched. Batches held at that moment stay valid in both. Closing in the child is allowed.
 *
 * Errors: a failure (ANNB_ECORRUPT, ANNB_EIO, ANNB_ELOSSY …, as in reader.h) comes from the annb_loader_next that would give its batch,
 * after all batches before it; then again from every next, until annb_loader_set_epoch or annb_loader_restore. With MMAP a file
 * that is cut while it is mapped is a SIGBUS as everywhere; one that was cut before is an error when it is opened. */
#ifndef ANNBLOCK_LOADER_H
#define ANNBLOCK_LOADER_H

#include <annblock/reader.h>
#include <annblock/sampler.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct annb_loader annb_loader;

typedef enum annb_access { ANNB_ACCESS_AUTO = 0, ANNB_ACCESS_MMAP = 1, ANNB_ACCESS_PREAD = 2 } annb_access;

/* A matrix to deliver with each batch. */
typedef struct annb_loader_matrix {
  const char *name; /* "X" */
  bool dense;       /* n_rows × n_cols row-major values, else CSR */
  annb_fetch_options fetch; /* as in reader.h; sort_indices and index64 are for CSR */
  /* A gene subset or ordered vocabulary: delivered column j is column genes[j] of the matrix, in ids as annb_genes says of `fetch`;
   * ANNB_NONE: a gene that is not there, always zero. No column twice (ANNB_EINVAL). NULL: all columns. Genes that are not asked for
   * are left out while decoding. */
  const uint32_t *genes;
  uint64_t n_genes;
} annb_loader_matrix;

typedef struct annb_loader_options {
  annb_sampler_options sampler; /* rows: of all stores together */
  annb_topology topology;
  const annb_loader_matrix *matrices; /* NULL: none, only row numbers and labels */
  uint32_t n_matrices;                /* at most 64 */
  /* Categorical obs columns by name, delivered as int32 codes, -1 = missing. Codes are those of the union of the categories of all parts
   * and stores, in order of appearance (annb_loader_label); in a part or store without the column they are -1. ANNB_ENOTFOUND, or
   * ANNB_EINVAL for a column that is not categorical. */
  const char *const *labels;
  uint32_t n_labels;    /* at most 64 */
  uint32_t n_threads;   /* decoding; 0 = 1; at most 64 */
  uint32_t n_io_threads; /* PREAD; 0 = 16; at most 256 */
  uint32_t n_ring;      /* ready batches; 0 = 4 and two per thread; at most 4096 */
  annb_access access;
  annb_gene_join join; /* several stores */
  /* Memory of batches that were released is not freed before annb_loader_close: who still looks at their arrays sees other batches, but no
   * memory that is gone. For callers that release each batch when they ask for the next one. */
  bool reuse;
} annb_loader_options;

/* Stores must be open until the loader is closed. Several are read as annb_union_open(stores, n_stores, options->join) would (its errors
 * too): one run of rows, in the order given, one list of genes, categories by name. Where all rows are asked for, a part without a matrix
 * that is not zero there is ANNB_ENOTFOUND here, not in the middle of an epoch. Options are copied. No thread is started. */
annb_status annb_loader_open(const annb_store *const *stores, uint32_t n_stores, const annb_loader_options *options, annb_loader **out,
                             annb_error *err);
void annb_loader_close(annb_loader *loader); /* NULL is allowed; ends the threads, waiting for reads under way; batches held stay valid */

/* The next batch (annb_batch is in reader.h); waits for it. The caller holds it until annb_batch_release and may hold any number: their
 * memory is the caller's until then, threads go on with other memory. At the end of the epoch n_rows is 0, now and until
 * annb_loader_set_epoch. */
annb_status annb_loader_next(annb_loader *loader, annb_batch *batch, annb_error *err);
/* Wait at most `milliseconds` until annb_loader_next would not wait; for callers that must look after signals meanwhile. */
annb_status annb_loader_poll(annb_loader *loader, uint32_t milliseconds, bool *ready, annb_error *err);

/* Batches of the whole current epoch that this worker (without workers: this rank) delivers, from the state it was restored to if any. */
uint64_t annb_loader_len(const annb_loader *loader);
/* Go to the start of `epoch`, from wherever it is; batches that are ready are dropped. The loader opens at epoch 0. */
annb_status annb_loader_set_epoch(annb_loader *loader, uint64_t epoch, annb_error *err);

/* State after the batches that annb_loader_next has given, as annb_plan_state (which says what the bytes are). With several workers
 * ANNB_EINVAL: the consumer of the workers counts steps and asks annb_loader_state_at. */
annb_status annb_loader_state(const annb_loader *loader, void *bytes, size_t *size, annb_error *err);
/* State after `steps` steps of the rank since the epoch's start or the state restored. */
annb_status annb_loader_state_at(const annb_loader *loader, uint64_t steps, void *bytes, size_t *size, annb_error *err);
/* Go on from a state, as annb_plan_restore; batches that are ready are dropped. On failure the loader is as before. */
annb_status annb_loader_restore(annb_loader *loader, const void *bytes, size_t size, annb_error *err);

typedef struct annb_loader_info {
  annb_access access; /* MMAP or PREAD */
  uint32_t n_threads, n_io_threads, n_ring;
  uint64_t bytes_read;  /* index pages and records asked for or read since opening; MMAP: without those that were resident */
  uint64_t bytes_decoded; /* of records */
  annb_sampler_info sampler;
} annb_loader_info;
void annb_loader_get_info(const annb_loader *loader, annb_loader_info *info);

/* Label `label`: the number of its categories, and the name of one (not terminated; valid until close). Of categories that are
 * numbers it is the bytes of the number. */
annb_status annb_loader_label(const annb_loader *loader, uint32_t label, uint64_t *n_categories, annb_error *err);
annb_status annb_loader_category(const annb_loader *loader, uint32_t label, uint64_t code, const char **bytes, uint64_t *length,
                                 annb_error *err);

#ifdef __cplusplus
}
#endif
#endif
