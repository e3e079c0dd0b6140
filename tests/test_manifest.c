/* Manifests: written, loaded, damaged, and with every rule broken in turn. */
#include "../store/cursor.h"
#include "../store/error.h"
#include "../store/manifest/manifest.h"
#include "reseal.h"
#include "suite.h"
#include "temp.h"

static char *dir, *path;

static void setup(void) {
  dir = temp_make();
  path = annb_io_join(dir, "manifest");
}

static void teardown(void) {
  free(path);
  temp_remove(dir);
  free(dir);
}

static uint32_t add_object(annb_manifest *m, uint8_t seed, uint32_t kind) {
  annb_fmt_object o = {.size = 1000u + seed, .kind = kind};
  uint32_t row;
  memset(o.sha256, seed, sizeof o.sha256);
  if (kind <= ANNB_OBJECT_ARRAYS) memset(o.footer_hash, seed + 1, sizeof o.footer_hash);
  ck_assert_int_eq(annb_manifest_add_object(m, &o, &row, NULL), ANNB_OK);
  return row;
}

static void add_part_matrix(annb_manifest *m, uint32_t matrix, uint64_t n_cols, uint32_t n_segments) {
  annb_fmt_part_matrix pm = {.n_cols = n_cols, .matrix = matrix, .first_segment = m->n_segments - n_segments, .n_segments = n_segments};
  pm.gene_order = pm.source_order = pm.flat = ANNB_NONE;
  pm.dtype = ANNB_F32;
  pm.form = ANNB_CSR;
  for (uint32_t i = pm.first_segment; i < m->n_segments; i++) pm.nnz += m->segments[i].nnz;
  ck_assert_int_eq(annb_manifest_add_part_matrix(m, &pm, NULL), ANNB_OK);
  m->parts[m->n_parts - 1].n_matrices++;
}

static void add_segment(annb_manifest *m, uint64_t n_rows, uint64_t nnz, uint32_t object) {
  annb_fmt_segment_ref s = {.n_rows = n_rows, .nnz = nnz, .object = object};
  ck_assert_int_eq(annb_manifest_add_segment(m, &s, NULL), ANNB_OK);
}

static void add_part(annb_manifest *m, uint64_t n_rows, uint32_t columns, uint32_t sidecar, uint32_t restore) {
  annb_fmt_part p = {.n_rows = n_rows, .n_vars = 20, .columns = columns, .sidecar = sidecar, .restore = restore};
  uint32_t row;
  p.gene_map = p.code_map = p.row_order = p.row_filter = ANNB_NONE;
  p.first_matrix = m->n_part_matrices;
  ck_assert_int_eq(annb_manifest_add_part(m, &p, &row, NULL), ANNB_OK);
}

/* Two parts of 7 and 5 cells, 20 genes; X in both (two segments and one), obsm/pca in the first only. */
static annb_manifest build(void) {
  annb_manifest m;
  uint32_t row;
  annb_manifest_init(&m);
  uint32_t seg[4], columns[2], sidecar, restore;
  for (uint8_t i = 0; i < 4; i++) seg[i] = add_object(&m, (uint8_t)(10 + i), ANNB_OBJECT_SEGMENT);
  columns[0] = add_object(&m, 20, ANNB_OBJECT_ARRAYS);
  columns[1] = add_object(&m, 21, ANNB_OBJECT_ARRAYS);
  sidecar = add_object(&m, 30, ANNB_OBJECT_SIDECAR);
  restore = add_object(&m, 40, ANNB_OBJECT_RESTORE);
  annb_fmt_matrix x = {.n_cols = 20, .axes = ANNB_OBS_VAR, .dtype = ANNB_F32};
  annb_fmt_matrix pca = {.n_cols = 3, .axes = ANNB_OBS_FREE, .dtype = ANNB_F64, .absent = ANNB_ABSENT_ERROR};
  ck_assert_int_eq(annb_manifest_add_matrix(&m, "X", x, &row, NULL), ANNB_OK);
  ck_assert_int_eq(annb_manifest_add_matrix(&m, "obsm/pca", pca, &row, NULL), ANNB_OK);
  add_part(&m, 7, columns[0], sidecar, restore);
  add_segment(&m, 4, 50, seg[0]);
  add_segment(&m, 3, 9, seg[1]);
  add_part_matrix(&m, 0, 20, 2);
  add_segment(&m, 7, 21, seg[2]);
  add_part_matrix(&m, 1, 3, 1);
  add_part(&m, 5, columns[1], sidecar, ANNB_NONE);
  add_segment(&m, 5, 0, seg[3]);
  add_part_matrix(&m, 0, 20, 1);
  m.store.n_obs = 12;
  m.store.n_vars = 20;
  m.store.var_part = 0;
  m.header.generation = 1;
  return m;
}

