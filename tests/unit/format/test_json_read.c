/* format/json_read: the grammar, exact numbers, strings of any kind, errors with their place. */
#include "unit/format/tokens.h"

#include "format/json_read.h"

static const char *tokens_of(const char *bytes, size_t length)
{
	struct json_reader reader;
	char *copy = malloc(length ? length : 1); /* no byte after it, for AddressSanitizer */

	memcpy(copy, bytes, length);
	json_reader_init(&reader, copy, length);
	const char *text = tokens_text(&reader.source);
	json_reader_fini(&reader);
	free(copy);
	return text;
}

#define TOKENS(literal) tokens_of(literal, sizeof(literal) - 1)

TEST(values_and_nesting)
{
	CHECK_STR(TOKENS("[]"), "[ ] end");
	CHECK_STR(TOKENS(" { } \n"), "{ } end");
	CHECK_STR(TOKENS("{\"a\":[1,{\"b\":null}],\"c\":true , \"d\" : false}"),
		  "{ k:a [ 1 { k:b null } ] k:c true k:d false } end");
	CHECK_STR(TOKENS("\xef\xbb\xbf[1]"), "[ 1 ] end");
	CHECK_STR(TOKENS("7"), "7 end");
	CHECK_STR(TOKENS("\"x\""), "\"x\" end");
	CHECK_STR(TOKENS("\t[\r\n\t            1         ,          2        ]"), "[ 1 2 ] end");
}

TEST(integers_are_exact_and_keep_their_type)
{
	CHECK_STR(TOKENS("[0,-0,9007199254740993,9223372036854775807]"),
		  "[ 0 0 9007199254740993 9223372036854775807 ] end");
	CHECK_STR(TOKENS("[-9223372036854775808,9223372036854775808,18446744073709551615]"),
		  "[ -9223372036854775808 9223372036854775808u 18446744073709551615u ] end");
	CHECK_STR(TOKENS("[-9223372036854775809,18446744073709551616]"),
		  "[ -9.2233720368547758e+18d 1.8446744073709552e+19d ] end");
}

TEST(doubles_are_the_nearest)
{
	CHECK_STR(TOKENS("[0.5,1e3,1E+2,-2.50e-1,268435456.0]"),
		  "[ 0.5d 1000d 100d -0.25d 268435456d ] end");
	CHECK_STR(TOKENS("[0.1,1e-320,1.7976931348623157e308,5e-324,2.2250738585072011e-308]"),
		  "[ 0.10000000000000001d 9.9998886718268301e-321d 1.7976931348623157e+308d "
		  "4.9406564584124654e-324d 2.2250738585072009e-308d ] end");
	CHECK_STR(TOKENS("[123456789012345678901234567890.5,0.1e23,9007199254740993.0]"),
		  "[ 1.2345678901234568e+29d 1e+22d 9007199254740992d ] end");
	CHECK_STR(TOKENS("[1e400,-1e400,1e-400,0e999999999999]"), "[ infd -infd 0d 0d ] end");
	CHECK_STR(
		TOKENS("[0.00000000000000000000000000000000000000000000000000000000000000000000000"
		       "000000000000000000000000000000000000000000000000000000000000000000001]"),
		"[ 9.9999999999999998e-141d ] end");
}

TEST(strings_are_unescaped)
{
	CHECK_STR(TOKENS("[\"a\\n\\t\\\"\\\\\\/\\b\\f\\r\"]"), "[ \"a\n\t\"\\/\b\f\r\" ] end");
	CHECK_STR(TOKENS("[\"\\u0041\\u00e9\\u6838\\ud83d\\ude80\"]"),
		  "[ \"A\xc3\xa9\xe6\xa0\xb8\xf0\x9f\x9a\x80\" ] end");
	CHECK_STR(TOKENS("{\"k\\u00E9y with more than eight\":1}"),
		  "{ k:k\xc3\xa9y with more than eight 1 } end");
}

TEST(invalid_utf8_is_replaced)
{
	CHECK_STR(TOKENS("[\"a\xff"
			 "b\"]"),
		  "[ \"a\xef\xbf\xbd"
		  "b\" ] end");
	CHECK_STR(TOKENS("[\"\xc3\xa9 \xf0\x9f\x9a\x80 valid stays\"]"),
		  "[ \"\xc3\xa9 \xf0\x9f\x9a\x80 valid stays\" ] end");
	CHECK_STR(TOKENS("[\"\xc0\x80|\xed\xa0\x80|\xf5\"]"),
		  "[ "
		  "\"\xef\xbf\xbd\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd"
		  "\xef\xbf\xbd|\xef\xbf\xbd\" ] end");
	CHECK_STR(TOKENS("[\"\\ud800\",\"\\udc00x\",\"\\ud800\\u0041\"]"),
		  "[ \"\xef\xbf\xbd\" \"\xef\xbf\xbdx\" \"\xef\xbf\xbd"
		  "A\" ] end");
}

