#include "store_internal.h"

#include "../store/error.h"
#include "../store/objects/order.h"

#include <annblock/annblock.h>

#include <stdlib.h>

void annb_gene_order_close(annb_gene_table *table) {
  if (!table) return;
  annb_gene_table_free(table);
  free(table);
}

/* The table is a copy: the file is needed no longer. */
static annb_status make_table(annb_arrays *arrays, annb_gene_table **out, annb_error *err) {
  const uint32_t *ids;
  uint64_t n;
  annb_status s = annb_gene_order_read(arrays, &ids, &n, err);
  if (s) return s;
  annb_gene_table *table = calloc(1, sizeof *table);
  if (!table || !annb_gene_table_init(table, ids, (uint32_t)n, (uint32_t)n)) {
    free(table);
    return annb_fail_memory(err);
  }
  *out = table;
  return ANNB_OK;
}

static annb_status open_order(const annb_store *store, uint32_t object, annb_gene_table **out, annb_error *err) {
  annb_arrays *arrays = NULL;
  annb_status s = annb_open_arrays(store, object, &arrays, err);
  if (!s) s = make_table(arrays, out, err);
  annb_arrays_close(arrays);
  return s;
}

annb_status annb_get_gene_order(const annb_store *store, const annb_fmt_part_matrix *pm, const annb_gene_table **out, annb_error *err) {
  *out = NULL;
  if (pm->gene_order == ANNB_NONE) return ANNB_OK;
  annb_gene_order_slot *slot = &store->gene_orders[pm->gene_order];
  annb_gene_table *mine = NULL, *kept = atomic_load_explicit(slot, memory_order_acquire);
  if (!kept) {
    annb_status s = open_order(store, pm->gene_order, &mine, err);
    if (s) return s;
    if (atomic_compare_exchange_strong(slot, &kept, mine)) kept = mine;
    else annb_gene_order_close(mine);
  }
  if (kept->n != pm->n_cols)
    return annb_fail(err, ANNB_ECORRUPT, store->manifest_path, "matrix '%s' has %llu columns, its gene order is of %u",
                     store->matrix_names[pm->matrix], (unsigned long long)pm->n_cols, kept->n);
  *out = kept;
  return ANNB_OK;
}

annb_status annb_matrix_gene_order(const annb_store *store, uint32_t part, uint32_t matrix, const uint32_t **ids, annb_error *err) {
  if (!store || !ids) return annb_fail(err, ANNB_EINVAL, NULL, "asking for a gene order needs a store and a place for it");
  const annb_manifest *m = &store->manifest;
  if (part >= m->n_parts || matrix >= m->n_matrices)
    return annb_fail(err, ANNB_ERANGE, store->path, "has %u part%s and %u matri%s, there is no matrix %u in part %u", m->n_parts,
                     m->n_parts == 1 ? "" : "s", m->n_matrices, m->n_matrices == 1 ? "x" : "ces", matrix, part);
  const annb_fmt_part_matrix *pm = annb_find_part_matrix(store, part, matrix);
  if (!pm) return annb_fail(err, ANNB_ENOTFOUND, store->path, "part %u has no matrix '%s'", part, store->matrix_names[matrix]);
  const annb_gene_table *table;
  annb_status s = annb_get_gene_order(store, pm, &table, err);
  if (!s) *ids = table ? table->wide : NULL;
  return s;
}
