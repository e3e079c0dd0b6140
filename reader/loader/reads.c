/* PREAD: index pages and records read into memory by a pool of threads, in runs. */
#include "loader_internal.h"

#include "../../store/error.h"
#include "../../store/thread.h"

#include <stdlib.h>

enum { NEAR = 4096, LONGEST = 1 << 20, PAGES_AT_ONCE = 1024, MAX_FILES = 128 };

/* Bytes of a file to memory. */
typedef struct annb_request {
  int fd;
  bool failed;
  const char *path;
  uint64_t offset, length;
  uint8_t *to;
} request;

typedef struct file {
  const annb_segment *segment;
  int fd;
} file;

struct annb_reads {
  pthread_t *threads;
  uint32_t n_threads;
  pthread_mutex_t lock;
  pthread_cond_t wake, done;
  bool stop;
  annb_reading *first; /* those that have requests not begun: the index, then units in order */
  uint64_t n_left;     /* requests that are submitted and not done */
  /* the planner's alone: */
  file files[MAX_FILES];
  uint32_t n_files, last;
};

/* ---- the pool ---- */

/* With the lock: do one of the requests. */
static void do_one(struct annb_reads *r) {
  annb_reading *g = r->first;
  request *q = &g->requests[g->next++];
  annb_error err;
  if (g->next == g->n) r->first = g->after;
  pthread_mutex_unlock(&r->lock);
  annb_status s = annb_io_pread(q->fd, q->path, q->to, (size_t)q->length, q->offset, &err);
  pthread_mutex_lock(&r->lock);
  q->failed = s != ANNB_OK;
  if (s && !g->failed) g->failure = err;
  if (s) g->failed = true;
  g->n_done++;
  r->n_left--;
  if (g->n_done == g->n || !r->n_left) pthread_cond_signal(&r->done);
}

static void *read_all(void *user) {
  struct annb_reads *r = user;
  pthread_mutex_lock(&r->lock);
  while (!r->stop) {
    if (r->first) do_one(r);
    else pthread_cond_wait(&r->wake, &r->lock);
  }
  pthread_mutex_unlock(&r->lock);
  return NULL;
}

annb_status annb_reads_open(uint32_t n_threads, struct annb_reads **out, annb_error *err) {
  struct annb_reads *r = calloc(1, sizeof *r);
  if (r) r->threads = calloc(n_threads, sizeof *r->threads);
  if (!r || !r->threads) {
    free(r);
    return annb_fail_memory(err);
  }
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->wake, NULL);
  pthread_cond_init(&r->done, NULL);
  while (r->n_threads < n_threads && annb_thread_start(&r->threads[r->n_threads], read_all, r)) r->n_threads++;
  *out = r; /* with fewer threads, or none, the planner reads more itself */
  return ANNB_OK;
}

static void close_files(struct annb_reads *r) {
  for (uint32_t i = 0; i < r->n_files; i++) (void)annb_io_close(r->files[i].fd, "", NULL);
  r->n_files = r->last = 0;
}

void annb_reads_cancel(struct annb_reads *r) {
  if (!r) return;
  pthread_mutex_lock(&r->lock);
  r->stop = true;
  pthread_cond_broadcast(&r->wake);
  pthread_cond_signal(&r->done);
  pthread_mutex_unlock(&r->lock);
}

void annb_reads_close(struct annb_reads *r) {
  if (!r) return;
  annb_reads_cancel(r);
  for (uint32_t i = 0; i < r->n_threads; i++) pthread_join(r->threads[i], NULL);
  close_files(r);
  pthread_mutex_destroy(&r->lock);
  pthread_cond_destroy(&r->wake);
  pthread_cond_destroy(&r->done);
  free(r->threads);
  free(r);
}

/* Nobody has seen it yet. */
static bool prepare(annb_reading *g, uint64_t most) {
  g->requests = annb_slot_room(&g->room, (size_t)(most + 1) * sizeof *g->requests);
  g->n = g->next = g->n_done = 0;
  g->failed = false;
  g->after = NULL;
  return g->requests != NULL;
}

