#include "manifest.h"

#include "../cursor.h"
#include "../error.h"
#include "../io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SECTIONS = 8, NAME_DIGITS = 20 };

void annb_manifest_init(annb_manifest *manifest) {
  memset(manifest, 0, sizeof *manifest);
  manifest->store.var_part = ANNB_NONE;
  manifest->store.var_object = ANNB_NONE;
}

void annb_manifest_free(annb_manifest *manifest) {
  free(manifest->objects);
  free(manifest->matrices);
  free(manifest->parts);
  free(manifest->part_matrices);
  free(manifest->segments);
  free(manifest->schema);
  free(manifest->names);
  annb_manifest_init(manifest);
}

/* ---- paths ---- */

char *annb_manifest_path(const char *store, uint64_t generation) {
  char name[64];
  snprintf(name, sizeof name, "manifests/%020llu.annm", (unsigned long long)generation);
  return annb_io_join(store, name);
}

const char *annb_object_suffix(annb_object_kind kind) {
  switch (kind) {
  case ANNB_OBJECT_SEGMENT:
    return ".anns";
  case ANNB_OBJECT_ARRAYS:
    return ".annc";
  case ANNB_OBJECT_SIDECAR:
    return ".h5ad";
  case ANNB_OBJECT_RESTORE:
    return ".h5";
  }
  return NULL;
}

char *annb_object_path(const char *store, const annb_fmt_object *object) {
  char hex[65], name[96];
  const char *suffix = annb_object_suffix((annb_object_kind)object->kind);
  if (!suffix) return NULL;
  annb_sha256_hex(object->sha256, hex);
  snprintf(name, sizeof name, "objects/%s%s", hex, suffix);
  return annb_io_join(store, name);
}

bool annb_manifest_generation(const char *name, uint64_t *generation) {
  uint64_t n = 0;
  if (strlen(name) != NAME_DIGITS + 5 || strcmp(name + NAME_DIGITS, ".annm")) return false;
  for (int i = 0; i < NAME_DIGITS; i++) {
    if (name[i] < '0' || name[i] > '9') return false;
    if (!annb_mul(n, 10, &n) || !annb_add(n, (uint64_t)(name[i] - '0'), &n)) return false;
  }
  *generation = n;
  return n > 0;
}

annb_status annb_manifest_latest(const char *store, uint64_t *generation, annb_error *err) {
  char **names;
  size_t n;
  annb_path_kind kind;
  annb_status s = annb_io_kind(store, &kind, err);
  if (s) return s;
  if (kind == ANNB_PATH_ABSENT) return annb_fail(err, ANNB_ENOTSTORE, store, "does not exist");
  if (kind != ANNB_PATH_DIR) return annb_fail(err, ANNB_ENOTSTORE, store, "is not an annblock store: it is not a directory");
  char *dir = annb_io_join(store, "manifests");
  if (!dir) return annb_fail_memory(err);
  s = annb_io_kind(dir, &kind, err);
  if (!s && kind != ANNB_PATH_DIR) s = annb_fail(err, ANNB_ENOTSTORE, store, "is not an annblock store: it has no directory manifests/");
  if (!s) s = annb_io_list(dir, &names, &n, err);
  free(dir);
  if (s) return s;
  *generation = 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t g;
    if (annb_manifest_generation(names[i], &g) && g > *generation) *generation = g;
  }
  annb_io_free_names(names, n);
  return ANNB_OK;
}

/* ---- building ---- */

/* Room for one row more at the end of `rows`, or NULL. */
static void *grow(void *rows, uint32_t n, size_t row_size) { return realloc(rows, ((size_t)n + 1) * row_size); }

static annb_status too_many(const char *what, annb_error *err) {
  return annb_fail(err, ANNB_EINVAL, NULL, "too many %s for one store (limit %llu)", what, (unsigned long long)ANNB_MAX_TABLE);
}

