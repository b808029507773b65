/*
 * Instrumented callees: how the bytes used are passed to them and returned, and which functions
 * qualify.
 */
#include "unit/growth.h"
#include "unit/tap.h"

#include "intra/llvm/ir_module.h"
#include "intra/llvm/llvm_pass.h"
#include "intra/llvm/noinline_callees.h"
#include "intra/llvm/record_plan.h"

#define KERNEL "define ptx_kernel void @k(i32 %0, ptr addrspace(1) nofree readnone %1) #0 {\n"
#define AMD "define amdgpu_kernel void @k(i32 %0, ptr addrspace(1) nofree readnone %1) #0 {\n"
#define MARK(result, kind, name)                                                                   \
	"  " result " = tail call i32 asm sideeffect \"// proton.record " kind " " name            \
	"\", \"=r\"() #1\n"
#define END "}\n\n"
#define FLOAT_HELPER                                                                               \
	"define internal fastcc float @h(float %0) unnamed_addr #1 !dbg !7 {\n" MARK(              \
		"%2", "start", "h") "  %3 = fadd float %0, 1.0\n" MARK("%4", "end",                \
								       "h") "  ret float %3, "     \
									    "!dbg !9\n" END

static struct instrument_options options_for(const char *arch)
{
	return (struct instrument_options){
		.arch = arch,
		.warp_count = 4,
		.threads_per_warp = *arch == 'g' ? 64 : 32,
		.shared_limit = 65536,
		.shared_per_processor = 65536,
	};
}

static struct instrument_result pass(const char *text, const struct instrument_options *options)
{
	struct instrument_result result;
	struct proton_error err;

	CHECK_OK(instrument_llvm(text, strlen(text), options, &result, &err), err);
	return result;
}

static struct ir_function read_text(const char *text)
{
	struct ir_function function;
	struct proton_error err;

	CHECK_OK(ir_module_read(text, strlen(text), &function, &err), err);
	return function;
}

TEST(callee_takes_and_returns_bytes_used)
{
	struct instrument_options options = options_for("sm_90");
	struct instrument_result result =
		pass(KERNEL "  %3 = tail call fastcc float @h(float 1.0), !dbg !4\n"
			    "  ret void\n" END FLOAT_HELPER,
		     &options);

	CHECK_EQ(result.record_count, 1);
	CHECK_EQ(result.ignored_markers, 0);
	CHECK_HAS(result.text,
		  "  %proton.call.1 = tail call fastcc { float, i32 } @h(float 1.0, i32 0, i32 "
		  "%proton.e.ring), !dbg !4\n"
		  "  %3 = extractvalue { float, i32 } %proton.call.1, 0\n"
		  "  %proton.given.1 = extractvalue { float, i32 } %proton.call.1, 1\n"
		  "  %proton.i.1 = add i32 %proton.given.1, 0\n"
		  "  br label %proton.fin\n");
	CHECK_HAS(result.text, "%proton.f.count = lshr i32 %proton.i.1, 3\n");
	CHECK_HAS(result.text,
		  "define internal fastcc { float, i32 } @h(float %0, i32 %proton.given.0, i32 "
		  "%proton.e.ring) unnamed_addr #1 !dbg !7 {\n"
		  "  %proton.i.0 = add i32 %proton.given.0, 0\n");
	CHECK_HAS(result.text,
		  "  %proton.value.0 = insertvalue { float, i32 } poison, float %3, 0\n"
		  "  %proton.both.0 = insertvalue { float, i32 } %proton.value.0, i32 "
		  "%proton.n.0, 1\n"
		  "  ret { float, i32 } %proton.both.0, !dbg !9\n}\n");
	CHECK(!strstr(result.text, "// proton."));
	instrument_result_fini(&result);
}

