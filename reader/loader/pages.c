/* MMAP: pages asked for ahead of those who touch them. */
#include "loader_internal.h"

enum { NEAR = 16384, SAMPLE = 24 };

/* A run of bytes of a segment's file. */
typedef struct span {
  annb_segment *segment;
  uint64_t first, end;
} span;

/* Join it to the last one when it is near. */
static void add(span *spans, uint64_t *n, annb_segment *segment, uint64_t first, uint64_t end, uint64_t nearness) {
  span *last = *n ? &spans[*n - 1] : NULL;
  if (last && last->segment == segment && first >= last->first && first <= last->end + nearness) {
    if (end > last->end) last->end = end;
    return;
  }
  spans[(*n)++] = (span){segment, first, end};
}

/* Some of the spans, evenly: when all their pages are there, so are the others', near enough. */
static bool all_resident(const annb_planner *planner, const span *spans, uint64_t n) {
  if (!planner->loader->tells_residency) return false;
  for (uint64_t i = 0; i < SAMPLE && i < n; i++) {
    const span *s = &spans[n <= SAMPLE ? i : i * (n - 1) / (SAMPLE - 1)];
    if (!annb_io_resident(&s->segment->map, s->first, s->end - s->first)) return false;
  }
  return true;
}

/* What of the map was not asked for comes by single pages: the file's own readahead would bring, and drop, far more than is wanted. */
static void set_scattered(const span *spans, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) {
    annb_segment *segment = spans[i].segment;
    if (i && spans[i - 1].segment == segment) continue;
    if (!atomic_exchange_explicit(&segment->scattered, true, memory_order_relaxed)) annb_io_set_scattered(&segment->map, true);
  }
}

/* False: they were all there. */
static bool ask(annb_planner *planner, const span *spans, uint64_t n) {
  if (all_resident(planner, spans, n)) return false;
  set_scattered(spans, n);
  for (uint64_t i = 0; i < n; i++) {
    annb_io_will_need(&spans[i].segment->map, spans[i].first, spans[i].end - spans[i].first);
    planner->bytes_read += spans[i].end - spans[i].first;
  }
  return true;
}

/* The places of records are known, their index is not read yet. */
void annb_pages_ask_index(annb_planner *planner, annb_unit *unit, uint32_t matrix) {
  const annb_located *records = unit->records[matrix];
  span *spans = annb_slot_room(&planner->spans, (size_t)(unit->n_rows + 1) * sizeof *spans);
  uint64_t n = 0;
  for (uint64_t i = 0; spans && i < unit->n_rows; i++) { /* without memory nothing is asked for: that is slower, not wrong */
    const annb_located *r = &records[unit->order[i]];
    if (!r->segment) continue;
    uint64_t before = (r->segment_row ? r->segment_row - 1 : 0) / ANNB_PAGE_ENTRIES, page = r->segment_row / ANNB_PAGE_ENTRIES;
    add(spans, &n, r->segment, annb_segment_page_offset(r->segment, before), annb_segment_page_offset(r->segment, page + 1), NEAR);
  }
  if (spans) (void)ask(planner, spans, n);
}

/* Those of the records of a unit, in the planner's memory; 0 too when that is short. */
static uint64_t record_spans(annb_planner *planner, const annb_unit *unit, uint32_t matrix) {
  const annb_located *records = unit->records[matrix];
  span *spans = annb_slot_room(&planner->spans, (size_t)(unit->n_rows + 1) * sizeof *spans);
  uint64_t n = 0;
  for (uint64_t i = 0; spans && i < unit->n_rows; i++) {
    const annb_located *r = &records[unit->order[i]];
    if (!r->record.length) continue;
    uint64_t offset = (uint64_t)(r->record.data - r->segment->map.data);
    add(spans, &n, r->segment, offset, offset + r->record.length, NEAR);
  }
  return n;
}

void annb_pages_ask_records(annb_planner *planner, annb_unit *unit, uint32_t matrix) {
  uint64_t n = record_spans(planner, unit, matrix);
  unit->resident[matrix] = n && !ask(planner, planner->spans.data, n);
}

void annb_pages_enter_records(annb_planner *planner, const annb_unit *unit, uint32_t matrix) {
  if (!unit->resident[matrix]) return;
  uint64_t n = record_spans(planner, unit, matrix);
  const span *spans = planner->spans.data;
  for (uint64_t i = 0; i < n; i++) annb_io_enter(&spans[i].segment->map, spans[i].first, spans[i].end - spans[i].first);
}

void annb_pages_ask_again(const annb_loader *loader, const annb_unit *unit, uint64_t step) {
  const uint64_t *first = unit->batch_first + (step - unit->first);
  for (uint32_t m = 0; m < loader->n_matrices; m++)
    for (uint64_t i = first[0]; i < first[1]; i++) {
      const annb_located *r = &unit->records[m][i];
      if (r->record.length) annb_io_will_need(&r->segment->map, (uint64_t)(r->record.data - r->segment->map.data), r->record.length);
    }
}

void annb_pages_end(const annb_loader *loader) {
  for (uint32_t k = 0; k < loader->store->manifest.n_segments; k++) {
    annb_segment *segment = atomic_load(&loader->store->segments[k]);
    if (segment && atomic_exchange_explicit(&segment->scattered, false, memory_order_relaxed)) annb_io_set_scattered(&segment->map, false);
  }
}
