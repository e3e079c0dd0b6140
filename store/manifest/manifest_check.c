/* What the tables of a manifest must satisfy, by themselves and among each other (SPEC.md, section 5). */
#include "../cursor.h"
#include "../error.h"
#include "manifest.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

/* Running totals of one matrix over the parts. */
typedef struct total {
  uint64_t nnz;
  uint32_t n_parts;
  uint32_t last_part;
} total;

typedef struct check {
  const annb_manifest *m;
  const char *path;
  total *totals; /* one per matrix */
  annb_error *err;
} check;

#define CORRUPT(...) annb_fail(c->err, ANNB_ECORRUPT, c->path, __VA_ARGS__)
#define ULL(x) ((unsigned long long)(x))

/* `row` of the table `what` names an object of that kind, or none when that is allowed. */
static annb_status check_object_ref(const check *c, const char *what, uint32_t row, const char *field, uint32_t object, uint32_t kind,
                                    bool optional) {
  if (object == ANNB_NONE && optional) return ANNB_OK;
  if (object >= c->m->n_objects) return CORRUPT("%s %u: %s names object %u of %u", what, row, field, object, c->m->n_objects);
  if (c->m->objects[object].kind != kind)
    return CORRUPT("%s %u: %s names object %u, which is of kind %u, not %u", what, row, field, object, c->m->objects[object].kind, kind);
  return ANNB_OK;
}

/* ---- store and objects ---- */

static annb_status check_store(const check *c) {
  const annb_fmt_store *store = &c->m->store;
  if (!annb_all_zero(store->zero0, sizeof store->zero0)) return CORRUPT("store row has a field that must be zero");
  if (store->n_obs > ANNB_MAX_ROWS || store->n_vars > ANNB_MAX_COLS)
    return CORRUPT("states %llu cells and %llu genes, more than the format allows", ULL(store->n_obs), ULL(store->n_vars));
  if (c->m->n_parts == 0) return CORRUPT("has no parts");
  if (store->var_part == ANNB_NONE) return check_object_ref(c, "store", 0, "var_object", store->var_object, ANNB_OBJECT_ARRAYS, false);
  if (store->var_part >= c->m->n_parts || store->var_object != ANNB_NONE)
    return CORRUPT("the list of genes is said to be in part %u of %u and object %u", store->var_part, c->m->n_parts, store->var_object);
  if (c->m->parts[store->var_part].gene_map != ANNB_NONE)
    return CORRUPT("the list of genes is said to be in part %u, which has a gene map", store->var_part);
  return ANNB_OK;
}

static int by_identity(const void *a, const void *b) {
  const annb_fmt_object *x = *(const annb_fmt_object *const *)a, *y = *(const annb_fmt_object *const *)b;
  int order = memcmp(x->sha256, y->sha256, sizeof x->sha256);
  return order ? order : x->kind < y->kind ? -1 : x->kind > y->kind;
}

static annb_status check_objects_distinct(const check *c) {
  uint32_t n = c->m->n_objects;
  if (n < 2) return ANNB_OK;
  const annb_fmt_object **sorted = malloc(n * sizeof *sorted);
  if (!sorted) return annb_fail_memory(c->err);
  for (uint32_t i = 0; i < n; i++) sorted[i] = &c->m->objects[i];
  qsort(sorted, n, sizeof *sorted, by_identity);
  annb_status s = ANNB_OK;
  for (uint32_t i = 1; !s && i < n; i++) {
    if (by_identity(&sorted[i - 1], &sorted[i]) == 0)
      s = CORRUPT("objects %td and %td are the same", sorted[i - 1] - c->m->objects, sorted[i] - c->m->objects);
  }
  free(sorted);
  return s;
}

static annb_status check_objects(const check *c) {
  for (uint32_t i = 0; i < c->m->n_objects; i++) {
    const annb_fmt_object *o = &c->m->objects[i];
    bool opaque = o->kind == ANNB_OBJECT_SIDECAR || o->kind == ANNB_OBJECT_RESTORE;
    if (!annb_object_suffix((annb_object_kind)o->kind)) return CORRUPT("object %u has the unknown kind %u", i, o->kind);
    if (o->zero0 || (opaque && !annb_all_zero(o->footer_hash, sizeof o->footer_hash)))
      return CORRUPT("object %u has a field that must be zero", i);
    if (o->size > INT64_MAX) return CORRUPT("object %u states %llu bytes", i, ULL(o->size));
  }
  return check_objects_distinct(c);
}

