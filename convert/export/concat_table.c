/* obs and var of a concatenated file. */
#include "concat.h"

#include "../sidecar/files.h"

#include "../../store/error.h"

#include <annblock/annblock.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 8192 }; /* rows at a time */

typedef struct table {
  const annb_concat *concat;
  hid_t group;
  const annb_selection *selected;
} table;

/* The row of the store that is row i of the table. */
static uint64_t row_at(const annb_selection *selected, uint64_t i) { return selected ? annb_selection_stored(selected, i) : i; }

static annb_status report(const table *t, const char *name, annb_error *err) {
  if (!t->concat->options->progress || t->concat->options->progress(t->concat->options->user, name, 0, 0)) return ANNB_OK;
  return annb_fail(err, ANNB_ECANCELED, t->concat->out_name, "the export was cancelled");
}

/* ---- strings ---- */

typedef annb_status (*string_fn)(const void *from, uint64_t row, const char **bytes, uint64_t *length, bool *missing, annb_error *err);

static annb_status joint_string(const void *from, uint64_t row, const char **bytes, uint64_t *length, bool *missing, annb_error *err) {
  return annb_store_column_string(from, row, bytes, length, missing, err);
}

static annb_status plain_string(const void *from, uint64_t row, const char **bytes, uint64_t *length, bool *missing, annb_error *err) {
  return annb_column_string(from, row, bytes, length, missing, err);
}

/* The row's number, for axes without names. */
static annb_status row_number(const void *from, uint64_t row, const char **bytes, uint64_t *length, bool *missing, annb_error *err) {
  char *text = (char *)(uintptr_t)from; /* a buffer of the caller */
  (void)err;
  *length = (uint64_t)snprintf(text, 24, "%llu", (unsigned long long)row);
  *bytes = text;
  *missing = false;
  return ANNB_OK;
}

static hid_t string_type(void) {
  hid_t type = H5Tcopy(H5T_C_S1);
  if (H5Tset_size(type, H5T_VARIABLE) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0) annb_h5_close(&type);
  return type;
}

/* Where strings come from. */
typedef struct strings {
  string_fn each;
  const void *from;
  uint64_t n;
  const annb_selection *selected; /* NULL: all */
} strings;

/* Rows first … first + n - 1, as terminated strings. `mask` may be NULL. */
static annb_status take_strings(const strings *from, uint64_t first, uint64_t n, char **out, uint8_t *mask, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint64_t i = 0; !s && i < n; i++) {
    const char *bytes;
    uint64_t length;
    bool missing;
    s = from->each(from->from, row_at(from->selected, first + i), &bytes, &length, &missing, err);
    if (s) break;
    out[i] = strndup(bytes, length);
    if (!out[i]) s = annb_fail_memory(err);
    if (mask) mask[i] = missing;
  }
  return s;
}

static annb_status write_strings(const table *t, hid_t parent, const char *name, const strings *from, hid_t mask_group, annb_error *err) {
  annb_vector values, mask = {.dataset = -1, .type = -1};
  char **pieces = calloc(PIECE, sizeof *pieces);
  uint8_t *missing = malloc(PIECE);
  annb_status s = pieces && missing ? annb_vector_create(t->concat, parent, name, string_type(), &values, err) : annb_fail_memory(err);
  if (!pieces || !missing) values = (annb_vector){.dataset = -1, .type = -1};
  if (!s) s = annb_concat_encoding(t->concat, values.dataset, "string-array", "0.2.0", err);
  if (!s && mask_group >= 0) s = annb_vector_create(t->concat, mask_group, "mask", annb_concat_type(ANNB_BOOL), &mask, err);
  if (!s && mask_group >= 0) s = annb_concat_encoding(t->concat, mask.dataset, "array", "0.2.0", err);
  for (uint64_t i = 0, k; !s && i < from->n; i += k) {
    k = from->n - i < PIECE ? from->n - i : PIECE;
    s = take_strings(from, i, k, pieces, missing, err);
    if (!s) s = annb_vector_append(t->concat, &values, pieces, k, err);
    if (!s && mask_group >= 0) s = annb_vector_append(t->concat, &mask, missing, k, err);
    for (uint64_t j = 0; j < k; j++) {
      free(pieces[j]);
      pieces[j] = NULL;
    }
  }
  annb_vector_close(&values);
  annb_vector_close(&mask);
  free(pieces);
  free(missing);
  return s;
}

static annb_status write_string_column(const table *t, const char *name, const annb_joint_column *c, bool nullable, annb_error *err) {
  const strings from = {joint_string, c, t->selected->n, t->selected};
  hid_t group;
  if (!nullable) return write_strings(t, t->group, name, &from, -1, err);
  annb_status s = annb_concat_group(t->concat, t->group, name, "nullable-string-array", "0.1.0", &group, err);
  if (s) return s;
  s = write_strings(t, group, "values", &from, group, err);
  annb_h5_close(&group);
  return s;
}

