#include "segment.h"

#include "../cursor.h"
#include "../error.h"
#include "../kernels/kernels.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

#define CORRUPT(...) annb_fail(err, ANNB_ECORRUPT, path, __VA_ARGS__)
#define ROW(row) ((unsigned long long)(row))

enum { KNOWN_SECTIONS = 1 << ANNB_SEC_BLOCKS | 1 << ANNB_SEC_INDEX | 1 << ANNB_SEC_META, END = 1 << 14 /* where tables and footer are */ };

/* ---- opening ---- */

static annb_status check_header(const annb_fmt_segment_header *h, uint64_t incompat, const char *path, annb_error *err) {
  if (!annb_dtype_size((annb_dtype)h->dtype)) return CORRUPT("header has an unknown value type (%u)", h->dtype);
  if (h->n_cols > ANNB_MAX_COLS || h->row_base > ANNB_MAX_ROWS)
    return CORRUPT("header states %llu columns and first row %llu, past the limits", ROW(h->n_cols), ROW(h->row_base));
  if (h->block_rows == 0 || h->block_rows > ANNB_MAX_BLOCK_ROWS || (h->block_rows & (h->block_rows - 1)))
    return CORRUPT("header states %u rows in a block, which is no power of two up to %u", h->block_rows, ANNB_MAX_BLOCK_ROWS);
  if (h->codecs & ~ANNB_KNOWN_CODECS) {
    char bits[ANNB_BITS_TEXT];
    annb_bits_text("codec", h->codecs & ~ANNB_KNOWN_CODECS, bits);
    return annb_fail(err, ANNB_EUNSUPPORTED, path, "uses %s, unknown to this release: use a newer annblock", bits);
  }
  if (!annb_all_zero(h->zero0, sizeof h->zero0)) return CORRUPT("header has a field that must be zero");
  if (annb_all_zero(h->gene_order, sizeof h->gene_order) == ((incompat & ANNB_INCOMPAT_GENE_ORDER) != 0))
    return CORRUPT("header names a gene order without the feature bit for it, or the other way round");
  return ANNB_OK;
}

static annb_status check_meta(const annb_segment *g, const char *path, annb_error *err) {
  const annb_fmt_segment_meta *m = &g->meta;
  uint64_t most, blocks = g->blocks_end - ANNB_PAGE;
  if (!annb_all_zero(m->zero0, sizeof m->zero0)) return CORRUPT("meta section has a field that must be zero");
  if (m->n_rows > ANNB_MAX_ROWS - g->header.row_base || m->nnz > ANNB_MAX_NNZ || m->max_row_nnz > ANNB_MAX_ROW_NNZ)
    return CORRUPT("meta section states %llu rows and %llu elements, past the limits", ROW(m->n_rows), ROW(m->nnz));
  if (!annb_mul(m->n_rows, m->max_row_nnz, &most)) most = UINT64_MAX;
  if (m->max_row_nnz > m->nnz || m->nnz > most || m->max_record > blocks || (m->nnz == 0) != (m->max_record == 0) ||
      (m->nnz == 0) != (blocks == 0) || (m->nnz && !g->header.n_cols))
    return CORRUPT("meta section contradicts itself");
  if (g->n_pages != (m->n_rows + ANNB_PAGE_ENTRIES - 1) / ANNB_PAGE_ENTRIES)
    return CORRUPT("has %llu index pages, which is wrong for %llu rows", ROW(g->n_pages), ROW(m->n_rows));
  return ANNB_OK;
}

static annb_status read_sections(annb_segment *g, annb_error *err) {
  const char *path = g->path;
  const annb_fmt_section *blocks, *index, *meta;
  annb_status s = annb_envelope_section(&g->envelope, ANNB_SEC_BLOCKS, 0, path, &blocks, err);
  if (!s) s = annb_envelope_section(&g->envelope, ANNB_SEC_INDEX, ANNB_PAGE, path, &index, err);
  if (!s) s = annb_envelope_section(&g->envelope, ANNB_SEC_META, sizeof g->meta, path, &meta, err);
  if (!s) s = annb_envelope_check_hash(g->map.data, meta, path, err);
  if (s) return s;
  if (blocks->offset != ANNB_PAGE || index->offset % ANNB_PAGE || index < blocks || meta < index)
    return CORRUPT("sections are not where a segment has them");
  if (blocks->count || !annb_all_zero(blocks->hash, sizeof blocks->hash) || meta->count != 1)
    return CORRUPT("section table has a field that must be zero, or not one meta row");
  annb_cursor c = annb_cursor_of(g->map.data, g->map.size, meta->offset, meta->length);
  annb_cursor_read(&c, &g->meta, sizeof g->meta);
  g->blocks_end = blocks->offset + blocks->length;
  g->index_offset = index->offset;
  g->n_pages = index->count;
  return check_meta(g, path, err);
}

