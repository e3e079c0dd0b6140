#include "store_internal.h"

#include "loader/loader_internal.h"
#include "team.h"

#include "../store/cursor.h"
#include "../store/error.h"

#include <annblock/annblock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* At least one element, so that NULL means "out of memory". */
static void *zeroed(uint64_t n, size_t size) { return calloc(n ? (size_t)n : 1, size); }

/* ---- tables made while opening ---- */

static annb_status allocate_tables(annb_store *store, annb_error *err) {
  const annb_manifest *m = &store->manifest;
  store->matrix_names = zeroed(m->n_matrices, sizeof *store->matrix_names);
  store->part_first = zeroed((uint64_t)m->n_parts + 1, sizeof *store->part_first);
  store->segment_first = zeroed((uint64_t)m->n_segments + 1, sizeof *store->segment_first);
  store->lookup = zeroed(m->n_part_matrices, sizeof *store->lookup);
  store->segments = zeroed(m->n_segments, sizeof *store->segments);
  store->columns = zeroed((uint64_t)m->n_parts + 1, sizeof *store->columns);
  store->joint = zeroed(ANNB_AXIS_VAR + 1, sizeof *store->joint);
  store->gene_maps = zeroed(m->n_parts, sizeof *store->gene_maps);
  store->store_genes = zeroed(m->n_part_matrices, sizeof *store->store_genes);
  store->paths = zeroed(m->n_objects, sizeof *store->paths);
  store->gene_orders = zeroed(m->n_objects, sizeof *store->gene_orders);
  bool whole = store->matrix_names && store->part_first && store->segment_first && store->lookup && store->segments &&
               store->columns && store->paths && store->gene_orders && store->joint && store->gene_maps && store->store_genes;
  return whole ? ANNB_OK : annb_fail_memory(err);
}

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void index_part(annb_store *store, uint32_t part) {
  const annb_manifest *m = &store->manifest;
  const annb_fmt_part *p = &m->parts[part];
  for (uint32_t row = p->first_matrix; row < p->first_matrix + p->n_matrices; row++)
    store->lookup[row] = (uint64_t)m->part_matrices[row].matrix << 32 | row;
  if (p->n_matrices) qsort(store->lookup + p->first_matrix, p->n_matrices, sizeof *store->lookup, by_value);
  store->part_first[part + 1] = store->part_first[part] + p->n_rows;
}

annb_status annb_store_make_tables(annb_store *store, annb_error *err) {
  const annb_manifest *m = &store->manifest;
  annb_status s = allocate_tables(store, err);
  uint64_t names = 0;
  for (uint32_t i = 0; i < m->n_matrices; i++) names += m->matrices[i].name_length;
  if (!s && names > m->file_size && !store->is_union) /* names that share their bytes would ask for more memory than the file is worth */
    s = annb_fail(err, ANNB_ECORRUPT, store->manifest_path, "states names of %llu bytes", (unsigned long long)names);
  for (uint32_t i = 0; !s && i < m->n_matrices; i++) {
    store->matrix_names[i] = annb_manifest_matrix_name(m, i);
    if (!store->matrix_names[i]) s = annb_fail_memory(err);
  }
  for (uint32_t i = 0; !s && i < m->n_parts; i++) index_part(store, i);
  for (uint32_t i = 0; !s && i < m->n_segments; i++) store->segment_first[i + 1] = store->segment_first[i] + m->segments[i].n_rows;
  return s;
}

/* ---- open and close ---- */

/* The generation to open: the newest, or the one asked for when it exists. */
static annb_status choose_generation(const char *path, uint64_t wanted, uint64_t *generation, char **manifest_path, annb_error *err) {
  annb_status s = annb_manifest_latest(path, generation, err);
  if (s) return s;
  if (!*generation)
    return annb_fail(err, ANNB_ENOTSTORE, path, "is not an annblock store: it has no manifest (was a pack into it interrupted?)");
  uint64_t newest = *generation;
  if (wanted) *generation = wanted;
  *manifest_path = annb_manifest_path(path, *generation);
  if (!*manifest_path) return annb_fail_memory(err);
  annb_path_kind kind = ANNB_PATH_FILE;
  if (wanted) s = annb_io_kind(*manifest_path, &kind, err);
  if (!s && kind == ANNB_PATH_ABSENT)
    s = annb_fail(err, ANNB_ENOTFOUND, path, "has no generation %llu; the newest is %llu", (unsigned long long)wanted,
                  (unsigned long long)newest);
  return s;
}

