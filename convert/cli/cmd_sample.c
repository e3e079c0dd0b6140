/* annblock sample STORE: the minibatches of an epoch, as row numbers. */
#include "sampling.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { LABEL = 700 };

typedef struct arguments {
  const char *store, *label;
  annb_open_options open;
  cli_sampling sampling;
} arguments;

static const struct argp_option options[] = {
    CLI_SAMPLING_OPTIONS,
    {.key = CLI_EPOCH, .name = "epoch", .arg = "N", .doc = "Number of the epoch, the default is 0"},
    {.key = CLI_RANK, .name = "rank", .arg = "N", .doc = "Of which rank, the default is 0"},
    {.key = CLI_WORLD, .name = "world", .arg = "N", .doc = "How many ranks there are, the default is 1"},
    {.key = CLI_DROP_LAST, .name = "drop-last", .doc = "Leave a last minibatch out that is not full"},
    {.key = LABEL, .name = "label", .arg = "COLUMN", .doc = "Behind the rows and a |, print the codes of this obs column (-1: missing)"},
    CLI_GENERATION_OPTION,
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  if (cli_sampling_parse(key, arg, state, &a->sampling)) return 0;
  switch (key) {
    case LABEL: a->label = arg; return 0;
    case CLI_GENERATION: a->open.generation = cli_generation(state, arg); return 0;
    case ARGP_KEY_ARG: cli_take_argument(state, arg, &a->store, 1); return 0;
    case ARGP_KEY_END:
      if (!a->store) argp_error(state, "the store is missing: annblock sample STORE");
      if (a->sampling.topology.rank >= (a->sampling.topology.world ? a->sampling.topology.world : 1))
        argp_error(state, "--rank %u needs a --world above it", a->sampling.topology.rank);
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "STORE",
    .doc = "Print the minibatches of an epoch, a line each: its number in the epoch, then the rows of the store."
           "\vThe order depends on seed, epoch, -b, -m, -f and the number of cells alone. Nothing of the matrices is read."};

static void print_batch(const annb_batch *batch, bool labels) {
  printf("%" PRIu64 ":", batch->batch);
  for (uint64_t i = 0; i < batch->n_rows; i++) printf(" %" PRIu64, batch->rows[i]);
  if (labels) printf(" |");
  for (uint64_t i = 0; labels && i < batch->n_rows; i++) printf(" %" PRId32, batch->labels[0][i]);
  putchar('\n');
}

static annb_status print_epoch(annb_loader *loader, const arguments *a, annb_error *err) {
  annb_batch batch;
  annb_status s = annb_loader_set_epoch(loader, a->sampling.epoch, err);
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
  annb_store *store = NULL;
  annb_loader *loader = NULL;
  argp_parse(&parser, argc, argv, 0, NULL, &a);
  annb_status s = annb_store_open(a.store, &a.open, &store, &err);
  annb_loader_options o = {.sampler = a.sampling.sampler, .topology = a.sampling.topology, .labels = &a.label, .n_labels = a.label != NULL};
  if (!s) s = annb_loader_open((const annb_store *const[]){store}, 1, &o, &loader, &err);
  if (!s) s = print_epoch(loader, &a, &err);
  annb_loader_close(loader);
  annb_store_close(store);
  return s ? cli_fail(&err) : CLI_OK;
}
