/* Kernels for little-endian aarch64, whose Advanced SIMD is always there. */
#include "kernels.h"

#ifdef ANNB_HAVE_NEON

#include "bit_positions.h"
#include "../hash.h"
#include "lead.h"
#include "places.h"
#include "words.h"

#include <arm_neon.h>

static bool usable(void) { return true; }

static const uint64_t each = UINT64_C(0x0101010101010101); /* one in every byte */

/* ---- unary ---- */

ANNB_INLINE uint64_t load_word(const uint8_t *p, size_t n) {
  uint64_t word = 0;
  if (n >= 8) memcpy(&word, p, 8);
  else memcpy(&word, p, n);
  return word;
}

/* Positions of the ones of byte j, from where `starts` says. */
ANNB_INLINE void unary_byte(uint64_t word, unsigned j, uint64_t base, uint64_t starts, uint8_t *ones) {
  uint64_t places = annb_bit_positions[word >> 8 * j & 255] + base + 8 * j * each; /* no carry: at most 7 + 192 + 56 */
  memcpy(ones + (starts >> 8 * j & 255), &places, 8);
}

static bool unary(const uint8_t *bits, size_t size, size_t n, uint8_t *ones) {
  uint8_t *at = ones, *end = ones + n;
  if (size > 0 && bits[size - 1] == 0) return false;
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word = load_word(bits + i, size - i), base = each * (8 * i & 255);
    if (word == 0 || at > end) return false; /* a word writes at most 64 past `end` */
    uint64_t counts = vget_lane_u64(vreinterpret_u64_u8(vcnt_u8(vcreate_u8(word))), 0);
    uint64_t sums = counts * each; /* byte j: ones up to byte j */
    for (unsigned j = 0; j < 8; j++) unary_byte(word, j, base, sums << 8, at);
    at += sums >> 56;
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

/* ---- codes of 16 bits ---- */

/* For 8 values of w bits in w bytes: which two bytes hold each, and where it starts in them, as a shift to the left. */
#define TWO(w, i) (i) * (w) / 8, (i) * (w) / 8 + 1
#define BYTES(w) {TWO(w, 0), TWO(w, 1), TWO(w, 2), TWO(w, 3), TWO(w, 4), TWO(w, 5), TWO(w, 6), TWO(w, 7)}
#define DOWN(w, i) -((i) * (w) % 8)
#define SHIFTS(w) {DOWN(w, 0), DOWN(w, 1), DOWN(w, 2), DOWN(w, 3), DOWN(w, 4), DOWN(w, 5), DOWN(w, 6), DOWN(w, 7)}

static const uint8_t low_bytes[ANNB_KERNEL_MAX_K16 + 1][16] = {BYTES(0), BYTES(1), BYTES(2), BYTES(3), BYTES(4),
                                                               BYTES(5), BYTES(6), BYTES(7), BYTES(8), BYTES(9)};
static const int16_t low_shifts[ANNB_KERNEL_MAX_K16 + 1][8] = {SHIFTS(0), SHIFTS(1), SHIFTS(2), SHIFTS(3), SHIFTS(4),
                                                               SHIFTS(5), SHIFTS(6), SHIFTS(7), SHIFTS(8), SHIFTS(9)};
static const uint8_t iota[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* How the codes of one group are put together. */
typedef struct recipe {
  uint8x16_t bytes;
  int16x8_t shifts, k;
  uint16x8_t mask;
  unsigned width;
} recipe;

ANNB_INLINE recipe recipe_for(unsigned k) {
  return (recipe){vld1q_u8(low_bytes[k]), vld1q_s16(low_shifts[k]), vdupq_n_s16((int16_t)k), vdupq_n_u16((uint16_t)((1u << k) - 1)), k};
}

/* 16 quotients as bytes; those of the first n, at most 128, are added to *all. */
ANNB_INLINE uint8x16_t quotients16(const uint8_t *ones, uint32_t n, uint8x16_t *all) {
  uint8x16_t q = vsubq_u8(vsubq_u8(vld1q_u8(ones), vld1q_u8(ones - 1)), vdupq_n_u8(1));
  *all = vorrq_u8(*all, vandq_u8(q, vcltq_u8(vld1q_u8(iota), vdupq_n_u8((uint8_t)n))));
  return q;
}

ANNB_INLINE bool too_large(uint8x16_t all) { return vmaxvq_u8(vandq_u8(all, vdupq_n_u8(0xC0))) != 0; }

/* 8 codes, whose low parts start at p. */
ANNB_INLINE uint16x8_t codes_of(const recipe *r, uint8x8_t quotients, const uint8_t *p) {
  uint16x8_t low = vandq_u16(vshlq_u16(vreinterpretq_u16_u8(vqtbl1q_u8(vld1q_u8(p), r->bytes)), r->shifts), r->mask);
  return vaddq_u16(vshlq_u16(vmovl_u8(quotients), r->k), low);
}

/* Inclusive prefix sums that stop at 65535. */
ANNB_INLINE uint16x8_t prefix16(uint16x8_t x) {
  const uint16x8_t zero = vdupq_n_u16(0);
  x = vqaddq_u16(x, vextq_u16(zero, x, 7));
  x = vqaddq_u16(x, vextq_u16(zero, x, 6));
  return vqaddq_u16(x, vextq_u16(zero, x, 4));
}

/* Ids of 8 codes; *base, the sum before them, moves on. */
ANNB_INLINE uint16x8_t next_ids(uint16x8_t codes, uint16x8_t step, uint16x8_t *base) {
  uint16x8_t sums = prefix16(vaddq_u16(codes, step)), ids = vsubq_u16(vqaddq_u16(sums, *base), step);
  *base = vqaddq_u16(*base, vdupq_laneq_u16(sums, 7));
  return ids;
}

ANNB_INLINE void put_ids(uint16x8_t x, uint16_t *narrow, uint32_t *wide, uint32_t i) {
  if (narrow) {
    vst1q_u16(narrow + i, x);
    return;
  }
  vst1q_u32(wide + i, vmovl_u16(vget_low_u16(x)));
  vst1q_u32(wide + i + 4, vmovl_u16(vget_high_u16(x)));
}

/* The ids go to one of the two. */
ANNB_INLINE bool ids_of(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint16_t *narrow, uint32_t *wide) {
  const uint16x8_t step = vdupq_n_u16((uint16_t)add);
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  uint16x8_t base = vdupq_n_u16((uint16_t)seq->start);
  uint8x16_t all = vdupq_n_u8(0);
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    recipe r = recipe_for(annb_rice_param(seq, g));
    uint32_t n = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < n; i += 16, lows += 2 * r.width) {
      uint8x16_t q = quotients16(ones + i, n - i, &all);
      put_ids(next_ids(codes_of(&r, vget_low_u8(q), lows), step, &base), narrow, wide, i);
      put_ids(next_ids(codes_of(&r, vget_high_u8(q), lows + r.width), step, &base), narrow, wide, i + 8);
    }
    ones += n;
    if (narrow) narrow += n;
    else wide += n;
    left -= n;
  }
  return seq->n == 0 || (!too_large(all) && (narrow ? narrow[-1] : wide[-1]) + add <= limit);
}

