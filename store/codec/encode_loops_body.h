/* The loops of encode_loops.h: included by the files that compile them, which say for which machine. No guard: it is no interface. */
#include "encode_loops.h"
#include "../kernels/kernels.h"

#include <string.h>

enum { SMALL = 1 << 24 /* floats hold whole numbers up to this */, MAX_NIBBLE = 15, BITS_AT_ONCE = 56 };

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

/* ---- quotients ---- */

/* Add the n ≤ 56 bits of `bits`; writes up to 8 bytes, which the next call overwrites but for the whole bytes. */
static inline void put_bits(annb_unary *u, uint64_t bits, uint32_t n) {
  u->word |= bits << u->fill;
  u->fill += n;
  memcpy(u->out, &u->word, 8);
  u->out += u->fill / 8;
  u->word >>= u->fill & ~7u;
  u->fill %= 8;
}

static inline void put_quotient(annb_unary *u, uint32_t quotient) {
  for (; quotient >= BITS_AT_ONCE; quotient -= 32) put_bits(u, 0, 32);
  put_bits(u, UINT64_C(1) << quotient, quotient + 1);
}

/* The bits of some quotients and how many: more than BITS_AT_ONCE when they are not as short as they mostly are. */
#ifdef LOOPS_AVX2
enum { SOME = 8 };
static inline uint32_t some_quotients(const uint32_t *values, unsigned k, uint64_t *bits) {
  const __m256i one = _mm256_set1_epi32(1), one64 = _mm256_set1_epi64x(1);
  __m256i x = _mm256_srl_epi32(_mm256_loadu_si256((const __m256i *)(const void *)values), _mm_cvtsi32_si128((int)k));
  x = _mm256_add_epi32(x, one);
  x = _mm256_add_epi32(x, _mm256_slli_si256(x, 4)); /* sums of two, four, eight */
  x = _mm256_add_epi32(x, _mm256_slli_si256(x, 8));
  x = _mm256_add_epi32(x, _mm256_shuffle_epi32(_mm256_permute2x128_si256(x, x, 0x08), 0xFF));
  const __m256i at = _mm256_sub_epi32(x, one);
  __m256i ones = _mm256_or_si256(_mm256_sllv_epi64(one64, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(at))),
                                 _mm256_sllv_epi64(one64, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(at, 1))));
  __m128i half = _mm_or_si128(_mm256_castsi256_si128(ones), _mm256_extracti128_si256(ones, 1));
  *bits = (uint64_t)_mm_cvtsi128_si64(_mm_or_si128(half, _mm_unpackhi_epi64(half, half)));
  return (uint32_t)_mm256_extract_epi32(x, 7);
}
#else
enum { SOME = 4 };
static inline uint32_t some_quotients(const uint32_t *v, unsigned k, uint64_t *bits) {
  const uint32_t a = v[0] >> k, b = a + (v[1] >> k) + 1, c = b + (v[2] >> k) + 1, d = c + (v[3] >> k) + 1;
  if (d < BITS_AT_ONCE) *bits = UINT64_C(1) << a | UINT64_C(1) << b | UINT64_C(1) << c | UINT64_C(1) << d;
  return d + 1;
}
#endif

static void put_quotients(annb_unary *unary, const uint32_t *values, uint32_t n, unsigned k) {
  annb_unary u = *unary;
  uint32_t i = 0;
  for (; i + SOME <= n; i += SOME) {
    uint64_t bits = 0;
    const uint32_t length = some_quotients(values + i, k, &bits);
    if (length <= BITS_AT_ONCE) put_bits(&u, bits, length);
    else
      for (uint32_t j = i; j < i + SOME; j++) put_quotient(&u, values[j] >> k);
  }
  for (; i < n; i++) put_quotient(&u, values[i] >> k);
  *unary = u;
}

/* ---- sorting ---- */

static void mark(const uint32_t *columns, size_t n, const uint32_t *table, uint64_t *seen, uint32_t *ids) {
  for (size_t i = 0; i < n; i++) {
    const uint32_t id = table ? table[columns[i]] : columns[i];
    ids[i] = id;
    seen[id / 64] |= UINT64_C(1) << id % 64;
  }
}

static bool rank(uint64_t *seen, size_t n_words, uint32_t *before, const uint32_t *ids, const uint8_t *values, size_t n, uint32_t *sorted,
                 uint32_t *sorted_values) {
  uint32_t marks = 0;
  for (size_t w = 0; w < n_words; w++) {
    before[w] = marks;
    marks += (uint32_t)__builtin_popcountll(seen[w]);
  }
  for (size_t i = 0; i < n && marks == n; i++) {
    const uint32_t id = ids[i], at = before[id / 64] + (uint32_t)__builtin_popcountll(seen[id / 64] & ((UINT64_C(1) << id % 64) - 1));
    sorted[at] = id;
    memcpy(&sorted_values[at], values + 4 * i, 4);
  }
  memset(seen, 0, n_words * sizeof *seen);
  return marks == n;
}
