#include "files.h"
#include "tree.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

void annb_tree_free(annb_tree *tree) {
  annb_graph_free(&tree->graph);
  free(tree->todo);
  for (size_t i = 0; i < tree->n_holders; i++) free(tree->holders[i].attribute);
  free(tree->holders);
  for (size_t i = 0; i < tree->n_crossings; i++) {
    free(tree->crossings[i].holder);
    free(tree->crossings[i].attribute);
    free(tree->crossings[i].target);
  }
  free(tree->crossings);
}

annb_status annb_tree_fail(annb_tree *tree, annb_status status, uint32_t node, const char *name, const char *text, annb_error *err) {
  char *path = annb_graph_path(&tree->graph, node, name);
  annb_status s = annb_h5_fail(err, status, tree->in_name, path ? path : name, "%s", text);
  free(path);
  return s;
}

hid_t annb_link_properties(H5T_cset_t cset) {
  hid_t properties = H5Pcreate(H5P_LINK_CREATE);
  if (properties >= 0) H5Pset_char_encoding(properties, cset);
  return properties;
}

annb_status annb_tree_later(annb_tree *tree, uint32_t node, annb_error *err) {
  if (tree->n_todo == tree->todo_room) {
    size_t room = tree->todo_room ? 2 * tree->todo_room : 64;
    uint32_t *todo = realloc(tree->todo, room * sizeof *todo);
    if (!todo) return annb_fail_memory(err);
    tree->todo = todo;
    tree->todo_room = room;
  }
  tree->todo[tree->n_todo++] = node;
  return ANNB_OK;
}

/* Add the node for `object`, whose copy is `copy`. */
static annb_status add_node(annb_tree *tree, uint32_t parent, const char *name, hid_t object, hid_t copy, uint32_t *node, annb_error *err) {
  H5O_info_t from, to;
  if (H5Oget_info2(object, &from, H5O_INFO_BASIC) < 0 || H5Oget_info2(copy, &to, H5O_INFO_BASIC) < 0)
    return annb_tree_fail(tree, ANNB_EINPUT, parent, name, "the object cannot be examined", err);
  annb_error detail;
  annb_status s = annb_graph_add(&tree->graph, from.fileno, from.addr, parent, name, node, &detail);
  if (s) return annb_tree_fail(tree, s, parent, NULL, detail.message, err);
  tree->graph.nodes[*node].out = tree->current;
  tree->graph.nodes[*node].out_addr = to.addr;
  return ANNB_OK;
}

annb_status annb_tree_made(annb_tree *tree, const annb_place *place, const char *name, hid_t object, hid_t copy, bool merge, uint32_t *node,
                           annb_error *err) {
  annb_status s = annb_file_check(tree->out[tree->current], tree->out_name[tree->current], err);
  if (!s) s = add_node(tree, place->node, name, object, copy, node, err);
  return s || merge ? s : annb_tree_attrs(tree, object, copy, *node, err);
}

/* Not the list of H5Gget_create_plist itself: that of a group with many links carries the addresses of its heap along. */
static hid_t group_properties(hid_t group) {
  hid_t from = H5Gget_create_plist(group), to = H5Pcreate(H5P_GROUP_CREATE);
  unsigned flags, compact, dense;
  herr_t r = from < 0 || to < 0 ? -1 : H5Pset_obj_track_times(to, false);
  if (r >= 0 && H5Pget_link_creation_order(from, &flags) >= 0) r = H5Pset_link_creation_order(to, flags);
  if (r >= 0 && H5Pget_link_phase_change(from, &compact, &dense) >= 0) r = H5Pset_link_phase_change(to, compact, dense);
  if (r >= 0 && H5Pget_attr_creation_order(from, &flags) >= 0) r = H5Pset_attr_creation_order(to, flags);
  if (r >= 0 && H5Pget_attr_phase_change(from, &compact, &dense) >= 0) r = H5Pset_attr_phase_change(to, compact, dense);
  annb_h5_close(&from);
  if (r < 0) annb_h5_close(&to);
  return to;
}