/* Requests up to `n` are to be read: before those of others, or behind them. */
static void submit(struct annb_reads *r, annb_reading *g, uint64_t n, bool urgent) {
  pthread_mutex_lock(&r->lock);
  if (n > g->n) {
    annb_reading **at = &r->first;
    while (!urgent && *at && *at != g) at = &(*at)->after;
    if (*at != g) g->after = *at;
    *at = g;
    r->n_left += n - g->n;
    g->n = n;
    pthread_cond_broadcast(&r->wake);
  }
  pthread_mutex_unlock(&r->lock);
}

/* Until all that was submitted of this one, or (NULL) of all, is read; each request says whether it failed. */
static annb_status wait_for(struct annb_reads *r, const annb_reading *g, annb_error *err) {
  pthread_mutex_lock(&r->lock);
  while ((g ? g->n_done < g->n : r->n_left > 0) && !r->stop) {
    if (!r->n_threads) do_one(r);
    else pthread_cond_wait(&r->done, &r->lock);
  }
  bool stop = r->stop;
  pthread_mutex_unlock(&r->lock);
  return stop ? annb_fail(err, ANNB_ECANCELED, NULL, "reading was stopped") : ANNB_OK;
}

/* ---- files: as many as may be open at once; when there are more, those before are read first ---- */

/* The descriptor, or -1: all are in use by requests that wait. */
static annb_status get_file(struct annb_reads *r, const annb_segment *segment, int *fd, annb_error *err) {
  for (uint32_t i = 0; i < r->n_files; i++) {
    file *f = &r->files[(r->last + i) % r->n_files];
    if (f->segment != segment) continue;
    r->last = (r->last + i) % r->n_files;
    *fd = f->fd;
    return ANNB_OK;
  }
  *fd = -1;
  if (r->n_files == MAX_FILES) return ANNB_OK;
  annb_status s = annb_io_open(segment->path, fd, err);
  if (s) return s;
  annb_io_set_scattered_fd(*fd);
  r->last = r->n_files++;
  r->files[r->last] = (file){segment, *fd};
  return ANNB_OK;
}

/* ---- building requests ---- */

typedef struct builder {
  annb_planner *planner;
  struct annb_reads *reads;
  annb_unit *unit;
  annb_reading *reading;
  uint64_t n, begun; /* requests; those before `begun` are submitted */
} builder;

static void submit_all(builder *b) {
  submit(b->reads, b->reading, b->n, b->reading == &b->planner->index);
  b->begun = b->n;
}

/* A request for bytes of a segment; joined to the last when they follow it in file and memory and it is short. */
static annb_status want(builder *b, const annb_segment *segment, uint64_t offset, uint64_t length, uint8_t *to, annb_error *err) {
  request *last = b->n > b->begun ? &b->reading->requests[b->n - 1] : NULL;
  b->planner->bytes_read += length;
  if (last && last->path == segment->path && last->offset + last->length == offset && last->to + last->length == to &&
      last->length < LONGEST) {
    last->length += length;
    return ANNB_OK;
  }
  int fd;
  annb_status s = get_file(b->reads, segment, &fd, err);
  if (!s && fd < 0) {
    submit_all(b);
    s = wait_for(b->reads, NULL, err); /* then no file is in use */
    if (s) return s;
    close_files(b->reads);
    s = get_file(b->reads, segment, &fd, err);
  }
  if (!s) b->reading->requests[b->n++] = (request){.fd = fd, .path = segment->path, .offset = offset, .length = length, .to = to};
  return s;
}

/* ---- index pages ---- */

static uint64_t page_of(uint64_t row) { return row / ANNB_PAGE_ENTRIES; }
static uint64_t page_before(uint64_t row) { return row ? (row - 1) / ANNB_PAGE_ENTRIES : 0; }

