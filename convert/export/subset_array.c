#include "../sidecar/files.h"
#include "subset.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (UINT64_C(16) << 20)
#define BLOCK_ROWS (UINT64_C(1) << 16)
#define BLOCK_STRINGS (UINT64_C(1) << 14)
#define GAP_BYTES 4096 /* rather read that much too many than call HDF5 again */

/* ---- creation properties ---- */

/* Chunks that the new extent allows. */
static void fit_chunks(hid_t properties, int rank, const hsize_t *dims, bool grows) {
  hsize_t chunk[32];
  if (H5Pget_chunk(properties, 32, chunk) != rank) return;
  bool empty = false;
  for (int i = 0; i < rank; i++) {
    if (i == 0 && grows) continue;
    if (!dims[i]) empty = true;
    if (chunk[i] > dims[i]) chunk[i] = dims[i];
  }
  if (!empty) {
    H5Pset_chunk(properties, rank, chunk);
    return;
  }
  H5Premove_filter(properties, H5Z_FILTER_ALL);
  H5Pset_layout(properties, H5D_CONTIGUOUS);
}

hid_t annb_subset_properties(hid_t dataset, int rank, const hsize_t *dims, bool grows) {
  hid_t properties = annb_tree_plain_properties(dataset);
  if (properties < 0) return properties;
  if (H5Pget_layout(properties) != H5D_CHUNKED && grows) {
    const hsize_t chunk = UINT64_C(1) << 16;
    H5Pset_chunk(properties, 1, &chunk);
    H5Pset_alloc_time(properties, H5D_ALLOC_TIME_INCR);
  } else if (H5Pget_layout(properties) == H5D_CHUNKED) {
    fit_chunks(properties, rank, dims, grows);
  }
  return properties;
}

/* ---- reading rows in any order ---- */

typedef struct wanted {
  uint64_t row, place; /* place: in the block */
} wanted;

typedef struct cutting {
  const annb_subset *subset;
  const char *path;
  hid_t from, to, type;
  int rank;
  hsize_t dims[32], out_dims[32];
  size_t size;         /* of an element */
  uint64_t elements;   /* of a row of the source; of one step along the second dimension: inner */
  uint64_t inner;
  bool vlen;
  const annb_selection *rows, *columns; /* NULL: all */
  wanted *wanted;
} cutting;

static int by_row(const void *a, const void *b) {
  const wanted *x = a, *y = b;
  return x->row < y->row ? -1 : x->row > y->row;
}

static uint64_t gap_rows(const cutting *c) {
  uint64_t row = c->elements * c->size, gap = row ? GAP_BYTES / row : 1;
  return gap ? gap : 1;
}

/* The end of the run that starts at `i`: rows so near to each other that they are read as one. */
static uint64_t run_end(const cutting *c, uint64_t i, uint64_t n, uint64_t gap) {
  while (i + 1 < n && c->wanted[i + 1].row - c->wanted[i].row <= gap) i++;
  return i + 1;
}

static uint64_t rows_to_read(const cutting *c, uint64_t n, uint64_t gap) {
  uint64_t total = 0;
  for (uint64_t i = 0, end; i < n; i = end) {
    end = run_end(c, i, n, gap);
    total += c->wanted[end - 1].row - c->wanted[i].row + 1;
  }
  return total;
}

/* The wanted rows of a block [first, first + n), in the order of the source. */
static void list_block(const cutting *c, uint64_t first, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) c->wanted[i] = (wanted){c->rows ? c->rows->items[first + i] : first + i, i};
  if (c->rows && !c->rows->ascending) qsort(c->wanted, n, sizeof *c->wanted, by_row);
}

static void copy_row(const cutting *c, const uint8_t *row, uint8_t *out) {
  const size_t step = c->inner * c->size;
  if (!c->columns) memcpy(out, row, c->elements * c->size);
  else
    for (uint64_t i = 0; i < c->columns->n; i++) memcpy(out + i * step, row + c->columns->items[i] * step, step);
}