/* ---- matrices ---- */

typedef struct name_ref {
  const char *bytes;
  uint32_t length, matrix;
} name_ref;

static int by_bytes(const void *a, const void *b) {
  const name_ref *x = a, *y = b;
  int order = memcmp(x->bytes, y->bytes, x->length < y->length ? x->length : y->length);
  return order ? order : x->length < y->length ? -1 : x->length > y->length;
}

static annb_status check_names_distinct(const check *c) {
  uint32_t n = c->m->n_matrices;
  if (n < 2) return ANNB_OK;
  name_ref *sorted = malloc(n * sizeof *sorted);
  if (!sorted) return annb_fail_memory(c->err);
  for (uint32_t i = 0; i < n; i++) sorted[i] = (name_ref){c->m->names + c->m->matrices[i].name_offset, c->m->matrices[i].name_length, i};
  qsort(sorted, n, sizeof *sorted, by_bytes);
  annb_status s = ANNB_OK;
  for (uint32_t i = 1; !s && i < n; i++) {
    if (by_bytes(&sorted[i - 1], &sorted[i]) == 0) s = CORRUPT("matrices %u and %u have one name", sorted[i - 1].matrix, sorted[i].matrix);
  }
  free(sorted);
  return s;
}

static annb_status check_matrix(const check *c, uint32_t i) {
  const annb_fmt_matrix *m = &c->m->matrices[i];
  uint32_t pool = c->m->names_length;
  if (m->name_offset > pool || m->name_length > pool - m->name_offset) return CORRUPT("matrix %u: its name is outside the names", i);
  if (m->name_length == 0 || m->name_length > ANNB_MAX_NAME) return CORRUPT("matrix %u has a name of %u bytes", i, m->name_length);
  if (memchr(c->m->names + m->name_offset, 0, m->name_length)) return CORRUPT("matrix %u has a zero byte in its name", i);
  if (m->axes < ANNB_OBS_VAR || m->axes > ANNB_OBS_FREE) return CORRUPT("matrix %u has unknown axes %u", i, m->axes);
  if (!annb_dtype_size((annb_dtype)m->dtype)) return CORRUPT("matrix %u has the unknown dtype %u", i, m->dtype);
  if (m->absent > ANNB_ABSENT_ERROR) return CORRUPT("matrix %u has the unknown rule %u for parts without it", i, m->absent);
  if (!annb_all_zero(m->zero0, sizeof m->zero0)) return CORRUPT("matrix %u has a field that must be zero", i);
  if (m->n_cols > ANNB_MAX_COLS) return CORRUPT("matrix %u states %llu columns", i, ULL(m->n_cols));
  if (m->axes == ANNB_OBS_VAR && m->n_cols != c->m->store.n_vars)
    return CORRUPT("matrix %u has %llu columns, the store %llu genes", i, ULL(m->n_cols), ULL(c->m->store.n_vars));
  return ANNB_OK;
}

static annb_status check_matrices(const check *c) {
  for (uint32_t i = 0; i < c->m->n_matrices; i++) {
    annb_status s = check_matrix(c, i);
    if (s) return s;
  }
  return check_names_distinct(c);
}

/* ---- parts, their matrices, segments ---- */

