/* Times during which PCs were sampled. */
#include "backend/cuda/pcs/pcs_parts.h"

#include <pthread.h>
#include <stdatomic.h>

#include "record/store/devices.h"

#define WINDOWS 1024u

struct window {
	uint32_t context;
	uint64_t begin_ns;
	uint64_t end_ns; /* UINT64_MAX: open; 0: unused */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct window windows[WINDOWS];                   /* a ring buffer */
static uint64_t window_count;

static _Atomic uint64_t expected_cycles;

void pcs_windows_begin(uint32_t context, uint64_t now_ns)
{
	pthread_mutex_lock(&lock);
	windows[window_count++ % WINDOWS] = (struct window){context, now_ns, UINT64_MAX};
	pthread_mutex_unlock(&lock);
}

void pcs_windows_end(uint32_t context, uint64_t now_ns)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < WINDOWS; i++)
		if (windows[i].context == context && windows[i].end_ns == UINT64_MAX)
			windows[i].end_ns = now_ns;
	pthread_mutex_unlock(&lock);
}

uint64_t pcs_windows_overlap(uint32_t context, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t oldest;
	uint64_t sum = 0;

	pthread_mutex_lock(&lock);
	oldest = window_count > WINDOWS ? window_count - WINDOWS : 0;
	for (uint64_t i = window_count; i-- > oldest;) {
		const struct window *window = &windows[i % WINDOWS];
		uint64_t begin_ns = window->begin_ns > start_ns ? window->begin_ns : start_ns;
		uint64_t until_ns = window->end_ns < end_ns ? window->end_ns : end_ns;

		if (window->context != context)
			continue;
		if (begin_ns < until_ns)
			sum += until_ns - begin_ns;
		if (window->begin_ns <= start_ns) /* earlier windows are before the kernel */
			break;
	}
	pthread_mutex_unlock(&lock);
	return sum;
}

void pcs_windows_clear(void)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < WINDOWS; i++)
		if (windows[i].end_ns != UINT64_MAX)
			windows[i] = (struct window){0};
	pthread_mutex_unlock(&lock);
	atomic_store(&expected_cycles, 0);
}

void pcs_windows_expect(const struct cupti_kernel *kernel, const struct execution *execution)
{
	const struct device *device = devices_get(execution->device);
	uint64_t blocks = (uint64_t)kernel->grid[0] * (uint64_t)kernel->grid[1];

	if (!device || !execution->sampled_ns)
		return;
	if (blocks < device->processors)
		blocks *= (uint64_t)kernel->grid[2];
	if (blocks > device->processors)
		blocks = device->processors;
	/* relaxed: a sum */
	atomic_fetch_add_explicit(&expected_cycles,
				  execution->sampled_ns * device->clock_khz / 1000000 * blocks,
				  memory_order_relaxed);
}

uint64_t pcs_windows_expected_cycles(void)
{
	return atomic_load_explicit(&expected_cycles, memory_order_relaxed);
}