annb_status annb_manifest_add_object(annb_manifest *manifest, const annb_fmt_object *object, uint32_t *row, annb_error *err) {
  for (uint32_t i = 0; i < manifest->n_objects; i++) {
    const annb_fmt_object *o = &manifest->objects[i];
    if (o->kind != object->kind || memcmp(o->sha256, object->sha256, sizeof o->sha256)) continue;
    *row = i;
    return ANNB_OK;
  }
  if (manifest->n_objects >= ANNB_MAX_TABLE) return too_many("objects", err);
  annb_fmt_object *rows = grow(manifest->objects, manifest->n_objects, sizeof *rows);
  if (!rows) return annb_fail_memory(err);
  manifest->objects = rows;
  rows[manifest->n_objects] = *object;
  *row = manifest->n_objects++;
  return ANNB_OK;
}

static annb_status add_name(annb_manifest *manifest, const char *name, size_t length, uint32_t *offset, annb_error *err) {
  if (length > ANNB_NONE - 1 - manifest->names_length)
    return annb_fail(err, ANNB_EINVAL, NULL, "the names of the store are too long together");
  char *names = realloc(manifest->names, manifest->names_length + length + 1);
  if (!names) return annb_fail_memory(err);
  manifest->names = names;
  memcpy(names + manifest->names_length, name, length);
  *offset = manifest->names_length;
  manifest->names_length += (uint32_t)length;
  return ANNB_OK;
}

annb_status annb_manifest_add_matrix(annb_manifest *manifest, const char *name, annb_fmt_matrix matrix, uint32_t *row, annb_error *err) {
  size_t length = strlen(name);
  if (length == 0 || length > ANNB_MAX_NAME)
    return annb_fail(err, ANNB_EINVAL, NULL, "the name of a matrix must have 1 to %u bytes, not %zu", ANNB_MAX_NAME, length);
  if (annb_manifest_find_matrix(manifest, name) != ANNB_NONE)
    return annb_fail(err, ANNB_EINVAL, NULL, "the store has a matrix '%.200s' already", name);
  if (manifest->n_matrices >= ANNB_MAX_TABLE) return too_many("matrices", err);
  annb_fmt_matrix *rows = grow(manifest->matrices, manifest->n_matrices, sizeof *rows);
  if (!rows) return annb_fail_memory(err);
  manifest->matrices = rows;
  annb_status s = add_name(manifest, name, length, &matrix.name_offset, err);
  if (s) return s;
  matrix.name_length = (uint32_t)length;
  rows[manifest->n_matrices] = matrix;
  *row = manifest->n_matrices++;
  return ANNB_OK;
}

annb_status annb_manifest_add_part(annb_manifest *manifest, const annb_fmt_part *part, uint32_t *row, annb_error *err) {
  if (manifest->n_parts >= ANNB_MAX_TABLE) return too_many("parts", err);
  annb_fmt_part *rows = grow(manifest->parts, manifest->n_parts, sizeof *rows);
  if (!rows) return annb_fail_memory(err);
  manifest->parts = rows;
  rows[manifest->n_parts] = *part;
  *row = manifest->n_parts++;
  return ANNB_OK;
}

annb_status annb_manifest_add_part_matrix(annb_manifest *manifest, const annb_fmt_part_matrix *part_matrix, annb_error *err) {
  if (manifest->n_part_matrices >= ANNB_NONE - 1) return too_many("matrices of parts", err);
  annb_fmt_part_matrix *rows = grow(manifest->part_matrices, manifest->n_part_matrices, sizeof *rows);
  if (!rows) return annb_fail_memory(err);
  manifest->part_matrices = rows;
  rows[manifest->n_part_matrices++] = *part_matrix;
  return ANNB_OK;
}

annb_status annb_manifest_add_segment(annb_manifest *manifest, const annb_fmt_segment_ref *segment, annb_error *err) {
  if (manifest->n_segments >= ANNB_MAX_TABLE) return too_many("segments", err);
  annb_fmt_segment_ref *rows = grow(manifest->segments, manifest->n_segments, sizeof *rows);
  if (!rows) return annb_fail_memory(err);
  manifest->segments = rows;
  rows[manifest->n_segments++] = *segment;
  return ANNB_OK;
}