/* Rows and nnz of the segments of one matrix of a part. */
static annb_status check_segments(const check *c, uint32_t row, uint64_t n_rows) {
  const annb_fmt_part_matrix *pm = &c->m->part_matrices[row];
  uint64_t rows = 0, nnz = 0;
  for (uint32_t i = pm->first_segment; i < pm->first_segment + pm->n_segments; i++) {
    const annb_fmt_segment_ref *segment = &c->m->segments[i];
    uint64_t most;
    annb_status s = check_object_ref(c, "segment", i, "object", segment->object, ANNB_OBJECT_SEGMENT, false);
    if (s) return s;
    if (!annb_all_zero(segment->zero0, sizeof segment->zero0)) return CORRUPT("segment %u has a field that must be zero", i);
    if (segment->n_rows > n_rows - rows)
      return CORRUPT("part matrix %u: its segments have more rows than its part (%llu)", row, ULL(n_rows));
    if (segment->nnz > ANNB_MAX_NNZ - nnz || (annb_mul(segment->n_rows, ANNB_MAX_ROW_NNZ, &most) && segment->nnz > most))
      return CORRUPT("segment %u states %llu nonzeros in %llu rows", i, ULL(segment->nnz), ULL(segment->n_rows));
    rows += segment->n_rows;
    nnz += segment->nnz;
  }
  if (rows != n_rows) return CORRUPT("part matrix %u: its segments have %llu rows, its part %llu", row, ULL(rows), ULL(n_rows));
  if (nnz != pm->nnz) return CORRUPT("part matrix %u states %llu nonzeros, its segments %llu", row, ULL(pm->nnz), ULL(nnz));
  return ANNB_OK;
}

static annb_status check_part_matrix_refs(const check *c, uint32_t row) {
  const annb_fmt_part_matrix *pm = &c->m->part_matrices[row];
  bool has_order = c->m->export_mask & ANNB_EXPORT_SOURCE_ORDER;
  if (pm->flat != ANNB_NONE)
    return annb_fail(c->err, ANNB_EUNSUPPORTED, c->path,
                     "part matrix %u is stored as a flat array, which this release cannot read: use a newer annblock", row);
  if (pm->source_order != ANNB_NONE && !has_order)
    return CORRUPT("part matrix %u names a source order without the feature bit for it", row);
  annb_status s = check_object_ref(c, "part matrix", row, "gene_order", pm->gene_order, ANNB_OBJECT_ARRAYS, true);
  return s ? s : check_object_ref(c, "part matrix", row, "source_order", pm->source_order, ANNB_OBJECT_ARRAYS, true);
}

/* One matrix of part `part`; *next is the segment that its list must start with. */
static annb_status check_part_matrix(const check *c, uint32_t part, uint32_t row, uint32_t *next) {
  const annb_fmt_part_matrix *pm = &c->m->part_matrices[row];
  if (pm->matrix >= c->m->n_matrices) return CORRUPT("part matrix %u names matrix %u of %u", row, pm->matrix, c->m->n_matrices);
  total *t = &c->totals[pm->matrix];
  if (t->n_parts && t->last_part == part) return CORRUPT("part %u has matrix %u twice", part, pm->matrix);
  if (!annb_dtype_size((annb_dtype)pm->dtype)) return CORRUPT("part matrix %u has the unknown dtype %u", row, pm->dtype);
  if (pm->form < ANNB_CSR || pm->form > ANNB_DENSE) return CORRUPT("part matrix %u has the unknown form %u", row, pm->form);
  if (!annb_all_zero(pm->zero0, sizeof pm->zero0)) return CORRUPT("part matrix %u has a field that must be zero", row);
  bool mapped = c->m->matrices[pm->matrix].axes == ANNB_OBS_VAR && c->m->parts[part].gene_map != ANNB_NONE;
  uint64_t n_cols = mapped ? c->m->parts[part].n_vars : c->m->matrices[pm->matrix].n_cols;
  if (pm->n_cols != n_cols) return CORRUPT("part matrix %u has %llu columns, its matrix %llu", row, ULL(pm->n_cols), ULL(n_cols));
  if (pm->first_segment != *next || pm->n_segments > c->m->n_segments - *next)
    return CORRUPT("part matrix %u: its %u segments from %u overlap others, leave a gap or are too many", row, pm->n_segments,
                   pm->first_segment);
  *next += pm->n_segments;
  annb_status s = check_part_matrix_refs(c, row);
  if (!s) s = check_segments(c, row, c->m->parts[part].n_rows);
  if (s) return s;
  if (pm->nnz > ANNB_MAX_NNZ - t->nnz) return CORRUPT("matrix %u has more nonzeros than the format allows", pm->matrix);
  *t = (total){t->nnz + pm->nnz, t->n_parts + 1, part};
  return ANNB_OK;
}

