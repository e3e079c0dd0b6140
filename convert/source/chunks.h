/* Compressed chunks that HDF5 would take for whole although they are not: it does not look at how much a gzip stream gives. */
#ifndef ANNB_CONVERT_CHUNKS_H
#define ANNB_CONVERT_CHUNKS_H

#include <annblock/status.h>
#include <hdf5.h>

/* Decompress every chunk of a dataset whose filters are all undone by unfilter.h, gzip among them: ANNB_EINPUT names one that gives fewer
 * or more bytes than a chunk has, or that is damaged. For datasets that HDF5 reads. ANNB_OK for all others; of a dataset with far fewer
 * chunks than its extent has room for, only a few thousand are looked at. */
annb_status annb_chunks_check(hid_t dataset, const char *file, const char *object, annb_error *err);

#endif
