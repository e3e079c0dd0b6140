#include "where.h"

#include "../convert_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOP (UINT64_C(1) << 63)
#define KEY_PLUS_INFINITY UINT64_C(0xFFF0000000000000)
#define KEY_MINUS_INFINITY (~KEY_PLUS_INFINITY)
enum { MOST_DIGITS = 1200 }; /* what decides about the nearest double is in the first 770 */

static bool is_signed(annb_dtype dtype) { return dtype >= ANNB_I8 && dtype <= ANNB_I64; }
static bool is_float(annb_dtype dtype) { return dtype == ANNB_F16 || dtype == ANNB_F32 || dtype == ANNB_F64; }

/* ---- keys ---- */

static uint64_t double_key(double x) {
  uint64_t bits;
  if (x == 0) x = 0; /* −0.0 */
  memcpy(&bits, &x, sizeof bits);
  return bits & TOP ? ~bits : bits | TOP;
}

void annb_where_limits(annb_dtype dtype, uint64_t *least, uint64_t *most) {
  *least = is_float(dtype) ? KEY_MINUS_INFINITY : 0;
  *most = is_float(dtype) ? KEY_PLUS_INFINITY : UINT64_MAX;
}

#define LOOP(type, expression)                              \
  for (size_t i = 0; i < n; i++) {                          \
    type x;                                                 \
    memcpy(&x, (const uint8_t *)values + i * sizeof x, sizeof x); \
    keys[i] = (expression);                                 \
  }

void annb_where_keys(annb_dtype dtype, const void *values, size_t n, uint64_t *keys) {
  double wide;
  size_t bad;
  switch (dtype) {
    case ANNB_BOOL: LOOP(uint8_t, x != 0) break;
    case ANNB_I8: LOOP(int8_t, (uint64_t)x ^ TOP) break;
    case ANNB_I16: LOOP(int16_t, (uint64_t)x ^ TOP) break;
    case ANNB_I32: LOOP(int32_t, (uint64_t)x ^ TOP) break;
    case ANNB_I64: LOOP(int64_t, (uint64_t)x ^ TOP) break;
    case ANNB_U8: LOOP(uint8_t, x) break;
    case ANNB_U16: LOOP(uint16_t, x) break;
    case ANNB_U32: LOOP(uint32_t, x) break;
    case ANNB_U64: LOOP(uint64_t, x) break;
    case ANNB_F32: LOOP(float, double_key((double)x)) break;
    case ANNB_F64: LOOP(double, double_key(x)) break;
    default: /* f16 */
      for (size_t i = 0; i < n; i++) {
        annb_convert_values(ANNB_F16, ANNB_F64, true, (const uint8_t *)values + 2 * i, 1, &wide, &bad);
        keys[i] = double_key(wide);
      }
  }
}

/* ---- decimal numbers ---- */

/* ± 0.d1 d2 … × 10^point, the first digit not 0; n = 0: zero. */
typedef struct decimal {
  bool negative, more; /* more: digits other than 0 were left out */
  int64_t point;
  size_t n;
  char digits[MOST_DIGITS];
} decimal;

static void add_digit(decimal *d, char digit, bool behind_point) {
  if (!d->n && digit == '0') {
    if (behind_point) d->point--;
    return;
  }
  if (!behind_point) d->point++;
  if (d->n < MOST_DIGITS) d->digits[d->n++] = digit;
  else d->more |= digit != '0';
}

static void read_decimal(const char *text, size_t length, decimal *d) {
  const char *end = text + length;
  bool behind = false, down = false;
  int64_t power = 0;
  d->negative = *text == '-';
  d->more = false;
  d->point = 0;
  d->n = 0;
  if (*text == '-' || *text == '+') text++;
  for (; text < end && *text != 'e' && *text != 'E'; text++) {
    if (*text == '.') behind = true;
    else add_digit(d, *text, behind);
  }
  if (text < end) text++;
  if (text < end && (*text == '-' || *text == '+')) down = *text++ == '-';
  for (; text < end; text++)
    if (power < 100000000) power = 10 * power + (*text - '0');
  d->point += down ? -power : power;
}

