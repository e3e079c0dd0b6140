/* Matrices of a concatenated file. */
#include "concat.h"

#include "../sidecar/files.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <annblock/annblock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_ROWS = 1 << 14 };

typedef struct writing {
  const annb_concat *concat;
  uint32_t matrix;
  annb_matrix_info info;
  uint32_t value_size;
  uint64_t *rows;
  uint32_t *row_nnz;
  int64_t *indptr;
  void *indices;
  uint8_t *values;
  uint64_t room; /* elements, or values of dense rows */
  bool index64;
} writing;

static annb_status report(const writing *w, uint64_t done, annb_error *err) {
  char stage[80];
  snprintf(stage, sizeof stage, "exporting %.60s", w->info.name);
  if (!w->concat->progress || w->concat->progress(w->concat->user, stage, done, w->info.n_rows)) return ANNB_OK;
  return annb_fail(err, ANNB_ECANCELED, w->concat->out_name, "the export was cancelled");
}

static annb_status too_large(const writing *w, uint64_t row, annb_error *err) {
  return annb_fail_row(err, ANNB_ENOMEM, annb_store_path(w->concat->store), (int64_t)row,
                       "row %llu of %s does not fit the memory allowed: allow more", (unsigned long long)row, w->info.name);
}

static annb_status make_room(writing *w, uint64_t element_size, annb_error *err) {
  w->room = w->concat->memory / 2 / element_size;
  w->rows = malloc(BATCH_ROWS * sizeof *w->rows);
  w->row_nnz = malloc(BATCH_ROWS * sizeof *w->row_nnz);
  w->indptr = malloc((BATCH_ROWS + 1) * sizeof *w->indptr);
  return w->rows && w->row_nnz && w->indptr ? ANNB_OK : annb_fail_memory(err);
}

static void close_writing(writing *w) {
  free(w->rows);
  free(w->row_nnz);
  free(w->indptr);
  free(w->indices);
  free(w->values);
}

/* ---- CSR ---- */

/* As many rows from `first` on as fit: how many, and their elements. */
static annb_status choose_rows(writing *w, uint64_t first, uint64_t *n, uint64_t *nnz, annb_error *err) {
  uint64_t asked = w->info.n_rows - first < BATCH_ROWS ? w->info.n_rows - first : BATCH_ROWS, total;
  for (uint64_t i = 0; i < asked; i++) w->rows[i] = annb_row_orders_stored(w->concat->orders, first + i);
  annb_status s = annb_fetch_nnz(w->concat->store, w->matrix, w->rows, asked, w->row_nnz, &total, err);
  *n = *nnz = 0;
  while (!s && *n < asked && *nnz + w->row_nnz[*n] <= w->room) *nnz += w->row_nnz[(*n)++];
  return s || *n ? s : too_large(w, first, err);
}

/* Exactly what the batch needs, so that small files take little memory. */
static annb_status fetch(writing *w, uint64_t n, uint64_t nnz, annb_error *err) {
  annb_fetch_options options = {.index64 = w->index64, .sort_indices = true, .allow_lossy = false};
  free(w->indices);
  free(w->values);
  w->indices = malloc((nnz + 1) * (w->index64 ? 8 : 4));
  w->values = malloc((nnz + 1) * w->value_size);
  if (!w->indices || !w->values) return annb_fail_memory(err);
  return annb_fetch_csr(w->concat->store, w->concat->context, w->matrix, w->rows, n, &options, w->indptr, w->indices, w->values, nnz, err);
}

static annb_status write_rows(writing *w, annb_vector *data, annb_vector *indices, annb_vector *indptr, annb_error *err) {
  int64_t at = 0;
  annb_status s = annb_vector_append(w->concat, indptr, &at, 1, err);
  for (uint64_t row = 0, n, nnz; !s && row < w->info.n_rows; row += n) {
    s = choose_rows(w, row, &n, &nnz, err);
    if (!s) s = fetch(w, n, nnz, err);
    if (s) break;
    uint64_t exact = (uint64_t)w->indptr[n];
    for (uint64_t i = 0; i <= n; i++) w->indptr[i] += at;
    at += (int64_t)exact;
    s = annb_vector_append(w->concat, data, w->values, exact, err);
    if (!s) s = annb_vector_append(w->concat, indices, w->indices, exact, err);
    if (!s) s = annb_vector_append(w->concat, indptr, w->indptr + 1, n, err);
    if (!s) s = report(w, row + n, err);
  }
  return s;
}

