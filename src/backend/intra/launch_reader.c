/* Launch reader: copies the buffer of a launch in pieces, and clears it. */
#include "backend/intra/launch_reader.h"

#include <pthread.h>
#include <string.h>

#include "backend/intra/device_buffers.h"
#include "backend/intra/loaded_kernels.h"
#include "backend/intra/loss_warnings.h"
#include "driver/driver.h"

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

bool launch_reader_enter(struct launch_reader *reader, const struct device_clock *clock)
{
	void **streams = reader->all_streams[clock->index];

	for (uint32_t i = 0; i < READER_STAGES; i++)
		if (!streams[i] &&
		    driver.cuStreamCreate(&streams[i], DRIVER_STREAM_NON_BLOCKING) != 0) {
			streams[i] = NULL;
			loss_of_launch("creating a stream", DRIVER_OUT_OF_MEMORY);
			return false;
		}
	reader->streams = streams;
	reader->is_cleared = false;
	return true;
}

/* ------------------------------------------------------------------ clearing */

static const void *get_zeros(void)
{
	const void *found;

	pthread_mutex_lock(&zeros_lock);
	if (!zeros) {
		if (driver.cuMemHostAlloc(&zeros, ZEROS_BYTES, DRIVER_HOST_PORTABLE) == 0)
			memset(zeros, 0, ZEROS_BYTES);
		else
			zeros = NULL;
	}
	found = zeros;
	pthread_mutex_unlock(&zeros_lock);
	return found;
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

bool launch_reader_read(struct launch_reader *reader, struct launch *launch)
{
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
		if (!launch_results_decode(&reader->results,
					   reader->stages[piece % pieces.stage_count],
					   bytes_of(&pieces, piece))) {
			loss_of_launch("allocating memory to decode", DRIVER_OUT_OF_MEMORY);
			return false;
		}
	}
	return true;
}

bool launch_reader_clear(struct launch_reader *reader, struct buffer *buffer, bool is_read)
{
	const struct decoder *decoder = &reader->results.decoder;
	bool is_ok = true;

	if (!is_read || !reader->is_cleared)
		is_ok = zero_all(buffer, reader->streams[0]);
	else if (buffer->shape.cta_bytes && decoder->totals.dropped)
		is_ok = zero_slack(buffer, decoder->layout, reader->streams[0]);
	for (uint32_t i = 0; i < READER_STAGES; i++)
		is_ok = driver.cuStreamSynchronize(reader->streams[i]) == 0 && is_ok;
	return is_ok;
}

void launch_reader_fini(struct launch_reader *reader)
{
	void *context;
	void *popped;

	for (uint32_t i = 0; (context = device_clock_context(i)); i++) {
		if (driver.cuCtxPushCurrent(context) != 0)
			continue;
		for (uint32_t j = 0; j < READER_STAGES; j++)
			if (reader->all_streams[i][j])
				driver.cuStreamDestroy(reader->all_streams[i][j]);
		free_stages(reader);
		driver.cuCtxPopCurrent(&popped);
	}
	launch_results_fini(&reader->results);
	*reader = (struct launch_reader){0};
}

void launch_reader_free_zeros(void)
{
	if (zeros)
		driver.cuMemFreeHost(zeros);
	zeros = NULL;
}

void launch_reader_forget(void)
{
	pthread_mutex_init(&zeros_lock, NULL);
	zeros = NULL;
}
