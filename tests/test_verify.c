/* Verify: a whole store has no finding, and no damage to any byte, length or name of it goes unseen. */
#include "suite.h"
#include "temp.h"

#include "../store/manifest/manifest.h"
#include "../store/verify/verify.h"

#include <fcntl.h>

static char *dir, *store;
static annb_error err;

#define OK(call) ck_assert_msg((call) == ANNB_OK, "%s", err.message)
/* ck_assert tells the parent process each time that it was passed: too slow for inner loops. */
#define REQUIRE(condition, ...) (void)((condition) ? 0 : (ck_abort_msg(__VA_ARGS__), 0))

/* Under valgrind everything is some 50 times slower: take a part of the exhaustive loops. */
static bool slow(void) {
  const char *preload = getenv("LD_PRELOAD");
  return preload && strstr(preload, "vgpreload");
}

/* ---- a small complete store: X in two segments, a layer in one, columns, sidecar ---- */

enum { N_ROWS = 6, N_COLS = 5 };

static const uint64_t indptr[] = {0, 2, 2, 5, 6, 8, 9};
static const uint32_t indices[] = {0, 3, 4, 1, 1, 2, 0, 4, 3};
static const float values[] = {1, 2, 1, 5, 7, 1, 3, 1, 1};

static uint32_t add_strings(annb_arrays_writer *w, const char *name, annb_axis axis, uint64_t n, uint8_t flags) {
  annb_string_writer *strings;
  annb_column_spec spec = {name, n, axis, ANNB_COLUMN_STRING, flags, 0, 0, ANNB_NONE, ANNB_NONE};
  uint32_t column;
  OK(annb_strings_begin(w, &strings, &err));
  for (uint64_t i = 0; i < n; i++) OK(annb_strings_append(strings, "name", i % 5, &err));
  OK(annb_strings_end(strings, &spec.values, &spec.bytes, &err));
  OK(annb_arrays_add_column(w, &spec, &column, &err));
  return column;
}

static void add_codes(annb_arrays_writer *w, uint64_t n_rows) {
  static const int8_t codes[N_ROWS] = {0, 1, -1, 2, 0, 1};
  annb_column_spec spec = {"cell_type", n_rows, ANNB_AXIS_OBS, ANNB_COLUMN_CATEGORICAL, 0, 0, ANNB_NONE, ANNB_NONE, 0};
  uint32_t column;
  spec.categories = add_strings(w, "", ANNB_AXIS_NONE, 3, 0);
  OK(annb_arrays_begin(w, "", ANNB_I8, 1, &spec.values, &err));
  OK(annb_arrays_append(w, codes, n_rows, &err));
  OK(annb_arrays_end(w, &err));
  OK(annb_arrays_add_column(w, &spec, &column, &err));
}

static uint32_t add_columns(annb_txn *txn, uint64_t n_obs, uint64_t n_vars) {
  annb_arrays_writer *w;
  uint32_t object;
  OK(annb_arrays_writer_open(txn, &w, &err));
  add_strings(w, "obs_names", ANNB_AXIS_OBS, n_obs, ANNB_COLUMN_INDEX);
  add_codes(w, n_obs);
  add_strings(w, "var_names", ANNB_AXIS_VAR, n_vars, ANNB_COLUMN_INDEX);
  OK(annb_arrays_writer_close(w, &object, &err));
  return object;
}

static uint32_t add_sidecar(annb_txn *txn) {
  const char *path;
  uint32_t object;
  OK(annb_txn_temp_path(txn, &path, &err));
  temp_write(path, "what stands for an h5ad file", 28);
  OK(annb_txn_add_file(txn, path, ANNB_OBJECT_SIDECAR, &object, &err));
  return object;
}

static void add_matrix(annb_txn *txn, uint32_t matrix, uint64_t segment_rows) {
  annb_matrix_writer_options options = {.n_cols = N_COLS, .dtype = ANNB_F32, .form = ANNB_CSR, .segment_rows = segment_rows, .block_rows = 4};
  annb_matrix_writer *w;
  options.tag[0] = (uint8_t)matrix;
  OK(annb_matrix_writer_open(txn, &options, &w, &err));
  OK(annb_matrix_writer_append(w, N_ROWS, indptr, indices, values, &err));
  OK(annb_matrix_writer_close(w, 0, matrix, NULL, &err));
}

