#include "kernels.h"

static const annb_kernel *const table[] = {
    &annb_kernel_scalar,
#ifdef ANNB_HAVE_AVX2
    &annb_kernel_avx2,
    &annb_kernel_avx512,
#endif
#ifdef ANNB_HAVE_NEON
    &annb_kernel_neon,
#endif
};
enum { N_KERNELS = sizeof table / sizeof *table };

const annb_kernel *const *annb_kernels(size_t *n) {
  *n = N_KERNELS;
  return table;
}

const annb_kernel *annb_kernel_best(void) {
  size_t i = N_KERNELS;
  while (!table[--i]->usable()) continue; /* the scalar one always is */
  return table[i];
}
