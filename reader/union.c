/* Several stores as one: a manifest in memory over the objects of all (SPEC.md, section 10). The reader sees parts as ever. */
#include "store_internal.h"

#include "../store/error.h"
#include "../store/hash.h"
#include "../store/objects/maps.h"

#include <annblock/annblock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STORES = 1 << 16 };

typedef struct builder {
  annb_store *u;
  const annb_store *const *stores;
  uint32_t n;
  annb_join join;
} builder;

/* ---- which stores ---- */

static annb_status check_new(const builder *b, uint32_t i, annb_error *err) {
  const annb_store *store = b->stores[i];
  if (!store) return annb_fail(err, ANNB_EINVAL, NULL, "store %u is missing", i);
  if (store->is_union) return annb_fail(err, ANNB_EINVAL, store->path, "are read as one already: give all stores in one list");
  for (uint32_t k = 0; k < i; k++)
    if (!memcmp(b->u->dirs[k].id, store->dirs->id, sizeof store->dirs->id))
      return annb_fail(err, ANNB_EINVAL, store->path,
                       "is the same store as %s (its id is the same), and each can be read once only: weights draw cells more often",
                       b->u->dirs[k].path);
  return ANNB_OK;
}

static annb_status take_dir(builder *b, uint32_t i, annb_error *err) {
  annb_store *u = b->u;
  annb_status s = check_new(b, i, err);
  if (s) return s;
  const annb_store *store = b->stores[i];
  annb_store_dir *dir = &u->dirs[i];
  *dir = store->dirs[0];
  dir->path = strdup(store->dirs->path);
  dir->manifest_path = strdup(store->dirs->manifest_path);
  dir->first_row = u->manifest.store.n_obs;
  dir->first_part = u->manifest.n_parts;
  u->n_dirs = i + 1;
  if (!dir->path || !dir->manifest_path) return annb_fail_memory(err);
  u->skip_checks = u->skip_checks && store->skip_checks;
  u->manifest.store.n_obs += dir->n_rows;
  if (u->manifest.store.n_obs > ANNB_MAX_ROWS) return annb_fail(err, ANNB_EINVAL, NULL, "the stores together have over 2^40 rows");
  return ANNB_OK;
}

static annb_status describe(annb_store *u, annb_error *err) {
  const char *first = u->dirs[0].path, *second = u->n_dirs == 2 ? u->dirs[1].path : "";
  size_t length = strlen(first) + strlen(second) + 48;
  u->description = malloc(length);
  if (!u->description) return annb_fail_memory(err);
  if (u->n_dirs == 1) snprintf(u->description, length, "%s", first);
  else if (u->n_dirs == 2) snprintf(u->description, length, "%s and %s", first, second);
  else snprintf(u->description, length, "%s and %u other stores", first, u->n_dirs - 1);
  u->path = u->manifest_path = u->description;
  return ANNB_OK;
}

static void identify(annb_store *u) {
  annb_sha256 sha;
  uint8_t digest[ANNB_SHA256_SIZE];
  annb_sha256_init(&sha);
  for (uint32_t i = 0; i < u->n_dirs; i++) {
    annb_sha256_update(&sha, u->dirs[i].id, sizeof u->dirs[i].id);
    annb_sha256_update(&sha, &u->dirs[i].generation, sizeof u->dirs[i].generation);
  }
  annb_sha256_final(&sha, digest);
  memcpy(u->manifest.header.store_id, digest, sizeof u->manifest.header.store_id);
}

/* ---- their tables ---- */

/* A matrix of that name in another store means other columns. */
static bool fits(const builder *b, uint32_t i, uint32_t matrix) {
  const annb_fmt_matrix *row = &b->stores[i]->manifest.matrices[matrix];
  for (uint32_t k = 0; k < b->n; k++) {
    uint32_t other = k == i ? ANNB_NONE : annb_manifest_find_matrix(&b->stores[k]->manifest, b->stores[i]->matrix_names[matrix]);
    if (other == ANNB_NONE) continue;
    const annb_fmt_matrix *there = &b->stores[k]->manifest.matrices[other];
    if (there->axes != row->axes || row->axes == ANNB_OBS_RAW_VAR) return false;
    if (row->axes != ANNB_OBS_VAR && there->n_cols != row->n_cols) return false;
  }
  return true;
}

