#include "refs.h"

#include "../../store/cursor.h"

bool annb_reference_null(H5R_type_t kind, const void *at) {
  return annb_all_zero(at, kind == H5R_OBJECT ? sizeof(hobj_ref_t) : sizeof(hdset_reg_ref_t));
}

static annb_status compound(hid_t type, uint8_t *data, uint64_t n, annb_reference_fn visit, void *user, annb_error *err) {
  size_t size = H5Tget_size(type);
  int members = H5Tget_nmembers(type);
  annb_status s = ANNB_OK;
  /* element by element: references are numbered in that order */
  for (uint64_t i = 0; !s && i < n; i++)
    for (int m = 0; !s && m < members; m++) {
      hid_t member = H5Tget_member_type(type, (unsigned)m);
      s = annb_references(member, data + i * size + H5Tget_member_offset(type, (unsigned)m), 1, visit, user, err);
      annb_h5_close(&member);
    }
  return s;
}

static annb_status sequences(hid_t base, uint8_t *data, uint64_t n, annb_reference_fn visit, void *user, annb_error *err) {
  annb_status s = ANNB_OK;
  for (uint64_t i = 0; !s && i < n; i++) {
    hvl_t sequence;
    memcpy(&sequence, data + i * sizeof sequence, sizeof sequence);
    s = annb_references(base, sequence.p, sequence.len, visit, user, err);
  }
  return s;
}

annb_status annb_references(hid_t type, void *data, uint64_t n, annb_reference_fn visit, void *user, annb_error *err) {
  size_t size = H5Tget_size(type);
  annb_status s = ANNB_OK;
  if (H5Tdetect_class(type, H5T_REFERENCE) <= 0) return ANNB_OK;
  hid_t base = -1;
  switch (H5Tget_class(type)) {
    case H5T_REFERENCE: {
      H5R_type_t kind = H5Tequal(type, H5T_STD_REF_OBJ) > 0 ? H5R_OBJECT : H5R_DATASET_REGION;
      for (uint64_t i = 0; !s && i < n; i++) s = visit(user, kind, (uint8_t *)data + i * size, err);
      return s;
    }
    case H5T_COMPOUND: return compound(type, data, n, visit, user, err);
    case H5T_ARRAY:
      base = H5Tget_super(type);
      s = annb_references(base, data, n * (size / H5Tget_size(base)), visit, user, err);
      break;
    case H5T_VLEN:
      base = H5Tget_super(type);
      s = sequences(base, data, n, visit, user, err);
      break;
    default: break;
  }
  annb_h5_close(&base);
  return s;
}
