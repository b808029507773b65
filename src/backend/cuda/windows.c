/* Windows in which kernels are recorded: their times, costs and weights. */
#include "backend/cuda/windows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "backend/cuda/attach.h"
#include "backend/cuda/hold.h"
#include "backend/gpu/flush_thread.h"
#include "backend/gpu/launches.h"
#include "backend/gpu/records.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/message.h"
#include "base/mutex.h"
#include "model/estimates.h"
#include "record/sets/record_sessions.h"
#include "record/thread/captured.h"
#include "record/thread/record_launch.h"

#define WAIT_NS 100000000ull
/* Attached, a launch of a graph takes so much longer for each node (13.0 to 13.5). */
#define NODE_STAY_NS 500.0
#define RATE_KEPT 0.8 /* from window to window */
/* With records, so much longer than attached. */
#define NODE_RECORD_NS 500.0
/* Threads are held to attach and to leave; until it was measured. */
#define LEAVE_NS 20000000.0
/* After half of the memory is used, a distance is at least this part of the time until then. */
#define AGE_PARTS 6u
#define STEPS_MIN 16u
#define SLOWNESS_MAX 4.0

static struct periodic_thread thread;
static void (*move_window)(void);
static _Atomic uint64_t skipped_ns;
static _Atomic uint64_t due_ns; /* when a window opens or closes */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following, for reports */
static struct windows_mode mode;
static struct {
	struct record_window window;
	uint64_t first_ns; /* the first window opened; 0: not yet */
	uint64_t cycle_ns; /* the cycle began, in which the next window opens */
	uint64_t distance_ns;
	uint64_t count;       /* windows that were closed */
	uint64_t recorded_ns; /* their lengths */
	uint64_t held_ns;     /* hold_spent_ns() when the last window was closed */
	double leave_ns;      /* time for which a window that leaves CUPTI holds threads */
	double nodes_per_s;   /* launched by graphs */
	double cost_ns;       /* the last window's, for the program */
	bool is_leaving;
	struct window_edge edge;     /* the last one */
	struct window_edge parts[2]; /* sums of windows but the first, and of all since then */
} run;

static uint64_t now(void)
{
	return clock_monotonic_ns() + atomic_load(&skipped_ns);
}

static void *run_thread(void *unused)
{
	(void)unused;
	for (;;) {
		uint64_t due = atomic_load(&due_ns);
		uint64_t time_ns = now();

		if (!periodic_thread_wait(&thread, due > time_ns ? due - time_ns : 1000000))
			return NULL;
		if (now() >= atomic_load(&due_ns) &&
		    !backend_use_change(&cuda_backend, move_window))
			windows_wait();
	}
}

void windows_start(const struct windows_mode *wanted, void (*move)(void))
{
	pthread_mutex_lock(&lock);
	mode = *wanted;
	memset(&run, 0, sizeof(run));
	run.leave_ns = LEAVE_NS;
	pthread_mutex_unlock(&lock);
	move_window = move;
}

void windows_stop(void)
{
	periodic_thread_stop(&thread);
	captured_set_weight(1);
}

void windows_wait(void)
{
	atomic_store(&due_ns, now() + WAIT_NS);
}

/* Adds the part of the run that ends now. The lock is held. */
static void add_part(const struct window_edge *end, bool is_in_window)
{
	for (int i = !is_in_window; i < 2 && run.edge.ns; i++) {
		run.parts[i].ns += end->ns - run.edge.ns;
		run.parts[i].steps += end->steps - run.edge.steps;
	}
	run.edge = *end;
}

/* The rate of steps over that in windows; 1 while no steps are known. */
static double slowness(void)
{
	const struct window_edge *in = &run.parts[0];
	const struct window_edge *all = &run.parts[1];

	if (in->steps < STEPS_MIN)
		return 1;
	return fmin(fmax((double)all->steps / (double)in->steps * (double)in->ns / (double)all->ns,
			 1),
		    SLOWNESS_MAX);
}

/* ------------------------------------------------------------------ the distance */

/* The lock is held. */
static uint64_t next_distance(uint64_t time_ns)
{
	uint64_t distance_ns = mode.times.distance_ns;
	uint64_t by_cost_ns = (uint64_t)(run.cost_ns / mode.overhead);
	uint64_t by_memory_ns = attach_memory_bytes(false) * 2 > mode.memory_bytes
					? (time_ns - run.first_ns) / AGE_PARTS
					: 0;

	if (distance_ns < by_cost_ns)
		distance_ns = by_cost_ns;
	if (distance_ns < by_memory_ns)
		distance_ns = by_memory_ns;
	return distance_ns;
}

