#include "column_spool.h"

#include "../rows/transpose.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

/* Strings go in pieces of 8 bytes; a piece's payload is how many of them count. */
enum { PIECE = 8, WAITING = 8192, EXPECTED_PIECES = 3 };

struct annb_column_spool {
  annb_transpose *transpose;
  const annb_shuffle *shuffle;
  const annb_going *going;
  uint64_t n_rows, pushed; /* of the column; of the source so far */
  uint32_t value_size;
  uint64_t n; /* elements waiting */
  uint32_t *keys, *payloads;
  uint8_t *values;
};

annb_status annb_column_spool_open(const annb_column_target *target, uint32_t value_size, annb_column_spool **out, annb_error *err) {
  annb_column_spool *c = calloc(1, sizeof *c);
  *out = NULL;
  if (!c) return annb_fail_memory(err);
  c->shuffle = target->shuffle;
  c->going = &target->going;
  c->n_rows = target->length;
  c->value_size = value_size ? value_size : PIECE;
  c->keys = malloc(WAITING * sizeof *c->keys);
  c->payloads = calloc(WAITING, sizeof *c->payloads);
  c->values = malloc(WAITING * (size_t)PIECE);
  annb_status s = c->keys && c->payloads && c->values ? ANNB_OK : annb_fail_memory(err);
  const uint64_t expected = target->length * (value_size ? 1 : EXPECTED_PIECES);
  if (!s) s = annb_transpose_open(c->value_size, target->length, expected, target->memory, target->spool_dir, &c->transpose, err);
  if (s) annb_column_spool_close(c);
  else *out = c;
  return s;
}

void annb_column_spool_close(annb_column_spool *c) {
  if (!c) return;
  annb_transpose_close(c->transpose);
  free(c->keys);
  free(c->payloads);
  free(c->values);
  free(c);
}

/* ---- in ---- */

static annb_status flush(annb_column_spool *c, annb_error *err) {
  annb_status s = c->n ? annb_transpose_push(c->transpose, c->n, c->keys, c->payloads, c->values, err) : ANNB_OK;
  c->n = 0;
  return s;
}

static annb_status add(annb_column_spool *c, uint32_t key, uint32_t payload, const void *value, size_t size, annb_error *err) {
  c->keys[c->n] = key;
  c->payloads[c->n] = payload;
  memset(c->values + c->n * c->value_size, 0, c->value_size);
  memcpy(c->values + c->n++ * c->value_size, value, size);
  return c->n == WAITING ? flush(c, err) : ANNB_OK;
}

/* Where the next row of the source goes. */
static annb_status next_key(annb_column_spool *c, uint32_t *key, annb_error *err) {
  if (c->pushed == c->n_rows) return annb_fail(err, ANNB_EINPUT, NULL, "a column got longer while it was read: pack the file again");
  *key = (uint32_t)annb_shuffle_place(c->shuffle, c->pushed++);
  return ANNB_OK;
}

annb_status annb_column_spool_push(annb_column_spool *c, uint64_t n, const void *values, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint64_t i = 0; i < n && !s; i++) {
    uint32_t key = 0;
    s = next_key(c, &key, err);
    if (!s) s = add(c, key, 0, (const uint8_t *)values + i * c->value_size, c->value_size, err);
  }
  return s;
}

annb_status annb_column_spool_push_string(annb_column_spool *c, const char *bytes, uint64_t length, annb_error *err) {
  uint32_t key = 0;
  annb_status s = next_key(c, &key, err);
  for (uint64_t at = 0; at < length && !s; at += PIECE) {
    const uint32_t n = length - at < PIECE ? (uint32_t)(length - at) : PIECE;
    s = add(c, key, n, bytes + at, n, err);
  }
  return s;
}

/* ---- out ---- */

static annb_status finish(annb_column_spool *c, annb_error *err) {
  if (c->pushed != c->n_rows) return annb_fail(err, ANNB_EINPUT, NULL, "a column got shorter while it was read: pack the file again");
  return flush(c, err);
}

annb_status annb_column_spool_values(annb_column_spool *c, annb_arrays_writer *writer, annb_error *err) {
  annb_status s = finish(c, err);
  uint64_t waiting = 0;
  for (uint64_t row = 0; row < c->n_rows && !s; row++) {
    const uint32_t *payloads;
    const void *value;
    uint64_t n;
    if (row % WAITING == 0) s = annb_going_on(c->going, err);
    if (!s) s = annb_transpose_next(c->transpose, (uint32_t)row, &n, &payloads, &value, err);
    if (!s && n != 1) s = annb_fail(err, ANNB_EIO, NULL, "a column came back damaged from its temporary file");
    if (!s) memcpy(c->values + waiting++ * c->value_size, value, c->value_size);
    if (!s && (waiting == WAITING || row + 1 == c->n_rows)) {
      s = annb_arrays_append(writer, c->values, waiting, err);
      waiting = 0;
    }
  }
  return s;
}

annb_status annb_column_spool_strings(annb_column_spool *c, annb_string_writer *writer, annb_error *err) {
  annb_status s = finish(c, err);
  for (uint64_t row = 0; row < c->n_rows && !s; row++) {
    const uint32_t *payloads;
    const void *bytes;
    uint64_t n;
    if (row % WAITING == 0) s = annb_going_on(c->going, err);
    if (!s) s = annb_transpose_next(c->transpose, (uint32_t)row, &n, &payloads, &bytes, err);
    if (!s) s = annb_strings_append(writer, n ? bytes : "", n ? (n - 1) * PIECE + payloads[n - 1] : 0, err);
  }
  return s;
}
