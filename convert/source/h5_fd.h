/* What the file drivers of this module share: a file descriptor that HDF5 sees as a file. */
#ifndef ANNB_CONVERT_H5_FD_H
#define ANNB_CONVERT_H5_FD_H

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A driver's own struct starts with it. */
typedef struct annb_h5_fd {
  H5FD_t head; /* HDF5's own part */
  int fd;
  haddr_t eoa, eof;
  dev_t device;
  ino_t inode;
} annb_h5_fd;

/* Take the open descriptor. False when the system does not know it; it stays the caller's then. */
bool annb_h5_fd_begin(annb_h5_fd *file, int fd);

/* Bytes of the file; past the end of what is on disk there are zeros. False when reading fails. */
bool annb_h5_fd_read(const annb_h5_fd *file, haddr_t address, size_t size, uint8_t *to);

/* A class that compares files and answers for their ends; the driver adds the rest. `value`: its number where HDF5 wants one, of those
 * from 512 on that are free for anyone's testing. */
H5FD_class_t annb_h5_fd_class(const char *name, int value);

/* Let files that are opened with `access` use the driver; `access` and open files hold it. Negative on failure. */
herr_t annb_h5_fd_use(const H5FD_class_t *driver, hid_t access);

#endif
