/* Reading what HDF5 2.0 writes when it is asked for its newest format.
 *
 * Its data layout message has version 5, which HDF5 1.x refuses. It has the bytes of version 4; only the sizes of filtered chunks are wider
 * in the indexes of several chunks (HDF5 File Format Specification 4.0, IV.A.2.i). So a layout without such an index reads right when the
 * message is told to be of version 4. The file driver of source_driver.h says so, in object headers whose checksum is right; all other
 * bytes are the file's.
 * What it leaves alone HDF5 refuses as before: filtered datasets of several chunks, headers of more than 1 MiB, and datatype messages of
 * version 5, which enumerations (h5py's booleans) and compounds have, in attributes too. */
#ifndef ANNB_CONVERT_NEWER_H
#define ANNB_CONVERT_NEWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first part of a version 2 object header, all of it, checksum included: change a layout message of version 5 to 4 where that reads the
 * same, and the checksum. False: nothing was changed. */
bool annb_newer_change(uint8_t *header, size_t n);

/* How many bytes it takes, from its first 64 (`n` when there are fewer); 0 when there is none. */
uint64_t annb_newer_size(const uint8_t *header, size_t n);

/* HDF5's checksum of metadata: lookup3 by Bob Jenkins (public domain, 2006), by bytes, from 0. */
uint32_t annb_newer_checksum(const uint8_t *bytes, size_t n);

#endif
