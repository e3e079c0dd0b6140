#include "source.h"

#include "matrices.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

#define MAX_UNBACKED (UINT64_C(1) << 20) /* rows that need not be in the file */
#define MAX_ROWS_PER_BYTE 1024           /* of an index; deflate makes 1032 bytes of one */

static bool has(hid_t group, const char *name) { return annb_h5_exists(group, name); }

static bool is_group(hid_t parent, const char *name) {
  H5O_info_t info;
  return has(parent, name) && H5Oget_info_by_name(parent, name, &info, H5P_DEFAULT) >= 0 && info.type == H5O_TYPE_GROUP;
}

/* ---- files that are something else ---- */

static herr_t find_genome(hid_t root, const char *name, const H5L_info_t *info, void *found) {
  (void)info;
  hid_t group = is_group(root, name) ? H5Gopen2(root, name, H5P_DEFAULT) : -1;
  if (group < 0) return 0;
  bool *yes = found;
  *yes = has(group, "barcodes") && has(group, "indptr");
  annb_h5_close(&group);
  return *yes;
}

static bool is_10x(hid_t file) {
  bool found = false;
  if (has(file, "matrix/barcodes")) return true;
  H5Literate(file, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, find_genome, &found);
  H5Eclear2(H5E_DEFAULT);
  return found;
}

static annb_status refuse(const annb_source *source, annb_error *err) {
  const char *text = NULL;
  if (is_group(source->file, "mod") && !has(source->file, "X"))
    text = "is a MuData file (.h5mu), not AnnData: write each modality to a .h5ad of its own (mudata.read_h5mu(…)['<name>'].write_h5ad(…)) "
           "and pack that";
  else if (has(source->file, "matrix") && (has(source->file, "row_attrs") || has(source->file, "col_attrs")))
    text = "is a loom file, not AnnData: read it with anndata.io.read_loom, write it with write_h5ad, and pack that";
  else if (is_10x(source->file))
    text = "is a 10x Genomics count file, not AnnData: read it with scanpy.read_10x_h5, write it with write_h5ad, and pack that";
  return text ? annb_h5_fail(err, ANNB_EINPUT, source->path, NULL, "%s", text) : ANNB_OK;
}

/* ---- obs and var ---- */

static bool is_string(hid_t type) { return H5Tget_class(type) == H5T_STRING; }

static char *first_string_field(hid_t type) {
  int n = H5Tget_nmembers(type);
  for (unsigned i = 0; n > 0 && i < (unsigned)n; i++) {
    hid_t member = H5Tget_member_type(type, i);
    bool found = is_string(member);
    annb_h5_close(&member);
    if (!found) continue;
    char *name = H5Tget_member_name(type, i), *copy = name ? strdup(name) : NULL;
    H5free_memory(name);
    return copy;
  }
  return NULL;
}

static annb_status open_compound_axis(const annb_source *source, annb_source_axis *axis, annb_error *err) {
  static const char *const known[] = {"index", "_index"};
  hid_t type = H5Dget_type(axis->object);
  hsize_t dims[32] = {0};
  bool null = false;
  int rank = annb_h5_extent(axis->object, dims, &null);
  annb_status s = ANNB_OK;
  if (H5Tget_class(type) != H5T_COMPOUND || rank != 1 || null)
    s = annb_h5_fail(err, ANNB_EINPUT, source->path, axis->name, "is a dataset that is no table (one dimension of a compound type)");
  char *named = NULL;
  if (!s) s = annb_h5_attr_text(axis->object, "_index", source->path, axis->name, &named, err);
  if (named && H5Tget_member_index(type, named) >= 0) axis->index = named;
  else free(named);
  for (size_t i = 0; i < 2 && !s && !axis->index; i++)
    if (H5Tget_member_index(type, known[i]) >= 0) axis->index = strdup(known[i]);
  if (!s && !axis->index) axis->index = first_string_field(type);
  H5Eclear2(H5E_DEFAULT);
  annb_h5_close(&type);
  if (!s && !axis->index)
    s = annb_h5_fail(err, ANNB_EINPUT, source->path, axis->name, "has no field with names: no 'index', no '_index', no strings");
  axis->compound = true;
  axis->length = dims[0];
  axis->stored = annb_h5_stored(axis->object);
  return s;
}

