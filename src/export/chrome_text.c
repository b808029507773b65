/* Texts of Chrome traces: frames, and the metric values of events. */
#include "export/chrome_text.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "format/csv_write.h"
#include "format/json_write.h"
#include "model/clamped.h"

#define CALL_STACK_MAX 1024u

void chrome_quote_frame(const struct profile *profile, struct out *out, uint32_t frame)
{
	char text[1024];
	size_t length = profile_frame_text(profile, frame, text, sizeof(text));

	if (length >= sizeof(text))
		length = sizeof(text) - 1;
	json_quote(out, text, length);
}

void chrome_call_stack(const struct profile *profile, struct out *out, uint32_t node)
{
	uint32_t path[CALL_STACK_MAX];
	uint32_t depth = 0;

	for (uint32_t at = node; at && depth < CALL_STACK_MAX; at = profile->nodes[at].parent)
		path[depth++] = at;
	out_text(out, "[\"ROOT\"");
	while (depth) {
		out_byte(out, ',');
		chrome_quote_frame(profile, out, profile->nodes[path[--depth]].frame);
	}
	out_byte(out, ']');
}

/* ------------------------------------------------------------------ reading */

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
	/* The list is in reverse order: numbers are summed; of other values the last one counts. */
	while (timeline_take_sample(timeline, &first, &metric, &sample)) {
		uint32_t i = 0;

		while (i < values->count && values->values[i].metric != metric)
			i++;
		if (i == values->count && i < CHROME_VALUES_MAX)
			values->values[values->count++] =
				(struct chrome_value){.metric = metric, .sample = sample};
		else if (i == values->count || metric->flags & METRIC_PROPERTY)
			continue;
		else if (metric->type == PROTON_METRIC_INT64)
			clamped_add(&values->values[i].sample.as.int64, sample.as.int64);
		else if (metric->type == PROTON_METRIC_DOUBLE)
			values->values[i].sample.as.float64 += sample.as.float64;
	}
	sort_by_name(values);
}

/* ------------------------------------------------------------------ values */

/* JSON: a number; else as text like C's "%f", or "%g" in a vector, independent of the locale. */
static void write_double(struct out *out, double value, bool is_in_vector, bool is_json)
{
	char digits[400]; /* DBL_MAX has 309 digits before the point */
	const char *point = localeconv()->decimal_point;

	if (is_json && isfinite(value)) {
		csv_number(out, value);
		return;
	}
	snprintf(digits, sizeof(digits), is_in_vector ? "%g" : "%f", value);
	char *at = strlen(point) == 1 ? strchr(digits, *point) : NULL;
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

void chrome_values_quote(const struct chrome_values *values, struct out *out, uint32_t frame)
{
	char name[1024];
	size_t length = profile_frame_text(values->timeline->profile, frame, name, sizeof(name));
	AT_END(out_fini) struct out text = OUT_IN_MEMORY;

	out_bytes(&text, name, length < sizeof(name) ? length : sizeof(name) - 1);
	for (uint32_t i = 0; i < values->count; i++) {
		const struct chrome_value *value = &values->values[i];

		out_text(&text, i ? ", <" : ": <");
		out_text(&text, name_of(values, value));
		out_text(&text, ", ");
		write_value(values, value, &text, false);
		out_byte(&text, '>');
	}
	json_quote(out, text.bytes, text.length);
	out_fail(out, text.errnum);
}

void chrome_values_write(const struct chrome_values *values, struct out *out)
{
	AT_END(out_fini) struct out text = OUT_IN_MEMORY;

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
	out_fail(out, text.errnum);
}
