#include "../sidecar/files.h"
#include "stream.h"
#include "subset.h"

#include "../../store/error.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_ROOM (UINT64_C(1) << 16) /* elements */

/* A sparse matrix on its way from one group to another. Major: the axis of the row pointers of CSR. */
typedef struct cutting {
  annb_subset *subset;
  const char *path;
  hid_t from, to;
  bool csc;
  uint64_t shape[2];                        /* of the source */
  const annb_selection *major, *minor;      /* NULL: all */
  uint64_t n_major, n_minor, out_major;     /* of the source; of the copy */
  annb_target data, indices, indptr;        /* of the copy */
  hid_t from_data, from_indices, data_type;
  uint32_t value_size;
  uint64_t *pointers;                       /* of the source */
  uint64_t n_elements;                      /* in its arrays */
  uint32_t *map;                            /* of the minor axis; NULL: all stay */
  int64_t *numbers;
  uint8_t *values;
  uint64_t room, at;
} cutting;

static annb_status bad(const cutting *c, const char *text, annb_error *err) {
  return annb_h5_fail(err, ANNB_EINPUT, c->subset->fill->merged->sidecar_name, c->path, "%s", text);
}

/* ---- what it is ---- */

static const char *shape_name(hid_t group) { return H5Aexists(group, "h5sparse_shape") > 0 ? "h5sparse_shape" : "shape"; }

static annb_status read_form(cutting *c, annb_role role, annb_error *err) {
  char *legacy = annb_h5_attr_string(c->from, "h5sparse_format"), *encoding = annb_h5_attr_string(c->from, "encoding-type");
  const char *form = legacy ? legacy : encoding;
  c->csc = form && !strncmp(form, "csc", 3);
  free(legacy);
  free(encoding);
  if (annb_h5_attr_u64(c->from, shape_name(c->from), c->shape, 2) != 2) return bad(c, "its shape cannot be read", err);
  for (int i = 0; i < 2; i++) {
    const annb_selection *s = c->subset->selections[i ? role.second : role.first];
    if (s && s->of != c->shape[i])
      return annb_subset_fail(c->subset, ANNB_EINPUT, c->path, "has not the shape that its place asks for", err);
  }
  const annb_selection *rows = annb_subset_axis(c->subset, role.first), *columns = annb_subset_axis(c->subset, role.second);
  c->major = c->csc ? columns : rows;
  c->minor = c->csc ? rows : columns;
  c->n_major = c->shape[c->csc];
  c->n_minor = c->shape[!c->csc];
  c->out_major = c->major ? c->major->n : c->n_major;
  return ANNB_OK;
}

/* The shape of the copy, in the type of the source's attribute. */
static annb_status write_shape(const cutting *c, annb_error *err) {
  uint64_t minor = c->minor ? c->minor->n : c->n_minor;
  const uint64_t shape[2] = {c->csc ? minor : c->out_major, c->csc ? c->out_major : minor};
  hid_t attribute = H5Aopen(c->to, shape_name(c->to), H5P_DEFAULT);
  herr_t r = attribute < 0 ? -1 : H5Awrite(attribute, H5T_NATIVE_UINT64, shape);
  annb_h5_close(&attribute);
  return r < 0 ? annb_h5_fail(err, ANNB_EIO, c->subset->fill->out_name, c->path, "its shape cannot be written") : ANNB_OK;
}

/* ---- arrays of the copy ---- */

