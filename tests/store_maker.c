#include "store_maker.h"

#include "../store/io.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void *allocate(size_t n) {
  void *p = malloc(n ? n : 1);
  ck_assert_ptr_nonnull(p);
  return p;
}

uint64_t maker_next(uint64_t *state) {
  uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

/* ---- matrices ---- */

static void put_value(uint8_t *values, uint64_t at, annb_dtype dtype, unsigned x) {
  static const uint16_t halves[] = {0, 0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700};
  float f = (float)x;
  double d = x;
  uint64_t bits = dtype == ANNB_BOOL ? x & 1 : dtype == ANNB_F16 ? halves[x] : x;
  uint32_t size = annb_dtype_size(dtype);
  const void *from = dtype == ANNB_F32 ? (const void *)&f : dtype == ANNB_F64 ? (const void *)&d : (const void *)&bits;
  memcpy(values + at * size, from, size);
}

static void shuffle(uint32_t *x, uint64_t n, uint64_t *state) {
  for (uint64_t i = n; i > 1; i--) {
    uint64_t j = maker_next(state) % i;
    uint32_t swap = x[i - 1];
    x[i - 1] = x[j];
    x[j] = swap;
  }
}

/* One row's indices; returns how many. */
static uint64_t random_row(uint32_t *out, uint64_t n_cols, uint32_t per_row, int order, uint64_t *state) {
  uint64_t n = 0;
  if (n_cols == 0 || maker_next(state) % 7 == 0) return 0;
  for (uint64_t c = 0; c < n_cols; c++)
    if (maker_next(state) % n_cols < per_row) out[n++] = (uint32_t)c;
  for (uint64_t i = 1; order == MAKER_REPEATS && i < n; i += 3) out[i] = out[maker_next(state) % n];
  if (order != MAKER_SORTED) shuffle(out, n, state);
  return n;
}

maker_csr maker_random(uint64_t seed, uint64_t n_rows, uint64_t n_cols, uint32_t per_row, annb_dtype dtype, int order) {
  maker_csr x = {.n_rows = n_rows, .n_cols = n_cols, .dtype = dtype};
  x.indptr = allocate((n_rows + 1) * sizeof *x.indptr);
  x.indices = allocate(n_rows * n_cols * sizeof *x.indices);
  x.indptr[0] = 0;
  for (uint64_t i = 0; i < n_rows; i++)
    x.indptr[i + 1] = x.indptr[i] + random_row(x.indices + x.indptr[i], n_cols, per_row, order, &seed);
  x.values = allocate(x.indptr[n_rows] * 8);
  for (uint64_t i = 0; i < x.indptr[n_rows]; i++) put_value(x.values, i, dtype, maker_next(&seed) % 8);
  return x;
}

maker_csr maker_from(uint64_t n_rows, uint64_t n_cols, annb_dtype dtype, const uint64_t *indptr, const uint32_t *indices,
                     const void *values) {
  maker_csr x = {.n_rows = n_rows, .n_cols = n_cols, .dtype = dtype};
  size_t nnz = indptr[n_rows], bytes = nnz * annb_dtype_size(dtype);
  x.indptr = allocate((n_rows + 1) * sizeof *indptr);
  x.indices = allocate(nnz * sizeof *indices);
  x.values = allocate(bytes);
  memcpy(x.indptr, indptr, (n_rows + 1) * sizeof *indptr);
  if (nnz) memcpy(x.indices, indices, nnz * sizeof *indices);
  if (nnz) memcpy(x.values, values, bytes);
  return x;
}

void maker_free(maker_csr *csr) {
  free(csr->indptr);
  free(csr->indices);
  free(csr->values);
}

/* ---- stores ---- */

static void add_matrix(annb_txn *txn, const maker_matrix *m, uint32_t part, uint32_t matrix) {
  annb_error err = {0};
  const maker_csr *x = m->parts[part];
  if (!x) return;
  annb_matrix_writer *writer;
  annb_matrix_writer_options options = {.n_cols = x->n_cols,
                                        .dtype = x->dtype,
                                        .form = m->form ? m->form : ANNB_CSR,
                                        .segment_rows = m->segment_rows,
                                        .block_rows = m->block_rows,
                                        .tag = {(uint8_t)(part + 1), (uint8_t)(part >> 8), (uint8_t)matrix}};
  OK(annb_matrix_writer_open(txn, &options, &writer, &err));
  OK(annb_matrix_writer_append(writer, x->n_rows, x->indptr, x->indices, x->values, &err));
  OK(annb_matrix_writer_close(writer, part, matrix, NULL, &err));
}

static uint32_t add_sidecar(annb_txn *txn, uint32_t part) {
  annb_error err = {0};
  const char *path;
  char text[32];
  uint32_t object;
  OK(annb_txn_temp_path(txn, &path, &err));
  snprintf(text, sizeof text, "sidecar of part %u", part);
  maker_write_file(path, text, strlen(text));
  OK(annb_txn_add_file(txn, path, ANNB_OBJECT_SIDECAR, &object, &err));
  return object;
}

uint64_t maker_store(const maker_spec *spec) {
  annb_error err = {0};
  annb_txn *txn;
  uint64_t generation;
  OK(annb_txn_begin(spec->path, spec->mode, &txn, &err));
  for (uint32_t i = 0; i < spec->n_matrices; i++) {
    const maker_matrix *m = &spec->matrices[i];
    annb_matrix_spec row = {m->name, m->n_cols, m->axes ? m->axes : ANNB_OBS_VAR, m->dtype, m->absent};
    uint32_t matrix;
    OK(annb_txn_add_matrix(txn, &row, &matrix, &err));
    ck_assert_uint_eq(matrix, i);
  }
  for (uint32_t p = 0; p < spec->n_parts; p++) {
    annb_part_spec row = {spec->part_rows[p], spec->n_vars, ANNB_NONE, ANNB_NONE, ANNB_NONE, ANNB_NONE};
    uint32_t part;
    if (spec->columns) row.columns = spec->columns(txn, p, spec->user);
    if (spec->sidecars) row.sidecar = add_sidecar(txn, p);
    OK(annb_txn_add_part(txn, &row, &part, &err));
    for (uint32_t i = 0; i < spec->n_matrices; i++) add_matrix(txn, &spec->matrices[i], part, i);
  }
  OK(annb_txn_commit(txn, &generation, &err));
  return generation;
}

uint64_t maker_simple(const char *path, annb_txn_mode mode, const maker_csr *x, uint64_t segment_rows, uint32_t block_rows) {
  maker_matrix matrix = {
      .name = "X", .dtype = x->dtype, .n_cols = x->n_cols, .segment_rows = segment_rows, .block_rows = block_rows, .parts = &x};
  return maker_store(&(maker_spec){.path = path,
                                   .mode = mode,
                                   .n_vars = x->n_cols,
                                   .n_parts = 1,
                                   .part_rows = &x->n_rows,
                                   .matrices = &matrix,
                                   .n_matrices = 1});
}

/* ---- comparing ---- */

double maker_number(const void *values, annb_dtype dtype, uint64_t i) {
  switch (dtype) {
  case ANNB_BOOL:
  case ANNB_U8: return ((const uint8_t *)values)[i];
  case ANNB_I8: return ((const int8_t *)values)[i];
  case ANNB_I16: return ((const int16_t *)values)[i];
  case ANNB_U16: return ((const uint16_t *)values)[i];
  case ANNB_I32: return ((const int32_t *)values)[i];
  case ANNB_U32: return ((const uint32_t *)values)[i];
  case ANNB_I64: return (double)((const int64_t *)values)[i];
  case ANNB_U64: return (double)((const uint64_t *)values)[i];
  case ANNB_F32: return (double)((const float *)values)[i];
  case ANNB_F64: return ((const double *)values)[i];
  case ANNB_F16: break;
  }
  unsigned h = ((const uint16_t *)values)[i];
  return h < 0x400 ? ldexp(h, -24) : ldexp(1024 + (h & 1023), (int)(h >> 10) - 25); /* positive only */
}

annb_status maker_read_row(const annb_store *store, annb_context *context, const maker_csr *x, uint64_t row, uint64_t expected, bool *equal,
                           annb_error *err) {
  int64_t indptr[2];
  int32_t indices[4096];
  uint8_t values[4096 * 8];
  annb_status s = annb_fetch_csr(store, context, 0, &row, 1, NULL, indptr, indices, values, 4096, err);
  if (s) return s;
  uint64_t first = x->indptr[expected], n = x->indptr[expected + 1] - first;
  size_t size = annb_dtype_size(x->dtype);
  *equal = (uint64_t)indptr[1] == n && (!n || (!memcmp(indices, x->indices + first, n * sizeof *x->indices) &&
                                               !memcmp(values, x->values + first * size, n * size)));
  return ANNB_OK;
}

size_t maker_awkward_rows(uint64_t n_rows, uint64_t *rows) {
  size_t n = 0;
  uint64_t state = n_rows;
  for (uint64_t i = 0; i < n_rows; i++) rows[n++] = i;
  for (uint64_t i = 0; n_rows && i < 2 * n_rows; i++) rows[n++] = maker_next(&state) % n_rows;
  for (uint64_t i = 0; n_rows && i < 5; i++) rows[n++] = n_rows - 1;
  return n;
}

bool maker_all(const void *bytes, size_t n, uint8_t byte) {
  const uint8_t *p = bytes;
  return n == 0 || (p[0] == byte && !memcmp(p, p + 1, n - 1));
}

uint8_t *maker_guarded(size_t n) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (n + page - 1) / page * page;
  int fd = open("/dev/zero", O_RDWR);
  uint8_t *p = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  ck_assert(p != MAP_FAILED);
  close(fd);
  ck_assert_int_eq(mprotect(p + body, page, PROT_NONE), 0);
  memset(p, 0xA5, body);
  return p + body - n;
}

