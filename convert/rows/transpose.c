/* Pushing puts elements into buckets of 2^shift neighbouring keys. A bucket's bytes are runs of elements that share their payload or their
 * key, so that an element takes little more than its value and the low bits of its key; full blocks of runs go to the spool file. Pulling
 * takes one bucket after the other: one that fits memory is sorted by counting (a leaf), a larger one is split into buckets of fewer
 * keys. */
#include "transpose.h"

#include "../../store/error.h"
#include "spooler.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_HEAD = 8, SPLIT_BITS = 4, LEAST_BLOCK = 1 << 12, MOST_BLOCK = 1 << 20, NARROW_BITS = 16 };
#define MIN_MEMORY (UINT64_C(64) << 10)

/* A block in the spool file: whole runs. */
typedef struct annb_extent {
  uint64_t offset, bytes;
} extent;

typedef struct bucket {
  uint64_t first; /* of its 2^shift keys */
  uint64_t n, bytes;
  extent *extents;
  size_t n_extents, room;
  uint8_t *block; /* being filled */
  size_t used;
} bucket;

/* Buckets of one width that are being filled. */
typedef struct level {
  bucket *buckets;
  size_t n;
  unsigned shift;
  uint64_t first;
  uint8_t *blocks;
  size_t block_bytes;
} level;

/* A bucket that waits to be pulled. */
typedef struct waiting {
  bucket bucket;
  unsigned shift;
} waiting;

struct annb_transpose {
  uint64_t memory, n_keys;
  size_t value_size;
  annb_spooler *spooler;
  level top;
  bool pulling;
  waiting *waiting; /* the next one is the last */
  size_t n_waiting, waiting_room;

  annb_leaf leaf; /* what annb_transpose_next gives out */
  annb_leaf_room room;
  annb_leaf_raw raw;
};

/* A run as it is in a block: a constant, count × 2 + by_key, then the keys from the bucket's first on (by_key: the payloads), and the
 * values. */
typedef struct run {
  uint32_t constant, n;
  bool by_key;
  const uint8_t *varying, *values;
} run;

/* ---- levels ---- */

static size_t key_size(unsigned shift) { return shift <= NARROW_BITS ? sizeof(uint16_t) : sizeof(uint32_t); }

static annb_status open_level(annb_transpose *t, level *l, uint64_t first, uint64_t n_keys, unsigned shift, annb_error *err) {
  uint64_t n = ((n_keys - 1) >> shift) + 1, bytes = t->memory / 4 / (n + ANNB_SPOOLER_SPARES);
  bytes = bytes < LEAST_BLOCK ? LEAST_BLOCK : bytes > MOST_BLOCK ? MOST_BLOCK : bytes;
  uint8_t *spares[ANNB_SPOOLER_SPARES];
  *l = (level){.n = n, .shift = shift, .first = first, .block_bytes = bytes};
  l->buckets = calloc(n, sizeof *l->buckets);
  l->blocks = malloc((n + ANNB_SPOOLER_SPARES) * bytes);
  if (!l->buckets || !l->blocks) return annb_fail_memory(err);
  for (size_t i = 0; i < n; i++) l->buckets[i] = (bucket){.first = first + ((uint64_t)i << shift), .block = l->blocks + i * bytes};
  for (size_t i = 0; i < ANNB_SPOOLER_SPARES; i++) spares[i] = l->blocks + (n + i) * bytes;
  annb_spooler_set_spares(t->spooler, spares, ANNB_SPOOLER_SPARES);
  return ANNB_OK;
}

static void close_level(annb_transpose *t, level *l) {
  if (t->spooler) (void)annb_spooler_wait(t->spooler, NULL); /* it has blocks of the level */
  for (size_t i = 0; l->buckets && i < l->n; i++) free(l->buckets[i].extents);
  free(l->buckets);
  free(l->blocks);
  *l = (level){0};
}

/* So wide that a bucket is likely to be a leaf, and as many as have blocks. */
static unsigned choose_shift(const annb_transpose *t, uint64_t expected) {
  uint64_t most = t->memory / 4 / LEAST_BLOCK, leaf = t->memory / 64 / (RUN_HEAD + t->value_size),
           n = expected / leaf + expected / leaf / 2 + 1;
  unsigned shift = 0;
  if (n > most) n = most;
  while (((t->n_keys - 1) >> shift) + 1 > n) shift++;
  if (shift && ((t->n_keys - 1) >> (shift - 1)) + 1 <= most) shift--; /* rather more buckets than fewer */
  return shift;
}

