/* Header, sections, footer and trailer, common to segments, flat arrays and manifests (SPEC.md, section 2). */
#ifndef ANNB_STORE_ENVELOPE_H
#define ANNB_STORE_ENVELOPE_H

#include "../commit/ofile.h"

#include <annblock/format.h>
#include <annblock/status.h>

typedef enum annb_file_kind { ANNB_FILE_SEGMENT, ANNB_FILE_ARRAYS, ANNB_FILE_MANIFEST } annb_file_kind;

typedef struct annb_envelope {
  annb_fmt_header header;
  annb_fmt_trailer trailer;
  uint32_t n_sections;
  annb_fmt_section sections[ANNB_MAX_SECTIONS];
} annb_envelope;

/* ---- reading: `data` is the whole file of `size` bytes, `path` is for messages ---- */

/* Check trailer, footer and header, in the order of SPEC.md 2.2, and that the section table is sound. O(1). Section hashes are not
 * checked here. ANNB_ENOTSTORE, ANNB_EVERSION, ANNB_EUNSUPPORTED, ANNB_ECORRUPT. `known` has a bit for each section kind (< 64) that the
 * caller knows: others must not be CRITICAL. */
annb_status annb_envelope_parse(const uint8_t *data, uint64_t size, annb_file_kind kind, uint64_t known, const char *path,
                                annb_envelope *out, annb_error *err);

/* The section of that kind, which must be there; with row_size not 0 its length must be count * row_size. */
annb_status annb_envelope_section(const annb_envelope *envelope, uint32_t kind, uint64_t row_size, const char *path,
                                  const annb_fmt_section **out, annb_error *err);

/* The section's XXH3-128. */
annb_status annb_envelope_check_hash(const uint8_t *data, const annb_fmt_section *section, const char *path, annb_error *err);

/* Bytes outside sections, header, footer and trailer are zero: reads only those. */
annb_status annb_envelope_check_gaps(const uint8_t *data, const annb_envelope *envelope, const char *path, annb_error *err);

/* ---- writing ---- */

void annb_header_init(annb_fmt_header *header, annb_file_kind kind, const void *kind_fields, size_t size);
void annb_header_seal(annb_fmt_header *header); /* sets `check`; last */

/* Sections in the order they are written. */
typedef struct annb_section_list {
  uint32_t n;
  annb_fmt_section rows[ANNB_MAX_SECTIONS];
} annb_section_list;

/* Add a section that starts at the file's current offset (8-byte aligned by the caller); later set length, count and hash. */
annb_fmt_section *annb_section_begin(annb_section_list *list, uint32_t kind, uint32_t flags, uint64_t offset);
/* Write a whole section of `size` bytes, aligned to 8, hashed. */
annb_status annb_section_write(annb_section_list *list, annb_ofile *file, uint32_t kind, uint32_t flags, const void *data, size_t size,
                               uint64_t count, annb_error *err);
/* Write footer and trailer. `footer_hash` may be NULL. */
annb_status annb_envelope_write_end(annb_ofile *file, const annb_fmt_header *header, const annb_section_list *list,
                                    uint8_t footer_hash[16], annb_error *err);

#endif
