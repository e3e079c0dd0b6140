/* A run of packing: options, paths, the transaction. */
#include "pack.h"

#include "../join/join.h"
#include "part.h"

#include "../../store/error.h"
#include "../../store/io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_MEMORY (UINT64_C(512) << 20)
#define LEAST_MEMORY (UINT64_C(32) << 20)

typedef struct pack {
  const char *const *inputs;
  size_t n_inputs;
  const char *output;
  bool append, several; /* several: parts in the end */
  annb_pack_options options;
  struct stat *seen; /* per input: when its columns were read */
  uint32_t *columns; /* per input: object, or ANNB_NONE */
  char **names; /* appending: the store's matrices, when no others were asked for */
  annb_manifest shapes; /* several inputs: its matrix table says how wide a matrix is in all of them */
  annb_join join;
  annb_txn *txn;
  annb_pack_result result;
} pack;

static annb_status read_options(pack *p, const annb_pack_options *options, annb_error *err) {
  if (options) p->options = *options;
  if (!p->options.memory) p->options.memory = DEFAULT_MEMORY;
  if (p->options.memory < LEAST_MEMORY) return annb_fail(err, ANNB_EINVAL, NULL, "packing needs at least 32 MiB of memory");
  if (!p->options.n_threads) p->options.n_threads = annb_io_processors();
  return ANNB_OK;
}

/* The output, and every directory that its path names, must be another file than the input. */
static annb_status check_path(const pack *p, const char *name, annb_error *err) {
  struct stat input;
  if (!name || !*name) return annb_fail(err, ANNB_EINVAL, NULL, "packing needs the path of an input");
  if (stat(name, &input)) return annb_fail_errno(err, name, "open");
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

static annb_status report(const pack *p, const char *stage, annb_error *err) {
  if (!p->options.progress || p->options.progress(p->options.user, stage, 0, 0)) return ANNB_OK;
  return annb_fail(err, ANNB_ECANCELED, p->inputs[0], "packing was cancelled");
}

/* A file that cannot be packed leaves no trace, not even a directory. */
static annb_status check_input(const pack *p, annb_error *err) {
  annb_pack_part part;
  annb_status s = annb_pack_part_open(&part, p->inputs[0], &p->options, err);
  annb_pack_part_close(&part);
  return s;
}

/* ---- several files: what is refused is refused before anything large is written ---- */

/* A matrix must be as wide as in the files before. Lists of genes of raw are not compared, so it cannot be one matrix. */
static annb_status check_matrix(pack *p, const annb_pack_matrix *m, annb_error *err) {
  uint32_t found = annb_manifest_find_matrix(&p->shapes, m->name), ignored;
  const annb_fmt_matrix *there = found == ANNB_NONE ? NULL : &p->shapes.matrices[found];
  annb_fmt_matrix row = {.n_cols = m->from.n_cols, .axes = (uint8_t)m->axes, .dtype = (uint8_t)m->from.dtype};
  if (m->axes == ANNB_OBS_RAW_VAR)
    return annb_fail(err, ANNB_EUNSUPPORTED, m->from.file, "%s of several files cannot be one matrix: each has its own list of genes",
                     m->name);
  if (!there) return annb_manifest_add_matrix(&p->shapes, m->name, row, &ignored, err);
  if (there->axes == m->axes && (m->axes == ANNB_OBS_VAR || there->n_cols == m->from.n_cols)) return ANNB_OK;
  return annb_fail(err, ANNB_EUNSUPPORTED, m->from.file, "%s has %llu columns, and %llu in the other cells: it cannot be one matrix",
                   m->name, (unsigned long long)m->from.n_cols, (unsigned long long)there->n_cols);
}

static bool is_named(const pack *p, const char *name) {
  bool found = false;
  for (size_t i = 0; i < p->options.n_matrices; i++) found = found || !strcmp(p->options.matrices[i], name);
  return found;
}

/* Matrices that do not fit those of other files stay in the sidecar when nobody named them. */
static annb_status fit_matrices(pack *p, annb_pack_part *part, annb_error *err) {
  size_t kept = 0;
  annb_status s = ANNB_OK;
  if (!p->several) return ANNB_OK;
  for (size_t i = 0; i < part->n_matrices; i++) {
    annb_error why;
    annb_pack_matrix *m = &part->matrices[i];
    annb_status fits = s ? ANNB_OK : check_matrix(p, m, &why);
    if (fits == ANNB_EUNSUPPORTED && !is_named(p, m->name)) {
      annb_pack_matrix_close(m);
      if (!part->n_left++) part->left = why;
      continue;
    }
    if (fits && err) *err = why;
    if (fits) s = fits;
    part->matrices[kept++] = *m;
  }
  part->n_matrices = kept;
  return s;
}

static annb_status read_columns(pack *p, size_t i, annb_manifest *draft, annb_error *err) {
  annb_pack_part part;
  uint32_t row;
  annb_status s = annb_pack_part_open(&part, p->inputs[i], &p->options, err);
  if (!s) s = fit_matrices(p, &part, err);
  if (!s) s = annb_pack_part_write_columns(&part, p->txn, err);
  annb_fmt_part look = {.n_rows = part.spec.n_rows,
                        .n_vars = part.spec.n_vars,
                        .columns = part.spec.columns,
                        .sidecar = ANNB_NONE,
                        .restore = ANNB_NONE,
                        .gene_map = ANNB_NONE,
                        .code_map = ANNB_NONE,
                        .row_order = ANNB_NONE,
                        .row_filter = ANNB_NONE};
  if (!s) s = annb_txn_add_to(p->txn, part.spec.columns, draft, &look.columns, err);
  if (!s) s = annb_manifest_add_part(draft, &look, &row, err);
  p->columns[i] = part.spec.columns;
  p->seen[i] = part.before;
  annb_pack_part_close(&part);
  return s;
}

static annb_status look_at_genes(pack *p, uint32_t first_new, annb_manifest *draft, annb_error *err) {
  annb_join_files files;
  annb_join look = p->join;
  look.note = NULL;
  look.first_label = first_new;
  annb_status s = annb_join_open(p->txn, draft, &files, err);
  if (s) return s;
  s = annb_join_genes(&look, NULL, &files, first_new, draft, err);
  annb_join_close(&files);
  return s;
}

static bool every_part_has(const annb_manifest *m, uint32_t matrix) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->n_part_matrices; i++) n += m->part_matrices[i].matrix == matrix;
  return n == m->n_parts;
}

