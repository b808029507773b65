/*
 * HTML report: one self-contained file, the page of src/export/html/ with the profile as JSON. The
 * page only draws: every number is computed here, or divided there like in the viewer.
 *
 * Browsers are slow with a million frames, so only those with the largest share of any metric are
 * drawn (html_nodes.h). The others still count in the frames above them, in searches
 * (html_pruned.h) and in the table of kernels, which is complete.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "export/export_view.h"
#include "export/html/page.h"
#include "export/html_nodes.h"
#include "export/html_pruned.h"
#include "export/html_report.h"
#include "format/json_write.h"

struct html {
	const struct export_view *view;
	const struct html_nodes *nodes;
	struct json_writer json;
	struct out *out;
	struct out scratch, quoted;
	double *weights;          /* per node */
	uint32_t *number_of_node; /* index on the page; UINT32_MAX: not drawn */
	uint32_t *number_of_frame;
	uint32_t *frames; /* by their index */
	size_t node_count, frame_count;
	bool is_out_of_memory;
};

/* ------------------------------------------------------------------ texts */

/* "</script>" and "<!--" in a name must not end the script element. */
static void write_text(struct html *html, const char *text, size_t length)
{
	struct out *quoted = &html->quoted;
	struct out *safe = &html->scratch;

	if (html->out->errnum)
		return;
	quoted->length = 0;
	json_quote(quoted, text, length);
	safe->length = 0;
	for (const char *at = quoted->bytes, *end = at + quoted->length; at < end;) {
		const char *mark = memchr(at, '<', (size_t)(end - at));

		out_bytes(safe, at, (size_t)((mark ? mark : end) - at));
		if (mark)
			out_text(safe, "\\u003c");
		at = mark ? mark + 1 : end;
	}
	json_string_quoted(&html->json, safe->bytes, safe->length);
}

static void write_string(struct html *html, uint32_t string)
{
	const struct strings *strings = &html->view->profile->strings;

	write_text(html, string_text(strings, string), string_length(strings, string));
}

static void key_text(struct html *html, const char *key, const char *text)
{
	json_key(&html->json, key);
	write_text(html, text, strlen(text));
}

/* Short notation: most numbers are integers. */
static void write_number(struct html *html, double value)
{
	if (value == floor(value) && fabs(value) < 9e15)
		json_int64(&html->json, (int64_t)value);
	else
		json_double(&html->json, value); /* NAN: null */
}

static void key_number(struct html *html, const char *key, double value)
{
	json_key(&html->json, key);
	write_number(html, value);
}

/* ------------------------------------------------------------------ which nodes */

static bool number_nodes(struct html *html)
{
	const struct profile *profile = html->view->profile;

	html->number_of_node = malloc(profile->node_count * sizeof(*html->number_of_node));
	html->number_of_frame = malloc((profile->frame_count + 1) * sizeof(*html->number_of_frame));
	html->frames = malloc((profile->frame_count + 1) * sizeof(*html->frames));
	if (!html->number_of_node || !html->number_of_frame || !html->frames)
		return false;
	memset(html->number_of_frame, 0xff, profile->frame_count * sizeof(*html->number_of_frame));
	for (size_t i = 0; i < profile->node_count; i++) {
		uint32_t frame = profile->nodes[i].frame;

		html->number_of_node[i] = UINT32_MAX;
		if (html->nodes->place[i] == HTML_HIDDEN)
			continue;
		if (html->nodes->place[i] == HTML_DRAWN)
			html->number_of_node[i] = (uint32_t)html->node_count++;
		if (html->number_of_frame[frame] == UINT32_MAX) {
			html->frames[html->frame_count] = frame;
			html->number_of_frame[frame] = (uint32_t)html->frame_count++;
		}
	}
	return true;
}

/* ------------------------------------------------------------------ what was run */

static void write_info(struct html *html)
{
	const struct profile *profile = html->view->profile;
	struct json_writer *json = &html->json;

	json_key_array(json, "info");
	for (size_t i = 0; i < profile->info_count; i++) {
		json_begin_array(json);
		write_string(html, profile->info[i].key);
		write_string(html, profile->info[i].value);
		json_end_array(json);
	}
	json_end_array(json);
	json_key_array(json, "losses");
	for (size_t i = 0; i < profile->counter_count; i++) {
		const struct profile_counter *counter = &profile->counters[i];

		if (!counter->is_loss || !counter->value)
			continue;
		json_begin_array(json);
		write_string(html, counter->name);
		json_uint64(json, counter->value);
		json_end_array(json);
	}
	json_end_array(json);
}