annb_status annb_manifest_add_schema(annb_manifest *manifest, const char *name, annb_fmt_schema row, annb_error *err) {
  if (strlen(name) > ANNB_MAX_NAME)
    return annb_fail(err, ANNB_EINVAL, NULL, "the name of a column must have at most %u bytes", ANNB_MAX_NAME);
  if (manifest->n_schema >= ANNB_MAX_SCHEMA)
    return annb_fail(err, ANNB_EINVAL, NULL, "too many columns for several parts in one store (limit %u)", ANNB_MAX_SCHEMA);
  annb_fmt_schema *rows = grow(manifest->schema, manifest->n_schema, sizeof *rows);
  if (!rows) return annb_fail_memory(err);
  manifest->schema = rows;
  annb_status s = add_name(manifest, name, strlen(name), &row.name_offset, err);
  if (s) return s;
  row.name_length = (uint32_t)strlen(name);
  rows[manifest->n_schema++] = row;
  return ANNB_OK;
}

uint64_t annb_manifest_features(const annb_manifest *manifest) {
  uint64_t bits = manifest->n_schema ? ANNB_INCOMPAT_SCHEMA : 0;
  for (uint32_t i = 0; i < manifest->n_parts; i++) {
    if (manifest->parts[i].gene_map != ANNB_NONE) bits |= ANNB_INCOMPAT_GENE_MAP;
    if (manifest->parts[i].code_map != ANNB_NONE) bits |= ANNB_INCOMPAT_CODE_MAP;
    if (manifest->parts[i].row_filter != ANNB_NONE) bits |= ANNB_INCOMPAT_ROW_FILTER;
  }
  return bits;
}

uint32_t annb_manifest_find_matrix(const annb_manifest *manifest, const char *name) {
  size_t length = strlen(name);
  for (uint32_t i = 0; i < manifest->n_matrices; i++) {
    const annb_fmt_matrix *m = &manifest->matrices[i];
    if (m->name_length == length && !memcmp(manifest->names + m->name_offset, name, length)) return i;
  }
  return ANNB_NONE;
}

char *annb_manifest_matrix_name(const annb_manifest *manifest, uint32_t matrix) {
  const annb_fmt_matrix *m = &manifest->matrices[matrix];
  return strndup(manifest->names + m->name_offset, m->name_length);
}

/* ---- writing ---- */

typedef struct part_of_body {
  uint32_t kind;
  const void *data;
  size_t size;
  uint64_t count;
} part_of_body;

static part_of_body body_of(uint32_t kind, const void *rows, size_t row_size, uint32_t n) {
  return (part_of_body){kind, rows ? rows : "", row_size * n, n};
}

/* The body sections in the order of the file. */
static void list_body(const annb_manifest *m, part_of_body out[N_SECTIONS]) {
  out[0] = body_of(ANNB_SEC_STORE, &m->store, sizeof m->store, 1);
  out[1] = body_of(ANNB_SEC_OBJECTS, m->objects, sizeof *m->objects, m->n_objects);
  out[2] = body_of(ANNB_SEC_MATRICES, m->matrices, sizeof *m->matrices, m->n_matrices);
  out[3] = body_of(ANNB_SEC_PARTS, m->parts, sizeof *m->parts, m->n_parts);
  out[4] = body_of(ANNB_SEC_PART_MATRICES, m->part_matrices, sizeof *m->part_matrices, m->n_part_matrices);
  out[5] = body_of(ANNB_SEC_SEGMENTS, m->segments, sizeof *m->segments, m->n_segments);
  out[6] = body_of(ANNB_SEC_SCHEMA, m->schema, sizeof *m->schema, m->n_schema);
  out[7] = body_of(ANNB_SEC_MANIFEST_NAMES, m->names, 1, m->names_length);
  out[7].count = 0;
}

static void first_store_id(const annb_manifest *m, uint8_t id[16]) {
  part_of_body body[N_SECTIONS];
  uint8_t digest[ANNB_SHA256_SIZE];
  annb_sha256 sha;
  list_body(m, body);
  annb_sha256_init(&sha);
  for (int i = 0; i < N_SECTIONS; i++) annb_sha256_update(&sha, body[i].data, body[i].size);
  annb_sha256_final(&sha, digest);
  memcpy(id, digest, 16);
}

