/*
 * LLVM IR instrumentation pass: layouts, record plans, and whole texts compared with
 * tests/data/instrument (INSTRUMENT_GOLDEN=write in the environment rewrites them).
 */
#include "unit/growth.h"
#include "unit/tap.h"

#include "intra/llvm/ir_module.h"
#include "intra/llvm/llvm_pass.h"
#include "intra/llvm/record_plan.h"
#include "intra/llvm/sum_plan.h"

#define NVIDIA                                                                                     \
	"define ptx_kernel void @k(i32 %0, ptr addrspace(1) nofree readnone captures(none) %1) "   \
	"#0 {\n"
#define AMD "define amdgpu_kernel void @k(i32 %0, ptr addrspace(1) nofree readnone %1) #0 {\n"
#define MARK(result, kind, name)                                                                   \
	"  " result " = tail call i32 asm sideeffect \"// proton.record " kind " " name            \
	"\", \"=r\"() #1\n"
#define EVENT(result, kind, name)                                                                  \
	"  " result " = tail call i32 asm sideeffect \"// proton.event " kind " " name             \
	"\", \"=r\"() #1\n"
#define END "}\n"

static struct instrument_options default_options(void)
{
	return (struct instrument_options){
		.arch = "sm_90",
		.warp_count = 4,
		.threads_per_warp = 32,
		.shared_limit = 232448,
		.shared_per_processor = 233472,
	};
}

/* A function and its plan; the text is a literal. */
struct planned {
	struct ir_function function;
	struct instrument_layout layout;
	struct plan plan;
};

static struct planned plan_of(const char *text)
{
	struct planned p = {0};
	struct proton_error err;

	CHECK_OK(ir_module_read(text, strlen(text), &p.function, &err), err);
	CHECK_OK(plan_make(&p.function, &p.layout, &p.plan, &err), err);
	return p;
}

static void planned_fini(struct planned *p)
{
	plan_fini(&p->plan);
	layout_fini(&p->layout);
	ir_module_fini(&p->function);
}

static enum instrument_kind kind_at(const struct planned *p, uint32_t marker)
{
	return (enum instrument_kind)p->layout.codes[p->plan.sites[marker].code].kind;
}

static struct instrument_result pass(const char *text, const struct instrument_options *options)
{
	struct instrument_result result;
	struct proton_error err;

	CHECK_OK(instrument_llvm(text, strlen(text), options, &result, &err), err);
	return result;
}

/* The status; its message is in `err`. */
static int refusal(const char *text, const struct instrument_options *options,
		   struct proton_error *err)
{
	struct instrument_result result;
	int status = instrument_llvm(text, strlen(text), options, &result, err);

	CHECK_NE(status, PROTON_OK);
	CHECK(!result.text && !result.layout.scopes);
	return status;
}

/* ------------------------------------------------------------------ layouts */

static void some_layout(struct instrument_layout *layout)
{
	*layout = (struct instrument_layout){
		.unit_count = 2,
		.warps_per_unit = 4,
		.warp_count = 8,
		.ring_bytes = 4096,
		.slack_bytes = 24,
		.cta_bytes = 8448,
		.cta_stride = 3,
		.is_amd = true,
		.units = {0, 4},
	};
	layout_code(layout, layout_scope(layout, "a\nb\\c", 5), INSTRUMENT_SCOPE);
	layout_code(layout, layout_scope(layout, "load", 4), INSTRUMENT_START);
	layout_code(layout, layout_scope(layout, "load", 4), INSTRUMENT_END);
	layout->warning = strdup("2 of 3 scopes \\ \"omitted\"");
}

TEST(layout_round_trip)
{
	struct instrument_layout layout;
	struct instrument_layout again;
	struct proton_error err;
	struct out out;

	some_layout(&layout);
	CHECK_EQ(layout.scope_count, 2);
	out_init(&out, -1);
	layout_write(&layout, &out);
	CHECK_OK(layout_read(out.bytes, out.length, &again, &err), err);
	CHECK_EQ(again.unit_count, 2);
	CHECK_EQ(again.units[1], 4);
	CHECK_EQ(again.warps_per_unit, 4);
	CHECK_EQ(again.warp_count, 8);
	CHECK_EQ(again.ring_bytes, 4096);
	CHECK_EQ(again.slack_bytes, 24);
	CHECK_EQ(again.cta_bytes, 8448);
	CHECK_EQ(again.cta_stride, 3);
	CHECK(again.is_amd);
	CHECK_STR(again.scopes[0], "a\nb\\c");
	CHECK_STR(again.warning, layout.warning);
	CHECK_EQ(again.code_count, 3);
	CHECK_MEM(again.codes, layout.codes, sizeof(layout.codes));
	CHECK_EQ(layout_ring_at(&again, 1), 128 + 4096 + 24);
	layout_fini(&again);
	layout_fini(&layout);
	out_fini(&out);
}

