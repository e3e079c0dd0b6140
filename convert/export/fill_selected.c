#include "fill.h"
#include "stream.h"

#include "../../store/error.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_ROWS (UINT64_C(1) << 16)

/* The genes that a matrix follows: NULL when its columns are no genes of var, or all stay. */
static const annb_selection *genes_of(const annb_fill *fill, const annb_matrix_info *info) {
  return info->axes == ANNB_OBS_VAR && fill->genes && fill->genes->items ? fill->genes : NULL;
}

annb_status annb_fill_count(const annb_fill *fill, uint32_t matrix, uint64_t *n, bool *exact, annb_error *err) {
  annb_matrix_info info;
  annb_status s = annb_store_matrix(fill->store, matrix, &info, err);
  if (s) return s;
  *n = info.nnz;
  *exact = true;
  if (!fill->merged) s = annb_matrix_nnz_exact(fill->store, matrix, exact, err);
  if (s) return s;
  *exact = *exact && !genes_of(fill, &info);
  if (!fill->rows || !fill->rows->items) return ANNB_OK;
  *n = 0;
  uint64_t *stored = malloc(COUNT_ROWS * sizeof *stored);
  if (!stored) return annb_fail_memory(err);
  for (uint64_t at = 0; !s && at < fill->rows->n; at += COUNT_ROWS) {
    uint64_t rows = fill->rows->n - at < COUNT_ROWS ? fill->rows->n - at : COUNT_ROWS, nnz = 0;
    for (uint64_t i = 0; i < rows; i++) stored[i] = annb_row_orders_stored(fill->orders, fill->rows->items[at + i]);
    s = annb_fetch_nnz(fill->store, matrix, stored, rows, NULL, &nnz, err);
    *n += s ? 0 : nnz;
  }
  free(stored);
  return s;
}

/* ---- order within a row ---- */

typedef struct element {
  int64_t number;
  uint64_t place;
} element;

static int by_number(const void *a, const void *b) {
  const element *x = a, *y = b;
  if (x->number != y->number) return x->number < y->number ? -1 : 1;
  return x->place < y->place ? -1 : x->place > y->place;
}

annb_status annb_sort_elements(int64_t *numbers, uint8_t *values, uint64_t n, uint32_t value_size, annb_error *err) {
  uint64_t sorted = 1;
  while (sorted < n && numbers[sorted] >= numbers[sorted - 1]) sorted++;
  if (sorted >= n) return ANNB_OK;
  element *elements = malloc(n * sizeof *elements);
  uint8_t *moved = malloc(n * value_size);
  annb_status s = elements && moved ? ANNB_OK : annb_fail_memory(err);
  for (uint64_t i = 0; !s && i < n; i++) elements[i] = (element){numbers[i], i};
  if (!s) {
    qsort(elements, n, sizeof *elements, by_number);
    for (uint64_t i = 0; i < n; i++) {
      numbers[i] = elements[i].number;
      memcpy(moved + i * value_size, values + elements[i].place * value_size, value_size);
    }
    memcpy(values, moved, n * value_size);
  }
  free(elements);
  free(moved);
  return s;
}

/* ---- the matrix ---- */

static annb_status set_types(annb_filling *f, annb_error *err) {
  hid_t type = H5Dget_type(f->data.dataset);
  annb_dtype dtype;
  annb_h5_close(&f->data.memory);
  bool known = type >= 0 && annb_h5_dtype(type, &dtype, &f->data.memory) && dtype == f->info.dtype;
  annb_h5_close(&type);
  if (!known)
    return annb_h5_fail(err, ANNB_ECORRUPT, f->fill->merged ? f->fill->merged->restore_name : f->fill->out_name, f->data.path,
                        "the shell is of another type than the matrix in the store");
  if (f->info.form == ANNB_DENSE) return ANNB_OK;
  annb_h5_close(&f->indices.memory);
  f->indices.memory = H5Tcopy(f->info.form == ANNB_CSC ? H5T_NATIVE_UINT32 : H5T_NATIVE_INT32);
  return ANNB_OK;
}

static annb_status describe(annb_filling *f, annb_error *err) {
  const annb_fill *fill = f->fill;
  const annb_selection *genes = genes_of(fill, &f->info);
  bool exact;
  annb_status s = annb_fill_count(fill, f->matrix, &f->info.nnz, &exact, err);
  if (s) return s;
  f->bound = !exact;
  f->value_size = annb_dtype_size(f->info.dtype);
  if (fill->rows && fill->rows->items) f->info.n_rows = fill->rows->n;
  if (!genes) return ANNB_OK;
  f->info.n_cols = genes->n;
  f->sort = !genes->ascending;
  return annb_selection_map(genes, &f->genes, err);
}

static annb_status fill_all(annb_filling *f, annb_error *err) {
  annb_status s = describe(f, err);
  if (!s) s = set_types(f, err);
  f->stage = malloc(strlen(f->info.name) + 16);
  if (!s && !f->stage) s = annb_fail_memory(err);
  if (s) return s;
  strcat(strcpy(f->stage, "exporting "), f->info.name);
  if (f->fill->merged) s = annb_source_rows_open(f->fill->store, 0, f->matrix, &f->source, err);
  if (s) return s;
  if (f->info.form == ANNB_DENSE) return annb_fill_dense(f, err);
  return f->info.form == ANNB_CSC ? annb_fill_csc(f, err) : annb_fill_csr(f, err);
}

annb_status annb_fill_selected(const annb_fill *fill, uint32_t matrix, const annb_target *data, const annb_target *indices,
                               const annb_target *indptr, annb_error *err) {
  static const annb_target none = {.dataset = -1, .memory = -1};
  annb_filling f = {.fill = fill, .matrix = matrix, .data = *data, .indices = indices ? *indices : none, .indptr = indptr ? *indptr : none};
  f.data.memory = -1; /* ours; the datasets stay the caller's */
  if (indices) f.indices.memory = -1;
  annb_status s = annb_store_matrix(fill->store, matrix, &f.info, err);
  if (!fill->merged) f.info.form = ANNB_CSR;
  if (!s && (f.info.form == ANNB_DENSE) != !indptr)
    s = annb_h5_fail(err, ANNB_ECORRUPT, fill->merged->restore_name, data->path,
                     "the shell is of another kind than the matrix in the store");
  if (!s) s = fill_all(&f, err);
  annb_stream_abort(&f.data);
  annb_stream_abort(&f.indices);
  annb_source_rows_close(f.source);
  annb_h5_close(&f.data.memory);
  annb_h5_close(&f.indices.memory);
  free(f.genes);
  free(f.stage);
  return s;
}
