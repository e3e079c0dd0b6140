#include "../sidecar/files.h"
#include "sink.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <errno.h>
#include <libdeflate.h>
#include <string.h>
#include <unistd.h>

#define MOST_CHUNK (UINT64_C(64) << 20) /* bytes */

/* ---- opening ---- */

/* The filters of a dataset, when they are none, or shuffle and gzip in this order, or one of them. */
static bool read_filters(hid_t properties, annb_sink *sink) {
  int n = H5Pget_nfilters(properties);
  for (int i = 0; i < n; i++) {
    unsigned flags, values[8], config;
    size_t n_values = 8;
    H5Z_filter_t id = H5Pget_filter2(properties, (unsigned)i, &flags, &n_values, values, 0, NULL, &config);
    if (id == H5Z_FILTER_SHUFFLE && !sink->shuffle && !sink->level) sink->shuffle = true;
    else if (id == H5Z_FILTER_DEFLATE && !sink->level && n_values >= 1 && values[0] >= 1 && values[0] <= 9) sink->level = (int)values[0];
    else return false;
  }
  return n >= 0;
}

/* Where the values of a contiguous dataset are: HDF5 allots them with the first write. A user block would move them. */
static bool find_place(annb_sink *sink, hid_t file) {
  static const uint64_t zero;
  const annb_target *t = sink->target;
  sink->written = annb_driver_written(file);
  annb_written_release(sink->written); /* the open file holds it too */
  if (!sink->written || annb_file_user_block_size(file)) return false;
  if (annb_h5_write_rows(t->dataset, sink->file, t->path, t->memory, 0, 1, &zero, NULL) || H5Dflush(t->dataset) < 0) return false;
  haddr_t offset = H5Dget_offset(t->dataset);
  sink->offset = offset;
  return offset != HADDR_UNDEF;
}

static bool same_bytes(hid_t type, hid_t memory, uint32_t element) {
  if (!element) return H5Tequal(type, memory) > 0;
  return H5Tget_class(type) == H5T_INTEGER && annb_h5_is_integer(type) && (H5Tget_order(type) == H5T_ORDER_LE || H5Tget_size(type) == 1) &&
         H5Tget_precision(type) == 8 * H5Tget_size(type);
}

static bool open_chunks(annb_sink *sink, hid_t properties) {
  hsize_t chunk;
  sink->kind = ANNB_SINK_CHUNKS;
  if (H5Pget_chunk(properties, 1, &chunk) != 1 || !chunk || chunk > MOST_CHUNK / sink->size) return false;
  sink->chunk = chunk;
  return read_filters(properties, sink);
}

static bool open_place(annb_sink *sink, hid_t properties, hid_t file) {
  sink->kind = ANNB_SINK_PLACE;
  return H5Pget_external_count(properties) == 0 && find_place(sink, file);
}

/* file < 0: no contiguous ones. */
static bool open_sink(annb_sink *sink, hid_t file, uint32_t element) {
  const annb_target *target = sink->target;
  hid_t type = H5Dget_type(target->dataset), properties = H5Dget_create_plist(target->dataset);
  H5D_layout_t layout = properties < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(properties);
  bool opened = type >= 0 && same_bytes(type, target->memory, element);
  sink->size = opened ? (uint32_t)H5Tget_size(type) : 0;
  if (opened && layout == H5D_CHUNKED) opened = open_chunks(sink, properties);
  else opened = opened && layout == H5D_CONTIGUOUS && file >= 0 && open_place(sink, properties, file);
  annb_h5_close(&properties);
  annb_h5_close(&type);
  H5Eclear2(H5E_DEFAULT);
  return opened;
}

bool annb_sink_open(annb_sink *sink, const annb_target *target, hid_t file, const char *file_name, uint32_t element) {
  *sink = (annb_sink){.file = file_name, .target = target, .length = target->length};
  if (target->dataset < 0 || (!target->length && !target->grows)) return true; /* nothing to do */
  return !target->tail && !target->grows && open_sink(sink, file, element);
}

bool annb_sink_open_chunks(annb_sink *sink, const annb_target *target, const char *file_name, uint32_t element) {
  *sink = (annb_sink){.file = file_name, .target = target, .length = target->length};
  if (target->dataset < 0 || target->tail || (!target->length && !target->grows)) return false;
  return open_sink(sink, -1, element);
}

/* ---- by place ---- */

annb_status annb_sink_write(const annb_sink *sink, uint64_t first, uint64_t n, const void *elements, annb_error *err) {
  const uint8_t *from = elements;
  uint64_t at = sink->offset + first * sink->size, left = n * sink->size;
  while (left) {
    errno = 0;
    ssize_t written = pwrite(sink->written->fd, from, left > (1u << 30) ? 1u << 30 : left, (off_t)at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      if (!errno) errno = EIO;
      return annb_fail_errno(err, sink->file, "write");
    }
    from += written;
    at += (uint64_t)written;
    left -= (uint64_t)written;
    annb_written_more(sink->written, (size_t)written);
  }
  return ANNB_OK;
}

/* ---- by chunks ---- */

/* For each level of zlib the lowest of libdeflate that makes arrays of counts about as small (within half a percent), shuffled or not. */
void *annb_deflater_open(int level) {
  static const int levels[] = {1, 1, 1, 2, 2, 3, 4, 7, 8, 9};
  return libdeflate_alloc_compressor(levels[level]);
}
void annb_deflater_close(void *deflater) {
  if (deflater) libdeflate_free_compressor(deflater);
}

size_t annb_sink_room(const annb_sink *sink) {
  size_t bytes = (size_t)sink->chunk * sink->size;
  return sink->level ? libdeflate_zlib_compress_bound(NULL, bytes) : bytes;
}

/* Plane j has byte j of every element. */
static void shuffle(const uint8_t *in, size_t n, uint32_t size, uint8_t *out) {
  if (size == 4) {
    for (size_t i = 0; i < n; i++)
      for (uint32_t j = 0; j < 4; j++) out[j * n + i] = in[4 * i + j];
    return;
  }
  for (size_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < size; j++) out[j * n + i] = in[(size_t)size * i + j];
}

annb_status annb_sink_encode(const annb_sink *sink, void *deflater, const uint8_t *elements, uint8_t *work, uint8_t *out, size_t *size,
                             annb_error *err) {
  const size_t bytes = (size_t)sink->chunk * sink->size;
  if (sink->shuffle && sink->size > 1) {
    shuffle(elements, (size_t)sink->chunk, sink->size, sink->level ? work : out);
    elements = work;
  } else if (!sink->level) {
    memcpy(out, elements, bytes);
  }
  *size = bytes;
  if (!sink->level) return ANNB_OK;
  *size = libdeflate_zlib_compress(deflater, elements, bytes, out, annb_sink_room(sink));
  return *size ? ANNB_OK : annb_fail(err, ANNB_EIO, sink->file, "a chunk cannot be compressed");
}

annb_status annb_sink_put(const annb_sink *sink, uint64_t number, const uint8_t *bytes, size_t size, annb_error *err) {
  const hsize_t at = number * sink->chunk;
  if (H5Dwrite_chunk(sink->target->dataset, H5P_DEFAULT, 0, &at, size, bytes) >= 0) return ANNB_OK;
  return annb_h5_fail(err, ANNB_EIO, sink->file, sink->target->path, "writing of a chunk failed");
}
