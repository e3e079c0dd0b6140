/* Opening sources, and X as rows whatever its form and however little memory there is. */
#include "../convert/rows.h"
#include "../store/io.h"
#include "h5_make.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEMORY (UINT64_C(64) << 20)

static char dir[64], path[128];
static annb_h5_quiet quiet;
static annb_error err;

static void setup(void) {
  strcpy(dir, "/tmp/annb_source_XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/source.h5ad", dir);
  quiet = annb_h5_quiet_begin();
  memset(&err, 0, sizeof err);
}

static void teardown(void) {
  annb_h5_quiet_end(quiet);
  unlink(path);
  ck_assert_int_eq(rmdir(dir), 0); /* fails when a spool file or an open handle's file is left */
}

/* ---- what a whole source gives ---- */

typedef struct matrix {
  uint64_t n_rows, n;
  uint64_t *indptr;
  uint32_t *indices;
  uint8_t *values;
  size_t value_size;
  annb_dtype dtype;
  annb_form form;
  bool unordered;
  unsigned n_chunks;
} matrix;

static void free_matrix(matrix *m) {
  free(m->indptr);
  free(m->indices);
  free(m->values);
  memset(m, 0, sizeof *m);
}

static void append(matrix *m, const annb_rows_chunk *chunk) {
  uint64_t n = chunk->indptr[chunk->n_rows] - chunk->indptr[0];
  m->indptr = realloc(m->indptr, (m->n_rows + chunk->n_rows + 1) * sizeof *m->indptr);
  m->indices = realloc(m->indices, (m->n + n + 1) * sizeof *m->indices);
  m->values = realloc(m->values, (m->n + n + 1) * m->value_size);
  for (uint64_t i = 0; i <= chunk->n_rows; i++) m->indptr[m->n_rows + i] = m->n + chunk->indptr[i] - chunk->indptr[0];
  if (n) memcpy(m->indices + m->n, chunk->indices, n * sizeof *m->indices);
  if (n) memcpy(m->values + m->n * m->value_size, chunk->values, n * m->value_size);
  m->n_rows += chunk->n_rows;
  m->n += n;
  m->n_chunks++;
}

/* ANNB_OK and the matrix, or the first failure on the way. */
static annb_status read_all(uint64_t memory, matrix *out) {
  annb_source source;
  annb_source_matrix x;
  annb_rows *rows = NULL;
  annb_rows_options options = {memory, dir, NULL, NULL};
  annb_rows_chunk chunk = {.n_rows = 1};
  memset(out, 0, sizeof *out);
  annb_status s = annb_source_open(&source, path, MEMORY, &err);
  if (s) return s;
  s = annb_source_matrix_open(&x, &source, "X", &err);
  if (!s) {
    out->value_size = H5Tget_size(x.memory_type);
    out->dtype = x.dtype;
    out->form = x.form;
    s = annb_rows_open(&x, &options, &rows, &err);
    while (!s && chunk.n_rows) {
      s = annb_rows_next(rows, &chunk, &err);
      if (!s && chunk.n_rows) append(out, &chunk);
    }
    if (rows) out->unordered = annb_rows_unordered(rows);
    annb_rows_close(rows);
    annb_source_matrix_close(&x);
  }
  annb_source_close(&source);
  if (s) free_matrix(out);
  return s;
}

static void expect_ok(uint64_t memory, matrix *out) {
  annb_status s = read_all(memory, out);
  if (s) ck_abort_msg("%s", err.message);
}

static void expect_failure(annb_status status, const char *text) {
  matrix m;
  annb_status s = read_all(MEMORY, &m);
  if (s != status || !strstr(err.message, text) || !strstr(err.message, path))
    ck_abort_msg("status %d, not %d with '%s': %s", s, status, text, s ? err.message : "");
}

/* ---- the small matrix of most tests ---- */

static const int64_t small_indptr[] = {0, 2, 2, 5};
static const int32_t small_indices[] = {0, 3, 1, 2, 3};
static const float small_values[] = {1, 2, 3, -0.0f, 5};

static void make_small(void) { h5_make_h5ad(path, "csr_matrix", 3, 4, small_indptr, small_indices, small_values, 5); }

static hid_t edit(void) {
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  ck_assert_int_ge(file, 0);
  return file;
}

