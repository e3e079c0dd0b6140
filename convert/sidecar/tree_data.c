#include "../export/driver.h"
#include "files.h"
#include "pieces.h"
#include "tree.h"

#include "../source/chunks.h"

#include "../../store/cursor.h"
#include "../../store/error.h"
#include "../../store/io.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (UINT64_C(4) << 20)
#define PIECE_STRINGS (UINT64_C(1) << 14)
#define MAX_REWRITTEN (UINT64_C(1) << 36) /* bytes that a dataset may state that is copied by value */
#define MAX_FILTER_VALUES 256             /* HDF5 refuses to be asked for more */
#define TEMPORARY ANNB_RESERVED "type"

/* ---- committed datatypes ---- */

/* Commit the same type in the current destination: as `name` in the group `to`, or without a name (NULL) until something links to it.
 * Not by H5Ocopy, which crashes on damaged types. */
static hid_t commit_copy(annb_tree *tree, hid_t type, hid_t to, const char *name, H5T_cset_t cset) {
  hid_t copy = H5Tcopy(type), from = H5Tget_create_plist(type), properties = H5Pcreate(H5P_DATATYPE_CREATE);
  hid_t link_properties = annb_link_properties(cset);
  unsigned order, compact, dense;
  herr_t r = copy < 0 || from < 0 || properties < 0 ? -1 : H5Pset_obj_track_times(properties, false);
  if (r >= 0 && H5Pget_attr_creation_order(from, &order) >= 0) r = H5Pset_attr_creation_order(properties, order);
  if (r >= 0 && H5Pget_attr_phase_change(from, &compact, &dense) >= 0) r = H5Pset_attr_phase_change(properties, compact, dense);
  if (r >= 0 && name) r = H5Tcommit2(to, name, copy, link_properties, properties, H5P_DEFAULT);
  else if (r >= 0) r = H5Tcommit_anon(tree->out[tree->current], copy, properties, H5P_DEFAULT);
  if (r < 0) annb_h5_close(&copy);
  annb_h5_close(&link_properties);
  annb_h5_close(&properties);
  annb_h5_close(&from);
  return copy;
}

annb_status annb_tree_committed(annb_tree *tree, const annb_place *place, const annb_link *link, annb_error *err) {
  uint32_t node;
  hid_t type = H5Topen2(place->from, link->name, H5P_DEFAULT), copy = -1;
  if (type >= 0) copy = commit_copy(tree, type, place->to, link->name, link->cset);
  annb_status s = copy < 0 ? annb_tree_fail(tree, ANNB_EINPUT, place->node, link->name, "the committed datatype cannot be copied", err)
                           : annb_tree_made(tree, place, link->name, type, copy, false, &node, err);
  annb_h5_close(&copy);
  annb_h5_close(&type);
  return s;
}

/* A committed type met before its own link: without a name until that is met. */
static annb_status committed_early(annb_tree *tree, uint32_t node, const char *name, hid_t type, hid_t *out, annb_error *err) {
  uint32_t made;
  const annb_place place = {-1, -1, 0};
  *out = commit_copy(tree, type, -1, NULL, H5T_CSET_ASCII);
  annb_status s = *out < 0 ? annb_tree_fail(tree, ANNB_EINPUT, node, name, "its committed datatype cannot be copied", err)
                           : annb_tree_made(tree, &place, NULL, type, *out, false, &made, err);
  if (s) annb_h5_close(out);
  return s;
}

annb_status annb_tree_type(annb_tree *tree, uint32_t node, const char *name, hid_t type, hid_t *out, annb_error *err) {
  if (H5Tcommitted(type) <= 0) {
    *out = H5Tcopy(type);
    return *out >= 0 ? ANNB_OK : annb_tree_fail(tree, ANNB_EINPUT, node, name, "its datatype cannot be read", err);
  }
  H5O_info_t info;
  *out = -1;
  if (H5Oget_info2(type, &info, H5O_INFO_BASIC) < 0)
    return annb_tree_fail(tree, ANNB_EINPUT, node, name, "its datatype cannot be read", err);
  uint32_t known = annb_graph_find(&tree->graph, info.fileno, info.addr);
  if (known == ANNB_NONE) return committed_early(tree, node, name, type, out, err);
  if (tree->graph.nodes[known].out != tree->current)
    return annb_tree_fail(tree, ANNB_EUNSUPPORTED, node, name, "shares a committed datatype with objects that are stored apart", err);
  *out = H5Oopen_by_addr(tree->out[tree->current], tree->graph.nodes[known].out_addr);
  return *out >= 0 ? ANNB_OK : annb_tree_fail(tree, ANNB_EIO, node, name, "its committed datatype cannot be opened", err);
}

