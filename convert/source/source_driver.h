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

/* Do the objects of a collection, of `size` bytes with its header, follow one another? Lengths of 8 bytes. */
bool annb_heap_is_sound(const uint8_t *collection, size_t size);

#endif
