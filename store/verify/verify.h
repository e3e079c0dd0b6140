/* Inside of annb_verify: one run over a store. verify.c walks the directories, verify_object.c looks into the objects,
 * verify_order.c into orders. */
#ifndef ANNB_STORE_VERIFY_H
#define ANNB_STORE_VERIFY_H

#include "../objects/arrays.h"
#include "../manifest/manifest.h"

#include <annblock/store.h>

typedef struct annb_verifier {
  const char *store;
  annb_finding_fn finding; /* may be NULL */
  annb_progress_fn progress; /* may be NULL */
  void *user;
  uint64_t n_findings, done, total;
  const char *file; /* in work, relative to the store */
  int64_t first_row; /* store row of its row 0, or ANNB_NO_ROW */
  uint64_t *part_first; /* per part of the manifest: its first store row */
  uint8_t *buffer;  /* of ANNB_VERIFY_PIECE bytes */
  bool stopped;     /* for any of the reasons below */
  annb_status failure; /* ANNB_OK, or why the whole call fails: memory, or cancelled */
} annb_verifier;

#define ANNB_VERIFY_PIECE ((size_t)1 << 20)

/* Tell a finding on the file in work. Memory that is short is a failure of the call instead. */
void annb_verifier_tell(annb_verifier *v, const annb_error *finding);

/* SHA-256 and size of the file at `path`, with progress. */
annb_status annb_verifier_hash(annb_verifier *v, const char *path, uint8_t sha256[ANNB_SHA256_SIZE], uint64_t *size, annb_error *err);

/* Every object that the manifest names: presence, size, contents, SHA-256, and what the manifest says of it. */
void annb_verifier_objects(annb_verifier *v, const annb_manifest *manifest);
/* The same of objects first … end−1 alone: tests flip bytes of one file. */
void annb_verifier_some_objects(annb_verifier *v, const annb_manifest *manifest, uint32_t first, uint32_t end);

/* What the parts have in common: gene list and maps, schema, category maps. After the objects. */
void annb_verifier_maps(annb_verifier *v, const annb_manifest *manifest);

/* Flat arrays as the order object of a part matrix: shape, permutations, and each entry against its row. */
void annb_verifier_source_order(annb_verifier *v, const annb_manifest *manifest, uint32_t part, uint32_t part_matrix, annb_arrays *arrays);

#endif
