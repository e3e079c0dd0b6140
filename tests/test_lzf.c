#include "../convert/lzf.h"

#include <check.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1 << 20 };

static void round_trip(const uint8_t *data, size_t n, size_t at_most) {
  size_t room = n + n / 32 + 16;
  uint8_t *packed = malloc(room), *back = malloc(n + 1);
  size_t used = annb_lzf_compress(data, n, packed, room);
  ck_assert(n == 0 || used > 0);
  ck_assert_uint_le(used, at_most);
  ck_assert_uint_eq(annb_lzf_size(packed, used), n);
  back[n] = 0x5a;
  annb_lzf_expand(packed, used, back, n);
  ck_assert(n == 0 || !memcmp(back, data, n));
  ck_assert_uint_eq(back[n], 0x5a);
  free(packed);
  free(back);
}

START_TEST(hand_made) {
  static const uint8_t stream[] = {2, 'a', 'b', 'c', 0x20, 2, 0xE0, 10, 0, 0, 'x'}; /* abc, 3 from 3 back, 19 from 1 back, x */
  uint8_t out[26];
  ck_assert_uint_eq(annb_lzf_size(stream, sizeof stream), 3 + 3 + 19 + 1);
  annb_lzf_expand(stream, sizeof stream, out, sizeof out);
  ck_assert(!memcmp(out, "abcabccccccccccccccccccccx", sizeof out));
}
END_TEST

START_TEST(round_trips) {
  uint8_t *data = malloc(MOST);
  uint32_t x = 1;
  for (size_t i = 0; i < MOST; i++) data[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
  for (size_t n = 0; n < 300; n++) round_trip(data, n, n + n / 32 + 1);
  round_trip(data, MOST, MOST + MOST / 32 + 1); /* noise */
  for (size_t i = 0; i < MOST; i++) data[i] &= 1;
  round_trip(data, MOST, MOST / 3 * 2);
  memset(data, 7, MOST);
  round_trip(data, MOST, MOST / 50);
  for (size_t i = 0; i < MOST; i++) data[i] = (uint8_t)(i / 9000 + i % 5000 / 20); /* repeats near and beyond the farthest distance */
  round_trip(data, MOST, MOST);
  free(data);
}
END_TEST

START_TEST(no_room) {
  uint8_t data[1000], out[1000];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 37 ^ i >> 3);
  size_t needed = annb_lzf_compress(data, sizeof data, out, sizeof out);
  for (size_t room = 0; needed && room < needed; room++) ck_assert_uint_eq(annb_lzf_compress(data, sizeof data, out, room), 0);
}
END_TEST

START_TEST(damage) {
  static const uint8_t before_start[] = {0, 'a', 0x20, 1}, cut_literals[] = {5, 'a', 'b'}, cut_copy[] = {0, 'a', 0x20}, cut_long[] = {0, 'a', 0xE0, 1};
  ck_assert_uint_eq(annb_lzf_size(before_start, sizeof before_start), SIZE_MAX);
  ck_assert_uint_eq(annb_lzf_size(cut_literals, sizeof cut_literals), SIZE_MAX);
  ck_assert_uint_eq(annb_lzf_size(cut_copy, sizeof cut_copy), SIZE_MAX);
  ck_assert_uint_eq(annb_lzf_size(cut_long, sizeof cut_long), SIZE_MAX);
}
END_TEST

/* Any bytes: either refused, or expanded to the size told, without touching anything else (the sanitizers watch). */
START_TEST(noise) {
  uint32_t x = 7;
  for (int round = 0; round < 3000; round++) {
    uint8_t stream[48];
    for (size_t i = 0; i < sizeof stream; i++) stream[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24) & (round & 1 ? 0x3F : 0xFF);
    size_t n = x >> 8 & 31, size = annb_lzf_size(stream, n);
    if (size == SIZE_MAX) continue;
    ck_assert_uint_le(size, 88 * n);
    uint8_t *out = malloc(size + 1);
    annb_lzf_expand(stream, n, out, size);
    free(out);
  }
}
END_TEST

/* Through HDF5: what is written with the filter reads back, and is smaller on disk. */
START_TEST(in_hdf5) {
  char path[] = "/tmp/annb-lzf-XXXXXX";
  close(mkstemp(path));
  annb_lzf_register();
  hsize_t dims[1] = {100000}, chunk[1] = {3000};
  unsigned values[3] = {4, 0x0105, 3000 * sizeof(int)};
  int *data = malloc(dims[0] * sizeof *data), *back = malloc(dims[0] * sizeof *back);
  for (hsize_t i = 0; i < dims[0]; i++) data[i] = (int)(i / 10);
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space = H5Screate_simple(1, dims, NULL), plist = H5Pcreate(H5P_DATASET_CREATE);
  ck_assert(H5Pset_chunk(plist, 1, chunk) >= 0 && H5Pset_filter(plist, 32000, H5Z_FLAG_OPTIONAL, 3, values) >= 0);
  hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, plist, H5P_DEFAULT);
  ck_assert(H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
  ck_assert(H5Dclose(set) >= 0 && H5Fclose(file) >= 0);
  file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  set = H5Dopen2(file, "x", H5P_DEFAULT);
  ck_assert(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, back) >= 0);
  ck_assert(!memcmp(data, back, dims[0] * sizeof *data));
  ck_assert_uint_lt(H5Dget_storage_size(set), dims[0] * sizeof *data / 3);
  H5Dclose(set), H5Pclose(plist), H5Sclose(space), H5Fclose(file);
  free(data), free(back);
  unlink(path);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("lzf");
  TCase *tests = tcase_create("lzf");
  suite_add_tcase(suite, tests);
  tcase_add_test(tests, hand_made);
  tcase_add_test(tests, round_trips);
  tcase_add_test(tests, no_room);
  tcase_add_test(tests, damage);
  tcase_add_test(tests, noise);
  tcase_add_test(tests, in_hdf5);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? 1 : 0;
}
