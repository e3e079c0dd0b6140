/* Writing orders: rows sorted by stored id, entries of the order object, the source's order found from a sample. */
#include "suite.h"
#include "temp.h"

#include "../convert/rows/order_log.h"
#include "../store/objects/arrays.h"
#include "../store/manifest/manifest.h"
#include "../store/codec/row_sort.h"
#include "../store/objects/segment.h"
#include "../store/commit/txn.h"


static char *dir, *store;
static annb_error err;
static uint64_t random_state;

static void setup(void) {
  dir = temp_make();
  store = annb_io_join(dir, "s.annblock");
  random_state = 1;
}

static void teardown(void) {
  temp_remove(dir);
  free(dir);
  free(store);
}

#define OK(call) ck_assert_msg((call) == ANNB_OK, "%s", err.message)

static uint32_t below(uint64_t n) {
  uint64_t x = random_state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return (uint32_t)((x ^ x >> 31) % n);
}

static void permute(uint32_t *order, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) order[i] = i;
  for (uint32_t i = n; i > 1; i--) {
    uint32_t k = below(i), x = order[i - 1];
    order[i - 1] = order[k];
    order[k] = x;
  }
}

/* ---- sorting a row ---- */

enum { MOST = 3000 };

/* Stable, by the plainest means: the j-th smallest is the first not yet taken of the least id. */
static void check_sorted(const uint32_t *ids, const uint8_t *values, uint32_t n, uint32_t size, const uint32_t *got, const uint8_t *got_values) {
  static bool taken[MOST];
  memset(taken, 0, sizeof taken);
  for (uint32_t k = 0; k < n; k++) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++)
      if (!taken[i] && (best == UINT32_MAX || ids[i] < ids[best])) best = i;
    taken[best] = true;
    if (got[k] != ids[best] || memcmp(got_values + k * size, values + best * size, size)) ck_abort_msg("element %u of %u is wrong", k, n);
  }
}

static void arrange(annb_row_sorter *sorter, uint32_t n, uint64_t n_cols, uint32_t size, bool mapped, bool repeats) {
  static uint32_t columns[MOST], ids[MOST];
  static uint8_t values[MOST * 8 + 1];
  uint32_t *map = malloc(n_cols * sizeof *map);
  permute(map, (uint32_t)n_cols);
  for (uint32_t i = 0; i < n; i++) columns[i] = repeats ? below(n_cols) : map[i];
  permute(map, (uint32_t)n_cols);
  for (uint32_t i = 0; i < n; i++) ids[i] = mapped ? map[columns[i]] : columns[i];
  for (uint32_t i = 0; i < n * size; i++) values[i + 1] = (uint8_t)below(256);
  annb_row_sort_rule rule = {mapped ? map : NULL, true, n_cols, size};
  const uint32_t *out = columns;
  const uint8_t *out_values = values + 1; /* not aligned */
  ck_assert(annb_row_arrange(sorter, &rule, n, &out, &out_values));
  check_sorted(ids, values + 1, n, size, out, out_values);
  rule.sort = false;
  out = columns;
  out_values = values + 1;
  ck_assert(annb_row_arrange(sorter, &rule, n, &out, &out_values));
  if (memcmp(out, ids, n * sizeof *ids) || out_values != values + 1) ck_abort_msg("a row is changed that was not to be sorted");
  free(map);
}

START_TEST(test_arrange) {
  static const struct {
    uint32_t n;
    uint64_t n_cols;
  } shapes[] = {{1, 1}, {2, 5}, {24, 30}, {25, 30}, {64, 64}, {65, 4000}, {300, 2000}, {700, 700}, {700, 600000}, {30, 200000}, {1500, 262144}};
  annb_row_sorter sorter = {0};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (uint32_t size = 1; size <= 8; size *= 2)
      for (int kind = 0; kind < 4; kind++) arrange(&sorter, shapes[i].n, shapes[i].n_cols, size, kind & 1, kind & 2);
  annb_row_sorter_free(&sorter);
}
END_TEST

