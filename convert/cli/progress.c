#include "progress.h"

#include "cli.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR = 24 };

double cli_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void cli_progress_begin(cli_progress *progress, bool bytes, bool quiet) {
  *progress = (cli_progress){.shown = !quiet && isatty(STDERR_FILENO) != 0, .bytes = bytes, .started = cli_now()};
}

static char *rate_text(const cli_progress *p, double rate) {
  char *text = p->bytes ? cli_bytes(rate) : cli_count((uint64_t)rate), *out = cli_format("%s/s", text);
  free(text);
  return out;
}

static void draw(cli_progress *p, double now, uint64_t done, uint64_t total) {
  double elapsed = now - p->stage_started, rate = elapsed > 0 ? (double)(done - p->stage_done) / elapsed : 0;
  char *speed = rate_text(p, rate);
  p->dirty = true;
  if (!total) {
    char *count = p->bytes ? cli_bytes((double)done) : cli_count(done);
    fprintf(stderr, "\r\033[K%-24s %s  %s", p->stage, count, speed);
    free(count);
  } else {
    if (done > total) done = total;
    char bar[BAR + 1];
    int filled = (int)((double)done / (double)total * BAR);
    memset(bar, '.', BAR);
    memset(bar, '#', (size_t)filled);
    bar[BAR] = 0;
    char *left = rate > 0 ? cli_duration((double)(total - done) / rate) : cli_format("?");
    fprintf(stderr, "\r\033[K%-24s [%s] %3d %%  %s  %s left", p->stage, bar, (int)(100.0 * (double)done / (double)total), speed, left);
    free(left);
  }
  free(speed);
  fflush(stderr);
}

bool cli_progress_stage(void *progress, const char *stage, uint64_t done, uint64_t total) {
  cli_progress *p = progress;
  if (cli_interrupted()) return false;
  if (!p->shown) return true;
  double now = cli_now();
  bool fresh = strncmp(p->stage, stage, sizeof p->stage - 1) != 0 || done < p->stage_done;
  if (fresh) {
    strncpy(p->stage, stage, sizeof p->stage - 1);
    p->stage_started = now;
    p->stage_done = done;
  }
  if (fresh || now - p->drawn >= 0.1) {
    p->drawn = now;
    draw(p, now, done, total);
  }
  return true;
}

bool cli_progress_verify(void *progress, uint64_t done, uint64_t total) { return cli_progress_stage(progress, "verifying", done, total); }

void cli_progress_note(void *progress, const char *note) {
  cli_progress *p = progress;
  if (p->dirty) fputs("\r\033[K", stderr);
  p->dirty = false;
  fprintf(stderr, "annblock: note: %s\n", note);
}

double cli_progress_end(cli_progress *progress) {
  if (progress->dirty) fputs("\r\033[K", stderr);
  progress->dirty = false;
  fflush(stderr);
  return cli_now() - progress->started;
}
