#include "selection.h"

#include "../../store/error.h"
#include "../../store/io.h"

#include <annblock/annblock.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FILE (UINT64_C(16) << 30)

void annb_selection_free(annb_selection *selection) {
  free(selection->items);
  selection->items = NULL;
}

bool annb_subset_wanted(const annb_subset_options *o) { return o->n_ranges || o->rows_file || o->where || o->genes_file || o->n_skip; }

/* ---- lists ---- */

typedef struct list {
  annb_selection *selection;
  uint64_t room;
  const char *path;
} list;

static annb_status add(list *l, uint64_t item, annb_error *err) {
  annb_selection *s = l->selection;
  if (s->n == l->room) {
    uint64_t room = l->room ? 2 * l->room : 1024;
    uint64_t *items = realloc(s->items, room * sizeof *items);
    if (!items) return annb_fail_memory(err);
    s->items = items;
    l->room = room;
  }
  s->items[s->n++] = item;
  return ANNB_OK;
}

annb_status annb_each_line(const char *path, annb_line_fn each, void *user, annb_error *err) {
  annb_map map;
  uint64_t number = 0;
  char line[ANNB_MAX_NAME + 1];
  annb_status s = annb_io_map(path, &map, err);
  if (s) return s;
  if (map.size > MOST_FILE) s = annb_fail(err, ANNB_EINPUT, path, "is too large for a list");
  const uint64_t mark = map.size >= 3 && !memcmp(map.data, "\xEF\xBB\xBF", 3) ? 3 : 0; /* some editors begin UTF-8 with it */
  for (uint64_t at = mark; !s && at < map.size;) {
    const uint8_t *from = map.data + at, *stop = memchr(from, '\n', map.size - at);
    uint64_t n = stop ? (uint64_t)(stop - from) : map.size - at;
    at += n + 1;
    number++;
    if (n && from[n - 1] == '\r') n--;
    if (n > ANNB_MAX_NAME || memchr(from, 0, n)) {
      s = annb_fail(err, ANNB_EINPUT, path, "line %" PRIu64 " is no text", number);
    } else if (n) {
      memcpy(line, from, n);
      line[n] = 0;
      s = each(user, line, number, err);
    }
  }
  annb_io_unmap(&map);
  return s;
}

/* ---- rows ---- */

static annb_status add_line(void *user, char *line, uint64_t number, annb_error *err) {
  list *l = user;
  char *end = line;
  errno = 0;
  unsigned long long row = *line >= '0' && *line <= '9' ? strtoull(line, &end, 10) : 0;
  if (end == line || *end || errno)
    return annb_fail(err, ANNB_EINPUT, l->path, "line %" PRIu64 " is no row number: '%.60s'", number, line);
  if (row >= l->selection->of)
    return annb_fail_row(err, ANNB_ERANGE, l->path, (int64_t)(row > INT64_MAX ? INT64_MAX : row),
                         "line %" PRIu64 " asks for row %llu, the store has %" PRIu64 " cells", number, row, l->selection->of);
  return add(l, row, err);
}

static annb_status add_range(list *l, const annb_row_range *r, annb_error *err) {
  annb_status s = ANNB_OK;
  const uint64_t end = r->end == UINT64_MAX ? l->selection->of : r->end;
  if (r->first > end || end > l->selection->of)
    return annb_fail(err, ANNB_ERANGE, NULL, "rows %" PRIu64 ":%" PRIu64 " are not in the store, which has %" PRIu64 " cells", r->first,
                     end, l->selection->of);
  for (uint64_t row = r->first; !s && row < end; row++) s = add(l, row, err);
  return s;
}

/* Keep those of `items` (all rows when NULL) whose bit is set. */
static annb_status filter(list *l, const uint64_t *bits, bool all, annb_error *err) {
  annb_selection *s = l->selection;
  annb_status status = ANNB_OK;
  if (all) {
    for (uint64_t row = 0; !status && row < s->of; row++)
      if (bits[row / 64] >> row % 64 & 1) status = add(l, row, err);
    return status;
  }
  uint64_t n = 0;
  for (uint64_t i = 0; i < s->n; i++)
    if (bits[s->items[i] / 64] >> s->items[i] % 64 & 1) s->items[n++] = s->items[i];
  s->n = n;
  return ANNB_OK;
}

