/* The reference kernels, in portable C. */
#include "kernels.h"

#include "../hash.h"
#include "bit_positions.h"
#include "lead.h"
#include "places.h"

#include <string.h>

static bool usable(void) { return true; }

static inline uint64_t load64(const uint8_t *p, size_t n) {
  uint64_t x = 0;
  if (n >= 8) memcpy(&x, p, 8);
  else memcpy(&x, p, n);
  return x;
}

static const uint64_t each = UINT64_C(0x0101010101010101); /* one in every byte */

static bool unary(const uint8_t *bits, size_t size, size_t n, uint8_t *ones) {
  uint8_t *at = ones, *end = ones + n;
  if (size > 0 && bits[size - 1] == 0) return false;
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word = load64(bits + i, size - i);
    if (word == 0) return false;
    for (unsigned j = 0; j < 8; j++, word >>= 8) {
      uint64_t places = annb_bit_positions[word & 255] + each * (uint8_t)(8 * (i + j)); /* no carry: at most 7 + 248 */
      if (at > end) return false; /* a byte writes at most 8 past `end` */
      memcpy(at, &places, 8);
      at += annb_bit_counts[word & 255];
    }
  }
  if (at != end) return false;
  for (uint8_t place = end[-1], *p = end; p < end + ANNB_KERNEL_OVERREAD; p++) *p = ++place;
  return true;
}

static size_t lead16(const uint8_t *bits, size_t size, size_t n, uint32_t limit, uint16_t *ids) {
  return annb_lead_words(bits, size, n, limit, NULL, ids, NULL);
}

static size_t lead32(const uint8_t *bits, size_t size, size_t n, uint32_t limit, const uint16_t *table, uint32_t *ids) {
  return annb_lead_words(bits, size, n, limit, table, NULL, ids);
}

enum { CODES_ROOM = ANNB_RICE_GROUP + 8 };

/* Eight quotients, a byte each: a − b − 1 without borrows between bytes. */
static inline uint64_t quotients8(const uint8_t *ones) {
  const uint64_t top = each << 7;
  uint64_t a = load64(ones, 8), b = load64(ones - 1, 8);
  uint64_t d = ((a | top) - (b & ~top)) ^ ((a ^ ~b) & top);
  return ((d | top) - each) ^ (~d & top);
}

/* For parameters up to 8: eight codes at a time. */
static bool group_codes8(const uint8_t *lows, const uint8_t *ones, uint32_t n, unsigned k, uint32_t *codes) {
  const uint32_t mask = (1u << k) - 1;
  uint64_t worst = 0;
  for (uint32_t i = 0; i < n; i += 8, lows += k) {
    uint64_t low = load64(lows, 8), quotients = quotients8(ones + i);
    worst |= n - i >= 8 ? quotients : quotients & (UINT64_MAX >> 8 * (8 - (n - i)));
    for (unsigned j = 0; j < 8; j++) {
      codes[i + j] = (uint32_t)(quotients & 255) << k | ((uint32_t)low & mask);
      quotients >>= 8;
      low >>= k;
    }
  }
  return (worst & each * (255 - ANNB_RICE_MAX_QUOTIENT)) == 0;
}

/* For all parameters; codes beyond 32 bits become the largest, which no limit allows. */
static bool group_codes_any(const uint8_t *lows, const uint8_t *ones, uint32_t n, unsigned k, uint32_t *codes) {
  const uint64_t mask = (UINT64_C(1) << k) - 1;
  uint32_t worst = 0;
  for (uint32_t i = 0, bit = 0; i < n; i++, bit += k) {
    uint32_t quotient = (uint8_t)(ones[i] - ones[(ptrdiff_t)i - 1] - 1);
    uint64_t code = ((uint64_t)quotient << k) + (load64(lows + bit / 8, 8) >> bit % 8 & mask);
    codes[i] = code < UINT32_MAX ? (uint32_t)code : UINT32_MAX;
    worst |= quotient;
  }
  return worst <= ANNB_RICE_MAX_QUOTIENT;
}

