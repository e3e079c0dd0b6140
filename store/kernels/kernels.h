/* Inner loops of decoding, one set per instruction set. The scalar set is the reference: every other gives the same results.
 * No kernel writes more than ANNB_KERNEL_SLACK elements after n, or reads further than its comment says, whatever the input. */
#ifndef ANNB_STORE_KERNELS_H
#define ANNB_STORE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ANNB_RICE_GROUP 128u
#define ANNB_RICE_MAX_QUOTIENT 63u
#define ANNB_KERNEL_MAX_K16 9u /* parameters up to this are allowed in the 16-bit kernels: 63 * 2^9 + 511 < 2^16 */
#define ANNB_KERNEL_MAX_K32 15u
#define ANNB_KERNEL_SLACK 128u
#define ANNB_KERNEL_OVERREAD 64u /* bytes after the low bits, ids and codes that may be read */

/* n Rice codes in groups of 128: nibbles params[first], …; low bits of group after group, each padded to a byte; and the positions (mod
 * 256) of their ones in the unary stream, where ones[-1] is the position before the first. */
typedef struct annb_rice_seq {
  uint32_t n, first, step; /* the parameter is the nibble times step, which is 1 or 2 */
  uint32_t start;          /* ids: the sum before the first, at most the limit */
  uint32_t max_k;          /* no parameter is larger; kernels need not look */
  const uint8_t *params, *lows, *ones;
} annb_rice_seq;

/* The parameter of the group that many groups after the first. */
static inline unsigned annb_rice_param(const annb_rice_seq *seq, uint32_t group) {
  uint64_t i = (uint64_t)seq->first + group;
  return (seq->params[i / 2] >> (i % 2 * 4) & 15u) * seq->step;
}

typedef struct annb_kernel {
  const char *name;
  bool (*usable)(void); /* on this machine */

  uint64_t (*hash64)(const void *data, size_t size); /* XXH3-64 */

  /* Positions mod 256 of the n ones in `size` bytes: false unless there are exactly n, the last in the last byte, and no zero 8 bytes at a
   * multiple of 8. Positions after the last count on by one: 64 of them are valid. */
  bool (*unary)(const uint8_t *bits, size_t size, size_t n, uint8_t *ones);

  /* Ids whose gaps have no low parts: the first n > 0 ones of the stream mark them, bit i id i. lead16: the ids; lead32: the same in 32
   * bits, or with a table, which has 64 entries more than `limit`, table[id]. Returns how many bits the n ones take; 0 when there are no n,
   * one is after more than 63 zeros, or the bits are more than `limit` (< 65535). */
  size_t (*lead16)(const uint8_t *bits, size_t size, size_t n, uint32_t limit, uint16_t *ids);
  size_t (*lead32)(const uint8_t *bits, size_t size, size_t n, uint32_t limit, const uint16_t *table, uint32_t *ids);

  /* Sums of (code + add) from the sequence's start on, less `add`, for add 0 or 1: false when a quotient exceeds 63 or a sum exceeds
   * `limit` (< 65535; < 2^31). */
  bool (*ids16)(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint16_t *ids);
  bool (*ids32)(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint32_t *ids);
  bool (*ids16_wide)(const annb_rice_seq *seq, unsigned add, uint32_t limit, uint32_t *ids); /* what ids16 gives, in 32 bits */

  /* The codes themselves: false when a quotient exceeds 63. */
  bool (*codes16)(const annb_rice_seq *seq, uint16_t *codes);
  bool (*codes32)(const annb_rice_seq *seq, uint32_t *codes);
  /* The same plus base as floats, which hold them exactly, then base itself up to n; out may be unaligned. */
  bool (*floats16)(const annb_rice_seq *seq, size_t n, int32_t base, uint8_t *out);

  /* out[i] = table[ids[i]] where all are inside the table; out[i] = codes[i] + base, which floats hold exactly; out of
   * `to_f32` may be unaligned */
  void (*map)(const uint16_t *ids, size_t n, const uint16_t *table, uint32_t *out);
  void (*to_f32)(const uint16_t *codes, size_t n, int32_t base, uint8_t *out);

  /* out[i] = entries[codes[i]], 4 bytes each, out unaligned; false when a code is not below n_entries */
  bool (*look_up)(const uint16_t *codes, size_t n, const uint32_t *entries, uint32_t n_entries, uint8_t *out);

  /* Sort n distinct ids below 64 × n_words ≤ 65536, and the codes with them. keys: room for n; all three are read and written as far as the
   * slack. */
  void (*sort)(uint32_t *ids, uint16_t *codes, size_t n, size_t n_words, uint32_t *keys);

  /* Marks are bytes by delivered id, zero where the row has nothing. narrow: marks[i] = min(codes[i] + 1, 255), returns the highest code;
   * scatter: by_id[table[ids[i]]] = marks[i]; expand: marks as float32, which become zero. */
  uint32_t (*narrow)(const uint16_t *codes, size_t n, uint8_t *marks);
  void (*scatter)(const uint16_t *ids, const uint8_t *marks, size_t n, const uint16_t *table, uint8_t *by_id);
  void (*expand)(uint8_t *by_id, size_t n, float *out);
} annb_kernel;

/* All of them, the scalar one first, the fastest last. */
const annb_kernel *const *annb_kernels(size_t *n);
/* The fastest usable one. */
const annb_kernel *annb_kernel_best(void);

extern const annb_kernel annb_kernel_scalar;
#if defined(__x86_64__) && defined(__GNUC__)
#define ANNB_HAVE_AVX2 1
uint64_t annb_hash64_avx2(const void *data, size_t size);
#define ANNB_HAVE_AVX512 1
extern const annb_kernel annb_kernel_avx2, annb_kernel_avx512;
#endif
#if defined(__aarch64__) && defined(__AARCH64EL__) && defined(__ARM_NEON) && defined(__GNUC__)
#define ANNB_HAVE_NEON 1
extern const annb_kernel annb_kernel_neon;
#endif

#endif
