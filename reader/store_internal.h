/* Inside of an open store.
 *
 * The manifest was validated when it was loaded: its references, sums and ranges hold. Everything is written once while opening, but
 * the files opened later: each has an atomic pointer that goes from NULL to the opened file once. Threads that race open it twice,
 * one of them publishes, the other closes its own again: so no lock is ever held and a forked child finds nothing half done. */
#ifndef ANNB_READER_STORE_INTERNAL_H
#define ANNB_READER_STORE_INTERNAL_H

#include "../store/objects/arrays.h"
#include "../store/codec/codec.h"
#include "../store/manifest/manifest.h"
#include "../store/objects/segment.h"
#include "join/join.h"

#include <annblock/reader.h>

#include <stdatomic.h>

typedef struct annb_part_columns annb_part_columns;

typedef _Atomic(annb_segment *) annb_segment_slot;
typedef _Atomic(annb_part_columns *) annb_columns_slot;
typedef _Atomic(annb_gene_table *) annb_gene_order_slot;
typedef _Atomic(char *) annb_path_slot;
typedef struct annb_joint_columns annb_joint_columns;
typedef _Atomic(annb_joint_columns *) annb_joint_slot;
typedef struct annb_gene_map annb_gene_map;
typedef _Atomic(annb_gene_map *) annb_gene_map_slot;

/* A store's directory. */
typedef struct annb_store_dir {
  char *path, *manifest_path;
  uint8_t id[16];
  uint64_t generation, first_row, n_rows, bytes;
  uint32_t first_part, n_parts;
} annb_store_dir;

struct annb_store {
  const char *path, *manifest_path; /* for messages: of the only directory, or a description of all */
  annb_manifest manifest;
  bool skip_checks;
  annb_store_dir *dirs; /* of a union one for each store, else one */
  uint32_t n_dirs;
  bool is_union;
  char *description;
  uint32_t *object_dirs;   /* union: by object, the directory that it is in; NULL: the first one */
  annb_join_memory memory; /* union: objects that are in no directory */
  char **matrix_names;
  uint64_t *part_first;    /* n_parts + 1: store row of each part's row 0 */
  uint64_t *segment_first; /* n_segments + 1: running sum of rows over the whole table */
  uint64_t *lookup;        /* the part-matrix table as matrix << 32 | row, ascending in each part's range */
  annb_segment_slot *segments; /* by row of the segment table */
  annb_columns_slot *columns;  /* by part, then of the list of genes where that is an object of its own */
  annb_joint_slot *joint;      /* by axis */
  annb_path_slot *paths;       /* by object: of sidecars and restore files */
  annb_gene_order_slot *gene_orders; /* by object */
  annb_gene_map_slot *gene_maps;     /* by part */
  annb_gene_order_slot *store_genes; /* by part matrix: from stored ids to the store's genes */
};

/* One per thread. Slots of `scratch`: see rows.c. */
struct annb_context {
  annb_scratch codec, scratch;
  struct annb_team *team;    /* team.c: NULL until several threads are asked for */
  struct annb_pool *pool;    /* fetch.c: memory of batches, NULL until there is one */
  uint64_t pool_process;     /* in which the pool was made */
};

enum { ANNB_SLOT_INDICES, ANNB_SLOT_VALUES, ANNB_SLOT_KEYS, ANNB_SLOT_COPY, ANNB_SLOT_DENSE, ANNB_SLOT_BOUNDS };

/* ---- open.c ---- */

/* With the manifest and its directories there: what reading needs beside them. */
annb_status annb_store_make_tables(annb_store *store, annb_error *err);
/* The path of an object in fresh memory, or NULL. */
char *annb_store_object_path(const annb_store *store, uint32_t object);
/* The object's file is the one that the manifest means: size and footer hash. */
annb_status annb_check_object(const annb_fmt_object *object, const annb_map *map, const annb_envelope *envelope, const char *path,
                              annb_error *err);

/* ---- columns.c ---- */

/* A flat-arrays object of the manifest, found to be the one it means. */
annb_status annb_open_arrays(const annb_store *store, uint32_t object, annb_arrays **out, annb_error *err);