static annb_status read_block(const cutting *c, uint64_t n, uint64_t gap, uint8_t *buffer, uint8_t *out, annb_error *err) {
  const size_t row_bytes = c->elements * c->size, out_bytes = c->columns ? c->columns->n * c->inner * c->size : row_bytes;
  annb_status s = ANNB_OK;
  for (uint64_t i = 0, end; !s && i < n; i = end) {
    end = run_end(c, i, n, gap);
    const uint64_t first = c->wanted[i].row, rows = c->wanted[end - 1].row - first + 1;
    s = annb_h5_read_rows(c->from, c->subset->fill->merged->sidecar_name, c->path, c->type, first, rows, buffer, err);
    for (uint64_t k = i; !s && k < end; k++)
      copy_row(c, buffer + (c->wanted[k].row - first) * row_bytes, out + c->wanted[k].place * out_bytes);
    buffer += rows * row_bytes;
  }
  return s;
}

static void reclaim(const cutting *c, uint64_t elements, void *buffer) {
  hsize_t n = elements;
  hid_t space = c->vlen ? H5Screate_simple(1, &n, NULL) : -1;
  if (space >= 0) H5Dvlen_reclaim(c->type, space, H5P_DEFAULT, buffer);
  annb_h5_close(&space);
}

static annb_status cut_block(const cutting *c, uint64_t first, uint64_t n, uint64_t gap, uint64_t to_read, annb_error *err) {
  const size_t row_bytes = c->elements * c->size, out_bytes = c->columns ? c->columns->n * c->inner * c->size : row_bytes;
  uint8_t *buffer = calloc(to_read * row_bytes + 1, 1), *out = malloc(n * out_bytes + 1);
  annb_status s = buffer && out ? read_block(c, n, gap, buffer, out, err) : annb_fail_memory(err);
  if (!s) s = annb_h5_write_rows(c->to, c->subset->fill->out_name, c->path, c->type, first, n, out, err);
  if (!s) s = annb_file_check(c->subset->fill->out, c->subset->fill->out_name, err);
  if (buffer) reclaim(c, to_read * c->elements, buffer);
  free(buffer);
  free(out);
  return s;
}

/* As many rows at once as memory allows, fewer where they lie far apart. */
static annb_status cut_rows(cutting *c, annb_error *err) {
  const uint64_t total = c->out_dims[0], row_bytes = c->elements * c->size;
  uint64_t most = row_bytes ? BLOCK_BYTES / row_bytes : BLOCK_ROWS, gap = gap_rows(c);
  if (row_bytes > c->subset->fill->memory / 4)
    return annb_h5_fail(err, ANNB_ENOMEM, c->subset->fill->merged->sidecar_name, c->path, "a row of it does not fit the memory allowed");
  if (most > BLOCK_ROWS) most = BLOCK_ROWS;
  if (c->vlen && c->elements) most = BLOCK_STRINGS / c->elements;
  if (!most) most = 1;
  c->wanted = malloc(most * sizeof *c->wanted);
  annb_status s = c->wanted ? ANNB_OK : annb_fail_memory(err);
  for (uint64_t at = 0; !s && at < total;) {
    uint64_t n = total - at < most ? total - at : most, to_read;
    for (;; n /= 2) {
      list_block(c, at, n);
      to_read = rows_to_read(c, n, gap);
      if (n == 1 || to_read <= 4 * most) break;
    }
    s = annb_going_on(&c->subset->tree.going, err);
    if (!s) s = cut_block(c, at, n, gap, to_read, err);
    at += n;
  }
  free(c->wanted);
  return s;
}

/* ---- the dataset ---- */

static annb_status check_shape(cutting *c, annb_role role, annb_error *err) {
  static const char *const of[] = {"", "the cells of obs", "the genes of var"};
  char why[128];
  for (int i = 0; i < 2; i++) {
    const uint8_t follows = i ? role.second : role.first;
    const annb_selection *s = c->subset->selections[follows];
    if (!s) continue;
    if (c->rank <= i || c->dims[i] != s->of) {
      snprintf(why, sizeof why, "does not have the %s that its place asks for, %llu of them", of[follows] + 4, (unsigned long long)s->of);
      return annb_subset_fail(c->subset, ANNB_EINPUT, c->path, why, err);
    }
    c->out_dims[i] = s->n;
  }
  return ANNB_OK;
}

