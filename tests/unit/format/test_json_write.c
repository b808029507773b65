/* format/json_write and format/number: shape, escapes, numbers that read back the same. */
#include "unit/tap.h"

#include <locale.h>

#include "format/json_write.h"
#include "format/number.h"

static char *taken(struct out *out)
{
	size_t length;
	char *text = out_take(out, &length);

	CHECK(text);
	CHECK_EQ(strlen(text), length);
	return text;
}

static void write_sample(struct json_writer *json)
{
	json_begin_array(json);
	json_begin_object(json);
	json_key(json, "children");
	json_begin_array(json);
	json_end_array(json);
	json_key(json, "metrics");
	json_begin_object(json);
	json_key(json, "count");
	json_int64(json, -3);
	json_key(json, "vector");
	json_begin_array(json);
	json_double(json, 1.5);
	json_uint64(json, UINT64_MAX);
	json_bool(json, true);
	json_end_array(json);
	json_end_object(json);
	json_end_object(json);
	json_begin_object(json);
	json_end_object(json);
	json_end_array(json);
}

TEST(pretty_is_indented_by_four)
{
	struct json_writer json;
	struct out out;

	out_init(&out, -1);
	json_writer_init(&json, &out, true);
	write_sample(&json);
	char *text = taken(&out);
	CHECK_STR(text, "[\n"
			"    {\n"
			"        \"children\": [],\n"
			"        \"metrics\": {\n"
			"            \"count\": -3,\n"
			"            \"vector\": [\n"
			"                1.5,\n"
			"                18446744073709551615,\n"
			"                true\n"
			"            ]\n"
			"        }\n"
			"    },\n"
			"    {}\n"
			"]");
	free(text);
}

TEST(compact_has_no_white_space)
{
	struct json_writer json;
	struct out out;

	out_init(&out, -1);
	json_writer_init(&json, &out, false);
	write_sample(&json);
	char *text = taken(&out);
	CHECK_STR(text, "[{\"children\":[],\"metrics\":{\"count\":-3,\"vector\":[1.5,"
			"18446744073709551615,true]}},{}]");
	free(text);
}

TEST(indentation_stops_growing)
{
	struct json_writer json;
	struct out out;

	out_init(&out, -1);
	json_writer_init(&json, &out, true);
	for (int i = 0; i < 100000; i++)
		json_begin_array(&json);
	for (int i = 0; i < 100000; i++)
		json_end_array(&json);
	CHECK_EQ(json.depth, 0);
	CHECK_LT(out.length, 200000 * (4 * JSON_INDENT_LEVELS_MAX + 2));
	out_fini(&out);
}

static void check_quoted(const char *bytes, size_t length, const char *expected)
{
	struct out out;

	out_init(&out, -1);
	json_quote(&out, bytes, length);
	char *text = taken(&out);
	CHECK_STR(text, expected);
	free(text);
}

