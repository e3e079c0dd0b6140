/* Every kernel against the scalar one: all widths, many lengths, all misalignments, at guard pages; and on bytes of any kind. */
#include "../store/kernels/kernels.h"
#include "codec_help.h"
#include "suite.h"

#include <check.h>
#include <string.h>

enum { MAX_N = 700, ROOM = MAX_N + 2 * ANNB_KERNEL_SLACK };

static uint64_t state;
static uint64_t below(uint64_t n) { return help_random(&state) % n; }

static const uint32_t lengths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 127, 128, 129, 200, 256, 257, 640};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

/* What a kernel may touch, each ending at a guard page. */
typedef struct memory {
  help_fence in, ones, lows, out;
} memory;

static memory memory_new(void) {
  return (memory){help_fence_new(16 * MAX_N), help_fence_new(ROOM + 64), help_fence_new(4 * MAX_N), help_fence_new(8 * ROOM)};
}

static void memory_free(memory *m) {
  help_fence_free(&m->in);
  help_fence_free(&m->ones);
  help_fence_free(&m->lows);
  help_fence_free(&m->out);
}

static const annb_kernel *kernel_of_test(int i) {
  size_t n;
  const annb_kernel *const *kernels = help_kernels(&n);
  return (size_t)i < n && kernels[i]->usable() ? kernels[i] : NULL;
}

/* Where n elements and the slack end at the guard page, `shift` bytes before it. */
static uint8_t *out_for(const help_fence *f, size_t n, size_t size, unsigned shift) {
  return f->end - (n + ANNB_KERNEL_SLACK) * size - shift * size;
}

/* ---- unary ---- */

/* A stream of n quotients below `limit`, at the end of the fence; returns its size. */
static size_t make_stream(help_fence *f, uint32_t n, uint32_t limit, const uint8_t **bits) {
  uint8_t stream[16 * MAX_N] = {0};
  size_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    at += below(limit);
    stream[at / 8] |= (uint8_t)(1u << at % 8);
    at++;
  }
  size_t size = (at + 7) / 8;
  memcpy(f->end - size, stream, size);
  *bits = f->end - size;
  return size;
}

static bool run_unary(const annb_kernel *k, memory *m, const uint8_t *bits, size_t size, uint32_t n, uint8_t out[ROOM]) {
  uint8_t *ones = m->ones.end - n - ANNB_KERNEL_SLACK;
  memset(m->ones.map, 0xA5, ROOM);
  ones[-1] = 255;
  bool ok = k->unary(bits, size, n, ones);
  ck_assert_uint_eq(ones[-1], 255);
  memcpy(out, ones, n + ANNB_KERNEL_OVERREAD);
  return ok;
}

START_TEST(unary_agrees) {
  const annb_kernel *kernel = kernel_of_test(_i);
  memory m = memory_new();
  uint8_t a[ROOM], b[ROOM];
  const uint8_t *bits;
  for (uint32_t limit = 1; limit <= 64; limit += limit < 4 ? 1 : 12)
    for (size_t l = 0; kernel && l < N_LENGTHS; l++) {
      size_t size = make_stream(&m.in, lengths[l], limit, &bits);
      ck_assert(run_unary(&annb_kernel_scalar, &m, bits, size, lengths[l], a));
      ck_assert(run_unary(kernel, &m, bits, size, lengths[l], b));
      ck_assert_mem_eq(a, b, lengths[l] + ANNB_KERNEL_OVERREAD);
      for (int wrong = -1; wrong <= 1; wrong += 2) ck_assert(!run_unary(kernel, &m, bits, size, lengths[l] + (uint32_t)wrong, b));
      if (size > 1) ck_assert(!run_unary(kernel, &m, bits, size - 1, lengths[l], b));
    }
  memory_free(&m);
}
END_TEST

