/* What the codec benchmark measures on: raw rows in memory, the same in stored order, and a shuffled order of the rows. */
#ifndef ANNB_BENCH_MATRIX_H
#define ANNB_BENCH_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BENCH_BATCH = 64, BENCH_RUN = 16, BENCH_FETCH = 16384 };

typedef struct bench_matrix {
  uint64_t n_rows, nnz;
  uint32_t n_cols, max_nnz;
  bool whole; /* all values are whole numbers from 1 on that floats count exactly */
  uint64_t *indptr;
  uint32_t *ids, *stored; /* source order; ascending stored ids */
  float *values, *stored_values;
  uint32_t *order, *place; /* stored id → gene; gene → stored id */
  uint64_t *rows;          /* shuffled, n_shuffled of them */
  uint64_t n_shuffled;
} bench_matrix;

/* Where a batch goes, again and again. */
typedef struct bench_ring {
  uint32_t *ids;
  float *values, *dense;
  uint64_t capacity; /* elements of ids and values */
} bench_ring;

void bench_generate(bench_matrix *m, uint64_t n_cells, uint32_t n_genes);
void bench_load(bench_matrix *m, const char *path, uint64_t n_cells);
void bench_log_normalise(bench_matrix *m);
/* Fill in max_nnz, whole and the shuffled order: runs of 16 rows are shuffled, then the rows within each fetch of 16,384. */
void bench_prepare(bench_matrix *m);
/* Fill in stored, stored_values, order, place: genes by how often a sample of rows has them, or as they are. */
void bench_order_genes(bench_matrix *m, bool source_order);
void bench_matrix_free(bench_matrix *m);

void bench_ring_init(bench_ring *ring, const bench_matrix *m);
void bench_ring_free(bench_ring *ring);

static inline uint32_t bench_row_nnz(const bench_matrix *m, uint64_t row) { return (uint32_t)(m->indptr[row + 1] - m->indptr[row]); }

#endif
