/* Writes a synthetic .h5ad file in bounded memory. The model is drawn again for each pass over the cells, so nothing is spooled. */
#include "h5ad_write.h"
#include "synth.h"

#include <argp.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER (UINT64_C(1) << 26) /* elements held at once: 512 MiB of indices and values */
#define CHUNK 65536u
#define PLATES 14u
#define LINES 50u

typedef enum form { CSR, CSC, DENSE } form;

typedef struct options {
  const char *path;
  annb_synth_params synth;
  form form;
  int gzip;
  bool lognorm;
} options;

typedef struct gen {
  options opt;
  annb_synth *synth;
  uint32_t *genes, *counts; /* of one cell */
  int64_t *indptr;
  uint64_t nnz, ones;
} gen;

static const struct argp_option argp_options[] = {{"cells", 'n', "N", 0, "number of cells (300000)", 0},
                                                  {"genes", 'g', "N", 0, "number of genes (30000)", 0},
                                                  {"types", 't', "N", 0, "number of cell types (50)", 0},
                                                  {"depth", 'd', "N", 0, "median of the counts per cell (3500)", 0},
                                                  {"seed", 's', "N", 0, "seed (1)", 0},
                                                  {"format", 'f', "csr|csc|dense", 0, "layout of X (csr)", 0},
                                                  {"gzip", 'z', "LEVEL", 0, "compress X (0 = no)", 0},
                                                  {"lognorm", 'l', NULL, 0, "log1p(count / total * 1e4) instead of counts", 0},
                                                  {NULL, 0, NULL, 0, NULL, 0}};

static uint64_t number(struct argp_state *state, const char *text, uint64_t low, uint64_t high) {
  char *end;
  unsigned long long x = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || x < low || x > high)
    argp_error(state, "'%s' is not a number from %llu to %llu", text, (unsigned long long)low, (unsigned long long)high);
  return x;
}

