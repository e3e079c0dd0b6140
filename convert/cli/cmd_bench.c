/* annblock bench STORE: minibatches a second, beside copying the same raw rows in the same run. */
#include "progress.h"
#include "sampling.h"
#include "text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../store/io.h"

enum { COLD = 700, THREADS, SECONDS, JSON, ACCESS, ORDER, MATRIX, ROUNDS = 5, RING = 8 };
#define RAW_BYTES (UINT64_C(2) << 30) /* of raw rows that are held; further rows are copied from those */

typedef struct arguments {
  cli_sampling sampling;
  const char *matrix;
  bool cold, json;
  uint32_t threads;
  uint64_t seconds;
  annb_access access;
  annb_fetch_options fetch;
} arguments;

static const struct argp_option options[] = {
    {.key = COLD, .name = "cold", .doc = "Drop the store's files from the page cache first (as far as the system lets us)"},
    {.key = THREADS, .name = "threads", .arg = "N", .doc = "Decoding threads, the default is 1"},
    {.key = SECONDS, .name = "seconds", .arg = "S", .doc = "About how long to measure, the default is 5"},
    {.key = ACCESS, .name = "access", .arg = "MODE", .doc = "auto (the default), mmap or pread"},
    {.key = ORDER, .name = "genes", .arg = "ORDER",
     .doc = "Of the genes in a row: original (the default: the file's columns, in the record's order), sorted (ascending columns) or "
            "stored (the record's own numbers, the fastest)"},
    {.key = MATRIX, .name = "matrix", .arg = "NAME", .doc = "The matrix, the default is X"},
    {.key = JSON, .name = "json", .doc = "One JSON object instead of lines"},
    {0}};

static annb_access access_of(struct argp_state *state, const char *name) {
  static const char *const names[] = {"auto", "mmap", "pread"};
  for (int i = 0; i < 3; i++)
    if (!strcmp(name, names[i])) return (annb_access)i;
  argp_error(state, "--access takes auto, mmap or pread, not '%s'", name);
  return ANNB_ACCESS_AUTO;
}

static void set_order(struct argp_state *state, const char *name, annb_fetch_options *o) {
  if (strcmp(name, "original") && strcmp(name, "sorted") && strcmp(name, "stored"))
    argp_error(state, "--genes takes original, sorted or stored, not '%s'", name);
  o->sort_indices = !strcmp(name, "sorted");
  o->gene_order = !strcmp(name, "stored") ? ANNB_GENES_STORED : ANNB_GENES_ORIGINAL;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->sampling; return 0;
    case COLD: a->cold = true; return 0;
    case JSON: a->json = true; return 0;
    case THREADS: a->threads = (uint32_t)cli_number(state, "--threads", "a number of threads", arg, 1, 64); return 0;
    case SECONDS: a->seconds = cli_number(state, "--seconds", "a number of seconds", arg, 1, 86400); return 0;
    case ACCESS: a->access = access_of(state, arg); return 0;
    case ORDER: set_order(state, arg, &a->fetch); return 0;
    case MATRIX: a->matrix = arg; return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "STORE...",
    .children = cli_sampling_children,
    .doc = "Measure how many cells a second the loader delivers, and how many a plain copy of the same raw CSR rows in memory does, in the "
           "same order, in turns.\vThe copy uses one thread and rows that are in memory already."};

typedef struct bench {
  arguments *args;
  annb_store *store; /* of the arguments */
  annb_loader *loader;
  uint64_t epoch;
  uint64_t *rows, n_rows, room; /* of the last lap */
  double first, rate, copy_rate, ratio, bytes_per_cell;
  uint64_t peak;
  /* raw rows */
  uint64_t n_raw, *indptr;
  int32_t *ids;
  float *values;
  uint64_t most; /* elements of the largest batch */
} bench;

/* ---- surroundings ---- */

static uint64_t anonymous_bytes(void) {
  char line[256];
  uint64_t kib, sum = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "RssAnon: %" SCNu64, &kib) == 1 || sscanf(line, "RssShmem: %" SCNu64, &kib) == 1) sum += kib * 1024;
  if (f) fclose(f);
  return sum;
}

static void drop_cache(const char *store) {
  char *dir = annb_io_join(store, "objects");
  if (dir) annb_io_drop_cached(dir);
  free(dir);
}

/* ---- the loader ---- */

static annb_status open_loader(bench *b, annb_error *err) {
  arguments *a = b->args;
  annb_status s = cli_sampling_open(&a->sampling, err);
  annb_loader_matrix matrix = {.name = a->matrix, .fetch = a->fetch};
  annb_loader_options o = {
      .sampler = a->sampling.sampler, .matrices = &matrix, .n_matrices = 1, .n_threads = a->threads, .access = a->access};
  b->store = a->sampling.store;
  return s ? s : annb_loader_open((const annb_store *const[]){b->store}, 1, &o, &b->loader, err);
}