static void replace(const char *name, hid_t type, size_t n, hid_t memory, const void *data) {
  hid_t file = edit();
  ck_assert_int_ge(H5Ldelete(file, name, H5P_DEFAULT), 0);
  h5_make_vector(file, name, type, n, memory, data);
  H5Fclose(file);
}

static void remove_object(const char *name) {
  hid_t file = edit();
  ck_assert_int_ge(H5Ldelete(file, name, H5P_DEFAULT), 0);
  H5Fclose(file);
}

static void expect_small(uint64_t memory) {
  matrix m;
  expect_ok(memory, &m);
  ck_assert_uint_eq(m.n_rows, 3);
  ck_assert_uint_eq(m.n, 5);
  for (int i = 0; i < 4; i++) ck_assert_uint_eq(m.indptr[i], (uint64_t)small_indptr[i]);
  for (int i = 0; i < 5; i++) ck_assert_uint_eq(m.indices[i], (uint32_t)small_indices[i]);
  ck_assert_int_eq(m.dtype, ANNB_F32);
  ck_assert_mem_eq(m.values, small_values, sizeof small_values);
  free_matrix(&m);
}

START_TEST(test_csr) {
  make_small();
  expect_small(MEMORY);
  expect_small(0);
}
END_TEST

START_TEST(test_legacy_attributes) {
  make_small();
  const uint64_t shape[] = {3, 4};
  hid_t file = edit(), x = H5Gopen2(file, "X", H5P_DEFAULT);
  H5Adelete(x, "encoding-type");
  H5Adelete(x, "shape");
  h5_make_text(x, "h5sparse_format", "csr");
  h5_make_numbers(x, "h5sparse_shape", 2, shape);
  H5Gclose(x);
  H5Fclose(file);
  expect_small(MEMORY);
}
END_TEST

START_TEST(test_index_types) {
  const hid_t types[] = {H5T_STD_I8LE, H5T_STD_U8LE, H5T_STD_I16BE, H5T_STD_U16LE, H5T_STD_I32BE, H5T_STD_U32LE, H5T_STD_I64LE, H5T_STD_I64BE, H5T_STD_U64LE};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    make_small();
    replace("X/indices", types[i], 5, H5T_NATIVE_INT32, small_indices);
    replace("X/indptr", types[i], 4, H5T_NATIVE_INT64, small_indptr);
    expect_small(MEMORY);
  }
  make_small();
  replace("X/indptr", H5T_IEEE_F64LE, 4, H5T_NATIVE_INT64, small_indptr);
  expect_small(MEMORY);
  replace("X/indptr", H5T_IEEE_F32BE, 4, H5T_NATIVE_INT64, small_indptr);
  expect_small(MEMORY);
}
END_TEST