/* Where one store says that missing it is an error, or has it always, zeros are not meant. */
static void be_strict(annb_manifest *m, const annb_store *store) {
  for (uint32_t i = 0; i < store->manifest.n_matrices; i++) {
    uint32_t at = annb_manifest_find_matrix(m, store->matrix_names[i]);
    uint8_t absent = store->manifest.matrices[i].absent;
    if (at != ANNB_NONE && absent != ANNB_ABSENT_ZERO) m->matrices[at].absent = absent;
  }
}

static annb_status append_store(builder *b, uint32_t i, annb_error *err) {
  const annb_manifest *more = &b->stores[i]->manifest;
  annb_manifest *m = &b->u->manifest;
  bool *left_out = calloc((size_t)more->n_matrices + 1, sizeof *left_out);
  if (!left_out) return annb_fail_memory(err);
  for (uint32_t k = 0; k < more->n_matrices; k++) left_out[k] = !fits(b, i, k);
  uint32_t n_before = m->n_objects;
  annb_status s = annb_manifest_append(m, more, left_out, err);
  free(left_out);
  uint32_t *dirs = s ? NULL : realloc(b->u->object_dirs, ((size_t)m->n_objects + 1) * sizeof *dirs);
  if (!dirs) return s ? s : annb_fail_memory(err);
  for (uint32_t k = n_before; k < m->n_objects; k++) dirs[k] = i;
  b->u->object_dirs = dirs;
  be_strict(m, b->stores[i]);
  return ANNB_OK;
}

static annb_status take_stores(builder *b, annb_error *err) {
  annb_status s = ANNB_OK;
  b->u->dirs = calloc(b->n, sizeof *b->u->dirs);
  if (!b->u->dirs) return annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < b->n; i++) {
    s = take_dir(b, i, err);
    if (!s) s = append_store(b, i, err);
  }
  if (!s) s = describe(b->u, err);
  if (!s) identify(b->u);
  b->join.store = b->u->path;
  return s;
}

/* ---- genes: the stores' lists are joined first, in a manifest that has a store as each part ---- */

/* The flat arrays with a store's list of genes, or ANNB_NONE. */
static uint32_t list_object(const annb_manifest *m) {
  return m->store.var_part == ANNB_NONE ? m->store.var_object : m->parts[m->store.var_part].columns;
}

static annb_status open_lists(const builder *b, annb_manifest *lists, annb_join_files *files, annb_error *err) {
  annb_status s = ANNB_OK;
  *files = (annb_join_files){.columns = calloc(b->n, sizeof *files->columns), .n = b->n};
  if (!files->columns) return annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < b->n; i++) {
    const annb_manifest *m = &b->stores[i]->manifest;
    const annb_fmt_part part = {.n_vars = m->store.n_vars, .gene_map = ANNB_NONE};
    uint32_t object = list_object(m), row;
    uint64_t n_rows = m->store.var_part == ANNB_NONE ? m->store.n_obs : m->parts[m->store.var_part].n_rows;
    s = annb_manifest_add_part(lists, &part, &row, err);
    if (!s && object != ANNB_NONE) s = annb_open_arrays(b->stores[i], object, &files->columns[i], err);
    if (!s && object != ANNB_NONE) s = annb_join_check_lengths(files->columns[i], n_rows, part.n_vars, err);
  }
  return s;
}

static bool any_named(const annb_join_files *files) {
  for (uint32_t i = 0; i < files->n; i++)
    if (files->columns[i] && annb_keys_find(files->columns[i], ANNB_AXIS_VAR, NULL) != ANNB_NONE) return true;
  return false;
}

