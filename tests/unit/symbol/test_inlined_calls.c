/* symbol/inlined_calls: nesting, origins, contradictions. test_amd_lines.py has LLVM's. */
#include "unit/tap.h"

#include "symbol/inlined_calls.h"
#include "unit/symbol/cubin_build.h"

#define CODE_AT 0x1600u
#define UNIT_HEADER 11u /* bytes before the first entry of DWARF 4 */

/* Abbreviations: code, tag, has children, then pairs of attribute and form. */
static const char abbreviations[] =
	"\1\x11\1\x10\x17\x11\1\0"       /* a unit, its lines and code */
	"\0\2\x2e\1\x11\1\x12\6\0"       /* a function, its code and bytes */
	"\0\3\x1d\1\x31\x13\x11\1\x12\6" /* an inlined call: origin, code and bytes */
	"\x58\v\x59\v\0\0"               /* and the file and line of the call */
	"\4\x2e\0\3\b\0\0"               /* a function with a name only */
	"\5\x34\0\x3e";                  /* a variable; the form of its attribute follows */
static const char *variable = "\v\0\0";

/* The unit, and named functions "one" and "two". */
static void begin_unit(struct out *info)
{
	out_init(info, -1);
	put(info, 0, 4);
	put(info, 4, 2);
	put(info, 0, 4);
	put(info, 8, 1);
	put(info, 1, 1); /* the unit: its lines, its code */
	put(info, 0x77, 4);
	put(info, CODE_AT, 8);
	out_bytes(info, "\4one\0\4two", 10);
	put(info, 2, 1); /* a function */
	put(info, CODE_AT, 8);
	put(info, 0x100, 4);
}

#define ONE (UNIT_HEADER + 13)
#define TWO (ONE + 5)

static void begin_call(struct out *info, uint32_t origin, uint64_t begin, uint32_t bytes,
		       uint32_t line)
{
	put(info, 3, 1);
	put(info, origin, 4);
	put(info, CODE_AT + begin, 8);
	put(info, bytes, 4);
	put(info, 1, 1);
	put(info, line, 1);
}

static void end_children(struct out *info)
{
	put(info, 0, 1);
}

/* "BEGIN:LINE(FUNCTION) < ..." of each range. */
static const char *ranges_of(struct out *info)
{
	static const char code[0x200];
	static char text[1 << 14];
	struct cubin_build build;
	struct code_object object;
	struct inlined_calls calls;
	struct out table;
	size_t length = 0;

	out_init(&table, -1);
	out_bytes(&table, abbreviations, sizeof(abbreviations) - 1);
	out_bytes(&table, variable, 1 + strlen(variable + 1) + 3);
	end_children(info);
	end_children(info);
	for (uint32_t i = 0; i < 4; i++)
		info->bytes[i] = (char)((info->length - 4) >> (8 * i));
	build_begin(&build);
	build_function(&build, "kernel", build_code(&build, ".text", CODE_AT, code, sizeof(code)),
		       CODE_AT, sizeof(code));
	build_section(&build, ".debug_info", SHT_PROGBITS, 0, info->bytes, info->length);
	build_section(&build, ".debug_abbrev", SHT_PROGBITS, 0, table.bytes, table.length);
	build_end(&build);
	CHECK_EQ(code_object_open(&object, build.bytes.bytes, build.bytes.length, NULL), PROTON_OK);
	CHECK_EQ(inlined_calls_read(&calls, &object), PROTON_OK);
	CHECK(calls.is_known);
	text[0] = '\0';
	for (size_t i = 0; i < calls.ranges.count; i++) {
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%x",
					   i ? ", " : "", (unsigned)calls.ranges.segments[i].begin);
		for (uint32_t at = calls.ranges.segments[i].value; at;
		     at = calls.calls[at - 1].caller) {
			const struct inlined_call *call = &calls.calls[at - 1];

			CHECK(call->lines == 0x77 && call->file == 1);
			length += (size_t)snprintf(text + length, sizeof(text) - length, " %u(%s)",
						   call->line,
						   call->function ? call->function : "");
		}
	}
	inlined_calls_fini(&calls);
	code_object_close(&object);
	build_fini(&build);
	out_fini(&table);
	out_fini(info);
	return text;
}

