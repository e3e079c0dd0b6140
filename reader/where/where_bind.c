#include "where.h"

#include "../../store/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct binding {
  const annb_store *store;
  uint32_t part;
  const annb_where_tree *tree;
  const annb_where_node *test;
  const annb_where_value *values;
} binding;

annb_status annb_where_column(const annb_store *store, uint32_t part, const annb_where_node *test, const annb_column **column,
                              annb_error *err) {
  annb_error why;
  annb_status s = test->is_index ? annb_part_index_column(store, part, ANNB_AXIS_OBS, column, &why)
                                 : annb_part_find_column(store, part, ANNB_AXIS_OBS, test->name, column, &why);
  if (!s) return s;
  *column = NULL;
  if (s == ANNB_ENOTFOUND) return ANNB_OK;
  if (err) *err = why;
  return s;
}

/* ---- kinds of values ---- */

static annb_where_kind kind_of(const annb_column_info *info) {
  if (info->kind == ANNB_COLUMN_STRING) return ANNB_WHERE_STRING;
  return info->dtype == ANNB_BOOL ? ANNB_WHERE_BOOL : ANNB_WHERE_NUMBER;
}

static annb_status mismatch(const binding *b, const annb_where_value *value, annb_where_kind holds, annb_error *err) {
  static const char *const what[] = {"numbers", "text", "booleans"}, *const with[] = {"a number", "text", "true or false"};
  return annb_where_fail(err, ANNB_EINVAL, b->tree->text, value->at,
                         "column '%.200s' of part %" PRIu32 " holds %s, which cannot be compared with %s",
                         b->test->is_index ? "index" : b->test->name, b->part, what[holds], with[value->kind]);
}

static annb_status check_kinds(const binding *b, annb_where_kind holds, annb_error *err) {
  const annb_where_node *t = b->test;
  const char *name = t->is_index ? "index" : t->name;
  for (uint32_t i = 0; i < t->n_values; i++)
    if (b->values[i].kind != holds) return mismatch(b, &b->values[i], holds, err);
  if (t->test == ANNB_WHERE_TRUTH && holds != ANNB_WHERE_BOOL)
    return annb_where_fail(err, ANNB_EINVAL, b->tree->text, t->at, "column '%.200s' holds no booleans: compare it with a value", name);
  if (holds == ANNB_WHERE_BOOL && t->test >= ANNB_WHERE_LESS && t->test <= ANNB_WHERE_GREATER_EQUAL)
    return annb_where_fail(err, ANNB_EINVAL, b->tree->text, t->at, "column '%.200s' holds booleans, which have no order: use == or !=",
                           name);
  return ANNB_OK;
}

/* ---- what values are compared with ---- */

