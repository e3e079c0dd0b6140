/* Objects that a manifest names. The SHA-256 is told only when nothing more exact was found: it says that a file is damaged, not where. */
#include "verify.h"

#include "../objects/arrays.h"
#include "../cursor.h"
#include "../error.h"
#include "../objects/order.h"
#include "../objects/segment.h"

#include <stdlib.h>
#include <string.h>

#define ULL(x) ((unsigned long long)(x))

/* Who uses an object: lists through `next`, so that many users of many objects stay linear. */
typedef struct users {
  uint32_t *first_segment, *next_segment; /* per object; per segment row */
  uint32_t *first_part, *next_part;       /* per object: parts whose columns it holds; per part */
  uint32_t *first_genes, *next_genes;     /* per object: part matrices whose gene order it holds; per part matrix */
  uint32_t *first_source, *next_source;   /* the same of the source's order */
  uint32_t *matrix;                       /* per segment row: its part matrix */
  uint32_t *part;                         /* per part matrix */
  uint64_t *row_base;                     /* per segment row */
} users;

static uint32_t *none_list(uint32_t n) {
  uint32_t *list = malloc(((size_t)n + 1) * sizeof *list);
  for (uint32_t i = 0; list && i < n; i++) list[i] = ANNB_NONE;
  return list;
}

static void users_free(users *u) {
  free(u->first_segment);
  free(u->next_segment);
  free(u->first_part);
  free(u->next_part);
  free(u->first_genes);
  free(u->next_genes);
  free(u->first_source);
  free(u->next_source);
  free(u->matrix);
  free(u->part);
  free(u->row_base);
}

static bool users_alloc(users *u, const annb_manifest *m) {
  *u = (users){.first_segment = none_list(m->n_objects),
               .next_segment = none_list(m->n_segments),
               .first_part = none_list(m->n_objects),
               .next_part = none_list(m->n_parts),
               .first_genes = none_list(m->n_objects),
               .next_genes = none_list(m->n_part_matrices),
               .first_source = none_list(m->n_objects),
               .next_source = none_list(m->n_part_matrices),
               .matrix = none_list(m->n_segments),
               .part = none_list(m->n_part_matrices),
               .row_base = calloc((size_t)m->n_segments + 1, sizeof *u->row_base)};
  return u->first_segment && u->next_segment && u->first_part && u->next_part && u->first_genes && u->next_genes && u->first_source &&
         u->next_source && u->matrix && u->part && u->row_base;
}

/* Put `user` before the others of the object. */
static void use(uint32_t *first, uint32_t *next, uint32_t object, uint32_t user) {
  if (object == ANNB_NONE) return;
  next[user] = first[object];
  first[object] = user;
}

/* The manifest was validated: every reference is in range. */
static void users_fill(users *u, const annb_manifest *m) {
  for (uint32_t p = 0; p < m->n_part_matrices; p++) {
    uint64_t row_base = 0;
    for (uint32_t k = 0; k < m->part_matrices[p].n_segments; k++) {
      uint32_t s = m->part_matrices[p].first_segment + k, object = m->segments[s].object;
      u->matrix[s] = p;
      u->row_base[s] = row_base;
      use(u->first_segment, u->next_segment, object, s);
      row_base += m->segments[s].n_rows;
    }
  }
  for (uint32_t p = 0; p < m->n_parts; p++) {
    const annb_fmt_part *part = &m->parts[p];
    use(u->first_part, u->next_part, part->columns, p);
    for (uint32_t i = part->first_matrix; i < part->first_matrix + part->n_matrices; i++) {
      u->part[i] = p;
      use(u->first_genes, u->next_genes, m->part_matrices[i].gene_order, i);
      use(u->first_source, u->next_source, m->part_matrices[i].source_order, i);
    }
  }
}

/* ---- one object ---- */

typedef struct target {
  annb_verifier *v;
  const annb_manifest *manifest;
  const users *users;
  uint32_t object;
  char *path;
} target;

static bool tell(void *user, const annb_error *finding) {
  annb_verifier *v = user;
  annb_verifier_tell(v, finding);
  return !v->stopped;
}

#define FOUND(t, status, ...)                            \
  do {                                                   \
    annb_error finding_;                                 \
    annb_fail(&finding_, status, (t)->path, __VA_ARGS__); \
    annb_verifier_tell((t)->v, &finding_);               \
  } while (0)