TEST(corrupt_layout_is_rejected)
{
	static const char *const damage[][2] = {
		{"proton-instrument 1", "proton-instrument 2"},
		{"vendor amd", "vendor x"},
		{"warps 8", "warps 33"},
		{"warps_per_unit 4", "warps_per_unit 0"},
		{"warps_per_unit 4", "warps_per_unit 9"},
		{"ring 4096", "ring 4095"},
		{"ring 4096", "ring 99999999999"},
		{"slack 24", "slack 23"},
		{"slack 24", "slack 8192"},
		{"cta 8448", "cta 8192"},
		{"cta 8448", "cta 8449"},
		{"cta_stride 3", "cta_stride 0"},
		{"units 0 4", "units"},
		{"units 0 4", "units 4 0"},
		{"units 0 4", "units 0 8"},
		{"units 0 4", "units 0 4 x"},
		{"scope load", "scope "},
		{"scope load", "scope a\\nb\\\\c"},
		{"scope load", "scope a\\"},
		{"code 1 1", "code 2 1"},
		{"code 1 1", "code 1 5"},
		{"code 1 1", "code 0 0"},
	};
	struct instrument_layout layout;
	struct proton_error err;
	struct out out;
	char text[1024];
	size_t length;

	some_layout(&layout);
	out_init(&out, -1);
	layout_write(&layout, &out);
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		const char *at = memmem(out.bytes, out.length, damage[i][0], strlen(damage[i][0]));
		struct instrument_layout again;

		CHECK(at);
		length = (size_t)snprintf(
			text, sizeof(text), "%.*s%s%.*s", (int)(at - out.bytes), out.bytes,
			damage[i][1],
			(int)(out.length - (size_t)(at - out.bytes) - strlen(damage[i][0])),
			at + strlen(damage[i][0]));
		if (layout_read(text, length, &again, &err) != PROTON_E_FORMAT)
			FAIL("\"%s\" was accepted", damage[i][1]);
	}
	/* Truncated anywhere, it is rejected or gives a layout with fewer codes. */
	for (length = 0; length < out.length; length++) {
		struct instrument_layout again;

		if (layout_read(out.bytes, length, &again, &err) == PROTON_OK) {
			CHECK(again.code_count <= layout.code_count);
			layout_fini(&again);
		}
	}
	layout_fini(&layout);
	out_fini(&out);
}

/* ------------------------------------------------------------------ record plans */

TEST(a_pair_in_one_block_is_one_record)
{
	struct planned p = plan_of(NVIDIA MARK("%3", "start", "a") "  call void @f()\n" MARK(
		"%4", "end", "a") "  ret void\n" END);

	CHECK_EQ(p.plan.record_count, 1);
	CHECK(!p.plan.sites[0].stores);
	CHECK_EQ(p.plan.sites[1].start, 0);
	CHECK_EQ(kind_at(&p, 1), INSTRUMENT_SCOPE);
	CHECK_EQ(p.plan.blocks[1].used, 8); /* at the end of the kernel */
	planned_fini(&p);
}

TEST(a_pair_across_blocks_is_two_records)
{
	struct planned p = plan_of(NVIDIA MARK("%3", "start", "a") "  br label %4\n\n4:\n" MARK(
		"%5", "end", "a") "  ret void\n" END);

	CHECK_EQ(p.plan.record_count, 2);
	CHECK_EQ(kind_at(&p, 0), INSTRUMENT_START);
	CHECK_EQ(kind_at(&p, 1), INSTRUMENT_END);
	CHECK_EQ(p.plan.blocks[1].used, 8);
	CHECK_EQ(p.plan.blocks[2].used, 16);
	planned_fini(&p);
}