annb_status annb_transpose_open(uint32_t value_size, uint64_t n_keys, uint64_t expected, uint64_t memory, const char *spool_dir,
                                annb_transpose **out, annb_error *err) {
  annb_transpose *t = calloc(1, sizeof *t);
  *out = NULL;
  if (!t) return annb_fail_memory(err);
  t->memory = memory < MIN_MEMORY ? MIN_MEMORY : memory;
  t->n_keys = n_keys ? n_keys : 1;
  t->value_size = value_size;
  annb_status s = annb_spooler_open(spool_dir, &t->spooler, err);
  if (!s) s = open_level(t, &t->top, 0, t->n_keys, choose_shift(t, expected), err);
  if (s) annb_transpose_close(t);
  else *out = t;
  return s;
}

void annb_transpose_close(annb_transpose *t) {
  if (!t) return;
  annb_spooler_close(t->spooler);
  t->spooler = NULL;
  close_level(t, &t->top);
  for (size_t i = 0; i < t->n_waiting; i++) free(t->waiting[i].bucket.extents);
  free(t->waiting);
  annb_leaf_free(&t->leaf);
  annb_leaf_room_free(&t->room);
  free(t->raw.bytes);
  free(t);
}

/* ---- pushing ---- */

static annb_status spool(annb_transpose *t, bucket *b, annb_error *err) {
  if (b->used == 0) return ANNB_OK;
  if (b->n_extents == b->room) {
    size_t room = b->room ? 2 * b->room : 8;
    extent *more = realloc(b->extents, room * sizeof *more);
    if (!more) return annb_fail_memory(err);
    b->extents = more;
    b->room = room;
  }
  extent *e = &b->extents[b->n_extents++];
  e->bytes = b->used;
  b->bytes += b->used;
  b->used = 0;
  return annb_spooler_write(t->spooler, &b->block, e->bytes, &e->offset, err);
}

static uint8_t *put_keys(uint8_t *to, const uint32_t *keys, uint32_t n, uint32_t first, unsigned shift) {
  for (uint32_t i = 0; shift <= NARROW_BITS && i < n; i++) {
    uint16_t low = (uint16_t)(keys[i] - first);
    memcpy(to + i * sizeof low, &low, sizeof low);
  }
  for (uint32_t i = 0; shift > NARROW_BITS && i < n; i++) {
    uint32_t low = keys[i] - first;
    memcpy(to + i * sizeof low, &low, sizeof low);
  }
  return to + n * key_size(shift);
}

/* Elements of one bucket that share their key (by_key) or payload. */
static annb_status put(annb_transpose *t, const level *l, bucket *b, bool by_key, uint64_t n, const uint32_t *keys,
                       const uint32_t *payloads, const uint8_t *values, annb_error *err) {
  const size_t each = (by_key ? sizeof *payloads : key_size(l->shift)) + t->value_size;
  for (uint64_t i = 0; i < n;) {
    size_t left = l->block_bytes - b->used;
    if (left < RUN_HEAD + each) {
      annb_status s = spool(t, b, err);
      if (s) return s;
      continue;
    }
    uint32_t k = (uint32_t)(n - i < (left - RUN_HEAD) / each ? n - i : (left - RUN_HEAD) / each);
    uint32_t head[2] = {by_key ? keys[i] - (uint32_t)b->first : payloads[0], k << 1 | by_key};
    uint8_t *to = b->block + b->used;
    memcpy(to, head, RUN_HEAD);
    if (by_key) to = (uint8_t *)memcpy(to + RUN_HEAD, payloads + i, k * sizeof *payloads) + k * sizeof *payloads;
    else to = put_keys(to + RUN_HEAD, keys + i, k, (uint32_t)b->first, l->shift);
    memcpy(to, values + i * t->value_size, k * t->value_size);
    b->used += RUN_HEAD + k * each;
    b->n += k;
    i += k;
  }
  return ANNB_OK;
}

static annb_status distribute(annb_transpose *t, level *l, uint64_t n, const uint32_t *keys, const uint32_t *payloads,
                              const uint8_t *values, annb_error *err) {
  for (uint64_t i = 0, end; i < n; i = end) {
    const uint32_t key = keys[i], payload = payloads[i];
    const uint64_t at = (key - l->first) >> l->shift;
    if (key >= t->n_keys)
      return annb_fail(err, ANNB_EINVAL, NULL, "key %lu was pushed, there are %llu", (unsigned long)key, (unsigned long long)t->n_keys);
    end = i + 1;
    bool by_key = end < n && keys[end] == key && payloads[end] != payload;
    if (by_key)
      while (end < n && keys[end] == key) end++;
    else
      while (end < n && payloads[end] == payload && (keys[end] - l->first) >> l->shift == at) end++;
    annb_status s = put(t, l, &l->buckets[at], by_key, end - i, keys + i, payloads + i, values + i * t->value_size, err);
    if (s) return s;
  }
  return ANNB_OK;
}

