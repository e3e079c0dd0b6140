#include "../sidecar/files.h"
#include "subset.h"

#include "../../store/error.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

const annb_selection *annb_subset_axis(const annb_subset *subset, uint8_t follows) {
  const annb_selection *s = subset->selections[follows];
  return s && s->items ? s : NULL;
}

annb_status annb_subset_fail(const annb_subset *subset, annb_status status, const char *path, const char *text, annb_error *err) {
  char *whole = annb_subset_whole(subset, path);
  status = annb_h5_fail(err, status, subset->fill->merged->sidecar_name, path, "%s: leave it out with --skip %s", text,
                        whole ? whole : path);
  free(whole);
  return status;
}

/* ---- roles ---- */

static annb_role role_of(const annb_subset *subset, uint32_t node) {
  static const annb_role whole = {ANNB_ROLE_WHOLE, 0, 0};
  return node < subset->roles_room ? subset->roles[node] : whole;
}

static annb_status set_role(annb_subset *subset, uint32_t node, annb_role role, annb_error *err) {
  if (node >= subset->roles_room) {
    uint32_t room = 2 * node + 64;
    annb_role *roles = realloc(subset->roles, room * sizeof *roles);
    if (!roles) return annb_fail_memory(err);
    memset(roles + subset->roles_room, 0, (room - subset->roles_room) * sizeof *roles);
    subset->roles = roles;
    subset->roles_room = room;
  }
  subset->roles[node] = role;
  return ANNB_OK;
}

/* Of the members of the root; what is not named here is whole. */
static annb_role slot_role(const char *name) {
  static const struct {
    const char *name;
    annb_role role;
  } slots[] = {{"X", {ANNB_ROLE_ARRAY, ANNB_FOLLOWS_ROWS, ANNB_FOLLOWS_GENES}},
               {"layers", {ANNB_ROLE_ELEMENTS, ANNB_FOLLOWS_ROWS, ANNB_FOLLOWS_GENES}},
               {"obs", {ANNB_ROLE_FRAME, ANNB_FOLLOWS_ROWS, ANNB_FOLLOWS_NONE}},
               {"var", {ANNB_ROLE_FRAME, ANNB_FOLLOWS_GENES, ANNB_FOLLOWS_NONE}},
               {"obsm", {ANNB_ROLE_ELEMENTS, ANNB_FOLLOWS_ROWS, ANNB_FOLLOWS_NONE}},
               {"varm", {ANNB_ROLE_ELEMENTS, ANNB_FOLLOWS_GENES, ANNB_FOLLOWS_NONE}},
               {"obsp", {ANNB_ROLE_ELEMENTS, ANNB_FOLLOWS_ROWS, ANNB_FOLLOWS_ROWS}},
               {"varp", {ANNB_ROLE_ELEMENTS, ANNB_FOLLOWS_GENES, ANNB_FOLLOWS_GENES}},
               {"raw", {ANNB_ROLE_RAW, ANNB_FOLLOWS_NONE, ANNB_FOLLOWS_NONE}},
               {"uns", {ANNB_ROLE_UNS, ANNB_FOLLOWS_NONE, ANNB_FOLLOWS_NONE}},
               {"raw.X", {ANNB_ROLE_ARRAY, ANNB_FOLLOWS_ROWS, ANNB_FOLLOWS_NONE}}};
  for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
    if (!strcmp(name, slots[i].name)) return slots[i].role;
  return (annb_role){ANNB_ROLE_WHOLE, 0, 0};
}