static annb_status apply_where(const annb_store *store, const char *where, list *l, bool all, annb_error *err) {
  uint64_t *bits = calloc(l->selection->of / 64 + 1, sizeof *bits);
  annb_status s = bits ? annb_where(store, where, bits, NULL, err) : annb_fail_memory(err);
  if (!s) s = filter(l, bits, all, err);
  free(bits);
  return s;
}

/* Each once; and do they ascend? */
static annb_status check_items(annb_selection *selection, const char *path, annb_error *err) {
  uint64_t *seen = calloc(selection->of / 64 + 1, sizeof *seen);
  if (!seen) return annb_fail_memory(err);
  annb_status s = ANNB_OK;
  selection->ascending = true;
  for (uint64_t i = 0; !s && i < selection->n; i++) {
    const uint64_t item = selection->items[i];
    if (i && item < selection->items[i - 1]) selection->ascending = false;
    if (seen[item / 64] >> item % 64 & 1)
      s = annb_fail_row(err, ANNB_EINPUT, path, (int64_t)item, "row %" PRIu64 " is asked for twice: list every row once", item);
    seen[item / 64] |= UINT64_C(1) << item % 64;
  }
  free(seen);
  return s;
}

static annb_status select_rows(const annb_store *store, const annb_subset_options *o, annb_selection *rows, annb_error *err) {
  list l = {.selection = rows, .path = o->rows_file};
  const bool all = !o->n_ranges && !o->rows_file;
  annb_status s = ANNB_OK;
  rows->ascending = true;
  rows->n = rows->of;
  if (all && !o->where) return ANNB_OK;
  rows->n = 0;
  rows->items = malloc((l.room = 64) * sizeof *rows->items); /* also when nothing is selected */
  if (!rows->items) return annb_fail_memory(err);
  for (size_t i = 0; !s && i < o->n_ranges; i++) s = add_range(&l, &o->ranges[i], err);
  if (!s && o->rows_file) s = annb_each_line(o->rows_file, add_line, &l, err);
  if (!s) s = check_items(rows, o->rows_file, err);
  if (!s && o->where) s = apply_where(store, o->where, &l, all, err);
  return s;
}

static int ascending(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* From store rows to those of the source; `sort`: nobody asked for an order. */
static void to_source(const annb_row_orders *orders, annb_selection *rows, bool sort) {
  if (!orders || !rows->items) return;
  for (uint64_t i = 0; i < rows->n; i++) rows->items[i] = annb_row_orders_source(orders, rows->items[i]);
  if (sort && rows->n) qsort(rows->items, rows->n, sizeof *rows->items, ascending);
  rows->ascending = true;
  for (uint64_t i = 1; i < rows->n; i++) rows->ascending = rows->ascending && rows->items[i] > rows->items[i - 1];
}

annb_status annb_select(const annb_store *store, const annb_row_orders *orders, const annb_subset_options *o, annb_selection *rows,
                        annb_selection *genes, annb_error *err) {
  annb_store_info info;
  annb_store_get_info(store, &info);
  *rows = (annb_selection){.n = info.n_obs, .of = info.n_obs, .ascending = true};
  *genes = (annb_selection){.n = info.n_vars, .of = info.n_vars, .ascending = true};
  if (o->n_ranges && o->rows_file)
    return annb_fail(err, ANNB_EINVAL, NULL, "give row ranges or a file of row numbers, not both");
  annb_status s = select_rows(store, o, rows, err);
  rows->orders = orders;
  if (!s) to_source(orders, rows, !o->n_ranges && !o->rows_file);
  return s || !o->genes_file ? s : annb_select_genes(store, o->genes_file, genes, err);
}

annb_status annb_selection_map(const annb_selection *selection, uint32_t **map, annb_error *err) {
  *map = NULL;
  if (!selection->items) return ANNB_OK;
  if (selection->of >= ANNB_NONE) return annb_fail(err, ANNB_EUNSUPPORTED, NULL, "subsets of more than 2^32 columns are not exported");
  uint32_t *m = malloc((selection->of + 1) * sizeof *m);
  if (!m) return annb_fail_memory(err);
  memset(m, 0xFF, (selection->of + 1) * sizeof *m);
  for (uint64_t i = 0; i < selection->n; i++) m[selection->items[i]] = (uint32_t)i;
  *map = m;
  return ANNB_OK;
}
