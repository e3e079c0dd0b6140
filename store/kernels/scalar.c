/* The reference kernels, in portable C. */
#include "kernels.h"

#include <string.h>

static bool usable(void) { return true; }

static uint64_t load64(const uint8_t *p, size_t n) {
  uint64_t x = 0;
  memcpy(&x, p, n < 8 ? n : 8);
  return x;
}

static bool unary(const uint8_t *bits, size_t size, size_t n, uint8_t *ones) {
  size_t found = 0;
  for (size_t at = 0; at < size; at += 8) {
    uint64_t word = load64(bits + at, size - at);
    size_t in_word = (size_t)__builtin_popcountll(word);
    if (word == 0 || in_word > n - found) return false;
    for (size_t i = 0; i < in_word; i++, word &= word - 1) ones[found + i] = (uint8_t)(8 * at + (unsigned)__builtin_ctzll(word));
    found += in_word;
  }
  if (found != n || (size > 0 && bits[size - 1] == 0)) return false;
  for (size_t i = 0; i < ANNB_KERNEL_OVERREAD; i++) ones[n + i] = (uint8_t)(ones[n + i - 1] + 1);
  return true;
}

/* The codes of one group, and its low bits' length. False when a quotient is too large. */
static bool group_codes(const annb_rice_seq *seq, uint32_t group, const uint8_t *lows, uint32_t *n, size_t *n_bytes, uint64_t codes[ANNB_RICE_GROUP]) {
  uint32_t start = group * ANNB_RICE_GROUP, worst = 0;
  unsigned k = annb_rice_param(seq, group);
  uint64_t mask = (UINT64_C(1) << k) - 1;
  const uint8_t *ones = seq->ones + start;
  *n = seq->n - start < ANNB_RICE_GROUP ? seq->n - start : ANNB_RICE_GROUP;
  *n_bytes = (*n * k + 7) / 8;
  uint8_t last = ones[-1];
  for (uint32_t i = 0, bit = 0; i < *n; i++, bit += k) {
    uint64_t quotient = (uint8_t)(ones[i] - last - 1);
    last = ones[i];
    worst |= (uint32_t)quotient;
    codes[i] = (quotient << k) + (load64(lows + bit / 8, 8) >> bit % 8 & mask);
  }
  return worst <= ANNB_RICE_MAX_QUOTIENT;
}

static bool ids16(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint16_t *ids) {
  uint64_t codes[ANNB_RICE_GROUP], sum = 0;
  const uint8_t *lows = seq->lows;
  uint32_t n;
  size_t n_bytes;
  for (uint32_t g = 0; (uint64_t)g * ANNB_RICE_GROUP < seq->n; g++, lows += n_bytes, ids += n) {
    if (!group_codes(seq, g, lows, &n, &n_bytes, codes)) return false;
    for (uint32_t i = 0; i < n; i++) ids[i] = (uint16_t)((sum += codes[i] + add) - add);
    if (sum > limit) return false;
  }
  return true;
}

static bool ids32(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint32_t *ids) {
  uint64_t codes[ANNB_RICE_GROUP], sum = 0;
  const uint8_t *lows = seq->lows;
  uint32_t n;
  size_t n_bytes;
  for (uint32_t g = 0; (uint64_t)g * ANNB_RICE_GROUP < seq->n; g++, lows += n_bytes, ids += n) {
    if (!group_codes(seq, g, lows, &n, &n_bytes, codes)) return false;
    for (uint32_t i = 0; i < n; i++) ids[i] = (uint32_t)((sum += codes[i] + add) - add);
    if (sum > limit) return false;
  }
  return true;
}

static bool codes16(const annb_rice_seq *seq, uint16_t *out) {
  uint64_t codes[ANNB_RICE_GROUP];
  const uint8_t *lows = seq->lows;
  uint32_t n;
  size_t n_bytes;
  for (uint32_t g = 0; (uint64_t)g * ANNB_RICE_GROUP < seq->n; g++, lows += n_bytes, out += n) {
    if (!group_codes(seq, g, lows, &n, &n_bytes, codes)) return false;
    for (uint32_t i = 0; i < n; i++) out[i] = (uint16_t)codes[i];
  }
  return true;
}

static bool codes32(const annb_rice_seq *seq, uint32_t *out) {
  uint64_t codes[ANNB_RICE_GROUP];
  const uint8_t *lows = seq->lows;
  uint32_t n;
  size_t n_bytes;
  for (uint32_t g = 0; (uint64_t)g * ANNB_RICE_GROUP < seq->n; g++, lows += n_bytes, out += n) {
    if (!group_codes(seq, g, lows, &n, &n_bytes, codes)) return false;
    for (uint32_t i = 0; i < n; i++) out[i] = (uint32_t)codes[i];
  }
  return true;
}

static void widen(const uint16_t *in, size_t n, uint32_t *out) {
  for (size_t i = 0; i < n; i++) out[i] = in[i];
}

static void map(const uint16_t *ids, size_t n, const uint16_t *table, uint32_t *out) {
  for (size_t i = 0; i < n; i++) out[i] = table[ids[i]];
}

static void to_f32(const uint16_t *codes, size_t n, int32_t base, uint8_t *out) {
  for (size_t i = 0; i < n; i++) {
    float x = (float)((int32_t)codes[i] + base);
    memcpy(out + 4 * i, &x, sizeof x);
  }
}

static void sort(const uint16_t *ids, size_t n, const uint16_t *table, const float *values, uint64_t *bits, uint16_t *places, size_t n_words,
                 uint32_t *out_ids, float *out_values) {
  for (size_t i = 0; i < n; i++) {
    uint32_t id = table[ids[i]];
    bits[id / 64] |= UINT64_C(1) << id % 64;
    places[id] = (uint16_t)i;
  }
  size_t j = 0;
  for (size_t w = 0; w < n_words; w++) {
    for (uint64_t word = bits[w]; word; word &= word - 1, j++) {
      uint32_t id = (uint32_t)(64 * w) + (uint32_t)__builtin_ctzll(word);
      out_ids[j] = id;
      out_values[j] = values[places[id]];
    }
    bits[w] = 0;
  }
}

const annb_kernel annb_kernel_scalar = {"scalar", usable, unary, ids16, ids32, codes16, codes32, widen, map, to_f32, sort};
