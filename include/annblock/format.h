/* The on-disk layout of SPEC.md as C structures: nothing here says more than the specification does.
 * All fields are little-endian. Sizes and offsets are asserted below. */
#ifndef ANNBLOCK_FORMAT_H
#define ANNBLOCK_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define ANNB_ASSERT(cond, text) static_assert(cond, text)
#else
#define ANNB_ASSERT(cond, text) _Static_assert(cond, text)
#endif

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "annblock needs a little-endian machine"
#endif

#define ANNB_VERSION_MAJOR 0
#define ANNB_VERSION_MINOR 1

#define ANNB_MAGIC_SIZE 8
#define ANNB_MAGIC_SEGMENT "\x89" "ANS\r\n\x1a\n"
#define ANNB_MAGIC_ARRAYS "\x89" "ANC\r\n\x1a\n"
#define ANNB_MAGIC_MANIFEST "\x89" "ANM\r\n\x1a\n"

#define ANNB_NONE 0xFFFFFFFFu /* no object, array or column */
#define ANNB_PAGE 4096u
#define ANNB_PAGE_ENTRIES 255u
#define ANNB_CHUNK 65536u
#define ANNB_ARRAY_ALIGN 64u
#define ANNB_SHA256_SIZE 32

#define ANNB_MAX_ROWS (UINT64_C(1) << 40)
#define ANNB_MAX_COLS ((UINT64_C(1) << 31) - 1)
#define ANNB_MAX_NNZ (UINT64_C(1) << 48)
#define ANNB_MAX_ROW_NNZ ((UINT64_C(1) << 31) - 1)
#define ANNB_MAX_TABLE (UINT64_C(1) << 20)
#define ANNB_MAX_SCHEMA 65536u /* rows */
#define ANNB_MAX_SCHEMA_PLACES (UINT64_C(1) << 22) /* rows of the schema × parts */
#define ANNB_MAX_MANIFEST (UINT64_C(1) << 30)
#define ANNB_MAX_NAME 65535u
#define ANNB_MAX_BLOCK_ROWS (UINT32_C(1) << 20)
#define ANNB_MAX_SECTIONS 64u

typedef enum annb_dtype {
  ANNB_BOOL = 1,
  ANNB_I8 = 2,
  ANNB_I16 = 3,
  ANNB_I32 = 4,
  ANNB_I64 = 5,
  ANNB_U8 = 6,
  ANNB_U16 = 7,
  ANNB_U32 = 8,
  ANNB_U64 = 9,
  ANNB_F16 = 10,
  ANNB_F32 = 11,
  ANNB_F64 = 12
} annb_dtype;

typedef enum annb_form { ANNB_CSR = 1, ANNB_CSC = 2, ANNB_DENSE = 3 } annb_form;
typedef enum annb_axes { ANNB_OBS_VAR = 1, ANNB_OBS_RAW_VAR = 2, ANNB_OBS_FREE = 3 } annb_axes;
typedef enum annb_absent { ANNB_ABSENT_NEVER = 0, ANNB_ABSENT_ZERO = 1, ANNB_ABSENT_ERROR = 2 } annb_absent;
typedef enum annb_codec_id { ANNB_CODEC_PLAIN = 1, ANNB_CODEC_LZ4 = 2, ANNB_CODEC_COUNT = 3, ANNB_CODEC_DICT = 4 } annb_codec_id;
typedef enum annb_object_kind {
  ANNB_OBJECT_SEGMENT = 1,
  ANNB_OBJECT_ARRAYS = 2,
  ANNB_OBJECT_SIDECAR = 3,
  ANNB_OBJECT_RESTORE = 4
} annb_object_kind;
typedef enum annb_axis { ANNB_AXIS_NONE = 0, ANNB_AXIS_OBS = 1, ANNB_AXIS_VAR = 2 } annb_axis;
typedef enum annb_column_kind { ANNB_COLUMN_FIXED = 1, ANNB_COLUMN_STRING = 2, ANNB_COLUMN_CATEGORICAL = 3 } annb_column_kind;

