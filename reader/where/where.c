#include "where.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

/* A column that no part has is a mistake, not a missing value. */
static annb_status check_columns(const annb_store *store, const annb_where_tree *tree, uint32_t n_parts, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint32_t i = 0; !s && n_parts && i < tree->n_nodes; i++) {
    const annb_column *column = NULL;
    if (tree->nodes[i].op != ANNB_WHERE_TEST) continue;
    for (uint32_t part = 0; !s && !column && part < n_parts; part++) s = annb_where_column(store, part, &tree->nodes[i], &column, err);
    if (!s && !column) s = annb_where_unknown(store, tree, &tree->nodes[i], err);
  }
  return s;
}

static uint64_t count_bits(uint64_t x) {
  uint64_t n = 0;
  for (; x; x &= x - 1) n++;
  return n;
}

/* Put n bits at place `at` of `bits`, whose bits there are 0. */
static void place_bits(uint64_t *bits, uint64_t at, const uint64_t *words, size_t n) {
  const unsigned shift = at % 64;
  for (size_t w = 0; w < (n + 63) / 64; w++) {
    uint64_t *to = bits + at / 64 + w;
    to[0] |= words[w] << shift;
    if (shift && words[w] >> (64 - shift)) to[1] |= words[w] >> (64 - shift);
  }
}

static annb_status eval_part(annb_where_run *run, const annb_part_info *part, uint64_t *bits, uint64_t *selected, annb_error *err) {
  annb_status s = ANNB_OK;
  for (run->first = 0; !s && run->first < part->n_rows; run->first += run->n) {
    uint64_t left = part->n_rows - run->first;
    run->n = left < ANNB_WHERE_ROWS ? (size_t)left : ANNB_WHERE_ROWS;
    s = annb_where_eval(run, err);
    if (s) return s;
    if (run->n % 64) run->words[run->n / 64] &= (UINT64_C(1) << run->n % 64) - 1;
    for (size_t w = 0; w < (run->n + 63) / 64; w++) *selected += count_bits(run->words[w]);
    if (bits) place_bits(bits, part->first_row + run->first, run->words, run->n);
  }
  return s;
}

static annb_status bind_and_eval(const annb_store *store, uint32_t part, annb_where_run *run, annb_where_bound *bound, uint64_t *bits,
                                 uint64_t *selected, annb_error *err) {
  annb_part_info info;
  annb_status s = annb_store_part(store, part, &info, err);
  for (uint32_t i = 0; !s && i < run->tree->n_nodes; i++) {
    const annb_where_node *node = &run->tree->nodes[i];
    if (node->op == ANNB_WHERE_TEST) s = annb_where_bind(store, part, run->tree, node, &bound[node->number], err);
  }
  if (!s) s = eval_part(run, &info, bits, selected, err);
  for (uint32_t i = 0; i < run->tree->n_tests; i++) annb_where_bound_free(&bound[i]);
  return s;
}

static annb_status eval_tree(const annb_store *store, const annb_where_tree *tree, uint64_t *bits, uint64_t *selected, annb_error *err) {
  annb_store_info info;
  annb_store_get_info(store, &info);
  annb_status s = check_columns(store, tree, info.n_parts, err);
  if (s) return s;
  annb_where_run *run = calloc(1, sizeof *run);
  annb_where_bound *bound = calloc(tree->n_tests, sizeof *bound);
  uint64_t *words = calloc(annb_where_levels(tree, tree->root), ANNB_WHERE_ROWS / 8);
  if (!run || !bound || !words) s = annb_fail_memory(err);
  if (!s) {
    run->tree = tree;
    run->bound = bound;
    run->words = words;
  }
  if (!s && bits) memset(bits, 0, (size_t)((info.n_obs + 63) / 64 * 8));
  for (uint32_t part = 0; !s && part < info.n_parts; part++) s = bind_and_eval(store, part, run, bound, bits, selected, err);
  free(run);
  free(bound);
  free(words);
  return s;
}

annb_status annb_where(const annb_store *store, const char *text, uint64_t *bits, uint64_t *n_selected, annb_error *err) {
  annb_where_tree tree = {0};
  uint64_t selected = 0;
  if (!store) return annb_fail(err, ANNB_EINVAL, NULL, "a predicate needs an open store");
  annb_status s = annb_where_parse(text, &tree, err);
  if (!s) s = eval_tree(store, &tree, bits, &selected, err);
  annb_where_tree_free(&tree);
  if (!s && n_selected) *n_selected = selected;
  return s;
}
