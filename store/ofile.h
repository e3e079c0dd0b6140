/* A new file written front to back and never again (mode 0444), buffered, with SHA-256 of everything that goes in. */
#ifndef ANNB_STORE_OFILE_H
#define ANNB_STORE_OFILE_H

#include "hash.h"

#include <annblock/status.h>

typedef struct annb_ofile {
  int fd;
  char *path;
  uint64_t offset; /* bytes given so far */
  annb_sha256 sha;
  uint8_t *buffer;
  size_t used;
} annb_ofile;

annb_status annb_ofile_create(const char *path, annb_ofile *out, annb_error *err);
annb_status annb_ofile_write(annb_ofile *file, const void *data, size_t size, annb_error *err);
annb_status annb_ofile_pad(annb_ofile *file, uint64_t alignment, annb_error *err); /* zeros up to the next multiple */
/* Flush, fsync, check the size by fstat, close. The structure is released in any case; the file stays on disk. */
annb_status annb_ofile_finish(annb_ofile *file, uint8_t sha256[ANNB_SHA256_SIZE], annb_error *err);
/* Close and remove the file. A zeroed structure is allowed. */
void annb_ofile_abort(annb_ofile *file);

#endif
