/* Stores of parts with other genes and categories: read against dense tables made by hand, hostile maps, and races of appends. */
#include "store_maker.h"
#include "suite.h"

#include "../store/commit/txn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STORE_GENES = 40, PART_GENES = 50, ROWS_0 = 37, ROWS_1 = 60 };

static char dir[256];
static char path[300];

static void setup(void) {
  maker_tmpdir(dir);
  snprintf(path, sizeof path, "%s", maker_join(dir, "s"));
}

static void teardown(void) { maker_remove(dir); }

/* What the parts and their maps are; tests change it before they write. */
typedef struct plan {
  annb_dtype dtype;
  int order; /* of elements in rows */
  uint32_t map[PART_GENES];
  bool no_map;
  const char *array; /* name of the map's array */
  uint64_t map_length;
  int32_t codes[3]; /* map of part 1's categories to the store's */
  uint64_t n_codes;
  uint32_t categories_column; /* of part 0's columns */
  maker_csr x[2];
} plan;

static plan make_plan(annb_dtype dtype, int order) {
  plan p = {.dtype = dtype,
            .order = order,
            .array = "gene_map",
            .map_length = PART_GENES,
            .codes = {2, 0, 1},
            .n_codes = 3,
            .categories_column = 0};
  for (uint32_t i = 0; i < PART_GENES; i++) p.map[i] = i % 5 == 3 ? ANNB_NONE : (i * 7 + 3) % STORE_GENES;
  uint64_t seen = 0;
  for (uint32_t i = 0; i < PART_GENES; i++) { /* each gene of the store once */
    if (p.map[i] == ANNB_NONE) continue;
    if (seen >> p.map[i] & 1) p.map[i] = ANNB_NONE;
    else seen |= UINT64_C(1) << p.map[i];
  }
  p.x[0] = maker_random(11, ROWS_0, STORE_GENES, 12, dtype, order);
  p.x[1] = maker_random(12, ROWS_1, PART_GENES, 20, dtype, order);
  return p;
}

static void free_plan(plan *p) {
  maker_free(&p->x[0]);
  maker_free(&p->x[1]);
}

static uint32_t write_array(annb_txn *txn, const char *name, annb_dtype dtype, const void *values, uint64_t n) {
  annb_error err = {0};
  annb_arrays_writer *w;
  uint32_t array, object;
  OK(annb_arrays_writer_open(txn, &w, &err));
  OK(annb_arrays_begin(w, name, dtype, 1, &array, &err));
  OK(annb_arrays_append(w, values, n, &err));
  OK(annb_arrays_end(w, &err));
  OK(annb_arrays_writer_close(w, &object, &err));
  return object;
}

/* Columns of a part: categories a, b, c; a categorical "label" whose codes are the row modulo 4, less 1; "size", u8 in part 0 and i32 in
 * part 1. */
static uint32_t write_columns(annb_txn *txn, uint32_t part, uint64_t n_rows) {
  annb_error err = {0};
  annb_arrays_writer *w;
  annb_string_writer *strings;
  annb_column_spec categories = {.name = "label", .length = 3, .kind = ANNB_COLUMN_STRING, .mask = ANNB_NONE};
  annb_column_spec label = {.name = "label", .length = n_rows, .axis = ANNB_AXIS_OBS, .kind = ANNB_COLUMN_CATEGORICAL, .mask = ANNB_NONE};
  annb_column_spec size = {.name = "size", .length = n_rows, .axis = ANNB_AXIS_OBS, .kind = ANNB_COLUMN_FIXED, .mask = ANNB_NONE};
  uint32_t column, object;
  OK(annb_arrays_writer_open(txn, &w, &err));
  OK(annb_strings_begin(w, &strings, &err));
  for (int i = 0; i < 3; i++) OK(annb_strings_append(strings, part ? "cab" + i : "abc" + i, 1, &err));
  OK(annb_strings_end(strings, &categories.values, &categories.bytes, &err));
  OK(annb_arrays_add_column(w, &categories, &label.categories, &err));
  OK(annb_arrays_begin(w, "", ANNB_I8, 1, &label.values, &err));
  for (uint64_t i = 0; i < n_rows; i++) OK(annb_arrays_append(w, &(int8_t){(int8_t)(i % 4) - 1}, 1, &err));
  OK(annb_arrays_end(w, &err));
  OK(annb_arrays_add_column(w, &label, &column, &err));
  OK(annb_arrays_begin(w, "", part ? ANNB_I32 : ANNB_U8, 1, &size.values, &err));
  for (uint64_t i = 0; i < n_rows; i++)
    OK(part ? annb_arrays_append(w, &(int32_t){-(int32_t)i}, 1, &err) : annb_arrays_append(w, &(uint8_t){(uint8_t)i}, 1, &err));
  OK(annb_arrays_end(w, &err));
  OK(annb_arrays_add_column(w, &size, &column, &err));
  OK(annb_arrays_writer_close(w, &object, &err));
  return object;
}