TEST(void_callee_returns_bytes_used)
{
	struct instrument_options options = options_for("gfx942");
	struct instrument_result result =
		pass("define internal void @\"h(2,)\"() #1 {\n" MARK(
			     "%1", "start", "h") "  ret void\n" END AMD
						 "  call void @\"h(2,)\"() #3\n  ret void\n" END,
		     &options);

	/* Its attributes need not fit the new type. */
	CHECK_HAS(result.text,
		  "  %proton.given.1 = call i32 @\"h(2,)\"(i32 0, ptr addrspace(3) %proton.ring)\n"
		  "  %proton.i.1 = call i32 @llvm.amdgcn.readfirstlane.i32(i32 "
		  "%proton.given.1)\n");
	CHECK_HAS(result.text,
		  "define internal i32 @\"h(2,)\"(i32 %proton.given.0, ptr addrspace(3) "
		  "%proton.ring) #1 {\n");
	CHECK_HAS(result.text, "  ret i32 %proton.n.0\n}\n");
	instrument_result_fini(&result);
}

TEST(callee_gets_the_recording_flag)
{
	struct instrument_options options = options_for("sm_90");
	struct instrument_result result;

	options.warps = 1;
	options.buffer = INSTRUMENT_BUFFER_GLOBAL;
	result = pass(KERNEL
		      "  %3 = call fastcc float @h(float 1.0)\n  ret void\n" END FLOAT_HELPER,
		      &options);
	CHECK_HAS(result.text, "@h(float 1.0, i32 0, i64 %proton.e.ring, i1 %proton.on)\n");
	CHECK_HAS(result.text, "i32 %proton.given.0, i64 %proton.e.ring, i1 %proton.on) ");
	instrument_result_fini(&result);
}

TEST(attributes_of_the_return_value_are_dropped)
{
	struct instrument_options options = options_for("sm_90");
	struct instrument_result result =
		pass(KERNEL
		     "  %3 = tail call fast fastcc noundef nofpclass(nan inf) { half, <2 x i32> "
		     "} @h(float returned 1.0), !dbg !12, !range !3\n"
		     "  ret void\n" END
		     "define internal fastcc noundef nofpclass(nan inf) { half, <2 x i32> } "
		     "@h(float noundef returned %0) #1 {\n" MARK(
			     "%2", "start", "h") "  ret { half, <2 x i32> } zeroinitializer\n" END,
		     &options);

	CHECK_HAS(result.text, " = tail call fastcc { { half, <2 x i32> }, i32 } @h(float 1.0, "
			       "i32 0, i32 %proton.e.ring), !dbg !12\n");
	CHECK_HAS(result.text, "define internal fastcc { { half, <2 x i32> }, i32 } @h(float "
			       "noundef %0, i32 %proton.given.0, i32 %proton.e.ring) #1 {\n");
	CHECK_HAS(result.text, " poison, { half, <2 x i32> } zeroinitializer, 0\n");
	instrument_result_fini(&result);
}

TEST(attributes_of_a_call_may_be_spelled_out)
{
	struct instrument_options options = options_for("sm_90");
	static const char *const after[] = {
		" #3, !dbg !4",
		" nounwind, !dbg !4",
		" convergent nounwind #3, !dbg !4",
		" nounwind memory(argmem: read) \"a\"=\"b)\" \"c\", !dbg !4",
	};

	for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
		struct instrument_result result;
		char text[2048];

		snprintf(text, sizeof(text), "%s  %%3 = call fastcc float @h(float 1.0)%s\n%s%s%s",
			 KERNEL, after[i], "  ret void\n", END, FLOAT_HELPER);
		result = pass(text, &options);
		CHECK_EQ(result.ignored_markers, 0);
		CHECK_HAS(result.text, "@h(float 1.0, i32 0, i32 %proton.e.ring), !dbg !4\n");
		instrument_result_fini(&result);
	}
}