/* ---- numbers ---- */

static void set_nan(annb_dtype dtype, uint8_t *values, const uint8_t *mask, uint64_t n) {
  static const uint16_t half = 0x7E00;
  const float single = NAN;
  const double wide = NAN;
  size_t size = annb_dtype_size(dtype);
  const void *nan = dtype == ANNB_F16 ? (const void *)&half : dtype == ANNB_F32 ? (const void *)&single : (const void *)&wide;
  for (uint64_t i = 0; i < n; i++)
    if (mask[i]) memcpy(values + i * size, nan, size);
}

/* One array and, with `mask` ≥ 0 in it, another of its mask. Missing floats become NaN. */
static annb_status write_numbers(const table *t, hid_t parent, const char *name, const annb_joint_column *c, annb_dtype dtype,
                                 hid_t mask_group, annb_error *err) {
  annb_vector values, mask = {.dataset = -1, .type = -1};
  uint64_t *rows = malloc(PIECE * sizeof *rows);
  uint8_t *data = malloc(PIECE * 8), *missing = malloc(PIECE);
  annb_status s =
      rows && data && missing ? annb_vector_create(t->concat, parent, name, annb_concat_type(dtype), &values, err) : annb_fail_memory(err);
  if (!rows || !data || !missing) values = (annb_vector){.dataset = -1, .type = -1};
  if (!s) s = annb_concat_encoding(t->concat, values.dataset, "array", "0.2.0", err);
  if (!s && mask_group >= 0) s = annb_vector_create(t->concat, mask_group, "mask", annb_concat_type(ANNB_BOOL), &mask, err);
  if (!s && mask_group >= 0) s = annb_concat_encoding(t->concat, mask.dataset, "array", "0.2.0", err);
  for (uint64_t i = 0, k; !s && i < t->selected->n; i += k) {
    k = t->selected->n - i < PIECE ? t->selected->n - i : PIECE;
    for (uint64_t j = 0; j < k; j++) rows[j] = row_at(t->selected, i + j);
    s = annb_store_column_gather(c, rows, k, data, missing, err);
    if (!s && dtype >= ANNB_F16 && mask_group < 0) set_nan(dtype, data, missing, k);
    if (!s) s = annb_vector_append(t->concat, &values, data, k, err);
    if (!s && mask_group >= 0) s = annb_vector_append(t->concat, &mask, missing, k, err);
  }
  annb_vector_close(&values);
  annb_vector_close(&mask);
  free(rows);
  free(data);
  free(missing);
  return s;
}

static annb_status write_fixed_column(const table *t, const char *name, const annb_joint_column *c, const annb_column_info *info,
                                      annb_error *err) {
  hid_t group;
  const char *type = info->dtype == ANNB_BOOL ? "nullable-boolean" : "nullable-integer";
  if (!info->has_mask || info->dtype >= ANNB_F16) return write_numbers(t, t->group, name, c, info->dtype, -1, err);
  annb_status s = annb_concat_group(t->concat, t->group, name, type, "0.1.0", &group, err);
  if (s) return s;
  s = write_numbers(t, group, "values", c, info->dtype, group, err);
  annb_h5_close(&group);
  return s;
}

/* ---- categories ---- */

static annb_status write_codes(const table *t, hid_t group, const annb_joint_column *c, annb_error *err) {
  annb_vector codes = {.dataset = -1, .type = -1};
  uint64_t *rows = malloc(PIECE * sizeof *rows);
  int32_t *data = malloc(PIECE * sizeof *data);
  annb_status s =
      rows && data ? annb_vector_create(t->concat, group, "codes", annb_concat_type(ANNB_I32), &codes, err) : annb_fail_memory(err);
  if (!s) s = annb_concat_encoding(t->concat, codes.dataset, "array", "0.2.0", err);
  for (uint64_t i = 0, k; !s && i < t->selected->n; i += k) {
    k = t->selected->n - i < PIECE ? t->selected->n - i : PIECE;
    for (uint64_t j = 0; j < k; j++) rows[j] = row_at(t->selected, i + j);
    s = annb_store_column_codes(c, rows, k, data, err);
    if (!s) s = annb_vector_append(t->concat, &codes, data, k, err);
  }
  annb_vector_close(&codes);
  free(rows);
  free(data);
  return s;
}

static annb_status write_category_list(const table *t, hid_t group, const annb_column *list, annb_error *err) {
  annb_column_info info;
  annb_vector values;
  const void *data = NULL;
  annb_column_get_info(list, &info);
  const strings all = {plain_string, list, info.length, NULL};
  if (info.kind == ANNB_COLUMN_STRING) return write_strings(t, group, "categories", &all, -1, err);
  annb_status s = annb_column_values(list, 0, info.length, &data, NULL, err);
  if (s) return s;
  s = annb_vector_create(t->concat, group, "categories", annb_concat_type(info.dtype), &values, err);
  if (!s) s = annb_concat_encoding(t->concat, values.dataset, "array", "0.2.0", err);
  if (!s) s = annb_vector_append(t->concat, &values, data, info.length, err);
  annb_vector_close(&values);
  return s;
}

