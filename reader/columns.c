#include "store_internal.h"

#include "../store/cursor.h"
#include "../store/error.h"

#include <annblock/annblock.h>

#include <stdlib.h>
#include <string.h>

struct annb_column {
  annb_arrays *arrays;
  annb_fmt_column row;
  const char *name;
  annb_dtype dtype; /* 0 for strings */
  const annb_column *categories;
};

struct annb_part_columns {
  annb_arrays *arrays; /* NULL: a part without columns */
  char *names;
  annb_column *all;
  const annb_column **order; /* of obs, then of var, each with its index first */
  uint32_t start[4];         /* by axis: its range in `order` */
};

void annb_part_columns_close(annb_part_columns *columns) {
  if (!columns) return;
  if (columns->arrays) annb_arrays_close(columns->arrays);
  free(columns->names);
  free(columns->all);
  free(columns->order);
  free(columns);
}

/* ---- opening: once per part ---- */

static annb_status check_column(const annb_column_lengths *lengths, const annb_column *c, annb_error *err) {
  uint64_t rows = c->row.axis == ANNB_AXIS_OBS ? lengths->obs : lengths->var;
  if (!lengths->known || c->row.axis == ANNB_AXIS_NONE || c->row.length == rows) return ANNB_OK;
  return annb_fail(err, ANNB_ECORRUPT, c->arrays->path, "column '%s' has %llu rows, its axis %llu", c->name,
                   (unsigned long long)c->row.length, (unsigned long long)rows);
}

static void fill_column(annb_part_columns *columns, uint32_t i, char *name) {
  annb_column *c = &columns->all[i];
  c->arrays = columns->arrays;
  c->row = annb_arrays_column(c->arrays, i);
  memcpy(name, c->arrays->names + c->row.name_offset, c->row.name_length);
  name[c->row.name_length] = 0;
  c->name = name;
  if (c->row.kind != ANNB_COLUMN_STRING) c->dtype = (annb_dtype)annb_arrays_array(c->arrays, c->row.values).dtype;
  if (c->row.kind == ANNB_COLUMN_CATEGORICAL) c->categories = &columns->all[c->row.categories];
}

/* One axis of `order`: its index, then the others as they stand. */
static void order_axis(annb_part_columns *columns, annb_axis axis) {
  uint32_t n = (uint32_t)columns->arrays->n_columns, at = columns->start[axis];
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < n; i++) {
      const annb_column *c = &columns->all[i];
      bool is_index = c->row.flags & ANNB_COLUMN_INDEX;
      if (c->row.axis == axis && is_index == (pass == 0)) columns->order[at++] = c;
    }
  }
  columns->start[axis + 1] = at;
}

/* `names` has room for every name and its terminating zero. */
static annb_status allocate_columns(annb_part_columns *columns, annb_error *err) {
  uint64_t n = columns->arrays->n_columns, length = 0;
  for (uint32_t i = 0; i < n; i++) length += (uint64_t)annb_arrays_column(columns->arrays, i).name_length + 1;
  if (length > columns->arrays->map.size) /* names that share their bytes would ask for more memory than the file is worth */
    return annb_fail(err, ANNB_ECORRUPT, columns->arrays->path, "states names of %llu bytes", (unsigned long long)length);
  columns->names = malloc(length ? (size_t)length : 1);
  columns->all = calloc(n ? (size_t)n : 1, sizeof *columns->all);
  columns->order = calloc(n ? (size_t)n : 1, sizeof *columns->order);
  return columns->names && columns->all && columns->order ? ANNB_OK : annb_fail_memory(err);
}

