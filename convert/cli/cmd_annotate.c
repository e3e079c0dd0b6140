/* annblock annotate STORE --from NEW.h5ad [--part K] */
#include "cli.h"
#include "filters.h"
#include "progress.h"
#include "text.h"

#include <annblock/convert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { FROM = 256, PART, MEMORY };
#define MIN_MEMORY (UINT64_C(32) << 20)

typedef struct arguments {
  const char *store, *from;
  annb_annotate_options options;
  bool quiet;
} arguments;

static const struct argp_option options[] = {
    {.name = "from", .key = FROM, .arg = "NEW.h5ad", .doc = "The file with the new metadata (required)"},
    {.name = "part", .key = PART, .arg = "K", .doc = "The part whose cells it has (0 is the first); needed when there are several"},
    {.name = "memory", .key = MEMORY, .arg = "SIZE", .doc = "Cap on buffers, the default is 512M; at least 32M"},
    CLI_QUIET_OPTION,
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case FROM: a->from = arg; return 0;
    case PART:
      a->options.one_part = true;
      a->options.part = (uint32_t)cli_number(state, "--part", "the number of a part", arg, 0, UINT32_C(1) << 20);
      return 0;
    case MEMORY: a->options.memory = cli_size(state, "--memory", arg, MIN_MEMORY); return 0;
    case CLI_QUIET: a->quiet = true; return 0;
    case ARGP_KEY_ARG: cli_take_argument(state, arg, &a->store, 1); return 0;
    case ARGP_KEY_END:
      if (!a->store) argp_error(state, "the store is missing: annblock annotate STORE --from NEW.h5ad");
      if (!a->from) argp_error(state, "the file with the new metadata is missing: give it with --from NEW.h5ad");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "STORE --from NEW.h5ad",
    .doc = "Take new columns and other metadata for the same cells and genes from a file, in a new generation. The packed matrices stay."};

int cmd_annotate(int argc, char **argv) {
  arguments a = {0};
  annb_error err = {0};
  cli_progress progress;
  uint64_t generation;
  argp_parse(&parser, argc, argv, 0, NULL, &a);
  cli_progress_begin(&progress, false, a.quiet);
  a.options.progress = cli_progress_stage;
  a.options.note = cli_progress_note;
  a.options.user = &progress;
  cli_catch_signals();
  cli_find_filters(a.from);
  annb_status status = annb_annotate(a.store, a.from, &a.options, &generation, &err);
  double seconds = cli_progress_end(&progress);
  if (status) return cli_fail_or_signal(&err);
  if (a.quiet) return CLI_OK;
  char *time = cli_duration(seconds);
  fprintf(stderr, "annotated part %u of %s from %s (generation %" PRIu64 ") in %s\n", (unsigned)a.options.part, a.store, a.from, generation,
          time);
  free(time);
  return CLI_OK;
}