TEST(end_pairs_with_latest_open_start)
{
	struct planned p = plan_of(
		NVIDIA MARK("%3", "end", "a") MARK("%4", "start", "a") MARK("%5", "start", "b")
			MARK("%6", "start", "a") MARK("%7", "end", "a") MARK("%8", "end", "b")
				MARK("%9", "end", "a") "  ret void\n" END);

	CHECK_EQ(kind_at(&p, 0), INSTRUMENT_END);
	CHECK_EQ(kind_at(&p, 1), INSTRUMENT_START);
	CHECK_EQ(p.plan.sites[4].start, 3);
	CHECK_EQ(p.plan.sites[5].start, 2);
	CHECK_EQ(p.plan.sites[6].start, PLAN_NONE);
	CHECK_EQ(kind_at(&p, 6), INSTRUMENT_END);
	CHECK_EQ(p.plan.record_count, 5);
	CHECK_EQ(p.plan.group_max, 5);
	for (uint32_t i = 0, slot = 0; i < 7; i++)
		if (p.plan.sites[i].stores)
			CHECK_EQ(p.plan.sites[i].slot, slot++);
	planned_fini(&p);
}

TEST(events_are_never_paired)
{
	struct planned p = plan_of(NVIDIA EVENT("%3", "start", "a") MARK("%4", "start", "a")
					   EVENT("%5", "end", "a") "  ret void\n" END);

	CHECK_EQ(p.plan.record_count, 3);
	CHECK_EQ(kind_at(&p, 0), INSTRUMENT_EVENT_START);
	CHECK_EQ(kind_at(&p, 1), INSTRUMENT_START);
	CHECK_EQ(kind_at(&p, 2), INSTRUMENT_EVENT_END);
	CHECK_EQ(p.layout.scope_count, 1);
	planned_fini(&p);
}

TEST(adjacent_markers_share_a_clock_read_unless_a_scope_becomes_empty)
{
	struct planned p = plan_of(NVIDIA MARK("%3", "start", "a") MARK("%4", "start", "b")
					   MARK("%5", "end", "b") MARK("%6", "end", "a")
						   MARK("%7", "start", "c") "  ret void\n" END);

	CHECK_EQ(p.plan.sites[0].clock, 0);
	CHECK_EQ(p.plan.sites[1].clock, 0);
	CHECK_EQ(p.plan.sites[2].clock, 2);
	CHECK_EQ(p.plan.sites[3].clock, 2);
	CHECK_EQ(p.plan.sites[4].clock, 2);
	planned_fini(&p);
}

/* clang-format off */
#define LOOP                                                                                       \
	"  br label %loop\n\nloop:\n"                                                              \
	"  %p = phi i32 [ 0, %2 ], [ %n, %loop ]\n"                                                \
	MARK("%3", "start", "l")                                                                   \
	"  %x = add i32 %p, 2\n"                                                                   \
	MARK("%4", "end", "l")                                                                     \
	"  %n = add i32 %p, 1\n"                                                                   \
	"  %c = icmp slt i32 %n, %0\n"                                                             \
	"  br i1 %c, label %loop, label %done\n\ndone:\n"
#define BRANCH(first, second, third)                                                               \
	MARK(first, "start", "a")                                                                  \
	"  br i1 true, label %m, label %e\n\nm:\n"                                                 \
	MARK(second, "end", "a")                                                                   \
	"  br label %e\n\ne:\n"                                                                    \
	MARK(third, "start", "b")                                                                  \
	"  ret void\n" END
/* clang-format on */

TEST(loop_has_a_phi_and_its_exit_takes_over_the_value)
{
	struct planned p = plan_of(NVIDIA LOOP "  ret void\n" END);

	CHECK_EQ(p.function.block_count, 3);
	CHECK_EQ(p.plan.blocks[1].used, PLAN_VARIES);
	CHECK(p.plan.blocks[1].has_phi);
	CHECK_EQ(p.plan.blocks[1].predecessor_count, 2);
	CHECK_EQ(p.plan.blocks[2].used, PLAN_VARIES);
	CHECK(!p.plan.blocks[2].has_phi);
	CHECK_EQ(p.plan.blocks[2].source, 1);
	CHECK_EQ(p.plan.blocks[3].source, 1);
	planned_fini(&p);
}

