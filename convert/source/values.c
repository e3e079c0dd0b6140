#include "values.h"

#include "../../store/cursor.h"
#include "../../store/error.h"
#include "chunks.h"
#include "plugins.h"
#include "virtual.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_CACHE (UINT64_C(1) << 20) /* HDF5's own chunk cache */

/* ---- opening ---- */

static annb_status check_filters(const annb_values *v, hid_t creation, annb_error *err) {
  int n = H5Pget_nfilters(creation);
  if (n <= 0 || H5Dget_storage_size(v->dataset) == 0) return ANNB_OK;
  for (unsigned i = 0; i < (unsigned)n; i++) {
    unsigned flags, config;
    size_t n_values = 0;
    char name[64] = "";
    H5Z_filter_t filter = H5Pget_filter2(creation, i, &flags, &n_values, NULL, sizeof name, name, &config);
    if (H5Zfilter_avail(filter) > 0) continue;
    H5Eclear2(H5E_DEFAULT);
    return annb_plugins_fail(v->file, v->object, filter, name, err);
  }
  return ANNB_OK;
}

/* Bytes of a chunk, or 0 when it is not chunked; `filtered` chunks are read whole whatever is asked of them. */
static uint64_t chunk_bytes(const annb_values *v, hid_t creation, bool *filtered) {
  hsize_t chunk[32];
  *filtered = false;
  if (H5Pget_layout(creation) != H5D_CHUNKED) return 0;
  hid_t whole = H5Dget_type(v->dataset); /* of a field's record too */
  uint64_t bytes = H5Tget_size(whole);
  annb_h5_close(&whole);
  int rank = H5Pget_chunk(creation, 32, chunk);
  for (int i = 0; i < rank; i++)
    if (!annb_mul(bytes, chunk[i], &bytes)) bytes = UINT64_MAX;
  *filtered = H5Pget_nfilters(creation) > 0;
  return bytes;
}

static annb_status check_chunk(const annb_values *v, uint64_t bytes, uint64_t memory, annb_error *err) {
  if (bytes <= memory / 4) return ANNB_OK;
  return annb_h5_fail(err, ANNB_ENOMEM, v->file, v->object,
                      "has compressed chunks of %llu bytes; give at least %llu MiB of memory to read it", (unsigned long long)bytes,
                      (unsigned long long)(4 * (bytes >> 20) + 4));
}

static annb_status select_field(annb_values *v, const char *field, annb_error *err) {
  if (!field) return ANNB_OK;
  int member = H5Tget_class(v->type) == H5T_COMPOUND ? H5Tget_member_index(v->type, field) : -1;
  if (member < 0) return annb_h5_fail(err, ANNB_EINPUT, v->file, v->object, "has no field '%s'", field);
  hid_t type = H5Tget_member_type(v->type, (unsigned)member);
  annb_h5_close(&v->type);
  v->type = type;
  v->field = strdup(field);
  return v->field ? ANNB_OK : annb_fail_memory(err);
}

static annb_status adopt(annb_values *v, const char *file, hid_t dataset, const char *field, const char *object, uint64_t memory,
                         annb_error *err) {
  *v = (annb_values){.file = file, .object = strdup(object), .dataset = dataset, .type = H5Dget_type(dataset)};
  bool null = false, filtered = false;
  v->rank = annb_h5_extent(dataset, v->dims, &null);
  v->n = v->rank > 0 ? v->dims[0] : 1;
  annb_status s = v->object ? ANNB_OK : annb_fail_memory(err);
  if (!s && (v->rank < 0 || null || v->type < 0)) s = annb_h5_fail(err, ANNB_EINPUT, file, object, "is a dataset without values");
  if (!s) s = select_field(v, field, err);
  hid_t creation = s ? -1 : H5Dget_create_plist(dataset);
  if (!s) s = check_filters(v, creation, err);
  if (!s) s = annb_virtual_check(dataset, file, object, creation, err);
  if (!s) s = annb_external_check(file, object, creation, err);
  uint64_t bytes = s ? 0 : chunk_bytes(v, creation, &filtered);
  if (!s && filtered) s = check_chunk(v, bytes, memory, err);
  annb_h5_close(&creation);
  if (s) annb_values_close(v);
  return s;
}

/* With a cache that holds a chunk, so that a chunk at the border of two pieces is decompressed once; and raw data in other files is
 * looked for beside the source, not in the current directory. */
