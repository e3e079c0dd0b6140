#include "h5.h"

#include "../../store/error.h"
#include "../../store/io.h"
#include "lzf.h"
#include "source_driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

annb_h5_quiet annb_h5_quiet_begin(void) {
  annb_h5_quiet saved = {NULL, NULL};
  H5Eget_auto2(H5E_DEFAULT, &saved.function, &saved.data);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  return saved;
}

void annb_h5_quiet_end(annb_h5_quiet saved) { H5Eset_auto2(H5E_DEFAULT, saved.function, saved.data); }

static herr_t innermost(unsigned n, const H5E_error2_t *entry, void *text) {
  if (n == 0 && entry->desc) snprintf(text, 256, "%s", entry->desc);
  return 0;
}

/* From the root, whatever the caller opened it from. Paths of deep groups would leave no room for what is wrong with them. */
static void shorten(const char *object, char *out, size_t size) {
  size_t n = strlen(object), head = 200, tail = 200;
  const char *root = *object == '/' ? "" : "/";
  if (n <= head + tail) snprintf(out, size, "%s%s: ", root, object);
  else snprintf(out, size, "%s%.*s … %s: ", root, (int)head, object, object + n - tail);
}

annb_status annb_h5_fail(annb_error *err, annb_status status, const char *file, const char *object, const char *format, ...) {
  char text[1024], cause[256] = "", where[512] = "";
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, cause);
  H5Eclear2(H5E_DEFAULT);
  if (object) shorten(object, where, sizeof where);
  return annb_fail(err, status, file, "%s%s%s%s%s", where, text, *cause ? " (HDF5: " : "", cause, *cause ? ")" : "");
}

annb_status annb_h5_say(annb_error *err, annb_status status, const char *file, const char *object, const char *format, ...) {
  char text[1024], where[512] = "";
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (object) shorten(object, where, sizeof where);
  return annb_fail(err, status, file, "%s%s", where, text);
}

annb_status annb_h5_say_cut(annb_error *err, const char *file, const char *object) {
  return annb_h5_say(err, ANNB_EINPUT, file, object, "cannot be read: the file was cut short while it was read, or its disk fails");
}

static const uint8_t signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

enum { SUPERBLOCK = 16, VERSION = 8, LENGTHS = 10, OPEN_FLAGS = 11, OLD_LENGTHS = 14 }; /* the start of a superblock, and places in it */

/* The signature may stand behind a user block: at 0, 512, 1024, 2048 … The superblock starts with it; zeros where it is cut. */
static annb_status find_signature(const char *path, uint8_t superblock[SUPERBLOCK], annb_error *err) {
  uint64_t at;
  int fd;
  uint64_t size;
  annb_status s = annb_io_open(path, &fd, err);
  if (s) return s;
  s = annb_io_fd_size(fd, path, &size, err);
  for (at = 0; !s && at < size && size - at >= sizeof signature; at = at ? 2 * at : 512) {
    uint8_t bytes[8];
    s = annb_io_pread(fd, path, bytes, sizeof bytes, at, err);
    if (!s && !memcmp(bytes, signature, sizeof bytes)) {
      memset(superblock, 0, SUPERBLOCK);
      if (size - at >= SUPERBLOCK && annb_io_pread(fd, path, superblock, SUPERBLOCK, at, NULL)) memset(superblock, 0, SUPERBLOCK);
      annb_io_close(fd, path, NULL);
      return ANNB_OK;
    }
  }
  annb_io_close(fd, path, NULL);
  if (s) return s;
  if (size == 0) return annb_fail(err, ANNB_EINPUT, path, "is empty");
  return annb_fail(
      err, ANNB_EINPUT, path,
      "is not an HDF5 file: no HDF5 signature was found (a partial download, a pointer file of a large-file system, or text?)");
}

static annb_status check_file(const char *path, annb_error *err) {
  annb_path_kind kind, inner = ANNB_PATH_ABSENT;
  annb_status s = annb_io_kind(path, &kind, err);
  if (s || kind != ANNB_PATH_DIR) return s;
  char *manifests = annb_io_join(path, "manifests");
  s = manifests ? annb_io_kind(manifests, &inner, err) : annb_fail_memory(err);
  free(manifests);
  if (s) return s;
  return annb_fail(err, ANNB_EINPUT, path,
                   inner == ANNB_PATH_DIR ? "is an annblock store, not a .h5ad file" : "is a directory, not a .h5ad file");
}

