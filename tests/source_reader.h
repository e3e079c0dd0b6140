/* Reading the whole X of a source as rows, in a directory of its own. For one test program each: its state is static. */
#ifndef ANNB_TESTS_SOURCE_READER_H
#define ANNB_TESTS_SOURCE_READER_H

#include "../convert/rows/rows.h"
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

static inline void setup(void) {
  strcpy(dir, "/tmp/annb_source_XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/source.h5ad", dir);
  quiet = annb_h5_quiet_begin();
  memset(&err, 0, sizeof err);
}

static inline void teardown(void) {
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

static inline void free_matrix(matrix *m) {
  free(m->indptr);
  free(m->indices);
  free(m->values);
  memset(m, 0, sizeof *m);
}

static inline void append(matrix *m, const annb_rows_chunk *chunk) {
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
static inline annb_status read_all(uint64_t memory, matrix *out) {
  annb_source source;
  annb_source_matrix x;
  annb_rows *rows = NULL;
  annb_rows_options options = {.memory = memory, .spool_dir = dir};
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

static inline void expect_ok(uint64_t memory, matrix *out) {
  annb_status s = read_all(memory, out);
  if (s) ck_abort_msg("%s", err.message);
}

static inline void expect_failure(annb_status status, const char *text) {
  matrix m;
  annb_status s = read_all(MEMORY, &m);
  if (s != status || !strstr(err.message, text) || !strstr(err.message, path))
    ck_abort_msg("status %d, not %d with '%s': %s", s, status, text, s ? err.message : "");
}

/* ---- a small file ---- */

static const int64_t small_indptr[] = {0, 2, 2, 5};
static const int32_t small_indices[] = {0, 3, 1, 2, 3};
static const float small_values[] = {1, 2, 3, -0.0f, 5};

static inline void make_small(void) { h5_make_h5ad(path, "csr_matrix", 3, 4, small_indptr, small_indices, small_values, 5); }

static inline hid_t edit(void) {
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  ck_assert_int_ge(file, 0);
  return file;
}

static inline void remove_object(const char *name) {
  hid_t file = edit();
  ck_assert_int_ge(H5Ldelete(file, name, H5P_DEFAULT), 0);
  H5Fclose(file);
}

static inline void expect_small(uint64_t memory) {
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

#endif
