#include "crossings.h"

#include "refs.h"

#include "../../store/cursor.h"
#include "../../store/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST ANNB_RESERVED "references"
#define COLUMNS 4 /* holder, attribute or "", number, target */
#define MAX_ROWS (UINT64_C(1) << 24)
#define MAX_VALUE (UINT64_C(1) << 31)

static hid_t text_type(void) {
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

/* ---- writing ---- */

static annb_status write_cells(hid_t restore, const char *name, const char **cells, uint64_t n, annb_error *err) {
  hsize_t dims[2] = {n, COLUMNS};
  hid_t type = text_type(), space = H5Screate_simple(2, dims, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(properties, false);
  hid_t list = H5Dcreate2(restore, LIST, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  herr_t r = list < 0 ? -1 : H5Dwrite(list, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, cells);
  annb_h5_close(&list);
  annb_h5_close(&properties);
  annb_h5_close(&space);
  annb_h5_close(&type);
  return r >= 0 ? ANNB_OK : annb_h5_fail(err, ANNB_EIO, name, NULL, "the references between the files cannot be written");
}

annb_status annb_crossings_write(const annb_tree *tree, hid_t restore, const char *name, annb_error *err) {
  size_t n = tree->n_crossings;
  if (!n) return ANNB_OK;
  if (n > MAX_ROWS) return annb_fail(err, ANNB_EUNSUPPORTED, tree->in_name, "holds more than 2^24 references to what is stored apart");
  const char **cells = malloc(COLUMNS * n * sizeof *cells);
  char(*numbers)[24] = malloc(n * sizeof *numbers);
  annb_status s = cells && numbers ? ANNB_OK : annb_fail_memory(err);
  for (size_t i = 0; !s && i < n; i++) {
    const annb_crossing *c = &tree->crossings[i];
    snprintf(numbers[i], sizeof numbers[i], "%" PRIu64, c->number);
    const char *row[COLUMNS] = {c->holder, c->attribute, numbers[i], c->target};
    memcpy(&cells[COLUMNS * i], row, sizeof row);
  }
  if (!s) s = write_cells(restore, name, cells, n, err);
  free(cells);
  free(numbers);
  return s;
}

/* ---- applying ---- */

typedef struct cursor {
  hid_t out;
  const char *out_name, *name;
  char **row, **end; /* rows of one holder */
  uint64_t number;
} cursor;

static annb_status bad(const cursor *c, annb_error *err) {
  return annb_h5_fail(err, ANNB_ECORRUPT, c->name, LIST, "a reference of %s to %s cannot be set", c->row[0], c->row[3]);
}

static annb_status set_reference(void *user, H5R_type_t kind, void *at, annb_error *err) {
  cursor *c = user;
  uint64_t number = c->number++;
  if (c->row == c->end || strtoull(c->row[2], NULL, 10) != number) return ANNB_OK;
  if (kind != H5R_OBJECT || H5Rcreate(at, c->out, c->row[3], kind, -1) < 0) return bad(c, err);
  c->row += COLUMNS;
  return ANNB_OK;
}

/* Read the whole value, set, write it back. `attr` or else `dataset` is open. */
static annb_status set_in(cursor *c, hid_t attr, hid_t dataset, annb_error *err) {
  bool is_attr = attr >= 0;
  hid_t type = is_attr ? H5Aget_type(attr) : H5Dget_type(dataset), space = is_attr ? H5Aget_space(attr) : H5Dget_space(dataset);
  hid_t memory = type < 0 ? -1 : H5Tcopy(type);
  hssize_t n = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
  uint64_t bytes = 0;
  void *value = NULL;
  annb_status s = ANNB_OK;
  if (memory < 0 || n <= 0 || !annb_mul((uint64_t)n, H5Tget_size(memory), &bytes) || bytes > MAX_VALUE) s = bad(c, err);
  else if (!(value = calloc(1, bytes))) s = annb_fail_memory(err);
  if (!s && (is_attr ? H5Aread(attr, memory, value) : H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, value)) < 0) s = bad(c, err);
  else if (!s) {
    s = annb_references(memory, value, (uint64_t)n, set_reference, c, err);
    if (!s && c->row != c->end) s = bad(c, err);
    if (!s && (is_attr ? H5Awrite(attr, memory, value) : H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, value)) < 0)
      s = bad(c, err);
    H5Dvlen_reclaim(memory, space, H5P_DEFAULT, value);
  }
  free(value);
  annb_h5_close(&memory);
  annb_h5_close(&space);
  annb_h5_close(&type);
  return s;
}

static annb_status apply_rows(cursor *c, annb_error *err) {
  hid_t object = H5Oopen(c->out, c->row[0], H5P_DEFAULT), attr = -1;
  annb_status s;
  if (object >= 0 && *c->row[1]) attr = H5Aopen(object, c->row[1], H5P_DEFAULT);
  if (object < 0 || (*c->row[1] ? attr < 0 : H5Iget_type(object) != H5I_DATASET)) s = bad(c, err);
  else s = set_in(c, attr, object, err);
  annb_h5_close(&attr);
  annb_h5_close(&object);
  return s;
}

static annb_status apply_all(hid_t restore, const char *name, char **cells, uint64_t n, hid_t out, const char *out_name, annb_error *err) {
  annb_status s = ANNB_OK;
  (void)restore;
  for (uint64_t i = 0; i < COLUMNS * n; i++)
    if (!cells[i]) return annb_h5_fail(err, ANNB_ECORRUPT, name, LIST, "has an empty cell");
  for (uint64_t i = 0, end; !s && i < n; i = end) {
    for (end = i + 1; end < n; end++)
      if (strcmp(cells[COLUMNS * i], cells[COLUMNS * end]) || strcmp(cells[COLUMNS * i + 1], cells[COLUMNS * end + 1])) break;
    cursor c = {out, out_name, name, cells + COLUMNS * i, cells + COLUMNS * end, 0};
    s = apply_rows(&c, err);
  }
  return s;
}

annb_status annb_crossings_apply(hid_t restore, const char *name, hid_t out, const char *out_name, annb_error *err) {
  if (H5Lexists(restore, LIST, H5P_DEFAULT) <= 0) return ANNB_OK;
  hsize_t dims[32];
  hid_t list = H5Dopen2(restore, LIST, H5P_DEFAULT), type = text_type(), space = list < 0 ? -1 : H5Dget_space(list);
  annb_status s = ANNB_OK;
  char **cells = NULL;
  if (list < 0 || annb_h5_extent(list, dims, NULL) != 2 || dims[1] != COLUMNS || dims[0] > MAX_ROWS)
    s = annb_h5_fail(err, ANNB_ECORRUPT, name, LIST, "is not a list of references");
  else if (!(cells = calloc(COLUMNS * dims[0] + 1, sizeof *cells))) s = annb_fail_memory(err);
  else if (H5Dread(list, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, cells) < 0)
    s = annb_h5_fail(err, ANNB_ECORRUPT, name, LIST, "cannot be read");
  else {
    s = apply_all(restore, name, cells, dims[0], out, out_name, err);
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, cells);
  }
  free(cells);
  annb_h5_close(&space);
  annb_h5_close(&type);
  annb_h5_close(&list);
  return s;
}
