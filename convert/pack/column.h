/* One column of obs or var, written to flat arrays. */
#ifndef ANNB_CONVERT_COLUMN_H
#define ANNB_CONVERT_COLUMN_H

#include "../rows/shuffle.h"
#include "../source/values.h"

#include <annblock/store.h>

typedef struct annb_column_target {
  annb_arrays_writer *writer;
  const char *name;
  annb_axis axis;
  uint8_t flags;
  uint64_t length; /* rows of the axis, which the column must have */
  uint64_t memory;
  annb_going going;
  const annb_shuffle *shuffle; /* the order of the column's rows in the store, or NULL; not of its categories */
  const char *spool_dir;       /* for rows that wait to be put in order */
} annb_column_target;

/* Strings, numbers, bools and the numbers of enumerations. What is not storable is left to the sidecar. */
bool annb_column_storable(hid_t type);

/* A fixed or string column. `mask` may be NULL: bool, one per row, true = missing. */
annb_status annb_column_write(const annb_column_target *target, const annb_values *values, const annb_values *mask, uint32_t *column,
                              annb_error *err);
/* A categorical column and its categories. `categories_mask` may be NULL. */
annb_status annb_column_write_categorical(const annb_column_target *target, const annb_values *codes, const annb_values *categories,
                                          const annb_values *categories_mask, annb_error *err);
/* Every code is -1 or below n_categories. */
annb_status annb_column_codes_fit(const annb_values *codes, uint64_t n_categories, bool *fit, annb_error *err);

#endif