static uint8_t *build_file(size_t *size) {
  annb_manifest m = build();
  ck_assert_int_eq(annb_manifest_write(&m, path, NULL), ANNB_OK);
  annb_manifest_free(&m);
  return temp_read(path, size);
}

static annb_status parse(const uint8_t *data, size_t size) {
  annb_manifest m;
  annb_error err = {.status = ANNB_OK};
  annb_status s = annb_manifest_parse(data, size, "manifest", 1, &m, &err);
  ck_assert_int_eq(s, err.status);
  annb_manifest_free(&m);
  return s;
}

START_TEST(round_trip) {
  annb_manifest m = build(), back;
  ck_assert_int_eq(annb_manifest_write(&m, path, NULL), ANNB_OK);
  ck_assert_int_eq(annb_manifest_load(path, 1, &back, NULL), ANNB_OK);
  ck_assert_int_eq(memcmp(&m.header, &back.header, sizeof m.header), 0);
  ck_assert_int_eq(memcmp(&m.store, &back.store, sizeof m.store), 0);
  ck_assert_int_eq(memcmp(m.sha256, back.sha256, sizeof m.sha256), 0);
  ck_assert_uint_eq(m.file_size, back.file_size);
  ck_assert_uint_eq(back.export_mask, 0);
#define SAME(rows, n, expected) \
  ck_assert_uint_eq(back.n, expected); \
  ck_assert_uint_eq(m.n, expected); \
  ck_assert_int_eq(memcmp(m.rows, back.rows, expected * sizeof *m.rows), 0)
  SAME(objects, n_objects, 8);
  SAME(matrices, n_matrices, 2);
  SAME(parts, n_parts, 2);
  SAME(part_matrices, n_part_matrices, 3);
  SAME(segments, n_segments, 4);
  SAME(names, names_length, 9);
#undef SAME
  char *name = annb_manifest_matrix_name(&back, 1);
  ck_assert_str_eq(name, "obsm/pca");
  free(name);
  annb_manifest_free(&m);
  annb_manifest_free(&back);
}
END_TEST

START_TEST(bytes_follow_the_specification) {
  size_t size;
  uint8_t *data = build_file(&size), digest[ANNB_SHA256_SIZE];
  annb_sha256 sha;
  ck_assert_int_eq(memcmp(data, "\x89" "ANM\r\n\x1a\n", 8), 0);
  ck_assert(data[40] == 1 && annb_all_zero(data + 41, 7)); /* generation */
  ck_assert(annb_all_zero(data + 64, 56));                 /* parent, zero */
  annb_sha256_init(&sha);
  for (uint32_t kind = 1; kind <= 8; kind++) {
    annb_fmt_section s = reseal_section(data, size, kind);
    ck_assert_uint_eq(s.flags, ANNB_SECTION_CRITICAL);
    annb_sha256_update(&sha, data + s.offset, s.length);
  }
  annb_sha256_final(&sha, digest);
  ck_assert_int_eq(memcmp(data + 48, digest, 16), 0); /* store id */
  ck_assert_uint_eq(reseal_section(data, size, ANNB_SEC_STORE).offset, 128);
  ck_assert_uint_eq(reseal_section(data, size, ANNB_SEC_OBJECTS).length, 8 * 64);
  ck_assert_uint_eq(reseal_section(data, size, ANNB_SEC_PARTS).length, 2 * 128);
  ck_assert_uint_eq(reseal_section(data, size, ANNB_SEC_SEGMENTS).length, 4 * 32);
  ck_assert_uint_eq(reseal_section(data, size, ANNB_SEC_SCHEMA).length, 0);
  ck_assert_uint_eq(reseal_section(data, size, ANNB_SEC_MANIFEST_NAMES).length, 9);
  free(data);
}
END_TEST

