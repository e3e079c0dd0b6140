/* annb_compare sees every difference that matters, says where, and sees none where there is none. */
#include "../convert/source/h5.h"
#include "h5_make.h"
#include "suite.h"
#include "temp.h"

#include <annblock/convert.h>
#include <check.h>

static char *dir;
static char a[600], b[600];
static annb_h5_quiet quiet;
static annb_error err;
static char said[4000];

static void setup(void) {
  dir = temp_make();
  snprintf(a, sizeof a, "%s/a.h5ad", dir);
  snprintf(b, sizeof b, "%s/b.h5ad", dir);
  quiet = annb_h5_quiet_begin();
  memset(&err, 0, sizeof err);
}

static void teardown(void) {
  annb_h5_quiet_end(quiet);
  temp_remove(dir);
  free(dir);
}

static bool note(void *user, const char *path, const char *what) {
  (void)user;
  size_t n = strlen(said);
  snprintf(said + n, sizeof said - n, "%s: %s\n", path, what);
  return true;
}

static uint64_t compare(void) {
  uint64_t different = 99;
  *said = 0;
  annb_status s = annb_compare(a, b, note, NULL, &different, &err);
  ck_assert_msg(s == ANNB_OK, "%s", err.message);
  ck_assert_int_eq(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
  return different;
}

/* ---- one file of everything, and what is done to the second ---- */

static const float values[6] = {1, 2, 3, 4, 5, 6};

static void reference(hid_t file, const char *object, const char *attribute, const char *target) {
  hobj_ref_t r;
  hid_t o = H5Oopen(file, object, H5P_DEFAULT), space = H5Screate(H5S_SCALAR);
  if (H5Aexists(o, attribute) > 0) H5Adelete(o, attribute);
  hid_t attr = H5Acreate2(o, attribute, H5T_STD_REF_OBJ, space, H5P_DEFAULT, H5P_DEFAULT);
  ck_assert(H5Rcreate(&r, file, target, H5R_OBJECT, -1) >= 0);
  ck_assert(H5Awrite(attr, H5T_STD_REF_OBJ, &r) >= 0);
  H5Aclose(attr);
  H5Sclose(space);
  H5Oclose(o);
}

static void region(hid_t file, hsize_t start) {
  hsize_t dims = 6, count = 2;
  hdset_reg_ref_t r;
  hid_t space = H5Screate_simple(1, &dims, NULL);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
  ck_assert(H5Rcreate(&r, file, "/floats", H5R_DATASET_REGION, space) >= 0);
  h5_make_vector(file, "region", H5T_STD_REF_DSETREG, 1, H5T_STD_REF_DSETREG, &r);
  H5Sclose(space);
}

static void bools(hid_t file, const char *second) {
  hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
  const int8_t zero = 0, one = 1;
  H5Tenum_insert(type, "FALSE", &zero);
  H5Tenum_insert(type, second, &one);
  h5_make_vector(file, "bools", type, 2, type, "\0\1");
  H5Tclose(type);
}

typedef struct pair {
  int32_t number;
  const char *text;
} pair;

static void compound(hid_t file, const char *member, const char *text) {
  hid_t string = H5Tcopy(H5T_C_S1), type = H5Tcreate(H5T_COMPOUND, sizeof(pair));
  H5Tset_size(string, H5T_VARIABLE);
  H5Tinsert(type, member, HOFFSET(pair, number), H5T_NATIVE_INT32);
  H5Tinsert(type, "text", HOFFSET(pair, text), string);
  const pair rows[2] = {{1, "one"}, {2, text}};
  h5_make_vector(file, "compound", type, 2, type, rows);
  H5Tclose(type);
  H5Tclose(string);
}

static void ragged(hid_t file, size_t length) {
  hid_t type = H5Tvlen_create(H5T_NATIVE_INT32);
  int32_t data[3] = {1, 2, 3};
  hvl_t rows[2] = {{3, data}, {length, data}};
  h5_make_vector(file, "ragged", type, 2, type, rows);
  H5Tclose(type);
}

static void fixed(hid_t file, H5T_str_t padding, H5T_cset_t cset) {
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, 4);
  H5Tset_strpad(type, padding);
  H5Tset_cset(type, cset);
  h5_make_vector(file, "fixed", type, 2, type, "ab\0\0abcd");
  H5Tclose(type);
}