static void keep_rows(bench *b, const annb_batch *batch) {
  if (b->n_rows + batch->n_rows > b->room) {
    b->room = 2 * b->room + batch->n_rows;
    b->rows = cli_realloc(b->rows, b->room * sizeof *b->rows);
  }
  memcpy(b->rows + b->n_rows, batch->rows, batch->n_rows * sizeof *b->rows);
  b->n_rows += batch->n_rows;
}

/* Batches from the start of epoch 0 on, `most` of them or for `seconds`. */
static annb_status run_loader(bench *b, double seconds, uint64_t most, double *took, uint64_t *n_batches, annb_error *err) {
  double start = cli_now();
  uint64_t memory;
  annb_status s = annb_loader_set_epoch(b->loader, b->epoch = 0, err);
  b->n_rows = 0;
  *n_batches = 0;
  while (!s && *n_batches < most && (seconds == 0 || cli_now() - start < seconds) && !cli_interrupted()) {
    annb_batch batch;
    s = annb_loader_next(b->loader, &batch, err);
    if (!s && !batch.n_rows) {
      if (!*n_batches) break; /* there are no cells */
      s = annb_loader_set_epoch(b->loader, ++b->epoch, err);
      continue;
    }
    if (s) break;
    keep_rows(b, &batch);
    if (batch.matrices[0].nnz > b->most) b->most = batch.matrices[0].nnz;
    if (++*n_batches % 256 == 1 && (memory = anonymous_bytes()) > b->peak) b->peak = memory;
    annb_batch_release(&batch);
  }
  *took = cli_now() - start;
  return s;
}

/* Time from opening to the first batch; then what was asked for, once. */
static annb_status first_lap(bench *b, double seconds, double *took, uint64_t *n_batches, annb_error *err) {
  annb_batch batch;
  annb_loader_info info;
  double start = cli_now();
  annb_status s = open_loader(b, err);
  if (!s) s = annb_loader_next(b->loader, &batch, err);
  b->first = cli_now() - start;
  if (s) return s;
  annb_batch_release(&batch);
  annb_loader_info before;
  annb_loader_get_info(b->loader, &before);
  s = run_loader(b, seconds, UINT64_MAX, took, n_batches, err);
  annb_loader_get_info(b->loader, &info);
  if (b->n_rows) b->bytes_per_cell = (double)(info.bytes_decoded - before.bytes_decoded) / (double)b->n_rows;
  return s;
}

/* ---- the copy ---- */

static annb_status take_raw(bench *b, annb_error *err) {
  annb_store_info about;
  annb_context *context;
  annb_fetch_options as = {.dtype = ANNB_F32, .allow_lossy = true};
  uint32_t x;
  uint64_t all, nnz;
  annb_store_get_info(b->store, &about);
  annb_status s = annb_store_find_matrix(b->store, b->args->matrix, &x, err);
  annb_matrix_info info;
  if (!s) s = annb_store_matrix(b->store, x, &info, err);
  if (!s) s = annb_context_open(&context, err);
  if (s) return s;
  double share = info.nnz ? (double)RAW_BYTES / 8 / (double)info.nnz : 1;
  b->n_raw = share < 1 ? (uint64_t)(share * (double)about.n_obs) : about.n_obs;
  if (!b->n_raw) b->n_raw = 1;
  b->indptr = cli_alloc((b->n_raw + 1) * sizeof *b->indptr);
  b->indptr[0] = 0;
  for (uint64_t r = 0; !s && r < b->n_raw; r++) {
    s = annb_fetch_nnz(b->store, x, &r, 1, NULL, &nnz, err);
    if (!s) b->indptr[r + 1] = b->indptr[r] + nnz;
  }
  all = s ? 0 : b->indptr[b->n_raw];
  b->ids = cli_alloc(all * sizeof *b->ids);
  b->values = cli_alloc(all * sizeof *b->values);
  for (uint64_t r = 0; !s && r < b->n_raw; r++) {
    int64_t indptr[2];
    uint64_t at = b->indptr[r];
    s = annb_fetch_csr(b->store, context, x, &r, 1, &as, indptr, b->ids + at, b->values + at, all - at, err);
  }
  annb_context_close(context);
  return s;
}

