/* Codec 3 (SPEC.md 3.5.1): values that are whole numbers. */
#include "codec_kinds.h"
#include "encode_loops.h"
#include "rice.h"
#include "../objects/whole.h"

#include <annblock/annblock.h>

enum { FIXED = 2, SLOT_CODES = 2, MAX_BASE_BYTES = 10, SMALL = 1 << 24 /* floats hold whole numbers up to this */ };

static bool codes_of(annb_dtype dtype, const uint8_t *values, uint32_t n, uint32_t *codes, int64_t *base) {
  size_t vw = annb_dtype_size(dtype);
  int64_t low = INT64_MAX, high = INT64_MIN, x;
  for (uint32_t i = 0; i < n; i++) {
    if (!annb_whole_get(dtype, values + i * vw, &x)) return false;
    low = x < low ? x : low;
    high = x > high ? x : high;
    codes[i] = (uint32_t)x;
  }
  if (high - low > UINT32_MAX) return false;
  for (uint32_t i = 0; i < n; i++) codes[i] -= (uint32_t)low;
  *base = low;
  return true;
}

/* Zigzag LEB128 of 64 bits. */
static size_t put_base(uint8_t *out, int64_t base) {
  uint64_t x = (uint64_t)base << 1 ^ (base < 0 ? UINT64_MAX : 0);
  size_t n = 0;
  for (; x > 127; x >>= 7) out[n++] = (uint8_t)(x | 128);
  out[n++] = (uint8_t)x;
  return n;
}

static bool take_base(annb_cursor *c, int64_t *base) {
  uint64_t x = 0;
  for (unsigned shift = 0; shift < 7 * MAX_BASE_BYTES; shift += 7) {
    uint8_t byte = annb_cursor_u8(c);
    x |= (uint64_t)(byte & 127) << shift;
    if (byte > 127) continue;
    *base = (int64_t)(x >> 1 ^ (0 - (x & 1)));
    return !c->failed && *base > -ANNB_WHOLE_MAX && *base < ANNB_WHOLE_MAX;
  }
  return false;
}

size_t annb_count_encode(const annb_row_shape *shape, const uint32_t *indices, const uint8_t *values, uint8_t *out, size_t capacity,
                         annb_scratch *scratch) {
  int64_t base;
  uint8_t head[FIXED + MAX_BASE_BYTES] = {ANNB_CODEC_COUNT};
  size_t used = FIXED;
  if (shape->nnz == 0) return 0;
  uint32_t *codes = annb_scratch_get(scratch, SLOT_CODES, ((size_t)shape->nnz + ANNB_KERNEL_SLACK) * sizeof *codes);
  if (!codes) return 0;
  const annb_encode_loops *loops = scratch->loops ? scratch->loops : annb_encode_loops_best();
  int32_t low;
  bool whole = shape->dtype == ANNB_F32 && loops->codes_f32(values, shape->nnz, codes, &low);
  if (whole) base = low;
  if (!whole && !codes_of(shape->dtype, values, shape->nnz, codes, &base)) return 0;
  unsigned flags = base == 1 ? 0 : ANNB_RICE_BASE;
  if (flags) used += put_base(head + used, base);
  if (capacity < used) return 0;
  size_t length = annb_rice_encode(shape, indices, codes, &flags, out + used, capacity - used, scratch);
  head[1] = (uint8_t)flags;
  memcpy(out, head, used);
  return length ? used + length : 0;
}

bool annb_count_values(const annb_row_shape *shape, const annb_kernel *kernel, annb_rice_row *row, int64_t base, uint8_t *values,
                       annb_scratch *scratch) {
  size_t vw = annb_dtype_size(shape->dtype);
  bool floats = shape->dtype == ANNB_F32 && base > -SMALL / 2 && base < SMALL / 2, fresh = !row->codes16 && !row->codes32;
  bool direct = floats && fresh && row->small, ok = direct || !fresh || annb_rice_codes(row, scratch);
  if (!ok) return false;
  if (direct) ok = annb_rice_floats(row, (int32_t)base, values, scratch);
  else if (floats && row->codes16)
    kernel->to_f32(row->codes16, row->n, (int32_t)base, values);
  else if (row->codes16)
    for (uint32_t i = 0; i < row->n; i++) ok &= annb_whole_put(shape->dtype, base + row->codes16[i], values + i * vw);
  else
    for (uint32_t i = 0; i < row->n; i++) ok &= annb_whole_put(shape->dtype, base + row->codes32[i], values + i * vw);
  const uint8_t *at = row->escapes;
  uint32_t position = UINT32_MAX, code;
  for (uint32_t i = 0; i < row->n_escapes; i++) {
    annb_rice_escape(&at, row->escapes_end, &position, &code);
    ok &= annb_whole_put(shape->dtype, base + code, values + position * vw);
  }
  return ok;
}

bool annb_count_open(const annb_row_shape *shape, const uint8_t *record, size_t length, annb_rice_target to, annb_rice_row *row,
                     int64_t *base, annb_scratch *scratch) {
  annb_cursor c = annb_cursor_of(record, length, FIXED, length < FIXED ? 0 : length - FIXED);
  *base = 1;
  if (c.failed || record[1] > (ANNB_RICE_REPEATS | ANNB_RICE_COARSE | ANNB_RICE_BASE)) return false;
  if ((record[1] & ANNB_RICE_BASE) && !take_base(&c, base)) return false;
  return annb_rice_decode(shape, record[1], c.at, annb_cursor_left(&c), to, row, scratch);
}

bool annb_count_decode(const annb_row_shape *shape, const uint8_t *record, size_t length, uint32_t *indices, uint8_t *values,
                       annb_scratch *scratch) {
  const annb_kernel *kernel = scratch->kernel ? scratch->kernel : annb_kernel_best();
  annb_rice_row row;
  int64_t base;
  return annb_count_open(shape, record, length, (annb_rice_target){indices, NULL}, &row, &base, scratch) &&
         annb_count_values(shape, kernel, &row, base, values, scratch);
}