START_TEST(unary_is_safe_on_any_bytes) {
  const annb_kernel *kernel = kernel_of_test(_i);
  memory m = memory_new();
  uint8_t a[ROOM], b[ROOM];
  uint32_t valid = 0;
  for (int round = 0; kernel && round < 4000; round++) {
    size_t size = below(60);
    uint32_t n = 0, density = (uint32_t)below(8);
    uint8_t *bits = m.in.end - size;
    for (size_t i = 0; i < size; i++) bits[i] = (uint8_t)(density < 7 ? help_random(&state) & help_random(&state) >> density : 0);
    for (size_t i = 0; i < 8 * size; i++) n += bits[i / 8] >> i % 8 & 1;
    if (below(4) == 0) n = (uint32_t)below(500);
    bool ok = run_unary(&annb_kernel_scalar, &m, bits, size, n, a);
    ck_assert_int_eq(run_unary(kernel, &m, bits, size, n, b), ok);
    if (ok) ck_assert_mem_eq(a, b, n + ANNB_KERNEL_OVERREAD);
    valid += ok;
  }
  if (kernel) ck_assert_uint_gt(valid, 200);
  memory_free(&m);
}
END_TEST

/* ---- leading ids ---- */

/* What lead16 and lead32 are to do, one bit after the other. */
static size_t lead_by_bits(const uint8_t *bits, size_t size, uint32_t n, uint32_t limit, uint32_t *ids) {
  uint32_t zeros = 0, k = 0;
  for (size_t i = 0; i < 8 * size && i < limit; i++) {
    zeros = bits[i / 8] >> i % 8 & 1 ? 0 : zeros + 1;
    if (zeros > 63) return 0;
    if (!zeros) ids[k++] = (uint32_t)i;
    if (k == n) return i + 1;
  }
  return 0;
}

/* All three ways, with everything at guard pages. */
static size_t compare_lead(const annb_kernel *kernel, memory *m, const uint8_t *bits, size_t size, uint32_t n, uint32_t limit) {
  uint32_t ids[MAX_N];
  size_t used = lead_by_bits(bits, size, n, limit, ids);
  uint16_t *narrow = (uint16_t *)(void *)out_for(&m->out, n, 2, 0), *table = (uint16_t *)(void *)(m->lows.end - 2 * (limit + 64));
  for (uint32_t i = 0; i < limit + 64; i++) table[i] = (uint16_t)(i * 40503u);
  ck_assert_uint_eq(kernel->lead16(bits, size, n, limit, narrow), used);
  for (uint32_t i = 0; used && i < n; i++) ck_assert_uint_eq(narrow[i], ids[i]);
  uint32_t *wide = (uint32_t *)(void *)out_for(&m->out, n, 4, 0);
  ck_assert_uint_eq(kernel->lead32(bits, size, n, limit, NULL, wide), used);
  for (uint32_t i = 0; used && i < n; i++) ck_assert_uint_eq(wide[i], ids[i]);
  ck_assert_uint_eq(kernel->lead32(bits, size, n, limit, table, wide), used);
  for (uint32_t i = 0; used && i < n; i++) ck_assert_uint_eq(wide[i], table[ids[i]]);
  return used;
}

START_TEST(lead_agrees) {
  const annb_kernel *kernel = kernel_of_test(_i);
  memory m = memory_new();
  uint32_t valid = 0, refused = 0;
  for (int round = 0; kernel && round < 6000; round++) {
    size_t size = 1 + below(150);
    uint32_t ones = 0, density = (uint32_t)below(6);
    uint8_t *bits = m.in.end - size;
    for (size_t i = 0; i < size; i++) {
      bits[i] = (uint8_t)(help_random(&state) & help_random(&state) >> density);
      if (density == 5 && below(2)) bits[i] = 0; /* runs of zeros about as long as they may be */
    }
    for (size_t i = 0; i < 8 * size; i++) ones += bits[i / 8] >> i % 8 & 1;
    uint32_t n = below(3) ? 1 + (uint32_t)below(ones + 1) : 1 + (uint32_t)below(MAX_N), limit = below(3) ? 1300 : 1 + (uint32_t)below(1300);
    if (n > MAX_N) n = MAX_N;
    size_t used = compare_lead(kernel, &m, bits, size, n, limit);
    if (used) ck_assert_uint_eq(compare_lead(kernel, &m, bits, size, n, (uint32_t)used), used); /* just enough */
    if (used > 1) ck_assert_uint_eq(compare_lead(kernel, &m, bits, size, n, (uint32_t)used - 1), 0);
    valid += used > 0;
    refused += used == 0;
  }
  if (kernel) ck_assert(valid > 1000 && refused > 1000);
  memory_free(&m);
}
END_TEST

