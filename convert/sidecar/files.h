/* New HDF5 files. */
#ifndef ANNB_CONVERT_FILES_H
#define ANNB_CONVERT_FILES_H

#include "../source/h5.h"

/* Create `path`, which must not exist. With `like` ≥ 0 its root group keeps order as that of the open file `like`, and it has a user
 * block of the same size. Object headers are of the newest form that HDF5 1.8 reads, so that attributes of any size fit. */
annb_status annb_file_create(const char *path, hid_t like, hid_t *file, annb_error *err);

/* Open such a file again, to change it. */
annb_status annb_file_open(const char *path, hid_t *file, annb_error *err);

/* Has all that was written to the open file (of annb_file_create) so far succeeded? HDF5 itself is not told of failures: see driver.h. */
annb_status annb_file_check(hid_t file, const char *path, annb_error *err);

/* Flush and close, the only way to close such a file; errors of earlier writes show up here. `*file` becomes −1 in any case. */
annb_status annb_file_finish(hid_t *file, const char *path, annb_error *err);

/* Copy the user block of `from` into `to`, both closed or open for reading; nothing to do when there is none. */
annb_status annb_file_user_block(const char *from, const char *to, annb_error *err);

/* Bytes before the HDF5 signature. */
uint64_t annb_file_user_block_size(hid_t file);

/* Attributes of our own. */
annb_status annb_attr_write_text(hid_t object, const char *name, const char *text, const char *file, annb_error *err);
annb_status annb_attr_write_u64(hid_t object, const char *name, const uint64_t *values, int n, const char *file, annb_error *err);

#endif
