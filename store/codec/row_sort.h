/* Bringing rows into the order they are stored in: stored ids, ascending (SPEC.md 3.6). */
#ifndef ANNB_STORE_ROW_SORT_H
#define ANNB_STORE_ROW_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory of one thread; zero-initialise, free with annb_row_sorter_free. `seen` is clear between calls. */
typedef struct annb_row_sorter {
  uint32_t *ids;      /* mapped, not sorted */
  uint32_t *sorted;
  uint32_t *order;    /* of 4-byte values the values are sorted, of others their places in the row: these */
  uint32_t *places;   /* 0, 1, 2 … */
  uint8_t *values;
  uint64_t *keys;     /* 2 × room, for rows that go through the radix sort */
  size_t ids_room, sorted_room, keys_room;
  uint64_t *seen;     /* a bit per stored id */
  uint32_t *before;   /* marks before each word of `seen` */
  uint64_t seen_room;
} annb_row_sorter;

void annb_row_sorter_free(annb_row_sorter *sorter);

typedef struct annb_row_sort_rule {
  const uint32_t *to_stored; /* column → stored id, or NULL: they are the same */
  bool sort;                 /* stably, by stored id */
  uint64_t n_cols;
  uint32_t value_size;
} annb_row_sort_rule;

/* Replace the row by the one to store: as given when nothing is to be done, else in the sorter's memory, valid until its next use. All
 * indices are below n_cols. False when memory is short. */
bool annb_row_arrange(annb_row_sorter *sorter, const annb_row_sort_rule *rule, uint32_t n, const uint32_t **indices,
                      const uint8_t **values);

/* Sort n keys by their high 32 bits, stably; `spare` has room for n too. Returns the one of the two that holds the result. */
uint64_t *annb_sort_keys(uint64_t *keys, uint64_t *spare, size_t n);

/* Whether ids do not descend. */
bool annb_ascends(const uint32_t *ids, size_t n);

#endif
