/* Record decoder: records written by hand, and the executions decoded from them. */
#include "unit/intra/decoding.h"

TEST(nothing_ran)
{
	make(RING, 16, (struct decode_overhead){0});
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 0);
	CHECK_U64(decoder.totals.lost_ctas, 1);
	CHECK_U64(decoder.totals.ctas, 0);
	CHECK_U64(decoder.totals.lost_units, 0);
	done();
}

TEST(scopes_nest_by_time)
{
	make(RING, 16, (struct decode_overhead){0});
	header(0, 1000, 2000, 4);
	put(0, 0, 1100, A_START, 0);
	put(0, 1, 1200, B, 50);
	put(0, 2, 1300, B, 60);
	put(0, 3, 1400, A_END, 0);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 3);
	check_execution(0, 0, 1100, 300, DECODE_NONE);
	check_execution(1, 1, 1200, 50, 0);
	check_execution(2, 1, 1300, 60, 0);
	CHECK_U64(decoder.units[0].warp, 2);
	CHECK_U64(decoder.units[0].header.processor, 7);
	CHECK(!decoder.units[1].is_there);
	CHECK_U64(decoder.totals.lost_units, 1);
	CHECK_U64(decoder.totals.ctas, 1);
	CHECK_U64(decoder.totals.lost_ctas, 0);
	CHECK_U64(decoder.totals.dropped, 0);
	done();
}

/* Shared clock reads: the record made later belongs to the outer scope. */
TEST(equal_times_nest_by_record_order)
{
	make(RING, 16, (struct decode_overhead){0});
	header(1, 1000, 2000, 3);
	put(1, 0, 1100, B, 100);
	put(1, 1, 1100, A, 100);
	put(1, 2, 1200, B, 0);
	CHECK(decode_cta(&decoder, memory));
	check_execution(0, 0, 1100, 100, DECODE_NONE);
	check_execution(1, 1, 1100, 100, 0);
	check_execution(2, 1, 1200, 0, DECODE_NONE); /* after both */
	done();
}

TEST(overlap_is_not_nesting)
{
	make(RING, 16, (struct decode_overhead){0});
	header(0, 0, 2000, 4);
	put(0, 0, 100, A_START, 0);
	put(0, 1, 200, B_START, 0);
	put(0, 2, 300, A_END, 0);
	put(0, 3, 400, B_END, 0);
	CHECK(decode_cta(&decoder, memory));
	check_execution(0, 0, 100, 200, DECODE_NONE);
	check_execution(1, 1, 200, 200, DECODE_NONE);
	done();
}

/* A wrap without a group across the end: the slack area is empty or has older records. */
TEST(wrapped_ring_buffer_is_read_in_order)
{
	make(RING, 16, (struct decode_overhead){0});
	header(0, 0, 100000, 11); /* 0..2 are overwritten by 8..10 */
	for (uint32_t i = 0; i < 11; i++)
		put(0, i % 8, 1000 * (i + 1), A, i);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 8);
	for (uint32_t i = 0; i < 8; i++)
		check_execution(i, 0, 1000 * (i + 4), i + 3, DECODE_NONE);
	CHECK_U64(decoder.units[0].dropped, 3);
	CHECK_U64(decoder.totals.dropped_warp[2], 3);
	done();
}

/* Groups of 3 in a ring buffer of 8 with a slack area of 2: the third extends past the end. */
TEST(groups_extend_into_the_slack_area)
{
	for (uint32_t groups = 1; groups < 40; groups++) {
		uint32_t oldest = groups * 3 > 8 ? groups * 3 - 8 : 0;

		make(RING, 16, (struct decode_overhead){0});
		header(0, 0, 1000000, groups * 3);
		for (uint32_t g = 0; g < groups; g++)
			for (uint32_t i = 0; i < 3; i++)
				put(0, g * 3 % 8 + i, 1000 * (g * 3 + i + 1), A, g * 3 + i);
		CHECK(decode_cta(&decoder, memory));
		CHECK_U64(decoder.totals.damaged, 0);
		CHECK_U64(decoder.execution_count, groups * 3 - oldest);
		for (uint32_t i = 0; i < decoder.execution_count; i++)
			check_execution(i, 0, 1000 * (oldest + i + 1), oldest + i, DECODE_NONE);
		done();
	}
}

