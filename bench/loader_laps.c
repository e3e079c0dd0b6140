#include "loader_laps.h"
#include "timing.h"

#include "../tests/limited.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static annb_error err;

static void need(annb_status s) {
  if (s) bench_fail("%s", err.message);
}

static double clock_of(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double lap_now(void) { return clock_of(CLOCK_MONOTONIC); }

uint64_t lap_anonymous(void) {
  char line[256];
  uint64_t kib, sum = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "RssAnon: %" SCNu64, &kib) == 1) sum += kib * 1024;
  if (f) fclose(f);
  return sum;
}

/* Call `work` for the path of each segment. */
static void each_segment(const char *path, void (*work)(void *user, const char *file), void *user) {
  char **names, *dir = annb_io_join(path, "objects");
  size_t n;
  need(annb_io_list(dir, &names, &n, &err));
  for (size_t i = 0; i < n; i++) {
    char *file = annb_io_join(dir, names[i]);
    work(user, file);
    free(file);
  }
  annb_io_free_names(names, n);
  free(dir);
}

/* ---- the loader ---- */

static void keep(uint64_t **rows, uint64_t *room, uint64_t used, const annb_batch *batch) {
  if (used + batch->n_rows > *room) {
    *room = 2 * *room + batch->n_rows;
    *rows = realloc(*rows, (size_t)*room * sizeof **rows);
    if (!*rows) bench_fail("out of memory");
  }
  memcpy(*rows + used, batch->rows, (size_t)batch->n_rows * sizeof **rows);
}

lap_result lap_loader(const lap_options *o, uint64_t **rows, uint64_t *room) {
  annb_store *store;
  annb_loader *loader;
  annb_batch batch;
  annb_loader_info info;
  lap_result r = {0};
  if (o->cold) limited_drop(o->path);
  uint64_t before = lap_anonymous();
  double start = lap_now(), cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
  const annb_loader_matrix x = {.name = "X", .fetch = o->fetch};
  const annb_loader_options lo = {.sampler = {.seed = o->seed, .block_size = o->block_size, .batch_size = LAP_BATCH, .fetch_factor = LAP_FACTOR},
                                  .matrices = &x, .n_matrices = 1, .n_threads = o->n_threads, .access = o->access};
  need(annb_store_open(o->path, NULL, &store, &err));
  need(annb_loader_open((const annb_store *const[]){store}, 1, &lo, &loader, &err));
  for (uint64_t t = 0; !o->n_cells || r.n_cells < o->n_cells; t++) {
    need(annb_loader_next(loader, &batch, &err));
    if (t == 0) r.first = lap_now() - start;
    if (!batch.n_rows) break;
    if (rows) keep(rows, room, r.n_cells, &batch);
    r.n_cells += batch.n_rows;
    if (batch.matrices[0].nnz > r.most) r.most = batch.matrices[0].nnz;
    if (t % 512 == 300) {
      uint64_t now = lap_anonymous();
      if (now > before && now - before > r.peak) r.peak = now - before;
    }
    annb_batch_release(&batch);
  }
  r.seconds = lap_now() - start;
  r.cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  annb_loader_get_info(loader, &info);
  r.bytes = info.bytes_decoded;
  annb_loader_close(loader);
  annb_store_close(store);
  return r;
}

/* ---- raw rows ---- */

void lap_raw_read(lap_raw *raw, const char *path) {
  enum { ROWS = 256 };
  annb_store *store;
  annb_context *context;
  annb_matrix_info info;
  uint32_t x;
  int64_t indptr[ROWS + 1];
  uint64_t rows[ROWS];
  const annb_fetch_options as = {.dtype = ANNB_F32, .sort_indices = true};
  need(annb_store_open(path, NULL, &store, &err));
  need(annb_context_open(&context, &err));
  need(annb_store_find_matrix(store, "X", &x, &err));
  need(annb_store_matrix(store, x, &info, &err));
  raw->n_rows = info.n_rows;
  raw->nnz = info.nnz;
  raw->indptr = bench_get(raw->n_rows + 1, 8);
  raw->ids = bench_reserve(raw->nnz, 4);
  raw->values = bench_reserve(raw->nnz, 4);
  for (uint64_t first = 0; first < raw->n_rows; first += ROWS) {
    size_t n = raw->n_rows - first < ROWS ? (size_t)(raw->n_rows - first) : ROWS;
    uint64_t at = raw->indptr[first];
    for (size_t i = 0; i < n; i++) rows[i] = first + i;
    need(annb_fetch_csr(store, context, x, rows, n, &as, indptr, raw->ids + at, raw->values + at, raw->nnz - at, &err));
    for (size_t i = 0; i <= n; i++) raw->indptr[first + i] = at + (uint64_t)indptr[i];
  }
  annb_context_close(context);
  annb_store_close(store);
}

