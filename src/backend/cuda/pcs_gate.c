/* Gate for driver calls that launch work or load modules. */
#include "backend/cuda/pcs_gate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"

#define POLL_US 100u

/*
 * By kind, the number of threads that have passed, in the lower half, and the number of resets: a
 * thread that passed before a reset must not be subtracted after it.
 */
static _Atomic uint64_t passing[PCS_GATE_KINDS];
static _Atomic bool is_closed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the next, and for closing */
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;

/* Calls of this thread that have passed. */
static _Thread_local struct {
	uint32_t depth;
	uint32_t generation;
} here[PCS_GATE_KINDS];

static uint32_t generation_of(uint64_t state)
{
	return (uint32_t)(state >> 32);
}

static bool has_passed(enum pcs_gate_kind kind)
{
	return here[kind].depth &&
	       here[kind].generation == generation_of(atomic_load(&passing[kind]));
}

/* Ends the passing of a thread that began in this generation, if it has not been reset. */
static void subtract(enum pcs_gate_kind kind, uint32_t generation)
{
	uint64_t state = atomic_load(&passing[kind]);

	while (generation_of(state) == generation &&
	       !atomic_compare_exchange_weak(&passing[kind], &state, state - 1))
		;
}

void pcs_gate_pass(enum pcs_gate_kind kind)
{
	if (has_passed(kind)) {
		here[kind].depth++;
		return;
	}
	for (;;) {
		/* sequentially consistent, as in close(): one of the two sees the other's store */
		here[kind].generation = generation_of(atomic_fetch_add(&passing[kind], 1));
		if (!atomic_load(&is_closed))
			break;
		subtract(kind, here[kind].generation);
		pthread_mutex_lock(&lock);
		while (atomic_load(&is_closed))
			pthread_cond_wait(&opened, &lock);
		pthread_mutex_unlock(&lock);
	}
	here[kind].depth = 1;
}

void pcs_gate_leave(enum pcs_gate_kind kind)
{
	/* The call may have begun before the session did. */
	if (has_passed(kind) && !--here[kind].depth)
		subtract(kind, here[kind].generation);
}

/* Have threads passed, beside this one? */
static bool is_any_passing(void)
{
	for (int kind = 0; kind < PCS_GATE_KINDS; kind++)
		if ((uint32_t)atomic_load(&passing[kind]) !=
		    (has_passed((enum pcs_gate_kind)kind) ? 1 : 0))
			return true;
	return false;
}

bool pcs_gate_close(uint64_t limit_ns)
{
	uint64_t start_ns = clock_monotonic_ns();
	bool was_closed = false;

	if (!atomic_compare_exchange_strong(&is_closed, &was_closed, true))
		return false;
	while (is_any_passing()) {
		if (clock_monotonic_ns() - start_ns >= limit_ns) {
			pcs_gate_open();
			return false;
		}
		usleep(POLL_US);
	}
	return true;
}

void pcs_gate_open(void)
{
	pthread_mutex_lock(&lock);
	atomic_store(&is_closed, false);
	pthread_cond_broadcast(&opened);
	pthread_mutex_unlock(&lock);
}

void pcs_gate_reset(enum pcs_gate_kind kind)
{
	uint64_t state = atomic_load(&passing[kind]);

	while (!atomic_compare_exchange_weak(&passing[kind], &state,
					     (uint64_t)(generation_of(state) + 1) << 32))
		;
}
