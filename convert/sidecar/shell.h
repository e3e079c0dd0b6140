/* Shells: the datasets of packed matrices without their data, in a restore file (SPEC.md, section 6). */
#ifndef ANNB_CONVERT_SHELL_H
#define ANNB_CONVERT_SHELL_H

#include "tree.h"

#define ANNB_SHELL ANNB_RESERVED "shell" /* attribute: the role */
#define ANNB_SHAPE ANNB_RESERVED "shape" /* attribute: shape in the source */
#define ANNB_TAIL ANNB_RESERVED "tail"   /* attribute: number of its tail; group in the root: the tails, by number */
#define ANNB_ORDER ANNB_RESERVED "order" /* attribute of a group: names in the order of creation */

/* Make the shell of the dataset `link` in `place`. Elements from `nnz` on are its tail, kept whole; UINT64_MAX: none. */
annb_status annb_shell_make(annb_tree *tree, const annb_place *place, const annb_link *link, const char *role, uint64_t nnz,
                            annb_error *err);

/* Create the dataset of a shell in the output (for export). */
annb_status annb_shell_copy(annb_tree *tree, const annb_place *place, const annb_link *link, hid_t shell, hid_t *copy, annb_error *err);

/* Put the tail of a shell at the end of its copy: `restore` is the open restore file. *n is its length. */
annb_status annb_shell_copy_tail(hid_t restore, const char *restore_name, hid_t shell, hid_t copy, const char *path, uint64_t *n,
                                 annb_error *err);

#endif