/* Rows of the names: of the dataset, or of the values or codes when the index is a group itself. */
static annb_status index_length(const annb_source *source, annb_source_axis *axis, annb_error *err) {
  char object[600], path[600];
  hsize_t dims[32] = {0};
  bool null = false;
  snprintf(object, sizeof object, "%s/%.500s", axis->name, axis->index);
  if (!has(axis->object, axis->index))
    return annb_h5_fail(err, ANNB_EINPUT, source->path, object, "is missing: it should hold the names of %s", axis->name);
  const char *at = axis->index;
  if (is_group(axis->object, at)) {
    snprintf(path, sizeof path, "%.500s/values", at);
    if (!has(axis->object, path)) snprintf(path, sizeof path, "%.500s/codes", at);
    at = path;
  }
  hid_t dataset = has(axis->object, at) ? H5Dopen2(axis->object, at, H5P_DEFAULT) : -1;
  int rank = dataset >= 0 ? annb_h5_extent(dataset, dims, &null) : -1;
  axis->stored = rank >= 0 ? annb_h5_stored(dataset) : 0;
  annb_h5_close(&dataset);
  if (rank != 1 || null) return annb_h5_fail(err, ANNB_EINPUT, source->path, object, "is not a list of names");
  axis->length = dims[0];
  return ANNB_OK;
}

static annb_status open_group_axis(const annb_source *source, annb_source_axis *axis, annb_error *err) {
  annb_status s = annb_h5_attr_text(axis->object, "_index", source->path, axis->name, &axis->index, err);
  if (s) return s;
  if (!axis->index && has(axis->object, "_index")) axis->index = strdup("_index");
  if (!axis->index && has(axis->object, "index")) axis->index = strdup("index");
  if (!axis->index || !*axis->index)
    return annb_h5_fail(err, ANNB_EINPUT, source->path, axis->name,
                        "has no names: no attribute '_index' and no dataset '_index' or 'index'");
  return index_length(source, axis, err);
}

/* A few bytes may state any length; names that compress this well are no names. */
static annb_status check_backed(const annb_source *source, const annb_source_axis *axis, annb_error *err) {
  if (axis->length <= MAX_UNBACKED || (axis->length - MAX_UNBACKED) / MAX_ROWS_PER_BYTE <= axis->stored) return ANNB_OK;
  return annb_h5_fail(err, ANNB_EINPUT, source->path, axis->name,
                      "states %llu rows, but %s only %llu bytes in the file: most of them were never written",
                      (unsigned long long)axis->length, axis->object < 0 ? "X takes" : "its names take", (unsigned long long)axis->stored);
}

static annb_status open_axis(const annb_source *source, annb_source_axis *axis, annb_error *err) {
  annb_status s = ANNB_OK;
  axis->object = H5Oopen(source->file, axis->name, H5P_DEFAULT);
  H5I_type_t kind = H5Iget_type(axis->object);
  if (kind == H5I_GROUP) s = open_group_axis(source, axis, err);
  else if (kind == H5I_DATASET) s = open_compound_axis(source, axis, err);
  else s = annb_h5_fail(err, ANNB_EINPUT, source->path, axis->name, "is neither a group nor a table");
  if (!s) s = check_backed(source, axis, err);
  return s;
}

/* ---- axes that are missing ---- */

/* The shape of X, and the bytes that it takes in the file. False when it tells none, or is not marked as AnnData's: any file may
 * have an "X". */
static bool shape_of_x(const annb_source *source, uint64_t shape[2], uint64_t *stored) {
  static const char *const parts[] = {"data", "indices", "indptr"};
  hsize_t dims[32] = {0};
  hid_t x = H5Oopen(source->file, "X", H5P_DEFAULT);
  bool ok = false;
  *stored = 0;
  if (H5Iget_type(x) == H5I_DATASET) {
    ok = annb_h5_extent(x, dims, NULL) == 2;
    shape[0] = dims[0];
    shape[1] = dims[1];
    *stored = annb_h5_stored(x);
  } else if (x >= 0) {
    ok = annb_h5_attr_u64(x, "shape", shape, 2) == 2 || annb_h5_attr_u64(x, "h5sparse_shape", shape, 2) == 2;
    for (int i = 0; i < 3; i++) {
      hid_t part = has(x, parts[i]) ? H5Dopen2(x, parts[i], H5P_DEFAULT) : -1;
      if (part >= 0 && *stored < UINT64_MAX - INT64_MAX) *stored += annb_h5_stored(part) & INT64_MAX;
      annb_h5_close(&part);
    }
  }
  ok = ok && (H5Aexists(x, "encoding-type") > 0 || H5Aexists(x, "h5sparse_format") > 0);
  annb_h5_close(&x);
  H5Eclear2(H5E_DEFAULT);
  return ok;
}

