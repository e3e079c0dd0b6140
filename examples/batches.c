/* Shuffled minibatches from a store, in the way a training loop reads them.
 *
 *   batches STORE [batch_size] [n_batches] [seed]
 *
 * A batch is made of runs of 16 neighbouring cells drawn in random order: neighbours lie together on disk, so a run costs little more
 * than one cell, and many runs still make a mixed batch. Prints what was read, how fast, and how fast the same cells would be copied
 * (memcpy, cell by cell, in the same order) if they lay decoded in memory as CSR. */
#include <annblock/annblock.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUN = 16, ENOUGH = 100000 };
#define POOL_BYTES (UINT64_C(512) << 20) /* most memory for decoded cells to copy from */

typedef struct batch {
  uint64_t *rows;
  int64_t *indptr; /* n_rows + 1 */
  int32_t *indices;
  float *values;
  size_t n_rows;
  uint64_t capacity; /* elements that indices and values have room for */
} batch;

/* What to read: runs of RUN cells in the order of `runs`, the last of the store may be shorter. */
typedef struct read_plan {
  size_t batch_size, n_batches;
  uint64_t n_obs, n_runs, *runs;
} read_plan;

typedef struct totals {
  uint64_t cells, nonzeros;
  double seconds, sum;
} totals;

static void fail(const annb_error *err) {
  fprintf(stderr, "batches: %s\n", err->message);
  exit(EXIT_FAILURE);
}

