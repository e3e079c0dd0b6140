#include "columns.h"
#include "rows/ahead.h"
#include "rows/order_log.h"
#include "sidecar/sidecar.h"
#include "source/source.h"

#include "../store/error.h"
#include "../store/hash.h"
#include "../store/txn.h"

#include <annblock/convert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_MEMORY (UINT64_C(512) << 20)
#define LEAST_MEMORY (UINT64_C(32) << 20)

typedef struct pack {
  const char *input, *output;
  annb_pack_options options;
  struct stat before; /* of the input */
  annb_source source;
  annb_source_matrix x;
  annb_txn *txn;
  annb_matrix_writer *writer;
  annb_orders orders;
  annb_order_log *log; /* of a CSR source */
  uint32_t columns, sidecar, restore;
  bool keep_indices;
} pack;

/* ---- before anything is written ---- */

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
static annb_status check_paths(pack *p, annb_error *err) {
  if (stat(p->input, &p->before)) return annb_fail_errno(err, p->input, "open");
  char *path = strdup(p->output);
  if (!path) return annb_fail_memory(err);
  annb_status s = ANNB_OK;
  for (char *end = path + strlen(path); end && *path && !s; end = strrchr(path, '/')) {
    struct stat st;
    *end = 0;
    if (*path && stat(path, &st) == 0 && st.st_dev == p->before.st_dev && st.st_ino == p->before.st_ino)
      s = annb_fail(err, ANNB_EINVAL, p->output, "is the input file or lies inside it: choose another place for the store");
  }
  free(path);
  return s;
}

static annb_status check_unchanged(const pack *p, annb_error *err) {
  struct stat now;
  if (stat(p->input, &now)) return annb_fail_errno(err, p->input, "examine");
  if (now.st_dev == p->before.st_dev && now.st_ino == p->before.st_ino && now.st_size == p->before.st_size &&
      now.st_mtim.tv_sec == p->before.st_mtim.tv_sec && now.st_mtim.tv_nsec == p->before.st_mtim.tv_nsec)
    return ANNB_OK;
  return annb_fail(err, ANNB_EINPUT, p->input, "changed while it was read: pack it again when its writer is done");
}

static annb_status report(const pack *p, const char *stage, uint64_t done, uint64_t total, annb_error *err) {
  if (!p->options.progress || p->options.progress(p->options.user, stage, done, total)) return ANNB_OK;
  return annb_fail(err, ANNB_ECANCELED, p->input, "packing was cancelled");
}

/* ---- the matrix ---- */

/* SPEC.md 3.1: binds segments to the part's columns and to the matrix. */
static annb_status make_tag(const pack *p, const char *name, uint8_t tag[16], annb_error *err) {
  uint8_t columns[ANNB_SHA256_SIZE], sum[ANNB_SHA256_SIZE];
  annb_status s = annb_txn_object_sha256(p->txn, p->columns, columns, err);
  if (s) return s;
  annb_sha256 sha;
  annb_sha256_init(&sha);
  annb_sha256_update(&sha, columns, sizeof columns);
  annb_sha256_update(&sha, name, strlen(name));
  annb_sha256_final(&sha, sum);
  memcpy(tag, sum, 16);
  return ANNB_OK;
}

static annb_status find_orders(pack *p, annb_error *err) {
  annb_status s = report(p, "looking at X", 0, 0, err);
  if (!s) s = annb_orders_find(&p->x, p->options.gene_order == ANNB_GENE_ORDER_DETECTED, &p->orders, err);
  return s || p->x.form != ANNB_CSR ? s : annb_order_log_open(p->orders.rank, annb_txn_tmp_dir(p->txn), &p->log, err);
}

static annb_status write_gene_order(pack *p, uint32_t *object, annb_error *err) {
  annb_arrays_writer *arrays;
  uint32_t array;
  annb_status s = annb_arrays_writer_open(p->txn, &arrays, err);
  if (s) return s;
  s = annb_arrays_begin(arrays, "gene_order", ANNB_U32, 1, &array, err);
  if (!s) s = annb_arrays_append(arrays, p->orders.genes, p->x.n_cols, err);
  if (!s) s = annb_arrays_end(arrays, err);
  if (!s) return annb_arrays_writer_close(arrays, object, err);
  annb_arrays_writer_abort(arrays);
  return s;
}

