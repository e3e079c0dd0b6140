#include "kernels.h"

static const annb_kernel *const table[] = {
    &annb_kernel_scalar,
#ifdef ANNB_HAVE_AVX2
    &annb_kernel_avx2,
#endif
};

const annb_kernel *const *annb_kernels(size_t *n) {
  *n = sizeof table / sizeof *table;
  return table;
}

const annb_kernel *annb_kernel_best(void) {
#ifdef ANNB_HAVE_AVX2
  if (annb_kernel_avx2.usable()) return &annb_kernel_avx2;
#endif
  return &annb_kernel_scalar;
}
