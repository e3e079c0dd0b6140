#include "parallel.h"

#include "thread.h"

#include <stdatomic.h>

enum { MAX_THREADS = 256 };

typedef struct loop {
  atomic_size_t next;
  size_t n_items;
  void (*work)(void *user, uint32_t worker, size_t item);
  void *user;
} loop;

typedef struct seat {
  loop *loop;
  uint32_t worker;
} seat;

static void *run(void *argument) {
  seat *me = argument;
  loop *l = me->loop;
  for (;;) {
    size_t item = atomic_fetch_add(&l->next, 1);
    if (item >= l->n_items) return NULL;
    l->work(l->user, me->worker, item);
  }
}

void annb_parallel(uint32_t n_threads, size_t n_items, void (*work)(void *user, uint32_t worker, size_t item), void *user) {
  loop l = {0, n_items, work, user};
  pthread_t threads[MAX_THREADS];
  seat seats[MAX_THREADS];
  if (n_threads > MAX_THREADS) n_threads = MAX_THREADS;
  if (n_threads > n_items) n_threads = (uint32_t)n_items;
  uint32_t started = 0;
  for (uint32_t i = 1; i < n_threads; i++) {
    seats[i] = (seat){&l, i};
    if (!annb_thread_start(&threads[i], run, &seats[i])) break;
    started = i;
  }
  seats[0] = (seat){&l, 0};
  run(&seats[0]);
  for (uint32_t i = 1; i <= started; i++) pthread_join(threads[i], NULL);
}
