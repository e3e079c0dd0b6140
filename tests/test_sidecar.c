/* Splitting a file into sidecar and restore file, and putting them together again: everything comes back, and the sidecar has what it should. */
#include "../convert/files.h"
#include "../convert/graph.h"
#include "../convert/merge.h"
#include "../convert/sidecar.h"
#include "h5_make.h"
#include "temp.h"

#include <annblock/convert.h>
#include <check.h>

static char *dir;
static char source[600], sidecar[600], restore[600], output[600];
static annb_h5_quiet quiet;
static annb_error err;

static void name_file(char *out, const char *name) { snprintf(out, 600, "%s/%s", dir, name); }

static void setup(void) {
  dir = temp_make();
  name_file(source, "source.h5ad");
  name_file(sidecar, "sidecar.h5ad");
  name_file(restore, "restore.h5");
  name_file(output, "output.h5ad");
  quiet = annb_h5_quiet_begin();
  memset(&err, 0, sizeof err);
}

static void teardown(void) {
  annb_h5_quiet_end(quiet);
  temp_remove(dir);
  free(dir);
}

/* ---- making ---- */

static const int64_t pointers[] = {0, 2, 2, 3, 5};
static const int32_t indices[] = {0, 2, 1, 0, 1};
static const float values[] = {1, 2, 3, 4, 5};

/* 4 × 3, with uns and layers. */
static hid_t begin(void) {
  h5_make_h5ad(source, "csr_matrix", 4, 3, pointers, indices, values, 5);
  hid_t file = H5Fopen(source, H5F_ACC_RDWR, H5P_DEFAULT);
  ck_assert(file >= 0);
  H5Gclose(h5_make_group(file, "uns"));
  H5Gclose(h5_make_group(file, "layers"));
  return file;
}

static void numbers(hid_t parent, const char *name) {
  const int32_t data[] = {3, 1, 4, 1, 5, 9};
  h5_make_vector(parent, name, H5T_STD_I32BE, 6, H5T_NATIVE_INT32, data);
}

static void make_reference(hid_t object, const char *attribute, hid_t file, const char *target) {
  hobj_ref_t reference;
  ck_assert(H5Rcreate(&reference, file, target, H5R_OBJECT, -1) >= 0);
  hid_t space = H5Screate(H5S_SCALAR), attr = H5Acreate2(object, attribute, H5T_STD_REF_OBJ, space, H5P_DEFAULT, H5P_DEFAULT);
  ck_assert(H5Awrite(attr, H5T_STD_REF_OBJ, &reference) >= 0);
  H5Aclose(attr);
  H5Sclose(space);
}

static hid_t tracked_group(hid_t parent, const char *name) {
  hid_t properties = H5Pcreate(H5P_GROUP_CREATE);
  H5Pset_link_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  H5Pset_attr_creation_order(properties, H5P_CRT_ORDER_TRACKED);
  hid_t group = H5Gcreate2(parent, name, H5P_DEFAULT, properties, H5P_DEFAULT);
  ck_assert(group >= 0);
  H5Pclose(properties);
  return group;
}

/* ---- running ---- */

