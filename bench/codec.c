/* Sizes and speeds of the record codecs, beside memcpy and memset of the same rows. One thread. */
#include "../store/codec.h"
#include "../store/deliver.h"
#include "../store/hash.h"
#include "../store/kernels/kernels.h"
#include "synth.h"

#include <argp.h>
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 64, RUN = 16, FETCH = 16384, MAX_REPEATS = 31, SAMPLE = 16 };

typedef struct options {
  const char *path;
  uint64_t n_cells;
  uint32_t n_genes, repeats;
  bool lognorm, source_order, check;
  const char *kernel;
} options;

/* Raw rows, the same in stored order, and their records. */
typedef struct matrix {
  uint64_t n_rows, nnz, size;
  uint32_t n_cols, max_nnz;
  uint64_t *indptr;
  uint32_t *ids, *stored; /* source order; ascending stored ids */
  float *values, *stored_values;
  uint32_t *order; /* stored id → gene */
  uint8_t *records;
  uint64_t *offset;
} matrix;

typedef struct ring {
  uint32_t *ids;
  float *values, *dense;
} ring;

typedef struct bench {
  options opt;
  matrix m;
  ring out;
  uint64_t *rows; /* in shuffled order */
  uint64_t n_shuffled;
  annb_gene_table table;
  annb_scratch scratch;
} bench;

