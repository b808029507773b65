/* Texts that another version of LLVM or Triton may print: markers are found or reported. */
#include "intra/llvm/ir_text.h"

#include "intra/llvm/llvm_pass.h"
#include "unit/tap.h"

static struct proton_error err;

static bool is_marker(const char *line)
{
	struct ir_marker marker;
	bool is_found = ir_marker_of(slice_of(line), &marker);

	if (is_found) {
		CHECK_STR(marker.marker.name, "a b");
		CHECK(slice_is(marker.result, "%12"));
	}
	CHECK(!is_found || !ir_is_unknown_marker(slice_of(line)));
	return is_found;
}

TEST(markers_are_found_whatever_is_printed_with_them)
{
	static const char *const lines[] = {
		"  %12 = call i32 asm \"// proton.record start a%20b\", \"=r\"()",
		"\t%12 = tail call i32 asm sideeffect \"// proton.record start a%20b\", "
		"\"=r\"() #2",
		"%12 = notail call noundef i32 asm \"// proton.event end a%20b\", \"=v\"() "
		"nounwind",
		"  %12 = call fastcc signext range(i32 0, 5) i32 asm sideeffect unwind alignstack "
		"inteldialect \"// proton.record end a%20b\", \"=r,~{memory}\"(), !srcloc !3, "
		"!dbg !4",
		"  %12 = call i32 () asm sideeffect \"// proton.record start a%20b\", \"=r\"()",
		"  %12 = call  i32  asm  \"// proton.record start a%20b\", \"=r\"() ; x",
		"  %12 = call \"new\"=\"asm\" i32 asm \"// proton.record start a%20b\", \"=r\"()",
		"  %12 = call i32 asm \"\\09// proton.record start a%20b\\0A\", \"=r\"()",
		"  %12 = call i32 asm \" // proton.record start a%20b \\0D\\0A\", \"=r\"()",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		CHECK(is_marker(lines[i]));
}

TEST(markers_that_cannot_become_records_are_unknown)
{
	static const char *const lines[] = {
		"  %12 = call i64 asm \"// proton.record start a\", \"=l\"()",
		"  call void asm sideeffect \"// proton.record start a\", \"\"()",
		"  %\"x\" = call i32 asm \"// proton.record start a\", \"=r\"()",
		"  %12 = call i32 asm \"nop; // proton.record start a\", \"=r\"()",
		"  %12 = call i32 asm \"// proton.record begin a\", \"=r\"()",
		"  %12 = invoke i32 asm \"// proton.record start a\", \"=r\"()",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		CHECK(!is_marker(lines[i]));
		CHECK(ir_is_unknown_marker(slice_of(lines[i])));
	}
}

TEST(other_text_is_not_a_marker)
{
	static const char *const lines[] = {
		"",
		"\"",
		"  ; %12 = call i32 asm \"// proton.record start a\", \"=r\"()",
		"@text = constant [9 x i8] c\"// proton.record start a\"",
		"  %12 = call i32 asm \"// proton.records\", \"=r\"()",
		"  %12 = call i32 asm \"mov $0, 1;\", \"=r\"() ; // proton.record start a",
		"  %12 = call i32 asm \"// proton.record start a",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		CHECK(!is_marker(lines[i]));
		CHECK(!ir_is_unknown_marker(slice_of(lines[i])));
	}
}

/* ------------------------------------------------------------------ the kernel around them */

#define MARKER "  %2 = call i32 asm sideeffect \"// proton.record start a\", \"=r\"()\n"

static int pass(const char *text, uint32_t parameters, uint32_t shared)
{
	struct instrument_options options = {
		.arch = "sm_90",
		.warp_count = 4,
		.threads_per_warp = 32,
		.shared_limit = 232448,
		.shared_bytes = shared,
		.parameter_count = parameters,
	};
	struct instrument_result result;
	int status = instrument_llvm(text, strlen(text), &options, &result, &err);

	if (status == PROTON_OK)
		CHECK_EQ(result.record_count, 1);
	instrument_result_fini(&result);
	return status;
}

TEST(the_last_of_the_expected_parameters_is_the_buffer)
{
	static const char text[] =
		"define ptx_kernel void @\"k(\"("
		"{ i32, [2 x i8] } %0, <4 x i32> range(i32 0, 5) %x, "
		"ptr addrspace(1) captures(ret: address, none) \"a,b\"=\"c\" %1) {\n" MARKER
		"  ret void\n}\n";

	CHECK_OK(pass(text, 0, 0), err);
	CHECK_OK(pass(text, 3, 0), err);
	CHECK_EQ(pass(text, 4, 0), PROTON_E_UNSUPPORTED);
	CHECK_STR(err.text,
		  "the kernel has 3 parameters instead of 4, so the one for the profile's "
		  "buffer is unknown");
}

TEST(shared_memory_of_the_kernel_is_not_used_for_records)
{
	static const char text[] =
		"@global_smem = external addrspace(3) global [0 x i8], align 16\n"
		"define ptx_kernel void @k(i32 %0, ptr addrspace(1) %1) {\n" MARKER
		"  store i8 0, ptr addrspace(3) @global_smem, align 1\n"
		"  store i8 0, ptr addrspace(3) getelementptr inbounds nuw (i8, ptr addrspace(3) "
		"@global_smem, i32 4095), align 1\n  ret void\n}\n";

	CHECK_OK(pass(text, 2, 4096), err);
	CHECK_EQ(pass(text, 2, 4095), PROTON_E_UNSUPPORTED);
	CHECK_STR(err.text,
		  "the kernel uses shared memory at byte 4095, but has only 4095 bytes in "
		  "its metadata");
	CHECK_EQ(pass(text, 2, 0), PROTON_E_UNSUPPORTED);
	CHECK_HAS(err.text, "at byte 0, but has only 0 bytes");
}
