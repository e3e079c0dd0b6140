#include "column.h"

#include "column_spool.h"

#include "../../store/error.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 65536 }; /* rows read at once */

/* ---- what a type becomes ---- */

typedef struct storage {
  annb_column_kind kind;
  annb_dtype dtype;
  hid_t memory; /* fixed: read with it */
} storage;

static bool enum_member(hid_t type, const char *name, uint8_t value) {
  uint8_t byte = 0;
  bool found = H5Tenum_valueof(type, name, &byte) >= 0;
  H5Eclear2(H5E_DEFAULT);
  return found && byte == value;
}

/* h5py's bool, or else the numbers behind the names (R's logical: 0, 1, 2), as h5py reads them. */
static bool classify_enum(hid_t type, storage *out) {
  if (H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 && enum_member(type, "FALSE", 0) && enum_member(type, "TRUE", 1))
    return annb_h5_dtype(type, &out->dtype, &out->memory);
  hid_t base = H5Tget_super(type);
  bool ok = annb_h5_dtype(base, &out->dtype, &out->memory);
  annb_h5_close(&base);
  return ok;
}

/* False when it cannot be stored. `memory` is to be closed. */
static bool classify(hid_t type, storage *out) {
  *out = (storage){.kind = ANNB_COLUMN_FIXED, .memory = -1};
  if (H5Tget_class(type) == H5T_ENUM) return classify_enum(type, out);
  if (H5Tget_class(type) != H5T_STRING) return annb_h5_dtype(type, &out->dtype, &out->memory);
  out->kind = ANNB_COLUMN_STRING;
  return true;
}

bool annb_column_storable(hid_t type) {
  storage how;
  bool ok = classify(type, &how);
  annb_h5_close(&how.memory);
  return ok;
}

/* ---- arrays ---- */

static annb_status check_length(const annb_column_target *target, const annb_values *v, annb_error *err) {
  if (v->rank <= 1 && v->n == target->length) return ANNB_OK;
  return annb_h5_fail(err, ANNB_EINPUT, v->file, v->object, "has %llu values, but %s has %llu rows", (unsigned long long)v->n,
                      target->axis == ANNB_AXIS_VAR ? "var" : "obs", (unsigned long long)target->length);
}

typedef annb_status (*piece_fn)(const annb_values *v, uint64_t first, uint64_t n, void *buffer, const void *how, annb_error *err);

/* One array of `dtype`, its rows made by `read` into a buffer of 8 bytes a row. */
static annb_status write_array(const annb_column_target *target, const annb_values *v, annb_dtype dtype, piece_fn read, const void *how,
                               uint32_t *array, annb_error *err) {
  annb_arrays_writer *writer = target->writer;
  void *buffer = malloc(PIECE * sizeof(uint64_t));
  annb_column_spool *spool = NULL;
  annb_status s = target->shuffle ? annb_column_spool_open(target, annb_dtype_size(dtype), &spool, err) : ANNB_OK;
  if (!s) s = buffer ? annb_arrays_begin(writer, "", dtype, 1, array, err) : annb_fail_memory(err);
  for (uint64_t i = 0, n; i < v->n && !s; i += n) {
    n = PIECE < v->n - i ? PIECE : v->n - i;
    s = annb_going_on(&target->going, err);
    if (!s) s = read(v, i, n, buffer, how, err);
    if (!s) s = spool ? annb_column_spool_push(spool, n, buffer, err) : annb_arrays_append(writer, buffer, n, err);
  }
  free(buffer);
  if (!s && spool) s = annb_column_spool_values(spool, writer, err);
  annb_column_spool_close(spool);
  return s ? s : annb_arrays_end(writer, err);
}

static annb_status read_fixed(const annb_values *v, uint64_t first, uint64_t n, void *buffer, const void *how, annb_error *err) {
  const storage *as = how;
  return annb_values_read(v, as->memory, first, n, buffer, err);
}

static annb_status read_mask(const annb_values *v, uint64_t first, uint64_t n, void *buffer, const void *how, annb_error *err) {
  (void)how;
  annb_status s = annb_values_read(v, H5T_NATIVE_INT64, first, n, buffer, err);
  for (uint64_t i = 0; i < n && !s; i++) ((uint8_t *)buffer)[i] = ((int64_t *)buffer)[i] != 0;
  return s;
}

typedef struct string_list {
  annb_string_writer *writer;
  annb_column_spool *spool; /* or NULL */
  const annb_going *going;
  uint64_t n;
} string_list;

static annb_status append_string(void *user, const char *bytes, uint64_t length, annb_error *err) {
  string_list *list = user;
  annb_status s = list->n++ % PIECE ? ANNB_OK : annb_going_on(list->going, err);
  if (!s && list->spool) return annb_column_spool_push_string(list->spool, bytes, length, err);
  return s ? s : annb_strings_append(list->writer, bytes, length, err);
}

static annb_status write_strings(const annb_column_target *target, const annb_values *v, annb_column_spec *spec, annb_error *err) {
  string_list list = {NULL, NULL, &target->going, 0};
  annb_status s = target->shuffle ? annb_column_spool_open(target, 0, &list.spool, err) : ANNB_OK;
  if (!s) s = annb_strings_begin(target->writer, &list.writer, err);
  if (!s) s = annb_values_strings(v, target->memory, append_string, &list, err);
  if (!s && list.spool) s = annb_column_spool_strings(list.spool, list.writer, err);
  annb_column_spool_close(list.spool);
  return s ? s : annb_strings_end(list.writer, &spec->values, &spec->bytes, err);
}

