/* Inside of samplers and plans. */
#ifndef ANNB_SAMPLER_INTERNAL_H
#define ANNB_SAMPLER_INTERNAL_H

#include "row_set.h"
#include "weights.h"

struct annb_sampler {
  annb_sampler_options options; /* defaults filled in; pointers are ours or NULL */
  annb_sampler_source *sources;
  uint32_t n_sources;
  const annb_row_set *rows; /* members; OWN: all rows */
  annb_weights *weights;
  uint64_t *own_offsets, *own_rows;
  uint64_t n_rows, members, positions, batches, fetches;
  uint64_t order_id; /* see the state's bytes */
};

#endif
