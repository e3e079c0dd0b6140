/* Rows in the order of the sources, where parts were packed in another (SPEC.md 5.5.1): for export, not for training. */
#ifndef ANNB_READER_ROW_ORDERS_H
#define ANNB_READER_ROW_ORDERS_H

#include <annblock/reader.h>

typedef struct annb_row_orders annb_row_orders;

/* Of all parts, validated. *out stays NULL when every part is in its source's order. */
annb_status annb_row_orders_open(const annb_store *store, annb_row_orders **out, annb_error *err);
void annb_row_orders_close(annb_row_orders *orders); /* NULL is allowed */

/* The store row that holds source row `row`, and the other way round; source rows are numbered over the parts as store rows are. Without
 * orders (NULL) they are the same. `row` is below the store's n_obs. Any thread. */
uint64_t annb_row_orders_stored(const annb_row_orders *orders, uint64_t row);
uint64_t annb_row_orders_source(const annb_row_orders *orders, uint64_t row);

#endif
