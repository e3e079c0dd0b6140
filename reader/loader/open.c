/* Opening a loader: what of which stores is to be delivered. */
#include "loader_internal.h"

#include "../../store/error.h"

#include <annblock/annblock.h>
#include <stdlib.h>

typedef unsigned long long ull;

enum { MAX_THREADS = 64, MAX_IO_THREADS = 256, DEFAULT_IO_THREADS = 16, MAX_RING = 4096 };

#define WRONG(...) annb_fail(err, ANNB_EINVAL, NULL, __VA_ARGS__)

static void *zeroed(uint64_t n, size_t size) { return calloc((size_t)n + 1, size); }

/* ---- stores ---- */

static annb_status take_stores(annb_loader *l, const annb_store *const *stores, uint32_t n, annb_gene_join join, annb_error *err) {
  if (!stores || !n || !stores[0]) return WRONG("a loader needs a store");
  l->store = stores[0];
  if (n > 1) {
    annb_status s = annb_union_open(stores, n, join, &l->own, err);
    if (s) return s;
    l->store = l->own;
  }
  bool remote = false;
  l->tells_residency = true;
  for (uint32_t i = 0; i < l->store->n_dirs; i++) {
    remote = remote || annb_io_is_remote(l->store->dirs[i].manifest_path);
    l->tells_residency = l->tells_residency && annb_io_tells_residency(l->store->dirs[i].manifest_path);
  }
  l->access = l->options.access != ANNB_ACCESS_AUTO ? l->options.access : remote ? ANNB_ACCESS_PREAD : ANNB_ACCESS_MMAP;
  return ANNB_OK;
}

static annb_status open_sampler(annb_loader *l, annb_error *err) {
  uint32_t n = l->store->n_dirs;
  annb_sampler_source *sources = zeroed(n, sizeof *sources);
  if (!sources) return annb_fail_memory(err);
  for (uint32_t i = 0; i < n; i++) {
    const annb_store_dir *dir = &l->store->dirs[i];
    sources[i] = (annb_sampler_source){.generation = dir->generation, .n_rows = dir->n_rows};
    memcpy(sources[i].store_id, dir->id, sizeof sources[i].store_id);
  }
  annb_status s = annb_sampler_open(sources, n, &l->options.sampler, &l->sampler, err);
  free(sources);
  annb_sampler_info info;
  if (s) return s;
  annb_sampler_get_info(l->sampler, &info);
  l->options.sampler.batch_size = info.batch_size;
  s = annb_plan_open(l->sampler, &l->options.topology, &l->plan, err);
  if (!s) l->n_steps = annb_plan_steps(l->plan);
  return s;
}

/* ---- matrices ---- */

/* Stored ids mean the same in all rows. */
static annb_status check_stored_order(const annb_store *store, uint32_t matrix, annb_error *err) {
  const annb_fmt_part_matrix *first = NULL;
  for (uint32_t part = 0; part < store->manifest.n_parts; part++) {
    const annb_fmt_part_matrix *pm = annb_find_part_matrix(store, part, matrix);
    if (!pm) continue;
    if (annb_part_matrix_mapped(store, part, pm) || (first && first->gene_order != pm->gene_order))
      return annb_fail(err, ANNB_EINVAL, store->path, "matrix '%s' has parts with different gene orders: ask for original order",
                       store->matrix_names[matrix]);
    first = pm;
  }
  return ANNB_OK;
}

/* Every row is asked for, so that a part without the matrix would end the epoch. */
static annb_status check_everywhere(const annb_loader *l, uint32_t matrix, annb_error *err) {
  const annb_store *store = l->store;
  const annb_sampler_options *o = &l->options.sampler;
  if (o->rows || o->num_samples || o->strategy > ANNB_SAMPLE_BUFFER || store->manifest.matrices[matrix].absent == ANNB_ABSENT_ZERO)
    return ANNB_OK;
  for (uint32_t part = 0; part < store->manifest.n_parts; part++)
    if (store->manifest.parts[part].n_rows && !annb_find_part_matrix(store, part, matrix))
      return annb_fail_row(err, ANNB_ENOTFOUND, store->path, (int64_t)store->part_first[part],
                           "rows from %llu on are in part %u, which has no matrix '%s': choose rows of the others",
                           (ull)store->part_first[part], part, store->matrix_names[matrix]);
  return ANNB_OK;
}

