#include "../kernels/kernels.h"

#ifdef ANNB_HAVE_AVX2

#include <immintrin.h>
#include <string.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,bmi,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC optimize("O3")
#pragma GCC target("avx2,bmi,popcnt")
#endif

#define LOOPS_AVX2
#include "encode_loops_body.h"

static bool usable(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt"); }

extern const annb_encode_loops annb_encode_loops_avx2;
const annb_encode_loops annb_encode_loops_avx2 = {"avx2", usable, highest, ascends,       codes_f32, gaps, any,
                                                  tail,   choose, put_low, put_quotients, mark,      rank};

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int annb_no_encode_loops_avx2; /* a translation unit is not empty */
#endif
