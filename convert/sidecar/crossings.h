/* References between sidecar and restore file: null in the one, listed in the other (SPEC.md, section 6). */
#ifndef ANNB_CONVERT_CROSSINGS_H
#define ANNB_CONVERT_CROSSINGS_H

#include "tree.h"

/* Write the list that a copy left behind into the restore file. */
annb_status annb_crossings_write(const annb_tree *tree, hid_t restore, const char *name, annb_error *err);
/* Set the references of the merged file `out` by the list in the restore file, when there is one. */
annb_status annb_crossings_apply(hid_t restore, const char *name, hid_t out, const char *out_name, annb_error *err);

#endif