START_TEST(test_bad_pointers) {
  static const struct {
    int64_t p[4];
    const char *text;
  } cases[] = {{{1, 2, 2, 5}, "starts at 1"},     {{0, 3, 2, 5}, "decreases at entry 2"}, {{0, 2, 2, 6}, "ends at element 6"},
               {{0, -2, 2, 5}, "negative"},       {{0, 9, 9, 5}, "past its last entry"}, {{0, 2, 2, INT64_MIN}, "negative"},
               {{0, 2, 2, INT64_MAX}, "ends at"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    make_small();
    replace("X/indptr", H5T_STD_I64LE, 4, H5T_NATIVE_INT64, cases[i].p);
    expect_failure(ANNB_EINPUT, cases[i].text);
    ck_assert_ptr_nonnull(strstr(err.message, "/X/indptr"));
  }
  const double fractional[] = {0, 2, 2.5, 5}, nan[] = {0, 2, 0.0 / 0.0, 5}, huge[] = {0, 2, 2, 1e300};
  replace("X/indptr", H5T_IEEE_F64LE, 4, H5T_NATIVE_DOUBLE, fractional);
  expect_failure(ANNB_EINPUT, "2.5");
  replace("X/indptr", H5T_IEEE_F64LE, 4, H5T_NATIVE_DOUBLE, nan);
  expect_failure(ANNB_EINPUT, "no row pointer");
  replace("X/indptr", H5T_IEEE_F64LE, 4, H5T_NATIVE_DOUBLE, huge);
  expect_failure(ANNB_EINPUT, "no row pointer");
  const uint64_t wrapped[] = {0, 2, 2, UINT64_MAX};
  replace("X/indptr", H5T_STD_U64LE, 4, H5T_NATIVE_UINT64, wrapped);
  expect_failure(ANNB_EINPUT, "ends at element");
}
END_TEST

START_TEST(test_bad_indices) {
  const int32_t negative[] = {0, 3, -1, 2, 3}, large[] = {0, 3, 1, 4, 3};
  const int64_t wide[] = {0, 3, 1, INT64_C(0x100000001), 3};
  const uint64_t huge[] = {0, UINT64_MAX, 1, 2, 3};
  const int8_t byte[] = {0, 3, 1, 2, -128};
  make_small();
  replace("X/indices", H5T_STD_I32LE, 5, H5T_NATIVE_INT32, negative);
  expect_failure(ANNB_EINPUT, "element 2 is -1");
  replace("X/indices", H5T_STD_I32LE, 5, H5T_NATIVE_INT32, large);
  expect_failure(ANNB_EINPUT, "element 3 is 4");
  replace("X/indices", H5T_STD_I64LE, 5, H5T_NATIVE_INT64, wide);
  expect_failure(ANNB_EINPUT, "element 3 is 4294967297");
  replace("X/indices", H5T_STD_U64LE, 5, H5T_NATIVE_UINT64, huge);
  expect_failure(ANNB_EINPUT, "element 1 is 18446744073709551615");
  replace("X/indices", H5T_STD_I8LE, 5, H5T_NATIVE_INT8, byte);
  expect_failure(ANNB_EINPUT, "element 4 is -128");
  replace("X/indices", H5T_IEEE_F32LE, 5, H5T_NATIVE_INT32, small_indices);
  expect_failure(ANNB_EINPUT, "integer");
}
END_TEST

START_TEST(test_lengths) {
  make_small();
  replace("X/indptr", H5T_STD_I64LE, 3, H5T_NATIVE_INT64, small_indptr);
  expect_failure(ANNB_EINPUT, "has 3 entries; a matrix of 3 rows needs 4");
  make_small();
  replace("X/data", H5T_IEEE_F32LE, 4, H5T_NATIVE_FLOAT, small_values);
  expect_failure(ANNB_EINPUT, "4 values in data but 5 in indices");
  make_small();
  hid_t file = edit();
  H5Ldelete(file, "obs", H5P_DEFAULT);
  H5Gclose(h5_make_frame(file, "obs", 7, 0, NULL));
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "shape 3 × 4, but obs has 7 rows and var 4");
}
END_TEST

START_TEST(test_tail) {
  const int32_t indices[] = {0, 3, 1, 2, 3, 999, -5}; /* past the last pointer: not looked at */
  const float values[] = {1, 2, 3, -0.0f, 5, 6, 7};
  h5_make_h5ad(path, "csr_matrix", 3, 4, small_indptr, indices, values, 7);
  expect_small(MEMORY);
}
END_TEST

