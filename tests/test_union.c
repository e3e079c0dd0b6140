/* Several stores read as one: against what their genes and categories, joined by hand, say. */
#include "column_maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STORES = 3, NAMES = 40, MOST_GENES = 30, MOST_ROWS = 90 };

static char dir[256];
static annb_context *context;

static void setup(void) {
  maker_tmpdir(dir);
  OK(annb_context_open(&context, &err));
}

static void teardown(void) {
  annb_context_close(context);
  maker_remove(dir);
}

/* ---- stores ---- */

/* What a store is: genes are numbers of names, so are categories. */
typedef struct made {
  char path[300];
  uint64_t n_rows;
  uint32_t n_genes, genes[MOST_GENES];
  bool nameless;
  uint32_t n_categories, categories[4];
  int8_t codes[MOST_ROWS];
  double size[MOST_ROWS];
  annb_dtype dtype;
  maker_csr x;
  annb_store *store;
} made;

static const char *gene_name(uint32_t number) {
  static char names[NAMES][16];
  snprintf(names[number], sizeof names[number], "gene%u", number);
  return names[number];
}

static const char *const category_names[] = {"B cell", "T cell", "NK", "mono", "x"};

static uint32_t write_columns(annb_txn *txn, uint32_t part, void *user) {
  const made *m = user;
  annb_arrays_writer *w;
  const char *names[MOST_GENES], *categories[4];
  uint32_t object;
  (void)part;
  for (uint32_t i = 0; i < m->n_genes; i++) names[i] = gene_name(m->genes[i]);
  for (uint32_t i = 0; i < m->n_categories; i++) categories[i] = category_names[m->categories[i]];
  OK(annb_arrays_writer_open(txn, &w, &err));
  if (!m->nameless) (void)strings(w, "_index", ANNB_AXIS_VAR, ANNB_COLUMN_INDEX, names, m->n_genes, ANNB_NONE);
  if (m->n_categories) {
    uint32_t list = strings(w, "label", ANNB_AXIS_NONE, 0, categories, m->n_categories, ANNB_NONE);
    uint32_t codes = vector(w, ANNB_I8, m->codes, m->n_rows);
    (void)add(w, (annb_column_spec){"label", m->n_rows, ANNB_AXIS_OBS, ANNB_COLUMN_CATEGORICAL, 0, codes, ANNB_NONE, ANNB_NONE, list});
  }
  uint32_t sizes = vector(w, ANNB_F64, m->size, m->n_rows);
  (void)add(w, (annb_column_spec){"size", m->n_rows, ANNB_AXIS_OBS, ANNB_COLUMN_FIXED, 0, sizes, ANNB_NONE, ANNB_NONE, ANNB_NONE});
  OK(annb_arrays_writer_close(w, &object, &err));
  return object;
}

/* Plans of stores that overlap. */
static void plan(made *m, uint32_t i, uint64_t seed) {
  uint64_t state = seed * 100 + i;
  uint32_t all[NAMES];
  *m = (made){.n_rows = 40 + 20 * i, .n_genes = MOST_GENES - i, .n_categories = 2 + i % 3, .dtype = ANNB_F32};
  snprintf(m->path, sizeof m->path, "%s", maker_join(dir, ""));
  snprintf(m->path + strlen(m->path), 32, "s%u", i);
  for (uint32_t k = 0; k < NAMES; k++) all[k] = k;
  for (uint32_t k = 0; k < MOST_GENES; k++) {
    uint32_t at = k + (uint32_t)(maker_next(&state) % (NAMES - k)), x = all[at];
    all[at] = all[k];
    m->genes[k] = all[k] = x;
  }
  for (uint32_t k = 0; k < m->n_categories; k++) m->categories[k] = (k * 3 + i) % 5; /* 3 and 5 share no factor: all differ */
  for (uint64_t r = 0; r < m->n_rows; r++) {
    m->codes[r] = (int8_t)((int)(maker_next(&state) % (m->n_categories + 1)) - 1);
    m->size[r] = (double)(maker_next(&state) % 100);
  }
}