/* 63 zeros between two ones wherever they are, and 64. */
START_TEST(lead_sees_far_ones) {
  const annb_kernel *kernel = kernel_of_test(_i);
  memory m = memory_new();
  for (uint32_t first = 0; kernel && first < 200; first++)
    for (uint32_t zeros = 62; zeros < 66; zeros++) {
      uint32_t second = first + 1 + zeros;
      size_t size = second / 8 + 1;
      uint8_t *bits = m.in.end - size;
      memset(bits, 0, size);
      for (uint32_t i = 0; i <= first; i += 1 + i % 3) bits[i / 8] |= (uint8_t)(1u << i % 8);
      bits[first / 8] |= (uint8_t)(1u << first % 8);
      bits[second / 8] |= (uint8_t)(1u << second % 8);
      uint32_t n = 0;
      for (size_t i = 0; i < 8 * size; i++) n += bits[i / 8] >> i % 8 & 1;
      ck_assert_uint_eq(compare_lead(kernel, &m, bits, size, n, 1000), zeros < 64 ? second + 1 : 0);
    }
  memory_free(&m);
}
END_TEST

/* ---- sequences ---- */

/* A sequence with the given parameter (or any up to it, when `mixed`) and quotients up to `top`; everything ends at guard pages. */
static annb_rice_seq make_seq(memory *m, uint32_t n, unsigned k, bool mixed, uint32_t top, unsigned shift, uint8_t params[8]) {
  size_t size = 0;
  uint32_t groups = (n + 127) / 128;
  memset(params, 0, 8);
  for (uint32_t g = 0; g < groups; g++) {
    unsigned nibble = mixed ? (unsigned)below(k + 1) : k;
    uint32_t in_group = n - 128 * g < 128 ? n - 128 * g : 128;
    params[(g + 1) / 2] |= (uint8_t)(nibble << ((g + 1) % 2 * 4));
    size += (in_group * nibble + 7) / 8;
  }
  uint8_t *lows = m->lows.end - size - ANNB_KERNEL_OVERREAD - shift;
  for (uint8_t *p = lows; p < m->lows.end; p++) *p = (uint8_t)help_random(&state);
  uint8_t *ones = m->ones.end - n - ANNB_KERNEL_OVERREAD - shift;
  ones[-1] = (uint8_t)below(256);
  for (uint32_t i = 0; i < n; i++) ones[i] = (uint8_t)(ones[(ptrdiff_t)i - 1] + 1 + below(top + 1));
  for (uint32_t i = 0; i < ANNB_KERNEL_OVERREAD; i++) ones[n + i] = (uint8_t)help_random(&state);
  return (annb_rice_seq){.n = n, .first = 1, .step = 1, .params = params, .lows = lows, .ones = ones};
}

typedef enum what { IDS16, IDS32, WIDE, CODES16, CODES32, FLOATS16 } what;

/* Codes plus 5 as floats, then 5, at no multiple of 4; back to codes. */
static bool run_floats(const annb_kernel *k, const annb_rice_seq *seq, uint8_t *to) {
  size_t n = seq->n + below(ANNB_KERNEL_SLACK / 2);
  bool ok = k->floats16(seq, n, 5, to - 1);
  for (size_t i = 0; ok && i < n; i++) {
    float x;
    memcpy(&x, to - 1 + 4 * i, 4);
    ck_assert(i < seq->n || x == 5);
    uint32_t code = (uint32_t)x - 5;
    memcpy(to + 4 * i - 1, &code, 4);
  }
  memmove(to, to - 1, 4 * (size_t)seq->n);
  to[-1] = 0x5A;
  return ok;
}