/* Nobody said which matrices to add: those that all parts of the store have. Not of raw, whose lists of genes are each file's
 * own: it stays in the sidecar. */
static annb_status take_names(pack *p, const annb_manifest *base, annb_error *err) {
  if (p->options.n_matrices || !base->n_matrices) return ANNB_OK;
  size_t n = 0;
  p->names = calloc((size_t)base->n_matrices + 1, sizeof *p->names);
  if (!p->names) return annb_fail_memory(err);
  for (uint32_t i = 0; i < base->n_matrices; i++) {
    if (base->matrices[i].axes == ANNB_OBS_RAW_VAR || !every_part_has(base, i)) continue;
    p->names[n] = annb_manifest_matrix_name(base, i);
    if (!p->names[n++]) return annb_fail_memory(err);
  }
  p->options.matrices = (const char *const *)p->names;
  p->options.n_matrices = n;
  return ANNB_OK;
}

/* A file that lacks a matrix which the store has: the message says what to do. */
static annb_status tell_choice(const pack *p, annb_status s, annb_error *err) {
  if (s != ANNB_ENOTFOUND || !p->names || !err) return s;
  size_t at = strlen(err->message);
  snprintf(err->message + at, sizeof err->message - at, "; the store has it, so name the matrices to add, or 'all' for those of the file");
  return s;
}

static annb_status look_at_all(pack *p, annb_error *err) {
  annb_manifest base, draft;
  annb_manifest_init(&base);
  annb_manifest_init(&draft);
  annb_status s = p->append ? annb_txn_base(p->txn, &base, err) : ANNB_OK;
  draft.store = base.store;
  if (!s) s = annb_manifest_append(&draft, &base, NULL, err);
  if (!s) s = annb_manifest_append(&p->shapes, &base, NULL, err);
  if (!s) s = take_names(p, &base, err);
  for (size_t i = 0; !s && i < p->n_inputs; i++) s = tell_choice(p, read_columns(p, i, &draft, err), err);
  if (!s) s = look_at_genes(p, base.n_parts, &draft, err);
  annb_manifest_free(&base);
  annb_manifest_free(&draft);
  return s;
}

/* ---- parts ---- */

/* The row of the transaction's matrix table, which parts share. */
static annb_status add_matrix(pack *p, const annb_pack_matrix *m, uint32_t *row, annb_error *err) {
  const annb_matrix_spec spec = {m->name, m->from.n_cols, m->axes, m->from.dtype, ANNB_ABSENT_NEVER};
  *row = annb_manifest_find_matrix(annb_txn_manifest(p->txn), m->name);
  return *row == ANNB_NONE ? annb_txn_add_matrix(p->txn, &spec, row, err) : ANNB_OK;
}

