/* Launch reader: copies the buffer of a launch in pieces, decodes them, and clears it. */
#include "backend/intra/launch_reader.h"

#include "backend/intra/loaded_kernels.h"
#include "backend/intra/loss_warnings.h"
#include "base/array.h"
#include "base/mutex.h"
#include "driver/driver.h"
#include "record/sets/record_sessions.h"
#include "record/store/devices.h"

/*
 * Size of a piece that is copied at once. A normal launch has a few pieces, so decoding begins
 * early. A piece has whole CTAs, up to a limit.
 */
#define STAGE_BYTES ((size_t)1 << 20)
#define STAGE_BYTES_MAX ((size_t)16 << 20)
/* Pinned zeros as copy source; copies of more rows are split. */
#define ZEROS_BYTES ((size_t)256 << 10)

static pthread_mutex_t zeros_lock = PTHREAD_MUTEX_INITIALIZER;
static void *zeros;

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
		loss_of_launch("allocating pinned memory", DRIVER_OUT_OF_MEMORY);
		return false;
	}
	reader->stage_bytes = bytes;
	return true;
}

/* Gets the streams of the device of reader->clock. */
static bool get_streams(struct launch_reader *reader)
{
	void **streams = reader->all_streams[reader->clock->index];

	for (uint32_t i = 0; i < READER_STAGES; i++)
		if (!streams[i] &&
		    driver.cuStreamCreate(&streams[i], DRIVER_STREAM_NON_BLOCKING) != 0) {
			streams[i] = NULL;
			loss_of_launch("creating a stream", DRIVER_OUT_OF_MEMORY);
			return false;
		}
	reader->streams = streams;
	return true;
}

/* ------------------------------------------------------------------ clearing */

static const void *get_zeros(void)
{
	MUTEX_HOLD(&zeros_lock);
	if (!zeros) {
		if (driver.cuMemHostAlloc(&zeros, ZEROS_BYTES, DRIVER_HOST_PORTABLE) == 0)
			memset(zeros, 0, ZEROS_BYTES);
		else
			zeros = NULL;
	}
	return zeros;
}

/* Zeroes `width` bytes at `address` and at every `pitch` bytes after it. */
static bool zero_rows(uint64_t address, size_t pitch, size_t width, size_t rows, void *stream)
{
	struct driver_copy copy = {
		.from_kind = DRIVER_MEMORY_HOST,
		.from_host = get_zeros(),
		.from_pitch = width,
		.to_kind = DRIVER_MEMORY_DEVICE,
		.to_pitch = pitch,
		.width_bytes = width,
	};

	if (!copy.from_host || width > ZEROS_BYTES)
		return false;
	for (size_t row = 0; row < rows; row += copy.rows) {
		copy.rows = rows - row < ZEROS_BYTES / width ? rows - row : ZEROS_BYTES / width;
		copy.to_device = address + row * pitch;
		if (driver.cuMemcpy2DAsync(&copy, stream) != 0)
			return false;
	}
	return true;
}

/* The whole buffer, for launches with any layout. */
static bool zero_all(struct buffer *buffer, void *stream)
{
	buffer->shape = (struct shape){0};
	return driver.cuMemsetD8Async(buffer->address, 0, buffer->bytes, stream) == 0;
}

/*
 * Queues the clearing of the headers of the CTAs that the launch may have had. A buffer that was
 * cleared for another layout is zeroed completely.
 */
static bool zero_headers(struct buffer *buffer, const struct instrument_layout *layout,
			 void *stream)
{
	struct shape shape = {layout->unit_count, layout->ring_bytes, layout->slack_bytes,
			      layout->cta_bytes};
	bool is_same = memcmp(&buffer->shape, &shape, sizeof(shape)) == 0;

	if ((buffer->shape.cta_bytes && !is_same) ||
	    !zero_rows(buffer->address, layout->cta_bytes, layout_ring_at(layout, 0),
		       buffer->launch.used_bytes / layout->cta_bytes, stream))
		return zero_all(buffer, stream);
	buffer->shape = shape;
	return true;
}

