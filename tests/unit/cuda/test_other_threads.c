/* Waiting until the other threads are outside of the driver, with a lock like that of Python. */
#include "unit/tap.h"

#include <pthread.h>

#include "backend/cuda/other_threads.h"
#include "base/clock.h"
#include "record/thread/thread.h"
#include <libproton/proton.h>

#define SECOND_NS 1000000000ull
#define DEVICES "/dev/none"
#define WAITING 3

/* As CPython's GIL: those that wait wake every 5 ms (ceval_gil.c, take_gil()). */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_taken;

static bool take(void)
{
	pthread_mutex_lock(&mutex);
	while (is_taken) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 5000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&changed, &mutex, &until);
	}
	is_taken = true;
	pthread_mutex_unlock(&mutex);
	return true;
}

static void give(void)
{
	pthread_mutex_lock(&mutex);
	is_taken = false;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&mutex);
}

static bool covers(void)
{
	return true;
}

static const struct proton_holder holder = {take, give, covers};
static _Atomic bool must_end;
static _Atomic uint32_t begun;

static void hold(void)
{
	if (access("/proc/self/syscall", R_OK) != 0 || access("/proc/self/schedstat", R_OK) != 0)
		SKIP("this kernel does not tell what threads do");
	proton_holder_set(&holder);
	CHECK(thread_hold());
}

static void let_go(void)
{
	thread_release();
	proton_holder_set(NULL);
}

static void *take_turns(void *unused)
{
	atomic_fetch_add(&begun, 1);
	while (!atomic_load(&must_end)) {
		take();
		give();
	}
	return unused;
}

static void *call_after_call(void *unused)
{
	atomic_fetch_add(&begun, 1);
	while (!atomic_load(&must_end))
		usleep(1000);
	return unused;
}

static void *compute(void *unused)
{
	atomic_fetch_add(&begun, 1);
	while (!atomic_load(&must_end))
		;
	return unused;
}

static void begin(pthread_t *thread, void *(*run)(void *))
{
	uint32_t before = atomic_load(&begun);

	CHECK_EQ(pthread_create(thread, NULL, run, NULL), 0);
	while (atomic_load(&begun) == before)
		usleep(100);
}

static void end(pthread_t thread)
{
	atomic_store(&must_end, true);
	pthread_join(thread, NULL);
}

TEST(threads_that_wait_for_the_lock_are_outside)
{
	pthread_t threads[WAITING];

	for (int i = 0; i < WAITING; i++)
		begin(&threads[i], take_turns);
	hold();
	CHECK(other_threads_await_outside(DEVICES, 30 * SECOND_NS));
	let_go();
	for (int i = 0; i < WAITING; i++)
		end(threads[i]);
}

TEST(a_process_without_other_threads_waits_briefly)
{
	uint64_t start_ns = clock_monotonic_ns();

	hold();
	CHECK(other_threads_await_outside(DEVICES, 30 * SECOND_NS));
	CHECK(clock_monotonic_ns() - start_ns < 20 * SECOND_NS);
	let_go();
}

static void expect_inside(void *(*run)(void *))
{
	pthread_t thread;

	begin(&thread, run);
	hold();
	CHECK(!other_threads_await_outside(DEVICES, SECOND_NS / 5));
	atomic_store(&must_end, true);
	CHECK(other_threads_await_outside(DEVICES, 30 * SECOND_NS));
	let_go();
	end(thread);
}

TEST(a_thread_that_runs_is_waited_for)
{
	expect_inside(compute);
}

/* It could be in calls that wait for each other, as creating a context does. */
TEST(a_thread_that_sleeps_at_times_is_waited_for)
{
	expect_inside(call_after_call);
}
