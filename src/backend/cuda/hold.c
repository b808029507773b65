/*
 * Holding the program's threads outside of the driver.
 *
 * cuptiFinalize() while a thread is in a driver call of a graph destroys the CUDA context, and a
 * thread that is held inside of CUPTI's callback crashes afterwards. So threads are held where they
 * are outside: by the holder (record/thread/thread.h), which in Python takes the GIL, after the
 * calls in flight have ended. Threads that the holder does not cover are "loose". They are no
 * obstacle if they are gone or have called no function of graphs.
 */
#include "backend/cuda/hold.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "backend/cuda/call_gate.h"
#include "backend/cuda/other_threads.h"
#include "backend/cuda/system_call.h"
#include "backend/gpu/launches.h"
#include "base/clock.h"
#include "base/guest.h"
#include "record/thread/captured.h"
#include "record/thread/thread.h"

#define THREADS_MAX 256u
#define ATTEMPTS 8u
#define POLL_US 20u
/* A call may wait for space in the driver's queue: 53 ms were measured with 20 replays queued. */
#define FIRST_LIMIT_NS 60000000ull
/* A host function may wait for the GIL, and a callback of CUPTI for Python's frames. */
#define LIMIT_NS 20000000ull
#define PAUSE_US 5000u
#define ATTACH_ATTEMPTS 4u
#define ATTACH_LIMIT_NS 40000000ull /* for a thread that creates a context */
/*
 * The first time CUPTI has to meet no call at all: it counts its subscriber before it sets the
 * addresses that the calls of other threads then read. Doubled with each attempt.
 */
#define FIRST_ATTACH_LIMIT_NS 25000000ull
/* From the exit callback to the thread's next call without the holder: C code may make several. */
#define QUIET_NS 2000000ull

struct threads {
	_Atomic pid_t ids[THREADS_MAX];
	_Atomic uint32_t count; /* more than THREADS_MAX: some are not known */
};

static struct threads users;            /* that have called functions of graphs */
static struct threads loose;            /* threads that the holder did not cover */
static _Atomic uint32_t generation = 1; /* of an attach */
/* The generations in which this thread made a call of a graph, and in which it is loose. */
static _Thread_local struct {
	uint32_t used_in;
	uint32_t loose_in;
} here;
static _Atomic bool is_holding;         /* the holder holds */
static _Atomic uint64_t since_ns;       /* since when */
static _Atomic uint64_t spent_ns;       /* for which threads were held until now */
static _Atomic bool has_host_functions; /* the process uses some */

void hold_start(void)
{
	atomic_store(&users.count, 0);
	atomic_store(&loose.count, 0);
	atomic_fetch_add(&generation, 1);
}

void hold_note_host_function(void)
{
	atomic_store_explicit(&has_host_functions, true, memory_order_relaxed);
}

static void note_here(struct threads *threads)
{
	uint32_t at = atomic_fetch_add(&threads->count, 1);

	if (at < THREADS_MAX)
		atomic_store(&threads->ids[at], gettid());
}

void hold_note_call(void)
{
	uint32_t now = atomic_load_explicit(&generation, memory_order_relaxed);

	if (here.used_in != now) {
		here.used_in = now;
		note_here(&users);
	}
	if (here.loose_in == now || thread_is_holdable())
		return;
	here.loose_in = now;
	note_here(&loose);
}

bool hold_uses_graphs_here(void)
{
	return here.used_in == atomic_load_explicit(&generation, memory_order_relaxed);
}

static bool thread_exists(pid_t thread)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d", (int)thread);
	return access(path, F_OK) == 0;
}

uint32_t hold_count_loose(void)
{
	uint32_t count = atomic_load(&loose.count);
	uint32_t alive = count > THREADS_MAX ? count - THREADS_MAX : 0;

	for (uint32_t i = 0; i < count && i < THREADS_MAX; i++) {
		pid_t thread = atomic_load(&loose.ids[i]);

		alive += !thread || thread_exists(thread); /* 0: it is being noted now */
	}
	return alive;
}

/* Loose threads beside this one. */
static bool has_loose(void)
{
	bool is_loose = here.loose_in == atomic_load(&generation);

	return hold_count_loose() > (is_loose ? 1 : 0);
}

/* A thread without a processor since the exit callback is in the driver still; others sleep. */
static bool is_any_running(void)
{
	uint32_t count = atomic_load(&users.count);

	for (uint32_t i = 0; i < count && i < THREADS_MAX; i++) {
		pid_t thread = atomic_load(&users.ids[i]);

		if (!thread || (thread != gettid() && system_call_is_running(thread)))
			return true;
	}
	return count > THREADS_MAX;
}

