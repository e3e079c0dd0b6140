/* Rows of a CSC source window by window: the same as by way of the transposer, whatever the types, layout, memory or threads; and what
 * cannot be had so goes through the transposer. */
#include "../convert/rows/rows_internal.h"
#include "../convert/rows/window_plan.h"
#include "source_reader.h"
#include "suite.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { MOST = 300000 };

static int64_t pointers[200002], indices[MOST + 1];
static double values[MOST + 1];
static uint64_t n_rows, n_cols;

static uint32_t random32(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 33);
}

/* ---- made columns, ascending ---- */

typedef enum kind { EVEN, DOUBLED, HEAVY_ROW, FULL_END } kind;

/* About one element in `one_in`. DOUBLED: some occur twice or more; HEAVY_ROW: row 5 has most; FULL_END: the last rows have all columns. */
static void make_columns(uint64_t rows, uint64_t cols, unsigned one_in, kind k) {
  uint64_t state = rows + cols, n = 0;
  n_rows = rows;
  n_cols = cols;
  for (uint64_t j = 0; j < cols; j++) {
    pointers[j] = (int64_t)n;
    for (uint64_t i = j % 5 == 4 ? rows : random32(&state) % one_in; i < rows && n < MOST - 200; i += 1 + random32(&state) % (2 * one_in - 1)) {
      const unsigned times = k == DOUBLED && random32(&state) % 3 == 0 ? 3 : k == HEAVY_ROW && i / one_in == 5 / one_in ? 40 : 1;
      for (unsigned t = 0; t < times; t++) indices[n++] = (int64_t)i;
    }
    while (k == FULL_END && n > (uint64_t)pointers[j] && indices[n - 1] >= (int64_t)rows - 6) n--;
    for (uint64_t i = rows - 6; k == FULL_END && i < rows; i++) indices[n++] = (int64_t)i;
  }
  pointers[cols] = (int64_t)n;
  for (uint64_t i = 0; i < n; i++) values[i] = (double)(random32(&state) % 100 + 1);
}

typedef struct layout {
  hid_t index, value; /* types in the file */
  hsize_t chunk;      /* 0: contiguous */
  int gzip;
  hsize_t user_block;
} layout;

static void write_file(const layout *l) {
  const uint64_t shape[2] = {n_rows, n_cols};
  const hsize_t n = (hsize_t)pointers[n_cols], ends = n_cols + 1;
  hid_t creation = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_userblock(creation, l->user_block);
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, creation, H5P_DEFAULT);
  H5Pclose(creation);
  h5_make_text(file, "encoding-type", "anndata");
  H5Gclose(h5_make_frame(file, "obs", n_rows, 0, NULL));
  H5Gclose(h5_make_frame(file, "var", n_cols, 0, NULL));
  hid_t x = h5_make_group(file, "X");
  h5_make_text(x, "encoding-type", "csc_matrix");
  h5_make_numbers(x, "shape", 2, shape);
  h5_make_array(x, "indptr", H5T_STD_I64LE, 1, &ends, H5T_NATIVE_INT64, pointers, NULL, 0);
  h5_make_array(x, "indices", l->index, 1, &n, H5T_NATIVE_INT64, indices, l->chunk ? &l->chunk : NULL, l->gzip);
  h5_make_array(x, "data", l->value, 1, &n, H5T_NATIVE_DOUBLE, values, l->chunk ? &l->chunk : NULL, l->gzip);
  H5Gclose(x);
  H5Fclose(file);
}

/* ---- reading it both ways ---- */

typedef struct reader {
  annb_source source;
  annb_source_matrix x;
  annb_rows *rows;
} reader;

static void open_reader(reader *r, uint64_t memory, uint32_t n_threads, const uint32_t *rank) {
  const annb_rows_options options = {.memory = memory, .spool_dir = dir, .n_threads = n_threads, .row_rank = rank};
  ck_assert_int_eq(annb_source_open(&r->source, path, MEMORY, &err), ANNB_OK);
  ck_assert_int_eq(annb_source_matrix_open(&r->x, &r->source, "X", &err), ANNB_OK);
  ck_assert_int_eq(annb_rows_open(&r->x, &options, &r->rows, &err), ANNB_OK);
}

static void close_reader(reader *r) {
  annb_rows_close(r->rows);
  annb_source_matrix_close(&r->x);
  annb_source_close(&r->source);
}

