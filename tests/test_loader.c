/* The loader against the reader and the sampler: the same batches, whatever the threads, access and process. */
#include "store_maker.h"
#include "suite.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static annb_error err;
static char dir[256];

enum { ROWS = 700, COLS = 300, B = 4, M = 8, F = 8 };

typedef struct made {
  char path[512];
  maker_csr x, y;
  annb_store *store;
} made;

static uint32_t label_columns(annb_txn *txn, uint32_t part, void *user) {
  annb_arrays_writer *w;
  annb_string_writer *strings;
  annb_column_spec names = {.name = "", .axis = ANNB_AXIS_NONE, .kind = ANNB_COLUMN_STRING, .mask = ANNB_NONE, .categories = ANNB_NONE};
  annb_column_spec codes = {.name = "plate", .axis = ANNB_AXIS_OBS, .kind = ANNB_COLUMN_CATEGORICAL, .bytes = ANNB_NONE, .mask = ANNB_NONE};
  int8_t *values = malloc(ROWS);
  const char *const *categories = user;
  uint32_t object, unused;
  (void)part;
  OK(annb_arrays_writer_open(txn, &w, &err));
  OK(annb_strings_begin(w, &strings, &err));
  for (int i = 0; i < 3; i++) OK(annb_strings_append(strings, categories[i], strlen(categories[i]), &err));
  OK(annb_strings_end(strings, &names.values, &names.bytes, &err));
  names.length = 3;
  OK(annb_arrays_add_column(w, &names, &codes.categories, &err));
  for (int i = 0; i < ROWS; i++) values[i] = (int8_t)(i % 7 == 6 ? -1 : i % 3);
  OK(annb_arrays_begin(w, "", ANNB_I8, 1, &codes.values, &err));
  OK(annb_arrays_append(w, values, ROWS, &err));
  OK(annb_arrays_end(w, &err));
  codes.length = ROWS;
  OK(annb_arrays_add_column(w, &codes, &unused, &err));
  OK(annb_arrays_writer_close(w, &object, &err));
  free(values);
  return object;
}

static const char *const first_names[] = {"a", "b", "c"}, *const other_names[] = {"c", "d", "a"};

static made *make(const char *name, uint64_t seed, const char *const *categories) {
  made *s = calloc(1, sizeof *s);
  const uint64_t part_rows[] = {ROWS};
  snprintf(s->path, sizeof s->path, "%s/%s", dir, name);
  s->x = maker_random(seed, ROWS, COLS, 30, ANNB_F32, MAKER_SORTED);
  s->y = maker_random(seed + 1, ROWS, COLS, 9, ANNB_U16, MAKER_SHUFFLED);
  const maker_csr *xs[] = {&s->x}, *ys[] = {&s->y};
  const maker_matrix matrices[] = {
      {.name = "X", .axes = ANNB_OBS_VAR, .dtype = ANNB_F32, .n_cols = COLS, .form = ANNB_CSR, .segment_rows = 150, .block_rows = 16,
       .parts = xs},
      {.name = "layers/y", .axes = ANNB_OBS_VAR, .dtype = ANNB_U16, .n_cols = COLS, .form = ANNB_CSR, .segment_rows = 400, .block_rows = 64,
       .parts = ys}};
  maker_store(&(maker_spec){.path = s->path, .n_vars = COLS, .n_parts = 1, .part_rows = part_rows, .matrices = matrices, .n_matrices = 2,
                            .columns = label_columns, .user = (void *)(uintptr_t)categories});
  OK(annb_store_open(s->path, NULL, &s->store, &err));
  return s;
}

static void setup(void) { maker_tmpdir(dir); }
static void teardown(void) { maker_remove(dir); }

static void drop(made *s) {
  annb_store_close(s->store);
  maker_free(&s->x);
  maker_free(&s->y);
  free(s);
}

static annb_loader *open_loader(const annb_store *store, const annb_loader_options *o) {
  annb_loader *loader;
  const annb_store *stores[] = {store};
  OK(annb_loader_open(stores, 1, o, &loader, &err));
  return loader;
}

static const annb_loader_matrix two[] = {{.name = "X"}, {.name = "layers/y", .dense = true, .fetch = {.dtype = ANNB_F32}}};
static const char *const plate[] = {"plate"};

