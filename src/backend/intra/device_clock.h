/*
 * Device clocks: for each driver context with launches, its device, the clock rates, and the offset
 * between the global timer and the host clock.
 */
#pragma once

#include "backend/intra/trace_builder.h"
#include "intra/decode/decoder.h"

#define DEVICE_CLOCKS_MAX 64u

/* The first five are constant. */
struct device_clock {
	void *context;
	uint32_t index;
	uint32_t device; /* record/store/devices.h */
	uint64_t timer_khz;
	struct decode_overhead overhead;
	_Atomic double clock_mhz; /* of the last launch that was long enough to measure it */
	/* Bounds of (host clock - global timer), which launches narrow. */
	int64_t offset_min_ns;
	int64_t offset_max_ns;
	uint64_t offset_at_ns; /* when they were set; 0: never */
};

/* For the current context, created if new; NULL if there are too many. */
struct device_clock *device_clock_of(void *context);
/* The context with that index; NULL after the last one. */
void *device_clock_context(uint32_t index);
/*
 * The offset to add to the global timer. `builder` has the times of a launch that was made after
 * `before_ns` and whose end was noticed at `after_ns`.
 */
int64_t device_clock_offset(struct device_clock *clock, uint64_t before_ns, uint64_t after_ns,
			    const struct trace_builder *builder);
/* Contexts may be destroyed before the next run, and their handles reused. */
void device_clock_clear(void);
void device_clock_forget(void);
