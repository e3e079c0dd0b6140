/* annblock info STORE */
#include "../../store/error.h"
#include "../../store/io.h"
#include "../../store/manifest/manifest.h"
#include "cli.h"
#include "text.h"

#include <annblock/annblock.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON = 256 }; /* no short option */

typedef struct arguments {
  const char *store;
  bool json;
  annb_open_options open;
} arguments;

enum { N_KINDS = ANNB_OBJECT_RESTORE + 1 };

/* What the files of the store are. */
typedef struct files {
  uint64_t bytes[N_KINDS]; /* by annb_object_kind; 0: of the manifest */
  uint64_t n_generations;
  uint64_t n_shuffled; /* parts */
} files;

/* A matrix, and whether its nnz is what readers deliver, not a bound. */
typedef struct counted {
  annb_matrix_info info;
  bool exact;
} counted;

static double entries(const annb_matrix_info *m) { return (double)m->n_rows * (double)m->n_cols; }

static const struct argp_option options[] = {
    {.name = "json", .key = JSON, .doc = "One JSON object instead of a table"}, CLI_GENERATION_OPTION, {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case JSON: a->json = true; return 0;
    case CLI_GENERATION: a->open.generation = cli_generation(state, arg); return 0;
    case ARGP_KEY_ARG: cli_take_argument(state, arg, &a->store, 1); return 0;
    case ARGP_KEY_END:
      if (!a->store) argp_error(state, "the store is missing: annblock info STORE");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp parser = {.options = options, .parser = parse, .args_doc = "STORE", .doc = "Tell what is in a store."};

static const char *form_name(annb_form form) { return form == ANNB_CSR ? "csr" : form == ANNB_CSC ? "csc" : "dense"; }
static const char *axis_name(annb_axis axis) { return axis == ANNB_AXIS_OBS ? "obs" : "var"; }

static const char *kind_name(annb_column_kind kind) {
  return kind == ANNB_COLUMN_STRING ? "string" : kind == ANNB_COLUMN_CATEGORICAL ? "categorical" : "fixed";
}

/* Calls `each` for the columns of an axis: of one part as they are stored, of several parts those that the store has. */
static annb_status each_column(const annb_store *store, annb_axis axis, void (*each)(void *user, const annb_column_info *), void *user,
                               annb_error *err) {
  uint32_t n = 0;
  annb_store_info of_store;
  annb_store_get_info(store, &of_store);
  bool one = of_store.n_parts == 1;
  annb_status s = one ? annb_part_n_columns(store, 0, axis, &n, err) : annb_store_n_columns(store, axis, &n, err);
  for (uint32_t i = 0; !s && i < n; i++) {
    const annb_column *column = NULL;
    const annb_joint_column *joint = NULL;
    annb_column_info info;
    s = one ? annb_part_column(store, 0, axis, i, &column, err) : annb_store_column(store, axis, i, &joint, err);
    if (s) break;
    if (one) annb_column_get_info(column, &info);
    else annb_joint_column_get_info(joint, &info);
    each(user, &info);
  }
  return s;
}

/* ---- files ---- */

static annb_status count_bytes(const char *path, uint64_t generation, files *out, annb_error *err) {
  annb_manifest m;
  char *manifest = annb_manifest_path(path, generation);
  annb_status s = manifest ? annb_manifest_load(manifest, generation, &m, err) : annb_fail_memory(err);
  free(manifest);
  if (s) return s;
  out->bytes[0] = m.file_size;
  for (uint32_t i = 0; i < m.n_objects; i++) out->bytes[m.objects[i].kind] += m.objects[i].size;
  for (uint32_t i = 0; i < m.n_parts; i++) out->n_shuffled += m.parts[i].row_order != ANNB_NONE;
  annb_manifest_free(&m);
  return ANNB_OK;
}

static annb_status look_at_files(const annb_store *store, uint64_t generation, files *out, annb_error *err) {
  const char *path = annb_store_path(store);
  char **names, *folder = cli_format("%s/manifests", path);
  size_t n;
  uint64_t number;
  *out = (files){.n_generations = 0};
  annb_status s = annb_io_list(folder, &names, &n, err);
  free(folder);
  if (s) return s;
  for (size_t i = 0; i < n; i++) out->n_generations += annb_manifest_generation(names[i], &number);
  annb_io_free_names(names, n);
  return count_bytes(path, generation, out, err);
}

/* Calls `each` with the path of each part's sidecar, or with NULL and what is wrong with it. */
static void each_sidecar(const annb_store *store, uint32_t n_parts, void (*each)(void *user, const char *path, const char *wrong),
                         void *user) {
  for (uint32_t i = 0; i < n_parts; i++) {
    const char *path = NULL;
    annb_error err;
    if (annb_store_part_file(store, i, ANNB_OBJECT_SIDECAR, &path, &err)) each(user, NULL, err.message);
    else if (path) each(user, path, NULL);
  }
}

/* ---- JSON ---- */

static json_t *json_ratio(double a, double b) { return b > 0 ? json_real(a / b) : json_null(); }

static json_t *json_text(const char *text) {
  char *safe = cli_utf8(text, strlen(text));
  json_t *out = json_string(safe);
  free(safe);
  return out;
}

static void add_json_column(void *list, const annb_column_info *c) {
  json_t *o = json_pack("{s:s, s:o, s:s, s:o, s:b, s:b}", "axis", axis_name(c->axis), "name", json_text(c->name), "kind",
                        kind_name(c->kind), "dtype", c->kind == ANNB_COLUMN_STRING ? json_null() : json_string(annb_dtype_name(c->dtype)),
                        "index", c->is_index, "nullable", c->has_mask);
  if (c->kind == ANNB_COLUMN_CATEGORICAL) {
    json_object_set_new(o, "categories", json_integer((json_int_t)c->n_categories));
    json_object_set_new(o, "ordered", json_boolean(c->ordered));
  }
  json_array_append_new(list, o);
}

static json_t *json_matrix(const annb_matrix_info *m, bool exact) {
  return json_pack("{s:o, s:[I,I], s:I, s:s, s:s, s:I, s:i, s:b}", "name", json_text(m->name), "shape", (json_int_t)m->n_rows,
                   (json_int_t)m->n_cols, "nnz", (json_int_t)m->nnz, "dtype", annb_dtype_name(m->dtype), "form", form_name(m->form),
                   "bytes", (json_int_t)m->bytes, "segments", (int)m->n_segments, "nnz_exact", exact);
}

static annb_status json_matrices(const annb_store *store, uint32_t n, json_t *dtypes, json_t *list, annb_error *err) {
  for (uint32_t i = 0; i < n; i++) {
    annb_matrix_info m;
    bool exact;
    annb_status s = annb_store_matrix(store, i, &m, err);
    if (!s) s = annb_matrix_nnz_exact(store, i, &exact, err);
    if (s) return s;
    char *name = cli_utf8(m.name, strlen(m.name));
    json_object_set_new(dtypes, name, json_string(annb_dtype_name(m.dtype)));
    free(name);
    json_array_append_new(list, json_matrix(&m, exact));
  }
  return ANNB_OK;
}

static annb_status json_parts(const annb_store *store, uint32_t n, json_t *list, annb_error *err) {
  for (uint32_t i = 0; i < n; i++) {
    annb_part_info p;
    annb_status s = annb_store_part(store, i, &p, err);
    if (s) return s;
    json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:b}", "first_row", (json_int_t)p.first_row, "n_obs", (json_int_t)p.n_rows,
                                          "n_vars", (json_int_t)p.n_vars, "shuffled", p.shuffled));
  }
  return ANNB_OK;
}