static annb_loader_options options(void) {
  return (annb_loader_options){.sampler = {.seed = 3, .block_size = B, .batch_size = M, .fetch_factor = F},
                               .matrices = two, .n_matrices = 2, .labels = plate, .n_labels = 1};
}

/* A batch is what the sampler and the reader say. */
static void check_batch(const made *s, const annb_loader_options *o, const annb_batch *b, uint64_t epoch, uint64_t number) {
  annb_sampler_source source = {.n_rows = ROWS};
  annb_sampler *sampler;
  annb_picker *picker;
  annb_context *context;
  uint64_t rows[64], total;
  uint32_t n, x, y;
  int64_t indptr[65];
  OK(annb_sampler_open(&source, 1, &o->sampler, &sampler, &err));
  OK(annb_picker_open(sampler, &picker, &err));
  OK(annb_picker_batch(picker, epoch, number, rows, &n, &err));
  ck_assert_uint_eq(b->batch, number);
  ck_assert_uint_eq(b->epoch, epoch);
  ck_assert_uint_eq(b->n_rows, n);
  ck_assert_mem_eq(b->rows, rows, n * 8);
  OK(annb_context_open(&context, &err));
  OK(annb_store_find_matrix(s->store, "X", &x, &err));
  OK(annb_store_find_matrix(s->store, "layers/y", &y, &err));
  OK(annb_fetch_nnz(s->store, x, rows, n, NULL, &total, &err));
  int32_t *indices = malloc(total * 4 + 4);
  float *values = malloc(total * 4 + 4), *dense = malloc((size_t)n * COLS * 4);
  OK(annb_fetch_csr(s->store, context, x, rows, n, &o->matrices[0].fetch, indptr, indices, values, total, &err));
  ck_assert_uint_eq(b->matrices[0].nnz, total);
  ck_assert_mem_eq(b->matrices[0].indptr, indptr, (n + 1) * 8);
  ck_assert_mem_eq(b->matrices[0].indices, indices, total * 4);
  ck_assert_mem_eq(b->matrices[0].values, values, total * 4);
  OK(annb_fetch_dense(s->store, context, y, rows, n, &o->matrices[1].fetch, dense, 0, (size_t)n * COLS * 4, &err));
  ck_assert_mem_eq(b->matrices[1].values, dense, (size_t)n * COLS * 4);
  for (uint32_t i = 0; i < n; i++) ck_assert_int_eq(b->labels[0][i], rows[i] % 7 == 6 ? -1 : (int)(rows[i] % 3));
  free(indices);
  free(values);
  free(dense);
  annb_context_close(context);
  annb_picker_close(picker);
  annb_sampler_close(sampler);
}

START_TEST(whole_epochs) {
  made *s = make("s", 1, first_names);
  for (int access = ANNB_ACCESS_AUTO; access <= ANNB_ACCESS_PREAD; access++)
    for (uint32_t threads = 1; threads <= 3; threads++) {
      annb_loader_options o = options();
      annb_batch batch;
      o.access = (annb_access)access;
      o.n_threads = threads;
      o.n_io_threads = 3;
      o.n_ring = threads;
      annb_loader *loader = open_loader(s->store, &o);
      ck_assert_uint_eq(annb_loader_len(loader), (ROWS + M - 1) / M);
      for (uint64_t epoch = 0; epoch < 3; epoch++) {
        if (epoch) OK(annb_loader_set_epoch(loader, epoch, &err));
        for (uint64_t t = 0; t < annb_loader_len(loader); t++) {
          OK(annb_loader_next(loader, &batch, &err));
          ck_assert_uint_eq(batch.step, t);
          check_batch(s, &o, &batch, epoch, t);
          annb_batch_release(&batch);
        }
        for (int i = 0; i < 2; i++) {
          OK(annb_loader_next(loader, &batch, &err));
          ck_assert_uint_eq(batch.n_rows, 0);
        }
      }
      annb_loader_close(loader);
    }
  drop(s);
}
END_TEST

