#include "../guard/guard.h"
#include "../sidecar/files.h"
#include "../source/lzf.h"
#include "concat.h"
#include "fill.h"
#include "output.h"
#include "subset.h"

#include "../../store/error.h"
#include "../../store/hash.h"
#include "../../store/io.h"
#include "../../store/manifest/manifest.h"
#include "../../store/objects/segment.h"
#include "../../store/commit/target.h"

#include <annblock/annblock.h>
#include <annblock/convert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_MEMORY (UINT64_C(512) << 20)
#define DEFAULT_LEVEL 4
#define LEAST_MEMORY (UINT64_C(32) << 20)

typedef struct export {
  const char *store_path, *output;
  annb_export_options options;
  annb_store *store;
  annb_context *context;
  annb_row_orders *orders; /* NULL: rows are stored as the source has them */
  uint32_t n_parts; /* to be exported */
  annb_merged merged;
  annb_output out;  /* where it really goes */
  hid_t cut;        /* of a subset: the file out.cut that it is cut into, while out.temp is the merged one */
  annb_selection rows, genes;
}
export;

/* ---- before anything is written ---- */

static annb_status read_options(export *e, const annb_export_options *options, annb_error *err) {
  if (options) e->options = *options;
  if (!e->options.memory) e->options.memory = DEFAULT_MEMORY;
  if (!e->options.level) e->options.level = DEFAULT_LEVEL;
  if (e->options.compression > ANNB_COMPRESSION_GZIP || e->options.level < 1 || e->options.level > 9)
    return annb_fail(err, ANNB_EINVAL, NULL, "compression is source, none or gzip of level 1 to 9");
  if (e->options.memory < LEAST_MEMORY) return annb_fail(err, ANNB_EINVAL, NULL, "exporting needs at least 32 MiB of memory");
  return ANNB_OK;
}

/* SPEC.md 2.2: features that readers may ignore and export may not. */
static annb_status check_feature(const char *path, uint64_t mask, uint64_t known, annb_error *err) {
  char bits[ANNB_BITS_TEXT];
  mask &= ~known;
  if (!mask) return ANNB_OK;
  annb_bits_text("export feature", mask, bits);
  return annb_fail(err, ANNB_EUNSUPPORTED, path, "has %s, unknown to this release, which can read but not export it: use a newer annblock",
                   bits);
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
  if (!s) s = check_feature(path, m.export_mask, ANNB_EXPORT_SOURCE_ORDER | ANNB_EXPORT_ROW_ORDER, err);
  for (uint32_t i = 0; !s && i < m.n_objects; i++) s = check_object(e->store_path, &m.objects[i], err);
  free(path);
  annb_manifest_free(&m);
  return s;
}

static annb_status open_store(export *e, annb_error *err) {
  const annb_open_options options = {.generation = e->options.generation, .one_part = e->options.one_part, .part = e->options.part};
  annb_store_info info;
  annb_status s = annb_store_open(e->store_path, &options, &e->store, err);
  if (!s) s = annb_context_open(&e->context, err);
  if (!s) s = annb_row_orders_open(e->store, &e->orders, err);
  if (s) return s;
  annb_store_get_info(e->store, &info);
  e->n_parts = info.n_parts;
  return info.n_parts == 1 ? check_features(e, info.generation, err) : ANNB_OK;
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

/* What follows the name of a temporary file in a message about it; NULL when it is about something else. */
static const char *after_temporary(const export *e, const char *message) {
  const char *const names[] = {e->out.temp, e->out.cut, e->out.lock};
  for (size_t i = 0; i < 3; i++) {
    const size_t n = names[i] ? strlen(names[i]) : 0;
    if (n && !strncmp(message, names[i], n) && !strncmp(message + n, ": ", 2)) return message + n + 2;
  }
  return NULL;
}

/* A failure on the file being written is told of the output: the other name says nothing to anybody. */
static void name_output(const export *e, annb_error *err) {
  if (!err || !after_temporary(e, err->message)) return;
  annb_error told = *err;
  annb_fail(err, told.status, e->output, "%.1000s (as a temporary file in %.900s)", after_temporary(e, told.message), e->out.dir);
  err->system_errno = told.system_errno;
  err->row = told.row;
}

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
  const annb_going going = {e->options.progress, e->options.user, "copying the sidecar", e->output, "the export"};
  const annb_merge_filters filters = {e->options.compression, e->options.level};
  return s ? s : annb_merge(*sidecar, restore, e->out.temp, &filters, &going, &e->merged, err);
}

static annb_fill make_fill(export *e) {
  return (annb_fill){.store = e->store,
                     .context = e->context,
                     .orders = e->orders,
                     .merged = &e->merged,
                     .out = e->merged.out,
                     .out_name = e->merged.out_name,
                     .memory = e->options.memory,
                     .n_threads = e->options.n_threads,
                     .spool_dir = e->out.dir,
                     .progress = e->options.progress,
                     .user = e->options.user};
}

static annb_status fill_all(export *e, annb_error *err) {
  annb_store_info info;
  const annb_fill fill = make_fill(e);
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
  if (!e->options.force) s = annb_io_publish(e->out.temp, e->out.path, err);
  else if (rename(e->out.temp, e->out.path)) s = annb_fail_errno(err, e->output, "replace the file");
  return s ? s : annb_io_fsync_dir(e->out.dir, err);
}

/* ---- a subset: the merged file is cut into another one ---- */

