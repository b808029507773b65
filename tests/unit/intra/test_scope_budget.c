/* The budget of automatic scopes: the choice of scopes, and the note about the others. */
#include "intra/ttgir/ttgir.h"

#include <stdlib.h>

#include "intra/ttgir/kernel_cost.h"
#include "unit/tap.h"

static struct proton_error err;
static struct ttgir_result result;
static char text[16384];

/* ------------------------------------------------------------------ support */

#define POINTERS "tensor<128x64x!tt.ptr<f16>, #blocked>"
#define LOAD "%1 = tt.load %p : " POINTERS
#define DOT                                                                                        \
	"%2 = tt.dot %a, %b, %c : tensor<128x64xf16, #x> * tensor<64x128xf16, #y> -> "             \
	"tensor<128x128xf32, #mma>"
#define LOOP "scf.for %i = %first to %last step %step : i32 {\n"

static const char *target = "cuda:90";

static void set_kernel(const char *body)
{
	snprintf(text, sizeof(text),
		 "module attributes {\"ttg.num-warps\" = 4 : i32, ttg.target = \"%s\"} {\n"
		 "  tt.func public @f() {\n    %%first = arith.constant 0 : i32\n"
		 "    %%step = arith.constant 2 : i32\n%s  }\n}\n",
		 target, body);
}

static struct ttgir_insertion how = {.spelling = TTGIR_MARKERS};

static void insert(const char *body, const char *mode_text)
{
	struct instrument_mode mode;

	ttgir_result_fini(&result);
	set_kernel(body);
	CHECK_OK(instrument_mode_read(mode_text, &mode, &err), err);
	CHECK_OK(ttgir_insert_scopes(text, strlen(text), &mode, &how, &result, &err), err);
}

static bool has(const char *name)
{
	char marker[64];

	snprintf(marker, sizeof(marker), "proton.record start %s\"", name);
	return result.text && strstr(result.text, marker);
}

static struct kernel_cost cost_of(const char *body)
{
	struct mlir_regions lines;
	struct kernel_cost cost;

	set_kernel(body);
	CHECK_OK(mlir_regions_read(slice_of(text), &lines, &err), err);
	CHECK_OK(kernel_cost_read(&lines, &cost, &err), err);
	mlir_regions_fini(&lines);
	return cost;
}

/* ------------------------------------------------------------------ the estimate */

TEST(constant_bounds_are_counted)
{
	struct kernel_cost cost = cost_of("    %last = arith.constant 7 : i32\n    " LOOP
					  "    " LOOP "      " LOAD "\n    }\n    }\n");

	CHECK_EQ(cost.count, 3);
	CHECK_EQ(cost.warp_count, 4);
	CHECK_EQ(cost.regions[1].trips, 4);
	CHECK(cost.regions[1].is_constant);
	CHECK_EQ(cost.regions[2].parent, 1);
	/* 16 KiB at 24 bytes per cycle, 16 times. */
	CHECK_EQ((int)cost.regions[2].memory, 682);
	CHECK_EQ((int)cost.regions[0].memory, 16 * 16384 / 24);
	kernel_cost_fini(&cost);
}

TEST(iterations_are_counted_from_the_first_to_the_last)
{
	static const struct {
		const char *first;
		const char *end;
		const char *step;
		uint32_t trips;
	} loops[] = {
		{"3", "10", "3", 3},
		{"3", "9", "3", 2},
		{"10", "3", "1", 0},
		{"3", "3", "1", 0},
		{"0", "4000000000", "1", 1000000},
	};

	for (size_t i = 0; i < 2 * sizeof(loops) / sizeof(loops[0]); i++) {
		char body[256];
		struct kernel_cost cost;

		snprintf(body, sizeof(body),
			 "    %%a = arith.constant %s : i32\n    %%b = arith.constant %s : i32\n"
			 "    %%c = arith.constant %s : i32\n"
			 "    scf.for%s %%i = %%a to %%b step %%c : i32 {\n    }\n",
			 loops[i / 2].first, loops[i / 2].end, loops[i / 2].step,
			 i % 2 ? " unsigned" : "");
		cost = cost_of(body);
		CHECK_EQ(cost.count, 2);
		CHECK_EQ(cost.regions[1].trips, loops[i / 2].trips);
		CHECK(cost.regions[1].is_constant);
		kernel_cost_fini(&cost);
	}
}

