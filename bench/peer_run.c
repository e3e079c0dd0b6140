/* Runs the codecs to compare with, on rows in stored order, beside memcpy of the same rows in the same order. */
#include "codec.h"
#include "peers.h"
#include "timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENCODE_CELLS = 2048 /* encoding is timed on so many */ };

typedef struct state {
  const bench_options *options;
  const bench_matrix *m;
  const bench_peer *peer;
  uint64_t n_rows;      /* measured */
  uint32_t group;       /* rows to a unit */
  uint64_t n_units, *units; /* shuffled */
  uint64_t *offset;     /* of a unit's bytes */
  uint8_t *bytes;
  size_t room; /* of one unit */
  bench_ring ring;
} state;

static uint64_t first_of(const state *s, uint64_t unit) { return s->m->indptr[unit * s->group]; }

static uint32_t count_of(const state *s, uint64_t unit) { return (uint32_t)(first_of(s, unit + 1) - first_of(s, unit)); }

static void encode_unit(const state *s, uint64_t unit, uint64_t at, size_t *length) {
  uint64_t first = first_of(s, unit);
  uint32_t n = count_of(s, unit);
  *length = n ? s->peer->encode(s->m->stored + first, s->m->stored_values + first, n, s->bytes + at, s->room) : 0;
  if (n && !*length) bench_fail("%s does not take unit %llu", s->peer->name, (unsigned long long)unit);
}

static uint64_t encode_all(state *s, uint64_t n_units) {
  uint64_t at = 0;
  size_t length;
  for (uint64_t u = 0; u < n_units; u++, at += length) {
    s->offset[u] = at;
    encode_unit(s, u, at, &length);
  }
  s->offset[n_units] = at;
  return at;
}

static uint64_t encode_units(const state *s) { return (s->n_rows < ENCODE_CELLS ? s->n_rows : ENCODE_CELLS) / s->group; }

/* ---- laps ---- */

static double run_encode(void *user) {
  double start = bench_now();
  (void)encode_all(user, encode_units(user));
  return bench_now() - start;
}

/* One copy per row per array, into the ring of one batch. */
static void copy_unit(const state *s, uint64_t unit, uint64_t place) {
  uint64_t used = place;
  for (uint64_t r = unit * s->group; r < (unit + 1) * s->group; r++) {
    uint32_t n = bench_row_nnz(s->m, r);
    memcpy(s->ring.ids + used, s->m->stored + s->m->indptr[r], n * sizeof(uint32_t));
    memcpy(s->ring.values + used, s->m->stored_values + s->m->indptr[r], n * sizeof(float));
    used += n;
  }
}

static double run_copy_in_order(void *user) {
  const state *s = user;
  double start = bench_now();
  uint64_t used = 0;
  for (uint64_t u = 0; u < encode_units(s); u++) {
    if (u % (BENCH_BATCH / s->group) == 0) used = 0;
    copy_unit(s, u, used);
    used += count_of(s, u);
  }
  return bench_now() - start;
}

static double run_copy(void *user) {
  const state *s = user;
  double start = bench_now();
  uint64_t used = 0;
  for (uint64_t i = 0; i < s->n_units; i++) {
    if (i % (BENCH_BATCH / s->group) == 0) used = 0;
    copy_unit(s, s->units[i], used);
    used += count_of(s, s->units[i]);
  }
  return bench_now() - start;
}

static bool decode_unit(const state *s, uint64_t unit, uint64_t place) {
  uint32_t n = count_of(s, unit);
  return !n || s->peer->decode(s->bytes + s->offset[unit], s->offset[unit + 1] - s->offset[unit], n, s->ring.ids + place,
                               s->ring.values + place);
}

static double run_decode(void *user) {
  const state *s = user;
  double start = bench_now();
  uint64_t used = 0;
  for (uint64_t i = 0; i < s->n_units; i++) {
    if (i % (BENCH_BATCH / s->group) == 0) used = 0;
    if (!decode_unit(s, s->units[i], used)) bench_fail("%s does not decode", s->peer->name);
    used += count_of(s, s->units[i]);
  }
  return bench_now() - start;
}

