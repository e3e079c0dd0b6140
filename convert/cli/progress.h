/* A progress line on stderr, only when that is a terminal: stage, bar, rate, time left. The callbacks also poll for signals. */
#ifndef ANNB_CLI_PROGRESS_H
#define ANNB_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cli_progress {
  bool shown; /* stderr is a terminal */
  bool dirty; /* there is something on the line */
  bool bytes; /* units are bytes */
  char stage[64];
  double started, stage_started, drawn; /* seconds */
  uint64_t stage_done;                  /* units done when the stage began */
} cli_progress;

void cli_progress_begin(cli_progress *progress, bool bytes, bool quiet); /* quiet: nothing is shown */
/* Callbacks for annb_pack_options and annb_export_options, and for annb_verify. False when a signal came. */
bool cli_progress_stage(void *progress, const char *stage, uint64_t done, uint64_t total);
bool cli_progress_verify(void *progress, uint64_t done, uint64_t total);
/* A line of its own for something that is worth knowing (annb_convert_note_fn). */
void cli_progress_note(void *progress, const char *note);
/* Clear the line. Returns the seconds since begin. */
double cli_progress_end(cli_progress *progress);

double cli_now(void); /* monotonic, seconds */

#endif
