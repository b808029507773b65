/* Metric values of one event of a Chrome trace, as texts and as numbers. */
#include "export/chrome_values.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "format/json_write.h"
#include "model/clamped.h"

/* ------------------------------------------------------------------ reading */

static struct chrome_value *find(struct chrome_values *values, const struct profile_metric *metric)
{
	for (uint32_t i = 0; i < values->count; i++)
		if (values->values[i].metric == metric)
			return &values->values[i];
	return NULL;
}

/* The list is in reverse order: numbers are summed; of other values the last one counts. */
static void add(struct chrome_value *value, const struct row_sample *earlier)
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
	const struct profile_metric *metric;
	struct row_sample sample;
	uint32_t last = UINT32_MAX; /* links lead backwards; others are corrupt */

	values->timeline = timeline;
	values->count = 0;
	for (uint32_t at = first; at && at < last; last = at, at = sample.next) {
		struct chrome_value *known;

		if (!timeline_sample(timeline, at, &metric, &sample))
			break;
		known = find(values, metric);
		if (known)
			add(known, &sample);
		else if (values->count < CHROME_VALUES_MAX)
			values->values[values->count++] =
				(struct chrome_value){.metric = metric, .sample = sample};
	}
	sort_by_name(values);
}

/* ------------------------------------------------------------------ values */

static uint32_t string_of(const struct chrome_values *values, const struct chrome_value *value)
{
	const struct profile_trace *trace = values->timeline->trace;
	uint64_t string = value->sample.as.string;

	return string < trace->string_count && trace->strings[string] ? trace->strings[string] - 1
								      : 0;
}

/* The words of a vector; *count_out is their number. */
static const uint64_t *vector_of(const struct chrome_values *values,
				 const struct chrome_value *value, uint64_t *count_out)
{
	const struct profile_trace *trace = values->timeline->trace;
	uint64_t at = value->sample.as.vector;
	uint64_t count = at < trace->word_count ? trace->words[at] : 0;

	*count_out = count && count <= trace->word_count - at - 1 ? count : 0;
	return *count_out ? &trace->words[at + 1] : NULL;
}

static double double_of(uint64_t word)
{
	double value;

	memcpy(&value, &word, sizeof(value));
	return value;
}

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
	const uint64_t *words = vector_of(values, value, &count);

	out_byte(text, '[');
	for (uint64_t i = 0; i < count; i++) {
		if (i)
			out_byte(text, ',');
		if (value->metric->type == PROTON_METRIC_DOUBLE_VECTOR)
			print_double(text, double_of(words[i]), true);
		else
			out_i64(text, (int64_t)words[i]);
	}
	out_byte(text, ']');
}

static void print_value(const struct chrome_values *values, const struct chrome_value *value,
			struct out *text)
{
	const struct profile *profile = values->timeline->profile;

	if (value->metric->type == PROTON_METRIC_INT64)
		out_i64(text, value->sample.as.int64);
	else if (value->metric->type == PROTON_METRIC_DOUBLE)
		print_double(text, value->sample.as.float64, false);
	else if (value->metric->type == PROTON_METRIC_STRING)
		out_bytes(text, profile_text(profile, string_of(values, value)),
			  string_length(&profile->strings, string_of(values, value)));
	else
		print_vector(values, value, text);
}

static void write_vector(const struct chrome_values *values, const struct chrome_value *value,
			 struct json_writer *json)
{
	uint64_t count;
	const uint64_t *words = vector_of(values, value, &count);

	json_begin_array(json);
	for (uint64_t i = 0; i < count; i++) {
		if (value->metric->type == PROTON_METRIC_DOUBLE_VECTOR)
			json_double(json, double_of(words[i]));
		else
			json_int64(json, (int64_t)words[i]);
	}
	json_end_array(json);
}

static void write_number(const struct chrome_values *values, const struct chrome_value *value,
			 struct json_writer *json)
{
	const struct profile *profile = values->timeline->profile;

	if (value->metric->type == PROTON_METRIC_INT64)
		json_int64(json, value->sample.as.int64);
	else if (value->metric->type == PROTON_METRIC_DOUBLE)
		json_double(json, value->sample.as.float64);
	else if (value->metric->type == PROTON_METRIC_STRING)
		json_string(json, profile_text(profile, string_of(values, value)),
			    string_length(&profile->strings, string_of(values, value)));
	else
		write_vector(values, value, json);
}

/* ------------------------------------------------------------------ writing */

static const char *name_of(const struct chrome_values *values, const struct chrome_value *value,
			   size_t *length_out)
{
	const struct profile *profile = values->timeline->profile;

	*length_out = string_length(&profile->strings, value->metric->name);
	return profile_text(profile, value->metric->name);
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
		const char *metric = name_of(values, value, &length);

		out_text(&text, i ? ", <" : ": <");
		out_bytes(&text, metric, length);
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
	bool is_done = true;
	size_t length;

	out_text(out, ",\"metrics\":{");
	for (uint32_t i = 0; i < values->count && is_done; i++) {
		const struct chrome_value *value = &values->values[i];
		const char *name = name_of(values, value, &length);

		if (i)
			out_byte(out, ',');
		json_quote(out, name, length);
		out_byte(out, ':');
		out_init(&text, -1);
		print_value(values, value, &text);
		is_done = !text.errnum;
		json_quote(out, text.bytes ? text.bytes : "", text.length);
		out_fini(&text);
	}
	out_text(out, "},\"values\":{");
	for (uint32_t i = 0; i < values->count; i++) {
		const struct chrome_value *value = &values->values[i];
		const char *name = name_of(values, value, &length);

		if (i)
			out_byte(out, ',');
		json_quote(out, name, length);
		out_byte(out, ':');
		json_writer_init(&json, out, false);
		write_number(values, value, &json);
	}
	out_byte(out, '}');
	return is_done;
}
