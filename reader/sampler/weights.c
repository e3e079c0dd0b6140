#include "weights.h"

#include "../../store/error.h"
#include "../../store/hash.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>

typedef unsigned long long ull;
enum { MAX_CLASSES = 33 }; /* powers of two up to the largest block */

/* Column of an alias table: `run` with probability `keep`, else `other`. */
typedef struct column {
  double keep;
  uint64_t run, other;
} column;

struct annb_weights {
  double *of_member;   /* or, when NULL: */
  int32_t *codes;
  double *of_code;
  uint64_t n, block_size, slot, hash, n_codes, n_columns;
  column *columns;     /* class after class */
  unsigned n_classes;  /* 1, 2, 4 … draws a run: those up to the slot */
  uint64_t class_first[MAX_CLASSES + 1];
  double class_end[MAX_CLASSES]; /* running sum of the classes' shares, the last one is 1 or more */
};

static double weight_of(const annb_weights *w, uint64_t member) {
  if (w->of_member) return w->of_member[member];
  return w->codes[member] < 0 ? 0 : w->of_code[w->codes[member]];
}

/* ---- the weights ---- */

static annb_status take_weights(annb_weights *w, const double *weights, annb_error *err) {
  for (uint64_t i = 0; i < w->n; i++)
    if (!(weights[i] >= 0) || isinf(weights[i]))
      return annb_fail_row(err, ANNB_EINVAL, NULL, (int64_t)i, "weight %llu is %g; weights must be finite and not negative", (ull)i,
                           weights[i]);
  w->of_member = malloc(((size_t)w->n + 1) * sizeof *w->of_member);
  if (!w->of_member) return annb_fail_memory(err);
  memcpy(w->of_member, weights, (size_t)w->n * sizeof *weights);
  w->hash = annb_hash64(weights, (size_t)w->n * sizeof *weights);
  return ANNB_OK;
}

static annb_status take_codes(annb_weights *w, const int32_t *codes, annb_error *err) {
  int32_t highest = -1;
  for (uint64_t i = 0; i < w->n; i++) {
    if (codes[i] < -1)
      return annb_fail_row(err, ANNB_EINVAL, NULL, (int64_t)i, "code %llu is %d; codes must be -1 (missing) or more", (ull)i, codes[i]);
    if (codes[i] > highest) highest = codes[i];
  }
  w->n_codes = (uint64_t)highest + 1; /* -1 gives 0 */
  w->codes = malloc(((size_t)w->n + 1) * sizeof *w->codes);
  w->of_code = calloc((size_t)w->n_codes + 1, sizeof *w->of_code);
  if (!w->codes || !w->of_code) return annb_fail_memory(err);
  memcpy(w->codes, codes, (size_t)w->n * sizeof *codes);
  for (uint64_t i = 0; i < w->n; i++)
    if (codes[i] >= 0) w->of_code[codes[i]]++;
  for (uint64_t c = 0; c < w->n_codes; c++)
    if (w->of_code[c] > 0) w->of_code[c] = 1 / w->of_code[c];
  w->hash = annb_hash64(codes, (size_t)w->n * sizeof *codes);
  return ANNB_OK;
}

/* ---- runs and classes ---- */

static uint64_t run_end(const annb_weights *w, uint64_t run) {
  uint64_t first = run * w->block_size;
  return w->n - first < w->block_size ? w->n : first + w->block_size;
}

static double run_weight(const annb_weights *w, uint64_t run) {
  double sum = 0;
  for (uint64_t i = run * w->block_size; i < run_end(w, run); i++) sum += weight_of(w, i);
  return sum;
}

/* log2 of how often a run is drawn from at once: its effective number of rows, at most the slot. */
static unsigned class_of(const annb_weights *w, uint64_t run, double sum) {
  double squares = 0;
  for (uint64_t i = run * w->block_size; i < run_end(w, run); i++) {
    double share = weight_of(w, i) / sum;
    squares += share * share;
  }
  unsigned c = 0;
  while (c + 1 < w->n_classes && (double)(UINT64_C(2) << c) <= (1 + 1e-9) / squares) c++;
  return c;
}

/* Vose's method: `share` holds the columns' weights times their number over the class's sum, and is used up. */
static void make_alias(column *columns, double *share, uint64_t n, uint64_t *stack) {
  uint64_t small = 0, large = n; /* two stacks in one array, from its ends */
  for (uint64_t i = 0; i < n; i++) {
    columns[i].keep = 1;
    columns[i].other = columns[i].run;
    if (share[i] < 1) stack[small++] = i;
    else stack[--large] = i;
  }
  while (small && large < n) {
    uint64_t s = stack[--small], l = stack[large];
    columns[s].keep = share[s];
    columns[s].other = columns[l].run;
    share[l] = (share[l] + share[s]) - 1;
    if (share[l] < 1) {
      large++;
      stack[small++] = l;
    }
  }
}