static annb_status reopen(annb_values *v, hid_t parent, const char *name, uint64_t cache, annb_error *err) {
  hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
  if (cache > DEFAULT_CACHE) H5Pset_chunk_cache(access, 521, cache, 1.0);
  H5Pset_efile_prefix(access, "${ORIGIN}");
  annb_h5_close(&v->dataset); /* both are fixed by the first opening */
  v->dataset = H5Dopen2(parent, name, access);
  annb_h5_close(&access);
  return v->dataset < 0 ? annb_h5_fail(err, ANNB_EINPUT, v->file, v->object, "cannot be opened") : ANNB_OK;
}

/* HDF5 takes chunks that are not whole, or not where they belong, for values. */
static annb_status check_chunks(const annb_values *v, annb_error *err) {
  annb_status s = annb_chunks_placed(v->dataset, v->file, v->object, err);
  return s ? s : annb_chunks_check(v->dataset, v->file, v->object, err);
}

annb_status annb_values_adopt(annb_values *v, const char *file, hid_t dataset, const char *field, const char *object, uint64_t memory,
                              annb_error *err) {
  annb_status s = adopt(v, file, dataset, field, object, memory, err);
  if (!s) s = check_chunks(v, err);
  if (s) annb_values_close(v);
  return s;
}

annb_status annb_values_open(annb_values *v, const char *file, hid_t parent, const char *name, const char *field, const char *object,
                             uint64_t memory, annb_error *err) {
  *v = (annb_values)ANNB_VALUES_NONE;
  H5O_info_t info;
  if (!annb_h5_exists(parent, name)) return annb_h5_fail(err, ANNB_EINPUT, file, object, "is missing");
  bool known = H5Oget_info_by_name(parent, name, &info, H5P_DEFAULT) >= 0;
  if (known && info.type != H5O_TYPE_DATASET) return annb_h5_fail(err, ANNB_EINPUT, file, object, "is not a dataset");
  hid_t dataset = known ? H5Dopen2(parent, name, H5P_DEFAULT) : -1;
  if (dataset < 0)
    return annb_h5_fail(err, ANNB_EINPUT, file, object, "cannot be opened: it is damaged, or was written by a newer HDF5 than this one");
  annb_status s = adopt(v, file, dataset, field, object, memory, err);
  if (s) return s;
  bool filtered;
  hid_t creation = H5Dget_create_plist(v->dataset);
  uint64_t bytes = chunk_bytes(v, creation, &filtered);
  if ((filtered && bytes > DEFAULT_CACHE) || H5Pget_external_count(creation) > 0) s = reopen(v, parent, name, filtered ? bytes : 0, err);
  annb_h5_close(&creation);
  if (!s && !field) s = annb_direct_open(v->dataset, file, v->object, memory, &v->direct, err);
  if (!s && !v->direct) s = check_chunks(v, err);
  if (!s && v->direct && !(v->looked = calloc(1, sizeof *v->looked))) s = annb_fail_memory(err);
  if (s) annb_values_close(v);
  return s;
}

void annb_values_set_threads(const annb_values *v, uint32_t n) {
  if (v->direct) annb_direct_set_threads(v->direct, n);
}

void annb_values_save(const annb_values *v, bool save) {
  if (v->direct) annb_direct_save(v->direct, save);
}

annb_status annb_values_prefetch(const annb_values *v, uint32_t n_ranges, const uint64_t *firsts, uint64_t n, annb_error *err) {
  return v->direct ? annb_direct_prefetch(v->direct, n_ranges, firsts, n, err) : ANNB_OK;
}

void annb_values_close(annb_values *v) {
  annb_direct_close(v->direct);
  free(v->looked);
  annb_h5_close(&v->dataset);
  annb_h5_close(&v->type);
  free(v->object);
  free(v->field);
  *v = (annb_values)ANNB_VALUES_NONE;
}

void annb_values_chunk(const annb_values *v, uint64_t *height, uint64_t *width) {
  hsize_t chunk[32] = {0};
  *height = *width = 0;
  hid_t creation = H5Dget_create_plist(v->dataset);
  if (H5Pget_layout(creation) == H5D_CHUNKED && H5Pget_chunk(creation, 32, chunk) > 0) {
    *height = chunk[0];
    *width = v->rank == 2 ? chunk[1] : 1;
  }
  annb_h5_close(&creation);
}

/* ---- reading ---- */

/* The type in memory of a record with this field alone; HDF5 then converts nothing else. */
static hid_t field_type(const annb_values *v, hid_t memory_type) {
  hid_t type = H5Tcreate(H5T_COMPOUND, H5Tget_size(memory_type));
  H5Tinsert(type, v->field, 0, memory_type);
  return type;
}