static void write_more(made *m, annb_txn_mode mode, const maker_matrix *more, uint32_t n_more) {
  maker_matrix matrices[4];
  const uint64_t part_rows[] = {m->n_rows};
  m->x = maker_random(m->n_rows, m->n_rows, m->n_genes, 8, m->dtype, MAKER_SHUFFLED);
  const maker_csr *xs[] = {&m->x};
  matrices[0] = (maker_matrix){.name = "X", .axes = ANNB_OBS_VAR, .dtype = m->dtype, .n_cols = m->n_genes, .form = ANNB_CSR,
                               .segment_rows = 25, .block_rows = 8, .parts = xs};
  for (uint32_t i = 0; i < n_more; i++) matrices[1 + i] = more[i];
  maker_store(&(maker_spec){.path = m->path, .mode = mode, .n_vars = m->n_genes, .n_parts = 1, .part_rows = part_rows, .matrices = matrices,
                            .n_matrices = 1 + n_more, .columns = write_columns, .user = m});
  OK(annb_store_open(m->path, NULL, &m->store, &err));
}

static void write_store(made *m) { write_more(m, ANNB_TXN_CREATE, NULL, 0); }

static void make_all(made *all, uint64_t seed) {
  for (uint32_t i = 0; i < STORES; i++) {
    plan(&all[i], i, seed);
    write_store(&all[i]);
  }
}

static void drop(made *all, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    annb_store_close(all[i].store);
    maker_free(&all[i].x);
  }
}

static annb_store *unite(const made *all, uint32_t n, annb_gene_join join) {
  const annb_store *stores[STORES];
  annb_store *u;
  for (uint32_t i = 0; i < n; i++) stores[i] = all[i].store;
  OK(annb_union_open(stores, n, join, &u, &err));
  return u;
}

static void refuse(const made *all, uint32_t n, annb_gene_join join, annb_status status, const char *why) {
  const annb_store *stores[STORES];
  annb_store *u;
  for (uint32_t i = 0; i < n; i++) stores[i] = all[i].store;
  FAILS(annb_union_open(stores, n, join, &u, &err), status);
  ck_assert_msg(strstr(err.message, why) != NULL, "%s", err.message);
}

/* ---- by hand ---- */

static bool has_gene(const made *m, uint32_t number) {
  for (uint32_t i = 0; i < m->n_genes; i++)
    if (m->genes[i] == number) return true;
  return false;
}

/* Numbers of the joined names. */
static uint32_t join_by_hand(const made *all, uint32_t n, annb_gene_join join, uint32_t *list) {
  uint32_t n_list = 0;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < all[i].n_genes; k++) {
      uint32_t number = all[i].genes[k], everywhere = 0;
      bool there = false;
      for (uint32_t j = 0; j < n_list; j++) there = there || list[j] == number;
      for (uint32_t j = 0; j < n; j++) everywhere += has_gene(&all[j], number);
      if (!there && (join == ANNB_JOIN_OUTER || everywhere == n)) list[n_list++] = number;
    }
  return n_list;
}

static const made *store_of(const made *all, uint64_t *row) {
  while (*row >= all->n_rows) *row -= all++->n_rows;
  return all;
}

/* A row over the joined genes. */
static void row_by_hand(const made *all, uint64_t row, const uint32_t *list, uint32_t n_list, float *out) {
  const made *m = store_of(all, &row);
  for (uint32_t j = 0; j < n_list; j++) out[j] = 0;
  for (uint64_t k = m->x.indptr[row]; k < m->x.indptr[row + 1]; k++)
    for (uint32_t j = 0; j < n_list; j++)
      if (list[j] == m->genes[m->x.indices[k]]) out[j] = (float)maker_number(m->x.values, m->dtype, k);
}

static uint64_t total_rows(const made *all, uint32_t n) {
  uint64_t rows = 0;
  for (uint32_t i = 0; i < n; i++) rows += all[i].n_rows;
  return rows;
}

static const char *text_of(const char *bytes, uint64_t length) {
  static char text[64];
  snprintf(text, sizeof text, "%.*s", (int)length, bytes);
  return text;
}

