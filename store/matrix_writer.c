/* One matrix of one part as a list of segments. Where a segment ends depends on the rows alone, not on how they are given. */
#include "matrix_writer.h"

#include "cursor.h"
#include "error.h"
#include "segment.h"
#include "txn.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT_BYTES (UINT64_C(2) << 30)

/* Counts take about 5 bits an element; a block is then 180 to 360 KiB, so that its padding is below 2 %. */
enum { ELEMENT_BITS = 5, BLOCK_BYTES = 360 << 10, MAX_BLOCK_ROWS = 65536, DEFAULT_BLOCK_ROWS = 256 };

/* A finished segment that waits under tmp/: it joins the store when the whole matrix does. */
typedef struct finished {
  const char *path; /* the transaction's */
  annb_segment_result result;
} finished;

struct annb_matrix_writer {
  annb_txn *txn;
  annb_matrix_writer_options options;
  uint64_t segment_bytes;
  annb_segment_writer *segment; /* open, or NULL */
  const char *path;             /* its file */
  uint32_t *to_stored;          /* column → stored id, or NULL */
  uint8_t gene_order[ANNB_SHA256_SIZE];
  uint32_t source_order;        /* object or ANNB_NONE */
  uint64_t open_bound;          /* bytes that its rows short of a block can take at most */
  uint64_t n_rows, nnz;         /* of the finished ones */
  finished *finished;
  uint32_t n_finished;
  bool failed, ended;
};

uint32_t annb_matrix_block_rows(uint64_t rows, uint64_t nnz) {
  if (rows == 0 || nnz == 0) return DEFAULT_BLOCK_ROWS;
  uint64_t bits, most;
  if (!annb_mul(rows, 8 * BLOCK_BYTES, &most)) most = UINT64_MAX;
  uint32_t block_rows = 1;
  /* block_rows · nnz · ELEMENT_BITS / rows bits in a block */
  while (block_rows < MAX_BLOCK_ROWS && annb_mul(nnz, UINT64_C(2) * ELEMENT_BITS * block_rows, &bits) && bits <= most) block_rows *= 2;
  return block_rows;
}

void annb_matrix_writer_set_segment_bytes(annb_matrix_writer *writer, uint64_t bytes) { writer->segment_bytes = bytes; }

/* ---- segments ---- */

static annb_status open_segment(annb_matrix_writer *w, annb_error *err) {
  const annb_matrix_writer_options *o = &w->options;
  annb_segment_params params = {.n_cols = o->n_cols,
                                .row_base = w->n_rows,
                                .dtype = o->dtype,
                                .block_rows = o->block_rows,
                                .n_threads = o->n_threads,
                                .codecs = o->codecs ? o->codecs : ANNB_KNOWN_CODECS,
                                .sort = o->sort,
                                .to_stored = w->to_stored};
  memcpy(params.tag, o->tag, sizeof params.tag);
  memcpy(params.gene_order, w->gene_order, sizeof params.gene_order);
  w->open_bound = 0;
  annb_status s = annb_txn_temp_path(w->txn, &w->path, err);
  return s ? s : annb_segment_writer_open(w->path, annb_txn_tmp_dir(w->txn), &params, &w->segment, err);
}

static annb_status close_segment(annb_matrix_writer *w, annb_error *err) {
  if (w->n_finished >= ANNB_MAX_TABLE)
    return annb_fail(err, ANNB_EINVAL, NULL, "the matrix has more than %llu segments: give more rows to each",
                     (unsigned long long)ANNB_MAX_TABLE);
  finished *more = realloc(w->finished, (w->n_finished + 1) * sizeof *more);
  if (!more) return annb_fail_memory(err);
  w->finished = more;
  finished *f = &w->finished[w->n_finished];
  f->path = w->path;
  annb_status s = annb_segment_writer_close(w->segment, &f->result, err);
  w->segment = NULL;
  if (s) return s;
  w->n_finished++;
  w->n_rows += f->result.n_rows;
  w->nnz += f->result.nnz;
  return ANNB_OK;
}

/* At a block boundary past the limit, or at the number of rows asked for. */
static bool segment_full(const annb_matrix_writer *w) {
  uint64_t rows = annb_segment_writer_rows(w->segment);
  if (w->options.segment_rows) return rows == w->options.segment_rows;
  return rows % w->options.block_rows == 0 && annb_segment_writer_bytes(w->segment) > w->segment_bytes;
}

/* How many of the next rows can be given at once without passing a place where the segment might have to end: up to the first block
 * boundary at which its bytes could exceed the limit. */
