/*
 * Unit test harness, including main(): include it in a test program and write TEST(name) { ... }.
 *
 * Each test runs in its own child process with a time limit: a crash, a hang or a leftover of one
 * test fails that test only. The output is TAP, which `meson test` reads. A check that fails prints
 * both values and ends the test.
 *
 * Options of a test program: --list, --no-fork (all tests in one process: for debuggers and for
 * ThreadSanitizer, which cannot follow threads of a forked child), --timeout SECONDS, and any
 * number of words: only tests with one of them in the name run.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TAP_TIMEOUT_S 240    /* 50 times the longest: a sanitizer, a busy machine */
#define TAP_DESCRIPTORS 1024 /* those below are looked at */
#define TAP_EXIT_FAILED 1
#define TAP_EXIT_SKIPPED 77

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TAP_IS_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TAP_IS_SANITIZED true
#endif
#endif
#ifndef TAP_IS_SANITIZED
#define TAP_IS_SANITIZED false
#endif

struct tap_test {
	const char *name;
	void (*run)(void);
	struct tap_test *next;
};

static struct tap_test *tap_first;
static struct tap_test **tap_last = &tap_first;
/* Shared with the children. */
static struct {
	char skip_reason[256];
	_Atomic pid_t group; /* processes of the running test; 0: none */
} * tap_shared;
static bool tap_is_forking = true;
static jmp_buf tap_leave; /* where a failed check goes without fork */