/* Batches that are held keep their contents, also after close; more of them than the ring has. */
START_TEST(held) {
  made *s = make("s", 2, first_names);
  annb_loader_options o = options();
  o.n_threads = 2;
  annb_loader *loader = open_loader(s->store, &o);
  annb_batch batches[40];
  for (int i = 0; i < 40; i++) OK(annb_loader_next(loader, &batches[i], &err));
  annb_loader_close(loader);
  for (uint64_t i = 0; i < 40; i++) check_batch(s, &o, &batches[i], 0, i);
  for (int i = 0; i < 40; i++) annb_batch_release(&batches[i]);
  annb_batch_release(&batches[0]);
  drop(s);
}
END_TEST

/* Resuming from each batch, and what a state of another loader says. */
/* With `reuse` arrays of released batches can be read until the loader is closed, whatever they hold then, and there are few of them. */
START_TEST(reused) {
  enum { MOST = 400 };
  made *s = make("s", 4, first_names);
  const uint8_t *seen[MOST];
  uint64_t sizes[MOST], n = 0, sum = 0, epochs = 0;
  annb_loader_options o = options();
  annb_batch batch;
  o.reuse = true;
  o.n_ring = 3;
  o.n_threads = 2;
  annb_loader *loader = open_loader(s->store, &o);
  for (; epochs < 3; epochs++) {
    OK(annb_loader_set_epoch(loader, epochs, &err));
    for (uint64_t t = 0; t < annb_loader_len(loader); t++) {
      OK(annb_loader_next(loader, &batch, &err));
      check_batch(s, &o, &batch, epochs, t);
      const annb_batch_matrix *x = &batch.matrices[0];
      uint64_t i = 0;
      while (i < n && seen[i] != x->values) i++;
      ck_assert_uint_lt(i, MOST);
      if (i == n) seen[n] = x->values, sizes[n++] = 0;
      if (x->nnz * sizeof(float) > sizes[i]) sizes[i] = x->nnz * sizeof(float);
      annb_batch_release(&batch);
    }
  }
  ck_assert_uint_le(n, 24); /* 3 in the ring, 2 in work, 1 here; each may grow some times */
  for (uint64_t i = 0; i < n; i++)
    for (uint64_t k = 0; k < sizes[i]; k++) sum += seen[i][k];
  ck_assert_uint_gt(sum, 0);
  annb_loader_close(loader);
  drop(s);
}
END_TEST

START_TEST(resume) {
  made *s = make("s", 3, first_names);
  annb_loader_options o = options();
  annb_loader *loader = open_loader(s->store, &o), *other = open_loader(s->store, &o);
  annb_batch batch;
  uint8_t state[512];
  OK(annb_loader_set_epoch(loader, 5, &err));
  for (uint64_t t = 0; t < annb_loader_len(loader); t++) {
    size_t size = sizeof state;
    OK(annb_loader_state(loader, state, &size, &err));
    OK(annb_loader_restore(other, state, size, &err));
    ck_assert_uint_eq(annb_loader_len(other), (ROWS + M - 1) / M - t);
    OK(annb_loader_next(other, &batch, &err));
    check_batch(s, &o, &batch, 5, t);
    ck_assert_uint_eq(batch.step, t);
    annb_batch_release(&batch);
    OK(annb_loader_next(loader, &batch, &err));
    annb_batch_release(&batch);
    state[3] ^= 1;
    FAILS(annb_loader_restore(other, state, size, &err), ANNB_ECORRUPT);
    if (t + 1 < (ROWS + M - 1) / M) { /* it goes on where it was */
      OK(annb_loader_next(other, &batch, &err));
      check_batch(s, &o, &batch, 5, t + 1);
      annb_batch_release(&batch);
    }
  }
  annb_loader_close(loader);
  annb_loader_close(other);
  drop(s);
}
END_TEST

/* ---- genes ---- */

