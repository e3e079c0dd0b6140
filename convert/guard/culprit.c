#include "culprit.h"

#include "child.h"

#include "../source/h5.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 1024, MAX_DEPTH = 64, MAX_OBJECTS = 1 << 20 };
enum { TICK = 50, TICKS = 100, MOST_TICKS = 400 }; /* milliseconds; how many an object may take, and the whole walk */
#define MOST (UINT64_C(16) << 20) /* bytes of values that are read of an object */

typedef struct walk {
  hid_t memory; /* a file that is never written */
  char path[PATH];
  atomic_bool ended;
  atomic_uint n; /* objects and attributes that it came to */
} walk;

/* Read what HDF5 has to interpret. */
static void read_values(hid_t id, hid_t type, hid_t space, bool is_attribute) {
  hssize_t n = H5Sget_simple_extent_npoints(space);
  size_t size = H5Tget_size(type);
  bool interpreted = is_attribute || H5Tdetect_class(type, H5T_VLEN) > 0 || H5Tis_variable_str(type) > 0;
  if (!interpreted || n <= 0 || !size || (uint64_t)n > MOST / size) return;
  hid_t memory = H5Tget_native_type(type, H5T_DIR_ASCEND);
  size_t width = memory < 0 ? 0 : H5Tget_size(memory);
  void *values = width && (uint64_t)n <= MOST / width ? calloc((size_t)n, width) : NULL;
  if (values && (is_attribute ? H5Aread(id, memory, values) : H5Dread(id, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values)) >= 0)
    H5Dvlen_reclaim(memory, space, H5P_DEFAULT, values);
  free(values);
  annb_h5_close(&memory);
}

static herr_t attribute(hid_t object, const char *name, const H5A_info_t *info, void *user) {
  walk *w = user;
  (void)info;
  w->n++;
  hid_t attr = H5Aopen(object, name, H5P_DEFAULT), type = H5Aget_type(attr), space = H5Aget_space(attr);
  read_values(attr, type, space, true);
  annb_h5_close(&space);
  annb_h5_close(&type);
  annb_h5_close(&attr);
  return 0;
}

static void dataset(const walk *w, hid_t id) {
  hid_t type = H5Dget_type(id), space = H5Dget_space(id);
  read_values(id, type, space, false);
  if (w->memory >= 0 && annb_h5_stored(id) <= MOST) H5Ocopy(id, ".", w->memory, "copy", H5P_DEFAULT, H5P_DEFAULT);
  if (w->memory >= 0) H5Ldelete(w->memory, "copy", H5P_DEFAULT);
  annb_h5_close(&space);
  annb_h5_close(&type);
}

static void visit(walk *w, hid_t parent, const char *name, unsigned depth);

typedef struct place {
  walk *w;
  unsigned depth;
} place;

static herr_t follow(hid_t group, const char *name, const H5L_info_t *info, void *user) {
  place *p = user;
  if (info->type == H5L_TYPE_HARD) visit(p->w, group, name, p->depth + 1);
  return 0;
}

/* The path says where it is, also when this never returns. */
static void visit(walk *w, hid_t parent, const char *name, unsigned depth) {
  const size_t before = strlen(w->path);
  if (depth > MAX_DEPTH || w->n++ > MAX_OBJECTS || before + strlen(name) + 2 > PATH) return;
  if (depth) snprintf(w->path + before, PATH - before, "/%s", name);
  hid_t id = H5Oopen(parent, name, H5P_DEFAULT);
  place here = {w, depth};
  hsize_t at = 0;
  H5Aiterate2(id, H5_INDEX_NAME, H5_ITER_NATIVE, &at, attribute, w);
  if (H5Iget_type(id) == H5I_DATASET) dataset(w, id);
  if (H5Iget_type(id) == H5I_GROUP) H5Literate(id, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, follow, &here);
  annb_h5_close(&id);
  H5Eclear2(H5E_DEFAULT);
  w->path[before] = 0;
}

static void run(const char *name, walk *w) {
  hid_t file = -1, access = H5Pcreate(H5P_FILE_ACCESS);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  if (H5Pset_fapl_core(access, 1 << 16, false) >= 0) w->memory = H5Fcreate("copies", H5F_ACC_TRUNC, H5P_DEFAULT, access);
  if (!annb_h5_open(name, &file, NULL)) visit(w, file, "/", 0);
  annb_h5_close(&file);
  atomic_store(&w->ended, true);
  _exit(0);
}

/* Whether it died, or stays at an object. A walk that is slow, of a large file or disk, is given up: the object where it is then is as good
 * as others. */
static bool dies(const walk *w, pid_t child) {
  unsigned n = 0;
  int still = 0;
  for (int i = 0; i < MOST_TICKS && still < TICKS && !atomic_load(&w->ended); i++) {
    poll(NULL, 0, TICK);
    if (annb_child_ended(child)) return !atomic_load(&w->ended);
    const unsigned now = atomic_load(&w->n);
    still = now == n ? still + 1 : 0;
    n = now;
  }
  annb_child_kill(child);
  return still == TICKS && !atomic_load(&w->ended);
}

bool annb_culprit_find(const char *file, char *object, size_t size) {
  walk *w = annb_child_memory(sizeof *w);
  if (!w) return false;
  pid_t child = annb_child_fork();
  if (child == 0) run(file, w);
  const bool found = child > 0 && dies(w, child);
  if (child > 0) annb_child_wait(child);
  w->path[PATH - 1] = 0;
  if (found) snprintf(object, size, "%s", *w->path ? w->path : "/");
  annb_child_memory_free(w, sizeof *w);
  return found;
}
