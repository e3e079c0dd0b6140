/* The file driver of newer.h: it reads, and changes object headers on the way. */
#include "h5_fd.h"
#include "newer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if H5_VERS_MAJOR >= 2

herr_t annb_newer_set(hid_t access) {
  (void)access;
  return 0;
}

#else

enum { PREFIX = 64 };

typedef struct file {
  annb_h5_fd at;
  haddr_t changed_at; /* the header that was read last, where it was changed */
  uint8_t *changed;
  size_t n_changed;
} file;

static H5FD_t *driver_open(const char *name, unsigned flags, hid_t access, haddr_t most) {
  (void)access;
  (void)most;
  if (flags & (H5F_ACC_RDWR | H5F_ACC_CREAT | H5F_ACC_TRUNC)) return NULL;
  int fd = open(name, O_RDONLY | O_CLOEXEC);
  file *f = fd < 0 ? NULL : calloc(1, sizeof *f);
  if (!f || !annb_h5_fd_begin(&f->at, fd)) {
    if (fd >= 0) close(fd);
    free(f);
    return NULL;
  }
  return &f->at.head;
}

static herr_t driver_close(H5FD_t *head) {
  file *f = (file *)head;
  close(f->at.fd);
  free(f->changed);
  free(f);
  return 0;
}

/* Nothing that lets HDF5 gather metadata: a header is then read from its start. */
static herr_t driver_query(const H5FD_t *head, unsigned long *flags) {
  (void)head;
  *flags = H5FD_FEAT_DATA_SIEVE;
  return 0;
}

/* HDF5 reads a header from `address` on, all of it or a first piece. */
static void look_at(file *f, haddr_t address) {
  uint8_t prefix[PREFIX];
  free(f->changed);
  f->changed = NULL;
  uint64_t size = annb_h5_fd_read(&f->at, address, PREFIX, prefix) ? annb_newer_size(prefix, PREFIX) : 0;
  if (!size || address > f->at.eof || size > f->at.eof - address) return;
  uint8_t *whole = malloc(size);
  if (whole && annb_h5_fd_read(&f->at, address, size, whole) && annb_newer_change(whole, size)) {
    f->changed = whole;
    f->changed_at = address;
    f->n_changed = size;
  } else free(whole);
}

/* What of the changed header lies in [address, address + size). */
static void put_changed(const file *f, haddr_t address, size_t size, uint8_t *to) {
  if (!f->changed) return;
  haddr_t from = address > f->changed_at ? address : f->changed_at;
  haddr_t end = address + size < f->changed_at + f->n_changed ? address + size : f->changed_at + f->n_changed;
  if (from < end) memcpy(to + (from - address), f->changed + (from - f->changed_at), end - from);
}

static herr_t driver_read(H5FD_t *head, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t size, void *buffer) {
  file *f = (file *)head;
  (void)transfer;
  if (!annb_h5_fd_read(&f->at, address, size, buffer)) return -1;
  if (type != H5FD_MEM_OHDR) return 0;
  if (size >= 4 && !memcmp(buffer, "OHDR", 4)) look_at(f, address);
  put_changed(f, address, size, buffer);
  return 0;
}

static herr_t driver_write(H5FD_t *head, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t size, const void *buffer) {
  (void)head, (void)type, (void)transfer, (void)address, (void)size, (void)buffer;
  return -1;
}

herr_t annb_newer_set(hid_t access) {
  H5FD_class_t driver = annb_h5_fd_class("annblock-newer", 601);
  driver.open = driver_open;
  driver.close = driver_close;
  driver.query = driver_query;
  driver.read = driver_read;
  driver.write = driver_write;
  return annb_h5_fd_use(&driver, access);
}

#endif
