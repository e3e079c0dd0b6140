#include "fill.h"
#include "units.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

#define BATCH (UINT64_C(1) << 17) /* elements */
#define BLOCK_BYTES (UINT64_C(8) << 20) /* where whole chunks fit: what stays in a cache is written faster */
enum { MOST_THREADS = 16 };

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
  uint64_t fit = (budget < BLOCK_BYTES ? budget : BLOCK_BYTES) / row_bytes;
  if (fit < chunk[0]) fit = budget / row_bytes;
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

/* Threads fetch rows of a block and put them into it. */
typedef struct filling_block {
  annb_filling *f;
  annb_row_plan plan;
  uint64_t row, rows, column, columns, next_row;
  uint8_t *cells;
  struct {
    uint64_t first, n_rows, n;
  } units[MOST_THREADS + 1];
  annb_fill_batch batches[MOST_THREADS]; /* by thread */
  uint32_t n_threads;
} filling_block;

static annb_status next(void *user, uint32_t slot, bool *more, annb_error *err) {
  filling_block *b = user;
  const uint64_t end = b->row + b->rows;
  *more = b->next_row < end;
  if (!*more) return ANNB_OK;
  b->units[slot].first = b->next_row;
  annb_status s = annb_row_plan_next(&b->plan, b->next_row, end, &b->units[slot].n_rows, &b->units[slot].n, err);
  b->next_row += b->units[slot].n_rows;
  return s;
}

static annb_status work(void *user, uint32_t thread, uint32_t slot, annb_error *err) {
  filling_block *b = user;
  annb_fill_batch *batch = &b->batches[thread];
  annb_status s = annb_batch_fetch(b->f, batch, b->units[slot].first, b->units[slot].n_rows, b->units[slot].n, err);
  return s ? s : scatter(b->f, batch, b->row, b->column, b->columns, b->cells, err);
}

static annb_status fill_block(filling_block *b, annb_error *err) {
  const annb_units units = {b->n_threads, b->n_threads + 1, b, next, work, NULL, NULL};
  memset(b->cells, 0, b->rows * b->columns * b->f->value_size);
  b->next_row = b->row;
  annb_status s = annb_units_run(&units, err);
  return s ? s : write_cells(b->f, b->row, b->rows, b->column, b->columns, b->cells, err);
}

static annb_status prepare(filling_block *b, const block *size, annb_error *err) {
  const annb_fill *fill = b->f->fill;
  const uint64_t fit = fill->memory / 2 / annb_batch_bytes(b->f, b->f->info.n_cols > BATCH ? b->f->info.n_cols : BATCH);
  b->n_threads = annb_units_threads(fill->n_threads);
  if (b->n_threads > MOST_THREADS) b->n_threads = MOST_THREADS;
  if (b->n_threads > fit) b->n_threads = fit ? (uint32_t)fit : 1;
  b->cells = malloc(size->rows * size->columns * b->f->value_size);
  annb_status s = b->cells ? annb_row_plan_open(&b->plan, b->f, BATCH, fill->memory / 2, err) : annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < b->n_threads; i++) s = annb_context_open(&b->batches[i].context, err);
  return s;
}

static void release(filling_block *b) {
  for (uint32_t i = 0; i < b->n_threads; i++) {
    annb_batch_free(&b->batches[i]);
    annb_context_close(b->batches[i].context);
  }
  annb_row_plan_close(&b->plan);
  free(b->cells);
}

annb_status annb_fill_dense(annb_filling *f, annb_error *err) {
  if (!f->info.n_rows || !f->info.n_cols) return ANNB_OK;
  filling_block b = {.f = f};
  const block size = choose_block(f, f->fill->memory / 4);
  annb_status s = prepare(&b, &size, err);
  for (; !s && b.row < f->info.n_rows; b.row += b.rows) {
    b.rows = f->info.n_rows - b.row < size.rows ? f->info.n_rows - b.row : size.rows;
    for (b.column = 0; !s && b.column < f->info.n_cols; b.column += b.columns) {
      b.columns = f->info.n_cols - b.column < size.columns ? f->info.n_cols - b.column : size.columns;
      s = fill_block(&b, err);
    }
    if (!s) s = annb_fill_progress(f, b.row + b.rows, err);
  }
  release(&b);
  return s;
}
