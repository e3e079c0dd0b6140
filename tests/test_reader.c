/* Opening stores: what is in them, generations, files that do not fit the manifest, threads and forked children. */
#include "store_fixture.h"
#include "suite.h"

#include "../store/io.h"
#include "../store/manifest/manifest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static annb_store *open_generation(uint64_t generation) {
  annb_store *store;
  OK(annb_store_open(store_path, &(annb_open_options){.generation = generation}, &store, &err));
  return store;
}

static void check_all(const annb_store *store, const maker_csr *x) {
  annb_store_info info;
  annb_store_get_info(store, &info);
  ck_assert_uint_eq(info.n_obs, x->n_rows);
  for (uint64_t i = 0; i < x->n_rows; i++) {
    bool equal = false;
    OK(maker_read_row(store, context, x, i, i, &equal, &err));
    ck_assert(equal);
  }
}

/* ---- open ---- */

START_TEST(not_a_store) {
  annb_store *store = NULL;
  FAILS(annb_store_open(store_path, NULL, &store, &err), ANNB_ENOTSTORE);
  ck_assert_ptr_nonnull(strstr(err.message, store_path));
  FAILS(annb_store_open(store_path, NULL, &store, NULL), ANNB_ENOTSTORE);
  FAILS(annb_store_open(dir, NULL, &store, &err), ANNB_ENOTSTORE);
  maker_write_file(store_path, "x", 1);
  FAILS(annb_store_open(store_path, NULL, &store, &err), ANNB_ENOTSTORE);
  unlink(store_path);
  FAILS(annb_store_open(NULL, NULL, &store, &err), ANNB_EINVAL);
  FAILS(annb_store_open(store_path, NULL, NULL, &err), ANNB_EINVAL);
  annb_txn *txn; /* begun but not committed */
  OK(annb_txn_begin(store_path, ANNB_TXN_CREATE, &txn, &err));
  FAILS(annb_store_open(store_path, NULL, &store, &err), ANNB_ENOTSTORE);
  FAILS(annb_store_open(store_path, &(annb_open_options){.generation = 1}, &store, &err), ANNB_ENOTSTORE);
  annb_txn_abort(txn);
  ck_assert_ptr_null(store);
  annb_store_close(NULL);
  annb_context_close(NULL);
}
END_TEST

START_TEST(what_is_in_it) {
  static const uint64_t part_rows[] = {30, 0, 12};
  maker_csr x[3], pca[3];
  for (int i = 0; i < 3; i++) {
    x[i] = maker_random((uint64_t)i, part_rows[i], 20, 5, ANNB_U16, MAKER_SORTED);
    pca[i] = maker_random((uint64_t)i, part_rows[i], 4, 4, ANNB_F64, MAKER_SORTED);
  }
  const maker_csr *xs[] = {&x[0], &x[1], &x[2]}, *pcas[] = {&pca[0], &pca[1], &pca[2]};
  maker_matrix m[] = {{.name = "X", .dtype = ANNB_U16, .n_cols = 20, .form = ANNB_CSC, .segment_rows = 16, .parts = xs},
                      {.name = "obsm/X_pca", .axes = ANNB_OBS_FREE, .dtype = ANNB_F64, .n_cols = 4, .form = ANNB_DENSE, .parts = pcas}};
  maker_store(&(maker_spec){.path = store_path,
                            .n_vars = 20,
                            .n_parts = 3,
                            .part_rows = part_rows,
                            .matrices = m,
                            .n_matrices = 2,
                            .sidecars = true});
  annb_store *store = open_generation(0);
  annb_store_info info;
  annb_store_get_info(store, &info);
  ck_assert(info.n_obs == 42 && info.n_vars == 20 && info.generation == 1 && info.n_parts == 3 && info.n_matrices == 2);
  ck_assert_str_eq(annb_store_path(store), store_path);
  uint64_t bytes = 0;
  for (const char *const *folder = (const char *const[]){"objects", "manifests", NULL}; *folder; folder++) {
    char **names;
    size_t n;
    char *folder_path = annb_io_join(store_path, *folder);
    OK(annb_io_list(folder_path, &names, &n, &err));
    for (size_t i = 0; i < n; i++) {
      size_t size;
      char *file = annb_io_join(folder_path, names[i]);
      free(maker_read_file(file, &size));
      free(file);
      bytes += size;
    }
    annb_io_free_names(names, n);
    free(folder_path);
  }
  ck_assert_uint_eq(info.bytes, bytes);
  uint32_t matrix;
  annb_matrix_info mi;
  OK(annb_store_find_matrix(store, "obsm/X_pca", &matrix, &err));
  ck_assert_uint_eq(matrix, 1);
  OK(annb_store_matrix(store, 1, &mi, &err));
  ck_assert_str_eq(mi.name, "obsm/X_pca");
  ck_assert(mi.n_rows == 42 && mi.n_cols == 4 && mi.axes == ANNB_OBS_FREE && mi.dtype == ANNB_F64 && mi.form == ANNB_DENSE);
  OK(annb_store_matrix(store, 0, &mi, &err));
  ck_assert(mi.nnz == x[0].indptr[30] + x[2].indptr[12] && mi.form == ANNB_CSC && mi.n_segments >= 3 && mi.bytes > 3 * 8192);
  FAILS(annb_store_matrix(store, 2, &mi, &err), ANNB_ERANGE);
  FAILS(annb_store_find_matrix(store, "x", &matrix, &err), ANNB_ENOTFOUND);
  FAILS(annb_store_find_matrix(store, NULL, &matrix, &err), ANNB_ENOTFOUND);
  annb_part_info part;
  OK(annb_store_part(store, 2, &part, &err));
  ck_assert(part.first_row == 30 && part.n_rows == 12 && part.n_vars == 20 && part.n_matrices == 2);
  FAILS(annb_store_part(store, 3, &part, &err), ANNB_ERANGE);
  annb_store_close(store);
  for (int i = 0; i < 3; i++) {
    maker_free(&x[i]);
    maker_free(&pca[i]);
  }
}
END_TEST

