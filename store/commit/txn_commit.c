/* Publishing a transaction: objects, then the manifest (SPEC.md 7). */
#include "txn_internal.h"

#include "../error.h"
#include "../io.h"
#include "publish.h"

#include <annblock/annblock.h>
#include <stdlib.h>
#include <string.h>

/* Fill what follows from the rows given: sums, lists of matrices, the place of the gene list. */
static annb_status complete(const annb_txn *txn, annb_manifest *m, annb_error *err) {
  const char *store = txn->dirs[DIR_STORE];
  if (m->n_parts == 0) return annb_fail(err, ANNB_EINVAL, store, "cannot be published without a part");
  m->store.n_obs = 0;
  if (m->store.var_part == ANNB_NONE && m->store.var_object == ANNB_NONE) {
    m->store.n_vars = m->parts[0].n_vars;
    m->store.var_part = 0;
  }
  m->incompat = annb_manifest_features(m);
  for (uint32_t i = 0; i < m->n_parts; i++) {
    uint32_t next = i + 1 < m->n_parts ? m->parts[i + 1].first_matrix : m->n_part_matrices;
    m->store.n_obs += m->parts[i].n_rows;
    m->parts[i].n_matrices = next - m->parts[i].first_matrix;
  }
  annb_error why = {.status = ANNB_OK};
  annb_status s = annb_manifest_check(m, store, &why);
  if (s == ANNB_ECORRUPT) return annb_fail(err, ANNB_EINVAL, NULL, "cannot be published: %.1900s", why.message);
  if (s && err) *err = why;
  return s;
}

annb_status annb_txn_base(const annb_txn *txn, annb_manifest *out, annb_error *err) {
  uint64_t generation;
  annb_manifest_init(out);
  annb_status s = annb_txn_newest(txn, &generation, err);
  return s || generation == 0 ? s : annb_txn_load_parent(txn, generation, out, err);
}

void annb_txn_set_build(annb_txn *txn, annb_txn_build_fn build, void *user) {
  txn->build = build;
  txn->build_user = user;
}

annb_status annb_txn_add_to(const annb_txn *txn, uint32_t object, annb_manifest *draft, uint32_t *row, annb_error *err) {
  return annb_manifest_add_object(draft, &txn->manifest.objects[object], row, err);
}

char *annb_txn_object_path(const annb_txn *txn, const annb_fmt_object *object) {
  for (uint32_t i = 0; i < txn->n_sources; i++)
    if (txn->manifest.objects[i].kind == object->kind && !memcmp(txn->manifest.objects[i].sha256, object->sha256, sizeof object->sha256))
      return strdup(txn->sources[i]);
  return annb_object_path(txn->dirs[DIR_STORE], object);
}

/* Generation, store id and parent of the manifest that follows `parent`, which is empty when there is none. */
static annb_status set_next(const annb_txn *txn, const annb_manifest *parent, annb_manifest *m, annb_error *err) {
  if (parent->header.generation == UINT64_MAX)
    return annb_fail(err, ANNB_ERANGE, txn->dirs[DIR_STORE], "has the highest generation there can be");
  memset(&m->header, 0, sizeof m->header);
  m->header.generation = parent->header.generation + 1;
  if (m->header.generation == 1) return ANNB_OK;
  memcpy(m->header.store_id, parent->header.store_id, sizeof m->header.store_id);
  memcpy(m->header.parent, parent->sha256, sizeof m->header.parent);
  return ANNB_OK;
}

/* The manifest to publish on the generation that is the newest now. */
static annb_status make_draft(annb_txn *txn, annb_manifest *draft, annb_error *err) {
  annb_manifest base;
  annb_manifest_init(&base);
  annb_manifest_init(draft);
  annb_status s = ANNB_OK;
  if (txn->manifest.n_objects != txn->n_sources)
    return annb_fail(err, ANNB_EINVAL, txn->dirs[DIR_STORE], "cannot be published: an object has no file");
  if (txn->mode == ANNB_TXN_APPEND) s = annb_txn_base(txn, &base, err);
  draft->store = base.store;
  if (!s) s = annb_manifest_append(draft, &base, NULL, err);
  if (!s) s = annb_manifest_append(draft, &txn->manifest, NULL, err);
  if (!s && txn->build) s = txn->build(txn->build_user, txn, &base, draft, err);
  else if (!s) s = annb_manifest_append_schema(draft, &base, err);
  if (!s && (txn->build || txn->mode == ANNB_TXN_APPEND)) s = annb_manifest_prune(draft, err);
  if (!s) s = complete(txn, draft, err);
  if (!s && txn->mode == ANNB_TXN_APPEND) s = set_next(txn, &base, draft, err); /* on this one and no later one */
  annb_manifest_free(&base);
  return s;
}

