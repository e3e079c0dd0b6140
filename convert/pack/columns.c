#include "columns.h"

#include "../../store/error.h"
#include "../../store/commit/txn.h"
#include "column.h"
#include "../source/names.h"

#include <stdlib.h>
#include <string.h>

typedef struct context {
  const annb_source *source;
  const annb_source_axis *axis;
  annb_arrays_writer *writer;
  annb_going going;
  const annb_shuffle *shuffle; /* of obs */
  const char *spool_dir;
} context;

enum { OBJECT_SIZE = 700 };

static bool has(hid_t group, const char *name) { return annb_h5_exists(group, name); }

static H5O_type_t kind_of(hid_t group, const char *name) {
  H5O_info_t info;
  return H5Oget_info_by_name(group, name, &info, H5P_DEFAULT) >= 0 ? info.type : H5O_TYPE_UNKNOWN;
}

static annb_column_target target_of(const context *c, const char *name, uint8_t flags) {
  const bool obs = c->axis == &c->source->obs;
  return (annb_column_target){.writer = c->writer,
                              .name = name,
                              .axis = obs ? ANNB_AXIS_OBS : ANNB_AXIS_VAR,
                              .flags = flags,
                              .length = c->axis->length,
                              .memory = c->source->memory / 4,
                              .going = c->going,
                              .shuffle = obs ? c->shuffle : NULL,
                              .spool_dir = c->spool_dir};
}

/* Text of no cells stays in the sidecar: it says nothing, and would stand against other files' columns of that name, since anndata writes
 * text as categories where there are cells. */
static bool storable(const annb_column_target *target, hid_t type) {
  const bool no_text = target->axis == ANNB_AXIS_OBS && !target->length && H5Tget_class(type) == H5T_STRING;
  return target->flags || (!no_text && annb_column_storable(type));
}

static annb_status open_values(const context *c, hid_t parent, const char *name, const char *object, annb_values *v, annb_error *err) {
  return annb_values_open(v, c->source->path, parent, name, NULL, object, c->source->memory, err);
}

/* A boolean attribute: integers, or h5py's enum. */
static bool attribute_true(hid_t object, const char *name) {
  int64_t value = 0;
  if (H5Aexists(object, name) <= 0) return false;
  hid_t attr = H5Aopen(object, name, H5P_DEFAULT), space = H5Aget_space(attr);
  if (H5Sget_simple_extent_npoints(space) != 1 || H5Aread(attr, H5T_NATIVE_INT64, &value) < 0) value = 0;
  H5Eclear2(H5E_DEFAULT);
  annb_h5_close(&space);
  annb_h5_close(&attr);
  return value != 0;
}

/* ---- columns that are groups ---- */

/* values and mask of a nullable array, or a plain dataset at `name`: categories and indexes come as either. */
typedef struct pair {
  annb_values values, mask;
  bool has_mask;
} pair;

static void close_pair(pair *p) {
  annb_values_close(&p->values);
  annb_values_close(&p->mask);
}

static annb_status open_pair(const context *c, hid_t parent, const char *name, const char *object, pair *p, annb_error *err) {
  char part[OBJECT_SIZE];
  *p = (pair){.values = ANNB_VALUES_NONE, .mask = ANNB_VALUES_NONE};
  if (!has(parent, name) || kind_of(parent, name) != H5O_TYPE_GROUP) return open_values(c, parent, name, object, &p->values, err);
  hid_t group = H5Gopen2(parent, name, H5P_DEFAULT);
  snprintf(part, sizeof part, "%.600s/values", object);
  annb_status s = open_values(c, group, "values", part, &p->values, err);
  snprintf(part, sizeof part, "%.600s/mask", object);
  p->has_mask = has(group, "mask");
  if (!s && !p->has_mask) s = annb_h5_fail(err, ANNB_EINPUT, c->source->path, part, "is missing");
  if (!s) s = open_values(c, group, "mask", part, &p->mask, err);
  annb_h5_close(&group);
  if (s) close_pair(p);
  return s;
}

static annb_status write_pair(const context *c, hid_t parent, const char *name, const char *object, const annb_column_target *target,
                              annb_error *err) {
  pair p;
  uint32_t column;
  annb_status s = open_pair(c, parent, name, object, &p, err);
  if (!s && storable(target, p.values.type))
    s = annb_column_write(target, &p.values, p.has_mask ? &p.mask : NULL, &column, err);
  close_pair(&p);
  return s;
}

