/* The rows of a matrix, read one chunk ahead by a thread of its own while the caller works on the chunk before. */
#ifndef ANNB_CONVERT_AHEAD_H
#define ANNB_CONVERT_AHEAD_H

#include "rows.h"

typedef struct annb_ahead annb_ahead;

/* Called on the reading thread with each chunk in turn, before the caller gets it; it must not call HDF5. */
typedef annb_status (*annb_ahead_fn)(void *user, const annb_rows_chunk *chunk, annb_error *err);

/* As annb_rows_open. From here to close the caller must leave HDF5 alone: the thread uses it. The progress callback of the options is
 * called by annb_ahead_next, on the caller's thread. `look` may be NULL. */
annb_status annb_ahead_open(const annb_source_matrix *m, const annb_rows_options *options, annb_ahead_fn look, void *user, annb_ahead **out,
                            annb_error *err);
/* As annb_rows_next. After a failure, or the last chunk, only close is allowed. */
annb_status annb_ahead_next(annb_ahead *ahead, annb_rows_chunk *chunk, annb_error *err);
/* As annb_rows_unordered, after the last chunk. */
bool annb_ahead_unordered(const annb_ahead *ahead);
/* Ends the thread, at the latest when the chunk that it reads is done. NULL is allowed. */
void annb_ahead_close(annb_ahead *ahead);

#endif
