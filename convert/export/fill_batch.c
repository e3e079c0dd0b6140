#include "fill.h"

#include "../../store/error.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_ROWS (UINT64_C(1) << 16)
enum { SLACK = 128 }; /* elements: rows are decoded in place where so many may be written behind them */

/* Where row `row` of the output is stored. */
static uint64_t stored_row(const annb_filling *f, const uint64_t *order, uint64_t row) {
  return annb_row_orders_stored(f->fill->orders, order ? order[row] : row);
}

static const uint64_t *row_order(const annb_filling *f) { return f->fill->rows ? f->fill->rows->items : annb_source_rows_order(f->source); }

/* ---- fetching ---- */

static annb_status reserve(annb_fill_batch *b, uint64_t n_rows, uint64_t n, uint32_t value_size, annb_error *err) {
  if (n_rows > b->rows_room) {
    free(b->rows);
    free(b->indptr);
    b->rows = malloc(n_rows * sizeof *b->rows);
    b->indptr = malloc((n_rows + 1) * sizeof *b->indptr);
    b->rows_room = b->rows && b->indptr ? n_rows : 0;
  }
  if (n > b->room || !b->indices) {
    free(b->indices);
    free(b->values);
    b->indices = malloc((n + SLACK) * sizeof *b->indices);
    b->values = malloc((n + SLACK) * value_size);
    b->room = b->indices && b->values ? n : 0;
  }
  return n_rows <= b->rows_room && n <= b->room ? ANNB_OK : annb_fail_memory(err);
}

void annb_batch_free(annb_fill_batch *b) {
  free(b->rows);
  free(b->indptr);
  free(b->indices);
  free(b->values);
  *b = (annb_fill_batch){.context = b->context};
}

static annb_status sort_row(annb_fill_batch *b, uint64_t from, uint64_t n, uint32_t value_size, annb_error *err) {
  int32_t *indices = b->indices + from;
  uint64_t sorted = 1;
  while (sorted < n && indices[sorted] >= indices[sorted - 1]) sorted++;
  if (sorted >= n) return ANNB_OK;
  int64_t *numbers = malloc(n * sizeof *numbers);
  if (!numbers) return annb_fail_memory(err);
  for (uint64_t i = 0; i < n; i++) numbers[i] = indices[i];
  annb_status s = annb_sort_elements(numbers, b->values + from * value_size, n, value_size, err);
  for (uint64_t i = 0; i < n; i++) indices[i] = (int32_t)numbers[i];
  free(numbers);
  return s;
}

/* Of the batch's elements those of selected genes stay, under their new numbers. */
static annb_status choose_genes(const annb_filling *f, annb_fill_batch *b, annb_error *err) {
  const uint32_t size = f->value_size;
  annb_status s = ANNB_OK;
  uint64_t n = 0;
  for (uint64_t r = 0, from = 0; !s && r < b->n_rows; r++) {
    const uint64_t end = (uint64_t)b->indptr[r + 1], first = n;
    for (; from < end; from++) {
      uint32_t gene = f->genes[b->indices[from]];
      if (gene == ANNB_NONE) continue;
      b->indices[n] = (int32_t)gene;
      memmove(b->values + n++ * size, b->values + from * size, size);
    }
    b->indptr[r + 1] = (int64_t)n;
    if (f->sort) s = sort_row(b, first, n - first, size, err);
  }
  b->n = n;
  return s;
}