static annb_status read_all(annb_segment *g, annb_error *err) {
  annb_status s = annb_envelope_parse(g->map.data, g->map.size, ANNB_FILE_SEGMENT, KNOWN_SECTIONS, g->path, &g->envelope, err);
  if (s) return s;
  memcpy(&g->header, g->envelope.header.kind, sizeof g->header);
  g->salt = g->envelope.header.check;
  g->kernel = annb_kernel_best();
  s = check_header(&g->header, g->envelope.header.incompat, g->path, err);
  if (!s) s = read_sections(g, err);
  if (s) return s;
  g->checked = calloc(g->n_pages / 64 + 1, sizeof *g->checked); /* the pages are in the file, so this is small */
  return g->checked ? ANNB_OK : annb_fail_memory(err);
}

annb_status annb_segment_parse(const uint8_t *data, uint64_t size, const char *path, annb_segment **out, annb_error *err) {
  annb_segment *g = calloc(1, sizeof *g);
  if (!g) return annb_fail_memory(err);
  g->map = (annb_map){data, size};
  g->path = strdup(path);
  annb_status s = g->path ? read_all(g, err) : annb_fail_memory(err);
  if (s) annb_segment_close(g);
  else *out = g;
  return s;
}

annb_status annb_segment_open(const char *path, annb_segment **out, annb_error *err) {
  annb_map map;
  annb_status s = annb_io_map(path, &map, err);
  if (s) return s;
  uint64_t end = map.size < END ? map.size : END; /* asked for at once, or each touch would wait for the file's surroundings too */
  annb_io_will_need(&map, map.size - end, end);
  annb_io_will_need(&map, 0, map.size < ANNB_PAGE ? map.size : ANNB_PAGE);
  s = annb_segment_parse(map.data, map.size, path, out, err);
  if (s) annb_io_unmap(&map);
  else (*out)->mapped = true;
  return s;
}

void annb_segment_close(annb_segment *segment) {
  if (!segment) return;
  if (segment->mapped) annb_io_unmap(&segment->map);
  free(segment->path);
  free(segment->checked);
  free(segment);
}

/* ---- rows ---- */

/* Index pages lie at multiples of 4096 in the map, so they can be read in place. */
static const annb_fmt_page *page_at(const annb_segment *g, uint64_t page) {
  return (const annb_fmt_page *)(const void *)(g->map.data + g->index_offset + page * ANNB_PAGE);
}

uint64_t annb_segment_page_offset(const annb_segment *segment, uint64_t page) { return segment->index_offset + page * ANNB_PAGE; }

void annb_segment_prefetch_entry(const annb_segment *segment, uint64_t row) {
  if (row >= segment->meta.n_rows) return;
  __builtin_prefetch(&page_at(segment, row / ANNB_PAGE_ENTRIES)->entries[row % ANNB_PAGE_ENTRIES]);
}

annb_status annb_segment_verify_page(const annb_segment *segment, uint64_t page, const annb_fmt_page *p, annb_error *err) {
  uint64_t hash = annb_hash64(&p->first_row, ANNB_PAGE - sizeof p->page_check);
  if (annb_mix(hash, segment->salt, page) != p->page_check || p->first_row != page * ANNB_PAGE_ENTRIES)
    return annb_fail_row(err, ANNB_ECORRUPT, segment->path, (int64_t)(page * ANNB_PAGE_ENTRIES),
                         "index page %llu (rows from %llu) does not match its check", ROW(page), ROW(page * ANNB_PAGE_ENTRIES));
  return ANNB_OK;
}

annb_status annb_segment_check_page(annb_segment *segment, uint64_t page, annb_error *err) {
  _Atomic uint64_t *word = &segment->checked[page / 64];
  uint64_t bit = UINT64_C(1) << page % 64;
  if (atomic_load_explicit(word, memory_order_relaxed) & bit) return ANNB_OK;
  annb_status s = annb_segment_verify_page(segment, page, page_at(segment, page), err);
  if (!s) atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
  return s;
}

/* Whether an entry fits the file, given where its record starts. The limits of meta bound what callers allocate. */
static bool entry_valid(const annb_segment *g, uint64_t row, uint64_t start, const annb_fmt_entry *e) {
  if (e->end < start || e->end > g->blocks_end || (row == g->meta.n_rows - 1 && e->end != g->blocks_end)) return false;
  uint64_t length = e->end - start;
  return e->nnz <= g->meta.max_row_nnz && length <= g->meta.max_record && (e->nnz == 0) == (length == 0) &&
         length >= (e->nnz + UINT64_C(254)) / ANNB_MAX_NNZ_PER_BYTE;
}

