/* Threads of Proton in a program that is not its own. */
#ifndef BASE_OWN_THREAD_H
#define BASE_OWN_THREAD_H

#include <pthread.h>

/*
 * pthread_create() with all signals blocked on the new thread: the program has to handle its own
 * signals on its own threads. 0, or an error number.
 */
int own_thread_start(pthread_t *thread_out, void *(*run)(void *), void *data);

#endif
