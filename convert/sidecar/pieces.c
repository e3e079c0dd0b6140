#include "pieces.h"

#include "../source/plugins.h"
#include "../source/virtual.h"

#include <string.h>

/* Chunk dimensions of a chunked dataset, else ones. */
static void chunk_of(hid_t dataset, int rank, hsize_t chunk[32]) {
  for (int i = 0; i < rank; i++) chunk[i] = 1;
  hid_t properties = dataset < 0 ? -1 : H5Dget_create_plist(dataset);
  if (properties >= 0 && H5Pget_layout(properties) == H5D_CHUNKED && H5Pget_chunk(properties, rank, chunk) < 0)
    for (int i = 0; i < rank; i++) chunk[i] = 1;
  annb_h5_close(&properties);
}

static uint64_t product(const hsize_t *x, int n) {
  uint64_t p = 1;
  for (int i = 0; i < n; i++)
    if (__builtin_mul_overflow(p, (uint64_t)x[i], &p)) return UINT64_MAX;
  return p;
}

bool annb_pieces_begin(annb_pieces *pieces, hid_t space, hid_t dataset, uint64_t max_elements) {
  memset(pieces, 0, sizeof *pieces);
  H5S_class_t class = H5Sget_simple_extent_type(space);
  if (class == H5S_NO_CLASS) return false;
  pieces->rank = class == H5S_SIMPLE ? H5Sget_simple_extent_dims(space, pieces->dims, NULL) : 0;
  if (pieces->rank < 0) return false;
  pieces->done = class == H5S_NULL;
  hsize_t chunk[32];
  chunk_of(dataset, pieces->rank, chunk);
  for (int i = 0; i < pieces->rank; i++) {
    if (!pieces->dims[i]) pieces->done = true;
    if (chunk[i] > pieces->dims[i]) chunk[i] = pieces->dims[i];
  }
  if (max_elements == 0) max_elements = 1;
  bool whole_chunks = product(chunk, pieces->rank) <= max_elements;
  /* grow from the last dimension as long as it fits */
  for (int i = 0; i < pieces->rank; i++) pieces->block[i] = whole_chunks ? chunk[i] : 1;
  for (int i = pieces->rank - 1; i >= 0 && !pieces->done; i--) {
    hsize_t unit = pieces->block[i];
    uint64_t rest = product(pieces->block, pieces->rank) / unit, fits = max_elements / rest;
    hsize_t most = fits / unit * unit;
    pieces->block[i] = most >= pieces->dims[i] ? pieces->dims[i] : most;
    if (pieces->block[i] < pieces->dims[i]) break;
  }
  return true;
}

bool annb_pieces_next(annb_pieces *pieces) {
  if (pieces->done) return false;
  int i = pieces->rank - 1;
  if (pieces->started) {
    for (; i >= 0; i--) {
      pieces->start[i] += pieces->count[i];
      if (pieces->start[i] < pieces->dims[i]) break;
      pieces->start[i] = 0;
    }
    if (i < 0) {
      pieces->done = true;
      return false;
    }
  }
  pieces->started = true;
  pieces->n = 1;
  for (i = 0; i < pieces->rank; i++) {
    hsize_t left = pieces->dims[i] - pieces->start[i];
    pieces->count[i] = left < pieces->block[i] ? left : pieces->block[i];
    pieces->n *= pieces->count[i];
  }
  return true;
}

/* HDF5 clears a conversion buffer of 1 MiB for each transfer of strings unless told of a smaller one. */
static hid_t transfer(const annb_pieces *p, hid_t type) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(p->n, (uint64_t)H5Tget_size(type), &bytes) || bytes >= (UINT64_C(1) << 20)) return H5P_DEFAULT;
  hid_t properties = H5Pcreate(H5P_DATASET_XFER);
  if (properties >= 0) H5Pset_buffer(properties, bytes < 1024 ? 1024 : bytes, NULL, NULL);
  return properties < 0 ? H5P_DEFAULT : properties;
}

static herr_t move(const annb_pieces *p, hid_t dataset, hid_t type, void *out, const void *in) {
  hid_t space = H5Dget_space(dataset), memory = p->rank ? H5Screate_simple(p->rank, p->count, NULL) : H5Screate(H5S_SCALAR);
  hid_t properties = transfer(p, type);
  herr_t r = space < 0 || memory < 0 ? -1 : 0;
  if (r >= 0 && p->rank) r = H5Sselect_hyperslab(space, H5S_SELECT_SET, p->start, NULL, p->count, NULL);
  if (r >= 0) r = out ? H5Dread(dataset, type, memory, space, properties, out) : H5Dwrite(dataset, type, memory, space, properties, in);
  if (properties != H5P_DEFAULT) annb_h5_close(&properties);
  annb_h5_close(&space);
  annb_h5_close(&memory);
  return r;
}

/* Why a read failed, when it is for want of a filter. */
static unsigned missing_filter(hid_t properties) {
  unsigned missing = 0;
  int n = properties < 0 ? 0 : H5Pget_nfilters(properties);
  for (int i = 0; i < n && !missing; i++) {
    unsigned flags, config;
    size_t n_values = 0;
    H5Z_filter_t id = H5Pget_filter2(properties, (unsigned)i, &flags, &n_values, NULL, 0, NULL, &config);
    if (id > 0 && H5Zfilter_avail(id) <= 0) missing = (unsigned)id;
  }
  return missing;
}

annb_status annb_pieces_read(const annb_pieces *pieces, hid_t dataset, const char *file, const char *object, hid_t memory_type, void *out,
                             annb_error *err) {
  if (move(pieces, dataset, memory_type, out, NULL) >= 0) return ANNB_OK;
  annb_status s = annb_h5_fail(err, ANNB_EINPUT, file, object, "its values cannot be read");
  hid_t properties = H5Dget_create_plist(dataset);
  unsigned filter = missing_filter(properties);
  H5Eclear2(H5E_DEFAULT);
  if (!filter && annb_external_check(file, object, properties, err)) s = ANNB_EINPUT; /* and says so */
  annb_h5_close(&properties);
  if (!filter) return s;
  return annb_plugins_fail(file, object, (int)filter, NULL, err);
}

annb_status annb_pieces_write(const annb_pieces *pieces, hid_t dataset, const char *file, const char *object, hid_t memory_type,
                              const void *data, annb_error *err) {
  if (move(pieces, dataset, memory_type, NULL, data) >= 0) return ANNB_OK;
  return annb_h5_fail(err, ANNB_EIO, file, object, "its values cannot be written");
}
