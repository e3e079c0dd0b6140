/* A look at a source matrix before it is packed: the same whatever the memory or threads. */
#ifndef ANNB_CONVERT_SAMPLE_H
#define ANNB_CONVERT_SAMPLE_H

#include "../source/source.h"

/* Numbers on the other axis of elements of some rows (CSC: columns), in the source's order. A bit of `starts` marks the first of a row. */
typedef struct annb_sample {
  uint32_t *indices;
  uint64_t *starts;
  uint64_t n;
} annb_sample;

void annb_sample_free(annb_sample *sample); /* a zeroed one is allowed */

static inline bool annb_sample_starts(const annb_sample *sample, uint64_t i) { return sample->starts[i / 64] >> i % 64 & 1; }

/* Windows of rows spread over a CSR matrix. Pointers and indices that are wrong are left out: reading all of it will report them. */
annb_status annb_sample_rows(const annb_source_matrix *m, annb_sample *out, annb_error *err);

/* The fullest columns of a CSC matrix, as `by_count` lists them: they tell most of an order of rows. All columns when they are few. */
annb_status annb_sample_columns(const annb_source_matrix *m, const uint32_t *by_count, annb_sample *out, annb_error *err);

/* Elements of each column: of all rows (CSC), of the sample (CSR), of rows spread over the matrix (dense). Counts end at UINT32_MAX. */
annb_status annb_count_columns(const annb_source_matrix *m, const annb_sample *sample, uint32_t *counts, annb_error *err);

#endif
