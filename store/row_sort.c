/* Rows of ordinary width are sorted without comparing: a bit per stored id says which occur, and their values wait in a dense array.
 * Rows with repeats, very wide matrices and very short rows go through a radix sort. */
#include "row_sort.h"

#include <stdlib.h>
#include <string.h>

enum { RADIX = 256, FEW = 24 /* keys that insertion sorts faster */, WORDS_PER_ELEMENT = 16 };
#define DENSE_COLS (UINT64_C(1) << 18)

void annb_row_sorter_free(annb_row_sorter *sorter) {
  free(sorter->ids);
  free(sorter->sorted);
  free(sorter->values);
  free(sorter->keys);
  free(sorter->seen);
  free(sorter->dense);
  memset(sorter, 0, sizeof *sorter);
}

/* ---- memory ---- */

static size_t more(size_t n) { return n + n / 2 + 64; }

static bool room_for_ids(annb_row_sorter *s, size_t n) {
  if (n <= s->ids_room) return true;
  free(s->ids);
  s->ids = malloc(more(n) * sizeof *s->ids);
  s->ids_room = s->ids ? more(n) : 0;
  return s->ids;
}

static bool room_for_sorted(annb_row_sorter *s, size_t n) {
  if (n <= s->sorted_room) return true;
  free(s->sorted);
  free(s->values);
  s->sorted = malloc(more(n) * sizeof *s->sorted);
  s->values = malloc(more(n) * sizeof(uint64_t));
  s->sorted_room = s->sorted && s->values ? more(n) : 0;
  return s->sorted_room;
}

static bool room_for_keys(annb_row_sorter *s, size_t n) {
  if (n <= s->keys_room) return true;
  free(s->keys);
  s->keys = malloc(2 * more(n) * sizeof *s->keys);
  s->keys_room = s->keys ? more(n) : 0;
  return s->keys;
}

static bool room_for_dense(annb_row_sorter *s, uint64_t n_cols) {
  if (n_cols <= s->seen_room) return true;
  free(s->seen);
  free(s->dense);
  s->seen = calloc((size_t)n_cols / 64 + 1, sizeof *s->seen);
  s->dense = malloc((size_t)n_cols * sizeof *s->dense);
  s->seen_room = s->seen && s->dense ? n_cols : 0;
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

static void take_values(const uint8_t *values, const uint64_t *keys, size_t n, uint32_t size, uint8_t *out) {
  for (size_t i = 0; i < n; i++) memcpy(out + i * size, values + (size_t)(uint32_t)keys[i] * size, size);
}

static bool by_radix(annb_row_sorter *s, const uint32_t *ids, uint32_t n, const uint8_t *values, uint32_t size) {
  if (!room_for_keys(s, n)) return false;
  uint64_t *keys = s->keys;
  for (uint32_t i = 0; i < n; i++) keys[i] = (uint64_t)ids[i] << 32 | i;
  keys = annb_sort_keys(keys, s->keys + n, n);
  for (uint32_t i = 0; i < n; i++) s->sorted[i] = (uint32_t)(keys[i] >> 32);
  switch (size) {
    case 1: take_values(values, keys, n, 1, s->values); break;
    case 2: take_values(values, keys, n, 2, s->values); break;
    case 4: take_values(values, keys, n, 4, s->values); break;
    default: take_values(values, keys, n, 8, s->values);
  }
  return true;
}

/* ---- by place ---- */

/* Mark the ids of a row. False, with the marks taken back, when one occurs twice. */
static bool mark(uint64_t *seen, const uint32_t *ids, uint32_t n) {
  uint64_t twice = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t bit = UINT64_C(1) << ids[i] % 64, *word = &seen[ids[i] / 64];
    twice |= *word & bit;
    *word |= bit;
  }
  if (!twice) return true;
  for (uint32_t i = 0; i < n; i++) seen[ids[i] / 64] = 0;
  return false;
}

/* The marked ids in order, and the marks taken back. */
static void list_marks(uint64_t *seen, uint32_t n, uint32_t *out) {
  for (uint32_t k = 0, word = 0; k < n; word++) {
    uint64_t bits = seen[word];
    seen[word] = 0;
    for (; bits; bits &= bits - 1) out[k++] = word * 64 + (uint32_t)__builtin_ctzll(bits);
  }
}

#define MOVE_VALUES(type)                                                                          \
  do {                                                                                             \
    type *dense = (type *)(void *)s->dense, *out = (type *)(void *)s->values;                      \
    for (uint32_t i = 0; i < n; i++) memcpy(&dense[ids[i]], values + i * sizeof(type), sizeof(type)); \
    for (uint32_t i = 0; i < n; i++) out[i] = dense[s->sorted[i]];                                 \
  } while (0)

static bool by_place(annb_row_sorter *s, const uint32_t *ids, uint32_t n, const uint8_t *values, uint32_t size) {
  if (!mark(s->seen, ids, n)) return false;
  list_marks(s->seen, n, s->sorted);
  switch (size) {
    case 1: MOVE_VALUES(uint8_t); break;
    case 2: MOVE_VALUES(uint16_t); break;
    case 4: MOVE_VALUES(uint32_t); break;
    default: MOVE_VALUES(uint64_t);
  }
  return true;
}

/* ---- the whole ---- */

bool annb_ascends(const uint32_t *ids, size_t n) {
  bool descends = false;
  for (size_t i = 1; i < n; i++) descends |= ids[i] < ids[i - 1];
  return !descends;
}

static bool is_narrow(uint64_t n_cols, uint32_t n) {
  return n > FEW && n_cols <= DENSE_COLS && n_cols / 64 <= (uint64_t)WORDS_PER_ELEMENT * n;
}

bool annb_row_arrange(annb_row_sorter *sorter, const annb_row_sort_rule *rule, uint32_t n, const uint32_t **indices,
                      const uint8_t **values) {
  const uint32_t *ids = *indices;
  if (n == 0) return true;
  if (rule->to_stored) {
    if (!room_for_ids(sorter, n)) return false;
    for (uint32_t i = 0; i < n; i++) sorter->ids[i] = rule->to_stored[ids[i]];
    *indices = ids = sorter->ids;
  }
  if (!rule->sort || annb_ascends(ids, n)) return true;
  if (!room_for_sorted(sorter, n)) return false;
  bool done = false;
  if (is_narrow(rule->n_cols, n)) {
    if (!room_for_dense(sorter, rule->n_cols)) return false;
    done = by_place(sorter, ids, n, *values, rule->value_size);
  }
  if (!done && !by_radix(sorter, ids, n, *values, rule->value_size)) return false;
  *indices = sorter->sorted;
  *values = sorter->values;
  return true;
}
