#include "maps.h"

#include "../error.h"

#include <stdlib.h>
#include <string.h>

#define CORRUPT(...) annb_fail(err, ANNB_ECORRUPT, arrays->path, __VA_ARGS__)
#define ULL(x) ((unsigned long long)(x))

/* A whole vector of that type and length. */
static annb_status vector(annb_arrays *arrays, const char *name, annb_dtype dtype, uint64_t n, const void **out, annb_error *err) {
  uint32_t array;
  annb_status s = annb_arrays_find(arrays, name, &array, err);
  if (s == ANNB_ENOTFOUND) return CORRUPT("has no array '%.200s', which the manifest needs of it", name);
  if (s) return s;
  annb_fmt_array row = annb_arrays_array(arrays, array);
  if (row.dtype != dtype || row.n_cols != 1 || row.n_rows != n)
    return CORRUPT("array '%.200s' has %llu rows of dtype %u, not %llu of dtype %u", name, ULL(row.n_rows), row.dtype, ULL(n), dtype);
  return annb_arrays_view(arrays, array, 0, n, out, err);
}

/* ---- genes ---- */

static annb_status check_genes(const annb_arrays *arrays, const uint32_t *map, uint64_t n_part, uint64_t n_store, uint64_t *n_dropped,
                               annb_error *err) {
  uint64_t *seen = calloc((size_t)(n_store / 64 + 1), sizeof *seen);
  if (!seen) return annb_fail_memory(err);
  annb_status s = ANNB_OK;
  for (uint64_t i = 0; !s && i < n_part; i++) {
    uint64_t gene = map[i], bit = UINT64_C(1) << gene % 64;
    if (gene == ANNB_NONE) {
      ++*n_dropped;
      continue;
    }
    if (gene >= n_store) s = CORRUPT("gene %llu of its part is mapped to gene %llu of %llu", ULL(i), ULL(gene), ULL(n_store));
    else if (seen[gene / 64] & bit) s = CORRUPT("two genes of its part are mapped to gene %llu", ULL(gene));
    else seen[gene / 64] |= bit;
  }
  free(seen);
  return s;
}

annb_status annb_gene_map_read(annb_arrays *arrays, uint64_t n_part, uint64_t n_store, const uint32_t **map, uint64_t *n_dropped,
                               annb_error *err) {
  const void *view;
  uint64_t dropped = 0;
  annb_status s = vector(arrays, "gene_map", ANNB_U32, n_part, &view, err);
  if (!s) s = check_genes(arrays, view, n_part, n_store, &dropped, err);
  if (s) return s;
  *map = view;
  if (n_dropped) *n_dropped = dropped;
  return ANNB_OK;
}

/* ---- categories ---- */

static bool has_array(const annb_arrays *arrays, const char *name) {
  uint32_t array;
  return annb_arrays_find(arrays, name, &array, NULL) == ANNB_OK;
}

annb_status annb_code_map_read(annb_arrays *arrays, const char *column, uint64_t n_part, uint64_t n_store, const int32_t **map,
                               annb_error *err) {
  static const char prefix[] = ANNB_CODE_MAP_PREFIX;
  *map = NULL;
  size_t length = strlen(column);
  char *name = malloc(sizeof prefix + length);
  if (!name) return annb_fail_memory(err);
  memcpy(name, prefix, sizeof prefix - 1);
  memcpy(name + sizeof prefix - 1, column, length + 1);
  const void *view = NULL;
  annb_status s = ANNB_OK;
  if (arrays && has_array(arrays, name)) s = vector(arrays, name, ANNB_I32, n_part, &view, err);
  else if (n_part > n_store)
    s = annb_fail(err, ANNB_ECORRUPT, arrays ? arrays->path : NULL,
                  "column '%.200s' has %llu categories in a part, the store %llu, and no map", column, ULL(n_part), ULL(n_store));
  free(name);
  const int32_t *codes = view;
  for (uint64_t i = 0; !s && codes && i < n_part; i++)
    if (codes[i] < 0 || (uint64_t)codes[i] >= n_store)
      s = CORRUPT("category %llu of column '%.200s' is mapped to category %d of %llu", ULL(i), column, codes[i], ULL(n_store));
  if (!s) *map = codes;
  return s;
}

/* ---- rows ---- */

annb_status annb_row_order_read(annb_arrays *arrays, uint64_t n_rows, const uint64_t **order, const uint64_t **inverse, annb_error *err) {
  const void *to = NULL, *back = NULL;
  annb_status s = vector(arrays, "row_order", ANNB_U64, n_rows, &to, err);
  if (!s) s = vector(arrays, "row_order_inverse", ANNB_U64, n_rows, &back, err);
  if (s) return s;
  const uint64_t *source = to, *place = back;
  for (uint64_t i = 0; i < n_rows; i++) { /* no two rows have one source then, so all have one, and the inverse is known whole */
    if (source[i] >= n_rows) return CORRUPT("row %llu has source row %llu of %llu", ULL(i), ULL(source[i]), ULL(n_rows));
    if (place[source[i]] != i)
      return CORRUPT("row %llu has source row %llu, which the inverse has at row %llu", ULL(i), ULL(source[i]), ULL(place[source[i]]));
  }
  *order = source;
  *inverse = place;
  return ANNB_OK;
}
