/*
 * pprof: a gzip'd protocol buffer, https://github.com/google/pprof/blob/main/proto/profile.proto.
 * It has a sample per frame with exclusive values and per device, labelled "device"; a location per
 * frame, with file and line for source frames; a sample type per metric.
 *
 * Values are integers. Times are always in nanoseconds, whatever the requested unit; other values
 * are rounded. Invalid UTF-8 in strings is replaced.
 */
#include <errno.h>
#include <math.h>

#include "base/array.h"
#include "export/export_view.h"
#include "format/gzip_write.h"
#include "format/protobuf_write.h"

/* Field numbers of message Profile and its submessages. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING_TABLE = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_SAMPLE_TYPE = 14,
	TYPE_TYPE = 1,
	TYPE_UNIT = 2,
	SAMPLE_LOCATION_ID = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,
	LABEL_KEY = 1,
	LABEL_STR = 2,
	LOCATION_ID = 1,
	LOCATION_LINE = 4,
	LINE_FUNCTION_ID = 1,
	LINE_LINE = 2,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM_NAME = 3,
	FUNCTION_FILENAME = 4,
};

struct pprof {
	struct export_view *view;
	struct out bytes; /* written, not yet passed to gzip */
	struct protobuf_writer buffer;
	struct gzip_writer gzip;
	struct out *out; /* of gzip; it fails if memory runs out */
	uint64_t string_count;
	uint64_t *index_of_string; /* in the string table, by string of the profile; 0: not there */
	bool *has_location;        /* by frame */
	uint64_t *stack;           /* locations of the current sample, innermost first */
	size_t stack_capacity;
	uint64_t *values;    /* of the current sample */
	double **device_own; /* by metric: its column in this pass over the nodes, or NULL */
	double **all_own;    /* by metric with a field: the sum over all devices */
};

/* ------------------------------------------------------------------ strings */

static uint64_t add_string(struct pprof *pprof, const char *text, size_t length)
{
	protobuf_text(&pprof->buffer, PROFILE_STRING_TABLE, text, length);
	return pprof->string_count++;
}

static uint64_t add_text(struct pprof *pprof, const char *text)
{
	return add_string(pprof, text, strlen(text));
}

/* Adds a string of the profile once. */
static uint64_t use_string(struct pprof *pprof, uint32_t string)
{
	const struct strings *strings = &pprof->view->profile->strings;

	if (!pprof->index_of_string[string] && string_length(strings, string))
		pprof->index_of_string[string] = add_string(pprof, string_text(strings, string),
							    string_length(strings, string));
	return pprof->index_of_string[string];
}

/* ------------------------------------------------------------------ types */

static double unit_ns(const char *unit)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {
		{"nanoseconds", 1},
		{"microseconds", 1e3},
		{"milliseconds", 1e6},
		{"seconds", 1e9},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(units); i++)
		if (strcmp(unit, units[i].name) == 0)
			return units[i].ns;
	return 0;
}

/*
 * "time (ns)" and "time/ms" become "time", because the unit is a separate field; "time/ms before"
 * becomes "time before".
 */
static uint64_t add_bare_name(struct pprof *pprof, const struct export_metric *metric)
{
	const char *which = metric->which ? metric->which : "";
	size_t length = strlen(metric->name) - (*which ? strlen(which) + 1 : 0);
	size_t end = length;
	AT_END(out_fini) struct out text = OUT_IN_MEMORY;

	if (length && metric->name[length - 1] == ')') {
		const char *unit = strstr(metric->name, " (");

		end = unit ? (size_t)(unit - metric->name) : length;
	} else if (unit_ns(metric->unit) > 0) {
		while (end && metric->name[end - 1] != '/')
			end--;
		end = end ? end - 1 : length;
	}
	out_bytes(&text, metric->name, end ? end : length);
	out_bytes(&text, metric->name + length, strlen(metric->name) - length);
	out_fail(pprof->out, text.errnum);
	return add_string(pprof, text.bytes, text.length);
}

static void write_types(struct pprof *pprof)
{
	for (size_t m = 0; m < pprof->view->metric_count; m++) {
		const struct export_metric *metric = &pprof->view->metrics[m];
		uint64_t type = add_bare_name(pprof, metric);
		const char *unit = unit_ns(metric->unit) > 0 ? "nanoseconds"
				   : *metric->unit           ? metric->unit
							     : "count";
		uint64_t unit_string = add_text(pprof, unit);

		protobuf_begin(&pprof->buffer, PROFILE_SAMPLE_TYPE);
		protobuf_uint64(&pprof->buffer, TYPE_TYPE, type);
		protobuf_uint64(&pprof->buffer, TYPE_UNIT, unit_string);
		protobuf_end(&pprof->buffer);
		if (m == 0)
			protobuf_uint64(&pprof->buffer, PROFILE_DEFAULT_SAMPLE_TYPE, type);
	}
}

