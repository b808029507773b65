/* Blocking of SIGXFSZ around a write or an allocation. */
#include "base/size_signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static sigset_t only_size_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGXFSZ);
	return set;
}

void size_signal_hold(struct size_signal *held)
{
	sigset_t set = only_size_signal();
	sigset_t pending;

	pthread_sigmask(SIG_BLOCK, &set, &held->previous);
	held->was_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

void size_signal_release(const struct size_signal *held)
{
	const struct timespec at_once = {0};
	sigset_t set = only_size_signal();
	int saved = errno;

	/* The kernel sends it to the thread that exceeded the limit: it is pending by now. */
	while (!held->was_pending && (sigtimedwait(&set, NULL, &at_once) > 0 || errno == EINTR))
		;
	pthread_sigmask(SIG_SETMASK, &held->previous, NULL);
	errno = saved;
}

ssize_t size_signal_write(int fd, const void *bytes, size_t length)
{
	struct size_signal held;
	ssize_t n;

	size_signal_hold(&held);
	n = write(fd, bytes, length);
	size_signal_release(&held);
	return n;
}
