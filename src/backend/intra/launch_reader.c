/* Reader for the buffers of launches: copies in pieces, decodes, and updates totals and traces. */
#include "backend/intra/launch_reader.h"

#include <stdatomic.h>

#include "backend/intra/buffer_clear.h"
#include "backend/intra/device_buffers.h"
#include "backend/intra/kernel_history.h"
#include "backend/intra/loaded_kernels.h"
#include "backend/intra/loss_warnings.h"
#include "backend/intra/ordered_commit.h"
#include "backend/intra/record_price.h"
#include "base/clock.h"
#include "base/message.h"
#include "driver/driver.h"
#include "record/sets/record_count.h"
#include "record/sets/record_intra.h"
#include "record/store/devices.h"

/*
 * Size of a piece that is copied at once. A normal launch has a few pieces, so decoding begins
 * early. A piece has whole CTAs, up to a limit.
 */
#define STAGE_BYTES ((size_t)1 << 20)
#define STAGE_BYTES_MAX ((size_t)16 << 20)

static atomic_bool has_failed; /* warn only once */

/* The launch that is being read. */
struct reading {
	struct launch_reader *reader;
	struct launch *launch;
	const struct instrument_layout *layout;
	struct kernel_history *history;
	struct device_clock *clock;
	void **streams;
	double clock_mhz;
	uint64_t unit_cycles; /* all units that finished */
	uint32_t next_slot;
	bool wants_trace;
	uint32_t queued; /* pieces with a queued copy */
	bool is_cleared; /* clearing is queued too */
};

static void fail_launch(const char *call, int result)
{
	record_count(COUNTER_LOST_DAMAGED, 1);
	if (result == DRIVER_DEINITIALIZED || atomic_exchange(&has_failed, true))
		return;
	message("cannot read the records of an instrumented kernel: %s failed (%d)", call, result);
}

void launch_reader_start(void)
{
	atomic_store(&has_failed, false);
}

/* ------------------------------------------------------------------ reading a launch */

/*
 * Rates and times of the units of the CTA decoded last. Kernels that are too short to measure the
 * clock use the rate of longer ones.
 */
static void note_clocks(struct reading *reading)
{
	const struct decoder *decoder = &reading->reader->decoder;

	for (uint32_t i = 0; i < reading->layout->unit_count; i++) {
		const struct decode_unit *unit = &decoder->units[i];
		double mhz = unit->is_there ? decode_mhz(reading->layout, unit, 0) : 0;

		if (mhz > 0)
			reading->clock_mhz = mhz;
		if (unit->is_there && unit->end_clock > unit->start_clock)
			reading->unit_cycles += unit->end_clock - unit->start_clock;
	}
}

/* Decodes the whole CTAs in `bytes` bytes at `stage`. */
static bool decode_piece(struct reading *reading, const char *stage, size_t bytes)
{
	const struct instrument_layout *layout = reading->layout;
	struct launch_reader *reader = reading->reader;

	for (size_t at = 0; at + layout->cta_bytes <= bytes; at += layout->cta_bytes) {
		uint32_t slot = reading->next_slot++;

		if (at + 3 * (size_t)layout->cta_bytes <= bytes)
			decode_prefetch(layout, stage + at + 2 * (size_t)layout->cta_bytes);
		if (!decode_cta(&reader->decoder, stage + at) ||
		    !launch_totals_add(&reader->totals, &reader->decoder) ||
		    !role_reading_add(&reader->warps, &reader->decoder, slot, stage + at))
			return false;
		note_clocks(reading);
		if (reading->wants_trace &&
		    !trace_builder_add(&reader->builder, &reader->decoder, &reader->totals,
				       slot * layout->cta_stride, reading->clock_mhz))
			return false;
	}
	return true;
}

