/* Encoding the body of count and dict (SPEC.md 3.5.3). Every choice is made with integers, so that all machines choose alike. */
#include "encode_loops.h"
#include "rice.h"

#include <string.h>

enum { SLOT_WORK = 0, SLOT_BODY = 1, ESCAPE_BITS = 40 /* what an escape costs, about */, MAX_NIBBLE = 15, ROOM = ANNB_RICE_GROUP };

/* A sequence to be coded: values, padded with zeros to whole groups, and a nibble per group. */
typedef struct seq {
  uint32_t n;
  unsigned step;
  uint32_t *values;
  uint8_t *nibbles;
  uint64_t bits; /* of low bits and quotients, once the nibbles are chosen: no fewer than it takes */
} seq;

typedef struct plan {
  const annb_encode_loops *loops;
  seq gaps, head, tail_at, tail;
  uint32_t *escape_at, *escape_code;
  uint32_t n_escapes;
} plan;

static size_t groups_of(size_t n) { return (n + ANNB_RICE_GROUP - 1) / ANNB_RICE_GROUP; }

static unsigned bit_width(uint32_t x) { return x ? 32 - (unsigned)__builtin_clz(x) : 0; }

/* Nibbles of a sequence that has no escapes. */
static void choose_all(const annb_encode_loops *loops, seq *s) {
  for (size_t g = 0; g < groups_of(s->n); g++) {
    const uint32_t *values = s->values + g * ANNB_RICE_GROUP;
    uint32_t left = s->n - (uint32_t)(g * ANNB_RICE_GROUP), n = left < ANNB_RICE_GROUP ? left : ANNB_RICE_GROUP, bits;
    unsigned width = bit_width(loops->any(values)), limit = bit_width(ANNB_RICE_MAX_QUOTIENT);
    unsigned lowest = width > limit ? (width - limit + s->step - 1) / s->step : 0;
    s->nibbles[g] = (uint8_t)loops->choose(values, n, s->step, lowest, ANNB_RICE_MAX_QUOTIENT + 1, &bits);
    s->bits += bits;
  }
}

static void pad(uint32_t *values, size_t n) { memset(values + n, 0, (ROOM - n % ROOM) * sizeof *values); }

/* Gaps of the ids; false when they descend. */
static bool make_gaps(const uint32_t *ids, plan *p, unsigned *flags) {
  uint32_t n = p->gaps.n, *gaps = p->gaps.values;
  bool repeats, descents;
  uint32_t highest = p->loops->gaps(ids, n, gaps, &repeats, &descents);
  if (descents) return false;
  if (repeats) {
    *flags |= ANNB_RICE_REPEATS;
    highest = gaps[0];
    for (uint32_t i = 1; i < n; i++) highest |= ++gaps[i];
  }
  highest |= n; /* a distance between positions of the tail may be as large */
  pad(gaps, n);
  if (bit_width(highest) > MAX_NIBBLE + bit_width(ANNB_RICE_MAX_QUOTIENT)) {
    *flags |= ANNB_RICE_COARSE;
    p->gaps.step = p->tail_at.step = 2;
  }
  return true;
}

/* About what s codes cost as a tail, of `length` elements, whose codes − 1 sum up to `excess`. */
static uint64_t tail_cost(uint64_t length, uint64_t s, uint64_t excess) {
  if (s == 0) return 0;
  unsigned k = bit_width((uint32_t)(length * 11 / 16 / s));
  k -= k > 0;
  return s * (k + 1) + ((length - s) >> k) + s + excess + 16;
}

/* How many groups are the head: nibbles and costs of all groups are found on the way. */
static size_t choose_split(plan *p, const uint32_t *codes, uint32_t *costs) {
  size_t groups = groups_of(p->gaps.n), best_head = groups;
  uint64_t total = 0, s = 0, excess = 0;
  for (size_t g = 0; g < groups; g++) {
    uint32_t n = p->gaps.n - (uint32_t)(g * ANNB_RICE_GROUP);
    p->head.nibbles[g] =
        (uint8_t)p->loops->choose(codes + g * ANNB_RICE_GROUP, n < ANNB_RICE_GROUP ? n : ANNB_RICE_GROUP, 1, 0, ESCAPE_BITS, &costs[g]);
    total += costs[g];
  }
  uint64_t best = total, head = total;
  for (size_t g = groups; g-- > 0;) {
    head -= costs[g];
    p->loops->tail(codes + g * ANNB_RICE_GROUP, ESCAPE_BITS, &s, &excess);
    uint64_t cost = head + tail_cost(p->gaps.n - g * ANNB_RICE_GROUP, s, excess);
    if (cost < best) {
      best = cost;
      best_head = g;
    }
  }
  return best_head;
}

