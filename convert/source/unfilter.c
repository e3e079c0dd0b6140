#include "unfilter.h"

#include "lzf.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum { LZF = 32000, CHECKSUM = 4 };

static bool compresses(H5Z_filter_t id) { return id == H5Z_FILTER_DEFLATE || id == LZF; }

bool annb_filters_read(hid_t creation, annb_filters *out) {
  *out = (annb_filters){.n = H5Pget_nfilters(creation)};
  if (out->n <= 0 || out->n > ANNB_MOST_FILTERS) return false;
  int compressors = 0, shuffles = 0, checks = 0;
  for (int i = 0; i < out->n; i++) {
    unsigned flags, config, values[8] = {0};
    size_t n_values = 8;
    char name[8];
    H5Z_filter_t id = H5Pget_filter2(creation, (unsigned)i, &flags, &n_values, values, sizeof name, name, &config);
    out->id[i] = id;
    compressors += compresses(id);
    shuffles += id == H5Z_FILTER_SHUFFLE;
    checks += id == H5Z_FILTER_FLETCHER32;
    if (id != H5Z_FILTER_SHUFFLE) continue;
    out->element = values[0];
    if (n_values < 1 || values[0] == 0) return false;
  }
  return compressors <= 1 && shuffles <= 1 && checks <= 1 && compressors + shuffles + checks == out->n;
}

void annb_unfilter_free(annb_unfilter *u) {
  libdeflate_free_decompressor(u->inflater);
  free(u->scratch[0]);
  free(u->scratch[1]);
  *u = (annb_unfilter){0};
}

const char *annb_unfilter_text(annb_unfilter_result result) {
  switch (result) {
    case ANNB_UNFILTER_SHORT: return "compressed bytes give fewer than a chunk has: it is damaged";
    case ANNB_UNFILTER_LONG: return "compressed bytes give more than a chunk has: it is damaged";
    case ANNB_UNFILTER_CHECKSUM: return "checksum (fletcher32) does not match: it is damaged";
    case ANNB_UNFILTER_MEMORY: return "values need memory that is not there";
    default: return "compressed bytes are damaged";
  }
}

/* ---- single filters ---- */

uint32_t annb_fletcher32(const uint8_t *bytes, size_t n) {
  uint64_t low = 0, high = 0;
  for (size_t i = 0; i < n;) {
    size_t end = n - i > 65536 ? i + 65536 : n; /* the sums of so many words fit */
    for (; i + 1 < end; i += 2) high += low += (uint64_t)bytes[i] << 8 | bytes[i + 1];
    if (i < end) high += low += (uint64_t)bytes[i++] << 8;
    low = low ? (low - 1) % 65535 + 1 : 0; /* end-around carry never makes a sum 0 again */
    high = high ? (high - 1) % 65535 + 1 : 0;
  }
  return (uint32_t)(high << 16 | low);
}

/* As HDF5: in files of its release 1.6.2 and before the bytes of each half stand the other way round. */
static bool check_matches(const uint8_t *bytes, size_t n) {
  uint32_t stored, sum = annb_fletcher32(bytes, n);
  memcpy(&stored, bytes + n, sizeof stored);
  return stored == sum || stored == ((sum & 0x00FF00FF) << 8 | (sum >> 8 & 0x00FF00FF));
}

/* Plane j holds byte j of each element; bytes past the last whole element stay as they are. */
static void unshuffle(const uint8_t *in, size_t n, size_t element, uint8_t *out) {
  size_t count = n / element;
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < element; j++) out[i * element + j] = in[j * count + i];
  memcpy(out + count * element, in + count * element, n - count * element);
}

static void unshuffle4(const uint8_t *in, size_t n, uint8_t *out) {
  const size_t count = n / 4;
  const uint8_t *a = in, *b = a + count, *c = b + count, *d = c + count;
  for (size_t i = 0; i < count; i++) {
    uint32_t x = a[i] | (uint32_t)b[i] << 8 | (uint32_t)c[i] << 16 | (uint32_t)d[i] << 24;
    memcpy(out + 4 * i, &x, sizeof x);
  }
  memcpy(out + 4 * count, in + 4 * count, n - 4 * count);
}

