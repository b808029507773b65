/*
 * speedscope format, https://www.speedscope.app/file-format-schema.json: the list of frames, then a
 * "sampled" profile per metric, and with several devices one more per device for kernel metrics. A
 * sample is a frame with an exclusive value, its weight.
 *
 * A source frame is named by its function, with file and line as separate fields.
 */
#include <math.h>

#include "base/array.h"
#include "export/export_view.h"
#include "format/json_write.h"

#define SCHEMA "https://www.speedscope.app/file-format-schema.json"

struct speedscope {
	struct export_view *view;
	struct out *out;
	struct json_writer json;
	struct out scratch;
	uint32_t *index_of_frame; /* index in the list of frames, by frame */
};

static void write_frame(struct speedscope *speedscope, uint32_t frame)
{
	const struct profile *profile = speedscope->view->profile;
	const struct row_frame *row = &profile->frames[frame];
	struct json_writer *json = &speedscope->json;
	struct out *scratch = &speedscope->scratch;

	scratch->length = 0;
	if (row->kind == FRAME_SOURCE)
		out_text(scratch, profile_text(profile, row->name));
	else
		speedscope->view->write_name(scratch, speedscope->view, frame);
	json_line_break(json);
	json_begin_object(json);
	if (!scratch->length)
		out_text(scratch, "<unnamed>");
	json_key_string(json, "name", scratch->bytes, scratch->length);
	if (row->kind == FRAME_SOURCE) {
		json_key_string(json, "file", profile_text(profile, row->file),
				string_length(&profile->strings, row->file));
		json_key_uint64(json, "line", row->line);
	}
	json_end_object(json);
}

/* Shown frames, in order of appearance. */
static void write_frames(struct speedscope *speedscope)
{
	const struct profile *profile = speedscope->view->profile;
	uint32_t count = 0;

	for (size_t i = 0; i < profile->node_count; i++) {
		uint32_t frame = profile->nodes[i].frame;

		if (!speedscope->view->shown[i] || speedscope->index_of_frame[frame] != UINT32_MAX)
			continue;
		speedscope->index_of_frame[frame] = count++;
		write_frame(speedscope, frame);
	}
}

/* One pass over the nodes with a weight: writes their stacks, or with `is_weights` the weights. */
static void write_samples(struct speedscope *speedscope, const struct export_numbers *own,
			  bool is_weights)
{
	struct json_writer *json = &speedscope->json;
	struct export_walk walk = export_walk_begin(speedscope->view, speedscope->out, WALK_FRAMES);

	json_begin_array(json);
	while (export_walk_next(&walk)) {
		double value = export_value(own, walk.node);

		if (!(value > 0) || !isfinite(value))
			continue;
		if (is_weights && own->exact) {
			json_int64(json, export_exact(own, walk.node));
		} else if (is_weights) {
			json_double(json, value);
		} else {
			/* The root is part of no stack except its own. */
			json_begin_array(json);
			for (uint32_t i = walk.level ? 1 : 0; i <= walk.level; i++)
				json_uint64(json, speedscope->index_of_frame[walk.levels[i].frame]);
			json_end_array(json);
		}
	}
	json_end_array(json);
}

/* Units known to the schema; others become "none". */
static const char *known_unit(const char *unit)
{
	static const char *const known[] = {"nanoseconds", "microseconds", "milliseconds",
					    "seconds", "bytes"};

	for (size_t i = 0; i < ARRAY_LENGTH(known); i++)
		if (strcmp(unit, known[i]) == 0)
			return unit;
	return "none";
}

static void write_profile(struct speedscope *speedscope, const struct export_metric *metric,
			  const char *device, const struct export_numbers *own)
{
	struct json_writer *json = &speedscope->json;
	struct out *name = &speedscope->scratch;
	double sum = 0;

	for (uint32_t i = 0; i < speedscope->view->profile->node_count; i++) {
		double value = export_value(own, i);

		if (!speedscope->view->shown[i] || isnan(value))
			continue;
		speedscope->view->negative_count += value < 0;
		sum += value > 0 && isfinite(value) ? value : 0;
	}
	name->length = 0;
	out_text(name, metric->name);
	out_text(name, *device ? ", " : "");
	out_text(name, device);
	json_line_break(json);
	json_begin_object(json);
	json_key_text(json, "type", "sampled");
	json_key_string(json, "name", name->bytes, name->length);
	json_key_text(json, "unit", known_unit(metric->unit));
	json_key_uint64(json, "startValue", 0);
	json_key_double(json, "endValue", sum);
	json_key(json, "samples");
	write_samples(speedscope, own, false);
	json_key(json, "weights");
	write_samples(speedscope, own, true);
	json_end_object(json);
}

static void write_devices(struct speedscope *speedscope, const struct export_metric *metric,
			  const bool *used)
{
	const struct profile *profile = speedscope->view->profile;

	for (uint32_t d = 0; d < profile->device_count && !speedscope->out->errnum; d++) {
		struct out text = OUT_IN_MEMORY;

		if (!used[d])
			continue;
		AUTO_FREE double *own =
			export_device_own(speedscope->view, metric, d, speedscope->out);
		export_device_name(profile, d, &text);
		out_byte(&text, '\0');
		out_fail(speedscope->out, text.errnum);
		if (!speedscope->out->errnum)
			write_profile(speedscope, metric, text.bytes,
				      &(struct export_numbers){.values = own});
		out_fini(&text);
	}
}

static void write_profiles(struct speedscope *speedscope)
{
	const struct export_view *view = speedscope->view;
	size_t device_count;
	AUTO_FREE bool *used = export_used_devices(view, &device_count, speedscope->out);

	for (size_t m = 0; used && m < view->metric_count; m++) {
		const struct export_metric *metric = &view->metrics[m];

		write_profile(speedscope, metric, "", &metric->own);
		if (metric->field != EXPORT_NO_FIELD && device_count > 1)
			write_devices(speedscope, metric, used);
	}
}

static void write_all(struct speedscope *speedscope)
{
	struct json_writer *json = &speedscope->json;
	const char *title = speedscope->view->title;

	json_begin_object(json);
	json_key_text(json, "$schema", SCHEMA);
	json_key_text(json, "exporter", "proton-viewer@" PROTON_VERSION);
	json_key_text(json, "name", title);
	json_key_uint64(json, "activeProfileIndex", 0);
	json_key_object(json, "shared");
	json_key_array(json, "frames");
	write_frames(speedscope);
	json_end_array(json);
	json_end_object(json);
	json_key_array(json, "profiles");
	write_profiles(speedscope);
	json_end_array(json);
	json_end_object(json);
	out_byte(speedscope->out, '\n');
}

void export_speedscope(struct export_view *view, struct out *out)
{
	struct speedscope speedscope = {.view = view, .out = out, .scratch = OUT_IN_MEMORY};
	size_t bytes = view->profile->frame_count * sizeof(*speedscope.index_of_frame);

	json_writer_init(&speedscope.json, out, false);
	speedscope.index_of_frame = malloc(bytes + 1);
	if (speedscope.index_of_frame) {
		memset(speedscope.index_of_frame, 0xff, bytes);
		write_all(&speedscope);
	}
	out_fail(out, speedscope.index_of_frame ? speedscope.scratch.errnum : ENOMEM);
	out_fini(&speedscope.scratch);
	free(speedscope.index_of_frame);
}
