/* Segments: what is written comes back, the bytes depend on the data alone, and no damage gives a wrong value. */
#define _GNU_SOURCE
#include "suite.h"

#include "../store/codec/codec_kinds.h"
#include "../store/cursor.h"
#include "../store/objects/segment.h"

#include <annblock/annblock.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/annb_segment_XXXXXX";
static char path[128], other_path[128];

static uint64_t random_state;

static uint64_t next_random(void) {
  uint64_t x = random_state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

/* Under valgrind everything is some 50 times slower: take a part of the exhaustive loops. */
static size_t slow_step(size_t step) {
  const char *preload = getenv("LD_PRELOAD");
  return preload && strstr(preload, "vgpreload") ? step : 1;
}

/* ---- a matrix in memory ---- */

typedef struct matrix {
  uint64_t n_rows, n_cols;
  annb_dtype dtype;
  uint64_t *indptr;
  uint32_t *indices;
  uint8_t *values;
} matrix;

static size_t width(const matrix *m) { return annb_dtype_size(m->dtype); }

/* Rows of 0 … 2·mean elements; every seventh is empty. */
static matrix matrix_new(uint64_t n_rows, uint64_t n_cols, annb_dtype dtype, uint64_t mean) {
  matrix m = {n_rows, n_cols, dtype, malloc((n_rows + 1) * 8), NULL, NULL};
  m.indptr[0] = 0;
  for (uint64_t i = 0; i < n_rows; i++)
    m.indptr[i + 1] = m.indptr[i] + (i % 7 == 3 || n_cols == 0 ? 0 : next_random() % (2 * mean + 1));
  uint64_t nnz = m.indptr[n_rows];
  m.indices = malloc(nnz * 4 + 4);
  m.values = calloc(nnz + 1, width(&m));
  for (uint64_t k = 0; k < nnz; k++) {
    uint64_t x = next_random();
    m.indices[k] = (uint32_t)(next_random() % n_cols);
    if (x % 8 == 0) memcpy(m.values + k * width(&m), &x, width(&m));
    else m.values[k * width(&m)] = (uint8_t)(x % 3);
  }
  return m;
}

static void matrix_free(matrix *m) {
  free(m->indptr);
  free(m->indices);
  free(m->values);
}

static annb_segment_params params_of(const matrix *m, uint32_t block_rows) {
  return (annb_segment_params){.n_cols = m->n_cols, .dtype = m->dtype, .block_rows = block_rows,
                               .codecs = ANNB_KNOWN_CODECS, .tag = "0123456789abcde"};
}

/* Encode rows first … first + n − 1 and write them. */
static annb_status append(annb_segment_writer *w, const annb_segment_params *params, const matrix *m, uint64_t first, uint64_t n,
                          annb_error *err) {
  const annb_encode_rule rule = {params->n_cols, params->codecs, params->dtype, false, NULL};
  const uint64_t from = m->indptr[first];
  annb_encoder encoder = {0};
  annb_records records = {0};
  ck_assert(annb_encode_rows(&rule, &encoder, n, m->indptr + first, m->indices + from, m->values + from * width(m), &records));
  ck_assert_uint_eq(records.n_rows, n);
  annb_status s = annb_segment_writer_put(w, &records, 0, n / 2, err); /* in two steps, wherever blocks end */
  if (!s) s = annb_segment_writer_put(w, &records, n / 2, n - n / 2, err);
  annb_encoder_free(&encoder);
  annb_records_free(&records);
  return s;
}

/* Write in pieces of `chunk` rows each. */
static annb_segment_result write_segment(const char *to, const matrix *m, const annb_segment_params *params, uint64_t chunk) {
  annb_segment_writer *w;
  annb_error err;
  annb_segment_result result;
  unlink(to);
  ck_assert_msg(!annb_segment_writer_open(to, dir, params, &w, &err), "%s", err.message);
  for (uint64_t row = 0; row < m->n_rows; row += chunk) {
    uint64_t n = m->n_rows - row < chunk ? m->n_rows - row : chunk;
    annb_status s = append(w, params, m, row, n, &err);
    ck_assert_msg(!s, "%s", err.message);
    ck_assert_uint_eq(annb_segment_writer_rows(w), row + n);
  }
  ck_assert_msg(!annb_segment_writer_close(w, &result, &err), "%s", err.message);
  return result;
}

static uint8_t *read_file(const char *from, size_t *size) {
  struct stat st;
  int fd = open(from, O_RDONLY);
  ck_assert(fd >= 0 && fstat(fd, &st) == 0);
  *size = (size_t)st.st_size;
  uint8_t *data = malloc(*size + 1);
  ck_assert_int_eq(read(fd, data, *size), (ssize_t)*size);
  close(fd);
  return data;
}

static void write_file(const char *to, const uint8_t *data, size_t size) {
  unlink(to);
  int fd = open(to, O_WRONLY | O_CREAT | O_EXCL, 0666);
  ck_assert(fd >= 0);
  ck_assert_int_eq(write(fd, data, size), (ssize_t)size);
  close(fd);
}

/* ---- reading back ---- */

typedef struct reader {
  annb_scratch scratch;
  uint32_t *indices;
  uint8_t *values;
  uint64_t room;
} reader;

static void reader_free(reader *r) {
  annb_scratch_free(&r->scratch);
  free(r->indices);
  free(r->values);
}

/* ck_assert tells the parent process each time that it was passed: too slow for inner loops. */
#define REQUIRE(condition) (void)((condition) ? 0 : (ck_abort_msg("%s", #condition), 0))

/* Locate, check and decode a row; compare with the matrix when all succeed: a difference fails the test. */
static annb_status read_row(annb_segment *g, uint64_t row, const matrix *m, reader *r, annb_error *err) {
  annb_record_ref record;
  annb_status s = annb_segment_locate(g, row, &record, err);
  if (!s) s = annb_segment_check(g, row, &record, err);
  if (s) return s;
  if (record.nnz + ANNB_DECODE_SLACK > r->room) {
    r->room = 2 * ((uint64_t)record.nnz + ANNB_DECODE_SLACK);
    REQUIRE(r->room < 1 << 24);
    r->indices = realloc(r->indices, r->room * 4);
    r->values = realloc(r->values, r->room * 8);
  }
  s = annb_segment_decode(g, row, &record, r->indices, r->values, &r->scratch, err);
  if (s) return s;
  REQUIRE(record.nnz == m->indptr[row + 1] - m->indptr[row]);
  REQUIRE(!record.nnz || !memcmp(r->indices, m->indices + m->indptr[row], record.nnz * (size_t)4));
  REQUIRE(!record.nnz || !memcmp(r->values, m->values + m->indptr[row] * width(m), record.nnz * width(m)));
  return ANNB_OK;
}

static bool count_finding(void *user, const annb_error *finding) {
  REQUIRE(finding->status != ANNB_OK && finding->message[0]);
  ++*(int *)user;
  return true;
}

static int count_findings(annb_segment *g) {
  int n = 0;
  annb_segment_verify(g, count_finding, &n);
  return n;
}

/* The segment at `from` is whole and holds exactly the matrix. */
static void assert_segment_is(const char *from, const matrix *m) {
  annb_segment *g;
  annb_error err;
  annb_record_ref record;
  reader r = {0};
  ck_assert_msg(!annb_segment_open(from, &g, &err), "%s", err.message);
  ck_assert_uint_eq(g->meta.n_rows, m->n_rows);
  ck_assert_uint_eq(g->meta.nnz, m->indptr[m->n_rows]);
  for (uint64_t row = 0; row < m->n_rows; row++) ck_assert_msg(!read_row(g, row, m, &r, &err), "%s", err.message);
  ck_assert_int_eq(annb_segment_locate(g, m->n_rows, &record, &err), ANNB_ERANGE);
  ck_assert_int_eq(err.row, (int64_t)m->n_rows);
  ck_assert_int_eq(count_findings(g), 0);
  annb_segment_close(g);
  reader_free(&r);
}

/* ---- round trips ---- */

START_TEST(rows_come_back) {
  static const struct {
    uint64_t n_rows, n_cols, mean;
    uint32_t block_rows;
    annb_dtype dtype;
  } cases[] = {{0, 10, 1, 256, ANNB_F32},     {1, 10, 5, 1, ANNB_F64},      {254, 300, 20, 64, ANNB_U8}, {255, 300, 20, 1024, ANNB_I16},
               {256, 70000, 9, 256, ANNB_F32}, {1000, 33, 15, 16, ANNB_I64}, {511, 0, 1, 2, ANNB_F16},   {700, 1, 3, 1, ANNB_BOOL}};
  random_state = (uint64_t)_i;
  matrix m = matrix_new(cases[_i].n_rows, cases[_i].n_cols, cases[_i].dtype, cases[_i].mean);
  annb_segment_params params = params_of(&m, cases[_i].block_rows);
  annb_segment_result result = write_segment(path, &m, &params, m.n_rows + 1);
  assert_segment_is(path, &m);
  ck_assert_uint_eq(result.n_rows, m.n_rows);
  ck_assert_uint_eq(result.nnz, m.indptr[m.n_rows]);
  matrix_free(&m);
}
END_TEST

START_TEST(the_result_describes_the_file) {
  matrix m = matrix_new(300, 50, ANNB_F32, 10);
  annb_segment_params params = params_of(&m, 32);
  params.row_base = 1000;
  annb_segment_result result = write_segment(path, &m, &params, 77);
  size_t size;
  uint8_t *data = read_file(path, &size), sha256[32], footer_hash[16];
  annb_sha256 sha;
  annb_sha256_init(&sha);
  annb_sha256_update(&sha, data, size);
  annb_sha256_final(&sha, sha256);
  ck_assert_mem_eq(sha256, result.object.sha256, 32);
  ck_assert_uint_eq(size, result.object.size);
  ck_assert_uint_eq(result.object.kind, ANNB_OBJECT_SEGMENT);
  memcpy(footer_hash, data + size - 32, 16);
  ck_assert_mem_eq(footer_hash, result.object.footer_hash, 16);
  annb_segment *g;
  ck_assert(!annb_segment_open(path, &g, NULL));
  ck_assert_uint_eq(g->header.row_base, 1000);
  ck_assert_uint_eq(g->header.block_rows, 32);
  ck_assert_uint_eq(g->header.codecs, ANNB_KNOWN_CODECS);
  ck_assert_mem_eq(g->header.tag, params.tag, 16);
  annb_segment_close(g);
  free(data);
  matrix_free(&m);
}
END_TEST

/* Read the file by the specification alone, without segment.c. */
START_TEST(the_layout_is_the_specified_one) {
  random_state = 3;
  matrix m = matrix_new(600, 90, ANNB_U16, 12);
  annb_segment_params params = params_of(&m, 16);
  write_segment(path, &m, &params, 600);
  size_t size;
  uint8_t *data = read_file(path, &size);
  uint64_t footer, section[3][8], end = 4096, salt, value;
  memcpy(&salt, data + 120, 8);
  memcpy(&footer, data + size - 48, 8);
  memcpy(section, data + footer + 16, sizeof section);
  for (int i = 0; i < 3; i++) ck_assert_uint_eq((uint32_t)section[i][0], i + 1);
  ck_assert_uint_eq(section[0][1], 4096);
  ck_assert_uint_eq(section[1][1] % 4096, 0);
  ck_assert_uint_eq(section[1][3], 3);
  for (uint64_t row = 0; row < m.n_rows; row++) {
    const uint8_t *page = data + section[1][1] + row / 255 * 4096, *entry = page + 16 + row % 255 * 16;
    annb_fmt_entry e;
    memcpy(&e, entry, sizeof e);
    uint64_t start = row % 16 ? end : (end + 4095) / 4096 * 4096;
    ck_assert(annb_all_zero(data + end, start - end));
    ck_assert_uint_eq(e.nnz, m.indptr[row + 1] - m.indptr[row]);
    ck_assert_uint_eq(e.check, (uint32_t)annb_mix(annb_hash64(data + start, e.end - start), salt, row));
    memcpy(&value, page + 8, 8);
    ck_assert_uint_eq(value, row / 255 * 255);
    end = e.end;
  }
  ck_assert_uint_eq(end, 4096 + section[0][2]);
  memcpy(&value, data + section[2][1] + 8, 8);
  ck_assert_uint_eq(value, m.indptr[600]);
  free(data);
  matrix_free(&m);
}
END_TEST

START_TEST(bytes_depend_on_the_data_alone) {
  random_state = 11;
  matrix m = matrix_new(1100, 2000, ANNB_F32, 40);
  annb_segment_params params = params_of(&m, 32);
  annb_segment_result expected = write_segment(path, &m, &params, 1100);
  static const uint64_t chunks[] = {1, 31, 32, 33, 97, 500, 1100};
  for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
    annb_segment_result result = write_segment(other_path, &m, &params, chunks[i]);
    ck_assert_mem_eq(result.object.sha256, expected.object.sha256, 32);
  }
  assert_segment_is(other_path, &m);
  matrix_free(&m);
}
END_TEST