/* Of a member of a group: how its dimensions go; its kind is decided by what it is. */
static annb_role member_role(annb_role parent, const char *name) {
  static const annb_role whole = {ANNB_ROLE_WHOLE, 0, 0}, raw_x = {ANNB_ROLE_ARRAY, ANNB_FOLLOWS_ROWS, ANNB_FOLLOWS_NONE},
                         graph = {ANNB_ROLE_NEIGHBORS, ANNB_FOLLOWS_ROWS, ANNB_FOLLOWS_ROWS};
  switch (parent.kind) {
    case ANNB_ROLE_ROOT: return slot_role(name);
    case ANNB_ROLE_RAW: return strcmp(name, "X") ? whole : raw_x;
    case ANNB_ROLE_UNS: return strcmp(name, "neighbors") ? whole : (annb_role){ANNB_ROLE_NEIGHBORS, 0, 0};
    case ANNB_ROLE_NEIGHBORS: return strcmp(name, "distances") && strcmp(name, "connectivities") ? whole : graph;
    case ANNB_ROLE_FRAME: return strcmp(name, "__categories") ? parent : whole;
    case ANNB_ROLE_CATEGORICAL: return strcmp(name, "codes") ? whole : (annb_role){ANNB_ROLE_ARRAY, parent.first, ANNB_FOLLOWS_NONE};
    case ANNB_ROLE_ELEMENTS: return parent;
    default: return whole;
  }
}

static bool same_axes(annb_role a, annb_role b) {
  return a.first == b.first && a.second == b.second;
}

/* A group that follows an axis: what it is by its encoding. */
static annb_status group_role(const annb_subset *subset, hid_t group, annb_role *role, const char *path, annb_error *err) {
  char *encoding = annb_h5_attr_string(group, "encoding-type");
  annb_status s = ANNB_OK;
  bool sparse = H5Aexists(group, "h5sparse_format") > 0;
  if (role->kind == ANNB_ROLE_RAW || role->kind == ANNB_ROLE_UNS || (role->kind == ANNB_ROLE_NEIGHBORS && !role->first)) {
    free(encoding);
    return ANNB_OK;
  }
  if (encoding && (!strcmp(encoding, "csr_matrix") || !strcmp(encoding, "csc_matrix"))) sparse = true;
  if (sparse) role->kind = ANNB_ROLE_SPARSE;
  else if (encoding && !strcmp(encoding, "categorical")) role->kind = ANNB_ROLE_CATEGORICAL;
  else if (encoding && !strncmp(encoding, "nullable-", 9)) role->kind = ANNB_ROLE_ELEMENTS;
  else if ((encoding && !strcmp(encoding, "dataframe")) || H5Aexists(group, "_index") > 0) role->kind = ANNB_ROLE_FRAME;
  else if (encoding && strcmp(encoding, "dict") && strcmp(encoding, "raw"))
    s = annb_h5_fail(err, ANNB_EUNSUPPORTED, subset->fill->merged->sidecar_name, path,
                     "is of the encoding %.60s, which cannot be cut: leave it out with --skip %s", encoding, path + 1);
  else if (role->kind == ANNB_ROLE_ARRAY)
    s = annb_subset_fail(subset, ANNB_EUNSUPPORTED, path, "is a group of a kind that cannot be cut", err);
  if (!s && role->kind != ANNB_ROLE_SPARSE && role->kind != ANNB_ROLE_ELEMENTS) role->second = ANNB_FOLLOWS_NONE;
  free(encoding);
  return s;
}

/* ---- links ---- */

/* By its path alone: what the object of a soft link follows. */
static annb_role role_of_path(const char *path) {
  char name[16];
  while (*path == '/') path++;
  size_t n = strcspn(path, "/");
  if (n >= sizeof name) return slot_role("");
  memcpy(name, path, n);
  name[n] = 0;
  annb_role role = slot_role(name);
  if (role.kind != ANNB_ROLE_RAW) return role;
  return member_role(role, !strncmp(path + n, "/X", 2) ? "X" : "");
}

/* A link of another kind than a hard one stays when what it leads to is cut alike, or when it leads nowhere. */
static annb_status check_link(const annb_subset *subset, const annb_place *place, const annb_link *link, annb_role role, const char *path,
                              annb_error *err) {
  if (link->type == H5L_TYPE_EXTERNAL && role.kind != ANNB_ROLE_WHOLE)
    return annb_subset_fail(subset, ANNB_EUNSUPPORTED, path, "is a link into another file, which cannot be cut", err);
  if (link->type != H5L_TYPE_SOFT || !annb_h5_exists(place->from, link->name)) return ANNB_OK;
  annb_role own = role_of_path(path), target = *link->target == '/' ? role_of_path(link->target) : own;
  if (!strncmp(link->target, "..", 2) || !same_axes(own, target))
    return annb_subset_fail(subset, ANNB_EUNSUPPORTED, path, "is a link to something of other cells or genes, which cannot be cut", err);
  return annb_subset_check_target(subset, path, link->target, err);
}

