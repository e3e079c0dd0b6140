/* The kernel `sort`: each id's place is the number of ids below it, which a bitmap tells. */
#ifndef ANNB_STORE_KERNELS_PLACES_H
#define ANNB_STORE_KERNELS_PLACES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* keys[i] to sorted[place], by the low 16 bits, which are distinct and below 64 × n_words ≤ 65536. One word per key is written out of
 * order: two would take longer than parting the words afterwards. */
__attribute__((always_inline)) static inline void annb_place_keys(const uint32_t *keys, size_t n, size_t n_words, uint32_t *sorted) {
  uint64_t words[1024]; /* of 64 ids */
  uint32_t below[1024], sum = 0;
  memset(words, 0, n_words * sizeof *words);
  for (size_t i = 0; i < n; i++) words[(keys[i] & 0xffff) >> 6] |= UINT64_C(1) << (keys[i] & 63);
  for (size_t w = 0; w < n_words; w++) {
    below[w] = sum;
    sum += (uint32_t)__builtin_popcountll(words[w]);
  }
  for (size_t i = 0; i < n; i++) {
    size_t id = keys[i] & 0xffff, w = id >> 6;
    sorted[below[w] + (uint32_t)__builtin_popcountll(words[w] & ~(UINT64_MAX << (id & 63)))] = keys[i];
  }
}

#endif
