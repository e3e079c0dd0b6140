#include "order_log.h"

#include "../../store/error.h"
#include "../../store/io.h"
#include "../../store/codec/row_sort.h"

#include <stdlib.h>
#include <string.h>

enum { SPOOL_BYTES = 256 << 10 };

/* A list of bytes: its end in memory, what came before in an anonymous file. */
typedef struct spool {
  int fd; /* −1: all of it is in memory */
  uint8_t *bytes;
  size_t used;
  uint64_t in_file;
} spool;

struct annb_order_log {
  const uint32_t *rank;
  char *spool_dir;
  spool rows, ends, bits;
  uint64_t row, n_entries;
};

/* ---- spools ---- */

static annb_status spool_flush(annb_order_log *log, spool *s, annb_error *err) {
  annb_status status = s->fd < 0 ? annb_io_anonymous(log->spool_dir, &s->fd, err) : ANNB_OK;
  if (!status) status = annb_io_write(s->fd, log->spool_dir, s->bytes, s->used, err);
  s->in_file += s->used;
  s->used = 0;
  return status;
}

static annb_status spool_add(annb_order_log *log, spool *s, const void *data, size_t n, annb_error *err) {
  if (!s->bytes && !(s->bytes = malloc(SPOOL_BYTES))) return annb_fail_memory(err);
  for (size_t i = 0, piece; i < n; i += piece) {
    piece = n - i < SPOOL_BYTES - s->used ? n - i : SPOOL_BYTES - s->used;
    memcpy(s->bytes + s->used, (const uint8_t *)data + i, piece);
    s->used += piece;
    annb_status status = s->used == SPOOL_BYTES ? spool_flush(log, s, err) : ANNB_OK;
    if (status) return status;
  }
  return ANNB_OK;
}

/* An array of the spool's bytes. Nothing may be added afterwards. */
static annb_status spool_write(annb_order_log *log, spool *s, annb_arrays_writer *writer, const char *name, annb_dtype dtype, size_t size,
                               annb_error *err) {
  uint32_t array;
  annb_status status = annb_arrays_begin(writer, name, dtype, 1, &array, err);
  if (!status && s->in_file) status = spool_flush(log, s, err);
  if (!status && !s->in_file) status = annb_arrays_append(writer, s->bytes, s->used / size, err);
  for (uint64_t at = 0; at < s->in_file && !status; at += SPOOL_BYTES) {
    size_t n = s->in_file - at < SPOOL_BYTES ? (size_t)(s->in_file - at) : SPOOL_BYTES;
    status = annb_io_pread(s->fd, log->spool_dir, s->bytes, n, at, err);
    if (!status) status = annb_arrays_append(writer, s->bytes, n / size, err);
  }
  return status ? status : annb_arrays_end(writer, err);
}

static void spool_close(const annb_order_log *log, spool *s) {
  if (s->fd >= 0) annb_io_close(s->fd, log->spool_dir, NULL);
  free(s->bytes);
}

/* ---- the log ---- */

annb_status annb_order_log_open(const uint32_t *rank, const char *spool_dir, annb_order_log **out, annb_error *err) {
  annb_order_log *log = calloc(1, sizeof *log);
  *out = NULL;
  if (!log) return annb_fail_memory(err);
  log->rank = rank;
  log->rows.fd = log->ends.fd = log->bits.fd = -1;
  log->spool_dir = strdup(spool_dir);
  if (log->spool_dir) *out = log;
  else annb_order_log_close(log);
  return *out ? ANNB_OK : annb_fail_memory(err);
}

void annb_order_log_close(annb_order_log *log) {
  if (!log) return;
  spool_close(log, &log->rows);
  spool_close(log, &log->ends);
  spool_close(log, &log->bits);
  free(log->spool_dir);
  free(log);
}

uint64_t annb_order_log_entries(const annb_order_log *log) { return log->n_entries; }

static bool fits(const annb_order_log *log, const uint32_t *columns, uint64_t n) {
  if (!log->rank) return annb_ascends(columns, n);
  bool descends = false;
  for (uint64_t i = 1, before = n ? log->rank[columns[0]] : 0, here; i < n; i++, before = here) {
    here = log->rank[columns[i]];
    descends |= here < before;
  }
  return !descends;
}

