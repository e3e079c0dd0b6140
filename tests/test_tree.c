/* Copying trees of HDF5 objects: links, references, committed types, large groups, deep ones, awkward values. */
#include "h5_make.h"
#include "split.h"
#include "suite.h"
#include "temp.h"

START_TEST(test_many_links) {
  /* enough for the heaps of large groups */
  hid_t file = split_begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT), group = split_tracked_group(uns, "many");
  char name[24];
  for (int i = 0; i < 300; i++) {
    snprintf(name, sizeof name, "n%d", i * 7 % 300);
    if (i % 50) H5Gclose(h5_make_group(group, name));
    else H5Lcreate_soft("/X", group, name, H5P_DEFAULT, H5P_DEFAULT);
    h5_make_numbers(group, name, 1, (const uint64_t[]){7});
  }
  H5Gclose(group);
  H5Gclose(uns);
  H5Fclose(file);
  split_round_trip();
}
END_TEST

START_TEST(test_references) {
  hid_t file = split_begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT), mine = h5_make_group(file, "mine"),
        x = H5Gopen2(file, "X", H5P_DEFAULT);
  split_numbers(uns, "a");
  split_numbers(mine, "b");
  split_make_reference(uns, "kept", file, "/uns/a");
  split_make_reference(uns, "packed", file, "/X");
  split_make_reference(uns, "aside", file, "/mine/b");
  split_make_reference(mine, "inside", file, "/mine/b");
  split_make_reference(mine, "outside", file, "/obs/_index");
  split_make_reference(x, "self", file, "/X/data");
  split_make_reference(x, "outside", file, "/uns/a");
  hobj_ref_t list[5] = {0};
  static const char *const targets[5] = {"/uns/a", "/X/indices", NULL, "/mine/b", "/"};
  for (int i = 0; i < 5; i++)
    if (targets[i]) ck_assert(H5Rcreate(&list[i], file, targets[i], H5R_OBJECT, -1) >= 0);
  h5_make_vector(uns, "list", H5T_STD_REF_OBJ, 5, H5T_STD_REF_OBJ, list);
  h5_make_vector(mine, "list", H5T_STD_REF_OBJ, 5, H5T_STD_REF_OBJ, list);
  H5Gclose(x);
  H5Gclose(mine);
  H5Gclose(uns);
  H5Fclose(file);
  split_round_trip();
  ck_assert(split_has(split_restore, "/annblock.references") && !split_has(split_output, "/annblock.references"));
}
END_TEST

typedef struct row {
  int32_t number;
  hobj_ref_t references[2];
  hvl_t list;
} row;

START_TEST(test_references_inside) {
  hid_t file = split_begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT);
  split_numbers(uns, "a");
  const hsize_t two = 2;
  hid_t pair = H5Tarray_create2(H5T_STD_REF_OBJ, 1, &two), list = H5Tvlen_create(H5T_STD_REF_OBJ),
        type = H5Tcreate(H5T_COMPOUND, sizeof(row));
  H5Tinsert(type, "number", HOFFSET(row, number), H5T_NATIVE_INT32);
  H5Tinsert(type, "references", HOFFSET(row, references), pair);
  H5Tinsert(type, "list", HOFFSET(row, list), list);
  hobj_ref_t a, x;
  H5Rcreate(&a, file, "/uns/a", H5R_OBJECT, -1);
  H5Rcreate(&x, file, "/X", H5R_OBJECT, -1);
  hobj_ref_t inner[3] = {x, a, x};
  row rows[2] = {{1, {a, x}, {3, inner}}, {2, {x, a}, {0, NULL}}};
  h5_make_vector(uns, "rows", type, 2, type, rows);
  H5Tclose(type);
  H5Tclose(list);
  H5Tclose(pair);
  H5Gclose(uns);
  H5Fclose(file);
  split_round_trip();
}
END_TEST

