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

#define PREFIX ".annblock-export-"
enum { DIGITS = 16, NAME = 64 };
enum { LOCK, TEMP, CUT, N_NAMES };

/* "<prefix><16 hexadecimal digits><suffix>": the digits are one export's, the lock its first file and the last that it removes. */
static const char *const suffixes[N_NAMES] = {".lock", ".tmp", ".cut"};

static const char *name_of(char name[NAME], const char *digits, int which) {
  snprintf(name, NAME, PREFIX "%.*s%s", DIGITS, digits, suffixes[which]);
  return name;
}

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
  char name[NAME], digits[DIGITS + 1];
  snprintf(digits, sizeof digits, "%016" PRIx64, annb_io_unique());
  out->dir = slash == out->path ? strdup("/") : slash ? strndup(out->path, (size_t)(slash - out->path)) : strdup(".");
  if (!out->dir) return annb_fail_memory(err);
  out->lock = annb_io_join(out->dir, name_of(name, digits, LOCK));
  out->temp = annb_io_join(out->dir, name_of(name, digits, TEMP));
  out->cut = annb_io_join(out->dir, name_of(name, digits, CUT));
  return out->lock && out->temp && out->cut ? ANNB_OK : annb_fail_memory(err);
}

annb_status annb_output_find(const char *name, bool force, annb_output *out, annb_error *err) {
  annb_path_kind kind;
  *out = (annb_output){.lock_fd = -1};
  if (name[strlen(name) - 1] == '/') return annb_fail(err, ANNB_EINVAL, name, "is not the name of a file");
  annb_status s = follow(name, force, out, err);
  if (!s) s = make_names(out, err);
  if (!s) s = annb_io_kind(out->dir, &kind, err);
  if (!s && kind != ANNB_PATH_DIR) s = annb_fail(err, ANNB_EIO, out->dir, "is not a directory: nothing can be written there");
  return s;
}

/* ---- temporary files ---- */

/* The digits in the name of an export's file, or NULL. */
static const char *digits_in(const char *name) {
  const size_t n = sizeof PREFIX - 1;
  if (strncmp(name, PREFIX, n) || strspn(name + n, "0123456789abcdef") != DIGITS) return NULL;
  for (int i = 0; i < N_NAMES; i++)
    if (!strcmp(name + n + DIGITS, suffixes[i])) return name + n;
  return NULL;
}

static void remove_name(const char *dir, const char *digits, int which) {
  char name[NAME], *path = annb_io_join(dir, name_of(name, digits, which));
  if (path) annb_io_unlink(path);
  free(path);
}

/* The files of one export, unless somebody holds its lock. */
static void remove_dead(const char *dir, const char *digits) {
  int fd;
  char name[NAME], *lock = annb_io_join(dir, name_of(name, digits, LOCK));
  const annb_lock_state state = lock ? annb_io_try_lock(lock, &fd) : ANNB_LOCK_REFUSED;
  for (int i = TEMP; state != ANNB_LOCK_REFUSED && i < N_NAMES; i++) remove_name(dir, digits, i);
  if (state == ANNB_LOCK_TAKEN) {
    annb_io_unlink(lock);
    annb_io_unlock(fd);
  }
  free(lock);
}

/* What killed exports left in the folder. Failures are ignored: it tidies up. */
static void remove_leftovers(const char *dir) {
  char **names;
  size_t n;
  if (annb_io_list(dir, &names, &n, NULL)) return;
  for (size_t i = 0; i < n; i++)
    if (digits_in(names[i])) remove_dead(dir, digits_in(names[i]));
  annb_io_free_names(names, n);
}

annb_status annb_output_begin(annb_output *out, annb_error *err) {
  bool locked;
  remove_leftovers(out->dir);
  return annb_io_create_locked(out->lock, &out->lock_fd, &locked, err);
}

void annb_output_end(annb_output *out) {
  if (out->lock_fd < 0) return;
  annb_io_unlink(out->temp);
  annb_io_unlink(out->cut);
  annb_io_unlink(out->lock);
  annb_io_unlock(out->lock_fd);
  out->lock_fd = -1;
}

void annb_output_sweep(const char *name) {
  annb_output out = {.lock_fd = -1};
  if (!follow(name, true, &out, NULL) && !make_names(&out, NULL)) remove_leftovers(out.dir);
  annb_output_free(&out);
}

void annb_output_free(annb_output *out) {
  free(out->path);
  free(out->dir);
  free(out->lock);
  free(out->temp);
  free(out->cut);
}
