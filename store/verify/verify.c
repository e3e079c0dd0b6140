#include "verify.h"

#include "../error.h"
#include "../hash.h"
#include "../io.h"

#include <stdlib.h>
#include <string.h>

#define ULL(x) ((unsigned long long)(x))

/* ---- one run ---- */

static void fail_all(annb_verifier *v, annb_status status) {
  v->failure = status;
  v->stopped = true;
}

/* The finding names its file itself. */
static const char *without_path(const annb_error *finding) {
  size_t n = strlen(finding->path);
  const char *message = finding->message;
  return n && !strncmp(message, finding->path, n) && message[n] == ':' && message[n + 1] == ' ' ? message + n + 2 : message;
}

void annb_verifier_tell(annb_verifier *v, const annb_error *finding) {
  if (v->stopped) return;
  if (finding->status == ANNB_ENOMEM) {
    fail_all(v, ANNB_ENOMEM);
    return;
  }
  v->n_findings++;
  bool known = finding->row != ANNB_NO_ROW && v->first_row != ANNB_NO_ROW;
  annb_finding f = {finding->status, v->file, finding->row, known ? v->first_row + finding->row : ANNB_NO_ROW, without_path(finding)};
  if (v->finding && !v->finding(v->user, &f)) v->stopped = true;
}

static void advance(annb_verifier *v, uint64_t bytes) {
  v->done += bytes;
  if (!v->stopped && v->progress && !v->progress(v->user, v->done, v->total)) fail_all(v, ANNB_ECANCELED);
}

/* A finding on `name` in the directory of the store. */
#define FOUND(v, name, status, ...)                  \
  do {                                               \
    annb_error finding_;                             \
    (v)->file = (name);                              \
    annb_fail(&finding_, status, NULL, __VA_ARGS__); \
    annb_verifier_tell(v, &finding_);                \
  } while (0)

static annb_status hash_fd(annb_verifier *v, int fd, const char *path, annb_sha256 *sha, uint64_t size, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint64_t at = 0; at < size && !s && !v->stopped; at += ANNB_VERIFY_PIECE) {
    size_t n = size - at < ANNB_VERIFY_PIECE ? (size_t)(size - at) : ANNB_VERIFY_PIECE;
    s = annb_io_pread(fd, path, v->buffer, n, at, err);
    if (s) break;
    annb_sha256_update(sha, v->buffer, n);
    advance(v, n);
  }
  return s;
}

annb_status annb_verifier_hash(annb_verifier *v, const char *path, uint8_t sha256[ANNB_SHA256_SIZE], uint64_t *size, annb_error *err) {
  int fd;
  annb_sha256 sha;
  annb_sha256_init(&sha);
  annb_status s = annb_io_open(path, &fd, err);
  if (s) return s;
  s = annb_io_fd_size(fd, path, size, err);
  if (!s) s = hash_fd(v, fd, path, &sha, *size, err);
  (void)annb_io_close(fd, path, NULL);
  annb_sha256_final(&sha, sha256);
  return s;
}

/* ---- directories ---- */

typedef struct listing {
  char **names; /* "<dir>/<name>", relative to the store */
  size_t n;
} listing;

static void listing_free(listing *l) { annb_io_free_names(l->names, l->n); }

/* What is in a directory of the store; nothing, and a finding, when it cannot be read. */
static listing list_dir(annb_verifier *v, const char *dir) {
  listing l = {NULL, 0};
  annb_error err;
  char *path = annb_io_join(v->store, dir);
  annb_status s = path ? annb_io_list(path, &l.names, &l.n, &err) : annb_fail_memory(&err);
  for (size_t i = 0; i < l.n && !s; i++) {
    char *joined = annb_io_join(dir, l.names[i]);
    if (!joined) s = annb_fail_memory(&err);
    else free(l.names[i]), l.names[i] = joined;
  }
  free(path);
  if (!s) return l;
  listing_free(&l);
  v->file = dir;
  annb_verifier_tell(v, &err);
  return (listing){NULL, 0};
}

