/* Matrix writers: segments end where the rows say, blocks have the promised size, and a matrix joins its part whole or not at all. */
#include "suite.h"
#include "temp.h"

#include "../store/error.h"
#include "../store/manifest/manifest.h"
#include "../store/commit/matrix_writer.h"
#include "../store/objects/segment.h"

#include <annblock/annblock.h>

static char *dir, *store;
static annb_error err;

static void setup(void) {
  dir = temp_make();
  store = annb_io_join(dir, "s.annblock");
}

static void teardown(void) {
  temp_remove(dir);
  free(dir);
  free(store);
}

#define OK(call) ck_assert_msg((call) == ANNB_OK, "%s", err.message)

static uint64_t random_state;

static uint64_t next_random(void) {
  uint64_t x = random_state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

/* ---- a matrix and a store of one part ---- */

enum { MAX_ROWS = 2000, MAX_NNZ = 40000 };

static struct {
  uint64_t n_rows, n_cols;
  uint64_t indptr[MAX_ROWS + 1];
  uint32_t indices[MAX_NNZ];
  float values[MAX_NNZ];
} m;

static void fill(uint64_t n_rows, uint64_t n_cols) {
  random_state = n_rows * 31 + n_cols;
  m.n_rows = n_rows;
  m.n_cols = n_cols;
  for (uint64_t i = 0; i < n_rows; i++) m.indptr[i + 1] = m.indptr[i] + (n_cols ? next_random() % (MAX_NNZ / MAX_ROWS) : 0);
  for (uint64_t k = 0; k < m.indptr[n_rows]; k++) {
    m.indices[k] = (uint32_t)(next_random() % n_cols);
    m.values[k] = (float)(next_random() % 5);
  }
}

static annb_matrix_writer_options options_of(void) {
  return (annb_matrix_writer_options){.n_cols = m.n_cols, .dtype = ANNB_F32, .form = ANNB_CSR, .tag = "tag"};
}

/* A transaction with a part of m's shape and a matrix "X". */
static annb_txn *begin(void) {
  annb_txn *txn;
  uint32_t row;
  annb_matrix_spec matrix = {"X", m.n_cols, ANNB_OBS_VAR, ANNB_F32, ANNB_ABSENT_NEVER};
  annb_part_spec part = {m.n_rows, m.n_cols, ANNB_NONE, ANNB_NONE, ANNB_NONE, ANNB_NONE};
  OK(annb_txn_begin(store, ANNB_TXN_REPLACE, &txn, &err));
  OK(annb_txn_add_matrix(txn, &matrix, &row, &err));
  /* columns and sidecar are required of a part: any file will do here */
  const char *path;
  annb_arrays_writer *arrays;
  OK(annb_arrays_writer_open(txn, &arrays, &err));
  OK(annb_arrays_writer_close(arrays, &part.columns, &err));
  OK(annb_txn_temp_path(txn, &path, &err));
  temp_write(path, "sidecar", 7);
  OK(annb_txn_add_file(txn, path, ANNB_OBJECT_SIDECAR, &part.sidecar, &err));
  OK(annb_txn_add_part(txn, &part, &row, &err));
  return txn;
}

static void append_all(annb_matrix_writer *w, uint64_t chunk) {
  for (uint64_t row = 0; row < m.n_rows; row += chunk) {
    uint64_t n = m.n_rows - row < chunk ? m.n_rows - row : chunk, from = m.indptr[row];
    OK(annb_matrix_writer_append(w, n, m.indptr + row, m.indices + from, m.values + from, &err));
  }
}

/* Publish m as the only matrix; the manifest of it. */
static annb_manifest publish(const annb_matrix_writer_options *options, uint64_t chunk, uint64_t segment_bytes) {
  annb_txn *txn = begin();
  annb_matrix_writer *w;
  annb_manifest manifest;
  uint64_t nnz, generation;
  OK(annb_matrix_writer_open(txn, options, &w, &err));
  if (segment_bytes) annb_matrix_writer_set_segment_bytes(w, segment_bytes);
  append_all(w, chunk);
  OK(annb_matrix_writer_close(w, 0, 0, &nnz, &err));
  ck_assert_uint_eq(nnz, m.indptr[m.n_rows]);
  OK(annb_txn_commit(txn, &generation, &err));
  char *path = annb_manifest_path(store, generation);
  OK(annb_manifest_load(path, generation, &manifest, &err));
  free(path);
  return manifest;
}

static annb_segment *open_segment(const annb_manifest *manifest, uint32_t i) {
  annb_segment *g;
  char *path = annb_object_path(store, &manifest->objects[manifest->segments[i].object]);
  OK(annb_segment_open(path, &g, &err));
  free(path);
  return g;
}

static bool no_finding(void *user, const annb_error *finding) {
  (void)user;
  ck_abort_msg("%s", finding->message);
  return false;
}

/* The segments hold m, in order, each with its place. */
static void assert_holds_m(const annb_manifest *manifest) {
  uint64_t row = 0;
  annb_scratch scratch = {0};
  uint32_t indices[MAX_NNZ / MAX_ROWS + ANNB_DECODE_SLACK];
  float values[MAX_NNZ / MAX_ROWS + ANNB_DECODE_SLACK];
  for (uint32_t i = 0; i < manifest->n_segments; i++) {
    annb_segment *g = open_segment(manifest, i);
    ck_assert_uint_eq(g->header.row_base, row);
    ck_assert_uint_eq(g->header.n_cols, m.n_cols);
    ck_assert_uint_eq(g->meta.n_rows, manifest->segments[i].n_rows);
    for (uint64_t k = 0; k < g->meta.n_rows; k++, row++) {
      annb_record_ref record;
      OK(annb_segment_locate(g, k, &record, &err));
      OK(annb_segment_check(g, k, &record, &err));
      ck_assert_uint_eq(record.nnz, m.indptr[row + 1] - m.indptr[row]);
      OK(annb_segment_decode(g, k, &record, indices, (uint8_t *)values, &scratch, &err));
      ck_assert(record.nnz == 0 || !memcmp(indices, m.indices + m.indptr[row], record.nnz * sizeof *indices));
      ck_assert(record.nnz == 0 || !memcmp(values, m.values + m.indptr[row], record.nnz * sizeof *values));
    }
    annb_segment_verify(g, no_finding, NULL);
    annb_segment_close(g);
  }
  ck_assert_uint_eq(row, m.n_rows);
  annb_scratch_free(&scratch);
}

/* ---- tests ---- */

START_TEST(block_rows_follow_the_density) {
  ck_assert_uint_eq(annb_matrix_block_rows(0, 0), 256);
  ck_assert_uint_eq(annb_matrix_block_rows(100, 0), 256);
  ck_assert_uint_eq(annb_matrix_block_rows(0, 100), 256);
  ck_assert_uint_eq(annb_matrix_block_rows(1000, 1826 * 1000), 256); /* 256 · 1141 bytes = 285 KiB */
  ck_assert_uint_eq(annb_matrix_block_rows(1000, 1152 * 1000), 512); /* exactly 360 KiB */
  ck_assert_uint_eq(annb_matrix_block_rows(1000, 1153 * 1000), 256); /* just above */
  ck_assert_uint_eq(annb_matrix_block_rows(1000, 1), 65536);
  ck_assert_uint_eq(annb_matrix_block_rows(10, UINT64_C(10) << 31), 1);
  ck_assert_uint_eq(annb_matrix_block_rows(ANNB_MAX_ROWS, ANNB_MAX_NNZ), 2048); /* 256 elements a row */
  ck_assert_uint_eq(annb_matrix_block_rows(UINT64_MAX, 1), 65536);
  ck_assert_uint_eq(annb_matrix_block_rows(1, UINT64_MAX), 1);
}
END_TEST

START_TEST(one_segment_by_default) {
  fill(1000, 300);
  annb_matrix_writer_options options = options_of();
  options.expected_rows = 1000;
  options.expected_nnz = m.indptr[1000];
  annb_manifest manifest = publish(&options, 1000, 0);
  ck_assert_uint_eq(manifest.n_segments, 1);
  ck_assert_uint_eq(manifest.part_matrices[0].n_cols, 300);
  ck_assert_uint_eq(manifest.part_matrices[0].form, ANNB_CSR);
  ck_assert_uint_eq(manifest.part_matrices[0].dtype, ANNB_F32);
  ck_assert_uint_eq(manifest.part_matrices[0].nnz, m.indptr[1000]);
  annb_segment *g = open_segment(&manifest, 0);
  ck_assert_uint_eq(g->header.block_rows, annb_matrix_block_rows(1000, m.indptr[1000]));
  ck_assert_uint_eq(g->header.codecs, ANNB_KNOWN_CODECS);
  ck_assert_mem_eq(g->header.tag, options.tag, 16);
  annb_segment_close(g);
  assert_holds_m(&manifest);
  annb_manifest_free(&manifest);
}
END_TEST

START_TEST(segment_rows_split_anywhere) {
  static const uint64_t sizes[] = {1, 7, 100, 255, 256, 999, 1000, 5000};
  fill(sizes[_i] == 1 ? 60 : 1000, 40);
  annb_matrix_writer_options options = options_of();
  options.segment_rows = sizes[_i];
  options.block_rows = 64;
  options.n_threads = 2;
  annb_manifest manifest = publish(&options, 333, 0);
  ck_assert_uint_eq(manifest.n_segments, (m.n_rows + sizes[_i] - 1) / sizes[_i]);
  for (uint32_t i = 0; i + 1 < manifest.n_segments; i++) ck_assert_uint_eq(manifest.segments[i].n_rows, sizes[_i]);
  assert_holds_m(&manifest);
  annb_manifest_free(&manifest);
}
END_TEST

/* The first block boundary past the limit ends a segment, whatever the calls and threads. */
START_TEST(bytes_split_at_blocks) {
  static const struct {
    uint64_t chunk;
    uint32_t n_threads;
  } ways[] = {{2000, 1}, {2000, 3}, {1, 1}, {13, 2}, {16, 1}, {160, 4}, {1999, 2}};
  fill(2000, 500);
  annb_matrix_writer_options options = options_of();
  options.block_rows = 16;
  annb_manifest first = {.n_segments = 0};
  for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
    options.n_threads = ways[k].n_threads;
    annb_manifest manifest = publish(&options, ways[k].chunk, 40000);
    if (k == 0) {
      first = manifest;
      continue;
    }
    ck_assert_uint_eq(manifest.n_objects, first.n_objects);
    ck_assert_uint_eq(manifest.n_segments, first.n_segments);
    for (uint32_t i = 0; i < first.n_objects; i++) ck_assert_mem_eq(manifest.objects[i].sha256, first.objects[i].sha256, 32);
    annb_manifest_free(&manifest);
  }
  ck_assert_uint_gt(first.n_segments, 4);
  for (uint32_t i = 0; i + 1 < first.n_segments; i++) {
    annb_segment *g = open_segment(&first, i);
    annb_record_ref record;
    ck_assert_uint_eq(g->meta.n_rows % 16, 0);
    ck_assert_uint_gt(g->blocks_end - ANNB_PAGE, 40000);
    OK(annb_segment_locate(g, g->meta.n_rows - 16, &record, &err)); /* without its last block it was not past the limit */
    ck_assert_uint_le((uint64_t)(record.data - g->map.data) - ANNB_PAGE, 40000 + 4095);
    annb_segment_close(g);
  }
  assert_holds_m(&first);
  annb_manifest_free(&first);
}
END_TEST

