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
  hsize_t dims[32], chunk[32], end; /* end: rows from there on are left out */
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
  c->end = c->dims[0];
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
  if (H5Dget_chunk_storage_size(c->dataset, at, &n) < 0 || n == 0) return ANNB_OK; /* HDF5 will tell */
  if (n > 2 * c->bytes + 65536)
    return annb_h5_fail(err, ANNB_EINPUT, c->file, c->object, "the chunk of row %llu states %llu bytes: it is damaged",
                        (unsigned long long)at[0], (unsigned long long)n);
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

/* The next place of the grid of chunks, up to c->end; false after the last. */
static bool step(const checking *c, hsize_t *at) {
  for (int i = c->rank - 1; i >= 0; i--) {
    at[i] += c->chunk[i];
    if (at[i] < (i ? c->dims[i] : c->end)) return true;
    at[i] = 0;
  }
  return false;
}

static annb_status check_grid(checking *c, uint64_t first, annb_error *err) {
  hsize_t at[33] = {first / c->chunk[0] * c->chunk[0]};
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

/* Chunks that are listed, and places of the grid. */
static hsize_t count_chunks(const checking *c, hid_t space, uint64_t *places) {
  hsize_t n = 0;
  *places = 1;
  if (H5Dget_num_chunks(c->dataset, space, &n) < 0) n = 0; /* H5S_ALL is not taken here */
  for (int i = 0; i < c->rank && n; i++)
    if (!annb_mul(*places, c->dims[i] / c->chunk[i] + (c->dims[i] % c->chunk[i] > 0), places)) *places = UINT64_MAX;
  return n;
}

static annb_status check_all(checking *c, annb_error *err) {
  uint64_t places;
  hid_t space = H5Dget_space(c->dataset);
  const hsize_t n = count_chunks(c, space, &places);
  annb_status s = places / 2 > n ? check_listed(c, space, n, err) : n && places ? check_grid(c, 0, err) : ANNB_OK;
  annb_h5_close(&space);
  return s;
}

/* ---- places ---- */

static annb_status misplaced(const checking *c, annb_error *err) {
  return annb_h5_fail(err, ANNB_EINPUT, c->file, c->object, "a chunk is listed at a place where none can be: the list is damaged");
}

static bool is_there(const checking *c, const hsize_t *at) {
  hsize_t size = 0;
  return H5Dget_chunk_storage_size(c->dataset, at, &size) >= 0 && size > 0;
}

/* Every chunk of the list is found where it is looked for. */
static annb_status place_grid(const checking *c, hsize_t n, annb_error *err) {
  hsize_t at[33] = {0}, found = is_there(c, at);
  while (found < n && step(c, at)) found += is_there(c, at);
  return found < n ? misplaced(c, err) : ANNB_OK;
}

static annb_status place_listed(const checking *c, hid_t space, hsize_t n, annb_error *err) {
  for (hsize_t i = 0; i < n && i < MOST_LISTED; i++) {
    hsize_t at[33], size;
    haddr_t address;
    unsigned skipped;
    if (H5Dget_chunk_info(c->dataset, space, i, at, &skipped, &address, &size) < 0) continue;
    for (int k = 0; k < c->rank; k++)
      if (at[k] >= c->dims[k] || at[k] % c->chunk[k]) return misplaced(c, err);
    if (!is_there(c, at)) return misplaced(c, err);
  }
  return ANNB_OK;
}

annb_status annb_chunks_placed(hid_t dataset, const char *file, const char *object, annb_error *err) {
  checking c = {.dataset = dataset, .file = file, .object = object};
  annb_status s = ANNB_OK;
  bool null = false;
  uint64_t places;
  hid_t creation = H5Dget_create_plist(dataset), space = H5Dget_space(dataset);
  c.rank = annb_h5_extent(dataset, c.dims, &null);
  c.end = c.dims[0];
  if (c.rank > 0 && !null && H5Pget_layout(creation) == H5D_CHUNKED && H5Pget_chunk(creation, 32, c.chunk) == c.rank) {
    const hsize_t n = count_chunks(&c, space, &places);
    s = n == 0 ? ANNB_OK : places < n ? misplaced(&c, err) : places / 2 > n ? place_listed(&c, space, n, err) : place_grid(&c, n, err);
  }
  annb_h5_close(&space);
  annb_h5_close(&creation);
  H5Eclear2(H5E_DEFAULT);
  return s;
}

/* ---- contents ---- */

static void release(checking *c) {
  annb_unfilter_free(&c->unfilter);
  free(c->raw);
  free(c->out);
  H5Eclear2(H5E_DEFAULT);
}

annb_status annb_chunks_check(hid_t dataset, const char *file, const char *object, annb_error *err) {
  checking c = {.dataset = dataset, .file = file, .object = object};
  if (!examine(&c)) return ANNB_OK;
  c.out = malloc(c.bytes ? c.bytes : 1);
  annb_status s = c.out ? check_all(&c, err) : annb_fail_memory(err);
  release(&c);
  return s;
}

annb_status annb_chunks_check_rows(hid_t dataset, const char *file, const char *object, uint64_t first, uint64_t n, annb_error *err) {
  checking c = {.dataset = dataset, .file = file, .object = object};
  if (n == 0 || !examine(&c) || first >= c.dims[0]) return ANNB_OK;
  if (n < c.dims[0] - first) c.end = first + n;
  c.out = malloc(c.bytes ? c.bytes : 1);
  annb_status s = c.out ? check_grid(&c, first, err) : annb_fail_memory(err);
  release(&c);
  return s;
}
