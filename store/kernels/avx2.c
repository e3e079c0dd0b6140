/* Kernels for x86-64 with AVX2 and BMI2 (no pdep: it is slow on some machines and no faster here). */
#include "kernels.h"

#ifdef ANNB_HAVE_AVX2

#include "bit_positions.h"
#include "lead.h"
#include "places.h"
#include "words.h"
#include "x86_vector.h"

#define AVX2 ANNB_TARGET("avx2,bmi,bmi2,popcnt")
#define INLINE AVX2 ANNB_INLINE

static bool usable(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("popcnt");
}

INLINE __m128i load64(const void *p) { return _mm_loadl_epi64((const __m128i *)p); }
INLINE __m128i load128(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
INLINE __m256i load256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
INLINE __m256i twice128(const void *p) { return _mm256_broadcastsi128_si256(load128(p)); }
INLINE void store256(void *p, __m256i x) { _mm256_storeu_si256((__m256i *)p, x); }

/* 8 of 16 bytes, which both lanes have, from `first` on, in 32 bits. */
INLINE __m256i widen_bytes(__m256i twice, int first) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_shuffle_epi8(twice, _mm256_add_epi8(lane, _mm256_set1_epi32((int)0x80808000 + first)));
}

/* 16 words. */
INLINE void store_wide(uint32_t *to, __m256i x) {
  const __m256i zero = _mm256_setzero_si256();
  x = _mm256_permute4x64_epi64(x, 0xD8);
  store256(to, _mm256_unpacklo_epi16(x, zero));
  store256(to + 8, _mm256_unpackhi_epi16(x, zero));
}

/* ---- unary ---- */

static const uint8_t from_one[32] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                     17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};

/* Positions of the ones of one byte; *base, the position of its first bit, moves on. */
INLINE uint8_t *unary_byte(uint32_t byte, __m128i *base, uint8_t *ones) {
  __m128i places = _mm_add_epi8(load64(&annb_bit_positions[byte]), *base);
  _mm_storel_epi64((__m128i *)(void *)ones, places);
  *base = _mm_add_epi8(*base, _mm_set1_epi8(8));
  return ones + (uint32_t)_mm_popcnt_u32(byte);
}

INLINE uint8_t *unary_word(uint64_t word, __m128i *base, uint8_t *ones) {
  ones = unary_byte(word & 255, base, ones);
  ones = unary_byte(word >> 8 & 255, base, ones);
  ones = unary_byte(word >> 16 & 255, base, ones);
  ones = unary_byte(word >> 24 & 255, base, ones);
  ones = unary_byte(word >> 32 & 255, base, ones);
  ones = unary_byte(word >> 40 & 255, base, ones);
  ones = unary_byte(word >> 48 & 255, base, ones);
  return unary_byte((uint32_t)(word >> 56), base, ones);
}

AVX2 static bool unary(const uint8_t *bits, size_t size, size_t n, uint8_t *ones) {
  uint8_t *at = ones, *end = ones + n;
  const uint8_t *last = bits + size / 8 * 8;
  __m128i base = _mm_setzero_si128();
  uint64_t word;
  if (size > 0 && bits[size - 1] == 0) return false;
  for (; bits < last; bits += 8) {
    memcpy(&word, bits, 8);
    if (word == 0 || at > end) return false; /* a word writes at most 64 past `end` */
    at = unary_word(word, &base, at);
  }
  if (size % 8) {
    word = 0;
    memcpy(&word, bits, size % 8);
    if (at > end) return false;
    at = unary_word(word, &base, at);
  }
  if (at != end) return false;
  __m256i next = _mm256_add_epi8(_mm256_set1_epi8((char)end[-1]), load256(from_one));
  store256(end, next);
  store256(end + 32, _mm256_add_epi8(next, _mm256_set1_epi8(32)));
  return true;
}

/* ---- leading ids ---- */

