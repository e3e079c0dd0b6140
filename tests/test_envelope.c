/* Envelope (header, footer, trailer), cursor, output files and publishing. */
#include "../store/cursor.h"
#include "../store/objects/envelope.h"
#include "../store/error.h"
#include "../store/io.h"
#include "reseal.h"
#include "suite.h"
#include "temp.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

static char *dir, *file;
static uint8_t *data;
static size_t size;

/* A manifest-like file with a section of 24 bytes, one of 5 bytes (then padding) and an empty one. */
static void write_file(const char *path, uint64_t incompat) {
  annb_ofile out;
  annb_fmt_header header;
  annb_section_list list = {.n = 0};
  uint8_t sha[ANNB_SHA256_SIZE], footer_hash[16];
  annb_header_init(&header, ANNB_FILE_MANIFEST, "fields of the kind", 18);
  header.incompat = incompat;
  annb_header_seal(&header);
  ck_assert_int_eq(annb_ofile_create(path, &out, NULL), ANNB_OK);
  ck_assert_int_eq(annb_ofile_write(&out, &header, sizeof header, NULL), ANNB_OK);
  ck_assert_int_eq(annb_section_write(&list, &out, 1, ANNB_SECTION_CRITICAL, "abcdefghijklmnopqrstuvwx", 24, 3, NULL), ANNB_OK);
  ck_assert_int_eq(annb_section_write(&list, &out, 2, 0, "12345", 5, 0, NULL), ANNB_OK);
  ck_assert_int_eq(annb_section_write(&list, &out, 3, 0, "", 0, 0, NULL), ANNB_OK);
  ck_assert_int_eq(annb_envelope_write_end(&out, &header, &list, footer_hash, NULL), ANNB_OK);
  ck_assert_int_eq(annb_ofile_finish(&out, sha, NULL), ANNB_OK);
}

static void setup(void) {
  dir = temp_make();
  file = annb_io_join(dir, "file");
  write_file(file, 0);
  data = temp_read(file, &size);
}

static void teardown(void) {
  free(data);
  free(file);
  temp_remove(dir);
  free(dir);
}

static annb_status parse_known(const uint8_t *bytes, size_t n, uint64_t known, annb_envelope *e, annb_error *err) {
  return annb_envelope_parse(bytes, n, ANNB_FILE_MANIFEST, known, "file", e, err);
}

/* Everything that this module checks. */
static annb_status parse(const uint8_t *bytes, size_t n) {
  annb_envelope e;
  annb_error err = {.status = ANNB_OK};
  annb_status s = parse_known(bytes, n, 0xE, &e, &err);
  if (!s) s = annb_envelope_check_gaps(bytes, &e, "file", &err);
  for (uint32_t i = 0; !s && i < e.n_sections; i++) s = annb_envelope_check_hash(bytes, &e.sections[i], "file", &err);
  ck_assert_int_eq(s, err.status);
  ck_assert(s == ANNB_OK || strstr(err.message, "file: ") == err.message);
  return s;
}

START_TEST(whole) {
  annb_envelope e;
  const annb_fmt_section *s;
  ck_assert_uint_eq(size, 128 + 24 + 8 + 16 + 3 * 64 + 64);
  ck_assert_int_eq(parse(data, size), ANNB_OK);
  ck_assert_int_eq(parse_known(data, size, 0xE, &e, NULL), ANNB_OK);
  ck_assert_uint_eq(e.n_sections, 3);
  ck_assert_int_eq(memcmp(e.header.kind, "fields of the kind\0\0", 20), 0);
  ck_assert_int_eq(annb_envelope_section(&e, 1, 8, "file", &s, NULL), ANNB_OK);
  ck_assert_uint_eq(s->offset, 128);
  ck_assert_uint_eq(s->length, 24);
  ck_assert_int_eq(annb_envelope_section(&e, 1, 16, "file", &s, NULL), ANNB_ECORRUPT);
  ck_assert_int_eq(annb_envelope_section(&e, 2, 0, "file", &s, NULL), ANNB_OK);
  ck_assert_int_eq(memcmp(data + s->offset, "12345\0\0\0", 8), 0);
  ck_assert_int_eq(annb_envelope_section(&e, 4, 0, "file", &s, NULL), ANNB_ECORRUPT);
}
END_TEST

