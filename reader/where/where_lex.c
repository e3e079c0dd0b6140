#include "where.h"

#include "../../store/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

annb_status annb_where_fail(annb_error *err, annb_status status, const char *text, size_t at, const char *format, ...) {
  char what[1024];
  size_t character = 1;
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  for (size_t i = 0; i < at; i++) character += ((unsigned char)text[i] & 0xC0) != 0x80; /* bytes that continue a character do not count */
  return annb_fail(err, status, NULL, "the predicate is wrong at character %zu: %s", character, what);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80; }
static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* ---- strings ---- */

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

static bool hex(const char *text, int digits, unsigned *out) {
  *out = 0;
  for (int i = 0; i < digits; i++) {
    int d = hex_digit(text[i]);
    if (d < 0) return false;
    *out = *out << 4 | (unsigned)d;
  }
  return true;
}

static size_t put_utf8(unsigned code, char *out) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  if (code < 0x800) {
    out[0] = (char)(0xC0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3F));
    return 2;
  }
  out[0] = (char)(0xE0 | code >> 12);
  out[1] = (char)(0x80 | (code >> 6 & 0x3F));
  out[2] = (char)(0x80 | (code & 0x3F));
  return 3;
}

/* The escape behind the backslash at `at`: its bytes to `out`, *used characters of the text (0: it is none). */
static size_t escape(const char *text, size_t at, char *out, size_t *used) {
  static const char from[] = "\\\"'nrt", to[] = "\\\"'\n\r\t";
  const char *found = text[at + 1] ? strchr(from, text[at + 1]) : NULL;
  unsigned code;
  *used = 0;
  if (found) {
    *used = 2;
    *out = to[found - from];
    return 1;
  }
  if (text[at + 1] == 'x' && hex(text + at + 2, 2, &code)) {
    *used = 4;
    *out = (char)code;
    return 1;
  }
  if (text[at + 1] == 'u' && hex(text + at + 2, 4, &code) && (code < 0xD800 || code > 0xDFFF)) {
    *used = 6;
    return put_utf8(code, out);
  }
  return 0;
}

/* Text in quotes. In backticks there are no escapes but a backtick twice. */
static annb_status quoted(annb_where_tree *tree, size_t at, annb_where_token *out, annb_error *err) {
  const char *text = tree->text;
  char *to = tree->strings + tree->strings_used;
  const char quote = text[at];
  size_t n = 0, i = at + 1;
  while (text[i] && (text[i] != quote || (quote == '`' && text[i + 1] == '`'))) {
    size_t used = 1;
    if (quote == '`' || text[i] != '\\') {
      to[n++] = text[i];
      if (text[i] == quote) used = 2;
    } else {
      n += escape(text, i, to + n, &used);
      if (!used) return annb_where_fail(err, ANNB_EINVAL, text, i, "no such escape; there are \\\\ \\\" \\' \\n \\r \\t \\xHH \\uHHHH");
    }
    i += used;
  }
  if (!text[i]) return annb_where_fail(err, ANNB_EINVAL, text, at, "the quote %c is not closed", quote);
  to[n] = 0;
  tree->strings_used += n + 1;
  *out = (annb_where_token){quote == '`' ? ANNB_TOKEN_QUOTED : ANNB_TOKEN_STRING, at, i + 1, to, n};
  return ANNB_OK;
}

/* ---- the others ---- */

static annb_where_token name(annb_where_tree *tree, size_t at) {
  const char *text = tree->text;
  char *to = tree->strings + tree->strings_used;
  size_t end = at;
  while (is_letter(text[end]) || is_digit(text[end]) || text[end] == '.') end++;
  memcpy(to, text + at, end - at);
  to[end - at] = 0;
  tree->strings_used += end - at + 1;
  return (annb_where_token){ANNB_TOKEN_NAME, at, end, to, end - at};
}

static size_t digits(const char *text, size_t at, size_t *n) {
  size_t end = at;
  while (is_digit(text[end])) end++;
  *n += end - at;
  return end;
}

static annb_status number(const annb_where_tree *tree, size_t at, annb_where_token *out, annb_error *err) {
  const char *text = tree->text;
  size_t n = 0, power = 0, i = at;
  if (text[i] == '-' || text[i] == '+') i++;
  i = digits(text, i, &n);
  if (text[i] == '.') i = digits(text, i + 1, &n);
  if (n && (text[i] == 'e' || text[i] == 'E')) {
    size_t sign = text[i + 1] == '-' || text[i + 1] == '+';
    i = digits(text, i + 1 + sign, &power);
    if (!power) n = 0;
  }
  if (!n || is_letter(text[i]) || text[i] == '.') return annb_where_fail(err, ANNB_EINVAL, text, at, "this is not a number");
  *out = (annb_where_token){ANNB_TOKEN_NUMBER, at, i, text + at, i - at};
  return ANNB_OK;
}

static const char *hint(const char *at) {
  if (*at == '=') return "write == to compare";
  if (*at == '&') return "write 'and'";
  if (*at == '|') return "write 'or'";
  if (*at == '!' || *at == '~') return "write 'not'";
  return "this character has no meaning here; put odd column names in `backticks`, and text in quotes";
}

static annb_status sign(const annb_where_tree *tree, size_t at, annb_where_token *out, annb_error *err) {
  const char *text = tree->text;
  size_t n = 0;
  if (text[at + 1] == '=' && strchr("=!<>", text[at])) n = 2;
  else if (strchr("()[],<>", text[at])) n = 1;
  if (!n) return annb_where_fail(err, ANNB_EINVAL, text, at, "%s", hint(text + at));
  *out = (annb_where_token){ANNB_TOKEN_SIGN, at, at + n, text + at, n};
  return ANNB_OK;
}

annb_status annb_where_next(annb_where_tree *tree, size_t at, annb_where_token *out, annb_error *err) {
  const char *text = tree->text;
  while (is_space(text[at])) at++;
  const char c = text[at];
  if (!c) {
    *out = (annb_where_token){ANNB_TOKEN_END, at, at, text + at, 0};
    return ANNB_OK;
  }
  if (c == '"' || c == '\'' || c == '`') return quoted(tree, at, out, err);
  if (is_digit(c) || c == '.' || c == '-' || c == '+') return number(tree, at, out, err);
  if (!is_letter(c)) return sign(tree, at, out, err);
  *out = name(tree, at);
  return ANNB_OK;
}
