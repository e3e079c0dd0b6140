/* LZF: known bytes, round trips, damage, and as a filter of HDF5. */
#include "../convert/source/lzf.h"
#include "suite.h"

#include <check.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

START_TEST(test_known) {
  /* "abc", then 9 bytes from 3 back, then 300 from 1 back */
  const uint8_t in[] = {2, 'a', 'b', 'c', 7 << 5, 0, 2, 7 << 5, 255, 0, 7 << 5, 29, 0};
  uint8_t out[400];
  size_t n;
  ck_assert_int_eq(annb_lzf_decode(in, sizeof in, out, sizeof out, &n), ANNB_LZF_OK);
  ck_assert_uint_eq(n, 3 + 9 + 264 + 38);
  ck_assert_mem_eq(out, "abcabcabcabccccc", 16);
  ck_assert_uint_eq(out[n - 1], 'c');
  ck_assert_int_eq(annb_lzf_decode(in, sizeof in, out, n - 1, &n), ANNB_LZF_ROOM);
}
END_TEST

START_TEST(test_damage) {
  const uint8_t cut[] = {2, 'a', 'b'}, far[] = {0, 'a', 1 << 5, 1}, no_distance[] = {0, 'a', 1 << 5}, no_length[] = {0, 'a', 7 << 5, 0};
  uint8_t out[64];
  size_t n;
  ck_assert_int_eq(annb_lzf_decode(cut, sizeof cut, out, sizeof out, &n), ANNB_LZF_DAMAGED);
  ck_assert_int_eq(annb_lzf_decode(far, sizeof far, out, sizeof out, &n), ANNB_LZF_DAMAGED);
  ck_assert_int_eq(annb_lzf_decode(no_distance, sizeof no_distance, out, sizeof out, &n), ANNB_LZF_DAMAGED);
  ck_assert_int_eq(annb_lzf_decode(no_length, sizeof no_length, out, sizeof out, &n), ANNB_LZF_DAMAGED);
  ck_assert_int_eq(annb_lzf_decode(cut, 0, out, 0, &n), ANNB_LZF_OK);
  ck_assert_uint_eq(n, 0);
}
END_TEST

static void round_trip(const uint8_t *in, size_t n, bool shrinks) {
  uint8_t *packed = malloc(n + n / 32 + 8), *out = malloc(n + 1);
  size_t size = annb_lzf_encode(in, n, packed, n + n / 32 + 8), got;
  ck_assert_uint_gt(size, 0);
  if (shrinks) ck_assert_uint_lt(size, n);
  ck_assert_int_eq(annb_lzf_decode(packed, size, out, n, &got), ANNB_LZF_OK);
  ck_assert_uint_eq(got, n);
  ck_assert_mem_eq(out, in, n);
  ck_assert_uint_eq(annb_lzf_encode(in, n, packed, size - 1), 0);
  ck_assert_uint_eq(annb_lzf_encode(in, n, packed, size), size);
  free(packed);
  free(out);
}

START_TEST(test_round_trip) {
  enum { N = 100000 };
  uint8_t *bytes = malloc(N);
  for (size_t i = 0; i < N; i++) bytes[i] = 0;
  round_trip(bytes, N, true);
  for (size_t i = 0; i < N; i++) bytes[i] = (uint8_t)(i / 4 % 61);
  round_trip(bytes, N, true);
  uint32_t state = 1;
  for (size_t i = 0; i < N; i++) bytes[i] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
  round_trip(bytes, N, false);
  memcpy(bytes + N / 2, bytes + N / 2 - 8192, 8192); /* the farthest match, and one too far */
  memcpy(bytes + N - 8193, bytes + N - 2 * 8193, 8193);
  round_trip(bytes, N, false);
  for (size_t n = 1; n < 300; n++) round_trip(bytes, n, false);
  free(bytes);
}
END_TEST

START_TEST(test_filter) {
  char path[] = "/tmp/annb_lzf_XXXXXX";
  int fd = mkstemp(path);
  ck_assert_int_ge(fd, 0);
  close(fd);
  annb_lzf_register();
  annb_lzf_register();
  const hsize_t dims[] = {20000}, chunk[] = {3000};
  const unsigned stated[] = {4, 261, 12000};
  int32_t in[20000], out[20000];
  for (int i = 0; i < 20000; i++) in[i] = i / 7;
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), creation = H5Pcreate(H5P_DATASET_CREATE),
        space = H5Screate_simple(1, dims, NULL);
  H5Pset_chunk(creation, 1, chunk);
  ck_assert_int_ge(H5Pset_filter(creation, 32000, H5Z_FLAG_OPTIONAL, 3, stated), 0);
  hid_t dataset = H5Dcreate2(file, "x", H5T_STD_I32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  ck_assert_int_ge(H5Dwrite(dataset, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, in), 0);
  H5Dclose(dataset);
  H5Fclose(file);
  file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  dataset = H5Dopen2(file, "x", H5P_DEFAULT);
  ck_assert_uint_lt(H5Dget_storage_size(dataset), sizeof in / 2);
  ck_assert_int_ge(H5Dread(dataset, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, out), 0);
  ck_assert_mem_eq(in, out, sizeof in);
  H5Dclose(dataset);
  H5Sclose(space);
  H5Pclose(creation);
  H5Fclose(file);
  unlink(path);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("lzf");
  TCase *tc = tcase_create("lzf");
  tcase_add_test(tc, test_known);
  tcase_add_test(tc, test_damage);
  tcase_add_test(tc, test_round_trip);
  tcase_add_test(tc, test_filter);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