START_TEST(every_bit_counts) {
  for (size_t i = 0; i < size; i++) {
    for (int bit = 0; bit < 8; bit++) {
      data[i] ^= (uint8_t)(1 << bit);
      annb_status s = parse(data, size);
      if (i < 8) ck_assert_int_eq(s, ANNB_ENOTSTORE);
      else ck_assert_msg(s == ANNB_ECORRUPT, "byte %zu bit %d: %s", i, bit, annb_status_name(s));
      data[i] ^= (uint8_t)(1 << bit);
    }
  }
  ck_assert_int_eq(parse(data, size), ANNB_OK);
}
END_TEST

START_TEST(every_length_counts) {
  for (size_t n = 0; n < size; n++) {
    uint8_t *exact = malloc(n ? n : 1); /* its own block, so that a read past the end is seen */
    memcpy(exact, data, n);
    ck_assert_msg(parse(exact, n) == ANNB_ECORRUPT, "length %zu", n);
    free(exact);
  }
  uint8_t *longer = calloc(1, size + 64);
  memcpy(longer, data, size);
  for (size_t n = size + 1; n <= size + 64; n++) ck_assert_int_eq(parse(longer, n), ANNB_ECORRUPT);
  free(longer);
}
END_TEST

/* Patch a header field, seal again: the code must be exactly the one of that field. */
static annb_status with_header(size_t at, uint8_t value) {
  uint8_t *copy = malloc(size);
  memcpy(copy, data, size);
  copy[at] = value;
  reseal_ends(copy, size);
  annb_status s = parse(copy, size);
  free(copy);
  return s;
}

START_TEST(versions_and_features) {
  ck_assert_int_eq(with_header(8, 1), ANNB_EVERSION);
  ck_assert_int_eq(with_header(10, 2), ANNB_EVERSION);
  ck_assert_int_eq(with_header(10, 0), ANNB_EVERSION);
  ck_assert_int_eq(with_header(12, 64), ANNB_ECORRUPT);
  ck_assert_int_eq(with_header(16, 4), ANNB_EUNSUPPORTED); /* a row filter */
  ck_assert_int_eq(with_header(16, 16), ANNB_EUNSUPPORTED);
  ck_assert_int_eq(with_header(23, 0x80), ANNB_EUNSUPPORTED);
  ck_assert_int_eq(with_header(24, 1), ANNB_OK); /* export: only an exporter minds */
  ck_assert_int_eq(with_header(32, 1), ANNB_OK);
  annb_envelope e;
  ck_assert_int_eq(annb_envelope_parse(data, size, ANNB_FILE_SEGMENT, 0xE, "file", &e, NULL), ANNB_ENOTSTORE);
}
END_TEST

START_TEST(critical_sections) {
  annb_envelope e;
  ck_assert_int_eq(parse_known(data, size, 0x2, &e, NULL), ANNB_OK); /* 2 and 3 are not critical */
  ck_assert_int_eq(parse_known(data, size, 0xC, &e, NULL), ANNB_EUNSUPPORTED);
}
END_TEST

/* Patch section row `kind`, seal the footer again. */
static annb_status with_section(uint32_t kind, annb_fmt_section patch) {
  uint8_t *copy = malloc(size);
  memcpy(copy, data, size);
  memcpy(copy + reseal_row(data, size, kind), &patch, sizeof patch);
  reseal_ends(copy, size);
  annb_status s = parse(copy, size);
  free(copy);
  return s;
}

