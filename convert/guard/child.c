#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
enum { SANITIZED = 1 };
void annb_child_check_leaks(void) { __lsan_do_leak_check(); }
#elif defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
void annb_child_check_leaks(void) {}
#else
enum { SANITIZED = 0 };
void annb_child_check_leaks(void) {}
#endif

void *annb_child_memory(size_t size) {
  void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

void annb_child_memory_free(void *memory, size_t size) {
  if (memory) munmap(memory, size);
}

static void set_signals(void) {
  static const int of_user[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT}, of_crash[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  for (size_t i = 0; i < sizeof of_user / sizeof *of_user; i++) signal(of_user[i], SIG_IGN);
  for (size_t i = 0; i < sizeof of_crash / sizeof *of_crash && !SANITIZED; i++) signal(of_crash[i], SIG_DFL);
}

static void be_silent(void) {
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  int fd = SANITIZED ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  dup2(fd, STDERR_FILENO); /* the C library tells of a damaged heap there, HDF5 of its own end */
  close(fd);
}

pid_t annb_child_fork(void) {
  const pid_t parent = getpid(), child = fork();
  if (child) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  set_signals();
  be_silent();
  return 0;
}

bool annb_child_ended(pid_t child) {
  siginfo_t info = {.si_pid = 0};
  return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == child;
}

int annb_child_wait(pid_t child) {
  int status = 0;
  pid_t got;
  do got = waitpid(child, &status, 0);
  while (got < 0 && errno == EINTR);
  if (got != child) return ANNB_CHILD_UNKNOWN;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void annb_child_kill(pid_t child) { kill(child, SIGKILL); }

double annb_child_seconds(pid_t child) {
  clockid_t clock;
  struct timespec t;
  if (clock_getcpuclockid(child, &clock) || clock_gettime(clock, &t)) return 0;
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
