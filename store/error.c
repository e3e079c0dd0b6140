#define _GNU_SOURCE
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static annb_status fill(annb_error *err, annb_status status, int system_errno, const char *path, int64_t row,
                        const char *format, va_list args) {
  if (!err) return status;
  err->status = status;
  err->system_errno = system_errno;
  err->row = row;
  snprintf(err->path, sizeof err->path, "%s", path ? path : "");
  int used = 0;
  if (path && *path) used = snprintf(err->message, sizeof err->message, "%s: ", path);
  if (used < 0 || (size_t)used >= sizeof err->message) used = 0;
  vsnprintf(err->message + used, sizeof err->message - (size_t)used, format, args);
  return status;
}

annb_status annb_fail(annb_error *err, annb_status status, const char *path, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fill(err, status, 0, path, ANNB_NO_ROW, format, args);
  va_end(args);
  return status;
}

annb_status annb_fail_row(annb_error *err, annb_status status, const char *path, int64_t row, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fill(err, status, 0, path, row, format, args);
  va_end(args);
  return status;
}

static annb_status fail_errno(annb_error *err, annb_status status, int number, const char *path, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fill(err, status, number, path, ANNB_NO_ROW, format, args);
  va_end(args);
  return status;
}

annb_status annb_fail_errno(annb_error *err, const char *path, const char *action) {
  int number = errno;
  annb_status status = number == ENOMEM ? ANNB_ENOMEM : number == EEXIST ? ANNB_EEXIST : ANNB_EIO;
  char text[256];
  return fail_errno(err, status, number, path, "cannot %s: %s", action, strerror_r(number, text, sizeof text));
}

void annb_bits_text(const char *what, uint64_t mask, char out[ANNB_BITS_TEXT]) {
  int used = snprintf(out, ANNB_BITS_TEXT, "%.40s bit%s ", what, mask & (mask - 1) ? "s" : "");
  for (int bit = 0, n = 0; bit < 64; bit++)
    if (mask >> bit & 1) used += snprintf(out + used, (size_t)(ANNB_BITS_TEXT - used), "%s%d", n++ ? ", " : "", bit);
}

annb_status annb_fail_memory(annb_error *err) { return annb_fail(err, ANNB_ENOMEM, NULL, "out of memory"); }
