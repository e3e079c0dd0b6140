/* Stores for tests, made through the public writer from matrices in memory that the tests compare with. */
#ifndef ANNB_TESTS_STORE_MAKER_H
#define ANNB_TESTS_STORE_MAKER_H

#include <annblock/annblock.h>
#include <check.h>

/* These need an annb_error `err` in scope. */
#define OK(call)                                                                                     \
  do {                                                                                               \
    annb_status status_ = (call);                                                                    \
    ck_assert_msg(status_ == ANNB_OK, "%s: %s", #call, err.message);                                 \
  } while (0)
#define FAILS(call, code)                                                                            \
  do {                                                                                               \
    annb_status status_ = (call);                                                                    \
    ck_assert_msg(status_ == (code), "%s: %s: %s", #call, annb_status_name(status_), err.message);   \
  } while (0)

typedef struct maker_csr {
  uint64_t n_rows, n_cols;
  annb_dtype dtype;
  uint64_t *indptr;
  uint32_t *indices;
  uint8_t *values;
} maker_csr;

enum { MAKER_SORTED = 0, MAKER_SHUFFLED = 1, MAKER_REPEATS = 2 };

/* About `per_row` elements in a row (some rows empty); the same for the same arguments. Values are whole numbers up to 7, or 0 and 1 for
 * bool, so that conversions between the other dtypes are exact. */
maker_csr maker_random(uint64_t seed, uint64_t n_rows, uint64_t n_cols, uint32_t per_row, annb_dtype dtype, int order);
/* From lists; takes copies. `indptr` has n_rows + 1 values. */
maker_csr maker_from(uint64_t n_rows, uint64_t n_cols, annb_dtype dtype, const uint64_t *indptr, const uint32_t *indices,
                     const void *values);
void maker_free(maker_csr *csr);

typedef struct maker_matrix {
  const char *name;
  annb_axes axes;
  annb_absent absent;
  annb_dtype dtype; /* of the store's matrix */
  uint64_t n_cols;
  annb_form form;
  uint64_t segment_rows;
  uint32_t block_rows;
  const maker_csr *const *parts; /* one per part, NULL where the part has none */
} maker_matrix;

typedef struct maker_spec {
  const char *path;
  annb_txn_mode mode;
  uint64_t n_vars;
  uint32_t n_parts;
  const uint64_t *part_rows;
  const maker_matrix *matrices;
  uint32_t n_matrices;
  /* makes the part's columns object; may be NULL */
  uint32_t (*columns)(annb_txn *txn, uint32_t part, void *user);
  void *user;
  bool sidecars; /* each part gets a small file as sidecar */
} maker_spec;

/* Writes the store; returns the generation. */
uint64_t maker_store(const maker_spec *spec);

/* One part, one matrix "X" of the csr's dtype. */
uint64_t maker_simple(const char *path, annb_txn_mode mode, const maker_csr *x, uint64_t segment_rows, uint32_t block_rows);

/* The number at position i of values of any dtype, as a double. */
double maker_number(const void *values, annb_dtype dtype, uint64_t i);
/* Fetch one row (up to 4096 elements) of matrix 0 with default options; *equal: it is the csr's row `expected`, bit by bit. */
annb_status maker_read_row(const annb_store *store, annb_context *context, const maker_csr *x, uint64_t row, uint64_t expected, bool *equal,
                           annb_error *err);

/* All rows in order, then rows at random with repeats, then the last again: 3 n_rows + 5 of them (0 for no rows). */
size_t maker_awkward_rows(uint64_t n_rows, uint64_t *rows);
/* Whether all `n` bytes are `byte`. */
bool maker_all(const void *bytes, size_t n, uint8_t byte);
/* `n` bytes, all 0xA5, that end where the memory ends: one byte more is a crash. Never freed. */
uint8_t *maker_guarded(size_t n);

/* A fresh directory, and it with all that is in it removed. */
void maker_tmpdir(char path[256]);
void maker_remove(const char *path);
/* "dir/name" in a static buffer. */
const char *maker_join(const char *dir, const char *name);
/* The only file in dir/objects that ends in `suffix`, or the i-th of them by name; fresh memory. */
char *maker_object(const char *store, const char *suffix, size_t i);

/* Whole small files. */
uint8_t *maker_read_file(const char *path, size_t *size);
void maker_writable(const char *path); /* files of a store are read-only */
void maker_write_file(const char *path, const void *data, size_t size);
void maker_write_at(const char *path, size_t offset, const void *data, size_t size);

/* A small generator of numbers: state is any value. */
uint64_t maker_next(uint64_t *state);

#endif
