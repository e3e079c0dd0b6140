#include "source.h"

#include "matrices.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINKS = 16 };
#define MAX_UNBACKED (UINT64_C(1) << 20) /* columns without names that need not be in the file */
#define MAX_COLUMNS_PER_BYTE 1024

/* ---- where it is: soft links at the end of a path are followed by name, so that the sidecar finds the object itself ---- */

/* What the soft link at `path` points to as an absolute path, or NULL; HDF5 reads relative targets from the link's group. */
static char *link_target(hid_t file, const char *path, size_t size) {
  char *target = calloc(1, size + 1), *absolute = NULL;
  if (target && H5Lget_val(file, path, target, size, H5P_DEFAULT) >= 0) {
    const char *end = strrchr(path, '/');
    size_t parent = *target == '/' ? 0 : (size_t)(end - path) + 1;
    absolute = malloc(parent + size + 1);
    if (absolute) {
      memcpy(absolute, path, parent);
      strcpy(absolute + parent, target);
    }
  }
  free(target);
  return absolute;
}

static annb_status resolve(annb_source_matrix *m, hid_t file, annb_error *err) {
  if (!annb_h5_exists(file, m->path) && H5Lexists(file, m->path, H5P_DEFAULT) <= 0) {
    H5Eclear2(H5E_DEFAULT);
    return annb_h5_fail(err, ANNB_EUNSUPPORTED, m->file, NULL, "%s is missing", m->path);
  }
  for (int i = 0; i < MAX_LINKS; i++) {
    H5L_info_t info;
    if (H5Lget_info(file, m->path, &info, H5P_DEFAULT) < 0) break;
    if (info.type == H5L_TYPE_HARD) return ANNB_OK;
    if (info.type != H5L_TYPE_SOFT)
      return annb_h5_fail(err, ANNB_EUNSUPPORTED, m->file, m->path,
                          "is a link to another file: copy its object into this file, or pack that one");
    char *target = link_target(file, m->path, info.u.val_size);
    if (!target) return annb_fail_memory(err);
    free(m->path);
    m->path = target;
  }
  return annb_h5_fail(err, ANNB_EINPUT, m->file, m->path, "is a link that leads nowhere");
}

/* A member of the matrix that is a link, or lives in another file, could not be put back by export. */
static annb_status check_own(const annb_source_matrix *m, hid_t file, hid_t parent, const char *name, annb_error *err) {
  H5O_info_t here, there;
  H5L_info_t link;
  bool is_hard = H5Lget_info(parent, name, &link, H5P_DEFAULT) >= 0 && link.type == H5L_TYPE_HARD;
  if (is_hard && H5Oget_info_by_name(parent, name, &there, H5P_DEFAULT) < 0)
    return annb_h5_fail(err, ANNB_EINPUT, m->file, m->path,
                        "cannot be opened: it is damaged, or was written by a newer HDF5 than this one");
  if (is_hard && H5Oget_info(file, &here) >= 0 && here.fileno == there.fileno) return ANNB_OK;
  return annb_h5_fail(err, ANNB_EUNSUPPORTED, m->file, m->path,
                      "%s is reached by a link or lies in another file, which is not packed: copy it into place", name);
}

/* ---- values ---- */

static annb_status check_values(annb_source_matrix *m, annb_error *err) {
  hid_t type = m->data.type;
  if (annb_h5_dtype(type, &m->dtype, &m->memory_type)) return ANNB_OK;
  static const struct {
    H5T_class_t class;
    const char *name;
  } names[] = {{H5T_INTEGER, "an integer of unusual width"},
               {H5T_FLOAT, "a float that is not IEEE of 16, 32 or 64 bits"},
               {H5T_STRING, "a string"},
               {H5T_COMPOUND, "a compound or complex type"},
               {H5T_ENUM, "an enumeration"},
               {H5T_ARRAY, "an array type"},
               {H5T_VLEN, "a ragged type"},
               {H5T_REFERENCE, "a reference"}};
  const char *name = "an unusual type";
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].class == H5Tget_class(type)) name = names[i].name;
  return annb_h5_fail(err, ANNB_EUNSUPPORTED, m->file, m->data.object,
                      "has values of %s (%zu bytes each), which cannot be packed: convert it to a plain number type", name,
                      H5Tget_size(type));
}

static annb_status check_shape(const annb_source_matrix *m, const annb_source *source, annb_error *err) {
  const uint64_t n_obs = source->obs.length;
  if (m->n_rows != n_obs || (m->n_cols != m->want_cols && m->want_cols != UINT64_MAX)) {
    char columns[64] = "";
    if (m->want_cols != UINT64_MAX) snprintf(columns, sizeof columns, " and %s %llu", m->axis, (unsigned long long)m->want_cols);
    return annb_h5_fail(err, ANNB_EINPUT, m->file, m->path, "has the shape %llu × %llu, but obs has %llu rows%s",
                        (unsigned long long)m->n_rows, (unsigned long long)m->n_cols, (unsigned long long)n_obs, columns);
  }
  if (m->n_cols > ANNB_MAX_COLS)
    return annb_h5_fail(err, ANNB_EUNSUPPORTED, m->file, m->path, "has %llu columns, more than 2^31 - 1", (unsigned long long)m->n_cols);
  return ANNB_OK;
}

