/* Writing a segment: rows are taken by whole blocks, encoded in waves of one block per thread; while a wave is encoded, the wave
 * before it is written. Only rows short of a block are copied. Index pages wait in an anonymous file. */
#include "segment.h"

#include "codec_kinds.h"
#include "cursor.h"
#include "error.h"
#include "parallel.h"
#include "row_sort.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 256, SPOOL_PAGES = 16 /* read back at once */ };

/* One encoded block. */
typedef struct block {
  uint64_t first, n_rows; /* first: within the rows given */
  uint64_t segment_row;
  uint8_t *bytes;
  size_t used, room;
  annb_fmt_entry *entries; /* `end` from the block's start */
  uint64_t entries_room;
  annb_status status;
} block;

/* Rows short of a block, copied from earlier calls. */
typedef struct pending {
  uint64_t n_rows, nnz, rows_room, nnz_room;
  uint64_t *indptr; /* from 0 */
  uint32_t *indices;
  uint8_t *values;
} pending;

/* Rows of one append call: the pending ones, then the caller's. */
typedef struct rows {
  const pending *before;
  const uint64_t *indptr;
  const uint32_t *indices;
  const uint8_t *values;
} rows;

struct annb_segment_writer {
  annb_ofile file;
  annb_fmt_header header;
  annb_segment_params params;
  annb_fmt_segment_meta meta; /* n_rows counts encoded rows */
  uint32_t value_size, n_threads;
  uint64_t encoded_end; /* where the blocks encoded so far will end */
  int spool;
  char *spool_dir;
  annb_fmt_page page; /* being filled */
  uint64_t n_pages;
  pending pending;
  block *waves[2]; /* n_threads blocks each */
  uint32_t n_blocks[2];
  int current; /* the wave that is encoded next */
  annb_scratch *scratch;
  annb_row_sorter *sorters;
  rows rows;
  bool failed;
  annb_status write_status; /* of the write inside a wave */
  annb_error *write_error;
};

/* ---- growing ---- */

static bool grow(void **data, uint64_t *room, uint64_t need, size_t size) {
  if (need <= *room) return true;
  uint64_t more = need + need / 2, bytes;
  void *p = annb_mul(more, size, &bytes) && bytes <= SIZE_MAX / 2 ? realloc(*data, (size_t)bytes) : NULL;
  if (!p) return false;
  *data = p;
  *room = more;
  return true;
}

static bool block_room(block *b, size_t need) {
  uint64_t room = b->room;
  void *p = b->bytes;
  bool ok = grow(&p, &room, need, 1);
  b->bytes = p;
  b->room = (size_t)room;
  return ok;
}

static bool block_entries(block *b, uint64_t n_rows) {
  void *p = b->entries;
  bool ok = grow(&p, &b->entries_room, n_rows, sizeof *b->entries);
  b->entries = p;
  return ok;
}

/* ---- opening and releasing ---- */

static void release(annb_segment_writer *w) {
  annb_ofile_abort(&w->file);
  if (w->spool >= 0) (void)annb_io_close(w->spool, w->spool_dir, NULL);
  for (int k = 0; k < 2; k++)
    for (uint32_t i = 0; w->waves[k] && i < w->n_threads; i++) {
      free(w->waves[k][i].bytes);
      free(w->waves[k][i].entries);
    }
  for (uint32_t i = 0; w->scratch && i < w->n_threads; i++) annb_scratch_free(&w->scratch[i]);
  for (uint32_t i = 0; w->sorters && i < w->n_threads; i++) annb_row_sorter_free(&w->sorters[i]);
  free(w->waves[0]);
  free(w->waves[1]);
  free(w->scratch);
  free(w->sorters);
  free(w->pending.indptr);
  free(w->pending.indices);
  free(w->pending.values);
  free(w->spool_dir);
  free(w);
}

static annb_status check_params(const annb_segment_params *p, const char *path, annb_error *err) {
  if (!annb_dtype_size(p->dtype)) return annb_fail(err, ANNB_EINVAL, path, "value type %d is not known", (int)p->dtype);
  if (p->n_cols > ANNB_MAX_COLS || p->row_base > ANNB_MAX_ROWS)
    return annb_fail(err, ANNB_EINVAL, path, "%llu columns from row %llu on are more than the format allows", (unsigned long long)p->n_cols,
                     (unsigned long long)p->row_base);
  if (p->block_rows == 0 || p->block_rows > ANNB_MAX_BLOCK_ROWS || (p->block_rows & (p->block_rows - 1)))
    return annb_fail(err, ANNB_EINVAL, path, "rows in a block must be a power of two up to %u, not %u", ANNB_MAX_BLOCK_ROWS, p->block_rows);
  return ANNB_OK;
}