START_TEST(salts_tell_segments_apart) {
  matrix m = matrix_new(50, 40, ANNB_U8, 10);
  annb_segment_params params = params_of(&m, 64);
  annb_segment_result a = write_segment(path, &m, &params, 50);
  params.row_base = 50;
  annb_segment_result b = write_segment(path, &m, &params, 50);
  params.tag[3]++;
  annb_segment_result c = write_segment(path, &m, &params, 50);
  ck_assert_mem_ne(a.object.sha256, b.object.sha256, 32);
  ck_assert_mem_ne(b.object.sha256, c.object.sha256, 32);
  matrix_free(&m);
}
END_TEST

START_TEST(a_row_larger_than_a_block_works) {
  random_state = 9;
  matrix m = matrix_new(9, 500000, ANNB_F32, 200000);
  annb_segment_params params = params_of(&m, 4);
  write_segment(path, &m, &params, 2);
  assert_segment_is(path, &m);
  matrix_free(&m);
}
END_TEST

START_TEST(plain_only_lists_plain_only) {
  matrix m = matrix_new(40, 400, ANNB_F32, 100);
  annb_segment_params params = params_of(&m, 8);
  params.codecs = 0;
  write_segment(path, &m, &params, 40);
  annb_segment *g;
  annb_record_ref record;
  ck_assert(!annb_segment_open(path, &g, NULL));
  ck_assert_uint_eq(g->header.codecs, 1u << ANNB_CODEC_PLAIN);
  for (uint64_t row = 0; row < 40; row++) {
    ck_assert(!annb_segment_locate(g, row, &record, NULL));
    if (record.length) ck_assert_uint_eq(record.data[0], ANNB_CODEC_PLAIN);
  }
  annb_segment_close(g);
  assert_segment_is(path, &m);
  matrix_free(&m);
}
END_TEST

