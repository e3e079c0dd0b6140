/* Output loops that go through general registers, for little-endian machines: look-ups that way are faster than gathers. */
#ifndef ANNB_STORE_KERNELS_WORDS_H
#define ANNB_STORE_KERNELS_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ANNB_INLINE __attribute__((always_inline)) static inline

/* One store by itself: compilers like to gather neighbours into a vector first, which takes longer than the stores. */
ANNB_INLINE void annb_put32(void *to, uint32_t x) {
  memcpy(to, &x, 4);
  __asm__("" ::: "memory");
}

/* The kernel `map`. */
ANNB_INLINE void annb_map_words(const uint16_t *ids, size_t n, const uint16_t *table, uint32_t *out) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    uint64_t four;
    memcpy(&four, ids + i, 8);
    annb_put32(out + i, table[four & 0xffff]);
    annb_put32(out + i + 1, table[four >> 16 & 0xffff]);
    annb_put32(out + i + 2, table[four >> 32 & 0xffff]);
    annb_put32(out + i + 3, table[four >> 48]);
  }
  for (; i < n; i++) out[i] = table[ids[i]];
}

/* The kernel `look_up` for codes that all have an entry. */
ANNB_INLINE void annb_look_up_words(const uint16_t *codes, size_t n, const uint32_t *entries, uint8_t *out) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4, out += 16) {
    uint64_t four;
    memcpy(&four, codes + i, 8);
    annb_put32(out, entries[four & 0xffff]);
    annb_put32(out + 4, entries[four >> 16 & 0xffff]);
    annb_put32(out + 8, entries[four >> 32 & 0xffff]);
    annb_put32(out + 12, entries[four >> 48]);
  }
  for (; i < n; i++, out += 4) memcpy(out, &entries[codes[i]], 4);
}

/* The kernel `scatter`. */
ANNB_INLINE void annb_scatter_words(const uint16_t *ids, const uint8_t *marks, size_t n, const uint16_t *table, uint8_t *by_id) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    uint64_t four;
    uint32_t mark;
    memcpy(&four, ids + i, 8);
    memcpy(&mark, marks + i, 4);
    by_id[table[four & 0xffff]] = (uint8_t)mark;
    by_id[table[four >> 16 & 0xffff]] = (uint8_t)(mark >> 8);
    by_id[table[four >> 32 & 0xffff]] = (uint8_t)(mark >> 16);
    by_id[table[four >> 48]] = (uint8_t)(mark >> 24);
  }
  for (; i < n; i++) by_id[table[ids[i]]] = marks[i];
}

#endif
