/* Work in a child process that may use little memory, on files that are not in the page cache; for tests and benchmarks. */
#ifndef ANNB_TESTS_LIMITED_H
#define ANNB_TESTS_LIMITED_H

#include "../store/io.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMITED_PATH = 300, LIMITED_OUT = 8 };

static inline bool limited_write(const char *group, const char *file, uint64_t number) {
  char path[LIMITED_PATH + 64], text[32];
  snprintf(path, sizeof path, "%s/%s", group, file);
  int fd = open(path, O_WRONLY), n = snprintf(text, sizeof text, "%" PRIu64, number);
  bool ok = fd >= 0 && write(fd, text, (size_t)n) == n;
  if (fd >= 0) close(fd);
  return ok;
}

/* A control group with a limit, of version 1 or 2. False: none can be made here (that takes root, and the hierarchy writable). */
static inline bool limited_group(uint64_t bytes, char group[LIMITED_PATH]) {
  static const char *const roots[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}, *const limits[] = {"memory.limit_in_bytes", "memory.max"};
  for (int i = 0; i < 2; i++) {
    snprintf(group, LIMITED_PATH, "%s/annblock-test-%ld", roots[i], (long)getpid());
    if (mkdir(group, 0755)) continue;
    if (limited_write(group, limits[i], bytes)) return true;
    rmdir(group);
  }
  return false;
}

/* Run `work` in a child with `bytes` of memory (0: without a limit). What it puts into `out` and its exit status (128 and more: killed by a
 * signal) come back. False: there can be no limit here. */
static inline bool limited_run(uint64_t bytes, int (*work)(void *user, double *out), void *user, double out[LIMITED_OUT], int *status) {
  char group[LIMITED_PATH];
  if (bytes && !limited_group(bytes, group)) return false;
  int ends[2];
  double got[LIMITED_OUT] = {0};
  if (pipe(ends)) abort();
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    if (bytes && !limited_write(group, "cgroup.procs", (uint64_t)getpid())) _exit(99);
    int code = work(user, got);
    fflush(NULL);
    _exit(write(ends[1], got, sizeof got) == sizeof got ? code : 97);
  }
  int state = 0;
  close(ends[1]);
  bool whole = read(ends[0], got, sizeof got) == sizeof got;
  close(ends[0]);
  while (child > 0 && waitpid(child, &state, 0) < 0) continue;
  *status = child < 0 || (!whole && !state) ? 98 : WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
  memcpy(out, got, sizeof got);
  if (bytes) rmdir(group);
  return true;
}

/* Write out the files of a store's data and drop them from the page cache. */
static inline void limited_drop(const char *store) {
  char *dir = annb_io_join(store, "objects");
  if (!dir) abort();
  annb_io_drop_cached(dir);
  free(dir);
}

/* Bytes that this process has had read from devices; 0 where the system does not tell. */
static inline uint64_t limited_device_bytes(void) {
  char line[128];
  uint64_t n = 0;
  FILE *f = fopen("/proc/self/io", "r");
  while (f && fgets(line, sizeof line, f)) (void)!sscanf(line, "read_bytes: %" SCNu64, &n);
  if (f) fclose(f);
  return n;
}

/* Files there are never dropped: they have no device. */
static inline bool limited_in_memory(const char *path) {
  struct statfs st;
  return !statfs(path, &st) && ((uint32_t)st.f_type == 0x01021994 /* tmpfs */ || (uint32_t)st.f_type == 0x858458F6 /* ramfs */);
}

#endif
