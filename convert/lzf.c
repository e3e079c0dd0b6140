/* A stream is a list of tokens. First byte below 32: that many plus one literal bytes follow. Else its upper three bits are a length,
 * 7 meaning that a byte to add follows, and its lower five bits with the next byte a distance less one: copy length + 2 bytes from there. */
#include "lzf.h"

#include <hdf5.h>
#include <string.h>

enum { FILTER = 32000, LITERALS = 32, LONGEST = 264, FARTHEST = 8192, HASH_BITS = 13 };

typedef struct token {
  size_t head, literals, length, distance; /* bytes of the token's head; literals, or what to copy */
} token;

/* The token at `in`; false when it is cut off. */
static bool read_token(const uint8_t *in, size_t n, token *t) {
  size_t length = in[0] >> 5;
  if (!length) {
    *t = (token){1, (size_t)in[0] + 1, 0, 0};
    return t->literals < n;
  }
  size_t head = length == 7 ? 3 : 2;
  if (n < head) return false;
  if (length == 7) length += in[1];
  *t = (token){head, 0, length + 2, ((size_t)(in[0] & 31) << 8 | in[head - 1]) + 1};
  return true;
}

size_t annb_lzf_size(const uint8_t *in, size_t n) {
  size_t size = 0;
  for (token t; n; in += t.head + t.literals, n -= t.head + t.literals) {
    if (!read_token(in, n, &t) || t.distance > size || t.literals + t.length > SIZE_MAX - 1 - size) return SIZE_MAX;
    size += t.literals + t.length;
  }
  return size;
}

void annb_lzf_expand(const uint8_t *in, size_t n, uint8_t *out, size_t size) {
  size_t at = 0;
  for (token t; n && read_token(in, n, &t); in += t.head + t.literals, n -= t.head + t.literals) {
    if (t.literals + t.length > size - at || t.distance > at) return;
    memcpy(out + at, in + t.head, t.literals);
    at += t.literals;
    for (size_t i = 0; i < t.length; i++, at++) out[at] = out[at - t.distance]; /* may overlap itself */
  }
}

/* ---- writing ---- */

typedef struct output {
  uint8_t *data;
  size_t used, capacity;
} output;

static bool put_literals(output *o, const uint8_t *in, size_t n) {
  while (n) {
    size_t run = n < LITERALS ? n : LITERALS;
    if (o->capacity - o->used < run + 1) return false;
    o->data[o->used++] = (uint8_t)(run - 1);
    memcpy(o->data + o->used, in, run);
    o->used += run;
    in += run;
    n -= run;
  }
  return true;
}

static bool put_copy(output *o, size_t length, size_t distance) {
  if (o->capacity - o->used < 3) return false;
  size_t code = length - 2, back = distance - 1;
  o->data[o->used++] = (uint8_t)((code < 7 ? code : 7) << 5 | back >> 8);
  if (code >= 7) o->data[o->used++] = (uint8_t)(code - 7);
  o->data[o->used++] = (uint8_t)(back & 255);
  return true;
}

static size_t match(const uint8_t *in, size_t n, size_t at, size_t before) {
  size_t length = 0;
  if (at - before > FARTHEST) return 0;
  while (length < LONGEST && at + length < n && in[at + length] == in[before + length]) length++;
  return length;
}

size_t annb_lzf_compress(const uint8_t *in, size_t n, uint8_t *out, size_t capacity) {
  uint32_t last[1 << HASH_BITS] = {0}; /* where three bytes with this hash were seen, plus one */
  output o = {out, 0, capacity};
  size_t at = 0, pending = 0; /* pending: start of the literals not written yet */
  if (n > UINT32_MAX - 1) return 0;
  while (at + 3 <= n) {
    uint32_t three = (uint32_t)in[at] << 16 | (uint32_t)in[at + 1] << 8 | in[at + 2];
    uint32_t slot = three * UINT32_C(2654435761) >> (32 - HASH_BITS);
    size_t length = last[slot] ? match(in, n, at, last[slot] - 1) : 0, before = last[slot] ? last[slot] - 1 : 0;
    last[slot] = (uint32_t)at + 1;
    if (length < 3) {
      at++;
      continue;
    }
    if (!put_literals(&o, in + pending, at - pending) || !put_copy(&o, length, at - before)) return 0;
    at += length;
    pending = at;
  }
  return put_literals(&o, in + pending, n - pending) ? o.used : 0;
}

/* ---- the filter ---- */

static size_t filter(unsigned flags, size_t n_values, const unsigned values[], size_t n, size_t *capacity, void **buffer) {
  bool reading = (flags & H5Z_FLAG_REVERSE) != 0;
  size_t size = reading ? annb_lzf_size(*buffer, n) : n;
  if (!size || size == SIZE_MAX) return 0;
  if (reading && n_values >= 3 && values[2] && size != values[2]) return 0; /* the chunk's size, as its writer told */
  void *fresh = H5allocate_memory(size, false);
  if (!fresh) return 0;
  if (reading) annb_lzf_expand(*buffer, n, fresh, size);
  size_t used = reading ? size : annb_lzf_compress(*buffer, n, fresh, size);
  if (!used) { /* does not get smaller: HDF5 keeps the chunk as it is */
    H5free_memory(fresh);
    return 0;
  }
  H5free_memory(*buffer);
  *buffer = fresh;
  *capacity = size;
  return used;
}

void annb_lzf_register(void) {
  const H5Z_class2_t lzf = {
      .version = H5Z_CLASS_T_VERS, .id = FILTER, .encoder_present = 1, .decoder_present = 1, .name = "lzf", .filter = filter};
  H5Zregister(&lzf);
}
