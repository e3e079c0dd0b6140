#include "subset.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

/* The same object, whatever links lead to it. */
static bool same_object(hid_t file, const char *a, const char *b) {
  H5O_info_t x, y;
  if (!annb_h5_exists(file, a) || H5Oget_info_by_name2(file, a, &x, H5O_INFO_BASIC, H5P_DEFAULT) < 0) return false;
  if (H5Oget_info_by_name2(file, b, &y, H5O_INFO_BASIC, H5P_DEFAULT) < 0) return false;
  return x.fileno == y.fileno && x.addr == y.addr;
}

/* Is the object, or an array of it, without its values? */
static bool is_empty(const annb_subset *subset, const char *path) {
  static const char *const members[] = {"", "/data", "/indices", "/indptr"};
  char *member = malloc(strlen(path) + 16);
  bool empty = false;
  for (size_t i = 0; member && i < sizeof members / sizeof *members; i++) {
    strcat(strcpy(member, path), members[i]);
    if (annb_merged_find(subset->fill->merged, member)) empty = true;
  }
  free(member);
  return empty;
}

/* The matrix of the store that is the object at `path`; raw/X is the root's raw.X in old layouts. */
static bool find_matrix(const annb_subset *subset, const char *path, uint32_t *matrix) {
  const hid_t file = subset->fill->merged->out;
  annb_store_info info;
  annb_matrix_info m;
  annb_store_get_info(subset->fill->store, &info);
  for (uint32_t i = 0; i < info.n_matrices; i++) {
    if (annb_store_matrix(subset->fill->store, i, &m, NULL)) continue;
    const char *place = !strcmp(m.name, "raw/X") && !annb_h5_exists(file, m.name) ? "raw.X" : m.name;
    if (!same_object(file, place, path)) continue;
    *matrix = i;
    return true;
  }
  return false;
}

annb_status annb_subset_packed(const annb_subset *subset, const char *path, bool *packed, uint32_t *matrix, annb_error *err) {
  *packed = is_empty(subset, path);
  if (!*packed || find_matrix(subset, path, matrix)) return ANNB_OK;
  return annb_subset_fail(subset, ANNB_EUNSUPPORTED, path, "shares arrays with a packed matrix, which cannot be cut", err);
}