/* ---- files ---- */

void maker_tmpdir(char path[256]) {
  const char *base = getenv("TMPDIR");
  snprintf(path, 256, "%s/annblock-test-XXXXXX", base && *base ? base : "/tmp");
  ck_assert_ptr_nonnull(mkdtemp(path));
}

void maker_remove(const char *path) {
  annb_error err = {0};
  char **names;
  size_t n;
  annb_path_kind kind;
  OK(annb_io_kind(path, &kind, &err));
  if (kind != ANNB_PATH_DIR) {
    unlink(path);
    return;
  }
  OK(annb_io_list(path, &names, &n, &err));
  for (size_t i = 0; i < n; i++) {
    char *inner = annb_io_join(path, names[i]);
    maker_remove(inner);
    free(inner);
  }
  annb_io_free_names(names, n);
  rmdir(path);
}

const char *maker_join(const char *dir, const char *name) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return path;
}

char *maker_object(const char *store, const char *suffix, size_t i) {
  annb_error err = {0};
  char **names, *found = NULL, *dir = annb_io_join(store, "objects");
  size_t n;
  OK(annb_io_list(dir, &names, &n, &err));
  for (size_t k = 0; k < n && !found; k++) {
    size_t length = strlen(names[k]), tail = strlen(suffix);
    if (length > tail && !strcmp(names[k] + length - tail, suffix) && i-- == 0) found = annb_io_join(dir, names[k]);
  }
  annb_io_free_names(names, n);
  free(dir);
  ck_assert_ptr_nonnull(found);
  return found;
}