static void check_top(annb_verifier *v, annb_error *err) {
  static const char *const known[] = {"manifests", "objects", "tmp"};
  char **names;
  size_t n;
  annb_status s = annb_io_list(v->store, &names, &n, err);
  if (s) {
    fail_all(v, s);
    return;
  }
  for (size_t i = 0; i < n && !v->stopped; i++) {
    bool is_known = false;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) is_known |= !strcmp(names[i], known[k]);
    if (!is_known) FOUND(v, names[i], ANNB_ENOTSTORE, "is not part of a store: move it elsewhere");
  }
  annb_io_free_names(names, n);
}

static uint64_t bytes_of(annb_verifier *v, const listing *l) {
  uint64_t sum = 0, size;
  for (size_t i = 0; i < l->n; i++) {
    char *path = annb_io_join(v->store, l->names[i]);
    annb_path_kind kind;
    if (path && !annb_io_kind(path, &kind, NULL) && kind == ANNB_PATH_FILE && !annb_io_file_size(path, &size, NULL)) sum += size;
    free(path);
  }
  return sum;
}

/* ---- manifests ---- */

/* Whether `m` follows the generation before it, when that is there, and belongs to the same store. */
static void check_chain(annb_verifier *v, const annb_manifest *before, const annb_manifest *m) {
  if (before->header.generation == 0) return;
  if (memcmp(before->header.store_id, m->header.store_id, sizeof m->header.store_id))
    FOUND(v, v->file, ANNB_ECORRUPT, "belongs to another store: its store id is not that of generation %llu",
          ULL(before->header.generation));
  else if (before->header.generation + 1 == m->header.generation && memcmp(before->sha256, m->header.parent, sizeof m->header.parent))
    FOUND(v, v->file, ANNB_ECORRUPT, "names another parent than generation %llu: its SHA-256 differs",
          ULL(before->header.generation));
}

/* Load one manifest into `last`, replacing what is there. */
static void check_manifest(annb_verifier *v, const char *name, uint64_t generation, annb_manifest *last) {
  annb_manifest m;
  annb_error err;
  char *path = annb_io_join(v->store, name);
  v->file = name;
  annb_status s = path ? annb_manifest_load(path, generation, &m, &err) : annb_fail_memory(&err);
  free(path);
  if (s) {
    annb_verifier_tell(v, &err);
    return;
  }
  check_chain(v, last, &m);
  annb_manifest_free(last);
  *last = m;
  advance(v, m.file_size);
}

/* The newest manifest that is good: *newest says whether it is the store's. */
static void check_manifests(annb_verifier *v, const listing *l, annb_manifest *last, bool *newest) {
  uint64_t generation = 0, g;
  for (size_t i = 0; i < l->n && !v->stopped; i++) {
    if (annb_manifest_generation(strchr(l->names[i], '/') + 1, &g)) check_manifest(v, l->names[i], generation = g, last);
    else FOUND(v, l->names[i], ANNB_ENOTSTORE, "has no name of a manifest: move it elsewhere");
  }
  if (generation == 0 && !v->stopped)
    FOUND(v, "manifests", ANNB_ENOTSTORE,
          "holds no manifest, so this is not a store yet (or they were removed): packing into it again resumes");
  *newest = generation > 0 && last->header.generation == generation;
}