TEST(a_loop_without_markers_needs_no_phi)
{
	struct planned p = plan_of(
		NVIDIA MARK("%3", "start", "a") "  br label %loop\n\nloop:\n  br i1 true, "
						"label %loop, label %done\n\ndone:\n" MARK(
							"%4", "end", "a") "  ret void\n" END);

	CHECK_EQ(p.plan.blocks[1].used, 8);
	CHECK_EQ(p.plan.blocks[2].used, 8);
	CHECK_EQ(p.plan.blocks[3].used, 16);
	planned_fini(&p);
}

/* The start is the first marker of the kernel, and its end is in the next block, of a loop. */
TEST(sum_with_extremes_keeps_the_clock_of_a_start_in_another_block)
{
	struct planned p = plan_of(
		NVIDIA "  br label %loop\n\nloop:\n" MARK(
			"%3", "start",
			"l") "  br i1 true, label %m, label %m\n\nm:\n" MARK("%4", "end", "l")
			MARK("%5", "start", "s")
				MARK("%6", "end",
				     "s") "  br i1 true, label %loop, label %done\n\ndone:\n"
					  "  ret void\n" END);
	struct sum_plan sums;
	struct proton_error err;
	uint32_t kinds[SUM_MAX + 1][2] = {0};

	CHECK_OK(sum_plan_make(&p.function, &p.plan, true, &p.layout, &sums, &err), err);
	CHECK_STR(sums.reason, "");
	CHECK_EQ(p.layout.sum_count, 2);
	for (uint32_t v = 0; v < sums.variable_count; v++)
		if (sums.variables[v].kind != SUM_COUNTER)
			kinds[sums.variables[v].kind][sums.variables[v].index]++;
	for (uint32_t sum = 0; sum < 2; sum++) {
		CHECK_EQ(kinds[SUM_CYCLES][sum], 1);
		CHECK_EQ(kinds[SUM_MIN][sum], 1);
		CHECK_EQ(kinds[SUM_MAX][sum], 1);
		CHECK_EQ(kinds[SUM_BEGIN][sum], sum == 0); /* "s" starts and ends in a block */
		CHECK_EQ(sums.begins[sum], sum == 0);
	}
	sum_plan_fini(&sums);
	planned_fini(&p);
}

#define SWITCH                                                                                     \
	MARK("%3", "start", "a")                                                                   \
	"  switch i32 %0, label %9 [\n    i32 0, label %9\n    i32 1, label %5\n  ]\n\n5:\n" MARK( \
		"%6", "end", "a") "  br label %9\n\n9:\n" MARK("%10", "start",                     \
							       "z") "  ret void\n" END

TEST(switch_has_one_phi_value_per_edge)
{
	struct planned p = plan_of(NVIDIA SWITCH);

	CHECK_EQ(p.function.blocks[0].successor_count, 3);
	CHECK_EQ(p.plan.blocks[2].predecessor_count, 3);
	CHECK(p.plan.blocks[2].has_phi);
	planned_fini(&p);
}

TEST(phi_has_the_predecessor_of_each_edge)
{
	struct instrument_options options = default_options();
	struct instrument_result result = pass(NVIDIA SWITCH, &options);

	CHECK_HAS(result.text, "  %proton.i.2 = phi i32 [ 8, %2 ], [ 8, %2 ], [ 16, %5 ]\n");
	instrument_result_fini(&result);
}

TEST(returns_branch_to_a_common_end)
{
	struct instrument_options options = default_options();
	struct instrument_result result = pass(
		NVIDIA MARK("%3", "start", "a") "  br i1 true, label %4, label %6\n\n4:\n" MARK(
			"%5", "end", "a") "  ret void, !dbg !4\n\n6:\n  ret void\n" END,
		&options);
	const char *first;

	CHECK_HAS(result.text, "  %proton.i.3 = phi i32 [ 16, %4 ], [ 8, %6 ]\n");
	first = strstr(result.text, "  ret void");
	CHECK(first && !strstr(first + 1, "  ret void"));
	instrument_result_fini(&result);
}

