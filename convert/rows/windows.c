#include "windows.h"

#include "../../store/codec/row_sort.h"
#include "../../store/error.h"
#include "../../store/parallel.h"
#include "rows_internal.h"
#include "window_plan.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { TASK = 1 << 18 /* elements that a thread reads at a time */, AHEAD = 6 /* columns */ };

struct annb_windows {
  const annb_rows *r;
  annb_anywhere *index_source, *value_source;
  annb_window_plan plan;
  uint64_t stride; /* of `starts` */
  size_t next;     /* window */
  void **scratch;  /* of each thread: ANNB_WINDOW_PIECE indices */

  /* the window, as its columns stand beside each other */
  const annb_window *here;
  uint16_t *rows; /* within their strips */
  uint8_t *values;
  uint32_t *starts; /* of each strip and what is after the last, of each column: where its elements begin */
  uint64_t row;     /* the next to give out */
  uint64_t most_of_piece; /* elements, one row aside */
  uint64_t counted; /* UINT64_MAX, or the strip whose rows `counts` are of: one that is too full for one piece */
  uint32_t *counts;
  _Atomic uint64_t waiting; /* pieces that were taken and not filled */

  /* while it is read */
  uint64_t *tasks; /* columns where tasks begin, and their end */
  size_t n_tasks;
  annb_status *statuses; /* of tasks; the first error is the one to tell */
  annb_error *errors;
};

/* ---- opening ---- */

void annb_windows_close(annb_windows *w) {
  if (!w) return;
  for (uint32_t i = 0; w->scratch && i < w->r->options.n_threads; i++) free(w->scratch[i]);
  free(w->scratch);
  free(w->rows);
  free(w->values);
  free(w->starts);
  free(w->counts);
  free(w->tasks);
  free(w->statuses);
  free(w->errors);
  annb_window_plan_free(&w->plan);
  annb_anywhere_close(w->index_source);
  annb_anywhere_close(w->value_source);
  free(w);
}

static uint64_t strips_of(const annb_windows *w, const annb_window *window) { return ((window->n_rows - 1) >> w->plan.shift) + 1; }

static annb_status reserve(annb_windows *w, annb_error *err) {
  const annb_rows *r = w->r;
  uint64_t strips = 0, tasks = w->plan.most / TASK + 2 < r->m->n_cols ? w->plan.most / TASK + 2 : r->m->n_cols;
  for (size_t i = 0; i < w->plan.n_windows; i++)
    if (strips_of(w, &w->plan.windows[i]) > strips) strips = strips_of(w, &w->plan.windows[i]);
  w->stride = (r->m->n_cols + 15) / 16 * 16 + 16; /* strips of one column do not share lines of the cache */
  w->rows = malloc(w->plan.most * sizeof *w->rows + 1);
  w->values = malloc(w->plan.most * r->value_size + 1);
  w->starts = calloc((strips + 1) * w->stride, sizeof *w->starts);
  w->counts = malloc(sizeof *w->counts << w->plan.shift);
  w->tasks = malloc((tasks + 1) * sizeof *w->tasks);
  w->statuses = malloc(tasks * sizeof *w->statuses);
  w->errors = malloc(tasks * sizeof *w->errors);
  w->scratch = calloc(r->options.n_threads, sizeof *w->scratch);
  bool ok = w->rows && w->values && w->starts && w->counts && w->tasks && w->statuses && w->errors && w->scratch;
  for (uint32_t i = 0; ok && i < r->options.n_threads; i++) ok = (w->scratch[i] = malloc(ANNB_WINDOW_PIECE * r->index_size)) != NULL;
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
  w->most_of_piece = r->options.memory / 32 / (sizeof(uint32_t) + r->value_size);
  annb_status s = annb_anywhere_open(&m->indices, r->index_type, &w->index_source, err);
  if (!s && w->index_source) s = annb_anywhere_open(&m->data, m->memory_type, &w->value_source, err);
  if (!s && w->value_source) s = annb_window_plan_make(r, w->index_source, w->value_source, &w->plan, &possible, err);
  if (!s && possible) s = reserve(w, err);
  if (!s && possible) *out = w;
  else annb_windows_close(w);
  return s;
}

/* ---- reading a window ---- */

static uint64_t begin_in_file(const annb_windows *w, uint64_t column) {
  return w->plan.first[column] + (w->here->begin ? w->here->begin[column] : 0);
}

static uint64_t end_in_file(const annb_windows *w, uint64_t column) { return w->plan.first[column] + w->here->end[column]; }

static uint32_t length(const annb_windows *w, uint64_t column) {
  return w->here->end[column] - (w->here->begin ? w->here->begin[column] : 0);
}

static annb_status changed(const annb_windows *w, annb_error *err) {
  return annb_h5_say(err, ANNB_EINPUT, w->r->m->file, w->r->m->indices.object, "changed while it was read");
}

/* A column under way: its strips before `strip` have their starts. */
typedef struct column {
  uint64_t number, strip;
  uint32_t at, left; /* in the window */
} column;

