#define _GNU_SOURCE
#include "io.h"

#include "error.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { MKDIR_TRIES = 64, LOCK_TRIES = 64 };

static int open_mode(const char *path, int flags, mode_t mode) {
  int fd;
  do fd = open(path, flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

static int open_retry(const char *path, int flags) { return open_mode(path, flags, 0666); }

annb_status annb_io_map(const char *path, annb_map *out, annb_error *err) {
  static const uint8_t nothing[1] = {0};
  int fd;
  struct stat st;
  annb_status s = annb_io_open(path, &fd, err);
  if (s) return s;
  *out = (annb_map){nothing, 0};
  if (fstat(fd, &st)) s = annb_fail_errno(err, path, "examine");
  else if (st.st_size > 0) {
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) s = annb_fail_errno(err, path, "map");
    else *out = (annb_map){p, (uint64_t)st.st_size};
  }
  close(fd);
  return s;
}

void annb_io_unmap(annb_map *map) {
  if (map->size) munmap((void *)(uintptr_t)map->data, map->size);
  *map = (annb_map){NULL, 0};
}

annb_status annb_io_kind(const char *path, annb_path_kind *kind, annb_error *err) {
  struct stat st;
  if (stat(path, &st)) {
    if (errno != ENOENT && errno != ENOTDIR) return annb_fail_errno(err, path, "examine");
    *kind = ANNB_PATH_ABSENT;
  } else {
    *kind = S_ISREG(st.st_mode) ? ANNB_PATH_FILE : S_ISDIR(st.st_mode) ? ANNB_PATH_DIR : ANNB_PATH_OTHER;
  }
  return ANNB_OK;
}

annb_status annb_io_file_size(const char *path, uint64_t *size, annb_error *err) {
  int fd;
  annb_status s = annb_io_open(path, &fd, err);
  if (s) return s;
  s = annb_io_fd_size(fd, path, size, err);
  close(fd);
  return s;
}

bool annb_io_same_file(const char *a, const char *b) {
  struct stat x, y;
  return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

annb_status annb_io_mkdir(const char *path, bool *made, annb_error *err) {
  struct stat st;
  *made = false;
  for (int i = 0; i < MKDIR_TRIES; i++) {
    *made = mkdir(path, 0777) == 0;
    if (*made) return ANNB_OK;
    if (errno != EEXIST) return annb_fail_errno(err, path, "make the directory");
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return ANNB_OK;
    /* a file or a link to nowhere stays one; a directory that another process removes and makes is tried again */
    if (lstat(path, &st) ? errno != ENOENT : !S_ISDIR(st.st_mode)) break;
  }
  return annb_fail(err, ANNB_EEXIST, path, "exists and is not a directory");
}

void annb_io_rmdir(const char *path) { (void)rmdir(path); }

void annb_io_unlink(const char *path) { (void)unlink(path); }

annb_status annb_io_create(const char *path, int *fd, annb_error *err) {
  *fd = open_retry(path, O_RDWR | O_CREAT | O_EXCL);
  return *fd < 0 ? annb_fail_errno(err, path, "create") : ANNB_OK;
}

annb_status annb_io_create_read_only(const char *path, int *fd, annb_error *err) {
  *fd = open_mode(path, O_RDWR | O_CREAT | O_EXCL, 0444);
  return *fd < 0 ? annb_fail_errno(err, path, "create") : ANNB_OK;
}

void annb_io_make_read_only(int fd) {
  struct stat st;
  if (!fstat(fd, &st)) (void)!fchmod(fd, st.st_mode & 0444);
}

/* Not blocking: a pipe would wait for its writer, and no signal could end that. For regular files it makes no difference. */
annb_status annb_io_open(const char *path, int *fd, annb_error *err) {
  struct stat st;
  *fd = open_retry(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (*fd < 0 && errno != ENXIO) return annb_fail_errno(err, path, "open");
  annb_status s = ANNB_OK;
  if (*fd >= 0 && fstat(*fd, &st)) s = annb_fail_errno(err, path, "examine");
  else if (*fd < 0 || !S_ISREG(st.st_mode)) s = annb_fail(err, ANNB_EIO, path, "is not a regular file"); /* ENXIO: a socket */
  if (s && *fd >= 0) close(*fd);
  if (s) *fd = -1;
  return s;
}

annb_status annb_io_anonymous(const char *dir, int *fd, annb_error *err) {
  *fd = open_retry(dir, O_RDWR | O_TMPFILE);
  if (*fd >= 0) return ANNB_OK;
  /* filesystems without O_TMPFILE: a name that is unlinked at once */
  char name[64];
  snprintf(name, sizeof name, "spool-%016llx", (unsigned long long)annb_io_unique());
  char *path = annb_io_join(dir, name);
  if (!path) return annb_fail_memory(err);
  annb_status s = annb_io_create(path, fd, err);
  if (!s) unlink(path);
  free(path);
  return s;
}

annb_status annb_io_write(int fd, const char *path, const void *data, size_t size, annb_error *err) {
  const char *p = data;
  while (size) {
    ssize_t n = write(fd, p, size > (1u << 30) ? (1u << 30) : size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return annb_fail_errno(err, path, "write");
    p += n;
    size -= (size_t)n;
  }
  return ANNB_OK;
}

annb_status annb_io_pread(int fd, const char *path, void *data, size_t size, uint64_t offset, annb_error *err) {
  char *p = data;
  while (size) {
    ssize_t n = pread(fd, p, size > (1u << 30) ? (1u << 30) : size, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return annb_fail_errno(err, path, "read");
    if (n == 0) return annb_fail(err, ANNB_EIO, path, "ends too early: it is shorter than when it was opened");
    p += n;
    offset += (uint64_t)n;
    size -= (size_t)n;
  }
  return ANNB_OK;
}

annb_status annb_io_fd_size(int fd, const char *path, uint64_t *size, annb_error *err) {
  struct stat st;
  if (fstat(fd, &st)) return annb_fail_errno(err, path, "examine");
  *size = (uint64_t)st.st_size;
  return ANNB_OK;
}

void annb_io_start_flush(int fd, uint64_t offset) {
#ifdef SYNC_FILE_RANGE_WRITE
  (void)sync_file_range(fd, (off_t)offset, 0, SYNC_FILE_RANGE_WRITE); /* what fails is told by the flush */
#else
  (void)fd, (void)offset;
#endif
}

annb_status annb_io_fsync(int fd, const char *path, annb_error *err) {
  return fsync(fd) ? annb_fail_errno(err, path, "flush to disk") : ANNB_OK;
}

annb_status annb_io_fsync_dir(const char *path, annb_error *err) {
  int fd = open_retry(path, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return annb_fail_errno(err, path, "open");
  /* some network filesystems cannot flush a directory and say EINVAL: there is nothing more to do there */
  annb_status s = fsync(fd) && errno != EINVAL ? annb_fail_errno(err, path, "flush to disk") : ANNB_OK;
  close(fd);
  return s;
}

annb_status annb_io_close(int fd, const char *path, annb_error *err) {
  return close(fd) && errno != EINTR ? annb_fail_errno(err, path, "close") : ANNB_OK;
}

annb_status annb_io_publish(const char *from, const char *to, annb_error *err) {
  if (link(from, to) == 0) return ANNB_OK;
  if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK) {
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return ANNB_OK;
  }
  return annb_fail_errno(err, to, "publish the file");
}

static bool lock_file(int fd, int how) {
  int r;
  do r = flock(fd, how);
  while (r && errno == EINTR);
  return r == 0;
}

annb_status annb_io_lock_dir(const char *path, int *fd, annb_error *err) {
  *fd = open_retry(path, O_RDONLY | O_DIRECTORY);
  if (*fd < 0) return annb_fail_errno(err, path, "open");
  if (!lock_file(*fd, LOCK_EX)) {
    close(*fd);
    *fd = -1;
  }
  return ANNB_OK;
}

void annb_io_unlock(int fd) {
  if (fd >= 0) close(fd);
}

static bool is_at(int fd, const char *path) {
  struct stat x, y;
  return !fstat(fd, &x) && !lstat(path, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

annb_status annb_io_create_locked(const char *path, int *fd, bool *locked, annb_error *err) {
  for (int i = 0; i < LOCK_TRIES; i++) {
    annb_status s = annb_io_create(path, fd, err);
    if (s) return s;
    *locked = lock_file(*fd, LOCK_EX);
    if (!*locked || is_at(*fd, path)) return ANNB_OK;
    close(*fd); /* before the lock was there another process took the file for a leftover and removed it */
  }
  *fd = -1;
  return annb_fail(err, ANNB_ECONFLICT, path, "is removed by other writers all the time: try again");
}

annb_lock_state annb_io_try_lock(const char *path, int *fd) {
  *fd = open_retry(path, O_RDWR | O_NOFOLLOW); /* network filesystems lock only what is open for writing */
  if (*fd < 0) return errno == ENOENT ? ANNB_LOCK_ABSENT : ANNB_LOCK_REFUSED;
  if (lock_file(*fd, LOCK_EX | LOCK_NB) && is_at(*fd, path)) return ANNB_LOCK_TAKEN;
  close(*fd);
  *fd = -1;
  return ANNB_LOCK_REFUSED;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

annb_status annb_io_list(const char *path, char ***names, size_t *n, annb_error *err) {
  *names = NULL;
  *n = 0;
  DIR *dir = opendir(path);
  if (!dir) return annb_fail_errno(err, path, "list the directory");
  annb_status s = ANNB_OK;
  size_t room = 0;
  for (;;) {
    errno = 0;
    struct dirent *entry = readdir(dir);
    if (!entry) {
      if (errno) s = annb_fail_errno(err, path, "list the directory");
      break;
    }
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (*n == room) {
      char **more = realloc(*names, (room = room ? 2 * room : 64) * sizeof *more);
      if (!more) {
        s = annb_fail_memory(err);
        break;
      }
      *names = more;
    }
    if (!((*names)[*n] = strdup(entry->d_name))) {
      s = annb_fail_memory(err);
      break;
    }
    ++*n;
  }
  closedir(dir);
  if (s) {
    annb_io_free_names(*names, *n);
    *names = NULL;
    *n = 0;
  } else if (*n) {
    qsort(*names, *n, sizeof **names, by_name);
  }
  return s;
}

void annb_io_free_names(char **names, size_t n) {
  for (size_t i = 0; i < n; i++) free(names[i]);
  free(names);
}

void annb_io_drop_cached(const char *dir) {
  char **names;
  size_t n;
  if (annb_io_list(dir, &names, &n, NULL)) return;
  for (size_t i = 0; i < n; i++) {
    char *path = annb_io_join(dir, names[i]);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd >= 0) {
      (void)fsync(fd);
      (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      close(fd);
    }
    free(path);
  }
  annb_io_free_names(names, n);
}

/* ---- reading ahead ---- */

enum { ADVICE = 1 << 17, RESIDENT_PAGES = 256 }; /* the kernel cuts longer advice short */

void annb_io_will_need(const annb_map *map, uint64_t offset, uint64_t length) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = offset + length, at = offset / page * page;
  for (; at < end; at += ADVICE)
    (void)madvise((void *)(uintptr_t)(map->data + at), (size_t)(end - at < ADVICE ? end - at : ADVICE), MADV_WILLNEED);
}

void annb_io_will_need_fd(int fd, uint64_t offset, uint64_t length) {
  for (uint64_t end = offset + length; offset < end; offset += ADVICE)
    (void)posix_fadvise(fd, (off_t)offset, (off_t)(end - offset < ADVICE ? end - offset : ADVICE), POSIX_FADV_WILLNEED);
}

void annb_io_enter(const annb_map *map, uint64_t offset, uint64_t length) {
#ifdef MADV_POPULATE_READ
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = offset / page * page;
  (void)madvise((void *)(uintptr_t)(map->data + at), (size_t)(offset + length - at), MADV_POPULATE_READ);
#else
  (void)map, (void)offset, (void)length;
#endif
}

void annb_io_set_scattered(const annb_map *map, bool scattered) {
  if (map->size) (void)madvise((void *)(uintptr_t)map->data, map->size, scattered ? MADV_RANDOM : MADV_NORMAL);
}

void annb_io_set_scattered_fd(int fd) { (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); }

bool annb_io_resident(const annb_map *map, uint64_t offset, uint64_t length) {
  unsigned char in[RESIDENT_PAGES];
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = offset + length, at = offset / page * page;
  for (uint64_t n; at < end; at += n * page) {
    n = (end - at + page - 1) / page;
    if (n > RESIDENT_PAGES) n = RESIDENT_PAGES;
    if (mincore((void *)(uintptr_t)(map->data + at), (size_t)(n * page), in)) return false;
    for (uint64_t i = 0; i < n; i++)
      if (!(in[i] & 1)) return false;
  }
  return true;
}

uint64_t annb_io_faults(void) {
  struct rusage usage;
  return getrusage(RUSAGE_THREAD, &usage) ? 0 : (uint64_t)usage.ru_majflt;
}

bool annb_io_tells_residency(const char *path) {
  struct stat st;
  return !stat(path, &st) && (geteuid() == 0 || st.st_uid == geteuid());
}

bool annb_io_is_remote(const char *path) {
  static const uint32_t remote[] = {0x6969 /* NFS */, 0x0BD00BD0 /* Lustre */, 0x47504653 /* GPFS */, 0x19830326 /* BeeGFS */,
                                    0xFF534D42 /* CIFS */, 0xFE534D42 /* SMB2 */, 0x517B /* SMB */, 0x65735546 /* FUSE */,
                                    0x00C36400 /* Ceph */, 0x5346414F /* AFS */, 0x01021997 /* 9p */, 0x013111A8 /* IBRIX */};
  struct statfs st;
  if (statfs(path, &st)) return false;
  for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
    if ((uint32_t)st.f_type == remote[i]) return true;
  return false;
}

uint32_t annb_io_processors(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) ? 1 : (uint32_t)CPU_COUNT(&set);
}

uint64_t annb_io_process(void) { return (uint64_t)getpid(); }

/* ---- how much memory there is ---- */

/* The number that the file starts with; UINT64_MAX when it has none, like "max". */
static uint64_t number_in(const char *path) {
  unsigned long long n = ULLONG_MAX;
  FILE *f = fopen(path, "re");
  if (f && fscanf(f, "%llu", &n) != 1) n = ULLONG_MAX;
  if (f) fclose(f);
  return n;
}

/* The least limit of a group and those above it. In a container the group's name may be the host's, of which only the top is there. */
static uint64_t group_limit(const char *root, const char *group, const char *file) {
  char path[4096];
  uint64_t least = UINT64_MAX;
  for (size_t n = strcspn(group, "\n");; n--) {
    if (n && group[n] != '/' && group[n] != '\n' && group[n] != '\0') continue;
    int length = snprintf(path, sizeof path, "%s%.*s/%s", root, (int)n, group, file);
    uint64_t limit = length > 0 && (size_t)length < sizeof path ? number_in(path) : UINT64_MAX;
    if (limit < least) least = limit;
    if (!n) return least;
  }
}

uint64_t annb_io_memory_limit(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t least = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX, limit;
  char line[4096];
  FILE *f = fopen("/proc/self/cgroup", "re"); /* lines of number:controllers:group; without controllers: the unified hierarchy's */
  while (f && fgets(line, sizeof line, f)) {
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *group++ = 0;
    if (!controllers[1]) limit = group_limit("/sys/fs/cgroup", group, "memory.max");
    else if (strcmp(controllers, ":memory")) continue;
    else limit = group_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
    if (limit < least) least = limit;
  }
  if (f) fclose(f);
  return least;
}

void annb_io_want_large_pages(void *memory, size_t size) {
#ifdef MADV_HUGEPAGE
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)memory + page - 1) / page * page, end = (uintptr_t)memory + size;
  if (begin < end) (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#else
  (void)memory, (void)size;
#endif
}

uint64_t annb_io_unique(void) {
  uint64_t x;
  if (getrandom(&x, sizeof x, 0) == (ssize_t)sizeof x) return x;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return ((uint64_t)getpid() << 40) ^ ((uint64_t)t.tv_sec << 30) ^ (uint64_t)t.tv_nsec;
}

char *annb_io_join(const char *dir, const char *name) {
  size_t a = strlen(dir), b = strlen(name);
  char *path = malloc(a + b + 2);
  if (!path) return NULL;
  memcpy(path, dir, a);
  path[a] = '/';
  memcpy(path + a + 1, name, b + 1);
  return path;
}