static double latency_of(const char *body)
{
	struct kernel_cost cost = cost_of(body);
	double latency = cost.regions[0].latency;

	kernel_cost_fini(&cost);
	return latency;
}

TEST(each_operation_has_its_cost)
{
	static const struct {
		const char *line;
		double memory, compute, arithmetic, latency;
	} operations[] = {
		{DOT, 0, 1048576 / (0.6 * 2048), 0, 0},
		{"%2 = tt.dot %a, %b, %c : tensor<128x64xf32, #x> * tensor<64x128xf32, #y> -> "
		 "tensor<128x128xf32, #mma>",
		 0, 1048576 / (0.6 * 1024), 0, 0},
		{"%2 = tt.dot %a, %b, %c : tensor<128x64xf8E5M2, #x> * tensor<64x16xf8E5M2, #y> -> "
		 "tensor<128x16xf32, #mma>",
		 0, 131072 / (0.6 * 4096), 0, 0},
		{LOAD, 16384 / 24.0, 0, 0, 400},
		{LOAD "\n    " LOAD, 16384 / 12.0, 0, 0, 400},
		{"tt.store %p, %1 : " POINTERS, 16384 / 24.0, 0, 0, 0},
		{"tt.store %p, %1 : !tt.ptr<f64>", 4 / 24.0, 0, 0, 0},
		{"%3 = ttg.local_load %1 : !ttg.memdesc<128x64xf16, #s> -> tensor<128x64xf16, #x>",
		 0, 128, 0, 0},
		{"%3 = ttg.local_alloc : () -> !ttg.memdesc<128x64xf16, #s>", 0, 0, 0, 0},
		{"%3 = ttg.convert_layout %1 : tensor<8x64xf32, #x> -> tensor<8x64xf32, #y>", 0, 32,
		 0, 30},
		{"%3 = tt.call @g(%1) : (i32) -> i32", 0, 0, 0, 100},
		{"%3 = arith.addf %1, %2 : tensor<128x64xf32, #x>", 0, 64, 64, 0},
		{"%3 = arith.extf %1 : tensor<64xf16, #x> to tensor<128x64xf32, #x>", 0, 64, 64, 0},
		{"%3 = math.exp2 %1 : tensor<128x64xf32, #x>", 0, 512, 512, 0},
		{"%3 = arith.addi %1, %2 : i32", 0, 0, 0, 4},
		{"%3 = tt.splat %1 : i32 -> tensor<128x64xi32, #x>", 0, 0, 0, 0},
	};
	const double none = latency_of("");

	CHECK_NEAR(none, 600, 0);
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		char body[512];
		struct kernel_cost cost;

		snprintf(body, sizeof(body), "    %s\n", operations[i].line);
		cost = cost_of(body);
		CHECK_NEAR(cost.regions[0].memory, operations[i].memory, 1e-9);
		CHECK_NEAR(cost.regions[0].compute, operations[i].compute, 1e-9);
		CHECK_NEAR(cost.regions[0].arithmetic, operations[i].arithmetic, 1e-9);
		CHECK_NEAR(cost.regions[0].latency - none, operations[i].latency, 1e-9);
		kernel_cost_fini(&cost);
	}
}

TEST(dots_are_as_fast_as_their_gpu)
{
	static const struct {
		const char *target;
		double rate;
	} gpus[] = {
		{"cuda:75", 1024},   {"cuda:80", 1024},    {"cuda:86", 512},     {"cuda:87", 512},
		{"cuda:89", 512},    {"cuda:90", 2048},    {"cuda:100", 4096},   {"cuda:120", 512},
		{"hip:gfx90a", 512}, {"hip:gfx942", 1024}, {"hip:gfx950", 2048},
	};

	for (size_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++) {
		struct kernel_cost cost;

		target = gpus[i].target;
		cost = cost_of("    " DOT "\n");
		CHECK_NEAR(cost.regions[0].compute, 1048576 / (0.6 * gpus[i].rate), 1e-9);
		CHECK_EQ(cost.is_amd, *target == 'h');
		kernel_cost_fini(&cost);
	}
	target = "cuda:90";
}

