#include "window_plan.h"

#include "../../store/codec/row_sort.h"
#include "../../store/error.h"
#include "../../store/io.h"
#include "../../store/pipeline.h"
#include "rows_internal.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
  TASK = 1 << 20,         /* elements of columns that one thread looks at */
  SLOTS = 64,
  STRIP = 1 << 17,        /* elements of a strip, about */
  MOST_SHIFT = 16,        /* numbers of rows within a strip fit 16 bits */
  MOST_STRIPS = 4096,     /* of a window */
  LEAST_PIECE = 4096,
  MOST_PIECE = 1 << 15,   /* elements that one thread reads at a time */
  CELLS_PER_WINDOW = 16,
  PER_READ = 16           /* elements that make a read worth while */
};
#define MOST_ELEMENTS (UINT64_C(1) << 28) /* of a window: it is read without a sign of life */
#define LONG_READ (UINT64_C(1) << 20) /* bytes of a read, on average, that a disk does not mind */

void annb_window_plan_free(annb_window_plan *plan) {
  free(plan->first);
  free(plan->ends);
  free(plan->windows);
  *plan = (annb_window_plan){0};
}

/* ---- sizes ---- */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t room_of_window(const annb_rows *r) {
  return least(r->options.memory / 8 * 5 / (sizeof(uint32_t) + r->value_size), MOST_ELEMENTS);
}

/* Strips of which a core's cache holds the elements. */
static bool choose_sizes(const annb_rows *r, annb_window_plan *plan) {
  const annb_source_matrix *m = r->m;
  const uint64_t most_cells = r->options.memory / 16 / sizeof(uint32_t) / m->n_cols, room = room_of_window(r);
  const uint64_t piece = r->options.memory / 32 / r->options.n_threads / (r->index_size + r->value_size);
  plan->most_of_rows = r->options.memory / 16 / r->options.n_threads / (sizeof(uint32_t) + r->value_size);
  const uint64_t strip = least(plan->most_of_rows / 2, STRIP);
  if (most_cells < 4 || !room) return false;
  while (plan->shift < MOST_SHIFT && m->n_rows >> plan->shift > 1 && m->nnz / m->n_rows << (plan->shift + 1) <= strip) plan->shift++;
  plan->piece = (uint32_t)(piece < LEAST_PIECE ? LEAST_PIECE : least(piece, MOST_PIECE));
  const uint64_t n_strips = ((m->n_rows - 1) >> plan->shift) + 1;
  const uint64_t cells = least(least(most_cells, n_strips), CELLS_PER_WINDOW * (m->nnz / room + 1)), strips = (n_strips - 1) / cells + 1;
  plan->cell_rows = strips << plan->shift;
  plan->n_cells = (m->n_rows - 1) / plan->cell_rows + 1;
  return strips <= MOST_STRIPS;
}

static bool read_pointers(const annb_rows *r, uint64_t *first) {
  const annb_source_matrix *m = r->m;
  if (annb_values_read_pointers(&m->indptr, 0, m->n_cols + 1, first, NULL)) return false;
  for (uint64_t i = 0; i < m->n_cols; i++)
    if (first[i] > first[i + 1] || first[i + 1] - first[i] > UINT32_MAX) return false;
  return first[0] == 0 && first[m->n_cols] == m->nnz;
}

/* ---- one look at all columns ---- */

typedef struct look {
  const annb_rows *r;
  const annb_anywhere *indices, *values;
  annb_window_plan *plan;
  void **scratch; /* of each worker: a piece of indices */
  struct columns {
    uint64_t first, end;
  } slots[SLOTS];
  uint64_t next; /* columns before it are taken */
  _Atomic uint64_t done; /* elements that were looked at */
  _Atomic bool impossible;
  annb_status watch_status;
  annb_error watch_error;
} look;

/* A column under way. */
typedef struct column {
  uint64_t number, cell; /* cells before it have their ends */
  uint32_t at, before;   /* elements so far, and the last one's row */
} column;

static void set_end(const annb_window_plan *plan, const annb_rows *r, column *c, uint32_t end) {
  plan->ends[c->cell++ * r->m->n_cols + c->number] = end;
}