START_TEST(same_rows_same_bytes) {
  size_t a_size, b_size;
  uint8_t *a = build_file(&a_size);
  ck_assert_int_eq(unlink(path), 0);
  uint8_t *b = build_file(&b_size);
  ck_assert(a_size == b_size && !memcmp(a, b, a_size));
  free(a);
  free(b);
}
END_TEST

START_TEST(every_bit_counts) {
  size_t size;
  uint8_t *data = build_file(&size);
  ck_assert_int_eq(parse(data, size), ANNB_OK);
  for (size_t i = 0; i < size; i++) {
    for (int bit = 0; bit < 8; bit++) {
      data[i] ^= (uint8_t)(1 << bit);
      annb_status s = parse(data, size);
      ck_assert_msg(s == (i < 8 ? ANNB_ENOTSTORE : ANNB_ECORRUPT), "byte %zu bit %d: %s", i, bit, annb_status_name(s));
      data[i] ^= (uint8_t)(1 << bit);
    }
  }
  ck_assert_int_eq(parse(data, size), ANNB_OK);
  free(data);
}
END_TEST

START_TEST(every_length_counts) {
  annb_manifest m;
  size_t size;
  uint8_t *data = build_file(&size);
  for (size_t n = 0; n < size; n++) {
    uint8_t *exact = malloc(n ? n : 1);
    memcpy(exact, data, n);
    ck_assert_msg(parse(exact, n) == ANNB_ECORRUPT, "length %zu", n);
    free(exact);
  }
  ck_assert_int_eq(chmod(path, 0600), 0);
  for (size_t n = size; n-- > size - 200;) { /* on disk too */
    ck_assert_int_eq(truncate(path, (off_t)n), 0);
    ck_assert_int_eq(annb_manifest_load(path, 1, &m, NULL), ANNB_ECORRUPT);
  }
  ck_assert_int_eq(truncate(path, 0), 0);
  ck_assert_int_eq(annb_manifest_load(path, 1, &m, NULL), ANNB_ECORRUPT);
  ck_assert_int_eq(unlink(path), 0);
  ck_assert_int_eq(annb_manifest_load(path, 1, &m, NULL), ANNB_EIO);
  free(data);
}
END_TEST

START_TEST(counts_do_not_allocate) {
  /* a section row that states more than the file holds, sealed again, is refused before anything is allocated from it */
  size_t size;
  uint8_t *data = build_file(&size);
  const uint64_t counts[] = {UINT64_C(1) << 20, (UINT64_C(1) << 20) + 1, UINT64_C(1) << 32, UINT64_C(1) << 58, UINT64_MAX};
  for (uint32_t kind = 1; kind <= 8; kind++) {
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
      uint8_t *copy = malloc(size);
      memcpy(copy, data, size);
      annb_fmt_section s = reseal_section(copy, size, kind);
      s.count = counts[i];
      memcpy(copy + reseal_row(copy, size, kind), &s, sizeof s);
      reseal_ends(copy, size);
      ck_assert_int_eq(parse(copy, size), ANNB_ECORRUPT);
      s.length = counts[i];
      memcpy(copy + reseal_row(copy, size, kind), &s, sizeof s);
      reseal_ends(copy, size);
      ck_assert_int_eq(parse(copy, size), ANNB_ECORRUPT);
      free(copy);
    }
  }
  free(data);
}
END_TEST

/* ---- one rule broken in a manifest that is sealed right ---- */

typedef struct breakage {
  const char *what;
  void (*apply)(annb_manifest *m);
  annb_status expected;
} breakage;

#define BREAK(name, statement) \
  static void name(annb_manifest *m) { statement; }
