#include "transpose.h"

#include "../../store/error.h"
#include "../../store/io.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* An element is a record of 8 + value_size bytes: key, payload, value. Records collect in `buffer`; a full buffer is sorted by key
 * and becomes a run of the spool file. Runs are merged in the order they were written, which keeps equal keys in push order. */

enum { RADIX_BITS = 11, RADIX = 1 << RADIX_BITS, HEAD = 8, MAX_FAN_IN = 512 };
#define MIN_MEMORY (UINT64_C(64) << 10)
#define WANTED_BLOCK (UINT64_C(64) << 10)

typedef struct run {
  uint64_t offset, n; /* in the spool file; elements not yet read into the block */
  uint8_t *block;     /* the next elements */
  uint64_t at, have;  /* in the block */
} run;

struct annb_transpose {
  uint64_t memory, n, capacity; /* elements in `buffer` */
  size_t value_size, size;      /* bytes of a value, of a record */
  uint8_t *buffer, *scratch;
  char *spool_dir;
  int fd;
  uint64_t spool_end;
  run *runs;
  size_t n_runs, room_runs, fan_in;
  uint64_t block_elements;
  uint8_t *blocks;
  uint64_t taken; /* elements of the buffer given out, when nothing was spooled */
  bool pulling;
  uint32_t *payloads;
  uint8_t *values;
  uint64_t group_n, group_room;
};

annb_status annb_transpose_open(uint32_t value_size, uint64_t memory, const char *spool_dir, annb_transpose **out, annb_error *err) {
  annb_transpose *t = calloc(1, sizeof *t);
  *out = NULL;
  if (!t) return annb_fail_memory(err);
  t->fd = -1;
  t->memory = memory < MIN_MEMORY ? MIN_MEMORY : memory;
  t->value_size = value_size;
  t->size = HEAD + (size_t)value_size;
  t->capacity = t->memory / 2 / t->size;
  if (t->capacity == 0) t->capacity = 1;
  t->fan_in = (size_t)(t->memory / 2 / WANTED_BLOCK);
  if (t->fan_in < 4) t->fan_in = 4;
  if (t->fan_in > MAX_FAN_IN) t->fan_in = MAX_FAN_IN;
  t->block_elements = t->memory / 2 / t->fan_in / t->size;
  if (t->block_elements == 0) t->block_elements = 1;
  t->spool_dir = strdup(spool_dir);
  t->buffer = malloc(t->capacity * t->size);
  t->scratch = malloc(t->capacity * t->size);
  if (!t->spool_dir || !t->buffer || !t->scratch) {
    annb_transpose_close(t);
    return annb_fail_memory(err);
  }
  *out = t;
  return ANNB_OK;
}

void annb_transpose_close(annb_transpose *t) {
  if (!t) return;
  if (t->fd >= 0) annb_io_close(t->fd, t->spool_dir, NULL);
  free(t->spool_dir);
  free(t->buffer);
  free(t->scratch);
  free(t->runs);
  free(t->blocks);
  free(t->payloads);
  free(t->values);
  free(t);
}

static inline uint32_t key_of(const uint8_t *record) {
  uint32_t key;
  memcpy(&key, record, sizeof key);
  return key;
}

/* ---- sorting a buffer ---- */

/* One stable pass; `size` is a constant at the hot call sites, so that the copy is a few moves. */
static inline void scatter(const uint8_t *from, uint8_t *to, uint64_t n, size_t size, unsigned shift, uint64_t *place) {
  for (uint64_t i = 0; i < n; i++) {
    const uint8_t *record = from + i * size;
    memcpy(to + place[key_of(record) >> shift & (RADIX - 1)]++ * size, record, size);
  }
}

static void radix_pass(const uint8_t *from, uint8_t *to, uint64_t n, size_t size, unsigned shift) {
  uint64_t place[RADIX] = {0}, sum = 0;
  for (uint64_t i = 0; i < n; i++) place[key_of(from + i * size) >> shift & (RADIX - 1)]++;
  for (size_t d = 0; d < RADIX; d++) {
    uint64_t count = place[d];
    place[d] = sum;
    sum += count;
  }
  switch (size) {
    case 9: scatter(from, to, n, 9, shift, place); break;
    case 10: scatter(from, to, n, 10, shift, place); break;
    case 12: scatter(from, to, n, 12, shift, place); break;
    case 16: scatter(from, to, n, 16, shift, place); break;
    default: scatter(from, to, n, size, shift, place);
  }
}

static void sort_buffer(annb_transpose *t) {
  uint32_t used = 0;
  for (uint64_t i = 0; i < t->n; i++) used |= key_of(t->buffer + i * t->size);
  for (unsigned shift = 0; shift < 32 && used >> shift; shift += RADIX_BITS) {
    radix_pass(t->buffer, t->scratch, t->n, t->size, shift);
    uint8_t *sorted = t->scratch;
    t->scratch = t->buffer;
    t->buffer = sorted;
  }
}

