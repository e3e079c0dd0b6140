/* The single codecs behind the table of codec.c, and what they share. Scratch slots 0–2 are a codec's own during one call;
 * slot 3 belongs to annb_record_encode, slots 4 and 5 to decoders. */
#ifndef ANNB_STORE_CODEC_KINDS_H
#define ANNB_STORE_CODEC_KINDS_H

#include "codec.h"

size_t annb_plain_encode(const annb_row_shape *shape, const uint32_t *indices, const uint8_t *values, uint8_t *out, size_t capacity,
                         annb_scratch *scratch);
bool annb_plain_decode(const annb_row_shape *shape, const uint8_t *record, size_t length, uint32_t *indices, uint8_t *values,
                       annb_scratch *scratch);

size_t annb_lz4_encode(const annb_row_shape *shape, const uint32_t *indices, const uint8_t *values, uint8_t *out, size_t capacity,
                       annb_scratch *scratch);
bool annb_lz4_decode(const annb_row_shape *shape, const uint8_t *record, size_t length, uint32_t *indices, uint8_t *values,
                     annb_scratch *scratch);

size_t annb_count_encode(const annb_row_shape *shape, const uint32_t *indices, const uint8_t *values, uint8_t *out, size_t capacity,
                         annb_scratch *scratch);
bool annb_count_decode(const annb_row_shape *shape, const uint8_t *record, size_t length, uint32_t *indices, uint8_t *values,
                       annb_scratch *scratch);

size_t annb_dict_encode(const annb_row_shape *shape, const uint32_t *indices, const uint8_t *values, uint8_t *out, size_t capacity,
                        annb_scratch *scratch);
bool annb_dict_decode(const annb_row_shape *shape, const uint8_t *record, size_t length, uint32_t *indices, uint8_t *values,
                      annb_scratch *scratch);

/* The `iw` a writer uses: 0 when the row is 0 … n_cols−1 in order, else the smallest width that holds n_cols − 1. */
unsigned annb_index_bytes(const annb_row_shape *shape, const uint32_t *indices);

/* Whether a record's `iw` is one of 0, 1, 2, 4, and 0 only for a row of n_cols elements. */
bool annb_index_bytes_valid(const annb_row_shape *shape, unsigned iw);

/* Indices 0 … n−1. */
void annb_index_fill(uint32_t *indices, size_t n);

/* Whether all n indices are below n_cols. */
bool annb_indices_below(const uint32_t *indices, size_t n, uint64_t n_cols);

#endif