START_TEST(vocabulary) {
  made *s = make("s", 4, first_names);
  enum { N = 40 };
  uint32_t genes[N];
  for (uint32_t j = 0; j < N; j++) genes[j] = j % 9 == 5 ? ANNB_NONE : (j * 77 + 11) % COLS;
  for (int form = 0; form < 3; form++) { /* as stored, sorted, dense */
    annb_loader_matrix m = {.name = "X", .dense = form == 2, .fetch = {.sort_indices = form == 1}, .genes = genes, .n_genes = N};
    annb_loader_options o = options();
    annb_batch batch;
    o.matrices = &m;
    o.n_matrices = 1;
    o.access = form == 1 ? ANNB_ACCESS_PREAD : ANNB_ACCESS_MMAP;
    annb_loader *loader = open_loader(s->store, &o);
    for (uint64_t t = 0; t < annb_loader_len(loader); t++) {
      OK(annb_loader_next(loader, &batch, &err));
      const annb_batch_matrix *x = &batch.matrices[0];
      ck_assert_uint_eq(x->n_cols, N);
      for (uint64_t i = 0; i < batch.n_rows; i++) {
        float want[N] = {0}, got[N] = {0};
        uint64_t row = batch.rows[i];
        for (uint32_t j = 0; j < N; j++)
          for (uint64_t k = s->x.indptr[row]; genes[j] != ANNB_NONE && k < s->x.indptr[row + 1]; k++)
            if (s->x.indices[k] == genes[j]) want[j] = ((float *)(void *)s->x.values)[k];
        if (form == 2) memcpy(got, (const float *)x->values + i * N, sizeof got);
        for (int64_t k = form == 2 ? 0 : x->indptr[i]; form < 2 && k < x->indptr[i + 1]; k++) {
          int32_t j = ((const int32_t *)x->indices)[k];
          ck_assert(j >= 0 && j < N);
          ck_assert(form == 0 || k == x->indptr[i] || ((const int32_t *)x->indices)[k - 1] < j);
          got[j] = ((const float *)x->values)[k];
        }
        ck_assert_mem_eq(want, got, sizeof want);
      }
      annb_batch_release(&batch);
    }
    annb_loader_close(loader);
  }
  drop(s);
}
END_TEST

START_TEST(wide_indices) {
  made *s = make("s", 5, first_names);
  annb_loader_matrix m = {.name = "layers/y", .fetch = {.index64 = true, .dtype = ANNB_F64}};
  annb_loader_options o = options();
  annb_batch batch;
  o.matrices = &m;
  o.n_matrices = 1;
  annb_loader *loader = open_loader(s->store, &o);
  OK(annb_loader_next(loader, &batch, &err));
  for (uint64_t i = 0; i < batch.n_rows; i++) {
    uint64_t row = batch.rows[i], n = s->y.indptr[row + 1] - s->y.indptr[row];
    ck_assert_uint_eq((uint64_t)(batch.matrices[0].indptr[i + 1] - batch.matrices[0].indptr[i]), n);
    for (uint64_t k = 0; k < n; k++) {
      uint64_t at = (uint64_t)batch.matrices[0].indptr[i] + k;
      ck_assert_int_eq(((const int64_t *)batch.matrices[0].indices)[at], s->y.indices[s->y.indptr[row] + k]);
      ck_assert(((const double *)batch.matrices[0].values)[at] == maker_number(s->y.values, ANNB_U16, s->y.indptr[row] + k));
    }
  }
  annb_batch_release(&batch);
  annb_loader_close(loader);
  drop(s);
}
END_TEST

/* ---- several stores ---- */

START_TEST(several_stores) {
  made *a = make("a", 6, first_names), *b = make("b", 8, other_names);
  const annb_store *stores[] = {a->store, b->store};
  annb_loader_options o = options();
  annb_loader *loader;
  annb_batch batch;
  uint64_t n, length, seen = 0;
  const char *name;
  OK(annb_loader_open(stores, 2, &o, &loader, &err));
  OK(annb_loader_label(loader, 0, &n, &err));
  ck_assert_uint_eq(n, 4); /* a b c d */
  OK(annb_loader_category(loader, 0, 3, &name, &length, &err));
  ck_assert(length == 1 && *name == 'd');
  for (uint64_t t = 0; t < annb_loader_len(loader); t++) {
    OK(annb_loader_next(loader, &batch, &err));
    for (uint64_t i = 0; i < batch.n_rows; i++, seen++) {
      const made *s = batch.rows[i] < ROWS ? a : b;
      uint64_t row = batch.rows[i] % ROWS, at = s->x.indptr[row];
      const annb_batch_matrix *x = &batch.matrices[0];
      ck_assert_uint_eq((uint64_t)(x->indptr[i + 1] - x->indptr[i]), s->x.indptr[row + 1] - at);
      ck_assert_mem_eq((const int32_t *)x->indices + x->indptr[i], s->x.indices + at, (size_t)(x->indptr[i + 1] - x->indptr[i]) * 4);
      if (row % 7 == 6) {
        ck_assert_int_eq(batch.labels[0][i], -1);
        continue;
      }
      OK(annb_loader_category(loader, 0, (uint64_t)batch.labels[0][i], &name, &length, &err));
      ck_assert_int_eq(*name, *(s == a ? first_names : other_names)[row % 3]);
    }
    annb_batch_release(&batch);
  }
  ck_assert_uint_eq(seen, 2 * ROWS);
  annb_loader_close(loader);
  drop(a);
  drop(b);
}
END_TEST

