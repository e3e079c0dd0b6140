#include "leftovers.h"

#include "../io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 16 };

void annb_temp_name(char name[ANNB_TEMP_NAME], uint64_t unique, unsigned n) {
  snprintf(name, ANNB_TEMP_NAME, "%016llx-%u", (unsigned long long)unique, n);
}

/* "<16 hexadecimal digits>-<number>": other names are not of transactions. */
static bool is_temp_name(const char *name) {
  if (strspn(name, "0123456789abcdef") != DIGITS || name[DIGITS] != '-') return false;
  const char *number = name + DIGITS + 1;
  return *number && strspn(number, "0123456789") == strlen(number);
}

static bool is_marker(const char *name) { return !strcmp(name + DIGITS, "-0"); }

static void remove_name(const char *dir, const char *name) {
  char *path = annb_io_join(dir, name);
  if (path) annb_io_unlink(path);
  free(path);
}

/* The files of one transaction. The marker is the first file that it makes and the last that it removes, so where there is none any
 * more the others are left over too; and it stays locked here until all of them are gone, so that none can be of a later owner. */
static void remove_dead(const char *dir, char *const *names, size_t n) {
  int lock;
  char marker[DIGITS + 3];
  snprintf(marker, sizeof marker, "%.*s-0", DIGITS, names[0]);
  char *path = annb_io_join(dir, marker);
  annb_lock_state state = path ? annb_io_try_lock(path, &lock) : ANNB_LOCK_REFUSED;
  for (size_t i = 0; state != ANNB_LOCK_REFUSED && i < n; i++)
    if (!is_marker(names[i])) remove_name(dir, names[i]);
  if (state == ANNB_LOCK_TAKEN) {
    annb_io_unlink(path);
    annb_io_unlock(lock);
  }
  free(path);
}

void annb_leftovers_remove(const char *dir) {
  char **names;
  size_t n, end;
  if (annb_io_list(dir, &names, &n, NULL)) return;
  for (size_t first = 0; first < n; first = end) {
    end = first + 1;
    if (!is_temp_name(names[first])) continue;
    while (end < n && is_temp_name(names[end]) && !strncmp(names[first], names[end], DIGITS)) end++;
    remove_dead(dir, names + first, end - first);
  }
  annb_io_free_names(names, n);
}

void annb_remains_note(annb_remains *remains, const char *store) {
  static const char *const names[] = {"", "objects", "manifests", "tmp"};
  annb_path_kind kind;
  *remains = (annb_remains){{NULL}, {false}};
  for (int i = 0; i < 4; i++) {
    char *path = *names[i] ? annb_io_join(store, names[i]) : strdup(store);
    remains->dirs[i] = path;
    remains->absent[i] = path && !annb_io_kind(path, &kind, NULL) && kind == ANNB_PATH_ABSENT;
  }
}

void annb_remains_remove(const annb_remains *remains) {
  if (remains->dirs[3]) annb_leftovers_remove(remains->dirs[3]);
  for (int i = 3; i >= 0; i--)
    if (remains->absent[i]) annb_io_rmdir(remains->dirs[i]);
}

void annb_remains_free(annb_remains *remains) {
  for (int i = 0; i < 4; i++) free(remains->dirs[i]);
}