static annb_status describe(cutting *c, annb_role role, annb_error *err) {
  annb_status s = check_shape(c, role, err);
  if (s) return s;
  if (H5Tdetect_class(c->type, H5T_REFERENCE) > 0)
    return annb_subset_fail(c->subset, ANNB_EUNSUPPORTED, c->path, "holds references, which cannot be cut", err);
  c->rows = annb_subset_axis(c->subset, role.first);
  c->columns = annb_subset_axis(c->subset, role.second);
  c->size = H5Tget_size(c->type);
  c->elements = 1;
  for (int i = 1; i < c->rank; i++)
    if (!annb_mul(c->elements, c->dims[i], &c->elements)) c->elements = UINT64_MAX;
  if (!c->size || c->elements > UINT64_MAX / 4 / c->size)
    return annb_h5_fail(err, ANNB_EINPUT, c->subset->fill->merged->sidecar_name, c->path, "its type and shape cannot be read");
  c->inner = c->rank > 1 && c->dims[1] ? c->elements / c->dims[1] : 1;
  c->vlen = H5Tdetect_class(c->type, H5T_VLEN) > 0 || H5Tis_variable_str(c->type) > 0 || H5Tdetect_class(c->type, H5T_STRING) > 0;
  return ANNB_OK;
}

static annb_status create(cutting *c, const annb_place *place, const annb_link *link, hid_t type, annb_error *err) {
  hid_t properties = annb_subset_properties(c->from, c->rank, c->out_dims, false), link_properties = annb_link_properties(link->cset);
  hid_t space = H5Screate_simple(c->rank, c->out_dims, NULL);
  if (properties >= 0 && space >= 0) c->to = H5Dcreate2(place->to, link->name, type, space, link_properties, properties, H5P_DEFAULT);
  annb_h5_close(&space);
  annb_h5_close(&link_properties);
  annb_h5_close(&properties);
  return c->to >= 0 ? ANNB_OK : annb_h5_fail(err, ANNB_EIO, c->subset->fill->out_name, c->path, "the dataset cannot be created");
}

/* Cells of a packed dense matrix come from the store. */
static annb_status write_values(cutting *c, annb_error *err) {
  annb_fill *fill = c->subset->fill;
  uint32_t matrix;
  bool packed;
  annb_status s = annb_subset_packed(c->subset, c->path, &packed, &matrix, err);
  if (s) return s;
  for (int i = 0; i < c->rank; i++)
    if (!c->out_dims[i]) return ANNB_OK;
  if (!packed) return annb_tree_unwritten(c->from) ? ANNB_OK : cut_rows(c, err);
  annb_target data = {.dataset = c->to, .memory = -1, .path = (char *)c->path, .length = c->out_dims[0]};
  return annb_fill_selected(fill, matrix, &data, NULL, NULL, err);
}

static annb_status cut(cutting *c, annb_subset *subset, const annb_place *place, const annb_link *link, annb_role role, annb_error *err) {
  uint32_t node;
  hid_t out = -1;
  bool null = false;
  c->type = c->from < 0 ? -1 : H5Dget_type(c->from);
  c->rank = c->from < 0 ? -1 : annb_h5_extent(c->from, c->dims, &null);
  if (c->type < 0 || c->rank < 0)
    return annb_tree_fail(&subset->tree, ANNB_EINPUT, place->node, link->name, "the dataset cannot be opened", err);
  if (null) return annb_tree_copy_link(&subset->tree, place, link, err);
  memcpy(c->out_dims, c->dims, sizeof c->dims);
  annb_status s = describe(c, role, err);
  if (!s) s = annb_tree_type(&subset->tree, place->node, link->name, c->type, &out, err);
  if (!s) s = create(c, place, link, out, err);
  if (!s) s = write_values(c, err);
  if (!s) s = annb_tree_made(&subset->tree, place, link->name, c->from, c->to, false, &node, err);
  annb_h5_close(&out);
  return s;
}

annb_status annb_subset_array(annb_subset *subset, const annb_place *place, const annb_link *link, annb_role role, const char *path,
                              annb_error *err) {
  cutting c = {.subset = subset, .path = path, .to = -1, .type = -1};
  c.from = annb_h5_open_dataset(place->from, link->name);
  annb_status s = cut(&c, subset, place, link, role, err);
  annb_h5_close(&c.type);
  annb_h5_close(&c.to);
  annb_h5_close(&c.from);
  return s;
}
