/* Warp analysis of CTAs built by hand. */
#include "unit/tap.h"

#include "intra/warps/segments.h"

#define EXECUTIONS 4096

static struct instrument_layout layout;
static struct decoder decoder;
static struct decode_execution executions[EXECUTIONS];
static struct decode_late_end late_ends[64];
static struct warps_kinds kinds;
static struct warps warps;
static struct warps_sums sums;

/* The scopes, in this order; those from index `events` on are async. */
static void make(const char *const *names, uint32_t count, uint32_t events)
{
	layout = (struct instrument_layout){.unit_count = 0, .warps_per_unit = 1};
	for (uint32_t i = 0; i < count; i++) {
		uint32_t scope = layout_scope(&layout, names[i], strlen(names[i]));

		CHECK_U64(scope, i);
		layout_code(&layout, i, i < events ? INSTRUMENT_SCOPE : INSTRUMENT_EVENT_START);
	}
	decoder = (struct decoder){
		.layout = &layout, .executions = executions, .late_ends = late_ends};
	warps_kinds_read(&layout, &kinds);
}

static void unit(uint64_t start, uint64_t end)
{
	uint32_t index = layout.unit_count++;

	layout.units[index] = (uint8_t)index;
	layout.warp_count = index + 1;
	decoder.units[index] = (struct decode_unit){
		.is_there = true,
		.warp = (uint8_t)index,
		.header = {.start_clock = start, .end_clock = end},
		.first = (uint32_t)decoder.execution_count,
	};
}

/* For the last unit; sorted by start, parents first. */
static void ran(uint16_t scope, uint64_t start, uint64_t end)
{
	struct decode_unit *last = &decoder.units[layout.unit_count - 1];

	CHECK(decoder.execution_count < EXECUTIONS);
	executions[decoder.execution_count++] = (struct decode_execution){
		.start = start,
		.duration = end - start,
		.parent = DECODE_NONE,
		.sequence = last->dropped + last->count++,
		.scope = scope,
		.unit = (uint8_t)(layout.unit_count - 1),
		.end_unit = (uint8_t)(layout.unit_count - 1),
	};
}

static void went_on(uint16_t scope, uint8_t from, uint64_t start, uint8_t to, uint64_t end)
{
	executions[decoder.execution_count++] = (struct decode_execution){
		.start = start,
		.duration = end - start,
		.parent = DECODE_NONE,
		.scope = scope,
		.unit = from,
		.end_unit = to,
		.is_async = true,
	};
}

/* Another unit has seen the end of the last event. */
static void was_seen(uint8_t by, uint64_t clock)
{
	late_ends[decoder.late_end_count++] = (struct decode_late_end){
		.clock = clock,
		.execution = (uint32_t)decoder.execution_count - 1,
		.unit = by,
	};
}

static uint64_t path_of_all(void)
{
	uint64_t path = 0;

	for (uint32_t u = 0; u < sums.unit_count; u++) {
		path += sums.units[u].path;
		for (uint32_t i = 0; i <= sums.scope_count; i++)
			path += warps_cell(&sums, u, i)->path;
	}
	for (uint32_t i = 0; i < sums.scope_count; i++)
		path += sums.asyncs[i].path;
	return path;
}

/* Invariants of any CTA. */
static void check_sums(void)
{
	CHECK_U64(path_of_all(), sums.cycles);
	for (uint32_t u = 0; u < sums.unit_count; u++) {
		uint64_t cycles = sums.units[u].idle;

		for (uint32_t i = 0; i <= sums.scope_count; i++)
			cycles += warps_cell(&sums, u, i)->cycles;
		CHECK_U64(cycles, sums.units[u].cycles);
		CHECK_U64(sums.units[u].cycles, sums.units[u].ctas ? sums.cycles : 0);
	}
	for (uint32_t i = 0; i < sums.scope_count; i++)
		CHECK_LE(sums.asyncs[i].overlapped, sums.asyncs[i].cycles);
}