/* The first of ascending numbers that is not below `limit`. */
static uint32_t find(const uint32_t *x, uint32_t from, uint32_t n, uint64_t limit) {
  while (from < n) {
    const uint32_t middle = from + (n - from) / 2;
    if (x[middle] < limit) from = middle + 1;
    else n = middle;
  }
  return from;
}

/* The next rows of a column; false when they do not ascend. */
static bool look_at_rows(const look *l, column *c, const uint32_t *rows, uint32_t n) {
  const annb_window_plan *plan = l->plan;
  if ((c->at && rows[0] < c->before) || !annb_ascends(rows, n)) return false;
  for (uint32_t from = 0; c->cell + 1 < plan->n_cells && (c->cell + 1) * plan->cell_rows <= rows[n - 1];) {
    from = find(rows, from, n, (c->cell + 1) * plan->cell_rows);
    set_end(plan, l->r, c, c->at + from);
  }
  c->at += n;
  c->before = rows[n - 1];
  return true;
}

static void end_column(const look *l, column *c) {
  while (c->cell < l->plan->n_cells) set_end(l->plan, l->r, c, c->at);
  *c = (column){.number = c->number + 1};
}

/* The elements [from, from + n), which begin in the column `c`. */
static bool look_at_piece(const look *l, column *c, uint64_t from, uint64_t n, uint32_t *scratch) {
  const annb_rows *r = l->r;
  const uint64_t *first = l->plan->first;
  if (annb_anywhere_read(l->indices, from, n, scratch, NULL)) return false;
  annb_anywhere_will_need(l->values, from, n);
  if (annb_rows_narrow(r, scratch, from, n, r->m->n_rows, NULL)) return false;
  for (uint64_t i = 0, k; i < n; i += k) {
    while (first[c->number + 1] <= from + i) end_column(l, c);
    k = least(n - i, first[c->number + 1] - (from + i));
    if (!look_at_rows(l, c, scratch + i, (uint32_t)k)) return false;
  }
  return true;
}

static void look_at_columns(void *user, uint32_t worker, uint32_t slot) {
  look *l = user;
  const struct columns *task = &l->slots[slot];
  column c = {.number = task->first};
  bool ok = !l->impossible;
  for (uint64_t at = l->plan->first[task->first], end = l->plan->first[task->end], n; ok && at < end; at += n) {
    n = least(end - at, l->plan->piece);
    ok = look_at_piece(l, &c, at, n, l->scratch[worker]);
  }
  while (ok && c.number < task->end) end_column(l, &c);
  if (!ok) l->impossible = true;
}

static annb_take take_columns(void *user, uint32_t slot) {
  look *l = user;
  const uint64_t n_cols = l->r->m->n_cols, *first = l->plan->first, begin = l->next;
  if (begin == n_cols || l->impossible) return ANNB_END;
  while (l->next < n_cols && (l->next == begin || first[l->next + 1] - first[begin] <= TASK)) l->next++;
  l->slots[slot] = (struct columns){begin, l->next};
  return ANNB_TAKEN;
}

static bool give_columns(void *user, uint32_t slot) {
  look *l = user;
  l->done = l->plan->first[l->slots[slot].end];
  return !l->impossible;
}

static bool watch_columns(void *user, uint64_t given) {
  look *l = user;
  (void)given;
  l->watch_status = annb_rows_progress(l->r, "reading columns", l->done, l->r->m->nnz, &l->watch_error);
  return !l->watch_status;
}

static annb_status look_at_all(look *l, bool *possible, annb_error *err) {
  const uint32_t n = l->r->options.n_threads;
  annb_status s = ANNB_OK;
  l->scratch = calloc(n, sizeof *l->scratch);
  for (uint32_t i = 0; l->scratch && i < n; i++)
    if (!(l->scratch[i] = malloc(l->plan->piece * l->r->index_size))) s = annb_fail_memory(err);
  if (!l->scratch) s = annb_fail_memory(err);
  const annb_pipeline p = {n, SLOTS, l, take_columns, look_at_columns, give_columns, watch_columns};
  if (!s) annb_pipeline_run(&p);
  for (uint32_t i = 0; l->scratch && i < n; i++) free(l->scratch[i]);
  free(l->scratch);
  if (!s && l->watch_status && err) *err = l->watch_error;
  *possible = !s && !l->watch_status && !l->impossible;
  return s ? s : l->watch_status;
}

