/* Record codecs: exact round trips, selection, and decoders that never leave their buffers whatever the bytes. */
#define _GNU_SOURCE
#include "../store/codec/codec_kinds.h"
#include "suite.h"

#include <annblock/annblock.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALL_CODECS (~UINT64_C(0))

static uint64_t random_state;

static uint64_t next_random(void) {
  uint64_t x = random_state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

/* Memory whose last byte is directly before an unmapped page. */
typedef struct fence {
  uint8_t *map, *end;
  size_t mapped;
} fence;

static fence fence_new(size_t room) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (room + page - 1) / page * page;
  uint8_t *map = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert(map != MAP_FAILED);
  ck_assert_int_eq(mprotect(map + body, page, PROT_NONE), 0);
  return (fence){map, map + body, body + page};
}

static void fence_free(fence *f) { munmap(f->map, f->mapped); }

/* One row, with outputs and records at fences. */
typedef struct bench {
  annb_row_shape shape;
  uint32_t *indices, *out_indices;
  uint8_t *values, *out_values;
  fence index_fence, value_fence, record_fence;
  annb_scratch scratch;
} bench;

static size_t value_bytes(const bench *b) { return (size_t)b->shape.nnz * annb_dtype_size(b->shape.dtype); }

static void bench_open(bench *b, annb_dtype dtype, uint64_t n_cols, uint32_t nnz) {
  memset(b, 0, sizeof *b);
  b->shape = (annb_row_shape){n_cols, nnz, dtype};
  b->indices = malloc(4 * ((size_t)nnz + 1));
  b->values = malloc(value_bytes(b) + 1);
  size_t room = (size_t)nnz + ANNB_DECODE_SLACK;
  b->index_fence = fence_new(4 * room);
  b->value_fence = fence_new(annb_dtype_size(dtype) * room);
  b->record_fence = fence_new((size_t)nnz * 12 + 512);
  b->out_indices = (uint32_t *)(void *)(b->index_fence.end - 4 * room);
  b->out_values = b->value_fence.end - annb_dtype_size(dtype) * room;
}

static void bench_close(bench *b) {
  free(b->indices);
  free(b->values);
  fence_free(&b->index_fence);
  fence_free(&b->value_fence);
  fence_free(&b->record_fence);
  annb_scratch_free(&b->scratch);
}

static bool decode_at_fence(bench *b, const uint8_t *record, size_t length) {
  uint8_t *at = b->record_fence.end - length;
  if (length) memcpy(at, record, length);
  return annb_record_decode(&b->shape, at, length, b->out_indices, b->out_values, &b->scratch);
}

static void assert_decodes_to_source(bench *b, const uint8_t *record, size_t length) {
  memset(b->out_indices, 0xEE, 4 * (size_t)b->shape.nnz);
  memset(b->out_values, 0xEE, value_bytes(b));
  ck_assert(decode_at_fence(b, record, length));
  ck_assert(memcmp(b->out_indices, b->indices, 4 * (size_t)b->shape.nnz) == 0);
  ck_assert(memcmp(b->out_values, b->values, value_bytes(b)) == 0);
}

static void assert_indices_in_range(const bench *b) {
  uint32_t outside = 0;
  for (uint32_t i = 0; i < b->shape.nnz; i++) outside += b->out_indices[i] >= b->shape.n_cols;
  ck_assert_uint_eq(outside, 0);
}

/* ---- contents ---- */

enum { ASCENDING, UNSORTED, REPEATED, DENSE, N_ORDERS };

static void fill_indices(bench *b, int order) {
  uint64_t n_cols = b->shape.n_cols, nnz = b->shape.nnz;
  for (uint64_t i = 0; i < nnz; i++) {
    if (order == ASCENDING) b->indices[i] = (uint32_t)(i * n_cols / nnz);
    else if (order == UNSORTED) b->indices[i] = (uint32_t)(next_random() % n_cols);
    else if (order == REPEATED) b->indices[i] = (uint32_t)(n_cols - 1);
    else b->indices[i] = (uint32_t)i;
  }
  if (nnz && order == UNSORTED) b->indices[0] = (uint32_t)(n_cols - 1); /* the widest */
}

enum { SMALL_COUNTS, NOISE, CONSTANT, N_CONTENTS };