static annb_status write_ordered(const table *t, hid_t group, bool ordered, annb_error *err) {
  int8_t value = ordered;
  hid_t type = annb_concat_type(ANNB_BOOL), space = H5Screate(H5S_SCALAR);
  hid_t attr = H5Acreate2(group, "ordered", type, space, H5P_DEFAULT, H5P_DEFAULT);
  bool ok = attr >= 0 && H5Awrite(attr, type, &value) >= 0;
  annb_h5_close(&attr);
  annb_h5_close(&space);
  annb_h5_close(&type);
  return ok ? ANNB_OK : annb_h5_fail(err, ANNB_EIO, t->concat->out_name, "ordered", "the attribute cannot be written");
}

static annb_status write_categorical_column(const table *t, const char *name, const annb_joint_column *c, bool ordered, annb_error *err) {
  const annb_column *list;
  hid_t group;
  annb_status s = annb_joint_column_categories(c, &list, err);
  if (!s) s = annb_concat_group(t->concat, t->group, name, "categorical", "0.2.0", &group, err);
  if (s) return s;
  s = write_ordered(t, group, ordered, err);
  if (!s) s = write_codes(t, group, c, err);
  if (!s) s = write_category_list(t, group, list, err);
  annb_h5_close(&group);
  return s;
}

/* ---- a table ---- */

static annb_status write_column(const table *t, const annb_joint_column *c, const annb_column_info *info, annb_error *err) {
  if (info->kind == ANNB_COLUMN_STRING) return write_string_column(t, info->name, c, info->has_mask, err);
  if (info->kind == ANNB_COLUMN_CATEGORICAL) return write_categorical_column(t, info->name, c, info->ordered, err);
  return write_fixed_column(t, info->name, c, info, err);
}

static annb_status write_order(const table *t, annb_axis axis, uint32_t n, annb_error *err) {
  const char **names = calloc((size_t)n + 1, sizeof *names);
  hsize_t k = 0;
  annb_status s = names ? ANNB_OK : annb_fail_memory(err);
  for (uint32_t i = 0; !s && i < n; i++) {
    const annb_joint_column *c;
    annb_column_info info;
    s = annb_store_column(t->concat->store, axis, i, &c, err);
    if (s) break;
    annb_joint_column_get_info(c, &info);
    if (annb_concat_has_column(t->concat, &info)) names[k++] = info.name;
  }
  hid_t type = string_type(), space = H5Screate_simple(1, &k, NULL);
  hid_t attr = s ? -1 : H5Acreate2(t->group, "column-order", type, space, H5P_DEFAULT, H5P_DEFAULT);
  if (!s && (attr < 0 || (k && H5Awrite(attr, type, names) < 0)))
    s = annb_h5_fail(err, ANNB_EIO, t->concat->out_name, "column-order", "the attribute cannot be written");
  annb_h5_close(&attr);
  annb_h5_close(&space);
  annb_h5_close(&type);
  free(names);
  return s;
}

static annb_status write_index(const table *t, annb_axis axis, annb_error *err) {
  const annb_joint_column *c;
  annb_column_info info = {.kind = ANNB_COLUMN_FIXED};
  char number[24];
  annb_status s = annb_store_index_column(t->concat->store, axis, &c, NULL);
  if (!s) annb_joint_column_get_info(c, &info);
  s = annb_attr_write_text(t->group, "_index", "_index", t->concat->out_name, err);
  if (s) return s;
  const bool named = info.kind == ANNB_COLUMN_STRING;
  const strings from = {named ? joint_string : row_number, named ? (const void *)c : number, t->selected->n, t->selected};
  return write_strings(t, t->group, "_index", &from, -1, err);
}

annb_status annb_concat_table(const annb_concat *concat, hid_t file, annb_axis axis, annb_error *err) {
  const char *name = axis == ANNB_AXIS_OBS ? "obs" : "var";
  uint32_t n = 0;
  table t = {concat, -1, axis == ANNB_AXIS_OBS ? concat->rows : concat->genes};
  annb_status s = annb_store_n_columns(concat->store, axis, &n, err);
  if (!s) s = annb_concat_group(concat, file, name, "dataframe", "0.2.0", &t.group, err);
  if (!s) s = write_index(&t, axis, err);
  if (!s) s = write_order(&t, axis, n, err);
  for (uint32_t i = 0; !s && i < n; i++) {
    const annb_joint_column *c;
    annb_column_info info;
    s = report(&t, name, err);
    if (!s) s = annb_store_column(concat->store, axis, i, &c, err);
    if (s) break;
    annb_joint_column_get_info(c, &info);
    if (annb_concat_has_column(concat, &info)) s = write_column(&t, c, &info, err);
  }
  annb_h5_close(&t.group);
  return s;
}