/* Without names genes are known by their numbers. */
static annb_status join_nameless(const builder *b, annb_manifest *lists, annb_error *err) {
  lists->store.var_part = 0;
  lists->store.n_vars = lists->parts[0].n_vars;
  for (uint32_t i = 1; i < b->n; i++)
    if (lists->parts[i].n_vars != lists->store.n_vars)
      return annb_fail(err, ANNB_EINVAL, b->stores[i]->path, "has %llu genes, %s has %llu, and there are no names to join them by",
                       (unsigned long long)lists->parts[i].n_vars, b->stores[0]->path, (unsigned long long)lists->store.n_vars);
  return ANNB_OK;
}

static annb_status join_lists(const builder *b, annb_manifest *lists, annb_join_memory *memory, annb_error *err) {
  annb_join_files files;
  const annb_join_target target = {.memory = memory};
  annb_join join = b->join;
  const char **labels = malloc(b->n * sizeof *labels);
  annb_status s = labels ? open_lists(b, lists, &files, err) : annb_fail_memory(err);
  if (!labels) return s;
  for (uint32_t i = 0; i < b->n; i++) labels[i] = b->stores[i]->path;
  join.labels = labels;
  join.n_labels = b->n;
  if (!s && join.how == ANNB_JOIN_NONE && !any_named(&files)) s = join_nameless(b, lists, err);
  else if (!s) s = annb_join_genes(&join, &target, &files, 0, lists, err);
  annb_join_close(&files);
  free(labels);
  return s;
}

/* Objects of the lists become the union's, `rows` says which. */
static annb_status take_objects(annb_store *u, const annb_manifest *lists, annb_join_memory *memory, uint32_t *rows, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint32_t i = 0; !s && i < lists->n_objects; i++) {
    uint32_t n_before = u->manifest.n_objects;
    s = annb_manifest_add_object(&u->manifest, &lists->objects[i], &rows[i], err);
    if (s) break;
    s = annb_join_memory_put(&u->memory, rows[i], rows[i] == n_before, memory->bytes[i], err);
    memory->bytes[i] = NULL;
  }
  return s;
}

/* A part's own map, and then its store's. */
static annb_status compose(annb_store *u, annb_fmt_part *part, uint64_t n_store, uint32_t store_map, annb_error *err) {
  const annb_join_target target = {.memory = &u->memory};
  annb_arrays *first = NULL, *second = NULL;
  const uint32_t *to_store, *to_union;
  annb_status s = annb_open_arrays(u, part->gene_map, &first, err);
  if (!s) s = annb_gene_map_read(first, part->n_vars, n_store, &to_store, NULL, err);
  if (!s) s = annb_open_arrays(u, store_map, &second, err);
  if (!s) s = annb_gene_map_read(second, n_store, u->manifest.store.n_vars, &to_union, NULL, err);
  uint32_t *map = s ? NULL : malloc(((size_t)part->n_vars + 1) * sizeof *map), row;
  if (!s && !map) s = annb_fail_memory(err);
  for (uint64_t g = 0; !s && g < part->n_vars; g++) map[g] = to_store[g] == ANNB_NONE ? ANNB_NONE : to_union[to_store[g]];
  if (!s) s = annb_join_write_array(&target, &u->manifest, "gene_map", ANNB_U32, map, part->n_vars, &row, err);
  if (!s) part->gene_map = row;
  free(map);
  annb_arrays_close(first);
  annb_arrays_close(second);
  return s;
}

static annb_status map_parts(builder *b, const annb_manifest *lists, const uint32_t *rows, annb_error *err) {
  annb_manifest *m = &b->u->manifest;
  annb_status s = ANNB_OK;
  for (uint32_t i = 0; i < b->n; i++) {
    const annb_store_dir *dir = &b->u->dirs[i];
    if (lists->parts[i].gene_map == ANNB_NONE) continue;
    uint32_t map = rows[lists->parts[i].gene_map];
    for (uint32_t k = dir->first_part; !s && k < dir->first_part + dir->n_parts; k++) {
      if (m->parts[k].gene_map != ANNB_NONE) s = compose(b->u, &m->parts[k], lists->parts[i].n_vars, map, err);
      else m->parts[k].gene_map = map;
    }
  }
  return s;
}

