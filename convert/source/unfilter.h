/* Undoing HDF5's filters on one chunk without HDF5, on any thread: deflate (by libdeflate), shuffle, fletcher32 and LZF. */
#ifndef ANNB_CONVERT_UNFILTER_H
#define ANNB_CONVERT_UNFILTER_H

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ANNB_MOST_FILTERS = 4 };

/* A dataset's pipeline, in the order in which writing applies it. */
typedef struct annb_filters {
  int n;
  H5Z_filter_t id[ANNB_MOST_FILTERS];
  size_t element; /* of shuffle: bytes */
} annb_filters;

/* The pipeline of a creation property list; false unless it has filters and all are undone here: each at most once, at most one
 * compressor. */
bool annb_filters_read(hid_t creation, annb_filters *out);

/* Scratch of one thread; a zeroed one is ready. */
typedef struct annb_unfilter {
  struct libdeflate_decompressor *inflater;
  uint8_t *scratch[2];
  size_t room[2];
} annb_unfilter;
void annb_unfilter_free(annb_unfilter *u);

typedef enum annb_unfilter_result {
  ANNB_UNFILTER_OK,
  ANNB_UNFILTER_SHORT,    /* decompresses to fewer bytes than a chunk has */
  ANNB_UNFILTER_LONG,     /* to more */
  ANNB_UNFILTER_DAMAGED,  /* does not decompress */
  ANNB_UNFILTER_CHECKSUM, /* fletcher32 differs */
  ANNB_UNFILTER_MEMORY
} annb_unfilter_result;
/* "gzip stream is damaged" and the like, to follow "its chunk … : the ". */
const char *annb_unfilter_text(annb_unfilter_result result);

/* The chunk in[0 … n) of the file into out[0 … size), exactly. A bit of `skipped` is a filter that was left out when it was written, as
 * HDF5 notes per chunk. */
annb_unfilter_result annb_unfilter_chunk(annb_unfilter *u, const annb_filters *filters, unsigned skipped, const uint8_t *in, size_t n,
                                         uint8_t *out, size_t size);

/* HDF5's checksum of the filter fletcher32: sums modulo 65535 of big-endian words. */
uint32_t annb_fletcher32(const uint8_t *bytes, size_t n);

#endif