/* Like the member of the source, but of `n` elements, or growing as it is written. */
static annb_status create(cutting *c, const char *name, uint64_t n, bool grows, hid_t memory, annb_target *t, uint32_t node,
                          annb_error *err) {
  static const hsize_t unlimited = H5S_UNLIMITED;
  const hsize_t dims = grows ? 0 : n;
  uint32_t made;
  H5O_info_t info;
  hid_t from = H5Dopen2(c->from, name, H5P_DEFAULT), type = from < 0 ? -1 : H5Dget_type(from), copy_type = -1;
  annb_tree *tree = &c->subset->tree;
  const annb_place place = {c->from, c->to, node};
  if (type < 0 || H5Oget_info2(from, &info, H5O_INFO_BASIC) < 0) {
    annb_h5_close(&from);
    return bad(c, "one of its arrays cannot be opened", err);
  }
  hid_t properties = annb_subset_properties(from, 1, &dims, grows), space = H5Screate_simple(1, &dims, grows ? &unlimited : NULL);
  annb_status s = annb_tree_type(tree, node, name, type, &copy_type, err);
  if (!s) t->dataset = H5Dcreate2(c->to, name, copy_type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  if (!s && t->dataset < 0) s = annb_h5_fail(err, ANNB_EIO, c->subset->fill->out_name, c->path, "the array %s cannot be created", name);
  if (!s && annb_graph_find(&tree->graph, info.fileno, info.addr) == ANNB_NONE)
    s = annb_tree_made(tree, &place, name, from, t->dataset, false, &made, err);
  t->grows = grows;
  t->length = dims;
  t->memory = H5Tcopy(memory >= 0 ? memory : copy_type);
  t->path = annb_graph_path(&tree->graph, node, name);
  annb_h5_close(&copy_type);
  annb_h5_close(&space);
  annb_h5_close(&properties);
  annb_h5_close(&type);
  annb_h5_close(&from);
  return !s && !t->path ? annb_fail_memory(err) : s;
}

static annb_status create_all(cutting *c, uint64_t n, bool grows, hid_t data, hid_t indices, uint32_t node, annb_error *err) {
  annb_status s = create(c, "data", n, grows, data, &c->data, node, err);
  if (!s) s = create(c, "indices", n, grows, indices, &c->indices, node, err);
  return s ? s : create(c, "indptr", c->out_major + 1, false, H5T_NATIVE_UINT64, &c->indptr, node, err);
}

/* ---- elements from the source's arrays ---- */

static annb_status open_arrays(cutting *c, annb_error *err) {
  hsize_t dims[32];
  annb_dtype dtype;
  hid_t type = -1, indptr = H5Dopen2(c->from, "indptr", H5P_DEFAULT);
  annb_status s = ANNB_OK;
  c->from_data = annb_h5_open_dataset(c->from, "data");
  c->from_indices = annb_h5_open_dataset(c->from, "indices");
  if (c->from_data < 0 || c->from_indices < 0 || indptr < 0) s = bad(c, "one of its arrays cannot be opened", err);
  if (!s && (annb_h5_extent(indptr, dims, NULL) != 1 || dims[0] != c->n_major + 1))
    s = bad(c, "its row pointers have another length than its shape", err);
  if (!s && annb_h5_extent(c->from_data, dims, NULL) != 1) s = bad(c, "its data has not one dimension", err);
  c->n_elements = s ? 0 : dims[0];
  if (!s && (annb_h5_extent(c->from_indices, dims, NULL) != 1 || dims[0] != c->n_elements))
    s = bad(c, "its data and indices have different lengths", err);
  if (!s && !annb_h5_dtype(type = H5Dget_type(c->from_data), &dtype, &c->data_type))
    s = annb_subset_fail(c->subset, ANNB_EUNSUPPORTED, c->path, "has values of a type that cannot be cut", err);
  if (!s) c->value_size = (uint32_t)H5Tget_size(c->data_type);
  c->pointers = s ? NULL : malloc((c->n_major + 1) * sizeof *c->pointers);
  if (!s && !c->pointers) s = annb_fail_memory(err);
  if (!s)
    s = annb_h5_read_rows(indptr, c->subset->fill->merged->sidecar_name, c->path, H5T_NATIVE_UINT64, 0, c->n_major + 1, c->pointers, err);
  for (uint64_t i = 0; !s && i < c->n_major; i++)
    if (c->pointers[i] > c->pointers[i + 1] || c->pointers[i + 1] > c->n_elements)
      s = bad(c, "its row pointers decrease or leave its arrays", err);
  annb_h5_close(&type);
  annb_h5_close(&indptr);
  return s;
}

static annb_status reserve(cutting *c, uint64_t n, annb_error *err) {
  if (n <= c->room) return ANNB_OK;
  if (n > c->subset->fill->memory / 4 / (sizeof *c->numbers + c->value_size) && n > LEAST_ROOM)
    return annb_h5_fail(err, ANNB_ENOMEM, c->subset->fill->merged->sidecar_name, c->path,
                        "one of its rows does not fit the memory allowed");
  free(c->numbers);
  free(c->values);
  c->room = n;
  c->numbers = malloc(n * sizeof *c->numbers);
  c->values = malloc(n * c->value_size);
  return c->numbers && c->values ? ANNB_OK : annb_fail_memory(err);
}

/* Elements [first, first + n) of the source, one or more whole rows. */
static annb_status read_elements(cutting *c, uint64_t first, uint64_t n, annb_error *err) {
  const char *file = c->subset->fill->merged->sidecar_name;
  annb_status s = reserve(c, n > LEAST_ROOM ? n : LEAST_ROOM, err);
  if (!s && n) s = annb_h5_read_rows(c->from_indices, file, c->path, H5T_NATIVE_INT64, first, n, c->numbers, err);
  if (!s && n) s = annb_h5_read_rows(c->from_data, file, c->path, c->data_type, first, n, c->values, err);
  for (uint64_t i = 0; !s && i < n; i++)
    if (c->numbers[i] < 0 || (uint64_t)c->numbers[i] >= c->n_minor) s = bad(c, "its indices leave the matrix", err);
  return s;
}

/* Of n elements from `from` on, those that stay, moved to `to`; returns how many. */
static uint64_t keep(cutting *c, uint64_t from, uint64_t n, uint64_t to) {
  uint64_t kept = 0;
  for (uint64_t i = from; i < from + n; i++) {
    uint64_t number = (uint64_t)c->numbers[i];
    if (c->map && c->map[number] == ANNB_NONE) continue;
    c->numbers[to + kept] = c->map ? c->map[number] : (int64_t)number;
    memmove(c->values + (to + kept) * c->value_size, c->values + i * c->value_size, c->value_size);
    kept++;
  }
  return kept;
}

/* Rows [from, to) of the source, to be rows `out` … of the copy. */
static annb_status move_rows(cutting *c, uint64_t from, uint64_t to, uint64_t out, annb_error *err) {
  const annb_filling f = {.fill = c->subset->fill};
  uint64_t first = c->pointers[from], n = 0;
  uint64_t *ends = malloc((to - from) * sizeof *ends);
  annb_status s = ends ? read_elements(c, first, c->pointers[to] - first, err) : annb_fail_memory(err);
  for (uint64_t row = from; !s && row < to; row++) {
    uint64_t kept = keep(c, c->pointers[row] - first, c->pointers[row + 1] - c->pointers[row], n);
    if (c->minor && !c->minor->ascending) s = annb_sort_elements(c->numbers + n, c->values + n * c->value_size, kept, c->value_size, err);
    n += kept;
    ends[row - from] = c->at + n;
  }
  if (!s) s = annb_target_write(&f, &c->data, c->at, n, c->values, err);
  if (!s) s = annb_target_write(&f, &c->indices, c->at, n, c->numbers, err);
  if (!s) s = annb_target_write(&f, &c->indptr, out + 1, to - from, ends, err);
  c->at += n;
  free(ends);
  return s ? s : annb_file_check(c->subset->fill->out, c->subset->fill->out_name, err);
}

/* Runs of rows that follow one another in the source and fit the buffers. */
static annb_status move_all(cutting *c, annb_error *err) {
  const annb_filling f = {.fill = c->subset->fill};
  const uint64_t zero = 0;
  annb_status s = annb_target_write(&f, &c->indptr, 0, 1, &zero, err);
  if (!s) s = annb_stream_begin(f.fill, &c->data, 0, err);
  if (!s) s = annb_stream_begin(f.fill, &c->indices, sizeof(int64_t), err);
  for (uint64_t out = 0, n; !s && out < c->out_major; out += n) {
    const uint64_t row = c->major ? c->major->items[out] : out;
    for (n = 1; out + n < c->out_major; n++) {
      if (c->major && c->major->items[out + n] != row + n) break;
      if (c->pointers[row + n + 1] - c->pointers[row] > LEAST_ROOM) break;
    }
    s = annb_going_on(&c->subset->tree.going, err);
    if (!s) s = move_rows(c, row, row + n, out, err);
  }
  if (!s) s = annb_stream_end(&c->data, err);
  return s ? s : annb_stream_end(&c->indices, err);
}

static uint64_t count_selected(const cutting *c) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < c->out_major; i++) {
    uint64_t row = c->major ? c->major->items[i] : i;
    n += c->pointers[row + 1] - c->pointers[row];
  }
  return n;
}