START_TEST(test_regions) {
  hid_t file = split_begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT);
  split_numbers(uns, "a");
  hsize_t dims = 6, start = 1, count = 3;
  hid_t space = H5Screate_simple(1, &dims, NULL);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
  hdset_reg_ref_t region;
  ck_assert(H5Rcreate(&region, file, "/uns/a", H5R_DATASET_REGION, space) >= 0);
  h5_make_vector(uns, "region", H5T_STD_REF_DSETREG, 1, H5T_STD_REF_DSETREG, &region);
  H5Gclose(uns);
  H5Fclose(file);
  split_round_trip();
  temp_remove(split_sidecar);
  temp_remove(split_restore);
  file = H5Fopen(split_source, H5F_ACC_RDWR, H5P_DEFAULT);
  dims = 5;
  H5Sset_extent_simple(space, 1, &dims, NULL);
  ck_assert(H5Rcreate(&region, file, "/X/data", H5R_DATASET_REGION, space) >= 0);
  uns = H5Gopen2(file, "uns", H5P_DEFAULT);
  h5_make_vector(uns, "packed", H5T_STD_REF_DSETREG, 1, H5T_STD_REF_DSETREG, &region);
  H5Sclose(space);
  H5Gclose(uns);
  H5Fclose(file);
  split_refused(ANNB_EUNSUPPORTED, "/uns/packed: holds a region reference");
}
END_TEST

START_TEST(test_committed) {
  hid_t file = split_begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT), type = H5Tcopy(H5T_STD_I32BE), twin = H5Tcopy(H5T_STD_I32BE),
        bare = H5Tcopy(H5T_STD_I16LE);
  const int32_t data[3] = {1, 2, 3};
  ck_assert(H5Tcommit2(uns, "t", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) >= 0);
  ck_assert(H5Tcommit2(uns, "a_twin", twin, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) >= 0);
  ck_assert(H5Tcommit2(uns, "bare", bare, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) >= 0);
  h5_make_text(type, "note", "of the type");
  h5_make_vector(uns, "b", type, 3, H5T_NATIVE_INT32, data);
  h5_make_vector(uns, "z", type, 3, H5T_NATIVE_INT32, data);
  h5_make_vector(uns, "twins", twin, 3, H5T_NATIVE_INT32, data);
  h5_make_vector(uns, "c", bare, 3, H5T_NATIVE_INT32, data);
  h5_make_vector(uns, "d", bare, 3, H5T_NATIVE_INT32, data);
  H5Ldelete(uns, "bare", H5P_DEFAULT); /* only its datasets hold it now */
  hid_t space = H5Screate(H5S_SCALAR), attr = H5Acreate2(uns, "attr", twin, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attr, H5T_NATIVE_INT32, data);
  H5Aclose(attr);
  H5Sclose(space);
  H5Tclose(type);
  H5Tclose(twin);
  H5Tclose(bare);
  H5Gclose(uns);
  H5Fclose(file);
  split_round_trip();
  ck_assert(!split_has(split_sidecar, "/annblock.type"));
}
END_TEST

START_TEST(test_committed_apart) {
  hid_t file = split_begin(), type = H5Tcopy(H5T_IEEE_F32LE);
  ck_assert(H5Tcommit2(file, "uns/t", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) >= 0);
  H5Ldelete(file, "X/data", H5P_DEFAULT);
  h5_make_vector(file, "X/data", type, 5, H5T_NATIVE_FLOAT, split_values);
  H5Tclose(type);
  H5Fclose(file);
  split_refused(ANNB_EUNSUPPORTED, "/X/data: shares a committed datatype");
}
END_TEST

static void nest(hid_t file, int depth) {
  hid_t group = H5Gopen2(file, "uns", H5P_DEFAULT);
  for (int i = 0; i < depth; i++) {
    hid_t next = H5Gcreate2(group, "n", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(group);
    group = next;
  }
  split_numbers(group, "leaf");
  H5Gclose(group);
  H5Fclose(file);
}

START_TEST(test_deep) {
  nest(split_begin(), 1100);
  split_round_trip();
}
END_TEST

START_TEST(test_too_deep) {
  nest(split_begin(), 4200);
  split_refused(ANNB_EUNSUPPORTED, "nested more than");
}
END_TEST

START_TEST(test_large_attributes) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), file = split_begin(), uns;
  H5Fclose(file);
  H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
  file = H5Fopen(split_source, H5F_ACC_RDWR, access);
  uns = H5Gcreate2(file, "uns/g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  uint64_t *many = calloc(20000, sizeof *many);
  for (int i = 0; i < 20000; i++) many[i] = (uint64_t)i * i;
  h5_make_numbers(uns, "large", 20000, many);
  free(many);
  char name[24];
  for (int i = 0; i < 40; i++) {
    snprintf(name, sizeof name, "attr%d", i * 7 % 40);
    h5_make_text(uns, name, name);
  }
  H5Gclose(uns);
  H5Fclose(file);
  H5Pclose(access);
  split_round_trip();
}
END_TEST

