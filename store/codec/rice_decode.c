/* Decoding the body of count and dict (SPEC.md 3.5.3). */
#include "../kernels/bit_positions.h"
#include "rice.h"

enum { SLOT_ONES = 0, SLOT_IDS = 1, SLOT_CODES = 2, SLOT_COPY = 4, ONES_BEFORE = 64, SEQS = 4, GAPS = 0, HEAD = 1, TAIL_AT = 2, TAIL = 3 };

typedef struct body {
  annb_rice_seq seq[SEQS];
  uint32_t n_escapes;
  const uint8_t *escapes, *lows, *unary, *end;
  uint64_t n_ones;
  uint32_t n_lead; /* the first ids, which the stream marks bit by bit */
} body;

uint64_t annb_varint_take(annb_cursor *c) {
  uint64_t x = 0;
  for (unsigned shift = 0; shift < 35; shift += 7) {
    uint8_t byte = annb_cursor_u8(c);
    x |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return c->failed || x > UINT32_MAX ? UINT64_MAX : x;
  }
  return UINT64_MAX;
}

static uint64_t n_groups(uint64_t n) { return (n + ANNB_RICE_GROUP - 1) / ANNB_RICE_GROUP; }

/* Bytes of a sequence's low bits, and its largest parameter. */
static uint64_t lows_size(annb_rice_seq *seq) {
  uint64_t size = 0;
  uint32_t whole = seq->n / ANNB_RICE_GROUP;
  unsigned most = 0, k;
  for (uint32_t g = 0; g < whole; g++) {
    k = annb_rice_param(seq, g);
    most = k > most ? k : most;
    size += ANNB_RICE_GROUP / 8 * k;
  }
  if (seq->n % ANNB_RICE_GROUP) {
    k = annb_rice_param(seq, whole);
    most = k > most ? k : most;
    size += ((uint64_t)(seq->n % ANNB_RICE_GROUP) * k + 7) / 8;
  }
  seq->max_k = most;
  return size;
}

/* Walk the escapes once, so that later walks need no checks. */
static bool check_escapes(annb_cursor *c, uint32_t n_escapes, uint32_t n) {
  uint64_t next = 0;
  for (uint32_t i = 0; i < n_escapes; i++) {
    uint64_t skip = annb_varint_take(c), code = annb_varint_take(c);
    if (skip > UINT32_MAX || code > UINT32_MAX || (next += skip + 1) > n) return false;
  }
  return true;
}

/* Find the parts of a body; every length is checked against the bytes there are. */
static bool parse(annb_cursor c, uint32_t n, unsigned flags, body *b) {
  uint64_t head_groups = annb_varint_take(&c), n_tail = annb_varint_take(&c), n_escapes = annb_varint_take(&c);
  if (c.failed || head_groups > n_groups(n) || n_escapes > n) return false;
  uint64_t n_head = head_groups * ANNB_RICE_GROUP < n ? head_groups * ANNB_RICE_GROUP : n;
  if (n_tail > n - n_head) return false;
  const uint64_t sizes[SEQS] = {n, n_head, n_tail, n_tail};
  const uint8_t *params = c.at;
  uint64_t nibbles = 0;
  b->n_ones = 0;
  for (int i = 0; i < SEQS; i++) {
    if (nibbles > UINT32_MAX) return false;
    bool distances = i == GAPS || i == TAIL_AT;
    uint32_t step = distances && (flags & ANNB_RICE_COARSE) ? 2 : 1;
    b->seq[i] = (annb_rice_seq){.n = (uint32_t)sizes[i], .first = (uint32_t)nibbles, .step = step, .params = params};
    nibbles += n_groups(sizes[i]);
    b->n_ones += sizes[i];
  }
  if (!annb_cursor_take(&c, (nibbles + 1) / 2)) return false;
  if (nibbles % 2 && params[nibbles / 2] >> 4) return false;
  b->n_escapes = (uint32_t)n_escapes;
  b->escapes = c.at;
  if (!check_escapes(&c, b->n_escapes, n)) return false;
  b->lows = c.at;
  for (int i = 0; i < SEQS; i++)
    if (!(b->seq[i].lows = annb_cursor_take(&c, lows_size(&b->seq[i])))) return false;
  b->unary = c.at;
  b->end = c.end;
  return annb_cursor_left(&c) >= (b->n_ones + 7) / 8;
}

