/* Lists of names in HDF5 files. */
#ifndef ANNB_CONVERT_NAMES_H
#define ANNB_CONVERT_NAMES_H

#include "h5.h"

typedef struct annb_names {
  char **name;
  size_t n;
} annb_names;

/* The strings of an attribute (of one dimension or scalar), an empty list when it holds no elements of any type.
 * *found is false when there is none or it holds something else. */
annb_status annb_names_of_attribute(hid_t object, const char *attribute, annb_names *out, bool *found, annb_error *err);
/* Links of a group in name order; fields of a compound type in its order. */
annb_status annb_names_of_group(hid_t group, annb_names *out, annb_error *err);
annb_status annb_names_of_fields(hid_t type, annb_names *out, annb_error *err);
/* Append a copy. */
annb_status annb_names_add(annb_names *names, const char *name, annb_error *err);
/* Keep the first of equal names. */
annb_status annb_names_unique(annb_names *names, annb_error *err);
void annb_names_free(annb_names *names);

#endif
