/* LLVM IR pass: layouts, texts and their time. tests/golden/passes has kernels before and after. */
#include "unit/growth.h"
#include "unit/tap.h"

#include "intra/llvm/llvm_pass.h"

#define NVIDIA                                                                                     \
	"define ptx_kernel void @k(i32 %0, ptr addrspace(1) nofree readnone captures(none) %1) "   \
	"#0 {\n"
#define MARK(result, kind, name)                                                                   \
	"  " result " = tail call i32 asm sideeffect \"// proton.record " kind " " name            \
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

static struct instrument_result pass(const char *text, const struct instrument_options *options)
{
	struct instrument_result result;

	CHECK_DONE(instrument_llvm(text, strlen(text), options, &result, &err));
	return result;
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
	struct instrument_layout layout, again;
	struct out out;

	some_layout(&layout);
	CHECK_EQ(layout.scope_count, 2);
	out_init(&out, -1);
	layout_write(&layout, &out);
	CHECK_DONE(layout_read(out.bytes, out.length, &again, &err));
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
/* clang-format on */

/* ------------------------------------------------------------------ generated texts */

TEST(caller_of_an_instrumented_callee_is_one_too)
{
	static const char text[] = NVIDIA
		"  call void @a()\n  ret void\n" END
		"define internal void @plain() {\n  ret void\n" END
		"define internal void @a() {\n  call void @plain()\n"
		"  call void @b()\n  call void @b()\n  ret void\n" END
		"define internal void @b() {\n" MARK("%1", "start", "b") "  ret void\n" END;
	struct ir_function kernel;

	CHECK_DONE(ir_module_read(text, strlen(text), &kernel, &err));
	CHECK(kernel.callees);
	CHECK_EQ(kernel.callees->count, 2);
	CHECK_EQ(kernel.callees->call_count, 3);
	CHECK_EQ(kernel.outside_markers, 0);
	CHECK_EQ(kernel.blocks[0].call->callee, 0);
	CHECK(kernel.blocks[1].continues);
	const struct ir_function *a = &kernel.callees->functions[0];
	CHECK_EQ(a->block_count, 3);
	CHECK_EQ(a->blocks[0].call->callee, 1);
	CHECK_EQ(a->blocks[1].call->callee, 1);
	CHECK(!a->blocks[2].call);
	CHECK(a->blocks[2].is_return);
	CHECK_EQ(a->successors[a->blocks[1].first_successor], 2);
	ir_module_fini(&kernel);
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
			CHECK_EQ(instrument_llvm(text, length, &options, &result, &err),
				 PROTON_E_UNSUPPORTED);
			CHECK(!result.text && !result.layout.scopes);
			CHECK_HAS(err.text, "255 combinations");
		} else {
			CHECK_OK(instrument_llvm(text, length, &options, &result, &err), err);
			CHECK_EQ(result.record_count, 255);
			instrument_result_fini(&result);
		}
		free(text);
	}
}

#define ENDLESS NVIDIA LOOP "  ret void\n" END

static void check_fits(const struct instrument_result *result)
{
	const struct instrument_layout *layout = &result->layout;

	CHECK(layout->ring_bytes && (layout->ring_bytes & (layout->ring_bytes - 1)) == 0);
	CHECK(layout->slack_bytes <= layout->ring_bytes);
	CHECK(layout_ring_at(layout, layout->unit_count) <= layout->cta_bytes);
	CHECK_EQ(layout->cta_bytes % 128, 0);
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

TEST(group_fits_into_its_ring_buffer)
{
	struct instrument_options options = default_options();
	struct out out;
	size_t length;
	struct instrument_result result;

	out_init(&out, -1);
	out_text(&out, NVIDIA "  br label %l\n\nl:\n");
	for (uint32_t i = 0; i < 2000; i++)
		out_printf(&out, MARK("%%%u", "start", "s"), i + 3);
	out_text(&out, "  br i1 true, label %l, label %e\n\ne:\n  ret void\n" END);
	char *text = out_take(&out, &length);
	out_fini(&out);
	for (uint32_t bytes = 0; bytes <= 4096; bytes += 4096) {
		options.mode.buffer_bytes = bytes;
		CHECK_DONE(instrument_llvm(text, length, &options, &result, &err));
		CHECK_EQ(result.layout.slack_bytes, 2000 * 8); /* in multiples of 16 */
		CHECK_EQ(result.layout.ring_bytes, 16384);
		check_fits(&result);
		instrument_result_fini(&result);
	}
	free(text);
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

#define FUNCTION_BYTES 167u

/* Many functions: a chain of calls, all call one, or one calls all. */
static void write_many(struct out *out, int which, size_t bytes)
{
	uint32_t count = (uint32_t)(bytes / FUNCTION_BYTES);

	out_text(out, NVIDIA "  call void @h0()\n");
	for (uint32_t i = 1; which == 2 && i < count; i++)
		out_printf(out, "  call void @h%u()\n", i);
	out_text(out, "  ret void\n" END);
	for (uint32_t i = 0; i < count; i++) {
		/* In the last case the last function makes all others unusable. */
		out_printf(out, "define %s void @h%u() {\n", which == 3 && i == 0 ? "" : "internal",
			   i);
		out_text(out, MARK("%1", "start", "h"));
		if (i + 1 < count && which != 2)
			out_printf(out, "  call void @h%u()\n", which == 1 ? count - 1 : i + 1);
		out_text(out, "  ret void\n" END);
	}
}

static void instrument_many(const char *text, size_t length, int which)
{
	struct instrument_options options = default_options();
	struct instrument_result result;

	CHECK_DONE(instrument_llvm(text, length, &options, &result, &err));
	if (which == 3)
		CHECK_EQ(result.record_count, 0);
	else
		CHECK_LE(GROWTH_BYTES / FUNCTION_BYTES, result.record_count);
	instrument_result_fini(&result);
}

TEST(time_is_linear_in_the_number_of_callees)
{
	check_growth(4, write_many, instrument_many);
}