START_TEST(hostile_sections) {
  annb_fmt_section good = reseal_section(data, size, 2), bad;
  ck_assert_int_eq(with_section(2, good), ANNB_OK);
#define BAD(field, value) \
  bad = good; \
  bad.field = value; \
  ck_assert_int_eq(with_section(2, bad), ANNB_ECORRUPT)
  BAD(offset, UINT64_MAX - 7);
  BAD(offset, 120);
  BAD(offset, 144);
  BAD(offset, 153);
  BAD(length, UINT64_MAX);
  BAD(length, size);
  BAD(length, 6);
  BAD(kind, 1);
  BAD(kind, 0);
  BAD(zero0[15], 1);
  BAD(flags, 2);
#undef BAD
  bad = good;
  bad.kind = 64; /* may be there, is not known */
  ck_assert_int_eq(with_section(2, bad), ANNB_OK);
  bad.flags = ANNB_SECTION_CRITICAL;
  ck_assert_int_eq(with_section(2, bad), ANNB_EUNSUPPORTED);
}
END_TEST

/* Patch the trailer, seal it. */
static annb_status with_trailer(annb_fmt_trailer t) {
  uint8_t *copy = malloc(size);
  memcpy(copy, data, size);
  t.check = annb_hash64(&t, offsetof(annb_fmt_trailer, check));
  memcpy(copy + size - sizeof t, &t, sizeof t);
  annb_status s = parse(copy, size);
  free(copy);
  return s;
}

START_TEST(hostile_trailer) {
  const annb_fmt_trailer good = reseal_trailer(data, size);
  const uint64_t values[] = {0, 8, 127, 128, size, size - 64, UINT64_MAX, UINT64_MAX - 63, UINT64_C(1) << 63};
  ck_assert_int_eq(with_trailer(good), ANNB_OK);
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    annb_fmt_trailer t = good;
    t.footer_offset = values[i];
    ck_assert_int_eq(with_trailer(t), ANNB_ECORRUPT);
    t.footer_size = size - 64 - values[i]; /* the sum is right, with wrap-around */
    ck_assert_int_eq(with_trailer(t), ANNB_ECORRUPT);
    t = good;
    t.footer_size = values[i];
    ck_assert_int_eq(with_trailer(t), ANNB_ECORRUPT);
  }
  annb_fmt_trailer t = good;
  t.zero0 = 1;
  ck_assert_int_eq(with_trailer(t), ANNB_ECORRUPT);
}
END_TEST

START_TEST(hostile_footer) {
  const uint32_t counts[] = {0, 2, 4, 65, UINT32_MAX};
  annb_fmt_trailer t = reseal_trailer(data, size);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    uint8_t *copy = malloc(size);
    memcpy(copy, data, size);
    memcpy(copy + t.footer_offset + 8, &counts[i], 4);
    reseal_ends(copy, size);
    ck_assert_int_eq(parse(copy, size), ANNB_ECORRUPT);
    free(copy);
  }
}
END_TEST

START_TEST(cursor_stays_inside) {
  const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  annb_cursor c = annb_cursor_of(bytes, sizeof bytes, 0, sizeof bytes);
  ck_assert_uint_eq(annb_cursor_u8(&c), 1);
  ck_assert_uint_eq(annb_cursor_u32(&c), 0x05040302);
  ck_assert_uint_eq(annb_cursor_left(&c), 6);
  uint64_t x = 1;
  ck_assert(!annb_cursor_read(&c, &x, 8));
  ck_assert_uint_eq(x, 0);
  ck_assert(c.failed);
  ck_assert_uint_eq(annb_cursor_u8(&c), 0); /* it stays failed */
  ck_assert_ptr_null(annb_cursor_take(&c, 0));
  c = annb_cursor_of(bytes, sizeof bytes, 3, 8);
  ck_assert(annb_cursor_read(&c, &x, 8));
  ck_assert_uint_eq(x, UINT64_C(0x0B0A090807060504));
  ck_assert(!c.failed && annb_cursor_left(&c) == 0);
  ck_assert(annb_cursor_of(bytes, sizeof bytes, 12, 0).failed);
  ck_assert(annb_cursor_of(bytes, sizeof bytes, 4, 8).failed);
  ck_assert(annb_cursor_of(bytes, sizeof bytes, 4, UINT64_MAX).failed);
  ck_assert(annb_cursor_of(bytes, sizeof bytes, UINT64_MAX, 2).failed);
  ck_assert(!annb_cursor_of(bytes, sizeof bytes, 11, 0).failed);
}
END_TEST

