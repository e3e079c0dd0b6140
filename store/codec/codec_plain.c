/* Codec 1 (SPEC.md 3.5): the arrays as they are, indices narrowed. */
#include "codec_kinds.h"

#include <annblock/annblock.h>
#include <string.h>

enum { FIXED = 2 };

static void narrow(const uint32_t *indices, size_t n, unsigned iw, uint8_t *out) {
  if (iw == 1) {
    for (size_t i = 0; i < n; i++) out[i] = (uint8_t)indices[i];
  } else if (iw == 2) {
    for (size_t i = 0; i < n; i++) {
      uint16_t x = (uint16_t)indices[i];
      memcpy(out + 2 * i, &x, sizeof x);
    }
  } else if (iw == 4) {
    memcpy(out, indices, 4 * n);
  }
}

static void widen(const uint8_t *in, size_t n, unsigned iw, uint32_t *indices) {
  if (iw == 0) {
    annb_index_fill(indices, n);
  } else if (iw == 1) {
    for (size_t i = 0; i < n; i++) indices[i] = in[i];
  } else if (iw == 2) {
    for (size_t i = 0; i < n; i++) {
      uint16_t x;
      memcpy(&x, in + 2 * i, sizeof x);
      indices[i] = x;
    }
  } else {
    memcpy(indices, in, 4 * n);
  }
}

size_t annb_plain_encode(const annb_row_shape *shape, const uint32_t *indices, const uint8_t *values, uint8_t *out, size_t capacity,
                         annb_scratch *scratch) {
  (void)scratch;
  size_t n = shape->nnz, vw = annb_dtype_size(shape->dtype);
  unsigned iw = annb_index_bytes(shape, indices);
  size_t length = FIXED + n * (iw + vw);
  if (n == 0 || vw == 0 || length > capacity) return 0;
  out[0] = ANNB_CODEC_PLAIN;
  out[1] = (uint8_t)iw;
  narrow(indices, n, iw, out + FIXED);
  memcpy(out + FIXED + n * iw, values, n * vw);
  return length;
}

bool annb_plain_decode(const annb_row_shape *shape, const uint8_t *record, size_t length, uint32_t *indices, uint8_t *values,
                       annb_scratch *scratch) {
  (void)scratch;
  size_t n = shape->nnz, vw = annb_dtype_size(shape->dtype);
  if (length < FIXED || !annb_index_bytes_valid(shape, record[1])) return false;
  unsigned iw = record[1];
  if (length != FIXED + n * (iw + vw)) return false;
  widen(record + FIXED, n, iw, indices);
  memcpy(values, record + FIXED + n * iw, n * vw);
  return annb_indices_below(indices, n, shape->n_cols);
}
