/* Make all checks of a patched file right again, so that a test reaches the rule behind them. */
#ifndef ANNB_TESTS_RESEAL_H
#define ANNB_TESTS_RESEAL_H

#include "../store/objects/envelope.h"
#include "../store/hash.h"

#include <check.h>
#include <stdlib.h>

static inline annb_fmt_trailer reseal_trailer(const uint8_t *data, size_t size) {
  annb_fmt_trailer t;
  memcpy(&t, data + size - sizeof t, sizeof t);
  return t;
}

/* Offset of the row of section `kind` in the footer. */
static inline size_t reseal_row(const uint8_t *data, size_t size, uint32_t kind) {
  annb_fmt_trailer t = reseal_trailer(data, size);
  for (size_t at = t.footer_offset + sizeof(annb_fmt_footer); at < size - sizeof t; at += sizeof(annb_fmt_section)) {
    annb_fmt_section s;
    memcpy(&s, data + at, sizeof s);
    if (s.kind == kind) return at;
  }
  ck_abort_msg("no section %u", kind);
  return 0;
}

static inline annb_fmt_section reseal_section(const uint8_t *data, size_t size, uint32_t kind) {
  annb_fmt_section s;
  memcpy(&s, data + reseal_row(data, size, kind), sizeof s);
  return s;
}

/* Header, footer and trailer only; the section rows keep what they say. */
static inline void reseal_ends(uint8_t *data, size_t size) {
  annb_fmt_header h;
  annb_fmt_trailer t = reseal_trailer(data, size);
  memcpy(&h, data, sizeof h);
  annb_header_seal(&h);
  memcpy(data, &h, sizeof h);
  memcpy(data + t.footer_offset, &h.check, sizeof h.check);
  annb_hash128(data + t.footer_offset, t.footer_size, t.footer_hash);
  t.check = annb_hash64(&t, offsetof(annb_fmt_trailer, check));
  memcpy(data + size - sizeof t, &t, sizeof t);
}

/* The hash of a section, then the ends. */
static inline void reseal_hash(uint8_t *data, size_t size, uint32_t kind) {
  annb_fmt_section s = reseal_section(data, size, kind);
  annb_hash128(data + s.offset, s.length, s.hash);
  memcpy(data + reseal_row(data, size, kind), &s, sizeof s);
  reseal_ends(data, size);
}

#endif