/* ---- processes, threads, descriptors ---- */

static int count_entries(const char *path) {
  int n = 0;
  DIR *d = opendir(path);
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

/* Closed at any moment: no thread and no descriptor stays. */
START_TEST(closed_any_time) {
  made *s = make("s", 9, first_names);
  int threads = 0, files = 0;
  for (int i = 0; i < 60; i++) {
    if (i == 4) { /* a sanitizer has a thread of its own once there were threads */
      nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
      threads = count_entries("/proc/self/task");
      files = count_entries("/proc/self/fd");
    }
    annb_loader_options o = options();
    annb_batch batch;
    o.access = i % 2 ? ANNB_ACCESS_PREAD : ANNB_ACCESS_MMAP;
    o.n_threads = 2;
    annb_loader *loader = open_loader(s->store, &o);
    for (int k = 0; k < i % 11; k++) {
      OK(annb_loader_next(loader, &batch, &err));
      annb_batch_release(&batch);
    }
    if (i % 5 == 0) nanosleep(&(struct timespec){.tv_nsec = i * 20000}, NULL);
    if (i % 3 == 0) OK(annb_loader_set_epoch(loader, 2, &err));
    annb_loader_close(loader);
  }
  for (int i = 0; i < 1000 && count_entries("/proc/self/task") > threads; i++) /* the kernel takes a moment after the join */
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  ck_assert_int_eq(count_entries("/proc/self/task"), threads);
  ck_assert_int_eq(count_entries("/proc/self/fd"), files);
  drop(s);
}
END_TEST

/* A child goes on where its parent was; both end well. */
START_TEST(forked) {
  made *s = make("s", 10, first_names);
  for (int begun = 0; begun < 4; begun++) {
    annb_loader_options o = options();
    annb_batch batch, kept = {0};
    o.access = begun % 2 ? ANNB_ACCESS_PREAD : ANNB_ACCESS_MMAP;
    o.n_threads = 2;
    annb_loader *loader = open_loader(s->store, &o);
    for (int k = 0; k < begun * 9; k++) {
      annb_batch_release(&kept);
      OK(annb_loader_next(loader, &kept, &err));
    }
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) alarm(20);
    if (kept.n_rows) check_batch(s, &o, &kept, 0, (uint64_t)begun * 9 - 1);
    annb_batch_release(&kept);
    for (uint64_t t = (uint64_t)begun * 9; t < annb_loader_len(loader); t++) {
      OK(annb_loader_next(loader, &batch, &err));
      check_batch(s, &o, &batch, 0, t);
      annb_batch_release(&batch);
    }
    annb_loader_close(loader);
    if (child == 0) _exit(0);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  drop(s);
}
END_TEST

static void *release(void *user) {
  annb_batch_release(user);
  return NULL;
}

START_TEST(released_elsewhere) {
  made *s = make("s", 11, first_names);
  annb_loader_options o = options();
  annb_loader *loader = open_loader(s->store, &o);
  annb_batch batches[20];
  pthread_t threads[20];
  for (int i = 0; i < 20; i++) {
    OK(annb_loader_next(loader, &batches[i], &err));
    ck_assert_int_eq(pthread_create(&threads[i], NULL, release, &batches[i]), 0);
  }
  for (int i = 0; i < 20; i++) pthread_join(threads[i], NULL);
  annb_loader_close(loader);
  drop(s);
}
END_TEST

START_TEST(polled) {
  made *s = make("s", 12, first_names);
  annb_loader_options o = options();
  annb_loader *loader = open_loader(s->store, &o);
  annb_batch batch;
  bool ready = false;
  for (uint64_t t = 0; t < annb_loader_len(loader); t++) {
    while (!ready) OK(annb_loader_poll(loader, 1000, &ready, &err));
    OK(annb_loader_next(loader, &batch, &err));
    annb_batch_release(&batch);
    ready = false;
  }
  OK(annb_loader_poll(loader, 0, &ready, &err));
  ck_assert(ready);
  annb_loader_close(loader);
  drop(s);
}
END_TEST

/* ---- damage ---- */

/* A record that is damaged in the middle of an epoch: all batches before it come, then the error, and again. */
START_TEST(damaged) {
  made *s = make("s", 13, first_names);
  annb_store_close(s->store);
  char *segment = maker_object(s->path, ".anns", (size_t)_i / 2 % 2);
  size_t size;
  uint8_t *bytes = maker_read_file(segment, &size);
  maker_writable(segment);
  /* a byte of a record, or of an index page: the pages are the multiples of 4096 before the end */
  size_t at = _i / 4 ? size / 4096 * 4096 - 4096 + 60 : 4096 + 5;
  bytes[at] ^= 0x40;
  maker_write_at(segment, at, bytes + at, 1);
  OK(annb_store_open(s->path, NULL, &s->store, &err));
  annb_loader_options o = options();
  annb_batch batch;
  o.access = _i % 2 ? ANNB_ACCESS_PREAD : ANNB_ACCESS_MMAP;
  o.n_threads = 2;
  annb_loader *loader = open_loader(s->store, &o);
  annb_context *context;
  OK(annb_context_open(&context, &err));
  uint64_t t = 0;
  annb_status status = ANNB_OK;
  for (; !status && t < annb_loader_len(loader); t++) {
    status = annb_loader_next(loader, &batch, &err);
    if (status) break;
    check_batch(s, &o, &batch, 0, t);
    annb_batch_release(&batch);
  }
  ck_assert_int_eq(status, ANNB_ECORRUPT);
  ck_assert_msg(strstr(err.message, "store row") != NULL, "%s", err.message);
  uint8_t state[512];
  size_t state_size = sizeof state;
  OK(annb_loader_state(loader, state, &state_size, &err)); /* before the batch that failed */
  for (int i = 0; i < 3; i++) FAILS(annb_loader_next(loader, &batch, &err), ANNB_ECORRUPT);
  /* the batch really has a bad row */
  annb_sampler_source source = {.n_rows = ROWS};
  annb_sampler *sampler;
  annb_picker *picker;
  uint64_t rows[M];
  uint32_t n, bad = 0;
  OK(annb_sampler_open(&source, 1, &o.sampler, &sampler, &err));
  OK(annb_picker_open(sampler, &picker, &err));
  OK(annb_picker_batch(picker, 0, t, rows, &n, &err));
  for (uint32_t i = 0; i < 2 * n; i++) {
    int64_t indptr[2];
    static int32_t indices[4096];
    static uint8_t values[32768];
    bad += annb_fetch_csr(s->store, context, i / n, &rows[i % n], 1, NULL, indptr, indices, values, 4096, &err) == ANNB_ECORRUPT;
  }
  ck_assert_uint_gt(bad, 0);
  annb_picker_close(picker);
  annb_sampler_close(sampler);
  annb_context_close(context);
  annb_loader_close(loader);
  free(bytes);
  free(segment);
  drop(s);
}
END_TEST

/* A file that is cut while it is read: PREAD says so at a batch. */
START_TEST(cut_file) {
  made *s = make("s", 14, first_names);
  annb_loader_options o = options();
  annb_batch batch;
  o.access = ANNB_ACCESS_PREAD;
  annb_loader *loader = open_loader(s->store, &o);
  OK(annb_loader_next(loader, &batch, &err)); /* segments are open */
  annb_batch_release(&batch);
  OK(annb_loader_set_epoch(loader, 1, &err));
  uint64_t n = 0;
  annb_status status;
  char *segment = maker_object(s->path, ".anns", 1);
  maker_writable(segment);
  ck_assert_int_eq(truncate(segment, 4096), 0);
  do {
    status = annb_loader_next(loader, &batch, &err);
    n += batch.n_rows;
    if (!status && !batch.n_rows) break;
    annb_batch_release(&batch);
  } while (!status);
  ck_assert_int_eq(status, ANNB_EIO);
  ck_assert_msg(strstr(err.message, "ends too early") != NULL, "%s", err.message);
  ck_assert_uint_lt(n, ROWS);
  annb_loader_close(loader);
  free(segment);
  drop(s);
}
END_TEST

static annb_status failing(void *user, uint64_t epoch, uint64_t batch, uint64_t *rows, uint32_t room, uint32_t *n, annb_error *error) {
  (void)user;
  (void)epoch;
  (void)room;
  if (batch == 11) {
    *error = (annb_error){.status = ANNB_ECANCELED, .row = ANNB_NO_ROW, .message = "no more"};
    return ANNB_ECANCELED;
  }
  rows[0] = batch * 3;
  rows[1] = rows[0];
  *n = 2;
  return ANNB_OK;
}

START_TEST(own_order) {
  made *s = make("s", 15, first_names);
  for (int access = ANNB_ACCESS_MMAP; access <= ANNB_ACCESS_PREAD; access++) {
    annb_loader_options o = options();
    annb_batch batch;
    o.access = (annb_access)access;
    o.sampler = (annb_sampler_options){.strategy = ANNB_SAMPLE_OWN, .batch_size = 4, .fetch_factor = 5};
    o.sampler.own = (annb_own_order){.n_batches = 40, .batch = failing};
    annb_loader *loader = open_loader(s->store, &o);
    for (uint64_t t = 0; t < 11; t++) {
      OK(annb_loader_next(loader, &batch, &err));
      check_batch(s, &o, &batch, 0, t);
      annb_batch_release(&batch);
    }
    FAILS(annb_loader_next(loader, &batch, &err), ANNB_ECANCELED);
    ck_assert_str_eq(err.message, "no more");
    annb_loader_close(loader);
  }
  drop(s);
}
END_TEST

/* ---- memory ---- */

static uint64_t anonymous_kib(void) {
  char line[256];
  unsigned long kib = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "RssAnon: %lu", &kib) == 1) break;
  if (f) fclose(f);
  return kib;
}

