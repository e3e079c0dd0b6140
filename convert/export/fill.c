#include "../sidecar/files.h"
#include "fill.h"
#include "stream.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

/* ---- targets ---- */

annb_status annb_target_write(const annb_filling *f, annb_target *target, uint64_t first, uint64_t n, const void *data, annb_error *err) {
  if (target->dataset < 0 || !n) return ANNB_OK;
  if (target->stream) return annb_stream_write(target->stream, first, n, data, err);
  const hsize_t length = first + n;
  if (target->grows && length > target->length) {
    if (H5Dset_extent(target->dataset, &length) < 0)
      return annb_h5_fail(err, ANNB_EIO, f->fill->out_name, target->path, "the dataset cannot be made longer");
    target->length = length;
  }
  return annb_h5_write_rows(target->dataset, f->fill->out_name, target->path, target->memory, first, n, data, err);
}

/* Open with a chunk cache that holds a chunk or two, as far as memory allows. */
static hid_t open_cached(hid_t file, const char *path, uint64_t memory) {
  hid_t dataset = H5Dopen2(file, path, H5P_DEFAULT), properties = dataset < 0 ? -1 : H5Dget_create_plist(dataset), type = -1;
  hsize_t chunk[32];
  int rank = properties >= 0 && H5Pget_layout(properties) == H5D_CHUNKED ? H5Pget_chunk(properties, 32, chunk) : 0;
  uint64_t bytes = 1;
  if (rank > 0) bytes = H5Tget_size(type = H5Dget_type(dataset));
  for (int i = 0; i < rank; i++)
    if (!annb_mul(bytes, chunk[i], &bytes)) bytes = UINT64_MAX / 4;
  annb_h5_close(&type);
  annb_h5_close(&properties);
  if (rank <= 0 || bytes <= UINT64_C(1) << 20 || 2 * bytes > memory / 8) return dataset;
  hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
  H5Pset_chunk_cache(access, 521, 2 * bytes, 1.0);
  annb_h5_close(&dataset);
  dataset = H5Dopen2(file, path, access);
  annb_h5_close(&access);
  return dataset;
}

static annb_status bad_shell(const annb_filling *f, const char *path, const char *text, annb_error *err) {
  return annb_h5_fail(err, ANNB_ECORRUPT, f->fill->merged->restore_name, path, "%s", text);
}

/* The dataset at `path` when it is empty. Its role must be `role`, its rank `rank`. */
static annb_status open_target(annb_filling *f, const char *member, const char *role, int rank, annb_target *t, annb_error *err) {
  size_t size = strlen(f->path) + strlen(member) + 2;
  hsize_t dims[32];
  t->path = malloc(size);
  if (!t->path) return annb_fail_memory(err);
  strcpy(t->path, f->path);
  if (*member) strcat(strcat(t->path, "/"), member);
  annb_empty *empty = annb_merged_find(f->fill->merged, t->path);
  if (!empty || empty->filled) return ANNB_OK; /* filled as part of a matrix before, which shares it */
  if (strcmp(empty->role, role)) return bad_shell(f, t->path, "the shell is of another kind than the matrix in the store", err);
  t->dataset = open_cached(f->fill->merged->out, t->path, f->fill->memory);
  if (t->dataset < 0 || annb_h5_extent(t->dataset, dims, NULL) != rank)
    return bad_shell(f, t->path, "the shell cannot be opened or has another rank", err);
  t->length = dims[0];
  t->tail = empty->tail;
  empty->filled = true;
  return ANNB_OK;
}

static annb_status value_type(const annb_filling *f, annb_target *t, annb_error *err) {
  if (t->dataset < 0) return ANNB_OK;
  annb_dtype dtype;
  hid_t type = H5Dget_type(t->dataset);
  bool known = type >= 0 && annb_h5_dtype(type, &dtype, &t->memory);
  annb_h5_close(&type);
  return known && dtype == f->info.dtype ? ANNB_OK
                                         : bad_shell(f, t->path, "the shell is of another type than the matrix in the store", err);
}

static annb_status index_type(const annb_filling *f, annb_target *t, hid_t memory, annb_error *err) {
  if (t->dataset < 0) return ANNB_OK;
  hid_t type = H5Dget_type(t->dataset);
  bool integer = type >= 0 && annb_h5_is_integer(type);
  annb_h5_close(&type);
  t->memory = H5Tcopy(memory);
  return integer ? ANNB_OK : bad_shell(f, t->path, "the shell is not of an integer type", err);
}

