/* Replacing the metadata of a part: columns, sidecar and restore file from another file of the same cells and genes. */
#include "../guard/guard.h"
#include "../join/join.h"
#include "../sidecar/graft.h"
#include "../sidecar/sidecar.h"
#include "../source/matrices.h"
#include "columns.h"

#include "../../store/error.h"
#include "../../store/hash.h"
#include "../../store/io.h"
#include "../../store/commit/leftovers.h"

#include <stdlib.h>
#include <string.h>

#define ULL(x) ((unsigned long long)(x))
#define DEFAULT_MEMORY (UINT64_C(512) << 20)
#define LEAST_MEMORY (UINT64_C(32) << 20)

typedef struct annotate {
  const char *store, *from;
  annb_annotate_options options;
  annb_txn *txn;
  annb_manifest base; /* as it was when the work began */
  uint32_t part;
  annb_source source;
  annb_shuffle *shuffle; /* the order of the part's rows, or NULL */
  char **names; /* of the part's matrices */
  annb_packed *packed;
  annb_source_matrix *matrices; /* of the new file, as far as it has them */
  size_t n_names, n_packed;
  uint32_t columns, sidecar, restore;
  annb_join join;
} annotate;

static annb_status report(const annotate *a, const char *stage, annb_error *err) {
  if (!a->options.progress || a->options.progress(a->options.user, stage, 0, 0)) return ANNB_OK;
  return annb_fail(err, ANNB_ECANCELED, a->from, "annotating was cancelled");
}

/* ---- what it is about ---- */

static annb_status choose_part(annotate *a, annb_error *err) {
  const annb_manifest *m = &a->base;
  if (!a->options.one_part && m->n_parts > 1)
    return annb_fail(err, ANNB_EINVAL, a->store, "has %u parts: say which one the new file is of, --part K (0 to %u)", m->n_parts,
                     m->n_parts - 1);
  a->part = a->options.one_part ? a->options.part : 0;
  if (a->part >= m->n_parts)
    return annb_fail(err, ANNB_ENOTFOUND, a->store, "has %u part%s (numbered from 0), there is no part %u", m->n_parts,
                     m->n_parts == 1 ? "" : "s", a->part);
  const annb_fmt_part *p = &m->parts[a->part];
  if (p->columns == ANNB_NONE || p->sidecar == ANNB_NONE || p->restore == ANNB_NONE)
    return annb_fail(err, ANNB_EUNSUPPORTED, a->store, "part %u was not packed from an .h5ad file: it has no metadata to replace", a->part);
  return ANNB_OK;
}

static annb_status find_order(annotate *a, annb_error *err) {
  const annb_fmt_part *p = &a->base.parts[a->part];
  if (p->row_order == ANNB_NONE) return ANNB_OK;
  char *path = annb_txn_object_path(a->txn, &a->base.objects[p->row_order]);
  annb_status s = path ? annb_shuffle_read(path, p->n_rows, &a->shuffle, err) : annb_fail_memory(err);
  free(path);
  return s;
}

static annb_status check_shape(const annotate *a, annb_error *err) {
  const annb_fmt_part *p = &a->base.parts[a->part];
  if (a->source.obs.length == p->n_rows && a->source.var.length == p->n_vars) return ANNB_OK;
  return annb_fail(err, ANNB_EINPUT, a->from,
                   "has %llu cells and %llu genes, part %u of the store has %llu and %llu: it is not of the same cells",
                   ULL(a->source.obs.length), ULL(a->source.var.length), a->part, ULL(p->n_rows), ULL(p->n_vars));
}

/* ---- names ---- */

static annb_status open_keys(const annotate *a, const annb_fmt_object *object, annb_axis axis, annb_arrays **arrays, annb_keys *keys,
                             annb_error *err) {
  char *path = annb_txn_object_path(a->txn, object);
  annb_status s = path ? annb_arrays_open(path, arrays, err) : annb_fail_memory(err);
  free(path);
  if (s) return s;
  uint32_t row = annb_keys_find(*arrays, axis, NULL);
  return row == ANNB_NONE ? annb_fail(err, ANNB_EINPUT, (*arrays)->path, "has no names") : annb_keys_open(*arrays, row, keys, err);
}