START_TEST(arithmetic) {
  uint64_t x;
  ck_assert(annb_mul(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &x));
  ck_assert(!annb_mul(UINT64_C(1) << 32, UINT64_C(1) << 32, &x));
  ck_assert(annb_add(UINT64_MAX, 0, &x));
  ck_assert(!annb_add(UINT64_MAX, 1, &x));
  ck_assert_uint_eq(annb_round_up(0, 64), 0);
  ck_assert_uint_eq(annb_round_up(65, 64), 128);
  ck_assert(annb_all_zero("\0\0\0", 3) && annb_all_zero(NULL, 0));
  ck_assert(!annb_all_zero("\0\0\1", 3) && !annb_all_zero("\1\0\0", 3));
}
END_TEST

START_TEST(output_file) {
  enum { N = 700001 };
  uint8_t *bytes = malloc(N), sha[ANNB_SHA256_SIZE], want[ANNB_SHA256_SIZE];
  for (size_t i = 0; i < N; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 13);
  annb_ofile out;
  annb_sha256 state;
  annb_error err;
  char *path = annb_io_join(dir, "out");
  ck_assert_int_eq(annb_ofile_create(path, &out, NULL), ANNB_OK);
  size_t at = 0;
  for (size_t step = 1; at < N; step = step * 3 + 1) { /* below, around and above the buffer's size */
    size_t n = step < N - at ? step : N - at;
    ck_assert_int_eq(annb_ofile_write(&out, bytes + at, n, NULL), ANNB_OK);
    at += n;
  }
  ck_assert_int_eq(annb_ofile_pad(&out, 4096, NULL), ANNB_OK);
  ck_assert_uint_eq(out.offset, annb_round_up(N, 4096));
  ck_assert_int_eq(annb_ofile_finish(&out, sha, NULL), ANNB_OK);
  size_t got;
  uint8_t *back = temp_read(path, &got);
  ck_assert_uint_eq(got, annb_round_up(N, 4096));
  ck_assert_int_eq(memcmp(back, bytes, N), 0);
  ck_assert(annb_all_zero(back + N, got - N));
  annb_sha256_init(&state);
  annb_sha256_update(&state, back, got);
  annb_sha256_final(&state, want);
  ck_assert_int_eq(memcmp(sha, want, sizeof sha), 0);
  ck_assert_int_eq(annb_ofile_create(path, &out, &err), ANNB_EEXIST); /* never over an existing file */
  annb_ofile_abort(&out);
  ck_assert(temp_exists(path));
  free(back);
  free(bytes);
  free(path);
}
END_TEST