/* Kernels read a little further than the low bits: when the record does not, move them to where that is allowed. */
static bool pad_lows(body *b, annb_scratch *scratch) {
  if (b->end - b->unary >= (ptrdiff_t)ANNB_KERNEL_OVERREAD) return true;
  size_t size = (size_t)(b->unary - b->lows);
  uint8_t *copy = annb_scratch_get(scratch, SLOT_COPY, size + ANNB_KERNEL_OVERREAD);
  if (!copy) return false;
  memcpy(copy, b->lows, size);
  memset(copy + size, 0, ANNB_KERNEL_OVERREAD);
  for (int i = 0; i < SEQS; i++) b->seq[i].lows = copy + (b->seq[i].lows - b->lows);
  return true;
}

/* What the gaps become. */
typedef struct id_rule {
  unsigned add;
  uint32_t limit; /* of the sum, which is id + add */
  bool narrow;    /* ids have 16 bits */
  bool large;     /* gaps may have more */
} id_rule;

/* Elements of the leading groups of gaps without low parts. */
static uint32_t count_lead(const annb_rice_seq *gaps) {
  uint64_t n = 0;
  for (uint32_t g = 0; n < gaps->n && annb_rice_param(gaps, g) == 0; g++) n += ANNB_RICE_GROUP;
  return n < gaps->n ? (uint32_t)n : gaps->n;
}

/* The ids of the leading groups; the sequence of gaps then starts behind them. Of *ids16 and ids32 one is not NULL. */
static bool decode_lead(const annb_kernel *kernel, body *b, const id_rule *rule, const uint16_t *table, uint16_t *ids16, uint32_t *ids32) {
  annb_rice_seq *gaps = &b->seq[GAPS];
  size_t size = (size_t)(b->end - b->unary), bits;
  b->n_lead = rule->narrow && rule->add ? count_lead(gaps) : 0;
  if (!b->n_lead) return true;
  bits = ids16 ? kernel->lead16(b->unary, size, b->n_lead, rule->limit, ids16)
               : kernel->lead32(b->unary, size, b->n_lead, rule->limit, table, ids32);
  gaps->start = (uint32_t)bits;
  gaps->n -= b->n_lead;
  gaps->first += (b->n_lead + ANNB_RICE_GROUP - 1) / ANNB_RICE_GROUP;
  b->n_ones -= b->n_lead;
  return bits > 0;
}

/* The positions of the ones behind the leading ids, which end at bit seq[GAPS].start. */
static bool decode_ones(const annb_kernel *kernel, body *b, annb_scratch *scratch) {
  const uint8_t *bits = b->unary + b->seq[GAPS].start / 8;
  unsigned used = b->seq[GAPS].start % 8; /* bits of the first byte that are the leading ids' */
  unsigned before = used ? annb_bit_counts[*bits & ((1u << used) - 1)] : 0;
  size_t n = (size_t)b->n_ones + before;
  uint8_t *ones = annb_scratch_get(scratch, SLOT_ONES, ONES_BEFORE + n + ANNB_KERNEL_SLACK);
  if (!ones) return false;
  ones += ONES_BEFORE;
  ones[-1] = UINT8_MAX;
  if (!kernel->unary(bits, (size_t)(b->end - bits), n, ones)) return false;
  ones += before;
  for (int i = 0; i < SEQS; i++) {
    b->seq[i].ones = ones;
    ones += b->seq[i].n;
  }
  return true;
}

/* The other ids, in 16 bits; with large gaps there is room for 32. */
static bool decode_ids16(const annb_kernel *kernel, const body *b, const id_rule *rule, uint16_t *ids) {
  const annb_rice_seq *gaps = &b->seq[GAPS];
  if (!rule->large) return kernel->ids16(gaps, rule->add, rule->limit, ids);
  uint32_t *ids32 = (uint32_t *)(void *)ids; /* n_lead is even, or nothing follows */
  if (gaps->n == 0) return true;
  if (b->seq[GAPS].max_k > ANNB_KERNEL_MAX_K32) kernel = &annb_kernel_scalar;
  if (!kernel->ids32(gaps, rule->add, rule->limit, ids32)) return false;
  for (uint32_t i = 0; i < gaps->n; i++) { /* in place: each is read before it is overwritten */
    uint16_t id = (uint16_t)ids32[i];
    memcpy((uint8_t *)ids + 2 * (size_t)i, &id, sizeof id);
  }
  return true;
}

