#include "arrays.h"
#include "../cursor.h"
#include "../error.h"
#include "../commit/txn.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

enum { SPOOL = 8192 }; /* string offsets kept in memory before they go to a temporary file */

struct annb_string_writer {
  annb_arrays_writer *writer;
  uint32_t bytes_array;
  uint64_t total;   /* bytes so far */
  int spool;        /* anonymous file, -1 while the offsets fit in memory */
  uint64_t spooled; /* offsets in it */
  uint64_t *offsets; /* those that follow */
  uint64_t n_offsets, room;
};

struct annb_arrays_writer {
  annb_txn *txn;    /* NULL: in memory */
  const char *path; /* of the temporary file, the transaction's */
  annb_ofile file;
  annb_fmt_header header;
  uint8_t chunk[ANNB_CHUNK]; /* the bytes of the arrays section past the last whole chunk */
  uint32_t chunk_used;
  uint64_t *checks;
  uint64_t n_checks, room_checks;
  annb_fmt_array *arrays;
  annb_fmt_column *columns;
  char *names;
  uint32_t n_arrays, n_columns, names_length;
  bool in_array;
  annb_string_writer *strings; /* under way, or NULL */
  annb_status failed;          /* of the first failure that left the file incomplete */
};

/* ---- bytes and chunks ---- */

static annb_status end_chunk(annb_arrays_writer *w, const void *data, size_t size, annb_error *err) {
  if (w->n_checks == w->room_checks) {
    uint64_t room = w->room_checks ? 2 * w->room_checks : 64;
    uint64_t *checks = realloc(w->checks, room * sizeof *checks);
    if (!checks) return annb_fail_memory(err);
    w->checks = checks;
    w->room_checks = room;
  }
  w->checks[w->n_checks] = annb_mix(annb_hash64(data, size), 0, w->n_checks);
  w->n_checks++;
  return ANNB_OK;
}

/* Hash what goes into the arrays section, chunk by chunk. */
static annb_status hash_bytes(annb_arrays_writer *w, const uint8_t *data, size_t size, annb_error *err) {
  annb_status s = ANNB_OK;
  while (!s && size) {
    if (w->chunk_used == 0 && size >= ANNB_CHUNK) {
      s = end_chunk(w, data, ANNB_CHUNK, err);
      data += ANNB_CHUNK;
      size -= ANNB_CHUNK;
      continue;
    }
    size_t n = ANNB_CHUNK - w->chunk_used < size ? ANNB_CHUNK - w->chunk_used : size;
    memcpy(w->chunk + w->chunk_used, data, n);
    w->chunk_used += (uint32_t)n;
    data += n;
    size -= n;
    if (w->chunk_used < ANNB_CHUNK) continue;
    s = end_chunk(w, w->chunk, ANNB_CHUNK, err);
    w->chunk_used = 0;
  }
  return s;
}

/* After a failure here the file is of no use: every later call fails. */
static annb_status put(annb_arrays_writer *w, const void *data, size_t size, annb_error *err) {
  annb_status s = annb_ofile_write(&w->file, data, size, err);
  if (!s) s = hash_bytes(w, data, size, err);
  if (s) w->failed = s;
  return s;
}

static annb_status check_usable(const annb_arrays_writer *w, annb_error *err) {
  return w->failed ? annb_fail(err, w->failed, w->path, "cannot be completed: an earlier write to it failed") : ANNB_OK;
}

/* ---- open and close ---- */

static annb_status open_writer(annb_txn *txn, annb_arrays_writer **out, annb_error *err) {
  *out = NULL;
  annb_arrays_writer *w = calloc(1, sizeof *w);
  if (!w) return annb_fail_memory(err);
  w->txn = txn;
  w->path = "a table in memory";
  annb_status s = txn ? annb_txn_temp_path(txn, &w->path, err) : ANNB_OK;
  if (!s) s = txn ? annb_ofile_create(w->path, &w->file, err) : annb_ofile_in_memory(w->path, &w->file, err);
  annb_header_init(&w->header, ANNB_FILE_ARRAYS, NULL, 0);
  annb_header_seal(&w->header);
  if (!s) s = annb_ofile_write(&w->file, &w->header, sizeof w->header, err);
  if (s) annb_arrays_writer_abort(w);
  else *out = w;
  return s;
}

annb_status annb_arrays_writer_open(annb_txn *txn, annb_arrays_writer **out, annb_error *err) {
  if (!txn) return annb_fail(err, ANNB_EINVAL, NULL, "writing flat arrays needs a transaction");
  return open_writer(txn, out, err);
}

annb_status annb_arrays_writer_open_memory(annb_arrays_writer **out, annb_error *err) { return open_writer(NULL, out, err); }

