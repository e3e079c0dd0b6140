#include "txn_internal.h"

#include "../error.h"
#include "../io.h"
#include "leftovers.h"
#include "target.h"

#include <annblock/annblock.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { READ_SIZE = 1 << 20 };

/* ---- the directory ---- */

static const char *const dir_names[N_DIRS] = {NULL, "objects", "manifests", "tmp"};

/* The newest generation, 0 when there is none or no directory for them (yet, or no longer). */
annb_status annb_txn_newest(const annb_txn *txn, uint64_t *generation, annb_error *err) {
  annb_error why = {.system_errno = 0};
  *generation = 0;
  annb_status s = annb_manifest_latest(txn->dirs[DIR_STORE], generation, &why);
  if (s == ANNB_ENOTSTORE || why.system_errno == ENOENT) return ANNB_OK;
  if (s && err) *err = why;
  return s;
}

annb_status annb_txn_load_parent(const annb_txn *txn, uint64_t generation, annb_manifest *out, annb_error *err) {
  char *path = annb_manifest_path(txn->dirs[DIR_STORE], generation);
  if (!path) return annb_fail_memory(err);
  annb_status s = annb_manifest_load(path, generation, out, err);
  free(path);
  return s;
}

/* There is no generation to add to: why. */
static annb_status not_a_store(const annb_txn *txn, annb_error *err) {
  const char *path = txn->dirs[DIR_STORE];
  annb_path_kind kind;
  annb_status s = annb_io_kind(path, &kind, err);
  if (s) return s;
  if (kind == ANNB_PATH_ABSENT) return annb_fail(err, ANNB_ENOTSTORE, path, "does not exist: pack the first files into it");
  if (kind != ANNB_PATH_DIR) return annb_fail(err, ANNB_ENOTSTORE, path, "is not an annblock store: it is not a directory");
  return annb_fail(err, ANNB_ENOTSTORE, path, "is not a store that parts can be added to: pack the first ones into it");
}

/* Whether the transaction may work in the directory at all: nothing is changed here. */
static annb_status check_target(const annb_txn *txn, annb_error *err) {
  uint64_t generation;
  annb_manifest parent;
  annb_status s = annb_txn_newest(txn, &generation, err);
  if (s) return s;
  if (generation == 0 && txn->mode == ANNB_TXN_APPEND) return not_a_store(txn, err);
  if (txn->mode != ANNB_TXN_APPEND) s = annb_target_check_outside(txn->dirs[DIR_STORE], err);
  if (s) return s;
  if (generation == 0) {
    s = annb_target_check_names(txn->dirs[DIR_STORE], ANNB_TARGET_STORE, err);
    if (!s) s = annb_target_check_names(txn->dirs[DIR_OBJECTS], ANNB_TARGET_OBJECTS, err);
    return s ? s : annb_target_check_names(txn->dirs[DIR_MANIFESTS], ANNB_TARGET_MANIFESTS, err);
  }
  if (txn->mode == ANNB_TXN_CREATE)
    return annb_fail(err, ANNB_EEXIST, txn->dirs[DIR_STORE], "is a store already");
  s = annb_txn_load_parent(txn, generation, &parent, err);
  if (!s) annb_manifest_free(&parent);
  return s;
}

/* Make those that are missing. */
annb_status annb_txn_make_dirs(annb_txn *txn, int first, int last, annb_error *err) {
  annb_status s = ANNB_OK;
  for (int i = first; !s && i <= last; i++) {
    bool made = false;
    s = annb_io_mkdir(txn->dirs[i], &made, err);
    if (made) txn->made[i] = true;
  }
  return s;
}

/* Those that it made and that are empty. */
static void remove_dirs(annb_txn *txn) {
  for (int i = N_DIRS - 1; i >= DIR_STORE; i--) {
    if (txn->made[i]) annb_io_rmdir(txn->dirs[i]);
  }
}

/* ---- begin and end ---- */