/* The same in 32 bits. */
static bool decode_ids32(const annb_kernel *kernel, const body *b, const id_rule *rule, uint32_t *ids) {
  const annb_rice_seq *gaps = &b->seq[GAPS];
  if (!rule->large) return kernel->ids16_wide(gaps, rule->add, rule->limit, ids);
  if (b->seq[GAPS].max_k > ANNB_KERNEL_MAX_K32) kernel = &annb_kernel_scalar;
  return kernel->ids32(gaps, rule->add, rule->limit, ids);
}

/* Ids through the table to where they go, by way of `ids` but for the leading ones. */
static bool decode_mapped(const annb_kernel *kernel, body *b, const id_rule *rule, const annb_rice_target *to, uint16_t *ids,
                          annb_scratch *scratch) {
  if (!decode_lead(kernel, b, rule, to->table, NULL, to->ids) || !decode_ones(kernel, b, scratch) || !decode_ids16(kernel, b, rule, ids))
    return false;
  kernel->map(ids, b->seq[GAPS].n, to->table, to->ids + b->n_lead);
  return true;
}

/* The quotients' positions and the ids. */
static bool decode_ids(const annb_kernel *kernel, body *b, const annb_row_shape *shape, unsigned flags, const annb_rice_target *to,
                       annb_rice_row *row, annb_scratch *scratch) {
  id_rule rule = {.add = flags & ANNB_RICE_REPEATS ? 0 : 1, .narrow = shape->n_cols < UINT16_MAX};
  rule.large = b->seq[GAPS].max_k > ANNB_KERNEL_MAX_K16 || !rule.narrow;
  rule.limit = (uint32_t)shape->n_cols - 1 + rule.add;
  void *ids = annb_scratch_get(scratch, SLOT_IDS, ((size_t)row->n + ANNB_KERNEL_SLACK) * (rule.large ? 4 : 2));
  if (!ids || shape->n_cols == 0) return false;
  row->mapped = to->table && rule.narrow && !row->n_escapes;
  if (row->mapped) return decode_mapped(kernel, b, &rule, to, ids, scratch);
  if (rule.narrow && (to->table || !to->ids)) {
    row->ids16 = ids;
    return decode_lead(kernel, b, &rule, NULL, ids, NULL) && decode_ones(kernel, b, scratch) &&
           decode_ids16(kernel, b, &rule, (uint16_t *)ids + b->n_lead);
  }
  uint32_t *ids32 = to->table || !to->ids ? ids : to->ids;
  row->ids32 = ids32;
  return decode_lead(kernel, b, &rule, NULL, NULL, ids32) && decode_ones(kernel, b, scratch) &&
         decode_ids32(kernel, b, &rule, ids32 + b->n_lead);
}

/* Where the tail's elements are, and their codes less 1; in memory from `room` on, for two lists of tail.n of 16 bits. */
static bool decode_tail16(const annb_kernel *kernel, const annb_rice_row *row, uint8_t *room, uint16_t **at, uint16_t **codes) {
  *at = (uint16_t *)(void *)room;
  *codes = *at + row->tail.n + ANNB_KERNEL_SLACK;
  return kernel->ids16(&row->tail_at, 1, row->n - row->head.n, *at) && kernel->codes16(&row->tail, *codes);
}

/* The tail's elements into `codes`, those after the head, which are zero. */
static bool put_tail16(const annb_kernel *kernel, const annb_rice_row *row, uint8_t *room, uint16_t *codes) {
  uint16_t *at, *code;
  if (!decode_tail16(kernel, row, room, &at, &code)) return false;
  for (size_t i = 0; i < row->tail.n; i++) codes[at[i]] = (uint16_t)(code[i] + 1);
  return true;
}