#define ANNB_COLUMN_INDEX 1u
#define ANNB_COLUMN_ORDERED 2u
#define ANNB_SECTION_CRITICAL 1u
#define ANNB_INCOMPAT_GENE_ORDER (UINT64_C(1) << 0) /* incompat mask of a segment (2.2) */
#define ANNB_INCOMPAT_GENE_MAP (UINT64_C(1) << 0)   /* incompat mask of a manifest */
#define ANNB_INCOMPAT_CODE_MAP (UINT64_C(1) << 1)
#define ANNB_INCOMPAT_ROW_FILTER (UINT64_C(1) << 2)
#define ANNB_INCOMPAT_SCHEMA (UINT64_C(1) << 3)
#define ANNB_EXPORT_SORTED (UINT64_C(1) << 0)       /* export mask of a segment */
#define ANNB_EXPORT_ROW_ORDER (UINT64_C(1) << 0)    /* export mask of a manifest (2.2) */
#define ANNB_EXPORT_SOURCE_ORDER (UINT64_C(1) << 1) /* likewise */

enum { ANNB_SEC_BLOCKS = 1, ANNB_SEC_INDEX = 2, ANNB_SEC_META = 3 };
enum { ANNB_SEC_ARRAYS = 1, ANNB_SEC_CHECKS = 2, ANNB_SEC_ARRAY_TABLE = 3, ANNB_SEC_COLUMN_TABLE = 4, ANNB_SEC_NAMES = 5 };
enum {
  ANNB_SEC_STORE = 1,
  ANNB_SEC_OBJECTS = 2,
  ANNB_SEC_MATRICES = 3,
  ANNB_SEC_PARTS = 4,
  ANNB_SEC_PART_MATRICES = 5,
  ANNB_SEC_SEGMENTS = 6,
  ANNB_SEC_SCHEMA = 7,
  ANNB_SEC_MANIFEST_NAMES = 8
};

/* 2.1; `kind` is read as one of the three structures below */
typedef struct annb_fmt_header {
  uint8_t magic[8];
  uint16_t major, minor;
  uint32_t header_size;
  uint64_t incompat, export_mask, compat;
  uint8_t kind[80];
  uint64_t check;
} annb_fmt_header;

/* 3.1 */
typedef struct annb_fmt_segment_header {
  uint64_t n_cols, row_base;
  uint32_t block_rows;
  uint8_t dtype, zero0[3];
  uint64_t codecs;
  uint8_t tag[16], gene_order[32];
} annb_fmt_segment_header;

/* 5.1 */
typedef struct annb_fmt_manifest_header {
  uint64_t generation;
  uint8_t store_id[16], parent[32], zero0[24];
} annb_fmt_manifest_header;

/* 2.3 */
typedef struct annb_fmt_footer {
  uint64_t header_check;
  uint32_t n_sections, zero0;
} annb_fmt_footer;

typedef struct annb_fmt_section {
  uint32_t kind, flags;
  uint64_t offset, length, count;
  uint8_t hash[16], zero0[16];
} annb_fmt_section;

/* 2.4 */
typedef struct annb_fmt_trailer {
  uint8_t magic[8];
  uint64_t file_size, footer_offset, footer_size;
  uint8_t footer_hash[16];
  uint64_t zero0, check;
} annb_fmt_trailer;

/* 3.3 */
typedef struct annb_fmt_entry {
  uint64_t end;
  uint32_t nnz, check;
} annb_fmt_entry;

typedef struct annb_fmt_page {
  uint64_t page_check, first_row;
  annb_fmt_entry entries[ANNB_PAGE_ENTRIES];
} annb_fmt_page;

/* 3.4 */
typedef struct annb_fmt_segment_meta {
  uint64_t n_rows, nnz, max_row_nnz, max_record;
  uint8_t zero0[32];
} annb_fmt_segment_meta;

/* 4.3, 4.4 */
typedef struct annb_fmt_array {
  uint64_t offset, n_rows, n_cols;
  uint32_t name_offset, name_length;
  uint8_t dtype, zero0[31];
} annb_fmt_array;

typedef struct annb_fmt_column {
  uint64_t length;
  uint32_t name_offset, name_length;
  uint8_t axis, kind, flags, zero0;
  uint32_t values, bytes, mask, categories;
  uint8_t zero1[28];
} annb_fmt_column;

/* 5.2 to 5.8 */
typedef struct annb_fmt_store {
  uint64_t n_obs, n_vars;
  uint32_t var_part, var_object;
  uint8_t zero0[40];
} annb_fmt_store;

typedef struct annb_fmt_object {
  uint8_t sha256[32], footer_hash[16];
  uint64_t size;
  uint32_t kind, zero0;
} annb_fmt_object;

typedef struct annb_fmt_matrix {
  uint64_t n_cols;
  uint32_t name_offset, name_length;
  uint8_t axes, dtype, absent, zero0[45];
} annb_fmt_matrix;

