/* Attributes, and the second pass that translates references to the copies of their targets. */
#include "pieces.h"
#include "refs.h"
#include "tree.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ATTRIBUTE (UINT64_C(1) << 30)
#define PIECE_REFERENCES (UINT64_C(1) << 14)

annb_status annb_tree_hold(annb_tree *tree, uint32_t node, const char *attribute, annb_error *err) {
  if (tree->n_holders == tree->holders_room) {
    size_t room = tree->holders_room ? 2 * tree->holders_room : 16;
    annb_holder *more = realloc(tree->holders, room * sizeof *more);
    if (!more) return annb_fail_memory(err);
    tree->holders = more;
    tree->holders_room = room;
  }
  char *name = attribute ? strdup(attribute) : NULL;
  if (attribute && !name) return annb_fail_memory(err);
  tree->holders[tree->n_holders++] = (annb_holder){tree->in, tree->in_name, node, name};
  return ANNB_OK;
}

/* ---- attributes ---- */

static annb_status fail_attr(annb_tree *tree, annb_status status, uint32_t node, const char *name, const char *text, annb_error *err) {
  char *path = annb_graph_path(&tree->graph, node, NULL);
  annb_status s = annb_h5_fail(err, status, tree->in_name, path, "attribute \"%s\" %s", name, text);
  free(path);
  return s;
}

static annb_status copy_value(annb_tree *tree, hid_t from, hid_t to, hid_t memory, hid_t space, uint32_t node, const char *name,
                              annb_error *err) {
  hssize_t n = H5Sget_simple_extent_npoints(space);
  uint64_t bytes;
  if (n < 0 || !annb_mul((uint64_t)n, H5Tget_size(memory), &bytes) || bytes > MAX_ATTRIBUTE)
    return fail_attr(tree, ANNB_EUNSUPPORTED, node, name, "is larger than 1 GiB", err);
  if (!bytes) return ANNB_OK;
  void *value = calloc(1, bytes);
  if (!value) return annb_fail_memory(err);
  annb_status s = ANNB_OK;
  if (H5Aread(from, memory, value) < 0) {
    s = fail_attr(tree, ANNB_EINPUT, node, name, "cannot be read", err);
  } else {
    if (H5Awrite(to, memory, value) < 0) s = fail_attr(tree, ANNB_EIO, node, name, "cannot be written", err);
    H5Dvlen_reclaim(memory, space, H5P_DEFAULT, value);
  }
  free(value);
  return s;
}

static annb_status copy_attr(annb_tree *tree, hid_t from, hid_t to, uint32_t node, const char *name, annb_error *err) {
  hid_t attr = H5Aopen(from, name, H5P_DEFAULT), type = attr < 0 ? -1 : H5Aget_type(attr), space = attr < 0 ? -1 : H5Aget_space(attr);
  hid_t properties = attr < 0 ? -1 : H5Aget_create_plist(attr), out = -1, copy = -1, memory = -1;
  annb_status s = type < 0 || space < 0 || properties < 0 ? fail_attr(tree, ANNB_EINPUT, node, name, "cannot be opened", err)
                                                          : annb_tree_type(tree, node, NULL, type, &out, err);
  if (!s) {
    copy = H5Acreate2(to, name, out, space, properties, H5P_DEFAULT);
    memory = H5Tcopy(type);
    if (copy < 0 || memory < 0) s = fail_attr(tree, ANNB_EIO, node, name, "cannot be copied", err);
  }
  if (!s && H5Tdetect_class(type, H5T_REFERENCE) > 0) s = annb_tree_hold(tree, node, name, err);
  else if (!s) s = copy_value(tree, attr, copy, memory, space, node, name, err);
  annb_h5_close(&memory);
  annb_h5_close(&copy);
  annb_h5_close(&out);
  annb_h5_close(&properties);
  annb_h5_close(&space);
  annb_h5_close(&type);
  annb_h5_close(&attr);
  return s;
}

