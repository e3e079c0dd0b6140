/* The parts of the codec benchmark. */
#ifndef ANNB_BENCH_CODEC_H
#define ANNB_BENCH_CODEC_H

#include "matrix.h"
#include "report.h"

typedef struct bench_options {
  const char *path, *store, *kernel;
  uint64_t n_cells, peer_cells;
  uint32_t n_genes, repeats;
  bool lognorm, source_order, no_check, no_peers;
} bench_options;

/* Our codecs × kernels over records in memory. */
void bench_ours(const bench_options *options, const bench_matrix *m, bench_report *report);
/* Other codecs over the same rows, the first peer_cells of them. */
void bench_peers(const bench_options *options, const bench_matrix *m);
/* File sizes of a store, and its rows through the public reader. `m` may be empty: then the raw rows are read from the store. */
void bench_store(const bench_options *options, bench_matrix *m, bench_report *report);

#endif
