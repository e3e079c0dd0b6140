#include "fill.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

#define BATCH (UINT64_C(1) << 19) /* elements */

/* The matrix is written in blocks of whole chunks: as many rows as fit, or fewer columns where one row of chunks does not. */
typedef struct block {
  uint64_t rows, columns;
} block;

static uint64_t multiple(uint64_t most, uint64_t unit, uint64_t limit) {
  uint64_t n = most / unit * unit;
  if (n < unit) n = unit;
  return n < limit ? n : limit;
}

static block choose_block(const annb_filling *f, uint64_t budget) {
  hsize_t chunk[2] = {1, f->info.n_cols};
  uint64_t row_bytes = f->info.n_cols * f->value_size;
  hid_t properties = H5Dget_create_plist(f->data.dataset);
  if (properties < 0 || H5Pget_layout(properties) != H5D_CHUNKED || H5Pget_chunk(properties, 2, chunk) != 2) {
    chunk[0] = 1;
    chunk[1] = f->info.n_cols;
  }
  annb_h5_close(&properties);
  if (chunk[0] > f->info.n_rows) chunk[0] = f->info.n_rows;
  if (chunk[1] > f->info.n_cols) chunk[1] = f->info.n_cols;
  uint64_t fit = budget / row_bytes;
  if (fit >= chunk[0]) return (block){multiple(fit, chunk[0], f->info.n_rows), f->info.n_cols};
  uint64_t cells = budget / f->value_size / chunk[0];
  if (cells >= chunk[1]) return (block){chunk[0], multiple(cells, chunk[1], f->info.n_cols)};
  /* one chunk is larger than the memory allowed: HDF5 holds it, we write parts of it */
  cells = budget / f->value_size;
  uint64_t columns = cells < chunk[1] ? (cells ? cells : 1) : chunk[1];
  return (block){cells / columns ? cells / columns : 1, columns};
}

/* Elements of the batch with columns [first, first + columns) go to their cells of the block, whose first row is `base`. */
static annb_status scatter(const annb_filling *f, const annb_fill_batch *b, uint64_t base, uint64_t first, uint64_t columns,
                           uint8_t *cells, annb_error *err) {
  const uint32_t size = f->value_size;
  for (uint64_t r = 0; r < b->n_rows; r++) {
    uint8_t *row = cells + (b->first + r - base) * columns * size;
    for (int64_t i = b->indptr[r]; i < b->indptr[r + 1]; i++) {
      if (i > b->indptr[r] && b->indices[i] <= b->indices[i - 1])
        return annb_fail_row(err, ANNB_ECORRUPT, annb_store_path(f->fill->store), (int64_t)(b->first + r),
                             "row %llu of %s does not ascend, as rows of a dense matrix must", (unsigned long long)(b->first + r),
                             f->info.name);
      uint64_t column = (uint64_t)b->indices[i] - first;
      if (column < columns) memcpy(row + column * size, b->values + (uint64_t)i * size, size);
    }
  }
  return ANNB_OK;
}

static annb_status write_cells(const annb_filling *f, uint64_t row, uint64_t rows, uint64_t column, uint64_t columns, const void *cells,
                               annb_error *err) {
  hsize_t start[2] = {row, column}, count[2] = {rows, columns};
  hid_t space = H5Dget_space(f->data.dataset), memory = H5Screate_simple(2, count, NULL);
  herr_t r = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
  if (r >= 0) r = H5Dwrite(f->data.dataset, f->data.memory, memory, space, H5P_DEFAULT, cells);
  annb_h5_close(&memory);
  annb_h5_close(&space);
  if (r >= 0) return ANNB_OK;
  return annb_h5_fail(err, ANNB_EIO, f->fill->out_name, f->data.path, "writing of rows %llu to %llu failed",
                      (unsigned long long)row, (unsigned long long)(row + rows));
}

static annb_status fill_block(annb_filling *f, annb_row_plan *plan, annb_fill_batch *batch, uint64_t row, uint64_t rows, uint64_t column,
                              uint64_t columns, uint8_t *cells, annb_error *err) {
  annb_status s = ANNB_OK;
  memset(cells, 0, rows * columns * f->value_size);
  for (uint64_t at = row, n_rows, n; !s && at < row + rows; at += n_rows) {
    s = annb_row_plan_next(plan, at, row + rows, &n_rows, &n, err);
    if (!s) s = annb_batch_fetch(f, batch, at, n_rows, n, err);
    if (!s) s = scatter(f, batch, row, column, columns, cells, err);
  }
  return s ? s : write_cells(f, row, rows, column, columns, cells, err);
}

annb_status annb_fill_dense(annb_filling *f, annb_error *err) {
  annb_fill_batch batch = {.context = f->fill->context};
  annb_row_plan plan = {0};
  if (!f->info.n_rows || !f->info.n_cols) return ANNB_OK;
  const block b = choose_block(f, f->fill->memory / 4);
  uint8_t *cells = malloc(b.rows * b.columns * f->value_size);
  annb_status s = cells ? annb_row_plan_open(&plan, f, BATCH, f->fill->memory / 2, err) : annb_fail_memory(err);
  for (uint64_t row = 0; !s && row < f->info.n_rows; row += b.rows) {
    uint64_t rows = f->info.n_rows - row < b.rows ? f->info.n_rows - row : b.rows;
    for (uint64_t column = 0; !s && column < f->info.n_cols; column += b.columns) {
      uint64_t columns = f->info.n_cols - column < b.columns ? f->info.n_cols - column : b.columns;
      s = fill_block(f, &plan, &batch, row, rows, column, columns, cells, err);
    }
    if (!s) s = annb_fill_progress(f, row + rows, err);
  }
  annb_row_plan_close(&plan);
  annb_batch_free(&batch);
  free(cells);
  return s;
}