START_TEST(part_files) {
  static const uint64_t part_rows[] = {2, 3};
  maker_store(&(maker_spec){.path = store_path, .n_vars = 4, .n_parts = 2, .part_rows = part_rows, .sidecars = true});
  annb_store *store = open_generation(0);
  const char *file, *again;
  size_t size;
  OK(annb_store_part_file(store, 1, ANNB_OBJECT_SIDECAR, &file, &err));
  OK(annb_store_part_file(store, 1, ANNB_OBJECT_SIDECAR, &again, &err));
  ck_assert_ptr_eq(file, again);
  uint8_t *text = maker_read_file(file, &size);
  ck_assert_uint_eq(size, strlen("sidecar of part 1"));
  ck_assert_mem_eq(text, "sidecar of part 1", size);
  free(text);
  OK(annb_store_part_file(store, 1, ANNB_OBJECT_RESTORE, &again, &err));
  ck_assert_ptr_null(again);
  FAILS(annb_store_part_file(store, 1, ANNB_OBJECT_SEGMENT, &again, &err), ANNB_EINVAL);
  FAILS(annb_store_part_file(store, 2, ANNB_OBJECT_SIDECAR, &again, &err), ANNB_ERANGE);
  maker_write_file(file, "short", 5);
  FAILS(annb_store_part_file(store, 1, ANNB_OBJECT_SIDECAR, &again, &err), ANNB_ECORRUPT);
  ck_assert_str_eq(err.path, file);
  unlink(file);
  FAILS(annb_store_part_file(store, 1, ANNB_OBJECT_SIDECAR, &again, &err), ANNB_EIO);
  OK(annb_store_part_file(store, 0, ANNB_OBJECT_SIDECAR, &again, &err));
  annb_store_close(store);
}
END_TEST

/* Thousands of parts, few of them with data: the table is searched, files open when a row of theirs is read. */
START_TEST(many_parts) {
  enum { PARTS = 5000 };
  static uint64_t part_rows[PARTS];
  static const maker_csr *parts[PARTS];
  maker_csr x[3];
  uint64_t n_obs = 0;
  for (uint32_t i = 0; i < PARTS; i++) n_obs += part_rows[i] = i % 3;
  static const uint32_t at[] = {1, 2501, 4999};
  for (int i = 0; i < 3; i++) {
    x[i] = maker_random((uint64_t)i, part_rows[at[i]], 300, 200, ANNB_F32, MAKER_SHUFFLED);
    parts[at[i]] = &x[i];
  }
  maker_matrix m = {.name = "X", .dtype = ANNB_F32, .n_cols = 300, .absent = ANNB_ABSENT_ZERO, .parts = parts};
  maker_store(&(maker_spec){.path = store_path, .n_vars = 300, .n_parts = PARTS, .part_rows = part_rows, .matrices = &m, .n_matrices = 1});
  annb_store *store = open_generation(0);
  annb_part_info info;
  uint64_t first = 0;
  for (uint32_t i = 0; i < PARTS; i++) {
    OK(annb_store_part(store, i, &info, &err));
    ck_assert_uint_eq(info.first_row, first);
    first += part_rows[i];
    for (uint64_t row = info.first_row; row < first; row++) {
      uint64_t total;
      OK(annb_fetch_nnz(store, 0, &row, 1, NULL, &total, &err));
      const maker_csr *p = parts[i];
      ck_assert_uint_eq(total, p ? p->indptr[row - info.first_row + 1] - p->indptr[row - info.first_row] : 0);
    }
  }
  ck_assert_uint_eq(first, n_obs);
  annb_store_close(store);
  for (int i = 0; i < 3; i++) maker_free(&x[i]);
}
END_TEST

