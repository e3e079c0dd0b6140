/* Inner loops of encoding, compiled once for any machine and once for x86-64 with AVX2 and BMI: the same C, the same results. */
#ifndef ANNB_STORE_ENCODE_LOOPS_H
#define ANNB_STORE_ENCODE_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A unary stream under way: the low `fill` < 8 bits of `word` are still to be written. */
typedef struct annb_unary {
  uint8_t *out;
  uint64_t word;
  uint32_t fill;
} annb_unary;

typedef struct annb_encode_loops {
  const char *name;
  bool (*usable)(void); /* on this machine */

  uint32_t (*highest)(const uint32_t *x, size_t n); /* 0 for n = 0 */
  bool (*ascends)(const uint32_t *x, size_t n);     /* x does not descend */

  /* Floats that are whole numbers within ±2^24, but for −0: codes[i] = value i − *base, the base being the smallest. False when there are
   * others. */
  bool (*codes_f32)(const uint8_t *values, size_t n, uint32_t *codes, int32_t *base);

  /* gaps[0] = ids[0], gaps[i] = ids[i] − ids[i − 1] − 1: bits that occur in them (where ids ascend). *repeats, *descents: some do. */
  uint32_t (*gaps)(const uint32_t *ids, size_t n, uint32_t *gaps, bool *repeats, bool *descents);

  /* Of a group of 128 values: the bits that occur; how many are not zero, and the sum of the others' values less one, each counted as
   * `most` at most. */
  uint32_t (*any)(const uint32_t *group);
  void (*tail)(const uint32_t *group, uint32_t most, uint64_t *n, uint64_t *excess);
  /* The nibble ≥ lowest with which n values of a group (zeros follow) cost least as Rice codes of parameter nibble × step, and their bits.
   * Values whose quotient passes `cap` cost cap bits. */
  unsigned (*choose)(const uint32_t *group, uint32_t n, unsigned step, unsigned lowest, uint32_t cap, uint32_t *bits);
  /* The k ≤ 8 low bits of n values (zeros follow up to 128) side by side. Up to 64 bytes more than (n × k + 7) / 8 may be written. */
  void (*put_low)(uint8_t *out, const uint32_t *group, uint32_t n, unsigned k);

  /* Add the quotients x >> k of n ≤ 128 values: q zeros and a one each. Up to 8 bytes past the stream's last may be written. */
  void (*put_quotients)(annb_unary *unary, const uint32_t *values, uint32_t n, unsigned k);

  /* Stored ids, table[columns[i]], and a mark for each in `seen` (a bit each, clear before). Without a table the columns are the ids. */
  void (*mark)(const uint32_t *columns, size_t n, const uint32_t *table, uint64_t *seen, uint32_t *ids);
  /* The n marked ids in order and their values (4 bytes each): the place of one is how many marks are before it. The marks, of n_words
   * words, are taken back; `before` has room for as many numbers. False when an id occurs twice. */
  bool (*rank)(uint64_t *seen, size_t n_words, uint32_t *before, const uint32_t *ids, const uint8_t *values, size_t n, uint32_t *sorted,
               uint32_t *sorted_values);
} annb_encode_loops;

/* Both, that for any machine first. */
const annb_encode_loops *const *annb_encode_loops_all(size_t *n);
/* The fastest usable ones. */
const annb_encode_loops *annb_encode_loops_best(void);

#endif
