#include "sampler_internal.h"

#include "../../store/cursor.h"
#include "../../store/error.h"
#include "../../store/hash.h"

#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

enum { DEFAULT_BLOCK = 16, DEFAULT_BATCH = 64, DEFAULT_FACTOR = 256 };
#define MAX_BLOCK (UINT64_C(1) << 32)
#define MAX_BATCH (1u << 24)
#define MAX_FACTOR (1u << 20)
#define MAX_FETCH (UINT64_C(1) << 30)
#define MAX_POSITIONS (UINT64_C(1) << 48)

#define WRONG(...) annb_fail(err, ANNB_EINVAL, NULL, __VA_ARGS__)

static bool is_weighted(const annb_sampler *s) {
  return s->options.strategy == ANNB_SAMPLE_WEIGHTED || s->options.strategy == ANNB_SAMPLE_BALANCED;
}

/* ---- options ---- */

static annb_status check_sizes(annb_sampler *s, annb_error *err) {
  annb_sampler_options *o = &s->options;
  if ((unsigned)o->strategy > ANNB_SAMPLE_OWN) return WRONG("there is no sampling strategy %d", (int)o->strategy);
  if (!o->block_size) o->block_size = DEFAULT_BLOCK;
  if (!o->batch_size) o->batch_size = DEFAULT_BATCH;
  if (!o->fetch_factor) o->fetch_factor = DEFAULT_FACTOR;
  if (o->block_size > MAX_BLOCK) return WRONG("block size %llu is over 2^32", (ull)o->block_size);
  if (o->batch_size > MAX_BATCH) return WRONG("batch size %u is over 2^24", o->batch_size);
  if (o->fetch_factor > MAX_FACTOR) return WRONG("fetch factor %u is over 2^20", o->fetch_factor);
  if ((uint64_t)o->batch_size * o->fetch_factor > MAX_FETCH)
    return WRONG("batch size %u times fetch factor %u is over 2^30 cells", o->batch_size, o->fetch_factor);
  if (is_weighted(s) && o->without_replacement)
    return WRONG("weighted sampling without replacement is not offered: which row stands at a position would depend on all before it, so "
                 "no batch could be reached at once; draw with replacement, or sample by blocks");
  return ANNB_OK;
}

static annb_status take_sources(annb_sampler *s, const annb_sampler_source *sources, uint32_t n, annb_error *err) {
  if (!sources || !n) return WRONG("a sampler needs at least one store");
  for (uint32_t i = 0; i < n; i++)
    if (!annb_add(s->n_rows, sources[i].n_rows, &s->n_rows) || s->n_rows > ANNB_MAX_ROWS)
      return WRONG("the stores together have over 2^40 rows");
  s->sources = malloc(n * sizeof *sources);
  if (!s->sources) return annb_fail_memory(err);
  memcpy(s->sources, sources, n * sizeof *sources);
  s->n_sources = n;
  return ANNB_OK;
}

static annb_status take_rows(annb_sampler *s, const annb_row_set *rows, annb_error *err) {
  if (s->options.strategy == ANNB_SAMPLE_OWN) rows = NULL;
  if (rows && annb_row_set_limit(rows) != s->n_rows)
    return WRONG("the row set is of %llu rows, the stores have %llu", (ull)annb_row_set_limit(rows), (ull)s->n_rows);
  s->rows = rows ? annb_row_set_hold(rows) : annb_row_set_all(s->n_rows);
  if (!s->rows) return annb_fail_memory(err);
  s->members = annb_row_set_count(s->rows);
  s->order_id = annb_row_set_hash(s->rows);
  return ANNB_OK;
}

static annb_status count_positions(annb_sampler *s, annb_error *err) {
  uint64_t wanted = s->options.num_samples;
  s->positions = wanted ? wanted : s->members;
  if (wanted > MAX_POSITIONS) return WRONG("num_samples %llu is over 2^48", (ull)wanted);
  if (is_weighted(s) && wanted && !s->members) return WRONG("there is no row to draw from: the row set is empty");
  if (!is_weighted(s) && wanted > s->members)
    return WRONG("num_samples %llu is over the %llu rows there are; only weighted sampling repeats rows", (ull)wanted, (ull)s->members);
  return ANNB_OK;
}

static annb_status take_weights(annb_sampler *s, const annb_sampler_options *o, annb_error *err) {
  bool by_code = o->strategy == ANNB_SAMPLE_BALANCED;
  const char *what = by_code ? "codes" : "weights";
  uint64_t n = by_code ? o->n_codes : o->n_weights;
  if (by_code ? !o->codes && n : !o->weights && n) return WRONG("%s are missing", what);
  if (n != s->members)
    return WRONG("there are %llu %s for %llu rows; one for each row of the set is needed", (ull)n, what, (ull)s->members);
  if (!n) return ANNB_OK;
  annb_status status = annb_weights_open(by_code ? NULL : o->weights, o->codes, n, s->options.block_size, &s->weights, err);
  if (!status) s->order_id = annb_mix(annb_weights_hash(s->weights), s->order_id, (uint64_t)o->strategy);
  return status;
}