START_TEST(test_arrange_sorted) {
  annb_row_sorter sorter = {0};
  const uint32_t ids[] = {1, 4, 4, 9}, *out = ids;
  const uint8_t values[] = {1, 2, 3, 4}, *out_values = values;
  annb_row_sort_rule rule = {NULL, true, 10, 1};
  ck_assert(annb_row_arrange(&sorter, &rule, 4, &out, &out_values));
  ck_assert(out == ids && out_values == values); /* as given */
  ck_assert(annb_row_arrange(&sorter, &rule, 0, &out, &out_values));
  annb_row_sorter_free(&sorter);
}
END_TEST

START_TEST(test_sort_keys) {
  static uint64_t keys[2 * MOST];
  for (uint32_t n = 0; n < MOST; n += n / 2 + 1) {
    for (uint32_t i = 0; i < n; i++) keys[i] = (uint64_t)(below(3) ? below(70) : below(UINT32_MAX)) << 32 | i;
    const uint64_t *sorted = annb_sort_keys(keys, keys + n, n);
    for (uint32_t i = 1; i < n; i++)
      if (sorted[i - 1] >= sorted[i]) ck_abort_msg("keys %u and %u of %u are out of order", i - 1, i, n);
  }
}
END_TEST

/* ---- entries, read as SPEC.md 3.6 says ---- */

static uint32_t bits_at(const uint8_t *bytes, uint64_t at, unsigned width) {
  uint32_t x = 0;
  for (unsigned i = 0; i < width; i++) x |= (uint32_t)(bytes[(at + i) / 8] >> (at + i) % 8 & 1) << i;
  return x;
}

static unsigned width_of(uint32_t n) {
  unsigned width = 0;
  for (uint32_t x = n - 1; x; x /= 2) width++;
  return width;
}

/* Places from an entry; returns its length. */
static size_t read_entry(const uint8_t *entry, uint32_t n, uint32_t *place) {
  static bool used[MOST];
  unsigned w = width_of(n);
  if (entry[0] == 1) {
    for (uint32_t i = 0; i < n; i++) place[i] = bits_at(entry + 1, (uint64_t)i * w, w);
    ck_assert((uint64_t)n * w % 8 == 0 || entry[(uint64_t)n * w / 8 + 1] >> (uint64_t)n * w % 8 == 0);
    return 1 + ((uint64_t)n * w + 7) / 8;
  }
  uint32_t m, next = 0;
  ck_assert_uint_eq(entry[0], 2);
  memcpy(&m, entry + 1, sizeof m);
  memset(used, 0, sizeof used);
  for (uint32_t i = 0; i < n; i++) place[i] = UINT32_MAX;
  for (uint32_t k = 0, before = 0; k < m; k++) {
    uint32_t from = bits_at(entry + 5, (uint64_t)2 * k * w, w), to = bits_at(entry + 5, ((uint64_t)2 * k + 1) * w, w);
    ck_assert(from < n && to < n && !used[from] && (k == 0 || to > before));
    used[from] = true;
    place[to] = from;
    before = to;
  }
  for (uint32_t i = 0; i < n; i++) {
    if (place[i] != UINT32_MAX) continue;
    while (used[next]) next++;
    place[i] = next++;
  }
  return 5 + ((uint64_t)2 * m * w + 7) / 8;
}

static size_t check_entry(const uint32_t *place, uint32_t n) {
  static uint32_t scratch[3 * MOST], got[MOST];
  uint8_t *entry = malloc(annb_order_entry_bound(n)); /* exact, so that writing past it is seen */
  size_t length = annb_order_entry(place, n, scratch, entry);
  ck_assert_uint_eq(read_entry(entry, n, got), length);
  ck_assert(length <= annb_order_entry_bound(n) && !memcmp(got, place, n * sizeof *place));
  free(entry);
  return length;
}

static void move_one(uint32_t *place, uint32_t n) {
  uint32_t from = below(n), to = below(n), x = place[from];
  memmove(place + from, place + from + 1, (n - from - 1) * sizeof *place);
  memmove(place + to + 1, place + to, (n - to - 1) * sizeof *place);
  place[to] = x;
}