/* For each byte: how `pshufb` puts those of 8 numbers of 16 bits together that its ones mark, as 32 bits; both lanes have the 8. */
#define WIDE(x, j) (uint32_t)((UINT64_C(x) >> 8 * (j) & 7) * 0x0202 + 0x80800100)
#define TOGETHER(x) {WIDE(x, 0), WIDE(x, 1), WIDE(x, 2), WIDE(x, 3), WIDE(x, 4), WIDE(x, 5), WIDE(x, 6), WIDE(x, 7)}
_Alignas(64) static const uint32_t together[256][8] = {ANNB_BIT_POSITIONS(TOGETHER)};

typedef enum lead_kind { NARROW, WIDE_IDS, MAPPED } lead_kind;

/* Where ids come from and where they go: of each, what the kind needs. */
typedef struct lead {
  const uint16_t *table;
  __m256i base; /* the 8 ids of the byte's bits, for WIDE_IDS in both lanes */
  uint16_t *narrow;
  uint32_t *wide;
} lead;

INLINE void lead_byte(uint32_t byte, lead_kind kind, lead *l) {
  uint32_t n = (uint32_t)_mm_popcnt_u32(byte);
  if (kind == NARROW) {
    __m128i ids = _mm_add_epi16(_mm_cvtepu8_epi16(load64(&annb_bit_positions[byte])), _mm256_castsi256_si128(l->base));
    _mm_storeu_si128((__m128i *)(void *)l->narrow, ids);
    l->narrow += n;
  } else {
    store256(l->wide, _mm256_shuffle_epi8(kind == MAPPED ? twice128(l->table) : l->base, load256(together[byte])));
    l->wide += n;
  }
  if (kind == MAPPED) l->table += 8;
  else l->base = _mm256_add_epi16(l->base, _mm256_set1_epi16(8));
}

INLINE size_t lead_of(const uint8_t *bits, size_t size, size_t n, uint32_t limit, lead_kind kind, lead l) {
  uint64_t word = UINT64_MAX;
  size_t done = 0, bit = 0;
  for (; done < n; bit += 64) {
    uint64_t before = word;
    if (bit >= limit || bit / 8 >= size) return 0;
    word = 0;
    if (size - bit / 8 >= 8) memcpy(&word, bits + bit / 8, 8);
    else memcpy(&word, bits + bit / 8, size - bit / 8);
    if (word == 0 || annb_lead_far(word, before)) return 0;
    lead_byte(word & 255, kind, &l);
    lead_byte(word >> 8 & 255, kind, &l);
    lead_byte(word >> 16 & 255, kind, &l);
    lead_byte(word >> 24 & 255, kind, &l);
    lead_byte(word >> 32 & 255, kind, &l);
    lead_byte(word >> 40 & 255, kind, &l);
    lead_byte(word >> 48 & 255, kind, &l);
    lead_byte((uint32_t)(word >> 56), kind, &l);
    done += (size_t)_mm_popcnt_u64(word);
  }
  bit = annb_lead_end(bit, word, done - n);
  return bit <= limit ? bit : 0;
}

AVX2 static size_t lead16(const uint8_t *bits, size_t size, size_t n, uint32_t limit, uint16_t *ids) {
  return lead_of(bits, size, n, limit, NARROW, (lead){.base = _mm256_setzero_si256(), .narrow = ids});
}

AVX2 static size_t lead32(const uint8_t *bits, size_t size, size_t n, uint32_t limit, const uint16_t *table, uint32_t *ids) {
  const __m256i first = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
  if (table) return lead_of(bits, size, n, limit, MAPPED, (lead){.table = table, .wide = ids});
  return lead_of(bits, size, n, limit, WIDE_IDS, (lead){.base = first, .wide = ids});
}

/* ---- low bits ---- */

/* For 8 values of w bits in w bytes: which two bytes hold value i, and the multiplier that moves its top bit to bit 15. */
#define AT(w, i) ((i) * (w) / 8), ((i) * (w) / 8 + 1)
#define BYTES(w) {AT(w, 0), AT(w, 1), AT(w, 2), AT(w, 3), AT(w, 4), AT(w, 5), AT(w, 6), AT(w, 7)}
#define UP(w, i) (uint16_t)(1u << (16 - (w) - (i) * (w) % 8))
#define FACTORS(w) {UP(w, 0), UP(w, 1), UP(w, 2), UP(w, 3), UP(w, 4), UP(w, 5), UP(w, 6), UP(w, 7)}

