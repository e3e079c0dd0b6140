/* Rows of a column on their way from the source's order to the store's, in bounded memory. */
#ifndef ANNB_CONVERT_COLUMN_SPOOL_H
#define ANNB_CONVERT_COLUMN_SPOOL_H

#include "column.h"

typedef struct annb_column_spool annb_column_spool;

/* For values of `value_size` bytes each; 0: strings. The target has a shuffle. */
annb_status annb_column_spool_open(const annb_column_target *target, uint32_t value_size, annb_column_spool **out, annb_error *err);
void annb_column_spool_close(annb_column_spool *spool); /* NULL is allowed */

/* The next rows of the source: n values, or one string. */
annb_status annb_column_spool_push(annb_column_spool *spool, uint64_t n, const void *values, annb_error *err);
annb_status annb_column_spool_push_string(annb_column_spool *spool, const char *bytes, uint64_t length, annb_error *err);

/* After all rows: append them in the store's order. */
annb_status annb_column_spool_values(annb_column_spool *spool, annb_arrays_writer *writer, annb_error *err);
annb_status annb_column_spool_strings(annb_column_spool *spool, annb_string_writer *writer, annb_error *err);

#endif