START_TEST(test_entries) {
  static uint32_t place[MOST];
  for (uint32_t n = 2; n < MOST; n += n / 3 + 1) {
    permute(place, n);
    check_entry(place, n);
    for (uint32_t i = 0; i < n; i++) place[i] = n - 1 - i;
    ck_assert_uint_eq(check_entry(place, n), 1 + (n * width_of(n) + 7) / 8); /* nothing keeps its order: full */
    for (uint32_t i = 0; i < n; i++) place[i] = i;
    for (uint32_t moved = 1; moved < n; moved *= 3) {
      for (uint32_t k = 0; k < moved; k++) move_one(place, n);
      size_t full = 1 + (n * width_of(n) + 7) / 8, moves = 5 + (2 * (uint64_t)moved * width_of(n) + 7) / 8;
      size_t length = check_entry(place, n);
      if (moved == 1) ck_assert(length <= (moves < full ? moves : full));
      for (uint32_t i = 0; i < n; i++) place[i] = i;
    }
  }
}
END_TEST

START_TEST(test_entry_bytes) {
  const uint32_t swapped[] = {1, 0};
  uint32_t scratch[200], place[60];
  uint8_t out[64];
  ck_assert_uint_eq(annb_order_entry(swapped, 2, scratch, out), 2);
  ck_assert(out[0] == 1 && out[1] == 1); /* one bit each: 1, 0 */
  for (uint32_t i = 0; i < 60; i++) place[i] = i < 59 ? i + 1 : 0; /* the first goes to the end */
  ck_assert_uint_eq(annb_order_entry(place, 60, scratch, out), 7);
  ck_assert(!memcmp(out, "\x02\x01\x00\x00\x00\xC0\x0E", 7)); /* from 0, to 59, six bits each */
}
END_TEST

/* ---- one order for all rows ---- */

typedef struct made {
  annb_sample sample;
  uint32_t room;
} made;

static void add_row(made *m, const uint32_t *columns, uint32_t n) {
  ck_assert(m->sample.n + n <= m->room);
  if (n) m->sample.starts[m->sample.n / 64] |= UINT64_C(1) << m->sample.n % 64;
  for (uint32_t i = 0; i < n; i++) m->sample.indices[m->sample.n++] = columns[i];
}

static made make(uint32_t room) {
  return (made){{malloc(room * sizeof(uint32_t)), calloc(room / 64 + 1, sizeof(uint64_t)), 0}, room};
}

START_TEST(test_source_order) {
  enum { N = 200, ROWS = 300 };
  uint32_t hidden[N], rank[N], row[2 * N], *order;
  made m = make(ROWS * 2 * N);
  permute(hidden, N);
  for (uint32_t r = 0; r < ROWS; r++) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < N; k++)
      for (uint32_t times = below(6) ? 0 : 1 + (below(9) == 0); times; times--) row[n++] = hidden[k];
    add_row(&m, row, n);
  }
  OK(annb_source_order_find(&m.sample, N, &order, &err));
  ck_assert_ptr_nonnull(order);
  for (uint32_t i = 0; i < N; i++) rank[i] = UINT32_MAX;
  for (uint32_t i = 0; i < N; i++) rank[order[i]] = i;
  for (uint32_t i = 0; i < N; i++) ck_assert(rank[i] < N);
  for (uint64_t i = 1; i < m.sample.n; i++)
    if (!annb_sample_starts(&m.sample, i) && rank[m.sample.indices[i]] < rank[m.sample.indices[i - 1]]) ck_abort_msg("a row does not ascend");
  free(order);
  annb_sample_free(&m.sample);
}
END_TEST

START_TEST(test_source_order_ties) {
  const uint32_t row[] = {7, 2};
  const uint32_t want[] = {0, 1, 3, 4, 5, 6, 7, 2, 8, 9};
  uint32_t *order;
  made m = make(8);
  add_row(&m, row, 2);
  OK(annb_source_order_find(&m.sample, 10, &order, &err));
  ck_assert(order && !memcmp(order, want, sizeof want)); /* those not seen by number */
  free(order);
  annb_sample_free(&m.sample);
}
END_TEST

