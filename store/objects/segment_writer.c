/* Writing a segment: records in order. Index pages wait in an anonymous file. */
#include "segment.h"

#include "../error.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

enum { SPOOL_PAGES = 16 /* read back at once */ };

struct annb_segment_writer {
  annb_ofile file;
  annb_fmt_header header;
  annb_segment_params params;
  annb_fmt_segment_meta meta;
  int spool;
  char *spool_dir;
  annb_fmt_page page; /* being filled */
  uint64_t n_pages;
  bool failed;
};

/* ---- opening and releasing ---- */

static void release(annb_segment_writer *w) {
  annb_ofile_abort(&w->file);
  if (w->spool >= 0) (void)annb_io_close(w->spool, w->spool_dir, NULL);
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
  if (p->mapped) memcpy(h.gene_order, p->gene_order, sizeof h.gene_order);
  annb_header_init(&w->header, ANNB_FILE_SEGMENT, &h, sizeof h);
  if (p->mapped) w->header.incompat |= ANNB_INCOMPAT_GENE_ORDER;
  if (p->sorted) w->header.export_mask |= ANNB_EXPORT_SORTED;
  annb_header_seal(&w->header);
}

static annb_status start(annb_segment_writer *w, const char *path, const char *spool_dir, annb_error *err) {
  w->spool_dir = strdup(spool_dir);
  if (!w->spool_dir) return annb_fail_memory(err);
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
  make_header(w);
  s = start(w, path, spool_dir, err);
  if (s) release(w);
  else *out = w;
  return s;
}

/* ---- taking records ---- */

static annb_status spool_page(annb_segment_writer *w, annb_error *err) {
  w->page.page_check = annb_mix(annb_hash64(&w->page.first_row, ANNB_PAGE - sizeof w->page.page_check), w->header.check, w->n_pages);
  annb_status s = annb_io_write(w->spool, w->spool_dir, &w->page, sizeof w->page, err);
  w->n_pages++;
  memset(&w->page, 0, sizeof w->page);
  return s;
}

/* The next row: its record ends at `end` of the file. */
static annb_status enter(annb_segment_writer *w, const annb_record *r, uint64_t length, uint64_t end, annb_error *err) {
  const uint64_t row = w->meta.n_rows++, at = row % ANNB_PAGE_ENTRIES;
  w->meta.nnz += r->nnz;
  if (r->nnz > w->meta.max_row_nnz) w->meta.max_row_nnz = r->nnz;
  if (length > w->meta.max_record) w->meta.max_record = length;
  w->page.first_row = row - at;
  w->page.entries[at] = (annb_fmt_entry){end, r->nnz, (uint32_t)annb_mix(r->hash, w->header.check, row)};
  return at == ANNB_PAGE_ENTRIES - 1 ? spool_page(w, err) : ANNB_OK;
}

/* Records first … last − 1, all of one block. */
static annb_status put_run(annb_segment_writer *w, const annb_records *r, uint64_t first, uint64_t last, annb_error *err) {
  const uint64_t from = first ? r->records[first - 1].end : 0, start = w->file.offset;
  annb_status s = annb_ofile_write(&w->file, r->bytes + from, r->records[last - 1].end - from, err);
  for (uint64_t i = first, before = from; i < last && !s; before = r->records[i++].end)
    s = enter(w, &r->records[i], r->records[i].end - before, start + (r->records[i].end - from), err);
  return s;
}

annb_status annb_segment_writer_put(annb_segment_writer *writer, const annb_records *records, uint64_t first, uint64_t n, annb_error *err) {
  const uint32_t block_rows = writer->params.block_rows;
  if (writer->failed) return annb_fail(err, ANNB_EINVAL, writer->file.path, "an earlier write failed: start again");
  annb_status s = ANNB_OK;
  for (uint64_t end = first + n, last; first < end && !s; first = last) {
    const uint64_t in_block = writer->meta.n_rows % block_rows, left = block_rows - in_block;
    last = left < end - first ? first + left : end;
    if (!in_block) s = annb_ofile_pad(&writer->file, ANNB_PAGE, err);
    if (!s) s = put_run(writer, records, first, last, err);
  }
  writer->failed = s != ANNB_OK;
  return s;
}

uint64_t annb_segment_writer_rows(const annb_segment_writer *writer) { return writer->meta.n_rows; }

uint64_t annb_segment_writer_nnz(const annb_segment_writer *writer) { return writer->meta.nnz; }

uint64_t annb_segment_writer_bytes(const annb_segment_writer *writer) { return writer->file.offset - ANNB_PAGE; }

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
  annb_section_list sections = {0};
  annb_status s = w->meta.n_rows % ANNB_PAGE_ENTRIES ? spool_page(w, err) : ANNB_OK;
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
