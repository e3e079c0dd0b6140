/* Elements are sorted by row in two steps, so that each writes to few places at once: a task, which is some elements of a window in the
 * order of columns, puts those of each strip of rows beside each other; the rows of a strip are then made of its elements in all tasks. */
#include "windows.h"

#include "../../store/codec/row_sort.h"
#include "../../store/error.h"
#include "../../store/io.h"
#include "../../store/parallel.h"
#include "rows_internal.h"
#include "window_plan.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN_SHIFT = 16 /* of a key: the column, from the task's first; below it the row, from the strip's first */ };

/* A place among the elements of a window. */
typedef struct place {
  uint64_t column;
  uint32_t done; /* elements of the column that are before it */
} place;

typedef struct task {
  place begin;
  uint32_t at, n; /* in the window */
  annb_status status;
  annb_error error;
} task;

/* Memory of one thread, for a task. */
typedef struct worker {
  void *rows;
  uint8_t *values;
  uint8_t *sorted; /* elements by strip */
  uint32_t *next;  /* of each strip: where its next element goes; and as much again, to count */
  uint64_t *indptr; /* of the rows made last: room for a strip */
  uint32_t *columns;
  uint8_t *out;
  uint64_t room;
} worker;

struct annb_windows {
  const annb_rows *r;
  annb_anywhere *index_source, *value_source;
  annb_window_plan plan;
  worker *workers;

  /* the window */
  const annb_window *here;
  size_t next; /* window */
  uint64_t n_strips;
  size_t size;       /* of an element: its key and value */
  uint8_t *elements;
  task *tasks;
  size_t n_tasks;
  uint32_t *starts; /* of each task: where its elements of each strip begin, and its end */

  uint64_t row;     /* the next to give out */
  uint64_t counted; /* UINT64_MAX, or the strip whose rows `counts` are of: one that is too full for one piece */
  uint32_t *counts;
  _Atomic uint64_t waiting; /* pieces that were taken and not filled */
};

/* ---- opening ---- */

void annb_windows_close(annb_windows *w) {
  if (!w) return;
  for (uint32_t i = 0; w->workers && i < w->r->options.n_threads; i++) {
    worker *k = &w->workers[i];
    void *const memory[] = {k->rows, k->values, k->sorted, k->next, k->indptr, k->columns, k->out};
    for (size_t j = 0; j < sizeof memory / sizeof *memory; j++) free(memory[j]);
  }
  free(w->workers);
  free(w->elements);
  free(w->tasks);
  free(w->starts);
  free(w->counts);
  annb_window_plan_free(&w->plan);
  annb_anywhere_close(w->index_source);
  annb_anywhere_close(w->value_source);
  free(w);
}

static uint64_t strips_of(const annb_windows *w, const annb_window *window) { return ((window->n_rows - 1) >> w->plan.shift) + 1; }

static annb_status reserve(annb_windows *w, annb_error *err) {
  const annb_rows *r = w->r;
  const annb_window_plan *plan = &w->plan;
  const uint64_t tasks = plan->most / plan->piece + (r->m->n_cols >> COLUMN_SHIFT) + 2;
  uint64_t strips = 0;
  for (size_t i = 0; i < plan->n_windows; i++)
    if (strips_of(w, &plan->windows[i]) > strips) strips = strips_of(w, &plan->windows[i]);
  w->elements = malloc(plan->most * w->size);
  if (w->elements) annb_io_want_large_pages(w->elements, plan->most * w->size);
  w->tasks = malloc(tasks * sizeof *w->tasks);
  w->starts = malloc(tasks * (strips + 1) * sizeof *w->starts);
  w->counts = malloc(sizeof *w->counts << plan->shift);
  w->workers = calloc(r->options.n_threads, sizeof *w->workers);
  bool ok = w->elements && w->tasks && w->starts && w->counts && w->workers;
  for (uint32_t i = 0; ok && i < r->options.n_threads; i++) {
    worker *k = &w->workers[i];
    k->rows = malloc(plan->piece * r->index_size);
    k->values = malloc(plan->piece * r->value_size);
    k->sorted = malloc(plan->piece * w->size);
    k->next = malloc(2 * strips * sizeof *k->next);
    k->indptr = malloc(((UINT64_C(1) << plan->shift) + 2) * sizeof *k->indptr);
    ok = k->rows && k->values && k->sorted && k->next && k->indptr;
  }
  return ok ? ANNB_OK : annb_fail_memory(err);
}

