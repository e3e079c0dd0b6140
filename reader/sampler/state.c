/* States of plans as bytes: the layout is in annblock/sampler.h. */
#include "plan_internal.h"

#include "../../store/cursor.h"
#include "../../store/error.h"
#include "../../store/hash.h"

typedef unsigned long long ull;

enum { VERSION = 1, MAX_SOURCES = 1 << 20, FLAG_DROP_LAST = 1, FLAG_DROP = 2, CHECK_SIZE = 8 };
#define MAGIC "ANNBSTAT"

typedef struct state_head {
  uint8_t magic[8];
  uint32_t version, n_sources, n_legs, strategy;
  uint64_t seed, epoch, block_size;
  uint32_t batch_size, fetch_factor, flags, zero;
  uint64_t num_samples, members, order_id;
} state_head;

typedef struct state_source {
  uint8_t store_id[16];
  uint64_t generation, n_rows;
} state_source;

ANNB_SIZE(state_head, 88);
ANNB_SIZE(state_source, 32);
ANNB_SIZE(annb_leg_record, 16);

/* All but epoch and legs. */
static state_head head_of(const annb_plan *plan) {
  const annb_sampler *s = plan->sampler;
  state_head h = {.version = VERSION, .n_sources = s->n_sources, .strategy = (uint32_t)s->options.strategy, .seed = s->options.seed};
  memcpy(h.magic, MAGIC, sizeof h.magic);
  h.block_size = s->options.block_size;
  h.batch_size = s->options.batch_size;
  h.fetch_factor = s->options.fetch_factor;
  h.flags = (s->options.drop_last ? FLAG_DROP_LAST : 0u) | (plan->topology.uneven == ANNB_DROP ? FLAG_DROP : 0u);
  h.num_samples = s->options.num_samples;
  h.members = s->options.strategy == ANNB_SAMPLE_OWN ? s->batches : s->members;
  h.order_id = s->order_id;
  return h;
}

annb_status annb_plan_state(const annb_plan *plan, uint64_t steps, void *bytes, size_t *size, annb_error *err) {
  if (steps > annb_plan_rank_steps(plan))
    return annb_fail(err, ANNB_ERANGE, NULL, "a state after %llu steps was asked for, %llu are left in the epoch", (ull)steps,
                     (ull)annb_plan_rank_steps(plan));
  annb_leg_record now = {plan->topology.world, plan->topology.n_workers, plan->done + steps};
  state_head h = head_of(plan);
  h.epoch = plan->epoch;
  h.n_legs = plan->n_legs + (now.steps > 0);
  size_t sources = h.n_sources * sizeof(state_source), legs = plan->n_legs * sizeof *plan->legs;
  size_t need = sizeof h + sources + h.n_legs * sizeof now + CHECK_SIZE, room = bytes ? *size : need;
  *size = need;
  if (room < need) return annb_fail(err, ANNB_ECAPACITY, NULL, "a state takes %zu bytes, there is room for %zu", need, room);
  if (!bytes) return ANNB_OK;
  uint8_t *at = bytes;
  memcpy(at, &h, sizeof h);
  memcpy(at += sizeof h, plan->sampler->sources, sources);
  memcpy(at += sources, plan->legs, legs);
  if (now.steps) memcpy(at + legs, &now, sizeof now);
  uint64_t check = annb_hash64(bytes, need - CHECK_SIZE);
  memcpy((uint8_t *)bytes + need - CHECK_SIZE, &check, sizeof check);
  return ANNB_OK;
}

/* ---- restoring ---- */

#define OTHER(...) annb_fail(err, ANNB_EINVAL, NULL, "the state cannot be resumed here: " __VA_ARGS__)

static annb_status check_sources(const annb_sampler *s, annb_cursor *c, uint32_t n, annb_error *err) {
  if (n != s->n_sources) return OTHER("it is of %u stores, here are %u", n, s->n_sources);
  for (uint32_t i = 0; i < n; i++) {
    state_source was;
    const annb_sampler_source *is = &s->sources[i];
    annb_cursor_read(c, &was, sizeof was);
    if (memcmp(was.store_id, is->store_id, sizeof was.store_id)) return OTHER("store %u is another store than that of the state", i);
    if (was.generation != is->generation)
      return OTHER("store %u was read at generation %llu, here it is generation %llu; open that generation, or start the epoch anew", i,
                   (ull)was.generation, (ull)is->generation);
    if (was.n_rows != is->n_rows) return OTHER("store %u had %llu rows, here it has %llu", i, (ull)was.n_rows, (ull)is->n_rows);
  }
  return ANNB_OK;
}

