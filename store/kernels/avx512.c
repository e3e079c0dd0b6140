/* Kernels for x86-64 with AVX-512 (F, BW, DQ, VL, VBMI, VBMI2): 64 codes at a time. */
#include "kernels.h"

#if defined(ANNB_HAVE_AVX512) || defined(ANNB_SIMDE)

#include "lead.h"
#include "places.h"
#include "words.h"
#include "x86_vector.h"

#define AVX512 ANNB_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi,popcnt")
#define INLINE AVX512 ANNB_INLINE

#ifdef ANNB_SIMDE
#include "../hash.h"
#define HASH64 annb_hash64
#else
#define HASH64 annb_hash64_avx2
#endif

static bool usable(void) {
#ifdef ANNB_SIMDE
  return true;
#else
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
#endif
}

INLINE __m128i load128(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
INLINE __m256i load256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
INLINE __m512i load512(const void *p) { return _mm512_loadu_si512(p); }
INLINE void store512(void *p, __m512i x) { _mm512_storeu_si512(p, x); }
INLINE bool any(__m512i x) { return _mm512_test_epi32_mask(x, x) != 0; }

/* The first n lanes. */
INLINE uint64_t first64(size_t n) { return n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX; }
INLINE uint32_t first32(size_t n) { return (uint32_t)first64(n); }
INLINE uint16_t first16(size_t n) { return (uint16_t)first64(n); }

#define EIGHT(x) (x), (x) + 1, (x) + 2, (x) + 3, (x) + 4, (x) + 5, (x) + 6, (x) + 7
_Alignas(64) static const uint8_t iota[64] = {EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56)};

/* The chosen bytes moved together. Some machines wait for what the destination held though all of it is replaced: it starts as a fresh
 * zero. */
INLINE __m512i compress(uint64_t chosen, __m512i x) {
  __m512i zero = _mm512_setzero_si512();
#ifndef ANNB_SIMDE
  __asm__("" : "+v"(zero));
#endif
  return _mm512_mask_compress_epi8(zero, chosen, x);
}

/* ---- unary ---- */

/* 8 bytes, zeros in place of those that are not there. */
INLINE uint64_t load_word(const uint8_t *p, size_t n) {
  return (uint64_t)_mm_cvtsi128_si64(_mm_maskz_loadu_epi8(first16(n < 8 ? n : 8), p));
}

AVX512 static bool unary(const uint8_t *bits, size_t size, size_t n, uint8_t *ones) {
  const __m512i step = _mm512_set1_epi8(64);
  __m512i places = load512(iota);
  uint8_t *at = ones, *end = ones + n;
  if (size > 0 && bits[size - 1] == 0) return false;
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word = load_word(bits + i, size - i);
    if (word == 0 || at > end) return false; /* a word writes 64 */
    store512(at, compress(word, places));
    at += __builtin_popcountll(word);
    places = _mm512_add_epi8(places, step);
  }
  if (at != end) return false;
  store512(end, _mm512_add_epi8(load512(iota), _mm512_set1_epi8((char)(end[-1] + 1))));
  return true;
}

/* ---- leading ids ---- */

INLINE void put_ids(__m512i x, uint16_t *narrow, uint32_t *wide) {
  if (narrow) {
    store512(narrow, x);
    return;
  }
  store512(wide, _mm512_cvtepu16_epi32(_mm512_castsi512_si256(x)));
  store512(wide + 16, _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(x, 1)));
}

INLINE __m512i compress16(uint32_t chosen, __m512i x) {
  __m512i zero = _mm512_setzero_si512();
#ifndef ANNB_SIMDE
  __asm__("" : "+v"(zero));
#endif
  return _mm512_mask_compress_epi16(zero, chosen, x);
}

