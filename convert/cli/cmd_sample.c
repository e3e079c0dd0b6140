/* annblock sample STORE: the minibatches of an epoch, as row numbers. */
#include "sampling.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { LABEL = 700, EPOCH, RANK, WORLD, DROP_LAST };

typedef struct arguments {
  cli_sampling sampling;
  const char *label;
  annb_topology topology;
  uint64_t epoch;
} arguments;

static const struct argp_option options[] = {
    {.key = EPOCH, .name = "epoch", .arg = "N", .doc = "Number of the epoch, the default is 0"},
    {.key = RANK, .name = "rank", .arg = "N", .doc = "Of which rank, the default is 0"},
    {.key = WORLD, .name = "world", .arg = "N", .doc = "How many ranks there are, the default is 1"},
    {.key = DROP_LAST, .name = "drop-last", .doc = "Leave a last minibatch out that is not full"},
    {.key = LABEL, .name = "label", .arg = "COLUMN", .doc = "Behind the rows and a |, print the codes of this obs column (-1: missing)"},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->sampling; return 0;
    case LABEL: a->label = arg; return 0;
    case EPOCH: a->epoch = cli_number(state, "--epoch", "a number of an epoch", arg, 0, UINT64_MAX); return 0;
    case RANK: a->topology.rank = (uint32_t)cli_number(state, "--rank", "a rank", arg, 0, (1u << 20) - 1); return 0;
    case WORLD: a->topology.world = (uint32_t)cli_number(state, "--world", "a number of ranks", arg, 1, 1u << 20); return 0;
    case DROP_LAST: a->sampling.sampler.drop_last = true; return 0;
    case ARGP_KEY_END:
      if (a->topology.rank >= (a->topology.world ? a->topology.world : 1))
        argp_error(state, "--rank %u needs a --world above it", a->topology.rank);
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "STORE...",
    .children = cli_sampling_children,
    .doc = "Print the minibatches of an epoch, a line each: its number in the epoch, then the rows of the store."
           "\vThe order depends on seed, epoch, -b, -m, -f and the number of cells (with --where: which cells) alone. "
           "Nothing of the matrices is read."};

static void print_batch(const annb_batch *batch, bool labels) {
  printf("%" PRIu64 ":", batch->batch);
  for (uint64_t i = 0; i < batch->n_rows; i++) printf(" %" PRIu64, batch->rows[i]);
  if (labels) printf(" |");
  for (uint64_t i = 0; labels && i < batch->n_rows; i++) printf(" %" PRId32, batch->labels[0][i]);
  putchar('\n');
}

static annb_status print_epoch(annb_loader *loader, const arguments *a, annb_error *err) {
  annb_batch batch;
  annb_status s = annb_loader_set_epoch(loader, a->epoch, err);
  for (bool more = true; !s && more && !ferror(stdout);) {
    s = annb_loader_next(loader, &batch, err);
    if (s) break;
    more = batch.n_rows > 0;
    if (more) print_batch(&batch, a->label != NULL);
    annb_batch_release(&batch);
  }
  return s;
}

int cmd_sample(int argc, char **argv) {
  arguments a = {0};
  annb_error err;
  annb_loader *loader = NULL;
  argp_parse(&parser, argc, argv, 0, NULL, &a);
  annb_status s = cli_sampling_open(&a.sampling, &err);
  annb_loader_options o = {.sampler = a.sampling.sampler, .topology = a.topology, .labels = &a.label, .n_labels = a.label != NULL};
  if (!s) s = annb_loader_open((const annb_store *const[]){a.sampling.store}, 1, &o, &loader, &err);
  if (!s) s = print_epoch(loader, &a, &err);
  annb_loader_close(loader);
  cli_sampling_close(&a.sampling);
  return s ? cli_fail(&err) : CLI_OK;
}
