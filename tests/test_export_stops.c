/* Exports that are cancelled, or find the disk full, at every stage: nothing is left behind, and the store is as it was. */
#include "../convert/source/h5.h"
#include "h5_make.h"
#include "store_maker.h"
#include "suite.h"
#include "temp.h"

#include <annblock/convert.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

enum { N_ROWS = 12000, N_COLS = 3000, PER_ROW = 100 }; /* units of several threads: more than one */

static char *dir, *out_dir;
static char source[600], output[600];
static annb_h5_quiet quiet;
static annb_error err;

static void setup(void) {
  dir = temp_make();
  out_dir = temp_make();
  snprintf(source, sizeof source, "%s/source.h5ad", dir);
  snprintf(output, sizeof output, "%s/output.h5ad", out_dir);
  quiet = annb_h5_quiet_begin();
  signal(SIGXFSZ, SIG_IGN);
  memset(&err, 0, sizeof err);
}

static void teardown(void) {
  annb_h5_quiet_end(quiet);
  temp_remove(dir);
  temp_remove(out_dir);
  free(dir);
  free(out_dir);
}

/* ---- what is exported ---- */

typedef struct export_case {
  const char *encoding;
  bool parts, rows, genes;
  annb_compression compression;
} export_case;

static const export_case cases[] = {
    {"csr_matrix", false, false, false, ANNB_COMPRESSION_SOURCE}, /* by several threads, straight to the file */
    {"csr_matrix", false, false, false, ANNB_COMPRESSION_GZIP},   /* by several threads, chunks */
    {"csr_matrix", false, true, false, ANNB_COMPRESSION_SOURCE},
    {"csr_matrix", false, true, false, ANNB_COMPRESSION_GZIP},
    {"csr_matrix", false, true, true, ANNB_COMPRESSION_SOURCE},
    {"csr_matrix", false, true, true, ANNB_COMPRESSION_GZIP},
    {"csc_matrix", false, true, true, ANNB_COMPRESSION_SOURCE},
    {"csr_matrix", true, false, false, ANNB_COMPRESSION_SOURCE},
    {"csr_matrix", true, true, true, ANNB_COMPRESSION_SOURCE},
    {"csr_matrix", true, true, true, ANNB_COMPRESSION_GZIP},
};
#define N_CASES ((int)(sizeof cases / sizeof *cases))

static void make_source(const char *encoding) {
  const bool csr = !strcmp(encoding, "csr_matrix");
  const uint64_t n = csr ? N_ROWS : N_COLS, limit = csr ? N_COLS : N_ROWS, per = (uint64_t)N_ROWS * PER_ROW / n, nnz = n * per;
  int64_t *indptr = malloc((n + 1) * sizeof *indptr);
  int32_t *indices = malloc(nnz * sizeof *indices);
  float *values = malloc(nnz * sizeof *values);
  uint64_t state = 7;
  for (uint64_t i = 0; i <= n; i++) indptr[i] = (int64_t)(i * per);
  for (uint64_t i = 0; i < nnz; i++) {
    indices[i] = (int32_t)(i % per * (limit / per) + maker_next(&state) % (limit / per));
    values[i] = (float)(maker_next(&state) % 5 + 1);
  }
  h5_make_h5ad(source, encoding, N_ROWS, N_COLS, indptr, indices, values, nnz);
  free(indptr);
  free(indices);
  free(values);
}

typedef struct asking {
  char store[700], genes[700];
  annb_row_range ranges[2];
  annb_export_options options;
} asking;