/* The list itself: one of a store's, or one that was made. */
static annb_status set_list(builder *b, const annb_manifest *lists, const uint32_t *rows, annb_error *err) {
  annb_manifest *m = &b->u->manifest;
  m->store.var_part = m->store.var_object = ANNB_NONE;
  if (lists->store.var_part == ANNB_NONE) {
    m->store.var_object = rows[lists->store.var_object];
    return ANNB_OK;
  }
  const annb_fmt_store *of = &b->stores[lists->store.var_part]->manifest.store;
  if (of->var_part != ANNB_NONE) {
    m->store.var_part = b->u->dirs[lists->store.var_part].first_part + of->var_part;
    return ANNB_OK;
  }
  const annb_manifest *from = &b->stores[lists->store.var_part]->manifest;
  return annb_manifest_add_object(m, &from->objects[of->var_object], &m->store.var_object, err);
}

static annb_status join_genes(builder *b, annb_error *err) {
  annb_manifest lists;
  annb_join_memory memory = {NULL, 0};
  annb_manifest_init(&lists);
  annb_status s = join_lists(b, &lists, &memory, err);
  uint32_t *rows = calloc((size_t)lists.n_objects + 1, sizeof *rows);
  if (!s && !rows) s = annb_fail_memory(err);
  b->u->manifest.store.n_vars = lists.store.n_vars;
  if (!s) s = take_objects(b->u, &lists, &memory, rows, err);
  if (!s) s = map_parts(b, &lists, rows, err);
  if (!s) s = set_list(b, &lists, rows, err);
  free(rows);
  annb_join_memory_free(&memory);
  annb_manifest_free(&lists);
  return s;
}

/* ---- columns ---- */

static annb_status join_columns(builder *b, annb_error *err) {
  annb_store *u = b->u;
  annb_manifest *m = &u->manifest;
  const annb_join_target target = {.memory = &u->memory};
  annb_join_files files = {.columns = calloc((size_t)m->n_parts + 1, sizeof *files.columns), .n = m->n_parts};
  annb_status s = files.columns ? ANNB_OK : annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < m->n_parts; i++) {
    if (m->parts[i].columns == ANNB_NONE) continue;
    s = annb_open_arrays(u, m->parts[i].columns, &files.columns[i], err);
    if (!s) s = annb_join_check_lengths(files.columns[i], m->parts[i].n_rows, m->parts[i].n_vars, err);
  }
  if (!s) s = annb_join_columns(&b->join, &target, &files, m, err);
  annb_join_close(&files);
  return s;
}

/* ---- all of it ---- */

static annb_status build(builder *b, annb_error *err) {
  annb_status s = take_stores(b, err);
  if (!s) s = join_genes(b, err);
  if (!s) s = join_columns(b, err);
  if (!s) s = annb_join_matrices(&b->join, &b->u->manifest, err);
  b->u->manifest.incompat = annb_manifest_features(&b->u->manifest);
  if (!s) s = annb_manifest_check(&b->u->manifest, b->u->path, err);
  return s ? s : annb_store_make_tables(b->u, err);
}

annb_status annb_union_open(const annb_store *const *stores, uint32_t n_stores, annb_gene_join join, annb_store **out, annb_error *err) {
  if (!stores || !out || !n_stores || n_stores > MAX_STORES)
    return annb_fail(err, ANNB_EINVAL, NULL, "stores that are read as one are 1 to %d, with a place for the handle", MAX_STORES);
  if ((unsigned)join > ANNB_JOIN_OUTER)
    return annb_fail(err, ANNB_EINVAL, NULL, "genes are joined none, inner or outer, not %d", (int)join);
  annb_store *u = calloc(1, sizeof *u);
  if (!u) return annb_fail_memory(err);
  annb_manifest_init(&u->manifest);
  u->is_union = u->skip_checks = true;
  builder b = {.u = u, .stores = stores, .n = n_stores, .join = {.how = join, .stores = true, .store = ""}};
  annb_status s = build(&b, err);
  if (s) annb_store_close(u);
  else *out = u;
  return s;
}
