/* One entry of an order object: the whole permutation of a row, or the elements that moved. */
#include "order_log.h"

#include <string.h>

enum { FULL = 1, MOVES = 2, FULL_HEAD = 1, MOVES_HEAD = 5 };

/* Values of `width` bits, from the lowest bit on. */
typedef struct bits {
  uint8_t *out;
  uint64_t held;
  unsigned n, width;
} bits;

static void put(bits *b, uint32_t value) {
  b->held |= (uint64_t)value << b->n;
  for (b->n += b->width; b->n >= 8; b->n -= 8, b->held >>= 8) *b->out++ = (uint8_t)b->held;
}

static void end_bits(bits *b) {
  if (b->n) *b->out++ = (uint8_t)b->held;
}

static unsigned width_of(uint32_t n) { return 32 - (unsigned)__builtin_clz(n - 1); }

static size_t full_length(uint32_t n) { return FULL_HEAD + (size_t)(((uint64_t)n * width_of(n) + 7) / 8); }

static size_t moves_length(uint32_t n, uint32_t moved) { return MOVES_HEAD + (size_t)((2 * (uint64_t)moved * width_of(n) + 7) / 8); }

size_t annb_order_entry_bound(uint32_t n) { return full_length(n); }

/* The elements that may keep their order: a longest ascending run of places, as links from its last element back; UINT32_MAX ends them.
 * Returns its length, or 0 once it must be shorter than `least`. `ends[k]` is the element of least place that ends a run of k + 1. */
static uint32_t longest(const uint32_t *place, uint32_t n, uint32_t least, uint32_t *ends, uint32_t *back, uint32_t *last) {
  uint32_t length = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t low = 0, high = length;
    if (length && place[ends[length - 1]] < place[i]) low = length;
    while (low < high) {
      uint32_t middle = low + (high - low) / 2;
      if (place[ends[middle]] < place[i]) low = middle + 1;
      else high = middle;
    }
    back[i] = low ? ends[low - 1] : UINT32_MAX;
    ends[low] = i;
    if (low == length) length++;
    if (length + (n - i - 1) < least) return 0;
  }
  *last = ends[length - 1];
  return length;
}

static size_t write_full(const uint32_t *place, uint32_t n, uint8_t *out) {
  bits b = {out + FULL_HEAD, 0, 0, width_of(n)};
  out[0] = FULL;
  for (uint32_t i = 0; i < n; i++) put(&b, place[i]);
  end_bits(&b);
  return full_length(n);
}

static size_t write_moves(const uint32_t *place, uint32_t n, uint32_t moved, const uint32_t *stays, uint8_t *out) {
  bits b = {out + MOVES_HEAD, 0, 0, width_of(n)};
  out[0] = MOVES;
  memcpy(out + 1, &moved, sizeof moved);
  for (uint32_t i = 0; i < n; i++) {
    if (stays[i]) continue;
    put(&b, place[i]);
    put(&b, i);
  }
  end_bits(&b);
  return moves_length(n, moved);
}

size_t annb_order_entry(const uint32_t *place, uint32_t n, uint32_t *scratch, uint8_t *out) {
  uint32_t *ends = scratch, *back = scratch + n, *stays = back + n, last = 0;
  uint64_t most_moved = ((uint64_t)n * width_of(n) + 7) / 8 * 8 / (2 * width_of(n)); /* with more, moves are longer than full */
  uint32_t least = most_moved < n ? n - (uint32_t)most_moved : 1;
  uint32_t length = longest(place, n, least, ends, back, &last);
  if (length == 0 || moves_length(n, n - length) >= full_length(n)) return write_full(place, n, out);
  memset(stays, 0, n * sizeof *stays);
  for (uint32_t i = last; i != UINT32_MAX; i = back[i]) stays[i] = 1;
  return write_moves(place, n, n - length, stays, out);
}
