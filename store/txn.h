/* Inside of a transaction, for the writers of this folder. The public side is in annblock/store.h. */
#ifndef ANNB_STORE_TXN_H
#define ANNB_STORE_TXN_H

#include "manifest.h"

#include <annblock/store.h>

/* The manifest under construction. */
annb_manifest *annb_txn_manifest(annb_txn *txn);
/* "<store>/tmp", valid as long as the transaction. */
const char *annb_txn_tmp_dir(const annb_txn *txn);
/* Take over the complete file `temp_path` (from annb_txn_temp_path) with its description: `object` is its row. Equal content is kept once. */
annb_status annb_txn_adopt(annb_txn *txn, const char *temp_path, const annb_fmt_object *object, uint32_t *row, annb_error *err);

#endif