static void check_footer(target *t, const annb_envelope *envelope) {
  if (memcmp(envelope->trailer.footer_hash, t->manifest->objects[t->object].footer_hash, sizeof envelope->trailer.footer_hash))
    FOUND(t, ANNB_ECORRUPT, "is another file than the manifest names: its footer hash differs");
}

static bool same_gene_order(const annb_manifest *m, const annb_segment *g, const annb_fmt_part_matrix *pm) {
  if (pm->gene_order == ANNB_NONE) return annb_all_zero(g->header.gene_order, sizeof g->header.gene_order);
  return !memcmp(g->header.gene_order, m->objects[pm->gene_order].sha256, sizeof g->header.gene_order);
}

/* What the manifest says of a segment, in every place that names it. */
static void check_segment_users(target *t, const annb_segment *g) {
  const annb_manifest *m = t->manifest;
  for (uint32_t s = t->users->first_segment[t->object]; s != ANNB_NONE && !t->v->stopped; s = t->users->next_segment[s]) {
    const annb_fmt_part_matrix *pm = &m->part_matrices[t->users->matrix[s]];
    if (g->meta.n_rows != m->segments[s].n_rows || g->meta.nnz != m->segments[s].nnz)
      FOUND(t, ANNB_ECORRUPT, "has %llu rows and %llu elements; the manifest says %llu and %llu", ULL(g->meta.n_rows), ULL(g->meta.nnz),
            ULL(m->segments[s].n_rows), ULL(m->segments[s].nnz));
    else if (g->header.n_cols != pm->n_cols || g->header.dtype != pm->dtype)
      FOUND(t, ANNB_ECORRUPT, "has %llu columns and value type %u; the manifest says %llu and %u", ULL(g->header.n_cols), g->header.dtype,
            ULL(pm->n_cols), pm->dtype);
    else if (g->header.row_base != t->users->row_base[s])
      FOUND(t, ANNB_ECORRUPT, "starts at row %llu of its part; the manifest has it at row %llu", ULL(g->header.row_base),
            ULL(t->users->row_base[s]));
    else if (!same_gene_order(m, g, pm))
      FOUND(t, ANNB_ECORRUPT, "is for another gene order than the manifest names for it");
  }
}

/* The store row of a segment's row 0, when one place alone uses it, and with as many rows as it has. */
static int64_t first_store_row(const target *t, const annb_segment *g) {
  const annb_manifest *m = t->manifest;
  uint32_t s = t->users->first_segment[t->object], first = 0, end = m->n_parts;
  if (s == ANNB_NONE || t->users->next_segment[s] != ANNB_NONE || m->segments[s].n_rows != g->meta.n_rows) return ANNB_NO_ROW;
  while (end - first > 1) { /* the last part whose matrices start at or before this one */
    uint32_t middle = first + (end - first) / 2;
    if (m->parts[middle].first_matrix <= t->users->matrix[s]) first = middle;
    else end = middle;
  }
  return (int64_t)(t->v->part_first[first] + t->users->row_base[s]);
}

static void check_segment(target *t) {
  annb_segment *segment;
  annb_error err;
  if (annb_segment_open(t->path, &segment, &err)) {
    annb_verifier_tell(t->v, &err);
    return;
  }
  check_footer(t, &segment->envelope);
  if (!t->v->stopped) check_segment_users(t, segment);
  t->v->first_row = first_store_row(t, segment);
  if (!t->v->stopped) annb_segment_verify(segment, tell, t->v);
  t->v->first_row = ANNB_NO_ROW;
  annb_segment_close(segment);
}

/* Columns are as long as the part that they describe. */
static void check_part_columns(target *t, const annb_arrays *arrays) {
  for (uint32_t p = t->users->first_part[t->object]; p != ANNB_NONE; p = t->users->next_part[p]) {
    const annb_fmt_part *part = &t->manifest->parts[p];
    for (uint32_t i = 0; i < arrays->n_columns && !t->v->stopped; i++) {
      annb_fmt_column c = annb_arrays_column(arrays, i);
      uint64_t length = c.axis == ANNB_AXIS_OBS ? part->n_rows : c.axis == ANNB_AXIS_VAR ? part->n_vars : c.length;
      if (c.length != length) FOUND(t, ANNB_ECORRUPT, "column %u has %llu rows, its part %llu", i, ULL(c.length), ULL(length));
    }
  }
}