static void free_stages(struct launch_reader *reader)
{
	for (uint32_t i = 0; i < READER_STAGES; i++) {
		if (reader->stages[i])
			driver.cuMemFreeHost(reader->stages[i]);
		reader->stages[i] = NULL;
	}
	reader->stage_bytes = 0;
}

/* Allocates stages for at least one CTA. */
static bool get_stages(struct launch_reader *reader, size_t cta_bytes)
{
	size_t bytes = cta_bytes < STAGE_BYTES ? STAGE_BYTES : cta_bytes;

	if (reader->stage_bytes >= bytes)
		return true;
	free_stages(reader);
	for (uint32_t i = 0; bytes <= STAGE_BYTES_MAX && i < READER_STAGES; i++)
		if (driver.cuMemHostAlloc(&reader->stages[i], bytes, DRIVER_HOST_PORTABLE) != 0)
			reader->stages[i] = NULL;
	if (!reader->stages[0]) {
		free_stages(reader);
		fail_launch("allocating pinned memory", DRIVER_OUT_OF_MEMORY);
		return false;
	}
	reader->stage_bytes = bytes;
	return true;
}

/* How a buffer is divided for copying. */
struct pieces {
	size_t all_bytes;
	size_t bytes; /* of each piece but the last */
	uint32_t count;
	uint32_t stage_count;
};

static size_t bytes_of(const struct pieces *pieces, uint32_t piece)
{
	size_t left = pieces->all_bytes - piece * pieces->bytes;

	return left < pieces->bytes ? left : pieces->bytes;
}

static int queue_copy(const struct reading *reading, const struct pieces *pieces, uint32_t piece)
{
	uint32_t stage = piece % pieces->stage_count;

	return driver.cuMemcpyDtoHAsync(reading->reader->stages[stage],
					reading->launch->buffer->address + piece * pieces->bytes,
					bytes_of(pieces, piece), reading->streams[stage]);
}

/* A buffer that was cleared for another layout is zeroed completely. */
static void queue_clearing(struct reading *reading, void *stream)
{
	struct buffer *buffer = reading->launch->buffer;

	if (buffer_clear_is_for(buffer, reading->layout)) {
		reading->is_cleared = buffer_clear_headers(buffer, reading->layout, stream);
		buffer->shape = buffer_clear_shape(reading->layout);
	} else {
		reading->is_cleared = buffer_clear_all(buffer, stream);
		buffer->shape = (struct shape){0};
	}
}

/* Waits for a piece and decodes it while the next one is copied or the buffer is cleared. */
static bool read_piece(struct reading *reading, const struct pieces *pieces, uint32_t piece)
{
	uint32_t stage = piece % pieces->stage_count;
	int result = 0;

	while (result == 0 && reading->queued < pieces->count &&
	       reading->queued < piece + pieces->stage_count)
		result = queue_copy(reading, pieces, reading->queued++);
	if (result == 0)
		result = driver.cuStreamSynchronize(reading->streams[stage]);
	if (result) {
		fail_launch("copying", result);
		return false;
	}
	/* At most the last copy is still running; clearing follows it on its stream. */
	if (reading->queued == pieces->count && !reading->is_cleared)
		queue_clearing(reading,
			       reading->streams[(pieces->count - 1) % pieces->stage_count]);
	if (decode_piece(reading, reading->reader->stages[stage], bytes_of(pieces, piece)))
		return true;
	fail_launch("allocating memory to decode", DRIVER_OUT_OF_MEMORY);
	return false;
}

/* Copies and decodes the launch's buffer into the totals and the trace builder. */
static bool read_bytes(struct reading *reading)
{
	struct launch_reader *reader = reading->reader;
	size_t cta_bytes = reading->layout->cta_bytes;
	struct pieces pieces = {.all_bytes = reading->launch->used_bytes / cta_bytes * cta_bytes};
	bool is_ok = get_stages(reader, cta_bytes);

	if (!is_ok)
		return false;
	pieces.bytes = reader->stage_bytes / cta_bytes * cta_bytes;
	pieces.count = (uint32_t)((pieces.all_bytes + pieces.bytes - 1) / pieces.bytes);
	pieces.stage_count = reader->stages[1] ? READER_STAGES : 1;
	role_reading_begin(&reader->warps, &reading->history->roles, pieces.all_bytes / cta_bytes);
	for (uint32_t piece = 0; is_ok && piece < pieces.count; piece++)
		is_ok = read_piece(reading, &pieces, piece);
	return is_ok;
}

