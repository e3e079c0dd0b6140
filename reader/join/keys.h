/* Names by which genes, cells and categories of several parts are found to be the same: the values of a column of flat arrays, and tables
 * of them. Nothing here knows HDF5. */
#ifndef ANNB_READER_JOIN_KEYS_H
#define ANNB_READER_JOIN_KEYS_H

#include "../../store/objects/arrays.h"

#include <annblock/store.h>
#include <stdbool.h>

/* A column as keys: strings, categories that are strings, or the bytes of fixed values. Views live as long as `arrays`. */
typedef struct annb_keys {
  annb_arrays *arrays;
  annb_fmt_column column;
  annb_dtype dtype; /* fixed: of the values; categorical: of the codes */
  uint64_t n;
  const void *values;   /* fixed values, offsets of strings, or codes */
  const uint8_t *bytes; /* of strings */
  uint64_t n_bytes;
  const uint8_t *mask;     /* or NULL */
  uint64_t *category_ends; /* categorical: fresh memory, offsets of the categories */
  uint64_t n_categories;
} annb_keys;

typedef struct annb_key {
  const uint8_t *bytes; /* NULL: missing */
  uint64_t length;
} annb_key;

/* The row in the column table of the column of an axis; NULL: of its index. ANNB_NONE when there is none. */
uint32_t annb_keys_find(const annb_arrays *arrays, annb_axis axis, const char *name);
/* Read and check the column in that row of the table. ANNB_ECORRUPT; ANNB_EUNSUPPORTED for categories that are no strings. */
annb_status annb_keys_open(annb_arrays *arrays, uint32_t row, annb_keys *out, annb_error *err);
void annb_keys_close(annb_keys *keys);                    /* a zeroed one is allowed */
annb_key annb_keys_at(const annb_keys *keys, uint64_t i); /* i < n */
/* Same kind, same length, the same keys in the same order. */
bool annb_keys_equal(const annb_keys *a, const annb_keys *b);

/* ---- tables: key (and which of its repeats) → number, in order of arrival ---- */

typedef struct annb_key_entry {
  annb_key key;
  uint64_t hash;
  uint32_t repeat; /* 0 for the first of equal keys in a list */
  uint32_t count;  /* for the user */
} annb_key_entry;

typedef struct annb_key_table {
  annb_key_entry *entries;
  uint32_t *slots; /* number + 1, or 0 */
  uint32_t n, n_slots;
} annb_key_table;

void annb_key_table_free(annb_key_table *table);
/* The number of the key, ANNB_NONE when it is not in the table. */
uint32_t annb_key_table_get(const annb_key_table *table, annb_key key, uint32_t repeat);
/* The same, added when it is not there. ANNB_NONE when memory is short or the table full (2^31 keys). The bytes must outlive the table. */
uint32_t annb_key_table_put(annb_key_table *table, annb_key key, uint32_t repeat);

#endif
