/* Status codes and error details.
 *
 * Every function that can fail returns an annb_status (0 = success, negative = failure) and takes a caller-owned
 * annb_error last, which may be NULL. On failure the error is filled; on success it is left untouched. */
#ifndef ANNBLOCK_STATUS_H
#define ANNBLOCK_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* code, number, one-line meaning. Numbers never change once released. */
#define ANNB_STATUS_LIST(X)                                                                                            \
  X(ANNB_OK, 0, "success")                                                                                             \
  X(ANNB_EIO, -1, "input/output error")                                                                                \
  X(ANNB_ENOMEM, -2, "out of memory")                                                                                  \
  X(ANNB_EINVAL, -3, "invalid argument")                                                                               \
  X(ANNB_ENOTSTORE, -4, "not an annblock store")                                                                       \
  X(ANNB_EVERSION, -5, "made for another version of the format")                                                       \
  X(ANNB_EUNSUPPORTED, -6, "feature not supported")                                                                    \
  X(ANNB_ECORRUPT, -7, "corrupt data")                                                                                 \
  X(ANNB_EEXIST, -8, "already exists")                                                                                 \
  X(ANNB_ECONFLICT, -9, "another writer committed first")                                                              \
  X(ANNB_ERANGE, -10, "index out of range")                                                                            \
  X(ANNB_ELOSSY, -11, "conversion would lose information")                                                             \
  X(ANNB_ECAPACITY, -12, "output buffer too small")                                                                    \
  X(ANNB_EINPUT, -13, "bad input file")                                                                                \
  X(ANNB_ENOTFOUND, -14, "not found")                                                                                  \
  X(ANNB_ECANCELED, -15, "cancelled")

typedef enum annb_status {
#define ANNB_STATUS_ENUM(name, number, text) name = number,
  ANNB_STATUS_LIST(ANNB_STATUS_ENUM)
#undef ANNB_STATUS_ENUM
} annb_status;

#define ANNB_NO_ROW (-1)

/* Details of one failure. `message` is a complete sentence for a person: what is wrong and, where that helps, what to do;
 * it names the file and the object or row itself. The other fields carry the same facts for programs. */
typedef struct annb_error {
  annb_status status;
  int system_errno;   /* errno behind it, or 0 */
  int64_t row;        /* row it concerns, or ANNB_NO_ROW */
  char path[1024];    /* file it concerns, or "" (cut if longer) */
  char message[2048]; /* never empty after a failure */
} annb_error;

/* The name ("ANNB_ECORRUPT") and the one-line meaning of a status; never NULL. */
const char *annb_status_name(annb_status status);
const char *annb_status_text(annb_status status);

#ifdef __cplusplus
}
#endif
#endif
