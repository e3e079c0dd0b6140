#define _XOPEN_SOURCE 700 /* realpath */

#include "target.h"

#include "../error.h"
#include "../io.h"
#include "../manifest/manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_our_dir(const char *name) { return !strcmp(name, "objects") || !strcmp(name, "manifests") || !strcmp(name, "tmp"); }

/* "<64 hexadecimal digits>.<suffix of an object>" */
static bool is_object_name(const char *name) {
  if (strlen(name) < 64 || strspn(name, "0123456789abcdef") != 64) return false;
  for (int kind = ANNB_OBJECT_SEGMENT; kind <= ANNB_OBJECT_RESTORE; kind++) {
    if (!strcmp(name + 64, annb_object_suffix((annb_object_kind)kind))) return true;
  }
  return false;
}

static bool is_manifest_name(const char *name) {
  uint64_t generation;
  return annb_manifest_generation(name, &generation);
}

annb_status annb_target_check_names(const char *dir, annb_target_dir target, annb_error *err) {
  static bool (*const known[])(const char *name) = {is_our_dir, is_object_name, is_manifest_name};
  annb_error why = {.system_errno = 0};
  char **names;
  size_t n;
  annb_path_kind kind;
  annb_status s = annb_io_kind(dir, &kind, err);
  if (s || kind == ANNB_PATH_ABSENT) return s;
  if (kind != ANNB_PATH_DIR) return annb_fail(err, ANNB_EEXIST, dir, "exists and is not a directory: choose another name for the store");
  s = annb_io_list(dir, &names, &n, &why);
  if (why.system_errno == ENOENT) return ANNB_OK; /* another transaction that gave up removed it just now */
  if (s && err) *err = why;
  for (size_t i = 0; !s && i < n; i++) {
    if (!known[target](names[i]))
      s = annb_fail(err, ANNB_EEXIST, dir, "exists and is not an unfinished store (it holds '%.200s'): choose another name for the store",
                    names[i]);
  }
  annb_io_free_names(names, n);
  return s;
}

/* Where `path` really is, without links: of a file that is not there yet, by its directory. NULL when that is not there either. */
static char *real_path(const char *path) {
  const char *slash = strrchr(path, '/');
  char *real = realpath(path, NULL);
  if (real) return real;
  char *dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
  char *real_dir = dir ? realpath(dir, NULL) : NULL;
  if (real_dir) real = annb_io_join(real_dir, slash ? slash + 1 : path);
  free(real_dir);
  free(dir);
  return real;
}

annb_status annb_target_check_outside(const char *path, annb_error *err) {
  char *dir = real_path(path), *slash;
  annb_status s = ANNB_OK;
  while (!s && dir && (slash = strrchr(dir, '/')) && slash != dir) {
    uint64_t generation = 0;
    *slash = 0;
    if (!annb_manifest_latest(dir, &generation, NULL) && generation)
      s = annb_fail(err, ANNB_EINVAL, path, "lies inside the store %.1000s, which holds its own files alone: choose another place", dir);
  }
  free(dir);
  return s;
}
