/* Waiting for threads in a long ioctl: here of a listener to system calls, seccomp_unotify(2). */
#include "unit/tap.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "backend/cuda/hold.h"
#include "backend/cuda/system_call.h"
#include "base/clock.h"
#include <libproton/proton.h>

#define SECOND_NS 1000000000ull
#define DEVICES "anon_inode:seccomp"

static int listener;

/* getpgid() reports to the listener. */
static void open_listener(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = 4, .filter = filter};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	if (listener < 0)
		SKIP("no listener to system calls (seccomp: error %d)", errno);
}

/* Waits in an ioctl for a call. */
static void *answer(void *unused)
{
	struct seccomp_notif call = {0};
	struct seccomp_notif_resp done = {0};

	CHECK_EQ(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call), 0);
	done.id = call.id;
	done.val = 7;
	CHECK_EQ(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &done), 0);
	return unused;
}

TEST(nothing_is_waited_for_while_no_thread_is_in_an_ioctl)
{
	uint64_t start_ns = clock_monotonic_ns();

	CHECK(system_call_await_ioctl(DEVICES, 30 * SECOND_NS));
	CHECK(clock_monotonic_ns() - start_ns < 20 * SECOND_NS);
}

TEST(a_thread_in_a_long_ioctl_is_waited_for)
{
	pthread_t thread;
	int held = 0;

	open_listener();
	CHECK_EQ(pthread_create(&thread, NULL, answer, NULL), 0);
	/* On a busy machine the thread begins late, and few looks fit into a limit. */
	for (int i = 0; i < 600 && held < 3; i++)
		held = system_call_await_ioctl(DEVICES, SECOND_NS / 5) ? 0 : held + 1;
	CHECK_EQ(held, 3);
	CHECK(system_call_await_ioctl("/dev/none", 30 * SECOND_NS)); /* of another device */
	CHECK_EQ(getpgid(0), 7);
	pthread_join(thread, NULL);
	CHECK(system_call_await_ioctl(DEVICES, 30 * SECOND_NS));
	close(listener);
}

static _Atomic int begins, ends;

static bool count_begin(void)
{
	atomic_fetch_add(&begins, 1);
	return true;
}

static void count_end(void)
{
	atomic_fetch_add(&ends, 1);
}

static bool covers(void)
{
	return true;
}

static void *end_ioctl_after_a_hold(void *unused)
{
	while (!atomic_load(&ends))
		usleep(1000);
	CHECK_EQ(getpgid(0), 7);
	return unused;
}

/* Attaching to CUPTI while a thread creates a context crashes at times, or damages its tables. */
TEST(threads_are_let_go_until_none_is_in_a_long_ioctl)
{
	static const struct proton_holder holder = {count_begin, count_end, covers};
	pthread_t thread, ending;
	int held = 0;

	open_listener();
	CHECK_EQ(pthread_create(&thread, NULL, answer, NULL), 0);
	for (int i = 0; i < 600 && held < 3; i++)
		held = system_call_await_ioctl(DEVICES, SECOND_NS / 5) ? 0 : held + 1;
	CHECK_EQ(pthread_create(&ending, NULL, end_ioctl_after_a_hold, NULL), 0);
	proton_holder_set(&holder);
	CHECK(hold_begin_to_attach(DEVICES, false));
	CHECK(atomic_load(&begins) > 1);
	CHECK_EQ(atomic_load(&ends), atomic_load(&begins) - 1);
	hold_end();
	CHECK_EQ(atomic_load(&ends), atomic_load(&begins));
	proton_holder_set(NULL);
	pthread_join(ending, NULL);
	pthread_join(thread, NULL);
	close(listener);
}

static _Atomic pid_t other;
static _Atomic bool must_run;
static _Atomic bool must_end;

static void *run_or_sleep(void *unused)
{
	atomic_store(&other, gettid());
	while (!atomic_load(&must_end))
		if (!atomic_load(&must_run))
			usleep(100000);
	return unused;
}

static void await_running(bool is_running)
{
	for (int i = 0; i < 60000 && system_call_is_running(atomic_load(&other)) != is_running; i++)
		usleep(500);
	CHECK_EQ(system_call_is_running(atomic_load(&other)), is_running);
}

TEST(a_thread_that_runs_is_known_from_one_that_sleeps_or_has_ended)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, run_or_sleep, NULL), 0);
	while (!atomic_load(&other))
		usleep(100);
	if (access("/proc/self/syscall", R_OK) != 0)
		SKIP("this kernel does not tell the system calls of threads");
	await_running(false);
	atomic_store(&must_run, true);
	await_running(true);
	atomic_store(&must_end, true);
	pthread_join(thread, NULL);
	await_running(false); /* the kernel removes it shortly after it can be joined */
}