/* One generation; columns of other lengths than the part's when told. */
static void publish(uint64_t obs_length, uint64_t var_length) {
  annb_txn *txn;
  uint32_t x, layer, row;
  annb_matrix_spec a = {"X", N_COLS, ANNB_OBS_VAR, ANNB_F32, ANNB_ABSENT_NEVER}, b = {"layers/a", N_COLS, ANNB_OBS_VAR, ANNB_F32, ANNB_ABSENT_NEVER};
  OK(annb_txn_begin(store, ANNB_TXN_REPLACE, &txn, &err));
  annb_part_spec part = {N_ROWS, N_COLS, add_columns(txn, obs_length, var_length), add_sidecar(txn), ANNB_NONE, ANNB_NONE};
  OK(annb_txn_add_matrix(txn, &a, &x, &err));
  OK(annb_txn_add_matrix(txn, &b, &layer, &err));
  OK(annb_txn_add_part(txn, &part, &row, &err));
  add_matrix(txn, x, 4);
  add_matrix(txn, layer, 0);
  OK(annb_txn_commit(txn, NULL, &err));
}

static void setup(void) {
  dir = temp_make();
  store = annb_io_join(dir, "s.annblock");
  publish(N_ROWS, N_COLS);
}

static void teardown(void) {
  temp_remove(dir);
  free(dir);
  free(store);
}

/* ---- verify with a record of what it says ---- */

typedef struct heard {
  uint64_t n, stop_after;
  annb_status status; /* of the first */
  int64_t row;
  char path[256], message[2048], second[2048];
} heard;

static bool hear(void *user, const annb_finding *finding) {
  heard *h = user;
  REQUIRE(finding->status < 0 && finding->message[0] && finding->path[0], "an empty finding");
  REQUIRE(!strstr(finding->message, store), "the message repeats the path: %s", finding->message);
  if (h->n == 0) {
    h->status = finding->status;
    h->row = finding->row;
    snprintf(h->path, sizeof h->path, "%s", finding->path);
    snprintf(h->message, sizeof h->message, "%s", finding->message);
  } else if (h->n == 1) {
    snprintf(h->second, sizeof h->second, "%s", finding->message);
  }
  return ++h->n != h->stop_after;
}

static heard verify(void) {
  heard h = {.n = 0};
  uint64_t n = 99;
  annb_status s = annb_verify(store, hear, NULL, &h, &n, &err);
  REQUIRE(s == ANNB_OK, "%s", err.message);
  REQUIRE(n == h.n, "counts %llu findings, told %llu", (unsigned long long)n, (unsigned long long)h.n);
  return h;
}

/* ---- the files of the store ---- */

typedef struct file {
  char *name, *path; /* relative; whole */
  uint8_t *data;
  size_t size;
} file;

typedef struct files {
  file *at;
  size_t n;
} files;

static void files_in(files *f, const char *sub) {
  char **names, *path = annb_io_join(store, sub);
  size_t n;
  OK(annb_io_list(path, &names, &n, &err));
  f->at = realloc(f->at, (f->n + n) * sizeof *f->at);
  for (size_t i = 0; i < n; i++) {
    file *one = &f->at[f->n++];
    one->name = annb_io_join(sub, names[i]);
    one->path = annb_io_join(store, one->name);
    one->data = temp_read(one->path, &one->size);
  }
  annb_io_free_names(names, n);
  free(path);
}

static files all_files(void) {
  files f = {NULL, 0};
  files_in(&f, "manifests");
  files_in(&f, "objects");
  return f;
}

static void files_free(files *f) {
  for (size_t i = 0; i < f->n; i++) {
    free(f->at[i].name);
    free(f->at[i].path);
    free(f->at[i].data);
  }
  free(f->at);
}

static file *file_with(const files *f, const char *suffix) {
  for (size_t i = 0; i < f->n; i++)
    if (strlen(f->at[i].name) > strlen(suffix) && !strcmp(f->at[i].name + strlen(f->at[i].name) - strlen(suffix), suffix)) return &f->at[i];
  ck_abort_msg("no %s file", suffix);
  return NULL;
}

static void restore(const file *f) { temp_write(f->path, f->data, f->size); }

/* ---- whole stores ---- */