/* *windows: they were used. */
static annb_status read_rows(uint64_t memory, uint32_t n_threads, const uint32_t *rank, matrix *out, bool *windows) {
  reader r;
  annb_rows_chunk chunk = {.n_rows = 1};
  open_reader(&r, memory, n_threads, rank);
  *out = (matrix){.value_size = H5Tget_size(r.x.memory_type)};
  annb_status s = annb_rows_prepare(r.rows, &err);
  *windows = r.rows->windows != NULL;
  while (!s && chunk.n_rows) {
    s = annb_rows_next(r.rows, &chunk, &err);
    if (!s && chunk.n_rows) append(out, &chunk);
  }
  out->unordered = annb_rows_unordered(r.rows);
  close_reader(&r);
  return s;
}

/* As the source has them, by way of the transposer: told that rows are expected by number, nothing else is tried. */
static void read_spooled(matrix *out) {
  bool windows;
  uint32_t *rank = malloc(n_rows * sizeof *rank);
  for (uint64_t i = 0; i < n_rows; i++) rank[i] = (uint32_t)i;
  ck_assert_int_eq(read_rows(MEMORY, 2, rank, out, &windows), ANNB_OK);
  ck_assert(!windows);
  free(rank);
}

static void same(const matrix *a, const matrix *b) {
  ck_assert(a->n_rows == n_rows && b->n_rows == n_rows && a->n == b->n && a->value_size == b->value_size);
  ck_assert_mem_eq(a->indptr, b->indptr, (n_rows + 1) * sizeof *a->indptr);
  ck_assert_mem_eq(a->indices, b->indices, a->n * sizeof *a->indices);
  ck_assert_mem_eq(a->values, b->values, a->n * a->value_size);
}

static void check(const layout *l, uint64_t memory, uint32_t n_threads, bool by_windows, unsigned least_chunks) {
  matrix want, got;
  bool windows;
  write_file(l);
  read_spooled(&want);
  if (read_rows(memory, n_threads, NULL, &got, &windows)) ck_abort_msg("%s", err.message);
  ck_assert_int_eq(windows, by_windows);
  ck_assert_int_eq(got.unordered, want.unordered);
  ck_assert_uint_ge(got.n_chunks, least_chunks);
  same(&got, &want);
  free_matrix(&want);
  free_matrix(&got);
  unlink(path);
}

/* ---- types and layouts ---- */

START_TEST(types) {
  const hid_t index[] = {H5T_STD_I8LE, H5T_STD_U8LE, H5T_STD_I16LE, H5T_STD_U16LE, H5T_STD_I32LE, H5T_STD_U32LE, H5T_STD_I64LE, H5T_STD_U64LE};
  const hid_t value[] = {H5T_STD_I8LE, H5T_STD_U16LE, H5T_STD_I32LE, H5T_STD_U64LE, H5T_IEEE_F32LE, H5T_IEEE_F64LE};
  make_columns(120, 400, 3, EVEN);
  for (size_t i = 0; i < sizeof index / sizeof *index; i++) check(&(layout){index[i], H5T_IEEE_F32LE, 0, 0, 0}, MEMORY, 2, true, 1);
  for (size_t i = 0; i < sizeof value / sizeof *value; i++) check(&(layout){H5T_STD_I32LE, value[i], 0, 0, 0}, 1 << 19, 2, true, 2);
  check(&(layout){H5T_STD_I32BE, H5T_IEEE_F32LE, 0, 0, 0}, MEMORY, 2, false, 1);
  check(&(layout){H5T_STD_I32LE, H5T_IEEE_F32BE, 0, 0, 0}, MEMORY, 2, false, 1);
}
END_TEST

START_TEST(chunks) {
  make_columns(2000, 300, 4, EVEN);
  for (hsize_t chunk = 7; chunk < 100000; chunk *= 31) {
    check(&(layout){H5T_STD_I32LE, H5T_IEEE_F32LE, chunk, 0, 0}, MEMORY, 2, true, 1);
    check(&(layout){H5T_STD_I64LE, H5T_STD_U8LE, chunk, 0, 512}, MEMORY, 1, true, 1); /* addresses count from behind the user block */
  }
  check(&(layout){H5T_STD_I32LE, H5T_IEEE_F32LE, 1000, 1, 0}, 8 << 20, 2, false, 1);
  check(&(layout){H5T_STD_I32LE, H5T_IEEE_F32LE, 0, 0, 2048}, 8 << 20, 2, true, 1);
}
END_TEST

/* ---- shapes ---- */

