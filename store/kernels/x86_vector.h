/* The vector instructions of x86-64, by target attributes; with ANNB_SIMDE, which only tests define, the same in portable C, so that kernels run on
 * machines that lack the instructions. */
#ifndef ANNB_STORE_KERNELS_X86_VECTOR_H
#define ANNB_STORE_KERNELS_X86_VECTOR_H

#ifdef ANNB_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#define ANNB_TARGET(features)
#else
#include <immintrin.h>
#define ANNB_TARGET(features) __attribute__((target(features)))
#endif

#endif