static annb_status copy_group(annb_tree *tree, const annb_place *place, const annb_link *link, annb_error *err) {
  uint32_t node;
  annb_status s;
  hid_t group = H5Gopen2(place->from, link->name, H5P_DEFAULT), properties = group < 0 ? -1 : group_properties(group);
  hid_t link_properties = annb_link_properties(link->cset), copy = -1;
  if (properties >= 0) copy = H5Gcreate2(place->to, link->name, link_properties, properties, H5P_DEFAULT);
  if (group < 0 || properties < 0) s = annb_tree_fail(tree, ANNB_EINPUT, place->node, link->name, "the group cannot be opened", err);
  else if (copy < 0) s = annb_tree_fail(tree, ANNB_EIO, place->node, link->name, "the group cannot be copied", err);
  else s = annb_tree_made(tree, place, link->name, group, copy, false, &node, err);
  if (!s) s = annb_tree_later(tree, node, err);
  annb_h5_close(&link_properties);
  annb_h5_close(&properties);
  annb_h5_close(&copy);
  annb_h5_close(&group);
  return s;
}

static annb_status make_soft(annb_tree *tree, const annb_place *place, const annb_link *link, const char *target, annb_error *err) {
  hid_t properties = annb_link_properties(link->cset);
  herr_t r = H5Lcreate_soft(target, place->to, link->name, properties, H5P_DEFAULT);
  annb_h5_close(&properties);
  return r >= 0 ? ANNB_OK : annb_tree_fail(tree, ANNB_EIO, place->node, link->name, "the soft link cannot be written", err);
}

/* A soft link that stands for a hard link into the other destination. */
static annb_status make_crossing(annb_tree *tree, const annb_place *place, const annb_link *link, uint32_t node, annb_error *err) {
  if (!tree->graph.nodes[node].name && tree->graph.nodes[node].parent != ANNB_NONE)
    return annb_tree_fail(tree, ANNB_EUNSUPPORTED, place->node, link->name,
                          "a committed datatype that is used elsewhere cannot be taken apart from there", err);
  char *path = annb_graph_path(&tree->graph, node, NULL);
  char *value = path ? malloc(strlen(path) + sizeof ANNB_HARD) : NULL;
  annb_status s = ANNB_OK;
  if (value) {
    memcpy(value, ANNB_HARD, sizeof ANNB_HARD - 1);
    strcpy(value + sizeof ANNB_HARD - 1, path);
    s = make_soft(tree, place, link, value, err);
  } else {
    s = annb_fail_memory(err);
  }
  free(path);
  free(value);
  return s;
}

static annb_status make_hard(annb_tree *tree, const annb_place *place, const annb_link *link, uint32_t node, annb_error *err) {
  annb_node *target = &tree->graph.nodes[node];
  if (target->out != tree->current) return make_crossing(tree, place, link, node, err);
  hid_t object = H5Oopen_by_addr(tree->out[target->out], target->out_addr), properties = annb_link_properties(link->cset);
  herr_t r = object < 0 ? -1 : H5Olink(object, place->to, link->name, properties, H5P_DEFAULT);
  annb_h5_close(&properties);
  annb_h5_close(&object);
  if (r < 0) return annb_tree_fail(tree, ANNB_EIO, place->node, link->name, "the hard link cannot be written", err);
  /* a committed type that was met as the type of a dataset */
  if (!target->name && target->parent != ANNB_NONE) {
    target->parent = place->node;
    target->name = strdup(link->name);
    if (!target->name) return annb_fail_memory(err);
  }
  return ANNB_OK;
}

