#ifdef __GNUC__
#pragma GCC optimize("O3") /* -O2 leaves these loops as they are */
#endif

#include "encode_loops_body.h"

static bool usable(void) { return true; }

static const annb_encode_loops any_machine = {"any", usable, highest, ascends,       codes_f32, gaps, any,
                                              tail,  choose, put_low, put_quotients, mark,      rank};

#if defined(ANNB_HAVE_AVX2)
extern const annb_encode_loops annb_encode_loops_avx2;
#endif

static const annb_encode_loops *const all[] = {
    &any_machine,
#if defined(ANNB_HAVE_AVX2)
    &annb_encode_loops_avx2,
#endif
};
enum { N_ALL = sizeof all / sizeof *all };

const annb_encode_loops *const *annb_encode_loops_all(size_t *n) {
  *n = N_ALL;
  return all;
}

const annb_encode_loops *annb_encode_loops_best(void) { return all[N_ALL - 1]->usable() ? all[N_ALL - 1] : all[0]; }
