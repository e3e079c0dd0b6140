#include "shell.h"

#include "files.h"

#include "../../store/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PIECE_BYTES (UINT64_C(4) << 20)

#define CHUNK_BYTES (UINT64_C(512) << 10) /* two fit HDF5's own cache */

/* Other filters than the source's, and a fixed extent. */
static void choose_filters(const annb_tree *tree, hid_t *space, hid_t type, hid_t properties) {
  hsize_t dims[32], chunk[32], room = CHUNK_BYTES / (H5Tget_size(type) ? H5Tget_size(type) : 1);
  int rank = H5Sget_simple_extent_type(*space) == H5S_SIMPLE ? H5Sget_simple_extent_dims(*space, dims, NULL) : 0;
  hid_t fixed = rank > 0 ? H5Screate_simple(rank, dims, NULL) : -1;
  bool empty = rank <= 0;
  for (int i = 0; i < rank; i++) empty = empty || !dims[i];
  if (fixed >= 0) {
    annb_h5_close(space);
    *space = fixed;
  }
  if (H5Pget_layout(properties) == H5D_CHUNKED) H5Premove_filter(properties, H5Z_FILTER_ALL);
  if (tree->compression == ANNB_COMPRESSION_NONE || empty) {
    H5Pset_layout(properties, H5D_CONTIGUOUS);
    H5Pset_alloc_time(properties, H5D_ALLOC_TIME_LATE);
    return;
  }
  for (int i = rank - 1; i >= 0; i--) {
    chunk[i] = !room ? 1 : dims[i] < room ? dims[i] : room;
    room /= chunk[i];
  }
  H5Pset_chunk(properties, rank, chunk);
  H5Pset_alloc_time(properties, H5D_ALLOC_TIME_INCR);
  H5Pset_shuffle(properties);
  H5Pset_deflate(properties, (unsigned)tree->level);
}

/* A dataset of the same type, shape and (as far as they can be had) creation properties, without data. */
static hid_t create_like(const annb_tree *tree, const annb_place *place, const annb_link *link, hid_t dataset, hid_t type) {
  hid_t space = H5Dget_space(dataset), properties = annb_tree_plain_properties(dataset), link_properties = annb_link_properties(link->cset);
  if (tree->compression != ANNB_COMPRESSION_SOURCE && space >= 0 && properties >= 0) choose_filters(tree, &space, type, properties);
  hid_t copy = space < 0 || properties < 0 ? -1 : H5Dcreate2(place->to, link->name, type, space, link_properties, properties, H5P_DEFAULT);
  if (copy < 0 && properties >= 0 && H5Pget_layout(properties) == H5D_CHUNKED && H5Pget_nfilters(properties) > 0) {
    /* a filter that is here and yet refuses */
    H5Eclear2(H5E_DEFAULT);
    H5Premove_filter(properties, H5Z_FILTER_ALL);
    copy = H5Dcreate2(place->to, link->name, type, space, link_properties, properties, H5P_DEFAULT);
  }
  annb_h5_close(&link_properties);
  annb_h5_close(&properties);
  annb_h5_close(&space);
  return copy;
}

annb_status annb_shell_copy(annb_tree *tree, const annb_place *place, const annb_link *link, hid_t shell, hid_t *copy, annb_error *err) {
  hid_t type = H5Dget_type(shell), out = -1;
  uint32_t node;
  *copy = -1;
  annb_status s = type < 0 ? annb_tree_fail(tree, ANNB_EINPUT, place->node, link->name, "its datatype cannot be read", err)
                           : annb_tree_type(tree, place->node, link->name, type, &out, err);
  if (!s && (*copy = create_like(tree, place, link, shell, out)) < 0)
    s = annb_tree_fail(tree, ANNB_EIO, place->node, link->name, "the dataset cannot be created", err);
  if (!s) s = annb_tree_made(tree, place, link->name, shell, *copy, false, &node, err);
  annb_h5_close(&out);
  annb_h5_close(&type);
  if (s) annb_h5_close(copy);
  return s;
}

/* ---- tails ---- */

/* Copy rows of one-dimensional datasets: `n` from row `from_row` of `from` to row `to_row` of `to`. */
static annb_status copy_rows(hid_t from, const char *from_name, uint64_t from_row, hid_t to, const char *to_name, uint64_t to_row,
                             uint64_t n, const char *path, annb_error *err) {
  hid_t type = H5Dget_type(from);
  size_t size = H5Tget_size(type);
  annb_status s = ANNB_OK;
  uint64_t most = PIECE_BYTES / (size ? size : 1), done = 0;
  if (!size || size > PIECE_BYTES) s = annb_h5_fail(err, ANNB_EINPUT, from_name, path, "is of a datatype that cannot be read");
  void *buffer = s ? NULL : malloc(PIECE_BYTES);
  if (!s && !buffer) s = annb_fail_memory(err);
  while (!s && done < n) {
    uint64_t piece = n - done < most ? n - done : most;
    s = annb_h5_read_rows(from, from_name, path, type, from_row + done, piece, buffer, err);
    if (!s) s = annb_h5_write_rows(to, to_name, path, type, to_row + done, piece, buffer, err);
    done += piece;
  }
  free(buffer);
  annb_h5_close(&type);
  return s;
}