TEST(a_nul_in_a_string_is_a_byte_like_others)
{
	struct json_reader reader;
	struct token token;

	json_reader_init(&reader, "\"a\\u0000b\"", 10);
	CHECK_EQ(token_next(&reader.source, &token), TOKEN_STRING);
	CHECK_EQ(token.length, 3);
	CHECK_MEM(token.text, "a\0b", 3);
	json_reader_fini(&reader);
}

static void check_error(const char *text, const char *expected, bool is_truncated)
{
	struct json_reader reader;
	struct proton_error err;
	struct token token;
	enum token_kind kind;
	char *copy = malloc(strlen(text) + 1);

	strcpy(copy, text);
	json_reader_init(&reader, copy, strlen(text));
	while ((kind = token_next(&reader.source, &token)) != TOKEN_ERROR)
		if (kind == TOKEN_END)
			FAIL("%s was accepted", text);
	CHECK_EQ(reader.source.error(&reader.source, &err), PROTON_E_FORMAT);
	CHECK_STR(err.text, expected);
	CHECK_EQ(reader.source.is_truncated, is_truncated);
	json_reader_fini(&reader);
	free(copy);
}

TEST(errors_name_line_and_byte)
{
	check_error("[1,\n 2\n 3]", "line 3, byte 8: expected ','", false);
	check_error("{\"a\" 1}", "line 1, byte 5: expected ':'", false);
	check_error("{a:1}", "line 1, byte 1: expected a quoted name", false);
	check_error("{\"a\":1,}", "line 1, byte 7: expected a quoted name", false);
	check_error("[1,]", "line 1, byte 3: expected a value", false);
	check_error("[1}", "line 1, byte 2: expected ','", false);
	check_error("[nul]", "line 1, byte 1: unknown literal", false);
	check_error("[NaN]", "line 1, byte 1: expected a value", false);
	check_error("[01]", "line 1, byte 1: not a number", false);
	check_error("[1.x]", "line 1, byte 3: not a number", false);
	check_error("[1e+]", "line 1, byte 4: not a number", false);
	check_error("[-]", "line 1, byte 2: not a number", false);
	check_error("[\"\\x\"]", "line 1, byte 2: unknown escape in a string", false);
	check_error("[\"\\u12g4\"]", "line 1, byte 2: unknown escape in a string", false);
	check_error("[\"a\nb\"]", "line 1, byte 3: control character in a string", false);
	check_error("[1] 2", "line 1, byte 4: unexpected data after the end", false);
}

TEST(early_ends_have_different_errors)
{
	static const char whole[] = "[{\"a\": [1, -2.5e3, \"x\\n\\u00e9\", true, null]}, {}]";

	for (size_t length = 0; length + 1 < sizeof(whole); length++) {
		struct json_reader reader;
		struct token token;
		enum token_kind kind;
		char *copy = malloc(length ? length : 1);

		memcpy(copy, whole, length);
		json_reader_init(&reader, copy, length);
		while ((kind = token_next(&reader.source, &token)) != TOKEN_ERROR)
			CHECK_NE(kind, TOKEN_END);
		if (!reader.source.is_truncated)
			FAIL("cut at %zu: %s", length, reader.source.failure);
		json_reader_fini(&reader);
		free(copy);
	}
}

static char *nested(size_t levels, char opening)
{
	char *text = malloc(levels * 5 + 1);
	size_t at = 0;

	for (size_t i = 0; i < levels; i++)
		at += (size_t)sprintf(text + at, opening == '[' ? "[" : "{\"\":");
	return text;
}

TEST(nesting_is_limited_but_deep)
{
	char *text = nested(TOKEN_DEPTH_MAX + 1, '[');
	struct json_reader reader;
	struct proton_error err;
	struct token token;

	json_reader_init(&reader, text, TOKEN_DEPTH_MAX + 1);
	for (uint32_t i = 0; i < TOKEN_DEPTH_MAX; i++)
		CHECK_EQ(token_next(&reader.source, &token), TOKEN_ARRAY);
	CHECK_EQ(token_next(&reader.source, &token), TOKEN_ERROR);
	reader.source.error(&reader.source, &err);
	CHECK_HAS(err.text, "nested too deeply");
	CHECK(!reader.source.is_truncated);
	json_reader_fini(&reader);
	free(text);
}

TEST(skipping_passes_over_whole_values)
{
	static const char text[] = "[{\"a\":[1,{\"b\":[]}],\"c\":\"x\"},5]";
	struct json_reader reader;
	struct token token;

	json_reader_init(&reader, text, sizeof(text) - 1);
	CHECK_EQ(token_next(&reader.source, &token), TOKEN_ARRAY);
	CHECK(token_skip(&reader.source, token_next(&reader.source, &token)));
	CHECK_EQ(token_next(&reader.source, &token), TOKEN_INT64);
	CHECK(token_skip(&reader.source, token.kind));
	CHECK_EQ(token_next(&reader.source, &token), TOKEN_ARRAY_END);
	CHECK(!token_skip(&reader.source, token_next(&reader.source, &token)));
	json_reader_fini(&reader);
}
