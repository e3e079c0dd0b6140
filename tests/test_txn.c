/* Transactions: what is on disk after each way a commit can end. */
#include "../store/objects/envelope.h"
#include "../store/error.h"
#include "../store/commit/publish.h"
#include "../store/commit/txn.h"
#include "suite.h"
#include "temp.h"

#include <annblock/annblock.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static char *dir, *store;
static annb_error err;

static void setup(void) {
  dir = temp_make();
  store = annb_io_join(dir, "s.annblock");
  memset(&err, 0, sizeof err);
  signal(SIGXFSZ, SIG_IGN);
}

static void teardown(void) {
  free(store);
  temp_remove(dir);
  free(dir);
}

#define OK(call) ck_assert_msg((call) == ANNB_OK, "%s: %s", #call, err.message)

static char *inside(const char *name) {
  char *path = annb_io_join(store, name);
  ck_assert_ptr_nonnull(path);
  return path;
}

/* A segment-like file: only its ends matter here. */
static uint32_t add_segment_file(annb_txn *txn, const char *content) {
  const char *temp;
  uint32_t row;
  annb_ofile file;
  annb_fmt_header header;
  annb_section_list list = {.n = 0};
  annb_fmt_object object = {.kind = ANNB_OBJECT_SEGMENT};
  annb_header_init(&header, ANNB_FILE_SEGMENT, content, strlen(content));
  annb_header_seal(&header);
  OK(annb_txn_temp_path(txn, &temp, &err));
  OK(annb_ofile_create(temp, &file, &err));
  OK(annb_ofile_write(&file, &header, sizeof header, &err));
  OK(annb_envelope_write_end(&file, &header, &list, object.footer_hash, &err));
  object.size = file.offset;
  OK(annb_ofile_finish(&file, object.sha256, &err));
  OK(annb_txn_adopt(txn, temp, &object, &row, &err));
  return row;
}

static uint32_t add_text(annb_txn *txn, const char *content, annb_object_kind kind) {
  const char *temp;
  uint32_t row;
  OK(annb_txn_temp_path(txn, &temp, &err));
  temp_write(temp, content, strlen(content));
  OK(annb_txn_add_file(txn, temp, kind, &row, &err));
  return row;
}

/* One part of 3 cells and 4 genes with a matrix of 6 nonzeros; `content` makes its objects differ. */
static void fill(annb_txn *txn, const char *content) {
  annb_manifest *m = annb_txn_manifest(txn);
  annb_part_spec part = {3, 4, ANNB_NONE, ANNB_NONE, ANNB_NONE, ANNB_NONE};
  annb_matrix_spec x = {.name = "X", .n_cols = 4, .axes = ANNB_OBS_VAR, .dtype = ANNB_F32};
  uint32_t row, segment = add_segment_file(txn, content);
  part.sidecar = add_text(txn, content, ANNB_OBJECT_SIDECAR);
  OK(annb_txn_add_matrix(txn, &x, &row, &err));
  OK(annb_txn_add_part(txn, &part, &row, &err));
  annb_fmt_segment_ref ref = {.n_rows = 3, .nnz = 6, .object = segment};
  annb_fmt_part_matrix pm = {.nnz = 6, .n_cols = 4, .first_segment = m->n_segments, .n_segments = 1, .dtype = ANNB_F32, .form = ANNB_CSR};
  pm.gene_order = pm.source_order = pm.flat = ANNB_NONE;
  OK(annb_manifest_add_segment(m, &ref, &err));
  OK(annb_manifest_add_part_matrix(m, &pm, &err));
}

static annb_txn *begin(annb_txn_mode mode, const char *content) {
  annb_txn *txn;
  OK(annb_txn_begin(store, mode, &txn, &err));
  fill(txn, content);
  return txn;
}

static uint64_t make_store(annb_txn_mode mode, const char *content) {
  uint64_t generation;
  OK(annb_txn_commit(begin(mode, content), &generation, &err));
  return generation;
}

static size_t count(const char *name) {
  char *path = inside(name);
  size_t n = temp_count(path);
  free(path);
  return n;
}

