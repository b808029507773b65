/* Building CTAs record by record, for tests of the decoder. */
#pragma once

#include "unit/tap.h"

#include "intra/decode/decoder.h"

#define RING 64u /* bytes: 8 records */

static struct instrument_layout layout;
static struct decoder decoder;
static uint8_t memory[65536];

/* Ring buffer and slack area as given. Scopes a and b with codes SCOPE, START, END; e: events. */
enum code {
	A = 1,
	A_START,
	A_END,
	B,
	B_START,
	B_END,
	E_START,
	E_END
};

static void make_units(uint32_t units, uint32_t ring_bytes, uint32_t slack_bytes,
		       struct decode_overhead cost)
{
	layout = (struct instrument_layout){
		.unit_count = units,
		.warps_per_unit = 1,
		.warp_count = 12,
		.ring_bytes = ring_bytes,
		.slack_bytes = slack_bytes,
		.cta_stride = 1,
		.units = {2, 5, 6, 7, 8, 9, 10, 11},
	};
	layout.cta_bytes = (uint32_t)(layout_ring_at(&layout, units) + 127) & ~127u;
	for (int s = 0; s < 2; s++) {
		uint32_t scope = layout_scope(&layout, s ? "b" : "a", 1);

		layout_code(&layout, scope, INSTRUMENT_SCOPE);
		layout_code(&layout, scope, INSTRUMENT_START);
		layout_code(&layout, scope, INSTRUMENT_END);
	}
	layout_scope(&layout, "e", 1);
	layout_code(&layout, 2, INSTRUMENT_EVENT_START);
	layout_code(&layout, 2, INSTRUMENT_EVENT_END);
	memset(memory, 0, sizeof(memory));
	decoder_init(&decoder, &layout, cost);
}

static inline void make(uint32_t ring_bytes, uint32_t slack_bytes, struct decode_overhead cost)
{
	make_units(2, ring_bytes, slack_bytes, cost);
}

static void header(uint32_t unit, uint64_t start_clock, uint64_t end_clock, uint32_t count)
{
	struct instrument_unit_header it = {
		.magic = INSTRUMENT_MAGIC,
		.processor = 7,
		.start_ns = 1000000,
		.end_ns = 1000000 + (end_clock - start_clock) / 2,
		.start_clock = start_clock,
		.end_clock = end_clock,
		.count = count,
		.finalize_cycles = 44,
	};

	memcpy(memory + layout_header_at(&layout, unit), &it, sizeof(it));
}

static inline void put(uint32_t unit, uint32_t index, uint64_t clock, enum code code,
		       uint32_t payload)
{
	struct instrument_record it = {(uint32_t)clock, (uint32_t)code << 24 | payload};

	memcpy(memory + layout_ring_at(&layout, unit) + index * 8, &it, sizeof(it));
}

static inline void check_execution(size_t at, uint16_t scope, uint64_t start, uint64_t duration,
				   uint32_t parent)
{
	CHECK(at < decoder.execution_count);
	CHECK_U64(decoder.executions[at].scope, scope);
	CHECK_U64(decoder.executions[at].start, start);
	CHECK_U64(decoder.executions[at].duration, duration);
	CHECK_U64(decoder.executions[at].parent, parent);
}

static void done(void)
{
	decoder_fini(&decoder);
	layout_fini(&layout);
}