static annb_status lost_race(const annb_txn *txn, annb_error *err) {
  return annb_fail(err, ANNB_EEXIST, txn->dirs[DIR_STORE], "was created by another writer meanwhile");
}

static annb_status publish_objects(annb_txn *txn, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint32_t i = 0; !s && i < txn->n_sources; i++)
    s = annb_publish_object(txn->dirs[DIR_STORE], txn->sources[i], &txn->manifest.objects[i], &txn->linked[i], err);
  return s ? s : annb_io_fsync_dir(txn->dirs[DIR_OBJECTS], err);
}

/* The entries of the store's own directories; in a new store also its own entry. */
static annb_status sync_dirs(const annb_txn *txn, bool is_new, annb_error *err) {
  annb_status s = annb_io_fsync_dir(txn->dirs[DIR_STORE], err);
  if (s || !is_new) return s;
  char *parent = annb_io_join(txn->dirs[DIR_STORE], "..");
  if (!parent) return annb_fail_memory(err);
  s = annb_io_fsync_dir(parent, err);
  free(parent);
  return s;
}

/* The same with the generation that is the newest now: nothing of it is in the manifest. */
static annb_status set_newest(const annb_txn *txn, annb_manifest *m, annb_error *err) {
  annb_manifest parent;
  annb_status s = annb_txn_base(txn, &parent, err);
  if (!s) s = set_next(txn, &parent, m, err);
  annb_manifest_free(&parent);
  return s;
}

/* ANNB_EEXIST when another writer took the generation. */
static annb_status publish_manifest(annb_txn *txn, annb_manifest *m, annb_error *err) {
  const char *temp;
  annb_status s = txn->mode == ANNB_TXN_APPEND ? ANNB_OK : set_newest(txn, m, err);
  if (s) return s;
  if (txn->mode == ANNB_TXN_CREATE && m->header.generation > 1) return lost_race(txn, err);
  s = sync_dirs(txn, m->header.generation == 1, err);
  if (!s) s = annb_txn_temp_path(txn, &temp, err);
  if (!s) s = annb_manifest_write(m, temp, err);
  if (s) return s;
  char *path = annb_manifest_path(txn->dirs[DIR_STORE], m->header.generation);
  s = path ? annb_publish_manifest(temp, path, err) : annb_fail_memory(err);
  free(path);
  return s;
}

/* One attempt, on the store as it is now. */
static annb_status attempt(annb_txn *txn, uint64_t *generation, annb_error *err) {
  annb_manifest draft;
  annb_status s = make_draft(txn, &draft, err);
  if (!s) s = publish_objects(txn, err);
  if (!s) s = publish_manifest(txn, &draft, err);
  *generation = draft.header.generation;
  annb_manifest_free(&draft);
  return s;
}

static annb_status publish(annb_txn *txn, uint64_t *generation, annb_error *err) {
  annb_status s = annb_txn_newest(txn, generation, err);
  /* when it is lost already no object need be published first */
  if (!s && *generation > 0 && txn->mode == ANNB_TXN_CREATE) s = lost_race(txn, err);
  /* another transaction that gave up may have removed them */
  if (!s) s = annb_txn_make_dirs(txn, DIR_OBJECTS, DIR_MANIFESTS, err);
  if (s) return s;
  int tries = 0;
  do s = attempt(txn, generation, err);
  while (s == ANNB_EEXIST && txn->mode != ANNB_TXN_CREATE && ++tries < ANNB_TXN_TRIES);
  if (s == ANNB_EEXIST && txn->mode != ANNB_TXN_CREATE)
    return annb_fail(err, ANNB_ECONFLICT, txn->dirs[DIR_STORE], "got a new generation from other writers %d times in a row: try again",
                     tries);
  if (s == ANNB_EEXIST) return lost_race(txn, err);
  return s ? s : annb_io_fsync_dir(txn->dirs[DIR_MANIFESTS], err);
}

annb_status annb_txn_commit(annb_txn *txn, uint64_t *generation, annb_error *err) {
  int lock = -1;
  uint64_t made = 0;
  annb_status s = annb_io_lock_dir(txn->dirs[DIR_TMP], &lock, err);
  if (!s) s = publish(txn, &made, err);
  if (!s && generation) *generation = made;
  if (s) annb_txn_give_up(txn, lock >= 0);
  else annb_txn_remove_temps(txn);
  annb_io_unlock(lock);
  annb_txn_release(txn);
  return s;
}
