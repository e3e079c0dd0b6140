/* The file that an export writes: where it really is, and whether it may be written there. */
#ifndef ANNB_CONVERT_OUTPUT_H
#define ANNB_CONVERT_OUTPUT_H

#include <annblock/status.h>
#include <stdbool.h>

typedef struct annb_output {
  char *path; /* where the file goes: the output, or what a link of that name leads to */
  char *dir;  /* its directory */
  char *temp; /* a name in it that is free */
} annb_output;

/* `name` is not empty. ANNB_EEXIST when there is something that must not be replaced: anything without `force`; with it anything but a
 * regular file or a link to one. ANNB_EIO when there is no such directory. Free in any case. */
annb_status annb_output_find(const char *name, bool force, annb_output *out, annb_error *err);
void annb_output_free(annb_output *out);

#endif
