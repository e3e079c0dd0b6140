/* Opening a loader: what of which stores is to be delivered. */
#include "loader_internal.h"

#include "../../store/error.h"

#include <annblock/annblock.h>
#include <stdlib.h>

typedef unsigned long long ull;

enum { MAX_THREADS = 64, MAX_IO_THREADS = 256, DEFAULT_IO_THREADS = 16, MAX_RING = 4096, MAX_STORES = 1 << 16 };

#define WRONG(...) annb_fail(err, ANNB_EINVAL, NULL, __VA_ARGS__)

static void *zeroed(uint64_t n, size_t size) { return calloc((size_t)n + 1, size); }

/* ---- stores ---- */

static annb_status take_stores(annb_loader *l, const annb_store *const *stores, uint32_t n, annb_error *err) {
  if (!stores || !n || n > MAX_STORES) return WRONG("a loader needs 1 to %d stores", MAX_STORES);
  l->stores = zeroed(n, sizeof *l->stores);
  l->first = zeroed(n, sizeof *l->first);
  if (!l->stores || !l->first) return annb_fail_memory(err);
  l->n_stores = n;
  bool remote = false;
  l->tells_residency = true;
  for (uint32_t i = 0; i < n; i++) {
    if (!stores[i]) return WRONG("store %u of the loader is missing", i);
    l->stores[i] = stores[i];
    l->first[i + 1] = l->first[i] + stores[i]->manifest.store.n_obs;
    if (l->first[i + 1] > ANNB_MAX_ROWS) return WRONG("the stores together have over 2^40 rows");
    remote = remote || annb_io_is_remote(stores[i]->manifest_path);
    l->tells_residency = l->tells_residency && annb_io_tells_residency(stores[i]->manifest_path);
  }
  l->access = l->options.access != ANNB_ACCESS_AUTO ? l->options.access : remote ? ANNB_ACCESS_PREAD : ANNB_ACCESS_MMAP;
  return ANNB_OK;
}

