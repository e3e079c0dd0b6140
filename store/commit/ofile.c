#include "ofile.h"

#include "../error.h"
#include "../io.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER = 1 << 18, FLUSH = 1 << 24 /* bytes whose way to the disk begins at once */ };

annb_status annb_ofile_create(const char *path, annb_ofile *out, annb_error *err) {
  memset(out, 0, sizeof *out);
  out->path = strdup(path);
  out->buffer = malloc(BUFFER);
  annb_status s = out->path && out->buffer ? annb_io_create_read_only(path, &out->fd, err) : annb_fail_memory(err);
  if (s) {
    free(out->path);
    free(out->buffer);
    memset(out, 0, sizeof *out);
    return s;
  }
  out->room = BUFFER;
  annb_sha256_init(&out->sha);
  return ANNB_OK;
}

annb_status annb_ofile_in_memory(const char *name, annb_ofile *out, annb_error *err) {
  *out = (annb_ofile){.fd = -1, .path = strdup(name)};
  annb_sha256_init(&out->sha);
  return out->path ? ANNB_OK : annb_fail_memory(err);
}

static annb_status grow(annb_ofile *file, size_t more, annb_error *err) {
  if (more > SIZE_MAX / 4 || file->used > SIZE_MAX / 4) return annb_fail_memory(err);
  size_t room = 2 * (file->used + more);
  uint8_t *buffer = realloc(file->buffer, room);
  if (!buffer) return annb_fail_memory(err);
  file->buffer = buffer;
  file->room = room;
  return ANNB_OK;
}

static annb_status put(annb_ofile *file, const void *data, size_t size, annb_error *err) {
  annb_sha256_update(&file->sha, data, size);
  annb_status s = annb_io_write(file->fd, file->path, data, size, err);
  file->written += size;
  if (s || file->written - file->started < FLUSH) return s;
  annb_io_start_flush(file->fd, file->started);
  file->started = file->written;
  return ANNB_OK;
}

static annb_status flush(annb_ofile *file, annb_error *err) {
  size_t used = file->used;
  file->used = 0;
  return used ? put(file, file->buffer, used, err) : ANNB_OK;
}

annb_status annb_ofile_write(annb_ofile *file, const void *data, size_t size, annb_error *err) {
  file->offset += size;
  if (size > file->room - file->used) {
    annb_status s = file->fd < 0 ? grow(file, size, err) : flush(file, err);
    if (s) return s;
    if (size > file->room) return put(file, data, size, err);
  }
  if (size) memcpy(file->buffer + file->used, data, size);
  file->used += size;
  return ANNB_OK;
}

annb_status annb_ofile_pad(annb_ofile *file, uint64_t alignment, annb_error *err) {
  static const uint8_t zeros[4096];
  uint64_t n = (alignment - file->offset % alignment) % alignment;
  while (n) {
    size_t k = n < sizeof zeros ? (size_t)n : sizeof zeros;
    annb_status s = annb_ofile_write(file, zeros, k, err);
    if (s) return s;
    n -= k;
  }
  return ANNB_OK;
}

static void release(annb_ofile *file) {
  free(file->path);
  free(file->buffer);
  memset(file, 0, sizeof *file);
}

annb_status annb_ofile_finish(annb_ofile *file, uint8_t sha256[ANNB_SHA256_SIZE], annb_error *err) {
  uint64_t size = 0;
  annb_status s = flush(file, err);
  if (!s) s = annb_io_fsync(file->fd, file->path, err);
  if (!s) s = annb_io_fd_size(file->fd, file->path, &size, err);
  if (!s && size != file->offset)
    s = annb_fail(err, ANNB_EIO, file->path, "has %llu bytes on disk after %llu were written", (unsigned long long)size,
                  (unsigned long long)file->offset);
  annb_status closed = annb_io_close(file->fd, file->path, s ? NULL : err);
  if (!s) s = closed;
  annb_sha256_final(&file->sha, sha256);
  release(file);
  return s;
}

annb_status annb_ofile_take(annb_ofile *file, uint8_t sha256[ANNB_SHA256_SIZE], uint8_t **bytes, annb_error *err) {
  *bytes = realloc(file->buffer, file->used ? file->used : 1);
  annb_status s = *bytes ? ANNB_OK : annb_fail_memory(err);
  if (!s) annb_sha256_update(&file->sha, *bytes, file->used);
  if (!s) annb_sha256_final(&file->sha, sha256);
  if (!s) file->buffer = NULL;
  release(file);
  return s;
}

void annb_ofile_abort(annb_ofile *file) {
  if (!file->path) return;
  if (file->fd >= 0) (void)annb_io_close(file->fd, file->path, NULL);
  if (file->fd >= 0) annb_io_unlink(file->path);
  release(file);
}