void annb_part_columns_close(annb_part_columns *columns); /* NULL is allowed */

/* What the columns of a file must have as lengths; not `known`: any. */
typedef struct annb_column_lengths {
  bool known;
  uint64_t obs, var;
} annb_column_lengths;

/* ANNB_ERANGE when there is no such part. */
annb_status annb_check_part(const annb_store *store, uint32_t part, annb_error *err);
annb_status annb_check_axis(const annb_store *store, annb_axis axis, annb_error *err);
/* The columns of a flat-arrays object (ANNB_NONE: none). */
annb_status annb_columns_open(const annb_store *store, uint32_t object, const annb_column_lengths *lengths, annb_part_columns **out,
                              annb_error *err);
/* The columns of an axis, in order, of a part, or (place n_parts) of the list of genes. */
annb_status annb_columns_list(const annb_store *store, uint32_t place, annb_axis axis, const annb_column *const **list, uint32_t *n,
                              annb_error *err);
/* The column in that row of the file's table, or NULL. */
const annb_column *annb_columns_row(const annb_part_columns *columns, uint32_t row);

/* ---- joint.c ---- */

void annb_joint_columns_close(annb_joint_columns *columns); /* NULL is allowed */

/* ---- gene_order.c ---- */

/* From the stored ids of a matrix in a part to its columns, n_cols of them; NULL when they are the same. Read on first use. */
annb_status annb_get_gene_order(const annb_store *store, const annb_fmt_part_matrix *pm, const annb_gene_table **out, annb_error *err);
void annb_gene_order_close(annb_gene_table *table); /* NULL is allowed */

/* ---- locate.c: from store rows to records ---- */

/* The part's row in the part-matrix table, or NULL. */
const annb_fmt_part_matrix *annb_find_part_matrix(const annb_store *store, uint32_t part, uint32_t matrix);

/* ---- gene_map.c ---- */

void annb_gene_map_close(annb_gene_map *map); /* NULL is allowed */
/* The part has a gene map and the matrix is of its genes. */
static inline bool annb_part_matrix_mapped(const annb_store *store, uint32_t part, const annb_fmt_part_matrix *pm) {
  return store->manifest.parts[part].gene_map != ANNB_NONE && store->manifest.matrices[pm->matrix].axes == ANNB_OBS_VAR;
}
/* From the stored ids of a matrix in a part to the columns of the store's; NULL when they are the same. Read on first use. */
annb_status annb_get_store_genes(const annb_store *store, uint32_t part, const annb_fmt_part_matrix *pm, const annb_gene_table **out,
                                 annb_error *err);

/* Remembers the segment of the last row, so that rows near each other cost no search. */
typedef struct annb_locator {
  const annb_store *store;
  uint32_t matrix;
  bool original, stored;  /* which ids are wanted of the rows; neither: rows are only counted */
  bool of_part;           /* original: the part's columns, not the store's */
  bool order_known;       /* stored: `order` is that of the rows so far */
  uint32_t order;
  uint64_t first, end;    /* store rows that `segment` covers */
  annb_segment *segment;  /* NULL: a part without the matrix, all zero */
  const annb_gene_table *genes;
} annb_locator;

typedef struct annb_located {
  annb_segment *segment; /* NULL: no elements */
  const annb_gene_table *genes; /* from stored ids to those to deliver; NULL: they are the same */
  uint64_t store_row, segment_row;
  annb_record_ref record;
} annb_located;

/* Start; `options` say which ids are wanted, NULL: the rows are only counted. ANNB_ERANGE when there is no such matrix. */
annb_status annb_locator_begin(annb_locator *locator, const annb_store *store, uint32_t matrix, const annb_fetch_options *options,
                               annb_error *err);
/* Which segment and row of it, `record` is left empty: its index is not read. */
annb_status annb_locate_place(annb_locator *locator, uint64_t row, annb_located *out, annb_error *err);
annb_status annb_locate(annb_locator *locator, uint64_t row, annb_located *out, annb_error *err);

