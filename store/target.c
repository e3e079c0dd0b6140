#include "target.h"

#include "error.h"
#include "io.h"
#include "manifest.h"

#include <errno.h>
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
