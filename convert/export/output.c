#define _XOPEN_SOURCE 700 /* realpath */

#include "output.h"

#include "../../store/error.h"
#include "../../store/io.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Renaming replaces a link itself, so that its file must be found first; the names of devices may be links too. */
static annb_status follow(const char *name, bool force, annb_output *out, annb_error *err) {
  struct stat here, there;
  if (lstat(name, &here)) {
    if (errno != ENOENT && errno != ENOTDIR) return annb_fail_errno(err, name, "examine");
    return (out->path = strdup(name)) ? ANNB_OK : annb_fail_memory(err);
  }
  bool is_link = S_ISLNK(here.st_mode);
  if (stat(name, &there)) return annb_fail(err, ANNB_EEXIST, name, "is a link that leads nowhere: remove it or choose another name");
  const char *what = S_ISDIR(there.st_mode) ? "a directory" : "something that is not a regular file";
  if (!S_ISREG(there.st_mode)) {
    if (is_link) return annb_fail(err, ANNB_EEXIST, name, "is a link to %s: choose another name", what);
    return annb_fail(err, ANNB_EEXIST, name, S_ISDIR(there.st_mode) ? "is a directory" : "exists and is not a regular file");
  }
  if (!force) return annb_fail(err, ANNB_EEXIST, name, "exists already");
  out->path = is_link ? realpath(name, NULL) : strdup(name);
  return out->path ? ANNB_OK : annb_fail_errno(err, name, "examine");
}

static annb_status make_names(annb_output *out, annb_error *err) {
  const char *slash = strrchr(out->path, '/');
  char name[64];
  out->dir = slash == out->path ? strdup("/") : slash ? strndup(out->path, (size_t)(slash - out->path)) : strdup(".");
  snprintf(name, sizeof name, ".annblock-export-%016" PRIx64 ".tmp", annb_io_unique());
  out->temp = out->dir ? annb_io_join(out->dir, name) : NULL;
  return out->temp ? ANNB_OK : annb_fail_memory(err);
}

annb_status annb_output_find(const char *name, bool force, annb_output *out, annb_error *err) {
  annb_path_kind kind;
  *out = (annb_output){NULL, NULL, NULL};
  if (name[strlen(name) - 1] == '/') return annb_fail(err, ANNB_EINVAL, name, "is not the name of a file");
  annb_status s = follow(name, force, out, err);
  if (!s) s = make_names(out, err);
  if (!s) s = annb_io_kind(out->dir, &kind, err);
  if (!s && kind != ANNB_PATH_DIR) s = annb_fail(err, ANNB_EIO, out->dir, "is not a directory: nothing can be written there");
  return s;
}

void annb_output_free(annb_output *out) {
  free(out->path);
  free(out->dir);
  free(out->temp);
}