static void write_devices(struct html *html)
{
	const struct export_report *report = html->view->report;
	const struct profile *profile = html->view->profile;
	struct json_writer *json = &html->json;

	json_key_array(json, "devices");
	for (size_t i = 0; i < report->device_count; i++) {
		const struct report_device *device = &report->devices[i];
		const struct profile_device *row = &profile->devices[device->device];

		json_begin_object(json);
		json_key(json, "type");
		write_string(html, row->type);
		key_number(html, "id", row->id);
		json_key(json, "name");
		write_string(html, row->name);
		json_key(json, "arch");
		write_string(html, row->arch);
		key_number(html, "time", (double)device->total_ns);
		if (device->has_peaks) {
			json_key_array(json, "flops");
			for (size_t w = 0; w < REPORT_WIDTHS; w++)
				write_number(html,
					     report->uses_width[w] ? device->flop_per_s[w] : NAN);
			json_end_array(json);
			key_number(html, "bytes", device->byte_per_s);
		}
		json_end_object(json);
	}
	json_end_array(json);
}

static void write_head(struct html *html)
{
	const struct profile *profile = html->view->profile;
	struct json_writer *json = &html->json;
	uint64_t start_ms = profile->start_ns / 1000000;

	key_text(html, "title", html->view->title);
	write_info(html);
	key_number(html, "start", (double)start_ms);
	key_number(html, "duration",
		   profile->end_ns > profile->start_ns && profile->start_ns
			   ? (double)(profile->end_ns - profile->start_ns)
			   : NAN);
	json_key_bool(json, "unfinished", profile->is_unfinished);
	json_key_bool(json, "damaged", profile->is_damaged);
	write_devices(html);
}

/* ------------------------------------------------------------------ the tree */

static void write_column(struct html *html, const char *key, const struct export_numbers *numbers)
{
	const struct profile *profile = html->view->profile;

	json_key(&html->json, key);
	json_begin_array(&html->json);
	for (uint32_t i = 0; i < profile->node_count; i++)
		if (html->number_of_node[i] != UINT32_MAX)
			write_number(html, export_value(numbers, i));
	json_end_array(&html->json);
}

static void write_metric(struct html *html, const struct export_metric *metric)
{
	struct json_writer *json = &html->json;

	json_line_break(json);
	json_begin_object(json);
	key_text(html, "name", metric->name);
	key_text(html, "unit", metric->unit);
	json_key_bool(json, "inclusive", metric->is_inclusive);
	json_key_bool(json, "adds", metric->own.values != NULL);
	key_number(html, "decimals", metric->decimals);
	json_key_bool(json, "scientific", metric->is_scientific);
	write_column(html, "values", &metric->total);
	/* For metrics with inclusive values these are the values. */
	if (metric->own.values && !metric->is_inclusive && html->weights) {
		html_weights(html->view, metric, html->weights);
		write_column(html, "weights", &(struct export_numbers){.values = html->weights});
	}
	json_end_object(json);
}

static void write_tree(struct html *html)
{
	const struct export_view *view = html->view;
	const struct profile *profile = view->profile;
	struct json_writer *json = &html->json;
	struct out name;

	out_init(&name, -1);
	json_key_array(json, "frames");
	for (size_t i = 0; i < html->frame_count; i++) {
		name.length = 0;
		view->write_name(&name, view, html->frames[i]);
		json_line_break(json);
		if (name.length)
			write_text(html, name.bytes, name.length);
		else
			write_text(html, "<unnamed>", 9);
	}
	json_end_array(json);
	html->is_out_of_memory |= name.errnum != 0;
	out_fini(&name);
	json_key_array(json, "parent");
	for (size_t i = 0; i < profile->node_count; i++)
		if (html->number_of_node[i] != UINT32_MAX)
			json_uint64(json, html->number_of_node[profile->nodes[i].parent]);
	json_end_array(json);
	json_key_array(json, "frame");
	for (size_t i = 0; i < profile->node_count; i++)
		if (html->number_of_node[i] != UINT32_MAX)
			json_uint64(json, html->number_of_frame[profile->nodes[i].frame]);
	json_end_array(json);
	json_key_array(json, "metrics");
	for (size_t m = 0; m < view->metric_count; m++)
		write_metric(html, &view->metrics[m]);
	json_end_array(json);
}

/* ------------------------------------------------------------------ kernels */