START_TEST(test_no_source_order) {
  const uint32_t up[] = {1, 5, 5, 8}, down[] = {8, 1}, around[] = {3, 1, 3};
  uint32_t *order;
  made m = make(64);
  add_row(&m, up, 4);
  add_row(&m, up, 4);
  OK(annb_source_order_find(&m.sample, 10, &order, &err));
  ck_assert_ptr_null(order); /* not needed */
  add_row(&m, down, 2);
  OK(annb_source_order_find(&m.sample, 10, &order, &err));
  ck_assert_ptr_null(order); /* 1, 5, 8 and 8, 1 */
  annb_sample_free(&m.sample);
  m = make(8);
  add_row(&m, around, 3);
  OK(annb_source_order_find(&m.sample, 10, &order, &err));
  ck_assert_ptr_null(order);
  annb_sample_free(&m.sample);
}
END_TEST

/* ---- the order object ---- */

enum { LOG_ROWS = 4000, LOG_NNZ = 60, LOG_COLS = 500 };

static struct {
  uint64_t indptr[LOG_ROWS + 1];
  uint32_t columns[LOG_ROWS * LOG_NNZ];
} logged;

static bool is_moved(uint64_t row) { return row % 3 == 1; }

/* Rows that ascend by rank, every third shuffled. */
static void make_rows(const uint32_t *order) {
  for (uint64_t r = 0, at = 0; r < LOG_ROWS; r++) {
    uint64_t from = at;
    uint32_t n = below(LOG_NNZ), swaps = is_moved(r) ? 1 + below(20) : 0;
    for (uint32_t k = 0; k < n; k++) logged.columns[at++] = order[k * (LOG_COLS / LOG_NNZ) + below(LOG_COLS / LOG_NNZ)];
    for (; n > 1 && swaps; swaps--) {
      uint64_t a = from + below(n), b = from + below(n);
      uint32_t x = logged.columns[a];
      logged.columns[a] = logged.columns[b];
      logged.columns[b] = x;
    }
    logged.indptr[r + 1] = at;
  }
}

static void add_chunk(annb_order_log *log, const annb_rows_chunk *chunk) {
  annb_order_maker maker = {0};
  annb_order_entries entries = {0};
  OK(annb_order_log_look(log, &maker, chunk, &entries, &err));
  OK(annb_order_log_add(log, &entries, &err));
  annb_order_maker_free(&maker);
  annb_order_entries_free(&entries);
}

static void add_rows(annb_order_log *log) {
  for (uint64_t r = 0, n; r < LOG_ROWS; r += n) {
    n = 1 + below(900) < LOG_ROWS - r ? 1 + below(LOG_ROWS - r) : LOG_ROWS - r;
    annb_rows_chunk chunk = {n, logged.indptr + r, logged.columns + logged.indptr[r], NULL};
    add_chunk(log, &chunk);
  }
}

static annb_arrays *write_log(annb_order_log *log, annb_txn *txn) {
  annb_arrays_writer *writer;
  annb_arrays *arrays;
  uint32_t object;
  OK(annb_arrays_writer_open(txn, &writer, &err));
  OK(annb_order_log_write(log, writer, &err));
  OK(annb_arrays_writer_close(writer, &object, &err));
  char **names, *path = NULL;
  size_t n;
  OK(annb_io_list(annb_txn_tmp_dir(txn), &names, &n, &err));
  for (size_t i = 0; i < n && !path; i++) { /* the only file with bytes in it */
    uint64_t size;
    path = annb_io_join(annb_txn_tmp_dir(txn), names[i]);
    OK(annb_io_file_size(path, &size, &err));
    if (size) break;
    free(path);
    path = NULL;
  }
  annb_io_free_names(names, n);
  OK(annb_arrays_open(path, &arrays, &err));
  free(path);
  return arrays;
}

static const void *array_of(annb_arrays *arrays, const char *name, uint64_t *n) {
  uint32_t i;
  const void *view;
  OK(annb_arrays_find(arrays, name, &i, &err));
  *n = annb_arrays_array(arrays, i).n_rows;
  OK(annb_arrays_view(arrays, i, 0, *n, &view, &err));
  return view;
}

