/*
 * What is known of each context of the driver that kernels were launched in: its device, the
 * clocks there, and how the device's timer relates to the clock of the program.
 */
#ifndef BACKEND_INTRA_DEVICE_CLOCK_H
#define BACKEND_INTRA_DEVICE_CLOCK_H

#include "backend/intra/trace_builder.h"
#include "intra/decode/decoder.h"

#define DEVICE_CLOCKS_MAX 64u

/* The first five do not change. */
struct device_clock {
	void *context;
	uint32_t index;
	uint32_t device; /* record/store/devices.h */
	uint64_t timer_khz;
	struct decode_overhead cost;
	double clock_mhz;
	/* device + offset = program: known to be between these, which launches narrow. */
	int64_t offset_least_ns;
	int64_t offset_most_ns;
	uint64_t offset_at_ns; /* when these were so; 0: never */
};

/* Of the context, which is current, new if need be; NULL if there are too many. */
struct device_clock *device_clock_of(void *context);
/* The context of the i-th place; NULL behind the last one. */
void *device_clock_context(uint32_t index);
/* The clock, where it cannot be measured: what launches that were long enough have shown. */
double device_clock_mhz(const struct device_clock *place);
void device_clock_note_mhz(struct device_clock *place, double mhz);
/*
 * What to add to the device's timer. `builder` have the times of a launch that was made after
 * `before_ns` and was seen to have ended at `after_ns`.
 */
int64_t device_clock_offset(struct device_clock *place, uint64_t before_ns, uint64_t after_ns,
			    const struct trace_builder *builder);
/* Contexts may be gone by the next run, and their handles used again. */
void device_clock_clear(void);
void device_clock_forget(void);

#endif
