#include "h5ad_write.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE 4096u /* names and codes written at once */

hid_t annb_h5_check(hid_t result, const char *what) {
  if (result >= 0) return result;
  fprintf(stderr, "gen: HDF5 failed to %s\n", what);
  exit(1);
}

static hid_t utf8(void) {
  hid_t type = annb_h5_check(H5Tcopy(H5T_C_S1), "copy a type");
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

static void attribute(hid_t object, const char *name, hid_t type, hid_t space, const void *value) {
  hid_t a = annb_h5_check(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), "create an attribute");
  annb_h5_check(H5Awrite(a, type, value), "write an attribute");
  H5Aclose(a);
}

void annb_h5_string_attribute(hid_t object, const char *name, const char *value) {
  hid_t type = utf8(), space = H5Screate(H5S_SCALAR);
  attribute(object, name, type, space, &value);
  H5Sclose(space);
  H5Tclose(type);
}

void annb_h5_encoding(hid_t object, const char *type, const char *version) {
  annb_h5_string_attribute(object, "encoding-type", type);
  annb_h5_string_attribute(object, "encoding-version", version);
}

hid_t annb_h5_group(hid_t parent, const char *name, const char *encoding, const char *version) {
  hid_t g = annb_h5_check(H5Gcreate2(parent, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "create a group");
  annb_h5_encoding(g, encoding, version);
  return g;
}

hid_t annb_h5_dataset(hid_t parent, const char *name, hid_t type, int rank, const hsize_t *size, const hsize_t *chunk, int level) {
  hid_t space = annb_h5_check(H5Screate_simple(rank, size, NULL), "create a space");
  hid_t plist = annb_h5_check(H5Pcreate(H5P_DATASET_CREATE), "create a property list");
  H5Pset_obj_track_times(plist, 0); /* the same bytes each time */
  if (level > 0 && size[0] > 0) {
    hsize_t fit[2];
    for (int i = 0; i < rank; i++) fit[i] = chunk[i] < size[i] ? chunk[i] : size[i];
    annb_h5_check(H5Pset_chunk(plist, rank, fit), "set chunks");
    annb_h5_check(H5Pset_deflate(plist, (unsigned)level), "set deflate");
  }
  hid_t d = annb_h5_check(H5Dcreate2(parent, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT), "create a dataset");
  H5Pclose(plist);
  H5Sclose(space);
  return d;
}

void annb_h5_write(hid_t dataset, hid_t type, uint64_t first, uint64_t n, const void *data) {
  if (n == 0) return;
  hid_t file = annb_h5_check(H5Dget_space(dataset), "get a space");
  hsize_t size[2] = {0, 0}, start[2] = {first, 0};
  int rank = H5Sget_simple_extent_dims(file, size, NULL);
  size[0] = n;
  annb_h5_check(H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, size, NULL), "select");
  hid_t memory = annb_h5_check(H5Screate_simple(rank, size, NULL), "create a space");
  annb_h5_check(H5Dwrite(dataset, type, memory, file, H5P_DEFAULT, data), "write");
  H5Sclose(memory);
  H5Sclose(file);
}

void annb_h5_strings(hid_t parent, const char *name, uint64_t n, annb_name_fn make, void *user) {
  static char text[SLICE][64];
  static const char *rows[SLICE];
  hid_t type = utf8();
  hid_t d = annb_h5_dataset(parent, name, type, 1, &(hsize_t){n}, NULL, 0);
  annb_h5_encoding(d, "string-array", "0.2.0");
  for (uint64_t at = 0; at < n; at += SLICE) {
    uint64_t part = n - at < SLICE ? n - at : SLICE;
    for (uint64_t i = 0; i < part; i++) {
      make(user, at + i, text[i]);
      rows[i] = text[i];
    }
    annb_h5_write(d, type, at, part, rows);
  }
  H5Dclose(d);
  H5Tclose(type);
}

static void bool_attribute(hid_t object, const char *name, bool value) {
  hid_t type = annb_h5_check(H5Tenum_create(H5T_NATIVE_INT8), "create an enum"), space = H5Screate(H5S_SCALAR);
  H5Tenum_insert(type, "FALSE", &(int8_t){0});
  H5Tenum_insert(type, "TRUE", &(int8_t){1});
  attribute(object, name, type, space, &(int8_t){value});
  H5Sclose(space);
  H5Tclose(type);
}

void annb_h5_categorical(hid_t parent, const char *name, uint64_t n, annb_code_fn code, uint32_t n_categories, annb_name_fn make,
                         void *user) {
  static int16_t codes[SLICE];
  hid_t g = annb_h5_group(parent, name, "categorical", "0.2.0");
  bool_attribute(g, "ordered", false);
  hid_t type = n_categories <= 127 ? H5T_STD_I8LE : H5T_STD_I16LE;
  hid_t d = annb_h5_dataset(g, "codes", type, 1, &(hsize_t){n}, NULL, 0);
  annb_h5_encoding(d, "array", "0.2.0");
  for (uint64_t at = 0; at < n; at += SLICE) {
    uint64_t part = n - at < SLICE ? n - at : SLICE;
    for (uint64_t i = 0; i < part; i++) codes[i] = (int16_t)code(user, at + i);
    annb_h5_write(d, H5T_NATIVE_INT16, at, part, codes);
  }
  H5Dclose(d);
  annb_h5_strings(g, "categories", n_categories, make, user);
  H5Gclose(g);
}

hid_t annb_h5_frame(hid_t parent, const char *name, const char *const *columns, size_t n_columns) {
  hid_t g = annb_h5_group(parent, name, "dataframe", "0.2.0");
  annb_h5_string_attribute(g, "_index", "_index");
  hid_t type = utf8(), space = annb_h5_check(H5Screate_simple(1, &(hsize_t){n_columns}, NULL), "create a space");
  hid_t a = annb_h5_check(H5Acreate2(g, "column-order", type, space, H5P_DEFAULT, H5P_DEFAULT), "create an attribute");
  if (n_columns) annb_h5_check(H5Awrite(a, type, columns), "write an attribute");
  H5Aclose(a);
  H5Sclose(space);
  H5Tclose(type);
  return g;
}