TEST(caller_of_an_instrumented_callee_is_one_too)
{
	struct ir_function kernel = read_text(
		KERNEL "  call void @a()\n  ret void\n" END
		       "define internal void @plain() {\n  ret void\n" END
		       "define internal void @a() {\n  call void @plain()\n"
		       "  call void @b()\n  call void @b()\n  ret void\n" END
		       "define internal void @b() {\n" MARK("%1", "start", "b") "  ret void\n" END);
	const struct ir_function *a;

	CHECK(kernel.callees);
	CHECK_EQ(kernel.callees->count, 2);
	CHECK_EQ(kernel.callees->call_count, 3);
	CHECK_EQ(kernel.outside_markers, 0);
	CHECK_EQ(kernel.blocks[0].callee, 0);
	CHECK(kernel.blocks[1].continues);
	a = &kernel.callees->functions[0];
	CHECK_EQ(a->block_count, 3);
	CHECK_EQ(a->blocks[0].callee, 1);
	CHECK_EQ(a->blocks[1].callee, 1);
	CHECK_EQ(a->blocks[2].callee, IR_NAME_NONE);
	CHECK(a->blocks[2].is_return);
	CHECK_EQ(a->successors[a->blocks[1].first_successor], 2);
	ir_module_fini(&kernel);
}

TEST(recursive_callee_is_instrumented)
{
	struct instrument_options options = options_for("sm_90");
	struct instrument_result result = pass(
		KERNEL "  call void @a()\n  ret void\n" END "define internal void @a() {\n" MARK(
			"%1", "start", "a") "  br i1 true, label %2, label %3\n\n2:\n"
					    "  call void @a()\n  br label %3\n\n3:\n" MARK(
						    "%4", "end", "a") "  ret void\n" END,
		&options);

	CHECK_HAS(result.text,
		  "  %proton.i.3 = phi i32 [ %proton.n.0, %0 ], [ %proton.i.2, %2 ]\n");
	instrument_result_fini(&result);
}

TEST(code_after_a_call_keeps_its_blocks_label)
{
	struct instrument_options options = options_for("sm_90");
	struct instrument_result result = pass(
		KERNEL
		"  br i1 true, label %x, label %y\n\nx:\n"
		"  %3 = call fastcc float @h(float 1.0)\n"
		"  %4 = call fastcc float @h(float 2.0)\n"
		"  br label %y\n\ny:\n" MARK("%5", "start", "end") "  ret void\n" END FLOAT_HELPER,
		&options);

	CHECK_HAS(result.text, "@h(float 2.0, i32 %proton.i.2, ");
	CHECK_HAS(result.text, "  %proton.i.4 = phi i32 [ 0, %2 ], [ %proton.i.3, %x ]\n");
	instrument_result_fini(&result);
}

static enum instrument_kind kind_of(const char *text, uint32_t marker, uint32_t *records)
{
	struct ir_function kernel = read_text(text);
	struct instrument_layout layout = {0};
	enum instrument_kind kind;
	struct proton_error err;
	struct plan plan;

	CHECK_OK(plan_make(&kernel, &layout, &plan, &err), err);
	*records = plan.record_count;
	kind = (enum instrument_kind)layout.codes[plan.sites[marker].code].kind;
	plan_fini(&plan);
	layout_fini(&layout);
	ir_module_fini(&kernel);
	return kind;
}

TEST(a_scope_around_a_call_is_one_record)
{
	uint32_t records;

	CHECK_EQ(kind_of(KERNEL MARK("%3", "start",
				     "a") "  %4 = call fastcc float @h(float 1.0)\n"
					  "  %5 = call fastcc float @h(float 1.0)\n" MARK(
						  "%6", "end", "a") "  ret void\n" END FLOAT_HELPER,
			 1, &records),
		 INSTRUMENT_SCOPE);
	CHECK_EQ(records, 1);
}

#define CALL_H "  %4 = call fastcc float @h(float 1.0)\n"

TEST(scope_shared_with_callees_is_not_paired_across_a_call)
{
	uint32_t records;

	CHECK_EQ(kind_of(KERNEL MARK("%3", "start", "h")
				 CALL_H MARK("%5", "end", "h") "  ret void\n" END FLOAT_HELPER,
			 1, &records),
		 INSTRUMENT_END);
	CHECK_EQ(records, 2);
	/* Within a block it is one record. */
	CHECK_EQ(kind_of(KERNEL "  %3 = call fastcc float @h(float 1.0)\n" MARK("%4", "start", "h")
				 MARK("%5", "end", "h") "  ret void\n" END FLOAT_HELPER,
			 1, &records),
		 INSTRUMENT_SCOPE);
}

