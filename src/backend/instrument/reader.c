/* Reading buffers. See reader.h. */
#include "backend/instrument/reader.h"

#include <stdatomic.h>

#include "backend/instrument/driver.h"
#include "backend/instrument/kernels.h"
#include "backend/instrument/report.h"
#include "backend/instrument/tally.h"
#include "base/clock.h"
#include "base/note.h"
#include "record/intra.h"

/* What is copied back at once; larger buffers come in pieces. */
#define STAGE_BYTES ((size_t)16 << 20)

static atomic_bool has_failed; /* said once */

/* One buffer that is being read. */
struct reading {
	struct reader *reader;
	struct buffer *buffer;
	struct place *place;
	void *stream;
	double clock_mhz;
	struct decoder decoder;
	struct tally *tally;
	uint32_t next_slot;
	bool wants_lanes;
};

static void fail(const char *call, int result)
{
	record_intra_count(INTRA_DAMAGED, 1);
	if (result == 4 ||
	    atomic_exchange(&has_failed, true)) /* 4: the driver is being shut down */
		return;
	note("records of an instrumented kernel cannot be read: %s failed (%d)", call, result);
}

void reader_start(void)
{
	atomic_store(&has_failed, false);
}

/* ------------------------------------------------------------------ one buffer */

/* For kernels that are too short to measure the clock, what longer ones have shown is best. */
static void note_clock(struct reading *reading)
{
	const struct decoder *decoder = &reading->decoder;

	for (uint32_t i = 0; i < decoder->layout->unit_count; i++) {
		const struct decode_unit *unit = &decoder->units[i];
		double mhz = unit->is_there ? decode_mhz(decoder->layout, unit, 0) : 0;

		if (mhz > 0)
			reading->clock_mhz = mhz;
	}
}

/* The whole CTAs in `bytes` bytes of the stage. */
static bool decode_piece(struct reading *reading, size_t bytes)
{
	const struct instrument_layout *layout = reading->decoder.layout;
	const char *stage = reading->reader->stage;

	for (size_t at = 0; at + layout->cta_bytes <= bytes; at += layout->cta_bytes) {
		uint32_t cta = reading->next_slot++ * layout->cta_stride;

		if (at + 3 * (size_t)layout->cta_bytes <= bytes)
			decode_prefetch(layout, stage + at + 2 * layout->cta_bytes);
		if (!decode_cta(&reading->decoder, stage + at) ||
		    !tally_add(reading->tally, &reading->decoder))
			return false;
		note_clock(reading);
		if (reading->wants_lanes && !lanes_add(&reading->reader->lanes, &reading->decoder,
						       reading->tally, cta, reading->clock_mhz))
			return false;
	}
	return true;
}

static int copy_piece(const struct reading *reading, size_t at, size_t bytes)
{
	int result = driver.cuMemcpyDtoHAsync_v2(
		reading->reader->stage, reading->buffer->address + at, bytes, reading->stream);

	return result ? result : driver.cuStreamSynchronize(reading->stream);
}

/* Copies and decodes the launch's buffer; what was found is in the tally and the lanes. */
static bool read_bytes(struct reading *reading)
{
	struct reader *reader = reading->reader;
	size_t cta_bytes = reading->decoder.layout->cta_bytes;
	size_t piece = STAGE_BYTES / cta_bytes * cta_bytes;
	size_t all = reading->buffer->used_bytes / cta_bytes * cta_bytes;

	if (!piece || (!reader->stage && driver.cuMemHostAlloc(&reader->stage, STAGE_BYTES,
							       DRIVER_HOST_PORTABLE) != 0)) {
		reader->stage = NULL;
		fail("cuMemHostAlloc", DRIVER_OUT_OF_MEMORY);
		return false;
	}
	for (size_t at = 0; at < all; at += piece) {
		size_t bytes = all - at < piece ? all - at : piece;
		int result = copy_piece(reading, at, bytes);

		if (result) {
			fail("copying", result);
			return false;
		}
		if (!decode_piece(reading, bytes)) {
			fail("decoding, for want of memory,", DRIVER_OUT_OF_MEMORY);
			return false;
		}
	}
	return true;
}

