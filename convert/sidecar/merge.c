#include "merge.h"

#include "crossings.h"
#include "files.h"
#include "shell.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

/* A group of the restore file whose links have an order in the output. */
typedef struct ordered {
  haddr_t mirror;
  char *path;
} ordered;

typedef struct joining {
  annb_tree tree;
  annb_merged *merged;
  ordered *ordered;
  size_t n_ordered, ordered_room, empty_room;
} joining;

static annb_status note_order(joining *j, hid_t mirror, const char *path, annb_error *err) {
  H5O_info_t info;
  if (H5Oget_info2(mirror, &info, H5O_INFO_BASIC) < 0)
    return annb_h5_fail(err, ANNB_EIO, j->merged->restore_name, path, "the group cannot be examined");
  if (j->n_ordered == j->ordered_room) {
    size_t room = j->ordered_room ? 2 * j->ordered_room : 8;
    ordered *more = realloc(j->ordered, room * sizeof *more);
    if (!more) return annb_fail_memory(err);
    j->ordered = more;
    j->ordered_room = room;
  }
  char *copy = path ? strdup(path) : NULL;
  if (!copy) return annb_fail_memory(err);
  j->ordered[j->n_ordered++] = (ordered){info.addr, copy};
  return ANNB_OK;
}

static annb_status note_empty(joining *j, hid_t shell, hid_t copy, const char *role, uint64_t tail, annb_error *err) {
  H5O_info_t a, b;
  annb_merged *m = j->merged;
  if (H5Oget_info2(shell, &a, H5O_INFO_BASIC) < 0 || H5Oget_info2(copy, &b, H5O_INFO_BASIC) < 0)
    return annb_h5_fail(err, ANNB_EIO, m->out_name, NULL, "a dataset cannot be examined");
  if (m->n_empty == j->empty_room) {
    size_t room = j->empty_room ? 2 * j->empty_room : 8;
    annb_empty *more = realloc(m->empty, room * sizeof *more);
    if (!more) return annb_fail_memory(err);
    m->empty = more;
    j->empty_room = room;
  }
  annb_empty *e = &m->empty[m->n_empty++];
  *e = (annb_empty){.addr = b.addr, .shell = a.addr, .tail = tail};
  strncpy(e->role, role, sizeof e->role - 1);
  return ANNB_OK;
}

/* The group is in the output already: its links follow. */
static annb_status join_group(joining *j, const annb_place *place, const annb_link *link, annb_error *err) {
  uint32_t node;
  hid_t mirror = H5Gopen2(place->from, link->name, H5P_DEFAULT), out = H5Gopen2(place->to, link->name, H5P_DEFAULT);
  annb_status s = mirror < 0 || out < 0 ? annb_tree_fail(&j->tree, ANNB_ECORRUPT, place->node, link->name,
                                                         "is in the sidecar too, and not a group in both", err)
                                        : annb_tree_made(&j->tree, place, link->name, mirror, out, true, &node, err);
  if (!s && H5Aexists(mirror, ANNB_ORDER) > 0) {
    char *path = annb_graph_path(&j->tree.graph, node, NULL);
    s = note_order(j, mirror, path, err);
    free(path);
  }
  if (!s) s = annb_tree_later(&j->tree, node, err);
  annb_h5_close(&mirror);
  annb_h5_close(&out);
  return s;
}

static annb_status join_shell(joining *j, const annb_place *place, const annb_link *link, hid_t shell, const char *role, annb_error *err) {
  hid_t copy = -1;
  uint64_t tail = 0;
  char *path = annb_graph_path(&j->tree.graph, place->node, link->name);
  annb_status s = annb_shell_copy(&j->tree, place, link, shell, &copy, err);
  if (!s) s = annb_shell_copy_tail(j->merged->restore, j->merged->restore_name, shell, copy, path, &tail, err);
  if (!s) s = note_empty(j, shell, copy, role, tail, err);
  free(path);
  annb_h5_close(&copy);
  return s;
}

static annb_status join_hard(joining *j, const annb_place *place, const annb_link *link, annb_error *err) {
  /* HDF5 takes the slash away from the path of the root */
  const char *path = link->target + strlen(ANNB_HARD);
  hid_t object = H5Oopen(j->tree.out[0], *path ? path : "/", H5P_DEFAULT), properties = annb_link_properties(link->cset);
  herr_t r = object < 0 ? -1 : H5Olink(object, place->to, link->name, properties, H5P_DEFAULT);
  annb_h5_close(&properties);
  annb_h5_close(&object);
  return r >= 0 ? ANNB_OK
                : annb_tree_fail(&j->tree, ANNB_ECORRUPT, place->node, link->name, "stands for an object that is not in the sidecar", err);
}

