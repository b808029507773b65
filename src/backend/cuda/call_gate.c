/* Driver calls in flight, and the gate for calls that launch work or load modules. */
#include "backend/cuda/call_gate.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "record/thread/captured.h"

#define POLL_US 100u
#define ATTEMPT_NS 20000000ull
#define PAUSE_US 2000u /* between two attempts */
#define SETTLE_US 5000u
#define LONG_KINDS (1u << CALL_GATE_CHANGE | 1u << CALL_GATE_CAPTURE)

/*
 * By kind, the number of threads that have passed, in the lower half, and the number of resets: a
 * thread that passed before a reset must not be subtracted after it.
 */
static _Atomic uint64_t passing[CALL_GATE_KINDS];
static _Atomic uint32_t users[CALL_GATE_KINDS]; /* threads that have passed since the last reset */
static _Atomic uint32_t waiting;                /* threads, for the gate to open */
static _Atomic uint64_t graph_calls;
static _Atomic uint32_t closed;   /* kinds, by bit */
static _Atomic bool is_unsettled; /* calls may be in flight that are not counted */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the next, and for closing */
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;

/* Calls of this thread that have passed. */
static _Thread_local struct {
	uint32_t depth;
	uint32_t generation;
} here[CALL_GATE_KINDS];

/* This thread has closed the gate, and makes calls of the driver itself. */
static _Thread_local bool closes_here;

static uint32_t generation_of(uint64_t state)
{
	return (uint32_t)(state >> 32);
}

static bool has_passed(enum call_gate_kind kind)
{
	return here[kind].depth &&
	       here[kind].generation == generation_of(atomic_load(&passing[kind]));
}

/* Ends the passing of a thread that began in this generation, if it has not been reset. */
static void subtract(enum call_gate_kind kind, uint32_t generation)
{
	uint64_t state = atomic_load(&passing[kind]);

	while (generation_of(state) == generation &&
	       !atomic_compare_exchange_weak(&passing[kind], &state, state - 1))
		;
}

bool call_gate_counts_here(void)
{
	return has_passed(CALL_GATE_CHANGE) || has_passed(CALL_GATE_REPLAY);
}

bool call_gate_is_closed_here(void)
{
	return closes_here;
}

/* May this thread pass? Launches and loads in a counted call do: CALL_GATE_CHANGES waits for it. */
static bool is_open_here(enum call_gate_kind kind)
{
	if (!(atomic_load(&closed) & 1u << kind) || closes_here)
		return true;
	return (kind == CALL_GATE_LAUNCH || kind == CALL_GATE_QUERY) && call_gate_counts_here();
}

void call_gate_pass(enum call_gate_kind kind)
{
	uint32_t generation = here[kind].generation;
	bool has_waited = false;

	if (has_passed(kind)) {
		here[kind].depth++;
		return;
	}
	for (;;) {
		/* sequentially consistent, as in close(): one of the two sees the other's store */
		here[kind].generation = generation_of(atomic_fetch_add(&passing[kind], 1));
		if (is_open_here(kind))
			break;
		if (!has_waited)
			atomic_fetch_add(&waiting, 1); /* before it seems to have left */
		subtract(kind, here[kind].generation);
		pthread_mutex_lock(&lock);
		while (atomic_load(&closed) & 1u << kind)
			pthread_cond_wait(&opened, &lock);
		pthread_mutex_unlock(&lock);
		has_waited = true;
	}
	if (has_waited)
		atomic_fetch_sub(&waiting, 1);
	if (here[kind].generation != generation)
		atomic_fetch_add(&users[kind], 1);
	if (kind == CALL_GATE_GRAPH)
		atomic_fetch_add_explicit(&graph_calls, 1, memory_order_relaxed);
	here[kind].depth = 1;
}

void call_gate_leave(enum call_gate_kind kind)
{
	/* The call may have begun before the session did. */
	if (has_passed(kind) && !--here[kind].depth)
		subtract(kind, here[kind].generation);
}

/* Are other threads than this one in calls of this kind? */
static bool is_passing(enum call_gate_kind kind)
{
	return (uint32_t)atomic_load(&passing[kind]) != (has_passed(kind) ? 1 : 0);
}