static annb_status check_parameters(const state_head *was, const state_head *is, annb_error *err) {
  static const char *const names[] = {"block", "sequential", "buffer", "weighted", "balanced", "own"};
  if (was->strategy != is->strategy)
    return OTHER("its sampling strategy is '%s', here it is '%s'", was->strategy < 6 ? names[was->strategy] : "unknown",
                 names[is->strategy]);
  if (was->seed != is->seed) return OTHER("its seed is %llu, here it is %llu", (ull)was->seed, (ull)is->seed);
  if (was->block_size != is->block_size) return OTHER("its block size is %llu, here it is %llu", (ull)was->block_size, (ull)is->block_size);
  if (was->batch_size != is->batch_size) return OTHER("its batch size is %u, here it is %u", was->batch_size, is->batch_size);
  if (was->fetch_factor != is->fetch_factor) return OTHER("its fetch factor is %u, here it is %u", was->fetch_factor, is->fetch_factor);
  if ((was->flags ^ is->flags) & FLAG_DROP_LAST) return OTHER("drop_last is %s here", is->flags & FLAG_DROP_LAST ? "set" : "not set");
  if (was->flags != is->flags) return OTHER("it %s batches that do not go round among ranks", was->flags & FLAG_DROP ? "drops" : "pads");
  if (was->num_samples != is->num_samples)
    return OTHER("its num_samples is %llu, here it is %llu", (ull)was->num_samples, (ull)is->num_samples);
  if (was->members != is->members) return OTHER("it is of %llu rows or batches, here are %llu", (ull)was->members, (ull)is->members);
  if (was->order_id != is->order_id) return OTHER("its row set, weights, codes or own order are not the same");
  return ANNB_OK;
}

static annb_status read_legs(annb_cursor *c, annb_leg_record *legs, uint32_t n, annb_error *err) {
  for (uint32_t i = 0; i < n; i++) {
    annb_cursor_read(c, &legs[i], sizeof *legs);
    if (!legs[i].world || legs[i].world > 1u << 20 || !legs[i].n_workers || legs[i].n_workers > 1u << 16 || !legs[i].steps)
      return annb_fail(err, ANNB_ECORRUPT, NULL, "the state has a leg of %u ranks, %u workers and %llu steps, which is not possible",
                       legs[i].world, legs[i].n_workers, (ull)legs[i].steps);
  }
  return ANNB_OK;
}

static annb_status check_bytes(const uint8_t *bytes, size_t size, state_head *h, annb_error *err) {
  uint64_t check;
  if (size < 12 || memcmp(bytes, MAGIC, 8)) return annb_fail(err, ANNB_ECORRUPT, NULL, "these %zu bytes are no sampler state", size);
  memcpy(&h->version, bytes + 8, sizeof h->version);
  if (h->version != VERSION)
    return annb_fail(err, ANNB_EVERSION, NULL, "the state is of version %u, this release reads %d", h->version, VERSION);
  if (size < sizeof *h + CHECK_SIZE) return annb_fail(err, ANNB_ECORRUPT, NULL, "the state is cut short");
  memcpy(h, bytes, sizeof *h);
  memcpy(&check, bytes + size - CHECK_SIZE, sizeof check);
  if (h->n_sources > MAX_SOURCES || h->n_legs > ANNB_MAX_LEGS || h->zero ||
      size != sizeof *h + h->n_sources * sizeof(state_source) + h->n_legs * sizeof(annb_leg_record) + CHECK_SIZE ||
      check != annb_hash64(bytes, size - CHECK_SIZE))
    return annb_fail(err, ANNB_ECORRUPT, NULL, "the state does not match its check");
  return ANNB_OK;
}

annb_status annb_plan_restore(annb_plan *plan, const void *bytes, size_t size, annb_error *err) {
  state_head was = {0}, is = head_of(plan);
  annb_leg_record legs[ANNB_MAX_LEGS];
  if (!bytes) return annb_fail(err, ANNB_EINVAL, NULL, "restoring needs the bytes of a state");
  annb_status s = check_bytes(bytes, size, &was, err);
  if (s) return s;
  annb_cursor c = annb_cursor_of(bytes, size, sizeof was, size - sizeof was - CHECK_SIZE);
  s = check_sources(plan->sampler, &c, was.n_sources, err);
  if (!s) s = check_parameters(&was, &is, err);
  if (!s) s = read_legs(&c, legs, was.n_legs, err);
  return s ? s : annb_plan_set(plan, was.epoch, legs, was.n_legs, err);
}