static void add(void)
{
	CHECK(warps_sums_init(&sums, &layout));
	CHECK(warps_add(&warps, &decoder, &kinds, &sums));
	check_sums();
}

static void done(void)
{
	warps_sums_fini(&sums);
	warps_fini(&warps);
	layout_fini(&layout);
}

static uint64_t path(uint32_t unit_index, uint32_t scope)
{
	return warps_cell(&sums, unit_index, scope)->path;
}

static uint64_t cycles(uint32_t unit_index, uint32_t scope)
{
	return warps_cell(&sums, unit_index, scope)->cycles;
}

static void check_role(uint32_t role, const char *expected)
{
	struct warps_roles roles;
	struct out name;
	char text[128];

	warps_roles_find(&sums, &kinds, &roles);
	CHECK(role < roles.count);
	out_init(&name, -1);
	warps_role_name(&roles, &layout, role, &name);
	snprintf(text, sizeof(text), "%.*s", (int)name.length, name.bytes);
	out_fini(&name);
	CHECK_STR(text, expected);
}

TEST(kinds_follow_from_names)
{
	static const char *const names[] = {
		"wait_barrier@a.py:1",
		"async_wait@a.py:2",
		"dot@wait.py:3",
		"atomic_poll@a.py:4",
		"Wait for A",
		"await",
		"waiter",
		"partition12@a.py:5",
		"partition",
		"default@a.py:6",
		"empty_barrier",
		"cluster_wait",
		"dot_wait",
		"waits",
		"load",
		"partition1x",
	};
	static const uint8_t expected[] = {
		WARPS_WAIT,     WARPS_WAIT_OWN,  WARPS_WORK, WARPS_WAIT,    WARPS_WAIT, WARPS_WORK,
		WARPS_WORK,     WARPS_PARTITION, WARPS_WORK, WARPS_DEFAULT, WARPS_WAIT, WARPS_WAIT,
		WARPS_WAIT_OWN, WARPS_WAIT,      WARPS_WORK, WARPS_WORK,
	};

	make(names, 16, 16);
	for (uint32_t i = 0; i < 16; i++)
		CHECK_U64(kinds.of[i], expected[i]);
	CHECK(kinds.has_waits);
	CHECK(kinds.is_worth_it);
	layout_fini(&layout);
	make(&names[14], 1, 1);
	CHECK(!kinds.has_waits);
	CHECK(!kinds.is_worth_it);
	layout_fini(&layout);
	make(&names[0], 1, 0); /* only the event has this name */
	CHECK(!kinds.has_waits);
	CHECK(kinds.is_worth_it);
	layout_fini(&layout);
}

/*
 * The consumer waits for the producer twice: the path alternates.
 *
 * 0: load 100..400, 450..900 (producer, ends at 950)
 * 1: wait 50..420, dot 420..500, wait 500..910, dot 910..1000
 */
TEST(a_producer_and_a_consumer)
{
	static const char *const names[] = {"load", "dot", "wait_barrier"};

	make(names, 3, 3);
	unit(0, 950);
	ran(0, 100, 400);
	ran(0, 450, 900);
	unit(0, 1000);
	ran(2, 50, 420);
	ran(1, 420, 500);
	ran(2, 500, 910);
	ran(1, 910, 1000);
	add();
	CHECK_U64(sums.cycles, 1000);
	CHECK_U64(path(1, 1), 90); /* the last dot */
	/* 900 to 910, then all of the producer, which never waited */
	CHECK_U64(path(1, 2), 10);
	CHECK_U64(path(0, 0), 450 + 300);
	CHECK_U64(path(0, 3), 50 + 100);
	CHECK_U64(cycles(1, 2), 370 + 410);
	CHECK_U64(cycles(1, 1), 80 + 90);
	CHECK_U64(cycles(1, 3), 50);
	CHECK_U64(sums.units[0].idle, 50); /* 950 to 1000 */
	check_role(0, "load (warp 0)");
	check_role(1, "dot (warp 1)");
	done();
}