static annb_status set_paths(annb_txn *txn, const char *path, annb_error *err) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') length--;
  if (!(txn->dirs[DIR_STORE] = strndup(path, length))) return annb_fail_memory(err);
  for (int i = DIR_OBJECTS; i < N_DIRS; i++) {
    if (!(txn->dirs[i] = annb_io_join(txn->dirs[DIR_STORE], dir_names[i]))) return annb_fail_memory(err);
  }
  return ANNB_OK;
}

/* An empty file under tmp/, locked, as long as the transaction lives, so that others leave its files and the directories alone. When
 * one that gave up removed them just now they are made again. What killed transactions left is removed, where locks tell. */
static annb_status begin_marker(annb_txn *txn, annb_error *err) {
  const char *marker;
  bool locked = false;
  annb_status s = annb_txn_temp_path(txn, &marker, err);
  if (s) return s;
  for (int i = 0; i < ANNB_TXN_TRIES; i++) {
    annb_error why = {.system_errno = 0};
    s = annb_txn_make_dirs(txn, DIR_STORE, DIR_STORE, err);
    if (s) return s;
    s = annb_txn_make_dirs(txn, DIR_TMP, DIR_TMP, &why);
    if (!s) s = annb_io_create_locked(marker, &txn->marker, &locked, &why);
    if (!s && locked) annb_leftovers_remove(txn->dirs[DIR_TMP]);
    if (!s) return ANNB_OK;
    if (why.system_errno != ENOENT) {
      if (err) *err = why;
      return s;
    }
  }
  return annb_fail(err, ANNB_ECONFLICT, txn->dirs[DIR_STORE], "is made and removed by other writers all the time: try again");
}

/* The marker last: files without one are taken for leftovers. */
void annb_txn_remove_temps(const annb_txn *txn) {
  for (uint32_t i = txn->n_temps; i-- > 0;) annb_io_unlink(txn->temps[i]);
}

void annb_txn_release(annb_txn *txn) {
  annb_io_unlock(txn->marker);
  for (int i = 0; i < N_DIRS; i++) free(txn->dirs[i]);
  for (uint32_t i = 0; i < txn->n_temps; i++) free(txn->temps[i]);
  free(txn->temps);
  free(txn->sources);
  free(txn->linked);
  annb_manifest_free(&txn->manifest);
  free(txn);
}

/* No transaction has a file under tmp/. */
static bool nobody_else(const annb_txn *txn) {
  char **names;
  size_t n;
  annb_path_kind kind;
  if (!annb_io_kind(txn->dirs[DIR_TMP], &kind, NULL) && kind == ANNB_PATH_ABSENT) return true;
  if (annb_io_list(txn->dirs[DIR_TMP], &names, &n, NULL)) return false;
  annb_io_free_names(names, n);
  return n == 0;
}

/* Remove what the transaction wrote. In a store that has a manifest its objects stay: that manifest may name them. In one that has
 * none they go, when no other transaction can be about to name them: while `locked`, or when there is no other. */
void annb_txn_give_up(annb_txn *txn, bool locked) {
  uint64_t generation;
  annb_txn_remove_temps(txn);
  if (annb_txn_newest(txn, &generation, NULL) || generation > 0) return;
  bool alone = nobody_else(txn);
  for (uint32_t i = 0; (locked || alone) && i < txn->n_sources; i++) {
    char *path = txn->linked[i] ? annb_object_path(txn->dirs[DIR_STORE], &txn->manifest.objects[i]) : NULL;
    if (path) annb_io_unlink(path);
    free(path);
  }
  if (alone) remove_dirs(txn);
}

