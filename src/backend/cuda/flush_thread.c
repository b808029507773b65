/*
 * Periodic flush thread.
 *
 * cuptiActivityFlushPeriod() is not sufficient, because it returns only full buffers. The flush
 * used here returns buffers with only complete records, and waits for no kernel.
 */
#include "backend/cuda/flush_thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/tensors.h"

#define PERIOD_NS 500000000l

static pthread_t thread;
static pid_t owner; /* process that has the thread, because a forked child does not; 0: none */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards `must_end` */
static pthread_cond_t ending;
static bool must_end;

/* False if the thread has to end. */
static bool wait_a_period(void)
{
	struct timespec until;
	int result = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += PERIOD_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&lock);
	while (!must_end && result == 0)
		result = pthread_cond_timedwait(&ending, &lock, &until);
	result = must_end;
	pthread_mutex_unlock(&lock);
	return !result;
}

static void *run(void *unused)
{
	uint64_t before = 0;
	int rounds = 0; /* rounds left */

	while (wait_a_period()) {
		uint64_t launched = callbacks_launched();

		/* One round more after the last launch: its kernel may have been running. */
		rounds = launched != before ? 2 : rounds - (rounds > 0);
		/* Graph launches are not counted. */
		if (rounds || callbacks_last_shared())
			activity_ask();
		tensors_catch_up();
		before = launched;
	}
	return NULL;
}

void flush_thread_start(void)
{
	pthread_condattr_t attributes;
	sigset_t previous;
	sigset_t all;

	must_end = false;
	pthread_mutex_init(&lock, NULL); /* a fork may have left it locked */
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&ending, &attributes);
	pthread_condattr_destroy(&attributes);
	/* The program's signals must be handled by its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &previous);
	owner = pthread_create(&thread, NULL, run, NULL) == 0 ? getpid() : 0;
	pthread_sigmask(SIG_SETMASK, &previous, NULL);
}

void flush_thread_stop(void)
{
	if (owner != getpid())
		return;
	pthread_mutex_lock(&lock);
	must_end = true;
	pthread_cond_signal(&ending);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	pthread_cond_destroy(&ending);
	owner = 0;
}
