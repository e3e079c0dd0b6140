#include "matrix.h"

#include "../rows/order_log.h"

#include "../../store/error.h"
#include "../../store/hash.h"
#include "../../store/commit/matrix_writer.h"
#include "../../store/commit/txn.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_ELEMENTS = 1 << 15 /* with the records made of them they stay in a core's cache */ };

typedef struct packing {
  annb_pack_matrix *m;
  annb_txn *txn;
  const annb_pack_options *options;
  uint32_t columns;
  const annb_shuffle *shuffle;
  annb_orders orders;
  annb_order_log *log; /* of a CSR source */
} packing;

annb_status annb_pack_matrix_open(annb_pack_matrix *m, const annb_source *source, const char *name, annb_error *err) {
  *m = (annb_pack_matrix){.from = ANNB_SOURCE_MATRIX_NONE, .name = strdup(name)};
  m->axes = !strcmp(name, "raw/X") ? ANNB_OBS_RAW_VAR : !strncmp(name, "obsm/", 5) ? ANNB_OBS_FREE : ANNB_OBS_VAR;
  if (!m->name) return annb_fail_memory(err);
  return annb_source_matrix_open(&m->from, source, name, err);
}

static annb_status report(const packing *p, const char *what, uint64_t done, uint64_t total, annb_error *err) {
  char stage[80];
  snprintf(stage, sizeof stage, "%s %.50s", what, p->m->name);
  if (!p->options->progress || p->options->progress(p->options->user, stage, done, total)) return ANNB_OK;
  return annb_fail(err, ANNB_ECANCELED, p->m->from.file, "packing was cancelled");
}

/* ---- orders ---- */

static annb_status find_orders(packing *p, annb_error *err) {
  const annb_source_matrix *from = &p->m->from;
  const bool csr = from->form == ANNB_CSR;
  annb_status s = report(p, "looking at", 0, 0, err);
  if (csr) annb_values_set_threads(&from->indices, p->options->n_threads);
  if (csr && !p->shuffle) annb_values_save(&from->indices, true); /* rows will pass by the same chunks */
  if (!s) s = annb_orders_find(from, p->options->gene_order == ANNB_GENE_ORDER_DETECTED, &p->orders, err);
  if (csr) annb_values_save(&from->indices, false);
  return s || !csr ? s : annb_order_log_open(p->orders.rank, annb_txn_tmp_dir(p->txn), &p->log, err);
}

static annb_status write_gene_order(packing *p, uint32_t *object, annb_error *err) {
  annb_arrays_writer *arrays;
  uint32_t array;
  annb_status s = annb_arrays_writer_open(p->txn, &arrays, err);
  if (s) return s;
  s = annb_arrays_begin(arrays, "gene_order", ANNB_U32, 1, &array, err);
  if (!s) s = annb_arrays_append(arrays, p->orders.genes, p->m->from.n_cols, err);
  if (!s) s = annb_arrays_end(arrays, err);
  if (!s) return annb_arrays_writer_close(arrays, object, err);
  annb_arrays_writer_abort(arrays);
  return s;
}

static annb_status append_as_u64(annb_arrays_writer *arrays, const uint32_t *values, uint64_t n, annb_error *err) {
  uint64_t piece[512];
  annb_status s = ANNB_OK;
  for (uint64_t i = 0, k = 0; i < n && !s; i += k) {
    for (k = 0; k < 512 && i + k < n; k++) piece[k] = values[i + k];
    s = annb_arrays_append(arrays, piece, k, err);
  }
  return s;
}

static annb_status write_source_array(const packing *p, annb_arrays_writer *arrays, annb_error *err) {
  const annb_orders *o = &p->orders;
  bool rows = p->m->from.form == ANNB_CSC;
  uint32_t array;
  annb_status s = annb_arrays_begin(arrays, "source_order", rows ? ANNB_U64 : ANNB_U32, 1, &array, err);
  if (!s) s = rows ? append_as_u64(arrays, o->source, o->n_source, err) : annb_arrays_append(arrays, o->source, o->n_source, err);
  return s ? s : annb_arrays_end(arrays, err);
}