/* Pages of rows first … in order, until there are enough: *end is the first row not in. */
static annb_status want_pages(builder *b, uint32_t matrix, uint64_t first, uint64_t *end, uint8_t *pages, annb_error *err) {
  const annb_unit *unit = b->unit;
  const annb_segment *segment = NULL;
  uint64_t last = 0, n = 0, i;
  annb_status s = ANNB_OK;
  for (i = first; !s && i < unit->n_rows && n + 2 <= PAGES_AT_ONCE; i++) {
    const annb_located *r = &unit->records[matrix][unit->order[i]];
    if (!r->segment) continue;
    uint64_t page = page_before(r->segment_row);
    bool known = segment == r->segment && page <= last;
    for (page += known; !s && page <= page_of(r->segment_row); page++) {
      if (segment == r->segment && page <= last) continue;
      s = want(b, r->segment, annb_segment_page_offset(r->segment, page), ANNB_PAGE, pages + n++ * ANNB_PAGE, err);
      segment = r->segment;
      last = page;
    }
  }
  *end = i;
  return s;
}

/* Whether the bytes at `at` came. */
static bool came(const annb_reading *g, const uint8_t *at) {
  for (uint64_t q = 0; g->failed && q < g->n; q++)
    if (g->requests[q].failed && at >= g->requests[q].to && at < g->requests[q].to + g->requests[q].length) return false;
  return true;
}

/* What the pages say of rows first … end-1, in the order of want_pages. */
static void take_pages(const builder *b, uint32_t matrix, uint64_t first, uint64_t end, const uint8_t *pages, uint64_t *offsets) {
  annb_unit *unit = b->unit;
  const annb_segment *segment = NULL;
  const annb_fmt_page *at = NULL, *before = NULL; /* of `last` and the page before it */
  uint64_t last = 0, n = 0;
  annb_error bad, err; /* `bad`: of the last page that is not good */
  for (uint64_t i = first; i < end; i++) {
    annb_located *r = &unit->records[matrix][unit->order[i]];
    if (!r->segment) continue;
    uint64_t page = page_before(r->segment_row);
    bool known = segment == r->segment && page <= last;
    for (page += known; page <= page_of(r->segment_row); page++) {
      if (segment == r->segment && page <= last) continue;
      before = at;
      at = (const annb_fmt_page *)(const void *)(pages + n++ * ANNB_PAGE);
      if (!came(b->reading, (const uint8_t *)at)) {
        bad = b->reading->failure;
        at = NULL;
      } else if (annb_segment_verify_page(r->segment, page, at, &bad)) at = NULL;
      segment = r->segment;
      last = page;
    }
    const annb_fmt_page *previous = page_before(r->segment_row) == page_of(r->segment_row) ? at : before;
    annb_status s = at && previous ? ANNB_OK : bad.status;
    if (s) err = bad;
    else s = annb_segment_locate_by(r->segment, r->segment_row, at, previous, &r->record, &offsets[unit->order[i]], &err);
    if (!s) continue;
    annb_name_row(r, s, &err);
    annb_unit_fail(unit, unit->order[i], &err);
    r->record = (annb_record_ref){NULL, 0, 0, 0};
  }
}

/* ---- records ---- */

/* A run of records: where its last one ends in file and arena. */
typedef struct record_run {
  const annb_segment *segment;
  uint64_t length, end, used;
} record_run;

/* What lies between the run and the next record and is read too, when it is little beside the run: the arena then holds at most half
 * as much again as the records. UINT64_MAX: the record starts a run of its own. */
static uint64_t gap_before(const record_run *run, const annb_segment *segment, uint64_t offset) {
  if (run->segment != segment || offset < run->end) return UINT64_MAX;
  uint64_t gap = offset - run->end;
  return gap <= NEAR && gap <= run->length / 2 ? gap : UINT64_MAX;
}

