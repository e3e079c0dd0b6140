/* Values read past HDF5 are those that HDF5 gives, for every pipeline, width, shape and piece; what is not for this way is left to HDF5;
 * damaged chunks are named. */
#include "../convert/source/chunks.h"
#include "../convert/source/direct.h"
#include "../convert/source/h5.h"
#include "../convert/source/lzf.h"
#include "../convert/source/unfilter.h"
#include "suite.h"
#include "temp.h"

#include <hdf5.h>
#include <libdeflate.h>

#define MEMORY (UINT64_C(64) << 20)
enum { LZF = 32000, ROWS = 1000, COLS = 37 };

static char *dir, *path;
static annb_h5_quiet quiet;
static annb_error err;

static void setup(void) {
  dir = temp_make();
  path = annb_io_join(dir, "f.h5");
  quiet = annb_h5_quiet_begin();
  annb_lzf_register();
  memset(&err, 0, sizeof err);
}

static void teardown(void) {
  annb_h5_quiet_end(quiet);
  temp_remove(dir);
  free(dir);
  free(path);
}

static void add_filter(hid_t creation, char filter) {
  const unsigned lzf[3] = {4, 0, 0};
  herr_t r = -1;
  switch (filter) {
    case 'g': r = H5Pset_deflate(creation, 5); break;
    case 's': r = H5Pset_shuffle(creation); break;
    case 'f': r = H5Pset_fletcher32(creation); break;
    case 'l': r = H5Pset_filter(creation, LZF, H5Z_FLAG_OPTIONAL, 3, lzf); break;
  }
  ck_assert_int_ge(r, 0);
}

/* A file with the dataset "d" of that type; `filters` "" = contiguous. Values are written unless `data` is NULL. */
static hid_t make(hid_t type, int rank, const char *filters, const hsize_t *chunk, const void *data, hid_t *file) {
  const hsize_t dims[2] = {ROWS, COLS};
  hid_t creation = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(rank, dims, NULL);
  if (chunk) ck_assert_int_ge(H5Pset_chunk(creation, rank, chunk), 0);
  for (; *filters; filters++) add_filter(creation, *filters);
  *file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t dataset = H5Dcreate2(*file, "d", type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  ck_assert_int_ge(dataset, 0);
  if (data) ck_assert_int_ge(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), 0);
  ck_assert_int_ge(H5Fflush(*file, H5F_SCOPE_GLOBAL), 0);
  H5Sclose(space);
  H5Pclose(creation);
  return dataset;
}

static uint8_t *some_bytes(size_t n) {
  uint8_t *bytes = malloc(n);
  uint32_t state = 1;
  for (size_t i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    bytes[i] = i / 3000 % 3 == 2 ? (uint8_t)(state >> 24) : (uint8_t)(i % 4 ? 0 : state >> 28); /* some of it does not compress */
  }
  return bytes;
}

static annb_direct *open_within(hid_t dataset, uint64_t memory, uint32_t threads) {
  annb_direct *d;
  ck_assert_int_eq(annb_direct_open(dataset, path, "/d", memory, &d, &err), ANNB_OK);
  if (d) annb_direct_set_threads(d, threads);
  return d;
}

static annb_direct *open_direct(hid_t dataset, uint32_t threads) { return open_within(dataset, MEMORY, threads); }

/* Pieces one after the other, then the same from the middle, against the bytes that were written. */
static void check_pieces(annb_direct *d, const uint8_t *want, size_t size, uint64_t cols, uint64_t step, uint64_t first_col,
                         uint64_t n_cols) {
  uint8_t *out = malloc(ROWS * n_cols * size);
  for (uint64_t start = 0; start < ROWS; start += ROWS / 2 + 3)
    for (uint64_t row = start; row < ROWS; row += step) {
      uint64_t n = step < ROWS - row ? step : ROWS - row;
      bool done = false;
      memset(out, 0xEE, n * n_cols * size);
      if (annb_direct_read(d, row, n, first_col, n_cols, out, &done, &err)) ck_abort_msg("%s", err.message);
      ck_assert(done);
      for (uint64_t i = 0; i < n; i++)
        if (memcmp(out + i * n_cols * size, want + ((row + i) * cols + first_col) * size, n_cols * size))
          ck_abort_msg("row %llu of a piece at %llu of %llu is wrong", (unsigned long long)i, (unsigned long long)row,
                       (unsigned long long)n);
    }
  free(out);
}