START_TEST(test_missing_parts) {
  static const struct {
    const char *name, *text;
    annb_status status;
  } cases[] = {{"X", "X is missing", ANNB_EUNSUPPORTED},  {"obs", "obs is missing", ANNB_EINPUT},         {"var", "var is missing", ANNB_EINPUT},
               {"X/data", "/X/data: is missing", ANNB_EINPUT}, {"X/indptr", "/X/indptr: is missing", ANNB_EINPUT}, {"obs/_index", "obs/_index: is missing", ANNB_EINPUT}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    make_small();
    remove_object(cases[i].name);
    expect_failure(cases[i].status, cases[i].text);
  }
  make_small();
  remove_object("X");
  hid_t file = edit(), space = H5Screate(H5S_NULL);
  H5Dclose(H5Dcreate2(file, "X", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Sclose(space);
  H5Fclose(file);
  expect_failure(ANNB_EUNSUPPORTED, "X is missing");
}
END_TEST

START_TEST(test_kinds_of_x) {
  make_small();
  hid_t file = edit(), x = H5Gopen2(file, "X", H5P_DEFAULT);
  H5Adelete(x, "encoding-type");
  H5Gclose(x);
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "encoding-type");
  file = edit();
  x = H5Gopen2(file, "X", H5P_DEFAULT);
  h5_make_text(x, "encoding-type", "awkward-array");
  H5Gclose(x);
  H5Fclose(file);
  expect_failure(ANNB_EUNSUPPORTED, "awkward-array");
  make_small();
  const char *const words[] = {"a", "b", "c", "d", "e"};
  file = edit();
  H5Ldelete(file, "X/data", H5P_DEFAULT);
  h5_make_strings(file, "X/data", 5, words);
  H5Fclose(file);
  expect_failure(ANNB_EUNSUPPORTED, "string");
  remove_object("X");
  file = edit();
  h5_make_vector(file, "X", H5T_IEEE_F32LE, 3, H5T_NATIVE_FLOAT, small_values);
  H5Fclose(file);
  expect_failure(ANNB_EUNSUPPORTED, "1 dimension");
}
END_TEST

START_TEST(test_links) {
  make_small();
  hid_t file = edit();
  H5Gclose(h5_make_group(file, "layers"));
  H5Lmove(file, "X", file, "layers/counts", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("layers/counts", file, "X", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  expect_small(MEMORY);
  annb_source source;
  annb_source_matrix x;
  ck_assert_int_eq(annb_source_open(&source, path, MEMORY, NULL), ANNB_OK);
  ck_assert_int_eq(annb_source_matrix_open(&x, &source, "X", NULL), ANNB_OK);
  ck_assert_str_eq(x.path, "/layers/counts");
  annb_source_matrix_close(&x);
  annb_source_close(&source);

  char other[128];
  snprintf(other, sizeof other, "%s/other.h5", dir);
  ck_assert_int_eq(rename(path, other), 0);
  make_small();
  remove_object("X");
  file = edit();
  H5Lcreate_external(other, "/layers/counts", file, "X", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  expect_failure(ANNB_EUNSUPPORTED, "another file");
  unlink(other);
  expect_failure(ANNB_EUNSUPPORTED, "X is missing");
  remove_object("X");
  file = edit();
  H5Lcreate_soft("/X", file, "X", H5P_DEFAULT, H5P_DEFAULT); /* to itself */
  H5Fclose(file);
  expect_failure(ANNB_EUNSUPPORTED, "X is missing");
}
END_TEST

START_TEST(test_other_files) {
  hid_t file = h5_make_file(path);
  H5Gclose(h5_make_group(file, "mod/rna"));
  H5Gclose(h5_make_frame(file, "obs", 3, 0, NULL));
  H5Gclose(h5_make_frame(file, "var", 3, 0, NULL));
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "MuData");
  file = h5_make_file(path);
  H5Gclose(h5_make_group(file, "matrix/barcodes"));
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "10x");
  file = h5_make_file(path);
  H5Gclose(h5_make_group(file, "GRCh38/barcodes"));
  H5Gclose(h5_make_group(file, "GRCh38/indptr"));
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "10x");
  file = h5_make_file(path);
  H5Gclose(h5_make_group(file, "matrix"));
  H5Gclose(h5_make_group(file, "row_attrs"));
  H5Fclose(file);
  expect_failure(ANNB_EINPUT, "loom");
  H5Fclose(h5_make_file(path));
  expect_failure(ANNB_EINPUT, "no X, no obs and no var");
  FILE *text = fopen(path, "w");
  fputs("version https://example.org\n", text);
  fclose(text);
  expect_failure(ANNB_EINPUT, "not an HDF5 file");
  unlink(path);
  expect_failure(ANNB_EIO, "");
}
END_TEST

/* ---- filters ---- */

static size_t copy_filter(unsigned flags, size_t n, const unsigned *values, size_t bytes, size_t *size, void **buffer) {
  (void)flags, (void)n, (void)values, (void)size, (void)buffer;
  return bytes;
}

START_TEST(test_missing_filter) {
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, 300, 1, 1, "squeeze", NULL, NULL, copy_filter};
  const hsize_t dims[] = {5}, chunk[] = {5};
  make_small();
  remove_object("X/data");
  H5Zregister(&filter);
  hid_t file = edit(), creation = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, dims, NULL);
  H5Pset_chunk(creation, 1, chunk);
  H5Pset_filter(creation, 300, 0, 0, NULL);
  hid_t data = H5Dcreate2(file, "X/data", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  ck_assert_int_ge(H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, small_values), 0);
  H5Dclose(data);
  H5Sclose(space);
  H5Pclose(creation);
  H5Fclose(file);
  expect_small(MEMORY);
  H5Zunregister(300);
  expect_failure(ANNB_EUNSUPPORTED, "squeeze");
  ck_assert_ptr_nonnull(strstr(err.message, "300"));
  ck_assert_ptr_nonnull(strstr(err.message, "/X/data"));
  ck_assert_ptr_nonnull(strstr(err.message, "hdf5plugin"));
}
END_TEST

