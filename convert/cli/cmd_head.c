/* annblock head STORE [-n 5] */
#include "cli.h"
#include "text.h"

#include <annblock/annblock.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOP_GENES = 5, DEFAULT_CELLS = 5, MATRIX = 256, WHERE };

typedef struct arguments {
  const char *store, *matrix;
  uint64_t n;
  annb_open_options open;
  const char *where;
} arguments;

typedef struct view {
  const annb_store *store;
  annb_context *context;
  uint32_t first, last; /* matrices to show: first … last − 1 */
  uint32_t matrix;      /* the current one */
  annb_matrix_info info;
} view;

static const struct argp_option options[] = {
    {.key = 'n', .arg = "N", .doc = "Number of cells, the default is 5"},
    {.name = "matrix", .key = MATRIX, .arg = "NAME", .doc = "Only this matrix, like layers/counts; the default is all"},
    {.name = "where",
     .key = WHERE,
     .arg = "TEXT",
     .doc = "Only cells for which this holds, like 'cell_type == \"B cell\" and n_counts > 500'"},
    CLI_GENERATION_OPTION,
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case 'n': a->n = cli_number(state, "-n", "a number of cells", arg, 0, UINT64_C(1) << 40); return 0;
    case MATRIX: a->matrix = arg; return 0;
    case WHERE: a->where = arg; return 0;
    case CLI_GENERATION: a->open.generation = cli_generation(state, arg); return 0;
    case ARGP_KEY_ARG: cli_take_argument(state, arg, &a->store, 1); return 0;
    case ARGP_KEY_END:
      if (!a->store) argp_error(state, "the store is missing: annblock head STORE");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {.options = options,
                                   .parser = parse,
                                   .args_doc = "STORE",
                                   .doc = "Show the first cells: name, nonzeros, the genes with the largest values, the columns of obs."};

/* ---- values of columns ---- */

/* The text of one row of a column; "NA" when it is missing. */
static annb_status column_text(const annb_column *column, uint64_t row, char **out, annb_error *err) {
  annb_column_info info;
  const annb_column *categories;
  const void *value;
  const uint8_t *mask;
  annb_column_get_info(column, &info);
  if (info.kind == ANNB_COLUMN_STRING) {
    const char *bytes;
    uint64_t length;
    bool missing;
    annb_status s = annb_column_string(column, row, &bytes, &length, &missing, err);
    if (!s) *out = missing ? cli_format("NA") : cli_safe(bytes, length);
    return s;
  }
  annb_status s = annb_column_values(column, row, 1, &value, &mask, err);
  if (s) return s;
  bool missing = mask && *mask;
  if (info.kind == ANNB_COLUMN_FIXED || missing) {
    *out = missing ? cli_format("NA") : cli_value(info.dtype, value);
    return ANNB_OK;
  }
  char *digits = cli_value(info.dtype, value);
  long long code = strtoll(digits, NULL, 10);
  free(digits);
  if (code < 0) {
    *out = cli_format("NA");
    return ANNB_OK;
  }
  s = annb_column_categories(column, &categories, err);
  return s ? s : column_text(categories, (uint64_t)code, out, err);
}

/* The same of a column of the whole store. */
static annb_status joint_text(const annb_joint_column *column, uint64_t row, char **out, annb_error *err) {
  annb_column_info info;
  annb_joint_column_get_info(column, &info);
  if (info.kind == ANNB_COLUMN_STRING) {
    const char *bytes;
    uint64_t length;
    bool missing;
    annb_status s = annb_store_column_string(column, row, &bytes, &length, &missing, err);
    if (!s) *out = missing ? cli_format("NA") : cli_safe(bytes, length);
    return s;
  }
  if (info.kind == ANNB_COLUMN_FIXED) {
    uint64_t value;
    uint8_t missing;
    annb_status s = annb_store_column_gather(column, &row, 1, &value, &missing, err);
    if (!s) *out = missing ? cli_format("NA") : cli_value(info.dtype, &value);
    return s;
  }
  int32_t code;
  const annb_column *categories;
  annb_status s = annb_store_column_codes(column, &row, 1, &code, err);
  if (!s) s = annb_joint_column_categories(column, &categories, err);
  if (!s && code < 0) *out = cli_format("NA");
  return s || code < 0 ? s : column_text(categories, (uint64_t)code, out, err);
}

static annb_status gene_name(const view *v, uint64_t gene, char **out, annb_error *err) {
  const annb_joint_column *index;
  annb_status s = v->info.axes == ANNB_OBS_VAR ? annb_store_index_column(v->store, ANNB_AXIS_VAR, &index, err) : ANNB_ENOTFOUND;
  if (s == ANNB_ENOTFOUND) {
    *out = cli_format("%" PRIu64, gene);
    return ANNB_OK;
  }
  return s ? s : joint_text(index, gene, out, err);
}

/* ---- the row of the matrix ---- */

/* 64-bit integers stay as they are, all else fits a double. */
static annb_dtype fetch_dtype(annb_dtype dtype) { return dtype == ANNB_I64 || dtype == ANNB_U64 ? dtype : ANNB_F64; }

/* Is value a larger than b? NaN is smaller than all. */
static bool larger(annb_dtype dtype, const uint8_t *a, const uint8_t *b) {
  int64_t i, j;
  uint64_t p, q;
  double x, y;
  switch (dtype) {
    case ANNB_I64: memcpy(&i, a, 8), memcpy(&j, b, 8); return i > j;
    case ANNB_U64: memcpy(&p, a, 8), memcpy(&q, b, 8); return p > q;
    default: memcpy(&x, a, 8), memcpy(&y, b, 8); return x > y || (x == x && y != y);
  }
}

/* The positions of the largest values, largest first, of equal ones the first. */
static int top(annb_dtype dtype, const uint8_t *values, uint64_t n, uint64_t best[TOP_GENES]) {
  int found = 0;
  for (uint64_t i = 0; i < n; i++) {
    int at = found;
    while (at > 0 && larger(dtype, values + 8 * i, values + 8 * best[at - 1])) at--;
    if (at >= TOP_GENES) continue;
    if (found < TOP_GENES) found++;
    for (int k = found - 1; k > at; k--) best[k] = best[k - 1];
    best[at] = i;
  }
  return found;
}

/* "MALAT1=49 ACTB=17" */
static annb_status genes_text(const view *v, const int64_t *genes, const uint8_t *values, uint64_t nnz, char **out, annb_error *err) {
  annb_dtype dtype = fetch_dtype(v->info.dtype);
  uint64_t best[TOP_GENES];
  int n = top(dtype, values, nnz, best);
  char *text = cli_format("%s", "");
  for (int i = 0; i < n; i++) {
    char *name;
    annb_status s = gene_name(v, (uint64_t)genes[best[i]], &name, err);
    if (s) {
      free(text);
      return s;
    }
    double wide;
    float narrow;
    memcpy(&wide, values + 8 * best[i], 8);
    narrow = (float)wide;
    bool is_single = v->info.dtype == ANNB_F32 || v->info.dtype == ANNB_F16;
    char *value = is_single ? cli_value(ANNB_F32, &narrow) : cli_value(dtype, values + 8 * best[i]);
    char *longer = cli_format("%s%s%s=%s", text, i ? " " : "", name, value);
    free(text);
    free(name);
    free(value);
    text = longer;
  }
  *out = text;
  return ANNB_OK;
}

/* A title; with the matrix's name where several are shown. */
static char *title_of(const view *v, const char *what) {
  if (v->last - v->first == 1) return cli_format("  %s", what);
  char *name = cli_safe(v->info.name, strlen(v->info.name)), *title = cli_format("  %s of %s", what, name);
  free(name);
  return title;
}

static annb_status matrix_rows(const view *v, uint64_t row, cli_table *table, annb_error *err) {
  uint64_t nnz;
  annb_status s = annb_fetch_nnz(v->store, v->matrix, &row, 1, NULL, &nnz, err);
  if (s == ANNB_ENOTFOUND) return ANNB_OK; /* the cell's part has no such matrix */
  if (s) return s;
  annb_fetch_options fetch = {.dtype = fetch_dtype(v->info.dtype), .index64 = true, .sort_indices = true};
  int64_t indptr[2], *genes = cli_alloc(nnz * sizeof *genes);
  uint8_t *values = cli_alloc(nnz * 8);
  char *text = NULL;
  s = annb_fetch_csr(v->store, v->context, v->matrix, &row, 1, &fetch, indptr, genes, values, nnz, err);
  if (!s) s = genes_text(v, genes, values, (uint64_t)indptr[1], &text, err);
  if (!s) {
    cli_table_add(table, title_of(v, "nnz"));
    cli_table_add(table, cli_count((uint64_t)indptr[1]));
    cli_table_add(table, title_of(v, v->info.axes == ANNB_OBS_VAR ? "top genes" : "top columns"));
    cli_table_add(table, text);
  }
  free(genes);
  free(values);
  return s;
}

/* ---- cells ---- */

static annb_status print_cell(view *v, uint64_t row, annb_error *err) {
  cli_table table = {.align = "ll"};
  uint32_t n = 0;
  char *name = NULL;
  annb_status s = annb_store_n_columns(v->store, ANNB_AXIS_OBS, &n, err);
  for (v->matrix = v->first; !s && v->matrix < v->last; v->matrix++) {
    s = annb_store_matrix(v->store, v->matrix, &v->info, err);
    if (!s) s = matrix_rows(v, row, &table, err);
  }
  for (uint32_t i = 0; !s && i < n; i++) {
    const annb_joint_column *column;
    annb_column_info info;
    char *text;
    s = annb_store_column(v->store, ANNB_AXIS_OBS, i, &column, err);
    if (s) break;
    annb_joint_column_get_info(column, &info);
    s = joint_text(column, row, &text, err);
    if (s) break;
    if (info.is_index && !name) {
      name = text;
      continue;
    }
    char *title = cli_safe(info.name, strlen(info.name));
    cli_table_add(&table, cli_format("  %s", title));
    cli_table_add(&table, text);
    free(title);
  }
  if (name) printf("%s\n", name);
  else printf("cell %" PRIu64 "\n", row);
  free(name);
  cli_table_print(&table, stdout);
  return s;
}

/* The one that was named, or all. */
static annb_status choose_matrices(view *v, const char *name, annb_error *err) {
  annb_store_info info;
  annb_store_get_info(v->store, &info);
  v->last = info.n_matrices;
  if (!name) return ANNB_OK;
  annb_status s = annb_store_find_matrix(v->store, name, &v->first, err);
  v->last = v->first + 1;
  return s;
}

/* The first `n` cells, or the first for which the predicate holds. */
static annb_status print_cells(view *v, const arguments *a, uint64_t n_obs, annb_error *err) {
  uint64_t *bits = a->where ? cli_alloc((n_obs / 64 + 1) * sizeof *bits) : NULL, shown = 0;
  annb_status s = a->where ? annb_where(v->store, a->where, bits, NULL, err) : ANNB_OK;
  for (uint64_t row = 0; !s && shown < a->n && row < n_obs && !ferror(stdout); row++) {
    if (bits && !(bits[row / 64] >> row % 64 & 1)) continue;
    s = print_cell(v, row, err);
    shown++;
  }
  if (!s && a->where && a->n && n_obs && !shown) printf("no cells to show: the predicate holds for none\n");
  free(bits);
  return s;
}

static void print_empty(const annb_store_info *info) {
  char *genes = cli_count(info->n_vars);
  printf("no cells to show: the store has 0 cells and %s genes\n", genes);
  free(genes);
}

int cmd_head(int argc, char **argv) {
  arguments a = {.n = DEFAULT_CELLS};
  annb_error err = {0};
  annb_store *store = NULL;
  annb_store_info info;
  view v = {.store = NULL};
  argp_parse(&parser, argc, argv, 0, NULL, &a);
  if (annb_store_open(a.store, &a.open, &store, &err)) return cli_fail(&err);
  annb_store_get_info(store, &info);
  v.store = store;
  annb_status s = annb_context_open(&v.context, &err);
  if (!s) s = choose_matrices(&v, a.matrix, &err);
  if (!s && a.n && !info.n_obs) print_empty(&info);
  if (!s) s = print_cells(&v, &a, info.n_obs, &err);
  annb_context_close(v.context);
  annb_store_close(store);
  return s ? cli_fail(&err) : CLI_OK;
}
