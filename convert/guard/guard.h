/* HDF5 may crash, or never come back, on a damaged file. So what reads one runs in a child process; its callbacks, result and error come
 * back to the caller, and its death is an error like any other. */
#ifndef ANNB_CONVERT_GUARD_H
#define ANNB_CONVERT_GUARD_H

#include <annblock/convert.h>

typedef struct annb_guard annb_guard; /* what both processes see */

/* Runs in the child. It uses the callbacks below with `guard` as their user, and puts its result at `result`. */
typedef annb_status (*annb_guarded_fn)(void *arg, annb_guard *guard, void *result, annb_error *err);

typedef struct annb_guarded {
  annb_guarded_fn work;
  void *arg;
  void *result; /* plain bytes, without pointers; the child sees what is there before; NULL when `result_size` is 0 */
  size_t result_size;
  const char *const *files; /* that HDF5 reads: for messages */
  size_t n_files;
  annb_convert_progress_fn progress; /* the caller's callbacks; each may be NULL */
  annb_convert_note_fn note;
  annb_difference_fn difference;
  void *user;
  void (*clean)(void *arg); /* remove what a child that died left behind; may be NULL */
} annb_guarded;

/* ANNB_EINPUT, with the file and the object that HDF5 cannot read where that is found out, when the child crashed or did not come back;
 * ANNB_ECANCELED when it did not heed the cancelling; ANNB_EIO when it was killed or could not be started. */
annb_status annb_guard_run(const annb_guarded *what, annb_error *err);

/* In the child, with a guard as `user`: handed to the caller's callbacks, which answer. Also a sign of life. */
bool annb_guard_progress(void *user, const char *stage, uint64_t done, uint64_t total);
void annb_guard_note(void *user, const char *note);
bool annb_guard_difference(void *user, const char *path, const char *what);

#endif