static annb_status write_categorical_group(const context *c, hid_t group, const char *object, annb_column_target target, annb_error *err) {
  char part[OBJECT_SIZE];
  pair categories = {.values = ANNB_VALUES_NONE, .mask = ANNB_VALUES_NONE};
  annb_values codes = ANNB_VALUES_NONE;
  if (attribute_true(group, "ordered")) target.flags |= ANNB_COLUMN_ORDERED;
  snprintf(part, sizeof part, "%.600s/codes", object);
  annb_status s = open_values(c, group, "codes", part, &codes, err);
  snprintf(part, sizeof part, "%.600s/categories", object);
  if (!s) s = open_pair(c, group, "categories", part, &categories, err);
  if (!s && annb_column_storable(categories.values.type))
    s = annb_column_write_categorical(&target, &codes, &categories.values, categories.has_mask ? &categories.mask : NULL, err);
  annb_values_close(&codes);
  close_pair(&categories);
  return s;
}

static annb_status write_group(const context *c, const char *name, const char *object, const annb_column_target *target, annb_error *err) {
  hid_t group = H5Gopen2(c->axis->object, name, H5P_DEFAULT);
  char *encoding;
  annb_status s = annb_h5_attr_text(group, "encoding-type", c->source->path, object, &encoding, err);
  if (s) {
    annb_h5_close(&group);
    return s;
  }
  if (encoding ? !strcmp(encoding, "categorical") : has(group, "codes") && has(group, "categories"))
    s = write_categorical_group(c, group, object, *target, err);
  else if (encoding && !strncmp(encoding, "nullable-", 9)) s = write_pair(c, c->axis->object, name, object, target, err);
  else if (target->flags & ANNB_COLUMN_INDEX)
    s = annb_h5_fail(err, ANNB_EUNSUPPORTED, c->source->path, object, "holds names in a form that is not known");
  free(encoding);
  annb_h5_close(&group);
  return s;
}

/* ---- columns that are datasets ---- */

/* The categories of a column of the 0.7 layout, which its attribute refers to; -1 for none. As in anndata, a namesake in __categories
 * without the attribute does not make numbers labels. */
static hid_t legacy_categories(hid_t dataset) {
  hid_t found = -1;
  hobj_ref_t reference;
  if (H5Aexists(dataset, "categories") <= 0) return -1;
  hid_t attr = H5Aopen(dataset, "categories", H5P_DEFAULT), type = H5Aget_type(attr), space = H5Aget_space(attr);
  if (H5Tequal(type, H5T_STD_REF_OBJ) > 0 && H5Sget_simple_extent_npoints(space) == 1 && H5Aread(attr, H5T_STD_REF_OBJ, &reference) >= 0)
    found = H5Rdereference2(dataset, H5P_DEFAULT, H5R_OBJECT, &reference);
  annb_h5_close(&space);
  annb_h5_close(&type);
  annb_h5_close(&attr);
  H5Eclear2(H5E_DEFAULT);
  if (found >= 0 && H5Iget_type(found) != H5I_DATASET) annb_h5_close(&found);
  return found;
}

static annb_status write_coded(const context *c, const annb_values *codes, hid_t dataset, annb_column_target target, annb_error *err) {
  char object[OBJECT_SIZE];
  annb_values categories;
  snprintf(object, sizeof object, "%s/__categories/%.600s", c->axis->name, target.name);
  if (attribute_true(dataset, "ordered")) target.flags |= ANNB_COLUMN_ORDERED;
  annb_status s = annb_values_adopt(&categories, c->source->path, dataset, NULL, object, c->source->memory, err);
  if (s) return s;
  if (annb_column_storable(categories.type)) s = annb_column_write_categorical(&target, codes, &categories, NULL, err);
  annb_values_close(&categories);
  return s;
}

static annb_status write_dataset(const context *c, const char *name, const char *object, const annb_column_target *target,
                                 annb_error *err) {
  annb_values v;
  uint32_t column;
  hid_t plain = H5Dopen2(c->axis->object, name, H5P_DEFAULT);
  hsize_t dims[32] = {0};
  int rank = annb_h5_extent(plain, dims, NULL);
  annb_h5_close(&plain);
  if (rank != 1 && !(target->flags & ANNB_COLUMN_INDEX)) return ANNB_OK; /* the sidecar has it */
  annb_status s = open_values(c, c->axis->object, name, object, &v, err);
  if (s) return s;
  hid_t categories = annb_h5_is_integer(v.type) ? legacy_categories(v.dataset) : -1;
  if (categories >= 0) s = write_coded(c, &v, categories, *target, err);
  else if (storable(target, v.type)) s = annb_column_write(target, &v, NULL, &column, err);
  annb_values_close(&v);
  return s;
}