static const uint8_t low_bytes[ANNB_KERNEL_MAX_K16 + 1][16] = {BYTES(0), BYTES(1), BYTES(2), BYTES(3), BYTES(4),
                                                               BYTES(5), BYTES(6), BYTES(7), BYTES(8), BYTES(9)};
static const uint16_t low_factors[ANNB_KERNEL_MAX_K16 + 1][8] = {FACTORS(0), FACTORS(1), FACTORS(2), FACTORS(3), FACTORS(4),
                                                                 FACTORS(5), FACTORS(6), FACTORS(7), FACTORS(8), FACTORS(9)};

/* How the codes of one group are put together, for parameters up to 9. */
typedef struct recipe {
  __m256i bytes, factors;
  __m128i k, down;
  unsigned width;
} recipe;

INLINE recipe recipe_for(unsigned k) {
  recipe r = {_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)low_bytes[k])),
              _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)low_factors[k])), _mm_cvtsi32_si128((int)k),
              _mm_cvtsi32_si128((int)(16 - k)), k};
  return r;
}

/* 16 low parts, which start at `p`. */
INLINE __m256i low16(const recipe *r, const uint8_t *p) {
  __m256i x = _mm256_inserti128_si256(_mm256_castsi128_si256(load128(p)), load128(p + r->width), 1);
  return _mm256_srl_epi16(_mm256_mullo_epi16(_mm256_shuffle_epi8(x, r->bytes), r->factors), r->down);
}

/* 16 quotients as bytes. */
INLINE __m128i quotients16(const uint8_t *ones) {
  return _mm_sub_epi8(_mm_sub_epi8(load128(ones), load128(ones - 1)), _mm_set1_epi8(1));
}

INLINE __m256i codes_of(const recipe *r, __m128i quotients, const uint8_t *lows) {
  return _mm256_add_epi16(_mm256_sll_epi16(_mm256_cvtepu8_epi16(quotients), r->k), low16(r, lows));
}

/* The first n; the codes after the last do not count. */
INLINE __m128i first_bytes(__m128i x, uint32_t n) {
  static const uint8_t mask[32] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
  return n >= 16 ? x : _mm_and_si128(x, load128(mask + 16 - n));
}

/* Quotients above 63 have one of the two top bits set. */
INLINE bool too_large(__m128i all) { return !_mm_testz_si128(all, _mm_set1_epi8((char)0xC0)); }

/* ---- sequences ---- */

/* Inclusive prefix sums in each half that stop at 65535; *carry: the lower half's sum in all of the upper half, *total: the sum of all. */
INLINE __m256i prefix16(__m256i x, __m256i *carry, __m256i *total) {
  x = _mm256_adds_epu16(x, _mm256_slli_si256(x, 2));
  x = _mm256_adds_epu16(x, _mm256_slli_si256(x, 4));
  x = _mm256_adds_epu16(x, _mm256_slli_si256(x, 8));
  __m256i last = _mm256_shuffle_epi8(x, _mm256_set1_epi16(0x0f0e)), other = _mm256_permute2x128_si256(last, last, 0x01);
  *carry = _mm256_blend_epi32(_mm256_setzero_si256(), other, 0xF0);
  *total = _mm256_adds_epu16(last, other);
  return x;
}

/* The ids go to one of the two. */
INLINE bool ids_of(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint16_t *narrow, uint32_t *wide) {
  const __m256i lane = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m256i steps = _mm256_set1_epi16((short)(16 * add));
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  __m256i carry, total, base = _mm256_mullo_epi16(lane, _mm256_set1_epi16((short)add)); /* of each lane, so that only gaps are summed */
  base = _mm256_adds_epu16(base, _mm256_set1_epi16((short)seq->start));
  __m128i all = _mm_setzero_si128();
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    recipe r = recipe_for(annb_rice_param(seq, g));
    uint32_t n = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < n; i += 16, lows += 2 * r.width) {
      __m128i q = quotients16(ones + i);
      all = _mm_or_si128(all, first_bytes(q, n - i));
      __m256i sums = prefix16(codes_of(&r, q, lows), &carry, &total);
      __m256i x = _mm256_adds_epu16(_mm256_adds_epu16(sums, base), carry);
      if (narrow) store256(narrow + i, x);
      else store_wide(wide + i, x);
      base = _mm256_adds_epu16(base, _mm256_adds_epu16(total, steps));
    }
    ones += n;
    if (narrow) narrow += n;
    else wide += n;
    left -= n;
  }
  return seq->n == 0 || (!too_large(all) && (narrow ? narrow[-1] : wide[-1]) + add <= limit);
}

