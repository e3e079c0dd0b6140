/* What is left out (`skip`), and what may be: nothing without which the object around it could not be read. */
#include "../source/names.h"
#include "subset.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

/* What is left of `path` below `folder`: "" for the same path, NULL when it is elsewhere. Slashes before, between and after the names do
 * not matter. */
static const char *below(const char *path, const char *folder) {
  for (;;) {
    path += strspn(path, "/");
    folder += strspn(folder, "/");
    const size_t n = strcspn(folder, "/");
    if (!n) return path;
    if (n != strcspn(path, "/") || memcmp(path, folder, n)) return NULL;
    path += n;
    folder += n;
  }
}

bool annb_subset_skips(const annb_subset *subset, const char *path) {
  for (size_t i = 0; i < subset->options->n_skip; i++) {
    const char *rest = below(path, subset->options->skip[i]);
    if (rest && !*rest) return true;
  }
  return false;
}

/* Also as a piece of something that is left out. */
static bool is_gone(const annb_subset *subset, const char *path) {
  bool gone = false;
  for (size_t i = 0; i < subset->options->n_skip; i++) gone = gone || below(path, subset->options->skip[i]);
  return gone;
}

/* A link to what is left out would lead nowhere. */
annb_status annb_subset_check_target(const annb_subset *subset, const char *path, const char *target, annb_error *err) {
  const char *slash = strrchr(path, '/');
  const size_t n = *target == '/' || !slash ? 0 : (size_t)(slash - path) + 1;
  char *whole = malloc(n + strlen(target) + 1);
  if (!whole) return annb_fail_memory(err);
  memcpy(whole, path, n);
  strcpy(whole + n, target);
  annb_status s = is_gone(subset, whole) ? annb_subset_fail(subset, ANNB_EINVAL, path, "is a link to what is left out", err) : ANNB_OK;
  free(whole);
  return s;
}

/* ---- what may be left out ---- */

static bool is_any(const char *text, const char *a, const char *b) { return !strcmp(text, a) || !strcmp(text, b); }

/* Of a table: columns, but not its index. Tables elsewhere than in these slots are copied whole, list of columns included. */
static bool may_lose_column(hid_t table, const char *path, const char *name) {
  static const char *const slots[] = {"obs", "var", "obsm", "varm"};
  bool cut = false;
  for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
    const size_t n = strlen(slots[i]);
    cut = cut || (!strncmp(path, slots[i], n) && (path[n] == '/' || !path[n]));
  }
  char *index = annb_h5_attr_string(table, "_index");
  const bool may = cut && strcmp(name, index ? index : "_index") && strcmp(name, "__categories");
  free(index);
  return may;
}

/* May the group at `path`, which is an object of AnnData's or a folder of such, lose that member? */
static bool may_lose(hid_t group, const char *path, const char *name) {
  char *encoding = annb_h5_attr_string(group, "encoding-type");
  bool may = H5Aexists(group, "h5sparse_format") <= 0;
  const char *last = strrchr(path, '/');
  if (last && !strcmp(last, "/__categories")) may = false; /* columns refer to them */
  else if (encoding && !strcmp(encoding, "dataframe")) may = may_lose_column(group, path, name);
  else if (!strcmp(path, "raw")) may = !is_any(name, "X", "var");
  else if (encoding) may = !strcmp(encoding, "dict");
  else if (H5Aexists(group, "_index") > 0 || is_any(path, "obs", "var")) may = may_lose_column(group, path, name);
  free(encoding);
  return may;
}

/* `path` without slashes before, between and after its names that mean nothing, in fresh memory. */
static char *tidy(const char *path) {
  char *out = malloc(strlen(path) + 1), *to = out;
  for (; out && *(path += strspn(path, "/")); path += strcspn(path, "/")) {
    size_t n = strcspn(path, "/");
    if (to != out) *to++ = '/';
    memcpy(to, path, n);
    to += n;
  }
  if (out) *to = 0;
  return out;
}