static annb_status open_dir(annb_store *store, const char *path, const annb_open_options *options, annb_error *err) {
  annb_manifest *m = &store->manifest;
  annb_store_dir *dir = store->dirs = calloc(1, sizeof *dir);
  if (!dir || !(dir->path = strdup(path))) return annb_fail_memory(err);
  store->n_dirs = 1;
  store->path = dir->path;
  uint64_t generation;
  annb_status s = choose_generation(path, options ? options->generation : 0, &generation, &dir->manifest_path, err);
  store->manifest_path = dir->manifest_path;
  if (!s) s = annb_manifest_load(dir->manifest_path, generation, m, err);
  if (!s && options && options->one_part) s = annb_manifest_take_part(m, options->part, path, err);
  if (s) return s;
  memcpy(dir->id, m->header.store_id, sizeof dir->id);
  dir->generation = m->header.generation;
  dir->n_rows = m->store.n_obs;
  dir->n_parts = m->n_parts;
  dir->bytes = m->file_size;
  for (uint32_t i = 0; i < m->n_objects; i++) dir->bytes += m->objects[i].size;
  return ANNB_OK;
}

annb_status annb_store_open(const char *path, const annb_open_options *options, annb_store **out, annb_error *err) {
  if (!path || !out) return annb_fail(err, ANNB_EINVAL, path, "opening a store needs a path and a place for the handle");
  annb_store *store = calloc(1, sizeof *store);
  if (!store) return annb_fail_memory(err);
  annb_manifest_init(&store->manifest);
  store->skip_checks = options && options->skip_checks;
  annb_status s = open_dir(store, path, options, err);
  if (!s) s = annb_store_make_tables(store, err);
  if (s) annb_store_close(store);
  else *out = store;
  return s;
}

void annb_store_close(annb_store *store) {
  if (!store) return;
  const annb_manifest *m = &store->manifest;
  for (uint32_t i = 0; store->segments && i < m->n_segments; i++) {
    annb_segment *segment = atomic_load(&store->segments[i]);
    if (segment) annb_segment_close(segment);
  }
  for (int axis = 0; store->joint && axis <= ANNB_AXIS_VAR; axis++) annb_joint_columns_close(atomic_load(&store->joint[axis]));
  for (uint32_t i = 0; store->columns && i <= m->n_parts; i++) annb_part_columns_close(atomic_load(&store->columns[i]));
  for (uint32_t i = 0; store->paths && i < m->n_objects; i++) free(atomic_load(&store->paths[i]));
  for (uint32_t i = 0; store->matrix_names && i < m->n_matrices; i++) free(store->matrix_names[i]);
  for (uint32_t i = 0; store->gene_orders && i < m->n_objects; i++) annb_gene_order_close(atomic_load(&store->gene_orders[i]));
  for (uint32_t i = 0; store->gene_maps && i < m->n_parts; i++) annb_gene_map_close(atomic_load(&store->gene_maps[i]));
  for (uint32_t i = 0; store->store_genes && i < m->n_part_matrices; i++) annb_gene_order_close(atomic_load(&store->store_genes[i]));
  free(store->joint);
  free(store->gene_maps);
  free(store->store_genes);
  free(store->segments);
  free(store->columns);
  free(store->paths);
  free(store->gene_orders);
  free(store->matrix_names);
  free(store->part_first);
  free(store->segment_first);
  free(store->lookup);
  for (uint32_t i = 0; store->dirs && i < store->n_dirs; i++) {
    free(store->dirs[i].path);
    free(store->dirs[i].manifest_path);
  }
  free(store->dirs);
  free(store->description);
  free(store->object_dirs);
  annb_join_memory_free(&store->memory);
  annb_manifest_free(&store->manifest);
  free(store);
}

