/* Inside of row sets. */
#ifndef ANNB_SAMPLER_ROW_SET_H
#define ANNB_SAMPLER_ROW_SET_H

#include <annblock/sampler.h>

#include <stdatomic.h>

enum { ANNB_RANK_WORDS = 8 }; /* words of bits per running count */

/* Either ranges or bits. Immutable but for the count of its holders. */
struct annb_row_set {
  atomic_uint holders;
  uint64_t n_rows, count, hash;
  uint64_t n_ranges, *first, *before; /* first row of a range, members before it; n_ranges + 1 of `before` */
  uint64_t *bits, *ranks;             /* bits of n_rows; members before each ANNB_RANK_WORDS words */
};

/* One more holder; each calls annb_row_set_close. */
const annb_row_set *annb_row_set_hold(const annb_row_set *rows);
/* All rows, as one range. NULL when memory is short. */
annb_row_set *annb_row_set_all(uint64_t n_rows);

#endif
