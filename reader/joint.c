/* Columns of the whole store: of obs over all parts, by the schema (SPEC.md 5.8); of var those of the list of genes. */
#include "store_internal.h"

#include "../store/error.h"
#include "../store/objects/maps.h"
#include "convert_values.h"

#include <annblock/annblock.h>

#include <stdlib.h>
#include <string.h>

/* A column in one part. */
typedef struct piece {
  const annb_column *column; /* NULL: all its rows are missing */
  const int32_t *map;        /* from its categories to the store's, NULL: they are the same */
} piece;

struct annb_joint_column {
  const annb_store *store;
  annb_column_info info;
  const annb_column *categories;
  uint32_t n_pieces;
  const uint64_t *first; /* row where each piece starts, and the end */
  piece *pieces;
};

struct annb_joint_columns {
  uint32_t n;
  annb_joint_column *all;
  piece *pieces;      /* of all, one column after the other */
  char *names;        /* of a schema */
  uint64_t ends[2];   /* `first` of columns with one piece */
  annb_arrays **maps; /* per part, or NULL */
  uint32_t n_maps;
  annb_part_columns **unions; /* per row of the schema: its categories' file, NULL when an earlier row has it */
  uint32_t *union_of;         /* per row of the schema: the row that has it */
};

void annb_joint_columns_close(annb_joint_columns *columns) {
  if (!columns) return;
  for (uint32_t i = 0; columns->maps && i < columns->n_maps; i++) annb_arrays_close(columns->maps[i]);
  for (uint32_t i = 0; columns->unions && i < columns->n; i++) annb_part_columns_close(columns->unions[i]);
  free(columns->maps);
  free(columns->unions);
  free(columns->union_of);
  free(columns->names);
  free(columns->pieces);
  free(columns->all);
  free(columns);
}

static annb_status allocate(annb_joint_columns *columns, uint32_t n, uint32_t n_pieces, annb_error *err) {
  columns->n = n;
  columns->all = calloc((size_t)n + 1, sizeof *columns->all);
  columns->pieces = calloc((size_t)n * n_pieces + 1, sizeof *columns->pieces);
  if (!columns->all || !columns->pieces) return annb_fail_memory(err);
  for (uint32_t i = 0; i < n; i++) {
    columns->all[i].n_pieces = n_pieces;
    columns->all[i].pieces = columns->pieces + (size_t)i * n_pieces;
  }
  return ANNB_OK;
}

/* ---- one file has them all ---- */

static annb_status take_file(const annb_store *store, uint32_t place, annb_axis axis, annb_joint_columns *columns, annb_error *err) {
  const annb_column *const *list;
  uint32_t n;
  annb_status s = annb_columns_list(store, place, axis, &list, &n, err);
  if (!s) s = allocate(columns, n, 1, err);
  columns->ends[1] = axis == ANNB_AXIS_OBS ? store->manifest.store.n_obs : store->manifest.store.n_vars;
  for (uint32_t i = 0; !s && i < n; i++) {
    annb_joint_column *c = &columns->all[i];
    c->store = store;
    c->first = columns->ends;
    c->pieces[0].column = list[i];
    annb_column_get_info(list[i], &c->info);
    if (c->info.kind != ANNB_COLUMN_CATEGORICAL) continue;
    c->info.dtype = ANNB_I32;
    s = annb_column_categories(list[i], &c->categories, err);
  }
  return s;
}

/* ---- by the schema ---- */

