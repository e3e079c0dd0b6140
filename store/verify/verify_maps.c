/* What parts have in common: the list of genes, gene maps, row orders, the schema and its category maps. Damage of the files themselves is
 * told where the objects are checked. */
#include "verify.h"

#include "../error.h"
#include "../objects/maps.h"

#include <stdlib.h>
#include <string.h>

#define ULL(x) ((unsigned long long)(x))

typedef struct target {
  annb_verifier *v;
  const annb_manifest *m;
  char *path; /* of the file in work */
} target;

static void tell(target *t, const annb_error *finding) {
  t->v->file = t->path ? t->path + strlen(t->v->store) + 1 : "manifests";
  annb_verifier_tell(t->v, finding);
}

/* The flat arrays of an object, or NULL: none, or what was told already. Their path is the one in work. */
static annb_arrays *open_arrays(target *t, uint32_t object) {
  annb_arrays *arrays = NULL;
  free(t->path);
  t->path = NULL;
  if (object == ANNB_NONE) return NULL;
  t->path = annb_object_path(t->v->store, &t->m->objects[object]);
  return t->path && annb_arrays_open(t->path, &arrays, NULL) == ANNB_OK ? arrays : NULL;
}

static void check_gene_map(target *t, uint32_t part) {
  annb_error err;
  const uint32_t *map;
  annb_arrays *arrays = open_arrays(t, t->m->parts[part].gene_map);
  if (arrays && annb_gene_map_read(arrays, t->m->parts[part].n_vars, t->m->store.n_vars, &map, NULL, &err)) tell(t, &err);
  annb_arrays_close(arrays);
}

static void check_row_order(target *t, uint32_t part) {
  annb_error err;
  const uint64_t *order, *inverse;
  annb_arrays *arrays = open_arrays(t, t->m->parts[part].row_order);
  if (arrays && annb_row_order_read(arrays, t->m->parts[part].n_rows, &order, &inverse, &err)) tell(t, &err);
  annb_arrays_close(arrays);
}

static void check_gene_list(target *t) {
  annb_error err;
  annb_arrays *arrays = open_arrays(t, t->m->store.var_object);
  for (uint32_t i = 0; arrays && i < arrays->n_columns && !t->v->stopped; i++) {
    annb_fmt_column c = annb_arrays_column(arrays, i);
    if (c.axis != ANNB_AXIS_VAR || c.length == t->m->store.n_vars) continue;
    annb_fail(&err, ANNB_ECORRUPT, t->path, "column %u has %llu rows, the store %llu genes", i, ULL(c.length), ULL(t->m->store.n_vars));
    tell(t, &err);
  }
  annb_arrays_close(arrays);
}

/* ---- schema ---- */

/* Categories of each row of the schema, in fresh memory; UINT64_MAX where they cannot be told. */
static uint64_t *count_categories(target *t) {
  uint64_t *n = calloc((size_t)t->m->n_schema + 1, sizeof *n);
  for (uint32_t i = 0; n && i < t->m->n_schema && !t->v->stopped; i++) {
    const annb_fmt_schema *row = &t->m->schema[i];
    n[i] = UINT64_MAX;
    if (row->kind != ANNB_COLUMN_CATEGORICAL) continue;
    annb_arrays *arrays = open_arrays(t, row->categories_object);
    annb_fmt_column c = {.axis = ANNB_AXIS_OBS};
    if (arrays && row->categories_column < arrays->n_columns) c = annb_arrays_column(arrays, row->categories_column);
    if (c.axis == ANNB_AXIS_NONE && c.length <= INT32_MAX) {
      n[i] = c.length;
    } else if (arrays) {
      annb_error err;
      annb_fail(&err, ANNB_ECORRUPT, t->path, "column %u holds no categories, which the schema (row %u) needs of it",
                row->categories_column, i);
      tell(t, &err);
    }
    annb_arrays_close(arrays);
  }
  return n;
}

/* The schema's row of a column, or ANNB_NONE. */
static uint32_t find_row(const annb_manifest *m, const char *name, uint32_t length) {
  for (uint32_t i = 0; i < m->n_schema; i++)
    if (!(m->schema[i].flags & ANNB_COLUMN_INDEX) && m->schema[i].name_length == length &&
        !memcmp(m->names + m->schema[i].name_offset, name, length))
      return i;
  return ANNB_NONE;
}

static void check_column(target *t, uint32_t part, const annb_arrays *columns, uint32_t i, annb_arrays *maps,
                         const uint64_t *n_categories) {
  annb_fmt_column c = annb_arrays_column(columns, i);
  annb_error err;
  const int32_t *map;
  if (c.axis != ANNB_AXIS_OBS || (c.flags & ANNB_COLUMN_INDEX)) return;
  uint32_t row = find_row(t->m, columns->names + c.name_offset, c.name_length);
  if (row == ANNB_NONE) return;
  if (c.kind != t->m->schema[row].kind) {
    annb_fail(&err, ANNB_ECORRUPT, NULL, "column %u of part %u is of kind %u, in the schema of kind %u", i, part, c.kind,
              t->m->schema[row].kind);
    tell(t, &err);
    return;
  }
  if (c.kind != ANNB_COLUMN_CATEGORICAL || n_categories[row] == UINT64_MAX) return;
  char *name = strndup(columns->names + c.name_offset, c.name_length);
  annb_status s = name ? annb_code_map_read(maps, name, annb_arrays_column(columns, c.categories).length, n_categories[row], &map, &err)
                       : annb_fail_memory(&err);
  if (s) tell(t, &err);
  free(name);
}

static void check_part(target *t, uint32_t part, const uint64_t *n_categories) {
  annb_arrays *columns = open_arrays(t, t->m->parts[part].columns), *maps = open_arrays(t, t->m->parts[part].code_map);
  bool told = t->m->parts[part].code_map != ANNB_NONE && !maps;
  for (uint32_t i = 0; columns && !told && i < columns->n_columns && !t->v->stopped; i++)
    check_column(t, part, columns, i, maps, n_categories);
  annb_arrays_close(columns);
  annb_arrays_close(maps);
}

void annb_verifier_maps(annb_verifier *v, const annb_manifest *manifest) {
  target t = {v, manifest, NULL};
  uint64_t *n_categories = count_categories(&t);
  annb_error err;
  if (!n_categories) {
    annb_fail_memory(&err);
    annb_verifier_tell(v, &err);
  }
  if (!v->stopped) check_gene_list(&t);
  for (uint32_t i = 0; i < manifest->n_parts && !v->stopped; i++) {
    check_gene_map(&t, i);
    if (!v->stopped) check_row_order(&t, i);
    if (!v->stopped && manifest->n_schema) check_part(&t, i, n_categories);
  }
  free(t.path);
  free(n_categories);
}
