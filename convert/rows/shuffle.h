/* The order in which the rows of a part are stored, when it is another than the source's (SPEC.md 5.5.1). */
#ifndef ANNB_CONVERT_SHUFFLE_H
#define ANNB_CONVERT_SHUFFLE_H

#include <annblock/store.h>

typedef struct annb_shuffle annb_shuffle;

/* Of n rows by a seed; *out is NULL when n < 2: there is nothing to shuffle. ANNB_EUNSUPPORTED beyond 2^32 rows, which the transposer
 * cannot tell apart. */
annb_status annb_shuffle_open(uint64_t n, uint64_t seed, annb_shuffle **out, annb_error *err);
/* That of a flat-arrays file, which is kept open. */
annb_status annb_shuffle_read(const char *path, uint64_t n, annb_shuffle **out, annb_error *err);
void annb_shuffle_close(annb_shuffle *shuffle); /* NULL is allowed */

/* Where the source's row is stored; which row of the source is stored there. Both below n. Any thread. */
uint64_t annb_shuffle_place(const annb_shuffle *shuffle, uint64_t source);
uint64_t annb_shuffle_source(const annb_shuffle *shuffle, uint64_t place);

/* The object `row_order` of a part. */
annb_status annb_shuffle_write(const annb_shuffle *shuffle, annb_txn *txn, uint32_t *object, annb_error *err);

#endif
