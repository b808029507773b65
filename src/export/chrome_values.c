/* Metric values of one event of a Chrome trace, as texts and as numbers. */
#include "export/chrome_values.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "format/csv_write.h"
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

/* JSON: a number; else as text like C's "%f", or "%g" in a vector, independent of the locale. */
static void write_double(struct out *out, double value, bool is_in_vector, bool is_json)
{
	char digits[400]; /* DBL_MAX has 309 digits before the point */
	const char *point = localeconv()->decimal_point;
	char *at;

	if (is_json && isfinite(value)) {
		csv_number(out, value);
		return;
	}
	snprintf(digits, sizeof(digits), is_in_vector ? "%g" : "%f", value);
	at = strlen(point) == 1 ? strchr(digits, *point) : NULL;
	if (at)
		*at = '.';
	out_text(out, is_json ? "null" : digits);
}

static void write_vector(const struct chrome_values *values, const struct chrome_value *value,
			 struct out *out, bool is_json)
{
	uint64_t count;
	const uint64_t *words = timeline_vector(values->timeline, &value->sample, &count);

	for (uint64_t i = 0; i < count; i++) {
		out_byte(out, i ? ',' : '[');
		if (value->metric->type == PROTON_METRIC_DOUBLE_VECTOR)
			write_double(out, double_of_bits(words[i]), true, is_json);
		else
			out_i64(out, (int64_t)words[i]);
	}
	out_text(out, count ? "]" : "[]");
}

static void write_value(const struct chrome_values *values, const struct chrome_value *value,
			struct out *out, bool is_json)
{
	const struct profile *profile = values->timeline->profile;
	uint32_t string = timeline_string(values->timeline, &value->sample);

	if (value->metric->type == PROTON_METRIC_INT64)
		out_i64(out, value->sample.as.int64);
	else if (value->metric->type == PROTON_METRIC_DOUBLE)
		write_double(out, value->sample.as.float64, false, is_json);
	else if (value->metric->type == PROTON_METRIC_STRING && is_json)
		json_quote(out, profile_text(profile, string),
			   string_length(&profile->strings, string));
	else if (value->metric->type == PROTON_METRIC_STRING)
		out_bytes(out, profile_text(profile, string),
			  string_length(&profile->strings, string));
	else
		write_vector(values, value, out, is_json);
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
		write_value(values, value, &text, false);
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
	struct out text;
	bool is_done;

	out_init(&text, -1);
	for (int is_json = 0; is_json < 2; is_json++) {
		out_text(out, is_json ? ",\"values\":{" : ",\"metrics\":{");
		for (uint32_t i = 0; i < values->count; i++) {
			const char *name = name_of(values, &values->values[i]);

			out_text(out, i ? "," : "");
			json_quote(out, name, strlen(name));
			out_byte(out, ':');
			text.length = 0;
			write_value(values, &values->values[i], is_json ? out : &text, is_json);
			if (!is_json)
				json_quote(out, text.bytes, text.length);
		}
		out_byte(out, '}');
	}
	is_done = !text.errnum;
	out_fini(&text);
	return is_done;
}
