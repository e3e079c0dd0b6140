/* Units of work done by several threads and taken in order; each step may fail. */
#ifndef ANNB_CONVERT_UNITS_H
#define ANNB_CONVERT_UNITS_H

#include <annblock/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct annb_units {
  uint32_t n_threads, n_slots; /* threads: the caller's is among them; slots: units that are begun and not yet taken */
  void *user;
  /* Describe the next unit in `slot`; *more is false when there is none. One call at a time, units in order, on any of the threads. */
  annb_status (*next)(void *user, uint32_t slot, bool *more, annb_error *err);
  /* Do it: any thread, any order. */
  annb_status (*work)(void *user, uint32_t thread, uint32_t slot, annb_error *err);
  /* Take it: one call at a time, in order, on any of the threads, HDF5 being quiet; the slot is free then. May set how much of all is
   * done. May be NULL. */
  annb_status (*take)(void *user, uint32_t slot, uint64_t *done, annb_error *err);
  /* On the caller's thread, when the last take that is known set another number. May be NULL. */
  annb_status (*watch)(void *user, uint64_t done, annb_error *err);
} annb_units;

/* Until there are no more units, or the first failure, in the order of units. */
annb_status annb_units_run(const annb_units *units, annb_error *err);

/* The processors that this process may use when n is 0. */
uint32_t annb_units_threads(uint32_t n);

#endif
