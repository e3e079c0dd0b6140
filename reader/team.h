/* Threads that help a context with calls for many rows. */
#ifndef ANNB_READER_TEAM_H
#define ANNB_READER_TEAM_H

#include <annblock/reader.h>

typedef struct annb_team annb_team;

/* Rows first … end - 1. Chunks are given out in ascending order; `context` is the running thread's. */
typedef annb_status annb_team_work(void *job, annb_context *context, size_t first, size_t end, annb_error *err);

/* Rows of a chunk when n_threads share n_rows: all of them when they are too few to share. */
size_t annb_team_chunk(uint32_t n_threads, size_t n_rows);
/* Do all chunks of `chunk` rows, on this thread and on helpers, which start with the first call and live until the team is closed. Returns
 * the failure of the first chunk that failed: it is the one that a single thread would have met. Fewer threads when no more can be
 * started. */
annb_status annb_team_run(annb_context *context, uint32_t n_threads, size_t n_rows, size_t chunk, annb_team_work *work, void *job,
                          annb_error *err);
/* Ends the helpers; NULL is allowed. In a forked child, which has no helpers, the parent's team is left alone. */
void annb_team_close(annb_team *team);

#endif