static annb_unfilter_result inflate(annb_unfilter *u, const uint8_t *in, size_t n, uint8_t *out, size_t size) {
  size_t used, got;
  if (!u->inflater) u->inflater = libdeflate_alloc_decompressor();
  if (!u->inflater) return ANNB_UNFILTER_MEMORY;
  enum libdeflate_result r = libdeflate_zlib_decompress_ex(u->inflater, in, n, out, size, &used, &got);
  if (r == LIBDEFLATE_INSUFFICIENT_SPACE) return ANNB_UNFILTER_LONG;
  if (r != LIBDEFLATE_SUCCESS) return ANNB_UNFILTER_DAMAGED;
  return got == size ? ANNB_UNFILTER_OK : ANNB_UNFILTER_SHORT;
}

static annb_unfilter_result unpack(const uint8_t *in, size_t n, uint8_t *out, size_t size) {
  size_t got;
  annb_lzf_result r = annb_lzf_decode(in, n, out, size, &got);
  if (r != ANNB_LZF_OK) return r == ANNB_LZF_ROOM ? ANNB_UNFILTER_LONG : ANNB_UNFILTER_DAMAGED;
  return got == size ? ANNB_UNFILTER_OK : ANNB_UNFILTER_SHORT;
}

/* ---- the pipeline, backwards ---- */

static uint8_t *scratch(annb_unfilter *u, int which, size_t size) {
  if (u->room[which] < size) {
    free(u->scratch[which]);
    u->scratch[which] = malloc(size);
    u->room[which] = u->scratch[which] ? size : 0;
  }
  return u->scratch[which];
}

/* Bytes that come out of filter `i`: the chunk and the checksums that were added before it. */
static size_t before(const annb_filters *f, unsigned skipped, int i, size_t size) {
  for (int k = 0; k < i; k++)
    if (f->id[k] == H5Z_FILTER_FLETCHER32 && !(skipped >> k & 1)) size += CHECKSUM;
  return size;
}

static bool is_last(unsigned skipped, int i) {
  for (int k = 0; k < i; k++)
    if (!(skipped >> k & 1)) return false;
  return true;
}

annb_unfilter_result annb_unfilter_chunk(annb_unfilter *u, const annb_filters *f, unsigned skipped, const uint8_t *in, size_t n,
                                         uint8_t *out, size_t size) {
  annb_unfilter_result r = ANNB_UNFILTER_OK;
  for (int i = f->n - 1; i >= 0 && !r; i--) {
    if (skipped >> i & 1) continue;
    if (f->id[i] == H5Z_FILTER_FLETCHER32) {
      if (n < CHECKSUM) return ANNB_UNFILTER_SHORT;
      n -= CHECKSUM;
      if (!check_matches(in, n)) return ANNB_UNFILTER_CHECKSUM;
      continue;
    }
    const bool shuffles = f->id[i] == H5Z_FILTER_SHUFFLE;
    size_t expected = before(f, skipped, i, size);
    uint8_t *to = is_last(skipped, i) ? out : scratch(u, shuffles, expected);
    if (!to) return ANNB_UNFILTER_MEMORY;
    if (shuffles && n != expected) return n < expected ? ANNB_UNFILTER_SHORT : ANNB_UNFILTER_LONG;
    if (shuffles && f->element == 4) unshuffle4(in, n, to);
    else if (shuffles) unshuffle(in, n, f->element, to);
    else r = f->id[i] == LZF ? unpack(in, n, to, expected) : inflate(u, in, n, to, expected);
    in = to;
    n = expected;
  }
  if (r) return r;
  if (n != size) return n < size ? ANNB_UNFILTER_SHORT : ANNB_UNFILTER_LONG;
  if (in != out) memcpy(out, in, n);
  return ANNB_UNFILTER_OK;
}