annb_status annb_transpose_push(annb_transpose *t, uint64_t n, const uint32_t *keys, const uint32_t *payloads, const void *values,
                                annb_error *err) {
  if (t->pulling) return annb_fail(err, ANNB_EINVAL, NULL, "elements were pushed after the first group was taken");
  return distribute(t, &t->top, n, keys, payloads, values, err);
}

annb_status annb_transpose_push_run(annb_transpose *t, uint64_t n, const uint32_t *keys, uint32_t payload, const void *values,
                                    annb_error *err) {
  if (t->pulling) return annb_fail(err, ANNB_EINVAL, NULL, "elements were pushed after the first group was taken");
  const level *l = &t->top;
  for (uint64_t i = 0, end; i < n; i = end) {
    const uint64_t at = keys[i] >> l->shift;
    if (at >= l->n)
      return annb_fail(err, ANNB_EINVAL, NULL, "key %lu was pushed, there are %llu", (unsigned long)keys[i], (unsigned long long)t->n_keys);
    for (end = i + 1; end < n && keys[end] >> l->shift == at;) end++;
    annb_status s = put(t, l, &l->buckets[at], false, end - i, keys + i, &payload, (const uint8_t *)values + i * t->value_size, err);
    if (s) return s;
  }
  return ANNB_OK;
}

/* ---- runs of a block ---- */

static const uint8_t *read_run(const annb_transpose *t, unsigned shift, const uint8_t *at, run *r) {
  uint32_t head[2];
  memcpy(head, at, RUN_HEAD);
  r->constant = head[0];
  r->n = head[1] >> 1;
  r->by_key = head[1] & 1;
  r->varying = at + RUN_HEAD;
  r->values = r->varying + r->n * (r->by_key ? sizeof(uint32_t) : key_size(shift));
  return r->values + r->n * t->value_size;
}

static inline uint32_t u32_at(const uint8_t *p, uint32_t i) {
  uint32_t x;
  memcpy(&x, p + (size_t)i * sizeof x, sizeof x);
  return x;
}

static inline uint32_t u16_at(const uint8_t *p, uint32_t i) {
  uint16_t x;
  memcpy(&x, p + (size_t)i * sizeof x, sizeof x);
  return x;
}

static uint32_t key_at(const run *r, unsigned shift, uint32_t i) {
  return r->by_key ? r->constant : shift <= NARROW_BITS ? u16_at(r->varying, i) : u32_at(r->varying, i);
}

/* ---- a leaf: sorted by counting ---- */

static void count(const annb_transpose *t, unsigned shift, const uint8_t *at, uint64_t bytes, uint64_t *counts) {
  for (const uint8_t *end = at + bytes; at < end;) {
    run r;
    at = read_run(t, shift, at, &r);
    if (r.by_key) counts[r.constant] += r.n;
    else
      for (uint32_t i = 0; i < r.n; i++) counts[key_at(&r, shift, i)]++;
  }
}

/* `size` is a constant at the hot call sites, so that the copy is one move. */
static inline void place_run(const annb_leaf_room *out, const run *r, unsigned shift, size_t size, uint64_t *next) {
  for (uint32_t i = 0; i < r->n; i++) {
    uint64_t to = next[shift <= NARROW_BITS ? u16_at(r->varying, i) : u32_at(r->varying, i)]++;
    out->payloads[to] = r->constant;
    memcpy(out->values + to * size, r->values + i * size, size);
  }
}

static void place(const annb_transpose *t, const annb_leaf_room *out, unsigned shift, const uint8_t *at, uint64_t bytes, uint64_t *next) {
  for (const uint8_t *end = at + bytes; at < end;) {
    run r;
    at = read_run(t, shift, at, &r);
    if (r.by_key) {
      uint64_t to = next[r.constant];
      memcpy(out->payloads + to, r.varying, r.n * sizeof(uint32_t));
      memcpy(out->values + to * t->value_size, r.values, r.n * t->value_size);
      next[r.constant] += r.n;
    } else if (t->value_size == 4) {
      place_run(out, &r, shift, 4, next);
    } else if (t->value_size == 8) {
      place_run(out, &r, shift, 8, next);
    } else {
      place_run(out, &r, shift, t->value_size, next);
    }
  }
}

static bool room_for(void **p, uint64_t *room, uint64_t need, size_t size) {
  if (need <= *room) return true;
  free(*p);
  *p = malloc(need * size);
  *room = *p ? need : 0;
  return *p != NULL;
}

