/* Codec 2 (SPEC.md 3.5): byte planes of index deltas and of values, as one LZ4 block. */
#include "codec_kinds.h"

#include <annblock/annblock.h>
#include <limits.h>
#include <lz4.h>
#include <string.h>

enum { FIXED = 2, SLOT_PLANES = 0, SLOT_PACKED = 1, MAX_EXPANSION = 255 /* output bytes per input byte of LZ4, at most */ };

static void split_indices(const uint32_t *indices, size_t n, unsigned iw, uint8_t *planes) {
  uint32_t last = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t delta = indices[i] - last;
    last = indices[i];
    for (unsigned j = 0; j < iw; j++) planes[j * n + i] = (uint8_t)(delta >> 8 * j);
  }
}

static void join_indices(const uint8_t *planes, size_t n, unsigned iw, uint32_t *indices) {
  uint32_t last = 0, mask = iw == 4 ? UINT32_MAX : (UINT32_C(1) << 8 * iw) - 1;
  for (size_t i = 0; i < n; i++) {
    for (unsigned j = 0; j < iw; j++) last += (uint32_t)planes[j * n + i] << 8 * j;
    indices[i] = last &= mask;
  }
}

static void split_values(const uint8_t *values, size_t n, size_t vw, uint8_t *planes) {
  for (size_t j = 0; j < vw; j++)
    for (size_t i = 0; i < n; i++) planes[j * n + i] = values[i * vw + j];
}

static void join_values(const uint8_t *planes, size_t n, size_t vw, uint8_t *values) {
  for (size_t j = 0; j < vw; j++)
    for (size_t i = 0; i < n; i++) values[i * vw + j] = planes[j * n + i];
}

size_t annb_lz4_encode(const annb_row_shape *shape, const uint32_t *indices, const uint8_t *values, uint8_t *out, size_t capacity,
                       annb_scratch *scratch) {
  size_t n = shape->nnz, vw = annb_dtype_size(shape->dtype);
  unsigned iw = annb_index_bytes(shape, indices);
  size_t size = n * (iw + vw);
  if (n == 0 || vw == 0 || size > LZ4_MAX_INPUT_SIZE) return 0;
  /* room for the worst case: with less, LZ4 may give up on a block that would just have fitted */
  int bound = LZ4_compressBound((int)size);
  uint8_t *planes = annb_scratch_get(scratch, SLOT_PLANES, size);
  uint8_t *packed = annb_scratch_get(scratch, SLOT_PACKED, (size_t)bound);
  if (!planes || !packed) return 0;
  split_indices(indices, n, iw, planes);
  split_values(values, n, vw, planes + n * iw);
  int length = LZ4_compress_default((const char *)planes, (char *)packed, (int)size, bound);
  if (length <= 0 || capacity < FIXED || (size_t)length > capacity - FIXED) return 0;
  out[0] = ANNB_CODEC_LZ4;
  out[1] = (uint8_t)iw;
  memcpy(out + FIXED, packed, (size_t)length);
  return FIXED + (size_t)length;
}

bool annb_lz4_decode(const annb_row_shape *shape, const uint8_t *record, size_t length, uint32_t *indices, uint8_t *values,
                     annb_scratch *scratch) {
  size_t n = shape->nnz, vw = annb_dtype_size(shape->dtype);
  if (length < FIXED || length - FIXED > INT_MAX || !annb_index_bytes_valid(shape, record[1])) return false;
  unsigned iw = record[1];
  size_t size = n * (iw + vw);
  /* the second test keeps a short record from asking for much memory */
  if (size > LZ4_MAX_INPUT_SIZE || size / MAX_EXPANSION > length) return false;
  uint8_t *planes = annb_scratch_get(scratch, SLOT_PLANES, size);
  if (!planes) return false;
  int got = LZ4_decompress_safe((const char *)record + FIXED, (char *)planes, (int)(length - FIXED), (int)size);
  if (got < 0 || (size_t)got != size) return false;
  if (iw == 0) annb_index_fill(indices, n);
  else join_indices(planes, n, iw, indices);
  join_values(planes + n * iw, n, vw, values);
  return annb_indices_below(indices, n, shape->n_cols);
}
