#include "order.h"

#include "../cursor.h"
#include "../error.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

#define ULL(x) ((unsigned long long)(x))
#define CORRUPT(...) annb_fail(err, ANNB_ECORRUPT, path, __VA_ARGS__)

enum { ENTRY_FULL = 1, ENTRY_MOVES = 2 };

/* Note that `x` occurs; false when it did before. */
static bool first_time(uint64_t *seen, uint64_t x) {
  uint64_t bit = UINT64_C(1) << x % 64;
  if (seen[x / 64] & bit) return false;
  seen[x / 64] |= bit;
  return true;
}

/* ---- arrays ---- */

/* The whole vector called `name`, in place; *data is NULL when there is none. */
static annb_status view(annb_arrays *arrays, const char *name, annb_dtype dtype, const void **data, uint64_t *n, annb_error *err) {
  uint32_t array;
  *data = NULL;
  *n = 0;
  if (annb_arrays_find(arrays, name, &array, NULL)) return ANNB_OK;
  annb_fmt_array row = annb_arrays_array(arrays, array);
  if (row.dtype != dtype || row.n_cols != 1)
    return annb_fail(err, ANNB_ECORRUPT, arrays->path, "its array %s is of dtype %u with %llu values in a row, not one of dtype %d", name,
                     row.dtype, ULL(row.n_cols), (int)dtype);
  *n = row.n_rows;
  return annb_arrays_view(arrays, array, 0, row.n_rows, data, err);
}

/* `data` are the numbers 0 … n−1, each once, of 4 or 8 bytes each. */
static annb_status check_permutation(const char *path, const char *name, const void *data, bool wide, uint64_t n, annb_error *err) {
  uint64_t *seen = calloc((size_t)(n / 64 + 1), sizeof *seen);
  annb_status s = seen ? ANNB_OK : annb_fail_memory(err);
  for (uint64_t i = 0; !s && i < n; i++) {
    uint64_t x = wide ? ((const uint64_t *)data)[i] : ((const uint32_t *)data)[i];
    if (x >= n || !first_time(seen, x))
      s = CORRUPT("its array %s is no permutation: value %llu, at %llu, %s", name, ULL(x), ULL(i),
                  x >= n ? "is too large" : "occurs twice");
  }
  free(seen);
  return s;
}

annb_status annb_gene_order_read(annb_arrays *arrays, const uint32_t **ids, uint64_t *n, annb_error *err) {
  const char *path = arrays->path;
  const void *data;
  annb_status s = view(arrays, "gene_order", ANNB_U32, &data, n, err);
  if (!s && !data) s = CORRUPT("has no array gene_order, which a matrix needs of it");
  if (!s && *n > ANNB_MAX_COLS) s = CORRUPT("its array gene_order has %llu values, past the limits", ULL(*n));
  if (!s) s = check_permutation(path, "gene_order", data, false, *n, err);
  if (!s) *ids = data;
  return s;
}

/* ---- order objects ---- */

static annb_status read_axis(annb_arrays *arrays, annb_form form, uint64_t n_rows, uint64_t n_cols, annb_source_order *o, annb_error *err) {
  const char *path = o->path;
  bool by_rows = form == ANNB_CSC;
  uint64_t n, expected = by_rows ? n_rows : n_cols;
  const void *data;
  annb_status s = view(arrays, "source_order", by_rows ? ANNB_U64 : ANNB_U32, &data, &n, err);
  if (s || !data) return s;
  if (n != expected) return CORRUPT("its array source_order has %llu values, the matrix needs %llu", ULL(n), ULL(expected));
  s = check_permutation(path, "source_order", data, by_rows, n, err);
  if (by_rows) o->rows = data;
  else o->columns = data;
  return s;
}

static annb_status check_entries(const annb_source_order *o, uint64_t n_rows, uint64_t n_bytes, annb_error *err) {
  const char *path = o->path;
  uint64_t end = 0;
  for (uint64_t k = 0; k < o->n_entries; k++) {
    if (o->entry_rows[k] >= n_rows || (k && o->entry_rows[k] <= o->entry_rows[k - 1]))
      return CORRUPT("its array order_rows does not ascend within the part's %llu rows, at %llu", ULL(n_rows), ULL(k));
    if (o->entry_ends[k] <= end || o->entry_ends[k] > n_bytes)
      return CORRUPT("its array order_ends does not ascend within the %llu bytes of order_bits, at %llu", ULL(n_bytes), ULL(k));
    end = o->entry_ends[k];
  }
  return end == n_bytes ? ANNB_OK : CORRUPT("its array order_bits has %llu bytes, the entries end at %llu", ULL(n_bytes), ULL(end));
}