TEST(innermost_call_counts_and_its_callers_are_known)
{
	struct out info;

	begin_unit(&info);
	begin_call(&info, ONE, 0x10, 0x40, 7);
	begin_call(&info, TWO, 0x10, 0x10, 8); /* begins with its caller */
	end_children(&info);
	begin_call(&info, TWO, 0x30, 0x20, 9); /* ends with its caller */
	end_children(&info);
	end_children(&info);
	begin_call(&info, ONE, 0x50, 0x10, 10); /* follows at once */
	end_children(&info);
	CHECK_STR(ranges_of(&info),
		  "10 8(two) 7(one), 20 7(one), 30 9(two) 7(one), 50 10(one), 60");
}

static const struct {
	const char *form; /* and the value of a constant that the table has */
	const char *bytes;
	size_t length;
} forms[] = {
	{"\x01", "12345678", 8},
	{"\x03", "\2\0xx", 4},
	{"\x04", "\1\0\0\0x", 5},
	{"\x05", "12", 2},
	{"\x06", "1234", 4},
	{"\x07", "12345678", 8},
	{"\x08", "text", 5},
	{"\x09", "\3xxx", 4},
	{"\x0a", "\2xx", 3},
	{"\x0b", "1", 1},
	{"\x0c", "1", 1},
	{"\x0d", "\xff\x7f", 2},
	{"\x0e", "1234", 4},
	{"\x0f", "\x80\1", 2},
	{"\x10", "1234", 4},
	{"\x11", "1", 1},
	{"\x12", "12", 2},
	{"\x13", "1234", 4},
	{"\x14", "12345678", 8},
	{"\x15", "\x81\1", 2},
	{"\x16", "\v1", 2},
	{"\x17", "1234", 4},
	{"\x18", "\2xx", 3},
	{"\x19", "", 0},
	{"\x1a", "\x80\1", 2},
	{"\x1b", "\x80\1", 2},
	{"\x1c", "1234", 4},
	{"\x1d", "1234", 4},
	{"\x1e", "1234567812345678", 16},
	{"\x1f", "1234", 4},
	{"\x20", "12345678", 8},
	{"\x21\5", "", 0},
	{"\x22", "\x80\1", 2},
	{"\x23", "\x80\1", 2},
	{"\x24", "12345678", 8},
	{"\x25", "1", 1},
	{"\x26", "12", 2},
	{"\x27", "123", 3},
	{"\x28", "1234", 4},
	{"\x29", "1", 1},
	{"\x2a", "12", 2},
	{"\x2b", "123", 3},
	{"\x2c", "1234", 4},
};

TEST(attributes_of_every_form_are_skipped)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		char with_end[8] = "";
		struct out info;

		memcpy(with_end, forms[i].form, strlen(forms[i].form));
		variable = with_end;
		begin_unit(&info);
		put(&info, 5, 1);
		out_bytes(&info, forms[i].bytes, forms[i].length);
		begin_call(&info, ONE, 0x10, 0x10, 7);
		end_children(&info);
		CHECK_STR(ranges_of(&info), "10 7(one), 20");
	}
}

TEST(code_outside_its_caller_is_cut_off)
{
	struct out info;

	begin_unit(&info);
	begin_call(&info, ONE, 0x20, 0x20, 7);
	begin_call(&info, TWO, 0x30, 0xd0, 8); /* longer than its caller */
	end_children(&info);
	end_children(&info);
	begin_call(&info, ONE, 0x38, 0x18, 9); /* overlaps its sibling */
	end_children(&info);
	begin_call(&info, ONE, 0x100000, 8, 10); /* outside the code */
	end_children(&info);
	begin_call(&info, ONE, 0x60, 0, 11);
	end_children(&info);
	CHECK_STR(ranges_of(&info), "20 7(one), 30 8(two) 7(one), 38 9(one), 40");
}

TEST(names_that_cannot_be_found_are_unknown)
{
	struct out info;

	begin_unit(&info);
	begin_call(&info, 3, 0x10, 8, 7); /* in the header of the unit */
	end_children(&info);
	begin_call(&info, 0xfffffff0, 0x20, 8, 8);
	end_children(&info);
	CHECK_STR(ranges_of(&info), "10 7(), 18, 20 8(), 28");
}

TEST(entry_that_is_its_own_origin_does_not_loop)
{
	struct out info;

	begin_unit(&info);
	uint32_t at = (uint32_t)info.length;
	begin_call(&info, at, 0x10, 8, 7);
	end_children(&info);
	CHECK_STR(ranges_of(&info), "10 7(), 18");
}

TEST(deep_nesting_ends_the_walk_of_a_unit)
{
	struct out info;

	begin_unit(&info);
	for (int i = 0; i < 400; i++)
		begin_call(&info, ONE, 0x10, 8, 7);
	CHECK(strncmp(ranges_of(&info), "10 7(one) 7(one)", 16) == 0);
}