static void sort_runs(annb_weights *w, uint64_t n_runs, double *share, double class_sum[MAX_CLASSES]) {
  uint64_t at[MAX_CLASSES] = {0};
  for (uint64_t r = 0; r < n_runs; r++) {
    double sum = run_weight(w, r);
    if (sum > 0) at[class_of(w, r, sum)]++;
  }
  for (unsigned c = 0; c < w->n_classes; c++) {
    w->class_first[c + 1] = w->class_first[c] + at[c];
    at[c] = w->class_first[c];
  }
  for (uint64_t r = 0; r < n_runs; r++) {
    double sum = run_weight(w, r);
    if (!(sum > 0)) continue;
    unsigned c = class_of(w, r, sum);
    w->columns[at[c]].run = r;
    share[at[c]++] = sum;
    class_sum[c] += sum;
  }
}

static annb_status make_tables(annb_weights *w, annb_error *err) {
  uint64_t n_runs = (w->n - 1) / w->block_size + 1;
  double class_sum[MAX_CLASSES] = {0}, total = 0, before = 0;
  double *share = malloc((size_t)n_runs * sizeof *share);
  uint64_t *stack = malloc((size_t)n_runs * sizeof *stack);
  w->columns = calloc((size_t)n_runs, sizeof *w->columns);
  annb_status s = share && stack && w->columns ? ANNB_OK : annb_fail_memory(err);
  if (!s) sort_runs(w, n_runs, share, class_sum);
  w->n_columns = w->class_first[w->n_classes];
  for (unsigned c = 0; !s && c < w->n_classes; c++) total += class_sum[c];
  if (!s && (!(total > 0) || isinf(total)))
    s = annb_fail(err, ANNB_EINVAL, NULL, total > 0 ? "the weights' sum is too large for a double; scale them down"
                                                    : "no row can be drawn: all weights are 0 or all codes missing");
  for (unsigned c = 0; !s && c < w->n_classes; c++) {
    uint64_t first = w->class_first[c], n = w->class_first[c + 1] - first;
    w->class_end[c] = before += class_sum[c] / total;
    for (uint64_t i = first; i < first + n; i++) share[i] *= (double)n / class_sum[c];
    make_alias(w->columns + first, share + first, n, stack);
  }
  free(share);
  free(stack);
  return s;
}

annb_status annb_weights_open(const double *weights, const int32_t *codes, uint64_t n, uint64_t block_size, annb_weights **out,
                              annb_error *err) {
  annb_weights *w = calloc(1, sizeof *w);
  if (!w) return annb_fail_memory(err);
  *w = (annb_weights){.n = n, .block_size = block_size, .slot = 1, .n_classes = 1};
  for (; w->slot * 2 <= block_size; w->slot *= 2) w->n_classes++;
  annb_status s = weights ? take_weights(w, weights, err) : take_codes(w, codes, err);
  if (!s && n) s = make_tables(w, err);
  if (s) annb_weights_close(w);
  else *out = w;
  return s;
}

void annb_weights_close(annb_weights *w) {
  if (!w) return;
  free(w->of_member);
  free(w->codes);
  free(w->of_code);
  free(w->columns);
  free(w);
}

uint64_t annb_weights_slot(const annb_weights *w) { return w->slot; }
uint64_t annb_weights_hash(const annb_weights *w) { return w->hash; }
uint64_t annb_weights_bytes(const annb_weights *w) {
  return sizeof *w + (w->of_member ? w->n * 8 : w->n * 4 + w->n_codes * 8) + w->n_columns * sizeof *w->columns;
}

/* ---- drawing ---- */

static unsigned draw_class(const annb_weights *w, uint64_t key) {
  double u = annb_random_uniform(annb_random(key, 0));
  unsigned last = 0;
  for (unsigned c = 0; c < w->n_classes; c++) {
    if (w->class_first[c + 1] == w->class_first[c]) continue;
    if (u < w->class_end[c]) return c;
    last = c;
  }
  return last; /* rounding left the sum of shares below u */
}

static uint64_t draw_run(const annb_weights *w, uint64_t key, unsigned class, uint64_t j) {
  uint64_t first = w->class_first[class], low;
  uint64_t at = annb_multiply(annb_random(key, 1 + 2 * j), w->class_first[class + 1] - first, &low);
  const column *c = &w->columns[first + at];
  return annb_random_uniform(annb_random(key, 2 + 2 * j)) < c->keep ? c->run : c->other;
}

uint64_t annb_weights_draw(const annb_weights *w, uint64_t key, uint64_t x) {
  uint64_t i = x % w->slot, end, last = 0;
  unsigned class = draw_class(w, key);
  uint64_t run = draw_run(w, key, class, i >> class);
  double left = annb_random_uniform(annb_random(key, 2 * w->slot + 1 + i)) * run_weight(w, run);
  end = run_end(w, run);
  for (uint64_t member = run * w->block_size; member < end; member++) {
    double weight = weight_of(w, member);
    if (!(weight > 0)) continue;
    last = member;
    if (left < weight) return member;
    left -= weight;
  }
  return last; /* rounding */
}
