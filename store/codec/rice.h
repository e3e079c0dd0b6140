/* The body that the codecs count and dict share (SPEC.md 3.5.3): ascending ids and small codes, Rice-coded. */
#ifndef ANNB_STORE_RICE_H
#define ANNB_STORE_RICE_H

#include "codec.h"
#include "../cursor.h"
#include "../kernels/kernels.h"

#define ANNB_RICE_REPEATS 1u /* gaps are next − previous */
#define ANNB_RICE_COARSE 2u  /* parameters are twice their nibble */
#define ANNB_RICE_BASE 4u    /* count only: a base is stated */

/* LEB128. Take: below 2^32 or UINT64_MAX on failure; put: at most 5 bytes, returns the end. */
uint64_t annb_varint_take(annb_cursor *cursor);
uint8_t *annb_varint_put(uint8_t *out, uint32_t x);

/* Where a row's ids go: memory of the caller for n + ANNB_KERNEL_SLACK, or NULL: the scratch. With a table, of n_cols + 64 entries, what it
 * has for the ids goes to that memory, if there are fewer than 65,535 columns and no escapes, whose ids one needs. */
typedef struct annb_rice_target {
  uint32_t *ids;
  const uint16_t *table;
} annb_rice_target;

/* A row as its body gives it: ids and codes of 16 or 32 bits, without the escapes. In scratch memory; `slack` elements
 * after the last may be read and written. */
typedef struct annb_rice_row {
  uint32_t n, n_escapes;
  bool mapped;           /* the ids went through the table: both are NULL */
  const uint16_t *ids16; /* with fewer than 65,535 columns, unless they went to the caller's memory; else NULL and */
  const uint32_t *ids32;
  annb_rice_seq head, tail_at, tail; /* the codes, valid as long as the scratch memory is not used for another row, and */
  bool small;                        /* all of that has 16 bits */
  uint16_t *codes16; /* both NULL before annb_rice_codes; then this, or when codes are 32 bits wide */
  uint32_t *codes32;
  const uint8_t *escapes, *escapes_end;
} annb_rice_row;

/* Decode the body of `length` bytes at `body` with the scratch's kernel. False when it is not valid. Uses all slots of the scratch memory,
 * where the row stays, but for ids that go elsewhere. The escapes are valid: positions ascend and are < n. */
bool annb_rice_decode(const annb_row_shape *shape, unsigned flags, const uint8_t *body, size_t length, annb_rice_target to,
                      annb_rice_row *row, annb_scratch *scratch);

/* The codes. False when they are not valid. */
bool annb_rice_codes(annb_rice_row *row, annb_scratch *scratch);
/* Instead, of a small row: codes + base, which floats hold exactly, as float32 to unaligned memory for n + ANNB_KERNEL_SLACK. */
bool annb_rice_floats(const annb_rice_row *row, int32_t base, uint8_t *values, annb_scratch *scratch);

/* Walk the escapes: *at starts at row->escapes, *position at UINT32_MAX. */
void annb_rice_escape(const uint8_t **at, const uint8_t *end, uint32_t *position, uint32_t *code);

/* A record of codec count as its row and base, a record of codec dict as its row and entries (n_entries of the dtype's size, unaligned):
 * the first steps of their decoders. A row of codec count has no codes yet. Codes of the row and its escapes are not yet compared with
 * n_entries. */
bool annb_count_open(const annb_row_shape *shape, const uint8_t *record, size_t length, annb_rice_target to, annb_rice_row *row,
                     int64_t *base, annb_scratch *scratch);
bool annb_dict_open(const annb_row_shape *shape, const uint8_t *record, size_t length, annb_rice_target to, annb_rice_row *row,
                    const uint8_t **entries, uint32_t *n_entries, annb_scratch *scratch);
/* The second steps: the values; false when one is not representable or has no entry. */
bool annb_count_values(const annb_row_shape *shape, const annb_kernel *kernel, annb_rice_row *row, int64_t base, uint8_t *values,
                       annb_scratch *scratch);
bool annb_dict_values(const annb_kernel *kernel, const annb_rice_row *row, const uint8_t *entries, uint32_t n_entries, size_t vw,
                      uint8_t *values, annb_scratch *scratch);

/* Encode ids (each < n_cols, not descending) and codes. Returns the body's length or 0 as annb_codec.encode does; *flags gets REPEATS and
 * COARSE. `codes` are spent: outliers in it become 0. Uses slots 0 and 1; `codes` may be in slot 2. Both arrays have 128 elements of room
 * after n. */
size_t annb_rice_encode(const annb_row_shape *shape, const uint32_t *ids, uint32_t *codes, unsigned *flags, uint8_t *out, size_t capacity,
                        annb_scratch *scratch);

#endif
