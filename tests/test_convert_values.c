/* Conversion of values: named cases at the edges of every range, and all 16-bit values. */
#include "../reader/convert_values.h"
#include "suite.h"

#include <annblock/annblock.h>

#include <check.h>
#include <float.h>
#include <math.h>
#include <string.h>

typedef union value {
  int8_t i8;
  int16_t i16;
  int32_t i32;
  int64_t i64;
  uint8_t u8;
  uint16_t u16;
  uint32_t u32;
  uint64_t u64;
  float f32;
  double f64;
} value;

typedef struct conversion_case {
  annb_dtype from, to;
  value in;
  bool exact;
  value out; /* with lossy values allowed */
} conversion_case;

#define I8(x) {.i8 = (x)}
#define I16(x) {.i16 = (x)}
#define I32(x) {.i32 = (x)}
#define I64(x) {.i64 = (x)}
#define U8(x) {.u8 = (x)}
#define U16(x) {.u16 = (x)}
#define U32(x) {.u32 = (x)}
#define U64(x) {.u64 = (x)}
#define F32(x) {.f32 = (x)}
#define F64(x) {.f64 = (x)}
#define H(x) {.u16 = (x)}
#define YES true
#define NO false

static const conversion_case cases[] = {
    /* integers to integers */
    {ANNB_I8, ANNB_U8, I8(-1), NO, U8(0)},
    {ANNB_I8, ANNB_U8, I8(127), YES, U8(127)},
    {ANNB_U8, ANNB_I8, U8(128), NO, I8(127)},
    {ANNB_I16, ANNB_I8, I16(-129), NO, I8(-128)},
    {ANNB_I16, ANNB_I8, I16(-128), YES, I8(-128)},
    {ANNB_I32, ANNB_I16, I32(32768), NO, I16(32767)},
    {ANNB_I32, ANNB_U16, I32(65536), NO, U16(65535)},
    {ANNB_I32, ANNB_U16, I32(65535), YES, U16(65535)},
    {ANNB_I64, ANNB_I32, I64(INT64_MIN), NO, I32(INT32_MIN)},
    {ANNB_I64, ANNB_U32, I64(4294967296), NO, U32(UINT32_MAX)},
    {ANNB_I64, ANNB_U64, I64(-1), NO, U64(0)},
    {ANNB_I64, ANNB_U64, I64(INT64_MAX), YES, U64(INT64_MAX)},
    {ANNB_U64, ANNB_I64, U64(UINT64_MAX), NO, I64(INT64_MAX)},
    {ANNB_U64, ANNB_I64, U64(INT64_MAX), YES, I64(INT64_MAX)},
    {ANNB_U64, ANNB_I8, U64(127), YES, I8(127)},
    {ANNB_U64, ANNB_U32, U64(UINT64_MAX), NO, U32(UINT32_MAX)},
    {ANNB_U32, ANNB_I64, U32(UINT32_MAX), YES, I64(UINT32_MAX)},
    /* bool */
    {ANNB_BOOL, ANNB_I64, U8(1), YES, I64(1)},
    {ANNB_BOOL, ANNB_F32, U8(7), YES, F32(1)},
    {ANNB_BOOL, ANNB_F16, U8(1), YES, H(0x3C00)},
    {ANNB_I32, ANNB_BOOL, I32(1), YES, U8(1)},
    {ANNB_I32, ANNB_BOOL, I32(-256), NO, U8(1)},
    {ANNB_U64, ANNB_BOOL, U64(UINT64_C(1) << 63), NO, U8(1)},
    {ANNB_F64, ANNB_BOOL, F64(0.25), NO, U8(1)},
    {ANNB_F64, ANNB_BOOL, F64(-0.0), YES, U8(0)},
    {ANNB_F32, ANNB_BOOL, F32(1), YES, U8(1)},
    /* integers to floating point */
    {ANNB_I32, ANNB_F32, I32(16777216), YES, F32(16777216)},
    {ANNB_I32, ANNB_F32, I32(16777217), NO, F32(16777216)},
    {ANNB_I32, ANNB_F32, I32(-16777217), NO, F32(-16777216)},
    {ANNB_I32, ANNB_F32, I32(INT32_MIN), YES, F32(-0x1p31F)},
    {ANNB_I32, ANNB_F32, I32(INT32_MAX), NO, F32(0x1p31F)},
    {ANNB_I64, ANNB_F32, I64(INT64_MAX), NO, F32(0x1p63F)},
    {ANNB_I64, ANNB_F64, I64(9007199254740992), YES, F64(0x1p53)},
    {ANNB_I64, ANNB_F64, I64(9007199254740993), NO, F64(0x1p53)},
    {ANNB_I64, ANNB_F64, I64(INT64_MIN), YES, F64(-0x1p63)},
    {ANNB_I64, ANNB_F64, I64(INT64_MAX), NO, F64(0x1p63)},
    {ANNB_U64, ANNB_F64, U64(UINT64_MAX), NO, F64(0x1p64)},
    {ANNB_U64, ANNB_F64, U64(UINT64_C(1) << 63), YES, F64(0x1p63)},
    {ANNB_U64, ANNB_F32, U64(UINT64_MAX), NO, F32(0x1p64F)},
    {ANNB_U64, ANNB_F32, U64(UINT64_C(0xFFFFFF) << 40), YES, F32(0xFFFFFFp40F)},
    {ANNB_I32, ANNB_F16, I32(2048), YES, H(0x6800)},
    {ANNB_I32, ANNB_F16, I32(2049), NO, H(0x6800)},
    {ANNB_I32, ANNB_F16, I32(2051), NO, H(0x6802)},
    {ANNB_I32, ANNB_F16, I32(65504), YES, H(0x7BFF)},
    {ANNB_I32, ANNB_F16, I32(65505), NO, H(0x7BFF)},
    {ANNB_I32, ANNB_F16, I32(-2000000000), NO, H(0xFBFF)},
    {ANNB_U64, ANNB_F16, U64(UINT64_MAX), NO, H(0x7BFF)},
    {ANNB_U64, ANNB_F16, U64(3), YES, H(0x4200)},
    /* floating point to integers */
    {ANNB_F64, ANNB_I8, F64(127), YES, I8(127)},
    {ANNB_F64, ANNB_I8, F64(127.5), NO, I8(127)},
    {ANNB_F64, ANNB_I8, F64(128), NO, I8(127)},
    {ANNB_F64, ANNB_I8, F64(-128), YES, I8(-128)},
    {ANNB_F64, ANNB_I8, F64(-128.5), NO, I8(-128)},
    {ANNB_F64, ANNB_I8, F64(-1.5), NO, I8(-1)},
    {ANNB_F64, ANNB_U8, F64(-0.5), NO, U8(0)},
    {ANNB_F64, ANNB_U8, F64(-0.0), YES, U8(0)},
    {ANNB_F64, ANNB_I32, F64((double)NAN), NO, I32(0)},
    {ANNB_F64, ANNB_I32, F64((double)INFINITY), NO, I32(INT32_MAX)},
    {ANNB_F64, ANNB_I32, F64(-(double)INFINITY), NO, I32(INT32_MIN)},
    {ANNB_F64, ANNB_I64, F64(0x1p63), NO, I64(INT64_MAX)},
    {ANNB_F64, ANNB_I64, F64(-0x1p63), YES, I64(INT64_MIN)},
    {ANNB_F64, ANNB_I64, F64(0x1.fffffffffffffp62), YES, I64(INT64_C(9223372036854774784))},
    {ANNB_F64, ANNB_U64, F64(0x1p64), NO, U64(UINT64_MAX)},
    {ANNB_F64, ANNB_U64, F64(0x1p63), YES, U64(UINT64_C(1) << 63)},
    {ANNB_F64, ANNB_U64, F64(1e300), NO, U64(UINT64_MAX)},
    {ANNB_F32, ANNB_U16, F32(65535), YES, U16(65535)},
    {ANNB_F32, ANNB_U16, F32(65536), NO, U16(65535)},
    {ANNB_F32, ANNB_U32, F32(0x1p32F), NO, U32(UINT32_MAX)},
    {ANNB_F16, ANNB_I8, H(0x5800), NO, I8(127)},
    {ANNB_F16, ANNB_U8, H(0x5800), YES, U8(128)},
    {ANNB_F16, ANNB_U16, H(0x7C00), NO, U16(65535)},
    /* floating point to floating point */
    {ANNB_F64, ANNB_F32, F64(0.5), YES, F32(0.5F)},
    {ANNB_F64, ANNB_F32, F64(0.1), NO, F32(0.1F)},
    {ANNB_F64, ANNB_F32, F64(-0.0), YES, F32(-0.0F)},
    {ANNB_F64, ANNB_F32, F64(1e300), NO, F32(FLT_MAX)},
    {ANNB_F64, ANNB_F32, F64(-1e300), NO, F32(-FLT_MAX)},
    {ANNB_F64, ANNB_F32, F64((double)INFINITY), YES, F32((float)INFINITY)},
    {ANNB_F64, ANNB_F32, F64(0x1p-149), YES, F32(0x1p-149F)},
    {ANNB_F64, ANNB_F32, F64(0x1p-150), NO, F32(0)},
    {ANNB_F32, ANNB_F64, F32(0.1F), YES, F64((double)0.1F)},
    {ANNB_F32, ANNB_F64, F32(-(float)INFINITY), YES, F64(-(double)INFINITY)},
    {ANNB_F64, ANNB_F16, F64(65504), YES, H(0x7BFF)},
    {ANNB_F64, ANNB_F16, F64(65520), NO, H(0x7BFF)},
    {ANNB_F64, ANNB_F16, F64((double)INFINITY), YES, H(0x7C00)},
    {ANNB_F64, ANNB_F16, F64(0x1p-24), YES, H(1)},
    {ANNB_F64, ANNB_F16, F64(0x1p-25), NO, H(0)},
    {ANNB_F64, ANNB_F16, F64(0x1.8p-25), NO, H(1)},
    {ANNB_F64, ANNB_F16, F64(-0x1p-26), NO, H(0x8000)},
    {ANNB_F64, ANNB_F16, F64(0x1.ffcp-15), NO, H(0x400)},
    {ANNB_F64, ANNB_F16, F64(0x1.ff8p-15), YES, H(0x3FF)},
    {ANNB_F64, ANNB_F16, F64(-0.0), YES, H(0x8000)},
    {ANNB_F32, ANNB_F16, F32(0.1F), NO, H(0x2E66)},
    {ANNB_F32, ANNB_F16, F32(1.0F + 0x1p-11F), NO, H(0x3C00)},
    {ANNB_F32, ANNB_F16, F32(1.0F + 0x1.8p-10F), NO, H(0x3C02)},
    {ANNB_F16, ANNB_F32, H(0x8001), YES, F32(-0x1p-24F)},
};

