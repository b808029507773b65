/* Gate for driver calls that launch work or load modules. */
#include "backend/cuda/pcs_gate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"

#define POLL_US 100u

static _Atomic uint32_t passing;    /* threads that have passed */
static _Atomic uint32_t generation; /* number of resets */
static _Atomic bool is_closed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the next, and for closing */
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;

static _Thread_local uint32_t depth; /* calls of this thread that have passed */
static _Thread_local uint32_t depth_generation;

static bool has_passed(void)
{
	return depth && depth_generation == atomic_load_explicit(&generation, memory_order_relaxed);
}

void pcs_gate_pass(void)
{
	if (has_passed()) {
		depth++;
		return;
	}
	for (;;) {
		/* sequentially consistent, as in close(): one of the two sees the other's store */
		atomic_fetch_add(&passing, 1);
		if (!atomic_load(&is_closed))
			break;
		atomic_fetch_sub(&passing, 1);
		pthread_mutex_lock(&lock);
		while (atomic_load(&is_closed))
			pthread_cond_wait(&opened, &lock);
		pthread_mutex_unlock(&lock);
	}
	depth = 1;
	depth_generation = atomic_load_explicit(&generation, memory_order_relaxed);
}

void pcs_gate_leave(void)
{
	/* The call may have begun before the session did. */
	if (has_passed() && !--depth)
		atomic_fetch_sub(&passing, 1);
}

bool pcs_gate_close(uint64_t limit_ns)
{
	uint64_t start_ns = clock_monotonic_ns();
	uint32_t own = has_passed();
	bool was_closed = false;

	if (!atomic_compare_exchange_strong(&is_closed, &was_closed, true))
		return false;
	while (atomic_load(&passing) != own) {
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
	atomic_fetch_add(&generation, 1);
	atomic_store(&passing, 0);
}
