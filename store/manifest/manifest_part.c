/* One part of a store as the store that it would be by itself. */
#include "../error.h"
#include "manifest.h"

#include <stdlib.h>
#include <string.h>

/* The matrices that the part has, in the order of the table, as they are in it. */
static annb_status take_matrices(annb_manifest *m, annb_error *err) {
  uint32_t *to = malloc(((size_t)m->n_matrices + 1) * sizeof *to), n = 0;
  if (!to) return annb_fail_memory(err);
  for (uint32_t i = 0; i < m->n_matrices; i++) to[i] = ANNB_NONE;
  for (uint32_t i = 0; i < m->n_part_matrices; i++) to[m->part_matrices[i].matrix] = i;
  for (uint32_t i = 0; i < m->n_matrices; i++) {
    if (to[i] == ANNB_NONE) continue;
    annb_fmt_part_matrix *pm = &m->part_matrices[to[i]];
    m->matrices[n] = m->matrices[i];
    m->matrices[n].n_cols = pm->n_cols;
    m->matrices[n].dtype = pm->dtype;
    m->matrices[n].absent = ANNB_ABSENT_NEVER;
    pm->matrix = n++;
  }
  m->n_matrices = n;
  free(to);
  return ANNB_OK;
}

static void take_segments(annb_manifest *m) {
  uint32_t first = 0, n = 0;
  if (m->n_part_matrices) first = m->part_matrices[0].first_segment;
  for (uint32_t i = 0; i < m->n_part_matrices; i++) {
    m->part_matrices[i].first_segment -= first;
    n += m->part_matrices[i].n_segments;
  }
  if (n) memmove(m->segments, m->segments + first, n * sizeof *m->segments);
  m->n_segments = n;
}

annb_status annb_manifest_take_part(annb_manifest *m, uint32_t part, const char *path, annb_error *err) {
  if (part >= m->n_parts)
    return annb_fail(err, ANNB_ENOTFOUND, path, "has %u part%s (numbered from 0), there is no part %u", m->n_parts,
                     m->n_parts == 1 ? "" : "s", part);
  annb_fmt_part p = m->parts[part];
  if (p.n_matrices) memmove(m->part_matrices, m->part_matrices + p.first_matrix, p.n_matrices * sizeof *m->part_matrices);
  m->n_part_matrices = p.n_matrices;
  p.first_matrix = 0;
  p.gene_map = p.code_map = ANNB_NONE;
  m->parts[0] = p;
  m->n_parts = 1;
  m->n_schema = 0;
  m->store.n_obs = p.n_rows;
  m->store.n_vars = p.n_vars;
  m->store.var_part = 0;
  m->store.var_object = ANNB_NONE;
  take_segments(m);
  annb_status s = take_matrices(m, err);
  return s ? s : annb_manifest_prune(m, err);
}
