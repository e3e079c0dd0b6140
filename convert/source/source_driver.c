#include "source_driver.h"

#include "h5_fd.h"
#include "newer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PREFIX = 64, HEAP_HEADER = 16, OBJECT_HEADER = 16, LEAST_HEAP = 4096 };
#define MOST_HEAP (UINT64_C(1) << 32)

static const char mark[8] = "annblock";

typedef struct handle {
  char mark[8]; /* tells it from those of other drivers */
  int fd;
  bool locating; /* raw data is not read, but noted */
  unsigned n_located;
  haddr_t located;
  size_t located_size;
} handle;

typedef struct file {
  annb_h5_fd at;
  handle handle;
  bool newer;
  haddr_t changed_at; /* the header that was read last, where it was changed */
  uint8_t *changed;
  size_t n_changed;
} file;

/* ---- global heaps ---- */

static uint64_t little(const uint8_t *p, size_t n) {
  uint64_t x = 0;
  for (size_t i = 0; i < n; i++) x |= (uint64_t)p[i] << 8 * i;
  return x;
}

/* An object has its number, which is 0 for the free space, and its size, which for the free space counts its header too. */
bool annb_heap_is_sound(const uint8_t *collection, size_t size) {
  for (size_t at = HEAP_HEADER; at + OBJECT_HEADER <= size;) {
    const uint64_t number = little(collection + at, 2), bytes = little(collection + at + 8, 8);
    const uint64_t least = number ? 0 : OBJECT_HEADER, room = size - at - (number ? OBJECT_HEADER : 0);
    if (bytes < least || bytes > room) return false;
    at += number ? OBJECT_HEADER + ((size_t)bytes + 7) / 8 * 8 : (size_t)bytes;
  }
  return true;
}

/* HDF5 reads the least size of a collection first. What only looks like one is raw data, and is left alone. */
static bool refuses_heap(const file *f, haddr_t address, const uint8_t *start, size_t n) {
  static const uint8_t signature[8] = {'G', 'C', 'O', 'L', 1};
  if (n != LEAST_HEAP || memcmp(start, signature, sizeof signature)) return false;
  uint64_t size = little(start + 8, 8);
  if (size < LEAST_HEAP || size > MOST_HEAP || address > f->at.eof || size > f->at.eof - address) return true;
  if (size == n) return !annb_heap_is_sound(start, n);
  uint8_t *whole = malloc(size);
  bool sound = whole && annb_h5_fd_read(&f->at, address, size, whole) && annb_heap_is_sound(whole, size);
  free(whole);
  return !sound;
}

/* ---- the driver ---- */

static H5FD_t *open_file(const char *name, unsigned flags, bool newer) {
  if (flags & (H5F_ACC_RDWR | H5F_ACC_CREAT | H5F_ACC_TRUNC)) return NULL;
  int fd = open(name, O_RDONLY | O_CLOEXEC);
  file *f = fd < 0 ? NULL : calloc(1, sizeof *f);
  if (!f || !annb_h5_fd_begin(&f->at, fd)) {
    if (fd >= 0) close(fd);
    free(f);
    return NULL;
  }
  memcpy(f->handle.mark, mark, sizeof mark);
  f->handle.fd = fd;
  f->newer = newer;
  return &f->at.head;
}

static H5FD_t *open_older(const char *name, unsigned flags, hid_t access, haddr_t most) {
  (void)access, (void)most;
  return open_file(name, flags, false);
}

static H5FD_t *open_newer(const char *name, unsigned flags, hid_t access, haddr_t most) {
  (void)access, (void)most;
  return open_file(name, flags, true);
}

static herr_t driver_close(H5FD_t *head) {
  file *f = (file *)head;
  close(f->at.fd);
  free(f->changed);
  free(f);
  return 0;
}

static herr_t query_older(const H5FD_t *head, unsigned long *flags) {
  (void)head;
  *flags = H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

/* Nothing that lets HDF5 gather metadata: a header is then read from its start. */
static herr_t query_newer(const H5FD_t *head, unsigned long *flags) {
  (void)head;
  *flags = H5FD_FEAT_DATA_SIEVE;
  return 0;
}

static herr_t get_handle(H5FD_t *head, hid_t access, void **out) {
  (void)access;
  *out = &((file *)head)->handle;
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
  if (f->handle.locating && type == H5FD_MEM_DRAW) {
    f->handle.n_located++;
    f->handle.located = address;
    f->handle.located_size = size;
    return 0;
  }
  if (!annb_h5_fd_read(&f->at, address, size, buffer)) return -1;
  if (refuses_heap(f, address, buffer, size)) return -1;
  if (!f->newer || type != H5FD_MEM_OHDR) return 0;
  if (size >= 4 && !memcmp(buffer, "OHDR", 4)) look_at(f, address);
  put_changed(f, address, size, buffer);
  return 0;
}

static herr_t driver_write(H5FD_t *head, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t size, const void *buffer) {
  (void)head, (void)type, (void)transfer, (void)address, (void)size, (void)buffer;
  return -1;
}

herr_t annb_source_driver_set(hid_t access, bool newer) {
  newer = newer && H5_VERS_MAJOR < 2;
  H5FD_class_t driver = annb_h5_fd_class(newer ? "annblock-newer" : "annblock-source", newer ? 601 : 602);
  driver.open = newer ? open_newer : open_older;
  driver.query = newer ? query_newer : query_older;
  driver.close = driver_close;
  driver.read = driver_read;
  driver.write = driver_write;
  driver.get_handle = get_handle;
  return annb_h5_fd_use(&driver, access);
}

/* HDF5's descriptor of the file, or what this driver has instead; NULL: neither. */
static void *find_handle(hid_t id, bool *standard) {
  void *found = NULL;
  hid_t access = H5Fget_access_plist(id), driver = access < 0 ? -1 : H5Pget_driver(access), sec2 = H5FD_SEC2;
  bool known = driver >= 0 && H5Fget_vfd_handle(id, access, &found) >= 0 && found;
  if (access >= 0) H5Pclose(access);
  H5Eclear2(H5E_DEFAULT);
  *standard = known && driver == sec2;
  return known && (*standard || !memcmp(found, mark, sizeof mark)) ? found : NULL;
}

int annb_source_driver_fd(hid_t id) {
  bool standard;
  const void *found = find_handle(id, &standard);
  return !found ? -1 : standard ? *(const int *)found : ((const handle *)found)->fd;
}

bool annb_source_driver_locate(hid_t id, hid_t dataset, uint64_t rows, size_t size, void *chunk, uint64_t n, uint64_t *addresses) {
  bool standard, ok;
  handle *h = find_handle(id, &standard);
  if (!h || standard) return false;
  h->locating = ok = true;
  for (uint64_t i = 0; i < n && ok; i++) {
    const hsize_t at = i * rows;
    uint32_t skipped = 0;
    h->n_located = 0;
    ok = H5Dread_chunk(dataset, H5P_DEFAULT, &at, &skipped, chunk) >= 0 && h->n_located == 1 && h->located_size == size;
    addresses[i] = h->located;
  }
  h->locating = false;
  H5Eclear2(H5E_DEFAULT);
  return ok;
}
