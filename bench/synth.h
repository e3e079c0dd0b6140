/* Synthetic single-cell counts: the same seed gives the same cells, whatever the order in which they are asked for. */
#ifndef ANNB_BENCH_SYNTH_H
#define ANNB_BENCH_SYNTH_H

#include <stdint.h>

typedef struct annb_synth_params {
  uint64_t n_cells, seed;
  uint32_t n_genes, n_types;
  double depth; /* median of the counts of a cell */
} annb_synth_params;

typedef struct annb_synth annb_synth;

/* NULL when memory is short. Gene means are log-normal (sigma 2.26) and differ between types; the depth of a cell is log-normal (sigma
 * 0.5). */
annb_synth *annb_synth_new(const annb_synth_params *params);
void annb_synth_free(annb_synth *synth);

/* Cells of one type come in runs, as on a plate. */
uint32_t annb_synth_type(const annb_synth *synth, uint64_t cell);

/* One cell: ascending genes with their counts; room for n_genes of each. Returns how many; *total is the sum of the counts. */
uint32_t annb_synth_cell(annb_synth *synth, uint64_t cell, uint32_t *genes, uint32_t *counts, uint64_t *total);

#endif
