/* The order of the source's elements: rows as export fetches them, and order objects that are wrong. */
#include "order_maker.h"
#include "store_fixture.h"
#include "suite.h"

#include "../reader/source_order.h"
#include "../store/objects/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- entries, written plainly ---- */

typedef struct entries {
  uint64_t rows[256], ends[256], n;
  uint8_t bits[1 << 16];
  uint64_t at; /* bits used */
} entries;

static void put(entries *e, uint64_t value, unsigned width) {
  for (unsigned i = 0; i < width; i++, e->at++) e->bits[e->at / 8] |= (uint8_t)((value >> i & 1) << e->at % 8);
}

static void end_entry(entries *e, uint64_t row) {
  e->at = (e->at + 7) / 8 * 8;
  e->rows[e->n] = row;
  e->ends[e->n++] = e->at / 8;
}

static unsigned width_of(uint64_t n) {
  unsigned w = 0;
  while (n > 1 && (n - 1) >> w) w++;
  return w;
}

/* places[i]: where the source's element i is after step 2. */
static void put_full(entries *e, uint64_t row, const uint32_t *places, uint64_t n) {
  put(e, 1, 8);
  for (uint64_t i = 0; i < n; i++) put(e, places[i], width_of(n));
  end_entry(e, row);
}

/* Moves for all elements but those of an ascending run found greedily: correct, not the fewest. */
static void put_moves(entries *e, uint64_t row, const uint32_t *places, uint64_t n) {
  uint64_t m = 0;
  for (int pass = 0; pass < 2; pass++) {
    int64_t last = -1;
    if (pass) put(e, 2, 8), put(e, m, 32);
    for (uint64_t i = 0; i < n; i++) {
      if ((int64_t)places[i] > last) last = places[i];
      else if (pass) put(e, places[i], width_of(n)), put(e, i, width_of(n));
      else m++;
    }
  }
  end_entry(e, row);
}

static size_t entry_arrays(const entries *e, order_array *out) {
  if (!e->n) return 0;
  out[0] = (order_array){"order_rows", ANNB_U64, e->n, 1, e->rows};
  out[1] = (order_array){"order_ends", ANNB_U64, e->n, 1, e->ends};
  out[2] = (order_array){"order_bits", ANNB_U8, e->at / 8, 1, e->bits};
  return 3;
}

/* ---- rows come back as they were ---- */

static void check_rows(const maker_csr *x, uint64_t step) {
  uint64_t nnz = x->indptr[x->n_rows], rows[256], size = annb_dtype_size(x->dtype);
  int64_t indptr[257];
  int32_t *indices = (int32_t *)(void *)maker_guarded(nnz * sizeof *indices);
  uint8_t *values = maker_guarded(nnz * size);
  annb_store *store = open_store();
  annb_source_rows *source;
  OK(annb_source_rows_open(store, 0, 0, &source, &err));
  for (uint64_t first = 0; first < x->n_rows; first += step) {
    uint64_t n = x->n_rows - first < step ? x->n_rows - first : step, from = x->indptr[first], count = x->indptr[first + n] - from;
    for (uint64_t i = 0; i < n; i++) rows[i] = first + i;
    OK(annb_source_rows_fetch(source, context, rows, n, indptr, indices, values, count, &err));
    for (uint64_t i = 0; i <= n; i++) ck_assert_uint_eq((uint64_t)indptr[i], x->indptr[first + i] - from);
    ck_assert(!count ||
              (!memcmp(indices, x->indices + from, count * sizeof *indices) && !memcmp(values, x->values + from * size, count * size)));
    if (count) FAILS(annb_source_rows_fetch(source, context, rows, n, indptr, indices, values, count - 1, &err), ANNB_ECAPACITY);
  }
  rows[0] = x->n_rows;
  FAILS(annb_source_rows_fetch(source, context, rows, 1, indptr, indices, values, 0, &err), ANNB_ERANGE);
  annb_source_rows_close(source);
  annb_store_close(store);
}