TEST(unreachable_blocks_are_harmless)
{
	struct planned p = plan_of(
		NVIDIA MARK("%3", "start", "a") "  br label %7\n\n4:\n" MARK("%5", "start", "dead")
			MARK("%6", "start", "dead") "  br label %7\n\n7:\n" MARK(
				"%8", "end", "a") "  ret void\n\n9:\n  br label %9\n" END);

	CHECK_EQ(p.plan.blocks[1].used, PLAN_UNREACHED);
	CHECK_EQ(p.plan.blocks[2].used, 8);
	CHECK_EQ(p.plan.blocks[3].used, PLAN_UNREACHED);
	CHECK_EQ(p.plan.blocks[4].used, 16);
	planned_fini(&p);
}

TEST(an_entry_may_have_a_label)
{
	struct instrument_options options = default_options();
	struct instrument_result result =
		pass("define ptx_kernel void @k(ptr addrspace(1) %b) {\nentry:\n" BRANCH("%0", "%1",
											 "%2"),
		     &options);

	CHECK_HAS(result.text, "%proton.i.2 = phi i32 [ 8, %entry ], [ 16, %m ]\n");
	instrument_result_fini(&result);
	result = pass("define ptx_kernel void @k(ptr addrspace(1) %b) {\n" BRANCH("%1", "%2", "%3"),
		      &options);
	CHECK_HAS(result.text, "%proton.i.2 = phi i32 [ 8, %0 ], [ 16, %m ]\n");
	instrument_result_fini(&result);
}

/* ------------------------------------------------------------------ parsing */

TEST(text_without_markers_is_unchanged)
{
	struct instrument_options options = default_options();
	static const char *const texts[] = {
		"",
		"not LLVM IR at all",
		NVIDIA "  ret void\n" END,
		"; // proton.record start a\n" NVIDIA "  ret void\n" END,
		NVIDIA "  %3 = tail call i32 asm sideeffect \"// proton.recorder\", \"=r\"()\n"
		       "  ret void\n" END,
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct instrument_result result = pass(texts[i], &options);

		CHECK(!result.text);
		CHECK_EQ(result.record_count, 0);
		CHECK_EQ(result.ignored_markers, 0);
		instrument_result_fini(&result);
	}
}

TEST(markers_in_functions_without_records_are_counted)
{
	struct instrument_options options = default_options();
	struct instrument_result result =
		pass(NVIDIA "  call void @h()\n  ret void\n}\n\ndefine void @h() {\n" MARK(
			     "%1", "start", "a") MARK("%2", "end", "a") "  ret void\n" END,
		     &options);

	CHECK(!result.text);
	CHECK_EQ(result.ignored_markers, 2);
	instrument_result_fini(&result);
}

TEST(ir_that_cannot_be_parsed_is_rejected)
{
	struct instrument_options options = default_options();
	struct proton_error err;
	static const char *const bodies[] = {
		"  switch i32 %0, label %9 [\n    i32 0, label %9\n" END,
		"  br label %missing\n" END,
		"  br label %a\n\na:\n  ret void\n\na:\n  ret void\n" END,
		"  invoke void @f() to label %a unwind label %a\n\na:\n  ret void\n" END,
		"  ret void\n  ret void\n" END,
		"a:\n" END,
		"",
	};
	char text[1024];

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		snprintf(text, sizeof(text), "%s%s%s", NVIDIA, MARK("%3", "start", "a"), bodies[i]);
		CHECK_EQ(refusal(text, &options, &err), PROTON_E_UNSUPPORTED);
	}
	CHECK_EQ(refusal(NVIDIA
			 "  ret void\n" END NVIDIA MARK("%3", "start", "a") "  ret void\n" END,
			 &options, &err),
		 PROTON_E_UNSUPPORTED);
	CHECK_HAS(err.text, "more than one kernel");
	CHECK_EQ(refusal("define ptx_kernel void @k(i32 %0) {\n" MARK("%2", "start",
								      "a") "  ret void\n" END,
			 &options, &err),
		 PROTON_E_UNSUPPORTED);
	CHECK_HAS(err.text, "no parameter for the profile's buffer");
	CHECK_EQ(refusal("e:\n" MARK("%2", "start", "a") "  ret void\n" END, &options, &err),
		 PROTON_E_UNSUPPORTED);
	CHECK_HAS(err.text, "no kernel");
	CHECK_EQ(refusal("define ptx_kernel void @k(ptr addrspace(1) %b) {\ne:\n" MARK(
				 "%2", "start", "a") "  br label %e\n" END,
			 &options, &err),
		 PROTON_E_UNSUPPORTED);
}

