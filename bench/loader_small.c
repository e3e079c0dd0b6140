#include "loader_small.h"
#include "loader_laps.h"
#include "timing.h"

#include "../tests/limited.h"

static int run(void *user, double *out) {
  const lap_result r = lap_loader(user, NULL, NULL);
  out[0] = (double)r.n_cells / r.seconds;
  return 0;
}

/* False: there can be no limit here. */
static bool rate_of(const small_lap *lap, uint64_t memory, double *rate) {
  double out[LIMITED_OUT];
  int status;
  lap_options l = {.path = lap->path, .block_size = lap->block_size, .n_threads = 2, .access = lap->access, .cold = true};
  l.fetch = (annb_fetch_options){.dtype = ANNB_F32, .gene_order = ANNB_GENES_STORED};
  l.n_cells = lap->block_size == 1 ? 100000 : 300000;
  if (!limited_run(memory, run, &l, out, &status)) return false;
  if (status) bench_fail("the loader ended with %d, %s, block size %u", status, lap->what, (unsigned)lap->block_size);
  *rate = out[0];
  return true;
}

int small_laps(const char *store, const char *thin, small_lap laps[SMALL_LAPS]) {
  static const struct { bool thin; uint64_t block_size; } kinds[] = {{false, 16}, {true, 16}, {true, 1}};
  int n = 0;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (int access = ANNB_ACCESS_MMAP; access <= ANNB_ACCESS_PREAD; access++) {
      if (kinds[k].thin && !thin) continue;
      small_lap *l = &laps[n];
      *l = (small_lap){.path = kinds[k].thin ? thin : store, .what = kinds[k].thin ? "thin cells" : "cells",
                       .access = (annb_access)access, .block_size = kinds[k].block_size};
      if (!rate_of(l, (uint64_t)SMALL_MIB << 20, &l->little)) return 0;
      (void)rate_of(l, 0, &l->plenty);
      if (l->block_size == 1) l->reads = lap_random_reads(l->path, ANNB_PAGE, 1) / ANNB_PAGE / 2;
      n++;
    }
  return n;
}