START_TEST(bytes_depend_on_the_data_alone) {
  static const struct {
    uint32_t n_threads;
    uint64_t chunk;
  } ways[] = {{0, 1}, {1, 31}, {2, 33}, {2, MAX_ROWS}, {3, 500}, {64, MAX_ROWS}, {1000, 640}};
  fill(MAX_ROWS, 300);
  annb_matrix_writer_options options = options_of();
  options.block_rows = 32;
  options.n_threads = 1;
  if (_i) options.segment_rows = 777;
  annb_manifest expected = publish(&options, MAX_ROWS, 9000), manifest;
  ck_assert_uint_gt(expected.n_segments, 2);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    options.n_threads = ways[i].n_threads;
    manifest = publish(&options, ways[i].chunk, 9000);
    ck_assert_uint_eq(manifest.n_segments, expected.n_segments);
    for (uint32_t k = 0; k < manifest.n_segments; k++)
      ck_assert_mem_eq(manifest.objects[manifest.segments[k].object].sha256, expected.objects[expected.segments[k].object].sha256, 32);
    annb_manifest_free(&manifest);
  }
  assert_holds_m(&expected);
  annb_manifest_free(&expected);
}
END_TEST

/* Pieces of a stream that fails somewhere: the first failure in the rows' order is told, and the caller can stop it. */
typedef struct feed_state {
  uint64_t taken, done;
  annb_row_piece pieces[4];
  uint64_t bad_take, bad_fill, bad_done, stop_after; /* rows */
} feed_state;

