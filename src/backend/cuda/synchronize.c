/*
 * Waiting for a context ends the captures that are open in it when the wait begins. One that begins
 * during the wait stays open (measured on an H200). So no capture begins until another thread
 * waits.
 */
#include "backend/cuda/synchronize.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "backend/cuda/call_gate.h"
#include "backend/cuda/system_call.h"
#include "base/clock.h"
#include "base/guest.h"
#include "driver/driver.h"

#define CLOSE_NS 40000000ull
/* The driver waits after so much time of a processor, or asleep for so long. */
#define RUN_NS 500000ull
#define SLEEP_NS 5000000ull
#define LIMIT_NS 200000000ull
#define POLL_US 20u

struct waiting {
	void *context;
	bool is_good;
	uint64_t run_ns;      /* processor time of the thread when it began to wait */
	_Atomic pid_t thread; /* 0: it has not begun; stored after run_ns */
	_Atomic bool is_done;
};

static void *wait_there(void *data)
{
	struct waiting *waiting = data;

	waiting->run_ns = clock_thread_ns();
	atomic_store(&waiting->thread, gettid());
	waiting->is_good = driver_cuda_synchronize(waiting->context);
	atomic_store(&waiting->is_done, true);
	return NULL;
}

static bool has_run(const struct waiting *waiting, pthread_t thread)
{
	clockid_t clock;

	return atomic_load(&waiting->thread) && pthread_getcpuclockid(thread, &clock) == 0 &&
	       clock_read_ns(clock) - waiting->run_ns >= RUN_NS;
}

/* Until the thread waits in the driver, or it takes too long. */
static void await_begin(struct waiting *waiting, pthread_t thread)
{
	uint64_t start_ns = clock_monotonic_ns();
	uint64_t asleep_ns = start_ns; /* since when */
	uint64_t now_ns = start_ns;

	while (!atomic_load(&waiting->is_done) && !has_run(waiting, thread) &&
	       now_ns - asleep_ns < SLEEP_NS && now_ns - start_ns < LIMIT_NS) {
		pid_t id = atomic_load(&waiting->thread);

		usleep(POLL_US);
		now_ns = clock_monotonic_ns();
		if (!id || system_call_is_running(id))
			asleep_ns = now_ns;
	}
}

bool synchronize_unless_captured(void *context)
{
	struct waiting waiting = {.context = context, .is_good = true};
	pthread_t thread;

	if (!call_gate_close_between_captures(1u << CALL_GATE_CAPTURE, CLOSE_NS))
		return true;
	bool is_started = own_thread_start(&thread, wait_there, &waiting) == 0;
	if (is_started)
		await_begin(&waiting, thread);
	call_gate_open();
	if (is_started)
		pthread_join(thread, NULL);
	return waiting.is_good;
}
