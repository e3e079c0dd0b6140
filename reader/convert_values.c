#include "convert_values.h"

#include <annblock/annblock.h>

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Every conversion is a load into one of three wide types, a step that clamps and converts there, and a store of the low bytes; in pieces
 * that stay in the nearest cache. */
enum { PIECE = 256 };

typedef union wide {
  int64_t i;
  uint64_t u;
  double d;
  float f;
} wide;

typedef enum wide_kind { WIDE_I, WIDE_U, WIDE_D } wide_kind;

/* ---- f16 ---- */

static double half_to_double(uint16_t h) {
  uint64_t sign = (uint64_t)(h >> 15) << 63, exponent = h >> 10 & 31, fraction = h & 0x3FF;
  if (exponent == 0) return (sign ? -1.0 : 1.0) * (double)fraction * 0x1p-24;
  uint64_t bits = sign | (exponent == 31 ? UINT64_C(0x7FF) : exponent - 15 + 1023) << 52 | fraction << 42;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Round to nearest, ties to even; finite values beyond the largest give the largest. */
static uint16_t half_from_double(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  unsigned sign = (unsigned)(bits >> 48) & 0x8000;
  bits &= UINT64_MAX >> 1;
  int exponent = (int)(bits >> 52) - 1023;
  uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
  if (exponent == 1024) return (uint16_t)(sign | 0x7C00 | (fraction ? 0x200 | (unsigned)(fraction >> 42) : 0));
  if (x > 65504 || x < -65504) return (uint16_t)(sign | 0x7BFF);
  if (exponent < -25) return (uint16_t)sign;
  unsigned drop = exponent >= -14 ? 42 : (unsigned)(28 - exponent);
  uint64_t all = fraction | UINT64_C(1) << 52, tie = UINT64_C(1) << (drop - 1);
  uint64_t kept = all >> drop, rest = all & (2 * tie - 1);
  if (rest > tie || (rest == tie && (kept & 1))) kept++;
  if (exponent >= -14) kept += (uint64_t)(exponent + 14) << 10; /* `kept` has the implicit bit: it makes the exponent one more */
  return (uint16_t)(sign | kept);
}

/* ---- loads ---- */

#define LOAD(name, type, field, expression)                      \
  static void load_##name(const uint8_t *in, size_t n, wide *out) { \
    for (size_t k = 0; k < n; k++) {                             \
      type v;                                                    \
      memcpy(&v, in + k * sizeof v, sizeof v);                   \
      out[k].field = (expression);                               \
    }                                                            \
  }

LOAD(bool, uint8_t, i, v != 0)
LOAD(i8, int8_t, i, v)
LOAD(i16, int16_t, i, v)
LOAD(i32, int32_t, i, v)
LOAD(i64, int64_t, i, v)
LOAD(u8, uint8_t, i, v)
LOAD(u16, uint16_t, i, v)
LOAD(u32, uint32_t, i, v)
LOAD(u64, uint64_t, u, v)
LOAD(f16, uint16_t, d, half_to_double(v))
LOAD(f32, float, d, (double)v)
LOAD(f64, double, d, v)

/* ---- steps: convert in place, the result in the low bytes; say whether all were exact ---- */

typedef struct range {
  int64_t min;
  uint64_t max;
} range;

static bool integer_from_i(wide *x, size_t n, range r) {
  int64_t max = r.max > INT64_MAX ? INT64_MAX : (int64_t)r.max;
  bool exact = true;
  for (size_t k = 0; k < n; k++) {
    int64_t y = x[k].i < r.min ? r.min : x[k].i > max ? max : x[k].i;
    exact &= y == x[k].i;
    x[k].i = y;
  }
  return exact;
}

static bool integer_from_u(wide *x, size_t n, range r) {
  bool exact = true;
  for (size_t k = 0; k < n; k++) {
    exact &= x[k].u <= r.max;
    if (x[k].u > r.max) x[k].u = r.max;
  }
  return exact;
}

static bool integer_from_d(wide *x, size_t n, range r) {
  double min = (double)r.min, end = (double)r.max + 1; /* a power of two: exact */
  bool exact = true;
  for (size_t k = 0; k < n; k++) {
    double v = x[k].d;
    if (v >= min && v < end) {
      x[k].u = v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
      exact &= (v < 0 ? (double)x[k].i : (double)x[k].u) == v;
    } else {
      x[k].u = v < min ? (uint64_t)r.min : v >= end ? r.max : 0;
      exact = false;
    }
  }
  return exact;
}