AVX2 static bool ids16(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint16_t *ids) { return ids_of(seq, add, limit, ids, NULL); }

AVX2 static bool ids16_wide(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint32_t *ids) {
  return ids_of(seq, add, limit, NULL, ids);
}

AVX2 static bool codes16(const annb_rice_seq *seq, uint16_t *codes) {
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  __m128i all = _mm_setzero_si128();
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    recipe r = recipe_for(annb_rice_param(seq, g));
    uint32_t n = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < n; i += 16, lows += 2 * r.width) {
      __m128i q = quotients16(ones + i);
      all = _mm_or_si128(all, first_bytes(q, n - i));
      store256(codes + i, codes_of(&r, q, lows));
    }
    ones += n;
    codes += n;
    left -= n;
  }
  return !too_large(all);
}

INLINE void put_floats8(__m256i x, __m256i base, uint8_t *out) {
  _mm256_storeu_ps((float *)(void *)out, _mm256_cvtepi32_ps(_mm256_add_epi32(x, base)));
}

/* Without low parts the codes are the quotients. */
INLINE void put_floats16(const recipe *r, __m128i q, const uint8_t *lows, __m256i base, uint8_t *out) {
  if (r->width == 0) {
    put_floats8(_mm256_cvtepu8_epi32(q), base, out);
    put_floats8(_mm256_cvtepu8_epi32(_mm_srli_si128(q, 8)), base, out + 32);
    return;
  }
  __m256i x = codes_of(r, q, lows);
  put_floats8(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)), base, out);
  put_floats8(_mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1)), base, out + 32);
}

AVX2 static bool floats16(const annb_rice_seq *seq, size_t n, int32_t base, uint8_t *out) {
  const __m256i add = _mm256_set1_epi32(base);
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  __m128i all = _mm_setzero_si128();
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    recipe r = recipe_for(annb_rice_param(seq, g));
    uint32_t in_group = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < in_group; i += 16, lows += 2 * r.width) {
      __m128i q = quotients16(ones + i);
      all = _mm_or_si128(all, first_bytes(q, in_group - i));
      put_floats16(&r, q, lows, add, out + 4 * i);
    }
    ones += in_group;
    out += 4 * in_group;
    left -= in_group;
  }
  const __m256 rest = _mm256_cvtepi32_ps(add);
  for (size_t i = seq->n; i < n; i += 8, out += 32) _mm256_storeu_ps((float *)(void *)out, rest);
  return !too_large(all);
}

/* 8 codes of up to 15 bits and their quotients, in 32 bits. */
INLINE __m256i codes8_of(unsigned k, const uint8_t *ones, const uint8_t *lows, __m256i *quotients) {
  const __m256i bit = _mm256_mullo_epi32(_mm256_set1_epi32((int)k), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  __m256i at = _mm256_srli_epi32(bit, 3); /* byte of each value, at most 13 of 16 */
  __m256i spread = _mm256_shuffle_epi8(
      at, _mm256_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
  __m256i bytes = _mm256_add_epi8(spread, _mm256_set1_epi32(0x03020100));
  __m256i x = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load128(lows)), bytes);
  x = _mm256_and_si256(_mm256_srlv_epi32(x, _mm256_and_si256(bit, _mm256_set1_epi32(7))), _mm256_set1_epi32((1 << k) - 1));
  __m128i q = _mm_sub_epi8(
      _mm_sub_epi8(_mm_loadl_epi64((const __m128i *)(const void *)ones), _mm_loadl_epi64((const __m128i *)(const void *)(ones - 1))),
      _mm_set1_epi8(1));
  *quotients = _mm256_cvtepu8_epi32(q);
  return _mm256_add_epi32(_mm256_sll_epi32(*quotients, _mm_cvtsi32_si128((int)k)), x);
}