annb_status annb_txn_begin(const char *path, annb_txn_mode mode, annb_txn **out, annb_error *err) {
  *out = NULL;
  if (!path || !*path) return annb_fail(err, ANNB_EINVAL, NULL, "the path of the store is empty");
  if (mode != ANNB_TXN_CREATE && mode != ANNB_TXN_REPLACE && mode != ANNB_TXN_APPEND)
    return annb_fail(err, ANNB_EINVAL, path, "unknown mode of transaction %d", (int)mode);
  annb_txn *txn = calloc(1, sizeof *txn);
  if (!txn) return annb_fail_memory(err);
  annb_manifest_init(&txn->manifest);
  txn->mode = mode;
  txn->marker = -1;
  txn->unique = annb_io_unique();
  annb_status s = set_paths(txn, path, err);
  if (!s) s = check_target(txn, err);
  if (s) {
    annb_txn_release(txn);
    return s;
  }
  s = begin_marker(txn, err);
  if (!s) s = annb_txn_make_dirs(txn, DIR_OBJECTS, DIR_MANIFESTS, err);
  if (s) annb_txn_abort(txn);
  else *out = txn;
  return s;
}

void annb_txn_abort(annb_txn *txn) {
  if (!txn) return;
  annb_txn_give_up(txn, false);
  annb_txn_release(txn);
}

/* ---- collecting ---- */

annb_manifest *annb_txn_manifest(annb_txn *txn) { return &txn->manifest; }

const char *annb_txn_tmp_dir(const annb_txn *txn) { return txn->dirs[DIR_TMP]; }

annb_status annb_txn_temp_path(annb_txn *txn, const char **path, annb_error *err) {
  char name[ANNB_TEMP_NAME];
  char **temps = realloc(txn->temps, ((size_t)txn->n_temps + 1) * sizeof *temps);
  if (!temps) return annb_fail_memory(err);
  txn->temps = temps;
  annb_temp_name(name, txn->unique, txn->n_temps);
  if (!(temps[txn->n_temps] = annb_io_join(txn->dirs[DIR_TMP], name))) return annb_fail_memory(err);
  *path = temps[txn->n_temps++];
  return ANNB_OK;
}

/* The transaction's own copy of a temporary path, or NULL. */
static const char *find_temp(const annb_txn *txn, const char *path) {
  for (uint32_t i = txn->n_temps; i-- > 1;) {
    if (!strcmp(txn->temps[i], path)) return txn->temps[i];
  }
  return NULL;
}

annb_status annb_txn_adopt(annb_txn *txn, const char *temp_path, const annb_fmt_object *object, uint32_t *row, annb_error *err) {
  uint32_t before = txn->manifest.n_objects;
  const char *source = find_temp(txn, temp_path);
  if (!source) return annb_fail(err, ANNB_EINVAL, temp_path, "is not a temporary file of this transaction");
  const char **sources = realloc(txn->sources, ((size_t)before + 1) * sizeof *sources);
  if (!sources) return annb_fail_memory(err);
  txn->sources = sources;
  bool *linked = realloc(txn->linked, ((size_t)before + 1) * sizeof *linked);
  if (!linked) return annb_fail_memory(err);
  txn->linked = linked;
  annb_status s = annb_manifest_add_object(&txn->manifest, object, row, err);
  if (s) return s;
  if (*row < before) {
    if (txn->sources[*row] != source) annb_io_unlink(source);
    return ANNB_OK;
  }
  sources[*row] = source;
  linked[*row] = false;
  txn->n_sources = txn->manifest.n_objects;
  return ANNB_OK;
}

/* Size and SHA-256 of an open file. */
static annb_status hash_file(int fd, const char *path, annb_fmt_object *object, annb_error *err) {
  annb_sha256 sha;
  annb_status s = annb_io_fd_size(fd, path, &object->size, err);
  if (s) return s;
  uint8_t *buffer = malloc(READ_SIZE);
  if (!buffer) return annb_fail_memory(err);
  annb_sha256_init(&sha);
  for (uint64_t at = 0; !s && at < object->size;) {
    size_t n = object->size - at < READ_SIZE ? (size_t)(object->size - at) : READ_SIZE;
    s = annb_io_pread(fd, path, buffer, n, at, err);
    if (!s) annb_sha256_update(&sha, buffer, n);
    at += n;
  }
  annb_sha256_final(&sha, object->sha256);
  free(buffer);
  return s;
}