/* ---- wrong input ---- */

START_TEST(indices_past_the_columns_are_not_encoded) {
  static const uint64_t indptr[] = {7, 9, 10};
  static const uint32_t outside[] = {1, 2, 20}, inside[] = {1, 2, 19};
  static const float values[] = {1, 2, 3};
  const annb_encode_rule rule = {20, ANNB_KNOWN_CODECS, ANNB_F32, true, NULL};
  annb_encoder encoder = {0};
  annb_records records = {0};
  ck_assert(!annb_encode_rows(&rule, &encoder, 2, indptr, outside, (const uint8_t *)values, &records));
  ck_assert(annb_encode_rows(&rule, &encoder, 2, indptr, inside, (const uint8_t *)values, &records));
  ck_assert(records.n_rows == 2 && records.records[0].nnz == 2 && records.records[1].nnz == 1);
  ck_assert(annb_encode_rows(&rule, &encoder, 0, indptr, NULL, NULL, &records));
  ck_assert_uint_eq(records.n_rows, 0);
  annb_encoder_free(&encoder);
  annb_records_free(&records);
}
END_TEST

START_TEST(bad_parameters_are_refused) {
  annb_segment_params good = {.n_cols = 20, .dtype = ANNB_F32, .block_rows = 2}, p;
  annb_segment_writer *w;
  unlink(path);
  p = good, p.block_rows = 3;
  ck_assert_int_eq(annb_segment_writer_open(path, dir, &p, &w, NULL), ANNB_EINVAL);
  p = good, p.block_rows = 0;
  ck_assert_int_eq(annb_segment_writer_open(path, dir, &p, &w, NULL), ANNB_EINVAL);
  p = good, p.block_rows = 1u << 21;
  ck_assert_int_eq(annb_segment_writer_open(path, dir, &p, &w, NULL), ANNB_EINVAL);
  p = good, p.dtype = (annb_dtype)0;
  ck_assert_int_eq(annb_segment_writer_open(path, dir, &p, &w, NULL), ANNB_EINVAL);
  p = good, p.n_cols = UINT64_C(1) << 31;
  ck_assert_int_eq(annb_segment_writer_open(path, dir, &p, &w, NULL), ANNB_EINVAL);
  ck_assert_int_eq(access(path, F_OK), -1);
  ck_assert_int_ne(annb_segment_writer_open(path, "/nonexistent", &good, &w, NULL), ANNB_OK);
  ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

START_TEST(abort_leaves_no_file) {
  matrix m = matrix_new(100, 30, ANNB_U8, 9);
  annb_segment_params params = params_of(&m, 8);
  annb_segment_writer *w;
  unlink(path);
  ck_assert(!annb_segment_writer_open(path, dir, &params, &w, NULL));
  ck_assert_int_eq(annb_segment_writer_open(path, dir, &params, &w, NULL), ANNB_EEXIST);
  ck_assert_int_eq(access(path, F_OK), 0);
  ck_assert(!append(w, &params, &m, 0, 100, NULL));
  annb_segment_writer_abort(w);
  annb_segment_writer_abort(NULL);
  ck_assert_int_eq(access(path, F_OK), -1);
  matrix_free(&m);
}
END_TEST

/* What a full disk does: writing fails, in append or in close, and no file remains. */
START_TEST(failed_writes_are_told_and_leave_no_file) {
  static const rlim_t limits[] = {1000, 4096, 100000, 1000000};
  struct rlimit before, small;
  matrix m = matrix_new(3000, 5000, ANNB_F64, 60);
  annb_segment_params params = params_of(&m, 16);
  annb_segment_writer *w;
  annb_segment_result result;
  annb_error err = {.status = ANNB_OK};
  params.codecs = 0;
  unlink(path);
  signal(SIGXFSZ, SIG_IGN);
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = before;
  small.rlim_cur = limits[_i];
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
  annb_status s = annb_segment_writer_open(path, dir, &params, &w, &err);
  if (!s) {
    s = append(w, &params, &m, 0, 3000, &err);
    if (s) ck_assert_int_ne(append(w, &params, &m, 0, 1, NULL), ANNB_OK);
    annb_status closed = annb_segment_writer_close(w, &result, s ? NULL : &err);
    ck_assert_int_ne(closed, ANNB_OK);
    if (!s) s = closed;
  }
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
  ck_assert_int_eq(s, ANNB_EIO);
  ck_assert_int_eq(err.status, ANNB_EIO);
  ck_assert_int_eq(err.system_errno, EFBIG);
  ck_assert_int_eq(access(path, F_OK), -1);
  matrix_free(&m);
}
END_TEST

/* ---- damage ---- */

/* A small segment with two index pages, several blocks, every codec there is. */
static matrix small_segment(void) {
  random_state = 21;
  matrix m = matrix_new(270, 300, ANNB_U16, 4);
  annb_segment_params params = params_of(&m, 128);
  write_segment(path, &m, &params, 270);
  return m;
}

/* Whether these bytes are refused at opening or have findings; rows that read well are right (read_row checks). */
static bool damage_is_seen(const uint8_t *data, size_t size, const matrix *m, reader *r) {
  annb_segment *g;
  annb_error err;
  if (annb_segment_parse(data, size, path, &g, &err)) return true;
  for (uint64_t row = 0; row < m->n_rows && row < g->meta.n_rows; row++)
    if (read_row(g, row, m, r, &err)) REQUIRE(err.status != ANNB_OK && err.row >= 0);
  int findings = count_findings(g);
  annb_segment_close(g);
  return findings > 0;
}

START_TEST(every_flipped_byte_is_seen) {
  matrix m = small_segment();
  size_t size, step = slow_step(97);
  uint8_t *data = read_file(path, &size);
  reader r = {0};
  for (size_t at = 0; at < size; at += step)
    for (int bit = 0; bit < 8; bit += 7) {
      data[at] ^= (uint8_t)(1 << bit);
      if (!damage_is_seen(data, size, &m, &r)) ck_abort_msg("byte %zu xor %d is not seen", at, 1 << bit);
      data[at] ^= (uint8_t)(1 << bit);
    }
  ck_assert(!damage_is_seen(data, size, &m, &r));
  reader_free(&r);
  free(data);
  matrix_free(&m);
}
END_TEST

START_TEST(every_cut_and_growth_is_seen) {
  matrix m = small_segment();
  size_t size, step = slow_step(97);
  uint8_t *data = read_file(path, &size);
  annb_segment *g;
  for (size_t cut = 0; cut < size; cut += step) {
    uint8_t *exact = malloc(cut ? cut : 1); /* so that sanitizers see a byte too many */
    memcpy(exact, data, cut);
    REQUIRE(annb_segment_parse(exact, cut, path, &g, NULL) != ANNB_OK);
    free(exact);
  }
  data = realloc(data, size + 70);
  memset(data + size, 0, 70);
  for (size_t more = 1; more < 70; more++) ck_assert_int_ne(annb_segment_parse(data, size + more, path, &g, NULL), ANNB_OK);
  ck_assert_int_eq(chmod(path, 0600), 0);
  for (size_t keep = size; keep > 0; keep /= 2) {
    ck_assert_int_eq(truncate(path, (off_t)(keep - 1)), 0);
    ck_assert_int_ne(annb_segment_open(path, &g, NULL), ANNB_OK);
  }
  free(data);
  matrix_free(&m);
}
END_TEST

/* ---- crafted files: checks made right again, so that the field itself is judged ---- */

/* Recompute header check, page checks, hashes and trailer after a change. */
static void reseal(uint8_t *data, size_t size) {
  uint64_t footer, footer_size, salt, check;
  annb_fmt_section section[3];
  memcpy(&footer, data + size - 48, 8);
  memcpy(&footer_size, data + size - 40, 8);
  salt = annb_hash64(data, 120);
  memcpy(data + 120, &salt, 8);
  memcpy(data + footer, &salt, 8);
  memcpy(section, data + footer + 16, sizeof section);
  annb_hash128_stream stream;
  annb_hash128_begin(&stream);
  for (uint64_t p = 0; p < section[1].count && section[1].offset + (p + 1) * 4096 <= size; p++) {
    uint8_t *page = data + section[1].offset + p * 4096;
    check = annb_mix(annb_hash64(page + 8, 4088), salt, p);
    memcpy(page, &check, 8);
    annb_hash128_add(&stream, page, 8);
  }
  annb_hash128_end(&stream, section[1].hash);
  if (section[2].offset + section[2].length <= size) annb_hash128(data + section[2].offset, section[2].length, section[2].hash);
  memcpy(data + footer + 16, section, sizeof section);
  annb_hash128(data + footer, footer_size, data + size - 32);
  check = annb_hash64(data + size - 64, 56);
  memcpy(data + size - 8, &check, 8);
}

enum { HEADER, BLOCKS_ROW, INDEX_ROW, META_ROW, META, ENTRY };
enum { AT_OPEN, AT_LOCATE, AT_VERIFY };

typedef struct craft {
  int where;
  size_t offset, size;
  uint64_t value;
  int seen;
  annb_status status;
  const char *word;
} craft;

static const craft crafts[] = {
    {HEADER, 8, 2, 1, AT_OPEN, ANNB_EVERSION, "format 1.1, which is newer"},
    {HEADER, 10, 2, 2, AT_OPEN, ANNB_EVERSION, "format 0.2, which is newer"},
    {HEADER, 10, 2, 0, AT_OPEN, ANNB_EVERSION, "format 0.0, which is older"},
    {HEADER, 16, 8, 1, AT_OPEN, ANNB_ECORRUPT, "gene order"},
    {HEADER, 16, 8, 2, AT_OPEN, ANNB_EUNSUPPORTED, "needs feature bit 1,"},
    {HEADER, 40, 8, UINT64_C(1) << 31, AT_OPEN, ANNB_ECORRUPT, "limits"},
    {HEADER, 40, 8, 0, AT_OPEN, ANNB_ECORRUPT, "contradicts"},
    {HEADER, 48, 8, (UINT64_C(1) << 40) + 1, AT_OPEN, ANNB_ECORRUPT, "limits"},
    {HEADER, 48, 8, UINT64_C(1) << 40, AT_OPEN, ANNB_ECORRUPT, "limits"},
    {HEADER, 56, 4, 0, AT_OPEN, ANNB_ECORRUPT, "power of two"},
    {HEADER, 56, 4, 96, AT_OPEN, ANNB_ECORRUPT, "power of two"},
    {HEADER, 56, 4, 1u << 21, AT_OPEN, ANNB_ECORRUPT, "power of two"},
    {HEADER, 56, 4, 64, AT_LOCATE, ANNB_ECORRUPT, "row"},
    {HEADER, 60, 1, 0, AT_OPEN, ANNB_ECORRUPT, "value type"},
    {HEADER, 60, 1, 13, AT_OPEN, ANNB_ECORRUPT, "value type"},
    {HEADER, 61, 1, 1, AT_OPEN, ANNB_ECORRUPT, "zero"},
    {HEADER, 64, 8, 1u << 1 | UINT64_C(1) << 40, AT_OPEN, ANNB_EUNSUPPORTED, "codec bit 40,"},
    {HEADER, 64, 8, 1, AT_OPEN, ANNB_EUNSUPPORTED, "codec bit 0,"},
    {HEADER, 88, 1, 1, AT_OPEN, ANNB_ECORRUPT, "gene order"},
    {BLOCKS_ROW, 8, 8, 4104, AT_OPEN, ANNB_ECORRUPT, "section"},
    {BLOCKS_ROW, 24, 8, 1, AT_OPEN, ANNB_ECORRUPT, "zero"},
    {BLOCKS_ROW, 32, 1, 1, AT_OPEN, ANNB_ECORRUPT, "zero"},
    {BLOCKS_ROW, 0, 4, 9, AT_OPEN, ANNB_EUNSUPPORTED, "kind 9"},
    {BLOCKS_ROW, 16, 8, UINT64_MAX, AT_OPEN, ANNB_ECORRUPT, "section"},
    {INDEX_ROW, 16, 8, 4096, AT_OPEN, ANNB_ECORRUPT, "rows"},
    {INDEX_ROW, 24, 8, UINT64_C(1) << 52, AT_OPEN, ANNB_ECORRUPT, "rows"},
    {META_ROW, 24, 8, 2, AT_OPEN, ANNB_ECORRUPT, "rows"},
    {META, 0, 8, 255, AT_OPEN, ANNB_ECORRUPT, "pages"},
    {META, 0, 8, 511, AT_OPEN, ANNB_ECORRUPT, "pages"},
    {META, 0, 8, UINT64_C(1) << 41, AT_OPEN, ANNB_ECORRUPT, "limits"},
    {META, 8, 8, UINT64_C(1) << 49, AT_OPEN, ANNB_ECORRUPT, "limits"},
    {META, 8, 8, 0, AT_OPEN, ANNB_ECORRUPT, "contradicts"},
    {META, 16, 8, UINT64_C(1) << 31, AT_OPEN, ANNB_ECORRUPT, "limits"},
    {META, 16, 8, 0, AT_OPEN, ANNB_ECORRUPT, "contradicts"},
    {META, 24, 8, 1u << 30, AT_OPEN, ANNB_ECORRUPT, "contradicts"},
    {META, 24, 8, 0, AT_OPEN, ANNB_ECORRUPT, "contradicts"},
    {META, 32, 1, 1, AT_OPEN, ANNB_ECORRUPT, "zero"},
    {META, 0, 8, 268, AT_LOCATE, ANNB_ECORRUPT, "not possible"},
    {META, 16, 8, 5, AT_LOCATE, ANNB_ECORRUPT, "not possible"},
    {META, 16, 8, 50, AT_VERIFY, ANNB_ECORRUPT, "meta"},
    {META, 24, 8, 3000, AT_VERIFY, ANNB_ECORRUPT, "meta"},
    {META, 8, 8, 700, AT_VERIFY, ANNB_ECORRUPT, "meta"},
    {ENTRY, 0, 8, 0, AT_LOCATE, ANNB_ECORRUPT, "row 0"},
    {ENTRY, 0, 8, 4096, AT_LOCATE, ANNB_ECORRUPT, "row 0"},
    {ENTRY, 0, 8, UINT64_MAX, AT_LOCATE, ANNB_ECORRUPT, "row 0"},
    {ENTRY, 16, 8, UINT64_MAX - 4096, AT_LOCATE, ANNB_ECORRUPT, "row 1"},
    {ENTRY, 8, 4, 0, AT_LOCATE, ANNB_ECORRUPT, "row 0"},
    {ENTRY, 8, 4, 0xFFFFFFFF, AT_LOCATE, ANNB_ECORRUPT, "row 0"},
    {ENTRY, 8, 4, 1, AT_LOCATE, ANNB_ECORRUPT, "decoded"},
    {ENTRY, 12, 4, 1, AT_LOCATE, ANNB_ECORRUPT, "check"},
    {ENTRY, 4096 + 15 * 16, 8, 1, AT_VERIFY, ANNB_ECORRUPT, "past the last row"},
};

typedef struct first_finding {
  int n;
  annb_error error;
} first_finding;

static bool keep_first(void *user, const annb_error *finding) {
  first_finding *f = user;
  if (f->n++ == 0) f->error = *finding;
  return true;
}

static void craft_file(const craft *c, uint8_t *data, size_t size) {
  uint64_t footer, index, meta, old_salt, salt;
  memcpy(&footer, data + size - 48, 8);
  memcpy(&index, data + footer + 16 + 64 + 8, 8);
  memcpy(&meta, data + footer + 16 + 128 + 8, 8);
  size_t base[] = {0, footer + 16, footer + 16 + 64, footer + 16 + 128, meta, index + 16};
  memcpy(&old_salt, data + 120, 8);
  memcpy(data + base[c->where] + c->offset, &c->value, c->size);
  reseal(data, size);
  memcpy(&salt, data + 120, 8);
  ck_assert_int_eq(salt != old_salt, c->where == HEADER);
}

START_TEST(crafted_fields_are_judged) {
  const craft *c = &crafts[_i];
  matrix m = small_segment();
  size_t size;
  uint8_t *data = read_file(path, &size);
  craft_file(c, data, size);
  write_file(path, data, size);
  annb_segment *g = NULL;
  first_finding first = {0};
  annb_status s = annb_segment_open(path, &g, &first.error);
  if (c->seen == AT_OPEN) {
    ck_assert_msg(s == c->status, "%s", s ? first.error.message : "it opens");
    ck_assert_msg(strstr(first.error.message, c->word), "%s", first.error.message);
  } else {
    ck_assert_msg(!s, "%s", first.error.message);
    reader r = {0};
    annb_error err;
    annb_status worst = ANNB_OK;
    for (uint64_t row = 0; row < g->meta.n_rows && !worst; row++) worst = read_row(g, row, &m, &r, &err);
    ck_assert_int_eq(worst, c->seen == AT_LOCATE ? c->status : ANNB_OK);
    if (worst) ck_assert_msg(strstr(err.message, c->word), "%s", err.message);
    annb_segment_verify(g, keep_first, &first);
    ck_assert_int_gt(first.n, 0);
    ck_assert_int_eq(first.error.status, c->status);
    if (!worst) ck_assert_msg(strstr(first.error.message, c->word), "%s", first.error.message);
    annb_segment_close(g);
    reader_free(&r);
  }
  free(data);
  matrix_free(&m);
}
END_TEST

/* Garbage in pages and blocks under valid checks: errors, no crash, no large allocation (read_row limits it). */
START_TEST(random_index_pages_do_no_harm) {
  matrix m = small_segment();
  size_t size;
  uint8_t *data = read_file(path, &size), *copy = malloc(size);
  uint64_t footer, index;
  reader r = {0};
  memcpy(&footer, data + size - 48, 8);
  memcpy(&index, data + footer + 16 + 64 + 8, 8);
  for (size_t round = 0; round < 400; round += slow_step(20)) {
    memcpy(copy, data, size);
    for (int k = 0; k < 20; k++) {
      annb_fmt_entry e;
      uint8_t *at = copy + index + 16 + next_random() % 255 * 16;
      memcpy(&e, at, sizeof e);
      uint64_t how = next_random() % 6, x = next_random();
      if (how == 0) e.end = x;
      else if (how == 1) e.end = 4096 + x % size;
      else if (how == 2) e.nnz = (uint32_t)x;
      else if (how == 3) e.nnz = (uint32_t)(x % 30);
      else if (how == 4) e.end += x % 64;
      else e.end -= x % 64;
      memcpy(at, &e, sizeof e);
    }
    reseal(copy, size);
    ck_assert(damage_is_seen(copy, size, &m, &r));
  }
  reader_free(&r);
  free(copy);
  free(data);
  matrix_free(&m);
}
END_TEST

START_TEST(records_cannot_change_places) {
  random_state = 2;
  matrix m = {4, 50, ANNB_U8, malloc(5 * 8), malloc(40 * 4), malloc(40)};
  for (uint64_t i = 0; i < 40; i++) {
    m.indices[i] = (uint32_t)(i + i / 10);
    m.values[i] = (uint8_t)next_random();
  }
  for (uint64_t i = 0; i < 5; i++) m.indptr[i] = 10 * i;
  annb_segment_params params = params_of(&m, 4);
  params.codecs = 0; /* records of one length */
  write_segment(path, &m, &params, 4);
  size_t size, length = 2 + 10 * 2;
  uint8_t *data = read_file(path, &size);
  memcpy(data + 4096, data + 4096 + length, length); /* row 1 twice */
  write_file(path, data, size);
  annb_segment *g;
  annb_error err;
  annb_record_ref record;
  ck_assert(!annb_segment_open(path, &g, &err));
  ck_assert(!annb_segment_locate(g, 0, &record, &err));
  ck_assert_uint_eq(record.length, length);
  ck_assert_int_eq(annb_segment_check(g, 0, &record, &err), ANNB_ECORRUPT);
  ck_assert_int_eq(err.row, 0);
  ck_assert_ptr_nonnull(strstr(err.message, "row 0"));
  ck_assert_ptr_nonnull(strstr(err.message, path));
  ck_assert_int_eq(count_findings(g), 1);
  annb_segment_close(g);
  free(data);
  matrix_free(&m);
}
END_TEST

START_TEST(verify_goes_on_and_can_be_stopped) {
  matrix m = small_segment();
  size_t size;
  uint8_t *data = read_file(path, &size);
  annb_segment *g;
  ck_assert(!annb_segment_open(path, &g, NULL));
  annb_record_ref first, last;
  ck_assert(!annb_segment_locate(g, 5, &first, NULL) && !annb_segment_locate(g, 260, &last, NULL));
  size_t a = (size_t)(first.data - g->map.data), b = (size_t)(last.data - g->map.data);
  annb_segment_close(g);
  ck_assert(first.length && last.length);
  data[a] ^= 1;
  data[b] ^= 1;
  data[200] = 1; /* padding */
  write_file(path, data, size);
  ck_assert(!annb_segment_open(path, &g, NULL));
  ck_assert_int_eq(count_findings(g), 3);
  annb_segment_close(g);
  free(data);
  matrix_free(&m);
}
END_TEST

static bool stop_at_once(void *user, const annb_error *finding) {
  (void)finding;
  ++*(int *)user;
  return false;
}

START_TEST(verify_stops_when_told) {
  matrix m = small_segment();
  size_t size;
  uint8_t *data = read_file(path, &size);
  memset(data + 4096, 0xFF, 300);
  write_file(path, data, size);
  annb_segment *g;
  int n = 0;
  ck_assert(!annb_segment_open(path, &g, NULL));
  annb_segment_verify(g, stop_at_once, &n);
  ck_assert_int_eq(n, 1);
  ck_assert_int_gt(count_findings(g), 10);
  annb_segment_close(g);
  free(data);
  matrix_free(&m);
}
END_TEST

/* ---- threads ---- */

typedef struct shared {
  annb_segment *g;
  const matrix *m;
} shared;

static void *read_everything(void *user) {
  shared *s = user;
  reader r = {0};
  annb_error err;
  uintptr_t bad = 0;
  for (uint64_t i = 0; i < s->m->n_rows; i++) bad += read_row(s->g, (i * 7919) % s->m->n_rows, s->m, &r, &err) != ANNB_OK;
  reader_free(&r);
  return (void *)bad;
}

START_TEST(threads_share_a_segment) {
  matrix m = matrix_new(3000, 500, ANNB_F32, 10);
  annb_segment_params params = params_of(&m, 64);
  write_segment(path, &m, &params, 3000);
  shared s = {NULL, &m};
  ck_assert(!annb_segment_open(path, &s.g, NULL));
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, read_everything, &s), 0);
  for (int i = 0; i < 4; i++) {
    void *bad;
    pthread_join(threads[i], &bad);
    ck_assert_ptr_null(bad);
  }
  annb_segment_close(s.g);
  matrix_free(&m);
}
END_TEST

