/* Whole bytes in the manner of StreamVByte: two control bits for each number say 0, 1, 2 or 4 bytes; controls first, then bytes.
 * A row is its gaps - 1, then its counts - 1; the last four of each are filled up with zeros. */
#include "peers.h"

#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAVE_SHUFFLE 1
#endif

enum { FOUR = 4 };
static const uint8_t sizes[4] = {0, 1, 2, 4};

static unsigned code_of(uint32_t x) { return x == 0 ? 0 : x < 256 ? 1 : x < 65536 ? 2 : 3; }

static void put(uint32_t x, uint32_t i, uint8_t *controls, uint8_t **bytes) {
  unsigned code = code_of(x);
  controls[i / FOUR] |= (uint8_t)(code << i % FOUR * 2);
  memcpy(*bytes, &x, sizes[code]); /* little-endian */
  *bytes += sizes[code];
}

static size_t encode(const uint32_t *ids, const float *values, uint32_t n, uint8_t *out, size_t room) {
  size_t n_controls = (n + FOUR - 1) / FOUR;
  uint32_t last = UINT32_MAX;
  if (2 * n_controls + 8 * (size_t)n > room) return 0;
  memset(out, 0, 2 * n_controls);
  uint8_t *bytes = out + 2 * n_controls;
  for (uint32_t i = 0; i < n; i++) {
    put(ids[i] - last - 1, i, out, &bytes);
    last = ids[i];
  }
  for (uint32_t i = 0; i < n; i++) put((uint32_t)values[i] - 1, i, out + n_controls, &bytes);
  return (size_t)(bytes - out);
}

static void next_four(uint8_t control, const uint8_t **bytes, uint32_t x[FOUR]) {
  for (unsigned j = 0; j < FOUR; j++) {
    unsigned size = sizes[control >> 2 * j & 3];
    x[j] = 0;
    memcpy(&x[j], *bytes, size);
    *bytes += size;
  }
}

static bool decode_scalar(const uint8_t *in, size_t length, uint32_t n, uint32_t *ids, float *values) {
  size_t n_controls = (n + FOUR - 1) / FOUR;
  const uint8_t *bytes = in + 2 * n_controls;
  uint32_t x[FOUR], last = UINT32_MAX;
  for (uint32_t i = 0; i < n; i += FOUR) {
    next_four(in[i / FOUR], &bytes, x);
    for (unsigned j = 0; j < FOUR; j++) ids[i + j] = last += x[j] + 1;
  }
  for (uint32_t i = 0; i < n; i += FOUR) {
    next_four(in[n_controls + i / FOUR], &bytes, x);
    for (unsigned j = 0; j < FOUR; j++) values[i + j] = (float)(x[j] + 1);
  }
  return bytes == in + length;
}

#ifdef HAVE_SHUFFLE
/* Where each output byte of four numbers comes from, by control byte; 128 = zero. */
typedef struct shuffles {
  uint8_t from[256][16], size[256];
} shuffles;

static void make_shuffles(shuffles *t) {
  for (unsigned c = 0; c < 256; c++) {
    unsigned at = 0;
    memset(t->from[c], 128, 16);
    for (unsigned j = 0; j < FOUR; j++)
      for (unsigned k = 0; k < sizes[c >> 2 * j & 3]; k++) t->from[c][FOUR * j + k] = (uint8_t)at++;
    t->size[c] = (uint8_t)at;
  }
}

static inline __attribute__((target("ssse3"))) __m128i take_four(const shuffles *t, uint8_t control, const uint8_t **bytes) {
  __m128i x = _mm_shuffle_epi8(_mm_loadu_si128((const void *)*bytes), _mm_load_si128((const void *)t->from[control]));
  *bytes += t->size[control];
  return x;
}

static __attribute__((target("ssse3"))) bool decode_shuffle(const shuffles *t, const uint8_t *in, size_t length, uint32_t n, uint32_t *ids,
                                                             float *values) {
  size_t n_controls = (n + FOUR - 1) / FOUR;
  const uint8_t *bytes = in + 2 * n_controls;
  const __m128i one = _mm_set1_epi32(1);
  __m128i last = _mm_set1_epi32(-1);
  for (uint32_t i = 0; i < n; i += FOUR) {
    __m128i x = _mm_add_epi32(take_four(t, in[i / FOUR], &bytes), one);
    x = _mm_add_epi32(x, _mm_slli_si128(x, 4));
    x = _mm_add_epi32(x, _mm_slli_si128(x, 8));
    x = _mm_add_epi32(x, last);
    _mm_storeu_si128((void *)(ids + i), x);
    last = _mm_shuffle_epi32(x, 0xFF);
  }
  for (uint32_t i = 0; i < n; i += FOUR)
    _mm_storeu_ps(values + i, _mm_cvtepi32_ps(_mm_add_epi32(take_four(t, in[n_controls + i / FOUR], &bytes), one)));
  return bytes == in + length;
}

static bool decode(const uint8_t *in, size_t length, uint32_t n, uint32_t *ids, float *values) {
  static _Alignas(16) shuffles table; /* this program has one thread */
  if (!__builtin_cpu_supports("ssse3")) return decode_scalar(in, length, n, ids, values);
  if (!table.size[255]) make_shuffles(&table);
  return decode_shuffle(&table, in, length, n, ids, values);
}
#else
static bool decode(const uint8_t *in, size_t length, uint32_t n, uint32_t *ids, float *values) {
  return decode_scalar(in, length, n, ids, values);
}
#endif

const bench_peer bench_peer_bytes = {"bytes (0, 1, 2, 4)", "gaps and counts, per row", encode, decode};
