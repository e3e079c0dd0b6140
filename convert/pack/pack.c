/* A run of packing: options, paths, the transaction. */
#include "part.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_MEMORY (UINT64_C(512) << 20)
#define LEAST_MEMORY (UINT64_C(32) << 20)

typedef struct pack {
  const char *input, *output;
  annb_pack_options options;
  annb_pack_part part;
  annb_txn *txn;
} pack;

static annb_status read_options(pack *p, const annb_pack_options *options, annb_error *err) {
  if (options) p->options = *options;
  if (!p->options.memory) p->options.memory = DEFAULT_MEMORY;
  if (p->options.memory < LEAST_MEMORY) return annb_fail(err, ANNB_EINVAL, NULL, "packing needs at least 32 MiB of memory");
  if (!p->options.n_threads) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    p->options.n_threads = n > 0 ? (uint32_t)n : 1;
  }
  return ANNB_OK;
}

/* The output, and every directory that its path names, must be another file than the input. */
static annb_status check_paths(const pack *p, annb_error *err) {
  struct stat input;
  if (stat(p->input, &input)) return annb_fail_errno(err, p->input, "open");
  char *path = strdup(p->output);
  if (!path) return annb_fail_memory(err);
  annb_status s = ANNB_OK;
  for (char *end = path + strlen(path); end && *path && !s; end = strrchr(path, '/')) {
    struct stat st;
    *end = 0;
    if (*path && stat(path, &st) == 0 && st.st_dev == input.st_dev && st.st_ino == input.st_ino)
      s = annb_fail(err, ANNB_EINVAL, p->output, "is the input file or lies inside it: choose another place for the store");
  }
  free(path);
  return s;
}

static annb_status report_commit(const pack *p, annb_error *err) {
  if (!p->options.progress || p->options.progress(p->options.user, "committing", 0, 0)) return ANNB_OK;
  return annb_fail(err, ANNB_ECANCELED, p->input, "packing was cancelled");
}

static annb_status add_matrices(pack *p, uint32_t *rows, annb_error *err) {
  annb_status s = ANNB_OK;
  for (size_t i = 0; i < p->part.n_matrices && !s; i++) {
    const annb_pack_matrix *m = &p->part.matrices[i];
    const annb_matrix_spec spec = {m->name, m->from.n_cols, m->axes, m->from.dtype, ANNB_ABSENT_NEVER};
    s = annb_txn_add_matrix(p->txn, &spec, &rows[i], err);
  }
  return s;
}

static annb_status add_part(pack *p, annb_pack_result *result, annb_error *err) {
  uint32_t row, *rows = calloc(p->part.n_matrices + 1, sizeof *rows);
  annb_status s = rows ? add_matrices(p, rows, err) : annb_fail_memory(err);
  if (!s) s = annb_txn_add_part(p->txn, &p->part.spec, &row, err);
  if (!s) s = annb_pack_part_attach(&p->part, row, rows, &result->nnz, err);
  free(rows);
  return s;
}

static annb_status publish(pack *p, annb_pack_result *result, annb_error *err) {
  annb_status s = annb_pack_part_unchanged(&p->part, err);
  if (!s) s = report_commit(p, err);
  if (s) return s;
  annb_txn *txn = p->txn;
  p->txn = NULL;
  return annb_txn_commit(txn, &result->generation, err);
}

static annb_status run(pack *p, annb_pack_result *result, annb_error *err) {
  annb_status s = check_paths(p, err);
  if (!s) s = annb_pack_part_open(&p->part, p->input, &p->options, err);
  if (!s) s = annb_txn_begin(p->output, p->options.force ? ANNB_TXN_REPLACE : ANNB_TXN_CREATE, &p->txn, err);
  if (!s) s = annb_pack_part_write(&p->part, p->txn, err);
  if (!s) s = add_part(p, result, err);
  if (!s) s = publish(p, result, err);
  result->n_obs = p->part.spec.n_rows;
  result->n_vars = p->part.spec.n_vars;
  result->n_matrices = (uint32_t)p->part.n_matrices;
  result->n_left = p->part.n_left;
  result->left = p->part.left;
  annb_pack_part_close(&p->part);
  annb_txn_abort(p->txn);
  return s;
}

annb_status annb_pack(const char *input, const char *output, const annb_pack_options *options, annb_pack_result *result, annb_error *err) {
  if (!input || !*input || !output || !*output)
    return annb_fail(err, ANNB_EINVAL, NULL, "packing needs the path of an input and of an output");
  annb_pack_result ignored = {0};
  pack p = {.input = input, .output = output};
  annb_h5_quiet quiet = annb_h5_quiet_begin();
  annb_status s = read_options(&p, options, err);
  if (!s) s = run(&p, result ? result : &ignored, err);
  annb_h5_quiet_end(quiet);
  return s;
}
