/* Inside of annb_compare. */
#ifndef ANNB_CONVERT_COMPARE_H
#define ANNB_CONVERT_COMPARE_H

#include "../sidecar/graph.h"
#include "../sidecar/pieces.h"

#include <annblock/convert.h>

/* One of the two files. */
typedef struct annb_side {
  const char *name;
  hid_t file;
  annb_graph graph; /* node.out: number of the pair of objects */
} annb_side;

/* Objects at the same path of both files. */
typedef struct annb_pair {
  uint32_t node[2];
} annb_pair;

typedef struct annb_comparison {
  annb_side side[2];
  annb_pair *pairs;
  size_t n_pairs, room;
  annb_difference_fn report;
  void *user;
  uint64_t different;
  bool stopped;
} annb_comparison;

/* Report a difference at `path`. */
void annb_differ(annb_comparison *c, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What differs between two types, or "" when nothing that matters does; committed or not is told too. */
void annb_compare_types(hid_t a, hid_t b, char *what, size_t size);

/* In words: "int32", "big-endian float64" (with its order where there is one), "string of 5 bytes"; the name of a class. */
void annb_type_text(hid_t type, bool with_order, char *out, size_t size);
const char *annb_class_name(H5T_class_t class);
/* How two different elements of one type differ: "42 (0x42280000) against 5 (0x40a00000)". The type holds no addresses. */
void annb_compare_text(hid_t type, const void *a, const void *b, char *what, size_t size);

/* A place in values for a message: "values differ first at 17: 1 (0x3f800000) against 2 (0x40000000)". `at` counts elements. */
typedef struct annb_values {
  annb_comparison *c;
  hid_t object[2]; /* any object of each file, to follow references */
} annb_values;


/* Compare types, shapes and values of two open datasets, or of all attributes of two open objects. */
annb_status annb_compare_datasets(annb_comparison *c, const char *path, hid_t a, hid_t b, annb_error *err);
annb_status annb_compare_attrs(annb_comparison *c, const char *path, hid_t a, hid_t b, annb_error *err);

#endif
