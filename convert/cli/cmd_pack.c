/* annblock pack INPUT.h5ad -o STORE */
#include "../../store/manifest.h"
#include "cli.h"
#include "progress.h"
#include "text.h"

#include <annblock/convert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT = 'o', THREADS = 256, MEMORY, SEGMENT_ROWS, GENE_ORDER, MATRIX, FORCE };
enum { MAX_THREADS = 256 };
#define MIN_MEMORY (UINT64_C(32) << 20)

typedef struct arguments {
  const char *input, *output;
  annb_pack_options options;
  const char **matrices;
} arguments;

static const struct argp_option options[] = {
    {.key = OUTPUT, .arg = "STORE", .doc = "The store directory to make, like cells.annblock (required)"},
    {.name = "threads",
     .key = THREADS,
     .arg = "N",
     .doc = "Threads, the default is one per processor; the store's bytes do not depend on it"},
    {.name = "memory", .key = MEMORY, .arg = "SIZE", .doc = "Cap on buffers, the default is 512M; at least 32M"},
    {.name = "segment-rows", .key = SEGMENT_ROWS, .arg = "N", .doc = "Cells per segment file, the default is about 2 GiB of data"},
    {.name = "gene-order",
     .key = GENE_ORDER,
     .arg = "ORDER",
     .doc = "How records list genes: detected (the default; most frequent first, smallest) or source"},
    {.name = "matrix",
     .key = MATRIX,
     .arg = "NAME",
     .doc = "A matrix to pack: X (the default, where there is one), layers/KEY, raw/X, obsm/KEY; may be given several times; 'all' is "
            "every one of these that is a numeric array of two dimensions. What is not packed stays in the sidecar"},
    {.name = "force", .key = FORCE, .doc = "When STORE exists already: publish a new generation in it"},
    {0},
};

static annb_gene_order_choice gene_order(struct argp_state *state, const char *text) {
  if (!strcmp(text, "source")) return ANNB_GENE_ORDER_SOURCE;
  if (strcmp(text, "detected")) argp_error(state, "--gene-order needs 'detected' or 'source', not '%s'", text);
  return ANNB_GENE_ORDER_DETECTED;
}

static void add_matrix(arguments *a, const char *name) {
  a->matrices = cli_realloc(a->matrices, (a->options.n_matrices + 1) * sizeof *a->matrices);
  a->matrices[a->options.n_matrices++] = name;
  a->options.matrices = a->matrices;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case OUTPUT: a->output = arg; return 0;
    case THREADS: a->options.n_threads = (uint32_t)cli_number(state, "--threads", "a number of threads", arg, 1, MAX_THREADS); return 0;
    case MEMORY: a->options.memory = cli_size(state, "--memory", arg, MIN_MEMORY); return 0;
    case SEGMENT_ROWS:
      a->options.segment_rows = cli_number(state, "--segment-rows", "a number of cells", arg, 1, UINT64_C(1) << 40);
      return 0;
    case GENE_ORDER: a->options.gene_order = gene_order(state, arg); return 0;
    case MATRIX: add_matrix(a, arg); return 0;
    case FORCE: a->options.force = true; return 0;
    case ARGP_KEY_ARG: cli_take_argument(state, arg, &a->input, 1); return 0;
    case ARGP_KEY_END:
      if (!a->input) argp_error(state, "the file to pack is missing: annblock pack INPUT.h5ad -o STORE");
      if (!a->output) argp_error(state, "the store to make is missing: give it with -o STORE");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .options = options, .parser = parse, .args_doc = "INPUT.h5ad -o STORE", .doc = "Pack an .h5ad file into a new annblock store."};

/* "1,234 nonzeros in 3 matrices" */
static char *content_text(const annb_pack_result *result) {
  if (!result->n_matrices) return cli_format("no matrix,");
  char *nnz = cli_count(result->nnz), *text;
  if (result->n_matrices == 1) text = cli_format("%s nonzeros", nnz);
  else text = cli_format("%s nonzeros in %u matrices", nnz, (unsigned)result->n_matrices);
  free(nnz);
  return text;
}

static void tell(const arguments *a, const annb_pack_result *result, double seconds) {
  char *cells = cli_count(result->n_obs), *genes = cli_count(result->n_vars), *nnz = content_text(result), *time = cli_duration(seconds);
  char *generation = cli_count(result->generation);
  fprintf(stderr, "packed %s cells x %s genes, %s into %s (generation %s) in %s\n", cells, genes, nnz, a->output, generation, time);
  if (result->n_left)
    fprintf(stderr, "note: %u %s not be packed and %s in the sidecar: %s\n", (unsigned)result->n_left,
            result->n_left == 1 ? "matrix can" : "matrices can", result->n_left == 1 ? "stays" : "stay", result->left.message);
  free(generation);
  free(cells);
  free(genes);
  free(nnz);
  free(time);
}

static bool is_store(const char *path) {
  uint64_t generation = 0;
  return !annb_manifest_latest(path, &generation, NULL) && generation > 0;
}

int cmd_pack(int argc, char **argv) {
  arguments a = {0};
  annb_pack_result result = {0};
  annb_error err = {0};
  cli_progress progress;
  argp_parse(&parser, argc, argv, 0, NULL, &a);
  cli_progress_begin(&progress, false);
  a.options.progress = cli_progress_stage;
  a.options.user = &progress;
  cli_catch_signals();
  annb_status status = annb_pack(a.input, a.output, &a.options, &result, &err);
  double seconds = cli_progress_end(&progress);
  free(a.matrices);
  if (status == ANNB_EEXIST && !a.options.force && is_store(a.output)) return cli_fail_hint(&err, "use --force to add a generation");
  if (status) return cli_fail_or_signal(&err);
  tell(&a, &result, seconds);
  return CLI_OK;
}