BREAK(nothing, (void)m)
BREAK(store_zero, m->store.zero0[39] = 1)
BREAK(store_n_obs_more, m->store.n_obs++)
BREAK(store_n_obs_less, m->store.n_obs--)
BREAK(store_n_obs_huge, m->store.n_obs = UINT64_MAX)
BREAK(store_n_vars, m->store.n_vars++)
BREAK(store_n_vars_huge, m->store.n_vars = UINT64_C(1) << 31)
BREAK(var_part_range, m->store.var_part = 2)
BREAK(var_part_none, m->store.var_part = ANNB_NONE)
BREAK(var_object_too, m->store.var_object = 4)
BREAK(var_object_only, (m->store.var_part = ANNB_NONE, m->store.var_object = 4))
BREAK(var_object_kind, (m->store.var_part = ANNB_NONE, m->store.var_object = 0))
BREAK(object_kind_0, m->objects[0].kind = 0)
BREAK(object_kind_5, m->objects[7].kind = 5)
BREAK(object_zero, m->objects[3].zero0 = 1)
BREAK(object_size, m->objects[3].size = UINT64_C(1) << 63)
BREAK(object_twice, memcpy(m->objects[5].sha256, m->objects[4].sha256, 32))
BREAK(object_same_bytes_other_kind, memcpy(m->objects[7].sha256, m->objects[6].sha256, 32))
BREAK(sidecar_hash, m->objects[6].footer_hash[0] = 1)
BREAK(restore_hash, m->objects[7].footer_hash[15] = 1)
BREAK(matrix_name_outside, m->matrices[1].name_offset = 2)
BREAK(matrix_name_far, m->matrices[1].name_offset = UINT32_MAX)
BREAK(matrix_name_long, m->matrices[0].name_length = UINT32_MAX)
BREAK(matrix_name_empty, m->matrices[0].name_length = 0)
BREAK(matrix_name_zero_byte, m->names[3] = 0)
BREAK(matrix_name_twice, (m->matrices[1].name_offset = 0, m->matrices[1].name_length = 1))
BREAK(matrix_name_not_utf8, m->names[3] = (char)0xFF)
BREAK(matrix_axes_0, m->matrices[0].axes = 0)
BREAK(matrix_axes_4, m->matrices[0].axes = 4)
BREAK(matrix_dtype_0, m->matrices[0].dtype = 0)
BREAK(matrix_dtype_13, m->matrices[0].dtype = 13)
BREAK(matrix_absent, m->matrices[0].absent = 3)
BREAK(matrix_missing, m->matrices[1].absent = ANNB_ABSENT_NEVER)
BREAK(matrix_zero, m->matrices[0].zero0[44] = 1)
BREAK(matrix_cols, m->matrices[0].n_cols++)
BREAK(matrix_cols_free, m->matrices[1].n_cols++)
BREAK(matrix_cols_huge, m->matrices[1].n_cols = m->part_matrices[1].n_cols = UINT64_C(1) << 31)
BREAK(part_rows, (m->parts[0].n_rows++, m->store.n_obs++))
BREAK(part_rows_shift, (m->parts[0].n_rows++, m->parts[1].n_rows--))
BREAK(part_rows_wrap, (m->parts[0].n_rows = UINT64_MAX - 3, m->parts[1].n_rows = 16))
BREAK(part_vars, m->parts[1].n_vars = 19)
BREAK(part_columns_kind, m->parts[0].columns = 0)
BREAK(part_columns_range, m->parts[0].columns = 8)
BREAK(part_columns_none, m->parts[0].columns = ANNB_NONE)
BREAK(part_sidecar_kind, m->parts[0].sidecar = 7)
BREAK(part_restore_kind, m->parts[0].restore = 6)
BREAK(part_gene_map, m->parts[0].gene_map = 4)
BREAK(part_code_map, m->parts[0].code_map = 4)
BREAK(part_row_filter, m->parts[0].row_filter = 4)
BREAK(part_row_order_bit, m->parts[0].row_order = 4)
BREAK(part_row_order, (m->parts[0].row_order = 4, m->export_mask = ANNB_EXPORT_ROW_ORDER))
BREAK(part_row_order_kind, (m->parts[0].row_order = 0, m->export_mask = ANNB_EXPORT_ROW_ORDER))
BREAK(part_first_matrix, m->parts[1].first_matrix = 1)
BREAK(part_n_matrices, m->parts[1].n_matrices = 2)
BREAK(part_n_matrices_less, m->parts[1].n_matrices = 0)
BREAK(part_n_matrices_huge, m->parts[0].n_matrices = UINT32_MAX)
BREAK(part_zero, m->parts[0].zero0[75] = 1)
BREAK(pm_nnz, m->part_matrices[0].nnz++)
BREAK(pm_cols, m->part_matrices[0].n_cols--)
BREAK(pm_matrix, m->part_matrices[0].matrix = 2)
BREAK(pm_matrix_twice, (m->part_matrices[1].matrix = 0, m->part_matrices[1].n_cols = 20, m->matrices[1].absent = 2))
BREAK(pm_first_segment, m->part_matrices[1].first_segment = 1)
BREAK(pm_n_segments, m->part_matrices[2].n_segments = 2)
BREAK(pm_n_segments_huge, m->part_matrices[0].n_segments = UINT32_MAX)
BREAK(pm_gene_order_kind, m->part_matrices[0].gene_order = 0)
BREAK(pm_gene_order_range, m->part_matrices[0].gene_order = 8)
BREAK(pm_source_order_bit, m->part_matrices[0].source_order = 4)
BREAK(pm_source_order, (m->part_matrices[0].source_order = 4, m->export_mask = ANNB_EXPORT_SOURCE_ORDER))
BREAK(pm_flat, m->part_matrices[0].flat = 4)
BREAK(pm_dtype, m->part_matrices[0].dtype = 0)
BREAK(pm_form_0, m->part_matrices[0].form = 0)
BREAK(pm_form_4, m->part_matrices[0].form = 4)
BREAK(pm_zero, m->part_matrices[0].zero0[21] = 1)
BREAK(segment_rows, m->segments[0].n_rows++)
BREAK(segment_rows_wrap, (m->segments[0].n_rows = UINT64_MAX, m->segments[1].n_rows = 8))
BREAK(segment_nnz, m->segments[0].nnz++)
BREAK(segment_nnz_wrap, (m->segments[0].nnz = UINT64_MAX, m->segments[1].nnz = 60))
BREAK(segment_nnz_of_no_rows, (m->segments[0].n_rows = 0, m->segments[1].n_rows = 7))
BREAK(segment_nnz_over_rows, (m->segments[2].nnz = m->part_matrices[1].nnz = 7 * (UINT64_C(1) << 31)))
BREAK(segment_object_kind, m->segments[0].object = 4)
BREAK(segment_object_range, m->segments[0].object = 8)
BREAK(segment_object_none, m->segments[0].object = ANNB_NONE)
BREAK(segment_zero, m->segments[0].zero0[11] = 1)
BREAK(segment_left_over, m->n_part_matrices = 2; m->parts[1].n_matrices = 0; m->matrices[0].absent = 1)
BREAK(no_parts, m->n_parts = m->n_part_matrices = m->n_segments = 0; m->store.n_obs = 0)
BREAK(header_zero, m->header.zero0[23] = 1)
BREAK(header_parent, m->header.parent[0] = 1)
BREAK(generation_2, m->header.generation = 2; m->header.parent[0] = 1)
BREAK(generation_0, m->header.generation = 0)

