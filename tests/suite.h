/* Every test program ends the same way. */
#ifndef ANNB_TESTS_SUITE_H
#define ANNB_TESTS_SUITE_H

#include <check.h>

/* Run the suite, and free it. Returns main's exit status: 0 when every test passed. CK_VERBOSITY, CK_RUN_CASE and CK_FORK act as Check says. */
static inline int suite_run(Suite *suite) {
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}

#endif