static annb_status fill_columns(annb_part_columns *columns, const annb_column_lengths *lengths, annb_error *err) {
  annb_status s = allocate_columns(columns, err);
  if (s) return s;
  uint32_t n = (uint32_t)columns->arrays->n_columns;
  char *name = columns->names;
  for (uint32_t i = 0; i < n; i++) {
    fill_column(columns, i, name);
    name += (size_t)columns->all[i].row.name_length + 1;
  }
  for (uint32_t i = 0; !s && i < n; i++) s = check_column(lengths, &columns->all[i], err);
  order_axis(columns, ANNB_AXIS_OBS);
  order_axis(columns, ANNB_AXIS_VAR);
  return s;
}

annb_status annb_open_arrays(const annb_store *store, uint32_t object, annb_arrays **out, annb_error *err) {
  const annb_fmt_object *stated = &store->manifest.objects[object];
  if (object < store->memory.n && store->memory.bytes[object])
    return annb_arrays_open_memory(store->path, store->memory.bytes[object], stated->size, out, err);
  char *path = annb_store_object_path(store, object);
  annb_arrays *arrays = NULL;
  if (!path) return annb_fail_memory(err);
  annb_status s = annb_arrays_open(path, &arrays, err);
  if (!s) s = annb_check_object(stated, &arrays->map, &arrays->envelope, path, err);
  free(path);
  if (s) annb_arrays_close(arrays);
  else *out = arrays;
  return s;
}

annb_status annb_columns_open(const annb_store *store, uint32_t object, const annb_column_lengths *lengths, annb_part_columns **out,
                              annb_error *err) {
  annb_part_columns *columns = calloc(1, sizeof *columns);
  if (!columns) return annb_fail_memory(err);
  annb_status s = ANNB_OK;
  if (object != ANNB_NONE) {
    s = annb_open_arrays(store, object, &columns->arrays, err);
    if (!s) s = fill_columns(columns, lengths, err);
  }
  if (s) annb_part_columns_close(columns);
  else *out = columns;
  return s;
}

/* Of a part, or of the list of genes at place n_parts. */
static annb_status open_place(const annb_store *store, uint32_t place, annb_part_columns **out, annb_error *err) {
  const annb_manifest *m = &store->manifest;
  if (place == m->n_parts) {
    const annb_column_lengths genes = {true, m->store.n_obs, m->store.n_vars};
    return annb_columns_open(store, m->store.var_object, &genes, out, err);
  }
  const annb_column_lengths lengths = {true, m->parts[place].n_rows, m->parts[place].n_vars};
  return annb_columns_open(store, m->parts[place].columns, &lengths, out, err);
}

static annb_status get_place(const annb_store *store, uint32_t place, annb_part_columns **out, annb_error *err) {
  annb_columns_slot *slot = &store->columns[place];
  annb_part_columns *mine = NULL, *kept = atomic_load_explicit(slot, memory_order_acquire);
  if (!kept) {
    annb_status s = open_place(store, place, &mine, err);
    if (s) return s;
    if (atomic_compare_exchange_strong(slot, &kept, mine)) kept = mine;
    else annb_part_columns_close(mine);
  }
  *out = kept;
  return ANNB_OK;
}

static annb_status get_columns(const annb_store *store, uint32_t part, annb_axis axis, annb_part_columns **out, annb_error *err) {
  annb_status s = annb_check_part(store, part, err);
  if (!s) s = annb_check_axis(store, axis, err);
  return s ? s : get_place(store, part, out, err);
}

annb_status annb_check_axis(const annb_store *store, annb_axis axis, annb_error *err) {
  if (axis == ANNB_AXIS_OBS || axis == ANNB_AXIS_VAR) return ANNB_OK;
  return annb_fail(err, ANNB_EINVAL, store->path, "columns belong to obs or var, axis %d is neither", (int)axis);
}

annb_status annb_columns_list(const annb_store *store, uint32_t place, annb_axis axis, const annb_column *const **list, uint32_t *n,
                              annb_error *err) {
  annb_part_columns *columns;
  annb_status s = get_place(store, place, &columns, err);
  if (s) return s;
  *list = columns->order + columns->start[axis];
  *n = columns->start[axis + 1] - columns->start[axis];
  return ANNB_OK;
}

