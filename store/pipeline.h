/* An ordered pipeline in bounded memory: items are taken in order, worked on in any order, and given on in order. Every thread does
 * whatever is due, so that none waits for a kind of work while there is another. */
#ifndef ANNB_STORE_PIPELINE_H
#define ANNB_STORE_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum annb_take {
  ANNB_TAKEN, /* the slot has an item */
  ANNB_LATER, /* there are more, but some that are under way have to be given first: only when there are any */
  ANNB_END    /* there are no more */
} annb_take;

typedef struct annb_pipeline {
  uint32_t n_threads, n_slots; /* at least 1; the caller's thread is among them */
  void *user;
  /* In order, one call at a time, on any of the threads: the next item into a slot. */
  annb_take (*take)(void *user, uint32_t slot);
  /* On any thread, `worker` being 0 … n_threads − 1 and distinct among calls that run at once. */
  void (*work)(void *user, uint32_t worker, uint32_t slot);
  /* In order, one call at a time, on any of the threads; the slot is free afterwards. False: stop. */
  bool (*give)(void *user, uint32_t slot);
  /* On the caller's thread, after items were given: how many so far. False: stop. May be NULL. */
  bool (*watch)(void *user, uint64_t given);
} annb_pipeline;

/* Returns when all items are given, or when it was stopped and the calls under way have returned. Where threads cannot be started the
 * caller's does the work. */
void annb_pipeline_run(const annb_pipeline *pipeline);

#endif
