/* Segments: consecutive rows of one matrix (SPEC.md, section 3). */
#ifndef ANNB_STORE_SEGMENT_H
#define ANNB_STORE_SEGMENT_H

#include "../codec/codec.h"
#include "../codec/deliver.h"
#include "../codec/encode.h"
#include "envelope.h"
#include "../io.h"

#include <stdatomic.h>

/* SPEC.md 1.2: what a record of one byte can hold at most, so that a short record cannot ask for much memory. */
#define ANNB_MAX_NNZ_PER_BYTE 255u

/* ---- reading: safe from any number of threads ---- */

typedef struct annb_segment {
  char *path;
  annb_map map;
  bool mapped; /* map is ours to release */
  annb_envelope envelope;
  annb_fmt_segment_header header;
  annb_fmt_segment_meta meta;
  uint64_t salt, blocks_end, index_offset, n_pages;
  const struct annb_kernel *kernel; /* the best of this machine */
  _Atomic uint64_t *checked; /* bit per index page that was found good */
  atomic_bool scattered;     /* annb_io_set_scattered */
} annb_segment;

typedef struct annb_record_ref {
  const uint8_t *data;
  uint64_t length;
  uint32_t nnz, check;
} annb_record_ref;

/* Map and check in O(1): envelope, header, meta, section sizes against row count. */
annb_status annb_segment_open(const char *path, annb_segment **out, annb_error *err);
/* The same over bytes in memory, 8-byte aligned, which must outlive the segment; `path` is for messages. */
annb_status annb_segment_parse(const uint8_t *data, uint64_t size, const char *path, annb_segment **out, annb_error *err);
void annb_segment_close(annb_segment *segment);

/* Verify an index page (< n_pages), once. ANNB_ECORRUPT names file and first row. */
annb_status annb_segment_check_page(annb_segment *segment, uint64_t page, annb_error *err);
/* The record of a row (< meta.n_rows, else ANNB_ERANGE). Index pages are verified when first touched. */
annb_status annb_segment_locate(annb_segment *segment, uint64_t row, annb_record_ref *out, annb_error *err);
/* The index entry of a row that is located soon into the cache. */
void annb_segment_prefetch_entry(const annb_segment *segment, uint64_t row);
/* Index pages from elsewhere than the map: where page `page` is in the file, its check, and the record of a row, given its page and
 * that of the row before it (the same or another; not used for row 0). record->data is NULL, *offset where it is in the file. */
uint64_t annb_segment_page_offset(const annb_segment *segment, uint64_t page);
annb_status annb_segment_verify_page(const annb_segment *segment, uint64_t page, const annb_fmt_page *bytes, annb_error *err);
annb_status annb_segment_locate_by(const annb_segment *segment, uint64_t row, const annb_fmt_page *page, const annb_fmt_page *before,
                                   annb_record_ref *out, uint64_t *offset, annb_error *err);
/* The record's check: ANNB_ECORRUPT names file and row. */
annb_status annb_segment_check(const annb_segment *segment, uint64_t row, const annb_record_ref *record, annb_error *err);
/* Decode; indices and values have room for nnz + ANNB_DECODE_SLACK elements. ANNB_ECORRUPT names file and row. */
annb_status annb_segment_decode(const annb_segment *segment, uint64_t row, const annb_record_ref *record, uint32_t *indices,
                                uint8_t *values, annb_scratch *scratch, annb_error *err);
/* The same for float32 rows, straight to what readers want: ids through `table` (of n_cols ids; NULL: stored ids). *done is false when the
 * row is not for this way: then decode. Room as above; dense: `values` is a row of the table's n_out (without a table: n_cols) values. */
typedef enum annb_row_form { ANNB_ROW_CSR, ANNB_ROW_SORTED, ANNB_ROW_DENSE } annb_row_form;
annb_status annb_segment_deliver(const annb_segment *segment, uint64_t row, const annb_record_ref *record, const annb_gene_table *table,
                                 annb_row_form as, uint32_t *indices, float *values, annb_scratch *scratch, bool *done, annb_error *err);
/* Check everything of the file (every page, record, padding, sum); findings as errors through `report`, which returns false to stop. */
typedef bool (*annb_report_fn)(void *user, const annb_error *finding);
void annb_segment_verify(annb_segment *segment, annb_report_fn report, void *user);

/* ---- writing ---- */

typedef struct annb_segment_writer annb_segment_writer;

typedef struct annb_segment_params {
  uint64_t n_cols, row_base;
  annb_dtype dtype;
  uint32_t block_rows;
  uint64_t codecs; /* that occur */
  bool sorted;     /* rows are by stored id */
  bool mapped;     /* stored ids are others than columns */
  uint8_t tag[16];
  uint8_t gene_order[ANNB_SHA256_SIZE]; /* of the object with the permutation; zero unless mapped */
} annb_segment_params;

typedef struct annb_segment_result {
  uint64_t n_rows, nnz;
  annb_fmt_object object; /* complete */
} annb_segment_result;

/* `path` is the temporary file to create, `spool_dir` a directory for an anonymous file that holds index pages meanwhile. */
annb_status annb_segment_writer_open(const char *path, const char *spool_dir, const annb_segment_params *params, annb_segment_writer **out,
                                     annb_error *err);
/* Records first … first + n − 1 as the next rows. */
annb_status annb_segment_writer_put(annb_segment_writer *writer, const annb_records *records, uint64_t first, uint64_t n, annb_error *err);
uint64_t annb_segment_writer_rows(const annb_segment_writer *writer);
uint64_t annb_segment_writer_nnz(const annb_segment_writer *writer);
uint64_t annb_segment_writer_bytes(const annb_segment_writer *writer); /* that its blocks take so far */
/* Frees the writer; on failure the file is removed. */
annb_status annb_segment_writer_close(annb_segment_writer *writer, annb_segment_result *result, annb_error *err);
void annb_segment_writer_abort(annb_segment_writer *writer);

#endif