/* Enters the maps and a schema: label, size. */
static annb_status build(void *user, annb_txn *txn, const annb_manifest *base, annb_manifest *draft, annb_error *why) {
  const plan *p = user;
  annb_error err = {0};
  (void)base;
  uint32_t genes = write_array(txn, p->array, ANNB_U32, p->map, p->map_length);
  uint32_t codes = write_array(txn, "code_map/label", ANNB_I32, p->codes, p->n_codes);
  annb_fmt_schema label = {.categories_object = draft->parts[0].columns,
                           .categories_column = p->categories_column,
                           .axis = ANNB_AXIS_OBS,
                           .kind = ANNB_COLUMN_CATEGORICAL,
                           .dtype = ANNB_I32};
  annb_fmt_schema size = {
      .categories_object = ANNB_NONE, .categories_column = ANNB_NONE, .axis = ANNB_AXIS_OBS, .kind = ANNB_COLUMN_FIXED, .dtype = ANNB_I32};
  if (!p->no_map) OK(annb_txn_add_to(txn, genes, draft, &draft->parts[1].gene_map, &err));
  OK(annb_txn_add_to(txn, codes, draft, &draft->parts[1].code_map, &err));
  OK(annb_manifest_add_schema(draft, "label", label, &err));
  return annb_manifest_add_schema(draft, "size", size, why);
}

static void add_part(annb_txn *txn, const plan *p, uint32_t part, uint32_t matrix) {
  annb_error err = {0};
  const maker_csr *x = &p->x[part];
  annb_matrix_writer *writer;
  annb_matrix_writer_options options = {
      .n_cols = x->n_cols, .dtype = x->dtype, .form = ANNB_CSR, .segment_rows = 16, .tag = {(uint8_t)part}};
  annb_part_spec spec = {x->n_rows, x->n_cols, write_columns(txn, part, x->n_rows), ANNB_NONE, ANNB_NONE, ANNB_NONE};
  uint32_t row;
  OK(annb_matrix_writer_open(txn, &options, &writer, &err));
  OK(annb_matrix_writer_append(writer, x->n_rows, x->indptr, x->indices, x->values, &err));
  OK(annb_txn_add_part(txn, &spec, &row, &err));
  OK(annb_matrix_writer_close(writer, row, matrix, NULL, &err));
}

static void write_store(plan *p) {
  annb_error err = {0};
  annb_txn *txn;
  uint32_t matrix;
  annb_matrix_spec spec = {"X", STORE_GENES, ANNB_OBS_VAR, p->dtype, ANNB_ABSENT_NEVER};
  OK(annb_txn_begin(path, ANNB_TXN_CREATE, &txn, &err));
  OK(annb_txn_add_matrix(txn, &spec, &matrix, &err));
  add_part(txn, p, 0, matrix);
  add_part(txn, p, 1, matrix);
  annb_txn_set_build(txn, build, p);
  OK(annb_txn_commit(txn, NULL, &err));
}

/* What a dense row of the store is; `exact`: elements that are delivered. */
static void expect_row(const plan *p, uint64_t row, double out[STORE_GENES], uint64_t *exact) {
  uint32_t part = row >= ROWS_0;
  const maker_csr *x = &p->x[part];
  uint64_t r = part ? row - ROWS_0 : row;
  memset(out, 0, STORE_GENES * sizeof *out);
  *exact = 0;
  for (uint64_t k = x->indptr[r]; k < x->indptr[r + 1]; k++) {
    uint32_t gene = part ? p->map[x->indices[k]] : x->indices[k];
    if (gene == ANNB_NONE) continue;
    out[gene] += maker_number(x->values, x->dtype, k);
    ++*exact;
  }
}

