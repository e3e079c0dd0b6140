#include "virtual.h"

#include "../../store/error.h"
#include "../../store/io.h"
#include "h5.h"

#include <stdlib.h>
#include <string.h>

typedef ssize_t (*name_fn)(hid_t creation, size_t i, char *name, size_t size);

/* In fresh memory, or NULL. */
static char *name_of(hid_t creation, size_t i, name_fn get) {
  ssize_t length = get(creation, i, NULL, 0);
  char *name = length < 0 ? NULL : calloc(1, (size_t)length + 1);
  if (name && get(creation, i, name, (size_t)length + 1) < 0) *name = 0;
  return name;
}

/* HDF5 looks for other files beside the one that names them. */
static annb_status find_file(const char *file, const char *other, bool *found, annb_error *err) {
  const char *slash = *other == '/' ? NULL : strrchr(file, '/');
  size_t folder = slash ? (size_t)(slash - file) + 1 : 0;
  char *path = malloc(folder + strlen(other) + 1);
  annb_path_kind kind;
  if (!path) return annb_fail_memory(err);
  memcpy(path, file, folder);
  strcpy(path + folder, other);
  annb_status s = annb_io_kind(path, &kind, err);
  *found = kind == ANNB_PATH_FILE; /* a pipe would make HDF5 wait */
  free(path);
  return s;
}

static annb_status check_source(hid_t dataset, const char *file, const char *object, const char *other, const char *name, annb_error *err) {
  bool found = true;
  annb_status s = ANNB_OK;
  if (strchr(other, '%') || strchr(name, '%')) return ANNB_OK;
  if (!strcmp(other, ".")) {
    hid_t root = H5Iget_file_id(dataset);
    found = annb_h5_exists(root, name);
    annb_h5_close(&root);
  } else {
    s = find_file(file, other, &found, err);
  }
  if (s || found) return s;
  return annb_h5_fail(err, ANNB_EINPUT, file, object, "is a virtual dataset, and its source %s in %s is missing", name,
                      strcmp(other, ".") ? other : "this file");
}

annb_status annb_virtual_check(hid_t dataset, const char *file, const char *object, hid_t creation, annb_error *err) {
  size_t n = 0;
  if (H5Pget_layout(creation) != H5D_VIRTUAL || H5Pget_virtual_count(creation, &n) < 0) return ANNB_OK;
  annb_status s = ANNB_OK;
  for (size_t i = 0; i < n && !s; i++) {
    char *other = name_of(creation, i, H5Pget_virtual_filename), *name = name_of(creation, i, H5Pget_virtual_dsetname);
    s = other && name ? check_source(dataset, file, object, other, name, err) : annb_fail_memory(err);
    free(other);
    free(name);
  }
  return s;
}

annb_status annb_external_check(const char *file, const char *object, hid_t creation, annb_error *err) {
  int n = H5Pget_layout(creation) == H5D_CONTIGUOUS ? H5Pget_external_count(creation) : 0;
  annb_status s = ANNB_OK;
  for (int i = 0; i < n && !s; i++) {
    char name[4096] = "";
    off_t offset;
    hsize_t size;
    bool found = true;
    if (H5Pget_external(creation, (unsigned)i, sizeof name, name, &offset, &size) < 0 || name[sizeof name - 1]) break;
    s = find_file(file, name, &found, err);
    if (!s && !found) s = annb_h5_fail(err, ANNB_EINPUT, file, object, "keeps its values in the external file %s, which is missing", name);
  }
  H5Eclear2(H5E_DEFAULT);
  return s;
}