TEST(too_many_scopes_are_rejected)
{
	struct instrument_options options = default_options();
	struct proton_error err;
	struct out out;
	char *text;
	size_t length;

	for (uint32_t count = 255; count <= 256; count++) {
		struct instrument_result result;

		out_init(&out, -1);
		out_text(&out, NVIDIA);
		for (uint32_t i = 0; i < count; i++)
			out_printf(&out, MARK("%%%u", "start", "s%u"), i + 3, i);
		out_text(&out, "  ret void\n" END);
		text = out_take(&out, &length);
		out_fini(&out);
		if (count == 256) {
			CHECK_EQ(refusal(text, &options, &err), PROTON_E_UNSUPPORTED);
			CHECK_HAS(err.text, "255 combinations");
		} else {
			CHECK_OK(instrument_llvm(text, length, &options, &result, &err), err);
			CHECK_EQ(result.record_count, 255);
			instrument_result_fini(&result);
		}
		free(text);
	}
}

TEST(buffer_parameter_loses_read_only_attributes)
{
	struct instrument_options options = default_options();
	struct instrument_result result = pass(
		"define ptx_kernel void @\"k(%x\"(ptr addrspace(1) readnone captures(none) %0, "
		"ptr addrspace(1) nofree readnone captures(none) %1) #0 {\n" MARK(
			"%3", "start", "a") "  ret void\n" END,
		&options);

	CHECK_HAS(result.text, "(ptr addrspace(1) readnone captures(none) %0, "
			       "ptr addrspace(1) nofree %1) #0 {\n");
	CHECK_HAS(result.text, "@global_smem = external addrspace(3) global [0 x i8], align 16\n");
	instrument_result_fini(&result);
}

/* ------------------------------------------------------------------ options and sizes */

#define ENDLESS NVIDIA LOOP "  ret void\n" END

