#include "part.h"

#include "../source/matrices.h"
#include "columns.h"

#include "../../store/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- open ---- */

static bool wants_all(const annb_pack_options *o) {
  for (size_t i = 0; i < o->n_matrices; i++)
    if (!strcmp(o->matrices[i], "all")) return true;
  return false;
}

static bool wants(const annb_pack_options *o, const char *name) {
  for (size_t i = 0; i < o->n_matrices; i++)
    if (!strcmp(o->matrices[i], name)) return true;
  return !o->n_matrices && !strcmp(name, "X");
}

static annb_status not_there(const annb_pack_part *p, const char *name, const annb_names *there, annb_error *err) {
  char list[1200] = "";
  for (size_t i = 0; i < there->n; i++) {
    size_t at = strlen(list);
    int n = snprintf(list + at, sizeof list - at, "%s%.200s", i ? ", " : "", there->name[i]);
    if (n >= (int)(sizeof list - at) - 8) {
      strcpy(list + at, ", …");
      break;
    }
  }
  return annb_fail(err, ANNB_ENOTFOUND, p->input, "has no matrix '%.200s' of numbers with a row for each cell; what can be packed: %s",
                   name, there->n ? list : "nothing");
}

/* Every name asked for is there. */
static annb_status check_asked(const annb_pack_part *p, const annb_names *there, annb_error *err) {
  const annb_pack_options *o = p->options;
  for (size_t i = 0; i < o->n_matrices; i++) {
    bool found = !strcmp(o->matrices[i], "all");
    for (size_t k = 0; k < there->n && !found; k++) found = !strcmp(o->matrices[i], there->name[k]);
    if (!found) return not_there(p, o->matrices[i], there, err);
  }
  return ANNB_OK;
}

/* With "all" a matrix of a kind that cannot be packed stays where it is; but not X, which nobody would expect to find there. */
static annb_status open_matrix(annb_pack_part *p, const char *name, bool all, annb_error *err) {
  annb_error why = {.status = ANNB_OK};
  annb_pack_matrix *m = &p->matrices[p->n_matrices++];
  annb_status s = annb_pack_matrix_open(m, &p->source, name, &why);
  if (!s) annb_source_matrix_close_values(&m->from);
  if (s == ANNB_EUNSUPPORTED && all && strcmp(name, "X")) {
    annb_pack_matrix_close(m);
    p->n_matrices--;
    if (!p->n_left++) p->left = why;
    return ANNB_OK;
  }
  if (s && err) *err = why;
  return s;
}

static annb_status open_matrices(annb_pack_part *p, annb_error *err) {
  annb_names there;
  bool all = wants_all(p->options);
  annb_status s = annb_source_matrices(&p->source, &there, err);
  if (s) return s;
  s = check_asked(p, &there, err);
  p->matrices = calloc(there.n + 1, sizeof *p->matrices);
  if (!s && !p->matrices) s = annb_fail_memory(err);
  for (size_t i = 0; i < there.n && !s; i++)
    if (all || wants(p->options, there.name[i])) s = open_matrix(p, there.name[i], all, err);
  annb_names_free(&there);
  return s;
}

annb_status annb_pack_part_open(annb_pack_part *part, const char *input, const annb_pack_options *options, annb_error *err) {
  *part = (annb_pack_part){.input = input, .options = options};
  if (stat(input, &part->before)) return annb_fail_errno(err, input, "open");
  annb_status s = annb_source_open(&part->source, input, options->memory, err);
  if (s) return s;
  part->spec = (annb_part_spec){part->source.obs.length, part->source.var.length, ANNB_NONE, ANNB_NONE, ANNB_NONE, ANNB_NONE};
  if (options->shuffle) s = annb_shuffle_open(part->spec.n_rows, options->seed, &part->shuffle, err);
  return s ? s : open_matrices(part, err);
}

