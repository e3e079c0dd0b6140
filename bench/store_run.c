/* The rows of a store through the public reader, batches of 64 cells in shuffled order. */
#include "codec.h"
#include "store_bench.h"
#include "timing.h"

#include <annblock/annblock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct state {
  const bench_options *options;
  const bench_matrix *m;
  annb_store *checked, *unchecked; /* the same store */
  annb_context *context;
  const uint32_t *order; /* stored id → gene; NULL = the same */
  uint32_t matrix;
  bench_ring ring;
} state;

typedef enum what { COPY, ZERO, STORED, ORIGINAL, SORTED, DENSE } what;
static const char *const what_names[] = {"memcpy",  "memset", "stored gene order",
                                         "original ids, unsorted", "original ids, sorted", "dense float32"};

typedef struct way {
  const state *s;
  what what;
  const annb_store *store;
} way;

static void need(annb_status s, const annb_error *err) {
  if (s) bench_fail("%s", err->message);
}

/* ---- one batch ---- */

static void fetch(const way *w, const uint64_t *rows, size_t n, int64_t *indptr) {
  const state *s = w->s;
  const bench_ring *ring = &s->ring;
  size_t dense_size = (size_t)BENCH_BATCH * s->m->n_cols * sizeof *ring->dense;
  annb_error err;
  annb_fetch_options o = {.dtype = ANNB_F32,
                          .sort_indices = w->what == SORTED,
                          .gene_order = w->what == STORED ? ANNB_GENES_STORED : ANNB_GENES_ORIGINAL};
  if (w->what == DENSE)
    need(annb_fetch_dense(w->store, s->context, s->matrix, rows, n, &o, ring->dense, 0, dense_size, &err), &err);
  else need(annb_fetch_csr(w->store, s->context, s->matrix, rows, n, &o, indptr, ring->ids, ring->values, ring->capacity, &err), &err);
}

static void base(const way *w, const uint64_t *rows, size_t n) {
  const bench_matrix *m = w->s->m;
  uint64_t used = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t nnz = bench_row_nnz(m, rows[i]);
    if (w->what == ZERO) memset(w->s->ring.dense + i * m->n_cols, 0, m->n_cols * sizeof(float));
    else {
      memcpy(w->s->ring.ids + used, m->ids + m->indptr[rows[i]], nnz * sizeof *m->ids);
      memcpy(w->s->ring.values + used, m->values + m->indptr[rows[i]], nnz * sizeof *m->values);
    }
    used += nnz;
  }
}

/* All rows once. */
static double run_way(void *user) {
  const way *w = user;
  const bench_matrix *m = w->s->m;
  int64_t indptr[BENCH_BATCH + 1];
  double start = bench_now();
  for (uint64_t at = 0; at < m->n_shuffled; at += BENCH_BATCH) {
    size_t n = m->n_shuffled - at < BENCH_BATCH ? (size_t)(m->n_shuffled - at) : BENCH_BATCH;
    if (w->what <= ZERO) base(w, m->rows + at, n);
    else fetch(w, m->rows + at, n, indptr);
  }
  return bench_now() - start;
}

/* ---- against the raw rows ---- */

static bool same_row(const way *w, uint64_t row, size_t i, const int64_t *indptr, float *dense) {
  const bench_matrix *m = w->s->m;
  const uint32_t *ids = w->s->ring.ids;
  const float *values = w->s->ring.values;
  uint32_t n = bench_row_nnz(m, row);
  bool ok = w->what == DENSE || (uint64_t)(indptr[i + 1] - indptr[i]) == n;
  memset(dense, 0, m->n_cols * sizeof *dense);
  for (int64_t k = w->what == DENSE ? 0 : indptr[i]; ok && w->what != DENSE && k < indptr[i + 1]; k++) {
    uint32_t id = w->what == STORED && w->s->order ? w->s->order[ids[k]] : ids[k];
    ok = id < m->n_cols && (w->what != SORTED || k == indptr[i] || ids[k] > ids[k - 1]);
    if (ok) dense[id] = values[k];
  }
  if (w->what == DENSE) memcpy(dense, w->s->ring.dense + i * m->n_cols, m->n_cols * sizeof *dense);
  for (uint64_t k = m->indptr[row]; ok && k < m->indptr[row + 1]; k++) {
    ok = dense[m->ids[k]] == m->values[k];
    dense[m->ids[k]] = 0;
  }
  for (uint32_t g = 0; ok && g < m->n_cols; g++) ok = dense[g] == 0;
  return ok;
}

static void verify(const way *w) {
  const bench_matrix *m = w->s->m;
  int64_t indptr[BENCH_BATCH + 1];
  float *dense = bench_get(m->n_cols, sizeof *dense);
  for (uint64_t at = 0; at + BENCH_BATCH <= m->n_shuffled; at += (uint64_t)97 * BENCH_BATCH) {
    fetch(w, m->rows + at, BENCH_BATCH, indptr);
    for (size_t i = 0; i < BENCH_BATCH; i++)
      if (!same_row(w, m->rows[at + i], i, indptr, dense))
        bench_fail("row %llu of the store comes out wrong (%s)", (unsigned long long)m->rows[at + i], what_names[w->what]);
  }
  free(dense);
}

/* ---- measuring ---- */

