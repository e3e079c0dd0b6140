/* One matrix of one part as a list of segments. Where a segment ends depends on the rows alone, not on how they are given. */
#include "matrix_writer.h"

#include "../codec/codec_kinds.h"
#include "../cursor.h"
#include "../error.h"
#include "../objects/segment.h"
#include "txn.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT_BYTES (UINT64_C(2) << 30)

/* Counts take about 5 bits an element; a block is then 180 to 360 KiB, so that its padding is below 2 %. */
enum { MAX_THREADS = 256, MOST_SLOTS = 64, PIECE_ROWS = 4096, PIECE_ELEMENTS = 1 << 15, KEPT_BYTES = 1 << 20 };
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
  annb_encoder *encoders;       /* one per thread */
  uint8_t gene_order[ANNB_SHA256_SIZE];
  uint32_t source_order;        /* object or ANNB_NONE */
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
                                .codecs = o->codecs,
                                .sorted = o->sort,
                                .mapped = w->to_stored != NULL};
  memcpy(params.tag, o->tag, sizeof params.tag);
  memcpy(params.gene_order, w->gene_order, sizeof params.gene_order);
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

/* How many rows may follow before the segment could be full. */
static uint64_t rows_to_boundary(const annb_matrix_writer *w) {
  const uint64_t rows = annb_segment_writer_rows(w->segment);
  return w->options.segment_rows ? w->options.segment_rows - rows : w->options.block_rows - rows % w->options.block_rows;
}

/* The next rows, into as many segments as they need. */
static annb_status put(annb_matrix_writer *w, const annb_records *records, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint64_t done = 0, n; done < records->n_rows && !s; done += n) {
    if (!w->segment) s = open_segment(w, err);
    if (s) break;
    n = rows_to_boundary(w);
    if (n > records->n_rows - done) n = records->n_rows - done;
    s = annb_segment_writer_put(w->segment, records, done, n, err);
    if (!s && segment_full(w)) s = close_segment(w, err);
  }
  return s;
}

/* ---- a stream of rows ---- */

typedef struct stream_slot {
  annb_records records;
  annb_status status;
  annb_error error;
} stream_slot;

typedef struct stream {
  annb_matrix_writer *writer;
  const annb_row_feed *feed;
  annb_encode_rule rule;
  stream_slot *slots;
  bool failed; /* taking did: nothing follows */
  annb_status status, watch_status;
  annb_error error, watch_error;
} stream;

/* A failure is an item too, so that it is told in its turn. */
static annb_take take_rows(void *user, uint32_t number) {
  stream *st = user;
  stream_slot *slot = &st->slots[number];
  annb_take taken = ANNB_END;
  if (st->failed) return ANNB_END;
  slot->status = st->feed->take(st->feed->user, number, &taken, &slot->error);
  st->failed = slot->status != ANNB_OK;
  return st->failed ? ANNB_TAKEN : taken;
}

static void encode_rows(void *user, uint32_t worker, uint32_t number) {
  stream *st = user;
  stream_slot *slot = &st->slots[number];
  annb_row_piece rows;
  if (slot->status) return;
  slot->status = st->feed->fill(st->feed->user, worker, number, &rows, &slot->error);
  if (slot->status) return;
  if (!annb_encode_rows(&st->rule, &st->writer->encoders[worker], rows.n_rows, rows.indptr, rows.indices, rows.values, &slot->records))
    slot->status = annb_fail_memory(&slot->error);
}

static bool give_rows(void *user, uint32_t number) {
  stream *st = user;
  stream_slot *slot = &st->slots[number];
  st->status = slot->status;
  if (slot->status) st->error = slot->error;
  else st->status = put(st->writer, &slot->records, &st->error);
  if (!st->status && st->feed->done) st->status = st->feed->done(st->feed->user, number, &st->error);
  if (slot->records.bytes_room > KEPT_BYTES) annb_records_free(&slot->records);
  return !st->status;
}

static bool watch_rows(void *user, uint64_t given) {
  stream *st = user;
  (void)given;
  st->watch_status = st->feed->watch(st->feed->user, &st->watch_error);
  return !st->watch_status;
}

