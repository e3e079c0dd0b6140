/* Object headers of HDF5 2.0 that are told to be older: only those that read the same then. */
#include "../convert/source/newer.h"
#include "suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* ---- making headers ---- */

typedef struct header {
  uint8_t bytes[256];
  size_t n;
} header;

static void seal(header *h) {
  uint32_t sum = annb_newer_checksum(h->bytes, h->n);
  for (int i = 0; i < 4; i++) h->bytes[h->n++] = (uint8_t)(sum >> 8 * i);
}

static void add(header *h, uint8_t type, uint8_t flags, const uint8_t *data, size_t n) {
  const uint8_t head[4] = {type, (uint8_t)n, 0, flags};
  memcpy(h->bytes + h->n, head, 4);
  memcpy(h->bytes + h->n + 4, data, n);
  h->n += 4 + n;
  h->bytes[6] = (uint8_t)(h->n - 7); /* one byte holds the size */
}

static header start(void) { return (header){{'O', 'H', 'D', 'R', 2, 0, 0}, 7}; }

/* Chunks of 100 elements of 8 bytes with the index `index`. */
static void add_layout(header *h, uint8_t version, uint8_t index) {
  const uint8_t layout[] = {version, 2, 0, 2, 1, 100, 8, index, 1, 2, 3, 4, 5, 6, 7, 8};
  add(h, 8, 0, layout, sizeof layout);
}

static const uint8_t filler[10] = {1, 2, 3}, deflate[] = {2, 1, 1, 0, 1, 0, 6, 0, 0, 0};

/* Changed to what the same header of version 4 is, byte by byte. */
static void expect_changed(header h, header four) {
  seal(&h);
  seal(&four);
  ck_assert_uint_eq(annb_newer_size(h.bytes, h.n < 64 ? h.n : 64), h.n);
  ck_assert(annb_newer_change(h.bytes, h.n));
  ck_assert_uint_eq(h.n, four.n);
  ck_assert_mem_eq(h.bytes, four.bytes, h.n);
}

static void expect_left(header h) {
  seal(&h);
  header before = h;
  ck_assert(!annb_newer_change(h.bytes, h.n));
  ck_assert_mem_eq(h.bytes, before.bytes, h.n);
}

/* ---- tests ---- */

/* Values that the checksum's author gives. */
START_TEST(test_checksum) {
  const char *text = "Four score and seven years ago";
  ck_assert_uint_eq(annb_newer_checksum((const uint8_t *)"", 0), 0xdeadbeef);
  ck_assert_uint_eq(annb_newer_checksum((const uint8_t *)text, 30), 0x17770551);
}
END_TEST

START_TEST(test_changed) {
  for (uint8_t index = 1; index <= 5; index++)
    for (int filtered = 0; filtered <= (index <= 2); filtered++) {
      header h = start(), four = start();
      add(&h, 1, 0, filler, sizeof filler);
      add(&four, 1, 0, filler, sizeof filler);
      if (filtered) add(&h, 11, 0, deflate, sizeof deflate);
      if (filtered) add(&four, 11, 0, deflate, sizeof deflate);
      add_layout(&h, 5, index);
      add_layout(&four, 4, index);
      expect_changed(h, four);
    }
  const uint8_t contiguous[18] = {5, 1}, old[18] = {4, 1};
  header h = start(), four = start();
  add(&h, 8, 0, contiguous, sizeof contiguous);
  add(&four, 8, 0, old, sizeof old);
  expect_changed(h, four);
}
END_TEST

START_TEST(test_left) {
  for (uint8_t index = 3; index <= 5; index++) { /* sizes of filtered chunks are wider in these */
    header h = start();
    add_layout(&h, 5, index);
    add(&h, 11, 0, deflate, sizeof deflate);
    expect_left(h);
    h = start();
    add(&h, 16, 0, filler, sizeof filler); /* filters may be elsewhere */
    add_layout(&h, 5, index);
    expect_left(h);
  }
  for (uint8_t version = 3; version <= 6; version++) {
    header h = start();
    add_layout(&h, version, 1);
    if (version != 5) expect_left(h);
  }
  const uint8_t wide[] = {5, 2, 0, 2, 8, 100, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1}, cut[] = {5, 2, 0, 40, 1, 1, 1};
  const uint8_t large[] = {5, 2, 0, 2, 4, 0, 0, 0, 0x40, 4, 0, 0, 0, 1}, virtual[18] = {5, 3};
  const struct {
    const uint8_t *data;
    size_t n;
    uint8_t flags;
  } cases[] = {{wide, sizeof wide, 0},       {cut, sizeof cut, 0}, {large, sizeof large, 0},
               {virtual, sizeof virtual, 0}, {wide, 1, 0},         {wide, 0, 0},
               {filler, 2, 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    header h = start();
    add(&h, 8, cases[i].flags, cases[i].data, cases[i].n);
    expect_left(h);
  }
  header none = start();
  add(&none, 1, 0, filler, sizeof filler);
  expect_left(none);
}
END_TEST

/* Damage, and what is no header of version 2, at every length. */
START_TEST(test_damage) {
  header good = start();
  add_layout(&good, 5, 1);
  seal(&good);
  for (size_t i = 0; i < good.n; i++) {
    header bad = good;
    bad.bytes[i] ^= 1;
    ck_assert(!annb_newer_change(bad.bytes, bad.n));
    uint8_t *exact = malloc(i + 1); /* so that reading past the end is noticed */
    memcpy(exact, good.bytes, i);
    ck_assert(!annb_newer_change(exact, i));
    annb_newer_size(exact, i);
    free(exact);
  }
  const uint8_t huge[64] = {'O', 'H', 'D', 'R', 2, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  ck_assert_uint_eq(annb_newer_size(huge, sizeof huge), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("newer");
  TCase *tc = tcase_create("newer");
  tcase_add_test(tc, test_checksum);
  tcase_add_test(tc, test_changed);
  tcase_add_test(tc, test_left);
  tcase_add_test(tc, test_damage);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
