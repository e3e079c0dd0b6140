#include "stream.h"
#include "units.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

#define COLLECT_BYTES (UINT64_C(4) << 20) /* for each thread */

struct annb_stream {
  annb_sink sink;
  uint32_t element;    /* bytes in memory; 0: those of the file */
  uint64_t room, n;    /* elements: whole chunks collected at most; collected now */
  uint64_t at;         /* elements written before them */
  uint8_t *buffer;     /* as the file has them */
  uint32_t n_threads, n_slots;
  uint64_t next_chunk, n_chunks; /* of the buffer, while it is written */
  uint64_t *slot_chunk;
  uint8_t **encoded, **work;
  size_t *sizes;
  void **deflaters;
};

static void free_stream(annb_stream *s) {
  for (uint32_t i = 0; s->encoded && i < s->n_slots; i++) free(s->encoded[i]);
  for (uint32_t i = 0; s->work && i < s->n_threads; i++) free(s->work[i]);
  for (uint32_t i = 0; s->deflaters && i < s->n_threads; i++) annb_deflater_close(s->deflaters[i]);
  free(s->encoded);
  free(s->work);
  free(s->deflaters);
  free(s->sizes);
  free(s->slot_chunk);
  free(s->buffer);
  free(s);
}

static bool allocate(annb_stream *s, uint64_t memory) {
  const uint64_t bytes = s->sink.chunk * s->sink.size;
  uint64_t chunks = s->n_threads * COLLECT_BYTES / bytes;
  if (chunks * bytes > memory / 8) chunks = memory / 8 / bytes;
  if (!chunks) chunks = 1;
  s->room = chunks * s->sink.chunk;
  s->n_slots = s->n_threads + 1;
  s->buffer = malloc(s->room * s->sink.size);
  s->encoded = calloc(s->n_slots, sizeof *s->encoded);
  s->sizes = calloc(s->n_slots, sizeof *s->sizes);
  s->slot_chunk = calloc(s->n_slots, sizeof *s->slot_chunk);
  s->work = calloc(s->n_threads, sizeof *s->work);
  s->deflaters = calloc(s->n_threads, sizeof *s->deflaters);
  if (!s->buffer || !s->encoded || !s->sizes || !s->slot_chunk || !s->work || !s->deflaters) return false;
  for (uint32_t i = 0; i < s->n_slots; i++)
    if (!(s->encoded[i] = malloc(annb_sink_room(&s->sink)))) return false;
  for (uint32_t i = 0; i < s->n_threads; i++)
    if (!(s->work[i] = malloc(bytes)) || !(s->deflaters[i] = annb_deflater_open(s->sink.level))) return false;
  return true;
}

annb_status annb_stream_begin(const annb_fill *fill, annb_target *target, uint32_t element, annb_error *err) {
  annb_sink sink;
  target->stream = NULL;
  if (!annb_sink_open_chunks(&sink, target, fill->out_name, element) || !sink.level) return ANNB_OK;
  annb_stream *s = calloc(1, sizeof *s);
  if (!s) return annb_fail_memory(err);
  s->sink = sink;
  s->element = element;
  s->n_threads = annb_units_threads(fill->n_threads);
  if (s->n_threads > 16) s->n_threads = 16;
  if (!allocate(s, fill->memory)) {
    free_stream(s);
    return annb_fail_memory(err);
  }
  target->stream = s;
  return ANNB_OK;
}

/* ---- writing what has been collected ---- */

static annb_status next(void *user, uint32_t slot, bool *more, annb_error *err) {
  annb_stream *s = user;
  (void)err;
  *more = s->next_chunk < s->n_chunks;
  if (*more) s->slot_chunk[slot] = s->next_chunk++;
  return ANNB_OK;
}

static annb_status work(void *user, uint32_t thread, uint32_t slot, annb_error *err) {
  annb_stream *s = user;
  const uint8_t *from = s->buffer + s->slot_chunk[slot] * s->sink.chunk * s->sink.size;
  return annb_sink_encode(&s->sink, s->deflaters[thread], from, s->work[thread], s->encoded[slot], &s->sizes[slot], err);
}

static annb_status take(void *user, uint32_t slot, uint64_t *done, annb_error *err) {
  annb_stream *s = user;
  (void)done;
  return annb_sink_put(&s->sink, s->at / s->sink.chunk + s->slot_chunk[slot], s->encoded[slot], s->sizes[slot], err);
}

static annb_status flush(annb_stream *s, annb_error *err) {
  const uint64_t rest = s->n % s->sink.chunk;
  const hsize_t length = s->at + s->n;
  if (!s->n) return ANNB_OK;
  if (s->sink.target->grows && H5Dset_extent(s->sink.target->dataset, &length) < 0)
    return annb_h5_fail(err, ANNB_EIO, s->sink.file, s->sink.target->path, "the dataset cannot be made longer");
  if (rest) memset(s->buffer + s->n * s->sink.size, 0, (s->sink.chunk - rest) * s->sink.size); /* the last chunk of all */
  s->next_chunk = 0;
  s->n_chunks = (s->n + s->sink.chunk - 1) / s->sink.chunk;
  const annb_units units = {s->n_threads, s->n_slots, s, next, work, take, NULL};
  annb_status status = annb_units_run(&units, err);
  s->at += s->n;
  s->n = 0;
  return status;
}

static void collect(annb_stream *s, uint64_t n, const uint8_t *from) {
  const uint32_t size = s->sink.size, element = s->element ? s->element : size;
  uint8_t *to = s->buffer + s->n * size;
  s->n += n;
  if (element == size) {
    memcpy(to, from, n * size);
    return;
  }
  for (uint64_t i = 0; i < n; i++) { /* numbers that are not negative */
    uint64_t number = 0;
    memcpy(&number, from + i * element, element);
    memcpy(to + i * size, &number, size);
  }
}

annb_status annb_stream_write(annb_stream *s, uint64_t first, uint64_t n, const void *elements, annb_error *err) {
  const uint8_t *from = elements;
  const uint32_t element = s->element ? s->element : s->sink.size;
  annb_status status = ANNB_OK;
  if (first != s->at + s->n)
    return annb_h5_fail(err, ANNB_EINVAL, s->sink.file, s->sink.target->path, "its elements do not follow one another");
  if (!s->sink.target->grows && n > s->sink.length - first)
    return annb_h5_fail(err, ANNB_ECORRUPT, s->sink.file, s->sink.target->path, "has more elements than stated");
  while (!status && n) {
    uint64_t piece = s->room - s->n < n ? s->room - s->n : n;
    collect(s, piece, from);
    from += piece * element;
    n -= piece;
    if (s->n == s->room) status = flush(s, err);
  }
  return status;
}

annb_status annb_stream_end(annb_target *target, annb_error *err) {
  annb_status s = target->stream ? flush(target->stream, err) : ANNB_OK;
  annb_stream_abort(target);
  return s;
}

void annb_stream_abort(annb_target *target) {
  if (target->stream) free_stream(target->stream);
  target->stream = NULL;
}