static annb_status take_row(void *user, uint32_t slot, annb_take *taken, annb_error *error) {
  feed_state *f = user;
  const uint64_t row = f->taken++;
  if (row == f->bad_take) return annb_fail_row(error, ANNB_EINPUT, NULL, (int64_t)row, "take");
  *taken = row < m.n_rows ? ANNB_TAKEN : ANNB_END;
  if (*taken == ANNB_TAKEN) f->pieces[slot] = (annb_row_piece){1, m.indptr + row, m.indices + m.indptr[row], m.values + m.indptr[row]};
  return ANNB_OK;
}

static annb_status fill_row(void *user, uint32_t worker, uint32_t slot, annb_row_piece *rows, annb_error *error) {
  const feed_state *f = user;
  ck_assert_uint_lt(worker, 3);
  *rows = f->pieces[slot];
  const uint64_t row = (uint64_t)(rows->indptr - m.indptr);
  return row >= f->bad_fill ? annb_fail_row(error, ANNB_EINPUT, NULL, (int64_t)row, "fill") : ANNB_OK;
}

static annb_status row_done(void *user, uint32_t slot, annb_error *error) {
  feed_state *f = user;
  ck_assert_ptr_eq(f->pieces[slot].indptr, m.indptr + f->done); /* in order */
  return f->done++ == f->bad_done ? annb_fail(error, ANNB_EIO, NULL, "done") : ANNB_OK;
}