annb_status annb_txn_add_file(annb_txn *txn, const char *temp_path, annb_object_kind kind, uint32_t *object, annb_error *err) {
  annb_fmt_object row = {.kind = (uint32_t)kind};
  int fd;
  if (kind != ANNB_OBJECT_SIDECAR && kind != ANNB_OBJECT_RESTORE)
    return annb_fail(err, ANNB_EINVAL, temp_path, "cannot be added as an object of kind %d: only sidecar and restore files are", (int)kind);
  annb_status s = annb_io_open(temp_path, &fd, err);
  if (s) return s;
  annb_io_make_read_only(fd);
  s = hash_file(fd, temp_path, &row, err);
  if (!s) s = annb_io_fsync(fd, temp_path, err);
  annb_status closed = annb_io_close(fd, temp_path, s ? NULL : err);
  if (!s) s = closed;
  return s ? s : annb_txn_adopt(txn, temp_path, &row, object, err);
}

annb_status annb_txn_object_sha256(const annb_txn *txn, uint32_t object, uint8_t sha256[ANNB_SHA256_SIZE], annb_error *err) {
  if (object >= txn->manifest.n_objects)
    return annb_fail(err, ANNB_ERANGE, NULL, "object %u of %u was asked for", object, txn->manifest.n_objects);
  memcpy(sha256, txn->manifest.objects[object].sha256, ANNB_SHA256_SIZE);
  return ANNB_OK;
}

annb_status annb_txn_add_matrix(annb_txn *txn, const annb_matrix_spec *spec, uint32_t *matrix, annb_error *err) {
  if (!spec->name) return annb_fail(err, ANNB_EINVAL, NULL, "a matrix needs a name");
  if (spec->n_cols > ANNB_MAX_COLS || spec->axes < ANNB_OBS_VAR || spec->axes > ANNB_OBS_FREE || !annb_dtype_size(spec->dtype) ||
      (unsigned)spec->absent > ANNB_ABSENT_ERROR)
    return annb_fail(err, ANNB_EINVAL, NULL, "matrix '%.200s': columns, axes, dtype or the rule for parts without it are out of range",
                     spec->name);
  annb_fmt_matrix row = {.n_cols = spec->n_cols, .axes = (uint8_t)spec->axes, .dtype = (uint8_t)spec->dtype,
                         .absent = (uint8_t)spec->absent};
  return annb_manifest_add_matrix(&txn->manifest, spec->name, row, matrix, err);
}

annb_status annb_txn_add_part(annb_txn *txn, const annb_part_spec *spec, uint32_t *part, annb_error *err) {
  const annb_manifest *m = &txn->manifest;
  const uint32_t objects[] = {spec->columns, spec->sidecar, spec->restore, spec->row_order};
  const uint32_t kinds[] = {ANNB_OBJECT_ARRAYS, ANNB_OBJECT_SIDECAR, ANNB_OBJECT_RESTORE, ANNB_OBJECT_ARRAYS};
  if (spec->n_rows > ANNB_MAX_ROWS || spec->n_vars > ANNB_MAX_COLS)
    return annb_fail(err, ANNB_EINVAL, NULL, "a part of %llu cells and %llu genes is larger than the format allows",
                     (unsigned long long)spec->n_rows, (unsigned long long)spec->n_vars);
  for (int i = 0; i < 4; i++) {
    if (objects[i] != ANNB_NONE && (objects[i] >= m->n_objects || m->objects[objects[i]].kind != kinds[i]))
      return annb_fail(err, ANNB_EINVAL, NULL, "a part names object %u, which does not exist or is not of kind %u", objects[i], kinds[i]);
  }
  annb_fmt_part row = {.n_rows = spec->n_rows, .n_vars = spec->n_vars, .columns = spec->columns, .sidecar = spec->sidecar,
                       .restore = spec->restore};
  row.gene_map = row.code_map = row.row_filter = ANNB_NONE;
  row.row_order = spec->row_order;
  if (spec->row_order != ANNB_NONE) txn->manifest.export_mask |= ANNB_EXPORT_ROW_ORDER;
  row.first_matrix = m->n_part_matrices;
  return annb_manifest_add_part(&txn->manifest, &row, part, err);
}
