/* The file that an export writes: where it really is, and whether it may be written there. */
#ifndef ANNB_CONVERT_OUTPUT_H
#define ANNB_CONVERT_OUTPUT_H

#include <annblock/status.h>
#include <stdbool.h>

typedef struct annb_output {
  char *path; /* where the file goes: the output, or what a link of that name leads to */
  char *dir;  /* its directory */
  char *temp; /* a name in it that is free, for what becomes the output */
  char *cut;  /* another one */
  char *lock; /* an empty file, locked as long as the export goes on, so that others leave the two alone */
  int lock_fd;
} annb_output;

/* `name` is not empty. ANNB_EEXIST when there is something that must not be replaced: anything without `force`; with it anything but a
 * regular file or a link to one. ANNB_EIO when there is no such directory. Free in any case. */
annb_status annb_output_find(const char *name, bool force, annb_output *out, annb_error *err);
void annb_output_free(annb_output *out);

/* Make the lock: can a file be made there at all? Before that the files of exports that were killed are removed from the folder. */
annb_status annb_output_begin(annb_output *out, annb_error *err);
/* Remove the temporary files that are left, then the lock. When nothing has begun it does nothing. */
void annb_output_end(annb_output *out);
/* Remove what exports that died left in the folder of the output `name`. */
void annb_output_sweep(const char *name);

#endif
