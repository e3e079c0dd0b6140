/* The metadata of one file around the packed matrices of another (SPEC.md, section 6: annotate). */
#ifndef ANNB_CONVERT_GRAFT_H
#define ANNB_CONVERT_GRAFT_H

#include "../source/h5.h"

typedef struct annb_graft {
  const char *sidecar, *restore; /* of the new file, just written: they are changed */
  const char *old_restore;       /* of the part as it is */
  const char *const *matrices;   /* their names: "X", "layers/counts" */
  size_t n_matrices;
} annb_graft;

/* Put the shells of the matrices, and the elements kept behind them, in the place of what the new files have there. ANNB_EUNSUPPORTED for
 * matrices that are links or share arrays with other objects, and for object references between metadata and matrices. */
annb_status annb_graft_shells(const annb_graft *graft, annb_error *err);

#endif
