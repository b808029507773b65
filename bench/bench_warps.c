/*
 * Benchmark: warp analysis of a CTA next to decoding it: one consumer that waits for each of its
 * producer's copies, in as many warps as a kernel has.
 *
 *   bench_warps [RECORDS_PER_WARP]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "intra/decode/decoder.h"
#include "intra/warps/segments.h"

#define UNITS 8u
#define ROUNDS 500u

enum code {
	WAIT = 1,
	DOT,
	LOAD,
	COPY_START,
	COPY_END
};

static struct instrument_layout layout;
static uint8_t *cta;

static void add_scope(const char *name, enum instrument_kind kind)
{
	uint32_t scope = layout_scope(&layout, name, strlen(name));

	layout_code(&layout, scope, kind);
	if (kind == INSTRUMENT_EVENT_START)
		layout_code(&layout, scope, INSTRUMENT_EVENT_END);
}

static void put(uint32_t unit, uint32_t at, uint64_t clock, enum code code, uint32_t payload)
{
	struct instrument_record record = {(uint32_t)clock, (uint32_t)code << 24 | payload};

	memcpy(cta + layout_ring_at(&layout, unit) + (size_t)at * 8, &record, sizeof(record));
}

static void make(uint32_t records)
{
	uint64_t end = 1000 + (uint64_t)records * 300;

	layout = (struct instrument_layout){
		.unit_count = UNITS,
		.warps_per_unit = 1,
		.warp_count = UNITS,
		.cta_stride = 1,
		.ring_bytes = INSTRUMENT_RECORD_BYTES,
	};
	while (layout.ring_bytes < records * INSTRUMENT_RECORD_BYTES)
		layout.ring_bytes *= 2;
	for (uint8_t i = 0; i < UNITS; i++)
		layout.units[i] = i;
	layout.cta_bytes = (uint32_t)(layout_ring_at(&layout, UNITS) + 127) & ~127u;
	add_scope("wait_barrier@a.py:1", INSTRUMENT_SCOPE);
	add_scope("dot@a.py:2", INSTRUMENT_SCOPE);
	add_scope("load@a.py:3", INSTRUMENT_SCOPE);
	add_scope("copy", INSTRUMENT_EVENT_START);
	cta = calloc(1, layout.cta_bytes);
	for (uint32_t u = 0; cta && u < UNITS; u++) {
		struct instrument_unit_header header = {
			.magic = INSTRUMENT_MAGIC,
			.start_clock = 1000 + u,
			.end_clock = end + u,
			.end_ns = end / 2,
			.count = records / 3 * 3,
		};

		memcpy(cta + layout_header_at(&layout, u), &header, sizeof(header));
		for (uint32_t i = 0; i + 3 <= records; i += 3) {
			uint64_t at = 1000 + (uint64_t)i * 300 + u;

			/* Half of the warps load, half of them multiply. */
			put(u, i, at, WAIT, 400 + u);
			put(u, i + 1, at + 410 + u, u % 2 ? COPY_END : COPY_START, 0);
			put(u, i + 2, at + 450, u % 2 ? DOT : LOAD, 420);
		}
	}
}

int main(int argc, char **argv)
{
	uint32_t records = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 512;
	struct decoder decoder;
	struct warps warps = {0};
	struct warps_kinds kinds;
	struct warps_sums sums;
	uint64_t decode_ns = 0;
	uint64_t warps_ns = 0;

	if (records < 3 || records > 1u << 20)
		return 2;
	make(records);
	decoder_init(&decoder, &layout, (struct decode_overhead){0});
	warps_kinds_read(&layout, &kinds);
	if (!cta || !warps_sums_init(&sums, &layout))
		return 1;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t start = clock_monotonic_ns();
		uint64_t between;

		if (!decode_cta(&decoder, cta))
			return 1;
		between = clock_monotonic_ns();
		if (!warps_add(&warps, &decoder, &kinds, &sums))
			return 1;
		decode_ns += between - start;
		warps_ns += clock_monotonic_ns() - between;
	}
	printf("%u warps, %u records each: decoding a CTA %.1f us, its warps %.1f us\n", UNITS,
	       records, (double)decode_ns / ROUNDS / 1e3, (double)warps_ns / ROUNDS / 1e3);
	warps_sums_fini(&sums);
	warps_fini(&warps);
	decoder_fini(&decoder);
	layout_fini(&layout);
	free(cta);
	return 0;
}