START_TEST(a_whole_store_has_no_finding) {
  heard h = verify();
  ck_assert_msg(h.n == 0, "%s", h.message);
  ck_assert_int_eq(annb_verify(store, NULL, NULL, NULL, NULL, NULL), ANNB_OK);
  char *slash = annb_io_join(store, "");
  ck_assert_int_eq(annb_verify(slash, hear, NULL, &h, NULL, NULL), ANNB_OK);
  ck_assert_uint_eq(h.n, 0);
  free(slash);
}
END_TEST

START_TEST(generations_are_a_chain) {
  publish(N_ROWS, N_COLS);
  publish(N_ROWS, N_COLS);
  ck_assert_uint_eq(verify().n, 0);
  char *second = annb_manifest_path(store, 2), *third = annb_manifest_path(store, 3), *other = annb_io_join(dir, "t.annblock"), *mine = store;
  size_t size;
  uint8_t *data = temp_read(second, &size);
  store = other; /* another store's generation 2 in place of ours */
  publish(N_ROWS, N_COLS);
  publish(3, N_COLS);
  char *foreign = annb_manifest_path(store, 2);
  size_t foreign_size;
  uint8_t *foreign_data = temp_read(foreign, &foreign_size);
  store = mine;
  temp_write(second, foreign_data, foreign_size);
  heard h = verify();
  ck_assert_uint_ge(h.n, 1);
  ck_assert_str_eq(h.path, "manifests/00000000000000000003.annm");
  ck_assert_ptr_nonnull(strstr(h.message, "parent"));
  temp_write(second, data, size);
  ck_assert_uint_eq(verify().n, 0);
  data[size / 2] ^= 4; /* an older manifest is checked too */
  temp_write(second, data, size);
  h = verify();
  ck_assert_uint_ge(h.n, 1);
  ck_assert_str_eq(h.path, "manifests/00000000000000000002.annm");
  ck_assert_int_eq(unlink(second), 0); /* a missing one is not an error: the chain is checked where it is there */
  ck_assert_uint_eq(verify().n, 0);
  free(foreign_data);
  free(foreign);
  free(data);
  free(second);
  free(third);
  free(other);
}
END_TEST

START_TEST(no_store_is_an_error_of_the_call) {
  char *nothing = annb_io_join(dir, "nothing"), *manifests = annb_io_join(store, "manifests"), *moved = annb_io_join(dir, "moved");
  ck_assert_int_eq(annb_verify(nothing, hear, NULL, NULL, NULL, &err), ANNB_ENOTSTORE);
  ck_assert_int_eq(annb_verify(dir, hear, NULL, NULL, NULL, &err), ANNB_ENOTSTORE);
  temp_write(nothing, "x", 1);
  ck_assert_int_eq(annb_verify(nothing, hear, NULL, NULL, NULL, &err), ANNB_ENOTSTORE);
  ck_assert_int_eq(rename(manifests, moved), 0);
  ck_assert_int_eq(annb_verify(store, hear, NULL, NULL, NULL, &err), ANNB_ENOTSTORE);
  ck_assert_ptr_nonnull(strstr(err.message, store));
  free(nothing);
  free(manifests);
  free(moved);
}
END_TEST

/* ---- names ---- */

START_TEST(unknown_names_are_told) {
  static const char *const names[] = {"README", "objects/notes.txt", "manifests/1.annm", "manifests/00000000000000000000.annm",
                                      "objects/0123456789abcdef.anns"};
  char *path = annb_io_join(store, names[_i]);
  temp_write(path, "x", 1);
  heard h = verify();
  ck_assert_uint_eq(h.n, 1);
  ck_assert_str_eq(h.path, names[_i]);
  ck_assert_int_eq(h.status, ANNB_ENOTSTORE);
  free(path);
}
END_TEST

START_TEST(files_in_tmp_are_none_of_its_business) {
  char *path = annb_io_join(store, "tmp/0000-1");
  temp_write(path, "x", 1);
  ck_assert_uint_eq(verify().n, 0);
  free(path);
}
END_TEST