static annb_status tell_difference(const annotate *a, const annb_keys *mine, const annb_keys *theirs, annb_axis axis, annb_error *err) {
  const char *what = axis == ANNB_AXIS_OBS ? "cell" : "gene";
  for (uint64_t i = 0; i < mine->n; i++) {
    const uint64_t row = a->shuffle && axis == ANNB_AXIS_OBS ? annb_shuffle_place(a->shuffle, i) : i;
    annb_key x = annb_keys_at(mine, row), y = annb_keys_at(theirs, row);
    bool strings = mine->column.kind != ANNB_COLUMN_FIXED && theirs->column.kind != ANNB_COLUMN_FIXED;
    if (!x.bytes == !y.bytes && x.length == y.length && (!x.length || !memcmp(x.bytes, y.bytes, (size_t)x.length))) continue;
    if (!strings || !x.bytes || !y.bytes)
      return annb_fail_row(err, ANNB_EINPUT, a->from, (int64_t)i, "has another name for %s %llu than the store", what, ULL(i));
    return annb_fail_row(err, ANNB_EINPUT, a->from, (int64_t)i,
                         "%s %llu is '%.*s', in the store '%.*s': the new file must have the same names in the same order", what, ULL(i),
                         x.length > 200 ? 200 : (int)x.length, (const char *)x.bytes, y.length > 200 ? 200 : (int)y.length,
                         (const char *)y.bytes);
  }
  return annb_fail(err, ANNB_EINPUT, a->from, "has names of %ss of another type than the store", what);
}

static annb_status check_names(const annotate *a, annb_axis axis, annb_error *err) {
  annb_arrays *mine = NULL, *theirs = NULL;
  annb_keys x = {.arrays = NULL}, y = {.arrays = NULL};
  const annb_fmt_object *old = &a->base.objects[a->base.parts[a->part].columns];
  annb_status s = open_keys(a, &annb_txn_manifest(a->txn)->objects[a->columns], axis, &mine, &x, err);
  if (!s) s = open_keys(a, old, axis, &theirs, &y, err);
  if (!s && x.n != y.n) s = annb_fail(err, ANNB_EINPUT, a->from, "has %llu names, the store %llu", ULL(x.n), ULL(y.n));
  if (!s && !annb_keys_equal(&x, &y)) s = tell_difference(a, &x, &y, axis, err);
  annb_keys_close(&x);
  annb_keys_close(&y);
  annb_arrays_close(mine);
  annb_arrays_close(theirs);
  return s;
}

/* ---- matrices ---- */

/* What the new file has in the place of a packed matrix must be one of its shape; X may be missing. */
static annb_status look_at_matrix(annotate *a, const annb_fmt_part_matrix *pm, annb_error *err) {
  char *name = annb_manifest_matrix_name(&a->base, pm->matrix);
  if (!name) return annb_fail_memory(err);
  a->names[a->n_names++] = name;
  annb_source_matrix *m = &a->matrices[a->n_packed];
  *m = (annb_source_matrix)ANNB_SOURCE_MATRIX_NONE;
  if (!strcmp(name, "X") && !annb_source_has_x(a->source.file)) return ANNB_OK;
  if (!annb_h5_exists(a->source.file, name))
    return annb_fail(err, ANNB_EINPUT, a->from, "has no %s, which the store has packed: write the new file with it", name);
  annb_status s = annb_source_matrix_open(m, &a->source, name, err);
  if (s) return s;
  a->n_packed++;
  annb_source_matrix_close_values(m);
  if (m->n_rows != a->source.obs.length || m->n_cols != pm->n_cols)
    return annb_h5_fail(err, ANNB_EINPUT, a->from, m->path, "has %llu rows and %llu columns, in the store %s has %llu and %llu",
                        ULL(m->n_rows), ULL(m->n_cols), name, ULL(a->source.obs.length), ULL(pm->n_cols));
  if (m->path[0] != '/' || strcmp(m->path + 1, name))
    return annb_h5_fail(err, ANNB_EUNSUPPORTED, a->from, name, "is a link to %.500s: write the file anew with anndata", m->path);
  a->packed[a->n_packed - 1] = (annb_packed){.path = m->path, .nnz = m->nnz};
  return ANNB_OK;
}