static annb_status open_sampler(annb_loader *l, annb_error *err) {
  annb_sampler_source *sources = zeroed(l->n_stores, sizeof *sources);
  if (!sources) return annb_fail_memory(err);
  for (uint32_t i = 0; i < l->n_stores; i++) {
    const annb_manifest *m = &l->stores[i]->manifest;
    sources[i] = (annb_sampler_source){.generation = m->header.generation, .n_rows = m->store.n_obs};
    memcpy(sources[i].store_id, m->header.store_id, sizeof sources[i].store_id);
  }
  annb_status s = annb_sampler_open(sources, l->n_stores, &l->options.sampler, &l->sampler, err);
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
static annb_status check_stored_order(const annb_loader *l, const annb_loader_source *source, const char *name, annb_error *err) {
  static const uint8_t none[ANNB_SHA256_SIZE] = {0};
  const uint8_t *order = NULL;
  for (uint32_t i = 0; i < l->n_stores; i++) {
    const annb_store *store = l->stores[i];
    for (uint32_t part = 0; part < store->manifest.n_parts; part++) {
      const annb_fmt_part_matrix *pm = annb_find_part_matrix(store, part, source->numbers[i]);
      if (!pm) continue;
      const uint8_t *its = pm->gene_order == ANNB_NONE ? none : store->manifest.objects[pm->gene_order].sha256;
      if (order && memcmp(order, its, sizeof none))
        return annb_fail(err, ANNB_EINVAL, store->path, "matrix '%s' has parts with different gene orders: ask for original order", name);
      order = its;
    }
  }
  return ANNB_OK;
}

/* The names of genes, where two stores have them, are the same. */
static annb_status check_names(const annb_store *a, const annb_store *b, annb_error *err) {
  const annb_joint_column *x, *y;
  annb_column_info info;
  annb_status found = annb_store_index_column(a, ANNB_AXIS_VAR, &x, err);
  if (!found) found = annb_store_index_column(b, ANNB_AXIS_VAR, &y, err);
  if (found) return found == ANNB_ENOTFOUND ? ANNB_OK : found;
  annb_joint_column_get_info(x, &info);
  if (info.kind != ANNB_COLUMN_STRING) return ANNB_OK;
  uint64_t n = info.length;
  annb_joint_column_get_info(y, &info);
  if (info.kind != ANNB_COLUMN_STRING) return ANNB_OK;
  for (uint64_t i = 0; i < n && i < info.length; i++) {
    const char *p, *q;
    uint64_t p_length, q_length;
    annb_status s = annb_store_column_string(x, i, &p, &p_length, NULL, err);
    if (!s) s = annb_store_column_string(y, i, &q, &q_length, NULL, err);
    if (s) return s;
    if (p_length != q_length || memcmp(p, q, (size_t)p_length))
      return annb_fail(err, ANNB_EINVAL, b->path,
                       "gene %llu is '%.*s', in %s it is '%.*s': stores that are read as one need the same genes in the same order", (ull)i, (int)(q_length < 99 ? q_length : 99), q, a->path,
                       (int)(p_length < 99 ? p_length : 99), p);
  }
  return ANNB_OK;
}

static annb_status find_matrix(const annb_loader *l, annb_loader_source *source, const annb_loader_matrix *asked, annb_error *err) {
  annb_status s = ANNB_OK;
  source->numbers = zeroed(l->n_stores, sizeof *source->numbers);
  if (!source->numbers) return annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < l->n_stores; i++) {
    annb_fetch_options resolved;
    annb_matrix_info info;
    s = annb_store_find_matrix(l->stores[i], asked->name, &source->numbers[i], err);
    if (!s) s = annb_store_matrix(l->stores[i], source->numbers[i], &info, err);
    if (!s) s = annb_fetch_resolve(l->stores[i], source->numbers[i], &asked->fetch, &resolved, err);
    if (s) return s;
    if (i == 0) {
      source->fetch = resolved;
      source->n_cols = info.n_cols;
    } else if (info.n_cols != source->n_cols || (info.axes == ANNB_OBS_VAR && (s = check_names(l->stores[0], l->stores[i], err)))) {
      return s ? s : annb_fail(err, ANNB_EINVAL, l->stores[i]->path, "matrix '%s' has %llu columns, in %s it has %llu", asked->name,
                               (ull)info.n_cols, l->stores[0]->path, (ull)source->n_cols);
    } else if (resolved.dtype != source->fetch.dtype) {
      return annb_fail(err, ANNB_EINVAL, l->stores[i]->path, "matrix '%s' has dtype %s, in %s it has %s: ask for a dtype", asked->name,
                       annb_dtype_name(resolved.dtype), l->stores[0]->path, annb_dtype_name(source->fetch.dtype));
    }
  }
  return asked->fetch.gene_order == ANNB_GENES_STORED ? check_stored_order(l, source, asked->name, err) : ANNB_OK;
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

static annb_status category_name(const annb_column *categories, uint64_t code, const char **bytes, uint64_t *length, annb_error *err) {
  annb_column_info info;
  const void *values;
  annb_column_get_info(categories, &info);
  if (info.kind == ANNB_COLUMN_STRING) return annb_column_string(categories, code, bytes, length, NULL, err);
  annb_status s = annb_column_values(categories, code, 1, &values, NULL, err);
  if (s) return s;
  *bytes = values;
  *length = annb_dtype_size(info.dtype);
  return ANNB_OK;
}

static annb_status add_category(annb_loader_names *label, uint32_t store, uint64_t code, annb_error *err) {
  uint64_t n = label->n_categories;
  if ((n & (n + 1)) == 0) { /* room grows to the next power of two, less one */
    uint32_t *stores = realloc(label->category_store, (size_t)(2 * n + 1) * sizeof *stores);
    if (stores) label->category_store = stores;
    uint64_t *codes = realloc(label->category_code, (size_t)(2 * n + 1) * sizeof *codes);
    if (codes) label->category_code = codes;
    if (!stores || !codes) return annb_fail_memory(err);
  }
  label->category_store[n] = store;
  label->category_code[n] = code;
  label->n_categories++;
  return ANNB_OK;
}

static annb_status name_of(const annb_loader_names *label, uint64_t code, const char **bytes, uint64_t *length, annb_error *err) {
  const annb_column *categories;
  annb_status s = annb_joint_column_categories(label->columns[label->category_store[code]], &categories, err);
  return s ? s : category_name(categories, label->category_code[code], bytes, length, err);
}

/* The categories of a store among those known, which are searched one by one: there are few. */
static annb_status join_categories(annb_loader_names *label, uint32_t store, uint64_t n, annb_error *err) {
  const annb_column *categories;
  annb_status s = annb_joint_column_categories(label->columns[store], &categories, err);
  uint64_t n_known = label->n_categories;
  if (!s && n_known && !(label->remaps[store] = zeroed(n, sizeof **label->remaps))) s = annb_fail_memory(err);
  for (uint64_t code = 0; !s && code < n; code++) {
    const char *p, *q;
    uint64_t p_length, q_length, found = UINT64_MAX;
    if (n_known) s = category_name(categories, code, &p, &p_length, err);
    for (uint64_t i = 0; !s && i < n_known && found == UINT64_MAX; i++) {
      s = name_of(label, i, &q, &q_length, err);
      if (!s && p_length == q_length && !memcmp(p, q, (size_t)p_length)) found = i;
    }
    if (s) return s;
    if (found == UINT64_MAX) {
      found = label->n_categories;
      s = add_category(label, store, code, err);
    }
    if (label->remaps[store]) label->remaps[store][code] = (int32_t)found;
  }
  return s;
}

static annb_status open_label(annb_loader *l, annb_loader_names *label, const char *name, annb_error *err) {
  annb_status s = ANNB_OK;
  label->columns = zeroed(l->n_stores, sizeof *label->columns);
  label->remaps = zeroed(l->n_stores, sizeof *label->remaps);
  label->name = name ? strdup(name) : NULL;
  if (!name) return WRONG("a label of the loader has no name");
  if (!label->columns || !label->remaps || !label->name) return annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < l->n_stores; i++) {
    annb_column_info info;
    s = annb_store_find_column(l->stores[i], ANNB_AXIS_OBS, name, &label->columns[i], err);
    if (s) return s;
    annb_joint_column_get_info(label->columns[i], &info);
    if (info.kind != ANNB_COLUMN_CATEGORICAL)
      return annb_fail(err, ANNB_EINVAL, l->stores[i]->path, "obs column '%s' is not categorical; labels must be", name);
    if (info.n_categories > INT32_MAX)
      return annb_fail(err, ANNB_ERANGE, l->stores[i]->path, "obs column '%s' has over 2^31 categories", name);
    s = join_categories(label, i, info.n_categories, err);
  }
  return s;
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

/* Rows of one store next to each other are asked for together. */
annb_status annb_loader_codes(const annb_loader *l, uint32_t number, const uint64_t *rows, uint64_t n, int32_t *codes, annb_error *err) {
  const annb_loader_names *label = &l->labels[number];
  annb_status s = ANNB_OK;
  if (l->n_stores == 1) return annb_store_column_codes(label->columns[0], rows, (size_t)n, codes, err);
  for (uint64_t i = 0; !s && i < n; i++) {
    uint64_t row = rows[i];
    uint32_t store = annb_loader_store_of(l, &row);
    s = annb_store_column_codes(label->columns[store], &row, 1, &codes[i], err);
    if (!s && codes[i] >= 0 && label->remaps[store]) codes[i] = label->remaps[store][codes[i]];
  }
  return s;
}

annb_status annb_loader_label(const annb_loader *loader, uint32_t label, uint64_t *n_categories, annb_error *err) {
  if (!loader || !n_categories || label >= loader->n_labels) return WRONG("there is no label %u", label);
  *n_categories = loader->labels[label].n_categories;
  return ANNB_OK;
}

annb_status annb_loader_category(const annb_loader *loader, uint32_t label, uint64_t code, const char **bytes, uint64_t *length,
                                 annb_error *err) {
  if (!loader || !bytes || !length || label >= loader->n_labels) return WRONG("there is no label %u", label);
  if (code >= loader->labels[label].n_categories)
    return annb_fail(err, ANNB_ERANGE, NULL, "label '%s' has %llu categories, there is no category %llu", loader->labels[label].name,
                     (ull)loader->labels[label].n_categories, (ull)code);
  return name_of(&loader->labels[label], code, bytes, length, err);
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
  if (!s) s = take_stores(l, stores, n_stores, err);
  if (!s) s = take_matrices(l, options, err);
  if (!s) s = take_labels(l, options, err);
  if (!s) s = open_sampler(l, err);
  if (!s && !(l->pool = annb_pool_open(l->n_matrices, l->n_labels, l->options.n_ring + 2))) s = annb_fail_memory(err);
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
  free(source->numbers);
  free(source->genes);
}

static void free_label(annb_loader_names *label, uint32_t n_stores) {
  for (uint32_t i = 0; label->remaps && i < n_stores; i++) free(label->remaps[i]);
  free(label->remaps);
  free(label->columns);
  free(label->category_store);
  free(label->category_code);
  free(label->name);
}

void annb_loader_free(annb_loader *l) {
  for (uint32_t i = 0; i < l->n_matrices; i++) free_matrix(&l->matrices[i]);
  for (uint32_t i = 0; i < l->n_labels; i++) free_label(&l->labels[i], l->n_stores);
  annb_pool_close(l->pool);
  annb_plan_close(l->plan);
  annb_sampler_close(l->sampler);
  free(l->matrices);
  free(l->labels);
  free(l->stores);
  free(l->first);
  free(l);
}
