/* A file of some of the cells and genes: the merged file (merge.h), copied object by object; what belongs to cells or genes is cut. */
#ifndef ANNB_CONVERT_SUBSET_H
#define ANNB_CONVERT_SUBSET_H

#include "fill.h"
#include "selection.h"

#include "../sidecar/tree.h"

/* Which axis of a selection the dimensions of an object follow. */
typedef enum annb_follows { ANNB_FOLLOWS_NONE, ANNB_FOLLOWS_ROWS, ANNB_FOLLOWS_GENES } annb_follows;

typedef enum annb_role_kind {
  ANNB_ROLE_WHOLE,       /* copied as it is, with all below */
  ANNB_ROLE_ROOT,
  ANNB_ROLE_ELEMENTS,    /* a group of arrays, matrices, tables */
  ANNB_ROLE_FRAME,       /* a table: a group of columns */
  ANNB_ROLE_RAW,
  ANNB_ROLE_UNS,
  ANNB_ROLE_NEIGHBORS,   /* uns/neighbors, where obsp was before anndata 0.7 */
  ANNB_ROLE_CATEGORICAL, /* a group whose codes are cut */
  ANNB_ROLE_SPARSE,      /* a group whose arrays have been written */
  ANNB_ROLE_ARRAY        /* a dataset */
} annb_role_kind;

/* What is done with an object, and with the members of a group. */
typedef struct annb_role {
  uint8_t kind, first, second; /* first, second: annb_follows of its dimensions */
} annb_role;

typedef struct annb_subset {
  annb_fill *fill; /* from the store to `out` */
  annb_tree tree;
  const annb_subset_options *options;
  const annb_selection *selections[3]; /* by annb_follows; the first NULL */
  annb_role *roles;                    /* by node of the tree */
  uint32_t roles_room;
} annb_subset;

/* Copy the merged file to fill->out. `fill` has the selections. */
annb_status annb_subset_copy(annb_fill *fill, const annb_subset_options *options, const annb_going *going, annb_error *err);

/* ---- between subset.c and its other files ---- */

/* NULL when all of the axis stay as they are. */
const annb_selection *annb_subset_axis(const annb_subset *subset, uint8_t follows);
annb_status annb_subset_fail(const annb_subset *subset, annb_status status, const char *path, const char *text, annb_error *err);

/* Cut the dataset `link` of `place`: its first dimension, and the second one where that follows something. */
annb_status annb_subset_array(annb_subset *subset, const annb_place *place, const annb_link *link, annb_role role, const char *path,
                              annb_error *err);
/* Cut a CSR or CSC matrix: `from` is its group, `to` the group of the copy, made already, with the attributes of the source. */
annb_status annb_subset_sparse(annb_subset *subset, hid_t from, hid_t to, uint32_t node, annb_role role, const char *path, annb_error *err);

/* Do the arrays of the sparse matrix, or the values of the dense one, come from the store, and from which matrix? */
annb_status annb_subset_packed(const annb_subset *subset, const char *path, bool *packed, uint32_t *matrix, annb_error *err);

/* Is the object at `path` left out? */
bool annb_subset_skips(const annb_subset *subset, const char *path);
/* ANNB_ENOTFOUND when something to leave out is not there, ANNB_EINVAL when what is around it could not be read without it. */
annb_status annb_subset_check_skip(const annb_subset *subset, annb_error *err);
/* ANNB_EINVAL when the soft link at `path` leads to something that is left out. */
annb_status annb_subset_check_target(const annb_subset *subset, const char *path, const char *target, annb_error *err);
/* What is to be left out in place of `path`: the path of the object that it is part of, or its own, in fresh memory; NULL when memory is
 * short. */
char *annb_subset_whole(const annb_subset *subset, const char *path);
/* Take the columns that are left out from the list of them that `table`, the copy of the one at `path`, has. */
annb_status annb_subset_list_columns(const annb_subset *subset, hid_t table, const char *path, annb_error *err);

/* Creation properties for a copy of `dataset` with other dimensions. `grows`: along the first. */
hid_t annb_subset_properties(hid_t dataset, int rank, const hsize_t *dims, bool grows);

#endif
