#include "newer.h"

#include <string.h>

enum { CHECKSUM = 4, MAX_HEADER = 1 << 20 };
enum { LAYOUT = 8, FILTERS = 11, CONTINUATION = 16 }; /* types of messages */
enum { COMPACT = 0, CONTIGUOUS = 1, CHUNKED = 2 };
enum { SINGLE_CHUNK = 1, IMPLICIT = 2 };

/* ---- checksum ---- */

static uint32_t turn(uint32_t x, int k) { return x << k | x >> (32 - k); }

static void mix(uint32_t v[3]) {
  static const int turns[6] = {4, 6, 8, 16, 19, 4};
  for (int i = 0; i < 6; i++) {
    uint32_t *a = &v[i % 3], *b = &v[(i + 1) % 3], *c = &v[(i + 2) % 3];
    *a = (*a - *c) ^ turn(*c, turns[i]);
    *c += *b;
  }
}

static uint32_t finish(uint32_t v[3]) {
  static const int turns[7] = {14, 11, 25, 16, 4, 14, 24};
  for (int i = 0; i < 7; i++) { /* c by b, a by c, b by a, … */
    uint32_t *x = &v[(i + 2) % 3], *y = &v[(i + 1) % 3];
    *x = (*x ^ *y) - turn(*y, turns[i]);
  }
  return v[2];
}

uint32_t annb_newer_checksum(const uint8_t *bytes, size_t n) {
  uint32_t start = UINT32_C(0xdeadbeef) + (uint32_t)n, v[3] = {start, start, start};
  for (size_t i = 0; i < n; i++) {
    if (i && i % 12 == 0) mix(v);
    v[i % 12 / 4] += (uint32_t)bytes[i] << 8 * (i % 4);
  }
  return n ? finish(v) : v[2];
}

/* ---- object headers ---- */

static uint64_t little(const uint8_t *p, size_t n) {
  uint64_t x = 0;
  for (size_t i = 0; i < n; i++) x |= (uint64_t)p[i] << 8 * i;
  return x;
}

/* Where its messages start, and how many bytes they are; 0 when it is none. */
static size_t messages(const uint8_t *header, size_t n, uint64_t *size) {
  if (n < 8 || memcmp(header, "OHDR", 4) || header[4] != 2) return 0;
  uint8_t flags = header[5];
  size_t at = 6 + (flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0), width = (size_t)1 << (flags & 3);
  if (n < at + width) return 0;
  *size = little(header + at, width);
  return at + width;
}

uint64_t annb_newer_size(const uint8_t *header, size_t n) {
  uint64_t size = 0;
  size_t at = messages(header, n, &size);
  return at && size <= MAX_HEADER ? at + size + CHECKSUM : 0;
}

/* HDF5 1.x keeps dimensions and size of a chunk in 32 bits. */
static bool small_chunk(const uint8_t *dims, size_t n, size_t width) {
  uint64_t bytes = 1;
  for (size_t i = 0; i < n && width <= 4; i++) {
    uint64_t dim = little(dims + i * width, width);
    if (!dim || bytes > UINT32_MAX / dim) return false;
    bytes *= dim;
  }
  return width > 0 && width <= 4;
}

/* The message reads the same as version 4. Its index follows the flags, the number of dimensions, their width, and they themselves. */
static bool reads_the_same(const uint8_t *layout, size_t n, bool may_filter) {
  if (n < 2 || layout[0] != 5) return false;
  if (layout[1] == COMPACT || layout[1] == CONTIGUOUS) return true;
  if (layout[1] != CHUNKED || n < 5) return false;
  size_t at = 5 + (size_t)layout[3] * layout[4];
  if (at >= n || !small_chunk(layout + 5, layout[3], layout[4])) return false;
  return layout[at] == SINGLE_CHUNK || layout[at] == IMPLICIT || !may_filter;
}

bool annb_newer_change(uint8_t *header, size_t n) {
  uint64_t size = 0;
  size_t at = messages(header, n, &size), layout = 0, length = 0;
  bool may_filter = false;
  if (!at || n < at + CHECKSUM || size != n - CHECKSUM - at) return false;
  size_t head = header[5] & 4 ? 6 : 4; /* of a message: type, size, flags, with order of creation */
  if (annb_newer_checksum(header, n - CHECKSUM) != little(header + n - CHECKSUM, CHECKSUM)) return false;
  for (size_t end = n - CHECKSUM; end - at >= head;) {
    size_t bytes = little(header + at + 1, 2);
    if (bytes > end - at - head) return false;
    may_filter = may_filter || header[at] == FILTERS || header[at] == CONTINUATION; /* of what continues elsewhere nothing is known */
    if (header[at] == LAYOUT) {
      if (layout || header[at + 3] & 2) return false; /* a second one, or one that is shared */
      layout = at + head;
      length = bytes;
    }
    at += head + bytes;
  }
  if (!layout || !reads_the_same(header + layout, length, may_filter)) return false;
  header[layout] = 4;
  uint32_t sum = annb_newer_checksum(header, n - CHECKSUM);
  for (int i = 0; i < CHECKSUM; i++) header[n - CHECKSUM + (size_t)i] = (uint8_t)(sum >> 8 * i);
  return true;
}