static void add_escape(plan *p, uint32_t at, uint32_t *code) {
  p->escape_at[p->n_escapes] = at;
  p->escape_code[p->n_escapes++] = *code;
  *code = 0;
}

/* Move outliers out of the head; few groups have any. */
static void split_head(plan *p, uint32_t *codes) {
  for (uint32_t first = 0; first < p->head.n; first += ANNB_RICE_GROUP) {
    const unsigned k = p->head.nibbles[first / ANNB_RICE_GROUP];
    if (p->loops->any(codes + first) >> k <= ESCAPE_BITS) continue;
    const uint32_t end = p->head.n - first < ANNB_RICE_GROUP ? p->head.n : first + ANNB_RICE_GROUP;
    for (uint32_t i = first; i < end; i++)
      if (codes[i] >> k > ESCAPE_BITS) add_escape(p, i, &codes[i]);
  }
}

/* List what of the tail is not zero. */
static void split(plan *p, uint32_t *codes) {
  uint32_t *places = p->tail_at.values, last = p->head.n, n = 0, s = 0;
  split_head(p, codes);
  for (uint32_t i = p->head.n; i < p->gaps.n; i++) { /* without a branch: nobody can tell which are zero */
    places[n] = i;
    n += codes[i] != 0;
  }
  for (uint32_t j = 0; j < n; j++) {
    const uint32_t i = places[j];
    if (codes[i] > ESCAPE_BITS) {
      add_escape(p, i, &codes[i]);
      continue;
    }
    places[s] = i - last;
    p->tail.values[s++] = codes[i] - 1;
    last = i + 1;
  }
  p->tail_at.n = p->tail.n = s;
  pad(p->tail_at.values, s);
  pad(p->tail.values, s);
  choose_all(p->loops, &p->tail_at);
  choose_all(p->loops, &p->tail);
}

uint8_t *annb_varint_put(uint8_t *out, uint32_t x) {
  for (; x > 127; x >>= 7) *out++ = (uint8_t)(x | 128);
  *out++ = (uint8_t)x;
  return out;
}

/* The low bits of one group: writes up to 64 bytes more than it returns. */
static uint8_t *put_group(const annb_encode_loops *loops, uint8_t *out, const uint32_t *values, uint32_t n, unsigned k) {
  uint64_t mask = (UINT64_C(1) << k) - 1, word = 0;
  uint8_t *end = out + (n * k + 7) / 8;
  if (k == 0) return end;
  if (k <= 8) {
    loops->put_low(out, values, n, k);
    return end;
  }
  unsigned fill = 0;
  for (uint32_t i = 0; i < n; i++) {
    word |= (values[i] & mask) << fill;
    memcpy(out, &word, 8);
    fill += k;
    out += fill / 8;
    word >>= fill / 8 * 8;
    fill %= 8;
  }
  return end;
}

static uint8_t *put_lows(const annb_encode_loops *loops, uint8_t *out, const seq *s) {
  for (uint32_t at = 0; at < s->n; at += ANNB_RICE_GROUP) {
    uint32_t n = s->n - at < ANNB_RICE_GROUP ? s->n - at : ANNB_RICE_GROUP;
    out = put_group(loops, out, s->values + at, n, s->nibbles[at / ANNB_RICE_GROUP] * s->step);
    if (s->n - at <= ANNB_RICE_GROUP) break;
  }
  return out;
}

static void put_quotients(const annb_encode_loops *loops, annb_unary *u, const seq *s) {
  for (uint32_t at = 0, n; at < s->n; at += n) {
    n = s->n - at < ANNB_RICE_GROUP ? s->n - at : ANNB_RICE_GROUP;
    loops->put_quotients(u, s->values + at, n, s->nibbles[at / ANNB_RICE_GROUP] * s->step);
  }
}