/* Sort the row by rank as export does, put the entry's places in, and it must be the source's row. */
static void check_row(uint64_t row, const uint32_t *rank, const uint8_t *entry, size_t length) {
  uint64_t keys[LOG_NNZ * 2];
  uint32_t place[LOG_NNZ], n = (uint32_t)(logged.indptr[row + 1] - logged.indptr[row]);
  const uint32_t *columns = logged.columns + logged.indptr[row];
  for (uint32_t i = 0; i < n; i++) keys[i] = (uint64_t)(rank ? rank[columns[i]] : columns[i]) << 32 | i;
  const uint64_t *sorted = annb_sort_keys(keys, keys + n, n);
  for (uint32_t i = 0; i < n; i++) place[i] = i;
  if (entry) ck_assert_uint_eq(read_entry(entry, n, place), length);
  for (uint32_t i = 0; i < n; i++)
    if ((uint32_t)sorted[place[i]] != i) ck_abort_msg("row %llu: element %u is not put back", (unsigned long long)row, i);
}

static void log_round_trip(const uint32_t *order, const uint32_t *rank) {
  annb_order_log *log;
  annb_txn *txn;
  uint64_t k, n_ends, n_bits, done = 0;
  make_rows(order);
  OK(annb_txn_begin(store, ANNB_TXN_REPLACE, &txn, &err));
  OK(annb_order_log_open(rank, annb_txn_tmp_dir(txn), &log, &err));
  add_rows(log);
  annb_arrays *arrays = write_log(log, txn);
  const uint64_t *rows = array_of(arrays, "order_rows", &k), *ends = array_of(arrays, "order_ends", &n_ends);
  const uint8_t *bits = array_of(arrays, "order_bits", &n_bits);
  ck_assert(k == annb_order_log_entries(log) && k == n_ends && k > LOG_ROWS / 4 && k <= LOG_ROWS / 3 && ends[k - 1] == n_bits);
  for (uint64_t row = 0; row < LOG_ROWS; row++) {
    bool listed = done < k && rows[done] == row;
    uint64_t start = done ? ends[done - 1] : 0;
    ck_assert(!listed || is_moved(row));
    check_row(row, rank, listed ? bits + start : NULL, listed ? ends[done] - start : 0);
    done += listed;
  }
  ck_assert_uint_eq(done, k);
  annb_arrays_close(arrays);
  annb_order_log_close(log);
  annb_txn_abort(txn);
}

START_TEST(test_log) {
  uint32_t order[LOG_COLS], rank[LOG_COLS];
  for (uint32_t i = 0; i < LOG_COLS; i++) order[i] = i;
  log_round_trip(order, NULL);
  permute(order, LOG_COLS);
  for (uint32_t i = 0; i < LOG_COLS; i++) rank[order[i]] = i;
  log_round_trip(order, rank);
}
END_TEST

START_TEST(test_log_spools) { /* more bytes than the memory of a log holds */
  enum { N = 1000, ROWS = 2000 };
  static uint32_t columns[N];
  annb_order_log *log;
  annb_txn *txn;
  uint64_t n_bits, k, n;
  OK(annb_txn_begin(store, ANNB_TXN_REPLACE, &txn, &err));
  OK(annb_order_log_open(NULL, annb_txn_tmp_dir(txn), &log, &err));
  for (uint32_t i = 0; i < N; i++) columns[i] = N - i;
  uint64_t indptr[] = {7, 7 + N, 7 + N};
  annb_rows_chunk chunk = {2, indptr, columns, NULL};
  for (int i = 0; i < ROWS; i++) add_chunk(log, &chunk);
  annb_arrays *arrays = write_log(log, txn);
  const uint8_t *bits = array_of(arrays, "order_bits", &n_bits);
  const uint64_t *rows = array_of(arrays, "order_rows", &k), *ends = array_of(arrays, "order_ends", &n);
  ck_assert(k == ROWS && n == ROWS && n_bits == ROWS * UINT64_C(1251));
  for (uint64_t i = 0; i < k; i++)
    if (rows[i] != 2 * i || ends[i] != (i + 1) * 1251 || memcmp(bits + i * 1251, bits, 1251)) ck_abort_msg("entry %u is wrong", (unsigned)i);
  annb_arrays_close(arrays);
  annb_order_log_close(log);
  annb_txn_abort(txn);
}
END_TEST

/* ---- a matrix writer with an order of genes ---- */

enum { ROWS = 700, COLS = 300 };

static struct {
  uint64_t indptr[ROWS + 1];
  uint32_t indices[ROWS * 60], order[COLS];
  int16_t values[ROWS * 60];
} x;

