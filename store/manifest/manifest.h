/* Manifests (SPEC.md, section 5): in memory, from disk, to disk. */
#ifndef ANNB_STORE_MANIFEST_H
#define ANNB_STORE_MANIFEST_H

#include "../objects/envelope.h"

#include <stdbool.h>

/* Tables are growable arrays of the on-disk rows. */
typedef struct annb_manifest {
  annb_fmt_manifest_header header;
  annb_fmt_store store;
  uint64_t incompat, export_mask;
  uint8_t sha256[ANNB_SHA256_SIZE]; /* of the file, when loaded */
  uint64_t file_size;               /* likewise */
  annb_fmt_object *objects;
  annb_fmt_matrix *matrices;
  annb_fmt_part *parts;
  annb_fmt_part_matrix *part_matrices;
  annb_fmt_segment_ref *segments;
  annb_fmt_schema *schema;
  char *names;
  uint32_t n_objects, n_matrices, n_parts, n_part_matrices, n_segments, n_schema, names_length;
} annb_manifest;

void annb_manifest_init(annb_manifest *manifest);
void annb_manifest_free(annb_manifest *manifest); /* the members */

/* Read and validate everything of SPEC.md 5: every reference, sum, range, zero field. `generation` must match the header. */
annb_status annb_manifest_load(const char *path, uint64_t generation, annb_manifest *out, annb_error *err);
annb_status annb_manifest_parse(const uint8_t *data, uint64_t size, const char *path, uint64_t generation, annb_manifest *out,
                                annb_error *err);

/* The highest generation in the store directory, 0 when there is no manifest. ANNB_ENOTSTORE when `store` is not a directory with
 * manifests/ in it. Names that are no manifest's are ignored here (verify reports them). */
annb_status annb_manifest_latest(const char *store, uint64_t *generation, annb_error *err);
/* The generation of a manifest's file name ("<20 digits>.annm"); false when it is no such name. */
bool annb_manifest_generation(const char *name, uint64_t *generation);
/* "<store>/manifests/<20 digits>.annm" and "<store>/objects/<hex>.<suffix>" in fresh memory, or NULL. */
char *annb_manifest_path(const char *store, uint64_t generation);
char *annb_object_path(const char *store, const annb_fmt_object *object);
const char *annb_object_suffix(annb_object_kind kind); /* ".anns" … or NULL */

/* Everything of SPEC.md 5 that concerns the tables: ANNB_ECORRUPT, ANNB_EUNSUPPORTED. `path` is for messages. */
annb_status annb_manifest_check(const annb_manifest *manifest, const char *path, annb_error *err);

/* Append the tables of `more` to `m`, which may be empty: equal objects and matrices of one name become one. Matrices of one name must have
 * one number of columns, but those of obs x var, whose number becomes m's. The schema of `more` is left out, and so is each of its matrices
 * that `left_out` (may be NULL) says. */
annb_status annb_manifest_append(annb_manifest *m, const annb_manifest *more, const bool *left_out, annb_error *err);

/* The rows of its schema. */
annb_status annb_manifest_append_schema(annb_manifest *m, const annb_manifest *more, annb_error *err);
/* Take objects that nothing names out of the table. Every reference must be in range. */
annb_status annb_manifest_prune(annb_manifest *m, annb_error *err);

/* Make a loaded manifest that of one part by itself: its own rows, genes, matrices and columns. ANNB_ENOTFOUND; `path` is for messages. */
annb_status annb_manifest_take_part(annb_manifest *m, uint32_t part, const char *path, annb_error *err);

/* Append a row, growing the table. ANNB_EINVAL past the limits of SPEC.md 1.2. An object of equal sha256 and kind is reused. Part
 * matrices and segments belong to the part that was added last; annb_txn_commit counts the parts' n_matrices, the caller sets the
 * other first_… and n_… fields. */
annb_status annb_manifest_add_object(annb_manifest *manifest, const annb_fmt_object *object, uint32_t *row, annb_error *err);
annb_status annb_manifest_add_matrix(annb_manifest *manifest, const char *name, annb_fmt_matrix matrix, uint32_t *row, annb_error *err);
annb_status annb_manifest_add_part(annb_manifest *manifest, const annb_fmt_part *part, uint32_t *row, annb_error *err);
annb_status annb_manifest_add_part_matrix(annb_manifest *manifest, const annb_fmt_part_matrix *part_matrix, annb_error *err);
annb_status annb_manifest_add_segment(annb_manifest *manifest, const annb_fmt_segment_ref *segment, annb_error *err);

annb_status annb_manifest_add_schema(annb_manifest *manifest, const char *name, annb_fmt_schema row, annb_error *err);
/* The bits of the header's incompat mask that the tables need. */
uint64_t annb_manifest_features(const annb_manifest *manifest);

/* The row of the matrix called `name`, or ANNB_NONE. */
uint32_t annb_manifest_find_matrix(const annb_manifest *manifest, const char *name);

/* Name of a matrix in fresh memory, or NULL. */
char *annb_manifest_matrix_name(const annb_manifest *manifest, uint32_t matrix);

/* Write to a new file: header.generation, store_id (computed when generation is 1) and parent are set by the caller; sha256 and file_size
 * are set here. On failure the file is removed. */
annb_status annb_manifest_write(annb_manifest *manifest, const char *path, annb_error *err);

#endif