/* Names, kinds and the union of categories. */
static annb_status take_schema_row(const annb_store *store, annb_joint_columns *columns, uint32_t i, char *name, annb_error *err) {
  const annb_fmt_schema *row = &store->manifest.schema[i];
  annb_joint_column *c = &columns->all[i];
  memcpy(name, store->manifest.names + row->name_offset, row->name_length);
  name[row->name_length] = 0;
  c->store = store;
  c->first = store->part_first;
  c->info = (annb_column_info){.name = name,
                               .length = store->manifest.store.n_obs,
                               .axis = (annb_axis)row->axis,
                               .kind = (annb_column_kind)row->kind,
                               .dtype = (annb_dtype)row->dtype,
                               .is_index = row->flags & ANNB_COLUMN_INDEX,
                               .ordered = row->flags & ANNB_COLUMN_ORDERED};
  columns->union_of[i] = i;
  if (row->kind != ANNB_COLUMN_CATEGORICAL) return ANNB_OK;
  for (uint32_t k = 0; k < i && columns->union_of[i] == i; k++)
    if (columns->unions[k] && store->manifest.schema[k].categories_object == row->categories_object) columns->union_of[i] = k;
  const annb_column_lengths any = {false, 0, 0};
  uint32_t at = columns->union_of[i];
  annb_status s = at < i ? ANNB_OK : annb_columns_open(store, row->categories_object, &any, &columns->unions[i], err);
  if (s) return s;
  annb_column_info info = {.axis = ANNB_AXIS_OBS};
  c->categories = annb_columns_row(columns->unions[at], row->categories_column);
  if (c->categories) annb_column_get_info(c->categories, &info);
  if (!c->categories || info.axis != ANNB_AXIS_NONE || info.kind == ANNB_COLUMN_CATEGORICAL || info.length > INT32_MAX)
    return annb_fail(err, ANNB_ECORRUPT, store->manifest_path, "column '%s' names categories that are none", name);
  c->info.n_categories = info.length;
  return ANNB_OK;
}

static annb_status take_schema(const annb_store *store, annb_joint_columns *columns, annb_error *err) {
  const annb_manifest *m = &store->manifest;
  uint64_t length = 0;
  for (uint32_t i = 0; i < m->n_schema; i++) length += (uint64_t)m->schema[i].name_length + 1;
  if (length > m->file_size && !store->is_union) /* names that share their bytes would ask for more memory than the file is worth */
    return annb_fail(err, ANNB_ECORRUPT, store->manifest_path, "states names of %llu bytes", (unsigned long long)length);
  annb_status s = allocate(columns, m->n_schema, m->n_parts, err);
  if (s) return s;
  columns->names = malloc(length ? (size_t)length : 1);
  columns->unions = calloc((size_t)m->n_schema + 1, sizeof *columns->unions);
  columns->union_of = calloc((size_t)m->n_schema + 1, sizeof *columns->union_of);
  if (!columns->names || !columns->unions || !columns->union_of) return annb_fail_memory(err);
  char *name = columns->names;
  for (uint32_t i = 0; !s && i < m->n_schema; i++) {
    s = take_schema_row(store, columns, i, name, err);
    name += (size_t)m->schema[i].name_length + 1;
  }
  return s;
}

static int by_name(const void *a, const void *b) {
  const annb_joint_column *x = *(annb_joint_column *const *)a, *y = *(annb_joint_column *const *)b;
  return strcmp(x->info.name, y->info.name);
}

static int name_to(const void *name, const void *b) { return strcmp(name, (*(annb_joint_column *const *)b)->info.name); }

/* The column of the part is what the schema says, or can be made into it. */
static annb_status set_piece(const annb_store *store, uint32_t part, annb_arrays *maps, annb_joint_column *c, const annb_column *column,
                             const annb_column_info *info, annb_error *err) {
  piece *p = &c->pieces[part];
  bool fits = info->kind == c->info.kind;
  if (fits && info->kind == ANNB_COLUMN_FIXED) fits = annb_common_dtype(info->dtype, c->info.dtype) == c->info.dtype;
  if (p->column || !fits)
    return annb_fail(err, ANNB_ECORRUPT, store->manifest_path, "column '%s' of part %u is not what the schema says", info->name, part);
  p->column = column;
  c->info.has_mask = c->info.has_mask || (info->has_mask && info->kind != ANNB_COLUMN_CATEGORICAL);
  if (info->kind != ANNB_COLUMN_CATEGORICAL) return ANNB_OK;
  annb_status s = annb_code_map_read(maps, info->name, info->n_categories, c->info.n_categories, &p->map, err);
  if (s && !maps && err)
    s = annb_fail(err, s, store->manifest_path, "column '%s' of part %u has more categories than the store", info->name, part);
  return s;
}

