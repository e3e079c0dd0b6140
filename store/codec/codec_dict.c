/* Codec 4 (SPEC.md 3.5.2): values of which few differ, told by their exact bits. */
#include "codec_kinds.h"
#include "rice.h"

#include <annblock/annblock.h>
#include <stdlib.h>

enum { FIXED = 2, SLOT_WORK = 0, SLOT_CODES = 2, SLOT_TABLE = 0, MAX_ENTRIES = 65536, MAX_SIZE_BYTES = 5 };

typedef struct entry {
  uint64_t bits;
  uint32_t number; /* in order of first use */
} entry;

/* Open addressing: slots of 1 + number of an entry. */
typedef struct dictionary {
  entry *entries;
  uint32_t *slots, *rank, n, limit, mask;
  unsigned shift;
} dictionary;

static uint64_t load(const uint8_t *p, size_t vw) {
  uint64_t x = 0;
  memcpy(&x, p, vw);
  return x;
}

static int compare(const void *a, const void *b) {
  const entry *x = a, *y = b;
  return (x->bits > y->bits) - (x->bits < y->bits);
}

static bool dictionary_init(dictionary *d, uint32_t n, annb_scratch *scratch) {
  unsigned log2_slots = 4;
  *d = (dictionary){.limit = n / 2 + 1 < MAX_ENTRIES ? n / 2 + 1 : MAX_ENTRIES};
  while (UINT32_C(1) << log2_slots < 2 * d->limit) log2_slots++;
  size_t n_slots = (size_t)1 << log2_slots;
  d->shift = 64 - log2_slots;
  d->mask = (uint32_t)(n_slots - 1);
  d->entries = annb_scratch_get(scratch, SLOT_WORK, d->limit * (sizeof *d->entries + sizeof *d->rank) + n_slots * sizeof *d->slots);
  if (!d->entries) return false;
  d->rank = (uint32_t *)(d->entries + d->limit);
  d->slots = d->rank + d->limit;
  memset(d->slots, 0, n_slots * sizeof *d->slots);
  return true;
}

/* The slot of a value: its own, or the empty one that it would take. */
static uint32_t *slot_of(const dictionary *d, uint64_t bits) {
  uint32_t i = (uint32_t)(bits * UINT64_C(0x9E3779B97F4A7C15) >> d->shift);
  while (d->slots[i] && d->entries[d->slots[i] - 1].bits != bits) i = (i + 1) & d->mask;
  return &d->slots[i];
}

/* codes[i] = number of value i; false when too many differ. */
static bool dictionary_fill(dictionary *d, const uint8_t *values, uint32_t n, size_t vw, uint32_t *codes) {
  for (uint32_t i = 0; i < n; i++) {
    uint64_t bits = vw == 4 ? load(values + 4 * (size_t)i, 4) : load(values + i * vw, vw);
    uint32_t *slot = slot_of(d, bits);
    if (*slot == 0) {
      if (d->n == d->limit) return false;
      d->entries[d->n] = (entry){bits, d->n};
      *slot = ++d->n;
    }
    codes[i] = *slot - 1;
  }
  return true;
}

/* Sort the entries and make the codes ranks. */
static void dictionary_sort(dictionary *d, uint32_t n, uint32_t *codes) {
  qsort(d->entries, d->n, sizeof *d->entries, compare);
  for (uint32_t i = 0; i < d->n; i++) d->rank[d->entries[i].number] = i;
  for (uint32_t i = 0; i < n; i++) codes[i] = d->rank[codes[i]];
}

size_t annb_dict_encode(const annb_row_shape *shape, const uint32_t *indices, const uint8_t *values, uint8_t *out, size_t capacity,
                        annb_scratch *scratch) {
  dictionary d;
  uint8_t head[FIXED + MAX_SIZE_BYTES] = {ANNB_CODEC_DICT};
  size_t vw = annb_dtype_size(shape->dtype);
  uint32_t n = shape->nnz;
  if (n == 0 || vw == 0) return 0;
  uint32_t *codes = annb_scratch_get(scratch, SLOT_CODES, ((size_t)n + ANNB_KERNEL_SLACK) * sizeof *codes);
  if (!codes || !dictionary_init(&d, n, scratch) || !dictionary_fill(&d, values, n, vw, codes)) return 0;
  size_t fixed = (size_t)(annb_varint_put(head + FIXED, d.n - 1) - head), used = fixed + d.n * vw;
  if (capacity < used) return 0;
  dictionary_sort(&d, n, codes);
  for (uint32_t i = 0; i < d.n; i++) memcpy(out + fixed + i * vw, &d.entries[i].bits, vw);
  unsigned flags = 0; /* from here on the scratch memory of the dictionary is the coder's */
  size_t length = annb_rice_encode(shape, indices, codes, &flags, out + used, capacity - used, scratch);
  head[1] = (uint8_t)flags;
  memcpy(out, head, fixed);
  return length ? used + length : 0;
}