static annb_status open_writer(pack *p, annb_error *err) {
  annb_matrix_writer_options o = {.n_cols = p->x.n_cols,
                                  .dtype = p->x.dtype,
                                  .form = p->x.form,
                                  .expected_rows = p->x.n_rows,
                                  .segment_rows = p->options.segment_rows,
                                  .n_threads = p->options.n_threads,
                                  .codecs = p->options.codecs,
                                  .sort = true,
                                  .gene_order = p->orders.genes};
  annb_status s = annb_rows_expected(&p->x, &o.expected_nnz, err);
  if (!s) s = make_tag(p, "X", o.tag, err);
  if (!s && p->orders.genes) s = write_gene_order(p, &o.gene_order_object, err);
  return s ? s : annb_matrix_writer_open(p->txn, &o, &p->writer, err);
}

static annb_status log_order(void *log, const annb_rows_chunk *chunk, annb_error *err) { return annb_order_log_add(log, chunk, err); }

static annb_status write_rows(pack *p, annb_error *err) {
  annb_ahead *rows;
  annb_rows_chunk chunk = {.n_rows = 1};
  annb_rows_options options = {p->options.memory / 4 * 3, annb_txn_tmp_dir(p->txn), p->options.progress, p->options.user,
                               p->x.form == ANNB_CSC ? p->orders.rank : NULL, p->options.n_threads};
  annb_status s = annb_ahead_open(&p->x, &options, p->log ? log_order : NULL, p->log, &rows, err);
  if (s) return s;
  for (uint64_t done = 0; !s && chunk.n_rows;) {
    s = annb_ahead_next(rows, &chunk, err);
    if (!s && chunk.n_rows) s = annb_matrix_writer_append(p->writer, chunk.n_rows, chunk.indptr, chunk.indices, chunk.values, err);
    done += chunk.n_rows;
    if (!s) s = report(p, "packing X", done, p->x.n_rows, err);
  }
  if (!s) p->keep_indices = annb_ahead_unordered(rows);
  annb_ahead_close(rows);
  return s;
}

/* ---- the source's order ---- */

static annb_status append_as_u64(annb_arrays_writer *arrays, const uint32_t *values, uint64_t n, annb_error *err) {
  uint64_t piece[512];
  annb_status s = ANNB_OK;
  for (uint64_t i = 0, k = 0; i < n && !s; i += k) {
    for (k = 0; k < 512 && i + k < n; k++) piece[k] = values[i + k];
    s = annb_arrays_append(arrays, piece, k, err);
  }
  return s;
}

static annb_status write_source_array(const pack *p, annb_arrays_writer *arrays, annb_error *err) {
  const annb_orders *o = &p->orders;
  bool rows = p->x.form == ANNB_CSC;
  uint32_t array;
  annb_status s = annb_arrays_begin(arrays, "source_order", rows ? ANNB_U64 : ANNB_U32, 1, &array, err);
  if (!s) s = rows ? append_as_u64(arrays, o->source, o->n_source, err) : annb_arrays_append(arrays, o->source, o->n_source, err);
  return s ? s : annb_arrays_end(arrays, err);
}

/* Nothing when the source's elements ascend by number, or (CSC) when its indices are kept. */
static annb_status write_source_order(pack *p, annb_error *err) {
  annb_arrays_writer *arrays;
  uint32_t object;
  bool source = p->orders.source && !p->keep_indices, entries = p->log && annb_order_log_entries(p->log);
  if (!source && !entries) return ANNB_OK;
  annb_status s = annb_arrays_writer_open(p->txn, &arrays, err);
  if (s) return s;
  if (source) s = write_source_array(p, arrays, err);
  if (!s && entries) s = annb_order_log_write(p->log, arrays, err);
  if (s) annb_arrays_writer_abort(arrays);
  else s = annb_arrays_writer_close(arrays, &object, err);
  return s ? s : annb_matrix_writer_set_source_order(p->writer, object, err);
}

/* ---- what is not the matrix ---- */

