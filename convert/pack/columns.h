/* obs and var of a source as one file of flat arrays (SPEC.md, section 4). */
#ifndef ANNB_CONVERT_COLUMNS_H
#define ANNB_CONVERT_COLUMNS_H

#include "../rows/shuffle.h"
#include "../source/source.h"

#include <annblock/convert.h>

/* Names and columns of obs, then of var, in the order of `column-order`; a name listed twice counts once, one that is not there not at all.
 * Columns of other kinds (nested, ragged, dates, of several dimensions) are left to the sidecar. ANNB_EINPUT when a column is damaged:
 * another length than its axis, codes out of range, parts missing. `object` is the file's row in the transaction.
 * `shuffle`: the order of obs in the store, or NULL. */
annb_status annb_columns_write(const annb_source *source, annb_txn *txn, const annb_shuffle *shuffle, annb_convert_progress_fn progress,
                               void *user, uint32_t *object, annb_error *err);

#endif