/* With a buffer to be released: the producer waits too, and its wait releases nothing. */
TEST(one_buffer_that_is_reused)
{
	static const char *const names[] = {"load", "dot", "empty barrier", "full barrier"};

	make(names, 4, 4);
	unit(0, 1000);
	ran(0, 0, 300);
	ran(2, 300, 510); /* until the consumer has released it */
	ran(0, 510, 800);
	unit(0, 1100);
	ran(3, 0, 310);
	ran(1, 310, 500);
	ran(3, 500, 810);
	ran(1, 810, 1100);
	add();
	CHECK_U64(path(1, 1), 290 + 190);
	CHECK_U64(path(1, 3), 10 + 10);
	CHECK_U64(path(0, 0), 290 + 300);
	CHECK_U64(path(0, 2), 10);
	done();
}

/* The path goes through a copy started by another warp, and then through that warp. */
TEST(path_goes_through_a_copy)
{
	static const char *const names[] = {"issue", "dot", "wait_barrier", "copy"};

	make(names, 4, 3);
	unit(0, 1200);
	ran(0, 100, 130);
	unit(0, 1250);
	ran(1, 0, 200);
	ran(2, 200, 900);
	ran(1, 900, 1250);
	went_on(3, 0, 130, 1, 910); /* recorded after the wait */
	add();
	CHECK_U64(path(1, 1), 350);
	CHECK_U64(sums.asyncs[3].path, 900 - 130);
	CHECK_U64(path(0, 0), 30);
	CHECK_U64(path(0, 4), 100);
	CHECK_U64(sums.asyncs[3].cycles, 780);
	CHECK_U64(sums.asyncs[3].overlapped, 70 + 10); /* during the dot, and after the wait */
	done();
}

/* All warps of a partition wait for a copy; the last to end was not the first to see it. */
TEST(path_goes_through_a_copy_that_two_warps_wait_for)
{
	static const char *const names[] = {"issue", "dot", "wait_barrier", "copy"};

	make(names, 4, 3);
	unit(0, 1200);
	ran(0, 100, 130);
	unit(0, 1240);
	ran(2, 200, 900);
	ran(1, 900, 1240);
	unit(0, 1250);
	ran(2, 210, 902);
	ran(1, 902, 1250);
	went_on(3, 0, 130, 1, 910);
	was_seen(2, 913);
	add();
	CHECK_U64(path(2, 1), 348);
	CHECK_U64(sums.asyncs[3].path, 902 - 130);
	CHECK_U64(path(0, 0), 30);
	CHECK_U64(path(0, 4), 100);
	CHECK_U64(sums.asyncs[3].executions, 1);
	CHECK_U64(sums.asyncs[3].cycles, 780);
	CHECK_U64(warps_cell(&sums, 2, 3)->executions, 1);
	check_role(0, "issue (warp 0)");
	check_role(1, "dot (warps 1-2)");
	done();
}

/* Data that arrived before the wait started has not blocked it. */
TEST(a_wait_that_did_not_block)
{
	static const char *const names[] = {"dot", "wait_barrier", "copy"};

	make(names, 3, 2);
	unit(0, 100);
	unit(0, 1000);
	ran(0, 0, 500);
	ran(1, 500, 540);
	ran(0, 550, 1000);
	went_on(2, 0, 50, 1, 545);
	add();
	CHECK_U64(sums.asyncs[2].path, 0);
	CHECK_U64(path(1, 0), 950);
	CHECK_U64(path(1, 1), 40);
	CHECK_U64(path(1, 3), 10);
	CHECK_U64(sums.asyncs[2].overlapped, 450 + 5);
	done();
}