START_TEST(shapes) {
  const layout l = {H5T_STD_I32LE, H5T_IEEE_F32LE, 0, 0, 0};
  for (uint32_t threads = 1; threads <= 3; threads++) {
    make_columns(1500, 600, 4, EVEN);
    check(&l, 1 << 20, threads, true, 10); /* several windows */
    check(&l, MEMORY, threads, true, 1);
    make_columns(1500, 200, 4, DOUBLED);
    check(&l, 1 << 20, threads, true, 2);
    make_columns(3000, 300, 30, HEAVY_ROW); /* more than a piece */
    check(&l, 1 << 20, threads, true, 2);
    make_columns(3000, 250, 40, FULL_END); /* a strip of which each row is a piece, or some are */
    check(&l, 1 << 20, threads, true, 2);
  }
  make_columns(150000, 3, 5, EVEN);
  check(&l, 1 << 20, 2, true, 3);
  make_columns(2, 150000, 1, EVEN); /* columns that are more than a key can number */
  check(&l, MEMORY, 2, true, 1);
  make_columns(1, 1, 1, EVEN);
  check(&l, MEMORY, 2, true, 1);
  make_columns(200000, 2, 1000, EVEN); /* few elements in many rows */
  check(&l, MEMORY, 2, true, 2);
}
END_TEST

/* ---- what is not for windows ---- */

START_TEST(left_to_the_transposer) {
  const layout l = {H5T_STD_I32LE, H5T_IEEE_F32LE, 0, 0, 0};
  make_columns(1000, 100, 5, EVEN);
  const int64_t last = pointers[99] - 1, before = indices[last];
  indices[last] = indices[last - 1] - 1; /* in the last column that has some: the others looked right */
  check(&l, MEMORY, 2, false, 1);
  indices[last] = before;
  make_columns(2, 150000, 1, EVEN); /* tables of columns that the memory has no room for */
  check(&l, 4 << 20, 2, false, 1);
  make_columns(2000, 5, 1, EVEN);
  for (int i = 0; i < 2000; i++) indices[i] = i < 1000 ? 7 : i; /* all of row 7, where the memory is little */
  check(&l, 1 << 13, 2, false, 1);
}
END_TEST

/* ---- files that change ---- */

/* After the plan was made. */
static annb_status read_changed(off_t place, const void *bytes, size_t n) {
  reader r;
  annb_rows_chunk chunk = {.n_rows = 1};
  open_reader(&r, 1 << 20, 2, NULL);
  ck_assert_int_eq(annb_rows_prepare(r.rows, &err), ANNB_OK);
  ck_assert_ptr_nonnull(r.rows->windows);
  int fd = open(path, O_WRONLY);
  if (bytes) ck_assert_int_eq(pwrite(fd, bytes, n, place), (ssize_t)n);
  else ck_assert_int_eq(ftruncate(fd, place), 0);
  close(fd);
  annb_status s = ANNB_OK;
  while (!s && chunk.n_rows) s = annb_rows_next(r.rows, &chunk, &err);
  close_reader(&r);
  return s;
}

static off_t indices_in_file(void) {
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), d = H5Dopen2(file, "X/indices", H5P_DEFAULT);
  const off_t at = (off_t)H5Dget_offset(d);
  H5Dclose(d);
  H5Fclose(file);
  return at;
}

START_TEST(changes) {
  const layout l = {H5T_STD_I32LE, H5T_IEEE_F32LE, 0, 0, 0};
  const int32_t bad[] = {-1, 1500, INT32_MAX, 0, 1499};
  make_columns(1500, 600, 4, EVEN);
  const int64_t middle = pointers[301] + (pointers[302] - pointers[301]) / 2;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    write_file(&l);
    ck_assert_int_eq(read_changed(indices_in_file() + 4 * (off_t)middle, &bad[i], 4), ANNB_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.message, i < 3 ? "but the matrix has 1500 rows" : "changed while it was read"));
    ck_assert_ptr_nonnull(strstr(err.message, path));
  }
  write_file(&l);
  ck_assert_int_eq(read_changed(indices_in_file() + 4 * (off_t)middle, NULL, 0), ANNB_EINPUT);
  ck_assert_ptr_nonnull(strstr(err.message, "cut short while it was read"));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("windows");
  TCase *tc = tcase_create("windows");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 200);
  tcase_add_test(tc, types);
  tcase_add_test(tc, chunks);
  tcase_add_test(tc, shapes);
  tcase_add_test(tc, left_to_the_transposer);
  tcase_add_test(tc, changes);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
