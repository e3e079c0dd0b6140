#include "hash.h"

#include <nettle/sha2.h>
#include <nettle/version.h>

ANNB_ASSERT(sizeof(struct sha256_ctx) <= sizeof(annb_sha256), "room for nettle's context");

void annb_sha256_init(annb_sha256 *sha) { sha256_init((struct sha256_ctx *)sha); }

void annb_sha256_update(annb_sha256 *sha, const void *data, size_t size) {
  sha256_update((struct sha256_ctx *)sha, size, data);
}

void annb_sha256_final(annb_sha256 *sha, uint8_t out[ANNB_SHA256_SIZE]) {
#if NETTLE_VERSION_MAJOR >= 4
  sha256_digest((struct sha256_ctx *)sha, out);
#else
  sha256_digest((struct sha256_ctx *)sha, ANNB_SHA256_SIZE, out);
#endif
}

void annb_sha256_hex(const uint8_t sha256[ANNB_SHA256_SIZE], char out[65]) {
  static const char digits[] = "0123456789abcdef";
  for (int i = 0; i < ANNB_SHA256_SIZE; i++) {
    out[2 * i] = digits[sha256[i] >> 4];
    out[2 * i + 1] = digits[sha256[i] & 15];
  }
  out[64] = 0;
}