#define ROW(name, expected) {#name, name, expected}
static const breakage breakages[] = {
    ROW(nothing, ANNB_OK),
    ROW(object_same_bytes_other_kind, ANNB_OK),
    ROW(var_object_only, ANNB_OK),
    ROW(matrix_name_not_utf8, ANNB_OK),
    ROW(part_columns_none, ANNB_OK),
    ROW(part_row_order, ANNB_OK),
    ROW(pm_source_order, ANNB_OK),
    ROW(pm_flat, ANNB_EUNSUPPORTED),
    ROW(store_zero, ANNB_ECORRUPT),
    ROW(store_n_obs_more, ANNB_ECORRUPT),
    ROW(store_n_obs_less, ANNB_ECORRUPT),
    ROW(store_n_obs_huge, ANNB_ECORRUPT),
    ROW(store_n_vars, ANNB_ECORRUPT),
    ROW(store_n_vars_huge, ANNB_ECORRUPT),
    ROW(var_part_range, ANNB_ECORRUPT),
    ROW(var_part_none, ANNB_ECORRUPT),
    ROW(var_object_too, ANNB_ECORRUPT),
    ROW(var_object_kind, ANNB_ECORRUPT),
    ROW(object_kind_0, ANNB_ECORRUPT),
    ROW(object_kind_5, ANNB_ECORRUPT),
    ROW(object_zero, ANNB_ECORRUPT),
    ROW(object_size, ANNB_ECORRUPT),
    ROW(object_twice, ANNB_ECORRUPT),
    ROW(sidecar_hash, ANNB_ECORRUPT),
    ROW(restore_hash, ANNB_ECORRUPT),
    ROW(matrix_name_outside, ANNB_ECORRUPT),
    ROW(matrix_name_far, ANNB_ECORRUPT),
    ROW(matrix_name_long, ANNB_ECORRUPT),
    ROW(matrix_name_empty, ANNB_ECORRUPT),
    ROW(matrix_name_zero_byte, ANNB_ECORRUPT),
    ROW(matrix_name_twice, ANNB_ECORRUPT),
    ROW(matrix_axes_0, ANNB_ECORRUPT),
    ROW(matrix_axes_4, ANNB_ECORRUPT),
    ROW(matrix_dtype_0, ANNB_ECORRUPT),
    ROW(matrix_dtype_13, ANNB_ECORRUPT),
    ROW(matrix_absent, ANNB_ECORRUPT),
    ROW(matrix_missing, ANNB_ECORRUPT),
    ROW(matrix_zero, ANNB_ECORRUPT),
    ROW(matrix_cols, ANNB_ECORRUPT),
    ROW(matrix_cols_free, ANNB_ECORRUPT),
    ROW(matrix_cols_huge, ANNB_ECORRUPT),
    ROW(part_rows, ANNB_ECORRUPT),
    ROW(part_rows_shift, ANNB_ECORRUPT),
    ROW(part_rows_wrap, ANNB_ECORRUPT),
    ROW(part_vars, ANNB_ECORRUPT),
    ROW(part_columns_kind, ANNB_ECORRUPT),
    ROW(part_columns_range, ANNB_ECORRUPT),
    ROW(part_sidecar_kind, ANNB_ECORRUPT),
    ROW(part_restore_kind, ANNB_ECORRUPT),
    ROW(part_gene_map, ANNB_ECORRUPT),
    ROW(part_code_map, ANNB_ECORRUPT),
    ROW(part_row_filter, ANNB_ECORRUPT),
    ROW(part_row_order_bit, ANNB_ECORRUPT),
    ROW(part_row_order_kind, ANNB_ECORRUPT),
    ROW(part_first_matrix, ANNB_ECORRUPT),
    ROW(part_n_matrices, ANNB_ECORRUPT),
    ROW(part_n_matrices_less, ANNB_ECORRUPT),
    ROW(part_n_matrices_huge, ANNB_ECORRUPT),
    ROW(part_zero, ANNB_ECORRUPT),
    ROW(pm_nnz, ANNB_ECORRUPT),
    ROW(pm_cols, ANNB_ECORRUPT),
    ROW(pm_matrix, ANNB_ECORRUPT),
    ROW(pm_matrix_twice, ANNB_ECORRUPT),
    ROW(pm_first_segment, ANNB_ECORRUPT),
    ROW(pm_n_segments, ANNB_ECORRUPT),
    ROW(pm_n_segments_huge, ANNB_ECORRUPT),
    ROW(pm_gene_order_kind, ANNB_ECORRUPT),
    ROW(pm_gene_order_range, ANNB_ECORRUPT),
    ROW(pm_source_order_bit, ANNB_ECORRUPT),
    ROW(pm_dtype, ANNB_ECORRUPT),
    ROW(pm_form_0, ANNB_ECORRUPT),
    ROW(pm_form_4, ANNB_ECORRUPT),
    ROW(pm_zero, ANNB_ECORRUPT),
    ROW(segment_rows, ANNB_ECORRUPT),
    ROW(segment_rows_wrap, ANNB_ECORRUPT),
    ROW(segment_nnz, ANNB_ECORRUPT),
    ROW(segment_nnz_wrap, ANNB_ECORRUPT),
    ROW(segment_nnz_of_no_rows, ANNB_ECORRUPT),
    ROW(segment_nnz_over_rows, ANNB_ECORRUPT),
    ROW(segment_object_kind, ANNB_ECORRUPT),
    ROW(segment_object_range, ANNB_ECORRUPT),
    ROW(segment_object_none, ANNB_ECORRUPT),
    ROW(segment_zero, ANNB_ECORRUPT),
    ROW(segment_left_over, ANNB_ECORRUPT),
    ROW(no_parts, ANNB_ECORRUPT),
    ROW(header_zero, ANNB_ECORRUPT),
    ROW(header_parent, ANNB_ECORRUPT),
    ROW(generation_2, ANNB_ECORRUPT),
    ROW(generation_0, ANNB_ECORRUPT),
};