static json_t *json_kinds(const files *f) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I}", "segments", (json_int_t)f->bytes[ANNB_OBJECT_SEGMENT], "flat_arrays",
                   (json_int_t)f->bytes[ANNB_OBJECT_ARRAYS], "sidecars", (json_int_t)f->bytes[ANNB_OBJECT_SIDECAR], "restore_files",
                   (json_int_t)f->bytes[ANNB_OBJECT_RESTORE], "manifest", (json_int_t)f->bytes[0]);
}

static void add_json_sidecar(void *list, const char *path, const char *wrong) {
  json_array_append_new(list, wrong ? json_null() : json_text(path));
}

static annb_status print_json(const annb_store *store, const annb_store_info *info, const counted *x, const files *f, annb_error *err) {
  json_t *dtypes = json_object(), *matrices = json_array(), *columns = json_array(), *sidecars = json_array(), *parts = json_array();
  annb_status s = json_matrices(store, info->n_matrices, dtypes, matrices, err);
  if (!s && info->n_parts) s = each_column(store, ANNB_AXIS_OBS, add_json_column, columns, err);
  if (!s && info->n_parts) s = each_column(store, ANNB_AXIS_VAR, add_json_column, columns, err);
  if (!s) s = json_parts(store, info->n_parts, parts, err);
  each_sidecar(store, info->n_parts, add_json_sidecar, sidecars);
  char *id = cli_hex(info->store_id, (int)sizeof info->store_id);
  json_t *all = json_pack(
      "{s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:s, s:o}", "n_obs", (json_int_t)info->n_obs, "n_vars", (json_int_t)info->n_vars,
      "nnz", (json_int_t)x->info.nnz, "density", json_ratio((double)x->info.nnz, x->exact ? entries(&x->info) : 0), "dtypes", dtypes,
      "parts", (json_int_t)info->n_parts, "generation", (json_int_t)info->generation, "bytes", (json_int_t)info->bytes, "bits_per_nnz",
      json_ratio(8.0 * (double)x->info.bytes, (double)x->info.nnz), "columns", columns, "store_id", id, "matrices", matrices);
  free(id);
  json_object_set_new(all, "bytes_by_kind", json_kinds(f));
  json_object_set_new(all, "sidecars", sidecars);
  json_object_set_new(all, "nnz_exact", json_boolean(x->exact));
  json_object_set_new(all, "part_list", parts);
  json_object_set_new(all, "generations", json_integer((json_int_t)f->n_generations));
  json_object_set_new(all, "shuffled_parts", json_integer((json_int_t)f->n_shuffled));
  if (!s) {
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
  }
  json_decref(all);
  return s;
}