const annb_column *annb_columns_row(const annb_part_columns *columns, uint32_t row) {
  return columns->arrays && row < columns->arrays->n_columns ? &columns->all[row] : NULL;
}

/* ---- finding a column ---- */

annb_status annb_part_n_columns(const annb_store *store, uint32_t part, annb_axis axis, uint32_t *n, annb_error *err) {
  annb_part_columns *columns;
  annb_status s = get_columns(store, part, axis, &columns, err);
  if (!s) *n = columns->start[axis + 1] - columns->start[axis];
  return s;
}

annb_status annb_part_column(const annb_store *store, uint32_t part, annb_axis axis, uint32_t i, const annb_column **column,
                             annb_error *err) {
  annb_part_columns *columns;
  annb_status s = get_columns(store, part, axis, &columns, err);
  if (s) return s;
  uint32_t n = columns->start[axis + 1] - columns->start[axis];
  if (i >= n) return annb_fail(err, ANNB_ERANGE, store->path, "part %u has %u columns on this axis, there is no column %u", part, n, i);
  *column = columns->order[columns->start[axis] + i];
  return ANNB_OK;
}

annb_status annb_part_find_column(const annb_store *store, uint32_t part, annb_axis axis, const char *name, const annb_column **column,
                                  annb_error *err) {
  annb_part_columns *columns;
  annb_status s = get_columns(store, part, axis, &columns, err);
  if (s) return s;
  for (uint32_t i = columns->start[axis]; name && i < columns->start[axis + 1]; i++) {
    const annb_column *c = columns->order[i];
    if (strcmp(c->name, name)) continue;
    *column = c;
    return ANNB_OK;
  }
  return annb_fail(err, ANNB_ENOTFOUND, store->path, "part %u has no column '%s' in %s; nested and date columns are only in the sidecar",
                   part, name ? name : "", axis == ANNB_AXIS_OBS ? "obs" : "var");
}

annb_status annb_part_index_column(const annb_store *store, uint32_t part, annb_axis axis, const annb_column **column, annb_error *err) {
  annb_part_columns *columns;
  annb_status s = get_columns(store, part, axis, &columns, err);
  if (s) return s;
  uint32_t first = columns->start[axis];
  if (first == columns->start[axis + 1] || !(columns->order[first]->row.flags & ANNB_COLUMN_INDEX))
    return annb_fail(err, ANNB_ENOTFOUND, store->path, "part %u has no names in %s", part, axis == ANNB_AXIS_OBS ? "obs" : "var");
  *column = columns->order[first];
  return ANNB_OK;
}

void annb_column_get_info(const annb_column *column, annb_column_info *info) {
  *info = (annb_column_info){.name = column->name,
                             .length = column->row.length,
                             .axis = (annb_axis)column->row.axis,
                             .kind = (annb_column_kind)column->row.kind,
                             .dtype = column->dtype,
                             .is_index = column->row.flags & ANNB_COLUMN_INDEX,
                             .ordered = column->row.flags & ANNB_COLUMN_ORDERED,
                             .has_mask = column->row.mask != ANNB_NONE,
                             .n_categories = column->categories ? column->categories->row.length : 0};
}

annb_status annb_column_categories(const annb_column *column, const annb_column **categories, annb_error *err) {
  if (!column->categories) return annb_fail(err, ANNB_EINVAL, column->arrays->path, "column '%s' is not categorical", column->name);
  *categories = column->categories;
  return ANNB_OK;
}

/* ---- values ---- */

static annb_status check_rows(const annb_column *c, uint64_t first, uint64_t length, annb_error *err) {
  if (first <= c->row.length && length <= c->row.length - first) return ANNB_OK;
  return annb_fail_row(err, ANNB_ERANGE, c->arrays->path, first > INT64_MAX ? INT64_MAX : (int64_t)first,
                       "column '%s' has %llu rows, %llu rows from row %llu were asked for", c->name, (unsigned long long)c->row.length,
                       (unsigned long long)length, (unsigned long long)first);
}