/* ---- creation properties ---- */

/* Whose fill value HDF5 could not give to another file. */
static bool has_addresses(hid_t type) {
  return H5Tdetect_class(type, H5T_VLEN) > 0 || H5Tdetect_class(type, H5T_REFERENCE) > 0 || H5Tis_variable_str(type) > 0;
}

static void copy_fill(hid_t from, hid_t type, hid_t to) {
  H5D_fill_value_t defined;
  H5D_fill_time_t when;
  if (H5Pget_fill_time(from, &when) >= 0) H5Pset_fill_time(to, when);
  if (H5Pfill_value_defined(from, &defined) < 0 || defined != H5D_FILL_VALUE_USER_DEFINED) return;
  if (has_addresses(type)) return;
  void *value = malloc(H5Tget_size(type));
  if (value && H5Pget_fill_value(from, type, value) >= 0) H5Pset_fill_value(to, type, value);
  free(value);
}

/* Filters that give back exactly what they were given, whatever their settings. */
static bool is_exact(H5Z_filter_t id) {
  static const H5Z_filter_t exact[] = {
      H5Z_FILTER_DEFLATE, H5Z_FILTER_SHUFFLE, H5Z_FILTER_FLETCHER32, H5Z_FILTER_SZIP,        307 /* bzip2 */,
      32000 /* lzf */,    32001 /* blosc */,  32004 /* lz4 */,       32008 /* bitshuffle */, 32015 /* zstd */};
  for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
    if (exact[i] == id) return true;
  return false;
}

/* Filters that are here and encode without loss. */
static void copy_filters(hid_t from, hid_t to) {
  int n = H5Pget_nfilters(from);
  for (int i = 0; i < n; i++) {
    unsigned flags, config = 0, ignored, values[MAX_FILTER_VALUES];
    size_t n_values = MAX_FILTER_VALUES;
    H5Z_filter_t id = H5Pget_filter2(from, (unsigned)i, &flags, &n_values, values, 0, NULL, &ignored);
    if (!is_exact(id) || n_values > MAX_FILTER_VALUES) continue;
    if (H5Zfilter_avail(id) <= 0 || H5Zget_filter_info(id, &config) < 0 || !(config & H5Z_FILTER_CONFIG_ENCODE_ENABLED)) continue;
    H5Pset_filter(to, id, flags, n_values, values);
  }
}

/* Chunks of about 1 MiB for an extent that can grow. */
static void set_chunks(hid_t properties, int rank, const hsize_t *dims, size_t size) {
  hsize_t chunk[32], room = (UINT64_C(1) << 20) / (size ? size : 1);
  if (!room) room = 1;
  for (int i = rank - 1; i >= 0; i--) {
    chunk[i] = dims[i] > room ? room : dims[i] ? dims[i] : 1;
    room /= chunk[i];
    if (!room) room = 1;
  }
  H5Pset_chunk(properties, rank, chunk);
}

static void copy_layout(hid_t from, hid_t space, hid_t type, hid_t to) {
  hsize_t dims[32], most[32], chunk[32];
  int rank = H5Sget_simple_extent_type(space) == H5S_SIMPLE ? H5Sget_simple_extent_dims(space, dims, most) : 0;
  if (H5Pget_layout(from) == H5D_CHUNKED && H5Pget_chunk(from, 32, chunk) == rank) {
    H5Pset_chunk(to, rank, chunk);
    copy_filters(from, to);
    return;
  }
  for (int i = 0; i < rank; i++)
    if (most[i] != dims[i]) {
      set_chunks(to, rank, dims, H5Tget_size(type));
      return;
    }
  H5Pset_layout(to, H5D_CONTIGUOUS);
  H5Pset_alloc_time(to, H5D_ALLOC_TIME_LATE);
}

