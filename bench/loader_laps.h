/* Laps of the loader benchmark: the loader, the copy of raw rows, random reads. */
#ifndef ANNB_BENCH_LOADER_LAPS_H
#define ANNB_BENCH_LOADER_LAPS_H

#include <annblock/annblock.h>

enum { LAP_BATCH = 64, LAP_FACTOR = 256, LAP_READERS = 32 };

typedef struct lap_options {
  const char *path;
  uint64_t block_size, seed;
  uint32_t n_threads;
  annb_access access;
  annb_fetch_options fetch;
  uint64_t n_cells; /* stop after about as many; 0 = an epoch */
  bool cold;
} lap_options;

typedef struct lap_result {
  double seconds, cpu;  /* wall; of all threads */
  double first;         /* seconds from opening the store to the first batch */
  uint64_t n_cells, bytes, peak, most; /* cells, compressed bytes, anonymous memory at most, elements of the largest batch */
} lap_result;

/* Open, run, close. The order of the cells goes to *rows (grown, at *room), when that is not NULL. */
lap_result lap_loader(const lap_options *options, uint64_t **rows, uint64_t *room);

/* Raw CSR rows of the whole store. */
typedef struct lap_raw {
  uint64_t n_rows, nnz, *indptr;
  int32_t *ids;
  float *values;
} lap_raw;
void lap_raw_read(lap_raw *raw, const char *path);
/* Copy rows, batch after batch, into a ring of n_ring batches of `most` elements; one thread. */
double lap_copy(const lap_raw *raw, const uint64_t *rows, uint64_t n_rows, uint32_t n_ring, uint64_t most);

/* Bytes a second that random reads of `size` bytes give, LAP_READERS at a time, over the segments of a store. */
double lap_random_reads(const char *path, uint64_t size, double seconds);
uint64_t lap_anonymous(void); /* bytes of this process, anonymous and shared */
double lap_now(void);

/* A store of many cells with few elements each. */
void lap_thin_store(const char *path, uint64_t n_cells);

#endif