static uint32_t ring_of(const char *text)
{
	struct instrument_options options = options_for("sm_90");
	struct instrument_result result = pass(text, &options);
	uint32_t bytes = result.layout.ring_bytes;

	if (bytes < 512)
		CHECK_EQ(result.layout.slack_bytes, 0);
	instrument_result_fini(&result);
	return bytes;
}

#define CALLS_C "define internal void @b() {\n  call void @c()\n  call void @c()\n  ret void\n" END
#define C                                                                                          \
	"define internal void @c() {\n" MARK("%1", "start", "c")                                   \
		MARK("%2", "end", "c") "  ret void\n" END

TEST(ring_buffer_fits_the_records_of_callees)
{
	/* 5 records in all calls together, and 2 in the kernel. */
	const char *text = KERNEL MARK(
		"%3", "start", "a") "  br i1 true, label %4, label %5\n\n4:\n"
				    "  call void @b()\n  call void @b()\n  br label %5\n\n5:\n"
				    "  call void @c()\n" MARK("%6", "end",
							      "a") "  ret void\n" END CALLS_C C;

	CHECK_EQ(ring_of(text), 64);
}

TEST(callee_in_a_loop_has_no_bound)
{
	CHECK(ring_of(KERNEL
		      "  br label %l\n\nl:\n  %3 = call fastcc float @h(float 1.0)\n"
		      "  br i1 true, label %l, label %e\n\ne:\n  ret void\n" END FLOAT_HELPER) >=
	      512);
	CHECK(ring_of(KERNEL
		      "  call void @a()\n  ret void\n" END "define internal void @a() {\n" MARK(
			      "%1", "start", "a") "  call void @a()\n  ret void\n" END) >= 512);
	/* A loop without records in a callee does not matter. */
	CHECK_EQ(
		ring_of(KERNEL
			"  call void @a()\n  ret void\n" END "define internal void @a() {\n" MARK(
				"%1", "start",
				"a") "  br label %l\n\nl:\n  br i1 true, label %l, label %e\n\ne:\n"
				     "  ret void\n" END),
		16);
}

/* ------------------------------------------------------------------ rejected functions */

static void check_left_out(const char *body, const char *reason)
{
	struct instrument_options options = options_for("sm_90");
	struct instrument_result result;
	char text[2048];

	snprintf(text, sizeof(text), "%s", body);
	result = pass(text, &options);
	if (result.text || result.ignored_markers != 1)
		FAIL("was instrumented: %s", body);
	if (strcmp(result.ignored_reason, reason) != 0)
		FAIL("\"%s\" instead of \"%s\"", result.ignored_reason, reason);
	instrument_result_fini(&result);
}

#define CALL "  %3 = call float @h(float 1.0)\n"
#define HEAD "define internal float @h(float %0) {\n"
#define BODY MARK("%2", "start", "h") "  ret float %0\n" END

TEST(functions_that_cannot_be_rewritten_are_not_instrumented)
{
	check_left_out(KERNEL "  ret void\n" END HEAD BODY, "the kernel does not call h");
	check_left_out(KERNEL CALL "  ret void\n" END "define float @h(float %0) {\n" BODY,
		       "h is not private to the kernel's module");
	check_left_out(KERNEL CALL "  ret void\n" END
				   "define internal strange float @h(float %0) {\n" BODY,
		       "cannot parse the signature of h");
	check_left_out(KERNEL CALL "  ret void\n" END
				   "define internal float @h(float %0, ...) {\n" BODY,
		       "cannot parse the signature of h");
	check_left_out(KERNEL CALL
		       "  ret void\n" END HEAD MARK("%2", "start", "h") "  br label %nowhere\n" END,
		       "cannot parse the body of h");
	check_left_out(KERNEL CALL
		       "  ret void\n" END HEAD MARK("%2", "start", "h") "  ret double 0.0\n" END,
		       "cannot parse the body of h");
}

