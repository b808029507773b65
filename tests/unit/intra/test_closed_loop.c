/*
 * Closed loops: decisions with planted prices, and launches with a fake driver, on which kernels
 * take a planted time.
 */
#include "unit/fakes.h"
#include "unit/intra/instrumented.h"

#include "backend/intra/closed_loop.h"
#include "base/array.h"
#include "base/buf.h"

#define NAMES "a@k.py:1\nb@k.py:2\nc@k.py:3\nd@k.py:4\ne@k.py:5\nf@k.py:6"
#define SCOPES 6u
#define PLAIN_NS 100000.0
#define VARIANTS 16u

/* ------------------------------------------------------------------ decisions */

static struct loop_set {
	uint32_t variant;
	uint32_t first, end;
} sets[VARIANTS];
static uint32_t launched[VARIANTS];
static double prices[SCOPES]; /* percent, of each scope */
static double noise;          /* percent, of a launch */
static uint32_t random_state;
/* Loops are never freed: not a leak. */
static struct loop *volatile kept[64];
static uint32_t kept_count;

/* A loop that begins with decisions. */
static struct loop *begin_with(uint32_t first, uint32_t budget, const char *decisions)
{
	memset(sets, 0, sizeof(sets));
	memset(launched, 0, sizeof(launched));
	memset(prices, 0, sizeof(prices));
	noise = 0;
	random_state = 1;
	sets[LOOP_FIRST] = (struct loop_set){LOOP_FIRST, 0, first};
	CHECK(kept_count < ARRAY_LENGTH(kept));
	return kept[kept_count++] = closed_loop_new(NAMES, first, budget, decisions);
}

static struct loop *begin(uint32_t first, uint32_t budget)
{
	return begin_with(first, budget, NULL);
}

static double noise_of_launch(void)
{
	random_state = random_state * 1103515245u + 12345u;
	return noise * ((random_state >> 16 & 0x7fff) / 16383.5 - 1);
}

static double time_of(uint32_t variant)
{
	double percent = 100 + noise_of_launch();

	for (uint32_t i = sets[variant].first; i < sets[variant].end; i++)
		percent += prices[i];
	return PLAIN_NS * percent / 100;
}

/* Everything that is wanted is compiled at once. */
static void compile_wanted(struct loop *loop)
{
	struct loop_set set;

	while (closed_loop_wanted(loop, &set.variant, &set.first, &set.end)) {
		CHECK(set.variant < VARIANTS);
		sets[set.variant] = set;
		closed_loop_made(loop, set.variant, true);
	}
}

static void launch_times(struct loop *loop, uint32_t count)
{
	bool is_wanted;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t variant = closed_loop_choose(loop, &is_wanted);

		launched[variant]++;
		closed_loop_time(loop, variant, (uint64_t)time_of(variant));
		if (is_wanted)
			compile_wanted(loop);
	}
}

static char *decisions_of(struct loop *loop)
{
	struct out out;
	size_t length;
	char *text = NULL;

	out_init(&out, -1);
	if (closed_loop_decisions(loop, &out))
		text = out_take(&out, &length);
	out_fini(&out);
	return text;
}

static void check_text(struct loop *loop, const char *expected)
{
	struct out out;

	out_init(&out, -1);
	closed_loop_write(loop, &out);
	out_byte(&out, '\0');
	CHECK_STR(out.bytes, expected);
	out_fini(&out);
}

TEST(sets_within_the_budget_are_kept_and_all_scopes_measured)
{
	struct loop *loop = begin(2, 5);
	struct loop_price price;

	for (uint32_t i = 0; i < SCOPES; i++)
		prices[i] = 1;
	check_text(loop, "not measured: its scopes were chosen by a prediction");
	launch_times(loop, 16);
	closed_loop_price(loop, &price);
	CHECK(price.is_measured && price.is_decided);
	CHECK_EQ(price.sets, 2);
	CHECK_EQ(price.scopes, SCOPES);
	/* Sets of two and four scopes take turns. */
	CHECK(price.percent > 2.99 && price.percent < 3.01);
	CHECK(price.low < 3 && price.high > 3 && price.high - price.low < 1);
}