START_TEST(sha256_vectors) {
  char hex[65];
  uint8_t sha[ANNB_SHA256_SIZE];
  annb_sha256 state;
  annb_sha256_init(&state);
  annb_sha256_update(&state, "ab", 2);
  annb_sha256_update(&state, "c", 1);
  annb_sha256_final(&state, sha);
  annb_sha256_hex(sha, hex);
  ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
END_TEST

START_TEST(full_disk) {
  struct rlimit old, small;
  annb_ofile out;
  annb_error err = {.status = ANNB_OK};
  uint8_t *zeros = calloc(1, 400000), sha[ANNB_SHA256_SIZE];
  char *path = annb_io_join(dir, "out");
  signal(SIGXFSZ, SIG_IGN);
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = 300000;
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
  ck_assert_int_eq(annb_ofile_create(path, &out, &err), ANNB_OK);
  ck_assert_int_eq(annb_ofile_write(&out, zeros, 400000, &err), ANNB_EIO);
  ck_assert_int_eq(err.system_errno, EFBIG);
  ck_assert_ptr_nonnull(strstr(err.message, path));
  annb_ofile_abort(&out);
  ck_assert(!temp_exists(path));
  /* a caller that does not look: the size tells at the end */
  ck_assert_int_eq(annb_ofile_create(path, &out, &err), ANNB_OK);
  for (int i = 0; i < 4; i++) (void)annb_ofile_write(&out, zeros, 100000, NULL);
  ck_assert_int_eq(annb_ofile_finish(&out, sha, &err), ANNB_EIO);
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
  free(zeros);
  free(path);
}
END_TEST

START_TEST(publish_never_replaces) {
  annb_error err = {.status = ANNB_OK};
  char *a = annb_io_join(dir, "a"), *b = annb_io_join(dir, "b");
  temp_write(a, "first", 5);
  ck_assert_int_eq(annb_io_publish(a, b, NULL), ANNB_OK);
  ck_assert(annb_io_same_file(a, b));
  ck_assert(!annb_io_same_file(a, file));
  ck_assert_int_eq(annb_io_publish(file, b, &err), ANNB_EEXIST);
  ck_assert_int_eq(err.system_errno, EEXIST);
  size_t n;
  uint8_t *got = temp_read(b, &n);
  ck_assert(n == 5 && !memcmp(got, "first", 5));
  free(got);
  free(b);
  b = annb_io_join(dir, "missing/b");
  ck_assert_int_eq(annb_io_publish(a, b, &err), ANNB_EIO);
  ck_assert_int_eq(err.system_errno, ENOENT);
  ck_assert(!annb_io_same_file(a, b));
  free(a);
  free(b);
}
END_TEST

START_TEST(paths) {
  annb_path_kind kind;
  annb_map map;
  annb_error err = {.status = ANNB_OK};
  bool made;
  char *inner = annb_io_join(file, "below"), *sub = annb_io_join(dir, "sub"), *empty = annb_io_join(dir, "empty");
  ck_assert(annb_io_kind(file, &kind, NULL) == ANNB_OK && kind == ANNB_PATH_FILE);
  ck_assert(annb_io_kind(dir, &kind, NULL) == ANNB_OK && kind == ANNB_PATH_DIR);
  ck_assert(annb_io_kind(inner, &kind, NULL) == ANNB_OK && kind == ANNB_PATH_ABSENT);
  ck_assert(annb_io_mkdir(sub, &made, NULL) == ANNB_OK && made);
  ck_assert(annb_io_mkdir(sub, &made, NULL) == ANNB_OK && !made);
  ck_assert(annb_io_mkdir(file, &made, &err) == ANNB_EEXIST && !made);
  ck_assert_int_eq(annb_io_map(dir, &map, &err), ANNB_EIO);
  ck_assert_int_eq(annb_io_map(inner, &map, &err), ANNB_EIO);
  temp_write(empty, "", 0);
  ck_assert_int_eq(annb_io_map(empty, &map, &err), ANNB_OK);
  ck_assert(map.data != NULL && map.size == 0);
  annb_io_unmap(&map);
  ck_assert_int_eq(annb_io_fsync_dir(dir, &err), ANNB_OK);
  ck_assert_int_eq(annb_io_fsync_dir(file, &err), ANNB_EIO);
  int fd;
  ck_assert_int_eq(annb_io_anonymous(sub, &fd, &err), ANNB_OK);
  ck_assert_uint_eq(temp_count(sub), 0);
  annb_io_close(fd, "", NULL);
  free(inner);
  free(sub);
  free(empty);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("envelope");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, whole);
  tcase_add_test(tcase, every_bit_counts);
  tcase_add_test(tcase, every_length_counts);
  tcase_add_test(tcase, versions_and_features);
  tcase_add_test(tcase, critical_sections);
  tcase_add_test(tcase, hostile_sections);
  tcase_add_test(tcase, hostile_trailer);
  tcase_add_test(tcase, hostile_footer);
  tcase_add_test(tcase, cursor_stays_inside);
  tcase_add_test(tcase, arithmetic);
  tcase_add_test(tcase, output_file);
  tcase_add_test(tcase, sha256_vectors);
  tcase_add_test(tcase, full_disk);
  tcase_add_test(tcase, publish_never_replaces);
  tcase_add_test(tcase, paths);
  suite_add_tcase(suite, tcase);
  return suite_run(suite);
}