/* ---- looking ---- */

void annb_order_maker_free(annb_order_maker *maker) {
  free(maker->keys);
  free(maker->place);
  *maker = (annb_order_maker){0};
}

void annb_order_entries_free(annb_order_entries *entries) {
  free(entries->rows);
  free(entries->bytes);
  *entries = (annb_order_entries){0};
}

static bool maker_room(annb_order_maker *m, uint32_t n) {
  if (n <= m->room) return true;
  uint64_t room = n + (uint64_t)n / 2;
  free(m->keys);
  free(m->place);
  m->keys = malloc(2 * room * sizeof *m->keys);
  m->place = malloc(4 * room * sizeof *m->place);
  m->room = m->keys && m->place ? room : 0;
  return m->room;
}

/* For one entry more, of so many bytes at most. */
static bool entries_room(annb_order_entries *e, uint64_t bytes) {
  if (e->n == e->room) {
    const uint64_t room = e->room ? 2 * e->room : 16;
    void *more = realloc(e->rows, room * sizeof *e->rows);
    if (!more) return false;
    e->rows = more;
    e->room = room;
  }
  if (e->used + bytes <= e->bytes_room) return true;
  const uint64_t room = e->used + bytes + (e->used + bytes) / 2;
  void *more = realloc(e->bytes, room);
  if (!more) return false;
  e->bytes = more;
  e->bytes_room = room;
  return true;
}

static annb_status add_entry(const annb_order_log *log, annb_order_maker *m, uint64_t row, const uint32_t *columns, uint32_t n,
                             annb_order_entries *out, annb_error *err) {
  if (!maker_room(m, n) || !entries_room(out, annb_order_entry_bound(n))) return annb_fail_memory(err);
  for (uint32_t i = 0; i < n; i++) m->keys[i] = (uint64_t)(log->rank ? log->rank[columns[i]] : columns[i]) << 32 | i;
  const uint64_t *sorted = annb_sort_keys(m->keys, m->keys + n, n);
  for (uint32_t k = 0; k < n; k++) m->place[(uint32_t)sorted[k]] = k;
  out->used += annb_order_entry(m->place, n, m->place + n, out->bytes + out->used);
  out->rows[out->n++] = (struct annb_order_row){row, out->used};
  return ANNB_OK;
}

annb_status annb_order_log_look(const annb_order_log *log, annb_order_maker *maker, const annb_rows_chunk *chunk, annb_order_entries *out,
                                annb_error *err) {
  annb_status s = ANNB_OK;
  out->n = out->used = 0;
  out->n_rows = chunk->n_rows;
  for (uint64_t r = 0; r < chunk->n_rows && !s; r++) {
    uint64_t from = chunk->indptr[r] - chunk->indptr[0], n = chunk->indptr[r + 1] - chunk->indptr[r];
    if (n > 1 && !fits(log, chunk->indices + from, n)) s = add_entry(log, maker, r, chunk->indices + from, (uint32_t)n, out, err);
  }
  return s;
}

/* ---- adding ---- */

annb_status annb_order_log_add(annb_order_log *log, const annb_order_entries *entries, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint64_t i = 0, before = 0; i < entries->n && !s; before = entries->rows[i++].end) {
    const uint64_t row = log->row + entries->rows[i].row;
    s = spool_add(log, &log->bits, entries->bytes + before, entries->rows[i].end - before, err);
    const uint64_t end = log->bits.in_file + log->bits.used;
    if (!s) s = spool_add(log, &log->rows, &row, sizeof row, err);
    if (!s) s = spool_add(log, &log->ends, &end, sizeof end, err);
  }
  log->n_entries += entries->n;
  log->row += entries->n_rows;
  return s;
}

annb_status annb_order_log_write(annb_order_log *log, annb_arrays_writer *writer, annb_error *err) {
  annb_status s = spool_write(log, &log->rows, writer, "order_rows", ANNB_U64, sizeof(uint64_t), err);
  if (!s) s = spool_write(log, &log->ends, writer, "order_ends", ANNB_U64, sizeof(uint64_t), err);
  return s ? s : spool_write(log, &log->bits, writer, "order_bits", ANNB_U8, 1, err);
}