static annb_status run_stream(stream *st, uint32_t n_threads, annb_error *err) {
  const annb_pipeline pipeline = {n_threads, st->feed->n_slots, st, take_rows, encode_rows, give_rows, st->feed->watch ? watch_rows : NULL};
  annb_pipeline_run(&pipeline);
  if (st->status && err) *err = st->error;
  if (!st->status && st->watch_status && err) *err = st->watch_error;
  return st->status ? st->status : st->watch_status;
}

static annb_status stream_rows(annb_matrix_writer *w, const annb_row_feed *feed, uint32_t n_threads, annb_error *err) {
  const annb_matrix_writer_options *o = &w->options;
  stream st = {.writer = w, .feed = feed, .rule = {o->n_cols, o->codecs, o->dtype, o->sort, w->to_stored}};
  st.slots = calloc(feed->n_slots, sizeof *st.slots);
  annb_status s = st.slots ? run_stream(&st, n_threads, err) : annb_fail_memory(err);
  for (uint32_t i = 0; st.slots && i < feed->n_slots; i++) annb_records_free(&st.slots[i].records);
  free(st.slots);
  return s;
}

/* ---- rows that a caller has ---- */

/* The part row of row `i` of the caller's. */
#define BAD_ROW(i, format, value)                                                                                                          \
  annb_fail_row(err, ANNB_EINVAL, NULL, (int64_t)part_row(w, i), "row %llu " format, (unsigned long long)part_row(w, i),                   \
                (unsigned long long)(value), (unsigned long long)w->options.n_cols)

static uint64_t part_row(const annb_matrix_writer *w, uint64_t i) {
  return w->n_rows + (w->segment ? annb_segment_writer_rows(w->segment) : 0) + i;
}

static annb_status check_row(const annb_matrix_writer *w, uint64_t i, const uint32_t *indices, uint64_t nnz, annb_error *err) {
  if (nnz > ANNB_MAX_ROW_NNZ) return BAD_ROW(i, "has %llu elements in %llu columns, more than the format allows", nnz);
  if (annb_indices_below(indices, (size_t)nnz, w->options.n_cols)) return ANNB_OK;
  uint64_t k = 0;
  while (indices[k] < w->options.n_cols) k++;
  return BAD_ROW(i, "has column index %llu, but the matrix has %llu columns", indices[k]);
}

static annb_status check_rows(const annb_matrix_writer *w, uint64_t n_rows, const uint64_t *indptr, const uint32_t *indices,
                              annb_error *err) {
  const uint64_t have_nnz = w->nnz + (w->segment ? annb_segment_writer_nnz(w->segment) : 0);
  if (n_rows > ANNB_MAX_ROWS - part_row(w, 0))
    return annb_fail(err, ANNB_EINVAL, NULL, "%llu more rows pass the limit of rows of a store", (unsigned long long)n_rows);
  for (uint64_t i = 0; i < n_rows; i++) {
    if (indptr[i + 1] < indptr[i]) return BAD_ROW(i, "ends at element %llu, before it starts (the matrix has %llu columns)", indptr[i + 1]);
    uint64_t row_nnz = indptr[i + 1] - indptr[i];
    annb_status s = check_row(w, i, row_nnz ? indices + (indptr[i] - indptr[0]) : NULL, row_nnz, err);
    if (s) return s;
  }
  uint64_t nnz = n_rows ? indptr[n_rows] - indptr[0] : 0;
  if (nnz > ANNB_MAX_NNZ - have_nnz)
    return annb_fail(err, ANNB_EINVAL, NULL, "%llu more elements pass the limit of a matrix", (unsigned long long)nnz);
  return ANNB_OK;
}

typedef struct given {
  uint64_t n_rows, next, value_size;
  const uint64_t *indptr;
  const uint32_t *indices;
  const uint8_t *values;
  annb_row_piece *pieces;
} given;