annb_status annb_tree_attrs(annb_tree *tree, hid_t from, hid_t to, uint32_t node, annb_error *err) {
  annb_links names;
  char *path = annb_graph_path(&tree->graph, node, NULL);
  annb_status s = annb_attrs_read(from, false, tree->in_name, path, &names, err);
  free(path);
  if (s) return s;
  for (size_t i = 0; !s && i < names.n; i++) {
    const char *name = names.rows[i].name;
    bool ours = tree->reserved != ANNB_RESERVED_KEEP && !strncmp(name, ANNB_RESERVED, strlen(ANNB_RESERVED));
    if (!ours) s = copy_attr(tree, from, to, node, name, err);
    else if (tree->reserved == ANNB_RESERVED_REFUSE)
      s = fail_attr(tree, ANNB_EUNSUPPORTED, node, name, "has a name that is reserved (\"" ANNB_RESERVED "\")", err);
  }
  annb_links_free(&names);
  return s;
}

/* ---- references ---- */

typedef struct pass {
  annb_tree *tree;
  annb_holder *holder;
  hid_t in;        /* any object of the source */
  uint64_t number; /* references seen in this holder */
} pass;

static annb_status fail_holder(pass *p, annb_status status, const char *text, annb_error *err) {
  p->tree->in_name = p->holder->in_name;
  if (p->holder->attribute) return fail_attr(p->tree, status, p->holder->node, p->holder->attribute, text, err);
  return annb_tree_fail(p->tree, status, p->holder->node, NULL, text, err);
}

static annb_status add_crossing(pass *p, uint32_t target, annb_error *err) {
  annb_tree *t = p->tree;
  if (t->n_crossings == t->crossings_room) {
    size_t room = t->crossings_room ? 2 * t->crossings_room : 16;
    annb_crossing *more = realloc(t->crossings, room * sizeof *more);
    if (!more) return annb_fail_memory(err);
    t->crossings = more;
    t->crossings_room = room;
  }
  annb_crossing *c = &t->crossings[t->n_crossings++];
  *c = (annb_crossing){annb_graph_path(&t->graph, p->holder->node, NULL), strdup(p->holder->attribute ? p->holder->attribute : ""),
                       annb_graph_path(&t->graph, target, NULL), p->number};
  return c->holder && c->attribute && c->target ? ANNB_OK : annb_fail_memory(err);
}

/* Make the reference at `at` one to the copy, with the same selection. */
static annb_status point_to(pass *p, H5R_type_t kind, void *at, const annb_node *target, annb_error *err) {
  hid_t copy = H5Oopen_by_addr(p->tree->out[target->out], target->out_addr), space = -1;
  herr_t r = copy < 0 ? -1 : 0;
  if (r >= 0 && kind == H5R_DATASET_REGION) r = space = H5Rget_region(p->in, kind, at);
  if (r >= 0) r = H5Rcreate(at, copy, ".", kind, space);
  annb_h5_close(&space);
  annb_h5_close(&copy);
  return r >= 0 ? ANNB_OK : fail_holder(p, ANNB_EINPUT, "holds a reference that cannot be copied", err);
}

static annb_status translate(void *user, H5R_type_t kind, void *at, annb_error *err) {
  pass *p = user;
  H5O_info_t info;
  annb_status s;
  if (annb_reference_null(kind, at)) {
    p->number++;
    return ANNB_OK;
  }
  hid_t object = H5Rdereference2(p->in, H5P_DEFAULT, kind, at);
  herr_t r = object < 0 ? -1 : H5Oget_info2(object, &info, H5O_INFO_BASIC);
  annb_h5_close(&object);
  if (r < 0) return fail_holder(p, ANNB_EINPUT, "holds a reference to an object that is not there", err);
  uint32_t target = annb_graph_find(&p->tree->graph, info.fileno, info.addr);
  if (target == ANNB_NONE) {
    s = fail_holder(p, ANNB_EUNSUPPORTED, "holds a reference to an object that no link leads to", err);
  } else if (p->tree->graph.nodes[target].out == p->tree->graph.nodes[p->holder->node].out) {
    s = point_to(p, kind, at, &p->tree->graph.nodes[target], err);
  } else if (kind == H5R_DATASET_REGION) {
    s = fail_holder(p, ANNB_EUNSUPPORTED, "holds a region reference into what is stored apart (a packed matrix?)", err);
  } else {
    s = add_crossing(p, target, err);
    memset(at, 0, sizeof(hobj_ref_t));
  }
  p->number++;
  return s;
}