static const annb_joint_column *find(const annb_store *store, annb_axis axis, const char *name) {
  const annb_joint_column *column;
  OK(annb_store_find_column(store, axis, name, &column, &err));
  return column;
}

/* ---- reading ---- */

static void check_genes(const annb_store *u, const uint32_t *list, uint32_t n_list) {
  const annb_joint_column *names;
  annb_store_info info;
  const char *bytes;
  uint64_t length;
  annb_store_get_info(u, &info);
  ck_assert_uint_eq(info.n_vars, n_list);
  OK(annb_store_index_column(u, ANNB_AXIS_VAR, &names, &err));
  for (uint32_t j = 0; j < n_list; j++) {
    OK(annb_store_column_string(names, j, &bytes, &length, NULL, &err));
    ck_assert_str_eq(text_of(bytes, length), gene_name(list[j]));
  }
}

static void check_rows(const annb_store *u, const made *all, uint32_t n, const uint32_t *list, uint32_t n_list, bool sorted) {
  uint64_t n_rows = total_rows(all, n), *rows = malloc((3 * n_rows + 5) * sizeof *rows), total;
  size_t asked = maker_awkward_rows(n_rows, rows);
  uint32_t x;
  OK(annb_store_find_matrix(u, "X", &x, &err));
  OK(annb_fetch_nnz(u, x, rows, asked, NULL, &total, &err));
  int64_t *indptr = malloc((asked + 1) * sizeof *indptr);
  int32_t *indices = malloc((total + 1) * sizeof *indices);
  float *values = malloc((total + 1) * sizeof *values), *dense = malloc(asked * n_list * sizeof *dense + 1);
  float *row = malloc(n_list * sizeof *row);
  annb_fetch_options as = {.dtype = ANNB_F32, .sort_indices = sorted};
  OK(annb_fetch_csr(u, context, x, rows, asked, &as, indptr, indices, values, total, &err));
  OK(annb_fetch_dense(u, context, x, rows, asked, &as, dense, 0, asked * n_list * sizeof *dense, &err));
  for (size_t i = 0; i < asked; i++) {
    row_by_hand(all, rows[i], list, n_list, row);
    ck_assert_mem_eq(dense + i * n_list, row, n_list * sizeof *row);
    for (int64_t k = indptr[i]; k < indptr[i + 1]; k++) {
      ck_assert(!sorted || k == indptr[i] || indices[k] > indices[k - 1]);
      ck_assert(values[k] == row[indices[k]]);
      row[indices[k]] = 0;
    }
    for (uint32_t j = 0; j < n_list; j++) ck_assert(row[j] == 0);
  }
  free(rows), free(indptr), free(indices), free(values), free(dense), free(row);
}

static void check_columns(const annb_store *u, const made *all, uint32_t n) {
  uint64_t n_rows = total_rows(all, n), length;
  const annb_joint_column *label = find(u, ANNB_AXIS_OBS, "label");
  const annb_column *categories;
  int32_t *codes = malloc(n_rows * sizeof *codes);
  double *sizes = malloc(n_rows * sizeof *sizes);
  const char *bytes;
  OK(annb_joint_column_categories(label, &categories, &err));
  OK(annb_store_column_codes(label, NULL, n_rows, codes, &err));
  OK(annb_store_column_gather(find(u, ANNB_AXIS_OBS, "size"), NULL, n_rows, sizes, NULL, &err));
  for (uint64_t i = 0; i < n_rows; i++) {
    uint64_t row = i;
    const made *m = store_of(all, &row);
    ck_assert(sizes[i] == m->size[row]);
    if (!m->n_categories || m->codes[row] < 0) {
      ck_assert_int_eq(codes[i], -1);
      continue;
    }
    OK(annb_column_string(categories, (uint64_t)codes[i], &bytes, &length, NULL, &err));
    ck_assert_str_eq(text_of(bytes, length), category_names[m->categories[m->codes[row]]]);
  }
  free(codes), free(sizes);
}

