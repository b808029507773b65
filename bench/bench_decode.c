/*
 * What it costs to read instrumented kernels' buffers, on one thread and without a device. One
 * figure per line, "name<TAB>unit<TAB>value".
 *
 * usage: bench_decode [ROUNDS]
 *
 * The buffer is that of a matmul: 256 CTAs of 8 warps, each with 64 executions, as one record each
 * or as pairs of START and END, one shape with a scope around all others. Figures are the minimum
 * of ROUNDS (default 51) passes over the whole buffer, in nanoseconds of the thread's CPU time
 * per execution, because other work on the core only makes it slower: decoding alone, decoding and
 * adding up, and with the slices of a timeline.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/intra/launch_totals.h"
#include "backend/intra/trace_builder.h"
#include "measuring.h"

#define CTAS 256u
#define WARPS 8u
#define RECORDS 64u

enum shape {
	WHOLE,  /* "load" and "dot" in turn, a record each */
	NESTED, /* the same inside "k", a START and an END */
	PAIRS,  /* a START and an END each */
};

static const char *const shape_names[] = {
	[WHOLE] = "whole scopes",
	[NESTED] = "whole scopes in another",
	[PAIRS] = "starts and ends",
};

static struct kernel kernel;
static uint8_t *bytes;
static uint64_t execution_count;

static void make_layout(enum shape shape)
{
	static const char *const names[] = {"load", "dot", "k"};
	struct instrument_layout *layout = &kernel.layout;

	*layout = (struct instrument_layout){
		.unit_count = WARPS,
		.warps_per_unit = 1,
		.warp_count = WARPS,
		.ring_bytes = RECORDS * 2 * INSTRUMENT_RECORD_BYTES,
		.slack_bytes = 16,
		.cta_stride = 1,
	};
	for (uint8_t i = 0; i < WARPS; i++)
		layout->units[i] = i;
	layout->cta_bytes = (uint32_t)(layout_ring_at(layout, WARPS) + 127) & ~127u;
	for (uint32_t i = 0; i < 3; i++) {
		bool is_whole = shape != PAIRS && i < 2;

		layout_scope(layout, names[i], strlen(names[i]));
		layout_code(layout, i, is_whole ? INSTRUMENT_SCOPE : INSTRUMENT_START);
		layout_code(layout, i, is_whole ? INSTRUMENT_SCOPE : INSTRUMENT_END);
	}
}

struct writer {
	uint8_t *ring;
	uint32_t count;
	uint64_t clock;
};

static void put(struct writer *writer, uint64_t clock, uint32_t scope, enum instrument_kind kind,
		uint32_t duration)
{
	struct instrument_record record = {
		.clock = (uint32_t)clock,
		.word = layout_code(&kernel.layout, scope, kind) << 24 | duration,
	};

	memcpy(writer->ring + (size_t)writer->count++ * sizeof(record), &record, sizeof(record));
}

static void write_unit(enum shape shape, uint32_t cta, uint32_t unit)
{
	const struct instrument_layout *layout = &kernel.layout;
	uint8_t *at = bytes + (size_t)cta * layout->cta_bytes;
	struct writer writer = {at + layout_ring_at(layout, unit), 0, 0x1fff00000 + cta * 7919};
	struct instrument_unit_header header = {
		.magic = INSTRUMENT_MAGIC,
		.start_ns = 1000000,
		.start_clock = writer.clock,
	};

	if (shape == NESTED)
		put(&writer, writer.clock += 100, 2, INSTRUMENT_START, 0);
	for (uint32_t i = 0; i < RECORDS - (shape == NESTED); i++) {
		uint32_t duration = 200 + (cta * 31 + unit * 17 + i * 13) % 500;

		writer.clock += 60;
		if (shape == PAIRS) {
			put(&writer, writer.clock, i % 2, INSTRUMENT_START, 0);
			put(&writer, writer.clock + duration, i % 2, INSTRUMENT_END, 0);
		} else {
			put(&writer, writer.clock, i % 2, INSTRUMENT_SCOPE, duration);
		}
		writer.clock += duration;
	}
	if (shape == NESTED)
		put(&writer, writer.clock += 100, 2, INSTRUMENT_END, 0);
	header.count = writer.count;
	header.end_clock = writer.clock + 1000;
	header.end_ns = header.start_ns + (header.end_clock - header.start_clock) / 2;
	memcpy(at + layout_header_at(layout, unit), &header, sizeof(header));
}

static void make_buffer(enum shape shape)
{
	make_layout(shape);
	bytes = calloc(CTAS, kernel.layout.cta_bytes);
	if (!bytes)
		die("out of memory");
	for (uint32_t cta = 0; cta < CTAS; cta++)
		for (uint32_t unit = 0; unit < WARPS; unit++)
			write_unit(shape, cta, unit);
}

/* ------------------------------------------------------------------ measuring */

enum work {
	DECODE,
	TALLY,
	LANES,
};

static const char *const work_names[] = {
	[DECODE] = "decoding",
	[TALLY] = "decoding and adding up",
	[LANES] = "decoding, adding up and slices",
};

static struct launch_totals tally;

/* Other programs on the machine do not count. */
static uint64_t own_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static double pass_ns(enum work work, struct decode_overhead cost)
{
	static struct trace_builder lanes;
	struct decoder decoder;
	uint64_t begin_ns = own_ns();
	uint64_t end_ns;

	execution_count = 0;
	decoder_init(&decoder, &kernel.layout, cost);
	for (uint32_t cta = 0; cta < CTAS; cta++) {
		bool is_ok = decode_cta(&decoder, bytes + (size_t)cta * kernel.layout.cta_bytes);

		if (is_ok && work >= TALLY)
			is_ok = launch_totals_add(&tally, &decoder);
		if (is_ok && work == LANES)
			is_ok = trace_builder_add(&lanes, &decoder, &tally, cta, 1000);
		if (!is_ok)
			die("out of memory");
		execution_count += decoder.execution_count;
	}
	if (decoder.totals.damaged || decoder.totals.dropped || decoder.totals.lost_units)
		die("the decoder does not understand the buffer");
	decoder_fini(&decoder);
	end_ns = own_ns();
	lanes.unit_count = 0;
	lanes.event_count = 0;
	return (double)(end_ns - begin_ns) / (double)execution_count;
}

static void measure(enum shape shape, enum work work, struct decode_overhead cost, int rounds)
{
	double minimum = pass_ns(work, cost);

	for (int i = 1; i < rounds; i++) {
		double ns = pass_ns(work, cost);

		if (ns < minimum)
			minimum = ns;
	}
	printf("%s, %s%s\tns per execution\t%.3g\n", shape_names[shape], work_names[work],
	       cost.scope ? ", cost taken off" : "", minimum);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 51;
	const struct decode_overhead none = {0};
	const struct decode_overhead some = {.empty = 13 * DECODE_CYCLE,
					     .scope = 14 * DECODE_CYCLE};

	if (rounds < 1)
		die("ROUNDS is at least 1");
	for (enum shape shape = WHOLE; shape <= PAIRS; shape++) {
		make_buffer(shape);
		if (!launch_totals_begin(&tally, &kernel, (struct proton_context){0}))
			die("out of memory");
		measure(shape, DECODE, none, rounds);
		measure(shape, TALLY, none, rounds);
		measure(shape, TALLY, some, rounds);
		measure(shape, LANES, none, rounds);
		launch_totals_fini(&tally);
		layout_fini(&kernel.layout);
		free(bytes);
	}
	return 0;
}