static annb_status watch_rows(void *user, annb_error *error) {
  feed_state *f = user;
  return f->stop_after ? annb_fail(error, ANNB_ECANCELED, NULL, "stopped") : ANNB_OK;
}

START_TEST(streams_tell_the_first_failure) {
  static const struct {
    uint64_t bad_take, bad_fill, bad_done, stop_after;
    annb_status status;
    const char *text;
    int64_t row;
  } cases[] = {{MAX_ROWS, MAX_ROWS, MAX_ROWS, 0, ANNB_OK, "", 0},      {50, MAX_ROWS, MAX_ROWS, 0, ANNB_EINPUT, "take", 50},
               {50, 40, MAX_ROWS, 0, ANNB_EINPUT, "fill", 40},         {40, 45, MAX_ROWS, 0, ANNB_EINPUT, "take", 40},
               {60, 45, 44, 0, ANNB_EIO, "done", ANNB_NO_ROW},         {0, 45, 44, 0, ANNB_EINPUT, "take", 0},
               {MAX_ROWS, MAX_ROWS, MAX_ROWS, 1, ANNB_ECANCELED, "stopped", ANNB_NO_ROW}};
  fill(500, 30);
  annb_txn *txn = begin();
  annb_matrix_writer *w;
  annb_matrix_writer_options options = options_of();
  options.n_threads = 3;
  feed_state state = {.bad_take = cases[_i].bad_take, .bad_fill = cases[_i].bad_fill, .bad_done = cases[_i].bad_done};
  state.stop_after = cases[_i].stop_after;
  const annb_row_feed feed = {&state, 4, take_row, fill_row, row_done, watch_rows};
  OK(annb_matrix_writer_open(txn, &options, &w, &err));
  ck_assert_int_eq(annb_matrix_writer_stream(w, &feed, &err), cases[_i].status);
  if (cases[_i].status) {
    ck_assert_ptr_nonnull(strstr(err.message, cases[_i].text));
    ck_assert_int_eq(err.row, cases[_i].row);
    ck_assert_int_eq(annb_matrix_writer_stream(w, &feed, &err), ANNB_EINVAL);
    annb_matrix_writer_abort(w);
  } else {
    uint64_t nnz;
    OK(annb_matrix_writer_close(w, 0, 0, &nnz, &err));
    ck_assert(nnz == m.indptr[m.n_rows] && state.done == m.n_rows);
  }
  annb_txn_abort(txn);
}
END_TEST

START_TEST(no_empty_segment_at_the_end) {
  fill(128, 30);
  annb_matrix_writer_options options = options_of();
  options.block_rows = 64;
  annb_manifest manifest = publish(&options, 64, 1); /* every block is past the limit */
  ck_assert_uint_eq(manifest.n_segments, 2);
  assert_holds_m(&manifest);
  annb_manifest_free(&manifest);
}
END_TEST

