/* The order of a part's rows: the shuffle itself, the object that keeps it, and what is refused of such objects. */
#include "suite.h"
#include "temp.h"

#include "../convert/rows/shuffle.h"
#include "../reader/row_orders.h"
#include "../store/objects/arrays.h"
#include "../store/objects/maps.h"

#include <annblock/annblock.h>

static char *dir, *store;
static annb_error err;

#define OK(call) ck_assert_msg((call) == ANNB_OK, "%s", err.message)

static void setup(void) {
  dir = temp_make();
  store = annb_io_join(dir, "s.annblock");
}

static void teardown(void) {
  temp_remove(dir);
  free(dir);
  free(store);
}

/* ---- the shuffle ---- */

static void check_permutation(uint64_t n, uint64_t seed) {
  annb_shuffle *s;
  uint64_t moved = 0, wrong = 0;
  OK(annb_shuffle_open(n, seed, &s, &err));
  ck_assert_ptr_nonnull(s);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t source = annb_shuffle_source(s, i);
    wrong += source >= n || annb_shuffle_place(s, source) != i;
    moved += source != i;
  }
  annb_shuffle_close(s);
  ck_assert_uint_eq(wrong, 0);
  if (n > 100) ck_assert_uint_gt(moved, n - 20);
}

START_TEST(test_permutations) {
  static const uint64_t sizes[] = {2, 3, 1000, 65535, 65536, 65537, 100000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (uint64_t seed = 0; seed < 3; seed++) check_permutation(sizes[i], seed * UINT64_C(0x123456789ABCDEF));
}
END_TEST

START_TEST(test_limits) {
  annb_shuffle *s = NULL;
  for (uint64_t n = 0; n < 2; n++) {
    OK(annb_shuffle_open(n, 1, &s, &err));
    ck_assert_ptr_null(s);
  }
  ck_assert_int_eq(annb_shuffle_open(UINT64_C(1) << 33, 1, &s, &err), ANNB_EUNSUPPORTED);
  ck_assert_ptr_null(s);
  annb_shuffle_close(NULL);
  annb_row_orders_close(NULL);
  ck_assert_uint_eq(annb_row_orders_stored(NULL, 7), 7);
  ck_assert_uint_eq(annb_row_orders_source(NULL, 7), 7);
}
END_TEST

/* ---- objects ---- */

typedef struct order {
  const char *name, *inverse_name;
  annb_dtype dtype;
  uint64_t n, order[5], n_inverse, inverse[5];
} order;

static void add_vector(annb_arrays_writer *w, const char *name, annb_dtype dtype, const uint64_t *values, uint64_t n) {
  uint32_t array;
  OK(annb_arrays_begin(w, name, dtype, 1, &array, &err));
  OK(annb_arrays_append(w, values, n, &err));
  OK(annb_arrays_end(w, &err));
}

static uint32_t add_order(annb_txn *txn, const order *o) {
  annb_arrays_writer *w;
  uint32_t object;
  OK(annb_arrays_writer_open(txn, &w, &err));
  add_vector(w, o->name, o->dtype, o->order, o->n);
  add_vector(w, o->inverse_name, o->dtype, o->inverse, o->n_inverse);
  OK(annb_arrays_writer_close(w, &object, &err));
  return object;
}

/* Parts of 3, 4 and 2 rows, the middle one in that order. */
static void publish(const order *o) {
  annb_txn *txn;
  uint32_t row;
  OK(annb_txn_begin(store, ANNB_TXN_REPLACE, &txn, &err));
  annb_part_spec first = {3, 5, ANNB_NONE, ANNB_NONE, ANNB_NONE, ANNB_NONE}, middle = first, last = first;
  middle.n_rows = 4;
  middle.row_order = add_order(txn, o);
  last.n_rows = 2;
  OK(annb_txn_add_part(txn, &first, &row, &err));
  OK(annb_txn_add_part(txn, &middle, &row, &err));
  OK(annb_txn_add_part(txn, &last, &row, &err));
  OK(annb_txn_commit(txn, NULL, &err));
}

static bool hear(void *user, const annb_finding *finding) {
  snprintf(user, 1024, "%s", finding->message);
  return true;
}

static const order good = {"row_order", "row_order_inverse", ANNB_U64, 4, {2, 0, 3, 1}, 4, {1, 3, 0, 2}};

START_TEST(test_orders) {
  static const uint64_t source[] = {0, 1, 2, 5, 3, 6, 4, 7, 8};
  annb_store *s;
  annb_row_orders *orders;
  uint64_t n = 1;
  char message[1024] = "";
  publish(&good);
  OK(annb_verify(store, hear, NULL, message, &n, &err));
  ck_assert_msg(n == 0, "%s", message);
  OK(annb_store_open(store, NULL, &s, &err));
  OK(annb_row_orders_open(s, &orders, &err));
  ck_assert_ptr_nonnull(orders);
  for (uint64_t i = 0; i < 9; i++) {
    ck_assert_uint_eq(annb_row_orders_source(orders, i), source[i]);
    ck_assert_uint_eq(annb_row_orders_stored(orders, source[i]), i);
  }
  annb_row_orders_close(orders);
  annb_store_close(s);
}
END_TEST

START_TEST(test_one_part) {
  annb_open_options options = {.one_part = true, .part = 2};
  annb_store *s;
  annb_row_orders *orders;
  publish(&good);
  OK(annb_store_open(store, &options, &s, &err));
  OK(annb_row_orders_open(s, &orders, &err));
  ck_assert_ptr_null(orders); /* that part is as its source was */
  annb_store_close(s);
  options.part = 1;
  OK(annb_store_open(store, &options, &s, &err));
  OK(annb_row_orders_open(s, &orders, &err));
  for (uint64_t i = 0; i < 4; i++) ck_assert_uint_eq(annb_row_orders_source(orders, i), good.order[i]);
  annb_row_orders_close(orders);
  annb_store_close(s);
}
END_TEST

static const order bad[] = {
    {"row_order", "row_order_inverse", ANNB_U64, 3, {2, 0, 1}, 4, {1, 3, 0, 2}},
    {"row_order", "row_order_inverse", ANNB_U64, 5, {2, 0, 3, 1, 4}, 5, {1, 3, 0, 2, 4}},
    {"row_order", "row_order_inverse", ANNB_U64, 4, {2, 0, 3, 1}, 3, {1, 3, 0}},
    {"row_order", "row_order_inverse", ANNB_U64, 4, {2, 0, 4, 1}, 4, {1, 3, 0, 2}},
    {"row_order", "row_order_inverse", ANNB_U64, 4, {2, 0, UINT64_MAX, 1}, 4, {1, 3, 0, 2}},
    {"row_order", "row_order_inverse", ANNB_U64, 4, {2, 0, 2, 1}, 4, {1, 3, 0, 2}},
    {"row_order", "row_order_inverse", ANNB_U64, 4, {2, 0, 3, 1}, 4, {1, 3, 0, 3}},
    {"row_order", "row_order_inverse", ANNB_U64, 4, {2, 0, 3, 1}, 4, {1, 3, 0, UINT64_MAX}},
    {"row_order", "row_order_inverse", ANNB_U64, 4, {2, 0, 3, 1}, 4, {2, 0, 3, 1}},
    {"row_order", "row_order_inverse", ANNB_I64, 4, {2, 0, 3, 1}, 4, {1, 3, 0, 2}},
    {"row_order", "inverse", ANNB_U64, 4, {2, 0, 3, 1}, 4, {1, 3, 0, 2}},
    {"order", "row_order_inverse", ANNB_U64, 4, {2, 0, 3, 1}, 4, {1, 3, 0, 2}},
};

START_TEST(test_bad_orders) {
  annb_store *s;
  annb_row_orders *orders;
  uint64_t n = 0;
  char message[1024] = "";
  publish(&bad[_i]);
  OK(annb_verify(store, hear, NULL, message, &n, &err));
  ck_assert_uint_eq(n, 1);
  ck_assert_msg(strstr(message, "row"), "%s", message);
  OK(annb_store_open(store, NULL, &s, &err)); /* reading needs no order */
  ck_assert_int_eq(annb_row_orders_open(s, &orders, &err), ANNB_ECORRUPT);
  ck_assert_ptr_null(orders);
  annb_store_close(s);
}
END_TEST

START_TEST(test_bad_reference) {
  annb_txn *txn;
  uint32_t row;
  OK(annb_txn_begin(store, ANNB_TXN_CREATE, &txn, &err));
  annb_part_spec part = {4, 5, ANNB_NONE, ANNB_NONE, ANNB_NONE, 0};
  ck_assert_int_eq(annb_txn_add_part(txn, &part, &row, &err), ANNB_EINVAL);
  annb_txn_abort(txn);
}
END_TEST

/* What is written is read again, and as it was. */
START_TEST(test_written) {
  enum { N = 70000 };
  annb_txn *txn;
  annb_shuffle *made, *read;
  uint32_t row;
  uint64_t wrong = 0;
  OK(annb_txn_begin(store, ANNB_TXN_CREATE, &txn, &err));
  OK(annb_shuffle_open(N, 5, &made, &err));
  annb_part_spec part = {N, 5, ANNB_NONE, ANNB_NONE, ANNB_NONE, ANNB_NONE};
  OK(annb_shuffle_write(made, txn, &part.row_order, &err));
  OK(annb_txn_add_part(txn, &part, &row, &err));
  OK(annb_txn_commit(txn, NULL, &err));
  char **names, *objects = annb_io_join(store, "objects");
  size_t n;
  OK(annb_io_list(objects, &names, &n, &err));
  ck_assert_uint_eq(n, 1);
  char *path = annb_io_join(objects, names[0]);
  OK(annb_shuffle_read(path, N, &read, &err));
  for (uint64_t i = 0; i < N; i++)
    wrong += annb_shuffle_source(made, i) != annb_shuffle_source(read, i) || annb_shuffle_place(made, i) != annb_shuffle_place(read, i);
  ck_assert_uint_eq(wrong, 0);
  annb_shuffle_close(read);
  ck_assert_int_eq(annb_shuffle_read(path, N - 1, &read, &err), ANNB_ECORRUPT);
  ck_assert_ptr_null(read);
  annb_shuffle_close(made);
  annb_io_free_names(names, n);
  free(path);
  free(objects);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("row_orders");
  TCase *tc = tcase_create("row_orders");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_set_timeout(tc, 120);
  tcase_add_test(tc, test_permutations);
  tcase_add_test(tc, test_limits);
  tcase_add_test(tc, test_orders);
  tcase_add_test(tc, test_one_part);
  tcase_add_loop_test(tc, test_bad_orders, 0, (int)(sizeof bad / sizeof *bad));
  tcase_add_test(tc, test_bad_reference);
  tcase_add_test(tc, test_written);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