static void fill_x(void) {
  permute(x.order, COLS);
  for (uint64_t r = 0, at = 0; r < ROWS; r++) {
    for (uint32_t n = below(60); n; n--, at++) {
      x.indices[at] = below(COLS);
      x.values[at] = (int16_t)(1 + at);
    }
    x.indptr[r + 1] = at;
  }
}

static annb_txn *begin(uint32_t *arrays, annb_matrix_writer_options *o) {
  annb_txn *txn;
  annb_arrays_writer *writer;
  uint32_t row;
  annb_matrix_spec matrix = {"X", COLS, ANNB_OBS_VAR, ANNB_I16, ANNB_ABSENT_NEVER};
  annb_part_spec part = {ROWS, COLS, ANNB_NONE, ANNB_NONE, ANNB_NONE, ANNB_NONE};
  const char *path;
  OK(annb_txn_begin(store, ANNB_TXN_REPLACE, &txn, &err));
  OK(annb_txn_add_matrix(txn, &matrix, &row, &err));
  OK(annb_arrays_writer_open(txn, &writer, &err));
  OK(annb_arrays_begin(writer, "gene_order", ANNB_U32, 1, &row, &err));
  OK(annb_arrays_append(writer, x.order, COLS, &err));
  OK(annb_arrays_end(writer, &err));
  OK(annb_arrays_writer_close(writer, arrays, &err));
  part.columns = *arrays;
  OK(annb_txn_temp_path(txn, &path, &err));
  temp_write(path, "sidecar", 7);
  OK(annb_txn_add_file(txn, path, ANNB_OBJECT_SIDECAR, &part.sidecar, &err));
  OK(annb_txn_add_part(txn, &part, &row, &err));
  *o = (annb_matrix_writer_options){.n_cols = COLS, .dtype = ANNB_I16, .form = ANNB_CSR, .segment_rows = 300, .block_rows = 32, .sort = true,
                                    .gene_order = x.order, .gene_order_object = *arrays};
  return txn;
}

static annb_manifest publish(uint32_t threads, bool order, bool sort, bool source) {
  annb_matrix_writer_options o;
  annb_matrix_writer *w;
  annb_manifest manifest;
  uint32_t arrays;
  uint64_t generation;
  annb_txn *txn = begin(&arrays, &o);
  o.n_threads = threads;
  o.sort = sort;
  if (!order) o.gene_order = NULL;
  OK(annb_matrix_writer_open(txn, &o, &w, &err));
  OK(annb_matrix_writer_append(w, ROWS, x.indptr, x.indices, x.values, &err));
  ck_assert_int_eq(annb_matrix_writer_set_source_order(w, 77, &err), ANNB_EINVAL);
  if (source) OK(annb_matrix_writer_set_source_order(w, arrays, &err));
  OK(annb_matrix_writer_close(w, 0, 0, NULL, &err));
  OK(annb_txn_commit(txn, &generation, &err));
  char *path = annb_manifest_path(store, generation);
  OK(annb_manifest_load(path, generation, &manifest, &err));
  free(path);
  return manifest;
}

/* Row `row` as stored, decoded, against the source's by way of the plain sort. */
static void check_stored(annb_segment *g, uint64_t row, uint64_t part_row, bool order, bool sort) {
  static uint32_t got[60 + ANNB_DECODE_SLACK], ids[60], to_stored[COLS];
  static uint8_t values[(60 + ANNB_DECODE_SLACK) * 2];
  annb_scratch scratch = {0};
  annb_record_ref record;
  for (uint32_t i = 0; i < COLS; i++) to_stored[order ? x.order[i] : i] = i;
  uint64_t from = x.indptr[part_row], n = x.indptr[part_row + 1] - from;
  OK(annb_segment_locate(g, row, &record, &err));
  ck_assert_uint_eq(record.nnz, n);
  OK(annb_segment_decode(g, row, &record, got, values, &scratch, &err));
  for (uint64_t i = 0; i < n; i++) ids[i] = to_stored[x.indices[from + i]];
  if (sort) check_sorted(ids, (const uint8_t *)(x.values + from), (uint32_t)n, 2, got, values);
  else ck_assert(!memcmp(ids, got, n * sizeof *ids) && !memcmp(values, x.values + from, n * 2));
  annb_scratch_free(&scratch);
}

