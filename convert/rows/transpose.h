/* Out-of-core transposition in bounded memory: elements are pushed in the order of one axis and come out grouped by the other,
 * in the order they were pushed within each group (stable). Sorted runs in anonymous temporary files, merged at the end. */
#ifndef ANNB_CONVERT_TRANSPOSE_H
#define ANNB_CONVERT_TRANSPOSE_H

#include <annblock/status.h>
#include <stdint.h>

typedef struct annb_transpose annb_transpose;

/* `value_size` bytes per value; `memory` caps all buffers; runs go to the directory `spool_dir`. */
annb_status annb_transpose_open(uint32_t value_size, uint64_t memory, const char *spool_dir, annb_transpose **out, annb_error *err);

/* Push n elements: keys (the axis to group by) and payloads (the other axis' number), values. */
annb_status annb_transpose_push(annb_transpose *t, uint64_t n, const uint32_t *keys, const uint32_t *payloads, const void *values, annb_error *err);

/* After the last push: for key = 0, 1, 2 … in turn, all its elements. *n is their number; payloads and values are valid until
 * the next call. ANNB_ENOMEM when one group does not fit twice the memory cap. */
annb_status annb_transpose_next(annb_transpose *t, uint32_t key, uint64_t *n, const uint32_t **payloads, const void **values, annb_error *err);

void annb_transpose_close(annb_transpose *t); /* NULL is allowed; removes the runs */

#endif
