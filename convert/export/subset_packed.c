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

/* Is the object, or a member of it, without its values? */
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

bool annb_subset_packed(const annb_subset *subset, const char *path, uint32_t *matrix) {
  annb_store_info info;
  annb_matrix_info m;
  if (!is_empty(subset, path)) return false;
  annb_store_get_info(subset->fill->store, &info);
  for (uint32_t i = 0; i < info.n_matrices; i++)
    if (!annb_store_matrix(subset->fill->store, i, &m, NULL) && same_object(subset->fill->merged->out, m.name, path)) {
      *matrix = i;
      return true;
    }
  return false;
}