static void check_layout(hid_t type, int rank, const char *filters, const hsize_t *chunk) {
  static const uint64_t steps[] = {1, 7, 64, 100, 333, ROWS};
  size_t size = H5Tget_size(type);
  uint64_t cols = rank == 2 ? COLS : 1;
  uint8_t *bytes = some_bytes(ROWS * cols * size);
  hid_t file, dataset = make(type, rank, filters, chunk, bytes, &file);
  for (uint32_t threads = 1; threads <= 3; threads += 2) {
    annb_direct *d = open_direct(dataset, threads);
    ck_assert_msg(d != NULL, "filters '%s' are left to HDF5", filters);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
      check_pieces(d, bytes, size, cols, steps[i], 0, cols);
      if (rank == 2) check_pieces(d, bytes, size, cols, steps[i], 5, 20);
    }
    annb_direct_close(d);
  }
  H5Dclose(dataset);
  H5Fclose(file);
  free(bytes);
}

START_TEST(test_pipelines) {
  static const char *const pipelines[] = {"g", "s", "f", "l", "sg", "sl", "gf", "sgf", "fg", "fsg", "slf", "lf", "sf", "fs", "fl"};
  const hsize_t chunk[2] = {100, 10}, odd[2] = {7, 37}, tall[2] = {2000, 3};
  for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
    check_layout(H5T_STD_I32LE, 1, pipelines[i], chunk);
    check_layout(H5T_STD_I32LE, 1, pipelines[i], tall + 1);
    check_layout(H5T_IEEE_F64LE, 2, pipelines[i], chunk);
  }
  check_layout(H5T_STD_U8LE, 2, "sg", odd);
  check_layout(H5T_STD_I16LE, 2, "sg", odd);
  check_layout(H5T_IEEE_F32LE, 2, "sgf", odd);
}
END_TEST

START_TEST(test_contiguous) {
  check_layout(H5T_STD_I64LE, 1, "", NULL);
  check_layout(H5T_IEEE_F32LE, 2, "", NULL);
}
END_TEST

static void expect_left(hid_t type, uint64_t memory, const char *filters, const hsize_t *chunk, const void *data) {
  hid_t file, dataset = make(type, 1, filters, chunk, data, &file);
  ck_assert_ptr_null(open_within(dataset, memory, 1));
  H5Dclose(dataset);
  H5Fclose(file);
}

START_TEST(test_left_to_hdf5) {
  const hsize_t chunk[1] = {100};
  uint8_t *bytes = some_bytes(ROWS * 8);
  expect_left(H5T_STD_I32LE, MEMORY, "", chunk, bytes);   /* chunks without filters */
  expect_left(H5T_STD_I32LE, MEMORY, "", NULL, NULL);     /* never written */
  expect_left(H5T_STD_I32LE, MEMORY, "gg", chunk, bytes); /* two compressors */
  expect_left(H5T_STD_I32LE, 400 * 32 - 1, "g", chunk, bytes);
  expect_left(H5T_STD_REF_OBJ, MEMORY, "", NULL, bytes);
  free(bytes);
}
END_TEST

/* HDF5 then states an address inside of the user block. */
START_TEST(test_unwritten_behind_user_block) {
  const hsize_t dims[1] = {40};
  hid_t properties = H5Pcreate(H5P_FILE_CREATE), space = H5Screate_simple(1, dims, NULL);
  ck_assert_int_ge(H5Pset_userblock(properties, 512), 0);
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, properties, H5P_DEFAULT);
  hid_t dataset = H5Dcreate2(file, "d", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  ck_assert_int_ge(H5Fflush(file, H5F_SCOPE_GLOBAL), 0);
  ck_assert_ptr_null(open_direct(dataset, 1));
  H5Dclose(dataset);
  H5Fclose(file);
  H5Sclose(space);
  H5Pclose(properties);
}
END_TEST

