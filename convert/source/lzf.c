#include "lzf.h"

#include <hdf5.h>
#include <stdlib.h>
#include <string.h>

enum { LZF_FILTER = 32000, LITERALS = 32, LEAST_MATCH = 3, MOST_MATCH = 264, MOST_DISTANCE = 8192, HASH_BITS = 14 };
#define MOST_OUTPUT(n) (88 * (n) + 8) /* three bytes give 264 at most */

annb_lzf_result annb_lzf_decode(const uint8_t *in, size_t n, uint8_t *out, size_t room, size_t *out_n) {
  size_t at = 0, to = 0;
  while (at < n) {
    size_t c = in[at++];
    if (c < LITERALS) {
      if (c + 1 > n - at) return ANNB_LZF_DAMAGED;
      if (c + 1 > room - to) return ANNB_LZF_ROOM;
      memcpy(out + to, in + at, c + 1);
      at += c + 1;
      to += c + 1;
      continue;
    }
    size_t length = c >> 5;
    if (n - at < (length == 7 ? 2u : 1u)) return ANNB_LZF_DAMAGED;
    if (length == 7) length += in[at++];
    length += 2;
    size_t distance = ((c & 31) << 8) + in[at++] + 1;
    if (distance > to) return ANNB_LZF_DAMAGED;
    if (length > room - to) return ANNB_LZF_ROOM;
    for (size_t i = 0; i < length; i++, to++) out[to] = out[to - distance]; /* may overlap itself */
  }
  *out_n = to;
  return ANNB_LZF_OK;
}

/* ---- encoding: greedy, with the last place of each hash of three bytes ---- */

static uint32_t hash_of(const uint8_t *p) {
  uint32_t three = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
  return three * 2654435761u >> (32 - HASH_BITS);
}

static size_t put_literals(const uint8_t *in, size_t n, uint8_t *out, size_t room, size_t to) {
  while (n && to) {
    size_t run = n < LITERALS ? n : LITERALS;
    if (run + 1 > room - to) return 0;
    out[to++] = (uint8_t)(run - 1);
    memcpy(out + to, in, run);
    in += run;
    to += run;
    n -= run;
  }
  return to;
}

static size_t put_match(size_t length, size_t distance, uint8_t *out, size_t room, size_t to) {
  if (!to || room - to < 3) return 0;
  length -= 2;
  distance -= 1;
  out[to++] = (uint8_t)((length < 7 ? length : 7) << 5 | distance >> 8);
  if (length >= 7) out[to++] = (uint8_t)(length - 7);
  out[to++] = (uint8_t)distance;
  return to;
}

static size_t match_length(const uint8_t *a, const uint8_t *b, size_t most) {
  size_t n = 0;
  if (most > MOST_MATCH) most = MOST_MATCH;
  while (n < most && a[n] == b[n]) n++;
  return n;
}

/* `out` has one byte more in front, so that a length of 0 can mean failure. */
static size_t encode(const uint8_t *in, size_t n, uint8_t *out, size_t room, size_t *last) {
  size_t at = 0, literal = 0, to = 1;
  while (to && at + LEAST_MATCH <= n) {
    size_t *slot = &last[hash_of(in + at)], before = *slot; /* places are kept plus one: 0 = none */
    *slot = at + 1;
    size_t length = before && at + 1 - before <= MOST_DISTANCE ? match_length(in + before - 1, in + at, n - at) : 0;
    if (length < LEAST_MATCH) {
      at++;
      continue;
    }
    to = put_literals(in + literal, at - literal, out, room, to);
    to = put_match(length, at + 1 - before, out, room, to);
    at += length;
    literal = at;
  }
  return put_literals(in + literal, n - literal, out, room, to);
}

size_t annb_lzf_encode(const uint8_t *in, size_t n, uint8_t *out, size_t room) {
  size_t *last = calloc((size_t)1 << HASH_BITS, sizeof *last);
  uint8_t *buffer = malloc(room + 1);
  size_t size = last && buffer ? encode(in, n, buffer, room + 1, last) : 0;
  if (size > 1) memcpy(out, buffer + 1, size - 1);
  free(last);
  free(buffer);
  return size > 1 ? size - 1 : 0;
}

/* ---- the filter ---- */

/* `stated` is the chunk's size, which h5py notes in the filter's parameters; 0 when it did not. */
static size_t decode_chunk(size_t n, size_t stated, size_t *size, void **buffer) {
  size_t most = MOST_OUTPUT(n), got = 0, room = stated ? stated : 4 * n + 64;
  annb_lzf_result r = ANNB_LZF_ROOM;
  uint8_t *out = NULL;
  for (; r == ANNB_LZF_ROOM && room; room = stated || room == most ? 0 : 4 * room) {
    if (room > most) room = most;
    free(out);
    out = malloc(room);
    if (!out) return 0;
    r = annb_lzf_decode(*buffer, n, out, room, &got);
    *size = room;
  }
  if (r != ANNB_LZF_OK || got < stated) {
    free(out);
    return 0;
  }
  free(*buffer);
  *buffer = out;
  return got;
}

/* 0 = failed; for an optional filter HDF5 then stores the chunk as it is. */
static size_t filter_chunk(unsigned flags, size_t n_values, const unsigned *values, size_t n, size_t *size, void **buffer) {
  if (flags & H5Z_FLAG_REVERSE) return decode_chunk(n, n_values >= 3 ? values[2] : 0, size, buffer);
  uint8_t *out = malloc(n);
  size_t got = out ? annb_lzf_encode(*buffer, n, out, n) : 0;
  if (!got) {
    free(out);
    return 0;
  }
  free(*buffer);
  *buffer = out;
  *size = n;
  return got;
}

void annb_lzf_register(void) {
  static const H5Z_class2_t lzf = {H5Z_CLASS_T_VERS, LZF_FILTER, 1, 1, "lzf", NULL, NULL, filter_chunk};
  bool known = H5Zfilter_avail(LZF_FILTER) > 0;
  H5Eclear2(H5E_DEFAULT);
  if (!known) H5Zregister(&lzf);
}
