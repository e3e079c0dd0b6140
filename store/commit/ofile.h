/* A new file written front to back and never again (mode 0444), buffered, with SHA-256 of all that goes in. Or the same in memory. */
#ifndef ANNB_STORE_OFILE_H
#define ANNB_STORE_OFILE_H

#include "../hash.h"

#include <annblock/status.h>

typedef struct annb_ofile {
  int fd; /* -1: in memory */
  char *path;
  uint64_t offset;           /* bytes given so far */
  uint64_t written, started; /* of them in the file; on their way to the disk */
  annb_sha256 sha;
  uint8_t *buffer;
  size_t used, room;
} annb_ofile;

annb_status annb_ofile_create(const char *path, annb_ofile *out, annb_error *err);
/* In memory: `name` is for messages. */
annb_status annb_ofile_in_memory(const char *name, annb_ofile *out, annb_error *err);
annb_status annb_ofile_write(annb_ofile *file, const void *data, size_t size, annb_error *err);
annb_status annb_ofile_pad(annb_ofile *file, uint64_t alignment, annb_error *err); /* zeros up to the next multiple */
/* Flush, fsync, check the size by fstat, close. The structure is released in any case; the file stays on disk. */
annb_status annb_ofile_finish(annb_ofile *file, uint8_t sha256[ANNB_SHA256_SIZE], annb_error *err);
/* The same of one in memory: its bytes are the caller's, to be freed. */
annb_status annb_ofile_take(annb_ofile *file, uint8_t sha256[ANNB_SHA256_SIZE], uint8_t **bytes, annb_error *err);
/* Close and remove the file. A zeroed structure is allowed. */
void annb_ofile_abort(annb_ofile *file);

#endif