/* Nothing when the source's elements ascend by number, or (CSC) when its indices are kept. */
static annb_status write_source_order(packing *p, annb_error *err) {
  annb_arrays_writer *arrays;
  uint32_t object;
  bool source = p->orders.source && !p->m->keep_indices, entries = p->log && annb_order_log_entries(p->log);
  if (!source && !entries) return ANNB_OK;
  annb_status s = annb_arrays_writer_open(p->txn, &arrays, err);
  if (s) return s;
  if (source) s = write_source_array(p, arrays, err);
  if (!s && entries) s = annb_order_log_write(p->log, arrays, err);
  if (s) annb_arrays_writer_abort(arrays);
  else s = annb_arrays_writer_close(arrays, &object, err);
  return s ? s : annb_matrix_writer_set_source_order(p->m->writer, object, err);
}

/* ---- rows ---- */

/* SPEC.md 3.1: binds segments to the part's columns and to the matrix. */
static annb_status make_tag(const packing *p, uint8_t tag[16], annb_error *err) {
  uint8_t columns[ANNB_SHA256_SIZE], sum[ANNB_SHA256_SIZE];
  annb_status s = annb_txn_object_sha256(p->txn, p->columns, columns, err);
  if (s) return s;
  annb_sha256 sha;
  annb_sha256_init(&sha);
  annb_sha256_update(&sha, columns, sizeof columns);
  annb_sha256_update(&sha, p->m->name, strlen(p->m->name));
  annb_sha256_final(&sha, sum);
  memcpy(tag, sum, 16);
  return ANNB_OK;
}

static annb_status open_writer(packing *p, annb_error *err) {
  const annb_source_matrix *from = &p->m->from;
  annb_matrix_writer_options o = {.n_cols = from->n_cols,
                                  .dtype = from->dtype,
                                  .form = from->form,
                                  .expected_rows = from->n_rows,
                                  .segment_rows = p->options->segment_rows,
                                  .n_threads = p->options->n_threads,
                                  .codecs = p->options->codecs,
                                  .sort = true,
                                  .gene_order = p->orders.genes};
  annb_status s = annb_rows_expected(from, &o.expected_nnz, err);
  if (!s) s = make_tag(p, o.tag, err);
  if (!s && p->orders.genes) s = write_gene_order(p, &o.gene_order_object, err);
  return s ? s : annb_matrix_writer_open(p->txn, &o, &p->m->writer, err);
}

/* One piece under way. */
typedef struct slot {
  annb_rows_piece piece;
  annb_order_entries entries;
} slot;

typedef struct feeding {
  packing *p;
  annb_rows *rows;
  uint64_t elements, most; /* of a piece; bytes of all that are under way, one piece aside */
  uint32_t n_slots, n_workers;
  slot *slots;
  annb_order_maker *makers;
  _Atomic uint64_t bytes, n_rows; /* under way; written */
} feeding;

static annb_status take_rows(void *user, uint32_t number, annb_take *taken, annb_error *err) {
  feeding *f = user;
  annb_rows_piece *piece = &f->slots[number].piece;
  if (atomic_load(&f->bytes) > f->most) {
    *taken = ANNB_LATER;
    return ANNB_OK;
  }
  annb_h5_quiet quiet = annb_h5_quiet_begin(); /* HDF5 may keep that for each thread */
  annb_status s = annb_rows_take(f->rows, f->elements, piece, err);
  annb_h5_quiet_end(quiet);
  *taken = s || piece->n_rows ? ANNB_TAKEN : piece->later ? ANNB_LATER : ANNB_END;
  if (!s && piece->n_rows) atomic_fetch_add(&f->bytes, piece->bytes);
  return s;
}

static annb_status fill_rows(void *user, uint32_t worker, uint32_t number, annb_row_piece *rows, annb_error *err) {
  feeding *f = user;
  slot *sl = &f->slots[number];
  annb_rows_chunk chunk;
  annb_status s = annb_rows_fill(f->rows, worker, &sl->piece, &chunk, err);
  if (!s && f->p->log) s = annb_order_log_look(f->p->log, &f->makers[worker], &chunk, &sl->entries, err);
  *rows = (annb_row_piece){chunk.n_rows, chunk.indptr, chunk.indices, chunk.values};
  return s;
}

static annb_status finish_rows(void *user, uint32_t number, annb_error *err) {
  feeding *f = user;
  slot *sl = &f->slots[number];
  annb_status s = f->p->log ? annb_order_log_add(f->p->log, &sl->entries, err) : ANNB_OK;
  atomic_fetch_add(&f->n_rows, sl->piece.n_rows);
  atomic_fetch_sub(&f->bytes, sl->piece.bytes);
  annb_rows_piece_trim(&sl->piece, f->most / f->n_slots);
  return s;
}

