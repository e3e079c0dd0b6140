#include "envelope.h"

#include "../cursor.h"
#include "../error.h"

#include <string.h>

static const char *const magics[] = {ANNB_MAGIC_SEGMENT, ANNB_MAGIC_ARRAYS, ANNB_MAGIC_MANIFEST};
static const uint64_t known_incompat[] = {ANNB_INCOMPAT_GENE_ORDER, 0,
                                          ANNB_INCOMPAT_GENE_MAP | ANNB_INCOMPAT_CODE_MAP | ANNB_INCOMPAT_SCHEMA};
static const char *const names[] = {"segment", "flat-arrays file", "manifest"};

#define CORRUPT(...) annb_fail(err, ANNB_ECORRUPT, path, __VA_ARGS__)

static annb_status fail_version(const annb_fmt_header *h, const char *path, annb_error *err) {
  bool newer = h->major != ANNB_VERSION_MAJOR ? h->major > ANNB_VERSION_MAJOR : h->minor > ANNB_VERSION_MINOR;
  return annb_fail(err, ANNB_EVERSION, path, "has format %u.%u, which is %s than the %d.%d that this release reads: use %s", h->major,
                   h->minor, newer ? "newer" : "older", ANNB_VERSION_MAJOR, ANNB_VERSION_MINOR,
                   newer ? "a newer annblock" : "the annblock that wrote it");
}

static annb_status parse_header(const uint8_t *data, uint64_t size, annb_file_kind kind, const char *path, annb_fmt_header *h,
                                annb_error *err) {
  annb_cursor c = annb_cursor_of(data, size, 0, sizeof *h);
  if (!annb_cursor_read(&c, h, sizeof *h))
    return annb_fail(err, ANNB_ECORRUPT, path, "is cut short: %llu bytes are not enough for the header of a %s", (unsigned long long)size,
                     names[kind]);
  if (memcmp(h->magic, magics[kind], ANNB_MAGIC_SIZE))
    return annb_fail(err, ANNB_ENOTSTORE, path, "is not an annblock %s (its first 8 bytes differ)", names[kind]);
  uint64_t check = annb_hash64(data, offsetof(annb_fmt_header, check));
  if (h->major != ANNB_VERSION_MAJOR || h->minor != ANNB_VERSION_MINOR) {
    /* a damaged version field must not be taken for another version */
    if (check != h->check && h->header_size == sizeof *h) return CORRUPT("header check does not match");
    return fail_version(h, path, err);
  }
  if (check != h->check) return CORRUPT("header check does not match");
  if (h->header_size != sizeof *h) return CORRUPT("header says it has %u bytes, not %zu", h->header_size, sizeof *h);
  uint64_t unknown = h->incompat & ~known_incompat[kind];
  if (unknown) {
    char bits[ANNB_BITS_TEXT];
    annb_bits_text("feature", unknown, bits);
    return annb_fail(err, ANNB_EUNSUPPORTED, path, "needs %s, unknown to this release: use a newer annblock", bits);
  }
  return ANNB_OK;
}

static annb_status parse_trailer(const uint8_t *data, uint64_t size, annb_file_kind kind, const char *path, annb_fmt_trailer *t,
                                 annb_error *err) {
  if (size < sizeof(annb_fmt_header) + sizeof(annb_fmt_footer) + sizeof *t)
    return CORRUPT("is cut short: %llu bytes", (unsigned long long)size);
  annb_cursor c = annb_cursor_of(data, size, size - sizeof *t, sizeof *t);
  const uint8_t *at = c.at;
  annb_cursor_read(&c, t, sizeof *t);
  if (memcmp(t->magic, magics[kind], ANNB_MAGIC_SIZE))
    return CORRUPT("does not end with the trailer of a %s: it is cut short or damaged", names[kind]);
  if (annb_hash64(at, offsetof(annb_fmt_trailer, check)) != t->check) return CORRUPT("trailer check does not match");
  if (t->file_size != size)
    return CORRUPT("has %llu bytes, its trailer says %llu", (unsigned long long)size, (unsigned long long)t->file_size);
  if (t->zero0) return CORRUPT("trailer has a field that must be zero");
  if (t->footer_offset % 8 || t->footer_offset < sizeof(annb_fmt_header) || t->footer_size < sizeof(annb_fmt_footer) ||
      t->footer_offset > size || t->footer_size > size || t->footer_offset + t->footer_size != size - sizeof *t)
    return CORRUPT("trailer places the footer at %llu, outside the file", (unsigned long long)t->footer_offset);
  return ANNB_OK;
}