START_TEST(every_rule) {
  for (const breakage *b = breakages; b < breakages + sizeof breakages / sizeof *breakages; b++) {
    annb_manifest m = build(), back;
    annb_error err = {.status = ANNB_OK};
    b->apply(&m);
    ck_assert_int_eq(annb_manifest_write(&m, path, NULL), ANNB_OK);
    annb_status s = annb_manifest_load(path, 1, &back, &err);
    ck_assert_msg(s == b->expected, "%s: %s (%s)", b->what, annb_status_name(s), err.message);
    if (s) ck_assert_ptr_eq(strstr(err.message, path), err.message);
    ck_assert_int_eq(unlink(path), 0);
    annb_manifest_free(&back);
    annb_manifest_free(&m);
  }
}
END_TEST

START_TEST(store_id_is_checked) {
  size_t size;
  uint8_t *data = build_file(&size);
  data[48] ^= 1;
  reseal_ends(data, size);
  ck_assert_int_eq(parse(data, size), ANNB_ECORRUPT);
  free(data);
}
END_TEST

START_TEST(features_and_schema_are_checked) {
  size_t size;
  uint8_t *data = build_file(&size);
  for (int bit = 0; bit < 6; bit++) { /* row filter is defined, but not read by this edition; from 4 on they are unknown */
    data[16] = (uint8_t)(1 << bit);
    reseal_ends(data, size);
    ck_assert_int_eq(parse(data, size), bit == 2 || bit >= 4 ? ANNB_EUNSUPPORTED : ANNB_OK);
  }
  data[16] = 0;
  annb_fmt_section schema = reseal_section(data, size, ANNB_SEC_SCHEMA), segments = reseal_section(data, size, ANNB_SEC_SEGMENTS);
  ck_assert_uint_eq(segments.count, 4);
  segments.count = 2; /* hand the last two segments over to the schema: 64 bytes, one row */
  segments.length = 64;
  schema.offset = segments.offset + 64;
  schema.length = 64;
  schema.count = 1;
  memcpy(data + reseal_row(data, size, ANNB_SEC_SEGMENTS), &segments, sizeof segments);
  memcpy(data + reseal_row(data, size, ANNB_SEC_SCHEMA), &schema, sizeof schema);
  reseal_hash(data, size, ANNB_SEC_SEGMENTS);
  reseal_hash(data, size, ANNB_SEC_SCHEMA);
  ck_assert_int_eq(parse(data, size), ANNB_ECORRUPT);
  free(data);
}
END_TEST

