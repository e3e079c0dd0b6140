/* A child process that may crash, and memory that both processes see. */
#ifndef ANNB_CONVERT_CHILD_H
#define ANNB_CONVERT_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Zeroed memory that stays common after a fork; NULL when there is none. */
void *annb_child_memory(size_t size);
void annb_child_memory_free(void *memory, size_t size);

/* fork(): the child dies with the parent, leaves interruptions to it, and crashes in silence: no core, no handler of the parent's, nothing
 * on stderr (but for the reports of sanitizers). */
pid_t annb_child_fork(void);
/* Under AddressSanitizer the child dies when it leaks. */
void annb_child_check_leaks(void);
bool annb_child_ended(pid_t child);
/* Wait for its end. How it died: a signal, or 0; unknown where the program ignores SIGCHLD, or waits for all children elsewhere. */
enum { ANNB_CHILD_UNKNOWN = -1 };
int annb_child_wait(pid_t child);
void annb_child_kill(pid_t child);
/* Seconds of processor time that it used; 0 when that cannot be told. */
double annb_child_seconds(pid_t child);

#endif