START_TEST(empty_matrices_describe_themselves) {
  fill(0, _i ? 0 : 25);
  annb_matrix_writer_options options = options_of();
  annb_manifest manifest = publish(&options, 1, 0);
  ck_assert_uint_eq(manifest.n_segments, 1);
  annb_segment *g = open_segment(&manifest, 0);
  ck_assert_uint_eq(g->meta.n_rows, 0);
  ck_assert_uint_eq(g->header.n_cols, m.n_cols);
  annb_segment_verify(g, no_finding, NULL);
  annb_segment_close(g);
  annb_manifest_free(&manifest);
}
END_TEST

START_TEST(matrices_without_columns_work) {
  fill(600, 0);
  annb_matrix_writer_options options = options_of();
  options.segment_rows = 250;
  annb_manifest manifest = publish(&options, 100, 0);
  ck_assert_uint_eq(manifest.n_segments, 3);
  assert_holds_m(&manifest);
  annb_manifest_free(&manifest);
}
END_TEST

START_TEST(bad_rows_are_named_by_part_row) {
  fill(100, 40);
  annb_txn *txn = begin();
  annb_matrix_writer *w;
  annb_matrix_writer_options options = options_of();
  options.segment_rows = 30;
  OK(annb_matrix_writer_open(txn, &options, &w, &err));
  m.indptr[70] = m.indptr[69] + 1;
  m.indices[m.indptr[69]] = 40;
  ck_assert_int_eq(annb_matrix_writer_append(w, 100, m.indptr, m.indices, m.values, &err), ANNB_EINVAL);
  ck_assert_int_eq(err.row, 69);
  ck_assert_ptr_nonnull(strstr(err.message, "row 69 "));
  ck_assert_int_eq(annb_matrix_writer_append(w, 1, m.indptr, m.indices, m.values, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_matrix_writer_close(w, 0, 0, NULL, &err), ANNB_EINVAL);
  annb_txn_abort(txn);
  ck_assert(!temp_exists(store));
}
END_TEST

START_TEST(falling_row_pointers_are_refused) {
  static const uint64_t indptr[] = {5, 6, 4, 9};
  static const uint32_t indices[] = {0, 1, 2, 3};
  static const float values[] = {1, 2, 3, 4};
  fill(3, 40);
  annb_txn *txn = begin();
  annb_matrix_writer *w;
  annb_matrix_writer_options options = options_of();
  OK(annb_matrix_writer_open(txn, &options, &w, &err));
  ck_assert_int_eq(annb_matrix_writer_append(w, 3, indptr, indices, values, &err), ANNB_EINVAL);
  ck_assert_int_eq(err.row, 1);
  annb_matrix_writer_abort(w);
  static const uint64_t endless[] = {0, UINT64_C(1) << 31};
  OK(annb_matrix_writer_open(txn, &options, &w, &err));
  ck_assert_int_eq(annb_matrix_writer_append(w, 1, endless, indices, values, &err), ANNB_EINVAL);
  ck_assert_int_eq(err.row, 0);
  annb_matrix_writer_abort(w);
  annb_txn_abort(txn);
}
END_TEST

START_TEST(bad_options_are_refused) {
  fill(10, 10);
  annb_txn *txn = begin();
  annb_matrix_writer *w;
  annb_matrix_writer_options options = options_of();
  options.dtype = (annb_dtype)99;
  ck_assert_int_eq(annb_matrix_writer_open(txn, &options, &w, &err), ANNB_EINVAL);
  options = options_of();
  options.form = (annb_form)0;
  ck_assert_int_eq(annb_matrix_writer_open(txn, &options, &w, &err), ANNB_EINVAL);
  options = options_of();
  options.block_rows = 100;
  ck_assert_int_eq(annb_matrix_writer_open(txn, &options, &w, &err), ANNB_EINVAL);
  options = options_of();
  options.n_cols = UINT64_C(1) << 31;
  ck_assert_int_eq(annb_matrix_writer_open(txn, &options, &w, &err), ANNB_EINVAL);
  annb_txn_abort(txn);
}
END_TEST

/* Close with the wrong number of rows, the wrong part or matrix, twice the same matrix: refused, and nothing is attached. */
START_TEST(only_what_fits_is_attached) {
  fill(50, 20);
  annb_txn *txn = begin();
  annb_matrix_writer *w;
  annb_matrix_writer_options options = options_of();
  static const uint32_t places[][2] = {{1, 0}, {0, 1}};
  for (int i = 0; i < 2; i++) {
    OK(annb_matrix_writer_open(txn, &options, &w, &err));
    append_all(w, 50);
    ck_assert_int_eq(annb_matrix_writer_close(w, places[i][0], places[i][1], NULL, &err), ANNB_EINVAL);
  }
  OK(annb_matrix_writer_open(txn, &options, &w, &err));
  OK(annb_matrix_writer_append(w, 49, m.indptr, m.indices, m.values, &err));
  ck_assert_int_eq(annb_matrix_writer_close(w, 0, 0, NULL, &err), ANNB_EINVAL);
  ck_assert_ptr_nonnull(strstr(err.message, "49 rows"));
  options.n_cols = 21;
  OK(annb_matrix_writer_open(txn, &options, &w, &err));
  append_all(w, 50);
  ck_assert_int_eq(annb_matrix_writer_close(w, 0, 0, NULL, &err), ANNB_EINVAL);
  options.n_cols = 20;
  for (int i = 0; i < 2; i++) {
    OK(annb_matrix_writer_open(txn, &options, &w, &err));
    append_all(w, 50);
    ck_assert_int_eq(annb_matrix_writer_close(w, 0, 0, NULL, &err), i ? ANNB_EINVAL : ANNB_OK);
  }
  OK(annb_txn_commit(txn, NULL, &err));
  char *objects = annb_io_join(store, "objects");
  ck_assert_uint_eq(temp_count(objects), 3); /* one segment, columns, sidecar */
  free(objects);
}
END_TEST

START_TEST(an_aborted_matrix_leaves_nothing) {
  fill(50, 20);
  annb_txn *txn = begin();
  annb_matrix_writer *w;
  annb_matrix_writer_options options = options_of();
  options.segment_rows = 10;
  OK(annb_matrix_writer_open(txn, &options, &w, &err));
  append_all(w, 50);
  annb_matrix_writer_abort(w);
  annb_matrix_writer_abort(NULL);
  options.segment_rows = 0;
  OK(annb_matrix_writer_open(txn, &options, &w, &err));
  append_all(w, 50);
  OK(annb_matrix_writer_close(w, 0, 0, NULL, &err));
  OK(annb_txn_commit(txn, NULL, &err));
  char *objects = annb_io_join(store, "objects"), *tmp = annb_io_join(store, "tmp");
  ck_assert_uint_eq(temp_count(objects), 3);
  ck_assert_uint_eq(temp_count(tmp), 0);
  free(objects);
  free(tmp);
}
END_TEST

/* Finished matrices wait for their part, take no more rows, and are attached as they are. */
START_TEST(a_finished_matrix_waits_to_be_attached) {
  fill(50, 20);
  annb_txn *txn = begin();
  annb_matrix_writer *w;
  annb_matrix_writer_options options = options_of();
  uint64_t nnz = 0;
  OK(annb_matrix_writer_open(txn, &options, &w, &err));
  append_all(w, 50);
  OK(annb_matrix_writer_finish(w, &err));
  OK(annb_matrix_writer_finish(w, &err));
  ck_assert_int_eq(annb_matrix_writer_append(w, 1, m.indptr, m.indices, m.values, &err), ANNB_EINVAL);
  ck_assert_ptr_nonnull(strstr(err.message, "finished"));
  OK(annb_matrix_writer_close(w, 0, 0, &nnz, &err));
  ck_assert_uint_eq(nnz, m.indptr[50]);
  OK(annb_txn_commit(txn, NULL, &err));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("matrix_writer");
  TCase *tc = tcase_create("all");
  tcase_set_timeout(tc, 300);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, block_rows_follow_the_density);
  tcase_add_test(tc, one_segment_by_default);
  tcase_add_loop_test(tc, segment_rows_split_anywhere, 0, 8);
  tcase_add_test(tc, bytes_split_at_blocks);
  tcase_add_loop_test(tc, bytes_depend_on_the_data_alone, 0, 2);
  tcase_add_loop_test(tc, streams_tell_the_first_failure, 0, 7);
  tcase_add_test(tc, no_empty_segment_at_the_end);
  tcase_add_loop_test(tc, empty_matrices_describe_themselves, 0, 2);
  tcase_add_test(tc, matrices_without_columns_work);
  tcase_add_test(tc, bad_rows_are_named_by_part_row);
  tcase_add_test(tc, falling_row_pointers_are_refused);
  tcase_add_test(tc, bad_options_are_refused);
  tcase_add_test(tc, only_what_fits_is_attached);
  tcase_add_test(tc, an_aborted_matrix_leaves_nothing);
  tcase_add_test(tc, a_finished_matrix_waits_to_be_attached);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
