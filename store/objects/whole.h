/* Values as whole numbers, exactly. */
#ifndef ANNB_STORE_WHOLE_H
#define ANNB_STORE_WHOLE_H

#include <annblock/format.h>
#include <stdbool.h>

#define ANNB_WHOLE_MAX (INT64_C(1) << 62) /* numbers beyond ± this are not taken */

/* The value at `p` (unaligned) as a number: false when it is not whole, is −0.0, or is out of range. */
bool annb_whole_get(annb_dtype dtype, const uint8_t *p, int64_t *x);
/* Store a number: false when the dtype cannot hold it exactly. */
bool annb_whole_put(annb_dtype dtype, int64_t x, uint8_t *p);

#endif
