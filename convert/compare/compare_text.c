/* Types and values in words, for differences. */
#include "compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NUMBER = 8 };

static bool is_big(hid_t type) { return H5Tget_size(type) > 1 && H5Tget_order(type) == H5T_ORDER_BE; }

const char *annb_class_name(H5T_class_t class) {
  static const char *const names[] = {"integer",  "float",     "time", "string", "bitfield", "opaque",
                                      "compound", "reference", "enum", "vlen",   "array"};
  return class >= 0 && class < (int)(sizeof names / sizeof *names) ? names[class] : "unknown";
}

void annb_type_text(hid_t type, bool with_order, char *out, size_t size) {
  size_t bytes = H5Tget_size(type), bits = H5Tget_precision(type);
  const char *order = !with_order || bytes < 2 ? "" : is_big(type) ? " big-endian" : " little-endian";
  switch (H5Tget_class(type)) {
    case H5T_INTEGER: snprintf(out, size, "%s%zu%s", H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int", 8 * bytes, order); break;
    case H5T_FLOAT: snprintf(out, size, "float%zu%s", 8 * bytes, order); break;
    case H5T_STRING:
      if (H5Tis_variable_str(type) > 0) snprintf(out, size, "string of any length");
      else snprintf(out, size, "string of %zu byte%s", bytes, bytes == 1 ? "" : "s");
      return;
    default: snprintf(out, size, "%s of %zu byte%s", annb_class_name(H5Tget_class(type)), bytes, bytes == 1 ? "" : "s"); return;
  }
  size_t used = strlen(out);
  if (bits != 8 * bytes) snprintf(out + used, size - used, " with %zu bits", bits);
}

/* ---- values ---- */

static void decimal(double x, bool single, char *out, size_t size) {
  for (int digits = single ? 6 : 15; digits <= (single ? 9 : 17); digits++) {
    snprintf(out, size, "%.*g", digits, x);
    if (single ? strtof(out, NULL) == (float)x : strtod(out, NULL) == x) return;
  }
}

/* The number in decimal or the enum's name, or nothing. */
static void decode(hid_t type, const uint8_t *value, char *out, size_t size) {
  union {
    uint8_t bytes[MAX_NUMBER];
    long long i;
    unsigned long long u;
    double x;
  } v = {{0}};
  H5T_class_t class = H5Tget_class(type);
  size_t n = H5Tget_size(type);
  bool is_signed = class == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_2;
  *out = 0;
  if (class == H5T_ENUM && H5Tenum_nameof(type, value, out, size) < 0) *out = 0;
  if ((class != H5T_INTEGER && class != H5T_FLOAT) || n > sizeof v) return;
  memcpy(v.bytes, value, n);
  hid_t native = class == H5T_FLOAT ? H5T_NATIVE_DOUBLE : is_signed ? H5T_NATIVE_LLONG : H5T_NATIVE_ULLONG;
  if (H5Tconvert(type, native, 1, v.bytes, NULL, H5P_DEFAULT) < 0) return;
  if (class == H5T_FLOAT) decimal(v.x, n <= 4, out, size);
  else if (is_signed) snprintf(out, size, "%lld", v.i);
  else snprintf(out, size, "%llu", v.u);
}

/* As numbers are written: the most significant byte first. */
static void hex(hid_t type, const uint8_t *value, size_t n, char *out) {
  bool reversed = !is_big(type);
  for (size_t i = 0; i < n; i++) snprintf(out + 2 * i, 3, "%02x", value[reversed ? n - 1 - i : i]);
}

static void fixed_strings(const uint8_t *a, const uint8_t *b, size_t n, char *what, size_t size) {
  size_t x = strnlen((const char *)a, n), y = strnlen((const char *)b, n);
  if (x == y && !memcmp(a, b, x)) snprintf(what, size, "bytes behind the end of the string differ");
  else snprintf(what, size, "\"%.*s\" against \"%.*s\"", x < 60 ? (int)x : 60, (const char *)a, y < 60 ? (int)y : 60, (const char *)b);
}

void annb_compare_text(hid_t type, const void *a, const void *b, char *what, size_t size) {
  char text[2][64], digits[2][2 * MAX_NUMBER + 1];
  size_t n = H5Tget_size(type);
  if (H5Tget_class(type) == H5T_STRING) {
    fixed_strings(a, b, n, what, size);
    return;
  }
  if (n > MAX_NUMBER) {
    snprintf(what, size, "bytes differ");
    return;
  }
  decode(type, a, text[0], sizeof text[0]);
  decode(type, b, text[1], sizeof text[1]);
  hex(type, a, n, digits[0]);
  hex(type, b, n, digits[1]);
  if (*text[0] && *text[1]) snprintf(what, size, "%s (0x%s) against %s (0x%s)", text[0], digits[0], text[1], digits[1]);
  else snprintf(what, size, "0x%s against 0x%s", digits[0], digits[1]);
  H5Eclear2(H5E_DEFAULT);
}