static bool run_seq(const annb_kernel *k, what w, memory *m, const annb_rice_seq *seq, unsigned add, uint32_t limit, unsigned shift,
                    uint32_t out[MAX_N]) {
  size_t size = w == IDS16 || w == CODES16 ? 2 : 4;
  uint8_t *to = out_for(&m->out, seq->n, size, shift);
  memset(to - 64, 0x5A, 64);
  bool ok = w == IDS16     ? k->ids16(seq, add, limit, (uint16_t *)(void *)to)
            : w == IDS32   ? k->ids32(seq, add, limit, (uint32_t *)(void *)to)
            : w == WIDE    ? k->ids16_wide(seq, add, limit, (uint32_t *)(void *)to)
            : w == CODES16 ? k->codes16(seq, (uint16_t *)(void *)to)
            : w == CODES32 ? k->codes32(seq, (uint32_t *)(void *)to)
                           : run_floats(k, seq, to);
  uint32_t touched = 0;
  for (int i = 1; i <= 64; i++) touched += to[-i] != 0x5A;
  ck_assert_uint_eq(touched, 0);
  for (uint32_t i = 0; i < seq->n; i++) {
    out[i] = 0;
    memcpy(&out[i], to + i * size, size);
  }
  return ok;
}

static void compare(const annb_kernel *kernel, what w, memory *m, const annb_rice_seq *seq, unsigned shift) {
  uint32_t a[MAX_N], b[MAX_N], limit = w == IDS16 || w == WIDE ? 65534 : INT32_MAX;
  for (unsigned add = 0; add < 2; add++) {
    bool ok = run_seq(&annb_kernel_scalar, w, m, seq, add, limit, 0, a);
    ck_assert_int_eq(run_seq(kernel, w, m, seq, add, limit, shift, b), ok);
    if (!ok) continue;
    ck_assert_mem_eq(a, b, seq->n * sizeof *a);
    if (w >= CODES16) continue;
    uint32_t sum = a[seq->n - 1] + add; /* just enough, and one too little */
    ck_assert(run_seq(kernel, w, m, seq, add, sum, shift, b));
    if (sum > 0) ck_assert(!run_seq(kernel, w, m, seq, add, sum - 1, shift, b));
  }
}

START_TEST(sequences_agree) {
  const annb_kernel *kernel = kernel_of_test(_i);
  memory m = memory_new();
  uint8_t params[8];
  for (int w = IDS16; kernel && w <= FLOATS16; w++) {
    unsigned max_k = w == IDS16 || w == WIDE || w == CODES16 || w == FLOATS16 ? ANNB_KERNEL_MAX_K16 : ANNB_KERNEL_MAX_K32;
    for (unsigned k = 0; k <= max_k; k++)
      for (size_t l = 0; l < N_LENGTHS; l++) {
        static const uint32_t tops[] = {0, 2, 63, 64};
        for (size_t t = 0; t < 4; t++) {
          unsigned shift = (unsigned)below(16);
          annb_rice_seq seq = make_seq(&m, lengths[l], k, shift % 2, tops[t], shift, params);
          seq.start = (uint32_t[]){0, 100, 65000}[below(3)];
          compare(kernel, (what)w, &m, &seq, shift);
        }
      }
  }
  memory_free(&m);
}
END_TEST