START_TEST(test_large_chunk) {
  const hsize_t dims[] = {3, 4}, chunk[] = {65536, 1024}; /* 256 MiB of one chunk */
  const float x[12] = {1};
  hid_t file = h5_make_file(path), creation = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t unlimited[] = {H5S_UNLIMITED, H5S_UNLIMITED};
  H5Gclose(h5_make_frame(file, "obs", 3, 0, NULL));
  H5Gclose(h5_make_frame(file, "var", 4, 0, NULL));
  H5Pset_chunk(creation, 2, chunk);
  H5Pset_deflate(creation, 1);
  hid_t space = H5Screate_simple(2, dims, unlimited), data = H5Dcreate2(file, "X", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  (void)x;
  H5Dclose(data);
  H5Sclose(space);
  H5Pclose(creation);
  H5Fclose(file);
  expect_failure(ANNB_ENOMEM, "MiB of memory");
}
END_TEST

/* ---- larger matrices: every form, against the same rows ---- */

typedef struct random_matrix {
  uint64_t n_rows, n_cols, n;
  float *dense; /* row by row */
  int64_t *row_ptr, *col_ptr;
  int32_t *col_of, *row_of; /* of CSR, of CSC */
  float *by_row, *by_col;
} random_matrix;

static uint32_t random32(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 33);
}

static random_matrix make_random(uint64_t n_rows, uint64_t n_cols, unsigned one_in) {
  random_matrix m = {n_rows, n_cols, 0, calloc(n_rows * n_cols, sizeof(float)), calloc(n_rows + 1, sizeof(int64_t)), calloc(n_cols + 1, sizeof(int64_t)),
                     calloc(n_rows * n_cols, sizeof(int32_t)), calloc(n_rows * n_cols, sizeof(int32_t)), calloc(n_rows * n_cols, sizeof(float)),
                     calloc(n_rows * n_cols, sizeof(float))};
  uint64_t state = 7;
  for (uint64_t i = 0; i < n_rows; i++) {
    for (uint64_t j = 0; j < n_cols; j++) {
      if (i % 17 == 3 || random32(&state) % one_in) continue;
      float x = (float)(random32(&state) % 1000) - 500.5f;
      m.dense[i * n_cols + j] = x;
      m.col_of[m.n] = (int32_t)j;
      m.by_row[m.n++] = x;
    }
    m.row_ptr[i + 1] = (int64_t)m.n;
  }
  uint64_t k = 0;
  for (uint64_t j = 0; j < n_cols; j++) {
    for (uint64_t i = 0; i < n_rows; i++)
      if (m.dense[i * n_cols + j] != 0) {
        m.row_of[k] = (int32_t)i;
        m.by_col[k++] = m.dense[i * n_cols + j];
      }
    m.col_ptr[j + 1] = (int64_t)k;
  }
  return m;
}

static void free_random(random_matrix *m) {
  free(m->dense), free(m->row_ptr), free(m->col_ptr), free(m->col_of), free(m->row_of), free(m->by_row), free(m->by_col);
}

static void expect_random(const random_matrix *want, annb_form form, uint64_t memory, unsigned least_chunks) {
  matrix m;
  expect_ok(memory, &m);
  ck_assert_int_eq(m.form, form);
  ck_assert_uint_eq(m.n_rows, want->n_rows);
  ck_assert_uint_eq(m.n, want->n);
  ck_assert_uint_ge(m.n_chunks, least_chunks);
  ck_assert(!m.unordered);
  ck_assert_mem_eq(m.indptr, want->row_ptr, (want->n_rows + 1) * sizeof *m.indptr);
  ck_assert_mem_eq(m.indices, want->col_of, want->n * sizeof *m.indices);
  ck_assert_mem_eq(m.values, want->by_row, want->n * sizeof(float));
  free_matrix(&m);
}

