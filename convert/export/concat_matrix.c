/* Matrices of a concatenated file. */
#include "../sidecar/files.h"
#include "concat.h"
#include "fill.h"

#include "../../store/error.h"

#include <annblock/annblock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_ROWS = 1 << 14, CHUNK = 1 << 16 };

/* Chunks, and the filters that the options ask for. */
static hid_t make_properties(const annb_concat *concat, int rank, const hsize_t *chunk) {
  hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  bool ok = H5Pset_obj_track_times(properties, false) >= 0 && (!chunk || H5Pset_chunk(properties, rank, chunk) >= 0);
  if (ok && chunk && concat->options->compression == ANNB_COMPRESSION_GZIP)
    ok = H5Pset_shuffle(properties) >= 0 && H5Pset_deflate(properties, (unsigned)concat->options->level) >= 0;
  if (!ok) annb_h5_close(&properties);
  return properties;
}

/* ---- CSR ---- */

/* A vector of a sparse matrix, of `length` elements or (UINT64_MAX) growing. `memory`: the type of our buffers, or -1 when the filling
 * decides. What neither grows nor is compressed has no chunks: threads write straight into it. */
static annb_status create(const annb_concat *concat, hid_t group, const char *matrix, const char *name, annb_dtype dtype, hid_t memory,
                          uint64_t length, annb_target *out, annb_error *err) {
  const bool grows = length == UINT64_MAX, chunked = grows || (length && concat->options->compression == ANNB_COMPRESSION_GZIP);
  const hsize_t n = grows ? 0 : length, any = H5S_UNLIMITED, chunk = grows || length > CHUNK ? CHUNK : length;
  hid_t type = annb_concat_type(dtype), space = H5Screate_simple(1, &n, grows ? &any : NULL);
  hid_t properties = make_properties(concat, 1, chunked ? &chunk : NULL);
  out->path = malloc(strlen(matrix) + strlen(name) + 2);
  if (out->path) strcat(strcat(strcpy(out->path, matrix), "/"), name);
  if (memory >= 0) out->memory = H5Tcopy(memory);
  out->grows = grows;
  out->length = n;
  if (type >= 0 && space >= 0 && properties >= 0) out->dataset = H5Dcreate2(group, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  annb_h5_close(&properties);
  annb_h5_close(&space);
  annb_h5_close(&type);
  if (!out->path) return annb_fail_memory(err);
  return out->dataset >= 0 ? ANNB_OK : annb_h5_fail(err, ANNB_EIO, concat->out_name, name, "the dataset cannot be made");
}

static annb_fill make_fill(const annb_concat *concat, hid_t file) {
  const annb_export_options *o = concat->options;
  return (annb_fill){.store = concat->store,
                     .context = concat->context,
                     .out = file,
                     .out_name = concat->out_name,
                     .orders = concat->rows->orders,
                     .rows = concat->rows,
                     .genes = concat->genes,
                     .memory = o->memory,
                     .n_threads = o->n_threads,
                     .progress = o->progress,
                     .user = o->user};
}

static annb_status write_shape(const annb_concat *concat, const annb_matrix_info *info, hid_t group, annb_error *err) {
  const uint64_t shape[2] = {concat->rows->n, info->axes == ANNB_OBS_VAR ? concat->genes->n : info->n_cols};
  return annb_attr_write_u64(group, "shape", shape, 2, concat->out_name, err);
}

static annb_status write_csr(const annb_concat *concat, hid_t file, uint32_t matrix, const annb_matrix_info *info, annb_error *err) {
  annb_target data = {.dataset = -1, .memory = -1}, indices = data, indptr = data;
  const annb_fill fill = make_fill(concat, file);
  uint64_t most;
  bool exact;
  hid_t group;
  annb_status s = annb_fill_count(&fill, matrix, &most, &exact, err);
  if (!s) s = annb_concat_group(concat, file, info->name, "csr_matrix", "0.1.0", &group, err);
  if (s) return s;
  s = write_shape(concat, info, group, err);
  const uint64_t length = exact ? most : UINT64_MAX;
  if (!s) s = create(concat, group, info->name, "data", info->dtype, -1, length, &data, err);
  if (!s) s = create(concat, group, info->name, "indices", most > INT32_MAX ? ANNB_I64 : ANNB_I32, -1, length, &indices, err);
  if (!s) s = create(concat, group, info->name, "indptr", ANNB_I64, H5T_NATIVE_UINT64, concat->rows->n + 1, &indptr, err);
  if (!s) s = annb_fill_selected(&fill, matrix, &data, &indices, &indptr, err);
  annb_target_close(&data);
  annb_target_close(&indices);
  annb_target_close(&indptr);
  annb_h5_close(&group);
  return s;
}

/* ---- dense ---- */

static annb_status report(const annb_concat *concat, const char *name, uint64_t done, annb_error *err) {
  const annb_export_options *o = concat->options;
  char stage[80];
  snprintf(stage, sizeof stage, "exporting %.60s", name);
  if (!o->progress || o->progress(o->user, stage, done, concat->rows->n)) return ANNB_OK;
  return annb_fail(err, ANNB_ECANCELED, concat->out_name, "the export was cancelled");
}

/* Rows that fit the memory allowed; none when not even one does. */
static uint64_t block_rows(const annb_concat *concat, uint64_t row_bytes) {
  const uint64_t fit = row_bytes ? concat->options->memory / 2 / row_bytes : BATCH_ROWS;
  return fit < BATCH_ROWS ? fit : BATCH_ROWS;
}

static annb_status write_blocks(const annb_concat *concat, uint32_t matrix, const annb_matrix_info *info, hid_t dataset, hid_t type,
                                annb_error *err) {
  const uint64_t row_bytes = info->n_cols * annb_dtype_size(info->dtype), most = block_rows(concat, row_bytes);
  if (!row_bytes) return ANNB_OK;
  if (!most)
    return annb_fail(err, ANNB_ENOMEM, annb_store_path(concat->store), "a row of %s does not fit the memory allowed: allow more",
                     info->name);
  uint64_t *rows = malloc(most * sizeof *rows);
  uint8_t *values = malloc(most * row_bytes);
  annb_status s = rows && values ? ANNB_OK : annb_fail_memory(err);
  for (uint64_t row = 0, n; !s && row < concat->rows->n; row += n) {
    n = concat->rows->n - row < most ? concat->rows->n - row : most;
    for (uint64_t i = 0; i < n; i++) rows[i] = annb_selection_stored(concat->rows, row + i);
    s = annb_fetch_dense(concat->store, concat->context, matrix, rows, n, NULL, values, 0, (size_t)(n * row_bytes), err);
    if (!s) s = annb_h5_write_rows(dataset, concat->out_name, info->name, type, row, n, values, err);
    if (!s) s = report(concat, info->name, row + n, err);
  }
  free(rows);
  free(values);
  return s;
}

/* In chunks of whole rows when it is to be compressed. */
static annb_status write_dense(const annb_concat *concat, hid_t file, uint32_t matrix, const annb_matrix_info *info, annb_error *err) {
  const hsize_t dims[2] = {concat->rows->n, info->n_cols};
  hsize_t chunk[2] = {dims[1] < CHUNK ? CHUNK / (dims[1] ? dims[1] : 1) : 1, dims[1] < CHUNK ? dims[1] : CHUNK};
  if (chunk[0] > dims[0]) chunk[0] = dims[0];
  const bool chunked = concat->options->compression == ANNB_COMPRESSION_GZIP && dims[0] && dims[1];
  hid_t type = annb_concat_type(info->dtype), space = H5Screate_simple(2, dims, NULL);
  hid_t properties = make_properties(concat, 2, chunked ? chunk : NULL);
  hid_t dataset = H5Dcreate2(file, info->name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  annb_status s = dataset >= 0 ? annb_concat_encoding(concat, dataset, "array", "0.2.0", err)
                               : annb_h5_fail(err, ANNB_EIO, concat->out_name, info->name, "the dataset cannot be made");
  if (!s) s = write_blocks(concat, matrix, info, dataset, type, err);
  annb_h5_close(&dataset);
  annb_h5_close(&properties);
  annb_h5_close(&space);
  annb_h5_close(&type);
  return s;
}

annb_status annb_concat_matrix(const annb_concat *concat, hid_t file, uint32_t matrix, annb_error *err) {
  annb_matrix_info info;
  annb_status s = annb_store_matrix(concat->store, matrix, &info, err);
  if (!s) s = (info.axes == ANNB_OBS_FREE ? write_dense : write_csr)(concat, file, matrix, &info, err);
  return s ? s : annb_file_check(file, concat->out_name, err);
}