static void begin_column(const annb_windows *w, column *c, uint64_t number, uint32_t at) {
  *c = (column){number, 0, at, number < w->r->m->n_cols ? length(w, number) : 0};
}

static void end_column(annb_windows *w, column *c) {
  for (const uint64_t n = strips_of(w, w->here); c->strip <= n; c->strip++) w->starts[c->strip * w->stride + c->number] = c->at;
  begin_column(w, c, c->number + 1, c->at);
}

/* The next rows of a column. */
static annb_status put_rows(annb_windows *w, column *c, const uint32_t *rows, uint32_t n, annb_error *err) {
  const uint64_t first = w->here->first_row;
  const unsigned shift = w->plan.shift;
  const uint32_t mask = (UINT32_C(1) << shift) - 1, low = (uint32_t)first;
  if (rows[0] < first || rows[n - 1] >= first + w->here->n_rows || !annb_ascends(rows, n)) return changed(w, err);
  uint16_t *out = w->rows + c->at;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t row = rows[i] - low;
    while (c->strip <= row >> shift) w->starts[c->strip++ * w->stride + c->number] = c->at + i;
    out[i] = (uint16_t)(row & mask);
  }
  c->at += n;
  c->left -= n;
  return ANNB_OK;
}

/* Elements [from, from + n) of the file, which begin in column `c`. */
static annb_status read_piece(annb_windows *w, column *c, uint64_t from, uint32_t n, void *scratch, annb_error *err) {
  const annb_rows *r = w->r;
  annb_status s = annb_anywhere_read(w->index_source, from, n, scratch, err);
  if (!s) s = annb_anywhere_read(w->value_source, from, n, w->values + c->at * r->value_size, err);
  if (!s) s = annb_rows_narrow(r, scratch, from, n, r->m->n_rows, err);
  for (uint32_t i = 0, k; i < n && !s; i += k) {
    while (!c->left) end_column(w, c);
    k = n - i < c->left ? n - i : c->left;
    s = put_rows(w, c, (const uint32_t *)scratch + i, k, err);
  }
  return s;
}

/* Columns [first, end), whose elements stand from `at` on. Neighbours that are side by side in the file are read together. */
static annb_status read_columns(annb_windows *w, uint64_t first, uint64_t end, void *scratch, annb_error *err) {
  column c;
  annb_status s = ANNB_OK;
  begin_column(w, &c, first, w->starts[first]);
  for (uint64_t i = first; i < end && !s;) {
    const uint64_t from = begin_in_file(w, i);
    uint64_t to = end_in_file(w, i);
    for (i++; i < end && (begin_in_file(w, i) == to || !length(w, i)); i++)
      if (length(w, i)) to = end_in_file(w, i);
    for (uint64_t at = from, n; at < to && !s; at += n) {
      n = to - at < ANNB_WINDOW_PIECE ? to - at : ANNB_WINDOW_PIECE;
      s = read_piece(w, &c, at, (uint32_t)n, scratch, err);
    }
  }
  while (!s && c.number < end) end_column(w, &c);
  return s;
}

static void run_task(void *user, uint32_t worker, size_t item) {
  annb_windows *w = user;
  w->statuses[item] = read_columns(w, w->tasks[item], w->tasks[item + 1], w->scratch[worker], &w->errors[item]);
}

/* Where the columns' elements will stand, and which of them make a task. */
static void lay_out(annb_windows *w) {
  const uint64_t n_cols = w->r->m->n_cols;
  uint32_t at = 0, begun = 0;
  w->n_tasks = 0;
  w->tasks[0] = 0;
  for (uint64_t i = 0; i < n_cols; i++) {
    if (at - begun >= TASK) {
      w->tasks[++w->n_tasks] = i;
      begun = at;
    }
    w->starts[i] = at;
    at += length(w, i);
  }
  w->tasks[++w->n_tasks] = n_cols;
}

static annb_status read_window(annb_windows *w, annb_error *err) {
  w->here = &w->plan.windows[w->next++];
  w->row = w->here->first_row;
  w->counted = UINT64_MAX;
  lay_out(w);
  annb_parallel(w->r->options.n_threads, w->n_tasks, run_task, w);
  size_t i = 0;
  while (i < w->n_tasks && !w->statuses[i]) i++;
  if (i == w->n_tasks) return ANNB_OK;
  if (err) *err = w->errors[i];
  return w->statuses[i];
}

/* ---- rows of a strip ---- */

static uint64_t elements_of(const annb_windows *w, const uint32_t *starts) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < w->r->m->n_cols; i++) n += starts[w->stride + i] - starts[i];
  return n;
}

static void count_rows(annb_windows *w, uint64_t strip, const uint32_t *starts) {
  if (w->counted == strip) return;
  memset(w->counts, 0, sizeof *w->counts << w->plan.shift);
  for (uint64_t i = 0; i < w->r->m->n_cols; i++)
    for (uint32_t k = starts[i]; k < starts[w->stride + i]; k++) w->counts[w->rows[k]]++;
  w->counted = strip;
}