static annb_status add_part(pack *p, annb_pack_part *part, annb_error *err) {
  uint32_t row, *rows = calloc(part->n_matrices + 1, sizeof *rows);
  uint64_t nnz = 0;
  annb_status s = rows ? ANNB_OK : annb_fail_memory(err);
  for (size_t i = 0; i < part->n_matrices && !s; i++) s = add_matrix(p, &part->matrices[i], &rows[i], err);
  if (!s) s = annb_txn_add_part(p->txn, &part->spec, &row, err);
  if (!s) s = annb_pack_part_attach(part, row, rows, &nnz, err);
  free(rows);
  p->result.nnz += nnz;
  p->result.n_obs += part->spec.n_rows;
  p->result.n_vars = part->spec.n_vars;
  return s;
}

static annb_status pack_part(pack *p, size_t i, annb_error *err) {
  annb_pack_part part;
  annb_status s = annb_pack_part_open(&part, p->inputs[i], &p->options, err);
  if (p->columns[i] != ANNB_NONE) {
    part.spec.columns = p->columns[i];
    part.before = p->seen[i];
    if (!s) s = annb_pack_part_unchanged(&part, err);
    if (!s) s = fit_matrices(p, &part, err);
  }
  if (!s) s = annb_pack_part_write(&part, p->txn, err);
  if (!s) s = add_part(p, &part, err);
  if (!s) s = annb_pack_part_unchanged(&part, err);
  p->result.n_matrices = annb_txn_manifest(p->txn)->n_matrices;
  if (!p->result.n_left) p->result.left = part.left;
  p->result.n_left += part.n_left;
  annb_pack_part_close(&part);
  return s;
}

/* ---- all of it ---- */

/* The join, and what it made of the numbers that are told. */
static annb_status build(void *user, annb_txn *txn, const annb_manifest *base, annb_manifest *draft, annb_error *err) {
  pack *p = user;
  annb_join_files files;
  uint64_t n = 0;
  char example[128] = "";
  annb_status s = annb_join_build(&p->join, txn, base, draft, err);
  if (!s) s = annb_join_open(txn, draft, &files, err);
  if (s) return s;
  s = annb_join_duplicates(&files, p->options.memory / 2, &n, example, err);
  annb_join_close(&files);
  if (!s && n)
    annb_join_note(&p->join, "%llu names of cells occur more than once ('%s' is one): they are kept as they are", (unsigned long long)n,
                   example);
  p->result.n_vars = draft->store.n_vars;
  p->result.n_parts = draft->n_parts;
  return s;
}

static annb_status publish(pack *p, annb_error *err) {
  annb_status s = report(p, "committing", err);
  if (s) return s;
  annb_txn *txn = p->txn;
  p->txn = NULL;
  return annb_txn_commit(txn, &p->result.generation, err);
}

static annb_status run(pack *p, annb_error *err) {
  annb_status s = ANNB_OK;
  annb_txn_mode mode = p->append ? ANNB_TXN_APPEND : p->options.force ? ANNB_TXN_REPLACE : ANNB_TXN_CREATE;
  p->join = (annb_join){.how = p->options.join,
                        .key = p->options.join_key,
                        .allow_duplicates = p->options.allow_duplicate_genes,
                        .note = p->options.note,
                        .user = p->options.user,
                        .labels = p->inputs,
                        .n_labels = (uint32_t)p->n_inputs,
                        .store = p->output};
  p->columns = malloc((p->n_inputs + 1) * sizeof *p->columns);
  p->seen = calloc(p->n_inputs + 1, sizeof *p->seen);
  if (!p->columns || !p->seen) return annb_fail_memory(err);
  for (size_t i = 0; i < p->n_inputs; i++) p->columns[i] = ANNB_NONE;
  for (size_t i = 0; i < p->n_inputs && !s; i++) s = check_path(p, p->inputs[i], err);
  if (!s && p->n_inputs == 1 && !p->append) s = check_input(p, err);
  if (!s) s = annb_txn_begin(p->output, mode, &p->txn, err);
  if (!s && (p->several || p->options.join_key)) s = look_at_all(p, err); /* of one file: has it the column? */
  if (!s && p->several) annb_txn_set_build(p->txn, build, p);
  for (size_t i = 0; i < p->n_inputs && !s; i++) s = pack_part(p, i, err);
  return s ? s : publish(p, err);
}

annb_status annb_pack_files(const char *const *inputs, size_t n, const char *output, bool append, const annb_pack_options *options,
                            annb_pack_result *result, annb_error *err) {
  pack p = {.inputs = inputs, .n_inputs = n, .output = output, .append = append, .several = append || n > 1,
            .result = {.n_parts = 1}};
  annb_h5_quiet quiet = annb_h5_quiet_begin();
  annb_status s = read_options(&p, options, err);
  if (!s) s = run(&p, err);
  annb_txn_abort(p.txn);
  annb_h5_quiet_end(quiet);
  annb_manifest_free(&p.shapes);
  for (char **name = p.names; name && *name; name++) free(*name);
  free(p.names);
  free(p.columns);
  free(p.seen);
  if (result) *result = p.result;
  return s;
}
