/* Values of a dataset read past HDF5 where that is exactly the same: contiguous values by their offset in the file; chunks taken as they
 * are and decompressed by several threads. Types are not converted: the values come as they are in the file. */
#ifndef ANNB_CONVERT_DIRECT_H
#define ANNB_CONVERT_DIRECT_H

#include <annblock/status.h>
#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct annb_direct annb_direct;

/* *out is NULL when `dataset` has to be read by HDF5: virtual, external and compact ones, more than two dimensions, filters that unfilter.h
 * does not undo, chunks over 1/32 of `memory`, data past the end of the file. `dataset`, `file` and `object` must outlive it. */
annb_status annb_direct_open(hid_t dataset, const char *file, const char *object, uint64_t memory, annb_direct **out, annb_error *err);
void annb_direct_close(annb_direct *direct); /* NULL is allowed */

/* Decompress on so many threads; 1 until told. */
void annb_direct_set_threads(annb_direct *direct, uint32_t n);

/* Rows [first, first + n) × columns [first_col, first_col + n_cols), inside the dataset (one dimension: column 0 of 1). *done is false, and
 * nothing is read, when HDF5 has to: some chunk was never written. The last chunk that reaches past the rows is kept for the next call.
 * ANNB_EINPUT for damage names the chunk. One call at a time. */
annb_status annb_direct_read(annb_direct *direct, uint64_t first, uint64_t n, uint64_t first_col, uint64_t n_cols, void *out, bool *done,
                             annb_error *err);

#endif
