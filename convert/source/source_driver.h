/* The file driver that sources are read by. It reads like HDF5's own, and steps in where HDF5 would not come back: a global heap collection
 * (values of variable length) whose objects do not follow one another is not read, since HDF5 walks it without end. With `newer` it changes
 * object headers on the way (newer.h). */
#ifndef ANNB_CONVERT_SOURCE_DRIVER_H
#define ANNB_CONVERT_SOURCE_DRIVER_H

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Let files that are opened with `access` be read so. Negative on failure. */
herr_t annb_source_driver_set(hid_t access, bool newer);

/* The descriptor of an open file that this driver or HDF5's own reads; −1 for others. It stays HDF5's. */
int annb_source_driver_fd(hid_t file);

/* Where the chunks of a dataset of one dimension without filters stand in such a file, n chunks of `rows` values and `size` bytes: what HDF5
 * asks this driver for is not read but noted. `chunk` has room for one. False when some were never written, or it cannot be told. */
bool annb_source_driver_locate(hid_t file, hid_t dataset, uint64_t rows, size_t size, void *chunk, uint64_t n, uint64_t *addresses);

/* Do the objects of a collection, of `size` bytes with its header, follow one another? Lengths of 8 bytes. */
bool annb_heap_is_sound(const uint8_t *collection, size_t size);

#endif