/* ---- objects that the manifest does not name ---- */

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* The SHA-256 and kind that "<64 digits>.<suffix>" states. */
static bool parse_object_name(const char *name, annb_fmt_object *object) {
  if (strlen(name) < 2 * ANNB_SHA256_SIZE) return false;
  for (int i = 0; i < ANNB_SHA256_SIZE; i++) {
    int high = digit(name[2 * i]), low = digit(name[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    object->sha256[i] = (uint8_t)(high << 4 | low);
  }
  for (uint32_t kind = ANNB_OBJECT_SEGMENT; kind <= ANNB_OBJECT_RESTORE; kind++) {
    object->kind = kind;
    if (!strcmp(name + 2 * ANNB_SHA256_SIZE, annb_object_suffix((annb_object_kind)kind))) return true;
  }
  return false;
}

static int by_name(const void *a, const void *b) {
  const annb_fmt_object *x = a, *y = b;
  int order = memcmp(x->sha256, y->sha256, sizeof x->sha256);
  return order ? order : x->kind < y->kind ? -1 : x->kind > y->kind;
}

/* The manifest's objects, sorted by name; NULL when there are none. */
static annb_fmt_object *sorted_objects(annb_verifier *v, const annb_manifest *m) {
  if (m->n_objects == 0) return NULL;
  annb_fmt_object *sorted = malloc(m->n_objects * sizeof *sorted);
  if (!sorted) {
    fail_all(v, ANNB_ENOMEM);
    return NULL;
  }
  memcpy(sorted, m->objects, m->n_objects * sizeof *sorted);
  qsort(sorted, m->n_objects, sizeof *sorted, by_name);
  return sorted;
}

static void check_unnamed(annb_verifier *v, const char *name, const annb_fmt_object *stated) {
  uint8_t sha256[ANNB_SHA256_SIZE];
  uint64_t size;
  annb_error err;
  v->file = name;
  char *path = annb_io_join(v->store, name);
  annb_status s = path ? annb_verifier_hash(v, path, sha256, &size, &err) : annb_fail_memory(&err);
  if (s) annb_verifier_tell(v, &err);
  else if (!v->stopped && memcmp(sha256, stated->sha256, sizeof sha256))
    FOUND(v, name, ANNB_ECORRUPT, "is damaged: its SHA-256 is not its name (this generation does not use it)");
  free(path);
}

static void check_rest(annb_verifier *v, const listing *l, const annb_manifest *m) {
  annb_fmt_object *sorted = sorted_objects(v, m);
  for (size_t i = 0; i < l->n && !v->stopped; i++) {
    annb_fmt_object stated;
    if (!parse_object_name(strchr(l->names[i], '/') + 1, &stated))
      FOUND(v, l->names[i], ANNB_ENOTSTORE, "has no name of an object: move it elsewhere");
    else if (!sorted || !bsearch(&stated, sorted, m->n_objects, sizeof *sorted, by_name))
      check_unnamed(v, l->names[i], &stated);
  }
  free(sorted);
}

/* ---- public ---- */

static void check_all(annb_verifier *v, annb_error *err) {
  bool newest = false;
  annb_manifest manifest;
  annb_manifest_init(&manifest);
  check_top(v, err);
  listing manifests = list_dir(v, "manifests"), objects = list_dir(v, "objects");
  v->total = bytes_of(v, &manifests) + bytes_of(v, &objects);
  check_manifests(v, &manifests, &manifest, &newest);
  if (!newest) annb_manifest_free(&manifest);
  if (newest && !v->stopped) annb_verifier_objects(v, &manifest);
  if (newest && !v->stopped && v->n_findings == 0) annb_verifier_maps(v, &manifest); /* damaged bytes need no second finding */
  if (!v->stopped) check_rest(v, &objects, &manifest);
  listing_free(&manifests);
  listing_free(&objects);
  annb_manifest_free(&manifest);
}

annb_status annb_verify(const char *path, annb_finding_fn finding, annb_progress_fn progress, void *user, uint64_t *n_findings,
                        annb_error *err) {
  uint64_t generation;
  annb_status s = annb_manifest_latest(path, &generation, err);
  if (s) return s;
  annb_verifier v = {.store = path, .finding = finding, .progress = progress, .user = user, .first_row = ANNB_NO_ROW,
                     .buffer = malloc(ANNB_VERIFY_PIECE)};
  if (!v.buffer) return annb_fail_memory(err);
  check_all(&v, err);
  free(v.buffer);
  if (n_findings) *n_findings = v.n_findings;
  if (v.failure == ANNB_ENOMEM) return annb_fail_memory(err);
  if (v.failure == ANNB_ECANCELED) return annb_fail(err, ANNB_ECANCELED, path, "verification was cancelled");
  return v.failure;
}
