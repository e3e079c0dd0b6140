/* Names of cells that occur more than once, over all parts. */
#include "join.h"

#include "../../store/error.h"
#include "../../store/hash.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEAST = 1 << 16 };

/* Hashes of names in one range, so that memory is bounded: the names are read once for each range. */
typedef struct range {
  uint64_t first, last;
  uint64_t *hashes;
  size_t n, room;
} range;

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static bool add(range *r, uint64_t hash) {
  if (r->n == r->room) {
    size_t room = r->room ? r->room + r->room / 2 : LEAST;
    uint64_t *hashes = realloc(r->hashes, room * sizeof *hashes);
    if (!hashes) return false;
    r->hashes = hashes;
    r->room = room;
  }
  r->hashes[r->n++] = hash;
  return true;
}

static uint64_t hash_of(annb_key key) { return annb_hash64(key.bytes, (size_t)key.length); }

static annb_status collect(range *r, const annb_keys *keys, uint32_t n, annb_error *err) {
  r->n = 0;
  for (uint32_t p = 0; p < n; p++) {
    for (uint64_t i = 0; i < keys[p].n; i++) {
      annb_key key = annb_keys_at(&keys[p], i);
      uint64_t hash = key.bytes ? hash_of(key) : 0;
      if (key.bytes && hash >= r->first && hash <= r->last && !add(r, hash)) return annb_fail_memory(err);
    }
  }
  if (r->n) qsort(r->hashes, r->n, sizeof *r->hashes, by_value);
  return ANNB_OK;
}

static void find_example(const annb_keys *keys, uint32_t n, uint64_t hash, char example[128]) {
  for (uint32_t p = 0; p < n; p++) {
    for (uint64_t i = 0; i < keys[p].n; i++) {
      annb_key key = annb_keys_at(&keys[p], i);
      if (!key.bytes || hash_of(key) != hash) continue;
      if (keys[p].column.kind == ANNB_COLUMN_FIXED) snprintf(example, 128, "number %llu", (unsigned long long)i);
      else snprintf(example, 128, "%.*s", key.length > 100 ? 100 : (int)key.length, (const char *)key.bytes);
      return;
    }
  }
}

static annb_status count(const annb_keys *keys, uint32_t n_keys, uint64_t memory, uint64_t *n, char example[128], annb_error *err) {
  uint64_t total = 0, found = 0;
  for (uint32_t p = 0; p < n_keys; p++) total += keys[p].n;
  /* hashes are spread evenly: a quarter more than the mean is plenty of room */
  uint64_t most = memory / 16, ranges = total / (most ? most : 1) + 1, width = UINT64_MAX / ranges;
  range r = {.hashes = NULL};
  annb_status s = ANNB_OK;
  *n = 0;
  for (uint64_t i = 0; !s && i < ranges; i++) {
    r.first = i * width + (i > 0);
    r.last = i + 1 == ranges ? UINT64_MAX : (i + 1) * width;
    s = collect(&r, keys, n_keys, err);
    for (size_t k = 1; !s && k < r.n; k++) {
      if (r.hashes[k] != r.hashes[k - 1]) continue;
      if (!(*n)++) found = r.hashes[k];
    }
  }
  free(r.hashes);
  if (!s && *n) find_example(keys, n_keys, found, example);
  return s;
}

annb_status annb_join_duplicates(const annb_join_files *files, uint64_t memory, uint64_t *n, char example[128], annb_error *err) {
  annb_keys *keys = calloc((size_t)files->n + 1, sizeof *keys);
  annb_status s = keys ? ANNB_OK : annb_fail_memory(err);
  for (uint32_t p = 0; !s && p < files->n; p++) {
    uint32_t row = files->columns[p] ? annb_keys_find(files->columns[p], ANNB_AXIS_OBS, NULL) : ANNB_NONE;
    if (row != ANNB_NONE) s = annb_keys_open(files->columns[p], row, &keys[p], err);
    if (s == ANNB_EUNSUPPORTED) s = ANNB_OK; /* numbers as categories: no names to tell */
  }
  *n = 0;
  if (!s) s = count(keys, files->n, memory, n, example, err);
  for (uint32_t p = 0; keys && p < files->n; p++) annb_keys_close(&keys[p]);
  free(keys);
  return s;
}
