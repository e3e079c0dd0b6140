#include "compare.h"

#include "../sidecar/refs.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (UINT64_C(8) << 20)
#define PIECE_STRINGS (UINT64_C(1) << 14)
#define MAX_ATTRIBUTE (UINT64_C(1) << 30)

/* One element of each side. */
typedef struct element {
  const annb_values *values;
  char *what;
  size_t size;
} element;

static bool bytes_equal(element *e, hid_t type, const uint8_t *a, const uint8_t *b, size_t n) {
  if (!n || !memcmp(a, b, n)) return true;
  annb_compare_text(type, a, b, e->what, e->size);
  return false;
}

static bool texts_equal(element *e, const char *a, const char *b) {
  if (a && b ? !strcmp(a, b) : a == b) return true;
  snprintf(e->what, e->size, "%s%.60s%s against %s%.60s%s", a ? "\"" : "", a ? a : "no string", a ? "\"" : "", b ? "\"" : "",
           b ? b : "no string", b ? "\"" : "");
  return false;
}

/* ---- references: equal when they lead to the same pair of objects, and select the same ---- */

/* Number of the pair that a reference leads to; −1: null, −2: nowhere or to what no link leads to. */
static int64_t follow(const annb_side *side, hid_t object, H5R_type_t kind, const void *at) {
  H5O_info_t info;
  if (annb_reference_null(kind, at)) return -1;
  hid_t target = H5Rdereference2(object, H5P_DEFAULT, kind, at);
  herr_t r = target < 0 ? -1 : H5Oget_info2(target, &info, H5O_INFO_BASIC);
  annb_h5_close(&target);
  H5Eclear2(H5E_DEFAULT);
  uint32_t node = r < 0 ? ANNB_NONE : annb_graph_find(&side->graph, info.fileno, info.addr);
  return node == ANNB_NONE ? -2 : (int64_t)side->graph.nodes[node].out;
}

static bool regions_equal(hid_t a, hid_t b) {
  hssize_t n = H5Sget_select_npoints(a);
  hsize_t x[64], y[64];
  int rank = H5Sget_simple_extent_ndims(a);
  H5S_sel_type type = H5Sget_select_type(a);
  if (n != H5Sget_select_npoints(b) || type != H5Sget_select_type(b) || rank != H5Sget_simple_extent_ndims(b) || rank > 32) return false;
  if (type == H5S_SEL_NONE || type == H5S_SEL_ALL || n == 0) return true;
  hssize_t blocks = type == H5S_SEL_POINTS ? n : H5Sget_select_hyper_nblocks(a);
  if (type != H5S_SEL_POINTS && blocks != H5Sget_select_hyper_nblocks(b)) return false;
  for (hssize_t i = 0; i < blocks; i++) {
    bool points = type == H5S_SEL_POINTS;
    herr_t r = points ? H5Sget_select_elem_pointlist(a, (hsize_t)i, 1, x) : H5Sget_select_hyper_blocklist(a, (hsize_t)i, 1, x);
    if (r >= 0) r = points ? H5Sget_select_elem_pointlist(b, (hsize_t)i, 1, y) : H5Sget_select_hyper_blocklist(b, (hsize_t)i, 1, y);
    if (r < 0 || memcmp(x, y, (points ? 1 : 2) * (size_t)rank * sizeof *x)) return false;
  }
  return true;
}

static bool references_equal(element *e, hid_t type, const void *a, const void *b) {
  const annb_values *v = e->values;
  H5R_type_t kind = H5Tequal(type, H5T_STD_REF_OBJ) > 0 ? H5R_OBJECT : H5R_DATASET_REGION;
  int64_t x = follow(&v->c->side[0], v->object[0], kind, a), y = follow(&v->c->side[1], v->object[1], kind, b);
  if (x != y) {
    snprintf(e->what, e->size, "references lead to different objects");
    return false;
  }
  if (kind == H5R_OBJECT || x < 0) return true;
  hid_t p = H5Rget_region(v->object[0], kind, a), q = H5Rget_region(v->object[1], kind, b);
  bool equal = p >= 0 && q >= 0 && regions_equal(p, q);
  if (!equal) snprintf(e->what, e->size, "references select different regions");
  annb_h5_close(&p);
  annb_h5_close(&q);
  return equal;
}

