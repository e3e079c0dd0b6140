/* The peak of this process's anonymous and shared memory (mapped file pages do not count), watched by a thread. Linux. */
#ifndef ANNB_BENCH_PEAK_H
#define ANNB_BENCH_PEAK_H

#include <stdint.h>

void bench_peak_begin(void);
uint64_t bench_peak_end(void); /* bytes */

#endif