static int by_key(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static int by_bytes(const void *a, const void *b) {
  const annb_where_string *x = a, *y = b;
  uint64_t n = x->length < y->length ? x->length : y->length;
  int order = n ? memcmp(x->bytes, y->bytes, n) : 0;
  return order ? order : x->length < y->length ? -1 : x->length > y->length;
}

static void set_range(annb_where_match *m, const annb_where_place *p) {
  bool less = m->test == ANNB_WHERE_LESS || m->test == ANNB_WHERE_LESS_EQUAL;
  bool equal = p->exact && (m->test == ANNB_WHERE_LESS_EQUAL || m->test == ANNB_WHERE_GREATER_EQUAL);
  m->is_range = true;
  m->low = m->least;
  m->high = m->most;
  bool none = false;
  if (p->below_all || p->above_all) none = less == p->below_all;
  else if (less && (equal || !p->exact)) m->high = p->floor;
  else if (less) none = p->floor == m->least, m->high = p->floor - 1;
  else if (equal) m->low = p->floor;
  else none = p->floor == m->most, m->low = p->floor + 1;
  if (none) m->low = 1, m->high = 0;
}

static annb_status match_numbers(const binding *b, annb_where_match *m, annb_error *err) {
  uint32_t n = b->test->n_values;
  annb_where_limits(m->dtype, &m->least, &m->most);
  if (m->test == ANNB_WHERE_NULL) return ANNB_OK;
  m->keys = malloc((n + 1) * sizeof *m->keys);
  if (!m->keys) return annb_fail_memory(err);
  if (m->test == ANNB_WHERE_TRUTH) m->keys[m->n++] = 1;
  for (uint32_t i = 0; i < n; i++) {
    const annb_where_value *v = &b->values[i];
    annb_where_place p = {.floor = v->truth, .exact = true};
    if (v->kind == ANNB_WHERE_NUMBER) p = annb_where_find(m->dtype, v->bytes, v->length);
    if (m->test != ANNB_WHERE_SET) set_range(m, &p);
    else if (p.exact && !p.below_all && !p.above_all) m->keys[m->n++] = p.floor;
  }
  qsort(m->keys, m->n, sizeof *m->keys, by_key);
  return ANNB_OK;
}

static annb_status match_strings(const binding *b, annb_where_match *m, annb_error *err) {
  m->n = b->test->n_values;
  m->strings = malloc((m->n + 1) * sizeof *m->strings);
  if (!m->strings) return annb_fail_memory(err);
  for (size_t i = 0; i < m->n; i++) m->strings[i] = (annb_where_string){b->values[i].bytes, b->values[i].length};
  qsort(m->strings, m->n, sizeof *m->strings, by_bytes);
  return ANNB_OK;
}

/* For a column that is not categorical. */
static annb_status make_match(const binding *b, annb_where_test test, const annb_column_info *info, annb_where_match *m, annb_error *err) {
  m->test = test;
  m->kind = info->kind;
  m->dtype = info->dtype;
  annb_status s = check_kinds(b, kind_of(info), err);
  if (s) return s;
  return info->kind == ANNB_COLUMN_STRING ? match_strings(b, m, err) : match_numbers(b, m, err);
}

/* ---- matching ---- */

static bool has_key(const annb_where_match *m, uint64_t key) {
  size_t low = 0, n = m->n;
  while (n > 1) {
    size_t half = n / 2;
    if (m->keys[low + half] <= key) low += half;
    n -= half;
  }
  return n && m->keys[low] == key;
}

static void match_keys(const annb_where_match *m, const uint64_t *keys, size_t n, uint8_t *out) {
  if (m->test == ANNB_WHERE_NULL)
    for (size_t i = 0; i < n; i++) out[i] = keys[i] < m->least || keys[i] > m->most; /* NaN */
  else if (m->is_range)
    for (size_t i = 0; i < n; i++) out[i] = keys[i] >= m->low && keys[i] <= m->high;
  else if (m->n == 1)
    for (size_t i = 0; i < n; i++) out[i] = keys[i] == m->keys[0];
  else
    for (size_t i = 0; i < n; i++) out[i] = has_key(m, keys[i]);
}

static bool match_string(const annb_where_match *m, const annb_where_string *x) {
  if (m->test == ANNB_WHERE_SET) return m->n && bsearch(x, m->strings, m->n, sizeof *x, by_bytes) != NULL;
  if (m->test == ANNB_WHERE_NULL) return false;
  int order = by_bytes(x, m->strings);
  if (m->test == ANNB_WHERE_LESS) return order < 0;
  if (m->test == ANNB_WHERE_LESS_EQUAL) return order <= 0;
  return m->test == ANNB_WHERE_GREATER ? order > 0 : order >= 0;
}

annb_status annb_where_match_rows(const annb_where_match *m, const annb_column *column, uint64_t first, size_t n, uint64_t *keys,
                                  uint8_t *out, annb_error *err) {
  annb_status s = ANNB_OK;
  if (m->kind == ANNB_COLUMN_STRING) {
    for (size_t i = 0; !s && i < n; i++) {
      annb_where_string x;
      bool missing = false;
      s = annb_column_string(column, first + i, &x.bytes, &x.length, &missing, err);
      if (!s) out[i] = missing ? m->test == ANNB_WHERE_NULL : match_string(m, &x);
    }
    return s;
  }
  const void *values;
  const uint8_t *mask;
  s = annb_column_values(column, first, n, &values, &mask, err);
  if (s) return s;
  annb_where_keys(m->dtype, values, n, keys);
  match_keys(m, keys, n, out);
  for (size_t i = 0; mask && i < n; i++)
    if (mask[i]) out[i] = m->test == ANNB_WHERE_NULL;
  return ANNB_OK;
}

/* ---- categorical columns ---- */

static annb_status match_categories(const annb_where_match *m, const annb_column *categories, uint64_t n, uint8_t *table, annb_error *err) {
  uint64_t *keys = malloc(ANNB_WHERE_ROWS * sizeof *keys);
  annb_status s = keys ? ANNB_OK : annb_fail_memory(err);
  for (uint64_t at = 0; !s && at < n; at += ANNB_WHERE_ROWS) {
    size_t rows = n - at < ANNB_WHERE_ROWS ? (size_t)(n - at) : ANNB_WHERE_ROWS;
    s = annb_where_match_rows(m, categories, at, rows, keys, table + at, err);
  }
  free(keys);
  return s;
}

/* The table says which category is the value: now which are below or above it. */
static annb_status order_categories(const binding *b, const annb_column_info *info, uint8_t *table, annb_error *err) {
  const annb_where_test t = b->test->test;
  uint64_t at = 0;
  while (at < info->n_categories && !table[at]) at++;
  if (at == info->n_categories)
    return annb_where_fail(err, ANNB_EINVAL, b->tree->text, b->values[0].at,
                           "column '%.200s' of part %" PRIu32 " is ordered by its categories and has no such category", info->name,
                           b->part);
  for (uint64_t i = 0; i < info->n_categories; i++)
    table[i] = i == at ? t == ANNB_WHERE_LESS_EQUAL || t == ANNB_WHERE_GREATER_EQUAL
                       : (i < at) == (t == ANNB_WHERE_LESS || t == ANNB_WHERE_LESS_EQUAL);
  return ANNB_OK;
}

static annb_status bind_categorical(const binding *b, annb_where_bound *out, annb_error *err) {
  const annb_where_test t = b->test->test;
  const bool is_order = t >= ANNB_WHERE_LESS && t <= ANNB_WHERE_GREATER_EQUAL;
  const annb_column *categories;
  annb_column_info info;
  if (is_order && !out->info.ordered)
    return annb_where_fail(err, ANNB_EINVAL, b->tree->text, b->test->at,
                           "column '%.200s' of part %" PRIu32 " is categorical and its categories have no order: use ==, != or in",
                           out->info.name, b->part);
  annb_status s = annb_column_categories(out->column, &categories, err);
  if (s) return s;
  annb_column_get_info(categories, &info);
  out->table = malloc(info.length + 1);
  if (!out->table) return annb_fail_memory(err);
  out->table[0] = t == ANNB_WHERE_NULL;
  s = make_match(b, is_order ? ANNB_WHERE_SET : t, &info, &out->match, err);
  if (!s) s = match_categories(&out->match, categories, info.length, out->table + 1, err);
  return !s && is_order ? order_categories(b, &out->info, out->table + 1, err) : s;
}

annb_status annb_where_bind(const annb_store *store, uint32_t part, const annb_where_tree *tree, const annb_where_node *test,
                            annb_where_bound *out, annb_error *err) {
  const binding b = {store, part, tree, test, tree->values + test->value};
  annb_status s = annb_where_column(store, part, test, &out->column, err);
  out->negate = test->negate;
  if (s || !out->column) return s;
  annb_column_get_info(out->column, &out->info);
  if (out->info.kind == ANNB_COLUMN_CATEGORICAL) return bind_categorical(&b, out, err);
  return make_match(&b, test->test, &out->info, &out->match, err);
}

void annb_where_bound_free(annb_where_bound *bound) {
  free(bound->match.keys);
  free(bound->match.strings);
  free(bound->table);
  *bound = (annb_where_bound){0};
}
