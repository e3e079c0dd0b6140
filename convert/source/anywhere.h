/* The values of a dataset of one dimension, read at any position on any thread: those that stand in the file as they are in memory,
 * contiguous or in chunks without filters. */
#ifndef ANNB_CONVERT_ANYWHERE_H
#define ANNB_CONVERT_ANYWHERE_H

#include "values.h"

typedef struct annb_anywhere annb_anywhere;

/* *out is NULL when the values cannot be read so: filters, a type other than `memory_type`, chunks that were never written or whose places
 * take more than `memory`, files that are no plain ones. `v` must outlive it. Uses HDF5. */
annb_status annb_anywhere_open(const annb_values *v, hid_t memory_type, uint64_t memory, annb_anywhere **out, annb_error *err);
void annb_anywhere_close(annb_anywhere *a); /* NULL is allowed */

/* Values [first, first + n), inside the dataset. ANNB_EINPUT when the file was cut short meanwhile. On any thread. */
annb_status annb_anywhere_read(const annb_anywhere *a, uint64_t first, uint64_t n, void *out, annb_error *err);
/* They will be read soon: let the system bring them into memory, if they are not there. On any thread. */
void annb_anywhere_will_need(const annb_anywhere *a, uint64_t first, uint64_t n);

#endif