static void fill_values(bench *b, int content) {
  size_t vw = annb_dtype_size(b->shape.dtype);
  memset(b->values, content == CONSTANT ? 0xA5 : 0, value_bytes(b));
  for (uint32_t i = 0; i < b->shape.nnz; i++) {
    uint64_t x = next_random();
    if (content == SMALL_COUNTS) b->values[i * vw] = x % 4 ? 1 : (uint8_t)(x % 7);
    else if (content == NOISE) memcpy(b->values + i * vw, &x, vw);
  }
}

static const annb_dtype every_dtype[] = {ANNB_BOOL, ANNB_I8, ANNB_I16, ANNB_I32, ANNB_I64, ANNB_U8,
                                         ANNB_U16, ANNB_U32, ANNB_U64, ANNB_F16, ANNB_F32, ANNB_F64};
enum { N_DTYPES = sizeof every_dtype / sizeof *every_dtype };

/* ---- tests ---- */

/* Whether plain needs no more than this; it is shorter than its bound when it has no indices. */
static bool plain_is_smaller(const bench *b, size_t length) {
  return 2 + (size_t)b->shape.nnz * (annb_index_bytes(&b->shape, b->indices) + annb_dtype_size(b->shape.dtype)) <= length;
}

/* Every codec by itself, and the selection, give the row back; the selection takes a small count or dict, else the smallest, the lower code
 * on a tie. */
static void check_row(bench *b) {
  size_t bound = annb_record_bound(&b->shape), n, best = SIZE_MAX;
  const annb_codec *codecs = annb_codecs(&n);
  annb_codec_id best_id = 0;
  bool settled = false;
  fence record_fence = fence_new(bound);
  uint8_t *record = record_fence.end - bound;
  for (size_t i = 0; i < n; i++) {
    size_t length = codecs[i].encode(&b->shape, b->indices, b->values, record, bound, &b->scratch);
    if (length == 0) continue;
    ck_assert_uint_le(length, bound);
    ck_assert_uint_eq(record[0], codecs[i].id);
    assert_decodes_to_source(b, record, length);
    bool small = codecs[i].id >= ANNB_CODEC_COUNT && length <= 2 * (size_t)b->shape.nnz && length < bound && !plain_is_smaller(b, length);
    if (!settled && (small || length < best)) {
      best = length;
      best_id = codecs[i].id;
      settled = small;
    }
    ck_assert_uint_eq(codecs[i].encode(&b->shape, b->indices, b->values, record, length, &b->scratch), length);
    ck_assert_uint_eq(codecs[i].encode(&b->shape, b->indices, b->values, record, length - 1, &b->scratch), 0);
  }
  size_t chosen = annb_record_encode(&b->shape, ALL_CODECS, b->indices, b->values, record, &b->scratch);
  ck_assert_uint_eq(chosen, best);
  ck_assert_uint_eq(record[0], best_id);
  assert_decodes_to_source(b, record, chosen);
  fence_free(&record_fence);
}

START_TEST(rows_come_back_exactly) {
  static const uint64_t columns[] = {1, 2, 255, 256, 257, 65535, 65536, 65537, 100000, ANNB_MAX_COLS};
  static const uint32_t counts[] = {1, 2, 7, 127, 128, 129, 300, 1500};
  random_state = (uint64_t)_i;
  for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
      for (int variant = 0; variant < N_ORDERS * N_CONTENTS; variant++) {
        int order = variant % N_ORDERS;
        if (order == DENSE && counts[k] > columns[c]) continue;
        bench b;
        bench_open(&b, every_dtype[_i], columns[c], counts[k]);
        fill_indices(&b, order);
        fill_values(&b, variant / N_ORDERS);
        check_row(&b);
        bench_close(&b);
      }
}
END_TEST

START_TEST(special_floats_keep_their_bits) {
  static const uint32_t f32[] = {0x80000000u, 0, 0x7FC00001u, 0xFFC12345u, 0x7F800001u, 0x7F800000u, 1};
  static const uint64_t f64[] = {UINT64_C(1) << 63, 0, UINT64_C(0x7FF8000000000001), UINT64_C(0xFFF4DEADBEEF0001), 1};
  bench b;
  bench_open(&b, ANNB_F32, 100, 7);
  fill_indices(&b, UNSORTED);
  memcpy(b.values, f32, sizeof f32);
  check_row(&b);
  bench_close(&b);
  bench_open(&b, ANNB_F64, 5, 5);
  fill_indices(&b, DENSE);
  memcpy(b.values, f64, sizeof f64);
  check_row(&b);
  bench_close(&b);
}
END_TEST

