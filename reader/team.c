#include "team.h"

#include "store_internal.h"

#include "../store/io.h"
#include "../store/thread.h"

#include <pthread.h>
#include <stdlib.h>

enum {
  MOST_THREADS = 64,
  LEAST_CHUNK = 4,  /* rows: about 20 µs of decoding */
  MOST_CHUNK = 64,
  CHUNKS = 16,      /* per thread, so that all end at about the same time */
  LEAST_SHARED = 16, /* rows: fewer are decoded before a thread wakes */
  SPIN = 4000,       /* looks at helpers that are in their last chunk, before sleeping: about 20 µs */
  LINGER = 3000      /* looks of a helper for the next call, before sleeping, which costs more than some rows: 50 to 150 µs */
};

/* One call. */
typedef struct shared_call {
  annb_team_work *work;
  void *job;
  size_t n_rows, chunk;
  atomic_size_t next;   /* the first row of the next chunk */
  atomic_size_t failed; /* first row of the first chunk that failed, or SIZE_MAX */
  annb_error failure;   /* under the team's lock */
} shared_call;

struct annb_team {
  pthread_mutex_t lock;
  pthread_cond_t wake, done;
  shared_call *share;         /* of the call under way */
  atomic_uint places;   /* helpers that may still join it; written under the lock */
  atomic_uint n_active; /* helpers in it; written under the lock */
  uint32_t n_asleep;
  bool stop;
  uint64_t process;
  uint32_t n_helpers;
  struct {
    pthread_t thread;
    annb_context *context;
  } helpers[MOST_THREADS];
};

typedef struct start {
  annb_team *team;
  annb_context *context;
} start;

size_t annb_team_chunk(uint32_t n_threads, size_t n_rows) {
  if (n_threads < 2 || n_rows < LEAST_SHARED) return n_rows;
  size_t chunk = n_rows / ((size_t)n_threads * CHUNKS);
  return chunk < LEAST_CHUNK ? LEAST_CHUNK : chunk > MOST_CHUNK ? MOST_CHUNK : chunk;
}

/* Chunks until there are none, or one failed: those before it were all given out. */
static void take_chunks(annb_team *team, shared_call *share, annb_context *context) {
  annb_error err;
  while (atomic_load_explicit(&share->failed, memory_order_relaxed) == SIZE_MAX) {
    size_t first = atomic_fetch_add_explicit(&share->next, share->chunk, memory_order_relaxed);
    if (first >= share->n_rows) return;
    size_t end = share->n_rows - first > share->chunk ? first + share->chunk : share->n_rows;
    if (!share->work(share->job, context, first, end, &err)) continue;
    pthread_mutex_lock(&team->lock);
    if (first < atomic_load(&share->failed)) {
      share->failure = err;
      atomic_store(&share->failed, first);
    }
    pthread_mutex_unlock(&team->lock);
  }
}

