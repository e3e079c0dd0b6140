/* One manifest behind another (SPEC.md, section 7: append). */
#include "../error.h"
#include "manifest.h"

#include <stdlib.h>
#include <string.h>

/* Rows of `more` in the tables of `m`. */
typedef struct places {
  uint32_t *objects, *matrices;
} places;

static uint32_t place_of(const uint32_t *rows, uint32_t row) { return row == ANNB_NONE ? ANNB_NONE : rows[row]; }

static annb_status append_objects(annb_manifest *m, const annb_manifest *more, places *to, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint32_t i = 0; !s && i < more->n_objects; i++) s = annb_manifest_add_object(m, &more->objects[i], &to->objects[i], err);
  return s;
}

static annb_status append_matrix(annb_manifest *m, const annb_manifest *more, uint32_t i, uint32_t *row, annb_error *err) {
  const annb_fmt_matrix *from = &more->matrices[i];
  char *name = annb_manifest_matrix_name(more, i);
  if (!name) return annb_fail_memory(err);
  annb_status s = ANNB_OK;
  *row = annb_manifest_find_matrix(m, name);
  if (*row == ANNB_NONE) {
    annb_fmt_matrix copy = *from;
    if (copy.axes == ANNB_OBS_VAR && m->n_parts) copy.n_cols = m->store.n_vars;
    s = annb_manifest_add_matrix(m, name, copy, row, err);
  } else {
    const annb_fmt_matrix *there = &m->matrices[*row];
    if (there->axes != from->axes || (from->axes != ANNB_OBS_VAR && there->n_cols != from->n_cols))
      s = annb_fail(err, ANNB_EINVAL, NULL, "matrix '%.200s' has %llu columns in the store and %llu in what is added: leave it out", name,
                    (unsigned long long)there->n_cols, (unsigned long long)from->n_cols);
  }
  free(name);
  return s;
}

static annb_status append_segments(annb_manifest *m, const annb_manifest *more, const annb_fmt_part_matrix *pm, const places *to,
                                   annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint32_t i = 0; !s && i < pm->n_segments; i++) {
    annb_fmt_segment_ref ref = more->segments[pm->first_segment + i];
    ref.object = place_of(to->objects, ref.object);
    s = annb_manifest_add_segment(m, &ref, err);
  }
  return s;
}

static annb_status append_part(annb_manifest *m, const annb_manifest *more, uint32_t i, const places *to, annb_error *err) {
  annb_fmt_part part = more->parts[i];
  uint32_t end = i + 1 < more->n_parts ? more->parts[i + 1].first_matrix : more->n_part_matrices, row;
  uint32_t *const refs[] = {&part.columns, &part.sidecar, &part.restore, &part.gene_map, &part.code_map, &part.row_order, &part.row_filter};
  for (size_t k = 0; k < sizeof refs / sizeof *refs; k++) *refs[k] = place_of(to->objects, *refs[k]);
  part.n_matrices = 0;
  for (uint32_t k = part.first_matrix; k < end; k++) part.n_matrices += to->matrices[more->part_matrices[k].matrix] != ANNB_NONE;
  part.first_matrix = m->n_part_matrices;
  annb_status s = annb_manifest_add_part(m, &part, &row, err);
  for (uint32_t k = more->parts[i].first_matrix; !s && k < end; k++) {
    annb_fmt_part_matrix pm = more->part_matrices[k];
    if (to->matrices[pm.matrix] == ANNB_NONE) continue;
    pm.first_segment = m->n_segments;
    pm.matrix = to->matrices[pm.matrix];
    pm.gene_order = place_of(to->objects, pm.gene_order);
    pm.source_order = place_of(to->objects, pm.source_order);
    pm.flat = place_of(to->objects, pm.flat);
    s = annb_manifest_add_part_matrix(m, &pm, err);
    if (!s) s = append_segments(m, more, &more->part_matrices[k], to, err);
  }
  return s;
}

annb_status annb_manifest_append(annb_manifest *m, const annb_manifest *more, const bool *left_out, annb_error *err) {
  places to = {calloc((size_t)more->n_objects + 1, sizeof *to.objects), calloc((size_t)more->n_matrices + 1, sizeof *to.matrices)};
  annb_status s = to.objects && to.matrices ? append_objects(m, more, &to, err) : annb_fail_memory(err);
  if (!s && m->n_parts == 0) m->store.n_vars = more->store.n_vars;
  for (uint32_t i = 0; !s && i < more->n_matrices; i++) {
    if (left_out && left_out[i]) to.matrices[i] = ANNB_NONE;
    else s = append_matrix(m, more, i, &to.matrices[i], err);
  }
  for (uint32_t i = 0; !s && i < more->n_parts; i++) s = append_part(m, more, i, &to, err);
  m->export_mask |= more->export_mask;
  m->incompat |= more->incompat;
  free(to.objects);
  free(to.matrices);
  return s;
}

static uint32_t add_schema_object(annb_manifest *m, const annb_manifest *more, uint32_t object, annb_status *s, annb_error *err) {
  uint32_t row = ANNB_NONE;
  if (!*s && object != ANNB_NONE) *s = annb_manifest_add_object(m, &more->objects[object], &row, err);
  return row;
}

annb_status annb_manifest_append_schema(annb_manifest *m, const annb_manifest *more, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint32_t i = 0; !s && i < more->n_schema; i++) {
    annb_fmt_schema row = more->schema[i];
    char *name = strndup(more->names + row.name_offset, row.name_length);
    if (!name) return annb_fail_memory(err);
    row.categories_object = add_schema_object(m, more, row.categories_object, &s, err);
    if (!s) s = annb_manifest_add_schema(m, name, row, err);
    free(name);
  }
  return s;
}

/* ---- pruning ---- */

typedef void (*each_fn)(uint32_t *object, uint32_t *to);

static void each_reference(annb_manifest *m, each_fn each, uint32_t *to) {
  each(&m->store.var_object, to);
  for (uint32_t i = 0; i < m->n_parts; i++) {
    annb_fmt_part *p = &m->parts[i];
    uint32_t *const refs[] = {&p->columns, &p->sidecar, &p->restore, &p->gene_map, &p->code_map, &p->row_order, &p->row_filter};
    for (size_t k = 0; k < sizeof refs / sizeof *refs; k++) each(refs[k], to);
  }
  for (uint32_t i = 0; i < m->n_part_matrices; i++) {
    each(&m->part_matrices[i].gene_order, to);
    each(&m->part_matrices[i].source_order, to);
    each(&m->part_matrices[i].flat, to);
  }
  for (uint32_t i = 0; i < m->n_segments; i++) each(&m->segments[i].object, to);
  for (uint32_t i = 0; i < m->n_schema; i++) each(&m->schema[i].categories_object, to);
}

static void mark(uint32_t *object, uint32_t *to) {
  if (*object != ANNB_NONE) to[*object] = 1;
}

static void renumber(uint32_t *object, uint32_t *to) { *object = place_of(to, *object); }

annb_status annb_manifest_prune(annb_manifest *m, annb_error *err) {
  uint32_t *to = calloc((size_t)m->n_objects + 1, sizeof *to), n = 0;
  if (!to) return annb_fail_memory(err);
  each_reference(m, mark, to);
  for (uint32_t i = 0; i < m->n_objects; i++) {
    if (!to[i]) continue;
    m->objects[n] = m->objects[i];
    to[i] = n++;
  }
  m->n_objects = n;
  each_reference(m, renumber, to);
  free(to);
  return ANNB_OK;
}
