/* Threads that work at intervals: start, waiting and end. */
#include "backend/gpu/flush_thread.h"

#include <time.h>
#include <unistd.h>

#include "base/guest.h"
#include "base/mutex.h"

void periodic_thread_start(struct periodic_thread *thread, void *(*run)(void *))
{
	pthread_condattr_t attributes;

	if (thread->owner == getpid())
		return;
	thread->must_end = false;
	pthread_mutex_init(&thread->lock, NULL); /* a fork may have left it locked */
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&thread->ending, &attributes);
	pthread_condattr_destroy(&attributes);
	thread->owner = own_thread_start(&thread->thread, run, NULL) == 0 ? getpid() : 0;
}

bool periodic_thread_wait(struct periodic_thread *thread, uint64_t ns)
{
	struct timespec until;
	int result = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(ns / 1000000000);
	until.tv_nsec = (long)(ns % 1000000000);
	MUTEX_HOLD(&thread->lock);
	while (!thread->must_end && result == 0)
		result = pthread_cond_timedwait(&thread->ending, &thread->lock, &until);
	result = thread->must_end;
	return !result;
}

void periodic_thread_stop(struct periodic_thread *thread)
{
	if (thread->owner != getpid())
		return;
	pthread_mutex_lock(&thread->lock);
	thread->must_end = true;
	pthread_cond_signal(&thread->ending);
	pthread_mutex_unlock(&thread->lock);
	pthread_join(thread->thread, NULL);
	pthread_cond_destroy(&thread->ending);
	thread->owner = 0;
}
