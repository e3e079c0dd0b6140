#include "synth.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define GENE_SIGMA 2.26
#define TYPE_SIGMA 0.8
#define TYPE_SHARE 0.3 /* of the genes differ in a type */
#define DEPTH_SIGMA 0.5
#define RUN_END 0.02 /* chance that the next cell is of another type */

/* Walker's alias method: gene i is drawn when a uniform number falls below keep[i], else other[i]. */
typedef struct alias_table {
  float *keep;
  uint32_t *other;
} alias_table;

struct annb_synth {
  annb_synth_params params;
  alias_table *types;
  uint16_t *type_of; /* per cell */
  uint32_t *counts;  /* per gene, zero between calls */
  uint64_t *seen;    /* bit per gene, likewise */
};

/* splitmix64 */
static uint64_t next(uint64_t *state) {
  uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

static double uniform(uint64_t *state) { return (double)(next(state) >> 11) * 0x1p-53; }

static double normal(uint64_t *state) {
  double radius = sqrt(-2 * log(uniform(state) + 0x1p-60));
  return radius * cos(6.283185307179586 * uniform(state));
}

/* A stream of its own for each (seed, purpose, number). */
static uint64_t stream(uint64_t seed, uint64_t purpose, uint64_t number) {
  uint64_t state = seed * 4 + purpose;
  state = next(&state) ^ number;
  return next(&state);
}

static void fill_alias(alias_table *table, double *weight, uint32_t n, uint32_t *stack) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += weight[i];
  uint32_t low = 0, high = n; /* light genes grow from the front of the stack, heavy ones from its end */
  for (uint32_t i = 0; i < n; i++) {
    weight[i] *= n / sum;
    if (weight[i] < 1) stack[low++] = i;
    else stack[--high] = i;
  }
  while (low > 0 && high < n) {
    uint32_t light = stack[--low], heavy = stack[high];
    table->keep[light] = (float)weight[light];
    table->other[light] = heavy;
    weight[heavy] -= 1 - weight[light];
    if (weight[heavy] >= 1) continue;
    high++;
    stack[low++] = heavy;
  }
  while (low > 0) table->keep[stack[--low]] = 1;
  for (; high < n; high++) table->keep[stack[high]] = 1;
}

static bool make_types(annb_synth *s) {
  uint32_t n = s->params.n_genes;
  double *base = malloc(n * sizeof *base), *weight = malloc(n * sizeof *weight);
  uint32_t *stack = malloc((n + 1) * sizeof *stack);
  bool ok = base && weight && stack;
  uint64_t state = stream(s->params.seed, 0, 0);
  for (uint32_t i = 0; ok && i < n; i++) base[i] = exp(GENE_SIGMA * normal(&state));
  for (uint32_t t = 0; ok && t < s->params.n_types; t++) {
    alias_table *table = &s->types[t];
    table->keep = calloc(n, sizeof *table->keep);
    table->other = calloc(n, sizeof *table->other);
    ok = table->keep && table->other;
    state = stream(s->params.seed, 1, t);
    for (uint32_t i = 0; ok && i < n; i++) {
      double shift = normal(&state);
      weight[i] = uniform(&state) < TYPE_SHARE ? base[i] * exp(TYPE_SIGMA * shift) : base[i];
    }
    if (ok) fill_alias(table, weight, n, stack);
  }
  free(base);
  free(weight);
  free(stack);
  return ok;
}

annb_synth *annb_synth_new(const annb_synth_params *params) {
  annb_synth *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->params = *params;
  s->types = calloc(params->n_types, sizeof *s->types);
  s->type_of = malloc((params->n_cells + 1) * sizeof *s->type_of);
  s->counts = calloc(params->n_genes, sizeof *s->counts);
  s->seen = calloc(params->n_genes / 64 + 1, sizeof *s->seen);
  if (!s->types || !s->type_of || !s->counts || !s->seen || !make_types(s)) {
    annb_synth_free(s);
    return NULL;
  }
  uint64_t state = stream(params->seed, 2, 0);
  uint16_t type = 0;
  for (uint64_t i = 0; i < params->n_cells; i++) {
    if (uniform(&state) < RUN_END) type = (uint16_t)(next(&state) % params->n_types);
    s->type_of[i] = type;
  }
  return s;
}

void annb_synth_free(annb_synth *synth) {
  if (!synth) return;
  for (uint32_t t = 0; synth->types && t < synth->params.n_types; t++) {
    free(synth->types[t].keep);
    free(synth->types[t].other);
  }
  free(synth->types);
  free(synth->type_of);
  free(synth->counts);
  free(synth->seen);
  free(synth);
}

uint32_t annb_synth_type(const annb_synth *synth, uint64_t cell) { return synth->type_of[cell]; }

uint32_t annb_synth_cell(annb_synth *synth, uint64_t cell, uint32_t *genes, uint32_t *counts, uint64_t *total) {
  const annb_synth_params *p = &synth->params;
  const alias_table *table = &synth->types[synth->type_of[cell]];
  uint64_t state = stream(p->seed, 3, cell);
  double depth = p->depth * exp(DEPTH_SIGMA * normal(&state));
  uint64_t n = depth < 200 ? 200 : depth > 100000 ? 100000 : (uint64_t)depth;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t r = next(&state);
    uint32_t gene = (uint32_t)((r >> 32) * p->n_genes >> 32);
    if ((float)(uint32_t)r * 0x1p-32f >= table->keep[gene]) gene = table->other[gene];
    synth->counts[gene]++;
    synth->seen[gene / 64] |= UINT64_C(1) << gene % 64;
  }
  uint32_t m = 0;
  for (uint32_t w = 0; w <= (p->n_genes - 1) / 64; w++) {
    for (uint64_t bits = synth->seen[w]; bits; bits &= bits - 1) {
      uint32_t gene = w * 64 + (uint32_t)__builtin_ctzll(bits);
      genes[m] = gene;
      counts[m++] = synth->counts[gene];
      synth->counts[gene] = 0;
    }
    synth->seen[w] = 0;
  }
  *total = n;
  return m;
}
