/* Decoder for sums: words written by hand, and the executions and cycles decoded from them. */
#include "unit/intra/decoding.h"

#include "intra/warps/segments.h"

static const char head[] = "proton-instrument 1\nvendor nvidia\nwarps 2\nwarps_per_unit 1\n"
			   "ring 64\nslack 0\ncta 256\ncta_stride 1\nunits 0 1\n"
			   "scope a\nscope b\n";

static void read_layout(const char *lines, struct decode_overhead cost)
{
	char text[1024];

	snprintf(text, sizeof(text), "%s%s", head, lines);
	CHECK_DONE(layout_read(text, strlen(text), &layout, &err));
	memset(memory, 0, sizeof(memory));
	decoder_init(&decoder, &layout, cost);
}

static void words(uint32_t unit, const uint32_t *values, size_t count)
{
	memcpy(memory + layout_ring_at(&layout, unit), values, count * sizeof(*values));
}

static void check_sum(uint32_t unit, uint32_t sum, uint64_t count, uint64_t cycles)
{
	const struct decode_sum *it = &decoder.sums[unit * layout.sum_count + sum];

	CHECK_U64(it->count, count);
	CHECK_U64(it->cycles, cycles);
}

/* b in a; word 2 counts the turns of a loop, with two ends of b each, word 3 is 1. */
#define NESTED "sum 0 0 16 16 0 0\nsum 1 1 16 16 0 0\nends 1 2 2\nends 0 3 1\n"

TEST(counts_and_cycles_of_each_unit)
{
	read_layout(NESTED, (struct decode_overhead){0});
	header(0, 1000, 9000, 8);
	words(0, (uint32_t[]){5000, 4000, 100, 1}, 4);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.execution_count, 0);
	check_sum(0, 0, 1, 5000);
	check_sum(0, 1, 200, 4000);
	check_sum(1, 0, 0, 0); /* did not finish */
	CHECK_U64(decoder.totals.units, 1);
	CHECK_U64(decoder.totals.lost_units, 1);
	CHECK_U64(decoder.totals.records, 201);
	CHECK_U64(decoder.totals.damaged, 0);
	CHECK_U64(decoder.totals.dropped, 0);
	done();
}

static void check_extremes(uint32_t sum, uint64_t min, uint64_t max)
{
	CHECK_U64(decoder.sums[sum].min, min);
	CHECK_U64(decoder.sums[sum].max, max);
}

TEST(extremes_are_those_that_the_unit_stored_or_the_only_execution)
{
	read_layout(NESTED, (struct decode_overhead){0});
	header(0, 1000, 9000, 8);
	words(0, (uint32_t[]){5000, 4000, 100, 1}, 4);
	CHECK(decode_cta(&decoder, memory));
	check_extremes(0, 5000, 5000);
	CHECK_U64(decoder.sums[1].min, UINT64_MAX);
	done();
	/* A clock read takes 3 cycles, the additions 9. */
	read_layout(NESTED "extremes 1 4 5\n", (struct decode_overhead){.empty = 3 * DECODE_CYCLE});
	header(0, 1000, 9000, 8);
	words(0, (uint32_t[]){5000, 1000, 1, 1, 200, 800}, 6);
	CHECK(decode_cta(&decoder, memory));
	check_extremes(0, 5000 - 2 * (2 * 3 + 9) - 3, 5000 - 2 * (2 * 3 + 9) - 3);
	check_extremes(1, 200 - 3, 800 - 3);
	done();
}

TEST(extremes_that_no_unit_would_store_are_unknown)
{
	static const uint32_t wrong[][2] = {{801, 800}, {200, 4001}, {UINT32_MAX, 0}};

	for (size_t i = 0; i < 3; i++) {
		read_layout(NESTED "extremes 1 4 5\n", (struct decode_overhead){0});
		header(0, 1000, 9000, 8);
		words(0, (uint32_t[]){5000, 4000, 100, 1, wrong[i][0], wrong[i][1]}, 6);
		CHECK(decode_cta(&decoder, memory));
		check_sum(0, 1, 200, 4000);
		CHECK_U64(decoder.sums[1].min, UINT64_MAX);
		done();
	}
}

TEST(overhead_of_nested_executions_is_subtracted)
{
	/* A clock read takes 3 cycles, the additions 4. */
	read_layout(NESTED, (struct decode_overhead){.empty = 3 * DECODE_CYCLE});
	header(0, 1000, 9000, 8);
	words(0, (uint32_t[]){5000, 4000, 100, 1}, 4);
	CHECK(decode_cta(&decoder, memory));
	check_sum(0, 1, 200, 4000 - 200 * 3);
	check_sum(0, 0, 1, 5000 - 200 * (2 * 3 + 4) - 3);
	done();
}

