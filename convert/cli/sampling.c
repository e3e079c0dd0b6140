#include "sampling.h"

#include <string.h>

static annb_strategy strategy(struct argp_state *state, const char *name) {
  static const char *const names[] = {"block", "sequential", "buffer"};
  for (int i = 0; i < 3; i++)
    if (!strcmp(name, names[i])) return (annb_strategy)i;
  argp_error(state, "--strategy takes block, sequential or buffer, not '%s'", name);
  return ANNB_SAMPLE_BLOCK;
}

bool cli_sampling_parse(int key, char *arg, struct argp_state *state, cli_sampling *s) {
  switch (key) {
    case 'b': s->sampler.block_size = cli_number(state, "-b", "a number of cells", arg, 1, UINT64_C(1) << 32); return true;
    case 'm': s->sampler.batch_size = (uint32_t)cli_number(state, "-m", "a number of cells", arg, 1, 1u << 24); return true;
    case 'f': s->sampler.fetch_factor = (uint32_t)cli_number(state, "-f", "a number of minibatches", arg, 1, 1u << 20); return true;
    case CLI_STRATEGY: s->sampler.strategy = strategy(state, arg); return true;
    case CLI_SEED: s->sampler.seed = cli_number(state, "--seed", "a seed", arg, 0, UINT64_MAX); return true;
    case CLI_EPOCH: s->epoch = cli_number(state, "--epoch", "a number of an epoch", arg, 0, UINT64_MAX); return true;
    case CLI_RANK: s->topology.rank = (uint32_t)cli_number(state, "--rank", "a rank", arg, 0, (1u << 20) - 1); return true;
    case CLI_WORLD: s->topology.world = (uint32_t)cli_number(state, "--world", "a number of ranks", arg, 1, 1u << 20); return true;
    case CLI_DROP_LAST: s->sampler.drop_last = true; return true;
    default: return false;
  }
}
