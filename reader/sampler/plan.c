#include "plan_internal.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

enum { MAX_WORLD = 1 << 20, MAX_WORKERS = 1 << 16 };

/* ---- a leg ---- */

/* How many i < n have i mod `step` = at. */
static uint64_t every(uint64_t n, uint64_t at, uint64_t step) { return n > at ? (n - 1 - at) / step + 1 : 0; }

/* A worker's share without a padded turn. */
static annb_share even_share(const annb_leg *leg, const annb_sampler *s, uint32_t worker) {
  uint64_t v = leg->n_workers;
  annb_share share = {.head = every(leg->head, worker, v), .rounds = every(leg->rounds, worker, v)};
  share.tail_first = (worker + v - leg->rounds % v) % v;
  share.tail = every(leg->tail - leg->padded, share.tail_first, v);
  share.steps = share.head + share.rounds * s->options.fetch_factor + share.tail;
  return share;
}

/* The last of the workers with the most steps. */
static uint32_t longest_worker(const annb_leg *leg, const annb_sampler *s) {
  uint32_t found = 0;
  uint64_t most = 0;
  for (uint32_t w = 0; w < leg->n_workers; w++) {
    uint64_t steps = even_share(leg, s, w).steps;
    if (steps >= most) found = w;
    if (steps >= most) most = steps;
  }
  return found;
}

/* Lay out a leg over what is to be done. */
static void leg_set(annb_leg *leg, const annb_sampler *s, const annb_todo *todo, uint32_t world, uint32_t n_workers, annb_uneven uneven,
                    uint64_t epoch) {
  uint64_t round = (uint64_t)world * s->options.fetch_factor, whole = s->batches - todo->next, x;
  *leg = (annb_leg){.world = world, .n_workers = n_workers, .head = todo->n_singles / world, .rounds = whole / round};
  leg->tail_singles = todo->n_singles % world;
  leg->tail_length = leg->tail_singles + whole % round;
  if (leg->rounds && leg->tail_length && leg->tail_length < world) { /* so that others are left out or repeated in the next epoch */
    leg->rounds--;
    leg->tail_length += round;
  }
  leg->tail_first = todo->next + leg->rounds * round;
  x = leg->tail_length % world;
  leg->tail = leg->tail_length / world + (x && uneven == ANNB_PAD);
  leg->padded = x && uneven == ANNB_PAD;
  if (leg->tail_length) leg->tail_turn = epoch % leg->tail_length * (x % leg->tail_length) % leg->tail_length;
  if (leg->padded) leg->pad_worker = longest_worker(leg, s);
}

static uint64_t leg_steps(const annb_leg *leg, const annb_sampler *s) {
  return leg->head + leg->rounds * s->options.fetch_factor + leg->tail;
}

annb_share annb_leg_share(const annb_leg *leg, const annb_sampler *s, uint32_t worker) {
  annb_share share = even_share(leg, s, worker);
  bool pads = leg->padded && worker == leg->pad_worker;
  share.tail += pads;
  share.steps += pads;
  return share;
}

uint64_t annb_todo_single(const annb_todo *todo, uint64_t i) {
  uint64_t low = 0, n = todo->n_pieces;
  while (n > 1) {
    uint64_t half = n / 2;
    if (todo->pieces[low + half].before <= i) low += half;
    n -= half;
  }
  return todo->pieces[low].first + (i - todo->pieces[low].before);
}

uint64_t annb_leg_tail_batch(const annb_leg *leg, const annb_todo *todo, uint64_t i) {
  uint64_t at = (i % leg->tail_length + leg->tail_turn) % leg->tail_length;
  if (at < leg->tail_singles) return annb_todo_single(todo, leg->head * leg->world + at);
  return leg->tail_first + (at - leg->tail_singles);
}

/* ---- workers take turns, those that are done left out ---- */

/* Rank steps when every worker has taken its first `n`. */
static uint64_t steps_at_level(const annb_leg *leg, const annb_sampler *s, uint64_t n) {
  uint64_t sum = 0;
  for (uint32_t w = 0; w < leg->n_workers; w++) {
    uint64_t own = annb_leg_share(leg, s, w).steps;
    sum += own < n ? own : n;
  }
  return sum;
}

