/* The loops of encode_loops.h: included by the files that compile them, which say for which machine. No guard: it is no interface. */
#include "encode_loops.h"
#include "../kernels/kernels.h"

#include <string.h>

enum { SMALL = 1 << 24 /* floats hold whole numbers up to this */, MAX_NIBBLE = 15, AT_ONCE = 4 /* ids listed without a branch */ };

static uint32_t highest(const uint32_t *x, size_t n) {
  uint32_t top = 0;
  for (size_t i = 0; i < n; i++) top = x[i] > top ? x[i] : top;
  return top;
}

static bool ascends(const uint32_t *x, size_t n) {
  enum { PIECE = 256 }; /* most rows that do not ascend show it at once */
  for (size_t i = 1; i < n;) {
    const size_t end = n - i < PIECE ? n : i + PIECE;
    uint32_t descents = 0;
    for (; i < end; i++) descents |= (uint32_t)(x[i] < x[i - 1]);
    if (descents) return false;
  }
  return true;
}

static bool codes_f32(const uint8_t *values, size_t n, uint32_t *codes, int32_t *base) {
  int32_t low = SMALL, worst = 0;
  for (size_t i = 0; i < n; i++) {
    int32_t bits, again;
    float f;
    memcpy(&bits, values + 4 * i, sizeof bits);
    const int32_t outside = -(int32_t)((bits & INT32_MAX) >= 0x4B800000); /* all bits when 2^24 and over, or no number */
    bits &= ~outside;
    memcpy(&f, &bits, sizeof f);
    const int32_t x = (int32_t)f;
    f = (float)x;
    memcpy(&again, &f, sizeof again);
    worst |= outside | (again ^ bits); /* −0 differs from what comes back */
    low = x < low ? x : low;
    codes[i] = (uint32_t)x;
  }
  if (worst) return false;
  for (size_t i = 0; i < n; i++) codes[i] -= (uint32_t)low;
  *base = low;
  return true;
}

static uint32_t gaps(const uint32_t *ids, size_t n, uint32_t *out, bool *repeats, bool *descents) {
  uint32_t bits = ids[0], equal = 0, less = 0;
  out[0] = ids[0];
  for (size_t i = 1; i < n; i++) {
    const uint32_t gap = ids[i] - ids[i - 1] - 1;
    out[i] = gap;
    bits |= gap;
    equal |= (uint32_t)(ids[i] == ids[i - 1]);
    less |= (uint32_t)(ids[i] < ids[i - 1]);
  }
  *repeats = equal;
  *descents = less;
  return bits;
}

static uint32_t any(const uint32_t *group) {
  uint32_t bits = 0;
  for (unsigned i = 0; i < ANNB_RICE_GROUP; i++) bits |= group[i];
  return bits;
}

static void tail(const uint32_t *group, uint32_t most, uint64_t *n, uint64_t *excess) {
  uint32_t some = 0, over = 0;
  for (unsigned i = 0; i < ANNB_RICE_GROUP; i++) {
    const uint32_t more = group[i] - (group[i] > 0);
    some += group[i] > 0;
    over += more < most ? more : most;
  }
  *n += some;
  *excess += over;
}

/* ---- parameters ---- */

static inline unsigned bit_width(uint32_t x) { return x ? 32 - (unsigned)__builtin_clz(x) : 0; }

/* Sum of the quotients of a group, each counted as `cap` at most. */
static inline uint32_t quotients(const uint32_t *values, unsigned k, uint32_t cap) {
  uint32_t sum = 0;
  for (unsigned i = 0; i < ANNB_RICE_GROUP; i++) {
    const uint32_t q = values[i] >> k;
    sum += q < cap ? q : cap;
  }
  return sum;
}

static inline uint64_t sum_of(const uint32_t *values) {
  uint64_t sum = 0;
  for (unsigned i = 0; i < ANNB_RICE_GROUP; i++) sum += values[i];
  return sum;
}