static void *get_memory(void *old, size_t size) {
  void *memory = realloc(old, size ? size : 1);
  if (memory) return memory;
  fprintf(stderr, "batches: out of memory\n");
  exit(EXIT_FAILURE);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* SplitMix64: small, and the same on every machine. */
static uint64_t next_random(uint64_t *state) {
  uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

/* The numbers 0 … n−1 in random order: the runs of one epoch. */
static uint64_t *shuffled_runs(uint64_t n, uint64_t seed) {
  uint64_t *runs = get_memory(NULL, n * sizeof *runs);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t j = next_random(&seed) % (i + 1);
    runs[i] = runs[j];
    runs[j] = i;
  }
  return runs;
}

/* The cells of batch `i`: the next runs of the epoch, which starts again when it ends. */
static void choose_rows(batch *b, size_t i, const read_plan *plan) {
  uint64_t at = i * (plan->batch_size / RUN);
  b->n_rows = 0;
  for (size_t r = 0; r < plan->batch_size / RUN; r++) {
    uint64_t first = plan->runs[(at + r) % plan->n_runs] * RUN;
    for (uint64_t row = first; row < first + RUN && row < plan->n_obs; row++) b->rows[b->n_rows++] = row;
  }
}

/* Read one batch: ask for its size, make room when there is too little, fetch. One batch's arrays serve all batches. Values come as
 * f32, whatever they are in the store, as models want them. */
static void read_batch(const annb_store *store, annb_context *context, uint32_t matrix, batch *b, totals *t) {
  static const annb_fetch_options options = {.dtype = ANNB_F32, .allow_lossy = true};
  annb_error err;
  uint64_t total;
  double start = now();
  if (annb_fetch_nnz(store, matrix, b->rows, b->n_rows, NULL, &total, &err)) fail(&err);
  if (total > b->capacity) {
    b->capacity = total + total / 4;
    b->indices = get_memory(b->indices, b->capacity * sizeof *b->indices);
    b->values = get_memory(b->values, b->capacity * sizeof *b->values);
  }
  if (annb_fetch_csr(store, context, matrix, b->rows, b->n_rows, &options, b->indptr, b->indices, b->values, b->capacity, &err)) fail(&err);
  t->seconds += now() - start;
  t->cells += b->n_rows;
  t->nonzeros += total;
}

/* Decoded batches, one after the other: what a CSR matrix in memory would hold. */
typedef struct pool {
  uint64_t cells, nonzeros, room;
  uint64_t *ends; /* per cell */
  int32_t *indices;
  float *values;
} pool;

/* Keep the batch while there is room. */
static bool keep(pool *p, const batch *b) {
  uint64_t n = (uint64_t)b->indptr[b->n_rows];
  if ((p->nonzeros + n) * 8 > POOL_BYTES) return false;
  if (p->nonzeros + n > p->room) {
    p->room = 2 * (p->nonzeros + n);
    p->indices = get_memory(p->indices, p->room * sizeof *p->indices);
    p->values = get_memory(p->values, p->room * sizeof *p->values);
  }
  p->ends = get_memory(p->ends, (p->cells + b->n_rows) * sizeof *p->ends);
  for (size_t i = 0; i < b->n_rows; i++) p->ends[p->cells++] = p->nonzeros + (uint64_t)b->indptr[i + 1];
  if (n) memcpy(p->indices + p->nonzeros, b->indices, n * sizeof *b->indices);
  if (n) memcpy(p->values + p->nonzeros, b->values, n * sizeof *b->values);
  p->nonzeros += n;
  return true;
}

/* Seconds to copy every kept cell into a batch's arrays, which start again after each batch_size cells. */
static double copy_all(const pool *p, batch *b, size_t batch_size) {
  double start = now();
  for (uint64_t i = 0, at = 0, from = 0; i < p->cells; i++) {
    uint64_t n = p->ends[i] - from;
    if (i % batch_size == 0 || at + n > b->capacity) at = 0;
    if (!n) continue;
    memcpy(b->indices + at, p->indices + from, n * sizeof *b->indices);
    memcpy(b->values + at, p->values + from, n * sizeof *b->values);
    at += n;
    from += n;
  }
  return now() - start;
}

/* All batches of the pass, in order. With a pool also the sum of the values, and the decoded cells. */
static totals run_pass(const annb_store *store, annb_context *context, uint32_t matrix, batch *b, const read_plan *plan, pool *p) {
  totals t = {0};
  bool keeping = p != NULL;
  for (size_t i = 0; i < plan->n_batches; i++) {
    choose_rows(b, i, plan);
    read_batch(store, context, matrix, b, &t);
    for (int64_t k = 0; p && k < b->indptr[b->n_rows]; k++) t.sum += (double)b->values[k];
    keeping = keeping && keep(p, b);
  }
  return t;
}

static void report(const read_plan *plan, const totals *first, const totals *second, const pool *p, double copying) {
  double rate = (double)second->cells / second->seconds;
  printf("cells      %" PRIu64 " in %zu batches of %zu (runs of %d); the store has %" PRIu64 "%s\n", second->cells, plan->n_batches,
         plan->batch_size, RUN, plan->n_obs, second->cells > plan->n_obs ? ", so the batches repeat cells" : "");
  printf("nonzeros   %" PRIu64 "\n", second->nonzeros);
  printf("sum        %.17g\n", first->sum);
  printf("first pass %.3f s, %.0f cells/s\n", first->seconds, (double)first->cells / first->seconds);
  printf("seconds    %.3f\n", second->seconds);
  printf("cells/s    %.0f (one thread, files in the page cache, every record verified)\n", rate);
  /* fewer cells stay in the processor's cache, which says nothing of memory */
  if (plan->n_obs >= ENOUGH && p->cells && copying > 0)
    printf("copying    %.0f cells/s when %" PRIu64 " cells that are in memory already, decoded, are only copied: no reader can be faster; "
           "this one reaches %.2f of it\n",
           (double)p->cells / copying, p->cells, rate * copying / (double)p->cells);
}

static uint64_t argument(int argc, char **argv, int i, uint64_t otherwise) {
  char *end = NULL;
  if (i >= argc) return otherwise;
  uint64_t value = strtoull(argv[i], &end, 10);
  if (*argv[i] >= '0' && *argv[i] <= '9' && !*end) return value;
  fprintf(stderr, "batches: '%s' is not a number\n", argv[i]);
  exit(2);
}

static read_plan make_plan(int argc, char **argv, uint64_t n_obs) {
  read_plan p = {.batch_size = argument(argc, argv, 2, 1024), .n_batches = argument(argc, argv, 3, 100), .n_obs = n_obs};
  if (p.batch_size < RUN || p.batch_size > (1 << 24) || p.n_batches == 0) {
    fprintf(stderr, "batches: needs a batch of %d to %d cells, and one batch or more\n", RUN, 1 << 24);
    exit(2);
  }
  p.batch_size -= p.batch_size % RUN;
  p.n_runs = (n_obs + RUN - 1) / RUN;
  p.runs = shuffled_runs(p.n_runs, argument(argc, argv, 4, 0));
  return p;
}

int main(int argc, char **argv) {
  annb_error err;
  annb_store *store;     /* may be shared by threads */
  annb_context *context; /* one per thread */
  annb_store_info info;
  uint32_t x;
  if (argc < 2 || argc > 5) {
    fprintf(stderr, "usage: batches STORE [batch_size] [n_batches] [seed]\n");
    return 2;
  }
  if (annb_store_open(argv[1], NULL, &store, &err) || annb_context_open(&context, &err)) fail(&err);
  annb_store_get_info(store, &info);
  if (info.n_obs == 0 || annb_store_find_matrix(store, "X", &x, NULL)) {
    printf("nothing to read: %s has %s\n", argv[1], info.n_obs ? "no matrix X" : "no cells");
    annb_context_close(context);
    annb_store_close(store);
    return EXIT_SUCCESS;
  }
  read_plan plan = make_plan(argc, argv, info.n_obs);
  batch b = {.rows = get_memory(NULL, plan.batch_size * sizeof *b.rows)};
  b.indptr = get_memory(NULL, (plan.batch_size + 1) * sizeof *b.indptr);
  pool p = {0};

  /* the first pass brings the files into the page cache, sums, and keeps the decoded cells; the second one is the measurement */
  totals first = run_pass(store, context, x, &b, &plan, &p), second = run_pass(store, context, x, &b, &plan, NULL);
  report(&plan, &first, &second, &p, copy_all(&p, &b, plan.batch_size));

  free(plan.runs);
  free(b.rows);
  free(b.indptr);
  free(b.indices);
  free(b.values);
  free(p.ends);
  free(p.indices);
  free(p.values);
  annb_context_close(context);
  annb_store_close(store);
  return EXIT_SUCCESS;
}
