/* Decoder for the records of a CTA: headers, ring buffers, nesting and async events. */
#include "intra/decode/decoder.h"

#include "base/array.h"
#include "intra/decode/decode_parts.h"

/*
 * Rates of global timers. %globaltimer counts ns. LLVM's libc uses 100 MHz for all AMD GPUs with
 * s_memrealtime, and 25 to 100 MHz for later ones.
 */
#define NS_KHZ 1000000u
#define AMD_KHZ 100000u

void decoder_init(struct decoder *decoder, const struct instrument_layout *layout,
		  struct decode_overhead overhead)
{
	*decoder = (struct decoder){0};
	decoder_begin(decoder, layout, overhead);
}

void decoder_begin(struct decoder *decoder, const struct instrument_layout *layout,
		   struct decode_overhead overhead)
{
	decoder->layout = layout;
	decoder->overhead = overhead;
	decoder->timer_khz = layout->is_amd ? AMD_KHZ : NS_KHZ;
	decoder->totals = (struct decode_totals){0};
	decoder->execution_count = 0;
	decoder->event_count = 0;
}

void decoder_fini(struct decoder *decoder)
{
	FREE_ALL(decoder->executions, decoder->late_ends, decoder->sums, decoder->events,
		 decoder->event_lists, decoder->ends, decoder->readings);
	*decoder = (struct decoder){0};
}

/* ------------------------------------------------------------------ a CTA */

static uint64_t timer_ns(const struct decoder *decoder, uint64_t ticks)
{
	uint64_t khz = decoder->timer_khz;

	if (khz == NS_KHZ)
		return ticks;
	return ticks / khz * NS_KHZ + ticks % khz * NS_KHZ / khz;
}

static bool decode_records(struct decoder *decoder, const uint8_t *cta, uint8_t index)
{
	const struct instrument_layout *layout = decoder->layout;
	struct decode_unit *unit = &decoder->units[index];
	struct decode_totals *totals = &decoder->totals;
	struct decode_ring ring = {
		.layout = layout,
		.bytes = cta + layout_ring_at(layout, index),
		.capacity = layout->ring_bytes / INSTRUMENT_RECORD_BYTES,
		.slack = layout->slack_bytes / INSTRUMENT_RECORD_BYTES,
		.count = unit->header.count,
		.start_clock = unit->header.start_clock,
		.end_clock = unit->header.end_clock,
	};
	if (ring.count > ring.capacity)
		ring.first = ring.count - ring.capacity;
	unit->dropped = ring.first;
	totals->records += ring.count;
	totals->dropped += ring.first;
	totals->dropped_warp[unit->warp] += ring.first;
	if (!decode_ring_records(decoder, &ring, index))
		return false;
	if (!decode_execution_nesting(decoder, unit->first, &ring))
		return false;
	unit->count = (uint32_t)decoder->execution_count - unit->first;
	return !unit->count || (!decoder->overhead.empty && !decoder->overhead.scope) ||
	       decode_subtract_overhead(decoder, unit);
}

static bool decode_unit(struct decoder *decoder, const uint8_t *cta, uint8_t index)
{
	const struct instrument_layout *layout = decoder->layout;
	struct decode_unit *unit = &decoder->units[index];
	struct instrument_unit_header header;

	memcpy(&header, cta + layout_header_at(layout, index), sizeof(header));
	*unit = (struct decode_unit){.warp = layout->units[index],
				     .first = (uint32_t)decoder->execution_count};
	/* Otherwise the unit did not finish. */
	if (header.magic == INSTRUMENT_MAGIC && header.end_clock >= header.start_clock) {
		unit->is_there = true;
		unit->header = header;
		unit->header.start_ns = timer_ns(decoder, header.start_ns);
		unit->header.end_ns = timer_ns(decoder, header.end_ns);
		decoder->totals.units++;
	}
	if (layout->sum_count)
		return decode_unit_sums(decoder, index, cta + layout_ring_at(layout, index));
	return !unit->is_there || decode_records(decoder, cta, index);
}

bool decode_cta(struct decoder *decoder, const void *bytes)
{
	uint64_t units = decoder->totals.units;

	decoder->execution_count = 0;
	decoder->event_count = 0;
	decoder->late_end_count = 0;
	for (uint32_t i = 0; i < decoder->layout->unit_count; i++)
		if (!decode_unit(decoder, bytes, (uint8_t)i))
			return false;
	uint64_t there = decoder->totals.units - units;
	decoder->totals.ctas += there != 0;
	decoder->totals.lost_ctas += there == 0;
	decoder->totals.lost_units += there ? decoder->layout->unit_count - there : 0;
	return decode_async_events(decoder);
}

void decode_prefetch(const struct instrument_layout *layout, const void *bytes)
{
	const uint8_t *cta = bytes;

	for (uint32_t i = 0; i < layout->unit_count; i++) {
		const uint8_t *ring = cta + layout_ring_at(layout, i);

		__builtin_prefetch(cta + layout_header_at(layout, i));
		__builtin_prefetch(ring);
		__builtin_prefetch(ring + 64);
	}
}

double decode_mhz(const struct instrument_layout *layout, const struct decode_unit *unit,
		  double fallback_mhz)
{
	uint64_t cycles = unit->header.end_clock - unit->header.start_clock;
	double ns = unit->header.end_ns > unit->header.start_ns
			    ? (double)(unit->header.end_ns - unit->header.start_ns)
			    : 0;

	/* The global timer may advance in steps of 1.024 us; AMD's in steps of 10 or 40 ns. */
	return ns < (layout->is_amd ? 1000 : 10240) ? fallback_mhz : (double)cycles * 1000 / ns;
}
