#include "concat.h"

#include "../sidecar/files.h"

#include <annblock/annblock.h>

enum { CHUNK = 1 << 16 };

annb_status annb_concat_encoding(const annb_concat *concat, hid_t object, const char *type, const char *version, annb_error *err) {
  annb_status s = annb_attr_write_text(object, "encoding-type", type, concat->out_name, err);
  return s ? s : annb_attr_write_text(object, "encoding-version", version, concat->out_name, err);
}

annb_status annb_concat_group(const annb_concat *concat, hid_t parent, const char *name, const char *type, const char *version,
                              hid_t *group, annb_error *err) {
  hid_t properties = H5Pcreate(H5P_GROUP_CREATE);
  H5Pset_obj_track_times(properties, false);
  *group = H5Gcreate2(parent, name, H5P_DEFAULT, properties, H5P_DEFAULT);
  annb_h5_close(&properties);
  if (*group < 0) return annb_h5_fail(err, ANNB_EIO, concat->out_name, name, "the group cannot be made");
  annb_status s = annb_concat_encoding(concat, *group, type, version, err);
  if (s) annb_h5_close(group);
  return s;
}

static hid_t bool_type(void) {
  int8_t value = 0;
  hid_t type = H5Tenum_create(H5T_STD_I8LE);
  if (type < 0) return -1;
  H5Tenum_insert(type, "FALSE", &value);
  value = 1;
  H5Tenum_insert(type, "TRUE", &value);
  return type;
}

static hid_t half_type(void) {
  hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  if (H5Tset_fields(type, 15, 10, 5, 0, 10) < 0 || H5Tset_size(type, 2) < 0 || H5Tset_ebias(type, 15) < 0) annb_h5_close(&type);
  return type;
}

hid_t annb_concat_type(annb_dtype dtype) {
  switch (dtype) {
    case ANNB_BOOL: return bool_type();
    case ANNB_I8: return H5Tcopy(H5T_STD_I8LE);
    case ANNB_I16: return H5Tcopy(H5T_STD_I16LE);
    case ANNB_I32: return H5Tcopy(H5T_STD_I32LE);
    case ANNB_I64: return H5Tcopy(H5T_STD_I64LE);
    case ANNB_U8: return H5Tcopy(H5T_STD_U8LE);
    case ANNB_U16: return H5Tcopy(H5T_STD_U16LE);
    case ANNB_U32: return H5Tcopy(H5T_STD_U32LE);
    case ANNB_U64: return H5Tcopy(H5T_STD_U64LE);
    case ANNB_F16: return half_type();
    case ANNB_F32: return H5Tcopy(H5T_IEEE_F32LE);
    default: return H5Tcopy(H5T_IEEE_F64LE);
  }
}

/* ---- vectors ---- */

annb_status annb_vector_create(const annb_concat *concat, hid_t parent, const char *name, hid_t type, annb_vector *out, annb_error *err) {
  hsize_t none = 0, any = H5S_UNLIMITED, chunk = CHUNK;
  hid_t space = H5Screate_simple(1, &none, &any), properties = H5Pcreate(H5P_DATASET_CREATE);
  *out = (annb_vector){.dataset = -1, .type = type, .name = name};
  if (type >= 0 && space >= 0 && properties >= 0 && H5Pset_chunk(properties, 1, &chunk) >= 0 &&
      H5Pset_obj_track_times(properties, false) >= 0)
    out->dataset = H5Dcreate2(parent, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  annb_h5_close(&space);
  annb_h5_close(&properties);
  return out->dataset >= 0 ? ANNB_OK : annb_h5_fail(err, ANNB_EIO, concat->out_name, name, "the dataset cannot be made");
}

annb_status annb_vector_append(const annb_concat *concat, annb_vector *vector, const void *data, uint64_t n, annb_error *err) {
  hsize_t length = vector->n + n;
  if (!n) return ANNB_OK;
  if (H5Dset_extent(vector->dataset, &length) < 0)
    return annb_h5_fail(err, ANNB_EIO, concat->out_name, vector->name, "the dataset cannot grow");
  annb_status s = annb_h5_write_rows(vector->dataset, concat->out_name, vector->name, vector->type, vector->n, n, data, err);
  vector->n += n;
  return s;
}

void annb_vector_close(annb_vector *vector) {
  annb_h5_close(&vector->dataset);
  annb_h5_close(&vector->type);
}

/* ---- the file ---- */

static annb_status write_dicts(const annb_concat *concat, hid_t file, annb_error *err) {
  static const char *const names[] = {"layers", "obsm", "obsp", "uns", "varm", "varp"};
  annb_status s = annb_concat_encoding(concat, file, "anndata", "0.1.0", err);
  for (size_t i = 0; !s && i < sizeof names / sizeof *names; i++) {
    hid_t group;
    s = annb_concat_group(concat, file, names[i], "dict", "0.1.0", &group, err);
    annb_h5_close(&group);
  }
  return s;
}

static annb_status write_all(const annb_concat *concat, hid_t file, annb_error *err) {
  annb_store_info info;
  bool has;
  annb_store_get_info(concat->store, &info);
  annb_status s = annb_concat_check_skip(concat, err);
  if (!s) s = write_dicts(concat, file, err);
  if (!s) s = annb_concat_table(concat, file, ANNB_AXIS_OBS, err);
  if (!s) s = annb_concat_table(concat, file, ANNB_AXIS_VAR, err);
  for (uint32_t i = 0; !s && i < info.n_matrices; i++) {
    s = annb_concat_has(concat, i, &has, err);
    if (!s && has) s = annb_concat_matrix(concat, file, i, err);
  }
  return s;
}

annb_status annb_concat_write(const annb_concat *concat, annb_error *err) {
  hid_t file;
  annb_status s = annb_file_create(concat->out_name, -1, &file, err);
  if (s) return s;
  s = write_all(concat, file, err);
  annb_error why;
  annb_status finished = annb_file_finish(&file, concat->out_name, &why); /* explains what else went wrong */
  if (finished && err) *err = why;
  return finished ? finished : s;
}
