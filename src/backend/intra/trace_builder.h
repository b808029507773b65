/*
 * One launch as a timeline: its CTAs' cycles on the clock of the program, and slices put on lines
 * so that on each they follow each other or nest.
 */
#ifndef BACKEND_INTRA_TRACE_BUILDER_H
#define BACKEND_INTRA_TRACE_BUILDER_H

#include "backend/intra/launch_totals.h"
#include "record/store/intra_launch.h"

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
 * Adds the CTA that `decoder` has decoded last and `totals` added; `cta` is its number in the grid,
 * `mhz` the clock where it cannot be measured. Times stay those of the device for now. False: out
 * of memory.
 */
bool trace_builder_add(struct trace_builder *builder, const struct decoder *decoder,
		       const struct launch_totals *totals, uint32_t cta, double mhz);
/*
 * The launch is complete: moves it by `offset_ns`, onto the clock of the program, and hands it to
 * the traces; then it is empty again. `event` is that of the call that launched it.
 */
bool trace_builder_commit(struct trace_builder *builder, const struct launch_totals *totals,
			  uint32_t device, int64_t offset_ns, const struct trace_event *event);
void trace_builder_fini(struct trace_builder *builder);

#endif