/* To one of the two. Half a word at a time, which writes 32. */
INLINE size_t lead_of(const uint8_t *bits, size_t size, size_t n, uint32_t limit, const uint16_t *table, uint16_t *narrow, uint32_t *wide) {
  __m512i places = _mm512_cvtepu8_epi16(load256(iota));
  size_t done = 0, bit = 0;
  uint64_t word = UINT64_MAX;
  for (; done < n; bit += 64) {
    uint64_t before = word;
    if (bit >= limit || bit / 8 >= size) return 0;
    word = load_word(bits + bit / 8, size - bit / 8);
    if (word == 0 || annb_lead_far(word, before)) return 0;
    for (unsigned half = 0; half < 64; half += 32) {
      uint32_t chosen = (uint32_t)(word >> half);
      __m512i ids = compress16(chosen, table ? load512(table + bit + half) : places);
      put_ids(ids, narrow ? narrow + done : NULL, narrow ? NULL : wide + done);
      done += (size_t)__builtin_popcount(chosen);
      places = _mm512_add_epi16(places, _mm512_set1_epi16(32));
    }
  }
  bit = annb_lead_end(bit, word, done - n);
  return bit <= limit ? bit : 0;
}

AVX512 static size_t lead16(const uint8_t *bits, size_t size, size_t n, uint32_t limit, uint16_t *ids) {
  return lead_of(bits, size, n, limit, NULL, ids, NULL);
}

AVX512 static size_t lead32(const uint8_t *bits, size_t size, size_t n, uint32_t limit, const uint16_t *table, uint32_t *ids) {
  return lead_of(bits, size, n, limit, table, NULL, ids);
}

/* ---- codes of 16 bits ---- */

/* For 64 values of w ≤ 8 bits in 8w bytes: the 8 bytes in which each 8 values are. */
#define BYTES(w) {EIGHT(0), EIGHT(w), EIGHT(2 * (w)), EIGHT(3 * (w)), EIGHT(4 * (w)), EIGHT(5 * (w)), EIGHT(6 * (w)), EIGHT(7 * (w))}
_Alignas(64) static const uint8_t low_bytes[9][64] = {BYTES(0), BYTES(1), BYTES(2), BYTES(3), BYTES(4),
                                                          BYTES(5), BYTES(6), BYTES(7), BYTES(8)};

/* For 32 values of 9 bits: the two bytes in which each is, and where it starts in them. */
#define TWO(x) (x), (x) + 1
#define NINE(x) TWO(x), TWO((x) + 1), TWO((x) + 2), TWO((x) + 3), TWO((x) + 4), TWO((x) + 5), TWO((x) + 6), TWO((x) + 7)
_Alignas(64) static const uint8_t nine_bytes[64] = {NINE(0), NINE(9), NINE(18), NINE(27)};
_Alignas(64) static const uint16_t nine_shifts[32] = {EIGHT(0), EIGHT(0), EIGHT(0), EIGHT(0)};

/* 64 numbers of 16 bits. */
typedef struct pair {
  __m512i low, high;
} pair;

INLINE pair pair_of(__m512i bytes) {
  return (pair){_mm512_cvtepu8_epi16(_mm512_castsi512_si256(bytes)), _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(bytes, 1))};
}

INLINE pair pair_add(pair a, pair b) { return (pair){_mm512_add_epi16(a.low, b.low), _mm512_add_epi16(a.high, b.high)}; }

INLINE pair pair_first(pair a, size_t n) {
  return (pair){_mm512_maskz_mov_epi16(first32(n), a.low), _mm512_maskz_mov_epi16(first32(n > 32 ? n - 32 : 0), a.high)};
}

/* How the low parts of one group are found. */
typedef struct recipe {
  __m512i bytes, shifts, mask;
  __m128i k;
  unsigned width;
} recipe;

INLINE recipe recipe_for(unsigned k) {
  unsigned w = k <= 8 ? k : 0; /* nine is another way */
  __m512i shifts = _mm512_set1_epi64((long long)(w * UINT64_C(0x0706050403020100))), mask = _mm512_set1_epi8((char)((1u << w) - 1));
  return (recipe){load512(low_bytes[w]), shifts, mask, _mm_cvtsi32_si128((int)k), k};
}

