/* Small helpers over HDF5, used by everything in this folder. */
#ifndef ANNB_CONVERT_H5_H
#define ANNB_CONVERT_H5_H

#include <annblock/convert.h>
#include <annblock/format.h>
#include <annblock/status.h>
#include <hdf5.h>
#include <stdbool.h>

/* Silence HDF5's own printing for the time of a public call, and set it back. */
typedef struct annb_h5_quiet {
  H5E_auto2_t function;
  void *data;
} annb_h5_quiet;
annb_h5_quiet annb_h5_quiet_begin(void);
void annb_h5_quiet_end(annb_h5_quiet saved);

/* "<file>: <object>: <text>", followed by " (HDF5: <innermost cause>)" when HDF5's error stack is not empty, which is then cleared.
 * `object` may be NULL. */
annb_status annb_h5_fail(annb_error *err, annb_status status, const char *file, const char *object, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The same without HDF5's part in it: on any thread, while another one uses HDF5. */
annb_status annb_h5_say(annb_error *err, annb_status status, const char *file, const char *object, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* What was in the file cannot be read any more: the same, with the reason. */
annb_status annb_h5_say_cut(annb_error *err, const char *file, const char *object);

/* Open an input for reading, without file locks. ANNB_EIO when it cannot be read, ANNB_EINPUT with the reason when it is not HDF5, cut
 * short, or was not closed by its writer. Makes the filter LZF known. */
annb_status annb_h5_open(const char *path, hid_t *file, annb_error *err);

/* Close any of the handles below when >= 0, and set it to -1. */
void annb_h5_close(hid_t *id);

/* The object at `path` under `parent` exists, through all its links (soft and external ones too). */
bool annb_h5_exists(hid_t parent, const char *path);

/* ANNB_EINPUT when `name` is an external link that leads nowhere: it names the other file. ANNB_OK for everything else. */
annb_status annb_h5_check_external(hid_t parent, const char *file, const char *name, annb_error *err);

/* A string attribute (scalar or of one element; fixed or variable length) in fresh memory, or NULL when there is none or it is no
 * string. ANNB_EINPUT, with the names of the file and of the object in it, when there is one that cannot be read. */
annb_status annb_h5_attr_text(hid_t object, const char *name, const char *file, const char *path, char **out, annb_error *err);
/* The same where nothing depends on the difference: NULL when it cannot be read. */
char *annb_h5_attr_string(hid_t object, const char *name);
/* Up to `max` elements of an integer attribute or of an array of them; returns how many it has, −1 when there is none or it is not
 * integer. */
int annb_h5_attr_u64(hid_t object, const char *name, uint64_t *out, int max);
int annb_h5_attr_i64(hid_t object, const char *name, int64_t *out, int max);

/* The value type of an HDF5 type: integers and IEEE floats of whole bytes, h5py's bool (an enum of one byte). False otherwise. With
 * `memory` not NULL the type to read it with: the same bits, little-endian; to be closed by the caller. */
bool annb_h5_dtype(hid_t type, annb_dtype *dtype, hid_t *memory);
/* Is it an integer of 1, 2, 4 or 8 bytes? */
bool annb_h5_is_integer(hid_t type);

/* Extent of a dataset: rank (−1 on failure; 0 for scalars; `null` is set for a null dataspace) and dimensions (room for 32). */
int annb_h5_extent(hid_t dataset, hsize_t dims[32], bool *null);

/* Bytes that a dataset takes in its file; UINT64_MAX when they are elsewhere (external or virtual). 0: nothing was ever written to it. */
uint64_t annb_h5_stored(hid_t dataset);

/* Asked between the pieces of long work: ANNB_ECANCELED once the user says so. A zeroed one never ends. */
typedef struct annb_going {
  annb_convert_progress_fn progress;
  void *user;
  const char *stage;      /* told to the user */
  const char *file, *what; /* for the message: "<file>: <what> was cancelled" */
} annb_going;
annb_status annb_going_on(const annb_going *going, annb_error *err);

/* Read or write rows [first, first + n) of the first dimension (whole rows of the others), `rank` ≥ 1. */
annb_status annb_h5_read_rows(hid_t dataset, const char *file, const char *object, hid_t memory_type, uint64_t first, uint64_t n, void *out,
                              annb_error *err);
annb_status annb_h5_write_rows(hid_t dataset, const char *file, const char *object, hid_t memory_type, uint64_t first, uint64_t n,
                               const void *data, annb_error *err);

#endif
