/* A source file that is split into sidecar and restore file, put together again and compared: for tests. */
#ifndef ANNB_TESTS_SPLIT_H
#define ANNB_TESTS_SPLIT_H

#include "../convert/sidecar/merge.h"
#include "../convert/sidecar/sidecar.h"

#include <check.h>

/* In a fresh directory, which split_teardown removes. */
extern char split_source[600], split_sidecar[600], split_restore[600], split_output[600];
extern annb_error split_err;
void split_setup(void);
void split_teardown(void);
void split_name(char *out, const char *name);

/* Make the source: a CSR matrix X of 4 × 3 with 5 elements, obs, var, empty uns and layers. Open for more. */
hid_t split_begin(void);
extern const int64_t split_pointers[5];
extern const int32_t split_indices[5];
extern const float split_values[5];

/* Members for it: a dataset of 6 integers, an attribute with an object reference, a group that tracks the order of links and attributes. */
void split_numbers(hid_t parent, const char *name);
void split_make_reference(hid_t object, const char *attribute, hid_t file, const char *target);
hid_t split_tracked_group(hid_t parent, const char *name);

/* Write sidecar and restore file; or do that, merge them, fill in the matrices and find the output equal to the source. No handle
 * stays open. */
annb_status split_file(const annb_packed *packed, size_t n);
void split_round_trip_of(const annb_packed *packed, size_t n);
void split_round_trip(void); /* with X packed */
/* Splitting with X packed must fail, with `text` in the message. */
void split_refused(annb_status status, const char *text);

bool split_has(const char *file, const char *path);
/* Names of a group's links in the order of creation, in fresh memory. */
char *split_names_of(const char *file, const char *group);

#endif
