/* What stays in the sidecar and what goes to the restore file; together they are the source again. */
#include "h5_make.h"
#include "split.h"
#include "suite.h"
#include "temp.h"

START_TEST(test_plain) {
  H5Fclose(split_begin());
  split_round_trip();
  ck_assert(!split_has(split_sidecar, "/X"));
  ck_assert(split_has(split_sidecar, "/obs"));
  ck_assert(split_has(split_restore, "/X/data"));
  ck_assert(!split_has(split_restore, "/obs"));
  ck_assert(!split_has(split_output, "/annblock.tail"));
}
END_TEST

START_TEST(test_shell) {
  hid_t file = split_begin(), data;
  H5Fclose(file);
  split_round_trip();
  ck_assert_int_eq(annb_h5_open(split_restore, &file, &split_err), ANNB_OK);
  data = H5Dopen2(file, "/X/data", H5P_DEFAULT);
  uint64_t shape[2];
  char *role = annb_h5_attr_string(data, "annblock.shell");
  ck_assert_str_eq(role, "data");
  ck_assert_int_eq(annb_h5_attr_u64(data, "annblock.shape", shape, 2), 1);
  ck_assert_uint_eq(shape[0], 5);
  ck_assert_uint_eq(H5Dget_storage_size(data), 0);
  free(role);
  H5Dclose(data);
  H5Fclose(file);
}
END_TEST

START_TEST(test_nothing_packed) {
  H5Fclose(split_begin());
  split_round_trip_of(NULL, 0);
  ck_assert(split_has(split_sidecar, "/X/data"));
}
END_TEST

START_TEST(test_deterministic) {
  H5Fclose(split_begin());
  const annb_packed packed = {"/X", 5, false, false};
  size_t n[2], m[2];
  ck_assert_int_eq(split_file(&packed, 1), ANNB_OK);
  uint8_t *a = temp_read(split_sidecar, &n[0]), *b = temp_read(split_restore, &m[0]);
  temp_remove(split_sidecar);
  temp_remove(split_restore);
  ck_assert_int_eq(split_file(&packed, 1), ANNB_OK);
  uint8_t *c = temp_read(split_sidecar, &n[1]), *d = temp_read(split_restore, &m[1]);
  ck_assert(n[0] == n[1] && !memcmp(a, c, n[0]));
  ck_assert(m[0] == m[1] && !memcmp(b, d, m[0]));
  free(a);
  free(b);
  free(c);
  free(d);
}
END_TEST

START_TEST(test_tail) {
  hid_t file = split_begin(), x = H5Gopen2(file, "X", H5P_DEFAULT);
  const float more[] = {1, 2, 3, 4, 5, -7, -8, -9};
  const int32_t longer[] = {0, 2, 1, 0, 1, 77, 78, 79};
  const hsize_t dims[] = {8}, chunk[] = {3};
  H5Ldelete(x, "data", H5P_DEFAULT);
  H5Ldelete(x, "indices", H5P_DEFAULT);
  h5_make_array(x, "data", H5T_IEEE_F32BE, 1, dims, H5T_NATIVE_FLOAT, more, chunk, 6);
  h5_make_array(x, "indices", H5T_STD_I64LE, 1, dims, H5T_NATIVE_INT32, longer, NULL, 0);
  H5Gclose(x);
  H5Fclose(file);
  split_round_trip();
  ck_assert(split_has(split_restore, "/annblock.tail/1"));
}
END_TEST

START_TEST(test_kept) {
  H5Fclose(split_begin());
  const annb_packed packed = {"/X", 5, true, true};
  split_round_trip_of(&packed, 1);
  hid_t file, kept;
  ck_assert_int_eq(annb_h5_open(split_restore, &file, &split_err), ANNB_OK);
  kept = H5Dopen2(file, "/X/indices", H5P_DEFAULT);
  ck_assert(H5Aexists(kept, "annblock.shell") == 0);
  H5Dclose(kept);
  H5Fclose(file);
}
END_TEST

START_TEST(test_dense) {
  hid_t file = split_begin();
  const double cells[12] = {0, 1, 2, 3};
  const hsize_t dims[] = {4, 3}, chunk[] = {3, 2};
  H5Ldelete(file, "X", H5P_DEFAULT);
  h5_make_array(file, "X", H5T_IEEE_F64LE, 2, dims, H5T_NATIVE_DOUBLE, cells, chunk, 9);
  H5Fclose(file);
  const annb_packed packed = {"/X", 0, false, false};
  split_round_trip_of(&packed, 1);
  ck_assert(!split_has(split_sidecar, "/X"));
}
END_TEST