/* Adds the slices to the traces, if they have space, in queue order. */
static void add_to_traces(struct reading *reading, uint64_t after_ns)
{
	struct launch *launch = reading->launch;
	struct kernel *kernel = launch->kernel;
	struct trace_builder *builder = &reading->reader->builder;
	int64_t offset_ns;

	commit_await(launch);
	offset_ns = device_clock_offset(reading->clock, launch->before_ns, after_ns, builder);
	if (!loss_has_space(kernel, builder->unit_count + builder->event_count))
		atomic_fetch_add_explicit(&kernel->untraced, 1, memory_order_relaxed);
	else if (!trace_builder_commit(builder, &reading->reader->totals, reading->clock->device,
				       offset_ns, &launch->event))
		fail_launch("allocating memory for trace events", DRIVER_OUT_OF_MEMORY);
}

/* Adds the launch to the running totals, which are reported to the profile. */
static void add_to_totals(struct reading *reading)
{
	struct launch_reader *reader = reading->reader;
	struct kernel_history *history = reading->history;
	const struct decode_totals *totals = &reader->decoder.totals;
	bool is_ok = true;

	if (totals->units)
		record_intra_launch(history->where, reading->clock->device);
	pthread_mutex_lock(&history->lock);
	if (totals->units)
		is_ok = context_totals_add(&history->totals, &reader->totals, totals->units,
					   devices_get(reading->clock->device));
	role_reading_commit(&reader->warps, totals->ctas);
	pthread_mutex_unlock(&history->lock);
	if (!is_ok)
		fail_launch("allocating memory for totals", DRIVER_OUT_OF_MEMORY);
}

static void add_to_profile(struct reading *reading, uint64_t after_ns)
{
	add_to_totals(reading);
	if (reading->wants_trace)
		add_to_traces(reading, after_ns);
	launch_totals_reset(&reading->reader->totals);
	/* relaxed, like the load in read_launch(): only the number matters */
	atomic_store_explicit(&reading->clock->clock_mhz, reading->clock_mhz, memory_order_relaxed);
	loss_add(reading->launch->kernel, &reading->reader->decoder.totals);
	record_price_add(reading->launch->kernel, &reading->reader->decoder.totals,
			 reading->unit_cycles, reading->clock->overhead);
}

static const char *arch_of(const struct device_clock *clock)
{
	const struct device *device = devices_get(clock->device);

	return device ? device->arch : "";
}

static bool read_launch(struct reading *reading, uint64_t after_ns)
{
	struct launch *launch = reading->launch;
	struct launch_reader *reader = reading->reader;
	bool is_ok = false;

	reading->layout = &launch->kernel->layout;
	reading->clock_mhz = atomic_load_explicit(&reading->clock->clock_mhz, memory_order_relaxed);
	reading->wants_trace = launch->is_traced;
	decoder_begin(&reader->decoder, reading->layout, reading->clock->overhead);
	reader->decoder.timer_khz = reading->clock->timer_khz;
	reader->builder.arch = arch_of(reading->clock);
	reading->history = kernel_history_of(launch->kernel, launch->where);
	if (!reading->history ||
	    !launch_totals_begin(&reader->totals, launch->kernel, launch->where))
		fail_launch("allocating memory for totals", DRIVER_OUT_OF_MEMORY);
	else
		is_ok = read_bytes(reading);
	if (is_ok)
		add_to_profile(reading, after_ns);
	reader->builder.unit_count = 0;
	reader->builder.event_count = 0;
	return is_ok;
}