START_TEST(sections_must_be_critical) {
  size_t size;
  uint8_t *data = build_file(&size);
  for (uint32_t kind = 1; kind <= 8; kind++) {
    annb_fmt_section s = reseal_section(data, size, kind);
    s.flags = 0;
    memcpy(data + reseal_row(data, size, kind), &s, sizeof s);
    reseal_ends(data, size);
    ck_assert_int_eq(parse(data, size), ANNB_ECORRUPT);
    s.flags = ANNB_SECTION_CRITICAL;
    memcpy(data + reseal_row(data, size, kind), &s, sizeof s);
  }
  reseal_ends(data, size);
  ck_assert_int_eq(parse(data, size), ANNB_OK);
  free(data);
}
END_TEST

START_TEST(building) {
  annb_manifest m;
  annb_fmt_matrix x = {.n_cols = 1, .axes = ANNB_OBS_VAR, .dtype = ANNB_F32};
  annb_error err = {.status = ANNB_OK};
  uint32_t row;
  char *name = malloc(ANNB_MAX_NAME + 2);
  memset(name, 'n', ANNB_MAX_NAME + 1);
  name[ANNB_MAX_NAME + 1] = 0;
  annb_manifest_init(&m);
  ck_assert_int_eq(annb_manifest_add_matrix(&m, name, x, &row, &err), ANNB_EINVAL);
  ck_assert_int_eq(annb_manifest_add_matrix(&m, "", x, &row, &err), ANNB_EINVAL);
  name[ANNB_MAX_NAME] = 0;
  ck_assert_int_eq(annb_manifest_add_matrix(&m, name, x, &row, &err), ANNB_OK);
  ck_assert_int_eq(annb_manifest_add_matrix(&m, "n", x, &row, &err), ANNB_OK);
  ck_assert_uint_eq(row, 1);
  ck_assert_int_eq(annb_manifest_add_matrix(&m, name, x, &row, &err), ANNB_EINVAL);
  ck_assert_uint_eq(m.n_matrices, 2);
  ck_assert_uint_eq(add_object(&m, 1, ANNB_OBJECT_SIDECAR), 0);
  ck_assert_uint_eq(add_object(&m, 2, ANNB_OBJECT_SIDECAR), 1);
  ck_assert_uint_eq(add_object(&m, 1, ANNB_OBJECT_SIDECAR), 0); /* the same file */
  ck_assert_uint_eq(add_object(&m, 1, ANNB_OBJECT_RESTORE), 2); /* the same bytes under another name */
  annb_manifest_free(&m);
  free(name);
}
END_TEST

