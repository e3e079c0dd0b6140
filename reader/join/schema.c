/* The common columns of obs (SPEC.md 5.8). */
#include "join.h"

#include "../../store/error.h"
#include "../../store/objects/maps.h"
#include "../convert_values.h"

#include <annblock/annblock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A column of the store. */
typedef struct common {
  char *name;
  annb_column_kind kind;
  annb_dtype dtype;
  bool index, ordered, out; /* out: its parts do not fit together */
  uint32_t first;           /* part that had it first */
  uint32_t *rows;           /* per part: row of the column table, or ANNB_NONE */
  annb_key_table categories;
  annb_key zero; /* of categories that are floats: the first one seen that is 0.0 or −0.0 */
  annb_keys *keys;         /* per part: its categories */
  int32_t **maps;          /* per part: to the store's categories, NULL where they are the same */
  uint32_t object, column; /* where the categories are */
} common;

typedef struct schema {
  const annb_join *join;
  const annb_join_target *target;
  annb_manifest *draft;
  const annb_join_files *files;
  common *all;
  uint32_t n;
  annb_key_table names; /* name → number in `all`, of columns that are no index */
} schema;

static void close_schema(schema *x) {
  for (uint32_t i = 0; i < x->n; i++) {
    common *c = &x->all[i];
    for (uint32_t p = 0; p < x->files->n; p++) {
      if (c->keys) annb_keys_close(&c->keys[p]);
      if (c->maps) free(c->maps[p]);
    }
    annb_key_table_free(&c->categories);
    free(c->keys);
    free(c->maps);
    free(c->rows);
    free(c->name);
  }
  free(x->all);
  annb_key_table_free(&x->names);
}

/* ---- which columns there are ---- */

static void leave_out(const schema *x, common *c, uint32_t part, const char *why) {
  char first[256], text[256];
  if (c->out) return;
  c->out = true;
  annb_join_label(x->join, c->first, first);
  annb_join_label(x->join, part, text);
  annb_join_note(x->join, "obs column '%.200s' %s in %.250s and %.250s: it is in the parts only, not among the store's columns", c->name,
                 why, first, text);
}

static annb_status new_column(schema *x, annb_arrays *arrays, const annb_fmt_column *column, uint32_t part, common **out, annb_error *err) {
  common *all = realloc(x->all, ((size_t)x->n + 1) * sizeof *all);
  if (!all) return annb_fail_memory(err);
  x->all = all;
  common *c = *out = &all[x->n];
  *c = (common){.name = annb_join_column_name(arrays, column),
                .kind = (annb_column_kind)column->kind,
                .first = part,
                .object = ANNB_NONE,
                .index = column->flags & ANNB_COLUMN_INDEX,
                .ordered = column->flags & ANNB_COLUMN_ORDERED,
                .column = ANNB_NONE};
  c->rows = malloc((size_t)x->files->n * sizeof *c->rows);
  x->n++;
  if (!c->name || !c->rows) return annb_fail_memory(err);
  for (uint32_t p = 0; p < x->files->n; p++) c->rows[p] = ANNB_NONE;
  if (c->kind == ANNB_COLUMN_FIXED) c->dtype = (annb_dtype)annb_arrays_array(arrays, column->values).dtype;
  return ANNB_OK;
}

static const char *const kinds[] = {"", "numbers", "strings", "categories"};

static void merge_column(const schema *x, common *c, annb_arrays *arrays, const annb_fmt_column *column, uint32_t part) {
  char why[96];
  if (c->kind != column->kind) {
    snprintf(why, sizeof why, "has %s and %s", kinds[c->kind], kinds[column->kind]);
    leave_out(x, c, part, why);
  } else if (c->kind == ANNB_COLUMN_FIXED) {
    annb_dtype dtype = (annb_dtype)annb_arrays_array(arrays, column->values).dtype, both = annb_common_dtype(c->dtype, dtype);
    snprintf(why, sizeof why, "has values of %s and %s", annb_dtype_name(c->dtype), annb_dtype_name(dtype));
    if (!both) leave_out(x, c, part, why);
    c->dtype = both ? both : c->dtype;
  }
}

