/* Memory, clocks and interleaved repetitions of the benchmarks. Out of memory ends the program. */
#ifndef ANNB_BENCH_TIMING_H
#define ANNB_BENCH_TIMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_MAX_REPEATS 31u

/* 64-byte aligned and zeroed, so that its pages are there before anything is measured; a page of slack behind. */
void *bench_get(uint64_t n, size_t size);
/* The same, not touched. */
void *bench_reserve(uint64_t n, size_t size);
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* CPU time of this thread: other work on the machine counts less. */
double bench_now(void);
uint64_t bench_random(uint64_t *state);
void bench_shuffle(uint64_t *x, uint64_t n, uint64_t *state);

/* One thing to measure: its run returns seconds. */
typedef struct bench_lap {
  double (*run)(void *user);
  void *user;
  double seconds[BENCH_MAX_REPEATS];
} bench_lap;

/* All laps in turn, `repeats` times, so that each round meets the same machine. */
void bench_run_laps(bench_lap *const *laps, uint32_t n_laps, uint32_t repeats);
/* Medians: of seconds, and of a round's seconds of `a` over those of `b`. */
double bench_seconds(const bench_lap *lap, uint32_t repeats);
double bench_ratio(const bench_lap *a, const bench_lap *b, uint32_t repeats);

#endif