TEST(invalid_options_are_rejected)
{
	struct proton_error err;
	struct instrument_options options = default_options();

	options.warps = 1u << 4;
	CHECK_EQ(refusal(ENDLESS, &options, &err), PROTON_E_INVALID);
	CHECK_STR(err.text, "sampling_options selects warp 4, but the kernel has only 4 warps");
	options = default_options();
	options.warp_count = 0;
	CHECK_EQ(refusal(ENDLESS, &options, &err), PROTON_E_INVALID);
	options.warp_count = 33;
	CHECK_EQ(refusal(ENDLESS, &options, &err), PROTON_E_INVALID);
	options = default_options();
	options.threads_per_warp = 16;
	CHECK_EQ(refusal(ENDLESS, &options, &err), PROTON_E_INVALID);
	options = default_options();
	options.buffer_bytes = 31;
	CHECK_EQ(refusal(ENDLESS, &options, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "buffer_size 31 is too small");
}

TEST(units_are_the_first_warps_of_sampled_groups)
{
	struct instrument_options options = default_options();
	struct instrument_result result;

	options.warp_count = 32;
	options.warps_per_unit = 8;
	options.warps = 1ull << 31 | 1ull << 9;
	result = pass(ENDLESS, &options);
	CHECK_EQ(result.layout.unit_count, 2);
	CHECK_EQ(result.layout.units[0], 8);
	CHECK_EQ(result.layout.units[1], 24);
	CHECK_EQ(result.layout.warps_per_unit, 8);
	instrument_result_fini(&result);
	options.warps = 0;
	options.warps_per_unit = 100;
	result = pass(ENDLESS, &options);
	CHECK_EQ(result.layout.unit_count, 1);
	CHECK_EQ(result.layout.warps_per_unit, 32);
	instrument_result_fini(&result);
}

static void check_fits(const struct instrument_result *result)
{
	const struct instrument_layout *layout = &result->layout;

	CHECK(layout->ring_bytes && (layout->ring_bytes & (layout->ring_bytes - 1)) == 0);
	CHECK(layout->slack_bytes <= layout->ring_bytes);
	CHECK(layout_ring_at(layout, layout->unit_count) <= layout->cta_bytes);
	CHECK_EQ(layout->cta_bytes % 128, 0);
}

TEST(buffer_has_the_requested_size)
{
	struct instrument_options options = default_options();
	struct instrument_result result;

	options.buffer_bytes = 16384;
	options.shared_bytes = 1000;
	result = pass(ENDLESS, &options);
	CHECK_EQ(result.buffer, INSTRUMENT_BUFFER_SHARED);
	CHECK_EQ(result.layout.ring_bytes, 4096);
	CHECK_EQ(result.shared_bytes, 1008 + 4 * (48 + 4096)); /* each with its header */
	check_fits(&result);
	instrument_result_fini(&result);
	options.buffer = INSTRUMENT_BUFFER_GLOBAL;
	result = pass(ENDLESS, &options);
	CHECK_EQ(result.buffer, INSTRUMENT_BUFFER_GLOBAL);
	CHECK_EQ(result.shared_bytes, 1000);
	CHECK(!strstr(result.text, "@global_smem"));
	check_fits(&result);
	instrument_result_fini(&result);
}

TEST(ring_buffers_do_not_reduce_occupancy)
{
	struct instrument_options options = default_options();

	for (uint32_t shared = 0; shared < 232448; shared += 1016) {
		struct instrument_result result;
		uint32_t before;

		options.shared_bytes = shared;
		result = pass(ENDLESS, &options);
		check_fits(&result);
		CHECK(result.shared_bytes <= options.shared_limit);
		before = 233472 / (shared + 1024);
		if (before > 16)
			before = 16; /* 2048 threads */
		/* Occupancy is reduced only until ring buffers of 512 bytes fit. */
		while (before > 1 &&
		       233472 / before < 1024 + (shared + 15) / 16 * 16 + 4 * (48 + 512))
			before--;
		CHECK(233472 / (result.shared_bytes + 1024) >= before);
		instrument_result_fini(&result);
	}
}

TEST(ring_buffers_go_to_global_memory_without_shared_memory)
{
	struct instrument_options options = default_options();
	struct instrument_result result;

	options.shared_bytes = 232448 - 128;
	result = pass(ENDLESS, &options);
	CHECK_EQ(result.buffer, INSTRUMENT_BUFFER_GLOBAL);
	CHECK_EQ(result.shared_bytes, 232448 - 128);
	CHECK_EQ(result.layout.ring_bytes, 4096);
	check_fits(&result);
	instrument_result_fini(&result);
	options.shared_limit = 0; /* unknown: 48 KiB */
	options.shared_per_processor = 0;
	options.shared_bytes = 48u << 10;
	result = pass(ENDLESS, &options);
	CHECK_EQ(result.buffer, INSTRUMENT_BUFFER_GLOBAL);
	instrument_result_fini(&result);
}

TEST(kernel_without_loops_gets_a_ring_buffer_that_fits)
{
	struct instrument_options options = default_options();
	struct instrument_result result =
		pass(NVIDIA MARK("%3", "start", "a") MARK("%4", "start", "b")
			     MARK("%5", "start", "c") "  ret void\n" END,
		     &options);

	CHECK_EQ(result.layout.ring_bytes, 32);
	CHECK_EQ(result.layout.slack_bytes, 0);
	CHECK_EQ(result.shared_bytes, 4 * (48 + 32));
	instrument_result_fini(&result);
}

TEST(group_fits_into_its_ring_buffer)
{
	struct instrument_options options = default_options();
	struct out out;
	char *text;
	size_t length;
	struct instrument_result result;
	struct proton_error err;

	out_init(&out, -1);
	out_text(&out, NVIDIA "  br label %l\n\nl:\n");
	for (uint32_t i = 0; i < 2000; i++)
		out_printf(&out, MARK("%%%u", "start", "s"), i + 3);
	out_text(&out, "  br i1 true, label %l, label %e\n\ne:\n  ret void\n" END);
	text = out_take(&out, &length);
	out_fini(&out);
	for (uint32_t bytes = 0; bytes <= 4096; bytes += 4096) {
		options.buffer_bytes = bytes;
		CHECK_OK(instrument_llvm(text, length, &options, &result, &err), err);
		CHECK_EQ(result.layout.slack_bytes, 2000 * 8); /* in multiples of 16 */
		CHECK_EQ(result.layout.ring_bytes, 16384);
		check_fits(&result);
		instrument_result_fini(&result);
	}
	free(text);
}

/* ------------------------------------------------------------------ whole texts */

static char *read_data(const char *name, size_t *length)
{
	char path[512];
	char *text;
	struct proton_error err;

	snprintf(path, sizeof(path), TESTS_DIR "/data/instrument/%s", name);
	CHECK_OK(file_read_all(path, 0, &text, length, &err), err);
	return text;
}

static void check_golden(const char *input, const char *name,
			 const struct instrument_options *options)
{
	struct instrument_result result;
	struct proton_error err;
	size_t length;
	size_t expected_length;
	char *text = read_data(input, &length);
	char *expected;

	CHECK_OK(instrument_llvm(text, length, options, &result, &err), err);
	CHECK(result.text);
	if (getenv("INSTRUMENT_GOLDEN")) {
		char path[512];
		FILE *file;

		snprintf(path, sizeof(path), TESTS_DIR "/data/instrument/%s", name);
		file = fopen(path, "w");
		CHECK(file);
		fwrite(result.text, 1, result.length, file);
		fclose(file);
	}
	expected = read_data(name, &expected_length);
	CHECK_EQ(result.length, expected_length);
	CHECK_MEM(result.text, expected, expected_length);
	free(expected);
	free(text);
	instrument_result_fini(&result);
}

TEST(golden_nvidia)
{
	struct instrument_options options = default_options();

	check_golden("loop.ll", "loop.nvidia.ll", &options);
	options.warps = 1u << 2 | 1u << 3;
	options.cta_stride = 7;
	options.buffer = INSTRUMENT_BUFFER_GLOBAL;
	check_golden("loop.ll", "loop.nvidia.sampled.ll", &options);
}

TEST(golden_amd)
{
	struct instrument_options options = default_options();

	options.arch = "gfx942";
	options.threads_per_warp = 64;
	options.sched_barriers = true;
	check_golden("loop.amd.ll", "loop.amd.shared.ll", &options);
	options.warps = 1;
	options.cta_stride = 2;
	options.buffer = INSTRUMENT_BUFFER_GLOBAL;
	check_golden("loop.amd.ll", "loop.amd.sampled.ll", &options);
}

/* ------------------------------------------------------------------ time */

/* Texts that provoke quadratic work. */
static void write_adversary(struct out *out, int which, size_t bytes)
{
	out_text(out, NVIDIA);
	for (uint32_t i = 0; out->length < bytes; i++) {
		uint32_t n = i + 3;

		switch (which) {
		case 0: /* many unpaired markers in one block */
			out_printf(out, MARK("%%%u", "start", "s%u"), n, i % 200);
			break;
		case 1: /* ends without starts */
			out_printf(out, MARK("%%%u", "end", "s%u"), n, i % 60);
			break;
		case 2: /* blocks in a chain, each with an exit */
			out_printf(out,
				   MARK("%%a%u", "start", "s") "  br i1 true, label %%b%u, label "
							       "%%x\n\nb%u:\n",
				   i, i, i);
			break;
		case 3: /* a chain of blocks that take over a varying value */
			if (i == 0)
				out_text(out, "  br i1 true, label %q, label %b\n\nq:\n" MARK(
						      "%q1", "start", "s") "  br label %b\n\nb:\n");
			out_printf(out, "  br label %%b%u\n\nb%u:\n", i, i);
			break;
		case 4: /* one switch with many edges */
			if (i == 0)
				out_text(out,
					 MARK("%q1", "start", "s") "  switch i32 %0, label %x [\n");
			out_printf(out, "    i32 %u, label %%x\n", i);
			break;
		default: /* not IR */
			out_text(out, i % 2 ? "switch label %" : " = phi (\"((, // proton.");
			break;
		}
	}
	if (which == 4)
		out_text(out, "  ]\n");
	else
		out_text(out, "  br label %x\n");
	out_text(out, "\nx:\n" MARK("%z", "end", "s") "  ret void\n" END);
}

static void instrument_adversary(const char *text, size_t length, int which)
{
	struct instrument_options options = default_options();
	struct instrument_result result;
	struct proton_error err;
	int status = instrument_llvm(text, length, &options, &result, &err);

	if (which < 5)
		CHECK_OK(status, err);
	instrument_result_fini(&result);
}

TEST(time_is_linear_in_the_text)
{
	check_growth(6, write_adversary, instrument_adversary);
}
