#include "row_set.h"

#include "../../store/error.h"
#include "random.h"

#include <annblock/format.h>

#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

static uint64_t words_of(uint64_t n_rows) { return n_rows / 64 + (n_rows % 64 != 0); }
static uint64_t ranks_of(uint64_t n_rows) { return words_of(n_rows) / ANNB_RANK_WORDS + 1; }
static uint64_t bits_bytes(uint64_t n_rows) { return (words_of(n_rows) + ranks_of(n_rows)) * 8; }
static uint64_t ranges_bytes(uint64_t n) { return (2 * n + 1) * 8; }

/* ---- making ---- */

/* Ranges come in ascending order, not touching each other, through `add`, twice: counted, then kept. */
typedef struct builder {
  annb_row_set *rows;
  uint64_t n, first, end; /* ranges finished; the one that grows */
  bool keep;
} builder;

static void finish_range(builder *b) {
  annb_row_set *r = b->rows;
  uint64_t length = b->end - b->first;
  if (!length) return;
  if (!b->keep) {
    r->hash = annb_random_mix((annb_random_mix((r->hash ^ b->first) + ANNB_GOLDEN) ^ b->end) + ANNB_GOLDEN);
    r->count += length;
  } else if (r->bits) {
    for (uint64_t row = b->first; row < b->end;) {
      unsigned at = row % 64;
      uint64_t n = b->end - row < 64 - at ? b->end - row : 64 - at;
      r->bits[row / 64] |= (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << at;
      row += n;
    }
  } else {
    r->first[b->n] = b->first;
    r->before[b->n + 1] = r->before[b->n] + length;
  }
  b->n++;
}

static void add(builder *b, uint64_t first, uint64_t end) {
  if (first == b->end && b->end > b->first) {
    b->end = end;
    return;
  }
  finish_range(b);
  b->first = first;
  b->end = end;
}

static void add_bits(builder *b, const uint64_t *bits, uint64_t n_rows) {
  uint64_t words = words_of(n_rows);
  for (uint64_t w = 0; w < words; w++) {
    uint64_t word = bits[w];
    if (w == words - 1 && n_rows % 64) word &= (UINT64_C(1) << n_rows % 64) - 1;
    while (word) {
      unsigned at = (unsigned)__builtin_ctzll(word);
      uint64_t from = word >> at;
      unsigned n = ~from ? (unsigned)__builtin_ctzll(~from) : 64;
      if (n > 64 - at) n = 64 - at;
      add(b, w * 64 + at, w * 64 + at + n);
      word &= n == 64 ? 0 : ~(((UINT64_C(1) << n) - 1) << at);
    }
  }
}

typedef struct row_source {
  const uint64_t *bits;          /* or */
  const annb_row_range *ranges;  /* sorted */
  uint64_t n_ranges;
} row_source;

static void pass(builder *b, const row_source *source, uint64_t n_rows) {
  b->n = b->first = b->end = 0;
  if (source->bits) add_bits(b, source->bits, n_rows);
  for (uint64_t i = 0; !source->bits && i < source->n_ranges; i++)
    if (source->ranges[i].first < source->ranges[i].end) add(b, source->ranges[i].first, source->ranges[i].end);
  finish_range(b);
}

static void count_bits(annb_row_set *r) {
  uint64_t sum = 0, words = words_of(r->n_rows);
  for (uint64_t w = 0; w < words; w++) {
    if (w % ANNB_RANK_WORDS == 0) r->ranks[w / ANNB_RANK_WORDS] = sum;
    sum += (uint64_t)__builtin_popcountll(r->bits[w]);
  }
  if (words % ANNB_RANK_WORDS == 0) r->ranks[words / ANNB_RANK_WORDS] = sum;
}

static annb_status build(const row_source *source, uint64_t n_rows, annb_row_set **out, annb_error *err) {
  annb_row_set *r = calloc(1, sizeof *r);
  if (!r) return annb_fail_memory(err);
  atomic_init(&r->holders, 1);
  r->n_rows = n_rows;
  r->hash = annb_random_mix(n_rows);
  builder b = {.rows = r};
  pass(&b, source, n_rows);
  if (ranges_bytes(b.n) <= bits_bytes(n_rows)) {
    r->n_ranges = b.n;
    r->first = calloc((size_t)b.n + 1, sizeof *r->first);
    r->before = calloc((size_t)b.n + 1, sizeof *r->before);
  } else {
    r->bits = calloc((size_t)words_of(n_rows), sizeof *r->bits);
    r->ranks = calloc((size_t)ranks_of(n_rows), sizeof *r->ranks);
  }
  if (!(r->first && r->before) && !(r->bits && r->ranks)) {
    annb_row_set_close(r);
    return annb_fail_memory(err);
  }
  b.keep = true;
  pass(&b, source, n_rows);
  if (r->bits) count_bits(r);
  *out = r;
  return ANNB_OK;
}

static annb_status check_limit(uint64_t n_rows, const void *given, uint64_t n, const void *out, annb_error *err) {
  if ((!given && n) || !out) return annb_fail(err, ANNB_EINVAL, NULL, "a row set needs rows and a place for it");
  if (n_rows > ANNB_MAX_ROWS)
    return annb_fail(err, ANNB_ERANGE, NULL, "a row set of %llu rows is past the limit of 2^40", (ull)n_rows);
  return ANNB_OK;
}

annb_status annb_row_set_of_bits(const uint64_t *bits, uint64_t n_rows, annb_row_set **out, annb_error *err) {
  static const uint64_t none[1] = {0};
  annb_status s = check_limit(n_rows, bits, n_rows, out, err);
  return s ? s : build(&(row_source){.bits = bits ? bits : none}, n_rows, out, err);
}

annb_row_set *annb_row_set_all(uint64_t n_rows) {
  annb_row_set *all = NULL;
  annb_row_range range = {0, n_rows};
  return build(&(row_source){.ranges = &range, .n_ranges = 1}, n_rows, &all, NULL) ? NULL : all;
}

static int by_first(const void *a, const void *b) {
  const annb_row_range *x = a, *y = b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

/* Takes `sorted` over. `unit`: what a range is called in messages. */
static annb_status build_ranges(annb_row_range *sorted, uint64_t n, uint64_t n_rows, const char *unit, annb_row_set **out,
                                annb_error *err) {
  annb_status s = ANNB_OK;
  bool ascending = true;
  for (uint64_t i = 1; ascending && i < n; i++) ascending = sorted[i - 1].first <= sorted[i].first;
  if (!ascending) qsort(sorted, (size_t)n, sizeof *sorted, by_first);
  for (uint64_t i = 1; !s && i < n; i++)
    if (sorted[i].first < sorted[i - 1].end)
      s = annb_fail_row(err, ANNB_EINVAL, NULL, (int64_t)sorted[i].first, "row %llu is in the %s twice; a row set has each row once",
                        (ull)sorted[i].first, unit);
  if (!s) s = build(&(row_source){.ranges = sorted, .n_ranges = n}, n_rows, out, err);
  free(sorted);
  return s;
}

static annb_status past_rows(uint64_t row, uint64_t n_rows, annb_error *err) {
  return annb_fail_row(err, ANNB_ERANGE, NULL, row > INT64_MAX ? INT64_MAX : (int64_t)row, "row %llu is not there: there are %llu rows",
                       (ull)row, (ull)n_rows);
}

annb_status annb_row_set_of_list(const uint64_t *rows, uint64_t n, uint64_t n_rows, annb_row_set **out, annb_error *err) {
  annb_status s = check_limit(n_rows, rows, n, out, err);
  annb_row_range *ranges = s || n > SIZE_MAX / sizeof *ranges ? NULL : malloc(((size_t)n + 1) * sizeof *ranges);
  if (!s && !ranges) s = annb_fail_memory(err);
  for (uint64_t i = 0; !s && i < n; i++) {
    if (rows[i] >= n_rows) s = past_rows(rows[i], n_rows, err);
    else ranges[i] = (annb_row_range){rows[i], rows[i] + 1};
  }
  if (!s) return build_ranges(ranges, n, n_rows, "list", out, err);
  free(ranges);
  return s;
}

annb_status annb_row_set_of_ranges(const annb_row_range *given, uint64_t n, uint64_t n_rows, annb_row_set **out, annb_error *err) {
  annb_status s = check_limit(n_rows, given, n, out, err);
  uint64_t kept = 0;
  annb_row_range *ranges = s || n > SIZE_MAX / sizeof *ranges ? NULL : malloc(((size_t)n + 1) * sizeof *ranges);
  if (!s && !ranges) s = annb_fail_memory(err);
  for (uint64_t i = 0; !s && i < n; i++) {
    if (given[i].first > given[i].end)
      s = annb_fail(err, ANNB_EINVAL, NULL, "range %llu ends (%llu) before it begins (%llu)", (ull)i, (ull)given[i].end,
                    (ull)given[i].first);
    else if (given[i].end > n_rows) s = past_rows(given[i].end - 1, n_rows, err);
    else if (given[i].first < given[i].end) ranges[kept++] = given[i];
  }
  if (!s) return build_ranges(ranges, kept, n_rows, "ranges", out, err);
  free(ranges);
  return s;
}

const annb_row_set *annb_row_set_hold(const annb_row_set *rows) {
  atomic_fetch_add((atomic_uint *)(uintptr_t)&rows->holders, 1);
  return rows;
}

void annb_row_set_close(annb_row_set *rows) {
  if (!rows || atomic_fetch_sub(&rows->holders, 1) > 1) return;
  free(rows->first);
  free(rows->before);
  free(rows->bits);
  free(rows->ranks);
  free(rows);
}

/* ---- asking ---- */

uint64_t annb_row_set_count(const annb_row_set *rows) { return rows->count; }
uint64_t annb_row_set_limit(const annb_row_set *rows) { return rows->n_rows; }
uint64_t annb_row_set_hash(const annb_row_set *rows) { return rows->hash; }

uint64_t annb_row_set_bytes(const annb_row_set *rows) {
  return sizeof *rows + (rows->bits ? bits_bytes(rows->n_rows) : ranges_bytes(rows->n_ranges));
}

/* The last i of n > 0 with a[i] <= x; a ascends from something <= x. */
static uint64_t last_not_after(const uint64_t *a, uint64_t n, uint64_t x) {
  uint64_t low = 0;
  while (n > 1) {
    uint64_t half = n / 2;
    if (a[low + half] <= x) low += half;
    n -= half;
  }
  return low;
}

/* Place of the k-th one of a word. */
static unsigned nth_bit(uint64_t word, unsigned k) {
  for (; k; k--) word &= word - 1;
  return (unsigned)__builtin_ctzll(word);
}

uint64_t annb_row_set_member(const annb_row_set *r, uint64_t i) {
  if (!r->bits) {
    uint64_t at = last_not_after(r->before, r->n_ranges, i);
    return r->first[at] + (i - r->before[at]);
  }
  uint64_t word = last_not_after(r->ranks, ranks_of(r->n_rows), i), left = i - r->ranks[word];
  word *= ANNB_RANK_WORDS;
  for (uint64_t ones; (ones = (uint64_t)__builtin_popcountll(r->bits[word])) <= left; word++) left -= ones;
  return word * 64 + nth_bit(r->bits[word], (unsigned)left);
}

uint64_t annb_row_set_rank(const annb_row_set *r, uint64_t row) {
  if (row >= r->n_rows) return r->count;
  if (!r->bits) {
    if (!r->n_ranges || row < r->first[0]) return 0;
    uint64_t at = last_not_after(r->first, r->n_ranges, row), inside = row - r->first[at], length = r->before[at + 1] - r->before[at];
    return r->before[at] + (inside < length ? inside : length);
  }
  uint64_t word = row / 64, sum = r->ranks[word / ANNB_RANK_WORDS];
  for (uint64_t w = word / ANNB_RANK_WORDS * ANNB_RANK_WORDS; w < word; w++) sum += (uint64_t)__builtin_popcountll(r->bits[w]);
  return sum + (uint64_t)__builtin_popcountll(r->bits[word] & ((UINT64_C(1) << row % 64) - 1));
}

bool annb_row_set_contain(const annb_row_set *r, uint64_t row) {
  if (row >= r->n_rows) return false;
  return r->bits ? r->bits[row / 64] >> row % 64 & 1 : annb_row_set_rank(r, row + 1) > annb_row_set_rank(r, row);
}
