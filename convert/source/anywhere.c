#include "anywhere.h"

#include "../../store/error.h"

#include <stdlib.h>

struct annb_anywhere {
  const annb_direct *direct;
};

annb_status annb_anywhere_open(const annb_values *v, hid_t memory_type, annb_anywhere **out, annb_error *err) {
  *out = NULL;
  if (!v->direct || !annb_direct_is_contiguous(v->direct) || H5Tequal(v->type, memory_type) <= 0) return ANNB_OK;
  annb_anywhere *a = calloc(1, sizeof *a);
  if (!a) return annb_fail_memory(err);
  a->direct = v->direct;
  *out = a;
  return ANNB_OK;
}

void annb_anywhere_close(annb_anywhere *a) { free(a); }

annb_status annb_anywhere_read(const annb_anywhere *a, uint64_t first, uint64_t n, void *out, annb_error *err) {
  return annb_direct_read_at(a->direct, first, n, out, err);
}

void annb_anywhere_will_need(const annb_anywhere *a, uint64_t first, uint64_t n) { annb_direct_will_need(a->direct, first, n); }