/* The end of a shares the clock read of the end of b, and b's additions come after it. */
TEST(shared_clock_reads_are_subtracted_once)
{
	read_layout("sum 0 0 16 0 0 0\nsum 1 1 16 16 0 0\nends 1 2 1\nends 0 2 1\n",
		    (struct decode_overhead){.empty = 3 * DECODE_CYCLE});
	header(0, 1000, 9000, 8);
	words(0, (uint32_t[]){5000, 4000, 10, 0}, 4);
	CHECK(decode_cta(&decoder, memory));
	check_sum(0, 1, 10, 4000 - 10 * 3);
	check_sum(0, 0, 10, 5000 - 10 * 2 * 3);
	done();
}

TEST(more_cycles_than_the_unit_ran_are_damaged)
{
	read_layout(NESTED, (struct decode_overhead){0});
	header(0, 1000, 2000, 8);
	words(0, (uint32_t[]){900, 1001, 1, 1}, 4);
	CHECK(decode_cta(&decoder, memory));
	check_sum(0, 0, 1, 900);
	check_sum(0, 1, 0, 0);
	CHECK_U64(decoder.totals.damaged, 1);
	done();
}

TEST(sums_of_a_unit_of_2_32_cycles_are_a_lower_bound)
{
	read_layout(NESTED, (struct decode_overhead){0});
	header(0, 1000, 1ull << 33, 8);
	words(0, (uint32_t[]){5000, 4000, 100, 1}, 4);
	CHECK(decode_cta(&decoder, memory));
	check_sum(0, 1, 200, 4000);
	CHECK(decoder.sums[1].is_partial);
	CHECK_U64(decoder.totals.partial[1], 200);
	done();
}

/* Starts are counted too: word 2 those of a, word 3 its ends. */
#define COUNTED                                                                                    \
	"sum 0 0 16 16 0 0\nsum 1 1 16 16 0 5\nstarts 0 2 1\nends 0 3 1\n"                         \
	"starts 1 3 1\nends 1 3 1\n"

TEST(a_scope_that_never_ends_lasts_to_the_end_of_the_unit)
{
	read_layout(COUNTED, (struct decode_overhead){0});
	header(0, 1000, 2000, 8);
	/* One execution of 100 cycles, and a start at 1700. */
	words(0, (uint32_t[]){100u - 1700u, 10, 2, 1, 1}, 5);
	CHECK(decode_cta(&decoder, memory));
	check_sum(0, 0, 2, 400);
	CHECK(decoder.sums[0].is_partial);
	CHECK_U64(decoder.totals.partial[0], 1);
	CHECK_U64(decoder.totals.broken[0], 0);
	done();
}

/* In a pipelined loop the second one starts before the first one ends. */
TEST(overlapping_executions_may_take_longer_than_the_unit)
{
	read_layout(COUNTED, (struct decode_overhead){0});
	header(0, 1000, 2000, 8);
	words(0, (uint32_t[]){1500, 10, 2, 2, 1}, 5);
	CHECK(decode_cta(&decoder, memory));
	check_sum(0, 0, 2, 1500);
	CHECK_U64(decoder.totals.damaged, 0);
	words(0, (uint32_t[]){2001, 10, 2, 2, 1}, 5);
	CHECK(decode_cta(&decoder, memory));
	check_sum(0, 0, 0, 0);
	CHECK_U64(decoder.totals.damaged, 1);
	done();
}

TEST(unpaired_markers_are_counted)
{
	read_layout(COUNTED, (struct decode_overhead){0});
	header(0, 1000, 2000, 8);
	words(0, (uint32_t[]){77, 10, 1, 4, 4}, 5);
	CHECK(decode_cta(&decoder, memory));
	check_sum(0, 0, 0, 0);
	check_sum(0, 1, 4, 10);
	CHECK_U64(decoder.totals.broken[0], 3);
	done();
}

/* Word 5 counts the executions of b in a. */
TEST(executions_outside_the_scope_around_them_belong_to_its_parent)
{
	read_layout("sum 0 0 16 16 0 0\nsum 1 1 16 16 0 6\nends 0 3 1\nends 1 3 1\n",
		    (struct decode_overhead){0});
	header(0, 1000, 2000, 8);
	words(0, (uint32_t[]){50, 10, 0, 4, 0, 4}, 6);
	header(1, 1000, 2000, 8);
	words(1, (uint32_t[]){50, 10, 0, 4, 0, 3}, 6);
	CHECK(decode_cta(&decoder, memory));
	CHECK_U64(decoder.sums[1].parent, 0);
	CHECK_U64(decoder.sums[2 + 1].parent, INSTRUMENT_NO_SUM);
	done();
}

