/* Inside of loaders.
 *
 *   open.c     options, stores, matrices and genes, labels
 *   loader.c   the consumer's side: next, epochs, states, fork
 *   engine.c   threads and what they share: units planned ahead, the ring of ready batches
 *   window.c   how much is read ahead
 *   unit.c     one fetch or a piece of it: its rows in order of the files, their records
 *   pages.c    MMAP: advice        reads.c  PREAD: index pages and runs read by a pool of threads
 *   decode.c   one batch from its records
 *   slot.c     memory of batches, which outlives the loader */
#ifndef ANNB_LOADER_INTERNAL_H
#define ANNB_LOADER_INTERNAL_H

#include "../store_internal.h"

#include <annblock/loader.h>
#include <pthread.h>

enum { ANNB_LOADER_UNITS = 4, ANNB_LOADER_ARENAS = ANNB_LOADER_UNITS - 1, ANNB_LOADER_MAX_MATRICES = 64, ANNB_LOADER_MAX_LABELS = 64 };

/* ---- slot.c ---- */

typedef struct annb_slot_buffer {
  void *data;
  size_t size;
  bool keeps; /* smaller memory that it had before stays: `before` */
  void **before;
  uint32_t n_before;
} annb_slot_buffer;

typedef struct annb_pool annb_pool;

/* Memory of one batch. */
typedef struct annb_slot {
  annb_pool *pool;
  struct annb_slot *next;
  uint64_t n_rows, batch;
  annb_slot_buffer rows;
  annb_batch_matrix *matrices;
  annb_slot_buffer (*buffers)[3]; /* by matrix: indptr, indices, values */
  int32_t **labels;
  annb_slot_buffer *label_buffers;
  uint32_t n_matrices, n_labels;
} annb_slot;

/* A pool has one holder and one for each slot that is out. NULL when memory is short. It keeps n_kept free slots; with `keeps` all, and
 * none of their memory is freed before it closes. */
annb_pool *annb_pool_open(uint32_t n_matrices, uint32_t n_labels, uint32_t n_kept, bool keeps);
void annb_pool_limit(annb_pool *pool, size_t most_bytes); /* slots with more memory are not kept; at first there is no limit */
void annb_pool_close(annb_pool *pool); /* NULL is allowed; slots that are out live on */
annb_slot *annb_pool_get(annb_pool *pool); /* NULL when memory is short */
void annb_slot_give_back(annb_slot *slot); /* from any thread, after fork too */
/* At least `size` bytes, 64-byte aligned, contents undefined; NULL when memory is short. */
void *annb_slot_room(annb_slot_buffer *buffer, size_t size);

/* ---- the loader ---- */

/* Tables from stored ids to delivered genes, one per table of the reader that was met. Only the planner adds to it. */
typedef struct annb_projection {
  const annb_gene_table *from; /* NULL: stored ids are columns */
  annb_gene_table table;
  struct annb_projection *next;
} annb_projection;

typedef struct annb_loader_source {
  annb_fetch_options fetch; /* resolved */
  bool dense;
  uint32_t number;     /* the matrix's */
  uint64_t n_cols, n_delivered;
  uint32_t *genes;     /* column → delivered column or ANNB_NONE; NULL: all columns as they are */
  annb_projection *projections;
} annb_loader_source;

typedef struct annb_engine annb_engine;

struct annb_loader {
  const annb_store *store;
  annb_store *own; /* the union of the stores given, where they are several */
  annb_loader_options options; /* defaults filled in, pointers not to be used */
  annb_access access;
  bool tells_residency;
  annb_loader_source *matrices;
  const annb_joint_column **labels;
  uint32_t n_matrices, n_labels;
  annb_sampler *sampler;
  annb_plan *plan;
  annb_pool *pool;
  uint64_t step, n_steps; /* of the plan: the next to give, their number */
  bool failed;
  annb_error failure;
  annb_engine *engine; /* NULL: no threads */
  uint64_t process;    /* in which the engine was started */
  uint64_t bytes_read, bytes_decoded; /* by engines that ended */
};

/* open.c */
void annb_loader_free(annb_loader *loader);

/* ---- window.c ---- */

/* Of a fetch that is larger than half of the memory there is, units are pieces. */
typedef struct annb_window {
  uint32_t n_units; /* with records in memory or asked for, 1 to ANNB_LOADER_ARENAS */
  uint64_t n_steps; /* of a unit at most */
} annb_window;

/* `memory`: bytes that the process may use. */
annb_window annb_window_for(const annb_loader *loader, uint64_t memory);

/* ---- reads.c ---- */

struct annb_request;
struct annb_reads;

/* Requests that are read one after the other, by several threads. */
typedef struct annb_reading {
  annb_slot_buffer room;
  struct annb_request *requests;
  uint64_t n, next, n_done; /* under the lock of annb_reads, like all below: submitted, begun, done */
  bool failed;
  annb_error failure; /* of one of the requests that failed */
  struct annb_reading *after;
} annb_reading;