/* A record that is decoded soon: its lines into the cache. Inlined always: gcc leaves out calls of functions that only prefetch. */
__attribute__((always_inline)) static inline void annb_record_prefetch(const annb_record_ref *record) {
  enum { MOST = 4096 };
  uint64_t length = record->length < MOST ? record->length : MOST;
  for (uint64_t i = 0; record->data && i < length; i += 64) __builtin_prefetch(record->data + i);
}

/* Rows one after the other. A batch of them is located once, and their records are in the cache when they are decoded. */
enum { ANNB_WALK_KEPT = 64 };
typedef struct annb_walk {
  annb_locator locator;
  const uint64_t *rows;
  size_t n_rows, n_located, n_prefetched, at;
  annb_located kept[ANNB_WALK_KEPT];
} annb_walk;

/* As annb_locator_begin; `rows` must stay. */
annb_status annb_walk_begin(annb_walk *walk, const annb_store *store, uint32_t matrix, const annb_fetch_options *options,
                            const uint64_t *rows, size_t n_rows, annb_error *err);
/* Sums of the elements before each row in `indptr` (n_rows + 1), before the first annb_walk_next. ANNB_ERANGE past 2^63. */
annb_status annb_walk_count(annb_walk *walk, int64_t *indptr, annb_error *err);
/* Find the places of all rows, and so what is wrong with their numbers, before the first annb_walk_next. */
annb_status annb_walk_places(annb_walk *walk, annb_error *err);
/* The next of the n_rows rows, valid until the next call. */
annb_status annb_walk_next(annb_walk *walk, const annb_located **row, annb_error *err);

/* After a failure of store/ about a segment's row: the same error, naming the store row too. */
annb_status annb_name_row(const annb_located *row, annb_status status, annb_error *err);

/* ---- rows.c: one row ---- */

/* The record's check, unless the store is read without. */
annb_status annb_row_check(const annb_store *store, const annb_located *row, annb_error *err);
/* Decode to stored ids. `indices` and `values` have room for nnz + ANNB_DECODE_SLACK elements; those that are NULL are taken from the
 * context's scratch and set. */
annb_status annb_row_decode(annb_context *context, const annb_located *row, uint32_t **indices, uint8_t **values, annb_error *err);
/* Of the row's n elements those of genes that the store has, in place: how many they are. `sorted`: ids ascend. */
uint32_t annb_row_keep(const annb_gene_table *genes, bool sorted, uint32_t *indices, uint8_t *values, uint32_t size, uint32_t n);
/* Stored ids to those of the table; NULL: they stay. */
void annb_row_map(const annb_gene_table *genes, uint32_t *indices, uint32_t n);
/* Check and decode to ids of `genes` (NULL: stored ids), ascending with `sort`, stable; ids from genes->n_kept on are to be left out, see
 * annb_row_keep. Float32 `values` that are given must be aligned. */
annb_status annb_row_deliver(const annb_store *store, annb_context *context, const annb_located *row, const annb_gene_table *genes,
                             bool sort, uint32_t **indices, uint8_t **values, annb_error *err);
/* Values to `dtype`. ANNB_ELOSSY names file, row, column and value. */
annb_status annb_row_convert(const annb_located *row, const uint32_t *indices, const uint8_t *values, annb_dtype dtype, bool allow_lossy,
                             void *out, annb_error *err);

/* ---- fetch.c ---- */

/* `options` (may be NULL) with the dtype filled in. ANNB_EINVAL for what is no dtype. */
annb_status annb_fetch_resolve(const annb_store *store, uint32_t matrix, const annb_fetch_options *options, annb_fetch_options *out,
                               annb_error *err);
/* One located row to element `at` of the arrays, which have room for `capacity`; its record.nnz becomes what is delivered. */
annb_status annb_put_csr_row(const annb_store *store, annb_context *context, const annb_fetch_options *resolved, void *indices,
                             void *values, uint64_t capacity, uint64_t at, annb_located *row, annb_error *err);

/* ---- dense.c ---- */

/* One located row to `length` bytes, which hold all its columns. */
annb_status annb_put_dense_row(const annb_store *store, annb_context *context, annb_located *row, const annb_fetch_options *resolved,
                               uint8_t *out, size_t length, annb_error *err);

#endif
