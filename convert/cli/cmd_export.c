/* annblock export STORE -o OUT.h5ad */
#include "../../store/io.h"
#include "cli.h"
#include "filters.h"
#include "progress.h"
#include "text.h"

#include <annblock/convert.h>
#include <stdio.h>
#include <stdlib.h>

enum { OUTPUT = 'o', FORCE = 256, PART };

typedef struct arguments {
  const char *store, *output;
  annb_export_options options;
  bool quiet;
} arguments;

static const struct argp_option options[] = {
    {.key = OUTPUT, .arg = "OUT.h5ad", .doc = "The file to write (required)"},
    {.name = "force", .key = FORCE, .doc = "Replace OUT.h5ad if it exists, once the new file is complete"},
    {.name = "part", .key = PART, .arg = "K", .doc = "Of a store of several parts: this one (0 is the first), as its source was"},
    CLI_GENERATION_OPTION,
    CLI_QUIET_OPTION,
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case OUTPUT: a->output = arg; return 0;
    case FORCE: a->options.force = true; return 0;
    case PART:
      a->options.one_part = true;
      a->options.part = (uint32_t)cli_number(state, "--part", "the number of a part", arg, 0, UINT32_C(1) << 20);
      return 0;
    case CLI_GENERATION: a->options.generation = cli_generation(state, arg); return 0;
    case CLI_QUIET: a->quiet = true; return 0;
    case ARGP_KEY_ARG: cli_take_argument(state, arg, &a->store, 1); return 0;
    case ARGP_KEY_END:
      if (!a->store) argp_error(state, "the store is missing: annblock export STORE -o OUT.h5ad");
      if (!a->output) argp_error(state, "the file to write is missing: give it with -o OUT.h5ad");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "STORE -o OUT.h5ad",
    .doc = "Write the .h5ad file that a store was packed from: the same objects, types, values, attributes and links."};

int cmd_export(int argc, char **argv) {
  arguments a = {0};
  annb_error err = {0};
  cli_progress progress;
  annb_path_kind kind;
  argp_parse(&parser, argc, argv, 0, NULL, &a);
  cli_progress_begin(&progress, false, a.quiet);
  a.options.progress = cli_progress_stage;
  a.options.user = &progress;
  cli_catch_signals();
  cli_find_filters(a.store);
  annb_status status = annb_export(a.store, a.output, &a.options, &err);
  double seconds = cli_progress_end(&progress);
  bool is_file = !annb_io_kind(a.output, &kind, NULL) && kind == ANNB_PATH_FILE;
  if (status == ANNB_EEXIST && !a.options.force && is_file) return cli_fail_hint(&err, "use --force to replace it");
  if (status) return cli_fail_or_signal(&err);
  if (a.quiet) return CLI_OK;
  char *time = cli_duration(seconds);
  fprintf(stderr, "exported %s to %s in %s\n", a.store, a.output, time);
  free(time);
  return CLI_OK;
}
