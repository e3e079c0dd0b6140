/* annblock verify STORE */
#include "../../store/io.h"
#include "cli.h"
#include "progress.h"
#include "text.h"

#include <annblock/annblock.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON = 256 }; /* no short option */

typedef struct arguments {
  const char *store;
  bool json, quiet;
} arguments;

typedef struct run {
  cli_progress progress;
  json_t *findings; /* NULL: print lines */
} run;

static const struct argp_option options[] = {
    {.name = "json", .key = JSON, .doc = "One JSON object instead of lines"},
    CLI_QUIET_OPTION,
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case JSON: a->json = true; return 0;
    case CLI_QUIET: a->quiet = true; return 0;
    case ARGP_KEY_ARG: cli_take_argument(state, arg, &a->store, 1); return 0;
    case ARGP_KEY_END:
      if (!a->store) argp_error(state, "the store is missing: annblock verify STORE");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {.options = options,
                                   .parser = parse,
                                   .args_doc = "STORE",
                                   .doc = "Check every byte of a store: hashes, checks, structure and every record. Prints a line per "
                                          "finding.\vExit status 1 when anything is wrong."};

static void print_finding(const annb_finding *f) {
  char *path = cli_safe(f->path, strlen(f->path)), *message = cli_safe(f->message, strlen(f->message));
  if (f->row == ANNB_NO_ROW) printf("%s: %s\n", path, message);
  else if (f->store_row == ANNB_NO_ROW) printf("%s: row %" PRId64 ": %s\n", path, f->row, message);
  else printf("%s: store row %" PRId64 " (segment row %" PRId64 "): %s\n", path, f->store_row, f->row, message);
  free(path);
  free(message);
}

static json_t *json_row(int64_t row) { return row == ANNB_NO_ROW ? json_null() : json_integer(row); }

static bool on_finding(void *user, const annb_finding *f) {
  run *r = user;
  if (!r->findings) {
    cli_progress_end(&r->progress);
    print_finding(f);
    return !ferror(stdout);
  }
  char *path = cli_utf8(f->path, strlen(f->path)), *message = cli_utf8(f->message, strlen(f->message));
  json_array_append_new(r->findings, json_pack("{s:s, s:s, s:o, s:o, s:s}", "status", annb_status_name(f->status), "path", path, "row",
                                               json_row(f->row), "store_row", json_row(f->store_row), "message", message));
  free(path);
  free(message);
  return true;
}

static bool on_progress(void *user, uint64_t done, uint64_t total) { return cli_progress_verify(&((run *)user)->progress, done, total); }

/* Files and bytes of one directory of the store. */
static void add_up(const char *store, const char *name, uint64_t *files, uint64_t *bytes) {
  char **names = NULL, *directory = annb_io_join(store, name);
  size_t n = 0;
  if (directory && !annb_io_list(directory, &names, &n, NULL)) {
    for (size_t i = 0; i < n; i++) {
      char *path = annb_io_join(directory, names[i]);
      uint64_t size = 0;
      if (path && !annb_io_file_size(path, &size, NULL)) *files += 1, *bytes += size;
      free(path);
    }
    annb_io_free_names(names, n);
  }
  free(directory);
}

int cmd_verify(int argc, char **argv) {
  arguments a = {0};
  annb_error err = {0};
  run r = {.findings = NULL};
  uint64_t n_findings = 0, files = 0, bytes = 0;
  argp_parse(&parser, argc, argv, 0, NULL, &a);
  if (a.json) r.findings = json_array();
  cli_catch_signals();
  cli_progress_begin(&r.progress, true, a.quiet);
  annb_status status = annb_verify(a.store, on_finding, on_progress, &r, &n_findings, &err);
  cli_progress_end(&r.progress);
  if (status) {
    json_decref(r.findings);
    return cli_fail_or_signal(&err);
  }
  add_up(a.store, "manifests", &files, &bytes);
  add_up(a.store, "objects", &files, &bytes);
  if (a.json) {
    json_t *all = json_pack("{s:b, s:I, s:I, s:o}", "ok", n_findings == 0, "files", (json_int_t)files, "bytes", (json_int_t)bytes,
                            "findings", r.findings);
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
  } else if (!n_findings) {
    char *size = cli_count(bytes), *count = cli_count(files);
    printf("ok: %s bytes in %s files\n", size, count);
    free(size);
    free(count);
  }
  return n_findings ? CLI_FAILED : CLI_OK;
}
