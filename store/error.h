/* Filling annb_error. Each returns the status given, so that a failure is one line: `return annb_fail(…)`. */
#ifndef ANNB_STORE_ERROR_H
#define ANNB_STORE_ERROR_H

#include <annblock/status.h>

#if defined(__GNUC__)
#define ANNB_PRINTF(at, args) __attribute__((format(printf, at, args)))
#else
#define ANNB_PRINTF(at, args)
#endif

/* Message: "<path>: <text>", or only the text when path is NULL or "". */
annb_status annb_fail(annb_error *err, annb_status status, const char *path, const char *format, ...) ANNB_PRINTF(4, 5);
/* The same with a row number in err->row; the text should name the row too. */
annb_status annb_fail_row(annb_error *err, annb_status status, const char *path, int64_t row, const char *format, ...) ANNB_PRINTF(5, 6);
/* Message: "<path>: cannot <action>: <strerror(errno)>"; status ANNB_ENOMEM for ENOMEM, ANNB_EEXIST for EEXIST, else ANNB_EIO. */
annb_status annb_fail_errno(annb_error *err, const char *path, const char *action);
annb_status annb_fail_memory(annb_error *err);

/* The numbers of the bits set, for messages: "feature bit 3", "feature bits 1, 40". */
enum { ANNB_BITS_TEXT = 320 };
void annb_bits_text(const char *what, uint64_t mask, char out[ANNB_BITS_TEXT]);

#endif
