#include "compare.h"

#include <stdio.h>
#include <string.h>

static void number(const char *name, long long a, long long b, char *what, size_t size) {
  if (a != b && !*what) snprintf(what, size, "%s %lld against %lld", name, a, b);
}

static void named(const char *name, const char *const names[], int n, int a, int b, char *what, size_t size) {
  if (a == b || *what) return;
  snprintf(what, size, "%s %s against %s", name, a >= 0 && a < n ? names[a] : "unknown", b >= 0 && b < n ? names[b] : "unknown");
}

/* "int32 against int64", with the byte order where that differs. False when these words are the same. */
static bool names_differ(hid_t a, hid_t b, char *what, size_t size) {
  char x[96], y[96];
  H5T_class_t class = H5Tget_class(a), other = H5Tget_class(b);
  bool numbers = (class == H5T_INTEGER || class == H5T_FLOAT) && (other == H5T_INTEGER || other == H5T_FLOAT);
  bool orders = numbers && H5Tget_order(a) != H5Tget_order(b);
  annb_type_text(a, orders, x, sizeof x);
  annb_type_text(b, orders, y, sizeof y);
  if (!strcmp(x, y)) return false;
  snprintf(what, size, "%s against %s", x, y);
  return true;
}

/* Integers, floats, bitfields, times. */
static void compare_atomic(hid_t a, hid_t b, char *what, size_t size) {
  static const char *const orders[] = {"little-endian", "big-endian", "VAX", "mixed", "none"};
  if (H5Tget_size(a) > 1) named("byte order", orders, 5, H5Tget_order(a), H5Tget_order(b), what, size);
  number("precision", (long long)H5Tget_precision(a), (long long)H5Tget_precision(b), what, size);
  number("bit offset", H5Tget_offset(a), H5Tget_offset(b), what, size);
  if (H5Tget_class(a) == H5T_INTEGER) number("sign", H5Tget_sign(a), H5Tget_sign(b), what, size);
  if (H5Tget_class(a) != H5T_FLOAT) return;
  size_t x[5] = {0}, y[5] = {0};
  H5Tget_fields(a, &x[0], &x[1], &x[2], &x[3], &x[4]);
  H5Tget_fields(b, &y[0], &y[1], &y[2], &y[3], &y[4]);
  if (memcmp(x, y, sizeof x)) number("float layout", 0, 1, what, size);
  number("exponent bias", (long long)H5Tget_ebias(a), (long long)H5Tget_ebias(b), what, size);
}

static void compare_string(hid_t a, hid_t b, char *what, size_t size) {
  static const char *const paddings[] = {"null-terminated", "null-padded", "space-padded"};
  static const char *const sets[] = {"ASCII", "UTF-8"};
  named("padding", paddings, 3, H5Tget_strpad(a), H5Tget_strpad(b), what, size);
  named("character set", sets, 2, H5Tget_cset(a), H5Tget_cset(b), what, size);
}

static void compare_names(hid_t a, hid_t b, unsigned i, char *what, size_t size) {
  char *x = H5Tget_member_name(a, i), *y = H5Tget_member_name(b, i);
  if (!*what && (!x || !y || strcmp(x, y))) snprintf(what, size, "member \"%s\" against \"%s\"", x ? x : "?", y ? y : "?");
  if (x) H5free_memory(x);
  if (y) H5free_memory(y);
}

static void compare_super(hid_t a, hid_t b, char *what, size_t size) {
  hid_t x = H5Tget_super(a), y = H5Tget_super(b);
  if (!*what) annb_compare_types(x, y, what, size);
  annb_h5_close(&x);
  annb_h5_close(&y);
}

static void compare_compound(hid_t a, hid_t b, char *what, size_t size) {
  int n = H5Tget_nmembers(a);
  number("number of members", n, H5Tget_nmembers(b), what, size);
  for (int i = 0; !*what && i < n; i++) {
    compare_names(a, b, (unsigned)i, what, size);
    number("member offset", (long long)H5Tget_member_offset(a, (unsigned)i), (long long)H5Tget_member_offset(b, (unsigned)i), what, size);
    hid_t x = H5Tget_member_type(a, (unsigned)i), y = H5Tget_member_type(b, (unsigned)i);
    if (!*what) annb_compare_types(x, y, what, size);
    annb_h5_close(&x);
    annb_h5_close(&y);
  }
}

static void compare_enum(hid_t a, hid_t b, char *what, size_t size) {
  int n = H5Tget_nmembers(a);
  number("number of members", n, H5Tget_nmembers(b), what, size);
  compare_super(a, b, what, size);
  for (int i = 0; !*what && i < n; i++) {
    uint8_t x[64] = {0}, y[64] = {0};
    compare_names(a, b, (unsigned)i, what, size);
    if (H5Tget_size(a) > sizeof x) return;
    H5Tget_member_value(a, (unsigned)i, x);
    H5Tget_member_value(b, (unsigned)i, y);
    if (!*what && memcmp(x, y, sizeof x)) snprintf(what, size, "value of member %d", i);
  }
}

static void compare_array(hid_t a, hid_t b, char *what, size_t size) {
  hsize_t x[32] = {0}, y[32] = {0};
  number("array rank", H5Tget_array_ndims(a), H5Tget_array_ndims(b), what, size);
  if (*what) return;
  H5Tget_array_dims2(a, x);
  H5Tget_array_dims2(b, y);
  if (memcmp(x, y, sizeof x)) snprintf(what, size, "array dimensions");
  compare_super(a, b, what, size);
}

static void compare_opaque(hid_t a, hid_t b, char *what, size_t size) {
  char *x = H5Tget_tag(a), *y = H5Tget_tag(b);
  if (!*what && (!x || !y || strcmp(x, y))) snprintf(what, size, "tag \"%s\" against \"%s\"", x ? x : "?", y ? y : "?");
  if (x) H5free_memory(x);
  if (y) H5free_memory(y);
}

void annb_compare_types(hid_t a, hid_t b, char *what, size_t size) {
  H5T_class_t class = H5Tget_class(a);
  *what = 0;
  if (names_differ(a, b, what, size)) return;
  switch (class) {
    case H5T_INTEGER:
    case H5T_FLOAT:
    case H5T_TIME:
    case H5T_BITFIELD: compare_atomic(a, b, what, size); break;
    case H5T_STRING: compare_string(a, b, what, size); break;
    case H5T_OPAQUE: compare_opaque(a, b, what, size); break;
    case H5T_COMPOUND: compare_compound(a, b, what, size); break;
    case H5T_ENUM: compare_enum(a, b, what, size); break;
    case H5T_VLEN: compare_super(a, b, what, size); break;
    case H5T_ARRAY: compare_array(a, b, what, size); break;
    default:
      if (H5Tequal(a, b) <= 0) snprintf(what, size, "%s types differ", annb_class_name(class));
  }
}