TEST(a_set_over_the_budget_is_split_until_its_costly_scope_is_dropped)
{
	struct loop *loop = begin(2, 5);
	struct loop_price price;
	struct out out;

	out_init(&out, -1);
	prices[3] = 12;
	launch_times(loop, 48);
	closed_loop_price(loop, &price);
	CHECK(price.is_decided);
	CHECK_EQ(price.scopes, SCOPES - 1);
	CHECK_EQ(price.sets, 3); /* a b, c, e f */
	CHECK(price.percent < 0.01);
	closed_loop_write(loop, &out);
	out_byte(&out, '\0');
	CHECK_HAS(out.bytes, "measured 0.0 % (-0.");
	CHECK_HAS(out.bytes,
		  " launches, with 5 scopes in 3 sets; omitted, because with each the "
		  "kernel took more than 5 % longer or needed more of the GPU: d@k.py:4");
	out_fini(&out);
}

TEST(costs_that_exceed_the_budget_only_together_lose_no_scope)
{
	struct loop *loop = begin(SCOPES, 5);
	struct loop_price price;

	for (uint32_t i = 0; i < SCOPES; i++)
		prices[i] = 1.5; /* 9 % in one launch, 4.5 % in half */
	launch_times(loop, 16);
	closed_loop_price(loop, &price);
	CHECK(price.is_decided);
	CHECK_EQ(price.sets, 2);
	CHECK_EQ(price.scopes, SCOPES);
	CHECK(price.percent > 4.49 && price.percent < 4.51);
}

TEST(without_a_scope_within_the_budget_launches_are_plain)
{
	struct loop *loop = begin(1, 5);
	struct loop_price price;

	for (uint32_t i = 0; i < SCOPES; i++)
		prices[i] = 20;
	launch_times(loop, 60);
	memset(launched, 0, sizeof(launched));
	launch_times(loop, 10);
	CHECK_EQ(launched[LOOP_PLAIN], 10);
	CHECK_EQ(closed_loop_choice(loop, true), LOOP_PLAIN);
	closed_loop_price(loop, &price);
	CHECK_EQ(price.sets, 0);
	check_text(loop, "measured: no scope is within the budget; omitted, because with each the "
			 "kernel took more than 5 % longer or needed more of the GPU: a@k.py:1, "
			 "b@k.py:2, c@k.py:3, d@k.py:4, e@k.py:5, f@k.py:6");
}

TEST(a_set_that_cannot_be_compiled_is_split)
{
	struct loop *loop = begin(4, 5);
	struct loop_set set;

	CHECK(!closed_loop_wanted(loop, &set.variant, &set.first,
				  &set.end)); /* no launch has a time yet */
	closed_loop_time(loop, LOOP_FIRST, 100000);
	while (closed_loop_wanted(loop, &set.variant, &set.first, &set.end) && set.variant != 2)
		closed_loop_made(loop, set.variant, true);
	CHECK_EQ(set.end - set.first, 2);
	closed_loop_made(loop, set.variant, false);
	CHECK(closed_loop_wanted(loop, &set.variant, &set.first, &set.end));
	CHECK_EQ(set.first, 4);
	CHECK_EQ(set.end, 5);
	closed_loop_made(loop, set.variant, false);
	CHECK(closed_loop_wanted(loop, &set.variant, &set.first, &set.end));
	CHECK_EQ(set.first, 5);
	closed_loop_made(loop, set.variant, true);
	CHECK(!closed_loop_wanted(loop, &set.variant, &set.first, &set.end));
}

