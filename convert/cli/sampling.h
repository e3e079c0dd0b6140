/* Options of the commands that draw minibatches. */
#ifndef ANNB_CLI_SAMPLING_H
#define ANNB_CLI_SAMPLING_H

#include "cli.h"

#include <annblock/annblock.h>

enum { CLI_SEED = 600, CLI_EPOCH, CLI_RANK, CLI_WORLD, CLI_DROP_LAST, CLI_STRATEGY };

typedef struct cli_sampling {
  annb_sampler_options sampler;
  annb_topology topology;
  uint64_t epoch;
} cli_sampling;

#define CLI_SAMPLING_OPTIONS                                                                                          \
  {.key = 'b', .name = "block-size", .arg = "N", .doc = "Consecutive cells read as one run, the default is 16"},       \
  {.key = 'm', .name = "batch-size", .arg = "N", .doc = "Cells of a minibatch, the default is 64"},                    \
  {.key = 'f', .name = "fetch-factor", .arg = "N", .doc = "Minibatches that are shuffled together, the default is 256"}, \
  {.key = CLI_STRATEGY, .name = "strategy", .arg = "NAME", .doc = "block (the default), sequential or buffer"},         \
  {.key = CLI_SEED, .name = "seed", .arg = "N", .doc = "Seed of the order, the default is 0"}

/* True when the key was one of them. */
bool cli_sampling_parse(int key, char *arg, struct argp_state *state, cli_sampling *sampling);

#endif
