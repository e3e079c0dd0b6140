#include "orders.h"

#include "../../store/error.h"
#include "../../store/codec/row_sort.h"

#include <stdlib.h>

/* More genes than this stay in the source's order, and more columns or rows have no source order: finding one takes 20 bytes for each. */
#define MOST_GENES (UINT64_C(1) << 20)
#define MOST_ORDERED (UINT64_C(1) << 21)

void annb_orders_free(annb_orders *orders) {
  free(orders->genes);
  free(orders->source);
  free(orders->rank);
  *orders = (annb_orders){NULL, NULL, NULL, 0};
}

/* ---- genes ---- */

/* Columns by count, descending, ties by number. */
static annb_status by_count(const uint32_t *counts, uint64_t n, uint32_t **out, annb_error *err) {
  uint64_t *keys = malloc((2 * n + 1) * sizeof *keys);
  *out = malloc((n + 1) * sizeof **out);
  if (!keys || !*out) {
    free(keys);
    return annb_fail_memory(err);
  }
  for (uint64_t i = 0; i < n; i++) keys[i] = (uint64_t)(UINT32_MAX - counts[i]) << 32 | i;
  const uint64_t *sorted = annb_sort_keys(keys, keys + n, n);
  for (uint64_t i = 0; i < n; i++) (*out)[i] = (uint32_t)sorted[i];
  free(keys);
  return ANNB_OK;
}

static bool is_identity(const uint32_t *order, uint64_t n) {
  for (uint64_t i = 0; i < n; i++)
    if (order[i] != i) return false;
  return true;
}

static annb_status find_genes(const annb_source_matrix *m, const annb_sample *sample, uint32_t **out, annb_error *err) {
  uint32_t *counts = malloc((m->n_cols + 1) * sizeof *counts);
  annb_status s = counts ? annb_count_columns(m, sample, counts, err) : annb_fail_memory(err);
  if (!s) s = by_count(counts, m->n_cols, out, err);
  free(counts);
  return s;
}

/* ---- the source's order: a topological sort of which element came right before which ---- */

typedef struct graph {
  uint64_t n;
  uint32_t *first;   /* n + 1: where the followers of each begin */
  uint32_t *follows;
  uint32_t *waiting; /* how many must come before */
  uint32_t *order;   /* what has been placed, from the front; the heap of what may come next, after it */
  uint64_t placed, ready;
} graph;

static bool ascends(const annb_sample *sample) {
  for (uint64_t i = 1; i < sample->n; i++)
    if (sample->indices[i] < sample->indices[i - 1] && !annb_sample_starts(sample, i)) return false;
  return true;
}

static bool is_pair(const annb_sample *sample, uint64_t i) {
  return !annb_sample_starts(sample, i) && sample->indices[i] != sample->indices[i - 1];
}

static void link_pairs(graph *g, const annb_sample *sample) {
  const uint32_t *x = sample->indices;
  for (uint64_t i = 1; i < sample->n; i++) {
    if (!is_pair(sample, i)) continue;
    g->first[x[i - 1]]++;
    g->waiting[x[i]]++;
  }
  for (uint64_t i = 1; i <= g->n; i++) g->first[i] += g->first[i - 1]; /* now the ends; placing from the end makes them the beginnings */
  for (uint64_t i = 1; i < sample->n; i++)
    if (is_pair(sample, i)) g->follows[--g->first[x[i - 1]]] = x[i];
}

/* The heap keeps the least number first. Placed and ready ones are never more than n together. */
static void push(graph *g, uint32_t x) {
  uint32_t *heap = g->order + g->n - 1; /* grows downwards: element i is heap[−i] */
  uint64_t i = g->ready++;
  for (; i && heap[-(ptrdiff_t)((i - 1) / 2)] > x; i = (i - 1) / 2) heap[-(ptrdiff_t)i] = heap[-(ptrdiff_t)((i - 1) / 2)];
  heap[-(ptrdiff_t)i] = x;
}

static uint32_t pop(graph *g) {
  uint32_t *heap = g->order + g->n - 1, least = heap[0], last = heap[-(ptrdiff_t)--g->ready];
  uint64_t i = 0, child;
  while ((child = 2 * i + 1) < g->ready) {
    if (child + 1 < g->ready && heap[-(ptrdiff_t)(child + 1)] < heap[-(ptrdiff_t)child]) child++;
    if (heap[-(ptrdiff_t)child] >= last) break;
    heap[-(ptrdiff_t)i] = heap[-(ptrdiff_t)child];
    i = child;
  }
  heap[-(ptrdiff_t)i] = last;
  return least;
}

/* False when there is a cycle. */
static bool place_all(graph *g) {
  for (uint64_t i = 0; i < g->n; i++)
    if (!g->waiting[i]) push(g, (uint32_t)i);
  while (g->ready) {
    uint32_t x = pop(g);
    g->order[g->placed++] = x;
    for (uint32_t k = g->first[x]; k < g->first[x + 1]; k++)
      if (--g->waiting[g->follows[k]] == 0) push(g, g->follows[k]);
  }
  return g->placed == g->n;
}

annb_status annb_source_order_find(const annb_sample *sample, uint64_t n, uint32_t **order, annb_error *err) {
  *order = NULL;
  if (n > MOST_ORDERED || ascends(sample)) return ANNB_OK;
  graph g = {.n = n, .first = calloc(n + 1, sizeof *g.first), .follows = malloc((sample->n + 1) * sizeof *g.follows)};
  g.waiting = calloc(n, sizeof *g.waiting);
  g.order = malloc(n * sizeof *g.order);
  bool ok = g.first && g.follows && g.waiting && g.order;
  if (ok) link_pairs(&g, sample);
  bool found = ok && place_all(&g);
  free(g.first);
  free(g.follows);
  free(g.waiting);
  if (found) *order = g.order;
  else free(g.order);
  return ok ? ANNB_OK : annb_fail_memory(err);
}

static annb_status invert(annb_orders *o, annb_error *err) {
  if (!o->source) return ANNB_OK;
  o->rank = malloc(o->n_source * sizeof *o->rank);
  if (!o->rank) return annb_fail_memory(err);
  for (uint64_t i = 0; i < o->n_source; i++) o->rank[o->source[i]] = (uint32_t)i;
  return ANNB_OK;
}

annb_status annb_orders_find(const annb_source_matrix *m, bool detect, annb_orders *out, annb_error *err) {
  annb_sample sample = {NULL, NULL, 0};
  *out = (annb_orders){.n_source = m->form == ANNB_CSC ? m->n_rows : m->n_cols};
  bool genes = m->n_cols <= MOST_GENES && (detect || m->form == ANNB_CSC);
  annb_status s = m->form == ANNB_CSR ? annb_sample_rows(m, &sample, err) : ANNB_OK;
  if (!s && genes) s = find_genes(m, &sample, &out->genes, err);
  if (!s && genes && m->form == ANNB_CSC) s = annb_sample_columns(m, out->genes, &sample, err);
  if (!s && sample.n) s = annb_source_order_find(&sample, out->n_source, &out->source, err);
  if (!s) s = invert(out, err);
  annb_sample_free(&sample);
  if (s) annb_orders_free(out);
  if (!s && out->genes && (!detect || is_identity(out->genes, m->n_cols))) {
    free(out->genes);
    out->genes = NULL;
  }
  return s;
}
