/* Out-of-core transposition in bounded memory: elements are pushed in the order of one axis and come out grouped by the other, in the order
 * they were pushed within each group (stable). Elements wait in an anonymous temporary file, in buckets of neighbouring keys. */
#ifndef ANNB_CONVERT_TRANSPOSE_H
#define ANNB_CONVERT_TRANSPOSE_H

#include <annblock/status.h>
#include <stddef.h>
#include <stdint.h>

typedef struct annb_transpose annb_transpose;

/* `value_size` bytes (1 to 8) per value; keys are below `n_keys`, at most 2^32; about `expected` elements will come, which decides how many
 * buckets there are, not what can be pushed. `memory` caps all buffers; the file goes to the directory `spool_dir`. */
annb_status annb_transpose_open(uint32_t value_size, uint64_t n_keys, uint64_t expected, uint64_t memory, const char *spool_dir,
                                annb_transpose **out, annb_error *err);

/* Push n elements: keys (the axis to group by) and payloads (the other axis' number), values. Cheapest where neighbours share a payload and
 * their keys ascend, or share a key. */
annb_status annb_transpose_push(annb_transpose *t, uint64_t n, const uint32_t *keys, const uint32_t *payloads, const void *values,
                                annb_error *err);

/* After the last push: for key = 0, 1, 2 … in turn, all its elements. *n is their number; payloads and values are valid until
 * the next call. ANNB_ENOMEM when one group does not fit twice the memory cap. */
annb_status annb_transpose_next(annb_transpose *t, uint32_t key, uint64_t *n, const uint32_t **payloads, const void **values,
                                annb_error *err);

void annb_transpose_close(annb_transpose *t); /* NULL is allowed; removes the file */

/* ---- the same for one payload, and by many threads ---- */

/* Push elements that share their payload; cheapest where keys ascend. */
annb_status annb_transpose_push_run(annb_transpose *t, uint64_t n, const uint32_t *keys, uint32_t payload, const void *values,
                                    annb_error *err);

/* Neighbouring keys, at most 2^32, whose elements wait in the file. */
typedef struct annb_leaf {
  uint64_t first, n_keys, n;
  uint64_t bytes; /* in the file */
  struct annb_extent *extents;
  size_t n_extents;
  unsigned shift;
} annb_leaf;

/* Memory for the elements of a leaf. Zero-initialise. */
typedef struct annb_leaf_room {
  uint64_t *starts; /* of n_keys keys, and the end, from 0 */
  uint32_t *payloads;
  uint8_t *values;
  uint64_t keys_room, elements_room;
} annb_leaf_room;
void annb_leaf_room_free(annb_leaf_room *room);
/* Bytes as they come from the file, of one thread. Zero-initialise. */
typedef struct annb_leaf_raw {
  uint8_t *bytes;
  uint64_t room;
} annb_leaf_raw;

/* Instead of annb_transpose_next, one call at a time: the next leaf (n_keys = 0 after the last). */
annb_status annb_transpose_take(annb_transpose *t, annb_leaf *leaf, annb_error *err);
/* On any thread: its elements. */
annb_status annb_transpose_load(const annb_transpose *t, const annb_leaf *leaf, annb_leaf_raw *raw, annb_leaf_room *out, annb_error *err);
void annb_leaf_free(annb_leaf *leaf);

#endif
