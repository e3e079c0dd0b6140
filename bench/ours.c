/* Our codecs × kernels over records in memory, in the way the reader delivers them. */
#include "codec.h"

#include "../store/codec/codec.h"
#include "../store/codec/deliver.h"
#include "../store/hash.h"
#include "../store/kernels/kernels.h"
#include "../store/codec/row_sort.h"
#include "timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SALT = 7, CHECK = 4 /* bytes before each record */, PREFETCH_LINES = 20 };

typedef struct state {
  const bench_options *options;
  const bench_matrix *m;
  bench_report *report;
  bench_ring ring;
  uint8_t *records;
  uint64_t *offset; /* of the check before a record */
  uint64_t size;    /* of the records */
  annb_gene_table table;
  annb_scratch scratch;
  annb_row_sorter sorter;
  const annb_codec *codec;
} state;

typedef enum what { COPY, ZERO, STORED, ORIGINAL, SORTED, DENSE } what;
static const char *const what_names[] = {"memcpy",  "memset", "stored gene order",
                                         "original ids, unsorted", "original ids, sorted", "dense float32"};

/* A way of delivering, as a lap. */
typedef struct way {
  state *s;
  what what;
  bool check;
} way;

static annb_row_shape shape_of(const bench_matrix *m, uint64_t row) {
  return (annb_row_shape){.n_cols = m->n_cols, .nnz = bench_row_nnz(m, row), .dtype = ANNB_F32};
}

/* ---- decoding ---- */

static void prefetch(const state *s, uint64_t i) {
  if (i + 2 >= s->m->n_shuffled) return;
  const uint8_t *p = s->records + s->offset[s->m->rows[i + 2]];
  for (unsigned line = 0; line < PREFETCH_LINES; line++) __builtin_prefetch(p + 64 * line);
}

static annb_delivery decode_one(const way *w, uint64_t row, uint32_t *ids, float *values, float *dense) {
  state *s = w->s;
  annb_row_shape shape = shape_of(s->m, row);
  const uint8_t *record = s->records + s->offset[row] + CHECK;
  size_t length = s->offset[row + 1] - s->offset[row] - CHECK;
  uint32_t check;
  memcpy(&check, record - CHECK, sizeof check);
  if (w->check && annb_record_check(record, length, SALT, row) != check) return ANNB_DELIVERY_CORRUPT;
  const annb_gene_table *table = s->options->source_order ? NULL : &s->table;
  switch (w->what) {
    case STORED: return annb_deliver_csr(&shape, record, length, NULL, ids, values, &s->scratch);
    case ORIGINAL: return annb_deliver_csr(&shape, record, length, table, ids, values, &s->scratch);
    case SORTED: return annb_deliver_sorted(&shape, record, length, table, ids, values, &s->scratch);
    case DENSE: return annb_deliver_dense(&shape, record, length, table, dense, &s->scratch);
    default: return ANNB_DELIVERY_OTHER;
  }
}

static annb_delivery one(const way *w, uint64_t row, uint32_t *ids, float *values, float *dense) {
  const bench_matrix *m = w->s->m;
  if (w->what == ZERO) memset(dense, 0, m->n_cols * sizeof *dense);
  if (w->what == COPY) {
    memcpy(ids, m->ids + m->indptr[row], bench_row_nnz(m, row) * sizeof *ids);
    memcpy(values, m->values + m->indptr[row], bench_row_nnz(m, row) * sizeof *values);
  }
  return w->what <= ZERO ? ANNB_DELIVERY_DONE : decode_one(w, row, ids, values, dense);
}

/* All rows once, into the ring of one batch. */
static double run_way(void *user) {
  const way *w = user;
  const bench_matrix *m = w->s->m;
  const bench_ring *ring = &w->s->ring;
  double start = bench_now();
  uint64_t used = 0;
  for (uint64_t i = 0; i < m->n_shuffled; i++) {
    if (i % BENCH_BATCH == 0) used = 0;
    uint64_t row = m->rows[i];
    if (w->what > ZERO) prefetch(w->s, i);
    if (one(w, row, ring->ids + used, ring->values + used, ring->dense + i % BENCH_BATCH * m->n_cols) != ANNB_DELIVERY_DONE)
      bench_fail("row %llu does not decode", (unsigned long long)row);
    used += bench_row_nnz(m, row);
  }
  return bench_now() - start;
}

static bool same_dense(const bench_matrix *m, uint64_t row, float *dense) {
  bool ok = true;
  for (uint64_t i = m->indptr[row]; i < m->indptr[row + 1]; i++) {
    ok &= dense[m->ids[i]] == m->values[i];
    dense[m->ids[i]] = 0;
  }
  for (uint32_t g = 0; g < m->n_cols; g++) ok &= dense[g] == 0;
  return ok;
}

