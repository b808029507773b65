/* Metric values of one event of a Chrome trace, as texts and as numbers. */
#include "export/chrome_values.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "format/json_write.h"
#include "model/clamped.h"

/* ------------------------------------------------------------------ reading */

static struct chrome_value *find_value(struct chrome_values *values,
				       const struct row_metric *metric)
{
	for (uint32_t i = 0; i < values->count; i++)
		if (values->values[i].metric == metric)
			return &values->values[i];
	return NULL;
}

/* The list is in reverse order: numbers are summed; of other values the last one counts. */
static void add_value(struct chrome_value *value, const struct row_sample *earlier)
{
	if (value->metric->flags & METRIC_PROPERTY)
		return;
	if (value->metric->type == PROTON_METRIC_INT64)
		clamped_add(&value->sample.as.int64, earlier->as.int64);
	else if (value->metric->type == PROTON_METRIC_DOUBLE)
		value->sample.as.float64 += earlier->as.float64;
}

/* Sorted as upstream's readers expect. */
static void sort_by_name(struct chrome_values *values)
{
	const struct profile *profile = values->timeline->profile;

	for (uint32_t i = 1; i < values->count; i++) {
		struct chrome_value moved = values->values[i];
		const char *name = profile_text(profile, moved.metric->name);
		uint32_t at = i;

		for (; at &&
		       strcmp(profile_text(profile, values->values[at - 1].metric->name), name) > 0;
		     at--)
			values->values[at] = values->values[at - 1];
		values->values[at] = moved;
	}
}

void chrome_values_read(struct chrome_values *values, const struct timeline *timeline,
			uint32_t first)
{
	const struct row_metric *metric;
	struct row_sample sample;

	values->timeline = timeline;
	values->count = 0;
	while (timeline_take_sample(timeline, &first, &metric, &sample)) {
		struct chrome_value *known = find_value(values, metric);

		if (known)
			add_value(known, &sample);
		else if (values->count < CHROME_VALUES_MAX)
			values->values[values->count++] =
				(struct chrome_value){.metric = metric, .sample = sample};
	}
	sort_by_name(values);
}

/* ------------------------------------------------------------------ values */

/* Formats like C's "%f", or "%g" in a vector, independent of the locale. */
static void print_double(struct out *text, double value, bool is_in_vector)
{
	char digits[400]; /* DBL_MAX has 309 digits before the point */
	const char *point = localeconv()->decimal_point;
	int length = snprintf(digits, sizeof(digits), is_in_vector ? "%g" : "%f", value);
	char *at = strstr(digits, point);

	if (length < 0)
		return;
	if (!at || strlen(point) != 1) {
		out_text(text, digits);
		return;
	}
	out_bytes(text, digits, (size_t)(at - digits));
	out_byte(text, '.');
	out_text(text, at + 1);
}

static void print_vector(const struct chrome_values *values, const struct chrome_value *value,
			 struct out *text)
{
	uint64_t count;
	const uint64_t *words = timeline_vector(values->timeline, &value->sample, &count);

	out_byte(text, '[');
	for (uint64_t i = 0; i < count; i++) {
		if (i)
			out_byte(text, ',');
		if (value->metric->type == PROTON_METRIC_DOUBLE_VECTOR)
			print_double(text, double_of_bits(words[i]), true);
		else
			out_i64(text, (int64_t)words[i]);
	}
	out_byte(text, ']');
}

static void print_value(const struct chrome_values *values, const struct chrome_value *value,
			struct out *text)
{
	const struct profile *profile = values->timeline->profile;
	uint32_t string = timeline_string(values->timeline, &value->sample);

	if (value->metric->type == PROTON_METRIC_INT64)
		out_i64(text, value->sample.as.int64);
	else if (value->metric->type == PROTON_METRIC_DOUBLE)
		print_double(text, value->sample.as.float64, false);
	else if (value->metric->type == PROTON_METRIC_STRING)
		out_bytes(text, profile_text(profile, string),
			  string_length(&profile->strings, string));
	else
		print_vector(values, value, text);
}

static void write_vector(const struct chrome_values *values, const struct chrome_value *value,
			 struct json_writer *json)
{
	uint64_t count;
	const uint64_t *words = timeline_vector(values->timeline, &value->sample, &count);

	json_begin_array(json);
	for (uint64_t i = 0; i < count; i++) {
		if (value->metric->type == PROTON_METRIC_DOUBLE_VECTOR)
			json_double(json, double_of_bits(words[i]));
		else
			json_int64(json, (int64_t)words[i]);
	}
	json_end_array(json);
}

static void write_number(const struct chrome_values *values, const struct chrome_value *value,
			 struct json_writer *json)
{
	const struct profile *profile = values->timeline->profile;
	uint32_t string = timeline_string(values->timeline, &value->sample);

	if (value->metric->type == PROTON_METRIC_INT64)
		json_int64(json, value->sample.as.int64);
	else if (value->metric->type == PROTON_METRIC_DOUBLE)
		json_double(json, value->sample.as.float64);
	else if (value->metric->type == PROTON_METRIC_STRING)
		json_string(json, profile_text(profile, string),
			    string_length(&profile->strings, string));
	else
		write_vector(values, value, json);
}

/* ------------------------------------------------------------------ writing */

static const char *name_of(const struct chrome_values *values, const struct chrome_value *value)
{
	return profile_text(values->timeline->profile, value->metric->name);
}

bool chrome_values_quote(const struct chrome_values *values, struct out *out, uint32_t frame)
{
	char name[1024];
	size_t length = profile_frame_text(values->timeline->profile, frame, name, sizeof(name));
	struct out text;
	bool is_done;

	out_init(&text, -1);
	out_bytes(&text, name, length < sizeof(name) ? length : sizeof(name) - 1);
	for (uint32_t i = 0; i < values->count; i++) {
		const struct chrome_value *value = &values->values[i];

		out_text(&text, i ? ", <" : ": <");
		out_text(&text, name_of(values, value));
		out_text(&text, ", ");
		print_value(values, value, &text);
		out_byte(&text, '>');
	}
	is_done = !text.errnum;
	if (is_done)
		json_quote(out, text.bytes, text.length);
	out_fini(&text);
	return is_done;
}

bool chrome_values_write(const struct chrome_values *values, struct out *out)
{
	struct json_writer json;
	struct out text;
	bool is_done;

	out_init(&text, -1);
	out_text(out, ",\"metrics\":");
	json_writer_init(&json, out, false);
	json_begin_object(&json);
	for (uint32_t i = 0; i < values->count; i++) {
		text.length = 0;
		print_value(values, &values->values[i], &text);
		json_key(&json, name_of(values, &values->values[i]));
		json_string(&json, text.length ? text.bytes : "", text.length);
	}
	json_end_object(&json);
	out_text(out, ",\"values\":");
	json_writer_init(&json, out, false);
	json_begin_object(&json);
	for (uint32_t i = 0; i < values->count; i++) {
		json_key(&json, name_of(values, &values->values[i]));
		write_number(values, &values->values[i], &json);
	}
	json_end_object(&json);
	is_done = !text.errnum;
	out_fini(&text);
	return is_done;
}