static void make_header(annb_segment_writer *w) {
  const annb_segment_params *p = &w->params;
  annb_fmt_segment_header h = {.n_cols = p->n_cols, .row_base = p->row_base, .block_rows = p->block_rows, .dtype = (uint8_t)p->dtype};
  h.codecs = (p->codecs & ANNB_KNOWN_CODECS) | UINT64_C(1) << ANNB_CODEC_PLAIN;
  memcpy(h.tag, p->tag, sizeof h.tag);
  if (p->to_stored) memcpy(h.gene_order, p->gene_order, sizeof h.gene_order);
  annb_header_init(&w->header, ANNB_FILE_SEGMENT, &h, sizeof h);
  if (p->to_stored) w->header.incompat |= ANNB_INCOMPAT_GENE_ORDER;
  if (p->sort) w->header.export_mask |= ANNB_EXPORT_SORTED;
  annb_header_seal(&w->header);
}

static annb_status start(annb_segment_writer *w, const char *path, const char *spool_dir, annb_error *err) {
  w->spool_dir = strdup(spool_dir);
  w->waves[0] = calloc(w->n_threads, sizeof *w->waves[0]);
  w->waves[1] = calloc(w->n_threads, sizeof *w->waves[1]);
  w->scratch = calloc(w->n_threads, sizeof *w->scratch);
  w->sorters = calloc(w->n_threads, sizeof *w->sorters);
  if (!w->spool_dir || !w->waves[0] || !w->waves[1] || !w->scratch || !w->sorters) return annb_fail_memory(err);
  annb_status s = annb_ofile_create(path, &w->file, err);
  if (!s) s = annb_io_anonymous(spool_dir, &w->spool, err);
  if (!s) s = annb_ofile_write(&w->file, &w->header, sizeof w->header, err);
  return s ? s : annb_ofile_pad(&w->file, ANNB_PAGE, err);
}

annb_status annb_segment_writer_open(const char *path, const char *spool_dir, const annb_segment_params *params, annb_segment_writer **out,
                                     annb_error *err) {
  annb_status s = check_params(params, path, err);
  if (s) return s;
  annb_segment_writer *w = calloc(1, sizeof *w);
  if (!w) return annb_fail_memory(err);
  w->params = *params;
  w->spool = -1;
  w->value_size = annb_dtype_size(params->dtype);
  w->n_threads = params->n_threads == 0 ? 1 : params->n_threads < MAX_THREADS ? params->n_threads : MAX_THREADS;
  w->encoded_end = ANNB_PAGE;
  make_header(w);
  s = start(w, path, spool_dir, err);
  if (s) release(w);
  else *out = w;
  return s;
}

/* ---- encoding, on any thread ---- */

/* Row `i` of the rows given. */
static uint32_t row_of(const annb_segment_writer *w, uint64_t i, const uint32_t **indices, const uint8_t **values) {
  const rows *r = &w->rows;
  bool old = i < r->before->n_rows;
  const uint64_t *indptr = old ? r->before->indptr + i : r->indptr + (i - r->before->n_rows);
  uint64_t from = indptr[0] - (old ? 0 : r->indptr[0]), nnz = indptr[1] - indptr[0];
  if (nnz) {
    *indices = (old ? r->before->indices : r->indices) + from;
    *values = (old ? r->before->values : r->values) + from * w->value_size;
  }
  return (uint32_t)nnz;
}

static void encode_block(annb_segment_writer *w, block *b, annb_scratch *scratch, annb_row_sorter *sorter) {
  const annb_row_sort_rule rule = {w->params.to_stored, w->params.sort, w->params.n_cols, w->value_size};
  b->used = 0;
  b->status = block_entries(b, b->n_rows) ? ANNB_OK : ANNB_ENOMEM;
  for (uint64_t i = 0; i < b->n_rows && !b->status; i++) {
    const uint32_t *indices = NULL;
    const uint8_t *values = NULL;
    annb_row_shape shape = {w->params.n_cols, row_of(w, b->first + i, &indices, &values), w->params.dtype};
    if (!annb_row_arrange(sorter, &rule, shape.nnz, &indices, &values) || !block_room(b, b->used + annb_record_bound(&shape))) {
      b->status = ANNB_ENOMEM;
      return;
    }
    uint8_t *record = b->bytes + b->used;
    size_t length = annb_record_encode(&shape, w->params.codecs, indices, values, record, scratch);
    b->used += length;
    b->entries[i] = (annb_fmt_entry){b->used, shape.nnz, annb_record_check(record, length, w->header.check, b->segment_row + i)};
    if (shape.nnz && !length) b->status = ANNB_ENOMEM;
  }
}