static annb_status take_column(schema *x, uint32_t part, uint32_t row, annb_error *err) {
  annb_arrays *arrays = x->files->columns[part];
  annb_fmt_column column = annb_arrays_column(arrays, row);
  bool index = column.flags & ANNB_COLUMN_INDEX;
  common *c = NULL;
  annb_status s = ANNB_OK;
  if (column.axis != ANNB_AXIS_OBS) return ANNB_OK;
  if (index) { /* whatever its name is; the first part's index comes first */
    for (uint32_t i = 0; i < x->n && !c; i++) c = x->all[i].index ? &x->all[i] : NULL;
  } else {
    const annb_key key = {(const uint8_t *)arrays->names + column.name_offset, column.name_length};
    uint32_t at = annb_key_table_put(&x->names, key, 0);
    if (at == ANNB_NONE) return annb_fail_memory(err);
    annb_key_entry *entry = &x->names.entries[at]; /* count: number + 1 */
    if (!entry->count) entry->count = x->n + 1;
    else c = &x->all[entry->count - 1];
  }
  if (!c) s = new_column(x, arrays, &column, part, &c, err);
  else merge_column(x, c, arrays, &column, part);
  if (!s) c->rows[part] = row;
  return s;
}

static annb_status take_parts(schema *x, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint32_t p = 0; !s && p < x->files->n; p++)
    for (uint32_t i = 0; !s && x->files->columns[p] && i < x->files->columns[p]->n_columns; i++) s = take_column(x, p, i, err);
  return s;
}

/* ---- categories ---- */

static annb_status open_categories(schema *x, common *c, uint32_t part, annb_error *err) {
  annb_arrays *arrays = x->files->columns[part];
  annb_fmt_column column = annb_arrays_column(arrays, c->rows[part]);
  annb_keys *keys = &c->keys[part];
  annb_status s = annb_keys_open(arrays, column.categories, keys, err);
  if (s) return s;
  const annb_keys *first = &c->keys[c->first];
  if (keys->mask) leave_out(x, c, part, "has a missing category");
  else if (keys->column.kind != first->column.kind || keys->dtype != first->dtype)
    leave_out(x, c, part, "has categories of different types");
  return ANNB_OK;
}

/* Category i of a part. 0.0 and −0.0 are one value, which the first of them stands for. */
static annb_key category_at(common *c, const annb_keys *keys, uint64_t i) {
  static const uint8_t zeros[2][8] = {{0}, {[7] = 0x80}};
  annb_key key = annb_keys_at(keys, i);
  if (keys->column.kind != ANNB_COLUMN_FIXED || keys->dtype < ANNB_F16) return key;
  if (memcmp(key.bytes, zeros[0], key.length) && memcmp(key.bytes, zeros[1] + 8 - key.length, key.length)) return key;
  if (!c->zero.bytes) c->zero = key;
  return c->zero;
}

/* The map of one part, which is kept when it changes something. *ascends: the store's order is the part's. */
static annb_status map_categories(common *c, uint32_t part, bool *ascends, annb_error *err) {
  const annb_keys *keys = &c->keys[part];
  int32_t *map = malloc(((size_t)keys->n + 1) * sizeof *map);
  if (!map) return annb_fail_memory(err);
  bool same = true;
  *ascends = true;
  for (uint64_t i = 0; i < keys->n; i++) {
    uint32_t at = annb_key_table_put(&c->categories, category_at(c, keys, i), 0);
    if (at == ANNB_NONE) {
      free(map);
      return annb_fail_memory(err);
    }
    map[i] = (int32_t)at;
    same = same && at == i;
    *ascends = *ascends && (i == 0 || map[i] > map[i - 1]);
  }
  if (same) free(map);
  else c->maps[part] = map;
  return ANNB_OK;
}