START_TEST(test_user_block) {
  hid_t creation = H5Pcreate(H5P_FILE_CREATE), file = split_begin(), other;
  char moved[600];
  split_name(moved, "moved");
  H5Pset_userblock(creation, 1024);
  other = H5Fcreate(moved, H5F_ACC_TRUNC, creation, H5P_DEFAULT);
  static const char *const names[] = {"X", "obs", "var", "uns"};
  for (int i = 0; i < 4; i++) ck_assert(H5Ocopy(file, names[i], other, names[i], H5P_DEFAULT, H5P_DEFAULT) >= 0);
  H5Fclose(other);
  H5Fclose(file);
  H5Pclose(creation);
  ck_assert_int_eq(rename(moved, split_source), 0);
  FILE *f = fopen(split_source, "r+b");
  fputs("MuData or what have you", f);
  fclose(f);
  split_round_trip();
}
END_TEST

static void make_virtual(hid_t file, const char *from) {
  hsize_t dims = 6;
  hid_t space = H5Screate_simple(1, &dims, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);
  ck_assert(H5Pset_virtual(properties, space, from, "/uns/a", space) >= 0);
  hid_t d = H5Dcreate2(file, "uns/virtual", H5T_STD_I32BE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  ck_assert(d >= 0);
  H5Dclose(d);
  H5Pclose(properties);
  H5Sclose(space);
}

START_TEST(test_virtual) {
  hid_t file = split_begin();
  split_numbers(file, "uns/a");
  make_virtual(file, ".");
  H5Fclose(file);
  split_round_trip();
}
END_TEST

START_TEST(test_virtual_missing) {
  hid_t file = split_begin();
  make_virtual(file, "gone.h5");
  H5Fclose(file);
  split_refused(ANNB_EINPUT, "/uns/virtual: is a virtual dataset whose source file gone.h5 is missing");
}
END_TEST

/* uns/raw with the external files of the creation properties; both are closed. */
static void make_external(hid_t file, hid_t properties, hsize_t n) {
  hid_t space = H5Screate_simple(1, &n, NULL),
        d = H5Dcreate2(file, "uns/raw", H5T_STD_I32BE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  ck_assert(d >= 0);
  H5Dclose(d);
  H5Sclose(space);
  H5Pclose(properties);
  H5Fclose(file);
}

/* Two files of raw values of which one is missing. */
START_TEST(test_external_storage_missing) {
  hid_t file = split_begin(), properties = H5Pcreate(H5P_DATASET_CREATE);
  char raw[600];
  split_name(raw, "there.bin");
  temp_write(raw, "\0\0\0\1", 4);
  H5Pset_external(properties, "there.bin", 0, 4);
  H5Pset_external(properties, "gone.bin", 0, 4);
  make_external(file, properties, 2);
  split_refused(ANNB_EINPUT, "/uns/raw: keeps its values in the external file gone.bin, which is missing");
}
END_TEST

START_TEST(test_external_storage) {
  hid_t file = split_begin(), properties = H5Pcreate(H5P_DATASET_CREATE);
  char raw[600];
  split_name(raw, "raw.bin");
  temp_write(raw, "\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5\0\0\0\6", 24);
  H5Pset_external(properties, "raw.bin", 0, 24);
  make_external(file, properties, 6);
  split_round_trip();
  int32_t read[6];
  ck_assert_int_eq(annb_h5_open(split_output, &file, &split_err), ANNB_OK);
  hid_t d = H5Dopen2(file, "uns/raw", H5P_DEFAULT);
  ck_assert(H5Dread(d, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, read) >= 0);
  ck_assert_int_eq(read[5], 6);
  H5Dclose(d);
  H5Fclose(file);
}
END_TEST

START_TEST(test_awkward_values) {
  hid_t file = split_begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT), null = H5Screate(H5S_NULL), d, text = H5Tcopy(H5T_C_S1),
        fixed = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, H5T_VARIABLE);
  H5Tset_size(fixed, 4);
  H5Tset_strpad(fixed, H5T_STR_SPACEPAD);
  const char *const strings[] = {"", NULL, "a", "longer than the others"};
  h5_make_vector(uns, "strings", text, 4, text, strings);
  h5_make_vector(uns, "none", text, 0, text, strings);
  h5_make_vector(uns, "unterminated", fixed, 2, fixed, "abcdab  ");
  const hsize_t dims[] = {4}, chunk[] = {3};
  h5_make_array(uns, "packed_strings", text, 1, dims, text, strings, chunk, 6);
  H5Dclose(d = H5Dcreate2(uns, "null", text, null, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  ck_assert(d >= 0);
  hid_t attr = H5Acreate2(uns, "null", H5T_IEEE_F32BE, null, H5P_DEFAULT, H5P_DEFAULT);
  H5Aclose(attr);
  h5_make_text(uns, "größe", "ä");
  hid_t opaque = H5Tcreate(H5T_OPAQUE, 3);
  H5Tset_tag(opaque, "a tag");
  h5_make_vector(uns, "opaque", opaque, 2, opaque, "abcdef");
  H5Tclose(opaque);
  H5Tclose(text);
  H5Tclose(fixed);
  H5Sclose(null);
  H5Gclose(uns);
  H5Fclose(file);
  split_round_trip();
}
END_TEST

static hid_t traverse(const char *name, hid_t group, const void *value, size_t size, hid_t access, hid_t transfer) {
  (void)name, (void)group, (void)value, (void)size, (void)access, (void)transfer;
  return -1;
}

START_TEST(test_user_defined_link) {
  static const H5L_class_t class = {.version = H5L_LINK_CLASS_T_VERS, .id = (H5L_type_t)100, .comment = "test", .trav_func = traverse};
  hid_t file = split_begin();
  ck_assert(H5Lregister(&class) >= 0);
  ck_assert(H5Lcreate_ud(file, "uns/odd", (H5L_type_t)100, "x", 1, H5P_DEFAULT, H5P_DEFAULT) >= 0);
  H5Fclose(file);
  split_refused(ANNB_EUNSUPPORTED, "/uns/odd: is a user-defined link");
}
END_TEST

/* References to what no link leads to have no place in a copy. */
START_TEST(test_unreachable_reference) {
  hid_t file = split_begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT);
  split_numbers(uns, "a");
  split_make_reference(uns, "r", file, "/uns/a");
  hid_t open = H5Dopen2(uns, "a", H5P_DEFAULT);
  H5Ldelete(uns, "a", H5P_DEFAULT);
  H5Dclose(open);
  H5Gclose(uns);
  H5Fclose(file);
  split_refused(ANNB_EINPUT, "/uns: attribute \"r\" holds a reference to an object that is not there");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("tree");
  TCase *cases = tcase_create("tree");
  tcase_add_checked_fixture(cases, split_setup, split_teardown);
  tcase_set_timeout(cases, 60);
  tcase_add_test(cases, test_many_links);
  tcase_add_test(cases, test_references);
  tcase_add_test(cases, test_references_inside);
  tcase_add_test(cases, test_regions);
  tcase_add_test(cases, test_committed);
  tcase_add_test(cases, test_committed_apart);
  tcase_add_test(cases, test_deep);
  tcase_add_test(cases, test_too_deep);
  tcase_add_test(cases, test_large_attributes);
  tcase_add_test(cases, test_user_block);
  tcase_add_test(cases, test_virtual);
  tcase_add_test(cases, test_virtual_missing);
  tcase_add_test(cases, test_external_storage);
  tcase_add_test(cases, test_external_storage_missing);
  tcase_add_test(cases, test_awkward_values);
  tcase_add_test(cases, test_user_defined_link);
  tcase_add_test(cases, test_unreachable_reference);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