/* ---- writing, on one thread at a time ---- */

static annb_status spool_page(annb_segment_writer *w, annb_error *err) {
  w->page.page_check = annb_mix(annb_hash64(&w->page.first_row, ANNB_PAGE - sizeof w->page.page_check), w->header.check, w->n_pages);
  annb_status s = annb_io_write(w->spool, w->spool_dir, &w->page, sizeof w->page, err);
  w->n_pages++;
  memset(&w->page, 0, sizeof w->page);
  return s;
}

static annb_status write_block(annb_segment_writer *w, const block *b, annb_error *err) {
  annb_status s = annb_ofile_pad(&w->file, ANNB_PAGE, err);
  uint64_t start_of_block = w->file.offset;
  if (!s) s = annb_ofile_write(&w->file, b->bytes, b->used, err);
  for (uint64_t i = 0; i < b->n_rows && !s; i++) {
    uint64_t at = (b->segment_row + i) % ANNB_PAGE_ENTRIES;
    w->page.first_row = b->segment_row + i - at;
    w->page.entries[at] = b->entries[i];
    w->page.entries[at].end += start_of_block;
    if (at == ANNB_PAGE_ENTRIES - 1) s = spool_page(w, err);
  }
  return s;
}

static annb_status write_wave(annb_segment_writer *w, int wave, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint32_t i = 0; i < w->n_blocks[wave] && !s; i++) s = write_block(w, &w->waves[wave][i], err);
  w->n_blocks[wave] = 0;
  return s;
}

/* Item 0 writes the wave before, the others encode this one. */
static void wave_item(void *user, uint32_t worker, size_t item) {
  annb_segment_writer *w = user;
  if (item == 0) w->write_status = write_wave(w, 1 - w->current, w->write_error);
  else encode_block(w, &w->waves[w->current][item - 1], &w->scratch[worker], &w->sorters[worker]);
}

static annb_status account(annb_segment_writer *w, const block *b, annb_error *err) {
  uint64_t before = 0;
  if (b->status) return annb_fail_memory(err);
  for (uint64_t i = 0; i < b->n_rows; i++) {
    const annb_fmt_entry *e = &b->entries[i];
    w->meta.nnz += e->nnz;
    if (e->nnz > w->meta.max_row_nnz) w->meta.max_row_nnz = e->nnz;
    if (e->end - before > w->meta.max_record) w->meta.max_record = e->end - before;
    before = e->end;
  }
  w->meta.n_rows += b->n_rows;
  w->encoded_end = annb_round_up(w->encoded_end, ANNB_PAGE) + b->used;
  return ANNB_OK;
}

/* Encode the next rows `first` … of the rows given, up to one block per thread; *taken of them. */
static annb_status run_wave(annb_segment_writer *w, uint64_t first, uint64_t n_rows, uint64_t *taken, annb_error *err) {
  uint32_t n = 0;
  uint64_t end = first;
  block *wave = w->waves[w->current];
  for (; n < w->n_threads && end < n_rows; n++) {
    uint64_t size = n_rows - end < w->params.block_rows ? n_rows - end : w->params.block_rows;
    wave[n].first = end;
    wave[n].n_rows = size;
    wave[n].segment_row = w->meta.n_rows + (end - first);
    end += size;
  }
  w->write_error = err;
  annb_parallel(w->n_threads, n + 1, wave_item, w);
  annb_status s = w->write_status;
  for (uint32_t i = 0; i < n && !s; i++) s = account(w, &wave[i], err);
  w->n_blocks[w->current] = n;
  w->current = 1 - w->current;
  *taken = end - first;
  return s;
}

/* ---- taking rows ---- */

/* The part row of row `i` of the caller's; errors name it and not the temporary file, for the input is what is wrong. */
static uint64_t part_row(const annb_segment_writer *w, uint64_t i) { return w->params.row_base + w->meta.n_rows + w->pending.n_rows + i; }

