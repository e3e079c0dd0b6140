/* The values of a dataset of one dimension, read from front to back by many threads. Each chunk is decompressed once, by whichever thread
 * comes first, and lives as long as pieces need it. */
#ifndef ANNB_CONVERT_STREAM_H
#define ANNB_CONVERT_STREAM_H

#include "values.h"

typedef struct annb_stream annb_stream;

/* Values as `memory_type`, which must outlive the stream as `v` must; `n_workers` threads. */
annb_status annb_stream_open(const annb_values *v, hid_t memory_type, uint32_t n_workers, annb_stream **out, annb_error *err);
void annb_stream_close(annb_stream *stream); /* NULL is allowed */

/* One call at a time, piece after piece without gaps: what only HDF5 can do for the values [first, first + n). Where it has to read them
 * they are in `out` then, and *ready is true; else annb_stream_read has to be called for the piece, once, whatever happens. */
annb_status annb_stream_prepare(annb_stream *stream, uint64_t first, uint64_t n, void *out, bool *ready, annb_error *err);
/* On any thread, `worker` as in annb_pipeline. */
annb_status annb_stream_read(annb_stream *stream, uint32_t worker, uint64_t first, uint64_t n, void *out, annb_error *err);

#endif
