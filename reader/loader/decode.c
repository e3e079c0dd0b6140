/* One batch from its records, each decoded once, into the memory that the consumer gets. */
#include "loader_internal.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <annblock/annblock.h>

enum { INDPTR, INDICES, VALUES, AHEAD = 6 };

static annb_status too_large(annb_error *err) {
  return annb_fail(err, ANNB_ERANGE, NULL, "a batch has more than 2^31 - 1 elements; use a smaller batch size or int64 indices");
}

typedef struct job {
  const annb_loader *loader;
  const annb_located *rows; /* of the batch */
  uint64_t n;
  annb_context *context;
  annb_slot *slot;
} job;

static annb_status decode_csr(const job *j, uint32_t matrix, annb_error *err) {
  const annb_loader_source *source = &j->loader->matrices[matrix];
  annb_batch_matrix *out = &j->slot->matrices[matrix];
  annb_slot_buffer *buffers = j->slot->buffers[matrix];
  uint64_t most = 0, index_size = source->fetch.index64 ? 8 : 4;
  for (uint64_t i = 0; i < j->n; i++) most += j->rows[i].record.nnz;
  if (!source->fetch.index64 && most > INT32_MAX) return too_large(err);
  uint64_t room = most + ANNB_DECODE_SLACK;
  int64_t *indptr = annb_slot_room(&buffers[INDPTR], (size_t)(j->n + 1) * sizeof *indptr);
  void *indices = annb_slot_room(&buffers[INDICES], (size_t)(room * index_size));
  void *values = annb_slot_room(&buffers[VALUES], (size_t)(room * annb_dtype_size(source->fetch.dtype)));
  if (!indptr || !indices || !values) return annb_fail_memory(err);
  annb_status s = ANNB_OK;
  indptr[0] = 0;
  for (uint64_t i = 0; !s && i < j->n; i++) {
    annb_located row = j->rows[i];
    if (i + AHEAD < j->n) annb_record_prefetch(&j->rows[i + AHEAD].record);
    s = annb_put_csr_row(j->loader->store, j->context, &source->fetch, indices, values, room, (uint64_t)indptr[i], &row, err);
    indptr[i + 1] = indptr[i] + row.record.nnz;
  }
  *out = (annb_batch_matrix){.index64 = source->fetch.index64, .dtype = source->fetch.dtype, .n_cols = source->n_delivered};
  out->nnz = (uint64_t)indptr[s ? 0 : j->n];
  out->indptr = indptr;
  out->indices = indices;
  out->values = values;
  return s;
}

static annb_status decode_dense(const job *j, uint32_t matrix, annb_error *err) {
  const annb_loader_source *source = &j->loader->matrices[matrix];
  uint64_t size = 0, length = source->n_delivered * annb_dtype_size(source->fetch.dtype);
  bool fits = annb_mul(length, j->n, &size) && size <= SIZE_MAX / 2;
  uint8_t *values = fits ? annb_slot_room(&j->slot->buffers[matrix][VALUES], (size_t)size) : NULL;
  if (!values) return annb_fail_memory(err);
  annb_status s = ANNB_OK;
  for (uint64_t i = 0; !s && i < j->n; i++) {
    annb_located row = j->rows[i];
    if (i + AHEAD < j->n) annb_record_prefetch(&j->rows[i + AHEAD].record);
    s = annb_put_dense_row(j->loader->store, j->context, &row, &source->fetch, values + i * length, (size_t)length, err);
  }
  j->slot->matrices[matrix] =
      (annb_batch_matrix){.dense = true, .dtype = source->fetch.dtype, .n_cols = source->n_delivered, .values = values};
  return s;
}

annb_status annb_decode_batch(const annb_loader *loader, const annb_unit *unit, uint64_t step, annb_context *context, annb_slot *slot,
                              uint64_t *bytes, annb_error *err) {
  uint64_t first = unit->batch_first[step - unit->first], n = unit->batch_first[step - unit->first + 1] - first;
  annb_status s = ANNB_OK;
  uint64_t *rows = annb_slot_room(&slot->rows, (size_t)(n + 1) * sizeof *rows);
  if (!rows) return annb_fail_memory(err);
  memcpy(rows, unit->rows + first, (size_t)n * sizeof *rows);
  slot->n_rows = n;
  slot->batch = unit->batches[step - unit->first];
  for (uint32_t i = 0; !s && i < loader->n_matrices; i++) {
    job j = {.loader = loader, .rows = unit->records[i] + first, .n = n, .context = context, .slot = slot};
    for (uint64_t k = 0; k < n; k++) *bytes += j.rows[k].record.length;
    for (uint64_t k = 0; k < n && k < AHEAD; k++) annb_record_prefetch(&j.rows[k].record);
    s = loader->matrices[i].dense ? decode_dense(&j, i, err) : decode_csr(&j, i, err);
  }
  for (uint32_t i = 0; !s && i < loader->n_labels; i++) {
    slot->labels[i] = annb_slot_room(&slot->label_buffers[i], (size_t)(n + 1) * sizeof **slot->labels);
    s = slot->labels[i] ? annb_store_column_codes(loader->labels[i], rows, (size_t)n, slot->labels[i], err) : annb_fail_memory(err);
  }
  return s;
}
