#include "join.h"

#include "../../reader/convert_values.h"
#include "../../store/error.h"

#include <annblock/annblock.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ULL(x) ((unsigned long long)(x))

/* ---- for messages ---- */

void annb_join_label(const annb_join *join, uint32_t part, char text[256]) {
  if (part >= join->first_label && part - join->first_label < join->n_labels)
    snprintf(text, 256, "%.255s", join->labels[part - join->first_label]);
  else snprintf(text, 256, "part %u of %.230s", part, join->store);
}

void annb_join_note(const annb_join *join, const char *format, ...) {
  char text[1024];
  va_list args;
  if (!join->note) return;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  join->note(join->user, text);
}

/* ---- files ---- */

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

static annb_status check_lengths(const annb_arrays *arrays, const annb_fmt_part *part, annb_error *err) {
  for (uint32_t i = 0; i < arrays->n_columns; i++) {
    annb_fmt_column c = annb_arrays_column(arrays, i);
    uint64_t length = c.axis == ANNB_AXIS_OBS ? part->n_rows : c.axis == ANNB_AXIS_VAR ? part->n_vars : c.length;
    if (c.length != length)
      return annb_fail(err, ANNB_ECORRUPT, arrays->path, "column %u has %llu rows, its part %llu", i, ULL(c.length), ULL(length));
  }
  return ANNB_OK;
}

annb_status annb_join_open(const annb_txn *txn, const annb_manifest *m, annb_join_files *out, annb_error *err) {
  *out = (annb_join_files){.columns = calloc((size_t)m->n_parts + 1, sizeof *out->columns), .n = m->n_parts};
  annb_status s = out->columns ? ANNB_OK : annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < m->n_parts; i++) {
    if (m->parts[i].columns == ANNB_NONE) continue;
    s = open_file(txn, &m->objects[m->parts[i].columns], &out->columns[i], err);
    if (!s) s = check_lengths(out->columns[i], &m->parts[i], err);
  }
  if (!s && m->store.var_object != ANNB_NONE) s = open_file(txn, &m->objects[m->store.var_object], &out->genes, err);
  if (s) annb_join_close(out);
  return s;
}

void annb_join_close(annb_join_files *files) {
  for (uint32_t i = 0; files->columns && i < files->n; i++) annb_arrays_close(files->columns[i]);
  annb_arrays_close(files->genes);
  free(files->columns);
  *files = (annb_join_files){.columns = NULL};
}

annb_status annb_join_write_array(annb_txn *txn, annb_manifest *draft, const char *name, annb_dtype dtype, const void *values, uint64_t n,
                                  uint32_t *row, annb_error *err) {
  annb_arrays_writer *w;
  uint32_t array, object;
  annb_status s = annb_arrays_writer_open(txn, &w, err);
  if (s) return s;
  s = annb_arrays_begin(w, name, dtype, 1, &array, err);
  if (!s) s = annb_arrays_append(w, values, n, err);
  if (!s) s = annb_arrays_end(w, err);
  if (s) annb_arrays_writer_abort(w);
  else s = annb_arrays_writer_close(w, &object, err);
  return s ? s : annb_txn_add_to(txn, object, draft, row, err);
}

char *annb_join_column_name(const annb_arrays *arrays, const annb_fmt_column *column) {
  return strndup(arrays->names + column->name_offset, column->name_length);
}

/* ---- matrices ---- */

/* What readers deliver of a matrix that parts have in several dtypes: the smallest that holds all, or else the widest of the kind. */
static annb_dtype join_dtypes(annb_dtype a, annb_dtype b) {
  annb_dtype both = annb_common_dtype(a, b);
  return both ? both : a >= ANNB_F16 || b >= ANNB_F16 ? ANNB_F64 : ANNB_I64;
}

static annb_status join_matrix(const annb_join *join, annb_manifest *draft, uint32_t matrix, annb_error *err) {
  annb_fmt_matrix *m = &draft->matrices[matrix];
  const char *name = draft->names + m->name_offset;
  uint32_t n = 0;
  annb_dtype dtype = (annb_dtype)m->dtype;
  for (uint32_t i = 0; i < draft->n_part_matrices; i++) {
    if (draft->part_matrices[i].matrix != matrix) continue;
    annb_dtype of_part = (annb_dtype)draft->part_matrices[i].dtype;
    dtype = n++ ? join_dtypes(dtype, of_part) : of_part;
  }
  if (n > 1 && m->axes == ANNB_OBS_RAW_VAR)
    return annb_fail(err, ANNB_EUNSUPPORTED, NULL,
                     "%.*s has a list of genes of its own in each file, which cannot be joined: leave it in the sidecars",
                     (int)m->name_length, name);
  if (dtype != m->dtype)
    annb_join_note(join, "%.*s has other value types in other parts: readers deliver %s by default", (int)m->name_length, name,
                   annb_dtype_name(dtype));
  m->dtype = (uint8_t)dtype;
  if (m->axes == ANNB_OBS_VAR) m->n_cols = draft->store.n_vars;
  if (n < draft->n_parts && m->absent == ANNB_ABSENT_NEVER) {
    m->absent = ANNB_ABSENT_ERROR;
    annb_join_note(join, "%.*s is in %u of %u parts: reading it is an error in cells of the others", (int)m->name_length, name, n,
                   draft->n_parts);
  }
  return ANNB_OK;
}

/* ---- all of it ---- */

annb_status annb_join_build(void *user, annb_txn *txn, const annb_manifest *base, annb_manifest *draft, annb_error *err) {
  annb_join *join = user;
  annb_join_files files;
  uint32_t first_new = base->n_parts;
  join->first_label = first_new;
  annb_status s = annb_join_open(txn, draft, &files, err);
  if (s) return s;
  if (draft->n_parts > first_new) s = annb_join_genes(join, txn, &files, first_new, draft, err);
  if (!s) s = annb_join_columns(join, txn, &files, draft, err);
  for (uint32_t i = 0; !s && i < draft->n_matrices; i++) s = join_matrix(join, draft, i, err);
  annb_join_close(&files);
  return s;
}