TEST(strings_are_escaped_and_repaired)
{
	check_quoted("plain", 5, "\"plain\"");
	check_quoted("", 0, "\"\"");
	check_quoted("\"\\\b\f\n\r\t/", 8, "\"\\\"\\\\\\b\\f\\n\\r\\t/\"");
	check_quoted("\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\\u007f\"");
	check_quoted("\xc2\x9b\xe2\x80\xae\xe2\x80\xa8", 8, "\"\\u009b\\u202e\\u2028\"");
	check_quoted("\xc3\xa9\xf0\x9f\x9a\x80", 6, "\"\xc3\xa9\xf0\x9f\x9a\x80\"");
	check_quoted("a\xff\xc3", 3, "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
	check_quoted("\xc3\"", 2, "\"\xef\xbf\xbd\\\"\"");
}

static void check_number(double value, const char *expected)
{
	char text[NUMBER_TEXT_BYTES + 1];
	size_t length = number_from_double(value, text);

	CHECK_LE(length, NUMBER_TEXT_BYTES);
	text[length] = '\0';
	CHECK_STR(text, expected);
}

TEST(doubles_are_short_and_look_like_doubles)
{
	check_number(0.0, "0.0");
	check_number(-0.0, "-0.0");
	check_number(1.0, "1.0");
	check_number(-268435456.0, "-268435456.0");
	check_number(1e15, "1000000000000000.0");
	check_number(9007199254740991.0, "9007199254740991.0");
	check_number(1e16, "1e+16");
	check_number(1e300, "1e+300");
	check_number(0.1, "0.1");
	check_number(340.234375, "340.234375");
	check_number(1.0 / 3, "0.3333333333333333");
	check_number(6.6e-08, "6.6e-08");
	check_number(12345678901234567890.0, "1.2345678901234567e+19");
}

TEST(doubles_read_back_the_same)
{
	uint64_t state = 42;

	for (int i = 0; i < 20000; i++) {
		char text[NUMBER_TEXT_BYTES + 1];
		double value, back;

		state = state * 6364136223846793005u + 1442695040888963407u;
		memcpy(&value, &state, sizeof(value));
		if (!isfinite(value))
			continue;
		text[number_from_double(value, text)] = '\0';
		back = number_to_double(text);
		CHECK_MEM(&back, &value, sizeof(value));
		CHECK(strpbrk(text, ".e"));
	}
}

TEST(times_have_the_digits_that_printf_finds)
{
	uint64_t state = 88172645463325252u;
	char expected[NUMBER_TEXT_BYTES + 1];

	check_number(0.0001, "0.0001");
	check_number(0.000099, "9.9e-05");
	check_number(-0.5, "-0.5");
	check_number(999999999.999999, "999999999.999999");
	check_number(1000000000.000001, "1000000000.000001");
	for (int i = 0; i < 20000; i++) {
		double value;

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		value = (double)(1 + (state >> (14 + state % 50))) / 1e6;
		snprintf(expected, sizeof(expected), "%.15g", value);
		if (strpbrk(expected, ".e") && strtod(expected, NULL) == value)
			check_number(value, expected);
	}
}

/* Percentages, rates, and decimals of few digits beside their neighbors. */
TEST(fractions_have_the_digits_that_printf_finds)
{
	uint64_t state = 88172645463325252u;
	char expected[NUMBER_TEXT_BYTES + 1];

	for (int i = 0; i < 400000; i++) {
		double value;

		state = state * 6364136223846793005u + 1442695040888963407u;
		value = (double)(state >> 11) * pow(2, -(int)(state % 64) - 3);
		if (i % 4 == 1)
			value = rint(value * 1e3) / 1e3;
		if (i % 4 == 2)
			value = -nextafter(rint(value * 1e6) / 1e6, i % 8 == 2 ? 0 : INFINITY);
		if (i % 4 == 3)
			value = pow(2, (int)(state >> 40 & 31) - 14) + (double)(i % 3) / 1024;
		if (fabs(value) < 1e-4 || fabs(value) >= 1e15 || value == floor(value))
			continue;
		for (int digits = 15; digits <= 17; digits++) {
			snprintf(expected, sizeof(expected), "%.*g", digits, value);
			if (strtod(expected, NULL) == value)
				break;
		}
		check_number(value, expected);
	}
}

TEST(the_locale_of_the_program_does_not_matter)
{
	static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "de_DE"};
	bool has_comma = false;

	for (size_t i = 0; i < 4 && !has_comma; i++)
		has_comma = setlocale(LC_ALL, names[i]) && localeconv()->decimal_point[0] == ',';
	if (!has_comma)
		SKIP("no locale with a decimal comma is installed");
	check_number(2.5, "2.5");
	CHECK_NEAR(number_to_double("2.5"), 2.5, 0);
}

TEST(values_that_json_lacks_are_null)
{
	struct json_writer json;
	struct out out;

	out_init(&out, -1);
	json_writer_init(&json, &out, false);
	json_begin_array(&json);
	json_double(&json, NAN);
	json_double(&json, INFINITY);
	json_double(&json, -INFINITY);
	json_end_array(&json);
	char *text = taken(&out);
	CHECK_STR(text, "[null,null,null]");
	free(text);
}