static annb_status look_at_matrices(annotate *a, annb_error *err) {
  const annb_fmt_part *p = &a->base.parts[a->part];
  a->names = calloc((size_t)p->n_matrices + 1, sizeof *a->names);
  a->packed = calloc((size_t)p->n_matrices + 1, sizeof *a->packed);
  a->matrices = calloc((size_t)p->n_matrices + 1, sizeof *a->matrices);
  if (!a->names || !a->packed || !a->matrices) return annb_fail_memory(err);
  annb_status s = ANNB_OK;
  for (uint32_t i = 0; !s && i < p->n_matrices; i++) s = look_at_matrix(a, &a->base.part_matrices[p->first_matrix + i], err);
  return s;
}

/* ---- files ---- */

/* What is copied gets a new name: it must be what the old one says. */
static annb_status check_sha256(const char *path, const annb_fmt_object *object, annb_error *err) {
  annb_map map;
  annb_sha256 sha;
  uint8_t sum[ANNB_SHA256_SIZE];
  annb_status s = annb_io_map(path, &map, err);
  if (s) return s;
  annb_sha256_init(&sha);
  annb_sha256_update(&sha, map.data, (size_t)map.size);
  annb_sha256_final(&sha, sum);
  annb_io_unmap(&map);
  return memcmp(sum, object->sha256, sizeof sum) ? annb_fail(err, ANNB_ECORRUPT, path, "is damaged: its SHA-256 is not its name") : ANNB_OK;
}

static annb_status graft(const annotate *a, const char *sidecar, const char *restore, annb_error *err) {
  const annb_fmt_object *old = &a->base.objects[a->base.parts[a->part].restore];
  char *path = annb_object_path(a->store, old);
  const annb_graft what = {sidecar, restore, path, (const char *const *)a->names, a->n_names};
  annb_status s = path ? check_sha256(path, old, err) : annb_fail_memory(err);
  if (!s) s = annb_graft_shells(&what, err);
  free(path);
  return s;
}

static annb_status write_files(annotate *a, annb_error *err) {
  const annb_going going = {a->options.progress, a->options.user, "writing the sidecar", a->from, "annotating"};
  const char *sidecar, *restore;
  annb_status s = report(a, "writing the sidecar", err);
  if (!s) s = annb_txn_temp_path(a->txn, &sidecar, err);
  if (!s) s = annb_txn_temp_path(a->txn, &restore, err);
  if (!s) s = annb_sidecar_write(a->source.file, a->from, a->packed, a->n_packed, sidecar, restore, &going, err);
  if (!s) s = graft(a, sidecar, restore, err);
  if (!s) s = annb_txn_add_file(a->txn, sidecar, ANNB_OBJECT_SIDECAR, &a->sidecar, err);
  return s ? s : annb_txn_add_file(a->txn, restore, ANNB_OBJECT_RESTORE, &a->restore, err);
}

/* ---- commit ---- */

/* The part holds the same segments still: another generation may have come since. */
static bool same_part(const annb_manifest *a, const annb_manifest *b, uint32_t part) {
  if (part >= b->n_parts || a->parts[part].n_rows != b->parts[part].n_rows || a->parts[part].n_matrices != b->parts[part].n_matrices)
    return false;
  for (uint32_t i = 0; i < a->parts[part].n_matrices; i++) {
    const annb_fmt_part_matrix *x = &a->part_matrices[a->parts[part].first_matrix + i],
                               *y = &b->part_matrices[b->parts[part].first_matrix + i];
    if (x->n_segments != y->n_segments) return false;
    for (uint32_t k = 0; k < x->n_segments; k++) {
      const annb_fmt_segment_ref *s = &a->segments[x->first_segment + k], *t = &b->segments[y->first_segment + k];
      if (memcmp(a->objects[s->object].sha256, b->objects[t->object].sha256, ANNB_SHA256_SIZE)) return false;
    }
  }
  return true;
}

static annb_status build(void *user, annb_txn *txn, const annb_manifest *base, annb_manifest *draft, annb_error *err) {
  annotate *a = user;
  if (!same_part(&a->base, base, a->part))
    return annb_fail(err, ANNB_ECONFLICT, a->store, "got other cells in part %u from another writer meanwhile: try again", a->part);
  for (size_t i = 0; i < a->n_packed; i++)
    annb_join_note(&a->join, "%s of %s is ignored: the store's own is kept", a->packed[i].path + 1, a->from);
  annb_fmt_part *p = &draft->parts[a->part];
  annb_status s = annb_txn_add_to(txn, a->columns, draft, &p->columns, err);
  if (!s) s = annb_txn_add_to(txn, a->sidecar, draft, &p->sidecar, err);
  if (!s) s = annb_txn_add_to(txn, a->restore, draft, &p->restore, err);
  return s ? s : annb_join_build(&a->join, txn, base, draft, err);
}

