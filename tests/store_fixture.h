/* A store in a directory of its own, and a context to fetch with. For one test program each: its state is static. */
#ifndef ANNB_TESTS_STORE_FIXTURE_H
#define ANNB_TESTS_STORE_FIXTURE_H

#include "store_maker.h"

#include <stdio.h>
#include <stdlib.h>

static char dir[256], store_path[300];
static annb_context *context;
static annb_error err;

static inline void setup(void) {
  maker_tmpdir(dir);
  snprintf(store_path, sizeof store_path, "%s/store", dir);
  ck_assert_int_eq(annb_context_open(&context, &err), ANNB_OK);
}

static inline void teardown(void) {
  annb_context_close(context);
  maker_remove(dir);
}

static inline annb_store *open_store(void) {
  annb_store *store;
  OK(annb_store_open(store_path, NULL, &store, &err));
  return store;
}

/* Another store in the directory, of one matrix X, opened. */
static inline annb_store *open_new(const maker_csr *x, uint64_t segment_rows, uint32_t block_rows) {
  static unsigned number;
  annb_store *store;
  char name[32];
  snprintf(name, sizeof name, "s%u", number++);
  maker_simple(maker_join(dir, name), ANNB_TXN_CREATE, x, segment_rows, block_rows);
  OK(annb_store_open(maker_join(dir, name), NULL, &store, &err));
  return store;
}

/* `n` zeroed bytes, none too. */
static inline void *room(size_t n) {
  void *p = calloc(n + 1, 1);
  ck_assert_ptr_nonnull(p);
  return p;
}

#endif
