/* Being a guest in a program. */
#include "base/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int own_thread_start(pthread_t *thread_out, void *(*run)(void *), void *data)
{
	sigset_t previous, all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &previous);
	int result = pthread_create(thread_out, NULL, run, data);
	pthread_sigmask(SIG_SETMASK, &previous, NULL);
	return result;
}

/* ------------------------------------------------------------------ own descriptors */

#define STACK_BYTES (256u << 10)

struct run {
	void (*job)(void *data);
	void *data;
	bool is_done;
};

static int run_job(void *data)
{
	struct run *run = data;

	run->job(run->data);
	run->is_done = true;
	return 0;
}

bool own_descriptors_run(void (*job)(void *data), void *data)
{
	struct run run = {.job = job, .data = data};
	sigset_t all, before;
	int state;
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (stack == MAP_FAILED)
		return false;
	sigfillset(&all);
	sigdelset(&all, SIGBUS); /* format/profile_file.c */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	/*
	 * No signal at its end, and so no wait() of the program that does not ask for such
	 * processes (__WALL) finds it. Whether it has ended by itself is in `run`: an emulator that
	 * does not share the memory, such as valgrind, leaves it false.
	 */
	pid_t pid = HAS_THREAD_SANITIZER
			    ? -1
			    : clone(run_job, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK, &run);
	while (pid > 0 && waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_setcancelstate(state, NULL);
	munmap(stack, STACK_BYTES);
	return run.is_done;
}

void standard_occupy(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		/* Opened for the wrong direction: reads and writes still fail. */
		int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", mode | O_CLOEXEC); /* takes the lowest free number */
	}
}

int descriptor_move(int fd, int min)
{
	int moved = fd < 0 || fd >= min ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, min);

	if (moved < 0)
		return fd;
	close(fd);
	return moved;
}

/* ------------------------------------------------------------------ SIGXFSZ */

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

	size_signal_hold(&held);
	ssize_t n = write(fd, bytes, length);
	size_signal_release(&held);
	return n;
}
