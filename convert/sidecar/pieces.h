/* An array of any rank cut into blocks of bounded size, in order. */
#ifndef ANNB_CONVERT_PIECES_H
#define ANNB_CONVERT_PIECES_H

#include "../source/h5.h"

typedef struct annb_pieces {
  int rank;
  hsize_t dims[32], block[32], start[32], count[32];
  uint64_t n; /* elements of the piece */
  bool started, done;
} annb_pieces;

/* Blocks of at most max(1, max_elements) elements over the extent of a space; whole chunks of `dataset` (may be −1) when they fit.
 * A null or empty space has no pieces. False when the space cannot be examined. */
bool annb_pieces_begin(annb_pieces *pieces, hid_t space, hid_t dataset, uint64_t max_elements);
/* The next piece: start, count, n. False after the last. */
bool annb_pieces_next(annb_pieces *pieces);

/* Read or write the current piece. */
annb_status annb_pieces_read(const annb_pieces *pieces, hid_t dataset, const char *file, const char *object, hid_t memory_type, void *out,
                             annb_error *err);
annb_status annb_pieces_write(const annb_pieces *pieces, hid_t dataset, const char *file, const char *object, hid_t memory_type,
                              const void *data, annb_error *err);

#endif
