#include "whole.h"

#include <string.h>

static float half_to_float(uint16_t half) {
  uint32_t exponent = half >> 10 & 31, mantissa = half & 1023u, bits;
  float x;
  if (exponent == 0) x = (float)mantissa * 0x1p-24f;
  else {
    bits = (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13;
    memcpy(&x, &bits, sizeof x);
  }
  return half >> 15 ? -x : x;
}

/* The half of a whole number, or of nothing: false. */
static bool half_of(int64_t x, uint16_t *half) {
  uint64_t size = x < 0 ? (uint64_t)-x : (uint64_t)x;
  uint32_t exponent = 25;
  *half = 0;
  if (x == 0) return true;
  if (size > 65504) return false;
  for (; size < 1024; exponent--) size <<= 1;
  for (; size > 2047; exponent++, size >>= 1)
    if (size & 1) return false;
  *half = (uint16_t)((x < 0 ? 0x8000u : 0) | exponent << 10 | (size & 1023));
  return true;
}

static bool whole_double(double d, bool negative, int64_t *x) {
  if (!(d > -0x1p62 && d < 0x1p62) || (d == 0 && negative)) return false;
  *x = (int64_t)d;
  return (double)*x == d;
}

#define GET(type)                                 \
  do {                                            \
    type v_;                                      \
    memcpy(&v_, p, sizeof v_);                    \
    *x = (int64_t)v_;                             \
  } while (0)

bool annb_whole_get(annb_dtype dtype, const uint8_t *p, int64_t *x) {
  float f;
  double d;
  uint16_t half;
  uint64_t u;
  switch (dtype) {
    case ANNB_BOOL:
    case ANNB_U8: *x = *p; return true;
    case ANNB_I8: GET(int8_t); return true;
    case ANNB_I16: GET(int16_t); return true;
    case ANNB_I32: GET(int32_t); return true;
    case ANNB_U16: GET(uint16_t); return true;
    case ANNB_U32: GET(uint32_t); return true;
    case ANNB_I64: GET(int64_t); return *x > -ANNB_WHOLE_MAX && *x < ANNB_WHOLE_MAX;
    case ANNB_U64:
      memcpy(&u, p, sizeof u);
      *x = (int64_t)(u & INT64_MAX);
      return u < (uint64_t)ANNB_WHOLE_MAX;
    case ANNB_F16:
      memcpy(&half, p, sizeof half);
      return whole_double((double)half_to_float(half), half >> 15, x);
    case ANNB_F32:
      memcpy(&f, p, sizeof f);
      return whole_double((double)f, p[3] >> 7, x);
    case ANNB_F64:
      memcpy(&d, p, sizeof d);
      return whole_double(d, p[7] >> 7, x);
  }
  return false;
}

#define PUT(type)                                 \
  do {                                            \
    type v_ = (type)x;                            \
    memcpy(p, &v_, sizeof v_);                    \
    return (int64_t)v_ == x;                      \
  } while (0)

bool annb_whole_put(annb_dtype dtype, int64_t x, uint8_t *p) {
  uint16_t half;
  uint64_t u = (uint64_t)x;
  switch (dtype) {
    case ANNB_BOOL:
    case ANNB_U8: PUT(uint8_t);
    case ANNB_I8: PUT(int8_t);
    case ANNB_I16: PUT(int16_t);
    case ANNB_I32: PUT(int32_t);
    case ANNB_U16: PUT(uint16_t);
    case ANNB_U32: PUT(uint32_t);
    case ANNB_I64: PUT(int64_t);
    case ANNB_U64: memcpy(p, &u, sizeof u); return x >= 0;
    case ANNB_F16:
      if (!half_of(x, &half)) return false;
      memcpy(p, &half, sizeof half);
      return true;
    case ANNB_F32: PUT(float);
    case ANNB_F64: PUT(double);
  }
  return false;
}
