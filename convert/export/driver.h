/* An HDF5 file driver for the files written here. HDF5 1.10 can crash when a write fails, at once, when the file is closed or at the end of
 * the process. So this driver keeps the first failed write to itself, drops all later ones and lets HDF5 go on; the writer asks. */
#ifndef ANNB_CONVERT_DRIVER_H
#define ANNB_CONVERT_DRIVER_H

#include "../source/h5.h"

#include <stdatomic.h>

/* What became of writing; shared by the open file and whoever asks. */
typedef struct annb_written {
  int users;
  int fd;       /* of the open file */
  hid_t driver; /* held, since HDF5 1.10 lets go of it before it calls its close */
  int error; /* errno of the first failed write, or 0; ECANCELED when `going` said so */
  const annb_going *going; /* asked while one call of HDF5 copies much raw data, else NULL */
  size_t unasked;          /* bytes written since it was asked */
  atomic_size_t unflushed; /* bytes written since the kernel was last asked to write them to the disk */
} annb_written;

/* Let files that are created with `access` use the driver. Negative on failure. */
herr_t annb_driver_set(hid_t access);

/* Of an open file that was created so, to be released; NULL when it was not. Stays valid when the file is closed. */
annb_written *annb_driver_written(hid_t file);
void annb_written_release(annb_written *written);

/* So many more bytes are in the file: now and then the kernel is asked to start writing them to the disk, or all of it would wait for the
 * flush at the end. Any thread. */
void annb_written_more(annb_written *written, size_t size);

#endif
