#include "report.h"

#include "../store/kernels/kernels.h"

#include <annblock/annblock.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* What must hold and what is aimed at; `narrow`: where there is no AVX-512, 0 = the same. */
typedef struct target {
  const char *name, *unit;
  double must, narrow, aim; /* 0 = nothing */
  bool at_most;
  int digits;
} target;

static const target targets[N_FIGURES] = {
    [FIGURE_COUNTS] = {"counts", "bits/nnz", 5.3, 0, 4.9, true, 3},
    [FIGURE_COUNTS_SOURCE] = {"counts, genes in source order", "bits/nnz", 8.0, 0, 7.5, true, 3},
    [FIGURE_LOGNORM] = {"log-normalised float32", "bits/nnz", 6.0, 0, 5.4, true, 3},
    [FIGURE_LOGNORM_SOURCE] = {"log-normalised float32, genes in source order", "bits/nnz", 0, 0, 0, true, 3},
    [FIGURE_OVERHEAD] = {"of that, beside the codec's own bytes", "bits/nnz", 0.14, 0, 0, true, 3},
    [FIGURE_STORED] = {"decode to CSR, stored gene order", "× memcpy", 1.3, 0.8, 1.8, false, 3},
    [FIGURE_ORIGINAL] = {"original gene ids, unsorted", "× memcpy", 0.95, 0.65, 1.3, false, 3},
    [FIGURE_SORTED] = {"original gene ids, sorted in the row", "× memcpy", 0.5, 0.25, 0.7, false, 3},
    [FIGURE_DENSE] = {"dense float32 rows", "× memset", 0.3, 0, 0.5, false, 3},
    [FIGURE_SCALAR] = {"scalar kernel, original gene ids", "× memcpy", 0.2, 0, 0, false, 3},
    [FIGURE_CHECK] = {"verifying checksums costs, the worst of the decoding figures", "%", 5, 0, 0, true, 1},
    [FIGURE_ENCODE] = {"encode, from source-order rows: map, sort, choose, check", "M nnz/s", 60, 0, 120, false, 0},
    [FIGURE_ENCODE_ALONE] = {"encode, the codec alone", "M nnz/s", 0, 0, 0, false, 0},
};

static double load(void) {
  double x = -1;
  FILE *f = fopen("/proc/loadavg", "r");
  if (f && fscanf(f, "%lf", &x) != 1) x = -1;
  if (f) fclose(f);
  return x;
}

void bench_report_begin(bench_report *report) {
  memset(report, 0, sizeof *report);
  report->load_before = load();
}

void bench_report_set(bench_report *report, bench_figure figure, bench_source source, double value) {
  if (figure == FIGURE_COUNTS_SOURCE || figure == FIGURE_LOGNORM || figure == FIGURE_LOGNORM_SOURCE) report->other_rows = true;
  report->value[figure][source] = value;
  report->measured[figure][source] = true;
}

void bench_report_worst(bench_report *report, bench_figure figure, bench_source source, double value) {
  if (!report->measured[figure][source] || value > report->value[figure][source]) bench_report_set(report, figure, source, value);
}

bench_figure bench_size_figure(bool whole, bool source_order) {
  if (!whole) return source_order ? FIGURE_LOGNORM_SOURCE : FIGURE_LOGNORM;
  return source_order ? FIGURE_COUNTS_SOURCE : FIGURE_COUNTS;
}

/* ---- printing ---- */

static bool has_avx512(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx512vbmi2");
#else
  return false;
#endif
}

static void print_machine(const bench_report *report) {
  char line[256], model[256] = "unknown processor";
  struct utsname os = {0};
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (f && fgets(line, sizeof line, f))
    if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
      snprintf(model, sizeof model, "%s", strchr(line, ':') + 2);
      model[strcspn(model, "\n")] = 0;
      break;
    }
  if (f) fclose(f);
  (void)uname(&os);
  double after = load();
  printf("\n%s, %ld processors, %s, kernel %s; %s %s; ", model, sysconf(_SC_NPROCESSORS_ONLN), has_avx512() ? "AVX-512" : "no AVX-512",
         annb_kernel_best()->name, os.sysname, os.release);
#ifdef __clang__
  printf("clang %s; ", __clang_version__);
#else
  printf("gcc %s; ", __VERSION__);
#endif
  printf("annblock %s; load average %.2f before, %.2f after.\n", annb_version(), report->load_before, after);
  /* by the end this thread counts for one */
  if (report->load_before > 1 || after > 2)
    printf("\n**Warning: the machine was busy (load above 1 beside this program). Ratios scatter; repeat on a quiet one.**\n");
}

static void print_bound(const target *t, double bound) {
  if (bound > 0) printf(" %s %g %s |", t->at_most ? "≤" : "≥", bound, t->unit);
  else printf(" – |");
}

static void print_value(const target *t, double must, const bench_report *report, bench_figure figure, bench_source source) {
  if (!report->measured[figure][source]) {
    printf(" – |");
    return;
  }
  double x = report->value[figure][source];
  const char *holds = "";
  if (must > 0) holds = (t->at_most ? x <= must : x >= must) ? ", must" : ", **not met**";
  if (t->aim > 0 && (t->at_most ? x <= t->aim : x >= t->aim)) holds = ", aim";
  printf(" %.*f%s |", t->digits, x, holds);
}

void bench_report_print(const bench_report *report) {
  bool narrow = !has_avx512();
  print_machine(report);
  printf("\n| figure | records in memory | store and reader | must%s | aim |\n|---|---|---|---|---|\n",
         narrow ? " (without AVX-512)" : "");
  for (int i = 0; i < N_FIGURES; i++) {
    const target *t = &targets[i];
    if (!report->measured[i][FROM_RECORDS] && !report->measured[i][FROM_STORE]) continue;
    double must = narrow && t->narrow > 0 ? t->narrow : t->must;
    printf("| %s |", t->name);
    print_value(t, must, report, (bench_figure)i, FROM_RECORDS);
    print_value(t, must, report, (bench_figure)i, FROM_STORE);
    print_bound(t, must);
    print_bound(t, t->aim);
    printf("\n");
  }
  printf("\nSizes: records in memory count the codec's bytes only; the store counts its segments and manifest.\n");
  if (report->other_rows) printf("Decoding targets are stated for counts with genes by detection; these rows are others.\n");
}
