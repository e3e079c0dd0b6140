/* In place of store/codec_lz4.c where the LZ4 library is not: the codec applies to nothing, its records are not valid. */
#include "../../store/codec/codec_kinds.h"

size_t annb_lz4_encode(const annb_row_shape *shape, const uint32_t *indices, const uint8_t *values, uint8_t *out, size_t capacity,
                       annb_scratch *scratch) {
  (void)shape, (void)indices, (void)values, (void)out, (void)capacity, (void)scratch;
  return 0;
}

bool annb_lz4_decode(const annb_row_shape *shape, const uint8_t *record, size_t length, uint32_t *indices, uint8_t *values,
                     annb_scratch *scratch) {
  (void)shape, (void)record, (void)length, (void)indices, (void)values, (void)scratch;
  return false;
}