/* ---- units ---- */

/* WAITING: PREAD, its records are being read. */
typedef enum annb_unit_state { ANNB_UNIT_FREE, ANNB_UNIT_ROWS, ANNB_UNIT_WAITING, ANNB_UNIT_READY } annb_unit_state;

typedef struct annb_unit {
  annb_unit_state state; /* under the engine's lock */
  uint64_t first, end;   /* steps of the plan */
  uint64_t left;         /* steps not decoded; under the engine's lock */
  uint64_t *rows, n_rows;
  uint64_t *batch_first; /* n steps + 1: places in `rows` */
  uint64_t *batches;     /* numbers in the epoch */
  uint64_t *order, *spare; /* places of rows in ascending order of rows */
  annb_located *records[ANNB_LOADER_MAX_MATRICES]; /* by place of `rows` */
  bool resident[ANNB_LOADER_MAX_MATRICES];         /* MMAP: their pages were, when they were asked for */
  uint64_t n_room, n_steps_room;
  annb_slot_buffer *arenas; /* PREAD: the planner's, one per matrix */
  annb_reading reading;
  uint64_t failed; /* the first step that failed in planning, or none: UINT64_MAX */
  annb_error failure;
} annb_unit;

/* What planning a unit needs beside it. */
typedef struct annb_planner {
  annb_loader *loader; /* the planner alone writes to projections */
  annb_picker *picker;
  struct annb_reads *reads; /* PREAD */
  annb_slot_buffer spans, pages;
  annb_reading index;
  annb_slot_buffer arenas[ANNB_LOADER_ARENAS][ANNB_LOADER_MAX_MATRICES]; /* units that have only their rows need none */
  uint64_t bytes_read;
} annb_planner;

/* unit.c: rows of steps first … end-1 and their order. Failures are kept in the unit. */
void annb_unit_rows(annb_planner *planner, annb_unit *unit, uint64_t first, uint64_t end);
/* Their records. MMAP: the first does nothing, the second asks for them; PREAD: the first reads the index and begins to read them, the
 * second waits for that. */
void annb_unit_begin(annb_planner *planner, annb_unit *unit);
void annb_unit_finish(annb_planner *planner, annb_unit *unit);
/* MMAP: afterwards, so that nobody waits for it: what is resident into the page table. */
void annb_unit_enter(annb_planner *planner, const annb_unit *unit);
void annb_unit_free(annb_unit *unit);
/* Keep a failure at the row in place `place`, if it is the first. */
void annb_unit_fail(annb_unit *unit, uint64_t place, const annb_error *err);

/* pages.c */
void annb_pages_ask_index(annb_planner *planner, annb_unit *unit, uint32_t matrix);
void annb_pages_ask_records(annb_planner *planner, annb_unit *unit, uint32_t matrix);
/* Into the page table, when they were resident. The unit may be decoded meanwhile. */
void annb_pages_enter_records(annb_planner *planner, const annb_unit *unit, uint32_t matrix);
/* Again, those of one step: they were dropped. */
void annb_pages_ask_again(const annb_loader *loader, const annb_unit *unit, uint64_t step);
/* Readahead of the maps is the kernel's again. Another loader of the same store takes it back with its next fetch. */
void annb_pages_end(const annb_loader *loader);

/* reads.c */
annb_status annb_reads_open(uint32_t n_threads, struct annb_reads **out, annb_error *err);
void annb_reads_cancel(struct annb_reads *reads); /* NULL is allowed; what is not begun is not read any more, nobody waits for it */
void annb_reads_close(struct annb_reads *reads);  /* NULL is allowed */
/* Index pages of all matrices, then begin with the records: their places (annb_locate_place) are known. */
void annb_reads_begin(annb_planner *planner, annb_unit *unit);
void annb_reads_finish(annb_planner *planner, annb_unit *unit);

/* ---- decode.c ---- */

annb_status annb_decode_batch(const annb_loader *loader, const annb_unit *unit, uint64_t step, annb_context *context, annb_slot *slot,
                              uint64_t *bytes, annb_error *err);

/* ---- engine.c ---- */

/* Threads that prepare the plan's steps from `loader->step` on. */
annb_status annb_engine_start(annb_loader *loader, annb_error *err);
/* End them and free all; a loader without an engine is allowed. */
void annb_engine_stop(annb_loader *loader);
/* Wait for the next batch, at most `milliseconds` (< 0: for ever): false when it is not there. */
bool annb_engine_wait(annb_engine *engine, int64_t milliseconds);
/* Take it, after a wait that gave true. */
annb_status annb_engine_take(annb_engine *engine, annb_slot **slot, annb_error *err);
void annb_engine_bytes(annb_engine *engine, uint64_t *read, uint64_t *decoded);

#endif
