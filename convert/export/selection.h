/* Which rows of obs or var an export has, and in which order. */
#ifndef ANNB_CONVERT_SELECTION_H
#define ANNB_CONVERT_SELECTION_H

#include "../../reader/row_orders.h"

#include <annblock/convert.h>
#include <annblock/reader.h>

typedef struct annb_selection {
  uint64_t *items; /* row numbers, each at most once; NULL: all, in order */
  uint64_t n, of;  /* how many, of how many */
  bool ascending;
  const annb_row_orders *orders; /* of cells: where these rows of the sources are stored; NULL: at their numbers */
} annb_selection;

/* The store's row of item i < n. */
static inline uint64_t annb_selection_stored(const annb_selection *s, uint64_t i) {
  return annb_row_orders_stored(s->orders, s->items ? s->items[i] : i);
}

/* The cells and the genes that the options ask for. Free both in any case; zero-initialise before. Options number cells as readers see
 * them; in `rows` they are those of the source. */
annb_status annb_select(const annb_store *store, const annb_row_orders *orders, const annb_subset_options *options, annb_selection *rows,
                        annb_selection *genes, annb_error *err);
void annb_selection_free(annb_selection *selection);
/* Does the export have a subset at all? */
bool annb_subset_wanted(const annb_subset_options *options);

/* From old number to new, ANNB_NONE for what is left out; NULL in *map when all stay as they are. To be freed. ANNB_EUNSUPPORTED beyond
 * 2^32. */
annb_status annb_selection_map(const annb_selection *selection, uint32_t **map, annb_error *err);

/* Lines of a text file without the line ends (also CR LF); empty ones do not count. `each` gets them terminated. */
typedef annb_status (*annb_line_fn)(void *user, char *line, uint64_t number, annb_error *err);
annb_status annb_each_line(const char *path, annb_line_fn each, void *user, annb_error *err);

/* Genes by name or number from a file. */
annb_status annb_select_genes(const annb_store *store, const char *path, annb_selection *genes, annb_error *err);

#endif
