/* Leading ids: ones of the stream that mark ids by their places. */
#ifndef ANNB_STORE_KERNELS_LEAD_H
#define ANNB_STORE_KERNELS_LEAD_H

#include "bit_positions.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whether more than 63 zeros are between the last one of `before` and the first of `word`, the next 64 bits; neither is zero. */
__attribute__((always_inline)) static inline bool annb_lead_far(uint64_t word, uint64_t before) { return (word & (0 - word)) > before; }

/* The bits up to the last one that counts, when `word` ends at bit `end` and its last `spare` ones, not all, do not. Without branches,
 * which no one could foresee. */
__attribute__((always_inline)) static inline size_t annb_lead_end(size_t end, uint64_t word, size_t spare) {
  const uint64_t each = UINT64_C(0x0101010101010101), top = each << 7;
  uint64_t sums = word - (word >> 1 & each * 0x55);
  sums = (sums & each * 0x33) + (sums >> 2 & each * 0x33);
  sums = ((sums + (sums >> 4)) & each * 0x0f) * each; /* byte j: ones up to byte j */
  uint64_t wanted = (sums >> 56) - spare - 1;       /* so many ones are before the last that counts */
  uint64_t before = ((((wanted * each | top) - sums) & top) >> 7) * each >> 56; /* bytes whose ones are all before it */
  uint64_t places = annb_bit_positions[word >> 8 * before & 255], rank = wanted - (sums << 8 >> 8 * before & 255);
  return end - 64 + 8 * before + (places >> 8 * rank & 255) + 1;
}

/* The kernels lead16 and lead32, one by one; to one of the two. */
__attribute__((always_inline)) static inline size_t annb_lead_words(const uint8_t *bits, size_t size, size_t n, uint32_t limit,
                                                                    const uint16_t *table, uint16_t *narrow, uint32_t *wide) {
  uint64_t word = UINT64_MAX;
  size_t done = 0, id = 0;
  for (size_t bit = 0; done < n; bit += 64) {
    uint64_t before = word, left = 0;
    if (bit >= limit || bit / 8 >= size) return 0;
    memcpy(&left, bits + bit / 8, size - bit / 8 < 8 ? size - bit / 8 : 8);
    word = left;
    if (word == 0 || annb_lead_far(word, before)) return 0;
    for (; left && done < n; left &= left - 1, done++) {
      id = bit + (size_t)__builtin_ctzll(left);
      if (narrow) narrow[done] = (uint16_t)id;
      else wide[done] = table ? table[id] : (uint32_t)id;
    }
  }
  return id < limit ? id + 1 : 0;
}

#endif
