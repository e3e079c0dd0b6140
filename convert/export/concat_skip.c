/* What a concatenated file has of the store, and what is left out. */
#include "concat.h"

#include "../../store/error.h"

#include <string.h>

static const char *without_slash(const char *skip) { return *skip == '/' ? skip + 1 : skip; }

static bool is_skipped(const annb_concat *concat, const char *slot, const char *name) {
  const annb_subset_options *o = &concat->options->subset;
  const size_t n = strlen(slot);
  for (size_t i = 0; i < o->n_skip; i++) {
    const char *skip = without_slash(o->skip[i]);
    if (!strncmp(skip, slot, n) && !strcmp(skip + n, name)) return true;
  }
  return false;
}

/* Every part has it. */
static annb_status is_common(const annb_concat *concat, uint32_t matrix, bool *common, annb_error *err) {
  annb_matrix_info info;
  annb_store_info store;
  annb_status s = annb_store_matrix(concat->store, matrix, &info, err);
  annb_store_get_info(concat->store, &store);
  *common = !s && info.axes != ANNB_OBS_RAW_VAR;
  for (uint32_t p = 0; !s && *common && p < store.n_parts; p++) {
    const uint32_t *ids;
    s = annb_matrix_gene_order(concat->store, p, matrix, &ids, err);
    *common = s != ANNB_ENOTFOUND;
    if (!*common) s = ANNB_OK;
  }
  return s;
}

annb_status annb_concat_has(const annb_concat *concat, uint32_t matrix, bool *has, annb_error *err) {
  annb_matrix_info info;
  annb_status s = annb_store_matrix(concat->store, matrix, &info, err);
  if (!s) s = is_common(concat, matrix, has, err);
  if (!s && *has) *has = !is_skipped(concat, "", info.name);
  return s;
}

static bool can_be_written(const annb_column_info *info) {
  return !info->is_index && *info->name && !strchr(info->name, '/') && strcmp(info->name, ".") && strcmp(info->name, "_index");
}

bool annb_concat_has_column(const annb_concat *concat, const annb_column_info *info) {
  return can_be_written(info) && !is_skipped(concat, info->axis == ANNB_AXIS_OBS ? "obs/" : "var/", info->name);
}

static annb_status find_column(const annb_concat *concat, const char *skip, bool *found, annb_error *err) {
  const annb_joint_column *column;
  annb_column_info info;
  *found = false;
  if (strncmp(skip, "obs/", 4) && strncmp(skip, "var/", 4)) return ANNB_OK;
  annb_status s = annb_store_find_column(concat->store, *skip == 'o' ? ANNB_AXIS_OBS : ANNB_AXIS_VAR, skip + 4, &column, err);
  if (s) return s == ANNB_ENOTFOUND ? ANNB_OK : s;
  annb_joint_column_get_info(column, &info);
  *found = can_be_written(&info);
  return ANNB_OK;
}

static annb_status find_matrix(const annb_concat *concat, const char *skip, bool *found, annb_error *err) {
  annb_store_info info;
  annb_matrix_info matrix;
  annb_status s = ANNB_OK;
  annb_store_get_info(concat->store, &info);
  for (uint32_t i = 0; !s && !*found && i < info.n_matrices; i++) {
    s = annb_store_matrix(concat->store, i, &matrix, err);
    if (!s && !strcmp(matrix.name, skip)) s = is_common(concat, i, found, err);
  }
  return s;
}

annb_status annb_concat_check_skip(const annb_concat *concat, annb_error *err) {
  const annb_subset_options *o = &concat->options->subset;
  annb_status s = ANNB_OK;
  for (size_t i = 0; !s && i < o->n_skip; i++) {
    const char *skip = without_slash(o->skip[i]);
    bool found;
    s = find_column(concat, skip, &found, err);
    if (!s && !found) s = find_matrix(concat, skip, &found, err);
    if (!s && !found)
      s = annb_fail(err, ANNB_ENOTFOUND, annb_store_path(concat->store),
                    "has no '%.200s' that could be left out: of several parts together, columns (obs/NAME) and packed matrices can", skip);
  }
  return s;
}
