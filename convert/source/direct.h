/* Values of a dataset read past HDF5 where that is exactly the same: contiguous values by their offset in the file; chunks taken as they
 * are and decompressed by several threads. Types are not converted: the values come as they are in the file. */
#ifndef ANNB_CONVERT_DIRECT_H
#define ANNB_CONVERT_DIRECT_H

#include "unfilter.h"

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

/* ---- for readers on many threads ---- */

/* Contiguous values: no chunks. annb_direct_read_at is for them alone, on any thread. */
bool annb_direct_is_contiguous(const annb_direct *direct);
annb_status annb_direct_read_at(const annb_direct *direct, uint64_t first, uint64_t n, void *out, annb_error *err);
void annb_direct_will_need(const annb_direct *direct, uint64_t first, uint64_t n); /* they will be read soon */

uint64_t annb_direct_chunk_rows(const annb_direct *direct);
uint64_t annb_direct_chunk_bytes(const annb_direct *direct); /* decompressed */
/* Bytes of the chunk at `row`, `col` in the file; 0 when it was never written (or cannot be found, which HDF5 then reports). Uses HDF5. */
uint64_t annb_direct_stored(const annb_direct *direct, uint64_t row, uint64_t col);
/* One dimension: its n bytes into *raw, which is made larger when *room is too small, and which filters were left out. Uses HDF5. */
annb_status annb_direct_take_stored(const annb_direct *direct, uint64_t row, uint64_t n, uint8_t **raw, uint64_t *room, uint32_t *skipped,
                                    annb_error *err);
/* Such bytes into `out`, all of a chunk. On any thread. */
annb_unfilter_result annb_direct_decompress(const annb_direct *direct, annb_unfilter *unfilter, unsigned skipped, const uint8_t *raw,
                                            size_t n, uint8_t *out);
annb_status annb_direct_damaged(const annb_direct *direct, uint64_t row, uint64_t col, annb_unfilter_result result, annb_error *err);

/* One dimension: keep the chunks that annb_direct_read decompresses from now on, in ascending order of rows, as far as an eighth of the
 * memory goes; or no more. */
void annb_direct_save(annb_direct *direct, bool save);
/* While they are kept: decompress those of [firsts[i], firsts[i] + n), on all threads at once, before they are read. Ranges ascend. */
annb_status annb_direct_prefetch(annb_direct *direct, uint32_t n_ranges, const uint64_t *firsts, uint64_t n, annb_error *err);
/* The decompressed chunk at `row` if it was kept, which is the caller's then; those before it are forgotten. */
uint8_t *annb_direct_saved(annb_direct *direct, uint64_t row);

#endif
