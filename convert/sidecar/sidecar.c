#include "sidecar.h"

#include "crossings.h"
#include "files.h"
#include "shell.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

enum { SIDECAR = 0, RESTORE = 1 };

/* A link that goes to the restore file. */
typedef struct deferred {
  uint32_t node; /* its group */
  bool packed;   /* leads to a packed matrix */
  annb_link link;
} deferred;

typedef struct deferred_list {
  deferred *rows;
  size_t n, room;
} deferred_list;

/* A dataset or group of a packed matrix. */
typedef struct special {
  haddr_t addr;
  const char *role; /* NULL: the group of a sparse matrix */
  uint64_t nnz;     /* elements that are not its tail; UINT64_MAX: no tail */
} special;

typedef struct split {
  annb_tree tree;
  unsigned long fileno;
  special *tops, *children;
  size_t n_tops, n_children;
  bool raw_packed; /* raw's X goes: anndata cannot open the rest of raw without it */
  deferred_list deferred, softs;
  haddr_t *mirrors; /* of each node's group in the restore file */
  uint32_t n_mirrors;
} split;

/* ---- what is packed ---- */

static const special *find_special(const special *rows, size_t n, unsigned long fileno, const split *sp, haddr_t addr) {
  for (size_t i = 0; i < n && fileno == sp->fileno; i++)
    if (rows[i].addr == addr) return &rows[i];
  return NULL;
}