typedef struct annb_fmt_part {
  uint64_t n_rows, n_vars;
  uint32_t columns, sidecar, restore, gene_map, code_map, row_order, row_filter;
  uint32_t first_matrix, n_matrices;
  uint8_t zero0[76];
} annb_fmt_part;

typedef struct annb_fmt_part_matrix {
  uint64_t nnz, n_cols;
  uint32_t matrix, first_segment, n_segments, gene_order, source_order, flat;
  uint8_t dtype, form, zero0[22];
} annb_fmt_part_matrix;

typedef struct annb_fmt_segment_ref {
  uint64_t n_rows, nnz;
  uint32_t object;
  uint8_t zero0[12];
} annb_fmt_segment_ref;

typedef struct annb_fmt_schema {
  uint32_t name_offset, name_length, categories_object, categories_column;
  uint8_t axis, kind, dtype, flags, zero0[44];
} annb_fmt_schema;

#define ANNB_AT(type, field, at) ANNB_ASSERT(offsetof(type, field) == (at), #type "." #field " must be at " #at)
#define ANNB_SIZE(type, size) ANNB_ASSERT(sizeof(type) == (size), #type " must have " #size " bytes")

ANNB_SIZE(annb_fmt_header, 128);
ANNB_AT(annb_fmt_header, header_size, 12);
ANNB_AT(annb_fmt_header, incompat, 16);
ANNB_AT(annb_fmt_header, export_mask, 24);
ANNB_AT(annb_fmt_header, compat, 32);
ANNB_AT(annb_fmt_header, kind, 40);
ANNB_AT(annb_fmt_header, check, 120);
ANNB_SIZE(annb_fmt_segment_header, 80);
ANNB_AT(annb_fmt_segment_header, block_rows, 16);
ANNB_AT(annb_fmt_segment_header, dtype, 20);
ANNB_AT(annb_fmt_segment_header, codecs, 24);
ANNB_AT(annb_fmt_segment_header, tag, 32);
ANNB_AT(annb_fmt_segment_header, gene_order, 48);
ANNB_SIZE(annb_fmt_manifest_header, 80);
ANNB_AT(annb_fmt_manifest_header, store_id, 8);
ANNB_AT(annb_fmt_manifest_header, parent, 24);
ANNB_SIZE(annb_fmt_footer, 16);
ANNB_SIZE(annb_fmt_section, 64);
ANNB_AT(annb_fmt_section, hash, 32);
ANNB_SIZE(annb_fmt_trailer, 64);
ANNB_AT(annb_fmt_trailer, footer_hash, 32);
ANNB_AT(annb_fmt_trailer, check, 56);
ANNB_SIZE(annb_fmt_entry, 16);
ANNB_SIZE(annb_fmt_page, ANNB_PAGE);
ANNB_SIZE(annb_fmt_segment_meta, 64);
ANNB_SIZE(annb_fmt_array, 64);
ANNB_AT(annb_fmt_array, name_offset, 24);
ANNB_AT(annb_fmt_array, dtype, 32);
ANNB_SIZE(annb_fmt_column, 64);
ANNB_AT(annb_fmt_column, axis, 16);
ANNB_AT(annb_fmt_column, values, 20);
ANNB_AT(annb_fmt_column, categories, 32);
ANNB_SIZE(annb_fmt_store, 64);
ANNB_AT(annb_fmt_store, var_part, 16);
ANNB_SIZE(annb_fmt_object, 64);
ANNB_AT(annb_fmt_object, size, 48);
ANNB_AT(annb_fmt_object, kind, 56);
ANNB_SIZE(annb_fmt_matrix, 64);
ANNB_AT(annb_fmt_matrix, axes, 16);
ANNB_SIZE(annb_fmt_part, 128);
ANNB_AT(annb_fmt_part, columns, 16);
ANNB_AT(annb_fmt_part, first_matrix, 44);
ANNB_AT(annb_fmt_part, zero0, 52);
ANNB_SIZE(annb_fmt_part_matrix, 64);
ANNB_AT(annb_fmt_part_matrix, matrix, 16);
ANNB_AT(annb_fmt_part_matrix, dtype, 40);
ANNB_SIZE(annb_fmt_segment_ref, 32);
ANNB_AT(annb_fmt_segment_ref, object, 16);
ANNB_SIZE(annb_fmt_schema, 64);
ANNB_AT(annb_fmt_schema, axis, 16);

#endif