static bool all_below(const annb_rice_row *row, uint32_t limit) {
  uint32_t highest = 0, n = row->n;
  const uint16_t *narrow = row->codes16;
  const uint32_t *wide = row->codes32;
  for (uint32_t i = 0; narrow && i < n; i++) highest = narrow[i] > highest ? narrow[i] : highest;
  for (uint32_t i = 0; wide && i < n; i++) highest = wide[i] > highest ? wide[i] : highest;
  return highest < limit;
}

/* The usual case: 4-byte values, codes of 16 bits. */
static bool look_up4(const annb_kernel *kernel, const annb_rice_row *row, const uint8_t *entries, uint32_t n_entries, uint8_t *values,
                     annb_scratch *scratch) {
  uint32_t *table = annb_scratch_get(scratch, SLOT_TABLE, (size_t)n_entries * sizeof *table);
  if (!table) return false;
  memcpy(table, entries, (size_t)n_entries * sizeof *table);
  return kernel->look_up(row->codes16, row->n, table, n_entries, values);
}

/* values[i] = entry codes[i], and then the escapes; false when a code has no entry. */
bool annb_dict_values(const annb_kernel *kernel, const annb_rice_row *row, const uint8_t *entries, uint32_t n_entries, size_t vw,
                      uint8_t *values, annb_scratch *scratch) {
  const uint16_t *narrow = row->codes16;
  const uint32_t *wide = row->codes32;
  const uint8_t *at = row->escapes;
  uint32_t n = row->n, position = UINT32_MAX, code;
  if (narrow && vw == 4) {
    if (!look_up4(kernel, row, entries, n_entries, values, scratch)) return false;
  } else {
    if (!all_below(row, n_entries)) return false;
    for (uint32_t i = 0; i < n; i++) memcpy(values + i * vw, entries + (narrow ? narrow[i] : wide[i]) * vw, vw);
  }
  for (uint32_t i = 0; i < row->n_escapes; i++) {
    annb_rice_escape(&at, row->escapes_end, &position, &code);
    if (code >= n_entries) return false;
    memcpy(values + position * vw, entries + code * vw, vw);
  }
  return true;
}

bool annb_dict_open(const annb_row_shape *shape, const uint8_t *record, size_t length, annb_rice_target to, annb_rice_row *row,
                    const uint8_t **entries, uint32_t *n_entries, annb_scratch *scratch) {
  annb_cursor c = annb_cursor_of(record, length, FIXED, length < FIXED ? 0 : length - FIXED);
  size_t vw = annb_dtype_size(shape->dtype);
  if (c.failed || record[1] > (ANNB_RICE_REPEATS | ANNB_RICE_COARSE)) return false;
  uint64_t n = annb_varint_take(&c);
  if (c.failed || n >= MAX_ENTRIES || !(*entries = annb_cursor_take(&c, ++n * vw))) return false;
  for (uint64_t i = 1; i < n; i++)
    if (load(*entries + (i - 1) * vw, vw) >= load(*entries + i * vw, vw)) return false;
  *n_entries = (uint32_t)n;
  return annb_rice_decode(shape, record[1], c.at, annb_cursor_left(&c), to, row, scratch) && annb_rice_codes(row, scratch);
}

bool annb_dict_decode(const annb_row_shape *shape, const uint8_t *record, size_t length, uint32_t *indices, uint8_t *values,
                      annb_scratch *scratch) {
  const annb_kernel *kernel = scratch->kernel ? scratch->kernel : annb_kernel_best();
  const uint8_t *entries;
  uint32_t n_entries;
  annb_rice_row row;
  return annb_dict_open(shape, record, length, (annb_rice_target){indices, NULL}, &row, &entries, &n_entries, scratch) &&
         annb_dict_values(kernel, &row, entries, n_entries, annb_dtype_size(shape->dtype), values, scratch);
}