/* ---- generations ---- */

START_TEST(newer_generation) {
  maker_csr one = maker_random(1, 90, 25, 8, ANNB_F32, MAKER_SHUFFLED), two = maker_random(2, 60, 25, 8, ANNB_F32, MAKER_SORTED);
  ck_assert_uint_eq(maker_simple(store_path, ANNB_TXN_CREATE, &one, 30, 0), 1);
  annb_store *pinned = open_generation(0), *store;
  bool equal;
  OK(maker_read_row(pinned, context, &one, 5, 5, &equal, &err)); /* opens the first segment only */
  ck_assert_uint_eq(maker_simple(store_path, ANNB_TXN_REPLACE, &two, 30, 0), 2);
  check_all(pinned, &one);
  store = open_generation(0);
  check_all(store, &two);
  annb_store_info a, b;
  annb_store_get_info(pinned, &a);
  annb_store_get_info(store, &b);
  ck_assert(a.generation == 1 && b.generation == 2);
  ck_assert_mem_eq(a.store_id, b.store_id, sizeof a.store_id);
  annb_store_close(pinned);
  annb_store_close(store);
  store = open_generation(1);
  check_all(store, &one);
  annb_store_close(store);
  store = open_generation(2);
  check_all(store, &two);
  annb_store_close(store);
  FAILS(annb_store_open(store_path, &(annb_open_options){.generation = 3}, &store, &err), ANNB_ENOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.message, "newest is 2"));
  FAILS(annb_store_open(store_path, &(annb_open_options){.generation = UINT64_MAX}, &store, &err), ANNB_ENOTFOUND);
  maker_free(&one);
  maker_free(&two);
}
END_TEST

/* A damaged newest manifest is an error; the older one opens when asked for. */
START_TEST(damaged_newest) {
  maker_csr one = maker_random(1, 20, 9, 4, ANNB_F32, MAKER_SORTED), two = maker_random(2, 20, 9, 4, ANNB_F32, MAKER_SORTED);
  maker_simple(store_path, ANNB_TXN_CREATE, &one, 0, 0);
  maker_simple(store_path, ANNB_TXN_REPLACE, &two, 0, 0);
  char *manifest = annb_manifest_path(store_path, 2);
  annb_store *store;
  size_t size;
  uint8_t *bytes = maker_read_file(manifest, &size);
  for (int k = 0; k < 3; k++) {
    size_t kept[] = {0, size / 2, size};
    bytes[size / 2] ^= 1;
    maker_write_file(manifest, bytes, kept[k]);
    bytes[size / 2] ^= 1;
    FAILS(annb_store_open(store_path, NULL, &store, &err), ANNB_ECORRUPT);
    ck_assert_str_eq(err.path, manifest);
    FAILS(annb_store_open(store_path, &(annb_open_options){.generation = 2}, &store, &err), ANNB_ECORRUPT);
    store = open_generation(1);
    check_all(store, &one);
    annb_store_close(store);
  }
  free(bytes);
  free(manifest);
  maker_free(&one);
  maker_free(&two);
}
END_TEST

/* ---- objects and the manifest ---- */

