/* Times during which PCs were sampled. */
#include "backend/cuda/pcs/pcs_parts.h"

#include "base/mutex.h"
#include "record/store/devices.h"

#define WINDOWS 1024u

struct window {
	uint32_t context;
	uint32_t period;
	uint64_t begin_ns;
	uint64_t end_ns; /* UINT64_MAX: open; 0: unused */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct window windows[WINDOWS];                   /* a ring buffer */
static uint64_t window_count;
static uint64_t expected_cycles[PCS_PERIOD_MAX + 1]; /* per period, summed over processors */

void pcs_windows_begin(const struct pcs_context *context, uint64_t now_ns)
{
	MUTEX_HOLD(&lock);
	windows[window_count++ % WINDOWS] = (struct window){
		.context = context->id,
		.period = context->period <= PCS_PERIOD_MAX ? context->period : PCS_PERIOD_MAX,
		.begin_ns = now_ns,
		.end_ns = UINT64_MAX,
	};
}

void pcs_windows_end(uint32_t context, uint64_t now_ns)
{
	MUTEX_HOLD(&lock);
	for (uint32_t i = 0; i < WINDOWS; i++)
		if (windows[i].context == context && windows[i].end_ns == UINT64_MAX)
			windows[i].end_ns = now_ns;
}

/* Processors that a kernel may use at a time; 0: unknown. */
static uint64_t processors_of(const struct cupti_kernel *kernel, const struct device *device)
{
	uint64_t blocks = (uint64_t)kernel->grid[0] * (uint64_t)kernel->grid[1];

	if (!device)
		return 0;
	if (blocks < device->processors)
		blocks *= (uint64_t)kernel->grid[2];
	return blocks < device->processors ? blocks : device->processors;
}

void pcs_windows_run(const struct cupti_kernel *kernel, struct execution *execution)
{
	const struct device *device = devices_get(execution->device);
	uint64_t processors = processors_of(kernel, device);

	MUTEX_HOLD(&lock);
	uint64_t oldest = window_count > WINDOWS ? window_count - WINDOWS : 0;
	for (uint64_t i = window_count; i-- > oldest;) {
		const struct window *window = &windows[i % WINDOWS];
		uint64_t begin_ns = window->begin_ns > execution->start_ns ? window->begin_ns
									   : execution->start_ns;
		uint64_t end_ns = window->end_ns < execution->end_ns ? window->end_ns
								     : execution->end_ns;

		if (window->context != kernel->context_id)
			continue;
		if (begin_ns < end_ns) {
			execution->sampled_ns += end_ns - begin_ns;
			if (processors)
				expected_cycles[window->period] += (end_ns - begin_ns) *
								   device->clock_khz / 1000000 *
								   processors;
		}
		/* Earlier windows are before the kernel. */
		if (window->begin_ns <= execution->start_ns)
			break;
	}
}

void pcs_windows_clear(void)
{
	MUTEX_HOLD(&lock);
	for (uint32_t i = 0; i < WINDOWS; i++)
		if (windows[i].end_ns != UINT64_MAX)
			windows[i] = (struct window){0};
	memset(expected_cycles, 0, sizeof(expected_cycles));
}

uint64_t pcs_windows_expected(void)
{
	uint64_t sum = 0;

	MUTEX_HOLD(&lock);
	for (uint32_t i = 0; i <= PCS_PERIOD_MAX; i++)
		sum += expected_cycles[i] >> i;
	return sum;
}
