/*
 * backend/gpu/periodic_thread: intervals, wake-ups and the end. The program is linked with --wrap
 * for the clock and the wait, so intervals are compared without waiting for them.
 */
#include "unit/tap.h"

#include "backend/gpu/flush_thread.h"

#define SECOND_NS 1000000000ull

static struct timespec now;   /* 0: the real clock */
static struct timespec until; /* the last deadline */
static struct periodic_thread thread = {.lock = PTHREAD_MUTEX_INITIALIZER};

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
				  const struct timespec *deadline);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
				  const struct timespec *deadline);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!now.tv_sec)
		return __real_clock_gettime(clock, time);
	CHECK_EQ(clock, CLOCK_MONOTONIC);
	*time = now;
	return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
				  const struct timespec *deadline)
{
	until = *deadline;
	return now.tv_sec ? ETIMEDOUT : __real_pthread_cond_timedwait(condition, mutex, deadline);
}

static void check_deadline(long nanoseconds, uint64_t wait_ns, time_t second, long nanosecond)
{
	now = (struct timespec){.tv_sec = 100, .tv_nsec = nanoseconds};
	CHECK(periodic_thread_wait(&thread, wait_ns));
	CHECK_EQ(until.tv_sec, second);
	CHECK_EQ(until.tv_nsec, nanosecond);
}

TEST(a_wait_ends_after_its_nanoseconds)
{
	check_deadline(0, 0, 100, 0);
	check_deadline(1, 1, 100, 2);
	check_deadline(999999999, 1, 101, 0);
	check_deadline(999999999, 2, 101, 1);
	check_deadline(500000000, 700000000, 101, 200000000);
	check_deadline(3, 86400 * SECOND_NS, 100 + 86400, 3);
	check_deadline(999999999, 3600 * SECOND_NS - 1, 100 + 3600, 999999998);
}

static _Atomic unsigned rounds;
static _Atomic bool has_ended;

static void *count_rounds(void *unused)
{
	while (periodic_thread_wait(&thread, 20 * SECOND_NS / 1000))
		atomic_fetch_add(&rounds, 1);
	return unused;
}

/* The thread ends 50 ms after the stop begins. */
static void *end_slowly(void *unused)
{
	while (periodic_thread_wait(&thread, 3600 * SECOND_NS))
		continue;
	usleep(50000);
	atomic_store(&has_ended, true);
	return unused;
}

TEST(stopping_waits_for_the_end_of_the_thread)
{
	for (int i = 0; i < 2; i++) {
		atomic_store(&has_ended, false);
		periodic_thread_start(&thread, end_slowly);
		periodic_thread_start(&thread, end_slowly); /* it runs */
		CHECK_EQ(thread.owner, getpid());
		periodic_thread_stop(&thread);
		CHECK(atomic_load(&has_ended));
		CHECK_EQ(thread.owner, 0);
		periodic_thread_stop(&thread);
	}
}

/* 20 ms each: at most 51 in a second, however late the thread runs. */
TEST(rounds_are_not_more_frequent_than_the_interval)
{
	struct timespec begin, end;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	periodic_thread_start(&thread, count_rounds);
	while (atomic_load(&rounds) < 5)
		usleep(1000);
	clock_gettime(CLOCK_MONOTONIC, &end);
	periodic_thread_stop(&thread);
	double seconds = (double)(end.tv_sec - begin.tv_sec) +
			 (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	CHECK(seconds > 0.07); /* the first may be shorter */
}
