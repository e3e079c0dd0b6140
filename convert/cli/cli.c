#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t caught; /* a signal handler can reach nothing else */

int cli_fail(const annb_error *err) {
  fflush(stdout);
  fprintf(stderr, "annblock: %s\n", err->message);
  return CLI_FAILED;
}

int cli_fail_hint(const annb_error *err, const char *hint) {
  fflush(stdout);
  fprintf(stderr, "annblock: %s: %s\n", err->message, hint);
  return CLI_FAILED;
}

int cli_fail_or_signal(const annb_error *err) {
  int number = caught;
  if (!number) return cli_fail(err);
  fprintf(stderr, "annblock: interrupted\n");
  fflush(stdout);
  signal(number, SIG_DFL);
  raise(number);
  return CLI_FAILED;
}

static void no_memory(void) {
  fprintf(stderr, "annblock: out of memory\n");
  exit(CLI_FAILED);
}

void *cli_alloc(size_t size) { return cli_realloc(NULL, size); }

void *cli_realloc(void *old, size_t size) {
  void *p = realloc(old, size ? size : 1);
  if (!p) no_memory();
  return p;
}

char *cli_format(const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (n < 0) no_memory();
  char *text = cli_alloc((size_t)n + 1);
  va_start(args, format);
  vsnprintf(text, (size_t)n + 1, format, args);
  va_end(args);
  return text;
}

/* Digits only: no sign, no spaces. */
static bool parse_digits(const char *text, uint64_t *out, const char **end) {
  if (*text < '0' || *text > '9') return false;
  char *stop;
  errno = 0;
  unsigned long long n = strtoull(text, &stop, 10);
  *end = stop;
  *out = n;
  return errno == 0;
}

uint64_t cli_number(struct argp_state *state, const char *option, const char *what, const char *text, uint64_t minimum, uint64_t maximum) {
  uint64_t n = 0;
  const char *end;
  if (!parse_digits(text, &n, &end) || *end || n < minimum || n > maximum)
    argp_error(state, "%s takes %s (a whole number, %" PRIu64 " to %" PRIu64 "), not '%s'", option, what, minimum, maximum, text);
  return n;
}

uint64_t cli_generation(struct argp_state *state, const char *text) {
  return cli_number(state, "--generation", "the number of a generation", text, 1, UINT64_MAX);
}

annb_gene_join cli_join(struct argp_state *state, const char *text) {
  if (!strcmp(text, "outer")) return ANNB_JOIN_OUTER;
  if (strcmp(text, "inner")) argp_error(state, "--join needs 'inner' or 'outer', not '%s'", text);
  return ANNB_JOIN_INNER;
}

static bool parse_size(const char *text, uint64_t *out) {
  static const char suffixes[] = "KMGT";
  const char *end;
  if (!parse_digits(text, out, &end)) return false;
  if (!*end) return true;
  const char *found = strchr(suffixes, *end >= 'a' && *end <= 'z' ? *end - 'a' + 'A' : *end);
  if (!found || end[1]) return false;
  unsigned shift = 10 * (unsigned)(found - suffixes + 1);
  if (*out > UINT64_MAX >> shift) return false;
  *out <<= shift;
  return true;
}

uint64_t cli_size(struct argp_state *state, const char *option, const char *text, uint64_t minimum) {
  uint64_t n = 0;
  if (!parse_size(text, &n) || n < minimum)
    argp_error(state, "%s takes a number of bytes with an optional K, M, G or T (like 512M), at least %" PRIu64 "M, not '%s'", option,
               minimum >> 20, text);
  return n;
}

void cli_take_argument(struct argp_state *state, const char *arg, const char **places, int n) {
  for (int i = 0; i < n; i++)
    if (!places[i]) {
      places[i] = arg;
      return;
    }
  argp_error(state, "too many arguments: '%s' was not expected after '%s'", arg, places[n - 1]);
}

static void on_signal(int number) { caught = number; }

void cli_catch_signals(void) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART}, old;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (!sigaction(numbers[i], NULL, &old) && old.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
}

bool cli_interrupted(void) { return caught != 0; }

void cli_mend_inheritance(void) {
  for (int fd = 0; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) break;
  signal(SIGCHLD, SIG_DFL);
}

static void close_stdout(void) {
  bool failed = ferror(stdout) != 0;
  errno = 0;
  if (!fflush(stdout) && !failed && !fclose(stdout)) return;
  if (errno == EBADF) return; /* started without a stdout, and nothing to say */
  if (errno && errno != EPIPE) fprintf(stderr, "annblock: cannot write to standard output: %s\n", strerror(errno));
  _exit(CLI_FAILED);
}

void cli_watch_stdout(void) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is then an error like a full disk */
  atexit(close_stdout);
}