annb_status annb_windows_open(const annb_rows *r, annb_windows **out, annb_error *err) {
  const annb_source_matrix *m = r->m;
  bool possible = false;
  *out = NULL;
  annb_windows *w = calloc(1, sizeof *w);
  if (!w) return annb_fail_memory(err);
  w->r = r;
  w->counted = UINT64_MAX;
  w->size = sizeof(uint32_t) + r->value_size;
  annb_status s = annb_anywhere_open(&m->indices, r->index_type, r->options.memory / 64, &w->index_source, err);
  if (!s && w->index_source) s = annb_anywhere_open(&m->data, m->memory_type, r->options.memory / 64, &w->value_source, err);
  if (!s && w->value_source) s = annb_window_plan_make(r, w->index_source, w->value_source, &w->plan, &possible, err);
  if (!s && possible) s = reserve(w, err);
  if (!s && possible) *out = w;
  else annb_windows_close(w);
  return s;
}

/* ---- reading a window ---- */

static uint32_t length(const annb_windows *w, uint64_t column) {
  return w->here->end[column] - (w->here->begin ? w->here->begin[column] : 0);
}

static uint64_t in_file(const annb_windows *w, const place *at) {
  return w->plan.first[at->column] + (w->here->begin ? w->here->begin[at->column] : 0) + at->done;
}

static void skip_empty(const annb_windows *w, place *at) {
  while (at->column < w->r->m->n_cols && at->done == length(w, at->column)) *at = (place){at->column + 1, 0};
}

/* The next elements of one column, `most` at most, of which there are some. */
static uint32_t step(const annb_windows *w, place *at, uint32_t most) {
  skip_empty(w, at);
  const uint32_t left = length(w, at->column) - at->done, n = left < most ? left : most;
  at->done += n;
  return n;
}

/* The next elements that stand side by side in the file, from *first on: of neighbouring columns where the window has all of them. */
static uint32_t step_in_file(const annb_windows *w, place *at, uint32_t most, uint64_t *first) {
  uint32_t n = 0;
  skip_empty(w, at);
  *first = in_file(w, at);
  while (n < most && at->column < w->r->m->n_cols && in_file(w, at) == *first + n) {
    n += step(w, at, most - n);
    skip_empty(w, at);
  }
  return n;
}

static annb_status changed(const annb_windows *w, annb_error *err) {
  return annb_h5_say(err, ANNB_EINPUT, w->r->m->file, w->r->m->indices.object, "changed while it was read");
}

static annb_status read_elements(const annb_windows *w, const task *t, const worker *k, annb_error *err) {
  const annb_rows *r = w->r;
  annb_status s = ANNB_OK;
  place at = t->begin;
  for (uint32_t i = 0, n; i < t->n && !s; i += n) {
    uint64_t first;
    n = step_in_file(w, &at, t->n - i, &first);
    uint32_t *rows = (uint32_t *)k->rows + i; /* wider indices have room here too, until they are narrowed */
    s = annb_anywhere_read(w->index_source, first, n, rows, err);
    if (!s) s = annb_anywhere_read(w->value_source, first, n, k->values + i * r->value_size, err);
    if (!s) s = annb_rows_narrow(r, rows, first, n, r->m->n_rows, err);
  }
  return s;
}

/* Are they those that the plan is of? */
static bool in_window(const annb_windows *w, const task *t, const uint32_t *rows) {
  const uint64_t begin = w->here->first_row, end = begin + w->here->n_rows;
  place at = t->begin;
  for (uint32_t i = 0, n; i < t->n; i += n) {
    n = step(w, &at, t->n - i);
    if (rows[i] < begin || rows[i + n - 1] >= end || !annb_ascends(rows + i, n)) return false;
  }
  return true;
}

/* Where the elements of each strip go. Neighbours are mostly of one strip: counting in two places is faster. */
static void count_strips(const annb_windows *w, const task *t, const uint32_t *rows, uint32_t *next, uint32_t *starts) {
  uint32_t *even = next, *odd = next + w->n_strips, i = 0;
  const uint32_t first = (uint32_t)w->here->first_row, n = t->n;
  const unsigned shift = w->plan.shift;
  memset(next, 0, 2 * w->n_strips * sizeof *next);
  for (; i + 1 < n; i += 2) {
    even[(rows[i] - first) >> shift]++;
    odd[(rows[i + 1] - first) >> shift]++;
  }
  if (i < n) even[(rows[i] - first) >> shift]++;
  starts[0] = t->at;
  for (uint64_t k = 0; k < w->n_strips; k++) {
    starts[k + 1] = starts[k] + even[k] + odd[k];
    next[k] = starts[k] - t->at;
  }
}