void annb_pack_part_close(annb_pack_part *part) {
  for (size_t i = 0; i < part->n_matrices; i++) annb_pack_matrix_close(&part->matrices[i]);
  free(part->matrices);
  annb_shuffle_close(part->shuffle);
  if (part->source.path) annb_source_close(&part->source);
  *part = (annb_pack_part){.input = NULL};
}

annb_status annb_pack_part_unchanged(const annb_pack_part *part, annb_error *err) {
  struct stat now;
  const struct stat *before = &part->before;
  if (stat(part->input, &now)) return annb_fail_errno(err, part->input, "examine");
  if (now.st_dev == before->st_dev && now.st_ino == before->st_ino && now.st_size == before->st_size &&
      now.st_mtim.tv_sec == before->st_mtim.tv_sec && now.st_mtim.tv_nsec == before->st_mtim.tv_nsec)
    return ANNB_OK;
  return annb_fail(err, ANNB_EINPUT, part->input, "changed while it was read: pack it again when its writer is done");
}

/* ---- write ---- */

annb_status annb_pack_part_write_columns(annb_pack_part *part, annb_txn *txn, annb_error *err) {
  return annb_columns_write(&part->source, txn, part->shuffle, part->options->progress, part->options->user, &part->spec.columns, err);
}

annb_status annb_pack_part_write_sidecar(annb_pack_part *part, annb_txn *txn, const annb_packed *packed, size_t n_packed, annb_error *err) {
  const annb_going going = {part->options->progress, part->options->user, "writing the sidecar", part->input, "packing"};
  const char *sidecar, *restore;
  annb_status s = annb_going_on(&going, err);
  if (!s) s = annb_txn_temp_path(txn, &sidecar, err);
  if (!s) s = annb_txn_temp_path(txn, &restore, err);
  if (!s) s = annb_sidecar_write(part->source.file, part->input, packed, n_packed, sidecar, restore, &going, err);
  if (!s) s = annb_txn_add_file(txn, sidecar, ANNB_OBJECT_SIDECAR, &part->spec.sidecar, err);
  return s ? s : annb_txn_add_file(txn, restore, ANNB_OBJECT_RESTORE, &part->spec.restore, err);
}

static annb_status write_rest(annb_pack_part *part, annb_txn *txn, annb_error *err) {
  annb_packed *packed = calloc(part->n_matrices + 1, sizeof *packed);
  if (!packed) return annb_fail_memory(err);
  for (size_t i = 0; i < part->n_matrices; i++) {
    const annb_pack_matrix *m = &part->matrices[i];
    packed[i] = (annb_packed){m->from.path, m->from.nnz, m->keep_indices, m->from.float_pointers};
  }
  annb_status s = annb_pack_part_write_sidecar(part, txn, packed, part->n_matrices, err);
  free(packed);
  return s;
}

annb_status annb_pack_part_write(annb_pack_part *part, annb_txn *txn, annb_error *err) {
  annb_status s = part->spec.columns == ANNB_NONE ? annb_pack_part_write_columns(part, txn, err) : ANNB_OK;
  if (!s && part->shuffle) s = annb_shuffle_write(part->shuffle, txn, &part->spec.row_order, err);
  for (size_t i = 0; i < part->n_matrices && !s; i++)
    s = annb_pack_matrix_write(&part->matrices[i], &part->source, txn, part->spec.columns, part->options, part->shuffle, err);
  return s ? s : write_rest(part, txn, err);
}

annb_status annb_pack_part_attach(annb_pack_part *part, uint32_t row, const uint32_t *matrix_rows, uint64_t *nnz, annb_error *err) {
  annb_status s = ANNB_OK;
  uint64_t all = 0, one = 0;
  for (size_t i = 0; i < part->n_matrices && !s; i++) {
    s = annb_pack_matrix_attach(&part->matrices[i], row, matrix_rows[i], &one, err);
    all += one;
  }
  if (!s && nnz) *nnz = all;
  return s;
}
