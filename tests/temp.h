/* Temporary directories and whole files, for tests. */
#ifndef ANNB_TESTS_TEMP_H
#define ANNB_TESTS_TEMP_H

#include "../store/io.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new directory, in fresh memory. */
static inline char *temp_make(void) {
  const char *base = getenv("TMPDIR");
  char *dir = annb_io_join(base && *base ? base : "/tmp", "annblock-test-XXXXXX");
  ck_assert_ptr_nonnull(dir);
  ck_assert_ptr_nonnull(mkdtemp(dir));
  return dir;
}

/* Remove a file, or a directory with all in it. Links are not followed. */
static inline void temp_remove(const char *path) {
  struct stat st;
  char **names;
  size_t n;
  if (lstat(path, &st)) return;
  if (!S_ISDIR(st.st_mode)) {
    ck_assert_int_eq(unlink(path), 0);
    return;
  }
  ck_assert_int_eq(annb_io_list(path, &names, &n, NULL), ANNB_OK);
  for (size_t i = 0; i < n; i++) {
    char *inner = annb_io_join(path, names[i]);
    temp_remove(inner);
    free(inner);
  }
  annb_io_free_names(names, n);
  ck_assert_int_eq(rmdir(path), 0);
}

static inline bool temp_exists(const char *path) {
  struct stat st;
  return lstat(path, &st) == 0;
}

static inline size_t temp_count(const char *dir) {
  char **names;
  size_t n;
  ck_assert_int_eq(annb_io_list(dir, &names, &n, NULL), ANNB_OK);
  annb_io_free_names(names, n);
  return n;
}

static inline uint8_t *temp_read(const char *path, size_t *size) {
  FILE *f = fopen(path, "rb");
  ck_assert_msg(f != NULL, "cannot open %s", path);
  ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
  *size = (size_t)ftell(f);
  rewind(f);
  uint8_t *data = malloc(*size + 1);
  ck_assert_ptr_nonnull(data);
  ck_assert_uint_eq(fread(data, 1, *size, f), *size);
  fclose(f);
  return data;
}

/* Files of a store are read-only. */
static inline void temp_writable(const char *path) { ck_assert_msg(chmod(path, 0600) == 0, "cannot change %s", path); }

static inline void temp_write(const char *path, const void *data, size_t size) {
  if (temp_exists(path)) temp_writable(path);
  FILE *f = fopen(path, "wb");
  ck_assert_msg(f != NULL, "cannot create %s", path);
  ck_assert_uint_eq(fwrite(data, 1, size, f), size);
  ck_assert_int_eq(fclose(f), 0);
}

#endif
