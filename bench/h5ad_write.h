/* Writing the pieces of an .h5ad file with the encodings of anndata. Every function exits with a message on failure: for tools only. */
#ifndef ANNB_BENCH_H5AD_WRITE_H
#define ANNB_BENCH_H5AD_WRITE_H

#include <hdf5.h>
#include <stdint.h>

/* The identifier or return value, checked. */
hid_t annb_h5_check(hid_t result, const char *what);

void annb_h5_string_attribute(hid_t object, const char *name, const char *value);
void annb_h5_encoding(hid_t object, const char *type, const char *version);
hid_t annb_h5_group(hid_t parent, const char *name, const char *encoding, const char *version);

/* A dataset of `rank` dimensions; chunked and deflated when level > 0, else contiguous. */
hid_t annb_h5_dataset(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *size, const hsize_t *chunk, int level);
/* Write a run of a dataset's first axis (all of the second). */
void annb_h5_write(hid_t dataset, hid_t type, uint64_t first, uint64_t n, const void *data);

/* A string-array of n names made by `name(user, i, text)`. */
typedef void (*annb_name_fn)(void *user, uint64_t i, char text[64]);
void annb_h5_strings(hid_t parent, const char *name, uint64_t n, annb_name_fn make, void *user);

/* A categorical of n rows; codes are int8 up to 127 categories, else int16. */
typedef uint32_t (*annb_code_fn)(void *user, uint64_t i);
void annb_h5_categorical(hid_t parent, const char *name, uint64_t n, annb_code_fn code, uint32_t n_categories, annb_name_fn make,
                         void *user);

/* A data frame group: index "_index" and the columns named, which the caller writes. */
hid_t annb_h5_frame(hid_t parent, const char *name, const char *const *columns, size_t n_columns);

#endif