/* ---- runs ---- */

static annb_status add_run(run **runs, size_t *n, size_t *room, uint64_t offset, uint64_t elements, annb_error *err) {
  if (*n == *room) {
    size_t more = *room ? 2 * *room : 64;
    run *grown = realloc(*runs, more * sizeof *grown);
    if (!grown) return annb_fail_memory(err);
    *runs = grown;
    *room = more;
  }
  (*runs)[(*n)++] = (run){.offset = offset, .n = elements};
  return ANNB_OK;
}

static annb_status spool(annb_transpose *t, annb_error *err) {
  annb_status s = t->fd < 0 ? annb_io_anonymous(t->spool_dir, &t->fd, err) : ANNB_OK;
  if (s) return s;
  sort_buffer(t);
  s = annb_io_write(t->fd, t->spool_dir, t->buffer, t->n * t->size, err);
  if (!s) s = add_run(&t->runs, &t->n_runs, &t->room_runs, t->spool_end, t->n, err);
  t->spool_end += t->n * t->size;
  t->n = 0;
  return s;
}

annb_status annb_transpose_push(annb_transpose *t, uint64_t n, const uint32_t *keys, const uint32_t *payloads, const void *values,
                                annb_error *err) {
  if (t->pulling) return annb_fail(err, ANNB_EINVAL, NULL, "elements were pushed after the first group was taken");
  const uint8_t *value = values;
  for (uint64_t i = 0; i < n;) {
    if (t->n == t->capacity) {
      annb_status s = spool(t, err);
      if (s) return s;
    }
    uint64_t end = n - i > t->capacity - t->n ? i + (t->capacity - t->n) : n;
    uint8_t *record = t->buffer + t->n * t->size;
    t->n += end - i;
    for (; i < end; i++, record += t->size) {
      memcpy(record, &keys[i], 4);
      memcpy(record + 4, &payloads[i], 4);
      if (t->value_size == 4) memcpy(record + HEAD, value + 4 * i, 4);
      else memcpy(record + HEAD, value + t->value_size * i, t->value_size);
    }
  }
  return ANNB_OK;
}

/* The run's next record, or NULL in *record at its end. */
static inline annb_status peek(annb_transpose *t, run *r, const uint8_t **record, annb_error *err) {
  if (r->at == r->have) {
    *record = NULL;
    if (r->n == 0) return ANNB_OK;
    uint64_t n = r->n < t->block_elements ? r->n : t->block_elements;
    annb_status s = annb_io_pread(t->fd, t->spool_dir, r->block, n * t->size, r->offset, err);
    if (s) return s;
    r->offset += n * t->size;
    r->n -= n;
    r->at = 0;
    r->have = n;
  }
  *record = r->block + r->at * t->size;
  return ANNB_OK;
}

/* ---- merging when there are more runs than blocks fit ---- */

typedef struct sink {
  int fd;
  uint8_t *block;
  uint64_t n, end; /* elements in the block; bytes given to the file in all */
} sink;

static annb_status flush(annb_transpose *t, sink *out, annb_error *err) {
  annb_status s = annb_io_write(out->fd, t->spool_dir, out->block, out->n * t->size, err);
  out->n = 0;
  return s;
}

/* Append the records of `r` with this key. */
static annb_status drain(annb_transpose *t, run *r, uint32_t key, sink *out, annb_error *err) {
  for (;;) {
    const uint8_t *record;
    annb_status s = peek(t, r, &record, err);
    if (s || !record || key_of(record) != key) return s;
    memcpy(out->block + out->n * t->size, record, t->size);
    r->at++;
    out->end += t->size;
    if (++out->n == t->block_elements && (s = flush(t, out, err))) return s;
  }
}

static annb_status merge_group(annb_transpose *t, run *runs, size_t n, sink *out, annb_error *err) {
  for (size_t i = 0; i < n; i++) runs[i].block = t->blocks + i * t->block_elements * t->size;
  for (;;) {
    uint32_t least = 0;
    bool any = false;
    annb_status s = ANNB_OK;
    for (size_t i = 0; i < n && !s; i++) {
      const uint8_t *record;
      s = peek(t, &runs[i], &record, err);
      if (s || !record) continue;
      if (!any || key_of(record) < least) least = key_of(record);
      any = true;
    }
    for (size_t i = 0; i < n && !s && any; i++) s = drain(t, &runs[i], least, out, err);
    if (s || !any) return s;
  }
}

