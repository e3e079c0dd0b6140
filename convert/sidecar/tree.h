/* Copying trees of HDF5 objects exactly: groups, datasets, committed datatypes, attributes, links, shared objects, cycles,
 * references.
 *
 * One copier may take several source files one after the other and has up to two destinations. Objects are met once, by address. There
 * is no recursion over groups. */
#ifndef ANNB_CONVERT_TREE_H
#define ANNB_CONVERT_TREE_H

#include "graph.h"

/* Names of links and attributes with this prefix are ours in a restore file. */
#define ANNB_RESERVED "annblock."
/* Value of a soft link that stands for a hard link to an object of the other file: the prefix, then the path. */
#define ANNB_HARD ANNB_RESERVED "hard:"

typedef struct annb_tree annb_tree;

/* A group of the source and its copy, both open. */
typedef struct annb_place {
  hid_t from, to;
  uint32_t node;
} annb_place;

/* Called for each link before it is copied. With *done = true the link is taken care of. */
typedef annb_status (*annb_tree_link_fn)(annb_tree *tree, const annb_place *place, const annb_link *link, bool *done, annb_error *err);

/* A reference whose target is not in the file of its holder. */
typedef struct annb_crossing {
  char *holder, *attribute; /* attribute "" = the dataset's values */
  char *target;
  uint64_t number; /* of the reference in its holder, in the order of the elements */
} annb_crossing;

/* An attribute or dataset with references, to be filled at the end. */
typedef struct annb_holder {
  hid_t in;
  const char *in_name;
  uint32_t node;
  char *attribute; /* NULL: the values */
} annb_holder;

typedef enum annb_reserved { ANNB_RESERVED_KEEP, ANNB_RESERVED_REFUSE, ANNB_RESERVED_SKIP } annb_reserved;

struct annb_tree {
  /* set by the user */
  hid_t in; /* the source now */
  const char *in_name;
  hid_t out[2];
  const char *out_name[2];
  uint32_t current;       /* the destination now */
  annb_reserved reserved; /* what to do with reserved names */
  annb_tree_link_fn on_link;
  void *user;
  annb_going going; /* asked before each object and each piece */
  annb_compression compression; /* of datasets made for shells */
  int level;                    /* of gzip, 1 to 9 */
  /* kept here */
  annb_graph graph; /* node.out, node.out_addr: the copies */
  uint32_t *todo;
  size_t n_todo, todo_room;
  annb_holder *holders;
  size_t n_holders, holders_room;
  annb_crossing *crossings;
  size_t n_crossings, crossings_room;
};

void annb_tree_free(annb_tree *tree); /* the members; files stay open */

/* The source's root group becomes the root group of the current destination: attributes too, unless `merge`. Then everything below. */
annb_status annb_tree_copy(annb_tree *tree, bool merge, annb_error *err);
/* Copy what is below the groups met so far. */
annb_status annb_tree_run(annb_tree *tree, annb_error *err);
/* Translate references. After the last file. */
annb_status annb_tree_finish(annb_tree *tree, annb_error *err);

/* ---- for on_link ---- */

annb_status annb_tree_copy_link(annb_tree *tree, const annb_place *place, const annb_link *link, annb_error *err);
/* The object `object` (of link `name` in `place`) has been copied to `copy`: remember, and copy its attributes unless `merge`. */
annb_status annb_tree_made(annb_tree *tree, const annb_place *place, const char *name, hid_t object, hid_t copy, bool merge, uint32_t *node,
                           annb_error *err);
/* Copy the links of the group `node` later. */
annb_status annb_tree_later(annb_tree *tree, uint32_t node, annb_error *err);
/* The failure of `object` "<path of node>/<name>" of the source. */
annb_status annb_tree_fail(annb_tree *tree, annb_status status, uint32_t node, const char *name, const char *text, annb_error *err);

/* Link creation properties with the name's character set. */
hid_t annb_link_properties(H5T_cset_t cset);
/* Dataset creation properties for a dataset like `dataset`, to be written here: contiguous or chunked, with those of its filters that
 * can encode exactly; the same fill value where it can be had. */
hid_t annb_tree_plain_properties(hid_t dataset);
/* The type to create a copy with: the copy of a committed type, or the type itself. */
annb_status annb_tree_type(annb_tree *tree, uint32_t node, const char *name, hid_t type, hid_t *out, annb_error *err);
/* Nothing was ever written to `from`, and a copy with its fill value reads the same. */
bool annb_tree_unwritten(hid_t from);

/* ---- between tree.c and its other files ---- */

annb_status annb_tree_dataset(annb_tree *tree, const annb_place *place, const annb_link *link, annb_error *err);
annb_status annb_tree_committed(annb_tree *tree, const annb_place *place, const annb_link *link, annb_error *err);
annb_status annb_tree_attrs(annb_tree *tree, hid_t from, hid_t to, uint32_t node, annb_error *err);
annb_status annb_tree_hold(annb_tree *tree, uint32_t node, const char *attribute, annb_error *err);

#endif