static annb_status watch_rows(void *user, annb_error *err) {
  feeding *f = user;
  return report(f->p, "packing", atomic_load(&f->n_rows), f->p->m->from.n_rows, err);
}

/* As many pieces as a sixteenth of the memory holds as they are in the source: decompressed and encoded they take as much again. */
static annb_status open_feeding(feeding *f, annb_error *err) {
  const packing *p = f->p;
  const uint64_t fit = p->options->memory / 16 / (PIECE_ELEMENTS * 2 * sizeof(uint64_t));
  f->n_workers = p->options->n_threads;
  f->n_slots = fit < 4 * (uint64_t)f->n_workers + 4 ? (uint32_t)fit : 4 * f->n_workers + 4;
  f->elements = PIECE_ELEMENTS;
  f->most = p->options->memory / 8;
  f->slots = calloc(f->n_slots, sizeof *f->slots);
  f->makers = calloc(f->n_workers, sizeof *f->makers);
  return f->slots && f->makers ? ANNB_OK : annb_fail_memory(err);
}

static void close_feeding(feeding *f) {
  annb_rows_close(f->rows);
  for (uint32_t i = 0; f->slots && i < f->n_slots; i++) {
    annb_rows_piece_free(&f->slots[i].piece);
    annb_order_entries_free(&f->slots[i].entries);
  }
  for (uint32_t i = 0; f->makers && i < f->n_workers; i++) annb_order_maker_free(&f->makers[i]);
  free(f->slots);
  free(f->makers);
}

static annb_status write_rows(packing *p, annb_error *err) {
  const annb_source_matrix *from = &p->m->from;
  feeding f = {.p = p};
  annb_rows_options options = {p->options->memory / 4 * 3, annb_txn_tmp_dir(p->txn), p->options->progress, p->options->user,
                               from->form == ANNB_CSC ? p->orders.rank : NULL, p->options->n_threads, p->shuffle};
  annb_status s = open_feeding(&f, err);
  if (!s) s = annb_rows_open(from, &options, &f.rows, err);
  if (!s) s = annb_rows_prepare(f.rows, err);
  const annb_row_feed feed = {&f, f.n_slots, take_rows, fill_rows, finish_rows, watch_rows};
  if (!s) s = annb_matrix_writer_stream(p->m->writer, &feed, err);
  if (!s) s = report(p, "packing", from->n_rows, from->n_rows, err);
  if (!s) p->m->keep_indices = annb_rows_unordered(f.rows);
  close_feeding(&f);
  return s;
}

annb_status annb_pack_matrix_write(annb_pack_matrix *m, const annb_source *source, annb_txn *txn, uint32_t columns,
                                   const annb_pack_options *options, const annb_shuffle *shuffle, annb_error *err) {
  packing p = {.m = m, .txn = txn, .options = options, .columns = columns, .shuffle = shuffle};
  annb_source_matrix_close(&m->from);
  annb_status s = annb_source_matrix_open(&m->from, source, m->name, err);
  if (!s) s = find_orders(&p, err);
  if (!s) s = open_writer(&p, err);
  if (!s) s = write_rows(&p, err);
  if (!s) s = write_source_order(&p, err);
  if (!s) s = annb_matrix_writer_finish(m->writer, err);
  annb_order_log_close(p.log);
  annb_orders_free(&p.orders);
  annb_source_matrix_close_values(&m->from); /* the sidecar's copier opens them with its own settings */
  return s;
}

annb_status annb_pack_matrix_attach(annb_pack_matrix *m, uint32_t part, uint32_t matrix, uint64_t *nnz, annb_error *err) {
  annb_matrix_writer *writer = m->writer;
  m->writer = NULL; /* freed in any case */
  return annb_matrix_writer_close(writer, part, matrix, nnz, err);
}

void annb_pack_matrix_close(annb_pack_matrix *m) {
  if (m->writer) annb_matrix_writer_abort(m->writer);
  if (m->name) annb_source_matrix_close(&m->from);
  free(m->name);
  *m = (annb_pack_matrix){.from = ANNB_SOURCE_MATRIX_NONE};
}
