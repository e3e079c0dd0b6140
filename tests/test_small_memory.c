/* Stores much larger than the memory: reading goes on at a like rate, reads little twice, and nobody is killed. */
#include "../reader/loader/loader_internal.h"
#include "../store/hash.h"
#include "limited.h"
#include "store_maker.h"
#include "suite.h"

#include <time.h>

enum { MIB = 1 << 20, COLS = 4000, MOST_LOADERS = 4 };

static annb_error err;
static char dir[256];
static bool on_disk;

/* Beside the program when temporary files are kept in memory. */
static void setup(void) {
  maker_tmpdir(dir);
  on_disk = !limited_in_memory(dir);
  char program[200] = "";
  ssize_t n = on_disk ? 0 : readlink("/proc/self/exe", program, sizeof program - 1);
  if (n <= 0 || limited_in_memory(program)) return;
  maker_remove(dir);
  *strrchr(program, '/') = 0;
  snprintf(dir, sizeof dir, "%s/small-XXXXXX", program);
  ck_assert_ptr_nonnull(mkdtemp(dir));
  on_disk = true;
}
static void teardown(void) { maker_remove(dir); }

/* Rows of `nnz` elements whose values do not compress. */
static void make_store(const char *path, uint64_t n_cells, uint32_t nnz) {
  enum { ROWS = 4096, MOST = 400 };
  static uint64_t indptr[ROWS + 1];
  static uint32_t indices[ROWS * MOST], values[ROWS * MOST];
  annb_txn *txn;
  annb_matrix_writer *writer;
  uint32_t matrix, part, state = 1;
  ck_assert_uint_le(nnz, MOST);
  OK(annb_txn_begin(path, ANNB_TXN_CREATE, &txn, &err));
  OK(annb_txn_add_matrix(txn, &(annb_matrix_spec){.name = "X", .n_cols = COLS, .axes = ANNB_OBS_VAR, .dtype = ANNB_F32}, &matrix, &err));
  OK(annb_txn_add_part(txn, &(annb_part_spec){n_cells, COLS, ANNB_NONE, ANNB_NONE, ANNB_NONE, ANNB_NONE}, &part, &err));
  OK(annb_matrix_writer_open(txn, &(annb_matrix_writer_options){.n_cols = COLS, .dtype = ANNB_F32, .form = ANNB_CSR, .expected_rows = n_cells,
                                                                .expected_nnz = n_cells * nnz, .n_threads = 2}, &writer, &err));
  for (uint64_t first = 0; first < n_cells; first += ROWS) {
    uint64_t n = n_cells - first < ROWS ? n_cells - first : ROWS;
    for (uint64_t k = 0; k < n * nnz; k++) {
      state = state * 1664525 + 1013904223;
      indices[k] = (uint32_t)(k % nnz) * (COLS / nnz) + (state >> 20) % (COLS / nnz);
      values[k] = nnz > 2 ? (state & 0x007fffff) | 0x3f800000 : 0x3f800000; /* 1 to 2 */
    }
    for (uint64_t i = 0; i <= n; i++) indptr[i] = i * nnz;
    OK(annb_matrix_writer_append(writer, n, indptr, indices, values, &err));
  }
  OK(annb_matrix_writer_close(writer, part, matrix, NULL, &err));
  OK(annb_txn_commit(txn, NULL, &err));
}

typedef struct lap {
  const char *path;
  annb_access access;
  uint64_t block_size, n_cells; /* of each loader */
  uint32_t fetch_factor, n_loaders;
  bool limited; /* checked: the library sees it */
} lap;

enum { SECONDS, BYTES, ANONYMOUS, OPEN_BYTES, OPEN_ANONYMOUS, SUM };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double anonymous(void) {
  char line[256];
  unsigned long kib = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f)) (void)!sscanf(line, "RssAnon: %lu", &kib);
  if (f) fclose(f);
  return 1024.0 * (double)kib;
}

static uint64_t add_bytes(uint64_t sum, const void *bytes, uint64_t n) { return annb_mix(annb_hash64(bytes, (size_t)n), sum, n); }