/* The generation loads, all its objects are there with the bytes that they are named after, and nothing is under tmp/. */
static annb_manifest check_whole(uint64_t generation) {
  annb_manifest m;
  char *path = annb_manifest_path(store, generation);
  OK(annb_manifest_load(path, generation, &m, &err));
  for (uint32_t i = 0; i < m.n_objects; i++) {
    char *object = annb_object_path(store, &m.objects[i]);
    uint8_t digest[ANNB_SHA256_SIZE];
    size_t size;
    annb_sha256 sha;
    uint8_t *data = temp_read(object, &size);
    ck_assert_uint_eq(size, m.objects[i].size);
    annb_sha256_init(&sha);
    annb_sha256_update(&sha, data, size);
    annb_sha256_final(&sha, digest);
    ck_assert_int_eq(memcmp(digest, m.objects[i].sha256, sizeof digest), 0);
    free(data);
    free(object);
  }
  free(path);
  ck_assert_uint_eq(count("tmp"), 0);
  return m;
}

static void check_store(uint64_t newest, size_t n_objects) {
  uint64_t latest;
  OK(annb_manifest_latest(store, &latest, &err));
  ck_assert_uint_eq(latest, newest);
  for (uint64_t g = 1; g <= newest; g++) {
    annb_manifest m = check_whole(g);
    annb_manifest_free(&m);
  }
  ck_assert_uint_eq(count("manifests"), newest);
  ck_assert_uint_eq(count("objects"), n_objects);
}

START_TEST(create) {
  ck_assert_uint_eq(make_store(ANNB_TXN_CREATE, "a"), 1);
  check_store(1, 2);
  annb_manifest m = check_whole(1);
  ck_assert_uint_eq(m.store.n_obs, 3);
  ck_assert_uint_eq(m.store.n_vars, 4);
  ck_assert_uint_eq(m.store.var_part, 0);
  ck_assert_uint_eq(m.parts[0].n_matrices, 1);
  annb_manifest_free(&m);
  ck_assert_uint_eq(temp_count(store), 3);
}
END_TEST

/* No object or manifest can be opened for writing, also not the files that another library made. */
START_TEST(files_are_read_only) {
  mode_t mask = umask(027);
  make_store(ANNB_TXN_CREATE, "a");
  for (int i = 0; i < 2; i++) {
    char *folder = inside(i ? "manifests" : "objects"), **names;
    size_t n;
    OK(annb_io_list(folder, &names, &n, &err));
    ck_assert_uint_eq(n, i ? 1 : 2);
    for (size_t k = 0; k < n; k++) {
      struct stat st;
      char *path = annb_io_join(folder, names[k]);
      ck_assert_int_eq(stat(path, &st), 0);
      ck_assert_msg((st.st_mode & 0777) == 0440, "%s has mode %o", path, (unsigned)st.st_mode & 0777);
      free(path);
    }
    annb_io_free_names(names, n);
    free(folder);
  }
  umask(mask);
}
END_TEST

START_TEST(same_input_same_bytes) {
  size_t a_size, b_size;
  make_store(ANNB_TXN_CREATE, "a");
  char *path = annb_manifest_path(store, 1);
  uint8_t *a = temp_read(path, &a_size);
  free(path);
  free(store);
  store = annb_io_join(dir, "other");
  make_store(ANNB_TXN_REPLACE, "a");
  path = annb_manifest_path(store, 1);
  uint8_t *b = temp_read(path, &b_size);
  free(path);
  ck_assert(a_size == b_size && !memcmp(a, b, a_size));
  free(a);
  free(b);
}
END_TEST

