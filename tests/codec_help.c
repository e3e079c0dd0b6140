#define _GNU_SOURCE
#include "codec_help.h"

#include <annblock/annblock.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

uint64_t help_random(uint64_t *state) {
  uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

help_fence help_fence_new(size_t room) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (room + page - 1) / page * page;
  uint8_t *map = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert(map != MAP_FAILED);
  ck_assert_int_eq(mprotect(map + body, page, PROT_NONE), 0);
  return (help_fence){map, map + body, body + page};
}

void help_fence_free(help_fence *fence) { munmap(fence->map, fence->mapped); }

/* ---- the decoder ---- */

typedef struct input {
  const uint8_t *bytes;
  size_t size, at;
  bool failed;
} input;

static uint64_t byte(input *in) {
  if (in->at < in->size) return in->bytes[in->at++];
  in->failed = true;
  return 0;
}

static uint64_t varint(input *in, unsigned max_bytes) {
  uint64_t x = 0;
  for (unsigned i = 0; i < max_bytes; i++) {
    uint64_t b = byte(in);
    x |= (b & 127) << 7 * i;
    if (b < 128) {
      if (max_bytes == 5 && x > UINT32_MAX) in->failed = true;
      return x;
    }
  }
  in->failed = true;
  return 0;
}

static unsigned bit(const uint8_t *bytes, uint64_t i) { return bytes[i / 8] >> i % 8 & 1; }

typedef struct sequence {
  uint64_t n, *x;
  unsigned step;
  const uint8_t *lows;
} sequence;

static uint64_t groups(uint64_t n) { return (n + 127) / 128; }

static unsigned parameter(const uint8_t *nibbles, uint64_t i, unsigned step) { return (nibbles[i / 2] >> (i % 2 ? 4 : 0) & 15u) * step; }

/* Low parts of all sequences, then quotients. */
static bool decode_sequences(input *in, sequence seq[4], const uint8_t *nibbles) {
  uint64_t nibble = 0, bits_left, at = 0;
  for (int s = 0; s < 4; s++)
    for (uint64_t first = 0; first < seq[s].n; first += 128, nibble++) {
      uint64_t n = seq[s].n - first < 128 ? seq[s].n - first : 128;
      unsigned k = parameter(nibbles, nibble, seq[s].step);
      size_t size = (n * k + 7) / 8;
      if (size > in->size - in->at) return false;
      for (uint64_t i = 0; i < n; i++) {
        seq[s].x[first + i] = 0;
        for (unsigned j = 0; j < k; j++) seq[s].x[first + i] |= (uint64_t)bit(in->bytes + in->at, i * k + j) << j;
      }
      in->at += size;
    }
  bits_left = 8 * (uint64_t)(in->size - in->at);
  nibble = 0;
  for (int s = 0; s < 4; s++)
    for (uint64_t i = 0; i < seq[s].n; i++) {
      uint64_t quotient = 0;
      while (at < bits_left && !bit(in->bytes + in->at, at)) quotient++, at++;
      if (at++ >= bits_left || quotient > 63) return false;
      seq[s].x[i] += quotient << parameter(nibbles, nibble + i / 128, seq[s].step);
      if (i + 1 == seq[s].n) nibble += groups(seq[s].n);
    }
  if ((at + 7) / 8 != in->size - in->at) return false;
  for (; at < bits_left; at++)
    if (bit(in->bytes + in->at, at)) return false;
  return true;
}

static bool place_ids(const annb_row_shape *shape, const uint64_t *gaps, bool repeats, uint64_t *ids) {
  uint64_t next = 0;
  for (uint32_t i = 0; i < shape->nnz; i++) {
    ids[i] = next + gaps[i];
    next = ids[i] + (repeats ? 0 : 1);
    if (ids[i] >= shape->n_cols) return false;
  }
  return true;
}

static bool decode_body(const annb_row_shape *shape, input *in, unsigned flags, help_row *row) {
  uint64_t n = shape->nnz, h = varint(in, 5), t = varint(in, 5), e = varint(in, 5);
  if (in->failed || h > groups(n) || e > n) return false;
  uint64_t head = 128 * h < n ? 128 * h : n;
  if (t > n - head) return false;
  uint64_t n_groups = groups(n) + groups(head) + 2 * groups(t);
  const uint8_t *nibbles = in->bytes + in->at;
  for (uint64_t i = 0; i < (n_groups + 1) / 2; i++) byte(in);
  if (in->failed || (n_groups % 2 && nibbles[n_groups / 2] >> 4)) return false;
  input escapes = *in;
  uint64_t position = 0, code;
  for (uint64_t i = 0; i < e; i++) {
    position += varint(in, 5) + 1;
    varint(in, 5);
    if (in->failed || position > n) return false;
  }
  unsigned step = flags & 2 ? 2 : 1;
  uint64_t *memory = calloc(n + head + 2 * t + 1, sizeof *memory);
  sequence seq[4] = {
      {n, memory, step, NULL}, {head, memory + n, 1, NULL}, {t, memory + n + head, step, NULL}, {t, memory + n + head + t, 1, NULL}};
  bool ok = decode_sequences(in, seq, nibbles) && place_ids(shape, seq[0].x, flags & 1, row->ids);
  for (uint64_t i = 0; i < n; i++) row->codes[i] = i < head ? seq[1].x[i] : 0;
  uint64_t next = head;
  for (uint64_t i = 0; ok && i < t; i++) {
    next += seq[2].x[i];
    if (next < n) row->codes[next++] = seq[3].x[i] + 1;
    else ok = false;
  }
  position = 0;
  for (uint64_t i = 0; ok && i < e; i++) {
    position += varint(&escapes, 5);
    code = varint(&escapes, 5);
    row->codes[position++] = code;
  }
  free(memory);
  return ok;
}

bool help_decode(const annb_row_shape *shape, const uint8_t *record, size_t length, help_row *row) {
  input in = {record, length, 0, false};
  uint64_t codec = byte(&in), flags = byte(&in);
  if (in.failed || (codec != 3 && codec != 4)) return false;
  if (flags > (codec == 3 ? 7 : 3)) return false;
  row->base = 1;
  row->n_entries = 0;
  if (flags & 4) {
    uint64_t x = varint(&in, 10);
    row->base = (int64_t)(x >> 1) * (x & 1 ? -1 : 1) - (int64_t)(x & 1);
    if (in.failed || row->base >= INT64_C(1) << 62 || row->base <= -(INT64_C(1) << 62)) return false;
  }
  if (codec == 4) {
    size_t vw = annb_dtype_size(shape->dtype);
    row->n_entries = varint(&in, 5) + 1;
    row->entries = in.bytes + in.at;
    if (in.failed || row->n_entries > 65536 || row->n_entries * vw > in.size - in.at) return false;
    in.at += row->n_entries * vw;
  }
  return decode_body(shape, &in, (unsigned)flags, row);
}