/* ---- elements ---- */

static bool elements_equal(element *e, hid_t type, const uint8_t *a, const uint8_t *b, uint64_t n, uint64_t *at);

static bool members_equal(element *e, hid_t type, const uint8_t *a, const uint8_t *b) {
  int n = H5Tget_nmembers(type);
  bool equal = true;
  for (int i = 0; equal && i < n; i++) {
    uint64_t at;
    size_t offset = H5Tget_member_offset(type, (unsigned)i);
    hid_t member = H5Tget_member_type(type, (unsigned)i);
    equal = elements_equal(e, member, a + offset, b + offset, 1, &at);
    annb_h5_close(&member);
  }
  return equal;
}

static bool inner_equal(element *e, hid_t type, const uint8_t *a, const uint8_t *b, uint64_t n, uint64_t m) {
  uint64_t at;
  if (n != m) {
    snprintf(e->what, e->size, "lengths %llu against %llu", (unsigned long long)n, (unsigned long long)m);
    return false;
  }
  hid_t base = H5Tget_super(type);
  bool equal = elements_equal(e, base, a, b, n, &at);
  annb_h5_close(&base);
  return equal;
}

static bool element_equal(element *e, hid_t type, H5T_class_t class, const uint8_t *a, const uint8_t *b) {
  size_t size = H5Tget_size(type);
  switch (class) {
    case H5T_STRING: {
      char *x, *y;
      if (H5Tis_variable_str(type) <= 0) return bytes_equal(e, type, a, b, size);
      memcpy(&x, a, sizeof x);
      memcpy(&y, b, sizeof y);
      return texts_equal(e, x, y);
    }
    case H5T_VLEN: {
      hvl_t x, y;
      memcpy(&x, a, sizeof x);
      memcpy(&y, b, sizeof y);
      return inner_equal(e, type, x.p, y.p, x.len, y.len);
    }
    case H5T_ARRAY: {
      hid_t base = H5Tget_super(type);
      uint64_t n = size / H5Tget_size(base);
      annb_h5_close(&base);
      return inner_equal(e, type, a, b, n, n);
    }
    case H5T_COMPOUND: return members_equal(e, type, a, b);
    case H5T_REFERENCE: return references_equal(e, type, a, b);
    default: return bytes_equal(e, type, a, b, size);
  }
}

/* Values of this type hold no addresses: equal bytes are equal values. */
static bool is_plain(hid_t type) {
  if (H5Tdetect_class(type, H5T_VLEN) > 0 || H5Tdetect_class(type, H5T_REFERENCE) > 0) return false;
  if (H5Tdetect_class(type, H5T_STRING) <= 0) return true;
  return H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) <= 0;
}

static bool elements_equal(element *e, hid_t type, const uint8_t *a, const uint8_t *b, uint64_t n, uint64_t *at) {
  size_t size = H5Tget_size(type);
  H5T_class_t class = H5Tget_class(type);
  if (n == 0 || (is_plain(type) && !memcmp(a, b, n * size))) return true;
  for (*at = 0; *at < n; ++*at)
    if (!element_equal(e, type, class, a + *at * size, b + *at * size)) return false;
  return true;
}

/* Do `n` elements at `a` and `b` of equal memory types agree? *at is the first element that does not, `what` says how. */
static annb_status compare_elements(const annb_values *values, hid_t type, const void *a, const void *b, uint64_t n, bool *equal,
                                    uint64_t *at, char *what, size_t size, annb_error *err) {
  element e = {values, what, size};
  (void)err;
  *what = 0;
  *equal = elements_equal(&e, type, a, b, n, at);
  return ANNB_OK;
}

