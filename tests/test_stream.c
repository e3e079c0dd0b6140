/* Values read by many threads: the same as HDF5's, each chunk decompressed once, whatever order the pieces are read in; and rows in pieces. */
#include "../convert/source/stream.h"
#include "../store/pipeline.h"
#include "source_reader.h"


enum { N = 100000, N_THREADS = 3, N_SLOTS = 7 };

static int32_t numbers[N];

/* "/d": chunks of `chunk` values (0: contiguous) from `first` on, gzip. */
static hid_t make_values(hsize_t chunk, int gzip, hsize_t first, hid_t *file) {
  hsize_t dims[1] = {N}, start[1] = {first}, count[1] = {N - first};
  hid_t creation = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, dims, NULL), memory = H5Screate_simple(1, count, NULL);
  if (chunk) H5Pset_chunk(creation, 1, &chunk);
  if (gzip) H5Pset_deflate(creation, 3);
  for (int32_t i = 0; i < N; i++) numbers[i] = i * 17 % 1001;
  memset(numbers, 0, first * sizeof *numbers);
  *file = h5_make_file(path);
  hid_t d = H5Dcreate2(*file, "d", H5T_STD_I32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
  ck_assert_int_ge(H5Dwrite(d, H5T_NATIVE_INT32, memory, space, H5P_DEFAULT, numbers + first), 0);
  H5Sclose(memory);
  H5Sclose(space);
  H5Pclose(creation);
  return d;
}

typedef struct reading {
  annb_stream *stream;
  uint64_t next, step;
  struct {
    uint64_t first, n;
    bool ready;
    annb_status status;
    int32_t *out;
  } slots[N_SLOTS];
  annb_error error;
} reading;

static annb_take take(void *user, uint32_t slot) {
  reading *r = user;
  if (r->next == N) return ANNB_END;
  uint64_t n = r->step + r->next % 11;
  if (n > N - r->next) n = N - r->next;
  r->slots[slot].first = r->next;
  r->slots[slot].n = n;
  r->slots[slot].out = malloc(n * sizeof(int32_t)); /* exact, so that writing past it is seen */
  r->next += n;
  r->slots[slot].status =
      annb_stream_prepare(r->stream, r->slots[slot].first, n, r->slots[slot].out, &r->slots[slot].ready, &r->error);
  return ANNB_TAKEN;
}

static void work(void *user, uint32_t worker, uint32_t slot) {
  reading *r = user;
  if (r->slots[slot].status || r->slots[slot].ready) return;
  r->slots[slot].status = annb_stream_read(r->stream, worker, r->slots[slot].first, r->slots[slot].n, r->slots[slot].out, NULL);
}

static bool give(void *user, uint32_t slot) {
  reading *r = user;
  const bool ok = !r->slots[slot].status;
  if (ok) ck_assert_mem_eq(r->slots[slot].out, numbers + r->slots[slot].first, r->slots[slot].n * sizeof(int32_t));
  free(r->slots[slot].out);
  r->slots[slot].out = NULL;
  return ok;
}

/* The values given until the first failure. */
static uint64_t read_values(const annb_values *v, hid_t type, uint64_t step) {
  reading r = {.step = step};
  ck_assert_int_eq(annb_stream_open(v, type, N_THREADS, &r.stream, &err), ANNB_OK);
  const annb_pipeline p = {N_THREADS, N_SLOTS, &r, take, work, give, NULL};
  annb_pipeline_run(&p);
  uint64_t first_left = N;
  for (int i = 0; i < N_SLOTS; i++) {
    if (r.slots[i].out && r.slots[i].first < first_left) first_left = r.slots[i].first;
    free(r.slots[i].out);
  }
  annb_stream_close(r.stream);
  return first_left;
}

static const struct {
  hsize_t chunk;
  int gzip;
  hsize_t first;
  uint64_t step;
} cases[] = {{0, 0, 0, 1000},     {1000, 1, 0, 10},    {1000, 1, 0, 1000},      {1000, 1, 0, 7777},    {N, 1, 0, 3000},
             {99999, 1, 0, 9999}, {64, 1, 0, 5000},    {1000, 0, 0, 900},       {1000, 1, 4000, 1500}, {5000, 1, 50000, 700},
             {40000, 1, 0, N}};

static void check_values(int i, bool same_type, bool saved) {
  annb_values v;
  hid_t file, d = make_values(cases[i].chunk, cases[i].gzip, cases[i].first, &file);
  static int64_t looked[9000];
  H5Dclose(d);
  ck_assert_int_eq(annb_values_open(&v, path, file, "d", NULL, "/d", MEMORY, &err), ANNB_OK);
  static const uint64_t firsts[] = {500, 20500, 40500, 60500, 80500};
  if (saved) {
    annb_values_set_threads(&v, N_THREADS);
    annb_values_save(&v, true);
    ck_assert_int_eq(annb_values_prefetch(&v, 5, firsts, 9000, &err), ANNB_OK);
  }
  for (uint64_t at = 500; saved && at + 9000 < N; at += 10000) {
    ck_assert_int_eq(annb_values_read_i64(&v, at, 9000, looked, &err), ANNB_OK);
    for (int k = 0; k < 9000; k++) ck_assert_int_eq(looked[k], numbers[at + (uint64_t)k]);
  }
  annb_values_save(&v, false);
  ck_assert_uint_eq(read_values(&v, same_type ? v.type : H5T_NATIVE_INT32, cases[i].step), N);
  annb_values_close(&v);
  H5Fclose(file);
  unlink(path);
}