annb_status annb_context_open(annb_context **out, annb_error *err) {
  if (!out) return annb_fail(err, ANNB_EINVAL, NULL, "opening a context needs a place for the handle");
  *out = calloc(1, sizeof **out);
  return *out ? ANNB_OK : annb_fail_memory(err);
}

void annb_context_close(annb_context *context) {
  if (!context) return;
  annb_team_close(context->team);
  if (context->pool_process == annb_io_process()) annb_pool_close(context->pool);
  annb_scratch_free(&context->codec);
  annb_scratch_free(&context->scratch);
  free(context);
}

annb_status annb_check_object(const annb_fmt_object *object, const annb_map *map, const annb_envelope *envelope, const char *path,
                              annb_error *err) {
  if (map->size != object->size)
    return annb_fail(err, ANNB_ECORRUPT, path, "has %llu bytes, the manifest says %llu", (unsigned long long)map->size,
                     (unsigned long long)object->size);
  if (memcmp(envelope->trailer.footer_hash, object->footer_hash, sizeof object->footer_hash))
    return annb_fail(err, ANNB_ECORRUPT, path, "is not the file that the manifest names: its footer hash differs");
  return ANNB_OK;
}

/* ---- what is in it ---- */

void annb_store_get_info(const annb_store *store, annb_store_info *info) {
  const annb_manifest *m = &store->manifest;
  *info = (annb_store_info){.n_obs = m->store.n_obs,
                            .n_vars = m->store.n_vars,
                            .generation = m->header.generation,
                            .n_parts = m->n_parts,
                            .n_matrices = m->n_matrices,
                            .n_sources = store->n_dirs};
  for (uint32_t i = 0; i < store->n_dirs; i++) info->bytes += store->dirs[i].bytes;
  memcpy(info->store_id, m->header.store_id, sizeof info->store_id);
}

const char *annb_store_path(const annb_store *store) { return store->path; }

annb_status annb_store_source(const annb_store *store, uint32_t i, annb_source_info *info, annb_error *err) {
  if (i >= store->n_dirs) return annb_fail(err, ANNB_ERANGE, store->path, "is of %u stores, there is no store %u", store->n_dirs, i);
  const annb_store_dir *dir = &store->dirs[i];
  *info = (annb_source_info){.path = dir->path, .generation = dir->generation, .first_row = dir->first_row, .n_rows = dir->n_rows,
                             .first_part = dir->first_part, .n_parts = dir->n_parts};
  memcpy(info->store_id, dir->id, sizeof info->store_id);
  return ANNB_OK;
}

char *annb_store_object_path(const annb_store *store, uint32_t object) {
  const annb_store_dir *dir = &store->dirs[store->object_dirs ? store->object_dirs[object] : 0];
  return annb_object_path(dir->path, &store->manifest.objects[object]);
}

annb_status annb_check_part(const annb_store *store, uint32_t part, annb_error *err) {
  if (part < store->manifest.n_parts) return ANNB_OK;
  return annb_fail(err, ANNB_ERANGE, store->path, "has %u part%s, there is no part %u", store->manifest.n_parts,
                   store->manifest.n_parts == 1 ? "" : "s", part);
}

annb_status annb_store_part(const annb_store *store, uint32_t part, annb_part_info *info, annb_error *err) {
  annb_status s = annb_check_part(store, part, err);
  if (s) return s;
  const annb_fmt_part *p = &store->manifest.parts[part];
  *info = (annb_part_info){.first_row = store->part_first[part], .n_rows = p->n_rows, .n_vars = p->n_vars, .n_matrices = p->n_matrices,
                           .shuffled = p->row_order != ANNB_NONE};
  return ANNB_OK;
}

/* The object's path, made once and then kept. */
static annb_status keep_path(const annb_store *store, uint32_t object, const char **path, annb_error *err) {
  char *mine, *kept = atomic_load_explicit(&store->paths[object], memory_order_acquire);
  if (!kept) {
    mine = annb_store_object_path(store, object);
    if (!mine) return annb_fail_memory(err);
    if (atomic_compare_exchange_strong(&store->paths[object], &kept, mine)) kept = mine;
    else free(mine);
  }
  *path = kept;
  return ANNB_OK;
}