/* Data in shared memory from before the kernel is not taken for a record. */
TEST(group_longer_than_the_ring_buffer_with_one_clock_read)
{
	make(8, 8, (struct decode_overhead){0});
	header(0, 50, 400, 4);
	put(0, 0, 100, A_START, 0);
	put(0, 1, 100, B_START, 0); /* in the slack */
	decode_cta(&decoder, memory);
	CHECK_U64(decoder.totals.broken[0], 0);
	CHECK_U64(decoder.totals.broken[1], 1);
	done();
}

TEST(old_bytes_in_the_slack_area)
{
	make(RING, 16, (struct decode_overhead){0});
	header(0, 500000, 600000, 9);
	for (uint32_t i = 0; i < 9; i++)
		put(0, i % 8, 500000 + 1000 * (i + 1), A, i);
	put(0, 8, 499000, A, 77); /* of an earlier CTA */
	put(0, 9, 0x12345678, A, 77);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 8);
	check_execution(7, 0, 509000, 8, DECODE_NONE);
	done();
}

TEST(clock_wraps)
{
	uint64_t base = 0x5fffff000;

	make(RING, 16, (struct decode_overhead){0});
	header(0, base, base + 0x300000000, 4);
	put(0, 0, base + 0x100, A_START, 0);
	put(0, 1, base + 0x800, B, 0x1000); /* across the wrap */
	put(0, 2, base + 0xf0000000, B, 5);
	put(0, 3, base + 0x1d0000000, A_END, 0);
	CHECK(decode_cta(&decoder, memory));
	/* Gaps of 2^32 cycles and more are invisible: clocks get the shortest gaps. */
	CHECK_U64(decoder.execution_count, 3);
	CHECK_U64(decoder.executions[0].duration, 0x1d0000000 - 0x100);
	CHECK_U64(decoder.executions[1].duration, 0x1000);
	CHECK_U64(decoder.executions[2].start - decoder.executions[1].start, 0xf0000000 - 0x800);
	done();
}

TEST(clock_wraps_in_a_short_kernel)
{
	uint64_t base = 0x3ffffff00;

	make(RING, 16, (struct decode_overhead){0});
	header(0, base, base + 0x1000, 2);
	put(0, 0, base + 0x10, A_START, 0);
	put(0, 1, base + 0x810, A_END, 0);
	CHECK(decode_cta(&decoder, memory));
	check_execution(0, 0, base + 0x10, 0x800, DECODE_NONE);
	done();
}

TEST(longer_than_a_record_can_hold)
{
	make(RING, 16, (struct decode_overhead){0});
	header(0, 0, 0x3000000, 2);
	put(0, 0, 0x2800000, B, 10);
	put(0, 1, 100, A, INSTRUMENT_DURATION_MAX);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 2);
	CHECK(decoder.executions[0].is_partial);
	/* At least until the previous record was made, which belongs to its child. */
	check_execution(0, 0, 100, 0x2800000 + 10 - 100, DECODE_NONE);
	check_execution(1, 1, 0x2800000, 10, 0);
	done();
}

/* None of them has its end, and together they take longer than 32 bits of the clock. */
TEST(many_executions_longer_than_a_record_can_hold)
{
	uint64_t base = 0x123456789;
	uint64_t step = 0x28000000;

	make(RING, 0, (struct decode_overhead){0});
	header(0, base, base + 8 * step, 8);
	for (uint32_t i = 0; i < 8; i++)
		put(0, i, base + i * step, A, INSTRUMENT_DURATION_MAX);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 8);
	for (uint32_t i = 0; i < 8; i++)
		CHECK_U64(decoder.executions[i].start, base + i * step);
	done();
}

TEST(unpaired_records_are_counted)
{
	make(RING, 16, (struct decode_overhead){0});
	header(0, 0, 2000, 5);
	put(0, 0, 100, A_END, 0); /* no start */
	put(0, 1, 200, A_START, 0);
	put(0, 2, 300, A_START, 0); /* innermost first */
	put(0, 3, 400, A_END, 0);
	put(0, 4, 500, B_START, 0); /* no end */
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 1);
	check_execution(0, 0, 300, 100, DECODE_NONE);
	CHECK_U64(decoder.totals.broken[0], 2);
	CHECK_U64(decoder.totals.broken[1], 1);
	CHECK_U64(decoder.totals.cut_by_drop[0], 0);
	done();
}