/* Small fetches of a store with many rows: memory is that of fetches, not of rows. */
START_TEST(memory) {
  enum { MANY = 150000, MOST_KIB = 24 << 10 };
  char path[512];
  snprintf(path, sizeof path, "%s/many", dir);
  maker_csr x = maker_random(1, MANY, 100, 4, ANNB_F32, MAKER_SORTED);
  maker_simple(path, ANNB_TXN_CREATE, &x, 40000, 1024);
  maker_free(&x);
  annb_store *store;
  annb_loader_matrix m = {.name = "X"};
  annb_loader_options o = {.sampler = {.batch_size = 64, .fetch_factor = 16}, .matrices = &m, .n_matrices = 1, .n_threads = 2};
  OK(annb_store_open(path, NULL, &store, &err));
  for (int access = ANNB_ACCESS_MMAP; access <= ANNB_ACCESS_PREAD; access++) {
    uint64_t before = anonymous_kib(), most = 0, cells = 0;
    annb_batch batch;
    o.access = (annb_access)access;
    annb_loader *loader = open_loader(store, &o);
    do {
      OK(annb_loader_next(loader, &batch, &err));
      cells += batch.n_rows;
      if (batch.batch % 97 == 3 && anonymous_kib() > most) most = anonymous_kib();
      annb_batch_release(&batch);
    } while (cells < MANY);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    ck_assert_msg(most < before + MOST_KIB, "%llu KiB more", (unsigned long long)(most - before));
#else
    (void)before;
#endif
    annb_loader_close(loader);
  }
  annb_store_close(store);
}
END_TEST

