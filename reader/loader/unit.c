#include "loader_internal.h"

#include "../../store/error.h"

#include <stdlib.h>

enum { DIGIT = 11, DIGITS = 1 << DIGIT, KEY_BITS = 41 };

void annb_unit_free(annb_unit *unit) {
  free(unit->rows);
  free(unit->batch_first);
  free(unit->batches);
  free(unit->order);
  free(unit->spare);
  free(unit->reading.room.data);
  for (uint32_t i = 0; i < ANNB_LOADER_MAX_MATRICES; i++) free(unit->records[i]);
  *unit = (annb_unit){0};
}

static void fail_step(annb_unit *unit, uint64_t step, const annb_error *err) {
  if (step >= unit->failed) return;
  unit->failed = step;
  unit->failure = *err;
}

void annb_unit_fail(annb_unit *unit, uint64_t place, const annb_error *err) {
  uint64_t low = 0, n = unit->end - unit->first;
  while (n > 1) { /* the last step that starts at or before it */
    uint64_t half = n / 2;
    if (unit->batch_first[low + half] <= place) low += half;
    n -= half;
  }
  fail_step(unit, unit->first + low, err);
}

/* ---- rows ---- */

static bool make_room(annb_planner *planner, annb_unit *unit, uint64_t n_steps, uint64_t n_rows) {
  if (n_steps > unit->n_steps_room) {
    free(unit->batch_first);
    free(unit->batches);
    unit->batch_first = malloc((size_t)(n_steps + 1) * sizeof *unit->batch_first);
    unit->batches = malloc((size_t)n_steps * sizeof *unit->batches);
    unit->n_steps_room = unit->batch_first && unit->batches ? n_steps : 0;
    if (!unit->n_steps_room) return false;
  }
  if (n_rows <= unit->n_room) return true;
  free(unit->rows);
  free(unit->order);
  free(unit->spare);
  unit->rows = malloc((size_t)n_rows * sizeof *unit->rows);
  unit->order = malloc((size_t)n_rows * sizeof *unit->order);
  unit->spare = malloc((size_t)n_rows * sizeof *unit->spare);
  bool ok = unit->rows && unit->order && unit->spare;
  for (uint32_t i = 0; i < planner->loader->n_matrices; i++) {
    free(unit->records[i]);
    unit->records[i] = malloc((size_t)n_rows * sizeof *unit->records[i]);
    ok = ok && unit->records[i];
  }
  unit->n_room = ok ? n_rows : 0;
  return ok;
}

/* Places in order of their rows, by digits of the rows from the lowest. */
static void sort_places(annb_unit *unit) {
  uint64_t highest = 0, *from = unit->order, *to = unit->spare, n = unit->n_rows;
  for (uint64_t i = 0; i < n; i++) {
    from[i] = i;
    if (unit->rows[i] > highest) highest = unit->rows[i];
  }
  for (unsigned shift = 0; shift < KEY_BITS && highest >> shift; shift += DIGIT) {
    uint32_t at[DIGITS] = {0}, sum = 0;
    for (uint64_t i = 0; i < n; i++) at[unit->rows[i] >> shift & (DIGITS - 1)]++;
    for (unsigned d = 0; d < DIGITS; d++) {
      uint32_t count = at[d];
      at[d] = sum;
      sum += count;
    }
    for (uint64_t i = 0; i < n; i++) to[at[unit->rows[from[i]] >> shift & (DIGITS - 1)]++] = from[i];
    uint64_t *sorted = to;
    to = from;
    from = sorted;
  }
  unit->order = from;
  unit->spare = to;
}

/* Where each row is: segment and row of it. The locator remembers where the row before was. */
static void find_places(annb_planner *planner, annb_unit *unit, uint32_t matrix) {
  const annb_loader *loader = planner->loader;
  const annb_loader_source *source = &loader->matrices[matrix];
  annb_locator locator;
  annb_error err;
  (void)annb_locator_begin(&locator, loader->store, source->number, &source->fetch, &err); /* the matrix is there */
  for (uint64_t i = 0; i < unit->n_rows; i++) {
    uint64_t place = unit->order[i], row = unit->rows[place];
    if (!annb_locate_place(&locator, row, &unit->records[matrix][place], &err)) continue;
    unit->records[matrix][place] = (annb_located){.store_row = row};
    annb_unit_fail(unit, place, &err);
  }
}

