#include "compare.h"

#include "../guard/guard.h"
#include "../sidecar/files.h"
#include "../source/lzf.h"

#include "../../store/error.h"
#include "../../store/io.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void annb_differ(annb_comparison *c, const char *path, const char *format, ...) {
  char what[512];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  c->different++;
  if (c->report && !c->stopped && !c->report(c->user, path, what)) c->stopped = true;
}

/* ---- first pass: links and objects ---- */

static const char *link_kind(H5L_type_t type) {
  return type == H5L_TYPE_HARD       ? "a hard link"
         : type == H5L_TYPE_SOFT     ? "a soft link"
         : type == H5L_TYPE_EXTERNAL ? "an external link"
                                     : "a link of unknown kind";
}

static const char *object_kind(H5O_type_t type) {
  return type == H5O_TYPE_GROUP            ? "a group"
         : type == H5O_TYPE_DATASET        ? "a dataset"
         : type == H5O_TYPE_NAMED_DATATYPE ? "a datatype"
                                           : "unknown";
}

static annb_status add_pair(annb_comparison *c, const H5O_info_t info[2], const uint32_t parent[2], const char *name, annb_error *err) {
  if (c->n_pairs == c->room) {
    size_t room = c->room ? 2 * c->room : 64;
    annb_pair *more = realloc(c->pairs, room * sizeof *more);
    if (!more) return annb_fail_memory(err);
    c->pairs = more;
    c->room = room;
  }
  annb_pair *pair = &c->pairs[c->n_pairs];
  for (int i = 0; i < 2; i++) {
    annb_status s = annb_graph_add(&c->side[i].graph, info[i].fileno, info[i].addr, parent[i], name, &pair->node[i], err);
    if (s) return s;
    c->side[i].graph.nodes[pair->node[i]].out = (uint32_t)c->n_pairs;
  }
  c->n_pairs++;
  return ANNB_OK;
}

/* Both links are hard: are the objects of one kind, and shared with the same other paths? */
static annb_status pair_objects(annb_comparison *c, const hid_t group[2], const uint32_t parent[2], const char *name, const char *path,
                                annb_error *err) {
  H5O_info_t info[2];
  uint32_t met[2];
  for (int i = 0; i < 2; i++) {
    if (H5Oget_info_by_name2(group[i], name, &info[i], H5O_INFO_BASIC, H5P_DEFAULT) < 0)
      return annb_h5_fail(err, ANNB_EINPUT, c->side[i].name, path, "the object cannot be opened");
    met[i] = annb_graph_find(&c->side[i].graph, info[i].fileno, info[i].addr);
  }
  if (info[0].type != info[1].type) {
    annb_differ(c, path, "is %s against %s", object_kind(info[0].type), object_kind(info[1].type));
    return ANNB_OK;
  }
  if (met[0] == ANNB_NONE && met[1] == ANNB_NONE) return add_pair(c, info, parent, name, err);
  int shared = met[0] == ANNB_NONE ? 1 : 0;
  if (met[0] != ANNB_NONE && met[1] != ANNB_NONE && c->side[0].graph.nodes[met[0]].out == c->side[1].graph.nodes[met[1]].out)
    return ANNB_OK;
  char *other = annb_graph_path(&c->side[shared].graph, met[shared], NULL);
  annb_differ(c, path, "is the same object as %s in the %s only", other ? other : "another", shared ? "second" : "first");
  free(other);
  return ANNB_OK;
}