/* One quotient too large, at every place. */
START_TEST(large_quotients_are_seen_everywhere) {
  const annb_kernel *kernel = kernel_of_test(_i);
  memory m = memory_new();
  uint8_t params[8];
  uint32_t out[MAX_N];
  for (int w = IDS16; kernel && w <= FLOATS16; w++)
    for (uint32_t n = 1; n < 140; n += n < 40 ? 1 : 13)
      for (uint32_t at = 0; at < n; at++) {
        annb_rice_seq seq = make_seq(&m, n, 1, false, 0, 0, params);
        uint8_t *ones = m.ones.end - n - ANNB_KERNEL_OVERREAD;
        uint32_t quotient = 60 + (uint32_t)below(8) + (below(4) ? 0 : 100);
        for (uint32_t i = at; i < n; i++) ones[i] = (uint8_t)(ones[i] + quotient);
        ck_assert_int_eq(run_seq(kernel, (what)w, &m, &seq, 1, 65534, 0, out), quotient < 64);
        ck_assert_int_eq(run_seq(&annb_kernel_scalar, (what)w, &m, &seq, 1, 65534, 0, out), quotient < 64);
      }
  memory_free(&m);
}
END_TEST

/* Sums that pass 16 and 32 bits are refused, whereever they do. */
START_TEST(sums_do_not_wrap) {
  const annb_kernel *kernel = kernel_of_test(_i);
  memory m = memory_new();
  uint8_t params[8];
  uint32_t out[MAX_N];
  for (uint32_t n = 8; kernel && n <= 640; n += 7) {
    annb_rice_seq seq = make_seq(&m, n, 9, false, 63, 0, params);
    for (uint32_t i = 0; i < n; i++)
      m.ones.end[-(ptrdiff_t)(n + ANNB_KERNEL_OVERREAD) + i] = (uint8_t)(seq.ones[-1] + 64 * (i + 1)); /* all quotients 63 */
    for (unsigned add = 0; add < 2; add++) {
      ck_assert(!run_seq(kernel, IDS16, &m, &seq, add, 65534, 0, out));
      ck_assert(!run_seq(kernel, WIDE, &m, &seq, add, 65534, 0, out));
    }
  }
  memory_free(&m);
}
END_TEST

/* Two gaps of 32767 among gaps of 0: sums that pass 65535 and come back below the limit. */
START_TEST(sums_do_not_come_back) {
  const annb_kernel *kernel = kernel_of_test(_i);
  static const uint32_t sizes[] = {2, 33, 64, 65, 128, 140, 300};
  memory m = memory_new();
  uint8_t params[8];
  uint32_t out[MAX_N];
  for (int round = 0; kernel && round < 700; round++) {
    uint32_t n = sizes[round % 7], a = (uint32_t)below(n), b = (uint32_t)below(n);
    annb_rice_seq seq = make_seq(&m, n, 9, false, 0, 0, params);
    uint8_t *ones = m.ones.end - n - ANNB_KERNEL_OVERREAD;
    uint8_t *lows = m.lows.end - ANNB_KERNEL_OVERREAD - (n / 128 * 144 + (n % 128 * 9 + 7) / 8);
    memset(lows, 0, (size_t)(m.lows.end - lows));
    for (uint32_t i = 0; i < n; i++) {
      bool large = i == a || i == b;
      ones[i] = (uint8_t)(ones[(ptrdiff_t)i - 1] + (large ? 64 : 1));
      for (uint32_t bit = i % 128 * 9; large && bit < i % 128 * 9 + 9; bit++) lows[i / 128 * 144 + bit / 8] |= (uint8_t)(1u << bit % 8);
    }
    for (unsigned add = 0; add < 2; add++) {
      bool fits = a == b || add == 0; /* 65534 in all, or 65534 + n */
      ck_assert_int_eq(run_seq(kernel, WIDE, &m, &seq, add, 65534, 0, out), fits);
      ck_assert_int_eq(run_seq(kernel, IDS16, &m, &seq, add, 65534, 0, out), fits);
      if (fits) ck_assert_uint_eq(out[n - 1], (a == b ? 32767u : 65534u) + add * (n - 1));
    }
  }
  memory_free(&m);
}
END_TEST

/* ---- output ---- */

