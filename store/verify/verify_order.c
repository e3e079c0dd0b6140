/* Order objects (SPEC.md 3.6) against the segments whose rows they list. Faults of a segment itself are told where it is checked. */
#include "verify.h"

#include "../error.h"
#include "../objects/order.h"
#include "../objects/segment.h"

#include <stdlib.h>

#define ULL(x) ((unsigned long long)(x))

typedef struct walk {
  annb_verifier *v;
  const annb_manifest *manifest;
  const annb_fmt_part_matrix *pm;
  annb_source_order order;
  annb_segment *segment; /* of rows first … end−1; NULL: cannot be opened */
  uint32_t next;         /* segment of pm */
  uint64_t first, end;
  uint32_t *places;
  uint64_t *words;
  uint32_t room;
} walk;

/* Open the segment that has the part row; rows ascend. */
static annb_status seek(walk *w, uint64_t row, annb_error *err) {
  while (row >= w->end) {
    const annb_fmt_segment_ref *ref = &w->manifest->segments[w->pm->first_segment + w->next++];
    annb_segment_close(w->segment);
    w->segment = NULL;
    w->first = w->end;
    w->end += ref->n_rows;
    if (row >= w->end) continue;
    char *path = annb_object_path(w->v->store, &w->manifest->objects[ref->object]);
    if (!path) return annb_fail_memory(err);
    annb_status s = annb_segment_open(path, &w->segment, err);
    free(path);
    if (s == ANNB_ENOMEM) return s;
  }
  return ANNB_OK;
}

static annb_status make_room(walk *w, uint32_t n, annb_error *err) {
  if (w->words && n <= w->room) return ANNB_OK;
  free(w->places);
  free(w->words);
  w->places = malloc(((size_t)n + 1) * sizeof *w->places);
  w->words = malloc(annb_source_order_words(n) * sizeof *w->words);
  w->room = n;
  return w->places && w->words ? ANNB_OK : annb_fail_memory(err);
}

static annb_status check_entry(walk *w, uint64_t k, annb_error *err) {
  uint64_t row = w->order.entry_rows[k];
  annb_record_ref record;
  annb_status s = seek(w, row, err);
  if (s || !w->segment || annb_segment_locate(w->segment, row - w->first, &record, NULL)) return s;
  if (!(w->segment->envelope.header.export_mask & ANNB_EXPORT_SORTED))
    return annb_fail_row(err, ANNB_ECORRUPT, w->order.path, (int64_t)row,
                         "has an order of the elements of part row %llu, which are in it already", ULL(row));
  s = make_room(w, record.nnz, err);
  return s ? s : annb_source_order_places(&w->order, k, record.nnz, w->places, w->words, err);
}

void annb_verifier_source_order(annb_verifier *v, const annb_manifest *manifest, uint32_t part, uint32_t part_matrix, annb_arrays *arrays) {
  walk w = {.v = v, .manifest = manifest, .pm = &manifest->part_matrices[part_matrix]};
  annb_error err;
  annb_status s = annb_source_order_read(arrays, (annb_form)w.pm->form, manifest->parts[part].n_rows, w.pm->n_cols, &w.order, &err);
  if (s) annb_verifier_tell(v, &err);
  for (uint64_t k = 0; !s && k < w.order.n_entries && !v->stopped; k++)
    if (check_entry(&w, k, &err)) annb_verifier_tell(v, &err);
  annb_segment_close(w.segment);
  free(w.places);
  free(w.words);
}