/* Ours knows lengths of 8 bytes; and a file that is open for writing HDF5's own refuses. */
static void choose_driver(const uint8_t *superblock, hid_t access) {
  const bool modern = superblock[VERSION] >= 2;
  if (superblock[modern ? LENGTHS : OLD_LENGTHS] != 8 || (superblock[VERSION] >= 3 && superblock[OPEN_FLAGS])) return;
  annb_source_driver_set(access, superblock[VERSION] >= 3);
}

annb_status annb_h5_open(const char *path, hid_t *file, annb_error *err) {
  uint8_t superblock[SUPERBLOCK] = {0};
  *file = -1;
  annb_lzf_register();
  annb_status s = check_file(path, err);
  if (!s) s = find_signature(path, superblock, err);
  if (s) return s;
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_file_locking(access, 0, 1);
  choose_driver(superblock, access);
  *file = H5Fopen(path, H5F_ACC_RDONLY, access);
  H5Pclose(access);
  if (*file < 0)
    return annb_h5_fail(err, ANNB_EINPUT, path, NULL,
                        "HDF5 cannot open it: it is cut short, damaged, or was not closed by the program that wrote it");
  return ANNB_OK;
}

/* The access list holds the driver: HDF5 1.10 frees one that is registered for a file alone before it reads from it for the last time. */
static void close_file(hid_t file) {
  hid_t access = H5Fget_access_plist(file);
  H5Fclose(file);
  if (access >= 0) H5Pclose(access);
}

void annb_h5_close(hid_t *id) {
  if (*id >= 0) switch (H5Iget_type(*id)) {
      case H5I_FILE: close_file(*id); break;
      case H5I_GROUP: H5Gclose(*id); break;
      case H5I_DATASET: H5Dclose(*id); break;
      case H5I_DATATYPE: H5Tclose(*id); break;
      case H5I_DATASPACE: H5Sclose(*id); break;
      case H5I_ATTR: H5Aclose(*id); break;
      case H5I_GENPROP_LST: H5Pclose(*id); break;
      default: H5Idec_ref(*id); break;
    }
  *id = -1;
}

bool annb_h5_exists(hid_t parent, const char *path) {
  char *part = strdup(path);
  bool ok = part != NULL;
  for (char *p = part; ok && p && *p;) {
    char *slash = strchr(p + 1, '/');
    if (slash) *slash = 0;
    if (strcmp(part, "/") && *part) ok = H5Lexists(parent, part, H5P_DEFAULT) > 0 && H5Oexists_by_name(parent, part, H5P_DEFAULT) > 0;
    if (!slash) break;
    *slash = '/';
    p = slash;
  }
  free(part);
  H5Eclear2(H5E_DEFAULT);
  return ok;
}

annb_status annb_h5_check_external(hid_t parent, const char *file, const char *name, annb_error *err) {
  H5L_info_t info;
  if (H5Lget_info(parent, name, &info, H5P_DEFAULT) < 0 || info.type != H5L_TYPE_EXTERNAL || annb_h5_exists(parent, name)) {
    H5Eclear2(H5E_DEFAULT);
    return ANNB_OK;
  }
  const char *other = NULL, *path = NULL;
  char *value = malloc(info.u.val_size + 1);
  if (!value) return annb_fail_memory(err);
  if (H5Lget_val(parent, name, value, info.u.val_size, H5P_DEFAULT) < 0 ||
      H5Lunpack_elink_val(value, info.u.val_size, NULL, &other, &path) < 0)
    other = path = "?";
  annb_status s = annb_h5_fail(err, ANNB_EINPUT, file, name, "is a link to %s in another file, %s, which cannot be read", path, other);
  free(value);
  return s;
}