/* ---- datasets and attributes ---- */

static bool shapes_differ(annb_comparison *c, const char *path, const char *of, hid_t a, hid_t b) {
  hsize_t x[32] = {0}, y[32] = {0};
  H5S_class_t p = H5Sget_simple_extent_type(a), q = H5Sget_simple_extent_type(b);
  int m = H5Sget_simple_extent_ndims(a), n = H5Sget_simple_extent_ndims(b);
  if (p != q) {
    static const char *const names[] = {"scalar", "an array", "null"};
    annb_differ(c, path, "%sspace is %s against %s", of, p >= 0 && p < 3 ? names[p] : "unknown", q >= 0 && q < 3 ? names[q] : "unknown");
    return true;
  }
  if (m == n && m <= 32 && (m <= 0 || (H5Sget_simple_extent_dims(a, x, NULL) >= 0 && H5Sget_simple_extent_dims(b, y, NULL) >= 0)) &&
      !memcmp(x, y, sizeof x))
    return false;
  if (m == n && m == 1) annb_differ(c, path, "%sshape %llu against %llu", of, (unsigned long long)x[0], (unsigned long long)y[0]);
  else annb_differ(c, path, "%sshapes differ", of);
  return true;
}

static bool types_differ(annb_comparison *c, const char *path, const char *of, hid_t a, hid_t b) {
  char what[256];
  annb_compare_types(a, b, what, sizeof what);
  if (*what) {
    annb_differ(c, path, "%stypes differ: %s", of, what);
    return true;
  }
  bool p = H5Tcommitted(a) > 0, q = H5Tcommitted(b) > 0;
  H5O_info_t x, y;
  if (p && q && H5Oget_info2(a, &x, H5O_INFO_BASIC) >= 0 && H5Oget_info2(b, &y, H5O_INFO_BASIC) >= 0) {
    uint32_t m = annb_graph_find(&c->side[0].graph, x.fileno, x.addr), n = annb_graph_find(&c->side[1].graph, y.fileno, y.addr);
    p = m != ANNB_NONE;
    q = n != ANNB_NONE;
    if (p && q && c->side[0].graph.nodes[m].out != c->side[1].graph.nodes[n].out)
      annb_differ(c, path, "%stypes are committed at different paths", of);
  }
  if (p != q) annb_differ(c, path, "%stype is committed in the %s only", of, p ? "first" : "second");
  return false;
}

/* The fill value of a plain type, zeros for any other that has the default one. */
static bool fill_of(hid_t dataset, hid_t type, uint8_t *value) {
  H5D_fill_value_t defined = H5D_FILL_VALUE_ERROR;
  hid_t creation = H5Dget_create_plist(dataset);
  bool known = creation >= 0 && H5Pfill_value_defined(creation, &defined) >= 0;
  if (known && is_plain(type)) known = H5Pget_fill_value(creation, type, value) >= 0;
  else known = known && defined == H5D_FILL_VALUE_DEFAULT;
  annb_h5_close(&creation);
  H5Eclear2(H5E_DEFAULT);
  return known;
}

/* Nothing was ever written to either and both have the same fill value: no need to read. */
static bool both_unwritten(hid_t a, hid_t b, hid_t type) {
  if (annb_h5_stored(a) || annb_h5_stored(b)) return false;
  size_t size = H5Tget_size(type);
  uint8_t *p = calloc(2, size);
  bool same = p && fill_of(a, type, p) && fill_of(b, type, p + size) && !memcmp(p, p + size, size);
  free(p);
  return same;
}

static void reclaim(hid_t memory, const annb_pieces *pieces, void *buffer) {
  hid_t space = pieces->rank ? H5Screate_simple(pieces->rank, pieces->count, NULL) : H5Screate(H5S_SCALAR);
  H5Dvlen_reclaim(memory, space, H5P_DEFAULT, buffer);
  annb_h5_close(&space);
}

