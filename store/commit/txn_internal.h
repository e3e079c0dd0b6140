/* A transaction, between txn.c (begin, collect, end) and txn_commit.c. */
#ifndef ANNB_STORE_TXN_INTERNAL_H
#define ANNB_STORE_TXN_INTERNAL_H

#include "txn.h"

enum { ANNB_TXN_TRIES = 64 };
enum { DIR_STORE, DIR_OBJECTS, DIR_MANIFESTS, DIR_TMP, N_DIRS }; /* tmp/ last: it is removed first */

struct annb_txn {
  char *dirs[N_DIRS]; /* paths; the store first, without a trailing slash */
  bool made[N_DIRS];  /* by this transaction */
  annb_txn_mode mode;
  annb_manifest manifest;
  uint64_t unique; /* part of the names of its temporary files */
  char **temps;    /* every file it may have made under tmp/; the first one, its marker, says that it is under way */
  int marker;      /* open and locked as long as it lives, or -1 */
  uint32_t n_temps;
  const char **sources; /* one per object: its file under tmp/ */
  bool *linked;         /* one per object: published by this transaction */
  uint32_t n_sources;
  annb_txn_build_fn build; /* may be NULL */
  void *build_user;
};

/* The newest generation, 0 when there is none or no directory for them (yet, or no longer). */
annb_status annb_txn_newest(const annb_txn *txn, uint64_t *generation, annb_error *err);
annb_status annb_txn_load_parent(const annb_txn *txn, uint64_t generation, annb_manifest *out, annb_error *err);
/* Make those of the directories first … last that are missing. */
annb_status annb_txn_make_dirs(annb_txn *txn, int first, int last, annb_error *err);
void annb_txn_remove_temps(const annb_txn *txn);
/* Remove what the transaction wrote; `locked`: nobody else can be about to name its objects. */
void annb_txn_give_up(annb_txn *txn, bool locked);
void annb_txn_release(annb_txn *txn);

#endif
