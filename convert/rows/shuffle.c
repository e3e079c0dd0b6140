#include "shuffle.h"

#include "../../reader/sampler/permutation.h"
#include "../../reader/sampler/random.h"
#include "../../store/objects/arrays.h"
#include "../../store/error.h"
#include "../../store/objects/maps.h"

#include <stdlib.h>

enum { PIECE = 8192 }; /* rows written at once */

struct annb_shuffle {
  uint64_t n;
  annb_permutation permutation;
  uint16_t *table, *places;        /* of few rows: the permutation and its inverse */
  annb_arrays *arrays;             /* or else what a file has */
  const uint64_t *order, *inverse; /* views of it */
};

annb_status annb_shuffle_open(uint64_t n, uint64_t seed, annb_shuffle **out, annb_error *err) {
  *out = NULL;
  if (n < 2) return ANNB_OK;
  if (n > UINT32_MAX) return annb_fail(err, ANNB_EUNSUPPORTED, NULL, "a part of more than 2^32 rows cannot be shuffled: pack it in pieces");
  annb_shuffle *s = calloc(1, sizeof *s);
  if (!s) return annb_fail_memory(err);
  s->n = n;
  s->table = malloc(ANNB_PERMUTATION_TABLE * sizeof *s->table);
  s->places = malloc(ANNB_PERMUTATION_TABLE * sizeof *s->places);
  if (!s->table || !s->places) {
    annb_shuffle_close(s);
    return annb_fail_memory(err);
  }
  annb_permutation_set(&s->permutation, n, annb_random_key(seed, ANNB_KEY_ROWS, 0, 0), s->table);
  for (uint64_t i = 0; s->permutation.table && i < n; i++) s->places[s->table[i]] = (uint16_t)i;
  *out = s;
  return ANNB_OK;
}

annb_status annb_shuffle_read(const char *path, uint64_t n, annb_shuffle **out, annb_error *err) {
  *out = NULL;
  if (n > UINT32_MAX) return annb_fail(err, ANNB_EUNSUPPORTED, path, "is the order of more than 2^32 rows");
  annb_shuffle *shuffle = calloc(1, sizeof *shuffle);
  if (!shuffle) return annb_fail_memory(err);
  shuffle->n = n;
  annb_status s = annb_arrays_open(path, &shuffle->arrays, err);
  if (!s) s = annb_row_order_read(shuffle->arrays, n, &shuffle->order, &shuffle->inverse, err);
  if (s) annb_shuffle_close(shuffle);
  else *out = shuffle;
  return s;
}

void annb_shuffle_close(annb_shuffle *shuffle) {
  if (!shuffle) return;
  annb_arrays_close(shuffle->arrays);
  free(shuffle->table);
  free(shuffle->places);
  free(shuffle);
}

uint64_t annb_shuffle_place(const annb_shuffle *s, uint64_t source) {
  if (s->inverse) return s->inverse[source];
  return s->permutation.table ? s->places[source] : annb_permutation_inverse(&s->permutation, source);
}

uint64_t annb_shuffle_source(const annb_shuffle *s, uint64_t place) {
  return s->order ? s->order[place] : annb_permutation_at(&s->permutation, place);
}

/* ---- writing ---- */

static annb_status write_array(const annb_shuffle *shuffle, annb_arrays_writer *arrays, const char *name,
                               uint64_t (*at)(const annb_shuffle *, uint64_t), annb_error *err) {
  uint64_t piece[PIECE];
  uint32_t array;
  annb_status s = annb_arrays_begin(arrays, name, ANNB_U64, 1, &array, err);
  for (uint64_t i = 0, n; i < shuffle->n && !s; i += n) {
    n = PIECE < shuffle->n - i ? PIECE : shuffle->n - i;
    for (uint64_t k = 0; k < n; k++) piece[k] = at(shuffle, i + k);
    s = annb_arrays_append(arrays, piece, n, err);
  }
  return s ? s : annb_arrays_end(arrays, err);
}

annb_status annb_shuffle_write(const annb_shuffle *shuffle, annb_txn *txn, uint32_t *object, annb_error *err) {
  annb_arrays_writer *arrays;
  annb_status s = annb_arrays_writer_open(txn, &arrays, err);
  if (s) return s;
  s = write_array(shuffle, arrays, "row_order", annb_shuffle_source, err);
  if (!s) s = write_array(shuffle, arrays, "row_order_inverse", annb_shuffle_place, err);
  if (!s) return annb_arrays_writer_close(arrays, object, err);
  annb_arrays_writer_abort(arrays);
  return s;
}