/* Gene orders are permutations of their matrices' columns. */
static void check_gene_order(target *t, annb_arrays *arrays) {
  const uint32_t *ids;
  uint64_t n;
  annb_error err;
  uint32_t p = t->users->first_genes[t->object];
  if (p == ANNB_NONE) return;
  if (annb_gene_order_read(arrays, &ids, &n, &err)) {
    annb_verifier_tell(t->v, &err);
    return;
  }
  for (; p != ANNB_NONE && !t->v->stopped; p = t->users->next_genes[p])
    if (t->manifest->part_matrices[p].n_cols != n)
      FOUND(t, ANNB_ECORRUPT, "has a gene order of %llu columns, its matrix has %llu", ULL(n), ULL(t->manifest->part_matrices[p].n_cols));
}

static void check_orders(target *t, annb_arrays *arrays) {
  if (!t->v->stopped) check_gene_order(t, arrays);
  for (uint32_t p = t->users->first_source[t->object]; p != ANNB_NONE && !t->v->stopped; p = t->users->next_source[p])
    annb_verifier_source_order(t->v, t->manifest, t->users->part[p], p, arrays);
}

static void check_arrays(target *t) {
  annb_arrays *arrays;
  annb_error err;
  uint64_t before = t->v->n_findings;
  if (annb_arrays_open(t->path, &arrays, &err)) {
    annb_verifier_tell(t->v, &err);
    return;
  }
  check_footer(t, &arrays->envelope);
  if (!t->v->stopped) check_part_columns(t, arrays);
  if (!t->v->stopped) annb_arrays_verify(arrays, tell, t->v);
  if (t->v->n_findings == before) check_orders(t, arrays); /* damaged bytes need no second finding */
  annb_arrays_close(arrays);
}

static void check_contents(target *t) {
  uint8_t sha256[ANNB_SHA256_SIZE];
  uint64_t size, before = t->v->n_findings;
  annb_error err;
  const annb_fmt_object *object = &t->manifest->objects[t->object];
  if (annb_verifier_hash(t->v, t->path, sha256, &size, &err)) {
    annb_verifier_tell(t->v, &err);
    return;
  }
  if (size != object->size) FOUND(t, ANNB_ECORRUPT, "has %llu bytes, the manifest says %llu", ULL(size), ULL(object->size));
  if (!t->v->stopped && object->kind == ANNB_OBJECT_SEGMENT) check_segment(t);
  if (!t->v->stopped && object->kind == ANNB_OBJECT_ARRAYS) check_arrays(t);
  if (!t->v->stopped && t->v->n_findings == before && memcmp(sha256, object->sha256, sizeof sha256))
    FOUND(t, ANNB_ECORRUPT, "is damaged: its SHA-256 is not its name");
}

static void check_object(target *t) {
  annb_path_kind kind;
  annb_error err;
  t->path = annb_object_path(t->v->store, &t->manifest->objects[t->object]);
  if (!t->path) {
    annb_fail_memory(&err);
    annb_verifier_tell(t->v, &err);
    return;
  }
  t->v->file = t->path + strlen(t->v->store) + 1;
  if (annb_io_kind(t->path, &kind, &err)) annb_verifier_tell(t->v, &err);
  else if (kind == ANNB_PATH_ABSENT) FOUND(t, ANNB_ENOTFOUND, "is missing: the manifest names it");
  else check_contents(t);
  free(t->path);
}

static uint64_t *part_starts(const annb_manifest *m) {
  uint64_t *first = calloc((size_t)m->n_parts + 1, sizeof *first);
  for (uint32_t i = 0; first && i < m->n_parts; i++) first[i + 1] = first[i] + m->parts[i].n_rows;
  return first;
}

void annb_verifier_some_objects(annb_verifier *v, const annb_manifest *manifest, uint32_t first, uint32_t end) {
  users u;
  annb_error err;
  v->part_first = part_starts(manifest);
  if (users_alloc(&u, manifest) && v->part_first) {
    users_fill(&u, manifest);
    for (uint32_t i = first; i < end && !v->stopped; i++) {
      target t = {v, manifest, &u, i, NULL};
      check_object(&t);
    }
  } else {
    annb_fail_memory(&err);
    annb_verifier_tell(v, &err);
  }
  users_free(&u);
  free(v->part_first);
  v->part_first = NULL;
}

void annb_verifier_objects(annb_verifier *v, const annb_manifest *manifest) {
  annb_verifier_some_objects(v, manifest, 0, manifest->n_objects);
}
