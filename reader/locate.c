#include "store_internal.h"

#include "../store/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFETCH_ROWS = 4 };

/* The last i with firsts[i] <= x, among n > 0; firsts ascends from something <= x. Of equal ones (empty parts) it is the last. */
static uint32_t last_not_after(const uint64_t *firsts, uint32_t n, uint64_t x) {
  uint32_t low = 0, high = n;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (firsts[middle] <= x) low = middle;
    else high = middle;
  }
  return low;
}

const annb_fmt_part_matrix *annb_find_part_matrix(const annb_store *store, uint32_t part, uint32_t matrix) {
  uint32_t low = store->manifest.parts[part].first_matrix, high = low + store->manifest.parts[part].n_matrices;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2, at = (uint32_t)(store->lookup[middle] >> 32);
    if (at == matrix) return &store->manifest.part_matrices[(uint32_t)store->lookup[middle]];
    if (at < matrix) low = middle + 1;
    else high = middle;
  }
  return NULL;
}

/* ---- segments ---- */

/* The segment is the one for this place: `part_row` is the row of its part that it must start at. */
static annb_status check_place(const annb_segment *segment, const annb_fmt_part_matrix *pm, const annb_fmt_segment_ref *ref,
                               uint64_t part_row, annb_error *err) {
  const annb_fmt_segment_header *h = &segment->header;
  if (h->n_cols != pm->n_cols || h->dtype != pm->dtype || h->row_base != part_row)
    return annb_fail(err, ANNB_ECORRUPT, segment->path,
                     "is for %llu columns, dtype %u, part row %llu; the manifest needs %llu columns, dtype %u, part row %llu",
                     (unsigned long long)h->n_cols, h->dtype, (unsigned long long)h->row_base, (unsigned long long)pm->n_cols, pm->dtype,
                     (unsigned long long)part_row);
  if (segment->meta.n_rows == ref->n_rows && segment->meta.nnz == ref->nnz) return ANNB_OK;
  return annb_fail(err, ANNB_ECORRUPT, segment->path, "has %llu rows and %llu elements, the manifest says %llu and %llu",
                   (unsigned long long)segment->meta.n_rows, (unsigned long long)segment->meta.nnz, (unsigned long long)ref->n_rows,
                   (unsigned long long)ref->nnz);
}

/* Its records hold the ids that the manifest says. */
static annb_status check_gene_order(const annb_store *store, const annb_segment *segment, const annb_fmt_part_matrix *pm, annb_error *err) {
  static const uint8_t none[ANNB_SHA256_SIZE] = {0};
  const uint8_t *stated = pm->gene_order == ANNB_NONE ? none : store->manifest.objects[pm->gene_order].sha256;
  if (!memcmp(segment->header.gene_order, stated, sizeof none)) return ANNB_OK;
  return annb_fail(err, ANNB_ECORRUPT, segment->path, "is for another gene order than the manifest names for it");
}

static annb_status open_segment(const annb_store *store, const annb_fmt_part_matrix *pm, uint32_t row, annb_segment **out,
                                annb_error *err) {
  const annb_fmt_segment_ref *ref = &store->manifest.segments[row];
  const annb_fmt_object *object = &store->manifest.objects[ref->object];
  char *path = annb_store_object_path(store, ref->object);
  if (!path) return annb_fail_memory(err);
  annb_segment *segment = NULL;
  annb_status s = annb_segment_open(path, &segment, err);
  if (!s) s = annb_check_object(object, &segment->map, &segment->envelope, path, err);
  if (!s) s = check_place(segment, pm, ref, store->segment_first[row] - store->segment_first[pm->first_segment], err);
  if (!s) s = check_gene_order(store, segment, pm, err);
  free(path);
  if (!s) *out = segment;
  else if (segment) annb_segment_close(segment);
  return s;
}

/* The opened segment of row `row` of the segment table, which belongs to `pm` and no other; it opens on first use. */
static annb_status get_segment(const annb_store *store, const annb_fmt_part_matrix *pm, uint32_t row, annb_segment **out, annb_error *err) {
  annb_segment_slot *slot = &store->segments[row];
  annb_segment *mine = NULL, *kept = atomic_load_explicit(slot, memory_order_acquire);
  if (!kept) {
    annb_status s = open_segment(store, pm, row, &mine, err);
    if (s) return s;
    if (atomic_compare_exchange_strong(slot, &kept, mine)) kept = mine;
    else annb_segment_close(mine);
  }
  *out = kept;
  return ANNB_OK;
}