static annb_status copy_hard(annb_tree *tree, const annb_place *place, const annb_link *link, annb_error *err) {
  H5O_info_t info;
  if (H5Oget_info_by_name2(place->from, link->name, &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0)
    return annb_tree_fail(tree, ANNB_EINPUT, place->node, link->name, "the object cannot be opened", err);
  uint32_t node = annb_graph_find(&tree->graph, info.fileno, info.addr);
  if (node != ANNB_NONE) return make_hard(tree, place, link, node, err);
  switch (info.type) {
    case H5O_TYPE_GROUP: return copy_group(tree, place, link, err);
    case H5O_TYPE_DATASET: return annb_tree_dataset(tree, place, link, err);
    case H5O_TYPE_NAMED_DATATYPE: return annb_tree_committed(tree, place, link, err);
    default: return annb_tree_fail(tree, ANNB_EUNSUPPORTED, place->node, link->name, "is of a kind that is not known here", err);
  }
}

static annb_status copy_external(annb_tree *tree, const annb_place *place, const annb_link *link, annb_error *err) {
  hid_t properties = annb_link_properties(link->cset);
  herr_t r = H5Lcreate_external(link->file, link->target, place->to, link->name, properties, H5P_DEFAULT);
  annb_h5_close(&properties);
  return r >= 0 ? ANNB_OK : annb_tree_fail(tree, ANNB_EIO, place->node, link->name, "the external link cannot be written", err);
}

annb_status annb_tree_copy_link(annb_tree *tree, const annb_place *place, const annb_link *link, annb_error *err) {
  if (tree->reserved != ANNB_RESERVED_KEEP && !strncmp(link->name, ANNB_RESERVED, strlen(ANNB_RESERVED))) {
    if (tree->reserved == ANNB_RESERVED_SKIP) return ANNB_OK;
    return annb_tree_fail(tree, ANNB_EUNSUPPORTED, place->node, link->name, "names that start with \"" ANNB_RESERVED "\" are reserved",
                          err);
  }
  switch (link->type) {
    case H5L_TYPE_HARD: return copy_hard(tree, place, link, err);
    case H5L_TYPE_SOFT:
      if (tree->reserved == ANNB_RESERVED_REFUSE && !strncmp(link->target, ANNB_HARD, strlen(ANNB_HARD)))
        return annb_tree_fail(tree, ANNB_EUNSUPPORTED, place->node, link->name, "targets that start with \"" ANNB_HARD "\" are reserved",
                              err);
      return make_soft(tree, place, link, link->target, err);
    case H5L_TYPE_EXTERNAL: return copy_external(tree, place, link, err);
    default: return annb_tree_fail(tree, ANNB_EUNSUPPORTED, place->node, link->name, "is a user-defined link, which cannot be copied", err);
  }
}

static annb_status copy_links(annb_tree *tree, uint32_t node, annb_error *err) {
  annb_links links;
  char *path = annb_graph_path(&tree->graph, node, NULL);
  annb_node n = tree->graph.nodes[node];
  annb_place place = {H5Oopen_by_addr(tree->in, n.addr), H5Oopen_by_addr(tree->out[n.out], n.out_addr), node};
  annb_status s = place.from < 0 || place.to < 0 ? annb_h5_fail(err, ANNB_EINPUT, tree->in_name, path, "the group cannot be opened")
                                                 : annb_links_read(place.from, false, tree->in_name, path, &links, err);
  if (!s) {
    for (size_t i = 0; !s && i < links.n; i++) {
      bool done = false;
      s = annb_going_on(&tree->going, err);
      if (!s && tree->on_link) s = tree->on_link(tree, &place, &links.rows[i], &done, err);
      if (!s && !done) s = annb_tree_copy_link(tree, &place, &links.rows[i], err);
    }
    annb_links_free(&links);
  }
  free(path);
  annb_h5_close(&place.from);
  annb_h5_close(&place.to);
  return s;
}

annb_status annb_tree_run(annb_tree *tree, annb_error *err) {
  annb_status s = ANNB_OK;
  while (!s && tree->n_todo) s = copy_links(tree, tree->todo[--tree->n_todo], err);
  return s;
}

annb_status annb_tree_copy(annb_tree *tree, bool merge, annb_error *err) {
  uint32_t node;
  annb_place none = {-1, -1, ANNB_NONE};
  hid_t from = H5Gopen2(tree->in, "/", H5P_DEFAULT), to = H5Gopen2(tree->out[tree->current], "/", H5P_DEFAULT);
  annb_status s = from < 0 || to < 0 ? annb_h5_fail(err, ANNB_EINPUT, tree->in_name, "/", "the root group cannot be opened")
                                     : annb_tree_made(tree, &none, NULL, from, to, merge, &node, err);
  if (!s) s = annb_tree_later(tree, node, err);
  annb_h5_close(&from);
  annb_h5_close(&to);
  return s ? s : annb_tree_run(tree, err);
}
