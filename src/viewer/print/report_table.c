/* Writers of report tables: text, CSV and JSON. */
#include "viewer/print/report_table.h"

#include <math.h>

#include "format/csv_write.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/xalloc.h"
#include "viewer/viewer_options.h"

#define LARGE_VALUE 1e6    /* decimals are not printed from here on */
#define JSON_ROWS_DEPTH 2u /* rows there begin a line; tables in a row do not */

/* ------------------------------------------------------------------ text */

static void text_number(struct out *out, const struct report_field *field, double value)
{
	int columns = field->columns;

	if (field->unit == REPORT_NS)
		value /= 1e6;
	if (!isfinite(value))
		out_printf(out, " %*s", columns, "-");
	else if (field->unit == REPORT_SHARE)
		out_printf(out, field->has_sign ? " %+*.1f%%" : " %*.1f%%", columns - 1,
			   100 * value);
	else if (fabs(value) < LARGE_VALUE)
		out_printf(out, field->has_sign ? " %+*.3f" : " %*.3f", columns, value);
	else
		out_printf(out, field->has_sign ? " %+*.4g" : " %*.4g", columns, value);
}

static void text_word(struct out *out, int columns, const char *text, size_t length)
{
	size_t width = (size_t)abs(columns);
	size_t rest = width > length ? width - length : 0;

	text_pad(out, columns < 0 ? 2 : 1 + rest);
	out_bytes(out, text, length);
	text_pad(out, columns < 0 ? rest : 0);
}

/* Tables of ranks are long, and printf() would take half of their time. */
static void text_count(struct out *out, int columns, uint64_t count)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + count % 10);
	while (count /= 10);
	text_word(out, columns, digits + at, sizeof(digits) - at);
}

static void text_cell(struct out *out, const struct report_field *field, struct report_value value)
{
	bool is_string = value.type == REPORT_STRING;

	if (value.type == REPORT_NUMBER)
		text_number(out, field, value.as.number);
	else if (value.type == REPORT_COUNT && field->unit != REPORT_PLAIN)
		text_number(out, field, (double)value.as.count);
	else if (value.type == REPORT_COUNT)
		text_count(out, field->columns, value.as.count);
	else if (field->columns)
		text_word(out, field->columns, is_string ? value.as.string.bytes : "",
			  is_string ? value.as.string.length : 0);
	else if (is_string && value.as.string.length) {
		out_text(out, "  ");
		text_clean(out, value.as.string.bytes, value.as.string.length);
	}
}

/* A line of titles, without values, or of values. */
static void text_line(struct report *report, const struct report_value *values)
{
	for (unsigned int place = 0; place <= report->last_place; place++) {
		for (size_t i = 0; i < report->field_count; i++) {
			const struct report_field *field = &report->fields[i];

			if (field->title && field->place == place)
				text_cell(report->out, field,
					  values ? values[i] : VALUE_TEXT(field->title));
		}
	}
	out_byte(report->out, '\n');
}

/* ------------------------------------------------------------------ CSV */

static void csv_value(struct out *out, const struct report_field *field,
		      const struct report_value *value)
{
	switch (value->type) {
	case REPORT_NONE:
		break;
	case REPORT_STRING:
		(field->is_quoted ? csv_quoted : csv_text)(out, value->as.string.bytes,
							   value->as.string.length);
		break;
	case REPORT_COUNT:
		out_u64(out, value->as.count);
		break;
	case REPORT_INTEGER:
		out_i64(out, value->as.integer);
		break;
	case REPORT_NUMBER:
		csv_number(out, value->as.number);
		break;
	}
}

static void csv_line(struct report *report, const struct report_value *values)
{
	struct out *out = report->out;
	bool has_any = false;

	if (report->target && report->target->take) {
		report->target->take(report->target->context, report, values);
		return;
	}
	for (size_t i = 0; i < report->field_count; i++) {
		const struct report_field *field = &report->fields[i];

		if (!field->name || field->is_json_only)
			continue;
		if (has_any)
			out_byte(out, ',');
		has_any = true;
		if (values)
			csv_value(out, field, &values[i]);
		else
			csv_text(out, field->name, strlen(field->name));
	}
	if (report->is_partial)
		out_text(out, values ? ",1" : ",partial");
	out_byte(out, '\n');
}

/* ------------------------------------------------------------------ JSON */

static void json_value(struct json_writer *json, const struct report_value *value)
{
	switch (value->type) {
	case REPORT_NONE:
		break;
	case REPORT_STRING:
		json_string(json, value->as.string.bytes, value->as.string.length);
		break;
	case REPORT_COUNT:
		json_uint64(json, value->as.count);
		break;
	case REPORT_INTEGER:
		json_int64(json, value->as.integer);
		break;
	case REPORT_NUMBER:
		json_double(json, value->as.number);
		break;
	}
}

void report_members(struct report *report, const struct report_value *values)
{
	struct json_writer *json = &report->json;
	const char *object = NULL;

	for (size_t i = 0; i < report->field_count; i++) {
		const struct report_field *field = &report->fields[i];

		if (field->object && !object) {
			object = field->object;
			json_key_object(json, object);
		}
		if (!field->name || values[i].type == REPORT_NONE)
			continue;
		size_t start = i ? report->key_ends[i - 1] : 0;
		json_key_quoted(json, report->keys.bytes + start, report->key_ends[i] - start);
		json_value(json, &values[i]);
	}
	if (object)
		json_end_object(json);
}

/* Rows repeat the names. */
static void quote_names(struct report *report)
{
	out_init(&report->keys, -1);
	report->key_ends = xcalloc(report->field_count, sizeof(*report->key_ends));
	for (size_t i = 0; i < report->field_count; i++) {
		const char *name = report->fields[i].name;

		if (name)
			json_quote(&report->keys, name, strlen(name));
		report->key_ends[i] = report->keys.length;
	}
	if (report->keys.errnum)
		xgive_up();
}

/* ------------------------------------------------------------------ tables */

size_t report_rows(const struct report *report, size_t standard)
{
	size_t rows = report->options->query.rows;

	return rows ? rows : report->format == REPORT_TEXT ? standard : SIZE_MAX;
}

void report_begin(struct report *report, const char *key, const struct report_field *fields,
		  size_t count)
{
	report->fields = fields;
	report->field_count = count;
	report->last_place = 0;
	for (size_t i = 0; i < count; i++)
		if (fields[i].place > report->last_place)
			report->last_place = fields[i].place;
	if (report->format == REPORT_TEXT) {
		text_line(report, NULL);
	} else if (report->format == REPORT_CSV) {
		csv_line(report, NULL);
	} else {
		quote_names(report);
		json_key_array(&report->json, key);
	}
}

void report_row(struct report *report, const struct report_value *values)
{
	if (report->format == REPORT_TEXT) {
		text_line(report, values);
	} else if (report->format == REPORT_CSV) {
		csv_line(report, values);
	} else {
		if (report->json.depth == JSON_ROWS_DEPTH)
			json_line_break(&report->json);
		json_begin_object(&report->json);
		report_members(report, values);
		json_end_object(&report->json);
	}
}

void report_end(struct report *report)
{
	if (report->format != REPORT_JSON)
		return;
	json_end_array(&report->json);
	out_fini(&report->keys);
	free(report->key_ends);
}