static void check_csr(const annb_store *store, annb_context *context, const plan *p, const uint64_t *rows, size_t n,
                      annb_fetch_options options) {
  annb_error err = {0};
  uint64_t bound, exact;
  OK(annb_fetch_nnz(store, 0, rows, n, NULL, &bound, &err));
  int64_t *indptr = calloc(n + 1, sizeof *indptr);
  int32_t *indices = calloc(bound + 1, sizeof *indices);
  uint8_t *values = calloc(bound + 1, 8);
  annb_dtype dtype = options.dtype ? options.dtype : p->dtype;
  double want[STORE_GENES];
  OK(annb_fetch_csr(store, context, 0, rows, n, &options, indptr, indices, values, bound, &err));
  for (size_t i = 0; i < n; i++) {
    expect_row(p, rows[i], want, &exact);
    ck_assert_uint_eq((uint64_t)(indptr[i + 1] - indptr[i]), exact);
    for (int64_t k = indptr[i]; k < indptr[i + 1]; k++) {
      ck_assert_int_lt(indices[k], STORE_GENES);
      if (options.sort_indices && k > indptr[i]) ck_assert_int_ge(indices[k], indices[k - 1]);
      want[indices[k]] -= maker_number(values, dtype, (uint64_t)k);
    }
    for (int g = 0; g < STORE_GENES; g++) ck_assert_double_eq(want[g], 0);
  }
  free(indptr);
  free(indices);
  free(values);
}

static void check_dense(const annb_store *store, annb_context *context, const plan *p, const uint64_t *rows, size_t n, annb_dtype dtype) {
  annb_error err = {0};
  uint64_t exact;
  double want[STORE_GENES];
  annb_fetch_options options = {.dtype = dtype};
  size_t size = n * STORE_GENES * annb_dtype_size(dtype);
  uint8_t *values = maker_guarded(size);
  OK(annb_fetch_dense(store, context, 0, rows, n, &options, values, 0, size, &err));
  for (size_t i = 0; i < n; i++) {
    expect_row(p, rows[i], want, &exact);
    for (uint64_t g = 0; g < STORE_GENES; g++) ck_assert_double_eq(maker_number(values, dtype, i * STORE_GENES + g), want[g]);
  }
}

START_TEST(genes_are_the_stores) {
  static const annb_dtype dtypes[] = {ANNB_F32, ANNB_I32, ANNB_U8, ANNB_F64, ANNB_I64};
  annb_error err = {0};
  annb_store *store;
  annb_context *context;
  uint64_t rows[3 * (ROWS_0 + ROWS_1) + 5];
  plan p = make_plan(dtypes[_i / 3], _i % 3);
  write_store(&p);
  OK(annb_store_open(path, NULL, &store, &err));
  OK(annb_context_open(&context, &err));
  size_t n = maker_awkward_rows(ROWS_0 + ROWS_1, rows);
  for (int sorted = 0; sorted < 2; sorted++) {
    check_csr(store, context, &p, rows, n, (annb_fetch_options){.sort_indices = sorted});
    check_csr(store, context, &p, rows, n, (annb_fetch_options){.sort_indices = sorted, .n_threads = 3});
    check_csr(store, context, &p, rows, n, (annb_fetch_options){.sort_indices = sorted, .dtype = ANNB_F64});
  }
  check_dense(store, context, &p, rows, n, p.dtype);
  check_dense(store, context, &p, rows, n, ANNB_F32);
  check_dense(store, context, &p, rows, n, ANNB_I64);
  annb_context_close(context);
  annb_store_close(store);
  free_plan(&p);
}
END_TEST

