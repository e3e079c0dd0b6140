/* What the tests of codecs and kernels share. */
#ifndef ANNB_TESTS_CODEC_HELP_H
#define ANNB_TESTS_CODEC_HELP_H

#include "../store/codec/codec.h"
#include "../store/kernels/kernels.h"

/* splitmix64 */
uint64_t help_random(uint64_t *state);

/* Memory that ends directly before an unmapped page. */
typedef struct help_fence {
  uint8_t *map, *end;
  size_t mapped;
} help_fence;
help_fence help_fence_new(size_t room);
void help_fence_free(help_fence *fence);

/* The library's kernels and, on x86-64, the AVX-512 ones again, emulated: the last. */
const annb_kernel *const *help_kernels(size_t *n);

/* A decoder of count and dict written from SPEC.md 3.5 alone, bit by bit. Codes go to `codes`, for dict the entries of vw bytes to *entries
 * (into the record). False when the record is not valid. */
typedef struct help_row {
  uint64_t *ids, *codes; /* n each, by the caller */
  int64_t base;
  uint64_t n_entries;
  const uint8_t *entries;
} help_row;
bool help_decode(const annb_row_shape *shape, const uint8_t *record, size_t length, help_row *row);

#endif
