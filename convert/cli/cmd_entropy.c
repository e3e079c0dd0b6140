/* annblock entropy STORE --label COLUMN: how mixed the labels of minibatches will be. */
#include "sampling.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 700, JSON, MOST_BATCHES = 20000 };

typedef struct arguments {
  cli_sampling sampling;
  const char *label;
  bool json;
} arguments;

static const struct argp_option options[] = {{.key = LABEL, .name = "label", .arg = "COLUMN", .doc = "A categorical column of obs"},
                                             {.key = JSON, .name = "json", .doc = "One JSON object instead of lines"},
                                             {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->sampling; return 0;
    case LABEL: a->label = arg; return 0;
    case JSON: a->json = true; return 0;
    case ARGP_KEY_END:
      if (!a->sampling.n_paths || !a->label) argp_error(state, "expected: annblock entropy STORE... --label COLUMN");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {
    .options = options,
    .parser = parse,
    .args_doc = "STORE...",
    .children = cli_sampling_children,
    .doc = "Label entropy of the minibatches that these settings give on this store, simulated over the real order of its cells, beside "
           "that of random sampling and the bounds of scDataset's theorems (arXiv 2506.01883).\vMissing labels are left out. The bounds "
           "neglect terms of higher order, so with few runs in a minibatch (m/b) the simulated value is the one to trust."};

typedef struct result {
  double total; /* of all cells that are drawn from */
  double mean, deviation, random, low, high;
  uint64_t labels, batches;
} result;

/* Bits, of counts that are zeroed again; NAN when there are none. */
static double entropy_of(uint32_t *counts, const int32_t *codes, uint64_t n) {
  double sum = 0, all = 0;
  for (uint64_t i = 0; i < n; i++)
    if (codes[i] >= 0) {
      counts[codes[i]]++;
      all++;
    }
  for (uint64_t i = 0; i < n; i++) {
    if (codes[i] < 0 || !counts[codes[i]]) continue;
    double p = counts[codes[i]] / all;
    sum -= p * log2(p);
    counts[codes[i]] = 0;
  }
  return all > 0 ? sum : NAN;
}

/* Codes of all rows of the store, and those of its cells that are drawn from, which are the same array without --where. */
typedef struct labels {
  int32_t *codes, *members;
  uint64_t n_members, n_categories;
} labels;

/* Up to MOST_BATCHES batches, evenly over the first epochs' whole order; the sampler's batches when `picker`, else random cells. */
static annb_status simulate(const labels *l, annb_picker *picker, const annb_sampler_info *info, uint32_t *counts, double *mean,
                            double *deviation, uint64_t *n_batches, annb_error *err) {
  uint64_t n = info->batches < MOST_BATCHES ? info->batches : MOST_BATCHES, state = info->seed + 1, used = 0;
  uint64_t *rows = cli_alloc(info->batch_size * sizeof *rows);
  int32_t *batch = cli_alloc(info->batch_size * sizeof *batch);
  double middle = 0, squares = 0; /* Welford's: mean, and squares of distances from it */
  annb_status s = ANNB_OK;
  for (uint64_t i = 0; !s && i < n && !cli_interrupted(); i++) {
    uint32_t got = info->batch_size;
    if (picker) s = annb_picker_batch(picker, 0, i * (info->batches / n), rows, &got, err);
    for (uint32_t k = 0; !s && k < got; k++) {
      state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      batch[k] = picker ? l->codes[rows[k]] : l->members[(state >> 11) % l->n_members];
    }
    if (s || (got < info->batch_size && info->batches > 1)) continue; /* a short batch has less entropy for another reason */
    double h = entropy_of(counts, batch, got);
    if (isnan(h)) continue;
    used++;
    const double away = h - middle;
    middle += away / (double)used;
    squares += away * (h - middle);
  }
  *mean = used ? middle : NAN;
  if (deviation) *deviation = used ? sqrt(squares / (double)used) : NAN;
  *n_batches = used;
  free(rows);
  free(batch);
  return s;
}

static void set_bounds(result *r, const annb_sampler_info *info) {
  double k = (double)r->labels - 1, m = info->batch_size, blocks = fmax(1, m / (double)info->block_size);
  r->low = fmax(0, r->total - k / (2 * blocks * log(2)));
  r->high = fmax(0, r->total - k / (2 * m * log(2)));
}

static annb_status read_codes(const annb_joint_column *column, uint64_t n, int32_t *codes, annb_error *err) {
  enum { ROWS = 4096 };
  uint64_t rows[ROWS];
  annb_status s = ANNB_OK;
  for (uint64_t first = 0; !s && first < n; first += ROWS) {
    size_t some = n - first < ROWS ? (size_t)(n - first) : ROWS;
    for (size_t i = 0; i < some; i++) rows[i] = first + i;
    s = annb_store_column_codes(column, rows, some, codes + first, err);
  }
  return s;
}

static annb_status read_labels(const arguments *a, labels *l, annb_error *err) {
  annb_store_info about;
  annb_column_info info;
  const annb_joint_column *column;
  const annb_row_set *rows = a->sampling.rows;
  annb_status s = annb_store_find_column(a->sampling.store, ANNB_AXIS_OBS, a->label, &column, err);
  if (s) return s;
  annb_store_get_info(a->sampling.store, &about);
  annb_joint_column_get_info(column, &info);
  l->n_categories = info.n_categories;
  l->n_members = rows ? annb_row_set_count(rows) : about.n_obs;
  l->members = l->codes = cli_alloc((about.n_obs + 1) * sizeof *l->codes);
  s = read_codes(column, about.n_obs, l->codes, err);
  if (s || !rows) return s;
  l->members = cli_alloc((l->n_members + 1) * sizeof *l->members);
  for (uint64_t i = 0; i < l->n_members; i++) l->members[i] = l->codes[annb_row_set_member(rows, i)];
  return ANNB_OK;
}

static void free_labels(labels *l) {
  if (l->members != l->codes) free(l->members);
  free(l->codes);
}

static uint64_t count_labels(const labels *l) {
  uint64_t n = 0;
  bool *seen = cli_alloc(l->n_categories + 1);
  memset(seen, 0, l->n_categories + 1);
  for (uint64_t i = 0; i < l->n_members; i++) {
    if (l->members[i] < 0 || seen[l->members[i]]) continue;
    seen[l->members[i]] = true;
    n++;
  }
  free(seen);
  return n;
}

static annb_status simulate_both(const arguments *a, const labels *l, uint32_t *counts, result *r, annb_error *err) {
  annb_store_info about;
  annb_sampler *sampler = NULL;
  annb_picker *picker = NULL;
  annb_sampler_info info;
  uint64_t unused;
  annb_store_get_info(a->sampling.store, &about);
  annb_sampler_source source = {.generation = about.generation, .n_rows = about.n_obs};
  annb_status s = annb_sampler_open(&source, 1, &a->sampling.sampler, &sampler, err);
  if (s) return s;
  annb_sampler_get_info(sampler, &info);
  s = annb_picker_open(sampler, &picker, err);
  if (!s) s = simulate(l, picker, &info, counts, &r->mean, &r->deviation, &r->batches, err);
  if (!s) s = simulate(l, NULL, &info, counts, &r->random, NULL, &unused, err);
  if (!s) set_bounds(r, &info);
  annb_picker_close(picker);
  annb_sampler_close(sampler);
  return s;
}

static annb_status measure(const arguments *a, result *r, annb_error *err) {
  labels l = {0};
  annb_status s = read_labels(a, &l, err);
  if (!s) {
    uint32_t *counts = cli_alloc((l.n_categories + 1) * sizeof *counts);
    memset(counts, 0, (l.n_categories + 1) * sizeof *counts);
    r->labels = count_labels(&l);
    r->total = entropy_of(counts, l.members, l.n_members);
    s = simulate_both(a, &l, counts, r, err);
    free(counts);
  }
  free_labels(&l);
  return s;
}

static json_t *number(double x) { return isnan(x) ? json_null() : json_real(x); }

static void print(const result *r, const arguments *a) {
  if (a->json) {
    json_t *all = json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "label", a->label, "labels", (json_int_t)r->labels, "total",
                            number(r->total), "entropy", number(r->mean), "deviation", number(r->deviation), "random", number(r->random),
                            "lower_bound", number(r->low), "upper_bound", number(r->high), "batches", (json_int_t)r->batches);
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
    return;
  }
  printf("%s: %" PRIu64 " labels, %.3f bits over all %scells\n", a->label, r->labels, r->total,
         a->sampling.where ? "chosen " : "");
  printf("minibatches     %.3f bits, standard deviation %.3f (simulated, %" PRIu64 " minibatches)\n", r->mean, r->deviation, r->batches);
  printf("random cells    %.3f bits\n", r->random);
  printf("bounds          %.3f to %.3f bits (asymptotic, from f = 1 to large f)\n", r->low, r->high);
}

int cmd_entropy(int argc, char **argv) {
  arguments a = {0};
  result r = {0};
  annb_error err;
  argp_parse(&parser, argc, argv, 0, NULL, &a);
  annb_status s = cli_sampling_open(&a.sampling, &err);
  if (!s) s = measure(&a, &r, &err);
  cli_sampling_close(&a.sampling);
  if (s) return cli_fail(&err);
  print(&r, &a);
  return CLI_OK;
}
