/* From a part's numbers to the store's (SPEC.md 4.3): genes and categories. Everything is validated before it is used. */
#ifndef ANNB_STORE_MAPS_H
#define ANNB_STORE_MAPS_H

#include "arrays.h"

#include <stdbool.h>

#define ANNB_CODE_MAP_PREFIX "code_map/"

/* The array `gene_map` of a part of `n_part` genes in a store of `n_store`: a view that lives as long as `arrays`. Each entry is ANNB_NONE
 * or below n_store, which occurs at most once. `n_dropped` (may be NULL): how many are ANNB_NONE. */
annb_status annb_gene_map_read(annb_arrays *arrays, uint64_t n_part, uint64_t n_store, const uint32_t **map, uint64_t *n_dropped,
                               annb_error *err);

/* The array `code_map/<column>`: n_part entries from 0 to n_store - 1. *map is NULL when there is no such array: then codes stay, and
 * n_part must not be above n_store. `arrays` may be NULL: no array at all. */
annb_status annb_code_map_read(annb_arrays *arrays, const char *column, uint64_t n_part, uint64_t n_store, const int32_t **map,
                               annb_error *err);

/* The arrays `row_order` and `row_order_inverse` of a part of n_rows (SPEC.md 5.5.1): views that live as long as `arrays`, permutations
 * inverse to each other. */
annb_status annb_row_order_read(annb_arrays *arrays, uint64_t n_rows, const uint64_t **order, const uint64_t **inverse, annb_error *err);

#endif
