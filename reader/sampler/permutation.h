/* Keyed permutations of 0 … n-1 (annblock/sampler.h, "numbers"). */
#ifndef ANNB_SAMPLER_PERMUTATION_H
#define ANNB_SAMPLER_PERMUTATION_H

#include <stdint.h>

enum { ANNB_PERMUTATION_TABLE = 1 << 16, ANNB_PERMUTATION_ROUNDS = 8 };

typedef struct annb_permutation {
  uint64_t n;
  unsigned low_bits, high_bits;
  uint64_t keys[ANNB_PERMUTATION_ROUNDS];
  uint16_t *table; /* ANNB_PERMUTATION_TABLE entries of the caller, used when n is smaller */
} annb_permutation;

/* n >= 1, at most 2^48. `table` must stay while the permutation is used. */
void annb_permutation_set(annb_permutation *permutation, uint64_t n, uint64_t key, uint16_t *table);
uint64_t annb_permutation_at(const annb_permutation *permutation, uint64_t i); /* i < n */
uint64_t annb_permutation_inverse(const annb_permutation *permutation, uint64_t x); /* the i with P(i) = x */

#endif