#define BAD_ROW(i, format, value)                                                                                                          \
  annb_fail_row(err, ANNB_EINVAL, NULL, (int64_t)part_row(w, i), "row %llu " format, (unsigned long long)part_row(w, i),                   \
                (unsigned long long)(value), (unsigned long long)w->params.n_cols)

static annb_status check_row(const annb_segment_writer *w, uint64_t i, const uint32_t *indices, uint64_t nnz, annb_error *err) {
  if (nnz > ANNB_MAX_ROW_NNZ) return BAD_ROW(i, "has %llu elements in %llu columns, more than the format allows", nnz);
  if (annb_indices_below(indices, (size_t)nnz, w->params.n_cols)) return ANNB_OK;
  uint64_t k = 0;
  while (indices[k] < w->params.n_cols) k++;
  return BAD_ROW(i, "has column index %llu, but the matrix has %llu columns", indices[k]);
}

static annb_status check_rows(const annb_segment_writer *w, uint64_t n_rows, const uint64_t *indptr, const uint32_t *indices,
                              annb_error *err) {
  uint64_t have = w->meta.n_rows + w->pending.n_rows;
  if (n_rows > ANNB_MAX_ROWS - w->params.row_base - have)
    return annb_fail(err, ANNB_EINVAL, NULL, "%llu more rows pass the limit of rows of a store", (unsigned long long)n_rows);
  for (uint64_t i = 0; i < n_rows; i++) {
    if (indptr[i + 1] < indptr[i]) return BAD_ROW(i, "ends at element %llu, before it starts (the matrix has %llu columns)", indptr[i + 1]);
    uint64_t row_nnz = indptr[i + 1] - indptr[i];
    annb_status s = check_row(w, i, row_nnz ? indices + (indptr[i] - indptr[0]) : NULL, row_nnz, err);
    if (s) return s;
  }
  uint64_t nnz = n_rows ? indptr[n_rows] - indptr[0] : 0;
  if (nnz > ANNB_MAX_NNZ - w->meta.nnz - w->pending.nnz)
    return annb_fail(err, ANNB_EINVAL, NULL, "%llu more elements pass the limit of a matrix", (unsigned long long)nnz);
  return ANNB_OK;
}

/* Copy rows first … n_rows−1 of the caller's to the pending ones. */
static annb_status keep(annb_segment_writer *w, uint64_t first, uint64_t n_rows, const uint64_t *indptr, const uint32_t *indices,
                        const uint8_t *values, annb_error *err) {
  pending *p = &w->pending;
  if (first == n_rows) return ANNB_OK;
  uint64_t from = indptr[first] - indptr[0], nnz = indptr[n_rows] - indptr[first], nnz_room = p->nnz_room;
  void *rows_data = p->indptr, *index_data = p->indices, *value_data = p->values;
  bool ok = grow(&rows_data, &p->rows_room, p->n_rows + (n_rows - first) + 1, sizeof *p->indptr);
  ok = ok && grow(&index_data, &p->nnz_room, p->nnz + nnz, sizeof *p->indices) && grow(&value_data, &nnz_room, p->nnz + nnz, w->value_size);
  p->indptr = rows_data;
  p->indices = index_data;
  p->values = value_data;
  if (!ok) return annb_fail_memory(err);
  for (uint64_t i = first; i <= n_rows; i++) p->indptr[p->n_rows + (i - first)] = p->nnz + (indptr[i] - indptr[first]);
  if (nnz) {
    memcpy(p->indices + p->nnz, indices + from, (size_t)nnz * sizeof *indices);
    memcpy(p->values + p->nnz * w->value_size, values + from * w->value_size, (size_t)nnz * w->value_size);
  }
  p->n_rows += n_rows - first;
  p->nnz += nnz;
  return ANNB_OK;
}

/* Encode the pending rows and the caller's, whole blocks only unless `all`; *taken of the caller's are done with. */
static annb_status encode_rows(annb_segment_writer *w, const rows *given, uint64_t n_rows, bool all, uint64_t *taken, annb_error *err) {
  annb_status s = ANNB_OK;
  uint64_t have = w->pending.n_rows + n_rows, done = 0, step = 0;
  uint64_t target = all ? have : have - have % w->params.block_rows;
  *taken = 0;
  if (target == 0) return ANNB_OK;
  w->rows = *given;
  while (done < target && !s) {
    s = run_wave(w, done, target, &step, err);
    done += step;
  }
  *taken = done - w->pending.n_rows;
  w->pending.n_rows = w->pending.nnz = 0;
  return s;
}