/* Waits for the warp's own work stay in the warp. */
TEST(own_waits_stay_in_the_warp)
{
	static const char *const names[] = {"async_copy@a.py:1", "async_wait@a.py:2", "dot@a.py:3"};

	make(names, 3, 3);
	for (uint64_t u = 0; u < 2; u++) {
		unit(u, 1000 + u);
		ran(0, 100 + u, 150 + u);
		ran(1, 150 + u, 700 + u);
		ran(2, 700 + u, 1000 + u);
	}
	add();
	CHECK_U64(path(1, 1), 550);
	CHECK_U64(path(1, 2), 300);
	CHECK_U64(path(1, 0), 50);
	CHECK_U64(path(1, 3), 100);
	CHECK_U64(path(0, 3), 1); /* before the other unit's start */
	check_role(0, "warps 0-1");
	done();
}

/* At a barrier of all warps, the others waited for the last to arrive. */
TEST(path_goes_to_the_last_warp_at_a_barrier)
{
	static const char *const names[] = {"work", "barrier@a.py:2"};

	make(names, 2, 2);
	unit(0, 1000);
	ran(0, 0, 100);
	ran(1, 100, 820);
	ran(0, 820, 1000);
	unit(0, 900);
	ran(0, 0, 800);
	ran(1, 800, 819);
	unit(0, 950);
	ran(0, 0, 200);
	ran(1, 200, 821);
	add();
	CHECK_U64(path(0, 0), 180);
	CHECK_U64(path(0, 1), 20);
	CHECK_U64(path(1, 0), 800);
	check_role(0, "warps 0-2");
	done();
}

/* Warps of a numbered partition are idle outside it, and the CTA's end does not wait for them. */
TEST(workers_are_idle_outside_of_their_partition)
{
	static const char *const names[] = {"default@a.py:1", "partition0@a.py:9", "load@a.py:10"};

	make(names, 3, 3);
	unit(0, 1000);
	ran(0, 200, 700);
	unit(5, 1010);
	ran(1, 210, 650);
	ran(2, 300, 400);
	unit(5, 1010);
	ran(1, 215, 690);
	add();
	CHECK_U64(sums.units[1].idle, 1010 - 440);
	CHECK_U64(cycles(1, 2), 100);
	CHECK_U64(cycles(1, 1), 340);
	CHECK_U64(sums.units[2].idle, 1010 - 475);
	CHECK_U64(path(0, 0), 500);
	CHECK_U64(path(0, 3), 500);
	CHECK_U64(sums.units[0].path, 10); /* after its end: the workers exit */
	check_role(0, "default@a.py:1 (warp 0)");
	check_role(1, "partition0@a.py:9 (warps 1-2)");
	done();
}

/* A unit without its own scopes is idle; one that starts a copy is not. */
TEST(spare_warps)
{
	static const char *const names[] = {"dot", "wait", "copy"};

	make(names, 3, 2);
	unit(0, 1000);
	ran(1, 100, 600);
	ran(0, 600, 900);
	unit(0, 1000);
	unit(0, 1020);
	went_on(2, 1, 50, 0, 610);
	add();
	CHECK_U64(sums.units[2].idle, 1020);
	CHECK_U64(sums.units[1].idle, 20);
	CHECK_U64(sums.units[0].path, 20);
	CHECK_U64(sums.asyncs[2].path, 550);
	CHECK_U64(path(1, 3), 50);
	check_role(0, "dot (warp 0)");
	check_role(1, "warp 1");
	check_role(2, "warp 2");
	done();
}

TEST(path_without_waits_stays_in_one_warp)
{
	static const char *const names[] = {"load", "dot", "copy"};

	make(names, 3, 2);
	unit(0, 1000);
	ran(0, 100, 300);
	ran(1, 400, 600);
	unit(0, 900);
	ran(0, 100, 890);
	went_on(2, 0, 100, 0, 500);
	add();
	CHECK(!kinds.has_waits);
	CHECK_U64(path(0, 0), 200);
	CHECK_U64(path(0, 1), 200);
	CHECK_U64(path(0, 3), 600);
	done();
}