START_TEST(outputs_agree) {
  const annb_kernel *kernel = kernel_of_test(_i);
  memory m = memory_new();
  static uint16_t table[65536 + 64];
  static uint32_t entries[300], a[ROOM], b[ROOM];
  for (uint32_t i = 0; i < 65536; i++) table[i] = (uint16_t)(i * 40503u);
  for (uint32_t i = 0; i < 300; i++) entries[i] = (uint32_t)help_random(&state);
  for (size_t l = 0; kernel && l < N_LENGTHS; l++)
    for (unsigned shift = 0; shift < 8; shift++) {
      uint32_t n = lengths[l];
      uint16_t *in = (uint16_t *)(void *)(m.in.end - 2 * (n + ANNB_KERNEL_SLACK) - 2 * shift);
      uint8_t *out = out_for(&m.out, n, 4, shift);
      for (uint32_t i = 0; i < n + ANNB_KERNEL_SLACK; i++) in[i] = (uint16_t)help_random(&state);
      annb_kernel_scalar.map(in, n, table, a);
      kernel->map(in, n, table, (uint32_t *)(void *)out);
      ck_assert_mem_eq(out, a, 4 * n);
      for (int32_t base = -70000; base <= 70000; base += 35000) {
        annb_kernel_scalar.to_f32(in, n, base, (uint8_t *)a);
        kernel->to_f32(in, n, base, out - 1); /* unaligned */
        ck_assert_mem_eq(out - 1, a, 4 * n);
      }
      for (uint32_t i = 0; i < n; i++) in[i] = (uint16_t)below(300);
      in[below(n)] = 299;
      ck_assert(annb_kernel_scalar.look_up(in, n, entries, 300, (uint8_t *)a));
      ck_assert(kernel->look_up(in, n, entries, 300, out - 1));
      ck_assert_mem_eq(out - 1, a, 4 * n);
      ck_assert(!kernel->look_up(in, n, entries, 299, out));
      ck_assert(!annb_kernel_scalar.look_up(in, n, entries, 299, out));
      uint32_t highest = annb_kernel_scalar.narrow(in, n, (uint8_t *)b);
      ck_assert_uint_eq(kernel->narrow(in, n, out), highest);
      ck_assert_mem_eq(out, b, n);
    }
  memory_free(&m);
}
END_TEST

START_TEST(sort_agrees) {
  const annb_kernel *kernel = kernel_of_test(_i);
  memory m = memory_new();
  static uint32_t ids[65536 + ANNB_KERNEL_SLACK], keys[65536 + ANNB_KERNEL_SLACK], seen[65536];
  static uint16_t codes[65536 + ANNB_KERNEL_SLACK];
  for (uint32_t n_words = 1; kernel && n_words <= 1024; n_words = n_words * 3 + 1)
    for (uint32_t n = 1; n <= 64 * n_words && n <= MAX_N; n += 1 + n / 3) {
      uint32_t *out = (uint32_t *)(void *)out_for(&m.out, n, 4, 0);
      uint16_t *out_codes = (uint16_t *)(void *)out_for(&m.in, n, 2, 0);
      memset(seen, 0xff, sizeof seen);
      for (uint32_t i = 0; i < n; i++) { /* distinct ones in no order */
        do ids[i] = (uint32_t)below(64 * n_words);
        while (seen[ids[i]] != UINT32_MAX);
        out[i] = ids[i];
        out_codes[i] = codes[i] = (uint16_t)help_random(&state);
        seen[ids[i]] = codes[i];
      }
      kernel->sort(out, out_codes, n, n_words, keys);
      for (uint32_t i = 0; i < n; i++) {
        ck_assert(i == 0 || out[i] > out[i - 1]);
        ck_assert(out[i] < 64 * n_words && out_codes[i] == seen[out[i]]);
      }
    }
  memory_free(&m);
}
END_TEST

