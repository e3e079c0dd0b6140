/* Numbers of the sampler (annblock/sampler.h, "numbers"): all are functions of a key and a counter. */
#ifndef ANNB_SAMPLER_RANDOM_H
#define ANNB_SAMPLER_RANDOM_H

#include <stdint.h>

#define ANNB_GOLDEN UINT64_C(0x9E3779B97F4A7C15)

typedef enum annb_purpose { ANNB_KEY_RUNS = 1, ANNB_KEY_FETCH = 2, ANNB_KEY_DRAW = 3, ANNB_KEY_ROWS = 4 } annb_purpose;

static inline uint64_t annb_random_mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

static inline uint64_t annb_random(uint64_t key, uint64_t i) { return annb_random_mix(key + (i + 1) * ANNB_GOLDEN); }

static inline uint64_t annb_random_key(uint64_t seed, annb_purpose purpose, uint64_t epoch, uint64_t number) {
  uint64_t k = annb_random_mix(seed + ANNB_GOLDEN);
  k = annb_random_mix((k ^ (uint64_t)purpose) + ANNB_GOLDEN);
  k = annb_random_mix((k ^ epoch) + ANNB_GOLDEN);
  return annb_random_mix((k ^ number) + ANNB_GOLDEN);
}

__extension__ typedef unsigned __int128 annb_u128;

/* High and low half of a product. */
static inline uint64_t annb_multiply(uint64_t a, uint64_t b, uint64_t *low) {
  annb_u128 product = (annb_u128)a * b;
  *low = (uint64_t)product;
  return (uint64_t)(product >> 64);
}

/* Uniform below n > 0; *i is the number of the next random number of the key. */
static inline uint64_t annb_random_below(uint64_t key, uint64_t *i, uint64_t n) {
  uint64_t low, high = annb_multiply(annb_random(key, (*i)++), n, &low);
  if (low >= n) return high;
  uint64_t least = (0 - n) % n;
  while (low < least) high = annb_multiply(annb_random(key, (*i)++), n, &low);
  return high;
}

static inline double annb_random_uniform(uint64_t x) { return (double)(x >> 11) * 0x1p-53; }

#endif
