/* Results of a launch: decodes CTAs, and adds totals, slices and losses to the profile. */
#include "backend/intra/launch_results.h"

#include <stdatomic.h>

#include "backend/intra/loss_warnings.h"
#include "driver/driver.h"
#include "record/sets/record_sessions.h"
#include "record/store/devices.h"

bool launch_results_begin(struct launch_results *results, const struct launch *launch,
			  struct device_clock *clock)
{
	const struct instrument_layout *layout = &launch->kernel->layout;
	const struct device *device = devices_get(clock->device);

	results->clock = clock;
	results->clock_mhz = atomic_load_explicit(&clock->clock_mhz, memory_order_relaxed);
	results->next_slot = 0;
	results->weight = launch->weight;
	results->wants_trace = launch->is_traced;
	decoder_begin(&results->decoder, layout, clock->overhead);
	results->decoder.timer_khz = clock->timer_khz;
	results->builder.arch = device ? device->arch : "";
	results->builder.unit_count = 0;
	results->builder.event_count = 0;
	results->history = kernel_history_of(launch->kernel, launch->where);
	if (!results->history ||
	    !launch_totals_begin(&results->totals, launch->kernel, launch->where)) {
		loss_of_launch("allocating memory for totals", DRIVER_OUT_OF_MEMORY);
		return false;
	}
	role_reading_begin(&results->warps, &results->history->roles,
			   launch->used_bytes / layout->cta_bytes);
	return true;
}

/* ------------------------------------------------------------------ decoding */

/*
 * Rates and times of the units of the CTA decoded last. Kernels that are too short to measure the
 * clock use the rate of longer ones.
 */
static void note_clocks(struct launch_results *results)
{
	const struct decoder *decoder = &results->decoder;

	for (uint32_t i = 0; i < decoder->layout->unit_count; i++) {
		const struct decode_unit *unit = &decoder->units[i];
		double mhz = unit->is_there ? decode_mhz(decoder->layout, unit, 0) : 0;

		if (mhz > 0)
			results->clock_mhz = mhz;
	}
}

bool launch_results_decode(struct launch_results *results, const char *piece, size_t bytes)
{
	struct decoder *decoder = &results->decoder;
	const struct instrument_layout *layout = decoder->layout;

	for (size_t at = 0; at + layout->cta_bytes <= bytes; at += layout->cta_bytes) {
		uint32_t slot = results->next_slot++;

		if (at + 3 * (size_t)layout->cta_bytes <= bytes)
			decode_prefetch(layout, piece + at + 2 * (size_t)layout->cta_bytes);
		if (!decode_cta(decoder, piece + at) ||
		    !launch_totals_add(&results->totals, decoder) ||
		    !role_reading_add(&results->warps, decoder, slot, piece + at))
			return false;
		note_clocks(results);
		if (results->wants_trace &&
		    !trace_builder_add(&results->builder, decoder, &results->totals,
				       slot * layout->cta_stride, results->clock_mhz))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ adding */

/* Adds the launch to the running totals, which are reported to the profile. */
static void add_to_totals(struct launch_results *results)
{
	struct kernel_history *history = results->history;
	const struct decode_totals *totals = &results->decoder.totals;
	uint32_t device = results->clock->device;
	bool is_ok = true;

	if (totals->units)
		record_intra_launch(history->where, device);
	pthread_mutex_lock(&history->lock);
	if (totals->units)
		is_ok = kernel_history_add(history, &results->totals, totals->units,
					   results->weight, devices_get(device));
	role_reading_commit(&results->warps, totals->ctas);
	pthread_mutex_unlock(&history->lock);
	if (!is_ok)
		loss_of_launch("allocating memory for totals", DRIVER_OUT_OF_MEMORY);
}

void launch_results_add(struct launch_results *results, struct kernel *kernel)
{
	struct device_clock *clock = results->clock;
	const struct decode_totals *totals = &results->decoder.totals;

	add_to_totals(results);
	launch_totals_reset(&results->totals);
	/* relaxed, like the load in launch_results_begin(): only the number matters */
	atomic_store_explicit(&clock->clock_mhz, results->clock_mhz, memory_order_relaxed);
	loss_add(kernel, totals);
}

void launch_results_trace(struct launch_results *results, struct launch *launch, uint64_t after_ns)
{
	struct trace_builder *builder = &results->builder;
	int64_t offset_ns =
		device_clock_offset(results->clock, launch->before_ns, after_ns, builder);

	if (!loss_has_space(launch->kernel, builder->unit_count + builder->event_count))
		atomic_fetch_add_explicit(&launch->kernel->untraced, 1, memory_order_relaxed);
	else if (!trace_builder_commit(builder, &results->totals, results->clock->device, offset_ns,
				       &launch->event))
		loss_of_launch("allocating memory for trace events", DRIVER_OUT_OF_MEMORY);
}

void launch_results_fini(struct launch_results *results)
{
	decoder_fini(&results->decoder);
	launch_totals_fini(&results->totals);
	trace_builder_fini(&results->builder);
	role_reading_fini(&results->warps);
	*results = (struct launch_results){0};
}