static herr_t read_selection(const annb_values *v, hid_t memory_type, hid_t transfer, const hsize_t *start, const hsize_t *count,
                             void *out) {
  hid_t type = v->field ? field_type(v, memory_type) : memory_type, space = H5S_ALL, memory = H5S_ALL;
  herr_t r = 0;
  if (v->rank > 0) {
    space = H5Dget_space(v->dataset);
    memory = H5Screate_simple(v->rank, count, NULL);
    r = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
  }
  if (r >= 0) r = H5Dread(v->dataset, type, memory, space, transfer, out);
  hid_t causes = r < 0 ? H5Eget_current_stack() : -1; /* closing would clear them */
  if (v->rank > 0) {
    annb_h5_close(&space);
    annb_h5_close(&memory);
  }
  if (v->field) annb_h5_close(&type);
  if (causes >= 0) H5Eset_current_stack(causes);
  return r;
}

static annb_status check_rows(const annb_values *v, uint64_t first, uint64_t n, annb_error *err) {
  if (first <= v->n && n <= v->n - first) return ANNB_OK;
  return annb_h5_fail(err, ANNB_EINPUT, v->file, v->object, "has %llu rows; rows up to %llu are needed", (unsigned long long)v->n,
                      (unsigned long long)(first + n));
}

static annb_status read_failed(const annb_values *v, uint64_t first, uint64_t n, annb_error *err) {
  return annb_h5_fail(err, ANNB_EINPUT, v->file, v->object, "values %llu to %llu cannot be read: the file is damaged or incomplete",
                      (unsigned long long)first, (unsigned long long)(first + n - 1));
}

/* The chunks of rows that HDF5 is to read; most reads go on where the one before ended. */
static annb_status look_at(const annb_values *v, uint64_t first, uint64_t n, annb_error *err) {
  annb_looked *l = v->looked;
  const uint64_t end = first + n;
  annb_status s = l->places ? ANNB_OK : annb_chunks_placed(v->dataset, v->file, v->object, err);
  if (s) return s;
  l->places = true;
  if (first < l->first || first > l->end) l->first = l->end = first;
  if (end > l->end) s = annb_chunks_check_rows(v->dataset, v->file, v->object, l->end, end - l->end, err);
  if (!s && end > l->end) l->end = end;
  return s;
}

/* Without HDF5 when that gives the same: no conversion, every chunk written. Otherwise HDF5 will see only what it may. */
static annb_status read_direct(const annb_values *v, hid_t memory_type, uint64_t first, uint64_t n, uint64_t first_col, uint64_t n_cols,
                               void *out, bool *done, annb_error *err) {
  annb_status s = ANNB_OK;
  *done = false;
  if (!v->direct) return ANNB_OK;
  if (H5Tequal(v->type, memory_type) > 0) s = annb_direct_read(v->direct, first, n, first_col, n_cols, out, done, err);
  return s || *done ? s : look_at(v, first, n, err);
}

annb_status annb_values_read(const annb_values *v, hid_t memory_type, uint64_t first, uint64_t n, void *out, annb_error *err) {
  hsize_t start[32] = {first}, count[32];
  annb_status s = check_rows(v, first, n, err);
  bool done = false;
  if (s || n == 0) return s;
  s = read_direct(v, memory_type, first, n, 0, v->rank == 2 ? v->dims[1] : 1, out, &done, err);
  if (s || done) return s;
  memcpy(count, v->dims, sizeof count);
  count[0] = n;
  return read_selection(v, memory_type, H5P_DEFAULT, start, count, out) < 0 ? read_failed(v, first, n, err) : ANNB_OK;
}

annb_status annb_values_read_box(const annb_values *v, hid_t memory_type, uint64_t first, uint64_t n, uint64_t first_col, uint64_t n_cols,
                                 void *out, annb_error *err) {
  hsize_t start[2] = {first, first_col}, count[2] = {n, n_cols};
  annb_status s = check_rows(v, first, n, err);
  bool done = false;
  if (s || n == 0 || n_cols == 0) return s;
  s = read_direct(v, memory_type, first, n, first_col, n_cols, out, &done, err);
  if (s || done) return s;
  return read_selection(v, memory_type, H5P_DEFAULT, start, count, out) < 0 ? read_failed(v, first, n, err) : ANNB_OK;
}