/* An object that no manifest names is whole when its name says so. */
START_TEST(unused_objects_are_held_to_their_names) {
  static const char name[] = "objects/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881.h5";
  char *path = annb_io_join(store, name);
  temp_write(path, "x", 1); /* its SHA-256 */
  ck_assert_uint_eq(verify().n, 0);
  temp_write(path, "y", 1);
  heard h = verify();
  ck_assert_uint_eq(h.n, 1);
  ck_assert_str_eq(h.path, name);
  ck_assert_int_eq(h.status, ANNB_ECORRUPT);
  ck_assert_int_eq(unlink(path), 0);
  ck_assert_int_eq(mkdir(path, 0777), 0);
  ck_assert_uint_eq(verify().n, 1);
  free(path);
}
END_TEST

START_TEST(every_deleted_file_is_missed) {
  files f = all_files();
  for (size_t i = 0; i < f.n; i++) {
    ck_assert_int_eq(unlink(f.at[i].path), 0);
    heard h = verify();
    ck_assert_uint_eq(h.n, 1);
    if (i > 0) {
      ck_assert_str_eq(h.path, f.at[i].name);
      ck_assert_int_eq(h.status, ANNB_ENOTFOUND);
    }
    restore(&f.at[i]);
  }
  ck_assert_uint_eq(verify().n, 0);
  files_free(&f);
}
END_TEST

START_TEST(swapped_segments_are_told) {
  files f = all_files();
  file *segments[3];
  size_t n = 0;
  for (size_t i = 0; i < f.n; i++)
    if (strstr(f.at[i].name, ".anns")) segments[n++] = &f.at[i];
  ck_assert_uint_eq(n, 3);
  for (size_t i = 0; i < 3; i++) {
    temp_write(segments[i]->path, segments[(i + 1) % 3]->data, segments[(i + 1) % 3]->size);
    heard h = verify();
    ck_assert_uint_ge(h.n, 1);
    ck_assert_str_eq(h.path, segments[i]->name);
    restore(segments[i]);
  }
  files_free(&f);
}
END_TEST

/* ---- damage ---- */

/* Offsets that matter: all of them; under valgrind a sample. */
static size_t step_at(const file *f, size_t at) { return !slow() ? 1 : at < 128 || at + 600 > f->size ? 37 : 1021; }

static uint32_t object_row(const annb_manifest *m, const file *f) {
  for (uint32_t i = 0; i < m->n_objects; i++) {
    char *path = annb_object_path(store, &m->objects[i]);
    bool same = !strcmp(path, f->path);
    free(path);
    if (same) return i;
  }
  return ANNB_NONE;
}

/* What the whole call says; of most bytes of an object only what its own part of the call says, which is faster. */
static heard verify_one(annb_verifier *v, const annb_manifest *m, uint32_t object, bool whole) {
  heard h = {.n = 0};
  if (whole || object == ANNB_NONE) return verify();
  v->user = &h;
  v->n_findings = 0;
  v->stopped = false;
  annb_verifier_some_objects(v, m, object, object + 1);
  REQUIRE(!v->failure, "fails with %d", v->failure);
  return h;
}

START_TEST(every_flipped_byte_is_seen) {
  files f = all_files();
  annb_manifest m;
  annb_verifier v = {.store = store, .finding = hear, .first_row = ANNB_NO_ROW, .buffer = malloc(ANNB_VERIFY_PIECE)};
  file *one = &f.at[_i];
  OK(annb_manifest_load(f.at[0].path, 1, &m, &err));
  uint32_t object = object_row(&m, one);
  ck_assert_uint_eq(f.n, 6);
  ck_assert_int_eq(object == ANNB_NONE, _i == 0);
  ck_assert_uint_eq(verify_one(&v, &m, object, false).n, 0);
  temp_writable(one->path);
  int fd = open(one->path, O_RDWR);
  ck_assert_int_ge(fd, 0);
  for (size_t at = 0; at < one->size; at += step_at(one, at))
    for (int bit = 0; bit < 8; bit += 7) {
      uint8_t changed = one->data[at] ^ (uint8_t)(1 << bit);
      REQUIRE(pwrite(fd, &changed, 1, (off_t)at) == 1, "cannot write");
      heard h = verify_one(&v, &m, object, at % 32 == 0);
      REQUIRE(h.n > 0 && !strcmp(h.path, one->name), "%s: byte %zu xor %d gives %llu findings", one->name, at, 1 << bit, (unsigned long long)h.n);
      REQUIRE(pwrite(fd, &one->data[at], 1, (off_t)at) == 1, "cannot write");
    }
  close(fd);
  ck_assert_uint_eq(verify().n, 0);
  annb_manifest_free(&m);
  free(v.buffer);
  files_free(&f);
}
END_TEST