static bool is_any_passing(uint32_t kinds)
{
	for (uint32_t kind = 0; kind < CALL_GATE_KINDS; kind++)
		if (kinds & 1u << kind && is_passing(kind))
			return true;
	return false;
}

bool call_gate_is_quiet(void)
{
	return !atomic_load(&waiting) && !is_any_passing(UINT32_MAX);
}

bool call_gate_has_other_users(enum call_gate_kind kind)
{
	bool is_user = here[kind].generation == generation_of(atomic_load(&passing[kind]));

	return atomic_load(&users[kind]) > (is_user ? 1 : 0);
}

uint64_t call_gate_graph_calls(void)
{
	return atomic_load_explicit(&graph_calls, memory_order_relaxed);
}

static bool await_left(uint32_t kinds, uint64_t limit_ns)
{
	uint64_t start_ns = clock_monotonic_ns();

	while (is_any_passing(kinds)) {
		if (clock_monotonic_ns() - start_ns >= limit_ns)
			return false;
		usleep(POLL_US);
	}
	return true;
}

static bool await_captures(void)
{
	uint64_t start_ns = clock_monotonic_ns();

	while (captured_any_open()) {
		if (clock_monotonic_ns() - start_ns >= ATTEMPT_NS)
			return false;
		usleep(POLL_US);
	}
	return true;
}

/* For calls that began before they were counted; a capture in flight makes nodes. */
static void settle(void)
{
	if (atomic_load(&is_unsettled))
		usleep(SETTLE_US);
}

/*
 * Open captures end first, because the end of one is a call. Then calls that may take long: while
 * one is in flight, only others like it wait. The frequent ones wait 20 ms at most.
 */
static bool await_calls(uint32_t kinds, uint64_t limit_ns, bool between_captures)
{
	uint64_t attempt_ns = limit_ns < ATTEMPT_NS ? limit_ns : ATTEMPT_NS;

	if (between_captures) {
		settle();
		if (!await_left(1u << CALL_GATE_CAPTURE, attempt_ns) || !await_captures())
			return false;
	}
	atomic_fetch_or(&closed, kinds & LONG_KINDS);
	if (!await_left(kinds & LONG_KINDS, limit_ns))
		return false;
	atomic_fetch_or(&closed, kinds);
	if (!await_left(kinds, attempt_ns))
		return false;
	settle();
	return !between_captures || !captured_any_open();
}

static bool try_to_close(uint32_t kinds, uint64_t limit_ns, bool between_captures)
{
	uint32_t none = 0;

	if (!atomic_compare_exchange_strong(&closed, &none, 1u << CALL_GATE_CAPTURE))
		return false;
	if (!await_calls(kinds, limit_ns, between_captures)) {
		call_gate_open();
		return false;
	}
	atomic_store(&is_unsettled, false);
	closes_here = true;
	return true;
}

static bool close_in_attempts(uint32_t kinds, uint64_t limit_ns, bool between_captures)
{
	uint64_t start_ns = clock_monotonic_ns();
	uint64_t spent_ns = 0;

	while (spent_ns <= limit_ns) {
		if (try_to_close(kinds, limit_ns - spent_ns, between_captures))
			return true;
		usleep(PAUSE_US);
		spent_ns = clock_monotonic_ns() - start_ns;
	}
	return false;
}

bool call_gate_close(uint32_t kinds, uint64_t limit_ns)
{
	return close_in_attempts(kinds, limit_ns, false);
}

bool call_gate_close_between_captures(uint32_t kinds, uint64_t limit_ns)
{
	return close_in_attempts(kinds, limit_ns, true);
}

void call_gate_open(void)
{
	closes_here = false;
	MUTEX_HOLD(&lock);
	atomic_store(&closed, 0);
	pthread_cond_broadcast(&opened);
}

void call_gate_reset(enum call_gate_kind kind)
{
	uint64_t state = atomic_load(&passing[kind]);

	atomic_store(&is_unsettled, true);
	atomic_store(&users[kind], 0); /* before threads can pass: one too many does no harm */
	while (!atomic_compare_exchange_weak(&passing[kind], &state,
					     (uint64_t)(generation_of(state) + 1) << 32))
		;
}