uint64_t annb_leg_worker_steps(const annb_leg *leg, const annb_sampler *s, uint32_t worker, uint64_t steps) {
  if (leg->n_workers == 1) return steps;
  uint64_t low = 0, high = steps + 1; /* level low is reached, high is not, or nobody has more to take */
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    if (steps_at_level(leg, s, middle) <= steps) low = middle;
    else high = middle;
  }
  uint64_t left = steps - steps_at_level(leg, s, low), own = annb_leg_share(leg, s, worker).steps;
  if (own <= low) return own;
  for (uint32_t w = 0; w < worker; w++)
    if (left && annb_leg_share(leg, s, w).steps > low) left--;
  return low + (left > 0);
}

static uint64_t rank_step(const annb_leg *leg, const annb_sampler *s, uint32_t worker, uint64_t j) {
  if (leg->n_workers == 1) return j;
  uint64_t sum = steps_at_level(leg, s, j);
  for (uint32_t w = 0; w < worker; w++) sum += annb_leg_share(leg, s, w).steps > j;
  return sum;
}

/* ---- plans ---- */

/* What is to be done after these legs; *n_old of them are not this plan's current one. */
static annb_status replay(const annb_plan *plan, uint64_t epoch, const annb_leg_record *legs, uint32_t n_legs, annb_todo *todo,
                          uint32_t *n_old, annb_error *err) {
  annb_status status = ANNB_OK;
  for (*n_old = 0; !status && *n_old < n_legs; ++*n_old) {
    const annb_leg_record *old = &legs[*n_old];
    annb_todo left;
    annb_leg leg;
    leg_set(&leg, plan->sampler, todo, old->world, old->n_workers, plan->topology.uneven, epoch);
    if (old->steps > leg_steps(&leg, plan->sampler))
      return annb_fail(err, ANNB_ECORRUPT, NULL, "the state says that %llu steps were taken where there are %llu", (ull)old->steps,
                       (ull)leg_steps(&leg, plan->sampler));
    if (*n_old + 1 == n_legs && old->world == plan->topology.world && old->n_workers == plan->topology.n_workers) return ANNB_OK;
    status = annb_leg_leave(&leg, plan->sampler, todo, old->steps, &left, err);
    if (status) return status;
    annb_todo_free(todo);
    *todo = left;
  }
  return status;
}

annb_status annb_plan_set(annb_plan *plan, uint64_t epoch, const annb_leg_record *legs, uint32_t n_legs, annb_error *err) {
  annb_todo todo = {0};
  uint32_t n_old;
  annb_status status = replay(plan, epoch, legs, n_legs, &todo, &n_old, err);
  if (!status && n_old == ANNB_MAX_LEGS)
    status = annb_fail(err, ANNB_EINVAL, NULL,
                       "the epoch was already run with %d changes of ranks or workers: go on with the last ones, or start the next epoch",
                       ANNB_MAX_LEGS);
  if (status) {
    annb_todo_free(&todo);
    return status;
  }
  annb_todo_free(&plan->todo);
  plan->todo = todo;
  plan->epoch = epoch;
  plan->done = n_old < n_legs ? legs[n_old].steps : 0;
  plan->n_legs = n_old;
  plan->taken = 0;
  if (n_old) memmove(plan->legs, legs, n_old * sizeof *legs);
  for (uint32_t i = 0; i < n_old; i++) plan->taken += legs[i].steps;
  leg_set(&plan->leg, plan->sampler, &plan->todo, plan->topology.world, plan->topology.n_workers, plan->topology.uneven, epoch);
  plan->skip = annb_leg_worker_steps(&plan->leg, plan->sampler, plan->topology.worker, plan->done);
  return ANNB_OK;
}