START_TEST(test_same_values) {
  check_values(_i, true, false);
  check_values(_i, false, false);
  check_values(_i, true, true);
}
END_TEST

/* Chunk 30 of 1000 values is damaged: pieces before it are right. */
START_TEST(test_damage) {
  annb_values v;
  hid_t file, d = make_values(1000, 1, 0, &file);
  const hsize_t at[1] = {30000};
  ck_assert_int_ge(H5Dwrite_chunk(d, H5P_DEFAULT, 0, at, 8, "\x78\x01garbag"), 0);
  H5Dclose(d);
  ck_assert_int_eq(annb_values_open(&v, path, file, "d", NULL, "/d", MEMORY, &err), ANNB_OK);
  const uint64_t left = read_values(&v, v.type, 700);
  ck_assert(left > 29000 && left <= 31000);
  annb_values_close(&v);
  H5Fclose(file);
}
END_TEST

/* ---- rows in pieces ---- */

enum { N_ROWS = 20000, N_COLS = 50, EACH = 3 };

static void make_source(const char *encoding) {
  int64_t *indptr = calloc(N_ROWS + 1, sizeof *indptr);
  int32_t *indices = calloc(N_ROWS * EACH, sizeof *indices);
  float *values = calloc(N_ROWS * EACH, sizeof *values);
  bool csr = !strcmp(encoding, "csr_matrix");
  uint64_t major = csr ? N_ROWS : N_COLS, each = csr ? EACH : N_ROWS * EACH / N_COLS;
  for (uint64_t i = 0; i < major; i++)
    for (uint64_t j = 0; j < each; j++) {
      indptr[i + 1] = (int64_t)((i + 1) * each);
      indices[i * each + j] = (int32_t)(csr ? (i + j * 7) % N_COLS : j * (N_ROWS / each));
      values[i * each + j] = (float)(i * each + j);
    }
  h5_make_h5ad(path, encoding, N_ROWS, N_COLS, indptr, indices, values, N_ROWS * EACH);
  free(indptr);
  free(indices);
  free(values);
}

static void take_pieces(const annb_source_matrix *x, const annb_shuffle *shuffle, uint64_t elements, matrix *out) {
  enum { AT_ONCE = 5 };
  annb_rows *rows;
  annb_rows_piece pieces[AT_ONCE] = {{0}};
  annb_rows_options options = {.memory = MEMORY, .spool_dir = dir, .n_threads = 2, .shuffle = shuffle};
  *out = (matrix){.value_size = 4};
  ck_assert_int_eq(annb_rows_open(x, &options, &rows, &err), ANNB_OK);
  ck_assert_int_eq(annb_rows_prepare(rows, &err), ANNB_OK);
  for (bool more = true; more;) {
    matrix filled[AT_ONCE] = {{0}};
    int n = 0;
    for (more = false; n < AT_ONCE; n++) {
      ck_assert_int_eq(annb_rows_take(rows, elements, &pieces[n], &err), ANNB_OK);
      more = pieces[n].n_rows || pieces[n].later;
      if (!pieces[n].n_rows) break;
    }
    for (int i = n; i-- > 0;) { /* in whatever order */
      annb_rows_chunk chunk;
      ck_assert_int_eq(annb_rows_fill(rows, (uint32_t)i % 2, &pieces[i], &chunk, &err), ANNB_OK);
      filled[i].value_size = 4;
      append(&filled[i], &chunk);
    }
    for (int i = 0; i < n; i++) {
      ck_assert_uint_eq(pieces[i].first_row, out->n_rows);
      append(out, &(annb_rows_chunk){filled[i].n_rows, filled[i].indptr, filled[i].indices, filled[i].values});
      free_matrix(&filled[i]);
    }
  }
  for (int i = 0; i < AT_ONCE; i++) annb_rows_piece_free(&pieces[i]);
  annb_rows_close(rows);
}

static void check_pieces(const char *encoding, uint64_t elements) {
  annb_source source;
  annb_source_matrix x;
  matrix plain, m;
  make_source(encoding);
  ck_assert_int_eq(read_all(0, &plain), ANNB_OK);
  ck_assert_int_eq(annb_source_open(&source, path, MEMORY, NULL), ANNB_OK);
  ck_assert_int_eq(annb_source_matrix_open(&x, &source, "X", NULL), ANNB_OK);
  take_pieces(&x, NULL, elements, &m);
  ck_assert(m.n_rows == N_ROWS && plain.n_rows == N_ROWS && m.n == plain.n);
  ck_assert_mem_eq(m.indptr, plain.indptr, (N_ROWS + 1) * sizeof *m.indptr);
  ck_assert_mem_eq(m.indices, plain.indices, m.n * sizeof *m.indices);
  ck_assert_mem_eq(m.values, plain.values, m.n * m.value_size);
  free_matrix(&m);
  free_matrix(&plain);
  annb_source_matrix_close(&x);
  annb_source_close(&source);
  unlink(path);
}

START_TEST(test_pieces) {
  check_pieces("csr_matrix", 1);
  check_pieces("csr_matrix", 1000);
  check_pieces("csc_matrix", 1000);
  check_pieces("csr_matrix", 1 << 20);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("stream");
  TCase *tc = tcase_create("stream");
  tcase_set_timeout(tc, 60); /* sanitizers are slow */
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_loop_test(tc, test_same_values, 0, sizeof cases / sizeof *cases);
  tcase_add_test(tc, test_damage);
  tcase_add_test(tc, test_pieces);
  suite_add_tcase(suite, tc);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
