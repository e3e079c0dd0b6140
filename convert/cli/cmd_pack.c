/* annblock pack INPUT.h5ad... -o STORE, annblock append STORE INPUT.h5ad... */
#include "../../store/manifest/manifest.h"
#include "cli.h"
#include "filters.h"
#include "progress.h"
#include "text.h"

#include <annblock/convert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT = 'o', THREADS = 256, MEMORY, SEGMENT_ROWS, GENE_ORDER, MATRIX, JOIN, JOIN_KEY, DUPLICATES, FORCE, SHUFFLE };
enum { MAX_THREADS = 256 };
#define MIN_MEMORY (UINT64_C(32) << 20)

typedef struct arguments {
  bool append;
  const char **inputs;
  size_t n_inputs;
  const char *output;
  annb_pack_options options;
  bool quiet;
  const char **matrices;
} arguments;

#define COMMON_OPTIONS                                                                                                                     \
  {.name = "threads",                                                                                                                      \
   .key = THREADS,                                                                                                                         \
   .arg = "N",                                                                                                                             \
   .doc = "Threads, the default is one per processor; the store's bytes do not depend on it"},                                             \
      {.name = "memory", .key = MEMORY, .arg = "SIZE", .doc = "Cap on buffers, the default is 512M; at least 32M"},                        \
      {.name = "segment-rows", .key = SEGMENT_ROWS, .arg = "N", .doc = "Cells per segment file, the default is about 2 GiB of data"},      \
      {.name = "gene-order",                                                                                                               \
       .key = GENE_ORDER,                                                                                                                  \
       .arg = "ORDER",                                                                                                                     \
       .doc = "How records list genes: detected (the default; most frequent first, smallest) or source"},                                  \
      {.name = "matrix",                                                                                                                   \
       .key = MATRIX,                                                                                                                      \
       .arg = "NAME",                                                                                                                      \
       .doc = "A matrix to pack: X (the default, where there is one; appending: those of the store), layers/KEY, raw/X, obsm/KEY; may be " \
              "given several times; 'all' is every one of these that is a numeric array of two dimensions. What is not packed stays in "   \
              "the sidecar"},                                                                                                              \
      {.name = "shuffle",                                                                                                                  \
       .key = SHUFFLE,                                                                                                                     \
       .arg = "SEED",                                                                                                                      \
       .doc = "Store each file's cells in a random order, which this number decides; export restores the file's own"},                     \
      {.name = "join-key",                                                                                                                 \
       .key = JOIN_KEY,                                                                                                                    \
       .arg = "COLUMN",                                                                                                                    \
       .doc = "Match genes by this column of var, the default is their names"},                                                            \
      {.name = "allow-duplicate-genes",                                                                                                    \
       .key = DUPLICATES,                                                                                                                  \
       .doc = "When genes are matched: the first of equal ones with the first, the second with the second; the default is to refuse them"}

static const struct argp_option pack_options[] = {
    {.key = OUTPUT, .arg = "STORE", .doc = "The store directory to make, like cells.annblock (required)"},
    COMMON_OPTIONS,
    {.name = "join",
     .key = JOIN,
     .arg = "HOW",
     .doc = "Files with different genes: inner (keep those that all have) or outer (keep all, zero where a file has none)"},
    {.name = "force", .key = FORCE, .doc = "When STORE exists already: publish a new generation in it"},
    CLI_QUIET_OPTION,
    {0},
};

static const struct argp_option append_options[] = {
    COMMON_OPTIONS,
    {.name = "join",
     .key = JOIN,
     .arg = "HOW",
     .doc = "Files with other genes than the store: inner (keep the store's genes) or outer (add the new ones, zero in the cells before)"},
    CLI_QUIET_OPTION,
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

static void take_argument(arguments *a, const char *arg) {
  if (a->append && !a->output) {
    a->output = arg;
    return;
  }
  a->inputs = cli_realloc(a->inputs, (a->n_inputs + 1) * sizeof *a->inputs);
  a->inputs[a->n_inputs++] = arg;
}

static void check_arguments(const arguments *a, struct argp_state *state) {
  if (a->append && !a->output) argp_error(state, "the store is missing: annblock append STORE INPUT.h5ad...");
  if (a->append && !a->n_inputs) argp_error(state, "the files to add are missing: annblock append STORE INPUT.h5ad...");
  if (!a->n_inputs) argp_error(state, "the file to pack is missing: annblock pack INPUT.h5ad... -o STORE");
  if (!a->output) argp_error(state, "the store to make is missing: give it with -o STORE");
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
    case JOIN: a->options.join = cli_join(state, arg); return 0;
    case JOIN_KEY: a->options.join_key = arg; return 0;
    case DUPLICATES: a->options.allow_duplicate_genes = true; return 0;
    case MATRIX: add_matrix(a, arg); return 0;
    case FORCE: a->options.force = true; return 0;
    case SHUFFLE:
      a->options.shuffle = true;
      a->options.seed = cli_number(state, "--shuffle", "a seed", arg, 0, UINT64_MAX);
      return 0;
    case CLI_QUIET: a->quiet = true; return 0;
    case ARGP_KEY_ARG: take_argument(a, arg); return 0;
    case ARGP_KEY_END: check_arguments(a, state); return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp pack_parser = {.options = pack_options,
                                        .parser = parse,
                                        .args_doc = "INPUT.h5ad... -o STORE",
                                        .doc = "Pack .h5ad files into a new annblock store, each as a part of its own."};
static const struct argp append_parser = {
    .options = append_options,
    .parser = parse,
    .args_doc = "STORE INPUT.h5ad...",
    .doc = "Add .h5ad files to a store as new parts, in a new generation. Nothing that exists is changed."};

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

static int run(arguments *a, int argc, char **argv) {
  annb_pack_result result = {0};
  annb_error err = {0};
  cli_progress progress;
  argp_parse(a->append ? &append_parser : &pack_parser, argc, argv, 0, NULL, a);
  cli_progress_begin(&progress, false, a->quiet);
  a->options.progress = cli_progress_stage;
  a->options.note = cli_progress_note;
  a->options.user = &progress;
  cli_catch_signals();
  for (size_t i = 0; i < a->n_inputs; i++) cli_find_filters(a->inputs[i]);
  annb_status status = a->append ? annb_append(a->inputs, a->n_inputs, a->output, &a->options, &result, &err)
                                 : annb_pack_many(a->inputs, a->n_inputs, a->output, &a->options, &result, &err);
  double seconds = cli_progress_end(&progress);
  if (status == ANNB_EEXIST && !a->options.force && !a->append && is_store(a->output))
    return cli_fail_hint(&err, "use --force to add a generation, or annblock append to add cells");
  if (status) return cli_fail_or_signal(&err);
  if (!a->quiet) tell(a, &result, seconds);
  return CLI_OK;
}

int cmd_pack(int argc, char **argv) {
  arguments a = {.append = false};
  int status = run(&a, argc, argv);
  free(a.inputs);
  free(a.matrices);
  return status;
}

int cmd_append(int argc, char **argv) {
  arguments a = {.append = true};
  int status = run(&a, argc, argv);
  free(a.inputs);
  free(a.matrices);
  return status;
}