static annb_status publish(annotate *a, uint64_t *generation, annb_error *err) {
  annb_status s = report(a, "committing", err);
  if (s) return s;
  annb_txn *txn = a->txn;
  a->txn = NULL;
  annb_txn_set_build(txn, build, a);
  return annb_txn_commit(txn, generation, err);
}

static annb_status run(annotate *a, uint64_t *generation, annb_error *err) {
  annb_status s = annb_txn_begin(a->store, ANNB_TXN_APPEND, &a->txn, err);
  if (!s) s = annb_txn_base(a->txn, &a->base, err);
  if (!s) s = choose_part(a, err);
  if (!s) s = annb_source_open(&a->source, a->from, a->options.memory, err);
  if (!s) s = check_shape(a, err);
  if (!s) s = look_at_matrices(a, err);
  if (!s) s = find_order(a, err);
  if (!s) s = annb_columns_write(&a->source, a->txn, a->shuffle, a->options.progress, a->options.user, &a->columns, err);
  if (!s) s = check_names(a, ANNB_AXIS_OBS, err);
  if (!s) s = check_names(a, ANNB_AXIS_VAR, err);
  if (!s) s = write_files(a, err);
  return s ? s : publish(a, generation, err);
}

static annb_status in_process(const char *store, const char *from, const annb_annotate_options *options, uint64_t *generation,
                              annb_error *err) {
  annotate a = {.store = store, .from = from, .source = {.file = -1, .obs = {.object = -1}, .var = {.object = -1}}};
  annb_manifest_init(&a.base);
  a.options = *options;
  if (!a.options.memory) a.options.memory = DEFAULT_MEMORY;
  if (a.options.memory < LEAST_MEMORY) return annb_fail(err, ANNB_EINVAL, NULL, "annotating needs at least 32 MiB of memory");
  a.join = (annb_join){.note = a.options.note, .user = a.options.user, .store = store};
  annb_h5_quiet quiet = annb_h5_quiet_begin();
  annb_status s = run(&a, generation, err);
  annb_txn_abort(a.txn);
  annb_shuffle_close(a.shuffle);
  for (size_t i = 0; i < a.n_packed; i++) annb_source_matrix_close(&a.matrices[i]);
  for (size_t i = 0; i < a.n_names; i++) free(a.names[i]);
  if (a.source.path) annb_source_close(&a.source);
  annb_manifest_free(&a.base);
  annb_h5_quiet_end(quiet);
  free(a.names);
  free(a.packed);
  free(a.matrices);
  return s;
}

/* ---- in a child process ---- */

typedef struct job {
  const char *store, *from;
  annb_annotate_options options;
  annb_remains remains;
} job;

static annb_status work(void *arg, annb_guard *guard, void *result, annb_error *err) {
  const job *j = arg;
  annb_annotate_options options = j->options;
  options.progress = annb_guard_progress;
  if (options.note) options.note = annb_guard_note;
  options.user = guard;
  return in_process(j->store, j->from, &options, result, err);
}

static void clean(void *arg) { annb_remains_remove(&((job *)arg)->remains); }

annb_status annb_annotate(const char *store, const char *from, const annb_annotate_options *options, uint64_t *generation,
                          annb_error *err) {
  if (!store || !*store || !from || !*from)
    return annb_fail(err, ANNB_EINVAL, NULL, "annotating needs the path of a store and of the file with the new metadata");
  uint64_t made = 0;
  job j = {.store = store, .from = from};
  if (options) j.options = *options;
  const annb_guarded what = {.work = work,
                             .arg = &j,
                             .result = &made,
                             .result_size = sizeof made,
                             .files = &from,
                             .n_files = 1,
                             .progress = j.options.progress,
                             .note = j.options.note,
                             .user = j.options.user,
                             .clean = clean};
  annb_remains_note(&j.remains, store);
  annb_status s = j.options.in_process ? in_process(store, from, &j.options, &made, err) : annb_guard_run(&what, err);
  annb_remains_free(&j.remains);
  if (!s && generation) *generation = made;
  return s;
}
