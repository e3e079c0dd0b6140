/* Packing and exporting gives the source back, in little memory too; what fails leaves nothing behind. */
#include "../convert/source/h5.h"
#include "h5_make.h"
#include "store_maker.h"
#include "suite.h"
#include "temp.h"

#include <annblock/convert.h>

#define LITTLE (UINT64_C(32) << 20)

static char *dir;
static char source[600], store[600], output[600];
static annb_h5_quiet quiet;
static annb_error err;

static void setup(void) {
  dir = temp_make();
  snprintf(source, sizeof source, "%s/source.h5ad", dir);
  snprintf(store, sizeof store, "%s/store.annblock", dir);
  snprintf(output, sizeof output, "%s/output.h5ad", dir);
  quiet = annb_h5_quiet_begin();
  memset(&err, 0, sizeof err);
}

static void teardown(void) {
  annb_h5_quiet_end(quiet);
  temp_remove(dir);
  free(dir);
}

static bool show(void *user, const char *path, const char *what) {
  (void)user;
  fprintf(stderr, "%s: %s\n", path, what);
  return true;
}

static void same(const char *a, const char *b) {
  uint64_t different = 99;
  OK(annb_compare(a, b, show, NULL, &different, &err));
  ck_assert_uint_eq(different, 0);
}