START_TEST(marks_agree) {
  const annb_kernel *kernel = kernel_of_test(_i);
  enum { N_IDS = 64 * 20 };
  static uint16_t table[N_IDS + 64], ids[N_IDS + 256];
  static uint8_t marks[N_IDS + 256];
  _Alignas(64) static uint8_t a[N_IDS + 1], b[N_IDS + 1];
  static float out_a[N_IDS + 256], out_b[N_IDS + 256];
  for (uint32_t i = 0; i < N_IDS; i++) table[i] = (uint16_t)(i * 7 % N_IDS);
  for (uint32_t density = 1; kernel && density <= N_IDS; density = density * 2 + 1) {
    uint32_t n = 0, left = 0;
    for (uint32_t i = 0; i < N_IDS; i++)
      if (below(N_IDS) < density) {
        ids[n] = (uint16_t)i;
        marks[n++] = (uint8_t)(1 + below(255));
      }
    annb_kernel_scalar.scatter(ids, marks, n, table, a);
    kernel->scatter(ids, marks, n, table, b);
    ck_assert_mem_eq(a, b, N_IDS);
    uint32_t n_ids = N_IDS - (uint32_t)below(64);
    for (uint32_t i = n_ids; i < N_IDS; i++) a[i] = b[i] = 0;
    annb_kernel_scalar.expand(a, n_ids, out_a);
    kernel->expand(b, n_ids, out_b);
    ck_assert_mem_eq(out_a, out_b, 4 * n_ids);
    for (uint32_t i = 0; i < N_IDS; i++) left += a[i] != 0 || b[i] != 0;
    ck_assert_uint_eq(left, 0);
  }
}
END_TEST

/* A dense row ends exactly, lists after the slack; sort, look_up and to_f32 are covered above. */
START_TEST(marks_end_at_guard_pages) {
  const annb_kernel *kernel = kernel_of_test(_i);
  memory m = memory_new();
  _Alignas(64) static uint8_t by_id[64 * 10 + 1];
  for (uint32_t n = 1; kernel && n <= 640; n++) {
    float *dense = (float *)(void *)(m.out.end - 4 * n);
    for (uint32_t i = 0; i < n; i++) by_id[i] = (uint8_t)(n + i);
    kernel->expand(by_id, n, dense);
    for (uint32_t i = 0; i < n; i++) ck_assert(dense[i] == (float)(uint8_t)(n + i) && by_id[i] == 0);
  }
  memory_free(&m);
}
END_TEST

START_TEST(the_best_kernel_is_usable) {
  size_t n;
  const annb_kernel *const *kernels = annb_kernels(&n), *best = annb_kernel_best();
  bool listed = false;
  for (size_t i = 0; i < n; i++) listed |= kernels[i] == best;
  ck_assert(listed && best->usable());
  ck_assert_str_eq(kernels[0]->name, "scalar");
  ck_assert(kernels[0]->usable());
}
END_TEST

int main(void) {
  Suite *suite = suite_create("kernels");
  TCase *cases = tcase_create("kernels");
  size_t n;
  help_kernels(&n);
  tcase_set_timeout(cases, 120);
  tcase_add_test(cases, the_best_kernel_is_usable);
  tcase_add_loop_test(cases, unary_agrees, 0, (int)n);
  tcase_add_loop_test(cases, unary_is_safe_on_any_bytes, 0, (int)n);
  tcase_add_loop_test(cases, lead_agrees, 0, (int)n);
  tcase_add_loop_test(cases, lead_sees_far_ones, 0, (int)n);
  tcase_add_loop_test(cases, sequences_agree, 0, (int)n);
  tcase_add_loop_test(cases, large_quotients_are_seen_everywhere, 0, (int)n);
  tcase_add_loop_test(cases, sums_do_not_wrap, 0, (int)n);
  tcase_add_loop_test(cases, sums_do_not_come_back, 0, (int)n);
  tcase_add_loop_test(cases, outputs_agree, 0, (int)n);
  tcase_add_loop_test(cases, sort_agrees, 0, (int)n);
  tcase_add_loop_test(cases, marks_agree, 0, (int)n);
  tcase_add_loop_test(cases, marks_end_at_guard_pages, 0, (int)n);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
