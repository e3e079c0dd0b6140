/* Small HDF5 files for tests, by plain HDF5 calls. Every function aborts when HDF5 fails. */
#ifndef ANNB_TESTS_H5_MAKE_H
#define ANNB_TESTS_H5_MAKE_H

#include <hdf5.h>
#include <stddef.h>
#include <stdint.h>

hid_t h5_make_file(const char *path);
hid_t h5_make_group(hid_t parent, const char *name); /* to be closed with H5Gclose */

void h5_make_text(hid_t object, const char *attribute, const char *value);
void h5_make_numbers(hid_t object, const char *attribute, size_t n, const uint64_t *values);
void h5_make_names(hid_t object, const char *attribute, size_t n, const char *const *names);

/* `memory` describes `data`, `type` what is stored. chunk NULL = contiguous; gzip only with chunks. */
void h5_make_array(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *dims, hid_t memory, const void *data,
                   const hsize_t *chunk, int gzip);
void h5_make_vector(hid_t parent, const char *name, hid_t type, size_t n, hid_t memory, const void *data);
void h5_make_strings(hid_t parent, const char *name, size_t n, const char *const *strings);

/* obs or var with n names "<name>0" …, open: to be closed with H5Gclose. `columns` are listed in column-order. */
hid_t h5_make_frame(hid_t file, const char *name, size_t n, size_t n_columns, const char *const *columns);

/* A sparse group of f32 values, i32 indices and i64 pointers. encoding "csr_matrix" or "csc_matrix". */
void h5_make_sparse(hid_t file, const char *path, const char *encoding, uint64_t n_rows, uint64_t n_cols, const int64_t *indptr,
                    size_t n_indptr, const int32_t *indices, const float *values, size_t n);
/* A whole file: obs, var and such an X. */
void h5_make_h5ad(const char *path, const char *encoding, uint64_t n_rows, uint64_t n_cols, const int64_t *indptr, const int32_t *indices,
                  const float *values, size_t n);

#endif