START_TEST(test_missing_chunk) {
  const hsize_t chunk[1] = {100}, start[1] = {0}, count[1] = {150};
  uint8_t out[400 * 4], *bytes = some_bytes(ROWS * 4);
  bool done = true;
  hid_t file, dataset = make(H5T_STD_I32LE, 1, "g", chunk, NULL, &file);
  hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, count, NULL);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
  ck_assert_int_ge(H5Dwrite(dataset, H5T_STD_I32LE, memory, space, H5P_DEFAULT, bytes), 0);
  ck_assert_int_ge(H5Fflush(file, H5F_SCOPE_GLOBAL), 0);
  annb_direct *d = open_direct(dataset, 2);
  ck_assert_ptr_nonnull(d);
  ck_assert_int_eq(annb_direct_read(d, 0, 150, 0, 1, out, &done, &err), ANNB_OK);
  ck_assert(done && !memcmp(out, bytes, 600));
  ck_assert_int_eq(annb_direct_read(d, 100, 200, 0, 1, out, &done, &err), ANNB_OK);
  ck_assert(!done);
  annb_direct_close(d);
  H5Sclose(space);
  H5Sclose(memory);
  H5Dclose(dataset);
  H5Fclose(file);
  free(bytes);
}
END_TEST

/* ---- damage ---- */

/* Make a dataset of chunks of 100, and replace chunk 3 by these bytes as they are. */
static hid_t with_chunk(const char *filters, uint32_t skipped, const void *chunk_bytes, size_t n, hid_t *file) {
  const hsize_t chunk[1] = {100}, at[1] = {300};
  uint8_t *bytes = some_bytes(ROWS * 4);
  hid_t dataset = make(H5T_STD_I32LE, 1, filters, chunk, bytes, file);
  ck_assert_int_ge(H5Dwrite_chunk(dataset, H5P_DEFAULT, skipped, at, n, chunk_bytes), 0);
  H5Dclose(dataset);
  H5Fclose(*file);
  free(bytes);
  *file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  return H5Dopen2(*file, "d", H5P_DEFAULT);
}

static void expect_damage(const char *filters, const void *chunk_bytes, size_t n, const char *text) {
  uint8_t out[ROWS * 4];
  bool done;
  hid_t file, dataset = with_chunk(filters, 0, chunk_bytes, n, &file);
  annb_direct *d = open_direct(dataset, 2);
  ck_assert_int_eq(annb_direct_read(d, 0, 300, 0, 1, out, &done, &err), ANNB_OK);
  ck_assert_int_eq(annb_direct_read(d, 0, ROWS, 0, 1, out, &done, &err), ANNB_EINPUT);
  if (!strstr(err.message, text) || !strstr(err.message, "/d") || !strstr(err.message, "300 to 399") || !strstr(err.message, path))
    ck_abort_msg("not '%s': %s", text, err.message);
  ck_assert_int_eq(annb_direct_read(d, 400, 600, 0, 1, out, &done, &err), ANNB_OK); /* the others are still good */
  annb_direct_close(d);
  H5Dclose(dataset);
  H5Fclose(file);
}

static size_t zlib_of(size_t n, uint8_t *out, size_t room) {
  uint8_t in[1000] = {0};
  struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
  size_t size = libdeflate_zlib_compress(c, in, n, out, room);
  libdeflate_free_compressor(c);
  ck_assert_uint_gt(size, 0);
  return size;
}

START_TEST(test_damage) {
  uint8_t packed[200] = {0}, noise[8] = {1, 2, 3, 4, 5, 6, 7, 8}, plain[404] = {0};
  size_t n = zlib_of(399, packed, sizeof packed);
  expect_damage("g", packed, n, "fewer than a chunk has");
  expect_damage("sg", packed, n, "fewer than a chunk has");
  n = zlib_of(401, packed, sizeof packed);
  expect_damage("g", packed, n, "more than a chunk has");
  n = zlib_of(400, packed, sizeof packed);
  expect_damage("g", packed, n - 5, "damaged");
  packed[n - 1] ^= 1; /* Adler-32 */
  expect_damage("g", packed, n, "damaged");
  expect_damage("g", noise, sizeof noise, "damaged");
  expect_damage("l", noise, sizeof noise, "damaged");
  expect_damage("f", noise, 2, "fewer");
  plain[403] = 1;
  expect_damage("f", plain, 404, "checksum");
  expect_damage("sf", plain, 404, "checksum");
  expect_damage("s", plain, 399, "fewer");
}
END_TEST

/* The filter mask: chunk 3 is stored without its first or second filter. */
static void check_mask(const char *filters, uint32_t mask, const void *chunk_bytes, size_t n, const uint8_t want[400]) {
  uint8_t out[400];
  bool done;
  hid_t file, dataset = with_chunk(filters, mask, chunk_bytes, n, &file);
  annb_direct *d = open_direct(dataset, 2);
  if (annb_direct_read(d, 300, 100, 0, 1, out, &done, &err)) ck_abort_msg("'%s' without %u: %s", filters, mask, err.message);
  ck_assert(done && !memcmp(out, want, 400));
  annb_direct_close(d);
  H5Dclose(dataset);
  H5Fclose(file);
}