INLINE __m512i nine_bits(const uint8_t *p) {
  __m512i x = _mm512_permutexvar_epi8(load512(nine_bytes), load512(p));
  return _mm512_and_si512(_mm512_srlv_epi16(x, load512(nine_shifts)), _mm512_set1_epi16(511));
}

/* 64 low parts, of which the first n matter; `p` is before the end of the low parts. */
INLINE pair low_parts(const recipe *r, const uint8_t *p, size_t n) {
  if (r->width > 8) return (pair){nine_bits(p), n > 32 ? nine_bits(p + 36) : _mm512_setzero_si512()};
  __m512i x = _mm512_permutexvar_epi8(r->bytes, load512(p));
  return pair_of(_mm512_and_si512(_mm512_multishift_epi64_epi8(r->shifts, x), r->mask));
}

/* 64 quotients as bytes. */
INLINE __m512i quotients(const uint8_t *ones) {
  return _mm512_sub_epi8(_mm512_sub_epi8(load512(ones), load512(ones - 1)), _mm512_set1_epi8(1));
}

INLINE pair codes_of(const recipe *r, __m512i q, const uint8_t *lows, size_t n) {
  pair high = pair_of(q);
  high = (pair){_mm512_sll_epi16(high.low, r->k), _mm512_sll_epi16(high.high, r->k)};
  return pair_add(high, low_parts(r, lows, n));
}

/* Quotients above 63 have one of the two top bits set. */
INLINE bool too_large(__m512i all) { return _mm512_test_epi8_mask(all, _mm512_set1_epi8((char)0xC0)) != 0; }

/* For lanes of 16 bits: the last of the 8 before, in the odd eights; the last of the 16 before, in the upper 16. */
#define SAME8(x) (x), (x), (x), (x), (x), (x), (x), (x)
_Alignas(64) static const uint16_t last_of_8[32] = {SAME8(0), SAME8(7), SAME8(0), SAME8(23)};
_Alignas(64) static const uint16_t last_of_16[32] = {SAME8(0), SAME8(0), SAME8(15), SAME8(15)};

/* Inclusive prefix sums mod 65536; they are right up to the first that passes 65535 (from where the product carries into the next lane). */
INLINE __m512i prefix16(__m512i x) {
  x = _mm512_mullo_epi64(x, _mm512_set1_epi64(0x0001000100010001));
  x = _mm512_add_epi16(x, _mm512_maskz_shuffle_epi8(UINT64_C(0xFF00FF00FF00FF00), x, _mm512_set1_epi16(0x0706)));
  x = _mm512_add_epi16(x, _mm512_maskz_permutexvar_epi16(0xFF00FF00u, load512(last_of_8), x));
  return _mm512_add_epi16(x, _mm512_maskz_permutexvar_epi16(0xFFFF0000u, load512(last_of_16), x));
}

INLINE __m512i last16(__m512i x) { return _mm512_permutexvar_epi16(_mm512_set1_epi16(31), x); }

/* What has been seen to be wrong: quotients, and sums that have passed 65535, which makes them less than what was added. */
typedef struct faults {
  __m512i quotients, wrapped;
} faults;

/* The sums of 64 gaps after the sum `base`, which moves on. Lanes from n on repeat the last sum. */
INLINE pair sums_of(const recipe *r, const uint8_t *ones, const uint8_t *lows, size_t n, pair step, __m512i *base, faults *f) {
  __m512i q = quotients(ones);
  pair gaps = pair_add(codes_of(r, q, lows, n), step);
  if (n < 64) {
    q = _mm512_maskz_mov_epi8(first64(n), q);
    gaps = pair_first(gaps, n);
  }
  pair sums = {prefix16(gaps.low), prefix16(gaps.high)};
  __m512i middle = _mm512_add_epi16(*base, last16(sums.low)), end = _mm512_add_epi16(middle, last16(sums.high));
  sums = pair_add(sums, (pair){*base, middle});
  f->quotients = _mm512_or_si512(f->quotients, q);
  f->wrapped = _mm512_or_si512(f->wrapped, _mm512_subs_epu16(gaps.low, sums.low));
  f->wrapped = _mm512_or_si512(f->wrapped, _mm512_subs_epu16(gaps.high, sums.high));
  *base = end;
  return sums;
}