static void check_cell(const struct warps_sums *sums, uint32_t unit, uint32_t scope,
		       uint64_t cycles)
{
	CHECK_U64(warps_cell(sums, unit, scope)->cycles, cycles);
}

/* Unit 0 runs a partition with a wait of 600 cycles around a scope; unit 1 the last scope. */
TEST(times_of_a_unit_fill_its_cta)
{
	static const char text[] =
		"proton-instrument 1\nvendor nvidia\nwarps 2\nwarps_per_unit 1\nring 64\nslack 0\n"
		"cta 256\ncta_stride 1\nunits 0 1\nscope partition0@k.py:1\n"
		"scope wait_barrier@k.py:2\nscope test@k.py:3\nscope dot@k.py:4\n"
		"code 0 0\ncode 1 0\ncode 2 0\ncode 3 0\n"
		"sum 0 0 16 16 0 0\nsum 1 1 16 16 0 0\nsum 2 2 16 16 0 0\nsum 3 0 16 16 0 0\n"
		"ends 0 4 1\nends 1 4 1\nends 2 4 1\nends 3 5 1\n";
	struct warps_kinds kinds;
	struct warps_sums sums;
	struct warps warps = {0};

	CHECK_DONE(layout_read(text, strlen(text), &layout, &err));
	memset(memory, 0, sizeof(memory));
	decoder_init(&decoder, &layout, (struct decode_overhead){0});
	header(0, 1000, 2000, 8);
	words(0, (uint32_t[]){900, 600, 500, 0, 1, 0}, 6);
	header(1, 1100, 2300, 8);
	words(1, (uint32_t[]){0, 0, 0, 700, 0, 3}, 6);
	CHECK(decode_cta(&decoder, memory));
	warps_kinds_read(&layout, &kinds);
	CHECK(kinds.is_worth_it);
	CHECK(warps_sums_init(&sums, &layout));
	CHECK(warps_add(&warps, &decoder, &kinds, &sums));
	CHECK_U64(sums.ctas, 1);
	CHECK_U64(sums.cycles, 1300);
	check_cell(&sums, 0, 0, 300);
	check_cell(&sums, 0, 1, 600);
	check_cell(&sums, 0, 2, 0); /* inside the wait */
	check_cell(&sums, 0, 4, 0);
	CHECK_U64(sums.units[0].idle, 300 + 100);
	check_cell(&sums, 1, 3, 700);
	check_cell(&sums, 1, 4, 500);
	CHECK_U64(sums.units[1].idle, 100);
	CHECK_U64(warps_cell(&sums, 1, 3)->executions, 3);
	warps_sums_fini(&sums);
	warps_fini(&warps);
	done();
}

TEST(layouts_are_written_and_read_again)
{
	struct out out;
	char *text;
	size_t length;
	struct instrument_layout again;

	read_layout(COUNTED, (struct decode_overhead){0});
	out_init(&out, -1);
	layout_write(&layout, &out);
	CHECK_DONE(out_finish_text(&out, &text, &length, &err));
	CHECK_DONE(layout_read(text, length, &again, &err));
	CHECK_U64(again.sum_count, 2);
	CHECK_U64(again.sum_counts_count, 4);
	CHECK(memcmp(again.sums, layout.sums, 2 * sizeof(*layout.sums)) == 0);
	free(text);
	layout_fini(&again);
	done();
}

TEST(corrupt_layouts_are_rejected)
{
	static const char *const lines[] = {
		"sum 2 0 16 16 0 0\n",                   /* no such scope */
		"sum 0 1 16 16 0 0\n",                   /* a parent that comes later */
		"sum 0 0 16 16 0\n",                     /* too short */
		"sum 0 0 99999 16 0 0\n",                /* too many clock reads */
		"sum 0 0 16 16 0 17\n",                  /* a word outside */
		"sum 0 0 16 16 0 0\nends 1 0 1\n",       /* no such sum */
		"sum 0 0 16 16 0 0\nends 0 16 1\n",      /* a word outside */
		"sum 0 0 16 16 0 0\nstarts 0 1 70000\n", /* too often */
		"sum 0 0 16 16 0 0\nextremes 1 1 2\n",   /* no such sum */
		"sum 0 0 16 16 0 0\nextremes 0 1 16\n",  /* a word outside */
		"sum 0 0 16 16 0 0\nextremes 0 16 1\n",
		"sum 0 0 16 16 0 0\nextremes 0 1\n", /* too short */
	};
	char text[1024];
	struct proton_error err;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		snprintf(text, sizeof(text), "%s%s", head, lines[i]);
		CHECK_EQ(layout_read(text, strlen(text), &layout, &err), PROTON_E_FORMAT);
	}
}