void annb_leaf_room_free(annb_leaf_room *room) {
  free(room->starts);
  free(room->payloads);
  free(room->values);
  *room = (annb_leaf_room){0};
}

void annb_leaf_free(annb_leaf *leaf) {
  free(leaf->extents);
  *leaf = (annb_leaf){0};
}

static bool raw_room(annb_leaf_raw *raw, uint64_t bytes) {
  void *p = raw->bytes;
  bool ok = room_for(&p, &raw->room, bytes, 1);
  raw->bytes = p;
  return ok;
}

static bool leaf_room(const annb_transpose *t, annb_leaf_room *r, uint64_t keys, uint64_t n) {
  void *starts = r->starts, *payloads = r->payloads, *values = r->values;
  uint64_t elements = r->elements_room;
  bool ok = room_for(&starts, &r->keys_room, keys + 2, sizeof *r->starts);
  ok = room_for(&payloads, &elements, n, sizeof *r->payloads) && ok;
  ok = room_for(&values, &r->elements_room, n, t->value_size) && ok;
  r->starts = starts;
  r->payloads = payloads;
  r->values = values;
  if (!payloads) r->elements_room = 0;
  return ok;
}

static annb_status read_extents(const annb_transpose *t, const annb_leaf *leaf, uint8_t *raw, annb_error *err) {
  annb_status s = ANNB_OK;
  for (size_t i = 0; i < leaf->n_extents && !s; raw += leaf->extents[i++].bytes)
    s = annb_spooler_read(t->spooler, raw, leaf->extents[i].bytes, leaf->extents[i].offset, err);
  return s;
}

/* All of one key: block by block, for it may be large. */
static annb_status load_group(const annb_transpose *t, const annb_leaf *leaf, annb_leaf_raw *raw, annb_leaf_room *out, annb_error *err) {
  const uint64_t most = 2 * t->memory / (RUN_HEAD + t->value_size);
  if (leaf->n > most)
    return annb_fail(err, ANNB_ENOMEM, NULL, "row or column %llu has more than %llu elements, which do not fit the memory cap: raise it",
                     (unsigned long long)leaf->first, (unsigned long long)most);
  if (!raw_room(raw, MOST_BLOCK) || !leaf_room(t, out, 1, leaf->n)) return annb_fail_memory(err);
  annb_status s = ANNB_OK;
  uint64_t next = 0;
  for (size_t i = 0; i < leaf->n_extents && !s; i++) {
    s = annb_spooler_read(t->spooler, raw->bytes, leaf->extents[i].bytes, leaf->extents[i].offset, err);
    if (!s) place(t, out, leaf->shift, raw->bytes, leaf->extents[i].bytes, &next);
  }
  out->starts[0] = 0;
  out->starts[1] = next;
  return s;
}

/* starts[k + 1] counts key k and then runs from its start to its end, which leaves in starts[k] its start. */
annb_status annb_transpose_load(const annb_transpose *t, const annb_leaf *leaf, annb_leaf_raw *raw, annb_leaf_room *out, annb_error *err) {
  const uint64_t keys = UINT64_C(1) << leaf->shift; /* the last ones may be past n_keys */
  if (leaf->n && leaf->shift == 0) return load_group(t, leaf, raw, out, err);
  if (!raw_room(raw, leaf->bytes) || !leaf_room(t, out, keys, leaf->n)) return annb_fail_memory(err);
  annb_status s = read_extents(t, leaf, raw->bytes, err);
  if (s) return s;
  memset(out->starts, 0, (keys + 2) * sizeof *out->starts);
  count(t, leaf->shift, raw->bytes, leaf->bytes, out->starts + 2);
  for (uint64_t k = 0; k < keys; k++) out->starts[k + 2] += out->starts[k + 1];
  place(t, out, leaf->shift, raw->bytes, leaf->bytes, out->starts + 1);
  return ANNB_OK;
}

/* ---- pulling ---- */

/* Close the buckets of a level and let them wait; the first of them is next. */
static annb_status take_level(annb_transpose *t, level *l, annb_error *err) {
  annb_status s = ANNB_OK;
  for (size_t i = 0; i < l->n && !s; i++) s = spool(t, &l->buckets[i], err);
  if (!s) s = annb_spooler_wait(t->spooler, err);
  if (s) return s;
  if (t->n_waiting + l->n > t->waiting_room) {
    waiting *more = realloc(t->waiting, (t->n_waiting + l->n) * sizeof *more);
    if (!more) return annb_fail_memory(err);
    t->waiting = more;
    t->waiting_room = t->n_waiting + l->n;
  }
  for (size_t i = l->n; i-- > 0;) t->waiting[t->n_waiting++] = (waiting){l->buckets[i], l->shift};
  l->n = 0; /* the extents are theirs now */
  return ANNB_OK;
}

