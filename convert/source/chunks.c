#include "chunks.h"

#include "../../store/cursor.h"
#include "../../store/error.h"
#include "h5.h"
#include "unfilter.h"

#include <stdlib.h>

enum { MOST_LISTED = 4096 /* finding chunk i takes HDF5 i steps */ };

typedef struct checking {
  hid_t dataset;
  const char *file, *object;
  annb_filters filters;
  annb_unfilter unfilter;
  int rank;
  hsize_t dims[32], chunk[32];
  uint64_t bytes; /* of a chunk */
  uint8_t *raw, *out;
  uint64_t raw_room;
} checking;

/* Bytes that a value takes in the file, 0 = not known: types of which a part is kept elsewhere. */
static size_t size_in_file(hid_t type, size_t address) {
  size_t size = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_STRING: return H5Tis_variable_str(type) > 0 ? 2 * sizeof(uint32_t) + address : size;
    case H5T_INTEGER:
    case H5T_FLOAT:
    case H5T_ENUM: return size;
    case H5T_COMPOUND: break;
    default: return 0;
  }
  for (unsigned i = 0; i < (unsigned)H5Tget_nmembers(type); i++) {
    hid_t member = H5Tget_member_type(type, i);
    if (!size_in_file(member, address) || (H5Tget_class(member) == H5T_STRING && H5Tis_variable_str(member) > 0)) size = 0;
    annb_h5_close(&member);
  }
  return size;
}

static bool has_gzip(const annb_filters *filters) {
  for (int i = 0; i < filters->n; i++)
    if (filters->id[i] == H5Z_FILTER_DEFLATE) return true;
  return false;
}

static bool examine(checking *c) {
  bool null = false;
  unsigned options = 1;
  size_t address = 8, lengths;
  hid_t creation = H5Dget_create_plist(c->dataset), type = H5Dget_type(c->dataset), file = H5Iget_file_id(c->dataset);
  hid_t of_file = H5Fget_create_plist(file);
  H5Pget_sizes(of_file, &address, &lengths);
  c->rank = annb_h5_extent(c->dataset, c->dims, &null);
  c->bytes = size_in_file(type, address);
  bool ok = c->rank > 0 && !null && c->bytes && H5Pget_layout(creation) == H5D_CHUNKED && H5Pget_chunk(creation, 32, c->chunk) == c->rank &&
            H5Pget_chunk_opts(creation, &options) >= 0 && !options && annb_filters_read(creation, &c->filters) && has_gzip(&c->filters);
  for (int i = 0; i < c->rank && ok; i++) ok = annb_mul(c->bytes, c->chunk[i], &c->bytes);
  annb_h5_close(&of_file);
  annb_h5_close(&file);
  annb_h5_close(&type);
  annb_h5_close(&creation);
  H5Eclear2(H5E_DEFAULT);
  return ok && c->bytes <= UINT32_MAX;
}

static annb_status check_chunk(checking *c, const hsize_t *at, annb_error *err) {
  hsize_t n = 0;
  uint32_t skipped = 0;
  if (H5Dget_chunk_storage_size(c->dataset, at, &n) < 0 || n == 0 || n > 2 * c->bytes + 65536) return ANNB_OK; /* HDF5 will tell */
  if (n > c->raw_room) {
    free(c->raw);
    c->raw = malloc(n);
    c->raw_room = c->raw ? n : 0;
    if (!c->raw) return annb_fail_memory(err);
  }
  if (H5Dread_chunk(c->dataset, H5P_DEFAULT, at, &skipped, c->raw) < 0) return ANNB_OK;
  annb_unfilter_result r = annb_unfilter_chunk(&c->unfilter, &c->filters, skipped, c->raw, n, c->out, c->bytes);
  if (r == ANNB_UNFILTER_OK) return ANNB_OK;
  if (r == ANNB_UNFILTER_MEMORY) return annb_fail_memory(err);
  return annb_h5_fail(err, ANNB_EINPUT, c->file, c->object, "the chunk of row %llu: its %s", (unsigned long long)at[0],
                      annb_unfilter_text(r));
}

/* The next place of the grid of chunks; false after the last. */
static bool step(const checking *c, hsize_t *at) {
  for (int i = c->rank - 1; i >= 0; i--) {
    at[i] += c->chunk[i];
    if (at[i] < c->dims[i]) return true;
    at[i] = 0;
  }
  return false;
}

static annb_status check_grid(checking *c, annb_error *err) {
  hsize_t at[33] = {0};
  annb_status s = check_chunk(c, at, err);
  while (!s && step(c, at)) s = check_chunk(c, at, err);
  return s;
}

static annb_status check_listed(checking *c, hid_t space, hsize_t n, annb_error *err) {
  annb_status s = ANNB_OK;
  for (hsize_t i = 0; i < n && i < MOST_LISTED && !s; i++) {
    hsize_t at[33], size;
    haddr_t address;
    unsigned skipped;
    if (H5Dget_chunk_info(c->dataset, space, i, at, &skipped, &address, &size) >= 0) s = check_chunk(c, at, err);
  }
  return s;
}

static annb_status check_all(checking *c, annb_error *err) {
  hsize_t n = 0;
  uint64_t places = 1;
  hid_t space = H5Dget_space(c->dataset); /* H5S_ALL is not taken here */
  if (H5Dget_num_chunks(c->dataset, space, &n) < 0) n = 0;
  for (int i = 0; i < c->rank && n; i++)
    if (!annb_mul(places, (c->dims[i] - 1) / c->chunk[i] + 1, &places)) places = UINT64_MAX;
  annb_status s = places / 2 > n ? check_listed(c, space, n, err) : n ? check_grid(c, err) : ANNB_OK;
  annb_h5_close(&space);
  return s;
}

annb_status annb_chunks_check(hid_t dataset, const char *file, const char *object, annb_error *err) {
  checking c = {.dataset = dataset, .file = file, .object = object};
  if (!examine(&c)) return ANNB_OK;
  c.out = malloc(c.bytes ? c.bytes : 1);
  annb_status s = c.out ? check_all(&c, err) : annb_fail_memory(err);
  annb_unfilter_free(&c.unfilter);
  free(c.raw);
  free(c.out);
  H5Eclear2(H5E_DEFAULT);
  return s;
}