static annb_status split(const annb_packed *packed, size_t n) {
  hid_t file;
  annb_status s = annb_h5_open(source, &file, &err);
  ck_assert_int_eq(s, ANNB_OK);
  s = annb_sidecar_write(file, source, packed, n, sidecar, restore, &err);
  ck_assert_int_eq(H5Fget_obj_count(file, H5F_OBJ_ALL), 1);
  H5Fclose(file);
  ck_assert_int_eq(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
  return s;
}

/* What export does from the store, from the source: all that is not a tail. */
static void fill(hid_t from, annb_merged *m, const char *path) {
  const annb_empty *empty = annb_merged_find(m, path);
  if (!empty) return;
  hsize_t dims[32];
  hid_t a = H5Dopen2(from, path, H5P_DEFAULT), b = H5Dopen2(m->out, path, H5P_DEFAULT), type = H5Dget_type(a);
  int rank = annb_h5_extent(a, dims, NULL);
  size_t row = H5Tget_size(type);
  for (int i = 1; i < rank; i++) row *= dims[i];
  void *data = malloc(row * dims[0] + 1);
  uint64_t n = dims[0] - empty->tail;
  ck_assert_int_eq(annb_h5_read_rows(a, source, path, type, 0, n, data, &err), ANNB_OK);
  ck_assert_int_eq(annb_h5_write_rows(b, output, path, type, 0, n, data, &err), ANNB_OK);
  free(data);
  H5Tclose(type);
  H5Dclose(a);
  H5Dclose(b);
}

static bool show(void *user, const char *path, const char *what) {
  (void)user;
  fprintf(stderr, "%s: %s\n", path, what);
  return true;
}

static void join(void) {
  annb_merged m;
  hid_t file;
  uint64_t different;
  annb_status s = annb_merge(sidecar, restore, output, &m, &err);
  ck_assert_msg(s == ANNB_OK, "%s", err.message);
  ck_assert_int_eq(annb_h5_open(source, &file, &err), ANNB_OK);
  static const char *const paths[] = {"/X", "/X/data", "/X/indices", "/X/indptr", "/layers/x", "/layers/x/data", "/layers/x/indices", "/layers/x/indptr"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) fill(file, &m, paths[i]);
  H5Fclose(file);
  ck_assert_int_eq(annb_merged_finish(&m, &err), ANNB_OK);
  ck_assert_int_eq(annb_file_user_block(sidecar, output, &err), ANNB_OK);
  ck_assert_int_eq(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
  s = annb_compare(source, output, show, NULL, &different, &err);
  ck_assert_msg(s == ANNB_OK, "%s", err.message);
  ck_assert_uint_eq(different, 0);
}

static void round_trip_of(const annb_packed *packed, size_t n) {
  annb_status s = split(packed, n);
  ck_assert_msg(s == ANNB_OK, "%s", err.message);
  join();
}

static void round_trip(void) {
  const annb_packed packed = {"/X", 5, false, false};
  round_trip_of(&packed, 1);
}

static bool has(const char *path, const char *link) {
  hid_t file;
  ck_assert_int_eq(annb_h5_open(path, &file, &err), ANNB_OK);
  char part[256];
  bool there = true;
  for (const char *end = link; there && *end;) {
    end = strchr(end + 1, '/');
    if (!end) end = link + strlen(link);
    snprintf(part, sizeof part, "%.*s", (int)(end - link), link);
    there = H5Lexists(file, part, H5P_DEFAULT) > 0;
  }
  H5Fclose(file);
  return there;
}

static void refused(annb_status status, const char *text) {
  const annb_packed packed = {"/X", 5, false, false};
  ck_assert_int_eq(split(&packed, 1), status);
  ck_assert_msg(strstr(err.message, text) != NULL, "\"%s\" is not in: %s", text, err.message);
  ck_assert_msg(strstr(err.message, "source.h5ad") != NULL, "%s", err.message);
}

/* Names of a group's links in the order in which they come. */
static char *names_of(const char *path, const char *group) {
  annb_links links;
  hid_t file;
  char *text = calloc(1, 1000);
  ck_assert_int_eq(annb_h5_open(path, &file, &err), ANNB_OK);
  hid_t id = H5Gopen2(file, group, H5P_DEFAULT);
  ck_assert_int_eq(annb_links_read(id, false, path, group, &links, &err), ANNB_OK);
  ck_assert(links.tracked);
  for (size_t i = 0; i < links.n; i++) strcat(strcat(text, i ? " " : ""), links.rows[i].name);
  annb_links_free(&links);
  H5Gclose(id);
  H5Fclose(file);
  return text;
}

/* ---- tests ---- */

START_TEST(test_plain) {
  H5Fclose(begin());
  round_trip();
  ck_assert(!has(sidecar, "/X"));
  ck_assert(has(sidecar, "/obs"));
  ck_assert(has(restore, "/X/data"));
  ck_assert(!has(restore, "/obs"));
  ck_assert(!has(output, "/annblock.tail"));
}
END_TEST

START_TEST(test_shell) {
  hid_t file = begin(), data;
  H5Fclose(file);
  round_trip();
  ck_assert_int_eq(annb_h5_open(restore, &file, &err), ANNB_OK);
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
  H5Fclose(begin());
  round_trip_of(NULL, 0);
  ck_assert(has(sidecar, "/X/data"));
}
END_TEST

START_TEST(test_deterministic) {
  H5Fclose(begin());
  const annb_packed packed = {"/X", 5, false, false};
  size_t n[2], m[2];
  ck_assert_int_eq(split(&packed, 1), ANNB_OK);
  uint8_t *a = temp_read(sidecar, &n[0]), *b = temp_read(restore, &m[0]);
  temp_remove(sidecar);
  temp_remove(restore);
  ck_assert_int_eq(split(&packed, 1), ANNB_OK);
  uint8_t *c = temp_read(sidecar, &n[1]), *d = temp_read(restore, &m[1]);
  ck_assert(n[0] == n[1] && !memcmp(a, c, n[0]));
  ck_assert(m[0] == m[1] && !memcmp(b, d, m[0]));
  free(a);
  free(b);
  free(c);
  free(d);
}
END_TEST

START_TEST(test_tail) {
  hid_t file = begin(), x = H5Gopen2(file, "X", H5P_DEFAULT);
  const float more[] = {1, 2, 3, 4, 5, -7, -8, -9};
  const int32_t longer[] = {0, 2, 1, 0, 1, 77, 78, 79};
  const hsize_t dims[] = {8}, chunk[] = {3};
  H5Ldelete(x, "data", H5P_DEFAULT);
  H5Ldelete(x, "indices", H5P_DEFAULT);
  h5_make_array(x, "data", H5T_IEEE_F32BE, 1, dims, H5T_NATIVE_FLOAT, more, chunk, 6);
  h5_make_array(x, "indices", H5T_STD_I64LE, 1, dims, H5T_NATIVE_INT32, longer, NULL, 0);
  H5Gclose(x);
  H5Fclose(file);
  round_trip();
  ck_assert(has(restore, "/annblock.tail/1"));
}
END_TEST

START_TEST(test_kept) {
  H5Fclose(begin());
  const annb_packed packed = {"/X", 5, true, true};
  round_trip_of(&packed, 1);
  hid_t file, kept;
  ck_assert_int_eq(annb_h5_open(restore, &file, &err), ANNB_OK);
  kept = H5Dopen2(file, "/X/indices", H5P_DEFAULT);
  ck_assert(H5Aexists(kept, "annblock.shell") == 0);
  H5Dclose(kept);
  H5Fclose(file);
}
END_TEST

START_TEST(test_dense) {
  hid_t file = begin();
  const double cells[12] = {0, 1, 2, 3};
  const hsize_t dims[] = {4, 3}, chunk[] = {3, 2};
  H5Ldelete(file, "X", H5P_DEFAULT);
  h5_make_array(file, "X", H5T_IEEE_F64LE, 2, dims, H5T_NATIVE_DOUBLE, cells, chunk, 9);
  H5Fclose(file);
  const annb_packed packed = {"/X", 0, false, false};
  round_trip_of(&packed, 1);
  ck_assert(!has(sidecar, "/X"));
}
END_TEST

START_TEST(test_soft_x) {
  hid_t file = begin();
  ck_assert(H5Lmove(file, "X", file, "layers/x", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  ck_assert(H5Lcreate_soft("/layers/x", file, "X", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  H5Fclose(file);
  const annb_packed packed = {"/layers/x", 5, false, false};
  round_trip_of(&packed, 1);
  ck_assert(!has(sidecar, "/X") && !has(sidecar, "/layers/x"));
  ck_assert(has(restore, "/X") && has(restore, "/layers/x/data"));
}
END_TEST

START_TEST(test_links) {
  hid_t file = begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT);
  numbers(uns, "a");
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
  round_trip();
  ck_assert(has(sidecar, "/uns/good") && has(sidecar, "/uns/self/self/a"));
  static const char *const aside[] = {"/uns/into_x", "/uns/chain", "/uns/dangling", "/uns/round", "/uns/external", "/layers/same"};
  for (size_t i = 0; i < sizeof aside / sizeof *aside; i++) ck_assert_msg(!has(sidecar, aside[i]) && has(restore, aside[i]), "%s", aside[i]);
}
END_TEST

/* Arrays of X that another object shares stay in the sidecar, which must open. */
START_TEST(test_shared_arrays) {
  hid_t file = begin();
  H5Gclose(h5_make_group(file, "layers/other"));
  H5Lcreate_hard(file, "X/indices", file, "layers/other/indices", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "X/data", file, "uns/data", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  round_trip();
  ck_assert(has(sidecar, "/layers/other/indices") && has(sidecar, "/uns/data"));
}
END_TEST

START_TEST(test_unknown_slots) {
  hid_t file = begin(), mine = h5_make_group(file, "mine");
  numbers(mine, "a");
  numbers(file, "readme");
  H5Lcreate_hard(file, "obs", mine, "obs", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "/", mine, "root", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "mine", mine, "self", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "X", mine, "x", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(mine);
  H5Fclose(file);
  round_trip();
  ck_assert(!has(sidecar, "/mine") && !has(sidecar, "/readme"));
}
END_TEST

START_TEST(test_raw_packed) {
  hid_t file = begin();
  H5Gclose(h5_make_group(file, "raw"));
  H5Gclose(h5_make_group(file, "raw/var"));
  h5_make_sparse(file, "raw/X", "csr_matrix", 4, 3, pointers, 5, indices, values, 5);
  H5Fclose(file);
  round_trip();
  ck_assert(has(sidecar, "/raw/X/data"));
  temp_remove(sidecar);
  temp_remove(restore);
  temp_remove(output);
  const annb_packed packed[] = {{"/X", 5, false, false}, {"/raw/X", 5, false, false}};
  ck_assert_int_eq(split(packed, 2), ANNB_OK);
  ck_assert(!has(sidecar, "/raw") && has(restore, "/raw/var") && has(restore, "/raw/X/data"));
}
END_TEST

START_TEST(test_order) {
  hid_t file = begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT), group = tracked_group(uns, "g");
  numbers(group, "z");
  H5Lcreate_soft("/X", group, "m", H5P_DEFAULT, H5P_DEFAULT);
  numbers(group, "b");
  H5Lcreate_external("other.h5", "/a", group, "e", H5P_DEFAULT, H5P_DEFAULT);
  numbers(group, "a");
  H5Lcreate_hard(group, "z", group, "c", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(group);
  H5Gclose(uns);
  H5Fclose(file);
  round_trip();
  char *names = names_of(output, "/uns/g"), *less = names_of(sidecar, "/uns/g");
  ck_assert_str_eq(names, "z m b e a c");
  ck_assert_str_eq(less, "z b a c");
  free(names);
  free(less);
}
END_TEST

START_TEST(test_many_links) {
  /* enough for the heaps of large groups */
  hid_t file = begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT), group = tracked_group(uns, "many");
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
  round_trip();
}
END_TEST

START_TEST(test_references) {
  hid_t file = begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT), mine = h5_make_group(file, "mine"), x = H5Gopen2(file, "X", H5P_DEFAULT);
  numbers(uns, "a");
  numbers(mine, "b");
  make_reference(uns, "kept", file, "/uns/a");
  make_reference(uns, "packed", file, "/X");
  make_reference(uns, "aside", file, "/mine/b");
  make_reference(mine, "inside", file, "/mine/b");
  make_reference(mine, "outside", file, "/obs/_index");
  make_reference(x, "self", file, "/X/data");
  make_reference(x, "outside", file, "/uns/a");
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
  round_trip();
  ck_assert(has(restore, "/annblock.references") && !has(output, "/annblock.references"));
}
END_TEST

typedef struct row {
  int32_t number;
  hobj_ref_t references[2];
  hvl_t list;
} row;

START_TEST(test_references_inside) {
  hid_t file = begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT);
  numbers(uns, "a");
  const hsize_t two = 2;
  hid_t pair = H5Tarray_create2(H5T_STD_REF_OBJ, 1, &two), list = H5Tvlen_create(H5T_STD_REF_OBJ), type = H5Tcreate(H5T_COMPOUND, sizeof(row));
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
  round_trip();
}
END_TEST

START_TEST(test_regions) {
  hid_t file = begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT);
  numbers(uns, "a");
  hsize_t dims = 6, start = 1, count = 3;
  hid_t space = H5Screate_simple(1, &dims, NULL);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
  hdset_reg_ref_t region;
  ck_assert(H5Rcreate(&region, file, "/uns/a", H5R_DATASET_REGION, space) >= 0);
  h5_make_vector(uns, "region", H5T_STD_REF_DSETREG, 1, H5T_STD_REF_DSETREG, &region);
  H5Gclose(uns);
  H5Fclose(file);
  round_trip();
  temp_remove(sidecar);
  temp_remove(restore);
  file = H5Fopen(source, H5F_ACC_RDWR, H5P_DEFAULT);
  dims = 5;
  H5Sset_extent_simple(space, 1, &dims, NULL);
  ck_assert(H5Rcreate(&region, file, "/X/data", H5R_DATASET_REGION, space) >= 0);
  uns = H5Gopen2(file, "uns", H5P_DEFAULT);
  h5_make_vector(uns, "packed", H5T_STD_REF_DSETREG, 1, H5T_STD_REF_DSETREG, &region);
  H5Sclose(space);
  H5Gclose(uns);
  H5Fclose(file);
  refused(ANNB_EUNSUPPORTED, "/uns/packed: holds a region reference");
}
END_TEST

START_TEST(test_committed) {
  hid_t file = begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT), type = H5Tcopy(H5T_STD_I32BE), twin = H5Tcopy(H5T_STD_I32BE), bare = H5Tcopy(H5T_STD_I16LE);
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
  round_trip();
  ck_assert(!has(sidecar, "/annblock.type"));
}
END_TEST

START_TEST(test_committed_apart) {
  hid_t file = begin(), type = H5Tcopy(H5T_IEEE_F32LE);
  ck_assert(H5Tcommit2(file, "uns/t", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) >= 0);
  H5Ldelete(file, "X/data", H5P_DEFAULT);
  h5_make_vector(file, "X/data", type, 5, H5T_NATIVE_FLOAT, values);
  H5Tclose(type);
  H5Fclose(file);
  refused(ANNB_EUNSUPPORTED, "/X/data: shares a committed datatype");
}
END_TEST

static void nest(hid_t file, int depth) {
  hid_t group = H5Gopen2(file, "uns", H5P_DEFAULT);
  for (int i = 0; i < depth; i++) {
    hid_t next = H5Gcreate2(group, "n", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(group);
    group = next;
  }
  numbers(group, "leaf");
  H5Gclose(group);
  H5Fclose(file);
}

START_TEST(test_deep) {
  nest(begin(), 1500);
  round_trip();
}
END_TEST

START_TEST(test_too_deep) {
  nest(begin(), 4200);
  refused(ANNB_EUNSUPPORTED, "nested more than");
}
END_TEST

START_TEST(test_large_attributes) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), file = begin(), uns;
  H5Fclose(file);
  H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
  file = H5Fopen(source, H5F_ACC_RDWR, access);
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
  round_trip();
}
END_TEST

START_TEST(test_user_block) {
  hid_t creation = H5Pcreate(H5P_FILE_CREATE), file = begin(), other;
  char moved[600];
  name_file(moved, "moved");
  H5Pset_userblock(creation, 1024);
  other = H5Fcreate(moved, H5F_ACC_TRUNC, creation, H5P_DEFAULT);
  static const char *const names[] = {"X", "obs", "var", "uns"};
  for (int i = 0; i < 4; i++) ck_assert(H5Ocopy(file, names[i], other, names[i], H5P_DEFAULT, H5P_DEFAULT) >= 0);
  H5Fclose(other);
  H5Fclose(file);
  H5Pclose(creation);
  ck_assert_int_eq(rename(moved, source), 0);
  FILE *f = fopen(source, "r+b");
  fputs("MuData or what have you", f);
  fclose(f);
  round_trip();
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
  hid_t file = begin();
  numbers(file, "uns/a");
  make_virtual(file, ".");
  H5Fclose(file);
  round_trip();
}
END_TEST

START_TEST(test_virtual_missing) {
  hid_t file = begin();
  make_virtual(file, "gone.h5");
  H5Fclose(file);
  refused(ANNB_EINPUT, "/uns/virtual: is a virtual dataset whose source file gone.h5 is missing");
}
END_TEST

START_TEST(test_external_storage) {
  hid_t file = begin(), properties = H5Pcreate(H5P_DATASET_CREATE);
  char raw[600];
  hsize_t dims = 6;
  name_file(raw, "raw.bin");
  temp_write(raw, "\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5\0\0\0\6", 24);
  H5Pset_external(properties, "raw.bin", 0, 24);
  hid_t space = H5Screate_simple(1, &dims, NULL), d = H5Dcreate2(file, "uns/raw", H5T_STD_I32BE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  ck_assert(d >= 0);
  H5Dclose(d);
  H5Sclose(space);
  H5Pclose(properties);
  H5Fclose(file);
  round_trip();
  int32_t read[6];
  ck_assert_int_eq(annb_h5_open(output, &file, &err), ANNB_OK);
  d = H5Dopen2(file, "uns/raw", H5P_DEFAULT);
  ck_assert(H5Dread(d, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, read) >= 0);
  ck_assert_int_eq(read[5], 6);
  H5Dclose(d);
  H5Fclose(file);
}
END_TEST

START_TEST(test_awkward_values) {
  hid_t file = begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT), null = H5Screate(H5S_NULL), d, text = H5Tcopy(H5T_C_S1), fixed = H5Tcopy(H5T_C_S1);
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
  round_trip();
}
END_TEST

START_TEST(test_reserved) {
  hid_t file = begin(), x = H5Gopen2(file, "X", H5P_DEFAULT), uns = H5Gopen2(file, "uns", H5P_DEFAULT);
  h5_make_text(uns, "annblock.shell", "mine");
  numbers(uns, "annblock.tail");
  H5Gclose(uns);
  H5Fclose(file);
  H5Gclose(x);
  round_trip();
  temp_remove(sidecar);
  temp_remove(restore);
  file = H5Fopen(source, H5F_ACC_RDWR, H5P_DEFAULT);
  x = H5Gopen2(file, "X", H5P_DEFAULT);
  h5_make_text(x, "annblock.shell", "mine");
  H5Gclose(x);
  H5Fclose(file);
  refused(ANNB_EUNSUPPORTED, "/X: attribute \"annblock.shell\"");
}
END_TEST

static hid_t traverse(const char *name, hid_t group, const void *value, size_t size, hid_t access, hid_t transfer) {
  (void)name, (void)group, (void)value, (void)size, (void)access, (void)transfer;
  return -1;
}

START_TEST(test_user_defined_link) {
  static const H5L_class_t class = {.version = H5L_LINK_CLASS_T_VERS, .id = (H5L_type_t)100, .comment = "test", .trav_func = traverse};
  hid_t file = begin();
  ck_assert(H5Lregister(&class) >= 0);
  ck_assert(H5Lcreate_ud(file, "uns/odd", (H5L_type_t)100, "x", 1, H5P_DEFAULT, H5P_DEFAULT) >= 0);
  H5Fclose(file);
  refused(ANNB_EUNSUPPORTED, "/uns/odd: is a user-defined link");
}
END_TEST

/* References to what no link leads to have no place in a copy. */
START_TEST(test_unreachable_reference) {
  hid_t file = begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT);
  numbers(uns, "a");
  make_reference(uns, "r", file, "/uns/a");
  hid_t open = H5Dopen2(uns, "a", H5P_DEFAULT);
  H5Ldelete(uns, "a", H5P_DEFAULT);
  H5Dclose(open);
  H5Gclose(uns);
  H5Fclose(file);
  refused(ANNB_EINPUT, "/uns: attribute \"r\" holds a reference to an object that is not there");
}
END_TEST

