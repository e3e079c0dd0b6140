#include "order_maker.h"

#include "../store/commit/txn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t add_object(annb_txn *txn, const order_array *arrays, size_t n) {
  annb_error err = {0};
  annb_arrays_writer *writer;
  uint32_t array, object;
  OK(annb_arrays_writer_open(txn, &writer, &err));
  for (size_t i = 0; i < n; i++) {
    OK(annb_arrays_begin(writer, arrays[i].name, arrays[i].dtype, arrays[i].n_cols ? arrays[i].n_cols : 1, &array, &err));
    OK(annb_arrays_append(writer, arrays[i].data, arrays[i].n, &err));
    OK(annb_arrays_end(writer, &err));
  }
  OK(annb_arrays_writer_close(writer, &object, &err));
  return object;
}

static void add_part(annb_txn *txn, const order_part *p, uint32_t number, uint32_t matrix) {
  annb_error err = {0};
  annb_part_spec row = {p->x->n_rows, p->x->n_cols, ANNB_NONE, ANNB_NONE, ANNB_NONE, ANNB_NONE};
  annb_matrix_writer *writer;
  annb_matrix_writer_options o = {.n_cols = p->x->n_cols,
                                  .dtype = p->x->dtype,
                                  .form = p->form ? p->form : ANNB_CSR,
                                  .segment_rows = p->segment_rows,
                                  .block_rows = 16,
                                  .tag = {(uint8_t)(number + 1)},
                                  .sort = p->sort,
                                  .gene_order = p->genes};
  order_array genes = {"gene_order", ANNB_U32, p->x->n_cols, 1, p->genes};
  uint32_t part;
  if (p->genes) o.gene_order_object = p->stated ? add_object(txn, p->stated, p->n_stated) : add_object(txn, &genes, 1);
  OK(annb_txn_add_part(txn, &row, &part, &err));
  OK(annb_matrix_writer_open(txn, &o, &writer, &err));
  OK(annb_matrix_writer_append(writer, p->x->n_rows, p->x->indptr, p->x->indices, p->x->values, &err));
  if (p->source) OK(annb_matrix_writer_set_source_order(writer, add_object(txn, p->source, p->n_source), &err));
  OK(annb_matrix_writer_close(writer, part, matrix, NULL, &err));
}

void order_store(const char *path, const order_part *parts, uint32_t n_parts, void (*spoil)(annb_manifest *manifest)) {
  annb_error err = {0};
  annb_txn *txn;
  uint32_t matrix;
  annb_matrix_spec spec = {"X", parts[0].x->n_cols, ANNB_OBS_VAR, parts[0].x->dtype, ANNB_ABSENT_NEVER};
  OK(annb_txn_begin(path, ANNB_TXN_CREATE, &txn, &err));
  OK(annb_txn_add_matrix(txn, &spec, &matrix, &err));
  for (uint32_t i = 0; i < n_parts; i++) add_part(txn, &parts[i], i, matrix);
  if (spoil) spoil(annb_txn_manifest(txn));
  OK(annb_txn_commit(txn, NULL, &err));
}

uint32_t *order_permutation(uint64_t seed, uint32_t n) {
  uint32_t *x = malloc(((size_t)n + 1) * sizeof *x);
  ck_assert_ptr_nonnull(x);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t j = (uint32_t)(maker_next(&seed) % (i + 1));
    x[i] = x[j];
    x[j] = i;
  }
  return x;
}

void order_sort(uint64_t *order, uint64_t n, const uint32_t *key) {
  for (uint64_t i = 1; i < n; i++) {
    uint64_t x = order[i], k = i;
    for (; k > 0 && key[order[k - 1]] > key[x]; k--) order[k] = order[k - 1];
    order[k] = x;
  }
}

uint32_t *order_stored_ids(const order_part *part) {
  const maker_csr *x = part->x;
  uint64_t nnz = x->indptr[x->n_rows];
  uint32_t *ids = malloc((nnz + 1) * sizeof *ids), *inverse = malloc((x->n_cols + 1) * sizeof *inverse);
  ck_assert(ids && inverse);
  for (uint32_t i = 0; i < x->n_cols; i++) inverse[part->genes ? part->genes[i] : i] = i;
  for (uint64_t i = 0; i < nnz; i++) ids[i] = inverse[x->indices[i]];
  free(inverse);
  return ids;
}

uint64_t order_stored_row(const order_part *part, uint64_t row, uint64_t *order) {
  uint64_t first = part->x->indptr[row], n = part->x->indptr[row + 1] - first;
  for (uint64_t i = 0; i < n; i++) order[i] = first + i;
  if (part->sort) {
    uint32_t *ids = order_stored_ids(part);
    order_sort(order, n, ids);
    free(ids);
  }
  return n;
}

static bool keep_first(void *user, const annb_finding *finding) {
  char *message = user;
  if (!*message) snprintf(message, 512, "%s", finding->message);
  return true;
}

uint64_t order_findings(const char *path, char message[512]) {
  annb_error err = {0};
  uint64_t n;
  message[0] = 0;
  OK(annb_verify(path, keep_first, NULL, message, &n, &err));
  return n;
}
