/* The consumer's side of a loader. */
#include "loader_internal.h"

#include "../../store/error.h"

typedef unsigned long long ull;

/* A child has its parent's memory, but not its threads: what they share is left alone, for it may be half changed. */
static annb_status settle(annb_loader *loader, annb_error *err) {
  if (!loader->engine || loader->process == annb_io_process()) return ANNB_OK;
  annb_pool *pool = annb_pool_open(loader->n_matrices, loader->n_labels, loader->options.n_ring + 2, loader->options.reuse);
  if (!pool) return annb_fail_memory(err);
  loader->pool = pool;
  loader->engine = NULL;
  for (uint32_t i = 0; i < loader->n_matrices; i++) loader->matrices[i].projections = NULL;
  return ANNB_OK;
}

static annb_status make_ready(annb_loader *loader, annb_error *err) {
  annb_status s = settle(loader, err);
  return s || loader->engine ? s : annb_engine_start(loader, err);
}

static bool at_end(const annb_loader *loader) { return loader->step == loader->n_steps; }

static annb_status say_failure(const annb_loader *loader, annb_error *err) {
  if (err) *err = loader->failure;
  return loader->failure.status;
}

annb_status annb_loader_poll(annb_loader *loader, uint32_t milliseconds, bool *ready, annb_error *err) {
  if (!loader || !ready) return annb_fail(err, ANNB_EINVAL, NULL, "polling needs a loader and a place for the answer");
  *ready = loader->failed || at_end(loader);
  if (*ready) return ANNB_OK;
  annb_status s = make_ready(loader, err);
  if (!s) *ready = annb_engine_wait(loader->engine, milliseconds);
  return s;
}

static void hand_out(const annb_loader *loader, annb_slot *slot, annb_batch *batch) {
  *batch = (annb_batch){.n_rows = slot->n_rows,
                        .epoch = annb_plan_epoch(loader->plan),
                        .step = annb_plan_taken(loader->plan) + annb_plan_rank_step(loader->plan, loader->step),
                        .batch = slot->batch,
                        .rows = slot->rows.data,
                        .matrices = slot->matrices,
                        .labels = (const int32_t *const *)slot->labels,
                        .owner = slot};
}

annb_status annb_loader_next(annb_loader *loader, annb_batch *batch, annb_error *err) {
  if (!loader || !batch) return annb_fail(err, ANNB_EINVAL, NULL, "the next batch needs a loader and a place for it");
  *batch = (annb_batch){.epoch = annb_plan_epoch(loader->plan)};
  if (loader->failed) return say_failure(loader, err);
  if (at_end(loader)) return ANNB_OK;
  annb_slot *slot = NULL;
  annb_status s = make_ready(loader, err);
  if (s) return s;
  (void)annb_engine_wait(loader->engine, -1);
  s = annb_engine_take(loader->engine, &slot, &loader->failure);
  if (s) {
    loader->failed = true;
    return say_failure(loader, err);
  }
  hand_out(loader, slot, batch);
  loader->step++;
  return ANNB_OK;
}

/* ---- epochs and states ---- */

uint64_t annb_loader_len(const annb_loader *loader) { return loader->n_steps; }

static void begin(annb_loader *loader) {
  loader->step = 0;
  loader->n_steps = annb_plan_steps(loader->plan);
  loader->failed = false;
}

annb_status annb_loader_set_epoch(annb_loader *loader, uint64_t epoch, annb_error *err) {
  if (!loader) return annb_fail(err, ANNB_EINVAL, NULL, "setting an epoch needs a loader");
  annb_status s = settle(loader, err);
  if (s) return s;
  annb_engine_stop(loader);
  s = annb_plan_set_epoch(loader->plan, epoch, err);
  if (!s) begin(loader);
  return s;
}

annb_status annb_loader_restore(annb_loader *loader, const void *bytes, size_t size, annb_error *err) {
  if (!loader) return annb_fail(err, ANNB_EINVAL, NULL, "restoring needs a loader");
  annb_status s = settle(loader, err);
  if (s) return s;
  annb_engine_stop(loader); /* threads read the plan; a loader that stays as it is starts them again where it is */
  s = annb_plan_restore(loader->plan, bytes, size, err);
  if (!s) begin(loader);
  return s;
}

annb_status annb_loader_state_at(const annb_loader *loader, uint64_t steps, void *bytes, size_t *size, annb_error *err) {
  if (!loader || !size) return annb_fail(err, ANNB_EINVAL, NULL, "a state needs a loader and a size");
  return annb_plan_state(loader->plan, steps, bytes, size, err);
}

annb_status annb_loader_state(const annb_loader *loader, void *bytes, size_t *size, annb_error *err) {
  if (!loader || !size) return annb_fail(err, ANNB_EINVAL, NULL, "a state needs a loader and a size");
  if (loader->options.topology.n_workers > 1)
    return annb_fail(err, ANNB_EINVAL, NULL, "one of %u workers does not know how far its rank is: count the rank's steps and use "
                                             "annb_loader_state_at", loader->options.topology.n_workers);
  return annb_plan_state(loader->plan, loader->step, bytes, size, err);
}

void annb_loader_get_info(const annb_loader *loader, annb_loader_info *info) {
  *info = (annb_loader_info){.access = loader->access,
                             .n_threads = loader->options.n_threads,
                             .n_io_threads = loader->access == ANNB_ACCESS_PREAD ? loader->options.n_io_threads : 0,
                             .n_ring = loader->options.n_ring,
                             .bytes_read = loader->bytes_read,
                             .bytes_decoded = loader->bytes_decoded};
  annb_sampler_get_info(loader->sampler, &info->sampler);
  if (loader->engine && loader->process == annb_io_process()) annb_engine_bytes(loader->engine, &info->bytes_read, &info->bytes_decoded);
}

void annb_loader_close(annb_loader *loader) {
  if (!loader) return;
  if (loader->engine && loader->process != annb_io_process()) { /* what the parent's threads may hold is not touched */
    loader->engine = NULL;
    loader->pool = NULL;
    for (uint32_t i = 0; i < loader->n_matrices; i++) loader->matrices[i].projections = NULL;
  }
  annb_engine_stop(loader);
  annb_loader_free(loader);
}