TEST(functions_with_their_address_taken_are_not_instrumented)
{
	static const char *const uses[] = {
		"  store ptr @h, ptr %5\n",
		"  call void @g(ptr @h)\n",
		"  %4 = musttail call float @h(float 1.0)\n",
		"  %4 = call float (float) @h(float 1.0)\n",
		"  %4 = call double @h(float 1.0)\n",
		"  %4 = call float @h(float 1.0) [ \"deopt\"() ]\n",
		"  call float @h(float 1.0)\n",
		"  %4 = invoke float @h(float 1.0) to label %5 unwind label %6\n",
	};

	for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
		char text[1024];

		snprintf(text, sizeof(text), "%s%s%s  ret void\n%s%s%s", KERNEL, CALL, uses[i], END,
			 HEAD, BODY);
		check_left_out(text, "h is not only called directly");
	}
	check_left_out("@table = global ptr @h\n" KERNEL CALL "  ret void\n" END HEAD BODY,
		       "h is not only called directly");
}

TEST(quoted_text_and_metadata_are_ignored)
{
	struct instrument_options options = options_for("sm_90");
	struct instrument_result result = pass(
		KERNEL CALL "  call void asm sideeffect \"@h\", \"\"()\n  ret void\n" END HEAD BODY
			    "!nvvm.annotations = !{!0}\n!0 = !{ptr @h, !\"x\", i32 1}\n",
		&options);

	CHECK_EQ(result.ignored_markers, 0);
	CHECK_EQ(result.record_count, 1);
	instrument_result_fini(&result);
}

/* A callee has a new signature, so a function that cannot be changed must not call it. */
TEST(callees_of_functions_without_records_are_not_instrumented)
{
	struct instrument_options options = options_for("sm_90");
	struct instrument_result result =
		pass(KERNEL MARK("%3", "start", "k") CALL
		     "  %4 = call float @outer(float 1.0)\n"
		     "  ret void\n" END
		     "define float @outer(float %0) {\n  %2 = call float @h(float 1.0)\n"
		     "  ret float %2\n" END HEAD BODY,
		     &options);

	CHECK_EQ(result.ignored_markers, 1);
	CHECK_STR(result.ignored_reason, "h is called by a function that cannot be instrumented");
	CHECK_HAS(result.text, CALL);
	CHECK_HAS(result.text, HEAD);
	CHECK_EQ(result.record_count, 1);
	instrument_result_fini(&result);
}

TEST(unterminated_function_is_ignored)
{
	struct instrument_options options = options_for("sm_90");
	struct instrument_result result =
		pass("define internal void @h() {\n" KERNEL MARK(
			     "%3", "start", "k") "  call void @h()\n  ret void\n" END,
		     &options);

	CHECK_EQ(result.record_count, 1);
	CHECK_HAS(result.text, "  call void @h()\n");
	instrument_result_fini(&result);
}

/* ------------------------------------------------------------------ time */

#define FUNCTION_BYTES 167u

/* Many functions: a chain of calls, all call one, or one calls all. */
static void write_many(struct out *out, int which, size_t bytes)
{
	uint32_t count = (uint32_t)(bytes / FUNCTION_BYTES);

	out_text(out, KERNEL "  call void @h0()\n");
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
	struct instrument_options options = options_for("sm_90");
	struct instrument_result result;
	struct proton_error err;

	CHECK_OK(instrument_llvm(text, length, &options, &result, &err), err);
	if (which == 3)
		CHECK_EQ(result.record_count, 0);
	else
		CHECK_LE(GROWTH_BYTES / FUNCTION_BYTES, result.record_count);
	instrument_result_fini(&result);
}

TEST(time_is_linear_in_the_text)
{
	check_growth(4, write_many, instrument_many);
}
