#include "newer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PREFIX = 64, CHECKSUM = 4, MAX_HEADER = 1 << 20 };
enum { LAYOUT = 8, FILTERS = 11, CONTINUATION = 16 }; /* types of messages */
enum { COMPACT = 0, CONTIGUOUS = 1, CHUNKED = 2 };
enum { SINGLE_CHUNK = 1, IMPLICIT = 2 };

/* ---- checksum ---- */

static uint32_t turn(uint32_t x, int k) { return x << k | x >> (32 - k); }

static void mix(uint32_t v[3]) {
  static const int turns[6] = {4, 6, 8, 16, 19, 4};
  for (int i = 0; i < 6; i++) {
    uint32_t *a = &v[i % 3], *b = &v[(i + 1) % 3], *c = &v[(i + 2) % 3];
    *a = (*a - *c) ^ turn(*c, turns[i]);
    *c += *b;
  }
}

static uint32_t finish(uint32_t v[3]) {
  static const int turns[7] = {14, 11, 25, 16, 4, 14, 24};
  for (int i = 0; i < 7; i++) { /* c by b, a by c, b by a, … */
    uint32_t *x = &v[(i + 2) % 3], *y = &v[(i + 1) % 3];
    *x = (*x ^ *y) - turn(*y, turns[i]);
  }
  return v[2];
}

uint32_t annb_newer_checksum(const uint8_t *bytes, size_t n) {
  uint32_t start = UINT32_C(0xdeadbeef) + (uint32_t)n, v[3] = {start, start, start};
  for (size_t i = 0; i < n; i++) {
    if (i && i % 12 == 0) mix(v);
    v[i % 12 / 4] += (uint32_t)bytes[i] << 8 * (i % 4);
  }
  return n ? finish(v) : v[2];
}

/* ---- object headers ---- */

static uint64_t little(const uint8_t *p, size_t n) {
  uint64_t x = 0;
  for (size_t i = 0; i < n; i++) x |= (uint64_t)p[i] << 8 * i;
  return x;
}

/* Where its messages start, and how many bytes they are; 0 when it is none. */
static size_t messages(const uint8_t *header, size_t n, uint64_t *size) {
  if (n < 8 || memcmp(header, "OHDR", 4) || header[4] != 2) return 0;
  uint8_t flags = header[5];
  size_t at = 6 + (flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0), width = (size_t)1 << (flags & 3);
  if (n < at + width) return 0;
  *size = little(header + at, width);
  return at + width;
}

uint64_t annb_newer_size(const uint8_t *header, size_t n) {
  uint64_t size = 0;
  size_t at = messages(header, n, &size);
  return at && size <= MAX_HEADER ? at + size + CHECKSUM : 0;
}

/* HDF5 1.x keeps dimensions and size of a chunk in 32 bits. */
static bool small_chunk(const uint8_t *dims, size_t n, size_t width) {
  uint64_t bytes = 1;
  for (size_t i = 0; i < n && width <= 4; i++) {
    uint64_t dim = little(dims + i * width, width);
    if (!dim || bytes > UINT32_MAX / dim) return false;
    bytes *= dim;
  }
  return width > 0 && width <= 4;
}

/* The message reads the same as version 4. Its index follows the flags, the number of dimensions, their width, and they themselves. */
static bool reads_the_same(const uint8_t *layout, size_t n, bool may_filter) {
  if (n < 2 || layout[0] != 5) return false;
  if (layout[1] == COMPACT || layout[1] == CONTIGUOUS) return true;
  if (layout[1] != CHUNKED || n < 5) return false;
  size_t at = 5 + (size_t)layout[3] * layout[4];
  if (at >= n || !small_chunk(layout + 5, layout[3], layout[4])) return false;
  return layout[at] == SINGLE_CHUNK || layout[at] == IMPLICIT || !may_filter;
}

bool annb_newer_change(uint8_t *header, size_t n) {
  uint64_t size = 0;
  size_t at = messages(header, n, &size), layout = 0, length = 0;
  bool may_filter = false;
  if (!at || n < at + CHECKSUM || size != n - CHECKSUM - at) return false;
  size_t head = header[5] & 4 ? 6 : 4; /* of a message: type, size, flags, with order of creation */
  if (annb_newer_checksum(header, n - CHECKSUM) != little(header + n - CHECKSUM, CHECKSUM)) return false;
  for (size_t end = n - CHECKSUM; end - at >= head;) {
    size_t bytes = little(header + at + 1, 2);
    if (bytes > end - at - head) return false;
    may_filter = may_filter || header[at] == FILTERS || header[at] == CONTINUATION; /* of what continues elsewhere nothing is known */
    if (header[at] == LAYOUT) {
      if (layout || header[at + 3] & 2) return false; /* a second one, or one that is shared */
      layout = at + head;
      length = bytes;
    }
    at += head + bytes;
  }
  if (!layout || !reads_the_same(header + layout, length, may_filter)) return false;
  header[layout] = 4;
  uint32_t sum = annb_newer_checksum(header, n - CHECKSUM);
  for (int i = 0; i < CHECKSUM; i++) header[n - CHECKSUM + (size_t)i] = (uint8_t)(sum >> 8 * i);
  return true;
}

