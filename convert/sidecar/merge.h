/* Sidecar and restore file put together again, with datasets of packed matrices still to be filled. */
#ifndef ANNB_CONVERT_MERGE_H
#define ANNB_CONVERT_MERGE_H

#include "../source/h5.h"

/* A dataset of the output that has no data yet. */
typedef struct annb_empty {
  haddr_t addr;  /* in the output */
  haddr_t shell; /* in the restore file */
  uint64_t tail; /* elements at its end that are there already */
  char role[16];
  bool filled; /* for the user */
} annb_empty;

typedef struct annb_merged {
  const char *sidecar_name, *restore_name, *out_name;
  hid_t sidecar, restore, out;
  annb_empty *empty;
  size_t n_empty;
} annb_merged;

/* Of the datasets that have no data yet. */
typedef struct annb_merge_filters {
  annb_compression compression;
  int level; /* of gzip, 1 to 9 */
} annb_merge_filters;
/* Create the file `out` from the sidecar and the restore file (NULL: none). The three stay open; close whether it succeeds or not. The
 * names must outlive `merged`. `filters` may be NULL: the source's. `going` may be NULL. */
annb_status annb_merge(const char *sidecar, const char *restore, const char *out, const annb_merge_filters *filters,
                       const annb_going *going, annb_merged *merged, annb_error *err);
/* The dataset at `path` when it has no data yet, else NULL: it is whole, or not there. */
annb_empty *annb_merged_find(const annb_merged *merged, const char *path);
/* Flush and close the output, close the others. */
annb_status annb_merged_finish(annb_merged *merged, annb_error *err);
void annb_merged_close(annb_merged *merged);

#endif