/* Without dots twelve CTAs of four warps share the SM; with dots one CTA reads from the cache. */
TEST(a_kernel_takes_the_longest_of_its_resources)
{
	struct kernel_cost cost = cost_of("    " LOAD "\n");

	CHECK_NEAR(kernel_cost_ctas(&cost, 0), 12, 0);
	CHECK_NEAR(kernel_cost_cycles(&cost, 0), 12 * 16384 / 24.0, 1e-9);
	kernel_cost_fini(&cost);
	cost = cost_of("    " LOAD "\n    " DOT "\n");
	CHECK_NEAR(kernel_cost_ctas(&cost, 0), 1, 0);
	CHECK_NEAR(kernel_cost_memory(&cost, 0), 16384 / 48.0, 1e-9);
	CHECK_NEAR(kernel_cost_cycles(&cost, 0), 1000, 0);
	kernel_cost_fini(&cost);
	cost = cost_of("    " DOT "\n    " DOT "\n");
	CHECK_NEAR(kernel_cost_cycles(&cost, 0), 2 * 1048576 / (0.6 * 2048), 1e-9);
	kernel_cost_fini(&cost);
}

TEST(bounds_that_vary_are_assumed)
{
	struct kernel_cost cost = cost_of("    " LOOP "      " DOT "\n    }\n");

	CHECK(!cost.regions[1].is_constant);
	CHECK(cost.regions[1].trips > 1);
	CHECK(cost.regions[1].has_dot && cost.regions[0].has_dot);
	/* 128 x 128 x 64 multiplications, 0.6 of 2048 in a cycle. */
	CHECK(cost.regions[1].compute > 850 && cost.regions[1].compute < 856);
	kernel_cost_fini(&cost);
}

TEST(a_loop_that_never_runs_costs_nothing)
{
	struct kernel_cost cost =
		cost_of("    %last = arith.constant 0 : i32\n    " LOOP "      " DOT "\n    }\n");

	CHECK_EQ(cost.regions[1].trips, 0);
	CHECK_EQ(cost.regions[0].compute, 0);
	kernel_cost_fini(&cost);
}

TEST(a_wait_costs_a_barrier)
{
	static const char *const waits[] = {
		"    ttg.async_wait {num = 0 : i32}\n",
		"    ttng.warp_group_dot_wait %1 {pendings = 0 : i32} : tensor<8x8xf32, #mma>\n",
		"    ttng.wait_barrier %b, %p : !ttg.memdesc<1xi64, #shared>\n",
		"    ttng.tmem_wait\n",
		"    ttg.barrier local\n",
	};
	double none = latency_of("");

	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		CHECK_NEAR(latency_of(waits[i]) - none, 30, 0);
	CHECK_NEAR(latency_of("    %last = arith.constant 7 : i32\n    " LOOP
			      "      ttg.barrier local\n    }\n") -
			   none,
		   4 * 30, 0);
}

TEST(types_that_are_not_shapes_are_skipped)
{
	struct kernel_cost cost =
		cost_of("    %1 = tt.load %p : tensor<99999999999x2x!tt.ptr<f16>>\n"
			"    %2 = tt.load %p : tensor<x, <<1x>\n    %3 = tt.store %p : <0x\n");

	CHECK_EQ(cost.count, 1);
	CHECK(kernel_cost_cycles(&cost, 0) >= 0);
	kernel_cost_fini(&cost);
}

/* ------------------------------------------------------------------ the choice */

/* A loop of a dot with two waits and two loads. */
static const char products[] =
	"    " LOOP "      %w = ttg.async_wait {num = 2 : i32} loc(\"k.py\":2:1)\n"
	"      " DOT " loc(\"k.py\":3:1)\n"
	"      %v = ttng.warp_group_dot_wait %2 {pendings = 1 : i32} loc(\"k.py\":4:1)\n"
	"      %l = ttg.async_copy_global_to_local %p, %q : " POINTERS " loc(\"k.py\":5:1)\n"
	"      %m = ttg.async_copy_global_to_local %p, %q : " POINTERS " loc(\"k.py\":6:1)\n"
	"    } loc(\"k.py\":1:1)\n    tt.store %p, %2 : " POINTERS " loc(\"k.py\":7:1)\n";