static void measure(const state *s, what w, bench_report *report) {
  static const bench_figure figures[] = {[STORED] = FIGURE_STORED, [ORIGINAL] = FIGURE_ORIGINAL,
                                        [SORTED] = FIGURE_SORTED, [DENSE] = FIGURE_DENSE};
  uint32_t n = s->options->repeats;
  way copy = {s, w == DENSE ? ZERO : COPY, NULL}, checked = {s, w, s->checked}, plain = {s, w, s->unchecked};
  bench_lap copy_lap = {.run = run_way, .user = &copy}, checked_lap = {.run = run_way, .user = &checked};
  bench_lap plain_lap = {.run = run_way, .user = &plain};
  verify(&checked);
  (void)run_way(&checked); /* pages of the files, in either mapping */
  (void)run_way(&plain);
  bench_run_laps((bench_lap *const[]){&copy_lap, &checked_lap, &plain_lap}, 3, n);
  const bench_lap *asked = s->options->no_check ? &plain_lap : &checked_lap;
  double rate = (double)s->m->n_shuffled / bench_seconds(asked, n), ratio = bench_ratio(&copy_lap, asked, n);
  double cost = 100 * (bench_ratio(&checked_lap, &plain_lap, n) - 1);
  printf("| %s | %.0f | %.1f | %.2f × %s | %+.1f %% |\n", what_names[w], rate,
         rate * (double)s->m->nnz / (double)s->m->n_rows / 1e6, ratio, what_names[copy.what], cost);
  fflush(stdout);
  bench_report_set(report, figures[w], FROM_STORE, ratio);
  bench_report_worst(report, FIGURE_CHECK, FROM_STORE, cost);
}

/* ---- the raw rows, when no file was given ---- */

static void read_rows(const state *s, bench_matrix *m, uint64_t first, size_t n) {
  uint64_t rows[BENCH_BATCH];
  int64_t indptr[BENCH_BATCH + 1];
  annb_error err;
  const annb_fetch_options o = {.dtype = ANNB_F32, .sort_indices = true};
  for (size_t i = 0; i < n; i++) rows[i] = first + i;
  uint64_t at = m->indptr[first];
  need(annb_fetch_csr(s->checked, s->context, s->matrix, rows, n, &o, indptr, m->ids + at, m->values + at, m->nnz - at, &err), &err);
}

static void take_rows(const state *s, const annb_matrix_info *info, bench_matrix *m) {
  uint64_t wanted = s->options->n_cells;
  annb_error err;
  m->n_rows = wanted && wanted < info->n_rows ? wanted : info->n_rows;
  m->n_cols = (uint32_t)info->n_cols;
  m->indptr = bench_get(m->n_rows + 1, 8);
  for (uint64_t r = 0; r < m->n_rows; r++) {
    uint64_t nnz;
    need(annb_fetch_nnz(s->checked, s->matrix, &r, 1, NULL, &nnz, &err), &err);
    m->indptr[r + 1] = m->indptr[r] + nnz;
  }
  m->nnz = m->indptr[m->n_rows];
  m->ids = bench_get(m->nnz, 4);
  m->values = bench_get(m->nnz, 4);
  for (uint64_t r = 0; r < m->n_rows; r += BENCH_BATCH)
    read_rows(s, m, r, m->n_rows - r < BENCH_BATCH ? (size_t)(m->n_rows - r) : BENCH_BATCH);
  bench_prepare(m);
}

static void open_store(state *s, annb_matrix_info *info) {
  const annb_open_options skip = {.skip_checks = true};
  annb_error err;
  need(annb_store_open(s->options->store, NULL, &s->checked, &err), &err);
  need(annb_store_open(s->options->store, &skip, &s->unchecked, &err), &err);
  need(annb_context_open(&s->context, &err), &err);
  need(annb_store_find_matrix(s->checked, "X", &s->matrix, &err), &err);
  need(annb_store_matrix(s->checked, s->matrix, info, &err), &err);
  need(annb_matrix_gene_order(s->checked, 0, s->matrix, &s->order, &err), &err);
}

void bench_store(const bench_options *options, bench_matrix *m, bench_report *report) {
  state s = {.options = options, .m = m};
  annb_matrix_info info;
  bench_store_size size;
  open_store(&s, &info);
  printf("\n# Store, through the reader\n");
  bench_store_sizes(options->store, &size);
  if (size.nnz != info.nnz) printf("**The files hold other matrices or generations too: their sizes are of all together.**\n");
  bool from_store = m->n_rows == 0;
  if (from_store) take_rows(&s, &info, m);
  if (m->n_rows > info.n_rows || m->n_cols != info.n_cols) bench_fail("the store is not of this file");
  bench_report_set(report, bench_size_figure(m->whole, !s.order), FROM_STORE, size.bits);
  bench_report_set(report, FIGURE_OVERHEAD, FROM_STORE, size.overhead);
  printf("%llu of its %llu cells, %.1f nonzeros per cell, genes in %s order, raw rows from the %s, checks %s; "
         "medians of %u interleaved runs\n\n",
         (unsigned long long)m->n_rows, (unsigned long long)info.n_rows, (double)m->nnz / (double)m->n_rows,
         s.order ? "detection" : "source", from_store ? "store itself" : "file", options->no_check ? "not verified" : "verified",
         options->repeats);
  bench_ring_init(&s.ring, m);
  printf("| delivers | rows/s | M nnz/s | ratio | cost of checks |\n|---|---|---|---|---|\n");
  for (what w = STORED; w <= DENSE; w++) measure(&s, w, report);
  bench_ring_free(&s.ring);
  annb_context_close(s.context);
  annb_store_close(s.checked);
  annb_store_close(s.unchecked);
}
