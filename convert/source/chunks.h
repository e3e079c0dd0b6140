/* Compressed chunks that HDF5 would take for whole although they are not: it does not look at how much a gzip stream gives. */
#ifndef ANNB_CONVERT_CHUNKS_H
#define ANNB_CONVERT_CHUNKS_H

#include <annblock/status.h>
#include <hdf5.h>
#include <stdint.h>

/* Decompress every chunk of a dataset whose filters are all undone by unfilter.h, gzip among them: ANNB_EINPUT names one that gives fewer
 * or more bytes than a chunk has, or that is damaged. For datasets that HDF5 reads. ANNB_OK for all others; of a dataset with far fewer
 * chunks than its extent has room for, only a few thousand are looked at. */
annb_status annb_chunks_check(hid_t dataset, const char *file, const char *object, annb_error *err);

/* The same for the chunks with rows first … first + n − 1. */
annb_status annb_chunks_check_rows(hid_t dataset, const char *file, const char *object, uint64_t first, uint64_t n, annb_error *err);

/* ANNB_EINPUT when chunks of a dataset are listed at no place of its grid, so that HDF5 would fill in what they hold. ANNB_OK for what has
 * no chunks; of a dataset with far fewer chunks than places the same few thousand are looked at. */
annb_status annb_chunks_placed(hid_t dataset, const char *file, const char *object, annb_error *err);

#endif