static void write_run(struct pprof *pprof)
{
	const struct profile *profile = pprof->view->profile;

	if (profile->start_ns)
		protobuf_uint64(&pprof->buffer, PROFILE_TIME_NANOS, profile->start_ns);
	if (profile->end_ns > profile->start_ns && profile->start_ns)
		protobuf_uint64(&pprof->buffer, PROFILE_DURATION_NANOS,
				profile->end_ns - profile->start_ns);
	for (size_t i = 0; i < profile->info_count; i++) {
		AT_END(out_fini) struct out text = OUT_IN_MEMORY;

		out_text(&text, profile_text(profile, profile->info[i].key));
		out_text(&text, ": ");
		out_text(&text, profile_text(profile, profile->info[i].value));
		if (text.length)
			protobuf_uint64(&pprof->buffer, PROFILE_COMMENT,
					add_string(pprof, text.bytes, text.length));
	}
	if (profile_is_partial(profile))
		protobuf_uint64(&pprof->buffer, PROFILE_COMMENT, add_text(pprof, "partial: 1"));
}

/* ------------------------------------------------------------------ locations */

/* The number of a location and function is that of the frame plus 1. */
static uint64_t use_location(struct pprof *pprof, uint32_t frame)
{
	const struct row_frame *row = &pprof->view->profile->frames[frame];
	uint64_t id = (uint64_t)frame + 1;

	if (pprof->has_location[frame])
		return id;
	pprof->has_location[frame] = true;
	uint64_t name = use_string(pprof, row->name);
	if (!name)
		name = add_text(pprof, row->kind == FRAME_ROOT ? "ROOT" : "<unnamed>");
	uint64_t file = row->kind == FRAME_SOURCE ? use_string(pprof, row->file) : 0;
	protobuf_begin(&pprof->buffer, PROFILE_FUNCTION);
	protobuf_uint64(&pprof->buffer, FUNCTION_ID, id);
	protobuf_uint64(&pprof->buffer, FUNCTION_NAME, name);
	protobuf_uint64(&pprof->buffer, FUNCTION_SYSTEM_NAME, name);
	if (file)
		protobuf_uint64(&pprof->buffer, FUNCTION_FILENAME, file);
	protobuf_end(&pprof->buffer);
	protobuf_begin(&pprof->buffer, PROFILE_LOCATION);
	protobuf_uint64(&pprof->buffer, LOCATION_ID, id);
	protobuf_begin(&pprof->buffer, LOCATION_LINE);
	protobuf_uint64(&pprof->buffer, LINE_FUNCTION_ID, id);
	if (row->kind == FRAME_SOURCE)
		protobuf_uint64(&pprof->buffer, LINE_LINE, row->line);
	protobuf_end(&pprof->buffer);
	protobuf_end(&pprof->buffer);
	return id;
}

/* ------------------------------------------------------------------ samples */

static uint64_t whole_number(double value)
{
	if (!(value > -9.2e18))
		return isnan(value) ? 0 : (uint64_t)INT64_MIN;
	return value < 9.2e18 ? (uint64_t)llround(value) : (uint64_t)INT64_MAX;
}

/*
 * A node's value of a metric in this pass: on the device of the pass. The pass of the node's first
 * device, or the pass without a device, also includes values without a known device.
 */
static uint64_t value_of(const struct pprof *pprof, size_t m, uint32_t node, bool has_rest)
{
	const struct export_metric *metric = &pprof->view->metrics[m];
	double scale = unit_ns(metric->unit);
	double value = pprof->device_own[m] ? pprof->device_own[m][node] : 0;

	if (has_rest && !isnan(export_value(&metric->own, node))) {
		double by_kernels = pprof->all_own[m] ? pprof->all_own[m][node] : 0;

		if (by_kernels == 0 && value == 0 && metric->own.exact && scale <= 1)
			return (uint64_t)export_exact(&metric->own, node);
		value += export_value(&metric->own, node) - by_kernels;
	}
	return whole_number(value * (scale > 0 ? scale : 1));
}

