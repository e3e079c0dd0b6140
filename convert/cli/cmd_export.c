/* annblock export STORE -o OUT.h5ad */
#include "../../store/io.h"
#include "cli.h"
#include "filters.h"
#include "progress.h"
#include "text.h"

#include <annblock/convert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT = 'o', FORCE = 256, PART, ROWS, ROWS_FILE, WHERE, GENES_FILE, SKIP, COMPRESSION, THREADS, MEMORY };

#define MIN_MEMORY (UINT64_C(32) << 20)

typedef struct arguments {
  const char *store, *output;
  annb_export_options options;
  bool quiet;
  annb_row_range *ranges;
  const char **skip;
} arguments;

static const struct argp_option options[] = {
    {.key = OUTPUT, .arg = "OUT.h5ad", .doc = "The file to write (required)"},
    {.name = "force", .key = FORCE, .doc = "Replace OUT.h5ad if it exists, once the new file is complete"},
    {.name = "part", .key = PART, .arg = "K",
     .doc = "Of a store of several parts: this one (0 is the first), as its source was; else a file of all"},
    {.name = "rows", .key = ROWS, .arg = "A:B", .doc = "Only cells A to B - 1, counted from 0; may be given again, in the order wanted"},
    {.name = "rows-file", .key = ROWS_FILE, .arg = "FILE", .doc = "Only the cells with these numbers, one a line, in this order"},
    {.name = "where", .key = WHERE, .arg = "TEXT",
     .doc = "Only cells for which this holds, like 'cell_type == \"B cell\" and n_counts > 500'"},
    {.name = "genes-file", .key = GENES_FILE, .arg = "FILE", .doc = "Only these genes, a name or a column's number a line, in this order"},
    {.name = "skip", .key = SKIP, .arg = "PATH", .doc = "Leave an object out, like obsm/x; may be given again"},
    {.name = "compression", .key = COMPRESSION, .arg = "KIND",
     .doc = "Of packed matrices: source (the default; of several parts together: none), none, or gzip with an optional level, gzip:1 to "
            "gzip:9"},
    {.name = "threads", .key = THREADS, .arg = "N", .doc = "Threads, the default is one per processor; the file does not depend on it"},
    {.name = "memory", .key = MEMORY, .arg = "SIZE", .doc = "Cap on buffers, the default is 512M; at least 32M"},
    CLI_GENERATION_OPTION,
    CLI_QUIET_OPTION,
    {0},
};

/* A:B, A: or :B */
static void add_range(arguments *a, struct argp_state *state, const char *text) {
  annb_row_range r = {0, UINT64_MAX};
  char *copy = cli_format("%s", text), *colon = strchr(copy, ':');
  if (!colon) argp_error(state, "--rows takes two row numbers, A:B, not '%s'", text);
  *colon = 0;
  if (*copy) r.first = cli_number(state, "--rows", "row numbers A:B", copy, 0, UINT64_C(1) << 40);
  if (colon[1]) r.end = cli_number(state, "--rows", "row numbers A:B", colon + 1, 0, UINT64_C(1) << 40);
  free(copy);
  annb_subset_options *s = &a->options.subset;
  a->ranges = cli_realloc(a->ranges, (s->n_ranges + 1) * sizeof *a->ranges);
  a->ranges[s->n_ranges++] = r;
  s->ranges = a->ranges;
}

static void add_skip(arguments *a, const char *path) {
  annb_subset_options *s = &a->options.subset;
  a->skip = cli_realloc(a->skip, (s->n_skip + 1) * sizeof *a->skip);
  a->skip[s->n_skip++] = path;
  s->skip = a->skip;
}

static void set_compression(annb_export_options *o, struct argp_state *state, const char *text) {
  if (!strcmp(text, "source")) o->compression = ANNB_COMPRESSION_SOURCE;
  else if (!strcmp(text, "none")) o->compression = ANNB_COMPRESSION_NONE;
  else if (!strcmp(text, "gzip")) o->compression = ANNB_COMPRESSION_GZIP;
  else if (!strncmp(text, "gzip:", 5)) {
    o->compression = ANNB_COMPRESSION_GZIP;
    o->level = (int)cli_number(state, "--compression gzip:", "a level", text + 5, 1, 9);
  } else {
    argp_error(state, "--compression takes source, none, gzip or gzip:LEVEL, not '%s'", text);
  }
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case OUTPUT: a->output = arg; return 0;
    case FORCE: a->options.force = true; return 0;
    case PART:
      a->options.one_part = true;
      a->options.part = (uint32_t)cli_number(state, "--part", "the number of a part", arg, 0, UINT32_C(1) << 20);
      return 0;
    case ROWS: add_range(a, state, arg); return 0;
    case ROWS_FILE: a->options.subset.rows_file = arg; return 0;
    case WHERE: a->options.subset.where = arg; return 0;
    case GENES_FILE: a->options.subset.genes_file = arg; return 0;
    case SKIP: add_skip(a, arg); return 0;
    case COMPRESSION: set_compression(&a->options, state, arg); return 0;
    case THREADS:
      a->options.n_threads = (uint32_t)cli_number(state, "--threads", "a number of threads", arg, 1, 1024);
      return 0;
    case MEMORY: a->options.memory = cli_size(state, "--memory", arg, MIN_MEMORY); return 0;
    case CLI_GENERATION: a->options.generation = cli_generation(state, arg); return 0;
    case CLI_QUIET: a->quiet = true; return 0;
    case ARGP_KEY_ARG: cli_take_argument(state, arg, &a->store, 1); return 0;
    case ARGP_KEY_END:
      if (!a->store) argp_error(state, "the store is missing: annblock export STORE -o OUT.h5ad");
      if (a->options.subset.n_ranges && a->options.subset.rows_file) argp_error(state, "give --rows or --rows-file, not both");
      if (!a->output) argp_error(state, "the file to write is missing: give it with -o OUT.h5ad");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "STORE -o OUT.h5ad",
    .doc = "Write the .h5ad file that a store was packed from: the same objects, types, values, attributes and links; or one of some of "
           "its cells and genes. Of several parts: one new file of what readers see."};

int cmd_export(int argc, char **argv) {
  arguments a = {0};
  annb_error err = {0};
  cli_progress progress;
  annb_path_kind kind;
  annb_export_result result = {0};
  argp_parse(&parser, argc, argv, 0, NULL, &a);
  cli_progress_begin(&progress, false, a.quiet);
  a.options.progress = cli_progress_stage;
  a.options.user = &progress;
  a.options.result = &result;
  cli_catch_signals();
  cli_find_filters(a.store);
  annb_status status = annb_export(a.store, a.output, &a.options, &err);
  free(a.ranges);
  free(a.skip);
  double seconds = cli_progress_end(&progress);
  bool is_file = !annb_io_kind(a.output, &kind, NULL) && kind == ANNB_PATH_FILE;
  if (status == ANNB_EEXIST && !a.options.force && is_file) return cli_fail_hint(&err, "use --force to replace it");
  if (status) return cli_fail_or_signal(&err);
  if (a.quiet) return CLI_OK;
  char *time = cli_duration(seconds), *cells = cli_count(result.n_obs), *genes = cli_count(result.n_vars);
  fprintf(stderr, "exported %s cells x %s genes of %s to %s in %s\n", cells, genes, a.store, a.output, time);
  free(cells);
  free(genes);
  free(time);
  return CLI_OK;
}
