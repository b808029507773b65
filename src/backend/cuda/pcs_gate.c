/* Gate for calls that load modules. */
#include "backend/cuda/pcs_gate.h"

#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"

#define POLL_US 200u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static uint32_t passing; /* threads that have passed */
static bool is_closed;
static uint32_t generation; /* number of resets */

static _Thread_local uint32_t depth; /* calls of this thread that have passed */
static _Thread_local uint32_t depth_generation;

void pcs_gate_pass(void)
{
	pthread_mutex_lock(&lock);
	if (depth_generation != generation)
		depth = 0;
	depth_generation = generation;
	while (is_closed && !depth)
		pthread_cond_wait(&opened, &lock);
	passing += !depth++;
	pthread_mutex_unlock(&lock);
}

void pcs_gate_leave(void)
{
	pthread_mutex_lock(&lock);
	/* The call may have begun before the session did. */
	if (depth && depth_generation == generation)
		passing -= !--depth;
	pthread_mutex_unlock(&lock);
}

/*
 * It stays open while another thread has passed: loading may take seconds, during which further
 * threads need not wait.
 */
bool pcs_gate_close(uint64_t limit_ns)
{
	uint64_t start_ns = clock_monotonic_ns();
	bool is_free;

	for (;;) {
		pthread_mutex_lock(&lock);
		is_free = !is_closed && passing == (depth && depth_generation == generation);
		is_closed |= is_free;
		pthread_mutex_unlock(&lock);
		if (is_free || clock_monotonic_ns() - start_ns >= limit_ns)
			return is_free;
		usleep(POLL_US);
	}
}

void pcs_gate_open(void)
{
	pthread_mutex_lock(&lock);
	is_closed = false;
	pthread_cond_broadcast(&opened);
	pthread_mutex_unlock(&lock);
}

void pcs_gate_reset(void)
{
	pthread_mutex_lock(&lock);
	generation++;
	passing = 0;
	pthread_mutex_unlock(&lock);
}