static annb_status compare_link(annb_comparison *c, const hid_t group[2], const uint32_t parent[2], const annb_link *a, const annb_link *b,
                                annb_error *err) {
  annb_status s = ANNB_OK;
  char *path = annb_graph_path(&c->side[0].graph, parent[0], a->name);
  if (!path) return annb_fail_memory(err);
  if (a->type != b->type) annb_differ(c, path, "is %s against %s", link_kind(a->type), link_kind(b->type));
  else if (a->type == H5L_TYPE_HARD) s = pair_objects(c, group, parent, a->name, path, err);
  else if (a->type != H5L_TYPE_SOFT && a->type != H5L_TYPE_EXTERNAL)
    s = annb_h5_fail(err, ANNB_EUNSUPPORTED, c->side[0].name, path, "is a user-defined link");
  else if (strcmp(a->target, b->target)) annb_differ(c, path, "links to %s against %s", a->target, b->target);
  else if (a->file && strcmp(a->file, b->file)) annb_differ(c, path, "links to file %s against %s", a->file, b->file);
  free(path);
  return s;
}

static void only_in(annb_comparison *c, int side, uint32_t parent, const char *name) {
  char *path = annb_graph_path(&c->side[side].graph, parent, name);
  annb_differ(c, path ? path : name, "is in the %s only", side ? "second" : "first");
  free(path);
}

static annb_status compare_groups(annb_comparison *c, size_t number, annb_error *err) {
  annb_links links[2] = {{0}, {0}};
  hid_t group[2] = {-1, -1};
  const uint32_t parent[2] = {c->pairs[number].node[0], c->pairs[number].node[1]};
  annb_status s = ANNB_OK;
  char *path = annb_graph_path(&c->side[0].graph, parent[0], NULL);
  for (int i = 0; !s && i < 2; i++) {
    group[i] = H5Oopen_by_addr(c->side[i].file, c->side[i].graph.nodes[parent[i]].addr);
    if (group[i] < 0) s = annb_h5_fail(err, ANNB_EINPUT, c->side[i].name, path, "the object cannot be opened");
    else if (H5Iget_type(group[i]) == H5I_GROUP) s = annb_links_read(group[i], true, c->side[i].name, path, &links[i], err);
  }
  for (size_t i = 0, j = 0; !s && !c->stopped && (i < links[0].n || j < links[1].n);) {
    int order = i == links[0].n ? 1 : j == links[1].n ? -1 : strcmp(links[0].rows[i].name, links[1].rows[j].name);
    if (order < 0) only_in(c, 0, parent[0], links[0].rows[i].name);
    else if (order > 0) only_in(c, 1, parent[1], links[1].rows[j].name);
    else s = compare_link(c, group, parent, &links[0].rows[i], &links[1].rows[j], err);
    if (order <= 0) i++;
    if (order >= 0) j++;
  }
  free(path);
  for (int i = 0; i < 2; i++) {
    annb_links_free(&links[i]);
    annb_h5_close(&group[i]);
  }
  return s;
}

/* ---- second pass: types, values, attributes ---- */

/* Datasets by path, since only so external data is found; other objects by address. */
static hid_t open_object(const annb_side *side, const annb_node *node, const char *path) {
  hid_t object = H5Oopen_by_addr(side->file, node->addr);
  if (object < 0 || H5Iget_type(object) != H5I_DATASET) return object;
  annb_h5_close(&object);
  return annb_h5_open_dataset(side->file, path);
}

static annb_status compare_pair(annb_comparison *c, size_t number, annb_error *err) {
  hid_t object[2] = {-1, -1};
  annb_status s = ANNB_OK;
  char *path = annb_graph_path(&c->side[0].graph, c->pairs[number].node[0], NULL);
  if (!path) return annb_fail_memory(err);
  for (int i = 0; !s && i < 2; i++) {
    object[i] = open_object(&c->side[i], &c->side[i].graph.nodes[c->pairs[number].node[i]], path);
    if (object[i] < 0) s = annb_h5_fail(err, ANNB_EINPUT, c->side[i].name, path, "the object cannot be opened");
  }
  char what[256] = "";
  H5I_type_t type = s ? H5I_BADID : H5Iget_type(object[0]);
  if (type == H5I_DATATYPE) annb_compare_types(object[0], object[1], what, sizeof what);
  if (*what) annb_differ(c, path, "types differ: %s", what);
  if (type == H5I_DATASET) s = annb_compare_datasets(c, path, object[0], object[1], err);
  if (!s) s = annb_compare_attrs(c, path, object[0], object[1], err);
  annb_h5_close(&object[0]);
  annb_h5_close(&object[1]);
  free(path);
  return s;
}

