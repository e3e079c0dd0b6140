/* General compressors over the raw arrays of CSR: 4 bytes of length, the ids compressed, the values compressed. */
#include "peers.h"

#include <blosc.h>
#include <limits.h>
#include <lz4.h>
#include <string.h>
#include <zstd.h>

enum { BLOSC_LEVEL = 5 };

/* One array: compressed length or 0; decompressed wholly or false. */
typedef size_t (*squeeze_fn)(const void *in, size_t size, void *out, size_t room);
typedef bool (*expand_fn)(const void *in, size_t length, void *out, size_t size);

static size_t lz4_squeeze(const void *in, size_t size, void *out, size_t room) {
  int length = size > INT_MAX ? 0 : LZ4_compress_default(in, out, (int)size, room > INT_MAX ? INT_MAX : (int)room);
  return length > 0 ? (size_t)length : 0;
}

static bool lz4_expand(const void *in, size_t length, void *out, size_t size) {
  return LZ4_decompress_safe(in, out, (int)length, (int)size) == (int)size;
}

static size_t zstd_squeeze(const void *in, size_t size, void *out, size_t room, int level) {
  static ZSTD_CCtx *context; /* this program has one thread; kept until it ends */
  if (!context) context = ZSTD_createCCtx();
  size_t length = context ? ZSTD_compressCCtx(context, out, room, in, size, level) : 0;
  return ZSTD_isError(length) ? 0 : length;
}

static size_t zstd1_squeeze(const void *in, size_t size, void *out, size_t room) { return zstd_squeeze(in, size, out, room, 1); }

static size_t zstd9_squeeze(const void *in, size_t size, void *out, size_t room) { return zstd_squeeze(in, size, out, room, 9); }

static bool zstd_expand(const void *in, size_t length, void *out, size_t size) {
  static ZSTD_DCtx *context;
  if (!context) context = ZSTD_createDCtx();
  return context && ZSTD_decompressDCtx(context, out, size, in, length) == size;
}

static size_t blosc_squeeze(const void *in, size_t size, void *out, size_t room) {
  int length = blosc_compress_ctx(BLOSC_LEVEL, BLOSC_SHUFFLE, sizeof(uint32_t), size, in, out, room, "lz4", 0, 1);
  return length > 0 ? (size_t)length : 0;
}

static bool blosc_expand(const void *in, size_t length, void *out, size_t size) {
  (void)length; /* the header says it */
  return blosc_decompress_ctx(in, out, size, 1) == (int)size;
}

static size_t encode_both(squeeze_fn squeeze, const uint32_t *ids, const float *values, uint32_t n, uint8_t *out, size_t room) {
  uint32_t length = (uint32_t)squeeze(ids, (size_t)n * 4, out + 4, room - 4);
  size_t more = length ? squeeze(values, (size_t)n * 4, out + 4 + length, room - 4 - length) : 0;
  memcpy(out, &length, sizeof length);
  return more ? 4 + length + more : 0;
}

static bool decode_both(expand_fn expand, const uint8_t *in, size_t length, uint32_t n, uint32_t *ids, float *values) {
  uint32_t first;
  memcpy(&first, in, sizeof first);
  return first <= length - 4 && expand(in + 4, first, ids, (size_t)n * 4) &&
         expand(in + 4 + first, length - 4 - first, values, (size_t)n * 4);
}

#define PEER(id, text, how, squeeze, expand)                                                                                 \
  static size_t id##_encode(const uint32_t *ids, const float *values, uint32_t n, uint8_t *out, size_t room) {                \
    return encode_both(squeeze, ids, values, n, out, room);                                                                    \
  }                                                                                                                             \
  static bool id##_decode(const uint8_t *in, size_t length, uint32_t n, uint32_t *ids, float *values) {                          \
    return decode_both(expand, in, length, n, ids, values);                                                                       \
  }                                                                                                                                \
  const bench_peer bench_peer_##id = {text, how, id##_encode, id##_decode};

PEER(lz4, "LZ4", "ids and float32 as they are", lz4_squeeze, lz4_expand)
PEER(zstd1, "zstd-1", "ids and float32 as they are", zstd1_squeeze, zstd_expand)
PEER(zstd9, "zstd-9", "ids and float32 as they are", zstd9_squeeze, zstd_expand)
PEER(blosc, "Blosc-LZ4", "ids and float32, bytes shuffled", blosc_squeeze, blosc_expand)