static void check_where(const annb_store *u, const made *all, uint32_t n) {
  uint64_t n_rows = total_rows(all, n), selected, expected = 0, *bits = malloc((n_rows / 64 + 1) * sizeof *bits);
  OK(annb_where(u, "label in ('T cell', 'mono') and size > 30 or label is null", bits, &selected, &err));
  for (uint64_t i = 0; i < n_rows; i++) {
    uint64_t row = i;
    const made *m = store_of(all, &row);
    bool null = !m->n_categories || m->codes[row] < 0;
    uint32_t category = null ? 0 : m->categories[m->codes[row]];
    bool holds = null || ((category == 1 || category == 3) && m->size[row] > 30);
    ck_assert_int_eq(bits[i / 64] >> i % 64 & 1, holds);
    expected += holds;
  }
  ck_assert_uint_eq(selected, expected);
  free(bits);
}

/* Everything, with the stores closed: a union keeps nothing of theirs. */
START_TEST(reading) {
  const annb_gene_join join = _i % 2 ? ANNB_JOIN_INNER : ANNB_JOIN_OUTER;
  static const annb_dtype dtypes[] = {ANNB_F32, ANNB_U16, ANNB_F64};
  made all[STORES];
  uint32_t list[NAMES], n = 1 + (uint32_t)_i % STORES, n_list;
  for (uint32_t i = 0; i < n; i++) {
    plan(&all[i], i, (uint64_t)_i);
    all[i].dtype = dtypes[_i / 6 == 1 ? i : 0];
    if (_i >= 12 && i == 1) all[i].n_categories = 0; /* a store without the column */
    write_store(&all[i]);
  }
  annb_store *u = unite(all, n, join);
  for (uint32_t i = 0; i < n; i++) {
    annb_store_close(all[i].store);
    all[i].store = NULL;
  }
  n_list = join_by_hand(all, n, join, list);
  ck_assert_uint_gt(n_list, 0);
  check_genes(u, list, n_list);
  check_rows(u, all, n, list, n_list, false);
  check_rows(u, all, n, list, n_list, true);
  check_columns(u, all, n);
  check_where(u, all, n);
  annb_store_close(u);
  drop(all, n);
}
END_TEST

START_TEST(what_it_is) {
  made all[STORES];
  annb_store_info info, one;
  annb_source_info source;
  annb_part_info part;
  bool exact;
  uint64_t bytes = 0, first = 0;
  make_all(all, 1);
  annb_store *u = unite(all, STORES, ANNB_JOIN_INNER);
  annb_store_get_info(u, &info);
  ck_assert_uint_eq(info.n_sources, STORES);
  ck_assert_uint_eq(info.generation, 0);
  ck_assert_uint_eq(info.n_parts, STORES);
  for (uint32_t i = 0; i < STORES; i++) {
    annb_store_get_info(all[i].store, &one);
    OK(annb_store_source(u, i, &source, &err));
    ck_assert_str_eq(source.path, all[i].path);
    ck_assert_mem_eq(source.store_id, one.store_id, 16);
    ck_assert_uint_eq(source.generation, 1);
    ck_assert_uint_eq(source.first_row, first);
    ck_assert_uint_eq(source.first_part, i);
    OK(annb_store_part(u, i, &part, &err));
    ck_assert_uint_eq(part.first_row, first);
    ck_assert_uint_eq(part.n_vars, all[i].n_genes);
    first += all[i].n_rows;
    bytes += one.bytes;
    ck_assert_uint_eq(one.n_sources, 1);
  }
  ck_assert_uint_eq(info.bytes, bytes);
  ck_assert_uint_eq(info.n_obs, first);
  FAILS(annb_store_source(u, STORES, &source, &err), ANNB_ERANGE);
  OK(annb_matrix_nnz_exact(u, 0, &exact, &err));
  ck_assert(!exact);
  annb_store_close(u);
  u = unite(all, STORES, ANNB_JOIN_OUTER);
  OK(annb_matrix_nnz_exact(u, 0, &exact, &err));
  ck_assert(exact);
  annb_store_close(u);
  drop(all, STORES);
}
END_TEST