/* The same where positions are large, for codes of either size; lists of 32 bits. */
static bool put_tail32(const annb_kernel *kernel, const annb_rice_row *row, uint8_t *room, uint16_t *narrow, uint32_t *wide) {
  size_t n_tail = row->tail.n;
  uint32_t *at = (uint32_t *)(void *)room, *code = at + n_tail + ANNB_KERNEL_SLACK;
  const annb_kernel *k = row->tail_at.max_k > ANNB_KERNEL_MAX_K32 ? &annb_kernel_scalar : kernel;
  if (!k->ids32(&row->tail_at, 1, row->n - row->head.n, at) || !kernel->codes32(&row->tail, code)) return false;
  for (size_t i = 0; i < n_tail; i++)
    if (narrow) narrow[at[i]] = (uint16_t)(code[i] + 1);
    else wide[at[i]] = code[i] + 1;
  return true;
}

static const annb_kernel *kernel_of(const annb_scratch *scratch) { return scratch->kernel ? scratch->kernel : annb_kernel_best(); }

bool annb_rice_codes(annb_rice_row *row, annb_scratch *scratch) {
  const annb_kernel *kernel = kernel_of(scratch);
  size_t n = row->n, n_head = row->head.n, n_rest = n - n_head;
  bool wide = row->head.max_k > ANNB_KERNEL_MAX_K16 || row->tail.max_k > ANNB_KERNEL_MAX_K16;
  size_t size = wide ? 4 : 2, codes_size = ((n + ANNB_KERNEL_SLACK) * size + 63) / 64 * 64;
  uint8_t *codes = annb_scratch_get(scratch, SLOT_CODES, codes_size + 2 * (row->tail.n + ANNB_KERNEL_SLACK) * sizeof(uint32_t));
  if (!codes) return false;
  uint8_t *room = codes + codes_size;
  uint32_t *codes32 = (uint32_t *)(void *)codes;
  uint16_t *codes16 = (uint16_t *)(void *)codes;
  if (!(wide ? kernel->codes32(&row->head, codes32) : kernel->codes16(&row->head, codes16))) return false;
  memset(codes + n_head * size, 0, (n_rest + ANNB_KERNEL_SLACK) * size);
  if (wide) row->codes32 = codes32;
  else row->codes16 = codes16;
  if (row->tail.n == 0) return true;
  if (row->small) return put_tail16(kernel, row, room, codes16 + n_head);
  return put_tail32(kernel, row, room, wide ? NULL : codes16 + n_head, wide ? codes32 + n_head : NULL);
}

bool annb_rice_floats(const annb_rice_row *row, int32_t base, uint8_t *values, annb_scratch *scratch) {
  const annb_kernel *kernel = kernel_of(scratch);
  uint8_t *room = annb_scratch_get(scratch, SLOT_CODES, 2 * (row->tail.n + ANNB_KERNEL_SLACK) * sizeof(uint16_t));
  uint16_t *at, *code;
  if (!room || !kernel->floats16(&row->head, row->n, base, values) || !decode_tail16(kernel, row, room, &at, &code)) return false;
  values += row->head.n * sizeof(float);
  for (size_t i = 0; i < row->tail.n; i++) {
    float x = (float)(code[i] + 1 + base);
    memcpy(values + at[i] * sizeof x, &x, sizeof x);
  }
  return true;
}

bool annb_rice_decode(const annb_row_shape *shape, unsigned flags, const uint8_t *data, size_t length, annb_rice_target to,
                      annb_rice_row *row, annb_scratch *scratch) {
  body b;
  *row = (annb_rice_row){.n = shape->nnz};
  if (!parse(annb_cursor_of(data, length, 0, length), shape->nnz, flags, &b)) return false;
  row->n_escapes = b.n_escapes;
  row->escapes = b.escapes;
  row->escapes_end = b.lows;
  if (!pad_lows(&b, scratch) || !decode_ids(kernel_of(scratch), &b, shape, flags, &to, row, scratch)) return false;
  row->head = b.seq[HEAD];
  row->tail_at = b.seq[TAIL_AT];
  row->tail = b.seq[TAIL];
  row->small = row->head.max_k <= ANNB_KERNEL_MAX_K16 && row->tail.max_k <= ANNB_KERNEL_MAX_K16 &&
               row->tail_at.max_k <= ANNB_KERNEL_MAX_K16 && row->n - row->head.n < UINT16_MAX;
  return true;
}

void annb_rice_escape(const uint8_t **at, const uint8_t *end, uint32_t *position, uint32_t *code) {
  annb_cursor c = {*at, end, false};
  *position += (uint32_t)annb_varint_take(&c) + 1;
  *code = (uint32_t)annb_varint_take(&c);
  *at = c.at;
}