static void verify(const state *s) {
  for (uint64_t u = 0; u < s->n_units; u++) {
    uint64_t first = first_of(s, u), n = count_of(s, u);
    if (!decode_unit(s, u, 0) || memcmp(s->ring.ids, s->m->stored + first, n * 4) ||
        memcmp(s->ring.values, s->m->stored_values + first, n * 4))
      bench_fail("%s: unit %llu comes out wrong", s->peer->name, (unsigned long long)u);
  }
}

/* ---- one codec ---- */

/* Rows one by one come in the order of the whole benchmark; groups in an order of their own. */
static void shuffle_units(state *s) {
  uint64_t seed = 88172645463325252u, n = 0;
  s->n_units = s->n_rows / s->group;
  for (uint64_t u = 0; s->group > 1 && u < s->n_units; u++) s->units[u] = u;
  for (uint64_t i = 0; s->group == 1 && i < s->m->n_shuffled; i++)
    if (s->m->rows[i] < s->n_rows) s->units[n++] = s->m->rows[i];
  if (s->group > 1) bench_shuffle(s->units, s->n_units, &seed);
}

static void measure(state *s, const bench_peer *peer, uint32_t group) {
  uint32_t n = s->options->repeats;
  s->peer = peer;
  s->group = group;
  s->room = (size_t)group * s->m->max_nnz * 12 + 8192;
  shuffle_units(s);
  bench_lap copy_in_order = {.run = run_copy_in_order, .user = s}, encode = {.run = run_encode, .user = s};
  bench_lap copy = {.run = run_copy, .user = s}, decode = {.run = run_decode, .user = s};
  (void)run_encode(s);
  bench_run_laps((bench_lap *const[]){&copy_in_order, &encode}, 2, n);
  double size = (double)encode_all(s, s->n_units);
  verify(s);
  bench_run_laps((bench_lap *const[]){&copy, &decode}, 2, n);
  uint64_t encoded = s->m->indptr[encode_units(s) * group], all = s->m->indptr[s->n_rows];
  printf("| %s | %s | %u | %.2f | %.0f | %.4f × | %.0f | %.2f × |\n", peer->name, peer->what, group, 8 * size / (double)all,
         (double)encoded / bench_seconds(&encode, n) / 1e6, bench_ratio(&copy_in_order, &encode, n),
         (double)all / bench_seconds(&decode, n) / 1e6, bench_ratio(&copy, &decode, n));
  fflush(stdout);
}

void bench_peers(const bench_options *options, const bench_matrix *m) {
  static const bench_peer *const counts[] = {&bench_peer_bp128, &bench_peer_bytes};
  static const bench_peer *const general[] = {&bench_peer_lz4, &bench_peer_zstd1, &bench_peer_zstd9, &bench_peer_blosc};
  uint64_t n_rows = options->peer_cells < m->n_shuffled ? options->peer_cells : m->n_shuffled;
  state s = {.options = options, .m = m, .n_rows = n_rows / BENCH_RUN * BENCH_RUN};
  s.units = bench_get(s.n_rows, 8);
  s.offset = bench_get(s.n_rows + 1, 8);
  s.bytes = bench_reserve(m->indptr[s.n_rows] * 12 + 8192 * s.n_rows + (uint64_t)BENCH_RUN * m->max_nnz * 12, 1);
  bench_ring_init(&s.ring, m);
  printf("\n## Other codecs\nThe first %llu cells, in the same order of genes; encoding timed on up to %d of them; groups in shuffled order, each\n"
         "decoded once for all its cells\n\n",
         (unsigned long long)s.n_rows, ENCODE_CELLS);
  printf("| codec | of | rows at once | bits/nnz | encode M nnz/s | to memcpy | decode M nnz/s | to memcpy |\n");
  printf("|---|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; m->whole && i < sizeof counts / sizeof *counts; i++) measure(&s, counts[i], 1);
  for (size_t i = 0; i < sizeof general / sizeof *general; i++) {
    measure(&s, general[i], 1);
    measure(&s, general[i], BENCH_RUN);
  }
  bench_ring_free(&s.ring);
  free(s.units);
  free(s.offset);
  free(s.bytes);
}