static annb_status check_part_refs(const check *c, uint32_t i) {
  const annb_fmt_part *p = &c->m->parts[i];
  uint64_t bits = c->m->incompat;
  if ((p->gene_map != ANNB_NONE && !(bits & ANNB_INCOMPAT_GENE_MAP)) || (p->code_map != ANNB_NONE && !(bits & ANNB_INCOMPAT_CODE_MAP)) ||
      p->row_filter != ANNB_NONE) /* which comes with a bit that this edition refuses */
    return CORRUPT("part %u has a gene map, category remap or row filter without the feature bit for it", i);
  if (p->row_order != ANNB_NONE && !(c->m->export_mask & ANNB_EXPORT_ROW_ORDER))
    return CORRUPT("part %u names a row order without the feature bit for it", i);
  annb_status s = check_object_ref(c, "part", i, "columns", p->columns, ANNB_OBJECT_ARRAYS, true);
  if (!s) s = check_object_ref(c, "part", i, "sidecar", p->sidecar, ANNB_OBJECT_SIDECAR, true);
  if (!s) s = check_object_ref(c, "part", i, "restore", p->restore, ANNB_OBJECT_RESTORE, true);
  if (!s) s = check_object_ref(c, "part", i, "row_order", p->row_order, ANNB_OBJECT_ARRAYS, true);
  if (!s) s = check_object_ref(c, "part", i, "gene_map", p->gene_map, ANNB_OBJECT_ARRAYS, true);
  if (!s) s = check_object_ref(c, "part", i, "code_map", p->code_map, ANNB_OBJECT_ARRAYS, true);
  return s;
}

/* Part i; *next_matrix and *next_segment are the rows that its lists must start with. */
static annb_status check_part(const check *c, uint32_t i, uint32_t *next_matrix, uint32_t *next_segment) {
  const annb_fmt_part *p = &c->m->parts[i];
  if (!annb_all_zero(p->zero0, sizeof p->zero0)) return CORRUPT("part %u has a field that must be zero", i);
  if (p->n_vars > ANNB_MAX_COLS || (p->n_vars != c->m->store.n_vars && p->gene_map == ANNB_NONE))
    return CORRUPT("part %u has %llu genes, the store %llu", i, ULL(p->n_vars), ULL(c->m->store.n_vars));
  if (p->first_matrix != *next_matrix || p->n_matrices > c->m->n_part_matrices - *next_matrix)
    return CORRUPT("part %u: its %u matrices from %u overlap others, leave a gap or are too many", i, p->n_matrices, p->first_matrix);
  *next_matrix += p->n_matrices;
  annb_status s = check_part_refs(c, i);
  for (uint32_t row = p->first_matrix; !s && row < *next_matrix; row++) s = check_part_matrix(c, i, row, next_segment);
  return s;
}

static annb_status check_parts(const check *c) {
  const annb_manifest *m = c->m;
  uint32_t next_matrix = 0, next_segment = 0;
  uint64_t rows = 0;
  for (uint32_t i = 0; i < m->n_parts; i++) {
    if (m->parts[i].n_rows > m->store.n_obs - rows) return CORRUPT("its parts have more rows than the store (%llu)", ULL(m->store.n_obs));
    rows += m->parts[i].n_rows;
    annb_status s = check_part(c, i, &next_matrix, &next_segment);
    if (s) return s;
  }
  if (rows != m->store.n_obs) return CORRUPT("its parts have %llu rows, the store %llu", ULL(rows), ULL(m->store.n_obs));
  if (next_matrix != m->n_part_matrices || next_segment != m->n_segments) return CORRUPT("has matrices or segments that belong to no part");
  for (uint32_t i = 0; i < m->n_matrices; i++) {
    if (m->matrices[i].absent == ANNB_ABSENT_NEVER && c->totals[i].n_parts != m->n_parts)
      return CORRUPT("matrix %u is missing in a part", i);
  }
  return ANNB_OK;
}

/* ---- schema ---- */