static annb_status join_link(annb_tree *tree, const annb_place *place, const annb_link *link, bool *done, annb_error *err) {
  joining *j = tree->user;
  H5O_info_t info;
  annb_status s = ANNB_OK;
  if (!strncmp(link->name, ANNB_RESERVED, strlen(ANNB_RESERVED))) return ANNB_OK;
  if (link->type == H5L_TYPE_SOFT && !strncmp(link->target, ANNB_HARD, strlen(ANNB_HARD))) {
    *done = true;
    return join_hard(j, place, link, err);
  }
  if (link->type != H5L_TYPE_HARD || H5Oget_info_by_name2(place->from, link->name, &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0) return ANNB_OK;
  if (annb_graph_find(&tree->graph, info.fileno, info.addr) != ANNB_NONE) return ANNB_OK;
  if (H5Lexists(place->to, link->name, H5P_DEFAULT) > 0) {
    *done = true;
    return join_group(j, place, link, err);
  }
  if (info.type != H5O_TYPE_DATASET) return ANNB_OK;
  hid_t dataset = H5Dopen2(place->from, link->name, H5P_DEFAULT);
  char *role = dataset < 0 ? NULL : annb_h5_attr_string(dataset, ANNB_SHELL);
  if (role) {
    *done = true;
    s = join_shell(j, place, link, dataset, role, err);
  }
  free(role);
  annb_h5_close(&dataset);
  return s;
}

/* ---- order ---- */

/* Renaming a link there and back makes it the newest of its group. */
static annb_status renew(hid_t group, const char *name, const char *file, annb_error *err) {
  static const char temporary[] = ANNB_RESERVED "moving";
  if (name && H5Lmove(group, name, group, temporary, H5P_DEFAULT, H5P_DEFAULT) >= 0 &&
      H5Lmove(group, temporary, group, name, H5P_DEFAULT, H5P_DEFAULT) >= 0)
    return ANNB_OK;
  return annb_h5_fail(err, ANNB_ECORRUPT, file, name, "the order of the links of its group cannot be restored");
}

static annb_status restore_order(joining *j, const ordered *o, annb_error *err) {
  /* by path: H5Lmove crashes in groups that were opened by address */
  hid_t mirror = H5Oopen_by_addr(j->merged->restore, o->mirror), out = H5Gopen2(j->merged->out, o->path, H5P_DEFAULT);
  hid_t attr = mirror < 0 ? -1 : H5Aopen(mirror, ANNB_ORDER, H5P_DEFAULT), space = attr < 0 ? -1 : H5Aget_space(attr),
        type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  hssize_t n = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
  char **names = n < 0 || n > (1 << 28) ? NULL : calloc((size_t)n + 1, sizeof *names);
  annb_status s = ANNB_OK;
  if (out < 0 || !names || H5Aread(attr, type, names) < 0)
    s = annb_h5_fail(err, ANNB_ECORRUPT, j->merged->restore_name, o->path, "the order of links cannot be read");
  for (hssize_t i = 0; !s && i < n; i++) s = renew(out, names[i], j->merged->restore_name, err);
  if (names && n > 0) H5Dvlen_reclaim(type, space, H5P_DEFAULT, names);
  free(names);
  annb_h5_close(&type);
  annb_h5_close(&space);
  annb_h5_close(&attr);
  annb_h5_close(&out);
  annb_h5_close(&mirror);
  return s;
}

/* ---- both files ---- */

static annb_status join_restore(joining *j, annb_error *err) {
  annb_tree *tree = &j->tree;
  tree->in = j->merged->restore;
  tree->in_name = j->merged->restore_name;
  tree->reserved = ANNB_RESERVED_SKIP;
  tree->on_link = join_link;
  hid_t mirror = H5Gopen2(j->merged->restore, "/", H5P_DEFAULT);
  annb_status s = H5Aexists(mirror, ANNB_ORDER) > 0 ? note_order(j, mirror, "/", err) : ANNB_OK;
  annb_h5_close(&mirror);
  if (!s) s = annb_tree_copy(tree, true, err);
  for (size_t i = 0; !s && i < j->n_ordered; i++) s = restore_order(j, &j->ordered[i], err);
  return s;
}

annb_status annb_merge(const char *sidecar, const char *restore, const char *out, const annb_merge_filters *filters,
                       const annb_going *going, annb_merged *merged, annb_error *err) {
  *merged = (annb_merged){sidecar, restore, out, -1, -1, -1, NULL, 0};
  annb_status s = annb_h5_open(sidecar, &merged->sidecar, err);
  if (!s && restore) s = annb_h5_open(restore, &merged->restore, err);
  if (!s) s = annb_file_create(out, merged->sidecar, &merged->out, err);
  joining j = {.tree = {.in = merged->sidecar, .in_name = sidecar, .out = {merged->out, -1}, .out_name = {out, out}}, .merged = merged};
  j.tree.user = &j;
  if (going) j.tree.going = *going;
  j.tree.compression = filters ? filters->compression : ANNB_COMPRESSION_SOURCE;
  j.tree.level = filters ? filters->level : 0;
  if (!s) s = annb_tree_copy(&j.tree, false, err);
  if (!s && restore) s = join_restore(&j, err);
  if (!s) s = annb_tree_finish(&j.tree, err);
  if (!s && restore) s = annb_crossings_apply(merged->restore, restore, merged->out, out, err);
  annb_status full = annb_file_check(merged->out, out, err); /* explains what else went wrong */
  if (full) s = full;
  annb_tree_free(&j.tree);
  for (size_t i = 0; i < j.n_ordered; i++) free(j.ordered[i].path);
  free(j.ordered);
  return s;
}

annb_empty *annb_merged_find(const annb_merged *merged, const char *path) {
  H5O_info_t info;
  if (!annb_h5_exists(merged->out, path) || H5Oget_info_by_name2(merged->out, path, &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0) return NULL;
  for (size_t i = 0; i < merged->n_empty; i++)
    if (merged->empty[i].addr == info.addr) return &merged->empty[i];
  return NULL;
}

annb_status annb_merged_finish(annb_merged *merged, annb_error *err) {
  annb_status s = annb_file_finish(&merged->out, merged->out_name, err);
  annb_merged_close(merged);
  return s;
}

void annb_merged_close(annb_merged *merged) {
  annb_file_finish(&merged->out, merged->out_name, NULL);
  annb_h5_close(&merged->restore);
  annb_h5_close(&merged->sidecar);
  free(merged->empty);
  merged->empty = NULL;
  merged->n_empty = 0;
}