static void check_segments(const annb_manifest *m, bool order, bool sort) {
  uint64_t part_row = 0;
  for (uint32_t i = 0; i < m->n_segments; i++) {
    annb_segment *g;
    char *path = annb_object_path(store, &m->objects[m->segments[i].object]);
    OK(annb_segment_open(path, &g, &err));
    free(path);
    ck_assert_uint_eq(g->envelope.header.incompat, order ? ANNB_INCOMPAT_GENE_ORDER : 0);
    ck_assert_uint_eq(g->envelope.header.export_mask, sort ? ANNB_EXPORT_SORTED : 0);
    const uint8_t zero[32] = {0}, *sha = order ? m->objects[m->part_matrices[0].gene_order].sha256 : zero;
    ck_assert(!memcmp(g->header.gene_order, sha, 32));
    for (uint64_t row = 0; row < g->meta.n_rows; row++) check_stored(g, row, part_row++, order, sort);
    annb_segment_close(g);
  }
  ck_assert_uint_eq(part_row, ROWS);
}

START_TEST(test_writer) {
  fill_x();
  for (int kind = 0; kind < 4; kind++) {
    bool order = kind & 1, sort = kind & 2;
    annb_manifest one = publish(1, order, sort, order), three = publish(3, order, sort, order);
    check_segments(&one, order, sort);
    ck_assert((one.part_matrices[0].gene_order != ANNB_NONE) == order && (one.part_matrices[0].source_order != ANNB_NONE) == order);
    ck_assert_uint_eq(one.export_mask, order ? ANNB_EXPORT_SOURCE_ORDER : 0);
    ck_assert(one.n_objects == three.n_objects && one.n_segments == 3);
    for (uint32_t i = 0; i < one.n_objects; i++) ck_assert(!memcmp(one.objects[i].sha256, three.objects[i].sha256, 32));
    annb_manifest_free(&one);
    annb_manifest_free(&three);
  }
}
END_TEST

START_TEST(test_writer_refuses) {
  annb_matrix_writer_options o;
  annb_matrix_writer *w;
  uint32_t arrays;
  fill_x();
  annb_txn *txn = begin(&arrays, &o);
  o.gene_order_object = arrays + 1; /* the sidecar */
  ck_assert_int_eq(annb_matrix_writer_open(txn, &o, &w, &err), ANNB_EINVAL);
  o.gene_order_object = 99;
  ck_assert_int_eq(annb_matrix_writer_open(txn, &o, &w, &err), ANNB_EINVAL);
  o.gene_order_object = arrays;
  uint32_t kept = x.order[5];
  x.order[5] = x.order[6];
  ck_assert_int_eq(annb_matrix_writer_open(txn, &o, &w, &err), ANNB_EINVAL);
  ck_assert_ptr_nonnull(strstr(err.message, "permutation"));
  x.order[5] = COLS;
  ck_assert_int_eq(annb_matrix_writer_open(txn, &o, &w, &err), ANNB_EINVAL);
  x.order[5] = kept;
  OK(annb_matrix_writer_open(txn, &o, &w, &err));
  annb_matrix_writer_abort(w);
  annb_txn_abort(txn);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("order_write");
  TCase *plain = tcase_create("plain"), *files = tcase_create("files");
  tcase_add_test(plain, test_arrange);
  tcase_add_test(plain, test_arrange_sorted);
  tcase_add_test(plain, test_sort_keys);
  tcase_add_test(plain, test_entries);
  tcase_add_test(plain, test_entry_bytes);
  tcase_add_test(plain, test_source_order);
  tcase_add_test(plain, test_source_order_ties);
  tcase_add_test(plain, test_no_source_order);
  tcase_add_checked_fixture(files, setup, teardown);
  tcase_add_test(files, test_log);
  tcase_add_test(files, test_log_spools);
  tcase_add_test(files, test_writer);
  tcase_add_test(files, test_writer_refuses);
  tcase_set_timeout(plain, 60);
  tcase_set_timeout(files, 60);
  suite_add_tcase(suite, plain);
  suite_add_tcase(suite, files);
  return suite_run(suite);
}
