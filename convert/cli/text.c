#include "text.h"

#include "cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

char *cli_count(uint64_t n) {
  char digits[32], out[48];
  int length = snprintf(digits, sizeof digits, "%" PRIu64, n), used = 0;
  for (int i = 0; i < length; i++) {
    if (i && (length - i) % 3 == 0) out[used++] = ',';
    out[used++] = digits[i];
  }
  out[used] = 0;
  return cli_format("%s", out);
}

char *cli_bytes(double n) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (n >= 1024 && unit + 1 < sizeof units / sizeof *units) n /= 1024, unit++;
  return cli_format(unit ? "%.1f %s" : "%.0f %s", n, units[unit]);
}

char *cli_duration(double seconds) {
  if (seconds < 59.5) return cli_format(seconds < 10 ? "%.2f s" : "%.0f s", seconds);
  uint64_t s = seconds < 1e12 ? (uint64_t)(seconds + 0.5) : UINT64_C(1000000000000);
  if (s < 3600) return cli_format("%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
  return cli_format("%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60, s % 60);
}

char *cli_hex(const uint8_t *bytes, int n) {
  char *out = cli_alloc(2 * (size_t)n + 1);
  out[0] = 0;
  for (int i = 0; i < n; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
  return out;
}

/* Length of the UTF-8 character at `s`, 0 when it is none; *code is its number. */
static size_t character(const uint8_t *s, uint64_t room, uint32_t *code) {
  static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (s[0] < 0x80) return *code = s[0], 1;
  size_t n = s[0] >= 0xF0 && s[0] < 0xF5 ? 4 : s[0] >= 0xE0 && s[0] < 0xF0 ? 3 : s[0] >= 0xC2 && s[0] < 0xE0 ? 2 : 0;
  if (!n || n > room) return 0;
  *code = s[0] & (0xFFu >> (n + 1));
  for (size_t i = 1; i < n; i++) {
    if ((s[i] & 0xC0) != 0x80) return 0;
    *code = *code << 6 | (s[i] & 0x3F);
  }
  return *code < smallest[n] || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000) ? 0 : n;
}

static bool is_control(uint32_t code) { return code < 0x20 || (code >= 0x7F && code < 0xA0); }

char *cli_safe(const char *bytes, uint64_t length) {
  const uint8_t *s = (const uint8_t *)bytes;
  char *out = cli_alloc(4 * length + 1), *to = out;
  for (uint64_t i = 0; i < length;) {
    uint32_t code = 0;
    size_t n = character(s + i, length - i, &code);
    if (n && !is_control(code)) {
      memcpy(to, s + i, n);
      to += n;
      i += n;
      continue;
    }
    for (size_t end = i + (n ? n : 1); i < end; i++) to += sprintf(to, "\\x%02x", s[i]);
  }
  *to = 0;
  return out;
}

char *cli_utf8(const char *bytes, uint64_t length) {
  const uint8_t *s = (const uint8_t *)bytes;
  char *out = cli_alloc(3 * length + 1), *to = out;
  for (uint64_t i = 0; i < length;) {
    uint32_t code = 0;
    size_t n = character(s + i, length - i, &code);
    memcpy(to, n ? (const char *)s + i : "\xEF\xBF\xBD", n ? n : 3);
    to += n ? n : 3;
    i += n ? n : 1;
  }
  *to = 0;
  return out;
}

static float half(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float value = exponent == 31 ? (fraction ? NAN : INFINITY)
                : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                               : ldexpf((float)fraction, -24);
  return bits >> 15 ? -value : value;
}

static char *number(double value, bool single) {
  if (isnan(value)) return cli_format("nan");
  for (int digits = single ? 6 : 15;; digits++) {
    char *text = cli_format("%.*g", digits, value);
    if (digits >= (single ? 9 : 17) || (single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value)) return text;
    free(text);
  }
}

#define COPY(type, name)                                                                                                                   \
  type name;                                                                                                                               \
  memcpy(&name, value, sizeof name)

char *cli_value(annb_dtype dtype, const void *value) {
  COPY(uint8_t, byte);
  int64_t i = 0;
  uint64_t u = 0;
  switch (dtype) {
    case ANNB_BOOL: return cli_format("%s", byte ? "True" : "False");
    case ANNB_I8: i = (int8_t)byte; break;
    case ANNB_I16: {
      COPY(int16_t, v);
      i = v;
      break;
    }
    case ANNB_I32: {
      COPY(int32_t, v);
      i = v;
      break;
    }
    case ANNB_I64: memcpy(&i, value, sizeof i); break;
    case ANNB_U8: i = byte; break;
    case ANNB_U16: {
      COPY(uint16_t, v);
      i = v;
      break;
    }
    case ANNB_U32: {
      COPY(uint32_t, v);
      i = v;
      break;
    }
    case ANNB_U64: memcpy(&u, value, sizeof u); return cli_format("%" PRIu64, u);
    case ANNB_F16: {
      COPY(uint16_t, v);
      return number((double)half(v), true);
    }
    case ANNB_F32: {
      COPY(float, v);
      return number((double)v, true);
    }
    case ANNB_F64: {
      COPY(double, v);
      return number(v, false);
    }
  }
  return cli_format("%" PRId64, i);
}

/* ---- tables ---- */

void cli_table_add(cli_table *table, char *cell) {
  table->cells = cli_realloc(table->cells, (table->n + 1) * sizeof *table->cells);
  table->cells[table->n++] = cell;
}

static size_t width(const char *cell) {
  size_t n = 0;
  for (; *cell; cell++) n += ((uint8_t)*cell & 0xC0) != 0x80;
  return n;
}

void cli_table_print(cli_table *table, FILE *out) {
  size_t n_cols = strlen(table->align);
  size_t *widths = cli_alloc(n_cols * sizeof *widths);
  memset(widths, 0, n_cols * sizeof *widths);
  for (size_t i = 0; i < table->n; i++) {
    size_t w = width(table->cells[i]);
    if (w > widths[i % n_cols]) widths[i % n_cols] = w;
  }
  int space = 0; /* owed before the next text, so that lines do not end with spaces */
  for (size_t i = 0; i < table->n; i++) {
    size_t column = i % n_cols;
    int pad = (int)(widths[column] - width(table->cells[i]));
    bool right = table->align[column] == 'r';
    if (right) space += pad;
    if (*table->cells[i]) {
      fprintf(out, "%*s%s", space, "", table->cells[i]);
      space = 0;
    }
    space = column + 1 == n_cols ? 0 : space + (right ? 0 : pad) + 2;
    if (column + 1 == n_cols) putc('\n', out);
    free(table->cells[i]);
  }
  free(widths);
  free(table->cells);
  *table = (cli_table){.align = table->align};
}