static char *string_value(hid_t attr, hid_t type) {
  char *out = NULL;
  if (H5Tis_variable_str(type) > 0) {
    hid_t memory = H5Tcopy(H5T_C_S1);
    H5Tset_size(memory, H5T_VARIABLE);
    H5Tset_cset(memory, H5Tget_cset(type));
    char *s = NULL;
    if (H5Aread(attr, memory, &s) >= 0) {
      out = strdup(s ? s : "");
      if (s) H5free_memory(s);
    }
    H5Tclose(memory);
  } else {
    size_t n = H5Tget_size(type);
    out = calloc(1, n + 1);
    if (out && H5Aread(attr, type, out) < 0) {
      free(out);
      out = NULL;
    }
    if (out && H5Tget_strpad(type) == H5T_STR_SPACEPAD)
      while (n && (out[n - 1] == ' ' || !out[n - 1])) out[--n] = 0;
  }
  return out;
}

annb_status annb_h5_attr_text(hid_t object, const char *name, const char *file, const char *path, char **out, annb_error *err) {
  *out = NULL;
  const htri_t there = H5Aexists(object, name);
  if (!there) return ANNB_OK;
  annb_status s = ANNB_OK;
  hid_t attr = there < 0 ? -1 : H5Aopen(object, name, H5P_DEFAULT), type = H5Aget_type(attr), space = H5Aget_space(attr);
  const bool text = H5Tget_class(type) == H5T_STRING && H5Sget_simple_extent_npoints(space) == 1;
  if (text) *out = string_value(attr, type);
  if (type < 0 || space < 0 || (text && !*out)) s = annb_h5_fail(err, ANNB_EINPUT, file, path, "its attribute '%s' cannot be read", name);
  annb_h5_close(&space);
  annb_h5_close(&type);
  annb_h5_close(&attr);
  H5Eclear2(H5E_DEFAULT);
  return s;
}

char *annb_h5_attr_string(hid_t object, const char *name) {
  char *out;
  (void)annb_h5_attr_text(object, name, NULL, NULL, &out, NULL);
  return out;
}

static int integer_values(hid_t object, const char *name, hid_t memory, uint64_t *out, int max) {
  if (H5Aexists(object, name) <= 0) return -1;
  int found = -1;
  hid_t attr = H5Aopen(object, name, H5P_DEFAULT), type = H5Aget_type(attr), space = H5Aget_space(attr);
  hssize_t n = H5Sget_simple_extent_npoints(space);
  if (H5Tget_class(type) == H5T_INTEGER && n >= 0 && n <= 64) {
    uint64_t values[64];
    if (H5Aread(attr, memory, values) >= 0) {
      found = (int)n;
      for (int i = 0; i < found && i < max; i++) out[i] = values[i];
    }
  }
  annb_h5_close(&space);
  annb_h5_close(&type);
  annb_h5_close(&attr);
  H5Eclear2(H5E_DEFAULT);
  return found;
}

int annb_h5_attr_u64(hid_t object, const char *name, uint64_t *out, int max) {
  return integer_values(object, name, H5T_NATIVE_UINT64, out, max);
}

int annb_h5_attr_i64(hid_t object, const char *name, int64_t *out, int max) {
  return integer_values(object, name, H5T_NATIVE_INT64, (uint64_t *)out, max);
}

bool annb_h5_is_integer(hid_t type) {
  size_t size = H5Tget_size(type);
  return H5Tget_class(type) == H5T_INTEGER && (size == 1 || size == 2 || size == 4 || size == 8) && H5Tget_precision(type) == 8 * size;
}

static bool is_ieee(hid_t type) {
  size_t size = H5Tget_size(type), sign, exponent_at, exponent, mantissa_at, mantissa;
  if (H5Tget_class(type) != H5T_FLOAT || H5Tget_precision(type) != 8 * size) return false;
  H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa);
  size_t want_exponent = size == 2 ? 5 : size == 4 ? 8 : size == 8 ? 11 : 0;
  return want_exponent && sign == 8 * size - 1 && mantissa_at == 0 && exponent == want_exponent && mantissa == exponent_at &&
         mantissa + exponent + 1 == 8 * size && H5Tget_ebias(type) == ((size_t)1 << (exponent - 1)) - 1;
}

static bool order_known(hid_t type) {
  H5T_order_t order = H5Tget_order(type);
  return order == H5T_ORDER_LE || order == H5T_ORDER_BE || H5Tget_size(type) == 1;
}

