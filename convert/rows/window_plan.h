/* Where each window of rows stands in the columns of a CSC source whose columns ascend: found by one look at all indices. */
#ifndef ANNB_CONVERT_WINDOW_PLAN_H
#define ANNB_CONVERT_WINDOW_PLAN_H

#include "../source/anywhere.h"
#include "rows.h"

/* A run of neighbouring rows, whose elements fit memory together. */
typedef struct annb_window {
  uint64_t first_row, n_rows, n; /* n: elements */
  const uint32_t *begin, *end;   /* of each column: its elements of these rows, counted from the column's first; NULL: 0 */
} annb_window;

typedef struct annb_window_plan {
  unsigned shift;       /* rows are made in strips of 2^shift, a window begins with one */
  uint32_t piece;       /* elements that one thread reads at a time */
  uint64_t most_of_rows; /* elements that it makes rows of at a time, a single row aside */
  uint64_t most;        /* elements of the largest window */
  uint64_t *first;      /* n_cols + 1: the column pointers */
  uint32_t *ends;       /* of each cell of cell_rows rows (whole strips), of each column: where its elements end */
  uint64_t cell_rows, n_cells;
  annb_window *windows;
  size_t n_windows;
} annb_window_plan;

/* How the rows of `r` (CSC, indices and nothing else read by `indices`) can be had window by window, in 5/8 of its memory for the elements
 * of one and 1/16 for their ends in columns; what tells strips apart comes to it. *possible is false when they cannot, or when it would not pay: columns do not ascend, the elements stand
 * too unevenly or too thinly, or so many are not kept in memory by the system. It is false too when something is wrong with pointers or
 * indices, which who reads them all in order will find and tell. ANNB_ECANCELED, ANNB_ENOMEM. */
annb_status annb_window_plan_make(const annb_rows *r, const annb_anywhere *indices, const annb_anywhere *values, annb_window_plan *plan,
                                  bool *possible, annb_error *err);
void annb_window_plan_free(annb_window_plan *plan); /* a zeroed one is allowed */

#endif
