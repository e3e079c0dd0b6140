/* A parallel loop over items. */
#ifndef ANNB_STORE_PARALLEL_H
#define ANNB_STORE_PARALLEL_H

#include <stddef.h>
#include <stdint.h>

/* Call `work(user, worker, item)` for each item of 0 … n_items−1, on up to n_threads threads (the caller's among them), `worker` being
 * 0 … n_threads−1 and distinct among calls that run at once. Returns when all are done. When threads cannot be started the
 * caller's does the work. */
void annb_parallel(uint32_t n_threads, size_t n_items, void (*work)(void *user, uint32_t worker, size_t item), void *user);

#endif