static annb_status take_part(const annb_store *store, annb_joint_columns *columns, annb_joint_column **sorted, uint32_t n_sorted,
                             uint32_t part, annb_error *err) {
  const annb_fmt_part *p = &store->manifest.parts[part];
  const annb_column *const *list;
  uint32_t n;
  annb_status s = annb_columns_list(store, part, ANNB_AXIS_OBS, &list, &n, err);
  if (!s && p->code_map != ANNB_NONE) s = annb_open_arrays(store, p->code_map, &columns->maps[part], err);
  bool has_index = columns->n && columns->all[0].info.is_index;
  for (uint32_t i = 0; !s && i < n; i++) {
    annb_column_info info;
    annb_column_get_info(list[i], &info);
    annb_joint_column *c = info.is_index && has_index ? &columns->all[0] : NULL;
    if (!info.is_index) {
      annb_joint_column **found = bsearch(info.name, sorted, n_sorted, sizeof *sorted, name_to);
      c = found ? *found : NULL;
    }
    if (c) s = set_piece(store, part, columns->maps[part], c, list[i], &info, err);
  }
  return s;
}

static annb_status take_parts(const annb_store *store, annb_joint_columns *columns, annb_error *err) {
  uint32_t n_parts = store->manifest.n_parts, n_sorted = 0;
  annb_joint_column **sorted = malloc(((size_t)columns->n + 1) * sizeof *sorted);
  columns->maps = calloc(n_parts, sizeof *columns->maps);
  columns->n_maps = n_parts;
  annb_status s = sorted && columns->maps ? ANNB_OK : annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < columns->n; i++)
    if (!columns->all[i].info.is_index) sorted[n_sorted++] = &columns->all[i];
  if (!s) qsort(sorted, n_sorted, sizeof *sorted, by_name);
  for (uint32_t i = 0; !s && i < n_parts; i++) s = take_part(store, columns, sorted, n_sorted, i, err);
  for (uint32_t i = 0; !s && i < columns->n; i++)
    for (uint32_t k = 0; k < n_parts && columns->all[i].info.kind != ANNB_COLUMN_CATEGORICAL; k++)
      if (!columns->all[i].pieces[k].column && store->manifest.parts[k].n_rows) columns->all[i].info.has_mask = true;
  free(sorted);
  return s;
}

/* ---- opening: once ---- */

static annb_status open_axis(const annb_store *store, annb_axis axis, annb_joint_columns **out, annb_error *err) {
  const annb_manifest *m = &store->manifest;
  annb_joint_columns *columns = calloc(1, sizeof *columns);
  if (!columns) return annb_fail_memory(err);
  annb_status s;
  if (axis == ANNB_AXIS_VAR) {
    s = take_file(store, m->store.var_part == ANNB_NONE ? m->n_parts : m->store.var_part, axis, columns, err);
  } else if (m->n_parts == 1) {
    s = take_file(store, 0, axis, columns, err);
  } else {
    s = take_schema(store, columns, err);
    if (!s) s = take_parts(store, columns, err);
  }
  if (s) annb_joint_columns_close(columns);
  else *out = columns;
  return s;
}

static annb_status get_axis(const annb_store *store, annb_axis axis, annb_joint_columns **out, annb_error *err) {
  if (!store) return annb_fail(err, ANNB_EINVAL, NULL, "columns need a store");
  annb_status s = annb_check_axis(store, axis, err);
  if (s) return s;
  annb_joint_slot *slot = &store->joint[axis];
  annb_joint_columns *mine = NULL, *kept = atomic_load_explicit(slot, memory_order_acquire);
  if (!kept) {
    s = open_axis(store, axis, &mine, err);
    if (s) return s;
    if (atomic_compare_exchange_strong(slot, &kept, mine)) kept = mine;
    else annb_joint_columns_close(mine);
  }
  *out = kept;
  return ANNB_OK;
}