START_TEST(refused) {
  made all[STORES];
  const annb_store *twice[2], *nested[2];
  annb_store *u, *v;
  make_all(all, 2);
  refuse(all, 2, ANNB_JOIN_NONE, ANNB_EINVAL, "other genes");
  ck_assert_ptr_nonnull(strstr(err.message, "join inner"));
  ck_assert_ptr_null(strstr(err.message, "--"));
  twice[0] = twice[1] = all[0].store;
  FAILS(annb_union_open(twice, 2, ANNB_JOIN_OUTER, &v, &err), ANNB_EINVAL);
  ck_assert_ptr_nonnull(strstr(err.message, "the same store"));
  u = unite(all, 2, ANNB_JOIN_OUTER);
  nested[0] = u;
  nested[1] = all[2].store;
  FAILS(annb_union_open(nested, 2, ANNB_JOIN_OUTER, &v, &err), ANNB_EINVAL);
  nested[0] = NULL;
  FAILS(annb_union_open(nested, 2, ANNB_JOIN_OUTER, &v, &err), ANNB_EINVAL);
  FAILS(annb_union_open(nested, 0, ANNB_JOIN_OUTER, &v, &err), ANNB_EINVAL);
  FAILS(annb_union_open(twice, 1, (annb_gene_join)7, &v, &err), ANNB_EINVAL);
  annb_store_close(u);
  drop(all, STORES);
}
END_TEST

/* Names that repeat, no common name, and no names. */
START_TEST(odd_genes) {
  made all[STORES];
  for (uint32_t i = 0; i < STORES; i++) plan(&all[i], i, 3);
  all[0].genes[4] = all[0].genes[9];
  all[1] = all[0];
  all[1].n_rows = 33;
  snprintf(all[1].path, sizeof all[1].path, "%s", maker_join(dir, "equal"));
  for (uint32_t i = 0; i < STORES; i++) write_store(&all[i]);
  annb_store *u = unite(all, 2, ANNB_JOIN_INNER); /* equal lists need no names that differ */
  annb_store_close(u);
  refuse(all, 3, ANNB_JOIN_INNER, ANNB_EINVAL, "occurs more than once");
  ck_assert_ptr_null(strstr(err.message, "--"));
  drop(all, STORES);

  for (uint32_t i = 0; i < 2; i++) {
    plan(&all[i], i, 4);
    snprintf(all[i].path, sizeof all[i].path, "%s", maker_join(dir, i ? "apart1" : "apart0"));
    all[i].n_genes = 5;
    for (uint32_t k = 0; k < 5; k++) all[i].genes[k] = 5 * i + k;
    write_store(&all[i]);
  }
  refuse(all, 2, ANNB_JOIN_INNER, ANNB_EINVAL, "no gene is in all of");
  u = unite(all, 2, ANNB_JOIN_OUTER);
  annb_store_close(u);
  drop(all, 2);

  for (uint32_t i = 0; i < 3; i++) {
    plan(&all[i], i, 5);
    snprintf(all[i].path, sizeof all[i].path, "%s/nameless%u", dir, i);
    all[i].nameless = true;
    all[i].n_genes = i < 2 ? 7 : 8;
    write_store(&all[i]);
  }
  u = unite(all, 2, ANNB_JOIN_NONE);
  annb_store_close(u);
  refuse(all, 2, ANNB_JOIN_OUTER, ANNB_EINVAL, "no names of genes");
  refuse(all, 3, ANNB_JOIN_NONE, ANNB_EINVAL, "8 genes");
  drop(all, 3);
}
END_TEST

static const annb_loader_matrix just_x[] = {{.name = "X", .dense = true, .fetch = {.dtype = ANNB_F32}}};
static const char *const label[] = {"label"};

static annb_loader_options options(annb_gene_join join) {
  return (annb_loader_options){.sampler = {.seed = 5, .block_size = 4, .batch_size = 8, .fetch_factor = 4}, .matrices = just_x,
                               .n_matrices = 1, .labels = label, .n_labels = 1, .join = join};
}

