/* Gate for driver calls that launch work or load modules. */
#include "backend/cuda/pcs_gate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"

#define POLL_US 100u

/*
 * The number of threads that have passed, in the lower half, and the number of resets: a thread
 * that passed before a reset must not be subtracted after it.
 */
static _Atomic uint64_t passing;
static _Atomic bool is_closed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the next, and for closing */
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;

static _Thread_local uint32_t depth; /* calls of this thread that have passed */
static _Thread_local uint32_t depth_generation;

static uint32_t generation_of(uint64_t state)
{
	return (uint32_t)(state >> 32);
}

static bool has_passed(void)
{
	return depth && depth_generation == generation_of(atomic_load(&passing));
}

/* Ends the passing of a thread that began in this generation, if it has not been reset. */
static void subtract(uint32_t generation)
{
	uint64_t state = atomic_load(&passing);

	while (generation_of(state) == generation &&
	       !atomic_compare_exchange_weak(&passing, &state, state - 1))
		;
}

void pcs_gate_pass(void)
{
	if (has_passed()) {
		depth++;
		return;
	}
	for (;;) {
		/* sequentially consistent, as in close(): one of the two sees the other's store */
		depth_generation = generation_of(atomic_fetch_add(&passing, 1));
		if (!atomic_load(&is_closed))
			break;
		subtract(depth_generation);
		pthread_mutex_lock(&lock);
		while (atomic_load(&is_closed))
			pthread_cond_wait(&opened, &lock);
		pthread_mutex_unlock(&lock);
	}
	depth = 1;
}

void pcs_gate_leave(void)
{
	/* The call may have begun before the session did. */
	if (has_passed() && !--depth)
		subtract(depth_generation);
}

bool pcs_gate_close(uint64_t limit_ns)
{
	uint64_t start_ns = clock_monotonic_ns();
	uint32_t own = has_passed() ? 1 : 0;
	bool was_closed = false;

	if (!atomic_compare_exchange_strong(&is_closed, &was_closed, true))
		return false;
	while ((uint32_t)atomic_load(&passing) != own) {
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

void pcs_gate_reset(void)
{
	uint64_t state = atomic_load(&passing);

	while (!atomic_compare_exchange_weak(&passing, &state,
					     (uint64_t)(generation_of(state) + 1) << 32))
		;
}
