/* Packing in a child process. */
#include "../guard/guard.h"
#include "pack.h"

#include "../../store/error.h"
#include "../../store/commit/leftovers.h"

typedef struct job {
  const char *const *inputs;
  size_t n_inputs;
  const char *output;
  bool append;
  annb_pack_options options;
  annb_remains remains;
} job;

static annb_status work(void *arg, annb_guard *guard, void *result, annb_error *err) {
  const job *j = arg;
  annb_pack_options options = j->options;
  options.progress = annb_guard_progress;
  if (options.note) options.note = annb_guard_note;
  options.user = guard;
  return annb_pack_files(j->inputs, j->n_inputs, j->output, j->append, &options, result, err);
}

static void clean(void *arg) { annb_remains_remove(&((job *)arg)->remains); }

static annb_status guarded(const char *const *inputs, size_t n, const char *output, bool append, const annb_pack_options *options,
                           annb_pack_result *result, annb_error *err) {
  if (!inputs || !n || !output || !*output) return annb_fail(err, ANNB_EINVAL, NULL, "packing needs the path of an input and of an output");
  if (n > ANNB_MAX_TABLE) return annb_fail(err, ANNB_EINVAL, NULL, "a store has room for %llu files", (unsigned long long)ANNB_MAX_TABLE);
  if (options && options->in_process) return annb_pack_files(inputs, n, output, append, options, result, err);
  job j = {.inputs = inputs, .n_inputs = n, .output = output, .append = append};
  annb_pack_result made = {0};
  if (options) j.options = *options;
  annb_guarded what = {.work = work,
                       .arg = &j,
                       .result = &made,
                       .result_size = sizeof made,
                       .files = inputs,
                       .n_files = n,
                       .progress = j.options.progress,
                       .note = j.options.note,
                       .user = j.options.user,
                       .clean = clean};
  annb_remains_note(&j.remains, output);
  annb_status s = annb_guard_run(&what, err);
  annb_remains_free(&j.remains);
  if (result) *result = made;
  return s;
}

annb_status annb_pack(const char *input, const char *output, const annb_pack_options *options, annb_pack_result *result, annb_error *err) {
  return guarded(&input, 1, output, false, options, result, err);
}

annb_status annb_pack_many(const char *const *inputs, size_t n_inputs, const char *output, const annb_pack_options *options,
                           annb_pack_result *result, annb_error *err) {
  return guarded(inputs, n_inputs, output, false, options, result, err);
}

annb_status annb_append(const char *const *inputs, size_t n_inputs, const char *output, const annb_pack_options *options,
                        annb_pack_result *result, annb_error *err) {
  return guarded(inputs, n_inputs, output, true, options, result, err);
}