double lap_copy(const lap_raw *raw, const uint64_t *rows, uint64_t n_rows, uint32_t n_ring, uint64_t most) {
  int32_t *ids = bench_get(n_ring * most, sizeof *ids);
  float *values = bench_get(n_ring * most, sizeof *values);
  double start = lap_now();
  uint64_t used = 0, place = 0;
  for (uint64_t i = 0; i < n_rows; i++) {
    uint64_t at = raw->indptr[rows[i]], n = raw->indptr[rows[i] + 1] - at;
    if (i % LAP_BATCH == 0) {
      used = 0;
      place = (place + 1) % n_ring;
    }
    if (used + n > most) bench_fail("a batch is larger than the loader's");
    memcpy(ids + place * most + used, raw->ids + at, n * sizeof *ids);
    memcpy(values + place * most + used, raw->values + at, n * sizeof *values);
    used += n;
  }
  double seconds = lap_now() - start;
  free(ids);
  free(values);
  return seconds;
}

/* ---- random reads ---- */

/* Places of the file, each once, in an order that jumps. */
typedef struct reader {
  int fd;
  uint64_t size, n_places, stride, bytes;
  atomic_ullong *next;
  double until;
} reader;

static void *read_some(void *user) {
  reader *r = user;
  char *to = bench_get(r->size, 1);
  for (uint64_t i; (i = atomic_fetch_add(r->next, 1)) < r->n_places && lap_now() < r->until;) {
    uint64_t at = i % r->n_places * r->stride % r->n_places * r->size;
    ssize_t n = pread(r->fd, to, r->size, (off_t)at);
    if (n <= 0) bench_fail("cannot read a segment");
    r->bytes += (uint64_t)n;
  }
  free(to);
  return NULL;
}

typedef struct largest {
  char path[4096];
  uint64_t size;
} largest;

static void find_largest(void *user, const char *file) {
  largest *l = user;
  uint64_t size = 0;
  if (annb_io_file_size(file, &size, NULL) || size <= l->size) return;
  l->size = size;
  snprintf(l->path, sizeof l->path, "%s", file);
}

static uint64_t gcd(uint64_t a, uint64_t b) { return b ? gcd(b, a % b) : a; }

double lap_random_reads(const char *path, uint64_t size, double seconds) {
  pthread_t threads[LAP_READERS];
  reader readers[LAP_READERS];
  largest l = {.size = 0};
  uint64_t bytes = 0;
  atomic_ullong next = 0;
  limited_drop(path);
  each_segment(path, find_largest, &l);
  uint64_t n_places = l.size / size, stride = n_places / 8 * 5 + 1;
  if (n_places < 2) bench_fail("the store is too small for random reads");
  while (gcd(stride, n_places) > 1) stride++;
  int fd = open(l.path, O_RDONLY);
  if (fd < 0) bench_fail("cannot open %s", l.path);
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  double start = lap_now();
  for (uint32_t i = 0; i < LAP_READERS; i++) {
    readers[i] = (reader){fd, size, n_places, stride, 0, &next, start + seconds};
    if (pthread_create(&threads[i], NULL, read_some, &readers[i])) bench_fail("cannot start a thread");
  }
  for (uint32_t i = 0; i < LAP_READERS; i++) {
    pthread_join(threads[i], NULL);
    bytes += readers[i].bytes;
  }
  close(fd);
  return (double)bytes / (lap_now() - start);
}

/* ---- a thin store ---- */

void lap_thin_store(const char *path, uint64_t n_cells) {
  enum { COLS = 2000, NNZ = 6, ROWS = 8192 };
  static uint64_t indptr[ROWS + 1];
  static uint32_t indices[ROWS * NNZ];
  static float values[ROWS * NNZ];
  annb_txn *txn;
  annb_matrix_writer *writer;
  uint32_t matrix, part;
  need(annb_txn_begin(path, ANNB_TXN_REPLACE, &txn, &err));
  need(annb_txn_add_matrix(txn, &(annb_matrix_spec){.name = "X", .n_cols = COLS, .axes = ANNB_OBS_VAR, .dtype = ANNB_F32}, &matrix, &err));
  need(annb_txn_add_part(txn, &(annb_part_spec){n_cells, COLS, ANNB_NONE, ANNB_NONE, ANNB_NONE, ANNB_NONE}, &part, &err));
  need(annb_matrix_writer_open(txn, &(annb_matrix_writer_options){.n_cols = COLS, .dtype = ANNB_F32, .form = ANNB_CSR, .expected_rows = n_cells,
                                                                   .expected_nnz = n_cells * NNZ, .n_threads = 2}, &writer, &err));
  for (uint64_t first = 0; first < n_cells; first += ROWS) {
    uint64_t n = n_cells - first < ROWS ? n_cells - first : ROWS, k = 0;
    for (uint64_t i = 0; i < n; i++) {
      for (uint32_t j = 0; j < NNZ; j++, k++) {
        indices[k] = j * 300 + (uint32_t)((first + i) * 2654435761u >> (j + 3)) % 300;
        values[k] = (float)(1 + (first + i) % 3);
      }
      indptr[i + 1] = k;
    }
    need(annb_matrix_writer_append(writer, n, indptr, indices, values, &err));
  }
  need(annb_matrix_writer_close(writer, part, matrix, NULL, &err));
  need(annb_txn_commit(txn, NULL, &err));
}