/* `size`, of a value, is a constant at the hot call sites, so that copies are single moves. */
static inline __attribute__((always_inline)) void put_elements(const annb_windows *w, const task *t, const worker *k, size_t size) {
  const uint32_t *rows = k->rows, first = (uint32_t)w->here->first_row, mask = (UINT32_C(1) << w->plan.shift) - 1;
  const unsigned shift = w->plan.shift;
  uint32_t *next = k->next;
  const uint8_t *values = k->values;
  uint8_t *sorted = k->sorted;
  place at = t->begin;
  for (uint32_t i = 0, end; i < t->n;) {
    end = i + step(w, &at, t->n - i);
    for (const uint32_t column = (uint32_t)(at.column - t->begin.column) << COLUMN_SHIFT; i < end; i++) {
      const uint32_t row = rows[i] - first, key = column | (row & mask);
      uint8_t *to = sorted + next[row >> shift]++ * (sizeof(uint32_t) + size);
      memcpy(to, &key, sizeof key);
      memcpy(to + sizeof key, values + i * size, size);
    }
  }
  memcpy(w->elements + t->at * (sizeof(uint32_t) + size), sorted, t->n * (sizeof(uint32_t) + size));
}

static void run_task(void *user, uint32_t number, size_t item) {
  annb_windows *w = user;
  task *t = &w->tasks[item];
  const worker *k = &w->workers[number];
  t->status = read_elements(w, t, k, &t->error);
  if (!t->status && !in_window(w, t, k->rows)) t->status = changed(w, &t->error);
  if (t->status) return;
  count_strips(w, t, k->rows, k->next, w->starts + item * (w->n_strips + 1));
  if (w->r->value_size == 4) put_elements(w, t, k, 4);
  else if (w->r->value_size == 8) put_elements(w, t, k, 8);
  else put_elements(w, t, k, w->r->value_size);
}

static void choose_tasks(annb_windows *w) {
  place at = {0, 0};
  task *t = NULL;
  w->n_tasks = 0;
  for (uint32_t done = 0; done < w->here->n;) {
    skip_empty(w, &at);
    if (!t || t->n == w->plan.piece || (at.column - t->begin.column) >> COLUMN_SHIFT) {
      t = &w->tasks[w->n_tasks++];
      t->begin = at;
      t->at = done;
      t->n = 0;
    }
    const uint32_t n = step(w, &at, w->plan.piece - t->n);
    t->n += n;
    done += n;
  }
}

static annb_status read_window(annb_windows *w, annb_error *err) {
  w->here = &w->plan.windows[w->next++];
  w->n_strips = strips_of(w, w->here);
  w->row = w->here->first_row;
  w->counted = UINT64_MAX;
  choose_tasks(w);
  annb_parallel(w->r->options.n_threads, w->n_tasks, run_task, w);
  for (size_t i = 0; i < w->n_tasks; i++) {
    if (!w->tasks[i].status) continue;
    if (err) *err = w->tasks[i].error;
    return w->tasks[i].status;
  }
  return ANNB_OK;
}

/* ---- taking rows ---- */

static const uint32_t *starts_of(const annb_windows *w, size_t t, uint64_t strip) { return w->starts + t * (w->n_strips + 1) + strip; }

static inline uint32_t key_at(const uint8_t *element) {
  uint32_t key;
  memcpy(&key, element, sizeof key);
  return key;
}

static void count_rows(annb_windows *w, uint64_t strip) {
  if (w->counted == strip) return;
  memset(w->counts, 0, sizeof *w->counts << w->plan.shift);
  for (size_t t = 0; t < w->n_tasks; t++) {
    const uint32_t *starts = starts_of(w, t, strip);
    for (uint32_t i = starts[0]; i < starts[1]; i++) w->counts[(uint16_t)key_at(w->elements + i * w->size)]++;
  }
  w->counted = strip;
}

/* A strip; or one row of it, and as many more as fit a piece. */
static void choose_rows(annb_windows *w, annb_rows_piece *piece) {
  const uint64_t height = UINT64_C(1) << w->plan.shift, at = w->row - w->here->first_row, strip = at >> w->plan.shift;
  const uint64_t end = (strip + 1) * height < w->here->n_rows ? (strip + 1) * height : w->here->n_rows;
  uint64_t n = 0;
  for (size_t t = 0; t < w->n_tasks; t++) n += starts_of(w, t, strip)[1] - starts_of(w, t, strip)[0];
  piece->first_row = w->row;
  piece->n_rows = end - at;
  if (n > w->plan.most_of_rows) {
    count_rows(w, strip);
    const uint32_t *counts = w->counts + at % height;
    for (piece->n_rows = 1, n = counts[0]; at + piece->n_rows < end && n + counts[piece->n_rows] <= w->plan.most_of_rows; piece->n_rows++)
      n += counts[piece->n_rows];
  }
  w->row += piece->n_rows;
  piece->bytes = n * (sizeof(uint32_t) + w->r->value_size);
}

annb_status annb_windows_take(annb_windows *w, annb_rows_piece *piece, annb_error *err) {
  const annb_window *here = w->here;
  annb_status s = ANNB_OK;
  piece->n_rows = 0;
  piece->later = false;
  if (!here || w->row == here->first_row + here->n_rows) {
    if (w->next == w->plan.n_windows) return ANNB_OK;
    piece->later = atomic_load(&w->waiting) > 0;
    if (!piece->later) s = read_window(w, err);
    if (s || piece->later) return s;
  }
  choose_rows(w, piece);
  atomic_fetch_add(&w->waiting, 1);
  return ANNB_OK;
}

