/* Checking every byte of a segment (SPEC.md, section 8): goes on after a finding, as far as the rest can still be told. */
#include "segment.h"

#include "../cursor.h"
#include "../error.h"

#include <annblock/annblock.h>
#include <stdlib.h>

#define ULL(x) ((unsigned long long)(x))

typedef struct walk {
  annb_segment *segment;
  annb_report_fn report;
  void *user;
  bool stopped, rows_lost; /* rows_lost: some could not be read, so that sums say nothing */
  annb_fmt_segment_meta sums;
  uint64_t end; /* of the last record that could be located */
  bool end_known;
  uint32_t *indices;
  uint8_t *values;
  uint64_t room;
  annb_scratch scratch;
} walk;

static void found(walk *w, const annb_error *finding) {
  if (!w->stopped && !w->report(w->user, finding)) w->stopped = true;
}

#define FOUND(w, row, ...)                                                               \
  do {                                                                                   \
    annb_error finding_;                                                                 \
    annb_fail_row(&finding_, ANNB_ECORRUPT, (w)->segment->path, (int64_t)(row), __VA_ARGS__); \
    found(w, &finding_);                                                                 \
  } while (0)

/* The largest row bounds the memory; a record's length bounds it in turn, see entry_valid in segment.c. */
static bool row_room(walk *w, uint64_t nnz) {
  if (w->indices && nnz <= w->room) return true;
  uint64_t room = nnz + nnz / 2 + ANNB_DECODE_SLACK;
  free(w->indices);
  free(w->values);
  w->indices = malloc(room * sizeof *w->indices);
  w->values = malloc(room * 8);
  w->room = w->indices && w->values ? nnz + nnz / 2 : 0;
  return w->indices && w->values;
}

static void check_record(walk *w, uint64_t row, const annb_record_ref *record) {
  annb_error err;
  annb_status s = annb_segment_check(w->segment, row, record, &err);
  if (!s && !row_room(w, record->nnz)) s = annb_fail_memory(&err);
  if (!s) s = annb_segment_decode(w->segment, row, record, w->indices, w->values, &w->scratch, &err);
  if (s) found(w, &err);
}

/* The bytes between the record before, which must be known, and this one. */
static void check_gap(walk *w, uint64_t row, const annb_record_ref *record) {
  const annb_segment *g = w->segment;
  uint64_t start = (uint64_t)(record->data - g->map.data);
  if (w->end_known && !annb_all_zero(g->map.data + w->end, start - w->end))
    FOUND(w, row, "padding before row %llu, bytes %llu to %llu, is not zero", ULL(row), ULL(w->end), ULL(start));
  w->end = start + record->length;
  w->end_known = true;
}

static void check_row(walk *w, uint64_t row) {
  annb_error err;
  annb_record_ref record;
  if (annb_segment_locate(w->segment, row, &record, &err)) {
    w->rows_lost = true;
    w->end_known = false;
    found(w, &err);
    return;
  }
  w->sums.n_rows++;
  w->sums.nnz += record.nnz;
  if (record.nnz > w->sums.max_row_nnz) w->sums.max_row_nnz = record.nnz;
  if (record.length > w->sums.max_record) w->sums.max_record = record.length;
  check_gap(w, row, &record);
  check_record(w, row, &record);
}

/* Rows of one page; `before` says whether the page before is good, which the first row needs. */
static void check_page_rows(walk *w, uint64_t page, bool before) {
  uint64_t row = page * ANNB_PAGE_ENTRIES, end = row + ANNB_PAGE_ENTRIES;
  if (end > w->segment->meta.n_rows) end = w->segment->meta.n_rows;
  if (!before) row++; /* its record's start is not known */
  for (; row < end && !w->stopped; row++) check_row(w, row);
}

static void check_page_tail(walk *w, uint64_t page) {
  const annb_segment *g = w->segment;
  uint64_t used = g->meta.n_rows - page * ANNB_PAGE_ENTRIES;
  if (used >= ANNB_PAGE_ENTRIES) return;
  const annb_fmt_page *p = (const annb_fmt_page *)(const void *)(g->map.data + g->index_offset + page * ANNB_PAGE);
  if (!annb_all_zero(&p->entries[used], (ANNB_PAGE_ENTRIES - used) * sizeof *p->entries))
    FOUND(w, ANNB_NO_ROW, "index page %llu has entries past the last row", ULL(page));
}

static void check_pages(walk *w) {
  annb_segment *g = w->segment;
  bool before = true;
  for (uint64_t page = 0; page < g->n_pages && !w->stopped; page++) {
    annb_error err;
    bool good = annb_segment_check_page(g, page, &err) == ANNB_OK;
    if (good) {
      check_page_tail(w, page);
      check_page_rows(w, page, before);
    } else {
      w->rows_lost = true;
      w->end_known = false;
      found(w, &err);
    }
    before = good;
  }
}

static void check_index_hash(walk *w) {
  const annb_segment *g = w->segment;
  const annb_fmt_section *index;
  annb_hash128_stream stream;
  uint8_t hash[16];
  if (annb_envelope_section(&g->envelope, ANNB_SEC_INDEX, ANNB_PAGE, g->path, &index, NULL)) return; /* open has seen it */
  annb_hash128_begin(&stream);
  for (uint64_t page = 0; page < g->n_pages; page++) annb_hash128_add(&stream, g->map.data + g->index_offset + page * ANNB_PAGE, 8);
  annb_hash128_end(&stream, hash);
  if (memcmp(hash, index->hash, sizeof hash)) FOUND(w, ANNB_NO_ROW, "hash of the index section does not match");
}

static void check_sums(walk *w) {
  const annb_fmt_segment_meta *m = &w->segment->meta, *s = &w->sums;
  if (w->rows_lost || w->stopped) return;
  if (m->nnz != s->nnz || m->max_row_nnz != s->max_row_nnz || m->max_record != s->max_record || m->n_rows != s->n_rows)
    FOUND(w, ANNB_NO_ROW,
          "meta section states %llu elements, at most %llu in a row and %llu bytes in a record; the rows have %llu, %llu and %llu",
          ULL(m->nnz), ULL(m->max_row_nnz), ULL(m->max_record), ULL(s->nnz), ULL(s->max_row_nnz), ULL(s->max_record));
}

void annb_segment_verify(annb_segment *segment, annb_report_fn report, void *user) {
  walk w = {.segment = segment, .report = report, .user = user, .end = ANNB_PAGE, .end_known = true};
  annb_error err;
  if (annb_envelope_check_gaps(segment->map.data, &segment->envelope, segment->path, &err)) found(&w, &err);
  if (!w.stopped) check_index_hash(&w);
  check_pages(&w);
  check_sums(&w);
  free(w.indices);
  free(w.values);
  annb_scratch_free(&w.scratch);
}
