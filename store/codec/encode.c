#include "encode.h"

#include "codec_kinds.h"
#include "../cursor.h"
#include "../hash.h"

#include <annblock/annblock.h>
#include <stdlib.h>

void annb_encoder_free(annb_encoder *encoder) {
  annb_scratch_free(&encoder->scratch);
  annb_row_sorter_free(&encoder->sorter);
}

void annb_records_free(annb_records *records) {
  free(records->bytes);
  free(records->records);
  *records = (annb_records){0};
}

static bool grow(void **data, uint64_t *room, uint64_t need, size_t size) {
  if (need <= *room) return true;
  uint64_t more = need + need / 2, bytes;
  void *p = annb_mul(more, size, &bytes) && bytes <= SIZE_MAX / 2 ? realloc(*data, (size_t)bytes) : NULL;
  if (!p) return false;
  *data = p;
  *room = more;
  return true;
}

static bool bytes_room(annb_records *r, uint64_t need) {
  void *p = r->bytes;
  bool ok = grow(&p, &r->bytes_room, need, 1);
  r->bytes = p;
  return ok;
}

static bool records_room(annb_records *r, uint64_t need) {
  void *p = r->records;
  bool ok = grow(&p, &r->records_room, need, sizeof *r->records);
  r->records = p;
  return ok;
}

static bool encode_row(const annb_encode_rule *rule, annb_encoder *e, uint32_t nnz, const uint32_t *indices, const uint8_t *values,
                       annb_records *out, uint64_t *used) {
  const annb_row_sort_rule sort = {rule->to_stored, rule->sort, rule->n_cols, (uint32_t)annb_dtype_size(rule->dtype)};
  const annb_row_shape shape = {rule->n_cols, nnz, rule->dtype};
  if (!annb_indices_below(indices, nnz, rule->n_cols) || !annb_row_arrange(&e->sorter, &sort, nnz, &indices, &values)) return false;
  if (!bytes_room(out, *used + annb_record_bound(&shape))) return false;
  uint8_t *record = out->bytes + *used;
  const size_t length = annb_record_encode(&shape, rule->codecs, indices, values, record, &e->scratch);
  *used += length;
  out->records[out->n_rows++] = (annb_record){*used, annb_hash64(record, length), nnz};
  return length || !nnz;
}

bool annb_encode_rows(const annb_encode_rule *rule, annb_encoder *encoder, uint64_t n_rows, const uint64_t *indptr, const uint32_t *indices,
                      const uint8_t *values, annb_records *out) {
  const size_t size = annb_dtype_size(rule->dtype);
  uint64_t used = 0;
  out->n_rows = 0;
  bool ok = records_room(out, n_rows);
  for (uint64_t i = 0; i < n_rows && ok; i++) {
    const uint64_t from = indptr[i] - indptr[0];
    const uint32_t nnz = (uint32_t)(indptr[i + 1] - indptr[i]);
    ok = encode_row(rule, encoder, nnz, nnz ? indices + from : NULL, nnz ? values + from * size : NULL, out, &used);
  }
  return ok;
}
