/* Units of work done by several threads and taken in order. */
#ifndef ANNB_CONVERT_PARALLEL_H
#define ANNB_CONVERT_PARALLEL_H

#include <annblock/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct annb_parallel {
  uint32_t n_threads, n_slots; /* slots: units that are begun and not yet taken */
  /* Describe the next unit in `slot`; false when there is none. One thread at a time, units in order. */
  annb_status (*next)(void *user, uint32_t slot, bool *more, annb_error *err);
  /* Do it: any thread, any order. */
  annb_status (*work)(void *user, uint32_t thread, uint32_t slot, annb_error *err);
  /* Take it: the calling thread, in order; the slot is free then. */
  annb_status (*take)(void *user, uint32_t slot, annb_error *err);
  void *user;
} annb_parallel;

/* Until there are no more units, or the first failure, in the order of units. */
annb_status annb_parallel_run(const annb_parallel *parallel, annb_error *err);

/* Number of processors when n is 0. */
uint32_t annb_parallel_threads(uint32_t n);

#endif