static uint64_t rows_to_give(annb_matrix_writer *w, uint64_t n_rows, const uint64_t *indptr) {
  uint64_t rows = annb_segment_writer_rows(w->segment), bytes = annb_segment_writer_bytes(w->segment);
  if (w->options.segment_rows) return n_rows < w->options.segment_rows - rows ? n_rows : w->options.segment_rows - rows;
  for (uint64_t i = 0; i < n_rows; i++) {
    uint64_t nnz = indptr[i + 1] - indptr[i];
    if (nnz > ANNB_MAX_ROW_NNZ) return i + 1; /* append will refuse it */
    w->open_bound += annb_record_bound(&(annb_row_shape){w->options.n_cols, (uint32_t)nnz, w->options.dtype});
    if ((rows + i + 1) % w->options.block_rows) continue;
    bytes += w->open_bound + ANNB_PAGE;
    w->open_bound = 0;
    if (bytes > w->segment_bytes) return i + 1;
  }
  return n_rows;
}

/* ---- public ---- */

static annb_status check_options(const annb_matrix_writer_options *o, annb_error *err) {
  if (!annb_dtype_size(o->dtype)) return annb_fail(err, ANNB_EINVAL, NULL, "value type %d is not known", (int)o->dtype);
  if (o->form != ANNB_CSR && o->form != ANNB_CSC && o->form != ANNB_DENSE)
    return annb_fail(err, ANNB_EINVAL, NULL, "form %d of a matrix is not known", (int)o->form);
  if (o->n_cols > ANNB_MAX_COLS)
    return annb_fail(err, ANNB_EINVAL, NULL, "%llu columns are more than the format allows", (unsigned long long)o->n_cols);
  return ANNB_OK;
}

static annb_status check_arrays(annb_txn *txn, uint32_t object, const char *what, annb_error *err) {
  const annb_manifest *m = annb_txn_manifest(txn);
  if (object < m->n_objects && m->objects[object].kind == ANNB_OBJECT_ARRAYS) return ANNB_OK;
  return annb_fail(err, ANNB_EINVAL, NULL, "a matrix names object %u for its %s, which does not exist or is not of flat arrays", object,
                   what);
}

/* The permutation turned round. */
static annb_status take_gene_order(annb_matrix_writer *w, annb_error *err) {
  const annb_matrix_writer_options *o = &w->options;
  if (!o->gene_order) return ANNB_OK;
  annb_status s = check_arrays(w->txn, o->gene_order_object, "order of genes", err);
  if (s) return s;
  w->to_stored = malloc((o->n_cols + 1) * sizeof *w->to_stored);
  if (!w->to_stored) return annb_fail_memory(err);
  memset(w->to_stored, 0xFF, o->n_cols * sizeof *w->to_stored);
  for (uint64_t i = 0; i < o->n_cols; i++) {
    uint32_t column = o->gene_order[i];
    if (column >= o->n_cols || w->to_stored[column] != UINT32_MAX)
      return annb_fail(err, ANNB_EINVAL, NULL, "the order of genes is no permutation: place %llu has column %u", (unsigned long long)i,
                       column);
    w->to_stored[column] = (uint32_t)i;
  }
  w->options.gene_order = w->to_stored; /* not the caller's any more */
  return annb_txn_object_sha256(w->txn, o->gene_order_object, w->gene_order, err);
}

annb_status annb_matrix_writer_open(annb_txn *txn, const annb_matrix_writer_options *options, annb_matrix_writer **out, annb_error *err) {
  annb_status s = check_options(options, err);
  if (s) return s;
  annb_matrix_writer *w = calloc(1, sizeof *w);
  if (!w) return annb_fail_memory(err);
  w->txn = txn;
  w->options = *options;
  w->segment_bytes = SEGMENT_BYTES;
  w->source_order = ANNB_NONE;
  if (!w->options.block_rows) w->options.block_rows = annb_matrix_block_rows(options->expected_rows, options->expected_nnz);
  s = take_gene_order(w, err);
  if (!s) s = open_segment(w, err); /* a matrix without rows has one too */
  if (s) annb_matrix_writer_abort(w);
  else *out = w;
  return s;
}

static annb_status append(annb_matrix_writer *w, uint64_t n_rows, const uint64_t *indptr, const uint32_t *indices, const uint8_t *values,
                          annb_error *err) {
  annb_status s = ANNB_OK;
  uint64_t size = annb_dtype_size(w->options.dtype);
  for (uint64_t done = 0, n; done < n_rows && !s; done += n) {
    if (!w->segment) s = open_segment(w, err);
    if (s) break;
    uint64_t from = indptr[done] - indptr[0]; /* the rows before were found good, so this is inside */
    n = rows_to_give(w, n_rows - done, indptr + done);
    const uint32_t *at = from ? indices + from : indices; /* both may be NULL when there are no elements */
    s = annb_segment_writer_append(w->segment, n, indptr + done, at, from ? values + from * size : values, err);
    if (!s && segment_full(w)) s = close_segment(w, err);
  }
  return s;
}