static void make(const export_case *c, asking *a) {
  const char *const inputs[2] = {source, source};
  const annb_pack_options pack = {.n_threads = 2};
  *a = (asking){.ranges = {{5000, 11990}, {10, 4000}}, .options = {.n_threads = 2, .compression = c->compression, .in_process = true}};
  snprintf(a->store, sizeof a->store, "%s/store", dir);
  snprintf(a->genes, sizeof a->genes, "%s/genes", dir);
  make_source(c->encoding);
  OK(annb_pack_many(inputs, c->parts ? 2 : 1, a->store, &pack, NULL, &err));
  FILE *f = fopen(a->genes, "w");
  ck_assert_ptr_nonnull(f);
  for (int gene = N_COLS - 1; gene >= 0; gene -= 2) fprintf(f, "%d\n", gene);
  fclose(f);
  if (c->rows) {
    a->options.subset.ranges = a->ranges;
    a->options.subset.n_ranges = 2;
  }
  if (c->genes) a->options.subset.genes_file = a->genes;
  if (c->parts) a->options.memory = UINT64_C(32) << 20; /* so that there are several batches */
}

static void nothing_is_left(void) {
  ck_assert_uint_eq(temp_count(out_dir), 0);
  ck_assert_uint_eq(temp_count(dir), 3);
  ck_assert_int_eq(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
}

/* ---- cancelling ---- */

static bool count_down(void *user, const char *stage, uint64_t done, uint64_t total) {
  int *left = user;
  ck_assert_ptr_nonnull(stage);
  ck_assert(!total || done <= total);
  return --*left >= 0;
}

/* Also long after the start, where threads are at work. */
START_TEST(test_cancel) {
  asking a;
  make(&cases[_i], &a);
  int all = 1 << 20, left = all;
  a.options.progress = count_down;
  a.options.user = &left;
  OK(annb_export(a.store, output, &a.options, &err));
  all -= left; /* calls */
  temp_remove(output);
  ck_assert_int_ge(all, 3);
  const int step = all > 40 ? all / 40 : 1;
  for (int calls = 0; calls < all; calls += step) {
    left = calls;
    /* threads that are ahead of the reports make fewer of them: it is cancelled just when it was told so */
    annb_status s = annb_export(a.store, output, &a.options, &err);
    ck_assert_int_eq(s, left < 0 ? ANNB_ECANCELED : ANNB_OK);
    ck_assert(s || calls > 1);
    if (!s) temp_remove(output);
    nothing_is_left();
  }
  left = 1 << 20;
  OK(annb_export(a.store, output, &a.options, &err));
}
END_TEST

/* ---- a full disk ---- */

static void limit_files(const struct rlimit *was, uint64_t bytes) {
  const struct rlimit limit = {bytes < was->rlim_cur ? (rlim_t)bytes : was->rlim_cur, was->rlim_max};
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

START_TEST(test_full_disk) {
  asking a;
  struct rlimit was;
  struct stat st;
  make(&cases[_i], &a);
  OK(annb_export(a.store, output, &a.options, &err));
  ck_assert_int_eq(stat(output, &st), 0);
  size_t n, again;
  uint8_t *whole = temp_read(output, &n);
  temp_remove(output);
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
  for (uint64_t part = 0; part < 12; part++) {
    limit_files(&was, (uint64_t)st.st_size * part / 12 + (part ? 0 : 100));
    annb_status s = annb_export(a.store, output, &a.options, &err);
    limit_files(&was, UINT64_MAX);
    ck_assert_int_eq(s, ANNB_EIO);
    ck_assert_msg(err.system_errno == EFBIG, "%s", err.message);
    ck_assert_msg(!strncmp(err.message, out_dir, strlen(out_dir)) && !strstr(err.message, "-export-"), "%s", err.message);
    nothing_is_left();
  }
  OK(annb_export(a.store, output, &a.options, &err));
  uint8_t *second = temp_read(output, &again);
  ck_assert(n == again && !memcmp(whole, second, n));
  free(whole);
  free(second);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("export stops");
  TCase *stops = tcase_create("stops");
  tcase_add_checked_fixture(stops, setup, teardown);
  tcase_set_timeout(stops, 120);
  tcase_add_loop_test(stops, test_cancel, 0, N_CASES);
  tcase_add_loop_test(stops, test_full_disk, 0, N_CASES);
  suite_add_tcase(suite, stops);
  return suite_run(suite);
}
