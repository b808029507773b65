/* Slices: cutting text at words, brackets and quotes. */
#include "unit/tap.h"

#include "base/slice.h"

#define CHECK_SLICE(slice, text) CHECK(slice_is((slice), (text)))

TEST(takes_past_the_first_occurrence)
{
	struct slice text = slice_of("call void @f(), !dbg !30, !dbg !31");

	CHECK(slice_take_past(&text, ", !dbg !"));
	CHECK_SLICE(text, "30, !dbg !31");
	CHECK(!slice_take_past(&text, "@f"));
	CHECK_SLICE(text, "30, !dbg !31");
	CHECK(slice_take_past(&text, "!31"));
	CHECK_SLICE(text, "");
	CHECK(!slice_take_past(&text, "x"));
}

TEST(stops_outside_of_brackets_and_quotes)
{
	CHECK_SLICE(slice_before(slice_of("a(b, c) [d, e] <f, g> {h, i}, j"), ","),
		    "a(b, c) [d, e] <f, g> {h, i}");
	CHECK_SLICE(slice_before(slice_of("\"a, (b\", c"), ","), "\"a, (b\"");
	CHECK_SLICE(slice_before(slice_of("a(b) at c at d"), " at "), "a(b)");
	CHECK_SLICE(slice_before(slice_of("fused<x>[a, b]"), "["), "fused<x>");
	CHECK_SLICE(slice_before(slice_of("a, (b)) {"), ")"), "a, (b)");
}

TEST(is_all_without_an_end)
{
	CHECK_SLICE(slice_before(slice_of("a(b, c)"), ","), "a(b, c)");
	CHECK_SLICE(slice_before(slice_of("a), b"), ","), "a)");
	CHECK_SLICE(slice_before(slice_of(""), ","), "");
}
