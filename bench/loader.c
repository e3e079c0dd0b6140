/* The loader beside plain copies and random reads, all in the same run: a table of what must hold. */
#include "loader_laps.h"
#include "loader_small.h"
#include "timing.h"

#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
  const char *store, *thin;
  uint64_t n_cells, n_thin;
  uint32_t repeats;
  bool no_cold, only_cold;
} options;

static const struct argp_option argp_options[] = {
    {"cells", 'n', "N", 0, "cells of a lap (0 = an epoch, the default)", 0},
    {"thin", 't', "DIR", 0, "where to make a store of many cells with few elements; without it that figure is left out", 0},
    {"thin-cells", 'T', "N", 0, "its cells (1000000)", 0},
    {"repeats", 'r', "N", 0, "rounds of interleaved laps (5)", 0},
    {"no-cold", 'c', NULL, 0, "leave out what needs an empty page cache", 0},
    {"only-cold", 'C', NULL, 0, "leave out the warm laps and the copy", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
    case 'n': o->n_cells = strtoull(arg, NULL, 10); return 0;
    case 't': o->thin = arg; return 0;
    case 'T': o->n_thin = strtoull(arg, NULL, 10); return 0;
    case 'r': o->repeats = (uint32_t)strtoul(arg, NULL, 10); return 0;
    case 'c': o->no_cold = true; return 0;
    case 'C': o->only_cold = true; return 0;
    case ARGP_KEY_ARG: o->store = arg; return 0;
    case ARGP_KEY_END:
      if (!o->store || !o->repeats || o->repeats > BENCH_MAX_REPEATS) argp_error(state, "name a store, and 1 to %u repeats", BENCH_MAX_REPEATS);
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

enum { STORED, ORIGINAL, SORTED, TWO, SINGLE, COPY, N_LAPS };
static const char *const names[] = {"stored order, 1 thread", "original ids, unsorted", "original ids, sorted",
                                    "stored order, 2 threads", "stored order, b = 1", "memcpy of raw rows, 1 thread"};

typedef struct bench {
  options o;
  lap_raw raw;
  uint64_t *rows, room, n_rows, most;
  double rate[N_LAPS][BENCH_MAX_REPEATS], cpu[N_LAPS][BENCH_MAX_REPEATS];
  bool failed;
} bench;

static lap_options lap_of(const bench *b, int lap) {
  lap_options l = {.path = b->o.store, .block_size = lap == SINGLE ? 1 : 16, .n_threads = lap == TWO ? 2 : 1, .n_cells = b->o.n_cells};
  l.fetch = (annb_fetch_options){.dtype = ANNB_F32, .sort_indices = lap == SORTED,
                                 .gene_order = lap == ORIGINAL || lap == SORTED ? ANNB_GENES_ORIGINAL : ANNB_GENES_STORED};
  return l;
}

static int by_value(const void *x, const void *y) {
  double a = *(const double *)x, c = *(const double *)y;
  return a < c ? -1 : a > c;
}

static double median(const double *x, uint32_t n) {
  double sorted[BENCH_MAX_REPEATS];
  memcpy(sorted, x, n * sizeof *x);
  qsort(sorted, n, sizeof *sorted, by_value);
  return sorted[n / 2];
}

/* Median over the rounds of a round's ratio. */
static double ratio(double x[][BENCH_MAX_REPEATS], int a, int c, uint32_t n) {
  double r[BENCH_MAX_REPEATS];
  for (uint32_t i = 0; i < n; i++) r[i] = x[a][i] / x[c][i];
  return median(r, n);
}

static void figure(bench *b, const char *what, double value, double must, double aim, bool at_most, const char *unit) {
  bool holds = at_most ? value <= must : value >= must;
  char wanted[64] = "";
  if (aim > 0) snprintf(wanted, sizeof wanted, "%s %g%s", at_most ? "≤" : "≥", aim, unit);
  printf("| %s | %s %g%s | %s | %.3g%s | %s |\n", what, at_most ? "≤" : "≥", must, unit, wanted, value, unit, holds ? "yes" : "**no**");
  fflush(stdout);
  b->failed = b->failed || !holds;
}

static void measure_warm(bench *b) {
  for (uint32_t i = 0; i < b->o.repeats; i++)
    for (int lap = 0; lap < N_LAPS; lap++) {
      if (lap == COPY) {
        double cpu = bench_now(), seconds = lap_copy(&b->raw, b->rows, b->n_rows, 8, b->most);
        b->rate[lap][i] = (double)b->n_rows / seconds;
        b->cpu[lap][i] = (double)b->n_rows / (bench_now() - cpu);
        continue;
      }
      lap_options l = lap_of(b, lap);
      lap_result r = lap == STORED ? lap_loader(&l, &b->rows, &b->room) : lap_loader(&l, NULL, NULL);
      if (lap == STORED) b->n_rows = r.n_cells;
      if (r.most > b->most) b->most = r.most;
      b->rate[lap][i] = (double)r.n_cells / r.seconds;
      b->cpu[lap][i] = (double)r.n_cells / r.cpu;
    }
}

static void print_warm(const bench *b) {
  printf("\n| lap, b = 16, m = 64, f = 256 | cells/s | × memcpy | cells per CPU second, all threads | × memcpy |\n|---|---|---|---|---|\n");
  for (int lap = 0; lap < N_LAPS; lap++)
    printf("| %s | %.0f | %.2f | %.0f | %.2f |\n", names[lap], median(b->rate[lap], b->o.repeats),
           ratio((double(*)[BENCH_MAX_REPEATS])(uintptr_t)b->rate, lap, COPY, b->o.repeats), median(b->cpu[lap], b->o.repeats),
           ratio((double(*)[BENCH_MAX_REPEATS])(uintptr_t)b->cpu, lap, COPY, b->o.repeats));
  printf("\n");
}

/* Memory first: raw rows would hide it. */
static lap_result measure_memory(const bench *b) {
  lap_options l = lap_of(b, STORED);
  l.access = ANNB_ACCESS_PREAD;
  (void)lap_loader(&l, NULL, NULL);
  return lap_loader(&l, NULL, NULL);
}

/* Each lap between two of random reads, whose mean counts: devices in the cloud change from second to second. */
static void measure_cold(bench *b, annb_access access) {
  lap_options l = lap_of(b, STORED);
  l.cold = true;
  l.access = access;
  l.n_threads = 2; /* the device, not one core, is to be the limit */
  const char *name = access == ANNB_ACCESS_MMAP ? "mmap" : "pread";
  double shares[BENCH_MAX_REPEATS], before = 0;
  for (uint32_t i = 0; i < b->o.repeats; i++) {
    lap_result r = lap_loader(&l, NULL, NULL);
    double rate = (double)r.bytes / r.seconds, after = lap_random_reads(b->o.store, r.bytes / r.n_cells * 16, 1);
    double reads = before > 0 ? (before + after) / 2 : after;
    before = after;
    printf("cold, %s: %.0f MB/s compressed, %.0f cells/s, %.0f CPU ms; random reads of %llu bytes, 32 at a time: %.0f MB/s; first batch %.1f ms\n",
           name, rate / 1e6, (double)r.n_cells / r.seconds, r.cpu * 1e3, (unsigned long long)(r.bytes / r.n_cells * 16), reads / 1e6, r.first * 1e3);
    shares[i] = 100 * rate / reads;
  }
  char what[128];
  snprintf(what, sizeof what, "cold, %s, compressed bytes/s of random reads of that size", name);
  printf("\n");
  figure(b, what, median(shares, b->o.repeats), 70, 90, false, " %");
}

/* Cells in as many bytes as there are, or the index alone, do not fit into the memory. */
static void measure_small(bench *b) {
  small_lap laps[SMALL_LAPS];
  int n = small_laps(b->o.store, b->o.thin, laps);
  if (!n) printf("\nlittle memory: left out, no control group can be made here\n");
  else printf("\n| cold, %d MiB of memory, 2 threads | access | b | cells/s | with plenty | × |\n|---|---|---|---|---|---|\n", SMALL_MIB);
  for (int i = 0; i < n; i++)
    printf("| %s | %s | %llu | %.0f | %.0f | %.2f |\n", laps[i].what, laps[i].access == ANNB_ACCESS_MMAP ? "mmap" : "pread",
           (unsigned long long)laps[i].block_size, laps[i].little, laps[i].plenty, laps[i].little / laps[i].plenty);
  printf("\n");
  for (int i = 0; i < n; i++) {
    char what[128];
    const char *access = laps[i].access == ANNB_ACCESS_MMAP ? "mmap" : "pread";
    snprintf(what, sizeof what, "%d MiB, %s, %s, b = %llu: of %s", SMALL_MIB, access, laps[i].what, (unsigned long long)laps[i].block_size,
             laps[i].reads > 0 ? "random reads of 4 KiB, two a cell" : "the rate with plenty");
    figure(b, what, 100 * laps[i].little / (laps[i].reads > 0 ? laps[i].reads : laps[i].plenty), 25, 0, false, " %");
  }
}

static void measure_first(bench *b) {
  lap_options l = {.path = b->o.thin, .block_size = 16, .n_threads = 1, .n_cells = 64, .cold = true};
  double first[BENCH_MAX_REPEATS];
  for (uint32_t i = 0; i < b->o.repeats; i++) first[i] = 1e3 * lap_loader(&l, NULL, NULL).first;
  char what[128];
  snprintf(what, sizeof what, "time to first batch, cold, %llu thin cells", (unsigned long long)b->o.n_thin);
  figure(b, what, median(first, b->o.repeats), 100, 20, true, " ms");
}

/* ---- entropy on 14 plates in order ---- */

static double entropy_of(uint64_t n_rows, uint64_t block_size, bool shuffled_runs) {
  const annb_sampler_options o = {.block_size = block_size, .batch_size = LAP_BATCH, .fetch_factor = LAP_FACTOR, .drop_last = true, .seed = 5,
                                  .strategy = shuffled_runs ? ANNB_SAMPLE_BLOCK : ANNB_SAMPLE_BUFFER};
  annb_sampler *sampler;
  annb_picker *picker;
  annb_sampler_info info;
  annb_error err;
  uint64_t rows[LAP_BATCH], n = 0;
  uint32_t got;
  double sum = 0;
  if (annb_sampler_open(&(annb_sampler_source){.n_rows = n_rows}, 1, &o, &sampler, &err) || annb_picker_open(sampler, &picker, &err))
    bench_fail("%s", err.message);
  annb_sampler_get_info(sampler, &info);
  for (uint64_t t = 0; t < info.batches; t += info.batches / 20000 + 1, n++) {
    uint32_t counts[14] = {0};
    if (annb_picker_batch(picker, 0, t, rows, &got, &err)) bench_fail("%s", err.message);
    for (uint32_t i = 0; i < got; i++) counts[rows[i] * 14 / n_rows]++;
    for (int k = 0; k < 14; k++)
      if (counts[k]) sum -= counts[k] / (double)got * log2(counts[k] / (double)got);
  }
  annb_picker_close(picker);
  annb_sampler_close(sampler);
  return sum / (double)n;
}

static void print_head(void) { printf("| figure | must | aim | measured | holds |\n|---|---|---|---|---|\n"); }

static void print_figures(bench *b, const lap_result *memory) {
  uint32_t n = b->o.repeats;
  figure(b, "stored order, 1 decode thread, × memcpy", ratio(b->rate, STORED, COPY, n), 1.2, 1.6, false, "");
  figure(b, "original ids, unsorted, × memcpy", ratio(b->rate, ORIGINAL, COPY, n), 0.9, 1.15, false, "");
  figure(b, "original ids, sorted, × memcpy", ratio(b->rate, SORTED, COPY, n), 0.45, 0.6, false, "");
  figure(b, "2 decode threads, × one", ratio(b->rate, TWO, STORED, n), 1.7, 0, false, "");
  figure(b, "b = 1, × the rate of b = 16", ratio(b->rate, SINGLE, STORED, n), 0.8, 0, false, "");
  double fetch = (double)memory->bytes / (double)memory->n_cells * LAP_BATCH * LAP_FACTOR, ring = 6.0 * (double)memory->most * 8 * 1.25;
  figure(b, "anonymous memory, pread", (double)memory->peak / 1048576, (64 * 1048576 + 3 * fetch + ring) / 1048576, 0, true, " MiB");
  double random = entropy_of(300000, 1, true), mixed = entropy_of(300000, 16, true);
  figure(b, "entropy on 14 plates in order, bits from random sampling", fabs(random - mixed), 0.02, 0, true, "");
}

static void measure_warm_figures(bench *b) {
  lap_result memory = measure_memory(b);
  lap_raw_read(&b->raw, b->o.store);
  printf("%llu cells, %.1f nonzeros and %.0f compressed bytes per cell; medians of %u interleaved rounds\n", (unsigned long long)b->raw.n_rows,
         (double)b->raw.nnz / (double)b->raw.n_rows, (double)memory.bytes / (double)memory.n_cells, b->o.repeats);
  measure_warm(b);
  print_warm(b);
  print_head();
  print_figures(b, &memory);
}

int main(int argc, char **argv) {
  static const struct argp argp = {
      argp_options, parse, "STORE", "Measure the loader; the output is Markdown. Exit status 1 when a figure does not hold.", NULL, NULL, NULL};
  static bench b = {.o = {.n_thin = 1000000, .repeats = 5}};
  argp_parse(&argp, argc, argv, 0, NULL, &b.o);
  if (b.o.thin && !b.o.no_cold) lap_thin_store(b.o.thin, b.o.n_thin);
  if (!b.o.only_cold) measure_warm_figures(&b);
  if (b.o.no_cold) return b.failed;
  if (b.o.only_cold) print_head();
  if (b.o.thin) measure_first(&b);
  measure_cold(&b, ANNB_ACCESS_MMAP);
  measure_cold(&b, ANNB_ACCESS_PREAD);
  measure_small(&b);
  return b.failed;
}