#define STEPS 200
#define STAGES 3

/*
 * A pipeline: one warp starts copies into a circular queue of buffers, another multiplies what has
 * arrived. Copies take `copy` cycles each, one after the other; a multiplication takes `dot`.
 */
static void make_pipeline(uint64_t copy, uint64_t dot)
{
	static const char *const names[] = {"empty barrier", "issue", "full barrier", "dot",
					    "copy"};
	uint64_t issued[STEPS], free_at[STEPS], come[STEPS];
	uint64_t loader = 50;
	uint64_t memory = 0;
	uint64_t multiplier = 50;

	make(names, 5, 4);
	unit(0, 0);
	for (int i = 0; i < STEPS; i++) {
		uint64_t start = loader + 5;
		uint64_t ready = start + 30;

		/* Both sides are simulated together: this buffer has been multiplied. */
		if (i >= STAGES && free_at[i - STAGES] + 20 > ready)
			ready = free_at[i - STAGES] + 20;
		ran(0, start, ready);
		issued[i] = ready + 5;
		ran(1, issued[i], issued[i] + 40);
		loader = issued[i] + 40;
		memory = (memory > issued[i] ? memory : issued[i]) + copy;
		come[i] = memory;
		start = multiplier + 5;
		ready = start + 30 > come[i] ? start + 30 : come[i];
		free_at[i] = ready + 10 + dot;
		multiplier = free_at[i];
	}
	decoder.units[0].header.end_clock = multiplier + 100;
	unit(0, multiplier + 100);
	multiplier = 50;
	for (int i = 0; i < STEPS; i++) {
		ran(2, multiplier + 5, free_at[i] - dot - 10);
		ran(3, free_at[i] - dot, free_at[i]);
		multiplier = free_at[i];
	}
	for (int i = 0; i < STEPS; i++)
		went_on(4, 0, issued[i], 1, free_at[i] - dot - 5);
}

static uint64_t share_of(uint64_t cycles_of_it)
{
	return 100 * cycles_of_it / sums.cycles;
}

TEST(pipeline_bound_by_memory)
{
	make_pipeline(1000, 300);
	add();
	/* Of three concurrent copies, the time between two multiplications. */
	CHECK_LE(85, share_of(sums.asyncs[4].path));
	CHECK_LE(share_of(path(1, 3)), 15);
	CHECK_LE(60, share_of(cycles(1, 2)));
	CHECK_LE(100 * sums.asyncs[4].overlapped / sums.asyncs[4].cycles, 35);
	check_role(0, "issue (warp 0)");
	check_role(1, "dot (warp 1)");
	done();
}

TEST(pipeline_bound_by_multiplication)
{
	make_pipeline(300, 1000);
	add();
	CHECK_LE(93, share_of(path(1, 3)));
	CHECK_LE(share_of(sums.asyncs[4].path), 2); /* the first one */
	CHECK_LE(share_of(cycles(1, 2)), 5);
	CHECK_LE(95, 100 * sums.asyncs[4].overlapped / sums.asyncs[4].cycles);
	done();
}

/* Scopes inside a wait belong to the wait; overlapping ones are clipped. */
TEST(nesting)
{
	static const char *const names[] = {"outer", "wait", "inner", "barrier"};

	make(names, 4, 4);
	unit(0, 1000);
	ran(0, 100, 900);
	ran(1, 200, 500);
	ran(2, 250, 300);
	ran(3, 400, 450);
	ran(2, 480, 600); /* starts in the wait and ends after it */
	ran(3, 880, 950); /* overlaps the outer scope */
	add();
	CHECK_U64(cycles(0, 1), 300);
	CHECK_U64(cycles(0, 2), 100);
	CHECK_U64(cycles(0, 3), 70);
	CHECK_U64(cycles(0, 0), 100 + 280);
	CHECK_U64(cycles(0, 4), 100 + 50);
	done();
}

