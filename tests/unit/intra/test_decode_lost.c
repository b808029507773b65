/* Record decoder with overwritten or missing records: the remaining ones keep their parents. */
#include "unit/intra/decoding.h"

TEST(end_with_overwritten_start_is_a_partial_execution)
{
	make(16, 0, (struct decode_overhead){0});
	header(0, 0, 2000, 4);
	put(0, 0, 300, B, 1);
	put(0, 1, 400, A_END, 0);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 2);
	check_execution(0, 0, 300, 100, DECODE_NONE);
	check_execution(1, 1, 300, 1, 0);
	CHECK(decoder.executions[0].is_partial);
	CHECK(!decoder.executions[1].is_partial);
	CHECK_U64(decoder.totals.broken[0], 0);
	CHECK_U64(decoder.totals.cut_by_drop[0], 1);
	CHECK_U64(decoder.totals.partial[0], 1);
	done();
}

/* Two scopes were open before the oldest record, which ends a third one. */
TEST(partial_executions_nest)
{
	make(RING, 0, (struct decode_overhead){0});
	layout_scope(&layout, "outer", 5);
	layout_code(&layout, 3, INSTRUMENT_START);
	layout_code(&layout, 3, INSTRUMENT_END); /* the tenth */
	header(0, 0, 100000, 8 * 1000 + 5);
	put(0, 5, 1000, B_END, 0);
	put(0, 6, 1100, B_START, 0);
	put(0, 7, 1300, B_END, 0);
	put(0, 0, 1400, A_END, 0);
	put(0, 1, 1500, A_START, 0);
	put(0, 2, 1600, B, 50);
	put(0, 3, 1700, A_END, 0);
	put(0, 4, 1800, (enum code)10, 0);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 6);
	check_execution(0, 3, 1000, 800, DECODE_NONE);
	check_execution(1, 0, 1000, 400, 0);
	check_execution(2, 1, 1000, 0, 1); /* only its end is known */
	check_execution(3, 1, 1100, 200, 1);
	check_execution(4, 0, 1500, 200, 0);
	check_execution(5, 1, 1600, 50, 4);
	for (size_t i = 0; i < 6; i++)
		CHECK(decoder.executions[i].is_partial == (i < 3));
	CHECK_U64(decoder.units[0].count, 6);
	CHECK_U64(decoder.totals.partial[0] + decoder.totals.partial[1], 2);
	CHECK_U64(decoder.totals.partial[3], 1);
	done();
}

/* An END that was never started contains no known execution. */
TEST(a_second_end_without_a_start_is_not_a_partial_execution)
{
	make(32, 0, (struct decode_overhead){0});
	header(0, 0, 2000, 7);
	put(0, 3, 300, B, 1);
	put(0, 0, 400, A_START, 0);
	put(0, 1, 500, A_END, 0);
	put(0, 2, 600, A_END, 0);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 2);
	check_execution(0, 1, 300, 1, DECODE_NONE);
	check_execution(1, 0, 400, 100, DECODE_NONE);
	CHECK_U64(decoder.totals.broken[0], 1);
	CHECK_U64(decoder.totals.cut_by_drop[0] + decoder.totals.partial[0], 0);
	done();
}

/* One of two warps lost records: the tree of the other is complete. */
TEST(only_the_warp_that_lost_records_has_partial_executions)
{
	make(16, 0, (struct decode_overhead){0});
	header(0, 0, 2000, 2);
	put(0, 0, 100, A_START, 0);
	put(0, 1, 900, A_END, 0);
	header(1, 0, 2000, 3);
	put(1, 1, 800, B, 10);
	put(1, 0, 950, A_END, 0);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 3);
	check_execution(0, 0, 100, 800, DECODE_NONE);
	check_execution(1, 0, 800, 150, DECODE_NONE);
	check_execution(2, 1, 800, 10, 1);
	CHECK(!decoder.executions[0].is_partial);
	CHECK(decoder.executions[1].is_partial);
	done();
}

/* Overhead subtracted from a partial execution is also subtracted from its children. */
TEST(record_overhead_in_a_partial_execution)
{
	make(32, 0,
	     (struct decode_overhead){.empty = 10 * DECODE_CYCLE, .scope = 25 * DECODE_CYCLE});
	header(0, 0, 10000, 6);
	put(0, 2, 1000, B, 110);
	put(0, 3, 1200, B, 110);
	put(0, 0, 1400, B, 110);
	put(0, 1, 2060, A_END, 0);
	CHECK(decode_cta(&decoder, memory));
	check_execution(0, 0, 1000, 1060 - 3 * 25, DECODE_NONE);
	for (uint32_t i = 1; i < 4; i++) {
		CHECK_U64(decoder.executions[i].duration, 100);
		CHECK_U64(decoder.executions[i].parent, 0);
	}
	done();
}

/* Static nesting: `outer` is the innermost scope that is open at every start of `inner`. */
static void know(uint32_t inner, uint32_t outer, uint64_t around)
{
	struct instrument_nesting *nesting = layout_nesting(&layout);

	nesting[inner].is_known = true;
	nesting[inner].around.bits[0] = around;
	nesting[inner].parent = (uint16_t)outer;
}

#define NO_SCOPE INSTRUMENT_NO_SCOPE
#define IN_A 1u /* sets of scopes */
#define IN_B 2u

TEST(end_of_a_scope_that_cannot_have_been_open_is_unpaired)
{
	make(16, 0, (struct decode_overhead){0});
	know(0, NO_SCOPE, 0);
	know(1, NO_SCOPE, 0);
	header(0, 0, 2000, 3);
	put(0, 1, 300, B, 1);
	put(0, 0, 400, A_END, 0); /* b never runs inside a */
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 1);
	check_execution(0, 1, 300, 1, DECODE_NONE);
	CHECK_U64(decoder.totals.broken[0], 1);
	CHECK_U64(decoder.totals.cut_by_drop[0] + decoder.totals.partial[0], 0);
	done();
}