/* Codes go straight into tables of the reader's caller: the file's word for their range is not enough. */
static annb_status check_codes(const annb_column *c, uint64_t first, uint64_t length, const uint8_t *codes, annb_error *err) {
  uint64_t n = c->categories->row.length;
  for (uint64_t i = 0; i < length; i++) {
    int64_t code;
    int16_t code16;
    int32_t code32;
    if (c->dtype == ANNB_I8) {
      code = (int8_t)codes[i];
    } else if (c->dtype == ANNB_I16) {
      memcpy(&code16, codes + i * sizeof code16, sizeof code16);
      code = code16;
    } else {
      memcpy(&code32, codes + i * sizeof code32, sizeof code32);
      code = code32;
    }
    if (code < -1 || (code >= 0 && (uint64_t)code >= n))
      return annb_fail_row(err, ANNB_ECORRUPT, c->arrays->path, (int64_t)(first + i),
                           "column '%s', row %llu: code %lld is not among its %llu categories", c->name, (unsigned long long)(first + i),
                           (long long)code, (unsigned long long)n);
  }
  return ANNB_OK;
}

annb_status annb_column_values(const annb_column *column, uint64_t first, uint64_t length, const void **values, const uint8_t **mask,
                               annb_error *err) {
  if (column->row.kind == ANNB_COLUMN_STRING)
    return annb_fail(err, ANNB_EINVAL, column->arrays->path, "column '%s' has strings: read them one by one", column->name);
  const void *view = NULL, *missing = NULL;
  annb_status s = check_rows(column, first, length, err);
  if (!s) s = annb_arrays_view(column->arrays, column->row.values, first, length, &view, err);
  if (!s && column->categories) s = check_codes(column, first, length, view, err);
  if (!s && column->row.mask != ANNB_NONE) s = annb_arrays_view(column->arrays, column->row.mask, first, length, &missing, err);
  if (s) return s;
  *values = view;
  if (mask) *mask = missing;
  return ANNB_OK;
}

static annb_status is_missing(const annb_column *c, uint64_t row, bool *missing, annb_error *err) {
  const void *mask;
  *missing = false;
  if (c->row.mask == ANNB_NONE) return ANNB_OK;
  annb_status s = annb_arrays_view(c->arrays, c->row.mask, row, 1, &mask, err);
  if (!s) *missing = *(const uint8_t *)mask != 0;
  return s;
}

annb_status annb_column_string(const annb_column *column, uint64_t row, const char **bytes, uint64_t *length, bool *missing,
                               annb_error *err) {
  if (column->row.kind != ANNB_COLUMN_STRING)
    return annb_fail(err, ANNB_EINVAL, column->arrays->path, "column '%s' has no strings", column->name);
  const void *view;
  uint64_t at[2];
  bool absent;
  annb_status s = check_rows(column, row, 1, err);
  if (!s) s = is_missing(column, row, &absent, err);
  if (!s) s = annb_arrays_view(column->arrays, column->row.values, row, 2, &view, err);
  if (s) return s;
  memcpy(at, view, sizeof at);
  if (absent) at[1] = at[0];
  uint64_t room = annb_arrays_array(column->arrays, column->row.bytes).n_rows;
  if (at[0] > at[1] || at[1] > room)
    return annb_fail_row(err, ANNB_ECORRUPT, column->arrays->path, (int64_t)row, "column '%s', row %llu: its string leaves the array",
                         column->name, (unsigned long long)row);
  view = "";
  if (at[1] > at[0]) s = annb_arrays_view(column->arrays, column->row.bytes, at[0], at[1] - at[0], &view, err);
  if (s) return s;
  *bytes = view;
  *length = at[1] - at[0];
  if (missing) *missing = absent;
  return ANNB_OK;
}