static annb_status unify(schema *x, common *c, annb_error *err) {
  annb_status s = ANNB_OK;
  bool all_ordered = true, any_ordered = false, agree = true;
  c->keys = calloc(x->files->n, sizeof *c->keys);
  c->maps = calloc(x->files->n, sizeof *c->maps);
  if (!c->keys || !c->maps) return annb_fail_memory(err);
  for (uint32_t p = 0; !s && p < x->files->n; p++)
    if (c->rows[p] != ANNB_NONE) s = open_categories(x, c, p, err);
  for (uint32_t p = 0; !s && !c->out && p < x->files->n; p++) {
    if (c->rows[p] == ANNB_NONE) continue;
    bool ascends = true, ordered = annb_arrays_column(x->files->columns[p], c->rows[p]).flags & ANNB_COLUMN_ORDERED;
    s = map_categories(c, p, &ascends, err);
    all_ordered = all_ordered && ordered;
    any_ordered = any_ordered || ordered;
    agree = agree && (ascends || !ordered);
  }
  c->ordered = all_ordered && agree;
  if (!s && !c->out && any_ordered && !c->ordered)
    annb_join_note(x->join, "obs column '%.200s' has %s: among the store's columns its categories are not ordered", c->name,
                   all_ordered ? "categories in orders that contradict each other" : "ordered categories in some files only");
  return s;
}

/* The list of a part that is the whole list: it needs no copy. */
static void find_list(const schema *x, common *c) {
  for (uint32_t p = 0; p < x->files->n && c->object == ANNB_NONE; p++) {
    if (c->rows[p] == ANNB_NONE || c->maps[p] || c->keys[p].n != c->categories.n) continue;
    c->object = x->draft->parts[p].columns;
    c->column = annb_arrays_column(x->files->columns[p], c->rows[p]).categories;
  }
}

static annb_status write_list(const common *c, annb_arrays_writer *w, uint32_t *column, annb_error *err) {
  const annb_keys *first = &c->keys[c->first];
  annb_column_spec spec = {.name = c->name,
                           .length = c->categories.n,
                           .axis = ANNB_AXIS_NONE,
                           .kind = (annb_column_kind)first->column.kind,
                           .values = ANNB_NONE,
                           .bytes = ANNB_NONE,
                           .mask = ANNB_NONE,
                           .categories = ANNB_NONE};
  annb_string_writer *strings;
  annb_status s;
  bool text = spec.kind == ANNB_COLUMN_STRING;
  s = text ? annb_strings_begin(w, &strings, err) : annb_arrays_begin(w, "", first->dtype, 1, &spec.values, err);
  for (uint32_t i = 0; !s && i < c->categories.n; i++) {
    annb_key key = c->categories.entries[i].key;
    s = text ? annb_strings_append(strings, (const char *)key.bytes, key.length, err) : annb_arrays_append(w, key.bytes, 1, err);
  }
  if (!s) s = text ? annb_strings_end(strings, &spec.values, &spec.bytes, err) : annb_arrays_end(w, err);
  return s ? s : annb_arrays_add_column(w, &spec, column, err);
}

/* One file for the lists of all columns that are nowhere yet. */
static annb_status write_lists(schema *x, annb_error *err) {
  annb_arrays_writer *w = NULL;
  annb_status s = ANNB_OK;
  uint32_t row = ANNB_NONE;
  for (uint32_t i = 0; !s && i < x->n; i++) {
    common *c = &x->all[i];
    if (c->out || c->kind != ANNB_COLUMN_CATEGORICAL || c->object != ANNB_NONE) continue;
    if (!w) s = annb_join_writer_open(x->target, &w, err);
    if (!s) s = write_list(c, w, &c->column, err);
  }
  if (!w) return s;
  if (s) {
    annb_arrays_writer_abort(w);
    return s;
  }
  s = annb_join_writer_close(x->target, w, x->draft, &row, err);
  for (uint32_t i = 0; i < x->n; i++)
    if (!x->all[i].out && x->all[i].kind == ANNB_COLUMN_CATEGORICAL && x->all[i].object == ANNB_NONE) x->all[i].object = row;
  return s;
}

/* ---- maps ---- */