/* ---- the caller's own order ---- */

static annb_status check_list(const annb_sampler *s, const annb_own_order *own, annb_error *err) {
  if (!own->offsets) return WRONG("an own order needs a list of batches or a callback");
  if (own->offsets[0]) return WRONG("the list of batches does not start at 0");
  for (uint64_t t = 0; t < own->n_batches; t++) {
    if (own->offsets[t + 1] < own->offsets[t]) return WRONG("batch %llu of the list ends before it begins", (ull)t);
    if (own->offsets[t + 1] == own->offsets[t]) return WRONG("batch %llu of the list is empty", (ull)t);
    if (own->offsets[t + 1] - own->offsets[t] > s->options.batch_size)
      return WRONG("batch %llu of the list has %llu rows, over the batch size %u", (ull)t, (ull)(own->offsets[t + 1] - own->offsets[t]),
                   s->options.batch_size);
  }
  if (own->offsets[own->n_batches] && !own->rows) return WRONG("the list of batches has no rows");
  for (uint64_t i = 0; i < own->offsets[own->n_batches]; i++)
    if (own->rows[i] >= s->n_rows)
      return annb_fail_row(err, ANNB_ERANGE, NULL, own->rows[i] > INT64_MAX ? INT64_MAX : (int64_t)own->rows[i],
                           "row %llu of the list of batches is not there: the stores have %llu rows", (ull)own->rows[i], (ull)s->n_rows);
  return ANNB_OK;
}

static annb_status take_own(annb_sampler *s, annb_error *err) {
  annb_own_order *own = &s->options.own;
  if (own->n_batches > MAX_POSITIONS) return WRONG("an own order of %llu batches is over 2^48", (ull)own->n_batches);
  s->batches = own->n_batches;
  s->order_id = own->id;
  if (own->batch) return ANNB_OK;
  annb_status status = check_list(s, own, err);
  if (status) return status;
  size_t n_offsets = (size_t)own->n_batches + 1, n = (size_t)own->offsets[own->n_batches];
  s->own_offsets = malloc(n_offsets * sizeof *own->offsets);
  s->own_rows = malloc((n + 1) * sizeof *own->rows);
  if (!s->own_offsets || !s->own_rows) return annb_fail_memory(err);
  memcpy(s->own_offsets, own->offsets, n_offsets * sizeof *own->offsets);
  if (n) memcpy(s->own_rows, own->rows, n * sizeof *own->rows);
  s->positions = n;
  s->order_id = annb_mix(annb_hash64(own->rows, n * sizeof *own->rows), annb_hash64(own->offsets, n_offsets * sizeof *own->offsets), n);
  return ANNB_OK;
}

/* ---- open and close ---- */

annb_status annb_sampler_open(const annb_sampler_source *sources, uint32_t n_sources, const annb_sampler_options *options,
                              annb_sampler **out, annb_error *err) {
  if (!options || !out) return WRONG("opening a sampler needs options and a place for the handle");
  annb_sampler *s = calloc(1, sizeof *s);
  if (!s) return annb_fail_memory(err);
  s->options = *options;
  annb_status status = check_sizes(s, err);
  if (!status) status = take_sources(s, sources, n_sources, err);
  if (!status) status = take_rows(s, options->rows, err);
  if (!status && options->strategy == ANNB_SAMPLE_OWN) status = take_own(s, err);
  else if (!status) status = count_positions(s, err);
  if (!status && is_weighted(s)) status = take_weights(s, options, err);
  uint64_t m = s->options.batch_size, f = s->options.fetch_factor;
  if (!status && options->strategy != ANNB_SAMPLE_OWN) s->batches = s->positions / m + (s->positions % m && !options->drop_last);
  s->fetches = status ? 0 : s->batches / f + (s->batches % f != 0);
  /* what the caller's pointers led to is ours now */
  s->options.rows = NULL;
  s->options.weights = NULL;
  s->options.codes = NULL;
  s->options.own.offsets = s->own_offsets;
  s->options.own.rows = s->own_rows;
  if (status) annb_sampler_close(s);
  else *out = s;
  return status;
}

void annb_sampler_close(annb_sampler *s) {
  if (!s) return;
  annb_row_set_close((annb_row_set *)(uintptr_t)s->rows);
  annb_weights_close(s->weights);
  free(s->sources);
  free(s->own_offsets);
  free(s->own_rows);
  free(s);
}

void annb_sampler_get_info(const annb_sampler *s, annb_sampler_info *info) {
  *info = (annb_sampler_info){.strategy = s->options.strategy,
                              .seed = s->options.seed,
                              .n_rows = s->n_rows,
                              .members = s->members,
                              .positions = s->positions,
                              .batches = s->batches,
                              .fetches = s->fetches,
                              .block_size = s->options.block_size,
                              .batch_size = s->options.batch_size,
                              .fetch_factor = s->options.fetch_factor,
                              .bytes = sizeof *s + annb_row_set_bytes(s->rows)};
  if (s->weights) info->bytes += annb_weights_bytes(s->weights);
  if (s->own_offsets) info->bytes += (s->batches + 1 + s->positions) * 8;
}