static const struct argp_option argp_options[] = {{"cells", 'n', "N", 0, "cells (60000)", 0},
                                                  {"genes", 'g', "N", 0, "genes, without a file (30000)", 0},
                                                  {"repeats", 'r', "N", 0, "runs of each measurement (7)", 0},
                                                  {"lognorm", 'l', NULL, 0, "log-normalise the counts", 0},
                                                  {"source-order", 's', NULL, 0, "keep the genes in source order", 0},
                                                  {"kernel", 'k', "NAME", 0, "only this kernel", 0},
                                                  {"no-check", 'c', NULL, 0, "do not verify XXH3 checks before decoding", 0},
                                                  {NULL, 0, NULL, 0, NULL, 0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
    case 'n': o->n_cells = strtoull(arg, NULL, 10); return 0;
    case 'g': o->n_genes = (uint32_t)strtoul(arg, NULL, 10); return 0;
    case 'r': o->repeats = (uint32_t)strtoul(arg, NULL, 10); return 0;
    case 'l': o->lognorm = true; return 0;
    case 's': o->source_order = true; return 0;
    case 'c': o->check = false; return 0;
    case 'k': o->kernel = arg; return 0;
    case ARGP_KEY_ARG: o->path = arg; return 0;
    case ARGP_KEY_END:
      if (o->n_cells < 1 || o->n_genes < 1 || o->repeats < 1 || o->repeats > MAX_REPEATS) argp_error(state, "numbers out of range");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static void *get(uint64_t n, size_t size) {
  void *p = aligned_alloc(64, (n * size + 4096) / 64 * 64);
  if (!p) {
    fprintf(stderr, "bench: out of memory\n");
    exit(1);
  }
  memset(p, 0, (n * size + 4096) / 64 * 64); /* pages are there before anything is measured */
  return p;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* of this thread alone: other work on the machine counts less */
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t random64(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

/* ---- input ---- */

static void log_normalise(float *values, uint64_t n) {
  float total = 0;
  for (uint64_t i = 0; i < n; i++) total += values[i];
  for (uint64_t i = 0; i < n; i++) values[i] = log1pf(values[i] / total * 1e4f);
}

static void generate(matrix *m, const options *o) {
  annb_synth_params p = {.n_cells = o->n_cells, .n_genes = o->n_genes, .n_types = 50, .depth = 3500, .seed = 1};
  annb_synth *synth = annb_synth_new(&p);
  uint32_t *genes = get(p.n_genes, 4), *counts = get(p.n_genes, 4);
  uint64_t total, room = 0;
  if (!synth) exit(1);
  m->n_rows = p.n_cells;
  m->n_cols = p.n_genes;
  m->indptr = get(p.n_cells + 1, 8);
  for (int pass = 0; pass < 2; pass++) {
    for (uint64_t i = 0; i < p.n_cells; i++) {
      uint32_t n = annb_synth_cell(synth, i, genes, counts, &total);
      m->indptr[i + 1] = m->indptr[i] + n;
      for (uint32_t j = 0; pass && j < n; j++) m->values[m->indptr[i] + j] = (float)counts[j];
      if (pass) memcpy(m->ids + m->indptr[i], genes, n * sizeof *genes);
    }
    room = m->indptr[p.n_cells];
    if (pass) break;
    m->ids = get(room, 4);
    m->values = get(room, 4);
  }
  m->nnz = room;
  annb_synth_free(synth);
  free(genes);
  free(counts);
}

static void read_slice(hid_t file, const char *name, hid_t type, uint64_t n, void *out) {
  hid_t d = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(d), memory = H5Screate_simple(1, &(hsize_t){n}, NULL);
  if (d < 0 || space < 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, &(hsize_t){0}, NULL, &(hsize_t){n}, NULL) < 0 ||
      H5Dread(d, type, memory, space, H5P_DEFAULT, out) < 0) {
    fprintf(stderr, "bench: cannot read %s\n", name);
    exit(1);
  }
  H5Sclose(memory);
  H5Sclose(space);
  H5Dclose(d);
}

static void load(matrix *m, const options *o) {
  hid_t file = H5Fopen(o->path, H5F_ACC_RDONLY, H5P_DEFAULT);
  int64_t shape[2];
  hid_t x = H5Gopen2(file, "X", H5P_DEFAULT), a = H5Aopen(x, "shape", H5P_DEFAULT);
  if (file < 0 || x < 0 || a < 0 || H5Aread(a, H5T_NATIVE_INT64, shape) < 0) {
    fprintf(stderr, "bench: %s is not an .h5ad file with a sparse X\n", o->path);
    exit(1);
  }
  H5Aclose(a);
  H5Gclose(x);
  m->n_rows = o->n_cells < (uint64_t)shape[0] ? o->n_cells : (uint64_t)shape[0];
  m->n_cols = (uint32_t)shape[1];
  m->indptr = get(m->n_rows + 1, 8);
  read_slice(file, "X/indptr", H5T_NATIVE_UINT64, m->n_rows + 1, m->indptr);
  m->nnz = m->indptr[m->n_rows];
  m->ids = get(m->nnz, 4);
  m->values = get(m->nnz, 4);
  read_slice(file, "X/indices", H5T_NATIVE_UINT32, m->nnz, m->ids);
  read_slice(file, "X/data", H5T_NATIVE_FLOAT, m->nnz, m->values);
  H5Fclose(file);
}

/* ---- gene order ---- */

static int by_detection(const void *a, const void *b) {
  const uint64_t *x = a, *y = b; /* count << 32 | ~gene, descending */
  return (*x < *y) - (*x > *y);
}

static void order_genes(matrix *m, bool source_order) {
  uint64_t *keys = get(m->n_cols, 8);
  uint32_t *place = get(m->n_cols, 4);
  for (uint64_t r = 0; !source_order && r < m->n_rows; r += SAMPLE)
    for (uint64_t i = m->indptr[r]; i < m->indptr[r + 1]; i++) keys[m->ids[i]] += UINT64_C(1) << 32;
  for (uint32_t g = 0; g < m->n_cols; g++) keys[g] |= UINT32_MAX - g;
  qsort(keys, m->n_cols, sizeof *keys, by_detection);
  m->order = get(m->n_cols, 4);
  for (uint32_t g = 0; g < m->n_cols; g++) m->order[g] = UINT32_MAX - (uint32_t)keys[g];
  for (uint32_t g = 0; g < m->n_cols; g++) place[m->order[g]] = g;
  m->stored = get(m->nnz, 4);
  m->stored_values = get(m->nnz, 4);
  float *dense = get(m->n_cols, 4);
  uint64_t *bits = get(m->n_cols / 64 + 1, 8);
  for (uint64_t r = 0; r < m->n_rows; r++) {
    uint64_t j = m->indptr[r];
    for (uint64_t i = j; i < m->indptr[r + 1]; i++) {
      uint32_t id = place[m->ids[i]];
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
  }
  free(keys);
  free(place);
  free(dense);
  free(bits);
}

/* Runs of 16 rows are shuffled, and the rows within each fetch of 16,384. */
static void shuffle_rows(bench *b) {
  uint64_t state = 88172645463325252u, n_runs = b->m.n_rows / RUN;
  uint64_t *runs = get(n_runs, 8);
  for (uint64_t i = 0; i < n_runs; i++) runs[i] = i;
  for (uint64_t i = n_runs; i > 1; i--) {
    uint64_t j = random64(&state) % i, x = runs[i - 1];
    runs[i - 1] = runs[j];
    runs[j] = x;
  }
  b->n_shuffled = n_runs * RUN;
  b->rows = get(b->n_shuffled, 8);
  for (uint64_t i = 0; i < b->n_shuffled; i++) b->rows[i] = runs[i / RUN] * RUN + i % RUN;
  for (uint64_t at = 0; at < b->n_shuffled; at += FETCH)
    for (uint64_t n = b->n_shuffled - at < FETCH ? b->n_shuffled - at : FETCH; n > 1; n--) {
      uint64_t j = random64(&state) % n, x = b->rows[at + n - 1];
      b->rows[at + n - 1] = b->rows[at + j];
      b->rows[at + j] = x;
    }
  free(runs);
}

/* ---- what is measured ---- */

typedef enum what { COPY, COPY_STORED, STORED, ORIGINAL, SORTED, ZERO, DENSE, N_WHAT } what;
static const char *const what_names[] = {"memcpy", "memcpy", "stored gene order", "original ids, unsorted", "original ids, sorted", "memset", "dense float32"};

static annb_row_shape shape_of(const matrix *m, uint64_t row) {
  return (annb_row_shape){.n_cols = m->n_cols, .nnz = (uint32_t)(m->indptr[row + 1] - m->indptr[row]), .dtype = ANNB_F32};
}

static void prefetch(const bench *b, uint64_t i) {
  if (i + 2 >= b->n_shuffled) return;
  const uint8_t *p = b->m.records + b->m.offset[b->rows[i + 2]];
  for (unsigned line = 0; line < 20; line++) __builtin_prefetch(p + 64 * line);
}

static annb_delivery one(bench *b, what w, uint64_t row, uint32_t *ids, float *values, float *dense) {
  matrix *m = &b->m;
  annb_row_shape shape = shape_of(m, row);
  const uint8_t *record = m->records + m->offset[row];
  size_t length = m->offset[row + 1] - m->offset[row], start = m->indptr[row];
  const annb_gene_table *table = b->opt.source_order ? NULL : &b->table;
  if (w >= STORED && w != ZERO && b->opt.check && annb_record_check(record + 4, length - 4, 7, row) != *(const uint32_t *)(const void *)record)
    return ANNB_DELIVERY_CORRUPT;
  switch (w) {
    case COPY:
    case COPY_STORED:
      memcpy(ids, m->ids + start, shape.nnz * 4u);
      memcpy(values, m->values + start, shape.nnz * 4u);
      return ANNB_DELIVERY_DONE;
    case STORED: return annb_deliver_csr(&shape, record + 4, length - 4, NULL, ids, values, &b->scratch);
    case ORIGINAL: return annb_deliver_csr(&shape, record + 4, length - 4, table, ids, values, &b->scratch);
    case SORTED: return annb_deliver_sorted(&shape, record + 4, length - 4, table, ids, values, &b->scratch);
    case ZERO: memset(dense, 0, m->n_cols * sizeof *dense); return ANNB_DELIVERY_DONE;
    case DENSE: return annb_deliver_dense(&shape, record + 4, length - 4, table, dense, &b->scratch);
    case N_WHAT: break;
  }
  return ANNB_DELIVERY_OTHER;
}

/* All rows once, into the ring of one batch: seconds. */
static double run(bench *b, what w) {
  double start = now();
  uint64_t used = 0;
  for (uint64_t i = 0; i < b->n_shuffled; i++) {
    if (i % BATCH == 0) used = 0;
    uint64_t row = b->rows[i];
    if (w >= STORED) prefetch(b, i);
    if (one(b, w, row, b->out.ids + used, b->out.values + used, b->out.dense + i % BATCH * b->m.n_cols) != ANNB_DELIVERY_DONE) {
      fprintf(stderr, "bench: row %llu does not decode\n", (unsigned long long)row);
      exit(1);
    }
    used += b->m.indptr[row + 1] - b->m.indptr[row];
  }
  return now() - start;
}

/* Every way of delivering against the raw rows. */
static void verify(bench *b, what w) {
  float *dense = get(b->m.n_cols, 4);
  for (uint64_t row = 0; row < b->m.n_rows; row += 97) {
    uint64_t start = b->m.indptr[row], n = b->m.indptr[row + 1] - start;
    bool ok = one(b, w, row, b->out.ids, b->out.values, dense) == ANNB_DELIVERY_DONE;
    if (ok && w == SORTED) ok = !memcmp(b->out.ids, b->m.ids + start, n * 4) && !memcmp(b->out.values, b->m.values + start, n * 4);
    if (ok && w == STORED) ok = !memcmp(b->out.ids, b->m.stored + start, n * 4) && !memcmp(b->out.values, b->m.stored_values + start, n * 4);
    if (ok && w == ORIGINAL)
      for (uint64_t i = 0; i < n; i++) ok &= b->out.ids[i] == b->m.order[b->m.stored[start + i]] && b->out.values[i] == b->m.stored_values[start + i];
    for (uint64_t i = 0; ok && w == DENSE && i < n; i++) {
      ok &= dense[b->m.ids[start + i]] == b->m.values[start + i];
      dense[b->m.ids[start + i]] = 0;
    }
    for (uint32_t g = 0; ok && w == DENSE && g < b->m.n_cols; g++) ok &= dense[g] == 0;
    if (ok) continue;
    fprintf(stderr, "bench: row %llu comes out wrong (%s)\n", (unsigned long long)row, what_names[w]);
    exit(1);
  }
  free(dense);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, uint32_t n) {
  qsort(x, n, sizeof *x, compare);
  return x[n / 2];
}

/* The base and the way of delivering in turn, so that both meet the same machine: the median of their ratios. */
static void measure(bench *b, what base, what w, const char *kernel) {
  double ratio[MAX_REPEATS], seconds[MAX_REPEATS], bases[MAX_REPEATS];
  verify(b, w);
  for (uint32_t i = 0; i < b->opt.repeats; i++) {
    bases[i] = run(b, base);
    seconds[i] = run(b, w);
    ratio[i] = bases[i] / seconds[i];
  }
  double rate = (double)b->n_shuffled / median(seconds, b->opt.repeats);
  double middle = median(ratio, b->opt.repeats);
  median(bases, b->opt.repeats);
  printf("  %-8s %-24s %9.0f rows/s %8.1f M nnz/s   %.2f x %s (%.2f of the best runs)\n", kernel, what_names[w], rate,
         rate * (double)b->m.nnz / (double)b->m.n_rows / 1e6, middle, what_names[base], bases[0] / seconds[0]);
  fflush(stdout);
}

static void encode(bench *b, const annb_codec *codec) {
  matrix *m = &b->m;
  uint64_t at = 0, size = 0;
  double start = now();
  for (uint64_t r = 0; r < m->n_rows; r++) {
    annb_row_shape shape = shape_of(m, r);
    uint64_t i = m->indptr[r];
    m->offset[r] = at;
    size_t length = codec->encode(&shape, m->stored + i, (const uint8_t *)(m->stored_values + i), m->records + at + 4, annb_record_bound(&shape), &b->scratch);
    if (length == 0) {
      printf("%s does not apply to row %llu\n", codec->name, (unsigned long long)r);
      exit(1);
    }
    size += length;
    at += 4 + length;
  }
  double seconds = now() - start;
  m->offset[m->n_rows] = at;
  for (uint64_t r = 0; r < m->n_rows; r++) {
    uint32_t check = annb_record_check(m->records + m->offset[r] + 4, m->offset[r + 1] - m->offset[r] - 4, 7, r);
    memcpy(m->records + m->offset[r], &check, sizeof check);
  }
  m->size = size;
  printf("%s: %.3f bits per nonzero, encoded at %.1f M nnz/s\n", codec->name, 8.0 * (double)size / (double)m->nnz, (double)m->nnz / seconds / 1e6);
}

static void bench_codec(bench *b, annb_codec_id id) {
  size_t n_codecs, n_kernels;
  const annb_codec *codecs = annb_codecs(&n_codecs), *codec = NULL;
  const annb_kernel *const *kernels = annb_kernels(&n_kernels);
  for (size_t i = 0; i < n_codecs; i++)
    if (codecs[i].id == id) codec = &codecs[i];
  if (!codec) exit(1);
  encode(b, codec);
  for (size_t k = 0; k < n_kernels; k++) {
    if (!kernels[k]->usable() || (b->opt.kernel && strcmp(b->opt.kernel, kernels[k]->name))) continue;
    b->scratch.kernel = kernels[k];
    measure(b, COPY, STORED, kernels[k]->name);
    measure(b, COPY, ORIGINAL, kernels[k]->name);
    measure(b, COPY, SORTED, kernels[k]->name);
    measure(b, ZERO, DENSE, kernels[k]->name);
  }
}

int main(int argc, char **argv) {
  static const struct argp argp = {argp_options, parse, "[FILE.h5ad]", "Measure the record codecs on a file, or on generated counts.", NULL, NULL, NULL};
  static bench b = {.opt = {.n_cells = 60000, .n_genes = 30000, .repeats = 7, .check = true}};
  argp_parse(&argp, argc, argv, 0, NULL, &b.opt);
  if (b.opt.path) load(&b.m, &b.opt);
  else generate(&b.m, &b.opt);
  for (uint64_t r = 0; r < b.m.n_rows; r++) {
    uint64_t n = b.m.indptr[r + 1] - b.m.indptr[r];
    if (n > b.m.max_nnz) b.m.max_nnz = (uint32_t)n;
    if (b.opt.lognorm) log_normalise(b.m.values + b.m.indptr[r], n);
  }
  order_genes(&b.m, b.opt.source_order);
  shuffle_rows(&b);
  if (!annb_gene_table_init(&b.table, b.m.order, b.m.n_cols, b.m.n_cols)) return 1;
  b.m.records = get(b.m.nnz + 16 * b.m.n_rows, 8);
  b.m.offset = get(b.m.n_rows + 1, 8);
  b.out.ids = get((uint64_t)BATCH * b.m.max_nnz + ANNB_DECODE_SLACK, 4);
  b.out.values = get((uint64_t)BATCH * b.m.max_nnz + ANNB_DECODE_SLACK, 4);
  b.out.dense = get((uint64_t)BATCH * b.m.n_cols, 4);
  printf("%llu cells, %u genes, %.1f nonzeros per cell, genes in %s order, checks %s\n", (unsigned long long)b.m.n_rows, b.m.n_cols,
         (double)b.m.nnz / (double)b.m.n_rows, b.opt.source_order ? "source" : "detection", b.opt.check ? "verified" : "not verified");
  if (!b.opt.lognorm) bench_codec(&b, ANNB_CODEC_COUNT);
  bench_codec(&b, ANNB_CODEC_DICT);
  annb_scratch_free(&b.scratch);
  annb_gene_table_free(&b.table);
  return 0;
}