static annb_status check_topology(const annb_sampler *s, annb_topology *t, annb_error *err) {
  if (!t->world) t->world = 1;
  if (!t->n_workers) t->n_workers = 1;
  if (t->world > MAX_WORLD || t->rank >= t->world)
    return annb_fail(err, ANNB_EINVAL, NULL, "rank %u of %u is not possible: ranks are 0 to world - 1, of at most %d", t->rank, t->world,
                     MAX_WORLD);
  if (t->n_workers > MAX_WORKERS || t->worker >= t->n_workers)
    return annb_fail(err, ANNB_EINVAL, NULL, "worker %u of %u is not possible: workers are 0 to n_workers - 1, of at most %d", t->worker,
                     t->n_workers, MAX_WORKERS);
  if (t->uneven != ANNB_PAD && t->uneven != ANNB_DROP)
    return annb_fail(err, ANNB_EINVAL, NULL, "batches that do not go round are padded (0) or dropped (1)");
  if (t->uneven == ANNB_DROP && s->batches && s->batches < t->world) /* an epoch without batches has none for anyone */
    return annb_fail(err, ANNB_EINVAL, NULL,
                     "%llu batches for %u ranks: with drop no rank would get any; pad, or use smaller batches or fewer ranks",
                     (ull)s->batches, t->world);
  return ANNB_OK;
}

annb_status annb_plan_open(const annb_sampler *sampler, const annb_topology *topology, annb_plan **out, annb_error *err) {
  if (!sampler || !out) return annb_fail(err, ANNB_EINVAL, NULL, "opening a plan needs a sampler and a place for the handle");
  annb_topology t = topology ? *topology : (annb_topology){0};
  annb_status status = check_topology(sampler, &t, err);
  if (status) return status;
  annb_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return annb_fail_memory(err);
  plan->sampler = sampler;
  plan->topology = t;
  status = annb_plan_set(plan, 0, NULL, 0, err);
  if (status) annb_plan_close(plan);
  else *out = plan;
  return status;
}

void annb_plan_close(annb_plan *plan) {
  if (!plan) return;
  annb_todo_free(&plan->todo);
  free(plan);
}

annb_status annb_plan_set_epoch(annb_plan *plan, uint64_t epoch, annb_error *err) { return annb_plan_set(plan, epoch, NULL, 0, err); }

uint64_t annb_plan_epoch(const annb_plan *plan) { return plan->epoch; }
uint64_t annb_plan_taken(const annb_plan *plan) { return plan->taken + plan->done; }
uint64_t annb_plan_rank_steps(const annb_plan *plan) { return leg_steps(&plan->leg, plan->sampler) - plan->done; }

uint64_t annb_plan_steps(const annb_plan *plan) {
  return annb_leg_share(&plan->leg, plan->sampler, plan->topology.worker).steps - plan->skip;
}

uint64_t annb_plan_rank_step(const annb_plan *plan, uint64_t s) {
  return rank_step(&plan->leg, plan->sampler, plan->topology.worker, plan->skip + s) - plan->done;
}

/* The group of worker step j: `f` steps from `start` on, up to `end`. */
static void group(const annb_plan *plan, uint64_t j, uint64_t start, uint64_t stop, uint64_t *first, uint64_t *end) {
  uint64_t f = plan->sampler->options.fetch_factor, from = start + (j - start) / f * f;
  uint64_t to = stop - from < f ? stop : from + f;
  if (first) *first = from > plan->skip ? from - plan->skip : 0;
  if (end) *end = to - plan->skip;
}

uint64_t annb_plan_batch(const annb_plan *plan, uint64_t s, uint64_t *first, uint64_t *end) {
  const annb_leg *leg = &plan->leg;
  uint64_t j = plan->skip + s, f = plan->sampler->options.fetch_factor, v = leg->n_workers;
  uint64_t slot = (plan->topology.rank + plan->epoch % leg->world) % leg->world;
  annb_share share = annb_leg_share(leg, plan->sampler, plan->topology.worker);
  if (j < share.head) {
    group(plan, j, 0, share.head, first, end);
    return annb_todo_single(&plan->todo, (plan->topology.worker + j * v) * leg->world + slot);
  }
  uint64_t in_rounds = j - share.head;
  if (in_rounds < share.rounds * f) {
    uint64_t round = plan->topology.worker + in_rounds / f * v;
    group(plan, j, share.head, share.head + share.rounds * f, first, end);
    return plan->todo.next + (round * leg->world + slot) * f + in_rounds % f;
  }
  group(plan, j, share.head + share.rounds * f, share.steps, first, end);
  uint64_t turn = share.tail_first + (in_rounds - share.rounds * f) * v;
  if (leg->padded && plan->topology.worker == leg->pad_worker && j + 1 == share.steps) turn = leg->tail - 1;
  return annb_leg_tail_batch(leg, &plan->todo, turn * leg->world + slot);
}