INLINE __m256i prefix32(__m256i x) {
  x = _mm256_add_epi32(x, _mm256_slli_si256(x, 4));
  x = _mm256_add_epi32(x, _mm256_slli_si256(x, 8));
  __m256i last = _mm256_shuffle_epi32(x, 0xff);
  return _mm256_add_epi32(x, _mm256_permute2x128_si256(last, last, 0x08));
}

/* Quotients of lanes from n on are not looked at. */
INLINE __m256i first_lanes(__m256i x, uint32_t n) {
  return _mm256_and_si256(x, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n < 8 ? n : 8)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}

INLINE bool too_large32(__m256i all) { return !_mm256_testz_si256(all, _mm256_set1_epi32(0xC0)); }

AVX2 static bool ids32(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint32_t *ids) {
  const __m256i step = _mm256_set1_epi32((int)add), last = _mm256_set1_epi32(7);
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  __m256i base = _mm256_set1_epi32((int)seq->start), all = _mm256_setzero_si256(), q;
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    unsigned k = annb_rice_param(seq, g);
    uint32_t n = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < n; i += 8, lows += k) {
      __m256i sums = prefix32(_mm256_add_epi32(codes8_of(k, ones + i, lows, &q), step));
      all = _mm256_or_si256(all, first_lanes(q, n - i));
      sums = _mm256_add_epi32(sums, base);
      store256(ids + i, _mm256_sub_epi32(sums, step));
      base = _mm256_permutevar8x32_epi32(sums, last);
    }
    ones += n;
    ids += n;
    left -= n;
    /* no overflow before this: 128 codes are below 2^28, the sum before them below 2^31 */
    if (too_large32(all) || ids[-1] + add > limit) return false;
  }
  return true;
}

AVX2 static bool codes32(const annb_rice_seq *seq, uint32_t *codes) {
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  __m256i all = _mm256_setzero_si256(), q;
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    unsigned k = annb_rice_param(seq, g);
    uint32_t n = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < n; i += 8, lows += k) {
      store256(codes + i, codes8_of(k, ones + i, lows, &q));
      all = _mm256_or_si256(all, first_lanes(q, n - i));
    }
    ones += n;
    codes += n;
    left -= n;
  }
  return !too_large32(all);
}

/* ---- output ---- */

/* Entries of four ids, in the lower half. They come together in a register: storing each by itself takes longer, and so does loading the
 * ids one by one, which gets in the way of the other loads. */
INLINE __m128i entries4(const uint16_t *ids, const uint16_t *table) {
  uint64_t four;
  memcpy(&four, ids, 8);
  __asm__("" : "+r"(four)); /* or the compiler loads them one by one */
  __m128i x = _mm_cvtsi32_si128(table[four & 0xffff]);
  x = _mm_insert_epi16(x, table[four >> 16 & 0xffff], 1);
  x = _mm_insert_epi16(x, table[four >> 32 & 0xffff], 2);
  return _mm_insert_epi16(x, table[four >> 48], 3);
}

INLINE void map8(const uint16_t *ids, const uint16_t *table, uint32_t *out) {
  store256(out, _mm256_cvtepu16_epi32(_mm_unpacklo_epi64(entries4(ids, table), entries4(ids + 4, table))));
}

AVX2 static void map(const uint16_t *ids, size_t n, const uint16_t *table, uint32_t *out) {
  size_t i = 0;
  if (n < 8)
    for (; i < n; i++) out[i] = table[ids[i]];
  for (; i + 8 <= n; i += 8) map8(ids + i, table, out + i);
  if (i < n) map8(ids + n - 8, table, out + n - 8); /* some of them again */
}

AVX2 static void to_f32(const uint16_t *codes, size_t n, int32_t base, uint8_t *out) {
  const __m256i add = _mm256_set1_epi32(base);
  for (size_t i = 0; i < n; i += 8) {
    __m256 x = _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_cvtepu16_epi32(load128(codes + i)), add));
    _mm256_storeu_ps((float *)(void *)(out + 4 * i), x);
  }
}