TEST(without_a_budget_all_scopes_are_kept)
{
	insert(products, "default:auto=all:budget=off");
	CHECK_EQ(result.scope_count, 7);
	CHECK(!result.note);
	insert(products, "default:auto=all:budget=100");
	CHECK_EQ(result.scope_count, 7);
	CHECK(!result.note);
	ttgir_result_fini(&result);
}

TEST(loops_come_first_then_waits_and_dots)
{
	insert(products, "default:auto=all:budget=8");
	CHECK(has("loop@k.py:1") && has("async_wait@k.py:2") && has("dot@k.py:3"));
	CHECK(has("store@k.py:7"));
	CHECK(!has("async_copy@k.py:5") && !has("async_copy@k.py:6"));
	CHECK_HAS(result.note,
		  "3 of 7 automatic scopes were omitted, because all were predicted to cost ");
	CHECK_HAS(result.note, " % of the time and the budget is 8 %: ");
	CHECK_HAS(result.note,
		  "dot_wait@k.py:4, async_copy@k.py:5, async_copy@k.py:6; the others cost ");
	CHECK_HAS(result.note, "; for more, increase budget or set budget=off");
	CHECK(!strchr(result.note, '\n'));
	ttgir_result_fini(&result);
}

TEST(a_larger_budget_keeps_no_fewer_scopes)
{
	uint32_t before = 0;

	for (uint32_t percent = 1; percent <= 100; percent++) {
		char mode[64];

		snprintf(mode, sizeof(mode), "default:auto=all:budget=%u", percent);
		insert(products, mode);
		CHECK(result.scope_count >= before);
		before = result.scope_count;
	}
	CHECK_EQ(before, 7);
	ttgir_result_fini(&result);
}

TEST(the_default_budget_is_five_percent)
{
	uint32_t kept;

	insert(products, "default:auto=all:budget=5");
	kept = result.scope_count;
	insert(products, "default:auto=all");
	CHECK_EQ(result.scope_count, kept);
	CHECK(kept < 7);
	CHECK_HAS(result.note, "the budget is 5 %");
	ttgir_result_fini(&result);
}

TEST(one_scope_is_kept_in_any_case)
{
	insert("    %1 = arith.addi %a, %b : i32 loc(\"k.py\":1:1)\n    scf.for %i = %a to %b step "
	       "%step : i32 {\n      gpu.barrier loc(\"k.py\":3:1)\n    } loc(\"k.py\":2:1)\n",
	       "default:auto=waits:budget=1");
	CHECK_EQ(result.scope_count, 1);
	CHECK_HAS(result.note, "its automatic scopes were predicted to cost ");
	CHECK_HAS(result.note, "more than the budget of 1 %");
	ttgir_result_fini(&result);
}

TEST(an_inner_loop_may_not_exceed_the_budget_however_long_it_runs)
{
	/* Next to much work outside, which hides it unless the loop is long. */
	char body[4096] = "";

	for (uint32_t i = 0; i < 12; i++)
		strcat(body, "    " DOT "\n");
	strcat(body, "    scf.for %i = %a to %b step %step : i32 {\n"
		     "      ttg.barrier local loc(\"k.py\":3:1)\n    } loc(\"k.py\":2:1)\n");
	insert(body, "default:auto=loops,waits:budget=5");
	CHECK(has("loop@k.py:2") && !has("barrier@k.py:3"));
	/* With a known number of iterations it is known to be hidden. */
	body[0] = '\0';
	for (uint32_t i = 0; i < 12; i++)
		strcat(body, "    " DOT "\n");
	strcat(body, "    scf.for %i = %first to %step step %step : i32 {\n"
		     "      ttg.barrier local loc(\"k.py\":3:1)\n    } loc(\"k.py\":2:1)\n");
	insert(body, "default:auto=loops,waits:budget=5");
	CHECK(has("loop@k.py:2") && has("barrier@k.py:3"));
	ttgir_result_fini(&result);
}