/* ---- finding a column ---- */

annb_status annb_store_n_columns(const annb_store *store, annb_axis axis, uint32_t *n, annb_error *err) {
  annb_joint_columns *columns;
  annb_status s = get_axis(store, axis, &columns, err);
  if (!s) *n = columns->n;
  return s;
}

annb_status annb_store_column(const annb_store *store, annb_axis axis, uint32_t i, const annb_joint_column **column, annb_error *err) {
  annb_joint_columns *columns;
  annb_status s = get_axis(store, axis, &columns, err);
  if (s) return s;
  if (i >= columns->n) return annb_fail(err, ANNB_ERANGE, store->path, "has %u columns on this axis, there is no column %u", columns->n, i);
  *column = &columns->all[i];
  return ANNB_OK;
}

annb_status annb_store_find_column(const annb_store *store, annb_axis axis, const char *name, const annb_joint_column **column,
                                   annb_error *err) {
  annb_joint_columns *columns;
  annb_status s = get_axis(store, axis, &columns, err);
  const annb_joint_column *found = NULL;
  for (uint32_t i = 0; !s && name && i < columns->n; i++)
    if (!strcmp(columns->all[i].info.name, name) && (!found || found->info.is_index)) found = &columns->all[i];
  if (s) return s;
  *column = found;
  if (found) return ANNB_OK;
  return annb_fail(err, ANNB_ENOTFOUND, store->path,
                   "has no column '%s' in %s; columns that are nested, or that do not fit together, are in the parts only",
                   name ? name : "", axis == ANNB_AXIS_OBS ? "obs" : "var");
}

annb_status annb_store_index_column(const annb_store *store, annb_axis axis, const annb_joint_column **column, annb_error *err) {
  annb_joint_columns *columns;
  annb_status s = get_axis(store, axis, &columns, err);
  if (s) return s;
  if (!columns->n || !columns->all[0].info.is_index)
    return annb_fail(err, ANNB_ENOTFOUND, store->path, "has no names in %s", axis == ANNB_AXIS_OBS ? "obs" : "var");
  *column = &columns->all[0];
  return ANNB_OK;
}

void annb_joint_column_get_info(const annb_joint_column *column, annb_column_info *info) { *info = column->info; }

annb_status annb_joint_column_categories(const annb_joint_column *column, const annb_column **categories, annb_error *err) {
  if (!column->categories) return annb_fail(err, ANNB_EINVAL, column->store->path, "column '%s' is not categorical", column->info.name);
  *categories = column->categories;
  return ANNB_OK;
}

/* ---- values ---- */

static const char *const kind_names[] = {"", "fixed values", "strings", "categories"};

static annb_status check_kind(const annb_joint_column *c, annb_column_kind kind, annb_error *err) {
  if (c->info.kind == kind) return ANNB_OK;
  return annb_fail(err, ANNB_EINVAL, c->store->path, "column '%s' has %s, not %s", c->info.name, kind_names[c->info.kind],
                   kind_names[kind]);
}

/* Rows that follow one another, all in one part. */
typedef struct run {
  const piece *piece;
  uint64_t first; /* row of the part */
  size_t n;
} run;

/* The longest run from rows[i]; the part before is tried first. */
static annb_status next_run(const annb_joint_column *c, const uint64_t *rows, size_t n_rows, size_t i, uint32_t *part, run *out,
                            annb_error *err) {
  uint64_t row = rows ? rows[i] : i;
  if (row >= c->info.length)
    return annb_fail_row(err, ANNB_ERANGE, c->store->path, row > INT64_MAX ? INT64_MAX : (int64_t)row,
                         "column '%s' has %llu rows, there is no row %llu", c->info.name, (unsigned long long)c->info.length,
                         (unsigned long long)row);
  if (row < c->first[*part] || row >= c->first[*part + 1]) {
    uint32_t low = 0, high = c->n_pieces;
    while (high - low > 1) {
      uint32_t middle = low + (high - low) / 2;
      if (c->first[middle] <= row) low = middle;
      else high = middle;
    }
    *part = low;
  }
  uint64_t left = c->first[*part + 1] - row;
  size_t n = 1, most = left < n_rows - i ? (size_t)left : n_rows - i;
  if (rows)
    while (n < most && rows[i + n] == row + n) n++;
  else n = most;
  *out = (run){&c->pieces[*part], row - c->first[*part], n};
  return ANNB_OK;
}

