/* Threads of the library's own. */
#ifndef ANNB_STORE_THREAD_H
#define ANNB_STORE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* A thread that takes none of the process's signals: these are for the threads of the program. False when none can be started. */
bool annb_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
