/* An input and an output in a directory of their own. For one test program each: its state is static. */
#ifndef ANNB_TESTS_PACK_TEMP_H
#define ANNB_TESTS_PACK_TEMP_H

#include "h5_make.h"
#include "temp.h"

#include <annblock/annblock.h>
#include <annblock/convert.h>

static char *dir, *input, *output;
static annb_error err;

static inline void setup(void) {
  dir = temp_make();
  input = annb_io_join(dir, "in.h5ad");
  output = annb_io_join(dir, "out.annblock");
  memset(&err, 0, sizeof err);
}

static inline void teardown(void) {
  temp_remove(dir);
  free(input);
  free(output);
  free(dir);
}

#define OK(call)                                                                                                                           \
  do {                                                                                                                                     \
    annb_status status_ = (call);                                                                                                          \
    ck_assert_msg(status_ == ANNB_OK, "%s: %s", #call, err.message);                                                                       \
  } while (0)

/* Packing fails in this way, says `text`, names the input, and leaves nothing. */
static inline void refused(annb_status status, const char *text) {
  memset(&err, 0, sizeof err);
  annb_status s = annb_pack(input, output, NULL, NULL, &err);
  if (s != status || !strstr(err.message, text) || !strstr(err.message, "in.h5ad"))
    ck_abort_msg("%s, not %s with '%s': %s", annb_status_name(s), annb_status_name(status), text, err.message);
  ck_assert(!temp_exists(output));
}

#endif