/* The slices go into the traces, if these have room. */
static void hand_on_lanes(struct reading *reading, uint64_t after_ns)
{
	struct kernel *kernel = reading->buffer->kernel;
	struct lanes *lanes = &reading->reader->lanes;
	int64_t offset_ns =
		places_offset(reading->place, reading->buffer->before_ns, after_ns, lanes);

	if (!report_has_room(kernel, lanes->unit_count + lanes->event_count))
		atomic_fetch_add_explicit(&kernel->untraced, 1, memory_order_relaxed);
	else if (!lanes_commit(lanes, reading->tally, reading->place->device, offset_ns,
			       &reading->buffer->launch))
		fail("keeping events, for want of memory,", DRIVER_OUT_OF_MEMORY);
}

static void hand_on(struct reading *reading, uint64_t after_ns)
{
	const struct decode_totals *totals = &reading->decoder.totals;

	tally_commit(reading->tally, totals->units, reading->place->device);
	if (reading->wants_lanes)
		hand_on_lanes(reading, after_ns);
	places_note_clock(reading->place, reading->clock_mhz);
	report_add(reading->buffer->kernel, totals);
}

static void *stream_of(struct reader *reader, const struct place *place)
{
	void **stream = &reader->streams[place->index];

	if (!*stream && driver.cuStreamCreate(stream, DRIVER_STREAM_NON_BLOCKING) != 0)
		*stream = NULL;
	return *stream;
}

/* The launch has ended and its context is current. False: the buffer cannot be used again. */
static bool collect(struct reader *reader, struct buffer *buffer, uint64_t after_ns)
{
	struct place *place = places_of(buffer->context);
	struct reading reading = {.reader = reader, .buffer = buffer, .place = place};

	reading.stream = place ? stream_of(reader, place) : NULL;
	if (!reading.stream) {
		fail("cuStreamCreate", DRIVER_OUT_OF_MEMORY);
		return false;
	}
	if (buffer->kernel) {
		reading.clock_mhz = places_clock(place);
		reading.tally = tally_of(buffer->kernel, buffer->where);
		reading.wants_lanes = buffer->is_kept;
		decoder_init(&reading.decoder, &buffer->kernel->layout, place->cost);
		if (reading.tally && read_bytes(&reading))
			hand_on(&reading, after_ns);
		reader->lanes.unit_count = 0;
		reader->lanes.event_count = 0;
		decoder_fini(&reading.decoder);
	}
	return driver.cuMemsetD8Async(buffer->address, 0, buffer->bytes, reading.stream) == 0 &&
	       driver.cuStreamSynchronize(reading.stream) == 0;
}

void reader_read(struct reader *reader, struct buffer *buffer)
{
	void *popped;
	bool is_good = false;
	int result = driver.cuCtxPushCurrent_v2(buffer->context);

	if (result == 0) {
		result = driver.cuEventSynchronize(buffer->event);
		if (result == 0)
			is_good = collect(reader, buffer, clock_monotonic_ns());
		else
			fail("cuEventSynchronize", result);
		driver.cuCtxPopCurrent_v2(&popped);
	} else {
		fail("cuCtxPushCurrent", result);
	}
	if (is_good)
		pool_give(buffer);
	else
		pool_drop(buffer);
}

void reader_read_graph(struct reader *reader, struct buffer *buffer)
{
	int mode = driver_enter();
	void *popped;

	if (driver.cuCtxPushCurrent_v2(buffer->context) == 0) {
		/* Refused while something is captured: then the next flush looks. */
		if (driver.cuCtxSynchronize() == 0)
			collect(reader, buffer, clock_monotonic_ns());
		driver.cuCtxPopCurrent_v2(&popped);
	}
	driver_leave(mode);
}

void reader_fini(struct reader *reader)
{
	void *context;
	void *popped;

	for (uint32_t i = 0; (context = places_context(i)); i++) {
		if (driver.cuCtxPushCurrent_v2(context) != 0)
			continue;
		if (reader->streams[i])
			driver.cuStreamDestroy_v2(reader->streams[i]);
		if (reader->stage)
			driver.cuMemFreeHost(reader->stage);
		reader->stage = NULL;
		driver.cuCtxPopCurrent_v2(&popped);
	}
	lanes_fini(&reader->lanes);
	*reader = (struct reader){0};
}