TEST(the_room_in_the_ring_buffer_still_limits)
{
	insert(products, "default:auto=all:budget=8:buffer_size=96"); /* three records per warp */
	CHECK_EQ(result.scope_count, 2);
	CHECK_HAS(result.note, "the budget is 8 %: ");
	CHECK_HAS(result.note,
		  "; 2 of 7 automatic scopes were omitted, details and innermost loops first");
	ttgir_result_fini(&result);
}

/* A load and a store of `elements` in a kernel without loops. */
static void insert_copy(const char *elements, const char *mode)
{
	char body[512];

	snprintf(body, sizeof(body),
		 "    %%1 = tt.load %%p : tensor<%sx!tt.ptr<f32>> loc(\"k.py\":1:1)\n"
		 "    tt.store %%p, %%1 : tensor<%sx!tt.ptr<f32>> loc(\"k.py\":2:1)\n",
		 elements, elements);
	insert(body, mode);
	CHECK_LE(1, result.scope_count);
}

TEST(short_kernels_record_in_some_ctas)
{
	insert_copy("1048576", "default:auto=all:budget=5");
	CHECK_EQ(result.cta_stride, 1);
	CHECK(!result.note);
	insert_copy("1024", "default:auto=all:budget=5");
	CHECK(result.cta_stride > 1);
	CHECK_HAS(result.note, "one of ");
	CHECK_HAS(result.note, " CTAs records, because the ends of all were predicted to cost more "
			       "than a quarter of the budget of 5 %; for more, increase budget or");
	/* The user's choice stays. */
	insert_copy("1024", "default:auto=all:budget=5:cta=2");
	CHECK_EQ(result.cta_stride, 1);
	insert_copy("1024", "default:auto=all:budget=100");
	CHECK_EQ(result.cta_stride, 1);
	insert_copy("1024", "default:auto=all:budget=off");
	CHECK_EQ(result.cta_stride, 1);
	ttgir_result_fini(&result);
}

TEST(loads_in_loops_cost_more_than_stores)
{
	insert("    %last = arith.constant 60 : i32\n    " LOOP "      " LOAD
	       " loc(\"k.py\":2:1)\n      tt.store %p, %1 : " POINTERS
	       " loc(\"k.py\":3:1)\n    } loc(\"k.py\":1:1)\n",
	       "default:auto=loads,stores:budget=2");
	CHECK(has("store@k.py:3") && !has("load@k.py:2"));
	ttgir_result_fini(&result);
}

/* Both cost the same. */
TEST(details_come_last)
{
	insert("    %1 = ttg.convert_layout %a : tensor<4096xf32, #x> -> tensor<4096xf32, #y>"
	       " loc(\"k.py\":1:1)\n"
	       "    tt.store %p, %1 : tensor<4096x!tt.ptr<f32>> loc(\"k.py\":2:1)\n",
	       "default:auto=convert,stores:budget=1:cta=2");
	CHECK(has("store@k.py:2") && !has("convert@k.py:1"));
	ttgir_result_fini(&result);
}

TEST(details_in_loops_with_loads_cost_more)
{
	const char *rest = "      %2 = ttg.convert_layout %1 : tensor<128x64xf16, #x> -> "
			   "tensor<128x64xf16, #y> loc(\"k.py\":3:1)\n"
			   "      tt.store %p, %2 : " POINTERS " loc(\"k.py\":4:1)\n"
			   "    } loc(\"k.py\":1:1)\n";
	char body[1024];

	snprintf(body, sizeof(body),
		 "    %%last = arith.constant 60 : i32\n    "
		 "scf.for %%i = %%first to %%last step %%step : i32 {\n"
		 "%s",
		 rest);
	insert(body, "default:auto=convert,stores:budget=2");
	CHECK(has("store@k.py:4") && has("convert@k.py:3"));
	snprintf(body, sizeof(body),
		 "    %%last = arith.constant 60 : i32\n    "
		 "scf.for %%i = %%first to %%last step %%step : i32 {\n"
		 "      %%1 = tt.load %%p : " POINTERS " loc(\"k.py\":2:1)\n%s",
		 rest);
	insert(body, "default:auto=convert,stores:budget=2");
	CHECK(has("store@k.py:4") && !has("convert@k.py:3"));
	ttgir_result_fini(&result);
}

