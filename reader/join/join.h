/* Several lists of genes as one, columns of obs of several parts as one (SPEC.md 5.2, 5.5, 5.8). It works on flat arrays and on a draft of
 * the manifest that is to hold all of it: that of a store's next generation, or of a union in memory. */
#ifndef ANNB_READER_JOIN_H
#define ANNB_READER_JOIN_H

#include "keys.h"

#include "../../store/commit/txn.h"

#include <annblock/reader.h>

typedef struct annb_join {
  annb_gene_join how;
  const char *key; /* column of var that genes are matched by, NULL: their names */
  bool allow_duplicates;
  bool stores; /* what is joined are stores, to be read as one; else files, to be one store */
  void (*note)(void *user, const char *note); /* one sentence to the user; may be NULL */
  void *user;
  const char *const *labels; /* of the parts that are added, for messages */
  uint32_t first_label;      /* the part that labels[0] is of */
  uint32_t n_labels;
  const char *store; /* path of all together, for messages */
} annb_join;

/* "<label>" of a part in messages: its input, or "part 3 of <store>". */
void annb_join_label(const annb_join *join, uint32_t part, char text[256]);
void annb_join_note(const annb_join *join, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The name of a column in fresh memory, or NULL. */
char *annb_join_column_name(const annb_arrays *arrays, const annb_fmt_column *column);

/* ---- where the objects go that are made ---- */

/* Objects in memory, by their row in the draft; NULL: it is a file. */
typedef struct annb_join_memory {
  uint8_t **bytes;
  uint32_t n;
} annb_join_memory;
void annb_join_memory_free(annb_join_memory *memory);
/* Object `row` of a draft is in memory: takes the bytes over, also on failure. One that is there already, there or in a file, is kept. */
annb_status annb_join_memory_put(annb_join_memory *memory, uint32_t row, bool is_new, uint8_t *bytes, annb_error *err);

typedef struct annb_join_target {
  annb_txn *txn; /* or, NULL: memory */
  annb_join_memory *memory;
} annb_join_target;
/* A writer of flat arrays, and its end: an object of the draft. */
annb_status annb_join_writer_open(const annb_join_target *target, annb_arrays_writer **out, annb_error *err);
annb_status annb_join_writer_close(const annb_join_target *target, annb_arrays_writer *writer, annb_manifest *draft, uint32_t *row,
                                   annb_error *err);
/* One free array as an object. */
annb_status annb_join_write_array(const annb_join_target *target, annb_manifest *draft, const char *name, annb_dtype dtype,
                                  const void *values, uint64_t n, uint32_t *row, annb_error *err);

/* ---- what is joined ---- */

/* The flat arrays with the columns of each part of a draft. */
typedef struct annb_join_files {
  annb_arrays **columns; /* one per part; NULL where a part has none */
  uint32_t n;
  annb_arrays *genes; /* the list of genes of the base where that is an object of its own, else NULL */
} annb_join_files;
void annb_join_close(annb_join_files *files);
/* The columns are as long as their axes. */
annb_status annb_join_check_lengths(const annb_arrays *arrays, uint64_t n_rows, uint64_t n_vars, annb_error *err);

/* genes.c: sets the list of genes of `draft` and the gene maps of its parts, those from `first_new` on being new (0: all). With `target`
 * NULL nothing is made: only what can be refused is. ANNB_EINPUT, of stores ANNB_EINVAL, for genes that do not match. */
annb_status annb_join_genes(const annb_join *join, const annb_join_target *target, const annb_join_files *files, uint32_t first_new,
                            annb_manifest *draft, annb_error *err);

/* schema.c: sets the schema of `draft` and the category maps of its parts; none when it has one part. */
annb_status annb_join_columns(const annb_join *join, const annb_join_target *target, const annb_join_files *files, annb_manifest *draft,
                              annb_error *err);

/* What the matrices of a draft are over all its parts: columns, dtype, what a part without one means. ANNB_EUNSUPPORTED. */
annb_status annb_join_matrices(const annb_join *join, annb_manifest *draft, annb_error *err);

#endif