START_TEST(test_soft_x) {
  hid_t file = split_begin();
  ck_assert(H5Lmove(file, "X", file, "layers/x", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  ck_assert(H5Lcreate_soft("/layers/x", file, "X", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  H5Fclose(file);
  const annb_packed packed = {"/layers/x", 5, false, false};
  split_round_trip_of(&packed, 1);
  ck_assert(!split_has(split_sidecar, "/X") && !split_has(split_sidecar, "/layers/x"));
  ck_assert(split_has(split_restore, "/X") && split_has(split_restore, "/layers/x/data"));
}
END_TEST

START_TEST(test_links) {
  hid_t file = split_begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT);
  split_numbers(uns, "a");
  H5Lcreate_soft("a", uns, "good", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/X/data", uns, "into_x", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("into_x", uns, "chain", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("nowhere", uns, "dangling", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("round", uns, "round", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external("other.h5", "/a", uns, "external", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "X", file, "layers/same", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "uns", file, "uns/self", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "obs", file, "uns/obs", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(uns);
  H5Fclose(file);
  split_round_trip();
  ck_assert(split_has(split_sidecar, "/uns/good") && split_has(split_sidecar, "/uns/self/self/a"));
  static const char *const aside[] = {"/uns/into_x", "/uns/chain", "/uns/dangling", "/uns/round", "/uns/external", "/layers/same"};
  for (size_t i = 0; i < sizeof aside / sizeof *aside; i++)
    ck_assert_msg(!split_has(split_sidecar, aside[i]) && split_has(split_restore, aside[i]), "%s", aside[i]);
}
END_TEST

/* Arrays of X that another object shares stay in the sidecar, which must open. */
START_TEST(test_shared_arrays) {
  hid_t file = split_begin();
  H5Gclose(h5_make_group(file, "layers/other"));
  H5Lcreate_hard(file, "X/indices", file, "layers/other/indices", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "X/data", file, "uns/data", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  split_round_trip();
  ck_assert(split_has(split_sidecar, "/layers/other/indices") && split_has(split_sidecar, "/uns/data"));
}
END_TEST

START_TEST(test_unknown_slots) {
  hid_t file = split_begin(), mine = h5_make_group(file, "mine");
  split_numbers(mine, "a");
  split_numbers(file, "readme");
  H5Lcreate_hard(file, "obs", mine, "obs", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "/", mine, "root", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "mine", mine, "self", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "X", mine, "x", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(mine);
  H5Fclose(file);
  split_round_trip();
  ck_assert(!split_has(split_sidecar, "/mine") && !split_has(split_sidecar, "/readme"));
}
END_TEST

START_TEST(test_raw_packed) {
  hid_t file = split_begin();
  H5Gclose(h5_make_group(file, "raw"));
  H5Gclose(h5_make_group(file, "raw/var"));
  h5_make_sparse(file, "raw/X", "csr_matrix", 4, 3, split_pointers, 5, split_indices, split_values, 5);
  H5Fclose(file);
  split_round_trip();
  ck_assert(split_has(split_sidecar, "/raw/X/data"));
  temp_remove(split_sidecar);
  temp_remove(split_restore);
  temp_remove(split_output);
  const annb_packed packed[] = {{"/X", 5, false, false}, {"/raw/X", 5, false, false}};
  ck_assert_int_eq(split_file(packed, 2), ANNB_OK);
  ck_assert(!split_has(split_sidecar, "/raw") && split_has(split_restore, "/raw/var") && split_has(split_restore, "/raw/X/data"));
}
END_TEST

START_TEST(test_order) {
  hid_t file = split_begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT), group = split_tracked_group(uns, "g");
  split_numbers(group, "z");
  H5Lcreate_soft("/X", group, "m", H5P_DEFAULT, H5P_DEFAULT);
  split_numbers(group, "b");
  H5Lcreate_external("other.h5", "/a", group, "e", H5P_DEFAULT, H5P_DEFAULT);
  split_numbers(group, "a");
  H5Lcreate_hard(group, "z", group, "c", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(group);
  H5Gclose(uns);
  H5Fclose(file);
  split_round_trip();
  char *names = split_names_of(split_output, "/uns/g"), *less = split_names_of(split_sidecar, "/uns/g");
  ck_assert_str_eq(names, "z m b e a c");
  ck_assert_str_eq(less, "z b a c");
  free(names);
  free(less);
}
END_TEST

START_TEST(test_reserved) {
  hid_t file = split_begin(), x = H5Gopen2(file, "X", H5P_DEFAULT), uns = H5Gopen2(file, "uns", H5P_DEFAULT);
  h5_make_text(uns, "annblock.shell", "mine");
  split_numbers(uns, "annblock.tail");
  H5Gclose(uns);
  H5Fclose(file);
  H5Gclose(x);
  split_round_trip();
  temp_remove(split_sidecar);
  temp_remove(split_restore);
  file = H5Fopen(split_source, H5F_ACC_RDWR, H5P_DEFAULT);
  x = H5Gopen2(file, "X", H5P_DEFAULT);
  h5_make_text(x, "annblock.shell", "mine");
  H5Gclose(x);
  H5Fclose(file);
  split_refused(ANNB_EUNSUPPORTED, "/X: attribute \"annblock.shell\"");
}
END_TEST

/* ---- restore files that do not fit: their bytes are proven by a SHA-256, but whoever made them may lie ---- */

static void merge_fails(void (*spoil)(hid_t split_restore), annb_status status, const char *text) {
  hid_t file = split_begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT), group = split_tracked_group(uns, "g"),
        x = H5Gopen2(file, "X", H5P_DEFAULT);
  const float more[] = {1, 2, 3, 4, 5, -7};
  H5Ldelete(x, "data", H5P_DEFAULT);
  h5_make_vector(x, "data", H5T_IEEE_F32LE, 6, H5T_NATIVE_FLOAT, more);
  split_make_reference(uns, "packed", file, "/X");
  H5Lcreate_soft("/X", group, "x", H5P_DEFAULT, H5P_DEFAULT);
  split_numbers(group, "a");
  H5Gclose(x);
  H5Gclose(group);
  H5Gclose(uns);
  H5Fclose(file);
  const annb_packed packed = {"/X", 5, false, false};
  ck_assert_int_eq(split_file(&packed, 1), ANNB_OK);
  file = H5Fopen(split_restore, H5F_ACC_RDWR, H5P_DEFAULT);
  spoil(file);
  H5Fclose(file);
  annb_merged m;
  ck_assert_int_eq(annb_merge(split_sidecar, split_restore, split_output, NULL, NULL, &m, &split_err), status);
  annb_merged_close(&m);
  ck_assert_msg(strstr(split_err.message, text) != NULL, "\"%s\" is not in: %s", text, split_err.message);
  ck_assert_int_eq(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
}

static void no_tail(hid_t file) { H5Ldelete(file, "annblock.tail/0", H5P_DEFAULT); }
static void long_tail(hid_t file) {
  no_tail(file);
  split_numbers(file, "annblock.tail/0");
  H5Ldelete(file, "annblock.tail/0", H5P_DEFAULT);
  const float data[9] = {0};
  h5_make_vector(file, "annblock.tail/0", H5T_IEEE_F32LE, 9, H5T_NATIVE_FLOAT, data);
}
static void no_target(hid_t file) { H5Lcreate_soft("annblock.hard:/gone", file, "uns/bad", H5P_DEFAULT, H5P_DEFAULT); }
static void clash(hid_t file) { split_numbers(file, "obs"); }
static void bad_order(hid_t file) {
  hid_t group = H5Gopen2(file, "uns/g", H5P_DEFAULT);
  H5Adelete(group, "annblock.order");
  h5_make_names(group, "annblock.order", 2, (const char *const[]){"a", "gone"});
  H5Gclose(group);
}
static void order_of_numbers(hid_t file) {
  hid_t group = H5Gopen2(file, "uns/g", H5P_DEFAULT);
  H5Adelete(group, "annblock.order");
  h5_make_numbers(group, "annblock.order", 1, (const uint64_t[]){7});
  H5Gclose(group);
}
static void bad_references(hid_t file) {
  H5Ldelete(file, "annblock.references", H5P_DEFAULT);
  split_numbers(file, "annblock.references");
}
static void lost_reference(hid_t file) {
  static const char *const cells[] = {"/uns", "packed", "5", "/X"};
  const hsize_t dims[2] = {1, 4};
  hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, H5T_VARIABLE);
  H5Tset_cset(text, H5T_CSET_UTF8);
  H5Ldelete(file, "annblock.references", H5P_DEFAULT);
  h5_make_array(file, "annblock.references", text, 2, dims, text, cells, NULL, 0);
  H5Tclose(text);
}

START_TEST(test_bad_restore) {
  static const struct {
    void (*spoil)(hid_t);
    annb_status status;
    const char *text;
  } cases[] = {{no_tail, ANNB_ECORRUPT, "/X/data: its tail is missing"},
               {long_tail, ANNB_ECORRUPT, "/X/data: its tail is missing or does not fit"},
               {no_target, ANNB_ECORRUPT, "/uns/bad: stands for an object that is not in the sidecar"},
               {clash, ANNB_ECORRUPT, "/obs: is in the sidecar too"},
               {bad_order, ANNB_ECORRUPT, "gone: the order of the links"},
               {order_of_numbers, ANNB_ECORRUPT, "the order of links cannot be read"},
               {bad_references, ANNB_ECORRUPT, "is not a list of references"},
               {lost_reference, ANNB_ECORRUPT, "a reference of /uns to /X cannot be set"}};
  merge_fails(cases[_i].spoil, cases[_i].status, cases[_i].text);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sidecar");
  TCase *cases = tcase_create("sidecar");
  tcase_add_checked_fixture(cases, split_setup, split_teardown);
  tcase_set_timeout(cases, 60);
  tcase_add_test(cases, test_plain);
  tcase_add_test(cases, test_shell);
  tcase_add_test(cases, test_nothing_packed);
  tcase_add_test(cases, test_deterministic);
  tcase_add_test(cases, test_tail);
  tcase_add_test(cases, test_kept);
  tcase_add_test(cases, test_dense);
  tcase_add_test(cases, test_soft_x);
  tcase_add_test(cases, test_links);
  tcase_add_test(cases, test_shared_arrays);
  tcase_add_test(cases, test_unknown_slots);
  tcase_add_test(cases, test_raw_packed);
  tcase_add_test(cases, test_order);
  tcase_add_test(cases, test_reserved);
  tcase_add_loop_test(cases, test_bad_restore, 0, 8);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
