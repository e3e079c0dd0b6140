/* Ways into a one-dimensional dataset that need no HDF5 for each write: contiguous ones by their place in the file, chunked ones by whole
 * chunks that are filtered here. */
#ifndef ANNB_CONVERT_SINK_H
#define ANNB_CONVERT_SINK_H

#include "driver.h"
#include "fill.h"

typedef enum annb_sink_kind { ANNB_SINK_NONE, ANNB_SINK_PLACE, ANNB_SINK_CHUNKS } annb_sink_kind;

typedef struct annb_sink {
  annb_sink_kind kind;
  const char *file; /* for messages */
  const annb_target *target;
  uint32_t size;    /* of an element in the file */
  uint64_t length;
  annb_written *written; /* place: the file's, as long as it is open */
  uint64_t offset;
  uint64_t chunk;   /* chunks: elements */
  bool shuffle;
  int level;        /* of gzip; 0: none */
} annb_sink;

/* False: HDF5 has to write this one, or HDF5 failed. `element`: bytes of an element in memory, whose value the file's type keeps when it is
 * cut to or extended by zeros to its own size; 0: elements are the same in memory and file. */
bool annb_sink_open(annb_sink *sink, const annb_target *target, hid_t file, const char *file_name, uint32_t element);

/* The same for chunked datasets alone, also those that grow. */
bool annb_sink_open_chunks(annb_sink *sink, const annb_target *target, const char *file_name, uint32_t element);

/* Place: write elements, any thread. */
annb_status annb_sink_write(const annb_sink *sink, uint64_t first, uint64_t n, const void *elements, annb_error *err);

/* Chunks: filter one, any thread. `elements` has sink->chunk of them; `work` and `out` have room for annb_sink_room bytes. *size is that of
 * `out`. */
size_t annb_sink_room(const annb_sink *sink);
annb_status annb_sink_encode(const annb_sink *sink, void *deflater, const uint8_t *elements, uint8_t *work, uint8_t *out, size_t *size,
                             annb_error *err);
/* Write an encoded chunk; HDF5 is called. */
annb_status annb_sink_put(const annb_sink *sink, uint64_t number, const uint8_t *bytes, size_t size, annb_error *err);

/* What encoding needs, one per thread; NULL when there is no memory. `level`: sink->level, 1 to 9. */
void *annb_deflater_open(int level);
void annb_deflater_close(void *deflater);

#endif
