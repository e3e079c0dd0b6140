/* The LZF filter of h5py (number 32000), which HDF5 lacks: anndata offers it as compression="lzf". */
#ifndef ANNB_CONVERT_LZF_H
#define ANNB_CONVERT_LZF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Make it known to HDF5 in this process, unless it is. */
void annb_lzf_register(void);

/* LZF: a byte c < 32 is followed by c + 1 literal bytes. Else c >> 5 is a length, plus the next byte when it is 7, and (c & 31) * 256 + the
 * byte after a distance: length + 2 bytes are repeated from distance + 1 bytes back. */
typedef enum annb_lzf_result { ANNB_LZF_OK, ANNB_LZF_ROOM, ANNB_LZF_DAMAGED } annb_lzf_result;
annb_lzf_result annb_lzf_decode(const uint8_t *in, size_t n, uint8_t *out, size_t room, size_t *out_n);
/* Bytes written, or 0 when they do not fit `room`. */
size_t annb_lzf_encode(const uint8_t *in, size_t n, uint8_t *out, size_t room);

#endif