/* ---- integers ---- */

/* Its whole part; *beyond: above 2^64 − 1; *fraction: what is behind the point is not 0. */
static uint64_t whole(const decimal *d, bool *beyond, bool *fraction) {
  uint64_t x = 0;
  *beyond = d->n && d->point > 20;
  *fraction = d->more && d->point < MOST_DIGITS;
  for (int64_t i = 0; !*beyond && i < d->point; i++) {
    uint64_t digit = i < (int64_t)d->n ? (uint64_t)(d->digits[i] - '0') : 0;
    *beyond = __builtin_mul_overflow(x, (uint64_t)10, &x) || __builtin_add_overflow(x, digit, &x);
  }
  for (int64_t i = d->point > 0 ? d->point : 0; i < (int64_t)d->n; i++) *fraction |= d->digits[i] != '0';
  return x;
}

static annb_where_place find_integer(annb_dtype dtype, const decimal *d) {
  static const annb_where_place below = {.below_all = true}, above = {.above_all = true};
  bool beyond, fraction;
  uint64_t x = whole(d, &beyond, &fraction);
  if (!d->n || (!d->negative && !beyond && !is_signed(dtype)))
    return (annb_where_place){.floor = is_signed(dtype) ? TOP : x, .exact = !fraction};
  if (!is_signed(dtype)) return d->negative ? below : above;
  if (!d->negative) return beyond || x >= TOP ? above : (annb_where_place){.floor = x ^ TOP, .exact = !fraction};
  if (!beyond && fraction) x++; /* the floor of a negative number; 2^64 − 1 cannot be here with a fraction and matter */
  return beyond || x > TOP || (fraction && !x) ? below : (annb_where_place){.floor = TOP - x, .exact = !fraction};
}

/* ---- floats ---- */

/* The nearest of the type, as a double. Without a decimal point the text is read alike in every locale. */
static double nearest(annb_dtype dtype, const decimal *d) {
  char text[MOST_DIGITS + 48], *at = text;
  size_t bad;
  uint16_t half;
  double x;
  if (d->negative) *at++ = '-';
  memcpy(at, d->digits, d->n);
  at += d->n;
  int64_t power = d->point - (int64_t)d->n;
  if (d->more) { /* a digit that is not 0, so that ties are none */
    *at++ = '1';
    power--;
  }
  *at++ = 'e';
  if (power < 0) *at++ = '-';
  char digits[24], *digit = digits + sizeof digits;
  uint64_t rest = power < 0 ? (uint64_t)-power : (uint64_t)power;
  do *--digit = (char)('0' + rest % 10);
  while (rest /= 10);
  memcpy(at, digit, (size_t)(digits + sizeof digits - digit));
  at[digits + sizeof digits - digit] = 0;
  if (dtype == ANNB_F32) return (double)strtof(text, NULL);
  x = strtod(text, NULL);
  if (dtype != ANNB_F16) return x;
  if (x >= 65520 || x <= -65520) return x < 0 ? -HUGE_VAL : HUGE_VAL;
  annb_convert_values(ANNB_F64, ANNB_F16, true, &x, 1, &half, &bad);
  annb_convert_values(ANNB_F16, ANNB_F64, true, &half, 1, &x, &bad);
  return x;
}

/* A literal too large for the type stands between its largest number and infinity. */
static annb_where_place find_float(annb_dtype dtype, const decimal *d) {
  double x = d->n ? nearest(dtype, d) : 0;
  if (x == HUGE_VAL) return (annb_where_place){.floor = KEY_PLUS_INFINITY - 1};
  if (x == -HUGE_VAL) return (annb_where_place){.floor = KEY_MINUS_INFINITY};
  return (annb_where_place){.floor = double_key(x), .exact = true};
}

annb_where_place annb_where_find(annb_dtype dtype, const char *number, size_t length) {
  decimal d;
  read_decimal(number, length, &d);
  return is_float(dtype) ? find_float(dtype, &d) : find_integer(dtype, &d);
}
