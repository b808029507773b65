/* Clocks per driver context, and the offset between the global timer and the host clock. */
#include "backend/intra/device_clock.h"

#include "backend/intra/record_overhead.h"
#include "base/mutex.h"
#include "driver/driver.h"
#include "record/store/devices.h"

/* Estimated time from the launch on an idle device to its first instruction. */
#define LAUNCH_LATENCY_NS 4000
/* Maximum drift between the global timer and the host clock: 1 / 10000, 100 ppm. */
#define DRIFT_INVERSE 10000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device_clock clocks[DEVICE_CLOCKS_MAX];
static uint32_t clock_count;

static void init_clock(struct device_clock *clock, uint32_t index, void *context)
{
	*clock = (struct device_clock){.context = context, .index = index};
	clock->device = gpu_device_here();
	clock->timer_khz = gpu_device_timer_khz();
	const struct device *device = devices_get(clock->device);
	clock->clock_mhz = device && device->clock_khz ? (double)device->clock_khz / 1000 : 1000;
	clock->overhead = record_overhead_on(device);
}

struct device_clock *device_clock_of(void *context)
{
	struct device_clock *clock = NULL;

	MUTEX_HOLD(&lock);
	for (uint32_t i = 0; i < clock_count && !clock; i++)
		if (clocks[i].context == context)
			clock = &clocks[i];
	if (!clock && clock_count < DEVICE_CLOCKS_MAX) {
		clock = &clocks[clock_count];
		init_clock(clock, clock_count++, context);
	}
	return clock;
}

void *device_clock_context(uint32_t index)
{
	MUTEX_HOLD(&lock);
	void *context = index < clock_count ? clocks[index].context : NULL;
	return context;
}

/*
 * A launch cannot start before it was made, nor end after the host noticed its end. Each launch
 * thus narrows the range of the offset between the global timer and the host clock. The clocks
 * drift, so earlier bounds are widened over time. If they still contradict the new ones, a clock
 * was set, and the new bounds replace them.
 */
static void narrow_offset(struct device_clock *clock, uint64_t before_ns, uint64_t after_ns,
			  const struct trace_builder *builder)
{
	uint64_t first_ns = UINT64_MAX;
	uint64_t last_ns = 0;

	for (size_t i = 0; i < builder->unit_count; i++) {
		if (builder->units[i].start_ns < first_ns)
			first_ns = builder->units[i].start_ns;
		if (builder->units[i].end_ns > last_ns)
			last_ns = builder->units[i].end_ns;
	}
	if (!builder->unit_count)
		return;
	int64_t min = (int64_t)(before_ns - first_ns);
	int64_t max = (int64_t)(after_ns - last_ns);
	if (clock->offset_at_ns) {
		int64_t drift =
			after_ns > clock->offset_at_ns
				? (int64_t)((after_ns - clock->offset_at_ns) / DRIFT_INVERSE)
				: 0;
		clock->offset_min_ns -= drift;
		clock->offset_max_ns += drift;
		if (min <= clock->offset_max_ns && max >= clock->offset_min_ns) {
			min = min > clock->offset_min_ns ? min : clock->offset_min_ns;
			max = max < clock->offset_max_ns ? max : clock->offset_max_ns;
		}
	}
	clock->offset_min_ns = min;
	clock->offset_max_ns = max;
	clock->offset_at_ns = after_ns;
}

int64_t device_clock_offset(struct device_clock *clock, uint64_t before_ns, uint64_t after_ns,
			    const struct trace_builder *builder)
{
	MUTEX_HOLD(&lock);
	narrow_offset(clock, before_ns, after_ns, builder);
	int64_t min = clock->offset_min_ns;
	int64_t latency_ns = clock->offset_max_ns > min ? (clock->offset_max_ns - min) / 2 : 0;
	return min + (latency_ns < LAUNCH_LATENCY_NS ? latency_ns : LAUNCH_LATENCY_NS);
}

void device_clock_clear(void)
{
	MUTEX_HOLD(&lock);
	clock_count = 0;
}

void device_clock_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	clock_count = 0;
	record_overhead_forget();
}
