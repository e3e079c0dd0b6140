/* Files of killed writers in tmp/: the next writer removes them, and none of a writer that lives. */
#include "../store/commit/leftovers.h"
#include "suite.h"
#include "temp.h"

#include <annblock/annblock.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>

static char *dir, *store, *tmp;
static annb_error err;

#define OK(call) ck_assert_msg((call) == ANNB_OK, "%s: %s", #call, err.message)

static void setup(void) {
  dir = temp_make();
  store = annb_io_join(dir, "s.annblock");
  tmp = annb_io_join(store, "tmp");
  memset(&err, 0, sizeof err);
}

static void teardown(void) {
  temp_remove(dir);
  free(tmp);
  free(store);
  free(dir);
}

/* A transaction with `n` files under tmp/ beside its marker. */
static annb_txn *begin(int n) {
  annb_txn *txn;
  OK(annb_txn_begin(store, ANNB_TXN_REPLACE, &txn, &err));
  for (int i = 0; i < n; i++) {
    const char *path;
    OK(annb_txn_temp_path(txn, &path, &err));
    temp_write(path, "half", 4);
  }
  return txn;
}

static char *inside(const char *name) { return annb_io_join(tmp, name); }

static void write_name(const char *name) {
  char *path = inside(name);
  temp_write(path, "", 0);
  free(path);
}

static bool is_there(const char *name) {
  char *path = inside(name);
  bool there = temp_exists(path);
  free(path);
  return there;
}

/* A writer that is in mid-transaction; `n` files beside its marker are there when this returns. */
static pid_t start_writer(int n) {
  int ready[2];
  char byte = 0;
  ck_assert_int_eq(pipe(ready), 0);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    begin(n);
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  ck_assert_int_eq(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  return child;
}

static void kill_writer(pid_t child) {
  int status;
  ck_assert_int_eq(kill(child, SIGKILL), 0);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFSIGNALED(status));
}

START_TEST(killed_writer) {
  pid_t child = start_writer(3);
  kill_writer(child);
  ck_assert_uint_eq(temp_count(tmp), 4);
  annb_txn *txn = begin(1);
  ck_assert_uint_eq(temp_count(tmp), 2);
  annb_txn_abort(txn);
  /* the directories stay: this transaction did not make them */
  ck_assert_uint_eq(temp_count(tmp), 0);
}
END_TEST

START_TEST(living_writers_keep_their_files) {
  pid_t other = start_writer(2), killed = start_writer(2);
  annb_txn *mine = begin(2);
  ck_assert_uint_eq(temp_count(tmp), 9);
  kill_writer(killed);
  annb_txn *next = begin(0);
  ck_assert_uint_eq(temp_count(tmp), 7); /* three, three and the new marker */
  annb_txn_abort(next);
  ck_assert_uint_eq(temp_count(tmp), 6);
  annb_txn_abort(mine);
  ck_assert_uint_eq(temp_count(tmp), 3);
  kill_writer(other);
  annb_txn_abort(begin(0));
  ck_assert_uint_eq(temp_count(tmp), 0);
}
END_TEST

START_TEST(only_names_of_transactions) {
  static const char *const foreign[] = {"notes", "0123456789abcdef", "0123456789abcdef-", "0123456789abcdef-1x", "0123456789abcdeg-0",
                                        "0123456789ABCDEF-0", "spool-0123456789abcdef"};
  pid_t child = start_writer(0);
  kill_writer(child);
  for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) write_name(foreign[i]);
  write_name("0123456789abcdef-12"); /* of a transaction whose marker is gone */
  write_name("1123456789abcdef-0");  /* and one with nothing else */
  annb_txn *txn = begin(0);
  for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) ck_assert_msg(is_there(foreign[i]), "%s was removed", foreign[i]);
  ck_assert(!is_there("0123456789abcdef-12") && !is_there("1123456789abcdef-0"));
  annb_txn_abort(txn);
}
END_TEST

/* Whoever holds the marker, the files stay: also those with a number that sorts before it. */
START_TEST(a_lock_keeps_all_files) {
  char name[ANNB_TEMP_NAME];
  pid_t child = start_writer(0);
  kill_writer(child);
  for (unsigned i = 0; i < 12; i++) {
    annb_temp_name(name, 7, i);
    write_name(name);
  }
  annb_temp_name(name, 7, 0);
  char *marker = inside(name);
  int fd = open(marker, O_RDWR);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(flock(fd, LOCK_EX), 0);
  annb_leftovers_remove(tmp);
  ck_assert_uint_eq(temp_count(tmp), 12);
  close(fd);
  annb_leftovers_remove(tmp);
  ck_assert_uint_eq(temp_count(tmp), 0);
  free(marker);
}
END_TEST

/* A marker that is taken away between its making and its locking is made again: whoever has the lock has the name. */
START_TEST(marker_is_never_lost) {
  enum { CLEANERS = 3, ROUNDS = 300 };
  pid_t cleaners[CLEANERS];
  ck_assert_int_eq(mkdir(store, 0777), 0);
  ck_assert_int_eq(mkdir(tmp, 0777), 0);
  for (int i = 0; i < CLEANERS; i++) {
    cleaners[i] = fork();
    ck_assert_int_ge(cleaners[i], 0);
    while (cleaners[i] == 0) annb_leftovers_remove(tmp);
  }
  bool kept = true;
  for (int i = 0; kept && i < ROUNDS; i++) {
    char name[ANNB_TEMP_NAME];
    int fd, second;
    bool locked;
    annb_temp_name(name, (uint64_t)i, 0);
    char *marker = inside(name);
    kept = annb_io_create_locked(marker, &fd, &locked, &err) == ANNB_OK && locked && annb_io_try_lock(marker, &second) == ANNB_LOCK_REFUSED;
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    kept = kept && temp_exists(marker);
    if (kept) annb_io_unlock(fd);
    free(marker);
  }
  for (int i = 0; i < CLEANERS; i++) kill_writer(cleaners[i]);
  ck_assert(kept);
  annb_leftovers_remove(tmp);
  ck_assert_uint_eq(temp_count(tmp), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("leftovers");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, killed_writer);
  tcase_add_test(tcase, living_writers_keep_their_files);
  tcase_add_test(tcase, only_names_of_transactions);
  tcase_add_test(tcase, a_lock_keeps_all_files);
  tcase_add_test(tcase, marker_is_never_lost);
  suite_add_tcase(suite, tcase);
  return suite_run(suite);
}
