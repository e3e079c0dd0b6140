#define _DEFAULT_SOURCE /* strsignal */

#include "guard.h"

#include "child.h"
#include "culprit.h"

#include "../../store/error.h"

#include <errno.h>
#include <hdf5.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TELL 0.02        /* seconds between messages about the same stage */
enum { TICK = 100 };     /* milliseconds between looks at the child */
enum { PATIENCE = 20 };  /* seconds of work without a sign of life: HDF5 does not come back */
enum { GRACE = 5 };      /* seconds that it gets to end after it was cancelled */
enum { TEXT = 16384 };   /* of a message, both strings with their zeros */

typedef enum kind { PROGRESS = 1, NOTE, DIFFERENCE } kind;

typedef struct message {
  uint32_t kind, first; /* length of the first string */
  uint64_t done, total;
  char text[TEXT];
} message;

struct annb_guard {
  _Atomic uint64_t beats;
  atomic_bool canceled, ended;
  bool asks; /* the caller has a progress callback */
  char stage[64]; /* that it was told last, and when: of the child */
  double told_at;
  int socket;
  annb_status status;
  annb_error error;
  unsigned char result[];
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- in the child ---- */

/* Hand a message over; for those that are answered, the answer. */
static bool tell(annb_guard *g, kind what, const char *first, const char *second, uint64_t done, uint64_t total) {
  message m = {.kind = what, .done = done, .total = total};
  size_t a = strnlen(first, TEXT / 2 - 1), b = strnlen(second, TEXT / 2 - 1);
  char go_on = 1;
  m.first = (uint32_t)a;
  memcpy(m.text, first, a);
  memcpy(m.text + a + 1, second, b);
  if (send(g->socket, &m, offsetof(message, text) + a + b + 2, MSG_NOSIGNAL) < 0) return true; /* the parent looks at `ended` alone */
  if (what == NOTE || recv(g->socket, &go_on, 1, 0) < 1) return true;
  return go_on != 0;
}

/* A new stage at once, the same not too often: each costs two changes of process. */
static bool worth_telling(annb_guard *g, const char *stage) {
  const double t = now();
  if (!strncmp(g->stage, stage, sizeof g->stage - 1) && t - g->told_at < TELL) return false;
  snprintf(g->stage, sizeof g->stage, "%s", stage);
  g->told_at = t;
  return true;
}

bool annb_guard_progress(void *user, const char *stage, uint64_t done, uint64_t total) {
  annb_guard *g = user;
  atomic_fetch_add(&g->beats, 1);
  if (g->asks && worth_telling(g, stage) && !tell(g, PROGRESS, stage, "", done, total)) atomic_store(&g->canceled, true);
  return !atomic_load(&g->canceled);
}

void annb_guard_note(void *user, const char *note) { tell(user, NOTE, note, "", 0, 0); }

bool annb_guard_difference(void *user, const char *path, const char *what) {
  annb_guard *g = user;
  atomic_fetch_add(&g->beats, 1);
  return tell(g, DIFFERENCE, path, what, 0, 0) && !atomic_load(&g->canceled);
}

static void work(const annb_guarded *what, annb_guard *g) {
  H5open(); /* does not return when another thread of the parent was in a thread-safe HDF5: its lock is never free here */
  atomic_fetch_add(&g->beats, 1);
  g->error = (annb_error){.row = ANNB_NO_ROW};
  g->status = what->work(what->arg, g, g->result, &g->error);
  annb_child_check_leaks();
  atomic_store(&g->ended, true);
  _exit(0);
}

/* ---- in the parent ---- */

typedef struct watch {
  const annb_guarded *what;
  annb_guard *g;
  pid_t child;
  int socket;
  message last; /* progress that was told */
  uint64_t beats;
  double beat_at, beat_cpu; /* when the last sign of life came, and what the child had worked by then */
  double canceled_at;
  bool stuck;
} watch;

/* Not asked again once it has said no. */
static bool progress(watch *w) {
  const annb_guarded *what = w->what;
  if (w->canceled_at > 0) return false;
  return !what->progress || what->progress(what->user, w->last.text, w->last.done, w->last.total);
}

static void cancel(watch *w) {
  if (!atomic_exchange(&w->g->canceled, true)) w->canceled_at = now();
}

static void answer(const watch *w, bool go_on) {
  const char byte = go_on;
  if (send(w->socket, &byte, 1, MSG_NOSIGNAL) < 0) return; /* it has died, which the next look tells */
}

/* False when there is nothing more to come. */
static bool take(watch *w) {
  message m;
  ssize_t n = recv(w->socket, &m, sizeof m, 0);
  if (n < 0 && errno == EINTR) return true;
  if (n < (ssize_t)offsetof(message, text) + 2 || m.first > (size_t)n - offsetof(message, text) - 2) return false;
  m.text[m.first] = 0;
  m.text[n - (ssize_t)offsetof(message, text) - 1] = 0;
  bool go_on = true;
  if (m.kind == NOTE && w->what->note) w->what->note(w->what->user, m.text);
  if (m.kind == PROGRESS) {
    w->last = m;
    go_on = progress(w);
  }
  if (m.kind == DIFFERENCE && w->what->difference) go_on = w->what->difference(w->what->user, m.text, m.text + m.first + 1);
  if (m.kind != NOTE) answer(w, go_on);
  if (!go_on && m.kind == PROGRESS) cancel(w);
  return true;
}

/* It does not begin, or has worked for long without a sign of life, or does not end although it was told to. */
static bool is_stuck(watch *w) {
  const double t = now(), cpu = annb_child_seconds(w->child);
  const uint64_t beats = atomic_load(&w->g->beats);
  if (w->canceled_at > 0) return t - w->canceled_at > GRACE;
  if (beats != w->beats || !w->beat_at) {
    w->beats = beats;
    w->beat_at = t;
    w->beat_cpu = cpu;
  }
  return t - w->beat_at > PATIENCE && (!beats || cpu - w->beat_cpu > PATIENCE * 0.75);
}

/* Until the child is done or dead. */
static void attend(watch *w) {
  struct pollfd ready = {.fd = w->socket, .events = POLLIN};
  while (!atomic_load(&w->g->ended)) {
    int n = poll(&ready, 1, TICK);
    if (n > 0 && !take(w)) return;
    if (n <= 0 && w->g->asks && !progress(w)) cancel(w); /* a signal, or long work */
    if (n == 0 && annb_child_ended(w->child)) break; /* where another child, forked meanwhile, holds the socket's other end, too */
    w->stuck = n == 0 && is_stuck(w);
    if (w->stuck) annb_child_kill(w->child);
    if (w->stuck) return;
  }
  while (poll(&ready, 1, 0) > 0 && take(w)) {} /* notes that were on their way */
}

/* NULL for `how`: an object that cannot be read would tell, else it may have been killed. */
static annb_status tell_damage(const watch *w, const char *how, annb_error *err) {
  char object[1024];
  const annb_guarded *what = w->what;
  for (size_t i = 0; i < what->n_files; i++)
    if (annb_culprit_find(what->files[i], object, sizeof object))
      return annb_fail(err, ANNB_EINPUT, what->files[i], "damaged: HDF5 cannot read the object %.900s (%s): get the file anew", object,
                       how ? how : "it ended");
  if (!how)
    return annb_fail(err, ANNB_EIO, what->n_files ? what->files[0] : NULL,
                     "the process that worked on it is gone, and why cannot be told, because this program ignores SIGCHLD or waits for it "
                     "elsewhere: try again; is memory short?");
  return annb_fail(err, ANNB_EINPUT, what->n_files ? what->files[0] : NULL,
                   "%sdamaged: HDF5 cannot read it (%s)%s%.60s: get the file anew",
                   what->n_files > 1 ? "or one of the other files is " : "", how, what->progress ? ", at: " : "",
                   what->progress ? w->last.text : "");
}

static annb_status tell_death(const watch *w, int number, annb_error *err) {
  char how[80];
  const char *file = w->what->n_files ? w->what->files[0] : NULL;
  if (w->canceled_at > 0 && w->stuck) return annb_fail(err, ANNB_ECANCELED, file, "what was done with it was cancelled");
  if (w->stuck && !w->beats)
    return annb_fail(err, ANNB_EIO, file, "the process that works on it did not begin: no other thread may use HDF5 when it starts");
  if (w->stuck) return tell_damage(w, "it does not come back", err);
  if (number == SIGKILL) return annb_fail(err, ANNB_EIO, file, "the process that worked on it was killed: is memory short?");
  if (number == ANNB_CHILD_UNKNOWN) return tell_damage(w, NULL, err);
  if (number) snprintf(how, sizeof how, "it crashed: %s", strsignal(number));
  else snprintf(how, sizeof how, "it ended");
  return tell_damage(w, how, err);
}

static annb_status start(watch *w, annb_error *err) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) return annb_fail_errno(err, NULL, "start a process");
  w->g->socket = ends[1];
  w->socket = ends[0];
  w->child = annb_child_fork();
  if (w->child == 0) {
    close(ends[0]);
    work(w->what, w->g);
  }
  int number = errno;
  close(ends[1]);
  if (w->child > 0) return ANNB_OK;
  close(ends[0]);
  errno = number;
  return annb_fail_errno(err, NULL, "start a process");
}

static annb_status end(watch *w, annb_error *err) {
  const annb_guarded *what = w->what;
  close(w->socket);
  int number = annb_child_wait(w->child);
  if (!atomic_load(&w->g->ended)) {
    if (what->clean) what->clean(what->arg);
    return tell_death(w, number, err);
  }
  if (what->result_size) memcpy(what->result, w->g->result, what->result_size);
  if (w->g->status && err) *err = w->g->error;
  return w->g->status;
}

annb_status annb_guard_run(const annb_guarded *what, annb_error *err) {
  const size_t size = sizeof(annb_guard) + what->result_size;
  H5open(); /* once, not in every child */
  watch w = {.what = what, .g = annb_child_memory(size), .last = {.text = "starting"}};
  if (!w.g) return annb_fail_memory(err);
  w.g->asks = what->progress != NULL;
  if (what->result_size) memcpy(w.g->result, what->result, what->result_size);
  annb_status s = start(&w, err);
  if (!s) {
    attend(&w);
    s = end(&w, err);
  }
  annb_child_memory_free(w.g, size);
  return s;
}