/* 4 % with a noise of +-6 %: more launches are needed, and then the interval contains it. */
TEST(noise_takes_more_launches_and_widens_the_interval)
{
	struct loop *loop = begin(SCOPES, 10);
	struct loop_price price;

	prices[0] = 4;
	noise = 6;
	launch_times(loop, 200);
	closed_loop_price(loop, &price);
	CHECK(price.is_decided);
	CHECK_EQ(price.scopes, SCOPES);
	CHECK(price.low < 4 && price.high > 4 && price.low < price.percent);
	CHECK(price.high - price.low > 0.5);
}

TEST(a_price_that_is_not_certain_drops_no_scope)
{
	struct loop *loop = begin(SCOPES, 5);
	struct loop_price price;

	prices[0] = 6;
	noise = 60;
	launch_times(loop, 100);
	closed_loop_price(loop, &price);
	CHECK(price.is_decided);
	CHECK_EQ(price.scopes, SCOPES);
	CHECK(price.low < 5 && price.high > 5);
}

TEST(without_times_that_count_launches_have_the_predicted_scopes)
{
	struct loop *loop = begin(2, 5);
	uint32_t timed = 0;
	bool is_wanted;

	for (uint32_t i = 0; i < 100; i++) {
		CHECK_EQ(closed_loop_choose(loop, &is_wanted), LOOP_FIRST);
		CHECK(!is_wanted);
		timed += closed_loop_is_timed(loop);
	}
	CHECK_EQ(timed, 64);
}

/* A kernel has a long and a short launch in turn: neither belongs to a variant. */
TEST(a_pattern_of_launches_has_no_price)
{
	struct loop *loop = begin(SCOPES, 5);
	struct loop_price price;
	bool is_wanted;

	for (uint32_t i = 0; i < 400; i++) {
		uint32_t variant = closed_loop_choose(loop, &is_wanted);

		closed_loop_time(loop, variant, i % 2 ? 100000 : 104000);
		compile_wanted(loop);
	}
	closed_loop_price(loop, &price);
	CHECK_EQ(price.scopes, SCOPES);
	CHECK(price.low < 0.5 && price.high > -0.5);
}

TEST(a_rotation_has_each_variant_once)
{
	struct loop *loop = begin(2, 5);

	CHECK_EQ(closed_loop_weight(loop), 1);
	launch_times(loop, 1);
	compile_wanted(loop);
	memset(launched, 0, sizeof(launched));
	launch_times(loop, 30);
	for (uint32_t i = 0; i < 3; i++)
		CHECK(launched[i] >= 1);
	memset(launched, 0, sizeof(launched));
	/* Decided: eight rotations, one of them with the plain kernel. */
	launch_times(loop, 17 * 8);
	CHECK_EQ(launched[LOOP_PLAIN], 8);
	CHECK_EQ(launched[1], 64);
	CHECK_EQ(launched[2], 64);
}

TEST(decisions_are_given_once_and_a_later_process_begins_with_them)
{
	struct loop *loop = begin(2, 5);
	struct loop_price price;

	prices[3] = 12;
	launch_times(loop, 4);
	CHECK(!decisions_of(loop));
	launch_times(loop, 44);
	char *decisions = decisions_of(loop);
	CHECK_STR(decisions, "kept 2\nkept 3\ndropped 4\nkept 6\n");
	CHECK(!decisions_of(loop));
	loop = begin_with(2, 5, decisions);
	prices[3] = 12;
	launch_times(loop, 16);
	for (uint32_t i = 0; i < VARIANTS; i++) /* none has the costly scope */
		CHECK(sets[i].first > 3 || sets[i].end < 4);
	closed_loop_price(loop, &price);
	CHECK(price.is_decided && price.is_measured);
	CHECK_EQ(price.scopes, SCOPES - 1);
	free(decisions);
	decisions = decisions_of(loop);
	CHECK_STR(decisions, "kept 2\nkept 3\ndropped 4\nkept 6\n");
	free(decisions);
}