static void free_strings(annb_string_writer *strings) {
  if (!strings) return;
  if (strings->spool >= 0) (void)annb_io_close(strings->spool, "", NULL);
  strings->writer->strings = NULL;
  free(strings->offsets);
  free(strings);
}

void annb_arrays_writer_abort(annb_arrays_writer *writer) {
  if (!writer) return;
  annb_ofile_abort(&writer->file);
  free_strings(writer->strings);
  free(writer->checks);
  free(writer->arrays);
  free(writer->columns);
  free(writer->names);
  free(writer);
}

static annb_status check_complete(const annb_arrays_writer *w, annb_error *err) {
  annb_arrays_tables tables = {(const uint8_t *)w->arrays, (const uint8_t *)w->columns, w->n_arrays, w->n_columns};
  annb_status s = check_usable(w, err);
  if (s) return s;
  if (w->in_array) return annb_fail(err, ANNB_EINVAL, w->path, "array %u is not ended", w->n_arrays - 1);
  for (int axis = ANNB_AXIS_OBS; axis <= ANNB_AXIS_VAR; axis++) {
    const char *fault = annb_arrays_axis_fault(&tables, (annb_axis)axis);
    if (fault) return annb_fail(err, ANNB_EINVAL, w->path, "the columns of %s are wrong: %s", axis == ANNB_AXIS_OBS ? "obs" : "var", fault);
  }
  return ANNB_OK;
}

static annb_status write_section(annb_arrays_writer *w, annb_section_list *list, uint32_t kind, const void *rows, size_t row_size,
                                 uint64_t n, annb_error *err) {
  return annb_section_write(list, &w->file, kind, ANNB_SECTION_CRITICAL, rows ? rows : "", row_size * n, kind == ANNB_SEC_NAMES ? 0 : n,
                            err);
}

static annb_status write_tables(annb_arrays_writer *w, uint8_t footer_hash[16], annb_error *err) {
  annb_section_list list = {.n = 0};
  annb_fmt_section *data = annb_section_begin(&list, ANNB_SEC_ARRAYS, ANNB_SECTION_CRITICAL, sizeof w->header);
  data->length = w->file.offset - sizeof w->header;
  annb_status s = w->chunk_used ? end_chunk(w, w->chunk, w->chunk_used, err) : ANNB_OK;
  if (!s) s = write_section(w, &list, ANNB_SEC_CHECKS, w->checks, sizeof *w->checks, w->n_checks, err);
  if (!s) s = write_section(w, &list, ANNB_SEC_ARRAY_TABLE, w->arrays, sizeof *w->arrays, w->n_arrays, err);
  if (!s) s = write_section(w, &list, ANNB_SEC_COLUMN_TABLE, w->columns, sizeof *w->columns, w->n_columns, err);
  if (!s) s = write_section(w, &list, ANNB_SEC_NAMES, w->names, 1, w->names_length, err);
  return s ? s : annb_envelope_write_end(&w->file, &w->header, &list, footer_hash, err);
}

annb_status annb_arrays_writer_close(annb_arrays_writer *writer, uint32_t *object, annb_error *err) {
  annb_fmt_object row = {.kind = ANNB_OBJECT_ARRAYS};
  annb_status s = check_complete(writer, err);
  if (!s) s = write_tables(writer, row.footer_hash, err);
  if (!s) {
    row.size = writer->file.offset;
    s = annb_ofile_finish(&writer->file, row.sha256, err);
    if (!s) s = annb_txn_adopt(writer->txn, writer->path, &row, object, err);
    if (s) annb_io_unlink(writer->path);
  }
  annb_arrays_writer_abort(writer);
  return s;
}

annb_status annb_arrays_writer_close_memory(annb_arrays_writer *writer, annb_fmt_object *object, uint8_t **bytes, annb_error *err) {
  *object = (annb_fmt_object){.kind = ANNB_OBJECT_ARRAYS};
  annb_status s = check_complete(writer, err);
  if (!s) s = write_tables(writer, object->footer_hash, err);
  object->size = writer->file.offset;
  if (!s) s = annb_ofile_take(&writer->file, object->sha256, bytes, err);
  annb_arrays_writer_abort(writer);
  return s;
}

/* ---- arrays ---- */

static annb_status add_name(annb_arrays_writer *w, const char *name, uint32_t *offset, uint32_t *length, annb_error *err) {
  size_t n = strlen(name);
  if (n > ANNB_MAX_NAME) return annb_fail(err, ANNB_EINVAL, w->path, "a name of %zu bytes is too long (limit %u)", n, ANNB_MAX_NAME);
  if (n > ANNB_NONE - 1 - w->names_length) return annb_fail(err, ANNB_EINVAL, w->path, "the names are too long together");
  char *names = realloc(w->names, w->names_length + n + 1);
  if (!names) return annb_fail_memory(err);
  memcpy(names + w->names_length, name, n);
  w->names = names;
  *offset = w->names_length;
  *length = (uint32_t)n;
  w->names_length += (uint32_t)n;
  return ANNB_OK;
}

