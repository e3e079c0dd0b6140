/* The command annblock: finds the command and hands over. */
#include "cli.h"

#include <annblock/annblock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct command {
  const char *name, *title;
  int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
    {"pack", "annblock pack", cmd_pack},       {"append", "annblock append", cmd_append},
    {"annotate", "annblock annotate", cmd_annotate},
    {"info", "annblock info", cmd_info},       {"head", "annblock head", cmd_head},
    {"verify", "annblock verify", cmd_verify}, {"export", "annblock export", cmd_export},
    {"convert-check", "annblock convert-check", cmd_compare},
    {"sample", "annblock sample", cmd_sample}, {"entropy", "annblock entropy", cmd_entropy},
    {"bench", "annblock bench", cmd_bench},
};

#define NAMES "pack, append, annotate, info, head, verify, export, convert-check, sample, entropy, bench or help"

static const char doc[] = "Pack AnnData .h5ad files into an immutable, checksummed store for training, and get them back exactly.\v"
                          "Commands:\n"
                          "  pack INPUT.h5ad... -o STORE    pack files into a new store\n"
                          "  append STORE INPUT.h5ad...     add files to a store\n"
                          "  annotate STORE --from F.h5ad   new metadata for the same cells\n"
                          "  info STORE                     what is in a store\n"
                          "  head STORE                     the first cells\n"
                          "  verify STORE                   check every byte\n"
                          "  export STORE -o OUT.h5ad       the .h5ad file again\n"
                          "  convert-check A.h5ad B.h5ad    compare two .h5ad files object by object\n"
                          "  sample STORE                   minibatches of an epoch, as row numbers\n"
                          "  entropy STORE --label COLUMN   how mixed the labels of minibatches are\n"
                          "  bench STORE                    minibatches a second, beside a plain copy\n"
                          "  help COMMAND                   how to use a command\n\n"
                          "Results go to standard output, messages to standard error.\n"
                          "Exit status: 0 done, 1 a problem with the data or a file, 2 wrong usage.";

static const command *find(const char *name) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (!strcmp(commands[i].name, name)) return &commands[i];
  return NULL;
}

static void print_version(FILE *out, struct argp_state *state) {
  (void)state;
  fprintf(out, "annblock %s\n", annb_version());
}

/* Only the options before the command are looked at here. */
static error_t parse(int key, char *arg, struct argp_state *state) {
  int *first = state->input;
  (void)arg;
  if (key == ARGP_KEY_ARG) {
    *first = state->next - 1;
    state->next = state->argc;
    return 0;
  }
  if (key == ARGP_KEY_NO_ARGS) argp_error(state, "a command is missing: " NAMES);
  return ARGP_ERR_UNKNOWN;
}

static const struct argp parser = {.parser = parse, .args_doc = "COMMAND [ARGUMENT...]", .doc = doc};

static int unknown(const char *name) {
  fprintf(stderr, "annblock: there is no command '%s'; expected " NAMES "\n", name);
  fprintf(stderr, "Try `annblock --help' for more information.\n");
  return CLI_USAGE;
}

static int run(const command *found, int argc, char **argv) {
  char *title = cli_format("%s", found->title);
  argv[0] = title;
  int status = found->run(argc, argv);
  free(title);
  return status;
}

static int help(int argc, char **argv) {
  static char option[] = "--help";
  char *asked[] = {NULL, option, NULL};
  if (argc > 2) {
    fprintf(stderr, "annblock: help takes one command, not '%s' too\n", argv[2]);
    return CLI_USAGE;
  }
  if (argc == 2) {
    const command *found = find(argv[1]);
    return found ? run(found, 2, asked) : unknown(argv[1]);
  }
  static char name[] = "annblock";
  argp_help(&parser, stdout, ARGP_HELP_STD_HELP & ~(unsigned)ARGP_HELP_EXIT_OK, name);
  return CLI_OK;
}

int main(int argc, char **argv) {
  static char name[] = "annblock";
  int first = 0;
  cli_mend_inheritance();
  cli_watch_stdout();
  argp_program_version_hook = print_version;
  argp_err_exit_status = CLI_USAGE;
  if (argc > 0) argv[0] = name;
  argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &first);
  const command *found = find(argv[first]);
  if (!strcmp(argv[first], "help")) return help(argc - first, argv + first);
  return found ? run(found, argc - first, argv + first) : unknown(argv[first]);
}