TEST(corrupt_records_are_counted)
{
	make(RING, 16, (struct decode_overhead){0});
	header(0, 1000, 2000, 4);
	put(0, 0, 1100, A, 1);
	put(0, 1, 1200, (enum code)200, 1);
	put(0, 2, 5000, A, 1);               /* after the end */
	CHECK(decode_cta(&decoder, memory)); /* the last one is all 0 */
	CHECK_U64(decoder.execution_count, 1);
	CHECK_U64(decoder.totals.damaged, 3);
	done();
}

/* Up to eight units, each with space for `records`, which event() adds. */
static void make_events(uint32_t units, uint32_t records)
{
	make_units(units, records * 8, 0, (struct decode_overhead){0});
	for (uint32_t u = 0; u < units; u++)
		header(u, 0, 1000000, 0);
}

static void event(uint32_t unit, uint64_t clock, enum code code)
{
	struct instrument_unit_header it;

	memcpy(&it, memory + layout_header_at(&layout, unit), sizeof(it));
	put(unit, it.count++ % (layout.ring_bytes / 8), clock, code, 0);
	memcpy(memory + layout_header_at(&layout, unit), &it, sizeof(it));
}

static void check_event(size_t at, uint32_t unit, uint64_t start, uint32_t end_unit, uint64_t end)
{
	check_execution(at, 2, start, end - start, DECODE_NONE);
	CHECK(decoder.executions[at].is_async);
	CHECK_U64(decoder.executions[at].unit, unit);
	CHECK_U64(decoder.executions[at].end_unit, end_unit);
}

static void check_totals(size_t executions, uint64_t broken, uint64_t cut)
{
	CHECK_U64(decoder.execution_count, executions);
	CHECK_U64(decoder.totals.broken[2], broken);
	CHECK_U64(decoder.totals.cut_by_drop[2], cut);
}

/* Its own unit first, then what others have left. */
TEST(events_pair_across_units)
{
	make_events(2, 8);
	event(0, 100, E_START);
	event(0, 200, E_START);
	event(0, 1000, E_END); /* its own oldest: 100 */
	event(1, 300, E_START);
	event(1, 500, E_END);  /* its own: 300 */
	event(1, 1500, E_END); /* the other's: 200 */
	event(1, 1600, E_END); /* unpaired */
	CHECK(decode_cta(&decoder, memory));
	check_totals(3, 1, 0);
	check_event(0, 0, 100, 0, 1000);
	check_event(1, 0, 200, 1, 1500);
	check_event(2, 1, 300, 1, 500);
	done();
}

TEST(an_end_before_the_first_start_leaves_the_start_for_the_next_end)
{
	make_events(2, 8);
	event(0, 50, E_END);
	event(0, 100, E_START);
	event(0, 200, E_END);
	event(1, 150, E_END);
	CHECK(decode_cta(&decoder, memory));
	check_totals(1, 2, 0);
	check_event(0, 0, 100, 0, 200);
	done();
}

TEST(events_of_two_scopes_are_apart)
{
	make_events(2, 8);
	layout_scope(&layout, "f", 1);
	layout_code(&layout, 3, INSTRUMENT_EVENT_START);
	layout_code(&layout, 3, INSTRUMENT_EVENT_END);
	event(0, 100, E_START);
	event(0, 150, E_END + 1);
	event(1, 200, E_END);
	event(1, 300, E_END + 2);
	event(1, 400, E_END + 2);
	CHECK(decode_cta(&decoder, memory));
	check_totals(2, 0, 0);
	CHECK_U64(decoder.totals.broken[3], 1);
	check_event(0, 0, 100, 1, 200);
	check_execution(1, 3, 150, 150, DECODE_NONE);
	done();
}

/* The producer is two copies ahead; four warps see each copy, in varying order. */
static void simulate_copies(uint32_t copies)
{
	for (uint32_t k = 0; k < copies; k++) {
		event(4, 1000 * k + 100, E_START);
		for (uint32_t u = 0; u < 4; u++)
			event(u, 1000 * (k + 2) + 500 + (u + k) % 4, E_END);
	}
}