hid_t annb_tree_plain_properties(hid_t dataset) {
  hid_t from = H5Dget_create_plist(dataset), type = H5Dget_type(dataset), space = H5Dget_space(dataset), to = H5Pcreate(H5P_DATASET_CREATE);
  unsigned order, compact, dense;
  if (from >= 0 && type >= 0 && space >= 0 && to >= 0) {
    H5Pset_obj_track_times(to, false);
    if (H5Pget_attr_creation_order(from, &order) >= 0) H5Pset_attr_creation_order(to, order);
    if (H5Pget_attr_phase_change(from, &compact, &dense) >= 0) H5Pset_attr_phase_change(to, compact, dense);
    copy_layout(from, space, type, to);
    copy_fill(from, type, to);
  } else {
    annb_h5_close(&to);
  }
  annb_h5_close(&from);
  annb_h5_close(&type);
  annb_h5_close(&space);
  H5Eclear2(H5E_DEFAULT);
  return to;
}

/* ---- values ---- */

/* copy_fill cannot carry the fill value of a type with addresses over, and one that is undefined cannot be read. */
static bool fill_carried(hid_t from) {
  H5D_fill_value_t defined = H5D_FILL_VALUE_ERROR;
  hid_t creation = H5Dget_create_plist(from), type = H5Dget_type(from);
  bool carried = creation >= 0 && H5Pfill_value_defined(creation, &defined) >= 0 &&
                 (defined == H5D_FILL_VALUE_DEFAULT || (defined == H5D_FILL_VALUE_USER_DEFINED && !has_addresses(type)));
  annb_h5_close(&creation);
  annb_h5_close(&type);
  H5Eclear2(H5E_DEFAULT);
  return carried;
}

bool annb_tree_unwritten(hid_t from) { return annb_h5_stored(from) == 0 && fill_carried(from); }

/* What a copy needs to know about its dataset. */
typedef struct copying {
  annb_tree *tree;
  hid_t from, to, memory;
  const char *path;
  size_t size;
  bool vlen, zero_fill; /* zero_fill: what is never written to the copy reads as zeros */
} copying;

static annb_status copy_piece(const copying *c, const annb_pieces *pieces, annb_error *err) {
  annb_status s = annb_going_on(&c->tree->going, err);
  if (s) return s;
  void *buffer = calloc(pieces->n, c->size);
  if (!buffer) return annb_fail_memory(err);
  s = annb_pieces_read(pieces, c->from, c->tree->in_name, c->path, c->memory, buffer, err);
  if (!s && !(c->zero_fill && annb_all_zero(buffer, pieces->n * c->size))) {
    s = annb_pieces_write(pieces, c->to, c->tree->out_name[c->tree->current], c->path, c->memory, buffer, err);
    hid_t of_piece = c->vlen ? (pieces->rank ? H5Screate_simple(pieces->rank, pieces->count, NULL) : H5Screate(H5S_SCALAR)) : -1;
    if (of_piece >= 0) H5Dvlen_reclaim(c->memory, of_piece, H5P_DEFAULT, buffer);
    annb_h5_close(&of_piece);
  }
  free(buffer);
  return s;
}

/* Copy elements of `from` to `to`, in pieces; not for types with references. */
static annb_status copy_values(annb_tree *tree, hid_t from, hid_t to, const char *path, annb_error *err) {
  annb_pieces pieces;
  hid_t type = H5Dget_type(from), space = H5Dget_space(from);
  copying c = {.tree = tree, .from = from, .to = to, .memory = H5Tcopy(type), .path = path};
  c.size = H5Tget_size(c.memory);
  c.vlen = H5Tdetect_class(c.memory, H5T_VLEN) > 0 || H5Tis_variable_str(c.memory) > 0 || H5Tdetect_class(c.memory, H5T_STRING) > 0;
  c.zero_fill = has_addresses(type);
  uint64_t most = PIECE_BYTES / (c.size ? c.size : 1);
  if (c.vlen && most > PIECE_STRINGS) most = PIECE_STRINGS;
  annb_status s = annb_chunks_check(from, tree->in_name, path, err);
  if (!s && (!c.size || !annb_pieces_begin(&pieces, space, from, most)))
    s = annb_h5_fail(err, ANNB_EINPUT, tree->in_name, path, "its type and shape cannot be read");
  while (!s && !annb_tree_unwritten(from) && annb_pieces_next(&pieces)) s = copy_piece(&c, &pieces, err);
  annb_h5_close(&c.memory);
  annb_h5_close(&space);
  annb_h5_close(&type);
  return s;
}

static bool file_there(const char *dir, size_t dir_length, const char *name) {
  annb_path_kind kind = ANNB_PATH_ABSENT;
  char *path = malloc(dir_length + strlen(name) + 1);
  if (!path) return false;
  memcpy(path, dir, dir_length);
  strcpy(path + dir_length, name);
  bool there = annb_io_kind(path, &kind, NULL) == ANNB_OK && kind == ANNB_PATH_FILE;
  free(path);
  return there;
}

