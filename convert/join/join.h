/* Several parts as one store: a common list of genes, common columns of obs, common matrices. It works on the flat arrays of the parts, as
 * the last step before a commit (store/txn.h: annb_txn_set_build), on whatever the store is then. */
#ifndef ANNB_CONVERT_JOIN_JOIN_H
#define ANNB_CONVERT_JOIN_JOIN_H

#include "keys.h"

#include "../../store/txn.h"

#include <annblock/convert.h>

typedef struct annb_join {
  annb_gene_join how;
  const char *key; /* column of var that genes are matched by, NULL: their names */
  bool allow_duplicates;
  annb_convert_note_fn note; /* may be NULL */
  void *user;
  const char *const *labels; /* of the parts that are added, for messages */
  uint32_t first_label;      /* the part that labels[0] is of; set by annb_join_build */
  uint32_t n_labels;
  const char *store; /* its path, likewise */
} annb_join;

/* "<label>" of a part in messages: its input, or "part 3 of <store>". */
void annb_join_label(const annb_join *join, uint32_t part, char text[256]);
/* One sentence to the user. */
void annb_join_note(const annb_join *join, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An annb_txn_build_fn; `user` is an annb_join. Genes that do not match and are not to be joined: ANNB_EINPUT. */
annb_status annb_join_build(void *user, annb_txn *txn, const annb_manifest *base, annb_manifest *draft, annb_error *err);

/* The flat arrays with the columns of each part of a draft, opened. */
typedef struct annb_join_files {
  annb_arrays **columns; /* one per part; NULL where a part has none */
  uint32_t n;
  annb_arrays *genes; /* the list of genes of the base where that is an object of its own, else NULL */
} annb_join_files;
annb_status annb_join_open(const annb_txn *txn, const annb_manifest *m, annb_join_files *out, annb_error *err);
void annb_join_close(annb_join_files *files);

/* ---- genes.c ---- */

/* Sets the list of genes of `draft` and the gene maps of its parts, those from `first_new` on being new (0: all). With `txn` NULL nothing
 * is written: only what can be refused is. */
annb_status annb_join_genes(const annb_join *join, annb_txn *txn, const annb_join_files *files, uint32_t first_new, annb_manifest *draft,
                            annb_error *err);

/* ---- schema.c ---- */

/* Sets the schema of `draft` and the category maps of its parts; none when it has one part. */
annb_status annb_join_columns(const annb_join *join, annb_txn *txn, const annb_join_files *files, annb_manifest *draft, annb_error *err);

/* ---- duplicates.c ---- */

/* How many names of cells are those of other cells, before them, and one of those names in `example`. */
annb_status annb_join_duplicates(const annb_join_files *files, uint64_t memory, uint64_t *n, char example[128], annb_error *err);

/* ---- for all ---- */

/* Write one free array as a flat-arrays object of the transaction and enter it in the draft. */
annb_status annb_join_write_array(annb_txn *txn, annb_manifest *draft, const char *name, annb_dtype dtype, const void *values, uint64_t n,
                                  uint32_t *row, annb_error *err);
/* The name of a column in fresh memory, or NULL. */
char *annb_join_column_name(const annb_arrays *arrays, const annb_fmt_column *column);

#endif