/* "17", "3,5" */
static void position(const annb_pieces *pieces, uint64_t at, char *text, size_t size) {
  hsize_t index[32];
  for (int i = pieces->rank - 1; i >= 0; i--) {
    index[i] = pieces->start[i] + at % pieces->count[i];
    at /= pieces->count[i];
  }
  *text = 0;
  for (int i = 0; i < pieces->rank; i++) {
    size_t n = strlen(text);
    snprintf(text + n, size - n, "%s%llu", i ? "," : "", (unsigned long long)index[i]);
  }
}

static annb_status compare_piece(annb_comparison *c, const char *path, const annb_pieces *pieces, hid_t a, hid_t b, hid_t memory,
                                 bool plain, uint8_t *buffer, bool *equal, annb_error *err) {
  size_t size = H5Tget_size(memory);
  uint8_t *other = buffer + pieces->n * size;
  annb_status s = annb_pieces_read(pieces, a, c->side[0].name, path, memory, buffer, err);
  if (s) return s;
  s = annb_pieces_read(pieces, b, c->side[1].name, path, memory, other, err);
  if (!s) {
    char what[256], where[256];
    uint64_t at = 0;
    annb_values values = {c, {a, b}};
    s = compare_elements(&values, memory, buffer, other, pieces->n, equal, &at, what, sizeof what, err);
    position(pieces, at, where, sizeof where);
    if (!s && !*equal) annb_differ(c, path, "values differ first at %s: %s", pieces->rank ? where : "the scalar", what);
    if (!plain) reclaim(memory, pieces, other);
  }
  if (!plain) reclaim(memory, pieces, buffer);
  return s;
}

static annb_status compare_values(annb_comparison *c, const char *path, hid_t a, hid_t b, hid_t type, hid_t space, annb_error *err) {
  annb_pieces pieces;
  hid_t memory = H5Tcopy(type);
  size_t size = H5Tget_size(memory);
  bool plain = is_plain(memory), equal = true;
  uint64_t most = PIECE_BYTES / (size ? size : 1);
  if (!plain && most > PIECE_STRINGS) most = PIECE_STRINGS;
  annb_status s = ANNB_OK;
  if (!size || !annb_pieces_begin(&pieces, space, a, most)) s = annb_h5_fail(err, ANNB_EINPUT, c->side[0].name, path, "cannot be examined");
  bool skip = !s && both_unwritten(a, b, memory);
  while (!s && equal && !skip && annb_pieces_next(&pieces)) {
    uint8_t *buffer = calloc(2 * pieces.n, size);
    s = buffer ? compare_piece(c, path, &pieces, a, b, memory, plain, buffer, &equal, err) : annb_fail_memory(err);
    free(buffer);
  }
  annb_h5_close(&memory);
  return s;
}

annb_status annb_compare_datasets(annb_comparison *c, const char *path, hid_t a, hid_t b, annb_error *err) {
  hid_t x = H5Dget_type(a), y = H5Dget_type(b), p = H5Dget_space(a), q = H5Dget_space(b);
  annb_status s = ANNB_OK;
  if (x < 0 || y < 0 || p < 0 || q < 0) {
    s = annb_h5_fail(err, ANNB_EINPUT, c->side[x < 0 || p < 0 ? 0 : 1].name, path, "the dataset cannot be examined");
  } else {
    bool types = types_differ(c, path, "", x, y), shapes = shapes_differ(c, path, "", p, q);
    if (!types && !shapes) s = compare_values(c, path, a, b, x, p, err);
  }
  annb_h5_close(&x);
  annb_h5_close(&y);
  annb_h5_close(&p);
  annb_h5_close(&q);
  return s;
}

