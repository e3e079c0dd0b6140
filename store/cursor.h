/* A bounds-checked cursor: all parsing of bytes from disk goes through it. After a failed read the cursor stays failed and
 * yields zeros, so that a parser may check once at its end. */
#ifndef ANNB_STORE_CURSOR_H
#define ANNB_STORE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct annb_cursor {
  const uint8_t *at, *end;
  bool failed;
} annb_cursor;

/* A cursor over bytes [offset, offset + length) of `size` bytes at `data`; failed from the start when they are not inside. */
static inline annb_cursor annb_cursor_of(const uint8_t *data, uint64_t size, uint64_t offset, uint64_t length) {
  if (offset > size || length > size - offset) return (annb_cursor){data, data, true};
  return (annb_cursor){data + offset, data + offset + length, false};
}

static inline uint64_t annb_cursor_left(const annb_cursor *c) { return (uint64_t)(c->end - c->at); }

/* The next `n` bytes, or NULL. */
static inline const uint8_t *annb_cursor_take(annb_cursor *c, uint64_t n) {
  if (c->failed || n > annb_cursor_left(c)) {
    c->failed = true;
    return NULL;
  }
  const uint8_t *p = c->at;
  c->at += n;
  return p;
}

/* Copy the next `n` bytes to `out`, zeros on failure. */
static inline bool annb_cursor_read(annb_cursor *c, void *out, size_t n) {
  const uint8_t *p = annb_cursor_take(c, n);
  if (p) memcpy(out, p, n);
  else memset(out, 0, n);
  return p != NULL;
}

static inline uint8_t annb_cursor_u8(annb_cursor *c) {
  uint8_t x;
  annb_cursor_read(c, &x, sizeof x);
  return x;
}

static inline uint32_t annb_cursor_u32(annb_cursor *c) {
  uint32_t x;
  annb_cursor_read(c, &x, sizeof x);
  return x;
}

static inline bool annb_all_zero(const void *data, size_t n) {
  const uint8_t *p = data;
  return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* a * b and a + b, false on overflow. */
static inline bool annb_mul(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool annb_add(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline uint64_t annb_round_up(uint64_t n, uint64_t alignment) { return (n + alignment - 1) / alignment * alignment; }

#endif