/* And of the slack areas of their ring buffers. */
static bool zero_slack(struct buffer *buffer, const struct instrument_layout *layout, void *stream)
{
	bool is_ok = true;

	for (uint32_t unit = 0; is_ok && layout->slack_bytes && unit < layout->unit_count; unit++)
		is_ok = zero_rows(buffer->address + layout_ring_at(layout, unit) +
					  layout->ring_bytes,
				  layout->cta_bytes, layout->slack_bytes,
				  buffer->launch.used_bytes / layout->cta_bytes, stream);
	return is_ok || zero_all(buffer, stream);
}

/*
 * Clears what a later launch could mistake for its own records. `is_read`: all of the buffer was.
 * False if it cannot be reused.
 */
static bool clear_buffer(struct launch_reader *reader, struct buffer *buffer, bool is_read)
{
	const struct decoder *decoder = &reader->decoder;
	bool is_ok = true;

	if (!is_read || !reader->is_cleared)
		is_ok = zero_all(buffer, reader->streams[0]);
	else if (buffer->shape.cta_bytes && decoder->totals.dropped)
		is_ok = zero_slack(buffer, decoder->layout, reader->streams[0]);
	for (uint32_t i = 0; i < READER_STAGES; i++)
		is_ok = driver.cuStreamSynchronize(reader->streams[i]) == 0 && is_ok;
	return is_ok;
}

/* ------------------------------------------------------------------ decoding */

/* Begins the launch that it reads. False after a warning. */
static bool begin_decoding(struct launch_reader *reader)
{
	const struct launch *launch = reader->launch;
	const struct instrument_layout *layout = &launch->kernel->layout;
	const struct device_clock *clock = reader->clock;
	const struct device *device = devices_get(clock->device);

	reader->clock_mhz = atomic_load_explicit(&clock->clock_mhz, memory_order_relaxed);
	reader->next_slot = 0;
	decoder_begin(&reader->decoder, layout, clock->overhead);
	reader->decoder.timer_khz = clock->timer_khz;
	reader->builder.arch = device ? device->arch : "";
	reader->builder.unit_count = 0;
	reader->builder.event_count = 0;
	reader->history = kernel_history_of(launch->kernel, launch->where);
	if (!reader->history ||
	    !launch_totals_begin(&reader->totals, launch->kernel, launch->where)) {
		loss_of_launch("allocating memory for totals", DRIVER_OUT_OF_MEMORY);
		return false;
	}
	role_reading_begin(&reader->warps, &reader->history->roles,
			   launch->used_bytes / layout->cta_bytes);
	return true;
}

/*
 * Rates and times of the units of the CTA decoded last. Kernels that are too short to measure the
 * clock use the rate of longer ones.
 */
static void note_clocks(struct launch_reader *reader)
{
	const struct decoder *decoder = &reader->decoder;

	ARRAY_EACH(unit, decoder->units, decoder->layout->unit_count) {
		double mhz = unit->is_there ? decode_mhz(decoder->layout, unit, 0) : 0;

		if (mhz > 0)
			reader->clock_mhz = mhz;
	}
}

