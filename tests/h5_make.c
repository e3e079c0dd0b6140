#include "h5_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(int64_t result) {
  if (result >= 0) return;
  fprintf(stderr, "making a test file failed\n");
  abort();
}

static hid_t id(hid_t handle) {
  need(handle);
  return handle;
}

hid_t h5_make_file(const char *path) { return id(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)); }

hid_t h5_make_group(hid_t parent, const char *name) {
  hid_t links = id(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links, 1);
  hid_t group = id(H5Gcreate2(parent, name, links, H5P_DEFAULT, H5P_DEFAULT));
  H5Pclose(links);
  return group;
}

static hid_t text_type(void) {
  hid_t type = id(H5Tcopy(H5T_C_S1));
  need(H5Tset_size(type, H5T_VARIABLE));
  need(H5Tset_cset(type, H5T_CSET_UTF8));
  return type;
}

static void attribute(hid_t object, const char *name, hid_t type, hid_t space, const void *data) {
  hid_t attr = id(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
  if (data) need(H5Awrite(attr, type, data));
  H5Aclose(attr);
  H5Sclose(space);
}

void h5_make_text(hid_t object, const char *name, const char *value) {
  hid_t type = text_type();
  attribute(object, name, type, id(H5Screate(H5S_SCALAR)), &value);
  H5Tclose(type);
}

void h5_make_numbers(hid_t object, const char *name, size_t n, const uint64_t *values) {
  hsize_t dims[1] = {n};
  attribute(object, name, H5T_NATIVE_UINT64, id(H5Screate_simple(1, dims, NULL)), values);
}

void h5_make_names(hid_t object, const char *name, size_t n, const char *const *names) {
  hsize_t dims[1] = {n};
  hid_t type = text_type();
  attribute(object, name, type, id(H5Screate_simple(1, dims, NULL)), n ? names : NULL);
  H5Tclose(type);
}

void h5_make_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims, hid_t memory, const void *data,
                   const hsize_t *chunk, int gzip) {
  hid_t creation = id(H5Pcreate(H5P_DATASET_CREATE)), space = id(rank ? H5Screate_simple(rank, dims, NULL) : H5Screate(H5S_SCALAR));
  if (chunk) need(H5Pset_chunk(creation, rank, chunk));
  if (chunk && gzip) need(H5Pset_deflate(creation, (unsigned)gzip));
  hid_t dataset = id(H5Dcreate2(parent, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT));
  if (data) need(H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
  H5Dclose(dataset);
  H5Sclose(space);
  H5Pclose(creation);
}

void h5_make_vector(hid_t parent, const char *name, hid_t type, size_t n, hid_t memory, const void *data) {
  hsize_t dims[1] = {n};
  h5_make_array(parent, name, type, 1, dims, memory, data, NULL, 0);
}

void h5_make_strings(hid_t parent, const char *name, size_t n, const char *const *strings) {
  hid_t type = text_type();
  h5_make_vector(parent, name, type, n, type, strings);
  H5Tclose(type);
}

hid_t h5_make_frame(hid_t file, const char *name, size_t n, size_t n_columns, const char *const *columns) {
  hid_t group = h5_make_group(file, name);
  char **names = calloc(n + 1, sizeof *names);
  for (size_t i = 0; i < n; i++) {
    names[i] = malloc(32);
    snprintf(names[i], 32, "%.8s%zu", name, i);
  }
  h5_make_text(group, "encoding-type", "dataframe");
  h5_make_text(group, "encoding-version", "0.2.0");
  h5_make_text(group, "_index", "_index");
  h5_make_names(group, "column-order", n_columns, columns);
  h5_make_strings(group, "_index", n, (const char *const *)names);
  for (size_t i = 0; i < n; i++) free(names[i]);
  free(names);
  return group;
}

void h5_make_sparse(hid_t file, const char *path, const char *encoding, uint64_t n_rows, uint64_t n_cols, const int64_t *indptr,
                    size_t n_indptr, const int32_t *indices, const float *values, size_t n) {
  const uint64_t shape[2] = {n_rows, n_cols};
  hid_t group = h5_make_group(file, path);
  h5_make_text(group, "encoding-type", encoding);
  h5_make_numbers(group, "shape", 2, shape);
  h5_make_vector(group, "indptr", H5T_STD_I64LE, n_indptr, H5T_NATIVE_INT64, indptr);
  h5_make_vector(group, "indices", H5T_STD_I32LE, n, H5T_NATIVE_INT32, indices);
  h5_make_vector(group, "data", H5T_IEEE_F32LE, n, H5T_NATIVE_FLOAT, values);
  H5Gclose(group);
}

void h5_make_h5ad(const char *path, const char *encoding, uint64_t n_rows, uint64_t n_cols, const int64_t *indptr, const int32_t *indices,
                  const float *values, size_t n) {
  hid_t file = h5_make_file(path);
  H5Gclose(h5_make_frame(file, "obs", n_rows, 0, NULL));
  H5Gclose(h5_make_frame(file, "var", n_cols, 0, NULL));
  h5_make_sparse(file, "X", encoding, n_rows, n_cols, indptr, (strcmp(encoding, "csc_matrix") ? n_rows : n_cols) + 1, indices, values, n);
  H5Fclose(file);
}