/* ---- text ---- */

static void add_text(cli_table *table, const char *text) { cli_table_add(table, cli_format("%s", text)); }

static char *ratio_text(const char *format, double a, double b) {
  if (!(b > 0)) return cli_format("-");
  char text[64];
  snprintf(text, sizeof text, format[0] == '%' ? "%.2f %%" : "%.2f", format[0] == '%' ? 100 * a / b : a / b);
  return cli_format("%s", text);
}

/* "1,234,567 (1.2 MiB)" */
static char *bytes_text(uint64_t bytes) {
  char *exact = cli_count(bytes), *rough = cli_bytes((double)bytes), *text = cli_format(bytes < 1024 ? "%s" : "%s (%s)", exact, rough);
  free(exact);
  free(rough);
  return text;
}

static char *generation_text(uint64_t generation, uint64_t n) {
  char *this = cli_count(generation), *all = cli_count(n);
  char *text = cli_format(n > 1 ? "%s (%s are kept: see another one with --generation N)" : "%s", this, all);
  free(this);
  free(all);
  return text;
}

static char *parts_text(uint64_t n, uint64_t n_shuffled) {
  char *all = cli_count(n), *some = cli_count(n_shuffled);
  char *text = !n_shuffled ? cli_format("%s", all) : n_shuffled < n ? cli_format("%s (%s with shuffled rows)", all, some)
                                                                      : cli_format("%s (rows are shuffled)", all);
  free(all);
  free(some);
  return text;
}

static void add_sidecar(void *table, const char *path, const char *wrong) {
  const char *text = wrong ? wrong : path;
  char *safe = cli_safe(text, strlen(text));
  add_text(table, "sidecar");
  cli_table_add(table, cli_format("%s%s", safe, wrong ? "" : " (opens in anndata)"));
  free(safe);
}

static void print_store(const annb_store *store, const annb_store_info *info, const files *f) {
  static const char *const kinds[N_KINDS] = {[0] = "  manifest",
                                             [ANNB_OBJECT_SEGMENT] = "  segments",
                                             [ANNB_OBJECT_ARRAYS] = "  flat arrays",
                                             [ANNB_OBJECT_SIDECAR] = "  sidecars",
                                             [ANNB_OBJECT_RESTORE] = "  restore files"};
  cli_table t = {.align = "ll"};
  char *path = cli_safe(annb_store_path(store), strlen(annb_store_path(store)));
  add_text(&t, "store");
  cli_table_add(&t, path);
  add_text(&t, "id");
  cli_table_add(&t, cli_hex(info->store_id, (int)sizeof info->store_id));
  add_text(&t, "generation");
  cli_table_add(&t, generation_text(info->generation, f->n_generations));
  add_text(&t, "parts");
  cli_table_add(&t, parts_text(info->n_parts, f->n_shuffled));
  add_text(&t, "cells");
  cli_table_add(&t, cli_count(info->n_obs));
  add_text(&t, "genes");
  cli_table_add(&t, cli_count(info->n_vars));
  add_text(&t, "bytes");
  cli_table_add(&t, bytes_text(info->bytes));
  for (int i = 1; i <= N_KINDS; i++) { /* the manifest last */
    add_text(&t, kinds[i % N_KINDS]);
    cli_table_add(&t, bytes_text(f->bytes[i % N_KINDS]));
  }
  each_sidecar(store, info->n_parts, add_sidecar, &t);
  cli_table_print(&t, stdout);
}

static annb_status print_parts(const annb_store *store, uint32_t n, annb_error *err) {
  static const char *const titles[] = {"part", "first cell", "cells", "genes", "order"};
  cli_table t = {.align = "rrrrl"};
  annb_status s = ANNB_OK;
  if (n < 2) return ANNB_OK;
  for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) add_text(&t, titles[i]);
  for (uint32_t i = 0; i < n; i++) {
    annb_part_info p;
    s = annb_store_part(store, i, &p, err);
    if (s) break;
    cli_table_add(&t, cli_count(i));
    cli_table_add(&t, cli_count(p.first_row));
    cli_table_add(&t, cli_count(p.n_rows));
    cli_table_add(&t, cli_count(p.n_vars));
    add_text(&t, p.shuffled ? "shuffled" : "as in the file");
  }
  putchar('\n');
  cli_table_print(&t, stdout);
  return s;
}