/* ---- objects ---- */

/* Copy the group alone; its members follow. */
static annb_status copy_group(annb_subset *subset, const annb_place *place, const annb_link *link, const H5O_info_t *info, annb_role role,
                              uint32_t *node, annb_error *err) {
  annb_status s = annb_tree_copy_link(&subset->tree, place, link, err);
  *node = annb_graph_find(&subset->tree.graph, info->fileno, info->addr);
  if (!s && *node == ANNB_NONE) s = annb_tree_fail(&subset->tree, ANNB_EINPUT, place->node, link->name, "the group cannot be copied", err);
  return s ? s : set_role(subset, *node, role, err);
}

/* A sparse matrix that is not cut, and whose arrays are there, is copied. */
static annb_status stays(const annb_subset *subset, const annb_role *role, const char *path, bool *yes, annb_error *err) {
  uint32_t matrix;
  bool packed;
  annb_status s = annb_subset_packed(subset, path, &packed, &matrix, err);
  *yes = !s && !packed && !annb_subset_axis(subset, role->first) && !annb_subset_axis(subset, role->second);
  return s;
}

static annb_status cut_group(annb_subset *subset, const annb_place *place, const annb_link *link, const H5O_info_t *info, annb_role role,
                             const char *path, annb_error *err) {
  uint32_t node;
  bool whole = false;
  hid_t from = H5Gopen2(place->from, link->name, H5P_DEFAULT), to = -1;
  annb_status s = from < 0 ? annb_tree_fail(&subset->tree, ANNB_EINPUT, place->node, link->name, "the group cannot be opened", err)
                           : group_role(subset, from, &role, path, err);
  if (!s && role.kind == ANNB_ROLE_SPARSE) s = stays(subset, &role, path, &whole, err);
  if (whole) role.kind = ANNB_ROLE_WHOLE; /* its axes are remembered */
  if (!s) s = copy_group(subset, place, link, info, role, &node, err);
  if (!s && (role.kind == ANNB_ROLE_SPARSE || role.kind == ANNB_ROLE_FRAME)) {
    to = H5Gopen2(place->to, link->name, H5P_DEFAULT);
    if (to < 0) s = annb_tree_fail(&subset->tree, ANNB_EIO, place->node, link->name, "the group cannot be opened again", err);
    else if (role.kind == ANNB_ROLE_FRAME) s = annb_subset_list_columns(subset, to, path, err);
    else s = annb_subset_sparse(subset, from, to, node, role, path, err);
  }
  annb_h5_close(&to);
  annb_h5_close(&from);
  return s;
}

/* Nothing changes along its axes, and its values are there. */
static bool is_unchanged(const annb_subset *subset, const annb_role *role, const char *path) {
  if (annb_subset_axis(subset, role->first) || annb_subset_axis(subset, role->second)) return false;
  return annb_merged_find(subset->fill->merged, path) == NULL;
}

/* Does anndata, when it reads the file, take a member of uns/neighbors for one of obsp? A sparse matrix of cells by cells, not in obsp. */
static bool is_graph(const annb_subset *subset, hid_t neighbors, const char *name) {
  uint64_t shape[2], n = subset->fill->rows->of;
  char path[32] = "obsp/";
  if (annb_h5_exists(subset->fill->merged->out, strncat(path, name, 20))) return false;
  hid_t group = H5Gopen2(neighbors, name, H5P_DEFAULT);
  if (group < 0) H5Eclear2(H5E_DEFAULT);
  int found = group < 0 ? 0 : annb_h5_attr_u64(group, H5Aexists(group, "h5sparse_shape") > 0 ? "h5sparse_shape" : "shape", shape, 2);
  annb_h5_close(&group);
  return found == 2 && shape[0] == n && shape[1] == n;
}