hid_t annb_values_integer_type(hid_t type) {
  hid_t memory = H5Tcopy(type);
  if (H5Tget_size(type) > 1) H5Tset_order(memory, H5T_ORDER_LE);
  return memory;
}

/* In place, from the end: a wide value never overwrites narrow ones that are still to come. */
#define WIDEN(type)                                                                                                                        \
  for (uint64_t i = n; i-- > 0;) {                                                                                                         \
    type x;                                                                                                                                \
    memcpy(&x, (const char *)out + i * sizeof x, sizeof x);                                                                                \
    out[i] = (int64_t)x;                                                                                                                   \
  }

static void widen(int64_t *out, uint64_t n, size_t size, bool is_signed) {
  if (size == 1 && is_signed) WIDEN(int8_t)
  else if (size == 1) WIDEN(uint8_t)
  else if (size == 2 && is_signed) WIDEN(int16_t)
  else if (size == 2) WIDEN(uint16_t)
  else if (size == 4 && is_signed) WIDEN(int32_t)
  else if (size == 4) WIDEN(uint32_t)
  else if (!is_signed)
    for (uint64_t i = 0; i < n; i++)
      if (out[i] < 0) out[i] = INT64_MAX;
}

annb_status annb_values_read_i64(const annb_values *v, uint64_t first, uint64_t n, int64_t *out, annb_error *err) {
  if (!annb_h5_is_integer(v->type)) return annb_h5_fail(err, ANNB_EINPUT, v->file, v->object, "is not of an integer type");
  hid_t memory = annb_values_integer_type(v->type);
  annb_status s = annb_values_read(v, memory, first, n, out, err);
  annb_h5_close(&memory);
  if (!s) widen(out, n, H5Tget_size(v->type), H5Tget_sign(v->type) == H5T_SGN_2);
  return s;
}

void annb_values_integer_text(const annb_values *v, uint64_t row, char text[32]) {
  uint64_t bits = 0;
  bool is_signed = H5Tget_sign(v->type) != H5T_SGN_NONE;
  if (annb_values_read(v, is_signed ? H5T_NATIVE_INT64 : H5T_NATIVE_UINT64, row, 1, &bits, NULL)) snprintf(text, 32, "?");
  else if (is_signed) snprintf(text, 32, "%lld", (long long)(int64_t)bits);
  else snprintf(text, 32, "%llu", (unsigned long long)bits);
}

annb_status annb_values_read_pointers(const annb_values *v, uint64_t first, uint64_t n, uint64_t *out, annb_error *err) {
  bool is_float = H5Tget_class(v->type) == H5T_FLOAT;
  annb_status s =
      is_float ? annb_values_read(v, H5T_NATIVE_DOUBLE, first, n, out, err) : annb_values_read_i64(v, first, n, (int64_t *)out, err);
  for (uint64_t i = 0; i < n && !s; i++) {
    if (is_float) {
      double x;
      memcpy(&x, &out[i], sizeof x);
      if (!(x >= 0 && x <= 9007199254740992.0) || x != (double)(uint64_t)x)
        s = annb_h5_fail(err, ANNB_EINPUT, v->file, v->object, "entry %llu is %g, which is no row pointer", (unsigned long long)(first + i),
                         x);
      else out[i] = (uint64_t)x;
    } else if ((int64_t)out[i] < 0) {
      s = annb_h5_fail(err, ANNB_EINPUT, v->file, v->object,
                       "entry %llu is negative (%lld): a 32-bit overflow of the program that wrote it?", (unsigned long long)(first + i),
                       (long long)out[i]);
    }
  }
  return s;
}

/* ---- strings ---- */

enum { STRING_ROWS = 16384 };
#define STRING_BYTES (UINT64_C(4) << 20)

/* Where HDF5 puts the strings of one piece: no allocation each, and an end to what it may take. */
typedef struct arena {
  char *base;
  size_t size, used;
  bool full;
} arena;

static void *arena_take(size_t size, void *info) {
  arena *a = info;
  if (size > a->size - a->used) {
    a->full = true;
    return NULL;
  }
  void *p = a->base + a->used;
  a->used += size;
  return p;
}

static void arena_free(void *p, void *info) {
  (void)p;
  (void)info;
}

static annb_status grow_arena(const annb_values *v, arena *a, uint64_t memory, uint64_t row, annb_error *err) {
  uint64_t size = a->size ? 4 * (uint64_t)a->size : STRING_BYTES;
  if (a->size && size > memory / 2)
    return annb_h5_fail(err, ANNB_ENOMEM, v->file, v->object, "the string in row %llu is longer than memory allows: raise the memory cap",
                        (unsigned long long)row);
  free(a->base);
  a->base = malloc(size);
  a->size = a->base ? size : 0;
  return a->base ? ANNB_OK : annb_fail_memory(err);
}

