#include "h5_fd.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool annb_h5_fd_begin(annb_h5_fd *file, int fd) {
  struct stat st;
  if (fstat(fd, &st)) return false;
  file->fd = fd;
  file->eof = (haddr_t)st.st_size;
  file->device = st.st_dev;
  file->inode = st.st_ino;
  return true;
}

bool annb_h5_fd_read(const annb_h5_fd *file, haddr_t address, size_t size, uint8_t *to) {
  while (size) {
    ssize_t n = pread(file->fd, to, size, (off_t)address);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    if (n == 0) break;
    to += n;
    size -= (size_t)n;
    address += (haddr_t)n;
  }
  memset(to, 0, size);
  return true;
}

static int compare(const H5FD_t *a, const H5FD_t *b) {
  const annb_h5_fd *x = (const annb_h5_fd *)a, *y = (const annb_h5_fd *)b;
  if (x->device != y->device) return x->device < y->device ? -1 : 1;
  return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static haddr_t get_eoa(const H5FD_t *head, H5FD_mem_t type) {
  (void)type;
  return ((const annb_h5_fd *)head)->eoa;
}

static herr_t set_eoa(H5FD_t *head, H5FD_mem_t type, haddr_t address) {
  (void)type;
  ((annb_h5_fd *)head)->eoa = address;
  return 0;
}

static haddr_t get_eof(const H5FD_t *head, H5FD_mem_t type) {
  (void)type;
  return ((const annb_h5_fd *)head)->eof;
}

H5FD_class_t annb_h5_fd_class(const char *name, int value) {
  H5FD_class_t driver = {.name = name,
                         .maxaddr = INT64_MAX,
                         .fc_degree = H5F_CLOSE_WEAK,
                         .cmp = compare,
                         .get_eoa = get_eoa,
                         .set_eoa = set_eoa,
                         .get_eof = get_eof,
                         .fl_map = H5FD_FLMAP_DICHOTOMY};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = value;
#else
  (void)value;
#endif
  return driver;
}

herr_t annb_h5_fd_use(const H5FD_class_t *driver, hid_t access) {
  hid_t id = H5FDregister(driver);
  if (id < 0) return -1;
  herr_t r = H5Pset_driver(access, id, NULL);
  H5FDunregister(id);
  return r;
}
