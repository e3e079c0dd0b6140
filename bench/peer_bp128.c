/* BP-128 without exceptions: gaps - 1 and counts - 1 in groups of 128, each as wide as its widest, four lanes side by side. A group is two
 * width bytes, the gaps, the counts; the last group is filled up with zeros. */
#include "peers.h"

#include <string.h>

enum { GROUP = 128, LANES = 4, STEPS = GROUP / LANES };

typedef uint32_t lanes __attribute__((vector_size(16)));
typedef int32_t signed_lanes __attribute__((vector_size(16)));
typedef float float_lanes __attribute__((vector_size(16)));

static unsigned width_of(const uint32_t *x) {
  uint32_t all = 0;
  for (unsigned i = 0; i < GROUP; i++) all |= x[i];
  return all ? 32 - (unsigned)__builtin_clz(all) : 0;
}

/* Value i is in lane i % 4; every lane is a stream of `width` words of 32 bits. */
static uint8_t *pack(const uint32_t *x, unsigned width, uint8_t *out) {
  uint32_t words[32][LANES] = {{0}};
  for (unsigned i = 0; i < GROUP; i++) {
    unsigned bit = i / LANES * width, shift = bit % 32;
    if (!width) break;
    words[bit / 32][i % LANES] |= x[i] << shift;
    if (shift + width > 32) words[bit / 32 + 1][i % LANES] |= x[i] >> (32 - shift);
  }
  memcpy(out, words, (size_t)width * sizeof(lanes));
  return out + (size_t)width * sizeof(lanes);
}

/* With a constant width the compiler unrolls this to shifts and masks. */
static inline __attribute__((always_inline)) void unpack_width(const uint8_t *in, unsigned width, lanes *x) {
  uint32_t mask = width < 32 ? (UINT32_C(1) << width) - 1 : UINT32_MAX;
  lanes word = {0}, next;
#pragma GCC unroll 32
  for (unsigned i = 0; i < STEPS; i++) {
    unsigned bit = i * width, shift = bit % 32;
    if (width == 0) {
      x[i] = (lanes){0};
      continue;
    }
    if (shift == 0) memcpy(&word, in + bit / 32 * sizeof word, sizeof word);
    x[i] = word >> shift;
    if (shift + width > 32) {
      memcpy(&next, in + (bit / 32 + 1) * sizeof next, sizeof next);
      x[i] |= next << (32 - shift);
      word = next;
    }
    x[i] &= mask;
  }
}

static const uint8_t *unpack(const uint8_t *in, unsigned width, lanes *x) {
  switch (width) {
#define W(w) \
  case w: unpack_width(in, w, x); break;
    W(0) W(1) W(2) W(3) W(4) W(5) W(6) W(7) W(8) W(9) W(10) W(11) W(12) W(13) W(14) W(15) W(16)
#undef W
    default: unpack_width(in, width, x);
  }
  return in + width * sizeof(lanes);
}

static size_t encode(const uint32_t *ids, const float *values, uint32_t n, uint8_t *out, size_t room) {
  uint8_t *at = out;
  uint32_t last = UINT32_MAX;
  for (uint32_t first = 0; first < n; first += GROUP) {
    uint32_t gaps[GROUP] = {0}, counts[GROUP] = {0};
    if ((size_t)(at - out) + 2 + 2 * GROUP * sizeof *gaps > room) return 0;
    for (uint32_t i = 0; i < GROUP && first + i < n; i++) {
      gaps[i] = ids[first + i] - last - 1;
      counts[i] = (uint32_t)values[first + i] - 1;
      last = ids[first + i];
    }
    at[0] = (uint8_t)width_of(gaps);
    at[1] = (uint8_t)width_of(counts);
    unsigned count_width = at[1];
    at = pack(counts, count_width, pack(gaps, at[0], at + 2));
  }
  return (size_t)(at - out);
}

static bool decode(const uint8_t *in, size_t length, uint32_t n, uint32_t *ids, float *values) {
  const uint8_t *at = in;
  uint32_t last = UINT32_MAX;
  lanes gaps[STEPS], counts[STEPS];
  for (uint32_t first = 0; first < n; first += GROUP) {
    if (at[0] > 32 || at[1] > 32) return false;
    const uint8_t *group = at;
    at = unpack(unpack(at + 2, group[0], gaps), group[1], counts);
    uint32_t sum = last;
    for (unsigned i = 0; i < STEPS; i++) {
      lanes x = gaps[i] + 1;
      uint32_t two = x[0] + x[1], three = two + x[2];
      lanes sums = {sum + x[0], sum + two, sum + three, sum + three + x[3]};
      sum = sums[3];
      float_lanes f = __builtin_convertvector((signed_lanes)(counts[i] + 1), float_lanes);
      memcpy(ids + first + LANES * i, &sums, sizeof sums);
      memcpy(values + first + LANES * i, &f, sizeof f);
    }
    last = sum;
  }
  return at == in + length;
}

const bench_peer bench_peer_bp128 = {"BP-128", "gaps and counts, per row", encode, decode};