/* Bytes that a body needs at most, and what writing it may write past its end. */
static size_t size_limit(const plan *p) {
  const seq *all[] = {&p->gaps, &p->head, &p->tail_at, &p->tail};
  uint64_t bits = 0, groups = 0;
  for (int s = 0; s < 4; s++) {
    bits += all[s]->bits;
    groups += groups_of(all[s]->n);
  }
  return bits / 8 + 2 * groups + (size_t)p->n_escapes * 10 + 128; /* each group's low bits end with a byte */
}

static size_t put_body(const plan *p, uint8_t *start) {
  const seq *all[] = {&p->gaps, &p->head, &p->tail_at, &p->tail};
  uint8_t *out = annb_varint_put(start, (uint32_t)groups_of(p->head.n));
  out = annb_varint_put(out, p->tail.n);
  out = annb_varint_put(out, p->n_escapes);
  size_t nibbles = 0;
  for (int s = 0; s < 4; s++)
    for (size_t g = 0; g < groups_of(all[s]->n); g++, nibbles++) {
      if (nibbles % 2 == 0) out[nibbles / 2] = all[s]->nibbles[g];
      else out[nibbles / 2] |= (uint8_t)(all[s]->nibbles[g] << 4);
    }
  out += (nibbles + 1) / 2;
  for (uint32_t i = 0, next = 0; i < p->n_escapes; i++) {
    out = annb_varint_put(out, p->escape_at[i] - next);
    out = annb_varint_put(out, p->escape_code[i]);
    next = p->escape_at[i] + 1;
  }
  for (int s = 0; s < 4; s++) out = put_lows(p->loops, out, all[s]);
  annb_unary u = {out, 0, 0};
  for (int s = 0; s < 4; s++) put_quotients(p->loops, &u, all[s]);
  return (size_t)(u.out - start) + (u.fill > 0); /* the last byte is written */
}

/* Divide work memory of n elements per array among the sequences. */
static bool make_plan(plan *p, uint32_t n, uint32_t *codes, uint32_t **costs, annb_scratch *scratch) {
  size_t each = (size_t)n + 2 * ROOM, groups = groups_of(n) + 1;
  uint32_t *w = annb_scratch_get(scratch, SLOT_WORK, (5 * each + groups) * sizeof *w + 4 * groups);
  if (!w) return false;
  uint8_t *nibbles = (uint8_t *)(w + 5 * each + groups);
  *costs = w + 5 * each;
  *p = (plan){.loops = scratch->loops ? scratch->loops : annb_encode_loops_best(),
              .gaps = {n, 1, w, nibbles, 0},
              .head = {0, 1, codes, nibbles + groups, 0},
              .tail_at = {0, 1, w + each, nibbles + 2 * groups, 0},
              .tail = {0, 1, w + 2 * each, nibbles + 3 * groups, 0},
              .escape_at = w + 3 * each,
              .escape_code = w + 4 * each};
  return true;
}

size_t annb_rice_encode(const annb_row_shape *shape, const uint32_t *ids, uint32_t *codes, unsigned *flags, uint8_t *out, size_t capacity,
                        annb_scratch *scratch) {
  plan p;
  uint32_t n = shape->nnz, *costs;
  if (n == 0 || n > ANNB_MAX_ROW_NNZ || !make_plan(&p, n, codes, &costs, scratch) || !make_gaps(ids, &p, flags)) return 0;
  pad(codes, n);
  choose_all(p.loops, &p.gaps);
  size_t head = choose_split(&p, codes, costs);
  for (size_t g = 0; g < head; g++) p.head.bits += costs[g];
  head *= ANNB_RICE_GROUP;
  p.head.n = head < n ? (uint32_t)head : n;
  split(&p, codes);
  uint8_t *body = annb_scratch_get(scratch, SLOT_BODY, size_limit(&p));
  if (!body) return 0;
  size_t length = put_body(&p, body);
  if (length > capacity) return 0;
  memcpy(out, body, length);
  return length;
}
