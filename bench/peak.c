#include "peak.h"

#include "timing.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static pthread_t watcher;
static atomic_bool done;
static uint64_t peak;

static uint64_t memory_now(void) {
  char line[256];
  unsigned long long kib, sum = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "RssAnon: %llu", &kib) == 1 || sscanf(line, "RssShmem: %llu", &kib) == 1) sum += kib;
  if (f) fclose(f);
  return sum << 10;
}

static void *watch(void *unused) {
  const struct timespec pause = {0, 2000000};
  while (!atomic_load(&done)) {
    uint64_t now = memory_now();
    if (now > peak) peak = now;
    nanosleep(&pause, NULL);
  }
  return unused;
}

void bench_peak_begin(void) {
  peak = 0;
  atomic_store(&done, false);
  if (pthread_create(&watcher, NULL, watch, NULL)) bench_fail("no thread to watch memory");
}

uint64_t bench_peak_end(void) {
  atomic_store(&done, true);
  pthread_join(watcher, NULL);
  uint64_t now = memory_now();
  return now > peak ? now : peak;
}