/* The size of the arena, or with `to` requests for all records and their places in it. */
static annb_status lay_out(builder *b, uint32_t matrix, const uint64_t *offsets, uint8_t *to, uint64_t *size, annb_error *err) {
  const annb_unit *unit = b->unit;
  record_run run = {0};
  for (uint64_t i = 0; i < unit->n_rows; i++) {
    annb_located *r = &unit->records[matrix][unit->order[i]];
    uint64_t offset = offsets[unit->order[i]], length = r->record.length, gap;
    if (!length) continue;
    bool again = run.segment == r->segment && offset + length <= run.end; /* a row that comes twice */
    if (!again) {
      gap = gap_before(&run, r->segment, offset);
      bool follows = gap != UINT64_MAX;
      if (!follows) gap = run.length = 0;
      annb_status s = to ? want(b, r->segment, offset - gap, gap + length, to + run.used, err) : ANNB_OK;
      if (s) return s;
      run.segment = r->segment;
      run.length += gap + length;
      run.used += gap + length;
      run.end = offset + length;
    }
    if (to) r->record.data = to + run.used - (run.end - offset);
  }
  *size = run.used;
  return ANNB_OK;
}

static annb_status read_index(builder *b, uint32_t matrix, uint64_t *offsets, annb_error *err) {
  uint8_t *pages = annb_slot_room(&b->planner->pages, (size_t)PAGES_AT_ONCE * ANNB_PAGE);
  annb_status s = pages ? ANNB_OK : annb_fail_memory(err);
  b->reading = &b->planner->index;
  for (uint64_t first = 0, end; !s && first < b->unit->n_rows; first = end) {
    if (!prepare(b->reading, PAGES_AT_ONCE)) return annb_fail_memory(err);
    b->n = b->begun = 0;
    s = want_pages(b, matrix, first, &end, pages, err);
    submit_all(b);
    annb_status read = wait_for(b->reads, b->reading, s ? NULL : err); /* after a failure, too: the memory is used again */
    if (!s) s = read;
    if (!s) take_pages(b, matrix, first, end, pages, offsets);
  }
  return s;
}

static annb_status begin_records(builder *b, uint32_t matrix, const uint64_t *offsets, annb_error *err) {
  uint64_t size = 0;
  annb_status s = lay_out(b, matrix, offsets, NULL, &size, err);
  uint8_t *arena = annb_slot_room(&b->unit->arenas[matrix], (size_t)size + 1);
  if (!arena) return annb_fail_memory(err);
  b->reading = &b->unit->reading;
  b->n = b->begun = b->reading->n;
  s = lay_out(b, matrix, offsets, arena, &size, err);
  submit_all(b);
  return s;
}

static void forget(annb_unit *unit, uint32_t matrix, const annb_error *err) {
  annb_unit_fail(unit, 0, err);
  for (uint64_t i = 0; i < unit->n_rows; i++) unit->records[matrix][i].record = (annb_record_ref){NULL, 0, 0, 0};
}

void annb_reads_begin(annb_planner *planner, annb_unit *unit) {
  builder b = {.planner = planner, .reads = planner->reads, .unit = unit};
  annb_error err;
  uint32_t n_matrices = planner->loader->n_matrices;
  uint64_t *offsets = annb_slot_room(&planner->spans, (size_t)(unit->n_rows + 1) * sizeof *offsets);
  annb_status s = offsets && prepare(&unit->reading, unit->n_rows * n_matrices) ? ANNB_OK : annb_fail_memory(&err);
  for (uint32_t i = 0; i < n_matrices; i++) {
    if (!s) s = read_index(&b, i, offsets, &err);
    if (!s) s = begin_records(&b, i, offsets, &err);
    if (s) forget(unit, i, &err);
  }
}

/* Rows whose bytes did not come. */
static void fail_rows(annb_unit *unit, uint32_t matrix) {
  const annb_reading *g = &unit->reading;
  for (uint64_t i = 0; i < unit->n_rows; i++) {
    const annb_located *r = &unit->records[matrix][i];
    if (!r->record.length || (came(g, r->record.data) && came(g, r->record.data + r->record.length - 1))) continue;
    annb_error err = g->failure;
    annb_name_row(r, ANNB_EIO, &err);
    annb_unit_fail(unit, i, &err);
  }
}

void annb_reads_finish(annb_planner *planner, annb_unit *unit) {
  annb_error err;
  if (wait_for(planner->reads, &unit->reading, &err)) return; /* the loader ends */
  for (uint32_t i = 0; unit->reading.failed && i < planner->loader->n_matrices; i++) fail_rows(unit, i);
}