static bool to_integer(wide *x, size_t n, wide_kind kind, range r) {
  return kind == WIDE_I ? integer_from_i(x, n, r) : kind == WIDE_U ? integer_from_u(x, n, r) : integer_from_d(x, n, r);
}

static bool to_bool(wide *x, size_t n, wide_kind kind, range r) {
  (void)r;
  bool exact = true;
  for (size_t k = 0; k < n; k++) {
    bool zero = kind == WIDE_D ? x[k].d == 0 : x[k].u == 0, one = kind == WIDE_D ? x[k].d == 1 : x[k].u == 1;
    exact &= zero || one;
    x[k].u = !zero;
  }
  return exact;
}

/* An integer is exact in a floating-point type when it comes back; 2^63 and 2^64 cannot. */
static bool to_f32(wide *x, size_t n, wide_kind kind, range r) {
  (void)r;
  bool exact = true;
  for (size_t k = 0; k < n; k++) {
    wide v = x[k];
    if (kind == WIDE_I) {
      x[k].f = (float)v.i;
      exact &= (float)v.i < 0x1p63F && (int64_t)(float)v.i == v.i;
    } else if (kind == WIDE_U) {
      x[k].f = (float)v.u;
      exact &= (float)v.u < 0x1p64F && (uint64_t)(float)v.u == v.u;
    } else {
      double max = v.d > DBL_MAX || v.d < -DBL_MAX ? (double)INFINITY : (double)FLT_MAX;
      float y = (float)(v.d > max ? max : v.d < -max ? -max : v.d);
      x[k].f = y;
      exact &= (double)y == v.d || v.d != v.d;
    }
  }
  return exact;
}

static bool to_f64(wide *x, size_t n, wide_kind kind, range r) {
  (void)r;
  bool exact = true;
  for (size_t k = 0; k < n && kind != WIDE_D; k++) {
    wide v = x[k];
    double y = kind == WIDE_I ? (double)v.i : (double)v.u;
    exact &= kind == WIDE_I ? y < 0x1p63 && (int64_t)y == v.i : y < 0x1p64 && (uint64_t)y == v.u;
    x[k].d = y;
  }
  return exact;
}

static bool to_f16(wide *x, size_t n, wide_kind kind, range r) {
  bool exact = to_f64(x, n, kind, r);
  for (size_t k = 0; k < n; k++) {
    uint16_t h = half_from_double(x[k].d);
    exact &= half_to_double(h) == x[k].d || x[k].d != x[k].d;
    x[k].u = h;
  }
  return exact;
}

/* ---- stores ---- */

#define STORE(size, type)                                         \
  static void store_##size(const wide *in, size_t n, uint8_t *out) { \
    for (size_t k = 0; k < n; k++) {                              \
      type v = (type)in[k].u;                                     \
      memcpy(out + k * sizeof v, &v, sizeof v);                   \
    }                                                             \
  }

STORE(1, uint8_t)
STORE(2, uint16_t)
STORE(4, uint32_t)
STORE(8, uint64_t)

/* ---- sums: unsigned arithmetic, so that integers wrap ---- */

/* exact in double, rounded once; past the largest it is infinite, as in every floating-point sum */
static uint16_t half_sum(uint16_t a, uint16_t b) {
  double sum = half_to_double(a) + half_to_double(b);
  if (sum >= 65520 || sum <= -65520) sum *= (double)INFINITY;
  return half_from_double(sum);
}

#define ADD(name, type, expression)                       \
  static void add_##name(void *sum, const void *value) {  \
    type a, b;                                            \
    memcpy(&a, sum, sizeof a);                            \
    memcpy(&b, value, sizeof b);                          \
    a = (type)(expression);                               \
    memcpy(sum, &a, sizeof a);                            \
  }

ADD(bool, uint8_t, a || b)
ADD(1, uint8_t, a + b)
ADD(2, uint16_t, a + b)
ADD(4, uint32_t, a + b)
ADD(8, uint64_t, a + b)
ADD(f16, uint16_t, half_sum(a, b))
ADD(f32, float, a + b)
ADD(f64, double, a + b)

/* ---- the table ---- */

typedef struct dtype_row {
  void (*load)(const uint8_t *in, size_t n, wide *out);
  wide_kind kind; /* what `load` gives */
  bool (*step)(wide *x, size_t n, wide_kind kind, range r);
  range range; /* of integers */
  void (*store)(const wide *in, size_t n, uint8_t *out);
  void (*add)(void *sum, const void *value);
} dtype_row;

