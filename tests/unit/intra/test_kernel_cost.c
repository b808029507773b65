/* The predicted cost of a kernel; tests/golden/passes has the scopes that are chosen by it. */
#include "intra/ttgir/kernel_cost.h"

#include "unit/tap.h"

static struct proton_error err;
static char text[16384];

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
		const char *first, *end, *step;
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

TEST(loops_without_dots_are_assumed_to_be_short)
{
	struct kernel_cost cost = cost_of("    " LOOP "      " LOAD "\n    }\n    " LOOP
					  "      " LOOP "      " DOT "\n    }\n    }\n");

	CHECK_LE(cost.regions[1].trips, 4);
	CHECK_LE(8, cost.regions[2].trips);
	CHECK_EQ(cost.regions[3].trips, cost.regions[2].trips);
	kernel_cost_fini(&cost);
}
