/* Work in a child process: results, callbacks, cancelling, and what its death becomes. */
#include "../convert/guard/culprit.h"
#include "../convert/guard/guard.h"
#include "suite.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static annb_error err;
static const char *const files[] = {"/nowhere/a.h5ad", "/nowhere/b.h5ad"};

typedef struct seen {
  int progress, notes, differences, cleaned;
  int stop_at; /* the call of progress that says no; 0 = none */
  pid_t parent;
  char text[256];
} seen;

static bool on_progress(void *user, const char *stage, uint64_t done, uint64_t total) {
  seen *s = user;
  ck_assert_int_eq(getpid(), s->parent);
  ck_assert(!total || done <= total);
  snprintf(s->text, sizeof s->text, "%s", stage);
  return ++s->progress != s->stop_at;
}

static void on_note(void *user, const char *note) {
  seen *s = user;
  s->notes++;
  snprintf(s->text, sizeof s->text, "%.200s", note);
}

static bool on_difference(void *user, const char *path, const char *what) {
  seen *s = user;
  snprintf(s->text, sizeof s->text, "%.100s|%.100s", path, what);
  return ++s->differences < 3;
}

static void on_death(void *arg) { ((seen *)arg)->cleaned++; }

static annb_status run(annb_guarded_fn work, seen *s, uint64_t *result) {
  const annb_guarded what = {.work = work,
                             .arg = s,
                             .result = result,
                             .result_size = sizeof *result,
                             .files = files,
                             .n_files = 2,
                             .progress = on_progress,
                             .note = on_note,
                             .difference = on_difference,
                             .user = s,
                             .clean = on_death};
  s->parent = getpid();
  memset(&err, 0, sizeof err);
  return annb_guard_run(&what, &err);
}

/* ---- an end ---- */

static annb_status add_one(void *arg, annb_guard *guard, void *result, annb_error *error) {
  uint64_t *n = result;
  (void)guard, (void)error;
  ck_assert_int_ne(getpid(), ((seen *)arg)->parent);
  ++*n;
  return ANNB_OK;
}

START_TEST(test_result) {
  seen s = {0};
  uint64_t n = 41;
  ck_assert_int_eq(run(add_one, &s, &n), ANNB_OK);
  ck_assert_uint_eq(n, 42);
  ck_assert_int_eq(s.cleaned, 0);
}
END_TEST

static annb_status refuse(void *arg, annb_guard *guard, void *result, annb_error *error) {
  (void)arg, (void)guard;
  *(uint64_t *)result = 7;
  error->status = ANNB_ELOSSY;
  error->row = 5;
  strcpy(error->message, "what is wrong");
  return ANNB_ELOSSY;
}

START_TEST(test_error) {
  seen s = {0};
  uint64_t n = 0;
  ck_assert_int_eq(run(refuse, &s, &n), ANNB_ELOSSY);
  ck_assert_str_eq(err.message, "what is wrong");
  ck_assert_int_eq(err.row, 5);
  ck_assert_uint_eq(n, 7);
  ck_assert_int_eq(s.cleaned, 0);
}
END_TEST

/* ---- callbacks ---- */

static annb_status talk(void *arg, annb_guard *guard, void *result, annb_error *error) {
  static char long_text[100000];
  (void)arg, (void)error;
  memset(long_text, 'x', sizeof long_text - 1);
  ck_assert(annb_guard_progress(guard, "first", 1, 2));
  ck_assert(annb_guard_progress(guard, "second", 0, 0));
  annb_guard_note(guard, "a note");
  annb_guard_note(guard, long_text); /* cut, not lost */
  for (uint64_t *n = result; annb_guard_difference(guard, "/a", "b"); ++*n) {}
  return ANNB_OK;
}

START_TEST(test_callbacks) {
  seen s = {0};
  uint64_t n = 0;
  ck_assert_int_eq(run(talk, &s, &n), ANNB_OK);
  ck_assert_int_ge(s.progress, 2);
  ck_assert_int_eq(s.notes, 2);
  ck_assert_int_eq(s.differences, 3);
  ck_assert_uint_eq(n, 2);
  ck_assert_str_eq(s.text, "/a|b");
}
END_TEST

static annb_status ask_for_ever(void *arg, annb_guard *guard, void *result, annb_error *error) {
  (void)arg;
  while (annb_guard_progress(guard, "going on", 0, 0)) ++*(uint64_t *)result;
  strcpy(error->message, "was cancelled");
  return ANNB_ECANCELED;
}

START_TEST(test_cancel) {
  seen s = {.stop_at = 3};
  uint64_t n = 0;
  ck_assert_int_eq(run(ask_for_ever, &s, &n), ANNB_ECANCELED);
  ck_assert_str_eq(err.message, "was cancelled");
  ck_assert_int_eq(s.cleaned, 0);
}
END_TEST

static annb_status hang(void *arg, annb_guard *guard, void *result, annb_error *error) {
  (void)arg, (void)guard, (void)error;
  for (volatile uint64_t *n = result; *n < UINT64_MAX;) ++*n;
  return ANNB_OK;
}