START_TEST(test_filter_mask) {
  uint8_t plain[404], packed[200] = {0}, zeros[400] = {0};
  for (size_t i = 0; i < sizeof plain; i++) plain[i] = (uint8_t)(i * 7);
  check_mask("g", 1, plain, 400, plain);
  check_mask("sg", 3, plain, 400, plain);
  size_t n = zlib_of(400, packed, sizeof packed);
  check_mask("sg", 1, packed, n, zeros);
  check_mask("gf", 2, packed, n, zeros);
  uint32_t sum = annb_fletcher32(plain, 400);
  memcpy(plain + 400, &sum, 4);
  check_mask("gf", 1, plain, 404, plain);
}
END_TEST

/* ---- what HDF5 reads ---- */

START_TEST(test_chunks_for_hdf5) {
  uint8_t packed[200] = {0};
  hid_t file, dataset = with_chunk("g", 0, packed, zlib_of(399, packed, sizeof packed), &file);
  ck_assert_int_eq(annb_chunks_check(dataset, path, "/d", &err), ANNB_EINPUT);
  ck_assert(strstr(err.message, "row 300") && strstr(err.message, "fewer than a chunk has"));
  H5Dclose(dataset);
  H5Fclose(file);
  dataset = with_chunk("sgf", 0, packed, 20, &file);
  ck_assert_int_eq(annb_chunks_check(dataset, path, "/d", &err), ANNB_EINPUT);
  ck_assert_ptr_nonnull(strstr(err.message, "checksum"));
  H5Dclose(dataset);
  H5Fclose(file);
}
END_TEST

/* Variable-length strings take 16 bytes each in the file. */
START_TEST(test_string_chunks) {
  const hsize_t chunk[1] = {100}, at[1] = {300};
  const char *strings[ROWS];
  uint8_t packed[200] = {0};
  for (int i = 0; i < ROWS; i++) strings[i] = "a name";
  hid_t text = H5Tcopy(H5T_C_S1), file;
  ck_assert_int_ge(H5Tset_size(text, H5T_VARIABLE), 0);
  hid_t dataset = make(text, 1, "g", chunk, strings, &file);
  ck_assert_int_eq(annb_chunks_check(dataset, path, "/d", &err), ANNB_OK);
  ck_assert_int_ge(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, at, zlib_of(800, packed, sizeof packed), packed), 0);
  ck_assert_int_eq(annb_chunks_check(dataset, path, "/d", &err), ANNB_EINPUT);
  ck_assert(strstr(err.message, "row 300") && strstr(err.message, "fewer than a chunk has"));
  H5Dclose(dataset);
  H5Fclose(file);
  H5Tclose(text);
}
END_TEST

/* One chunk in an extent that would take for ever to walk. */
START_TEST(test_sparse_extent) {
  const hsize_t dims[2] = {UINT64_C(1) << 40, UINT64_C(1) << 20}, chunk[2] = {10, 10}, start[2] = {UINT64_C(1) << 39, 77},
                count[2] = {5, 5};
  int values[25] = {1};
  hid_t creation = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, dims, NULL), memory = H5Screate_simple(2, count, NULL);
  H5Pset_chunk(creation, 2, chunk);
  H5Pset_deflate(creation, 5);
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t dataset = H5Dcreate2(file, "d", H5T_STD_I32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
  ck_assert_int_ge(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values), 0);
  ck_assert_int_eq(annb_chunks_check(dataset, path, "/d", &err), ANNB_OK);
  H5Dclose(dataset);
  H5Fclose(file);
  H5Sclose(space);
  H5Sclose(memory);
  H5Pclose(creation);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("direct");
  TCase *tc = tcase_create("direct");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 120);
  tcase_add_test(tc, test_pipelines);
  tcase_add_test(tc, test_contiguous);
  tcase_add_test(tc, test_left_to_hdf5);
  tcase_add_test(tc, test_unwritten_behind_user_block);
  tcase_add_test(tc, test_missing_chunk);
  tcase_add_test(tc, test_damage);
  tcase_add_test(tc, test_filter_mask);
  tcase_add_test(tc, test_chunks_for_hdf5);
  tcase_add_test(tc, test_string_chunks);
  tcase_add_test(tc, test_sparse_extent);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
