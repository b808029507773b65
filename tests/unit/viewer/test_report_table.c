/* viewer/report_table: a table with every kind of field as text, CSV and JSON. */
#include "unit/tap.h"

#include "base/array.h"
#include "viewer/print/report_table.h"

static const struct report_field fields[] = {
	{.name = "path", .title = "frame", .place = 1},
	{.name = "rank", .title = "rank", .columns = 6},
	{.name = "state", .title = "state", .columns = -8},
	{.name = "time_ns", .title = "time", .columns = 10, .unit = REPORT_NS},
	{.title = "vs mean", .columns = 8, .unit = REPORT_SHARE, .has_sign = true},
	{.name = "mean", .title = "mean", .columns = 10, .unit = REPORT_VALUE},
	{.name = "host", .is_quoted = true},
	{.name = "reason", .is_json_only = true},
	{.name = "time/ms", .object = "metrics"},
	{.name = "count", .object = "metrics"},
};

/* Writes a row with all values, and one with a path and a number that is not known. */
static char *write_table(enum report_format format, bool is_partial)
{
	const struct report_value all[] = {
		VALUE_TEXT("a,\x1b"), VALUE_COUNT(7),         VALUE_TEXT("killed"),
		VALUE_COUNT(1500000), VALUE_NUMBER(0.125),    VALUE_NUMBER(-2e6),
		VALUE_TEXT("=h"),     VALUE_TEXT("too late"), VALUE_NUMBER(NAN),
		VALUE_INTEGER(-3),
	};
	const struct report_value none[ARRAY_LENGTH(fields)] = {
		VALUE_TEXT("b"), [5] = VALUE_NUMBER(NAN)};
	struct out out;
	struct report report = {.format = format, .out = &out, .is_partial = is_partial};
	size_t length;

	out_init(&out, -1);
	json_writer_init(&report.json, &out, false);
	if (format == REPORT_JSON)
		json_begin_object(&report.json);
	report_begin(&report, "rows", fields, ARRAY_LENGTH(fields));
	report_row(&report, all);
	report_row(&report, none);
	report_end(&report);
	out_byte(&out, '\0');
	return out_take(&out, &length);
}

static void check(enum report_format format, bool is_partial, const char *expected)
{
	char *text = write_table(format, is_partial);

	CHECK_STR(text, expected);
	free(text);
}

TEST(text_aligns_columns_by_place_and_leaves_missing_values_blank)
{
	check(REPORT_TEXT, false,
	      "   rank  state          time  vs mean       mean  frame\n"
	      "      7  killed        1.500   +12.5%     -2e+06  a,\\x1b\n"
	      "                                               -  b\n");
}

TEST(csv_has_all_digits_and_quotes_and_no_field_of_json_alone)
{
	check(REPORT_CSV, false,
	      "path,rank,state,time_ns,mean,host,time/ms,count\n"
	      "\"a,\x1b\",7,killed,1500000,-2000000.0,\"'=h\",,-3\n"
	      "b,,,,,,,\n");
}

TEST(csv_of_partial_profiles_marks_each_line)
{
	check(REPORT_CSV, true,
	      "path,rank,state,time_ns,mean,host,time/ms,count,partial\n"
	      "\"a,\x1b\",7,killed,1500000,-2000000.0,\"'=h\",,-3,1\n"
	      "b,,,,,,,,1\n");
}

TEST(json_omits_missing_values_and_has_null_for_unknown_numbers)
{
	check(REPORT_JSON, false,
	      "{\"rows\":[\n"
	      "{\"path\":\"a,\\u001b\",\"rank\":7,\"state\":\"killed\",\"time_ns\":1500000,"
	      "\"mean\":-2000000.0,\"host\":\"=h\",\"reason\":\"too late\","
	      "\"metrics\":{\"time/ms\":null,\"count\":-3}},\n"
	      "{\"path\":\"b\",\"mean\":null,\"metrics\":{}}]");
}