TEST(an_end_that_four_warps_see)
{
	make_events(5, 8);
	simulate_copies(8);
	CHECK(decode_cta(&decoder, memory));
	CHECK(decode_cta(&decoder, memory)); /* the next CTA */
	check_totals(8, 0, 0);
	for (uint32_t k = 0; k < 8; k++)
		check_event(k, 4, 1000 * k + 100, (4 - k % 4) % 4, 1000 * (k + 2) + 500);
	CHECK_U64(decoder.late_end_count, 8 * 3);
	for (uint32_t i = 0; i < 8 * 3; i++) {
		CHECK_U64(decoder.late_ends[i].execution, i / 3);
		CHECK_U64(decoder.late_ends[i].clock, 1000 * (i / 3 + 2) + 500 + i % 3 + 1);
		CHECK_U64(decoder.late_ends[i].unit, (4 - i / 3 % 4 + i % 3 + 1) % 4);
	}
	done();
}

/* The producer's first four starts are overwritten; the consumers' ends are complete. */
TEST(events_with_overwritten_starts)
{
	make_events(5, 8);
	simulate_copies(8);
	for (uint32_t i = 0; i < 4; i++)
		event(4, 20000 + i, A);
	CHECK(decode_cta(&decoder, memory));
	check_totals(4 + 4, 0, 4 * 4);
	for (uint32_t k = 4; k < 8; k++)
		check_event(k, 4, 1000 * k + 100, (4 - k % 4) % 4, 1000 * (k + 2) + 500);
	CHECK_U64(decoder.units[4].dropped, 4);
	done();
}

/* The reverse: the consumers have made other records since. */
TEST(events_with_overwritten_ends)
{
	make_events(2, 8);
	for (uint32_t k = 0; k < 4; k++) {
		event(0, 1000 * k + 100, E_START);
		event(1, 1000 * k + 500, E_END);
	}
	for (uint32_t i = 0; i < 5; i++) /* the first end is overwritten */
		event(1, 20000 + 10 * i, A);
	CHECK(decode_cta(&decoder, memory));
	check_totals(5 + 3, 0, 1);
	for (uint32_t k = 1; k < 4; k++)
		check_event(5 + k - 1, 0, 1000 * k + 100, 1, 1000 * k + 500);
	done();

	make_events(2, 8);
	event(0, 100, E_START);
	event(1, 500, E_END);
	for (uint32_t i = 0; i < 8; i++) /* complete */
		event(1, 20000 + 10 * i, A);
	CHECK(decode_cta(&decoder, memory));
	check_totals(8, 0, 1);
	done();
}

/* Four warps each start a part of what one warp waits for. */
TEST(starts_of_four_warps_with_one_end)
{
	make_events(5, 8);
	for (uint32_t k = 0; k < 3; k++) {
		for (uint32_t u = 0; u < 4; u++)
			event(u, 1000 * k + 100 + u, E_START);
		event(4, 1000 * (k + 1) + 500, E_END);
	}
	CHECK(decode_cta(&decoder, memory));
	check_totals(12, 0, 0);
	CHECK_U64(decoder.late_end_count, 0);
	for (uint32_t k = 0; k < 3; k++)
		for (uint32_t u = 0; u < 4; u++)
			check_event(4 * k + u, u, 1000 * k + 100 + u, 4, 1000 * (k + 1) + 500);
	done();
}

TEST(four_warps_start_and_four_others_end)
{
	make_events(8, 8);
	for (uint32_t k = 0; k < 3; k++)
		for (uint32_t u = 0; u < 4; u++) {
			event(u, 1000 * k + 100 + u, E_START);
			event(4 + u, 1000 * (k + 1) + 500 - u, E_END);
		}
	CHECK(decode_cta(&decoder, memory));
	check_totals(12, 0, 0);
	for (uint32_t k = 0; k < 3; k++)
		for (uint32_t u = 0; u < 4; u++)
			check_event(4 * k + u, u, 1000 * k + 100 + u, 4 + u,
				    1000 * (k + 1) + 500 - u);
	done();
}