/* Cut `path` (tidy, of something that is there) short after the first group that must stay whole. */
static void shorten(hid_t file, char *path) {
  bool may = true;
  for (char *slash = strchr(path, '/'), *next; slash; slash = next) {
    next = strchr(slash + 1, '/');
    *slash = 0;
    if (next) *next = 0;
    hid_t group = H5Gopen2(file, path, H5P_DEFAULT);
    may = group >= 0 && may_lose(group, path, slash + 1);
    annb_h5_close(&group);
    if (!may) return;
    *slash = '/';
    if (next) *next = '/';
  }
}

char *annb_subset_whole(const annb_subset *subset, const char *path) {
  char *whole = tidy(path);
  if (whole) shorten(subset->fill->merged->out, whole);
  return whole;
}

static annb_status check(const annb_subset *subset, const char *skip, const char *path, annb_error *err) {
  const char *file = subset->fill->merged->sidecar_name;
  if (!*path || !annb_h5_exists(subset->fill->merged->out, path))
    return annb_fail(err, ANNB_ENOTFOUND, file, "has no '%.200s' that could be left out", skip);
  if (is_any(path, "obs", "var"))
    return annb_fail(err, ANNB_EINVAL, file, "%s cannot be left out, which every file has; columns of it can (%s/NAME)", path, path);
  char *whole = annb_subset_whole(subset, path);
  if (!whole) return annb_fail_memory(err);
  annb_status s = ANNB_OK;
  if (strcmp(whole, path))
    s = annb_fail(err, ANNB_EINVAL, file, "%.200s cannot be left out: %.200s could not be read without it", path, whole);
  free(whole);
  return s;
}

/* Every path to leave out must be there: a slip would not be noticed. */
annb_status annb_subset_check_skip(const annb_subset *subset, annb_error *err) {
  annb_status s = ANNB_OK;
  for (size_t i = 0; !s && i < subset->options->n_skip; i++) {
    char *path = tidy(subset->options->skip[i]);
    s = path ? check(subset, subset->options->skip[i], path, err) : annb_fail_memory(err);
    free(path);
  }
  return s;
}

/* ---- lists of columns ---- */

/* Keep the names of columns that are not left out; false when memory is short. */
static bool keep_names(const annb_subset *subset, const char *table, annb_names *names) {
  size_t kept = 0;
  bool ok = true;
  for (size_t i = 0; i < names->n; i++) {
    char *path = malloc(strlen(table) + strlen(names->name[i]) + 2);
    ok = ok && path;
    if (path) strcat(strcat(strcpy(path, table), "/"), names->name[i]);
    if (path && is_gone(subset, path)) free(names->name[i]);
    else names->name[kept++] = names->name[i];
    free(path);
  }
  names->n = kept;
  return ok;
}

static bool write_names(hid_t table, const annb_names *names) {
  const hsize_t n = names->n;
  hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &n, NULL), attr = -1;
  bool ok = H5Tset_size(type, H5T_VARIABLE) >= 0 && H5Tset_cset(type, H5T_CSET_UTF8) >= 0 && H5Adelete(table, "column-order") >= 0;
  if (ok) attr = H5Acreate2(table, "column-order", type, space, H5P_DEFAULT, H5P_DEFAULT);
  ok = attr >= 0 && (!n || H5Awrite(attr, type, names->name) >= 0);
  annb_h5_close(&attr);
  annb_h5_close(&space);
  annb_h5_close(&type);
  return ok;
}

annb_status annb_subset_list_columns(const annb_subset *subset, hid_t table, const char *path, annb_error *err) {
  annb_names names;
  bool found;
  annb_status s = subset->options->n_skip ? annb_names_of_attribute(table, "column-order", &names, &found, err) : ANNB_OK;
  if (s || !subset->options->n_skip) return s;
  const size_t before = names.n;
  if (!keep_names(subset, path, &names)) s = annb_fail_memory(err);
  if (!s && names.n < before && !write_names(table, &names))
    s = annb_h5_fail(err, ANNB_EIO, subset->fill->out_name, path, "the attribute column-order cannot be written");
  annb_names_free(&names);
  return s;
}