START_TEST(dense_rows_need_no_indices) {
  bench b;
  uint8_t record[2 + 64 * 12];
  bench_open(&b, ANNB_F32, 64, 64);
  fill_indices(&b, DENSE);
  fill_values(&b, NOISE);
  size_t length = annb_record_encode(&b.shape, 0, b.indices, b.values, record, &b.scratch);
  ck_assert_uint_eq(length, 2 + 64 * 4);
  ck_assert_uint_eq(record[0], ANNB_CODEC_PLAIN);
  ck_assert_uint_eq(record[1], 0);
  ck_assert_mem_eq(record + 2, b.values, 64 * 4);
  uint32_t first = b.indices[0]; /* full, but not in order: indices are needed */
  b.indices[0] = b.indices[1];
  b.indices[1] = first;
  length = annb_record_encode(&b.shape, 0, b.indices, b.values, record, &b.scratch);
  ck_assert_uint_eq(length, 2 + 64 * 5);
  ck_assert_uint_eq(record[1], 1);
  assert_decodes_to_source(&b, record, length);
  bench_close(&b);
}
END_TEST

START_TEST(only_allowed_codecs_are_used) {
  bench b;
  bench_open(&b, ANNB_F32, 30000, 1500);
  fill_indices(&b, ASCENDING);
  fill_values(&b, CONSTANT);
  size_t bound = annb_record_bound(&b.shape);
  uint8_t *record = malloc(bound);
  ck_assert_uint_eq(annb_record_encode(&b.shape, 0, b.indices, b.values, record, &b.scratch), bound);
  ck_assert_uint_eq(record[0], ANNB_CODEC_PLAIN);
  ck_assert_uint_lt(annb_record_encode(&b.shape, 1u << ANNB_CODEC_LZ4, b.indices, b.values, record, &b.scratch), bound / 4);
  ck_assert_uint_eq(record[0], ANNB_CODEC_LZ4);
  free(record);
  bench_close(&b);
}
END_TEST

/* A record worked out by hand from the specification. */
START_TEST(plain_has_the_specified_bytes) {
  static const uint8_t expected[] = {1, 2, 0x2C, 0x01, 0x05, 0x00, 0x34, 0x12, 0xFF, 0xFF};
  static const uint16_t values[] = {0x1234, 0xFFFF};
  uint8_t record[sizeof expected];
  bench b;
  bench_open(&b, ANNB_U16, 301, 2);
  b.indices[0] = 300;
  b.indices[1] = 5;
  memcpy(b.values, values, sizeof values);
  ck_assert_uint_eq(annb_record_encode(&b.shape, ALL_CODECS, b.indices, b.values, record, &b.scratch), sizeof expected);
  ck_assert_mem_eq(record, expected, sizeof expected);
  bench_close(&b);
}
END_TEST

/* An LZ4 block of literals only: token F0 + length byte, then the planes. */
START_TEST(lz4_has_the_specified_planes) {
  static const uint8_t record[] = {2, 2, 0xC0, 0x2C, 0xD9, 0x00, 0x01, 0xFE, 0x00, 0x34, 0xFF, 0x07, 0x12, 0xFF, 0x00};
  static const uint32_t indices[] = {300, 5, 5};
  static const uint16_t values[] = {0x1234, 0xFFFF, 0x0007};
  bench b;
  bench_open(&b, ANNB_U16, 301, 3);
  memcpy(b.indices, indices, sizeof indices);
  memcpy(b.values, values, sizeof values);
  assert_decodes_to_source(&b, record, sizeof record);
  bench_close(&b);
}
END_TEST

START_TEST(empty_rows_have_no_bytes) {
  bench b;
  uint8_t record[1] = {ANNB_CODEC_PLAIN};
  bench_open(&b, ANNB_I64, 0, 0);
  ck_assert_uint_eq(annb_record_bound(&b.shape), 0);
  ck_assert_uint_eq(annb_record_encode(&b.shape, ALL_CODECS, b.indices, b.values, record, &b.scratch), 0);
  ck_assert(annb_record_decode(&b.shape, record, 0, b.indices, b.values, &b.scratch));
  ck_assert(!annb_record_decode(&b.shape, record, 1, b.indices, b.values, &b.scratch));
  b.shape.nnz = 1;
  b.shape.n_cols = 9;
  ck_assert(!annb_record_decode(&b.shape, record, 0, b.indices, b.values, &b.scratch));
  bench_close(&b);
}
END_TEST

