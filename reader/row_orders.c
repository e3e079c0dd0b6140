#include "row_orders.h"

#include "store_internal.h"

#include "../store/error.h"
#include "../store/objects/maps.h"

#include <stdlib.h>

typedef struct part_order {
  annb_arrays *arrays; /* NULL: the part is in its source's order */
  const uint64_t *order, *inverse;
} part_order;

struct annb_row_orders {
  const uint64_t *first; /* n_parts + 1, the store's */
  uint32_t n_parts;
  part_order *parts;
};

static annb_status open_part(const annb_store *store, uint32_t part, part_order *out, annb_error *err) {
  const annb_fmt_part *p = &store->manifest.parts[part];
  if (p->row_order == ANNB_NONE) return ANNB_OK;
  annb_status s = annb_open_arrays(store, p->row_order, &out->arrays, err);
  return s ? s : annb_row_order_read(out->arrays, p->n_rows, &out->order, &out->inverse, err);
}

annb_status annb_row_orders_open(const annb_store *store, annb_row_orders **out, annb_error *err) {
  const annb_manifest *m = &store->manifest;
  bool any = false;
  *out = NULL;
  for (uint32_t i = 0; i < m->n_parts; i++) any = any || m->parts[i].row_order != ANNB_NONE;
  if (!any) return ANNB_OK;
  annb_row_orders *orders = calloc(1, sizeof *orders);
  if (!orders) return annb_fail_memory(err);
  orders->first = store->part_first;
  orders->n_parts = m->n_parts;
  orders->parts = calloc(m->n_parts, sizeof *orders->parts);
  annb_status s = orders->parts ? ANNB_OK : annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < m->n_parts; i++) s = open_part(store, i, &orders->parts[i], err);
  if (s) annb_row_orders_close(orders);
  else *out = orders;
  return s;
}

void annb_row_orders_close(annb_row_orders *orders) {
  if (!orders) return;
  for (uint32_t i = 0; orders->parts && i < orders->n_parts; i++) annb_arrays_close(orders->parts[i].arrays);
  free(orders->parts);
  free(orders);
}

/* The part that has the row. */
static uint32_t find_part(const annb_row_orders *orders, uint64_t row) {
  uint32_t low = 0, high = orders->n_parts;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (orders->first[middle] <= row) low = middle;
    else high = middle;
  }
  return low;
}

uint64_t annb_row_orders_stored(const annb_row_orders *orders, uint64_t row) {
  if (!orders) return row;
  const uint32_t part = find_part(orders, row);
  const part_order *p = &orders->parts[part];
  return p->arrays ? orders->first[part] + p->inverse[row - orders->first[part]] : row;
}

uint64_t annb_row_orders_source(const annb_row_orders *orders, uint64_t row) {
  if (!orders) return row;
  const uint32_t part = find_part(orders, row);
  const part_order *p = &orders->parts[part];
  return p->arrays ? orders->first[part] + p->order[row - orders->first[part]] : row;
}