/* It says nothing any more: the progress is asked in between, and then it has five seconds. */
START_TEST(test_cancel_what_hangs) {
  seen s = {.stop_at = 2};
  uint64_t n = 0;
  ck_assert_int_eq(run(hang, &s, &n), ANNB_ECANCELED);
  ck_assert_int_eq(s.cleaned, 1);
}
END_TEST

/* ---- death ---- */

static annb_status die(void *arg, annb_guard *guard, void *result, annb_error *error) {
  (void)arg, (void)guard, (void)error;
  raise((int)*(uint64_t *)result);
  return ANNB_OK;
}

/* Sanitizers turn the signals of faults into an exit. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const char *const crashed[] = {"ended", "crashed"};
#else
static const char *const crashed[] = {"crashed", "crashed"};
#endif

static bool tells_crash(void) {
  return strstr(err.message, crashed[0]) || strstr(err.message, crashed[1]);
}

START_TEST(test_crash) {
  static const int numbers[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE};
  seen s = {0};
  uint64_t n = (uint64_t)numbers[_i];
  ck_assert_int_eq(run(die, &s, &n), ANNB_EINPUT);
  ck_assert_ptr_nonnull(strstr(err.message, "/nowhere/a.h5ad"));
  ck_assert_msg(tells_crash(), "%s", err.message);
  ck_assert_int_eq(s.cleaned, 1);
}
END_TEST

START_TEST(test_killed) {
  seen s = {0};
  uint64_t n = SIGKILL;
  ck_assert_int_eq(run(die, &s, &n), ANNB_EIO);
  ck_assert_ptr_nonnull(strstr(err.message, "killed"));
  ck_assert_int_eq(s.cleaned, 1);
}
END_TEST

static annb_status leave(void *arg, annb_guard *guard, void *result, annb_error *error) {
  (void)arg, (void)guard, (void)result, (void)error;
  _exit(0);
}

START_TEST(test_leaves) {
  seen s = {0};
  uint64_t n = 0;
  ck_assert_int_eq(run(leave, &s, &n), ANNB_EINPUT);
  ck_assert_int_eq(s.cleaned, 1);
}
END_TEST

static void wait_for_ever(void) {
  for (;;) pause();
}

/* As where the lock of a thread-safe HDF5 was another thread's: the child waits before it begins. Takes 20 seconds. */
START_TEST(test_does_not_begin) {
  seen s = {0};
  uint64_t n = 0;
  if (!getenv("ANNB_TEST_LONG")) return;
  ck_assert_int_eq(pthread_atfork(NULL, NULL, wait_for_ever), 0);
  ck_assert_int_eq(run(talk, &s, &n), ANNB_EIO);
  ck_assert_msg(strstr(err.message, "did not begin"), "%s", err.message);
  ck_assert_int_eq(s.cleaned, 1);
}
END_TEST

/* A process that was forked meanwhile keeps the socket open: the death is seen all the same. */
static annb_status die_with_heir(void *arg, annb_guard *guard, void *result, annb_error *error) {
  (void)arg, (void)guard, (void)error;
  if (fork() == 0) {
    sleep((unsigned)*(uint64_t *)result);
    _exit(0);
  }
  raise(SIGSEGV);
  return ANNB_OK;
}

START_TEST(test_crash_with_heir) {
  seen s = {0};
  uint64_t n = 5;
  const time_t before = time(NULL);
  ck_assert_int_eq(run(die_with_heir, &s, &n), ANNB_EINPUT);
  ck_assert_int_lt(time(NULL) - before, 4);
  ck_assert_msg(tells_crash(), "%s", err.message);
}
END_TEST

/* Where the program does not learn how its children end, a killed one is no reason to call the file damaged. */
START_TEST(test_killed_unseen) {
  seen s = {0};
  uint64_t n = SIGKILL;
  signal(SIGCHLD, SIG_IGN);
  ck_assert_int_eq(run(die, &s, &n), ANNB_EIO);
  ck_assert_ptr_nonnull(strstr(err.message, "SIGCHLD"));
  ck_assert_int_eq(s.cleaned, 1);
  ck_assert_int_eq(run(add_one, &s, &n), ANNB_OK);
  ck_assert_uint_eq(n, SIGKILL + 1);
}
END_TEST

/* ---- the culprit ---- */

START_TEST(test_no_culprit) {
  char object[64] = "untouched";
  ck_assert(!annb_culprit_find("/nowhere/a.h5ad", object, sizeof object));
  ck_assert(!annb_culprit_find("examples/example.h5ad", object, sizeof object));
  ck_assert_str_eq(object, "untouched");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("guard");
  TCase *t = tcase_create("guard");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, test_result);
  tcase_add_test(t, test_error);
  tcase_add_test(t, test_callbacks);
  tcase_add_test(t, test_cancel);
  tcase_add_test(t, test_cancel_what_hangs);
  tcase_add_loop_test(t, test_crash, 0, 4);
  tcase_add_test(t, test_killed);
  tcase_add_test(t, test_leaves);
  tcase_add_test(t, test_does_not_begin);
  tcase_add_test(t, test_crash_with_heir);
  tcase_add_test(t, test_killed_unseen);
  tcase_add_test(t, test_no_culprit);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