/* Decodes the whole CTAs in `bytes` bytes at `piece`, which follow the last ones. */
static bool decode_piece(struct launch_reader *reader, const char *piece, size_t bytes)
{
	struct decoder *decoder = &reader->decoder;
	const struct instrument_layout *layout = decoder->layout;

	for (size_t at = 0; at + layout->cta_bytes <= bytes; at += layout->cta_bytes) {
		uint32_t slot = reader->next_slot++;

		if (at + 3 * (size_t)layout->cta_bytes <= bytes)
			decode_prefetch(layout, piece + at + 2 * (size_t)layout->cta_bytes);
		if (!decode_cta(decoder, piece + at) ||
		    !launch_totals_add(&reader->totals, decoder) ||
		    !role_reading_add(&reader->warps, decoder, slot, piece + at))
			return false;
		note_clocks(reader);
		if (reader->launch->is_traced &&
		    !trace_builder_add(&reader->builder, decoder, &reader->totals,
				       slot * layout->cta_stride, reader->clock_mhz))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ copying */

/* How a buffer is divided for copying. */
struct pieces {
	uint64_t address;
	size_t all_bytes;
	size_t bytes; /* of each piece but the last */
	uint32_t count;
	uint32_t stage_count;
	uint32_t queued; /* pieces with a queued copy */
};

static size_t bytes_of(const struct pieces *pieces, uint32_t piece)
{
	size_t left = pieces->all_bytes - piece * pieces->bytes;

	return left < pieces->bytes ? left : pieces->bytes;
}

static int queue_copy(const struct launch_reader *reader, const struct pieces *pieces,
		      uint32_t piece)
{
	uint32_t stage = piece % pieces->stage_count;

	return driver.cuMemcpyDtoHAsync(reader->stages[stage],
					pieces->address + piece * pieces->bytes,
					bytes_of(pieces, piece), reader->streams[stage]);
}

/* Waits until a piece is on the host, after queuing the copy of the next one. */
static bool await_piece(const struct launch_reader *reader, struct pieces *pieces, uint32_t piece)
{
	int result = 0;

	while (result == 0 && pieces->queued < pieces->count &&
	       pieces->queued < piece + pieces->stage_count)
		result = queue_copy(reader, pieces, pieces->queued++);
	if (result == 0)
		result = driver.cuStreamSynchronize(reader->streams[piece % pieces->stage_count]);
	if (result)
		loss_of_launch("copying", result);
	return result == 0;
}

/* Copies and decodes the buffer of the launch. False after a warning. */
static bool read_buffer(struct launch_reader *reader)
{
	const struct launch *launch = reader->launch;
	const struct instrument_layout *layout = &launch->kernel->layout;
	size_t cta_bytes = layout->cta_bytes;
	struct pieces pieces = {
		.address = launch->buffer->address,
		.all_bytes = launch->used_bytes / cta_bytes * cta_bytes,
	};

	if (!get_stages(reader, cta_bytes))
		return false;
	pieces.bytes = reader->stage_bytes / cta_bytes * cta_bytes;
	pieces.count = (uint32_t)((pieces.all_bytes + pieces.bytes - 1) / pieces.bytes);
	pieces.stage_count = reader->stages[1] ? READER_STAGES : 1;
	for (uint32_t piece = 0; piece < pieces.count; piece++) {
		if (!await_piece(reader, &pieces, piece))
			return false;
		/* At most the last copy is still running; clearing follows it on its stream. */
		if (pieces.queued == pieces.count && !reader->is_cleared)
			reader->is_cleared = zero_headers(
				launch->buffer, layout,
				reader->streams[(pieces.count - 1) % pieces.stage_count]);
		if (!decode_piece(reader, reader->stages[piece % pieces.stage_count],
				  bytes_of(&pieces, piece))) {
			loss_of_launch("allocating memory to decode", DRIVER_OUT_OF_MEMORY);
			return false;
		}
	}
	return true;
}

/* ------------------------------------------------------------------ turns of traced launches */

/*
 * Launches of a kernel enter a trace in queue order, no matter which reader thread decodes them. So
 * which launches fit into a trace does not depend on the speed of threads. A launch waits only for
 * launches taken before it.
 */
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_is_over = PTHREAD_COND_INITIALIZER;

static bool has_turn(const struct launch *launch)
{
	return launch->kernel && launch->is_traced;
}

void launch_reader_take_turn(struct launch *launch)
{
	if (!has_turn(launch))
		return;
	MUTEX_HOLD(&turn_lock);
	launch->turn = launch->kernel->run.turns++;
}

/* Waits until the launches before it have ended their turns, and ends its own if `is_over`. */
static void await_turn(const struct launch *launch, bool is_over)
{
	MUTEX_HOLD(&turn_lock);
	while (launch->kernel->run.turns_ended != launch->turn)
		pthread_cond_wait(&turn_is_over, &turn_lock);
	if (is_over) {
		launch->kernel->run.turns_ended++;
		pthread_cond_broadcast(&turn_is_over);
	}
}

void launch_reader_end_turn(const struct launch *launch)
{
	if (has_turn(launch))
		await_turn(launch, true);
}

/* ------------------------------------------------------------------ adding */

/* All CTAs were decoded: adds the launch to the running totals, which are in the profile. */
static void add_totals(struct launch_reader *reader)
{
	struct kernel_history *history = reader->history;
	const struct decode_totals *totals = &reader->decoder.totals;
	uint32_t device = reader->clock->device;
	bool is_ok = true;

	if (totals->units)
		record_intra_launch(history->where, device);
	pthread_mutex_lock(&history->lock);
	if (totals->units)
		is_ok = kernel_history_add(history, &reader->totals, totals->units,
					   reader->launch->weight, devices_get(device));
	role_reading_commit(&reader->warps, totals->ctas);
	pthread_mutex_unlock(&history->lock);
	if (!is_ok)
		loss_of_launch("allocating memory for totals", DRIVER_OUT_OF_MEMORY);
	launch_totals_reset(&reader->totals);
	/* relaxed, like the load in begin_decoding(): only the number matters */
	atomic_store_explicit(&reader->clock->clock_mhz, reader->clock_mhz, memory_order_relaxed);
	loss_add(reader->launch->kernel, totals);
}

/* Adds its slices to the traces, if they have space. */
static void add_trace(struct launch_reader *reader, uint64_t after_ns)
{
	const struct launch *launch = reader->launch;
	struct trace_builder *builder = &reader->builder;
	int64_t offset_ns =
		device_clock_offset(reader->clock, launch->before_ns, after_ns, builder);

	if (!loss_has_space(launch->kernel, builder->unit_count + builder->event_count))
		loaded_kernels_omit(launch->kernel, OMITTED_UNTRACED);
	else if (!trace_builder_commit(builder, &reader->totals, reader->clock->device, offset_ns,
				       &launch->event))
		loss_of_launch("allocating memory for trace events", DRIVER_OUT_OF_MEMORY);
}

/* The first launch of a device also calibrates it, so it is not part of reading. */
bool launch_reader_read(struct launch_reader *reader, const struct launch *launch,
			uint64_t after_ns)
{
	reader->launch = launch;
	reader->is_cleared = false;
	reader->clock = device_clock_of(launch->buffer->context);
	if (!reader->clock)
		loss_of_launch("adding a device context", DRIVER_OUT_OF_MEMORY);
	if (!reader->clock || !get_streams(reader))
		return false;
	/* Without a kernel its records are not wanted. */
	bool is_read = launch->kernel && begin_decoding(reader) && read_buffer(reader);
	if (is_read)
		add_totals(reader);
	if (is_read && launch->is_traced) {
		await_turn(launch, false);
		add_trace(reader, after_ns);
	}
	return clear_buffer(reader, launch->buffer, is_read);
}

/* ------------------------------------------------------------------ end */

void launch_reader_fini(struct launch_reader *reader)
{
	void *context, *popped;

	for (uint32_t i = 0; (context = device_clock_context(i)); i++) {
		if (driver.cuCtxPushCurrent(context) != 0)
			continue;
		for (uint32_t j = 0; j < READER_STAGES; j++)
			if (reader->all_streams[i][j])
				driver.cuStreamDestroy(reader->all_streams[i][j]);
		free_stages(reader);
		if (zeros)
			driver.cuMemFreeHost(zeros);
		zeros = NULL;
		driver.cuCtxPopCurrent(&popped);
	}
	decoder_fini(&reader->decoder);
	launch_totals_fini(&reader->totals);
	trace_builder_fini(&reader->builder);
	role_reading_fini(&reader->warps);
	*reader = (struct launch_reader){0};
}

void launch_reader_forget(void)
{
	pthread_mutex_init(&zeros_lock, NULL);
	zeros = NULL;
	pthread_mutex_init(&turn_lock, NULL);
	pthread_cond_init(&turn_is_over, NULL);
}