static annb_status read_entries(annb_arrays *arrays, annb_form form, uint64_t n_rows, annb_source_order *o, annb_error *err) {
  const char *path = o->path;
  uint64_t n_ends, n_bytes;
  const void *rows, *ends, *bits;
  annb_status s = view(arrays, "order_rows", ANNB_U64, &rows, &o->n_entries, err);
  if (!s) s = view(arrays, "order_ends", ANNB_U64, &ends, &n_ends, err);
  if (!s) s = view(arrays, "order_bits", ANNB_U8, &bits, &n_bytes, err);
  if (s) return s;
  if (!rows != !ends || !rows != !bits || n_ends != o->n_entries)
    return CORRUPT("has only some of the arrays order_rows, order_ends and order_bits, or they differ in length");
  if (form == ANNB_CSC && o->n_entries) return CORRUPT("has an order of elements in rows, its matrix comes from a CSC source");
  o->entry_rows = rows;
  o->entry_ends = ends;
  o->bits = bits;
  return check_entries(o, n_rows, n_bytes, err);
}

annb_status annb_source_order_read(annb_arrays *arrays, annb_form form, uint64_t n_rows, uint64_t n_cols, annb_source_order *out,
                                   annb_error *err) {
  *out = (annb_source_order){.path = arrays->path};
  annb_status s = read_axis(arrays, form, n_rows, n_cols, out, err);
  return s ? s : read_entries(arrays, form, n_rows, out, err);
}

uint64_t annb_source_order_seek(const annb_source_order *order, uint64_t row) {
  uint64_t low = 0, high = order->n_entries;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (order->entry_rows[middle] < row) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* ---- entries ---- */

/* Values of w bits, w <= 32, from the lowest bit on. The caller has checked that there are enough bytes. */
typedef struct packed {
  const uint8_t *at;
  uint64_t bits;
  unsigned n_bits, w;
} packed;

static uint32_t unpack(packed *p) {
  while (p->n_bits < p->w) {
    p->bits |= (uint64_t)*p->at++ << p->n_bits;
    p->n_bits += 8;
  }
  uint32_t x = (uint32_t)(p->bits & ((UINT64_C(1) << p->w) - 1));
  p->bits >>= p->w;
  p->n_bits -= p->w;
  return x;
}

/* The rest of the entry as `count` values; false unless it has exactly their bytes. Spare bits must be zero: see `unpack`'s caller. */
static bool open_packed(const annb_cursor *c, uint32_t n, uint64_t count, packed *out) {
  unsigned w = n > 1 ? 32 - (unsigned)__builtin_clz(n - 1) : 0;
  *out = (packed){.at = c->at, .w = w};
  return !c->failed && annb_cursor_left(c) == (count * w + 7) / 8; /* count <= 2^33 */
}

static bool read_full(const annb_cursor *c, uint32_t n, uint32_t *places, uint64_t *seen) {
  packed p;
  if (!open_packed(c, n, n, &p)) return false;
  for (uint32_t i = 0; i < n; i++) {
    places[i] = unpack(&p);
    if (places[i] >= n || !first_time(seen, places[i])) return false;
  }
  return p.bits == 0;
}

static bool read_moves(annb_cursor *c, uint32_t n, uint32_t *places, uint64_t *seen) {
  uint32_t m = annb_cursor_u32(c), next = 0;
  packed p;
  if (m > n || !open_packed(c, n, 2 * (uint64_t)m, &p)) return false;
  memset(places, 0xFF, (size_t)n * sizeof *places); /* n < 2^31: no place */
  for (uint32_t i = 0, after = 0; i < m; i++) {
    uint32_t from = unpack(&p), to = unpack(&p);
    if (from >= n || to >= n || to < after || !first_time(seen, from)) return false;
    places[to] = from;
    after = to + 1;
  }
  for (uint32_t i = 0; i < n; i++) {
    if (places[i] != UINT32_MAX) continue;
    while (seen[next / 64] >> next % 64 & 1) next++; /* as many are free here as there */
    places[i] = next++;
  }
  return p.bits == 0;
}

annb_status annb_source_order_places(const annb_source_order *order, uint64_t k, uint32_t n, uint32_t *places, uint64_t *words,
                                     annb_error *err) {
  uint64_t start = k ? order->entry_ends[k - 1] : 0, row = order->entry_rows[k];
  annb_cursor c = annb_cursor_of(order->bits, order->entry_ends[k], start, order->entry_ends[k] - start);
  memset(words, 0, annb_source_order_words(n) * sizeof *words);
  uint8_t kind = annb_cursor_u8(&c);
  bool good = n > 0 && n <= ANNB_MAX_ROW_NNZ;
  if (good && kind == ENTRY_FULL) good = read_full(&c, n, places, words);
  else if (good && kind == ENTRY_MOVES) good = read_moves(&c, n, places, words);
  else good = false;
  if (good) return ANNB_OK;
  return annb_fail_row(err, ANNB_ECORRUPT, order->path, (int64_t)row,
                       "the order of the %u elements of part row %llu is no permutation of them", n, ULL(row));
}