/* In the child: not checked with Check. SUM is of all that was delivered, in order. */
static int run_lap(void *user, double *out) {
  const lap *l = user;
  annb_store *store;
  annb_loader *loaders[MOST_LOADERS];
  annb_batch batch;
  const annb_loader_matrix x = {.name = "X", .fetch = {.dtype = ANNB_F32}};
  annb_loader_options o = {.sampler = {.seed = 1, .block_size = l->block_size, .fetch_factor = l->fetch_factor}, .matrices = &x,
                                 .n_matrices = 1, .n_threads = 2, .access = l->access};
  uint64_t before = limited_device_bytes(), n = 0, sum = 0;
  double start = now(), memory = anonymous();
  if (l->limited && annb_io_memory_limit() > 100 * MIB) return 2;
  if (annb_store_open(l->path, NULL, &store, &err)) return 3;
  for (uint32_t i = 0; i < l->n_loaders; i++, o.sampler.seed++)
    if (annb_loader_open((const annb_store *const[]){store}, 1, &o, &loaders[i], &err)) return 4;
  out[OPEN_BYTES] = (double)(limited_device_bytes() - before);
  out[OPEN_ANONYMOUS] = anonymous() - memory;
  for (uint32_t i = 0; n < l->n_cells * l->n_loaders; i++) {
    if (annb_loader_next(loaders[i % l->n_loaders], &batch, &err)) return 5;
    if (batch.n_rows != 64) return 6;
    n += batch.n_rows;
    sum = add_bytes(sum, batch.rows, batch.n_rows * sizeof *batch.rows);
    sum = add_bytes(sum, batch.matrices[0].indptr, (batch.n_rows + 1) * sizeof *batch.matrices[0].indptr);
    sum = add_bytes(sum, batch.matrices[0].indices, batch.matrices[0].nnz * 4);
    sum = add_bytes(sum, batch.matrices[0].values, batch.matrices[0].nnz * 4);
    annb_batch_release(&batch);
  }
  out[SECONDS] = now() - start;
  out[BYTES] = (double)(limited_device_bytes() - before);
  out[ANONYMOUS] = anonymous() - memory;
  out[SUM] = (double)(sum >> 12);
  for (uint32_t i = 0; i < l->n_loaders; i++) annb_loader_close(loaders[i]);
  annb_store_close(store);
  return 0;
}

/* With little memory against plenty of it: at most `slower` times as slow; at most `most` bytes come from the device. */
static void compare(lap l, uint64_t bytes, double slower, double most) {
  double plenty[LIMITED_OUT], little[LIMITED_OUT];
  int status;
  limited_drop(l.path);
  ck_assert(limited_run(0, run_lap, &l, plenty, &status));
  ck_assert_int_eq(status, 0);
  limited_drop(l.path);
  l.limited = true;
  if (!limited_run(bytes, run_lap, &l, little, &status)) {
    printf("left out: no control group can be made here\n");
    return;
  }
  ck_assert_msg(status == 0, "access %d, b = %u: ended with %d", l.access, (unsigned)l.block_size, status);
  ck_assert_msg(little[SUM] == plenty[SUM], "not the same batches");
  printf("access %d, b = %u, %u MiB: %.0f cells/s, with plenty %.0f; from the device %.1f MB, with plenty %.1f MB\n", l.access,
         (unsigned)l.block_size, (unsigned)(bytes / MIB), (double)(l.n_cells * l.n_loaders) / little[SECONDS], (double)(l.n_cells * l.n_loaders) / plenty[SECONDS],
         little[BYTES] / 1e6, plenty[BYTES] / 1e6);
  ck_assert_msg(little[SECONDS] < slower * plenty[SECONDS] + 1, "%.2f s, with plenty of memory %.2f s", little[SECONDS], plenty[SECONDS]);
  ck_assert_msg(little[BYTES] <= most, "%.0f bytes, with plenty of memory %.0f", little[BYTES], plenty[BYTES]);
}

/* 75 MB in 32 MiB; a fetch is 10 MB. */
START_TEST(wide_rows) {
  char path[512];
  snprintf(path, sizeof path, "%s/wide", dir);
  if (!on_disk) return;
  make_store(path, 50000, 400);
  for (int access = ANNB_ACCESS_MMAP; access <= ANNB_ACCESS_PREAD; access++)
    compare((lap){path, (annb_access)access, 16, 40000, 100, 1, false}, 32 * MIB, 20, 2 * 75e6);
  /* each would have room for itself: pages are dropped before they are used, and asked for again */
  compare((lap){path, ANNB_ACCESS_MMAP, 16, 10000, 100, MOST_LOADERS, false}, 32 * MIB, 20, 6 * 75e6);
}
END_TEST

