/*
 * Finalizing on SIGTERM, SIGHUP or SIGINT, for programs that requested it.
 *
 * The handler only wakes a thread, which finalizes in an ordinary context, restores the default
 * action of the signal and raises it again. A program that exits at the same time waits for that
 * thread in its exit function: the profile is complete, and the exit status is the signal's. A
 * semaphore is used instead of a pipe: in a program that closes all descriptors the handler could
 * write into one of the program's files.
 */
#include "base/mutex.h"
#include "record/session/session_parts.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <libproton/proton.h>

#include "base/array.h"
#include "base/err.h"
#include "base/guest.h"
#include "base/message.h"
#include "record/sets/session.h"

#define PRINT_US 50000

static sem_t arrival;
static _Atomic int arrived; /* the signal being handled; 0: none */
static _Atomic pid_t owner; /* the process that has the thread */
static pthread_t handler_thread;
static _Atomic(proton_signal_fn) first_call;

void proton_at_signal(proton_signal_fn end)
{
	atomic_store(&first_call, end);
}

static void on_signal(int number)
{
	int saved = errno;
	int none = 0;

	/* A forked child inherited the handler but not the thread: use the default action. */
	if (getpid() != owner) {
		signal(number, SIG_DFL);
		raise(number);
	} else if (atomic_compare_exchange_strong(&arrived, &none, number)) {
		/* A second signal changes nothing: the first one ends the process. */
		summary_note_signal(true);
		sem_post(&arrival);
	}
	errno = saved;
}

/* `is_reported`: a function that was called first has printed the line. */
static void finalize_and_report(bool is_reported)
{
	bool is_busy = session_any_live() || registry_is_writing();
	struct proton_error err;
	char summary[1024];
	bool was_taken;

	if (session_any_live() && proton_finalize_owned(NULL, &err) != PROTON_OK)
		message("%s", err.text);
	registry_wait_written(PROTON_ALL_SESSIONS);
	if (summary_take(is_busy, summary, sizeof(summary), &was_taken))
		message("%s", summary);
	else if (!is_reported && was_taken)
		usleep(PRINT_US); /* the program is exiting, and may be about to print it */
}

static void *wait_for_signals(void *unused)
{
	sigset_t one;

	for (;;) {
		if (sem_wait(&arrival) < 0)
			continue;
		int number = atomic_load(&arrived);
		proton_signal_fn end = atomic_load(&first_call);
		if (end)
			end();
		finalize_and_report(end != NULL);
		signal(number, SIG_DFL);
		sigemptyset(&one);
		sigaddset(&one, number);
		/* All other threads may block it: this one takes it. */
		pthread_sigmask(SIG_UNBLOCK, &one, NULL);
		kill(getpid(), number);
		/* Still alive: the first process of a container ignores default actions. */
		summary_note_signal(false);
		atomic_store(&arrived, 0);
	}
	return NULL;
}

void signals_wait_raised(void)
{
	/* Rare, so polling is good enough. */
	while (owner == getpid() && atomic_load(&arrived) &&
	       !pthread_equal(pthread_self(), handler_thread))
		usleep(1000);
}

static int install(int number, struct proton_error *err)
{
	struct sigaction action;

	if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
		return PROTON_OK; /* the program has its own handler */
	memset(&action, 0, sizeof(action));
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	sigemptyset(&action.sa_mask);
	if (sigaction(number, &action, NULL) < 0)
		return err_errno(err, errno, "cannot install a handler for signal %d", number);
	return PROTON_OK;
}

static int start_watching(struct proton_error *err)
{
	static const int numbers[] = {SIGTERM, SIGHUP, SIGINT};
	int status = PROTON_OK;

	if (owner == getpid())
		return PROTON_OK;
	if (sem_init(&arrival, 0, 0) < 0)
		return err_errno(err, errno, "cannot set up signal handling");
	summary_note_signal(false);
	atomic_store(&arrived, 0);
	int failed = own_thread_start(&handler_thread, wait_for_signals, NULL);
	if (failed)
		return err_errno(err, failed, "cannot set up signal handling");
	pthread_detach(handler_thread);
	owner = getpid();
	for (size_t i = 0; i < ARRAY_LENGTH(numbers) && status == PROTON_OK; i++)
		status = install(numbers[i], err);
	return status;
}

int proton_finalize_on_signals(struct proton_error *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	MUTEX_HOLD(&lock);
	return start_watching(err);
}