static annb_status put_codes(const run *r, int32_t *codes, annb_error *err) {
  annb_column_info info;
  const void *view;
  if (!r->piece->column) {
    for (size_t i = 0; i < r->n; i++) codes[i] = -1;
    return ANNB_OK;
  }
  annb_column_get_info(r->piece->column, &info);
  annb_status s = annb_column_values(r->piece->column, r->first, r->n, &view, NULL, err);
  for (size_t i = 0; !s && i < r->n; i++) { /* the views are aligned, the codes in range */
    int32_t code = info.dtype == ANNB_I8    ? ((const int8_t *)view)[i]
                   : info.dtype == ANNB_I16 ? ((const int16_t *)view)[i]
                                            : ((const int32_t *)view)[i];
    codes[i] = code >= 0 && r->piece->map ? r->piece->map[code] : code;
  }
  return s;
}

annb_status annb_store_column_codes(const annb_joint_column *column, const uint64_t *rows, size_t n_rows, int32_t *codes, annb_error *err) {
  annb_status s = check_kind(column, ANNB_COLUMN_CATEGORICAL, err);
  uint32_t part = 0;
  run r = {.n = 0};
  for (size_t i = 0; !s && i < n_rows; i += r.n) {
    s = next_run(column, rows, n_rows, i, &part, &r, err);
    if (!s) s = put_codes(&r, codes + i, err);
  }
  return s;
}

static annb_status put_values(const annb_joint_column *c, const run *r, uint8_t *values, uint8_t *mask, annb_error *err) {
  annb_column_info info;
  const void *view;
  const uint8_t *missing;
  size_t size = annb_dtype_size(c->info.dtype), bad;
  if (!r->piece->column) {
    memset(values, 0, r->n * size);
    if (mask) memset(mask, 1, r->n);
    return ANNB_OK;
  }
  annb_column_get_info(r->piece->column, &info);
  annb_status s = annb_column_values(r->piece->column, r->first, r->n, &view, &missing, err);
  if (s) return s;
  annb_convert_values(info.dtype, c->info.dtype, true, view, r->n, values, &bad); /* exact: the dtype is wide enough */
  if (mask && missing) memcpy(mask, missing, r->n);
  else if (mask) memset(mask, 0, r->n);
  return ANNB_OK;
}

annb_status annb_store_column_gather(const annb_joint_column *column, const uint64_t *rows, size_t n_rows, void *values, uint8_t *mask,
                                     annb_error *err) {
  annb_status s = check_kind(column, ANNB_COLUMN_FIXED, err);
  size_t size = annb_dtype_size(column->info.dtype);
  uint32_t part = 0;
  run r = {.n = 0};
  for (size_t i = 0; !s && i < n_rows; i += r.n) {
    s = next_run(column, rows, n_rows, i, &part, &r, err);
    if (!s) s = put_values(column, &r, (uint8_t *)values + i * size, mask ? mask + i : NULL, err);
  }
  return s;
}

annb_status annb_store_column_string(const annb_joint_column *column, uint64_t row, const char **bytes, uint64_t *length, bool *missing,
                                     annb_error *err) {
  uint32_t part = 0;
  run r;
  annb_status s = check_kind(column, ANNB_COLUMN_STRING, err);
  if (!s) s = next_run(column, &row, 1, 0, &part, &r, err);
  if (s) return s;
  if (r.piece->column) return annb_column_string(r.piece->column, r.first, bytes, length, missing, err);
  *bytes = "";
  *length = 0;
  if (missing) *missing = true;
  return ANNB_OK;
}