static annb_status write_map(const common *c, uint32_t part, annb_arrays_writer *w, annb_error *err) {
  uint32_t array;
  size_t length = strlen(c->name) + sizeof ANNB_CODE_MAP_PREFIX;
  char *name = malloc(length);
  if (!name) return annb_fail_memory(err);
  snprintf(name, length, "%s%s", ANNB_CODE_MAP_PREFIX, c->name);
  annb_status s = annb_arrays_begin(w, name, ANNB_I32, 1, &array, err);
  if (!s) s = annb_arrays_append(w, c->maps[part], c->keys[part].n, err);
  free(name);
  return s ? s : annb_arrays_end(w, err);
}

/* A name that leaves no room for the prefix has no map: such a column is left out. */
static bool has_map(const common *c, uint32_t part) { return !c->out && c->maps && c->maps[part]; }

static annb_status write_maps(schema *x, uint32_t part, annb_error *err) {
  annb_arrays_writer *w = NULL;
  annb_status s = ANNB_OK;
  for (uint32_t i = 0; !s && i < x->n; i++) {
    if (!has_map(&x->all[i], part)) continue;
    if (!w) s = annb_join_writer_open(x->target, &w, err);
    if (!s) s = write_map(&x->all[i], part, w, err);
  }
  x->draft->parts[part].code_map = ANNB_NONE;
  if (!w) return s;
  if (s) {
    annb_arrays_writer_abort(w);
    return s;
  }
  return annb_join_writer_close(x->target, w, x->draft, &x->draft->parts[part].code_map, err);
}

/* ---- rows ---- */

static annb_status add_rows(schema *x, bool index, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint32_t i = 0; !s && i < x->n; i++) {
    const common *c = &x->all[i];
    if (c->out || c->index != index) continue;
    annb_fmt_schema row = {.categories_object = c->object, .categories_column = c->column, .axis = ANNB_AXIS_OBS, .kind = (uint8_t)c->kind};
    row.dtype = (uint8_t)(c->kind == ANNB_COLUMN_CATEGORICAL ? ANNB_I32 : c->dtype);
    row.flags = (uint8_t)((c->index ? ANNB_COLUMN_INDEX : 0) | (c->ordered ? ANNB_COLUMN_ORDERED : 0));
    s = annb_manifest_add_schema(x->draft, c->name, row, err);
  }
  return s;
}

/* What the format has no room for, and indexes that are categories. */
static void leave_out_odd(schema *x) {
  uint32_t most = (uint32_t)(ANNB_MAX_SCHEMA_PLACES / x->files->n), kept = 0;
  for (uint32_t i = 0; i < x->n; i++) {
    common *c = &x->all[i];
    bool odd = c->kind == ANNB_COLUMN_CATEGORICAL && (c->index || strlen(c->name) + sizeof ANNB_CODE_MAP_PREFIX > ANNB_MAX_NAME);
    if (odd || kept >= most || kept >= ANNB_MAX_SCHEMA) leave_out(x, c, c->first, "cannot be a column of the whole store: it is");
    kept += !c->out;
  }
}

annb_status annb_join_columns(const annb_join *join, const annb_join_target *target, const annb_join_files *files, annb_manifest *draft,
                              annb_error *err) {
  schema x = {.join = join, .target = target, .draft = draft, .files = files};
  draft->n_schema = 0;
  if (files->n < 2) {
    if (files->n) draft->parts[0].code_map = ANNB_NONE;
    return ANNB_OK;
  }
  annb_status s = take_parts(&x, err);
  if (!s) leave_out_odd(&x);
  for (uint32_t i = 0; !s && i < x.n; i++) {
    if (x.all[i].out || x.all[i].kind != ANNB_COLUMN_CATEGORICAL) continue;
    s = unify(&x, &x.all[i], err);
    if (!s && !x.all[i].out) find_list(&x, &x.all[i]);
  }
  if (!s) s = write_lists(&x, err);
  for (uint32_t p = 0; !s && p < files->n; p++) s = write_maps(&x, p, err);
  if (!s) s = add_rows(&x, true, err);
  if (!s) s = add_rows(&x, false, err);
  close_schema(&x);
  return s;
}