annb_status annb_segment_locate_by(const annb_segment *segment, uint64_t row, const annb_fmt_page *page, const annb_fmt_page *before,
                                   annb_record_ref *out, uint64_t *offset, annb_error *err) {
  uint64_t start = row ? before->entries[(row - 1) % ANNB_PAGE_ENTRIES].end : ANNB_PAGE; /* but for rounding */
  annb_fmt_entry e = page->entries[row % ANNB_PAGE_ENTRIES];
  bool valid = start >= ANNB_PAGE && start <= segment->blocks_end;
  if (valid && row % segment->header.block_rows == 0) start = annb_round_up(start, ANNB_PAGE);
  if (!valid || !entry_valid(segment, row, start, &e))
    return annb_fail_row(err, ANNB_ECORRUPT, segment->path, (int64_t)row,
                         "index entry of row %llu is not possible (ends at byte %llu, %u elements)", ROW(row), ROW(e.end), e.nnz);
  *out = (annb_record_ref){NULL, e.end - start, e.nnz, e.check};
  *offset = start;
  return ANNB_OK;
}

annb_status annb_segment_locate(annb_segment *segment, uint64_t row, annb_record_ref *out, annb_error *err) {
  if (row >= segment->meta.n_rows)
    return annb_fail_row(err, ANNB_ERANGE, segment->path, (int64_t)row, "row %llu was asked for, the segment has %llu rows", ROW(row),
                         ROW(segment->meta.n_rows));
  uint64_t page = row / ANNB_PAGE_ENTRIES, before = row ? (row - 1) / ANNB_PAGE_ENTRIES : page, offset = 0;
  annb_status s = annb_segment_check_page(segment, before, err);
  if (!s && page != before) s = annb_segment_check_page(segment, page, err);
  if (!s) s = annb_segment_locate_by(segment, row, page_at(segment, page), page_at(segment, before), out, &offset, err);
  if (!s) out->data = segment->map.data + offset;
  return s;
}

annb_status annb_segment_check(const annb_segment *segment, uint64_t row, const annb_record_ref *record, annb_error *err) {
  uint64_t hash = segment->kernel->hash64(record->data, (size_t)record->length);
  if ((uint32_t)annb_mix(hash, segment->salt, row) == record->check) return ANNB_OK;
  return annb_fail_row(err, ANNB_ECORRUPT, segment->path, (int64_t)row, "record of row %llu does not match its check", ROW(row));
}

static annb_status check_codec(const annb_segment *segment, uint64_t row, const annb_record_ref *record, annb_error *err) {
  if (!record->length || (record->data[0] < 64 && segment->header.codecs >> record->data[0] & 1)) return ANNB_OK;
  return annb_fail_row(err, ANNB_ECORRUPT, segment->path, (int64_t)row, "record of row %llu has codec %u, which the header does not list",
                       ROW(row), record->data[0]);
}

static annb_status undecodable(const annb_segment *segment, uint64_t row, annb_error *err) {
  return annb_fail_row(err, ANNB_ECORRUPT, segment->path, (int64_t)row, "record of row %llu cannot be decoded", ROW(row));
}

annb_status annb_segment_decode(const annb_segment *segment, uint64_t row, const annb_record_ref *record, uint32_t *indices,
                                uint8_t *values, annb_scratch *scratch, annb_error *err) {
  annb_row_shape shape = {segment->header.n_cols, record->nnz, (annb_dtype)segment->header.dtype};
  annb_status s = check_codec(segment, row, record, err);
  if (s) return s;
  return annb_record_decode(&shape, record->data, record->length, indices, values, scratch) ? ANNB_OK : undecodable(segment, row, err);
}

annb_status annb_segment_deliver(const annb_segment *segment, uint64_t row, const annb_record_ref *record, const annb_gene_table *table,
                                 annb_row_form as, uint32_t *indices, float *values, annb_scratch *scratch, bool *done, annb_error *err) {
  annb_row_shape shape = {segment->header.n_cols, record->nnz, (annb_dtype)segment->header.dtype};
  annb_delivery d = ANNB_DELIVERY_OTHER;
  annb_status s = check_codec(segment, row, record, err);
  if (s) return s;
  if (as == ANNB_ROW_CSR) d = annb_deliver_csr(&shape, record->data, record->length, table, indices, values, scratch);
  else if (as == ANNB_ROW_SORTED) d = annb_deliver_sorted(&shape, record->data, record->length, table, indices, values, scratch);
  else d = annb_deliver_dense(&shape, record->data, record->length, table, values, scratch);
  *done = d == ANNB_DELIVERY_DONE;
  return d == ANNB_DELIVERY_CORRUPT ? undecodable(segment, row, err) : ANNB_OK;
}
