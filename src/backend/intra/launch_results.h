/*
 * Results of a launch: its records, decoded into totals and slices, which are then added to the
 * profile. Each reader thread has its own.
 */
#ifndef BACKEND_INTRA_LAUNCH_RESULTS_H
#define BACKEND_INTRA_LAUNCH_RESULTS_H

#include "backend/intra/device_buffers.h"
#include "backend/intra/device_clock.h"
#include "backend/intra/kernel_history.h"
#include "backend/intra/trace_builder.h"

/* All zero: unused. */
struct launch_results {
	struct device_clock *clock;
	struct kernel_history *history;
	struct decoder decoder;
	struct launch_totals totals;
	struct trace_builder builder;
	struct role_reading warps;
	double clock_mhz;
	uint32_t next_slot;
	uint32_t weight;
	bool wants_trace;
};

/* Begins a launch on the device of `clock`. False after a warning. */
bool launch_results_begin(struct launch_results *results, const struct launch *launch,
			  struct device_clock *clock);
/* Decodes the whole CTAs in `bytes` bytes at `piece`, which follow the last ones. */
bool launch_results_decode(struct launch_results *results, const char *piece, size_t bytes);
/* All CTAs were decoded: adds the launch of `kernel` to the totals in the profile. */
void launch_results_add(struct launch_results *results, struct kernel *kernel);
/*
 * After that, if it is traced: adds its slices to the traces, if they have space. The end of the
 * launch was noticed at `after_ns`.
 */
void launch_results_trace(struct launch_results *results, struct launch *launch, uint64_t after_ns);
void launch_results_fini(struct launch_results *results);

#endif