static const dtype_row rows[] = {
    [ANNB_BOOL] = {load_bool, WIDE_I, to_bool, {0, 1}, store_1, add_bool},
    [ANNB_I8] = {load_i8, WIDE_I, to_integer, {INT8_MIN, INT8_MAX}, store_1, add_1},
    [ANNB_I16] = {load_i16, WIDE_I, to_integer, {INT16_MIN, INT16_MAX}, store_2, add_2},
    [ANNB_I32] = {load_i32, WIDE_I, to_integer, {INT32_MIN, INT32_MAX}, store_4, add_4},
    [ANNB_I64] = {load_i64, WIDE_I, to_integer, {INT64_MIN, INT64_MAX}, store_8, add_8},
    [ANNB_U8] = {load_u8, WIDE_I, to_integer, {0, UINT8_MAX}, store_1, add_1},
    [ANNB_U16] = {load_u16, WIDE_I, to_integer, {0, UINT16_MAX}, store_2, add_2},
    [ANNB_U32] = {load_u32, WIDE_I, to_integer, {0, UINT32_MAX}, store_4, add_4},
    [ANNB_U64] = {load_u64, WIDE_U, to_integer, {0, UINT64_MAX}, store_8, add_8},
    [ANNB_F16] = {load_f16, WIDE_D, to_f16, {0, 0}, store_2, add_f16},
    [ANNB_F32] = {load_f32, WIDE_D, to_f32, {0, 0}, store_4, add_f32},
    [ANNB_F64] = {load_f64, WIDE_D, to_f64, {0, 0}, store_8, add_f64},
};

static size_t first_inexact(const dtype_row *from, const dtype_row *to, const uint8_t *in, size_t n, size_t size) {
  for (size_t k = 0; k < n; k++) {
    wide x;
    from->load(in + k * size, 1, &x);
    if (!to->step(&x, 1, from->kind, to->range)) return k;
  }
  return n;
}

bool annb_convert_values(annb_dtype from, annb_dtype to, bool allow_lossy, const void *in, size_t n, void *out, size_t *bad) {
  size_t size_in = annb_dtype_size(from), size_out = annb_dtype_size(to);
  const uint8_t *source = in;
  uint8_t *target = out;
  if (from == to) {
    if (n) memcpy(out, in, n * size_in);
    return true;
  }
  for (size_t at = 0; at < n; at += PIECE) {
    wide x[PIECE];
    size_t k = n - at < PIECE ? n - at : PIECE;
    rows[from].load(source + at * size_in, k, x);
    if (!rows[to].step(x, k, rows[from].kind, rows[to].range) && !allow_lossy) {
      *bad = at + first_inexact(&rows[from], &rows[to], source + at * size_in, k, size_in);
      return false;
    }
    rows[to].store(x, k, target + at * size_out);
  }
  return true;
}

void annb_add_value(annb_dtype dtype, void *sum, const void *value) { rows[dtype].add(sum, value); }

void annb_value_text(annb_dtype dtype, const void *value, char text[32]) {
  wide x;
  rows[dtype].load(value, 1, &x);
  if (rows[dtype].kind == WIDE_I) snprintf(text, 32, "%" PRId64, x.i);
  else if (rows[dtype].kind == WIDE_U) snprintf(text, 32, "%" PRIu64, x.u);
  else snprintf(text, 32, "%.17g", x.d);
}

/* ---- dtypes that join ---- */

static bool is_float(annb_dtype d) { return d >= ANNB_F16; }
static bool is_unsigned(annb_dtype d) { return d >= ANNB_U8 && d <= ANNB_U64; }

/* Whether every value of `from` is exact in `to`. */
static bool holds(annb_dtype to, annb_dtype from) {
  uint32_t to_size = annb_dtype_size(to), from_size = annb_dtype_size(from);
  if (to == from) return true;
  if (to == ANNB_BOOL || from == ANNB_BOOL || (is_float(from) && !is_float(to))) return false;
  if (is_float(to)) return is_float(from) ? from_size <= to_size : 2 * from_size <= to_size;
  if (is_unsigned(from) == is_unsigned(to)) return from_size <= to_size;
  return is_unsigned(from) && from_size < to_size;
}

annb_dtype annb_common_dtype(annb_dtype a, annb_dtype b) {
  static const annb_dtype by_size[] = {ANNB_BOOL, ANNB_I8,  ANNB_U8,  ANNB_I16, ANNB_U16, ANNB_F16,
                                       ANNB_I32,  ANNB_U32, ANNB_F32, ANNB_I64, ANNB_U64, ANNB_F64};
  for (size_t i = 0; i < sizeof by_size / sizeof *by_size; i++)
    if (holds(by_size[i], a) && holds(by_size[i], b)) return by_size[i];
  return (annb_dtype)0;
}