static annb_status cut_object(annb_subset *subset, const annb_place *place, const annb_link *link, annb_role role, const char *path,
                              bool *done, annb_error *err) {
  H5O_info_t info;
  if (H5Oget_info_by_name2(place->from, link->name, &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0)
    return annb_tree_fail(&subset->tree, ANNB_EINPUT, place->node, link->name, "the object cannot be opened", err);
  uint32_t node = annb_graph_find(&subset->tree.graph, info.fileno, info.addr);
  if (node != ANNB_NONE) {
    if (same_axes(role, role_of(subset, node))) return ANNB_OK; /* a hard link to the copy */
    return annb_subset_fail(subset, ANNB_EUNSUPPORTED, path, "is one object with something of other cells or genes, which cannot be cut",
                            err);
  }
  if (role.kind == ANNB_ROLE_NEIGHBORS && role.first && !is_graph(subset, place->from, link->name)) return ANNB_OK;
  if (role.kind == ANNB_ROLE_WHOLE && annb_merged_find(subset->fill->merged, path))
    return annb_subset_fail(subset, ANNB_EUNSUPPORTED, path, "is part of a packed matrix and stands where nothing is cut", err);
  if (role.kind == ANNB_ROLE_WHOLE) return ANNB_OK;
  if (info.type == H5O_TYPE_NAMED_DATATYPE) return ANNB_OK;
  *done = true;
  if (info.type == H5O_TYPE_GROUP) return cut_group(subset, place, link, &info, role, path, err);
  role.kind = ANNB_ROLE_ARRAY;
  *done = !is_unchanged(subset, &role, path);
  annb_status s = *done ? annb_subset_array(subset, place, link, role, path, err) : annb_tree_copy_link(&subset->tree, place, link, err);
  *done = true;
  node = annb_graph_find(&subset->tree.graph, info.fileno, info.addr);
  return s || node == ANNB_NONE ? s : set_role(subset, node, role, err);
}

/* An array of a sparse matrix has been written. */
static bool is_written(annb_role parent, const char *name) {
  return parent.kind == ANNB_ROLE_SPARSE && (!strcmp(name, "data") || !strcmp(name, "indices") || !strcmp(name, "indptr"));
}

static annb_status on_link(annb_tree *tree, const annb_place *place, const annb_link *link, bool *done, annb_error *err) {
  annb_subset *subset = tree->user;
  annb_role parent = role_of(subset, place->node), role = {ANNB_ROLE_WHOLE, 0, 0};
  annb_status s = ANNB_OK;
  char *path = annb_graph_path(&tree->graph, place->node, link->name);
  if (!path) return annb_fail_memory(err);
  if (place->node == 0) parent.kind = ANNB_ROLE_ROOT;
  if (parent.kind != ANNB_ROLE_WHOLE) role = member_role(parent, link->name);
  if (annb_subset_skips(subset, path) || is_written(parent, link->name)) *done = true;
  else if (link->type == H5L_TYPE_HARD) s = cut_object(subset, place, link, role, path, done, err);
  else s = check_link(subset, place, link, role, path, err);
  free(path);
  return s;
}

annb_status annb_subset_copy(annb_fill *fill, const annb_subset_options *options, const annb_going *going, annb_error *err) {
  annb_subset subset = {.fill = fill, .options = options, .selections = {NULL, fill->rows, fill->genes}};
  subset.tree = (annb_tree){.in = fill->merged->out,
                            .in_name = fill->merged->sidecar_name,
                            .out = {fill->out, -1},
                            .out_name = {fill->out_name, fill->out_name},
                            .on_link = on_link,
                            .going = *going};
  subset.tree.user = &subset;
  annb_status s = annb_subset_check_skip(&subset, err);
  if (!s) s = annb_tree_copy(&subset.tree, false, err);
  if (!s) s = annb_tree_finish(&subset.tree, err);
  annb_status full = annb_file_check(fill->out, fill->out_name, err); /* explains what else went wrong */
  annb_tree_free(&subset.tree);
  free(subset.roles);
  return full ? full : s;
}
