/* Rows as records, encoded on any thread and without a place in a segment yet. */
#ifndef ANNB_STORE_ENCODE_H
#define ANNB_STORE_ENCODE_H

#include "codec.h"
#include "row_sort.h"

typedef struct annb_encode_rule {
  uint64_t n_cols, codecs; /* codecs: allowed */
  annb_dtype dtype;
  bool sort;                 /* rows by stored id, stably */
  const uint32_t *to_stored; /* column → stored id, a permutation, or NULL */
} annb_encode_rule;

/* Memory of one thread; zero-initialise. */
typedef struct annb_encoder {
  annb_scratch scratch;
  annb_row_sorter sorter;
} annb_encoder;
void annb_encoder_free(annb_encoder *encoder);

typedef struct annb_record {
  uint64_t end, hash; /* end: in `bytes`, where the next one starts */
  uint32_t nnz;
} annb_record;

/* Records of neighbouring rows; zero-initialise. The memory serves the next rows too. */
typedef struct annb_records {
  uint64_t n_rows;
  uint8_t *bytes;
  annb_record *records;
  uint64_t bytes_room, records_room;
} annb_records;
void annb_records_free(annb_records *records);

/* Rows as annb_matrix_writer_append takes them: their pointers do not descend and no row is longer than ANNB_MAX_ROW_NNZ. False when memory
 * is short or an index is not below n_cols. */
bool annb_encode_rows(const annb_encode_rule *rule, annb_encoder *encoder, uint64_t n_rows, const uint64_t *indptr, const uint32_t *indices,
                      const uint8_t *values, annb_records *out);

#endif
