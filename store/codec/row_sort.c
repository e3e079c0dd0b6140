/* Rows of ordinary width are sorted without comparing: a bit per stored id says which occur, and how many bits are before it is its place.
 * Rows with repeats, very wide matrices and very short rows go through a radix sort. */
#include "row_sort.h"

#include "encode_loops.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { RADIX = 256, FEW = 24 /* keys that insertion sorts faster */, WORDS_PER_ELEMENT = 16 };
#define MARKED_COLS (UINT64_C(1) << 18)

void annb_row_sorter_free(annb_row_sorter *sorter) {
  free(sorter->ids);
  free(sorter->sorted);
  free(sorter->values);
  free(sorter->keys);
  free(sorter->seen);
  free(sorter->before);
  memset(sorter, 0, sizeof *sorter);
}

/* ---- memory ---- */

static size_t more(size_t n) { return n + n / 2 + 64; }

static size_t words_of(uint64_t n_cols) { return (size_t)n_cols / 64 + 1; }

static bool room_for_ids(annb_row_sorter *s, size_t n) {
  if (n <= s->ids_room) return true;
  free(s->ids);
  s->ids = malloc(more(n) * sizeof *s->ids);
  s->ids_room = s->ids ? more(n) : 0;
  return s->ids;
}

static bool room_for_sorted(annb_row_sorter *s, size_t n) {
  if (n <= s->sorted_room) return true;
  const size_t room = more(n);
  free(s->sorted);
  free(s->values);
  s->sorted = malloc(3 * room * sizeof *s->sorted);
  s->values = malloc(room * sizeof(uint64_t));
  s->sorted_room = s->sorted && s->values ? room : 0;
  if (!s->sorted_room) return false;
  s->order = s->sorted + room;
  s->places = s->order + room;
  for (size_t i = 0; i < room; i++) s->places[i] = (uint32_t)i;
  return true;
}

static bool room_for_keys(annb_row_sorter *s, size_t n) {
  if (n <= s->keys_room) return true;
  free(s->keys);
  s->keys = malloc(2 * more(n) * sizeof *s->keys);
  s->keys_room = s->keys ? more(n) : 0;
  return s->keys;
}

static bool room_for_marks(annb_row_sorter *s, uint64_t n_cols) {
  const size_t words = words_of(n_cols);
  if (words <= s->seen_room) return true;
  free(s->seen);
  free(s->before);
  s->seen = calloc(words, sizeof *s->seen);
  s->before = malloc(words * sizeof *s->before);
  s->seen_room = s->seen && s->before ? words : 0;
  return s->seen_room;
}

/* ---- by radix ---- */

static void insert_keys(uint64_t *keys, size_t n) {
  for (size_t i = 1; i < n; i++) {
    uint64_t key = keys[i];
    size_t at = i;
    for (; at && keys[at - 1] >> 32 > key >> 32; at--) keys[at] = keys[at - 1];
    keys[at] = key;
  }
}

static void radix_pass(const uint64_t *from, uint64_t *to, size_t n, unsigned shift) {
  size_t place[RADIX] = {0}, sum = 0;
  for (size_t i = 0; i < n; i++) place[from[i] >> shift & (RADIX - 1)]++;
  for (size_t d = 0; d < RADIX; d++) {
    size_t count = place[d];
    place[d] = sum;
    sum += count;
  }
  for (size_t i = 0; i < n; i++) to[place[from[i] >> shift & (RADIX - 1)]++] = from[i];
}

uint64_t *annb_sort_keys(uint64_t *keys, uint64_t *spare, size_t n) {
  uint64_t differ = 0;
  if (n <= FEW) {
    insert_keys(keys, n);
    return keys;
  }
  for (size_t i = 1; i < n; i++) differ |= keys[i] ^ keys[0];
  for (unsigned shift = 32; shift < 64; shift += 8) {
    if (!(differ >> shift & (RADIX - 1))) continue;
    radix_pass(keys, spare, n, shift);
    uint64_t *sorted = spare;
    spare = keys;
    keys = sorted;
  }
  return keys;
}

/* The values, of `size` bytes, in the order of their `places`. */
#define TAKE_VALUES(size, place) \
  for (uint32_t i = 0; i < n; i++) memcpy(s->values + (size_t)i * (size), values + (size_t)(uint32_t)(place) * (size), size)

static bool by_radix(annb_row_sorter *s, const uint32_t *ids, uint32_t n, const uint8_t *values, uint32_t size) {
  if (!room_for_keys(s, n)) return false;
  uint64_t *keys = s->keys;
  for (uint32_t i = 0; i < n; i++) keys[i] = (uint64_t)ids[i] << 32 | i;
  keys = annb_sort_keys(keys, s->keys + n, n);
  for (uint32_t i = 0; i < n; i++) s->sorted[i] = (uint32_t)(keys[i] >> 32);
  switch (size) {
    case 1: TAKE_VALUES(1, keys[i]); break;
    case 2: TAKE_VALUES(2, keys[i]); break;
    case 4: TAKE_VALUES(4, keys[i]); break;
    default: TAKE_VALUES(8, keys[i]);
  }
  return true;
}

/* ---- by place ---- */

/* Values of 4 bytes move with their ids; for others their places in the row do. */
static bool by_place(annb_row_sorter *s, const annb_row_sort_rule *rule, const uint32_t *columns, uint32_t n, const uint8_t *values) {
  const annb_encode_loops *loops = annb_encode_loops_best();
  const bool four = rule->value_size == 4;
  loops->mark(columns, n, rule->to_stored, s->seen, s->ids);
  if (!loops->rank(s->seen, words_of(rule->n_cols), s->before, s->ids, four ? values : (const uint8_t *)s->places, n, s->sorted,
                   four ? (uint32_t *)(void *)s->values : s->order))
    return false;
  switch (rule->value_size) {
    case 1: TAKE_VALUES(1, s->order[i]); break;
    case 2: TAKE_VALUES(2, s->order[i]); break;
    case 4: break;
    default: TAKE_VALUES(8, s->order[i]);
  }
  return true;
}

/* ---- the whole ---- */

bool annb_ascends(const uint32_t *ids, size_t n) { return annb_encode_loops_best()->ascends(ids, n); }

static bool is_narrow(uint64_t n_cols, uint32_t n) {
  return n > FEW && n_cols <= MARKED_COLS && n_cols / 64 <= (uint64_t)WORDS_PER_ELEMENT * n;
}

bool annb_row_arrange(annb_row_sorter *sorter, const annb_row_sort_rule *rule, uint32_t n, const uint32_t **indices,
                      const uint8_t **values) {
  const uint32_t *ids = *indices;
  if (n == 0 || (!rule->to_stored && (!rule->sort || annb_ascends(ids, n)))) return true;
  if (!room_for_sorted(sorter, n)) return false;
  bool done = false;
  if (rule->sort && is_narrow(rule->n_cols, n)) {
    if (!room_for_ids(sorter, n) || !room_for_marks(sorter, rule->n_cols)) return false;
    done = by_place(sorter, rule, ids, n, *values);
  }
  if (!done && rule->to_stored) {
    if (!room_for_ids(sorter, n)) return false;
    for (uint32_t i = 0; i < n; i++) sorter->ids[i] = rule->to_stored[ids[i]];
    *indices = ids = sorter->ids;
    if (!rule->sort || annb_ascends(ids, n)) return true;
  }
  if (!done && !by_radix(sorter, ids, n, *values, rule->value_size)) return false;
  *indices = sorter->sorted;
  *values = sorter->values;
  return true;
}