START_TEST(stored_order_of_mapped_parts_is_refused) {
  annb_error err = {0};
  annb_store *store;
  annb_context *context;
  plan p = make_plan(ANNB_F32, 0);
  write_store(&p);
  OK(annb_store_open(path, NULL, &store, &err));
  OK(annb_context_open(&context, &err));
  int64_t indptr[2];
  int32_t indices[PART_GENES];
  float values[PART_GENES];
  annb_fetch_options stored = {.gene_order = ANNB_GENES_STORED};
  OK(annb_fetch_csr(store, context, 0, &(uint64_t){3}, 1, &stored, indptr, indices, values, PART_GENES, &err));
  FAILS(annb_fetch_csr(store, context, 0, &(uint64_t){ROWS_0 + 3}, 1, &stored, indptr, indices, values, PART_GENES, &err), ANNB_EINVAL);
  ck_assert_int_eq(err.row, ROWS_0 + 3);
  const uint32_t *map;
  OK(annb_part_gene_map(store, 0, &map, &err));
  ck_assert_ptr_null(map);
  OK(annb_part_gene_map(store, 1, &map, &err));
  ck_assert_mem_eq(map, p.map, sizeof p.map);
  FAILS(annb_part_gene_map(store, 2, &map, &err), ANNB_ERANGE);
  annb_context_close(context);
  annb_store_close(store);
  free_plan(&p);
}
END_TEST

START_TEST(columns_of_the_store) {
  annb_error err = {0};
  annb_store *store;
  const annb_joint_column *label, *size, *other;
  const annb_column *categories;
  annb_column_info info;
  uint32_t n;
  plan p = make_plan(ANNB_F32, 0);
  write_store(&p);
  OK(annb_store_open(path, NULL, &store, &err));
  OK(annb_store_n_columns(store, ANNB_AXIS_OBS, &n, &err));
  ck_assert_uint_eq(n, 2);
  OK(annb_store_find_column(store, ANNB_AXIS_OBS, "label", &label, &err));
  OK(annb_store_column(store, ANNB_AXIS_OBS, 1, &size, &err));
  annb_joint_column_get_info(label, &info);
  ck_assert(info.kind == ANNB_COLUMN_CATEGORICAL && info.dtype == ANNB_I32 && info.length == ROWS_0 + ROWS_1 && info.n_categories == 3);
  annb_joint_column_get_info(size, &info);
  ck_assert(info.kind == ANNB_COLUMN_FIXED && info.dtype == ANNB_I32 && !info.has_mask && !strcmp(info.name, "size"));
  uint64_t rows[3 * (ROWS_0 + ROWS_1) + 5];
  int32_t codes[3 * (ROWS_0 + ROWS_1) + 5], sizes[3 * (ROWS_0 + ROWS_1) + 5];
  uint8_t mask[3 * (ROWS_0 + ROWS_1) + 5];
  size_t n_rows = maker_awkward_rows(ROWS_0 + ROWS_1, rows);
  OK(annb_store_column_codes(label, rows, n_rows, codes, &err));
  OK(annb_store_column_gather(size, rows, n_rows, sizes, mask, &err));
  for (size_t i = 0; i < n_rows; i++) {
    bool second = rows[i] >= ROWS_0;
    int32_t r = (int32_t)(second ? rows[i] - ROWS_0 : rows[i]), code = r % 4 - 1;
    ck_assert_int_eq(codes[i], code < 0 ? -1 : second ? p.codes[code] : code);
    ck_assert_int_eq(sizes[i], second ? -r : r);
    ck_assert_int_eq(mask[i], 0);
  }
  OK(annb_store_column_codes(label, NULL, ROWS_0 + ROWS_1, codes, &err));
  ck_assert_int_eq(codes[ROWS_0 + 1], p.codes[0]);
  OK(annb_joint_column_categories(label, &categories, &err));
  FAILS(annb_joint_column_categories(size, &categories, &err), ANNB_EINVAL);
  FAILS(annb_store_column_codes(size, rows, 1, codes, &err), ANNB_EINVAL);
  FAILS(annb_store_column_gather(label, rows, 1, sizes, NULL, &err), ANNB_EINVAL);
  FAILS(annb_store_column_gather(size, &(uint64_t){ROWS_0 + ROWS_1}, 1, sizes, NULL, &err), ANNB_ERANGE);
  FAILS(annb_store_find_column(store, ANNB_AXIS_OBS, "nothing", &other, &err), ANNB_ENOTFOUND);
  FAILS(annb_store_index_column(store, ANNB_AXIS_OBS, &other, &err), ANNB_ENOTFOUND);
  FAILS(annb_store_column(store, ANNB_AXIS_OBS, 2, &other, &err), ANNB_ERANGE);
  FAILS(annb_store_n_columns(store, ANNB_AXIS_NONE, &n, &err), ANNB_EINVAL);
  OK(annb_store_n_columns(store, ANNB_AXIS_VAR, &n, &err));
  ck_assert_uint_eq(n, 0);
  annb_store_close(store);
  free_plan(&p);
}
END_TEST