START_TEST(names_and_paths) {
  annb_fmt_object o = {.kind = ANNB_OBJECT_RESTORE};
  for (int i = 0; i < 32; i++) o.sha256[i] = (uint8_t)(i * 8 + 5);
  char *p = annb_object_path("a/b", &o);
  ck_assert_str_eq(p, "a/b/objects/050d151d252d353d454d555d656d757d858d959da5adb5bdc5cdd5dde5edf5fd.h5");
  free(p);
  o.kind = 5;
  ck_assert_ptr_null(annb_object_path("a", &o));
  p = annb_manifest_path("a/b", UINT64_MAX);
  ck_assert_str_eq(p, "a/b/manifests/18446744073709551615.annm");
  free(p);
  ck_assert_str_eq(annb_object_suffix(ANNB_OBJECT_SEGMENT), ".anns");
  ck_assert_str_eq(annb_object_suffix(ANNB_OBJECT_ARRAYS), ".annc");
  ck_assert_str_eq(annb_object_suffix(ANNB_OBJECT_SIDECAR), ".h5ad");
}
END_TEST

START_TEST(latest) {
  uint64_t g = 77;
  annb_error err = {.status = ANNB_OK};
  ck_assert_int_eq(annb_manifest_latest(path, &g, &err), ANNB_ENOTSTORE); /* missing */
  ck_assert_int_eq(annb_manifest_latest(dir, &g, &err), ANNB_ENOTSTORE);  /* without manifests/ */
  temp_write(path, "", 0);
  ck_assert_int_eq(annb_manifest_latest(path, &g, &err), ANNB_ENOTSTORE); /* a file */
  char *manifests = annb_io_join(dir, "manifests");
  ck_assert_int_eq(mkdir(manifests, 0777), 0);
  ck_assert_int_eq(annb_manifest_latest(dir, &g, &err), ANNB_OK);
  ck_assert_uint_eq(g, 0);
  const char *const names[] = {"00000000000000000009.annm", "00000000000000000010.annm", "00000000000000000000.annm",
                               "99999999999999999999.annm", "18446744073709551616.annm", "0000000000000000011.annm",
                               "00000000000000000012.ann",  "+0000000000000000013.annm", "00000000000000000014.annm~"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char *p = annb_io_join(manifests, names[i]);
    temp_write(p, "", 0);
    free(p);
  }
  ck_assert_int_eq(annb_manifest_latest(dir, &g, &err), ANNB_OK);
  ck_assert_uint_eq(g, 10);
  free(manifests);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("manifest");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, round_trip);
  tcase_add_test(tcase, bytes_follow_the_specification);
  tcase_add_test(tcase, same_rows_same_bytes);
  tcase_add_test(tcase, every_bit_counts);
  tcase_add_test(tcase, every_length_counts);
  tcase_add_test(tcase, counts_do_not_allocate);
  tcase_add_test(tcase, every_rule);
  tcase_add_test(tcase, store_id_is_checked);
  tcase_add_test(tcase, features_and_schema_are_checked);
  tcase_add_test(tcase, sections_must_be_critical);
  tcase_add_test(tcase, building);
  tcase_add_test(tcase, names_and_paths);
  tcase_add_test(tcase, latest);
  suite_add_tcase(suite, tcase);
  return suite_run(suite);
}