START_TEST(unaligned_values_and_records_work) {
  bench b;
  bench_open(&b, ANNB_U64, 70000, 333);
  fill_indices(&b, UNSORTED);
  fill_values(&b, NOISE);
  size_t bound = annb_record_bound(&b.shape);
  uint8_t *record = malloc(bound + 1), *shifted = malloc(value_bytes(&b) + 3);
  memcpy(shifted + 3, b.values, value_bytes(&b));
  size_t length = annb_record_encode(&b.shape, 0, b.indices, shifted + 3, record + 1, &b.scratch);
  ck_assert_uint_eq(length, bound);
  ck_assert(annb_record_decode(&b.shape, record + 1, length, b.out_indices, b.out_values, &b.scratch));
  ck_assert_mem_eq(b.out_values, b.values, value_bytes(&b));
  free(record);
  free(shifted);
  bench_close(&b);
}
END_TEST

START_TEST(a_giant_row_works) {
  bench b;
  bench_open(&b, ANNB_U16, 1000000, 1000000);
  fill_indices(&b, UNSORTED);
  fill_values(&b, SMALL_COUNTS);
  check_row(&b);
  bench_close(&b);
}
END_TEST

/* Change a valid record in every way a byte can, and its length; what still decodes is in range. */
static void attack(bench *b, uint8_t *record, size_t length) {
  for (size_t at = 0; at < length; at++)
    for (int flip = 1; flip < 256; flip += at < 4 ? 1 : 9) {
      record[at] ^= (uint8_t)flip;
      if (decode_at_fence(b, record, length)) assert_indices_in_range(b);
      record[at] ^= (uint8_t)flip;
    }
  for (size_t cut = 0; cut < length; cut++)
    if (decode_at_fence(b, record, cut)) assert_indices_in_range(b);
}

START_TEST(damaged_records_never_leave_their_buffers) {
  random_state = 77;
  size_t n;
  const annb_codec *codecs = annb_codecs(&n);
  for (int variant = 0; variant < N_DTYPES; variant++) {
    bench b;
    bench_open(&b, every_dtype[variant], variant % 3 == 0 ? 40 : variant % 3 == 1 ? 300 : 70000, 40);
    fill_indices(&b, variant % 4 == 0 ? DENSE : UNSORTED);
    fill_values(&b, SMALL_COUNTS);
    size_t bound = annb_record_bound(&b.shape);
    uint8_t *record = malloc(bound + 1);
    for (size_t i = 0; i < n; i++) {
      size_t length = codecs[i].encode(&b.shape, b.indices, b.values, record, bound, &b.scratch);
      if (length == 0) continue;
      attack(&b, record, length);
      record[length] = 0;
      ck_assert_msg(!decode_at_fence(&b, record, length + 1), "%s takes a byte too many", codecs[i].name);
    }
    free(record);
    bench_close(&b);
  }
}
END_TEST

START_TEST(garbage_is_refused_or_in_range) {
  random_state = 5;
  size_t n;
  const annb_codec *codecs = annb_codecs(&n);
  uint8_t record[400];
  for (int round = 0; round < 4000; round++) {
    bench b;
    uint64_t n_cols = 1 + next_random() % (round % 2 ? 300 : 70000);
    uint32_t nnz = (uint32_t)(1 + next_random() % 90);
    bench_open(&b, every_dtype[next_random() % N_DTYPES], n_cols, nnz);
    size_t length = next_random() % sizeof record;
    for (size_t i = 0; i < length; i++) record[i] = (uint8_t)next_random();
    if (length > 0) record[0] = (uint8_t)codecs[next_random() % n].id;
    if (length > 1 && round % 3) record[1] &= 7;
    if (decode_at_fence(&b, record, length)) assert_indices_in_range(&b);
    bench_close(&b);
  }
}
END_TEST

START_TEST(indices_past_the_columns_are_refused) {
  bench b;
  uint8_t record[64];
  static const uint32_t indices[] = {5, 199, 7};
  bench_open(&b, ANNB_U8, 200, 3);
  memcpy(b.indices, indices, sizeof indices);
  memset(b.values, 1, 3);
  size_t n;
  const annb_codec *codecs = annb_codecs(&n);
  for (size_t i = 0; i < n; i++) {
    b.shape.n_cols = 200;
    size_t length = codecs[i].encode(&b.shape, b.indices, b.values, record, sizeof record, &b.scratch);
    if (length == 0) continue;
    ck_assert(decode_at_fence(&b, record, length));
    b.shape.n_cols = 199;
    ck_assert(!decode_at_fence(&b, record, length));
  }
  bench_close(&b);
}
END_TEST

