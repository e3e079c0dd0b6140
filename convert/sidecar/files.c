#include "files.h"
#include "../export/driver.h"

#include "../../store/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t annb_file_user_block_size(hid_t file) {
  hsize_t size = 0;
  hid_t properties = H5Fget_create_plist(file);
  if (properties < 0 || H5Pget_userblock(properties, &size) < 0) size = 0;
  annb_h5_close(&properties);
  return size;
}

/* File creation properties with the root group's order flags and the user block of `like`. */
static hid_t creation_like(hid_t like) {
  hid_t properties = H5Pcreate(H5P_FILE_CREATE), root = like < 0 ? -1 : H5Gopen2(like, "/", H5P_DEFAULT);
  hid_t group = root < 0 ? -1 : H5Gget_create_plist(root);
  unsigned flags, compact, dense;
  if (properties >= 0) H5Pset_obj_track_times(properties, false);
  if (properties >= 0 && group >= 0) {
    if (H5Pget_link_creation_order(group, &flags) >= 0) H5Pset_link_creation_order(properties, flags);
    if (H5Pget_attr_creation_order(group, &flags) >= 0) H5Pset_attr_creation_order(properties, flags);
    if (H5Pget_attr_phase_change(group, &compact, &dense) >= 0) H5Pset_attr_phase_change(properties, compact, dense);
    uint64_t block = annb_file_user_block_size(like);
    if (block) H5Pset_userblock(properties, block);
  }
  annb_h5_close(&group);
  annb_h5_close(&root);
  H5Eclear2(H5E_DEFAULT);
  return properties;
}

annb_status annb_file_create(const char *path, hid_t like, hid_t *file, annb_error *err) {
  hid_t creation = creation_like(like), access = H5Pcreate(H5P_FILE_ACCESS);
  *file = -1;
  if (creation >= 0 && access >= 0 && H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST) >= 0 &&
      annb_driver_set(access) >= 0) {
    errno = 0;
    *file = H5Fcreate(path, H5F_ACC_EXCL, creation, access);
  }
  int number = *file >= 0 ? 0 : errno;
  annb_h5_close(&creation);
  annb_h5_close(&access);
  if (*file >= 0) return ANNB_OK;
  if (!number) return annb_h5_fail(err, ANNB_EIO, path, NULL, "the file cannot be created");
  H5Eclear2(H5E_DEFAULT);
  errno = number;
  return annb_fail_errno(err, path, "create the file");
}

annb_status annb_file_open(const char *path, hid_t *file, annb_error *err) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  *file = -1;
  if (access >= 0 && H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST) >= 0 && annb_driver_set(access) >= 0)
    *file = H5Fopen(path, H5F_ACC_RDWR, access);
  annb_h5_close(&access);
  return *file >= 0 ? ANNB_OK : annb_h5_fail(err, ANNB_EIO, path, NULL, "the file cannot be opened to be changed");
}

static annb_status written_status(const annb_written *written, const char *path, annb_error *err) {
  if (!written || !written->error) return ANNB_OK;
  if (written->error == ECANCELED) return annb_fail(err, ANNB_ECANCELED, path, "writing was cancelled");
  errno = written->error;
  return annb_fail_errno(err, path, "write");
}

annb_status annb_file_check(hid_t file, const char *path, annb_error *err) {
  annb_written *written = file < 0 ? NULL : annb_driver_written(file);
  annb_status s = written_status(written, path, err);
  annb_written_release(written);
  return s;
}

annb_status annb_file_finish(hid_t *file, const char *path, annb_error *err) {
  if (*file < 0) return ANNB_OK;
  annb_written *written = annb_driver_written(*file);
  /* holds the driver: HDF5 1.10 frees it before it calls it for the last time */
  hid_t access = H5Fget_access_plist(*file);
  herr_t flushed = H5Fflush(*file, H5F_SCOPE_LOCAL), closed = H5Fclose(*file);
  *file = -1;
  annb_h5_close(&access);
  annb_status s = written_status(written, path, err);
  annb_written_release(written);
  if (!s && (flushed < 0 || closed < 0)) s = annb_h5_fail(err, ANNB_EIO, path, NULL, "the file cannot be written");
  return s;
}

static annb_status copy_bytes(FILE *in, FILE *out, uint64_t n, const char *from, const char *to, annb_error *err) {
  char buffer[4096];
  while (n) {
    size_t piece = n < sizeof buffer ? (size_t)n : sizeof buffer;
    if (fread(buffer, 1, piece, in) != piece) return annb_fail(err, ANNB_EIO, from, "its user block cannot be read");
    if (fwrite(buffer, 1, piece, out) != piece) return annb_fail_errno(err, to, "write the user block");
    n -= piece;
  }
  return ANNB_OK;
}

annb_status annb_file_user_block(const char *from, const char *to, annb_error *err) {
  hid_t file;
  annb_status s = annb_h5_open(from, &file, err);
  if (s) return s;
  uint64_t size = annb_file_user_block_size(file);
  annb_h5_close(&file);
  if (!size) return ANNB_OK;
  FILE *in = fopen(from, "rb"), *out = in ? fopen(to, "r+b") : NULL;
  if (!out) s = annb_fail_errno(err, in ? to : from, "open");
  if (!s) s = copy_bytes(in, out, size, from, to, err);
  if (in) fclose(in);
  if (out && fclose(out) && !s) s = annb_fail_errno(err, to, "write the user block");
  return s;
}

static annb_status write_attr(hid_t object, const char *name, hid_t type, hid_t space, const void *value, const char *file,
                              annb_error *err) {
  hid_t attr = type < 0 || space < 0 ? -1 : H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  herr_t r = attr < 0 ? -1 : H5Awrite(attr, type, value);
  annb_h5_close(&attr);
  return r >= 0 ? ANNB_OK : annb_h5_fail(err, ANNB_EIO, file, NULL, "attribute \"%s\" cannot be written", name);
}

annb_status annb_attr_write_text(hid_t object, const char *name, const char *text, const char *file, annb_error *err) {
  hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
  H5Tset_size(type, strlen(text) ? strlen(text) : 1);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  annb_status s = write_attr(object, name, type, space, text, file, err);
  annb_h5_close(&space);
  annb_h5_close(&type);
  return s;
}

annb_status annb_attr_write_u64(hid_t object, const char *name, const uint64_t *values, int n, const char *file, annb_error *err) {
  hsize_t count = (hsize_t)n;
  hid_t type = H5Tcopy(H5T_STD_U64LE), space = H5Screate_simple(1, &count, NULL);
  annb_status s = write_attr(object, name, type, space, values, file, err);
  annb_h5_close(&space);
  annb_h5_close(&type);
  return s;
}
