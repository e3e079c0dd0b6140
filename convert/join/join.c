#include "join.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

static annb_status open_file(const annb_txn *txn, const annb_fmt_object *object, annb_arrays **out, annb_error *err) {
  char *path = annb_txn_object_path(txn, object);
  if (!path) return annb_fail_memory(err);
  annb_status s = annb_arrays_open(path, out, err);
  if (!s &&
      ((*out)->map.size != object->size || memcmp((*out)->envelope.trailer.footer_hash, object->footer_hash, sizeof object->footer_hash)))
    s = annb_fail(err, ANNB_ECORRUPT, path, "is not the file that the manifest names");
  free(path);
  return s;
}

annb_status annb_join_open(const annb_txn *txn, const annb_manifest *m, annb_join_files *out, annb_error *err) {
  *out = (annb_join_files){.columns = calloc((size_t)m->n_parts + 1, sizeof *out->columns), .n = m->n_parts};
  annb_status s = out->columns ? ANNB_OK : annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < m->n_parts; i++) {
    if (m->parts[i].columns == ANNB_NONE) continue;
    s = open_file(txn, &m->objects[m->parts[i].columns], &out->columns[i], err);
    if (!s) s = annb_join_check_lengths(out->columns[i], m->parts[i].n_rows, m->parts[i].n_vars, err);
  }
  if (!s && m->store.var_object != ANNB_NONE) s = open_file(txn, &m->objects[m->store.var_object], &out->genes, err);
  if (s) annb_join_close(out);
  return s;
}

annb_status annb_join_build(void *user, annb_txn *txn, const annb_manifest *base, annb_manifest *draft, annb_error *err) {
  annb_join *join = user;
  annb_join_files files;
  const annb_join_target target = {.txn = txn};
  uint32_t first_new = base->n_parts;
  join->first_label = first_new;
  annb_status s = annb_join_open(txn, draft, &files, err);
  if (s) return s;
  if (draft->n_parts > first_new) s = annb_join_genes(join, &target, &files, first_new, draft, err);
  if (!s) s = annb_join_columns(join, &target, &files, draft, err);
  if (!s) s = annb_join_matrices(join, draft, err);
  annb_join_close(&files);
  return s;
}
