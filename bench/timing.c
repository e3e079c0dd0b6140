#include "timing.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void bench_fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("bench: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(EXIT_FAILURE);
}

static size_t room(uint64_t n, size_t size) { return (size_t)((n * size + 4096) / 64 * 64); }

void *bench_reserve(uint64_t n, size_t size) {
  void *p = aligned_alloc(64, room(n, size));
  if (!p) bench_fail("out of memory: give fewer --cells");
  return p;
}

void *bench_get(uint64_t n, size_t size) {
  void *p = bench_reserve(n, size);
  memset(p, 0, room(n, size));
  return p;
}

double bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t bench_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

void bench_shuffle(uint64_t *x, uint64_t n, uint64_t *state) {
  for (; n > 1; n--) {
    uint64_t j = bench_random(state) % n, last = x[n - 1];
    x[n - 1] = x[j];
    x[j] = last;
  }
}

void bench_run_laps(bench_lap *const *laps, uint32_t n_laps, uint32_t repeats) {
  for (uint32_t i = 0; i < repeats; i++)
    for (uint32_t k = 0; k < n_laps; k++) laps[k]->seconds[i] = laps[k]->run(laps[k]->user);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, uint32_t n) {
  qsort(x, n, sizeof *x, compare);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

double bench_seconds(const bench_lap *lap, uint32_t repeats) {
  double x[BENCH_MAX_REPEATS];
  memcpy(x, lap->seconds, repeats * sizeof *x);
  return median(x, repeats);
}

double bench_ratio(const bench_lap *a, const bench_lap *b, uint32_t repeats) {
  double x[BENCH_MAX_REPEATS];
  for (uint32_t i = 0; i < repeats; i++) x[i] = a->seconds[i] / b->seconds[i];
  return median(x, repeats);
}