static annb_status check_schema_row(const check *c, uint32_t i) {
  const annb_fmt_schema *r = &c->m->schema[i];
  uint32_t pool = c->m->names_length;
  bool string = r->kind == ANNB_COLUMN_STRING, categorical = r->kind == ANNB_COLUMN_CATEGORICAL;
  if (r->name_offset > pool || r->name_length > pool - r->name_offset || r->name_length > ANNB_MAX_NAME ||
      (r->name_length && memchr(c->m->names + r->name_offset, 0, r->name_length)))
    return CORRUPT("schema row %u: its name is outside the names or not valid", i);
  if (r->axis != ANNB_AXIS_OBS) return CORRUPT("schema row %u is of axis %u, not of obs", i, r->axis);
  if (r->kind < ANNB_COLUMN_FIXED || r->kind > ANNB_COLUMN_CATEGORICAL) return CORRUPT("schema row %u has the unknown kind %u", i, r->kind);
  if (string ? r->dtype != 0 : categorical ? r->dtype != ANNB_I32 : !annb_dtype_size((annb_dtype)r->dtype))
    return CORRUPT("schema row %u has dtype %u, which is not for its kind", i, r->dtype);
  if ((r->flags & ~(ANNB_COLUMN_INDEX | ANNB_COLUMN_ORDERED)) || ((r->flags & ANNB_COLUMN_ORDERED) && !categorical) ||
      ((r->flags & ANNB_COLUMN_INDEX) && i))
    return CORRUPT("schema row %u has flags %u, which are not for its kind or place", i, r->flags);
  if (!annb_all_zero(r->zero0, sizeof r->zero0)) return CORRUPT("schema row %u has a field that must be zero", i);
  if (categorical != (r->categories_column != ANNB_NONE))
    return CORRUPT("schema row %u names categories that its kind has not, or none", i);
  return check_object_ref(c, "schema row", i, "categories_object", r->categories_object, ANNB_OBJECT_ARRAYS, !categorical);
}

/* Two columns of one name; the index may have the name of one. */
static annb_status check_schema_distinct(const check *c) {
  uint32_t n = c->m->n_schema, k = 0;
  name_ref *sorted = malloc(((size_t)n + 1) * sizeof *sorted);
  if (!sorted) return annb_fail_memory(c->err);
  for (uint32_t i = 0; i < n; i++)
    if (!(c->m->schema[i].flags & ANNB_COLUMN_INDEX))
      sorted[k++] = (name_ref){c->m->names + c->m->schema[i].name_offset, c->m->schema[i].name_length, i};
  qsort(sorted, k, sizeof *sorted, by_bytes);
  annb_status s = ANNB_OK;
  for (uint32_t i = 1; !s && i < k; i++)
    if (by_bytes(&sorted[i - 1], &sorted[i]) == 0)
      s = CORRUPT("schema rows %u and %u have one name", sorted[i - 1].matrix, sorted[i].matrix);
  free(sorted);
  return s;
}

static annb_status check_schema(const check *c) {
  annb_status s = ANNB_OK;
  if (c->m->n_schema == 0) return ANNB_OK;
  if (!(c->m->incompat & ANNB_INCOMPAT_SCHEMA)) return CORRUPT("has a schema without the feature bit for it");
  if (c->m->n_parts < 2) return CORRUPT("has a schema for %u parts", c->m->n_parts);
  if ((uint64_t)c->m->n_schema * c->m->n_parts > ANNB_MAX_SCHEMA_PLACES)
    return CORRUPT("states %u columns for %u parts, more than the format allows", c->m->n_schema, c->m->n_parts);
  for (uint32_t i = 0; !s && i < c->m->n_schema; i++) s = check_schema_row(c, i);
  return s ? s : check_schema_distinct(c);
}

annb_status annb_manifest_check(const annb_manifest *manifest, const char *path, annb_error *err) {
  check c = {.m = manifest, .path = path, .err = err};
  annb_status s = check_store(&c);
  if (!s) s = check_objects(&c);
  if (!s) s = check_matrices(&c);
  if (!s) s = check_schema(&c);
  if (s) return s;
  c.totals = calloc((size_t)manifest->n_matrices + 1, sizeof *c.totals);
  if (!c.totals) return annb_fail_memory(err);
  s = check_parts(&c);
  free(c.totals);
  return s;
}