annb_status annb_batch_fetch(const annb_filling *f, annb_fill_batch *b, uint64_t first, uint64_t n_rows, uint64_t room,
                             annb_error *err) {
  static const annb_fetch_options ascending = {.sort_indices = true};
  const uint64_t *order = row_order(f);
  annb_status s = reserve(b, n_rows, room, f->value_size, err);
  if (s) return s;
  for (uint64_t i = 0; i < n_rows; i++) b->rows[i] = stored_row(f, order, first + i);
  if (f->info.form == ANNB_CSR && f->source) {
    s = annb_source_rows_fetch(f->source, b->context, b->rows, n_rows, b->indptr, b->indices, b->values, b->room + SLACK, err);
  } else {
    const annb_fetch_options *options = f->info.form == ANNB_DENSE || !f->source ? &ascending : NULL;
    s = annb_fetch_csr(f->fill->store, b->context, f->matrix, b->rows, n_rows, options, b->indptr, b->indices, b->values, b->room + SLACK,
                       err);
  }
  if (s) return s;
  b->first = first;
  b->n_rows = n_rows;
  b->n = (uint64_t)b->indptr[n_rows];
  if (b->n > room)
    return annb_fail(err, ANNB_ECORRUPT, annb_store_path(f->fill->store), "%s has other elements than its index states", f->info.name);
  return f->genes ? choose_genes(f, b, err) : ANNB_OK;
}

/* ---- planning ---- */

/* Beside indices and values: what a row is sorted with, a copy of it, and what a codec needs. */
uint64_t annb_batch_bytes(const annb_filling *f, uint64_t n) { return n * (24 + 3 * (uint64_t)f->value_size); }

annb_status annb_row_plan_open(annb_row_plan *plan, const annb_filling *f, uint64_t room, uint64_t bytes, annb_error *err) {
  *plan = (annb_row_plan){.f = f, .room = room, .most = bytes / annb_batch_bytes(f, 1)};
  if (plan->most > INT32_MAX) plan->most = INT32_MAX;
  if (plan->room > plan->most) plan->room = plan->most;
  plan->stored = malloc(BATCH_ROWS * sizeof *plan->stored);
  plan->nnz = malloc(BATCH_ROWS * sizeof *plan->nnz);
  return plan->stored && plan->nnz ? ANNB_OK : annb_fail_memory(err);
}

void annb_row_plan_close(annb_row_plan *plan) {
  free(plan->stored);
  free(plan->nnz);
  plan->stored = NULL;
  plan->nnz = NULL;
}

/* Look at the rows from `row` on. */
static annb_status look(annb_row_plan *plan, uint64_t row, annb_error *err) {
  const annb_filling *f = plan->f;
  const uint64_t *order = row_order(f), left = f->info.n_rows - row;
  uint64_t total;
  plan->first = row;
  plan->n = left < BATCH_ROWS ? left : BATCH_ROWS;
  for (uint64_t i = 0; i < plan->n; i++) plan->stored[i] = stored_row(f, order, row + i);
  annb_status s = annb_fetch_nnz(f->fill->store, f->matrix, plan->stored, plan->n, plan->nnz, &total, err);
  if (s) plan->n = 0;
  return s;
}

annb_status annb_row_plan_count(annb_row_plan *plan, uint64_t row, uint32_t *n, annb_error *err) {
  annb_status s = row >= plan->first && row - plan->first < plan->n ? ANNB_OK : look(plan, row, err);
  if (!s) *n = plan->nnz[row - plan->first];
  return s;
}

annb_status annb_row_plan_next(annb_row_plan *plan, uint64_t row, uint64_t end, uint64_t *n_rows, uint64_t *n, annb_error *err) {
  const annb_filling *f = plan->f;
  uint64_t rows = 0, sum = 0;
  uint32_t more;
  annb_status s = ANNB_OK;
  while (!s && rows < end - row && rows < BATCH_ROWS) {
    s = annb_row_plan_count(plan, row + rows, &more, err);
    if (s || (rows && sum + more > plan->room)) break;
    rows++;
    sum += more;
    if (sum <= plan->most) continue;
    const uint64_t stored = plan->stored[row - plan->first];
    s = annb_fail_row(err, ANNB_ENOMEM, annb_store_path(f->fill->store), (int64_t)stored,
                      "row %llu of %s has %u elements, which take %llu MiB: too much for the memory cap, raise it",
                      (unsigned long long)stored, f->info.name, more, (unsigned long long)(annb_batch_bytes(f, more) >> 20));
  }
  *n_rows = rows;
  *n = sum;
  return s;
}