/* ---- an axis that is a compound dataset ---- */

/* The 0.5 and 0.6 layouts kept categories in uns, by the column's name alone: obs and var may share them. Codes that do not fit then are
 * those of the axis whose categories were overwritten; they stay numbers. */
static annb_status write_field(const context *c, const char *name, const annb_column_target *target, annb_error *err) {
  char object[OBJECT_SIZE], path[OBJECT_SIZE];
  annb_values v, categories = ANNB_VALUES_NONE;
  uint32_t column;
  bool fit = false;
  snprintf(object, sizeof object, "%s (field %.600s)", c->axis->name, name);
  snprintf(path, sizeof path, "uns/%.600s_categories", name);
  annb_status s = annb_values_open(&v, c->source->path, c->source->file, c->axis->name, name, object, c->source->memory, err);
  if (s) return s;
  if (annb_h5_is_integer(v.type) && has(c->source->file, path) && kind_of(c->source->file, path) == H5O_TYPE_DATASET) {
    s = open_values(c, c->source->file, path, path, &categories, err);
    if (!s && categories.rank <= 1 && annb_column_storable(categories.type)) s = annb_column_codes_fit(&v, categories.n, &fit, err);
  }
  if (!s && fit) s = annb_column_write_categorical(target, &v, &categories, NULL, err);
  else if (!s && storable(target, v.type)) s = annb_column_write(target, &v, NULL, &column, err);
  annb_values_close(&categories);
  annb_values_close(&v);
  return s;
}

/* ---- an axis ---- */

static annb_status write_column(const context *c, const char *name, uint8_t flags, annb_error *err) {
  char object[OBJECT_SIZE];
  annb_column_target target = target_of(c, name, flags);
  if (strlen(name) > ANNB_MAX_NAME || !*name) return ANNB_OK;
  if (c->axis->compound) return write_field(c, name, &target, err);
  if (!has(c->axis->object, name)) return ANNB_OK;
  snprintf(object, sizeof object, "%s/%.600s", c->axis->name, name);
  switch (kind_of(c->axis->object, name)) {
    case H5O_TYPE_DATASET: return write_dataset(c, name, object, &target, err);
    case H5O_TYPE_GROUP: return write_group(c, name, object, &target, err);
    default: return ANNB_OK;
  }
}

static annb_status column_names(const context *c, annb_names *names, annb_error *err) {
  bool found = false;
  annb_status s = ANNB_OK;
  if (c->axis->compound) {
    hid_t type = H5Dget_type(c->axis->object);
    s = annb_names_of_fields(type, names, err);
    annb_h5_close(&type);
    found = true;
  } else {
    s = annb_names_of_attribute(c->axis->object, "column-order", names, &found, err);
  }
  if (!s && !found) s = annb_names_of_group(c->axis->object, names, err);
  if (!s) s = annb_names_unique(names, err);
  for (size_t i = 0; i < names->n && (c->axis->compound || !found); i++) /* not a column when it is not listed as one */
    if (!strcmp(names->name[i], c->axis->index) || (!found && !strcmp(names->name[i], "__categories"))) *names->name[i] = 0;
  return s;
}

static annb_status write_axis(const context *c, annb_convert_progress_fn progress, void *user, annb_error *err) {
  annb_names names = {NULL, 0};
  if (c->axis->object < 0) return ANNB_OK;
  annb_status s = write_column(c, c->axis->index, ANNB_COLUMN_INDEX, err);
  if (!s) s = column_names(c, &names, err);
  for (size_t i = 0; i < names.n && !s; i++) {
    s = write_column(c, names.name[i], 0, err);
    if (!s && progress && !progress(user, c->axis->name, i + 1, names.n))
      s = annb_fail(err, ANNB_ECANCELED, c->source->path, "packing was cancelled");
  }
  annb_names_free(&names);
  return s;
}

annb_status annb_columns_write(const annb_source *source, annb_txn *txn, const annb_shuffle *shuffle, annb_convert_progress_fn progress,
                               void *user, uint32_t *object, annb_error *err) {
  context c = {source, &source->obs, NULL, {progress, user, "obs", source->path, "packing"}, shuffle, annb_txn_tmp_dir(txn)};
  annb_status s = annb_arrays_writer_open(txn, &c.writer, err);
  if (s) return s;
  s = write_axis(&c, progress, user, err);
  c.axis = &source->var;
  c.going.stage = "var";
  if (!s) s = write_axis(&c, progress, user, err);
  if (!s) return annb_arrays_writer_close(c.writer, object, err);
  annb_arrays_writer_abort(c.writer);
  return s;
}