/* The strings of rows [first, first + n) into `out`, or as few as fit the arena: *n says how many. */
static annb_status read_piece(const annb_values *v, hid_t memory_type, hid_t transfer, arena *a, uint64_t memory, uint64_t first,
                              uint64_t *n, char **out, annb_error *err) {
  for (;;) {
    hsize_t start[32] = {first}, count[32] = {*n};
    a->used = 0;
    a->full = false;
    if (read_selection(v, memory_type, transfer, start, count, out) >= 0) return ANNB_OK;
    if (!a->full) return read_failed(v, first, *n, err);
    H5Eclear2(H5E_DEFAULT);
    annb_status s = *n > 1 ? ANNB_OK : grow_arena(v, a, memory, first, err);
    if (s) return s;
    if (*n > 1) *n /= 2;
  }
}

static annb_status each_of_piece(char *const *strings, uint64_t n, annb_string_fn each, void *user, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint64_t i = 0; i < n && !s; i++) s = strings[i] ? each(user, strings[i], strlen(strings[i]), err) : each(user, "", 0, err);
  return s;
}

static annb_status variable_strings(const annb_values *v, uint64_t memory, annb_string_fn each, void *user, annb_error *err) {
  arena a = {NULL, 0, 0, false};
  char **strings = calloc(STRING_ROWS, sizeof *strings);
  annb_status s = strings ? grow_arena(v, &a, memory, 0, err) : annb_fail_memory(err);
  hid_t type = H5Tcopy(v->type), transfer = H5Pcreate(H5P_DATASET_XFER);
  H5Pset_vlen_mem_manager(transfer, arena_take, &a, arena_free, &a);
  uint64_t rows = STRING_ROWS;
  for (uint64_t i = 0; i < v->n && !s; i += rows) {
    rows = rows < STRING_ROWS / 2 ? 2 * rows : STRING_ROWS;
    if (rows > v->n - i) rows = v->n - i;
    s = read_piece(v, type, transfer, &a, memory, i, &rows, strings, err);
    if (!s) s = each_of_piece(strings, rows, each, user, err);
  }
  annb_h5_close(&transfer);
  annb_h5_close(&type);
  free(a.base);
  free(strings);
  return s;
}

static uint64_t fixed_length(const char *bytes, uint64_t size, H5T_str_t padding) {
  if (padding == H5T_STR_NULLTERM) {
    const char *end = memchr(bytes, 0, size);
    return end ? (uint64_t)(end - bytes) : size;
  }
  while (size && (bytes[size - 1] == 0 || (padding == H5T_STR_SPACEPAD && bytes[size - 1] == ' '))) size--;
  return size;
}

static annb_status fixed_strings(const annb_values *v, uint64_t memory, annb_string_fn each, void *user, annb_error *err) {
  uint64_t size = H5Tget_size(v->type), rows = size < STRING_BYTES ? STRING_BYTES / size : 1;
  H5T_str_t padding = H5Tget_strpad(v->type);
  if (size > memory / 2)
    return annb_h5_fail(err, ANNB_ENOMEM, v->file, v->object, "has strings of %llu bytes each: raise the memory cap",
                        (unsigned long long)size);
  if (rows > v->n) rows = v->n ? v->n : 1;
  char *buffer = malloc(rows * size);
  annb_status s = buffer ? ANNB_OK : annb_fail_memory(err);
  for (uint64_t i = 0; i < v->n && !s; i += rows) {
    uint64_t n = rows < v->n - i ? rows : v->n - i;
    s = annb_values_read(v, v->type, i, n, buffer, err);
    for (uint64_t k = 0; k < n && !s; k++) s = each(user, buffer + k * size, fixed_length(buffer + k * size, size, padding), err);
  }
  free(buffer);
  return s;
}

annb_status annb_values_strings(const annb_values *v, uint64_t memory, annb_string_fn each, void *user, annb_error *err) {
  if (H5Tget_class(v->type) != H5T_STRING || v->rank > 1)
    return annb_h5_fail(err, ANNB_EINPUT, v->file, v->object, "is not a list of strings");
  return H5Tis_variable_str(v->type) > 0 ? variable_strings(v, memory, each, user, err) : fixed_strings(v, memory, each, user, err);
}