/* A random place in the cycle for the next window. The lock is held. */
static void plan_window(uint64_t begin_ns)
{
	run.cycle_ns = begin_ns;
	run.distance_ns = next_distance(begin_ns);
	run.window = (struct record_window){
		.group = (uint32_t)(run.count % ESTIMATES_GROUPS) + 1,
		.weight = (double)run.distance_ns / (double)mode.times.length_ns,
	};
	atomic_store(&due_ns, begin_ns + hash_u64(clock_real_ns()) %
						 (run.distance_ns - mode.times.length_ns));
}

bool windows_may_open(void)
{
	if (attach_memory_bytes(true) <= mode.memory_bytes)
		return true;
	message_once("kernels are not recorded any more: windows have used %" PRIu64
		     " MB of GPU memory, which CUPTI keeps until the process ends; allow more "
		     "(memory=SIZE), or choose a longer distance",
		     attach_memory_bytes(false) / 1000000);
	atomic_store(&due_ns, UINT64_MAX);
	return false;
}

void windows_open(void)
{
	struct window_edge edge = {clock_monotonic_ns(), record_steps()};

	pthread_mutex_lock(&lock);
	run.window.open_ns = edge.ns;
	run.window.slowness = slowness();
	add_part(&edge, false);
	if (!run.first_ns) {
		run.first_ns = now();
		run.window.weight = 1;
		run.held_ns = hold_spent_ns(); /* to attach costs the session, not a window */
		periodic_thread_start(&thread, run_thread);
	}
	struct record_window window = run.window;
	pthread_mutex_unlock(&lock);
	captured_set_weight(window.weight * window.slowness);
	record_window(&cuda_backend, &window);
	atomic_store(&due_ns, now() + mode.times.length_ns);
}

/* ------------------------------------------------------------------ the cost */

bool windows_should_leave(uint64_t kernels)
{
	uint64_t open_ns = clock_monotonic_ns() - run.window.open_ns;

	MUTEX_HOLD(&lock);
	/* A server that was idle in one window is not idle until the next. */
	run.nodes_per_s =
		fmax((double)kernels * 1e9 / (double)(open_ns + 1), run.nodes_per_s * RATE_KEPT);
	double staying_ns = run.nodes_per_s * NODE_STAY_NS * 1e-9 * (double)mode.times.distance_ns;
	run.is_leaving = staying_ns > run.leave_ns;
	return run.is_leaving;
}

/* The window's cost for the program, which the distance does not change. The lock is held. */
static void measure_cost(uint64_t length_ns)
{
	uint64_t held_ns = hold_spent_ns();
	double window_ns = (double)(held_ns - run.held_ns) + (double)launches_cost_ns();
	double nodes = run.nodes_per_s * 1e-9;

	if (run.is_leaving && run.window.group && held_ns > run.held_ns)
		run.leave_ns = (double)(held_ns - run.held_ns);
	run.held_ns = held_ns;
	window_ns += nodes * (double)length_ns * (NODE_STAY_NS + NODE_RECORD_NS);
	run.cost_ns = run.cost_ns > 0 ? (3 * run.cost_ns + window_ns) / 4 : window_ns;
}

void windows_close(const struct window_edge *end)
{
	uint64_t time_ns = now();

	pthread_mutex_lock(&lock);
	run.window.close_ns = end->ns;
	if (run.window.group)
		add_part(end, true);
	run.edge = *end;
	run.window.slowness = slowness();
	struct record_window window = run.window;
	measure_cost(end->ns - window.open_ns);
	if (window.group)
		run.count++;
	run.recorded_ns += end->ns - window.open_ns;
	/* The first window stands for itself; a late one ends its cycle. */
	if (!window.group || run.cycle_ns + run.distance_ns < time_ns)
		plan_window(time_ns);
	else
		plan_window(run.cycle_ns + run.distance_ns);
	pthread_mutex_unlock(&lock);
	record_window(&cuda_backend, &window);
}

/* ------------------------------------------------------------------ reports */

void windows_describe(backend_add_fn add, void *user)
{
	char text[96];

	MUTEX_HOLD(&lock);
	snprintf(text, sizeof(text), "%g ms every %g s", (double)mode.times.length_ns / 1e6,
		 (double)(run.distance_ns ? run.distance_ns : mode.times.distance_ns) / 1e9);
	add(user, "windows", text);
	gpu_describe_number(add, user, "windows_count", run.count + (run.first_ns != 0));
	gpu_describe_number(add, user, "windows_recorded_ms", run.recorded_ns / 1000000);
	gpu_describe_number(add, user, "windows_memory_bytes", attach_memory_bytes(false));
	gpu_describe_number(add, user, "windows_cost_ns", (uint64_t)run.cost_ns);
	gpu_describe_number(add, user, "windows_steps", run.parts[1].steps);
	snprintf(text, sizeof(text), "%.3f", slowness());
	add(user, "windows_slowness", text);
}

void windows_skip(uint64_t ns)
{
	atomic_fetch_add(&skipped_ns, ns);
	if (now() >= atomic_load(&due_ns))
		backend_use_change(&cuda_backend, move_window);
}