static annb_status find_matrix(const annb_loader *l, annb_loader_source *source, const annb_loader_matrix *asked, annb_error *err) {
  annb_matrix_info info;
  annb_status s = annb_store_find_matrix(l->store, asked->name, &source->number, err);
  if (!s) s = annb_store_matrix(l->store, source->number, &info, err);
  if (!s) s = annb_fetch_resolve(l->store, source->number, &asked->fetch, &source->fetch, err);
  if (!s) s = check_everywhere(l, source->number, err);
  if (s) return s;
  source->n_cols = info.n_cols;
  return asked->fetch.gene_order == ANNB_GENES_STORED ? check_stored_order(l->store, source->number, err) : ANNB_OK;
}

static annb_status take_genes(annb_loader_source *source, const annb_loader_matrix *asked, annb_error *err) {
  source->dense = asked->dense;
  source->n_delivered = source->n_cols;
  if (!asked->genes) return ANNB_OK;
  if (asked->n_genes + source->n_cols > ANNB_MAX_COLS) return WRONG("%llu genes are too many", (ull)asked->n_genes);
  source->genes = malloc(((size_t)source->n_cols + 1) * sizeof *source->genes);
  if (!source->genes) return annb_fail_memory(err);
  memset(source->genes, 0xff, ((size_t)source->n_cols + 1) * sizeof *source->genes); /* ANNB_NONE */
  source->n_delivered = asked->n_genes;
  for (uint64_t j = 0; j < asked->n_genes; j++) {
    uint32_t column = asked->genes[j];
    if (column == ANNB_NONE) continue;
    if (column >= source->n_cols)
      return annb_fail(err, ANNB_ERANGE, NULL, "gene %llu of '%s' is column %u, which is not there: it has %llu columns", (ull)j,
                       asked->name, column, (ull)source->n_cols);
    if (source->genes[column] != ANNB_NONE)
      return WRONG("column %u is asked for twice, as gene %u and %llu of '%s'", column, source->genes[column], (ull)j, asked->name);
    source->genes[column] = (uint32_t)j;
  }
  return ANNB_OK;
}

static annb_status take_matrices(annb_loader *l, const annb_loader_options *o, annb_error *err) {
  annb_status s = ANNB_OK;
  if (o->n_matrices > ANNB_LOADER_MAX_MATRICES || (o->n_matrices && !o->matrices)) return WRONG("a loader can deliver 0 to 64 matrices");
  l->matrices = zeroed(o->n_matrices, sizeof *l->matrices);
  if (!l->matrices) return annb_fail_memory(err);
  l->n_matrices = o->n_matrices;
  for (uint32_t i = 0; !s && i < o->n_matrices; i++) {
    s = find_matrix(l, &l->matrices[i], &o->matrices[i], err);
    if (!s) s = take_genes(&l->matrices[i], &o->matrices[i], err);
  }
  return s;
}

/* ---- labels ---- */

static annb_status open_label(const annb_loader *l, const annb_joint_column **label, const char *name, annb_error *err) {
  annb_column_info info;
  if (!name) return WRONG("a label of the loader has no name");
  annb_status s = annb_store_find_column(l->store, ANNB_AXIS_OBS, name, label, err);
  if (s) return s;
  annb_joint_column_get_info(*label, &info);
  if (info.kind != ANNB_COLUMN_CATEGORICAL)
    return annb_fail(err, ANNB_EINVAL, l->store->path, "obs column '%s' is not categorical; labels must be", name);
  if (info.n_categories > INT32_MAX)
    return annb_fail(err, ANNB_ERANGE, l->store->path, "obs column '%s' has over 2^31 categories", name);
  return ANNB_OK;
}

static annb_status take_labels(annb_loader *l, const annb_loader_options *o, annb_error *err) {
  annb_status s = ANNB_OK;
  if (o->n_labels > ANNB_LOADER_MAX_LABELS || (o->n_labels && !o->labels)) return WRONG("a loader can deliver 0 to 64 labels");
  l->labels = zeroed(o->n_labels, sizeof *l->labels);
  if (!l->labels) return annb_fail_memory(err);
  l->n_labels = o->n_labels;
  for (uint32_t i = 0; !s && i < o->n_labels; i++) s = open_label(l, &l->labels[i], o->labels[i], err);
  return s;
}