bool annb_h5_dtype(hid_t type, annb_dtype *dtype, hid_t *memory) {
  size_t size = H5Tget_size(type);
  if (annb_h5_is_integer(type)) {
    bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
    static const annb_dtype s[] = {[1] = ANNB_I8, [2] = ANNB_I16, [4] = ANNB_I32, [8] = ANNB_I64};
    static const annb_dtype u[] = {[1] = ANNB_U8, [2] = ANNB_U16, [4] = ANNB_U32, [8] = ANNB_U64};
    *dtype = is_signed ? s[size] : u[size];
  } else if (is_ieee(type)) {
    *dtype = size == 2 ? ANNB_F16 : size == 4 ? ANNB_F32 : ANNB_F64;
  } else if (H5Tget_class(type) == H5T_ENUM && size == 1) {
    *dtype = ANNB_BOOL;
  } else {
    return false;
  }
  if (!order_known(type)) return false;
  if (memory) {
    /* an enum's order cannot be set, and one byte has none */
    *memory = H5Tcopy(type);
    if (size > 1) H5Tset_order(*memory, H5T_ORDER_LE);
  }
  return true;
}

int annb_h5_extent(hid_t dataset, hsize_t dims[32], bool *null) {
  hid_t space = H5Dget_space(dataset);
  if (null) *null = H5Sget_simple_extent_type(space) == H5S_NULL;
  int rank = H5Sget_simple_extent_ndims(space);
  if (rank > 32 || (rank > 0 && H5Sget_simple_extent_dims(space, dims, NULL) < 0)) rank = -1;
  annb_h5_close(&space);
  return rank;
}

uint64_t annb_h5_stored(hid_t dataset) {
  hid_t creation = H5Dget_create_plist(dataset);
  H5D_layout_t layout = creation < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(creation);
  bool elsewhere = layout == H5D_VIRTUAL || (layout == H5D_CONTIGUOUS && H5Pget_external_count(creation) > 0);
  annb_h5_close(&creation);
  return elsewhere || layout == H5D_LAYOUT_ERROR ? UINT64_MAX : H5Dget_storage_size(dataset);
}

annb_status annb_going_on(const annb_going *going, annb_error *err) {
  if (!going->progress || going->progress(going->user, going->stage, 0, 0)) return ANNB_OK;
  return annb_fail(err, ANNB_ECANCELED, going->file, "%s was cancelled", going->what);
}

static annb_status move_rows(hid_t dataset, const char *file, const char *object, hid_t type, uint64_t first, uint64_t n, void *out,
                             const void *in, annb_error *err) {
  hsize_t dims[32] = {0}, start[32] = {0}, count[32];
  int rank = annb_h5_extent(dataset, dims, NULL);
  if (rank < 1 || first > dims[0] || n > dims[0] - first)
    return annb_h5_fail(err, ANNB_EINPUT, file, object, "has %llu rows; rows %llu to %llu are needed", (unsigned long long)dims[0],
                        (unsigned long long)first, (unsigned long long)(first + n));
  if (n == 0) return ANNB_OK;
  memcpy(count, dims, sizeof count);
  start[0] = first;
  count[0] = n;
  hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(rank, count, NULL);
  herr_t r = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
  if (r >= 0) r = out ? H5Dread(dataset, type, memory, space, H5P_DEFAULT, out) : H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, in);
  annb_h5_close(&space);
  annb_h5_close(&memory);
  if (r >= 0) return ANNB_OK;
  return annb_h5_fail(err, out ? ANNB_EINPUT : ANNB_EIO, file, object, "%s of rows %llu to %llu failed", out ? "reading" : "writing",
                      (unsigned long long)first, (unsigned long long)(first + n));
}

annb_status annb_h5_read_rows(hid_t dataset, const char *file, const char *object, hid_t memory_type, uint64_t first, uint64_t n, void *out,
                              annb_error *err) {
  return move_rows(dataset, file, object, memory_type, first, n, out, NULL, err);
}

annb_status annb_h5_write_rows(hid_t dataset, const char *file, const char *object, hid_t memory_type, uint64_t first, uint64_t n,
                               const void *data, annb_error *err) {
  return move_rows(dataset, file, object, memory_type, first, n, NULL, data, err);
}
