/* What a leg of an epoch leaves for the next. */
#include "plan_internal.h"

#include "../../store/error.h"

#include <stdlib.h>

enum { MAX_PIECES = 1 << 24 };

void annb_todo_free(annb_todo *todo) {
  free(todo->pieces);
  *todo = (annb_todo){0};
}

/* Batches first … first+n-1 behind the singles there are. */
static annb_status add(annb_todo *todo, uint64_t first, uint64_t n, annb_error *err) {
  annb_piece *last = todo->n_pieces ? &todo->pieces[todo->n_pieces - 1] : NULL;
  if (!n) return ANNB_OK;
  if (last && last->first + last->n == first) {
    last->n += n;
  } else {
    if (todo->n_pieces == todo->n_room) {
      uint64_t room = todo->n_room ? 2 * todo->n_room : 64;
      annb_piece *more = room > MAX_PIECES ? NULL : realloc(todo->pieces, (size_t)room * sizeof *more);
      if (!more) return annb_fail_memory(err);
      todo->pieces = more;
      todo->n_room = room;
    }
    todo->pieces[todo->n_pieces++] = (annb_piece){first, n, todo->n_singles};
  }
  todo->n_singles += n;
  return ANNB_OK;
}

/* Where the workers stand. */
typedef struct standing {
  const annb_leg *leg;
  const annb_sampler *sampler;
  uint64_t *taken; /* steps, by worker */
  uint64_t n_begun; /* rounds up to the last begun one */
  bool in_tail;
} standing;

static annb_status find_standing(standing *st, uint64_t steps, annb_error *err) {
  uint32_t n = st->leg->n_workers;
  uint64_t f = st->sampler->options.fetch_factor;
  st->taken = calloc(n, sizeof *st->taken);
  if (!st->taken) return annb_fail_memory(err);
  for (uint32_t w = 0; w < n; w++) {
    annb_share share = annb_leg_share(st->leg, st->sampler, w);
    uint64_t taken = st->taken[w] = annb_leg_worker_steps(st->leg, st->sampler, w, steps);
    uint64_t in_rounds = taken > share.head ? taken - share.head : 0;
    if (in_rounds > share.rounds * f) st->in_tail = true;
    uint64_t begun = (in_rounds + f - 1) / f;
    if (begun > share.rounds) begun = share.rounds;
    if (begun && w + (begun - 1) * n + 1 > st->n_begun) st->n_begun = w + (begun - 1) * n + 1;
  }
  if (st->in_tail) st->n_begun = st->leg->rounds;
  return ANNB_OK;
}

static annb_status leave_singles(const standing *st, const annb_todo *todo, annb_todo *out, annb_error *err) {
  const annb_leg *leg = st->leg;
  annb_status s = ANNB_OK;
  uint64_t first = 0, n = todo->n_singles; /* those of the tail too, when it is not begun */
  if (st->in_tail) n = leg->head * leg->world;
  for (uint64_t turn = 0; !s && turn < leg->head; turn++) {
    if (turn / leg->n_workers < st->taken[turn % leg->n_workers]) continue;
    for (first = turn * leg->world; !s && first < (turn + 1) * leg->world; first++) s = add(out, annb_todo_single(todo, first), 1, err);
  }
  for (first = leg->head * leg->world; !s && first < n; first++) s = add(out, annb_todo_single(todo, first), 1, err);
  return s;
}

static annb_status leave_rounds(const standing *st, const annb_todo *todo, annb_todo *out, annb_error *err) {
  const annb_leg *leg = st->leg;
  uint64_t f = st->sampler->options.fetch_factor;
  annb_status s = ANNB_OK;
  for (uint64_t round = 0; !s && round < st->n_begun; round++) {
    uint32_t worker = (uint32_t)(round % leg->n_workers);
    annb_share share = annb_leg_share(leg, st->sampler, worker);
    uint64_t in_rounds = st->taken[worker] > share.head ? st->taken[worker] - share.head : 0, before = round / leg->n_workers * f;
    uint64_t taken = in_rounds > before ? in_rounds - before : 0;
    for (uint32_t slot = 0; taken < f && !s && slot < leg->world; slot++)
      s = add(out, todo->next + (round * leg->world + slot) * f + taken, f - taken, err);
  }
  return s;
}

static annb_status leave_tail(const standing *st, const annb_todo *todo, annb_todo *out, annb_error *err) {
  const annb_leg *leg = st->leg;
  annb_status s = ANNB_OK;
  for (uint64_t i = 0; !s && i < leg->tail_length; i++) {
    uint64_t turn = i / leg->world;
    uint32_t worker = (uint32_t)((leg->rounds + turn) % leg->n_workers);
    annb_share share = annb_leg_share(leg, st->sampler, worker);
    uint64_t before = share.steps - share.tail + turn / leg->n_workers;
    if (leg->padded && turn + 1 == leg->tail) {
      worker = leg->pad_worker;
      before = annb_leg_share(leg, st->sampler, worker).steps - 1;
    }
    if (turn >= leg->tail || before >= st->taken[worker]) s = add(out, annb_leg_tail_batch(leg, todo, i), 1, err);
  }
  return s;
}

annb_status annb_leg_leave(const annb_leg *leg, const annb_sampler *sampler, const annb_todo *todo, uint64_t steps, annb_todo *out,
                           annb_error *err) {
  standing st = {.leg = leg, .sampler = sampler};
  *out = (annb_todo){0};
  annb_status s = find_standing(&st, steps, err);
  if (!s) s = leave_singles(&st, todo, out, err);
  if (!s) s = leave_rounds(&st, todo, out, err);
  if (!s && st.in_tail) s = leave_tail(&st, todo, out, err);
  out->next = st.in_tail ? sampler->batches : todo->next + st.n_begun * leg->world * sampler->options.fetch_factor;
  free(st.taken);
  if (s) annb_todo_free(out);
  return s;
}
