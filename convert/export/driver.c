#include "driver.h"

#include "../source/h5_fd.h"

#include "../../store/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define ASK_BYTES ((size_t)4 << 20)
#define START_BYTES ((size_t)16 << 20)

typedef struct file {
  annb_h5_fd at;
  annb_written *written;
} file;

static file *open_fd(int fd, hid_t driver) {
  file *f = calloc(1, sizeof *f);
  annb_written *written = calloc(1, sizeof *written);
  if (!f || !written || !annb_h5_fd_begin(&f->at, fd)) {
    free(f);
    free(written);
    return NULL;
  }
  written->users = 1;
  written->fd = fd;
  written->driver = driver;
  H5Iinc_ref(driver);
  f->written = written;
  return f;
}

static H5FD_t *driver_open(const char *name, unsigned flags, hid_t access, haddr_t most) {
  int how = flags & H5F_ACC_RDWR ? O_RDWR : O_RDONLY;
  (void)most;
  if (flags & H5F_ACC_CREAT) how |= O_CREAT;
  if (flags & H5F_ACC_EXCL) how |= O_EXCL;
  if (flags & H5F_ACC_TRUNC) how |= O_TRUNC;
  int fd = open(name, how | O_CLOEXEC, 0666);
  if (fd < 0) return NULL;
  file *f = open_fd(fd, H5Pget_driver(access));
  if (!f) close(fd);
  return (H5FD_t *)f;
}

static void keep_error(file *f) {
  if (!f->written->error) f->written->error = errno ? errno : EIO;
}

static herr_t driver_close(H5FD_t *head) {
  file *f = (file *)head;
  if (close(f->at.fd)) keep_error(f);
  annb_written_release(f->written);
  free(f);
  return 0;
}

/* As HDF5's default driver, so that files are laid out as it would. */
static herr_t driver_query(const H5FD_t *head, unsigned long *flags) {
  (void)head;
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_SMALLDATA |
           H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

static herr_t driver_handle(H5FD_t *head, hid_t access, void **handle) {
  (void)access;
  *handle = ((file *)head)->written;
  return 0;
}

static herr_t driver_read(H5FD_t *head, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t size, void *buffer) {
  (void)type;
  (void)transfer;
  return annb_h5_fd_read((const annb_h5_fd *)head, address, size, buffer) ? 0 : -1;
}

/* H5Ocopy asks nobody whether to go on. */
static void ask(annb_written *written, size_t size) {
  if (!written->going || (written->unasked += size) < ASK_BYTES) return;
  written->unasked = 0;
  if (!written->error && annb_going_on(written->going, NULL)) written->error = ECANCELED;
}

void annb_written_more(annb_written *written, size_t size) {
  if (atomic_fetch_add(&written->unflushed, size) + size < START_BYTES) return;
  atomic_store(&written->unflushed, 0);
  annb_io_start_flush(written->fd, 0);
}

static herr_t driver_write(H5FD_t *head, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t size, const void *buffer) {
  file *f = (file *)head;
  const uint8_t *from = buffer;
  (void)type;
  (void)transfer;
  ask(f->written, size);
  if (f->at.eof < address + size) f->at.eof = address + size;
  while (size && !f->written->error) {
    errno = 0;
    ssize_t n = pwrite(f->at.fd, from, size, (off_t)address);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      keep_error(f);
      break;
    }
    from += n;
    size -= (size_t)n;
    address += (haddr_t)n;
    annb_written_more(f->written, (size_t)n);
  }
  return 0;
}

static herr_t driver_truncate(H5FD_t *head, hid_t transfer, hbool_t closing) {
  file *f = (file *)head;
  (void)transfer;
  (void)closing;
  if (f->at.eof == f->at.eoa) return 0;
  if (!f->written->error && ftruncate(f->at.fd, (off_t)f->at.eoa)) keep_error(f);
  f->at.eof = f->at.eoa;
  return 0;
}

herr_t annb_driver_set(hid_t access) {
  H5FD_class_t driver = annb_h5_fd_class("annblock", 600);
  driver.open = driver_open;
  driver.close = driver_close;
  driver.query = driver_query;
  driver.get_handle = driver_handle;
  driver.read = driver_read;
  driver.write = driver_write;
  driver.truncate = driver_truncate;
  return annb_h5_fd_use(&driver, access);
}

annb_written *annb_driver_written(hid_t id) {
  void *handle = NULL;
  hid_t access = H5Fget_access_plist(id), driver = access < 0 ? -1 : H5Pget_driver(access), standard = H5FD_SEC2;
  annb_written *written = NULL;
  if (driver >= 0 && driver != standard && H5Fget_vfd_handle(id, access, &handle) >= 0) written = handle;
  if (access >= 0) H5Pclose(access);
  H5Eclear2(H5E_DEFAULT);
  if (written) written->users++;
  return written;
}

void annb_written_release(annb_written *written) {
  if (!written || --written->users) return;
  H5Idec_ref(written->driver);
  free(written);
}