static annb_status cut(export *e, const char *sidecar, annb_error *err) {
  const annb_going going = {e->options.progress, e->options.user, "copying what is selected", e->output, "the export"};
  annb_fill fill = make_fill(e);
  annb_status s = annb_file_create(e->out.cut, e->merged.out, &e->cut, err);
  fill.out = e->cut;
  fill.out_name = e->out.cut;
  fill.rows = &e->rows;
  fill.genes = &e->genes;
  if (!s) s = annb_subset_copy(&fill, &e->options.subset, &going, err);
  if (!s) s = report(e, "flushing", err);
  annb_status finished = annb_file_finish(&e->cut, e->out.cut, s ? NULL : err);
  if (!s) s = finished;
  return s ? s : annb_file_user_block(sidecar, e->out.cut, err);
}

/* From now on the cut file is the temporary one. */
static annb_status take_cut(export *e, annb_error *err) {
  annb_merged_close(&e->merged);
  return rename(e->out.cut, e->out.temp) ? annb_fail_errno(err, e->output, "rename the temporary file") : ANNB_OK;
}

static annb_status write_subset(export *e, annb_error *err) {
  const char *sidecar = NULL;
  annb_status s = merge_files(e, &sidecar, err);
  if (!s) s = cut(e, sidecar, err);
  return s ? s : take_cut(e, err);
}

static annb_status write_whole(export *e, annb_error *err) {
  const char *sidecar = NULL;
  annb_status s = merge_files(e, &sidecar, err);
  if (!s) s = fill_all(e, err);
  if (!s) s = check_filled(e, err);
  if (!s) s = report(e, "flushing", err);
  if (!s) s = annb_merged_finish(&e->merged, err);
  annb_merged_close(&e->merged);
  return s ? s : annb_file_user_block(sidecar, e->out.temp, err);
}

/* ---- several parts: a new file ---- */

static annb_status write_parts(const export *e, annb_error *err) {
  const annb_concat concat = {e->store, e->context, e->out.temp, &e->options, &e->rows, &e->genes};
  return annb_concat_write(&concat, err);
}

/* A selection of all counts too. */
static void tell_result(const export *e, bool selected) {
  annb_store_info info;
  if (!e->options.result) return;
  annb_store_get_info(e->store, &info);
  *e->options.result = (annb_export_result){selected ? e->rows.n : info.n_obs, selected ? e->genes.n : info.n_vars};
}

static annb_status run(export *e, annb_error *err) {
  const bool subset = annb_subset_wanted(&e->options.subset);
  annb_status s = annb_output_find(e->output, e->options.force, &e->out, err);
  if (!s) s = open_store(e, err);
  if (!s) s = annb_target_check_outside(e->out.path, err);
  if (!s) s = annb_output_begin(&e->out, err);
  if (!s && (subset || e->n_parts > 1)) s = annb_select(e->store, e->orders, &e->options.subset, &e->rows, &e->genes, err);
  if (!s) s = e->n_parts > 1 ? write_parts(e, err) : subset ? write_subset(e, err) : write_whole(e, err);
  annb_merged_close(&e->merged);
  if (!s) s = flush_to_disk(e->out.temp, err);
  if (!s) s = publish(e, err);
  annb_output_end(&e->out);
  if (s) name_output(e, err);
  else tell_result(e, subset || e->n_parts > 1);
  return s;
}

static annb_status in_process(const char *store, const char *output, const annb_export_options *options, annb_error *err) {
  export e = {.store_path = store, .output = output, .cut = -1, .out = {.lock_fd = -1}};
  e.merged = (annb_merged){.sidecar = -1, .restore = -1, .out = -1};
  annb_h5_quiet quiet = annb_h5_quiet_begin();
  annb_lzf_register();
  annb_status s = read_options(&e, options, err);
  if (!s) s = run(&e, err);
  annb_context_close(e.context);
  annb_row_orders_close(e.orders);
  annb_store_close(e.store);
  annb_output_free(&e.out);
  annb_selection_free(&e.rows);
  annb_selection_free(&e.genes);
  annb_h5_quiet_end(quiet);
  return s;
}

/* ---- in a child process ---- */

typedef struct job {
  const char *store, *output;
  annb_export_options options;
} job;

static annb_status work(void *arg, annb_guard *guard, void *result, annb_error *err) {
  const job *j = arg;
  annb_export_options options = j->options;
  options.progress = annb_guard_progress;
  options.user = guard;
  options.result = result;
  return in_process(j->store, j->output, &options, err);
}

static void clean(void *arg) { annb_output_sweep(((const job *)arg)->output); }

annb_status annb_export(const char *store, const char *output, const annb_export_options *options, annb_error *err) {
  if (!store || !*store || !output || !*output)
    return annb_fail(err, ANNB_EINVAL, NULL, "exporting needs the path of a store and of an output");
  if (options && options->in_process) return in_process(store, output, options, err);
  annb_export_result made = {0, 0};
  job j = {.store = store, .output = output};
  if (options) j.options = *options;
  const annb_guarded what = {.work = work,
                             .arg = &j,
                             .result = &made,
                             .result_size = sizeof made,
                             .files = &store,
                             .n_files = 1,
                             .progress = j.options.progress,
                             .user = j.options.user,
                             .clean = clean};
  annb_status s = annb_guard_run(&what, err);
  if (!s && j.options.result) *j.options.result = made;
  return s;
}