static double known_time(uint64_t ns)
{
	return ns == KERNEL_TIME_UNKNOWN ? NAN : (double)ns;
}

/* [shortest duration of the bucket in ns, runs] for each bucket that is not empty. */
static void write_histogram(struct html *html, const struct report_kernel *kernel)
{
	struct json_writer *json = &html->json;

	json_begin_array(json);
	for (uint32_t i = 0; kernel->has_histogram && i < HISTOGRAM_BUCKETS; i++) {
		if (!kernel->bucket[i])
			continue;
		json_begin_array(json);
		json_uint64(json, i);
		json_uint64(json, kernel->bucket[i]);
		json_end_array(json);
	}
	json_end_array(json);
}

static void write_kernels(struct html *html)
{
	const struct export_report *report = html->view->report;
	struct json_writer *json = &html->json;

	json_key_array(json, "kernels");
	for (size_t i = 0; i < report->kernel_count; i++) {
		const struct report_kernel *kernel = &report->kernels[i];

		json_line_break(json);
		json_begin_array(json);
		json_uint64(json, html->number_of_frame[kernel->frame]);
		json_uint64(json, kernel->count);
		json_uint64(json, kernel->total_ns);
		write_number(html, known_time(kernel->min_ns));
		write_number(html, known_time(kernel->max_ns));
		write_number(html, kernel->flops);
		write_number(html, kernel->bytes);
		write_number(html, kernel->util);
		write_histogram(html, kernel);
		json_end_array(json);
	}
	json_end_array(json);
}

/* ------------------------------------------------------------------ the page */

static void write_pruned(struct html *html)
{
	struct html_numbers numbers = {
		.of_node = html->number_of_node,
		.of_frame = html->number_of_frame,
		.frame_count = html->frame_count,
	};

	json_key(&html->json, "pruned");
	html->is_out_of_memory |= !html_pruned_write(&html->json, html->nodes, &numbers);
}

/* False if memory ran out. */
static bool write_profile(const struct html_nodes *nodes, struct out *out)
{
	const struct export_view *view = nodes->view;
	struct html html = {.view = view, .nodes = nodes, .out = out};

	json_writer_init(&html.json, out, false);
	out_init(&html.scratch, -1);
	out_init(&html.quoted, -1);
	html.weights = malloc(view->profile->node_count * sizeof(*html.weights));
	if (html.weights && number_nodes(&html)) {
		json_begin_object(&html.json);
		write_head(&html);
		write_tree(&html);
		write_pruned(&html);
		write_kernels(&html);
		json_end_object(&html.json);
	} else {
		html.is_out_of_memory = true;
	}
	html.is_out_of_memory |= html.scratch.errnum || html.quoted.errnum;
	out_fini(&html.scratch);
	out_fini(&html.quoted);
	free(html.weights);
	free(html.number_of_node);
	free(html.number_of_frame);
	free(html.frames);
	return !html.is_out_of_memory;
}

/* The JSON is ready, or empty; '<' occurs in its strings only. */
static void write_ready(const char *key, const struct out *ready, struct out *out)
{
	const char *at = ready->bytes;
	const char *end;

	out_text(out, key);
	if (!ready->length) {
		out_text(out, "null");
		return;
	}
	end = at + ready->length;
	while (at < end && !out->errnum) {
		const char *mark = memchr(at, '<', (size_t)(end - at));

		out_bytes(out, at, (size_t)((mark ? mark : end) - at));
		if (mark)
			out_text(out, "\\u003c");
		at = mark ? mark + 1 : end;
	}
}

int export_html(struct export_view *view, struct out *out, struct proton_error *err)
{
	struct html_nodes nodes[2] = {0};
	bool has_memory = html_nodes_init(nodes, view->other ? 2 : 1, view);

	out_bytes(out, html_page_head, html_page_head_bytes);
	out_text(out, "{\"version\":\"" PROTON_VERSION "\",\"now\":");
	has_memory = has_memory && write_profile(&nodes[0], out);
	out_text(out, ",\"before\":");
	if (view->other)
		has_memory = has_memory && write_profile(&nodes[1], out);
	else
		out_text(out, "null");
	write_ready(",\"source\":", &view->report->source, out);
	write_ready(",\"ranks\":", &view->report->ranks, out);
	out_text(out, "}");
	out_bytes(out, html_page_tail, html_page_tail_bytes);
	html_nodes_fini(&nodes[0]);
	html_nodes_fini(&nodes[1]);
	return has_memory ? PROTON_OK : err_nomem(err);
}
