/* Rows as readers hand them out, straight from their records: ids through a table, values as float32. */
#ifndef ANNB_STORE_DELIVER_H
#define ANNB_STORE_DELIVER_H

#include "codec.h"

/* Stored id → delivered id, one to one. */
typedef struct annb_gene_table {
  uint32_t n;      /* columns of the record's matrix */
  uint32_t n_out;  /* delivered ids are below this */
  uint32_t n_kept; /* those from here on are of no gene: readers leave them out. n_out when there are none */
  uint32_t *wide;
  uint16_t *narrow; /* the same in 16 bits, with room for over-reads, when n_out ≤ 65536; else NULL */
} annb_gene_table;

/* False when memory is short; entries must be < n_out. */
bool annb_gene_table_init(annb_gene_table *table, const uint32_t *ids, uint32_t n, uint32_t n_out);
void annb_gene_table_free(annb_gene_table *table);

typedef enum annb_delivery {
  ANNB_DELIVERY_OTHER,  /* not here: decode and convert by the general way */
  ANNB_DELIVERY_DONE,
  ANNB_DELIVERY_CORRUPT /* the record is not valid, or memory is short */
} annb_delivery;

/* A row of a float32 matrix as CSR. `table` may be NULL for stored ids. Room for nnz + ANNB_DECODE_SLACK elements of each. */
annb_delivery annb_deliver_csr(const annb_row_shape *shape, const uint8_t *record, size_t length, const annb_gene_table *table,
                               uint32_t *indices, float *values, annb_scratch *scratch);
/* The same with ascending ids. OTHER for rows with repeated ids. */
annb_delivery annb_deliver_sorted(const annb_row_shape *shape, const uint8_t *record, size_t length, const annb_gene_table *table,
                                  uint32_t *indices, float *values, annb_scratch *scratch);
/* The same as a dense row of n_out (without a table: n_cols) values, which is zeroed first. OTHER for rows with repeated ids. */
annb_delivery annb_deliver_dense(const annb_row_shape *shape, const uint8_t *record, size_t length, const annb_gene_table *table,
                                 float *row, annb_scratch *scratch);

#endif