static hid_t tails_group(hid_t file) {
  hid_t group = H5Lexists(file, ANNB_TAIL, H5P_DEFAULT) > 0 ? H5Gopen2(file, ANNB_TAIL, H5P_DEFAULT) : -1;
  if (group >= 0) return group;
  hid_t properties = H5Pcreate(H5P_GROUP_CREATE);
  H5Pset_obj_track_times(properties, false);
  group = H5Gcreate2(file, ANNB_TAIL, H5P_DEFAULT, properties, H5P_DEFAULT);
  annb_h5_close(&properties);
  return group;
}

static hid_t create_tail(hid_t group, const char *name, hid_t type, uint64_t n) {
  hsize_t dims[1] = {n};
  hid_t space = H5Screate_simple(1, dims, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(properties, false);
  hid_t tail = H5Dcreate2(group, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  annb_h5_close(&properties);
  annb_h5_close(&space);
  return tail;
}

static annb_status keep_tail(annb_tree *tree, hid_t dataset, hid_t shell, uint64_t nnz, uint64_t n, const char *path, annb_error *err) {
  const char *file = tree->out_name[tree->current];
  hid_t group = tails_group(tree->out[tree->current]), type = H5Dget_type(dataset), plain = H5Tcopy(type);
  H5G_info_t info;
  char name[24];
  uint64_t number = group >= 0 && H5Gget_info(group, &info) >= 0 ? info.nlinks : 0;
  snprintf(name, sizeof name, "%" PRIu64, number);
  hid_t tail = group < 0 ? -1 : create_tail(group, name, plain, n);
  annb_status s = tail < 0 ? annb_h5_fail(err, ANNB_EIO, file, path, "its tail cannot be written") : ANNB_OK;
  if (!s) s = copy_rows(dataset, tree->in_name, nnz, tail, file, 0, n, path, err);
  if (!s) s = annb_attr_write_u64(shell, ANNB_TAIL, &number, 1, file, err);
  annb_h5_close(&tail);
  annb_h5_close(&plain);
  annb_h5_close(&type);
  annb_h5_close(&group);
  return s;
}

annb_status annb_shell_copy_tail(hid_t restore, const char *restore_name, hid_t shell, hid_t copy, const char *path, uint64_t *n,
                                 annb_error *err) {
  uint64_t number;
  hsize_t dims[32], rows[32];
  *n = 0;
  if (annb_h5_attr_u64(shell, ANNB_TAIL, &number, 1) != 1) return ANNB_OK;
  char name[64];
  snprintf(name, sizeof name, "/" ANNB_TAIL "/%" PRIu64, number);
  hid_t tail = H5Dopen2(restore, name, H5P_DEFAULT);
  annb_status s = ANNB_OK;
  if (tail < 0 || annb_h5_extent(tail, rows, NULL) != 1 || annb_h5_extent(copy, dims, NULL) != 1 || rows[0] > dims[0])
    s = annb_h5_fail(err, ANNB_ECORRUPT, restore_name, path, "its tail is missing or does not fit");
  else s = copy_rows(tail, restore_name, 0, copy, "the output", dims[0] - rows[0], *n = rows[0], path, err);
  annb_h5_close(&tail);
  return s;
}

/* ---- making ---- */

static annb_status describe(annb_tree *tree, hid_t dataset, hid_t shell, const char *role, uint64_t nnz, const char *path,
                            annb_error *err) {
  hsize_t dims[32] = {0};
  uint64_t shape[32];
  const char *file = tree->out_name[tree->current];
  int rank = annb_h5_extent(dataset, dims, NULL);
  if (rank < 1 || (nnz != UINT64_MAX && rank != 1))
    return annb_h5_fail(err, ANNB_EINPUT, tree->in_name, path, "has not the rank of such an array");
  for (int i = 0; i < rank; i++) shape[i] = dims[i];
  annb_status s = annb_attr_write_text(shell, ANNB_SHELL, role, file, err);
  if (!s) s = annb_attr_write_u64(shell, ANNB_SHAPE, shape, rank, file, err);
  if (!s && nnz < dims[0]) s = keep_tail(tree, dataset, shell, nnz, dims[0] - nnz, path, err);
  return s;
}

annb_status annb_shell_make(annb_tree *tree, const annb_place *place, const annb_link *link, const char *role, uint64_t nnz,
                            annb_error *err) {
  hid_t dataset = annb_h5_open_dataset(place->from, link->name), shell = -1;
  char *path = annb_graph_path(&tree->graph, place->node, link->name);
  annb_status s = dataset < 0 ? annb_h5_fail(err, ANNB_EINPUT, tree->in_name, path, "the dataset cannot be opened")
                              : annb_shell_copy(tree, place, link, dataset, &shell, err);
  if (!s) s = describe(tree, dataset, shell, role, nnz, path, err);
  free(path);
  annb_h5_close(&shell);
  annb_h5_close(&dataset);
  return s;
}