static void round_trip(void) {
  const annb_pack_options pack = {.n_threads = 2, .memory = 4 * LITTLE};
  const annb_export_options options = {.memory = LITTLE};
  OK(annb_pack(source, store, &pack, NULL, &err));
  OK(annb_export(store, output, &options, &err));
  ck_assert_int_eq(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
  same(source, output);
  ck_assert_uint_eq(temp_count(dir), 3); /* no temporary file is left */
}

/* ---- sources ---- */

static const hid_t *index_types(void) {
  static hid_t types[3];
  types[0] = H5T_STD_I32LE;
  types[1] = H5T_STD_I64BE;
  types[2] = H5T_STD_U16LE;
  return types;
}

enum { SORTED, UNSORTED, REPEATS };

typedef struct sparse {
  const char *encoding;
  uint64_t n_rows, n_cols, per_row;
  int order;
  int index; /* of index_types */
  hsize_t chunk;
  uint64_t tail;
} sparse;

/* Fill `n` minor indices of one row or column, below `limit`. */
static void draw(uint64_t *state, int32_t *out, uint64_t n, uint64_t limit, int order) {
  uint64_t at = maker_next(state) % limit, step = limit / (n + 1);
  for (uint64_t i = 0; i < n; i++) out[i] = (int32_t)((step ? at % step : 0) + i * (step ? step : 1));
  if (order == REPEATS && n > 2) out[n - 1] = out[n - 2], out[1] = out[0];
  for (uint64_t i = n; order == UNSORTED && i > 1; i--) {
    uint64_t j = maker_next(state) % i;
    int32_t swap = out[i - 1];
    out[i - 1] = out[j];
    out[j] = swap;
  }
}

static void replace(hid_t group, const char *name, hid_t type, uint64_t n, hid_t memory, const void *data, hsize_t chunk) {
  const hsize_t dims[1] = {n}, chunks[1] = {chunk < n ? chunk : n};
  h5_make_array(group, name, type, 1, dims, memory, data, chunk && n ? chunks : NULL, 4);
}

static void make_sparse(const sparse *x) {
  bool csr = !strcmp(x->encoding, "csr_matrix");
  uint64_t major = csr ? x->n_rows : x->n_cols, minor = csr ? x->n_cols : x->n_rows, n = 0, state = 5;
  int64_t *indptr = calloc(major + 1, sizeof *indptr);
  for (uint64_t i = 0; i < major; i++) {
    uint64_t k = minor ? maker_next(&state) % (2 * x->per_row + 1) : 0;
    indptr[i + 1] = indptr[i] + (int64_t)(k > minor ? minor : k);
  }
  n = (uint64_t)indptr[major];
  uint64_t all = n + x->tail;
  int32_t *indices = calloc(all + 1, sizeof *indices);
  float *values = calloc(all + 1, sizeof *values);
  for (uint64_t i = 0; i < major; i++)
    draw(&state, indices + indptr[i], (uint64_t)(indptr[i + 1] - indptr[i]), minor ? minor : 1, x->order);
  for (uint64_t i = 0; i < all; i++) values[i] = (float)(i % 9) - 1; /* explicit zeros too */
  for (uint64_t i = n; i < all; i++) indices[i] = (int32_t)(i % 1000);
  hid_t file = h5_make_file(source), group;
  const uint64_t shape[2] = {x->n_rows, x->n_cols};
  H5Gclose(h5_make_frame(file, "obs", x->n_rows, 0, NULL));
  H5Gclose(h5_make_frame(file, "var", x->n_cols, 0, NULL));
  group = h5_make_group(file, "X");
  h5_make_text(group, "encoding-type", x->encoding);
  h5_make_numbers(group, "shape", 2, shape);
  hid_t type = index_types()[x->index];
  replace(group, "data", H5T_IEEE_F32LE, all, H5T_NATIVE_FLOAT, values, x->chunk);
  replace(group, "indices", type, all, H5T_NATIVE_INT32, indices, x->chunk);
  replace(group, "indptr", x->index == 2 ? H5T_STD_I64LE : type, major + 1, H5T_NATIVE_INT64, indptr, x->chunk);
  H5Gclose(group);
  H5Fclose(file);
  free(indptr);
  free(indices);
  free(values);
}

static const sparse sparse_cases[] = {
    {"csr_matrix", 300, 200, 20, SORTED, 0, 0, 0},        {"csr_matrix", 300, 200, 20, UNSORTED, 1, 100, 0},
    {"csr_matrix", 300, 200, 20, REPEATS, 2, 2000, 33},   {"csr_matrix", 0, 200, 20, SORTED, 0, 0, 0},
    {"csr_matrix", 300, 0, 20, SORTED, 0, 0, 5},          {"csr_matrix", 70000, 50, 3, SORTED, 0, 5000, 0},
    {"csc_matrix", 300, 200, 20, SORTED, 0, 0, 0},        {"csc_matrix", 300, 200, 20, UNSORTED, 1, 100, 0},
    {"csc_matrix", 300, 200, 20, REPEATS, 2, 64, 33},     {"csc_matrix", 0, 200, 20, SORTED, 0, 0, 0},
    {"csc_matrix", 300, 0, 20, SORTED, 0, 0, 5},          {"csc_matrix", 50, 70000, 3, UNSORTED, 0, 5000, 0},
    {"csc_matrix", 40000, 200, 15000, UNSORTED, 0, 0, 0}, /* more than fits the memory at once */
};

START_TEST(test_sparse) {
  if (sparse_cases[_i].per_row > 1000 && !getenv("ANNB_TEST_LONG")) return;
  make_sparse(&sparse_cases[_i]);
  round_trip();
}
END_TEST

static void make_dense(uint64_t n_rows, uint64_t n_cols, hid_t type, hid_t memory, const void *cells, const hsize_t *chunk) {
  hid_t file = h5_make_file(source);
  const hsize_t dims[2] = {n_rows, n_cols};
  H5Gclose(h5_make_frame(file, "obs", n_rows, 0, NULL));
  H5Gclose(h5_make_frame(file, "var", n_cols, 0, NULL));
  h5_make_array(file, "X", type, 2, dims, memory, cells, chunk, 1);
  H5Fclose(file);
}

/* Bits of every kind of value, also those that arithmetic would change. */
START_TEST(test_dense_types) {
  const hid_t types[] = {H5T_IEEE_F32LE, H5T_IEEE_F64BE, H5T_STD_I8LE, H5T_STD_U16BE, H5T_STD_I64LE, H5T_STD_U64BE, H5T_IEEE_F32BE};
  const size_t n = 7 * 11, size = H5Tget_size(types[_i]);
  uint8_t *bytes = calloc(n, size);
  uint64_t state = 3;
  for (size_t i = 0; i < n * size; i++) bytes[i] = maker_next(&state) % 3 ? 0 : (uint8_t)maker_next(&state);
  memset(bytes, 0xFF, size);                /* NaN with a payload, or −1 */
  bytes[size] = bytes[2 * size - 1] = 0x80; /* −0.0 and others */
  make_dense(7, 11, types[_i], types[_i], bytes, NULL);
  free(bytes);
  round_trip();
}
END_TEST

START_TEST(test_dense_half_and_bool) {
  hid_t half = H5Tcopy(H5T_IEEE_F32LE), boolean = H5Tenum_create(H5T_NATIVE_INT8);
  const int8_t zero = 0, one = 1;
  H5Tset_fields(half, 15, 10, 5, 0, 10);
  H5Tset_size(half, 2);
  H5Tset_ebias(half, 15);
  H5Tenum_insert(boolean, "FALSE", &zero);
  H5Tenum_insert(boolean, "TRUE", &one);
  const uint16_t halves[6] = {0x7e01, 0x8000, 0x0001, 0, 0x3c00, 0xfc00};
  if (_i) make_dense(2, 3, boolean, boolean, "\1\0\0\1\1\0", NULL);
  else make_dense(2, 3, half, half, halves, NULL);
  H5Tclose(half);
  H5Tclose(boolean);
  round_trip();
}
END_TEST

/* Chunks of all shapes; the last two are about as large as the memory allowed for a block. */
START_TEST(test_dense_chunks) {
  static const hsize_t chunks[][2] = {{1, 1500}, {2000, 4}, {70, 130}, {2000, 1500}, {1999, 700}};
  const size_t n_rows = 2000, n_cols = 1500;
  float *cells = calloc(n_rows * n_cols, sizeof *cells);
  for (size_t i = 0; i < n_rows * n_cols; i += 11) cells[i] = (float)i;
  make_dense(n_rows, n_cols, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, cells, chunks[_i]);
  free(cells);
  round_trip();
}
END_TEST

START_TEST(test_dense_empty) {
  static const uint64_t shapes[][2] = {{0, 0}, {0, 5}, {5, 0}, {1, 1}};
  make_dense(shapes[_i][0], shapes[_i][1], H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, NULL, NULL);
  round_trip();
}
END_TEST

/* A shared matrix is filled once and stays shared. */
START_TEST(test_links) {
  make_sparse(&sparse_cases[0]);
  hid_t file = H5Fopen(source, H5F_ACC_RDWR, H5P_DEFAULT);
  H5Gclose(h5_make_group(file, "layers"));
  H5Lcreate_hard(file, "X", file, "layers/same", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/X", file, "layers/soft", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external("source.h5ad", "/obs", file, "layers/external", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  round_trip();
}
END_TEST

/* ---- what must not be done ---- */

static void make_store(void) {
  make_sparse(&sparse_cases[1]);
  OK(annb_pack(source, store, NULL, NULL, &err));
}

static void fails(const char *to, const annb_export_options *options, annb_status status, const char *text) {
  FAILS(annb_export(store, to, options, &err), status);
  ck_assert_msg(strstr(err.message, text) != NULL, "\"%s\" is not in: %s", text, err.message);
  ck_assert_int_eq(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
}

START_TEST(test_exists) {
  make_store();
  temp_write(output, "mine", 4);
  fails(output, NULL, ANNB_EEXIST, "exists already");
  size_t n;
  uint8_t *data = temp_read(output, &n);
  ck_assert(n == 4 && !memcmp(data, "mine", 4));
  free(data);
  const annb_export_options force = {.force = true};
  OK(annb_export(store, output, &force, &err));
  same(source, output);
  OK(annb_export(store, source, &force, &err)); /* over the source itself */
  same(source, output);
  ck_assert_uint_eq(temp_count(dir), 3);
}
END_TEST

START_TEST(test_bad_output) {
  const annb_export_options force = {.force = true}, little = {.memory = 1000};
  char path[700];
  make_store();
  fails(dir, &force, ANNB_EEXIST, "is a directory");
  fails("/dev/null", &force, ANNB_EEXIST, "not a regular file");
  snprintf(path, sizeof path, "%s/no/such/place.h5ad", dir);
  fails(path, &force, ANNB_EIO, "is not a directory");
  snprintf(path, sizeof path, "%s/", dir);
  fails(path, &force, ANNB_EINVAL, "is not the name of a file");
  snprintf(path, sizeof path, "%s/new/", dir);
  fails(path, &force, ANNB_EINVAL, "is not the name of a file");
  fails("", &force, ANNB_EINVAL, "needs the path");
  fails(output, &little, ANNB_EINVAL, "32 MiB");
  snprintf(path, sizeof path, "%s/source.h5ad/x.h5ad", dir);
  fails(path, &force, ANNB_EIO, "is not a directory");
  ck_assert_uint_eq(temp_count(dir), 2);
}
END_TEST

START_TEST(test_inside_store) {
  const annb_export_options force = {.force = true};
  char path[1500];
  make_store();
  snprintf(path, sizeof path, "%s/new.h5ad", store);
  fails(path, &force, ANNB_EINVAL, "inside the store");
  char *sidecar = maker_object(store, ".h5ad", 0);
  fails(sidecar, &force, ANNB_EINVAL, "inside the store");
  free(sidecar);
  snprintf(path, sizeof path, "%s/link", dir);
  ck_assert_int_eq(symlink(store, path), 0);
  strcat(path, "/objects/new.h5ad");
  fails(path, &force, ANNB_EINVAL, "inside the store");
  OK(annb_export(store, output, NULL, &err));
}
END_TEST

/* One byte of any object is wrong: an error that names the file, and no output. */
START_TEST(test_damage) {
  static const char *const suffixes[] = {".h5ad", ".h5", ".anns"};
  make_store();
  char *path = maker_object(store, suffixes[_i], 0);
  size_t n;
  uint8_t *data = temp_read(path, &n);
  data[_i == 2 ? 4200 : n / 2] ^= 4;
  temp_remove(path);
  temp_write(path, data, n);
  free(data);
  FAILS(annb_export(store, output, NULL, &err), ANNB_ECORRUPT);
  ck_assert_msg(strstr(err.message, strrchr(path, '/') + 1) != NULL, "%s", err.message);
  ck_assert(!temp_exists(output));
  ck_assert_uint_eq(temp_count(dir), 2);
  free(path);
}
END_TEST

START_TEST(test_missing_object) {
  make_store();
  char *path = maker_object(store, ".h5", 0);
  temp_remove(path);
  ck_assert_int_ne(annb_export(store, output, NULL, &err), ANNB_OK);
  ck_assert_msg(strstr(err.message, strrchr(path, '/') + 1) != NULL, "%s", err.message);
  ck_assert(!temp_exists(output));
  free(path);
}
END_TEST

/* A store made from one file with the sidecar and restore file of another. */
START_TEST(test_foreign_restore) {
  static const char *const names[] = {".h5ad", ".h5"};
  char other[700];
  sparse narrow = sparse_cases[1];
  make_store();
  narrow.n_cols = 7;
  make_sparse(&narrow);
  snprintf(other, sizeof other, "%s/other.annblock", dir);
  OK(annb_pack(source, other, NULL, NULL, &err));
  for (int i = 0; i < 2; i++) {
    char *to = maker_object(store, names[i], 0), *from = maker_object(other, names[i], 0);
    size_t n;
    uint8_t *data = temp_read(from, &n);
    temp_remove(to);
    temp_write(to, data, n);
    free(data);
    free(to);
    free(from);
  }
  FAILS(annb_export(store, output, NULL, &err), ANNB_ECORRUPT);
  ck_assert(!temp_exists(output));
}
END_TEST

START_TEST(test_not_a_store) {
  memcpy(store, dir, strlen(dir) + 1);
  FAILS(annb_export(store, output, NULL, &err), ANNB_ENOTSTORE);
  snprintf(store, sizeof store, "%s/missing", dir);
  ck_assert_int_ne(annb_export(store, output, NULL, &err), ANNB_OK);
  ck_assert_uint_eq(temp_count(dir), 0);
}
END_TEST

START_TEST(test_parts) {
  maker_csr x = maker_random(1, 20, 10, 3, ANNB_F32, MAKER_SORTED);
  const maker_csr *parts[2] = {&x, &x};
  const uint64_t rows[2] = {20, 20};
  const maker_matrix matrix = {.name = "X", .axes = ANNB_OBS_VAR, .dtype = ANNB_F32, .n_cols = 10, .form = ANNB_CSR, .parts = parts};
  const maker_spec spec = {
      .path = store, .n_vars = 10, .n_parts = 2, .part_rows = rows, .matrices = &matrix, .n_matrices = 1, .sidecars = true};
  maker_store(&spec);
  const annb_export_options third = {.one_part = true, .part = 2};
  fails(output, &third, ANNB_ENOTFOUND, "no part 2");
  OK(annb_export(store, output, NULL, &err)); /* together, without columns, and without a look at the sidecars */
  char again[700];
  annb_pack_result result;
  snprintf(again, sizeof again, "%s/again", dir);
  OK(annb_pack(output, again, NULL, &result, &err));
  ck_assert(result.n_obs == 40 && result.n_vars == 10 && result.nnz == 2 * x.indptr[20] && result.n_parts == 1);
  maker_free(&x);
}
END_TEST

START_TEST(test_no_sidecar) {
  maker_csr x = maker_random(1, 20, 10, 3, ANNB_F32, MAKER_SORTED);
  maker_simple(store, ANNB_TXN_CREATE, &x, 0, 0);
  maker_free(&x);
  ck_assert_int_ne(annb_export(store, output, NULL, &err), ANNB_OK);
  ck_assert(!temp_exists(output));
}
END_TEST

START_TEST(test_generation) {
  make_store();
  char first[700];
  snprintf(first, sizeof first, "%s/first.h5ad", dir);
  ck_assert_int_eq(rename(source, first), 0);
  make_sparse(&sparse_cases[7]);
  const annb_pack_options again = {.force = true};
  OK(annb_pack(source, store, &again, NULL, &err));
  const annb_export_options one = {.generation = 1, .force = true}, three = {.generation = 3, .force = true};
  OK(annb_export(store, output, &one, &err));
  same(first, output);
  const annb_export_options newest = {.force = true};
  OK(annb_export(store, output, &newest, &err));
  same(source, output);
  fails(output, &three, ANNB_ENOTFOUND, "");
}
END_TEST

/* ---- cancelling: wherever it comes, nothing is left ---- */

static bool count_down(void *user, const char *stage, uint64_t done, uint64_t total) {
  int *left = user;
  ck_assert_ptr_nonnull(stage);
  ck_assert(!total || done <= total);
  return --*left >= 0;
}

START_TEST(test_cancel) {
  make_store();
  for (int calls = 0;; calls++) {
    int left = calls;
    const annb_export_options options = {.progress = count_down, .user = &left};
    annb_status s = annb_export(store, output, &options, &err);
    if (s == ANNB_OK) {
      ck_assert_int_ge(calls, 4);
      break;
    }
    ck_assert_int_eq(s, ANNB_ECANCELED);
    ck_assert_uint_eq(temp_count(dir), 2);
    ck_assert_int_eq(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
  }
}
END_TEST

/* ---- real files, when they are there ---- */

START_TEST(test_real) {
  static const char *const names[] = {"accept/gen_rich_anndata_0.5.10.h5ad",
                                      "accept/gen_rich_anndata_0.13.4.h5ad",
                                      "accept/curation_valid_0.7_raw.h5ad",
                                      "accept/duckdb_compound.h5ad",
                                      "accept/gen_track_order.h5ad",
                                      "accept/gen_hardlink_shared.h5ad",
                                      "accept/gen_softlink_x.h5ad",
                                      "accept/gen_externallink.h5ad",
                                      "accept/gen_csr_tail_padding.h5ad",
                                      "accept/gen_csr_indptr_f8.h5ad",
                                      "accept/gen_filter_lzf_shuffle_csr.h5ad",
                                      "accept/gen_string_null_pointer.h5ad",
                                      "accept/pertpy_sc_sim_csc_unsorted.h5ad",
                                      "either/gen_cycle_hardlink.h5ad",
                                      "either/gen_deep_nesting.h5ad",
                                      "either/gen_extra_toplevel.h5ad",
                                      "either/gen_committed_datatype.h5ad",
                                      "either/gen_softlink_dangling.h5ad"};
  const char *base = getenv("H5AD_DIR");
  if (!base || !*base) return;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", base, names[i]);
    if (!temp_exists(path)) continue;
    fprintf(stderr, "%s\n", names[i]);
    temp_remove(store);
    temp_remove(output);
    OK(annb_pack(path, store, NULL, NULL, &err));
    OK(annb_export(store, output, NULL, &err));
    same(path, output);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("export");
  TCase *cases = tcase_create("export");
  tcase_add_checked_fixture(cases, setup, teardown);
  tcase_set_timeout(cases, 120);
  tcase_add_loop_test(cases, test_sparse, 0, sizeof sparse_cases / sizeof *sparse_cases);
  tcase_add_loop_test(cases, test_dense_types, 0, 7);
  tcase_add_loop_test(cases, test_dense_half_and_bool, 0, 2);
  tcase_add_loop_test(cases, test_dense_chunks, 0, 5);
  tcase_add_loop_test(cases, test_dense_empty, 0, 4);
  tcase_add_test(cases, test_links);
  tcase_add_test(cases, test_exists);
  tcase_add_test(cases, test_bad_output);
  tcase_add_test(cases, test_inside_store);
  tcase_add_loop_test(cases, test_damage, 0, 3);
  tcase_add_test(cases, test_missing_object);
  tcase_add_test(cases, test_foreign_restore);
  tcase_add_test(cases, test_not_a_store);
  tcase_add_test(cases, test_parts);
  tcase_add_test(cases, test_no_sidecar);
  tcase_add_test(cases, test_generation);
  tcase_add_test(cases, test_cancel);
  tcase_add_test(cases, test_real);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