static void make_dense(const random_matrix *m, const hsize_t *chunk, int gzip) {
  const hsize_t dims[] = {m->n_rows, m->n_cols};
  hid_t file = h5_make_file(path);
  H5Gclose(h5_make_frame(file, "obs", m->n_rows, 0, NULL));
  H5Gclose(h5_make_frame(file, "var", m->n_cols, 0, NULL));
  h5_make_array(file, "X", H5T_IEEE_F32LE, 2, dims, H5T_NATIVE_FLOAT, m->dense, chunk, gzip);
  H5Fclose(file);
}

START_TEST(test_forms) {
  random_matrix m = make_random(1500, 600, 3); /* 300,000 elements, over the least chunk of 1 MiB */
  h5_make_h5ad(path, "csr_matrix", m.n_rows, m.n_cols, m.row_ptr, m.col_of, m.by_row, m.n);
  expect_random(&m, ANNB_CSR, MEMORY, 1);
  expect_random(&m, ANNB_CSR, 0, 2);
  h5_make_h5ad(path, "csc_matrix", m.n_rows, m.n_cols, m.col_ptr, m.row_of, m.by_col, m.n);
  expect_random(&m, ANNB_CSC, MEMORY, 1);
  expect_random(&m, ANNB_CSC, 1 << 20, 2); /* spooled */
  make_dense(&m, NULL, 0);
  expect_random(&m, ANNB_DENSE, MEMORY, 1);
  expect_random(&m, ANNB_DENSE, 1 << 20, 2);
  const hsize_t tiles[] = {100, 70}, columns[] = {1500, 1}, row[] = {1, 600};
  make_dense(&m, tiles, 3);
  expect_random(&m, ANNB_DENSE, MEMORY, 1);
  expect_random(&m, ANNB_DENSE, 1 << 18, 1); /* rows of one tile do not fit: by way of the transposer */
  make_dense(&m, columns, 3);
  expect_random(&m, ANNB_DENSE, MEMORY, 1);
  expect_random(&m, ANNB_DENSE, 1 << 20, 2);
  expect_random(&m, ANNB_DENSE, 1 << 14, 2); /* not even one chunk: boxes cut chunks */
  make_dense(&m, row, 0);
  expect_random(&m, ANNB_DENSE, 1 << 20, 2);
  free_random(&m);
}
END_TEST

START_TEST(test_csc_order) {
  /* column 1 descends; stable within rows; repeats ascend */
  const int64_t indptr[] = {0, 2, 4, 4, 6};
  const int32_t down[] = {0, 2, 2, 0, 1, 1}, up[] = {0, 2, 0, 2, 1, 1};
  const float values[] = {1, 2, 3, 4, 5, 6};
  matrix m;
  h5_make_h5ad(path, "csc_matrix", 3, 4, indptr, down, values, 6);
  expect_ok(MEMORY, &m);
  ck_assert(m.unordered);
  const uint32_t want[] = {0, 1, 3, 3, 0, 1};
  const float want_values[] = {1, 4, 5, 6, 2, 3};
  ck_assert_mem_eq(m.indices, want, sizeof want);
  ck_assert_mem_eq(m.values, want_values, sizeof want_values);
  free_matrix(&m);
  h5_make_h5ad(path, "csc_matrix", 3, 4, indptr, up, values, 6);
  expect_ok(MEMORY, &m);
  ck_assert(!m.unordered);
  free_matrix(&m);
  const int32_t outside[] = {0, 2, 0, 3, 1, 1};
  h5_make_h5ad(path, "csc_matrix", 3, 4, indptr, outside, values, 6);
  expect_failure(ANNB_EINPUT, "element 3 is 3, but the matrix has 3 rows");
  const int64_t bad[] = {0, 6, 4, 4, 6};
  h5_make_h5ad(path, "csc_matrix", 3, 4, bad, up, values, 6);
  expect_failure(ANNB_EINPUT, "decreases at entry 2");
  const int64_t late[] = {0, 6, 6, 5, 6}; /* behind the last element */
  h5_make_h5ad(path, "csc_matrix", 3, 4, late, up, values, 6);
  expect_failure(ANNB_EINPUT, "decreases at entry 3");
}
END_TEST

