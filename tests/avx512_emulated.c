/* The AVX-512 kernels in portable C, so that they are tested on machines that lack the instructions; and the list of kernels to test. */
#include "../store/kernels/kernels.h"
#include "codec_help.h"

#ifdef ANNB_HAVE_AVX512

#include "simde_avx512.h"

#define ANNB_SIMDE
#define annb_kernel_avx512 annb_kernel_avx512_emulated
extern const annb_kernel annb_kernel_avx512_emulated;
#include "../store/kernels/avx512.c"
#undef annb_kernel_avx512

static const annb_kernel *const all[] = {&annb_kernel_scalar, &annb_kernel_avx2, &annb_kernel_avx512, &annb_kernel_avx512_emulated};

const annb_kernel *const *help_kernels(size_t *n) {
  *n = sizeof all / sizeof *all;
  return all;
}

#else

const annb_kernel *const *help_kernels(size_t *n) { return annb_kernels(n); }

#endif