void annb_unit_rows(annb_planner *planner, annb_unit *unit, uint64_t first, uint64_t end) {
  const annb_loader *loader = planner->loader;
  uint64_t m = loader->options.sampler.batch_size, epoch = annb_plan_epoch(loader->plan);
  annb_error err;
  uint32_t n;
  unit->first = first;
  unit->end = end;
  unit->left = end - first;
  unit->n_rows = 0;
  unit->failed = UINT64_MAX;
  if (!make_room(planner, unit, end - first, (end - first) * m)) {
    annb_fail_memory(&err);
    fail_step(unit, first, &err);
    return;
  }
  for (uint64_t s = first; s < end; s++) {
    uint64_t batch = unit->batches[s - first] = annb_plan_batch(loader->plan, s, NULL, NULL);
    unit->batch_first[s - first] = unit->n_rows;
    if (unit->failed != UINT64_MAX) continue;
    if (annb_picker_batch(planner->picker, epoch, batch, unit->rows + unit->n_rows, &n, &err)) fail_step(unit, s, &err);
    else unit->n_rows += n;
  }
  unit->batch_first[end - first] = unit->n_rows;
  if (!loader->n_matrices) return;
  sort_places(unit);
  for (uint32_t i = 0; i < loader->n_matrices; i++) {
    find_places(planner, unit, i);
    if (loader->access == ANNB_ACCESS_MMAP) annb_pages_ask_index(planner, unit, i);
  }
}

/* ---- records ---- */

/* From the stored ids to the genes that are delivered. */
static const annb_gene_table *project(annb_loader_source *source, const annb_located *row) {
  const annb_gene_table *from = row->genes;
  uint32_t n = (uint32_t)row->segment->header.n_cols, next = (uint32_t)source->n_delivered;
  for (annb_projection *p = source->projections; p; p = p->next)
    if (p->from == from && p->table.n == n) return &p->table;
  annb_projection *made = calloc(1, sizeof *made);
  uint32_t *ids = malloc(((size_t)n + 1) * sizeof *ids);
  for (uint32_t i = 0; ids && i < n; i++) {
    uint32_t column = from ? from->wide[i] : i;
    uint32_t gene = column < source->n_cols ? source->genes[column] : ANNB_NONE;
    ids[i] = gene == ANNB_NONE ? next++ : gene;
  }
  bool ok = made && ids && annb_gene_table_init(&made->table, ids, n, next);
  free(ids);
  if (!ok) {
    free(made);
    return NULL;
  }
  made->from = from;
  made->table.n_kept = (uint32_t)source->n_delivered;
  made->next = source->projections;
  source->projections = made;
  return &made->table;
}

static void set_genes(annb_loader_source *source, annb_unit *unit, uint32_t matrix) {
  const annb_gene_table *from = NULL, *to = NULL;
  uint64_t n_cols = 0;
  annb_error err;
  for (uint64_t i = 0; i < unit->n_rows; i++) {
    annb_located *r = &unit->records[matrix][unit->order[i]];
    if (!r->segment) continue;
    if (!to || from != r->genes || n_cols != r->segment->header.n_cols) {
      from = r->genes;
      n_cols = r->segment->header.n_cols;
      to = project(source, r);
    }
    if (!to) {
      annb_fail_memory(&err);
      annb_unit_fail(unit, unit->order[i], &err);
      return;
    }
    r->genes = to;
  }
}

static void locate_in_map(annb_unit *unit, uint32_t matrix) {
  annb_error err;
  for (uint64_t i = 0; i < unit->n_rows; i++) {
    uint64_t place = unit->order[i];
    annb_located *r = &unit->records[matrix][place];
    if (!r->segment) continue;
    annb_status s = annb_segment_locate(r->segment, r->segment_row, &r->record, &err);
    if (!s) continue;
    annb_name_row(r, s, &err);
    annb_unit_fail(unit, place, &err);
    r->record = (annb_record_ref){NULL, 0, 0, 0};
  }
}

void annb_unit_begin(annb_planner *planner, annb_unit *unit) {
  if (unit->n_rows && planner->loader->n_matrices && planner->loader->access == ANNB_ACCESS_PREAD) annb_reads_begin(planner, unit);
}

void annb_unit_finish(annb_planner *planner, annb_unit *unit) {
  annb_loader *loader = planner->loader;
  if (!unit->n_rows) return;
  for (uint32_t i = 0; i < loader->n_matrices; i++) {
    if (loader->access == ANNB_ACCESS_MMAP) {
      locate_in_map(unit, i);
      annb_pages_ask_records(planner, unit, i);
    }
    if (loader->matrices[i].genes) set_genes(&loader->matrices[i], unit, i);
  }
  if (loader->n_matrices && loader->access == ANNB_ACCESS_PREAD) annb_reads_finish(planner, unit);
}

void annb_unit_enter(annb_planner *planner, const annb_unit *unit) {
  for (uint32_t i = 0; unit->n_rows && i < planner->loader->n_matrices; i++) annb_pages_enter_records(planner, unit, i);
}