/* ---- filling ---- */

typedef struct filling {
  const annb_windows *w;
  uint64_t strip;
  uint32_t first, n; /* rows of it */
  uint64_t *next;    /* of each: counts, then where its next element goes */
  uint32_t *columns;
  uint8_t *values;
} filling;

/* A run of elements, those of a task. */
typedef struct run {
  const uint8_t *at, *end;
} run;

static inline run run_of(const filling *f, size_t t) {
  const annb_windows *w = f->w;
  if (t >= w->n_tasks) return (run){NULL, NULL};
  const uint32_t *starts = starts_of(w, t, f->strip);
  return (run){w->elements + starts[0] * w->size, w->elements + starts[1] * w->size};
}

/* Runs are too short for the processor to see that one goes on. */
static inline void prefetch(run r) {
  for (; r.at < r.end; r.at += 64) __builtin_prefetch(r.at);
}

/* `size`, of a value, and `whole` (all rows of the strip are wanted) are constants. */
static inline __attribute__((always_inline)) void count_elements(const filling *f, size_t size, bool whole) {
  for (size_t t = 0; t < f->w->n_tasks; t++) {
    prefetch(run_of(f, t + 2));
    for (run r = run_of(f, t); r.at < r.end; r.at += sizeof(uint32_t) + size) {
      const uint32_t row = (uint16_t)key_at(r.at) - f->first;
      if (whole || row < f->n) f->next[row]++;
    }
  }
}

static inline __attribute__((always_inline)) void place_elements(const filling *f, size_t size, bool whole) {
  uint32_t *columns = f->columns;
  uint8_t *values = f->values;
  uint64_t *next = f->next;
  for (size_t t = 0; t < f->w->n_tasks; t++) {
    const uint32_t first = (uint32_t)f->w->tasks[t].begin.column;
    for (run r = run_of(f, t); r.at < r.end; r.at += sizeof(uint32_t) + size) {
      const uint32_t key = key_at(r.at), row = (uint16_t)key - f->first;
      if (!whole && row >= f->n) continue;
      const uint64_t to = next[row]++;
      columns[to] = first + (key >> COLUMN_SHIFT);
      memcpy(values + to * size, r.at + sizeof key, size);
    }
  }
}

static annb_status reserve_rows(const annb_windows *w, worker *k, uint64_t n, annb_error *err) {
  if (n <= k->room) return ANNB_OK;
  free(k->columns);
  free(k->out);
  n += n / 8;
  k->columns = malloc(n * sizeof *k->columns);
  k->out = malloc(n * w->r->value_size);
  k->room = k->columns && k->out ? n : 0;
  return k->room ? ANNB_OK : annb_fail_memory(err);
}

/* p[k + 2] counts row k, p[k + 1] then runs from its start to its end, which leaves in p[k] its start. */
static inline __attribute__((always_inline)) annb_status fill(filling *f, worker *k, size_t size, bool whole, annb_error *err) {
  uint64_t *p = k->indptr;
  memset(p, 0, (f->n + 2) * sizeof *p);
  f->next = p + 2;
  count_elements(f, size, whole);
  for (uint32_t i = 0; i < f->n; i++) p[i + 2] += p[i + 1];
  annb_status s = reserve_rows(f->w, k, p[f->n + 1], err);
  if (s) return s;
  f->next = p + 1;
  f->columns = k->columns;
  f->values = k->out;
  place_elements(f, size, whole);
  return ANNB_OK;
}

annb_status annb_windows_fill(annb_windows *w, uint32_t number, const annb_rows_piece *piece, annb_rows_chunk *chunk, annb_error *err) {
  worker *k = &w->workers[number];
  const uint64_t at = piece->first_row - w->here->first_row, strip = at >> w->plan.shift, n = piece->n_rows;
  const bool whole = n >> w->plan.shift || (at == strip << w->plan.shift && at + n == w->here->n_rows);
  const size_t size = w->r->value_size;
  filling f = {.w = w, .strip = strip, .first = (uint32_t)(at - (strip << w->plan.shift)), .n = (uint32_t)n};
  annb_status s;
  if (!whole) s = fill(&f, k, size, false, err);
  else if (size == 4) s = fill(&f, k, 4, true, err);
  else if (size == 8) s = fill(&f, k, 8, true, err);
  else s = fill(&f, k, size, true, err);
  *chunk = (annb_rows_chunk){n, k->indptr, k->columns, k->out};
  atomic_fetch_sub(&w->waiting, 1);
  return s;
}
