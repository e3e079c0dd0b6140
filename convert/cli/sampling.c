#include "sampling.h"

#include <stdlib.h>
#include <string.h>

enum { SEED = 600, STRATEGY, WHERE, JOIN };

static const struct argp_option options[] = {
    {.key = 'b', .name = "block-size", .arg = "N", .doc = "Consecutive cells read as one run, the default is 16"},
    {.key = 'm', .name = "batch-size", .arg = "N", .doc = "Cells of a minibatch, the default is 64"},
    {.key = 'f', .name = "fetch-factor", .arg = "N", .doc = "Minibatches that are shuffled together, the default is 256"},
    {.key = STRATEGY, .name = "strategy", .arg = "NAME", .doc = "block (the default), sequential or buffer"},
    {.key = SEED, .name = "seed", .arg = "N", .doc = "Seed of the order, the default is 0"},
    {.key = WHERE, .name = "where", .arg = "TEXT",
     .doc = "Only cells for which this holds, like 'cell_type == \"B cell\" and n_counts > 500'"},
    {.key = JOIN, .name = "join", .arg = "HOW",
     .doc = "Several stores with other genes: inner (the genes that all have) or outer (all genes, zero where a store has none)"},
    CLI_GENERATION_OPTION,
    {0}};

static annb_strategy strategy(struct argp_state *state, const char *name) {
  static const char *const names[] = {"block", "sequential", "buffer"};
  for (int i = 0; i < 3; i++)
    if (!strcmp(name, names[i])) return (annb_strategy)i;
  argp_error(state, "--strategy takes block, sequential or buffer, not '%s'", name);
  return ANNB_SAMPLE_BLOCK;
}

static void add_path(cli_sampling *s, const char *path) {
  s->paths = cli_realloc(s->paths, (s->n_paths + 1) * sizeof *s->paths);
  s->paths[s->n_paths++] = path;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  cli_sampling *s = state->input;
  switch (key) {
    case 'b': s->sampler.block_size = cli_number(state, "-b", "a number of cells", arg, 1, UINT64_C(1) << 32); return 0;
    case 'm': s->sampler.batch_size = (uint32_t)cli_number(state, "-m", "a number of cells", arg, 1, 1u << 24); return 0;
    case 'f': s->sampler.fetch_factor = (uint32_t)cli_number(state, "-f", "a number of minibatches", arg, 1, 1u << 20); return 0;
    case STRATEGY: s->sampler.strategy = strategy(state, arg); return 0;
    case SEED: s->sampler.seed = cli_number(state, "--seed", "a seed", arg, 0, UINT64_MAX); return 0;
    case WHERE: s->where = arg; return 0;
    case CLI_GENERATION: s->open.generation = cli_generation(state, arg); return 0;
    case JOIN: s->join = cli_join(state, arg); return 0;
    case ARGP_KEY_ARG: add_path(s, arg); return 0;
    case ARGP_KEY_END:
      if (!s->n_paths) argp_error(state, "the store is missing: %s STORE...", state->name);
      if (s->n_paths > 1 && s->open.generation) argp_error(state, "--generation is of one store, %zu are given", s->n_paths);
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

const struct argp cli_sampling_parser = {.options = options, .parser = parse};
const struct argp_child cli_sampling_children[] = {{.argp = &cli_sampling_parser}, {0}};

static annb_status choose_rows(cli_sampling *s, annb_error *err) {
  annb_store_info info;
  annb_store_get_info(s->store, &info);
  uint64_t *bits = cli_alloc((info.n_obs / 64 + 1) * sizeof *bits);
  annb_status status = annb_where(s->store, s->where, bits, NULL, err);
  if (!status) status = annb_row_set_of_bits(bits, info.n_obs, &s->rows, err);
  free(bits);
  s->sampler.rows = s->rows;
  return status;
}

static annb_status open_stores(cli_sampling *s, annb_error *err) {
  if (s->n_paths == 1) return annb_store_open(s->paths[0], &s->open, &s->store, err);
  annb_store **stores = cli_alloc(s->n_paths * sizeof *stores);
  annb_status status = ANNB_OK;
  size_t n = 0;
  while (!status && n < s->n_paths) {
    status = annb_store_open(s->paths[n], &s->open, &stores[n], err);
    n += !status;
  }
  if (!status) status = annb_union_open((const annb_store *const *)stores, (uint32_t)n, s->join, &s->store, err);
  while (n) annb_store_close(stores[--n]);
  free(stores);
  return status;
}

annb_status cli_sampling_open(cli_sampling *s, annb_error *err) {
  annb_status status = open_stores(s, err);
  return status || !s->where ? status : choose_rows(s, err);
}

void cli_sampling_close(cli_sampling *s) {
  annb_row_set_close(s->rows);
  annb_store_close(s->store);
  free(s->paths);
}