static bool occurs_before(const annb_envelope *e, uint32_t i) {
  for (uint32_t j = 0; j < i; j++) {
    if (e->sections[j].kind == e->sections[i].kind) return true;
  }
  return false;
}

static annb_status check_sections(const annb_envelope *e, uint64_t known, const char *path, annb_error *err) {
  uint64_t at = sizeof(annb_fmt_header);
  for (uint32_t i = 0; i < e->n_sections; i++) {
    const annb_fmt_section *s = &e->sections[i];
    if (s->offset % 8 || s->offset < at || s->offset > e->trailer.footer_offset || s->length > e->trailer.footer_offset - s->offset)
      return CORRUPT("section %u (kind %u) overlaps another or leaves the file", i, s->kind);
    if (!annb_all_zero(s->zero0, sizeof s->zero0) || (s->flags & ~ANNB_SECTION_CRITICAL))
      return CORRUPT("section %u has a field that must be zero", i);
    if (s->kind == 0 || occurs_before(e, i)) return CORRUPT("section kind %u occurs twice or is 0", s->kind);
    if ((s->flags & ANNB_SECTION_CRITICAL) && (s->kind >= 64 || !(known >> s->kind & 1)))
      return annb_fail(err, ANNB_EUNSUPPORTED, path, "has a section of kind %u that this release cannot read: use a newer annblock",
                       s->kind);
    at = s->offset + s->length;
  }
  return ANNB_OK;
}

static annb_status parse_footer(const uint8_t *data, uint64_t known, const char *path, annb_envelope *e, annb_error *err) {
  const annb_fmt_trailer *t = &e->trailer;
  uint8_t hash[16];
  annb_hash128(data + t->footer_offset, t->footer_size, hash);
  if (memcmp(hash, t->footer_hash, sizeof hash)) return CORRUPT("footer hash does not match");
  annb_cursor c = annb_cursor_of(data, t->file_size, t->footer_offset, t->footer_size);
  annb_fmt_footer f;
  annb_cursor_read(&c, &f, sizeof f);
  if (f.header_check != e->header.check) return CORRUPT("footer belongs to another header");
  if (f.zero0 || f.n_sections > ANNB_MAX_SECTIONS || t->footer_size != sizeof f + (uint64_t)f.n_sections * sizeof *e->sections)
    return CORRUPT("footer states %u sections, which does not fit its size", f.n_sections);
  e->n_sections = f.n_sections;
  annb_cursor_read(&c, e->sections, f.n_sections * sizeof *e->sections);
  return check_sections(e, known, path, err);
}

annb_status annb_envelope_parse(const uint8_t *data, uint64_t size, annb_file_kind kind, uint64_t known, const char *path,
                                annb_envelope *out, annb_error *err) {
  annb_status s = parse_header(data, size, kind, path, &out->header, err);
  if (!s) s = parse_trailer(data, size, kind, path, &out->trailer, err);
  if (!s) s = parse_footer(data, known, path, out, err);
  return s;
}

annb_status annb_envelope_section(const annb_envelope *envelope, uint32_t kind, uint64_t row_size, const char *path,
                                  const annb_fmt_section **out, annb_error *err) {
  for (uint32_t i = 0; i < envelope->n_sections; i++) {
    const annb_fmt_section *s = &envelope->sections[i];
    uint64_t length;
    if (s->kind != kind) continue;
    if (row_size && (!annb_mul(s->count, row_size, &length) || length != s->length))
      return CORRUPT("section %u has %llu bytes, which is not %llu rows", kind, (unsigned long long)s->length,
                     (unsigned long long)s->count);
    *out = s;
    return ANNB_OK;
  }
  return CORRUPT("section %u is missing", kind);
}