TEST(a_first_set_that_was_not_kept_is_not_launched_once_others_are_compiled)
{
	static const char *const decisions[] = {"kept 2\nkept 4\nkept 6", "dropped 4\nkept 6",
						"dropped 6"};

	for (int i = 0; i < 3; i++) {
		struct loop *loop = begin_with(4, 5, decisions[i]);

		launch_times(loop, 8);
		memset(launched, 0, sizeof(launched));
		launch_times(loop, 40);
		CHECK_EQ(launched[LOOP_FIRST], 0);
		CHECK(launched[LOOP_PLAIN] > 0);
	}
}

TEST(decisions_that_do_not_fit_are_ignored)
{
	static const char *const decisions[] = {
		"",
		"kept 2",
		"kept 2\nkept 7",
		"kept 6\nkept 6",
		"kept 2\nkept 2\nkept 6",
		"kept 4\nkept 2\nkept 6",
		"tried 6",
		"kept",
		"kept -1",
		"kept 6x",
		"kept 4294967296",
		"dropped 6 kept 6",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(decisions); i++) {
		struct loop *loop = begin_with(2, 5, decisions[i]);
		struct loop_price price;

		launch_times(loop, 16);
		closed_loop_price(loop, &price);
		CHECK_EQ(price.sets, 2);
		CHECK_EQ(price.scopes, SCOPES);
	}
}

/* ------------------------------------------------------------------ launches */

#define STREAM 7
#define FIRST_FUNCTION 0x1000
#define TICKS_NS 50000

static struct instrument_layout layout;
static void (*take_time)(uint64_t ns);
static void (*set_capture)(uint64_t stream, int status);

static int start(const char *mode)
{
	if (!getenv("PROTON_CUDA_PATH"))
		SKIP("no fake libraries: run by `meson test`");
	void *library = fake_open("PROTON_CUDA_PATH");
	fake_find(&take_time, library, "fake_take_time");
	fake_find(&set_capture, library, "fake_set_capture");
	int session = instrumented_start("tree", mode);
	layout = (struct instrument_layout){
		.unit_count = 1,
		.warps_per_unit = 1,
		.warp_count = 1,
		.ring_bytes = 64,
		.cta_stride = 1,
	};
	layout.cta_bytes = instrumented_cta_bytes(&layout);
	layout_scope(&layout, "a@k.py:1", 8);
	layout_code(&layout, 0, INSTRUMENT_SCOPE);
	instrumented_add(&layout, FIRST_FUNCTION, "mm");
	return session;
}

static void write_warp(uint8_t *cta)
{
	struct instrument_unit_header header = {
		.magic = INSTRUMENT_MAGIC,
		.start_ns = 1000000,
		.end_ns = 1000000 + TICKS_NS,
		.start_clock = 1000,
		.end_clock = 101000,
		.count = 1,
	};
	struct instrument_record record = {2000, 1u << 24 | 10};

	memcpy(cta + layout_ring_at(&layout, 0), &record, sizeof(record));
	memcpy(cta + layout_header_at(&layout, 0), &header, sizeof(header));
}

static bool launch(uint64_t function, uint64_t ns)
{
	uint64_t address = function == FIRST_FUNCTION
				   ? proton_instrument_buffer(layout.cta_bytes, 128, STREAM)
				   : 0;

	proton_instrument_launching(function, STREAM);
	take_time(ns);
	if (address)
		write_warp((uint8_t *)(uintptr_t)address);
	return proton_instrument_launched(function, STREAM);
}

#define PLAIN_FUNCTION 0x2000

static struct profile *finish(void)
{
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	layout_fini(&layout);
	return rec_load("a.proton");
}

static const struct profile_value *value_of(const struct profile *profile, const char *path,
					    const char *metric)
{
	const struct profile_value *value = rec_value(profile, path, metric);

	if (!value)
		FAIL("no %s at %s", metric, path);
	return value;
}

static const char *price_in(const struct profile *profile)
{
	return profile_text(profile, value_of(profile, "mm", "scopes_price")->as.string);
}