static annb_status attr_values(annb_comparison *c, const char *path, const char *name, hid_t a, hid_t b, hid_t type, hid_t space,
                               const hid_t object[2], annb_error *err) {
  hid_t memory = H5Tcopy(type);
  hssize_t n = H5Sget_simple_extent_npoints(space);
  uint64_t bytes = 0, at = 0;
  char what[256];
  bool equal = true;
  annb_status s = ANNB_OK;
  if (n < 0 || !annb_mul((uint64_t)n, H5Tget_size(memory), &bytes) || bytes > MAX_ATTRIBUTE)
    s = annb_h5_fail(err, ANNB_EUNSUPPORTED, c->side[0].name, path, "attribute \"%s\" is larger than 1 GiB", name);
  uint8_t *x = s ? NULL : calloc(1, bytes + 1), *y = s ? NULL : calloc(1, bytes + 1);
  if (!s && (!x || !y)) s = annb_fail_memory(err);
  if (!s && bytes) {
    int bad = H5Aread(a, memory, x) < 0 ? 0 : H5Aread(b, memory, y) < 0 ? 1 : 2;
    annb_values values = {c, {object[0], object[1]}};
    if (bad < 2) s = annb_h5_fail(err, ANNB_EINPUT, c->side[bad].name, path, "attribute \"%s\" cannot be read", name);
    else s = compare_elements(&values, memory, x, y, (uint64_t)n, &equal, &at, what, sizeof what, err);
    if (bad > 0) H5Dvlen_reclaim(memory, space, H5P_DEFAULT, x);
    if (bad > 1) H5Dvlen_reclaim(memory, space, H5P_DEFAULT, y);
  }
  if (!s && !equal) annb_differ(c, path, "attribute \"%s\": values differ first at %llu: %s", name, (unsigned long long)at, what);
  free(x);
  free(y);
  annb_h5_close(&memory);
  return s;
}

static annb_status compare_attr(annb_comparison *c, const char *path, const char *name, hid_t a, hid_t b, annb_error *err) {
  char of[300];
  hid_t object[2] = {a, b}, p = H5Aopen(a, name, H5P_DEFAULT), q = H5Aopen(b, name, H5P_DEFAULT);
  hid_t x = p < 0 ? -1 : H5Aget_type(p), y = q < 0 ? -1 : H5Aget_type(q), s1 = p < 0 ? -1 : H5Aget_space(p),
        s2 = q < 0 ? -1 : H5Aget_space(q);
  annb_status s = ANNB_OK;
  snprintf(of, sizeof of, "attribute \"%.256s\": ", name);
  if (x < 0 || y < 0 || s1 < 0 || s2 < 0) {
    s = annb_h5_fail(err, ANNB_EINPUT, c->side[x < 0 || s1 < 0 ? 0 : 1].name, path, "attribute \"%s\" cannot be opened", name);
  } else {
    bool types = types_differ(c, path, of, x, y), shapes = shapes_differ(c, path, of, s1, s2);
    if (!types && !shapes) s = attr_values(c, path, name, p, q, x, s1, object, err);
  }
  annb_h5_close(&s1);
  annb_h5_close(&s2);
  annb_h5_close(&x);
  annb_h5_close(&y);
  annb_h5_close(&p);
  annb_h5_close(&q);
  return s;
}

annb_status annb_compare_attrs(annb_comparison *c, const char *path, hid_t a, hid_t b, annb_error *err) {
  annb_links x, y;
  annb_status s = annb_attrs_read(a, true, c->side[0].name, path, &x, err);
  if (s) return s;
  s = annb_attrs_read(b, true, c->side[1].name, path, &y, err);
  for (size_t i = 0, j = 0; !s && (i < x.n || j < y.n);) {
    int order = i == x.n ? 1 : j == y.n ? -1 : strcmp(x.rows[i].name, y.rows[j].name);
    if (order < 0) annb_differ(c, path, "attribute \"%s\" is in the first only", x.rows[i].name);
    else if (order > 0) annb_differ(c, path, "attribute \"%s\" is in the second only", y.rows[j].name);
    else s = compare_attr(c, path, x.rows[i].name, a, b, err);
    if (order <= 0) i++;
    if (order >= 0) j++;
  }
  annb_links_free(&x);
  annb_links_free(&y);
  return s;
}
