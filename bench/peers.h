/* Codecs to compare with: rows in stored order, or groups of consecutive rows. */
#ifndef ANNB_BENCH_PEERS_H
#define ANNB_BENCH_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ids ascend within a row and n_rows rows follow each other; codecs of whole counts get one row. */
typedef struct bench_peer {
  const char *name, *what; /* `what`: how the rows are laid out for it */
  size_t (*encode)(const uint32_t *ids, const float *values, uint32_t n, uint8_t *out, size_t room);
  bool (*decode)(const uint8_t *in, size_t length, uint32_t n, uint32_t *ids, float *values);
} bench_peer;

extern const bench_peer bench_peer_bp128, bench_peer_bytes, bench_peer_lz4, bench_peer_zstd1, bench_peer_zstd9, bench_peer_blosc;

#endif