/* Near a border of the structure, or every 64th. */
static bool worth_cutting(const file *f, size_t length) {
  size_t page = length % ANNB_PAGE;
  if (slow()) return length % 1024 == 0 || length + 3 > f->size;
  return f->size < ANNB_PAGE || length % 64 == 0 || page < 24 || page > ANNB_PAGE - 8 || length < 136 || length + 420 > f->size;
}

START_TEST(every_cut_is_seen) {
  files f = all_files();
  for (size_t i = 0; i < f.n; i++) {
    file *one = &f.at[i];
    temp_writable(one->path);
    for (size_t length = one->size; length-- > 0;) {
      if (!worth_cutting(one, length)) continue;
      REQUIRE(truncate(one->path, (off_t)length) == 0, "cannot cut");
      heard h = verify();
      REQUIRE(h.n > 0 && !strcmp(h.path, one->name), "%s: cut at %zu is not seen", one->name, length);
    }
    restore(one);
  }
  ck_assert_uint_eq(verify().n, 0);
  files_free(&f);
}
END_TEST

START_TEST(appended_bytes_are_seen) {
  files f = all_files();
  for (size_t i = 0; i < f.n; i++) {
    temp_writable(f.at[i].path);
    ck_assert_int_eq(truncate(f.at[i].path, (off_t)f.at[i].size + 1 + (off_t)i * 64), 0);
    heard h = verify();
    ck_assert_uint_ge(h.n, 1);
    ck_assert_str_eq(h.path, f.at[i].name);
    restore(&f.at[i]);
  }
  files_free(&f);
}
END_TEST

/* ---- what is said ---- */

/* Flip one byte of a file and hear exactly one finding, the most exact one. */
static heard damage(const char *suffix, size_t at) {
  files f = all_files();
  file *one = file_with(&f, suffix);
  one->data[at] ^= 1;
  restore(one);
  heard h = verify();
  ck_assert_str_eq(h.path, one->name);
  one->data[at] ^= 1;
  restore(one);
  files_free(&f);
  return h;
}

START_TEST(findings_are_exact) {
  heard h = damage(".anns", 4096);
  ck_assert_uint_eq(h.n, 1);
  ck_assert_int_eq(h.row, 0);
  ck_assert_ptr_nonnull(strstr(h.message, "record of row 0"));
  h = damage(".anns", 200);
  ck_assert_uint_eq(h.n, 1);
  ck_assert_ptr_nonnull(strstr(h.message, "padding"));
  h = damage(".anns", 50);
  ck_assert_uint_eq(h.n, 1);
  ck_assert_ptr_nonnull(strstr(h.message, "header"));
  h = damage(".annc", 128);
  ck_assert_uint_eq(h.n, 1);
  ck_assert_ptr_nonnull(strstr(h.message, "chunk 0"));
  h = damage(".h5ad", 5);
  ck_assert_uint_eq(h.n, 1);
  ck_assert_ptr_nonnull(strstr(h.message, "SHA-256"));
  h = damage(".annm", 130);
  ck_assert_uint_eq(h.n, 1);
  ck_assert_ptr_nonnull(strstr(h.message, "section 1"));
}
END_TEST

START_TEST(damage_in_two_files_is_told_of_both) {
  files f = all_files();
  file *a = file_with(&f, ".annc"), *b = file_with(&f, ".h5ad");
  a->data[200] ^= 1;
  b->data[1] ^= 1;
  restore(a);
  restore(b);
  heard h = verify();
  ck_assert_uint_eq(h.n, 2);
  ck_assert_str_ne(h.message, h.second);
  files_free(&f);
}
END_TEST

START_TEST(columns_must_have_the_length_of_the_part) {
  temp_remove(store);
  publish(_i == 0 ? 4 : N_ROWS, _i == 1 ? 3 : N_COLS);
  heard h = verify();
  ck_assert_uint_ge(h.n, 1);
  ck_assert_ptr_nonnull(strstr(h.path, ".annc"));
  ck_assert_ptr_nonnull(strstr(h.message, "its part"));
}
END_TEST