/* ---- all ---- */

static annb_status compare_user_blocks(annb_comparison *c, annb_error *err) {
  uint64_t size[2] = {annb_file_user_block_size(c->side[0].file), annb_file_user_block_size(c->side[1].file)};
  if (size[0] != size[1]) {
    annb_differ(c, "/", "user block of %llu bytes against %llu", (unsigned long long)size[0], (unsigned long long)size[1]);
    return ANNB_OK;
  }
  bool equal = true;
  int fd[2] = {-1, -1};
  annb_status s = size[0] ? annb_io_open(c->side[0].name, &fd[0], err) : ANNB_OK;
  if (!s && size[0]) s = annb_io_open(c->side[1].name, &fd[1], err);
  for (uint64_t at = 0; !s && equal && at < size[0]; at += 512) {
    uint8_t bytes[2][512];
    s = annb_io_pread(fd[0], c->side[0].name, bytes[0], 512, at, err);
    if (!s) s = annb_io_pread(fd[1], c->side[1].name, bytes[1], 512, at, err);
    equal = s || !memcmp(bytes[0], bytes[1], 512);
  }
  for (int i = 0; i < 2; i++)
    if (fd[i] >= 0) annb_io_close(fd[i], c->side[i].name, NULL);
  if (!s && !equal) annb_differ(c, "/", "user blocks differ");
  return s;
}

static annb_status compare_files(annb_comparison *c, annb_error *err) {
  H5O_info_t info[2];
  static const uint32_t none[2] = {ANNB_NONE, ANNB_NONE};
  annb_status s = ANNB_OK;
  for (int i = 0; !s && i < 2; i++) {
    s = annb_h5_open(c->side[i].name, &c->side[i].file, err);
    if (!s && H5Oget_info2(c->side[i].file, &info[i], H5O_INFO_BASIC) < 0)
      s = annb_h5_fail(err, ANNB_EINPUT, c->side[i].name, "/", "the root group cannot be opened");
  }
  if (!s) s = compare_user_blocks(c, err);
  if (!s) s = add_pair(c, info, none, NULL, err);
  /* pairs are added behind while this goes on */
  for (size_t i = 0; !s && !c->stopped && i < c->n_pairs; i++) s = compare_groups(c, i, err);
  for (size_t i = 0; !s && !c->stopped && i < c->n_pairs; i++) s = compare_pair(c, i, err);
  return s;
}

typedef struct job {
  const char *files[2];
  bool reports;
} job;

static annb_status work(void *arg, annb_guard *guard, void *result, annb_error *err) {
  const job *j = arg;
  annb_h5_quiet quiet = annb_h5_quiet_begin();
  annb_lzf_register();
  annb_comparison c = {.side = {{j->files[0], -1, {0}}, {j->files[1], -1, {0}}}, .report = j->reports ? annb_guard_difference : NULL, .user = guard};
  annb_status s = compare_files(&c, err);
  for (int i = 0; i < 2; i++) {
    annb_graph_free(&c.side[i].graph);
    annb_h5_close(&c.side[i].file);
  }
  free(c.pairs);
  *(uint64_t *)result = c.different;
  annb_h5_quiet_end(quiet);
  return s;
}

annb_status annb_compare(const char *a, const char *b, annb_difference_fn difference, void *user, uint64_t *different, annb_error *err) {
  job j = {{a, b}, difference != NULL};
  uint64_t count = 0;
  const annb_guarded what = {.work = work,
                             .arg = &j,
                             .result = &count,
                             .result_size = sizeof count,
                             .files = j.files,
                             .n_files = 2,
                             .difference = difference,
                             .user = user};
  annb_status s = annb_guard_run(&what, err);
  if (different) *different = count;
  return s;
}