START_TEST(test_dense_bits) {
  /* only all-zero bits are absent */
  const uint64_t bits[] = {0, UINT64_C(0x8000000000000000), UINT64_C(0x7ff0000000000001), UINT64_C(1), 0, UINT64_C(0xfff8dead0000beef)};
  const hsize_t dims[] = {2, 3};
  hid_t file = h5_make_file(path);
  H5Gclose(h5_make_frame(file, "obs", 2, 0, NULL));
  H5Gclose(h5_make_frame(file, "var", 3, 0, NULL));
  h5_make_array(file, "X", H5T_IEEE_F64LE, 2, dims, H5T_NATIVE_DOUBLE, bits, NULL, 0);
  H5Fclose(file);
  matrix m;
  expect_ok(MEMORY, &m);
  const uint64_t want[] = {bits[1], bits[2], bits[3], bits[5]};
  const uint32_t columns[] = {1, 2, 0, 2};
  ck_assert_uint_eq(m.n, 4);
  ck_assert_mem_eq(m.values, want, sizeof want);
  ck_assert_mem_eq(m.indices, columns, sizeof columns);
  free_matrix(&m);
}
END_TEST

START_TEST(test_empty) {
  const int64_t zeros[8] = {0};
  const hsize_t dims[] = {5, 0};
  matrix m;
  for (int i = 0; i < 2; i++) {
    h5_make_h5ad(path, i ? "csc_matrix" : "csr_matrix", 5, 7, zeros, NULL, NULL, 0);
    expect_ok(MEMORY, &m);
    ck_assert(m.n_rows == 5 && m.n == 0);
    free_matrix(&m);
    h5_make_h5ad(path, i ? "csc_matrix" : "csr_matrix", 0, 0, zeros, NULL, NULL, 0);
    expect_ok(MEMORY, &m);
    ck_assert(m.n_rows == 0 && m.n == 0);
  }
  hid_t file = h5_make_file(path);
  H5Gclose(h5_make_frame(file, "obs", 5, 0, NULL));
  H5Gclose(h5_make_frame(file, "var", 0, 0, NULL));
  h5_make_array(file, "X", H5T_IEEE_F32LE, 2, dims, H5T_NATIVE_FLOAT, NULL, NULL, 0);
  H5Fclose(file);
  expect_ok(MEMORY, &m);
  ck_assert(m.n_rows == 5 && m.n == 0);
  free_matrix(&m);
}
END_TEST

START_TEST(test_giant_row) {
  enum { N = 400000 };
  int32_t *indices = calloc(N, sizeof *indices);
  float *values = calloc(N, sizeof *values);
  const int64_t indptr[] = {0, N - 1, N};
  for (int i = 0; i < N; i++) indices[i] = i % 4;
  h5_make_h5ad(path, "csr_matrix", 2, 4, indptr, indices, values, N);
  matrix m;
  expect_ok(16 << 20, &m); /* larger than a chunk, smaller than half the memory */
  ck_assert_uint_eq(m.n, N);
  free_matrix(&m);
  ck_assert_int_eq(read_all(1 << 20, &m), ANNB_ENOMEM);
  ck_assert_int_eq(err.row, 0);
  ck_assert_ptr_nonnull(strstr(err.message, "row 0 has 399999 elements"));
  free(indices);
  free(values);
}
END_TEST

