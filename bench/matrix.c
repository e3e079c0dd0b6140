#include "matrix.h"

#include "synth.h"
#include "timing.h"

#include <hdf5.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 16 };

/* ---- input ---- */

static uint32_t put_cell(bench_matrix *m, annb_synth *synth, uint64_t cell, uint32_t *genes, uint32_t *counts, bool store) {
  uint64_t total, at = m->indptr[cell];
  uint32_t n = annb_synth_cell(synth, cell, genes, counts, &total);
  for (uint32_t j = 0; store && j < n; j++) {
    m->ids[at + j] = genes[j];
    m->values[at + j] = (float)counts[j];
  }
  return n;
}

void bench_generate(bench_matrix *m, uint64_t n_cells, uint32_t n_genes) {
  annb_synth_params p = {.n_cells = n_cells, .n_genes = n_genes, .n_types = 50, .depth = 3500, .seed = 1};
  annb_synth *synth = annb_synth_new(&p);
  uint32_t *genes = bench_get(n_genes, 4), *counts = bench_get(n_genes, 4);
  if (!synth) bench_fail("out of memory");
  m->n_rows = n_cells;
  m->n_cols = n_genes;
  m->indptr = bench_get(n_cells + 1, 8);
  for (uint64_t i = 0; i < n_cells; i++) m->indptr[i + 1] = m->indptr[i] + put_cell(m, synth, i, genes, counts, false);
  m->nnz = m->indptr[n_cells];
  m->ids = bench_get(m->nnz, 4);
  m->values = bench_get(m->nnz, 4);
  for (uint64_t i = 0; i < n_cells; i++) (void)put_cell(m, synth, i, genes, counts, true);
  annb_synth_free(synth);
  free(genes);
  free(counts);
}

static void read_slice(hid_t file, const char *name, hid_t type, uint64_t n, void *out) {
  hid_t d = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(d), memory = H5Screate_simple(1, &(hsize_t){n}, NULL);
  if (d < 0 || space < 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, &(hsize_t){0}, NULL, &(hsize_t){n}, NULL) < 0 ||
      H5Dread(d, type, memory, space, H5P_DEFAULT, out) < 0)
    bench_fail("cannot read %s", name);
  H5Sclose(memory);
  H5Sclose(space);
  H5Dclose(d);
}

void bench_load(bench_matrix *m, const char *path, uint64_t n_cells) {
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  int64_t shape[2];
  hid_t x = H5Gopen2(file, "X", H5P_DEFAULT), a = H5Aopen(x, "shape", H5P_DEFAULT);
  if (file < 0 || x < 0 || a < 0 || H5Aread(a, H5T_NATIVE_INT64, shape) < 0) bench_fail("%s is not an .h5ad file with a sparse X", path);
  H5Aclose(a);
  H5Gclose(x);
  m->n_rows = n_cells && n_cells < (uint64_t)shape[0] ? n_cells : (uint64_t)shape[0];
  m->n_cols = (uint32_t)shape[1];
  m->indptr = bench_get(m->n_rows + 1, 8);
  read_slice(file, "X/indptr", H5T_NATIVE_UINT64, m->n_rows + 1, m->indptr);
  m->nnz = m->indptr[m->n_rows];
  m->ids = bench_get(m->nnz, 4);
  m->values = bench_get(m->nnz, 4);
  read_slice(file, "X/indices", H5T_NATIVE_UINT32, m->nnz, m->ids);
  read_slice(file, "X/data", H5T_NATIVE_FLOAT, m->nnz, m->values);
  H5Fclose(file);
}

void bench_log_normalise(bench_matrix *m) {
  for (uint64_t r = 0; r < m->n_rows; r++) {
    float total = 0;
    for (uint64_t i = m->indptr[r]; i < m->indptr[r + 1]; i++) total += m->values[i];
    for (uint64_t i = m->indptr[r]; i < m->indptr[r + 1]; i++) m->values[i] = log1pf(m->values[i] / total * 1e4f);
  }
}

/* ---- gene order ---- */

static int by_detection(const void *a, const void *b) {
  const uint64_t *x = a, *y = b; /* count << 32 | ~gene, descending */
  return (*x < *y) - (*x > *y);
}