/* More files in one fetch than are kept open: the same batches as by mmap. */
START_TEST(many_files) {
  char path[512];
  annb_store *store;
  annb_loader *loaders[2];
  snprintf(path, sizeof path, "%s/files", dir);
  maker_csr x = maker_random(5, ROWS, COLS, 20, ANNB_F32, MAKER_SORTED);
  maker_simple(path, ANNB_TXN_CREATE, &x, 4, 4);
  maker_free(&x);
  OK(annb_store_open(path, NULL, &store, &err));
  for (uint32_t f = 1; f <= 64; f *= 8) {
    annb_loader_matrix m = {.name = "X"};
    annb_loader_options o = {.sampler = {.seed = 9, .block_size = 1, .batch_size = 16, .fetch_factor = f}, .matrices = &m, .n_matrices = 1};
    for (int i = 0; i < 2; i++) {
      o.access = i ? ANNB_ACCESS_PREAD : ANNB_ACCESS_MMAP;
      loaders[i] = open_loader(store, &o);
    }
    for (uint64_t n = 0; n < ROWS;) {
      annb_batch a, b;
      OK(annb_loader_next(loaders[0], &a, &err));
      OK(annb_loader_next(loaders[1], &b, &err));
      ck_assert_uint_eq(a.matrices[0].nnz, b.matrices[0].nnz);
      ck_assert_mem_eq(a.rows, b.rows, a.n_rows * 8);
      ck_assert_mem_eq(a.matrices[0].indptr, b.matrices[0].indptr, (a.n_rows + 1) * 8);
      ck_assert_mem_eq(a.matrices[0].indices, b.matrices[0].indices, a.matrices[0].nnz * 4);
      ck_assert_mem_eq(a.matrices[0].values, b.matrices[0].values, a.matrices[0].nnz * 4);
      n += a.n_rows;
      annb_batch_release(&a);
      annb_batch_release(&b);
    }
    annb_loader_close(loaders[0]);
    annb_loader_close(loaders[1]);
  }
  annb_store_close(store);
}
END_TEST

