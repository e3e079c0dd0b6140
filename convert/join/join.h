/* Several files as one store: reader/join/ as the last step before a commit (store/commit/txn.h: annb_txn_set_build), on whatever the
 * store is then. */
#ifndef ANNB_CONVERT_JOIN_JOIN_H
#define ANNB_CONVERT_JOIN_JOIN_H

#include "../../reader/join/join.h"

#include <annblock/convert.h>

/* An annb_txn_build_fn; `user` is an annb_join, whose first_label is set. Genes that do not match and are not to be joined: ANNB_EINPUT. */
annb_status annb_join_build(void *user, annb_txn *txn, const annb_manifest *base, annb_manifest *draft, annb_error *err);

/* The columns of each part of a draft, opened. */
annb_status annb_join_open(const annb_txn *txn, const annb_manifest *m, annb_join_files *out, annb_error *err);

/* ---- duplicates.c ---- */

/* How many names of cells are those of other cells, before them, and one of those names in `example`. */
annb_status annb_join_duplicates(const annb_join_files *files, uint64_t memory, uint64_t *n, char example[128], annb_error *err);

#endif