/* The index alone is 32 MB (or 320), and what is allowed less. */
START_TEST(thin_rows) {
  char path[512];
  bool many = getenv("ANNB_TEST_LONG") != NULL;
  uint64_t n_cells = many ? 20000000 : 2000000, memory = (many ? 64 : 24) * MIB;
  snprintf(path, sizeof path, "%s/thin", dir);
  if (!on_disk) return;
  make_store(path, n_cells, 2);
  for (int access = ANNB_ACCESS_MMAP; access <= ANNB_ACCESS_PREAD; access++) { /* a run is a page or two, and as many of the index */
    compare((lap){path, (annb_access)access, 1, 32768, 256, 1, false}, memory, 40, 32768 * 2.0 * ANNB_PAGE * 2);
    compare((lap){path, (annb_access)access, 16, 131072, 256, 1, false}, memory, 20, 131072 / 16 * 2.2 * ANNB_PAGE * 2);
  }
}
END_TEST

/* Opening and a first batch of ten times the cells: as few pages, as little memory. */
START_TEST(opening) {
  double small[LIMITED_OUT], large[LIMITED_OUT];
  char path[512];
  int status;
  if (!on_disk) return;
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/cells-%d", dir, i);
    make_store(path, i ? 1000000 : 100000, 2);
    limited_drop(path);
    lap l = {path, ANNB_ACCESS_MMAP, 16, 64, 1, 1, false};
    ck_assert(limited_run(0, run_lap, &l, i ? large : small, &status));
    ck_assert_int_eq(status, 0);
  }
  ck_assert_msg(large[OPEN_ANONYMOUS] <= small[OPEN_ANONYMOUS] + 128 * 1024, "%.0f bytes, then %.0f", small[OPEN_ANONYMOUS], large[OPEN_ANONYMOUS]);
  ck_assert_msg(large[ANONYMOUS] <= small[ANONYMOUS] + 512 * 1024, "%.0f bytes, then %.0f", small[ANONYMOUS], large[ANONYMOUS]);
  ck_assert_msg(large[OPEN_BYTES] <= 128 * 1024, "%.0f bytes read to open", large[OPEN_BYTES]);
  /* what is read ahead meanwhile is counted too: a few fetches of four runs, each with its index pages */
  ck_assert_msg(large[BYTES] <= 2 * MIB, "%.0f bytes read for a batch", large[BYTES]);
  printf("open: %.0f bytes read, %.0f bytes of memory; %.0f and %.0f with a batch\n", large[OPEN_BYTES], large[OPEN_ANONYMOUS], large[BYTES],
         large[ANONYMOUS]);
}
END_TEST

/* How far ahead by how much memory. */
START_TEST(windows) {
  maker_csr x = maker_random(1, 20000, 500, 40, ANNB_F32, MAKER_SORTED);
  annb_store *store;
  annb_loader *loader;
  char path[512];
  snprintf(path, sizeof path, "%s/s", dir);
  maker_simple(path, ANNB_TXN_CREATE, &x, 20000, 1024);
  maker_free(&x);
  OK(annb_store_open(path, NULL, &store, &err));
  for (int access = ANNB_ACCESS_MMAP; access <= ANNB_ACCESS_PREAD; access++) {
    const annb_loader_matrix m = {.name = "X"};
    const annb_loader_options o = {.sampler = {.fetch_factor = 64}, .matrices = &m, .n_matrices = 1, .access = (annb_access)access};
    OK(annb_loader_open((const annb_store *const[]){store}, 1, &o, &loader, &err));
    annb_window all = annb_window_for(loader, UINT64_MAX), before = all;
    ck_assert_uint_eq(all.n_units, ANNB_LOADER_ARENAS);
    ck_assert_uint_eq(all.n_steps, UINT64_MAX);
    for (uint64_t memory = 64 * MIB; memory; memory /= 2) {
      annb_window w = annb_window_for(loader, memory);
      uint64_t steps = w.n_steps > 64 ? 64 : w.n_steps, steps_before = before.n_steps > 64 ? 64 : before.n_steps;
      ck_assert_uint_ge(w.n_steps, 1);
      ck_assert_uint_ge(w.n_units, 1);
      ck_assert_uint_le(w.n_units, ANNB_LOADER_ARENAS);
      ck_assert_uint_le(w.n_units * steps, before.n_units * steps_before);
      before = w;
    }
    ck_assert_uint_eq(before.n_steps, 1);
    annb_loader_close(loader);
  }
  annb_store_close(store);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("small_memory");
  TCase *tc = tcase_create("small_memory");
  tcase_set_timeout(tc, 600);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, windows);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) /* they need more memory than that */
  tcase_add_test(tc, opening);
  tcase_add_test(tc, wide_rows);
  tcase_add_test(tc, thin_rows);
#else
  (void)opening, (void)wide_rows, (void)thin_rows;
#endif
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