static annb_status take_given(void *user, uint32_t slot, annb_take *taken, annb_error *err) {
  given *g = user;
  uint64_t end = g->next + 1;
  (void)err;
  *taken = g->next < g->n_rows ? ANNB_TAKEN : ANNB_END;
  if (*taken == ANNB_END) return ANNB_OK;
  while (end < g->n_rows && end - g->next < PIECE_ROWS && g->indptr[end + 1] - g->indptr[g->next] <= PIECE_ELEMENTS) end++;
  const uint64_t from = g->indptr[g->next] - g->indptr[0]; /* indices and values may be NULL when there are no elements */
  g->pieces[slot] = (annb_row_piece){end - g->next, g->indptr + g->next, from ? g->indices + from : g->indices,
                                     from ? g->values + from * g->value_size : g->values};
  g->next = end;
  return ANNB_OK;
}

static annb_status fill_given(void *user, uint32_t worker, uint32_t slot, annb_row_piece *rows, annb_error *err) {
  const given *g = user;
  (void)worker;
  (void)err;
  *rows = g->pieces[slot];
  return ANNB_OK;
}

static annb_status append(annb_matrix_writer *w, uint64_t n_rows, const uint64_t *indptr, const uint32_t *indices, const uint8_t *values,
                          annb_error *err) {
  annb_row_piece pieces[MOST_SLOTS];
  given g = {n_rows, 0, annb_dtype_size(w->options.dtype), indptr, indices, values, pieces};
  uint32_t most = 2 * w->options.n_threads + 2, n_threads = w->options.n_threads;
  annb_status s = check_rows(w, n_rows, indptr, indices, err);
  if (s || n_rows == 0) return s;
  if (indptr[n_rows] - indptr[0] < PIECE_ELEMENTS && n_rows <= PIECE_ROWS) most = n_threads = 1; /* one piece */
  const annb_row_feed feed = {.user = &g, .n_slots = most < MOST_SLOTS ? most : MOST_SLOTS, .take = take_given, .fill = fill_given};
  return stream_rows(w, &feed, n_threads, err);
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
  if (!w->options.codecs) w->options.codecs = ANNB_KNOWN_CODECS;
  if (!w->options.n_threads) w->options.n_threads = 1;
  if (w->options.n_threads > MAX_THREADS) w->options.n_threads = MAX_THREADS;
  w->source_order = ANNB_NONE;
  if (!w->options.block_rows) w->options.block_rows = annb_matrix_block_rows(options->expected_rows, options->expected_nnz);
  w->encoders = calloc(w->options.n_threads, sizeof *w->encoders);
  s = w->encoders ? take_gene_order(w, err) : annb_fail_memory(err);
  if (!s) s = open_segment(w, err); /* a matrix without rows has one too */
  if (s) annb_matrix_writer_abort(w);
  else *out = w;
  return s;
}

static annb_status failed_before(annb_error *err) {
  return annb_fail(err, ANNB_EINVAL, NULL, "an earlier append to this matrix failed: start it again");
}

static annb_status may_append(const annb_matrix_writer *writer, annb_error *err) {
  if (writer->failed) return failed_before(err);
  return writer->ended ? annb_fail(err, ANNB_EINVAL, NULL, "the matrix is finished: no rows can be added") : ANNB_OK;
}

annb_status annb_matrix_writer_append(annb_matrix_writer *writer, uint64_t n_rows, const uint64_t *indptr, const uint32_t *indices,
                                      const void *values, annb_error *err) {
  annb_status s = may_append(writer, err);
  if (s) return s;
  s = append(writer, n_rows, indptr, indices, values, err);
  writer->failed = s != ANNB_OK;
  return s;
}

annb_status annb_matrix_writer_stream(annb_matrix_writer *writer, const annb_row_feed *feed, annb_error *err) {
  annb_status s = may_append(writer, err);
  if (s) return s;
  s = stream_rows(writer, feed, writer->options.n_threads, err);
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

static void free_encoders(annb_matrix_writer *w) {
  for (uint32_t i = 0; w->encoders && i < w->options.n_threads; i++) annb_encoder_free(&w->encoders[i]);
  free(w->encoders);
  w->encoders = NULL;
}

annb_status annb_matrix_writer_finish(annb_matrix_writer *writer, annb_error *err) {
  free_encoders(writer);
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
  free_encoders(writer);
  free(writer->finished);
  free(writer->to_stored);
  free(writer);
}