/* ---- what is refused ---- */

static void refuse(const made *s, annb_loader_options o, annb_status status, const char *why) {
  const annb_store *stores[] = {s->store};
  annb_loader *loader;
  FAILS(annb_loader_open(stores, 1, &o, &loader, &err), status);
  ck_assert_msg(strstr(err.message, why) != NULL, "%s", err.message);
}

START_TEST(refused) {
  made *s = make("s", 16, first_names);
  const uint32_t twice[] = {3, 4, 3}, past[] = {COLS};
  const char *const none[] = {"none"};
  annb_loader_matrix m = {.name = "Z"};
  annb_loader_options o = options();
  o.matrices = &m;
  o.n_matrices = 1;
  refuse(s, o, ANNB_ENOTFOUND, "no matrix 'Z'");
  m = (annb_loader_matrix){.name = "X", .genes = twice, .n_genes = 3};
  refuse(s, o, ANNB_EINVAL, "column 3 is asked for twice");
  m = (annb_loader_matrix){.name = "X", .genes = past, .n_genes = 1};
  refuse(s, o, ANNB_ERANGE, "column 300");
  o = options();
  o.labels = none;
  refuse(s, o, ANNB_ENOTFOUND, "none");
  o = options();
  o.n_threads = 1000;
  refuse(s, o, ANNB_EINVAL, "over the limit");
  o = options();
  o.sampler.num_samples = 10000;
  refuse(s, o, ANNB_EINVAL, "num_samples");
  drop(s);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("loader");
  TCase *tc = tcase_create("loader");
  tcase_set_timeout(tc, 120);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, whole_epochs);
  tcase_add_test(tc, held);
  tcase_add_test(tc, reused);
  tcase_add_test(tc, resume);
  tcase_add_test(tc, vocabulary);
  tcase_add_test(tc, wide_indices);
  tcase_add_test(tc, several_stores);
  tcase_add_test(tc, closed_any_time);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) /* TSan follows no threads after fork, ASan locks no allocator for it */
  tcase_add_test(tc, forked);
#else
  (void)forked;
#endif
  tcase_add_test(tc, released_elsewhere);
  tcase_add_test(tc, polled);
  tcase_add_loop_test(tc, damaged, 0, 8);
  tcase_add_test(tc, cut_file);
  tcase_add_test(tc, own_order);
  tcase_add_test(tc, many_files);
  tcase_add_test(tc, memory);
  tcase_add_test(tc, refused);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
