#define _XOPEN_SOURCE 700 /* realpath */

#include "files.h"
#include "fill.h"
#include "lzf.h"

#include "../store/error.h"
#include "../store/hash.h"
#include "../store/io.h"
#include "../store/manifest.h"
#include "../store/segment.h"

#include <annblock/annblock.h>
#include <annblock/convert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_MEMORY (UINT64_C(512) << 20)
#define LEAST_MEMORY (UINT64_C(32) << 20)

typedef struct export {
  const char *store_path, *output;
  annb_export_options options;
  annb_store *store;
  annb_context *context;
  annb_merged merged;
  char *dir, *temp; /* of the output; the file being written in it */
}
export;

/* ---- before anything is written ---- */

static annb_status read_options(export *e, const annb_export_options *options, annb_error *err) {
  if (options) e->options = *options;
  if (!e->options.memory) e->options.memory = DEFAULT_MEMORY;
  if (e->options.memory < LEAST_MEMORY) return annb_fail(err, ANNB_EINVAL, NULL, "exporting needs at least 32 MiB of memory");
  return ANNB_OK;
}

static annb_status make_names(export *e, annb_error *err) {
  const char *slash = strrchr(e->output, '/');
  char name[64];
  if (!*(slash ? slash + 1 : e->output)) return annb_fail(err, ANNB_EINVAL, e->output, "is not the name of a file");
  e->dir = slash == e->output ? strdup("/") : slash ? strndup(e->output, (size_t)(slash - e->output)) : strdup(".");
  snprintf(name, sizeof name, ".annblock-export-%016" PRIx64 ".tmp", annb_io_unique());
  e->temp = e->dir ? annb_io_join(e->dir, name) : NULL;
  return e->temp ? ANNB_OK : annb_fail_memory(err);
}

static annb_status check_output(const export *e, annb_error *err) {
  annb_path_kind kind;
  annb_status s = annb_io_kind(e->output, &kind, err);
  if (s) return s;
  if (kind == ANNB_PATH_DIR) return annb_fail(err, ANNB_EEXIST, e->output, "is a directory");
  if (kind == ANNB_PATH_OTHER) return annb_fail(err, ANNB_EEXIST, e->output, "exists and is not a regular file");
  if (kind == ANNB_PATH_FILE && !e->options.force)
    return annb_fail(err, ANNB_EEXIST, e->output, "exists already: choose another name, or force it to be replaced");
  s = annb_io_kind(e->dir, &kind, err);
  if (!s && kind != ANNB_PATH_DIR) s = annb_fail(err, ANNB_EIO, e->dir, "is not a directory: nothing can be written there");
  return s;
}

/* The output must not lie in the store. */
static annb_status check_outside(const export *e, annb_error *err) {
  char *store = realpath(e->store_path, NULL), *dir = realpath(e->dir, NULL);
  annb_status s = store && dir ? ANNB_OK : annb_fail_errno(err, store ? e->dir : e->store_path, "examine");
  size_t n = store ? strlen(store) : 0;
  if (!s && !strncmp(dir, store, n) && (dir[n] == '/' || !dir[n]))
    s = annb_fail(err, ANNB_EINVAL, e->output, "lies inside the store, whose files never change: choose another place");
  free(store);
  free(dir);
  return s;
}

/* SPEC.md 2.2: features that readers may ignore and export may not. */
static annb_status check_feature(const char *path, uint64_t mask, uint64_t known, annb_error *err) {
  mask &= ~known;
  if (!mask) return ANNB_OK;
  return annb_fail(err, ANNB_EUNSUPPORTED, path, "uses a feature that this version cannot export (bit %d)", __builtin_ctzll(mask));
}

static annb_status check_object(const char *store, const annb_fmt_object *object, annb_error *err) {
  if (object->kind != ANNB_OBJECT_SEGMENT) return ANNB_OK;
  annb_segment *segment = NULL;
  char *path = annb_object_path(store, object);
  annb_status s = path ? annb_segment_open(path, &segment, err) : annb_fail_memory(err);
  if (!s) s = check_feature(path, segment->envelope.header.export_mask, ANNB_EXPORT_SORTED, err);
  annb_segment_close(segment);
  free(path);
  return s;
}

static annb_status check_features(const export *e, uint64_t generation, annb_error *err) {
  annb_manifest m;
  annb_manifest_init(&m);
  char *path = annb_manifest_path(e->store_path, generation);
  annb_status s = path ? annb_manifest_load(path, generation, &m, err) : annb_fail_memory(err);
  if (!s) s = check_feature(path, m.export_mask, ANNB_EXPORT_SOURCE_ORDER, err);
  for (uint32_t i = 0; !s && i < m.n_objects; i++) s = check_object(e->store_path, &m.objects[i], err);
  free(path);
  annb_manifest_free(&m);
  return s;
}

static annb_status open_store(export *e, annb_error *err) {
  const annb_open_options options = {.generation = e->options.generation};
  annb_store_info info;
  annb_status s = annb_store_open(e->store_path, &options, &e->store, err);
  if (!s) s = annb_context_open(&e->context, err);
  if (s) return s;
  annb_store_get_info(e->store, &info);
  if (info.n_parts == 1) return check_features(e, info.generation, err);
  return annb_fail(err, ANNB_EUNSUPPORTED, e->store_path, "has %u parts: only a store of one part can be exported", info.n_parts);
}