static unsigned choose(const uint32_t *group, uint32_t n, unsigned step, unsigned lowest, uint32_t cap, uint32_t *bits) {
  const uint64_t sum = sum_of(group);
  unsigned guess = sum > n ? (bit_width((uint32_t)(sum * 3 / 4 / n)) + step - 1) / step : 0;
  if (guess < lowest) guess = lowest;
  if (guess > MAX_NIBBLE) guess = MAX_NIBBLE;
  uint32_t best = n * (guess * step + 1) + quotients(group, guess * step, cap), cost;
  unsigned nibble = guess;
  while (nibble > lowest && (cost = n * ((nibble - 1) * step + 1) + quotients(group, (nibble - 1) * step, cap)) < best) {
    best = cost;
    nibble--;
  }
  if (nibble == guess)
    while (nibble < MAX_NIBBLE && (cost = n * ((nibble + 1) * step + 1) + quotients(group, (nibble + 1) * step, cap)) < best) {
      best = cost;
      nibble++;
    }
  *bits = best;
  return nibble;
}

/* ---- low bits ---- */

/* Eight values of k bits, a byte each, to 8k bits: pairs, then fours, then all. */
static inline uint64_t join_eight(uint64_t x, unsigned k) {
  x = (x & UINT64_C(0x00FF00FF00FF00FF)) | (x & UINT64_C(0xFF00FF00FF00FF00)) >> (8 - k);
  x = (x & UINT64_C(0x0000FFFF0000FFFF)) | (x & UINT64_C(0xFFFF0000FFFF0000)) >> (16 - 2 * k);
  return (x & UINT64_C(0x00000000FFFFFFFF)) | (x & UINT64_C(0xFFFFFFFF00000000)) >> (32 - 4 * k);
}

static void put_low(uint8_t *out, const uint32_t *group, uint32_t n, unsigned k) {
  uint8_t bytes[ANNB_RICE_GROUP];
  uint64_t words[ANNB_RICE_GROUP / 8];
  const uint32_t mask = (1u << k) - 1;
  for (unsigned i = 0; i < ANNB_RICE_GROUP; i++) bytes[i] = (uint8_t)(group[i] & mask);
  memcpy(words, bytes, sizeof words);
  for (unsigned i = 0; i < ANNB_RICE_GROUP / 8; i++) words[i] = join_eight(words[i], k);
  for (uint32_t i = 0; 8 * i < n; i++, out += k) memcpy(out, &words[i], 8);
}

/* ---- sorting ---- */

static inline void place_one(uint32_t id, uint32_t value, uint64_t *seen, uint32_t *dense, uint64_t *twice) {
  uint64_t bit = UINT64_C(1) << id % 64, *word = &seen[id / 64], before = *word;
  *twice |= before & bit;
  *word = before | bit;
  dense[id] = value;
}

static bool place(const uint32_t *columns, const uint8_t *values, size_t n, const uint32_t *table, uint64_t *seen, uint32_t *dense) {
  uint64_t twice = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t value;
    memcpy(&value, values + 4 * i, sizeof value);
    place_one(table ? table[columns[i]] : columns[i], value, seen, dense, &twice);
  }
  return !twice;
}

static void list(uint64_t *seen, const uint32_t *dense, size_t n, uint32_t *ids, uint32_t *values) {
  for (size_t k = 0, word = 0; k < n; word++) {
    uint64_t bits = seen[word];
    seen[word] = 0;
    const size_t end = k + (size_t)__builtin_popcountll(bits);
    for (; k < end; k += AT_ONCE)
      for (unsigned j = 0; j < AT_ONCE; j++) { /* past the last mark: anything, which is overwritten */
        const uint32_t id = (uint32_t)(word * 64) + (uint32_t)__builtin_ctzll(bits | UINT64_C(1) << 63);
        ids[k + j] = id;
        values[k + j] = dense[id];
        bits &= bits - 1;
      }
    k = end;
  }
}