/* Entries for the rows that step 2 does not put right; `moves`: of that kind. `source` may be NULL. */
static void make_entries(const maker_csr *x, const uint32_t *source, bool moves, entries *e) {
  uint64_t *order = room(x->n_cols * 8), nnz = x->indptr[x->n_rows];
  uint32_t *rank = room(x->n_cols * 4), *key = room(nnz * 4), *places = room(x->n_cols * 4);
  for (uint32_t i = 0; i < x->n_cols; i++) rank[source ? source[i] : i] = i;
  for (uint64_t i = 0; i < nnz; i++) key[i] = rank[x->indices[i]];
  for (uint64_t row = 0; row < x->n_rows; row++) {
    uint64_t first = x->indptr[row], n = x->indptr[row + 1] - first;
    bool right = true;
    for (uint64_t i = 0; i < n; i++) order[i] = first + i;
    order_sort(order, n, key);
    for (uint64_t i = 0; i < n; i++) {
      places[order[i] - first] = (uint32_t)i;
      right &= order[i] == first + i;
    }
    if (right) continue;
    if (moves) put_moves(e, row, places, n);
    else put_full(e, row, places, n);
  }
  free(order);
  free(rank);
  free(key);
  free(places);
}

static void shuffle_like(maker_csr *x, const uint32_t *source) {
  uint32_t *rank = room(x->n_cols * 4), *indices = room(x->indptr[x->n_rows] * 4), *key = room(x->indptr[x->n_rows] * 4);
  uint64_t *order = room(x->n_cols * 8);
  for (uint32_t i = 0; i < x->n_cols; i++) rank[source[i]] = i;
  for (uint64_t i = 0; i < x->indptr[x->n_rows]; i++) key[i] = rank[x->indices[i]];
  for (uint64_t row = 0; row < x->n_rows; row++) {
    uint64_t first = x->indptr[row], n = x->indptr[row + 1] - first;
    for (uint64_t i = 0; i < n; i++) order[i] = first + i;
    order_sort(order, n, key);
    for (uint64_t i = 0; i < n; i++) indices[first + i] = x->indices[order[i]];
  }
  memcpy(x->indices, indices, x->indptr[x->n_rows] * 4);
  free(rank);
  free(indices);
  free(key);
  free(order);
}

/* Gene order or not, a source order or not, entries full or as moves, for sources in order, without one, and with repeats. */
START_TEST(rows_come_back) {
  bool genes = _i & 1, by_source = _i & 2, moves = _i & 4, like = _i & 8;
  annb_dtype dtypes[] = {ANNB_F32, ANNB_U16, ANNB_F64};
  uint32_t *permutation = order_permutation(11, 120), *source = order_permutation(12, 120);
  char message[512];
  for (int order = MAKER_SORTED; order <= MAKER_REPEATS; order++) {
    for (size_t d = 0; d < 3; d++) {
      maker_csr x = maker_random(d, 80, 120, 30, dtypes[d], order);
      if (like) shuffle_like(&x, source);
      entries *e = room(sizeof *e);
      order_array arrays[4];
      make_entries(&x, by_source ? source : NULL, moves, e);
      size_t n = entry_arrays(e, arrays);
      if (by_source) arrays[n++] = (order_array){"source_order", ANNB_U32, 120, 1, source};
      order_part part = {
          .x = &x, .sort = true, .segment_rows = 33, .genes = genes ? permutation : NULL, .source = n ? arrays : NULL, .n_source = n};
      order_store(store_path, &part, 1, NULL);
      check_rows(&x, 7);
      check_rows(&x, 80);
      ck_assert_msg(order_findings(store_path, message) == 0, "%s", message);
      maker_remove(store_path);
      maker_free(&x);
      free(e);
    }
  }
  free(permutation);
  free(source);
}
END_TEST

/* Rows that were not sorted are in the source's order already, whatever the genes' numbers. */
START_TEST(rows_that_were_not_sorted) {
  maker_csr x = maker_random(1, 40, 60, 20, ANNB_F32, MAKER_REPEATS);
  uint32_t *genes = order_permutation(3, 60), *source = order_permutation(4, 60);
  order_array arrays[] = {{"source_order", ANNB_U32, 60, 1, source}};
  order_part part = {.x = &x, .genes = genes, .source = arrays, .n_source = 1};
  order_store(store_path, &part, 1, NULL);
  check_rows(&x, 13);
  maker_free(&x);
  free(genes);
  free(source);
}
END_TEST

