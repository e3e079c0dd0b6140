/* XXH3 with vectors of 256 bits: the library chooses when it is compiled, and would have only those of 128 bits. */
#include "kernels.h"

#ifdef ANNB_HAVE_AVX2

#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

#define XXH_VECTOR 2 /* XXH_AVX2 */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t annb_hash64_avx2(const void *data, size_t size) { return XXH3_64bits(data, size); }

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int annb_no_hash_avx2; /* a translation unit is not empty */
#endif
