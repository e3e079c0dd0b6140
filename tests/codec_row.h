/* One row, its record, and what decoders make of it. */
#ifndef ANNB_TESTS_CODEC_ROW_H
#define ANNB_TESTS_CODEC_ROW_H

#include "codec_help.h"

#include <annblock/annblock.h>
#include <check.h>
#include <stdlib.h>

typedef struct row {
  annb_row_shape shape;
  uint32_t *ids, *out_ids;
  uint8_t *values, *out_values, *record;
  size_t room, length;
  help_row plain;
  annb_scratch scratch;
} row;

static inline size_t vw(const row *r) { return annb_dtype_size(r->shape.dtype); }

/* All zeros. */
static inline row row_new(annb_dtype dtype, uint64_t n_cols, uint32_t n) {
  row r = {.shape = {n_cols, n, dtype}, .room = 13u * n + 600};
  r.ids = calloc(n, 4);
  r.values = calloc(n, 8);
  r.out_ids = calloc(n + ANNB_DECODE_SLACK, 4);
  r.out_values = calloc(n + ANNB_DECODE_SLACK, 8);
  r.record = calloc(1, r.room);
  r.plain.ids = calloc(n, 8);
  r.plain.codes = calloc(n, 8);
  return r;
}

static inline void row_free(row *r) {
  free(r->ids);
  free(r->values);
  free(r->out_ids);
  free(r->out_values);
  free(r->record);
  free(r->plain.ids);
  free(r->plain.codes);
  annb_scratch_free(&r->scratch);
}

typedef bool row_decode(const annb_row_shape *shape, const uint8_t *record, size_t length, uint32_t *ids, uint8_t *values,
                        annb_scratch *scratch);

/* Every kernel gives the row back from its record, and the decoder of the specification its ids; `plain` has what that found. */
static inline void row_assert_decoded(row *r, row_decode *decode) {
  size_t n_kernels;
  const annb_kernel *const *kernels = help_kernels(&n_kernels);
  for (size_t k = 0; k < n_kernels; k++) {
    if (!kernels[k]->usable()) continue;
    r->scratch.kernel = kernels[k];
    ck_assert(decode(&r->shape, r->record, r->length, r->out_ids, r->out_values, &r->scratch));
    ck_assert_mem_eq(r->out_ids, r->ids, 4 * (size_t)r->shape.nnz);
    ck_assert_mem_eq(r->out_values, r->values, vw(r) * (size_t)r->shape.nnz);
  }
  r->scratch.kernel = NULL;
  ck_assert(help_decode(&r->shape, r->record, r->length, &r->plain));
  for (uint32_t i = 0; i < r->shape.nnz; i++) ck_assert_uint_eq(r->plain.ids[i], r->ids[i]);
}

#endif
