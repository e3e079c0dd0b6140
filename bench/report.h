/* The figures that are wanted, those that were measured, and the machine, as Markdown. */
#ifndef ANNB_BENCH_REPORT_H
#define ANNB_BENCH_REPORT_H

#include <stdbool.h>

typedef enum bench_figure {
  FIGURE_COUNTS,
  FIGURE_COUNTS_SOURCE,
  FIGURE_LOGNORM,
  FIGURE_LOGNORM_SOURCE,
  FIGURE_OVERHEAD,
  FIGURE_STORED,
  FIGURE_ORIGINAL,
  FIGURE_SORTED,
  FIGURE_DENSE,
  FIGURE_SCALAR,
  FIGURE_CHECK,  /* the four decoding figures, the worst: per cent */
  FIGURE_ENCODE,
  FIGURE_ENCODE_ALONE,
  N_FIGURES
} bench_figure;

/* Where a figure comes from: a codec over records in memory, or the public reader and the files of a store. */
typedef enum bench_source { FROM_RECORDS, FROM_STORE, N_SOURCES } bench_source;

typedef struct bench_report {
  double value[N_FIGURES][N_SOURCES];
  bool measured[N_FIGURES][N_SOURCES];
  double load_before;
  bool other_rows; /* not counts with genes by detection, for which the decoding figures are stated */
} bench_report;

void bench_report_begin(bench_report *report); /* notes the load */
void bench_report_set(bench_report *report, bench_figure figure, bench_source source, double value);
/* The highest so far stays. */
void bench_report_worst(bench_report *report, bench_figure figure, bench_source source, double value);
void bench_report_print(const bench_report *report);

/* The size figure of such a matrix. */
bench_figure bench_size_figure(bool whole, bool source_order);

#endif