/* A manifest that is whole but says other numbers than the segments, or another order of them. */
START_TEST(the_manifest_is_held_against_the_segments) {
  annb_manifest m;
  char *path = annb_manifest_path(store, 1);
  OK(annb_manifest_load(path, 1, &m, &err));
  const char *word = NULL;
  if (_i == 0) {
    m.segments[0].nnz++, m.segments[1].nnz--, word = "elements";
  } else if (_i == 1) {
    m.segments[0].n_rows--, m.segments[1].n_rows++, word = "rows";
  } else if (_i == 2) {
    m.part_matrices[0].dtype = ANNB_I32, word = "value type";
  } else if (_i == 3) {
    uint32_t first = m.segments[0].object;
    m.segments[0].object = m.segments[1].object, m.segments[1].object = first, word = "rows";
  } else if (_i == 4) {
    m.objects[m.segments[0].object].footer_hash[3] ^= 1, word = "footer hash";
  } else {
    m.objects[m.segments[0].object].size++, word = "bytes";
  }
  ck_assert_int_eq(unlink(path), 0);
  OK(annb_manifest_write(&m, path, &err));
  heard h = verify();
  ck_assert_uint_ge(h.n, 1);
  ck_assert_ptr_nonnull(strstr(h.path, ".anns"));
  ck_assert_msg(strstr(h.message, word), "%s", h.message);
  annb_manifest_free(&m);
  free(path);
}
END_TEST

/* ---- callbacks ---- */

typedef struct watch {
  uint64_t done, total, calls, cancel_at;
} watch;

static bool watch_progress(void *user, uint64_t done, uint64_t total) {
  watch *w = user;
  ck_assert_uint_ge(done, w->done);
  ck_assert_uint_le(done, total);
  w->done = done;
  w->total = total;
  return ++w->calls != w->cancel_at;
}

START_TEST(progress_reaches_the_end) {
  files f = all_files();
  watch w = {.done = 0};
  uint64_t sum = 0;
  for (size_t i = 0; i < f.n; i++) sum += f.at[i].size;
  OK(annb_verify(store, NULL, watch_progress, &w, NULL, &err));
  ck_assert_uint_eq(w.done, sum);
  ck_assert_uint_eq(w.total, sum);
  uint64_t calls = w.calls;
  for (uint64_t k = 1; k <= calls; k++) {
    w = (watch){.cancel_at = k};
    ck_assert_int_eq(annb_verify(store, NULL, watch_progress, &w, NULL, &err), ANNB_ECANCELED);
    ck_assert_uint_eq(w.calls, k);
  }
  files_free(&f);
}
END_TEST

START_TEST(a_finding_can_stop_it) {
  files f = all_files();
  for (size_t i = 1; i < f.n; i++) ck_assert_int_eq(unlink(f.at[i].path), 0);
  ck_assert_uint_eq(verify().n, f.n - 1);
  heard h = {.stop_after = 2};
  uint64_t n = 0;
  OK(annb_verify(store, hear, NULL, &h, &n, &err));
  ck_assert_uint_eq(h.n, 2);
  ck_assert_uint_eq(n, 2);
  files_free(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("verify");
  TCase *tc = tcase_create("all");
  tcase_set_timeout(tc, 600);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, a_whole_store_has_no_finding);
  tcase_add_test(tc, generations_are_a_chain);
  tcase_add_test(tc, no_store_is_an_error_of_the_call);
  tcase_add_loop_test(tc, unknown_names_are_told, 0, 5);
  tcase_add_test(tc, files_in_tmp_are_none_of_its_business);
  tcase_add_test(tc, unused_objects_are_held_to_their_names);
  tcase_add_test(tc, every_deleted_file_is_missed);
  tcase_add_test(tc, swapped_segments_are_told);
  tcase_add_loop_test(tc, every_flipped_byte_is_seen, 0, 6);
  tcase_add_test(tc, every_cut_is_seen);
  tcase_add_test(tc, appended_bytes_are_seen);
  tcase_add_test(tc, findings_are_exact);
  tcase_add_test(tc, damage_in_two_files_is_told_of_both);
  tcase_add_loop_test(tc, columns_must_have_the_length_of_the_part, 0, 2);
  tcase_add_loop_test(tc, the_manifest_is_held_against_the_segments, 0, 6);
  tcase_add_test(tc, progress_reaches_the_end);
  tcase_add_test(tc, a_finding_can_stop_it);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
