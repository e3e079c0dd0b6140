/* Inside of plans: one leg of an epoch laid out. plan.c answers for it, legs.c says what a leg leaves, state.c is bytes. */
#ifndef ANNB_SAMPLER_PLAN_H
#define ANNB_SAMPLER_PLAN_H

#include "sampler_internal.h"

enum { ANNB_MAX_LEGS = 64 };

/* Consecutive batches. */
typedef struct annb_piece {
  uint64_t first, n;
  uint64_t before; /* batches of the pieces before it */
} annb_piece;

/* What is to be done: single batches in order, then the batches from `next` on, whose fetches are whole. */
typedef struct annb_todo {
  annb_piece *pieces;
  uint64_t n_pieces, n_room, n_singles, next;
} annb_todo;

/* A leg: turns of singles, rounds of fetches, turns of what remains. */
typedef struct annb_leg {
  uint32_t world, n_workers;
  uint64_t head, rounds, tail; /* turns, rounds, turns */
  uint64_t tail_singles;       /* the first of the tail's list; from single head * world on */
  uint64_t tail_first;         /* batch; the rest of the tail's list is from here to the end */
  uint64_t tail_length, tail_turn; /* its rotation is already mod tail_length */
  bool padded;                 /* the last turn repeats batches: it is the last step of all, so that later legs repeat none */
  uint32_t pad_worker;         /* which takes it */
} annb_leg;

typedef struct annb_leg_record {
  uint32_t world, n_workers;
  uint64_t steps;
} annb_leg_record;

struct annb_plan {
  const annb_sampler *sampler;
  annb_topology topology;
  uint64_t epoch;
  annb_leg_record legs[ANNB_MAX_LEGS]; /* before this one */
  uint32_t n_legs;
  annb_todo todo;
  annb_leg leg;
  uint64_t done; /* rank steps of this leg before the plan's first */
  uint64_t taken; /* of the legs before */
  uint64_t skip; /* worker steps of `done` */
};

/* ---- plan.c ---- */

/* A worker's turns in the head, rounds, turns in the tail, and the first of the latter. */
typedef struct annb_share {
  uint64_t head, rounds, tail, tail_first, steps;
} annb_share;
annb_share annb_leg_share(const annb_leg *leg, const annb_sampler *sampler, uint32_t worker);
/* Entry i of the tail's list, rotated. */
uint64_t annb_leg_tail_batch(const annb_leg *leg, const annb_todo *todo, uint64_t i);
uint64_t annb_todo_single(const annb_todo *todo, uint64_t i);
/* How many of its steps a worker has taken when the rank has taken `steps`. */
uint64_t annb_leg_worker_steps(const annb_leg *leg, const annb_sampler *sampler, uint32_t worker, uint64_t steps);
/* Make `plan` one of the epoch after these legs; the topology is the plan's. On failure it is unchanged. */
annb_status annb_plan_set(annb_plan *plan, uint64_t epoch, const annb_leg_record *legs, uint32_t n_legs, annb_error *err);

/* ---- legs.c ---- */

void annb_todo_free(annb_todo *todo);
/* What remains after `steps` steps of a leg over `todo`. */
annb_status annb_leg_leave(const annb_leg *leg, const annb_sampler *sampler, const annb_todo *todo, uint64_t steps, annb_todo *out,
                           annb_error *err);

#endif