static annb_status write_sidecar(pack *p, annb_error *err) {
  const annb_packed packed = {p->x.path, p->x.nnz, p->keep_indices, p->x.float_pointers};
  const annb_going going = {p->options.progress, p->options.user, "writing the sidecar", p->input, "packing"};
  const char *sidecar, *restore;
  annb_source_matrix_close_values(&p->x); /* the copier opens them with its own settings */
  annb_status s = report(p, "writing the sidecar", 0, 0, err);
  if (!s) s = annb_txn_temp_path(p->txn, &sidecar, err);
  if (!s) s = annb_txn_temp_path(p->txn, &restore, err);
  if (!s) s = annb_sidecar_write(p->source.file, p->input, &packed, 1, sidecar, restore, &going, err);
  if (!s) s = annb_txn_add_file(p->txn, sidecar, ANNB_OBJECT_SIDECAR, &p->sidecar, err);
  if (!s) s = annb_txn_add_file(p->txn, restore, ANNB_OBJECT_RESTORE, &p->restore, err);
  return s;
}

static annb_status publish(pack *p, annb_pack_result *result, annb_error *err) {
  const annb_matrix_spec matrix = {"X", p->x.n_cols, ANNB_OBS_VAR, p->x.dtype, ANNB_ABSENT_NEVER};
  const annb_part_spec part = {p->x.n_rows, p->x.n_cols, p->columns, p->sidecar, p->restore};
  uint32_t matrix_row, part_row;
  annb_status s = annb_txn_add_matrix(p->txn, &matrix, &matrix_row, err);
  if (!s) s = annb_txn_add_part(p->txn, &part, &part_row, err);
  if (s) return s;
  annb_matrix_writer *writer = p->writer;
  p->writer = NULL; /* freed in any case */
  s = annb_matrix_writer_close(writer, part_row, matrix_row, &result->nnz, err);
  if (!s) s = check_unchanged(p, err);
  if (!s) s = report(p, "committing", 0, 0, err);
  if (s) return s;
  annb_txn *txn = p->txn;
  p->txn = NULL;
  return annb_txn_commit(txn, &result->generation, err);
}

static annb_status run(pack *p, annb_pack_result *result, annb_error *err) {
  annb_status s = check_paths(p, err);
  if (!s) s = annb_source_open(&p->source, p->input, p->options.memory, err);
  if (!s) s = annb_source_matrix_open(&p->x, &p->source, "X", err);
  if (!s) s = annb_txn_begin(p->output, p->options.force ? ANNB_TXN_REPLACE : ANNB_TXN_CREATE, &p->txn, err);
  if (!s) s = annb_columns_write(&p->source, p->txn, p->options.progress, p->options.user, &p->columns, err);
  if (!s) s = find_orders(p, err);
  if (!s) s = open_writer(p, err);
  if (!s) s = write_rows(p, err);
  if (!s) s = write_source_order(p, err);
  if (!s) s = write_sidecar(p, err);
  if (!s) s = publish(p, result, err);
  result->n_obs = p->x.n_rows;
  result->n_vars = p->x.n_cols;
  if (p->writer) annb_matrix_writer_abort(p->writer);
  annb_txn_abort(p->txn);
  annb_order_log_close(p->log);
  annb_orders_free(&p->orders);
  annb_source_matrix_close(&p->x);
  annb_source_close(&p->source);
  return s;
}

annb_status annb_pack(const char *input, const char *output, const annb_pack_options *options, annb_pack_result *result, annb_error *err) {
  if (!input || !*input || !output || !*output)
    return annb_fail(err, ANNB_EINVAL, NULL, "packing needs the path of an input and of an output");
  annb_pack_result ignored = {0};
  pack p = {.input = input,
            .output = output,
            .source = {.file = -1, .obs = {.object = -1}, .var = {.object = -1}},
            .x = {.memory_type = -1, .data = ANNB_VALUES_NONE, .indices = ANNB_VALUES_NONE, .indptr = ANNB_VALUES_NONE}};
  annb_h5_quiet quiet = annb_h5_quiet_begin();
  annb_status s = read_options(&p, options, err);
  if (!s) s = run(&p, result ? result : &ignored, err);
  annb_h5_quiet_end(quiet);
  return s;
}