static bool ids16(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint16_t *ids) { return ids_of(seq, add, limit, ids, NULL); }

static bool ids16_wide(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint32_t *ids) { return ids_of(seq, add, limit, NULL, ids); }

static bool codes16(const annb_rice_seq *seq, uint16_t *codes) {
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  uint8x16_t all = vdupq_n_u8(0);
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    recipe r = recipe_for(annb_rice_param(seq, g));
    uint32_t n = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < n; i += 16, lows += 2 * r.width) {
      uint8x16_t q = quotients16(ones + i, n - i, &all);
      vst1q_u16(codes + i, codes_of(&r, vget_low_u8(q), lows));
      vst1q_u16(codes + i + 8, codes_of(&r, vget_high_u8(q), lows + r.width));
    }
    ones += n;
    codes += n;
    left -= n;
  }
  return !too_large(all);
}

ANNB_INLINE void put_floats(uint16x8_t codes, int32x4_t base, uint8_t *out) {
  int32x4_t low = vaddq_s32(vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(codes))), base);
  int32x4_t high = vaddq_s32(vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(codes))), base);
  vst1q_u8(out, vreinterpretq_u8_f32(vcvtq_f32_s32(low)));
  vst1q_u8(out + 16, vreinterpretq_u8_f32(vcvtq_f32_s32(high)));
}

