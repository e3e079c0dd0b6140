/* Rows as the source had them (SPEC.md 3.6): for export, not for training. */
#ifndef ANNB_READER_SOURCE_ORDER_H
#define ANNB_READER_SOURCE_ORDER_H

#include <annblock/reader.h>

typedef struct annb_source_rows annb_source_rows;

/* The matrix of a part, which must have it. Opens and validates its order object, when there is one. */
annb_status annb_source_rows_open(const annb_store *store, uint32_t part, uint32_t matrix, annb_source_rows **out, annb_error *err);
void annb_source_rows_close(annb_source_rows *source); /* NULL is allowed */

/* Rows of the part (store row numbers) as annb_fetch_csr gives them by default, but with the elements in the order of a CSR source. */
annb_status annb_source_rows_fetch(const annb_source_rows *source, annb_context *context, const uint64_t *rows, size_t n_rows,
                                   int64_t *indptr, int32_t *indices, void *values, uint64_t capacity, annb_error *err);

/* The order of rows in which the columns of a CSC source ascend: position → part row, valid until close; NULL when it is that of their
 * numbers. */
const uint64_t *annb_source_rows_order(const annb_source_rows *source);

#endif