/* A strip, or as many of its rows as have some elements more than one usually has. */
static void choose_rows(annb_windows *w, annb_rows_piece *piece) {
  const uint64_t height = UINT64_C(1) << w->plan.shift, at = w->row - w->here->first_row, strip = at >> w->plan.shift;
  const uint64_t end = (strip + 1) * height < w->here->n_rows ? (strip + 1) * height : w->here->n_rows;
  const uint32_t *starts = w->starts + strip * w->stride;
  uint64_t n = elements_of(w, starts);
  piece->first_row = w->row;
  piece->n_rows = end - at;
  if (n > w->most_of_piece) {
    count_rows(w, strip, starts);
    const uint32_t *counts = w->counts + at % height;
    for (piece->n_rows = 1, n = counts[0]; at + piece->n_rows < end && n + counts[piece->n_rows] <= w->most_of_piece; piece->n_rows++)
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

/* Of one column, in a piece. */
typedef struct slice {
  uint32_t from, end;
} slice;

typedef struct filling {
  const annb_windows *w;
  const uint32_t *starts;
  uint64_t *next; /* of each row: where its next element goes */
  uint32_t first, last; /* rows of the strip */
  bool whole;
} filling;

static inline slice slice_of(const filling *f, uint64_t i) {
  const annb_windows *w = f->w;
  slice x = {f->starts[i], f->starts[w->stride + i]};
  while (!f->whole && x.from < x.end && w->rows[x.from] < f->first) x.from++;
  while (!f->whole && x.from < x.end && w->rows[x.end - 1] > f->last) x.end--;
  return x;
}

static uint64_t count_elements(const filling *f, uint64_t *counts) {
  const uint64_t n_cols = f->w->r->m->n_cols;
  const uint16_t *rows = f->w->rows;
  uint64_t n = 0;
  for (uint64_t i = 0; i < n_cols; i++) {
    const slice x = slice_of(f, i);
    __builtin_prefetch(rows + f->starts[i + AHEAD]);
    for (uint32_t k = x.from; k < x.end; k++) counts[rows[k] - f->first]++;
    n += x.end - x.from;
  }
  return n;
}

/* `size` is a constant at the hot call sites, so that the copy is one move. */
static inline void place(const filling *f, annb_rows_piece *piece, size_t size) {
  const uint64_t n_cols = f->w->r->m->n_cols;
  const uint16_t *rows = f->w->rows;
  const uint8_t *values = f->w->values;
  uint32_t *indices = piece->indices;
  uint8_t *out = piece->values;
  for (uint64_t i = 0; i < n_cols; i++) {
    const slice x = slice_of(f, i);
    __builtin_prefetch(values + f->starts[i + AHEAD] * size);
    for (uint32_t k = x.from; k < x.end; k++) {
      const uint64_t to = f->next[rows[k] - f->first]++;
      indices[to] = (uint32_t)i;
      memcpy(out + to * size, values + k * size, size);
    }
  }
}

static annb_status reserve_piece(const annb_windows *w, annb_rows_piece *piece, uint64_t n, annb_error *err) {
  if (n <= piece->room) return ANNB_OK;
  free(piece->indices);
  free(piece->values);
  n += n / 8;
  piece->indices = malloc(n * sizeof(uint32_t));
  piece->values = malloc(n * w->r->value_size);
  piece->room = piece->indices && piece->values ? n : 0;
  return piece->room ? ANNB_OK : annb_fail_memory(err);
}

/* p[k + 2] counts row k, p[k + 1] then runs from its start to its end, which leaves in p[k] its start. */
static annb_status fill(const annb_windows *w, annb_rows_piece *piece, annb_error *err) {
  const uint64_t at = piece->first_row - w->here->first_row, strip = at >> w->plan.shift, n = piece->n_rows;
  annb_status s = annb_rows_reserve_rows(piece, n + 1, err);
  if (s) return s;
  uint64_t *p = piece->indptr;
  filling f = {w, w->starts + strip * w->stride, p + 1, 0, 0, false};
  f.first = (uint32_t)(at - (strip << w->plan.shift));
  f.last = f.first + (uint32_t)n - 1;
  f.whole = f.first == 0 && (n >> w->plan.shift || at + n == w->here->n_rows);
  memset(p, 0, (n + 2) * sizeof *p);
  s = reserve_piece(w, piece, count_elements(&f, p + 2), err);
  if (s) return s;
  for (uint64_t k = 0; k < n; k++) p[k + 2] += p[k + 1];
  if (w->r->value_size == 4) place(&f, piece, 4);
  else if (w->r->value_size == 8) place(&f, piece, 8);
  else place(&f, piece, w->r->value_size);
  return ANNB_OK;
}

annb_status annb_windows_fill(annb_windows *w, annb_rows_piece *piece, annb_rows_chunk *chunk, annb_error *err) {
  const annb_status s = fill(w, piece, err);
  *chunk = (annb_rows_chunk){piece->n_rows, piece->indptr, piece->indices, piece->values};
  atomic_fetch_sub(&w->waiting, 1);
  return s;
}