static bool floats16(const annb_rice_seq *seq, size_t n, int32_t base, uint8_t *out) {
  const int32x4_t add = vdupq_n_s32(base);
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  uint8x16_t all = vdupq_n_u8(0);
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    recipe r = recipe_for(annb_rice_param(seq, g));
    uint32_t in_group = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < in_group; i += 16, lows += 2 * r.width) {
      uint8x16_t q = quotients16(ones + i, in_group - i, &all);
      put_floats(codes_of(&r, vget_low_u8(q), lows), add, out + 4 * i);
      put_floats(codes_of(&r, vget_high_u8(q), lows + r.width), add, out + 4 * i + 32);
    }
    ones += in_group;
    out += 4 * in_group;
    left -= in_group;
  }
  const uint8x16_t rest = vreinterpretq_u8_f32(vdupq_n_f32((float)base));
  for (size_t i = seq->n; i < n; i += 4, out += 16) vst1q_u8(out, rest);
  return !too_large(all);
}

/* ---- codes of 32 bits ---- */

/* For 8 values of up to 15 bits in two halves: the four bytes in which each is (past the 16th: not needed), where it starts in them, its
 * bits. */
typedef struct recipe32 {
  uint8x16_t bytes[2];
  int32x4_t shifts[2], k;
  uint32x4_t mask;
  unsigned width;
} recipe32;

typedef struct eight {
  uint32x4_t half[2];
} eight;

ANNB_INLINE recipe32 recipe32_for(unsigned k) {
  static const uint32_t first[4] = {0, 1, 2, 3};
  recipe32 r = {.k = vdupq_n_s32((int32_t)k), .mask = vdupq_n_u32((1u << k) - 1), .width = k};
  for (unsigned h = 0; h < 2; h++) {
    uint32x4_t bit = vmulq_n_u32(vaddq_u32(vld1q_u32(first), vdupq_n_u32(4 * h)), k);
    uint32x4_t at = vmulq_n_u32(vshrq_n_u32(bit, 3), UINT32_C(0x01010101)); /* at most 13 */
    r.bytes[h] = vreinterpretq_u8_u32(vaddq_u32(at, vdupq_n_u32(0x03020100)));
    r.shifts[h] = vnegq_s32(vreinterpretq_s32_u32(vandq_u32(bit, vdupq_n_u32(7))));
  }
  return r;
}

/* 8 codes; the quotients of the first n are added to *all. */
ANNB_INLINE eight codes32_of(const recipe32 *r, const uint8_t *ones, const uint8_t *lows, uint32_t n, uint8x16_t *all) {
  uint8x16_t from = vld1q_u8(lows);
  uint16x8_t q = vmovl_u8(vget_low_u8(quotients16(ones, n, all)));
  eight codes = {{vmovl_u16(vget_low_u16(q)), vmovl_u16(vget_high_u16(q))}};
  for (unsigned h = 0; h < 2; h++) {
    uint32x4_t low = vshlq_u32(vreinterpretq_u32_u8(vqtbl1q_u8(from, r->bytes[h])), r->shifts[h]);
    codes.half[h] = vaddq_u32(vshlq_u32(codes.half[h], r->k), vandq_u32(low, r->mask));
  }
  return codes;
}

ANNB_INLINE void put_ids32(uint32x4_t codes, uint32x4_t step, uint32x4_t *base, uint32_t *ids) {
  const uint32x4_t zero = vdupq_n_u32(0);
  uint32x4_t x = vaddq_u32(codes, step);
  x = vaddq_u32(x, vextq_u32(zero, x, 3));
  x = vaddq_u32(vaddq_u32(x, vextq_u32(zero, x, 2)), *base);
  vst1q_u32(ids, vsubq_u32(x, step));
  *base = vdupq_laneq_u32(x, 3);
}

static bool ids32(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint32_t *ids) {
  const uint32x4_t step = vdupq_n_u32(add);
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  uint32x4_t base = vdupq_n_u32(seq->start);
  uint8x16_t all = vdupq_n_u8(0);
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    recipe32 r = recipe32_for(annb_rice_param(seq, g));
    uint32_t n = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < n; i += 8, lows += r.width) {
      eight codes = codes32_of(&r, ones + i, lows, n - i, &all);
      put_ids32(codes.half[0], step, &base, ids + i);
      put_ids32(codes.half[1], step, &base, ids + i + 4);
    }
    ones += n;
    ids += n;
    left -= n;
    /* no overflow before this: 128 codes, even of quotient 255, are below 2^31, the sum before them too */
    if (too_large(all) || ids[-1] + add > limit) return false;
  }
  return true;
}