static bool wait_quiet(uint64_t limit_ns)
{
	uint64_t start_ns = clock_monotonic_ns();
	uint64_t quiet_ns = start_ns;
	uint64_t now_ns = start_ns;
	uint64_t calls = call_gate_graph_calls();

	while (now_ns - start_ns < limit_ns) {
		uint64_t seen = call_gate_graph_calls();

		now_ns = clock_monotonic_ns();
		if (!call_gate_is_quiet() || seen != calls)
			quiet_ns = now_ns;
		calls = seen;
		/* Without a holder no other thread calls functions of graphs. */
		if (now_ns - quiet_ns >= (hold_is_on() ? QUIET_NS : 0) && quiet_ns != now_ns &&
		    !(hold_is_on() && is_any_running()))
			return true;
		usleep(POLL_US);
	}
	return false;
}

bool hold_is_quiet(void)
{
	return wait_quiet(LIMIT_NS);
}

/* ------------------------------------------------------------------ an idle GPU */

/*
 * A host function on a stream may wait for the GIL, and CUPTI for the stream: while threads are
 * held, that would never end. So nothing may run on the GPUs. A separate thread waits for them,
 * because that cannot be given up; when it is late, it ends by itself.
 */
enum waiting {
	WAITING_NONE,
	WAITING_RUNS,
	WAITING_DONE,
};

static _Atomic int waiting;
static bool (*synchronize_one)(void *context);

static void *wait_for_gpus(void *unused)
{
	(void)unused;
	contexts_synchronize(synchronize_one);
	atomic_store(&waiting, WAITING_DONE);
	return NULL;
}

static bool begin_waiting(bool (*synchronize)(void *context))
{
	int before = atomic_load(&waiting);
	pthread_t thread;

	if (before == WAITING_RUNS) /* of an earlier attempt */
		return false;
	synchronize_one = synchronize;
	atomic_store(&waiting, WAITING_RUNS);
	if (own_thread_start(&thread, wait_for_gpus, NULL) != 0) {
		atomic_store(&waiting, WAITING_NONE);
		return false;
	}
	pthread_detach(thread);
	return true;
}

/* Waiting for a context ends its captures. Captures and host functions are not used together. */
static bool wait_idle(bool (*synchronize)(void *context), uint64_t limit_ns)
{
	uint64_t start_ns = clock_monotonic_ns();

	if (captured_may_open())
		return !atomic_load(&has_host_functions);
	if (!begin_waiting(synchronize))
		return false;
	while (atomic_load(&waiting) == WAITING_RUNS && clock_monotonic_ns() - start_ns < limit_ns)
		usleep(POLL_US);
	return atomic_load(&waiting) == WAITING_DONE;
}

static void begin_holder(void)
{
	is_holding = thread_hold();
	atomic_store(&since_ns, clock_monotonic_ns());
}

static bool try_to_hold(bool (*synchronize)(void *context), uint64_t limit_ns, const char **why_out)
{
	*why_out = "a CUDA graph was being captured";
	if (captured_any_open())
		return false;
	*why_out = "a thread did not return from the CUDA driver, or the GPU was busy";
	begin_holder();
	if (wait_quiet(limit_ns) && !has_loose() && !captured_any_open() &&
	    (!hold_is_on() || wait_idle(synchronize, limit_ns)))
		return true;
	hold_end();
	return false;
}

bool hold_begin(bool (*synchronize)(void *context), const char **why_out)
{
	for (uint32_t i = 0; i < ATTEMPTS; i++) {
		*why_out = thread_has_holder() ? "threads that Python cannot hold use CUDA graphs"
					       : "other threads use CUDA graphs";
		if (has_loose())
			return false;
		if (try_to_hold(synchronize, i ? LIMIT_NS : FIRST_LIMIT_NS, why_out))
			return true;
		usleep(PAUSE_US);
	}
	return false;
}

static bool await_to_attach(const char *devices, bool is_first, uint32_t attempt)
{
	return is_first ? other_threads_await_outside(devices, FIRST_ATTACH_LIMIT_NS << attempt)
			: system_call_await_ioctl(devices, ATTACH_LIMIT_NS);
}

/*
 * A call of C code that the holder does not end may create a context. It is looked for while no
 * thread can begin another such call.
 */
bool hold_begin_to_attach(const char *devices, bool is_first)
{
	for (uint32_t i = 0; i < ATTACH_ATTEMPTS; i++) {
		begin_holder();
		bool has_begun = hold_is_on();
		if (has_begun &&
		    (await_to_attach(devices, is_first, i) || i + 1 == ATTACH_ATTEMPTS))
			return true;
		hold_end();
		system_call_await_ioctl(devices, CALL_GATE_LONG_NS);
		if (!has_begun)
			return false;
	}
	return false;
}

bool hold_is_on(void)
{
	return atomic_load(&is_holding);
}

bool hold_misses_launches(void)
{
	return !hold_is_on() && call_gate_has_other_users(CALL_GATE_LAUNCH);
}

void hold_end(void)
{
	if (!atomic_exchange(&is_holding, false))
		return;
	atomic_fetch_add(&spent_ns, clock_monotonic_ns() - atomic_load(&since_ns));
	thread_release();
}

uint64_t hold_since_ns(void)
{
	return atomic_load(&since_ns);
}

uint64_t hold_spent_ns(void)
{
	return atomic_load(&spent_ns);
}
