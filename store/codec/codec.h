/* Record codecs (SPEC.md 3.5). One record is one row. */
#ifndef ANNB_STORE_CODEC_H
#define ANNB_STORE_CODEC_H

#include <annblock/format.h>
#include <annblock/status.h>
#include <stdbool.h>
#include <stddef.h>

/* Growable scratch memory, one per thread; zero-initialise, free with annb_scratch_free. */
typedef struct annb_scratch {
  uint8_t *data[6];
  size_t size[6];
  const struct annb_kernel *kernel; /* of kernels/kernels.h; NULL = the best of this machine */
  const struct annb_encode_loops *loops; /* of encode_loops.h, likewise */
} annb_scratch;

/* At least `size` bytes in slot `slot` (contents undefined, 64-byte aligned), or NULL. */
void *annb_scratch_get(annb_scratch *scratch, unsigned slot, size_t size);
void annb_scratch_free(annb_scratch *scratch);

/* What is known of a row beside its record. */
typedef struct annb_row_shape {
  uint64_t n_cols;
  uint32_t nnz;
  annb_dtype dtype;
} annb_row_shape;

/* A decoder may write up to this many elements past nnz in `indices` and `values`, to be fast: callers give the room. */
#define ANNB_DECODE_SLACK 128

typedef struct annb_codec {
  annb_codec_id id;
  const char *name;
  /* Encode into `out`; returns the record's length, or 0 when it does not apply, is longer than `capacity` or memory is short. */
  size_t (*encode)(const annb_row_shape *shape, const uint32_t *indices, const uint8_t *values, uint8_t *out, size_t capacity,
                   annb_scratch *scratch);
  /* Decode `length` bytes (byte 0 is the codec). False when the record is not valid in any way, whatever its bytes, or memory is
   * short: then err-less; the caller says corrupt. Never reads outside the record or writes outside nnz + slack elements. */
  bool (*decode)(const annb_row_shape *shape, const uint8_t *record, size_t length, uint32_t *indices, uint8_t *values,
                 annb_scratch *scratch);
} annb_codec;

/* All codecs, in order of id. */
const annb_codec *annb_codecs(size_t *n);
#define ANNB_KNOWN_CODECS                                                                                                                  \
  ((UINT64_C(1) << ANNB_CODEC_PLAIN) | (UINT64_C(1) << ANNB_CODEC_LZ4) | (UINT64_C(1) << ANNB_CODEC_COUNT) |                               \
   (UINT64_C(1) << ANNB_CODEC_DICT))

/* Room that the smallest record of such a row never exceeds: the size of plain. 0 for nnz = 0. */
size_t annb_record_bound(const annb_row_shape *shape);

/* Encode with the codec among `codecs` (bit i = codec i; plain is always tried) that SPEC.md 3.5 says. Returns the length, 0 for nnz = 0;
 * `out` has room for annb_record_bound bytes. */
size_t annb_record_encode(const annb_row_shape *shape, uint64_t codecs, const uint32_t *indices, const uint8_t *values, uint8_t *out,
                          annb_scratch *scratch);

/* Decode any codec; nnz = 0 needs length = 0. False as above. */
bool annb_record_decode(const annb_row_shape *shape, const uint8_t *record, size_t length, uint32_t *indices, uint8_t *values,
                        annb_scratch *scratch);

#endif