/* LLVM unrolls it, and the loads of all iterations are in flight at once. */
TEST(unrolled_loops_with_loads_cost_a_share_of_their_time)
{
	static const char body[] = LOOP "      " LOAD
					"\n    } loc(\"k.py\":1:1)\n    tt.store %p, %1 : " POINTERS
					" loc(\"k.py\":3:1)\n";
	char both[2048];

	snprintf(both, sizeof(both), "    %%last = arith.constant 16 : i32\n    %s", body);
	insert(both, "default:auto=loops,stores");
	CHECK(!has("loop@k.py:1") && has("store@k.py:3"));
	CHECK_HAS(result.note, "loop@k.py:1; the others cost ");
	insert(both, "default:auto=loops,stores:budget=50");
	CHECK(has("loop@k.py:1") && has("store@k.py:3"));
	/* With more iterations, or an unknown number, it stays a loop. */
	snprintf(both, sizeof(both), "    %%last = arith.constant 1600 : i32\n    %s", body);
	insert(both, "default:auto=loops,stores");
	CHECK(has("loop@k.py:1"));
	insert(body, "default:auto=loops,stores");
	CHECK(has("loop@k.py:1"));
	ttgir_result_fini(&result);
}

#define OTHER_LOOP "    scf.for %j = %a to %b step %c : i32 {\n"

/* Two reductions after a load in a loop up to `last`; `middle` and `end` are around them. */
static bool keeps_both_reductions(const char *last, const char *middle, const char *end)
{
	char body[2048];

	snprintf(body, sizeof(body), "    %%last = arith.constant %s : i32\n    %s%s\n%s%s%s", last,
		 LOOP, LOAD, middle,
		 "    %3 = \"tt.reduce\"(%2) : (tensor<4096xf32, #x>) -> f32 loc(\"k.py\":3:1)\n"
		 "    %4 = \"tt.reduce\"(%2) : (tensor<4096xf32, #x>) -> f32 loc(\"k.py\":4:1)\n",
		 end);
	insert(body, "default:auto=reduce:budget=20");
	CHECK(has("reduce@k.py:4"));
	return has("reduce@k.py:3");
}

/* The clock read before it ends the instructions of the loop, like that after the loop's scope. */
TEST(details_after_unrolled_loops_cost_as_much_as_the_loops)
{
	/* Not the second one: the warps have waited for each other before. */
	CHECK(!keeps_both_reductions("16", "    }\n", ""));
	/* With more iterations it stays a loop. */
	CHECK(keeps_both_reductions("1600", "    }\n", ""));
	CHECK(keeps_both_reductions("16", "    }\n" OTHER_LOOP, "    }\n"));
	CHECK(keeps_both_reductions("16", OTHER_LOOP, "    }\n    }\n"));
	ttgir_result_fini(&result);
}

TEST(loops_without_dots_are_assumed_to_be_short)
{
	struct kernel_cost cost = cost_of("    " LOOP "      " LOAD "\n    }\n    " LOOP
					  "      " LOOP "      " DOT "\n    }\n    }\n");

	CHECK_LE(cost.regions[1].trips, 4);
	CHECK_LE(8, cost.regions[2].trips);
	CHECK_EQ(cost.regions[3].trips, cost.regions[2].trips);
	kernel_cost_fini(&cost);
}

/* Ring buffers are copied at the end of a CTA; sums are few bytes. */
TEST(with_sums_more_ctas_record)
{
	static const char body[] = "    " LOOP "      " LOAD
				   " loc(\"k.py\":2:1)\n    } loc(\"k.py\":1:1)\n";
	uint32_t stride;

	insert(body, "default:auto=loads:tree=records");
	stride = result.cta_stride;
	insert(body, "default:auto=loads");
	CHECK(result.cta_stride < stride);
	ttgir_result_fini(&result);
}

/* ------------------------------------------------------------------ registers */

