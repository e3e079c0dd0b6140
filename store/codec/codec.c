#include "codec_kinds.h"
#include "encode_loops.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

enum { SCRATCH_ALIGN = 64, SLOT_CANDIDATE = 3, FIXED = 2 /* bytes of a plain record before its arrays */ };

static const annb_codec codecs_table[] = {
    {ANNB_CODEC_PLAIN, "plain", annb_plain_encode, annb_plain_decode},
    {ANNB_CODEC_LZ4, "lz4", annb_lz4_encode, annb_lz4_decode},
    {ANNB_CODEC_COUNT, "count", annb_count_encode, annb_count_decode},
    {ANNB_CODEC_DICT, "dict", annb_dict_encode, annb_dict_decode},
};

const annb_codec *annb_codecs(size_t *n) {
  *n = sizeof codecs_table / sizeof *codecs_table;
  return codecs_table;
}

void *annb_scratch_get(annb_scratch *scratch, unsigned slot, size_t size) {
  if (scratch->data[slot] && scratch->size[slot] >= size) return scratch->data[slot];
  if (size > SIZE_MAX / 2) return NULL;
  /* half as much again, so that slowly growing rows do not reallocate each time */
  size_t room = (size + size / 2 + SCRATCH_ALIGN) / SCRATCH_ALIGN * SCRATCH_ALIGN;
  free(scratch->data[slot]);
  scratch->data[slot] = aligned_alloc(SCRATCH_ALIGN, room);
  scratch->size[slot] = scratch->data[slot] ? room : 0;
  return scratch->data[slot];
}

void annb_scratch_free(annb_scratch *scratch) {
  for (unsigned i = 0; i < sizeof scratch->data / sizeof *scratch->data; i++) free(scratch->data[i]);
  memset(scratch, 0, sizeof *scratch);
}

static unsigned width_for(uint64_t n_cols) { return n_cols <= UINT64_C(1) << 8 ? 1 : n_cols <= UINT64_C(1) << 16 ? 2 : 4; }

unsigned annb_index_bytes(const annb_row_shape *shape, const uint32_t *indices) {
  unsigned width = width_for(shape->n_cols);
  if (shape->nnz != shape->n_cols) return width;
  for (uint32_t i = 0; i < shape->nnz; i++)
    if (indices[i] != i) return width;
  return 0;
}

bool annb_index_bytes_valid(const annb_row_shape *shape, unsigned iw) {
  return iw == 0 ? shape->nnz == shape->n_cols : iw == 1 || iw == 2 || iw == 4;
}

void annb_index_fill(uint32_t *indices, size_t n) {
  for (size_t i = 0; i < n; i++) indices[i] = (uint32_t)i;
}

bool annb_indices_below(const uint32_t *indices, size_t n, uint64_t n_cols) {
  return n == 0 || annb_encode_loops_best()->highest(indices, n) < n_cols;
}

size_t annb_record_bound(const annb_row_shape *shape) {
  return shape->nnz ? FIXED + (size_t)shape->nnz * (width_for(shape->n_cols) + annb_dtype_size(shape->dtype)) : 0;
}

/* Encode with one of the Rice coders if that is good enough at once: others cost time and would seldom win. */
static size_t encode_rice(const annb_row_shape *shape, uint64_t codecs, const uint32_t *indices, const uint8_t *values, uint8_t *out,
                          size_t capacity, annb_scratch *scratch) {
  size_t enough = 2 * (size_t)shape->nnz < capacity ? 2 * (size_t)shape->nnz : capacity, length = 0;
  if (codecs >> ANNB_CODEC_COUNT & 1) length = annb_count_encode(shape, indices, values, out, enough, scratch);
  if (length == 0 && (codecs >> ANNB_CODEC_DICT & 1)) length = annb_dict_encode(shape, indices, values, out, enough, scratch);
  return length;
}

size_t annb_record_encode(const annb_row_shape *shape, uint64_t codecs, const uint32_t *indices, const uint8_t *values, uint8_t *out,
                          annb_scratch *scratch) {
  if (shape->nnz == 0) return 0;
  size_t best = FIXED + (size_t)shape->nnz * (annb_index_bytes(shape, indices) + annb_dtype_size(shape->dtype)), n;
  uint8_t *spare = NULL, *winner = NULL; /* no winner: plain, encoded only when nothing beats it */
  size_t quick = encode_rice(shape, codecs, indices, values, out, best - 1, scratch);
  if (quick) return quick;
  const annb_codec *table = annb_codecs(&n);
  for (size_t i = 0; i < n; i++) {
    if (table[i].id == ANNB_CODEC_PLAIN || !(codecs >> table[i].id & 1)) continue;
    if (winner == out && !spare && !(spare = annb_scratch_get(scratch, SLOT_CANDIDATE, annb_record_bound(shape)))) break;
    uint8_t *target = winner == out ? spare : out;
    size_t length = table[i].encode(shape, indices, values, target, best - 1, scratch);
    if (length == 0) continue;
    best = length;
    winner = target;
  }
  if (!winner) return annb_plain_encode(shape, indices, values, out, best, scratch);
  if (winner != out) memcpy(out, winner, best);
  return best;
}

bool annb_record_decode(const annb_row_shape *shape, const uint8_t *record, size_t length, uint32_t *indices, uint8_t *values,
                        annb_scratch *scratch) {
  if (shape->nnz == 0) return length == 0;
  if (length < 1 || shape->nnz > ANNB_MAX_ROW_NNZ || shape->n_cols > ANNB_MAX_COLS || !annb_dtype_size(shape->dtype)) return false;
  size_t n;
  const annb_codec *table = annb_codecs(&n);
  for (size_t i = 0; i < n; i++)
    if (table[i].id == (annb_codec_id)record[0]) return table[i].decode(shape, record, length, indices, values, scratch);
  return false;
}
