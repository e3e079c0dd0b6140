/* Every system call of the store and reader is here. */
#ifndef ANNB_STORE_IO_H
#define ANNB_STORE_IO_H

#include <annblock/status.h>
#include <stdbool.h>
#include <stddef.h>

/* A file mapped read-only, or an empty one (data not NULL, size 0). */
typedef struct annb_map {
  const uint8_t *data;
  uint64_t size;
} annb_map;

annb_status annb_io_map(const char *path, annb_map *out, annb_error *err);
void annb_io_unmap(annb_map *map); /* a zeroed map is allowed */

typedef enum annb_path_kind { ANNB_PATH_ABSENT, ANNB_PATH_FILE, ANNB_PATH_DIR, ANNB_PATH_OTHER } annb_path_kind;
annb_status annb_io_kind(const char *path, annb_path_kind *kind, annb_error *err);
annb_status annb_io_file_size(const char *path, uint64_t *size, annb_error *err);
bool annb_io_same_file(const char *a, const char *b); /* two names of one file; false when one of them cannot be examined */

annb_status annb_io_mkdir(const char *path, bool *made, annb_error *err); /* existing directory: *made = false, ANNB_OK */
void annb_io_rmdir(const char *path);  /* only when empty; failures are ignored: it cleans up after an error */
void annb_io_unlink(const char *path); /* likewise */

annb_status annb_io_create(const char *path, int *fd, annb_error *err); /* O_CREAT | O_EXCL, read and write */
/* The same for this descriptor; nobody may write it later. */
annb_status annb_io_create_read_only(const char *path, int *fd, annb_error *err);
void annb_io_make_read_only(int fd); /* failures are ignored: some filesystems have no such bits */
annb_status annb_io_open(const char *path, int *fd, annb_error *err); /* read-only; regular files alone, and never waits */
annb_status annb_io_anonymous(const char *dir, int *fd, annb_error *err); /* a nameless temporary file in `dir` */
annb_status annb_io_write(int fd, const char *path, const void *data, size_t size, annb_error *err);
annb_status annb_io_pread(int fd, const char *path, void *data, size_t size, uint64_t offset, annb_error *err); /* all or ANNB_EIO */
annb_status annb_io_fd_size(int fd, const char *path, uint64_t *size, annb_error *err);
/* Ask the kernel to begin writing what the file has from `offset` on to the disk, where it can: flushing has less to wait for then. */
void annb_io_start_flush(int fd, uint64_t offset);
annb_status annb_io_fsync(int fd, const char *path, annb_error *err);
annb_status annb_io_fsync_dir(const char *path, annb_error *err);
annb_status annb_io_close(int fd, const char *path, annb_error *err);

/* Give the complete file `from` the name `to`, which must not exist: ANNB_EEXIST otherwise. link(), or renameat2(RENAME_NOREPLACE)
 * where hard links are missing. `from` may or may not remain. */
annb_status annb_io_publish(const char *from, const char *to, annb_error *err);

/* Advisory lock on a directory until annb_io_unlock; *fd = -1 where locks are missing, which is no error. */
annb_status annb_io_lock_dir(const char *path, int *fd, annb_error *err);
void annb_io_unlock(int fd);

/* Create the file `path` and hold an advisory lock on it until annb_io_unlock. *locked = false where locks are missing: the file is
 * there without one. system_errno ENOENT: its directory is gone. */
annb_status annb_io_create_locked(const char *path, int *fd, bool *locked, annb_error *err);
/* Lock the file that has the name `path` now, without waiting. REFUSED: somebody holds it, or it cannot be locked. */
typedef enum annb_lock_state { ANNB_LOCK_TAKEN, ANNB_LOCK_ABSENT, ANNB_LOCK_REFUSED } annb_lock_state;
annb_lock_state annb_io_try_lock(const char *path, int *fd);

/* Names in a directory without "." and "..", sorted bytewise. Free with annb_io_free_names. */
annb_status annb_io_list(const char *path, char ***names, size_t *n, annb_error *err);
void annb_io_free_names(char **names, size_t n);
/* Write out the files in a directory and drop them from the page cache, to measure reading from the device. Failures are ignored. */
void annb_io_drop_cached(const char *dir);

/* Reading ahead in a map. `offset` and `length` in bytes, inside the map; failures are ignored. Residency is that of each page. */
void annb_io_will_need(const annb_map *map, uint64_t offset, uint64_t length);
void annb_io_will_need_fd(int fd, uint64_t offset, uint64_t length); /* likewise, of what will be read by annb_io_pread */
/* Pages that are resident into the page table, so that touching them is no fault. */
void annb_io_enter(const annb_map *map, uint64_t offset, uint64_t length);
/* Scattered: a page that is touched brings no others with it, and pages are dropped in the order in which they came, used or not. */
void annb_io_set_scattered(const annb_map *map, bool scattered);
void annb_io_set_scattered_fd(int fd); /* likewise, of what is read by annb_io_pread */
bool annb_io_resident(const annb_map *map, uint64_t offset, uint64_t length);
/* How often this thread has waited for a page that nobody had asked for; 0 where the system does not tell. */
uint64_t annb_io_faults(void);
/* Whether residency is told the truth of files like this one: the kernel tells it to owners only. */
bool annb_io_tells_residency(const char *path);
/* Whether the file or directory is on a network or user-space filesystem, where page faults are slow. */
bool annb_io_is_remote(const char *path);
uint32_t annb_io_processors(void); /* that this process may use, 1 when that is not known */
uint64_t annb_io_process(void); /* number of this process */
/* Bytes that this process may use: the machine's memory, or less where its control groups allow less. */
uint64_t annb_io_memory_limit(void);

/* Memory that will be written here and there: fewer and larger pages for what of it makes whole ones. Failures are ignored. */
void annb_io_want_large_pages(void *memory, size_t size);

/* 64 bits that differ between processes and calls, for names of temporary files. */
uint64_t annb_io_unique(void);

/* "a/b" in fresh memory, or NULL. */
char *annb_io_join(const char *dir, const char *name);

#endif