/* 64 and 16 registers of a thread, and less than one. */
static const char tensors[] =
	"    %1 = tt.load %p : tensor<128x128x!tt.ptr<f16>> loc(\"k.py\":1:1)\n"
	"    %2 = tt.load %p : tensor<64x64x!tt.ptr<f16>> loc(\"k.py\":2:1)\n"
	"    " LOOP "      " DOT " loc(\"k.py\":4:1)\n    } loc(\"k.py\":3:1)\n"
	"    tt.store %p, %1 : tensor<64x!tt.ptr<f16>> loc(\"k.py\":5:1)\n";

static void insert_with(uint32_t registers_less, const char *without)
{
	how.registers_less = registers_less;
	how.without = slice_of(without);
	how.costs = slice_of("3 CTAs");
	insert(tensors, "default:auto=all:budget=100");
	how = (struct ttgir_insertion){.spelling = TTGIR_MARKERS};
}

TEST(scopes_with_large_tensors_are_omitted_for_their_registers)
{
	insert_with(0, "");
	CHECK_EQ(result.scope_count, 5);
	CHECK(!result.note);
	/* 128 x 64 and 64 x 128 operands of 16 bits: 64 registers too. */
	insert_with(40, "");
	CHECK(has("dot@k.py:4") && !has("load@k.py:1") && has("load@k.py:2"));
	insert_with(60, "");
	CHECK(!has("dot@k.py:4") && !has("load@k.py:1") && has("load@k.py:2"));
	CHECK(has("loop@k.py:3") && has("store@k.py:5"));
	CHECK_STR(result.note, "2 of 5 automatic scopes were omitted, because with more its scopes "
			       "would cost 3 CTAs: load@k.py:1, dot@k.py:4; for more, set "
			       "budget=off");
	insert_with(100, "");
	CHECK_EQ(result.scope_count, 1);
	CHECK(has("loop@k.py:3"));
	ttgir_result_fini(&result);
}

TEST(loops_inside_are_omitted_before_those_around)
{
	static const char nest[] = "    " LOOP "      " LOOP "        " LOOP "          " DOT
				   " loc(\"k.py\":4:1)\n        } loc(\"k.py\":3:1)\n"
				   "      } loc(\"k.py\":2:1)\n    } loc(\"k.py\":1:1)\n";

	how.registers_less = 100;
	for (uint32_t levels = 0; levels <= 3; levels++) {
		how.loop_levels = levels;
		insert(nest, "default:auto=all:budget=100");
		CHECK_EQ(result.scope_count, levels ? levels : 3);
		CHECK(has("loop@k.py:1") && !has("dot@k.py:4"));
		CHECK_EQ(has("loop@k.py:2"), levels != 1);
	}
	how = (struct ttgir_insertion){.spelling = TTGIR_MARKERS};
	ttgir_result_fini(&result);
}

TEST(the_scope_with_the_fewest_registers_remains)
{
	insert_with(100, "loop@k.py:3");
	CHECK_EQ(result.scope_count, 1);
	CHECK(has("store@k.py:5"));
	insert_with(100, "loop@k.py:3\nstore@k.py:5\nload@k.py:22");
	CHECK_EQ(result.scope_count, 1);
	CHECK(has("load@k.py:2"));
	insert_with(100, "loop@k.py:3\nstore@k.py:5\nload@k.py:2\nload@k.py:1\ndot@k.py:4\n");
	CHECK_EQ(result.scope_count, 0);
	CHECK_HAS(result.note, "5 of 5 automatic scopes were omitted");
	ttgir_result_fini(&result);
}

TEST(scopes_that_take_little_time_replace_those_that_need_registers)
{
	/* The dot comes before the stores, which then have no time left. */
	insert(products, "default:auto=all:budget=8");
	CHECK(has("dot@k.py:3") && !has("async_copy@k.py:5"));
	how.without = slice_of("dot@k.py:3\nasync_wait@k.py:2");
	insert(products, "default:auto=all:budget=8");
	how.without = (struct slice){0};
	CHECK(!has("dot@k.py:3") && has("dot_wait@k.py:4") && has("async_copy@k.py:5"));
	ttgir_result_fini(&result);
}

TEST(text_without_operations_stays)
{
	insert("", "default:auto=all:budget=5");
	CHECK(!result.text && !result.note);
	ttgir_result_fini(&result);
}