static annb_status axes_of_x(annb_source *source, annb_error *err) {
  uint64_t shape[2] = {0, 0}, stored;
  annb_status s = annb_h5_check_external(source->file, source->path, "X", err);
  if (s) return s;
  if (!shape_of_x(source, shape, &stored))
    return annb_h5_fail(err, ANNB_EINPUT, source->path, NULL,
                        "is no complete AnnData file: /obs and /var are missing, and /X is not marked as AnnData's");
  source->obs.length = shape[0];
  source->var.length = shape[1];
  source->obs.stored = source->var.stored = stored;
  s = check_backed(source, &source->obs, err);
  return s ? s : check_backed(source, &source->var, err);
}

static annb_status open_axes(annb_source *source, annb_error *err) {
  annb_source_axis *axes[] = {&source->obs, &source->var};
  bool there[2], x = annb_source_has_x(source->file);
  annb_status s = ANNB_OK;
  for (int i = 0; i < 2 && !s; i++) {
    s = annb_h5_check_external(source->file, source->path, axes[i]->name, err);
    there[i] = has(source->file, axes[i]->name);
  }
  if (s) return s;
  if (!there[0] && !there[1]) return axes_of_x(source, err);
  for (int i = 0; i < 2 && !s; i++) {
    if (there[i]) s = open_axis(source, axes[i], err);
    else if (x) s = annb_h5_fail(err, ANNB_EINPUT, source->path, NULL, "is no complete AnnData file: /%s is missing", axes[i]->name);
  }
  return s;
}

static annb_status check_limits(const annb_source *source, annb_error *err) {
  if (source->obs.length > ANNB_MAX_ROWS)
    return annb_h5_fail(err, ANNB_EINPUT, source->path, "obs", "states %llu rows, more than 2^40", (unsigned long long)source->obs.length);
  if (source->var.length > ANNB_MAX_COLS)
    return annb_h5_fail(err, ANNB_EINPUT, source->path, "var", "states %llu genes, more than 2^31 - 1",
                        (unsigned long long)source->var.length);
  return ANNB_OK;
}

uint64_t annb_source_raw_vars(const annb_source *source) {
  annb_source_axis axis = {.name = has(source->file, "raw/var") ? "raw/var" : "raw.var", .object = -1};
  bool known = has(source->file, axis.name) && open_axis(source, &axis, NULL) == ANNB_OK;
  annb_h5_close(&axis.object);
  free(axis.index);
  H5Eclear2(H5E_DEFAULT);
  return known ? axis.length : UINT64_MAX;
}

annb_status annb_source_open(annb_source *source, const char *path, uint64_t memory, annb_error *err) {
  *source = (annb_source){
      .path = strdup(path), .file = -1, .memory = memory, .obs = {.name = "obs", .object = -1}, .var = {.name = "var", .object = -1}};
  annb_status s = source->path ? annb_h5_open(path, &source->file, err) : annb_fail_memory(err);
  if (!s) s = refuse(source, err);
  if (!s && !has(source->file, "X") && !has(source->file, "obs") && !has(source->file, "var"))
    s = annb_h5_fail(err, ANNB_EINPUT, path, NULL, "is an HDF5 file but no AnnData: it has no X, no obs and no var");
  if (!s) s = open_axes(source, err);
  if (!s) s = check_limits(source, err);
  if (s) annb_source_close(source);
  return s;
}

void annb_source_close(annb_source *source) {
  annb_h5_close(&source->obs.object);
  annb_h5_close(&source->var.object);
  annb_h5_close(&source->file);
  free(source->obs.index);
  free(source->var.index);
  free(source->path);
  source->obs.index = source->var.index = source->path = NULL;
}
