/* Tests that pass, fail, crash, hang and skip: harness.sh sees that tap.h tells them apart. */
#include "unit/tap.h"

#include <dlfcn.h>
#include <pthread.h>

TEST(passes)
{
	CHECK_EQ(1, 1);
	CHECK_STR("a", "a");
}

TEST(fails_by_number)
{
	CHECK_EQ(1 + 1, 3);
}

TEST(fails_by_order)
{
	CHECK_LE(0, -1);
}

TEST(fails_by_text)
{
	CHECK_STR("two\nlines", "one");
}

TEST(fails_by_bytes)
{
	CHECK_MEM("abc", "abd", 3);
}

static void *fail_here(void *unused)
{
	(void)unused;
	FAIL("from a thread");
}

TEST(fails_in_a_thread)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, fail_here, NULL), 0);
	pthread_join(thread, NULL);
}

TEST(crashes)
{
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
}

/* With a child that would keep the output open if it were left alone. */
TEST(hangs)
{
	if (fork() == 0) {
		puts("# has a child");
		fflush(stdout);
		for (;;)
			pause();
	}
	for (;;)
		pause();
}

TEST(exits_with_an_error)
{
	exit(3);
}

TEST(leaves_a_descriptor)
{
	CHECK_LE(0, dup(STDOUT_FILENO));
}

TEST(skips)
{
	SKIP("there is no %s", "reason");
}

TEST(passes_after_all_that)
{
}

/* Words do not replace the name of the program, which dladdr() knows it by. */
TEST(finds_its_program)
{
	Dl_info info;

	CHECK(dladdr(&tap_first, &info));
	CHECK_EQ(access(info.dli_fname, X_OK), 0);
}

TEST(has_default_signals)
{
	static const int numbers[] = {SIGHUP, SIGINT, SIGTERM, SIGPIPE, SIGUSR1, SIGXFSZ, SIGCHLD};
	struct sigaction action;
	sigset_t blocked;

	CHECK_EQ(sigprocmask(SIG_BLOCK, NULL, &blocked), 0);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		CHECK_EQ(sigaction(numbers[i], NULL, &action), 0);
		CHECK(action.sa_handler == SIG_DFL);
		CHECK(!sigismember(&blocked, numbers[i]));
	}
}