uint8_t *maker_read_file(const char *path, size_t *size) {
  FILE *f = fopen(path, "rb");
  ck_assert_msg(f != NULL, "%s", path);
  ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
  *size = (size_t)ftell(f);
  uint8_t *data = allocate(*size);
  rewind(f);
  ck_assert_uint_eq(fread(data, 1, *size, f), *size);
  fclose(f);
  return data;
}

void maker_writable(const char *path) { ck_assert_msg(chmod(path, 0600) == 0, "%s", path); }

void maker_write_file(const char *path, const void *data, size_t size) {
  if (access(path, F_OK) == 0) maker_writable(path);
  FILE *f = fopen(path, "wb");
  ck_assert_msg(f != NULL, "%s", path);
  ck_assert_uint_eq(fwrite(data, 1, size, f), size);
  ck_assert_int_eq(fclose(f), 0);
}

void maker_write_at(const char *path, size_t offset, const void *data, size_t size) {
  maker_writable(path);
  FILE *f = fopen(path, "r+b");
  ck_assert_msg(f != NULL, "%s", path);
  ck_assert_int_eq(fseek(f, (long)offset, SEEK_SET), 0);
  ck_assert_uint_eq(fwrite(data, 1, size, f), size);
  ck_assert_int_eq(fclose(f), 0);
}