/* HDF5 reads fill values where the source of a virtual dataset is missing: find that out before. */
static annb_status check_virtual(annb_tree *tree, hid_t properties, const char *path, annb_error *err) {
  size_t n = 0;
  annb_status s = ANNB_OK;
  H5Pget_virtual_count(properties, &n);
  const char *slash = strrchr(tree->in_name, '/');
  size_t dir = slash ? (size_t)(slash - tree->in_name) + 1 : 0;
  for (size_t i = 0; !s && i < n; i++) {
    char name[4096];
    ssize_t length = H5Pget_virtual_filename(properties, i, name, sizeof name);
    bool known = length > 0 && length < (ssize_t)sizeof name && !strchr(name, '%');
    if (!known) s = annb_h5_fail(err, ANNB_EUNSUPPORTED, tree->in_name, path, "is a virtual dataset with a pattern of source files");
    else if (strcmp(name, ".") && !file_there("", 0, name) && (name[0] == '/' || !file_there(tree->in_name, dir, name)))
      s = annb_h5_fail(err, ANNB_EINPUT, tree->in_name, path, "is a virtual dataset whose source file %s is missing", name);
  }
  return s;
}

/* ---- datasets ---- */

/* H5Ocopy crashes when it cannot read: a damaged contiguous dataset, an address in a string or sequence, or a filter is enough. So it gets
 * only what it need not look into: chunks of plain values. */
static bool for_raw_copy(H5D_layout_t layout, hid_t type) {
  if (layout != H5D_CHUNKED || H5Tdetect_class(type, H5T_VLEN) > 0 || H5Tdetect_class(type, H5T_REFERENCE) > 0) return false;
  return H5Tdetect_class(type, H5T_STRING) <= 0 || (H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) <= 0);
}

/* Was anything ever written to it? What was not needs no copy. */
static bool has_values(hid_t dataset, H5D_layout_t layout, bool external) {
  H5D_space_status_t status;
  return layout == H5D_VIRTUAL || external || H5Dget_space_status(dataset, &status) < 0 || status != H5D_SPACE_STATUS_NOT_ALLOCATED;
}

/* A few bytes may state a virtual or chunked dataset of any size; the values of contiguous ones are all in the file. */
static annb_status check_size(annb_tree *tree, hid_t dataset, hid_t type, const char *path, annb_error *err) {
  hid_t space = H5Dget_space(dataset);
  hssize_t n = H5Sget_simple_extent_npoints(space);
  uint64_t bytes;
  annb_h5_close(&space);
  if (n >= 0 && annb_mul((uint64_t)n, H5Tget_size(type), &bytes) && bytes <= MAX_REWRITTEN) return ANNB_OK;
  return annb_h5_fail(err, ANNB_EUNSUPPORTED, tree->in_name, path,
                      "is larger than 64 GiB and of a kind that has to be copied value by value");
}

/* By reading and writing; the values of references follow at the end. */
static annb_status rewrite(annb_tree *tree, const annb_place *place, const annb_link *link, hid_t dataset, hid_t type, bool values,
                           hid_t *copy, annb_error *err) {
  hid_t space = H5Dget_space(dataset), properties = annb_tree_plain_properties(dataset), link_properties = annb_link_properties(link->cset);
  char *path = annb_graph_path(&tree->graph, place->node, link->name);
  *copy = space < 0 || properties < 0 ? -1 : H5Dcreate2(place->to, link->name, type, space, link_properties, properties, H5P_DEFAULT);
  annb_status s = *copy < 0 ? annb_h5_fail(err, ANNB_EIO, tree->in_name, path, "the dataset cannot be copied") : ANNB_OK;
  if (!s && values) s = copy_values(tree, dataset, *copy, path, err);
  free(path);
  annb_h5_close(&link_properties);
  annb_h5_close(&properties);
  annb_h5_close(&space);
  return s;
}

