#include "join.h"

#include "../../store/error.h"
#include "../convert_values.h"

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

char *annb_join_column_name(const annb_arrays *arrays, const annb_fmt_column *column) {
  return strndup(arrays->names + column->name_offset, column->name_length);
}

/* ---- objects ---- */

void annb_join_memory_free(annb_join_memory *memory) {
  for (uint32_t i = 0; i < memory->n; i++) free(memory->bytes[i]);
  free(memory->bytes);
  *memory = (annb_join_memory){NULL, 0};
}

annb_status annb_join_memory_put(annb_join_memory *memory, uint32_t row, bool is_new, uint8_t *bytes, annb_error *err) {
  if (!is_new) {
    free(bytes);
    return ANNB_OK;
  }
  uint8_t **grown = realloc(memory->bytes, ((size_t)row + 1) * sizeof *grown);
  if (!grown) {
    free(bytes);
    return annb_fail_memory(err);
  }
  memory->bytes = grown;
  while (memory->n <= row) grown[memory->n++] = NULL;
  grown[row] = bytes;
  return ANNB_OK;
}

annb_status annb_join_writer_open(const annb_join_target *target, annb_arrays_writer **out, annb_error *err) {
  return target->txn ? annb_arrays_writer_open(target->txn, out, err) : annb_arrays_writer_open_memory(out, err);
}

annb_status annb_join_writer_close(const annb_join_target *target, annb_arrays_writer *writer, annb_manifest *draft, uint32_t *row,
                                   annb_error *err) {
  if (target->txn) {
    uint32_t object;
    annb_status s = annb_arrays_writer_close(writer, &object, err);
    return s ? s : annb_txn_add_to(target->txn, object, draft, row, err);
  }
  annb_fmt_object object;
  uint8_t *bytes = NULL;
  uint32_t n_before = draft->n_objects;
  annb_status s = annb_arrays_writer_close_memory(writer, &object, &bytes, err);
  if (!s) s = annb_manifest_add_object(draft, &object, row, err);
  if (!s) return annb_join_memory_put(target->memory, *row, *row == n_before, bytes, err);
  free(bytes);
  return s;
}

annb_status annb_join_write_array(const annb_join_target *target, annb_manifest *draft, const char *name, annb_dtype dtype,
                                  const void *values, uint64_t n, uint32_t *row, annb_error *err) {
  annb_arrays_writer *w;
  uint32_t array;
  annb_status s = annb_join_writer_open(target, &w, err);
  if (s) return s;
  s = annb_arrays_begin(w, name, dtype, 1, &array, err);
  if (!s) s = annb_arrays_append(w, values, n, err);
  if (!s) s = annb_arrays_end(w, err);
  if (s) annb_arrays_writer_abort(w);
  else s = annb_join_writer_close(target, w, draft, row, err);
  return s;
}

/* ---- files ---- */

void annb_join_close(annb_join_files *files) {
  for (uint32_t i = 0; files->columns && i < files->n; i++) annb_arrays_close(files->columns[i]);
  annb_arrays_close(files->genes);
  free(files->columns);
  *files = (annb_join_files){.columns = NULL};
}

annb_status annb_join_check_lengths(const annb_arrays *arrays, uint64_t n_rows, uint64_t n_vars, annb_error *err) {
  for (uint32_t i = 0; i < arrays->n_columns; i++) {
    annb_fmt_column c = annb_arrays_column(arrays, i);
    uint64_t length = c.axis == ANNB_AXIS_OBS ? n_rows : c.axis == ANNB_AXIS_VAR ? n_vars : c.length;
    if (c.length != length)
      return annb_fail(err, ANNB_ECORRUPT, arrays->path, "column %u has %llu rows, its axis %llu", i, ULL(c.length), ULL(length));
  }
  return ANNB_OK;
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
  if (n > 1 && m->axes == ANNB_OBS_RAW_VAR && !join->stores)
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

annb_status annb_join_matrices(const annb_join *join, annb_manifest *draft, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint32_t i = 0; !s && i < draft->n_matrices; i++) s = join_matrix(join, draft, i, err);
  return s;
}
