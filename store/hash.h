/* Checksums: XXH3 (inlined, it runs once per record) and streaming SHA-256. */
#ifndef ANNB_STORE_HASH_H
#define ANNB_STORE_HASH_H

#include <annblock/format.h>
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

static inline uint64_t annb_hash64(const void *data, size_t size) { return XXH3_64bits(data, size); }

static inline void annb_hash128(const void *data, size_t size, uint8_t out[16]) {
  XXH128_hash_t hash = XXH3_128bits(data, size);
  memcpy(out, &hash.low64, 8);
  memcpy(out + 8, &hash.high64, 8);
}

/* The same hash over pieces. */
typedef XXH3_state_t annb_hash128_stream;
static inline void annb_hash128_begin(annb_hash128_stream *stream) { XXH3_128bits_reset(stream); }
static inline void annb_hash128_add(annb_hash128_stream *stream, const void *data, size_t size) { XXH3_128bits_update(stream, data, size); }
static inline void annb_hash128_end(const annb_hash128_stream *stream, uint8_t out[16]) {
  XXH128_hash_t hash = XXH3_128bits_digest(stream);
  memcpy(out, &hash.low64, 8);
  memcpy(out + 8, &hash.high64, 8);
}

/* SPEC.md 3.3: binds a hash to a place. The finaliser is that of XXH64. */
static inline uint64_t annb_mix(uint64_t hash, uint64_t salt, uint64_t n) {
  uint64_t x = hash ^ (salt + (n + 1) * UINT64_C(0x9E3779B97F4A7C15));
  x ^= x >> 33;
  x *= UINT64_C(0xC2B2AE3D27D4EB4F);
  x ^= x >> 29;
  x *= UINT64_C(0x165667B19E3779F9);
  return x ^ x >> 32;
}

static inline uint32_t annb_record_check(const void *record, size_t size, uint64_t salt, uint64_t row) {
  return (uint32_t)annb_mix(annb_hash64(record, size), salt, row);
}

typedef struct annb_sha256 {
  uint64_t state[32]; /* room for the library's context, asserted in hash.c */
} annb_sha256;

void annb_sha256_init(annb_sha256 *sha);
void annb_sha256_update(annb_sha256 *sha, const void *data, size_t size);
void annb_sha256_final(annb_sha256 *sha, uint8_t out[ANNB_SHA256_SIZE]);
/* 64 lower-case digits and a zero. */
void annb_sha256_hex(const uint8_t sha256[ANNB_SHA256_SIZE], char out[65]);

#endif