static inline void pause_a_little(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/* With the lock: wait for a call. The next one often comes soon. */
static void wait_for_call(annb_team *team, bool soon) {
  pthread_mutex_unlock(&team->lock);
  for (int i = 0; soon && i < LINGER && !atomic_load_explicit(&team->places, memory_order_relaxed); i++) pause_a_little();
  pthread_mutex_lock(&team->lock);
  team->n_asleep++;
  while (!team->stop && !team->places) pthread_cond_wait(&team->wake, &team->lock);
  team->n_asleep--;
}

static void *help(void *user) {
  start *mine = user;
  annb_team *team = mine->team;
  annb_context *context = mine->context;
  free(mine);
  pthread_mutex_lock(&team->lock);
  for (bool soon = false; wait_for_call(team, soon), !team->stop; soon = true) {
    shared_call *share = team->share;
    atomic_fetch_sub(&team->places, 1);
    atomic_fetch_add(&team->n_active, 1);
    pthread_mutex_unlock(&team->lock);
    take_chunks(team, share, context);
    pthread_mutex_lock(&team->lock);
    if (atomic_fetch_sub(&team->n_active, 1) == 1) pthread_cond_signal(&team->done);
  }
  pthread_mutex_unlock(&team->lock);
  return NULL;
}

/* ---- start and stop ---- */

static annb_team *open_team(void) {
  annb_team *team = calloc(1, sizeof *team);
  if (!team) return NULL;
  pthread_mutex_init(&team->lock, NULL);
  pthread_cond_init(&team->wake, NULL);
  pthread_cond_init(&team->done, NULL);
  team->process = annb_io_process();
  return team;
}

static bool add_helper(annb_team *team) {
  start *mine = malloc(sizeof *mine);
  annb_context *context = NULL;
  uint32_t i = team->n_helpers;
  if (!mine || annb_context_open(&context, NULL)) {
    free(mine);
    return false;
  }
  *mine = (start){team, context};
  if (!annb_thread_start(&team->helpers[i].thread, help, mine)) {
    annb_context_close(context);
    free(mine);
    return false;
  }
  team->helpers[i].context = context;
  team->n_helpers++;
  return true;
}

/* The context's team with up to n helpers, or NULL. */
static annb_team *team_of(annb_context *context, uint32_t n) {
  if (context->team && context->team->process != annb_io_process()) context->team = NULL; /* the parent's */
  if (!context->team) context->team = open_team();
  if (!context->team) return NULL;
  while (context->team->n_helpers < n && add_helper(context->team)) continue;
  return context->team->n_helpers ? context->team : NULL;
}

void annb_team_close(annb_team *team) {
  if (!team || team->process != annb_io_process()) return;
  pthread_mutex_lock(&team->lock);
  team->stop = true;
  pthread_cond_broadcast(&team->wake);
  pthread_mutex_unlock(&team->lock);
  for (uint32_t i = 0; i < team->n_helpers; i++) {
    pthread_join(team->helpers[i].thread, NULL);
    annb_context_close(team->helpers[i].context);
  }
  pthread_mutex_destroy(&team->lock);
  pthread_cond_destroy(&team->wake);
  pthread_cond_destroy(&team->done);
  free(team);
}

/* ---- a call ---- */

static void call_helpers(annb_team *team, shared_call *share, uint32_t n) {
  pthread_mutex_lock(&team->lock);
  team->share = share;
  atomic_store(&team->places, n);
  bool asleep = team->n_asleep > 0;
  pthread_mutex_unlock(&team->lock);
  if (asleep && n == 1) pthread_cond_signal(&team->wake);
  else if (asleep) pthread_cond_broadcast(&team->wake);
}

/* Those that have not come by now need not; those that have are in their last chunk. */
static void end_call(annb_team *team) {
  pthread_mutex_lock(&team->lock);
  atomic_store(&team->places, 0);
  pthread_mutex_unlock(&team->lock);
  for (int i = 0; i < SPIN && atomic_load_explicit(&team->n_active, memory_order_acquire); i++) pause_a_little();
  pthread_mutex_lock(&team->lock);
  while (atomic_load(&team->n_active)) pthread_cond_wait(&team->done, &team->lock);
  team->share = NULL;
  pthread_mutex_unlock(&team->lock);
}

annb_status annb_team_run(annb_context *context, uint32_t n_threads, size_t n_rows, size_t chunk, annb_team_work *work, void *job,
                          annb_error *err) {
  if (n_threads > MOST_THREADS) n_threads = MOST_THREADS;
  annb_team *team = chunk < n_rows ? team_of(context, n_threads - 1) : NULL;
  if (!team) { /* the chunks one after the other */
    annb_status s = ANNB_OK;
    for (size_t first = 0; !s && first < n_rows; first += chunk)
      s = work(job, context, first, n_rows - first > chunk ? first + chunk : n_rows, err);
    return s;
  }
  shared_call share = {.work = work, .job = job, .n_rows = n_rows, .chunk = chunk};
  size_t n_chunks = (n_rows - 1) / chunk + 1;
  uint32_t n = n_threads - 1 < team->n_helpers ? n_threads - 1 : team->n_helpers;
  atomic_init(&share.next, 0);
  atomic_init(&share.failed, SIZE_MAX);
  call_helpers(team, &share, n_chunks - 1 < n ? (uint32_t)(n_chunks - 1) : n);
  take_chunks(team, &share, context);
  end_call(team);
  if (atomic_load(&share.failed) == SIZE_MAX) return ANNB_OK;
  if (err) *err = share.failure;
  return share.failure.status;
}
