/* Orders kept in flat arrays: of genes (SPEC.md 3.1) and of the source's elements (3.6). Everything is validated before it is used. */
#ifndef ANNB_STORE_ORDER_H
#define ANNB_STORE_ORDER_H

#include "arrays.h"

/* The array `gene_order`, stored id → part column: a permutation of its *n (below 2^31) values. A view that lives as long as `arrays`. */
annb_status annb_gene_order_read(annb_arrays *arrays, const uint32_t **ids, uint64_t *n, annb_error *err);

/* An order object. Views that live as long as its file. */
typedef struct annb_source_order {
  const char *path;        /* for messages */
  const uint32_t *columns; /* position → part column, or NULL */
  const uint64_t *rows;    /* of a CSC source: position → part row, or NULL */
  const uint64_t *entry_rows, *entry_ends;
  const uint8_t *bits;
  uint64_t n_entries;
} annb_source_order;

/* Read and validate all but what is in the entries, for a part matrix of that source and shape. */
annb_status annb_source_order_read(annb_arrays *arrays, annb_form form, uint64_t n_rows, uint64_t n_cols, annb_source_order *out,
                                   annb_error *err);
/* The first entry of a part row >= `row`, n_entries when there is none. */
uint64_t annb_source_order_seek(const annb_source_order *order, uint64_t row);

/* Words of scratch memory for a row of n elements. */
static inline size_t annb_source_order_words(uint32_t n) { return (size_t)n / 64 + 1; }
/* Entry k, whose row has n elements: places[i] is where, after step 2, the source's element i is. ANNB_ECORRUPT unless they are a
 * permutation. `words` is scratch memory. */
annb_status annb_source_order_places(const annb_source_order *order, uint64_t k, uint32_t n, uint32_t *places, uint64_t *words,
                                     annb_error *err);

#endif
