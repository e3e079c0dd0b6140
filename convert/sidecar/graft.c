#include "graft.h"

#include "files.h"

#include <stdlib.h>
#include <string.h>

#define TAIL "annblock.tail"
#define REFERENCES "annblock.references"

typedef struct files {
  const annb_graft *graft;
  hid_t sidecar, restore, old;
} files;

static bool is_hard(hid_t file, const char *path) {
  H5L_info_t info;
  bool hard = H5Lget_info(file, path, &info, H5P_DEFAULT) >= 0 && info.type == H5L_TYPE_HARD;
  H5Eclear2(H5E_DEFAULT);
  return hard;
}

static bool has_link(hid_t file, const char *path) {
  bool there = H5Lexists(file, path, H5P_DEFAULT) > 0;
  H5Eclear2(H5E_DEFAULT);
  return there;
}

static herr_t find_soft(hid_t group, const char *name, const H5L_info_t *info, void *found) {
  (void)group;
  (void)name;
  bool *yes = found;
  *yes = info->type != H5L_TYPE_HARD;
  return *yes;
}

/* The shell can be copied by itself. */
static annb_status check_shell(const files *f, const char *name, annb_error *err) {
  bool shared = false;
  if (!is_hard(f->old, name))
    return annb_h5_fail(err, ANNB_EUNSUPPORTED, f->graft->old_restore, name,
                        "is a link in the file that was packed: its metadata cannot be replaced, pack the new file instead");
  hid_t object = H5Oopen(f->old, name, H5P_DEFAULT);
  if (H5Iget_type(object) == H5I_GROUP) H5Literate(object, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, find_soft, &shared);
  annb_h5_close(&object);
  H5Eclear2(H5E_DEFAULT);
  if (!shared) return ANNB_OK;
  return annb_h5_fail(
      err, ANNB_EUNSUPPORTED, f->graft->old_restore, name,
      "shares an array with another object in the file that was packed: its metadata cannot be replaced, pack the new file instead");
}

/* Take the place of what the new files have there. */
static annb_status copy_object(const files *f, const char *name, annb_error *err) {
  bool gone = !has_link(f->restore, name) || H5Ldelete(f->restore, name, H5P_DEFAULT) >= 0;
  gone = gone && (!has_link(f->sidecar, name) || H5Ldelete(f->sidecar, name, H5P_DEFAULT) >= 0);
  if (gone && H5Ocopy(f->old, name, f->restore, name, H5P_DEFAULT, H5P_DEFAULT) >= 0) return ANNB_OK;
  return annb_h5_fail(err, ANNB_EIO, f->graft->restore, name, "cannot be copied from %.500s", f->graft->old_restore);
}

static annb_status check_references(const files *f, annb_error *err) {
  if (!has_link(f->restore, REFERENCES) && !has_link(f->old, REFERENCES)) return ANNB_OK;
  return annb_h5_fail(
      err, ANNB_EUNSUPPORTED, f->graft->old_restore, NULL,
      "the file that was packed, or the new one, has object references between metadata and matrices: pack the new file instead");
}

static annb_status copy_all(const files *f, annb_error *err) {
  const annb_graft *g = f->graft;
  annb_status s = check_references(f, err);
  for (size_t i = 0; !s && i < g->n_matrices; i++) s = check_shell(f, g->matrices[i], err);
  for (size_t i = 0; !s && i < g->n_matrices; i++) s = copy_object(f, g->matrices[i], err);
  if (!s && has_link(f->restore, TAIL) && H5Ldelete(f->restore, TAIL, H5P_DEFAULT) < 0)
    s = annb_h5_fail(err, ANNB_EIO, g->restore, TAIL, "cannot be removed");
  return s || !has_link(f->old, TAIL) ? s : copy_object(f, TAIL, err);
}

annb_status annb_graft_shells(const annb_graft *graft, annb_error *err) {
  files f = {graft, -1, -1, -1};
  annb_status s = annb_h5_open(graft->old_restore, &f.old, err);
  if (!s) s = annb_file_open(graft->sidecar, &f.sidecar, err);
  if (!s) s = annb_file_open(graft->restore, &f.restore, err);
  if (!s) s = copy_all(&f, err);
  annb_status restored = annb_file_finish(&f.restore, graft->restore, s ? NULL : err);
  if (!s) s = restored;
  annb_status written = annb_file_finish(&f.sidecar, graft->sidecar, s ? NULL : err);
  annb_h5_close(&f.old);
  return s ? s : written;
}