/* The codes of one group; *lows moves on. False when a quotient is too large. */
static inline bool group_codes(const annb_rice_seq *seq, uint32_t group, const uint8_t **lows, uint32_t *n, uint32_t codes[CODES_ROOM]) {
  uint32_t start = group * ANNB_RICE_GROUP;
  unsigned k = annb_rice_param(seq, group);
  const uint8_t *from = *lows;
  *n = seq->n - start < ANNB_RICE_GROUP ? seq->n - start : ANNB_RICE_GROUP;
  *lows += (*n * k + 7) / 8;
  return (k <= 8 ? group_codes8 : group_codes_any)(from, seq->ones + start, *n, k, codes);
}

static bool ids16(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint16_t *ids) {
  uint32_t codes[CODES_ROOM], n;
  uint64_t sum = seq->start;
  const uint8_t *lows = seq->lows;
  for (uint32_t g = 0; (uint64_t)g * ANNB_RICE_GROUP < seq->n; g++, ids += n) {
    if (!group_codes(seq, g, &lows, &n, codes)) return false;
    for (uint32_t i = 0; i < n; i++) ids[i] = (uint16_t)((sum += (uint64_t)codes[i] + add) - add);
    if (sum > limit) return false;
  }
  return true;
}

static bool ids32(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint32_t *ids) {
  uint32_t codes[CODES_ROOM], n;
  uint64_t sum = seq->start;
  const uint8_t *lows = seq->lows;
  for (uint32_t g = 0; (uint64_t)g * ANNB_RICE_GROUP < seq->n; g++, ids += n) {
    if (!group_codes(seq, g, &lows, &n, codes)) return false;
    for (uint32_t i = 0; i < n; i++) ids[i] = (uint32_t)((sum += (uint64_t)codes[i] + add) - add);
    if (sum > limit) return false;
  }
  return true;
}

static bool codes16(const annb_rice_seq *seq, uint16_t *out) {
  uint32_t codes[CODES_ROOM], n;
  const uint8_t *lows = seq->lows;
  for (uint32_t g = 0; (uint64_t)g * ANNB_RICE_GROUP < seq->n; g++, out += n) {
    if (!group_codes(seq, g, &lows, &n, codes)) return false;
    for (uint32_t i = 0; i < n; i++) out[i] = (uint16_t)codes[i];
  }
  return true;
}

static bool codes32(const annb_rice_seq *seq, uint32_t *out) {
  uint32_t codes[CODES_ROOM], n;
  const uint8_t *lows = seq->lows;
  for (uint32_t g = 0; (uint64_t)g * ANNB_RICE_GROUP < seq->n; g++, out += n) {
    if (!group_codes(seq, g, &lows, &n, codes)) return false;
    for (uint32_t i = 0; i < n; i++) out[i] = (uint32_t)codes[i];
  }
  return true;
}

static bool floats16(const annb_rice_seq *seq, size_t n, int32_t base, uint8_t *out) {
  uint32_t codes[CODES_ROOM], k;
  const uint8_t *lows = seq->lows;
  float x = (float)base;
  for (size_t i = seq->n; i < n; i++) memcpy(out + 4 * i, &x, sizeof x);
  for (uint32_t g = 0; (uint64_t)g * ANNB_RICE_GROUP < seq->n; g++, out += 4 * (size_t)k) {
    if (!group_codes(seq, g, &lows, &k, codes)) return false;
    for (uint32_t i = 0; i < k; i++) {
      x = (float)((int32_t)codes[i] + base);
      memcpy(out + 4 * (size_t)i, &x, sizeof x);
    }
  }
  return true;
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

static void sort(uint32_t *ids, uint16_t *codes, size_t n, size_t n_words, uint32_t *keys) {
  uint64_t words[ANNB_PLACE_WORDS];
  annb_mark_ids(ids, n, n_words, words);
  for (size_t i = 0; i < n; i++) ids[i] |= (uint32_t)codes[i] << 16;
  annb_place_keys(ids, n, n_words, words, keys);
  for (size_t i = 0; i < n; i++) {
    ids[i] = keys[i] & 0xffff;
    codes[i] = (uint16_t)(keys[i] >> 16);
  }
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

static void expand(uint8_t *by_id, size_t n, float *out) {
  for (size_t i = 0; i < n; i++) out[i] = (float)by_id[i];
  memset(by_id, 0, n);
}

const annb_kernel annb_kernel_scalar = {"scalar", usable, annb_hash64, unary,  lead16,  lead32, ids16,  ids32,   ids32, codes16,
                                        codes32,  floats16, map,         to_f32, look_up, sort,   narrow, scatter, expand};
