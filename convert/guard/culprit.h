/* Which object of a file HDF5 cannot read, after it died of one. */
#ifndef ANNB_CONVERT_CULPRIT_H
#define ANNB_CONVERT_CULPRIT_H

#include <stdbool.h>
#include <stddef.h>

/* Walk the file in a child process, object by object. True when the child died, or did not come back from an object in 5 seconds: `object`
 * is where it was then. */
bool annb_culprit_find(const char *file, char *object, size_t size);

#endif