/* Objects are opened when first needed, and then compared with the manifest. */
START_TEST(objects_of_another_store) {
  maker_csr x = maker_random(3, 40, 30, 10, ANNB_F32, MAKER_SORTED), y = maker_random(3, 40, 30, 10, ANNB_F32, MAKER_SORTED);
  for (uint64_t i = 0; i < y.indptr[40]; i++) y.values[i * 4] ^= 1; /* as long as x */
  maker_simple(store_path, ANNB_TXN_CREATE, &x, 20, 0);
  char other[320];
  snprintf(other, sizeof other, "%s/other", dir);
  maker_simple(other, ANNB_TXN_CREATE, &y, 20, 0);
  char *mine = maker_object(store_path, ".anns", 0);
  size_t size;
  uint8_t *original = maker_read_file(mine, &size);
  for (int k = 0; k < 4; k++) {
    annb_status status = ANNB_ECORRUPT, s = ANNB_OK;
    if (k == 0) {
      unlink(mine);
      status = ANNB_EIO;
    } else if (k == 1) {
      maker_write_file(mine, original, size - 1);
    } else { /* an intact segment, but another */
      char *theirs = maker_object(other, ".anns", (size_t)(k - 2));
      size_t n;
      uint8_t *bytes = maker_read_file(theirs, &n);
      maker_write_file(mine, bytes, n);
      free(bytes);
      free(theirs);
    }
    annb_store *store = open_generation(0);
    size_t failed = 0;
    for (uint64_t i = 0; i < 40; i++) {
      bool equal = false;
      s = maker_read_row(store, context, &x, i, i, &equal, &err);
      ck_assert(s == ANNB_OK ? equal : s == status);
      if (s) ck_assert_ptr_nonnull(strstr(err.message, mine));
      failed += s != ANNB_OK;
    }
    ck_assert_uint_eq(failed, 20);
    annb_store_close(store);
  }
  maker_write_file(mine, original, size);
  annb_store *store = open_generation(0);
  check_all(store, &x);
  annb_store_close(store);
  free(original);
  free(mine);
  maker_free(&x);
  maker_free(&y);
}
END_TEST

/* A second manifest, sound in itself, that describes the segments wrongly. */
enum { WRONG_ROWS, WRONG_NNZ, WRONG_DTYPE, WRONG_COLUMNS, WRONG_ORDER, WRONG_HASH, WRONG_SIZE, N_WRONG };

static void make_wrong(annb_manifest *m, int kind) {
  switch (kind) {
  case WRONG_ROWS:
    m->segments[0].n_rows++;
    m->segments[1].n_rows--;
    break;
  case WRONG_NNZ:
    m->segments[0].nnz++;
    m->segments[1].nnz--;
    break;
  case WRONG_DTYPE: m->part_matrices[0].dtype = m->matrices[0].dtype = ANNB_I32; break;
  case WRONG_COLUMNS:
    m->store.n_vars++;
    m->parts[0].n_vars++;
    m->matrices[0].n_cols++;
    m->part_matrices[0].n_cols++;
    break;
  case WRONG_ORDER: {
    annb_fmt_segment_ref swap = m->segments[0];
    m->segments[0] = m->segments[1];
    m->segments[1] = swap;
    break;
  }
  case WRONG_HASH:
    m->objects[0].footer_hash[3] ^= 4;
    m->objects[1].footer_hash[15] ^= 4;
    break;
  default:
    m->objects[0].size += 8;
    m->objects[1].size -= 8;
  }
}

START_TEST(manifest_disagrees) {
  maker_csr x = maker_random(3, 40, 30, 10, ANNB_F32, MAKER_SORTED);
  maker_simple(store_path, ANNB_TXN_CREATE, &x, 20, 0);
  char *first = annb_manifest_path(store_path, 1), *second = annb_manifest_path(store_path, 2);
  annb_manifest m;
  OK(annb_manifest_load(first, 1, &m, &err));
  ck_assert_uint_eq(m.n_segments, 2);
  make_wrong(&m, _i);
  m.header.generation = 2;
  memcpy(m.header.parent, m.sha256, sizeof m.sha256);
  OK(annb_manifest_write(&m, second, &err));
  annb_manifest_free(&m);
  annb_store *store = open_generation(0);
  for (uint64_t i = 0; i < 40; i++) {
    uint64_t total;
    uint8_t dense[31 * 4];
    FAILS(annb_fetch_nnz(store, 0, &i, 1, NULL, &total, &err), ANNB_ECORRUPT);
    ck_assert_ptr_nonnull(strstr(err.path, ".anns"));
    FAILS(annb_fetch_dense(store, context, 0, &i, 1, NULL, dense, 0, sizeof dense, &err), ANNB_ECORRUPT);
  }
  annb_store_close(store);
  free(first);
  free(second);
  maker_free(&x);
}
END_TEST

/* ---- threads and processes ---- */

typedef struct reader_thread {
  pthread_t thread;
  pthread_barrier_t *start;
  const annb_store *store;
  const maker_csr *x;
  uint64_t seed;
  unsigned wrong;
} reader_thread;