static char *nnz_text(uint64_t nnz, bool exact) {
  char *count = cli_count(nnz), *text = cli_format(exact ? "%s" : "at most %s", count);
  free(count);
  return text;
}

static annb_status print_matrices(const annb_store *store, uint32_t n, annb_error *err) {
  static const char *const titles[] = {"matrix", "rows", "columns", "nnz", "density", "dtype", "form", "segments", "bytes", "bits/nnz"};
  cli_table t = {.align = "lrrrrllrrr"};
  annb_status s = ANNB_OK;
  bool exact, all_exact = true;
  if (!n) return ANNB_OK;
  for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) add_text(&t, titles[i]);
  for (uint32_t i = 0; i < n; i++) {
    annb_matrix_info m;
    s = annb_store_matrix(store, i, &m, err);
    if (!s) s = annb_matrix_nnz_exact(store, i, &exact, err);
    if (s) break;
    all_exact = all_exact && exact;
    cli_table_add(&t, cli_safe(m.name, strlen(m.name)));
    cli_table_add(&t, cli_count(m.n_rows));
    cli_table_add(&t, cli_count(m.n_cols));
    cli_table_add(&t, nnz_text(m.nnz, exact));
    cli_table_add(&t, ratio_text("%", (double)m.nnz, exact ? entries(&m) : 0));
    add_text(&t, annb_dtype_name(m.dtype));
    add_text(&t, form_name(m.form));
    cli_table_add(&t, cli_count(m.n_segments));
    cli_table_add(&t, cli_count(m.bytes));
    cli_table_add(&t, ratio_text("", 8.0 * (double)m.bytes, (double)m.nnz));
  }
  putchar('\n');
  cli_table_print(&t, stdout);
  if (!all_exact) puts("at most: elements of genes that the store has not are stored and counted too, but not delivered");
  return s;
}

static void add_column_row(void *table, const annb_column_info *c) {
  bool categorical = c->kind == ANNB_COLUMN_CATEGORICAL;
  char *count = cli_count(c->n_categories);
  add_text(table, axis_name(c->axis));
  cli_table_add(table, cli_safe(c->name, strlen(c->name)));
  add_text(table, kind_name(c->kind));
  add_text(table, c->kind == ANNB_COLUMN_STRING ? "-" : annb_dtype_name(c->dtype));
  cli_table_add(table,
                cli_format("%s%s%s%s%s", categorical ? count : "", categorical ? (c->n_categories == 1 ? " category" : " categories") : "",
                           c->is_index ? "names" : "", c->ordered ? ", ordered" : "",
                           c->has_mask ? (categorical || c->is_index ? ", nullable" : "nullable") : ""));
  free(count);
}

static annb_status print_columns(const annb_store *store, annb_error *err) {
  static const char *const titles[] = {"axis", "column", "kind", "dtype", ""};
  cli_table t = {.align = "lllll"};
  for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) add_text(&t, titles[i]);
  annb_status s = each_column(store, ANNB_AXIS_OBS, add_column_row, &t, err);
  if (!s) s = each_column(store, ANNB_AXIS_VAR, add_column_row, &t, err);
  putchar('\n');
  cli_table_print(&t, stdout);
  return s;
}

int cmd_info(int argc, char **argv) {
  arguments a = {0};
  annb_error err = {0};
  annb_store *store = NULL;
  annb_store_info info;
  counted x = {.exact = true};
  files f;
  uint32_t number = 0;
  argp_parse(&parser, argc, argv, 0, NULL, &a);
  if (annb_store_open(a.store, &a.open, &store, &err)) return cli_fail(&err);
  annb_store_get_info(store, &info);
  annb_status s = look_at_files(store, info.generation, &f, &err);
  if (!s && !annb_store_find_matrix(store, "X", &number, NULL)) s = annb_store_matrix(store, number, &x.info, &err);
  if (!s && x.info.name) s = annb_matrix_nnz_exact(store, number, &x.exact, &err);
  if (!s && a.json) s = print_json(store, &info, &x, &f, &err);
  if (!s && !a.json) {
    print_store(store, &info, &f);
    s = print_parts(store, info.n_parts, &err);
    if (!s) s = print_matrices(store, info.n_matrices, &err);
    if (!s && info.n_parts) s = print_columns(store, &err);
  }
  annb_store_close(store);
  return s ? cli_fail(&err) : CLI_OK;
}
