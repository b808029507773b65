/*
 * sigaction() and signal() wrappers that hide the recorder's signal handlers from the program.
 *
 * The handlers are installed before main(). If they were visible, they would change programs:
 * Python raises KeyboardInterrupt only if SIGINT has the default action. If they were replaceable,
 * they would be lost: dash restores default actions when it starts, timeout and bash before they
 * end themselves.
 */
#include "cli/inject.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <libproton/proton.h>

#include "base/array.h"

#define HERE __attribute__((visibility("default")))
#define STEP_NS 1000000
#define STEPS_MAX 10000          /* limit of all waiting */
#define STEPS_AFTER_RELEASE 1000 /* the first process of a container survives default actions */

static __typeof__(sigaction) *real_sigaction;
static __typeof__(signal) *real_signal;
static void (*library_handler)(int); /* libproton's; NULL: it watches no signals yet */
static struct sigaction library_action;
static _Atomic pid_t library_thread; /* calls on this thread are libproton's */
static _Atomic bool is_released;
static _Atomic bool has_come;
static const int numbers[] = {SIGTERM, SIGHUP, SIGINT};
static bool is_left[ARRAY_LENGTH(numbers)]; /* see inject_signals_leave() */

__attribute__((constructor(101))) static void find_real(void)
{
	real_sigaction = (__typeof__(sigaction) *)dlsym(RTLD_NEXT, "sigaction");
	real_signal = (__typeof__(signal) *)dlsym(RTLD_NEXT, "signal");
}

static pid_t own_thread_id(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static bool is_watched(int number)
{
	for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++)
		if (numbers[i] == number)
			return true;
	return false;
}

/* The interrupted thread holds no needed lock: a wrapper does not use the library. */
static void stay_alive(void)
{
	static const struct timespec step = {.tv_nsec = STEP_NS};
	int after = 0;

	for (int i = 0; i < STEPS_MAX && after < STEPS_AFTER_RELEASE; i++) {
		nanosleep(&step, NULL);
		after += atomic_load(&is_released);
	}
}

static void on_signal(int number)
{
	bool is_wrapper = inject_is_ended_by_signal();
	int saved = errno;

	atomic_store(&has_come, true);
	library_handler(number);
	if (is_wrapper)
		stay_alive();
	errno = saved;
}

static int set_as_library(int number, const struct sigaction *action, struct sigaction *old)
{
	if (!action || action->sa_handler == SIG_DFL)
		return real_sigaction(number, action, old);
	library_handler = action->sa_handler;
	struct sigaction ours = *action;
	ours.sa_handler = on_signal;
	library_action = ours;
	return real_sigaction(number, &ours, old);
}

HERE int sigaction(int number, const struct sigaction *restrict action,
		   struct sigaction *restrict old)
{
	int result;

	if (!real_sigaction)
		find_real(); /* called by a constructor that ran before this library's */
	if (!is_watched(number))
		return real_sigaction(number, action, old);
	if (atomic_load(&library_thread) == own_thread_id())
		return set_as_library(number, action, old);
	if (action && action->sa_handler == SIG_DFL && library_handler && inject_is_owner())
		result = real_sigaction(number, &library_action, old);
	else
		result = real_sigaction(number, action, old);
	if (result == 0 && old && old->sa_handler == on_signal) {
		*old = (struct sigaction){0};
		old->sa_handler = SIG_DFL;
	}
	return result;
}

HERE __sighandler_t signal(int number, __sighandler_t handler)
{
	struct sigaction action = {0};
	struct sigaction old;

	if (!real_signal)
		find_real();
	if (is_watched(number) && handler == SIG_DFL) {
		action.sa_handler = handler;
		return sigaction(number, &action, &old) < 0 ? SIG_ERR : old.sa_handler;
	}
	handler = real_signal(number, handler);
	return handler == on_signal ? SIG_DFL : handler;
}

void inject_signals_hold(sigset_t *previous)
{
	sigset_t watched;

	sigemptyset(&watched);
	for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++)
		sigaddset(&watched, numbers[i]);
	pthread_sigmask(SIG_BLOCK, &watched, previous);
}

/* fork() holds locks of libproton: a thread that stays in a handler must hold none. */
static _Thread_local sigset_t before_fork;

static void hold_for_fork(void)
{
	inject_signals_hold(&before_fork);
}

static void restore_after_fork(void)
{
	pthread_sigmask(SIG_SETMASK, &before_fork, NULL);
}

void inject_signals_watch(void (*end)(void))
{
	static bool is_registered;

	/* Registered after libproton's: runs first before a fork, and last after it. */
	if (!is_registered)
		is_registered =
			pthread_atfork(hold_for_fork, restore_after_fork, restore_after_fork) == 0;
	proton_at_signal(end);
	atomic_store(&library_thread, own_thread_id());
	proton_finalize_on_signals(NULL);
	atomic_store(&library_thread, 0);
}

void inject_signals_own_thread(void)
{
	atomic_store(&library_thread, own_thread_id());
}

void inject_signals_release(void)
{
	atomic_store(&is_released, true);
}

void inject_signals_settle(void)
{
	if (atomic_exchange(&has_come, false))
		stay_alive();
}

void inject_signals_leave(void)
{
	struct sigaction now;

	for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
		is_left[i] = real_sigaction(numbers[i], NULL, &now) == 0 &&
			     now.sa_handler == on_signal;
		if (is_left[i])
			real_signal(numbers[i], SIG_DFL);
	}
	inject_signals_settle();
}

void inject_signals_return(void)
{
	for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++)
		if (is_left[i])
			real_sigaction(numbers[i], &library_action, NULL);
}