/* A few bytes that claim much: no allocation follows from the claim. */
START_TEST(test_hostile_extent) {
  const hsize_t rows = (hsize_t)1 << 40, dims[] = {rows}, more[] = {rows + 1}, chunk[] = {1024};
  const uint64_t shape[] = {rows, 4};
  const char *const none[] = {NULL};
  hid_t file = h5_make_file(path), text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, H5T_VARIABLE);
  hid_t obs = h5_make_group(file, "obs");
  h5_make_text(obs, "_index", "_index");
  h5_make_names(obs, "column-order", 0, none);
  h5_make_array(obs, "_index", text, 1, dims, text, NULL, chunk, 0);
  H5Gclose(obs);
  H5Gclose(h5_make_frame(file, "var", 4, 0, NULL));
  hid_t x = h5_make_group(file, "X");
  h5_make_text(x, "encoding-type", "csr_matrix");
  h5_make_numbers(x, "shape", 2, shape);
  h5_make_array(x, "indptr", H5T_STD_I64LE, 1, more, H5T_NATIVE_INT64, NULL, chunk, 0);
  h5_make_vector(x, "indices", H5T_STD_I32LE, 0, H5T_NATIVE_INT32, NULL);
  h5_make_vector(x, "data", H5T_IEEE_F32LE, 0, H5T_NATIVE_FLOAT, NULL);
  H5Gclose(x);
  H5Tclose(text);
  H5Fclose(file);
  annb_source source;
  annb_source_matrix m;
  annb_rows *r;
  annb_rows_chunk c;
  annb_rows_options options = {MEMORY, dir, NULL, NULL};
  ck_assert_int_eq(annb_source_open(&source, path, MEMORY, &err), ANNB_OK);
  ck_assert_int_eq(annb_source_matrix_open(&m, &source, "X", &err), ANNB_OK);
  ck_assert_int_eq(annb_rows_open(&m, &options, &r, &err), ANNB_OK);
  for (int i = 0; i < 3; i++) ck_assert_int_eq(annb_rows_next(r, &c, &err), ANNB_OK);
  ck_assert_uint_eq(c.n_rows, 65536);
  annb_rows_close(r);
  annb_source_matrix_close(&m);
  annb_source_close(&source);
}
END_TEST

static bool stop(void *user, const char *stage, uint64_t done, uint64_t total) {
  (void)stage, (void)done, (void)total;
  ++*(int *)user;
  return false;
}

START_TEST(test_cancel) {
  random_matrix m = make_random(50, 40, 2);
  annb_source source;
  annb_source_matrix x;
  annb_rows *rows;
  annb_rows_chunk chunk;
  int calls = 0;
  annb_rows_options options = {MEMORY, dir, stop, &calls};
  h5_make_h5ad(path, "csc_matrix", m.n_rows, m.n_cols, m.col_ptr, m.row_of, m.by_col, m.n);
  ck_assert_int_eq(annb_source_open(&source, path, MEMORY, NULL), ANNB_OK);
  ck_assert_int_eq(annb_source_matrix_open(&x, &source, "X", NULL), ANNB_OK);
  ck_assert_int_eq(annb_rows_open(&x, &options, &rows, NULL), ANNB_OK);
  ck_assert_int_eq(annb_rows_next(rows, &chunk, &err), ANNB_ECANCELED);
  ck_assert_int_eq(calls, 1);
  annb_rows_close(rows);
  annb_source_matrix_close(&x);
  annb_source_close(&source);
  free_random(&m);
}
END_TEST

START_TEST(test_expected) {
  random_matrix m = make_random(300, 200, 4);
  annb_source source;
  annb_source_matrix x;
  uint64_t nnz;
  make_dense(&m, NULL, 0);
  ck_assert_int_eq(annb_source_open(&source, path, MEMORY, NULL), ANNB_OK);
  ck_assert_int_eq(annb_source_matrix_open(&x, &source, "X", NULL), ANNB_OK);
  ck_assert_int_eq(annb_rows_expected(&x, &nnz, NULL), ANNB_OK);
  ck_assert(nnz >= m.n - 1 && nnz <= m.n + 1); /* all of it is in the sample */
  annb_source_matrix_close(&x);
  annb_source_close(&source);
  free_random(&m);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("source");
  TCase *tc = tcase_create("source");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 120);
  tcase_add_test(tc, test_csr);
  tcase_add_test(tc, test_legacy_attributes);
  tcase_add_test(tc, test_index_types);
  tcase_add_test(tc, test_bad_pointers);
  tcase_add_test(tc, test_bad_indices);
  tcase_add_test(tc, test_lengths);
  tcase_add_test(tc, test_tail);
  tcase_add_test(tc, test_missing_parts);
  tcase_add_test(tc, test_kinds_of_x);
  tcase_add_test(tc, test_links);
  tcase_add_test(tc, test_other_files);
  tcase_add_test(tc, test_missing_filter);
  tcase_add_test(tc, test_large_chunk);
  tcase_add_test(tc, test_forms);
  tcase_add_test(tc, test_csc_order);
  tcase_add_test(tc, test_dense_bits);
  tcase_add_test(tc, test_empty);
  tcase_add_test(tc, test_giant_row);
  tcase_add_test(tc, test_hostile_extent);
  tcase_add_test(tc, test_cancel);
  tcase_add_test(tc, test_expected);
  suite_add_tcase(suite, tc);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