/* All warps do the same: each ends what it started, although others started earlier. */
TEST(warps_that_start_and_end)
{
	make_events(4, 8);
	for (uint32_t u = 0; u < 4; u++) {
		event(u, 100 + u, E_START);
		event(u, 200 + u, E_START);
		event(u, 1000 - 10 * u, E_END);
		event(u, 2000 - 10 * u, E_END);
	}
	CHECK(decode_cta(&decoder, memory));
	check_totals(8, 0, 0);
	for (uint32_t u = 0; u < 4; u++) {
		check_event(u, u, 100 + u, u, 1000 - 10 * u);
		check_event(4 + u, u, 200 + u, u, 2000 - 10 * u);
	}
	done();
}

TEST(more_ends_than_starts_and_ends_that_are_early)
{
	make_events(3, 8);
	event(0, 100, E_START);
	event(0, 1000, E_START);
	event(1, 500, E_END);
	event(1, 900, E_END); /* before its start */
	event(1, 1500, E_END);
	event(2, 1100, E_END);
	event(2, 1200, E_END); /* only this unit recorded the second event's end */
	CHECK(decode_cta(&decoder, memory));
	check_totals(2, 2, 0);
	check_event(0, 0, 100, 1, 500);
	check_event(1, 0, 1000, 2, 1200);
	done();
}

TEST(ends_or_starts_alone)
{
	make_events(3, 8);
	event(0, 100, E_START);
	event(1, 200, E_START);
	CHECK(decode_cta(&decoder, memory));
	check_totals(0, 2, 0);
	done();

	make_events(3, 8);
	event(0, 100, E_END);
	event(1, 200, E_END);
	event(2, 200, A);
	CHECK(decode_cta(&decoder, memory));
	check_totals(1, 2, 0);
	done();
}

/* Random events, also wrapped ring buffers: nothing is lost, and nothing ends early. */
TEST(events_at_random)
{
	uint32_t state = 1;

	for (int round = 0; round < 2000; round++) {
		uint32_t units = 1 + round % 8;
		uint32_t made = (uint32_t)round % 90;
		uint64_t clock = 1;
		uint32_t kept = 0;

		make_events(units, 8);
		for (uint32_t i = 0; i < made; i++) {
			state = state * 1664525 + 1013904223;
			clock += state >> 8 & 1;
			event((state >> 16) % units, clock, state >> 24 & 1 ? E_START : E_END);
		}
		CHECK(decode_cta(&decoder, memory));
		for (uint32_t u = 0; u < units; u++)
			kept += decoder.units[u].header.count - decoder.units[u].dropped;
		CHECK_LE(decoder.execution_count + decoder.totals.broken[2] +
				 decoder.totals.cut_by_drop[2],
			 kept);
		for (size_t i = 0; i < decoder.execution_count; i++) {
			CHECK_LE(decoder.executions[i].duration, clock);
			CHECK_LE(i ? decoder.executions[i - 1].start : 0,
				 decoder.executions[i].start);
		}
		for (size_t i = 0; i < decoder.late_end_count; i++) {
			const struct decode_execution *it =
				&decoder.executions[decoder.late_ends[i].execution];

			CHECK_LE(it->start + it->duration, decoder.late_ends[i].clock);
		}
		done();
	}
}

#define CYCLES(n) ((int32_t)((n)*DECODE_CYCLE))

TEST(record_overhead_is_subtracted)
{
	make(RING, 16, (struct decode_overhead){.empty = CYCLES(10), .scope = CYCLES(25)});
	header(0, 0, 10000, 4);
	put(0, 0, 1000, A_START, 0);
	put(0, 1, 1100, B, 110);
	put(0, 2, 1300, B, 110);
	put(0, 3, 2060, A_END, 0);
	CHECK(decode_cta(&decoder, memory));
	check_execution(0, 0, 1000, 1060 - 10 - 50, DECODE_NONE);
	/* Earlier overhead: its own start's clock read, and all of the first scope's. */
	check_execution(1, 1, 1090, 100, 0);
	check_execution(2, 1, 1265, 100, 0);
	done();
}

/* Adjacent scopes share a clock read: the first one's record is made inside the second. */
TEST(record_overhead_of_adjacent_scopes)
{
	make(RING, 16, (struct decode_overhead){.empty = CYCLES(10), .scope = CYCLES(25)});
	header(0, 0, 10000, 4);
	put(0, 0, 1000, B, 110);
	put(0, 1, 1110, B, 115);
	put(0, 2, 1225, B, 115);
	put(0, 3, 1000, A, 340);
	CHECK(decode_cta(&decoder, memory));
	check_execution(0, 0, 1000, 300, DECODE_NONE);
	check_execution(1, 1, 1000, 100, 0);
	check_execution(2, 1, 1100, 100, 0);
	check_execution(3, 1, 1200, 100, 0);
	done();
}