/* ---- rows ---- */

annb_status annb_locator_begin(annb_locator *locator, const annb_store *store, uint32_t matrix, const annb_fetch_options *options,
                               annb_error *err) {
  if (matrix >= store->manifest.n_matrices)
    return annb_fail(err, ANNB_ERANGE, store->path, "has %u matrices, there is no matrix %u", store->manifest.n_matrices, matrix);
  bool stored = options && options->gene_order == ANNB_GENES_STORED;
  *locator = (annb_locator){.store = store, .matrix = matrix, .original = options && !stored, .stored = stored};
  return ANNB_OK;
}

static annb_status no_matrix(annb_locator *l, uint32_t part, uint64_t row, annb_error *err) {
  const annb_store *store = l->store;
  if (store->manifest.matrices[l->matrix].absent != ANNB_ABSENT_ZERO)
    return annb_fail_row(err, ANNB_ENOTFOUND, store->path, (int64_t)row, "row %llu is in part %u, which has no matrix '%s'",
                         (unsigned long long)row, part, store->matrix_names[l->matrix]);
  l->segment = NULL;
  l->genes = NULL;
  l->first = store->part_first[part];
  l->end = store->part_first[part + 1];
  return ANNB_OK;
}

/* What is to become of the ids of the part's records. */
static annb_status choose_genes(annb_locator *l, const annb_fmt_part_matrix *pm, uint32_t part, uint64_t row, annb_error *err) {
  l->genes = NULL;
  if (l->original && l->of_part) return annb_get_gene_order(l->store, pm, &l->genes, err);
  if (l->original) return annb_get_store_genes(l->store, part, pm, &l->genes, err);
  if (!l->stored) return ANNB_OK;
  if (annb_part_matrix_mapped(l->store, part, pm))
    return annb_fail_row(err, ANNB_EINVAL, l->store->path, (int64_t)row,
                         "row %llu is in part %u, whose genes are mapped to the store's: ask for original order",
                         (unsigned long long)row, part);
  if (l->order_known && l->order != pm->gene_order)
    return annb_fail_row(err, ANNB_EINVAL, l->store->path, (int64_t)row,
                         "row %llu is in part %u, and parts have different gene orders: ask for original order, or for rows of fewer parts",
                         (unsigned long long)row, part);
  l->order_known = true;
  l->order = pm->gene_order;
  return ANNB_OK;
}

/* Point the locator at the segment that has the row. */
static annb_status seek(annb_locator *l, uint64_t row, annb_error *err) {
  const annb_store *store = l->store;
  const annb_manifest *m = &store->manifest;
  if (row >= m->store.n_obs)
    return annb_fail_row(err, ANNB_ERANGE, store->path, row > INT64_MAX ? INT64_MAX : (int64_t)row, "has %llu rows, there is no row %llu",
                         (unsigned long long)m->store.n_obs, (unsigned long long)row);
  uint32_t part = last_not_after(store->part_first, m->n_parts, row);
  const annb_fmt_part_matrix *pm = annb_find_part_matrix(store, part, l->matrix);
  if (!pm) return no_matrix(l, part, row, err);
  uint64_t part_row = row - store->part_first[part];
  const uint64_t *firsts = store->segment_first + pm->first_segment;
  uint32_t i = last_not_after(firsts, pm->n_segments, firsts[0] + part_row);
  annb_segment *segment;
  annb_status s = choose_genes(l, pm, part, row, err);
  if (!s) s = get_segment(store, pm, pm->first_segment + i, &segment, err);
  if (s) return s;
  l->segment = segment;
  l->first = store->part_first[part] + (firsts[i] - firsts[0]);
  l->end = l->first + segment->meta.n_rows;
  return ANNB_OK;
}

annb_status annb_locate_place(annb_locator *l, uint64_t row, annb_located *out, annb_error *err) {
  if (row < l->first || row >= l->end) {
    annb_status s = seek(l, row, err);
    if (s) {
      l->first = l->end = 0;
      return s;
    }
  }
  out->segment = l->segment;
  out->genes = l->genes;
  out->store_row = row;
  out->segment_row = row - l->first;
  out->record = (annb_record_ref){NULL, 0, 0, 0};
  return ANNB_OK;
}

annb_status annb_locate(annb_locator *l, uint64_t row, annb_located *out, annb_error *err) {
  annb_status s = annb_locate_place(l, row, out, err);
  if (s || !l->segment) return s;
  s = annb_segment_locate(l->segment, out->segment_row, &out->record, err);
  return s ? annb_name_row(out, s, err) : ANNB_OK;
}