static form parse_form(struct argp_state *state, const char *text) {
  if (!strcmp(text, "csr")) return CSR;
  if (!strcmp(text, "csc")) return CSC;
  if (strcmp(text, "dense")) argp_error(state, "'%s' is not csr, csc or dense", text);
  return DENSE;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
    case 'n': o->synth.n_cells = number(state, arg, 1, UINT64_C(1) << 32); return 0;
    case 'g': o->synth.n_genes = (uint32_t)number(state, arg, 1, 1u << 26); return 0;
    case 't': o->synth.n_types = (uint32_t)number(state, arg, 1, 10000); return 0;
    case 'd': o->synth.depth = (double)number(state, arg, 1, 1u << 30); return 0;
    case 's': o->synth.seed = number(state, arg, 0, UINT64_MAX); return 0;
    case 'z': o->gzip = (int)number(state, arg, 0, 9); return 0;
    case 'f': o->form = parse_form(state, arg); return 0;
    case 'l': o->lognorm = true; return 0;
    case ARGP_KEY_ARG:
      if (o->path) argp_error(state, "one output file, please");
      o->path = arg;
      return 0;
    case ARGP_KEY_END:
      if (!o->path) argp_error(state, "name the output file");
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static void *get(uint64_t n, size_t size) {
  void *p = calloc(n ? n : 1, size);
  if (p) return p;
  fprintf(stderr, "gen: out of memory\n");
  exit(1);
}

static float value_of(const gen *g, uint32_t count, uint64_t total) {
  return g->opt.lognorm ? log1pf((float)count / (float)total * 1e4f) : (float)count;
}

/* Elements per row (CSR) or column (CSC) become row pointers. */
static void count_elements(gen *g) {
  uint64_t axis = g->opt.form == CSC ? g->opt.synth.n_genes : g->opt.synth.n_cells, total;
  g->indptr = get(axis + 1, sizeof *g->indptr);
  for (uint64_t i = 0; i < g->opt.synth.n_cells; i++) {
    uint32_t m = annb_synth_cell(g->synth, i, g->genes, g->counts, &total);
    for (uint32_t j = 0; j < m; j++) g->ones += g->counts[j] == 1;
    g->nnz += m;
    if (g->opt.form == CSC)
      for (uint32_t j = 0; j < m; j++) g->indptr[g->genes[j] + 1]++;
    else g->indptr[i + 1] = m;
  }
  for (uint64_t i = 0; i < axis; i++) g->indptr[i + 1] += g->indptr[i];
}

static void write_csr(gen *g, hid_t indices, hid_t data) {
  uint64_t room = BUFFER > g->nnz ? g->nnz : BUFFER, used = 0, written = 0, total;
  if (room < g->opt.synth.n_genes) room = g->opt.synth.n_genes;
  int32_t *ids = get(room, sizeof *ids);
  float *values = get(room, sizeof *values);
  for (uint64_t i = 0; i <= g->opt.synth.n_cells; i++) {
    if (i == g->opt.synth.n_cells || used + g->opt.synth.n_genes > room) {
      annb_h5_write(indices, H5T_NATIVE_INT32, written, used, ids);
      annb_h5_write(data, H5T_NATIVE_FLOAT, written, used, values);
      written += used;
      used = 0;
    }
    if (i == g->opt.synth.n_cells) break;
    uint32_t m = annb_synth_cell(g->synth, i, g->genes, g->counts, &total);
    for (uint32_t j = 0; j < m; j++) {
      ids[used] = (int32_t)g->genes[j];
      values[used++] = value_of(g, g->counts[j], total);
    }
  }
  free(ids);
  free(values);
}

/* One pass over all cells for each run of genes whose elements fit the buffer. */
static void write_csc(gen *g, hid_t indices, hid_t data) {
  uint32_t n_genes = g->opt.synth.n_genes;
  uint64_t room = BUFFER > g->opt.synth.n_cells ? BUFFER : g->opt.synth.n_cells, total;
  if (room > g->nnz) room = g->nnz;
  int32_t *ids = get(room, sizeof *ids);
  float *values = get(room, sizeof *values);
  int64_t *at = get(n_genes, sizeof *at);
  for (uint32_t low = 0, high; low < n_genes; low = high) {
    int64_t start = g->indptr[low];
    for (high = low + 1; high < n_genes && (uint64_t)(g->indptr[high + 1] - start) <= room;) high++;
    for (uint32_t j = low; j < high; j++) at[j] = g->indptr[j] - start;
    for (uint64_t i = 0; i < g->opt.synth.n_cells; i++) {
      uint32_t m = annb_synth_cell(g->synth, i, g->genes, g->counts, &total);
      for (uint32_t j = 0; j < m; j++) {
        uint32_t gene = g->genes[j];
        if (gene < low || gene >= high) continue;
        ids[at[gene]] = (int32_t)i;
        values[at[gene]++] = value_of(g, g->counts[j], total);
      }
    }
    annb_h5_write(indices, H5T_NATIVE_INT32, (uint64_t)start, (uint64_t)(g->indptr[high] - start), ids);
    annb_h5_write(data, H5T_NATIVE_FLOAT, (uint64_t)start, (uint64_t)(g->indptr[high] - start), values);
  }
  free(ids);
  free(values);
  free(at);
}

static void write_sparse(gen *g, hid_t file) {
  bool csc = g->opt.form == CSC;
  uint64_t axis = csc ? g->opt.synth.n_genes : g->opt.synth.n_cells;
  count_elements(g);
  hid_t x = annb_h5_group(file, "X", csc ? "csc_matrix" : "csr_matrix", "0.1.0");
  hid_t space = H5Screate_simple(1, &(hsize_t){2}, NULL);
  hid_t shape = annb_h5_check(H5Acreate2(x, "shape", H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT), "create an attribute");
  annb_h5_check(H5Awrite(shape, H5T_NATIVE_INT64, (int64_t[2]){(int64_t)g->opt.synth.n_cells, g->opt.synth.n_genes}), "write an attribute");
  H5Aclose(shape);
  H5Sclose(space);
  hsize_t chunk = CHUNK;
  hid_t indptr = annb_h5_dataset(x, "indptr", H5T_STD_I64LE, 1, &(hsize_t){axis + 1}, &chunk, g->opt.gzip);
  hid_t indices = annb_h5_dataset(x, "indices", H5T_STD_I32LE, 1, &(hsize_t){g->nnz}, &chunk, g->opt.gzip);
  hid_t data = annb_h5_dataset(x, "data", H5T_IEEE_F32LE, 1, &(hsize_t){g->nnz}, &chunk, g->opt.gzip);
  annb_h5_write(indptr, H5T_NATIVE_INT64, 0, axis + 1, g->indptr);
  if (csc) write_csc(g, indices, data);
  else write_csr(g, indices, data);
  H5Dclose(indptr);
  H5Dclose(indices);
  H5Dclose(data);
  H5Gclose(x);
}

static void write_dense(gen *g, hid_t file) {
  uint64_t n = g->opt.synth.n_cells, n_genes = g->opt.synth.n_genes, total;
  uint64_t slice = BUFFER / n_genes > 0 ? BUFFER / n_genes : 1;
  if (slice > n) slice = n;
  hsize_t chunk[2] = {16, 8192};
  hid_t x = annb_h5_dataset(file, "X", H5T_IEEE_F32LE, 2, (hsize_t[2]){n, n_genes}, chunk, g->opt.gzip);
  annb_h5_encoding(x, "array", "0.2.0");
  float *rows = get(slice * n_genes, sizeof *rows);
  for (uint64_t at = 0; at < n; at += slice) {
    uint64_t part = n - at < slice ? n - at : slice;
    memset(rows, 0, slice * n_genes * sizeof *rows);
    for (uint64_t i = 0; i < part; i++) {
      uint32_t m = annb_synth_cell(g->synth, at + i, g->genes, g->counts, &total);
      for (uint32_t j = 0; j < m; j++) rows[i * n_genes + g->genes[j]] = value_of(g, g->counts[j], total);
      for (uint32_t j = 0; j < m; j++) g->ones += g->counts[j] == 1;
      g->nnz += m;
    }
    annb_h5_write(x, H5T_NATIVE_FLOAT, at, part, rows);
  }
  free(rows);
  H5Dclose(x);
}

static void cell_name(void *user, uint64_t i, char text[64]) {
  (void)user;
  static const char base[] = "ACGT";
  uint64_t x = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
  for (int j = 0; j < 16; j++) text[j] = base[x >> (2 * j + 20) & 3];
  snprintf(text + 16, 48, "-%llu", (unsigned long long)i);
}

static void gene_name(void *user, uint64_t i, char text[64]) {
  (void)user;
  snprintf(text, 64, "GENE%06llu", (unsigned long long)i);
}

static void type_name(void *user, uint64_t i, char text[64]) {
  (void)user;
  snprintf(text, 64, "type_%04llu", (unsigned long long)i);
}

static void line_name(void *user, uint64_t i, char text[64]) {
  (void)user;
  snprintf(text, 64, "CVCL_%04llu", (unsigned long long)(i * 37 + 11));
}

static void plate_name(void *user, uint64_t i, char text[64]) {
  (void)user;
  snprintf(text, 64, "plate%llu", (unsigned long long)(i + 1));
}

static uint32_t type_code(void *user, uint64_t i) { return annb_synth_type(((gen *)user)->synth, i); }
static uint32_t line_code(void *user, uint64_t i) { return (type_code(user, i) * 7 + (uint32_t)(i / 997)) % LINES; }
static uint32_t plate_code(void *user, uint64_t i) { return (uint32_t)(i * PLATES / ((gen *)user)->opt.synth.n_cells); }

static void write_frames(gen *g, hid_t file) {
  static const char *const columns[] = {"cell_type", "cell_line", "plate"};
  uint64_t n = g->opt.synth.n_cells;
  hid_t obs = annb_h5_frame(file, "obs", columns, 3);
  annb_h5_strings(obs, "_index", n, cell_name, g);
  annb_h5_categorical(obs, "cell_type", n, type_code, g->opt.synth.n_types, type_name, g);
  annb_h5_categorical(obs, "cell_line", n, line_code, LINES, line_name, g);
  annb_h5_categorical(obs, "plate", n, plate_code, PLATES, plate_name, g);
  H5Gclose(obs);
  hid_t var = annb_h5_frame(file, "var", NULL, 0);
  annb_h5_strings(var, "_index", g->opt.synth.n_genes, gene_name, g);
  H5Gclose(var);
  static const char *const groups[] = {"layers", "obsm", "obsp", "uns", "varm", "varp"};
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) H5Gclose(annb_h5_group(file, groups[i], "dict", "0.1.0"));
}