int main(void) {
  if (!mkdtemp(dir)) return EXIT_FAILURE;
  snprintf(path, sizeof path, "%s/a.anns", dir);
  snprintf(other_path, sizeof other_path, "%s/b.anns", dir);
  Suite *suite = suite_create("segment");
  TCase *good = tcase_create("good"), *damage = tcase_create("damage");
  tcase_set_timeout(good, 300);
  tcase_set_timeout(damage, 300);
  tcase_add_loop_test(good, rows_come_back, 0, 8);
  tcase_add_test(good, the_result_describes_the_file);
  tcase_add_test(good, the_layout_is_the_specified_one);
  tcase_add_test(good, bytes_depend_on_the_data_alone);
  tcase_add_test(good, salts_tell_segments_apart);
  tcase_add_test(good, a_row_larger_than_a_block_works);
  tcase_add_test(good, plain_only_lists_plain_only);
  tcase_add_test(good, indices_past_the_columns_are_not_encoded);
  tcase_add_test(good, bad_parameters_are_refused);
  tcase_add_test(good, abort_leaves_no_file);
  tcase_add_loop_test(good, failed_writes_are_told_and_leave_no_file, 0, 4);
  tcase_add_test(good, threads_share_a_segment);
  tcase_add_test(damage, every_flipped_byte_is_seen);
  tcase_add_test(damage, every_cut_and_growth_is_seen);
  tcase_add_loop_test(damage, crafted_fields_are_judged, 0, sizeof crafts / sizeof *crafts);
  tcase_add_test(damage, random_index_pages_do_no_harm);
  tcase_add_test(damage, records_cannot_change_places);
  tcase_add_test(damage, verify_goes_on_and_can_be_stopped);
  tcase_add_test(damage, verify_stops_when_told);
  suite_add_tcase(suite, good);
  suite_add_tcase(suite, damage);
  int status = suite_run(suite);
  unlink(path);
  unlink(other_path);
  rmdir(dir);
  return status;
}