AVX2 static bool look_up(const uint16_t *codes, size_t n, const uint32_t *entries, uint32_t n_entries, uint8_t *out) {
  uint16_t lanes[16], highest = 0;
  __m256i all = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 16 <= n; i += 16) all = _mm256_max_epu16(all, load256(codes + i));
  store256(lanes, all);
  for (unsigned j = 0; j < 16; j++) highest = lanes[j] > highest ? lanes[j] : highest;
  for (; i < n; i++) highest = codes[i] > highest ? codes[i] : highest;
  if (highest >= n_entries) return false;
  annb_look_up_words(codes, n, entries, out);
  return true;
}

AVX2 static void sort(uint32_t *ids, uint16_t *codes, size_t n, size_t n_words, uint32_t *keys) {
  uint64_t words[ANNB_PLACE_WORDS];
  annb_mark_ids(ids, n, n_words, words);
  const __m256i id = _mm256_set1_epi32(0xffff);
  for (size_t i = 0; i < n; i += 8) {
    __m256i high = _mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(codes + i)), 16);
    store256(ids + i, _mm256_or_si256(load256(ids + i), high));
  }
  annb_place_keys(ids, n, n_words, words, keys);
  for (size_t i = 0; i < n; i += 8) {
    __m256i key = load256(keys + i), high = _mm256_srli_epi32(key, 16);
    store256(ids + i, _mm256_and_si256(key, id));
    _mm_storeu_si128((__m128i *)(void *)(codes + i), _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1)));
  }
}

/* ---- marks ---- */

AVX2 static uint32_t narrow(const uint16_t *codes, size_t n, uint8_t *marks) {
  const __m256i most = _mm256_set1_epi16(254), one = _mm256_set1_epi16(1);
  uint16_t lanes[16], highest = 0;
  __m256i all = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    __m256i x = load256(codes + i), mark = _mm256_add_epi16(_mm256_min_epu16(x, most), one);
    all = _mm256_max_epu16(all, x);
    _mm_storeu_si128((__m128i *)(void *)(marks + i), _mm_packus_epi16(_mm256_castsi256_si128(mark), _mm256_extracti128_si256(mark, 1)));
  }
  store256(lanes, all);
  for (unsigned j = 0; j < 16; j++) highest = lanes[j] > highest ? lanes[j] : highest;
  for (; i < n; i++) {
    highest = codes[i] > highest ? codes[i] : highest;
    marks[i] = (uint8_t)(codes[i] < 254 ? codes[i] + 1 : 255);
  }
  return highest;
}

AVX2 static void scatter(const uint16_t *ids, const uint8_t *marks, size_t n, const uint16_t *table, uint8_t *by_id) {
  annb_scatter_words(ids, marks, n, table, by_id);
}

AVX2 static void expand(uint8_t *by_id, size_t n, float *out) {
  const __m256i zero = _mm256_setzero_si256();
  size_t i = 0;
  for (; i < n && (uintptr_t)(out + i) % 32; i++) { /* stores that cross lines take longer */
    out[i] = (float)by_id[i];
    by_id[i] = 0;
  }
  for (; i + 32 <= n; i += 32) {
    for (size_t j = i; j < i + 32; j += 16) {
      __m256i x = twice128(by_id + j);
      _mm256_storeu_ps(out + j, _mm256_cvtepi32_ps(widen_bytes(x, 0)));
      _mm256_storeu_ps(out + j + 8, _mm256_cvtepi32_ps(widen_bytes(x, 8)));
    }
    store256(by_id + i, zero);
  }
  for (; i < n; i++) {
    out[i] = (float)by_id[i];
    by_id[i] = 0;
  }
}

const annb_kernel annb_kernel_avx2 = {"avx2", usable, annb_hash64_avx2, unary,  lead16,  lead32, ids16,  ids32,   ids16_wide, codes16,
                                      codes32, floats16, map,              to_f32, look_up, sort,   narrow, scatter, expand};

#else
typedef int annb_no_avx2; /* a translation unit is not empty */
#endif
