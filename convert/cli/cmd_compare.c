/* annblock convert-check A.h5ad B.h5ad */
#include "cli.h"
#include "filters.h"
#include "text.h"

#include <annblock/convert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static error_t parse(int key, char *arg, struct argp_state *state) {
  const char **files = state->input;
  switch (key) {
    case ARGP_KEY_ARG: cli_take_argument(state, arg, files, 2); return 0;
    case ARGP_KEY_END:
      if (!files[1]) argp_error(state, "two files to compare are needed: annblock convert-check A.h5ad B.h5ad");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .parser = parse,
    .args_doc = "A.h5ad B.h5ad",
    .doc = "Compare two files object by object: links, types, shapes, values bit by bit and attributes. Storage layout and "
           "filters may differ. Prints a line per difference.\vExit status 1 when anything differs."};

static bool print(void *user, const char *path, const char *what) {
  char *a = cli_safe(path, strlen(path)), *b = cli_safe(what, strlen(what));
  (void)user;
  printf("%s: %s\n", a, b);
  free(a);
  free(b);
  return !ferror(stdout);
}

int cmd_compare(int argc, char **argv) {
  const char *files[2] = {NULL, NULL};
  annb_error err = {0};
  uint64_t different = 0;
  argp_parse(&parser, argc, argv, 0, NULL, files);
  for (int i = 0; i < 2; i++) cli_find_filters(files[i]);
  if (annb_compare(files[0], files[1], print, NULL, &different, &err)) return cli_fail(&err);
  if (different) {
    char *count = cli_count(different);
    printf("%s difference%s\n", count, different == 1 ? "" : "s");
    free(count);
    return CLI_FAILED;
  }
  printf("ok: %s and %s hold the same\n", files[0], files[1]);
  return CLI_OK;
}
