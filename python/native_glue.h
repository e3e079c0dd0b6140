/* Beside the public API: what would be slow from Python element by element, and the callbacks. */
extern "Python" bool annbpy_finding(void *user, const annb_finding *finding);
extern "Python" bool annbpy_verify_progress(void *user, uint64_t done, uint64_t total);
/* Strings of rows first … first + n - 1. `ends` (n values) receives where each ends; `bytes`, when it is not NULL, has room for
 * `size` bytes and receives them; `missing` (n bytes, may be NULL) what is missing. */
int annbpy_strings(const annb_column *column, uint64_t first, uint64_t n, int64_t *ends, char *bytes, uint64_t size, uint8_t *missing,
                   annb_error *err);
int annbpy_joint_strings(const annb_joint_column *column, uint64_t first, uint64_t n, int64_t *ends, char *bytes, uint64_t size,
                         uint8_t *missing, annb_error *err);
/* annb_loader_next, waiting at most `milliseconds`: *ready tells whether there is an answer. */
int annbpy_loader_next(annb_loader *loader, uint32_t milliseconds, annb_batch *batch, bool *ready, annb_error *err);
/* ---- code ---- */
#include <string.h>

#define ANNBPY_STRINGS(name, column_type, get)                                                                                             \
  static int name(const column_type *column, uint64_t first, uint64_t n, int64_t *ends, char *bytes, uint64_t size, uint8_t *missing,      \
                  annb_error *err) {                                                                                                       \
    uint64_t at = 0;                                                                                                                       \
    for (uint64_t i = 0; i < n; i++) {                                                                                                     \
      const char *text = NULL;                                                                                                             \
      uint64_t length = 0;                                                                                                                 \
      bool absent = false;                                                                                                                 \
      annb_status status = get(column, first + i, &text, &length, &absent, err);                                                           \
      if (status) return status;                                                                                                           \
      if (bytes && length && length <= size - at) memcpy(bytes + at, text, length);                                                        \
      at += length;                                                                                                                        \
      ends[i] = (int64_t)at;                                                                                                               \
      if (missing) missing[i] = absent;                                                                                                    \
    }                                                                                                                                      \
    return 0;                                                                                                                              \
  }
ANNBPY_STRINGS(annbpy_strings, annb_column, annb_column_string)
ANNBPY_STRINGS(annbpy_joint_strings, annb_joint_column, annb_store_column_string)

static int annbpy_loader_next(annb_loader *loader, uint32_t milliseconds, annb_batch *batch, bool *ready, annb_error *err) {
  annb_status status = annb_loader_poll(loader, milliseconds, ready, err);
  if (status || !*ready) return status;
  return annb_loader_next(loader, batch, err);
}