/* The ids go to one of the two. */
INLINE bool ids_of(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint16_t *narrow, uint32_t *wide) {
  const __m512i steps = _mm512_set1_epi16((short)add);
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  __m512i base = _mm512_set1_epi16((short)seq->start);
  faults f = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    recipe r = recipe_for(annb_rice_param(seq, g));
    uint32_t n = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < n; i += 64, lows += 8 * r.width) {
      pair sums = sums_of(&r, ones + i, lows, n - i, (pair){steps, steps}, &base, &f);
      put_ids(_mm512_sub_epi16(sums.low, steps), narrow ? narrow + i : NULL, narrow ? NULL : wide + i);
      put_ids(_mm512_sub_epi16(sums.high, steps), narrow ? narrow + i + 32 : NULL, narrow ? NULL : wide + i + 32);
    }
    ones += n;
    if (narrow) narrow += n;
    else wide += n;
    left -= n;
  }
  return seq->n == 0 || (!too_large(f.quotients) && !any(f.wrapped) && (narrow ? narrow[-1] : wide[-1]) + add <= limit);
}

AVX512 static bool ids16(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint16_t *ids) {
  return ids_of(seq, add, limit, ids, NULL);
}

AVX512 static bool ids16_wide(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint32_t *ids) {
  return ids_of(seq, add, limit, NULL, ids);
}

AVX512 static bool codes16(const annb_rice_seq *seq, uint16_t *codes) {
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  __m512i all = _mm512_setzero_si512();
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    recipe r = recipe_for(annb_rice_param(seq, g));
    uint32_t n = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < n; i += 64, lows += 8 * r.width) {
      __m512i q = quotients(ones + i);
      pair x = codes_of(&r, q, lows, n - i);
      all = _mm512_or_si512(all, _mm512_maskz_mov_epi8(first64(n - i), q));
      store512(codes + i, x.low);
      store512(codes + i + 32, x.high);
    }
    ones += n;
    codes += n;
    left -= n;
  }
  return !too_large(all);
}

INLINE void put_floats(__m512i codes, __m512i base, uint8_t *out) {
  __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(codes)), high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(codes, 1));
  _mm512_storeu_ps(out, _mm512_cvtepi32_ps(_mm512_add_epi32(low, base)));
  _mm512_storeu_ps(out + 64, _mm512_cvtepi32_ps(_mm512_add_epi32(high, base)));
}

AVX512 static bool floats16(const annb_rice_seq *seq, size_t n, int32_t base, uint8_t *out) {
  const __m512i add = _mm512_set1_epi32(base);
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  __m512i all = _mm512_setzero_si512();
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    recipe r = recipe_for(annb_rice_param(seq, g));
    uint32_t in_group = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < in_group; i += 64, lows += 8 * r.width) {
      __m512i q = quotients(ones + i);
      pair x = codes_of(&r, q, lows, in_group - i);
      all = _mm512_or_si512(all, _mm512_maskz_mov_epi8(first64(in_group - i), q));
      put_floats(x.low, add, out + 4 * i);
      put_floats(x.high, add, out + 4 * i + 128);
    }
    ones += in_group;
    out += 4 * in_group;
    left -= in_group;
  }
  const __m512 rest = _mm512_cvtepi32_ps(add);
  for (size_t i = seq->n; i < n; i += 16, out += 64) _mm512_storeu_ps(out, rest);
  return !too_large(all);
}

/* ---- codes of 32 bits ---- */

/* For 16 values of up to 15 bits: the four bytes in which each is, where it starts in them, and its bits. */
typedef struct recipe32 {
  __m512i bytes, shifts, mask;
  __m128i k;
  unsigned width;
} recipe32;