annb_status annb_segment_writer_append(annb_segment_writer *writer, uint64_t n_rows, const uint64_t *indptr, const uint32_t *indices,
                                       const void *values, annb_error *err) {
  if (writer->failed) return annb_fail(err, ANNB_EINVAL, writer->file.path, "an earlier write failed: start again");
  annb_status s = check_rows(writer, n_rows, indptr, indices, err);
  if (s) return s;
  uint64_t taken;
  rows given = {&writer->pending, indptr, indices, values};
  s = encode_rows(writer, &given, n_rows, false, &taken, err);
  if (!s) s = keep(writer, taken, n_rows, indptr, indices, values, err);
  writer->failed = s != ANNB_OK;
  return s;
}

uint64_t annb_segment_writer_rows(const annb_segment_writer *writer) { return writer->meta.n_rows + writer->pending.n_rows; }

uint64_t annb_segment_writer_bytes(const annb_segment_writer *writer) { return writer->encoded_end - ANNB_PAGE; }

/* ---- closing ---- */

/* Copy the index from the spool, hashing the page checks. */
static annb_status write_index(annb_segment_writer *w, annb_section_list *sections, annb_error *err) {
  annb_status s = annb_ofile_pad(&w->file, ANNB_PAGE, err);
  annb_fmt_section *section = annb_section_begin(sections, ANNB_SEC_INDEX, ANNB_SECTION_CRITICAL, w->file.offset);
  annb_fmt_page *pages = malloc(SPOOL_PAGES * sizeof *pages);
  annb_hash128_stream hash;
  annb_hash128_begin(&hash);
  if (!s && !pages) s = annb_fail_memory(err);
  for (uint64_t p = 0; p < w->n_pages && !s; p += SPOOL_PAGES) {
    size_t n = w->n_pages - p < SPOOL_PAGES ? (size_t)(w->n_pages - p) : SPOOL_PAGES;
    s = annb_io_pread(w->spool, w->spool_dir, pages, n * sizeof *pages, p * ANNB_PAGE, err);
    if (s) break;
    for (size_t i = 0; i < n; i++) annb_hash128_add(&hash, &pages[i].page_check, sizeof pages[i].page_check);
    s = annb_ofile_write(&w->file, pages, n * sizeof *pages, err);
  }
  free(pages);
  section->count = w->n_pages;
  section->length = w->n_pages * ANNB_PAGE;
  annb_hash128_end(&hash, section->hash);
  return s;
}

static annb_status finish(annb_segment_writer *w, annb_segment_result *result, annb_error *err) {
  uint64_t taken;
  annb_section_list sections = {0};
  rows given = {&w->pending, NULL, NULL, NULL};
  annb_status s = encode_rows(w, &given, 0, true, &taken, err);
  if (!s) s = write_wave(w, 1 - w->current, err);
  if (!s && w->meta.n_rows % ANNB_PAGE_ENTRIES) s = spool_page(w, err);
  annb_section_begin(&sections, ANNB_SEC_BLOCKS, ANNB_SECTION_CRITICAL, ANNB_PAGE)->length = w->file.offset - ANNB_PAGE;
  if (!s) s = write_index(w, &sections, err);
  if (!s) s = annb_section_write(&sections, &w->file, ANNB_SEC_META, ANNB_SECTION_CRITICAL, &w->meta, sizeof w->meta, 1, err);
  memset(result, 0, sizeof *result);
  if (!s) s = annb_envelope_write_end(&w->file, &w->header, &sections, result->object.footer_hash, err);
  result->n_rows = w->meta.n_rows;
  result->nnz = w->meta.nnz;
  result->object.kind = ANNB_OBJECT_SEGMENT;
  result->object.size = w->file.offset;
  return s;
}

annb_status annb_segment_writer_close(annb_segment_writer *writer, annb_segment_result *result, annb_error *err) {
  annb_status s = writer->failed ? annb_fail(err, ANNB_EINVAL, writer->file.path, "an earlier write failed: start again") : ANNB_OK;
  char *path = s ? NULL : strdup(writer->file.path);
  if (!s && !path) s = annb_fail_memory(err);
  if (!s) s = finish(writer, result, err);
  if (!s) {
    s = annb_ofile_finish(&writer->file, result->object.sha256, err);
    if (s) annb_io_unlink(path);
  }
  free(path);
  release(writer);
  return s;
}

void annb_segment_writer_abort(annb_segment_writer *writer) {
  if (writer) release(writer);
}
