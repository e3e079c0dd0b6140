/* The orders of one matrix: of its genes in the store, and of the elements in the source (SPEC.md 3.6). */
#ifndef ANNB_CONVERT_ORDERS_H
#define ANNB_CONVERT_ORDERS_H

#include "sample.h"

typedef struct annb_orders {
  uint32_t *genes;  /* stored id → column; NULL: as in the source */
  uint32_t *source; /* position → column (CSC: row), under which the sample ascends; NULL: by number */
  uint32_t *rank;   /* its inverse, or NULL */
  uint64_t n_source;
} annb_orders;

/* Look at a sample of the matrix. `detect`: genes by how often they are found, the most frequent first. */
annb_status annb_orders_find(const annb_source_matrix *m, bool detect, annb_orders *out, annb_error *err);
void annb_orders_free(annb_orders *orders); /* a zeroed one is allowed */

/* An order of 0 … n−1 under which all rows of the sample ascend, ties by number; *order stays NULL when they ascend by number or there is
 * no such order. */
annb_status annb_source_order_find(const annb_sample *sample, uint64_t n, uint32_t **order, annb_error *err);

#endif