INLINE recipe32 recipe32_for(unsigned k) {
  __m512i bit = _mm512_mullo_epi32(_mm512_cvtepu8_epi32(load128(iota)), _mm512_set1_epi32((int)k));
  __m512i at = _mm512_mullo_epi32(_mm512_srli_epi32(bit, 3), _mm512_set1_epi32(0x01010101)); /* at most 28, so that no byte carries */
  __m512i bytes = _mm512_add_epi8(at, _mm512_set1_epi32(0x03020100)), shifts = _mm512_and_si512(bit, _mm512_set1_epi32(7));
  return (recipe32){bytes, shifts, _mm512_set1_epi32((1 << k) - 1), _mm_cvtsi32_si128((int)k), k};
}

/* 16 codes; the quotients of the first n are added to *all. */
INLINE __m512i codes32_of(const recipe32 *r, const uint8_t *ones, const uint8_t *lows, size_t n, __m512i *all) {
  __m512i low = _mm512_srlv_epi32(_mm512_permutexvar_epi8(r->bytes, load512(lows)), r->shifts);
  __m128i q = _mm_sub_epi8(_mm_sub_epi8(load128(ones), load128(ones - 1)), _mm_set1_epi8(1));
  __m512i wide = _mm512_cvtepu8_epi32(q);
  *all = _mm512_or_si512(*all, _mm512_maskz_mov_epi32(first16(n), wide));
  return _mm512_add_epi32(_mm512_sll_epi32(wide, r->k), _mm512_and_si512(low, r->mask));
}

INLINE __m512i prefix32(__m512i x) {
  const __m512i last_of_4 = _mm512_setr_epi32(0, 0, 0, 0, 3, 3, 3, 3, 0, 0, 0, 0, 11, 11, 11, 11), last_of_8_lanes = _mm512_set1_epi32(7);
  x = _mm512_add_epi32(x, _mm512_bslli_epi128(x, 4));
  x = _mm512_add_epi32(x, _mm512_bslli_epi128(x, 8));
  x = _mm512_add_epi32(x, _mm512_maskz_permutexvar_epi32(0xF0F0, last_of_4, x));
  return _mm512_add_epi32(x, _mm512_maskz_permutexvar_epi32(0xFF00, last_of_8_lanes, x));
}

AVX512 static bool ids32(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint32_t *ids) {
  const __m512i step = _mm512_set1_epi32((int)add), last = _mm512_set1_epi32(15);
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  __m512i base = _mm512_set1_epi32((int)seq->start), all = _mm512_setzero_si512();
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    recipe32 r = recipe32_for(annb_rice_param(seq, g));
    uint32_t n = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < n; i += 16, lows += 2 * r.width) {
      __m512i sums = prefix32(_mm512_add_epi32(codes32_of(&r, ones + i, lows, n - i, &all), step));
      store512(ids + i, _mm512_sub_epi32(_mm512_add_epi32(sums, base), step));
      base = _mm512_add_epi32(base, _mm512_permutexvar_epi32(last, sums));
    }
    ones += n;
    ids += n;
    left -= n;
    /* no overflow before this: 128 codes, even of quotient 255, are below 2^31, the sum before them too */
    if (too_large(all) || ids[-1] + add > limit) return false;
  }
  return true;
}

AVX512 static bool codes32(const annb_rice_seq *seq, uint32_t *codes) {
  const uint8_t *lows = seq->lows, *ones = seq->ones;
  __m512i all = _mm512_setzero_si512();
  uint32_t left = seq->n;
  for (uint32_t g = 0; left > 0; g++) {
    recipe32 r = recipe32_for(annb_rice_param(seq, g));
    uint32_t n = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP;
    for (uint32_t i = 0; i < n; i += 16, lows += 2 * r.width) store512(codes + i, codes32_of(&r, ones + i, lows, n - i, &all));
    ones += n;
    codes += n;
    left -= n;
  }
  return !too_large(all);
}

/* ---- output ---- */

AVX512 static void map(const uint16_t *ids, size_t n, const uint16_t *table, uint32_t *out) { annb_map_words(ids, n, table, out); }