int main(int argc, char **argv) {
  static const struct argp argp = {argp_options, parse, "OUT.h5ad", "Write a synthetic single-cell file, the same for the same options.", NULL, NULL, NULL};
  gen g = {.opt.synth = {.n_cells = 300000, .n_genes = 30000, .n_types = 50, .depth = 3500, .seed = 1}};
  argp_parse(&argp, argc, argv, 0, NULL, &g.opt);
  g.synth = annb_synth_new(&g.opt.synth);
  g.genes = get(g.opt.synth.n_genes, sizeof *g.genes);
  g.counts = get(g.opt.synth.n_genes, sizeof *g.counts);
  if (!g.synth) {
    fprintf(stderr, "gen: out of memory\n");
    return 1;
  }
  hid_t file = annb_h5_check(H5Fcreate(g.opt.path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "create the file");
  annb_h5_encoding(file, "anndata", "0.1.0");
  if (g.opt.form == DENSE) write_dense(&g, file);
  else write_sparse(&g, file);
  write_frames(&g, file);
  annb_h5_check(H5Fclose(file), "close the file");
  printf("%s: %llu cells, %u genes, %llu nonzeros (%.1f per cell), %.1f %% ones\n", g.opt.path, (unsigned long long)g.opt.synth.n_cells,
         g.opt.synth.n_genes, (unsigned long long)g.nnz, (double)g.nnz / (double)g.opt.synth.n_cells, 100.0 * (double)g.ones / (double)(g.nnz ? g.nnz : 1));
  annb_synth_free(g.synth);
  free(g.genes);
  free(g.counts);
  free(g.indptr);
  return 0;
}
