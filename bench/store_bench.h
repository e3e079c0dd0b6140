#ifndef ANNB_BENCH_STORE_BENCH_H
#define ANNB_BENCH_STORE_BENCH_H

#include <stdint.h>

enum { BENCH_CODECS = 16 };

typedef struct bench_store_size {
  uint64_t nnz, segments, others /* manifests */, records, index, blocks;
  uint32_t block_rows;
  uint64_t rows_of[BENCH_CODECS]; /* by codec */
  double bits, overhead;          /* per nonzero: segments and manifests; that less the records */
} bench_store_size;

/* Sizes of the files of a store, printed too. A store of one generation and one matrix. */
void bench_store_sizes(const char *store, bench_store_size *size);

#endif
