/* The entries of an order object (SPEC.md 3.6): rows of a CSR source that do not ascend, collected in bounded memory. */
#ifndef ANNB_CONVERT_ORDER_LOG_H
#define ANNB_CONVERT_ORDER_LOG_H

#include "orders.h"
#include "rows.h"

#include <annblock/store.h>

typedef struct annb_order_log annb_order_log;

/* Rows are to ascend by rank[column], or by column without `rank` (which must outlive the log). Entries wait in the directory
 * `spool_dir`. */
annb_status annb_order_log_open(const uint32_t *rank, const char *spool_dir, annb_order_log **out, annb_error *err);
void annb_order_log_close(annb_order_log *log); /* NULL is allowed */

/* The next rows. */
annb_status annb_order_log_add(annb_order_log *log, const annb_rows_chunk *chunk, annb_error *err);
uint64_t annb_order_log_entries(const annb_order_log *log);

/* The arrays order_rows, order_ends and order_bits. */
annb_status annb_order_log_write(annb_order_log *log, annb_arrays_writer *writer, annb_error *err);

/* The shortest entry of a row whose source element i stands at place[i] after sorting; n ≥ 2. The scratch has room for 3n. Returns the
 * entry's length, at most annb_order_entry_bound(n). */
size_t annb_order_entry(const uint32_t *place, uint32_t n, uint32_t *scratch, uint8_t *out);
size_t annb_order_entry_bound(uint32_t n);

#endif