static annb_status open_dense(annb_source_matrix *m, const annb_source *source, hid_t *object, annb_error *err) {
  annb_h5_close(object); /* so that it can be opened with settings of its own */
  m->form = ANNB_DENSE;
  annb_status s = annb_values_open(&m->data, m->file, source->file, m->path, NULL, m->path, source->memory, err);
  if (s) return s;
  if (m->data.rank != 2)
    return annb_h5_fail(err, ANNB_EUNSUPPORTED, m->file, m->path, "has %d dimension%s, not 2: write the file again with a recent anndata",
                        m->data.rank, m->data.rank == 1 ? "" : "s");
  m->n_rows = m->data.dims[0];
  m->n_cols = m->data.dims[1];
  s = check_shape(m, source, err);
  return s ? s : check_values(m, err);
}

/* ---- sparse ---- */

static annb_status open_member(annb_source_matrix *m, const annb_source *source, hid_t group, const char *name, annb_values *v,
                               annb_error *err) {
  char object[600];
  snprintf(object, sizeof object, "%.500s/%s", m->path, name);
  annb_status s = annb_values_open(v, m->file, group, name, NULL, object, source->memory, err);
  if (!s) s = check_own(m, source->file, group, name, err);
  if (!s && v->rank != 1) s = annb_h5_fail(err, ANNB_EINPUT, m->file, object, "has %d dimensions, not 1", v->rank);
  return s;
}

static annb_status check_types(annb_source_matrix *m, annb_error *err) {
  if (!annb_h5_is_integer(m->indices.type)) return annb_h5_fail(err, ANNB_EINPUT, m->file, m->indices.object, "is not of an integer type");
  m->float_pointers = H5Tget_class(m->indptr.type) == H5T_FLOAT;
  if (!m->float_pointers && !annb_h5_is_integer(m->indptr.type))
    return annb_h5_fail(err, ANNB_EINPUT, m->file, m->indptr.object, "is of a type that is no number");
  return check_values(m, err);
}

/* One dataset under two of the three names could have one shell only. */
static annb_status check_distinct(const annb_source_matrix *m, annb_error *err) {
  const annb_values *parts[] = {&m->data, &m->indices, &m->indptr};
  H5O_info_t info[3];
  for (int i = 0; i < 3; i++) {
    if (H5Oget_info2(parts[i]->dataset, &info[i], H5O_INFO_BASIC) < 0)
      return annb_h5_fail(err, ANNB_EINPUT, m->file, parts[i]->object, "cannot be examined");
    for (int k = 0; k < i; k++)
      if (info[k].fileno == info[i].fileno && info[k].addr == info[i].addr)
        return annb_h5_fail(err, ANNB_EUNSUPPORTED, m->file, parts[i]->object,
                            "is the same dataset as %s, which cannot be packed: write the matrix with datasets of their own",
                            parts[k]->object);
  }
  return ANNB_OK;
}

/* Everything that can be known without going through the elements. */
static annb_status check_lengths(annb_source_matrix *m, annb_error *err) {
  const char *axis = m->form == ANNB_CSR ? "rows" : "columns";
  uint64_t major = m->form == ANNB_CSR ? m->n_rows : m->n_cols;
  if (m->indptr.n != major + 1)
    return annb_h5_fail(err, ANNB_EINPUT, m->file, m->indptr.object, "has %llu entries; a matrix of %llu %s needs %llu",
                        (unsigned long long)m->indptr.n, (unsigned long long)major, axis, (unsigned long long)(major + 1));
  if (m->data.n != m->indices.n)
    return annb_h5_fail(err, ANNB_EINPUT, m->file, m->path, "has %llu values in data but %llu in indices", (unsigned long long)m->data.n,
                        (unsigned long long)m->indices.n);
  annb_status s = annb_values_read_pointers(&m->indptr, major, 1, &m->nnz, err);
  if (s) return s;
  if (m->nnz > m->data.n) {
    char end[32];
    if (m->float_pointers) snprintf(end, sizeof end, "%llu", (unsigned long long)m->nnz);
    else annb_values_integer_text(&m->indptr, major, end);
    return annb_h5_fail(err, ANNB_EINPUT, m->file, m->indptr.object, "ends at element %s, but data and indices have %llu", end,
                        (unsigned long long)m->data.n);
  }
  if (m->nnz > ANNB_MAX_NNZ) return annb_h5_fail(err, ANNB_EUNSUPPORTED, m->file, m->path, "has more than 2^48 elements");
  return ANNB_OK;
}