static bool has_array(const annb_arrays_writer *w, const char *name) {
  size_t length = strlen(name);
  for (uint32_t i = 0; length && i < w->n_arrays; i++) {
    if (w->arrays[i].name_length == length && !memcmp(w->names + w->arrays[i].name_offset, name, length)) return true;
  }
  return false;
}

static annb_status begin(annb_arrays_writer *w, const char *name, annb_dtype dtype, uint64_t n_cols, uint32_t *array, annb_error *err) {
  static const uint8_t zeros[ANNB_ARRAY_ALIGN];
  annb_fmt_array row = {.n_cols = n_cols, .dtype = (uint8_t)dtype};
  if (w->n_arrays >= ANNB_NONE - 1) return annb_fail(err, ANNB_EINVAL, w->path, "has too many arrays");
  annb_fmt_array *rows = realloc(w->arrays, ((size_t)w->n_arrays + 1) * sizeof *rows);
  if (!rows) return annb_fail_memory(err);
  w->arrays = rows;
  annb_status s = add_name(w, name, &row.name_offset, &row.name_length, err);
  if (!s) s = put(w, zeros, (size_t)(annb_round_up(w->file.offset, ANNB_ARRAY_ALIGN) - w->file.offset), err);
  if (s) return s;
  row.offset = w->file.offset;
  rows[w->n_arrays] = row;
  *array = w->n_arrays++;
  w->in_array = true;
  return ANNB_OK;
}

static annb_status append(annb_arrays_writer *w, const void *rows, uint64_t n_rows, annb_error *err) {
  annb_fmt_array *array = &w->arrays[w->n_arrays - 1];
  uint64_t size;
  if (n_rows > ANNB_MAX_ROWS + 1 - array->n_rows)
    return annb_fail(err, ANNB_EINVAL, w->path, "array %u would have more than 2^40 rows", w->n_arrays - 1);
  if (!annb_mul(n_rows, array->n_cols, &size) || !annb_mul(size, annb_dtype_size((annb_dtype)array->dtype), &size) || size > SIZE_MAX)
    return annb_fail(err, ANNB_EINVAL, w->path, "array %u: %llu rows are too many", w->n_arrays - 1, (unsigned long long)n_rows);
  array->n_rows += n_rows;
  return size ? put(w, rows, (size_t)size, err) : ANNB_OK;
}

annb_status annb_arrays_begin(annb_arrays_writer *writer, const char *name, annb_dtype dtype, uint64_t n_cols, uint32_t *array,
                              annb_error *err) {
  annb_status s = check_usable(writer, err);
  if (s) return s;
  if (writer->in_array) return annb_fail(err, ANNB_EINVAL, writer->path, "array %u is not ended", writer->n_arrays - 1);
  if (!annb_dtype_size(dtype) || n_cols > ANNB_MAX_COLS)
    return annb_fail(err, ANNB_EINVAL, writer->path, "an array of dtype %d with %llu columns cannot be", (int)dtype,
                     (unsigned long long)n_cols);
  if (!name) name = "";
  if (has_array(writer, name)) return annb_fail(err, ANNB_EINVAL, writer->path, "has an array '%.200s' already", name);
  return begin(writer, name, dtype, n_cols, array, err);
}

annb_status annb_arrays_append(annb_arrays_writer *writer, const void *rows, uint64_t n_rows, annb_error *err) {
  annb_status s = check_usable(writer, err);
  if (s) return s;
  if (!writer->in_array || writer->strings) return annb_fail(err, ANNB_EINVAL, writer->path, "rows are given, but no array is begun");
  return append(writer, rows, n_rows, err);
}

annb_status annb_arrays_end(annb_arrays_writer *writer, annb_error *err) {
  annb_status s = check_usable(writer, err);
  if (s) return s;
  if (!writer->in_array || writer->strings) return annb_fail(err, ANNB_EINVAL, writer->path, "no array is begun that could be ended");
  writer->in_array = false;
  return ANNB_OK;
}

/* ---- strings ---- */

static annb_status spool_offsets(annb_string_writer *strings, annb_error *err) {
  const char *dir = annb_txn_tmp_dir(strings->writer->txn);
  annb_status s = strings->spool < 0 ? annb_io_anonymous(dir, &strings->spool, err) : ANNB_OK;
  if (!s) s = annb_io_write(strings->spool, dir, strings->offsets, SPOOL * sizeof *strings->offsets, err);
  if (s) return s;
  strings->spooled += SPOOL;
  strings->n_offsets = 0;
  return ANNB_OK;
}