/* ---- hostile maps ---- */

static void break_range(plan *p) { p->map[7] = STORE_GENES; }
static void break_repeat(plan *p) { p->map[7] = p->map[8] = 5; }
static void break_name(plan *p) { p->array = "genes"; }
static void break_length(plan *p) { p->map_length = PART_GENES - 1; }

static void (*const gene_faults[])(plan *p) = {break_range, break_repeat, break_name, break_length};

static uint64_t count_findings(void) {
  annb_error err = {0};
  uint64_t n;
  OK(annb_verify(path, NULL, NULL, NULL, &n, &err));
  return n;
}

START_TEST(hostile_gene_maps) {
  annb_error err = {0};
  annb_store *store;
  annb_context *context;
  float values[STORE_GENES];
  plan p = make_plan(ANNB_F32, 0);
  ck_assert_uint_eq((write_store(&p), count_findings()), 0);
  maker_remove(path);
  gene_faults[_i](&p);
  write_store(&p);
  OK(annb_store_open(path, NULL, &store, &err));
  OK(annb_context_open(&context, &err));
  OK(annb_fetch_dense(store, context, 0, &(uint64_t){0}, 1, NULL, values, 0, sizeof values, &err));
  for (int i = 0; i < 2; i++)
    FAILS(annb_fetch_dense(store, context, 0, &(uint64_t){ROWS_0}, 1, NULL, values, 0, sizeof values, &err), ANNB_ECORRUPT);
  ck_assert_uint_gt(count_findings(), 0);
  annb_context_close(context);
  annb_store_close(store);
  free_plan(&p);
}
END_TEST

static void break_code(plan *p) { p->codes[1] = 3; }
static void break_negative(plan *p) { p->codes[1] = -1; }
static void break_codes(plan *p) { p->n_codes = 2; }
static void break_column(plan *p) { p->categories_column = 1; }
static void break_no_column(plan *p) { p->categories_column = 77; }

static void (*const code_faults[])(plan *p) = {break_code, break_negative, break_codes, break_column, break_no_column};

START_TEST(hostile_code_maps) {
  annb_error err = {0};
  annb_store *store;
  uint32_t n;
  plan p = make_plan(ANNB_F32, 0);
  code_faults[_i](&p);
  write_store(&p);
  OK(annb_store_open(path, NULL, &store, &err));
  for (int i = 0; i < 2; i++) FAILS(annb_store_n_columns(store, ANNB_AXIS_OBS, &n, &err), ANNB_ECORRUPT);
  OK(annb_part_n_columns(store, 1, ANNB_AXIS_OBS, &n, &err)); /* the parts' own are not touched by it */
  ck_assert_uint_gt(count_findings(), 0);
  annb_store_close(store);
  free_plan(&p);
}
END_TEST

START_TEST(parts_of_other_sizes_need_a_map) {
  annb_error err = {0};
  annb_txn *txn;
  uint32_t matrix;
  plan p = make_plan(ANNB_F32, 0);
  p.no_map = true;
  annb_matrix_spec spec = {"X", STORE_GENES, ANNB_OBS_VAR, p.dtype, ANNB_ABSENT_NEVER};
  OK(annb_txn_begin(path, ANNB_TXN_CREATE, &txn, &err));
  OK(annb_txn_add_matrix(txn, &spec, &matrix, &err));
  add_part(txn, &p, 0, matrix);
  add_part(txn, &p, 1, matrix);
  annb_txn_set_build(txn, build, &p);
  FAILS(annb_txn_commit(txn, NULL, &err), ANNB_EINVAL);
  ck_assert_ptr_nonnull(strstr(err.message, "genes"));
  free_plan(&p);
}
END_TEST

/* ---- append ---- */

