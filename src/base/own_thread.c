/* Threads of Proton: they block all signals. */
#include "base/own_thread.h"

#include <signal.h>

int own_thread_start(pthread_t *thread_out, void *(*run)(void *), void *data)
{
	sigset_t previous;
	sigset_t all;
	int result;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &previous);
	result = pthread_create(thread_out, NULL, run, data);
	pthread_sigmask(SIG_SETMASK, &previous, NULL);
	return result;
}
