#include "anywhere.h"

#include "../../store/cursor.h"
#include "../../store/error.h"
#include "../../store/io.h"
#include "source_driver.h"

#include <stdlib.h>

struct annb_anywhere {
  const annb_values *v;
  int fd; /* HDF5's own */
  uint64_t size, height, n_chunks; /* bytes of a value; values of a chunk, 0 when they are contiguous */
  uint64_t *addresses;             /* of chunks */
};

/* ---- opening ---- */

/* HDF5's descriptor of the file that holds the chunks, all of which are found and lie inside it. */
static bool locate(annb_anywhere *a, hid_t file, uint64_t bytes) {
  uint64_t file_size, end;
  void *chunk = malloc(bytes);
  a->fd = annb_source_driver_fd(file);
  bool ok = chunk && a->fd >= 0 && !annb_io_fd_size(a->fd, a->v->file, &file_size, NULL) &&
            annb_source_driver_locate(file, a->v->dataset, a->height, bytes, chunk, a->n_chunks, a->addresses);
  for (uint64_t i = 0; i < a->n_chunks && ok; i++) ok = annb_add(a->addresses[i], bytes, &end) && end <= file_size;
  free(chunk);
  return ok;
}

static annb_status find_chunks(annb_anywhere *a, uint64_t memory, bool *found, annb_error *err) {
  hid_t creation = H5Dget_create_plist(a->v->dataset);
  const bool plain = H5Pget_layout(creation) == H5D_CHUNKED && H5Pget_nfilters(creation) == 0;
  uint64_t width, bytes;
  annb_h5_close(&creation);
  annb_values_chunk(a->v, &a->height, &width);
  if (!plain || !a->height || !a->v->n || !annb_mul(a->height, a->size, &bytes) || bytes > memory) return ANNB_OK;
  a->n_chunks = (a->v->n - 1) / a->height + 1;
  if (a->n_chunks > memory / sizeof *a->addresses) return ANNB_OK;
  a->addresses = malloc(a->n_chunks * sizeof *a->addresses);
  if (!a->addresses) return annb_fail_memory(err);
  hid_t file = H5Iget_file_id(a->v->dataset);
  *found = locate(a, file, bytes);
  annb_h5_close(&file);
  return ANNB_OK;
}

annb_status annb_anywhere_open(const annb_values *v, hid_t memory_type, uint64_t memory, annb_anywhere **out, annb_error *err) {
  const H5T_class_t class = H5Tget_class(v->type);
  *out = NULL;
  if (v->rank != 1 || v->field || (class != H5T_INTEGER && class != H5T_FLOAT && class != H5T_ENUM)) return ANNB_OK;
  if (H5Tequal(v->type, memory_type) <= 0) return ANNB_OK;
  annb_anywhere *a = calloc(1, sizeof *a);
  if (!a) return annb_fail_memory(err);
  a->v = v;
  a->size = H5Tget_size(memory_type);
  bool found = v->direct && annb_direct_is_contiguous(v->direct);
  annb_status s = v->direct ? ANNB_OK : find_chunks(a, memory, &found, err);
  if (!s && found) *out = a;
  else annb_anywhere_close(a);
  return s;
}

void annb_anywhere_close(annb_anywhere *a) {
  if (!a) return;
  free(a->addresses);
  free(a);
}

/* ---- reading ---- */

/* The place of value `first` in the file, and how many of `n` stand there side by side. */
static uint64_t find(const annb_anywhere *a, uint64_t first, uint64_t n, uint64_t *address) {
  const uint64_t number = first / a->height, bytes = a->height * a->size;
  uint64_t last = number, there = a->height - first % a->height;
  *address = a->addresses[number] + first % a->height * a->size;
  for (; there < n && a->addresses[last + 1] == a->addresses[last] + bytes; last++) there += a->height;
  return there < n ? there : n;
}

annb_status annb_anywhere_read(const annb_anywhere *a, uint64_t first, uint64_t n, void *out, annb_error *err) {
  if (!a->addresses) return annb_direct_read_at(a->v->direct, first, n, out, err);
  uint64_t address;
  for (uint64_t done = 0, k; done < n; done += k) {
    k = find(a, first + done, n - done, &address);
    if (annb_io_pread(a->fd, a->v->file, (uint8_t *)out + done * a->size, k * a->size, address, NULL))
      return annb_h5_say_cut(err, a->v->file, a->v->object);
  }
  return ANNB_OK;
}

void annb_anywhere_will_need(const annb_anywhere *a, uint64_t first, uint64_t n) {
  if (!a->addresses) annb_direct_will_need(a->v->direct, first, n);
  uint64_t address;
  for (uint64_t done = 0, k; a->addresses && done < n; done += k) {
    k = find(a, first + done, n - done, &address);
    annb_io_will_need_fd(a->fd, address, k * a->size);
  }
}
