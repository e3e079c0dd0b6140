/* The LZF filter (HDF5 filter 32000), which h5py writes and HDF5 does not bring. */
#ifndef ANNB_CONVERT_LZF_H
#define ANNB_CONVERT_LZF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Make the filter known to HDF5, for reading and writing. Any number of times. */
void annb_lzf_register(void);

/* Bytes that the LZF stream expands to, or SIZE_MAX when it is not a whole valid stream. */
size_t annb_lzf_size(const uint8_t *in, size_t n);
/* Expand a stream into exactly `size` bytes, the number from annb_lzf_size. */
void annb_lzf_expand(const uint8_t *in, size_t n, uint8_t *out, size_t size);
/* Compress into at most `capacity` bytes; 0 when that is not enough. */
size_t annb_lzf_compress(const uint8_t *in, size_t n, uint8_t *out, size_t capacity);

#endif
