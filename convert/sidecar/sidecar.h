/* Sidecar and restore file (SPEC.md, section 6): what a source file holds beside its packed matrices. */
#ifndef ANNB_CONVERT_SIDECAR_H
#define ANNB_CONVERT_SIDECAR_H

#include "../source/h5.h"

/* A matrix that goes to segments. */
typedef struct annb_packed {
  const char *path;   /* absolute, without soft links at its end: "/X" */
  uint64_t nnz;       /* elements that the segments hold: the last row pointer; sparse only */
  bool keep_indices;  /* CSC that does not ascend in each column: `indices` stays whole in the restore file */
  bool keep_indptr;   /* `indptr` stays whole: it is not of an integer type */
} annb_packed;

/* Write both files for the open source `file` (called `input` in messages). Both paths must not exist yet; on failure they may be left
 * behind for the caller to remove. ANNB_EINPUT, ANNB_EUNSUPPORTED, ANNB_EIO name the object. `going` may be NULL. */
annb_status annb_sidecar_write(hid_t file, const char *input, const annb_packed *packed, size_t n_packed, const char *sidecar_path,
                               const char *restore_path, const annb_going *going, annb_error *err);

#endif