/* Every way of delivering against the raw rows. */
static void verify(const way *w) {
  const bench_matrix *m = w->s->m;
  const bench_ring *out = &w->s->ring;
  for (uint64_t row = 0; row < m->n_rows; row += 97) {
    uint64_t start = m->indptr[row], n = bench_row_nnz(m, row);
    bool ok = one(w, row, out->ids, out->values, out->dense) == ANNB_DELIVERY_DONE;
    if (ok && w->what == SORTED) ok = !memcmp(out->ids, m->ids + start, n * 4) && !memcmp(out->values, m->values + start, n * 4);
    if (ok && w->what == STORED) ok = !memcmp(out->ids, m->stored + start, n * 4) && !memcmp(out->values, m->stored_values + start, n * 4);
    for (uint64_t i = 0; ok && w->what == ORIGINAL && i < n; i++)
      ok = out->ids[i] == m->order[m->stored[start + i]] && out->values[i] == m->stored_values[start + i];
    if (ok && w->what == DENSE) ok = same_dense(m, row, out->dense);
    if (!ok) bench_fail("row %llu comes out wrong (%s)", (unsigned long long)row, what_names[w->what]);
  }
}

static void report_decoding(state *s, what w, const annb_kernel *kernel, double ratio, double cost) {
  static const bench_figure figures[] = {[STORED] = FIGURE_STORED, [ORIGINAL] = FIGURE_ORIGINAL,
                                        [SORTED] = FIGURE_SORTED, [DENSE] = FIGURE_DENSE};
  annb_codec_id wanted = s->m->whole ? ANNB_CODEC_COUNT : ANNB_CODEC_DICT;
  if (s->codec->id != wanted) return;
  if (kernel == annb_kernel_best()) {
    bench_report_set(s->report, figures[w], FROM_RECORDS, ratio);
    bench_report_worst(s->report, FIGURE_CHECK, FROM_RECORDS, cost);
  }
  if (kernel == &annb_kernel_scalar && w == ORIGINAL) bench_report_set(s->report, FIGURE_SCALAR, FROM_RECORDS, ratio);
}

/* The base, the way with and without checks in turn. */
static void measure(state *s, what w, const annb_kernel *kernel) {
  uint32_t n = s->options->repeats;
  way base = {s, w == DENSE ? ZERO : COPY, false}, checked = {s, w, true}, plain = {s, w, false};
  bench_lap base_lap = {.run = run_way, .user = &base}, checked_lap = {.run = run_way, .user = &checked};
  bench_lap plain_lap = {.run = run_way, .user = &plain};
  s->scratch.kernel = kernel;
  verify(&checked);
  bench_run_laps((bench_lap *const[]){&base_lap, &checked_lap, &plain_lap}, 3, n);
  const bench_lap *asked = s->options->no_check ? &plain_lap : &checked_lap;
  double rate = (double)s->m->n_shuffled / bench_seconds(asked, n), ratio = bench_ratio(&base_lap, asked, n);
  double cost = 100 * (bench_ratio(&checked_lap, &plain_lap, n) - 1);
  printf("| %s | %s | %s | %.0f | %.1f | %.2f × %s | %+.1f %% |\n", s->codec->name, kernel->name, what_names[w], rate,
         rate * (double)s->m->nnz / (double)s->m->n_rows / 1e6, ratio, what_names[base.what], cost);
  fflush(stdout);
  report_decoding(s, w, kernel, ratio, cost);
}

/* ---- encoding ---- */

static size_t encode_row(state *s, uint64_t row, uint8_t *out) {
  annb_row_shape shape = shape_of(s->m, row);
  uint64_t i = s->m->indptr[row];
  if (shape.nnz == 0) return 0;
  size_t length = s->codec->encode(&shape, s->m->stored + i, (const uint8_t *)(s->m->stored_values + i), out,
                                    annb_record_bound(&shape), &s->scratch);
  if (length == 0) bench_fail("%s does not apply to row %llu", s->codec->name, (unsigned long long)row);
  return length;
}

/* One codec over rows in stored order. */
static double run_encode(void *user) {
  state *s = user;
  uint64_t at = 0;
  double start = bench_now();
  s->size = 0;
  for (uint64_t r = 0; r < s->m->n_rows; r++) {
    s->offset[r] = at;
    size_t length = encode_row(s, r, s->records + at + CHECK);
    s->size += length;
    at += CHECK + length;
  }
  s->offset[s->m->n_rows] = at;
  return bench_now() - start;
}