static void make(const char *path) {
  hid_t file = h5_make_file(path);
  const hsize_t dims[] = {2, 3}, chunk[] = {1, 2};
  H5Gclose(h5_make_group(file, "g/inner"));
  h5_make_text(file, "encoding-type", "anndata");
  h5_make_numbers(file, "numbers", 3, (const uint64_t[]){1, 2, 3});
  h5_make_vector(file, "floats", H5T_IEEE_F32LE, 6, H5T_NATIVE_FLOAT, values);
  h5_make_array(file, "matrix", H5T_STD_I16BE, 2, dims, H5T_NATIVE_FLOAT, values, chunk, 6);
  h5_make_strings(file, "strings", 3, (const char *const[]){"a", "", "ccc"});
  bools(file, "TRUE");
  compound(file, "number", "two");
  ragged(file, 2);
  fixed(file, H5T_STR_NULLPAD, H5T_CSET_ASCII);
  H5Lcreate_soft("/floats", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external("other.h5", "/x", file, "external", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "floats", file, "g/shared", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "g", file, "g/self", H5P_DEFAULT, H5P_DEFAULT);
  hid_t type = H5Tcopy(H5T_STD_I32LE), twin = H5Tcopy(H5T_STD_I32LE);
  H5Tcommit2(file, "type", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Tcommit2(file, "twin", twin, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  h5_make_vector(file, "typed", type, 2, H5T_NATIVE_INT32, (const int32_t[]){1, 2});
  H5Tclose(twin);
  H5Tclose(type);
  reference(file, "/g", "reference", "/floats");
  region(file, 1);
  H5Fclose(file);
}

static void drop(hid_t f, const char *name) { ck_assert(H5Ldelete(f, name, H5P_DEFAULT) >= 0); }
static void remove_it(hid_t f) { drop(f, "strings"); }
static void add_it(hid_t f) { H5Gclose(h5_make_group(f, "more")); }
static void write_float(hid_t f, float x) {
  float data[6];
  memcpy(data, values, sizeof data);
  memcpy(&data[4], &x, sizeof x);
  hid_t d = H5Dopen2(f, "floats", H5P_DEFAULT);
  H5Dwrite(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
  H5Dclose(d);
}
static void value(hid_t f) { write_float(f, 7); }
static void matrix_value(hid_t f) {
  const int16_t data[6] = {1, 2, 3, 4, 5, 7};
  hid_t d = H5Dopen2(f, "matrix", H5P_DEFAULT);
  H5Dwrite(d, H5T_NATIVE_INT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
  H5Dclose(d);
}
static void shape(hid_t f) {
  const hsize_t dims[] = {3, 2}, chunk[] = {1, 2};
  drop(f, "matrix");
  h5_make_array(f, "matrix", H5T_STD_I16BE, 2, dims, H5T_NATIVE_FLOAT, values, chunk, 6);
}
static void length(hid_t f) {
  drop(f, "floats");
  drop(f, "g/shared");
  h5_make_vector(f, "floats", H5T_IEEE_F32LE, 5, H5T_NATIVE_FLOAT, values);
  H5Lcreate_hard(f, "floats", f, "g/shared", H5P_DEFAULT, H5P_DEFAULT);
}
static void byte_order(hid_t f) {
  const hsize_t dims[] = {2, 3};
  drop(f, "matrix");
  h5_make_array(f, "matrix", H5T_STD_I16LE, 2, dims, H5T_NATIVE_FLOAT, values, NULL, 0);
}
static void sign(hid_t f) {
  const hsize_t dims[] = {2, 3};
  drop(f, "matrix");
  h5_make_array(f, "matrix", H5T_STD_U16BE, 2, dims, H5T_NATIVE_FLOAT, values, NULL, 0);
}
static void width(hid_t f) {
  const hsize_t dims[] = {2, 3};
  drop(f, "matrix");
  h5_make_array(f, "matrix", H5T_STD_I32BE, 2, dims, H5T_NATIVE_FLOAT, values, NULL, 0);
}
static void class(hid_t f) {
  const hsize_t dims[] = {2, 3};
  drop(f, "matrix");
  h5_make_array(f, "matrix", H5T_IEEE_F64LE, 2, dims, H5T_NATIVE_FLOAT, values, NULL, 0);
}
static void string_value(hid_t f) {
  drop(f, "strings");
  h5_make_strings(f, "strings", 3, (const char *const[]){"a", "", "ccd"});
}
static void string_null(hid_t f) {
  drop(f, "strings");
  h5_make_strings(f, "strings", 3, (const char *const[]){"a", NULL, "ccc"});
}
static void enum_name(hid_t f) {
  drop(f, "bools");
  bools(f, "YES");
}
static void member_name(hid_t f) {
  drop(f, "compound");
  compound(f, "count", "two");
}
static void member_value(hid_t f) {
  drop(f, "compound");
  compound(f, "number", "three");
}
static void ragged_length(hid_t f) {
  drop(f, "ragged");
  ragged(f, 1);
}
static void padding(hid_t f) {
  drop(f, "fixed");
  fixed(f, H5T_STR_NULLTERM, H5T_CSET_ASCII);
}
static void cset(hid_t f) {
  drop(f, "fixed");
  fixed(f, H5T_STR_NULLPAD, H5T_CSET_UTF8);
}
static void soft_target(hid_t f) {
  drop(f, "soft");
  H5Lcreate_soft("floats", f, "soft", H5P_DEFAULT, H5P_DEFAULT);
}
static void soft_to_hard(hid_t f) {
  drop(f, "soft");
  H5Lcreate_hard(f, "floats", f, "soft", H5P_DEFAULT, H5P_DEFAULT);
}
static void external_file(hid_t f) {
  drop(f, "external");
  H5Lcreate_external("another.h5", "/x", f, "external", H5P_DEFAULT, H5P_DEFAULT);
}
static void unshared(hid_t f) {
  drop(f, "g/shared");
  h5_make_vector(f, "g/shared", H5T_IEEE_F32LE, 6, H5T_NATIVE_FLOAT, values);
}
static void cycle(hid_t f) {
  drop(f, "g/self");
  H5Gclose(h5_make_group(f, "g/self"));
}
static void kind(hid_t f) {
  drop(f, "g/inner");
  h5_make_vector(f, "g/inner", H5T_IEEE_F32LE, 6, H5T_NATIVE_FLOAT, values);
}
static void attr_value(hid_t f) {
  H5Adelete(f, "numbers");
  h5_make_numbers(f, "numbers", 3, (const uint64_t[]){1, 2, 4});
}
static void attr_shape(hid_t f) {
  H5Adelete(f, "numbers");
  h5_make_numbers(f, "numbers", 2, (const uint64_t[]){1, 2});
}
static void attr_type(hid_t f) {
  H5Adelete(f, "numbers");
  h5_make_text(f, "numbers", "1");
}
static void attr_gone(hid_t f) { H5Adelete(f, "numbers"); }
static void attr_more(hid_t f) { h5_make_text(f, "more", ""); }
static void attr_inner(hid_t f) {
  hid_t g = H5Gopen2(f, "g/inner", H5P_DEFAULT);
  h5_make_text(g, "x", "");
  H5Gclose(g);
}
static void other_target(hid_t f) { reference(f, "/g", "reference", "/matrix"); }
static void other_region(hid_t f) {
  drop(f, "region");
  region(f, 2);
}
static void other_type(hid_t f) {
  hid_t twin = H5Topen2(f, "twin", H5P_DEFAULT);
  drop(f, "typed");
  h5_make_vector(f, "typed", twin, 2, H5T_NATIVE_INT32, (const int32_t[]){1, 2});
  H5Tclose(twin);
}
static void no_type(hid_t f) {
  drop(f, "typed");
  h5_make_vector(f, "typed", H5T_STD_I32LE, 2, H5T_NATIVE_INT32, (const int32_t[]){1, 2});
}

static const struct {
  void (*change)(hid_t file);
  const char *said;
} changes[] = {
    {remove_it, "/strings: is in the first only\n"},
    {add_it, "/more: is in the second only\n"},
    {value, "/floats: values differ first at 4: 5 (0x40a00000) against 7 (0x40e00000)\n"},
    {matrix_value, "/matrix: values differ first at 1,2: "},
    {shape, "/matrix: shapes differ\n"},
    {length, "/floats: shape 6 against 5\n"},
    {byte_order, "/matrix: types differ: int16 big-endian against int16 little-endian\n"},
    {sign, "/matrix: types differ: int16 against uint16\n"},
    {width, "/matrix: types differ: int16 against int32\n"},
    {class, "/matrix: types differ: int16 big-endian against float64 little-endian\n"},
    {string_value, "/strings: values differ first at 2: \"ccc\" against \"ccd\"\n"},
    {string_null, "/strings: values differ first at 1: \"\" against no string\n"},
    {enum_name, "/bools: types differ: member \"TRUE\" against \"YES\"\n"},
    {member_name, "/compound: types differ: member \"number\" against \"count\"\n"},
    {member_value, "/compound: values differ first at 1: \"two\" against \"three\"\n"},
    {ragged_length, "/ragged: values differ first at 1: lengths 2 against 1\n"},
    {padding, "/fixed: types differ: padding null-padded against null-terminated\n"},
    {cset, "/fixed: types differ: character set ASCII against UTF-8\n"},
    {soft_target, "/soft: links to /floats against floats\n"},
    {soft_to_hard, "/soft: is a soft link against a hard link\n"},
    {external_file, "/external: links to file other.h5 against another.h5\n"},
    {unshared, "/g/shared: is the same object as /floats in the first only\n"},
    {cycle, "/g/self: is the same object as /g in the first only\n"},
    {kind, "/g/inner: is a group against a dataset\n"},
    {attr_value, "/: attribute \"numbers\": values differ first at 2: 3 (0x0000000000000003) against 4 (0x0000000000000004)\n"},
    {attr_shape, "/: attribute \"numbers\": shape 3 against 2\n"},
    {attr_type, "/: attribute \"numbers\": types differ: uint64 against string of any length\n"},
    {attr_gone, "/: attribute \"numbers\" is in the first only\n"},
    {attr_more, "/: attribute \"more\" is in the second only\n"},
    {attr_inner, "/g/inner: attribute \"x\" is in the second only\n"},
    {other_target, "/g: attribute \"reference\": values differ first at 0: references lead to different objects\n"},
    {other_region, "/region: values differ first at 0: references select different regions\n"},
    {other_type, "/typed: types are committed at different paths\n"},
    {no_type, "/typed: type is committed in the first only\n"},
};

START_TEST(test_equal) {
  make(a);
  make(b);
  ck_assert_msg(compare() == 0, "%s", said);
  ck_assert_str_eq(said, "");
  strcpy(b, a); /* the same file twice */
  ck_assert_uint_eq(compare(), 0);
}
END_TEST

START_TEST(test_change) {
  make(a);
  make(b);
  hid_t file = H5Fopen(b, H5F_ACC_RDWR, H5P_DEFAULT);
  changes[_i].change(file);
  H5Fclose(file);
  ck_assert_uint_ge(compare(), 1);
  ck_assert_msg(strstr(said, changes[_i].said) != NULL, "%d: \"%s\" is not in: %s", _i, changes[_i].said, said);
  /* and the other way round there is a difference too */
  char swap[600];
  strcpy(swap, a);
  strcpy(a, b);
  strcpy(b, swap);
  ck_assert_uint_ge(compare(), 1);
}
END_TEST

/* NaN payloads and -0.0 are bits. */
START_TEST(test_bits) {
  static const uint32_t bits[][2] = {
      {0x7fc00000, 0x7fc00001}, {0x7fc00000, 0xffc00000}, {0x00000000, 0x80000000}, {0x7fc00001, 0x7fc00001}};
  make(a);
  make(b);
  float x;
  for (int i = 0; i < 2; i++) {
    hid_t file = H5Fopen(i ? b : a, H5F_ACC_RDWR, H5P_DEFAULT);
    memcpy(&x, &bits[_i][i], sizeof x);
    write_float(file, x);
    H5Fclose(file);
  }
  ck_assert_uint_eq(compare(), _i < 3 ? 1 : 0);
}
END_TEST

/* Layout, filters, maximal shape, order and times do not matter. */
START_TEST(test_not_compared) {
  for (int i = 0; i < 2; i++) {
    hid_t file = h5_make_file(i ? b : a);
    const hsize_t dims[] = {6}, chunk[] = {4};
    h5_make_array(file, i ? "x" : "y", H5T_IEEE_F32LE, 1, dims, H5T_NATIVE_FLOAT, values, i ? chunk : NULL, 6);
    h5_make_array(file, i ? "y" : "x", H5T_IEEE_F32LE, 1, dims, H5T_NATIVE_FLOAT, values, i ? NULL : chunk, 1);
    h5_make_text(file, i ? "p" : "q", "");
    h5_make_text(file, i ? "q" : "p", "");
    H5Fclose(file);
  }
  ck_assert_msg(compare() == 0, "%s", said);
}
END_TEST

/* More than one piece, and the difference in the last. */
START_TEST(test_large) {
  size_t n = 3 << 20;
  int32_t *data = calloc(n, sizeof *data);
  const hsize_t dims[] = {3, 1 << 20}, chunk[] = {2, 300000};
  for (int i = 0; i < 2; i++) {
    hid_t file = h5_make_file(i ? b : a);
    data[n - 1] = i;
    h5_make_array(file, "x", H5T_NATIVE_INT32, 2, dims, H5T_NATIVE_INT32, data, i ? chunk : NULL, 0);
    H5Fclose(file);
  }
  free(data);
  ck_assert_uint_eq(compare(), 1);
  ck_assert_str_eq(said, "/x: values differ first at 2,1048575: 0 (0x00000000) against 1 (0x00000001)\n");
}
END_TEST

/* A dataset that states 2^60 values and holds none takes no time. */
START_TEST(test_unwritten) {
  for (int i = 0; i < 2; i++) {
    hid_t file = h5_make_file(i ? b : a);
    const hsize_t dims[] = {UINT64_C(1) << 60}, chunk[] = {1000};
    h5_make_array(file, "x", H5T_NATIVE_INT8, 1, dims, H5T_NATIVE_INT8, NULL, chunk, 0);
    H5Fclose(file);
  }
  ck_assert_uint_eq(compare(), 0);
}
END_TEST

static bool stop(void *user, const char *path, const char *what) {
  (void)path;
  (void)what;
  ++*(int *)user;
  return false;
}

START_TEST(test_stop) {
  int calls = 0;
  make(a);
  make(b);
  hid_t file = H5Fopen(b, H5F_ACC_RDWR, H5P_DEFAULT);
  value(file);
  attr_value(file);
  attr_more(file);
  H5Fclose(file);
  ck_assert_int_eq(annb_compare(a, b, stop, &calls, NULL, &err), ANNB_OK);
  ck_assert_int_eq(calls, 1);
  uint64_t different;
  ck_assert_int_eq(annb_compare(a, b, NULL, NULL, &different, &err), ANNB_OK);
  ck_assert_uint_eq(different, 3);
}
END_TEST

START_TEST(test_unreadable) {
  make(a);
  ck_assert_int_eq(annb_compare(a, b, NULL, NULL, NULL, &err), ANNB_EIO);
  temp_write(b, "no HDF5", 7);
  ck_assert_int_eq(annb_compare(a, b, NULL, NULL, NULL, NULL), ANNB_EINPUT);
  size_t n;
  uint8_t *data = temp_read(a, &n);
  temp_write(b, data, n / 2);
  free(data);
  ck_assert_int_eq(annb_compare(a, b, NULL, NULL, NULL, &err), ANNB_EINPUT);
  ck_assert(strstr(err.message, "b.h5ad") != NULL);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("compare");
  TCase *cases = tcase_create("compare");
  tcase_add_checked_fixture(cases, setup, teardown);
  tcase_set_timeout(cases, 60);
  tcase_add_test(cases, test_equal);
  tcase_add_loop_test(cases, test_change, 0, sizeof changes / sizeof *changes);
  tcase_add_loop_test(cases, test_bits, 0, 4);
  tcase_add_test(cases, test_not_compared);
  tcase_add_test(cases, test_large);
  tcase_add_test(cases, test_unwritten);
  tcase_add_test(cases, test_stop);
  tcase_add_test(cases, test_unreadable);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