annb_status annb_store_part_file(const annb_store *store, uint32_t part, annb_object_kind kind, const char **path, annb_error *err) {
  annb_status s = annb_check_part(store, part, err);
  if (s) return s;
  const annb_fmt_part *p = &store->manifest.parts[part];
  if (kind != ANNB_OBJECT_SIDECAR && kind != ANNB_OBJECT_RESTORE)
    return annb_fail(err, ANNB_EINVAL, store->path, "a part has a sidecar and a restore file, object kind %d is neither", (int)kind);
  uint32_t object = kind == ANNB_OBJECT_SIDECAR ? p->sidecar : p->restore;
  const char *kept = NULL;
  uint64_t size;
  if (object != ANNB_NONE) {
    s = keep_path(store, object, &kept, err);
    if (!s) s = annb_io_file_size(kept, &size, err);
    if (!s && size != store->manifest.objects[object].size)
      s = annb_fail(err, ANNB_ECORRUPT, kept, "has %llu bytes, the manifest says %llu", (unsigned long long)size,
                    (unsigned long long)store->manifest.objects[object].size);
  }
  if (!s) *path = kept;
  return s;
}

/* "; there are: X, layers/counts", as far as there is room. */
static void list_matrices(const annb_store *store, char *text, size_t room) {
  size_t used = 0;
  *text = 0;
  for (uint32_t i = 0; i < store->manifest.n_matrices && used + 8 < room; i++)
    used += (size_t)snprintf(text + used, room - used, "%s%s", i ? ", " : "; there are: ", store->matrix_names[i]);
  if (used >= room) strcpy(text + room - 5, "…");
  if (!store->manifest.n_matrices) snprintf(text, room, "; it has none");
}

annb_status annb_store_find_matrix(const annb_store *store, const char *name, uint32_t *matrix, annb_error *err) {
  for (uint32_t i = 0; name && i < store->manifest.n_matrices; i++) {
    if (strcmp(store->matrix_names[i], name)) continue;
    *matrix = i;
    return ANNB_OK;
  }
  char list[300];
  list_matrices(store, list, sizeof list);
  return annb_fail(err, ANNB_ENOTFOUND, store->path, "%s no matrix '%.200s'%s%s", store->is_union ? "have" : "has", name ? name : "", list,
                   store->is_union ? "; matrices that do not fit together (raw/X, obsm of other widths) are in each store only" : "");
}

static void add_part_matrix(const annb_store *store, const annb_fmt_part_matrix *pm, annb_matrix_info *info) {
  const annb_manifest *m = &store->manifest;
  info->nnz += pm->nnz;
  info->n_segments += pm->n_segments;
  for (uint32_t i = 0; i < pm->n_segments; i++) info->bytes += m->objects[m->segments[pm->first_segment + i].object].size;
}

annb_status annb_store_matrix(const annb_store *store, uint32_t matrix, annb_matrix_info *info, annb_error *err) {
  const annb_manifest *m = &store->manifest;
  if (matrix >= m->n_matrices)
    return annb_fail(err, ANNB_ERANGE, store->path, "has %u matrices, there is no matrix %u", m->n_matrices, matrix);
  const annb_fmt_matrix *row = &m->matrices[matrix];
  *info = (annb_matrix_info){.name = store->matrix_names[matrix],
                             .n_rows = m->store.n_obs,
                             .n_cols = row->n_cols,
                             .axes = (annb_axes)row->axes,
                             .dtype = (annb_dtype)row->dtype,
                             .form = ANNB_CSR}; /* when no part has it */
  bool found = false;
  for (uint32_t i = 0; i < m->n_part_matrices; i++) { /* parts are in order, so are their matrices */
    if (m->part_matrices[i].matrix != matrix) continue;
    if (!found) info->form = (annb_form)m->part_matrices[i].form;
    found = true;
    add_part_matrix(store, &m->part_matrices[i], info);
  }
  return ANNB_OK;
}
