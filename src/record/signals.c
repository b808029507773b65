/*
 * Finalizing when SIGTERM, SIGHUP or SIGINT arrives, for programs that asked for it.
 *
 * The handler only stores the signal's number and posts a semaphore; a thread that waits for it
 * finalizes in an ordinary context, gives the signal its default course back and raises it again.
 * No pipe: a program may close descriptors that it does not know, and what is written to the number
 * afterwards ends up in a file of the program.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <libproton/proton.h>

#include "base/array.h"
#include "base/err.h"
#include "base/note.h"
#include "record/session.h"

static sem_t arrived;
static _Atomic int first_number; /* of the first signal; 0: none yet */
static pid_t owner;

static void on_signal(int number)
{
	int saved = errno;
	int none = 0;

	if (getpid() == owner)
		atomic_compare_exchange_strong(&first_number, &none, number);
	/* A forked child inherited the handler but not the thread: let the signal end it. */
	if (getpid() != owner || sem_post(&arrived) < 0) {
		signal(number, SIG_DFL);
		raise(number);
	}
	errno = saved;
}

static void finalize_and_say(void)
{
	struct proton_error err;
	char summary[1024];
	bool is_quiet = session_all_quiet();

	if (!session_any_live()) {
		session_wait_written();
		return;
	}
	if (proton_finalize_owned(NULL, &err) != PROTON_OK) {
		note("%s", err.text);
	} else if (!is_quiet) {
		proton_last_summary(summary, sizeof(summary));
		note("%s", summary);
	}
}

static void *wait_for_signal(void *unused)
{
	int number;

	(void)unused;
	while (sem_wait(&arrived) < 0)
		; /* EINTR is the only failure */
	number = atomic_load(&first_number);
	finalize_and_say();
	signal(number, SIG_DFL);
	kill(getpid(), number);
	return NULL;
}

static int install(int number, struct proton_error *err)
{
	struct sigaction action;

	if (sigaction(number, NULL, &action) < 0)
		return err_errno(err, errno, "cannot watch signal %d", number);
	if (action.sa_handler != SIG_DFL)
		return PROTON_OK; /* the program has its own idea */
	memset(&action, 0, sizeof(action));
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	sigemptyset(&action.sa_mask);
	if (sigaction(number, &action, NULL) < 0)
		return err_errno(err, errno, "cannot watch signal %d", number);
	return PROTON_OK;
}

int proton_finalize_on_signals(struct proton_error *err)
{
	static const int numbers[] = {SIGTERM, SIGHUP, SIGINT};
	static atomic_flag installed = ATOMIC_FLAG_INIT;
	sigset_t all;
	sigset_t previous;
	pthread_t thread;
	int failed;
	int status = PROTON_OK;

	if (atomic_flag_test_and_set(&installed) && owner == getpid())
		return PROTON_OK;
	atomic_store(&first_number, 0);
	if (sem_init(&arrived, 0, 0) < 0)
		return err_errno(err, errno, "cannot watch signals");
	owner = getpid();
	/* The thread takes no signals: the program's handlers run where they always did. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &previous);
	failed = pthread_create(&thread, NULL, wait_for_signal, NULL);
	pthread_sigmask(SIG_SETMASK, &previous, NULL);
	if (failed)
		return err_errno(err, failed, "cannot watch signals");
	pthread_detach(thread);
	for (size_t i = 0; i < ARRAY_LENGTH(numbers) && status == PROTON_OK; i++)
		status = install(numbers[i], err);
	return status;
}
