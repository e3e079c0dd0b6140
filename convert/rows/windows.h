/* The rows of a CSC source without a temporary file: window by window, where its columns ascend and can be read at any position. A window's
 * slices of all columns are read by all threads; then each thread makes rows of a strip of it. */
#ifndef ANNB_CONVERT_WINDOWS_H
#define ANNB_CONVERT_WINDOWS_H

#include "rows.h"

typedef struct annb_windows annb_windows;

/* *out is NULL when the rows cannot be had so, or not well (window_plan.h). All indices were looked at then. */
annb_status annb_windows_open(const annb_rows *r, annb_windows **out, annb_error *err);
void annb_windows_close(annb_windows *w); /* NULL is allowed */

/* As annb_rows_take and annb_rows_fill: the next rows of the window, or of the next one, which is read then. ANNB_EINPUT when the file has
 * changed since it was opened. */
annb_status annb_windows_take(annb_windows *w, annb_rows_piece *piece, annb_error *err);
annb_status annb_windows_fill(annb_windows *w, uint32_t worker, const annb_rows_piece *piece, annb_rows_chunk *chunk, annb_error *err);

#endif
