/* Fuzz target: any bytes as a record. Every kernel must agree with the scalar one, on validity and on every value; ids must be in range.
 * With -fsanitize=fuzzer it is a libFuzzer target; with tests/fuzz/standalone.c it mutates records of its own making. */
#include "../../store/codec/codec.h"
#include "../../store/codec/deliver.h"
#include "../../store/kernels/kernels.h"
#include "../codec_help.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NNZ = 1024, MAX_BYTES = 8192, ROOM = MAX_NNZ + ANNB_DECODE_SLACK, HEAD = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Memory that lasts over the run. */
typedef struct fuzz {
  annb_scratch scratch;
  uint32_t ids[2][ROOM];
  uint8_t values[2][8 * ROOM];
  float dense[2][70000];
} fuzz;

static void require(int ok) {
  if (!ok) abort();
}

static void deliver(fuzz *f, const annb_row_shape *shape, const uint8_t *record, size_t length, const annb_gene_table *table, bool valid) {
  annb_delivery d = annb_deliver_csr(shape, record, length, table, f->ids[1], (float *)(void *)f->values[1], &f->scratch);
  require(d == ANNB_DELIVERY_OTHER || (d == ANNB_DELIVERY_DONE) == valid);
  if (d == ANNB_DELIVERY_DONE) require(!memcmp(f->values[0], f->values[1], 4 * (size_t)shape->nnz));
  for (uint32_t i = 0; d == ANNB_DELIVERY_DONE && i < shape->nnz; i++) require(f->ids[1][i] == table->wide[f->ids[0][i]]);
  d = annb_deliver_sorted(shape, record, length, table, f->ids[1], (float *)(void *)f->values[1], &f->scratch);
  require(d == ANNB_DELIVERY_OTHER || (d == ANNB_DELIVERY_DONE) == valid);
  if (d == ANNB_DELIVERY_DONE)
    for (uint32_t i = 0; i < shape->nnz; i++) {
      require(i == 0 || f->ids[1][i] > f->ids[1][i - 1]);
      f->dense[0][f->ids[1][i]] = 0;
    }
  bool sorted = d == ANNB_DELIVERY_DONE;
  d = annb_deliver_dense(shape, record, length, table, f->dense[0], &f->scratch);
  require(d == ANNB_DELIVERY_OTHER || (d == ANNB_DELIVERY_DONE) == valid);
  for (uint32_t i = 0; sorted && d == ANNB_DELIVERY_DONE && i < shape->nnz; i++)
    require(!memcmp(&f->dense[0][f->ids[1][i]], f->values[1] + 4 * (size_t)i, 4));
}

/* The emulated kernels take long: `all` asks for them too. */
static void decode_all(fuzz *f, const annb_row_shape *shape, const uint8_t *record, size_t length, const annb_gene_table *table, bool all) {
  size_t n, n_own, value_bytes = (size_t)shape->nnz * annb_dtype_size(shape->dtype);
  const annb_kernel *const *kernels = help_kernels(&n);
  bool valid = false;
  annb_kernels(&n_own);
  for (size_t k = 0; k < n; k++) {
    if (!kernels[k]->usable() || (!all && k >= n_own)) continue;
    f->scratch.kernel = kernels[k];
    bool ok = annb_record_decode(shape, record, length, f->ids[k > 0], f->values[k > 0], &f->scratch);
    if (k == 0) valid = ok;
    require(ok == valid);
    for (uint32_t i = 0; ok && i < shape->nnz; i++) require(f->ids[k > 0][i] < shape->n_cols);
    if (ok && k > 0) require(!memcmp(f->ids[0], f->ids[1], 4 * (size_t)shape->nnz) && !memcmp(f->values[0], f->values[1], value_bytes));
    if (table) deliver(f, shape, record, length, table, valid);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const uint32_t columns[] = {1000, 40, 300, 30000, 65534, 65535, 65536, 2147483647};
  static fuzz f;
  static annb_gene_table table;
  if (size < HEAD || size > MAX_BYTES) return 0;
  uint16_t nnz;
  memcpy(&nnz, data, 2);
  annb_row_shape shape = {columns[data[2] % 8], 1u + nnz % MAX_NNZ, (annb_dtype)(1 + data[3] % 12)};
  if (!table.wide) { /* the first 1,000 ids reversed */
    uint32_t ids[1000];
    for (uint32_t i = 0; i < 1000; i++) ids[i] = 999 - i;
    require(annb_gene_table_init(&table, ids, 1000, 1000));
  }
  size_t length = size - HEAD;
  uint8_t *record = malloc(length ? length : 1); /* of its own, so that over-reads are seen */
  require(record != NULL);
  memcpy(record, data + HEAD, length);
  decode_all(&f, &shape, record, length, shape.n_cols == table.n && shape.dtype == ANNB_F32 ? &table : NULL, data[4] % 64 == 0);
  free(record);
  return 0;
}