static annb_status write_all(const annb_manifest *m, annb_ofile *file, annb_error *err) {
  part_of_body body[N_SECTIONS];
  annb_section_list list = {.n = 0};
  annb_fmt_header header;
  annb_header_init(&header, ANNB_FILE_MANIFEST, &m->header, sizeof m->header);
  header.incompat = m->incompat;
  header.export_mask = m->export_mask;
  annb_header_seal(&header);
  annb_status s = annb_ofile_write(file, &header, sizeof header, err);
  list_body(m, body);
  for (int i = 0; !s && i < N_SECTIONS; i++)
    s = annb_section_write(&list, file, body[i].kind, ANNB_SECTION_CRITICAL, body[i].data, body[i].size, body[i].count, err);
  if (!s) s = annb_envelope_write_end(file, &header, &list, NULL, err);
  if (!s && file->offset > ANNB_MAX_MANIFEST)
    s = annb_fail(err, ANNB_EINVAL, file->path, "the manifest would have %llu bytes, more than 1 GiB", (unsigned long long)file->offset);
  return s;
}

annb_status annb_manifest_write(annb_manifest *manifest, const char *path, annb_error *err) {
  annb_ofile file;
  annb_status s = annb_ofile_create(path, &file, err);
  if (s) return s;
  if (manifest->header.generation == 1) first_store_id(manifest, manifest->header.store_id);
  s = write_all(manifest, &file, err);
  if (s) {
    annb_ofile_abort(&file);
    return s;
  }
  manifest->file_size = file.offset;
  s = annb_ofile_finish(&file, manifest->sha256, err);
  if (s) annb_io_unlink(path);
  return s;
}

/* ---- loading ---- */

typedef struct source {
  const uint8_t *data;
  const char *path;
  annb_envelope envelope;
  annb_error *err;
  annb_status status; /* of the first failure; later steps do nothing */
} source;

/* A copy of a section's rows; NULL when it is empty or after a failure. Its size is bounded by the file's. */
static void *take(source *in, uint32_t kind, size_t row_size, uint64_t limit, uint32_t *n) {
  const annb_fmt_section *section;
  if (in->status) return NULL;
  in->status = annb_envelope_section(&in->envelope, kind, row_size, in->path, &section, in->err);
  if (in->status) return NULL;
  uint64_t count = row_size ? section->count : section->length;
  if (!(section->flags & ANNB_SECTION_CRITICAL))
    in->status = annb_fail(in->err, ANNB_ECORRUPT, in->path, "section %u is not marked as critical", kind);
  else if (!row_size && section->count)
    in->status = annb_fail(in->err, ANNB_ECORRUPT, in->path, "section %u states rows but has none", kind);
  else if (count > limit)
    in->status = annb_fail(in->err, ANNB_ECORRUPT, in->path, "section %u has %llu rows, the limit is %llu", kind, (unsigned long long)count,
                           (unsigned long long)limit);
  if (in->status || count == 0) return NULL;
  void *rows = malloc(section->length);
  if (!rows) {
    in->status = annb_fail_memory(in->err);
    return NULL;
  }
  memcpy(rows, in->data + section->offset, section->length);
  *n = (uint32_t)count;
  return rows;
}