START_TEST(unknown_codes_and_types_are_refused) {
  bench b;
  uint8_t record[32] = {0};
  bench_open(&b, ANNB_U8, 300, 4);
  size_t n;
  const annb_codec *codecs = annb_codecs(&n);
  for (int code = 0; code < 256; code++) {
    bool known = false;
    for (size_t i = 0; i < n; i++) known |= (int)codecs[i].id == code;
    record[0] = (uint8_t)code;
    if (!known) ck_assert(!decode_at_fence(&b, record, sizeof record));
  }
  record[0] = ANNB_CODEC_PLAIN;
  record[1] = 2;
  ck_assert(decode_at_fence(&b, record, 2 + 4 * 3));
  record[1] = 3;
  ck_assert(!decode_at_fence(&b, record, 2 + 4 * 4));
  record[1] = 2;
  b.shape.dtype = (annb_dtype)13;
  ck_assert(!decode_at_fence(&b, record, 2 + 4 * 3));
  bench_close(&b);
}
END_TEST

/* A short record that claims many elements must not make the decoder allocate for them. */
START_TEST(short_records_cannot_claim_much_memory) {
  annb_row_shape shape = {ANNB_MAX_COLS, 1u << 27, ANNB_F64};
  uint8_t record[32] = {0, 4, 0xF0, 0xFF};
  annb_scratch scratch = {0};
  size_t n;
  const annb_codec *codecs = annb_codecs(&n);
  for (size_t i = 0; i < n; i++) {
    record[0] = (uint8_t)codecs[i].id;
    ck_assert(!annb_record_decode(&shape, record, sizeof record, NULL, NULL, &scratch));
  }
  for (int i = 0; i < 4; i++) ck_assert_uint_lt(scratch.size[i], 1 << 20);
  annb_scratch_free(&scratch);
}
END_TEST

START_TEST(the_table_is_in_order) {
  size_t n;
  const annb_codec *codecs = annb_codecs(&n);
  uint64_t mask = 0;
  for (size_t i = 0; i < n; i++) {
    if (i) ck_assert_uint_gt(codecs[i].id, codecs[i - 1].id);
    mask |= UINT64_C(1) << codecs[i].id;
  }
  ck_assert_uint_eq(mask, ANNB_KNOWN_CODECS);
}
END_TEST

START_TEST(scratch_grows_and_is_aligned) {
  annb_scratch scratch = {0};
  for (size_t size = 1; size < 100000; size = size * 3 + 1) {
    uint8_t *p = annb_scratch_get(&scratch, 2, size);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq((uintptr_t)p % 64, 0);
    memset(p, 1, size);
  }
  void *p = annb_scratch_get(&scratch, 2, 100);
  ck_assert_ptr_eq(annb_scratch_get(&scratch, 2, 50), p);
  ck_assert_ptr_null(annb_scratch_get(&scratch, 1, SIZE_MAX - 10));
  annb_scratch_free(&scratch);
  ck_assert_ptr_null(scratch.data[2]);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("codec");
  TCase *rows = tcase_create("rows"), *damage = tcase_create("damage");
  tcase_set_timeout(rows, 300);
  tcase_set_timeout(damage, 300);
  tcase_add_loop_test(rows, rows_come_back_exactly, 0, N_DTYPES);
  tcase_add_test(rows, special_floats_keep_their_bits);
  tcase_add_test(rows, dense_rows_need_no_indices);
  tcase_add_test(rows, only_allowed_codecs_are_used);
  tcase_add_test(rows, plain_has_the_specified_bytes);
  tcase_add_test(rows, lz4_has_the_specified_planes);
  tcase_add_test(rows, empty_rows_have_no_bytes);
  tcase_add_test(rows, unaligned_values_and_records_work);
  tcase_add_test(rows, a_giant_row_works);
  tcase_add_test(rows, the_table_is_in_order);
  tcase_add_test(rows, scratch_grows_and_is_aligned);
  tcase_add_test(damage, damaged_records_never_leave_their_buffers);
  tcase_add_test(damage, garbage_is_refused_or_in_range);
  tcase_add_test(damage, indices_past_the_columns_are_refused);
  tcase_add_test(damage, unknown_codes_and_types_are_refused);
  tcase_add_test(damage, short_records_cannot_claim_much_memory);
  suite_add_tcase(suite, rows);
  suite_add_tcase(suite, damage);
  return suite_run(suite);
}