static annb_status failed_before(annb_error *err) {
  return annb_fail(err, ANNB_EINVAL, NULL, "an earlier append to this matrix failed: start it again");
}

annb_status annb_matrix_writer_append(annb_matrix_writer *writer, uint64_t n_rows, const uint64_t *indptr, const uint32_t *indices,
                                      const void *values, annb_error *err) {
  if (writer->failed) return failed_before(err);
  if (writer->ended) return annb_fail(err, ANNB_EINVAL, NULL, "the matrix is finished: no rows can be added");
  annb_status s = append(writer, n_rows, indptr, indices, values, err);
  writer->failed = s != ANNB_OK;
  return s;
}

annb_status annb_matrix_writer_set_source_order(annb_matrix_writer *writer, uint32_t object, annb_error *err) {
  annb_status s = check_arrays(writer->txn, object, "source's order", err);
  if (!s) writer->source_order = object;
  return s;
}

static annb_status check_place(const annb_matrix_writer *w, uint32_t part, uint32_t matrix, annb_error *err) {
  const annb_manifest *m = annb_txn_manifest(w->txn);
  if (part >= m->n_parts || matrix >= m->n_matrices)
    return annb_fail(err, ANNB_EINVAL, NULL, "part %u or matrix %u was not added", part, matrix);
  if (part + 1 != m->n_parts)
    return annb_fail(err, ANNB_EINVAL, NULL, "part %u got a part after it: its matrices must be closed before", part);
  for (uint32_t i = m->parts[part].first_matrix; i < m->n_part_matrices; i++)
    if (m->part_matrices[i].matrix == matrix) return annb_fail(err, ANNB_EINVAL, NULL, "part %u has matrix %u already", part, matrix);
  if (w->n_rows != m->parts[part].n_rows)
    return annb_fail(err, ANNB_EINVAL, NULL, "the matrix got %llu rows, its part has %llu", (unsigned long long)w->n_rows,
                     (unsigned long long)m->parts[part].n_rows);
  if (m->matrices[matrix].axes == ANNB_OBS_VAR && w->options.n_cols != m->parts[part].n_vars)
    return annb_fail(err, ANNB_EINVAL, NULL, "the matrix has %llu columns, its part has %llu genes", (unsigned long long)w->options.n_cols,
                     (unsigned long long)m->parts[part].n_vars);
  return ANNB_OK;
}

static annb_status attach(annb_matrix_writer *w, uint32_t matrix, annb_error *err) {
  annb_manifest *m = annb_txn_manifest(w->txn);
  annb_fmt_part_matrix row = {.nnz = w->nnz, .n_cols = w->options.n_cols, .matrix = matrix, .first_segment = m->n_segments};
  row.n_segments = w->n_finished;
  row.gene_order = w->to_stored ? w->options.gene_order_object : ANNB_NONE;
  row.source_order = w->source_order;
  row.flat = ANNB_NONE;
  if (w->source_order != ANNB_NONE) m->export_mask |= ANNB_EXPORT_SOURCE_ORDER;
  row.dtype = (uint8_t)w->options.dtype;
  row.form = (uint8_t)w->options.form;
  annb_status s = ANNB_OK;
  for (uint32_t i = 0; i < w->n_finished && !s; i++) {
    const finished *f = &w->finished[i];
    annb_fmt_segment_ref ref = {.n_rows = f->result.n_rows, .nnz = f->result.nnz};
    s = annb_txn_adopt(w->txn, f->path, &f->result.object, &ref.object, err);
    if (!s) s = annb_manifest_add_segment(m, &ref, err);
  }
  return s ? s : annb_manifest_add_part_matrix(m, &row, err);
}

annb_status annb_matrix_writer_finish(annb_matrix_writer *writer, annb_error *err) {
  if (writer->failed) return failed_before(err);
  annb_status s = writer->segment ? close_segment(writer, err) : ANNB_OK;
  writer->failed = s != ANNB_OK;
  writer->ended = true;
  return s;
}

annb_status annb_matrix_writer_close(annb_matrix_writer *writer, uint32_t part, uint32_t matrix, uint64_t *nnz, annb_error *err) {
  annb_status s = annb_matrix_writer_finish(writer, err);
  if (!s) s = check_place(writer, part, matrix, err);
  if (!s) s = attach(writer, matrix, err);
  if (!s && nnz) *nnz = writer->nnz;
  annb_matrix_writer_abort(writer);
  return s;
}

void annb_matrix_writer_abort(annb_matrix_writer *writer) {
  if (!writer) return;
  annb_segment_writer_abort(writer->segment);
  free(writer->finished);
  free(writer->to_stored);
  free(writer);
}