/* One level: neighbouring runs become one, into a new spool file. */
static annb_status merge_level(annb_transpose *t, annb_error *err) {
  sink out = {.fd = -1, .block = malloc(t->block_elements * t->size)};
  run *merged = NULL;
  size_t n_merged = 0, room = 0;
  annb_status s = out.block ? annb_io_anonymous(t->spool_dir, &out.fd, err) : annb_fail_memory(err);
  for (size_t i = 0; i < t->n_runs && !s; i += t->fan_in) {
    size_t n = t->n_runs - i < t->fan_in ? t->n_runs - i : t->fan_in;
    uint64_t start = out.end;
    s = merge_group(t, t->runs + i, n, &out, err);
    if (!s) s = add_run(&merged, &n_merged, &room, start, (out.end - start) / t->size, err);
  }
  if (!s) s = flush(t, &out, err);
  free(out.block);
  if (s) {
    if (out.fd >= 0) annb_io_close(out.fd, t->spool_dir, NULL);
    free(merged);
    return s;
  }
  annb_io_close(t->fd, t->spool_dir, NULL);
  free(t->runs);
  t->fd = out.fd;
  t->runs = merged;
  t->n_runs = n_merged;
  t->room_runs = room;
  return ANNB_OK;
}

/* ---- giving out groups ---- */

static annb_status start_pulling(annb_transpose *t, annb_error *err) {
  t->pulling = true;
  if (t->n_runs == 0) { /* all of it is in memory */
    sort_buffer(t);
    free(t->scratch);
    t->scratch = NULL;
    return ANNB_OK;
  }
  annb_status s = t->n ? spool(t, err) : ANNB_OK;
  free(t->buffer);
  free(t->scratch);
  t->buffer = t->scratch = NULL;
  if (s) return s;
  t->blocks = malloc(t->fan_in * t->block_elements * t->size);
  if (!t->blocks) return annb_fail_memory(err);
  while (t->n_runs > t->fan_in)
    if ((s = merge_level(t, err))) return s;
  for (size_t i = 0; i < t->n_runs; i++) t->runs[i].block = t->blocks + i * t->block_elements * t->size;
  return ANNB_OK;
}

static annb_status grow_group(annb_transpose *t, uint64_t n, uint32_t key, annb_error *err) {
  if (n > 2 * t->memory / t->size)
    return annb_fail(err, ANNB_ENOMEM, NULL, "row or column %lu has more than %llu elements, which do not fit the memory cap: raise it",
                     (unsigned long)key, (unsigned long long)(2 * t->memory / t->size));
  uint64_t room = t->group_room ? t->group_room : 1024;
  while (room < n) room *= 2;
  uint32_t *payloads = realloc(t->payloads, room * sizeof *payloads);
  if (payloads) t->payloads = payloads;
  uint8_t *values = realloc(t->values, room * t->value_size + 1);
  if (values) t->values = values;
  if (!payloads || !values) return annb_fail_memory(err);
  t->group_room = room;
  return ANNB_OK;
}

/* Append the records at the front of records[0 … n) that have this key; *used is their number. */
static annb_status gather(annb_transpose *t, const uint8_t *records, uint64_t n, uint32_t key, uint64_t *used, annb_error *err) {
  uint64_t k = 0;
  while (k < n && key_of(records + k * t->size) == key) k++;
  *used = k;
  if (t->group_n + k > t->group_room || !t->payloads) {
    annb_status s = grow_group(t, t->group_n + k, key, err);
    if (s) return s;
  }
  for (uint64_t i = 0; i < k; i++, records += t->size) {
    memcpy(&t->payloads[t->group_n + i], records + 4, 4);
    memcpy(t->values + (t->group_n + i) * t->value_size, records + HEAD, t->value_size);
  }
  t->group_n += k;
  return ANNB_OK;
}

static annb_status gather_run(annb_transpose *t, run *r, uint32_t key, annb_error *err) {
  for (;;) {
    const uint8_t *record;
    uint64_t used;
    annb_status s = peek(t, r, &record, err);
    if (s || !record) return s;
    s = gather(t, record, r->have - r->at, key, &used, err);
    r->at += used;
    if (s || r->at < r->have) return s;
  }
}

annb_status annb_transpose_next(annb_transpose *t, uint32_t key, uint64_t *n, const uint32_t **payloads, const void **values,
                                annb_error *err) {
  annb_status s = t->pulling ? ANNB_OK : start_pulling(t, err);
  if (s) return s;
  t->group_n = 0;
  if (t->n_runs == 0) {
    uint64_t used;
    s = gather(t, t->buffer + t->taken * t->size, t->n - t->taken, key, &used, err);
    t->taken += used;
  }
  for (size_t i = 0; i < t->n_runs && !s; i++) s = gather_run(t, &t->runs[i], key, err);
  if (!s && !t->payloads) s = grow_group(t, 0, key, err); /* all runs were at their end: no pointers yet */
  *n = t->group_n;
  *payloads = t->payloads;
  *values = t->values;
  return s;
}