static annb_status write_mask(const annb_column_target *target, const annb_values *mask, uint32_t *array, annb_error *err) {
  H5T_class_t kind = H5Tget_class(mask->type);
  annb_status s = check_length(target, mask, err);
  if (!s && kind != H5T_INTEGER && kind != H5T_ENUM) s = annb_h5_fail(err, ANNB_EINPUT, mask->file, mask->object, "is no mask of booleans");
  return s ? s : write_array(target, mask, ANNB_BOOL, read_mask, NULL, array, err);
}

annb_status annb_column_write(const annb_column_target *target, const annb_values *values, const annb_values *mask, uint32_t *column,
                              annb_error *err) {
  annb_column_spec spec = {.name = target->name,
                           .length = target->length,
                           .axis = target->axis,
                           .flags = target->flags,
                           .values = ANNB_NONE,
                           .bytes = ANNB_NONE,
                           .mask = ANNB_NONE,
                           .categories = ANNB_NONE};
  storage how;
  annb_status s = check_length(target, values, err);
  if (s) return s;
  if (!classify(values->type, &how))
    return annb_h5_fail(err, ANNB_EUNSUPPORTED, values->file, values->object, "is of a type that cannot be stored as a column");
  spec.kind = how.kind;
  if (how.kind == ANNB_COLUMN_STRING) s = write_strings(target, values, &spec, err);
  else s = write_array(target, values, how.dtype, read_fixed, &how, &spec.values, err);
  if (!s && mask) s = write_mask(target, mask, &spec.mask, err);
  annb_h5_close(&how.memory);
  return s ? s : annb_arrays_add_column(target->writer, &spec, column, err);
}

/* ---- categories ---- */

static annb_dtype code_type(uint64_t n_categories) {
  return n_categories <= INT8_MAX ? ANNB_I8 : n_categories <= INT16_MAX ? ANNB_I16 : ANNB_I32;
}

typedef struct coding {
  uint64_t n_categories;
  annb_dtype dtype;
} coding;

static annb_status read_codes(const annb_values *v, uint64_t first, uint64_t n, void *buffer, const void *how, annb_error *err) {
  const coding *as = how;
  int64_t *wide = buffer;
  annb_status s = annb_values_read_i64(v, first, n, wide, err);
  for (uint64_t i = 0; i < n && !s; i++) {
    int64_t x = wide[i];
    if (x < -1 || (x >= 0 && (uint64_t)x >= as->n_categories)) {
      char code[32];
      annb_values_integer_text(v, first + i, code);
      return annb_h5_fail(err, ANNB_EINPUT, v->file, v->object, "row %llu has the code %s, but there are %llu categories",
                          (unsigned long long)(first + i), code, (unsigned long long)as->n_categories);
    }
    size_t size = as->dtype == ANNB_I8 ? 1 : as->dtype == ANNB_I16 ? 2 : 4;
    memcpy((char *)buffer + i * size, &x, size); /* little-endian; behind what is still to be read */
  }
  return s;
}

annb_status annb_column_codes_fit(const annb_values *codes, uint64_t n_categories, bool *fit, annb_error *err) {
  int64_t *wide = malloc(PIECE * sizeof *wide);
  annb_status s = wide ? ANNB_OK : annb_fail_memory(err);
  *fit = true;
  for (uint64_t i = 0, n; i < codes->n && !s && *fit; i += n) {
    n = PIECE < codes->n - i ? PIECE : codes->n - i;
    s = annb_values_read_i64(codes, i, n, wide, err);
    for (uint64_t k = 0; k < n && !s; k++) *fit = *fit && wide[k] >= -1 && (wide[k] < 0 || (uint64_t)wide[k] < n_categories);
  }
  free(wide);
  return s;
}

annb_status annb_column_write_categorical(const annb_column_target *target, const annb_values *codes, const annb_values *categories,
                                          const annb_values *categories_mask, annb_error *err) {
  annb_column_spec spec = {.name = target->name,
                           .length = target->length,
                           .axis = target->axis,
                           .kind = ANNB_COLUMN_CATEGORICAL,
                           .flags = target->flags,
                           .values = ANNB_NONE,
                           .bytes = ANNB_NONE,
                           .mask = ANNB_NONE};
  annb_column_target list = *target;
  list.axis = ANNB_AXIS_NONE;
  list.flags = 0;
  list.length = categories->n;
  list.shuffle = NULL;
  coding how = {categories->n, code_type(categories->n)};
  uint32_t column;
  annb_status s = check_length(target, codes, err);
  if (!s && how.n_categories > INT32_MAX)
    s = annb_h5_fail(err, ANNB_EUNSUPPORTED, codes->file, categories->object, "has more than 2^31 - 1 categories");
  if (!s) s = annb_column_write(&list, categories, categories_mask, &spec.categories, err);
  if (!s) s = write_array(target, codes, how.dtype, read_codes, &how, &spec.values, err);
  return s ? s : annb_arrays_add_column(target->writer, &spec, &column, err);
}
