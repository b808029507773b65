/*
 * Trace builder: one launch as slices on tracks, with times converted from cycles to the host
 * clock. Slices of a sub-track follow each other or nest.
 */
#pragma once

#include "backend/intra/launch_totals.h"
#include "record/store/execution.h"

struct trace_builder {
	struct intra_unit *units;
	size_t unit_count;
	size_t unit_capacity;
	struct intra_event *events;
	size_t event_count;
	size_t event_capacity;
	struct proton_context *nodes;
	size_t node_capacity;
	const char *arch; /* of the device, such as "gfx942"; borrowed */
};

/*
 * Adds the CTA that `decoder` decoded last and that was added to `totals`. `cta` is its index in
 * the grid, `mhz` the clock rate if it cannot be measured. Times are the device's until
 * trace_builder_commit(). False if out of memory.
 */
bool trace_builder_add(struct trace_builder *builder, const struct decoder *decoder,
		       const struct launch_totals *totals, uint32_t cta, double mhz);
/*
 * The launch is complete: adds `offset_ns` to all times, which converts them to the host clock,
 * and adds the slices to the traces. `event` is the API call that launched the kernel.
 */
bool trace_builder_commit(struct trace_builder *builder, const struct launch_totals *totals,
			  uint32_t device, int64_t offset_ns, const struct trace_event *event);
void trace_builder_fini(struct trace_builder *builder);

/*
 * The number in struct row_lane: equal for all waves on one CU (or WGP) of an AMD GPU, whose
 * registers differ by wave. `arch` is the device's, such as "gfx942".
 */
uint32_t trace_builder_amd_processor(const char *arch, uint32_t hw_id, uint32_t xcc_id);
