/* From the genes of a part to those of the store (SPEC.md 5.5), by themselves and behind a gene order. */
#include "store_internal.h"

#include "../store/error.h"
#include "../store/objects/maps.h"

#include <annblock/annblock.h>

#include <stdlib.h>
#include <string.h>

struct annb_gene_map {
  uint64_t n_dropped;
  uint32_t ids[]; /* one per gene of the part */
};

void annb_gene_map_close(annb_gene_map *map) { free(map); }

/* A copy: the file is needed no longer. */
static annb_status open_map(const annb_store *store, const annb_fmt_part *part, annb_gene_map **out, annb_error *err) {
  annb_arrays *arrays = NULL;
  const uint32_t *ids;
  uint64_t n_dropped;
  annb_status s = annb_open_arrays(store, part->gene_map, &arrays, err);
  if (!s) s = annb_gene_map_read(arrays, part->n_vars, store->manifest.store.n_vars, &ids, &n_dropped, err);
  annb_gene_map *map = s ? NULL : malloc(sizeof *map + (size_t)part->n_vars * sizeof *ids);
  if (map) {
    map->n_dropped = n_dropped;
    memcpy(map->ids, ids, (size_t)part->n_vars * sizeof *ids);
    *out = map;
  }
  annb_arrays_close(arrays);
  return s || map ? s : annb_fail_memory(err);
}

static annb_status get_map(const annb_store *store, uint32_t part, const annb_gene_map **out, annb_error *err) {
  const annb_fmt_part *p = &store->manifest.parts[part];
  *out = NULL;
  if (p->gene_map == ANNB_NONE) return ANNB_OK;
  annb_gene_map_slot *slot = &store->gene_maps[part];
  annb_gene_map *mine = NULL, *kept = atomic_load_explicit(slot, memory_order_acquire);
  if (!kept) {
    annb_status s = open_map(store, p, &mine, err);
    if (s) return s;
    if (atomic_compare_exchange_strong(slot, &kept, mine)) kept = mine;
    else annb_gene_map_close(mine);
  }
  *out = kept;
  return ANNB_OK;
}

annb_status annb_part_gene_map(const annb_store *store, uint32_t part, const uint32_t **map, annb_error *err) {
  if (!store || !map) return annb_fail(err, ANNB_EINVAL, NULL, "asking for a gene map needs a store and a place for it");
  const annb_gene_map *found;
  annb_status s = annb_check_part(store, part, err);
  if (!s) s = get_map(store, part, &found, err);
  if (!s) *map = found ? found->ids : NULL;
  return s;
}

annb_status annb_matrix_nnz_exact(const annb_store *store, uint32_t matrix, bool *exact, annb_error *err) {
  if (!store || !exact) return annb_fail(err, ANNB_EINVAL, NULL, "asking about a matrix needs a store and a place for the answer");
  const annb_manifest *m = &store->manifest;
  if (matrix >= m->n_matrices)
    return annb_fail(err, ANNB_ERANGE, store->path, "has %u matrices, there is no matrix %u", m->n_matrices, matrix);
  annb_status s = ANNB_OK;
  bool all_kept = true;
  for (uint32_t part = 0; !s && part < m->n_parts; part++) {
    const annb_fmt_part *p = &m->parts[part];
    for (uint32_t i = 0; !s && i < p->n_matrices; i++) {
      const annb_fmt_part_matrix *pm = &m->part_matrices[p->first_matrix + i];
      const annb_gene_map *map = NULL;
      if (pm->matrix != matrix || !annb_part_matrix_mapped(store, part, pm)) continue;
      s = get_map(store, part, &map, err);
      all_kept = all_kept && (s || !map->n_dropped);
    }
  }
  if (!s) *exact = all_kept;
  return s;
}

/* Genes that the store has not get numbers of their own behind the store's, so that rows can be decoded first and then cut. */
static annb_status compose(const annb_store *store, const annb_gene_map *map, const annb_gene_table *order, uint32_t n,
                           annb_gene_table **out, annb_error *err) {
  uint32_t n_store = (uint32_t)store->manifest.store.n_vars, next = n_store;
  uint32_t *ids = malloc(((size_t)n + 1) * sizeof *ids);
  annb_gene_table *table = calloc(1, sizeof *table);
  for (uint32_t i = 0; ids && i < n; i++) {
    uint32_t gene = map->ids[order ? order->wide[i] : i];
    ids[i] = gene == ANNB_NONE ? next++ : gene;
  }
  bool made = ids && table && annb_gene_table_init(table, ids, n, next);
  free(ids);
  if (!made) {
    free(table);
    return annb_fail_memory(err);
  }
  table->n_kept = n_store;
  *out = table;
  return ANNB_OK;
}

static annb_status make_genes(const annb_store *store, const annb_fmt_part_matrix *pm, const annb_gene_map *map, annb_gene_table **out,
                              annb_error *err) {
  const annb_gene_table *order;
  annb_status s = annb_get_gene_order(store, pm, &order, err);
  if (!s && store->manifest.store.n_vars + map->n_dropped > ANNB_MAX_COLS)
    s = annb_fail(err, ANNB_EUNSUPPORTED, store->path, "has a part with too many genes that are not the store's");
  return s ? s : compose(store, map, order, (uint32_t)pm->n_cols, out, err);
}

annb_status annb_get_store_genes(const annb_store *store, uint32_t part, const annb_fmt_part_matrix *pm, const annb_gene_table **out,
                                 annb_error *err) {
  const annb_gene_map *map = NULL;
  annb_status s = annb_part_matrix_mapped(store, part, pm) ? get_map(store, part, &map, err) : ANNB_OK;
  if (s || !map) return s ? s : annb_get_gene_order(store, pm, out, err);
  annb_gene_order_slot *slot = &store->store_genes[pm - store->manifest.part_matrices];
  annb_gene_table *mine = NULL, *kept = atomic_load_explicit(slot, memory_order_acquire);
  if (!kept) {
    s = make_genes(store, pm, map, &mine, err);
    if (s) return s;
    if (atomic_compare_exchange_strong(slot, &kept, mine)) kept = mine;
    else annb_gene_order_close(mine);
  }
  *out = kept;
  return ANNB_OK;
}
