#include "names.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BYTES (UINT64_C(1) << 28)

static annb_status add(annb_names *names, const char *name, size_t length, annb_error *err) {
  if ((names->n & (names->n - 1)) == 0) { /* room doubles at each power of two */
    char **more = realloc(names->name, (names->n ? 2 * names->n : 1) * sizeof *more);
    if (!more) return annb_fail_memory(err);
    names->name = more;
  }
  char *copy = strndup(name, length);
  if (!copy) return annb_fail_memory(err);
  names->name[names->n++] = copy;
  return ANNB_OK;
}

annb_status annb_names_add(annb_names *names, const char *name, annb_error *err) { return add(names, name, strlen(name), err); }

void annb_names_free(annb_names *names) {
  for (size_t i = 0; i < names->n; i++) free(names->name[i]);
  free(names->name);
  *names = (annb_names){NULL, 0};
}

/* The file and the object are what HDF5 knows them by. */
static annb_status fail_at(hid_t id, const char *text, annb_error *err) {
  char file[1024] = "", object[1024] = "";
  annb_error why;
  annb_status s = annb_h5_fail(&why, ANNB_EINPUT, NULL, NULL, "%s", text); /* with HDF5's reason, before it is asked again */
  bool known = H5Fget_name(id, file, sizeof file) > 0 && H5Iget_name(id, object, sizeof object) > 0;
  H5Eclear2(H5E_DEFAULT);
  return known ? annb_h5_fail(err, s, file, object, "%s", why.message) : annb_fail(err, s, NULL, "%s", why.message);
}

static annb_status variable(hid_t attr, hid_t type, hid_t space, size_t n, annb_names *out, annb_error *err) {
  char **strings = calloc(n, sizeof *strings);
  if (!strings) return annb_fail_memory(err);
  hid_t memory = H5Tcopy(type);
  annb_status s = ANNB_OK;
  if (H5Aread(attr, memory, strings) < 0) s = fail_at(attr, "an attribute cannot be read", err);
  else {
    for (size_t i = 0; i < n && !s; i++) s = add(out, strings[i] ? strings[i] : "", strings[i] ? strlen(strings[i]) : 0, err);
    H5Dvlen_reclaim(memory, space, H5P_DEFAULT, strings);
  }
  annb_h5_close(&memory);
  free(strings);
  return s;
}

static annb_status fixed(hid_t attr, hid_t type, size_t n, annb_names *out, annb_error *err) {
  size_t size = H5Tget_size(type);
  if (size > MAX_BYTES / n) return fail_at(attr, "an attribute of names is too large", err);
  char *bytes = malloc(n * size);
  annb_status s = bytes ? ANNB_OK : annb_fail_memory(err);
  if (!s && H5Aread(attr, type, bytes) < 0) s = fail_at(attr, "an attribute cannot be read", err);
  for (size_t i = 0; i < n && !s; i++) {
    size_t length = strnlen(bytes + i * size, size);
    if (H5Tget_strpad(type) == H5T_STR_SPACEPAD)
      while (length && bytes[i * size + length - 1] == ' ') length--;
    s = add(out, bytes + i * size, length, err);
  }
  free(bytes);
  return s;
}

annb_status annb_names_of_attribute(hid_t object, const char *attribute, annb_names *out, bool *found, annb_error *err) {
  *out = (annb_names){NULL, 0};
  *found = false;
  if (H5Aexists(object, attribute) <= 0) return ANNB_OK;
  hid_t attr = H5Aopen(object, attribute, H5P_DEFAULT), type = H5Aget_type(attr), space = H5Aget_space(attr);
  hssize_t n = H5Sget_simple_extent_npoints(space);
  bool strings = H5Tget_class(type) == H5T_STRING;
  annb_status s = ANNB_OK;
  *found = n == 0 || strings;
  if (n > (hssize_t)ANNB_MAX_TABLE) s = fail_at(object, "an attribute has more than 2^20 names", err);
  else if (n > 0 && strings)
    s = H5Tis_variable_str(type) > 0 ? variable(attr, type, space, (size_t)n, out, err) : fixed(attr, type, (size_t)n, out, err);
  annb_h5_close(&space);
  annb_h5_close(&type);
  annb_h5_close(&attr);
  if (s) annb_names_free(out);
  return s;
}

typedef struct walk {
  annb_names *out;
  annb_error *err;
  annb_status status;
} walk;

static herr_t add_link(hid_t group, const char *name, const H5L_info_t *info, void *user) {
  walk *w = user;
  (void)group;
  (void)info;
  w->status = add(w->out, name, strlen(name), w->err);
  return w->status ? -1 : 0;
}

annb_status annb_names_of_group(hid_t group, annb_names *out, annb_error *err) {
  walk w = {out, err, ANNB_OK};
  *out = (annb_names){NULL, 0};
  if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, add_link, &w) < 0 && !w.status)
    w.status = fail_at(group, "a group cannot be listed", err);
  if (w.status) annb_names_free(out);
  return w.status;
}

annb_status annb_names_of_fields(hid_t type, annb_names *out, annb_error *err) {
  int n = H5Tget_nmembers(type);
  annb_status s = ANNB_OK;
  *out = (annb_names){NULL, 0};
  for (unsigned i = 0; n > 0 && i < (unsigned)n && !s; i++) {
    char *name = H5Tget_member_name(type, i);
    s = name ? add(out, name, strlen(name), err) : annb_fail_memory(err);
    H5free_memory(name);
  }
  if (s) annb_names_free(out);
  return s;
}

typedef struct entry {
  const char *name;
  size_t at;
} entry;

static int by_name(const void *a, const void *b) {
  const entry *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

annb_status annb_names_unique(annb_names *names, annb_error *err) {
  if (names->n < 2) return ANNB_OK;
  entry *sorted = calloc(names->n, sizeof *sorted);
  bool *repeat = calloc(names->n, sizeof *repeat);
  if (sorted && repeat) {
    size_t kept = 0;
    for (size_t i = 0; i < names->n; i++) sorted[i] = (entry){names->name[i], i};
    qsort(sorted, names->n, sizeof *sorted, by_name);
    for (size_t i = 1; i < names->n; i++) repeat[sorted[i].at] = !strcmp(sorted[i].name, sorted[i - 1].name);
    for (size_t i = 0; i < names->n; i++) {
      if (repeat[i]) free(names->name[i]);
      else names->name[kept++] = names->name[i];
    }
    names->n = kept;
  }
  bool ok = sorted && repeat;
  free(sorted);
  free(repeat);
  return ok ? ANNB_OK : annb_fail_memory(err);
}