/* The rows of the last lap into a ring of as many batches. */
static double run_copy(const bench *b, int32_t **ids, float **values) {
  uint64_t m = b->args->sampling.sampler.batch_size ? b->args->sampling.sampler.batch_size : 64, used = 0, place = 0;
  double start = cli_now();
  for (uint64_t i = 0; i < b->n_rows; i++) {
    uint64_t row = b->rows[i] % b->n_raw, at = b->indptr[row], n = b->indptr[row + 1] - at;
    if (i % m == 0 || used + n > b->most) {
      used = 0;
      place = (place + 1) % RING;
    }
    if (n > b->most) n = b->most;
    memcpy(ids[place] + used, b->ids + at, n * sizeof **ids);
    memcpy(values[place] + used, b->values + at, n * sizeof **values);
    used += n;
  }
  return cli_now() - start;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, by_value);
  return x[n / 2];
}

/* In turns, so that both meet the same machine. */
static annb_status rounds(bench *b, uint64_t n_batches, annb_error *err) {
  int32_t *ids[RING];
  float *values[RING];
  double rates[ROUNDS], copies[ROUNDS], ratios[ROUNDS], took;
  int n = b->args->cold ? 1 : ROUNDS;
  annb_status s = take_raw(b, err);
  for (int i = 0; i < RING; i++) {
    ids[i] = cli_alloc(b->most * sizeof **ids + 1);
    values[i] = cli_alloc(b->most * sizeof **values + 1);
    memset(ids[i], 1, b->most * sizeof **ids);
    memset(values[i], 1, b->most * sizeof **values);
  }
  if (!s) (void)run_copy(b, ids, values);
  uint64_t memory = b->peak;
  for (int i = 0; !s && i < n; i++) {
    uint64_t got;
    if (b->args->cold) rates[i] = b->rate;
    else {
      s = run_loader(b, 0, n_batches, &took, &got, err);
      rates[i] = (double)b->n_rows / took;
    }
    copies[i] = (double)b->n_rows / run_copy(b, ids, values);
    ratios[i] = rates[i] / copies[i];
  }
  b->peak = memory; /* without the raw rows */
  for (int i = 0; i < RING; i++) {
    free(ids[i]);
    free(values[i]);
  }
  if (s) return s;
  b->rate = median(rates, n);
  b->copy_rate = median(copies, n);
  b->ratio = median(ratios, n);
  return ANNB_OK;
}

static annb_status measure(bench *b, annb_error *err) {
  double took = 0, seconds = (double)b->args->seconds;
  uint64_t n_batches = 0;
  for (size_t i = 0; b->args->cold && i < b->args->sampling.n_paths; i++) drop_cache(b->args->sampling.paths[i]);
  annb_status s = first_lap(b, b->args->cold ? seconds : seconds / (2 * ROUNDS), &took, &n_batches, err);
  if (s || cli_interrupted()) return s;
  if (!b->n_rows) return ANNB_OK;
  b->rate = (double)b->n_rows / took;
  return rounds(b, n_batches, err);
}

static void print(const bench *b) {
  if (b->args->json) {
    json_t *all = json_pack("{s:f, s:f, s:f, s:f, s:f, s:I}", "cells_per_s", b->rate, "memcpy_cells_per_s", b->copy_rate, "ratio", b->ratio,
                            "bytes_per_cell", b->bytes_per_cell, "first_batch_s", b->first, "peak_anon_bytes", (json_int_t)b->peak);
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
    return;
  }
  char *rate = cli_count((uint64_t)b->rate), *copy = cli_count((uint64_t)b->copy_rate), *peak = cli_bytes((double)b->peak);
  printf("loader          %s cells/s\n", rate);
  printf("copy of raw     %s cells/s; the loader is at %.2f of it\n", copy, b->ratio);
  printf("read            %.0f compressed bytes per cell\n", b->bytes_per_cell);
  printf("first batch     %.4f s after opening\n", b->first);
  printf("memory          %s anonymous and shared at most\n", peak);
  free(rate);
  free(copy);
  free(peak);
}

int cmd_bench(int argc, char **argv) {
  arguments a = {.matrix = "X", .seconds = 5};
  annb_error err;
  argp_parse(&parser, argc, argv, 0, NULL, &a);
  bench b = {.args = &a};
  cli_catch_signals();
  annb_status s = measure(&b, &err);
  annb_loader_close(b.loader);
  cli_sampling_close(&a.sampling);
  free(b.rows);
  free(b.indptr);
  free(b.ids);
  free(b.values);
  if (cli_interrupted()) err = (annb_error){.status = ANNB_ECANCELED, .message = "interrupted"};
  if (s || cli_interrupted()) return cli_fail_or_signal(&err);
  print(&b);
  return CLI_OK;
}