annb_status annb_loader_label(const annb_loader *loader, uint32_t label, uint64_t *n_categories, annb_error *err) {
  annb_column_info info;
  if (!loader || !n_categories || label >= loader->n_labels) return WRONG("there is no label %u", label);
  annb_joint_column_get_info(loader->labels[label], &info);
  *n_categories = info.n_categories;
  return ANNB_OK;
}

annb_status annb_loader_category(const annb_loader *loader, uint32_t label, uint64_t code, const char **bytes, uint64_t *length,
                                 annb_error *err) {
  const annb_column *categories;
  annb_column_info info;
  const void *values;
  if (!loader || !bytes || !length || label >= loader->n_labels) return WRONG("there is no label %u", label);
  annb_status s = annb_joint_column_categories(loader->labels[label], &categories, err);
  if (s) return s;
  annb_column_get_info(categories, &info);
  if (code >= info.length)
    return annb_fail(err, ANNB_ERANGE, NULL, "label '%s' has %llu categories, there is no category %llu", info.name, (ull)info.length,
                     (ull)code);
  if (info.kind == ANNB_COLUMN_STRING) return annb_column_string(categories, code, bytes, length, NULL, err);
  s = annb_column_values(categories, code, 1, &values, NULL, err);
  if (s) return s;
  *bytes = values;
  *length = annb_dtype_size(info.dtype);
  return ANNB_OK;
}

/* ---- open and close ---- */

static annb_status check_numbers(annb_loader_options *o, annb_error *err) {
  if (!o->n_threads) o->n_threads = 1;
  if (!o->n_io_threads) o->n_io_threads = DEFAULT_IO_THREADS;
  if (o->n_threads > MAX_THREADS) return WRONG("%u decoding threads are over the limit of %d", o->n_threads, MAX_THREADS);
  if (o->n_io_threads > MAX_IO_THREADS) return WRONG("%u reading threads are over the limit of %d", o->n_io_threads, MAX_IO_THREADS);
  if (!o->n_ring) o->n_ring = 4 + 2 * o->n_threads;
  if (o->n_ring > MAX_RING) return WRONG("%u ready batches are over the limit of %d", o->n_ring, MAX_RING);
  if ((unsigned)o->access > ANNB_ACCESS_PREAD) return WRONG("access %d is neither auto, mmap nor pread", (int)o->access);
  return ANNB_OK;
}

annb_status annb_loader_open(const annb_store *const *stores, uint32_t n_stores, const annb_loader_options *options, annb_loader **out,
                             annb_error *err) {
  if (!options || !out) return WRONG("opening a loader needs options and a place for the handle");
  annb_loader *l = calloc(1, sizeof *l);
  if (!l) return annb_fail_memory(err);
  l->options = *options;
  annb_status s = check_numbers(&l->options, err);
  if (!s) s = take_stores(l, stores, n_stores, options->join, err);
  if (!s) s = take_matrices(l, options, err);
  if (!s) s = take_labels(l, options, err);
  if (!s) s = open_sampler(l, err);
  if (!s && !(l->pool = annb_pool_open(l->n_matrices, l->n_labels, l->options.n_ring + 2, l->options.reuse))) s = annb_fail_memory(err);
  if (s) annb_loader_free(l);
  else *out = l;
  return s;
}

static void free_matrix(annb_loader_source *source) {
  while (source->projections) {
    annb_projection *next = source->projections->next;
    annb_gene_table_free(&source->projections->table);
    free(source->projections);
    source->projections = next;
  }
  free(source->genes);
}

void annb_loader_free(annb_loader *l) {
  for (uint32_t i = 0; i < l->n_matrices; i++) free_matrix(&l->matrices[i]);
  annb_pool_close(l->pool);
  annb_plan_close(l->plan);
  annb_sampler_close(l->sampler);
  free(l->matrices);
  free(l->labels);
  annb_store_close(l->own);
  free(l);
}
