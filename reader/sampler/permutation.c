#include "permutation.h"

#include "random.h"

#include <stddef.h>

static unsigned bits_for(uint64_t n) {
  unsigned bits = 0;
  while (bits < 64 && UINT64_C(1) << bits < n) bits++;
  return bits;
}

void annb_permutation_set(annb_permutation *p, uint64_t n, uint64_t key, uint16_t *table) {
  uint64_t next = 0;
  unsigned bits = bits_for(n);
  *p = (annb_permutation){.n = n, .low_bits = bits / 2, .high_bits = bits - bits / 2, .table = table};
  if (n >= ANNB_PERMUTATION_TABLE) {
    p->table = NULL;
    for (unsigned i = 0; i < ANNB_PERMUTATION_ROUNDS; i++) p->keys[i] = annb_random(key, i);
    return;
  }
  for (uint64_t i = 0; i < n; i++) table[i] = (uint16_t)i;
  for (uint64_t i = n - 1; i > 0; i--) {
    uint64_t j = annb_random_below(key, &next, i + 1);
    uint16_t swapped = table[i];
    table[i] = table[j];
    table[j] = swapped;
  }
}

/* What round i adds to the half that it changes: the high one in even rounds. */
static uint64_t round_of(const annb_permutation *p, unsigned i, uint64_t other) {
  return annb_random_mix(other + p->keys[i]) >> (64 - (i & 1 ? p->low_bits : p->high_bits));
}

static uint64_t encipher(const annb_permutation *p, uint64_t x) {
  uint64_t low = x & ((UINT64_C(1) << p->low_bits) - 1), high = x >> p->low_bits;
  for (unsigned i = 0; i < ANNB_PERMUTATION_ROUNDS; i += 2) {
    high ^= round_of(p, i, low);
    low ^= round_of(p, i + 1, high);
  }
  return high << p->low_bits | low;
}

static uint64_t decipher(const annb_permutation *p, uint64_t x) {
  uint64_t low = x & ((UINT64_C(1) << p->low_bits) - 1), high = x >> p->low_bits;
  for (unsigned i = ANNB_PERMUTATION_ROUNDS; i > 0; i -= 2) {
    low ^= round_of(p, i - 1, high);
    high ^= round_of(p, i - 2, low);
  }
  return high << p->low_bits | low;
}

uint64_t annb_permutation_at(const annb_permutation *p, uint64_t i) {
  if (p->table) return p->table[i];
  do i = encipher(p, i);
  while (i >= p->n);
  return i;
}

uint64_t annb_permutation_inverse(const annb_permutation *p, uint64_t x) {
  if (p->table) {
    uint64_t i = 0;
    while (p->table[i] != x) i++;
    return i;
  }
  do x = decipher(p, x);
  while (x >= p->n);
  return x;
}
