#include "publish.h"

#include "../error.h"
#include "../io.h"
#include "../manifest/manifest.h"

#include <stdlib.h>
#include <string.h>

static annb_status read_trailer(const char *path, uint64_t size, uint8_t out[sizeof(annb_fmt_trailer)], annb_error *err) {
  int fd;
  annb_status s = annb_io_open(path, &fd, err);
  if (s) return s;
  s = annb_io_pread(fd, path, out, sizeof(annb_fmt_trailer), size - sizeof(annb_fmt_trailer), err);
  (void)annb_io_close(fd, path, NULL);
  return s;
}

/* Whether `target` is what `source`, described by `object`, is. */
static annb_status compare_objects(const char *source, const char *target, const annb_fmt_object *object, bool *same, annb_error *err) {
  uint8_t a[sizeof(annb_fmt_trailer)], b[sizeof(annb_fmt_trailer)];
  uint64_t size;
  annb_status s = annb_io_file_size(target, &size, err);
  *same = !s && size == object->size;
  if (!*same || (object->kind != ANNB_OBJECT_SEGMENT && object->kind != ANNB_OBJECT_ARRAYS) || size < sizeof a) return s;
  s = read_trailer(source, size, a, err);
  if (!s) s = read_trailer(target, size, b, err);
  *same = !s && !memcmp(a, b, sizeof a);
  return s;
}

static annb_status publish_object(const char *source, const char *target, const annb_fmt_object *object, bool *linked, annb_error *err) {
  annb_error why = {.status = ANNB_OK};
  annb_path_kind kind;
  bool same = false;
  annb_status s = annb_io_publish(source, target, &why);
  *linked = s == ANNB_OK || annb_io_same_file(source, target);
  if (*linked) return ANNB_OK;
  if (!annb_io_kind(target, &kind, NULL) && kind == ANNB_PATH_FILE) {
    annb_status compared = compare_objects(source, target, object, &same, err);
    if (compared) return compared;
    if (same) return ANNB_OK;
    if (s == ANNB_EEXIST)
      return annb_fail(err, ANNB_ECORRUPT, target,
                       "is there already but is not the file of that name: it is damaged; run verify, then remove it");
  }
  if (err) *err = why;
  return s;
}

annb_status annb_publish_object(const char *store, const char *source, const annb_fmt_object *object, bool *linked, annb_error *err) {
  char *target = annb_object_path(store, object);
  if (!target) return annb_fail_memory(err);
  annb_status s = publish_object(source, target, object, linked, err);
  free(target);
  return s;
}

static bool same_bytes(const char *a, const char *b) {
  annb_map x = {NULL, 0}, y = {NULL, 0};
  bool same = !annb_io_map(a, &x, NULL) && !annb_io_map(b, &y, NULL) && x.size == y.size && !memcmp(x.data, y.data, x.size);
  annb_io_unmap(&x);
  annb_io_unmap(&y);
  return same;
}

annb_status annb_publish_manifest(const char *source, const char *target, annb_error *err) {
  annb_error why = {.status = ANNB_OK};
  annb_status s = annb_io_publish(source, target, &why);
  if (!s) return ANNB_OK;
  /* a network filesystem may answer a repeated request for a link that was made with "exists" */
  if (annb_io_same_file(source, target)) return ANNB_OK;
  /* equal inputs give equal manifests, so after "exists" equal bytes do not say whose it is */
  if (s != ANNB_EEXIST && same_bytes(source, target)) return ANNB_OK;
  if (err) *err = why;
  return s;
}