/* With overwritten records, only time with records of all units counts, with open scopes. */
TEST(overwritten_records)
{
	static const char *const names[] = {"partition0@a.py:1", "load", "wait"};

	make(names, 3, 3);
	unit(0, 1000);
	decoder.units[0].dropped = 5;
	ran(0, 500, 950); /* was open when the oldest record was made */
	ran(1, 500, 600); /* ends first: its record is the oldest */
	ran(1, 700, 800);
	executions[0].sequence = 9;
	executions[0].is_partial = true;
	unit(0, 990);
	ran(2, 100, 900);
	add();
	CHECK_U64(sums.unseen, 600);
	CHECK_U64(sums.cycles, 400);
	CHECK_U64(cycles(0, 1), 100);
	CHECK_U64(cycles(0, 0), 250);
	CHECK_U64(sums.units[0].idle, 50);
	CHECK_U64(cycles(1, 2), 300);
	check_role(0, "partition0@a.py:1 (warp 0)");
	done();
}

TEST(cta_without_remaining_records)
{
	static const char *const names[] = {"load", "wait"};

	make(names, 2, 2);
	unit(0, 1000);
	decoder.units[0].dropped = 5;
	add();
	CHECK_U64(sums.ctas, 0);
	CHECK_U64(sums.left_out, 1);
	decoder.units[0] = (struct decode_unit){0}; /* not even there */
	CHECK(warps_add(&warps, &decoder, &kinds, &sums));
	CHECK_U64(sums.left_out, 2);
	done();
}

static uint64_t random_state = 1;

static uint64_t random_below(uint64_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

static int by_start(const void *a, const void *b)
{
	const struct decode_execution *x = a;
	const struct decode_execution *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->duration > y->duration ? -1 : x->duration < y->duration;
}

/* For random records the sums are consistent, and the analysis ends. */
TEST(random_records)
{
	static const char *const names[] = {"a",       "wait",       "barrier", "partition1",
					    "default", "async_wait", "copy",    "move"};

	for (int round = 0; round < 2000; round++) {
		uint64_t clocks = round % 2 ? 300 : 5000;

		make(names, 8, 6);
		for (uint64_t units = 1 + random_below(6); units; units--) {
			unit(random_below(clocks / 4), clocks / 2 + random_below(clocks));
			for (uint64_t i = random_below(40); i; i--) {
				uint64_t start = random_below(clocks);

				ran((uint16_t)random_below(6), start,
				    start + random_below(clocks / 3));
			}
			qsort(&executions[decoder.units[layout.unit_count - 1].first],
			      decoder.units[layout.unit_count - 1].count, sizeof(*executions),
			      by_start);
			if (random_below(5) == 0)
				decoder.units[layout.unit_count - 1].dropped = 3;
		}
		for (uint64_t i = random_below(40); i; i--) {
			uint64_t start = random_below(clocks);

			went_on((uint16_t)(6 + random_below(2)),
				(uint8_t)random_below(layout.unit_count), start,
				(uint8_t)random_below(layout.unit_count),
				start + random_below(clocks));
			if (random_below(2))
				was_seen((uint8_t)random_below(layout.unit_count),
					 start + executions[decoder.execution_count - 1].duration +
						 random_below(clocks / 8));
		}
		add();
		done();
	}
}

TEST(sums_are_of_all_ctas_until_they_are_cleared)
{
	static const char *const names[] = {"load", "wait"};

	make(names, 2, 2);
	unit(0, 1000);
	ran(0, 0, 100);
	ran(1, 100, 300);
	add();
	CHECK(warps_add(&warps, &decoder, &kinds, &sums));
	CHECK_U64(sums.ctas, 2);
	CHECK_U64(sums.cycles, 2000);
	CHECK_U64(warps_cell(&sums, 0, 1)->cycles, 400);
	CHECK_U64(warps_cell(&sums, 0, 1)->executions, 2);
	done();
}