static annb_status check_length(const annb_filling *f, const annb_target *t, uint64_t length, annb_error *err) {
  if (t->dataset < 0 || (t->tail <= t->length && t->length - t->tail == length)) return ANNB_OK;
  return bad_shell(f, t->path, "the shell has another length than the matrix in the store", err);
}

static annb_status open_sparse(annb_filling *f, annb_error *err) {
  annb_status s = open_target(f, "data", "data", 1, &f->data, err);
  if (!s) s = open_target(f, "indices", "indices", 1, &f->indices, err);
  if (!s) s = open_target(f, "indptr", "indptr", 1, &f->indptr, err);
  if (!s) s = value_type(f, &f->data, err);
  if (!s) s = index_type(f, &f->indices, f->info.form == ANNB_CSC ? H5T_NATIVE_UINT32 : H5T_NATIVE_INT32, err);
  if (!s) s = index_type(f, &f->indptr, H5T_NATIVE_UINT64, err);
  if (!s) s = check_length(f, &f->data, f->info.nnz, err);
  if (!s) s = check_length(f, &f->indices, f->info.nnz, err);
  return s ? s : check_length(f, &f->indptr, (f->info.form == ANNB_CSC ? f->info.n_cols : f->info.n_rows) + 1, err);
}

static annb_status open_dense(annb_filling *f, annb_error *err) {
  hsize_t dims[32];
  annb_status s = open_target(f, "", "dense", 2, &f->data, err);
  if (!s) s = value_type(f, &f->data, err);
  if (s || f->data.dataset < 0) return s;
  if (annb_h5_extent(f->data.dataset, dims, NULL) != 2 || dims[0] != f->info.n_rows || dims[1] != f->info.n_cols)
    return bad_shell(f, f->data.path, "the shell has another shape than the matrix in the store", err);
  return ANNB_OK;
}

void annb_target_close(annb_target *t) {
  annb_stream_abort(t);
  annb_h5_close(&t->dataset);
  annb_h5_close(&t->memory);
  free(t->path);
}

/* ---- all ---- */

annb_status annb_fill_progress(const annb_filling *f, uint64_t done, annb_error *err) {
  annb_status s = annb_file_check(f->fill->out, f->fill->out_name, err);
  return s ? s : annb_fill_report(f, done, err);
}

annb_status annb_fill_report(const annb_filling *f, uint64_t done, annb_error *err) {
  if (!f->fill->progress || f->fill->progress(f->fill->user, f->stage, done, f->info.n_rows)) return ANNB_OK;
  return annb_fail(err, ANNB_ECANCELED, f->fill->out_name, "the export was cancelled");
}

static annb_status open_and_fill(annb_filling *f, annb_error *err) {
  size_t size = strlen(f->info.name) + 16;
  f->path = malloc(size);
  f->stage = malloc(size);
  if (!f->path || !f->stage) return annb_fail_memory(err);
  strcat(strcpy(f->path, "/"), f->info.name);
  if (!strcmp(f->path, "/raw/X") && !annb_h5_exists(f->fill->merged->out, f->path)) strcpy(f->path, "/raw.X"); /* of the old layouts */
  strcat(strcpy(f->stage, "exporting "), f->info.name);
  annb_status s = f->info.form == ANNB_DENSE ? open_dense(f, err) : open_sparse(f, err);
  if (s) return s;
  if (f->data.dataset < 0 && f->indices.dataset < 0 && f->indptr.dataset < 0) return ANNB_OK;
  s = annb_source_rows_open(f->fill->store, 0, f->matrix, &f->source, err);
  if (s) return s;
  if (f->info.form == ANNB_DENSE) return annb_fill_dense(f, err);
  return f->info.form == ANNB_CSC ? annb_fill_csc(f, err) : annb_fill_csr(f, err);
}

annb_status annb_fill_matrix(const annb_fill *fill, uint32_t matrix, annb_error *err) {
  static const annb_target none = {.dataset = -1, .memory = -1};
  annb_filling f = {.fill = fill, .matrix = matrix, .data = none, .indices = none, .indptr = none};
  annb_status s = annb_store_matrix(fill->store, matrix, &f.info, err);
  if (s) return s;
  f.value_size = annb_dtype_size(f.info.dtype);
  s = open_and_fill(&f, err);
  annb_source_rows_close(f.source);
  annb_target_close(&f.data);
  annb_target_close(&f.indices);
  annb_target_close(&f.indptr);
  free(f.path);
  free(f.stage);
  return s;
}