AVX512 static void to_f32(const uint16_t *codes, size_t n, int32_t base, uint8_t *out) {
  const __m512i add = _mm512_set1_epi32(base);
  for (size_t i = 0; i < n; i += 16) {
    __m512i x = _mm512_add_epi32(_mm512_cvtepu16_epi32(load256(codes + i)), add);
    _mm512_storeu_ps(out + 4 * i, _mm512_cvtepi32_ps(x));
  }
}

/* The largest lane of 16 bits. */
INLINE uint32_t largest16(__m512i x) {
  __m256i half = _mm256_max_epu16(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
  __m128i quarter = _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  __m128i least = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1)));
  return 0xFFFF ^ ((uint32_t)_mm_cvtsi128_si32(least) & 0xFFFF);
}

AVX512 static bool look_up(const uint16_t *codes, size_t n, const uint32_t *entries, uint32_t n_entries, uint8_t *out) {
  __m512i all = _mm512_setzero_si512();
  for (size_t i = 0; i < n; i += 32) all = _mm512_max_epu16(all, _mm512_maskz_loadu_epi16(first32(n - i), codes + i));
  if (largest16(all) >= n_entries) return false;
  annb_look_up_words(codes, n, entries, out);
  return true;
}

AVX512 static void sort(uint32_t *ids, uint16_t *codes, size_t n, size_t n_words, uint32_t *keys) {
  uint64_t words[ANNB_PLACE_WORDS];
  annb_mark_ids(ids, n, n_words, words);
  const __m512i id = _mm512_set1_epi32(0xffff);
  for (size_t i = 0; i < n; i += 16) {
    __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(load256(codes + i)), 16);
    store512(ids + i, _mm512_or_si512(load512(ids + i), high));
  }
  annb_place_keys(ids, n, n_words, words, keys);
  for (size_t i = 0; i < n; i += 16) {
    __m512i key = load512(keys + i);
    store512(ids + i, _mm512_and_si512(key, id));
    __m512i high = _mm512_srli_epi32(key, 16);
    __m256i packed = _mm256_packus_epi32(_mm512_castsi512_si256(high), _mm512_extracti64x4_epi64(high, 1));
    _mm256_storeu_si256((__m256i *)(void *)(codes + i), _mm256_permute4x64_epi64(packed, 0xD8));
  }
}

/* ---- marks ---- */

AVX512 static uint32_t narrow(const uint16_t *codes, size_t n, uint8_t *marks) {
  const __m512i most = _mm512_set1_epi16(254), one = _mm512_set1_epi16(1);
  __m512i all = _mm512_setzero_si512();
  for (size_t i = 0; i < n; i += 32) {
    __m512i x = _mm512_maskz_loadu_epi16(first32(n - i), codes + i);
    all = _mm512_max_epu16(all, x);
    _mm256_storeu_si256((__m256i *)(void *)(marks + i), _mm512_cvtepi16_epi8(_mm512_add_epi16(_mm512_min_epu16(x, most), one)));
  }
  return largest16(all);
}

AVX512 static void scatter(const uint16_t *ids, const uint8_t *marks, size_t n, const uint16_t *table, uint8_t *by_id) {
  annb_scatter_words(ids, marks, n, table, by_id);
}

AVX512 static void expand(uint8_t *by_id, size_t n, float *out) {
  size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (size_t j = i; j < i + 64; j += 16) _mm512_storeu_ps(out + j, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load128(by_id + j))));
    store512(by_id + i, _mm512_setzero_si512());
  }
  for (; i < n; i++) {
    out[i] = (float)by_id[i];
    by_id[i] = 0;
  }
}

const annb_kernel annb_kernel_avx512 = {"avx512", usable, HASH64, unary,  lead16,  lead32, ids16,  ids32,   ids16_wide, codes16,
                                        codes32,  floats16, map,    to_f32, look_up, sort,   narrow, scatter, expand};

#else
typedef int annb_no_avx512; /* a translation unit is not empty */
#endif
