/* The loader with memory far below the store. */
#ifndef ANNB_BENCH_LOADER_SMALL_H
#define ANNB_BENCH_LOADER_SMALL_H

#include <annblock/annblock.h>
#include <stdbool.h>

enum { SMALL_MIB = 64, SMALL_LAPS = 6 };

/* One lap: the store, and rates in cells a second. */
typedef struct small_lap {
  const char *path, *what;
  annb_access access;
  uint64_t block_size;
  double plenty, little; /* with and without a limit of SMALL_MIB, both from a cold cache */
  double reads;          /* thin cells one by one: what random reads of pages allow, two a cell; else 0 */
} small_lap;

/* The laps over a store and (unless NULL) one of thin cells; how many there are. 0: no control group can be made here. */
int small_laps(const char *store, const char *thin, small_lap laps[SMALL_LAPS]);

#endif