static annb_status fill_attr(pass *p, hid_t from, hid_t to, annb_error *err) {
  hid_t a = H5Aopen(from, p->holder->attribute, H5P_DEFAULT), b = H5Aopen(to, p->holder->attribute, H5P_DEFAULT);
  hid_t type = a < 0 ? -1 : H5Aget_type(a), memory = type < 0 ? -1 : H5Tcopy(type), space = a < 0 ? -1 : H5Aget_space(a);
  uint64_t bytes = 0, n = space < 0 ? 0 : (uint64_t)H5Sget_simple_extent_npoints(space);
  annb_status s = ANNB_OK;
  void *value = NULL;
  if (b < 0 || memory < 0) s = fail_holder(p, ANNB_EINPUT, "cannot be opened", err);
  else if (!annb_mul(n, H5Tget_size(memory), &bytes) || bytes > MAX_ATTRIBUTE)
    s = fail_holder(p, ANNB_EUNSUPPORTED, "is larger than 1 GiB", err);
  else if (bytes && !(value = calloc(1, bytes))) s = annb_fail_memory(err);
  if (!s && bytes) {
    if (H5Aread(a, memory, value) < 0) s = fail_holder(p, ANNB_EINPUT, "cannot be read", err);
    if (!s) s = annb_references(memory, value, n, translate, p, err);
    if (!s && H5Awrite(b, memory, value) < 0) s = fail_holder(p, ANNB_EIO, "cannot be written", err);
    H5Dvlen_reclaim(memory, space, H5P_DEFAULT, value);
  }
  free(value);
  annb_h5_close(&space);
  annb_h5_close(&memory);
  annb_h5_close(&type);
  annb_h5_close(&b);
  annb_h5_close(&a);
  return s;
}

static annb_status fill_piece(pass *p, const annb_pieces *pieces, hid_t from, hid_t to, hid_t memory, void *buffer, const char *path,
                              annb_error *err) {
  annb_status s = annb_going_on(&p->tree->going, err);
  if (!s) s = annb_pieces_read(pieces, from, p->holder->in_name, path, memory, buffer, err);
  if (s) return s;
  bool empty = annb_all_zero(buffer, pieces->n * H5Tget_size(memory)); /* what was never written reads so in the copy too */
  s = annb_references(memory, buffer, pieces->n, translate, p, err);
  if (!s && !empty)
    s = annb_pieces_write(pieces, to, p->tree->out_name[p->tree->graph.nodes[p->holder->node].out], path, memory, buffer, err);
  hid_t space = pieces->rank ? H5Screate_simple(pieces->rank, pieces->count, NULL) : H5Screate(H5S_SCALAR);
  H5Dvlen_reclaim(memory, space, H5P_DEFAULT, buffer);
  annb_h5_close(&space);
  return s;
}

/* Pieces that do not follow chunks are in the order of the elements. */
static annb_status fill_dataset(pass *p, hid_t from, hid_t to, annb_error *err) {
  annb_pieces pieces;
  hid_t type = H5Dget_type(from), memory = type < 0 ? -1 : H5Tcopy(type), space = H5Dget_space(from);
  char *path = annb_graph_path(&p->tree->graph, p->holder->node, NULL);
  size_t size = memory < 0 ? 0 : H5Tget_size(memory);
  annb_status s = ANNB_OK;
  if (!size || !annb_pieces_begin(&pieces, space, -1, PIECE_REFERENCES)) s = fail_holder(p, ANNB_EINPUT, "cannot be opened", err);
  while (!s && !annb_tree_unwritten(from) && annb_pieces_next(&pieces)) {
    void *buffer = calloc(pieces.n, size);
    s = buffer ? fill_piece(p, &pieces, from, to, memory, buffer, path, err) : annb_fail_memory(err);
    free(buffer);
  }
  free(path);
  annb_h5_close(&space);
  annb_h5_close(&memory);
  annb_h5_close(&type);
  return s;
}

annb_status annb_tree_finish(annb_tree *tree, annb_error *err) {
  annb_status s = ANNB_OK;
  for (size_t i = 0; !s && i < tree->n_holders; i++) {
    annb_holder *holder = &tree->holders[i];
    annb_node node = tree->graph.nodes[holder->node];
    hid_t from = H5Oopen_by_addr(holder->in, node.addr), to = H5Oopen_by_addr(tree->out[node.out], node.out_addr);
    pass p = {tree, holder, from, 0};
    if (from < 0 || to < 0) s = fail_holder(&p, ANNB_EINPUT, "cannot be opened", err);
    else s = holder->attribute ? fill_attr(&p, from, to, err) : fill_dataset(&p, from, to, err);
    annb_h5_close(&from);
    annb_h5_close(&to);
  }
  return s;
}