static annb_loader *open_loader(const made *all, uint32_t n, const annb_loader_options *o) {
  const annb_store *stores[STORES];
  annb_loader *loader;
  for (uint32_t i = 0; i < n; i++) stores[i] = all[i].store;
  OK(annb_loader_open(stores, n, o, &loader, &err));
  return loader;
}

/* Stored ids are for rows whose genes are not mapped; matrices that only some stores have, and those that do not fit. */
START_TEST(matrices) {
  made all[STORES];
  maker_csr y = maker_random(1, 40, MOST_GENES, 3, ANNB_F32, MAKER_SORTED), p = maker_random(2, 40, 6, 3, ANNB_F32, MAKER_SORTED);
  maker_csr q = maker_random(3, 60, 7, 3, ANNB_F32, MAKER_SORTED), raw[2];
  const maker_csr *ys[] = {&y}, *ps[] = {&p}, *qs[] = {&q}, *raws[2][1];
  uint64_t rows[] = {0, 39, 40}, total;
  uint32_t x, matrix;
  float dense[2 * NAMES];
  const annb_fetch_options stored = {.gene_order = ANNB_GENES_STORED};
  for (uint32_t i = 0; i < 2; i++) {
    plan(&all[i], i, 6);
    raw[i] = maker_random(9, all[i].n_rows, 11, 3, ANNB_F32, MAKER_SORTED);
    raws[i][0] = &raw[i];
    maker_matrix more[] = {
        {.name = "obsm/p", .axes = ANNB_OBS_FREE, .dtype = ANNB_F32, .n_cols = 6 + i, .form = ANNB_CSR, .parts = i ? qs : ps},
        {.name = "raw/X", .axes = ANNB_OBS_RAW_VAR, .dtype = ANNB_F32, .n_cols = 11, .form = ANNB_CSR, .parts = raws[i]},
        {.name = "layers/y", .axes = ANNB_OBS_VAR, .dtype = ANNB_F32, .n_cols = MOST_GENES, .form = ANNB_CSR, .parts = ys}};
    write_more(&all[i], ANNB_TXN_CREATE, more, i ? 2 : 3);
  }
  annb_store *u = unite(all, 2, ANNB_JOIN_OUTER);
  OK(annb_store_find_matrix(u, "X", &x, &err));
  FAILS(annb_fetch_dense(u, context, x, rows + 2, 1, &stored, dense, 0, sizeof dense, &err), ANNB_EINVAL);
  FAILS(annb_store_find_matrix(u, "obsm/p", &matrix, &err), ANNB_ENOTFOUND);
  FAILS(annb_store_find_matrix(u, "raw/X", &matrix, &err), ANNB_ENOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.message, "do not fit together"));
  OK(annb_store_find_matrix(u, "layers/y", &matrix, &err));
  OK(annb_fetch_nnz(u, matrix, rows, 2, NULL, &total, &err));
  FAILS(annb_fetch_nnz(u, matrix, rows, 3, NULL, &total, &err), ANNB_ENOTFOUND);

  const annb_loader_matrix both[] = {{.name = "X"}, {.name = "layers/y"}};
  const annb_store *stores[] = {all[0].store, all[1].store};
  const annb_row_range first = {0, 40};
  annb_loader_options o = options(ANNB_JOIN_OUTER);
  annb_loader *loader;
  annb_batch batch;
  annb_row_set *set;
  o.matrices = both;
  o.n_matrices = 2;
  FAILS(annb_loader_open(stores, 2, &o, &loader, &err), ANNB_ENOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.message, "layers/y"));
  OK(annb_row_set_of_ranges(&first, 1, 100, &set, &err));
  o.sampler.rows = set;
  OK(annb_loader_open(stores, 2, &o, &loader, &err));
  for (uint64_t n = 0; n < 40; annb_batch_release(&batch)) {
    OK(annb_loader_next(loader, &batch, &err));
    ck_assert_uint_gt(batch.n_rows, 0);
    n += batch.n_rows;
  }
  annb_loader_close(loader);
  annb_row_set_close(set);
  annb_store_close(u);
  drop(all, 2);
  maker_free(&y), maker_free(&p), maker_free(&q), maker_free(&raw[0]), maker_free(&raw[1]);
}
END_TEST