static annb_status grow_offsets(annb_string_writer *strings, annb_error *err) {
  uint64_t room = strings->room ? 2 * strings->room : SPOOL;
  uint64_t *offsets = realloc(strings->offsets, (size_t)room * sizeof *offsets);
  if (!offsets) return annb_fail_memory(err);
  strings->offsets = offsets;
  strings->room = room;
  return ANNB_OK;
}

static annb_status push_offset(annb_string_writer *strings, annb_error *err) {
  if (strings->n_offsets == strings->room) {
    bool to_file = strings->writer->txn && strings->room;
    annb_status s = to_file ? spool_offsets(strings, err) : grow_offsets(strings, err);
    if (s) return strings->writer->failed = s;
  }
  strings->offsets[strings->n_offsets++] = strings->total;
  return ANNB_OK;
}

annb_status annb_strings_begin(annb_arrays_writer *writer, annb_string_writer **out, annb_error *err) {
  *out = NULL;
  annb_string_writer *strings = calloc(1, sizeof *strings);
  if (!strings) return annb_fail_memory(err);
  annb_status s = annb_arrays_begin(writer, "", ANNB_U8, 1, &strings->bytes_array, err);
  if (s) {
    free(strings);
    return s;
  }
  strings->writer = writer;
  strings->spool = -1;
  writer->strings = strings;
  *out = strings;
  return push_offset(strings, err);
}

annb_status annb_strings_append(annb_string_writer *strings, const char *bytes, uint64_t length, annb_error *err) {
  annb_status s = check_usable(strings->writer, err);
  if (!s) s = append(strings->writer, bytes, length, err);
  if (s) return s;
  strings->total += length;
  return push_offset(strings, err);
}

/* Bring back the spooled offsets, then those in memory. */
static annb_status append_offsets(annb_string_writer *strings, annb_error *err) {
  annb_status s = ANNB_OK;
  if (strings->spooled == 0) return append(strings->writer, strings->offsets, strings->n_offsets, err);
  const char *dir = annb_txn_tmp_dir(strings->writer->txn);
  uint64_t *block = malloc(SPOOL * sizeof *block);
  if (!block) return annb_fail_memory(err);
  for (uint64_t at = 0; !s && at < strings->spooled; at += SPOOL) {
    s = annb_io_pread(strings->spool, dir, block, SPOOL * sizeof *block, at * sizeof *block, err);
    if (!s) s = append(strings->writer, block, SPOOL, err);
  }
  free(block);
  return s ? s : append(strings->writer, strings->offsets, strings->n_offsets, err);
}

annb_status annb_strings_end(annb_string_writer *strings, uint32_t *offsets_array, uint32_t *bytes_array, annb_error *err) {
  annb_arrays_writer *writer = strings->writer;
  annb_status s = check_usable(writer, err);
  writer->in_array = false;
  if (!s) s = begin(writer, "", ANNB_U64, 1, offsets_array, err);
  if (!s) s = append_offsets(strings, err);
  writer->in_array = false;
  *bytes_array = strings->bytes_array;
  if (s) writer->failed = s;
  free_strings(strings);
  return s;
}

/* ---- columns ---- */

annb_status annb_arrays_add_column(annb_arrays_writer *writer, const annb_column_spec *spec, uint32_t *column, annb_error *err) {
  annb_fmt_column row = {.length = spec->length, .axis = (uint8_t)spec->axis, .kind = (uint8_t)spec->kind, .flags = spec->flags};
  row.values = spec->values;
  row.bytes = spec->kind == ANNB_COLUMN_STRING ? spec->bytes : ANNB_NONE;
  row.mask = spec->mask;
  row.categories = spec->kind == ANNB_COLUMN_CATEGORICAL ? spec->categories : ANNB_NONE;
  annb_arrays_tables tables = {(const uint8_t *)writer->arrays, (const uint8_t *)writer->columns, writer->n_arrays, writer->n_columns};
  const char *name = spec->name ? spec->name : "";
  if (writer->in_array)
    return annb_fail(err, ANNB_EINVAL, writer->path, "a column is added while array %u is not ended", writer->n_arrays - 1);
  const char *fault = annb_arrays_column_fault(&tables, &row);
  if (fault) return annb_fail(err, ANNB_EINVAL, writer->path, "column '%.200s': %s", name, fault);
  if (writer->n_columns >= ANNB_NONE - 1) return annb_fail(err, ANNB_EINVAL, writer->path, "has too many columns");
  annb_fmt_column *rows = realloc(writer->columns, ((size_t)writer->n_columns + 1) * sizeof *rows);
  if (!rows) return annb_fail_memory(err);
  writer->columns = rows;
  annb_status s = add_name(writer, name, &row.name_offset, &row.name_length, err);
  if (s) return s;
  rows[writer->n_columns] = row;
  *column = writer->n_columns++;
  return ANNB_OK;
}