static annb_status write_shape(const writing *w, hid_t group, annb_error *err) {
  const uint64_t shape[2] = {w->info.n_rows, w->info.n_cols};
  return annb_attr_write_u64(group, "shape", shape, 2, w->concat->out_name, err);
}

static annb_status write_csr(writing *w, hid_t file, annb_error *err) {
  annb_vector data = {-1, -1, 0, NULL}, indices = data, indptr = data;
  hid_t group;
  w->index64 = w->info.nnz > INT32_MAX;
  annb_dtype index = w->index64 ? ANNB_I64 : ANNB_I32;
  annb_status s = annb_concat_group(w->concat, file, w->info.name, "csr_matrix", "0.1.0", &group, err);
  if (s) return s;
  s = write_shape(w, group, err);
  if (!s) s = annb_vector_create(w->concat, group, "data", annb_concat_type(w->info.dtype), &data, err);
  if (!s) s = annb_vector_create(w->concat, group, "indices", annb_concat_type(index), &indices, err);
  if (!s) s = annb_vector_create(w->concat, group, "indptr", annb_concat_type(ANNB_I64), &indptr, err);
  if (!s) s = make_room(w, w->value_size + 8, err);
  if (!s) s = write_rows(w, &data, &indices, &indptr, err);
  annb_vector_close(&data);
  annb_vector_close(&indices);
  annb_vector_close(&indptr);
  annb_h5_close(&group);
  return s;
}

/* ---- dense ---- */

static annb_status write_blocks(writing *w, hid_t dataset, hid_t type, annb_error *err) {
  uint64_t width = w->info.n_cols ? w->info.n_cols : 1, most = w->room / width;
  if (most > BATCH_ROWS) most = BATCH_ROWS;
  if (!most) return too_large(w, 0, err);
  size_t size = (size_t)(most * width * w->value_size);
  w->values = malloc(size);
  if (!w->values) return annb_fail_memory(err);
  annb_status s = ANNB_OK;
  for (uint64_t row = 0, n; !s && w->info.n_cols && row < w->info.n_rows; row += n) {
    n = w->info.n_rows - row < most ? w->info.n_rows - row : most;
    for (uint64_t i = 0; i < n; i++) w->rows[i] = annb_row_orders_stored(w->concat->orders, row + i);
    s = annb_fetch_dense(w->concat->store, w->concat->context, w->matrix, w->rows, n, NULL, w->values, 0,
                         (size_t)(n * width * w->value_size), err);
    if (!s) s = annb_h5_write_rows(dataset, w->concat->out_name, w->info.name, type, row, n, w->values, err);
    if (!s) s = report(w, row + n, err);
  }
  return s;
}

static annb_status write_dense(writing *w, hid_t file, annb_error *err) {
  hsize_t dims[2] = {w->info.n_rows, w->info.n_cols};
  hid_t type = annb_concat_type(w->info.dtype), space = H5Screate_simple(2, dims, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(properties, false);
  hid_t dataset = H5Dcreate2(file, w->info.name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  annb_status s = dataset >= 0 ? annb_concat_encoding(w->concat, dataset, "array", "0.2.0", err)
                               : annb_h5_fail(err, ANNB_EIO, w->concat->out_name, w->info.name, "the dataset cannot be made");
  if (!s) s = make_room(w, w->value_size, err);
  if (!s) s = write_blocks(w, dataset, type, err);
  annb_h5_close(&dataset);
  annb_h5_close(&properties);
  annb_h5_close(&space);
  annb_h5_close(&type);
  return s;
}

annb_status annb_concat_matrix(const annb_concat *concat, hid_t file, uint32_t matrix, annb_error *err) {
  writing w = {.concat = concat, .matrix = matrix};
  annb_status s = annb_store_matrix(concat->store, matrix, &w.info, err);
  if (s) return s;
  w.value_size = annb_dtype_size(w.info.dtype);
  s = w.info.axes == ANNB_OBS_FREE ? write_dense(&w, file, err) : write_csr(&w, file, err);
  close_writing(&w);
  return s ? s : annb_file_check(file, concat->out_name, err);
}