/* ---- rows one after the other ---- */

annb_status annb_walk_begin(annb_walk *walk, const annb_store *store, uint32_t matrix, const annb_fetch_options *options,
                            const uint64_t *rows, size_t n_rows, annb_error *err) {
  walk->rows = rows;
  walk->n_rows = n_rows;
  walk->n_located = walk->n_prefetched = walk->at = 0;
  return annb_locator_begin(&walk->locator, store, matrix, options, err);
}

/* The next row that is not located yet. */
static annb_status locate_next(annb_walk *walk, annb_error *err) {
  size_t i = walk->n_located++;
  return annb_locate(&walk->locator, walk->rows[i], &walk->kept[i % ANNB_WALK_KEPT], err);
}

/* The next rows, as many as are kept: the index of all is on its way into the cache before the first is read. */
static annb_status locate_kept(annb_walk *walk, annb_error *err) {
  size_t first = walk->n_located, left = walk->n_rows - first, n = left < ANNB_WALK_KEPT ? left : ANNB_WALK_KEPT, n_placed = 0;
  annb_status placed = ANNB_OK, s = ANNB_OK;
  for (; n_placed < n; n_placed++) {
    annb_located *row = &walk->kept[n_placed];
    if ((placed = annb_locate_place(&walk->locator, walk->rows[first + n_placed], row, err))) break;
    if (row->segment) annb_segment_prefetch_entry(row->segment, row->segment_row);
  }
  for (size_t i = 0; !s && i < n_placed; i++) {
    annb_located *row = &walk->kept[i];
    if (!row->segment) continue;
    s = annb_segment_locate(row->segment, row->segment_row, &row->record, err);
    if (s) annb_name_row(row, s, err);
  }
  walk->n_located += n_placed;
  return s ? s : placed;
}

annb_status annb_walk_count(annb_walk *walk, int64_t *indptr, annb_error *err) {
  const annb_locator start = walk->locator;
  indptr[0] = 0;
  for (size_t i = 0; i < walk->n_rows; i++) {
    annb_status s = i % ANNB_WALK_KEPT ? ANNB_OK : locate_kept(walk, err);
    if (s) return s;
    uint32_t n = walk->kept[i % ANNB_WALK_KEPT].record.nnz;
    if (indptr[i] > INT64_MAX - n)
      return annb_fail(err, ANNB_ERANGE, start.store->path, "the rows have more than 2^63 - 1 elements; ask for fewer rows");
    indptr[i + 1] = indptr[i] + n;
  }
  if (walk->n_rows <= ANNB_WALK_KEPT) return ANNB_OK;
  walk->locator = start; /* too many to be kept: from the start again */
  walk->n_located = 0;
  return ANNB_OK;
}

annb_status annb_walk_places(annb_walk *walk, annb_error *err) {
  annb_locator locator = walk->locator;
  annb_located row;
  annb_status s = ANNB_OK;
  for (size_t i = 0; !s && i < walk->n_rows; i++) s = annb_locate_place(&locator, walk->rows[i], &row, err);
  return s;
}

annb_status annb_walk_next(annb_walk *walk, const annb_located **row, annb_error *err) {
  size_t ahead = walk->at + PREFETCH_ROWS < walk->n_rows ? walk->at + PREFETCH_ROWS : walk->n_rows;
  while (walk->n_located < ahead) {
    annb_status s = locate_next(walk, err);
    if (s) return s;
  }
  for (; walk->n_prefetched < ahead; walk->n_prefetched++) annb_record_prefetch(&walk->kept[walk->n_prefetched % ANNB_WALK_KEPT].record);
  *row = &walk->kept[walk->at++ % ANNB_WALK_KEPT];
  return ANNB_OK;
}

annb_status annb_name_row(const annb_located *row, annb_status status, annb_error *err) {
  if (!err) return status;
  char text[sizeof err->message];
  const char *path = row->segment->path;
  size_t n = strlen(path);
  /* the message starts with the path, which is said again */
  bool prefixed = !strncmp(err->message, path, n) && !strncmp(err->message + n, ": ", 2);
  snprintf(text, sizeof text, "%s", err->message + (prefixed ? n + 2 : 0));
  return annb_fail_row(err, status, path, (int64_t)row->store_row, "store row %llu (segment row %llu): %s",
                       (unsigned long long)row->store_row, (unsigned long long)row->segment_row, text);
}
