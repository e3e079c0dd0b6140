/* Stores of one matrix "X" whose genes are permuted, whose rows are sorted, or whose order objects hold what a test wants. */
#ifndef ANNB_TESTS_ORDER_MAKER_H
#define ANNB_TESTS_ORDER_MAKER_H

#include "store_maker.h"

#include "../store/manifest/manifest.h"

/* A free array of a flat-arrays object; n_cols 0 stands for 1. */
typedef struct order_array {
  const char *name;
  annb_dtype dtype;
  uint64_t n, n_cols;
  const void *data;
} order_array;

typedef struct order_part {
  const maker_csr *x;
  annb_form form; /* 0 = CSR */
  bool sort;
  uint64_t segment_rows;
  const uint32_t *genes;     /* the permutation in the records, or NULL */
  const order_array *stated; /* what the object says instead, when not NULL */
  size_t n_stated;
  const order_array *source; /* arrays of the order object */
  size_t n_source;
} order_part;

/* `spoil` (may be NULL) changes the manifest before it is written. */
void order_store(const char *path, const order_part *parts, uint32_t n_parts, void (*spoil)(annb_manifest *manifest));

/* 0 … n−1 in an order that depends on the seed; fresh memory. */
uint32_t *order_permutation(uint64_t seed, uint32_t n);

/* Element numbers of a row as its record has them: as given, or by stored id, stably. `order` has room for them. Returns how many. */
uint64_t order_stored_row(const order_part *part, uint64_t row, uint64_t *order);
/* Stable insertion sort of element numbers by key[element]. */
void order_sort(uint64_t *order, uint64_t n, const uint32_t *key);
/* Stored id of each element of the part's matrix; fresh memory. */
uint32_t *order_stored_ids(const order_part *part);

/* Number of findings of annb_verify; the first one's message. */
uint64_t order_findings(const char *path, char message[512]);

#endif
