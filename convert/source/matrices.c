#include "matrices.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

#define RAW "raw/X"
#define OLD_RAW "raw.X"

static hid_t open_object(hid_t file, const char *path) { return annb_h5_exists(file, path) ? H5Oopen(file, path, H5P_DEFAULT) : -1; }

bool annb_source_has_x(hid_t file) {
  bool null = false;
  hsize_t dims[32];
  if (H5Lexists(file, "X", H5P_DEFAULT) <= 0) return false;
  hid_t x = open_object(file, "X");
  if (x >= 0 && H5Iget_type(x) == H5I_DATASET) annb_h5_extent(x, dims, &null);
  annb_h5_close(&x);
  return !null;
}

/* ---- what can be packed ---- */

static bool is_sparse(hid_t group) {
  char *encoding = annb_h5_attr_string(group, "encoding-type"), *legacy = annb_h5_attr_string(group, "h5sparse_format");
  bool yes = encoding ? !strcmp(encoding, "csr_matrix") || !strcmp(encoding, "csc_matrix") : legacy != NULL;
  free(encoding);
  free(legacy);
  return yes;
}

static bool is_dense(hid_t dataset) {
  hsize_t dims[32];
  bool null = false;
  annb_dtype dtype;
  hid_t type = H5Dget_type(dataset);
  bool yes = annb_h5_extent(dataset, dims, &null) == 2 && !null && annb_h5_dtype(type, &dtype, NULL);
  annb_h5_close(&type);
  return yes;
}

static bool is_matrix(hid_t file, const char *path) {
  hid_t object = open_object(file, path);
  H5I_type_t kind = object < 0 ? H5I_BADID : H5Iget_type(object);
  bool yes = kind == H5I_GROUP ? is_sparse(object) : kind == H5I_DATASET && is_dense(object);
  annb_h5_close(&object);
  H5Eclear2(H5E_DEFAULT);
  return yes;
}

/* ---- names ---- */

/* Members of the group `slot` that are matrices. */
static annb_status add_slot(hid_t file, const char *slot, annb_names *out, annb_error *err) {
  annb_names keys = {NULL, 0};
  hid_t group = open_object(file, slot);
  annb_status s = group >= 0 && H5Iget_type(group) == H5I_GROUP ? annb_names_of_group(group, &keys, err) : ANNB_OK;
  for (size_t i = 0; i < keys.n && !s; i++) {
    size_t size = strlen(slot) + strlen(keys.name[i]) + 2;
    char *name = malloc(size);
    if (!name) s = annb_fail_memory(err);
    else strcat(strcat(strcpy(name, slot), "/"), keys.name[i]);
    if (!s && size <= ANNB_MAX_NAME && is_matrix(file, name)) s = annb_names_add(out, name, err);
    free(name);
  }
  annb_names_free(&keys);
  annb_h5_close(&group);
  return s;
}

annb_status annb_source_matrices(const annb_source *source, annb_names *out, annb_error *err) {
  hid_t file = source->file;
  *out = (annb_names){NULL, 0};
  annb_status s = annb_source_has_x(file) ? annb_names_add(out, "X", err) : ANNB_OK;
  if (!s) s = add_slot(file, "layers", out, err);
  if (!s && (is_matrix(file, RAW) || is_matrix(file, OLD_RAW))) s = annb_names_add(out, RAW, err);
  if (!s) s = add_slot(file, "obsm", out, err);
  if (s) annb_names_free(out);
  return s;
}

/* ---- one matrix ---- */

char *annb_source_matrix_path(hid_t file, const char *name) {
  bool old = !strcmp(name, RAW) && !annb_h5_exists(file, RAW) && annb_h5_exists(file, OLD_RAW);
  const char *at = old ? OLD_RAW : name;
  char *path = malloc(strlen(at) + 2);
  if (path) strcat(strcpy(path, "/"), at);
  return path;
}

uint64_t annb_source_matrix_columns(const annb_source *source, const char *name, const char **axis) {
  *axis = "var";
  if (!strcmp(name, "X") || !strncmp(name, "layers/", 7)) return source->var.length;
  *axis = "raw/var";
  return strcmp(name, RAW) ? UINT64_MAX : annb_source_raw_vars(source);
}
