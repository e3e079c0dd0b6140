/* Choosing cells by a predicate over the columns of obs: `cell_type == "B cell" and n_counts > 500`. SPEC.md, section 9, has the grammar
 * and what it means: of values that are missing, of categories, of numbers, of parts without a column. */
#ifndef ANNBLOCK_WHERE_H
#define ANNBLOCK_WHERE_H

#include <annblock/reader.h>
#include <annblock/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Longest text in bytes, and deepest nesting of brackets and `not`. */
#define ANNB_WHERE_MAX_TEXT (1u << 20)
#define ANNB_WHERE_MAX_DEPTH 200

/* Which rows of the store the predicate `text` (terminated) holds for: bit (row % 64) of word row / 64 of `bits`, which has (n_obs + 63) /
 * 64 words; the bits past the last row are 0. `n_selected` (may be NULL) receives how many are 1. `bits` may be NULL: then they are only
 * counted.
 *
 * ANNB_EINVAL: the text is not a predicate, or compares a column with a value of another kind; ANNB_ENOTFOUND: no part has such a column;
 * both say at which character (from 1) and what to write instead. ANNB_ECORRUPT and others as the columns' reader. On failure `bits` is
 * undefined. Any number of threads may call it on one store. Memory: a byte per category, some KiB per level of nesting. */
annb_status annb_where(const annb_store *store, const char *text, uint64_t *bits, uint64_t *n_selected, annb_error *err);

#ifdef __cplusplus
}
#endif
#endif
