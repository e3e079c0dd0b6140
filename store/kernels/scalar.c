/* The reference kernels, in portable C. */
#include "kernels.h"

#include <string.h>

static bool usable(void) { return true; }

static inline uint64_t load64(const uint8_t *p, size_t n) {
  uint64_t x = 0;
  if (n >= 8) memcpy(&x, p, 8);
  else memcpy(&x, p, n);
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

static bool look_up(const uint16_t *codes, size_t n, const uint32_t *entries, uint32_t n_entries, uint8_t *out) {
  uint32_t highest = 0;
  for (size_t i = 0; i < n; i++) highest = codes[i] > highest ? codes[i] : highest;
  if (highest >= n_entries) return false;
  for (size_t i = 0; i < n; i++) memcpy(out + 4 * i, &entries[codes[i]], 4);
  return true;
}

static uint32_t narrow(const uint16_t *codes, size_t n, uint8_t *marks) {
  uint32_t highest = 0;
  for (size_t i = 0; i < n; i++) {
    highest = codes[i] > highest ? codes[i] : highest;
    marks[i] = (uint8_t)(codes[i] < 254 ? codes[i] + 1 : 255);
  }
  return highest;
}

static void scatter(const uint16_t *ids, const uint8_t *marks, size_t n, const uint16_t *table, uint8_t *by_id) {
  for (size_t i = 0; i < n; i++) by_id[table[ids[i]]] = marks[i];
}

static void collect(uint8_t *by_id, size_t n_words, const uint32_t values[256], uint32_t *out_ids, uint8_t *out_values) {
  size_t j = 0;
  for (size_t i = 0; i < 64 * n_words; i += 8) {
    uint64_t eight = load64(by_id + i, 8), zero = 0;
    if (eight == 0) continue;
    for (unsigned b = 0; b < 8; b++) {
      uint8_t mark = by_id[i + b];
      if (mark == 0) continue;
      out_ids[j] = (uint32_t)(i + b);
      memcpy(out_values + 4 * j++, &values[mark], 4);
    }
    memcpy(by_id + i, &zero, 8);
  }
}

static void expand(uint8_t *by_id, size_t n, float *out) {
  for (size_t i = 0; i < n; i++) out[i] = (float)by_id[i];
  memset(by_id, 0, n);
}

const annb_kernel annb_kernel_scalar = {"scalar", usable, unary, ids16,  ids32,   codes16, codes32, widen,
                                        map,      to_f32, look_up, narrow, scatter, collect, expand};