TEST(the_sixty_sixth_scope_can_have_been_open)
{
	uint32_t scope = 0;

	make(16, 0, (struct decode_overhead){0});
	while (scope < 65) {
		char name[8];

		scope = layout_scope(&layout, name,
				     (size_t)snprintf(name, sizeof(name), "s%u", scope));
	}
	layout_code(&layout, scope, INSTRUMENT_END);
	know(scope, NO_SCOPE, 0);
	know(1, NO_SCOPE, 0);
	layout.nesting[1].around.bits[1] = 2;
	header(0, 0, 2000, 3);
	put(0, 1, 300, B, 1);
	put(0, 0, 400, E_END + 1, 0);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 2);
	check_execution(0, 65, 300, 100, DECODE_NONE);
	check_execution(1, 1, 300, 1, 0);
	CHECK_U64(decoder.totals.partial[65], 1);
	done();
}

/* A scope that may contain itself may have been open twice. */
TEST(a_scope_in_itself_may_have_two_overwritten_starts)
{
	make(32, 0, (struct decode_overhead){0});
	know(0, NO_SCOPE, IN_A);
	header(0, 0, 2000, 8);
	put(0, 0, 300, A_START, 0);
	put(0, 1, 400, A_END, 0);
	put(0, 2, 500, A_END, 0);
	put(0, 3, 600, A_END, 0);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 3);
	check_execution(0, 0, 300, 300, DECODE_NONE);
	check_execution(1, 0, 300, 200, 0);
	check_execution(2, 0, 300, 100, 1);
	CHECK_U64(decoder.totals.partial[0], 2);
	done();
}

/* The kernel exited a on another path, and the start was overwritten. */
TEST(scope_without_records_contains_what_only_runs_in_it)
{
	make(16, 0, (struct decode_overhead){0});
	know(0, NO_SCOPE, 0);
	know(1, 0, IN_A);
	header(0, 0, 2000, 8);
	put(0, 0, 300, B, 10);
	put(0, 1, 400, B, 10);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 3);
	check_execution(0, 0, 300, 110, DECODE_NONE);
	check_execution(1, 1, 300, 10, 0);
	check_execution(2, 1, 400, 10, 0);
	CHECK(decoder.executions[0].is_partial);
	CHECK_U64(decoder.totals.partial[0], 1);
	CHECK_U64(decoder.totals.broken[0], 0);
	CHECK_U64(decoder.units[0].count, 3);
	done();
}

TEST(scope_without_records_contains_what_has_started_in_it)
{
	uint32_t other;

	make(16, 0, (struct decode_overhead){0});
	other = layout_scope(&layout, "other", 5);
	layout_code(&layout, other, INSTRUMENT_SCOPE);
	know(0, NO_SCOPE, 0);
	know(1, 0, IN_A);
	know(other, NO_SCOPE, IN_A);
	header(0, 0, 2000, 8);
	put(0, 0, 300, B, 10);
	put(0, 1, 305, E_END + 1, 95);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 3);
	check_execution(0, 0, 300, 100, DECODE_NONE);
	check_execution(1, 1, 300, 10, 0);
	check_execution(2, (uint16_t)other, 305, 95, 0);
	done();
}

TEST(scopes_without_any_record_nest)
{
	make(8, 0, (struct decode_overhead){0});
	layout_scope(&layout, "outermost", 9); /* the fourth */
	know(3, NO_SCOPE, 0);
	know(0, 3, 8);
	know(1, 0, 8 | IN_A);
	header(0, 0, 2000, 8);
	put(0, 0, 300, B, 10);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 3);
	check_execution(0, 3, 300, 10, DECODE_NONE);
	check_execution(1, 0, 300, 10, 0);
	check_execution(2, 1, 300, 10, 1);
	done();
}

/* Nothing was overwritten; scopes after the last b may have run outside a. */
TEST(a_start_without_an_end_lasts_until_what_only_runs_in_it)
{
	make(RING, 0, (struct decode_overhead){0});
	know(0, NO_SCOPE, 0);
	know(1, 0, IN_A);
	header(0, 0, 2000, 6);
	put(0, 0, 100, A_START, 0);
	put(0, 1, 200, B, 10);
	put(0, 2, 300, A_START, 0); /* here it ends */
	put(0, 3, 350, B, 20);
	put(0, 4, 400, A_END, 0);
	put(0, 5, 500, A_START, 0);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 4);
	check_execution(0, 0, 100, 110, DECODE_NONE);
	check_execution(1, 1, 200, 10, 0);
	check_execution(2, 0, 300, 100, DECODE_NONE);
	check_execution(3, 1, 350, 20, 2);
	CHECK(decoder.executions[0].is_partial);
	CHECK(!decoder.executions[2].is_partial);
	CHECK_U64(decoder.totals.broken[0], 2);
	CHECK_U64(decoder.totals.partial[0], 1);
	done();
}

/* Scopes that may run outside a stay where their records are. */
TEST(scope_with_several_possible_parents_gets_none)
{
	make(16, 0, (struct decode_overhead){0});
	know(0, NO_SCOPE, 0);
	know(1, NO_SCOPE, IN_A);
	header(0, 0, 2000, 8);
	put(0, 0, 300, B, 10);
	put(0, 1, 400, B, 10);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 2);
	check_execution(0, 1, 300, 10, DECODE_NONE);
	check_execution(1, 1, 400, 10, DECODE_NONE);
	done();
}
