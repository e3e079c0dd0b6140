#include "split.h"

#include "../convert/sidecar/files.h"
#include "../convert/sidecar/graph.h"
#include "h5_make.h"
#include "temp.h"

#include <annblock/convert.h>

static char *dir;
static annb_h5_quiet quiet;
char split_source[600], split_sidecar[600], split_restore[600], split_output[600];
annb_error split_err;
const int64_t split_pointers[5] = {0, 2, 2, 3, 5};
const int32_t split_indices[5] = {0, 2, 1, 0, 1};
const float split_values[5] = {1, 2, 3, 4, 5};

void split_name(char *out, const char *name) { snprintf(out, 600, "%s/%s", dir, name); }

void split_setup(void) {
  dir = temp_make();
  split_name(split_source, "source.h5ad");
  split_name(split_sidecar, "sidecar.h5ad");
  split_name(split_restore, "restore.h5");
  split_name(split_output, "output.h5ad");
  quiet = annb_h5_quiet_begin();
  memset(&split_err, 0, sizeof split_err);
}

void split_teardown(void) {
  annb_h5_quiet_end(quiet);
  temp_remove(dir);
  free(dir);
}

/* ---- making ---- */

hid_t split_begin(void) {
  h5_make_h5ad(split_source, "csr_matrix", 4, 3, split_pointers, split_indices, split_values, 5);
  hid_t file = H5Fopen(split_source, H5F_ACC_RDWR, H5P_DEFAULT);
  ck_assert(file >= 0);
  H5Gclose(h5_make_group(file, "uns"));
  H5Gclose(h5_make_group(file, "layers"));
  return file;
}

void split_numbers(hid_t parent, const char *name) {
  const int32_t data[] = {3, 1, 4, 1, 5, 9};
  h5_make_vector(parent, name, H5T_STD_I32BE, 6, H5T_NATIVE_INT32, data);
}

void split_make_reference(hid_t object, const char *attribute, hid_t file, const char *target) {
  hobj_ref_t reference;
  ck_assert(H5Rcreate(&reference, file, target, H5R_OBJECT, -1) >= 0);
  hid_t space = H5Screate(H5S_SCALAR), attr = H5Acreate2(object, attribute, H5T_STD_REF_OBJ, space, H5P_DEFAULT, H5P_DEFAULT);
  ck_assert(H5Awrite(attr, H5T_STD_REF_OBJ, &reference) >= 0);
  H5Aclose(attr);
  H5Sclose(space);
}

hid_t split_tracked_group(hid_t parent, const char *name) {
  hid_t properties = H5Pcreate(H5P_GROUP_CREATE);
  H5Pset_link_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  H5Pset_attr_creation_order(properties, H5P_CRT_ORDER_TRACKED);
  hid_t group = H5Gcreate2(parent, name, H5P_DEFAULT, properties, H5P_DEFAULT);
  ck_assert(group >= 0);
  H5Pclose(properties);
  return group;
}

/* ---- running ---- */

annb_status split_file(const annb_packed *packed, size_t n) {
  hid_t file;
  annb_status s = annb_h5_open(split_source, &file, &split_err);
  ck_assert_int_eq(s, ANNB_OK);
  s = annb_sidecar_write(file, split_source, packed, n, split_sidecar, split_restore, NULL, &split_err);
  ck_assert_int_eq(H5Fget_obj_count(file, H5F_OBJ_ALL), 1);
  annb_h5_close(&file);
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
  ck_assert_int_eq(annb_h5_read_rows(a, split_source, path, type, 0, n, data, &split_err), ANNB_OK);
  ck_assert_int_eq(annb_h5_write_rows(b, split_output, path, type, 0, n, data, &split_err), ANNB_OK);
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

static void split_join(void) {
  annb_merged m;
  hid_t file;
  uint64_t different;
  annb_status s = annb_merge(split_sidecar, split_restore, split_output, NULL, NULL, &m, &split_err);
  ck_assert_msg(s == ANNB_OK, "%s", split_err.message);
  ck_assert_int_eq(annb_h5_open(split_source, &file, &split_err), ANNB_OK);
  static const char *const paths[] = {"/X",        "/X/data",        "/X/indices",        "/X/indptr",
                                      "/layers/x", "/layers/x/data", "/layers/x/indices", "/layers/x/indptr"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) fill(file, &m, paths[i]);
  H5Fclose(file);
  ck_assert_int_eq(annb_merged_finish(&m, &split_err), ANNB_OK);
  ck_assert_int_eq(annb_file_user_block(split_sidecar, split_output, &split_err), ANNB_OK);
  ck_assert_int_eq(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
  s = annb_compare(split_source, split_output, show, NULL, &different, &split_err);
  ck_assert_msg(s == ANNB_OK, "%s", split_err.message);
  ck_assert_uint_eq(different, 0);
}

void split_round_trip_of(const annb_packed *packed, size_t n) {
  annb_status s = split_file(packed, n);
  ck_assert_msg(s == ANNB_OK, "%s", split_err.message);
  split_join();
}

void split_round_trip(void) {
  const annb_packed packed = {"/X", 5, false, false};
  split_round_trip_of(&packed, 1);
}

bool split_has(const char *path, const char *link) {
  hid_t file;
  ck_assert_int_eq(annb_h5_open(path, &file, &split_err), ANNB_OK);
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

void split_refused(annb_status status, const char *text) {
  const annb_packed packed = {"/X", 5, false, false};
  ck_assert_int_eq(split_file(&packed, 1), status);
  ck_assert_msg(strstr(split_err.message, text) != NULL, "\"%s\" is not in: %s", text, split_err.message);
  ck_assert_msg(strstr(split_err.message, "source.h5ad") != NULL, "%s", split_err.message);
}

/* Names of a group's links in the order in which they come. */
char *split_names_of(const char *path, const char *group) {
  annb_links links;
  hid_t file;
  char *text = calloc(1, 1000);
  ck_assert_int_eq(annb_h5_open(path, &file, &split_err), ANNB_OK);
  hid_t id = H5Gopen2(file, group, H5P_DEFAULT);
  ck_assert_int_eq(annb_links_read(id, false, path, group, &links, &split_err), ANNB_OK);
  ck_assert(links.tracked);
  for (size_t i = 0; i < links.n; i++) strcat(strcat(text, i ? " " : ""), links.rows[i].name);
  annb_links_free(&links);
  H5Gclose(id);
  H5Fclose(file);
  return text;
}