/* By raw chunks. A committed type is found under a temporary name. */
static annb_status copy_raw(annb_tree *tree, const annb_place *place, const annb_link *link, hid_t dataset, hid_t type, hid_t *copy,
                            annb_error *err) {
  bool committed = H5Tcommitted(type) > 0;
  hid_t properties = H5Pcreate(H5P_OBJECT_COPY), link_properties = annb_link_properties(link->cset), out = tree->out[tree->current];
  unsigned flags = H5O_COPY_WITHOUT_ATTR_FLAG | (committed ? H5O_COPY_MERGE_COMMITTED_DTYPE_FLAG : 0u);
  herr_t r = H5Pset_copy_object(properties, flags);
  if (r >= 0 && committed) r = H5Olink(type, out, TEMPORARY, H5P_DEFAULT, H5P_DEFAULT);
  if (r >= 0 && committed) r = H5Padd_merge_committed_dtype_path(properties, "/" TEMPORARY);
  annb_written *written = annb_driver_written(out);
  if (written) written->going = &tree->going;
  if (r >= 0) r = H5Ocopy(dataset, ".", place->to, link->name, properties, link_properties);
  if (written) written->going = NULL;
  annb_written_release(written);
  *copy = r >= 0 ? H5Dopen2(place->to, link->name, H5P_DEFAULT) : -1;
  annb_status s = annb_file_check(out, tree->out_name[tree->current], err);
  if (!s && *copy < 0) s = annb_tree_fail(tree, ANNB_EINPUT, place->node, link->name, "the dataset cannot be copied", err);
  if (committed) H5Ldelete(out, TEMPORARY, H5P_DEFAULT);
  annb_h5_close(&properties);
  annb_h5_close(&link_properties);
  return s;
}

/* What HDF5 copies is what the header says is stored, which must be what the type and the shape take. */
static annb_status check_stored(annb_tree *tree, const annb_place *place, const annb_link *link, hid_t dataset, hid_t type,
                                annb_error *err) {
  hid_t space = H5Dget_space(dataset);
  hssize_t n = H5Sget_simple_extent_npoints(space);
  uint64_t stored = H5Dget_storage_size(dataset), bytes = 0;
  annb_h5_close(&space);
  if (!stored || (n >= 0 && annb_mul((uint64_t)n, H5Tget_size(type), &bytes) && bytes == stored)) return ANNB_OK;
  return annb_tree_fail(tree, ANNB_EINPUT, place->node, link->name, "its values do not take the bytes that its type and shape need", err);
}

static annb_status copy_by_layout(annb_tree *tree, const annb_place *place, const annb_link *link, hid_t dataset, hid_t type,
                                  annb_error *err) {
  hid_t properties = H5Dget_create_plist(dataset), copy = -1;
  uint32_t node;
  H5D_layout_t layout = properties < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(properties);
  bool external = layout == H5D_CONTIGUOUS && H5Pget_external_count(properties) > 0, references = H5Tdetect_class(type, H5T_REFERENCE) > 0;
  char *path = annb_graph_path(&tree->graph, place->node, link->name);
  annb_status s = ANNB_OK;
  bool raw = for_raw_copy(layout, type), values = has_values(dataset, layout, external);
  references = references && values;
  if (layout == H5D_VIRTUAL) s = check_virtual(tree, properties, path, err);
  if (raw && (layout == H5D_COMPACT || (layout == H5D_CONTIGUOUS && !external))) s = check_stored(tree, place, link, dataset, type, err);
  if (!s && !raw && (layout == H5D_VIRTUAL || layout == H5D_CHUNKED) && values)
    s = check_size(tree, dataset, type, path, err);
  if (!s && layout == H5D_CHUNKED && values) s = annb_chunks_placed(dataset, tree->in_name, path, err);
  if (!s && raw) s = copy_raw(tree, place, link, dataset, type, &copy, err);
  else if (!s) s = rewrite(tree, place, link, dataset, type, values && !references, &copy, err);
  if (!s) s = annb_tree_made(tree, place, link->name, dataset, copy, false, &node, err);
  if (!s && references) s = annb_tree_hold(tree, node, NULL, err);
  free(path);
  annb_h5_close(&copy);
  annb_h5_close(&properties);
  return s;
}

annb_status annb_tree_dataset(annb_tree *tree, const annb_place *place, const annb_link *link, annb_error *err) {
  hid_t dataset = annb_h5_open_dataset(place->from, link->name), type = dataset < 0 ? -1 : H5Dget_type(dataset), out = -1;
  annb_status s = type < 0 ? annb_tree_fail(tree, ANNB_EINPUT, place->node, link->name, "the dataset cannot be opened", err)
                           : annb_tree_type(tree, place->node, link->name, type, &out, err);
  if (!s) s = copy_by_layout(tree, place, link, dataset, out, err);
  annb_h5_close(&out);
  annb_h5_close(&type);
  annb_h5_close(&dataset);
  return s;
}
