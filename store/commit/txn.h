/* Inside of a transaction, for the writers of this folder. The public side is in annblock/store.h. */
#ifndef ANNB_STORE_TXN_H
#define ANNB_STORE_TXN_H

#include "../manifest/manifest.h"

#include <annblock/store.h>

/* The manifest under construction. */
annb_manifest *annb_txn_manifest(annb_txn *txn);
/* "<store>/tmp", valid as long as the transaction. */
const char *annb_txn_tmp_dir(const annb_txn *txn);
/* Take over the complete file `temp_path` (from annb_txn_temp_path) with its description: `object` is its row. Equal content is kept
 * once. */
annb_status annb_txn_adopt(annb_txn *txn, const char *temp_path, const annb_fmt_object *object, uint32_t *row, annb_error *err);


/* What makes the next manifest out of a draft: the tables of `base` (the newest generation for APPEND, else empty) followed by those of the
 * transaction, objects of both in one table. It may change the draft and write objects into the transaction, which it adds to the draft by
 * annb_txn_add_to. When another writer commits first it is called again on a new draft. */
typedef annb_status (*annb_txn_build_fn)(void *user, annb_txn *txn, const annb_manifest *base, annb_manifest *draft, annb_error *err);
void annb_txn_set_build(annb_txn *txn, annb_txn_build_fn build, void *user);

/* The row in `draft` of an object of the transaction. */
annb_status annb_txn_add_to(const annb_txn *txn, uint32_t object, annb_manifest *draft, uint32_t *row, annb_error *err);
/* Where the object is now: a file of the transaction that is not published yet, or of the store. Fresh memory, or NULL. */
char *annb_txn_object_path(const annb_txn *txn, const annb_fmt_object *object);
/* The newest generation of the store as it is now; empty when there is none. */
annb_status annb_txn_base(const annb_txn *txn, annb_manifest *out, annb_error *err);

#endif