static annb_status split_runs(annb_transpose *t, const waiting *w, uint64_t bytes, level *into, uint32_t *keys, uint32_t *payloads,
                              annb_error *err) {
  annb_status s = ANNB_OK;
  for (const uint8_t *at = t->raw.bytes, *end = at + bytes; at < end && !s;) {
    run r;
    at = read_run(t, w->shift, at, &r);
    for (uint32_t i = 0; i < r.n; i++) {
      keys[i] = (uint32_t)w->bucket.first + key_at(&r, w->shift, i);
      payloads[i] = r.by_key ? u32_at(r.varying, i) : r.constant;
    }
    s = distribute(t, into, r.n, keys, payloads, r.values, err);
  }
  return s;
}

/* The bucket's elements into buckets of a sixteenth of its keys. Its place in the file is not used again. */
static annb_status split(annb_transpose *t, const waiting *w, annb_error *err) {
  level l;
  const bucket *b = &w->bucket;
  uint64_t most = 0;
  for (size_t i = 0; i < b->n_extents; i++) most = b->extents[i].bytes > most ? b->extents[i].bytes : most;
  uint32_t *keys = malloc(most / 3 * sizeof *keys + 1),
           *payloads = malloc(most / 3 * sizeof *payloads + 1); /* an element takes 3 at least */
  annb_status s = open_level(t, &l, b->first, UINT64_C(1) << w->shift, w->shift > SPLIT_BITS ? w->shift - SPLIT_BITS : 0, err);
  if (!s && (!keys || !payloads || !raw_room(&t->raw, most))) s = annb_fail_memory(err);
  for (size_t i = 0; i < b->n_extents && !s; i++) {
    s = annb_spooler_read(t->spooler, t->raw.bytes, b->extents[i].bytes, b->extents[i].offset, err);
    if (!s) s = split_runs(t, w, b->extents[i].bytes, &l, keys, payloads, err);
  }
  if (!s) s = take_level(t, &l, err);
  close_level(t, &l);
  free(keys);
  free(payloads);
  return s;
}

/* The next bucket, or the first of its parts. */
annb_status annb_transpose_take(annb_transpose *t, annb_leaf *leaf, annb_error *err) {
  annb_status s = ANNB_OK;
  *leaf = (annb_leaf){0};
  if (!t->pulling) {
    t->pulling = true;
    s = take_level(t, &t->top, err);
    close_level(t, &t->top);
  }
  while (!s && t->n_waiting) {
    const waiting w = t->waiting[--t->n_waiting];
    const uint64_t keys = UINT64_C(1) << w.shift, left = t->n_keys - w.bucket.first;
    const uint64_t need = w.bucket.bytes + w.bucket.n * (sizeof(uint32_t) + t->value_size) + keys * sizeof(uint64_t);
    if (w.bucket.n == 0 || w.shift == 0 || need <= t->memory / 2) {
      *leaf = (annb_leaf){w.bucket.first,   keys < left ? keys : left, w.bucket.n, w.bucket.bytes,
                          w.bucket.extents, w.bucket.n_extents,        w.shift};
      return ANNB_OK;
    }
    s = split(t, &w, err);
    free(w.bucket.extents);
  }
  return s;
}

static annb_status next_leaf(annb_transpose *t, annb_error *err) {
  annb_leaf_free(&t->leaf);
  annb_status s = annb_transpose_take(t, &t->leaf, err);
  return s || t->leaf.n == 0 ? s : annb_transpose_load(t, &t->leaf, &t->raw, &t->room, err);
}

annb_status annb_transpose_next(annb_transpose *t, uint32_t key, uint64_t *n, const uint32_t **payloads, const void **values,
                                annb_error *err) {
  annb_status s = ANNB_OK;
  const annb_leaf *leaf = &t->leaf;
  while (!s && (!t->pulling || t->n_waiting) && key >= leaf->first + leaf->n_keys) s = next_leaf(t, err);
  *n = 0;
  *payloads = NULL;
  *values = NULL;
  if (s || leaf->n == 0 || key < leaf->first || key - leaf->first >= leaf->n_keys) return s;
  const uint64_t start = t->room.starts[key - leaf->first];
  *n = t->room.starts[key - leaf->first + 1] - start;
  *payloads = t->room.payloads + start;
  *values = t->room.values + start * t->value_size;
  return ANNB_OK;
}
