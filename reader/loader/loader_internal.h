/* Inside of loaders.
 *
 *   open.c     options, stores, matrices and genes, labels
 *   loader.c   the consumer's side: next, epochs, states, fork
 *   engine.c   threads and what they share: units planned ahead, the ring of ready batches
 *   unit.c     one fetch: its rows in order of the files, their records
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

/* A pool has one holder and one for each slot that is out. */
annb_pool *annb_pool_open(uint32_t n_matrices, uint32_t n_labels, uint32_t n_kept); /* NULL when memory is short */
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
  uint32_t *numbers;   /* by store: the matrix's */
  uint64_t n_cols, n_delivered;
  uint32_t *genes;     /* column → delivered column or ANNB_NONE; NULL: all columns as they are */
  annb_projection *projections;
} annb_loader_source;

typedef struct annb_loader_names {
  char *name;
  const annb_joint_column **columns; /* by store */
  int32_t **remaps;                  /* by store: its codes to those delivered; NULL: the same */
  uint64_t n_categories;
  /* where the name of a category is: store and its code */
  uint32_t *category_store;
  uint64_t *category_code;
} annb_loader_names;

typedef struct annb_engine annb_engine;

struct annb_loader {
  const annb_store **stores;
  uint64_t *first; /* n_stores + 1: rows of the stores before */
  uint32_t n_stores;
  annb_loader_options options; /* defaults filled in, pointers not to be used */
  annb_access access;
  bool tells_residency;
  annb_loader_source *matrices;
  annb_loader_names *labels;
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

/* The store of a row, which becomes a row of it. */
static inline uint32_t annb_loader_store_of(const annb_loader *loader, uint64_t *row) {
  uint32_t i = 0, n = loader->n_stores;
  while (n > 1) { /* the last that starts at or before it: empty stores have none */
    uint32_t half = n / 2;
    if (loader->first[i + half] <= *row) i += half;
    n -= half;
  }
  *row -= loader->first[i];
  return i;
}

/* open.c */
annb_status annb_loader_codes(const annb_loader *loader, uint32_t label, const uint64_t *rows, uint64_t n, int32_t *codes, annb_error *err);
void annb_loader_free(annb_loader *loader);

/* ---- units ---- */

typedef enum annb_unit_state { ANNB_UNIT_FREE, ANNB_UNIT_ROWS, ANNB_UNIT_READY } annb_unit_state;

typedef struct annb_unit {
  annb_unit_state state; /* under the engine's lock */
  uint64_t first, end;   /* steps of the plan */
  uint64_t left;         /* steps not decoded; under the engine's lock */
  uint64_t *rows, n_rows;
  uint64_t *batch_first; /* n steps + 1: places in `rows` */
  uint64_t *batches;     /* numbers in the epoch */
  uint64_t *order, *spare; /* places of rows in ascending order of rows */
  annb_located *records[ANNB_LOADER_MAX_MATRICES]; /* by place of `rows` */
  uint64_t n_room, n_steps_room;
  annb_slot_buffer *arenas; /* PREAD: the planner's, one per matrix */
  uint64_t failed; /* the first step that failed in planning, or none: UINT64_MAX */
  annb_error failure;
} annb_unit;

struct annb_reads;

/* What planning a unit needs beside it. */
typedef struct annb_planner {
  annb_loader *loader; /* the planner alone writes to projections */
  annb_picker *picker;
  struct annb_reads *reads; /* PREAD */
  annb_slot_buffer spans, pages, requests;
  annb_slot_buffer arenas[ANNB_LOADER_ARENAS][ANNB_LOADER_MAX_MATRICES]; /* units that have only their rows need none */
  uint64_t bytes_read;
} annb_planner;

/* unit.c: rows of steps first … end-1 and their order. Failures are kept in the unit. */
void annb_unit_rows(annb_planner *planner, annb_unit *unit, uint64_t first, uint64_t end);
/* Their records; PREAD: in memory, MMAP: asked for. */
void annb_unit_records(annb_planner *planner, annb_unit *unit);
void annb_unit_free(annb_unit *unit);
/* Keep a failure at the row in place `place`, if it is the first. */
void annb_unit_fail(annb_unit *unit, uint64_t place, const annb_error *err);

/* pages.c */
void annb_pages_ask_index(annb_planner *planner, annb_unit *unit, uint32_t matrix);
void annb_pages_ask_records(annb_planner *planner, annb_unit *unit, uint32_t matrix);

/* reads.c */
annb_status annb_reads_open(uint32_t n_threads, struct annb_reads **out, annb_error *err);
void annb_reads_close(struct annb_reads *reads); /* NULL is allowed */
/* Index pages and records of a matrix: the places of `records` are known (annb_locate_place) in the map. */
void annb_reads_records(annb_planner *planner, annb_unit *unit, uint32_t matrix);

/* ---- decode.c ---- */

annb_status annb_decode_batch(const annb_loader *loader, const annb_unit *unit, uint64_t step, annb_context *context, annb_slot *slot,
                              uint64_t *bytes, annb_error *err);

/* ---- engine.c ---- */

/* Threads that prepare the plan's steps from `loader->step` on. */
annb_status annb_engine_start(annb_loader *loader, annb_error *err);
/* End them and free all; NULL is allowed. */
void annb_engine_stop(annb_loader *loader);
/* Wait for the next batch, at most until `deadline` (milliseconds from now, < 0: for ever): false when it is not there. */
bool annb_engine_wait(annb_engine *engine, int64_t milliseconds);
/* Take it, after a wait that gave true. */
annb_status annb_engine_take(annb_engine *engine, annb_slot **slot, annb_error *err);
void annb_engine_bytes(annb_engine *engine, uint64_t *read, uint64_t *decoded);

#endif