/* ---- training ---- */

static void check_batch(const annb_loader *loader, const annb_batch *b, const made *all, const uint32_t *list, uint32_t n_list) {
  float row[NAMES];
  const char *bytes;
  uint64_t length;
  for (uint64_t i = 0; i < b->n_rows; i++) {
    uint64_t at = b->rows[i];
    row_by_hand(all, at, list, n_list, row);
    ck_assert_uint_eq(b->matrices[0].n_cols, n_list);
    ck_assert_mem_eq((const float *)b->matrices[0].values + i * n_list, row, n_list * sizeof *row);
    const made *m = store_of(all, &at);
    int32_t code = b->labels[0][i];
    ck_assert_int_eq(code < 0, m->codes[at] < 0);
    if (code < 0) continue;
    OK(annb_loader_category(loader, 0, (uint64_t)code, &bytes, &length, &err));
    ck_assert_str_eq(text_of(bytes, length), category_names[m->categories[m->codes[at]]]);
  }
}

/* Every rank's batches of an epoch, each row once or, padded, at most one batch twice. */
START_TEST(epochs) {
  const uint32_t world = 1 + (uint32_t)_i % 3;
  const annb_gene_join join = _i < 3 ? ANNB_JOIN_INNER : ANNB_JOIN_OUTER;
  made all[STORES];
  uint32_t list[NAMES], n_list;
  make_all(all, 7);
  n_list = join_by_hand(all, STORES, join, list);
  uint64_t n_rows = total_rows(all, STORES), steps = 0;
  uint8_t *seen = calloc(n_rows, 1);
  for (uint32_t rank = 0; rank < world; rank++) {
    annb_loader_options o = options(join);
    annb_batch batch;
    o.topology = (annb_topology){.rank = rank, .world = world};
    o.access = _i % 2 ? ANNB_ACCESS_PREAD : ANNB_ACCESS_MMAP;
    o.n_threads = 2;
    annb_loader *loader = open_loader(all, STORES, &o);
    ck_assert(!rank || steps == annb_loader_len(loader));
    steps = annb_loader_len(loader);
    for (uint64_t s = 0; s < steps; s++) {
      OK(annb_loader_next(loader, &batch, &err));
      check_batch(loader, &batch, all, list, n_list);
      for (uint64_t i = 0; i < batch.n_rows; i++) seen[batch.rows[i]]++;
      annb_batch_release(&batch);
    }
    annb_loader_close(loader);
  }
  uint64_t more = 0;
  for (uint64_t i = 0; i < n_rows; i++) {
    ck_assert_uint_ge(seen[i], 1);
    more += seen[i] - 1u;
  }
  ck_assert_uint_le(more, 8 * (world - 1));
  free(seen);
  drop(all, STORES);
}
END_TEST

/* A vocabulary is in the union's numbers. */
START_TEST(vocabulary) {
  made all[STORES];
  uint32_t list[NAMES], n_list, genes[] = {5, ANNB_NONE, 0, 12}, some[4];
  make_all(all, 8);
  n_list = join_by_hand(all, STORES, ANNB_JOIN_OUTER, list);
  ck_assert_uint_gt(n_list, 12);
  for (int i = 0; i < 4; i++) some[i] = genes[i] == ANNB_NONE ? NAMES : list[genes[i]];
  const annb_loader_matrix m = {.name = "X", .dense = true, .fetch = {.dtype = ANNB_F32}, .genes = genes, .n_genes = 4};
  annb_loader_options o = options(ANNB_JOIN_OUTER);
  annb_batch batch;
  o.matrices = &m;
  annb_loader *loader = open_loader(all, STORES, &o);
  for (uint64_t s = 0; s < annb_loader_len(loader); s++) {
    OK(annb_loader_next(loader, &batch, &err));
    check_batch(loader, &batch, all, some, 4);
    annb_batch_release(&batch);
  }
  annb_loader_close(loader);
  drop(all, STORES);
}
END_TEST

