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

/* Memory of one thread that looks at rows. Zero-initialise. */
typedef struct annb_order_maker {
  uint64_t *keys;  /* 2 × room */
  uint32_t *place; /* room, then 3 × room for the entry's scratch */
  uint64_t room;
} annb_order_maker;
void annb_order_maker_free(annb_order_maker *maker);

/* The entries of neighbouring rows. Zero-initialise; the memory serves the next ones too. */
typedef struct annb_order_entries {
  uint64_t n_rows; /* looked at */
  uint64_t n, room, used, bytes_room;
  struct annb_order_row {
    uint64_t row, end; /* row: of those looked at; end: in `bytes` */
  } *rows;
  uint8_t *bytes;
} annb_order_entries;
void annb_order_entries_free(annb_order_entries *entries);

/* On any thread: what the rows need. */
annb_status annb_order_log_look(const annb_order_log *log, annb_order_maker *maker, const annb_rows_chunk *chunk, annb_order_entries *out,
                                annb_error *err);
/* That of the next rows, one call at a time. */
annb_status annb_order_log_add(annb_order_log *log, const annb_order_entries *entries, annb_error *err);
uint64_t annb_order_log_entries(const annb_order_log *log);

/* The arrays order_rows, order_ends and order_bits. */
annb_status annb_order_log_write(annb_order_log *log, annb_arrays_writer *writer, annb_error *err);

/* The shortest entry of a row whose source element i stands at place[i] after sorting; n ≥ 2. The scratch has room for 3n. Returns the
 * entry's length, at most annb_order_entry_bound(n). */
size_t annb_order_entry(const uint32_t *place, uint32_t n, uint32_t *scratch, uint8_t *out);
size_t annb_order_entry_bound(uint32_t n);

#endif