/* ---- the driver: reading only ---- */

typedef struct file {
  H5FD_t head; /* HDF5's own part */
  int fd;
  haddr_t eoa, eof;
  dev_t device;
  ino_t inode;
  haddr_t changed_at; /* the header that was read last, where it was changed */
  uint8_t *changed;
  size_t n_changed;
} file;

static H5FD_t *driver_open(const char *name, unsigned flags, hid_t access, haddr_t most) {
  struct stat st;
  (void)access;
  (void)most;
  if (flags & (H5F_ACC_RDWR | H5F_ACC_CREAT | H5F_ACC_TRUNC)) return NULL;
  int fd = open(name, O_RDONLY | O_CLOEXEC);
  file *f = fd < 0 || fstat(fd, &st) ? NULL : calloc(1, sizeof *f);
  if (!f) {
    if (fd >= 0) close(fd);
    return NULL;
  }
  f->fd = fd;
  f->eof = (haddr_t)st.st_size;
  f->device = st.st_dev;
  f->inode = st.st_ino;
  return &f->head;
}

static herr_t driver_close(H5FD_t *head) {
  file *f = (file *)head;
  close(f->fd);
  free(f->changed);
  free(f);
  return 0;
}

static int driver_compare(const H5FD_t *a, const H5FD_t *b) {
  const file *x = (const file *)a, *y = (const file *)b;
  if (x->device != y->device) return x->device < y->device ? -1 : 1;
  return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* Nothing that lets HDF5 gather metadata: a header is then read from its start. */
static herr_t driver_query(const H5FD_t *head, unsigned long *flags) {
  (void)head;
  *flags = H5FD_FEAT_DATA_SIEVE;
  return 0;
}

static haddr_t driver_eoa(const H5FD_t *head, H5FD_mem_t type) {
  (void)type;
  return ((const file *)head)->eoa;
}

static herr_t driver_set_eoa(H5FD_t *head, H5FD_mem_t type, haddr_t address) {
  (void)type;
  ((file *)head)->eoa = address;
  return 0;
}

static haddr_t driver_eof(const H5FD_t *head, H5FD_mem_t type) {
  (void)type;
  return ((const file *)head)->eof;
}

/* Past the end of what is on disk there are zeros. */
static bool read_all(const file *f, haddr_t address, size_t size, uint8_t *to) {
  while (size) {
    ssize_t n = pread(f->fd, to, size, (off_t)address);
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

/* HDF5 reads a header from `address` on, all of it or a first piece. */
static void look_at(file *f, haddr_t address) {
  uint8_t prefix[PREFIX];
  free(f->changed);
  f->changed = NULL;
  uint64_t size = read_all(f, address, PREFIX, prefix) ? annb_newer_size(prefix, PREFIX) : 0;
  if (!size || address > f->eof || size > f->eof - address) return;
  uint8_t *whole = malloc(size);
  if (whole && read_all(f, address, size, whole) && annb_newer_change(whole, size)) {
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
  if (!read_all(f, address, size, buffer)) return -1;
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
#if H5_VERS_MAJOR >= 2
  (void)access;
  return 0;
#else
  const H5FD_class_t driver = {
#if H5_VERSION_GE(1, 13, 0)
      .version = H5FD_CLASS_VERSION,
      .value = 601, /* of the numbers that are free for anyone's testing */
#endif
      .name = "annblock-newer",
      .maxaddr = INT64_MAX,
      .fc_degree = H5F_CLOSE_WEAK,
      .open = driver_open,
      .close = driver_close,
      .cmp = driver_compare,
      .query = driver_query,
      .get_eoa = driver_eoa,
      .set_eoa = driver_set_eoa,
      .get_eof = driver_eof,
      .read = driver_read,
      .write = driver_write,
      .fl_map = H5FD_FLMAP_DICHOTOMY};
  hid_t id = H5FDregister(&driver);
  if (id < 0) return -1;
  herr_t r = H5Pset_driver(access, id, NULL);
  H5FDunregister(id); /* `access` and open files hold it */
  return r;
#endif
}
