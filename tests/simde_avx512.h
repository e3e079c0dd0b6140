/* SIMDe's AVX-512 in portable C, and what it lacks (0.7.4) of what the kernels use; plain loops over the lanes, masked loads that touch
 * only what the mask chooses. */
#ifndef ANNB_TESTS_SIMDE_AVX512_H
#define ANNB_TESTS_SIMDE_AVX512_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <stdint.h>
#include <string.h>

/* _mm512_NAME(x): lanes of FROM widened to lanes of TO. */
#define WIDEN(NAME, VECTOR, RESULT, FROM, TO)                                       \
  static inline RESULT emulated_##NAME(VECTOR x) {                                  \
    FROM from[sizeof(RESULT) / sizeof(TO)];                                         \
    TO to[sizeof(RESULT) / sizeof(TO)];                                             \
    RESULT r;                                                                       \
    memcpy(from, &x, sizeof from);                                                  \
    for (size_t i = 0; i < sizeof(RESULT) / sizeof(TO); i++) to[i] = (TO)from[i];   \
    memcpy(&r, to, sizeof r);                                                       \
    return r;                                                                       \
  }
WIDEN(cvtepu8_epi16, __m256i, __m512i, uint8_t, uint16_t)
WIDEN(cvtepu8_epi32, __m128i, __m512i, uint8_t, uint32_t)
WIDEN(cvtepu16_epi32, __m256i, __m512i, uint16_t, uint32_t)
WIDEN(cvtepi32_ps, __m512i, __m512, int32_t, float)
#undef WIDEN
#define _mm512_cvtepu8_epi16 emulated_cvtepu8_epi16
#define _mm512_cvtepu8_epi32 emulated_cvtepu8_epi32
#define _mm512_cvtepu16_epi32 emulated_cvtepu16_epi32
#define _mm512_cvtepi32_ps emulated_cvtepi32_ps

static inline __m512i emulated_mask_compress_epi8(__m512i source, uint64_t chosen, __m512i x) {
  uint8_t in[64], out[64];
  memcpy(in, &x, 64);
  memcpy(out, &source, 64);
  for (unsigned i = 0, n = 0; i < 64; i++)
    if (chosen >> i & 1) out[n++] = in[i];
  memcpy(&x, out, 64);
  return x;
}
#define _mm512_mask_compress_epi8 emulated_mask_compress_epi8

static inline __m512i emulated_mask_compress_epi16(__m512i source, uint32_t chosen, __m512i x) {
  uint16_t in[32], out[32];
  memcpy(in, &x, 64);
  memcpy(out, &source, 64);
  for (unsigned i = 0, n = 0; i < 32; i++)
    if (chosen >> i & 1) out[n++] = in[i];
  memcpy(&x, out, 64);
  return x;
}
#define _mm512_mask_compress_epi16 emulated_mask_compress_epi16

static inline __m128i emulated_128_maskz_loadu_epi8(uint16_t chosen, const void *p) {
  uint8_t out[16] = {0};
  __m128i r;
  for (unsigned i = 0; i < 16; i++)
    if (chosen >> i & 1) out[i] = ((const uint8_t *)p)[i];
  memcpy(&r, out, 16);
  return r;
}
#define _mm_maskz_loadu_epi8 emulated_128_maskz_loadu_epi8

static inline __m512i emulated_maskz_loadu_epi16(uint32_t chosen, const void *p) {
  uint16_t out[32] = {0};
  __m512i r;
  for (unsigned i = 0; i < 32; i++)
    if (chosen >> i & 1) memcpy(&out[i], (const uint8_t *)p + 2 * i, 2);
  memcpy(&r, out, 64);
  return r;
}
#define _mm512_maskz_loadu_epi16 emulated_maskz_loadu_epi16

static inline __m512i emulated_bslli_epi128(__m512i x, unsigned n) {
  uint8_t in[64], out[64] = {0};
  memcpy(in, &x, 64);
  for (unsigned i = 0; i < 64; i++)
    if (i % 16 >= n) out[i] = in[i - n];
  memcpy(&x, out, 64);
  return x;
}
#define _mm512_bslli_epi128 emulated_bslli_epi128

/* SIMDe's own shifts by 64 bits, which C does not define. */
static inline __m512i emulated_multishift_epi64_epi8(__m512i shifts, __m512i x) {
  uint8_t shift[64], out[64];
  uint64_t in[8];
  memcpy(shift, &shifts, 64);
  memcpy(in, &x, 64);
  for (unsigned i = 0; i < 64; i++) {
    unsigned s = shift[i] & 63;
    out[i] = (uint8_t)(in[i / 8] >> s | (s ? in[i / 8] << (64 - s) : 0));
  }
  memcpy(&x, out, 64);
  return x;
}
#undef _mm512_multishift_epi64_epi8
#define _mm512_multishift_epi64_epi8 emulated_multishift_epi64_epi8

#endif