static annb_status read_form(annb_source_matrix *m, hid_t group, annb_error *err) {
  char *encoding = NULL, *legacy = NULL;
  annb_status s = annb_h5_attr_text(group, "encoding-type", m->file, m->path, &encoding, err);
  if (!s) s = annb_h5_attr_text(group, "h5sparse_format", m->file, m->path, &legacy, err);
  if (s) {
    free(encoding);
    return s;
  }
  if (encoding && !strcmp(encoding, "csr_matrix")) m->form = ANNB_CSR;
  else if (encoding && !strcmp(encoding, "csc_matrix")) m->form = ANNB_CSC;
  else if (legacy && !strcmp(legacy, "csr")) m->form = ANNB_CSR;
  else if (legacy && !strcmp(legacy, "csc")) m->form = ANNB_CSC;
  else if (encoding || legacy)
    s = annb_h5_fail(err, ANNB_EUNSUPPORTED, m->file, m->path,
                     "is of the kind '%s', which cannot be packed: make it CSR, CSC or dense", encoding ? encoding : legacy);
  else s = annb_h5_fail(err, ANNB_EINPUT, m->file, m->path, "is a group without the attribute 'encoding-type' or 'h5sparse_format'");
  free(encoding);
  free(legacy);
  return s;
}

static annb_status read_shape(annb_source_matrix *m, hid_t group, annb_error *err) {
  uint64_t shape[2];
  const char *name = annb_h5_attr_u64(group, "shape", shape, 2) == 2 ? "shape" : "h5sparse_shape";
  if (annb_h5_attr_u64(group, name, shape, 2) != 2)
    return annb_h5_fail(err, ANNB_EINPUT, m->file, m->path, "has no attribute 'shape' of two integers");
  int64_t as_signed[2];
  if (annb_h5_attr_i64(group, name, as_signed, 2) == 2 && (as_signed[0] < 0 || as_signed[1] < 0))
    return annb_h5_fail(err, ANNB_EINPUT, m->file, m->path, "has the attribute '%s' of %lld × %lld, which is negative", name,
                        (long long)as_signed[0], (long long)as_signed[1]);
  m->n_rows = shape[0];
  m->n_cols = shape[1];
  return ANNB_OK;
}

static annb_status open_sparse(annb_source_matrix *m, const annb_source *source, hid_t group, annb_error *err) {
  annb_status s = read_form(m, group, err);
  if (!s) s = read_shape(m, group, err);
  if (!s) s = check_shape(m, source, err);
  if (!s) s = open_member(m, source, group, "data", &m->data, err);
  if (!s) s = open_member(m, source, group, "indices", &m->indices, err);
  if (!s) s = open_member(m, source, group, "indptr", &m->indptr, err);
  if (!s) s = check_distinct(m, err);
  if (!s) s = check_types(m, err);
  if (!s) s = check_lengths(m, err);
  return s;
}

/* A few bytes may state any number of columns where nothing names them. */
static annb_status check_backed(const annb_source_matrix *m, annb_error *err) {
  if (m->want_cols != UINT64_MAX || m->n_cols <= MAX_UNBACKED) return ANNB_OK;
  uint64_t stored = annb_h5_stored(m->data.dataset);
  if ((m->n_cols - MAX_UNBACKED) / MAX_COLUMNS_PER_BYTE <= stored) return ANNB_OK;
  return annb_h5_fail(err, ANNB_EINPUT, m->file, m->path,
                      "states %llu columns, but its values take only %llu bytes in the file: most of them were never written",
                      (unsigned long long)m->n_cols, (unsigned long long)stored);
}

annb_status annb_source_matrix_open(annb_source_matrix *m, const annb_source *source, const char *name, annb_error *err) {
  *m = (annb_source_matrix){
      .file = source->path, .memory_type = -1, .data = ANNB_VALUES_NONE, .indices = ANNB_VALUES_NONE, .indptr = ANNB_VALUES_NONE};
  m->path = annb_source_matrix_path(source->file, name);
  if (!m->path) return annb_fail_memory(err);
  m->want_cols = annb_source_matrix_columns(source, name, &m->axis);
  annb_status s = annb_h5_check_external(source->file, source->path, m->path + 1, err);
  if (s) {
    annb_source_matrix_close(m);
    return s;
  }
  s = resolve(m, source->file, err);
  if (!s) s = check_own(m, source->file, source->file, m->path, err);
  hid_t object = s ? -1 : H5Oopen(source->file, m->path, H5P_DEFAULT);
  if (!s && object < 0) s = annb_h5_fail(err, ANNB_EINPUT, source->path, m->path, "cannot be opened");
  if (!s) s = H5Iget_type(object) == H5I_GROUP ? open_sparse(m, source, object, err) : open_dense(m, source, &object, err);
  annb_h5_close(&object);
  if (!s) s = check_backed(m, err);
  if (s) annb_source_matrix_close(m);
  return s;
}

void annb_source_matrix_close_values(annb_source_matrix *m) {
  annb_values_close(&m->data);
  annb_values_close(&m->indices);
  annb_values_close(&m->indptr);
}

void annb_source_matrix_close(annb_source_matrix *m) {
  annb_source_matrix_close_values(m);
  annb_h5_close(&m->memory_type);
  free(m->path);
  m->path = NULL;
}