/* A test; it passes when it returns. */
#define TEST(test_name)                                                                            \
	static void test_##test_name(void);                                                        \
	__attribute__((constructor)) static void tap_register_##test_name(void)                    \
	{                                                                                          \
		static struct tap_test test = {.name = #test_name, .run = test_##test_name};       \
                                                                                                   \
		*tap_last = &test;                                                                 \
		tap_last = &test.next;                                                             \
	}                                                                                          \
	static void test_##test_name(void)

/* Ends the running test with an exit code, from any thread if it runs in its own process. */
__attribute__((noreturn, unused)) static void tap_end(int code)
{
	fflush(stdout);
	if (tap_is_forking)
		_exit(code);
	longjmp(tap_leave, code);
}

static void tap_fail(const char *file, int line, const char *format, ...)
	__attribute__((noreturn, unused, format(printf, 3, 4)));

static void tap_fail(const char *file, int line, const char *format, ...)
{
	char text[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (char *c = text; *c; c++)
		if (*c == '\n')
			*c = '|'; /* a line that does not begin with # would be read as TAP */
	printf("# %s:%d: %s\n", file, line, text);
	tap_end(TAP_EXIT_FAILED);
}

#define FAIL(...) tap_fail(__FILE__, __LINE__, __VA_ARGS__)

/* Skips the test and prints the reason. */
#define SKIP(...)                                                                                  \
	do {                                                                                       \
		snprintf(tap_shared->skip_reason, sizeof(tap_shared->skip_reason), __VA_ARGS__);   \
		tap_end(TAP_EXIT_SKIPPED);                                                         \
	} while (0)

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			FAIL("%s does not hold", #condition);                                      \
	} while (0)

#define TAP_COMPARE(type, format, a, a_text, operation, b, b_text)                                 \
	do {                                                                                       \
		type tap_a = (type)(a);                                                            \
		type tap_b = (type)(b);                                                            \
                                                                                                   \
		if (!(tap_a operation tap_b))                                                      \
			FAIL("%s is %" format ", %s is %" format ", expected " #operation, a_text, \
			     tap_a, b_text, tap_b);                                                \
	} while (0)

/* Signed integers (statuses, counts) and their order; unsigned 64-bit integers; pointers. */
#define CHECK_EQ(a, b) TAP_COMPARE(int64_t, PRId64, a, #a, ==, b, #b)
#define CHECK_NE(a, b) TAP_COMPARE(int64_t, PRId64, a, #a, !=, b, #b)
#define CHECK_U64(a, b) TAP_COMPARE(uint64_t, PRIu64, a, #a, ==, b, #b)
#define CHECK_LT(a, b) TAP_COMPARE(int64_t, PRId64, a, #a, <, b, #b)
#define CHECK_LE(a, b) TAP_COMPARE(int64_t, PRId64, a, #a, <=, b, #b)
#define CHECK_PTR(a, b) TAP_COMPARE(const void *, "p", a, #a, ==, b, #b)

#define CHECK_NEAR(a, b, tolerance)                                                                \
	do {                                                                                       \
		double tap_a = (a);                                                                \
		double tap_b = (b);                                                                \
                                                                                                   \
		if (!(fabs(tap_a - tap_b) <= (tolerance)))                                         \
			FAIL("%s is %.17g, %s is %.17g", #a, tap_a, #b, tap_b);                    \
	} while (0)

#define CHECK_STR(a, b)                                                                            \
	do {                                                                                       \
		const char *tap_a = (a);                                                           \
		const char *tap_b = (b);                                                           \
                                                                                                   \
		if (!tap_a || !tap_b || strcmp(tap_a, tap_b) != 0)                                 \
			FAIL("%s is \"%s\", %s is \"%s\"", #a, tap_a ? tap_a : "(null)", #b,       \
			     tap_b ? tap_b : "(null)");                                            \
	} while (0)

/* `text` contains `part`. */
#define CHECK_HAS(text, part)                                                                      \
	do {                                                                                       \
		const char *tap_a = (text);                                                        \
		const char *tap_b = (part);                                                        \
                                                                                                   \
		if (!tap_a || !strstr(tap_a, tap_b))                                               \
			FAIL("%s is \"%s\", which lacks \"%s\"", #text, tap_a ? tap_a : "(null)",  \
			     tap_b);                                                               \
	} while (0)

#define CHECK_MEM(a, b, length)                                                                    \
	do {                                                                                       \
		const unsigned char *tap_a = (const void *)(a);                                    \
		const unsigned char *tap_b = (const void *)(b);                                    \
                                                                                                   \
		for (size_t tap_i = 0; tap_i < (size_t)(length); tap_i++)                          \
			if (tap_a[tap_i] != tap_b[tap_i])                                          \
				FAIL("%s and %s differ at byte %zu: %02x, %02x", #a, #b, tap_i,    \
				     tap_a[tap_i], tap_b[tap_i]);                                  \
	} while (0)

/* PROTON_OK, else the text of a `struct proton_error`. */
#define CHECK_OK(call, err)                                                                        \
	do {                                                                                       \
		int tap_status = (call);                                                           \
                                                                                                   \
		if (tap_status != 0)                                                               \
			FAIL("%s returned %d: %s", #call, tap_status, (err).text);                 \
	} while (0)

/* CHECK_OK() of a call that takes &err, which is declared here. */
#define CHECK_DONE(call)                                                                           \
	do {                                                                                       \
		struct proton_error err = {0};                                                     \
                                                                                                   \
		CHECK_OK(call, err);                                                               \
	} while (0)

/* An emulator of another processor runs this: `meson test` of a cross build sets the variable. */
__attribute__((unused)) static void skip_if_emulated(const char *why)
{
	if (getenv("MESON_EXE_WRAPPER"))
		SKIP("%s", why);
}

/* Waits for `pid` at most `timeout_s`; the rest of its process group is ended afterwards. */
static int tap_wait(pid_t pid, int timeout_s)
{
	struct timespec tick = {.tv_nsec = 100000000};
	struct timespec now;
	time_t deadline;
	sigset_t child;
	int status = 0;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	clock_gettime(CLOCK_MONOTONIC, &now);
	deadline = now.tv_sec + timeout_s;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec >= deadline) {
			printf("# still running after %d s\n", timeout_s);
			kill(-pid, SIGKILL);
			waitpid(pid, &status, 0);
			break;
		}
		sigtimedwait(&child, NULL, &tick);
	}
	kill(-pid, SIGKILL);
	return status;
}

static pid_t tap_checked_process; /* the process of a test, or of all with --no-fork */

#ifdef __SANITIZE_ADDRESS__
int __lsan_is_turned_off(void);

/*
 * LeakSanitizer asks this at exit. It must not check a child that a test forks: if a thread of the
 * test was allocating at that moment, its lock is held forever.
 */
__attribute__((visibility("default"), used)) int __lsan_is_turned_off(void)
{
	return getpid() != tap_checked_process;
}

/*
 * Before a test forks. AddressSanitizer's allocator stays locked in the child if another thread was
 * allocating, so threads that have just begun get time to settle. The directory has a link for each
 * thread and two others.
 */
static void tap_settle_threads(void)
{
	struct stat tasks;

	if (stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink != 2 + 1)
		usleep(50000);
}
#endif

/* A test has the default for signals that its caller ignores or blocks, as nohup does. */
static void tap_reset_signals(void)
{
	struct sigaction action;
	sigset_t none;

	for (int number = 1; number <= SIGRTMAX; number++)
		if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
			signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/*
 * Starts a process that ends the running test's processes when this one ends, however it does:
 * `meson test` ends a program that takes too long. Children of tests do not ask for that
 * themselves: some are meant to outlive their parent, and the thread that made them.
 */
static void tap_start_guard(void)
{
	pid_t parent = getpid();
	sigset_t signals;
	int number;

	fflush(stdout);
	if (fork() != 0)
		return;
	setpgid(0, 0);
	sigfillset(&signals);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	if (getppid() == parent)
		sigwait(&signals, &number);
	if (atomic_load(&tap_shared->group))
		kill(-atomic_load(&tap_shared->group), SIGKILL);
	_exit(0);
}

/*
 * Fails a test that leaves a descriptor open: the test or the tested code has not closed it.
 * (LeakSanitizer does this for memory, at exit.) Under ThreadSanitizer, Proton's threads share the
 * descriptors of the program, and may still run.
 */
static void tap_check_descriptors(const bool *were_open)
{
	char link[64], target[256];

#ifdef __SANITIZE_THREAD__
	return;
#endif
	for (int fd = 0; fd < TAP_DESCRIPTORS; fd++) {
		ssize_t length;

		if (were_open[fd] || fcntl(fd, F_GETFD) < 0)
			continue;
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		length = readlink(link, target, sizeof(target) - 1);
		FAIL("the test leaves descriptor %d open: %.*s", fd, length > 0 ? (int)length : 0,
		     target);
	}
}

static int tap_run_forked(const struct tap_test *test, int timeout_s)
{
	bool were_open[TAP_DESCRIPTORS];
	pid_t parent = getpid();
	sigset_t child, old;
	pid_t pid;
	int status;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &old);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		tap_reset_signals();
		setpgid(0, 0);
		atomic_store(&tap_shared->group, getpid()); /* before the test forks */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(TAP_EXIT_FAILED);
		tap_checked_process = getpid();
#ifdef __SANITIZE_ADDRESS__
		pthread_atfork(tap_settle_threads, NULL, NULL);
#endif
		for (int fd = 0; fd < TAP_DESCRIPTORS; fd++)
			were_open[fd] = fcntl(fd, F_GETFD) >= 0;
		test->run();
		tap_check_descriptors(were_open);
		exit(0); /* not _exit(): LeakSanitizer reports at exit */
	}
	if (pid < 0) {
		printf("# cannot fork: %s\n", strerror(errno));
		return TAP_EXIT_FAILED;
	}
	setpgid(pid, pid);
	status = tap_wait(pid, timeout_s);
	atomic_store(&tap_shared->group, 0);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	printf("# ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
	return TAP_EXIT_FAILED;
}

static int tap_run_here(const struct tap_test *test)
{
	int code = setjmp(tap_leave);

	tap_checked_process = getpid();
	if (code == 0)
		test->run();
	return code;
}

static bool tap_is_wanted(const struct tap_test *test, char **words, int count)
{
	for (int i = 0; i < count; i++)
		if (strstr(test->name, words[i]))
			return true;
	return count == 0;
}

int main(int argc, char **argv)
{
	const struct tap_test *test;
	int timeout_s = TAP_TIMEOUT_S;
	bool is_listing = false;
	int failed = 0;
	int number = 0;
	int words = 1; /* argv[1 .. words) are the filters; dladdr() reads argv[0] */

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--list") == 0)
			is_listing = true;
		else if (strcmp(argv[i], "--no-fork") == 0)
			tap_is_forking = false;
		else if (strcmp(argv[i], "--timeout") == 0 && i + 1 < argc)
			timeout_s = atoi(argv[++i]);
		else
			argv[words++] = argv[i];
	}
	tap_shared = mmap(NULL, sizeof(*tap_shared), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tap_shared == MAP_FAILED)
		return TAP_EXIT_FAILED;
	signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how a test ended */
	if (!tap_is_forking)
		tap_reset_signals();
	else if (!is_listing)
		tap_start_guard();
	for (test = tap_first; test; test = test->next) {
		int code;

		if (!tap_is_wanted(test, argv + 1, words - 1))
			continue;
		if (is_listing) {
			puts(test->name);
			continue;
		}
		code = tap_is_forking ? tap_run_forked(test, timeout_s) : tap_run_here(test);
		number++;
		if (code == TAP_EXIT_SKIPPED)
			printf("ok %d - %s # SKIP %s\n", number, test->name,
			       tap_shared->skip_reason);
		else
			printf("%sok %d - %s\n", code ? "not " : "", number, test->name);
		if (code && code != TAP_EXIT_SKIPPED) {
			printf("# exit code %d\n", code);
			failed++;
		}
	}
	if (!is_listing)
		printf("1..%d\n", number);
	return failed > 0;
}
