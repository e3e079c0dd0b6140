/* Sizes and speeds of the record codecs, of others on the same rows, and of stores through the reader, beside memcpy and memset.
 * One thread. */
#include "codec.h"

#include "timing.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

enum { PEER_CELLS = 'P', NO_PEERS };

static const struct argp_option argp_options[] = {
    {"cells", 'n', "N", 0, "measure on the first N cells, 0 = all of the file or store (60000)", 0},
    {"genes", 'g', "N", 0, "genes, without a file (30000)", 0},
    {"repeats", 'r', "N", 0, "interleaved runs of each measurement (7)", 0},
    {"lognorm", 'l', NULL, 0, "log-normalise the counts", 0},
    {"source-order", 's', NULL, 0, "keep the genes in source order", 0},
    {"kernel", 'k', "NAME", 0, "only this kernel", 0},
    {"no-check", 'c', NULL, 0, "do not verify XXH3 checks before decoding", 0},
    {"store", 'd', "DIR", 0, "measure this packed store too: its files, and fetching through the reader; without FILE only that", 0},
    {"peer-cells", PEER_CELLS, "N", 0, "cells for the other codecs (16384)", 0},
    {"no-peers", NO_PEERS, NULL, 0, "leave the other codecs out", 0},
    {NULL, 0, NULL, 0, NULL, 0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  bench_options *o = state->input;
  switch (key) {
    case 'n': o->n_cells = strtoull(arg, NULL, 10); return 0;
    case 'g': o->n_genes = (uint32_t)strtoul(arg, NULL, 10); return 0;
    case 'r': o->repeats = (uint32_t)strtoul(arg, NULL, 10); return 0;
    case 'l': o->lognorm = true; return 0;
    case 's': o->source_order = true; return 0;
    case 'c': o->no_check = true; return 0;
    case 'k': o->kernel = arg; return 0;
    case 'd': o->store = arg; return 0;
    case PEER_CELLS: o->peer_cells = strtoull(arg, NULL, 10); return 0;
    case NO_PEERS: o->no_peers = true; return 0;
    case ARGP_KEY_ARG: o->path = arg; return 0;
    case ARGP_KEY_END:
      if (o->n_genes < 1 || o->repeats < 1 || o->repeats > BENCH_MAX_REPEATS || o->peer_cells < BENCH_RUN)
        argp_error(state, "numbers out of range");
      if (!o->n_cells && !o->path && !o->store) argp_error(state, "give --cells, a file or a store");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static void measure_records(const bench_options *o, bench_matrix *m, bench_report *report) {
  bench_order_genes(m, o->source_order);
  printf("# Records in memory\n%llu cells, %u genes, %.1f nonzeros per cell, genes in %s order, checks %s; medians of %u "
         "interleaved runs\n",
         (unsigned long long)m->n_rows, m->n_cols, (double)m->nnz / (double)m->n_rows, o->source_order ? "source" : "detection",
         o->no_check ? "not verified" : "verified", o->repeats);
  bench_ours(o, m, report);
  if (!o->no_peers) bench_peers(o, m);
}

int main(int argc, char **argv) {
  static const struct argp argp = {argp_options, parse, "[FILE.h5ad]",
                                   "Measure the record codecs on a file, or on generated counts; or a store through the reader.",
                                   NULL, NULL, NULL};
  bench_options o = {.n_cells = 60000, .n_genes = 30000, .repeats = 7, .peer_cells = 16384};
  bench_matrix m = {0};
  static bench_report report;
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  bench_report_begin(&report);
  if (o.path) bench_load(&m, o.path, o.n_cells);
  else if (!o.store) bench_generate(&m, o.n_cells, o.n_genes);
  if (o.lognorm) bench_log_normalise(&m);
  if (m.n_rows) {
    bench_prepare(&m);
    measure_records(&o, &m, &report);
  }
  if (o.store) bench_store(&o, &m, &report);
  bench_report_print(&report);
  bench_matrix_free(&m);
  return 0;
}