/* A transaction that adds part 0 of the plan again; it has matrix X. */
static annb_txn *begin_append(const plan *p) {
  annb_error err = {0};
  annb_txn *txn;
  uint32_t matrix;
  annb_matrix_spec spec = {"X", STORE_GENES, ANNB_OBS_VAR, p->dtype, ANNB_ABSENT_NEVER};
  OK(annb_txn_begin(path, ANNB_TXN_APPEND, &txn, &err));
  OK(annb_txn_add_matrix(txn, &spec, &matrix, &err));
  add_part(txn, p, 0, matrix);
  return txn;
}

START_TEST(appending) {
  annb_error err = {0};
  annb_txn *first, *second;
  annb_store *store, *old;
  annb_store_info info;
  uint64_t generation;
  plan p = make_plan(ANNB_F32, 0);
  FAILS(annb_txn_begin(path, ANNB_TXN_APPEND, &first, &err), ANNB_ENOTSTORE);
  write_store(&p);
  OK(annb_store_open(path, NULL, &old, &err));
  first = begin_append(&p);
  second = begin_append(&p);
  OK(annb_txn_commit(second, &generation, &err));
  ck_assert_uint_eq(generation, 2);
  OK(annb_txn_commit(first, &generation, &err));
  ck_assert_uint_eq(generation, 3);
  OK(annb_store_open(path, NULL, &store, &err));
  annb_store_get_info(store, &info);
  ck_assert(info.n_obs == 3 * ROWS_0 + ROWS_1 && info.n_parts == 4 && info.n_matrices == 1 && info.n_vars == STORE_GENES);
  annb_store_close(store);
  annb_store_get_info(old, &info);
  ck_assert_uint_eq(info.n_obs, ROWS_0 + ROWS_1);
  annb_store_close(old);
  ck_assert_uint_eq(count_findings(), 0);
  free_plan(&p);
}
END_TEST

/* A writer elsewhere, whose locks are not seen here, takes the next generation between the draft and its publication. */
static annb_status be_overtaken(void *user, annb_txn *txn, const annb_manifest *base, annb_manifest *draft, annb_error *why) {
  int *calls = user;
  annb_error err = {0};
  (void)txn;
  if (++*calls > 3) return annb_manifest_append_schema(draft, base, why);
  annb_manifest other;
  char *newest = annb_manifest_path(path, base->header.generation), *next = annb_manifest_path(path, base->header.generation + 1);
  OK(annb_manifest_load(newest, base->header.generation, &other, &err));
  other.header.generation++;
  memcpy(other.header.parent, other.sha256, sizeof other.header.parent);
  OK(annb_manifest_write(&other, next, &err));
  annb_manifest_free(&other);
  free(newest);
  free(next);
  return annb_manifest_append_schema(draft, base, why);
}

START_TEST(overtaken) {
  annb_error err = {0};
  uint64_t generation;
  int calls = 0;
  annb_store *store;
  annb_store_info info;
  plan p = make_plan(ANNB_F32, 0);
  write_store(&p);
  annb_txn *txn = begin_append(&p);
  annb_txn_set_build(txn, be_overtaken, &calls);
  OK(annb_txn_commit(txn, &generation, &err));
  ck_assert_int_eq(calls, 4);
  ck_assert_uint_eq(generation, 5);
  OK(annb_store_open(path, NULL, &store, &err));
  annb_store_get_info(store, &info);
  ck_assert(info.n_obs == 2 * ROWS_0 + ROWS_1 && info.n_parts == 3);
  annb_store_close(store);
  ck_assert_uint_eq(count_findings(), 0);
  free_plan(&p);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("parts");
  TCase *all = tcase_create("all");
  tcase_set_timeout(all, 120);
  tcase_add_checked_fixture(all, setup, teardown);
  tcase_add_loop_test(all, genes_are_the_stores, 0, 15);
  tcase_add_test(all, stored_order_of_mapped_parts_is_refused);
  tcase_add_test(all, columns_of_the_store);
  tcase_add_loop_test(all, hostile_gene_maps, 0, 4);
  tcase_add_loop_test(all, hostile_code_maps, 0, 5);
  tcase_add_test(all, parts_of_other_sizes_need_a_map);
  tcase_add_test(all, appending);
  tcase_add_test(all, overtaken);
  suite_add_tcase(suite, all);
  return suite_run(suite);
}
