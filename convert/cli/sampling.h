/* What the commands that draw minibatches share: the store or stores, cells of it, the order. */
#ifndef ANNB_CLI_SAMPLING_H
#define ANNB_CLI_SAMPLING_H

#include "cli.h"

#include <annblock/annblock.h>

typedef struct cli_sampling {
  const char **paths, *where;
  size_t n_paths;
  annb_gene_join join; /* several stores */
  annb_open_options open;
  annb_sampler_options sampler; /* rows: from cli_sampling_open on */
  annb_store *store; /* all of them as one */
  annb_row_set *rows;
} cli_sampling;

/* STORE..., --join, --where, -b, -m, -f, --strategy, --seed, --generation into a cli_sampling, as a child of the command's parser (its
 * input is set at ARGP_KEY_INIT). Usage error when STORE is missing. */
extern const struct argp cli_sampling_parser;
extern const struct argp_child cli_sampling_children[];

/* Open the stores and find the cells for which --where holds. */
annb_status cli_sampling_open(cli_sampling *sampling, annb_error *err);
void cli_sampling_close(cli_sampling *sampling); /* after a failed open, too */

#endif
