#include "units.h"

#include "../../store/error.h"
#include "../../store/io.h"
#include "../../store/pipeline.h"
#include "../source/h5.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct unit_slot {
  annb_status status;
  annb_error error;
} unit_slot;

typedef struct run {
  const annb_units *units;
  unit_slot *slots;
  bool failed; /* describing a unit did: nothing follows */
  uint64_t told;
  _Atomic uint64_t done;
  unit_slot taken, watched; /* how these ended */
} run;

/* A failure is a unit too, so that it is told in its turn. */
static annb_take next(void *user, uint32_t number) {
  run *r = user;
  unit_slot *slot = &r->slots[number];
  bool more = false;
  if (r->failed) return ANNB_END;
  slot->status = r->units->next(r->units->user, number, &more, &slot->error);
  r->failed = slot->status != ANNB_OK;
  return r->failed || more ? ANNB_TAKEN : ANNB_END;
}

static void work(void *user, uint32_t worker, uint32_t number) {
  run *r = user;
  unit_slot *slot = &r->slots[number];
  if (!slot->status) slot->status = r->units->work(r->units->user, worker, number, &slot->error);
}

static bool give(void *user, uint32_t number) {
  run *r = user;
  if (r->slots[number].status) r->taken = r->slots[number];
  if (r->taken.status || !r->units->take) return !r->taken.status;
  uint64_t done = r->done;
  annb_h5_quiet quiet = annb_h5_quiet_begin(); /* HDF5 may keep that for each thread */
  r->taken.status = r->units->take(r->units->user, number, &done, &r->taken.error);
  annb_h5_quiet_end(quiet);
  r->done = done;
  return !r->taken.status;
}

static bool watch(void *user, uint64_t given) {
  run *r = user;
  const uint64_t done = r->done;
  (void)given;
  if (done == r->told) return true;
  r->told = done;
  r->watched.status = r->units->watch(r->units->user, done, &r->watched.error);
  return !r->watched.status;
}

annb_status annb_units_run(const annb_units *units, annb_error *err) {
  run r = {.units = units, .slots = calloc(units->n_slots, sizeof *r.slots)};
  if (!r.slots) return annb_fail_memory(err);
  const annb_pipeline pipeline = {units->n_threads, units->n_slots, &r, next, work, give, units->watch ? watch : NULL};
  annb_pipeline_run(&pipeline);
  free(r.slots);
  const unit_slot *end = r.taken.status ? &r.taken : &r.watched;
  if (end->status && err) *err = end->error;
  return end->status;
}

uint32_t annb_units_threads(uint32_t n) {
  if (!n) n = annb_io_processors();
  return n > 256 ? 256 : n;
}