/* ---- restore files that do not fit: their bytes are proven by a SHA-256, but whoever made them may lie ---- */

static void merge_fails(void (*spoil)(hid_t restore), annb_status status, const char *text) {
  hid_t file = begin(), uns = H5Gopen2(file, "uns", H5P_DEFAULT), group = tracked_group(uns, "g"), x = H5Gopen2(file, "X", H5P_DEFAULT);
  const float more[] = {1, 2, 3, 4, 5, -7};
  H5Ldelete(x, "data", H5P_DEFAULT);
  h5_make_vector(x, "data", H5T_IEEE_F32LE, 6, H5T_NATIVE_FLOAT, more);
  make_reference(uns, "packed", file, "/X");
  H5Lcreate_soft("/X", group, "x", H5P_DEFAULT, H5P_DEFAULT);
  numbers(group, "a");
  H5Gclose(x);
  H5Gclose(group);
  H5Gclose(uns);
  H5Fclose(file);
  const annb_packed packed = {"/X", 5, false, false};
  ck_assert_int_eq(split(&packed, 1), ANNB_OK);
  file = H5Fopen(restore, H5F_ACC_RDWR, H5P_DEFAULT);
  spoil(file);
  H5Fclose(file);
  annb_merged m;
  ck_assert_int_eq(annb_merge(sidecar, restore, output, &m, &err), status);
  annb_merged_close(&m);
  ck_assert_msg(strstr(err.message, text) != NULL, "\"%s\" is not in: %s", text, err.message);
  ck_assert_int_eq(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
}

static void no_tail(hid_t file) { H5Ldelete(file, "annblock.tail/0", H5P_DEFAULT); }
static void long_tail(hid_t file) {
  no_tail(file);
  numbers(file, "annblock.tail/0");
  H5Ldelete(file, "annblock.tail/0", H5P_DEFAULT);
  const float data[9] = {0};
  h5_make_vector(file, "annblock.tail/0", H5T_IEEE_F32LE, 9, H5T_NATIVE_FLOAT, data);
}
static void no_target(hid_t file) { H5Lcreate_soft("annblock.hard:/gone", file, "uns/bad", H5P_DEFAULT, H5P_DEFAULT); }
static void clash(hid_t file) { numbers(file, "obs"); }
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
  numbers(file, "annblock.references");
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
  TCase *split_case = tcase_create("split"), *trees = tcase_create("trees");
  tcase_add_checked_fixture(split_case, setup, teardown);
  tcase_add_checked_fixture(trees, setup, teardown);
  tcase_set_timeout(split_case, 60);
  tcase_set_timeout(trees, 60);
  tcase_add_test(split_case, test_plain);
  tcase_add_test(split_case, test_shell);
  tcase_add_test(split_case, test_nothing_packed);
  tcase_add_test(split_case, test_deterministic);
  tcase_add_test(split_case, test_tail);
  tcase_add_test(split_case, test_kept);
  tcase_add_test(split_case, test_dense);
  tcase_add_test(split_case, test_soft_x);
  tcase_add_test(split_case, test_links);
  tcase_add_test(split_case, test_shared_arrays);
  tcase_add_test(split_case, test_unknown_slots);
  tcase_add_test(split_case, test_raw_packed);
  tcase_add_test(split_case, test_order);
  tcase_add_test(split_case, test_reserved);
  tcase_add_loop_test(split_case, test_bad_restore, 0, 8);
  tcase_add_test(trees, test_many_links);
  tcase_add_test(trees, test_references);
  tcase_add_test(trees, test_references_inside);
  tcase_add_test(trees, test_regions);
  tcase_add_test(trees, test_committed);
  tcase_add_test(trees, test_committed_apart);
  tcase_add_test(trees, test_deep);
  tcase_add_test(trees, test_too_deep);
  tcase_add_test(trees, test_large_attributes);
  tcase_add_test(trees, test_user_block);
  tcase_add_test(trees, test_virtual);
  tcase_add_test(trees, test_virtual_missing);
  tcase_add_test(trees, test_external_storage);
  tcase_add_test(trees, test_awkward_values);
  tcase_add_test(trees, test_user_defined_link);
  tcase_add_test(trees, test_unreachable_reference);
  suite_add_tcase(suite, split_case);
  suite_add_tcase(suite, trees);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
