/* Waiting for threads in a long ioctl: here of a listener to system calls, seccomp_unotify(2). */
#include "unit/tap.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/cuda/device_ioctl.h"
#include "base/clock.h"

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

	CHECK(device_ioctl_await(DEVICES, 30 * SECOND_NS));
	CHECK(clock_monotonic_ns() - start_ns < 20 * SECOND_NS);
}

TEST(a_thread_in_a_long_ioctl_is_waited_for)
{
	pthread_t thread;

	open_listener();
	CHECK_EQ(pthread_create(&thread, NULL, answer, NULL), 0);
	/* On a busy machine the thread is in its call only later. */
	for (int i = 0; i < 600 && device_ioctl_await(DEVICES, SECOND_NS / 20); i++)
		usleep(50000);
	CHECK(!device_ioctl_await(DEVICES, SECOND_NS / 5));
	CHECK(device_ioctl_await("/dev/none", 30 * SECOND_NS)); /* of another device */
	CHECK_EQ(getpgid(0), 7);
	pthread_join(thread, NULL);
	CHECK(device_ioctl_await(DEVICES, 30 * SECOND_NS));
	close(listener);
}