static void write_sample(struct pprof *pprof, const struct export_walk *walk, uint64_t key,
			 uint64_t device)
{
	/* The root is part of no stack except its own. */
	uint32_t count = walk->level ? walk->level : 1;

	if (!array_reserve(&pprof->stack, &pprof->stack_capacity, count, sizeof(*pprof->stack))) {
		out_fail(pprof->out, ENOMEM);
		return;
	}
	for (uint32_t i = count; i-- > 0;)
		pprof->stack[i] = use_location(pprof, walk->levels[walk->level - i].frame);
	protobuf_begin(&pprof->buffer, PROFILE_SAMPLE);
	protobuf_packed_uint64(&pprof->buffer, SAMPLE_LOCATION_ID, pprof->stack, count);
	protobuf_packed_uint64(&pprof->buffer, SAMPLE_VALUE, pprof->values,
			       pprof->view->metric_count);
	if (device) {
		protobuf_begin(&pprof->buffer, SAMPLE_LABEL);
		protobuf_uint64(&pprof->buffer, LABEL_KEY, key);
		protobuf_uint64(&pprof->buffer, LABEL_STR, device);
		protobuf_end(&pprof->buffer);
	}
	protobuf_end(&pprof->buffer);
	gzip_give(&pprof->gzip, &pprof->bytes, GZIP_PIECE_BYTES);
}

/* `device` EXPORT_ALL_DEVICES: nodes without a known device. */
static void write_samples(struct pprof *pprof, uint32_t device, uint64_t key, uint64_t label)
{
	const struct profile *profile = pprof->view->profile;
	struct export_walk walk = export_walk_begin(pprof->view, pprof->out, WALK_FRAMES);

	while (export_walk_next(&walk)) {
		uint32_t kernel = profile->nodes[walk.node].first_kernel;
		bool has_rest = kernel ? profile->kernels[kernel].device == device
				       : device == EXPORT_ALL_DEVICES;
		bool is_any = false;

		for (size_t m = 0; m < pprof->view->metric_count; m++) {
			pprof->values[m] = value_of(pprof, m, walk.node, has_rest);
			is_any |= pprof->values[m] != 0;
		}
		if (is_any)
			write_sample(pprof, &walk, key, label);
	}
}

/* The samples of one device. */
static void write_device(struct pprof *pprof, uint32_t device, uint64_t key)
{
	const struct export_view *view = pprof->view;
	AT_END(out_fini) struct out label = OUT_IN_MEMORY;

	for (size_t m = 0; m < view->metric_count; m++)
		if (view->metrics[m].field != EXPORT_NO_FIELD)
			pprof->device_own[m] =
				export_device_own(view, &view->metrics[m], device, pprof->out);
	export_device_name(view->profile, device, &label);
	out_fail(pprof->out, label.errnum);
	if (!pprof->out->errnum)
		write_samples(pprof, device, key, add_string(pprof, label.bytes, label.length));
	for (size_t m = 0; m < view->metric_count; m++) {
		free(pprof->device_own[m]);
		pprof->device_own[m] = NULL;
	}
}

static void write_all(struct pprof *pprof)
{
	const struct export_view *view = pprof->view;
	size_t used_count;
	AUTO_FREE bool *used = export_used_devices(view, &used_count, pprof->out);

	add_text(pprof, ""); /* the first string must be empty */
	write_types(pprof);
	write_run(pprof);
	uint64_t key = add_text(pprof, "device");
	for (size_t m = 0; m < view->metric_count; m++)
		if (view->metrics[m].field != EXPORT_NO_FIELD)
			pprof->all_own[m] = export_device_own(view, &view->metrics[m],
							      EXPORT_ALL_DEVICES, pprof->out);
	for (uint32_t d = 0; d < view->profile->device_count && !pprof->out->errnum; d++)
		if (used[d])
			write_device(pprof, d, key);
	if (!pprof->out->errnum)
		write_samples(pprof, EXPORT_ALL_DEVICES, 0, 0);
}

void export_pprof(struct export_view *view, struct out *out)
{
	struct pprof pprof = {.view = view, .out = out, .bytes = OUT_IN_MEMORY};
	const struct profile *profile = view->profile;
	size_t metrics = view->metric_count + 1;

	pprof.buffer.out = &pprof.bytes;
	gzip_begin(&pprof.gzip, out);
	pprof.index_of_string =
		calloc(profile->strings.used / 8 + 1, sizeof(*pprof.index_of_string));
	pprof.has_location = calloc(profile->frame_count + 1, sizeof(*pprof.has_location));
	pprof.values = calloc(metrics, sizeof(*pprof.values));
	pprof.device_own = calloc(metrics, sizeof(*pprof.device_own));
	pprof.all_own = calloc(metrics, sizeof(*pprof.all_own));
	if (pprof.index_of_string && pprof.has_location && pprof.values && pprof.device_own &&
	    pprof.all_own)
		write_all(&pprof);
	else
		out_fail(out, ENOMEM);
	gzip_give(&pprof.gzip, &pprof.bytes, 0);
	gzip_end(&pprof.gzip);
	for (size_t m = 0; pprof.all_own && m < view->metric_count; m++)
		free(pprof.all_own[m]);
	FREE_ALL(pprof.index_of_string, pprof.has_location, pprof.values, pprof.device_own,
		 pprof.all_own, pprof.stack);
	out_fini(&pprof.bytes);
}
