/* Markers: their text, and the calls in LLVM IR that contain it. */
#include "unit/tap.h"

#include "base/array.h"
#include "intra/llvm/llvm_pass.h"
#include "intra/marker.h"

/* ------------------------------------------------------------------ text */

static bool parse(const char *text, struct marker *marker)
{
	return marker_parse(text, strlen(text), marker);
}

TEST(marker_round_trip)
{
	static const char *const names[] = {"load", "a b", "\xc3\xa4\"\\$0{}|%41", "x\ny",
					    "k@f.py:3"};
	struct marker marker;
	struct out out;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		for (int bits = 0; bits < 4; bits++) {
			out_init(&out, -1);
			marker_write(bits & 1, bits & 2, names[i], strlen(names[i]), &out);
			for (size_t at = 0; at < out.length; at++)
				CHECK(!strchr("\"\\${}|\n", out.bytes[at]));
			CHECK(marker_parse(out.bytes, out.length, &marker));
			CHECK_STR(marker.name, names[i]);
			CHECK_EQ(marker.is_event, bits & 1);
			CHECK_EQ(marker.is_end, (bits & 2) != 0);
			out_fini(&out);
		}
}

TEST(text_that_is_not_a_marker_is_rejected)
{
	struct marker marker;

	CHECK(parse("// proton.record start a", &marker));
	CHECK(!parse("// proton.record start ", &marker));
	CHECK(!parse("// proton.record begin a", &marker));
	CHECK(!parse("// proton.recorder start a", &marker));
	CHECK(!parse("// proton.record start a b", &marker));
	CHECK(!parse("// proton.record start a%2", &marker));
	CHECK(!parse("// proton.record start a%zz", &marker));
	CHECK(!parse("// proton.record start a%00b", &marker));
	CHECK(!parse("", &marker));
}

/* The length of a name of `letters` bytes and `rest`, which is escaped. */
static size_t length_of(size_t letters, const char *rest)
{
	static char text[4096];
	struct marker marker;
	struct out out;

	memset(text, 'a', letters);
	strcpy(text + letters, rest);
	out_init(&out, -1);
	marker_write(false, false, text, strlen(text), &out);
	CHECK(marker_parse(out.bytes, out.length, &marker));
	out_fini(&out);
	CHECK_U64(strlen(marker.name), marker.name_length);
	CHECK_EQ(memcmp(marker.name, text, marker.name_length), 0);
	return marker.name_length;
}

TEST(long_name_is_truncated_between_characters)
{
	static const char *const characters[] = {"a", "\xc3\xa4", "\xe0\xa0\x80",
						 "\xf0\x9f\x98\x80"};
	char continued[300] = "";

	for (size_t i = 0; i < ARRAY_LENGTH(characters); i++) {
		char more[16];

		snprintf(more, sizeof(more), "%s%s", characters[i], "more");
		for (size_t missing = 1; missing <= i; missing++)
			CHECK_U64(length_of(254 - i + missing, more), 254 - i + missing);
		CHECK_U64(length_of(254 - i, characters[i]), 255);
		CHECK_U64(length_of(254 - i, more), 255);
	}
	/* Not UTF-8. */
	memset(continued, 0x80, 299);
	CHECK_U64(length_of(0, continued), 255);
}

/* ------------------------------------------------------------------ calls */

#define KERNEL "define ptx_kernel void @k(i32 %0, ptr addrspace(1) %1) {\n"

static struct instrument_result pass(const char *text)
{
	struct instrument_options options = {
		.arch = "sm_90",
		.warp_count = 4,
		.threads_per_warp = 32,
	};
	struct instrument_result result;

	CHECK_DONE(instrument_llvm(text, strlen(text), &options, &result, &err));
	return result;
}

TEST(markers_are_recognized_in_any_spelling_of_the_call)
{
	/* Before and after the assembly text. */
	static const char *const spellings[][2] = {
		{"tail call i32 asm sideeffect ", "() #1"},
		{"call noundef i32 asm sideeffect ", "() nounwind"},
		{"call i32 asm ", "()"},
		{"notail call fastcc noundef range(i32 0, 7) i32 asm sideeffect alignstack ",
		 "() nounwind convergent #3, !dbg !7"},
		{"tail call nnan nsz \"x\"=\"i64 asm \" i32 asm sideeffect inteldialect unwind ",
		 "() memory(none), !srcloc !1, !dbg !7"},
		{"tail  call  noundef  i32  asm  sideeffect  ", "()"},
		{"call addrspace(1) zeroext i32 asm sideeffect ", "() [ \"x\"() ]"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(spellings); i++) {
		struct instrument_result result;
		char text[1024];

		snprintf(text, sizeof(text),
			 "%s  %%3 = %s\"// proton.record start a\", \"=r\"%s\n"
			 "\t%%4 = %s\"// proton.record end a\", \"=r\"%s\n  ret void\n"
			 "}\n",
			 KERNEL, spellings[i][0], spellings[i][1], spellings[i][0],
			 spellings[i][1]);
		result = pass(text);
		if (!result.text || result.record_count != 1 || result.ignored_markers)
			FAIL("not recognized: %s", text);
		CHECK_HAS(result.text, "  %3 = ");
		CHECK_HAS(result.text, "  %4 = ");
		CHECK(!strstr(result.text, "// proton."));
		instrument_result_fini(&result);
	}
}

TEST(markers_in_calls_that_cannot_be_parsed_are_counted)
{
	static const char *const lines[] = {
		"  %3 = call i64 asm sideeffect \"// proton.record start a\", \"=l\"()\n",
		"  call void asm sideeffect \"// proton.record start a\", \"\"()\n",
		"  %\"a b\" = call i32 asm sideeffect \"// proton.record start a\", \"=r\"()\n",
		"  %3 = new.call i32 asm sideeffect \"// proton.event end a\", \"=r\"()\n",
	};
	static const char others[] = "  %5 = call i32 asm \"// proton.record start b\", \"=r\"()\n"
				     "  %6 = call i32 asm \"// proton.record end b\", \"=r\"()\n";

	for (size_t i = 0; i < ARRAY_LENGTH(lines); i++)
		for (int is_alone = 0; is_alone < 2; is_alone++) {
			struct instrument_result result;
			char text[1024];

			snprintf(text, sizeof(text), "%s%s%s  ret void\n%s", KERNEL, lines[i],
				 is_alone ? "" : others, "}\n");
			result = pass(text);
			CHECK_EQ(result.ignored_markers, 1);
			CHECK_STR(result.ignored_reason,
				  "cannot parse the marker in line 2 of the kernel's LLVM IR");
			CHECK_EQ(result.record_count, is_alone ? 0 : 1);
			CHECK_EQ(!result.text, is_alone);
			instrument_result_fini(&result);
		}
}