START_TEST(trailing_slashes_and_relative_paths) {
  free(store);
  store = strdup("rel.annblock//");
  char *old = getcwd(NULL, 0);
  ck_assert_int_eq(chdir(dir), 0);
  make_store(ANNB_TXN_CREATE, "a");
  check_store(1, 2);
  ck_assert_int_eq(chdir(old), 0);
  free(old);
  annb_txn *txn = NULL;
  ck_assert_int_eq(annb_txn_begin("", ANNB_TXN_CREATE, &txn, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_txn_begin(NULL, ANNB_TXN_CREATE, &txn, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_txn_begin("x", (annb_txn_mode)3, &txn, &err), ANNB_EINVAL);
  ck_assert_ptr_null(txn);
}
END_TEST

/* begin() fails with EEXIST and what is at `store` stays. */
static void check_refused(annb_txn_mode mode, const char *word) {
  annb_txn *txn;
  ck_assert_int_eq(annb_txn_begin(store, mode, &txn, &err), ANNB_EEXIST);
  ck_assert_ptr_null(txn);
  ck_assert_msg(strstr(err.message, word) != NULL, "%s", err.message);
  ck_assert_ptr_nonnull(strstr(err.message, store));
}

START_TEST(create_refuses_a_store) {
  make_store(ANNB_TXN_CREATE, "a");
  check_refused(ANNB_TXN_CREATE, "is a store already");
  check_store(1, 2);
}
END_TEST

START_TEST(refuses_a_file) {
  size_t size;
  temp_write(store, "text", 4);
  check_refused(ANNB_TXN_CREATE, "not a directory");
  check_refused(ANNB_TXN_REPLACE, "not a directory");
  uint8_t *data = temp_read(store, &size);
  ck_assert(size == 4 && !memcmp(data, "text", 4));
  free(data);
}
END_TEST

START_TEST(refuses_a_foreign_directory) {
  const char *const names[] = {"notes.txt", "objects", "manifests/00000000000000000001.annm~", "objects/readme"};
  for (int i = 0; i < 4; i++) {
    ck_assert_int_eq(mkdir(store, 0777), 0);
    char *inner = i == 2 ? inside("manifests") : inside("objects"), *file = inside(names[i]);
    if (i >= 2) ck_assert_int_eq(mkdir(inner, 0777), 0);
    temp_write(file, "x", 1);
    check_refused(ANNB_TXN_CREATE, "exists and is not");
    check_refused(ANNB_TXN_REPLACE, "exists and is not");
    ck_assert(temp_exists(file));
    ck_assert_uint_eq(temp_count(store), 1);
    free(inner);
    free(file);
    temp_remove(store);
  }
}
END_TEST

START_TEST(refuses_a_dangling_link) {
  ck_assert_int_eq(symlink("nowhere", store), 0);
  check_refused(ANNB_TXN_CREATE, "not a directory");
  ck_assert_uint_eq(temp_count(dir), 1);
}
END_TEST

START_TEST(follows_a_link_to_a_directory) {
  char *real = annb_io_join(dir, "real");
  ck_assert_int_eq(mkdir(real, 0777), 0);
  ck_assert_int_eq(symlink("real", store), 0);
  make_store(ANNB_TXN_CREATE, "a");
  check_store(1, 2);
  free(real);
}
END_TEST

START_TEST(missing_parent) {
  annb_txn *txn;
  free(store);
  store = annb_io_join(dir, "missing/s");
  ck_assert_int_eq(annb_txn_begin(store, ANNB_TXN_CREATE, &txn, &err), ANNB_EIO);
  ck_assert_int_eq(err.system_errno, ENOENT);
  ck_assert_ptr_nonnull(strstr(err.message, store));
  ck_assert_uint_eq(temp_count(dir), 0);
}
END_TEST

START_TEST(read_only_parent) {
  annb_txn *txn;
  if (geteuid() == 0) return; /* root may write anywhere */
  ck_assert_int_eq(chmod(dir, 0555), 0);
  annb_status s = annb_txn_begin(store, ANNB_TXN_CREATE, &txn, &err);
  ck_assert_int_eq(chmod(dir, 0777), 0);
  ck_assert_int_eq(s, ANNB_EIO);
  ck_assert_int_eq(err.system_errno, EACCES);
  ck_assert_uint_eq(temp_count(dir), 0);
}
END_TEST

START_TEST(abort_leaves_nothing) {
  annb_txn_abort(begin(ANNB_TXN_CREATE, "a"));
  ck_assert_uint_eq(temp_count(dir), 0);
  ck_assert_int_eq(mkdir(store, 0777), 0); /* one that was there stays */
  annb_txn_abort(begin(ANNB_TXN_CREATE, "a"));
  ck_assert_uint_eq(temp_count(store), 0);
  make_store(ANNB_TXN_CREATE, "a");
  annb_txn_abort(begin(ANNB_TXN_REPLACE, "b"));
  check_store(1, 2);
  annb_txn_abort(NULL);
}
END_TEST

START_TEST(abort_removes_unfinished_files) {
  annb_txn *txn;
  const char *a, *b;
  OK(annb_txn_begin(store, ANNB_TXN_CREATE, &txn, &err));
  OK(annb_txn_temp_path(txn, &a, &err));
  OK(annb_txn_temp_path(txn, &b, &err)); /* named, never made */
  ck_assert_str_ne(a, b);
  ck_assert_ptr_eq(strstr(a, annb_txn_tmp_dir(txn)), a);
  ck_assert(!temp_exists(a));
  temp_write(a, "half", 4);
  annb_txn_abort(txn);
  ck_assert_uint_eq(temp_count(dir), 0);
}
END_TEST

START_TEST(commit_without_a_part) {
  annb_txn *txn;
  OK(annb_txn_begin(store, ANNB_TXN_CREATE, &txn, &err));
  add_text(txn, "a", ANNB_OBJECT_SIDECAR);
  ck_assert_int_eq(annb_txn_commit(txn, NULL, &err), ANNB_EINVAL);
  ck_assert_uint_eq(temp_count(dir), 0);
}
END_TEST

START_TEST(commit_checks_the_manifest) {
  annb_txn *txn = begin(ANNB_TXN_CREATE, "a");
  annb_txn_manifest(txn)->segments[0].nnz++;
  ck_assert_int_eq(annb_txn_commit(txn, NULL, &err), ANNB_EINVAL);
  ck_assert_ptr_nonnull(strstr(err.message, "nonzeros"));
  ck_assert_uint_eq(temp_count(dir), 0);
}
END_TEST

START_TEST(wrong_arguments) {
  annb_txn *txn = begin(ANNB_TXN_CREATE, "a");
  uint8_t sha[ANNB_SHA256_SIZE];
  uint32_t row;
  const char *temp;
  char *foreign = annb_io_join(dir, "foreign");
  temp_write(foreign, "x", 1);
  ck_assert_int_eq(annb_txn_add_file(txn, foreign, ANNB_OBJECT_SIDECAR, &row, &err), ANNB_EINVAL);
  ck_assert(temp_exists(foreign));
  OK(annb_txn_temp_path(txn, &temp, &err));
  ck_assert_int_eq(annb_txn_add_file(txn, temp, ANNB_OBJECT_SIDECAR, &row, &err), ANNB_EIO); /* not written */
  ck_assert_int_eq(annb_txn_add_file(txn, temp, ANNB_OBJECT_SEGMENT, &row, &err), ANNB_EINVAL);
  OK(annb_txn_object_sha256(txn, 1, sha, &err));
  ck_assert_int_eq(annb_txn_object_sha256(txn, 2, sha, &err), ANNB_ERANGE);
  annb_matrix_spec x = {.name = "X", .n_cols = 4, .axes = ANNB_OBS_VAR, .dtype = ANNB_F32}, bad = x;
  ck_assert_int_eq(annb_txn_add_matrix(txn, &x, &row, &err), ANNB_EINVAL); /* twice */
  bad.name = NULL;
  ck_assert_int_eq(annb_txn_add_matrix(txn, &bad, &row, &err), ANNB_EINVAL);
  bad.name = "Y";
  bad.n_cols = UINT64_C(1) << 31;
  ck_assert_int_eq(annb_txn_add_matrix(txn, &bad, &row, &err), ANNB_EINVAL);
  bad = (annb_matrix_spec){.name = "Y", .axes = ANNB_OBS_FREE, .dtype = (annb_dtype)13};
  ck_assert_int_eq(annb_txn_add_matrix(txn, &bad, &row, &err), ANNB_EINVAL);
  annb_part_spec part = {3, 4, 1, ANNB_NONE, ANNB_NONE, ANNB_NONE}; /* object 1 is a sidecar, not columns */
  ck_assert_int_eq(annb_txn_add_part(txn, &part, &row, &err), ANNB_EINVAL);
  part.columns = 2;
  ck_assert_int_eq(annb_txn_add_part(txn, &part, &row, &err), ANNB_EINVAL);
  part = (annb_part_spec){ANNB_MAX_ROWS + 1, 4, ANNB_NONE, ANNB_NONE, ANNB_NONE, ANNB_NONE};
  ck_assert_int_eq(annb_txn_add_part(txn, &part, &row, &err), ANNB_EINVAL);
  OK(annb_txn_commit(txn, NULL, &err)); /* none of that did harm */
  check_store(1, 2);
  free(foreign);
}
END_TEST

START_TEST(equal_files_are_kept_once) {
  annb_txn *txn = begin(ANNB_TXN_CREATE, "a");
  ck_assert_uint_eq(count("tmp"), 3); /* segment, sidecar and the mark of the transaction */
  ck_assert_uint_eq(add_text(txn, "a", ANNB_OBJECT_SIDECAR), 1);
  ck_assert_uint_eq(add_segment_file(txn, "a"), 0);
  ck_assert_uint_eq(count("tmp"), 3);
  ck_assert_uint_eq(add_text(txn, "a", ANNB_OBJECT_RESTORE), 2);
  ck_assert_uint_eq(add_text(txn, "", ANNB_OBJECT_RESTORE), 3);
  OK(annb_txn_commit(txn, NULL, &err));
  check_store(1, 4);
}
END_TEST

START_TEST(several_parts) {
  annb_txn *txn = begin(ANNB_TXN_CREATE, "a");
  annb_manifest *m = annb_txn_manifest(txn);
  annb_part_spec part = {5, 4, ANNB_NONE, ANNB_NONE, ANNB_NONE, ANNB_NONE};
  annb_fmt_part_matrix pm = m->part_matrices[0];
  uint32_t row;
  OK(annb_txn_add_part(txn, &part, &row, &err));
  ck_assert_uint_eq(row, 1);
  annb_fmt_segment_ref ref = {.n_rows = 5, .nnz = 6, .object = add_segment_file(txn, "b")};
  pm.first_segment = 1;
  OK(annb_manifest_add_segment(m, &ref, &err));
  OK(annb_manifest_add_part_matrix(m, &pm, &err));
  OK(annb_txn_commit(txn, NULL, &err));
  annb_manifest back = check_whole(1);
  ck_assert_uint_eq(back.store.n_obs, 8);
  ck_assert_uint_eq(back.parts[1].first_matrix, 1);
  ck_assert_uint_eq(back.parts[1].n_matrices, 1);
  annb_manifest_free(&back);
}
END_TEST

/* ---- resuming what a crash left ---- */

START_TEST(resumes_an_unfinished_store) {
  make_store(ANNB_TXN_CREATE, "a");
  char *manifest = annb_manifest_path(store, 1), *stale = inside("tmp/0123456789abcdef-7"), *foreign = inside("tmp/notes");
  ck_assert_int_eq(unlink(manifest), 0); /* crash before step 5 */
  temp_write(stale, "half", 4);
  temp_write(foreign, "mine", 4);
  ck_assert_uint_eq(make_store(ANNB_TXN_CREATE, "a"), 1);
  ck_assert(!temp_exists(stale)); /* its transaction has no marker */
  ck_assert(temp_exists(foreign)); /* nobody knows whose it is */
  ck_assert_int_eq(unlink(foreign), 0);
  check_store(1, 2);
  free(manifest);
  free(stale);
  free(foreign);
}
END_TEST

/* An object of that name is there with other bytes: neither replaced nor used. */
static void damaged_object(const char *suffix, bool same_size) {
  make_store(ANNB_TXN_CREATE, "a");
  char *manifest = annb_manifest_path(store, 1), *objects = inside("objects"), **names;
  size_t n, size;
  ck_assert_int_eq(unlink(manifest), 0);
  OK(annb_io_list(objects, &names, &n, &err));
  for (size_t i = 0; i < n; i++) {
    char *path = annb_io_join(objects, names[i]);
    if (strstr(names[i], suffix)) {
      uint8_t *data = temp_read(path, &size);
      ck_assert_int_eq(unlink(path), 0);
      data[size - 20] ^= 1; /* in the trailer */
      temp_write(path, data, same_size ? size : size - 1);
      free(data);
    } else {
      ck_assert_int_eq(unlink(path), 0);
    }
    free(path);
  }
  annb_io_free_names(names, n);
  ck_assert_int_eq(annb_txn_commit(begin(ANNB_TXN_CREATE, "a"), NULL, &err), ANNB_ECORRUPT);
  ck_assert_ptr_nonnull(strstr(err.message, suffix));
  ck_assert_uint_eq(count("objects"), 1); /* what was there stays, nothing is added */
  ck_assert_uint_eq(count("tmp"), 0);
  ck_assert_uint_eq(count("manifests"), 0);
  free(objects);
  free(manifest);
}

START_TEST(damaged_object_by_size) { damaged_object(".anns", false); }
END_TEST

START_TEST(damaged_object_by_trailer) { damaged_object(".anns", true); }
END_TEST

START_TEST(damaged_newest_manifest) {
  annb_txn *txn;
  make_store(ANNB_TXN_CREATE, "a");
  char *path = annb_manifest_path(store, 2);
  temp_write(path, "x", 1);
  ck_assert_int_eq(annb_txn_begin(store, ANNB_TXN_REPLACE, &txn, &err), ANNB_ECORRUPT);
  ck_assert_ptr_nonnull(strstr(err.message, path));
  ck_assert_int_eq(unlink(path), 0);
  check_store(1, 2);
  free(path);
}
END_TEST

/* ---- several writers ---- */

START_TEST(two_creators_first_begun_wins) {
  annb_txn *a = begin(ANNB_TXN_CREATE, "a"), *b = begin(ANNB_TXN_CREATE, "b");
  OK(annb_txn_commit(a, NULL, &err));
  ck_assert_int_eq(annb_txn_commit(b, NULL, &err), ANNB_EEXIST);
  ck_assert_ptr_nonnull(strstr(err.message, "by another writer"));
  check_store(1, 2);
}
END_TEST

START_TEST(two_creators_second_begun_wins) {
  annb_txn *a = begin(ANNB_TXN_CREATE, "same"), *b = begin(ANNB_TXN_CREATE, "same");
  OK(annb_txn_commit(b, NULL, &err));
  ck_assert_int_eq(annb_txn_commit(a, NULL, &err), ANNB_EEXIST); /* it made the directories: they stay */
  check_store(1, 2);
  ck_assert_uint_eq(temp_count(store), 3);
}
END_TEST

START_TEST(one_gives_up_the_other_goes_on) {
  annb_txn *a = begin(ANNB_TXN_CREATE, "a"), *b = begin(ANNB_TXN_CREATE, "b");
  annb_txn_abort(a);
  OK(annb_txn_commit(b, NULL, &err));
  check_store(1, 2);
}
END_TEST

START_TEST(directories_removed_under_a_writer) {
  annb_txn *a = begin(ANNB_TXN_CREATE, "a");
  char *objects = inside("objects"), *manifests = inside("manifests");
  ck_assert_int_eq(rmdir(objects), 0);
  ck_assert_int_eq(rmdir(manifests), 0);
  OK(annb_txn_commit(a, NULL, &err));
  check_store(1, 2);
  free(objects);
  free(manifests);
}
END_TEST

START_TEST(two_replace) {
  uint64_t g;
  annb_txn *a = begin(ANNB_TXN_REPLACE, "a"), *b = begin(ANNB_TXN_REPLACE, "b"), *c = begin(ANNB_TXN_REPLACE, "a");
  OK(annb_txn_commit(b, &g, &err));
  ck_assert_uint_eq(g, 1);
  OK(annb_txn_commit(a, &g, &err));
  ck_assert_uint_eq(g, 2);
  OK(annb_txn_commit(c, &g, &err));
  ck_assert_uint_eq(g, 3);
  check_store(3, 4);
  annb_manifest m1 = check_whole(1), m2 = check_whole(2), m3 = check_whole(3);
  ck_assert_int_eq(memcmp(m2.header.parent, m1.sha256, ANNB_SHA256_SIZE), 0);
  ck_assert_int_eq(memcmp(m3.header.parent, m2.sha256, ANNB_SHA256_SIZE), 0);
  ck_assert_int_eq(memcmp(m2.header.store_id, m1.header.store_id, 16), 0);
  ck_assert_int_eq(memcmp(m3.header.store_id, m1.header.store_id, 16), 0);
  annb_manifest_free(&m1);
  annb_manifest_free(&m2);
  annb_manifest_free(&m3);
}
END_TEST

/* Processes that all do the same at once; `exits` counts their statuses by -status. */
static void race(annb_txn_mode mode, int n, int exits[32]) {
  int go[2];
  pid_t children[16];
  ck_assert_int_eq(pipe(go), 0);
  for (int i = 0; i < n; i++) {
    children[i] = fork();
    ck_assert_int_ge(children[i], 0);
    if (children[i] > 0) continue;
    char byte, content[16];
    annb_txn *txn;
    close(go[1]);
    ssize_t got = read(go[0], &byte, 1); /* until all are there */
    snprintf(content, sizeof content, "%d", mode == ANNB_TXN_CREATE ? i % 2 : i);
    annb_status s = got == 0 ? annb_txn_begin(store, mode, &txn, &err) : ANNB_EIO;
    if (!s) {
      fill(txn, content);
      s = annb_txn_commit(txn, NULL, &err);
    }
    _exit(-s);
  }
  close(go[0]);
  close(go[1]);
  for (int i = 0; i < n; i++) {
    int status;
    ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
    ck_assert(WIFEXITED(status));
    exits[WEXITSTATUS(status)]++;
  }
}

START_TEST(creators_race) {
  for (int round = 0; round < 5; round++) {
    int exits[32] = {0};
    race(ANNB_TXN_CREATE, 8, exits);
    ck_assert_int_eq(exits[0], 1);
    ck_assert_int_eq(exits[-ANNB_EEXIST], 7);
    check_store(1, 2);
    temp_remove(store);
  }
}
END_TEST

START_TEST(replacers_race) {
  int exits[32] = {0};
  race(ANNB_TXN_REPLACE, 8, exits);
  ck_assert_int_eq(exits[0], 8);
  check_store(8, 16);
  annb_manifest m = check_whole(1);
  for (uint64_t g = 2; g <= 8; g++) {
    annb_manifest next = check_whole(g);
    ck_assert_int_eq(memcmp(next.header.parent, m.sha256, ANNB_SHA256_SIZE), 0);
    ck_assert_int_eq(memcmp(next.header.store_id, m.header.store_id, 16), 0);
    annb_manifest_free(&m);
    m = next;
  }
  annb_manifest_free(&m);
}
END_TEST

/* Writers that begin and give up all the time, removing the directories that they made, while another one creates. */
START_TEST(giving_up_race) {
  enum { CHILDREN = 3 };
  for (int round = 0; round < 15; round++) {
    pid_t children[CHILDREN];
    int status;
    for (int i = 0; i < CHILDREN; i++) {
      children[i] = fork();
      ck_assert_int_ge(children[i], 0);
      for (int k = 0; children[i] == 0 && k < 30; k++) {
        annb_txn *txn;
        if (annb_txn_begin(store, ANNB_TXN_REPLACE, &txn, &err)) {
          fprintf(stderr, "%s\n", err.message);
          _exit(1);
        }
        annb_txn_abort(txn);
      }
      if (children[i] == 0) _exit(0);
    }
    make_store(ANNB_TXN_CREATE, "a");
    for (int i = 0; i < CHILDREN; i++) {
      ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
      ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    check_store(1, 2);
    temp_remove(store);
  }
}
END_TEST

START_TEST(manifest_names_are_never_shared) {
  char *a = annb_io_join(dir, "a"), *b = annb_io_join(dir, "b"), *target = annb_io_join(dir, "target");
  temp_write(a, "same", 4);
  temp_write(b, "same", 4);
  OK(annb_publish_manifest(a, target, &err));
  OK(annb_publish_manifest(a, target, &err)); /* the answer to the first request was lost */
  ck_assert_int_eq(annb_publish_manifest(b, target, &err), ANNB_EEXIST); /* equal bytes are another writer's all the same */
  free(a);
  free(b);
  free(target);
}
END_TEST

/* ---- a full disk ---- */

static void limit_files(uint64_t bytes) {
  struct rlimit limit;
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = bytes ? (rlim_t)bytes : limit.rlim_max;
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

START_TEST(full_disk_while_creating) {
  annb_txn *txn = begin(ANNB_TXN_CREATE, "a");
  limit_files(700); /* the manifest is larger: its objects are published by then */
  annb_status s = annb_txn_commit(txn, NULL, &err);
  limit_files(0);
  ck_assert_int_eq(s, ANNB_EIO);
  ck_assert_int_eq(err.system_errno, EFBIG);
  ck_assert_uint_eq(temp_count(dir), 0);
}
END_TEST

START_TEST(full_disk_keeps_what_was_there) {
  make_store(ANNB_TXN_CREATE, "a");
  char *manifest = annb_manifest_path(store, 1);
  ck_assert_int_eq(unlink(manifest), 0); /* unfinished, with two objects of a crash */
  annb_txn *txn = begin(ANNB_TXN_CREATE, "a");
  uint32_t other = add_text(txn, "other", ANNB_OBJECT_SIDECAR);
  ck_assert_uint_eq(other, 2);
  limit_files(700);
  annb_status s = annb_txn_commit(txn, NULL, &err);
  limit_files(0);
  ck_assert_int_eq(s, ANNB_EIO);
  ck_assert_uint_eq(count("objects"), 2);
  ck_assert_uint_eq(count("tmp"), 0);
  free(manifest);
}
END_TEST

START_TEST(full_disk_while_replacing) {
  make_store(ANNB_TXN_CREATE, "a");
  annb_txn *txn = begin(ANNB_TXN_REPLACE, "b");
  limit_files(700);
  annb_status s = annb_txn_commit(txn, NULL, &err);
  limit_files(0);
  ck_assert_int_eq(s, ANNB_EIO);
  check_store(1, 4); /* its objects stay: in a store with manifests another one may name them */
  ck_assert_uint_eq(make_store(ANNB_TXN_REPLACE, "b"), 2);
  check_store(2, 4);
}
END_TEST

START_TEST(one_fails_the_other_has_the_same_objects) {
  annb_txn *a = begin(ANNB_TXN_CREATE, "same"), *b = begin(ANNB_TXN_CREATE, "same");
  limit_files(700);
  ck_assert_int_eq(annb_txn_commit(a, NULL, &err), ANNB_EIO);
  limit_files(0);
  OK(annb_txn_commit(b, NULL, &err));
  check_store(1, 2);
}
END_TEST

START_TEST(lost_temporary_file) {
  annb_txn *txn = begin(ANNB_TXN_CREATE, "a");
  char *tmp = inside("tmp"), **names;
  size_t n;
  OK(annb_io_list(tmp, &names, &n, &err));
  for (size_t i = 0; i < n; i++) { /* someone cleaned up */
    char *path = annb_io_join(tmp, names[i]);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
  }
  annb_io_free_names(names, n);
  ck_assert_int_eq(annb_txn_commit(txn, NULL, &err), ANNB_EIO);
  ck_assert_int_eq(err.system_errno, ENOENT);
  ck_assert_uint_eq(temp_count(dir), 0);
  free(tmp);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("txn");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, create);
  tcase_add_test(tcase, files_are_read_only);
  tcase_add_test(tcase, same_input_same_bytes);
  tcase_add_test(tcase, trailing_slashes_and_relative_paths);
  tcase_add_test(tcase, create_refuses_a_store);
  tcase_add_test(tcase, refuses_a_file);
  tcase_add_test(tcase, refuses_a_foreign_directory);
  tcase_add_test(tcase, refuses_a_dangling_link);
  tcase_add_test(tcase, follows_a_link_to_a_directory);
  tcase_add_test(tcase, missing_parent);
  tcase_add_test(tcase, read_only_parent);
  tcase_add_test(tcase, abort_leaves_nothing);
  tcase_add_test(tcase, abort_removes_unfinished_files);
  tcase_add_test(tcase, commit_without_a_part);
  tcase_add_test(tcase, commit_checks_the_manifest);
  tcase_add_test(tcase, wrong_arguments);
  tcase_add_test(tcase, equal_files_are_kept_once);
  tcase_add_test(tcase, several_parts);
  tcase_add_test(tcase, resumes_an_unfinished_store);
  tcase_add_test(tcase, damaged_object_by_size);
  tcase_add_test(tcase, damaged_object_by_trailer);
  tcase_add_test(tcase, damaged_newest_manifest);
  tcase_add_test(tcase, two_creators_first_begun_wins);
  tcase_add_test(tcase, two_creators_second_begun_wins);
  tcase_add_test(tcase, one_gives_up_the_other_goes_on);
  tcase_add_test(tcase, directories_removed_under_a_writer);
  tcase_add_test(tcase, two_replace);
  tcase_add_test(tcase, creators_race);
  tcase_add_test(tcase, replacers_race);
  tcase_add_test(tcase, giving_up_race);
  tcase_add_test(tcase, manifest_names_are_never_shared);
  tcase_add_test(tcase, full_disk_while_creating);
  tcase_add_test(tcase, full_disk_keeps_what_was_there);
  tcase_add_test(tcase, full_disk_while_replacing);
  tcase_add_test(tcase, one_fails_the_other_has_the_same_objects);
  tcase_add_test(tcase, lost_temporary_file);
  suite_add_tcase(suite, tcase);
  return suite_run(suite);
}