/* HDF5 would not notice damage: the file's bytes must be those that gave it its name. */
static annb_status check_sha256(const char *path, annb_error *err) {
  annb_map map;
  annb_sha256 sha;
  uint8_t sum[ANNB_SHA256_SIZE];
  char hex[65];
  annb_status s = annb_io_map(path, &map, err);
  if (s) return s;
  annb_sha256_init(&sha);
  for (uint64_t at = 0; at < map.size; at += 1 << 20)
    annb_sha256_update(&sha, map.data + at, map.size - at < 1 << 20 ? map.size - at : 1 << 20);
  annb_sha256_final(&sha, sum);
  annb_io_unmap(&map);
  annb_sha256_hex(sum, hex);
  const char *slash = strrchr(path, '/');
  if (!strncmp(slash ? slash + 1 : path, hex, 64)) return ANNB_OK;
  return annb_fail(err, ANNB_ECORRUPT, path, "is damaged: its SHA-256 is %s, which is not its name", hex);
}

/* ---- writing ---- */

static annb_status report(const export *e, const char *stage, annb_error *err) {
  if (!e->options.progress || e->options.progress(e->options.user, stage, 0, 0)) return ANNB_OK;
  return annb_fail(err, ANNB_ECANCELED, e->output, "the export was cancelled");
}

static annb_status merge_files(export *e, const char **sidecar, annb_error *err) {
  const char *restore = NULL;
  annb_status s = annb_store_part_file(e->store, 0, ANNB_OBJECT_SIDECAR, sidecar, err);
  if (!s && !*sidecar) s = annb_fail(err, ANNB_EUNSUPPORTED, e->store_path, "has no sidecar: it was not packed from an .h5ad file");
  if (!s) s = annb_store_part_file(e->store, 0, ANNB_OBJECT_RESTORE, &restore, err);
  if (!s) s = report(e, "checking the sidecar", err);
  if (!s) s = check_sha256(*sidecar, err);
  if (!s && restore) s = check_sha256(restore, err);
  if (!s) s = report(e, "copying the sidecar", err);
  return s ? s : annb_merge(*sidecar, restore, e->temp, &e->merged, err);
}

static annb_status fill_all(export *e, annb_error *err) {
  annb_store_info info;
  const annb_fill fill = {e->store, e->context, &e->merged, e->options.memory, e->dir, e->options.progress, e->options.user};
  annb_status s = ANNB_OK;
  annb_store_get_info(e->store, &info);
  for (uint32_t i = 0; !s && i < info.n_matrices; i++) s = annb_fill_matrix(&fill, i, err);
  return s;
}

/* A dataset of the restore file that no matrix of the store belongs to would be left without values. */
static annb_status check_filled(const export *e, annb_error *err) {
  for (size_t i = 0; i < e->merged.n_empty; i++)
    if (!e->merged.empty[i].filled)
      return annb_fail(err, ANNB_ECORRUPT, e->merged.restore_name, "has a shell (%s) that no matrix of the store fills",
                       e->merged.empty[i].role);
  return ANNB_OK;
}

static annb_status flush_to_disk(const char *path, annb_error *err) {
  int fd;
  annb_status s = annb_io_open(path, &fd, err);
  if (s) return s;
  s = annb_io_fsync(fd, path, err);
  annb_status closed = annb_io_close(fd, path, s ? NULL : err);
  return s ? s : closed;
}

static annb_status publish(const export *e, annb_error *err) {
  annb_status s = ANNB_OK;
  if (!e->options.force) s = annb_io_publish(e->temp, e->output, err);
  else if (rename(e->temp, e->output)) s = annb_fail_errno(err, e->output, "replace the file");
  return s ? s : annb_io_fsync_dir(e->dir, err);
}

static annb_status run(export *e, annb_error *err) {
  const char *sidecar = NULL;
  annb_status s = make_names(e, err);
  if (!s) s = check_output(e, err);
  if (!s) s = open_store(e, err);
  if (!s) s = check_outside(e, err);
  if (!s) s = merge_files(e, &sidecar, err);
  if (!s) s = fill_all(e, err);
  if (!s) s = check_filled(e, err);
  if (!s) s = report(e, "flushing", err);
  if (!s) s = annb_merged_finish(&e->merged, err);
  annb_merged_close(&e->merged);
  if (!s) s = annb_file_user_block(sidecar, e->temp, err);
  if (!s) s = flush_to_disk(e->temp, err);
  if (!s) s = publish(e, err);
  if (e->temp) annb_io_unlink(e->temp);
  return s;
}

annb_status annb_export(const char *store, const char *output, const annb_export_options *options, annb_error *err) {
  if (!store || !*store || !output || !*output)
    return annb_fail(err, ANNB_EINVAL, NULL, "exporting needs the path of a store and of an output");
  export e = {.store_path = store, .output = output, .merged = {.sidecar = -1, .restore = -1, .out = -1}};
  annb_h5_quiet quiet = annb_h5_quiet_begin();
  annb_lzf_register();
  annb_status s = read_options(&e, options, err);
  if (!s) s = run(&e, err);
  annb_context_close(e.context);
  annb_store_close(e.store);
  free(e.dir);
  free(e.temp);
  annb_h5_quiet_end(quiet);
  return s;
}
