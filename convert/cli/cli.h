/* What the commands share: exit codes, errors, numbers on the command line, signals. */
#ifndef ANNB_CLI_H
#define ANNB_CLI_H

#include <annblock/reader.h>
#include <annblock/status.h>
#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* Each takes argv[0] = "annblock NAME" and returns the exit code. Usage errors exit at once with CLI_USAGE. */
int cmd_pack(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_append(int argc, char **argv);
int cmd_annotate(int argc, char **argv);
int cmd_head(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_sample(int argc, char **argv);
int cmd_entropy(int argc, char **argv);
int cmd_bench(int argc, char **argv);

/* "annblock: <message>" on stderr; returns CLI_FAILED. */
int cli_fail(const annb_error *err);
/* The same with ": <hint>" behind the message. */
int cli_fail_hint(const annb_error *err, const char *hint);
/* The same for a cancelled or failed call: when a signal was caught the process ends by that signal, after the clean-up that was done. */
int cli_fail_or_signal(const annb_error *err);

/* Fresh memory, or the process ends with CLI_FAILED: for small things to print. */
void *cli_alloc(size_t size);
void *cli_realloc(void *old, size_t size);
char *cli_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A whole number of minimum … maximum from `text`; else a usage error that says what `option` takes. */
uint64_t cli_number(struct argp_state *state, const char *option, const char *what, const char *text, uint64_t minimum, uint64_t maximum);
/* The option --generation of commands that read a store, and its number. */
enum { CLI_GENERATION = 512 };
#define CLI_GENERATION_OPTION \
  {.name = "generation", .key = CLI_GENERATION, .arg = "N", .doc = "An older generation of the store, the default is the newest"}
uint64_t cli_generation(struct argp_state *state, const char *text);
/* What --join says: inner or outer, else a usage error. */
annb_gene_join cli_join(struct argp_state *state, const char *text);
/* The option --quiet of commands that take long: no progress line and no closing message; results and errors remain. */
enum { CLI_QUIET = 513 };
#define CLI_QUIET_OPTION {.name = "quiet", .key = CLI_QUIET, .doc = "No progress and no closing message; errors remain"}
/* A number of bytes with an optional suffix K, M, G or T (powers of 1024), at least `minimum`. */
uint64_t cli_size(struct argp_state *state, const char *option, const char *text, uint64_t minimum);
/* ARGP_KEY_ARG: put `arg` into the next free of the n places, a usage error when all are taken. */
void cli_take_argument(struct argp_state *state, const char *arg, const char **places, int n);

/* From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT only set a flag, the first time. */
void cli_catch_signals(void);
bool cli_interrupted(void);

/* What a caller may have left closed or ignored: descriptors 0 to 2 lead to /dev/null then, else messages would go into the files that
 * are opened next; and ends of child processes are told. */
void cli_mend_inheritance(void);

/* At exit: flush stdout; a failed write makes the exit code CLI_FAILED (silently when the reader went away).
 * Writing past a limit on file sizes becomes an error too. */
void cli_watch_stdout(void);

#endif