/* By device clock; NULL if one cannot be created. */
static void **streams_of(struct launch_reader *reader, const struct device_clock *clock)
{
	void **streams = reader->streams[clock->index];

	for (uint32_t i = 0; i < READER_STAGES; i++)
		if (!streams[i] &&
		    driver.cuStreamCreate(&streams[i], DRIVER_STREAM_NON_BLOCKING) != 0) {
			streams[i] = NULL;
			return NULL;
		}
	return streams;
}

/* Clears what a later launch could mistake for its own records. */
static bool clear_rest(struct reading *reading, bool is_read)
{
	struct buffer *buffer = reading->launch->buffer;
	bool is_ok = true;

	if (!is_read || !reading->is_cleared) {
		is_ok = buffer_clear_all(buffer, reading->streams[0]);
		buffer->shape = (struct shape){0};
	} else if (buffer->shape.cta_bytes && reading->reader->decoder.totals.dropped) {
		is_ok = buffer_clear_slack(buffer, reading->layout, reading->streams[0]);
	}
	for (uint32_t i = 0; i < READER_STAGES; i++)
		is_ok = driver.cuStreamSynchronize(reading->streams[i]) == 0 && is_ok;
	return is_ok;
}

/* The launch has ended and its context is current. False if the buffer cannot be reused. */
static bool read_and_clear(struct launch_reader *reader, struct launch *launch, uint64_t after_ns)
{
	struct device_clock *clock = device_clock_of(launch->buffer->context);
	struct reading reading = {.reader = reader, .launch = launch, .clock = clock};

	reading.streams = clock ? streams_of(reader, clock) : NULL;
	if (!reading.streams) {
		fail_launch("creating a stream", DRIVER_OUT_OF_MEMORY);
		return false;
	}
	return clear_rest(&reading, launch->kernel && read_launch(&reading, after_ns));
}

void launch_reader_read(struct launch_reader *reader, struct launch *launch)
{
	struct buffer *buffer = launch->buffer;
	void *popped;
	bool is_good = false;
	int result = driver.cuCtxPushCurrent(buffer->context);

	if (result == 0) {
		result = driver.cuEventSynchronize(buffer->event);
		if (result == 0)
			is_good = read_and_clear(reader, launch, clock_monotonic_ns());
		else
			fail_launch("waiting for the launch", result);
		driver.cuCtxPopCurrent(&popped);
	} else {
		fail_launch("entering its context", result);
	}
	commit_end(launch);
	if (is_good)
		device_buffers_give(buffer);
	else
		device_buffers_drop(buffer);
}

void launch_reader_read_graph(struct launch_reader *reader, struct launch *launch)
{
	int mode = driver_enter();
	void *popped;

	if (driver.cuCtxPushCurrent(launch->buffer->context) == 0) {
		/* Fails during a capture; the next flush tries again. */
		commit_take(launch);
		if (driver.cuCtxSynchronize() == 0)
			read_and_clear(reader, launch, clock_monotonic_ns());
		commit_end(launch);
		driver.cuCtxPopCurrent(&popped);
	}
	driver_leave(mode);
}

void launch_reader_fini(struct launch_reader *reader)
{
	void *context;
	void *popped;

	for (uint32_t i = 0; (context = device_clock_context(i)); i++) {
		if (driver.cuCtxPushCurrent(context) != 0)
			continue;
		for (uint32_t j = 0; j < READER_STAGES; j++)
			if (reader->streams[i][j])
				driver.cuStreamDestroy(reader->streams[i][j]);
		free_stages(reader);
		driver.cuCtxPopCurrent(&popped);
	}
	decoder_fini(&reader->decoder);
	launch_totals_fini(&reader->totals);
	trace_builder_fini(&reader->builder);
	role_reading_fini(&reader->warps);
	*reader = (struct launch_reader){0};
}