static void take_tables(source *in, annb_manifest *out) {
  uint32_t n_stores = 0;
  annb_fmt_store *store = take(in, ANNB_SEC_STORE, sizeof *store, 1, &n_stores);
  if (store) out->store = *store;
  free(store);
  out->objects = take(in, ANNB_SEC_OBJECTS, sizeof *out->objects, ANNB_MAX_TABLE, &out->n_objects);
  out->matrices = take(in, ANNB_SEC_MATRICES, sizeof *out->matrices, ANNB_MAX_TABLE, &out->n_matrices);
  out->parts = take(in, ANNB_SEC_PARTS, sizeof *out->parts, ANNB_MAX_TABLE, &out->n_parts);
  out->part_matrices = take(in, ANNB_SEC_PART_MATRICES, sizeof *out->part_matrices, ANNB_NONE - 1, &out->n_part_matrices);
  out->segments = take(in, ANNB_SEC_SEGMENTS, sizeof *out->segments, ANNB_MAX_TABLE, &out->n_segments);
  out->schema = take(in, ANNB_SEC_SCHEMA, sizeof *out->schema, ANNB_MAX_SCHEMA, &out->n_schema);
  out->names = take(in, ANNB_SEC_MANIFEST_NAMES, 0, ANNB_NONE - 1, &out->names_length);
  if (!in->status && n_stores != 1) in->status = annb_fail(in->err, ANNB_ECORRUPT, in->path, "has no store row");
}

static annb_status check_bytes(const source *in) {
  annb_status s = annb_envelope_check_gaps(in->data, &in->envelope, in->path, in->err);
  for (uint32_t i = 0; !s && i < in->envelope.n_sections; i++)
    s = annb_envelope_check_hash(in->data, &in->envelope.sections[i], in->path, in->err);
  return s;
}

static annb_status check_header(const annb_manifest *m, uint64_t generation, const char *path, annb_error *err) {
  uint8_t id[16];
  const annb_fmt_manifest_header *h = &m->header;
  if (!annb_all_zero(h->zero0, sizeof h->zero0)) return annb_fail(err, ANNB_ECORRUPT, path, "header has a field that must be zero");
  if (h->generation != generation)
    return annb_fail(err, ANNB_ECORRUPT, path, "says it is generation %llu, its name says %llu", (unsigned long long)h->generation,
                     (unsigned long long)generation);
  if ((h->generation == 1) != annb_all_zero(h->parent, sizeof h->parent))
    return annb_fail(err, ANNB_ECORRUPT, path,
                     h->generation == 1 ? "is the first generation but names a parent" : "does not name its parent");
  if (h->generation > 1) return ANNB_OK;
  first_store_id(m, id);
  if (memcmp(id, h->store_id, sizeof id)) return annb_fail(err, ANNB_ECORRUPT, path, "store id does not match the contents");
  return ANNB_OK;
}

annb_status annb_manifest_parse(const uint8_t *data, uint64_t size, const char *path, uint64_t generation, annb_manifest *out,
                                annb_error *err) {
  source in = {.data = data, .path = path, .err = err};
  uint64_t known = 0;
  annb_manifest_init(out);
  for (uint32_t kind = ANNB_SEC_STORE; kind <= ANNB_SEC_MANIFEST_NAMES; kind++) known |= UINT64_C(1) << kind;
  if (size > ANNB_MAX_MANIFEST)
    return annb_fail(err, ANNB_ECORRUPT, path, "has %llu bytes, more than a manifest may (1 GiB)", (unsigned long long)size);
  annb_status s = annb_envelope_parse(data, size, ANNB_FILE_MANIFEST, known, path, &in.envelope, err);
  if (!s) s = check_bytes(&in);
  if (s) return s;
  memcpy(&out->header, in.envelope.header.kind, sizeof out->header);
  out->incompat = in.envelope.header.incompat;
  out->export_mask = in.envelope.header.export_mask;
  out->file_size = size;
  take_tables(&in, out);
  s = in.status;
  if (!s) s = check_header(out, generation, path, err);
  if (!s) s = annb_manifest_check(out, path, err);
  if (s) annb_manifest_free(out);
  return s;
}

annb_status annb_manifest_load(const char *path, uint64_t generation, annb_manifest *out, annb_error *err) {
  annb_map map;
  annb_sha256 sha;
  annb_manifest_init(out);
  annb_status s = annb_io_map(path, &map, err);
  if (s) return s;
  s = annb_manifest_parse(map.data, map.size, path, generation, out, err);
  if (!s) {
    annb_sha256_init(&sha);
    annb_sha256_update(&sha, map.data, map.size);
    annb_sha256_final(&sha, out->sha256);
  }
  annb_io_unmap(&map);
  return s;
}