/* Launches what the loop chooses; the kernel with scopes takes so many percent more. */
static void launch_in_loop(uint32_t count, uint32_t percent)
{
	for (uint32_t i = 0; i < count; i++) {
		bool is_plain = proton_instrument_choice(FIRST_FUNCTION, false) == LOOP_PLAIN;

		launch(is_plain ? PLAIN_FUNCTION : FIRST_FUNCTION,
		       is_plain ? 1000000 : 1000000 + 10000 * percent);
	}
}

static void begin_loop(void)
{
	uint32_t variant, first, end;

	CHECK(launch(FIRST_FUNCTION, 1000000)); /* asked once */
	CHECK(!launch(FIRST_FUNCTION, 1000000));
	CHECK_DONE(proton_instrument_loop(FIRST_FUNCTION, "a@k.py:1", 1, NULL, &err));
	CHECK(launch(FIRST_FUNCTION, 1020000));
	CHECK(proton_instrument_wanted(FIRST_FUNCTION, &variant, &first, &end));
	CHECK_EQ(variant, LOOP_PLAIN);
	CHECK_EQ(first, end);
	proton_instrument_made(FIRST_FUNCTION, variant, PLAIN_FUNCTION);
	CHECK(!proton_instrument_wanted(PLAIN_FUNCTION, &variant, &first, &end));
}

TEST(the_price_of_launches_is_in_the_profile)
{
	uint64_t executions;

	start("default:auto=loops");
	begin_loop();
	launch_in_loop(16, 2);
	struct profile *profile = finish();
	CHECK_HAS(price_in(profile), "measured 2.0 % (");
	CHECK_NEAR(value_of(profile, "mm", "scopes_ratio")->as.float64, 1.02, 1e-3);
	/* Launches with scopes stand for the plain ones: 3 + 16, but for a rotation. */
	executions = value_of(profile, "mm/a@k.py:1", "executions")->as.int64;
	CHECK(executions >= 17 && executions <= 21);
}

TEST(a_costly_scope_is_dropped_in_launches)
{
	start("default:auto=loops");
	begin_loop();
	launch_in_loop(16, 30);
	for (uint32_t i = 0; i < 10; i++)
		CHECK_EQ(proton_instrument_choice(FIRST_FUNCTION, i % 2), LOOP_PLAIN);
	struct profile *profile = finish();
	CHECK_HAS(price_in(profile), "measured: no scope is within the budget; omitted, because");
	CHECK_HAS(price_in(profile), ": a@k.py:1");
}

TEST(captured_launches_are_not_measured_and_choose_nothing)
{
	start("default:auto=loops");
	begin_loop();
	uint32_t chosen = proton_instrument_choice(FIRST_FUNCTION, false);
	set_capture(STREAM, 1);
	CHECK(proton_instrument_is_capturing(STREAM));
	for (uint32_t i = 0; i < 20; i++)
		CHECK(!launch(FIRST_FUNCTION, 9000000));
	set_capture(STREAM, 0);
	CHECK_EQ(proton_instrument_choice(FIRST_FUNCTION, false), chosen);
	launch_in_loop(16, 2);
	CHECK_HAS(price_in(finish()), "measured 2.0 % (");
}

TEST(without_a_loop_the_profile_says_that_nothing_was_measured)
{
	start("default:auto=loops");
	launch(FIRST_FUNCTION, 1000000);
	struct profile *profile = finish();
	CHECK_STR(price_in(profile), "not measured: its scopes were chosen by a prediction");
	CHECK(!rec_value(profile, "mm", "scopes_ratio"));
}

TEST(without_a_budget_nothing_is_asked_for)
{
	start("default:auto=loops:budget=off");
	CHECK(!launch(FIRST_FUNCTION, 1000000));
	CHECK(!launch(FIRST_FUNCTION, 1000000));
	CHECK(!rec_value(finish(), "mm", "scopes_price"));
}
