/* The rows of any batch. */
#include "permutation.h"
#include "random.h"
#include "sampler_internal.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

struct annb_picker {
  const annb_sampler *sampler;
  bool has_runs, has_fetch;
  uint64_t epoch, fetch;    /* that `runs` and `places` are for */
  uint64_t short_place;     /* where the run that is not full stands, or behind all */
  uint64_t short_length;
  annb_permutation runs, places;
  uint16_t run_table[ANNB_PERMUTATION_TABLE], place_table[ANNB_PERMUTATION_TABLE];
};

annb_status annb_picker_open(const annb_sampler *sampler, annb_picker **out, annb_error *err) {
  if (!sampler || !out) return annb_fail(err, ANNB_EINVAL, NULL, "opening a picker needs a sampler and a place for the handle");
  annb_picker *p = malloc(sizeof *p);
  if (!p) return annb_fail_memory(err);
  p->sampler = sampler;
  p->has_runs = p->has_fetch = false;
  *out = p;
  return ANNB_OK;
}

void annb_picker_close(annb_picker *picker) { free(picker); }

static void set_epoch(annb_picker *p, uint64_t epoch) {
  const annb_sampler *s = p->sampler;
  uint64_t b = s->options.block_size, n_runs = (s->members - 1) / b + 1;
  if (p->has_runs && p->epoch == epoch) return;
  annb_permutation_set(&p->runs, n_runs, annb_random_key(s->options.seed, ANNB_KEY_RUNS, epoch, 0), p->run_table);
  p->short_length = s->members - (n_runs - 1) * b;
  p->short_place = p->short_length == b ? n_runs : annb_permutation_inverse(&p->runs, n_runs - 1);
  p->has_runs = true;
  p->has_fetch = p->has_fetch && p->epoch == epoch;
  p->epoch = epoch;
}

static void set_fetch(annb_picker *p, uint64_t epoch, uint64_t fetch) {
  const annb_sampler *s = p->sampler;
  uint64_t size = (uint64_t)s->options.batch_size * s->options.fetch_factor, first = fetch * size;
  if (p->has_fetch && p->epoch == epoch && p->fetch == fetch) return;
  if (s->positions - first < size) size = s->positions - first;
  annb_permutation_set(&p->places, size, annb_random_key(s->options.seed, ANNB_KEY_FETCH, epoch, fetch), p->place_table);
  p->has_runs = p->has_runs && p->epoch == epoch;
  p->has_fetch = true;
  p->epoch = epoch;
  p->fetch = fetch;
}

/* The member at a position of the shuffled runs. */
static uint64_t in_runs(const annb_picker *p, uint64_t x) {
  uint64_t b = p->sampler->options.block_size, place = x / b;
  if (place >= p->short_place) {
    uint64_t behind = x - p->short_place * b;
    if (behind >= p->short_length) x += b - p->short_length;
    else return annb_permutation_at(&p->runs, p->short_place) * b + behind;
  }
  return annb_permutation_at(&p->runs, x / b) * b + x % b;
}

static uint64_t draw(const annb_picker *p, uint64_t epoch, uint64_t x) {
  const annb_sampler *s = p->sampler;
  uint64_t key = annb_random_key(s->options.seed, ANNB_KEY_DRAW, epoch, x / annb_weights_slot(s->weights));
  return annb_weights_draw(s->weights, key, x);
}

static annb_status own_batch(const annb_sampler *s, uint64_t epoch, uint64_t batch, uint64_t *rows, uint32_t *n, annb_error *err) {
  const annb_own_order *own = &s->options.own;
  if (!own->batch) {
    *n = (uint32_t)(own->offsets[batch + 1] - own->offsets[batch]);
    memcpy(rows, own->rows + own->offsets[batch], *n * sizeof *rows);
    return ANNB_OK;
  }
  *n = 0;
  annb_status status = own->batch(own->user, epoch, batch, rows, s->options.batch_size, n, err);
  if (status) return status;
  if (*n == 0 || *n > s->options.batch_size)
    return annb_fail(err, ANNB_EINVAL, NULL, "the caller's order gave batch %llu %u rows; 1 to %u are possible", (ull)batch, *n,
                     s->options.batch_size);
  for (uint32_t i = 0; i < *n; i++)
    if (rows[i] >= s->n_rows)
      return annb_fail_row(err, ANNB_ERANGE, NULL, rows[i] > INT64_MAX ? INT64_MAX : (int64_t)rows[i],
                           "the caller's order gave row %llu in batch %llu; the stores have %llu rows", (ull)rows[i], (ull)batch,
                           (ull)s->n_rows);
  return ANNB_OK;
}

annb_status annb_picker_batch(annb_picker *p, uint64_t epoch, uint64_t batch, uint64_t *rows, uint32_t *n, annb_error *err) {
  const annb_sampler *s = p->sampler;
  annb_strategy strategy = s->options.strategy;
  uint64_t m = s->options.batch_size, f = s->options.fetch_factor, fetch_first = batch / f * f * m;
  if (batch >= s->batches)
    return annb_fail(err, ANNB_ERANGE, NULL, "an epoch has %llu batches, there is no batch %llu", (ull)s->batches, (ull)batch);
  if (strategy == ANNB_SAMPLE_OWN) return own_batch(s, epoch, batch, rows, n, err);
  *n = (uint32_t)(s->positions - batch * m < m ? s->positions - batch * m : m);
  if (strategy != ANNB_SAMPLE_SEQUENTIAL) set_fetch(p, epoch, batch / f);
  if (strategy == ANNB_SAMPLE_BLOCK) set_epoch(p, epoch);
  for (uint32_t i = 0; i < *n; i++) {
    uint64_t x = batch * m + i;
    if (strategy != ANNB_SAMPLE_SEQUENTIAL) x = fetch_first + annb_permutation_at(&p->places, x - fetch_first);
    if (strategy == ANNB_SAMPLE_BLOCK) x = in_runs(p, x);
    else if (s->weights) x = draw(p, epoch, x);
    rows[i] = annb_row_set_member(s->rows, x);
  }
  return ANNB_OK;
}