static annb_status from_arrays(cutting *c, uint32_t node, annb_error *err) {
  annb_status s = open_arrays(c, err);
  if (!s && c->minor) s = annb_selection_map(c->minor, &c->map, err);
  if (!s) s = create_all(c, count_selected(c), c->map != NULL, c->data_type, H5T_NATIVE_INT64, node, err);
  return s ? s : move_all(c, err);
}

/* ---- elements from the store ---- */

static annb_status from_store(cutting *c, uint32_t matrix, uint32_t node, annb_error *err) {
  uint64_t n;
  bool exact;
  annb_status s = annb_fill_count(c->subset->fill, matrix, &n, &exact, err);
  if (!s) s = create_all(c, n, !exact, -1, -1, node, err);
  return s ? s : annb_fill_selected(c->subset->fill, matrix, &c->data, &c->indices, &c->indptr, err);
}

annb_status annb_subset_sparse(annb_subset *subset, hid_t from, hid_t to, uint32_t node, annb_role role, const char *path,
                               annb_error *err) {
  const annb_target none = {.dataset = -1, .memory = -1};
  cutting c = {.subset = subset, .path = path, .from = from, .to = to, .data = none, .indices = none, .indptr = none, .from_data = -1,
               .from_indices = -1, .data_type = -1};
  uint32_t matrix;
  bool packed;
  annb_status s = annb_subset_packed(subset, path, &packed, &matrix, err);
  if (!s) s = read_form(&c, role, err);
  if (!s) s = write_shape(&c, err);
  if (!s) s = packed ? from_store(&c, matrix, node, err) : from_arrays(&c, node, err);
  annb_target_close(&c.data);
  annb_target_close(&c.indices);
  annb_target_close(&c.indptr);
  annb_h5_close(&c.from_data);
  annb_h5_close(&c.from_indices);
  annb_h5_close(&c.data_type);
  free(c.pointers);
  free(c.map);
  free(c.numbers);
  free(c.values);
  return s;
}