static bool codes32(const annb_rice_seq *seq, uint32_t *codes) {
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  uint8x16_t all = vdupq_n_u8(0);
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    recipe32 r = recipe32_for(annb_rice_param(seq, g));
    uint32_t n = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < n; i += 8, lows += r.width) {
      eight x = codes32_of(&r, ones + i, lows, n - i, &all);
      vst1q_u32(codes + i, x.half[0]);
      vst1q_u32(codes + i + 4, x.half[1]);
    }
    ones += n;
    codes += n;
    left -= n;
  }
  return !too_large(all);
}

/* ---- output ---- */

static void map(const uint16_t *ids, size_t n, const uint16_t *table, uint32_t *out) { annb_map_words(ids, n, table, out); }

ANNB_INLINE void put_f32(uint16x4_t codes, int32x4_t add, uint8_t *out) {
  vst1q_u8(out, vreinterpretq_u8_f32(vcvtq_f32_s32(vaddq_s32(vreinterpretq_s32_u32(vmovl_u16(codes)), add))));
}

static void to_f32(const uint16_t *codes, size_t n, int32_t base, uint8_t *out) {
  const int32x4_t add = vdupq_n_s32(base);
  for (size_t i = 0; i < n; i += 8) {
    uint16x8_t x = vld1q_u16(codes + i);
    put_f32(vget_low_u16(x), add, out + 4 * i);
    put_f32(vget_high_u16(x), add, out + 4 * i + 16);
  }
}

static bool look_up(const uint16_t *codes, size_t n, const uint32_t *entries, uint32_t n_entries, uint8_t *out) {
  uint16x8_t all = vdupq_n_u16(0);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) all = vmaxq_u16(all, vld1q_u16(codes + i));
  for (; i < n; i++) all = vmaxq_u16(all, vdupq_n_u16(codes[i]));
  if (vmaxvq_u16(all) >= n_entries) return false;
  annb_look_up_words(codes, n, entries, out);
  return true;
}

static void sort(uint32_t *ids, uint16_t *codes, size_t n, size_t n_words, uint32_t *keys) {
  uint64_t words[ANNB_PLACE_WORDS];
  annb_mark_ids(ids, n, n_words, words);
  for (size_t i = 0; i < n; i += 4) vst1q_u32(ids + i, vorrq_u32(vld1q_u32(ids + i), vshll_n_u16(vld1_u16(codes + i), 16)));
  annb_place_keys(ids, n, n_words, words, keys);
  for (size_t i = 0; i < n; i += 4) {
    uint32x4_t key = vld1q_u32(keys + i);
    vst1q_u32(ids + i, vandq_u32(key, vdupq_n_u32(0xffff)));
    vst1_u16(codes + i, vshrn_n_u32(key, 16));
  }
}

/* ---- marks ---- */

static uint32_t narrow(const uint16_t *codes, size_t n, uint8_t *marks) {
  uint16x8_t all = vdupq_n_u16(0);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint16x8_t x = vld1q_u16(codes + i);
    all = vmaxq_u16(all, x);
    vst1_u8(marks + i, vmovn_u16(vaddq_u16(vminq_u16(x, vdupq_n_u16(254)), vdupq_n_u16(1))));
  }
  for (; i < n; i++) {
    all = vmaxq_u16(all, vdupq_n_u16(codes[i]));
    marks[i] = (uint8_t)(codes[i] < 254 ? codes[i] + 1 : 255);
  }
  return vmaxvq_u16(all);
}

static void scatter(const uint16_t *ids, const uint8_t *marks, size_t n, const uint16_t *table, uint8_t *by_id) {
  annb_scatter_words(ids, marks, n, table, by_id);
}

static void expand(uint8_t *by_id, size_t n, float *out) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint16x8_t x = vmovl_u8(vld1_u8(by_id + i));
    vst1q_f32(out + i, vcvtq_f32_u32(vmovl_u16(vget_low_u16(x))));
    vst1q_f32(out + i + 4, vcvtq_f32_u32(vmovl_u16(vget_high_u16(x))));
    vst1_u8(by_id + i, vdup_n_u8(0));
  }
  for (; i < n; i++) {
    out[i] = (float)by_id[i];
    by_id[i] = 0;
  }
}

const annb_kernel annb_kernel_neon = {"neon", usable, annb_hash64, unary,  lead16,  lead32, ids16,  ids32,   ids16_wide, codes16,
                                      codes32, floats16, map,         to_f32, look_up, sort,   narrow, scatter, expand};

#else
typedef int annb_no_neon; /* a translation unit is not empty */
#endif