static void find_order(bench_matrix *m, bool source_order) {
  uint64_t *keys = bench_get(m->n_cols, 8);
  for (uint64_t r = 0; !source_order && r < m->n_rows; r += SAMPLE)
    for (uint64_t i = m->indptr[r]; i < m->indptr[r + 1]; i++) keys[m->ids[i]] += UINT64_C(1) << 32;
  for (uint32_t g = 0; g < m->n_cols; g++) keys[g] |= UINT32_MAX - g;
  qsort(keys, m->n_cols, sizeof *keys, by_detection);
  m->order = bench_get(m->n_cols, 4);
  m->place = bench_get(m->n_cols, 4);
  for (uint32_t g = 0; g < m->n_cols; g++) m->order[g] = UINT32_MAX - (uint32_t)keys[g];
  for (uint32_t g = 0; g < m->n_cols; g++) m->place[m->order[g]] = g;
  free(keys);
}

void bench_order_genes(bench_matrix *m, bool source_order) {
  find_order(m, source_order);
  m->stored = bench_get(m->nnz, 4);
  m->stored_values = bench_get(m->nnz, 4);
  float *dense = bench_get(m->n_cols, 4);
  uint64_t *bits = bench_get(m->n_cols / 64 + 1, 8);
  for (uint64_t r = 0; r < m->n_rows; r++) {
    uint64_t j = m->indptr[r];
    for (uint64_t i = j; i < m->indptr[r + 1]; i++) {
      uint32_t id = m->place[m->ids[i]];
      dense[id] = m->values[i];
      bits[id / 64] |= UINT64_C(1) << id % 64;
    }
    for (uint32_t w = 0; w <= m->n_cols / 64; w++) {
      for (uint64_t word = bits[w]; word; word &= word - 1, j++) {
        m->stored[j] = w * 64 + (uint32_t)__builtin_ctzll(word);
        m->stored_values[j] = dense[m->stored[j]];
      }
      bits[w] = 0;
    }
    if (j != m->indptr[r + 1]) bench_fail("row %llu repeats a gene: this benchmark needs rows that do not", (unsigned long long)r);
  }
  free(dense);
  free(bits);
}

/* ---- the rest ---- */

static void shuffle_rows(bench_matrix *m) {
  uint64_t state = 88172645463325252u, n_runs = m->n_rows / BENCH_RUN;
  if (!n_runs) bench_fail("needs at least %d cells", BENCH_RUN);
  uint64_t *runs = bench_get(n_runs, 8);
  for (uint64_t i = 0; i < n_runs; i++) runs[i] = i;
  bench_shuffle(runs, n_runs, &state);
  m->n_shuffled = n_runs * BENCH_RUN;
  m->rows = bench_get(m->n_shuffled, 8);
  for (uint64_t i = 0; i < m->n_shuffled; i++) m->rows[i] = runs[i / BENCH_RUN] * BENCH_RUN + i % BENCH_RUN;
  for (uint64_t at = 0; at < m->n_shuffled; at += BENCH_FETCH)
    bench_shuffle(m->rows + at, m->n_shuffled - at < BENCH_FETCH ? m->n_shuffled - at : BENCH_FETCH, &state);
  free(runs);
}

void bench_prepare(bench_matrix *m) {
  m->whole = true;
  for (uint64_t r = 0; r < m->n_rows; r++)
    if (bench_row_nnz(m, r) > m->max_nnz) m->max_nnz = bench_row_nnz(m, r);
  for (uint64_t i = 0; i < m->nnz && m->whole; i++) {
    float x = m->values[i];
    m->whole = x >= 1 && x < 16777216.f && x == truncf(x);
  }
  shuffle_rows(m);
}

void bench_matrix_free(bench_matrix *m) {
  free(m->indptr);
  free(m->ids);
  free(m->stored);
  free(m->values);
  free(m->stored_values);
  free(m->order);
  free(m->place);
  free(m->rows);
  memset(m, 0, sizeof *m);
}

void bench_ring_init(bench_ring *ring, const bench_matrix *m) {
  ring->capacity = (uint64_t)BENCH_BATCH * m->max_nnz + 1024;
  ring->ids = bench_get(ring->capacity, 4);
  ring->values = bench_get(ring->capacity, 4);
  ring->dense = bench_get((uint64_t)BENCH_BATCH * m->n_cols, 4);
}

void bench_ring_free(bench_ring *ring) {
  free(ring->ids);
  free(ring->values);
  free(ring->dense);
}