/* A tenth of a cycle is nothing for one record, but a hundred cycles for a thousand. */
TEST(fractions_of_cycles_add_up)
{
	enum {
		COUNT = 100
	};
	uint64_t clock = 1000;

	make(4096, 16, (struct decode_overhead){.empty = CYCLES(2.25), .scope = CYCLES(13.5)});
	header(0, 0, 100000, COUNT + 2);
	put(0, 0, clock, A_START, 0);
	for (uint32_t i = 0; i < COUNT; i++) {
		/* its own 20, 3 after it, and the overhead in whole cycles */
		put(0, i + 1, clock + 2, B, i % 4 ? 22 : 23);
		clock += 36 + i % 2;
	}
	put(0, COUNT + 1, clock + 2, A_END, 0);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, COUNT + 1);
	CHECK_U64(decoder.executions[0].duration, COUNT * 23);
	for (uint32_t i = 1; i <= COUNT; i++) {
		CHECK_LE(19, decoder.executions[i].duration);
		CHECK_LE(decoder.executions[i].duration, 21);
	}
	done();
}

/* The ends of a deep nest are in the opposite order of its starts. */
TEST(record_overhead_of_a_deep_nest)
{
	enum {
		DEPTH = 64
	};

	make(4096, 16, (struct decode_overhead){.empty = CYCLES(10), .scope = CYCLES(25)});
	header(0, 0, 100000, DEPTH);
	/* 10 cycles of work, then a clock read of 10; between two ends a record takes 5 too. */
	for (uint32_t i = 0; i < DEPTH; i++) {
		uint32_t level = DEPTH - 1 - i; /* the innermost ends first */
		uint64_t start = 1000 + 20 * level;
		uint64_t end = 1000 + 20 * DEPTH + 25 * i;

		put(0, i, start, i % 2 ? A : B, (uint32_t)(end - start));
	}
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, DEPTH);
	for (uint32_t level = 0; level < DEPTH; level++) {
		CHECK_U64(decoder.executions[level].start, 1000 + 10 * level);
		CHECK_U64(decoder.executions[level].duration, 10 * (2 * (DEPTH - level) - 1));
	}
	done();
}

/* Overhead is a mean: the rest that exceeds one scope is subtracted from the next. */
TEST(overhead_larger_than_a_scope_is_subtracted_later)
{
	enum {
		COUNT = 100
	};

	make(4096, 16, (struct decode_overhead){.empty = CYCLES(10), .scope = CYCLES(30)});
	header(0, 0, 100000, COUNT + 2);
	put(0, 0, 1000, A_START, 0);
	for (uint32_t i = 0; i < COUNT; i++)
		put(0, i + 1, 1000 + i * 30 + (i % 2 ? 12 : 8), B, i % 2 ? 12 : 8);
	put(0, COUNT + 1, 1000 + COUNT * 30 + 10, A_END, 0);
	CHECK(decode_cta(&decoder, memory));
	CHECK_LE(decoder.executions[0].duration, 4);
	for (uint32_t i = 1; i <= COUNT; i++)
		CHECK_LE(decoder.executions[i].duration, 2);
	done();
}

TEST(empty_scope_has_no_duration)
{
	make(RING, 16, (struct decode_overhead){.empty = CYCLES(10), .scope = CYCLES(25)});
	header(0, 0, 10000, 2);
	put(0, 0, 1000, A, 9);
	put(0, 1, 1000, A, 10);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.executions[0].duration, 0);
	CHECK_U64(decoder.executions[1].duration, 0);
	done();
}

TEST(the_clock_is_measured)
{
	make(RING, 16, (struct decode_overhead){0});
	header(0, 0, 100000, 0);
	header(1, 0, 1000, 0); /* too short for the timer */
	CHECK(decode_cta(&decoder, memory));
	CHECK(fabs(decode_mhz(&layout, &decoder.units[0], 1.0) - 2000) < 0.01);
	CHECK(fabs(decode_mhz(&layout, &decoder.units[1], 1980) - 1980) < 0.01);
	done();
}