/* As packing does it: source order to stored ids, sorted, the smallest codec, the check. */
static double run_pack(void *user) {
  state *s = user;
  const bench_matrix *m = s->m;
  const annb_row_sort_rule rule = {s->options->source_order ? NULL : m->place, true, m->n_cols, sizeof(float)};
  uint64_t at = 0;
  double start = bench_now();
  for (uint64_t r = 0; r < m->n_rows; r++) {
    annb_row_shape shape = shape_of(m, r);
    const uint32_t *ids = m->ids + m->indptr[r];
    const uint8_t *values = (const uint8_t *)(m->values + m->indptr[r]);
    if (!annb_row_arrange(&s->sorter, &rule, shape.nnz, &ids, &values)) bench_fail("out of memory");
    size_t length = annb_record_encode(&shape, ANNB_KNOWN_CODECS, ids, values, s->records + at + CHECK, &s->scratch);
    uint32_t check = annb_record_check(s->records + at + CHECK, length, SALT, r);
    memcpy(s->records + at, &check, sizeof check);
    at += CHECK + length;
  }
  return bench_now() - start;
}

static double run_copy_in_order(void *user) {
  state *s = user;
  double start = bench_now();
  uint64_t used = 0;
  for (uint64_t r = 0; r < s->m->n_rows; r++) {
    if (r % BENCH_BATCH == 0) used = 0;
    (void)one(&(way){s, COPY, false}, r, s->ring.ids + used, s->ring.values + used, NULL);
    used += bench_row_nnz(s->m, r);
  }
  return bench_now() - start;
}

static void write_checks(state *s) {
  for (uint64_t r = 0; r < s->m->n_rows; r++) {
    uint8_t *record = s->records + s->offset[r] + CHECK;
    uint32_t check = annb_record_check(record, s->offset[r + 1] - s->offset[r] - CHECK, SALT, r);
    memcpy(record - CHECK, &check, sizeof check);
  }
}

static void encode(state *s) {
  uint32_t n = s->options->repeats;
  bench_lap copy = {.run = run_copy_in_order, .user = s}, alone = {.run = run_encode, .user = s}, packing = {.run = run_pack, .user = s};
  bool chosen = s->codec->id == (s->m->whole ? ANNB_CODEC_COUNT : ANNB_CODEC_DICT);
  (void)run_encode(s); /* the records' pages are there from now on */
  bench_run_laps((bench_lap *const[]){&copy, &alone, &packing}, chosen ? 3 : 2, n);
  double nnz = (double)s->m->nnz / 1e6, bits = 8.0 * (double)s->size / (double)s->m->nnz;
  printf("\n%s: %.3f bits per nonzero; the codec alone encodes %.1f M nnz/s, %.3f × memcpy", s->codec->name, bits,
         nnz / bench_seconds(&alone, n), bench_ratio(&copy, &alone, n));
  if (chosen) {
    printf("; from rows in source order, as packing does (map, sort, choose, check), %.1f M nnz/s, %.3f ×",
           nnz / bench_seconds(&packing, n), bench_ratio(&copy, &packing, n));
    bench_report_set(s->report, FIGURE_ENCODE, FROM_RECORDS, nnz / bench_seconds(&packing, n));
    bench_report_set(s->report, FIGURE_ENCODE_ALONE, FROM_RECORDS, nnz / bench_seconds(&alone, n));
    bench_report_set(s->report, bench_size_figure(s->m->whole, s->options->source_order), FROM_RECORDS, bits);
  }
  (void)run_encode(s); /* packing wrote over the records */
  write_checks(s);
}

static void bench_one_codec(state *s, annb_codec_id id) {
  size_t n_codecs, n_kernels;
  const annb_codec *codecs = annb_codecs(&n_codecs);
  const annb_kernel *const *kernels = annb_kernels(&n_kernels);
  for (size_t i = 0; i < n_codecs; i++)
    if (codecs[i].id == id) s->codec = &codecs[i];
  s->scratch.kernel = NULL;
  encode(s);
  printf("\n\n| codec | kernel | delivers | rows/s | M nnz/s | ratio | cost of checks |\n|---|---|---|---|---|---|---|\n");
  for (size_t k = 0; k < n_kernels; k++) {
    if (!kernels[k]->usable() || (s->options->kernel && strcmp(s->options->kernel, kernels[k]->name))) continue;
    for (what w = STORED; w <= DENSE; w++) measure(s, w, kernels[k]);
  }
}

void bench_ours(const bench_options *options, const bench_matrix *m, bench_report *report) {
  state s = {.options = options, .m = m, .report = report};
  if (!annb_gene_table_init(&s.table, m->order, m->n_cols, m->n_cols)) bench_fail("out of memory");
  bench_ring_init(&s.ring, m);
  s.records = bench_reserve(m->nnz + 16 * m->n_rows, 8); /* pages that no codec fills are never there */
  s.offset = bench_get(m->n_rows + 1, 8);
  if (m->whole) bench_one_codec(&s, ANNB_CODEC_COUNT);
  bench_one_codec(&s, ANNB_CODEC_DICT);
  annb_scratch_free(&s.scratch);
  annb_row_sorter_free(&s.sorter);
  annb_gene_table_free(&s.table);
  bench_ring_free(&s.ring);
  free(s.records);
  free(s.offset);
}