annb_status annb_envelope_check_hash(const uint8_t *data, const annb_fmt_section *section, const char *path, annb_error *err) {
  uint8_t hash[16];
  annb_hash128(data + section->offset, section->length, hash);
  if (memcmp(hash, section->hash, sizeof hash)) return CORRUPT("hash of section %u does not match", section->kind);
  return ANNB_OK;
}

annb_status annb_envelope_check_gaps(const uint8_t *data, const annb_envelope *envelope, const char *path, annb_error *err) {
  uint64_t at = sizeof(annb_fmt_header);
  for (uint32_t i = 0; i <= envelope->n_sections; i++) {
    uint64_t next = i < envelope->n_sections ? envelope->sections[i].offset : envelope->trailer.footer_offset;
    if (!annb_all_zero(data + at, next - at)) return CORRUPT("padding before byte %llu is not zero", (unsigned long long)next);
    if (i < envelope->n_sections) at = next + envelope->sections[i].length;
  }
  return ANNB_OK;
}

void annb_header_init(annb_fmt_header *header, annb_file_kind kind, const void *kind_fields, size_t size) {
  memset(header, 0, sizeof *header);
  memcpy(header->magic, magics[kind], ANNB_MAGIC_SIZE);
  header->major = ANNB_VERSION_MAJOR;
  header->minor = ANNB_VERSION_MINOR;
  header->header_size = sizeof *header;
  if (size) memcpy(header->kind, kind_fields, size);
}

void annb_header_seal(annb_fmt_header *header) { header->check = annb_hash64(header, offsetof(annb_fmt_header, check)); }

annb_fmt_section *annb_section_begin(annb_section_list *list, uint32_t kind, uint32_t flags, uint64_t offset) {
  annb_fmt_section *s = &list->rows[list->n++];
  *s = (annb_fmt_section){.kind = kind, .flags = flags, .offset = offset};
  return s;
}

annb_status annb_section_write(annb_section_list *list, annb_ofile *file, uint32_t kind, uint32_t flags, const void *data, size_t size,
                               uint64_t count, annb_error *err) {
  annb_status s = annb_ofile_pad(file, 8, err);
  if (s) return s;
  annb_fmt_section *section = annb_section_begin(list, kind, flags, file->offset);
  section->length = size;
  section->count = count;
  annb_hash128(data, size, section->hash);
  return annb_ofile_write(file, data, size, err);
}

annb_status annb_envelope_write_end(annb_ofile *file, const annb_fmt_header *header, const annb_section_list *list, uint8_t footer_hash[16],
                                    annb_error *err) {
  struct {
    annb_fmt_footer footer;
    annb_fmt_section sections[ANNB_MAX_SECTIONS];
  } f;
  annb_status s = annb_ofile_pad(file, 8, err);
  if (s) return s;
  f.footer = (annb_fmt_footer){header->check, list->n, 0};
  memcpy(f.sections, list->rows, list->n * sizeof *f.sections);
  size_t size = sizeof f.footer + list->n * sizeof *f.sections;
  annb_fmt_trailer t = {.footer_offset = file->offset, .footer_size = size};
  memcpy(t.magic, header->magic, sizeof t.magic);
  annb_hash128(&f, size, t.footer_hash);
  t.file_size = file->offset + size + sizeof t;
  t.check = annb_hash64(&t, offsetof(annb_fmt_trailer, check));
  if (footer_hash) memcpy(footer_hash, t.footer_hash, sizeof t.footer_hash);
  s = annb_ofile_write(file, &f, size, err);
  return s ? s : annb_ofile_write(file, &t, sizeof t, err);
}
