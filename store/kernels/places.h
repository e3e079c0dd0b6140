/* The kernel `sort`: each id's place is the number of ids below it, which a bitmap tells. */
#ifndef ANNB_STORE_KERNELS_PLACES_H
#define ANNB_STORE_KERNELS_PLACES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { ANNB_PLACE_WORDS = 1024 }; /* of 64 ids each */

/* Two keys from one load, in any order: more loads would get in the way of those from the bitmap. */
__attribute__((always_inline)) static inline uint64_t annb_two_keys(const uint32_t *keys) {
  uint64_t two;
  memcpy(&two, keys, sizeof two);
  __asm__("" : "+r"(two)); /* or the compiler makes it two loads */
  return two;
}

__attribute__((always_inline)) static inline void annb_mark_id(const uint32_t *at, uint64_t *words) {
  uint32_t id = *at;
  __asm__("" : "+r"(id)); /* or the compiler puts neighbours together in vectors first */
  words[id >> 6] |= UINT64_C(1) << (id & 63);
}

/* Marks of ids below 64 × n_words ≤ 65536. Ids alone, loaded by themselves, take a tenth less time than with codes above them. */
__attribute__((always_inline)) static inline void annb_mark_ids(const uint32_t *ids, size_t n, size_t n_words, uint64_t *words) {
  size_t i = 0;
  memset(words, 0, n_words * sizeof *words);
  for (; i + 4 <= n; i += 4) {
    annb_mark_id(ids + i, words);
    annb_mark_id(ids + i + 1, words);
    annb_mark_id(ids + i + 2, words);
    annb_mark_id(ids + i + 3, words);
  }
  for (; i < n; i++) annb_mark_id(ids + i, words);
}

__attribute__((always_inline)) static inline void annb_place_key(uint32_t key, const uint64_t *words, const uint32_t *below,
                                                                 uint32_t *sorted) {
  size_t w = (key & 0xffff) >> 6;
  sorted[below[w] + (uint32_t)__builtin_popcountll(words[w] & ~(UINT64_MAX << (key & 63)))] = key;
}

/* keys[i] to sorted[place], by the low 16 bits, which are distinct and marked in `words`. One word per key is written out of order: two
 * would take longer than parting the words afterwards. */
__attribute__((always_inline)) static inline void annb_place_keys(const uint32_t *keys, size_t n, size_t n_words, const uint64_t *words,
                                                                  uint32_t *sorted) {
  uint32_t below[ANNB_PLACE_WORDS], sum = 0;
  for (size_t w = 0; w < n_words; w++) {
    below[w] = sum;
    sum += (uint32_t)__builtin_popcountll(words[w]);
  }
  for (size_t i = 0; i + 2 <= n; i += 2) {
    uint64_t two = annb_two_keys(keys + i);
    annb_place_key((uint32_t)two, words, below, sorted);
    annb_place_key((uint32_t)(two >> 32), words, below, sorted);
  }
  if (n % 2) annb_place_key(keys[n - 1], words, below, sorted);
}

#endif
