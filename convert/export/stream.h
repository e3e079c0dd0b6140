/* A dataset of compressed chunks written from its start on: chunks are collected and compressed by several threads. */
#ifndef ANNB_CONVERT_STREAM_H
#define ANNB_CONVERT_STREAM_H

#include "sink.h"

/* Begin one for the target when that is possible and worth it; target->stream is NULL otherwise. `element` as for annb_sink_open. Writes to
 * the target must follow one another from then on. */
annb_status annb_stream_begin(const annb_fill *fill, annb_target *target, uint32_t element, annb_error *err);
annb_status annb_stream_write(annb_stream *stream, uint64_t first, uint64_t n, const void *elements, annb_error *err);
/* Write what is left. Ends the stream in any case; nothing to do when there is none. */
annb_status annb_stream_end(annb_target *target, annb_error *err);
void annb_stream_abort(annb_target *target);

#endif
