/* As much of Check's interface as the tests of kernels and codecs use, for machines where Check is not installed: all in one process, which ends at the
 * first failure. */
#ifndef ANNB_TESTS_CROSS_CHECK_H
#define ANNB_TESTS_CROSS_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CK_ENV, CK_MOST = 64 };

typedef struct TCase {
  const char *name[CK_MOST];
  void (*run[CK_MOST])(int);
  int first[CK_MOST], end[CK_MOST], n;
} TCase;

typedef struct Suite {
  const char *name;
  TCase *cases[CK_MOST];
  int n;
} Suite;

typedef struct SRunner {
  Suite *suite;
} SRunner;

static inline void *ck_new(size_t size) {
  void *p = calloc(1, size);
  if (!p) abort();
  return p;
}

static inline Suite *suite_create(const char *name) {
  Suite *suite = ck_new(sizeof *suite);
  suite->name = name;
  return suite;
}

static inline TCase *tcase_create(const char *name) {
  (void)name;
  return ck_new(sizeof(TCase));
}

static inline SRunner *srunner_create(Suite *suite) {
  SRunner *runner = ck_new(sizeof *runner);
  runner->suite = suite;
  return runner;
}

static inline void tcase_set_timeout(TCase *cases, double seconds) {
  (void)cases;
  (void)seconds;
}

static inline void ck_add(TCase *cases, const char *name, void (*run)(int), int first, int end) {
  if (cases->n == CK_MOST) abort();
  cases->name[cases->n] = name;
  cases->run[cases->n] = run;
  cases->first[cases->n] = first;
  cases->end[cases->n++] = end;
}
#define tcase_add_test(cases, test) ck_add(cases, #test, test, 0, 1)
#define tcase_add_loop_test(cases, test, first, end) ck_add(cases, #test, test, first, end)

static inline void suite_add_tcase(Suite *suite, TCase *cases) {
  if (suite->n == CK_MOST) abort();
  suite->cases[suite->n++] = cases;
}

static inline void srunner_run_all(SRunner *runner, int mode) {
  int done = 0;
  (void)mode;
  for (int c = 0; c < runner->suite->n; c++) {
    TCase *cases = runner->suite->cases[c];
    for (int t = 0; t < cases->n; t++)
      for (int i = cases->first[t]; i < cases->end[t]; i++, done++) {
        printf("  %s %d\n", cases->name[t], i);
        fflush(stdout);
        cases->run[t](i);
      }
  }
  printf("%s: %d checks passed\n", runner->suite->name, done);
}

static inline int srunner_ntests_failed(SRunner *runner) {
  (void)runner;
  return 0; /* else it would not have come so far */
}

static inline void srunner_free(SRunner *runner) {
  for (int c = 0; c < runner->suite->n; c++) free(runner->suite->cases[c]);
  free(runner->suite);
  free(runner);
}

#define START_TEST(name) static void name(int _i __attribute__((unused)))
#define END_TEST

static inline void ck_check(int ok, const char *file, int line, const char *what) {
  if (ok) return;
  printf("%s:%d: failed: %s\n", file, line, what);
  exit(1);
}
#define ck_say(ok, what) ck_check((ok) != 0, __FILE__, __LINE__, what)
#define ck_assert(x) ck_say(x, #x)
#define ck_assert_msg(x, ...) ck_say(x, #x)
#define ck_assert_int_eq(a, b) ck_say((intmax_t)(a) == (intmax_t)(b), #a " = " #b)
#define ck_assert_uint_eq(a, b) ck_say((uintmax_t)(a) == (uintmax_t)(b), #a " = " #b)
#define ck_assert_uint_gt(a, b) ck_say((uintmax_t)(a) > (uintmax_t)(b), #a " > " #b)
#define ck_assert_uint_lt(a, b) ck_say((uintmax_t)(a) < (uintmax_t)(b), #a " < " #b)
#define ck_assert_uint_le(a, b) ck_say((uintmax_t)(a) <= (uintmax_t)(b), #a " <= " #b)
#define ck_assert_mem_eq(a, b, n) ck_say(memcmp(a, b, n) == 0, #a " = " #b)
#define ck_assert_str_eq(a, b) ck_say(strcmp(a, b) == 0, #a " = " #b)
#define ck_assert_ptr_eq(a, b) ck_say((const void *)(a) == (const void *)(b), #a " = " #b)
#define ck_assert_ptr_null(a) ck_say(!(a), #a " is NULL")
#define ck_assert_ptr_nonnull(a) ck_say(a, #a " is not NULL")

#endif