static void add_child(split *sp, hid_t group, const char *name, const char *role, uint64_t nnz) {
  H5O_info_t info;
  if (H5Oget_info_by_name2(group, name, &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0 || info.type != H5O_TYPE_DATASET) return;
  if (info.fileno == sp->fileno) sp->children[sp->n_children++] = (special){info.addr, role, nnz};
}

static annb_status add_packed(split *sp, const annb_packed *packed, annb_error *err) {
  H5O_info_t info;
  hid_t object = H5Oopen(sp->tree.in, packed->path, H5P_DEFAULT);
  if (object < 0 || H5Oget_info2(object, &info, H5O_INFO_BASIC) < 0) {
    annb_h5_close(&object);
    return annb_h5_fail(err, ANNB_EINPUT, sp->tree.in_name, packed->path, "the matrix cannot be opened");
  }
  annb_status s = ANNB_OK;
  bool dense = info.type == H5O_TYPE_DATASET;
  if (info.fileno != sp->fileno)
    s = annb_h5_fail(err, ANNB_EUNSUPPORTED, sp->tree.in_name, packed->path,
                     "is an external link: the matrix is in another file, pack that one");
  else if (!dense && info.type != H5O_TYPE_GROUP)
    s = annb_h5_fail(err, ANNB_EINPUT, sp->tree.in_name, packed->path, "is neither a dataset nor a group");
  else sp->tops[sp->n_tops++] = (special){info.addr, dense ? "dense" : NULL, UINT64_MAX};
  if (!s && !dense) {
    add_child(sp, object, "data", "data", packed->nnz);
    if (!packed->keep_indices) add_child(sp, object, "indices", "indices", packed->nnz);
    if (!packed->keep_indptr) add_child(sp, object, "indptr", "indptr", UINT64_MAX);
  }
  annb_h5_close(&object);
  return s;
}

/* An array that two matrices share stays whole when one of them needs it so. */
static annb_status keep_shared(split *sp, const annb_packed *packed, annb_error *err) {
  static const char *const names[] = {"indices", "indptr"};
  for (int k = 0; k < 2; k++) {
    H5O_info_t info;
    if (!(k ? packed->keep_indptr : packed->keep_indices)) continue;
    char *path = malloc(strlen(packed->path) + 16);
    if (!path) return annb_fail_memory(err);
    strcat(strcat(strcpy(path, packed->path), "/"), names[k]);
    bool found = H5Oget_info_by_name2(sp->tree.in, path, &info, H5O_INFO_BASIC, H5P_DEFAULT) >= 0;
    free(path);
    size_t left = 0; /* in their order: of equal ones the first counts */
    for (size_t i = 0; found && i < sp->n_children; i++)
      if (sp->children[i].addr != info.addr) sp->children[left++] = sp->children[i];
    if (found) sp->n_children = left;
  }
  return ANNB_OK;
}

/* Under the name of today, or that of the old layouts; also by another name of a packed matrix. */
static bool is_raw_packed(const split *sp) {
  static const char *const paths[] = {"/raw/X", "/raw.X"};
  H5O_info_t info;
  for (int i = 0; i < 2; i++)
    if (annb_h5_exists(sp->tree.in, paths[i]) && H5Oget_info_by_name2(sp->tree.in, paths[i], &info, H5O_INFO_BASIC, H5P_DEFAULT) >= 0 &&
        find_special(sp->tops, sp->n_tops, info.fileno, sp, info.addr))
      return true;
  return false;
}

static annb_status find_packed(split *sp, const annb_packed *packed, size_t n, annb_error *err) {
  H5O_info_t info;
  if (H5Oget_info2(sp->tree.in, &info, H5O_INFO_BASIC) < 0)
    return annb_h5_fail(err, ANNB_EINPUT, sp->tree.in_name, "/", "the root group cannot be opened");
  sp->fileno = info.fileno;
  sp->tops = calloc(n + 1, sizeof *sp->tops);
  sp->children = calloc(3 * n + 1, sizeof *sp->children);
  if (!sp->tops || !sp->children) return annb_fail_memory(err);
  annb_status s = ANNB_OK;
  for (size_t i = 0; !s && i < n; i++) s = add_packed(sp, &packed[i], err);
  for (size_t i = 0; !s && i < n; i++) s = keep_shared(sp, &packed[i], err);
  sp->raw_packed = !s && is_raw_packed(sp);
  return s;
}

/* ---- first pass: what stays ---- */

static annb_status push(deferred_list *list, uint32_t node, const annb_link *link, bool packed, annb_error *err) {
  if (list->n == list->room) {
    size_t room = list->room ? 2 * list->room : 16;
    deferred *rows = realloc(list->rows, room * sizeof *rows);
    if (!rows) return annb_fail_memory(err);
    list->rows = rows;
    list->room = room;
  }
  deferred *d = &list->rows[list->n++];
  *d = (deferred){node, packed, {.type = link->type, .cset = link->cset}};
  d->link.name = strdup(link->name);
  d->link.target = link->target ? strdup(link->target) : NULL;
  d->link.file = link->file ? strdup(link->file) : NULL;
  if (!d->link.name || (link->target && !d->link.target) || (link->file && !d->link.file)) return annb_fail_memory(err);
  return ANNB_OK;
}

static void free_list(deferred_list *list) {
  for (size_t i = 0; i < list->n; i++) {
    free(list->rows[i].link.name);
    free(list->rows[i].link.target);
    free(list->rows[i].link.file);
  }
  free(list->rows);
}

/* Members of the root group that anndata knows. */
static bool is_slot(const char *name) {
  static const char *const slots[] = {"X", "obs", "var", "uns", "obsm", "varm", "obsp", "varp", "layers", "raw"};
  for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
    if (!strcmp(name, slots[i])) return true;
  return !strncmp(name, "raw.", 4);
}

static annb_status keep_or_defer(annb_tree *tree, const annb_place *place, const annb_link *link, bool *done, annb_error *err) {
  split *sp = tree->user;
  bool root = tree->graph.nodes[place->node].parent == ANNB_NONE, packed = false;
  H5O_info_t info;
  if (link->type == H5L_TYPE_HARD && H5Oget_info_by_name2(place->from, link->name, &info, H5O_INFO_BASIC, H5P_DEFAULT) >= 0)
    packed = find_special(sp->tops, sp->n_tops, info.fileno, sp, info.addr) != NULL;
  bool aside = root && (!is_slot(link->name) || (sp->raw_packed && (!strcmp(link->name, "raw") || !strncmp(link->name, "raw.", 4))));
  *done = packed || aside || link->type == H5L_TYPE_EXTERNAL;
  if (*done) return push(&sp->deferred, place->node, link, packed, err);
  return link->type == H5L_TYPE_SOFT ? push(&sp->softs, place->node, link, false, err) : ANNB_OK;
}

/* Soft links that lead nowhere in the sidecar. */
static annb_status defer_dangling(split *sp, annb_error *err) {
  annb_status s = ANNB_OK;
  for (size_t i = 0; !s && i < sp->softs.n; i++) {
    deferred *d = &sp->softs.rows[i];
    hid_t group = H5Oopen_by_addr(sp->tree.out[SIDECAR], sp->tree.graph.nodes[d->node].out_addr);
    if (!annb_h5_exists(group, d->link.name)) {
      s = push(&sp->deferred, d->node, &d->link, false, err);
      if (!s && H5Ldelete(group, d->link.name, H5P_DEFAULT) < 0)
        s = annb_tree_fail(&sp->tree, ANNB_EIO, d->node, d->link.name, "the soft link cannot be taken away", err);
    }
    annb_h5_close(&group);
  }
  return s;
}

/* ---- second pass: what goes aside ---- */

static annb_status restore_link(annb_tree *tree, const annb_place *place, const annb_link *link, bool *done, annb_error *err) {
  split *sp = tree->user;
  H5O_info_t info;
  if (link->type != H5L_TYPE_HARD || H5Oget_info_by_name2(place->from, link->name, &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0) return ANNB_OK;
  if (annb_graph_find(&tree->graph, info.fileno, info.addr) != ANNB_NONE) return ANNB_OK;
  const special *known = find_special(sp->tops, sp->n_tops, info.fileno, sp, info.addr);
  if (!known) known = find_special(sp->children, sp->n_children, info.fileno, sp, info.addr);
  if (!known || !known->role) return ANNB_OK;
  *done = true;
  return annb_shell_make(tree, place, link, known->role, known->nnz, err);
}

static hid_t open_mirror(split *sp, uint32_t node) { return H5Oopen_by_addr(sp->tree.out[RESTORE], sp->mirrors[node]); }

/* The group of the restore file at the path of a group of the sidecar, made with all above it when missing. */
static annb_status make_mirror(split *sp, uint32_t node, annb_error *err) {
  annb_graph *graph = &sp->tree.graph;
  while (sp->mirrors[node] == HADDR_UNDEF) {
    uint32_t at = node;
    while (sp->mirrors[graph->nodes[at].parent] == HADDR_UNDEF) at = graph->nodes[at].parent;
    H5O_info_t info;
    hid_t properties = H5Pcreate(H5P_GROUP_CREATE), parent = open_mirror(sp, graph->nodes[at].parent);
    H5Pset_obj_track_times(properties, false);
    hid_t group = parent < 0 ? -1 : H5Gcreate2(parent, graph->nodes[at].name, H5P_DEFAULT, properties, H5P_DEFAULT);
    herr_t r = group < 0 ? -1 : H5Oget_info2(group, &info, H5O_INFO_BASIC);
    annb_h5_close(&group);
    annb_h5_close(&parent);
    annb_h5_close(&properties);
    if (r < 0) return annb_tree_fail(&sp->tree, ANNB_EIO, at, NULL, "the group cannot be made in the restore file", err);
    sp->mirrors[at] = info.addr;
  }
  return ANNB_OK;
}

static annb_status start_mirrors(split *sp, annb_error *err) {
  H5O_info_t info;
  sp->n_mirrors = sp->tree.graph.n;
  sp->mirrors = malloc(sp->n_mirrors * sizeof *sp->mirrors);
  if (!sp->mirrors) return annb_fail_memory(err);
  for (uint32_t i = 0; i < sp->n_mirrors; i++) sp->mirrors[i] = HADDR_UNDEF;
  if (H5Oget_info2(sp->tree.out[RESTORE], &info, H5O_INFO_BASIC) < 0)
    return annb_h5_fail(err, ANNB_EIO, sp->tree.out_name[RESTORE], NULL, "the file cannot be examined");
  sp->mirrors[0] = info.addr;
  return ANNB_OK;
}

static annb_status move_aside(split *sp, const deferred *d, annb_error *err) {
  annb_tree *tree = &sp->tree;
  annb_status s = make_mirror(sp, d->node, err);
  if (s) return s;
  annb_place place = {H5Oopen_by_addr(tree->in, tree->graph.nodes[d->node].addr), open_mirror(sp, d->node), d->node};
  bool done = false;
  if (place.from < 0 || place.to < 0) s = annb_tree_fail(tree, ANNB_EINPUT, d->node, NULL, "the group cannot be opened", err);
  if (!s) s = restore_link(tree, &place, &d->link, &done, err);
  if (!s && !done) s = annb_tree_copy_link(tree, &place, &d->link, err);
  annb_h5_close(&place.from);
  annb_h5_close(&place.to);
  return s ? s : annb_tree_run(tree, err);
}

/* Names of a group's links as one attribute. */
static annb_status write_order(split *sp, uint32_t node, const annb_links *links, annb_error *err) {
  hsize_t n = links->n;
  const char **names = malloc((links->n + 1) * sizeof *names);
  if (!names) return annb_fail_memory(err);
  for (size_t i = 0; i < links->n; i++) names[i] = links->rows[i].name;
  hid_t group = open_mirror(sp, node), type = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &n, NULL);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  hid_t attr = group < 0 ? -1 : H5Acreate2(group, ANNB_ORDER, type, space, H5P_DEFAULT, H5P_DEFAULT);
  herr_t r = attr < 0 ? -1 : H5Awrite(attr, type, names);
  free(names);
  annb_h5_close(&attr);
  annb_h5_close(&space);
  annb_h5_close(&type);
  annb_h5_close(&group);
  return r >= 0 ? ANNB_OK : annb_tree_fail(&sp->tree, ANNB_EIO, node, NULL, "the order of its links cannot be written", err);
}

static annb_status keep_order(split *sp, uint32_t node, annb_error *err) {
  annb_links links;
  char *path = annb_graph_path(&sp->tree.graph, node, NULL);
  hid_t group = H5Oopen_by_addr(sp->tree.in, sp->tree.graph.nodes[node].addr);
  annb_status s = annb_links_read(group, false, sp->tree.in_name, path, &links, err);
  if (!s) {
    if (links.tracked) s = write_order(sp, node, &links, err);
    annb_links_free(&links);
  }
  annb_h5_close(&group);
  free(path);
  return s;
}

/* Links to packed matrices first: their shells then stand at their own paths. */
static int packed_first(const void *a, const void *b) {
  const deferred *x = a, *y = b;
  if (x->packed != y->packed) return x->packed ? -1 : 1;
  return x->node < y->node ? -1 : x->node > y->node ? 1 : strcmp(x->link.name, y->link.name);
}

static annb_status second_pass(split *sp, annb_error *err) {
  annb_tree *tree = &sp->tree;
  tree->current = RESTORE;
  tree->reserved = ANNB_RESERVED_REFUSE;
  tree->on_link = restore_link;
  annb_status s = start_mirrors(sp, err);
  if (sp->deferred.n) qsort(sp->deferred.rows, sp->deferred.n, sizeof *sp->deferred.rows, packed_first);
  for (size_t i = 0; !s && i < sp->deferred.n; i++) s = move_aside(sp, &sp->deferred.rows[i], err);
  bool *ordered = calloc(sp->n_mirrors + 1, sizeof *ordered);
  if (!s && !ordered) s = annb_fail_memory(err);
  for (size_t i = 0; !s && i < sp->deferred.n; i++) {
    uint32_t node = sp->deferred.rows[i].node;
    if (!ordered[node]) s = keep_order(sp, node, err);
    ordered[node] = true;
  }
  free(ordered);
  return s;
}

/* ---- both ---- */

static annb_status check_made(split *sp, const annb_packed *packed, annb_error *err) {
  for (size_t i = 0; i < sp->n_tops; i++)
    if (annb_graph_find(&sp->tree.graph, sp->fileno, sp->tops[i].addr) == ANNB_NONE)
      return annb_h5_fail(err, ANNB_EUNSUPPORTED, sp->tree.in_name, packed[i].path, "no hard link leads to the matrix");
  return ANNB_OK;
}

static annb_status write_both(split *sp, const annb_packed *packed, size_t n_packed, annb_error *err) {
  annb_tree *tree = &sp->tree;
  annb_status s = find_packed(sp, packed, n_packed, err);
  if (!s) s = annb_file_create(tree->out_name[SIDECAR], tree->in, &tree->out[SIDECAR], err);
  if (!s) s = annb_file_create(tree->out_name[RESTORE], -1, &tree->out[RESTORE], err);
  if (!s) s = annb_tree_copy(tree, false, err);
  if (!s) s = defer_dangling(sp, err);
  if (!s) s = second_pass(sp, err);
  if (!s) s = check_made(sp, packed, err);
  if (!s) s = annb_tree_finish(tree, err);
  if (!s) s = annb_crossings_write(tree, tree->out[RESTORE], tree->out_name[RESTORE], err);
  for (int i = 0; i < 2; i++) { /* a full disk explains what else went wrong */
    annb_status full = annb_file_check(tree->out[i], tree->out_name[i], err);
    if (full) s = full;
  }
  annb_status closed = annb_file_finish(&tree->out[SIDECAR], tree->out_name[SIDECAR], s ? NULL : err);
  if (!s) s = closed;
  closed = annb_file_finish(&tree->out[RESTORE], tree->out_name[RESTORE], s ? NULL : err);
  if (!s) s = closed;
  return s ? s : annb_file_user_block(tree->in_name, tree->out_name[SIDECAR], err);
}

annb_status annb_sidecar_write(hid_t file, const char *input, const annb_packed *packed, size_t n_packed, const char *sidecar_path,
                               const char *restore_path, const annb_going *going, annb_error *err) {
  split sp = {.tree = {.in = file, .in_name = input, .out = {-1, -1}, .out_name = {sidecar_path, restore_path}}};
  sp.tree.current = SIDECAR;
  sp.tree.reserved = ANNB_RESERVED_KEEP;
  sp.tree.on_link = keep_or_defer;
  sp.tree.user = &sp;
  if (going) sp.tree.going = *going;
  annb_status s = write_both(&sp, packed, n_packed, err);
  annb_tree_free(&sp.tree);
  free(sp.tops);
  free(sp.children);
  free_list(&sp.deferred);
  free_list(&sp.softs);
  free(sp.mirrors);
  return s;
}
