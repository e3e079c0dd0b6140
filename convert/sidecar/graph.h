/* Objects and links of HDF5 files, for walks that must meet every object once: by address, without recursion. */
#ifndef ANNB_CONVERT_GRAPH_H
#define ANNB_CONVERT_GRAPH_H

#include "../source/h5.h"

#define ANNB_MAX_DEPTH 4096u /* groups inside groups */

/* An object, with the link by which it was met first. */
typedef struct annb_node {
  unsigned long fileno; /* of the open file, from H5Oget_info */
  haddr_t addr;
  haddr_t out_addr;       /* for the user: of its copy */
  uint32_t out;           /* for the user: where its copy is, or its number */
  uint32_t parent, depth; /* the root: ANNB_NONE, 0 */
  char *name;             /* NULL: the root, or an object that no link leads to */
} annb_node;

typedef struct annb_graph {
  annb_node *nodes;
  uint32_t *slots;
  uint32_t n, room, n_slots;
} annb_graph;

void annb_graph_free(annb_graph *graph);                                               /* the members; zero-initialise before use */
uint32_t annb_graph_find(const annb_graph *graph, unsigned long fileno, haddr_t addr); /* ANNB_NONE when not met */
/* Add an object that is not there. `name` may be NULL. ANNB_EUNSUPPORTED below ANNB_MAX_DEPTH. */
annb_status annb_graph_add(annb_graph *graph, unsigned long fileno, haddr_t addr, uint32_t parent, const char *name, uint32_t *node,
                           annb_error *err);
/* Path of the link `name` of an object, or of the object itself (name NULL), in fresh memory, or NULL. */
char *annb_graph_path(const annb_graph *graph, uint32_t node, const char *name);

typedef struct annb_link {
  char *name;
  char *target; /* soft and external */
  char *file;   /* external */
  H5L_type_t type;
  H5T_cset_t cset;
} annb_link;

typedef struct annb_links {
  annb_link *rows;
  size_t n, room;
  bool tracked; /* the group tracks the order of creation: rows are in that order, else by name */
} annb_links;

/* All links of a group; by name with `by_name`, else as said above. */
annb_status annb_links_read(hid_t group, bool by_name, const char *file, const char *object, annb_links *out, annb_error *err);
void annb_links_free(annb_links *links);

/* Names of all attributes, in order of creation where that is tracked unless `by_name`: rows have only names. */
annb_status annb_attrs_read(hid_t object, bool by_name, const char *file, const char *path, annb_links *out, annb_error *err);


/* Open a dataset; raw data in external files is looked for beside the file. One chunk fits the cache, up to 256 MiB. */
hid_t annb_h5_open_dataset(hid_t group, const char *name);

#endif
