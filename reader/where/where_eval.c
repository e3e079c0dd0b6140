#include "where.h"

#include <string.h>

enum { WORDS = ANNB_WHERE_ROWS / 64 };

uint32_t annb_where_levels(const annb_where_tree *tree, uint32_t node) {
  const annb_where_node *t = &tree->nodes[node];
  uint32_t most = 0;
  for (uint32_t child = t->child; child != ANNB_NONE; child = tree->nodes[child].next) {
    uint32_t levels = annb_where_levels(tree, child) + (child != t->child); /* the first child uses its parent's words */
    if (levels > most) most = levels;
  }
  return most ? most : 1;
}

/* ---- one test ---- */

static void look_up(const annb_where_bound *b, const void *codes, const uint8_t *mask, size_t n, uint8_t *out) {
  const uint8_t *table = b->table + 1;
  const bool of_missing = b->table[0];
  for (size_t i = 0; i < n; i++) {
    int16_t code16;
    int32_t code;
    if (b->info.dtype == ANNB_I8) {
      code = ((const int8_t *)codes)[i];
    } else if (b->info.dtype == ANNB_I16) {
      memcpy(&code16, (const uint8_t *)codes + 2 * i, 2);
      code = code16;
    } else {
      memcpy(&code, (const uint8_t *)codes + 4 * i, 4);
    }
    out[i] = table[code];
  }
  for (size_t i = 0; mask && i < n; i++)
    if (mask[i]) out[i] = of_missing;
}

/* Bytes of 0 or 1 to bits. */
static void pack_bits(const uint8_t *bytes, size_t n, bool negate, uint64_t *words) {
  for (size_t w = 0; w < (n + 63) / 64; w++) {
    size_t most = n - 64 * w < 64 ? n - 64 * w : 64;
    uint64_t word = 0;
    for (size_t i = 0; i < most; i++) word |= (uint64_t)bytes[64 * w + i] << i;
    words[w] = negate ? ~word : word;
  }
}

static annb_status eval_test(annb_where_run *run, const annb_where_node *t, uint64_t *words, annb_error *err) {
  const annb_where_bound *b = &run->bound[t->number];
  annb_status s = ANNB_OK;
  if (!b->column) {
    memset(run->matched, t->test == ANNB_WHERE_NULL, run->n);
  } else if (b->table) {
    const void *codes;
    const uint8_t *mask;
    s = annb_column_values(b->column, run->first, run->n, &codes, &mask, err);
    if (!s) look_up(b, codes, mask, run->n, run->matched);
  } else {
    s = annb_where_match_rows(&b->match, b->column, run->first, run->n, run->keys, run->matched, err);
  }
  if (!s) pack_bits(run->matched, run->n, b->negate, words);
  return s;
}

/* ---- joining ---- */

/* Nothing that comes can change the outcome: all are false in an `and`, or true in an `or`. */
static bool settled(annb_where_op op, const uint64_t *words, size_t n) {
  for (size_t w = 0; w < n / 64; w++)
    if (words[w] != (op == ANNB_WHERE_OR ? UINT64_MAX : 0)) return false;
  uint64_t mask = n % 64 ? (UINT64_C(1) << n % 64) - 1 : 0;
  return !mask || (words[n / 64] & mask) == (op == ANNB_WHERE_OR ? mask : 0);
}

static annb_status eval(annb_where_run *run, uint32_t node, uint64_t *words, annb_error *err) {
  const annb_where_node *t = &run->tree->nodes[node];
  if (t->op == ANNB_WHERE_TEST) return eval_test(run, t, words, err);
  annb_status s = eval(run, t->child, words, err);
  if (s) return s;
  if (t->op == ANNB_WHERE_NOT) {
    for (size_t w = 0; w < WORDS; w++) words[w] = ~words[w];
    return ANNB_OK;
  }
  uint32_t child = run->tree->nodes[t->child].next;
  for (; !s && child != ANNB_NONE && !settled(t->op, words, run->n); child = run->tree->nodes[child].next) {
    uint64_t *other = words + WORDS;
    s = eval(run, child, other, err);
    for (size_t w = 0; !s && w < WORDS; w++) words[w] = t->op == ANNB_WHERE_AND ? words[w] & other[w] : words[w] | other[w];
  }
  return s;
}

annb_status annb_where_eval(annb_where_run *run, annb_error *err) { return eval(run, run->tree->root, run->words, err); }