/* Batches of random rows, each compared with what was written; returns how many were wrong. */
static unsigned read_at_random(const annb_store *store, const maker_csr *x, uint64_t seed, int batches) {
  enum { BATCH = 16 };
  annb_context *c;
  unsigned wrong = 0;
  uint64_t rows[BATCH], total, capacity = BATCH * x->n_cols;
  int64_t indptr[BATCH + 1];
  int32_t *indices = malloc(capacity * sizeof *indices);
  float *values = malloc(capacity * sizeof *values), *dense = malloc(capacity * sizeof *dense);
  if (!indices || !values || !dense || annb_context_open(&c, NULL)) return 1;
  for (int b = 0; b < batches; b++) {
    for (int i = 0; i < BATCH; i++) rows[i] = maker_next(&seed) % x->n_rows;
    wrong += annb_fetch_nnz(store, 0, rows, BATCH, NULL, &total, NULL) != ANNB_OK;
    wrong += annb_fetch_csr(store, c, 0, rows, BATCH, NULL, indptr, indices, values, capacity, NULL) != ANNB_OK;
    wrong += annb_fetch_dense(store, c, 0, rows, BATCH, NULL, dense, 0, capacity * sizeof *dense, NULL) != ANNB_OK;
    wrong += (uint64_t)indptr[BATCH] != total;
    for (int i = 0; i < BATCH && !wrong; i++) {
      uint64_t first = x->indptr[rows[i]], n = x->indptr[rows[i] + 1] - first, at = (uint64_t)indptr[i];
      wrong += memcmp(indices + at, x->indices + first, n * 4) || memcmp(values + at, x->values + first * 4, n * 4);
      for (uint64_t k = 0; k < n; k++)
        wrong += memcmp(&dense[(uint64_t)i * x->n_cols + x->indices[first + k]], x->values + (first + k) * 4, 4) != 0;
    }
  }
  annb_context_close(c);
  free(indices);
  free(values);
  free(dense);
  return wrong;
}

static void *run_thread(void *argument) {
  reader_thread *t = argument;
  pthread_barrier_wait(t->start);
  t->wrong = read_at_random(t->store, t->x, t->seed, 30);
  return NULL;
}

static pid_t fork_reader(annb_store *store, const maker_csr *x) {
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    alarm(60); /* a deadlock ends the child */
    unsigned wrong = read_at_random(store, x, 77, 30);
    annb_store_close(store);
    /* what other threads had allocated is lost here: exec is an end that no leak checker looks at */
    execlp(wrong ? "false" : "true", "result", (char *)NULL);
    _exit(2);
  }
  return pid;
}

static void wait_reader(pid_t pid) {
  int status = -1;
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

enum { THREADS = 8 };

/* The allocator of AddressSanitizer may hang in the child when other threads allocate during fork; that of the C library does not. */
#if defined(__SANITIZE_ADDRESS__)
#define FORK_WHILE_RUNNING 0
#else
#define FORK_WHILE_RUNNING 1
#endif

/* One store for all; its many segments are opened by whoever comes first. `fork_when` 0: before any was opened, 1: while threads run,
 * 2: afterwards. */
START_TEST(threads_and_fork) {
  maker_csr x = maker_random(4, 240, 100, 30, ANNB_F32, MAKER_SHUFFLED);
  maker_simple(store_path, ANNB_TXN_CREATE, &x, 10, 2);
  int fork_when = _i == 1 && !FORK_WHILE_RUNNING ? 2 : _i;
  for (int round = 0; round < 5; round++) {
    annb_store *store = open_generation(0);
    pthread_barrier_t start;
    reader_thread threads[THREADS];
    pid_t child = fork_when == 0 ? fork_reader(store, &x) : 0;
    ck_assert_int_eq(pthread_barrier_init(&start, NULL, THREADS + 1), 0);
    for (int i = 0; i < THREADS; i++) {
      threads[i] = (reader_thread){.start = &start, .store = store, .x = &x, .seed = (uint64_t)(round * THREADS + i)};
      ck_assert_int_eq(pthread_create(&threads[i].thread, NULL, run_thread, &threads[i]), 0);
    }
    pthread_barrier_wait(&start);
    if (fork_when == 1) child = fork_reader(store, &x);
    for (int i = 0; i < THREADS; i++) {
      pthread_join(threads[i].thread, NULL);
      ck_assert_uint_eq(threads[i].wrong, 0);
    }
    if (fork_when == 2) child = fork_reader(store, &x);
    wait_reader(child);
    pthread_barrier_destroy(&start);
    annb_store_close(store);
  }
  maker_free(&x);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("reader");
  TCase *tc = tcase_create("reader");
  tcase_set_timeout(tc, 300);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, not_a_store);
  tcase_add_test(tc, what_is_in_it);
  tcase_add_test(tc, part_files);
  tcase_add_test(tc, many_parts);
  tcase_add_test(tc, newer_generation);
  tcase_add_test(tc, damaged_newest);
  tcase_add_test(tc, objects_of_another_store);
  tcase_add_loop_test(tc, manifest_disagrees, 0, N_WRONG);
  tcase_add_loop_test(tc, threads_and_fork, 0, 3);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