/* For a CSC source the order is one of rows. */
START_TEST(csc_source) {
  static const uint64_t rows[] = {2, 0, 4, 1, 3};
  maker_csr x = maker_random(1, 5, 30, 9, ANNB_F32, MAKER_SORTED);
  order_array arrays[] = {{"source_order", ANNB_U64, 5, 1, rows}};
  order_part part = {.x = &x, .form = ANNB_CSC, .sort = true, .source = arrays, .n_source = 1};
  char message[512];
  order_store(store_path, &part, 1, NULL);
  annb_store *store = open_store();
  annb_source_rows *source;
  OK(annb_source_rows_open(store, 0, 0, &source, &err));
  ck_assert_int_eq(memcmp(annb_source_rows_order(source), rows, sizeof rows), 0);
  annb_source_rows_close(source);
  FAILS(annb_source_rows_open(store, 1, 0, &source, &err), ANNB_ENOTFOUND);
  FAILS(annb_source_rows_open(store, 0, 1, &source, &err), ANNB_ENOTFOUND);
  annb_store_close(store);
  ck_assert_msg(order_findings(store_path, message) == 0, "%s", message);
  maker_free(&x);
}
END_TEST

/* ---- order objects that are wrong ---- */

/* Three rows of 4, 0 and 5 elements. */
static maker_csr three_rows(void) {
  static const uint64_t indptr[] = {0, 4, 4, 9};
  static const uint32_t indices[] = {3, 1, 2, 0, 0, 1, 2, 3, 4};
  static const float values[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  return maker_from(3, 6, ANNB_F32, indptr, indices, values);
}

static const uint32_t good32[] = {5, 4, 3, 2, 1, 0}, twice32[] = {5, 4, 3, 2, 1, 1}, large32[] = {5, 4, 3, 2, 1, 6};
static const uint64_t good64[] = {2, 0, 1}, twice64[] = {2, 0, 0}, large64[] = {2, 0, UINT64_MAX};

static const struct {
  annb_form form;
  order_array array;
} bad_axes[] = {
    {ANNB_CSR, {"source_order", ANNB_U32, 6, 1, twice32}}, {ANNB_CSR, {"source_order", ANNB_U32, 6, 1, large32}},
    {ANNB_CSR, {"source_order", ANNB_U32, 5, 1, good32}},  {ANNB_CSR, {"source_order", ANNB_U32, 3, 2, good32}},
    {ANNB_CSR, {"source_order", ANNB_U64, 3, 1, good64}},  {ANNB_CSR, {"source_order", ANNB_I32, 6, 1, good32}},
    {ANNB_CSC, {"source_order", ANNB_U64, 3, 1, twice64}}, {ANNB_CSC, {"source_order", ANNB_U64, 3, 1, large64}},
    {ANNB_CSC, {"source_order", ANNB_U64, 2, 1, good64}},  {ANNB_CSC, {"source_order", ANNB_U32, 6, 1, good32}},
    {ANNB_CSR, {"order_rows", ANNB_U64, 1, 1, good64}},    {ANNB_CSR, {"order_bits", ANNB_U8, 1, 1, good64}},
};

static void write_part(annb_form form, const order_array *arrays, size_t n, bool sort) {
  maker_csr x = three_rows();
  order_part part = {.x = &x, .form = form, .sort = sort, .source = arrays, .n_source = n};
  order_store(store_path, &part, 1, NULL);
  maker_free(&x);
}

/* The status of opening and then fetching all rows. */
static annb_status read_all(void) {
  static const uint64_t rows[] = {0, 1, 2};
  int64_t indptr[4];
  int32_t indices[16];
  float values[16];
  annb_store *store = open_store();
  annb_source_rows *source;
  annb_status s = annb_source_rows_open(store, 0, 0, &source, &err);
  if (!s) {
    s = annb_source_rows_fetch(source, context, rows, 3, indptr, indices, values, 16, &err);
    annb_source_rows_close(source);
  }
  annb_store_close(store);
  return s;
}

static void expect_corrupt(void) {
  char message[512];
  FAILS(read_all(), ANNB_ECORRUPT);
  ck_assert_uint_eq(order_findings(store_path, message), 1);
  const char *text = strstr(err.message, ".annc: "); /* a finding has its path apart */
  ck_assert_ptr_nonnull(text);
  ck_assert_str_eq(message, text + strlen(".annc: "));
}

START_TEST(axes_that_are_none) {
  write_part(bad_axes[_i].form, &bad_axes[_i].array, 1, true);
  expect_corrupt();
}
END_TEST

typedef struct listing {
  uint64_t n, rows[3], n_ends, ends[3], n_bits;
  uint8_t bits[32];
  bool good;
} listing;

/* Row 0 has 4 elements: values of 2 bits; row 2 has 5: of 3 bits, lowest first: 1B is 3, 2, 1, 0. */
static const listing listings[] = {
    {1, {0}, 1, {2}, 2, {1, 0x1B}, true},                                       /* 3 2 1 0 */
    {2, {0, 2}, 2, {2, 5}, 5, {1, 0x1B, 1, 0x88, 0x46}, true},                  /* and 0 1 2 3 4, in 3 bits */
    {1, {0}, 1, {5}, 5, {2, 0, 0, 0, 0}, true},                                 /* no moves */
    {1, {0}, 1, {6}, 6, {2, 1, 0, 0, 0, 0x3}, true},                            /* 3 to 0 */
    {1, {0}, 1, {7}, 7, {2, 4, 0, 0, 0, 0x43 | 2 << 4, 0x80 | 1 << 4 | 8}, false},
    {1, {0}, 1, {2}, 2, {1, 0x1A}, false},                                      /* 2 twice */
    {1, {0}, 1, {1}, 1, {1}, false},                                            /* cut short */
    {1, {0}, 1, {3}, 3, {1, 0x1B, 0}, false},                                   /* too long */
    {1, {0}, 1, {2}, 2, {3, 0x1B}, false},                                      /* unknown kind */
    {1, {0}, 1, {2}, 2, {0, 0x1B}, false},
    {1, {2}, 1, {3}, 3, {1, 0x88, 0xC6}, false},                                /* a spare bit */
    {1, {2}, 1, {3}, 3, {1, 0x88, 0x56}, false},                                /* value 5 of 5 */
    {1, {0}, 1, {4}, 4, {2, 0, 0, 0}, false},                                   /* no number of moves */
    {1, {0}, 1, {6}, 6, {2, 2, 0, 0, 0, 0x03}, false},                          /* to 0 twice */
    {1, {0}, 1, {6}, 6, {2, 2, 0, 0, 0, 0x73}, false},                          /* from 3 twice */
    {1, {0}, 1, {6}, 6, {2, 1, 0, 0, 0, 0x13}, false},                          /* a spare bit */
    {1, {0}, 1, {6}, 6, {2, 5, 0, 0, 0, 0}, false},                             /* more moves than elements */
    {1, {0}, 1, {6}, 6, {2, 0xFF, 0xFF, 0xFF, 0xFF, 0}, false},
    {1, {0}, 1, {6}, 6, {2, 0, 0, 0, 0x80, 0}, false},
    {1, {1}, 1, {1}, 1, {1}, false},                                            /* a row without elements */
    {1, {3}, 1, {2}, 2, {1, 0x1B}, false},                                      /* no such row */
    {1, {UINT64_MAX}, 1, {2}, 2, {1, 0x1B}, false},
    {2, {2, 0}, 2, {3, 5}, 5, {1, 0x88, 0x46, 1, 0x1B}, false},                 /* rows descend */
    {2, {0, 0}, 2, {2, 4}, 4, {1, 0x1B, 1, 0x1B}, false},                       /* a row twice */
    {2, {0, 2}, 2, {5, 2}, 5, {1, 0x1B, 1, 0x88, 0x46}, false},                 /* ends descend */
    {2, {0, 2}, 2, {2, 2}, 2, {1, 0x1B}, false},                                /* an entry of no bytes */
    {1, {0}, 1, {3}, 2, {1, 0x1B}, false},                                      /* ends past the bits */
    {1, {0}, 1, {UINT64_MAX}, 2, {1, 0x1B}, false},
    {1, {0}, 1, {2}, 3, {1, 0x1B, 7}, false},                                   /* bits past the ends */
    {1, {0}, 2, {2, 3}, 3, {1, 0x1B, 7}, false},                                /* more ends than rows */
};

START_TEST(entries_that_do_not_fit) {
  const listing *l = &listings[_i];
  char message[512];
  order_array arrays[] = {{"order_rows", ANNB_U64, l->n, 1, l->rows},
                          {"order_ends", ANNB_U64, l->n_ends, 1, l->ends},
                          {"order_bits", ANNB_U8, l->n_bits, 1, l->bits}};
  write_part(ANNB_CSR, arrays, 3, true);
  if (!l->good) {
    expect_corrupt();
    return;
  }
  ck_assert_msg(!read_all(), "%s", err.message);
  ck_assert_uint_eq(order_findings(store_path, message), 0);
}
END_TEST

START_TEST(entries_of_a_csc_source) {
  const listing *l = &listings[0];
  order_array arrays[] = {
      {"order_rows", ANNB_U64, 1, 1, l->rows}, {"order_ends", ANNB_U64, 1, 1, l->ends}, {"order_bits", ANNB_U8, 2, 1, l->bits}};
  write_part(ANNB_CSC, arrays, 3, true);
  expect_corrupt();
}
END_TEST

/* Export does not need them; they cannot both be right. */
START_TEST(entries_of_rows_that_were_not_sorted) {
  const listing *l = &listings[0];
  char message[512];
  order_array arrays[] = {
      {"order_rows", ANNB_U64, 1, 1, l->rows}, {"order_ends", ANNB_U64, 1, 1, l->ends}, {"order_bits", ANNB_U8, 2, 1, l->bits}};
  write_part(ANNB_CSR, arrays, 3, false);
  OK(read_all());
  ck_assert_uint_eq(order_findings(store_path, message), 1);
  ck_assert_ptr_nonnull(strstr(message, "in it already"));
}
END_TEST

/* Whatever the bytes of an entry: refused, or a permutation of the row's elements. */
START_TEST(any_bytes) {
  uint64_t row = 0, end, seed = (uint64_t)_i, words[3], good = 0;
  uint32_t places[130];
  uint8_t *bits = maker_guarded(160) + 160; /* nothing is read past the entry */
  for (int round = 0; round < 40000; round++) {
    uint32_t n = (uint32_t)(maker_next(&seed) % (round % 2 ? 130 : 6)), m = (uint32_t)(maker_next(&seed) % (n + 2));
    bool moves = maker_next(&seed) % 2;
    unsigned w = width_of(n);
    end = moves ? 5 + (2 * m * (uint64_t)w + 7) / 8 : 1 + (n * (uint64_t)w + 7) / 8;
    if (maker_next(&seed) % 8 == 0) end = maker_next(&seed) % 9 + 1;
    if (end > 160) continue;
    uint8_t *entry = bits - end;
    for (uint64_t i = 0; i < end; i++) entry[i] = (uint8_t)maker_next(&seed);
    entry[0] = moves ? 2 : 1;
    if (moves && end >= 5) memcpy(entry + 1, &m, 4);
    annb_source_order order = {.path = "order", .entry_rows = &row, .entry_ends = &end, .bits = entry, .n_entries = 1};
    memset(places, 0xEE, sizeof places);
    annb_status s = annb_source_order_places(&order, 0, n, places, words, &err);
    if (s) {
      ck_assert_int_eq(s, ANNB_ECORRUPT);
      continue;
    }
    uint8_t times[130] = {0};
    for (uint32_t i = 0; i < n; i++) ck_assert(places[i] < n && times[places[i]]++ == 0);
    ck_assert(places[n] == 0xEEEEEEEE);
    good++;
  }
  ck_assert_uint_gt(good, 100);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("source_order");
  TCase *rows = tcase_create("rows"), *damage = tcase_create("damage");
  tcase_add_checked_fixture(rows, setup, teardown);
  tcase_add_checked_fixture(damage, setup, teardown);
  tcase_set_timeout(rows, 120);
  tcase_set_timeout(damage, 120);
  tcase_add_loop_test(rows, rows_come_back, 0, 16);
  tcase_add_test(rows, rows_that_were_not_sorted);
  tcase_add_test(rows, csc_source);
  tcase_add_loop_test(damage, axes_that_are_none, 0, sizeof bad_axes / sizeof *bad_axes);
  tcase_add_loop_test(damage, entries_that_do_not_fit, 0, sizeof listings / sizeof *listings);
  tcase_add_test(damage, entries_of_a_csc_source);
  tcase_add_test(damage, entries_of_rows_that_were_not_sorted);
  tcase_add_loop_test(damage, any_bytes, 0, 4);
  suite_add_tcase(suite, rows);
  suite_add_tcase(suite, damage);
  return suite_run(suite);
}
