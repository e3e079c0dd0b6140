/* References inside values of any type. */
#ifndef ANNB_CONVERT_REFS_H
#define ANNB_CONVERT_REFS_H

#include "../source/h5.h"

/* Called for each reference (hobj_ref_t or hdset_reg_ref_t at `at`) in the order of the elements. */
typedef annb_status (*annb_reference_fn)(void *user, H5R_type_t kind, void *at, annb_error *err);

/* Walk `n` elements of the memory type at `data`: into compounds, arrays and variable-length sequences. */
annb_status annb_references(hid_t memory_type, void *data, uint64_t n, annb_reference_fn visit, void *user, annb_error *err);

/* A null reference: leads nowhere on purpose. */
bool annb_reference_null(H5R_type_t kind, const void *at);

#endif