static void check_same(const annb_batch *a, const annb_batch *b) {
  ck_assert_uint_eq(a->n_rows, b->n_rows);
  ck_assert_mem_eq(a->rows, b->rows, (size_t)a->n_rows * sizeof *a->rows);
  ck_assert_mem_eq(a->matrices[0].values, b->matrices[0].values, (size_t)(a->n_rows * a->matrices[0].n_cols) * sizeof(float));
  ck_assert_mem_eq(a->labels[0], b->labels[0], (size_t)a->n_rows * sizeof **a->labels);
}

/* A state knows the stores, their order and their generations. */
START_TEST(resume) {
  made all[STORES];
  uint8_t state[512];
  size_t size = sizeof state;
  annb_batch a, b;
  make_all(all, 9);
  annb_loader_options o = options(ANNB_JOIN_OUTER);
  annb_loader *one = open_loader(all, STORES, &o), *two = open_loader(all, STORES, &o);
  for (int i = 0; i < 9; i++) {
    OK(annb_loader_next(one, &a, &err));
    annb_batch_release(&a);
  }
  OK(annb_loader_state(one, state, &size, &err));
  OK(annb_loader_restore(two, state, size, &err));
  for (uint64_t s = 9; s < annb_loader_len(one); s++) {
    OK(annb_loader_next(one, &a, &err));
    OK(annb_loader_next(two, &b, &err));
    check_same(&a, &b);
    annb_batch_release(&a);
    annb_batch_release(&b);
  }
  annb_loader_close(one);
  annb_loader_close(two);

  one = open_loader(all, 2, &o);
  FAILS(annb_loader_restore(one, state, size, &err), ANNB_EINVAL);
  annb_loader_close(one);
  made turned[STORES] = {all[1], all[0], all[2]};
  one = open_loader(turned, STORES, &o);
  FAILS(annb_loader_restore(one, state, size, &err), ANNB_EINVAL);
  ck_assert_ptr_nonnull(strstr(err.message, "another store"));
  annb_loader_close(one);
  annb_store_close(all[2].store);
  maker_free(&all[2].x);
  write_more(&all[2], ANNB_TXN_REPLACE, NULL, 0);
  one = open_loader(all, STORES, &o);
  FAILS(annb_loader_restore(one, state, size, &err), ANNB_EINVAL);
  ck_assert_ptr_nonnull(strstr(err.message, "generation"));
  annb_loader_close(one);
  drop(all, STORES);
}
END_TEST

/* A child goes on where its parent was. */
START_TEST(forked) {
  made all[STORES];
  annb_batch a, b;
  make_all(all, 10);
  annb_loader_options o = options(ANNB_JOIN_INNER);
  annb_loader *loader = open_loader(all, STORES, &o), *other = open_loader(all, STORES, &o);
  for (int i = 0; i < 3; i++) {
    OK(annb_loader_next(loader, &a, &err));
    annb_batch_release(&a);
    OK(annb_loader_next(other, &b, &err));
    annb_batch_release(&b);
  }
  pid_t child = fork();
  for (int i = 0; i < 10; i++) {
    OK(annb_loader_next(loader, &a, &err));
    if (child) OK(annb_loader_next(other, &b, &err));
    if (child) check_same(&a, &b);
    annb_batch_release(&a);
    annb_batch_release(&b);
  }
  if (!child) {
    annb_loader_close(loader);
    _exit(0);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  annb_loader_close(loader);
  annb_loader_close(other);
  drop(all, STORES);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("union");
  TCase *tc = tcase_create("union");
  tcase_set_timeout(tc, 120);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_loop_test(tc, reading, 0, 18);
  tcase_add_test(tc, what_it_is);
  tcase_add_test(tc, refused);
  tcase_add_test(tc, odd_genes);
  tcase_add_test(tc, matrices);
  tcase_add_loop_test(tc, epochs, 0, 6);
  tcase_add_test(tc, vocabulary);
  tcase_add_test(tc, resume);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) /* TSan follows no threads after fork, ASan locks no allocator for it */
  tcase_add_test(tc, forked);
#else
  (void)forked;
#endif
  suite_add_tcase(suite, tc);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