START_TEST(each_case) {
  const conversion_case *c = &cases[_i];
  value out;
  size_t bad = 99, size = annb_dtype_size(c->to);
  bool exact = annb_convert_values(c->from, c->to, false, &c->in, 1, &out, &bad);
  ck_assert_msg(exact == c->exact, "case %d: %s to %s", _i, annb_dtype_name(c->from), annb_dtype_name(c->to));
  if (exact) ck_assert_mem_eq(&out, &c->out, size);
  else ck_assert_uint_eq(bad, 0);
  ck_assert(annb_convert_values(c->from, c->to, true, &c->in, 1, &out, &bad));
  ck_assert_msg(!memcmp(&out, &c->out, size), "case %d: lossy %s to %s", _i, annb_dtype_name(c->from), annb_dtype_name(c->to));
}
END_TEST

static double half_value(unsigned h) {
  double sign = h & 0x8000 ? -1 : 1;
  int exponent = (int)(h >> 10 & 31);
  double fraction = (double)(h & 1023);
  if (exponent == 31) return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
  return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

/* Every f16 is what its bits say, and comes back from f32 and f64. */
START_TEST(all_halves) {
  for (unsigned h = 0; h < 65536; h++) {
    uint16_t in = (uint16_t)h, back;
    size_t bad;
    float f;
    double d, expected = half_value(h);
    ck_assert(annb_convert_values(ANNB_F16, ANNB_F64, false, &in, 1, &d, &bad));
    ck_assert(annb_convert_values(ANNB_F16, ANNB_F32, false, &in, 1, &f, &bad));
    ck_assert(isnan(expected) ? isnan(d) && isnan(f) : d == expected && (double)f == expected);
    ck_assert(annb_convert_values(ANNB_F64, ANNB_F16, false, &d, 1, &back, &bad));
    ck_assert(isnan(expected) ? isnan(half_value(back)) : back == in);
    ck_assert(annb_convert_values(ANNB_F32, ANNB_F16, false, &f, 1, &back, &bad));
    ck_assert(isnan(expected) ? isnan(half_value(back)) : back == in);
  }
}
END_TEST

/* Numbers between two neighbours go to the nearer, and to the even one from the middle. */
START_TEST(halves_round_to_nearest_even) {
  for (unsigned h = 0; h < 0x7BFF; h++) {
    double low = half_value(h), high = half_value(h + 1), middle = (low + high) / 2;
    double in[3] = {nextafter(middle, low), middle, nextafter(middle, high)};
    uint16_t out[3];
    size_t bad;
    ck_assert(annb_convert_values(ANNB_F64, ANNB_F16, true, in, 3, out, &bad));
    ck_assert_uint_eq(out[0], h);
    ck_assert_uint_eq(out[1], h + (h & 1));
    ck_assert_uint_eq(out[2], h + 1);
    ck_assert(!annb_convert_values(ANNB_F64, ANNB_F16, false, in, 3, out, &bad));
    ck_assert_uint_eq(bad, 0);
  }
}
END_TEST

/* All 16-bit integers to every dtype and back; what is exact is what comes back. */
START_TEST(all_sixteen_bit_integers) {
  static const annb_dtype froms[] = {ANNB_I16, ANNB_U16};
  static uint16_t in[65536], back[65536];
  static uint64_t out[65536];
  for (unsigned i = 0; i < 65536; i++) in[i] = (uint16_t)i;
  for (int k = 0; k < 2; k++) {
    for (int to = ANNB_BOOL; to <= ANNB_F64; to++) {
      size_t bad = 0, none, size = annb_dtype_size((annb_dtype)to);
      ck_assert(annb_convert_values(froms[k], (annb_dtype)to, true, in, 65536, out, &none));
      ck_assert(annb_convert_values((annb_dtype)to, froms[k], true, out, 65536, back, &none));
      size_t first = 0;
      while (first < 65536 && back[first] == in[first]) first++;
      bool exact = annb_convert_values(froms[k], (annb_dtype)to, false, in, 65536, out, &bad);
      ck_assert_msg(exact == (first == 65536), "to %s", annb_dtype_name((annb_dtype)to));
      if (!exact) ck_assert_uint_eq(bad, first);
      ck_assert_uint_le(size, 8);
    }
  }
}
END_TEST

/* The first bad value is found wherever it is; equal dtypes keep all bits; nothing needs alignment. */
START_TEST(position_and_bits) {
  double in[1000];
  float out[1000];
  size_t bad = 0;
  for (size_t n = 0; n < 1000; n += 37) {
    for (size_t i = 0; i < 1000; i++) in[i] = (double)i;
    in[n] = in[999] = 0.1;
    ck_assert(!annb_convert_values(ANNB_F64, ANNB_F32, false, in, 1000, out, &bad));
    ck_assert_uint_eq(bad, n);
    ck_assert(annb_convert_values(ANNB_F64, ANNB_F32, false, in, n, out, &bad));
  }
  static const uint8_t bools[] = {0, 1, 2, 255};
  uint8_t same[4], bytes[1 + 3 * 8], moved[1 + 3 * 4];
  ck_assert(annb_convert_values(ANNB_BOOL, ANNB_BOOL, false, bools, 4, same, &bad));
  ck_assert_mem_eq(bools, same, 4);
  for (size_t i = 0; i < 3; i++) memcpy(bytes + 1 + i * 8, &(double){(double)i + 0.5}, 8);
  ck_assert(annb_convert_values(ANNB_F64, ANNB_F32, false, bytes + 1, 3, moved + 1, &bad));
  for (size_t i = 0; i < 3; i++) ck_assert_mem_eq(moved + 1 + i * 4, &(float){(float)i + 0.5F}, 4);
}
END_TEST

START_TEST(sums) {
  int8_t a = 127, b = 1;
  annb_add_value(ANNB_I8, &a, &b);
  ck_assert_int_eq(a, -128);
  uint32_t c = UINT32_MAX, d = 2;
  annb_add_value(ANNB_U32, &c, &d);
  ck_assert_uint_eq(c, 1);
  int64_t e = INT64_MAX, f = 1;
  annb_add_value(ANNB_I64, &e, &f);
  ck_assert(e == INT64_MIN);
  uint8_t g = 1, h = 1;
  annb_add_value(ANNB_BOOL, &g, &h);
  ck_assert_uint_eq(g, 1);
  uint16_t i = 0x3C00, j = 0x1000; /* 1 + 2^-11 rounds to 1 */
  annb_add_value(ANNB_F16, &i, &j);
  ck_assert_uint_eq(i, 0x3C00);
  i = j = 0x7BFF;
  annb_add_value(ANNB_F16, &i, &j);
  ck_assert_uint_eq(i, 0x7C00);
  float k = 16777216, l = 1;
  annb_add_value(ANNB_F32, &k, &l);
  ck_assert(k == 16777216.0F);
  double m = 0.25, n = 0.5;
  annb_add_value(ANNB_F64, &m, &n);
  ck_assert(m == 0.75);
}
END_TEST

START_TEST(texts) {
  char text[32];
  annb_value_text(ANNB_I8, &(int8_t){-5}, text);
  ck_assert_str_eq(text, "-5");
  annb_value_text(ANNB_U64, &(uint64_t){UINT64_MAX}, text);
  ck_assert_str_eq(text, "18446744073709551615");
  annb_value_text(ANNB_F32, &(float){0.5F}, text);
  ck_assert_str_eq(text, "0.5");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("convert_values");
  TCase *tc = tcase_create("convert_values");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, each_case, 0, (int)(sizeof cases / sizeof *cases));
  tcase_add_test(tc, all_halves);
  tcase_add_test(tc, halves_round_to_nearest_even);
  tcase_add_test(tc, all_sixteen_bit_integers);
  tcase_add_test(tc, position_and_bits);
  tcase_add_test(tc, sums);
  tcase_add_test(tc, texts);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