/* ---- windows ---- */

static uint64_t count_cell(const annb_window_plan *plan, uint64_t n_cols, uint64_t cell) {
  const uint32_t *ends = plan->ends + cell * n_cols, *begins = cell ? ends - n_cols : NULL;
  uint64_t n = 0;
  for (uint64_t i = 0; i < n_cols; i++) n += ends[i] - (begins ? begins[i] : 0);
  return n;
}

/* As many cells for each as fit. False when one alone does not. */
static bool choose_windows(const annb_rows *r, annb_window_plan *plan) {
  const uint64_t n_cols = r->m->n_cols, room = room_of_window(r), cell_strips = plan->cell_rows >> plan->shift;
  annb_window *w = NULL;
  for (uint64_t cell = 0, strips = 0; cell < plan->n_cells; cell++) {
    const uint64_t n = count_cell(plan, n_cols, cell), row = cell * plan->cell_rows;
    if (n > room) return false;
    if (!w || w->n + n > room || strips + cell_strips > MOST_STRIPS) {
      w = &plan->windows[plan->n_windows++];
      *w = (annb_window){.first_row = row, .begin = cell ? plan->ends + (cell - 1) * n_cols : NULL};
      strips = 0;
    }
    w->n += n;
    w->n_rows = least(row + plan->cell_rows, r->m->n_rows) - w->first_row;
    w->end = plan->ends + cell * n_cols;
    strips += cell_strips;
    if (w->n > plan->most) plan->most = w->n;
  }
  return true;
}

/* Reads of a window: neighbouring columns of which it has all stand side by side. */
static uint64_t count_reads(const annb_window_plan *plan, uint64_t n_cols, const annb_window *w) {
  uint64_t reads = 0, before = UINT64_MAX;
  for (uint64_t i = 0; i < n_cols; i++) {
    const uint64_t begin = plan->first[i] + (w->begin ? w->begin[i] : 0), end = plan->first[i] + w->end[i];
    reads += begin < end && begin != before;
    if (begin < end) before = end;
  }
  return 2 * reads;
}

/* Short reads are cheap only of what the system keeps in memory. */
static bool pays(const annb_rows *r, const annb_window_plan *plan) {
  const uint64_t bytes = r->m->nnz * (r->stored_size + r->value_size);
  uint64_t reads = 0;
  for (size_t i = 0; i < plan->n_windows; i++) reads += count_reads(plan, r->m->n_cols, &plan->windows[i]);
  return bytes <= annb_io_memory_limit() / 2 ? reads <= r->m->nnz / PER_READ + STRIP : reads <= bytes / LONG_READ;
}

annb_status annb_window_plan_make(const annb_rows *r, const annb_anywhere *indices, const annb_anywhere *values, annb_window_plan *plan,
                                  bool *possible, annb_error *err) {
  const annb_source_matrix *m = r->m;
  look l = {.r = r, .indices = indices, .values = values, .plan = plan};
  *plan = (annb_window_plan){0};
  *possible = m->nnz && m->n_rows && m->n_rows <= UINT32_MAX && choose_sizes(r, plan);
  if (!*possible) return ANNB_OK;
  plan->first = malloc((m->n_cols + 1) * sizeof *plan->first);
  plan->ends = malloc(plan->n_cells * m->n_cols * sizeof *plan->ends);
  plan->windows = malloc(plan->n_cells * sizeof *plan->windows);
  if (!plan->first || !plan->ends || !plan->windows) return annb_fail_memory(err);
  *possible = read_pointers(r, plan->first);
  annb_status s = *possible ? look_at_all(&l, possible, err) : ANNB_OK;
  *possible = *possible && choose_windows(r, plan) && pays(r, plan);
  return s;
}
